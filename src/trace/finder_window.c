#include "trace/finder_window.h"

enum {
    LOOSE_REPETITIONS = 3, /* in which nothing of a loose period may differ, or it is wild */
    DEATH_TIMES = 4,       /* repetitions in which a block is waited for to die */
    WILD_ALONE = 2,        /* ops around one that differs, which do not */
};

#define NO_ROLE FINDER_NONE

/* One event of the window. Ages count from the repetition in which it stands. */
struct finder_window_event {
    uint32_t gap;  /* ops of the window before it */
    uint32_t rank; /* within the gap; UINT32_MAX: the op that ends it */
    uint32_t index, age;
    enum trace_event_kind kind;
};

/* The op of the window that is in the same place as this turn of a lane, and how many repetitions
 * later (*age). */
static uint32_t window_place(const struct finder_window *window, uint32_t lane, uint32_t turn,
                             uint32_t *age)
{
    uint32_t length = window->repeat->lengths[lane], back = window->starts[lane] - turn;
    if (back > UINT32_MAX / 2) /* in the window */
        back = 0;
    *age = back / length + (back % length != 0);
    return window->places[lane][turn + *age * length - window->starts[lane]];
}

/* Finds where the window starts, and an upper bound of its touches. False: not all of it is
 * remembered, or no memory. */
static bool find_starts(struct finder_window *window)
{
    const struct finder_past *past = window->past;
    uint64_t first = past->end;
    for (unsigned lane = 0; lane < FINDER_STREAMS; lane++) {
        uint32_t length = window->repeat->lengths[lane];
        window->starts[lane] = past->turns[lane] - length;
        if (length == 0) continue;
        if (!finder_past_turn(past, lane, window->starts[lane])) return false;
        uint64_t start = finder_past_number(past, lane, window->starts[lane]);
        if (start < first) first = start;
        window->places[lane] = malloc(length * sizeof *window->places[lane]);
        if (!window->places[lane]) return false;
    }
    window->first = first;
    window->touch_count = (uint32_t)(past->touch_end - finder_past_op(past, first)->first_touch);
    return true;
}

static bool fill_places(struct finder_window *window)
{
    const struct finder_past *past = window->past;
    uint32_t count = 0;
    window->touch_count = 0;
    for (uint64_t number = window->first; number < past->end; number++) {
        const struct finder_past_op *op = finder_past_op(past, number);
        uint32_t turn = op->turn - window->starts[op->lane];
        if (turn >= window->repeat->lengths[op->lane]) continue;
        window->places[op->lane][turn] = count;
        window->first_touches[count] = window->touch_count;
        window->numbers[count++] = number;
        window->touch_count += op->touch_count;
    }
    return count == window->op_count;
}

static bool is_named_here(const struct finder_past_block *block, const struct finder_past_op *op,
                          uint32_t index)
{
    return block->name_lane == op->lane && block->name_turn == op->turn &&
           block->name_index == index;
}

static uint32_t add_role(struct finder_window *window, struct finder_past_block *block,
                         bool persistent, uint32_t name_op)
{
    uint32_t role = window->role_count++;
    window->roles[role] =
        (struct finder_window_role){.block = (uint32_t)(block - window->past->blocks),
                                    .persistent = persistent,
                                    .name_op = name_op};
    block->mark = role;
    block->mark_round = window->past->round;
    return role;
}

/* Roles for the blocks first touched in the window. */
static void name_passing(struct finder_window *window)
{
    window->past->round++;
    for (uint32_t i = 0; i < window->op_count; i++) {
        const struct finder_past_op *op = finder_window_op(window, i);
        for (uint32_t k = 0; k < op->touch_count; k++) {
            struct finder_past_block *block = finder_past_block(window->past, op, k);
            if (is_named_here(block, op, k) && finder_past_is_passing(block, window->op_count))
                add_role(window, block, false, i);
        }
    }
}

static uint32_t marked_role(const struct finder_window *window,
                            const struct finder_past_block *block)
{
    return block->mark_round == window->past->round ? block->mark : NO_ROLE;
}

/* Whether the touch is that of `before` at this index, `times` repetitions earlier. */
static bool repeats_at(const struct finder_window *window, const struct finder_past_op *before,
                       const struct finder_past_op *op, uint32_t index, uint32_t at, uint32_t times)
{
    const struct finder_past_block *x = finder_past_block(window->past, before, at);
    const struct finder_past_block *y = finder_past_block(window->past, op, index);
    if (x == y) return true;
    if (!finder_past_is_passing(y, window->op_count)) return false;
    if (window->repeat->noisy)
        return x->bytes == y->bytes && x->name_lane == y->name_lane &&
               x->name_lane < FINDER_STREAMS &&
               y->name_turn - x->name_turn == times * window->repeat->lengths[x->name_lane];
    return x->bytes == y->bytes && x->name_lane == y->name_lane && x->name_lane < FINDER_STREAMS &&
           x->name_index == y->name_index &&
           y->name_turn - x->name_turn == times * window->repeat->lengths[x->name_lane];
}

/* The same for any index, where touches may have been added in front. */
static bool repeats(const struct finder_window *window, const struct finder_past_op *before,
                    const struct finder_past_op *op, uint32_t index, uint32_t times)
{
    if (index < before->touch_count && repeats_at(window, before, op, index, index, times))
        return true;
    for (uint32_t i = 0; window->repeat->noisy && i < before->touch_count; i++)
        if (repeats_at(window, before, op, index, i, times)) return true;
    return false;
}

/* Whether the repetition before touched this very block. */
static bool is_same(const struct finder_window *window, const struct finder_past_op *before,
                    uint32_t index, const struct finder_past_block *block)
{
    if (!window->repeat->noisy)
        return index < before->touch_count &&
               finder_past_block(window->past, before, index) == block;
    uint64_t then = finder_past_number(window->past, before->lane, before->turn);
    for (uint32_t i = 0; i < before->touch_count && block->named < then; i++)
        if (finder_past_block(window->past, before, i) == block) return true;
    return false;
}

static uint32_t repetitions(const struct finder_window *window)
{
    return window->repeat->loose && !window->repeat->noisy ? LOOSE_REPETITIONS : 1;
}

/* The role of an earlier block, by the place where it was first touched. */
static uint32_t passing_role(const struct finder_window *window,
                             const struct finder_past_block *block, uint32_t *age)
{
    if (block->name_lane == FINDER_STREAMS || window->repeat->lengths[block->name_lane] == 0)
        return NO_ROLE;
    uint32_t place = window_place(window, block->name_lane, block->name_turn, age);
    const struct finder_past_op *op = finder_window_op(window, place);
    if (block->name_index >= op->touch_count || *age > UINT16_MAX) return NO_ROLE;
    const struct finder_past_block *now = finder_past_block(window->past, op, block->name_index);
    bool alike = is_named_here(now, op, block->name_index) && now->bytes == block->bytes;
    return alike ? marked_role(window, now) : NO_ROLE;
}

/* Without the repetition before, only what was first touched a while ago at a place that looks the
 * same passes for an earlier block of a role. */
static uint32_t unproven_role(const struct finder_window *window,
                              const struct finder_past_block *block, uint32_t *age)
{
    if (block->name_lane == FINDER_STREAMS) return NO_ROLE;
    const struct finder_past_op *named =
        finder_past_turn(window->past, block->name_lane, block->name_turn);
    if (!named) return NO_ROLE;
    uint32_t role = passing_role(window, block, age);
    if (role == NO_ROLE) return NO_ROLE;
    const struct finder_past_op *op = finder_window_op(window, window->roles[role].name_op);
    return op->key == named->key && op->touch_count == named->touch_count ? role : NO_ROLE;
}

static struct step_touch name_touch(struct finder_window *window, const struct finder_past_op *op,
                                    uint32_t index)
{
    struct finder_past_block *block = finder_past_block(window->past, op, index);
    uint32_t length = window->repeat->lengths[op->lane], age = 0, role = marked_role(window, block);
    const struct finder_past_op *before =
        finder_past_turn(window->past, op->lane, op->turn - length);
    if (before && before->key != op->key) /* something was added or left out in between */
        return (struct step_touch){role, 0, STEP_UNKNOWN};
    bool same = before && is_same(window, before, index, block);
    for (uint32_t i = 1; i <= repetitions(window); i++) {
        const struct finder_past_op *earlier =
            finder_past_turn(window->past, op->lane, op->turn - i * length);
        if (earlier && !repeats(window, earlier, op, index, i))
            return (struct step_touch){NO_ROLE, 0, STEP_UNKNOWN};
    }
    if (role == NO_ROLE && !same)
        role = before ? passing_role(window, block, &age) : unproven_role(window, block, &age);
    bool persistent = role == NO_ROLE && (same || !before);
    if (persistent) role = add_role(window, block, true, 0);
    return (struct step_touch){role, (uint16_t)age, STEP_UNKNOWN};
}

static bool has_other_key(const struct finder_window *window, uint32_t lane, uint32_t turn,
                          uint32_t apart)
{
    const struct finder_past_op *op = finder_past_turn(window->past, lane, turn);
    const struct finder_past_op *before = finder_past_turn(window->past, lane, turn - apart);
    return op && before && op->key != before->key;
}

/* An op is wild where its key is not always the same. In a noisy period, where ops may have been
 * added or left out, only if those around it are. */
static bool is_wild(const struct finder_window *window, const struct finder_past_op *op)
{
    uint32_t length = window->repeat->lengths[op->lane];
    for (uint32_t i = 1; i <= repetitions(window); i++) {
        if (!has_other_key(window, op->lane, op->turn, i * length)) continue;
        bool alone = true;
        for (uint32_t k = 1; window->repeat->noisy && k <= WILD_ALONE; k++)
            alone &= !has_other_key(window, op->lane, op->turn - k, i * length) &&
                     !has_other_key(window, op->lane, op->turn + k, i * length);
        if (alone) return true;
    }
    return false;
}

static void name_touches(struct finder_window *window)
{
    name_passing(window);
    for (uint32_t i = 0; i < window->op_count; i++) {
        const struct finder_past_op *op = finder_window_op(window, i);
        struct step_touch *touches = &window->touches[window->first_touches[i]];
        window->wild[i] = is_wild(window, op);
        for (uint32_t k = 0; k < op->touch_count; k++) {
            touches[k] = (struct step_touch){NO_ROLE, 0, STEP_UNKNOWN};
            if (!window->wild[i]) touches[k] = name_touch(window, op, k);
            if (touches[k].role == NO_ROLE) window->loose = true;
        }
    }
}

/* Ops of the window before the one with this number, or all. */
static uint32_t gap_of(const struct finder_window *window, uint64_t number)
{
    uint32_t low = 0, high = window->op_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (window->numbers[middle] < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The block that was first touched here `times` repetitions before that of the role; NULL: none, or
 * not remembered. */
static const struct finder_past_block *earlier_of(const struct finder_window *window,
                                                  const struct finder_window_role *role,
                                                  uint32_t times)
{
    const struct finder_past *past = window->past;
    const struct finder_past_block *block = &past->blocks[role->block];
    uint32_t turn = block->name_turn - times * window->repeat->lengths[block->name_lane];
    const struct finder_past_op *named = finder_past_turn(past, block->name_lane, turn);
    const struct finder_past_op *now = finder_window_op(window, role->name_op);
    if (!named || named->key != now->key) return NULL;
    for (uint32_t i = 0; i < named->touch_count; i++) {
        uint32_t index = window->repeat->noisy ? i : block->name_index;
        if (index >= named->touch_count) return NULL;
        const struct finder_past_block *earlier = finder_past_block(past, named, index);
        if (is_named_here(earlier, named, index) && earlier->bytes == block->bytes) return earlier;
    }
    return NULL;
}

/* Where the block of the role that was born `times` repetitions before the window died, if that is
 * remembered. */
static bool find_death(const struct finder_window *window, struct finder_window_role *role,
                       uint32_t times)
{
    const struct finder_past *past = window->past;
    const struct finder_past_block *earlier = earlier_of(window, role, times);
    if (!earlier || earlier->died == FINDER_ALIVE) return false;
    uint64_t number = earlier->died; /* of the op behind the free */
    while (number < past->end && window->repeat->lengths[finder_past_op(past, number)->lane] == 0)
        number++;
    uint32_t later = 0; /* repetitions from the free to the window */
    role->free_gap = window->op_count;
    if (number < past->end) {
        const struct finder_past_op *op = finder_past_op(past, number);
        role->free_gap = window_place(window, op->lane, op->turn, &later);
    }
    if (later > times) return false; /* lanes apart: it cannot be told */
    role->free_age = times - later;
    role->free_rank = earlier->died_rank;
    return true;
}

static void add_event(struct finder_window *window, struct finder_window_event event)
{
    window->events[window->event_count++] = event;
}

/* False: a block of some role has not been seen to die yet, and may before long. Where they do not
 * die at all, the step has them die after as many repetitions as were seen. */
static bool find_lives(struct finder_window *window)
{
    const struct finder_past *past = window->past;
    for (uint32_t i = 0; i < window->op_count; i++)
        add_event(window, (struct finder_window_event){i, UINT32_MAX, i, 0, TRACE_OP});
    for (uint32_t i = 0; i < window->role_count; i++) {
        struct finder_window_role *role = &window->roles[i];
        if (role->persistent) continue;
        bool found = false;
        for (uint32_t times = 0; times < FINDER_REPETITIONS && !found; times++)
            found = find_death(window, role, times);
        if (!found) {
            if (window->repeat->times < DEATH_TIMES && !window->repeat->noisy) return false;
            role->free_gap = window->op_count;
            role->free_rank = UINT32_MAX - 1;
            role->free_age = window->repeat->times;
        }
        const struct finder_past_block *block = &past->blocks[role->block];
        uint32_t gap = gap_of(window, block->born);
        if (gap > role->name_op) gap = role->name_op;
        add_event(window, (struct finder_window_event){gap, block->born_rank, i, 0, TRACE_ALLOC});
        add_event(window, (struct finder_window_event){role->free_gap, role->free_rank, i,
                                                       role->free_age, TRACE_FREE});
    }
    return true;
}

static int in_order(const void *left, const void *right)
{
    const struct finder_window_event *a = left, *b = right;
    if (a->gap != b->gap) return a->gap < b->gap ? -1 : 1;
    if (a->rank != b->rank) return a->rank < b->rank ? -1 : 1;
    if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
    return (a->index > b->index) - (a->index < b->index);
}

/* Orders the events, and cuts where least is alive: the first such place. */
static void find_cut(struct finder_window *window)
{
    int64_t live = 0, least = 0;
    qsort(window->events, window->event_count, sizeof *window->events, in_order);
    window->cut = 0;
    for (uint32_t i = 0; i < window->event_count; i++) {
        const struct finder_window_event *event = &window->events[i];
        if (event->kind == TRACE_OP) continue;
        struct finder_window_role *role = &window->roles[event->index];
        int64_t bytes = (int64_t)window->past->blocks[role->block].bytes;
        live += event->kind == TRACE_ALLOC ? bytes : -bytes;
        *(event->kind == TRACE_ALLOC ? &role->alloc : &role->free) = i;
        if (live >= least) continue;
        least = live;
        window->cut = (i + 1) % window->event_count;
    }
}

/* Age of a role's block at an event, in the turned step, where it is `age` in the window. */
static uint32_t turned_age(const struct finder_window *window,
                           const struct finder_window_role *role, uint32_t event, uint32_t age)
{
    if (role->persistent) return 0;
    uint32_t wraps = (event >= window->cut) + 1u, born_wraps = (role->alloc >= window->cut) + 1u;
    assert(age + wraps >= born_wraps);
    return age + wraps - born_wraps;
}

static void write_touches(struct finder_window *window, uint32_t event, uint32_t at,
                          struct step_op *to)
{
    struct step *step = &window->step;
    uint32_t count = finder_window_op(window, at)->touch_count;
    to->first_touch = step->touch_count;
    for (uint32_t i = 0; i < count; i++) {
        struct step_touch touch = window->touches[window->first_touches[at] + i];
        if (touch.role == NO_ROLE) continue;
        touch.age = (uint16_t)turned_age(window, &window->roles[touch.role], event, touch.age);
        step->touches[step->touch_count++] = touch;
    }
    to->touch_count = step->touch_count - to->first_touch;
}

static void write_step(struct finder_window *window)
{
    struct step *step = &window->step;
    for (uint32_t i = 0; i < window->role_count; i++)
        step->roles[i] = (struct step_role){window->past->blocks[window->roles[i].block].bytes,
                                            STEP_NEVER, STEP_NEVER, 0};
    step->role_count = window->role_count;
    for (uint32_t i = 0; i < window->event_count; i++) {
        uint32_t at = (window->cut + i) % window->event_count;
        const struct finder_window_event *event = &window->events[at];
        struct step_event *to = &step->events[step->event_count++];
        *to = (struct step_event){event->kind, event->index, 0};
        if (event->kind == TRACE_OP) {
            const struct finder_past_op *op = finder_window_op(window, event->index);
            struct step_op *step_op = &step->ops[step->op_count];
            *step_op = (struct step_op){.key = op->key, .stream = op->lane, .kind = op->kind};
            write_touches(window, at, event->index, step_op);
            if (step->op_count == 0) window->first_op = event->index;
            window->indices[event->index] = to->index = step->op_count++;
            continue;
        }
        struct step_role *role = &step->roles[event->index];
        if (event->kind == TRACE_ALLOC) {
            role->born_op = step->op_count;
        } else {
            role->died_op = step->op_count;
            role->age = to->age = turned_age(window, &window->roles[event->index], at, event->age);
        }
    }
}

static bool lives_at(const struct step *step, const struct step_touch *touch, uint32_t op)
{
    const struct step_role *role = &step->roles[touch->role];
    uint64_t at = (uint64_t)touch->age * step->op_count + op;
    return role->born_op == STEP_NEVER ||
           (at >= role->born_op && at < (uint64_t)role->age * step->op_count + role->died_op);
}

/* Where operations came or went in between, lives may be a little out of place: what then is
 * touched before or after its life is wild. */
static void drop_strays(struct finder_window *window)
{
    struct step *step = &window->step;
    uint32_t kept = 0;
    for (uint32_t at = 0; at < step->op_count; at++) {
        struct step_op *op = &step->ops[at];
        uint32_t turned = (at + window->first_op) % window->op_count; /* its op of the window */
        struct step_touch *named = &window->touches[window->first_touches[turned]];
        uint32_t first = op->first_touch, count = op->touch_count;
        op->first_touch = kept;
        for (uint32_t i = first; i < first + count; i++, named++) {
            while (named->role == NO_ROLE) named++;
            if (lives_at(step, &step->touches[i], at))
                step->touches[kept++] = step->touches[i];
            else
                named->role = NO_ROLE;
        }
        op->touch_count = kept - op->first_touch;
    }
    step->touch_count = kept;
    window->loose = true;
}

static bool make_op_room(struct finder_window *window, uint32_t touches)
{
    uint32_t ops = window->op_count;
    window->numbers = malloc(ops * sizeof *window->numbers);
    window->first_touches = malloc(ops * sizeof *window->first_touches);
    window->indices = malloc(ops * sizeof *window->indices);
    window->wild = malloc(ops * sizeof *window->wild);
    window->touches = malloc((touches + (size_t)1) * sizeof *window->touches);
    window->roles = malloc((touches + (size_t)1) * sizeof *window->roles);
    window->step.ops = malloc(ops * sizeof *window->step.ops);
    window->step.touches = malloc((touches + (size_t)1) * sizeof *window->step.touches);
    return window->numbers && window->first_touches && window->indices && window->wild &&
           window->touches && window->roles && window->step.ops && window->step.touches;
}

static bool make_event_room(struct finder_window *window)
{
    size_t roles = window->role_count + (size_t)1, events = window->op_count + 2 * roles;
    window->events = malloc(events * sizeof *window->events);
    window->step.events = malloc(events * sizeof *window->step.events);
    window->step.roles = malloc(roles * sizeof *window->step.roles);
    return window->events && window->step.events && window->step.roles;
}

bool finder_window_make(struct finder_window *window, struct finder_past *past,
                        const struct finder_repeat *repeat)
{
    *window = (struct finder_window){.past = past, .repeat = repeat};
    for (unsigned i = 0; i < FINDER_STREAMS; i++) window->op_count += repeat->lengths[i];
    assert(window->op_count > 0);
    if (!find_starts(window) || !make_op_room(window, window->touch_count)) return false;
    if (!fill_places(window)) return false;
    name_touches(window);
    if (!make_event_room(window)) return false;
    if (!find_lives(window)) return false;
    find_cut(window);
    write_step(window);
    if (repeat->noisy) drop_strays(window);
    return step_is_valid(&window->step) && step_guess_access(&window->step);
}

void finder_window_release(struct finder_window *window)
{
    for (unsigned i = 0; i < FINDER_STREAMS; i++) free(window->places[i]);
    free(window->numbers);
    free(window->first_touches);
    free(window->indices);
    free(window->wild);
    free(window->touches);
    free(window->roles);
    free(window->events);
    step_release(&window->step);
}
