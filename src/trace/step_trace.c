/* The step that a trace repeats.
 *
 * Cuts between steps are low points of live memory, one between each two occurrences of a marking
 * op. Blocks that cross a cut get the role of the block that is born at the same place of the last
 * step; those for which there is none are taken to be born at its start, or to die at its end. */
#include "trace/step.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/units.h"

enum { PAGE_BYTES = 2 * 1024 * 1024, MARKS_MIN = 3, MARKS_MAX = 64 };
#define IDLE_NS (NS_PER_MS / 10)

struct maker {
    const struct trace *trace;
    uint32_t cuts[MARKS_MAX]; /* events before each cut */
    uint32_t cut_count;
    uint32_t first, end;   /* events of the step: [first, end) */
    uint32_t first_op;     /* ops before it */
    uint32_t *born_event;  /* of each block: its alloc, */
    uint32_t *died_event;  /* and its free; STEP_NEVER: none */
    uint32_t *role_of;     /* of each block: STEP_NEVER where it has none */
    uint16_t *age_of;      /* steps before the last one in which it was born */
    uint64_t *duration_ns; /* of each op: what it adds */
    struct step *step;
};

/* Marks: the name that comes three to 64 times, most rarely, last at even distances; of several the
 * one that comes first. */

struct name_use {
    uint32_t count, first, last[MARKS_MIN]; /* as events; last[0] is the latest */
};

static bool is_even(const struct name_use *use)
{
    uint64_t near = use->last[0] - use->last[1], far = use->last[1] - use->last[2];
    uint64_t apart = near > far ? near - far : far - near;
    return 50 * apart < near + far;
}

static bool find_mark(const struct trace *trace, uint32_t *name)
{
    struct name_use *uses = calloc(trace->name_count ? trace->name_count : 1, sizeof *uses);
    bool found = false;
    if (!uses) return false;
    for (uint32_t i = 0; i < trace->event_count; i++) {
        if (trace->events[i].kind != TRACE_OP) continue;
        struct name_use *use = &uses[trace->ops[trace->events[i].index].name];
        if (use->count++ == 0) use->first = i;
        use->last[2] = use->last[1];
        use->last[1] = use->last[0];
        use->last[0] = i;
    }
    for (uint32_t i = 0; i < trace->name_count; i++) {
        const struct name_use *use = &uses[i], *best = &uses[*name];
        if (use->count < MARKS_MIN || use->count > MARKS_MAX || !is_even(use)) continue;
        if (found &&
            (use->count > best->count || (use->count == best->count && use->first > best->first)))
            continue;
        *name = i;
        found = true;
    }
    free(uses);
    return found;
}

static void find_cuts(struct maker *maker, uint32_t mark)
{
    const struct trace *trace = maker->trace;
    int64_t live = 0, low = INT64_MAX;
    uint32_t low_at = 0;
    for (uint32_t i = 0; i < trace->event_count; i++) {
        const struct trace_event *event = &trace->events[i];
        if (event->kind == TRACE_OP && trace->ops[event->index].name == mark) {
            maker->cuts[maker->cut_count++] = low_at;
            low = INT64_MAX;
            low_at = i;
            continue;
        }
        if (event->kind != TRACE_OP) {
            int64_t bytes = (int64_t)units_round_up(trace->blocks[event->index].bytes, PAGE_BYTES);
            live += event->kind == TRACE_ALLOC ? bytes : -bytes;
        }
        if (live > low) continue;
        low = live;
        low_at = i + 1;
    }
}

/* Durations: every stream's ops end one after the other; what an op adds is how far it moves the
 * latest end of all. A stream's first op is taken to start when the ops before it have ended. */
static bool add_durations(struct maker *maker)
{
    const struct trace *trace = maker->trace;
    uint64_t *ends = malloc((trace->stream_count + 1) * sizeof *ends), latest = 0;
    if (!ends) return false;
    for (uint32_t i = 0; i < trace->stream_count; i++) ends[i] = UINT64_MAX;
    for (uint32_t i = 0; i < trace->op_count; i++) {
        const struct trace_op *op = &trace->ops[i];
        uint64_t *end = &ends[op->stream];
        if (*end == UINT64_MAX) *end = latest;
        *end += op->duration_ns;
        maker->duration_ns[i] = *end > latest ? *end - latest : 0;
        if (*end > latest) latest = *end;
    }
    free(ends);
    return true;
}

static void note_lives(struct maker *maker)
{
    const struct trace *trace = maker->trace;
    for (uint32_t i = 0; i < trace->block_count; i++) {
        maker->role_of[i] = STEP_NEVER;
        maker->died_event[i] = STEP_NEVER;
    }
    for (uint32_t i = 0; i < trace->event_count; i++) {
        const struct trace_event *event = &trace->events[i];
        if (event->kind == TRACE_ALLOC) maker->born_event[event->index] = i;
        if (event->kind == TRACE_FREE) maker->died_event[event->index] = i;
        if (event->kind == TRACE_OP && i < maker->first) maker->first_op++;
    }
}

static uint32_t add_role(struct maker *maker, uint32_t block)
{
    struct step *step = maker->step;
    uint32_t role = step->role_count++;
    step->roles[role] =
        (struct step_role){maker->trace->blocks[block].bytes, STEP_NEVER, STEP_NEVER, 0};
    maker->role_of[block] = role;
    return role;
}

static bool is_born_inside(const struct maker *maker, uint32_t block)
{
    return maker->born_event[block] >= maker->first && maker->born_event[block] < maker->end;
}

static bool dies_inside(const struct maker *maker, uint32_t block)
{
    return maker->died_event[block] >= maker->first && maker->died_event[block] < maker->end;
}

/* The block that is born in the last step where `block` is born in an earlier one, if both steps
 * look alike; STEP_NEVER: none. *age is how many steps lie between. */
static uint32_t find_successor(const struct maker *maker, uint32_t block, uint32_t *age)
{
    uint32_t born = maker->born_event[block], length = maker->end - maker->first;
    for (uint32_t i = maker->cut_count - 1; i-- > 0;) {
        uint32_t start = maker->cuts[i];
        if (maker->cuts[i + 1] - start != length) return STEP_NEVER;
        if (born < start) continue;
        const struct trace_event *event = &maker->trace->events[maker->first + born - start];
        *age = maker->cut_count - 2 - i;
        if (event->kind != TRACE_ALLOC || *age == 0) return STEP_NEVER;
        bool alike = maker->trace->blocks[event->index].bytes == maker->trace->blocks[block].bytes;
        return alike && !dies_inside(maker, event->index) ? event->index : STEP_NEVER;
    }
    return STEP_NEVER;
}

/* Blocks alive at the start of the step: those that die in it first, as they tell the age of their
 * roles. */
static void name_carried(struct maker *maker, bool dying)
{
    struct step *step = maker->step;
    for (uint32_t block = 0; block < maker->trace->block_count; block++) {
        if (maker->born_event[block] >= maker->first) continue;
        if (maker->died_event[block] < maker->first || dies_inside(maker, block) != dying) continue;
        uint32_t age = 0, successor = STEP_NEVER;
        if (maker->cut_count >= 2) successor = find_successor(maker, block, &age);
        struct step_role *role =
            successor == STEP_NEVER ? NULL : &step->roles[maker->role_of[successor]];
        bool known = role && (dying ? age > role->age : age < role->age) && age <= UINT16_MAX;
        if (!known) {
            add_role(maker, block);
            continue;
        }
        if (dying) role->age = age; /* of several the oldest: the others are cut short */
        maker->role_of[block] = maker->role_of[successor];
        maker->age_of[block] = (uint16_t)age;
    }
}

static void name_blocks(struct maker *maker)
{
    for (uint32_t block = 0; block < maker->trace->block_count; block++)
        if (is_born_inside(maker, block)) add_role(maker, block);
    name_carried(maker, true);
    name_carried(maker, false);
}

static void add_event(struct step *step, enum trace_event_kind kind, uint32_t index, uint32_t age)
{
    step->events[step->event_count++] = (struct step_event){kind, index, age};
}

static void add_alloc(struct step *step, uint32_t role)
{
    step->roles[role].born_op = step->op_count;
    add_event(step, TRACE_ALLOC, role, 0);
}

static void add_free(struct step *step, uint32_t role)
{
    step->roles[role].died_op = step->op_count;
    add_event(step, TRACE_FREE, role, step->roles[role].age);
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    return (hash ^ value) * UINT64_C(0x100000001B3);
}

uint64_t step_key(enum trace_kind kind, const char *name)
{
    uint64_t key = mix(UINT64_C(0xCBF29CE484222325), kind);
    for (const char *c = name; *c; c++) key = mix(key, (unsigned char)*c);
    return key;
}

static void add_op(struct maker *maker, uint32_t index)
{
    const struct trace *trace = maker->trace;
    const struct trace_op *from = &trace->ops[index];
    struct step *step = maker->step;
    struct step_op *op = &step->ops[step->op_count];
    *op = (struct step_op){.key = step_key(from->kind, trace->names[from->name]),
                           .duration_ns = maker->duration_ns[index],
                           .first_touch = step->touch_count,
                           .stream = from->stream,
                           .kind = from->kind};
    for (uint32_t i = 0; i < from->touch_count; i++) {
        uint32_t block = trace->touches[from->first_touch + i];
        op->key = mix(op->key, trace->blocks[block].bytes);
        step->touches[step->touch_count++] =
            (struct step_touch){maker->role_of[block], maker->age_of[block], STEP_UNKNOWN};
    }
    op->touch_count = step->touch_count - op->first_touch;
    if (step->op_count == 0 && maker->first_op > 0 && op->duration_ns > IDLE_NS)
        op->duration_ns = IDLE_NS;
    add_event(step, TRACE_OP, step->op_count++, 0);
}

/* A carried block without a successor lives from the start of the step to its free. */
static void add_events(struct maker *maker)
{
    const struct trace *trace = maker->trace;
    struct step *step = maker->step;
    for (uint32_t block = 0; block < trace->block_count; block++) {
        bool carried = maker->born_event[block] < maker->first && dies_inside(maker, block);
        if (carried && maker->age_of[block] == 0) add_alloc(step, maker->role_of[block]);
    }
    for (uint32_t i = maker->first; i < maker->end; i++) {
        uint32_t index = trace->events[i].index;
        switch (trace->events[i].kind) {
        case TRACE_ALLOC: add_alloc(step, maker->role_of[index]); break;
        case TRACE_FREE:
            if (maker->age_of[index] == step->roles[maker->role_of[index]].age)
                add_free(step, maker->role_of[index]);
            break;
        case TRACE_OP: add_op(maker, index); break;
        }
    }
    for (uint32_t role = 0; role < step->role_count; role++)
        if (step->roles[role].born_op != STEP_NEVER && step->roles[role].died_op == STEP_NEVER)
            add_free(step, role);
}

/* What ops write, guessed for persistent blocks. */

static bool is_update(const struct step *step, uint32_t op_index, const uint32_t *first_use)
{
    const struct step_op *op = &step->ops[op_index];
    if (op->kind == TRACE_COPY || op->kind == TRACE_MEMSET) return true;
    const struct step_touch *touches = &step->touches[op->first_touch];
    for (uint32_t i = 0; i < op->touch_count; i++) {
        const struct step_role *one = &step->roles[touches[i].role];
        if (one->born_op != STEP_NEVER) continue;
        for (uint32_t k = 0; k < op->touch_count; k++) {
            const struct step_role *other = &step->roles[touches[k].role];
            bool given = other->born_op == STEP_NEVER || touches[k].age > 0 ||
                         first_use[touches[k].role] < op_index;
            if (k != i && given && other->bytes == one->bytes) return true;
        }
    }
    return false;
}

bool step_guess_access(struct step *step)
{
    uint32_t *first_use = malloc((step->role_count + 1) * sizeof *first_use);
    if (!first_use) return false;
    for (uint32_t i = 0; i < step->role_count; i++) first_use[i] = STEP_NEVER;
    for (uint32_t i = 0; i < step->op_count; i++) {
        const struct step_op *op = &step->ops[i];
        bool update = is_update(step, i, first_use);
        for (uint32_t k = op->first_touch; k < op->first_touch + op->touch_count; k++) {
            struct step_touch *touch = &step->touches[k];
            if (first_use[touch->role] == STEP_NEVER) first_use[touch->role] = i;
            if (step->roles[touch->role].born_op == STEP_NEVER)
                touch->access = update ? STEP_WRITES : STEP_READS;
        }
    }
    free(first_use);
    return true;
}

static bool make_room(struct maker *maker)
{
    const struct trace *trace = maker->trace;
    size_t blocks = trace->block_count + 1u, ops = trace->op_count + 1u;
    struct step *step = maker->step;
    maker->born_event = malloc(blocks * sizeof *maker->born_event);
    maker->died_event = malloc(blocks * sizeof *maker->died_event);
    maker->role_of = malloc(blocks * sizeof *maker->role_of);
    maker->age_of = calloc(blocks, sizeof *maker->age_of);
    maker->duration_ns = malloc(ops * sizeof *maker->duration_ns);
    step->events = malloc((trace->event_count + 2 * blocks) * sizeof *step->events);
    step->ops = malloc(ops * sizeof *step->ops);
    step->touches = malloc((trace->touch_count + 1u) * sizeof *step->touches);
    step->roles = malloc(blocks * sizeof *step->roles);
    return maker->born_event && maker->died_event && maker->role_of && maker->age_of &&
           maker->duration_ns && step->events && step->ops && step->touches && step->roles;
}

vp_status step_from_trace(const struct trace *trace, struct step *step, bool *repeats)
{
    struct step made = {0};
    struct maker maker = {.trace = trace, .end = trace->event_count, .step = &made};
    uint32_t mark = 0;
    if (trace->op_count == 0) {
        log_error("the trace has no op: there is no step to find in it");
        return VP_INVALID;
    }
    if (find_mark(trace, &mark)) {
        find_cuts(&maker, mark);
        maker.first = maker.cuts[maker.cut_count - 2];
        maker.end = maker.cuts[maker.cut_count - 1];
    }
    bool ok = make_room(&maker) && add_durations(&maker);
    if (ok) {
        note_lives(&maker);
        name_blocks(&maker);
        add_events(&maker);
        ok = step_guess_access(&made);
    }
    free(maker.born_event);
    free(maker.died_event);
    free(maker.role_of);
    free(maker.age_of);
    free(maker.duration_ns);
    if (!ok) {
        log_error("no memory for the step of a trace of %u events", trace->event_count);
        step_release(&made);
        return VP_NO_HOST_MEMORY;
    }
    assert(step_is_valid(&made));
    if (repeats) *repeats = maker.cut_count > 0;
    *step = made;
    return VP_OK;
}
