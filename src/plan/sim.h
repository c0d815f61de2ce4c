/* sim: predicts how a step goes when an executor moves its data: an event simulation with every
 * cost charged.
 *
 * There are one device that runs ops one after the other, to each refuge a way in and a way out,
 * which carry one copy at a time and leave each other what the links they share have left, and four
 * threads, which map what comes and queue its copy, unmap what has left, and map for blocks to be
 * born: the first two look for the former first, the others for the latter. The host launches ops
 * as early as the executor lets it. Frames of one size are used again; taking one of another size
 * costs its release and a new one.
 *
 * Steps are repeated until their time is steady. Same input, same result. */
#ifndef PLAN_SIM_H
#define PLAN_SIM_H

#include "plan/costs.h"
#include "plan/executor.h"

/* Why the device waits or is slow; X(name, words). */
#define SIM_STALLS(X)                                                                              \
    X(in, "for data to come in")                                                                   \
    X(room, "for data to leave")                                                                   \
    X(map, "for memory to be mapped")                                                              \
    X(in_place, "use of data in place")

enum sim_stall {
#define SIM_STALL(name, words) SIM_STALL_##name,
    SIM_STALLS(SIM_STALL)
#undef SIM_STALL
        SIM_STALL_COUNT
};

const char *sim_stall_name(enum sim_stall stall);
const char *sim_stall_words(enum sim_stall stall);

enum { SIM_STEPS = 12 };

/* What went between the card and one refuge. */
struct sim_traffic {
    uint64_t in_bytes, out_bytes, in_place_bytes; /* copied; touched over the link */
    uint64_t in_busy_ns, out_busy_ns;
};

/* Of one steady step. */
struct sim_result {
    uint64_t step_ns, in_hbm_ns;
    uint64_t stall_ns[SIM_STALL_COUNT];
    uint64_t in_bytes, out_bytes, in_place_bytes;
    struct sim_traffic traffic[PLAN_REFUGES];
    uint64_t kinds[EXECUTOR_HOST + 1];         /* actions of each kind */
    uint64_t map_ns, unmap_ns, fetch_ns;       /* what the threads were busy with each */
    uint64_t events;                           /* of all steps, also if it failed */
    uint64_t held;                             /* launches that waited while the device did, too */
    uint64_t used_peak_bytes, host_peak_bytes; /* of the card, and of all refuges together; */
    uint64_t refuge_peak_bytes[PLAN_REFUGES];  /* of each */
    uint64_t each_ns[SIM_STEPS + 1]; /* of all steps that were simulated, from the first on */
    uint32_t steps;                  /* before the last of them, which is steady */
};

/* Told what happens in the last step; times from its start. */
struct sim_watch {
    void *context;
    void (*moved)(void *context, const struct executor_action *action, uint64_t start_ns,
                  uint64_t end_ns);
    void (*used)(void *context, uint64_t time_ns, uint64_t used_bytes, uint64_t spare_bytes);
    void (*ran)(void *context, const struct executor *executor, uint32_t op, uint64_t start_ns,
                uint64_t end_ns); /* the executor's `done` is still this op */
};

struct sim_task {
    const struct shape *shape;
    const struct plan_costs *costs;
    const struct executor_options *options;
    const struct executor_plan *plan; /* NULL but for PLAN mode */
    const struct sim_watch *watch;    /* may be NULL */
    uint64_t hopeless_ns; /* give up when a step after the first takes longer; 0: never */
    uint8_t *swapped;     /* marks the gaps in which chunks left in the last step; may be NULL */
};

/* Simulates until the step is steady; where it is not after SIM_STEPS, the result is the mean of
 * the last ones. VP_QUOTA: an op needs more than the card holds and cannot use the rest in place,
 * or card and host together are too small; *op (may be NULL) tells which. VP_NOT_READY: hopeless,
 * or the executor moves data without end. VP_NO_HOST_MEMORY. */
vp_status sim_run(const struct sim_task *task, struct sim_result *result, uint32_t *op) VP_MUST_USE;

#endif
