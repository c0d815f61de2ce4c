/* Steps for the planner's tests: made by hand, event by event, or at random. */
#ifndef TESTS_UNIT_PLAN_STEPS_H
#define TESTS_UNIT_PLAN_STEPS_H

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "base/random.h"
#include "base/units.h"
#include "trace/step.h"

enum { STEP_EVENTS = 2048, STEP_OPS = 512, STEP_TOUCHES = 2048, STEP_ROLES = 512 };

struct step_maker {
    struct step step;
    struct step_event events[STEP_EVENTS];
    struct step_op ops[STEP_OPS];
    struct step_touch touches[STEP_TOUCHES];
    struct step_role roles[STEP_ROLES];
};

static inline void step_begin(struct step_maker *maker)
{
    memset(maker, 0, sizeof *maker);
    maker->step.events = maker->events;
    maker->step.ops = maker->ops;
    maker->step.touches = maker->touches;
    maker->step.roles = maker->roles;
}

static inline void step_add_event(struct step_maker *maker, enum trace_event_kind kind,
                                  uint32_t index, uint32_t age)
{
    assert(maker->step.event_count < STEP_EVENTS);
    maker->events[maker->step.event_count++] = (struct step_event){kind, index, age};
}

static inline uint32_t step_add_role(struct step_maker *maker, uint64_t bytes)
{
    assert(maker->step.role_count < STEP_ROLES);
    maker->roles[maker->step.role_count] = (struct step_role){bytes, STEP_NEVER, STEP_NEVER, 0};
    return maker->step.role_count++;
}

static inline uint32_t step_alloc(struct step_maker *maker, uint64_t bytes)
{
    uint32_t role = step_add_role(maker, bytes);
    maker->roles[role].born_op = maker->step.op_count;
    step_add_event(maker, TRACE_ALLOC, role, 0);
    return role;
}

static inline void step_free(struct step_maker *maker, uint32_t role, uint32_t age)
{
    maker->roles[role].died_op = maker->step.op_count;
    maker->roles[role].age = age;
    step_add_event(maker, TRACE_FREE, role, age);
}

static inline void step_op(struct step_maker *maker, uint64_t duration_ns)
{
    assert(maker->step.op_count < STEP_OPS);
    maker->ops[maker->step.op_count] =
        (struct step_op){.duration_ns = duration_ns, .first_touch = maker->step.touch_count};
    step_add_event(maker, TRACE_OP, maker->step.op_count++, 0);
}

/* The last op touches the role, each at most once. */
static inline void step_touch(struct step_maker *maker, uint32_t role, uint16_t age,
                              enum step_access access)
{
    struct step_op *op = &maker->ops[maker->step.op_count - 1];
    for (uint32_t i = op->first_touch; i < maker->step.touch_count; i++)
        if (maker->touches[i].role == role) return;
    assert(maker->step.touch_count < STEP_TOUCHES);
    maker->touches[maker->step.touch_count++] = (struct step_touch){role, age, (uint16_t)access};
    op->touch_count++;
}

static inline uint64_t step_random_bytes(struct random *random)
{
    static const uint64_t sizes[] = {4096, 300000, 2 * MIB, 6 * MIB, 9 * MIB + 5, 20 * MIB};
    return sizes[random_below(random, sizeof sizes / sizeof *sizes)];
}

/* A step of about `ops` ops; some blocks live into the next step. */
static inline void step_make_random(struct step_maker *maker, struct random *random, uint32_t ops)
{
    uint32_t live[64], live_count = 0, carried = STEP_NEVER;
    step_begin(maker);
    uint32_t persistent = 1 + (uint32_t)random_below(random, 20);
    for (uint32_t i = 0; i < persistent; i++) step_add_role(maker, step_random_bytes(random));
    if (random_below(random, 2)) { /* allocated in one step, freed early in the next */
        carried = step_add_role(maker, step_random_bytes(random));
        maker->roles[carried].age = 1;
    }
    for (uint32_t i = 0; i < ops; i++) {
        while (live_count < 60 && random_below(random, 3))
            live[live_count++] = step_alloc(maker, step_random_bytes(random));
        if (carried != STEP_NEVER && i == 1) step_free(maker, carried, 1);
        if (carried != STEP_NEVER && i == ops / 2) {
            maker->roles[carried].born_op = i;
            step_add_event(maker, TRACE_ALLOC, carried, 0);
        }
        step_op(maker, random_below(random, 200000));
        for (uint64_t k = random_below(random, 3); k-- > 0;)
            step_touch(maker, (uint32_t)random_below(random, persistent), 0,
                       (enum step_access)random_below(random, 3));
        for (uint64_t k = random_below(random, 4); live_count && k-- > 0;)
            step_touch(maker, live[random_below(random, live_count)], 0, STEP_UNKNOWN);
        if (carried != STEP_NEVER && i == 0) step_touch(maker, carried, 1, STEP_READS);
        if (carried != STEP_NEVER && i == ops / 2) step_touch(maker, carried, 0, STEP_WRITES);
        while (live_count && random_below(random, 3)) {
            uint64_t which = random_below(random, live_count);
            step_free(maker, live[which], 0);
            live[which] = live[--live_count];
        }
    }
    while (live_count) step_free(maker, live[--live_count], 0);
    assert(step_is_valid(&maker->step));
}

#endif
