/* A card's share grows back.
 *
 * Where the driver wanted memory (relief.c), or another program took it before the pool did, a card
 * holds less than its share. Once the driver has plenty again, that program having ended, the share
 * grows back: a sixteenth of it a second at most, by no more than half of what is free beyond a
 * margin of twice the headroom, so that whoever allocates meanwhile finds something, and not before
 * ten seconds are over since it shrank. Nothing is taken by that: frames are made when they are
 * needed. Only cards that compute have a context to ask in. */
#include "pool/internal.h"

#include "base/log.h"

static const uint64_t look_ns = NS_PER_S, rest_ns = 10 * NS_PER_S;

enum { STEP_PART = 16, MARGIN_HEADROOMS = 2 };

void regrow_rest(vp_pool *pool)
{
    pool->regrow_at_ns = pool_now_ns(pool) + rest_ns;
}

static struct frame_place *home_of(vp_pool *pool, unsigned card)
{
    return &pool->frames.place[pool->move.home[card]];
}

static bool is_short(vp_pool *pool, unsigned card)
{
    const struct frame_place *home = home_of(pool, card);
    return (pool->computes >> card & 1) && home->capacity_pages < home->share_pages;
}

/* What the driver has free beyond the margin, in pages; lock not held. */
static uint64_t ask(vp_pool *pool, unsigned card)
{
    CUcontext before;
    size_t free_bytes = 0, total_bytes = 0;
    if (pool_enter_context(pool, pool->context[card], &before) != CUDA_SUCCESS) return 0;
    CUresult asked = pool->driver->cuMemGetInfo_v2(&free_bytes, &total_bytes);
    pool_leave_context(pool, pool->context[card], before);
    uint64_t margin = MARGIN_HEADROOMS * pool_headroom_bytes(total_bytes);
    if (asked != CUDA_SUCCESS || free_bytes <= margin) return 0;
    return (free_bytes - margin) / pool->page_bytes;
}

/* False also where the card shrank, or gives memory to the driver, since it was asked. */
static bool grow(vp_pool *pool, unsigned card, uint64_t due_ns)
{
    pool_unlock(pool);
    uint64_t plenty = ask(pool, card);
    pool_lock(pool);
    const struct frame_place *home = home_of(pool, card);
    if (pool->reliefs || pool->lost || pool->regrow_at_ns != due_ns) return false;
    uint64_t unmade = frame_room_pages(&pool->frames, pool->move.home[card]) - home->free_pages;
    uint64_t most = plenty > unmade ? (plenty - unmade) / 2 : 0,
             step = home->share_pages / STEP_PART;
    if (step < pool->segments.chunk_pages) step = pool->segments.chunk_pages;
    if (!frame_grow_back(&pool->frames, pool->move.home[card], most < step ? most : step))
        return false;
    pool->move.changes++;
    log_info("%s grows back to %llu MiB", home->name,
             (unsigned long long)(home->capacity_pages * pool->page_bytes >> 20));
    return true;
}

bool regrow(vp_pool *pool)
{
    bool any = false, due = false;
    for (unsigned card = 0; card < pool->cards; card++) due |= is_short(pool, card);
    if (!due || pool->reliefs || pool->captures || pool->lost) return false;
    uint64_t now_ns = pool_now_ns(pool), next_ns = now_ns + look_ns;
    if (now_ns < pool->regrow_at_ns) return false;
    pool->regrow_at_ns = next_ns;
    for (unsigned card = 0; card < pool->cards; card++)
        if (is_short(pool, card)) any |= grow(pool, card, next_ns);
    return any;
}
