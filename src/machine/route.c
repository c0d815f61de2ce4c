#include "machine/route.h"

#include <assert.h>
#include <string.h>

#include "base/units.h"

/* What ways are compared with: about what moves at once. Latency hardly counts then. */
enum { PROBE_BYTES = 2 * MIB };
enum { ROUTE_START_NS = 2400 }; /* fixed cost of one copy, as measured to the host */

unsigned route_lanes_in_use(const struct machine_link *link)
{
    unsigned lanes = link->lanes, alive = lanes > link->dead_lanes ? lanes - link->dead_lanes : 0;
    unsigned wanted = lanes - link->spare_lanes;
    if (link->dead) return 0;
    return alive < wanted ? alive : wanted;
}

double route_link_gbps(const struct machine_link *link)
{
    double packet_bytes = (double)link->payload_bytes + link->header_bytes;
    return route_lanes_in_use(link) * link->lane_gbps * link->payload_bytes / packet_bytes *
           link->factor;
}

int route_link_between(const struct machine *machine, unsigned a, unsigned b)
{
    for (unsigned i = 0; i < machine->links; i++) {
        const uint8_t *ends = machine->link[i].ends;
        if ((ends[0] == a && ends[1] == b) || (ends[0] == b && ends[1] == a)) return (int)i;
    }
    return -1;
}

/* ---- The search: all ways up to ROUTE_MAX_LINKS, cut off where they cannot win any more ---- */

struct search {
    const struct machine *machine;
    int16_t link_of[MACHINE_NODES][MACHINE_NODES]; /* that is alive, or -1 */
    unsigned to;
    double best_ns; /* links' time in total */
    struct route best, way;
};

static bool on_way(const struct route *way, unsigned node)
{
    for (unsigned i = 0; i <= way->links; i++)
        if (way->node[i] == node) return true;
    return false;
}

static unsigned relays_on(const struct route *way)
{
    unsigned relays = 0;
    for (unsigned i = 1; i < way->links; i++) relays += way->node[i] != MACHINE_SWITCH;
    return relays;
}

/* What relays leave of a link's rate. */
static double relays_leave(const struct machine *machine, const struct route *way)
{
    double share = 1;
    for (unsigned i = relays_on(way); i > 0; i--) share *= machine->relays.factor;
    return share;
}

/* The time that the links of a way are busy with PROBE_BYTES, one after the other. */
static double busy_ns(const struct machine *machine, const struct route *way)
{
    double ns = 0, share = relays_leave(machine, way);
    for (unsigned i = 0; i < way->links; i++) {
        const struct machine_link *link = &machine->link[way->link[i]];
        ns += PROBE_BYTES / (route_link_gbps(link) * share) + link->latency_ns;
    }
    return ns;
}

static bool passes_on(const struct machine *machine, unsigned node)
{
    return node == MACHINE_SWITCH || (machine->relays.allowed && !machine->relays.dead[node]);
}

/* Tries all ways that go on from where search->way ends and have `most` links. */
static void extend(struct search *search, unsigned most)
{
    struct route *way = &search->way;
    unsigned at = way->links;
    for (unsigned next = 0; next < MACHINE_NODES; next++) {
        int link = search->link_of[way->node[at]][next];
        if (link < 0 || on_way(way, next) || (next == search->to) != (at + 1 == most)) continue;
        if (next != search->to && !passes_on(search->machine, next)) continue;
        way->link[at] = (uint8_t)link;
        way->node[at + 1] = (uint8_t)next;
        way->links = at + 1;
        double ns = busy_ns(search->machine, way);
        if (ns < search->best_ns && at + 1 < most) extend(search, most);
        if (ns < search->best_ns && at + 1 == most) {
            search->best_ns = ns;
            search->best = *way;
        }
        way->links = at;
    }
}

static void list_links(struct search *search)
{
    memset(search->link_of, -1, sizeof search->link_of);
    for (unsigned i = 0; i < search->machine->links; i++) {
        const struct machine_link *link = &search->machine->link[i];
        if (route_lanes_in_use(link) == 0) continue;
        search->link_of[link->ends[0]][link->ends[1]] = (int16_t)i;
        search->link_of[link->ends[1]][link->ends[0]] = (int16_t)i;
    }
}

static double lesser(double a, double b)
{
    return a < b ? a : b;
}

static void finish(const struct machine *machine, struct route *route)
{
    struct machine_path *path = &route->path;
    double share = relays_leave(machine, route);
    *path = (struct machine_path){.gbps = 1e9,
                                  .latency_ns = machine->end_latency_ns,
                                  .start_ns = ROUTE_START_NS,
                                  .access = true,
                                  .atomics = true};
    route->kind = ROUTE_LINKS;
    route->hops = relays_on(route) + 1;
    for (unsigned i = 0; i < route->links; i++) {
        const struct machine_link *link = &machine->link[route->link[i]];
        path->gbps = lesser(path->gbps, route_link_gbps(link) * share);
        path->latency_ns += link->latency_ns;
    }
    for (unsigned i = 0; i < route->links; i++)
        route->share[i] = path->gbps / (route_link_gbps(&machine->link[route->link[i]]) * share);
    path->both_gbps = path->gbps;
}

static struct route through_host(const struct machine *machine, unsigned from, unsigned to)
{
    const struct machine_through_host *host = &machine->through_host;
    const struct machine_path *out = &machine->path[from][machine->cards];
    const struct machine_path *in = &machine->path[machine->cards][to];
    struct route route = {.kind = ROUTE_HOST, .node = {(uint8_t)from, (uint8_t)to}};
    route.path = (struct machine_path){
        .gbps = lesser(out->gbps, in->gbps) * host->factor,
        .both_gbps = lesser(out->both_gbps, in->both_gbps) * host->factor,
        .latency_ns = host->latency_ns,
        .start_ns = out->start_ns > in->start_ns ? out->start_ns : in->start_ns,
        .access = host->access,
        .atomics = host->atomics};
    return route;
}

struct route route_find(const struct machine *machine, unsigned from, unsigned to)
{
    assert(from <= machine->cards && to <= machine->cards);
    struct route given = {.kind = from == to ? ROUTE_WITHIN : ROUTE_GIVEN,
                          .path = machine->path[from][to]};
    given.hops = from != to && from < machine->cards && to < machine->cards;
    if (from == to || !given.hops || !machine_is_routed(machine)) return given;
    struct route host = through_host(machine, from, to);
    /* It keeps two paths busy, a card's way out and another's way in. */
    struct search search = {.machine = machine,
                            .to = to,
                            .best_ns = 2 * PROBE_BYTES / host.path.gbps + host.path.latency_ns,
                            .way = {.node = {(uint8_t)from}}};
    list_links(&search);
    for (unsigned most = 1; most <= ROUTE_MAX_LINKS; most++) extend(&search, most);
    if (search.best.links == 0) return host;
    finish(machine, &search.best);
    return search.best;
}

void route_fill_paths(struct machine *machine)
{
    if (!machine_is_routed(machine)) return;
    for (unsigned from = 0; from < machine->cards; from++)
        for (unsigned to = 0; to < machine->cards; to++)
            if (from != to) machine->path[from][to] = route_find(machine, from, to).path;
}
