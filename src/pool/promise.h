/* promise: whether what is asked for can be kept somewhere.
 *
 * Each card that computes has data, which may lie in some places (its own memory, its refuges), and
 * each place has room. All of it fits if there is a way to share it out: a flow from cards to
 * places that carries everything. Chunks that stand in each other's way are moved until it is so
 * (move/refuge.h), so what fits in this sense can be had. Pure. */
#ifndef POOL_PROMISE_H
#define POOL_PROMISE_H

#include <stdbool.h>
#include <stdint.h>

#include "vrampool.h"

struct promise {
    unsigned cards, places;
    uint64_t need[VP_MAX_CARDS];      /* pages of each card's data */
    uint32_t places_of[VP_MAX_CARDS]; /* bit i: it may lie in place i */
    uint64_t room[VP_MAX_PLACES];     /* pages of each place */
};

bool promise_fits(const struct promise *promise);

#endif
