/* bench: the kernels, for real cards. bench_kernels.ptx is made from this file by
 *
 *     clang -x cuda --cuda-device-only --cuda-gpu-arch=sm_70 -nocudainc -nocudalib -O2 -S \
 *         -o bench_kernels.ptx bench_kernels.cu
 *
 * and built into the command as text, which the driver compiles for the card at hand. bench_emu.c
 * has the same kernels for the emulator. No header is needed: clang's own names are used. */
typedef unsigned long long u64;
typedef u64 pair __attribute__((ext_vector_type(2)));

#define KERNEL extern "C" __attribute__((global)) void
#define THREAD                                                                                     \
    ((u64)__nvvm_read_ptx_sreg_ctaid_x() * __nvvm_read_ptx_sreg_ntid_x() +                         \
     __nvvm_read_ptx_sreg_tid_x())
#define THREADS ((u64)__nvvm_read_ptx_sreg_nctaid_x() * __nvvm_read_ptx_sreg_ntid_x())
#define MIX     0x9e3779b97f4a7c15ull

/* Word i becomes (i + seed) × MIX. `count` is even. */
KERNEL bench_write(pair *to, u64 count, u64 seed)
{
    u64 step = THREADS;
#pragma unroll 4
    for (u64 i = THREAD; i < count / 2; i += step) {
        pair value = {(2 * i + seed) * MIX, (2 * i + 1 + seed) * MIX};
        to[i] = value;
    }
}

/* Adds the sum of all words to *sum. */
KERNEL bench_read(const pair *from, u64 count, u64 *sum)
{
    u64 step = THREADS, total = 0;
#pragma unroll 4
    for (u64 i = THREAD; i < count / 2; i += step) {
        pair value = from[i];
        total += value.x + value.y;
    }
    __nvvm_atom_add_gen_ll((long long *)sum, (long long)total);
}

/* Links `count` words (a power of two), `stride` apart, to one ring in a scattered order. */
KERNEL bench_link(u64 *base, u64 count, u64 stride)
{
    for (u64 i = THREAD; i < count; i += THREADS)
        base[i * stride] = (u64)(base + (i * 1103515245 + 12345) % count * stride);
}

/* Follows the ring for so many loads, each of which needs the one before. */
KERNEL bench_chase(const u64 *start, u64 loads, u64 *end)
{
    const u64 *at = start;
    for (u64 i = 0; i < loads; i++) at = (const u64 *)*at;
    *end = (u64)at;
}
