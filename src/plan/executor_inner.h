/* What the parts of the executor share: executor.c keeps the states, executor_next.c decides what
 * is next, executor_refuge.c where it goes. */
#ifndef PLAN_EXECUTOR_INNER_H
#define PLAN_EXECUTOR_INNER_H

#include "plan/executor.h"

static inline const struct shape_chunk *chunk_of(const struct executor *executor, uint32_t item)
{
    return &executor->shape->chunks[executor->items[item].chunk];
}

static inline const struct shape_role *role_of(const struct executor *executor, uint32_t item)
{
    return &executor->shape->roles[chunk_of(executor, item)->role];
}

static inline uint64_t bytes_of(const struct executor *executor, uint32_t item)
{
    return chunk_of(executor, item)->bytes;
}

static inline uint32_t position(const struct executor *executor, uint64_t op)
{
    return (uint32_t)(op % executor->shape->op_count);
}

/* The item of a touch or death by op `op` on chunk `chunk`. */
static inline uint32_t item_at(const struct executor *executor, const struct shape_role *role,
                               uint32_t chunk, uint64_t op, uint32_t age)
{
    uint64_t step = op / executor->shape->op_count - age;
    return executor->shape->chunks[chunk].first_item + (uint32_t)(step % role->copies);
}

/* Nobody will touch it again before it dies. */
static inline bool is_doomed(const struct executor *executor, uint32_t item)
{
    const struct shape_role *role = role_of(executor, item);
    return role->end != SHAPE_NEVER && executor->items[item].use == role->use_count;
}

static inline bool is_planned(const struct executor *executor)
{
    return executor->options.mode == EXECUTOR_PLAN;
}

/* PLAN and EAGER look ahead; the others act when an op waits. */
static inline bool looks_ahead(const struct executor *executor)
{
    return executor->options.mode == EXECUTOR_PLAN || executor->options.mode == EXECUTOR_EAGER;
}

/* The item is AWAY and will be used. */
static inline bool is_queued_away(const struct executor *executor, uint32_t index)
{
    return heap_has(&executor->away[0], index);
}

/* executor_refuge.c. A frame for the item in a refuge; false: there is no room. Renew: for what
 * will be copied there, over a link that is not busy; what it has there is given up, and if need be
 * what others have that are at home. */
bool executor_take_host_frame(struct executor *executor, uint32_t index);
bool executor_renew_host_frame(struct executor *executor, uint32_t index);
void executor_give_host_frame(struct executor *executor, uint32_t index);

/* A block comes into being where there is no room for it at home: it will live in a refuge, in
 * place. */
bool executor_bear_in_refuge(struct executor *executor, uint32_t index);
bool executor_can_bear_in_refuge(struct executor *executor, uint32_t index);

/* Notes whether the item will leave by itself. */
static inline void promise(struct executor *executor, uint32_t index, bool leaves)
{
    struct executor_item *item = &executor->items[index];
    if (item->promised && !leaves) executor->promised_bytes -= bytes_of(executor, index);
    if (leaves && !item->promised) executor->promised_bytes += bytes_of(executor, index);
    item->promised = leaves;
}

/* Takes the item out of all queues. */
static inline void unqueue(struct executor *executor, uint32_t index)
{
    heap_remove(&executor->idle, index);
    heap_remove(&executor->leaving, index);
    heap_remove(&executor->dropping, index);
    heap_remove(&executor->saving, index);
}

#endif
