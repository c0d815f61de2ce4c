/* Routes over links: how fast, and which way. */
#include "machine/route.h"

#include <string.h>

#include "base/random.h"
#include "base/units.h"
#include "test.h"

static void about(double value, double wanted, double percent)
{
    if (value < wanted * (1 - percent / 100) || value > wanted * (1 + percent / 100))
        fail_msg("%g, not %g within %g %%", value, wanted, percent);
}

/* Cards of 24 GiB without links, 25 GB/s to a host that stages at 20. */
static struct machine routed(unsigned cards)
{
    struct machine machine = {.name = "routed", .cards = cards, .host_bytes = GIB};
    machine.granularity_bytes = 2 * MIB;
    machine.address_bytes = TIB;
    for (unsigned card = 0; card < cards; card++) {
        machine.hbm_bytes[card] = 24 * GIB;
        machine.hbm_gbps[card] = 900;
        machine.path[card][cards] = machine.path[cards][card] = (struct machine_path){
            .gbps = 25, .both_gbps = 24, .latency_ns = 1200, .start_ns = 2400, .access = true};
    }
    machine.through_host = (struct machine_through_host){.factor = 0.8, .latency_ns = 2000};
    machine.relays = (struct machine_relays){.allowed = true, .factor = 0.75};
    machine.end_latency_ns = 100;
    machine_fill_own_paths(&machine);
    return machine;
}

static unsigned join(struct machine *machine, unsigned a, unsigned b, double lane_gbps)
{
    machine->link[machine->links] = (struct machine_link){.ends = {(uint8_t)a, (uint8_t)b},
                                                          .lanes = 4,
                                                          .spare_lanes = 1,
                                                          .latency_ns = 300,
                                                          .payload_bytes = 256,
                                                          .header_bytes = 16,
                                                          .lane_gbps = lane_gbps,
                                                          .factor = 0.97};
    return machine->links++;
}

/* Two groups of four, each fully linked, and a bridge from i to i + 4. */
static struct machine double_cube(void)
{
    struct machine machine = routed(8);
    for (unsigned a = 0; a < 8; a++)
        for (unsigned b = a + 1; b < 8; b++)
            if (a / 4 == b / 4 || b == a + 4) join(&machine, a, b, 40);
    route_fill_paths(&machine);
    const char *why;
    assert_true(machine_is_valid(&machine, &why));
    return machine;
}

static const double full_gbps = 3 * 40 * (256.0 / 272) * 0.97;

/* Links as they are built, one factor for all, against what is measured on them. */
static void the_link_model_meets_measured_links(void **state)
{
    static const struct {
        const char *name;
        unsigned links;
        double lane_gbps, least_gbps, most_gbps, percent;
    } parts[] = {
        /* Measured shares of the ceiling: P100 0.97, V100 and A6000 0.99, A100 0.95 to 0.98. */
        {"P100", 1, 20, 0.97 * 18.82, 0.97 * 18.82, 5},
        {"P100, two", 2, 20, 0.97 * 37.65, 0.97 * 37.65, 5},
        {"V100", 2, 25.8, 0.99 * 48.56, 0.99 * 48.56, 5},
        {"A6000", 4, 14.06, 0.99 * 52.93, 0.99 * 52.93, 5},
        {"A100", 12, 25, 0.95 * 282.35, 0.98 * 282.35, 5},
        {"H100", 18, 26.56, 365, 394, 25},
    };
    for (unsigned i = 0; i < sizeof parts / sizeof *parts; i++) {
        struct machine_link link = {.lanes = (uint8_t)parts[i].links,
                                    .payload_bytes = 256,
                                    .header_bytes = 16,
                                    .lane_gbps = parts[i].lane_gbps,
                                    .factor = 0.97};
        print_message("    %s: %.2f GB/s, measured %.2f to %.2f\n", parts[i].name,
                      route_link_gbps(&link), parts[i].least_gbps, parts[i].most_gbps);
        about(route_link_gbps(&link), (parts[i].least_gbps + parts[i].most_gbps) / 2,
              parts[i].percent);
    }
}

static void spare_lanes_stand_in(void **state)
{
    struct machine_link link = {.lanes = 4,
                                .spare_lanes = 1,
                                .payload_bytes = 256,
                                .header_bytes = 16,
                                .lane_gbps = 40,
                                .factor = 0.97};
    static const double shares[] = {1, 1, 2.0 / 3, 1.0 / 3, 0};
    for (unsigned dead = 0; dead <= 4; dead++) {
        link.dead_lanes = (uint8_t)dead;
        about(route_link_gbps(&link) + 1, shares[dead] * full_gbps + 1, 1e-6);
    }
    link.dead_lanes = 0;
    link.dead = true;
    assert_true(route_link_gbps(&link) == 0);
}

static void every_pair_is_at_most_two_hops(void **state)
{
    struct machine machine = double_cube();
    for (unsigned from = 0; from < 8; from++) {
        for (unsigned to = 0; to < 8; to++) {
            if (from == to) continue;
            struct route route = route_find(&machine, from, to);
            bool linked = route_link_between(&machine, from, to) >= 0;
            assert_int_equal(route.kind, ROUTE_LINKS);
            assert_int_equal(route.hops, linked ? 1 : 2);
            about(route.path.gbps, linked ? full_gbps : 0.75 * full_gbps, 1e-6);
            assert_int_equal(route.path.latency_ns, linked ? 400 : 700);
            assert_true(route.path.access && route.path.atomics);
            assert_true(route.path.gbps == machine.path[from][to].gbps);
            for (unsigned i = 0; i < route.links; i++) about(route.share[i], 1, 1e-6);
            /* The same way back. */
            struct route back = route_find(&machine, to, from);
            for (unsigned i = 0; i <= route.links; i++)
                assert_int_equal(route.node[i], back.node[route.links - i]);
        }
    }
}

/* Until the spare lane is used up nothing changes; a link that has slowed down is used as long as
 * that keeps links busy for less time than going around it. */
static void slow_links_are_used_while_they_pay(void **state)
{
    struct machine machine = double_cube();
    struct machine_link *link = &machine.link[route_link_between(&machine, 0, 1)];
    static const struct {
        unsigned dead_lanes, hops;
        double share;
    } cases[] = {{1, 1, 1}, {2, 1, 2.0 / 3}, {3, 2, 0.75}, {4, 2, 0.75}};
    for (unsigned i = 0; i < 4; i++) {
        link->dead_lanes = (uint8_t)cases[i].dead_lanes;
        route_fill_paths(&machine);
        assert_int_equal(route_find(&machine, 0, 1).hops, cases[i].hops);
        about(machine.path[0][1].gbps, cases[i].share * full_gbps, 1e-6);
        about(machine.path[1][0].gbps, cases[i].share * full_gbps, 1e-6);
        about(machine.path[0][2].gbps, full_gbps, 1e-6);
    }
}

static void dead_links_and_relays_are_gone_around(void **state)
{
    struct machine machine = double_cube();
    struct route route = route_find(&machine, 0, 5);
    assert_int_equal(route.node[1], 1); /* the lowest of 1 and 4 */
    machine.relays.dead[1] = true;
    route = route_find(&machine, 0, 5);
    assert_int_equal(route.node[1], 4);
    assert_int_equal(route_find(&machine, 0, 1).hops, 1); /* it is a relay no more, but a card */
    machine.link[route_link_between(&machine, 0, 4)].dead = true;
    route = route_find(&machine, 0, 5);
    assert_int_equal(route.hops, 3);
    about(route.path.gbps, 0.75 * 0.75 * full_gbps, 1e-6);
    assert_int_equal(route.path.latency_ns, 1000);
    machine.relays.allowed = false;
    route = route_find(&machine, 0, 5);
    assert_int_equal(route.kind, ROUTE_HOST);
    assert_int_equal(route.hops, 0);
    about(route.path.gbps, 20, 1e-6);
    about(route.path.both_gbps, 0.8 * 24, 1e-6);
    assert_int_equal(route.path.latency_ns, 2000);
    assert_false(route.path.access);
}

static void a_switch_is_no_hop(void **state)
{
    struct machine machine = routed(3);
    machine.relays.allowed = false;
    for (unsigned card = 0; card < 3; card++) join(&machine, card, MACHINE_SWITCH, 40);
    struct route route = route_find(&machine, 2, 0);
    assert_int_equal(route.kind, ROUTE_LINKS);
    assert_int_equal(route.links, 2);
    assert_int_equal(route.hops, 1);
    about(route.path.gbps, full_gbps, 1e-6);
    assert_int_equal(route.path.latency_ns, 700);
    machine.link[0].dead = true;
    assert_int_equal(route_find(&machine, 2, 0).kind, ROUTE_HOST);
    assert_int_equal(route_find(&machine, 2, 1).kind, ROUTE_LINKS);
}

/* A wide link on the way is taken by a narrow one's rate alone. */
static void shares_tell_what_is_left(void **state)
{
    struct machine machine = routed(3);
    join(&machine, 0, 1, 40);
    join(&machine, 1, 2, 10);
    struct route route = route_find(&machine, 0, 2);
    about(route.path.gbps, 0.75 * full_gbps / 4, 1e-6);
    about(route.share[0], 0.25, 1e-6);
    about(route.share[1], 1, 1e-6);
}

static void given_paths_stay_as_they_are(void **state)
{
    struct machine machine;
    assert_int_equal(machine_from_name("4x24M", &machine), VP_OK);
    struct route route = route_find(&machine, 1, 2);
    assert_int_equal(route.kind, ROUTE_GIVEN);
    assert_int_equal(route.hops, 1);
    assert_true(route.path.gbps == 50);
    assert_int_equal(route_find(&machine, 1, 4).hops, 0);
    assert_int_equal(route_find(&machine, 1, 1).kind, ROUTE_WITHIN);
    route_fill_paths(&machine);
    assert_true(machine.path[1][2].gbps == 50);
}

/* The time that links are busy on the best way, found by trying all ways without any cut. */
static double least_busy(const struct machine *machine, unsigned at, unsigned to, unsigned visited,
                         double sum, unsigned links)
{
    double best = 1e18, scale = 1;
    for (unsigned i = 1; i < links; i++) scale /= machine->relays.factor;
    if (at == to) return sum * scale;
    if (links == ROUTE_MAX_LINKS) return best;
    if (links > 0 && machine->relays.dead[at]) return best;
    for (unsigned next = 0; next < machine->cards; next++) {
        int link = route_link_between(machine, at, next);
        if (visited >> next & 1 || link < 0 || route_link_gbps(&machine->link[link]) <= 0) continue;
        double ns = 2 * MIB / route_link_gbps(&machine->link[link]);
        double total = least_busy(machine, next, to, visited | 1u << next, sum + ns, links + 1);
        if (total < best) best = total;
    }
    return best;
}

static void random_machines_take_the_shortest_way(void **state)
{
    struct random random = {.state = 5};
    for (unsigned round = 0; round < 300; round++) {
        unsigned cards = 2 + (unsigned)random_below(&random, 6);
        struct machine machine = routed(cards);
        for (unsigned a = 0; a < cards; a++) {
            machine.relays.dead[a] = random_below(&random, 6) == 0;
            for (unsigned b = a + 1; b < cards; b++) {
                if (random_below(&random, 2)) continue;
                unsigned link = join(&machine, a, b, 5 + (double)random_below(&random, 60));
                machine.link[link].latency_ns = 0;
                machine.link[link].dead_lanes = (uint8_t)random_below(&random, 5);
                machine.link[link].dead = random_below(&random, 8) == 0;
            }
        }
        machine.through_host.latency_ns = 0;
        for (unsigned from = 0; from < cards; from++) {
            for (unsigned to = 0; to < cards; to++) {
                if (from == to) continue;
                struct route route = route_find(&machine, from, to);
                double best = least_busy(&machine, from, to, 1u << from, 0, 0);
                double host = 2 * 2 * MIB / 20.0, found = host;
                if (route.kind == ROUTE_LINKS) {
                    found = 0;
                    for (unsigned i = 0; i < route.links; i++)
                        found += 2 * MIB * route.share[i] / route.path.gbps;
                }
                about(found, best < host ? best : host, 1e-6);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_link_model_meets_measured_links),
        cmocka_unit_test(spare_lanes_stand_in),
        cmocka_unit_test(every_pair_is_at_most_two_hops),
        cmocka_unit_test(slow_links_are_used_while_they_pay),
        cmocka_unit_test(dead_links_and_relays_are_gone_around),
        cmocka_unit_test(a_switch_is_no_hop),
        cmocka_unit_test(shares_tell_what_is_left),
        cmocka_unit_test(given_paths_stay_as_they_are),
        cmocka_unit_test(random_machines_take_the_shortest_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
