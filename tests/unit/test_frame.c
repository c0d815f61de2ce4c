/* The books of physical memory. */
#include "test.h"

#include "base/random.h"
#include "frame/frame.h"

static struct frame_table table;
static unsigned card, host;

static int begin(void **state)
{
    assert_int_equal(frame_table_create(&table), VP_OK);
    card = frame_place_add(&table, "card0", VP_PLACE_CARD, 0, 10);
    host = frame_place_add(&table, "host0", VP_PLACE_HOST, 0, 100);
    return 0;
}

static int end(void **state)
{
    frame_table_destroy(&table);
    return 0;
}

/* Plans, and makes where that is the plan. */
static struct frame *get(unsigned place, uint32_t pages)
{
    static uint64_t handle;
    struct frame *frame = NULL;
    enum frame_plan plan = frame_plan(&table, place, pages, &frame);
    handle++;
    if (plan == FRAME_MAKE) {
        assert_non_null(frame_add(&table, place, pages, handle, handle << 20));
        plan = frame_plan(&table, place, pages, &frame);
    }
    assert_int_equal(plan, FRAME_TAKE);
    assert_int_equal(frame->pages, pages);
    assert_int_equal(frame->place, place);
    assert_true(frame_table_is_valid(&table));
    return frame;
}

static enum frame_plan plan_of(unsigned place, uint32_t pages, struct frame **frame)
{
    *frame = NULL;
    enum frame_plan plan = frame_plan(&table, place, pages, frame);
    assert_true(frame_table_is_valid(&table));
    return plan;
}

static void frames_are_recycled_by_size(void **state)
{
    struct frame *four = get(card, 4), *two = get(card, 2), *again;
    frame_give(&table, four);
    frame_give(&table, two);
    assert_int_equal(plan_of(card, 2, &again), FRAME_TAKE);
    assert_ptr_equal(again, two);
    assert_int_equal(plan_of(card, 4, &again), FRAME_TAKE);
    assert_ptr_equal(again, four);
}

static void a_free_frame_of_another_size_makes_room(void **state)
{
    struct frame *four = get(card, 4), *other = get(card, 4), *withdrawn, *made;
    frame_give(&table, four);
    assert_int_equal(plan_of(card, 3, &withdrawn), FRAME_RELEASE);
    assert_ptr_equal(withdrawn, four);
    /* While it is being released its pages belong to nobody. */
    assert_int_equal(plan_of(card, 3, &made), FRAME_FULL);
    frame_forget(&table, withdrawn);
    assert_non_null(get(card, 3));
    frame_give(&table, other);
}

static void ceded_pages_are_the_drivers_for_a_while(void **state)
{
    struct frame *four = get(card, 4), *two = get(card, 2), *made;
    assert_int_equal(frame_cede_unmade(&table, card, 3), 3);
    frame_give(&table, four);
    assert_null(frame_withdraw(&table, card, 3)); /* it is larger */
    assert_ptr_equal(frame_withdraw(&table, card, 4), four);
    frame_cede(&table, four);
    assert_true(frame_table_is_valid(&table));
    assert_int_equal(frame_capacity_pages(&table.place[card]), 3);
    assert_int_equal(frame_room_pages(&table, card), 1);
    assert_int_equal(plan_of(card, 2, &made), FRAME_FULL);
    assert_int_equal(frame_cede_unmade(&table, card, 100), 1);
    frame_cede_ends(&table, card, 5, 3); /* the driver took three */
    assert_true(frame_table_is_valid(&table));
    assert_int_equal(table.place[card].capacity_pages, 7);
    assert_int_equal(frame_room_pages(&table, card), 5);
    assert_non_null(get(card, 5));
    assert_int_equal(plan_of(card, 1, &made), FRAME_FULL);
    assert_int_equal(frame_grow_back(&table, card, 1), 1); /* which come back */
    assert_int_equal(frame_grow_back(&table, card, 100), 2);
    assert_int_equal(table.place[card].capacity_pages, table.place[card].share_pages);
    frame_give(&table, two);
}

static void what_cannot_be_released_is_free_again(void **state)
{
    struct frame *four = get(card, 4), *withdrawn;
    get(card, 4);
    uint64_t peak = table.place[card].peak_pages;
    frame_give(&table, four);
    assert_int_equal(plan_of(card, 3, &withdrawn), FRAME_RELEASE);
    frame_keep(&table, withdrawn);
    assert_true(frame_table_is_valid(&table));
    assert_int_equal(table.place[card].peak_pages, peak);
    assert_ptr_equal(get(card, 4), four);
}

static void a_full_place_says_so(void **state)
{
    struct frame *frame;
    get(card, 8);
    assert_int_equal(plan_of(card, 3, &frame), FRAME_FULL);
    assert_int_equal(plan_of(card, 2, &frame), FRAME_MAKE);
    assert_int_equal(plan_of(card, 1, &frame), FRAME_FULL); /* promised pages count */
    frame_fail(&table, card, 2, false);
    assert_int_equal(plan_of(card, 1, &frame), FRAME_MAKE);
    frame_fail(&table, card, 1, false);
}

static void a_place_that_gives_less_shrinks(void **state)
{
    struct frame *frame;
    get(card, 4);
    assert_int_equal(plan_of(card, 2, &frame), FRAME_MAKE);
    frame_fail(&table, card, 2, true);
    assert_int_equal(table.place[card].capacity_pages, 4);
    assert_int_equal(plan_of(card, 1, &frame), FRAME_FULL);
    assert_int_equal(frame_room_pages(&table, card), 0);
    assert_int_equal(frame_room_pages(&table, host), 100); /* others do not */
}

static void a_frame_under_copy_is_free_when_that_ends(void **state)
{
    struct frame *frame = get(card, 4), *other;
    frame_copy_begin(frame);
    frame_copy_begin(frame);
    frame_give(&table, frame);
    assert_true(frame_table_is_valid(&table));
    assert_int_equal(table.place[card].parked_pages, 4);
    assert_int_equal(plan_of(card, 4, &other), FRAME_MAKE); /* not that one */
    frame_fail(&table, card, 4, false);
    frame_copy_end(&table, frame);
    assert_int_equal(table.place[card].free_pages, 0);
    frame_copy_end(&table, frame);
    assert_int_equal(table.place[card].free_pages, 4);
    assert_int_equal(table.place[card].parked_pages, 0);
    assert_ptr_equal(get(card, 4), frame);
}

static void the_largest_is_withdrawn_first(void **state)
{
    struct frame *small = get(host, 1), *large = get(host, 16);
    assert_null(frame_withdraw(&table, host, FRAME_MAX_PAGES));
    frame_give(&table, small);
    frame_give(&table, large);
    assert_ptr_equal(frame_withdraw(&table, host, FRAME_MAX_PAGES), large);
    assert_ptr_equal(frame_withdraw(&table, host, FRAME_MAX_PAGES), small);
    frame_forget(&table, large);
    frame_forget(&table, small);
    assert_true(frame_table_is_valid(&table));
}

static void what_is_laid_by_can_be_had_back(void **state)
{
    struct frame *frame = get(host, 4), *kept = NULL;
    frame_lay_by(&table, frame, &kept, true);
    assert_ptr_equal(kept, frame);
    assert_true(frame_table_is_valid(&table));
    assert_int_equal(frame_room_pages(&table, host), 100); /* it is in nobody's way */
    assert_ptr_equal(frame_recover(&table, &kept), frame);
    assert_null(kept);
    assert_int_equal(table.place[host].used_pages, 4);
    frame_lay_by(&table, frame, &kept, true);
    frame_let_go(&table, &kept);
    assert_null(kept);
    assert_int_equal(table.place[host].dear_pages, 0);
    assert_ptr_equal(get(host, 4), frame);
}

static void what_is_laid_by_is_taken_when_wanted(void **state)
{
    struct frame *cheap = get(host, 4), *dear = get(host, 4), *plain = get(host, 4), *made;
    struct frame *cheap_kept = NULL, *dear_kept = NULL;
    frame_lay_by(&table, cheap, &cheap_kept, false);
    frame_lay_by(&table, dear, &dear_kept, true);
    frame_give(&table, plain);
    assert_ptr_equal(get(host, 4), plain);
    assert_ptr_equal(get(host, 4), cheap);
    assert_null(cheap_kept);
    made = get(host, 4); /* there is room for a new one */
    assert_ptr_not_equal(made, dear);
    for (unsigned pages = 16; pages < 100; pages += 4) get(host, 4);
    assert_ptr_equal(dear_kept, dear);
    assert_ptr_equal(get(host, 4), dear);
    assert_null(dear_kept);
    assert_int_equal(plan_of(host, 4, &made), FRAME_FULL);
}

static void what_is_laid_by_makes_room_for_other_sizes(void **state)
{
    struct frame *kept = NULL, *other = NULL, *frame;
    frame_lay_by(&table, get(card, 4), &kept, true);
    frame_lay_by(&table, get(card, 4), &other, false);
    assert_int_equal(plan_of(card, 3, &frame), FRAME_RELEASE);
    assert_null(other);
    assert_non_null(kept);
    frame_forget(&table, frame);
    frame = get(card, 3);
    assert_int_equal(plan_of(card, 5, &frame), FRAME_RELEASE);
    assert_null(kept);
    frame_keep(&table, frame);
}

static void numbers_are_those_of_frames_that_exist(void **state)
{
    struct frame *frames[100];
    for (unsigned i = 0; i < 100; i++) frames[i] = get(host, 1);
    for (unsigned i = 0; i < 100; i++) {
        assert_ptr_equal(table.by_number[frames[i]->number], frames[i]);
        for (unsigned k = 0; k < i; k++) assert_int_not_equal(frames[i]->number, frames[k]->number);
    }
    uint64_t number = frames[40]->number;
    frame_give(&table, frames[40]);
    frame_forget(&table, frame_withdraw(&table, host, FRAME_MAX_PAGES));
    assert_null(table.by_number[number]);
    assert_int_equal(get(host, 1)->number, number);
}

static void more_frames_than_the_table_had_room_for(void **state)
{
    unsigned wide = frame_place_add(&table, "card1", VP_PLACE_CARD, 1, 5000);
    for (unsigned i = 0; i < 3000; i++) {
        struct frame *frame;
        assert_int_equal(frame_plan(&table, wide, 1, &frame), FRAME_MAKE);
        assert_non_null(frame_add(&table, wide, 1, i, i));
        assert_int_equal(frame_plan(&table, wide, 1, &frame), FRAME_TAKE);
    }
    assert_true(frame_table_is_valid(&table));
    assert_int_equal(table.place[wide].peak_pages, 3000);
}

/* One random step: asks for a frame, gives one back or lays it by, or lets a copy end. */
enum { KEEPERS = 8 };
static struct frame *keepers[KEEPERS];

static void step(struct random *random, struct frame **used, unsigned *count)
{
    struct frame *frame;
    uint32_t pages = 1 + (uint32_t)random_below(random, 4);
    unsigned place = random_below(random, 2) ? card : host;
    if (*count && random_below(random, 2)) {
        unsigned i = (unsigned)random_below(random, *count);
        frame = used[i];
        used[i] = used[--*count];
        struct frame **keeper = &keepers[random_below(random, KEEPERS)];
        if (*keeper && random_below(random, 2)) used[(*count)++] = frame_recover(&table, keeper);
        if (*keeper && random_below(random, 2)) frame_let_go(&table, keeper);
        if (!*keeper && random_below(random, 2)) {
            frame_lay_by(&table, frame, keeper, random_below(random, 2));
            return;
        }
        bool copied = random_below(random, 2);
        if (copied) frame_copy_begin(frame);
        frame_give(&table, frame);
        if (copied) frame_copy_end(&table, frame);
        return;
    }
    switch (frame_plan(&table, place, pages, &frame)) {
    case FRAME_TAKE: used[(*count)++] = frame; break;
    case FRAME_MAKE:
        if (random_below(random, 8))
            assert_non_null(frame_add(&table, place, pages, 1, 1));
        else
            frame_fail(&table, place, pages, false);
        break;
    case FRAME_RELEASE:
        if (random_below(random, 8))
            frame_forget(&table, frame);
        else
            frame_keep(&table, frame);
        break;
    case FRAME_FULL: break;
    }
}

static void the_books_always_agree(void **state)
{
    static struct frame *used[200];
    struct random random = {11};
    unsigned count = 0;
    for (unsigned i = 0; i < 20000; i++) {
        step(&random, used, &count);
        if (i % 16 == 0) assert_true(frame_table_is_valid(&table));
    }
    uint64_t pages = 0;
    for (unsigned i = 0; i < count; i++) pages += used[i]->pages;
    assert_int_equal(pages, table.place[card].used_pages + table.place[host].used_pages);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(frames_are_recycled_by_size),
        CASE(a_free_frame_of_another_size_makes_room),
        CASE(ceded_pages_are_the_drivers_for_a_while),
        CASE(what_cannot_be_released_is_free_again),
        CASE(a_full_place_says_so),
        CASE(a_place_that_gives_less_shrinks),
        CASE(a_frame_under_copy_is_free_when_that_ends),
        CASE(the_largest_is_withdrawn_first),
        CASE(what_is_laid_by_can_be_had_back),
        CASE(what_is_laid_by_is_taken_when_wanted),
        CASE(what_is_laid_by_makes_room_for_other_sizes),
        CASE(numbers_are_those_of_frames_that_exist),
        CASE(more_frames_than_the_table_had_room_for),
        CASE(the_books_always_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
