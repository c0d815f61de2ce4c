/* What has been queued, and what of it is done. */
#include "test.h"

#include "order/order.h"

static struct order order;

static int begin(void **state)
{
    order_create(&order);
    return 0;
}

static int end(void **state)
{
    order_destroy(&order);
    return 0;
}

static unsigned slot_of(uintptr_t handle)
{
    return order_find(&order, (void *)handle, 0, NULL);
}

static struct order_stream *stream_of(uintptr_t handle)
{
    return order.stream[slot_of(handle)];
}

/* An operation goes to the driver and comes back. */
static uint64_t run(uintptr_t handle)
{
    uint64_t sequence = order_enter(&order, slot_of(handle));
    order_leave(stream_of(handle));
    return sequence;
}

/* Records a mark; returns what it covers. */
static uint64_t mark(uintptr_t handle)
{
    struct order_stream *stream = stream_of(handle);
    uint64_t covers = order_mark_covers(stream);
    if (covers) order_mark_recorded(stream, covers);
    return covers;
}

/* The oldest mark of the stream has come to pass. */
static void pass(uintptr_t handle)
{
    struct order_stream *stream = stream_of(handle);
    order_mark_passed(stream, order_mark_oldest(stream)->covers);
}

static void streams_are_told_apart(void **state)
{
    unsigned slot = order_find(&order, (void *)1, 0, NULL);
    assert_int_equal(order_find(&order, (void *)1, 0, NULL), slot);
    assert_int_not_equal(order_find(&order, (void *)2, 0, NULL), slot);
    assert_int_not_equal(order_find(&order, (void *)1, 5, NULL), slot); /* another thread's */
    assert_int_not_equal(order_find(&order, (void *)1, 0, (void *)9), slot);
    assert_int_equal(order.count, 4);
}

static void a_mark_covers_what_has_returned(void **state)
{
    assert_int_equal(order_mark_covers(stream_of(1)), 0); /* nothing to cover */
    run(1);
    run(1);
    assert_int_equal(order_mark_covers(stream_of(1)), 2);
    order_enter(&order, slot_of(1)); /* under way: it may land behind a mark */
    assert_int_equal(order_mark_covers(stream_of(1)), 0);
    order_leave(stream_of(1));
    assert_int_equal(mark(1), 3);
    assert_int_equal(order_mark_covers(stream_of(1)), 0); /* covered already */
}

static void done_is_what_passed_marks_cover(void **state)
{
    struct order_uses uses = {0};
    uint64_t first = run(1);
    order_uses_add(&order, &uses, slot_of(1), first);
    mark(1);
    uint64_t second = run(1);
    assert_false(order_uses_done(&order, &uses));
    pass(1);
    assert_true(order_uses_done(&order, &uses));
    order_uses_add(&order, &uses, slot_of(1), second);
    assert_false(order_uses_done(&order, &uses));
    order_all_done(stream_of(1));
    assert_true(order_uses_done(&order, &uses));
}

static void marks_pass_in_order(void **state)
{
    struct order_stream *stream = stream_of(1);
    for (unsigned i = 0; i < 3; i++) {
        run(1);
        mark(1);
    }
    assert_int_equal(order_mark_oldest(stream)->covers, 1);
    order_mark_passed(stream, 1);
    order_mark_passed(stream, 1); /* said twice, of a mark that is gone */
    assert_int_equal(stream->done, 1);
    assert_int_equal(order_mark_oldest(stream)->covers, 2);
}

static void a_full_ring_moves_its_newest_mark_on(void **state)
{
    struct order_stream *stream = stream_of(1);
    for (unsigned i = 0; i < ORDER_MARKS; i++) {
        run(1);
        mark(1);
    }
    struct order_mark *newest = order_mark_next(stream);
    uint64_t before = newest->covers;
    assert_int_equal(before, ORDER_MARKS);
    run(1);
    assert_int_equal(mark(1), ORDER_MARKS + 1);
    assert_int_equal(stream->mark_count, ORDER_MARKS);
    assert_int_equal(newest->covers, ORDER_MARKS + 1);
    for (unsigned i = 1; i < ORDER_MARKS; i++) pass(1);
    /* Asked before it was recorded anew, answered after: that says nothing of what it covers now.
     */
    order_mark_passed(stream, before);
    assert_int_equal(stream->done, ORDER_MARKS - 1);
    pass(1);
    assert_int_equal(stream->done, ORDER_MARKS + 1);
}

static void nothing_is_marked_after_the_end_or_in_a_capture(void **state)
{
    run(1);
    stream_of(1)->capturing = true;
    assert_int_equal(order_mark_covers(stream_of(1)), 0);
    stream_of(1)->capturing = false;
    struct order_stream *stream = stream_of(1);
    order_end(&order, slot_of(1));
    assert_int_equal(order_mark_covers(stream), 0);
}

/* Events are made for a context, and stay with the slot. */
static void a_slot_is_reused_in_its_context_only(void **state)
{
    int contexts[2];
    unsigned slot = order_find(&order, (void *)8, 0, &contexts[0]);
    order_end(&order, slot);
    assert_int_not_equal(order_find(&order, (void *)9, 0, &contexts[1]), slot);
    assert_int_equal(order_find(&order, (void *)9, 0, &contexts[0]), slot);
}

static void a_slot_is_reused_once_its_work_is_done(void **state)
{
    struct order_uses uses = {0};
    unsigned slot = slot_of(1);
    order_uses_add(&order, &uses, slot, run(1));
    mark(1);
    order_end(&order, slot);
    assert_int_not_equal(slot_of(2), slot); /* work is pending */
    order_mark_passed(order.stream[slot], 1);
    assert_int_equal(slot_of(3), slot);
    assert_true(order_uses_done(&order, &uses)); /* uses of its former stream stay done */
    order_uses_add(&order, &uses, slot, run(3));
    assert_false(order_uses_done(&order, &uses));
}

static void marks_are_asked_for_where_none_is_out(void **state)
{
    struct order_uses uses = {0};
    order_uses_add(&order, &uses, slot_of(1), run(1));
    mark(1);
    order_uses_add(&order, &uses, slot_of(2), run(2));
    order_uses_want_marks(&order, &uses);
    assert_false(stream_of(1)->mark_wanted);
    assert_true(stream_of(2)->mark_wanted);
    mark(2);
    assert_false(stream_of(2)->mark_wanted);
}

static void uses_keep_the_last_of_each_stream(void **state)
{
    struct order_uses uses = {0}, more = {0};
    order_uses_add(&order, &uses, slot_of(1), run(1));
    mark(1);
    order_uses_add(&order, &more, slot_of(1), run(1));
    order_uses_add(&order, &more, slot_of(2), run(2));
    order_uses_merge(&order, &uses, &more);
    assert_int_equal(uses.count, 2);
    pass(1);
    mark(2);
    pass(2);
    assert_false(order_uses_done(&order, &uses)); /* the second operation of stream 1 */
    mark(1);
    pass(1);
    assert_true(order_uses_done(&order, &uses));
}

/* More streams than a use has places for: it ends when all that was queued by then has ended, even
 * while others go on. */
static void a_crowd_ends_while_streams_stay_busy(void **state)
{
    struct order_uses uses = {0};
    enum { STREAMS = ORDER_USES + 2 };
    for (uintptr_t i = 1; i <= STREAMS; i++) order_uses_add(&order, &uses, slot_of(i), run(i));
    assert_true(uses.crowded);
    run(STREAMS + 1); /* later */
    order_uses_want_marks(&order, &uses);
    assert_true(stream_of(1)->mark_wanted);
    for (uintptr_t i = 1; i <= STREAMS; i++) {
        assert_false(order_uses_done(&order, &uses));
        mark(i);
        run(i);
        pass(i);
    }
    mark(STREAMS + 1);
    run(STREAMS + 1);
    assert_false(order_uses_done(&order, &uses)); /* it may be older, for all that is known */
    pass(STREAMS + 1);
    assert_true(order_uses_done(&order, &uses));
}

static void whatever_runs_now(void **state)
{
    struct order_uses uses = {0}, merged = {0};
    order_uses_crowd(&order, &uses);
    assert_true(order_uses_done(&order, &uses)); /* nothing does */
    run(1);
    order_uses_crowd(&order, &uses);
    order_uses_merge(&order, &merged, &uses);
    assert_false(order_uses_done(&order, &merged));
    mark(1);
    pass(1);
    assert_true(order_uses_done(&order, &merged));
}

static void marks_cover_what_was_entered_by_then(void **state)
{
    struct order_uses uses = {0};
    run(1);
    run(2);
    order_uses_crowd(&order, &uses);
    assert_false(order_uses_marked(&order, &uses));
    mark(1);
    assert_false(order_uses_marked(&order, &uses));
    run(1); /* later, and of no matter */
    stream_of(2)->capturing = true;
    assert_true(order_uses_marked(&order, &uses)); /* no mark can come of it */
    stream_of(2)->capturing = false;
    mark(2);
    run(2);
    assert_true(order_uses_marked(&order, &uses));
    assert_false(order_uses_done(&order, &uses));
}

static void there_is_no_room_for_too_many_streams(void **state)
{
    for (uintptr_t i = 1; i <= ORDER_STREAMS; i++) {
        assert_true(slot_of(i) < ORDER_STREAMS);
        run(i);
    }
    assert_int_equal(slot_of(ORDER_STREAMS + 1), ORDER_STREAMS);
    order_all_done(stream_of(7));
    order_end(&order, slot_of(7));
    assert_true(slot_of(ORDER_STREAMS + 1) < ORDER_STREAMS);
}

static void all_is_done_while_a_mark_is_recorded(void **state)
{
    run(1);
    struct order_stream *stream = stream_of(1);
    uint64_t covers = order_mark_covers(stream);
    run(1);
    order_all_done(stream);
    order_mark_recorded(stream, covers);
    assert_null(order_mark_oldest(stream));
    assert_int_equal(stream->done, 2);
    assert_int_equal(stream->marked, 2);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(streams_are_told_apart),
        CASE(a_mark_covers_what_has_returned),
        CASE(done_is_what_passed_marks_cover),
        CASE(marks_pass_in_order),
        CASE(all_is_done_while_a_mark_is_recorded),
        CASE(a_full_ring_moves_its_newest_mark_on),
        CASE(nothing_is_marked_after_the_end_or_in_a_capture),
        CASE(a_slot_is_reused_in_its_context_only),
        CASE(a_slot_is_reused_once_its_work_is_done),
        CASE(marks_are_asked_for_where_none_is_out),
        CASE(uses_keep_the_last_of_each_stream),
        CASE(a_crowd_ends_while_streams_stay_busy),
        CASE(marks_cover_what_was_entered_by_then),
        CASE(whatever_runs_now),
        CASE(there_is_no_room_for_too_many_streams),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
