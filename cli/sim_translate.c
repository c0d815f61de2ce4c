/* What translation in layers would cost in the predicted step: plan/translate.h, driven by what the
 * simulator tells. Pages are chunks; small blocks share them. Each operation asks once for each
 * page that it touches, evenly over its time; what it would ask again while it runs, its card's
 * cache would answer. The step is played twice, and the second time counts.
 *
 * Where a page is the executor says when the operation ends. It is ahead of the device: a block
 * that has come into being anew meanwhile counts with its new place. */
#include <assert.h>
#include <stdlib.h>

#include "base/log.h"
#include "plan/translate.h"
#include "sim.h"

/* At `time_ns` the page is at `place`; `asks`: the card wants to know. */
struct sim_visit {
    uint64_t time_ns;
    uint32_t page, order;
    uint8_t place;
    bool asks;
};

enum { COMPUTES = 0 }; /* the card that does */

bool sim_visits_create(const struct job *job, const struct shape *shape, struct sim_visits *visits)
{
    *visits = (struct sim_visits){.job = job, .shape = shape};
    visits->page_of = malloc((shape->item_count + 1u) * sizeof *visits->page_of);
    if (!visits->page_of) return false;
    uint64_t packed = shape->chunk_bytes; /* bytes in the page of small ones */
    uint32_t shared = 0;
    for (uint32_t item = 0; item < shape->item_count; item++) {
        uint64_t bytes = shape->chunks[shape->item_chunk[item]].bytes;
        if (bytes % job->machine->granularity_bytes == 0) {
            visits->page_of[item] = visits->pages++;
            continue;
        }
        packed += bytes;
        if (packed > shape->chunk_bytes) {
            packed = bytes;
            shared = visits->pages++;
        }
        visits->page_of[item] = shared;
    }
    return true;
}

void sim_visits_destroy(struct sim_visits *visits)
{
    free(visits->page_of);
    free(visits->list);
}

static void add(struct sim_visits *visits, uint64_t time_ns, uint32_t item, unsigned place,
                bool asks)
{
    if (visits->exhausted) return;
    if (visits->count == visits->room) {
        uint32_t room = visits->room ? 2 * visits->room : 4096;
        struct sim_visit *list = realloc(visits->list, room * sizeof *list);
        visits->exhausted = !list;
        if (!list) return;
        visits->list = list;
        visits->room = room;
    }
    visits->list[visits->count] =
        (struct sim_visit){time_ns, visits->page_of[item], visits->count, (uint8_t)place, asks};
    visits->count++;
}

static bool is_small(const struct sim_visits *visits, uint32_t item)
{
    const struct shape *shape = visits->shape;
    return shape->chunks[shape->item_chunk[item]].bytes % visits->job->machine->granularity_bytes;
}

void sim_visits_moved(struct sim_visits *visits, const struct executor_action *action,
                      uint64_t end_ns)
{
    if (action->kind != EXECUTOR_FETCH && action->kind != EXECUTOR_EVICT) return;
    if (is_small(visits, action->item)) return;
    unsigned refuge = visits->job->costs.refuge[action->refuge].place;
    add(visits, end_ns, action->item, refuge, false); /* also where it left without a copy */
    if (action->kind == EXECUTOR_FETCH) add(visits, end_ns, action->item, COMPUTES, false);
}

static void add_touch(struct sim_visits *visits, const struct executor *executor,
                      const struct shape_touch *touch, uint64_t time_ns)
{
    const struct shape *shape = visits->shape;
    const struct shape_role *role = &shape->roles[touch->role];
    uint64_t born = executor->done / shape->op_count - touch->age;
    for (uint32_t k = 0; k < role->chunk_count; k++) {
        uint32_t item =
            shape->chunks[role->first_chunk + k].first_item + (uint32_t)(born % role->copies);
        const struct executor_item *state = &executor->items[item];
        bool away = state->state == ITEM_AWAY && !is_small(visits, item);
        add(visits, time_ns, item, away ? visits->job->costs.refuge[state->refuge].place : COMPUTES,
            true);
    }
}

void sim_visits_ran(struct sim_visits *visits, const struct executor *executor, uint32_t op,
                    uint64_t start_ns, uint64_t end_ns)
{
    const struct shape_op *ran = &visits->shape->ops[op];
    for (uint32_t k = 0; k < ran->touch_count; k++)
        add_touch(visits, executor, &visits->shape->touches[ran->first_touch + k],
                  start_ns + (end_ns - start_ns) * k / ran->touch_count);
}

static int by_time(const void *left, const void *right)
{
    const struct sim_visit *a = left, *b = right;
    if (a->time_ns != b->time_ns) return a->time_ns < b->time_ns ? -1 : 1;
    return a->order < b->order ? -1 : 1;
}

static void play(const struct sim_visits *visits, struct translate *translate, uint64_t start_ns)
{
    for (uint32_t i = 0; i < visits->count; i++) {
        const struct sim_visit *visit = &visits->list[i];
        uint64_t now_ns = start_ns + visit->time_ns;
        translate_place(translate, visit->page, visit->place, now_ns);
        if (visit->asks) translate_ask(translate, COMPUTES, visit->page, now_ns);
    }
}

vp_status sim_translate(struct sim_visits *visits, uint64_t step_ns,
                        struct sim_translation *translation)
{
    const struct machine *machine = visits->job->machine;
    struct translate *translate;
    if (visits->exhausted) return VP_NO_HOST_MEMORY;
    vp_status status =
        translate_create(machine, visits->shape->chunk_bytes, visits->pages, &translate);
    if (status != VP_OK) return status;
    qsort(visits->list, visits->count, sizeof *visits->list, by_time);
    play(visits, translate, 0);
    translate_reset(translate);
    play(visits, translate, step_ns);
    struct translate_count sum = {0};
    for (unsigned place = 0; place <= machine->cards; place++)
        translate_add(&sum, translate_count(translate, COMPUTES, place));
    *translation = (struct sim_translation){.count = sum,
                                            .p99_ns = translate_quantile_ns(translate, 0.99),
                                            .moves = translate_moves(translate),
                                            .entries = translate_entries(translate, COMPUTES)};
    translate_destroy(translate);
    return VP_OK;
}
