#include "move/stock.h"

#include "move/policy.h"

enum { HOME_PART = 2, HOST_PART = 4 }; /* of a card in use before, of the host at most */

/* The chunks that may have to leave for the host, and the frames there are for them: pages,
 * by the size of each. */
struct sizes {
    uint64_t live[FRAME_MAX_PAGES + 1], made[FRAME_MAX_PAGES + 1];
    uint64_t live_pages;
};

static bool find_host(const struct move *move, unsigned *host)
{
    for (unsigned place = 0; place < move->frames->places; place++) {
        if (move->frames->place[place].kind != VP_PLACE_HOST) continue;
        *host = place;
        return move->owed[place].wanted_pages == 0;
    }
    return false;
}

/* Whether what leaves the card goes to the host first. */
static bool is_served(const struct move *move, unsigned card, unsigned host)
{
    return move->refuges[card] && move->refuge[card][0] == host;
}

static uint64_t wanted_pages(const struct move *move, unsigned host)
{
    uint64_t most = frame_capacity_pages(&move->frames->place[host]) / HOST_PART, wanted = 0;
    for (unsigned card = 0; card < VP_MAX_CARDS; card++) {
        if (!is_served(move, card, host)) continue;
        const struct frame_place *home = &move->frames->place[move->home[card]];
        uint64_t half = frame_capacity_pages(home) / HOME_PART;
        if (home->used_pages > half) wanted += 2 * (home->used_pages - half) / 3;
    }
    return wanted < most ? wanted : most;
}

static void count_live(const struct outlooks *outlooks, struct sizes *sizes)
{
    for (uint32_t i = 0; i < outlooks->count; i++) {
        const struct segment *segment = outlooks->of[i].segment;
        for (uint32_t k = 0; k < segment->chunk_count; k++) {
            const struct chunk *chunk = &segment->chunks[k];
            if (chunk->standing != STANDING_LIVE) continue;
            sizes->live[chunk->pages] += chunk->pages;
            sizes->live_pages += chunk->pages;
        }
    }
}

static void count_made(const struct move *move, unsigned host, struct sizes *sizes)
{
    for (uint32_t pages = 1; pages <= FRAME_MAX_PAGES; pages++)
        sizes->made[pages] = (uint64_t)move->making_of[host][pages] * pages;
    for (uint64_t i = 0; i < move->frames->count; i++) {
        const struct frame *frame = move->frames->by_number[i];
        if (frame && frame->place == host) sizes->made[frame->pages] += frame->pages;
    }
}

/* The size of which most is lacking, a whole frame at least; 0: none. */
static uint32_t find_lacking(const struct sizes *sizes, uint64_t wanted)
{
    uint32_t found = 0;
    uint64_t most = 0;
    for (uint32_t pages = 1; pages <= FRAME_MAX_PAGES && sizes->live_pages; pages++) {
        uint64_t share =
            (uint64_t)((double)wanted * (double)sizes->live[pages] / (double)sizes->live_pages);
        if (share < sizes->made[pages] + pages || share - sizes->made[pages] <= most) continue;
        most = share - sizes->made[pages];
        found = pages;
    }
    return found;
}

bool stock_next(struct move *move, struct move_action *action)
{
    unsigned host;
    if (!move->stocks || !find_host(move, &host)) return false;
    const struct frame_place *place = &move->frames->place[host];
    uint64_t wanted = wanted_pages(move, host);
    if (place->used_pages + place->free_pages + place->promised_pages >= wanted) return false;
    struct sizes sizes = {0};
    for (unsigned card = 0; card < VP_MAX_CARDS; card++)
        if (is_served(move, card, host)) count_live(&move->segments->outlooks[card], &sizes);
    count_made(move, host, &sizes);
    uint32_t pages = find_lacking(&sizes, wanted);
    if (!pages || !frame_promise(move->frames, host, pages)) return false;
    policy_start_make(move, host, pages, action);
    action->stocks = true;
    return true;
}
