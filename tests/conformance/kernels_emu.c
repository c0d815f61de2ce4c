/* The kernels of kernels.ptx for the emulator. */
#include "emu/emu_kernel.h"

#define KERNEL(name)                                                                               \
    void emu_kernel_##name(struct emu_block *b);                                                   \
    void emu_kernel_##name(struct emu_block *b)

/* Runs the body for each thread of these blocks with number i below count. */
#define EACH(b, i, count)                                                                          \
    uint64_t first_, last_;                                                                        \
    emu_threads(b, &first_, &last_);                                                               \
    for (uint64_t i = first_; i < last_ && i < (count); i++)

KERNEL(fill)
{
    uint64_t to = emu_param_u64(b, 0);
    uint32_t value = emu_param_u32(b, 1), count = emu_param_u32(b, 2);
    EACH(b, i, count) emu_store_u32(b, to + 4 * i, value);
}

KERNEL(move_words)
{
    uint64_t to = emu_param_u64(b, 0), from = emu_param_u64(b, 1);
    uint32_t count = emu_param_u32(b, 2);
    EACH(b, i, count) emu_store_u32(b, to + 4 * i, emu_load_u32(b, from + 4 * i));
}

KERNEL(add_words)
{
    uint64_t to = emu_param_u64(b, 0);
    uint32_t value = emu_param_u32(b, 1), count = emu_param_u32(b, 2);
    EACH(b, i, count) emu_store_u32(b, to + 4 * i, emu_load_u32(b, to + 4 * i) + value);
}

KERNEL(spin)
{
    (void)b;
}

uint64_t emu_cost_spin(struct emu_block *b);
uint64_t emu_cost_spin(struct emu_block *b)
{
    return emu_param_u64(b, 0);
}

KERNEL(gather)
{
    uint64_t to = emu_param_u64(b, 0), from = emu_param_u64(b, 1);
    uint32_t count = emu_param_u32(b, 2);
    EACH(b, i, count)
    emu_store_u32(b, to + 4 * i, emu_load_u32(b, emu_load_u64(b, from + 8 * i)));
}

KERNEL(atomics)
{
    uint64_t to = emu_param_u64(b, 0);
    uint32_t count = emu_param_u32(b, 1);
    EACH(b, i, count)
    {
        emu_atomic_add_u32(b, to, 1);
        emu_atomic_add_u64(b, to + 8, 1);
        emu_atomic_add_f32(b, to + 16, 1);
        emu_atomic_add_u32(b, to + 24, 1);
    }
}

KERNEL(many_params)
{
    (void)b;
}

KERNEL(no_params)
{
    (void)b;
}
