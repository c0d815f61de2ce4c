/* What is advised: only what helps, and with the time that the planner's simulation gives. */
#include "pool/predict.h"

#include "base/log.h"
#include "plan_steps.h"
#include "test.h"

enum { LAYERS = 8 };

static const uint64_t layer_bytes = 64 * MIB, layer_ns = 200000;

static struct step_maker maker;
static struct predict predict;

static struct predict_setup setup_with(uint64_t hbm_bytes)
{
    static struct machine machine;
    struct predict_setup setup = {.limits = {hbm_bytes, {64 * GIB}, true},
                                  .chunk_bytes = 8 * MIB,
                                  .page_bytes = 2 * MIB,
                                  .policy = PLAN_POLICY_PLAN};
    assert_int_equal(machine_from_name("h200", &machine), VP_OK);
    plan_costs_of(&machine, 0, &machine.cards, 1, &setup.costs);
    return setup;
}

static const struct predict_advice *find(enum predict_help kind)
{
    for (uint32_t i = 0; i < predict.advices; i++)
        if (predict.advice[i].kind == kind) return &predict.advice[i];
    return NULL;
}

static void advise(const struct predict_setup *setup)
{
    assert_true(step_is_valid(&maker.step));
    assert_int_equal(predict_step(&maker.step, setup, &predict), VP_OK);
    predict_advise(&maker.step, setup, &predict);
}

/* A forward pass that leaves something of each layer for the backward pass. */
static void make_passes(void)
{
    uint32_t kept[LAYERS];
    step_begin(&maker);
    for (uint32_t i = 0; i < LAYERS; i++) {
        kept[i] = step_alloc(&maker, layer_bytes);
        step_op(&maker, layer_ns);
        step_touch(&maker, kept[i], 0, STEP_WRITES);
    }
    for (uint32_t i = LAYERS; i-- > 0;) {
        step_op(&maker, 2 * layer_ns);
        step_touch(&maker, kept[i], 0, STEP_READS);
        step_free(&maker, kept[i], 0);
    }
}

static void where_all_fits_there_is_nothing_to_advise(void **state)
{
    make_passes();
    struct predict_setup setup = setup_with(2 * LAYERS * layer_bytes);
    advise(&setup);
    assert_int_equal(predict.advices, 0);
    assert_int_equal(predict.points, 1);
    assert_int_equal(predict.now.step_ns, predict.now.in_hbm_ns);
}

static void more_of_the_card_is_worth_what_the_curve_says(void **state)
{
    make_passes();
    struct predict_setup setup = setup_with(3 * layer_bytes);
    advise(&setup);
    const struct predict_advice *all = find(PREDICT_HBM_ALL), *more = find(PREDICT_HBM_MORE);
    assert_non_null(all);
    assert_in_range(all->step_ns, predict.now.in_hbm_ns, predict.now.in_hbm_ns / 100 * 101);
    assert_true(!more || (more->step_ns > all->step_ns && more->step_ns < predict.now.step_ns));
    assert_int_equal(predict.points, PREDICT_CURVE);
    assert_int_equal(predict.curve[0].step_ns, predict.now.step_ns);
    assert_int_equal(predict.curve[PREDICT_CURVE - 1].hbm_bytes, predict.fits_bytes);
    for (uint32_t i = 1; i < predict.points; i++)
        assert_true(predict.curve[i].step_ns <= predict.curve[i - 1].step_ns);
    for (uint32_t i = 1; i < predict.advices; i++)
        assert_true(predict.advice[i].step_ns >= predict.advice[i - 1].step_ns);
}

static void what_the_forward_pass_keeps_may_be_computed_again(void **state)
{
    make_passes();
    struct predict_setup setup = setup_with(3 * layer_bytes);
    advise(&setup);
    const struct predict_advice *advice = find(PREDICT_CHECKPOINT);
    assert_non_null(advice);
    assert_true(advice->step_ns > predict.now.in_hbm_ns);
    assert_null(find(PREDICT_FUSED));
}

/* An optimizer that goes over all its state several times, in operations of all of it. */
static void one_pass_over_the_state_beats_many(void **state)
{
    step_begin(&maker);
    for (uint32_t i = 0; i < LAYERS; i++) step_add_role(&maker, layer_bytes);
    for (uint32_t pass = 0; pass < 6; pass++) {
        step_op(&maker, layer_ns);
        for (uint32_t i = 0; i < LAYERS; i++) step_touch(&maker, i, 0, STEP_WRITES);
    }
    struct predict_setup setup = setup_with(LAYERS / 2 * layer_bytes);
    advise(&setup);
    const struct predict_advice *advice = find(PREDICT_FUSED);
    assert_non_null(advice);
    assert_true(advice->step_ns < predict.now.step_ns);
    assert_null(find(PREDICT_CHECKPOINT));
}

static void another_policy_than_plan_is_compared_with_it(void **state)
{
    make_passes();
    struct predict_setup setup = setup_with(3 * layer_bytes);
    setup.policy = PLAN_POLICY_LRU;
    advise(&setup);
    const struct predict_advice *advice = find(PREDICT_POLICY);
    assert_non_null(advice);
    struct predict lru = predict;
    setup.policy = PLAN_POLICY_PLAN;
    assert_int_equal(predict_step(&maker.step, &setup, &predict), VP_OK);
    assert_int_equal(advice ? lru.advice[advice - predict.advice].step_ns : 0, predict.now.step_ns);
}

static void what_cannot_run_is_said_so(void **state)
{
    make_passes();
    struct predict_setup setup = setup_with(3 * layer_bytes);
    setup.limits.refuge_bytes[0] = layer_bytes;
    assert_int_equal(predict_step(&maker.step, &setup, &predict), VP_QUOTA);
}

/* Blocks that lie in segments larger than they are hold more than the plan gives them. */
static void what_segments_waste_is_not_to_be_had(void **state)
{
    make_passes();
    struct predict_setup setup = setup_with(LAYERS / 2 * layer_bytes);
    advise(&setup);
    uint64_t step_ns = predict.now.step_ns, fits_bytes = predict.fits_bytes;
    setup.peak_held_bytes = predict.peak_bytes;
    advise(&setup);
    assert_int_equal(predict.wasted_bytes, 0);
    assert_int_equal(predict.now.step_ns, step_ns);
    setup.peak_held_bytes += 20 * MIB + 1;
    advise(&setup);
    assert_int_equal(predict.wasted_bytes, 20 * MIB);
    assert_true(predict.now.step_ns > step_ns);
    assert_int_equal(predict.fits_bytes, fits_bytes + 20 * MIB);
    assert_int_equal(predict.curve[0].hbm_bytes, setup.limits.hbm_bytes);
}

int main(void)
{
    log_set_level(LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_segments_waste_is_not_to_be_had),
        cmocka_unit_test(where_all_fits_there_is_nothing_to_advise),
        cmocka_unit_test(more_of_the_card_is_worth_what_the_curve_says),
        cmocka_unit_test(what_the_forward_pass_keeps_may_be_computed_again),
        cmocka_unit_test(one_pass_over_the_state_beats_many),
        cmocka_unit_test(another_policy_than_plan_is_compared_with_it),
        cmocka_unit_test(what_cannot_run_is_said_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
