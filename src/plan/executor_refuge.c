/* Where items go, and what room there is. */
#include "base/units.h"
#include "plan/executor_inner.h"

void executor_give_host_frame(struct executor *executor, uint32_t index)
{
    struct executor_item *item = &executor->items[index];
    if (item->host_frame) executor->host_used_bytes[item->refuge] -= bytes_of(executor, index);
    item->host_frame = item->host_copy = item->host_mapped = false;
}

static void take_host_frame(struct executor *executor, uint32_t index, uint32_t refuge)
{
    struct executor_item *item = &executor->items[index];
    uint64_t bytes = bytes_of(executor, index);
    assert(!item->host_frame && refuge < executor->options.refuges);
    item->host_frame = true;
    item->refuge = (uint8_t)refuge;
    executor->host_used_bytes[refuge] += bytes;
    executor->sent_ns[refuge] += bytes / KIB * executor->options.refuge[refuge].ns_per_mib / KIB;
}

/* Where something of `bytes` can go whose refuge is not `busy` (bits). Takes no room. */
enum { REFUGES_FULL = EXECUTOR_REFUGES, REFUGES_BUSY };

static uint32_t find_refuge(struct executor *executor, uint64_t bytes, uint32_t busy)
{
    const struct executor_options *options = &executor->options;
    uint64_t *sent_ns = executor->sent_ns;
    uint32_t best = REFUGES_FULL, full = 0;
    for (uint32_t i = 0; i < options->refuges; i++) {
        bool near = i < options->near,
             room = executor->host_used_bytes[i] + bytes <= options->refuge[i].bytes;
        if (!near && best != REFUGES_FULL) break;
        if (near && !room) full |= 1u << i;
        if (!room) continue;
        if (busy >> i & 1)
            best = best == REFUGES_FULL ? REFUGES_BUSY : best;
        else if (best >= REFUGES_FULL || sent_ns[i] < sent_ns[best])
            best = i;
    }
    /* Who was full does not make up for it afterwards. */
    for (uint32_t i = 0; best < REFUGES_FULL && i < options->near; i++)
        if ((full >> i & 1) && sent_ns[i] < sent_ns[best]) sent_ns[i] = sent_ns[best];
    return best;
}

bool executor_take_host_frame(struct executor *executor, uint32_t index)
{
    uint32_t refuge = find_refuge(executor, bytes_of(executor, index), 0);
    if (refuge >= EXECUTOR_REFUGES) return false;
    take_host_frame(executor, index, refuge);
    return true;
}

/* Frees frames in refuges that hold copies of what is at home, until a chunk of `bytes` fits. */
static uint32_t find_refuge_by_force(struct executor *executor, uint64_t bytes, uint32_t busy)
{
    uint32_t refuge = REFUGES_FULL;
    for (uint32_t i = 0; i < executor->shape->item_count && refuge == REFUGES_FULL; i++) {
        struct executor_item *other = &executor->items[i];
        if (other->state != ITEM_HOME || !other->host_frame || other->saving) continue;
        executor_give_host_frame(executor, i);
        if (heap_has(&executor->dropping, i)) {
            heap_set(&executor->leaving, i, executor->dropping.key[i]);
            heap_remove(&executor->dropping, i);
        }
        refuge = find_refuge(executor, bytes, busy);
    }
    return refuge;
}

bool executor_renew_host_frame(struct executor *executor, uint32_t index)
{
    uint64_t bytes = bytes_of(executor, index);
    uint32_t busy = executor->busy[EXECUTOR_OUT];
    assert(!executor->items[index].host_copy);
    executor_give_host_frame(executor, index);
    uint32_t refuge = find_refuge(executor, bytes, busy);
    if (refuge == REFUGES_FULL) refuge = find_refuge_by_force(executor, bytes, busy);
    if (refuge >= EXECUTOR_REFUGES) return false;
    take_host_frame(executor, index, refuge);
    return true;
}

/* A mapped frame of a dead chunk of the slot, in any refuge; EXECUTOR_REFUGES: there is none. */
static uint32_t take_host_dead(struct executor_slot *slot)
{
    for (uint32_t i = 0; i < EXECUTOR_REFUGES; i++) {
        if (slot->host_dead[i] == 0) continue;
        slot->host_dead[i]--;
        return i;
    }
    return EXECUTOR_REFUGES;
}

static uint32_t no_in_place(const struct executor *executor)
{
    uint32_t refuges = 0;
    for (uint32_t i = 0; i < executor->options.refuges; i++)
        if (!executor->options.refuge[i].in_place_works) refuges |= 1u << i;
    return refuges;
}

bool executor_can_bear_in_refuge(struct executor *executor, uint32_t index)
{
    return find_refuge(executor, bytes_of(executor, index), no_in_place(executor)) <
           EXECUTOR_REFUGES;
}

bool executor_bear_in_refuge(struct executor *executor, uint32_t index)
{
    struct executor_item *item = &executor->items[index];
    uint32_t refuge = take_host_dead(&executor->slots[chunk_of(executor, index)->slot]);
    item->host_mapped = refuge < EXECUTOR_REFUGES;
    if (item->host_mapped) {
        item->host_frame = true;
        item->refuge = (uint8_t)refuge;
    } else {
        refuge = find_refuge(executor, bytes_of(executor, index), no_in_place(executor));
        if (refuge >= EXECUTOR_REFUGES) return false;
        take_host_frame(executor, index, refuge);
    }
    item->state = ITEM_AWAY;
    item->host_copy = true;
    item->in_place_by = executor->launched + 1;
    return true;
}
