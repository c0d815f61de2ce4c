/* step: one period of a program that repeats itself, such as a step of a training loop.
 *
 * It is cyclic: after the last op comes the first one again. Blocks are named by their role in the
 * step, so that a block that is freed and allocated anew in each step is the same thing each time.
 * A role is either persistent (allocated before, never freed), or its block is born in each step
 * and dies in the same one or `age` steps later. Then several blocks of the role may live at once;
 * a touch or a free says how many steps ago the block that it means was born.
 *
 *     events:  alloc a   op 0: a w      op 1: a    free a   alloc b   op 2: b w    free b
 *     roles:   w persistent; a born_op 0, died_op 2; b born_op 2, died_op 3
 *
 * Plain data in flat arrays, which belong to the caller; nobody here keeps a pointer to them. */
#ifndef TRACE_STEP_H
#define TRACE_STEP_H

#include <stdbool.h>
#include <stdint.h>

#include "trace/trace.h"

#define STEP_NEVER UINT32_MAX

/* What is known of what an op does to a block. */
enum step_access { STEP_UNKNOWN, STEP_READS, STEP_WRITES };

struct step_touch {
    uint32_t role;
    uint16_t age;    /* steps ago that the block was born; 0 for persistent roles */
    uint16_t access; /* enum step_access */
};

struct step_op {
    uint64_t key; /* hash of what makes ops equal from step to step: function, grid, sizes */
    /* What it adds to the time of the step: from the latest end of the ops before it, whatever
     * their stream, to its own end. 0: it ran beside others. The sum over all is the step's time
     * when everything is in HBM. */
    uint64_t duration_ns;
    uint32_t first_touch, touch_count; /* its part of touches, each block once */
    uint32_t stream;
    enum trace_kind kind;
};

struct step_role {
    uint64_t bytes;
    uint32_t born_op; /* the op that follows its alloc; STEP_NEVER: persistent */
    uint32_t died_op; /* the op that follows its free, in the step `age` later; STEP_NEVER: none;
                         op_count: nothing follows in that step */
    uint32_t age;     /* 0: it dies in the step in which it was born */
};

struct step_event {
    enum trace_event_kind kind;
    uint32_t index; /* of the role, or the op */
    uint32_t age;   /* of a free: how many steps ago the block was born */
};

struct step {
    struct step_event *events; /* in the order of the host's calls */
    struct step_op *ops;
    struct step_touch *touches;
    struct step_role *roles;
    uint32_t event_count, op_count, touch_count, role_count;
};

/* Makes the step that a trace repeats: its last whole one, from a low point of live memory to the
 * next, one between each two occurrences of the rarest op that comes at even distances. The idle
 * time in front of the first op is cut to 0.1 ms. Where nothing repeats, the whole trace is the
 * step (*repeats, which may be NULL, is then false). What ops write is guessed. VP_INVALID: there
 * is no op in it (logged); VP_NO_HOST_MEMORY. The arrays are given back with step_release. */
vp_status step_from_trace(const struct trace *trace, struct step *step, bool *repeats) VP_MUST_USE;

/* The key that step_from_trace gives to an op that touches nothing. */
uint64_t step_key(enum trace_kind kind, const char *name);

/* Guesses what ops write: those that update persistent blocks from others of their size (an
 * optimizer's) write, and no others write persistent blocks. False: no memory. */
bool step_guess_access(struct step *step) VP_MUST_USE;

void step_release(struct step *step);

/* The sum of all durations. */
uint64_t step_duration_ns(const struct step *step);

/* For tests and debug builds: indices are in range, events in the order of the ops, roles born and
 * freed as they say, touches of living blocks only. */
bool step_is_valid(const struct step *step);

#endif
