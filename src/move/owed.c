#include "move/owed.h"

#include <assert.h>

#include "move/policy.h"
#include "move/refuge.h"

void owed_begin(struct move *move, unsigned place, uint64_t wanted_pages, uint64_t most_pages,
                bool cedes)
{
    struct move_owed *owed = &move->owed[place];
    assert(!owed_is_open(move, place) && !owed->given_pages);
    owed->wanted_pages = wanted_pages < most_pages ? wanted_pages : most_pages;
    owed->most_pages = most_pages;
    owed->cedes = cedes;
    if (move->frames->place[place].kind == VP_PLACE_HOST) move->stocks = false; /* it is short */
    move->changes++;
}

uint64_t owed_reserved_pages(const struct move *move, unsigned place)
{
    return move->owed[place].cedes ? move->owed[place].most_pages : 0;
}

bool owed_is_open(const struct move *move, unsigned place)
{
    return move->owed[place].wanted_pages || move->owed[place].releasing;
}

void owed_stop(struct move *move, unsigned place)
{
    move->owed[place].wanted_pages = 0;
    move->changes++;
}

uint64_t owed_end(struct move *move, unsigned place)
{
    struct move_owed *owed = &move->owed[place];
    uint64_t pages = owed->given_pages;
    assert(!owed_is_open(move, place));
    *owed = (struct move_owed){0};
    return pages;
}

bool owed_next_release(struct move *move, struct move_action *action)
{
    for (unsigned place = 0; place < move->frames->places; place++) {
        struct move_owed *owed = &move->owed[place];
        if (!owed->wanted_pages) continue;
        struct frame *frame = frame_withdraw(move->frames, place, owed->most_pages);
        if (!frame && move->frames->place[place].free_pages) owed_stop(move, place); /* too large */
        if (!frame) continue;
        owed->wanted_pages -= frame->pages < owed->wanted_pages ? frame->pages : owed->wanted_pages;
        owed->most_pages -= frame->pages;
        owed->releasing++;
        action->kind = MOVE_DO_RELEASE;
        action->from = frame;
        action->place = place;
        action->gives = true;
        return true;
    }
    return false;
}

void owed_release_done(struct move *move, struct frame *frame, bool released)
{
    struct move_owed *owed = &move->owed[frame->place];
    assert(owed->releasing > 0);
    owed->releasing--;
    if (released) {
        owed->given_pages += frame->pages;
        (owed->cedes ? frame_cede : frame_forget)(move->frames, frame);
    } else {
        owed->most_pages += frame->pages;
        frame_keep(move->frames, frame);
    }
}

/* Frames of the place that will be free. */
static uint64_t coming_pages(const struct move *move, unsigned place)
{
    return move->coming_pages[place] + move->frames->place[place].parked_pages;
}

bool owed_next_eviction(struct move *move, struct move_action *action)
{
    for (unsigned card = 0; card < VP_MAX_CARDS; card++) {
        unsigned home = move->home[card];
        const struct move_owed *owed = &move->owed[home];
        if (!move->refuges[card] || !owed->wanted_pages) continue;
        if (coming_pages(move, home) >= owed->wanted_pages) continue;
        enum found found = refuge_send_guest_on(move, card, false, action);
        if (found == FOUND_NOTHING) found = policy_evict(move, card, action);
        if (found == FOUND_ACTION) return true;
        /* Whoever copies out sees the same, so that either may say that there is no more. */
        if (found == FOUND_NOTHING && !coming_pages(move, home)) owed_stop(move, home);
    }
    return false;
}
