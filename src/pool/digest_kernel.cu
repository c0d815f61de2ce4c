/* The kernel that makes digests on a card. digest_kernel.ptx is made from this file by
 *
 *     nvcc -ptx -arch=compute_75 -o digest_kernel.ptx digest_kernel.cu
 *     sed -i '/^.version/c .version 6.4' digest_kernel.ptx    # or older drivers refuse it
 *     sed -i '/^.target/c .target sm_70' digest_kernel.ptx    # it needs no more
 *
 * and built into the library as text, which the driver compiles for the card at hand. What it
 * computes is said in base/digest.h; emu/digest_kernel.c is the same for the emulator. The pool
 * tries it on data whose digest it knows before it relies on it (digest.c). */
typedef unsigned long long u64;

enum { BLOCKS = 256, THREADS = 256 }; /* as in base/digest.h */

static __device__ u64 key(u64 seed, u64 index)
{
    u64 z = seed + (index + 1) * 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

static __device__ void add(u64 *low, u64 *high, u64 more_low, u64 more_high)
{
    *low += more_low;
    *high += more_high + (*low < more_low);
}

static __device__ void add_product(u64 *low, u64 *high, u64 left, u64 right)
{
    add(low, high, left * right, __umul64hi(left, right));
}

extern "C" __global__ void __launch_bounds__(THREADS)
    vrampool_digest(const ulonglong2 *data, u64 units, u64 *parts, u64 seed0, u64 seed1)
{
    __shared__ u64 sums[4][THREADS];
    u64 each = (units + BLOCKS - 1) / BLOCKS;
    u64 first = blockIdx.x * each, last = first + each;
    if (last > units) last = units;
    u64 sum[4] = {0, 0, 0, 0};
#pragma unroll 2
    for (u64 i = first + threadIdx.x; i < last; i += THREADS) {
        ulonglong2 unit = data[i];
        add_product(&sum[0], &sum[1], unit.x + key(seed0, 2 * i), unit.y + key(seed0, 2 * i + 1));
        add_product(&sum[2], &sum[3], unit.x + key(seed1, 2 * i), unit.y + key(seed1, 2 * i + 1));
    }
    for (int k = 0; k < 4; k++) sums[k][threadIdx.x] = sum[k];
    for (unsigned half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x >= half) continue;
        for (int s = 0; s < 4; s += 2)
            add(&sums[s][threadIdx.x], &sums[s + 1][threadIdx.x], sums[s][threadIdx.x + half],
                sums[s + 1][threadIdx.x + half]);
    }
    if (threadIdx.x == 0)
        for (int k = 0; k < 4; k++) parts[4 * blockIdx.x + k] = sums[k][0];
}
