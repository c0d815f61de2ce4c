#include "pool/predict.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"

enum {
    SPARE_CHUNKS = 4,      /* that the planner keeps free, and one for rounding */
    WORTH_PERCENT = 3,     /* advice that gains less is not given */
    CHECKPOINT_KEEPS = 10, /* per cent of what checkpointing throws away that stays all the same */
    CHECKPOINT_COST =
        20,          /* per cent of compute time that running forward twice costs; 18 measured */
    WASTE_PART = 8,  /* of the card, counted as wasted at most: blocks of earlier steps may count */
    LARGE_SHARE = 4, /* an operation is large that touches this part of the card */
};

static const uint64_t more_bytes = 4 * GIB;

const char *predict_help_word(enum predict_help kind)
{
    static const char *const words[] = {
#define WORD(kind, word) word,
        PREDICT_HELPS(WORD)
#undef WORD
    };
    return words[kind];
}

/* The plan gives each block frames of its own; the program's allocator puts blocks into segments
 * that are larger, and what such chunks hold beyond what lives in them is not to be had. */
static uint64_t wasted_bytes(const struct predict_setup *setup, const struct shape *shape)
{
    uint64_t most = setup->limits.hbm_bytes / WASTE_PART;
    if (setup->peak_held_bytes <= shape->peak_held_bytes) return 0;
    uint64_t wasted = setup->peak_held_bytes - shape->peak_held_bytes;
    return (wasted < most ? wasted : most) / setup->page_bytes * setup->page_bytes;
}

/* One simulation. */
static vp_status simulate(const struct step *step, const struct predict_setup *setup,
                          struct predict *predict)
{
    struct shape shape;
    struct plan plan;
    vp_status status = shape_create(step, setup->chunk_bytes, setup->page_bytes, &shape);
    if (status != VP_OK) return status;
    predict->peak_bytes = shape.peak_bytes;
    predict->wasted_bytes = wasted_bytes(setup, &shape);
    struct plan_limits limits = setup->limits;
    limits.hbm_bytes -= predict->wasted_bytes;
    status = plan_follow(&shape, &setup->costs, &limits, setup->policy, &plan);
    if (status == VP_OK) {
        predict->now = plan.predicted;
        plan_destroy(&plan);
    }
    shape_destroy(&shape);
    return status;
}

vp_status predict_step(const struct step *step, const struct predict_setup *setup,
                       struct predict *predict)
{
    memset(predict, 0, sizeof *predict);
    return simulate(step, setup, predict);
}

/* ---- advice ---- */

/* Step time with so much HBM; 0: not known. */
static uint64_t step_ns_with(const struct step *step, const struct predict_setup *setup,
                             uint64_t hbm_bytes)
{
    struct predict_setup other = *setup;
    struct predict result;
    other.limits.hbm_bytes = hbm_bytes - hbm_bytes % setup->page_bytes;
    return simulate(step, &other, &result) == VP_OK ? result.now.step_ns : 0;
}

static bool is_worth_it(const struct predict *predict, uint64_t step_ns)
{
    return step_ns && step_ns * 100 <= predict->now.step_ns * (100 - WORTH_PERCENT);
}

static struct predict_advice *advise(struct predict *predict, enum predict_help kind,
                                     uint64_t step_ns)
{
    assert(predict->advices < PREDICT_ADVICE);
    struct predict_advice *advice = &predict->advice[predict->advices++];
    advice->kind = kind;
    advice->step_ns = step_ns;
    return advice;
}

static void draw_curve(const struct step *step, const struct predict_setup *setup,
                       struct predict *predict)
{
    uint64_t from = setup->limits.hbm_bytes, to = predict->fits_bytes;
    predict->curve[predict->points++] = (struct predict_point){from, predict->now.step_ns};
    for (unsigned i = 1; i < PREDICT_CURVE && to > from; i++) {
        uint64_t hbm_bytes = from + (to - from) / (PREDICT_CURVE - 1) * i;
        if (i == PREDICT_CURVE - 1) hbm_bytes = to;
        uint64_t step_ns = step_ns_with(step, setup, hbm_bytes);
        if (step_ns) predict->curve[predict->points++] = (struct predict_point){hbm_bytes, step_ns};
    }
}

static void advise_hbm(const struct step *step, const struct predict_setup *setup,
                       struct predict *predict)
{
    char size[16], limit[16];
    uint64_t hbm_bytes = setup->limits.hbm_bytes;
    const struct predict_point *last = &predict->curve[predict->points - 1];
    if (last->hbm_bytes <= hbm_bytes) return;
    if (is_worth_it(predict, last->step_ns)) {
        struct predict_advice *advice = advise(predict, PREDICT_HBM_ALL, last->step_ns);
        snprintf(advice->text, sizeof advice->text,
                 "%s more of the card's memory (--hbm %s): then nothing has to leave it.",
                 units_format_size(last->hbm_bytes - hbm_bytes, size, sizeof size),
                 units_format_size(last->hbm_bytes, limit, sizeof limit));
    }
    uint64_t step_bytes = more_bytes < hbm_bytes / 4 ? more_bytes : hbm_bytes / 4;
    if (hbm_bytes + step_bytes >= last->hbm_bytes) return;
    uint64_t step_ns = step_ns_with(step, setup, hbm_bytes + step_bytes);
    if (!is_worth_it(predict, step_ns)) return;
    struct predict_advice *advice = advise(predict, PREDICT_HBM_MORE, step_ns);
    snprintf(advice->text, sizeof advice->text, "Each %s more of the card's memory (--hbm %s).",
             units_format_size(step_bytes, size, sizeof size),
             units_format_size(hbm_bytes + step_bytes, limit, sizeof limit));
}

/* Most bytes at once of blocks that are born in the first half of their step and die in the second:
 * what a forward pass leaves for the backward pass. */
static uint64_t kept_bytes(const struct step *step)
{
    uint64_t bytes = 0;
    uint32_t middle = step->op_count / 3;
    for (uint32_t i = 0; i < step->role_count; i++) {
        const struct step_role *role = &step->roles[i];
        bool short_lived = role->born_op == STEP_NEVER || role->age > 0;
        if (!short_lived && role->born_op < middle && role->died_op > middle) bytes += role->bytes;
    }
    return bytes;
}

static void advise_checkpointing(const struct step *step, const struct predict_setup *setup,
                                 struct predict *predict)
{
    uint64_t saved = kept_bytes(step) / 100 * (100 - CHECKPOINT_KEEPS);
    if (saved < predict->peak_bytes / 20) return; /* it seems to do that already */
    uint64_t step_ns = step_ns_with(step, setup, setup->limits.hbm_bytes + saved);
    if (step_ns) step_ns += predict->now.in_hbm_ns / 100 * CHECKPOINT_COST;
    if (!is_worth_it(predict, step_ns)) return;
    char size[16];
    struct predict_advice *advice = advise(predict, PREDICT_CHECKPOINT, step_ns);
    snprintf(advice->text, sizeof advice->text,
             "Checkpoint activations: %s that the forward pass keeps for the backward pass are "
             "computed again instead of being moved (%d %% more computing assumed).",
             units_format_size(saved, size, sizeof size), CHECKPOINT_COST);
}

static uint64_t touched_bytes(const struct step *step, const struct step_op *op)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < op->touch_count; i++)
        bytes += step->roles[step->touches[op->first_touch + i].role].bytes;
    return bytes;
}

/* Makes of each run of large operations over the same blocks one that goes over them once: the
 * first to touch a persistent block keeps it, the others lose it. *largest: of those, in bytes.
 * False: there are none. The touches of *fused are its own. */
static bool fuse(const struct step *step, uint64_t large_bytes, struct step *fused,
                 uint64_t *largest)
{
    bool any = false;
    bool *seen = calloc(step->role_count + 1u, sizeof *seen);
    *fused = *step;
    *largest = 0;
    fused->touches = malloc((step->touch_count + 1u) * sizeof *fused->touches);
    fused->ops = malloc((step->op_count + 1u) * sizeof *fused->ops);
    uint32_t used = 0;
    for (uint32_t i = 0; i < step->op_count && seen && fused->touches && fused->ops; i++) {
        const struct step_op *op = &step->ops[i];
        uint64_t bytes = touched_bytes(step, op);
        bool large = bytes >= large_bytes;
        if (large && bytes > *largest) *largest = bytes;
        fused->ops[i] = *op;
        fused->ops[i].first_touch = used;
        for (uint32_t k = 0; k < op->touch_count; k++) {
            const struct step_touch *touch = &step->touches[op->first_touch + k];
            bool persists = step->roles[touch->role].born_op == STEP_NEVER;
            bool again = large && persists && seen[touch->role];
            if (large) seen[touch->role] = true;
            any |= again;
            if (!again) fused->touches[used++] = *touch;
        }
        fused->ops[i].touch_count = used - fused->ops[i].first_touch;
    }
    fused->touch_count = used;
    free(seen);
    return any;
}

static void advise_fused(const struct step *step, const struct predict_setup *setup,
                         struct predict *predict)
{
    struct step fused;
    uint64_t largest;
    char size[16], limit[16];
    if (fuse(step, setup->limits.hbm_bytes / LARGE_SHARE, &fused, &largest)) {
        uint64_t step_ns = step_ns_with(&fused, setup, setup->limits.hbm_bytes);
        if (is_worth_it(predict, step_ns)) {
            struct predict_advice *advice = advise(predict, PREDICT_FUSED, step_ns);
            snprintf(advice->text, sizeof advice->text,
                     "An optimizer that goes over its state once (fused=True in PyTorch): single "
                     "operations touch up to %s of the %s that the card holds, several times.",
                     units_format_size(largest, size, sizeof size),
                     units_format_size(setup->limits.hbm_bytes, limit, sizeof limit));
        }
    }
    free(fused.touches);
    free(fused.ops);
}

static void advise_policy(const struct step *step, const struct predict_setup *setup,
                          struct predict *predict)
{
    if (setup->policy == PLAN_POLICY_PLAN) return;
    struct predict_setup other = *setup;
    other.policy = PLAN_POLICY_PLAN;
    uint64_t step_ns = step_ns_with(step, &other, setup->limits.hbm_bytes);
    if (!is_worth_it(predict, step_ns)) return;
    struct predict_advice *advice = advise(predict, PREDICT_POLICY, step_ns);
    snprintf(advice->text, sizeof advice->text, "Move ahead of need: --policy plan, not %s.",
             plan_policy_name(setup->policy));
}

static void advise_host(const struct predict_setup *setup, struct predict *predict)
{
    char size[16];
    uint64_t host_bytes = setup->limits.refuge_bytes[setup->host];
    if (predict->now.refuge_peak_bytes[setup->host] < host_bytes / 100 * 95) return;
    struct predict_advice *advice = advise(predict, PREDICT_HOST, predict->now.step_ns);
    snprintf(advice->text, sizeof advice->text,
             "More host memory (--host): all %s that the pool may use are taken; a little more "
             "work and the program runs out of memory. No faster by itself.",
             units_format_size(host_bytes, size, sizeof size));
}

static int by_gain(const void *left, const void *right)
{
    const struct predict_advice *a = left, *b = right;
    return (a->step_ns > b->step_ns) - (a->step_ns < b->step_ns);
}

void predict_advise(const struct step *step, const struct predict_setup *setup,
                    struct predict *predict)
{
    predict->fits_bytes = units_round_up(predict->peak_bytes, setup->page_bytes) +
                          predict->wasted_bytes + SPARE_CHUNKS * setup->chunk_bytes;
    if (predict->fits_bytes < setup->limits.hbm_bytes)
        predict->fits_bytes = setup->limits.hbm_bytes;
    draw_curve(step, setup, predict);
    advise_hbm(step, setup, predict);
    advise_checkpointing(step, setup, predict);
    advise_fused(step, setup, predict);
    advise_policy(step, setup, predict);
    advise_host(setup, predict);
    qsort(predict->advice, predict->advices, sizeof *predict->advice, by_gain);
}
