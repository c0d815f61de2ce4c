#include "pool/promise.h"

#include <assert.h>
#include <string.h>

enum { NOBODY = -1 };

/* Pages of each card in each place, and what is left of need and room. */
struct flow {
    uint64_t pages[VP_MAX_CARDS][VP_MAX_PLACES];
    uint64_t need[VP_MAX_CARDS], room[VP_MAX_PLACES];
};

static void put(struct flow *flow, unsigned card, unsigned place)
{
    uint64_t pages = flow->need[card] < flow->room[place] ? flow->need[card] : flow->room[place];
    flow->pages[card][place] += pages;
    flow->need[card] -= pages;
    flow->room[place] -= pages;
}

/* Breadth first from a card: it reaches its places, and through each place the cards that have
 * something there, which could go elsewhere. Returns a place with room, or NOBODY. */
static int search(const struct promise *promise, const struct flow *flow, unsigned from,
                  int *card_via, int *place_via)
{
    unsigned queue[VP_MAX_CARDS], count = 1;
    for (unsigned i = 0; i < VP_MAX_CARDS; i++) card_via[i] = NOBODY;
    for (unsigned i = 0; i < VP_MAX_PLACES; i++) place_via[i] = NOBODY;
    queue[0] = from;
    for (unsigned at = 0; at < count; at++) {
        for (unsigned place = 0; place < promise->places; place++) {
            bool reaches = (promise->places_of[queue[at]] >> place & 1) != 0;
            if (!reaches || place_via[place] != NOBODY) continue;
            place_via[place] = (int)queue[at];
            if (flow->room[place]) return (int)place;
            for (unsigned card = 0; card < promise->cards; card++) {
                if (!flow->pages[card][place] || card == from || card_via[card] != NOBODY) continue;
                card_via[card] = (int)place;
                queue[count++] = card;
            }
        }
    }
    return NOBODY;
}

/* Moves what lies along the way one place on, as much as all of it allows. */
static void push(struct flow *flow, unsigned from, int last, const int *card_via,
                 const int *place_via)
{
    uint64_t most = flow->room[last] < flow->need[from] ? flow->room[last] : flow->need[from];
    for (int card = place_via[last]; card != (int)from; card = place_via[card_via[card]])
        if (flow->pages[card][card_via[card]] < most) most = flow->pages[card][card_via[card]];
    flow->need[from] -= most;
    flow->room[last] -= most;
    int card = place_via[last], place = last;
    for (; card != (int)from; card = place_via[place]) {
        flow->pages[card][place] += most;
        place = card_via[card];
        flow->pages[card][place] -= most;
    }
    flow->pages[card][place] += most;
}

bool promise_fits(const struct promise *promise)
{
    static const struct flow nothing;
    struct flow flow = nothing;
    int card_via[VP_MAX_CARDS], place_via[VP_MAX_PLACES];
    assert(promise->cards <= VP_MAX_CARDS && promise->places <= VP_MAX_PLACES);
    memcpy(flow.need, promise->need, sizeof flow.need);
    memcpy(flow.room, promise->room, sizeof flow.room);
    for (unsigned card = 0; card < promise->cards; card++)
        for (unsigned place = 0; place < promise->places; place++)
            if (promise->places_of[card] >> place & 1) put(&flow, card, place);
    for (unsigned card = 0; card < promise->cards; card++) {
        while (flow.need[card]) {
            int place = search(promise, &flow, card, card_via, place_via);
            if (place == NOBODY) return false;
            push(&flow, card, place, card_via, place_via);
        }
    }
    return true;
}
