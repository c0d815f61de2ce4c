#include "plan/executor.h"

#include <stdlib.h>
#include <string.h>

#include "plan/executor_inner.h"

/* Room. */

static void take_room(struct executor *executor, uint64_t bytes)
{
    executor->used_bytes += bytes;
}

static void give_room(struct executor *executor, uint64_t bytes)
{
    assert(executor->used_bytes >= bytes);
    executor->used_bytes -= bytes;
}

/* A frame stays mapped at a dead chunk; it can be taken elsewhere when the ops before `after` are
 * done. */
static void add_dead(struct executor *executor, uint32_t slot_index, uint64_t after)
{
    struct executor_slot *slot = &executor->slots[slot_index];
    executor->births_known = false;
    slot->dead++;
    if (after <= executor->done) {
        slot->ready++;
        executor->ready_bytes += slot->bytes;
        return;
    }
    executor->pending_bytes += slot->bytes;
    assert(executor->grave_count < executor->grave_room);
    uint32_t at = (executor->grave_first + executor->grave_count++) % executor->grave_room;
    executor->graves[at] = (struct executor_grave){after, slot_index};
}

static void ripen(struct executor *executor)
{
    while (executor->grave_count) {
        const struct executor_grave *grave = &executor->graves[executor->grave_first];
        if (grave->after > executor->done) return;
        struct executor_slot *slot = &executor->slots[grave->slot];
        if (slot->ready < slot->dead) { /* otherwise it has been taken over meanwhile */
            slot->ready++;
            executor->pending_bytes -= slot->bytes;
            executor->ready_bytes += slot->bytes;
        }
        executor->grave_first = (executor->grave_first + 1) % executor->grave_room;
        executor->grave_count--;
    }
}

/* Takes over a frame of the slot, best one that only this stream's work may still use. */
static bool take_dead(struct executor *executor, uint32_t slot_index)
{
    struct executor_slot *slot = &executor->slots[slot_index];
    if (slot->dead == 0) return false;
    executor->births_known = false;
    slot->dead--;
    if (slot->ready > slot->dead) {
        slot->ready--;
        executor->ready_bytes -= slot->bytes;
    } else {
        executor->pending_bytes -= slot->bytes;
    }
    return true;
}

/* Queues of items. */

static void queue_away(struct executor *executor, uint32_t index)
{
    struct executor_item *item = &executor->items[index];
    if (is_doomed(executor, index) || item->next == UINT64_MAX) return;
    heap_set(&executor->away[item->refuge], index, item->next);
    executor->due[position(executor, item->next)] += bytes_of(executor, index);
}

static void unqueue_away(struct executor *executor, uint32_t index)
{
    if (!is_queued_away(executor, index)) return;
    heap_remove(&executor->away[executor->items[index].refuge], index);
    executor->due[position(executor, executor->items[index].next)] -= bytes_of(executor, index);
}

static void queue_idle(struct executor *executor, uint32_t index)
{
    const struct executor_item *item = &executor->items[index];
    if (item->next == executor->launched && !is_doomed(executor, index)) return; /* wanted now */
    bool lru = executor->options.mode == EXECUTOR_LRU;
    heap_set(&executor->idle, index, lru ? item->last : ~item->next);
}

/* Op at which gap `gap` of the item begins, counted through all steps; the item was used last in an
 * earlier gap of the same round, or in a later one of the round before. */
static uint64_t gap_start(const struct executor *executor, uint32_t index, uint32_t gap)
{
    const struct shape_role *role = role_of(executor, index);
    const struct executor_item *item = &executor->items[index];
    uint32_t use = gap - chunk_of(executor, index)->first_gap;
    uint64_t at = item->base + executor->shape->uses[role->first_use + use].at;
    return use >= item->use ? at : at + executor->shape->op_count;
}

static void queue_planned(struct executor *executor, uint32_t index)
{
    const struct executor_item *item = &executor->items[index];
    uint32_t gap = executor_gap(executor, index);
    uint64_t key = executor->done;
    if (executor->plan.away[gap])
        heap_set(item->host_copy ? &executor->dropping : &executor->leaving, index, key);
    else if (executor->plan.save_for[gap] != SHAPE_NEVER && !item->host_copy && !item->saving)
        heap_set(&executor->saving, index,
                 gap_start(executor, index, executor->plan.save_for[gap]));
}

/* Blocks die when the host frees them. */

static void start_next_block(struct executor *executor, uint32_t index)
{
    struct executor_item *item = &executor->items[index];
    const struct shape_role *role = role_of(executor, index);
    item->serial++;
    item->use = 0;
    item->base += (uint64_t)role->copies * executor->shape->op_count;
    item->next = item->base + shape_use_at(executor->shape, role, 0);
}

static void bury_item(struct executor *executor, uint32_t index)
{
    struct executor_item *item = &executor->items[index];
    struct executor_slot *slot = &executor->slots[chunk_of(executor, index)->slot];
    promise(executor, index, false);
    switch ((enum executor_state)item->state) {
    case ITEM_EMPTY: break;
    case ITEM_HOME:
        unqueue(executor, index);
        executor_give_host_frame(executor, index);
        item->state = ITEM_EMPTY;
        add_dead(executor, chunk_of(executor, index)->slot, executor->launched);
        break;
    case ITEM_AWAY:
        unqueue_away(executor, index);
        if (item->host_mapped && !item->hosting) {
            slot->host_dead[item->refuge]++; /* the frame stays there, for the next one */
            item->host_frame = false;
        }
        executor_give_host_frame(executor, index);
        item->state = ITEM_EMPTY;
        break;
    case ITEM_COMING:
    case ITEM_LANDING:
    case ITEM_LEAVING:
    case ITEM_UNMAPPING: item->dies = true; break;
    }
    start_next_block(executor, index);
}

static void bury(struct executor *executor)
{
    const struct shape_op *op = &executor->shape->ops[position(executor, executor->launched)];
    for (uint32_t i = op->first_death; i < op->first_death + op->death_count; i++) {
        const struct shape_death *death = &executor->shape->deaths[i];
        const struct shape_role *role = &executor->shape->roles[death->role];
        for (uint32_t k = 0; k < role->chunk_count; k++)
            bury_item(executor, item_at(executor, role, role->first_chunk + k, executor->launched,
                                        death->age));
    }
    executor->buried = executor->launched + 1;
}

/* A launch. */

static bool may_use_in_place(const struct executor *executor, const struct executor_item *item)
{
    return executor->options.mode == EXECUTOR_INPLACE ||
           item->in_place_by == executor->launched + 1;
}

/* The item becomes usable for the op that is to be launched, if that needs no action. */
static bool prepare(struct executor *executor, uint32_t index)
{
    struct executor_item *item = &executor->items[index];
    switch ((enum executor_state)item->state) {
    case ITEM_HOME: unqueue(executor, index); return !item->saving;
    case ITEM_LANDING: return true;
    case ITEM_COMING:
    case ITEM_UNMAPPING: return false;
    case ITEM_AWAY: return may_use_in_place(executor, item) && item->host_mapped;
    case ITEM_LEAVING: /* recalled: from now on its copy is an early one */
        item->state = ITEM_HOME;
        item->saving = true;
        executor->going_bytes -= bytes_of(executor, index);
        return false;
    case ITEM_EMPTY: break;
    }
    if (item->saving) return false;
    if (take_dead(executor, chunk_of(executor, index)->slot)) {
        item->state = ITEM_HOME;
        return true;
    }
    bool full = executor_free_bytes(executor) + executor->pending_bytes < bytes_of(executor, index);
    return executor->options.mode == EXECUTOR_INPLACE && full &&
           executor_bear_in_refuge(executor, index) && item->host_mapped;
}

/* One whose former block is still on the move will be empty, too. */
static void want(struct executor *executor, uint32_t index)
{
    uint32_t at = executor->wanted_count++;
    if (executor->items[index].state == ITEM_EMPTY || executor->items[index].dies) {
        executor->wanted[at] = executor->wanted[executor->wanted_births];
        at = executor->wanted_births++;
    }
    executor->wanted[at] = index;
}

/* The first look at an op: what it lacks goes into the list. What it has stays at home from now on,
 * so that later looks need only go through the list. */
static void gather(struct executor *executor)
{
    const struct shape *shape = executor->shape;
    const struct shape_op *op = &shape->ops[position(executor, executor->launched)];
    executor->wanted_count = executor->wanted_births = 0;
    for (uint32_t i = op->first_touch; i < op->first_touch + op->touch_count; i++) {
        const struct shape_touch *touch = &shape->touches[i];
        const struct shape_role *role = &shape->roles[touch->role];
        for (uint32_t k = 0; k < role->chunk_count; k++) {
            uint32_t index =
                item_at(executor, role, role->first_chunk + k, executor->launched, touch->age);
            if (!prepare(executor, index)) want(executor, index);
        }
    }
}

/* A later look. What has come takes its place, so that others see what room is left. */
static void look_through(struct executor *executor)
{
    uint32_t count = executor->wanted_count;
    executor->wanted_count = executor->wanted_births = 0;
    for (uint32_t i = 0; i < count; i++)
        if (!prepare(executor, executor->wanted[i])) want(executor, executor->wanted[i]);
    executor->revision++;
}

/* The same, but of those that have frames only from the end of the list to the first that has not
 * come: that is enough to know that the op has to wait. The others take every frame at once, so
 * that it is not counted as room any more. */
static void look_again(struct executor *executor)
{
    uint32_t kept = 0, births = executor->wanted_births;
    if (births > executor->wanted_count) births = executor->wanted_count;
    for (uint32_t i = 0; i < births; i++)
        if (!prepare(executor, executor->wanted[i])) executor->wanted[kept++] = executor->wanted[i];
    executor->wanted_births = kept;
    if (kept < births) executor->revision++;
    for (; births > kept; births--)
        executor->wanted[births - 1] = executor->wanted[--executor->wanted_count];
    while (executor->wanted_count > kept &&
           prepare(executor, executor->wanted[executor->wanted_count - 1])) {
        executor->wanted_count--;
        executor->revision++;
    }
}

/* In place, the op that a block is born for fills it, and later ones are taken to read it; those
 * that write persistent blocks read them as well. */
static void note_use(struct executor *executor, uint32_t index, const struct shape_touch *touch)
{
    struct executor_item *item = &executor->items[index];
    const struct shape_role *role = role_of(executor, index);
    bool in_place = item->state == ITEM_AWAY;
    if (in_place) unqueue_away(executor, index);
    item->last = executor->launched;
    item->use = touch->use + 1;
    if (role->end == SHAPE_NEVER && item->use == role->use_count) {
        item->use = 0;
        item->base += executor->shape->op_count;
    }
    item->next = item->base + shape_use_at(executor->shape, role, item->use);
    if (in_place) {
        bool first = touch->use == 0 && role->end != SHAPE_NEVER;
        bool writes = first || (touch->writes && role->end == SHAPE_NEVER);
        if (!first) executor->in_place_read_bytes[item->refuge] += bytes_of(executor, index);
        if (writes) executor->in_place_write_bytes[item->refuge] += bytes_of(executor, index);
        queue_away(executor, index);
        return;
    }
    if (touch->writes) item->host_copy = false;
    if (is_planned(executor))
        promise(executor, index, executor->plan.away[executor_gap(executor, index)]);
}

bool executor_launch(struct executor *executor)
{
    const struct shape *shape = executor->shape;
    if (executor->buried <= executor->launched) {
        bury(executor);
        gather(executor);
        executor->revision++;
    } else if (executor->looked_at != executor->revision) {
        look_again(executor);
    }
    executor->looked_at = executor->revision;
    if (executor->wanted_count) return false;
    uint32_t at = position(executor, executor->launched);
    const struct shape_op *op = &shape->ops[at];
    memset(executor->in_place_read_bytes, 0, sizeof executor->in_place_read_bytes);
    memset(executor->in_place_write_bytes, 0, sizeof executor->in_place_write_bytes);
    for (uint32_t i = op->first_touch; i < op->first_touch + op->touch_count; i++) {
        const struct shape_touch *touch = &shape->touches[i];
        const struct shape_role *role = &shape->roles[touch->role];
        for (uint32_t k = 0; k < role->chunk_count; k++)
            note_use(executor,
                     item_at(executor, role, role->first_chunk + k, executor->launched, touch->age),
                     touch);
    }
    executor->early[at] = 0;
    executor->births_known = false;
    executor->launched++;
    executor->revision++;
    return true;
}

bool executor_can_run(struct executor *executor)
{
    const struct shape *shape = executor->shape;
    if (executor->done == executor->launched) return false;
    if (executor->items[executor->landing].state == ITEM_LANDING &&
        executor->items[executor->landing].last == executor->done)
        return false;
    const struct shape_op *op = &shape->ops[position(executor, executor->done)];
    for (uint32_t i = op->first_touch; i < op->first_touch + op->touch_count; i++) {
        const struct shape_touch *touch = &shape->touches[i];
        const struct shape_role *role = &shape->roles[touch->role];
        for (uint32_t k = 0; k < role->chunk_count; k++) {
            uint32_t index =
                item_at(executor, role, role->first_chunk + k, executor->done, touch->age);
            if (executor->items[index].state != ITEM_LANDING) continue;
            executor->landing = index;
            return false;
        }
    }
    return true;
}

void executor_op_ended(struct executor *executor)
{
    const struct shape *shape = executor->shape;
    uint64_t ended = executor->done++;
    executor->revision++;
    assert(ended < executor->launched);
    ripen(executor);
    const struct shape_op *op = &shape->ops[position(executor, ended)];
    for (uint32_t i = op->first_touch; i < op->first_touch + op->touch_count; i++) {
        const struct shape_touch *touch = &shape->touches[i];
        const struct shape_role *role = &shape->roles[touch->role];
        for (uint32_t k = 0; k < role->chunk_count; k++) {
            uint32_t index = item_at(executor, role, role->first_chunk + k, ended, touch->age);
            const struct executor_item *item = &executor->items[index];
            if (item->last != ended || item->state != ITEM_HOME) continue;
            if (item->next == executor->launched && !is_doomed(executor, index)) continue;
            queue_idle(executor, index);
            if (is_planned(executor)) queue_planned(executor, index);
        }
    }
}

/* Actions. */

void executor_queued(struct executor *executor, const struct executor_action *action)
{
    assert(action->kind == EXECUTOR_FETCH && executor->items[action->item].state == ITEM_COMING);
    executor->items[action->item].state = ITEM_LANDING;
    executor->revision++;
}

bool executor_copied(struct executor *executor, const struct executor_action *action)
{
    struct executor_item *item = &executor->items[action->item];
    assert(action->kind == EXECUTOR_EVICT);
    executor->revision++;
    if (item->state != ITEM_LEAVING) return false;
    item->host_copy = true;
    item->state = ITEM_UNMAPPING;
    return true;
}

static void end_save(struct executor *executor, const struct executor_action *action)
{
    struct executor_item *item = &executor->items[action->item];
    assert(item->saving);
    item->saving = false;
    if (item->serial != action->serial || item->state != ITEM_HOME || !item->host_frame) return;
    item->host_copy = true;
    if (item->last < executor->done) queue_idle(executor, action->item);
}

static void end_fetch(struct executor *executor, uint32_t index)
{
    struct executor_item *item = &executor->items[index];
    assert(item->state == ITEM_LANDING);
    if (item->dies) {
        item->dies = false;
        item->state = ITEM_EMPTY;
        executor_give_host_frame(executor, index);
        add_dead(executor, chunk_of(executor, index)->slot, executor->launched);
        return;
    }
    item->state = ITEM_HOME;
    if (item->last < executor->done) queue_idle(executor, index);
}

static void end_unmap(struct executor *executor, uint32_t index)
{
    struct executor_item *item = &executor->items[index];
    uint64_t bytes = bytes_of(executor, index);
    assert(item->state == ITEM_UNMAPPING && executor->going_bytes >= bytes);
    executor->going_bytes -= bytes;
    give_room(executor, bytes);
    if (item->dies) {
        item->dies = false;
        item->state = ITEM_EMPTY;
        executor_give_host_frame(executor, index);
        return;
    }
    item->state = ITEM_AWAY;
    item->host_mapped = false;
    queue_away(executor, index);
}

void executor_ended(struct executor *executor, const struct executor_action *action)
{
    assert(executor->flying > 0);
    executor->flying--;
    executor->revision++;
    switch (action->kind) {
    case EXECUTOR_FETCH: end_fetch(executor, action->item); break;
    case EXECUTOR_EVICT:
        if (executor->items[action->item].state != ITEM_UNMAPPING)
            end_save(executor, action);
        else
            end_unmap(executor, action->item);
        break;
    case EXECUTOR_DROP: end_unmap(executor, action->item); break;
    case EXECUTOR_SAVE: end_save(executor, action); break;
    case EXECUTOR_READY:
        executor->slots[action->slot].coming--;
        add_dead(executor, action->slot, executor->done);
        break;
    case EXECUTOR_STRIP: give_room(executor, action->bytes); break;
    case EXECUTOR_HOST:
        executor->items[action->item].hosting = false;
        executor->items[action->item].host_mapped = true;
        break;
    }
}

bool executor_relent(struct executor *executor)
{
    bool changed = false;
    if (executor->flying > 0) return false;
    look_through(executor);
    if (executor->wanted_count == 0) return true;
    uint64_t room = executor_free_bytes(executor);
    for (uint32_t i = 0; i < executor->wanted_count; i++) {
        uint32_t index = executor->wanted[i];
        struct executor_item *item = &executor->items[index];
        if (may_use_in_place(executor, item)) continue;
        if (bytes_of(executor, index) <= room) {
            room -= bytes_of(executor, index);
            continue;
        }
        if (item->state == ITEM_EMPTY && !executor_bear_in_refuge(executor, index)) continue;
        if (!executor->options.refuge[item->refuge].in_place_works) continue;
        unqueue_away(executor, index);
        item->in_place_by = executor->relented = executor->launched + 1;
        executor->revision++;
        changed = true;
    }
    return changed;
}

/* What one item lacks for the op that waits. */
static enum executor_wait item_waits(const struct executor *executor, uint32_t index, uint64_t room)
{
    const struct executor_item *item = &executor->items[index];
    switch ((enum executor_state)item->state) {
    case ITEM_HOME: return item->saving ? EXECUTOR_WAITS_ROOM : EXECUTOR_WAITS_NOT;
    case ITEM_COMING:
    case ITEM_LANDING: return EXECUTOR_WAITS_IN;
    case ITEM_LEAVING:
    case ITEM_UNMAPPING: return EXECUTOR_WAITS_ROOM;
    case ITEM_AWAY:
        if (may_use_in_place(executor, item)) return EXECUTOR_WAITS_MAP;
        return room < bytes_of(executor, index) ? EXECUTOR_WAITS_ROOM : EXECUTOR_WAITS_IN;
    case ITEM_EMPTY: break;
    }
    return room < bytes_of(executor, index) ? EXECUTOR_WAITS_ROOM : EXECUTOR_WAITS_MAP;
}

uint32_t executor_gap(const struct executor *executor, uint32_t item)
{
    uint32_t use = executor->items[item].use, uses = role_of(executor, item)->use_count;
    if (uses == 0) return SHAPE_NEVER;
    return chunk_of(executor, item)->first_gap + (use ? use : uses) - 1;
}

enum executor_wait executor_waits(const struct executor *executor)
{
    uint64_t room = executor_free_bytes(executor) + executor->ready_bytes;
    enum executor_wait most = EXECUTOR_WAITS_NOT;
    for (uint32_t i = 0; i < executor->wanted_count && most < EXECUTOR_WAITS_ROOM; i++) {
        enum executor_wait wait = item_waits(executor, executor->wanted[i], room);
        if (wait > most) most = wait;
    }
    return most;
}

/* Making one. */

void executor_set_busy(struct executor *executor, enum executor_lane lane, uint32_t refuges)
{
    if (executor->busy[lane] & ~refuges) executor->idle_at[lane] = 0;
    executor->busy[lane] = refuges;
}

static bool make_heap(struct heap *heap, uint32_t numbers)
{
    heap->key = malloc((numbers + 1) * sizeof *heap->key);
    heap->order = malloc((numbers + 1) * sizeof *heap->order);
    heap->place = malloc((numbers + 1) * sizeof *heap->place);
    if (!heap->key || !heap->order || !heap->place) return false;
    for (uint32_t i = 0; i < numbers; i++) heap->place[i] = HEAP_NOWHERE;
    return true;
}

static void free_heap(struct heap *heap)
{
    free(heap->key);
    free(heap->order);
    free(heap->place);
}

void executor_destroy(struct executor *executor)
{
    free(executor->items);
    free(executor->slots);
    free(executor->births);
    free(executor->graves);
    free(executor->wanted);
    free(executor->due);
    free(executor->growth);
    free(executor->early);
    for (uint32_t i = 1; i < EXECUTOR_REFUGES; i++) free(executor->away[i].order);
    free_heap(&executor->away[0]);
    free_heap(&executor->idle);
    free_heap(&executor->leaving);
    free_heap(&executor->dropping);
    free_heap(&executor->saving);
    memset(executor, 0, sizeof *executor);
}

static bool make_away(struct executor *executor)
{
    uint32_t items = executor->shape->item_count;
    bool ok = make_heap(&executor->away[0], items);
    for (uint32_t i = 1; ok && i < executor->options.refuges; i++) {
        executor->away[i] = executor->away[0];
        executor->away[i].order = malloc((items + 1) * sizeof *executor->away[i].order);
        ok = executor->away[i].order != NULL;
    }
    return ok;
}

static bool make_arrays(struct executor *executor)
{
    const struct shape *shape = executor->shape;
    size_t items = shape->item_count + 1u, ops = shape->op_count + 1u;
    executor->grave_room = 2 * shape->item_count + 1;
    executor->items = calloc(items, sizeof *executor->items);
    executor->slots = calloc(shape->slot_count + 1u, sizeof *executor->slots);
    executor->births = calloc(items, sizeof *executor->births);
    executor->graves = calloc(executor->grave_room, sizeof *executor->graves);
    executor->wanted = calloc(items, sizeof *executor->wanted);
    executor->due = calloc(ops, sizeof *executor->due);
    executor->growth = calloc(ops, sizeof *executor->growth);
    executor->early = calloc(ops, sizeof *executor->early);
    return executor->items && executor->slots && executor->births && executor->graves &&
           executor->wanted && executor->due && executor->growth && executor->early &&
           make_away(executor) && make_heap(&executor->idle, shape->item_count) &&
           make_heap(&executor->leaving, shape->item_count) &&
           make_heap(&executor->dropping, shape->item_count) &&
           make_heap(&executor->saving, shape->item_count);
}

/* Births by slot, in order; and how much the live bytes grow before each op. */
static void note_births(struct executor *executor)
{
    const struct shape *shape = executor->shape;
    for (uint32_t i = 0; i < shape->chunk_count; i++) {
        const struct shape_chunk *chunk = &shape->chunks[i];
        struct executor_slot *slot = &executor->slots[chunk->slot];
        const struct shape_role *role = &shape->roles[chunk->role];
        slot->bytes = chunk->bytes;
        if (role->end == SHAPE_NEVER) continue;
        slot->birth_count++;
        executor->growth[shape->uses[role->first_use].at % shape->op_count] +=
            (int64_t)chunk->bytes;
        executor->growth[role->end % shape->op_count] -= (int64_t)chunk->bytes;
    }
    uint32_t first = 0;
    for (uint32_t i = 0; i < shape->slot_count; i++) {
        executor->slots[i].first_birth = first;
        first += executor->slots[i].birth_count;
        executor->slots[i].birth_count = 0;
    }
    for (uint32_t i = 0; i < shape->op_count; i++) {
        const struct shape_op *op = &shape->ops[i];
        for (uint32_t k = op->first_touch; k < op->first_touch + op->touch_count; k++) {
            const struct shape_role *role = &shape->roles[shape->touches[k].role];
            if (shape->touches[k].use > 0 || role->end == SHAPE_NEVER) continue;
            for (uint32_t c = 0; c < role->chunk_count; c++) {
                struct executor_slot *slot = &executor->slots[role->slot + c];
                executor->births[slot->first_birth + slot->birth_count++] = i;
            }
        }
    }
}

/* False: it fits nowhere. */
static bool place_item(struct executor *executor, uint32_t index, uint32_t copy)
{
    const struct shape *shape = executor->shape;
    struct executor_item *item = &executor->items[index];
    const struct shape_role *role = role_of(executor, index);
    uint64_t bytes = bytes_of(executor, index), step = executor->launched / shape->op_count;
    if (role->end != SHAPE_NEVER) { /* the oldest block that is still to die */
        step -= role->end / shape->op_count;
        while (step % role->copies != copy) step++;
    }
    item->base = step * shape->op_count;
    item->next = role->use_count ? item->base + shape_use_at(shape, role, 0) : UINT64_MAX;
    if (role->end != SHAPE_NEVER) return true;
    if (executor_free_bytes(executor) >= bytes) {
        item->state = ITEM_HOME;
        take_room(executor, bytes);
        queue_idle(executor, index);
        return true;
    }
    if (!executor_take_host_frame(executor, index)) return false;
    item->state = ITEM_AWAY;
    item->host_copy = true;
    queue_away(executor, index);
    return true;
}

vp_status executor_create(const struct shape *shape, const struct executor_options *options,
                          const struct executor_plan *plan, struct executor *executor)
{
    memset(executor, 0, sizeof *executor);
    executor->shape = shape;
    executor->options = *options;
    if (plan) executor->plan = *plan;
    assert(plan || options->mode != EXECUTOR_PLAN);
    assert(options->refuges > 0 && options->near > 0 && options->near <= options->refuges);
    if (!make_arrays(executor)) {
        executor_destroy(executor);
        return VP_NO_HOST_MEMORY;
    }
    uint32_t copies = 1;
    for (uint32_t i = 0; i < shape->role_count; i++)
        if (shape->roles[i].copies > copies) copies = shape->roles[i].copies;
    executor->launched = executor->done = executor->buried = (copies + 1ull) * shape->op_count;
    executor->blocker = UINT64_MAX;
    executor->revision = 1;
    note_births(executor);
    bool fits = true;
    for (uint32_t i = 0; fits && i < shape->item_count; i++) {
        executor->items[i].chunk = shape->item_chunk[i];
        fits = place_item(executor, i, i - shape->chunks[shape->item_chunk[i]].first_item);
    }
    if (fits) return VP_OK;
    executor_destroy(executor);
    return VP_QUOTA;
}

bool executor_is_valid(const struct executor *executor)
{
    uint64_t used = 0, going = 0, promised = 0, ready = 0, pending = 0,
             away[EXECUTOR_REFUGES] = {0};
    for (uint32_t i = 0; i < executor->shape->item_count; i++) {
        const struct executor_item *item = &executor->items[i];
        uint64_t bytes = bytes_of(executor, i);
        bool goes = item->state == ITEM_LEAVING || item->state == ITEM_UNMAPPING;
        if (item->state != ITEM_EMPTY && item->state != ITEM_AWAY) used += bytes;
        if (goes) going += bytes;
        if (item->promised) promised += bytes;
        if (item->state == ITEM_AWAY && !item->host_copy) return false;
        if (item->host_copy && !item->host_frame) return false;
        if (is_queued_away(executor, i) && item->state != ITEM_AWAY) return false;
        if (heap_has(&executor->idle, i) && item->state != ITEM_HOME) return false;
        if (item->host_frame) away[item->refuge] += bytes;
    }
    for (uint32_t i = 0; i < executor->shape->slot_count; i++) {
        const struct executor_slot *slot = &executor->slots[i];
        if (slot->ready > slot->dead) return false;
        used += slot->dead * slot->bytes;
        for (uint32_t k = 0; k < EXECUTOR_REFUGES; k++) away[k] += slot->host_dead[k] * slot->bytes;
        ready += slot->ready * slot->bytes;
        pending += (slot->dead - slot->ready) * slot->bytes;
    }
    for (uint32_t i = 0; i < EXECUTOR_REFUGES; i++)
        if (away[i] != executor->host_used_bytes[i]) return false;
    return used <= executor->used_bytes && promised == executor->promised_bytes &&
           going == executor->going_bytes && ready == executor->ready_bytes &&
           pending == executor->pending_bytes &&
           executor->used_bytes <= executor->options.capacity_bytes;
}
