/* Several refuges: copies side by side, shared links, rooms that are full. */
#include <stdio.h>

#include "plan/plan.h"
#include "plan_steps.h"
#include "test.h"

static struct step_maker maker;

/* A byte a ns each way, 1 us a map or unmap; each refuge has a link of its own. */
static void set_costs(struct plan_costs *costs, uint32_t refuges)
{
    *costs = (struct plan_costs){.refuges = refuges,
                                 .piece_bytes = 32 * MIB,
                                 .map = {1000, 0},
                                 .unmap = {1000, 0},
                                 .in_place = 1,
                                 .all_in_place = 1};
    for (uint32_t i = 0; i < refuges; i++)
        costs->refuge[i] = (struct plan_refuge){
            .place = i + 1,
            .in = {.gbps = 1, .both_gbps = 1, .claims = 1, .claim = {{2 * i, 1}}},
            .out = {.gbps = 1, .both_gbps = 1, .claims = 1, .claim = {{2 * i + 1, 1}}},
            .in_place_works = true};
}

static struct executor_options options_for(uint32_t refuges, uint32_t near)
{
    struct executor_options options = {.mode = EXECUTOR_DEMAND,
                                       .capacity_bytes = 4 * MIB,
                                       .refuges = refuges,
                                       .near = near,
                                       .lead_ops = 64};
    for (uint32_t i = 0; i < refuges; i++)
        options.refuge[i] = (struct executor_refuge){1 * GIB, 1, true};
    return options;
}

/* Two pairs of blocks by turns, in the room of one pair. */
static void make_turns(struct shape *shape)
{
    step_begin(&maker);
    for (unsigned i = 0; i < 4; i++) step_add_role(&maker, 2 * MIB);
    for (unsigned i = 0; i < 2; i++) {
        step_op(&maker, 10000);
        step_touch(&maker, 2 * i, 0, STEP_WRITES);
        step_touch(&maker, 2 * i + 1, 0, STEP_WRITES);
    }
    assert_int_equal(shape_create(&maker.step, 2 * MIB, 2 * MIB, shape), VP_OK);
}

static void run(const struct plan_costs *costs, const struct executor_options *options,
                struct sim_result *result)
{
    struct shape shape;
    struct sim_task task = {.shape = &shape, .costs = costs, .options = options};
    make_turns(&shape);
    assert_int_equal(sim_run(&task, result, NULL), VP_OK);
    shape_destroy(&shape);
}

/* Each turn two go out side by side, then two come in; the threads map and unmap one at a time. */
static void copies_side_by_side(void **state)
{
    struct sim_result result;
    struct plan_costs costs;
    struct executor_options options = options_for(2, 2);
    set_costs(&costs, 2);
    run(&costs, &options, &result);
    uint64_t wanted = 20000 + 2 * (2 * 2 * MIB);
    assert_in_range(result.step_ns, wanted, wanted + 2 * 5000);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(result.traffic[i].in_bytes, 4 * MIB);
        assert_int_equal(result.traffic[i].out_bytes, 4 * MIB);
    }
    assert_int_equal(result.in_bytes, 8 * MIB);
}

/* Over one link, as through a relay: as slow as one after the other. */
static void shares_a_link(void **state)
{
    struct sim_result result;
    struct plan_costs costs;
    struct executor_options options = options_for(2, 2);
    set_costs(&costs, 2);
    costs.refuge[1].in.claim[0].link = costs.refuge[0].in.claim[0].link;
    costs.refuge[1].out.claim[0].link = costs.refuge[0].out.claim[0].link;
    run(&costs, &options, &result);
    uint64_t wanted = 20000 + 2 * (4 * 2 * MIB);
    assert_in_range(result.step_ns, wanted - 2 * 2000, wanted + 2 * 5000);
}

/* The near one takes all, the far one what the near one has no room for. */
static void goes_far_when_near_is_full(void **state)
{
    struct sim_result result;
    struct plan_costs costs;
    struct executor_options options = options_for(2, 1);
    set_costs(&costs, 2);
    run(&costs, &options, &result);
    assert_int_equal(result.traffic[0].out_bytes, 8 * MIB);
    assert_int_equal(result.traffic[1].out_bytes, 0);
    options.refuge[0].bytes = 3 * MIB;
    run(&costs, &options, &result);
    assert_true(result.traffic[0].out_bytes > 0);
    assert_true(result.traffic[1].out_bytes > 0);
    assert_true(result.refuge_peak_bytes[0] <= 3 * MIB);
}

static void refuses_what_fits_nowhere(void **state)
{
    struct shape shape;
    struct sim_result result;
    struct plan_costs costs;
    struct executor_options options = options_for(2, 2);
    struct sim_task task = {.shape = &shape, .costs = &costs, .options = &options};
    set_costs(&costs, 2);
    options.refuge[0].bytes = options.refuge[1].bytes = 1 * MIB;
    make_turns(&shape);
    assert_int_equal(sim_run(&task, &result, NULL), VP_QUOTA);
    shape_destroy(&shape);
}

/* Peers that are reached, the fast ones first, then the host; ways of one card's links. */
static void knows_the_nearest(void **state)
{
    static struct machine machine;
    struct plan_costs costs;
    unsigned places[PLAN_REFUGES];
    assert_int_equal(machine_from_name("4x24G", &machine), VP_OK);
    machine.path[0][1].gbps = machine.path[1][0].gbps = 20; /* slower than the host */
    machine.path[0][2].access = false;
    assert_int_equal(plan_find_places(&machine, 0, places), 3);
    assert_int_equal(places[0], 3);
    assert_int_equal(places[1], machine.cards);
    assert_int_equal(places[2], 1);
    plan_costs_of(&machine, 0, places, 3, &costs);
    assert_int_equal(costs.refuges, 3);
    assert_int_equal(costs.refuge[1].hops, 0);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(costs.refuge[i].in.claims, 1);
        assert_int_equal(costs.refuge[i].in.claim[0].link, costs.refuge[i].out.claim[0].link ^ 1u);
        for (unsigned k = 0; k < i; k++)
            assert_int_not_equal(costs.refuge[i].in.claim[0].link,
                                 costs.refuge[k].in.claim[0].link);
    }
}

/* More links, less time; never more. */
static void plans_over_more_links(void **state)
{
    struct shape shape;
    uint64_t before_ns = UINT64_MAX;
    step_begin(&maker);
    for (uint32_t i = 0; i < 12; i++) {
        step_add_role(&maker, 8 * MIB);
        step_op(&maker, 1000000);
        step_touch(&maker, i, 0, STEP_WRITES);
    }
    assert_int_equal(shape_create(&maker.step, 2 * MIB, 2 * MIB, &shape), VP_OK);
    for (uint32_t refuges = 1; refuges <= 4; refuges++) {
        struct plan plan;
        struct plan_costs costs;
        struct plan_limits limits = {48 * MIB, {0}, false};
        set_costs(&costs, refuges);
        for (uint32_t i = 0; i < refuges; i++) limits.refuge_bytes[i] = 96 * MIB;
        assert_int_equal(plan_make(&shape, &costs, &limits, PLAN_POLICY_PLAN, &plan), VP_OK);
        assert_true(plan.predicted.step_ns < before_ns);
        before_ns = plan.predicted.step_ns;
        plan_destroy(&plan);
    }
    shape_destroy(&shape);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_side_by_side),        cmocka_unit_test(shares_a_link),
        cmocka_unit_test(goes_far_when_near_is_full), cmocka_unit_test(refuses_what_fits_nowhere),
        cmocka_unit_test(knows_the_nearest),          cmocka_unit_test(plans_over_more_links),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
