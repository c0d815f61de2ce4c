/* What lies in memory, as far as the pool asks: whether it has changed. The emulator carries no
 * data here, so each page has the number of the operation that wrote it last, and the digest of a
 * chunk is made of its pages' numbers. Operations write when they run, as the data they stand for
 * would: all blocks that are born in a step, and persistent ones where an optimizer updates them
 * (step_guess_access).
 *
 * Nobody asks what lies elsewhere than at home: frames have no contents of their own. */
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/random.h"
#include "replay.h"

static uint32_t *written; /* by page of the pool's addresses */
static uint32_t write_number;

void replay_content_write(const struct replay_uses *uses)
{
    const struct space *space = &replay.pool->space;
    if (!written) written = calloc(space->bytes >> space->page_shift, sizeof *written);
    if (!written) abort();
    write_number++;
    for (uint32_t i = 0; i < uses->count; i++) {
        if (!uses->part[i].writes) continue;
        uint64_t first = uses->part[i].address - space->base;
        uint64_t last = first + uses->part[i].bytes - 1;
        for (uint64_t page = first >> space->page_shift; page <= last >> space->page_shift; page++)
            written[page] = write_number;
    }
}

static bool lies_at(const struct chunk *chunk, vp_addr address)
{
    return chunk_address(chunk) == address || (chunk->frame && chunk->frame->alias == address);
}

/* The chunk that lies there, or is reached there through an alias. */
static const struct chunk *chunk_at(vp_addr address)
{
    list_each(node, &replay.pool->segments.all)
    {
        const struct segment *segment = list_entry(node, struct segment, all);
        if (segment->state == SEGMENT_BARE) continue;
        for (uint32_t i = 0; i < segment->chunk_count; i++)
            if (lies_at(&segment->chunks[i], address)) return &segment->chunks[i];
    }
    return NULL;
}

static struct digest digest_of(const struct chunk *chunk)
{
    struct digest digest = {{0}};
    const struct space *space = &replay.pool->space;
    uint64_t page = (chunk_address(chunk) - space->base) >> space->page_shift;
    for (uint32_t i = 0; written && i < chunk->pages; i++) {
        struct random random = {digest.word[0] ^ written[page + i]};
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
    const struct chunk *chunk =
        data >= EMU_ADDRESS_FIRST && data < EMU_ADDRESS_END ? chunk_at(data) : NULL;
    for (uint64_t block = b->first; block < b->last; block++) {
        uint64_t first, last;
        memset(&parts[block], 0, sizeof parts[block]);
        digest_block_units(units, block, &first, &last);
        if (chunk && block == 0) parts[block] = digest_of(chunk);
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
    free(written);
    written = NULL;
}
