/* frame: physical memory, place by place.
 *
 * A frame is one driver handle, 1 to FRAME_MAX_PAGES pages. Where it may hold data of a chunk that
 * is not mapped it has an alias mapping from birth to end, through which the mover copies. Frames
 * are recycled, not returned: making one on the host costs milliseconds. This part keeps the books:
 * what exists, what is free, what may still be made. It calls no driver: who gets FRAME_MAKE from
 * frame_plan makes a handle and hands it in with frame_add.
 *
 * A free frame may still hold something that is worth having back: it is laid by for whoever gave
 * it, and taken from him when frames are wanted, the least dear first and before any is refused.
 *
 * Pages may be ceded to the driver, for a while or for good: no frames are made of them.
 *
 * Invariant: used + free + promised + withdrawn + ceded pages of a place never exceed its capacity.
 * All calls under the pool's lock. */
#ifndef FRAME_FRAME_H
#define FRAME_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "vrampool.h"

enum { FRAME_MAX_PAGES = 64 };

struct frame {
    struct list link; /* in its place's list of free frames of its size, or of those laid by */
    uint64_t handle;  /* the driver's */
    vp_addr alias;    /* permanent mapping, for the mover's copies; 0: none */
    uint64_t number;  /* within the pool, unique among frames that exist */
    uint32_t pages;
    uint32_t place;
    uint32_t copies; /* of the mover, in flight, that read or write it */
    bool free;
    bool parked;           /* given back while copies were in flight: becomes free when they end */
    bool dear;             /* laid by: a new frame is made rather than this one taken */
    struct frame **keeper; /* free, and laid by: where the frame is noted; NULL: not laid by */
};

struct frame_place {
    char name[16];
    vp_place_kind kind;
    int id;                   /* card ordinal, or NUMA node */
    uint64_t share_pages;     /* what it had at first, and may have again */
    uint64_t capacity_pages;  /* most that may exist */
    uint64_t used_pages;      /* in frames that hold data, parked ones included */
    uint64_t free_pages;      /* in free frames, those laid by included */
    uint64_t dear_pages;      /* in frames laid by that are dear */
    uint64_t parked_pages;    /* of used_pages: free as soon as copies in flight end */
    uint64_t promised_pages;  /* being made */
    uint64_t withdrawn_pages; /* being released */
    uint64_t ceded_pages;     /* the driver's, until frame_cede_ends */
    uint64_t peak_pages;      /* most used_pages ever */
    struct list free[FRAME_MAX_PAGES + 1];
    struct list laid_by[2][FRAME_MAX_PAGES + 1]; /* [dear], laid by last first */
};

struct frame_table {
    unsigned places;
    struct frame_place place[VP_MAX_PLACES];
    struct frame **by_number; /* NULL where a number is vacant */
    uint64_t *vacant;         /* numbers below count that are vacant, as a stack */
    uint64_t count, room, vacant_count;
    struct frame *prepared; /* a descriptor for the next frame, or NULL */
};

enum frame_plan {
    FRAME_TAKE,    /* *frame is taken */
    FRAME_MAKE,    /* pages are promised: make a frame and call frame_add, or frame_fail; then plan
                      again */
    FRAME_RELEASE, /* *frame, free but of another size, is withdrawn: release its handle, then plan
                      again */
    FRAME_FULL,    /* nothing free and no room to make one */
};

vp_status frame_table_create(struct frame_table *table) VP_MUST_USE;
void frame_table_destroy(
    struct frame_table *table); /* frees the descriptors; handles are the caller's */

/* Adds a place; returns its index. */
unsigned frame_place_add(struct frame_table *table, const char *name, vp_place_kind kind, int id,
                         uint64_t capacity_pages);

/* How to come by a frame of exactly `pages` pages in `place`. */
enum frame_plan frame_plan(struct frame_table *table, unsigned place, uint32_t pages,
                           struct frame **frame);

/* Promises pages of which nobody has need yet, for a frame to be made of; false: no room. */
bool frame_promise(struct frame_table *table, unsigned place, uint32_t pages);

/* Whether there is host memory for one more descriptor; it is kept for the next frame_add. */
bool frame_prepare(struct frame_table *table) VP_MUST_USE;

/* A promised frame was made: enters it, free. NULL where frame_prepare would have said no: the
 * handle stays the caller's, and the promise stands (frame_fail). */
struct frame *frame_add(struct frame_table *table, unsigned place, uint32_t pages, uint64_t handle,
                        vp_addr alias);

/* A promised frame could not be made: `shrink` when the place has less than it was thought to have.
 */
void frame_fail(struct frame_table *table, unsigned place, uint32_t pages, bool shrink);

/* Gives a used frame back. With copies in flight it is parked, and frame_copy_end frees it. */
void frame_give(struct frame_table *table, struct frame *frame);

/* Gives a used frame back, without copies in flight, and lays it by: *keeper, which is NULL, is the
 * frame until it is taken or let go. */
void frame_lay_by(struct frame_table *table, struct frame *frame, struct frame **keeper, bool dear);

/* Uses a frame laid by again, with what it holds; or lets it go: it is free and no more. */
struct frame *frame_recover(struct frame_table *table, struct frame **keeper);
void frame_let_go(struct frame_table *table, struct frame **keeper);

/* Withdraws a free frame of at most so many pages (the largest first), for its handle to be
 * released; NULL: none free. */
struct frame *frame_withdraw(struct frame_table *table, unsigned place, uint64_t most_pages);

/* A withdrawn frame's handle is released: forgets the frame. Or it could not be: the frame is free
 * again. */
void frame_forget(struct frame_table *table, struct frame *frame);
void frame_keep(struct frame_table *table, struct frame *frame);

/* Pages that are not in frames yet, at most so many, are ceded; returns how many. frame_cede: those
 * of a withdrawn frame whose handle is released. */
uint64_t frame_cede_unmade(struct frame_table *table, unsigned place, uint64_t most_pages);
void frame_cede(struct frame_table *table, struct frame *frame);

/* Of ceded pages so many come back, and so many the place has no more. */
void frame_cede_ends(struct frame_table *table, unsigned place, uint64_t back_pages,
                     uint64_t lost_pages);

/* A place that shrank grows by so many pages, but to no more than it had at first; returns by how
 * many. */
uint64_t frame_grow_back(struct frame_table *table, unsigned place, uint64_t most_pages);

void frame_copy_begin(struct frame *frame);
void frame_copy_end(struct frame_table *table, struct frame *frame);

/* Pages that the place can be counted on for. */
static inline uint64_t frame_capacity_pages(const struct frame_place *place)
{
    return place->capacity_pages - place->ceded_pages;
}

/* Pages that could be had without anybody giving one back. */
static inline uint64_t frame_room_pages(const struct frame_table *table, unsigned place)
{
    const struct frame_place *p = &table->place[place];
    uint64_t taken = p->used_pages + p->promised_pages + p->withdrawn_pages + p->ceded_pages;
    return taken < p->capacity_pages ? p->capacity_pages - taken : 0;
}

/* For debug builds and tests: the books agree with the frames. */
bool frame_table_is_valid(const struct frame_table *table);

#endif
