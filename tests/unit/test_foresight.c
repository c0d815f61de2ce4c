/* What is foretold of memory in a repeating program. */
#include "test.h"

#include "move/foresight.h"

enum { PAGE = 4096, OPS = 6, PERIOD = 1 };

static struct space space;
static struct order order;
static struct segments segments;
static struct foresight foresight;
static uint32_t at; /* operations so far */

static int begin(void **state)
{
    assert_int_equal(space_create(&space, UINT64_C(1) << 44, UINT64_C(1) << 30, PAGE), VP_OK);
    order_create(&order);
    segments_create(&segments, &space, &order, 4);
    assert_int_equal(foresight_create(&foresight, &segments), VP_OK);
    at = 0;
    return 0;
}

static int end(void **state)
{
    foresight_destroy(&foresight);
    segments_destroy(&segments);
    order_destroy(&order);
    space_destroy(&space);
    return 0;
}

static struct segment *take(void)
{
    struct segment *segment;
    assert_int_equal(segment_take(&segments, 0, PAGE, &segment), VP_OK);
    return segment;
}

/* The next operation of the step touches these, up to a NULL. */
static void touch(struct segment *a, struct segment *b, struct segment *c)
{
    struct segment *all[] = {a, b, c};
    struct move_touch touches[3];
    uint32_t count = 0;
    while (count < 3 && all[count]) {
        touches[count] = (struct move_touch){.segment = all[count]};
        count++;
    }
    foresight_note(&foresight, PERIOD, OPS, at++ % OPS, touches, count, 0);
}

static void touch_nothing_to_the_end(void)
{
    while (at % OPS) touch(NULL, NULL, NULL);
}

static uint32_t ahead(const struct segment *segment)
{
    return foresight_ahead(&foresight, segment);
}

static void the_next_use_is_that_of_the_last_turn(void **state)
{
    struct segment *often = take(), *once = take();
    for (int turn = 0; turn < 3; turn++) {
        touch(often, once, NULL);
        if (turn > 0) {
            assert_int_equal(ahead(often), 2);
            assert_int_equal(ahead(once), OPS);
        }
        touch(NULL, NULL, NULL);
        touch(often, NULL, NULL);
        if (turn > 1) assert_int_equal(ahead(often), OPS - 2);
        touch_nothing_to_the_end();
    }
}

/* An allocator puts what plays a part in the step elsewhere each time. */
static void another_segment_in_the_same_place_plays_the_same_part(void **state)
{
    struct segment *weight = take(), *first = take(), *second = take();
    for (int turn = 0; turn < 6; turn++) {
        struct segment *made = turn % 2 ? first : second;
        touch(weight, made, NULL);
        if (turn > 1) assert_int_equal(ahead(made), 3);
        if (turn > 0) assert_int_equal(ahead(weight), OPS);
        touch(NULL, NULL, NULL);
        touch(NULL, NULL, NULL);
        touch(made, NULL, NULL);
        foresight_died(&foresight, made);
        touch_nothing_to_the_end();
    }
}

/* Also where the operation touches more than last time. */
static void a_moved_part_is_known_beside_an_address_too_many(void **state)
{
    struct segment *weight = take(), *first = take(), *second = take(), *other = take();
    for (int turn = 0; turn < 3; turn++) {
        touch(weight, turn < 2 ? first : second, turn < 2 ? NULL : other);
        if (turn == 2) assert_int_equal(ahead(second), 3);
        touch(NULL, NULL, NULL);
        touch(NULL, NULL, NULL);
        touch(turn < 2 ? first : second, NULL, NULL);
        touch_nothing_to_the_end();
    }
}

/* Nor does it hide what comes behind it. */
static void one_more_in_front_shifts_nothing(void **state)
{
    struct segment *weight = take(), *often = take(), *small = take();
    for (int turn = 0; turn < 4; turn++) {
        if (turn < 2)
            touch(weight, often, NULL);
        else
            touch(small, weight, often);
        if (turn > 1) {
            assert_int_equal(ahead(weight), OPS);
            assert_int_equal(ahead(often), 2);
        }
        touch(NULL, NULL, NULL);
        touch(often, NULL, NULL);
        touch_nothing_to_the_end();
    }
}

/* An address in an unused parameter changes nothing for what is to be used soon. */
static void a_stray_address_changes_nothing(void **state)
{
    struct segment *weight = take(), *made = take(), *soon = take();
    for (int turn = 0; turn < 3; turn++) {
        touch(weight, turn < 2 ? made : soon, NULL);
        if (turn == 2) assert_int_equal(ahead(soon), 1);
        touch(soon, NULL, NULL);
        touch_nothing_to_the_end();
    }
}

/* What is newly made in memory whose last use is over is used as what it is now. */
static void memory_that_died_is_no_stray(void **state)
{
    struct segment *made = take(), *late = take();
    for (int turn = 0; turn < 3; turn++) {
        touch(turn < 2 ? made : late, NULL, NULL);
        if (turn == 2) assert_int_equal(ahead(late), 2);
        touch(NULL, NULL, NULL);
        touch(turn < 2 ? made : late, NULL, NULL);
        touch(NULL, NULL, NULL);
        touch(late, NULL, NULL);
        foresight_died(&foresight, late);
        touch_nothing_to_the_end();
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(the_next_use_is_that_of_the_last_turn),
        CASE(another_segment_in_the_same_place_plays_the_same_part),
        CASE(a_moved_part_is_known_beside_an_address_too_many),
        CASE(one_more_in_front_shifts_nothing),
        CASE(a_stray_address_changes_nothing),
        CASE(memory_that_died_is_no_stray),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
