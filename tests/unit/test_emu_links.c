/* The emulator on a machine with links, as shipped: rates that were not fitted, sharing, losses. */
#include "emu/emu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "machine/route.h"
#include "machine_file.h"
#include "test.h"

enum { PIECE = 64 << 20 };

static struct driver cu;
static CUcontext context[VP_MAX_CARDS];
static CUdeviceptr memory[VP_MAX_CARDS];

static void open_machine(const char *name, bool carry_data)
{
    static struct machine machine;
    char path[256];
    snprintf(path, sizeof path, "%s/%s.json", MACHINES, name);
    assert_int_equal(machine_file_read(path, &machine), VP_OK);
    struct emu_options options = {.machine = &machine, .seed = 3, .carry_data = carry_data};
    assert_int_equal(emu_open(&options), VP_OK);
    emu_driver(&cu);
    assert_int_equal(cu.cuInit(0), CUDA_SUCCESS);
    for (int card = 0; card < (int)machine.cards; card++) {
        assert_int_equal(cu.cuDevicePrimaryCtxRetain(&context[card], card), CUDA_SUCCESS);
        assert_int_equal(cu.cuCtxSetCurrent(context[card]), CUDA_SUCCESS);
        assert_int_equal(cu.cuMemAlloc_v2(&memory[card], PIECE), CUDA_SUCCESS);
    }
}

static int close_machine(void **state)
{
    emu_close();
    return 0;
}

static int open_cube(void **state)
{
    open_machine("double-cube-8x24", false);
    return 0;
}

struct flow {
    unsigned from, to;
    CUstream stream;
    CUevent start, end;
};

static void flow_start(struct flow *flow)
{
    assert_int_equal(cu.cuCtxSetCurrent(context[flow->from]), CUDA_SUCCESS);
    assert_int_equal(cu.cuStreamCreateWithPriority(&flow->stream, CU_STREAM_NON_BLOCKING, 0),
                     CUDA_SUCCESS);
    assert_int_equal(cu.cuEventCreate(&flow->start, 0), CUDA_SUCCESS);
    assert_int_equal(cu.cuEventCreate(&flow->end, 0), CUDA_SUCCESS);
    assert_int_equal(cu.cuEventRecord(flow->start, flow->stream), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemcpyAsync(memory[flow->to], memory[flow->from], PIECE, flow->stream),
                     CUDA_SUCCESS);
    assert_int_equal(cu.cuEventRecord(flow->end, flow->stream), CUDA_SUCCESS);
}

static double flow_gbps(struct flow *flow)
{
    float ms = 0;
    assert_int_equal(cu.cuEventElapsedTime(&ms, flow->start, flow->end), CUDA_SUCCESS);
    cu.cuEventDestroy_v2(flow->start);
    cu.cuEventDestroy_v2(flow->end);
    cu.cuStreamDestroy_v2(flow->stream);
    return PIECE / ((double)ms * 1e6);
}

static double gbps_between(unsigned from, unsigned to)
{
    struct flow only = {.from = from, .to = to};
    flow_start(&only);
    emu_run_until_idle();
    return flow_gbps(&only);
}

static void about(double value, double wanted, double percent)
{
    print_message("    %.2f GB/s, wanted %.2f within %g %%\n", value, wanted, percent);
    if (value < wanted * (1 - percent / 100) || value > wanted * (1 + percent / 100))
        fail_msg("%g GB/s, not %g within %g %%", value, wanted, percent);
}

enum { ONE_HOP = 1024, TWO_HOPS = 786, HOST = 283 }; /* the reference table, in 0.1 GB/s */

static void pairs_meet_the_reference_table(void **state)
{
    for (unsigned to = 1; to < 8; to++)
        about(gbps_between(0, to), (to <= 4 ? ONE_HOP : TWO_HOPS) / 10.0, 2);
    for (unsigned from = 0; from < 8; from++)
        for (unsigned to = 0; to < 8; to++)
            if (from != to) assert_true(emu_machine().path[from][to].gbps >= 75);
}

static void a_spare_lane_takes_over(void **state)
{
    static const double shares[] = {1, 2.0 / 3};
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(emu_lose_lanes(0, 1, 1), VP_OK);
        about(gbps_between(0, 1), shares[i] * ONE_HOP / 10, 2);
        about(gbps_between(1, 0), shares[i] * ONE_HOP / 10, 2);
        about(gbps_between(0, 2), ONE_HOP / 10.0, 2);
    }
}

/* 0 to 5 goes through 1 or 4. A relay that is none any more is still a card. */
static void the_other_relay_carries_as_much(void **state)
{
    assert_int_equal(emu_lose_relay(1), VP_OK);
    about(gbps_between(0, 5), TWO_HOPS / 10.0, 2);
    about(gbps_between(0, 1), ONE_HOP / 10.0, 2);
    about(gbps_between(1, 5), ONE_HOP / 10.0, 2);
    assert_int_equal(emu_lose_relay(4), VP_OK); /* now over three links */
    about(gbps_between(0, 5), 0.7676 * TWO_HOPS / 10, 2);
}

static void lost_links_and_relays_are_gone_around(void **state)
{
    assert_int_equal(emu_lose_link(0, 1), VP_OK);
    about(gbps_between(0, 1), TWO_HOPS / 10.0, 2);
    assert_int_equal(emu_lose_relay(4), VP_OK); /* 0 to 5 went through 4, with 0-1 cut */
    about(gbps_between(0, 5), 0.7676 * TWO_HOPS / 10, 2);
    for (unsigned to = 2; to < 5; to++) assert_int_equal(emu_lose_link(0, to), VP_OK);
    for (unsigned to = 1; to < 8; to++) about(gbps_between(0, to), HOST / 10.0, 2);
    about(gbps_between(1, 2), ONE_HOP / 10.0, 2);
    assert_int_equal(emu_lose_link(0, 7), VP_NOT_FOUND);
    assert_int_equal(emu_lose_relay(8), VP_NOT_FOUND);
}

static struct flow flow(unsigned from, unsigned to)
{
    return (struct flow){.from = from, .to = to};
}

/* Rates while both run: the copies are equal, so they begin and end together. */
static void assert_pair(struct flow a, struct flow b, double a_gbps, double b_gbps)
{
    flow_start(&a);
    flow_start(&b);
    emu_run_until_idle();
    about(flow_gbps(&a), a_gbps, 4);
    about(flow_gbps(&b), b_gbps, 4);
}

static void flows_share_what_they_have_in_common(void **state)
{
    double one = ONE_HOP / 10.0, two = TWO_HOPS / 10.0;
    /* 0 and 2 to 5 both go through 1, over its bridge. */
    assert_pair(flow(0, 5), flow(2, 5), two / 2, two / 2);
    /* The other way over the same bridge is another way. */
    assert_pair(flow(0, 5), flow(5, 2), two, two);
    /* One card's links are apart. */
    assert_pair(flow(0, 1), flow(0, 2), one, one);
    assert_pair(flow(0, 1), flow(1, 0), one, one);
    /* A relay's own traffic counts: half the time of the bridge each, until the faster is done. */
    assert_pair(flow(0, 5), flow(1, 5), 1 / (1 / one + 1 / two), one / 2);
    /* Through the host both go over card 0's one path to it. */
    for (unsigned to = 1; to < 5; to++) assert_int_equal(emu_lose_link(0, to), VP_OK);
    assert_pair(flow(0, 1), flow(0, 2), HOST / 20.0, HOST / 20.0);
}

static void copies_under_way_go_on_another_way(void **state)
{
    struct flow half = {.from = 0, .to = 1};
    double one = ONE_HOP / 10.0, two = TWO_HOPS / 10.0;
    flow_start(&half);
    emu_advance_ns((uint64_t)(PIECE / one / 2)); /* half of it is over */
    assert_int_equal(emu_lose_link(0, 1), VP_OK);
    emu_run_until_idle();
    about(flow_gbps(&half), 2 / (1 / one + 1 / two), 2);
}

static void nothing_is_lost_with_a_link(void **state)
{
    unsigned char *bytes = malloc(PIECE), *read = malloc(PIECE);
    assert_true(bytes && read);
    for (size_t i = 0; i < PIECE; i++) bytes[i] = (unsigned char)(i * 2654435761u >> 13);
    assert_true(emu_poke(memory[0], bytes, PIECE));
    struct flow there = {.from = 0, .to = 5}, back = {.from = 5, .to = 6};
    flow_start(&there);
    emu_advance_ns(200000);
    assert_int_equal(emu_lose_link(1, 5), VP_OK);
    emu_advance_ns(100000);
    assert_int_equal(emu_lose_relay(4), VP_OK);
    emu_run_until_idle();
    flow_gbps(&there);
    flow_start(&back);
    emu_run_until_idle();
    flow_gbps(&back);
    assert_true(emu_peek(memory[6], read, PIECE));
    assert_memory_equal(bytes, read, PIECE);
    assert_int_equal(emu_findings_count(), 0);
    free(bytes);
    free(read);
}

static int open_cube_with_data(void **state)
{
    open_machine("double-cube-8x24", true);
    return 0;
}

static int open_switched(void **state)
{
    open_machine("hgx-h200-8", false);
    return 0;
}

/* A card has one way into the switch, whoever it sends to. */
static void a_switch_joins_all_cards(void **state)
{
    double full = emu_machine().path[0][1].gbps;
    about(full, 380, 2);
    assert_pair(flow(0, 1), flow(2, 3), full, full);
    assert_pair(flow(0, 1), flow(0, 2), full / 2, full / 2);
    assert_pair(flow(1, 0), flow(2, 0), full / 2, full / 2);
    assert_int_equal(emu_lose_lanes(0, MACHINE_SWITCH, 9), VP_OK);
    about(gbps_between(0, 1), full / 2, 3);
}

static int open_without_peers(void **state)
{
    open_machine("rtx4090-8", false);
    return 0;
}

static void peers_without_access_are_staged(void **state)
{
    int can = 1;
    assert_int_equal(cu.cuDeviceCanAccessPeer(&can, 0, 1), CUDA_SUCCESS);
    assert_int_equal(can, 0);
    about(gbps_between(0, 1), 21.84, 2);
    /* A staged copy takes part of card 1's way from the host. */
    assert_pair(flow(0, 1), flow(2, 1), 13, 13);
}

#define CUBE(test) cmocka_unit_test_setup_teardown(test, open_cube, close_machine)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CUBE(pairs_meet_the_reference_table),
        CUBE(a_spare_lane_takes_over),
        CUBE(the_other_relay_carries_as_much),
        CUBE(lost_links_and_relays_are_gone_around),
        CUBE(flows_share_what_they_have_in_common),
        CUBE(copies_under_way_go_on_another_way),
        cmocka_unit_test_setup_teardown(nothing_is_lost_with_a_link, open_cube_with_data,
                                        close_machine),
        cmocka_unit_test_setup_teardown(a_switch_joins_all_cards, open_switched, close_machine),
        cmocka_unit_test_setup_teardown(peers_without_access_are_staged, open_without_peers,
                                        close_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
