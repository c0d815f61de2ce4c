/* Who leaves where it is foretold what will be used when: the one whose use is furthest, and small
 * ones only long after large ones. */
#include "move_fixture.h"

enum { CHUNK = 8, OPS = 40, PERIOD = 1, FIRST_USE = 10, SECOND_USE = 30 };

static uint32_t at; /* operations so far */

static int begin_foretold(void **state)
{
    begin_cut(CHUNK, 2 * CHUNK, 8 * CHUNK);
    assert_int_equal(foresight_create(&move.foresight, &segments), VP_OK);
    at = 0;
    return 0;
}

static int end_foretold(void **state)
{
    foresight_destroy(&move.foresight);
    return end(state);
}

/* Operations of the step pass until the next one is `op`. At FIRST_USE one touches `first`, at
 * SECOND_USE one touches `second`, unless that is NULL. */
static void pass_until(uint32_t op, struct segment *first, struct segment *second)
{
    do {
        uint32_t now = at++ % OPS;
        struct segment *used = now == FIRST_USE ? first : now == SECOND_USE ? second : NULL;
        struct move_touch touch = {.segment = used};
        foresight_note(&move.foresight, PERIOD, OPS, now, &touch, used != NULL, 0);
    } while (at % OPS != op);
}

/* Both are at home, and the step is known: an operation that uses neither comes next. */
static void learn(struct segment *first, struct segment *second)
{
    run(first);
    run(second);
    for (unsigned turn = 0; turn < 3; turn++) pass_until(0, first, second);
    assert_true(foresight_sees(&move.foresight));
}

/* Whose chunk is sent away for an operation that needs a chunk more than there is room for. */
static struct segment *who_leaves(void)
{
    struct operation op = on(take(CHUNK));
    for (unsigned i = 0; i < 100; i++) {
        struct move_action action;
        assert_int_equal(ask(&op), MOVE_HELD);
        assert_true(move_next(&move, MOVE_WORKER_ALL, &action));
        if (action.kind == MOVE_DO_COPY) return action.chunk->segment;
        succeed(&action);
    }
    fail_msg("nobody leaves");
    return NULL;
}

static void of_two_large_ones_the_later_leaves(void **state)
{
    struct segment *sooner = take(CHUNK), *later = take(CHUNK);
    learn(sooner, later);
    assert_ptr_equal(who_leaves(), later);
}

static void a_small_one_stays_where_a_large_one_is_used_sooner(void **state)
{
    struct segment *large = take(CHUNK), *small = take(CHUNK / SEGMENT_SMALL_PART);
    learn(large, small);
    assert_true(foresight_ahead(&move.foresight, small) > foresight_ahead(&move.foresight, large));
    assert_ptr_equal(who_leaves(), large);
}

/* One page more is not small. */
static void what_is_larger_than_small_leaves_by_its_use(void **state)
{
    struct segment *large = take(CHUNK), *medium = take(CHUNK / SEGMENT_SMALL_PART + 1);
    learn(large, medium);
    assert_ptr_equal(who_leaves(), medium);
}

static void a_small_one_leaves_where_its_use_is_much_further(void **state)
{
    struct segment *large = take(CHUNK), *small = take(CHUNK / SEGMENT_SMALL_PART);
    learn(large, small);
    pass_until(FIRST_USE, large, small); /* the next is that of the large one */
    assert_int_equal(foresight_ahead(&move.foresight, large), 1);
    assert_ptr_equal(who_leaves(), small);
}

static void a_small_one_leaves_once_it_is_not_used_again(void **state)
{
    struct segment *large = take(CHUNK), *small = take(CHUNK / SEGMENT_SMALL_PART);
    learn(large, small);
    pass_until(SECOND_USE + 1, large, NULL); /* its use was due, and did not come */
    assert_int_equal(foresight_ahead(&move.foresight, small), UINT32_MAX);
    assert_int_equal(foresight_ahead(&move.foresight, large), OPS + FIRST_USE - SECOND_USE);
    assert_ptr_equal(who_leaves(), small);
}

static void of_those_not_used_again_the_older_leaves(void **state)
{
    struct segment *small = take(CHUNK / SEGMENT_SMALL_PART), *large = take(CHUNK);
    learn(small, large);
    pass_until(SECOND_USE + 1, NULL, NULL);
    assert_int_equal(foresight_ahead(&move.foresight, large), UINT32_MAX);
    assert_ptr_equal(who_leaves(), small);
}

#define FORETOLD(name) cmocka_unit_test_setup_teardown(name, begin_foretold, end_foretold)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FORETOLD(of_two_large_ones_the_later_leaves),
        FORETOLD(a_small_one_stays_where_a_large_one_is_used_sooner),
        FORETOLD(what_is_larger_than_small_leaves_by_its_use),
        FORETOLD(a_small_one_leaves_where_its_use_is_much_further),
        FORETOLD(a_small_one_leaves_once_it_is_not_used_again),
        FORETOLD(of_those_not_used_again_the_older_leaves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
