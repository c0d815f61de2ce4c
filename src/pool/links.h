/* links: what is not whole of the links between the cards, as NVML tells it when a report is made.
 *
 * A link is lost, or has lost lanes; a card passes on no peer traffic, or wants to be reset. Data
 * behind a lost link is reached another way, by the driver; what that cost shows in rates and
 * stalls, and what it was says this. Where NVML is not there, nothing is known. */
#ifndef POOL_LINKS_H
#define POOL_LINKS_H

#include <stdbool.h>

#include "driver/nvml.h"

enum { LINKS_MOST = 64, LINKS_SWITCH = VP_MAX_CARDS };

struct link_fault {
    unsigned a, b; /* cards; b may be LINKS_SWITCH */
    unsigned lanes, lanes_up;
};

struct card_fault {
    unsigned card;
    enum nvml_recovery action;
};

struct links {
    struct link_fault fault[LINKS_MOST];
    unsigned faults;
    struct card_fault card[VP_MAX_CARDS];
    unsigned cards;
};

/* Asks NVML about that many cards; leaves *links empty where it is not there. */
void links_look(const struct driver *driver, unsigned cards, struct links *links);

/* One fault in words, without a full stop: those of links come first. NULL: there are no more. */
const char *links_text(const struct links *links, unsigned index, char *text, size_t size);

/* The word for a card's recovery action, as in the report. */
const char *links_action(enum nvml_recovery action);

#endif
