#include "move/refuge.h"

#include <assert.h>

static bool computes(const struct move *move, unsigned card)
{
    return move->refuges[card] != 0;
}

/* The card that computes and whose home the place is; -1: none. */
static int card_at(const struct move *move, unsigned place)
{
    for (unsigned card = 0; card < VP_MAX_CARDS; card++)
        if (computes(move, card) && move->home[card] == place) return (int)card;
    return -1;
}

static uint32_t places_of(const struct move *move, unsigned card)
{
    uint32_t places = UINT32_C(1) << move->home[card];
    for (uint32_t i = 0; i < move->refuges[card]; i++)
        places |= UINT32_C(1) << move->refuge[card][i];
    return places;
}

static bool room_is_coming(const struct frame_place *place)
{
    return place->withdrawn_pages || place->promised_pages || place->parked_pages;
}

bool refuge_keeps_mapped(const struct move *move, const struct chunk *chunk)
{
    return move->always_mapped || chunk->segment->loose || chunk->segment->captured;
}

static void leave_out(struct move *move, unsigned card, unsigned place)
{
    uint32_t kept = 0, near = 0;
    for (uint32_t i = 0; i < move->refuges[card]; i++) {
        if (move->refuge[card][i] == place) continue;
        near += i < move->near[card];
        move->refuge[card][kept++] = move->refuge[card][i];
    }
    move->refuges[card] = kept;
    move->near[card] = near;
}

void refuge_cut_off(struct move *move, unsigned place, uint32_t cards)
{
    for (unsigned card = 0; card < VP_MAX_CARDS; card++) {
        if (move->home[card] != place) move->usable[card] &= ~(UINT32_C(1) << place);
        if (cards >> card & 1) leave_out(move, card, place);
    }
    move->changes++;
}

/* Guests leave a card what lives for it, and what it keeps ready. */
static bool is_open(const struct move *move, unsigned place, uint32_t pages)
{
    int card = card_at(move, place);
    if (card < 0) return true;
    uint64_t kept =
        move->segments->card_pages[card] + move->low_pages[card] + move->guest_pages[place];
    return move->order->endings >= move->closed_until[place] &&
           kept + pages <= frame_capacity_pages(&move->frames->place[place]);
}

/* Whether a home that is not open has room beside what its card demands. */
static bool has_room_to_spare(const struct move *move, unsigned place, uint32_t pages)
{
    uint64_t wanted = policy_wanted_pages(move, (unsigned)card_at(move, place));
    return frame_room_pages(move->frames, place) >= pages + wanted;
}

/* Whether the room in a home that is not open is about to go to what its card demands: one of that
 * fits. If none does, who waits for it might be waited for. */
static bool is_about_to_fill(const struct move *move, unsigned place, uint32_t pages)
{
    int card = card_at(move, place);
    uint64_t room = frame_room_pages(move->frames, place);
    if (room < pages) return false;
    list_each(node, &move->wanted)
    {
        const struct chunk *chunk = list_entry(node, struct chunk, queue);
        if ((int)chunk->segment->card == card && chunk->pages <= room) return true;
    }
    return false;
}

static bool suits(const struct move *move, const struct chunk *chunk, unsigned place, bool used)
{
    if (chunk->frame && chunk->frame->place == place) return false;
    return !used || refuge_is_usable(move, chunk->segment->card, place);
}

/* A frame in the place; where the card that it belongs to has it in use for the dead, those go. */
static struct frame *find_in(struct move *move, const struct chunk *chunk, unsigned place,
                             struct move_action *action, enum found *found)
{
    struct frame *frame;
    if (policy_use_plan(move, place, chunk->pages, &frame, action, found)) return frame;
    int card = card_at(move, place);
    if (*found == FOUND_NOTHING && card >= 0)
        *found = policy_drop_dead(move, (unsigned)card, action);
    if (*found == FOUND_NOTHING && room_is_coming(&move->frames->place[place])) *found = FOUND_BUSY;
    return NULL;
}

struct frame *refuge_find(struct move *move, const struct chunk *chunk, bool used,
                          struct move_action *action, enum found *found)
{
    unsigned card = chunk->segment->card;
    bool leaves_home = chunk->frame && chunk->frame->place == move->home[card];
    uint32_t near = leaves_home ? move->near[card] : 0; /* guests move on in one direction */
    uint32_t first = action->ticket ? move_lane_way(action->lane) : 0;
    bool busy = false;
    for (unsigned closed = 0; closed < 2; closed++) {
        for (uint32_t i = 0; i < move->refuges[card]; i++) {
            unsigned place = move->refuge[card][i < near ? (i + first) % near : i];
            if (!suits(move, chunk, place, used)) continue;
            if (is_open(move, place, chunk->pages) == closed) continue;
            if (closed && !has_room_to_spare(move, place, chunk->pages)) {
                busy |= is_about_to_fill(move, place, chunk->pages);
                continue;
            }
            enum found here = FOUND_NOTHING;
            struct frame *frame = find_in(move, chunk, place, action, &here);
            *found = here;
            if (frame || here == FOUND_ACTION) return frame;
            busy |= here == FOUND_BUSY;
        }
    }
    *found = busy ? FOUND_BUSY : FOUND_NOTHING; /* room is about to come */
    return NULL;
}

bool refuge_may_come(const struct move *move, const struct chunk *chunk)
{
    unsigned card = chunk->segment->card;
    bool used = refuge_keeps_mapped(move, chunk);
    for (uint32_t i = 0; i < move->refuges[card]; i++) {
        unsigned place = move->refuge[card][i];
        if (!suits(move, chunk, place, used)) continue;
        if (!is_open(move, place, chunk->pages)) {
            if (has_room_to_spare(move, place, chunk->pages)) return true;
            if (is_about_to_fill(move, place, chunk->pages)) return true;
            continue;
        }
        if (frame_room_pages(move->frames, place) >= chunk->pages) return true;
        if (room_is_coming(&move->frames->place[place])) return true;
    }
    return false;
}

bool refuge_is_to_spare(const struct move *move, const struct chunk *chunk)
{
    unsigned card = chunk->segment->card;
    for (uint32_t i = 0; i < move->refuges[card]; i++) {
        unsigned place = move->refuge[card][i];
        uint64_t dear = move->frames->place[place].dear_pages;
        if (is_open(move, place, chunk->pages) &&
            frame_room_pages(move->frames, place) >= dear + chunk->pages)
            return true;
    }
    return false;
}

/* The card that has the data copies it, where it reaches all places that the chunk may go to: its
 * own link is what takes time. */
unsigned refuge_copier(const struct move *move, const struct chunk *chunk)
{
    unsigned owner = chunk->segment->card;
    int card = card_at(move, chunk->frame->place);
    bool may = card >= 0 && (move->attached >> card & 1) != 0;
    if (may && (places_of(move, owner) & ~places_of(move, (unsigned)card)) == 0)
        return (unsigned)card;
    return owner;
}

unsigned refuge_lane_in(const struct move *move, const struct chunk *chunk)
{
    unsigned card = chunk->segment->card;
    uint32_t i = 0;
    while (i + 1 < move->refuges[card] && move->refuge[card][i] != chunk->frame->place) i++;
    return move_lane(card, i % move->ways[card], false);
}

/* Copies an absent chunk to a frame; the lane is taken. */
static void start_shift(struct move *move, struct chunk *chunk, struct frame *target,
                        struct move_action *action)
{
    policy_start_copy(move, chunk, MOVE_SHIFT, target, action);
}

/* To the one place, or (-1) to wherever there is room. */
static enum found shift(struct move *move, struct chunk *chunk, bool used, int place,
                        struct move_action *action)
{
    assert(chunk->state == CHUNK_ABSENT);
    if (!policy_take_lane_out(move, action, refuge_copier(move, chunk))) return FOUND_BUSY;
    enum found found = FOUND_NOTHING;
    struct frame *target = place < 0 ? refuge_find(move, chunk, used, action, &found)
                                     : find_in(move, chunk, (unsigned)place, action, &found);
    if (target) {
        start_shift(move, chunk, target, action);
        return FOUND_ACTION;
    }
    policy_leave_lane(move, action);
    return found;
}

static enum found send_on(struct move *move, struct chunk *chunk, struct move_action *action)
{
    if (chunk->state == CHUNK_RESIDENT) return policy_send_away(move, chunk, action);
    if (!action->may_copy) return refuge_may_come(move, chunk) ? FOUND_BUSY : FOUND_NOTHING;
    return shift(move, chunk, false, -1, action);
}

enum found refuge_make_usable(struct move *move, struct chunk *chunk, struct move_action *action)
{
    return shift(move, chunk, true, -1, action);
}

/* The first in a list of segments that lies in the place and can be moved. */
static struct chunk *find_in_list(struct move *move, const struct list *segments, unsigned place,
                                  bool *busy)
{
    list_each(node, segments)
    {
        struct segment *segment = list_entry(node, struct segment, age);
        if (segment->captured) continue;
        for (uint32_t i = 0; i < segment->chunk_count; i++) {
            struct chunk *chunk = &segment->chunks[i];
            bool lies = chunk->state == CHUNK_ABSENT || chunk->state == CHUNK_RESIDENT;
            if (!lies || chunk->frame->place != place || chunk->wanted || chunk->pins) continue;
            if (chunk->state == CHUNK_ABSENT || policy_segment_is_idle(move, segment)) return chunk;
            *busy = true;
        }
    }
    return NULL;
}

/* A chunk of the card's segments there, the one used least recently; *busy: one is in use. */
static struct chunk *find_chunk(struct move *move, unsigned card, unsigned place, bool *busy)
{
    struct chunk *chunk = find_in_list(move, &move->segments->away[card], place, busy);
    return chunk ? chunk : find_in_list(move, &move->segments->age[card], place, busy);
}

static bool has_room_at_home(const struct move *move, const struct chunk *chunk)
{
    unsigned card = chunk->segment->card, home = move->home[card];
    return frame_room_pages(move->frames, home) >= chunk->pages + move->low_pages[card];
}

/* Whether it can go where nobody else needs the room: else two cards that are short of some would
 * send it to and fro. */
static bool has_open_refuge(const struct move *move, const struct chunk *chunk)
{
    unsigned card = chunk->segment->card;
    bool used = refuge_keeps_mapped(move, chunk);
    for (uint32_t i = 0; i < move->refuges[card]; i++) {
        unsigned place = move->refuge[card][i];
        if (suits(move, chunk, place, used) && is_open(move, place, chunk->pages) &&
            frame_room_pages(move->frames, place) >= chunk->pages)
            return true;
    }
    return false;
}

enum found refuge_send_guest_on(struct move *move, unsigned card, bool ahead,
                                struct move_action *action)
{
    unsigned home = move->home[card];
    enum found all = FOUND_NOTHING;
    if (!move->guest_pages[home]) return FOUND_NOTHING;
    move->closed_until[home] = move->order->endings + REFUGE_CLOSED_ENDINGS;
    for (unsigned owner = 0; owner < VP_MAX_CARDS; owner++) {
        if (owner == card || !computes(move, owner)) continue;
        bool busy = false;
        struct chunk *chunk = find_chunk(move, owner, home, &busy);
        if (busy) all = FOUND_BUSY;
        if (!chunk || (ahead && !has_open_refuge(move, chunk))) continue;
        if (has_room_at_home(move, chunk)) {
            move_want(move, chunk);
            return FOUND_BUSY;
        }
        enum found found = send_on(move, chunk, action);
        if (found == FOUND_ACTION) return found;
        if (found == FOUND_BUSY) all = found;
    }
    return all;
}

/* ---- Making way ---- */

struct search {
    uint32_t seen;
    unsigned count;
    uint8_t queue[VP_MAX_PLACES];
    bool busy;
};

static void reach(struct search *search, uint32_t places)
{
    for (places &= ~search->seen; places; places &= places - 1)
        search->queue[search->count++] = (uint8_t)__builtin_ctz(places);
    for (unsigned i = 0; i < search->count; i++) search->seen |= UINT32_C(1) << search->queue[i];
}

/* Moves the chunk to the place, one of its own. */
static enum found make_way(struct move *move, struct chunk *chunk, unsigned place,
                           struct move_action *action)
{
    /* At once: several that were asked home into the same room would drive others out again. */
    if (place == move->home[chunk->segment->card]) return policy_map_home(move, chunk, action);
    action->may_copy = true; /* nobody else sees to it */
    if (chunk->state == CHUNK_RESIDENT) return policy_send_away(move, chunk, action);
    return shift(move, chunk, false, (int)place, action);
}

/* Whether a chunk in the place can go to one with room; else those are reached too that it could go
 * to. */
static enum found look_from(struct move *move, struct search *search, unsigned place,
                            struct move_action *action)
{
    for (unsigned owner = 0; owner < VP_MAX_CARDS; owner++) {
        if (!computes(move, owner)) continue;
        struct chunk *chunk = find_chunk(move, owner, place, &search->busy);
        if (!chunk) continue;
        uint32_t places = places_of(move, owner) & ~search->seen;
        if (refuge_keeps_mapped(move, chunk))
            places &= move->usable[owner] | UINT32_C(1) << move->home[owner];
        for (uint32_t left = places; left; left &= left - 1) {
            unsigned to = (unsigned)__builtin_ctz(left);
            if (frame_room_pages(move->frames, to) >= move->segments->chunk_pages)
                return make_way(move, chunk, to, action);
        }
        reach(search, places);
    }
    return FOUND_NOTHING;
}

enum found refuge_clear_way(struct move *move, const struct chunk *chunk,
                            struct move_action *action)
{
    unsigned card = chunk->segment->card;
    struct search search = {0};
    reach(&search, places_of(move, card) & (move->usable[card] | UINT32_C(1) << move->home[card]));
    for (unsigned i = 0; i < search.count; i++) {
        unsigned place = search.queue[i];
        int host = card_at(move, place);
        if (room_is_coming(&move->frames->place[place])) return FOUND_BUSY;
        enum found found =
            host < 0 ? FOUND_NOTHING : policy_drop_dead(move, (unsigned)host, action);
        if (found == FOUND_NOTHING) found = look_from(move, &search, place, action);
        if (found != FOUND_NOTHING) return found;
    }
    return search.busy ? FOUND_BUSY : FOUND_NOTHING;
}
