/* Frames of the host that are made ahead of need. */
#include "move_fixture.h"

#include "move/owed.h"
#include "move/stock.h"

enum { WIDE = 12, ROOMY = 40 };

static int begin_roomy(void **state)
{
    return begin_with(WIDE, ROOMY);
}

static void fill(unsigned pages)
{
    move.stocks = false;
    for (unsigned i = 0; i < pages; i++) run(take(1));
    move.stocks = true;
}

static unsigned stock(void)
{
    struct move_action action;
    unsigned made = 0;
    while (move_next(&move, MOVE_WORKER_STOCK, &action)) {
        assert_int_equal(action.kind, MOVE_DO_MAKE);
        assert_int_equal(action.place, host);
        assert_true(made++ < ROOMY);
        succeed(&action);
    }
    return made;
}

static void two_thirds_of_what_is_in_use_beyond_the_half(void **state)
{
    fill(WIDE / 2);
    assert_int_equal(stock(), 0);
    fill(3);
    assert_int_equal(stock(), 2);
    fill(3);
    assert_int_equal(stock(), 2);
    assert_int_equal(stock(), 0);
    assert_int_equal(frames.place[host].free_pages, 4);
    assert_int_equal(frames.place[host].peak_pages, 0); /* it holds nothing */
}

static void at_most_a_quarter_of_the_host(void **state)
{
    end(state);
    begin_with(WIDE, 8);
    fill(WIDE);
    assert_int_equal(stock(), 2); /* not four */
}

static void who_leaves_need_not_wait_for_a_frame(void **state)
{
    fill(WIDE);
    assert_int_equal(stock(), 4);
    struct segment *more = take(1);
    struct operation op = on(more);
    assert_int_equal(ask(&op), MOVE_HELD);
    go(MOVE_DO_COPY);
    copies_end();
    admit(&op);
}

/* What cannot be had ahead of need is not asked for again, and nobody is told. */
static void no_more_once_it_failed(void **state)
{
    struct move_action action;
    fill(WIDE);
    assert_true(move_next(&move, MOVE_WORKER_STOCK, &action));
    done(&action, (struct move_result){.exhausted = true});
    nothing_to_do(MOVE_WORKER_STOCK);
    assert_int_equal(frames.place[host].capacity_pages, ROOMY);
    assert_int_equal(frames.place[host].promised_pages, 0);
}

/* The program's own host memory comes first. */
static void no_more_once_the_driver_wanted_it_back(void **state)
{
    fill(WIDE);
    assert_int_equal(stock(), 4);
    owed_begin(&move, host, 2, 4, false);
    while (owed_is_open(&move, host)) go(MOVE_DO_RELEASE);
    assert_int_equal(owed_end(&move, host), 2);
    nothing_to_do(MOVE_WORKER_STOCK);
}

#define ROOMY_CASE(name) cmocka_unit_test_setup_teardown(name, begin_roomy, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROOMY_CASE(two_thirds_of_what_is_in_use_beyond_the_half),
        ROOMY_CASE(at_most_a_quarter_of_the_host),
        ROOMY_CASE(who_leaves_need_not_wait_for_a_frame),
        ROOMY_CASE(no_more_once_it_failed),
        ROOMY_CASE(no_more_once_the_driver_wanted_it_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
