#include "plan/shape.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/units.h"

enum { SMALL_ALIGN = 512, MOST_ITEMS = 1 << 22 };

void shape_destroy(struct shape *shape)
{
    free(shape->roles);
    free(shape->chunks);
    free(shape->uses);
    free(shape->touches);
    free(shape->deaths);
    free(shape->ops);
    free(shape->item_chunk);
    memset(shape, 0, sizeof *shape);
}

static uint32_t chunks_of(uint64_t bytes, uint64_t chunk_bytes)
{
    return bytes ? (uint32_t)units_div_up(bytes, chunk_bytes) : 1;
}

/* The frame behind chunk `index` of a block. */
static uint64_t frame_bytes(const struct shape *shape, uint64_t block_bytes, uint32_t index,
                            uint64_t granularity)
{
    if (block_bytes < granularity / 2) return units_round_up(block_bytes + 1, SMALL_ALIGN);
    uint64_t left = block_bytes - index * shape->chunk_bytes;
    return left < shape->chunk_bytes ? units_round_up(left, granularity) : shape->chunk_bytes;
}

static void count_uses(const struct step *step, struct shape *shape, uint32_t *new_role)
{
    for (uint32_t i = 0; i < step->role_count; i++) new_role[i] = 0;
    for (uint32_t i = 0; i < step->touch_count; i++) new_role[step->touches[i].role]++;
    shape->role_count = 0;
    for (uint32_t i = 0; i < step->role_count; i++) {
        const struct step_role *from = &step->roles[i];
        uint32_t uses = new_role[i];
        new_role[i] = STEP_NEVER;
        if (uses == 0 && from->born_op != STEP_NEVER) continue;
        struct shape_role *role = &shape->roles[shape->role_count];
        *role = (struct shape_role){
            .bytes = from->bytes, .end = SHAPE_NEVER, .copies = 1, .use_count = uses};
        if (from->born_op != STEP_NEVER) {
            role->born = from->born_op;
            role->end = from->died_op + from->age * step->op_count;
            role->copies = (role->end - 1) / step->op_count + 1;
        }
        new_role[i] = shape->role_count++;
    }
}

/* Roles of equal bytes have equal slots. */
struct sized {
    uint64_t bytes;
    uint32_t role;
};

static int by_bytes(const void *a, const void *b)
{
    const struct sized *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
    return x->role < y->role ? -1 : 1;
}

static bool number_slots(struct shape *shape)
{
    struct sized *sorted = malloc((shape->role_count + 1) * sizeof *sorted);
    if (!sorted) return false;
    for (uint32_t i = 0; i < shape->role_count; i++)
        sorted[i] = (struct sized){shape->roles[i].bytes, i};
    qsort(sorted, shape->role_count, sizeof *sorted, by_bytes);
    for (uint32_t i = 0; i < shape->role_count; i++) {
        struct shape_role *role = &shape->roles[sorted[i].role];
        if (i > 0 && sorted[i].bytes == sorted[i - 1].bytes) {
            role->slot = shape->roles[sorted[i - 1].role].slot;
            continue;
        }
        role->slot = shape->slot_count;
        shape->slot_count += chunks_of(role->bytes, shape->chunk_bytes);
    }
    free(sorted);
    return true;
}

/* Whether the step's blocks, all that may live at once, make few enough chunks to work on. */
static bool is_small_enough(const struct step *step, uint64_t chunk_bytes)
{
    uint64_t items = 0;
    for (uint32_t i = 0; i < step->role_count; i++)
        items += (step->roles[i].bytes / chunk_bytes + 1) * (step->roles[i].age + 1ull);
    return items <= MOST_ITEMS;
}

static bool cut_roles(struct shape *shape, uint64_t granularity)
{
    uint32_t chunks = 0, items = 0;
    for (uint32_t i = 0; i < shape->role_count; i++) {
        uint32_t count = chunks_of(shape->roles[i].bytes, shape->chunk_bytes);
        chunks += count;
        items += count * shape->roles[i].copies;
    }
    shape->chunks = malloc((chunks + 1) * sizeof *shape->chunks);
    shape->item_chunk = malloc((items + 1) * sizeof *shape->item_chunk);
    if (!shape->chunks || !shape->item_chunk) return false;
    for (uint32_t i = 0; i < shape->role_count; i++) {
        struct shape_role *role = &shape->roles[i];
        role->first_chunk = shape->chunk_count;
        role->chunk_count = chunks_of(role->bytes, shape->chunk_bytes);
        for (uint32_t k = 0; k < role->chunk_count; k++) {
            shape->chunks[shape->chunk_count] =
                (struct shape_chunk){.role = i,
                                     .slot = role->slot + k,
                                     .first_item = shape->item_count,
                                     .first_gap = shape->gap_count,
                                     .bytes = frame_bytes(shape, role->bytes, k, granularity)};
            for (uint32_t copy = 0; copy < role->copies; copy++)
                shape->item_chunk[shape->item_count++] = shape->chunk_count;
            shape->gap_count += role->use_count;
            shape->chunk_count++;
        }
    }
    return true;
}

static bool add_ops(const struct step *step, struct shape *shape, const uint32_t *new_role)
{
    shape->op_count = step->op_count;
    shape->ops = calloc(step->op_count + 1u, sizeof *shape->ops);
    shape->touches = malloc((step->touch_count + 1u) * sizeof *shape->touches);
    if (!shape->ops || !shape->touches) return false;
    uint64_t at_ns = 0;
    for (uint32_t i = 0; i < step->op_count; i++) {
        const struct step_op *from = &step->ops[i];
        struct shape_op *op = &shape->ops[i];
        op->start_ns = at_ns;
        op->duration_ns = from->duration_ns;
        op->first_touch = shape->touch_count;
        op->touch_count = from->touch_count;
        for (uint32_t k = 0; k < from->touch_count; k++) {
            const struct step_touch *touch = &step->touches[from->first_touch + k];
            shape->touches[shape->touch_count++] = (struct shape_touch){
                new_role[touch->role], touch->age, 0, touch->access != STEP_READS};
        }
        at_ns += op->duration_ns;
    }
    shape->ops[step->op_count].start_ns = at_ns;
    return true;
}

/* Uses in order of position: for each age, op by op. */
static bool add_uses(struct shape *shape)
{
    uint32_t *filled = calloc(shape->role_count + 1u, sizeof *filled), ages = 1;
    shape->uses = malloc((shape->touch_count + 1u) * sizeof *shape->uses);
    if (!filled || !shape->uses) {
        free(filled);
        return false;
    }
    for (uint32_t i = 0; i < shape->role_count; i++) {
        shape->roles[i].first_use = shape->use_count;
        shape->use_count += shape->roles[i].use_count;
        if (shape->roles[i].copies > ages) ages = shape->roles[i].copies;
    }
    for (uint32_t pass = 0; pass < ages * shape->op_count; pass++) {
        const struct shape_op *op = &shape->ops[pass % shape->op_count];
        for (uint32_t k = op->first_touch; k < op->first_touch + op->touch_count; k++) {
            struct shape_touch *touch = &shape->touches[k];
            if (touch->age != pass / shape->op_count) continue;
            touch->use = filled[touch->role]++;
            shape->uses[shape->roles[touch->role].first_use + touch->use] =
                (struct shape_use){pass, touch->writes};
        }
    }
    free(filled);
    return true;
}

static bool add_deaths(struct shape *shape)
{
    shape->deaths = malloc((shape->role_count + 1u) * sizeof *shape->deaths);
    if (!shape->deaths) return false;
    for (uint32_t i = 0; i < shape->role_count; i++)
        if (shape->roles[i].end != SHAPE_NEVER)
            shape->ops[shape->roles[i].end % shape->op_count].death_count++;
    uint32_t first = 0;
    for (uint32_t i = 0; i < shape->op_count; i++) {
        shape->ops[i].first_death = first;
        first += shape->ops[i].death_count;
        shape->ops[i].death_count = 0;
    }
    shape->death_count = first;
    for (uint32_t i = 0; i < shape->role_count; i++) {
        const struct shape_role *role = &shape->roles[i];
        if (role->end == SHAPE_NEVER) continue;
        struct shape_op *op = &shape->ops[role->end % shape->op_count];
        shape->deaths[op->first_death + op->death_count++] =
            (struct shape_death){i, role->end / shape->op_count};
    }
    return true;
}

/* What a block holds in frames. */
static uint64_t held_bytes(const struct shape *shape, uint64_t block_bytes, uint64_t granularity)
{
    uint32_t chunks = chunks_of(block_bytes, shape->chunk_bytes);
    uint64_t last = frame_bytes(shape, block_bytes, chunks - 1, granularity);
    return (chunks - 1) * shape->chunk_bytes + last;
}

/* The most bytes that live at any time of the step, and what they hold then. */
static void find_peak(const struct step *step, uint64_t granularity, struct shape *shape)
{
    uint64_t live = 0, held = 0;
    for (uint32_t i = 0; i < step->role_count; i++) {
        const struct step_role *role = &step->roles[i];
        bool lives = role->born_op == STEP_NEVER;
        live += role->bytes * (lives ? 1 : role->age);
        held += held_bytes(shape, role->bytes, granularity) * (lives ? 1 : role->age);
    }
    shape->peak_bytes = live;
    shape->peak_held_bytes = held;
    for (uint32_t i = 0; i < step->event_count; i++) {
        const struct step_event *event = &step->events[i];
        if (event->kind != TRACE_ALLOC && event->kind != TRACE_FREE) continue;
        uint64_t bytes = step->roles[event->index].bytes;
        bool born = event->kind == TRACE_ALLOC;
        live = born ? live + bytes : live - bytes;
        bytes = held_bytes(shape, bytes, granularity);
        held = born ? held + bytes : held - bytes;
        if (live <= shape->peak_bytes) continue;
        shape->peak_bytes = live;
        shape->peak_held_bytes = held;
    }
}

vp_status shape_create(const struct step *step, uint64_t chunk_bytes, uint64_t granularity_bytes,
                       struct shape *shape)
{
    assert(step->op_count > 0 && chunk_bytes >= granularity_bytes && granularity_bytes > 0);
    struct shape made = {.chunk_bytes = chunk_bytes};
    if (!is_small_enough(step, chunk_bytes)) {
        log_error("the step's blocks make more than %d chunks of %" PRIu64 " bytes: too many",
                  (int)MOST_ITEMS, chunk_bytes);
        return VP_QUOTA;
    }
    uint32_t *new_role = malloc((step->role_count + 1u) * sizeof *new_role);
    made.roles = malloc((step->role_count + 1u) * sizeof *made.roles);
    bool ok = new_role && made.roles;
    if (ok) {
        count_uses(step, &made, new_role);
        ok = number_slots(&made) && cut_roles(&made, granularity_bytes) &&
             add_ops(step, &made, new_role) && add_uses(&made) && add_deaths(&made);
    }
    free(new_role);
    if (!ok) {
        shape_destroy(&made);
        return VP_NO_HOST_MEMORY;
    }
    find_peak(step, granularity_bytes, &made);
    assert(shape_is_valid(&made));
    *shape = made;
    return VP_OK;
}

bool shape_is_valid(const struct shape *shape)
{
    uint32_t items = 0;
    for (uint32_t i = 0; i < shape->chunk_count; i++) {
        const struct shape_chunk *chunk = &shape->chunks[i];
        if (chunk->role >= shape->role_count || chunk->slot >= shape->slot_count) return false;
        if (chunk->first_item != items || chunk->bytes == 0) return false;
        items += shape->roles[chunk->role].copies;
    }
    for (uint32_t i = 0; i < shape->role_count; i++) {
        const struct shape_role *role = &shape->roles[i];
        for (uint32_t use = 0; use < role->use_count; use++) {
            uint32_t at = shape->uses[role->first_use + use].at;
            if (at < role->born || at >= role->end) return false;
            if (use > 0 && at <= shape->uses[role->first_use + use - 1].at) return false;
        }
    }
    return items == shape->item_count;
}
