/* The follower's state, shared by finder.c (in step with the program) and finder_seek.c (lost).
 *
 * A lane is a stream of the program. Each follows its part of the period on its own; `at` is the op
 * last seen in any of them. */
#ifndef TRACE_FINDER_FOLLOW_H
#define TRACE_FINDER_FOLLOW_H

#include "trace/finder_learner.h"

enum {
    FINDER_GUESSES = 8,    /* places where the program may be */
    FINDER_CHANGES = 16,   /* changes from one period to another, remembered */
    FINDER_NEAR = 64,      /* ops ahead that may have been left out */
    FINDER_MISSES = 4,     /* blocks of an op that are looked for in vain */
    FINDER_CHAIN = 32,     /* ops with the same context that are looked at */
    FINDER_ALLOC_NEAR = 8, /* allocs ahead that may come first */
};

struct finder_lane {
    uint64_t context; /* the last four keys */
    uint32_t turn;    /* ops so far */
    uint32_t cursor;  /* op that is due */
    uint32_t laps;
    uint32_t lost; /* ops since it last followed */
    bool follows;
    bool soft;     /* the cursor is a guess */
    bool stranger; /* no op of it is in the period; the first one is a deviation */
};

struct finder_guess {
    struct finder_period *period;
    uint32_t last, cursor; /* op it saw last, and that is due; */
    uint32_t matched, evidence;
    uint32_t lane;
    bool near; /* close to where the program was lost */
};

/* From behind an op of one period to an op of another, after so many laps. */
struct finder_change {
    uint32_t from, from_op, to, to_op, laps;
    bool regular; /* came twice after as many laps */
};

struct finder {
    struct finder_period *now; /* followed, or followed last; NULL: none yet */
    struct finder_period *known[FINDER_PERIODS];
    uint64_t used[FINDER_PERIODS]; /* when each was entered or left last */
    struct finder_lane lanes[FINDER_STREAMS];
    uint8_t lane_of[FINDER_STREAM_SLOTS]; /* plus 1; 0: none yet */
    uint32_t lane_count;
    uint32_t at, laps;     /* laps: of the lead lane, since the period was entered */
    uint32_t alloc_start;  /* allocs of the step before the lead lane's last op */
    uint32_t alloc_cursor; /* the one due next, counted on from there */
    uint64_t allocs_taken; /* bit i: the alloc so far behind the cursor has come already */
    struct finder_guess guesses[FINDER_GUESSES];
    uint32_t guess_count;
    struct finder_change changes[FINDER_CHANGES];
    uint32_t change_count, next_change;
    uint64_t number;
    struct finder_stats stats;

    struct finder_queue queue;
    struct finder_learner learner;
    _Atomic(struct finder_handover *) incoming;
    _Atomic(struct finder_period *) retired;
    atomic_bool missed; /* allocs or frees did not get into the queue */
};

/* Whether the op touches the block; looks from *from on, which then stands behind it. Blocks come
 * in much the same order each time, so that all are found in one round. */
static inline bool finder_touches(const struct finder_op *op, uint32_t id, uint32_t *from)
{
    for (uint32_t i = 0; i < op->count; i++) {
        uint32_t at = *from + i < op->count ? *from + i : *from + i - op->count;
        if (op->ids[at] != id) continue;
        *from = at + 1 < op->count ? at + 1 : 0;
        return true;
    }
    return false;
}

/* Whether an operation may be op `index` of a period: key and persistent blocks. *evidence counts
 * the latter. */
bool finder_agrees(const struct finder_period *period, uint32_t index, const struct finder_op *op,
                   uint32_t *evidence);

/* Learns from an operation in place which blocks are meant. False: it touches others than foretold.
 */
bool finder_settle(struct finder *finder, const struct finder_period_op *expected,
                   const struct finder_op *op);

/* Moves a lane on behind the op that was due. True: some other lane has fallen silent. */
bool finder_move_on(struct finder *finder, struct finder_lane *lane);

/* Unbinds all slots of passing roles. */
void finder_forget_passing(struct finder_period *period);

/* Makes `period` the one that is followed; op `last` of lane `lane` has just been seen. */
void finder_enter(struct finder *finder, struct finder_period *period, uint32_t lane,
                  uint32_t last);

/* The lane has left the period: the operation is not the one that was due. */
enum finder_match finder_deviate(struct finder *finder, uint32_t lane, const struct finder_op *op);

/* An operation of a lane that follows nothing. */
enum finder_match finder_seek(struct finder *finder, uint32_t lane, const struct finder_op *op);

/* A change that is due now; NULL: none. */
const struct finder_change *finder_due_change(const struct finder *finder);

void finder_drop_guesses(struct finder *finder, const struct finder_period *period);

#endif
