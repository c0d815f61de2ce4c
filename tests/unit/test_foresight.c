/* What is foretold of memory in a repeating program. */
#include <string.h>

#include "test.h"

#include "base/random.h"
#include "move/foresight.h"

enum { PAGE = 4096, OPS = 6, PERIOD = 1 };

static struct space space;
static struct order order;
static struct segments segments;
static struct foresight foresight;
static uint32_t at; /* operations so far */
static uint64_t needed[VP_MAX_CARDS];

static int begin(void **state)
{
    assert_int_equal(space_create(&space, UINT64_C(1) << 44, UINT64_C(1) << 30, PAGE), VP_OK);
    order_create(&order);
    segments_create(&segments, &space, &order, 4);
    assert_int_equal(foresight_create(&foresight, &segments), VP_OK);
    at = 0;
    memset(needed, 0, sizeof needed);
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

static struct segment *take_on(unsigned card)
{
    struct segment *segment;
    assert_int_equal(segment_take(&segments, card, PAGE, &segment), VP_OK);
    return segment;
}

static struct segment *take(void)
{
    return take_on(0);
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
    foresight_note(&foresight, PERIOD, OPS, at++ % OPS, touches, count, needed);
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

/* What a step needs on three cards, of which one comes into use only in the second turn. */
static uint64_t needed_of(unsigned card, uint32_t op, bool all)
{
    switch (card) {
    case 0: return 100 + op;
    case 2: return 7 * op;
    case 5: return all ? 40 - op : 0;
    default: return 0;
    }
}

static void a_turn_that_needs(bool all)
{
    do {
        for (unsigned card = 0; card < VP_MAX_CARDS; card++)
            needed[card] = needed_of(card, at % OPS, all);
        touch(NULL, NULL, NULL);
    } while (at % OPS);
}

static void expect_needed(unsigned card)
{
    struct foresight_walk walk = foresight_walk_begin(&foresight, card);
    assert_int_equal(foresight_length(&foresight, card), OPS);
    for (uint32_t i = 0; i < 2 * OPS; i++)
        assert_int_equal(foresight_walk_on(&walk), needed_of(card, i % OPS, true));
}

static void what_a_card_needs_is_foretold_without_the_others(void **state)
{
    take_on(0);
    take_on(2);
    a_turn_that_needs(false);
    take_on(5);
    a_turn_that_needs(true);
    assert_true(foresight_sees(&foresight));
    expect_needed(0);
    expect_needed(2);
    expect_needed(5);
    assert_int_equal(foresight_length(&foresight, 1), 0);
}

/* Nor does a card take memory that is not in use. */
static void only_cards_in_use_have_a_row(void **state)
{
    take_on(3);
    a_turn_that_needs(true);
    assert_null(foresight.following->cards[0].needed);
    assert_non_null(foresight.following->cards[3].needed);
}

/* Two threads, each with a card, of which one is ahead of the other, and not always as far: what
 * is foretold on a card does not tell. Card 0 has the operations below CARD_OPS, card 1 the others.
 */
enum { CARD_OPS = OPS / 2 };

static void touch_on(unsigned card, struct segment *segments_of[2][2])
{
    static uint32_t passed[2];
    if (at == 0) memset(passed, 0, sizeof passed);
    uint32_t turn = passed[card]++ % CARD_OPS;
    struct move_touch touches = {.segment = segments_of[card][turn > 0]};
    for (unsigned i = 0; i < 2; i++) needed[i] = 100 * (i + 1) + passed[i] % CARD_OPS;
    foresight_note(&foresight, PERIOD, OPS, card * CARD_OPS + turn, &touches, 1, needed);
    at++;
}

static void how_far_the_others_are_changes_nothing_on_a_card(void **state)
{
    struct segment *of[2][2] = {{take_on(0), take_on(0)}, {take_on(1), take_on(1)}};
    static const unsigned order_of_cards[] = {
        0, 1, 0, 1, 0, 1,                   /* first turn */
        0, 0, 1, 1, 1, 0,                   /* second */
        1, 1, 1, 0, 1, 1, 1, 0, 1, 1, 1, 0, /* card 1's thread is ahead */
    };
    for (unsigned i = 0; i < sizeof order_of_cards / sizeof *order_of_cards; i++)
        touch_on(order_of_cards[i], of);
    assert_int_equal(foresight_length(&foresight, 0), CARD_OPS);
    assert_int_equal(foresight_length(&foresight, 1), CARD_OPS);
    for (unsigned card = 0; card < 2; card++) { /* both were last at their third operation */
        struct foresight_walk walk = foresight_walk_begin(&foresight, card);
        assert_int_equal(ahead(of[card][0]), 1);
        assert_int_equal(ahead(of[card][1]), 2);
        for (uint32_t i = 1; i <= CARD_OPS; i++)
            assert_int_equal(foresight_walk_on(&walk), 100 * (card + 1) + i % CARD_OPS);
    }
}

/* An operation that no longer touches what is a card's is not one of its own any more. */
static void an_operation_may_leave_a_card(void **state)
{
    struct segment *first = take_on(0), *second = take_on(1);
    for (int turn = 0; turn < 3; turn++) {
        touch(turn < 2 ? first : second, second, NULL);
        while (at % OPS) touch(second, NULL, NULL);
        assert_int_equal(foresight_length(&foresight, 0), turn < 2);
        assert_int_equal(foresight_length(&foresight, 1), OPS);
    }
}

/* A long period in which operations change cards and what is needed, now more and now less:
 * stretches say what a look at each operation says. */
enum { LONG = 5 * FORESIGHT_STRETCH + 21, LONG_PERIOD = 2, LONG_CARDS = 2 };

static void expect_stretches_as_the_operations(unsigned card)
{
    uint32_t length = foresight_length(&foresight, card);
    struct foresight_walk walk = foresight_walk_begin(&foresight, card);
    uint64_t most = 0;
    for (uint32_t i = 1; i <= length; i++) {
        uint64_t one = foresight_walk_on(&walk);
        if (one > most) most = one;
        assert_int_equal(foresight_most_needed(&foresight, card, i), most);
    }
    const struct foresight_card *row = &foresight.following->cards[card];
    for (uint32_t first = 0; first < LONG; first += FORESIGHT_STRETCH) {
        struct foresight_stretch expected = {0};
        for (uint32_t i = first; i < first + FORESIGHT_STRETCH && i < LONG; i++) {
            expected.op_count += row->needed[i] != 0;
            if (row->needed[i] > expected.most) expected.most = row->needed[i];
        }
        assert_memory_equal(&row->stretches[first / FORESIGHT_STRETCH], &expected, sizeof expected);
    }
}

static void a_stretch_says_what_its_operations_say(void **state)
{
    struct random random = {1};
    struct move_touch touches[LONG_CARDS];
    for (unsigned card = 0; card < LONG_CARDS; card++)
        touches[card] = (struct move_touch){.segment = take_on(card)};
    for (uint32_t i = 0; i < 4 * LONG; i++) {
        /* Mostly the first card's; at times only the other's, or both. */
        uint64_t of = random_below(&random, 8);
        uint32_t first = of == 0, count = of == 1 ? 2 : 1;
        for (unsigned card = 0; card < LONG_CARDS; card++)
            needed[card] = random_below(&random, 1000);
        foresight_note(&foresight, LONG_PERIOD, LONG, i % LONG, &touches[first], count, needed);
        if (i >= LONG && i % 37 == 0)
            for (unsigned card = 0; card < LONG_CARDS; card++)
                expect_stretches_as_the_operations(card);
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
        CASE(what_a_card_needs_is_foretold_without_the_others),
        CASE(only_cards_in_use_have_a_row),
        CASE(how_far_the_others_are_changes_nothing_on_a_card),
        CASE(a_stretch_says_what_its_operations_say),
        CASE(an_operation_may_leave_a_card),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
