#include "move/chunk_state.h"

#include <assert.h>

#include "move/backup.h"

#define ALLOW(event) (1u << MOVE_##event)

/* The arrows of the drawing in move.h: which events may come in which state. */
static const uint32_t allowed[CHUNK_STATES] = {
    [CHUNK_EMPTY] = ALLOW(MAP),
    [CHUNK_ABSENT] = ALLOW(MAP) | ALLOW(FORGET) | ALLOW(SHIFT),
    [CHUNK_SHIFTING] = ALLOW(SHIFTED) | ALLOW(STAYED),
    [CHUNK_MAPPING] = ALLOW(MAPPED) | ALLOW(MAPPED_COPYING) | ALLOW(MAP_FAILED) |
                      ALLOW(MAP_UNDONE) | ALLOW(POISON),
    [CHUNK_SETTLING] = ALLOW(LANDED),
    [CHUNK_RESIDENT] = ALLOW(MAP) | ALLOW(LEAVE) | ALLOW(DROP),
    [CHUNK_LEAVING] =
        ALLOW(RECALL) | ALLOW(COPIED) | ALLOW(SAME) | ALLOW(KEPT) | ALLOW(LEAVE_FAILED),
    [CHUNK_UNMAPPING] = ALLOW(UNMAPPED) | ALLOW(REMAPPED) | ALLOW(UNMAP_FAILED),
    [CHUNK_POISONED] = 0,
};

/* The state an event leads to; without a frame there is no data. */
static enum chunk_state target(const struct frame *frame, enum move_event event)
{
    switch (event) {
    case MOVE_MAP: return CHUNK_MAPPING;
    case MOVE_MAPPED: return CHUNK_RESIDENT;
    case MOVE_MAPPED_COPYING: return CHUNK_SETTLING;
    case MOVE_MAP_FAILED: return frame ? CHUNK_ABSENT : CHUNK_EMPTY;
    case MOVE_MAP_UNDONE: return CHUNK_RESIDENT;
    case MOVE_LANDED: return CHUNK_RESIDENT;
    case MOVE_LEAVE: return CHUNK_LEAVING;
    case MOVE_LEAVE_FAILED: return CHUNK_RESIDENT;
    case MOVE_RECALL: return CHUNK_SETTLING;
    case MOVE_COPIED: return CHUNK_UNMAPPING;
    case MOVE_SAME: return CHUNK_UNMAPPING;
    case MOVE_KEPT: return CHUNK_RESIDENT;
    case MOVE_DROP: return CHUNK_UNMAPPING;
    case MOVE_UNMAPPED: return frame ? CHUNK_ABSENT : CHUNK_EMPTY;
    case MOVE_REMAPPED: return CHUNK_RESIDENT;
    case MOVE_UNMAP_FAILED: return CHUNK_RESIDENT;
    case MOVE_FORGET: return CHUNK_EMPTY;
    case MOVE_SHIFT: return CHUNK_SHIFTING;
    case MOVE_SHIFTED: return CHUNK_ABSENT;
    case MOVE_STAYED: return CHUNK_ABSENT;
    case MOVE_POISON: return CHUNK_POISONED;
    case MOVE_EVENT_COUNT: break;
    }
    assert(false && "no such event");
    return CHUNK_POISONED;
}

bool move_is_possible(enum chunk_state state, enum move_event event)
{
    return (allowed[state] >> event & 1) != 0;
}

static bool on_the_move(uint8_t state)
{
    return state == CHUNK_MAPPING || state == CHUNK_SETTLING || state == CHUNK_LEAVING ||
           state == CHUNK_UNMAPPING || state == CHUNK_SHIFTING;
}

/* Its frame will be free. */
static bool goes_away(const struct chunk *chunk)
{
    bool leaves = chunk->state == CHUNK_LEAVING && !chunk->early;
    bool goes = leaves || chunk->state == CHUNK_UNMAPPING || chunk->state == CHUNK_SHIFTING;
    return goes && chunk->other != chunk->frame;
}

static void count_frame(struct move *move, const struct chunk *chunk, const struct frame *frame,
                        bool more)
{
    if (!frame || frame->place == move->home[chunk->segment->card]) return;
    move->guest_pages[frame->place] += more ? chunk->pages : ~(uint64_t)chunk->pages + 1;
}

/* What the chunk holds away from home. */
static void count_guest(struct move *move, const struct chunk *chunk, bool more)
{
    count_frame(move, chunk, chunk->frame, more);
    if (chunk->other != chunk->frame) count_frame(move, chunk, chunk->other, more);
}

static void show_location(struct move *move, const struct chunk *chunk)
{
    struct space *space = move->segments->space;
    const struct frame *data = chunk->frame;
    if (chunk->state == CHUNK_UNMAPPING && chunk->other) data = chunk->other;
    if (data)
        space_set_location(space, chunk_address(chunk), chunk->pages, data->place, data->number);
    else
        space_clear_location(space, chunk_address(chunk), chunk->pages);
}

/* Its segment enters the list of those with a chunk at home, or leaves it. What is dead goes first.
 */
static void enlist(struct move *move, struct segment *segment)
{
    bool dead = segment->state == SEGMENT_RESTING || (segment->noted && !segment->live_bytes);
    if (dead)
        segment_make_old(move->segments, segment);
    else
        segment_make_young(move->segments, segment);
}

void chunk_change(struct move *move, struct chunk *chunk, enum move_event event,
                  struct frame *frame, struct frame *other)
{
    assert(move_is_possible((enum chunk_state)chunk->state, event));
    move->coverage[chunk->state][event]++;
    move->changes++;
    bool was_home = move_chunk_is_home(move, chunk), was_moving = on_the_move(chunk->state);
    if (goes_away(chunk)) move->coming_pages[chunk->frame->place] -= chunk->pages;
    move->afar -= chunk->state == CHUNK_RESIDENT && !was_home;
    count_guest(move, chunk, false);

    chunk->state = (uint8_t)target(frame, event);
    chunk->frame = frame;
    chunk->other = other;
    bool is_home = move_chunk_is_home(move, chunk);
    chunk->home = is_home;
    segment_count_standing(move->segments, chunk);
    if (goes_away(chunk)) move->coming_pages[frame->place] += chunk->pages;
    move->afar += chunk->state == CHUNK_RESIDENT && !is_home;
    count_guest(move, chunk, true);
    if (!is_home) backup_lose(move, chunk);
    /* Used in place, data changes unseen. */
    if (!frame || (chunk->state == CHUNK_RESIDENT && !is_home)) chunk->digested = false;
    bool alone = segment_home_chunks(chunk->segment) == was_home;
    chunk->segment->unready += (uint32_t)was_home - (uint32_t)is_home;
    if (alone && was_home != is_home) enlist(move, chunk->segment);
    move->moving += (uint32_t)on_the_move(chunk->state) - (uint32_t)was_moving;
    show_location(move, chunk);
}

void chunk_unqueue(struct chunk *chunk)
{
    list_remove(&chunk->queue);
    chunk->wanted = false;
}

const char *move_event_name(enum move_event event)
{
    static const char *const names[] = {
#define NAME(name) #name,
        MOVE_EVENTS(NAME)
#undef NAME
    };
    return event < MOVE_EVENT_COUNT ? names[event] : "?";
}

const char *move_state_name(enum chunk_state state)
{
    static const char *const names[] = {"EMPTY",    "ABSENT",  "SHIFTING",  "MAPPING", "SETTLING",
                                        "RESIDENT", "LEAVING", "UNMAPPING", "POISONED"};
    return state < CHUNK_STATES ? names[state] : "?";
}
