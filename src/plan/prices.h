/* prices: what a copy costs at each op, from how a plan has been seen to run.
 *
 * A link is short at an op if it is busy from there, without a pause, until the device waits: with
 * less to carry the wait would be shorter. There a copy costs its time; elsewhere next to nothing.
 * Gaps chosen by these prices (gaps.h) move the copies to where they are free; where that makes the
 * link short the next prices say so. They change by parts, so that it comes to rest. */
#ifndef PLAN_PRICES_H
#define PLAN_PRICES_H

#include "plan/sim.h"

struct prices_move {
    uint64_t start_ns, end_ns;
    bool in;
};

struct prices {
    float *in;  /* of a copy home that has to be over when the op starts: 0 to 1 */
    float *out; /* of a copy out from when the op has ended */
    uint32_t op_count;
    uint64_t *bounds_ns; /* of the step that was watched: where each op's wait begins, it starts and
                            ends; so the next one's wait begins */
    float *busy;         /* between them: the part of the time in which a link was busy */
    struct prices_move *moves;
    uint32_t move_count, move_room;
    bool exhausted; /* memory */
    bool over;      /* the step that was watched */
};

/* All prices are the same until something has been watched. VP_NO_HOST_MEMORY. */
vp_status prices_create(uint32_t op_count, struct prices *prices) VP_MUST_USE;
void prices_destroy(struct prices *prices);

/* For a simulation: what it tells is kept for prices_update, until another one tells more. */
struct sim_watch prices_watch(struct prices *prices);

/* New prices: so much of them (0 to 1) from the step that was watched last, the rest of the old
 * ones. VP_NO_HOST_MEMORY: they stay as they were. */
vp_status prices_update(struct prices *prices, float part) VP_MUST_USE;

#endif
