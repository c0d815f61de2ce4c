/* How a step is made of the history. The **window** is the last repetition: the last turns of each
 * lane, in the order of the host's calls. Each block first touched in it is a role; other touches
 * are either persistent, where the repetition before touched the same block, or mean an earlier
 * block of a role: the one that was first touched at the same place, so many repetitions before.
 * Then the window is turned, so that the step starts where least is alive.
 *
 * What differs between the repetitions is wild, and not in the step. */
#ifndef TRACE_FINDER_WINDOW_H
#define TRACE_FINDER_WINDOW_H

#include "trace/finder_past.h"

enum { FINDER_REPETITIONS = 8 }; /* looked back at most */

/* What the learner has found to repeat: the last `lengths[l]` turns of each lane, as those before.
 */
struct finder_repeat {
    uint32_t lengths[FINDER_STREAMS];
    uint32_t lead;  /* the lane with most operations */
    uint32_t times; /* how often, the last one included */
    bool loose;     /* but for a few operations */
    bool noisy;     /* only the keys, and those not all in the same place */
};

struct finder_window_event;

/* Its block is the one of the window. */
struct finder_window_role {
    uint32_t block; /* index in the history */
    bool persistent;
    uint32_t name_op;     /* of the window, where the block was first touched; of passing roles */
    uint32_t alloc, free; /* indices of events */
    uint32_t free_gap, free_rank, free_age;
};

struct finder_window {
    struct finder_past *past;
    const struct finder_repeat *repeat;
    uint32_t starts[FINDER_STREAMS];   /* first turns */
    uint32_t *places[FINDER_STREAMS];  /* op of the window of each turn, from starts */
    uint64_t first;                    /* number of the earliest op */
    uint64_t *numbers;                 /* of the window's ops */
    uint32_t *first_touches, *indices; /* of each op of the window; its index in the step */
    bool *wild;                        /* op of the window: any key does */
    struct step_touch *touches;        /* role FINDER_NONE: wild; ages as in the window */
    struct finder_window_role *roles;  /* in the order of the step's */
    struct finder_window_event *events;
    uint32_t op_count, touch_count, role_count, event_count;
    uint32_t cut;      /* event with which the step starts */
    uint32_t first_op; /* the op of the window that comes first in the step */
    bool loose;        /* something is wild */
    struct step step;
};

/* False: no memory, or the history does not hold together. Give back with finder_window_release in
 * any case; the step goes too, unless it was taken out. */
bool finder_window_make(struct finder_window *window, struct finder_past *past,
                        const struct finder_repeat *repeat) VP_MUST_USE;
void finder_window_release(struct finder_window *window);

static inline struct finder_past_op *finder_window_op(const struct finder_window *window,
                                                      uint32_t op)
{
    return finder_past_op(window->past, window->numbers[op]);
}

#endif
