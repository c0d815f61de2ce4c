/* costs: what moving memory between one card and its refuges costs, as the planner sees it.
 *
 * Taken from the machine's description. Each refuge, another card or the host, has a way in and a
 * way out; ways that have links in common leave each other less. Copies out are paced: cut in
 * pieces, one of them queued at a time on each way and the next one when that is about to end,
 * because setting access to a mapping waits for what is queued (1 ms where the queue is full, half
 * a piece on average where it is paced). */
#ifndef PLAN_COSTS_H
#define PLAN_COSTS_H

#include "machine/machine.h"
#include "machine/route.h"

enum {
    PLAN_REFUGES = VP_MAX_CARDS, /* all other cards, and the host */
    PLAN_WAY_LINKS = ROUTE_MAX_LINKS,
};

/* One direction of a link, of which a way takes a share at its full rate. Number 2n and 2n + 1 are
 * the two directions of one link. */
struct plan_claim {
    uint32_t link;
    double share;
};

/* How copies go from the card to a refuge, or from there to the card. */
struct plan_way {
    double gbps;       /* alone, 1e9 bytes a second */
    double both_gbps;  /* when something goes the other way on one of its links */
    uint64_t start_ns; /* of one copy, on the device */
    uint32_t claims;
    struct plan_claim claim[PLAN_WAY_LINKS];
};

struct plan_refuge {
    uint32_t place; /* in the machine */
    uint32_t hops;  /* links between the cards; 0: the host, or through it */
    struct plan_way in, out;
    struct machine_call_cost access, unmap; /* a frame there, mapped for the card */
    bool in_place_works;                    /* the card can use memory there where it is */
};

struct plan_costs {
    uint32_t refuges; /* nearest first */
    struct plan_refuge refuge[PLAN_REFUGES];
    uint64_t queue_ns;                           /* the host's time for queueing one copy */
    uint64_t piece_bytes;                        /* of copies out */
    struct machine_call_cost map, unmap, access; /* a frame of the card */
    struct machine_call_cost make, release;      /* the same */
    /* Time of a use in place, relative to one copy of the same bytes: where the rest of what an
     * operation needs does not fit, and where everything beyond the card is used so. */
    double in_place, all_in_place;
};

/* Costs between card `card` and the places that take what does not fit, nearest first: other cards,
 * or the host (place number machine->cards). At most PLAN_REFUGES. */
void plan_costs_of(const struct machine *machine, unsigned card, const unsigned *places,
                   unsigned count, struct plan_costs *costs);

/* The places that the card's chunks can go to, nearest (fastest both ways) first: the cards whose
 * memory it can use, and the host. Returns how many. */
unsigned plan_find_places(const struct machine *machine, unsigned card,
                          unsigned places[PLAN_REFUGES]);

/* Time of a copy of a MiB there and one back, alone. */
double plan_return_ns(const struct plan_refuge *refuge);

uint64_t plan_call_ns(const struct machine_call_cost *call, uint64_t bytes);

#endif
