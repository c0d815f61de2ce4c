/* A program with the CUDA runtime linked into it: 48 buffers of 64 MiB, of which each step mixes
 * every one with its neighbour. Prints a line of JSON: seconds and a sum of each step, the bytes
 * allocated, and a hash of all words at the end.
 *
 * Usage: arrays_static STEPS */
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "../cuda_check.h"

static const int BUFFERS = 48, WORDS = 1 << 24, WIDTH = 256;

__device__ unsigned long long total; /* a global of the module: not the pool's */

__global__ void fill(unsigned *to, unsigned seed)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    to[i] = (i + seed) * 2654435761u;
}

__global__ void mix(unsigned *to, const unsigned *from)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    to[i] = (to[i] ^ from[(i * 17u) % (unsigned)WORDS]) * 2246822519u + 1;
}

__global__ void add(const unsigned *from)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&total, (unsigned long long)from[i] * (2ull * i + 1));
}

static unsigned long long sum(const unsigned *from)
{
    unsigned long long value = 0;
    CHECK(cudaMemcpyToSymbol(total, &value, sizeof value));
    add<<<WORDS / WIDTH, WIDTH>>>(from);
    CHECK(cudaMemcpyFromSymbol(&value, total, sizeof value));
    return value;
}

int main(int count, char **words)
{
    int steps = count > 1 ? atoi(words[1]) : 10;
    std::vector<unsigned *> buffers(BUFFERS);
    for (int i = 0; i < BUFFERS; i++) {
        CHECK(cudaMalloc(&buffers[i], WORDS * sizeof(unsigned)));
        fill<<<WORDS / WIDTH, WIDTH>>>(buffers[i], i);
    }
    std::vector<double> seconds, sums;
    for (int step = 0; step < steps; step++) {
        CHECK(cudaDeviceSynchronize());
        auto start = std::chrono::steady_clock::now();
        for (int i = 0; i < BUFFERS; i++)
            mix<<<WORDS / WIDTH, WIDTH>>>(buffers[i], buffers[(i + 1) % BUFFERS]);
        CHECK(cudaDeviceSynchronize());
        std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
        seconds.push_back(took.count());
        sums.push_back((double)(sum(buffers[step % BUFFERS]) >> 12));
    }
    unsigned long long hash = 0;
    for (int i = 0; i < BUFFERS; i++) hash = hash * 1000003 + sum(buffers[i]);
    CHECK(cudaGetLastError());
    printf("{\"step_s\": [");
    for (int i = 0; i < steps; i++) printf("%s%.6f", i ? ", " : "", seconds[i]);
    printf("], \"sums\": [");
    for (int i = 0; i < steps; i++) printf("%s%.0f", i ? ", " : "", sums[i]);
    printf("], \"peak_bytes\": %llu, \"hash\": \"%016llx\"}\n",
           (unsigned long long)BUFFERS * WORDS * sizeof(unsigned), hash);
    return 0;
}
