#include "plan/plan.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/units.h"

enum { MAX_STEPS = 12, SPARE_CHUNKS = 3, AHEAD_OPS = 64, CHUNKS_OF_A_CARD = 12 };

const char *plan_policy_name(enum plan_policy policy)
{
    static const char *const names[] = {
#define NAME(id, name) name,
        PLAN_POLICIES(NAME)
#undef NAME
    };
    assert(policy < PLAN_POLICY_COUNT);
    return names[policy];
}

uint64_t plan_chunk_bytes(uint64_t hbm_bytes, uint64_t granularity_bytes)
{
    uint64_t bytes = hbm_bytes / CHUNKS_OF_A_CARD;
    if (bytes > 32 * MIB) bytes = 32 * MIB;
    bytes -= bytes % granularity_bytes;
    return bytes < granularity_bytes ? granularity_bytes : bytes;
}

/* What the candidates are tried on. */
struct search {
    const struct shape *shape;
    const struct plan_costs *costs;
    struct plan *best;
    vp_status status; /* of the last candidate, while there is no good one */
    uint32_t op;
};

static struct executor_options default_options(const struct shape *shape,
                                               const struct plan_costs *costs,
                                               const struct plan_limits *limits)
{
    return (struct executor_options){.mode = EXECUTOR_EAGER,
                                     .order = EXECUTOR_FIFO,
                                     .capacity_bytes = limits->hbm_bytes,
                                     .host_bytes = limits->host_bytes,
                                     .spare_bytes = SPARE_CHUNKS * shape->chunk_bytes,
                                     .ahead_ops = AHEAD_OPS,
                                     .in_place_works = costs->in_place_works};
}

/* Simulates one candidate and keeps it if it is the fastest so far. */
static void try(struct search *search, const struct executor_options *options)
{
    struct sim_result result;
    vp_status status =
        sim_run(search->shape, search->costs, options, NULL, MAX_STEPS, NULL, &result, &search->op);
    struct plan *best = search->best;
    if (status != VP_OK) {
        if (best->candidates == 0) search->status = status;
        return;
    }
    if (best->candidates++ > 0 && result.step_ns >= best->predicted.step_ns) return;
    search->status = VP_OK;
    best->options = *options;
    best->predicted = result;
}

static void try_mode(struct search *search, struct executor_options options,
                     enum executor_mode mode)
{
    options.mode = mode;
    try(search, &options);
}

static void say_what_is_short(const struct search *search, const struct plan_limits *limits)
{
    char peak[32], hbm[32], host[32];
    log_error("the step cannot run: its blocks take %s at the peak; there are %s on the card and "
              "%s on the host, and op %u of %u needs more than that leaves",
              units_format_size(search->shape->peak_bytes, peak, sizeof peak),
              units_format_size(limits->hbm_bytes, hbm, sizeof hbm),
              units_format_size(limits->host_bytes, host, sizeof host), search->op,
              search->shape->op_count);
}

vp_status plan_make(const struct shape *shape, const struct plan_costs *costs,
                    const struct plan_limits *limits, enum plan_policy policy, struct plan *plan)
{
    struct plan made = {0};
    struct search search = {.shape = shape, .costs = costs, .best = &made, .status = VP_QUOTA};
    struct executor_options options = default_options(shape, costs, limits);
    static const enum executor_mode modes[] = {[PLAN_POLICY_PLAN] = EXECUTOR_EAGER,
                                               [PLAN_POLICY_LRU] = EXECUTOR_LRU,
                                               [PLAN_POLICY_DEMAND] = EXECUTOR_DEMAND,
                                               [PLAN_POLICY_INPLACE] = EXECUTOR_INPLACE};
    if (policy == PLAN_POLICY_PLAN)
        for (unsigned i = PLAN_POLICY_LRU; i < PLAN_POLICY_COUNT; i++)
            try_mode(&search, options, modes[i]);
    try_mode(&search, options, modes[policy]);
    if (search.status == VP_QUOTA) say_what_is_short(&search, limits);
    if (search.status != VP_OK)
        plan_destroy(&made);
    else
        *plan = made;
    return search.status;
}

void plan_destroy(struct plan *plan)
{
    free(plan->away);
    free(plan->save_for);
    free(plan->occupied);
    memset(plan, 0, sizeof *plan);
}

vp_status plan_watch(const struct plan *plan, const struct shape *shape,
                     const struct plan_costs *costs, const struct sim_watch *watch,
                     struct sim_result *result)
{
    return sim_run(shape, costs, &plan->options, &plan->gaps, MAX_STEPS, watch, result, NULL);
}
