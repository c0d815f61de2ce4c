/* Uses of the CUDA runtime that frameworks make rarely, each a case of mix_cases.py. Built there with
 * `nvcc -rdc=true -cudart static`. Prints one number, the sum of what the case computed.
 *
 * Usage: mix_runtime CASE */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "cuda_check.h"

static const int WORDS = 1 << 22, WIDTH = 256; /* 16 MiB: a segment of its own */

__device__ unsigned long long total;
__device__ unsigned *hidden; /* an address in a variable of the module */

__global__ void fill(unsigned *to, unsigned seed, int words)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < words) to[i] = (i + seed) * 2654435761u;
}

__global__ void add(const unsigned *from, int words)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < words) atomicAdd(&total, (unsigned long long)from[i]);
}

/* Launches kernels from the device, over memory that only a table in memory names. */
__global__ void fill_all(unsigned **table, int count)
{
    int i = threadIdx.x;
    if (i < count) fill<<<WORDS / WIDTH, WIDTH>>>(table[i], i, WORDS);
}

__global__ void add_hidden(int words)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < words) atomicAdd(&total, (unsigned long long)hidden[i]);
}

__global__ void fetch(cudaTextureObject_t from, unsigned *to)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    to[i] = tex1Dfetch<unsigned>(from, WORDS - 1 - i) ^ i;
}

static unsigned *filled(unsigned seed)
{
    unsigned *at;
    CHECK(cudaMalloc(&at, WORDS * sizeof *at));
    fill<<<WORDS / WIDTH, WIDTH>>>(at, seed, WORDS);
    return at;
}

static void sum(const unsigned *from, int words)
{
    add<<<(words + WIDTH - 1) / WIDTH, WIDTH>>>(from, words);
    CHECK(cudaGetLastError());
}

static void device_launch()
{
    const int count = 4;
    std::vector<unsigned *> blocks(count);
    for (int i = 0; i < count; i++) blocks[i] = filled(100 + i);
    unsigned **table;
    CHECK(cudaMalloc(&table, count * sizeof *table));
    CHECK(cudaMemcpy(table, blocks.data(), count * sizeof *table, cudaMemcpyHostToDevice));
    for (int round = 0; round < 3; round++) fill_all<<<1, 32>>>(table, count);
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < count; i++) sum(blocks[i], WORDS);
}

static void pitched()
{
    const int width = 1001, height = 1003;
    std::vector<unsigned> rows(width * height);
    for (size_t i = 0; i < rows.size(); i++) rows[i] = (unsigned)i * 7;
    unsigned *at;
    size_t pitch;
    CHECK(cudaMallocPitch(&at, &pitch, width * sizeof(unsigned), height));
    CHECK(cudaMemset2D(at, pitch, 0, pitch, height));
    CHECK(cudaMemcpy2D(at, pitch, rows.data(), width * sizeof(unsigned), width * sizeof(unsigned),
                       height, cudaMemcpyHostToDevice));
    sum(at, (int)(pitch / sizeof(unsigned) * height));
}

static void stream_ordered()
{
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    for (int i = 0; i < 8; i++) {
        unsigned *at;
        CHECK(cudaMallocAsync(&at, WORDS * sizeof *at, stream));
        fill<<<WORDS / WIDTH, WIDTH, 0, stream>>>(at, i, WORDS);
        add<<<WORDS / WIDTH, WIDTH, 0, stream>>>(at, WORDS);
        CHECK(cudaFreeAsync(at, stream));
    }
    CHECK(cudaStreamSynchronize(stream));
}

/* The kernel is given no address at all. */
static void device_global()
{
    unsigned *at = filled(5);
    CHECK(cudaMemcpyToSymbol(hidden, &at, sizeof at));
    for (int i = 0; i < 3; i++) add_hidden<<<WORDS / WIDTH, WIDTH>>>(WORDS);
    CHECK(cudaGetLastError());
}

static void texture_object()
{
    unsigned *from = filled(9), *to = filled(0);
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeLinear;
    resource.res.linear.devPtr = from;
    resource.res.linear.desc = cudaCreateChannelDesc<unsigned>();
    resource.res.linear.sizeInBytes = WORDS * sizeof *from;
    cudaTextureDesc how = {};
    cudaTextureObject_t object;
    CHECK(cudaCreateTextureObject(&object, &resource, &how, NULL));
    for (int i = 0; i < 3; i++) fetch<<<WORDS / WIDTH, WIDTH>>>(object, to);
    sum(to, WORDS);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaDestroyTextureObject(object));
}

/* Memory of the host that kernels reach: not the pool's. */
static void registered_host()
{
    unsigned *host = (unsigned *)aligned_alloc(4096, WORDS * sizeof *host), *at;
    for (int i = 0; i < WORDS; i++) host[i] = (unsigned)i;
    CHECK(cudaHostRegister(host, WORDS * sizeof *host, cudaHostRegisterMapped));
    CHECK(cudaHostGetDevicePointer((void **)&at, host, 0));
    sum(at, WORDS);
    unsigned *copy = filled(1);
    CHECK(cudaMemcpyAsync(copy, host, WORDS * sizeof *host, cudaMemcpyHostToDevice));
    sum(copy, WORDS);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaHostUnregister(host));
    free(host);
}

int main(int count, char **words)
{
    static const struct {
        const char *name;
        void (*run)();
    } cases[] = {{"device_launch", device_launch},   {"pitched", pitched},
                 {"stream_ordered", stream_ordered}, {"device_global", device_global},
                 {"texture_object", texture_object}, {"registered_host", registered_host}};
    for (const auto &one : cases) {
        if (count != 2 || strcmp(words[1], one.name) != 0) continue;
        one.run();
        unsigned long long value = 0;
        CHECK(cudaMemcpyFromSymbol(&value, total, sizeof value));
        printf("%llu\n", value);
        return 0;
    }
    fprintf(stderr, "mix_runtime CASE\n");
    return 2;
}
