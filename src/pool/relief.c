/* Giving memory back to the driver, for calls of the program's that fail for lack of it: modules,
 * contexts, local memory, allocations that are not the pool's.
 *
 * What a card gives stops being the pool's: neither the frames given nor those not made yet may
 * become frames again before the call was repeated, or the mover would take what the driver needs.
 * Afterwards the pool gets what the driver did not take, and a place that has less than it was
 * thought to have is smaller from then on. Nothing is given that blocks are promised. */
#include "pool/internal.h"

#include "base/log.h"
#include "base/units.h"

static const uint64_t relief_most_ns = NS_PER_S, relief_wait_ns = 50 * NS_PER_US;

enum {
    UNKNOWN_PART = 8, /* of a card is given where nobody says how much is needed, */
    SPARE_PART = 64,  /* and is left to the driver, for the next such call; at most: */
    SPARE_MIB = 64,
    UNKNOWN_MIB = 1024,
};

static uint64_t part_of(const vp_pool *pool, unsigned place, uint64_t part, uint64_t most_mib)
{
    uint64_t pages = pool->frames.place[place].capacity_pages / part;
    uint64_t most = most_mib * MIB / pool->page_bytes;
    return pages < most ? pages : most;
}

/* What the driver has free on a card, whose context is current. */
static bool ask_free(const vp_pool *pool, uint64_t *bytes)
{
    size_t free_bytes = 0, total_bytes = 0;
    if (pool->driver->cuMemGetInfo_v2(&free_bytes, &total_bytes) != CUDA_SUCCESS) return false;
    *bytes = free_bytes;
    return true;
}

/* By how much a card's home may shrink without breaking a promise; lock held. */
static uint64_t spare_pages(vp_pool *pool, unsigned card)
{
    struct frame_place *home = &pool->frames.place[pool->move.home[card]];
    uint64_t ceded = home->ceded_pages, least = 0, most = frame_capacity_pages(home) + 1;
    while (least + 1 < most) { /* least can be spared, most cannot */
        uint64_t middle = (least + most) / 2;
        home->ceded_pages = ceded + middle;
        *(pool_fits(pool, card, 0) ? &least : &most) = middle;
        home->ceded_pages = ceded;
    }
    return least;
}

/* Has the place give pages, and waits for that; lock held, let go in between. */
static uint64_t collect(vp_pool *pool, unsigned place, uint64_t wanted, uint64_t most)
{
    uint64_t began = pool_now_ns(pool);
    owed_begin(&pool->move, place, wanted, most, place != pool->host_place);
    pool_wake(pool);
    while (owed_is_open(&pool->move, place)) {
        if (pool->lost || pool_now_ns(pool) - began > relief_most_ns)
            owed_stop(&pool->move, place); /* but what is on its way has to end */
        if (!pool_work(pool)) pool_wait(pool, relief_wait_ns);
    }
    return owed_end(&pool->move, place);
}

/* A card; its context is current. Lock held, let go in between. */
static bool relieve_card(vp_pool *pool, unsigned card, uint64_t bytes, uint64_t free_bytes,
                         struct pool_relief *relief)
{
    unsigned place = relief->place;
    uint64_t most = spare_pages(pool, card);
    uint64_t wanted = part_of(pool, place, UNKNOWN_PART, UNKNOWN_MIB);
    if (bytes) {
        uint64_t missing = bytes > free_bytes ? bytes - free_bytes : 0;
        wanted = units_div_up(missing, pool->page_bytes);
        if (wanted > most) return false; /* it would not help */
        wanted += part_of(pool, place, SPARE_PART, SPARE_MIB);
    }
    if (!wanted) wanted = 1;
    relief->unmade_pages = frame_cede_unmade(&pool->frames, place, most);
    most -= relief->unmade_pages;
    uint64_t whole = units_round_up(wanted, pool->segments.chunk_pages); /* frames give no parts */
    if (most > whole) most = whole;
    if (most) relief->given_pages = collect(pool, place, wanted, most);
    return relief->given_pages > 0;
}

/* The host: what is free there. The driver takes it from all memory of the machine, of which the
 * place has a part: its part stays as it is. */
static bool relieve_host(vp_pool *pool, uint64_t bytes, struct pool_relief *relief)
{
    uint64_t most = pool->frames.place[relief->place].free_pages;
    uint64_t wanted = bytes ? units_div_up(bytes, pool->page_bytes) : most;
    if (most) relief->given_pages = collect(pool, relief->place, wanted, most);
    return relief->given_pages > 0;
}

/* What the driver leaves of a card, in pages; all that was taken where it does not say. */
static uint64_t left_pages(vp_pool *pool, const struct pool_relief *relief, bool helped)
{
    uint64_t taken = relief->given_pages + relief->unmade_pages, free_bytes = 0;
    unsigned card = (unsigned)pool->frames.place[relief->place].id;
    CUcontext before = NULL, context = pool->context[card];
    if (!helped) return taken;
    if (pool_enter_context(pool, context, &before) != CUDA_SUCCESS) return taken;
    bool asked = ask_free(pool, &free_bytes);
    pool_leave_context(pool, context, before);
    uint64_t left = free_bytes / pool->page_bytes;
    uint64_t spare = part_of(pool, relief->place, SPARE_PART, SPARE_MIB);
    left = left > spare ? left - spare : 0;
    return !asked || left > taken ? taken : left;
}

/* So many pages come back, so many are lost to the driver. */
static void settle(vp_pool *pool, const struct pool_relief *relief, uint64_t back, uint64_t lost)
{
    frame_cede_ends(&pool->frames, relief->place, back, lost);
    if (lost) regrow_rest(pool);
    pool->reliefs--;
    pool->move.changes++;
    pool_wake(pool);
}

/* In the right context, and without disturbing a capture. */
static bool relieve(vp_pool *pool, unsigned card, uint64_t bytes, struct pool_relief *relief)
{
    uint64_t free_bytes = 0;
    bool host = card == POOL_HOST;
    if (!host && !ask_free(pool, &free_bytes)) return false;
    pool_lock(pool);
    while (pool->relieving && !pool->lost) pool_wait(pool, relief_wait_ns);
    bool given = false;
    if (!pool->lost) {
        pool->relieving = true;
        pool->reliefs++;
        given = host ? relieve_host(pool, bytes, relief)
                     : relieve_card(pool, card, bytes, free_bytes, relief);
        pool->relieving = false;
        if (!given) settle(pool, relief, relief->unmade_pages, 0);
        pool->relief_pages += relief->given_pages;
    }
    pool_unlock(pool);
    return given;
}

bool pool_relieve(vp_pool *pool, unsigned card, uint64_t bytes, struct pool_relief *relief)
{
    CUcontext before = NULL, context = NULL;
    bool host = card == POOL_HOST;
    unsigned first = host ? (unsigned)__builtin_ctz(pool->computes | 1u << 31) : card;
    if (first >= pool->cards || !(pool->computes >> first & 1)) return false;
    *relief = (struct pool_relief){.place = host ? pool->host_place : pool->move.home[card]};
    context = pool->context[first];
    int mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    bool relaxes = pool_exchange_mode(pool, &mode) == CUDA_SUCCESS;
    bool given = false;
    if (pool_enter_context(pool, context, &before) == CUDA_SUCCESS) {
        given = relieve(pool, card, bytes, relief);
        pool_leave_context(pool, context, before);
    }
    if (relaxes) pool_exchange_mode(pool, &mode);
    if (given)
        log_info("%s gives %llu MiB back to the driver", pool->frames.place[relief->place].name,
                 (unsigned long long)(relief->given_pages * pool->page_bytes >> 20));
    return given;
}

void pool_relief_ends(vp_pool *pool, struct pool_relief *relief, bool helped)
{
    bool host = relief->place == pool->host_place;
    uint64_t taken = host ? 0 : relief->given_pages + relief->unmade_pages;
    uint64_t left = host ? 0 : left_pages(pool, relief, helped);
    pool_lock(pool);
    settle(pool, relief, left, taken - left);
    pool_unlock(pool);
}
