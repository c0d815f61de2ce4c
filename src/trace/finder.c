#include "trace/finder_follow.h"

vp_status finder_create(struct finder **finder)
{
    struct finder *made = calloc(1, sizeof *made);
    if (!made) return VP_NO_HOST_MEMORY;
    bool queued = finder_queue_create(&made->queue);
    if (!finder_learner_create(&made->learner) || !queued) {
        finder_destroy(made);
        return VP_NO_HOST_MEMORY;
    }
    *finder = made;
    return VP_OK;
}

void finder_destroy(struct finder *finder)
{
    if (!finder) return;
    free(finder->queue.words);
    finder_learner_destroy(&finder->learner);
    free(finder);
}

/* Blocks and roles. */

static struct finder_map *map_of(struct finder_period *period, uint32_t slot)
{
    return slot < period->persistent_count ? &period->persistent : &period->passing;
}

static uint32_t slot_of(const struct finder_period *period, uint32_t id)
{
    uint32_t slot = finder_map_find(&period->passing, id);
    return slot != FINDER_ABSENT ? slot : finder_map_find(&period->persistent, id);
}

static void unbind(struct finder_period *period, uint32_t slot)
{
    if (period->bound[slot] == 0) return;
    finder_map_remove(map_of(period, slot), period->bound[slot]);
    period->bound[slot] = 0;
}

static void bind(struct finder_period *period, uint32_t slot, uint32_t id)
{
    unbind(period, slot);
    period->bound[slot] = id;
    finder_map_set(map_of(period, slot), id, slot);
}

void finder_forget_passing(struct finder_period *period)
{
    memset(&period->bound[period->persistent_count], 0,
           (period->slot_count - period->persistent_count) * sizeof *period->bound);
    finder_map_clear(&period->passing);
}

static uint32_t next_op(const struct finder *finder)
{
    return finder->at + 1 < finder->now->op_count ? finder->at + 1 : 0;
}

/* Whether the role's alloc has been seen since the last op: its newest block is new. */
static bool is_newborn(const struct finder *finder, const struct finder_period_role *role)
{
    uint32_t count = finder->now->alloc_count;
    uint32_t behind = (role->alloc + count - finder->alloc_start % count) % count;
    uint32_t done = finder->alloc_cursor - finder->alloc_start;
    return behind < done || (behind - done < 64 && (finder->allocs_taken >> (behind - done) & 1));
}

/* Whether the newest block of a passing role was born before op `op`, within the step. */
static bool is_born_by(const struct finder *finder, const struct finder_period_role *role,
                       uint32_t op)
{
    if (op != next_op(finder)) return op >= role->born_op;
    return op > role->born_op || is_newborn(finder, role);
}

/* Ops that a block of a passing role has lived through, and could have been touched by. */
static uint32_t lived(const struct finder *finder, uint32_t slot)
{
    const struct finder_period *period = finder->now;
    const struct finder_period_role *role = &period->roles[period->slot_roles[slot]];
    uint32_t next = next_op(finder), laps = slot - role->first_slot;
    if (is_newborn(finder, role)) return laps * period->op_count; /* perhaps before its time */
    if (next <= role->born_op) laps++;
    return laps * period->op_count + next - role->born_op;
}

/* True while the binding of the slot is a guess made at the alloc: no op has touched the block yet,
 * or it would not be alive now if it had the role. */
static bool is_tentative(const struct finder *finder, uint32_t slot)
{
    const struct finder_period *period = finder->now;
    if (slot < period->persistent_count) return false;
    uint32_t index = period->slot_roles[slot], next = next_op(finder);
    const struct finder_period_role *role = &period->roles[index];
    const struct step_role *life = &period->step.roles[index];
    if (slot != role->first_slot || role->use_count == 0) return false;
    if (life->age == 0 && (next < life->born_op || next >= life->died_op)) return true;
    return lived(finder, slot) <= period->uses[role->first_use];
}

/* The newest block of a role: the others grow older by one. */
static void bind_newest(struct finder_period *period, uint32_t role, uint32_t id)
{
    uint32_t first = period->roles[role].first_slot;
    for (uint32_t slot = first + period->roles[role].slot_count - 1; slot > first; slot--) {
        uint32_t older = period->bound[slot - 1];
        unbind(period, slot - 1);
        unbind(period, slot);
        if (older) bind(period, slot, older);
    }
    bind(period, first, id);
}

/* Whether op `op` is the first one to touch a block of the slot's role. */
static bool is_first_use(const struct finder_period *period, uint32_t slot, uint32_t op)
{
    const struct finder_period_role *role = &period->roles[period->slot_roles[slot]];
    if (slot < period->persistent_count || slot != role->first_slot) return false;
    uint32_t offset =
        op >= role->born_op ? op - role->born_op : op + period->op_count - role->born_op;
    return offset == period->uses[role->first_use];
}

/* Another block than the one the slot is bound to. True: the slot was free, or the binding a guess,
 * or the block is new and its alloc was not foretold. */
static bool settle_touch(struct finder *finder, uint32_t slot, uint32_t op, uint32_t id)
{
    struct finder_period *period = finder->now;
    uint32_t was = slot_of(period, id);
    if (was != FINDER_ABSENT && finder->lane_count > 1 &&
        period->slot_roles[was] == period->slot_roles[slot])
        return true; /* lanes race: it has grown older early or late */
    bool open = period->bound[slot] == 0 || is_tentative(finder, slot);
    if (period->loose && !open && slot < period->persistent_count) return false; /* it lives */
    if (was != FINDER_ABSENT) {
        if (!is_tentative(finder, was)) return false;
        unbind(period, was);
    } else if (!open && is_first_use(period, slot, op)) {
        bind_newest(period, period->slot_roles[slot], id);
        return true;
    }
    bind(period, slot, id);
    return open;
}

/* Whether all that is foretold is touched, whatever else is. */
static bool covers(const struct finder_period *period, const struct finder_period_op *expected,
                   const struct finder_op *op)
{
    uint32_t from = 0;
    for (uint32_t i = 0; i < expected->touch_count; i++) {
        uint32_t id = period->bound[period->touches[expected->first_touch + i]];
        if (id && !finder_touches(op, id, &from)) return false;
    }
    return true;
}

bool finder_settle(struct finder *finder, const struct finder_period_op *expected,
                   const struct finder_op *op)
{
    const struct finder_period *period = finder->now;
    uint32_t from = 0, misses = 0;
    bool right = true;
    if (expected->wild) return true;
    if (expected->touch_count != op->count) return period->loose && covers(period, expected, op);
    for (uint32_t i = 0; i < op->count; i++) {
        uint32_t slot = period->touches[expected->first_touch + i];
        if (slot == period->slot_count || period->bound[slot] == op->ids[i]) continue;
        if (period->loose && period->bound[slot] && misses < FINDER_MISSES) {
            if (finder_touches(op, period->bound[slot], &from)) continue;
            misses++;
        }
        right &= settle_touch(finder, slot, (uint32_t)(expected - period->ops), op->ids[i]);
    }
    return right;
}

/* In step. */

/* A lane that has come more than a lap behind another says nothing any more. */
static bool find_silent(struct finder *finder, const struct finder_lane *ahead)
{
    bool found = false;
    for (uint32_t i = 0; i < finder->lane_count; i++) {
        struct finder_lane *lane = &finder->lanes[i];
        if (!lane->follows || (int32_t)(ahead->laps - lane->laps) <= 1) continue;
        lane->follows = false;
        found = true;
    }
    return found;
}

bool finder_move_on(struct finder *finder, struct finder_lane *lane)
{
    const struct finder_period *period = finder->now;
    const struct finder_period_op *op = &period->ops[lane->cursor];
    bool wrapped = op->next <= lane->cursor;
    finder->at = lane->cursor;
    lane->cursor = op->next;
    lane->lost = 0;
    lane->soft = false;
    if (op->lane == period->lead) {
        finder->alloc_start = finder->alloc_cursor = op->allocs;
        finder->allocs_taken = 0;
        finder->laps += wrapped;
    }
    if (!wrapped) return false;
    lane->laps++;
    return finder->lane_count > 1 && find_silent(finder, lane);
}

static bool touches_as_foretold(const struct finder_period *period,
                                const struct finder_period_op *expected, const struct finder_op *op)
{
    const uint32_t *slots = &period->touches[expected->first_touch];
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < op->count; i++) wrong |= period->bound[slots[i]] ^ op->ids[i];
    return wrong == 0;
}

/* The cursor of a lane was a guess: looks around for the op. */
static bool find_cursor(struct finder *finder, struct finder_lane *lane, const struct finder_op *op)
{
    const struct finder_period *period = finder->now;
    const struct finder_period_op *due = &period->ops[lane->cursor];
    const struct finder_period_lane *of = &period->lanes[due->lane];
    uint32_t evidence = 0;
    for (uint32_t i = 1; i <= FINDER_NEAR && i < of->count; i++) {
        uint32_t far = i % 2 ? (i + 1) / 2 : of->count - i / 2;
        uint32_t index = of->ops[(due->turn + far) % of->count];
        if (!finder_agrees(period, index, op, &evidence)) continue;
        lane->cursor = index;
        return true;
    }
    return false;
}

static enum finder_match follow(struct finder *finder, uint32_t index, const struct finder_op *op)
{
    struct finder_lane *lane = &finder->lanes[index];
    const struct finder_period_op *due = &finder->now->ops[lane->cursor];
    if (due->key == op->key && due->touch_count == op->count &&
        touches_as_foretold(finder->now, due, op))
        return finder_move_on(finder, lane) ? FINDER_DEVIATED : FINDER_MATCHED;
    bool right_key = due->wild || due->key == op->key;
    if (!right_key && lane->soft && find_cursor(finder, lane, op)) {
        due = &finder->now->ops[lane->cursor];
        right_key = true;
    }
    if (!right_key) return finder_deviate(finder, index, op);
    bool right = finder_settle(finder, due, op);
    if (finder_move_on(finder, lane)) return FINDER_DEVIATED;
    return right ? FINDER_MATCHED : FINDER_TOUCHES;
}

/* Sets all lanes: of `lane`, op `last` was the last one; of the others, what stands before it. */
void finder_enter(struct finder *finder, struct finder_period *period, uint32_t lane, uint32_t last)
{
    finder->now = period;
    finder->at = last;
    finder->laps = 0;
    finder->alloc_start = finder->alloc_cursor = period->ops[last].allocs;
    finder->allocs_taken = 0;
    for (uint32_t i = 0; i < FINDER_STREAMS; i++) {
        struct finder_lane *other = &finder->lanes[i];
        const struct finder_period_lane *of = &period->lanes[i];
        uint32_t low = 0, high = of->count;
        while (low < high) {
            uint32_t middle = (low + high) / 2;
            if (of->ops[middle] <= last)
                low = middle + 1;
            else
                high = middle;
        }
        if (of->count) other->cursor = of->ops[low % of->count];
        other->laps = of->count && low == of->count; /* a lap ahead of who has not wrapped */
        other->follows = of->count > 0;
        other->stranger = of->count == 0;
        other->soft = i != lane;
        other->lost = 0;
    }
}

static struct finder_lane *lane_of(struct finder *finder, uint32_t stream, uint32_t *index)
{
    uint8_t *slot = &finder->lane_of[stream % FINDER_STREAM_SLOTS];
    if (*slot == 0) {
        if (finder->lane_count < FINDER_STREAMS) finder->lane_count++;
        *slot = (uint8_t)finder->lane_count;
    }
    *index = *slot - 1u;
    return &finder->lanes[*index];
}

/* A new period. */

/* True when the program is still where the learner saw it, as far as can be told. */
static bool is_in_place(const struct finder *finder, const struct finder_period *period,
                        const struct finder_handover *handover, uint32_t *cursors)
{
    bool right = false;
    for (uint32_t i = 0; i < FINDER_STREAMS; i++) {
        const struct finder_period_lane *of = &period->lanes[i];
        if (of->count == 0) continue;
        uint32_t since = finder->lanes[i].turn - handover->turns[i];
        uint32_t turn = (period->ops[period->due[i]].turn + since) % of->count;
        const struct finder_period_op *last =
            &period->ops[of->ops[(turn + of->count - 1) % of->count]];
        cursors[i] = of->ops[turn];
        if (i == period->lead) right = last->context == finder->lanes[i].context || last->wild;
    }
    return right;
}

static uint32_t least_used(const struct finder *finder)
{
    uint32_t least = FINDER_PERIODS;
    for (uint32_t i = 0; i < FINDER_PERIODS; i++) {
        if (!finder->known[i]) return i;
        if (finder->known[i] == finder->now) continue;
        if (least == FINDER_PERIODS || finder->used[i] < finder->used[least]) least = i;
    }
    return least;
}

/* Takes over what the learner has found. Waits while it has not taken back what was given up. */
static void adopt(struct finder *finder)
{
    struct finder_handover *handover =
        atomic_load_explicit(&finder->incoming, memory_order_acquire);
    uint32_t slot = least_used(finder), cursors[FINDER_STREAMS] = {0};
    struct finder_period *period = handover->period, *old = finder->known[slot];
    if (old) {
        if (atomic_load_explicit(&finder->retired, memory_order_acquire)) return;
        finder_drop_guesses(finder, old);
        atomic_store_explicit(&finder->retired, old, memory_order_release);
    }
    finder->known[slot] = period;
    finder->used[slot] = finder->number;
    finder->stats.periods++;
    if (handover->read != finder->queue.write) finder_forget_passing(period);
    if (is_in_place(finder, period, handover, cursors)) {
        uint32_t lead = period->lead;
        const struct finder_period_lane *of = &period->lanes[lead];
        uint32_t turn = period->ops[cursors[lead]].turn + of->count - 1;
        finder_drop_guesses(finder, NULL);
        finder_enter(finder, period, lead, of->ops[turn % of->count]);
        for (uint32_t i = 0; i < FINDER_STREAMS; i++) {
            finder->lanes[i].cursor = cursors[i];
            finder->lanes[i].laps = cursors[i] <= finder->at;
        }
    }
    atomic_store_explicit(&finder->incoming, NULL, memory_order_release);
}

/* The interface of the follower. */

void finder_op(struct finder *finder, const struct finder_op *op, struct finder_place *place)
{
    uint32_t index;
    struct finder_lane *lane = lane_of(finder, op->stream, &index);
    if (atomic_load_explicit(&finder->incoming, memory_order_relaxed)) adopt(finder);
    lane->context = finder_context(lane->context, op->key);
    enum finder_match match =
        lane->follows ? follow(finder, index, op) : finder_seek(finder, index, op);
    *place = (struct finder_place){.number = finder->number++,
                                   .match = match,
                                   .period = finder->now ? finder->now->number : 0,
                                   .op = finder->at};
    finder->stats.matched += match == FINDER_MATCHED;
    finder->stats.touches += match == FINDER_TOUCHES;
    finder->stats.deviations += match == FINDER_DEVIATED;
    uint32_t turn = lane->turn++;
    if (!finder_queue_put_op(&finder->queue, op, index, turn, place)) finder->stats.dropped++;
}

/* The alloc that is due, or one a little behind it, has this size: its role. */
static uint32_t take_alloc(struct finder *finder, uint64_t bytes)
{
    const struct finder_period *period = finder->now;
    uint32_t count = period->alloc_count;
    for (uint32_t i = 0; i < FINDER_ALLOC_NEAR && i < count; i++) {
        const struct finder_period_alloc *alloc =
            &period->allocs[(finder->alloc_cursor + i) % count];
        if (alloc->bytes != bytes || (finder->allocs_taken >> i & 1)) continue;
        finder->allocs_taken |= UINT64_C(1) << i;
        while (finder->allocs_taken & 1) {
            finder->allocs_taken >>= 1;
            finder->alloc_cursor++;
        }
        return alloc->role;
    }
    return FINDER_NONE;
}

static void queue_block(struct finder *finder, enum finder_message message, uint32_t id,
                        uint64_t bytes)
{
    if (finder_queue_put(&finder->queue, message, id, bytes, 0)) return;
    finder->stats.dropped_blocks++;
    atomic_store_explicit(&finder->missed, true, memory_order_relaxed);
}

uint32_t finder_alloc(struct finder *finder, uint32_t id, uint64_t bytes)
{
    struct finder_period *period = finder->now;
    assert(id != 0);
    queue_block(finder, FINDER_ALLOC, id, bytes);
    if (!period || !finder->lanes[period->lead].follows) return FINDER_NONE;
    if (slot_of(period, id) != FINDER_ABSENT) return FINDER_NONE; /* told again */
    uint32_t role = take_alloc(finder, bytes);
    if (role != FINDER_NONE) bind_newest(period, role, id);
    return role;
}

uint32_t finder_free(struct finder *finder, uint32_t id)
{
    struct finder_period *period = finder->now;
    queue_block(finder, FINDER_FREE, id, 0);
    uint32_t slot = period ? slot_of(period, id) : FINDER_ABSENT;
    if (slot == FINDER_ABSENT) return FINDER_NONE;
    unbind(period, slot);
    return period->slot_roles[slot];
}

void finder_duration(struct finder *finder, uint64_t number, uint64_t duration_ns)
{
    (void)finder_queue_put(&finder->queue, FINDER_TOOK, (uint32_t)number, duration_ns,
                           FINDER_QUEUE / 4);
}

uint32_t finder_next_use(const struct finder *finder, uint32_t id)
{
    const struct finder_period *period = finder->now;
    uint32_t slot = period ? slot_of(period, id) : FINDER_ABSENT;
    if (slot == FINDER_ABSENT) return FINDER_NEVER;
    const struct finder_period_role *role = &period->roles[period->slot_roles[slot]];
    bool persistent = role->born_op == STEP_NEVER;
    uint32_t count = period->op_count;
    uint32_t from = persistent ? next_op(finder) : lived(finder, slot);
    const uint32_t *uses = &period->uses[role->first_use];
    uint32_t low = 0, high = role->use_count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (uses[middle] < from)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < role->use_count) return uses[low] - from + 1;
    return persistent && role->use_count ? uses[0] + count - from + 1 : FINDER_NEVER;
}

uint32_t finder_role_of(const struct finder *finder, uint32_t id, uint32_t *age)
{
    const struct finder_period *period = finder->now;
    uint32_t slot = period ? slot_of(period, id) : FINDER_ABSENT;
    if (slot == FINDER_ABSENT) return FINDER_NONE;
    uint32_t role = period->slot_roles[slot];
    const struct finder_period_role *of = &period->roles[role];
    bool before = of->born_op != STEP_NEVER && !is_born_by(finder, of, next_op(finder));
    if (age) *age = slot - of->first_slot + before;
    return role;
}

uint32_t finder_block_of(const struct finder *finder, uint32_t role, uint32_t age, uint32_t op)
{
    const struct finder_period *period = finder->now;
    if (!period || role >= period->step.role_count) return 0;
    const struct finder_period_role *of = &period->roles[role];
    if (of->born_op == STEP_NEVER) return period->bound[of->first_slot];
    uint32_t next = next_op(finder);
    bool now = is_born_by(finder, of, next), then = op < period->op_count && op >= of->born_op;
    if (op == period->op_count || op == next) {
        op = next;
        then = now;
    }
    /* Births from now until then. */
    int32_t births = op >= next ? then - now : 1 - now + then;
    int32_t younger = (int32_t)age - !then - births;
    if (younger < 0 || (uint32_t)younger >= of->slot_count) return 0;
    return period->bound[of->first_slot + (uint32_t)younger];
}

uint32_t finder_next_period(const struct finder *finder, uint32_t *ops)
{
    const struct finder_period *period = finder->now;
    for (uint32_t i = 0; period && i < finder->change_count; i++) {
        const struct finder_change *change = &finder->changes[i];
        if (!change->regular || change->from != period->number) continue;
        int64_t left = ((int64_t)change->laps - finder->laps) * period->op_count + change->from_op -
                       finder->at;
        if (left < 0) continue;
        *ops = (uint32_t)left;
        return change->to;
    }
    return 0;
}

struct finder_stats finder_stats_of(const struct finder *finder)
{
    struct finder_stats stats = finder->stats;
    stats.ops = finder->number;
    return stats;
}

/* The interface of the learner. */

static void take_back(struct finder *finder)
{
    struct finder_period *old = atomic_load_explicit(&finder->retired, memory_order_acquire);
    if (!old) return;
    finder_learner_forget(&finder->learner, old);
    atomic_store_explicit(&finder->retired, NULL, memory_order_release);
}

bool finder_study(struct finder *finder, uint32_t events)
{
    struct finder_event event;
    uint64_t next;
    take_back(finder);
    if (atomic_exchange_explicit(&finder->missed, false, memory_order_relaxed))
        finder_learner_restart(&finder->learner, true);
    for (uint32_t i = 0; i < events; i++) {
        if (!finder_queue_peek(&finder->queue, &event, &next)) return false;
        bool may_hand = !atomic_load_explicit(&finder->incoming, memory_order_acquire);
        struct finder_period *found =
            finder_learner_take(&finder->learner, &finder->queue, &event, may_hand);
        finder_queue_done(&finder->queue, next);
        if (!found) continue;
        finder->learner.handover.read = next;
        atomic_store_explicit(&finder->incoming, &finder->learner.handover, memory_order_release);
    }
    return finder_queue_peek(&finder->queue, &event, &next);
}

struct finder_outlook finder_outlook(const struct finder *finder)
{
    return finder_learner_outlook(&finder->learner);
}

uint32_t finder_newest(const struct finder *finder)
{
    return finder->learner.newest;
}

const struct step *finder_step(struct finder *finder, uint32_t number)
{
    struct finder_period *period = finder_learner_period(&finder->learner, number);
    if (!period) return NULL;
    finder_period_average(period);
    return &period->step;
}

/* Bindings and maps say the same; what the follower points to is in range. */
static bool period_is_valid(const struct finder_period *period)
{
    uint32_t bound = 0;
    for (uint32_t slot = 0; slot < period->slot_count; slot++) {
        if (period->bound[slot] == 0) continue;
        bound++;
        const struct finder_map *map =
            slot < period->persistent_count ? &period->persistent : &period->passing;
        if (finder_map_find(map, period->bound[slot]) != slot) return false;
    }
    return bound == period->persistent.count + period->passing.count &&
           period->bound[period->slot_count] == 0 && step_is_valid(&period->step);
}

bool finder_is_valid(const struct finder *finder)
{
    bool now_is_known = !finder->now;
    for (uint32_t i = 0; i < FINDER_PERIODS; i++) {
        if (!finder->known[i]) continue;
        if (!period_is_valid(finder->known[i])) return false;
        now_is_known |= finder->known[i] == finder->now;
    }
    for (uint32_t i = 0; i < FINDER_STREAMS; i++) {
        const struct finder_lane *lane = &finder->lanes[i];
        if (lane->follows && (!finder->now || finder->now->ops[lane->cursor].lane != i))
            return false;
    }
    return now_is_known && finder_past_is_valid(&finder->learner.past);
}
