/* A period as the follower needs it: for each operation what comes next in its lane and which
 * blocks it touches, as **slots**. A slot is a role and how many blocks of the role are younger (0:
 * the newest); it is bound to the block that fills that place now. Slots of persistent roles come
 * first.
 *
 * Made by the learner from its history. Then all but what is bound is constant; what is bound
 * belongs to the follower. */
#ifndef TRACE_FINDER_PERIOD_H
#define TRACE_FINDER_PERIOD_H

#include "trace/finder_window.h"

struct finder_period_op {
    uint64_t key, context; /* of the lane, this op included */
    uint32_t first_touch, touch_count;
    uint32_t next;      /* op after this one in its lane */
    uint32_t turn;      /* which op of the lane it is */
    uint32_t allocs;    /* that come before it in the step */
    uint32_t like_next; /* another op with this context; FINDER_NONE */
    uint8_t lane;
    bool wild; /* any key does */
};

struct finder_period_role {
    uint32_t born_op; /* STEP_NEVER: persistent */
    uint32_t first_slot, slot_count;
    uint32_t first_use, use_count; /* its part of uses */
    uint32_t alloc;                /* index in allocs */
};

struct finder_period_alloc {
    uint64_t bytes;
    uint32_t role;
};

struct finder_period_lane {
    uint32_t *ops;
    uint32_t count;
};

struct finder_period {
    uint32_t number;
    uint32_t op_count, slot_count, persistent_count, alloc_count;
    uint32_t lead; /* the lane with most operations */
    bool loose;    /* some touches or operations are wild */
    struct finder_period_op *ops;
    uint32_t *touches; /* slots; slot_count: wild, nothing is foretold */
    struct finder_period_lane lanes[FINDER_STREAMS];
    uint32_t due[FINDER_STREAMS]; /* the op that was due next when it was made */
    struct finder_period_alloc *allocs;
    struct finder_period_role *roles;
    uint32_t *slot_roles;
    uint32_t *uses;  /* operations between birth and use (persistent: position), rising */
    uint32_t *likes; /* hash table of contexts: the first op of each */
    uint32_t like_mask;

    uint32_t *bound; /* of each slot: id of a block, or 0; one more for wild touches */
    struct finder_map persistent, passing; /* from ids to slots: the same, backwards */

    /* The learner's. */
    struct step step;
    uint64_t *sum_ns;
    uint32_t *samples;
    uint64_t signature;
    struct finder_period *next;
};

/* The last four keys of a lane. */
static inline uint64_t finder_context(uint64_t context, uint64_t key)
{
    return context << 16 | (key * UINT64_C(0x9E3779B97F4A7C15)) >> 48;
}

/* Makes the period. NULL: no memory, or the history does not hold together. */
struct finder_period *finder_period_create(struct finder_past *past,
                                           const struct finder_repeat *repeat);
void finder_period_destroy(struct finder_period *period);

/* Brings the durations of the step up to date. */
void finder_period_average(struct finder_period *period);

/* First op with this context; FINDER_NONE. */
uint32_t finder_period_like(const struct finder_period *period, uint64_t context);

/* The slot that (role, age) has for an op of the step; FINDER_NONE: none. */
static inline uint32_t finder_period_slot(const struct finder_period *period, uint32_t role,
                                          uint32_t age, uint32_t op)
{
    const struct finder_period_role *r = &period->roles[role];
    uint32_t younger = age - (r->born_op != STEP_NEVER && op < r->born_op);
    return younger < r->slot_count ? r->first_slot + younger : FINDER_NONE;
}

#endif
