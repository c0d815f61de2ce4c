/* Copies out, in pieces that follow each other without a gap.
 *
 * Setting access to a mapping waits in the driver for copies to the host that are queued, 1 ms
 * where that is a whole chunk (measured), and an operation that needs the chunk need not wait for
 * the rest. So one piece is queued at a time, and the next one when that is about to end. */
#include "base/units.h"
#include "pool/internal.h"

/* On PCIe 5: what is queued so early the link does not wait for (a query and a copy call take 5).
 */
static const uint64_t piece_bytes = 8 * MIB, lead_ns = 15 * NS_PER_US;

struct pieces {
    const struct move_action *action;
    struct pool_lane *lane;
    vp_addr to, from;
    uint64_t at;           /* bytes queued */
    unsigned queued, done; /* pieces */
    uint64_t since_ns;     /* when the oldest one that is not done began */
};

static bool is_more(const struct pieces *pieces)
{
    return pieces->at < pieces->action->bytes &&
           !atomic_load_explicit(&pieces->action->chunk->recalled, memory_order_relaxed);
}

static bool is_due(const vp_pool *pool, const struct pieces *pieces)
{
    unsigned flying = pieces->queued - pieces->done;
    if (flying != 1) return flying == 0;
    uint64_t last_ns = pieces->lane->piece_ns;
    return last_ns && pool_now_ns(pool) - pieces->since_ns + lead_ns >= last_ns;
}

static CUresult queue_piece(vp_pool *pool, struct pieces *pieces)
{
    uint64_t left = pieces->action->bytes - pieces->at;
    uint64_t bytes = left < piece_bytes ? left : piece_bytes;
    CUstream stream = pieces->lane->stream;
    CUresult result = pool->driver->cuMemcpyAsync(pieces->to + pieces->at,
                                                  pieces->from + pieces->at, bytes, stream);
    if (result != CUDA_SUCCESS) return result;
    if (pieces->queued == pieces->done) pieces->since_ns = pool_now_ns(pool);
    pieces->at += bytes;
    return pool->driver->cuEventRecord(pieces->lane->events[pieces->queued++ % 2], stream);
}

static void note_done(const vp_pool *pool, struct pieces *pieces)
{
    uint64_t now_ns = pool_now_ns(pool);
    pieces->done++;
    if (pieces->done * piece_bytes <= pieces->action->bytes) /* a whole one */
        pieces->lane->piece_ns = now_ns - pieces->since_ns;
    pieces->since_ns = now_ns;
}

CUresult pieces_copy(vp_pool *pool, const struct move_action *action, vp_addr to, vp_addr from,
                     uint64_t *queued_bytes)
{
    struct pieces pieces = {
        .action = action, .lane = &pool->lanes[action->lane], .to = to, .from = from};
    CUresult result = CUDA_SUCCESS;
    while (is_more(&pieces) || pieces.queued > pieces.done) {
        if (is_more(&pieces) && is_due(pool, &pieces)) {
            result = queue_piece(pool, &pieces);
            if (result != CUDA_SUCCESS) break;
            continue;
        }
        result = pool->driver->cuEventQuery(pieces.lane->events[pieces.done % 2]);
        if (result == CUDA_SUCCESS)
            note_done(pool, &pieces);
        else if (result == CUDA_ERROR_NOT_READY)
            pool_pause(pool);
        else
            break;
    }
    if (result != CUDA_SUCCESS) pool_drain_stream(pool, pieces.lane->stream);
    *queued_bytes = pieces.at;
    return result;
}
