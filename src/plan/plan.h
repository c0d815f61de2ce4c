/* plan: which chunks leave the card when within a step, found by trying and simulating.
 *
 * Pure: a step, costs and limits in, a plan and its predicted time out. The plan is a choice of
 * gaps (shape.h) plus the executor's options; the executor carries it out, in the simulator as in a
 * running program. Its candidates, the rules EAGER, DEMAND, LRU and INPLACE among them, are
 * simulated with all costs, and the fastest one is the plan: so a plan is never predicted to be
 * slower than a rule. Where that was quick, the rest of the time goes to changes of the best one by
 * chance. */
#ifndef PLAN_PLAN_H
#define PLAN_PLAN_H

#include "plan/sim.h"

/* The pool's policies: PLAN is the best that is found; the others are rules to compare with. */
#define PLAN_POLICIES VP_POLICIES

enum plan_policy {
#define PLAN_POLICY(id, name) PLAN_POLICY_##id,
    PLAN_POLICIES(PLAN_POLICY)
#undef PLAN_POLICY
        PLAN_POLICY_COUNT
};

const char *plan_policy_name(enum plan_policy policy);

struct plan_limits {
    uint64_t hbm_bytes;                  /* of the card, for data and spare frames */
    uint64_t refuge_bytes[PLAN_REFUGES]; /* as the costs number them */
    bool quiet;                          /* a step that cannot run within them is no error */
};

struct plan {
    struct executor_options options;
    uint8_t *away;
    uint32_t *save_for;
    uint64_t *occupied;
    struct sim_result predicted;
    uint32_t candidates, best_candidate; /* how many were simulated, and which one this is */
};

/* What all refuges together hold. */
uint64_t plan_refuge_bytes(const struct plan_limits *limits);

/* What the planner starts from: the EAGER rule, which is the one that the pool follows most
 * closely.
 */
struct executor_options plan_options(const struct plan_costs *costs,
                                     const struct plan_limits *limits, uint64_t chunk_bytes);

/* Makes a plan by a policy. VP_QUOTA: the step cannot run within the limits, logged with numbers.
 * VP_NO_HOST_MEMORY. */
vp_status plan_make(const struct shape *shape, const struct plan_costs *costs,
                    const struct plan_limits *limits, enum plan_policy policy,
                    struct plan *plan) VP_MUST_USE;

/* The same by what the pool itself does under that policy, since it carries no plan out: under PLAN
 * the rule EAGER. */
vp_status plan_follow(const struct shape *shape, const struct plan_costs *costs,
                      const struct plan_limits *limits, enum plan_policy policy,
                      struct plan *plan) VP_MUST_USE;
void plan_destroy(struct plan *plan);

/* The plan's gaps as the executor takes them. */
struct executor_plan plan_gaps(const struct plan *plan);

/* Simulates a plan again, watched. */
vp_status plan_watch(const struct plan *plan, const struct shape *shape,
                     const struct plan_costs *costs, const struct sim_watch *watch,
                     struct sim_result *result) VP_MUST_USE;

#endif
