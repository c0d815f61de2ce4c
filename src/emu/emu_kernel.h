/* emu_kernel: what a kernel of the emulated CUDA driver sees. Self-contained: programs may copy
 * this file.
 *
 * A program ships PTX for real cards and, for the emulator, one exported C function for each entry:
 * `void emu_kernel_NAME(struct emu_block *b)`, found with dlsym (link the program with -rdynamic),
 * or registered with emu_kernel_register. The emulator calls it several times a launch, each time
 * for the blocks [b->first, b->last) of the linear grid, at instants of virtual time between the
 * kernel's start and its end and in no fixed order. The function keeps no state between these calls
 * and calls no driver.
 *
 * Device memory is reached only through the accessors, which translate each access as the card
 * would at that instant. An access to what is not mapped for the card is a fault: the context is
 * lost, the accessor gives scratch memory so that the function can run on to its end, and
 * emu_faulted(b) says so.
 *
 * A kernel takes as long as `uint64_t emu_cost_NAME(struct emu_block *b)` returns, in ns, where
 * there is such a function (called once, at the start, for the whole grid; it uses emu_param,
 * emu_cost and emu_latency only). Otherwise it takes what streaming once through each mapping that
 * a parameter points into takes. */
#ifndef EMU_EMU_KERNEL_H
#define EMU_EMU_KERNEL_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* What an access does. Atomics of two kernels at the same bytes are no conflict. */
enum { EMU_READ = 1, EMU_WRITE = 2, EMU_READ_WRITE = 3, EMU_ATOMIC = 7 };

struct emu_block;

/* How the accessors reach the emulator: no symbol has to be resolved at link time. */
struct emu_block_calls {
    int (*param)(struct emu_block *b, unsigned index, void *value, size_t bytes);
    void *(*access)(struct emu_block *b, uint64_t address, size_t bytes, int mode,
                    size_t *contiguous);
    uint64_t (*cost)(struct emu_block *b, uint64_t address, uint64_t bytes);
    int (*faulted)(struct emu_block *b);
    uint64_t (*latency)(struct emu_block *b, uint64_t address);
};

struct emu_block {
    const struct emu_block_calls *calls;
    void *internal;
    const char *name;     /* of the kernel */
    uint64_t first, last; /* blocks to run now, of the grid in linear order: x fastest */
    uint32_t grid[3], block[3];
    uint32_t shared_bytes;
    uint32_t card;
};

typedef void (*emu_kernel_fn)(struct emu_block *b);
typedef uint64_t (*emu_cost_fn)(struct emu_block *b);

/* Copies parameter `index` to *value. False (and zeros) where there is none of that size. */
static inline int emu_param(struct emu_block *b, unsigned index, void *value, size_t bytes)
{
    return b->calls->param(b, index, value, bytes);
}

/* The host memory behind [address, address + *contiguous): *contiguous is at least 1 and at most
 * `bytes`; call again for the rest. The pointer is good until this call of the kernel function
 * returns. Never NULL. */
static inline void *emu_access(struct emu_block *b, uint64_t address, size_t bytes, int mode,
                               size_t *contiguous)
{
    return b->calls->access(b, address, bytes, mode, contiguous);
}

/* Whether this kernel has faulted. */
static inline int emu_faulted(struct emu_block *b)
{
    return b->calls->faulted(b);
}

/* For cost functions: how long streaming through the bytes takes from where they lie now, in ns. */
static inline uint64_t emu_cost(struct emu_block *b, uint64_t address, uint64_t bytes)
{
    return b->calls->cost(b, address, bytes);
}

/* For cost functions: how long one load takes from where the address lies now, in ns. */
static inline uint64_t emu_latency(struct emu_block *b, uint64_t address)
{
    return b->calls->latency(b, address);
}

/* The threads of the blocks to run, in linear order: [*first, *last). */
static inline void emu_threads(const struct emu_block *b, uint64_t *first, uint64_t *last)
{
    uint64_t threads = (uint64_t)b->block[0] * b->block[1] * b->block[2];
    *first = b->first * threads;
    *last = b->last * threads;
}

static inline void emu_read(struct emu_block *b, uint64_t address, void *out, size_t bytes)
{
    for (size_t done = 0, part; done < bytes; done += part) {
        const void *from = emu_access(b, address + done, bytes - done, EMU_READ, &part);
        memcpy((char *)out + done, from, part);
    }
}

static inline void emu_write(struct emu_block *b, uint64_t address, const void *in, size_t bytes)
{
    for (size_t done = 0, part; done < bytes; done += part) {
        void *to = emu_access(b, address + done, bytes - done, EMU_WRITE, &part);
        memcpy(to, (const char *)in + done, part);
    }
}

/* emu_param_T, emu_load_T, emu_store_T for one value. Loads and stores are of natural alignment, as
 * on a card, so one access is enough. */
#define EMU_VALUE(name, type)                                                                      \
    static inline type emu_param_##name(struct emu_block *b, unsigned index)                       \
    {                                                                                              \
        type value;                                                                                \
        emu_param(b, index, &value, sizeof value);                                                 \
        return value;                                                                              \
    }                                                                                              \
    static inline type emu_load_##name(struct emu_block *b, uint64_t address)                      \
    {                                                                                              \
        type value;                                                                                \
        size_t part;                                                                               \
        memcpy(&value, emu_access(b, address, sizeof value, EMU_READ, &part), sizeof value);       \
        return value;                                                                              \
    }                                                                                              \
    static inline void emu_store_##name(struct emu_block *b, uint64_t address, type value)         \
    {                                                                                              \
        size_t part;                                                                               \
        memcpy(emu_access(b, address, sizeof value, EMU_WRITE, &part), &value, sizeof value);      \
    }                                                                                              \
    static inline type emu_atomic_add_##name(struct emu_block *b, uint64_t address, type value)    \
    {                                                                                              \
        size_t part;                                                                               \
        type old, sum;                                                                             \
        void *at = emu_access(b, address, sizeof value, EMU_ATOMIC, &part);                        \
        memcpy(&old, at, sizeof old);                                                              \
        sum = (type)(old + value);                                                                 \
        memcpy(at, &sum, sizeof sum);                                                              \
        return old;                                                                                \
    }
EMU_VALUE(u8, uint8_t)
EMU_VALUE(u16, uint16_t)
EMU_VALUE(u32, uint32_t)
EMU_VALUE(i32, int32_t)
EMU_VALUE(u64, uint64_t)
EMU_VALUE(f32, float)
EMU_VALUE(f64, double)
#undef EMU_VALUE

#endif
