/* What a lane does next. */
#include <stdlib.h>

#include "plan/executor_inner.h"

static void start(struct executor *executor, enum executor_kind kind, uint32_t index,
                  struct executor_action *action)
{
    *action = (struct executor_action){.kind = kind,
                                       .item = index,
                                       .serial = executor->items[index].serial,
                                       .refuge = executor->items[index].refuge,
                                       .bytes = bytes_of(executor, index)};
    executor->flying++;
}

static uint64_t soon_free_bytes(const struct executor *executor)
{
    return executor_free_bytes(executor) + executor->ready_bytes + executor->pending_bytes +
           executor->going_bytes;
}

/* How many frames the slot has left, as far as this look at what needs them has come. */
static uint32_t *frames_left(struct executor *executor, uint32_t slot_index)
{
    struct executor_slot *slot = &executor->slots[slot_index];
    if (slot->stamp != executor->stamp) {
        slot->stamp = executor->stamp;
        slot->count = slot->coming + slot->dead;
    }
    return &slot->count;
}

static uint32_t births_wanted(const struct executor *executor)
{
    return executor->wanted_births < executor->wanted_count ? executor->wanted_births
                                                            : executor->wanted_count;
}

/* What the op that waits lacks, less what is being mapped for it; the slots are stamped with what
 * is promised to it. */
static uint64_t wanted_bytes(struct executor *executor)
{
    uint64_t bytes = 0;
    if (executor->wanted_at == executor->revision && executor->wanted_stamp == executor->stamp)
        return executor->wanted_bytes;
    executor->stamp++;
    if (executor->wanted_count) bytes = executor->due[position(executor, executor->launched)];
    for (uint32_t i = 0; i < births_wanted(executor); i++) {
        uint32_t index = executor->wanted[i];
        if (executor->items[index].state != ITEM_EMPTY) continue;
        uint32_t *left = frames_left(executor, chunk_of(executor, index)->slot);
        if (*left > 0)
            --*left;
        else
            bytes += bytes_of(executor, index);
    }
    executor->wanted_at = executor->revision;
    executor->wanted_stamp = executor->stamp;
    executor->wanted_bytes = bytes;
    return bytes;
}

/* In. */

/* By the plan: there is room at every op until the deadline. */
static bool fits_plan(struct executor *executor, uint32_t index, uint64_t deadline)
{
    const struct executor_plan *plan = &executor->plan;
    uint64_t bytes = bytes_of(executor, index), capacity = executor->options.capacity_bytes;
    if (executor->blocker >= executor->launched && executor->blocker < deadline) {
        uint32_t at = position(executor, executor->blocker);
        if (plan->occupied[at] + executor->early[at] + bytes > capacity) return false;
    }
    uint32_t at = position(executor, executor->launched);
    for (uint64_t op = executor->launched; op < deadline; op++) {
        if (plan->occupied[at] + executor->early[at] + bytes > capacity) {
            executor->blocker = op;
            return false;
        }
        if (++at == executor->shape->op_count) at = 0;
    }
    return true;
}

/* By rule: what is free now stays free enough for all that is born, or is to come home, until the
 * deadline. */
static bool fits_growth(const struct executor *executor, uint64_t bytes, uint64_t deadline)
{
    int64_t room =
        (int64_t)(executor_free_bytes(executor) + executor->ready_bytes + executor->pending_bytes) -
        (int64_t)bytes;
    uint32_t at = position(executor, executor->launched);
    for (uint64_t op = executor->launched; op < deadline; op++) {
        room -= executor->growth[at] + (int64_t)executor->due[at];
        if (room < 0) return false;
        if (++at == executor->shape->op_count) at = 0;
    }
    return true;
}

static void note_early(struct executor *executor, uint64_t bytes, uint64_t deadline)
{
    uint32_t at = position(executor, executor->launched);
    for (uint64_t op = executor->launched; op < deadline; op++) {
        executor->early[at] += bytes;
        if (++at == executor->shape->op_count) at = 0;
    }
}

static bool is_in_sight(const struct executor *executor, uint64_t op)
{
    return op - executor->launched < executor->shape->op_count;
}

/* Of the items that can come from refuges that are not busy, the one that is used next. */
static uint32_t first_away(const struct executor *executor, uint32_t busy)
{
    uint32_t first = HEAP_NOWHERE;
    for (uint32_t i = 0; i < executor->options.refuges; i++) {
        if ((busy >> i & 1) || executor->away[i].count == 0) continue;
        uint32_t index = heap_first(&executor->away[i]);
        if (first == HEAP_NOWHERE || heap_less(&executor->away[0], index, first)) first = index;
    }
    return first;
}

static bool next_in(struct executor *executor, struct executor_action *action)
{
    uint32_t index = first_away(executor, executor->busy[EXECUTOR_IN]);
    if (index == HEAP_NOWHERE) return false;
    struct executor_item *item = &executor->items[index];
    uint64_t bytes = bytes_of(executor, index);
    if (executor_free_bytes(executor) < bytes || item->hosting) return false;
    if (executor->options.mode == EXECUTOR_INPLACE) return false;
    if (item->in_place_by > executor->done) return false; /* still in use where it is */
    if (item->next > executor->launched) {
        if (!looks_ahead(executor) || !is_in_sight(executor, item->next)) return false;
        bool planned = is_planned(executor) && executor->plan.away[executor_gap(executor, index)];
        if (planned && !fits_plan(executor, index, item->next)) return false;
        if (!is_planned(executor) && !fits_growth(executor, bytes, item->next)) return false;
        if (planned) note_early(executor, bytes, item->next);
    }
    heap_remove(&executor->away[item->refuge], index);
    executor->due[position(executor, item->next)] -= bytes;
    executor->used_bytes += bytes;
    item->state = ITEM_COMING;
    start(executor, EXECUTOR_FETCH, index, action);
    return true;
}

/* Out. */

/* The first op for which there will not be room, as things go on; UINT64_MAX: none within a step.
 */
static uint64_t find_frontier(const struct executor *executor)
{
    int64_t room = (int64_t)soon_free_bytes(executor) - (int64_t)executor->options.spare_bytes;
    uint64_t op = executor->launched;
    uint32_t at = position(executor, op);
    for (uint32_t i = 0; i < executor->shape->op_count; i++, op++) {
        room -= executor->growth[at] + (int64_t)executor->due[at];
        if (room < 0) return op;
        if (++at == executor->shape->op_count) at = 0;
    }
    return UINT64_MAX;
}

static uint64_t frontier(struct executor *executor)
{
    if (executor->frontier_at != executor->revision)
        executor->frontier_op = find_frontier(executor);
    executor->frontier_at = executor->revision;
    return executor->frontier_op;
}

/* An op waits, or will, for room that nobody is about to give. */
static bool is_short(struct executor *executor, uint64_t *beyond)
{
    uint64_t soon = soon_free_bytes(executor);
    *beyond = executor->launched;
    if (executor->wanted_count && wanted_bytes(executor) > soon + executor->promised_bytes)
        return true;
    switch (executor->options.mode) {
    case EXECUTOR_EAGER: *beyond = frontier(executor); return *beyond != UINT64_MAX;
    case EXECUTOR_DEMAND:
    case EXECUTOR_LRU: return executor->evictions > 0 && soon < executor->options.spare_bytes;
    case EXECUTOR_PLAN:
    case EXECUTOR_INPLACE: break;
    }
    return false;
}

static bool find_victim(struct executor *executor, uint32_t *index)
{
    uint64_t beyond;
    if (executor->options.mode == EXECUTOR_INPLACE) return false;
    *index = heap_first(&executor->idle);
    if (*index == HEAP_NOWHERE || !is_short(executor, &beyond)) return false;
    return executor->options.mode == EXECUTOR_LRU || executor->items[*index].next > beyond;
}

static bool evict(struct executor *executor, uint32_t index, struct executor_action *action)
{
    struct executor_item *item = &executor->items[index];
    if (!item->host_copy && !executor_renew_host_frame(executor, index)) return false;
    assert(item->state == ITEM_HOME && !item->saving);
    unqueue(executor, index);
    executor->going_bytes += bytes_of(executor, index);
    executor->evictions++;
    promise(executor, index, false);
    item->state = item->host_copy ? ITEM_UNMAPPING : ITEM_LEAVING;
    start(executor, item->host_copy ? EXECUTOR_DROP : EXECUTOR_EVICT, index, action);
    return true;
}

static bool next_out(struct executor *executor, struct executor_action *action)
{
    uint32_t index = heap_first(&executor->leaving);
    if (index != HEAP_NOWHERE) return evict(executor, index, action);
    if (find_victim(executor, &index) && !executor->items[index].host_copy)
        return evict(executor, index, action);
    index = heap_first(&executor->saving);
    if (index == HEAP_NOWHERE || !executor_renew_host_frame(executor, index)) return false;
    unqueue(executor, index);
    executor->items[index].saving = true;
    start(executor, EXECUTOR_SAVE, index, action);
    return true;
}

static bool next_remap(struct executor *executor, struct executor_action *action)
{
    uint32_t index = heap_first(&executor->dropping);
    if (index != HEAP_NOWHERE) return evict(executor, index, action);
    if (!find_victim(executor, &index) || !executor->items[index].host_copy) return false;
    return evict(executor, index, action);
}

/* Maps. */

/* The op at which the slot would miss a frame if it gave one away now. */
static uint64_t missed_at(const struct executor *executor, const struct executor_slot *slot)
{
    uint32_t at = position(executor, executor->launched), low = 0, high = slot->birth_count;
    if (slot->birth_count == 0) return UINT64_MAX;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (executor->births[slot->first_birth + middle] < at)
            low = middle + 1;
        else
            high = middle;
    }
    uint32_t birth = low + slot->dead + slot->coming - 1;
    uint64_t round = birth / slot->birth_count;
    return executor->launched - at + round * executor->shape->op_count +
           executor->births[slot->first_birth + birth % slot->birth_count];
}

/* Takes a frame from where it will be missed last, but not before `beyond`, and not what the
 * waiting op is about to take over (wanted_bytes has counted that). */
static bool strip(struct executor *executor, uint64_t beyond, struct executor_action *action)
{
    uint64_t latest = 0;
    uint32_t best = UINT32_MAX;
    if (executor->ready_bytes == 0) return false;
    for (uint32_t i = 0; i < executor->shape->slot_count; i++) {
        const struct executor_slot *slot = &executor->slots[i];
        bool promised = slot->stamp == executor->stamp && slot->count == 0;
        if (slot->ready == 0 || promised) continue;
        uint64_t at = missed_at(executor, slot);
        if (best != UINT32_MAX && at <= latest) continue;
        latest = at;
        best = i;
    }
    if (best == UINT32_MAX || latest < beyond) return false;
    struct executor_slot *slot = &executor->slots[best];
    executor->births_known = false;
    slot->dead--;
    slot->ready--;
    executor->ready_bytes -= slot->bytes;
    *action = (struct executor_action){
        .kind = EXECUTOR_STRIP, .item = UINT32_MAX, .slot = best, .bytes = slot->bytes};
    executor->flying++;
    return true;
}

static bool ready(struct executor *executor, uint32_t slot_index, struct executor_action *action)
{
    struct executor_slot *slot = &executor->slots[slot_index];
    if (executor_free_bytes(executor) < slot->bytes) return false;
    executor->births_known = false;
    slot->coming++;
    executor->used_bytes += slot->bytes;
    *action = (struct executor_action){
        .kind = EXECUTOR_READY, .item = UINT32_MAX, .slot = slot_index, .bytes = slot->bytes};
    executor->flying++;
    return true;
}

/* What the waiting op lacks: frames for blocks being born, or mappings on the host. */
static bool next_wanted(struct executor *executor, struct executor_action *action)
{
    bool any_in_place =
        executor->options.mode == EXECUTOR_INPLACE || executor->relented == executor->launched + 1;
    uint32_t count = any_in_place ? executor->wanted_count : births_wanted(executor);
    executor->stamp++;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t index = executor->wanted[i];
        struct executor_item *item = &executor->items[index];
        uint32_t slot_index = chunk_of(executor, index)->slot;
        bool in_place = executor->options.mode == EXECUTOR_INPLACE ||
                        item->in_place_by == executor->launched + 1;
        if (item->state == ITEM_AWAY && in_place && !item->hosting && !item->host_mapped) {
            item->hosting = true;
            start(executor, EXECUTOR_HOST, index, action);
            return true;
        }
        if (item->state != ITEM_EMPTY) continue;
        uint32_t *left = frames_left(executor, slot_index);
        if (*left > 0)
            --*left;
        else if (ready(executor, slot_index, action))
            return true;
    }
    return false;
}

static void add_frames_of_dead(struct executor *executor, const struct shape_op *op)
{
    const struct shape *shape = executor->shape;
    for (uint32_t i = op->first_death; i < op->first_death + op->death_count; i++) {
        const struct shape_role *role = &shape->roles[shape->deaths[i].role];
        for (uint32_t k = 0; k < role->chunk_count; k++) (*frames_left(executor, role->slot + k))++;
    }
}

/* Takes the frames for the blocks that the op is the first to use; false: this slot lacks one. */
static bool take_frames_of_born(struct executor *executor, const struct shape_op *op,
                                uint32_t *slot)
{
    const struct shape *shape = executor->shape;
    for (uint32_t i = op->first_touch; i < op->first_touch + op->touch_count; i++) {
        const struct shape_role *role = &shape->roles[shape->touches[i].role];
        if (shape->touches[i].use > 0 || role->end == SHAPE_NEVER) continue;
        for (uint32_t k = 0; k < role->chunk_count; k++) {
            uint32_t *left = frames_left(executor, role->slot + k);
            if (*left == 0) {
                *slot = role->slot + k;
                return false;
            }
            --*left;
        }
    }
    return true;
}

/* The first block to be born within sight whose slot will lack a frame then. The op that waits has
 * taken what it found. False: there is none. */
static bool find_birth(struct executor *executor)
{
    uint64_t end = executor->launched + executor->options.ahead_ops;
    if (executor->births_known) return executor->birth_op != UINT64_MAX;
    executor->births_known = true;
    executor->stamp++;
    for (uint64_t op = executor->buried; op < end; op++) {
        const struct shape_op *at = &executor->shape->ops[position(executor, op)];
        add_frames_of_dead(executor, at);
        if (take_frames_of_born(executor, at, &executor->birth_slot)) continue;
        executor->birth_op = op;
        return true;
    }
    executor->birth_op = UINT64_MAX;
    return false;
}

/* Maps ahead for a block to be born, from what is left when all that is used no later has come
 * home. */
static bool next_ahead(struct executor *executor, struct executor_action *action)
{
    if (!find_birth(executor)) return false;
    uint64_t wanted = executor->slots[executor->birth_slot].bytes;
    uint32_t at = position(executor, executor->launched);
    for (uint64_t op = executor->launched; op <= executor->birth_op; op++) {
        wanted += executor->due[at];
        if (executor_free_bytes(executor) < wanted) return false;
        if (++at == executor->shape->op_count) at = 0;
    }
    return ready(executor, executor->birth_slot, action);
}

/* Frames of dead chunks that are missed only then may go: after all that is mapped ahead for; or
 * just later than what comes home next, if that has no frame. (next_ahead leaves it that one.) */
static uint64_t missed_last(const struct executor *executor)
{
    uint64_t beyond = executor->launched + executor->options.ahead_ops;
    uint32_t first = first_away(executor, 0);
    if (first == HEAP_NOWHERE || executor_free_bytes(executor) >= bytes_of(executor, first))
        return beyond;
    return executor->items[first].next < beyond ? executor->items[first].next + 1 : beyond;
}

static bool next_map(struct executor *executor, struct executor_action *action)
{
    if (executor->wanted_count && next_wanted(executor, action)) return true;
    if (wanted_bytes(executor) > executor_free_bytes(executor)) {
        bool far = executor->options.mode == EXECUTOR_INPLACE &&
                   executor_can_bear_in_refuge(executor, executor->wanted[0]);
        if (far) return false; /* who finds no room at home will live there in a moment */
        return strip(executor, 0, action);
    }
    if (!looks_ahead(executor)) return false;
    if (executor_free_bytes(executor) < executor->options.spare_bytes &&
        strip(executor, missed_last(executor), action))
        return true;
    return next_ahead(executor, action);
}

static bool next_of(struct executor *executor, enum executor_lane lane,
                    struct executor_action *action)
{
    switch (lane) {
    case EXECUTOR_IN: return next_in(executor, action);
    case EXECUTOR_OUT: return next_out(executor, action);
    case EXECUTOR_REMAP: return next_remap(executor, action);
    case EXECUTOR_MAP: return next_map(executor, action);
    case EXECUTOR_LANES: break;
    }
    abort();
}

bool executor_next(struct executor *executor, enum executor_lane lane,
                   struct executor_action *action)
{
    if (executor->idle_at[lane] == executor->revision) return false;
    if (next_of(executor, lane, action)) {
        executor->revision++;
        return true;
    }
    executor->idle_at[lane] = executor->revision;
    return false;
}
