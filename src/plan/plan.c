#include "plan/plan.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/setting.h"
#include "base/units.h"
#include "plan/gaps.h"
#include "plan/prices.h"

enum {
    SPARE_CHUNKS = 3,
    LEAD_OPS = 1024,
    MOST_WORK = 120000, /* ops and chunks simulated, once for each candidate: about 0.5 s */
    MOST_TRIED = 1024,
    PATIENCE = 125, /* percent of the best plan's step in which a candidate may be slow */
    RULE_PATIENCE = 200,
    LITTLE_PATIENCE = 105,
    MOST_CHANGES = 500,
    MOST_EVENTS = 800000, /* before and during changes */
    MOST_FLIPS = 4,
};

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

uint64_t plan_refuge_bytes(const struct plan_limits *limits)
{
    uint64_t bytes = 0;
    for (unsigned i = 0; i < PLAN_REFUGES; i++) bytes += limits->refuge_bytes[i];
    return bytes;
}

/* What the candidates are tried on. */
struct search {
    const struct shape *shape;
    const struct plan_costs *costs;
    const struct plan_limits *limits;
    struct executor_options options; /* of the candidate */
    struct gaps gaps;                /* the same, for PLAN mode */
    uint8_t *swapped;                /* gaps in which chunks left when the EAGER rule was tried */
    uint32_t patience;               /* see PATIENCE */
    uint64_t margin_bytes;           /* that the gaps leave free, for chunks on the move */
    uint64_t tried[MOST_TRIED];      /* candidates, by digests */
    uint32_t tried_count;
    uint64_t events; /* simulated */
    struct plan *best;
    vp_status status; /* of the last candidate, while there is no good one */
    uint32_t op;
};

/* How many refuges are as near as number `least` - 1: at most a tenth slower. */
static uint32_t near_refuges(const struct plan_costs *costs, uint32_t least)
{
    double most_ns = plan_return_ns(&costs->refuge[least - 1]) * 1.1;
    uint32_t near = least;
    while (near < costs->refuges && plan_return_ns(&costs->refuge[near]) <= most_ns) near++;
    return near;
}

struct executor_options plan_options(const struct plan_costs *costs,
                                     const struct plan_limits *limits, uint64_t chunk_bytes)
{
    struct executor_options options = {.mode = EXECUTOR_EAGER,
                                       .capacity_bytes = limits->hbm_bytes,
                                       .refuges = costs->refuges,
                                       .near = near_refuges(costs, 1),
                                       .spare_bytes = SPARE_CHUNKS * chunk_bytes,
                                       .ahead_ops = SETTING_AHEAD_OPS,
                                       .lead_ops = LEAD_OPS};
    for (uint32_t i = 0; i < costs->refuges; i++)
        options.refuge[i] = (struct executor_refuge){limits->refuge_bytes[i],
                                                     (uint32_t)plan_return_ns(&costs->refuge[i]),
                                                     costs->refuge[i].in_place_works};
    return options;
}

static struct executor_options default_options(const struct search *search)
{
    return plan_options(search->costs, search->limits, search->shape->chunk_bytes);
}

static void keep(struct search *search, const struct sim_result *result)
{
    struct plan *best = search->best;
    const struct shape *shape = search->shape;
    search->status = VP_OK;
    best->options = search->options;
    best->best_candidate = best->candidates;
    best->predicted = *result;
    if (search->options.mode != EXECUTOR_PLAN) return;
    memcpy(best->away, search->gaps.away, shape->gap_count * sizeof *best->away);
    memcpy(best->save_for, search->gaps.save_for, shape->gap_count * sizeof *best->save_for);
    memcpy(best->occupied, search->gaps.occupied, shape->op_count * sizeof *best->occupied);
}

/* Faster; or as fast with less traffic. */
static bool is_better(const struct sim_result *one, const struct sim_result *other)
{
    if (one->step_ns != other->step_ns) return one->step_ns < other->step_ns;
    return one->in_bytes + one->out_bytes < other->in_bytes + other->out_bytes;
}

static uint64_t mix(uint64_t digest, uint64_t value)
{
    digest = (digest ^ value) * UINT64_C(0x9E3779B97F4A7C15);
    return digest ^ digest >> 32;
}

/* Other weights often choose the same gaps. */
static bool was_tried(struct search *search)
{
    const struct executor_options *options = &search->options;
    uint64_t digest = mix(mix(mix(1, options->lead_ops), options->ahead_ops), options->near);
    digest = mix(digest, options->spare_bytes);
    for (uint32_t i = 0; i < search->shape->gap_count; i++)
        if (search->gaps.away[i]) digest = mix(digest, i);
    for (uint32_t i = 0; i < search->tried_count; i++)
        if (search->tried[i] == digest) return true;
    if (search->tried_count < MOST_TRIED) search->tried[search->tried_count++] = digest;
    return false;
}

/* Simulates the candidate and keeps it if it is the fastest so far. */
static void try(struct search *search, uint8_t *swapped)
{
    struct sim_result result;
    struct plan *best = search->best;
    bool first = search->status != VP_OK;
    if (search->options.mode == EXECUTOR_PLAN && was_tried(search)) return;
    struct executor_plan gaps = {search->gaps.away, search->gaps.save_for, search->gaps.occupied};
    struct sim_task task = {.shape = search->shape,
                            .costs = search->costs,
                            .options = &search->options,
                            .plan = &gaps,
                            .hopeless_ns =
                                first ? 0 : best->predicted.step_ns / 100 * search->patience,
                            .swapped = swapped};
    vp_status status = sim_run(&task, &result, &search->op);
    best->candidates++;
    search->events += result.events;
    if (status != VP_OK && first) search->status = status;
    if (status != VP_OK) return;
    if (first || is_better(&result, &best->predicted)) keep(search, &result);
}

static void try_rule(struct search *search, enum executor_mode mode)
{
    search->options.mode = mode;
    try(search, mode == EXECUTOR_EAGER ? search->swapped : NULL);
}

/* One that begins slowly may be the fastest. */
static void try_other_rules(struct search *search)
{
    static const enum executor_mode rules[] = {EXECUTOR_DEMAND, EXECUTOR_LRU, EXECUTOR_INPLACE};
    const struct sim_result *best = &search->best->predicted;
    search->patience = RULE_PATIENCE;
    for (unsigned i = 0; i < sizeof rules / sizeof *rules; i++)
        if (search->status != VP_OK || best->step_ns > best->in_hbm_ns) try_rule(search, rules[i]);
    search->patience = PATIENCE;
}

static bool is_perfect(const struct search *search)
{
    const struct sim_result *best = &search->best->predicted;
    return search->status == VP_OK && best->step_ns <= best->in_hbm_ns + best->in_hbm_ns / 1000;
}

/* Whether there is anything to gain, and time for it: long steps are not searched to the end. */
static bool is_worth_more(const struct search *search)
{
    const struct shape *shape = search->shape;
    uint64_t work = (uint64_t)search->best->candidates * (shape->op_count + shape->chunk_count);
    return search->status == VP_OK && work < MOST_WORK && !is_perfect(search);
}

static uint64_t room_bytes(const struct search *search)
{
    return search->limits->hbm_bytes - search->margin_bytes;
}

/* Plans from the gaps that are chosen so far. Returns whether it is the best plan so far. */
static bool try_gaps(struct search *search)
{
    uint32_t best = search->best->best_candidate;
    search->options.mode = EXECUTOR_PLAN;
    gaps_fit(&search->gaps, room_bytes(search));
    gaps_find_saves(&search->gaps);
    try(search, NULL);
    return search->best->best_candidate != best;
}

/* Which link is short is not known before: it depends on what is chosen. */
static const struct weights {
    double in, out;
} all_weights[] = {{1, 1}, {2, 1}, {4, 1}, {1, 2}, {1, 0}};
enum { ALL_WEIGHTS = sizeof all_weights / sizeof *all_weights };

/* Returns the weights that made the best plan so far, if any of them did. */
static unsigned try_all_weights(struct search *search, double spread)
{
    unsigned best = 0;
    for (unsigned i = 0; i < ALL_WEIGHTS && !is_perfect(search); i++) {
        if (gaps_weigh(&search->gaps, all_weights[i].in, all_weights[i].out, spread) != VP_OK)
            break;
        gaps_set(&search->gaps, NULL);
        if (try_gaps(search)) best = i;
    }
    return best;
}

static void try_weights(struct search *search)
{
    const struct weights *best = &all_weights[try_all_weights(search, 0)];
    if (is_perfect(search)) return;
    if (gaps_weigh(&search->gaps, best->in, best->out, 0) != VP_OK) return;
    gaps_set(&search->gaps, search->swapped);
    try_gaps(search);
    for (unsigned back = 0; back < 2; back++) {
        gaps_set(&search->gaps, NULL);
        gaps_sweep(&search->gaps, room_bytes(search), back);
        try_gaps(search);
    }
}

/* The best choice of gaps again, carried out with less in advance: what is launched or mapped early
 * takes room that others need. */
static void try_leads(struct search *search)
{
    static const struct {
        uint32_t lead, ahead;
    } leads[] = {{256, 64}, {64, 16}, {16, 16}, {4, 4}};
    struct plan *best = search->best;
    if (search->status != VP_OK || best->options.mode > EXECUTOR_EAGER) return;
    search->options = best->options;
    if (search->options.mode == EXECUTOR_PLAN) {
        gaps_set(&search->gaps, best->away);
        gaps_find_saves(&search->gaps);
    }
    for (unsigned i = 0; i < sizeof leads / sizeof *leads && !is_perfect(search); i++) {
        search->options.lead_ops = leads[i].lead;
        search->options.ahead_ops = leads[i].ahead;
        try(search, NULL);
    }
    search->options = default_options(search);
}

/* The best plan again, with farther refuges counted among the near ones: slower, but they have
 * links of their own. */
static void try_farther(struct search *search)
{
    struct plan *best = search->best;
    if (search->status != VP_OK) return;
    search->options = best->options;
    if (search->options.mode == EXECUTOR_PLAN) {
        gaps_set(&search->gaps, best->away);
        gaps_find_saves(&search->gaps);
    }
    while (search->options.near < search->options.refuges && !is_perfect(search)) {
        search->options.near = near_refuges(search->costs, search->options.near + 1);
        try(search, NULL);
    }
    search->options = default_options(search);
}

/* Gaps anew, by the prices that copies have where the best plan makes them. */
static void try_prices(struct search *search)
{
    static const float parts[] = {0.8F, 0.7F, 0.7F};
    struct plan *best = search->best;
    struct prices prices;
    uint32_t watched = UINT32_MAX;
    if (!is_worth_more(search) || best->options.mode > EXECUTOR_EAGER) return;
    if (prices_create(search->shape->op_count, &prices) != VP_OK) return;
    for (unsigned i = 0; i < sizeof parts / sizeof *parts; i++) {
        struct sim_watch watch = prices_watch(&prices);
        struct sim_result result;
        if (watched != best->best_candidate &&
            plan_watch(best, search->shape, search->costs, &watch, &result) != VP_OK)
            break;
        watched = best->best_candidate;
        if (prices_update(&prices, parts[i]) != VP_OK) break;
        if (gaps_price(&search->gaps, prices.in, prices.out) != VP_OK) break;
        search->options = best->options;
        gaps_set(&search->gaps, NULL);
        try_gaps(search);
    }
    prices_destroy(&prices);
    search->options = default_options(search);
}

static bool moves(const struct sim_result *result)
{
    return result->in_bytes + result->out_bytes > 0;
}

/* Where it pays to lead less, other gaps may be the best. */
static void try_weights_led(struct search *search)
{
    const struct executor_options *options = &search->best->options;
    if (!is_worth_more(search) || options->mode > EXECUTOR_EAGER) return;
    if (options->lead_ops == LEAD_OPS) return;
    search->options = *options;
    try_weights(search);
    search->options = default_options(search);
}

/* Weights that differ from gap to gap, where otherwise all that are alike go the same way. */
static void try_spread(struct search *search)
{
    if (!is_worth_more(search)) return;
    if (search->best->options.mode <= EXECUTOR_EAGER) search->options = search->best->options;
    try_all_weights(search, 0.9);
    search->options = default_options(search);
}

static uint64_t largest_chunk(const struct shape *shape)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < shape->chunk_count; i++)
        if (shape->chunks[i].bytes > most) most = shape->chunks[i].bytes;
    return most;
}

/* Where the gaps leave nothing free, one chunk comes only when another has left: with a margin they
 * pass each other. Wider ones as long as they help. */
static void try_margins(struct search *search)
{
    uint64_t chunk = largest_chunk(search->shape), best = 0;
    if (search->best->options.mode <= EXECUTOR_EAGER) search->options = search->best->options;
    for (unsigned chunks = 1, failed = 0; failed < 2 && is_worth_more(search); chunks *= 2) {
        uint32_t before = search->best->best_candidate;
        search->margin_bytes = chunks * chunk;
        if (search->margin_bytes > search->limits->hbm_bytes / 2) break;
        try_weights(search);
        failed = search->best->best_candidate != before ? 0 : failed + 1;
        if (failed == 0) best = search->margin_bytes;
    }
    search->margin_bytes = best;
    search->options = default_options(search);
}

static uint64_t random_below(uint64_t *state, uint64_t below)
{
    *state = mix(*state, 1);
    return *state % below;
}

/* One option changed. */
static void try_option(struct search *search, uint64_t *state)
{
    static const uint32_t ops[] = {4, 8, 16, 32, 64, 96, 192, 400};
    static const uint32_t chunks[] = {0, 1, 2, 3, 4, 6, 8, 12};
    uint64_t which = random_below(state, 8);
    switch (random_below(state, 3)) {
    case 0: search->options.lead_ops = ops[which]; break;
    case 1: search->options.ahead_ops = ops[which]; break;
    default: search->options.spare_bytes = chunks[which] * largest_chunk(search->shape); break;
    }
    try_gaps(search);
}

/* Some gaps the other way, and what follows from that. */
static void try_flips(struct search *search, uint64_t *state)
{
    struct gaps *gaps = &search->gaps;
    uint32_t flipped[MOST_FLIPS], count = 1 + (uint32_t)random_below(state, MOST_FLIPS);
    for (uint32_t i = 0; i < count; i++) {
        flipped[i] = gaps->by_worth[random_below(state, gaps->worth_count)];
        if (gaps->fixed[flipped[i]]) continue;
        gaps_flip(gaps, flipped[i]);
        gaps->fixed[flipped[i]] = true;
    }
    try_gaps(search);
    for (uint32_t i = 0; i < count; i++) gaps->fixed[flipped[i]] = false;
}

/* Other gaps altogether. */
static void try_other_weights(struct search *search, uint64_t *state)
{
    double in = (double)(1 + random_below(state, 8)), out = (double)random_below(state, 9);
    double spread = (double)random_below(state, 10) / 10;
    if (gaps_weigh(&search->gaps, in, out, spread) != VP_OK) return;
    gaps_set(&search->gaps, NULL);
    uint64_t sweep = random_below(state, 4);
    if (sweep < 2) gaps_sweep(&search->gaps, room_bytes(search), sweep == 1);
    try_gaps(search);
}

/* The best plan with changes by chance, small and large, as long as there is time: short steps get
 * hundreds of them. Always the same ones, so that a step has one plan. */
static void try_changes(struct search *search)
{
    const struct plan *best = search->best;
    uint64_t state = 1, margin_bytes = search->margin_bytes, chunk = largest_chunk(search->shape);
    if (search->gaps.worth_count == 0) return;
    search->patience = LITTLE_PATIENCE;
    for (uint32_t i = 0; i < MOST_CHANGES && search->events < MOST_EVENTS && is_worth_more(search);
         i++) {
        uint64_t kind = random_below(&state, 8), wider_bytes = random_below(&state, 8) * chunk;
        uint32_t before = best->best_candidate;
        search->margin_bytes = margin_bytes;
        if (kind >= 2 && random_below(&state, 2) && wider_bytes <= search->limits->hbm_bytes / 2)
            search->margin_bytes = wider_bytes;
        if (best->options.mode <= EXECUTOR_EAGER) search->options = best->options;
        gaps_set(&search->gaps, best->away);
        if (kind < 2)
            try_option(search, &state);
        else if (kind < 4)
            try_other_weights(search, &state);
        else
            try_flips(search, &state);
        if (best->best_candidate != before) margin_bytes = search->margin_bytes;
    }
    search->patience = PATIENCE;
    search->options = default_options(search);
}

static void try_plans(struct search *search)
{
    try_rule(search, EXECUTOR_EAGER);
    if (is_perfect(search) && !moves(&search->best->predicted)) return;
    try_weights(search);
    if (is_perfect(search)) return;
    try_leads(search);
    try_weights_led(search);
    try_spread(search);
    try_margins(search);
    try_farther(search);
    try_prices(search);
}

static void try_all(struct search *search)
{
    try_plans(search);
    try_other_rules(search);
    try_changes(search);
}

static bool make_search(struct search *search)
{
    const struct shape *shape = search->shape;
    struct plan *best = search->best;
    search->swapped = calloc(shape->gap_count + 1u, sizeof *search->swapped);
    best->away = calloc(shape->gap_count + 1u, sizeof *best->away);
    best->save_for = calloc(shape->gap_count + 1u, sizeof *best->save_for);
    best->occupied = calloc(shape->op_count + 1u, sizeof *best->occupied);
    return search->swapped && best->away && best->save_for && best->occupied &&
           gaps_create(shape, &search->gaps) == VP_OK;
}

static void say_what_is_short(const struct search *search)
{
    char peak[32], hbm[32], refuges[32], where[64] = "";
    if (search->op != SHAPE_NEVER)
        snprintf(where, sizeof where, ", and op %u of %u needs more than that leaves", search->op,
                 search->shape->op_count);
    log_error("the step cannot run: its blocks take %s at the peak; there are %s on the card and "
              "%s elsewhere%s",
              units_format_size(search->shape->peak_bytes, peak, sizeof peak),
              units_format_size(search->limits->hbm_bytes, hbm, sizeof hbm),
              units_format_size(plan_refuge_bytes(search->limits), refuges, sizeof refuges), where);
}

/* By the policy's rule alone, or by the best plan that is found. */
static vp_status make(const struct shape *shape, const struct plan_costs *costs,
                      const struct plan_limits *limits, enum plan_policy policy, bool best,
                      struct plan *plan)
{
    static const enum executor_mode rules[] = {[PLAN_POLICY_PLAN] = EXECUTOR_EAGER,
                                               [PLAN_POLICY_LRU] = EXECUTOR_LRU,
                                               [PLAN_POLICY_DEMAND] = EXECUTOR_DEMAND,
                                               [PLAN_POLICY_INPLACE] = EXECUTOR_INPLACE};
    struct plan made = {0};
    struct search search = {.shape = shape,
                            .costs = costs,
                            .limits = limits,
                            .best = &made,
                            .patience = PATIENCE,
                            .op = SHAPE_NEVER,
                            .status = VP_NO_HOST_MEMORY};
    if (shape->peak_bytes > limits->hbm_bytes + plan_refuge_bytes(limits)) {
        search.status = VP_QUOTA;
    } else if (make_search(&search)) {
        search.options = default_options(&search);
        if (best)
            try_all(&search);
        else
            try_rule(&search, rules[policy]);
    }
    if (search.status == VP_QUOTA && !limits->quiet) say_what_is_short(&search);
    if (search.status == VP_NOT_READY && !limits->quiet)
        log_error("policy %s moves data without end on this step", plan_policy_name(policy));
    if (search.status == VP_NO_HOST_MEMORY) log_error("no memory to plan %u ops", shape->op_count);
    free(search.swapped);
    gaps_destroy(&search.gaps);
    if (search.status != VP_OK)
        plan_destroy(&made);
    else
        *plan = made;
    return search.status;
}

vp_status plan_make(const struct shape *shape, const struct plan_costs *costs,
                    const struct plan_limits *limits, enum plan_policy policy, struct plan *plan)
{
    return make(shape, costs, limits, policy, policy == PLAN_POLICY_PLAN, plan);
}

vp_status plan_follow(const struct shape *shape, const struct plan_costs *costs,
                      const struct plan_limits *limits, enum plan_policy policy, struct plan *plan)
{
    return make(shape, costs, limits, policy, false, plan);
}

void plan_destroy(struct plan *plan)
{
    free(plan->away);
    free(plan->save_for);
    free(plan->occupied);
    memset(plan, 0, sizeof *plan);
}

struct executor_plan plan_gaps(const struct plan *plan)
{
    return (struct executor_plan){plan->away, plan->save_for, plan->occupied};
}

vp_status plan_watch(const struct plan *plan, const struct shape *shape,
                     const struct plan_costs *costs, const struct sim_watch *watch,
                     struct sim_result *result)
{
    struct executor_plan gaps = plan_gaps(plan);
    struct sim_task task = {
        .shape = shape, .costs = costs, .options = &plan->options, .plan = &gaps, .watch = watch};
    return sim_run(&task, result, NULL);
}
