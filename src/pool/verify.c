/* Verify mode: while an operation runs, only what it may touch is mapped, so a hidden access faults
 * at once.
 *
 * Operations run one at a time: what they touch is mapped on the way in, the device is synchronised
 * on the way out, and all that is mapped is unmapped again. With `params`, tables are not followed:
 * who needs more than the parameters shows. */
#include "pool/internal.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/units.h"

enum { HISTORY = 8, SYNC_TRIES = 32 };

void verify_begin(struct pool_op *op)
{
    op->verifying = true;
    pthread_mutex_lock(&op->pool->verifying);
}

static uint64_t count_chunks(const struct pool_op *op, uint32_t touches)
{
    uint64_t chunks = 0;
    for (uint32_t i = 0; i < touches; i++)
        chunks += op->thread->touches[i].last_chunk - op->thread->touches[i].first_chunk + 1;
    return chunks;
}

void verify_count(struct pool_op *op, uint32_t named)
{
    uint64_t parameters = count_chunks(op, named);
    if (!parameters) return;
    uint64_t tenths = 10 * count_chunks(op, op->request.count) / parameters - 10;
    op->pool->touch_ratios[tenths < VERIFY_RATIOS ? tenths : VERIFY_RATIOS - 1]++;
}

uint64_t verify_ratio_percent(const vp_pool *pool)
{
    uint64_t all = 0, seen = 0;
    for (unsigned i = 0; i < VERIFY_RATIOS; i++) all += pool->touch_ratios[i];
    for (unsigned i = 0; i < VERIFY_RATIOS && all; i++) {
        seen += pool->touch_ratios[i];
        if (seen * 100 >= all * 99) return 100 + 10 * i;
    }
    return 0;
}

static void list_touched(const struct pool_op *op)
{
    for (uint32_t i = 0; i < op->request.count && i < 2 * HISTORY; i++) {
        const struct move_touch *touch = &op->thread->touches[i];
        char size[16];
        log_error("  it may touch block %u: %s at %#llx, chunks %u to %u", touch->segment->id,
                  units_format_size(touch->segment->bytes, size, sizeof size),
                  (unsigned long long)touch->segment->base, touch->first_chunk, touch->last_chunk);
    }
}

/* The blocks next to those touched are where an overrun ends. */
static void list_neighbours(const struct pool_op *op)
{
    const struct segments *segments = &op->pool->segments;
    for (uint32_t i = 0; i < op->request.count && i < HISTORY; i++) {
        const struct segment *segment = op->thread->touches[i].segment;
        vp_addr end = segment->base + segment->pages * op->pool->page_bytes;
        const struct segment *next = segment_of(segments, end + op->pool->page_bytes);
        if (next)
            log_error("  behind block %u (ends at %#llx) lies block %u, last used by operation "
                      "%llu of its "
                      "stream",
                      segment->id, (unsigned long long)end, next->id,
                      (unsigned long long)(next->uses.count ? next->uses.use[0].sequence : 0));
    }
}

static void report(const struct pool_op *op, CUresult result)
{
    const vp_pool *pool = op->pool;
    log_error(
        "verify: %s (operation %llu of its stream) touched memory outside what it may touch: %s",
        op->function ? op->function->name : op->name, (unsigned long long)op->sequence,
        driver_error_name(pool->driver, result));
    list_touched(op);
    list_neighbours(op);
    for (unsigned i = HISTORY; i-- > 0;) {
        const struct verify_past *past =
            &pool->past[(pool->past_count + HISTORY - 1 - i) % HISTORY];
        if (past->name) log_error("  before: %s, with %u blocks", past->name, past->touches);
    }
    log_error("verify: --always-mapped makes such an access slow instead of fatal; please report "
              "these lines");
}

static void hide(vp_pool *pool, const struct pool_op *op)
{
    pool_lock(pool);
    for (uint32_t i = 0; i < op->request.count; i++) {
        const struct move_touch *touch = &op->thread->touches[i];
        if (move_touch_is_gone(touch)) continue; /* freeing saw to it */
        if (touch->segment->captured) continue;  /* used by what will not name it */
        for (uint32_t k = touch->first_chunk; k <= touch->last_chunk; k++)
            move_hide(&pool->move, &touch->segment->chunks[k]);
    }
    while (pool->move.moving && !pool->lost)
        if (!pool_work(pool)) pool_wait(pool, 20 * NS_PER_US);
    pool_unlock(pool);
}

CUresult verify_end(struct pool_op *op, CUresult result)
{
    vp_pool *pool = op->pool;
    if (result == CUDA_SUCCESS && !op->request.host_waits) {
        for (unsigned tries = 0; tries < SYNC_TRIES; tries++) {
            result = pool->driver->cuCtxSynchronize();
            if (result == CUDA_SUCCESS) break; /* a fault stays */
        }
        if (result != CUDA_SUCCESS) {
            report(op, result);
            pool->lost = true;
            pool->lost_with = result;
        } else {
            hide(pool, op);
        }
    }
    pool->past[pool->past_count++ % HISTORY] =
        (struct verify_past){op->function ? op->function->name : op->name, op->request.count};
    pthread_mutex_unlock(&pool->verifying);
    return result;
}
