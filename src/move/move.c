#include "move/move.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "move/backup.h"
#include "move/owed.h"
#include "move/policy.h"
#include "move/refuge.h"
#include "move/stock.h"

void move_create(struct move *move, struct segments *segments, struct frame_table *frames,
                 struct order *order)
{
    memset(move, 0, sizeof *move);
    move->segments = segments;
    move->frames = frames;
    move->order = order;
    move->changes = 1;
    move->ease_ops = MOVE_EASE_OPS;
    move->ahead_ops = SETTING_AHEAD_OPS;
    for (unsigned card = 0; card < VP_MAX_CARDS; card++) move->ways[card] = 1;
    memset(move->usable, 0xff, sizeof move->usable);
    move->attached = UINT32_MAX;
    list_init(&move->requests);
    list_init(&move->wanted);
    list_init(&move->copied);
    list_init(&move->hidden);
}

bool move_next(struct move *move, enum move_worker worker, struct move_action *action)
{
    memset(action, 0, sizeof *action);
    action->may_copy = worker != MOVE_WORKER_MAPS;
    switch (worker) {
    case MOVE_WORKER_COPIES: return policy_next_copy(move, action);
    case MOVE_WORKER_STOCK: return stock_next(move, action);
    case MOVE_WORKER_MAPS: return policy_next(move, action);
    case MOVE_WORKER_ALL: break;
    }
    return policy_next(move, action) || stock_next(move, action);
}

/* Enters a copy that the action queued, in the order of its lane. */
static void copy_queued(struct move *move, const struct move_action *action, bool digested)
{
    struct move_lane *lane = &move->lanes[action->lane];
    assert(action->ticket == lane->issued + 1 && lane->issued - lane->ended < MOVE_COPIES);
    lane->copies[++lane->issued % MOVE_COPIES] =
        (struct move_copy){action->chunk, action->from, action->to, digested};
    frame_copy_begin(action->from);
    frame_copy_begin(action->to);
    action->chunk->ticket = lane->issued;
    action->chunk->lane = (uint8_t)action->lane;
}

static void give(struct move *move, struct frame *frame)
{
    if (frame) frame_give(move->frames, frame);
}

/* Those who demand, perhaps this. */
static void note_failure(struct move *move, const struct move_action *action)
{
    list_each(node, &move->requests)
    {
        struct move_request *request = list_entry(node, struct move_request, link);
        bool concerned = !action->chunk || (request->cards >> action->chunk->segment->card & 1);
        if (request->pinned && concerned) request->failures++;
    }
}

/* Work of which not all is known may use it. */
static void want_if_adrift(struct move *move, struct chunk *chunk)
{
    if (policy_is_adrift(move, chunk)) move_want(move, chunk);
}

static bool anything_is_adrift(const struct move *move)
{
    list_each(node, &move->wanted) if (policy_is_adrift(move, list_entry(node, struct chunk,
                                                                         queue))) return true;
    return false;
}

static void map_done(struct move *move, const struct move_action *action,
                     const struct move_result *result)
{
    struct chunk *chunk = action->chunk;
    struct frame *old = chunk->frame, *new = chunk->other;
    if (!result->ok) {
        note_failure(move, action);
        switch (result->mapping) {
        case MOVE_MAPPED_OLD: chunk_change(move, chunk, MOVE_MAP_UNDONE, old, NULL); break;
        case MOVE_MAPPED_NOWHERE: chunk_change(move, chunk, MOVE_MAP_FAILED, old, NULL); break;
        case MOVE_MAPPED_NEW: /* the copy could not be queued, nor the mapping taken back */
            chunk_change(move, chunk, MOVE_POISON, old, NULL);
            log_error(
                "the data of chunk %u at %#llx cannot be reached any more: the driver refuses to "
                "map it back; operations on it will fail",
                chunk->index, (unsigned long long)chunk_address(chunk));
            return; /* the new frame stays where it is mapped */
        }
        if (new != old) give(move, new);
        want_if_adrift(move, chunk);
        return;
    }
    if (!action->from) {
        chunk_change(move, chunk, MOVE_MAPPED, new, NULL);
        return;
    }
    copy_queued(move, action, result->digested);
    move->counts.fetches++;
    move->counts.in_bytes += action->bytes;
    chunk_change(move, chunk, MOVE_MAPPED_COPYING, new, old);
}

/* A resting segment without frames frees its range for other sizes. */
static void retire(struct move *move, struct segment *segment)
{
    if (segment->state != SEGMENT_RESTING || segment->pins) return;
    for (uint32_t i = 0; i < segment->chunk_count; i++)
        if (segment->chunks[i].state != CHUNK_EMPTY) return;
    segment_bare(move->segments, segment);
}

/* An absent chunk that died while it could not be forgotten. */
static void forget_if_dead(struct move *move, struct chunk *chunk)
{
    if (chunk_is_live(chunk)) return;
    struct frame *frame = chunk->frame;
    chunk_change(move, chunk, MOVE_FORGET, NULL, NULL);
    give(move, frame);
}

/* A copy from refuge to refuge is over, or broken off. */
static void end_shift(struct move *move, struct chunk *chunk, enum move_event event)
{
    struct frame *from = chunk->frame, *to = chunk->other;
    bool shifted = event == MOVE_SHIFTED;
    chunk_change(move, chunk, event, shifted ? to : from, NULL);
    give(move, shifted ? from : to);
    move->counts.relocations += shifted;
    if (shifted) move->counts.relocated_bytes += chunk_bytes(move->segments, chunk);
    forget_if_dead(move, chunk);
    retire(move, chunk->segment);
}

static void shift_done(struct move *move, const struct move_action *action,
                       const struct move_result *result)
{
    if (result->ok) {
        copy_queued(move, action, false);
        return;
    }
    if (result->recalled)
        move->counts.recalls++;
    else
        note_failure(move, action);
    end_shift(move, action->chunk, MOVE_STAYED);
}

static void copy_done(struct move *move, const struct move_action *action,
                      const struct move_result *result)
{
    struct chunk *chunk = action->chunk;
    if (chunk->state == CHUNK_SHIFTING) {
        shift_done(move, action, result);
        return;
    }
    bool leaves = !chunk->early;
    if (result->ok && leaves && chunk->segment->unchecked) chunk->segment->unchecked--;
    if (action->check && result->digested && leaves) backup_note(move, chunk, result->unchanged);
    if (result->ok) {
        chunk->digested = result->digested;
        if (result->digested) chunk->digest = result->digest;
        chunk->unchanged = result->unchanged;
        if (leaves) backup_note_leave(move, chunk, result->unchanged && !action->paid);
        copy_queued(move, action, false);
        if (!result->unchanged) move->counts.out_bytes += action->bytes;
        move->counts.clean_drops += leaves && result->unchanged;
        move->counts.early_copies += !leaves && !result->unchanged;
        return;
    }
    if (result->recalled)
        move->counts.recalls++;
    else
        note_failure(move, action);
    struct frame *target = chunk->other;
    /* What was found to be changed has a backup no more. */
    chunk->digested &= action->check && result->intact && !result->digested;
    chunk_change(move, chunk, MOVE_LEAVE_FAILED, chunk->frame, NULL);
    backup_keep(move, chunk, target);
}

static void unmap_done(struct move *move, const struct move_action *action,
                       const struct move_result *result)
{
    struct chunk *chunk = action->chunk;
    struct frame *old = chunk->frame, *new = chunk->other;
    switch (result->mapping) {
    case MOVE_MAPPED_OLD:
        note_failure(move, action);
        chunk_change(move, chunk, MOVE_UNMAP_FAILED, old, NULL);
        if (new &&new != old) backup_keep(move, chunk, new);
        return;
    case MOVE_MAPPED_NOWHERE: chunk_change(move, chunk, MOVE_UNMAPPED, new, NULL); break;
    case MOVE_MAPPED_NEW: chunk_change(move, chunk, MOVE_REMAPPED, new, NULL); break;
    }
    if (new == old) return; /* hidden where it is */
    if (new && old->place != move->home[chunk->segment->card]) {
        move->counts.relocations++;
        move->counts.relocated_bytes += action->bytes;
    } else if (new)
        move->counts.evictions++;
    else
        move->counts.drops++;
    give(move, old);
    if (new && result->mapping == MOVE_MAPPED_NOWHERE) forget_if_dead(move, chunk);
    want_if_adrift(move, chunk);
    retire(move, chunk->segment);
}

static void make_done(struct move *move, const struct move_action *action,
                      const struct move_result *result)
{
    move->making--;
    move->making_of[action->place][action->pages]--;
    if (result->ok &&
        frame_add(move->frames, action->place, action->pages, result->handle, result->alias))
        return;
    if (action->stocks)
        move->stocks = false; /* who is in need will see for himself */
    else
        note_failure(move, action);
    frame_fail(move->frames, action->place, action->pages, result->exhausted && !action->stocks);
}

static void release_done(struct move *move, const struct move_action *action,
                         const struct move_result *result)
{
    if (action->gives) {
        owed_release_done(move, action->from, result->ok);
        return;
    }
    if (result->ok) {
        frame_forget(move->frames, action->from);
        return;
    }
    note_failure(move, action);
    frame_keep(move->frames, action->from);
}

void move_done(struct move *move, const struct move_action *action,
               const struct move_result *result)
{
    move->changes++;
    if (action->ticket) move->lanes[action->lane].busy = false;
    switch (action->kind) {
    case MOVE_DO_NOTHING: break;
    case MOVE_DO_MAKE: make_done(move, action, result); break;
    case MOVE_DO_RELEASE: release_done(move, action, result); break;
    case MOVE_DO_MAP: map_done(move, action, result); break;
    case MOVE_DO_COPY: copy_done(move, action, result); break;
    case MOVE_DO_UNMAP: unmap_done(move, action, result); break;
    case MOVE_DO_MARK:
        move->order->stream[action->slot]->marking = false;
        if (result->ok) order_mark_recorded(move->order->stream[action->slot], action->covers);
        break;
    }
}

static void land(struct move *move, struct chunk *chunk)
{
    struct frame *other = chunk->other;
    chunk_change(move, chunk, MOVE_LANDED, chunk->frame, NULL);
    backup_keep(move, chunk, other);
}

/* Copied early: it stays, and what it was copied to is its backup. */
static void keep(struct move *move, struct chunk *chunk)
{
    struct frame *other = chunk->other;
    chunk_change(move, chunk, MOVE_KEPT, chunk->frame, NULL);
    backup_keep(move, chunk, other);
}

bool move_copy_is_digested(const struct move *move, unsigned index)
{
    const struct move_lane *lane = &move->lanes[index];
    return lane->copies[(lane->ended + 1) % MOVE_COPIES].digested;
}

void move_copy_ended(struct move *move, unsigned index, const struct digest *digest)
{
    struct move_lane *lane = &move->lanes[index];
    assert(lane->ended < lane->issued);
    struct move_copy copy = lane->copies[++lane->ended % MOVE_COPIES];
    move->changes++;
    frame_copy_end(move->frames, copy.from);
    frame_copy_end(move->frames, copy.to);
    struct chunk *chunk = copy.chunk;
    if (chunk->ticket != lane->ended || chunk->lane != index) return;
    if (digest) {
        chunk->digest = *digest;
        chunk->digested = true;
    }
    if (chunk->state == CHUNK_SETTLING)
        land(move, chunk);
    else if (chunk->state == CHUNK_LEAVING && chunk->early)
        keep(move, chunk);
    else if (chunk->state == CHUNK_LEAVING)
        list_push_back(&move->copied, &chunk->queue);
    else if (chunk->state == CHUNK_SHIFTING)
        end_shift(move, chunk, MOVE_SHIFTED);
}

void move_exclusive_over(struct move *move)
{
    assert(move->exclusive_running > 0);
    move->exclusive_running--;
    move->changes++;
}

/* Takes a chunk on its way out back. */
static void recall(struct move *move, struct chunk *chunk)
{
    chunk_unqueue(chunk);
    move->counts.recalls++;
    chunk_change(move, chunk, MOVE_RECALL, chunk->frame, chunk->other);
    if (chunk->ticket <= move->lanes[chunk->lane].ended) land(move, chunk);
}

void move_forget_dead(struct move *move, struct segment *segment)
{
    move->changes++;
    for (uint32_t i = 0; i < segment->chunk_count; i++) {
        struct chunk *chunk = &segment->chunks[i];
        if (chunk->wanted && segment->state != SEGMENT_LIVE) chunk_unqueue(chunk);
        if (chunk_is_live(chunk) || chunk->state != CHUNK_ABSENT) continue;
        chunk_unqueue(chunk);
        forget_if_dead(move, chunk);
    }
}

void move_hide(struct move *move, struct chunk *chunk)
{
    if (chunk->state != CHUNK_RESIDENT) return;
    chunk_unqueue(chunk);
    chunk_change(move, chunk, MOVE_DROP, chunk->frame, chunk->frame);
    list_push_back(&move->hidden, &chunk->queue);
}

void move_want(struct move *move, struct chunk *chunk)
{
    if (chunk->wanted || chunk->state == CHUNK_LEAVING || chunk->state == CHUNK_SHIFTING) return;
    chunk->wanted = true;
    move->changes++;
    list_push_back(&move->wanted, &chunk->queue);
}

/* ---- admission ---- */

static bool add_wait(struct move_request *request, bool is_mark, uint32_t index, uint64_t number)
{
    if (request->host_waits) return false;
    for (uint32_t i = 0; i < request->wait_count; i++) {
        struct move_wait *wait = &request->waits[i];
        if (wait->is_mark != is_mark || wait->lane_or_slot != index) continue;
        if (wait->number < number) wait->number = number;
        return true;
    }
    if (request->wait_count == MOVE_WAITS) return false;
    request->waits[request->wait_count++] = (struct move_wait){is_mark, index, number};
    return true;
}

/* A former owner's work on other streams is waited for by event; false while no mark covers it yet.
 */
static bool admit_prior(struct move *move, struct move_request *request, struct segment *segment)
{
    if (!segment->has_prior || segment_prior_done(move->segments, segment)) return true;
    struct order_uses *prior = &segment->prior;
    order_uses_want_marks(move->order, prior);
    if (prior->crowded) return false;
    for (uint32_t i = 0; i < prior->count; i++) {
        const struct order_use *use = &prior->use[i];
        if (use->slot == request->slot) continue;
        if (move->order->stream[use->slot]->marked < use->sequence) return false;
        if (!add_wait(request, true, use->slot, use->sequence)) return false;
    }
    return true;
}

uint64_t move_wanted_pages(const struct move *move)
{
    uint64_t pages = 0;
    list_each(node, &move->wanted) pages += list_entry(node, struct chunk, queue)->pages;
    return pages;
}

enum admission { CHUNK_FINE, CHUNK_MISSING, CHUNK_LOST };

/* Whether the operation may use the chunk away from home, where it is mapped. A link that was lost
 * since then may have taken the right to; but what a graph uses stays. */
static bool may_be_far(const struct move *move, const struct move_request *request,
                       const struct chunk *chunk)
{
    if (chunk->segment->captured) return true;
    return (request->no_room || move->policy == VP_POLICY_INPLACE) && refuge_serves(move, chunk);
}

static enum admission admit_chunk(struct move *move, struct move_request *request,
                                  struct chunk *chunk, bool may_want)
{
    switch ((enum chunk_state)chunk->state) {
    case CHUNK_POISONED: return CHUNK_LOST;
    case CHUNK_RESIDENT:
        if (move_chunk_is_home(move, chunk)) return CHUNK_FINE;
        if (may_be_far(move, request, chunk)) {
            request->in_place++;
            request->in_place_pages += chunk->pages;
            return CHUNK_FINE;
        }
        break;
    case CHUNK_LEAVING:
        /* Its copy is about to be queued; or it makes room for the first in the queue, who would
         * send it away again. */
        if (may_want) atomic_store_explicit(&chunk->recalled, true, memory_order_relaxed);
        if (chunk->ticket == 0 || !may_want) return CHUNK_MISSING;
        recall(move, chunk);
        if (move_chunk_is_home(move, chunk)) return CHUNK_FINE;
        /* fall through */
    case CHUNK_SETTLING:
        if (chunk->frame->place != move->home[chunk->segment->card])
            return CHUNK_MISSING; /* it was to move on from another card; it will be wanted home */
        return add_wait(request, false, chunk->lane, chunk->ticket) ? CHUNK_FINE : CHUNK_MISSING;
    case CHUNK_SHIFTING:
        if (!may_want || request->no_room)
            return CHUNK_MISSING; /* it may go where it can be used */
        atomic_store_explicit(&chunk->recalled, true, memory_order_relaxed);
        if (chunk->ticket == 0) return CHUNK_MISSING;
        move->counts.recalls++;
        end_shift(move, chunk, MOVE_STAYED);
        break;
    case CHUNK_EMPTY:
    case CHUNK_ABSENT: break;
    case CHUNK_MAPPING:
    case CHUNK_UNMAPPING:
    case CHUNK_STATES: return CHUNK_MISSING;
    }
    if (may_want) move_want(move, chunk);
    return CHUNK_MISSING;
}

/* What is pinned keeps the chunks it is cut in, whoever owns it by then. */
static void set_pins(struct move *move, struct move_request *request, bool pinned)
{
    if (request->pinned == pinned) return;
    move->changes++;
    for (uint32_t i = 0; i < request->count; i++) {
        struct move_touch *touch = &request->touches[i];
        if (pinned ? move_touch_is_gone(touch) : !touch->pinned) continue;
        touch->pinned = pinned;
        struct segment *segment = touch->segment;
        segment->pins += pinned ? 1u : ~0u;
        for (uint32_t k = touch->first_chunk; k <= touch->last_chunk; k++)
            segment->chunks[k].pins = (uint16_t)(segment->chunks[k].pins + (pinned ? 1 : -1));
    }
    request->pinned = pinned;
}

/* Takes what the request demanded out of the queue again. */
static void withdraw(struct move *move, struct move_request *request)
{
    for (uint32_t i = 0; i < request->count; i++) {
        const struct move_touch *touch = &request->touches[i];
        for (uint32_t k = touch->first_chunk; k <= touch->last_chunk && !move_touch_is_gone(touch);
             k++)
            if (touch->segment->chunks[k].wanted) chunk_unqueue(&touch->segment->chunks[k]);
    }
}

void move_touches_change(struct move *move, struct move_request *request)
{
    if (request->pinned) withdraw(move, request);
    set_pins(move, request, false);
}

static void leave_queue(struct move *move, struct move_request *request)
{
    move_touches_change(move, request);
    if (move->requests.next == &request->link) move->narrow = false;
    if (request->queued) list_remove(&request->link);
    request->queued = false;
}

static enum admission admit_all(struct move *move, struct move_request *request, bool first)
{
    enum admission all = CHUNK_FINE;
    request->wait_count = request->in_place = 0;
    request->in_place_pages = 0;
    for (uint32_t i = 0; i < request->count; i++) {
        const struct move_touch *touch = &request->touches[i];
        if (!touch->segment->unready || move_touch_is_gone(touch)) continue;
        if (!admit_prior(move, request, touch->segment)) all = CHUNK_MISSING;
        for (uint32_t k = touch->first_chunk; k <= touch->last_chunk; k++) {
            enum admission one = admit_chunk(move, request, &touch->segment->chunks[k], first);
            if (one == CHUNK_LOST) return CHUNK_LOST;
            if (one == CHUNK_MISSING) all = CHUNK_MISSING;
        }
    }
    return all;
}

static uint32_t cards_of(const struct move_request *request)
{
    uint32_t cards = 0;
    if (request->exclusive) return UINT32_MAX;
    for (uint32_t i = 0; i < request->count; i++)
        if (!move_touch_is_gone(&request->touches[i]))
            cards |= UINT32_C(1) << request->touches[i].segment->card;
    return cards;
}

/* Two who do not fit together must not take each other's chunks: of those that touch the same
 * card's the first may demand. */
static bool may_demand(const struct move *move, const struct move_request *request)
{
    list_each(node, &move->requests)
    {
        const struct move_request *other = list_entry(node, struct move_request, link);
        if (other == request) return true;
        if (move->strict || move->narrow || (other->cards & request->cards)) return false;
    }
    return true;
}

enum move_verdict move_admit(struct move *move, struct move_request *request)
{
    request->cards = cards_of(request);
    bool first = may_demand(move, request);
    if (!first && request->pinned) move_touches_change(move, request);
    if (first) set_pins(move, request, true);
    enum admission all = admit_all(move, request, first);
    /* In turn, if all have to: or who waits for the device to be idle would wait for ever. */
    bool alone = (!request->exclusive && !move->strict) ||
                 (first && move->moving == 0 && !anything_is_adrift(move));
    if (all == CHUNK_FINE && alone) {
        leave_queue(move, request);
        move->counts.in_place += request->in_place > 0;
        move->counts.in_place_pages += request->in_place_pages;
        move->exclusive_running += request->exclusive;
        return MOVE_ADMITTED;
    }
    if (all == CHUNK_LOST || request->failed || request->failures > MOVE_PATIENCE) {
        move_abandon(move, request);
        return MOVE_REFUSED;
    }
    if (!request->queued) {
        list_push_back(&move->requests, &request->link);
        request->queued = true;
    }
    return MOVE_HELD;
}

void move_abandon(struct move *move, struct move_request *request)
{
    leave_queue(move, request);
}

enum move_cause move_cause(const struct move *move, const struct move_request *request)
{
    enum move_cause cause = MOVE_FOR_ALONE;
    for (uint32_t i = 0; i < request->count && cause != MOVE_FOR_ROOM; i++) {
        const struct move_touch *touch = &request->touches[i];
        for (uint32_t k = touch->first_chunk; k <= touch->last_chunk; k++) {
            const struct chunk *chunk = &touch->segment->chunks[k];
            enum move_cause one = MOVE_FOR_ALONE;
            if (chunk->state == CHUNK_EMPTY || chunk->state == CHUNK_MAPPING) one = MOVE_FOR_MAP;
            if (chunk->state == CHUNK_ABSENT || chunk->state == CHUNK_SHIFTING) one = MOVE_FOR_IN;
            bool full =
                frame_room_pages(move->frames, move->home[touch->segment->card]) < chunk->pages;
            if (chunk->wanted && full) one = MOVE_FOR_ROOM;
            if (one > cause) cause = one;
        }
    }
    return cause;
}

void move_explain(const struct move *move, const struct move_request *request, char *text,
                  size_t size)
{
    unsigned states[CHUNK_STATES] = {0}, away = 0, priors = 0, queue = 0;
    for (uint32_t i = 0; i < request->count; i++) {
        const struct move_touch *touch = &request->touches[i];
        priors += touch->segment->has_prior;
        for (uint32_t k = touch->first_chunk; k <= touch->last_chunk; k++) {
            const struct chunk *chunk = &touch->segment->chunks[k];
            states[chunk->state]++;
            away += chunk->state == CHUNK_RESIDENT && !move_chunk_is_home(move, chunk);
        }
    }
    list_each(node, &move->requests) queue++;
    int used = snprintf(text, size, "%s, %u in the queue%s; its chunks:",
                        move->requests.next == &request->link ? "first" : "behind others", queue,
                        request->exclusive ? ", runs alone"
                        : move->strict     ? ", strict: with the device idle first"
                                           : "");
    for (unsigned i = 0; i < CHUNK_STATES && used < (int)size; i++)
        if (states[i])
            used += snprintf(text + used, size - (size_t)used, " %u %s", states[i],
                             move_state_name((enum chunk_state)i));
    if (used < (int)size)
        snprintf(
            text + used, size - (size_t)used,
            " (%u not at home), %u segments with a former owner's work; %u chunks on the move, %u "
            "operations running alone, %u frames being made, %llu pages wanted",
            away, priors, move->moving, move->exclusive_running, move->making,
            (unsigned long long)move_wanted_pages(move));
}

bool move_is_valid(const struct move *move)
{
    uint32_t moving = 0, afar = 0;
    uint64_t coming[VP_MAX_PLACES] = {0}, guests[VP_MAX_PLACES] = {0};
    list_each(node, &move->segments->all)
    {
        const struct segment *segment = list_entry(node, struct segment, all);
        if (segment->state == SEGMENT_BARE) continue;
        uint32_t unready = segment->has_prior;
        for (uint32_t i = 0; i < segment->chunk_count; i++) {
            const struct chunk *chunk = &segment->chunks[i];
            enum chunk_state state = (enum chunk_state)chunk->state;
            bool going =
                state == CHUNK_LEAVING || state == CHUNK_UNMAPPING || state == CHUNK_SHIFTING;
            bool home = move_chunk_is_home(move, chunk);
            unsigned home_place = move->home[segment->card];
            if (chunk->frame && chunk->frame->place != home_place)
                guests[chunk->frame->place] += chunk->pages;
            if (chunk->other && chunk->other != chunk->frame && chunk->other->place != home_place)
                guests[chunk->other->place] += chunk->pages;
            unready += !home;
            if (chunk->home != home) return false;
            afar += state == CHUNK_RESIDENT && !home;
            moving += going || state == CHUNK_MAPPING || state == CHUNK_SETTLING;
            bool early = state == CHUNK_LEAVING && chunk->early;
            if (going && !early && chunk->other != chunk->frame)
                coming[chunk->frame->place] += chunk->pages;
            if ((state == CHUNK_EMPTY) != (chunk->frame == NULL) && state != CHUNK_MAPPING)
                return false;
            bool copied =
                state == CHUNK_SETTLING || state == CHUNK_LEAVING || state == CHUNK_SHIFTING;
            if (copied && !chunk->other) return false;
            if (chunk->frame && (chunk->frame->free || chunk->frame->parked)) return false;
            if (chunk->frame && chunk->frame->pages != chunk->pages) return false;
            const struct frame *backup = chunk->backup;
            if (backup && (!move_chunk_is_home(move, chunk) || !chunk->digested)) return false;
            if (backup && (backup->keeper != &chunk->backup || backup->pages != chunk->pages))
                return false;
        }
        if (unready != segment->unready) return false;
    }
    return moving == move->moving && afar == move->afar &&
           memcmp(coming, move->coming_pages, sizeof coming) == 0 &&
           memcmp(guests, move->guest_pages, sizeof guests) == 0;
}
