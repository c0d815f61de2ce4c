/* What lies in memory, as far as the pool asks: whether it has changed. The emulator carries no
 * data here, so each 4 KiB have the number of the operation that wrote them last, and a digest is
 * made of these numbers. Operations write when they run, as the data they stand for
 * would: all blocks that are born in a step, and persistent ones where an optimizer updates them
 * (step_guess_access).
 *
 * Nobody asks what lies elsewhere than at home: frames have no contents of their own. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/digest.h"
#include "base/random.h"
#include "replay.h"

enum { GRAIN_SHIFT = 12 };

static uint32_t *written; /* by so many bytes of the pool's addresses */
static uint64_t written_bytes;
static uint32_t write_number;

void replay_content_write(const struct replay_uses *uses)
{
    const struct space *space = &replay.pool->space;
    if (!written) {
        written_bytes = (space->bytes >> GRAIN_SHIFT) * sizeof *written;
        int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        written = mmap(NULL, written_bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
        if (written == MAP_FAILED) abort();
    }
    write_number++;
    for (uint32_t i = 0; i < uses->count; i++) {
        if (!uses->part[i].writes) continue;
        uint64_t first = uses->part[i].address - space->base;
        uint64_t last = first + uses->part[i].bytes - 1;
        for (uint64_t grain = first >> GRAIN_SHIFT; grain <= last >> GRAIN_SHIFT; grain++)
            written[grain] = write_number;
    }
}

/* The pool's address of what lies there, in a chunk or through an alias; 0: nothing of the pool. */
static vp_addr home_of(vp_addr address)
{
    list_each(node, &replay.pool->segments.all)
    {
        const struct segment *segment = list_entry(node, struct segment, all);
        if (segment->state == SEGMENT_BARE) continue;
        for (uint32_t i = 0; i < segment->chunk_count; i++) {
            const struct chunk *chunk = &segment->chunks[i];
            vp_addr home = chunk_address(chunk), alias = chunk->frame ? chunk->frame->alias : 0;
            uint64_t bytes = chunk_bytes(&replay.pool->segments, chunk);
            if (address - home < bytes) return address;
            if (alias && address - alias < bytes) return home + (address - alias);
        }
    }
    return 0;
}

static struct digest digest_of(vp_addr address, uint64_t bytes)
{
    struct digest digest = {{0}};
    uint64_t first = address - replay.pool->space.base, last = first + bytes - 1;
    for (uint64_t i = first >> GRAIN_SHIFT; written && i <= last >> GRAIN_SHIFT; i++) {
        struct random random = {digest.word[0] ^ written[i]};
        digest.word[0] = random_next(&random);
    }
    return digest;
}

/* The kernel's blocks that stand for the whole add nothing, but for the first. */
static void run(struct emu_block *b)
{
    uint64_t data = emu_param_u64(b, 0), units = emu_param_u64(b, 1);
    struct digest *parts = (struct digest *)(uintptr_t)emu_param_u64(b, 2);
    struct digest_seeds seeds = {{emu_param_u64(b, 3), emu_param_u64(b, 4)}};
    vp_addr home = data >= EMU_ADDRESS_FIRST && data < EMU_ADDRESS_END ? home_of(data) : 0;
    for (uint64_t block = b->first; block < b->last; block++) {
        uint64_t first, last;
        memset(&parts[block], 0, sizeof parts[block]);
        digest_block_units(units, block, &first, &last);
        if (home && block == 0) parts[block] = digest_of(home, units * DIGEST_UNIT_BYTES);
        if (data < EMU_ADDRESS_FIRST) /* host memory: the pool's trial */
            digest_add_units(&parts[block], &seeds, first,
                             (const char *)(uintptr_t)data + first * DIGEST_UNIT_BYTES,
                             last - first);
    }
}

static uint64_t cost(struct emu_block *b)
{
    static const uint64_t base_ns = 2000;
    return base_ns + emu_cost(b, emu_param_u64(b, 0), emu_param_u64(b, 1) * DIGEST_UNIT_BYTES);
}

void replay_content_begin(void)
{
    if (emu_kernel_register(DIGEST_KERNEL, run, cost) != VP_OK) abort();
}

void replay_content_end(void)
{
    if (written) munmap(written, written_bytes);
    written = NULL;
}
