/* What the two halves of the executor share: executor.c keeps the states, executor_next.c decides.
 */
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

/* Takes the item out of all queues. */
static inline void unqueue(struct executor *executor, uint32_t index)
{
    heap_remove(&executor->idle, index);
    heap_remove(&executor->leaving, index);
    heap_remove(&executor->dropping, index);
    heap_remove(&executor->saving, index);
}

#endif
