/* Giving frames back to the driver, stepped by hand. */
#include "move_fixture.h"

#include "move/owed.h"

/* Carries out whatever is to be done until no more is owed; returns what was given. */
static uint64_t give_all(unsigned place)
{
    for (unsigned i = 0; i < 100 && owed_is_open(&move, place); i++) {
        struct move_action action;
        if (move_next(&move, MOVE_WORKER_ALL, &action))
            succeed(&action);
        else
            copies_end();
    }
    return owed_end(&move, place);
}

static void free_frames_are_given_first(void **state)
{
    struct segment *kept = take(1), *freed = take(1);
    run(kept);
    run(freed);
    segment_rest(&segments, freed);
    move_forget_dead(&move, freed);
    frame_give(&frames, frame_in(home));
    owed_begin(&move, home, 1, HOME_PAGES, true);
    struct move_action action = next(MOVE_DO_RELEASE);
    assert_true(action.gives);
    assert_true(owed_is_open(&move, home)); /* it is on its way */
    nothing_to_do(MOVE_WORKER_ALL);
    succeed(&action);
    assert_int_equal(owed_end(&move, home), 1);
    assert_int_equal(frames.place[home].ceded_pages, 1);
    assert_int_equal(state_of(kept), CHUNK_RESIDENT);
    assert_int_equal(state_of(freed), CHUNK_RESIDENT); /* resting: nobody needed its frame */
}

/* What is dead goes without a copy, what lives is copied out; then no more can be given. */
static void idle_chunks_leave_for_it(void **state)
{
    struct segment *segment[HOME_PAGES];
    for (unsigned i = 0; i < HOME_PAGES; i++) run(segment[i] = take(1));
    segment_rest(&segments, segment[2]);
    segment_make_old(&segments, segment[2]);
    move_forget_dead(&move, segment[2]);
    owed_begin(&move, home, 2, 3, true);
    assert_int_equal(give_all(home), 2);
    assert_int_equal(state_of(segment[2]), CHUNK_EMPTY);
    assert_int_equal(state_of(segment[0]), CHUNK_ABSENT);
    assert_int_equal(state_of(segment[1]), CHUNK_RESIDENT);
    assert_int_equal(frames.place[home].ceded_pages, 2);
    assert_int_equal(move.counts.evictions, 1);
    /* They have left two pages for four blocks, and those that are away come back all the same. */
    for (unsigned i = 0; i < HOME_PAGES; i++)
        if (i != 2) run(segment[i]);
    frame_cede_ends(&frames, home, 2, 0);
    assert_int_equal(frame_room_pages(&frames, home), 2);
}

static void no_more_is_given_than_may_be(void **state)
{
    for (unsigned i = 0; i < HOME_PAGES; i++) run(take(1));
    owed_begin(&move, home, 3, 1, true);
    assert_int_equal(give_all(home), 1);
    assert_int_equal(frames.place[home].ceded_pages, 1);
}

static void what_is_in_use_stays(void **state)
{
    struct segment *busy[HOME_PAGES];
    for (unsigned i = 0; i < HOME_PAGES; i++) {
        run(busy[i] = take(1));
        use(busy[i]);
    }
    owed_begin(&move, home, 1, 4, true);
    struct move_action action;
    while (move_next(&move, MOVE_WORKER_ALL, &action)) { /* it asks for a mark, and no more */
        assert_int_equal(action.kind, MOVE_DO_MARK);
        succeed(&action);
    }
    assert_true(owed_is_open(&move, home)); /* it may be idle one day */
    owed_stop(&move, home);
    assert_int_equal(owed_end(&move, home), 0);
    for (unsigned i = 0; i < HOME_PAGES; i++) assert_int_equal(state_of(busy[i]), CHUNK_RESIDENT);
}

/* Where moves wait for the device, it has to be asked. */
static void strict_it_asks_whether_the_device_is_idle(void **state)
{
    move.strict = true;
    for (unsigned i = 0; i < HOME_PAGES; i++) run(take(1));
    uint64_t sequence = order_enter(&order, slot);
    order_leave(order.stream[slot]);
    nothing_to_do(MOVE_WORKER_ALL);
    owed_begin(&move, home, 1, HOME_PAGES, true);
    nothing_to_do(MOVE_WORKER_ALL); /* but a mark is wanted now */
    go(MOVE_DO_MARK);
    order_mark_passed(order.stream[slot], sequence);
    assert_int_equal(give_all(home), 1);
}

static void without_a_refuge_it_says_so(void **state)
{
    end(state);
    begin_with(HOME_PAGES, 0);
    for (unsigned i = 0; i < HOME_PAGES; i++) run(take(1));
    owed_begin(&move, home, 1, 4, true);
    assert_int_equal(give_all(home), 0);
}

static void what_cannot_be_released_is_kept(void **state)
{
    frame_give(&frames, frame_in(home));
    owed_begin(&move, home, 1, 4, true);
    struct move_action action = next(MOVE_DO_RELEASE);
    done(&action, (struct move_result){.ok = false});
    assert_false(owed_is_open(&move, home));
    assert_int_equal(owed_end(&move, home), 0);
    assert_int_equal(frames.place[home].free_pages, 1);
}

/* While an operation runs alone nothing moves; but nobody uses a free frame. */
static void beside_an_exclusive_operation_free_frames_are_given(void **state)
{
    struct segment *segment = take(1);
    run(segment);
    frame_give(&frames, frame_in(home));
    struct operation alone = on(segment);
    alone.request.exclusive = true;
    admit(&alone);
    owed_begin(&move, home, 2, 4, true);
    go(MOVE_DO_RELEASE);
    nothing_to_do(MOVE_WORKER_ALL);
    move_exclusive_over(&move);
    assert_int_equal(give_all(home), 2);
    assert_int_equal(state_of(segment), CHUNK_ABSENT);
}

/* The host's frames have nowhere to go. */
static void other_places_give_what_is_free(void **state)
{
    frame_give(&frames, frame_in(host));
    owed_begin(&move, host, 1, 1, false);
    assert_int_equal(give_all(host), 1);
    assert_int_equal(frames.place[host].ceded_pages, 0);
    assert_int_equal(frame_room_pages(&frames, host), HOST_PAGES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(free_frames_are_given_first),
        CASE(idle_chunks_leave_for_it),
        CASE(no_more_is_given_than_may_be),
        CASE(what_is_in_use_stays),
        CASE(strict_it_asks_whether_the_device_is_idle),
        CASE(without_a_refuge_it_says_so),
        CASE(what_cannot_be_released_is_kept),
        CASE(beside_an_exclusive_operation_free_frames_are_given),
        CASE(other_places_give_what_is_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
