/* move: decides which chunk goes where, and what is to be done next for it. Pure: it calls no
 * driver, clock or thread; it is stepped from outside, under the pool's lock.
 *
 * Who carries moves out (any thread) asks move_next for an action, carries it out without the lock,
 * and reports with move_done. Copies are numbered per lane, in the order they are queued on the
 * lane's stream; when one has ended on the device, move_copy_ended is told. Operations ask
 * move_admit whether they may go to the driver.
 *
 * A chunk's states (block/segment.h) and what leads from one to the next:
 *
 *             map                 mapped, no copy
 *   EMPTY ----------> MAPPING ----------------------> RESIDENT <-----------+
 *     ^                | ^ |  mapped, copy queued       |  ^  |            |
 *     |         failed | | +---------> SETTLING --------|--+  | leave      | failed, or kept: as it
 * was |                v | map             ^   landed   |     v            | |  forget      ABSENT
 * +------------|-- LEAVING -------+
 *     +----------------+ ^                    recall    |     | copied,    |
 *     |                  | unmapped                drop |     v same       |
 *     +------------------+------------------------------+-> UNMAPPING -----+
 *        unmapped, dead                                          remapped elsewhere, or failed
 *
 * In (towards the card that computes): the new frame is mapped first, then the copy into it is
 * queued, then operations wait for the copy on the device. Out: once all that may touch the chunk
 * is done, copy; when the copy has ended, unmap; only then is the old frame free. Where it came
 * from it may have left the same data behind (move/backup.h): then there is no copy. A chunk copied
 * early is kept: that copy is left behind likewise. An operation
 * that needs a chunk on its way out recalls it: it stays where it is, and the operation waits for
 * the copy to end, so that nobody writes under a copy.
 *
 * On: what is absent moves from one refuge to another (move/refuge.h) by a copy alone. It is
 * nobody's to touch meanwhile, and stays where it is when it is needed, or when the copy fails:
 *
 *   ABSENT --- shift ---> SHIFTING --- shifted (the other frame), stayed (the old one) ---> ABSENT
 *
 * First policy, reactive: what an operation needs and is not at home is fetched; a full place sends
 * its least recently used idle chunks to the next place that has room; what still does not fit is
 * used in place. */
#ifndef MOVE_MOVE_H
#define MOVE_MOVE_H

#include "base/setting.h"
#include "block/segment.h"
#include "frame/frame.h"
#include "move/foresight.h"
#include "order/order.h"

/* Events of a chunk: X(name). */
/* clang-format off */
#define MOVE_EVENTS(X) \
    X(MAP) X(MAPPED) X(MAPPED_COPYING) X(MAP_FAILED) X(MAP_UNDONE) X(LANDED) X(LEAVE) \
    X(LEAVE_FAILED) X(RECALL) X(COPIED) X(SAME) X(KEPT) X(DROP) X(UNMAPPED) X(REMAPPED) X(UNMAP_FAILED) \
    X(FORGET) X(POISON) X(SHIFT) X(SHIFTED) X(STAYED)
/* clang-format on */

enum move_event {
#define MOVE_EVENT(name) MOVE_##name,
    MOVE_EVENTS(MOVE_EVENT)
#undef MOVE_EVENT
        MOVE_EVENT_COUNT,
};

enum {
    MOVE_WAYS = 8, /* pairs of lanes of a card, at most: for as many near refuges at once */
    MOVE_LANES = 2 * MOVE_WAYS * VP_MAX_CARDS, /* see move_lane */
    MOVE_COPIES = 64, /* copies in flight in one lane; more are not queued */
    MOVE_WAITS = 8,   /* events one operation waits for on the device */
    MOVE_EASE_OPS = 128,
    MOVE_PATIENCE = 32, /* failures in a row before an operation is told */
};

enum move_action_kind {
    MOVE_DO_NOTHING,
    MOVE_DO_MAKE, /* make a frame of `pages` pages in `place`, with an alias if that is a refuge */
    MOVE_DO_RELEASE, /* release the withdrawn frame `from` */
    MOVE_DO_MAP,   /* unmap the chunk if `mapped`; map it to `to`; then, with `from`, queue the copy
                    */
    MOVE_DO_COPY,  /* queue the copy of `from` to `to` in `lane` */
    MOVE_DO_UNMAP, /* unmap the chunk from `from`; with `to`, map it there instead */
    MOVE_DO_MARK,  /* record the next mark of stream `slot`, covering `covers` */
};

struct move_action {
    enum move_action_kind kind;
    struct chunk *chunk;
    vp_addr address;
    uint64_t bytes;
    struct frame *from, *to;
    bool mapped;
    bool digest;      /* one is wanted: MAP, of what was copied in; COPY, of what is copied; */
    struct span span; /* but only of this, all that lives */
    bool check;       /* COPY: nothing is copied if what is at home has this digest: */
    struct digest expected;
    bool paid;     /* that was an early copy's */
    bool stocks;   /* MAKE: ahead of need (move/stock.h) */
    bool gives;    /* RELEASE: the driver is to have its memory (move/owed.h) */
    bool may_copy; /* asked for: whoever carries it out copies out himself, and waits for that */
    uint32_t place, pages;
    uint32_t lane;
    uint64_t ticket; /* of the copy, in its lane */
    uint32_t slot;
    uint64_t covers;
};

/* Who carries actions out: any thread, but where copies out are paced they have a thread of their
 * own, which maps nothing home, and so has what is made ahead of need (move/stock.h). */
enum move_worker { MOVE_WORKER_ALL, MOVE_WORKER_MAPS, MOVE_WORKER_COPIES, MOVE_WORKER_STOCK };

/* How it went. For MAP and UNMAP, which mapping is in force at the end. */
enum move_mapping { MOVE_MAPPED_NOWHERE, MOVE_MAPPED_OLD, MOVE_MAPPED_NEW };

struct move_result {
    bool ok;
    int driver;     /* MARK: what the driver said */
    bool exhausted; /* MAKE: the place gives no more memory */
    bool recalled;  /* COPY: it was broken off because an operation needs the chunk */
    bool unchanged; /* COPY: nothing was copied, `to` holds the data */
    bool intact;    /* COPY, failed: `to` holds what it held */
    bool digested;  /* MAP: a digest was queued behind the copy; COPY: of what left: */
    struct digest digest;
    enum move_mapping mapping;
    uint64_t handle; /* MAKE */
    vp_addr alias;
};

/* Something to wait for on the device before an operation starts: a copy, or a mark of another
 * stream. */
struct move_wait {
    bool is_mark;
    uint32_t lane_or_slot;
    uint64_t number;
};

struct move_request {
    struct move_touch *touches;
    uint32_t count;
    uint32_t slot;   /* the operation's stream */
    uint32_t cards;  /* bit i: it touches what is card i's; all where it runs alone */
    bool exclusive;  /* nothing may be on the move beside it */
    bool host_waits; /* for copies in flight, instead of on the device: its stream captures */
    bool queued;     /* in the queue of requests that wait */
    bool pinned;     /* what it touches is: it may demand */
    bool no_room;    /* what is not at home is used in place */
    bool failed;
    uint32_t failures;
    bool in_place_pays; /* its function was measured: rather so than make room */
    uint32_t in_place;  /* chunks it uses over a link */
    uint64_t in_place_pages;
    uint32_t wait_count;
    struct move_wait waits[MOVE_WAITS];
    struct list link;
};

enum move_verdict {
    MOVE_ADMITTED, /* go; first wait on the device for request->waits */
    MOVE_HELD,     /* carry out actions, or wait for others to, then ask again */
    MOVE_REFUSED,  /* what it needs cannot be made reachable */
};

struct move_copy {
    struct chunk *chunk;
    struct frame *from, *to;
    bool digested; /* a digest is queued behind it */
};

struct move_lane {
    uint64_t issued, ended; /* tickets: 1…issued queued, 1…ended over */
    bool busy; /* somebody is queueing a copy: one at a time, so that tickets are in order */
    struct move_copy copies[MOVE_COPIES];
};

/* What a place is to give back to the driver (move/owed.h). */
struct move_owed {
    uint64_t wanted_pages; /* yet to be given; 0: all are, or no more can be */
    uint64_t most_pages;   /* more than that must not be */
    uint64_t given_pages;  /* so far */
    uint32_t releasing;    /* frames on their way */
    bool cedes;            /* what is given is ceded */
};

struct move_counts {
    uint64_t in_bytes, out_bytes, fetches, evictions, clean_drops, early_copies, drops, recalls;
    uint64_t relocations, relocated_bytes; /* from one refuge to another */
    uint64_t in_place, in_place_pages;     /* operations; what they used so */
};

/* The last look of its kind: before anything changes the next one finds the same. */
struct move_looked {
    uint64_t clock, changes, endings;
    int found;
};

struct move {
    struct segments *segments;
    struct frame_table *frames;
    struct order *order;
    bool always_mapped;
    bool strict;      /* nothing is moved but while the device is idle */
    vp_policy policy; /* DEMAND: foresight chooses who leaves, and nothing is moved ahead */
    struct foresight foresight;
    uint32_t home[VP_MAX_CARDS];                  /* place of each card */
    uint32_t refuge[VP_MAX_CARDS][VP_MAX_PLACES]; /* where its chunks go, nearest first */
    uint32_t refuges[VP_MAX_CARDS];               /* 0: the card does not compute */
    uint32_t usable[VP_MAX_CARDS];                /* bit i: its chunks may be mapped in place i */
    uint32_t near[VP_MAX_CARDS]; /* so many of the first are equally near: all are used at once, */
    uint32_t ways[VP_MAX_CARDS]; /* over so many pairs of lanes, at least one; */
    uint32_t turn[VP_MAX_CARDS]; /* that of the next copy out */
    uint32_t attached;           /* bit i: card i has lanes */
    uint64_t low_pages[VP_MAX_CARDS]; /* room kept at home for what comes next */
    uint64_t reserve_pages;           /* room kept free of forecasts; see move_reserve_pages */
    uint32_t ahead_ops;               /* memory is made ready so many operations before its use */
    struct list requests;             /* that wait; the first of each card's may demand */
    bool narrow;                      /* but only the first of all, until that one goes */
    struct list wanted;               /* chunks to be brought home, first come first */
    struct list hidden;               /* chunks to be unmapped where they are */
    struct list copied;               /* chunks whose copy out has ended, to be unmapped */
    uint32_t moving;                  /* chunks MAPPING, SETTLING, LEAVING, UNMAPPING, SHIFTING */
    uint32_t exclusive_running;       /* operations that allow no moves beside them */
    uint32_t making;                  /* frames being made, */
    uint32_t making_of[VP_MAX_PLACES][FRAME_MAX_PAGES + 1]; /* by size */
    bool stocks; /* frames of the host are made ahead of need; false once it proved short */
    struct move_owed owed[VP_MAX_PLACES];
    uint64_t coming_pages[VP_MAX_PLACES]; /* of LEAVING, UNMAPPING, SHIFTING: will be free */
    uint64_t guest_pages[VP_MAX_PLACES];  /* of chunks away from home there, or going there */
    uint64_t closed_until[VP_MAX_PLACES]; /* no guests until so many marks have come to pass */
    uint32_t afar;                        /* chunks RESIDENT, but not at home */
    struct move_lane lanes[MOVE_LANES];
    struct move_counts counts;
    /* Copies are made early only while room does not run short within so many operations: the link
     * out is wanted then, and each copy out slows those that come in. */
    uint32_t ease_ops;
    uint32_t digests; /* bit i: digests can be made on card i */
    int trust;        /* in backups: how many were of use, less how many were not, within limits */
    uint32_t untried; /* chunks for which none was made for want of trust, counted */
    /* Counts, from 1, what may make a difference to who looks for something to do. */
    uint64_t changes;
    /* For each card: ahead, and there was nothing to do; */
    struct move_looked looked_in[VP_MAX_CARDS], looked_out[VP_MAX_CARDS];
    /* for who may leave, by whether it may be copied; */
    struct move_looked looked_out_for[VP_MAX_CARDS][2];
    uint32_t free_waits[VP_MAX_CARDS]; /* in a row, for what leaves for nothing */
    uint64_t coverage[CHUNK_STATES][MOVE_EVENT_COUNT];
};

void move_create(struct move *move, struct segments *segments, struct frame_table *frames,
                 struct order *order);

/* The number of a card's lane in, or out, of one of its ways. */
static inline unsigned move_lane(unsigned card, unsigned way, bool out)
{
    return 2 * (way * VP_MAX_CARDS + card) + out;
}

static inline unsigned move_lane_card(unsigned lane)
{
    return lane / 2 % VP_MAX_CARDS;
}

static inline unsigned move_lane_way(unsigned lane)
{
    return lane / (2 * VP_MAX_CARDS);
}

/* Whether the operation may go to the driver now. While the verdict is HELD, ask again after each
 * change; an operation that gives up calls move_abandon. On ADMITTED the caller notes the uses
 * before it lets the lock go. */
enum move_verdict move_admit(struct move *move, struct move_request *request);

/* What a held operation touches is about to change: it lets go of what it had, and keeps its place
 * in the queue. */
void move_touches_change(struct move *move, struct move_request *request);
void move_abandon(struct move *move, struct move_request *request);

/* The next thing to do, if any; the caller carries it out unlocked and reports with move_done. */
bool move_next(struct move *move, enum move_worker worker, struct move_action *action);
void move_done(struct move *move, const struct move_action *action,
               const struct move_result *result);

/* The oldest copy in flight of a lane has ended; `digest` of what came in where one was queued with
 * it (move_copy_is_digested), else NULL. */
void move_copy_ended(struct move *move, unsigned lane, const struct digest *digest);
bool move_copy_is_digested(const struct move *move, unsigned lane);

/* The operations that were admitted as exclusive have finished, and what they wrote is known. */
void move_exclusive_over(struct move *move);

/* A segment was freed, or blocks in it died: whatever of it is absent is forgotten, what is on its
 * way out recalled. */
void move_forget_dead(struct move *move, struct segment *segment);

/* For verify mode: an idle, mapped chunk is to be unmapped where it is. */
void move_hide(struct move *move, struct chunk *chunk);

/* Asks for a chunk to be brought home when there is room. */
void move_want(struct move *move, struct chunk *chunk);

/* What a held request waits for; of several causes the last in this list. */
enum move_cause { MOVE_FOR_ALONE, MOVE_FOR_MAP, MOVE_FOR_IN, MOVE_FOR_ROOM, MOVE_CAUSES };
enum move_cause move_cause(const struct move *move, const struct move_request *request);

/* The same in words. */
void move_explain(const struct move *move, const struct move_request *request, char *text,
                  size_t size);

/* Pages of all chunks that are to be brought home. */
uint64_t move_wanted_pages(const struct move *move);

/* Freed while the operation waited: only a pointer that is not used may lead there. */
static inline bool move_touch_is_gone(const struct move_touch *touch)
{
    return touch->segment->state != SEGMENT_LIVE || touch->segment->generation != touch->generation;
}

/* Whether some request but this one may demand. */
static inline bool move_others_demand(const struct move *move, const struct move_request *request)
{
    list_each(node, &move->requests)
    {
        const struct move_request *other = list_entry(node, struct move_request, link);
        if (other != request && other->pinned) return true;
    }
    return false;
}

/* True while moves are made ahead of need. */
static inline bool move_looks_ahead(const struct move *move)
{
    return move->policy == VP_POLICY_PLAN && foresight_sees(&move->foresight);
}

/* What going out leaves free; what comes in leaves twice as much. */
static inline uint64_t move_reserve_pages(const struct move *move)
{
    return move->reserve_pages ? move->reserve_pages
                               : (uint64_t)SETTING_RESERVE_CHUNKS * move->segments->chunk_pages;
}

static inline bool move_chunk_is_home(const struct move *move, const struct chunk *chunk)
{
    return chunk->state == CHUNK_RESIDENT &&
           chunk->frame->place == move->home[chunk->segment->card];
}

const char *move_event_name(enum move_event event);
const char *move_state_name(enum chunk_state state);

/* True where the drawing above has an arrow for `event` out of `state`. */
bool move_is_possible(enum chunk_state state, enum move_event event);

/* For debug builds and tests: states, frames and counts agree. */
bool move_is_valid(const struct move *move);

#endif
