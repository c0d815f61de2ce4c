#include "frame/frame.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

vp_status frame_table_create(struct frame_table *table)
{
    memset(table, 0, sizeof *table);
    table->room = 1024;
    table->by_number = calloc(table->room, sizeof(struct frame *));
    table->vacant = calloc(table->room, sizeof *table->vacant);
    if (table->by_number && table->vacant) return VP_OK;
    frame_table_destroy(table);
    return VP_NO_HOST_MEMORY;
}

void frame_table_destroy(struct frame_table *table)
{
    for (uint64_t i = 0; i < table->count; i++) free(table->by_number[i]);
    free(table->by_number);
    free(table->vacant);
    free(table->prepared);
    memset(table, 0, sizeof *table);
}

unsigned frame_place_add(struct frame_table *table, const char *name, vp_place_kind kind, int id,
                         uint64_t capacity_pages)
{
    assert(table->places < VP_MAX_PLACES);
    struct frame_place *place = &table->place[table->places];
    snprintf(place->name, sizeof place->name, "%s", name);
    place->kind = kind;
    place->id = id;
    place->share_pages = place->capacity_pages = capacity_pages;
    for (unsigned i = 0; i <= FRAME_MAX_PAGES; i++) {
        list_init(&place->free[i]);
        list_init(&place->laid_by[false][i]);
        list_init(&place->laid_by[true][i]);
    }
    return table->places++;
}

/* What no frame can be made of. */
static uint64_t existing_pages(const struct frame_place *place)
{
    return place->used_pages + place->free_pages + place->promised_pages + place->withdrawn_pages +
           place->ceded_pages;
}

static void use(struct frame_place *place, struct frame *frame)
{
    frame->free = false;
    place->used_pages += frame->pages;
    if (place->used_pages > place->peak_pages) place->peak_pages = place->used_pages;
}

static void unlink_free(struct frame_place *place, struct frame *frame)
{
    assert(frame->free && place->free_pages >= frame->pages);
    list_remove(&frame->link);
    place->free_pages -= frame->pages;
    frame->free = false;
    if (!frame->keeper) return;
    assert(*frame->keeper == frame);
    *frame->keeper = NULL;
    frame->keeper = NULL;
    if (frame->dear) place->dear_pages -= frame->pages;
}

static void set_free(struct frame_table *table, struct frame *frame)
{
    struct frame_place *place = &table->place[frame->place];
    assert(!frame->free && place->used_pages >= frame->pages);
    place->used_pages -= frame->pages;
    place->free_pages += frame->pages;
    frame->free = true;
    frame->parked = false;
    list_push_front(&place->free[frame->pages], &frame->link);
}

static struct frame *first_of(const struct list *frames)
{
    return list_empty(frames) ? NULL : list_entry(frames->next, struct frame, link);
}

static void take(struct frame_place *place, struct frame *frame)
{
    unlink_free(place, frame);
    use(place, frame);
}

bool frame_promise(struct frame_table *table, unsigned index, uint32_t pages)
{
    struct frame_place *place = &table->place[index];
    if (existing_pages(place) + pages > place->capacity_pages) return false;
    place->promised_pages += pages;
    return true;
}

enum frame_plan frame_plan(struct frame_table *table, unsigned index, uint32_t pages,
                           struct frame **frame)
{
    assert(index < table->places && pages > 0 && pages <= FRAME_MAX_PAGES);
    struct frame_place *place = &table->place[index];
    *frame = first_of(&place->free[pages]);
    if (!*frame) *frame = first_of(&place->laid_by[false][pages]);
    if (!*frame && frame_promise(table, index, pages)) return FRAME_MAKE;
    if (!*frame) *frame = first_of(&place->laid_by[true][pages]);
    if (*frame) {
        take(place, *frame);
        return FRAME_TAKE;
    }
    if (existing_pages(place) - place->free_pages + pages > place->capacity_pages)
        return FRAME_FULL;
    *frame = frame_withdraw(table, index, FRAME_MAX_PAGES);
    assert(*frame);
    return FRAME_RELEASE;
}

static bool grow(struct frame_table *table)
{
    if (table->vacant_count || table->count < table->room) return true;
    struct frame **wider = realloc(table->by_number, 2 * table->room * sizeof *wider);
    if (!wider) return false;
    memset(wider + table->room, 0, table->room * sizeof *wider);
    table->by_number = wider;
    uint64_t *vacant = realloc(table->vacant, 2 * table->room * sizeof *vacant);
    if (!vacant) return false;
    table->vacant = vacant;
    table->room *= 2;
    return true;
}

bool frame_prepare(struct frame_table *table)
{
    if (!grow(table)) return false;
    if (!table->prepared) table->prepared = calloc(1, sizeof *table->prepared);
    return table->prepared != NULL;
}

struct frame *frame_add(struct frame_table *table, unsigned index, uint32_t pages, uint64_t handle,
                        vp_addr alias)
{
    struct frame_place *place = &table->place[index];
    assert(place->promised_pages >= pages);
    if (!frame_prepare(table)) return NULL;
    struct frame *frame = table->prepared;
    table->prepared = NULL;
    place->promised_pages -= pages;
    frame->handle = handle;
    frame->alias = alias;
    frame->pages = pages;
    frame->place = index;
    frame->number = table->vacant_count ? table->vacant[--table->vacant_count] : table->count++;
    list_init(&frame->link);
    table->by_number[frame->number] = frame;
    place->used_pages += pages; /* not counted as a peak */
    set_free(table, frame);
    return frame;
}

void frame_fail(struct frame_table *table, unsigned index, uint32_t pages, bool shrink)
{
    struct frame_place *place = &table->place[index];
    assert(place->promised_pages >= pages);
    place->promised_pages -= pages;
    if (shrink) place->capacity_pages = existing_pages(place);
}

void frame_give(struct frame_table *table, struct frame *frame)
{
    assert(!frame->free && !frame->parked);
    frame->parked = frame->copies > 0;
    if (frame->parked)
        table->place[frame->place].parked_pages += frame->pages;
    else
        set_free(table, frame);
}

void frame_lay_by(struct frame_table *table, struct frame *frame, struct frame **keeper, bool dear)
{
    assert(!*keeper && !frame->parked && !frame->copies);
    struct frame_place *place = &table->place[frame->place];
    set_free(table, frame);
    list_remove(&frame->link);
    list_push_front(&place->laid_by[dear][frame->pages], &frame->link);
    frame->dear = dear;
    if (dear) place->dear_pages += frame->pages;
    frame->keeper = keeper;
    *keeper = frame;
}

struct frame *frame_recover(struct frame_table *table, struct frame **keeper)
{
    struct frame *frame = *keeper;
    assert(frame && frame->keeper == keeper);
    take(&table->place[frame->place], frame);
    return frame;
}

void frame_let_go(struct frame_table *table, struct frame **keeper)
{
    struct frame *frame = frame_recover(table, keeper);
    set_free(table, frame);
}

/* The oldest of the largest in such lists by size. */
static struct frame *largest_of(const struct list *frames, uint64_t most_pages)
{
    for (uint64_t pages = most_pages; pages > 0; pages--)
        if (!list_empty(&frames[pages])) return list_entry(frames[pages].prev, struct frame, link);
    return NULL;
}

struct frame *frame_withdraw(struct frame_table *table, unsigned index, uint64_t most_pages)
{
    struct frame_place *place = &table->place[index];
    uint64_t most = most_pages < FRAME_MAX_PAGES ? most_pages : FRAME_MAX_PAGES;
    struct frame *frame = largest_of(place->free, most);
    if (!frame) frame = largest_of(place->laid_by[false], most);
    if (!frame) frame = largest_of(place->laid_by[true], most);
    if (!frame) return NULL;
    unlink_free(place, frame);
    place->withdrawn_pages += frame->pages;
    return frame;
}

void frame_forget(struct frame_table *table, struct frame *frame)
{
    assert(!frame->free && frame->copies == 0 && table->by_number[frame->number] == frame);
    assert(table->place[frame->place].withdrawn_pages >= frame->pages);
    table->place[frame->place].withdrawn_pages -= frame->pages;
    table->by_number[frame->number] = NULL;
    table->vacant[table->vacant_count++] = frame->number;
    free(frame);
}

void frame_keep(struct frame_table *table, struct frame *frame)
{
    struct frame_place *place = &table->place[frame->place];
    assert(!frame->free && frame->copies == 0 && place->withdrawn_pages >= frame->pages);
    place->withdrawn_pages -= frame->pages;
    place->used_pages += frame->pages; /* not counted as a peak */
    set_free(table, frame);
}

uint64_t frame_cede_unmade(struct frame_table *table, unsigned index, uint64_t most_pages)
{
    struct frame_place *place = &table->place[index];
    uint64_t unmade = place->capacity_pages - existing_pages(place);
    uint64_t ceded = unmade < most_pages ? unmade : most_pages;
    place->ceded_pages += ceded;
    return ceded;
}

void frame_cede(struct frame_table *table, struct frame *frame)
{
    table->place[frame->place].ceded_pages += frame->pages;
    frame_forget(table, frame);
}

void frame_cede_ends(struct frame_table *table, unsigned index, uint64_t back_pages,
                     uint64_t lost_pages)
{
    struct frame_place *place = &table->place[index];
    assert(place->ceded_pages >= back_pages + lost_pages);
    place->ceded_pages -= back_pages + lost_pages;
    place->capacity_pages -= lost_pages;
}

uint64_t frame_grow_back(struct frame_table *table, unsigned index, uint64_t most_pages)
{
    struct frame_place *place = &table->place[index];
    uint64_t pages = place->share_pages - place->capacity_pages;
    if (pages > most_pages) pages = most_pages;
    place->capacity_pages += pages;
    return pages;
}

void frame_copy_begin(struct frame *frame)
{
    assert(!frame->free);
    frame->copies++;
}

void frame_copy_end(struct frame_table *table, struct frame *frame)
{
    assert(frame->copies > 0);
    if (--frame->copies || !frame->parked) return;
    table->place[frame->place].parked_pages -= frame->pages;
    set_free(table, frame);
}

bool frame_table_is_valid(const struct frame_table *table)
{
    for (unsigned i = 0; i < table->places; i++) {
        const struct frame_place *place = &table->place[i];
        uint64_t free_pages = 0, other_pages = 0, dear_pages = 0;
        for (uint64_t k = 0; k < table->count; k++) {
            const struct frame *frame = table->by_number[k];
            if (!frame || frame->place != i) continue;
            *(frame->free ? &free_pages : &other_pages) += frame->pages;
            if (frame->free && (frame->copies || frame->parked)) return false;
            if (frame->keeper && (!frame->free || *frame->keeper != frame)) return false;
            if (frame->keeper && frame->dear) dear_pages += frame->pages;
        }
        if (dear_pages != place->dear_pages) return false;
        if (free_pages != place->free_pages) return false;
        if (other_pages != place->used_pages + place->withdrawn_pages) return false;
        if (existing_pages(place) > place->capacity_pages) return false;
        if (place->capacity_pages > place->share_pages) return false;
    }
    return true;
}
