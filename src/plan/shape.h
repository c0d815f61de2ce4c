/* shape: a step as the planner works on it: roles cut into chunks, and when each is used.
 *
 * Time is counted in ops. `at` counts from the start of the step in which a block was born, and
 * goes beyond the step's op count when the block lives into the next step. A role's uses are in
 * order; gap g of a role lies between its use g and the next one. A persistent role's last gap
 * leads to its first use in the next step; the last gap of any other leads to its death.
 *
 * Several blocks of one role may live at once, each is an item per chunk then: the one born in step
 * s is number s mod copies. Roles that no op touches and that are not persistent are left out. */
#ifndef PLAN_SHAPE_H
#define PLAN_SHAPE_H

#include "trace/step.h"

struct shape_use {
    uint32_t at;
    bool writes; /* or may */
};

struct shape_role {
    uint64_t bytes;
    uint32_t born, end; /* positions; end is SHAPE_NEVER for persistent roles */
    uint32_t first_chunk, chunk_count;
    uint32_t first_use, use_count;
    uint32_t copies;
    uint32_t slot; /* of its first chunk; the others follow */
};

struct shape_chunk {
    uint32_t role;
    uint32_t slot;       /* chunks of equal slots can take over each other's address and frame */
    uint32_t first_item; /* copies of them */
    uint32_t first_gap;  /* its flags in the choice of gaps; use_count of them */
    uint64_t bytes;      /* of its frame */
};

struct shape_touch {
    uint32_t role, age;
    uint32_t use; /* which of the role's uses this is */
    bool writes;
};

struct shape_death {
    uint32_t role, age;
};

struct shape_op {
    uint64_t start_ns, duration_ns; /* within the step, everything in HBM */
    uint32_t first_touch, touch_count;
    uint32_t first_death, death_count; /* before this op, in order */
};

#define SHAPE_NEVER UINT32_MAX

struct shape {
    struct shape_role *roles;
    struct shape_chunk *chunks;
    struct shape_use *uses;
    struct shape_touch *touches;
    struct shape_death *deaths;
    struct shape_op *ops; /* one more at the end, for the step's length */
    uint32_t *item_chunk; /* of each item */
    uint32_t role_count, chunk_count, use_count, touch_count, death_count, op_count;
    uint32_t item_count, gap_count, slot_count;
    uint64_t peak_bytes;      /* of live blocks, as asked for */
    uint64_t peak_held_bytes; /* of frames that these need, each block its own */
    uint64_t chunk_bytes;     /* of whole chunks */
};

/* Cuts the step's blocks in chunks of chunk_bytes, frames of multiples of granularity_bytes; blocks
 * below half of that share frames with others and count as they are. VP_QUOTA: more than 4 million
 * chunks (logged); VP_NO_HOST_MEMORY. */
vp_status shape_create(const struct step *step, uint64_t chunk_bytes, uint64_t granularity_bytes,
                       struct shape *shape) VP_MUST_USE;
void shape_destroy(struct shape *shape);

/* The op position of use `use` of the role, or where the gap after the last one ends: for
 * persistent roles the first use of the next step, for others their end. */
static inline uint64_t shape_use_at(const struct shape *shape, const struct shape_role *role,
                                    uint32_t use)
{
    if (use < role->use_count) return shape->uses[role->first_use + use].at;
    if (role->end != SHAPE_NEVER) return role->end;
    return role->use_count ? (uint64_t)shape->uses[role->first_use].at + shape->op_count
                           : UINT64_MAX;
}

/* For debug builds and tests. */
bool shape_is_valid(const struct shape *shape);

#endif
