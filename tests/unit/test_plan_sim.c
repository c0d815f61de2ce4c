/* The simulator: small steps whose times can be worked out by hand. */
#include "plan/sim.h"

#include <stdio.h>

#include "plan_steps.h"
#include "test.h"

static struct step_maker maker;

/* One byte a ns each way whatever the other does, 1 us a map or unmap, nothing else costs. */
static const struct plan_costs plain = {
    .refuges = 1,
    .refuge = {{.in = {.gbps = 1, .both_gbps = 1, .claims = 1, .claim = {{0, 1}}},
                .out = {.gbps = 1, .both_gbps = 1, .claims = 1, .claim = {{1, 1}}},
                .in_place_works = true}},
    .piece_bytes = 32 * MIB,
    .map = {1000, 0},
    .unmap = {1000, 0},
    .in_place = 1,
    .all_in_place = 1,
};

static void run(const struct plan_costs *costs, enum executor_mode mode, uint64_t capacity_bytes,
                struct sim_result *result)
{
    struct shape shape;
    struct executor_options options = {.mode = mode,
                                       .capacity_bytes = capacity_bytes,
                                       .refuges = 1,
                                       .near = 1,
                                       .refuge = {{1 * GIB, 1, true}},
                                       .ahead_ops = 8,
                                       .lead_ops = 64};
    struct sim_task task = {.shape = &shape, .costs = costs, .options = &options};
    assert_int_equal(shape_create(&maker.step, 2 * MIB, 2 * MIB, &shape), VP_OK);
    assert_int_equal(sim_run(&task, result, NULL), VP_OK);
    shape_destroy(&shape);
}

static void make_turns(enum step_access access)
{
    step_begin(&maker);
    for (unsigned i = 0; i < 2; i++) step_add_role(&maker, 2 * MIB);
    for (unsigned i = 0; i < 2; i++) {
        step_op(&maker, 10000);
        step_touch(&maker, i, 0, access);
    }
}

static void costs_nothing_where_all_fits(void **state)
{
    struct sim_result result;
    make_turns(STEP_WRITES);
    run(&plain, EXECUTOR_LRU, 4 * MIB, &result);
    assert_int_equal(result.step_ns, 20000);
    assert_int_equal(result.in_hbm_ns, 20000);
    assert_int_equal(result.in_bytes + result.out_bytes + result.in_place_bytes, 0);
}

/* Two blocks by turns in the room of one: twice a step, out, unmap, map, in; all one after the
 * other. Frames are of one size and used again. */
static void swaps_one_after_the_other(void **state)
{
    struct sim_result result;
    make_turns(STEP_WRITES);
    run(&plain, EXECUTOR_DEMAND, 2 * MIB, &result);
    uint64_t copy_ns = 2 * MIB, wanted = 20000 + 2 * (2 * copy_ns + 2000);
    assert_in_range(result.step_ns, wanted, wanted + 100);
    assert_int_equal(result.in_bytes, 4 * MIB);
    assert_int_equal(result.out_bytes, 4 * MIB);
    assert_in_range(result.stall_ns[SIM_STALL_in] + result.stall_ns[SIM_STALL_room], wanted - 20000,
                    wanted - 20000 + 100);
}

/* What is only read leaves without a copy. */
static void copies_nothing_out_that_was_not_written(void **state)
{
    struct sim_result result;
    make_turns(STEP_READS);
    run(&plain, EXECUTOR_DEMAND, 2 * MIB, &result);
    uint64_t wanted = 20000 + 2 * (2 * MIB + 2000);
    assert_in_range(result.step_ns, wanted, wanted + 100);
    assert_int_equal(result.out_bytes, 0);
}

static void slows_both_ways_together(void **state)
{
    struct sim_result alone, both;
    struct plan_costs costs = plain;
    step_begin(&maker);
    for (unsigned i = 0; i < 3; i++) step_add_role(&maker, 2 * MIB);
    for (unsigned i = 0; i < 3; i++) {
        step_op(&maker, 10000);
        step_touch(&maker, i, 0, STEP_WRITES);
    }
    run(&costs, EXECUTOR_EAGER, 4 * MIB, &alone);
    costs.refuge[0].in.both_gbps = costs.refuge[0].out.both_gbps = 0.5;
    run(&costs, EXECUTOR_EAGER, 4 * MIB, &both);
    assert_int_equal(alone.in_bytes, both.in_bytes);
    assert_true(both.step_ns > alone.step_ns);
}

/* Read and written over the links where it is, both at once, then the op's own time. */
static void uses_in_place(void **state)
{
    struct sim_result result;
    make_turns(STEP_WRITES);
    run(&plain, EXECUTOR_INPLACE, 2 * MIB, &result);
    assert_in_range(result.step_ns, 20000 + 2 * MIB, 20000 + 2 * MIB + 100);
    assert_int_equal(result.in_place_bytes, 2 * MIB);
    assert_int_equal(result.in_bytes, 0);
}

static void refuses_what_cannot_run(void **state)
{
    struct shape shape;
    struct sim_result result;
    uint32_t op = 77;
    struct executor_options options = {
        .mode = EXECUTOR_DEMAND, .capacity_bytes = 2 * MIB, .refuges = 1, .near = 1};
    struct sim_task task = {.shape = &shape, .costs = &plain, .options = &options};
    make_turns(STEP_WRITES); /* nowhere to go: the host has nothing */
    assert_int_equal(shape_create(&maker.step, 2 * MIB, 2 * MIB, &shape), VP_OK);
    assert_int_equal(sim_run(&task, &result, &op), VP_QUOTA);
    assert_int_equal(op, 0); /* what persists does not fit, so not even the first op runs */
    shape_destroy(&shape);
}

static void count_move(void *context, const struct executor_action *action, uint64_t start_ns,
                       uint64_t end_ns)
{
    uint64_t *moved = context;
    assert_true(start_ns <= end_ns);
    moved[action->kind == EXECUTOR_FETCH ? 0 : 1] += action->bytes;
}

static void check_use(void *context, uint64_t time_ns, uint64_t used_bytes, uint64_t spare_bytes)
{
    assert_true(used_bytes <= 2 * MIB && spare_bytes <= used_bytes);
}

static void tells_who_watches(void **state)
{
    struct shape shape;
    struct sim_result result;
    uint64_t moved[2] = {0, 0};
    struct executor_options options = {.mode = EXECUTOR_DEMAND,
                                       .capacity_bytes = 2 * MIB,
                                       .refuges = 1,
                                       .near = 1,
                                       .refuge = {{1 * GIB, 1, true}}};
    struct sim_watch watch = {moved, count_move, check_use, NULL};
    struct sim_task task = {.shape = &shape, .costs = &plain, .options = &options, .watch = &watch};
    make_turns(STEP_WRITES);
    assert_int_equal(shape_create(&maker.step, 2 * MIB, 2 * MIB, &shape), VP_OK);
    assert_int_equal(sim_run(&task, &result, NULL), VP_OK);
    assert_int_equal(moved[0], result.in_bytes);
    assert_int_equal(moved[1], result.out_bytes);
    shape_destroy(&shape);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(costs_nothing_where_all_fits),
        cmocka_unit_test(swaps_one_after_the_other),
        cmocka_unit_test(copies_nothing_out_that_was_not_written),
        cmocka_unit_test(slows_both_ways_together),
        cmocka_unit_test(uses_in_place),
        cmocka_unit_test(refuses_what_cannot_run),
        cmocka_unit_test(tells_who_watches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
