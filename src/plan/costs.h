/* costs: what moving memory between one card and its refuge costs, as the planner sees it.
 *
 * Taken from the machine's description. Copies out are paced: cut in pieces, one of them queued at
 * a time, because setting access to a mapping waits for what is queued (1 ms where the queue is
 * full, half a piece on average where it is paced). */
#ifndef PLAN_COSTS_H
#define PLAN_COSTS_H

#include "machine/machine.h"

struct plan_costs {
    double in_gbps, out_gbps;                         /* one direction alone, 1e9 bytes a second */
    double in_both_gbps, out_both_gbps;               /* when both run */
    uint64_t copy_start_ns;                           /* of one copy, on the device */
    uint64_t queue_ns;                                /* the host's time for queueing one */
    uint64_t piece_bytes;                             /* of copies out */
    uint64_t pace_ns;                                 /* between two pieces */
    struct machine_call_cost map, unmap, access;      /* a frame of the card */
    struct machine_call_cost host_access, host_unmap; /* a frame of the refuge */
    struct machine_call_cost make, release;           /* a frame of the card */
    double in_place;     /* time of a use in place, relative to one copy of the same bytes */
    bool in_place_works; /* the card can use memory of the refuge where it is */
};

/* Costs between card `card` and the place that takes what does not fit: another card, or the host
 * (place number machine->cards). */
void plan_costs_of(const struct machine *machine, unsigned card, unsigned refuge,
                   struct plan_costs *costs);

uint64_t plan_call_ns(const struct machine_call_cost *call, uint64_t bytes);

#endif
