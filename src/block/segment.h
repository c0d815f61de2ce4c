/* block: segments, the chunks they are made of, and the blocks that live in them.
 *
 * A segment is one allocation as the driver sees it, a range of pool addresses made of chunks. A
 * chunk is what is resident somewhere and moves; all chunks of a segment have the same size but the
 * last. A block is one allocation as the program sees it: the whole segment, or, where an allocator
 * above cuts segments up and tells us (vp_note_alive), a part of it. Small allocations share a
 * segment, a slab (slab.h).
 *
 * A segment keeps its address range for good. Freed, it rests with its frames, for the next
 * allocation of the same size to take over as it is (`resting`); when its frames are wanted
 * elsewhere it is `bare`, and its range serves any size that fits. Nothing is allocated from the
 * heap when a segment is taken over or freed.
 *
 * Reuse is safe in stream order: uses of the former owner that are not done stay in `prior`, and
 * the first operation of each other stream waits for them.
 *
 * Everything here is guarded by the pool's lock, except reading `base`, `pages` and `chunk_shift`
 * of a segment found through the page table: they are constant while it is live. */
#ifndef BLOCK_SEGMENT_H
#define BLOCK_SEGMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/list.h"
#include "frame/frame.h"
#include "order/order.h"
#include "space/space.h"

/* What a chunk is doing. move.h draws the transitions. */
enum chunk_state {
    CHUNK_EMPTY,     /* no data, no frame */
    CHUNK_ABSENT,    /* data in `frame`, not mapped */
    CHUNK_SHIFTING,  /* the same; being copied to `other`, in another refuge */
    CHUNK_MAPPING,   /* being mapped to `other` (which becomes `frame`) */
    CHUNK_SETTLING,  /* mapped to `frame`; a copy between `frame` and `other` is in flight:
                        operations wait  for it on the device */
    CHUNK_RESIDENT,  /* mapped to `frame`, usable */
    CHUNK_LEAVING,   /* mapped to `frame`; being copied to `other` */
    CHUNK_UNMAPPING, /* being unmapped from `frame`; the data is in `other`, or dead where that is
                        NULL */
    CHUNK_POISONED,  /* data lost; operations on it fail */
    CHUNK_STATES,
};

/* What a chunk is to those who choose which one moves. */
enum standing {
    STANDING_OTHER,
    STANDING_EMPTY,  /* has no frame */
    STANDING_ABSENT, /* away from home, live */
    STANDING_LIVE,   /* at home */
    STANDING_DEAD,   /* at home too: its frame can be had without a copy */
    STANDINGS,
};

/* A part of a chunk. */
struct span {
    uint32_t start, bytes; /* from the chunk's address */
};

struct chunk {
    struct segment *segment;
    struct frame *frame;
    struct frame *other;
    struct frame *backup; /* at home: where it came from, laid by (move/backup.h) */
    struct digest digest;
    struct span digest_span; /* what it is of */
    /* By its card's operations (move/foresight.h), when it was last sent away, and copied early: */
    uint64_t left_at, kept_at;
    uint64_t ticket;     /* of the copy under way, in its lane; 0: not queued yet */
    uint64_t live_bytes; /* of blocks in it, where they are noted */
    uint32_t index;      /* within the segment */
    uint16_t pages;
    uint16_t pins;       /* operations that assemble what they need, it among that */
    uint8_t free_leaves; /* so many in a row cost no copy, nor an early one */
    uint8_t paid_leaves; /* so many in a row did */
    uint8_t lane;
    uint8_t state;    /* enum chunk_state; changed by move alone */
    uint8_t standing; /* enum standing, as it was counted */
    bool home;        /* RESIDENT on its card */
    bool wanted;      /* in the mover's queue of demands */
    bool digested;    /* `digest` is that of its backup; where it is away from home, of its data */
    bool early; /* LEAVING: it is copied ahead of that, and stays; else: its backup is so made */
    bool unchanged;        /* LEAVING: what is in `other` was found to be the data */
    _Atomic bool recalled; /* LEAVING, SHIFTING, its copy under way and waited for: break it off */
    struct list queue;     /* demands, or chunks leaving in the order of their copies */
};

/* A block that an allocator above has cut from a segment. */
struct block {
    vp_addr start, end;
    uint32_t id;   /* for traces; from 1 */
    uint64_t seen; /* scratch: the last list of blocks that it is in */
};

enum segment_state { SEGMENT_LIVE, SEGMENT_RESTING, SEGMENT_BARE };

struct segment {
    /* What each operation that touches it looks at comes first, in as few cache lines as can be: */
    uint8_t state; /* enum segment_state */
    bool noted;    /* an allocator above says what lives in it */
    bool unlisted; /* not all of that is in `blocks`: there was no memory for the list */
    bool loose;    /* touched by work of which not all is known: stays mapped wherever it is */
    bool has_prior;
    uint32_t chunk_count;
    uint32_t
        unready; /* chunks that are not RESIDENT at home, plus one while `prior` is not empty */
    uint32_t generation;  /* counts owners */
    uint32_t touch_index; /* of the operation with touch_serial, in its touches */
    uint64_t touch_serial;
    struct table *table; /* what it points to, if it holds addresses of the pool */
    uint64_t aged;       /* when it last went to the young end of its list of ages */
    struct order_uses uses, prior;

    vp_addr base;
    uint64_t bytes;       /* as asked for */
    uint64_t pages;       /* of the chunks together */
    uint64_t range_pages; /* of the address range, without the guard page behind `pages` */
    uint64_t guard_pages; /* the guard page is mapped so many pages behind base; 0: nowhere */
    uint64_t live_bytes;  /* in live blocks */
    uint32_t card;        /* whose kernels it is for */
    uint32_t guard_card;  /* whose guard that is */
    uint32_t chunk_shift; /* log2 of bytes of a chunk */
    uint32_t pins;        /* operations that assemble what they need of it */
    uint32_t id;          /* block id of a segment that is one block */
    uint64_t number;      /* that its owner alone ever has */
    uint64_t look_serial; /* of the last operation whose writes into it are to be looked at (vet) */
    uint64_t seen;        /* as of a block */
    uint32_t standings[STANDINGS]; /* its chunks, counted */
    uint32_t outlook;              /* its entry in those of its card; LIVE and RESTING */
    /* What is known of it (move/foresight.h), in its card's operations; what is foretold is in its
     * outlook: */
    uint64_t used_last;  /* when it was touched last; 0: not in a known period */
    uint32_t touch_last; /* its entry there */
    /* Whether it is found as it was when it leaves (move/backup.h): */
    uint32_t unchecked;    /* chunks to leave unchecked from now on */
    uint8_t doubt;         /* found changed so often in a row */
    bool proven;           /* not so, last time */
    uint32_t clean_chunks; /* that leave without a copy, as a rule */
    bool captured;         /* used by what does not pass through us: stays mapped where it is, */
    bool fixed;            /* for as long as it lives, */
    uint32_t keepers;      /* or until so many objects of the program's have ended, whoever lives */
    uint64_t kept_by;      /* there by then (pool/keep.c); the last of them */
    struct chunk *chunks;
    struct list age;   /* LIVE and RESTING: in its card's list by last use, `age` or `away` */
    struct list shelf; /* RESTING: by size; BARE: by range */
    struct list all;
    struct slab *slab;
    struct block *blocks; /* sorted by start */
    uint32_t block_count, block_room;
};

/* Of a segment that is LIVE or RESTING, what those need who choose which one moves: side by side,
 * since they look at all of them again and again. */
struct outlook {
    uint64_t next_use; /* when it is touched next, in the card's operations; 0: not known */
    struct segment *segment;
    uint32_t absent_pages; /* of chunks ABSENT and live */
    uint8_t has;           /* bit i: it has chunks of enum standing i */
    bool will_die;         /* what lives there now dies before the next use */
    bool has_died;         /* what lived there at the last use is dead */
    bool clean;            /* all its chunks leave without a copy, as a rule */
    bool small;            /* so small that the calls to move it take more time than the copies */
};

struct outlooks {
    struct outlook *of;
    uint32_t count, room;
    uint64_t dead_pages; /* of all chunks of STANDING_DEAD */
};

enum {
    SEGMENT_SHELVES = 256,
    SEGMENT_RANGES = 40,
    SEGMENT_SMALL_PART = 8, /* of a chunk: smaller segments cost more calls than copies */
};

struct segments {
    struct space *space;
    struct order *order;
    uint32_t chunk_pages;
    uint64_t live_pages;                 /* of live segments: what the pool has promised, */
    uint64_t card_pages[VP_MAX_CARDS];   /* and to which card */
    uint64_t needed_pages[VP_MAX_CARDS]; /* of each card's chunks in which something lives */
    uint32_t cards;                      /* bit i: there were segments of card i */
    uint64_t live_bytes, peak_bytes;     /* of live blocks, as asked for; */
    uint64_t peak_needed_pages;          /* of chunks in which something lived at the peak */
    uint32_t next_id;
    bool shuns_kept;                /* for now: what keepers name is not taken */
    struct list age[VP_MAX_CARDS];  /* with a chunk at home, least recently used first; */
    struct list away[VP_MAX_CARDS]; /* without: who makes room at home need not pass these */
    struct outlooks outlooks[VP_MAX_CARDS];
    struct list resting[SEGMENT_SHELVES]; /* by page count, hashed */
    struct list bare[SEGMENT_RANGES];     /* by log2 of range pages */
    struct list all;
};

void segments_create(struct segments *segments, struct space *space, struct order *order,
                     uint32_t chunk_pages);
void segments_destroy(struct segments *segments);

/* A number for an allocation: none other in this process gets it, of whatever pool. Nor is it one
 * that the driver gives its own. */
uint64_t segment_number_new(void);

/* Makes a live segment of bytes for `card`: one that rests with the same size, else a bare range,
 * else a new one. VP_NO_ADDRESSES, VP_NO_HOST_MEMORY. Where segment->guard_pages is not
 * segment->pages the caller moves the guard. */
vp_status segment_take(struct segments *segments, unsigned card, uint64_t bytes,
                       struct segment **segment) VP_MUST_USE;

/* Ends a live segment: it rests. Its frames stay until move takes them. */
void segment_rest(struct segments *segments, struct segment *segment);

/* A resting segment whose chunks are all EMPTY: its range serves any size. */
void segment_bare(struct segments *segments, struct segment *segment);

/* Too small for traces, and for the finder: as small as what shares a page, 1 MiB on real cards. */
static inline bool block_is_small(const struct segments *segments, uint64_t bytes)
{
    return bytes <= UINT64_C(1) << segments->space->page_shift >> 1;
}

/* Chunks RESIDENT at home. */
static inline uint32_t segment_home_chunks(const struct segment *segment)
{
    return segment->chunk_count - (segment->unready - segment->has_prior);
}

/* To the end of its card's list that was used last; or to the other, of what is to go first. Its
 * chunks decide which list that is: called whenever the first comes home or the last leaves. */
static inline void segment_make_young(struct segments *segments, struct segment *segment)
{
    struct list *lists = segment_home_chunks(segment) ? segments->age : segments->away;
    list_remove(&segment->age);
    list_push_back(&lists[segment->card], &segment->age);
}

static inline void segment_make_old(struct segments *segments, struct segment *segment)
{
    struct list *lists = segment_home_chunks(segment) ? segments->age : segments->away;
    list_remove(&segment->age);
    list_push_front(&lists[segment->card], &segment->age);
}

/* The live segment at an address, or NULL. */
static inline struct segment *segment_of(const struct segments *segments, vp_addr address)
{
    struct segment *segment = space_owner(segments->space, address);
    return segment && segment->state == SEGMENT_LIVE ? segment : NULL;
}

/* Notes from an allocator above. */
void segment_note_alive(struct segments *segments, struct segment *segment, vp_addr start,
                        uint64_t bytes);
void segment_note_dead(struct segments *segments, struct segment *segment, vp_addr start,
                       uint64_t bytes);

/* The noted block that holds the address; NULL where none does. */
struct block *segment_block_at(const struct segment *segment, vp_addr address);

/* The chunks of the live block that holds the address. False: nothing lives there. */
bool segment_reach(const struct segment *segment, vp_addr address, uint32_t *first, uint32_t *last);

/* False when everything that lived at the chunk is dead: its data need not be kept. */
static inline bool chunk_is_live(const struct chunk *chunk)
{
    const struct segment *segment = chunk->segment;
    return segment->state == SEGMENT_LIVE && (!segment->noted || chunk->live_bytes > 0);
}

static inline struct outlook *segment_outlook(const struct segments *segments,
                                              const struct segment *segment)
{
    return &segments->outlooks[segment->card].of[segment->outlook];
}

/* The smallest part of the chunk that holds all that lives in it, in whole digest units; all of it
 * where that is not known, or nothing. */
struct span chunk_live_span(const struct segments *segments, const struct chunk *chunk);

/* Counts the chunk anew: its state, its place, or whether it is live has changed. */
void segment_count_standing(struct segments *segments, struct chunk *chunk);

static inline uint32_t segment_chunk_at(const struct segment *segment, vp_addr address)
{
    return (uint32_t)((address - segment->base) >> segment->chunk_shift);
}

static inline vp_addr chunk_address(const struct chunk *chunk)
{
    return chunk->segment->base + ((uint64_t)chunk->index << chunk->segment->chunk_shift);
}

static inline uint64_t chunk_bytes(const struct segments *segments, const struct chunk *chunk)
{
    return (uint64_t)chunk->pages << segments->space->page_shift;
}

/* Keeps the uses so far apart, as those of a former owner: the next operations wait for them by
 * event. */
void segment_set_prior(struct segments *segments, struct segment *segment);

/* Drops what is done from `prior`; true when nothing is left. */
bool segment_prior_done(struct segments *segments, struct segment *segment);

/* Adds to what the live blocks hold, and keeps the peak. */
void segments_count_live(struct segments *segments, int64_t bytes);

/* For debug builds and tests. */
bool segments_are_valid(const struct segments *segments);

#endif
