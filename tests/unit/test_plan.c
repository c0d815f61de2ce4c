/* Plans: known answers, never slower than a rule, the same every time. */
#include "plan/plan.h"

#include <stdio.h>

#include "base/log.h"
#include "plan_steps.h"
#include "test.h"

static struct step_maker maker;

static void set_costs(struct plan_costs *costs)
{
    static struct machine machine;
    assert_int_equal(machine_from_name("h200", &machine), VP_OK);
    plan_costs_of(&machine, 0, &machine.cards, 1, costs);
}

static uint64_t predict(const struct shape *shape, uint64_t hbm_bytes, enum plan_policy policy,
                        struct sim_result *result)
{
    struct plan plan;
    struct plan_costs costs;
    struct plan_limits limits = {hbm_bytes, {64 * GIB}, false};
    set_costs(&costs);
    assert_int_equal(plan_make(shape, &costs, &limits, policy, &plan), VP_OK);
    *result = plan.predicted;
    plan_destroy(&plan);
    return result->step_ns;
}

static void make_shape(struct shape *shape, uint64_t chunk_bytes)
{
    assert_true(step_is_valid(&maker.step));
    assert_int_equal(shape_create(&maker.step, chunk_bytes, 2 * MIB, shape), VP_OK);
}

static void needs_nothing_where_all_fits(void **state)
{
    struct shape shape;
    struct sim_result result;
    step_begin(&maker);
    for (uint32_t i = 0; i < 8; i++) {
        step_add_role(&maker, 64 * MIB);
        step_op(&maker, 500000);
        step_touch(&maker, i, 0, STEP_WRITES);
    }
    make_shape(&shape, 32 * MIB);
    predict(&shape, 8 * 64 * MIB, PLAN_POLICY_PLAN, &result);
    assert_int_equal(result.step_ns, result.in_hbm_ns);
    assert_int_equal(result.in_bytes, 0);
    shape_destroy(&shape);
}

/* Ops that last longer than the copies for them: what is read only comes in beside the ops before,
 * and costs no time. */
static void hides_copies_behind_long_ops(void **state)
{
    struct shape shape;
    struct sim_result plan, demand;
    step_begin(&maker);
    for (uint32_t i = 0; i < 8; i++) {
        step_add_role(&maker, 64 * MIB);
        step_op(&maker, 3000000);
        step_touch(&maker, i, 0, STEP_READS);
    }
    make_shape(&shape, 32 * MIB);
    predict(&shape, 5 * 64 * MIB, PLAN_POLICY_PLAN, &plan);
    predict(&shape, 5 * 64 * MIB, PLAN_POLICY_DEMAND, &demand);
    assert_in_range(plan.step_ns, plan.in_hbm_ns, plan.in_hbm_ns + 50000);
    assert_in_range(plan.in_bytes, 3 * 64 * MIB, 8 * 64 * MIB);
    assert_int_equal(plan.out_bytes, 0);
    assert_true(demand.step_ns >= plan.step_ns);
    shape_destroy(&shape);
}

/* A long step with one short peak: half of the blocks must be away then. The link has far more time
 * than it needs before the peak, so the least time is that in HBM. */
static void makes_room_for_a_peak(void **state)
{
    struct shape shape;
    struct sim_result plan, lru;
    step_begin(&maker);
    for (uint32_t i = 0; i < 8; i++) step_add_role(&maker, 64 * MIB);
    for (uint32_t i = 0; i < 8; i++) {
        step_op(&maker, 4000000);
        step_touch(&maker, i, 0, STEP_WRITES);
    }
    uint32_t large = step_alloc(&maker, 256 * MIB);
    step_op(&maker, 4000000);
    step_touch(&maker, large, 0, STEP_WRITES);
    step_free(&maker, large, 0);
    for (uint32_t i = 8; i-- > 0;) {
        step_op(&maker, 4000000);
        step_touch(&maker, i, 0, STEP_WRITES);
    }
    make_shape(&shape, 32 * MIB);
    predict(&shape, 8 * 64 * MIB + 64 * MIB, PLAN_POLICY_PLAN, &plan);
    predict(&shape, 8 * 64 * MIB + 64 * MIB, PLAN_POLICY_LRU, &lru);
    assert_in_range(plan.step_ns, plan.in_hbm_ns, plan.in_hbm_ns + plan.in_hbm_ns / 50);
    assert_true(lru.step_ns >= plan.step_ns);
    shape_destroy(&shape);
}

/* Two of five blocks must be away, and the link could carry them all: it takes as long as the plan
 * lets it wait for room, or for several blocks in a row. */
static void lets_chunks_pass_each_other(void **state)
{
    struct shape shape;
    struct sim_result plan;
    step_begin(&maker);
    for (uint32_t i = 0; i < 60; i++) {
        step_add_role(&maker, 8 * MIB);
        step_op(&maker, 100000);
        step_touch(&maker, i, 0, STEP_READS);
    }
    make_shape(&shape, 8 * MIB);
    predict(&shape, 36 * 8 * MIB, PLAN_POLICY_PLAN, &plan);
    assert_in_range(plan.step_ns, plan.in_hbm_ns, plan.in_hbm_ns + plan.in_hbm_ns / 50);
    shape_destroy(&shape);
}

/* Without any rule's help the plan would not always win; the candidates see to it. */
static void is_never_slower_than_a_rule(void **state)
{
    unsigned slower = 0; /* the rule that the pool follows */
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct random random = {seed};
        struct plan_costs costs;
        struct shape shape;
        struct sim_result plan, other;
        print_message("seed %u\n", (unsigned)seed);
        step_make_random(&maker, &random, 2 + (uint32_t)random_below(&random, 60));
        make_shape(&shape, 8 * MIB);
        uint64_t percent = 30 + random_below(&random, 71);
        uint64_t hbm_bytes = units_round_up(shape.peak_bytes * percent / 100, 2 * MIB);
        predict(&shape, hbm_bytes, PLAN_POLICY_PLAN, &plan);
        assert_true(plan.step_ns >= plan.in_hbm_ns);
        assert_true(plan.used_peak_bytes <= hbm_bytes);
        for (unsigned i = PLAN_POLICY_LRU; i < PLAN_POLICY_COUNT; i++)
            assert_true(predict(&shape, hbm_bytes, (enum plan_policy)i, &other) >= plan.step_ns);
        struct plan followed;
        struct plan_limits limits = {hbm_bytes, {64 * GIB}, false};
        set_costs(&costs);
        assert_int_equal(plan_follow(&shape, &costs, &limits, PLAN_POLICY_PLAN, &followed), VP_OK);
        assert_int_equal(followed.options.mode, EXECUTOR_EAGER);
        assert_true(followed.predicted.step_ns >= plan.step_ns);
        slower += followed.predicted.step_ns > plan.step_ns;
        plan_destroy(&followed);
        shape_destroy(&shape);
    }
    assert_true(slower > 0);
}

static void is_the_same_every_time(void **state)
{
    struct random random = {4711};
    struct shape shape;
    struct sim_result first, second;
    step_make_random(&maker, &random, 60);
    make_shape(&shape, 8 * MIB);
    uint64_t hbm_bytes = units_round_up(shape.peak_bytes / 2, 2 * MIB);
    predict(&shape, hbm_bytes, PLAN_POLICY_PLAN, &first);
    predict(&shape, hbm_bytes, PLAN_POLICY_PLAN, &second);
    assert_memory_equal(&first, &second, sizeof first);
    shape_destroy(&shape);
}

static void says_what_does_not_fit(void **state)
{
    struct shape shape;
    struct plan plan;
    struct plan_costs costs;
    struct plan_limits limits = {64 * MIB, {64 * MIB}, false};
    set_costs(&costs);
    step_begin(&maker);
    for (uint32_t i = 0; i < 4; i++) {
        step_add_role(&maker, 64 * MIB);
        step_op(&maker, 1000);
        step_touch(&maker, i, 0, STEP_WRITES);
    }
    make_shape(&shape, 32 * MIB);
    log_set_level(LOG_QUIET);
    assert_int_equal(plan_make(&shape, &costs, &limits, PLAN_POLICY_PLAN, &plan), VP_QUOTA);
    shape_destroy(&shape);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(needs_nothing_where_all_fits),
        cmocka_unit_test(hides_copies_behind_long_ops),
        cmocka_unit_test(makes_room_for_a_peak),
        cmocka_unit_test(lets_chunks_pass_each_other),
        cmocka_unit_test(is_never_slower_than_a_rule),
        cmocka_unit_test(is_the_same_every_time),
        cmocka_unit_test(says_what_does_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
