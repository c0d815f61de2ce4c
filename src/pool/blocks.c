/* Blocks as traces and the finder know them: by number, those that are not small. */
#include "pool/internal.h"

#include "trace/trace.h"

void pool_block_lives(vp_pool *pool, uint32_t id, uint64_t bytes)
{
    if (block_is_small(&pool->segments, bytes)) return;
    if (pool->record) record_alloc(pool, id, bytes);
    if (pool->foresee) foresee_alloc(pool, id, bytes);
}

void pool_block_dies(vp_pool *pool, uint32_t id, uint64_t bytes)
{
    if (block_is_small(&pool->segments, bytes)) return;
    if (pool->record) record_free(pool, id);
    if (pool->foresee) foresee_free(pool, id);
}

/* The block that an address stands for, or 0 where it is small or was seen under this serial. */
static uint32_t unseen_at(vp_pool *pool, vp_addr address, uint64_t serial)
{
    struct segment *segment = segment_of(&pool->segments, address);
    if (!segment || segment->slab) return 0; /* blocks of a slab are small */
    uint64_t *seen = &segment->seen, bytes = segment->bytes;
    uint32_t id = segment->id;
    if (segment->noted) {
        struct block *block = segment_block_at(segment, address);
        if (!block) return 0;
        seen = &block->seen;
        bytes = block->end - block->start;
        id = block->id;
    }
    if (block_is_small(&pool->segments, bytes) || *seen == serial) return 0;
    *seen = serial;
    return id;
}

uint32_t pool_op_blocks(const struct pool_op *op, uint32_t *ids)
{
    vp_pool *pool = op->pool;
    uint64_t serial = ++pool->seen_serial;
    uint32_t count = 0;
    for (uint32_t i = 0; i < op->word_count; i++) {
        uint32_t id = unseen_at(pool, op->thread->words[i], serial);
        if (id) ids[count++] = id;
    }
    return count;
}

enum trace_kind pool_op_trace_kind(const struct pool_op *op)
{
    static const enum trace_kind kinds[] = {[POOL_KERNEL] = TRACE_KERNEL,
                                            [POOL_COPY] = TRACE_COPY,
                                            [POOL_MEMSET] = TRACE_MEMSET,
                                            [POOL_GRAPH] = TRACE_GRAPH};
    return kinds[op->kind];
}
