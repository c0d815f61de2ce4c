#include "plan/costs.h"

#include <assert.h>

#include "base/units.h"

/* Measured on one H200 with one piece outstanding: 2, 4, 8 MiB at 43.5, 49.0, 50.9 GB/s
 * against 55.3 unpaced, which is 10 us a piece; a set access meanwhile took 57, 105, 92 us against
 * 30 to 44, which is half a piece more. 16 MiB are beyond that and follow from the same two lines.
 */
enum { PIECE_BYTES = 16 << 20, PACE_NS = 10000 };

/* Fused AdamW on state in host memory: 1.15 to 1.2 times the copies' time. */
static const double in_place_factor = 1.2;

void plan_costs_of(const struct machine *machine, unsigned card, unsigned refuge,
                   struct plan_costs *costs)
{
    assert(card < machine->cards && refuge <= machine->cards && refuge != card);
    const struct machine_path *in = &machine->path[refuge][card];
    const struct machine_path *out = &machine->path[card][refuge];
    bool host = refuge == machine->cards;
    const struct machine_costs *calls = &machine->costs;
    *costs = (struct plan_costs){
        .in_gbps = in->gbps,
        .out_gbps = out->gbps,
        .in_both_gbps = in->both_gbps > 0 ? in->both_gbps : in->gbps,
        .out_both_gbps = out->both_gbps > 0 ? out->both_gbps : out->gbps,
        .copy_start_ns = in->start_ns,
        .queue_ns = calls->copy.base_ns + calls->record.base_ns + calls->query.base_ns,
        .piece_bytes = PIECE_BYTES,
        .pace_ns = PACE_NS,
        .map = calls->map,
        .unmap = calls->unmap_card,
        .access = calls->access_card,
        .host_access = host ? calls->access_host : calls->access_card,
        .host_unmap = host ? calls->unmap_host : calls->unmap_card,
        .make = calls->create_card,
        .release = calls->release_card,
        .in_place = in_place_factor,
        .in_place_works = out->access,
    };
}

uint64_t plan_call_ns(const struct machine_call_cost *call, uint64_t bytes)
{
    return call->base_ns + call->per_mib_ns * bytes / MIB;
}
