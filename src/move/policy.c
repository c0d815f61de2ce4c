/* What to do next: the reactive policy. */
#include <assert.h>

#include "move/backup.h"
#include "move/owed.h"
#include "move/policy.h"
#include "move/refuge.h"

enum { LATE_CHUNKS = 64 };

static bool next_mark(struct move *move, struct move_action *action)
{
    for (unsigned slot = 0; slot < move->order->count; slot++) {
        struct order_stream *stream = move->order->stream[slot];
        if (!stream->mark_wanted || stream->marking) continue;
        if (stream->key) continue; /* a thread's own default stream, which only it can name */
        uint64_t covers = order_mark_covers(stream);
        if (!covers) continue; /* a call is under way: whoever returns from it records the mark */
        stream->marking = true;
        action->kind = MOVE_DO_MARK;
        action->slot = slot;
        action->covers = covers;
        return true;
    }
    return false;
}

static void name_chunk(struct move *move, struct move_action *action, struct chunk *chunk)
{
    action->chunk = chunk;
    action->address = chunk_address(chunk);
    action->bytes = chunk_bytes(move->segments, chunk);
}

bool policy_take_lane(struct move *move, struct move_action *action, unsigned index)
{
    struct move_lane *lane = &move->lanes[index];
    if (lane->busy || lane->issued - lane->ended == MOVE_COPIES) return false;
    lane->busy = true;
    action->lane = index;
    action->ticket = lane->issued + 1;
    return true;
}

bool policy_take_lane_out(struct move *move, struct move_action *action, unsigned card)
{
    uint32_t ways = move->ways[card];
    for (uint32_t i = 0; i < ways; i++) {
        uint32_t way = (move->turn[card] + i) % ways;
        if (!policy_take_lane(move, action, move_lane(card, way, true))) continue;
        move->turn[card] = way + 1;
        return true;
    }
    return false;
}

bool policy_take_lane_in(struct move *move, struct move_action *action, const struct chunk *chunk)
{
    return policy_take_lane(move, action, refuge_lane_in(move, chunk));
}

void policy_leave_lane(struct move *move, struct move_action *action)
{
    move->lanes[action->lane].busy = false;
    action->ticket = 0;
}

static void start_unmap(struct move *move, struct chunk *chunk, struct move_action *action)
{
    action->kind = MOVE_DO_UNMAP;
    name_chunk(move, action, chunk);
    action->from = chunk->frame;
}

static bool next_hidden(struct move *move, struct move_action *action)
{
    if (list_empty(&move->hidden)) return false;
    struct chunk *chunk = list_entry(move->hidden.next, struct chunk, queue);
    chunk_unqueue(chunk);
    start_unmap(move, chunk, action);
    return true;
}

static bool next_unmap(struct move *move, struct move_action *action)
{
    if (list_empty(&move->copied)) return false;
    struct chunk *chunk = list_entry(move->copied.next, struct chunk, queue);
    chunk_unqueue(chunk);
    bool live = chunk_is_live(chunk);
    struct frame *target = chunk->other;
    chunk_change(move, chunk, chunk->unchanged ? MOVE_SAME : MOVE_COPIED, chunk->frame,
                 live ? target : NULL);
    if (!live) frame_give(move->frames, target);
    start_unmap(move, chunk, action);
    bool stay = refuge_keeps_mapped(move, chunk) &&
                refuge_is_usable(move, chunk->segment->card, target->place);
    action->to = live && stay ? target : NULL;
    return true;
}

void policy_start_make(struct move *move, unsigned place, uint32_t pages,
                       struct move_action *action)
{
    action->kind = MOVE_DO_MAKE;
    action->place = place;
    action->pages = pages;
    move->making++;
    move->making_of[place][pages]++;
}

/* Turns a plan for a frame into an action; true when *frame is there to be used. */
bool policy_use_plan(struct move *move, unsigned place, uint32_t pages, struct frame **frame,
                     struct move_action *action, enum found *found)
{
    switch (frame_plan(move->frames, place, pages, frame)) {
    case FRAME_TAKE: return true;
    case FRAME_MAKE:
        policy_start_make(move, place, pages, action);
        *found = FOUND_ACTION;
        return false;
    case FRAME_RELEASE:
        action->kind = MOVE_DO_RELEASE;
        action->from = *frame;
        action->place = place;
        *found = FOUND_ACTION;
        return false;
    case FRAME_FULL: break;
    }
    *found = FOUND_NOTHING;
    return false;
}

void policy_start_copy(struct move *move, struct chunk *chunk, enum move_event event,
                       struct frame *target, struct move_action *action)
{
    chunk->ticket = 0; /* until the copy is queued */
    chunk->recalled = false;
    chunk->unchanged = false;
    action->expected = chunk->digest;
    if (event == MOVE_LEAVE) /* else its digest, if it has one, stays */
        action->span = chunk->digest_span = chunk_live_span(move->segments, chunk);
    chunk_change(move, chunk, event, chunk->frame, target);
    action->kind = MOVE_DO_COPY;
    name_chunk(move, action, chunk);
    action->from = chunk->frame;
    action->to = target;
}

enum found policy_send_away(struct move *move, struct chunk *chunk, struct move_action *action)
{
    if (!chunk_is_live(chunk)) {
        chunk_change(move, chunk, MOVE_DROP, chunk->frame, NULL);
        start_unmap(move, chunk, action);
        return FOUND_ACTION;
    }
    if (!action->may_copy) /* whoever copies will see to it, if it can be done */
        return refuge_may_come(move, chunk) ? FOUND_BUSY : FOUND_NOTHING;
    if (!policy_take_lane_out(move, action, refuge_copier(move, chunk))) return FOUND_BUSY;
    enum found found = FOUND_NOTHING;
    bool used = refuge_keeps_mapped(move, chunk);
    struct frame *target = backup_take(move, chunk, &action->check);
    if (!target) target = refuge_find(move, chunk, used, action, &found);
    if (!target) {
        policy_leave_lane(move, action);
        return found;
    }
    action->paid = chunk->early;
    chunk->early = false;
    chunk->left_at = move->foresight.clocks[chunk->segment->card];
    policy_start_copy(move, chunk, MOVE_LEAVE, target, action);
    return FOUND_ACTION;
}

bool policy_copy_early(struct move *move, struct chunk *chunk, struct move_action *action)
{
    assert(chunk_is_live(chunk) && action->may_copy);
    enum found found = FOUND_NOTHING;
    unsigned card = chunk->segment->card;
    if (!chunk->backup && !refuge_is_to_spare(move, chunk)) return false;
    if (!policy_take_lane_out(move, action, card)) return false;
    action->check = backup_tells(move, chunk);
    struct frame *target = chunk->backup ? frame_recover(move->frames, &chunk->backup)
                                         : refuge_find(move, chunk, false, action, &found);
    if (!target) {
        policy_leave_lane(move, action);
        return found == FOUND_ACTION;
    }
    action->digest = true;
    chunk->early = true;
    chunk->kept_at = move->foresight.clocks[card];
    policy_start_copy(move, chunk, MOVE_LEAVE, target, action);
    return true;
}

bool policy_segment_is_idle(struct move *move, struct segment *segment)
{
    bool used = !order_uses_done(move->order, &segment->uses);
    if (used) order_uses_want_marks(move->order, &segment->uses);
    if (!segment_prior_done(move->segments, segment)) {
        order_uses_want_marks(move->order, &segment->prior);
        used = true;
    }
    return !used;
}

/* What is dead holds its frame wherever that is: at home, or where it was used in place. */
static bool is_dead(const struct chunk *chunk)
{
    return chunk->state == CHUNK_RESIDENT && !chunk_is_live(chunk);
}

enum which {
    WHICH_HOME,
    WHICH_DEAD_HOME,
    WHICH_DEAD_AWAY,
};

static bool is_meant(const struct move *move, const struct chunk *chunk, enum which which)
{
    bool home = move_chunk_is_home(move, chunk);
    if (home == (which == WHICH_DEAD_AWAY)) return false;
    return which == WHICH_HOME || is_dead(chunk);
}

/* Sends away one such chunk of the segment, if any. `late` counts those that could leave, but for
 * somebody to copy them. */
static enum found evict_from(struct move *move, struct segment *segment, enum which which,
                             struct move_action *action, unsigned *late)
{
    enum found all = FOUND_NOTHING;
    for (uint32_t i = segment->chunk_count; i-- > 0;) {
        struct chunk *chunk = &segment->chunks[i];
        if (!is_meant(move, chunk, which) || chunk->wanted || chunk->pins) continue;
        if (!policy_segment_is_idle(move, segment)) return FOUND_BUSY;
        enum found one = policy_send_away(move, chunk, action);
        if (one == FOUND_ACTION) return one;
        if (one == FOUND_BUSY) all = one;
        *late += one == FOUND_BUSY;
    }
    return all;
}

bool policy_looked(const struct move *move, const struct move_looked *looked)
{
    return looked->changes == move->changes && looked->endings == move->order->endings &&
           looked->clock == move->foresight.clock;
}

void policy_note_look(const struct move *move, struct move_looked *looked)
{
    looked->clock = move->foresight.clock;
    looked->changes = move->changes;
    looked->endings = move->order->endings;
}

/* Sends away the chunk in a list of segments that was used least recently; the dead come first.
 * Behind many that will be copied out soon it is not worth looking for one that need not be. */
static enum found evict_oldest(struct move *move, const struct list *segments, enum which which,
                               struct move_action *action)
{
    enum found all = FOUND_NOTHING;
    unsigned late = 0;
    list_each(node, segments)
    {
        struct segment *segment = list_entry(node, struct segment, age);
        if (segment->captured) continue;
        enum found one = evict_from(move, segment, which, action, &late);
        if (one == FOUND_ACTION) return one;
        if (one == FOUND_BUSY) all = one;
        if (late >= LATE_CHUNKS) return FOUND_BUSY;
    }
    return all;
}

/* The first of those used last, which fill a quarter of the card: they are in use, as it were. */
static const struct list *find_young(const struct move *move, unsigned card)
{
    const struct list *segments = &move->segments->age[card], *node = segments;
    uint64_t quarter = move->frames->place[move->home[card]].capacity_pages / 4, pages = 0;
    while (node->prev != segments && pages < quarter) {
        node = node->prev;
        pages += list_entry(node, struct segment, age)->pages;
    }
    return node;
}

/* Sends away the oldest chunk that will hardly be copied, unless it is young: that costs half of
 * what it costs to send one that changed (a page cache that evicts clean pages first, in a window,
 * does the same). Frozen weights so make way for activations even before the step is known. The
 * host is ahead of the card, so work that uses it may have to end first. */
static enum found evict_unchanged(struct move *move, unsigned card, struct move_action *action)
{
    const struct list *segments = &move->segments->age[card], *young = find_young(move, card);
    enum found all = FOUND_NOTHING;
    for (const struct list *node = segments->next; node != young; node = node->next) {
        struct segment *segment = list_entry(node, struct segment, age);
        if (segment->captured || !backup_is_likely(move, segment)) continue;
        for (uint32_t i = 0; i < segment->chunk_count; i++) {
            struct chunk *chunk = &segment->chunks[i];
            if (!backup_tells(move, chunk) || !move_chunk_is_home(move, chunk)) continue;
            if (chunk->wanted || chunk->pins) continue;
            all = FOUND_BUSY;
            if (!policy_segment_is_idle(move, segment)) break;
            enum found found = policy_send_away(move, chunk, action);
            if (found == FOUND_ACTION) return found;
        }
    }
    return all;
}

enum found policy_drop_dead(struct move *move, unsigned card, struct move_action *action)
{
    return evict_oldest(move, &move->segments->age[card], WHICH_DEAD_HOME, action);
}

/* While it is not foretold what is used when. */
static enum found evict_by_age(struct move *move, unsigned card, struct move_action *action)
{
    if (move->policy == VP_POLICY_PLAN && (move->digests >> card & 1) && action->may_copy) {
        enum found dead = policy_drop_dead(move, card, action);
        if (dead == FOUND_ACTION) return dead;
        enum found found = evict_unchanged(move, card, action);
        if (found == FOUND_ACTION) move->free_waits[card] = 0;
        if (found == FOUND_ACTION) return found;
        if (found == FOUND_BUSY && foreseen_may_wait(move, card)) return found;
    }
    return evict_oldest(move, &move->segments->age[card], WHICH_HOME, action);
}

/* Who waits for room asks again and again. */
enum found policy_evict(struct move *move, unsigned card, struct move_action *action)
{
    struct move_looked *looked = &move->looked_out_for[card][action->may_copy];
    if (policy_looked(move, looked) && !foreseen_is_tired(move, card))
        return (enum found)looked->found;
    const struct list *segments = &move->segments->age[card];
    enum found found;
    if (move->policy == VP_POLICY_INPLACE)
        found = evict_oldest(move, segments, WHICH_DEAD_HOME, action);
    else if (foresight_sees(&move->foresight))
        found = foreseen_evict(move, card, action);
    else
        found = evict_by_age(move, card, action);
    if (found == FOUND_ACTION) return found;
    policy_note_look(move, looked);
    looked->found = (int)found;
    return found;
}

/* What dead chunks hold away from home, those of other cards too: all share these places. */
static enum found evict_dead(struct move *move, struct move_action *action)
{
    enum found all = FOUND_NOTHING;
    for (unsigned i = 0; move->afar && i < 2 * VP_MAX_CARDS; i++) {
        const struct list *lists = i % 2 ? move->segments->age : move->segments->away;
        enum found one = evict_oldest(move, &lists[i / 2], WHICH_DEAD_AWAY, action);
        if (one == FOUND_ACTION) return one;
        if (one == FOUND_BUSY) all = one;
    }
    return all;
}

void policy_start_map(struct move *move, struct chunk *chunk, struct frame *to,
                      struct move_action *action)
{
    chunk_unqueue(chunk);
    action->kind = MOVE_DO_MAP;
    name_chunk(move, action, chunk);
    action->mapped = chunk->state == CHUNK_RESIDENT;
    action->to = to;
    action->from = chunk->frame && chunk->frame != to ? chunk->frame : NULL;
    action->digest = action->from && !chunk->digested && backup_is_worth(move, chunk);
    if (action->digest) action->span = chunk->digest_span = chunk_live_span(move->segments, chunk);
    chunk_change(move, chunk, MOVE_MAP, chunk->frame, to);
}

enum found policy_map_home(struct move *move, struct chunk *chunk, struct move_action *action)
{
    unsigned home = move->home[chunk->segment->card];
    bool copies = chunk->frame != NULL;
    if (copies && !policy_take_lane_in(move, action, chunk)) return FOUND_BUSY;
    struct frame *frame;
    enum found found = FOUND_NOTHING;
    if (policy_use_plan(move, home, chunk->pages, &frame, action, &found)) {
        policy_start_map(move, chunk, frame, action);
        return FOUND_ACTION;
    }
    if (copies) policy_leave_lane(move, action);
    return found;
}

/* Who may demand the chunk; NULL: nobody does. */
static struct move_request *demander(const struct move *move, const struct chunk *chunk)
{
    list_each(node, &move->requests)
    {
        struct move_request *request = list_entry(node, struct move_request, link);
        if (request->cards >> chunk->segment->card & 1) return request;
    }
    return NULL;
}

/* The chunk, which is empty, comes into being where it can be used from home. */
static enum found bear_far(struct move *move, struct chunk *chunk, struct move_action *action)
{
    enum found found = FOUND_NOTHING;
    struct frame *frame = refuge_find(move, chunk, true, action, &found);
    if (!frame) return found;
    policy_start_map(move, chunk, frame, action);
    return FOUND_ACTION;
}

/* No room at home, and none to be made: the chunk is used where it is, or comes into being
 * elsewhere. */
static enum found use_in_place(struct move *move, struct chunk *chunk, struct move_action *action)
{
    struct move_request *request = demander(move, chunk);
    if (request) request->no_room = true;
    if (!request || (chunk->state == CHUNK_RESIDENT && refuge_serves(move, chunk))) {
        chunk_unqueue(chunk);
        return FOUND_NOTHING;
    }
    enum found found = FOUND_NOTHING;
    if (chunk->state == CHUNK_RESIDENT) { /* cut off since it was mapped: to be moved as absent */
        chunk_unqueue(chunk);
        chunk_change(move, chunk, MOVE_DROP, chunk->frame, chunk->frame);
        start_unmap(move, chunk, action);
        return FOUND_ACTION;
    }
    if (chunk->state == CHUNK_ABSENT) {
        if (chunk->frame->copies) return FOUND_BUSY; /* on its way elsewhere, until just now */
        if (refuge_serves(move, chunk)) {
            policy_start_map(move, chunk, chunk->frame, action);
            return FOUND_ACTION;
        }
        found = refuge_make_usable(move, chunk, action);
    } else {
        found = bear_far(move, chunk, action);
        if (found == FOUND_ACTION) return found;
    }
    if (found == FOUND_NOTHING) found = refuge_clear_way(move, chunk, action);
    if (found == FOUND_NOTHING) { /* what is foretold to die may not: rather that than refuse */
        const struct list *segments = &move->segments->age[chunk->segment->card];
        action->may_copy = true; /* nobody else sees to it */
        found = evict_oldest(move, segments, WHICH_HOME, action);
    }
    if (found != FOUND_NOTHING || move->moving || move->making) return found;
    if (!move_others_demand(move, request)) {
        request->failed = true;
        return found;
    }
    move->narrow = true; /* what others have pinned may be what stands in the way */
    move->changes++;
    return FOUND_BUSY;
}

uint64_t policy_wanted_pages(const struct move *move, unsigned card)
{
    uint64_t pages = 0;
    list_each(node, &move->wanted)
    {
        const struct chunk *chunk = list_entry(node, struct chunk, queue);
        if (chunk->segment->card == card) pages += chunk->pages;
    }
    return pages;
}

/* Who demands the chunk had better use it over the link than send others away for it. */
static bool is_better_far(const struct move *move, const struct chunk *chunk)
{
    const struct move_request *request = demander(move, chunk);
    if (!request || !chunk->pins || chunk->state == CHUNK_EMPTY) return false;
    return refuge_serves(move, chunk) && request->in_place_pays;
}

/* The chunk's home is full. */
static enum found make_room(struct move *move, struct chunk *chunk, struct move_action *action)
{
    unsigned card = chunk->segment->card, home = move->home[card];
    uint64_t coming = move->coming_pages[home] + move->frames->place[home].parked_pages;
    if (coming >= policy_wanted_pages(move, card)) return FOUND_BUSY;
    if (move->policy == VP_POLICY_INPLACE && chunk->state == CHUNK_EMPTY) {
        enum found far = bear_far(move, chunk, action); /* the dead keep their frames */
        if (far != FOUND_NOTHING) return far;
    }
    enum found guest = refuge_send_guest_on(move, card, false, action);
    if (guest != FOUND_NOTHING) return guest;
    if (is_better_far(move, chunk)) {
        enum found dead = policy_drop_dead(move, card, action);
        return dead == FOUND_NOTHING ? use_in_place(move, chunk, action) : dead;
    }
    enum found found = policy_evict(move, card, action);
    if (found == FOUND_NOTHING) found = evict_dead(move, action);
    if (found != FOUND_NOTHING || coming || move->frames->place[home].withdrawn_pages) return found;
    return use_in_place(move, chunk, action);
}

/* An operation that runs alone waits for all moves to end: only what it needs is begun. */
static bool waits_alone(const struct move *move)
{
    if (list_empty(&move->requests)) return false;
    return move->strict || list_entry(move->requests.next, struct move_request, link)->exclusive;
}

bool policy_is_adrift(const struct move *move, const struct chunk *chunk)
{
    return chunk->state == CHUNK_ABSENT && chunk_is_live(chunk) &&
           refuge_keeps_mapped(move, chunk) && refuge_serves(move, chunk);
}

/* `ahead`: demands so far in the queue, by size. */
static enum found bring_home(struct move *move, struct chunk *chunk, struct move_action *action,
                             uint32_t *ahead)
{
    if (move_chunk_is_home(move, chunk) ||
        !move_is_possible((enum chunk_state)chunk->state, MOVE_MAP)) {
        chunk_unqueue(chunk); /* somebody else saw to it */
        return FOUND_NOTHING;
    }
    if (chunk->state == CHUNK_RESIDENT && !policy_segment_is_idle(move, chunk->segment))
        return FOUND_BUSY;
    unsigned card = chunk->segment->card;
    bool hidden = chunk->frame && chunk->frame->place == move->home[card];
    if (hidden || policy_is_adrift(move, chunk)) {
        policy_start_map(move, chunk, chunk->frame, action);
        return FOUND_ACTION;
    }
    if (ahead[chunk->pages]++ < move->making_of[move->home[card]][chunk->pages])
        return FOUND_BUSY; /* a frame for it is on its way */
    enum found found = policy_map_home(move, chunk, action);
    if (found != FOUND_NOTHING) return found;
    if (chunk->pins || !waits_alone(move)) return make_room(move, chunk, action);
    chunk_unqueue(chunk); /* a guest that was to go home: it may go elsewhere */
    move->changes++;
    return FOUND_NOTHING;
}

static bool next_demand(struct move *move, struct move_action *action)
{
    uint32_t ahead[FRAME_MAX_PAGES + 1] = {0};
    list_each_safe(node, &move->wanted)
    {
        struct chunk *chunk = list_entry(node, struct chunk, queue);
        if (bring_home(move, chunk, action, ahead) == FOUND_ACTION) return true;
    }
    return false;
}

/* Keeps some room at home once chunks have had to leave it. */
static bool next_spare(struct move *move, struct move_action *action)
{
    if (move->counts.evictions == 0) return false;
    for (unsigned card = 0; card < VP_MAX_CARDS; card++) {
        if (!move->low_pages[card]) continue;
        unsigned home = move->home[card];
        uint64_t room = frame_room_pages(move->frames, home) + move->coming_pages[home];
        if (room >= move->low_pages[card]) continue;
        enum found guest = FOUND_NOTHING;
        if (refuge_is_crowded(move, card)) guest = refuge_send_guest_on(move, card, true, action);
        if (guest == FOUND_NOTHING) guest = policy_evict(move, card, action);
        if (guest == FOUND_ACTION) return true;
    }
    return false;
}

/* The device may be at work, where moves are to wait for that. */
static bool must_wait(struct move *move)
{
    if (!move->strict) return false;
    struct order_uses all = {0};
    order_uses_crowd(move->order, &all);
    if (order_uses_done(move->order, &all)) return false;
    bool asked = !list_empty(&move->requests) || !list_empty(&move->wanted);
    for (unsigned place = 0; place < move->frames->places; place++)
        asked |= owed_is_open(move, place);
    if (asked) order_uses_want_marks(move->order, &all);
    return true;
}

bool policy_next(struct move *move, struct move_action *action)
{
    if (next_mark(move, action) || next_unmap(move, action) || next_hidden(move, action))
        return true;
    if (owed_next_release(move, action)) return true;
    if (move->exclusive_running || must_wait(move)) return false;
    if (next_demand(move, action)) return true;
    if (waits_alone(move)) return false;
    if (owed_next_eviction(move, action)) return true;
    return move_looks_ahead(move) ? foreseen_next(move, action) : next_spare(move, action);
}

/* What room is made for: while one waits to be alone, only for what is demanded. */
static uint64_t pages_to_fit(const struct move *move, unsigned card)
{
    uint64_t pages = 0;
    if (!waits_alone(move)) return policy_wanted_pages(move, card);
    list_each(node, &move->wanted)
    {
        const struct chunk *chunk = list_entry(node, struct chunk, queue);
        if (chunk->pins && chunk->segment->card == card) pages += chunk->pages;
    }
    return pages;
}

/* For who copies out and nothing else: makes the room that demands lack. */
bool policy_next_copy(struct move *move, struct move_action *action)
{
    if (move->exclusive_running || must_wait(move)) return false;
    for (unsigned card = 0; card < VP_MAX_CARDS; card++) {
        if (!move->refuges[card]) continue;
        unsigned home = move->home[card];
        uint64_t room = frame_room_pages(move->frames, home) + move->coming_pages[home] +
                        move->frames->place[home].parked_pages;
        if (pages_to_fit(move, card) <= room) continue;
        enum found guest = refuge_send_guest_on(move, card, false, action);
        if (guest == FOUND_NOTHING) guest = policy_evict(move, card, action);
        if (guest == FOUND_ACTION) return true;
    }
    if (waits_alone(move)) return false;
    if (owed_next_eviction(move, action)) return true;
    if (move_looks_ahead(move)) return foreseen_next_copy(move, action);
    return next_spare(move, action);
}
