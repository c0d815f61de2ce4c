/* gaps: the choice of the gaps during which chunks are away, so that what stays fits the card.
 *
 * What the card must hold while op i runs is the bytes of all chunks that live then, less those
 * that are in the middle of a gap that was chosen. A chunk is at home at both ends of its gaps, as
 * ops use it there. */
#ifndef PLAN_GAPS_H
#define PLAN_GAPS_H

#include "plan/shape.h"

struct gap {
    uint32_t chunk;
    uint32_t from, to; /* ops that use it, or its death; positions as in shape.h */
    uint64_t ns;       /* from the end of the one to the start of the other, everything in HBM */
    bool written;      /* so that it has to be copied out */
    bool dies;         /* `to` is its death */
};

struct gaps {
    const struct shape *shape;
    struct gap *gap;    /* of each number; one without an op between its ends has to == from + 1 */
    uint32_t *by_worth; /* numbers of those with ops between, best first; see gaps_weigh */
    uint32_t worth_count;
    uint8_t *away;      /* chosen */
    uint8_t *fixed;     /* gaps_fit leaves it as it is */
    uint32_t *save_for; /* see executor_plan */
    uint64_t *occupied; /* of each op position: bytes at home */
};

/* Without weights copies in and out count alike. */
vp_status gaps_create(const struct shape *shape, struct gaps *gaps) VP_MUST_USE;
void gaps_destroy(struct gaps *gaps);

/* What a gap is worth is its time for what it costs: `in` if the chunk has to come back, and `out`
 * if it has to be copied out. The link that is busier should weigh more. Both differ from gap to
 * gap, by so much of themselves as `spread` says (0 to 1), one more where the other is less: so
 * that of gaps that are alike a part is chosen for the one link and a part for the other.
 * VP_NO_HOST_MEMORY. */
vp_status gaps_weigh(struct gaps *gaps, double in, double out, double spread) VP_MUST_USE;

/* The same, each copy at the price (0 to 1) that its op has: one home at the op that ends the gap,
 * one out at the op that begins it. */
vp_status gaps_price(struct gaps *gaps, const float *in, const float *out) VP_MUST_USE;

/* Starts anew from the gaps marked in `away`; NULL: none. */
void gaps_set(struct gaps *gaps, const uint8_t *away);

/* Chooses gaps on a walk over the ops, in their order or `back`, so that each op fits: of those
 * that cover it the one that covers most of what is still to come, which takes the fewest gaps.
 * Costs are not looked at. What it cannot make fit, also for want of memory, is left to gaps_fit.
 */
void gaps_sweep(struct gaps *gaps, uint64_t bytes, bool back);

/* Chooses more gaps, at the fullest op the best ones, until everything fits `bytes`, or nothing can
 * be added for the op; then gives up those, worst first, without which it still fits. Those that
 * are fixed it neither chooses nor gives up. */
void gaps_fit(struct gaps *gaps, uint64_t bytes);

/* Chooses the gap, or gives it up if it was chosen. */
void gaps_flip(struct gaps *gaps, uint32_t index);

/* Finds the early copies that the choice allows. */
void gaps_find_saves(struct gaps *gaps);

/* For debug builds and tests. */
bool gaps_are_valid(const struct gaps *gaps);

#endif
