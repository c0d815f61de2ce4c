/* Copies out, in pieces that follow each other without a gap, also from one chunk to the next.
 *
 * Setting access to a mapping waits in the driver for the copies to the host that are queued: 1 ms
 * where that is a whole chunk, and often where a piece follows the other without a gap (measured).
 * So one piece is queued at a time, and the next one when that is about to end, unless access is
 * being set: that goes first, and finds what is left of one piece, a small one where mappings
 * change. The last piece is left on its way, like any copy: meanwhile it is decided what comes
 * next. */
#include <assert.h>

#include "base/units.h"
#include "pool/internal.h"

/* On PCIe 5, measured (docs/design/0009): what is queued so early the link does not wait for (a
 * query and a copy call take 5 us); large pieces come to 54 GB/s, small ones to 51 where access is
 * set every 0.25 ms, which then takes 0.07 ms instead of 0.14. */
static const uint64_t large_bytes = 8 * MIB, small_bytes = 4 * MIB, lead_ns = 15 * NS_PER_US;
static const uint64_t recent_ns = NS_PER_MS;       /* mappings changed since then: small pieces */
static const uint64_t patience_ns = NS_PER_MS / 2; /* of a piece with those who set access */

struct part {
    const struct move_action *action;
    struct pool_lane *lane;
    vp_addr to, from;
    uint64_t at;          /* bytes queued */
    uint64_t gave_way_ns; /* since when the next piece waits for those who set access; 0: not */
};

static bool is_more(const struct part *part)
{
    return part->at < part->action->bytes &&
           !atomic_load_explicit(&part->action->chunk->recalled, memory_order_relaxed);
}

static bool flies(const struct pool_lane *lane)
{
    return lane->pieces_queued != lane->pieces_done;
}

/* Whether access is being set, and the piece has not waited for that for too long. */
static bool gives_way(const vp_pool *pool, struct part *part)
{
    if (!atomic_load_explicit(&pool->granting, memory_order_relaxed)) return false;
    uint64_t now_ns = pool_now_ns(pool);
    if (!part->gave_way_ns) part->gave_way_ns = now_ns;
    return now_ns - part->gave_way_ns < patience_ns;
}

static bool is_due(const vp_pool *pool, struct part *part)
{
    const struct pool_lane *lane = part->lane;
    unsigned flying = lane->pieces_queued - lane->pieces_done;
    if (flying > 1) return false;
    if (flying == 1) {
        uint64_t takes_ns = (uint64_t)((double)lane->piece_bytes[lane->pieces_done % POOL_PIECES] *
                                       lane->piece_ns_per_byte);
        if (!takes_ns || pool_now_ns(pool) - lane->piece_since_ns + lead_ns < takes_ns)
            return false;
    }
    return !gives_way(pool, part);
}

static CUresult queue_piece(vp_pool *pool, struct part *part)
{
    struct pool_lane *lane = part->lane;
    uint64_t granted_ns = atomic_load_explicit(&pool->granted_ns, memory_order_relaxed);
    bool calm = !granted_ns || pool_now_ns(pool) >= granted_ns + recent_ns;
    uint64_t most = calm ? large_bytes : small_bytes, left = part->action->bytes - part->at;
    uint64_t bytes = left < most ? left : most;
    CUresult result = pool->driver->cuMemcpyAsync(part->to + part->at, part->from + part->at, bytes,
                                                  lane->stream);
    if (result != CUDA_SUCCESS) return result;
    if (!flies(lane)) lane->piece_since_ns = pool_now_ns(pool);
    part->at += bytes;
    part->gave_way_ns = 0;
    unsigned slot = lane->pieces_queued++ % POOL_PIECES;
    lane->piece_bytes[slot] = bytes;
    return pool->driver->cuEventRecord(lane->piece_events[slot], lane->stream);
}

/* Looks whether the oldest piece on its way has ended. Not `timely`: it was not looked for
 * in time to say how long it took. */
static CUresult poll_piece(vp_pool *pool, struct pool_lane *lane, bool timely)
{
    assert(flies(lane));
    unsigned slot = lane->pieces_done % POOL_PIECES;
    CUresult result = pool->driver->cuEventQuery(lane->piece_events[slot]);
    if (result != CUDA_SUCCESS) return result;
    uint64_t now_ns = pool_now_ns(pool), bytes = lane->piece_bytes[slot];
    if (timely && bytes >= small_bytes)
        lane->piece_ns_per_byte = (double)(now_ns - lane->piece_since_ns) / (double)bytes;
    lane->piece_since_ns = now_ns;
    lane->pieces_done++;
    return CUDA_SUCCESS;
}

/* Waits a moment, for a piece if one is on its way. */
static CUresult await_piece(vp_pool *pool, struct pool_lane *lane)
{
    CUresult result = flies(lane) ? poll_piece(pool, lane, true) : CUDA_ERROR_NOT_READY;
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
        result =
            more && is_due(pool, part) ? queue_piece(pool, part) : await_piece(pool, part->lane);
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
