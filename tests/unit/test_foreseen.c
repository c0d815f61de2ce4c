/* Who leaves where it is foretold what will be used when: the one whose use is furthest, and small
 * ones only long after large ones. Each card's room is planned by what is needed there. */
#include <string.h>

#include "move/backup.h"
#include "move_fixture.h"

enum { CHUNK = 8, OPS = 40, PERIOD = 1, FIRST_USE = 10, SECOND_USE = 30, GROWN = 5 };

static uint32_t at;       /* operations so far */
static int64_t growth[2]; /* pages that the cards need more at GROWN than before and after it */

static int begin_foretold(void **state)
{
    begin_cut(CHUNK, 2 * CHUNK, 8 * CHUNK);
    assert_int_equal(foresight_create(&move.foresight, &segments), VP_OK);
    at = 0;
    memset(growth, 0, sizeof growth);
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
        uint64_t needed[VP_MAX_CARDS];
        memcpy(needed, segments.needed_pages, sizeof needed);
        for (unsigned card = 0; card < 2 && now == GROWN; card++)
            needed[card] += (uint64_t)growth[card];
        foresight_note(&move.foresight, PERIOD, OPS, now, &touch, used != NULL, needed);
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

/* Both times that it left it was found as it came. */
static void make_clean(struct segment *segment)
{
    for (unsigned i = 0; i < 2; i++) backup_note_leave(&move, segment->chunks, true);
}

static void what_leaves_without_a_copy_goes_first(void **state)
{
    struct segment *clean = take(CHUNK), *later = take(CHUNK);
    learn(clean, later);
    make_clean(clean);
    assert_ptr_equal(who_leaves(), clean);
}

static void but_not_where_it_is_used_soon(void **state)
{
    struct segment *clean = take(CHUNK), *later = take(CHUNK);
    learn(clean, later);
    make_clean(clean);
    pass_until(FIRST_USE, clean, later);
    assert_ptr_equal(who_leaves(), later);
}

static void what_was_copied_once_more_is_clean_no_more(void **state)
{
    struct segment *written = take(CHUNK), *later = take(CHUNK);
    learn(written, later);
    make_clean(written);
    backup_note_leave(&move, written->chunks, false);
    assert_ptr_equal(who_leaves(), later);
}

/* `sooner` was copied out so often in a row; of that many others nothing had changed of late. */
static bool sooner_leaves(unsigned copies, unsigned checks)
{
    struct segment *sooner = take(CHUNK), *later = take(CHUNK), *other = take(CHUNK);
    learn(sooner, later);
    for (unsigned i = 0; i < copies; i++) backup_note_leave(&move, sooner->chunks, false);
    for (unsigned i = 0; i < 4; i++) backup_note_leave(&move, later->chunks, false);
    for (unsigned i = 0; i < checks; i++) backup_note(&move, other->chunks, true);
    return who_leaves() == sooner;
}

static void who_hardly_left_goes_first_where_all_others_leave_unchanged(void **state)
{
    assert_true(sooner_leaves(3, 16));
}

static void but_not_where_some_have_changed(void **state)
{
    assert_false(sooner_leaves(3, 15));
}

static void nor_what_is_copied_each_time(void **state)
{
    assert_false(sooner_leaves(4, 16));
}

static void of_those_not_used_again_the_older_leaves(void **state)
{
    struct segment *small = take(CHUNK / SEGMENT_SMALL_PART), *large = take(CHUNK);
    learn(small, large);
    pass_until(SECOND_USE + 1, NULL, NULL);
    assert_int_equal(foresight_ahead(&move.foresight, large), UINT32_MAX);
    assert_ptr_equal(who_leaves(), small);
}

/* ---- Two cards ---- */

enum { CARD_PAGES = 4 * CHUNK };

static unsigned other_home;

static int begin_two(void **state)
{
    begin_cut(CHUNK, CARD_PAGES, 8 * CHUNK);
    other_home = frame_place_add(&frames, "card1", VP_PLACE_CARD, 1, CARD_PAGES);
    move.home[1] = other_home;
    move.refuge[1][0] = host;
    move.refuges[1] = 1;
    move.reserve_pages = 1;
    move.policy = VP_POLICY_PLAN;
    assert_int_equal(foresight_create(&move.foresight, &segments), VP_OK);
    at = 0;
    memset(growth, 0, sizeof growth);
    return 0;
}

static struct segment *take_on(unsigned card, unsigned pages)
{
    struct segment *segment;
    assert_int_equal(segment_take(&segments, card, pages * PAGE, &segment), VP_OK);
    return segment;
}

/* Fills card 0; the one that it makes leave for that is returned. */
static struct segment *overflow(struct segment *full[4])
{
    struct segment *gone = take_on(0, CHUNK);
    run(gone);
    for (unsigned i = 0; i < 4; i++) run(full[i] = take_on(0, CHUNK));
    assert_int_equal(state_of(gone), CHUNK_ABSENT);
    return gone;
}

static void die(struct segment *segment)
{
    segment_rest(&segments, segment);
    move_forget_dead(&move, segment);
}

/* Does all that is to be done ahead of need. */
static void move_ahead(void)
{
    struct move_action action;
    while (move_next(&move, MOVE_WORKER_MAPS, &action)) {
        succeed(&action);
        copies_end();
    }
}

/* Whether what left card 0 has come home ahead of its use, once three chunks' worth of room is
 * there; card `card` needs a card's worth more before that use. */
static bool comes_home(unsigned card)
{
    struct segment *full[4], *gone = overflow(full);
    run(take_on(1, CHUNK));
    for (unsigned i = 0; i < 3; i++) die(full[i]);
    growth[card] = CARD_PAGES;
    for (unsigned turn = 0; turn < 3; turn++) pass_until(0, gone, full[3]);
    assert_true(move_looks_ahead(&move));
    move_ahead();
    return move_chunk_is_home(&move, &gone->chunks[0]);
}

static void room_that_the_card_will_need_is_kept(void **state)
{
    assert_false(comes_home(0));
}

static void room_that_another_card_will_need_is_not_kept(void **state)
{
    assert_true(comes_home(1));
}

/* Whose chunk is copied out ahead of need; NULL: nobody's. */
static struct segment *who_leaves_ahead(void)
{
    struct move_action action;
    while (move_next(&move, MOVE_WORKER_COPIES, &action)) {
        if (action.kind == MOVE_DO_COPY) return action.chunk->segment;
        succeed(&action); /* a frame where it goes */
    }
    return NULL;
}

/* Card 0 has two chunks, used at FIRST_USE and at SECOND_USE, room for two more, and will need so
 * many pages more; the one that is used first is clean. */
static struct segment *leaves_beside_clean(unsigned needed, struct segment *full[4])
{
    overflow(full);
    die(full[2]);
    die(full[3]);
    growth[0] = needed;
    for (unsigned turn = 0; turn < 3; turn++) pass_until(0, full[0], full[1]);
    make_clean(full[0]);
    return who_leaves_ahead();
}

/* It does not leave itself: its use is too close to where room runs short. */
static void a_clean_one_that_stays_holds_up_no_other(void **state)
{
    struct segment *full[4], *leaves = leaves_beside_clean(3 * CHUNK, full);
    assert_ptr_equal(leaves, full[1]);
}

static void who_is_to_be_copied_stays_where_the_clean_make_room(void **state)
{
    struct segment *full[4];
    assert_null(leaves_beside_clean(2 * CHUNK + CHUNK / 2, full));
}

/* One leaves card 0 ahead, since more will be needed there: also where another card needs less. */
static void what_another_card_gives_up_is_no_room(void **state)
{
    struct segment *full[4], *other = take_on(1, 2 * CHUNK);
    overflow(full);
    run(other);
    die(full[2]); /* so there is room for now */
    growth[0] = 2 * CHUNK;
    growth[1] = -2 * CHUNK;
    for (unsigned turn = 0; turn < 3; turn++) pass_until(0, full[0], full[1]);
    struct segment *leaves = who_leaves_ahead();
    assert_non_null(leaves);
    assert_int_equal(leaves->card, 0);
}

/* What is held on one card need not keep the others' memory from coming. */
static void what_one_card_demands_holds_up_no_other(void **state)
{
    struct segment *full[4], *gone = overflow(full), *busy = take_on(1, CARD_PAGES);
    run(busy);
    use(busy);
    for (unsigned i = 0; i < 3; i++) die(full[i]);
    for (unsigned turn = 0; turn < 3; turn++) pass_until(0, gone, full[3]);
    struct operation op = on(take_on(1, CHUNK));
    op.request.cards = 1u << 1;
    assert_int_equal(ask(&op), MOVE_HELD);
    assert_false(list_empty(&move.wanted));
    move_ahead();
    assert_true(move_chunk_is_home(&move, &gone->chunks[0]));
    move_abandon(&move, &op.request);
}

#define TWO(name)      cmocka_unit_test_setup_teardown(name, begin_two, end_foretold)
#define FORETOLD(name) cmocka_unit_test_setup_teardown(name, begin_foretold, end_foretold)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FORETOLD(of_two_large_ones_the_later_leaves),
        FORETOLD(a_small_one_stays_where_a_large_one_is_used_sooner),
        FORETOLD(what_is_larger_than_small_leaves_by_its_use),
        FORETOLD(a_small_one_leaves_where_its_use_is_much_further),
        FORETOLD(a_small_one_leaves_once_it_is_not_used_again),
        FORETOLD(what_leaves_without_a_copy_goes_first),
        FORETOLD(but_not_where_it_is_used_soon),
        FORETOLD(what_was_copied_once_more_is_clean_no_more),
        FORETOLD(who_hardly_left_goes_first_where_all_others_leave_unchanged),
        FORETOLD(but_not_where_some_have_changed),
        FORETOLD(nor_what_is_copied_each_time),
        FORETOLD(of_those_not_used_again_the_older_leaves),
        TWO(room_that_the_card_will_need_is_kept),
        TWO(room_that_another_card_will_need_is_not_kept),
        TWO(a_clean_one_that_stays_holds_up_no_other),
        TWO(who_is_to_be_copied_stays_where_the_clean_make_room),
        TWO(what_another_card_gives_up_is_no_room),
        TWO(what_one_card_demands_holds_up_no_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
