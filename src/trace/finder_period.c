#include "trace/finder_period.h"

/* Slots: persistent roles first. Where lanes race, a block may have to stay for a little longer
 * than here. */
static void write_slots(struct finder_period *period, bool racing)
{
    const struct step *step = &period->step;
    for (uint32_t i = 0; i < step->role_count; i++)
        period->roles[i] = (struct finder_period_role){
            .born_op = step->roles[i].born_op, .slot_count = 1, .use_count = 0};
    for (uint32_t op = 0; op < step->op_count; op++) {
        const struct step_op *of = &step->ops[op];
        for (uint32_t i = of->first_touch; i < of->first_touch + of->touch_count; i++) {
            struct finder_period_role *role = &period->roles[step->touches[i].role];
            bool persistent = role->born_op == STEP_NEVER;
            uint32_t before = !persistent && op < role->born_op;
            uint32_t younger = step->touches[i].age - before;
            if (younger >= role->slot_count) role->slot_count = younger + 1;
            role->use_count++;
        }
    }
    for (uint32_t i = 0; i < step->role_count && racing; i++)
        period->roles[i].slot_count += period->roles[i].born_op != STEP_NEVER;
    uint32_t uses = 0;
    for (unsigned pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < step->role_count; i++) {
            struct finder_period_role *role = &period->roles[i];
            if ((role->born_op != STEP_NEVER) != pass) continue;
            role->first_slot = period->slot_count;
            period->slot_count += role->slot_count;
            role->first_use = uses;
            uses += role->use_count;
        }
        if (pass == 0) period->persistent_count = period->slot_count;
    }
}

static int by_number(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

static void write_uses(struct finder_period *period)
{
    const struct step *step = &period->step;
    for (uint32_t i = 0; i < step->role_count; i++) period->roles[i].use_count = 0;
    for (uint32_t op = 0; op < step->op_count; op++) {
        const struct step_op *of = &step->ops[op];
        for (uint32_t i = of->first_touch; i < of->first_touch + of->touch_count; i++) {
            struct finder_period_role *role = &period->roles[step->touches[i].role];
            uint32_t at = op;
            if (role->born_op != STEP_NEVER)
                at += step->touches[i].age * step->op_count - role->born_op;
            period->uses[role->first_use + role->use_count++] = at;
        }
    }
    for (uint32_t i = 0; i < step->role_count; i++)
        qsort(&period->uses[period->roles[i].first_use], period->roles[i].use_count,
              sizeof *period->uses, by_number);
}

static void write_allocs(struct finder_period *period)
{
    const struct step *step = &period->step;
    for (uint32_t i = 0; i < step->role_count; i++) {
        const struct finder_period_role *role = &period->roles[i];
        for (uint32_t k = 0; k < role->slot_count; k++)
            period->slot_roles[role->first_slot + k] = i;
    }
    for (uint32_t i = 0; i < step->event_count; i++) {
        const struct step_event *event = &step->events[i];
        if (event->kind == TRACE_OP) period->ops[event->index].allocs = period->alloc_count;
        if (event->kind != TRACE_ALLOC) continue;
        period->roles[event->index].alloc = period->alloc_count;
        period->allocs[period->alloc_count++] =
            (struct finder_period_alloc){step->roles[event->index].bytes, event->index};
    }
}

/* The follower's ops, in the order of the step; their touches are all of the window's. */
static void write_ops(struct finder_period *period, const struct finder_window *window)
{
    for (uint32_t i = 0; i < window->op_count; i++) {
        uint32_t at = window->indices[i], first = window->first_touches[i];
        const struct finder_past_op *from = finder_window_op(window, i);
        const struct step_touch *named = &period->step.touches[period->step.ops[at].first_touch];
        period->ops[at] = (struct finder_period_op){.key = from->key,
                                                    .first_touch = first,
                                                    .touch_count = from->touch_count,
                                                    .lane = from->lane,
                                                    .wild = window->wild[i]};
        for (uint32_t k = first; k < first + from->touch_count; k++) {
            bool wild = window->touches[k].role == FINDER_NONE;
            period->touches[k] =
                wild ? period->slot_count : finder_period_slot(period, named->role, named->age, at);
            named += !wild;
        }
    }
}

static uint32_t like_home(const struct finder_period *period, uint64_t context)
{
    return (uint32_t)((context * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & period->like_mask;
}

static void write_lanes(struct finder_period *period)
{
    uint64_t contexts[FINDER_STREAMS] = {0};
    for (uint32_t i = 0; i < period->op_count; i++) {
        struct finder_period_op *op = &period->ops[i];
        struct finder_period_lane *lane = &period->lanes[op->lane];
        op->turn = lane->count;
        lane->ops[lane->count++] = i;
        contexts[op->lane] = finder_context(contexts[op->lane], op->key);
    }
    for (uint32_t i = 0; i < period->op_count; i++) {
        struct finder_period_op *op = &period->ops[i];
        const struct finder_period_lane *lane = &period->lanes[op->lane];
        op->next = lane->ops[(op->turn + 1) % lane->count];
        contexts[op->lane] = finder_context(contexts[op->lane], op->key);
        op->context = contexts[op->lane];
    }
    memset(period->likes, 0xFF, (period->like_mask + (size_t)1) * sizeof *period->likes);
    for (uint32_t i = period->op_count; i-- > 0;) {
        uint32_t at = like_home(period, period->ops[i].context);
        while (period->likes[at] != FINDER_NONE &&
               period->ops[period->likes[at]].context != period->ops[i].context)
            at = (at + 1) & period->like_mask;
        period->ops[i].like_next = period->likes[at];
        period->likes[at] = i;
    }
}

uint32_t finder_period_like(const struct finder_period *period, uint64_t context)
{
    for (uint32_t i = like_home(period, context);; i = (i + 1) & period->like_mask) {
        uint32_t op = period->likes[i];
        if (op == FINDER_NONE || period->ops[op].context == context) return op;
    }
}

/* The block of a passing role that was born `times` repetitions before the window's; NULL: dead, or
 * not remembered. */
static const struct finder_past_block *earlier_block(const struct finder_window *window,
                                                     const struct finder_past_block *block,
                                                     uint32_t times)
{
    uint32_t turn = block->name_turn - times * window->repeat->lengths[block->name_lane];
    const struct finder_past_op *op = finder_past_turn(window->past, block->name_lane, turn);
    if (!op || block->name_index >= op->touch_count) return NULL;
    const struct finder_past_block *found = finder_past_block(window->past, op, block->name_index);
    return found->died == FINDER_ALIVE && found->name_turn == turn ? found : NULL;
}

/* What is alive now fills its slots. */
static void bind_slots(struct finder_period *period, const struct finder_window *window)
{
    for (uint32_t i = 0; i < window->role_count; i++) {
        const struct finder_past_block *block = &window->past->blocks[window->roles[i].block];
        const struct finder_period_role *role = &period->roles[i];
        bool persistent = window->roles[i].persistent;
        struct finder_map *map = persistent ? &period->persistent : &period->passing;
        for (uint32_t k = 0; k < role->slot_count && k < FINDER_REPETITIONS; k++) {
            const struct finder_past_block *of =
                persistent ? block : earlier_block(window, block, k);
            if (!of || of->died != FINDER_ALIVE) continue;
            period->bound[role->first_slot + k] = of->id;
            finder_map_set(map, of->id, role->first_slot + k);
        }
    }
}

static void sum_durations(struct finder_period *period, const struct finder_window *window)
{
    for (uint32_t i = 0; i < window->op_count; i++) {
        const struct finder_past_op *op = finder_window_op(window, i);
        uint32_t length = window->repeat->lengths[op->lane], at = window->indices[i];
        for (uint32_t k = 0; k < window->repeat->times && k < FINDER_REPETITIONS; k++) {
            const struct finder_past_op *other =
                finder_past_turn(window->past, op->lane, op->turn - k * length);
            if (!other || other->key != op->key) break;
            period->sum_ns[at] += other->duration_ns;
            period->samples[at] += other->duration_ns != 0;
        }
    }
}

/* Sums over all ops of a key, for those never measured. */
struct key_sum {
    uint64_t key, sum_ns;
    uint64_t samples;
};

static int by_key(const void *left, const void *right)
{
    const struct key_sum *a = left, *b = right;
    return (a->key > b->key) - (a->key < b->key);
}

void finder_period_average(struct finder_period *period)
{
    struct key_sum *sums = malloc(period->op_count * sizeof *sums);
    uint32_t count = 0;
    for (uint32_t i = 0; i < period->op_count && sums; i++)
        if (period->samples[i])
            sums[count++] =
                (struct key_sum){period->ops[i].key, period->sum_ns[i], period->samples[i]};
    if (count) qsort(sums, count, sizeof *sums, by_key);
    uint32_t distinct = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (distinct && sums[distinct - 1].key == sums[i].key) {
            sums[distinct - 1].sum_ns += sums[i].sum_ns;
            sums[distinct - 1].samples += sums[i].samples;
        } else {
            sums[distinct++] = sums[i];
        }
    }
    for (uint32_t i = 0; i < period->op_count; i++) {
        struct key_sum own = {period->ops[i].key, period->sum_ns[i], period->samples[i]};
        const struct key_sum *from = &own;
        if (own.samples == 0 && distinct)
            from = bsearch(&own, sums, distinct, sizeof *sums, by_key);
        period->step.ops[i].duration_ns = from && from->samples ? from->sum_ns / from->samples : 0;
    }
    free(sums);
}

static bool make_room(struct finder_period *period, const struct finder_window *window)
{
    size_t ops = window->op_count, roles = window->role_count + (size_t)1;
    size_t touches = window->touch_count + (size_t)1;
    period->like_mask = 15;
    while (period->like_mask < 2 * ops) period->like_mask = 2 * period->like_mask + 1;
    period->ops = malloc(ops * sizeof *period->ops);
    period->touches = malloc(touches * sizeof *period->touches);
    period->roles = malloc(roles * sizeof *period->roles);
    period->allocs = malloc(roles * sizeof *period->allocs);
    period->uses = malloc(touches * sizeof *period->uses);
    period->likes = malloc((period->like_mask + (size_t)1) * sizeof *period->likes);
    period->sum_ns = calloc(ops, sizeof *period->sum_ns);
    period->samples = calloc(ops, sizeof *period->samples);
    bool ok = period->ops && period->touches && period->roles && period->allocs && period->uses &&
              period->likes && period->sum_ns && period->samples;
    for (unsigned i = 0; i < FINDER_STREAMS && ok; i++) {
        uint32_t length = window->repeat->lengths[i];
        if (length == 0) continue;
        period->due[i] = window->indices[window->places[i][0]];
        period->lanes[i].ops = malloc(length * sizeof *period->lanes[i].ops);
        ok = period->lanes[i].ops != NULL;
    }
    return ok;
}

static bool make_slot_room(struct finder_period *period)
{
    uint32_t persistent = period->persistent_count, passing = period->slot_count - persistent;
    period->slot_roles = malloc((period->slot_count + (size_t)1) * sizeof *period->slot_roles);
    period->bound = calloc(period->slot_count + (size_t)1, sizeof *period->bound);
    return period->slot_roles && period->bound &&
           finder_map_create(&period->persistent, persistent + 1) &&
           finder_map_create(&period->passing, passing + 1);
}

static bool fill(struct finder_period *period, struct finder_window *window)
{
    period->step = window->step;
    memset(&window->step, 0, sizeof window->step);
    period->op_count = window->op_count;
    period->lead = window->repeat->lead;
    period->loose = window->loose;
    write_slots(period, window->repeat->lengths[period->lead] < period->op_count);
    if (!make_slot_room(period)) return false;
    write_ops(period, window);
    write_uses(period);
    write_allocs(period);
    write_lanes(period);
    bind_slots(period, window);
    sum_durations(period, window);
    return true;
}

struct finder_period *finder_period_create(struct finder_past *past,
                                           const struct finder_repeat *repeat)
{
    struct finder_window window;
    struct finder_period *period = calloc(1, sizeof *period);
    bool ok = period && finder_window_make(&window, past, repeat) && make_room(period, &window) &&
              fill(period, &window);
    if (period) finder_window_release(&window);
    if (ok) return period;
    finder_period_destroy(period);
    return NULL;
}

void finder_period_destroy(struct finder_period *period)
{
    if (!period) return;
    step_release(&period->step);
    free(period->ops);
    free(period->touches);
    for (unsigned i = 0; i < FINDER_STREAMS; i++) free(period->lanes[i].ops);
    free(period->allocs);
    free(period->roles);
    free(period->slot_roles);
    free(period->uses);
    free(period->likes);
    free(period->bound);
    finder_map_destroy(&period->persistent);
    finder_map_destroy(&period->passing);
    free(period->sum_ns);
    free(period->samples);
    free(period);
}
