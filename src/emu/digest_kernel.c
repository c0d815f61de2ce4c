/* The pool's own kernel (pool/digest_kernel.cu), so that a pool on the emulator needs nothing of
 * the program. A program may still register a function of that name in its place. */
#include "base/digest.h"
#include "emu/internal.h"

static void add_block(struct emu_block *b, uint64_t block, uint64_t data, uint64_t units,
                      struct digest *part)
{
    struct digest_seeds seeds = {{emu_param_u64(b, 3), emu_param_u64(b, 4)}};
    uint64_t at, last;
    digest_block_units(units, block, &at, &last);
    while (at < last) {
        size_t bytes;
        const void *from = emu_access(b, data + at * DIGEST_UNIT_BYTES,
                                      (last - at) * DIGEST_UNIT_BYTES, EMU_READ, &bytes);
        digest_add_units(part, &seeds, at, from, bytes / DIGEST_UNIT_BYTES);
        at += bytes / DIGEST_UNIT_BYTES; /* what is contiguous ends where a page does */
    }
}

void digest_kernel_run(struct emu_block *b)
{
    uint64_t data = emu_param_u64(b, 0), units = emu_param_u64(b, 1), parts = emu_param_u64(b, 2);
    for (uint64_t block = b->first; block < b->last; block++) {
        struct digest part = {{0}};
        add_block(b, block, data, units, &part);
        emu_write(b, parts + block * sizeof part, &part, sizeof part);
    }
}

uint64_t digest_kernel_cost(struct emu_block *b)
{
    return DIGEST_KERNEL_BASE_NS +
           emu_cost(b, emu_param_u64(b, 0), emu_param_u64(b, 1) * DIGEST_UNIT_BYTES);
}
