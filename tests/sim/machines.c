/* Random machines, and what of them is lost while the program runs.
 *
 * Half of them have paths given one by one, the others links with lanes and spare lanes between
 * some of their cards, or to a switch, and cards that pass on what is meant for others. A link, a
 * lane or a relay that is lost costs time: nothing may be wrong or refused for it. A card that is
 * lost takes its memory along: work that needs it has to fail, and whatever is still read has to be
 * right. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "machine/route.h"
#include "sim.h"

static double any_rate(void)
{
    static const double rates[] = {0.05, 0.5, 2, 10, 50, 900}; /* GB/s */
    return rates[sim_below(sizeof rates / sizeof *rates)];
}

static struct machine_call_cost any_cost(void)
{
    uint32_t most = sim_chance(20) ? 200000 : 5000;
    return (struct machine_call_cost){(uint32_t)sim_below(most), (uint32_t)sim_below(most)};
}

static void choose_paths(struct machine *machine, bool peers)
{
    for (unsigned from = 0; from <= machine->cards; from++) {
        for (unsigned to = 0; to <= machine->cards; to++) {
            double rate = any_rate();
            bool host = from == machine->cards || to == machine->cards;
            machine->path[from][to] =
                (struct machine_path){.gbps = rate,
                                      .both_gbps = rate * (0.5 + (double)sim_below(50) / 100),
                                      .latency_ns = 500,
                                      .start_ns = (uint32_t)sim_below(3000),
                                      .access = host || peers,
                                      .atomics = host || peers};
        }
    }
}

/* Above 0 and at most 1. */
static double any_factor(void)
{
    return (double)sim_between(20, 100) / 100;
}

static void add_link(struct machine *machine, unsigned a, unsigned b)
{
    uint8_t lanes = (uint8_t)sim_between(1, 4);
    machine->link[machine->links++] =
        (struct machine_link){.ends = {(uint8_t)a, (uint8_t)b},
                              .kind = MACHINE_LINK_NVLINK,
                              .lanes = lanes,
                              .spare_lanes = (uint8_t)sim_below(lanes),
                              .latency_ns = (uint32_t)sim_below(500),
                              .payload_bytes = 256,
                              .header_bytes = (uint32_t)sim_below(64),
                              .lane_gbps = any_rate(),
                              .factor = any_factor()};
}

static void choose_links(struct machine *machine)
{
    unsigned percent = (unsigned)sim_between(20, 100);
    bool with_switch = sim_chance(20);
    for (unsigned a = 0; a < machine->cards; a++) {
        for (unsigned b = a + 1; b < machine->cards; b++)
            if (!with_switch && sim_chance(percent)) add_link(machine, a, b);
        if (with_switch && sim_chance(90)) add_link(machine, a, MACHINE_SWITCH);
    }
    machine->end_latency_ns = (uint32_t)sim_below(500);
    machine->relays = (struct machine_relays){.allowed = sim_chance(70), .factor = any_factor()};
    bool access = sim_chance(70);
    machine->through_host = (struct machine_through_host){.access = access,
                                                          .atomics = access && sim_chance(50),
                                                          .latency_ns = 1200,
                                                          .factor = any_factor()};
}

void machines_choose(uint64_t page, uint64_t card_pages)
{
    struct machine *machine = &sim.machine;
    memset(machine, 0, sizeof *machine);
    snprintf(machine->name, sizeof machine->name, "random");
    machine->cards = sim.profile.cards;
    machine->granularity_bytes = page;
    machine->address_bytes = 64 * GIB;
    machine->host_bytes = 64 * MIB;
    for (unsigned i = 0; i < machine->cards; i++) {
        machine->hbm_bytes[i] = page * (card_pages + sim_below(card_pages));
        machine->hbm_gbps[i] = 10 * any_rate();
    }
    choose_paths(machine, sim_chance(80));
    if (sim_chance(50)) choose_links(machine);
    route_fill_paths(machine);
    machine_fill_own_paths(machine);
#define COST(name) machine->costs.name = any_cost();
    MACHINE_COSTS(COST)
#undef COST
    const char *why;
    if (!machine_is_valid(machine, &why)) sim_fail("the machine contradicts itself: %s", why);
    sim.profile.breaks = machine_is_routed(machine) && sim_chance(50);
    sim.coverage.routed += machine_is_routed(machine);
}

/* ---- Losses ---- */

static void must(vp_status status)
{
    if (status != VP_OK) sim_fail("the emulator has nothing to lose: %s", vp_status_text(status));
}

static void lose_lanes(const struct machine_link *link)
{
    unsigned lanes = (unsigned)sim_between(1, link->lanes);
    sim_trace("%u lanes between %u and %u are lost", lanes, link->ends[0], link->ends[1]);
    must(emu_lose_lanes(link->ends[0], link->ends[1], lanes));
    sim.coverage.lanes_lost += lanes;
}

static void lose_link(const struct machine_link *link)
{
    sim_trace("the link between %u and %u is lost", link->ends[0], link->ends[1]);
    must(emu_lose_link(link->ends[0], link->ends[1]));
    sim.coverage.links_lost++;
}

static void lose_relay(void)
{
    unsigned card = (unsigned)sim_below(sim.profile.cards);
    sim_trace("card %u passes nothing on any more", card);
    must(emu_lose_relay(card));
    sim.coverage.relays_lost++;
}

void machines_lose_card(void)
{
    if (!sim.profile.lose_card || sim.card_lost || !sim_chance(20)) return;
    unsigned card = (unsigned)sim_below(sim.profile.cards);
    sim_trace("card %u is lost", card);
    sim.card_lost = true;
    sim.coverage.cards_lost++;
    sim.coverage.lenders_lost += !(sim.options.compute_cards >> card & 1);
    emu_lose_card(card);
}

void machines_break(void)
{
    if (!sim.profile.breaks || !sim_chance(1)) return;
    const struct machine *machine = &sim.machine;
    const struct machine_link *link =
        machine->links ? &machine->link[sim_below(machine->links)] : NULL;
    uint64_t kind = sim_below(3);
    if (kind == 0 || !link)
        lose_relay();
    else if (kind == 1)
        lose_lanes(link);
    else
        lose_link(link);
}
