/* Prices: 1 where less to copy would be less to wait for, next to nothing elsewhere. */
#include "plan/prices.h"

#include "plan/gaps.h"
#include "plan_steps.h"
#include "test.h"

static struct step_maker maker;

enum { OPS = 4 };

/* Four ops of 100 us; the last waits 100 us for a copy that began halfway through the one before.
 */
static void watch_a_wait(const struct sim_watch *watch, enum executor_kind kind)
{
    struct executor_action action = {.kind = kind};
    for (uint32_t op = 0; op < OPS - 1; op++)
        watch->ran(watch->context, NULL, op, 100000 * op, 100000 * op + 100000);
    watch->moved(watch->context, &action, 250000, 400000);
    watch->ran(watch->context, NULL, OPS - 1, 400000, 500000);
}

static void are_equal_before_anything_is_known(void **state)
{
    struct prices prices;
    assert_int_equal(prices_create(OPS, &prices), VP_OK);
    for (uint32_t op = 0; op < OPS; op++) assert_true(prices.in[op] == prices.out[op]);
    prices_destroy(&prices);
}

static void are_high_from_the_pause_to_the_wait(void **state)
{
    struct prices prices;
    assert_int_equal(prices_create(OPS, &prices), VP_OK);
    struct sim_watch watch = prices_watch(&prices);
    watch_a_wait(&watch, EXECUTOR_FETCH);
    assert_int_equal(prices_update(&prices, 1), VP_OK);
    assert_true(prices.in[3] > 0.99F && prices.in[2] > 0.99F);
    assert_true(prices.in[1] < 0.1F && prices.in[0] < 0.1F);
    for (uint32_t op = 0; op < OPS; op++) assert_true(prices.out[op] < 0.1F);
    prices_destroy(&prices);
}

static void tell_out_from_in_and_forget_the_step_before(void **state)
{
    struct prices prices;
    assert_int_equal(prices_create(OPS, &prices), VP_OK);
    struct sim_watch watch = prices_watch(&prices);
    watch_a_wait(&watch, EXECUTOR_FETCH);
    assert_int_equal(prices_update(&prices, 1), VP_OK);
    watch_a_wait(&watch, EXECUTOR_EVICT);
    assert_int_equal(prices_update(&prices, 0.5F), VP_OK);
    assert_int_equal(prices.move_count, 1);
    assert_true(prices.out[3] > 0.4F && prices.out[3] < 0.6F);
    assert_true(prices.in[3] > 0.4F && prices.in[3] < 0.6F);
    assert_true(prices.in[0] < 0.1F && prices.out[0] < 0.1F);
    prices_destroy(&prices);
}

/* Of two gaps that are equal but for the prices at their ends, the cheap one is chosen. */
static void choose_the_gap_that_is_free(void **state)
{
    struct shape shape;
    struct gaps gaps;
    for (uint32_t dear = 0; dear < 2; dear++) {
        step_begin(&maker);
        for (uint32_t i = 0; i < 2; i++) step_add_role(&maker, 2 * MIB);
        for (uint32_t i = 0; i < 5; i++) {
            step_op(&maker, 1000);
            if (i == 0 || i == 3) step_touch(&maker, 0, 0, STEP_WRITES);
            if (i == 1 || i == 4) step_touch(&maker, 1, 0, STEP_WRITES);
        }
        assert_int_equal(shape_create(&maker.step, 2 * MIB, 2 * MIB, &shape), VP_OK);
        assert_int_equal(gaps_create(&shape, &gaps), VP_OK);
        float in[] = {0, 0, 0, 0, 0}, out[] = {0, 0, 0, 0, 0};
        in[3 + dear] = 1;
        assert_int_equal(gaps_price(&gaps, in, out), VP_OK);
        gaps_set(&gaps, NULL);
        gaps.occupied[2] += 1; /* so that only there something has to leave */
        gaps_fit(&gaps, 4 * MIB);
        gaps.occupied[2] -= 1;
        assert_true(gaps.away[shape.chunks[1 - dear].first_gap]);
        assert_false(gaps.away[shape.chunks[dear].first_gap]);
        gaps_destroy(&gaps);
        shape_destroy(&shape);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(are_equal_before_anything_is_known),
        cmocka_unit_test(are_high_from_the_pause_to_the_wait),
        cmocka_unit_test(tell_out_from_in_and_forget_the_step_before),
        cmocka_unit_test(choose_the_gap_that_is_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
