#include "plan/costs.h"

#include <assert.h>

#include "base/units.h"

/* As in pool/pieces.c. Measured on one H200 with one piece of 2, 4, 8 MiB outstanding: a set access
 * meanwhile took 57, 105, 92 us against 30 to 44, which is half a piece more. That pieces follow
 * each other without a gap is not measured yet. */
enum { PIECE_BYTES = 8 << 20 };

/* Links that no description numbers: each card's own to the host, and those of pairs of cards whose
 * paths are given as they are. */
enum { HOST_LINK = MACHINE_MAX_LINKS, PAIR_LINK = HOST_LINK + VP_MAX_CARDS };

/* Fused AdamW on state in host memory: 1.15 to 1.2 times the copies' time. A whole step of gpt
 * under the policy inplace, whose matrix products read their operands more than once, calibrated on
 * one H200: 5.02 s at 24G and 2.80 s at 32G would be 2.6 and 3.1 times. */
static const double in_place_factor = 1.2, all_in_place_factor = 2.8;

static void add_claim(struct plan_way *way, uint32_t link, bool second, double share)
{
    assert(way->claims < PLAN_WAY_LINKS);
    way->claim[way->claims++] = (struct plan_claim){2 * link + second, share > 1 ? 1 : share};
}

/* The same claims as a copy makes in the emulator. */
static struct plan_way way_of(const struct machine *machine, unsigned from, unsigned to)
{
    const struct route route = route_find(machine, from, to);
    const struct machine_path *path = &machine->path[from][to];
    unsigned host = machine->cards;
    struct plan_way way = {.gbps = path->gbps,
                           .both_gbps = path->both_gbps > 0 ? path->both_gbps : path->gbps,
                           .start_ns = path->start_ns};
    for (unsigned i = 0; i < route.links; i++)
        add_claim(&way, route.link[i], machine->link[route.link[i]].ends[0] != route.node[i],
                  route.share[i]);
    if (route.kind == ROUTE_LINKS) return way;
    if (route.kind == ROUTE_GIVEN && from < host && to < host) {
        unsigned low = from < to ? from : to, high = from < to ? to : from;
        add_claim(&way, PAIR_LINK + low * VP_MAX_CARDS + high, from > to, 1);
        return way;
    }
    if (from < host)
        add_claim(&way, HOST_LINK + from, false, way.gbps / machine->path[from][host].gbps);
    if (to < host) add_claim(&way, HOST_LINK + to, true, way.gbps / machine->path[host][to].gbps);
    return way;
}

static struct plan_refuge refuge_of(const struct machine *machine, unsigned card, unsigned place)
{
    bool host = place == machine->cards;
    return (struct plan_refuge){
        .place = place,
        .hops = host ? 0 : route_find(machine, card, place).hops,
        .in = way_of(machine, place, card),
        .out = way_of(machine, card, place),
        .access = host ? machine->costs.access_host : machine->costs.access_card,
        .unmap = host ? machine->costs.unmap_host : machine->costs.unmap_card,
        .in_place_works = machine->path[card][place].access,
    };
}

void plan_costs_of(const struct machine *machine, unsigned card, const unsigned *places,
                   unsigned count, struct plan_costs *costs)
{
    const struct machine_costs *calls = &machine->costs;
    assert(card < machine->cards && count <= PLAN_REFUGES);
    *costs = (struct plan_costs){
        .refuges = count,
        .queue_ns = calls->copy.base_ns + calls->record.base_ns + calls->query.base_ns,
        .piece_bytes = PIECE_BYTES,
        .map = calls->map,
        .unmap = calls->unmap_card,
        .access = calls->access_card,
        .make = calls->create_card,
        .release = calls->release_card,
        .in_place = in_place_factor,
        .all_in_place = all_in_place_factor,
    };
    for (unsigned i = 0; i < count; i++) {
        assert(places[i] <= machine->cards && places[i] != card);
        costs->refuge[i] = refuge_of(machine, card, places[i]);
    }
}

/* Of a MiB there and back. */
static double path_ns(const struct machine *machine, unsigned card, unsigned place)
{
    return (double)MIB / machine->path[card][place].gbps +
           (double)MIB / machine->path[place][card].gbps;
}

unsigned plan_find_places(const struct machine *machine, unsigned card,
                          unsigned places[PLAN_REFUGES])
{
    unsigned count = 0;
    for (unsigned place = 0; place <= machine->cards; place++) {
        bool host = place == machine->cards;
        if (place == card || (!host && !machine->path[card][place].access)) continue;
        unsigned at = count++;
        while (at > 0 && path_ns(machine, card, places[at - 1]) > path_ns(machine, card, place)) {
            places[at] = places[at - 1];
            at--;
        }
        places[at] = place;
    }
    return count;
}

double plan_return_ns(const struct plan_refuge *refuge)
{
    return (double)MIB / refuge->in.gbps + (double)MIB / refuge->out.gbps;
}

uint64_t plan_call_ns(const struct machine_call_cost *call, uint64_t bytes)
{
    return call->base_ns + call->per_mib_ns * bytes / MIB;
}
