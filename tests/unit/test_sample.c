/* Medians and other quantiles. */
#include "base/sample.h"

#include "base/random.h"
#include "test.h"

static void medians_are_measured_values(void **state)
{
    double one[] = {4}, two[] = {9, -3}, three[] = {2, 8, 1}, four[] = {8, 2, 6, 4};
    assert_true(sample_median(one, 1) == 4);
    assert_true(sample_median(two, 2) == -3);
    assert_true(sample_median(three, 3) == 2);
    assert_true(sample_median(four, 4) == 4);
}

static void quantiles_run_from_least_to_largest(void **state)
{
    double values[] = {5, 1, 1e18, -7, 5};
    assert_true(sample_quantile(values, 5, 0) == -7);
    assert_true(sample_quantile(values, 5, 0.74) == 5);
    assert_true(sample_quantile(values, 5, 1) == 1e18);
}

static void values_are_sorted_afterwards(void **state)
{
    enum { COUNT = 1000 };
    double values[COUNT];
    struct random random = {.state = 3};
    for (unsigned i = 0; i < COUNT; i++) values[i] = (double)random_below(&random, 300) - 150;
    double p99 = sample_quantile(values, COUNT, 0.99);
    for (unsigned i = 1; i < COUNT; i++) assert_true(values[i - 1] <= values[i]);
    assert_true(p99 == values[989]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(medians_are_measured_values),
        cmocka_unit_test(quantiles_run_from_least_to_largest),
        cmocka_unit_test(values_are_sorted_afterwards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
