/* finder: the repeating sequence in what a program does, found while it runs.
 *
 * Two halves with one queue between them. The **follower** runs on the launch path, under the
 * caller's lock: it hands every event to the queue, and, where a period is known, compares the
 * operation with the one that is due. The **learner** runs in the planner's thread (finder_study),
 * without that lock: it keeps a history of FINDER_HISTORY operations, finds periods in it, makes a
 * `struct step` of each and hands it to the follower.
 *
 *     finder_op, _alloc, _free, _duration ──queue──> finder_study: history, candidates, period
 *            follower  <──────── one period at a time, and where the program is in it ────┘
 *
 * A period is a sequence of operations that came twice in a row with equal keys and equal touches;
 * or, where touches are never quite the same, with equal keys, if most touches of older blocks
 * agree (finder_learner.h). Touches are equal when they mean the same block, or blocks that were
 * first touched at the same place of the one repetition and of the other: that place names a block
 * (its **role**), whatever its id. Order counts within each stream alone, so threads that launch on
 * streams of their own may race. Operations that differ from step to step, where they are few, are
 * wild: they are part of the period, but nothing is foretold of them.
 *
 * Where the program leaves the period, the follower looks for it again: close to where it was
 * (something added, left out or replaced), then anywhere in the periods it knows, by the last four
 * keys and the persistent blocks touched.
 *
 * Everything is decided from what was called; there is no clock, driver or thread in it. The
 * follower takes no memory from the heap. If the learner falls far behind, operations are left out
 * of the queue, and it starts over; where even allocs and frees are (dropped_blocks), finder_alloc
 * is to be called again for what lives.
 *
 * Ids: not 0; no two live blocks have the same; an id comes back no sooner than after
 * FINDER_HISTORY operations. */
#ifndef TRACE_FINDER_H
#define TRACE_FINDER_H

#include <stdbool.h>
#include <stdint.h>

#include "trace/step.h"

enum {
    FINDER_HISTORY = 1 << 17,         /* operations: the longest period */
    FINDER_HISTORY_TOUCHES = 1 << 20, /* touches of those; more shorten the history */
    FINDER_QUEUE = 1 << 19,     /* 8-byte words; an operation takes 4 and half a word a touch */
    FINDER_STREAMS = 16,        /* told apart; the others count as one */
    FINDER_STREAM_SLOTS = 1024, /* numbers of streams are below this */
    FINDER_PERIODS = 8,         /* remembered by the follower; then the least used one goes */
    FINDER_SHORTEST = 32,       /* operations; shorter periods are taken several at a time */
};

#define FINDER_NONE  UINT32_MAX
#define FINDER_NEVER UINT32_MAX

struct finder;

enum finder_match {
    FINDER_LOST,     /* no period is known, or not where the program is in it */
    FINDER_MATCHED,  /* as foretold */
    FINDER_TOUCHES,  /* the operation is as foretold, but touches other blocks: no deviation */
    FINDER_DEVIATED, /* the first wrong operation */
};

struct finder_op {
    uint64_t key; /* hash of function, grid and sizes */
    uint32_t stream;
    enum trace_kind kind;
    const uint32_t *ids; /* of blocks touched, each once */
    uint32_t count;
};

struct finder_place {
    uint64_t number; /* of the operation, for finder_duration; from 0 */
    enum finder_match match;
    uint32_t period; /* number of the period followed; 0: none */
    uint32_t op;     /* MATCHED, TOUCHES: index in the period's step; otherwise of the last such */
};

struct finder_stats {
    uint64_t ops, matched, touches, deviations, returns; /* returns: found its way again */
    uint64_t periods;                                    /* handed to the follower */
    uint64_t dropped, dropped_blocks; /* ops, allocs and frees left out of the queue */
};

/* VP_NO_HOST_MEMORY. About 20 MiB, touched as they are needed. */
vp_status finder_create(struct finder **finder) VP_MUST_USE;
void finder_destroy(struct finder *finder);

/* The follower. One call at a time. */

void finder_op(struct finder *finder, const struct finder_op *op, struct finder_place *place);

/* The role that the block probably has in the period that is followed; its first touch decides.
 * FINDER_NONE: none is foretold. */
uint32_t finder_alloc(struct finder *finder, uint32_t id, uint64_t bytes);

/* The role that it had; FINDER_NONE. */
uint32_t finder_free(struct finder *finder, uint32_t id);

/* How long an operation took, in the sense of step_op.duration_ns; in any order, for as many as
 * were measured. */
void finder_duration(struct finder *finder, uint64_t number, uint64_t duration_ns);

/* The role of a block, and how many steps ago it was born; FINDER_NONE. `age` may be NULL. */
uint32_t finder_role_of(const struct finder *finder, uint32_t id, uint32_t *age);

/* The block that operation `op` of the step will touch as (role, age) when it comes next; 0: not
 * born yet, or not known. `op` == op_count of the step: as of now. */
uint32_t finder_block_of(const struct finder *finder, uint32_t role, uint32_t age, uint32_t op);

/* Operations until the next one that touches the block, from 1; FINDER_NEVER: none before it dies,
 * or the period does not know the block. While the place is lost, an estimate from where it was
 * last known. */
uint32_t finder_next_use(const struct finder *finder, uint32_t id);

/* The period that probably follows on this one, and after how many more operations, where periods
 * took turns regularly so far; 0: none known, this one goes on. */
uint32_t finder_next_period(const struct finder *finder, uint32_t *ops);

struct finder_stats finder_stats_of(const struct finder *finder);

/* The learner. One call at a time, not under the follower's lock. */

/* Studies up to `events` events; true: more are waiting. */
bool finder_study(struct finder *finder, uint32_t events);

/* What comes closest to a period so far. */
struct finder_outlook {
    uint32_t length;        /* operations; 0: nothing repeats */
    uint32_t keyed;         /* so many in a row had the key of those `length` before */
    uint32_t equal_percent; /* of those, the ones whose touches were equal as well */
    uint32_t votes_percent; /* touches that speak for the length, of those that say something */
};
struct finder_outlook finder_outlook(const struct finder *finder);

/* The newest period found; 0: none. */
uint32_t finder_newest(const struct finder *finder);

/* The step of a period, with durations as far as they are known by now: the average of what was
 * measured of the op, else of ops with its key, else 0. Streams are numbered in the order of their
 * first operations; access is guessed; a role whose blocks were never told by finder_alloc has 0
 * bytes. NULL: forgotten. Valid until the next call of finder_study.
 */
const struct step *finder_step(struct finder *finder, uint32_t period);

/* For tests and debug builds. */
bool finder_is_valid(const struct finder *finder);

#endif
