/* translate: a model of address translation in layers, for machines that do it in hardware of their
 * own. Nothing in the pool works like this: there, real page tables do it, and a lookup is needed
 * once per launch (space.h). The model says what the layers would cost.
 *
 *     a card's cache of entries     covers 90 % of the card's memory; entries of near and far pages
 *       | miss
 *     a filter (base/cuckoo.h)      "is the page remote?"; exact for remote ones
 *       | no             | yes, or so it seems
 *     the card's table   the controller: the table of all pages, on the CPU
 *     in its own memory  one at a time, in the order in which they ask; over the link to the host
 *
 * A remote page is never taken for a local one. A local one that the filter takes for remote costs
 * the way to the controller, which answers what is so. Either answer goes into the cache. Where a
 * page goes to another place, the controller enters that, in its turn, all cards forget their
 * entries, and the card to which it comes gets one. So an answer is right at all times.
 *
 * Pages are numbers below the count given at the start. Who asks gives the time; it may not go
 * back. Same calls, same answers. */
#ifndef PLAN_TRANSLATE_H
#define PLAN_TRANSLATE_H

#include "machine/machine.h"

enum {
    TRANSLATE_PERCENT = 90, /* of the card's memory that its cache covers */
    TRANSLATE_WAYS = 8,
    TRANSLATE_FILTER_BITS = 12,
};

/* What one card asked of one place, or more of them added up. Times in ns. */
struct translate_count {
    uint64_t asked, hits, local, controlled; /* answered by cache, own table, controller */
    uint64_t mistaken;                       /* of those, local pages that seemed remote */
    uint64_t time_ns, worst_ns;
    uint64_t waited_ns; /* of that, in the controller's queue */
};

/* Counts of times: exact below 64 ns, then in steps of 1/32. */
enum { TRANSLATE_STEPS = 32, TRANSLATE_BUCKETS = 60 * TRANSLATE_STEPS };

struct translate_times {
    uint64_t count[TRANSLATE_BUCKETS];
};

struct translate;

/* Pages are page_bytes each, page_count at most. VP_NO_HOST_MEMORY. */
vp_status translate_create(const struct machine *machine, uint64_t page_bytes, uint32_t page_count,
                           struct translate **translate) VP_MUST_USE;
void translate_destroy(struct translate *translate);

/* The page is at this place (a card's number; machine->cards: the host) from now on. */
void translate_place(struct translate *translate, uint32_t page, unsigned place, uint64_t now_ns);

/* The card asks where the page, which has a place, is. Returns how long the answer takes. */
uint64_t translate_ask(struct translate *translate, unsigned card, uint32_t page, uint64_t now_ns);

/* Of one card and one place, from the start or the last translate_reset on. */
const struct translate_count *translate_count(const struct translate *translate, unsigned card,
                                              unsigned place);
void translate_add(struct translate_count *sum, const struct translate_count *count);
double translate_average_ns(const struct translate_count *count);

/* The time that `share` of all answers did not exceed, to within 1/32 above. 0: there were none. */
uint64_t translate_quantile_ns(const struct translate *translate, double share);

/* Counters only: what is cached stays. */
void translate_reset(struct translate *translate);

uint32_t translate_entries(const struct translate *translate, unsigned card);
uint64_t translate_moves(const struct translate *translate);

/* For tests and debug builds: cached entries are of pages that have a place, filters know all
 * remote ones. */
bool translate_is_valid(const struct translate *translate);

#endif
