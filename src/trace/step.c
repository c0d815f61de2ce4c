#include "trace/step.h"

#include <stdlib.h>
#include <string.h>

void step_release(struct step *step)
{
    free(step->events);
    free(step->ops);
    free(step->touches);
    free(step->roles);
    memset(step, 0, sizeof *step);
}

uint64_t step_duration_ns(const struct step *step)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < step->op_count; i++) sum += step->ops[i].duration_ns;
    return sum;
}

/* Where the free of a role stands, as ops after the start of the step of its birth. */
static uint64_t end_of(const struct step *step, const struct step_role *role)
{
    return (uint64_t)role->age * step->op_count + role->died_op;
}

static bool touches_are_valid(const struct step *step, uint32_t op_index)
{
    const struct step_op *op = &step->ops[op_index];
    if (op->first_touch > step->touch_count ||
        op->touch_count > step->touch_count - op->first_touch)
        return false;
    for (uint32_t i = 0; i < op->touch_count; i++) {
        const struct step_touch *touch = &step->touches[op->first_touch + i];
        if (touch->role >= step->role_count) return false;
        const struct step_role *role = &step->roles[touch->role];
        uint64_t at = (uint64_t)touch->age * step->op_count + op_index;
        if (role->born_op == STEP_NEVER) {
            if (touch->age != 0) return false;
        } else if (at < role->born_op || at >= end_of(step, role)) {
            return false;
        }
    }
    return true;
}

static bool event_is_valid(const struct step *step, const struct step_event *event, uint32_t ops)
{
    if (event->kind == TRACE_OP)
        return event->index == ops && ops < step->op_count && touches_are_valid(step, ops);
    if (event->index >= step->role_count) return false;
    const struct step_role *role = &step->roles[event->index];
    if (event->kind == TRACE_ALLOC) return role->born_op == ops;
    return role->born_op != STEP_NEVER && role->died_op == ops && event->age == role->age;
}

bool step_is_valid(const struct step *step)
{
    uint32_t ops = 0, allocs = 0, frees = 0, passing = 0;
    for (uint32_t i = 0; i < step->event_count; i++) {
        const struct step_event *event = &step->events[i];
        if (!event_is_valid(step, event, ops)) return false;
        ops += event->kind == TRACE_OP;
        allocs += event->kind == TRACE_ALLOC;
        frees += event->kind == TRACE_FREE;
    }
    for (uint32_t i = 0; i < step->role_count; i++) {
        const struct step_role *role = &step->roles[i];
        bool persistent = role->born_op == STEP_NEVER;
        if (persistent != (role->died_op == STEP_NEVER)) return false;
        if (!persistent && end_of(step, role) < role->born_op) return false;
        passing += !persistent;
    }
    return ops == step->op_count && allocs == passing && frees == passing;
}
