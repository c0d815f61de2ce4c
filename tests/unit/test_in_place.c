#include "move/in_place.h"

#include <string.h>

#include "test.h"

enum { COPY = 7, SORT = 8, MANY = 4 * IN_PLACE_FUNCTIONS };

/* 4 GB/s at home, 1 GB/s over the link. */
static const uint64_t bytes = 1000000, near_ns = 250000, copy_ns = 1000000;

static struct in_place costs;

static int begin(void **state)
{
    memset(&costs, 0, sizeof costs);
    in_place_set_rate(&costs, 1.0);
    return 0;
}

static void nothing_is_known_of_what_was_not_measured(void **state)
{
    assert_int_equal(in_place_judge(&costs, COPY), IN_PLACE_UNKNOWN);
    in_place_note_near(&costs, COPY, bytes, near_ns);
    assert_int_equal(in_place_judge(&costs, COPY), IN_PLACE_UNKNOWN);
    assert_int_equal(in_place_near_ns(&costs, COPY, 4 * bytes), 4 * near_ns);
    assert_int_equal(in_place_near_ns(&costs, SORT, bytes), 0);
    assert_true(in_place_cost(&costs, COPY) < 0);
    in_place_note_far(&costs, SORT, bytes, bytes, copy_ns);
    assert_int_equal(in_place_judge(&costs, SORT), IN_PLACE_UNKNOWN);
}

static void one_pass_costs_a_copy(void **state)
{
    in_place_note_far(&costs, COPY, bytes, bytes, near_ns + copy_ns);
    in_place_note_near(&costs, COPY, 2 * bytes, 2 * near_ns);
    assert_float_equal(in_place_cost(&costs, COPY), 1.0, 1e-9);
    assert_int_equal(in_place_judge(&costs, COPY), IN_PLACE_PAYS);
}

static void only_far_bytes_count(void **state)
{
    in_place_note_near(&costs, COPY, bytes, near_ns);
    in_place_note_far(&costs, COPY, 10 * bytes, bytes, 10 * near_ns + copy_ns);
    assert_float_equal(in_place_cost(&costs, COPY), 1.0, 1e-9);
}

static void many_passes_are_bad_for_good(void **state)
{
    in_place_note_near(&costs, SORT, bytes, near_ns);
    in_place_note_far(&costs, SORT, bytes, bytes, near_ns + 2 * copy_ns);
    assert_int_equal(in_place_judge(&costs, SORT), IN_PLACE_BAD);
    assert_false(in_place_wants(&costs, SORT, true));
    for (unsigned i = 0; i < 100; i++) in_place_note_far(&costs, SORT, bytes, bytes, near_ns);
    assert_true(in_place_cost(&costs, SORT) < 1);
    assert_int_equal(in_place_judge(&costs, SORT), IN_PLACE_BAD);
}

static void the_limit_is_a_fifth_more_than_a_copy(void **state)
{
    in_place_note_near(&costs, COPY, bytes, near_ns);
    in_place_note_far(&costs, COPY, bytes, bytes, near_ns + copy_ns / 100 * 119);
    assert_int_equal(in_place_judge(&costs, COPY), IN_PLACE_PAYS);
    in_place_note_near(&costs, SORT, bytes, near_ns);
    in_place_note_far(&costs, SORT, bytes, bytes, near_ns + copy_ns / 100 * 121);
    assert_int_equal(in_place_judge(&costs, SORT), IN_PLACE_BAD);
}

static void the_rate_may_be_known_late(void **state)
{
    costs.gbps = 0;
    in_place_note_near(&costs, COPY, bytes, near_ns);
    in_place_note_far(&costs, COPY, bytes, bytes, near_ns + copy_ns);
    assert_int_equal(in_place_judge(&costs, COPY), IN_PLACE_UNKNOWN);
    in_place_set_rate(&costs, 1.1);
    assert_int_equal(in_place_judge(&costs, COPY), IN_PLACE_PAYS);
    in_place_set_rate(&costs, 2.0); /* a copy would take half as long */
    assert_int_equal(in_place_judge(&costs, COPY), IN_PLACE_BAD);
}

static void what_is_worth_measuring(void **state)
{
    assert_true(in_place_wants(&costs, COPY, true));
    assert_false(in_place_wants(&costs, COPY, false));
    in_place_note_far(&costs, COPY, bytes, bytes, near_ns + copy_ns);
    assert_true(in_place_wants(&costs, COPY, false));
    in_place_note_near(&costs, COPY, bytes, near_ns);
    assert_false(in_place_wants(&costs, COPY, false));
    for (unsigned i = 1; i < IN_PLACE_ENOUGH; i++) {
        assert_true(in_place_wants(&costs, COPY, true));
        in_place_note_far(&costs, COPY, bytes, bytes, near_ns + copy_ns);
    }
    assert_false(in_place_wants(&costs, COPY, true));
}

static void a_full_table_knows_what_it_has(void **state)
{
    for (uint64_t f = 1; f <= MANY; f++) {
        in_place_note_near(&costs, f, bytes, near_ns);
        in_place_note_far(&costs, f, bytes, bytes, near_ns + copy_ns);
    }
    unsigned known = 0;
    for (uint64_t f = 1; f <= MANY; f++) known += in_place_judge(&costs, f) == IN_PLACE_PAYS;
    assert_int_equal(known, costs.count);
    assert_in_range(known, IN_PLACE_FUNCTIONS / 2, IN_PLACE_FUNCTIONS);
    assert_int_equal(in_place_judge(&costs, 1), IN_PLACE_PAYS);
    assert_int_equal(in_place_judge(&costs, MANY), IN_PLACE_UNKNOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(nothing_is_known_of_what_was_not_measured, begin),
        cmocka_unit_test_setup(one_pass_costs_a_copy, begin),
        cmocka_unit_test_setup(only_far_bytes_count, begin),
        cmocka_unit_test_setup(many_passes_are_bad_for_good, begin),
        cmocka_unit_test_setup(the_limit_is_a_fifth_more_than_a_copy, begin),
        cmocka_unit_test_setup(the_rate_may_be_known_late, begin),
        cmocka_unit_test_setup(what_is_worth_measuring, begin),
        cmocka_unit_test_setup(a_full_table_knows_what_it_has, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
