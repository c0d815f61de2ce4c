/* route: the way that data takes from card to card, and how fast it goes there.
 *
 * A link carries (lanes in use) × (lane's rate) × payload / (payload + header) × factor. Of all
 * ways over links the shortest is taken: the one that keeps links busy for the least time in total,
 * so a way over two links has to be more than twice as fast as one. Relays (cards on the way) may
 * be forbidden; each leaves a factor of the rate. Dead links and relays are gone around. Where no
 * link leads, or the host is the shorter way, data goes through the host. Among equals the one with
 * the lowest numbers wins, so a way is always the same.
 *
 * Pure: everything follows from the description, which holds the state of each link too. */
#ifndef MACHINE_ROUTE_H
#define MACHINE_ROUTE_H

#include "machine/machine.h"

enum { ROUTE_MAX_LINKS = 4 };

enum route_kind {
    ROUTE_WITHIN, /* one place */
    ROUTE_GIVEN,  /* a path that the description gives as it is; to or from the host, always */
    ROUTE_LINKS,
    ROUTE_HOST, /* card to card through the host */
};

struct route {
    enum route_kind kind;
    unsigned links; /* over how many it goes; 0 but for ROUTE_LINKS */
    unsigned hops;  /* links from card to card: the switch on the way makes none; 0 with the host */
    uint8_t link[ROUTE_MAX_LINKS];     /* in machine->link, in order */
    uint8_t node[ROUTE_MAX_LINKS + 1]; /* between them: from, relays or the switch, to */
    double share[ROUTE_MAX_LINKS];     /* of each link that this way takes at its full rate */
    struct machine_path path;
};

/* Lanes that carry data now: spare ones stand in for dead ones. */
unsigned route_lanes_in_use(const struct machine_link *link);

/* What a link carries each way, in GB/s; 0: it is dead. */
double route_link_gbps(const struct machine_link *link);

/* The link between two cards, or a card and the switch, or -1. */
int route_link_between(const struct machine *machine, unsigned a, unsigned b);

/* The way from place to place, as things are now. */
struct route route_find(const struct machine *machine, unsigned from, unsigned to);

/* Derives the paths between the cards of a routed machine; does nothing to others. To be called
 * when a description is made, and again when the state of a link or relay has changed. */
void route_fill_paths(struct machine *machine);

#endif
