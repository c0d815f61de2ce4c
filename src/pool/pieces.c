/* Copies out, in pieces that follow each other without a gap, also from one chunk to the next.
 *
 * Setting access to a mapping waits in the driver for copies to the host that are queued, 1 ms
 * where that is a whole chunk (measured), and an operation that needs the chunk need not wait for
 * the rest. So one piece is queued at a time, and the next one when that is about to end. The last
 * one is left on its way, like any copy: meanwhile it is decided what comes next. */
#include <assert.h>

#include "base/units.h"
#include "pool/internal.h"

/* On PCIe 5: what is queued so early the link does not wait for (a query and a copy call take 5).
 */
static const uint64_t piece_bytes = 8 * MIB, lead_ns = 15 * NS_PER_US;

struct part {
    const struct move_action *action;
    struct pool_lane *lane;
    vp_addr to, from;
    uint64_t at; /* bytes queued */
};

static bool is_more(const struct part *part)
{
    return part->at < part->action->bytes &&
           !atomic_load_explicit(&part->action->chunk->recalled, memory_order_relaxed);
}

static bool is_due(const vp_pool *pool, const struct pool_lane *lane)
{
    unsigned flying = lane->pieces_queued - lane->pieces_done;
    if (flying != 1) return flying == 0;
    return lane->piece_ns && pool_now_ns(pool) - lane->piece_since_ns + lead_ns >= lane->piece_ns;
}

static CUresult queue_piece(vp_pool *pool, struct part *part)
{
    struct pool_lane *lane = part->lane;
    uint64_t left = part->action->bytes - part->at;
    uint64_t bytes = left < piece_bytes ? left : piece_bytes;
    CUresult result = pool->driver->cuMemcpyAsync(part->to + part->at, part->from + part->at, bytes,
                                                  lane->stream);
    if (result != CUDA_SUCCESS) return result;
    if (lane->pieces_queued == lane->pieces_done) lane->piece_since_ns = pool_now_ns(pool);
    part->at += bytes;
    unsigned slot = lane->pieces_queued++ % POOL_PIECES;
    lane->piece_is_whole[slot] = bytes == piece_bytes;
    return pool->driver->cuEventRecord(lane->piece_events[slot], lane->stream);
}

/* Looks whether the oldest piece on its way has ended. Not `timely`: it was not looked for
 * in time to say how long it took. */
static CUresult poll_piece(vp_pool *pool, struct pool_lane *lane, bool timely)
{
    assert(lane->pieces_queued != lane->pieces_done);
    unsigned slot = lane->pieces_done % POOL_PIECES;
    CUresult result = pool->driver->cuEventQuery(lane->piece_events[slot]);
    if (result != CUDA_SUCCESS) return result;
    uint64_t now_ns = pool_now_ns(pool);
    if (timely && lane->piece_is_whole[slot]) lane->piece_ns = now_ns - lane->piece_since_ns;
    lane->piece_since_ns = now_ns;
    lane->pieces_done++;
    return CUDA_SUCCESS;
}

static bool flies(const struct pool_lane *lane)
{
    return lane->pieces_queued != lane->pieces_done;
}

/* Waits a moment for a piece that is on its way. */
static CUresult await_piece(vp_pool *pool, struct pool_lane *lane)
{
    CUresult result = poll_piece(pool, lane, true);
    if (result != CUDA_ERROR_NOT_READY) return result;
    pool_pause(pool);
    return CUDA_SUCCESS;
}

/* Copies until all is queued, or, recalled, nothing is on its way. */
static CUresult copy_part(vp_pool *pool, struct part *part)
{
    CUresult result = CUDA_SUCCESS;
    while (result == CUDA_SUCCESS) {
        bool more = is_more(part); /* asked once: it may be recalled at any time */
        if (!more && (part->at == part->action->bytes || !flies(part->lane))) break;
        result = more && is_due(pool, part->lane) ? queue_piece(pool, part)
                                                  : await_piece(pool, part->lane);
    }
    return result;
}

CUresult pieces_copy(vp_pool *pool, const struct move_action *action, vp_addr to, vp_addr from,
                     uint64_t *queued_bytes)
{
    struct part part = {
        .action = action, .lane = &pool->lanes[action->lane], .to = to, .from = from};
    struct pool_lane *lane = part.lane;
    CUresult result = CUDA_SUCCESS;
    while (flies(lane) && result == CUDA_SUCCESS) result = poll_piece(pool, lane, false);
    if (result == CUDA_ERROR_NOT_READY) result = CUDA_SUCCESS;
    if (result == CUDA_SUCCESS) result = copy_part(pool, &part);
    if (result != CUDA_SUCCESS) {
        pool_drain_stream(pool, lane->stream);
        lane->pieces_done = lane->pieces_queued;
    }
    *queued_bytes = part.at;
    return result;
}
