/* What something of the program's uses without passing through us: the nodes of a graph each time
 * it is launched. For as long as that lives, the segments stay mapped where they are. A keeper is
 * the list of what one such object keeps. A segment counts its keepers; with the last one it may
 * move again.
 *
 * An object names addresses, not blocks: what is freed and allocated again at the same address it
 * uses as before, and nobody says so (XLA updates a graph only when an address changes). So a
 * segment counts its keepers from one life to the next, and is kept from the start of the next. */
#include "pool/internal.h"

#include <assert.h>
#include <stdlib.h>

struct pool_keeper {
    struct list link;
    const void *owner;
    uint64_t serial; /* unlike owners, never used again */
    struct segment **keeps;
    size_t count, room;
};

static struct pool_keeper *find_keeper(const vp_pool *pool, const void *owner)
{
    list_each(node, &pool->keepers)
    {
        struct pool_keeper *keeper = list_entry(node, struct pool_keeper, link);
        if (keeper->owner == owner) return keeper;
    }
    return NULL;
}

static struct pool_keeper *find_or_make(vp_pool *pool, const void *owner)
{
    struct pool_keeper *keeper = find_keeper(pool, owner);
    if (keeper) return keeper;
    keeper = calloc(1, sizeof *keeper);
    if (!keeper) return NULL;
    keeper->owner = owner;
    keeper->serial = ++pool->keeper_serial;
    list_push_front(&pool->keepers, &keeper->link);
    return keeper;
}

static int by_address(const void *a, const void *b)
{
    uintptr_t one = (uintptr_t) * (struct segment *const *)a;
    uintptr_t other = (uintptr_t) * (struct segment *const *)b;
    return (one > other) - (one < other);
}

/* Where several keep the same, each is listed again and again, as `kept_by` names the last. */
static void take_out_twins(struct pool_keeper *keeper)
{
    size_t kept = 0;
    if (keeper->count) qsort(keeper->keeps, keeper->count, sizeof *keeper->keeps, by_address);
    for (size_t i = 0; i < keeper->count; i++) {
        if (kept && keeper->keeps[kept - 1] == keeper->keeps[i])
            keeper->keeps[i]->keepers--; /* the other counts on */
        else
            keeper->keeps[kept++] = keeper->keeps[i];
    }
    keeper->count = kept;
}

static bool has_room(struct pool_keeper *keeper)
{
    if (keeper->count < keeper->room) return true;
    take_out_twins(keeper);
    if (keeper->count < keeper->room / 2) return true;
    size_t room = keeper->room ? 2 * keeper->room : 16;
    struct segment **keeps = realloc(keeper->keeps, room * sizeof *keeps);
    if (!keeps) return false;
    keeper->keeps = keeps;
    keeper->room = room;
    return true;
}

/* Without memory for the list nobody takes the keeper off again: it stays for good. */
static void count_keeper(vp_pool *pool, const void *owner, struct segment *segment)
{
    struct pool_keeper *keeper = find_or_make(pool, owner);
    bool listed = keeper && has_room(keeper);
    if (listed && segment->kept_by == keeper->serial) return; /* the usual repetition */
    if (listed) segment->kept_by = keeper->serial;            /* others do no harm */
    if (listed) keeper->keeps[keeper->count++] = segment;
    segment->keepers++;
    if (segment->state != SEGMENT_LIVE || segment->captured) return;
    segment->captured = true;
    pool->move.changes++; /* it can no longer leave */
}

void keep_segment(vp_pool *pool, const void *owner, struct segment *segment)
{
    assert(segment->state == SEGMENT_LIVE);
    count_keeper(pool, owner, segment);
}

void keep_copies(vp_pool *pool, const void *to, const void *from)
{
    const struct pool_keeper *source = find_keeper(pool, from);
    for (size_t i = 0; source && i < source->count; i++) count_keeper(pool, to, source->keeps[i]);
}

void keep_ends(vp_pool *pool, const void *owner)
{
    struct pool_keeper *keeper = find_keeper(pool, owner);
    if (!keeper) return;
    for (size_t i = 0; i < keeper->count; i++) {
        struct segment *segment = keeper->keeps[i];
        assert(segment->keepers > 0);
        if (--segment->keepers) continue;
        segment->kept_by = 0;
        if (segment->state != SEGMENT_LIVE || segment->fixed) continue;
        order_uses_crowd(&pool->order, &segment->uses); /* by launches that did not name it */
        segment->captured = false;
        pool->move.changes++;
    }
    list_remove(&keeper->link);
    free(keeper->keeps);
    free(keeper);
}

void keep_destroy(vp_pool *pool)
{
    while (!list_empty(&pool->keepers)) {
        struct pool_keeper *keeper = list_entry(pool->keepers.next, struct pool_keeper, link);
        list_remove(&keeper->link);
        free(keeper->keeps);
        free(keeper);
    }
}

void pool_keeper_copies(vp_pool *pool, const void *to, const void *from)
{
    pool_lock(pool);
    keep_copies(pool, to, from);
    pool_unlock(pool);
}

void pool_keeper_moves(vp_pool *pool, const void *to, const void *from)
{
    pool_lock(pool);
    struct pool_keeper *keeper = find_keeper(pool, from);
    if (keeper && !find_keeper(pool, to)) {
        keeper->owner = to;
    } else {
        keep_copies(pool, to, from);
        keep_ends(pool, from);
    }
    pool_unlock(pool);
}

bool pool_keeper_exists(vp_pool *pool, const void *owner)
{
    pool_lock(pool);
    bool exists = find_keeper(pool, owner) != NULL;
    pool_unlock(pool);
    return exists;
}

void pool_keeper_ends(vp_pool *pool, const void *owner)
{
    pool_lock(pool);
    keep_ends(pool, owner);
    pool_unlock(pool);
}
