#include "base/rank.h"

#include <stdlib.h>

#include "test.h"

static bool read_as(const char *number, const char *count, struct rank *rank)
{
    unsetenv("LOCAL_RANK");
    unsetenv("LOCAL_WORLD_SIZE");
    if (number) setenv("LOCAL_RANK", number, 1);
    if (count) setenv("LOCAL_WORLD_SIZE", count, 1);
    return rank_read(rank);
}

static void the_environment_is_read(void **state)
{
    struct rank rank = {7, 9};
    assert_true(read_as("3", "8", &rank));
    assert_int_equal(rank.number, 3);
    assert_int_equal(rank.count, 8);
    assert_true(read_as("0", "1", &rank));
    assert_int_equal(rank.count, 1);
}

static void what_makes_no_sense_is_no_rank(void **state)
{
    static const char *const bad[][2] = {{NULL, NULL}, {"1", NULL}, {NULL, "2"},
                                         {"2", "2"},   {"0", "0"},  {"", "2"},
                                         {"-1", "2"},  {"1x", "2"}, {"1", "99999999999"}};
    struct rank rank = {7, 9};
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++)
        if (read_as(bad[i][0], bad[i][1], &rank)) fail_msg("took pair %u", i);
    assert_int_equal(rank.number, 7);
}

/* Whatever the machine and the job: each card computes for one rank or lends to one, never both. */
static void no_card_is_given_twice(void **state)
{
    for (unsigned cards = 1; cards <= 16; cards++) {
        for (unsigned count = 1; count <= cards; count++) {
            uint32_t given = 0;
            for (unsigned number = 0; number < count; number++) {
                struct rank_share share = rank_share(&(struct rank){number, count}, cards);
                assert_int_equal(share.compute_cards, 1u << number);
                assert_int_equal(share.visible, count);
                uint32_t mine = share.compute_cards | share.lend_cards;
                assert_int_equal(share.lend_cards & ((1u << count) - 1), 0);
                assert_int_equal(given & mine, 0);
                given |= mine;
            }
            assert_int_equal(given, (1u << cards) - 1);
        }
    }
}

static void with_few_cards_ranks_share(void **state)
{
    struct rank_share share = rank_share(&(struct rank){3, 4}, 1);
    assert_int_equal(share.compute_cards, 1);
    assert_int_equal(share.lend_cards, 0);
    assert_int_equal(share.visible, 1);
    share = rank_share(&(struct rank){3, 4}, 2);
    assert_int_equal(share.compute_cards, 2);
    assert_int_equal(share.visible, 2);
    share = rank_share(&(struct rank){3, 4}, 0);
    assert_int_equal(share.compute_cards, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_environment_is_read),
        cmocka_unit_test(what_makes_no_sense_is_no_rank),
        cmocka_unit_test(no_card_is_given_twice),
        cmocka_unit_test(with_few_cards_ranks_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
