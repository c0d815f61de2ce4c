/* Two cards that compute, each a refuge of the other, and the host: who goes where, and moves on.
 */
#include "move/refuge.h"

#include "move_fixture.h"

static unsigned other_home;

static int begin_two(void **state)
{
    begin(state);
    other_home = frame_place_add(&frames, "card1", VP_PLACE_CARD, 1, HOME_PAGES);
    move.home[1] = other_home;
    move.refuge[0][0] = other_home;
    move.refuge[0][1] = host;
    move.refuge[1][0] = home;
    move.refuge[1][1] = host;
    move.refuges[0] = move.refuges[1] = 2;
    return 0;
}

static struct segment *take_on(unsigned card, unsigned pages)
{
    struct segment *segment;
    assert_int_equal(segment_take(&segments, card, pages * PAGE, &segment), VP_OK);
    return segment;
}

/* Fills card 0, and makes the first `count` of what lies there leave. */
static void overflow(struct segment **gone, unsigned count)
{
    for (unsigned i = 0; i < count; i++) run(gone[i] = take_on(0, 1));
    for (unsigned i = 0; i < HOME_PAGES; i++) run(take_on(0, 1));
}

static unsigned place_of(const struct segment *segment)
{
    return segment->chunks[0].frame->place;
}

/* Does what there is to do until the chunk is being shifted, and returns that copy. */
static struct move_action shift_of(struct operation *op, struct segment *guest)
{
    for (unsigned i = 0; i < 100; i++) {
        struct move_action action;
        assert_int_equal(ask(op), MOVE_HELD);
        assert_true(move_next(&move, MOVE_WORKER_ALL, &action));
        if (action.kind == MOVE_DO_COPY && action.chunk == &guest->chunks[0]) return action;
        succeed(&action);
        copies_end();
    }
    fail_msg("no guest moves on");
    return (struct move_action){0};
}

static void what_leaves_goes_to_the_other_card(void **state)
{
    struct segment *gone[2];
    overflow(gone, 2);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(state_of(gone[i]), CHUNK_ABSENT);
        assert_int_equal(place_of(gone[i]), other_home);
    }
    assert_int_equal(move.guest_pages[other_home], 2);
    run(gone[0]); /* and comes back */
    assert_true(move_chunk_is_home(&move, &gone[0]->chunks[0]));
}

static void it_stays_away_from_what_the_card_needs_itself(void **state)
{
    struct segment *gone[2];
    take_on(1, HOME_PAGES - 1); /* not touched yet */
    overflow(gone, 2);
    assert_int_equal(place_of(gone[0]), other_home);
    assert_int_equal(place_of(gone[1]), host);
}

static void guests_move_on_when_the_card_needs_its_memory(void **state)
{
    struct segment *gone[2];
    overflow(gone, 2);
    for (unsigned i = 0; i < HOME_PAGES; i++) run(take_on(1, 1));
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(state_of(gone[i]), CHUNK_ABSENT);
        assert_int_equal(place_of(gone[i]), host);
    }
    assert_int_equal(move.counts.relocations, 2);
    assert_int_equal(move.counts.relocated_bytes, 2 * PAGE);
    assert_int_equal(move.counts.evictions, 2); /* of card 0; none of card 1 */
    assert_int_equal(frames.place[other_home].used_pages, HOME_PAGES);
    run(gone[0]);
    assert_true(move_chunk_is_home(&move, &gone[0]->chunks[0]));
}

static void those_that_had_to_go_do_not_come_back_at_once(void **state)
{
    struct segment *gone[1], *need[HOME_PAGES], *more[1];
    overflow(gone, 1);
    for (unsigned i = 0; i < HOME_PAGES; i++) run(need[i] = take_on(1, 1));
    for (unsigned i = 0; i < HOME_PAGES; i++) {
        segment_rest(&segments, need[i]);
        segment_make_old(&segments, need[i]);
        move_forget_dead(&move, need[i]);
    }
    overflow(more, 1);
    assert_int_equal(place_of(more[0]), host);
    order.endings += REFUGE_CLOSED_ENDINGS;
    overflow(more, 1);
    assert_int_equal(move.guest_pages[other_home], HOME_PAGES); /* what is dead there made way */
}

static void a_guest_that_is_needed_stays_for_that(void **state)
{
    struct segment *gone[1];
    overflow(gone, 1);
    struct operation op = on(take_on(1, HOME_PAGES));
    struct move_action copy = shift_of(&op, gone[0]);
    assert_int_equal(state_of(gone[0]), CHUNK_SHIFTING);
    assert_int_equal(copy.from->place, other_home);
    assert_int_equal(copy.to->place, host);
    assert_int_equal(copy.lane, 3); /* the card that has it copies it */
    succeed(&copy);
    assert_int_equal(state_of(gone[0]), CHUNK_SHIFTING); /* until the copy has ended */
    move_abandon(&move, &op.request);
    struct operation own = on(gone[0]);
    assert_int_equal(ask(&own), MOVE_HELD);
    assert_int_equal(state_of(gone[0]), CHUNK_ABSENT);
    assert_int_equal(place_of(gone[0]), other_home);
    assert_int_equal(frames.place[host].parked_pages, 1); /* the copy still writes there */
    copies_end();
    assert_int_equal(frames.place[host].parked_pages, 0);
    assert_int_equal(state_of(gone[0]), CHUNK_ABSENT); /* nobody took that for its end */
    admit(&own);
    copies_end();
    assert_true(move_chunk_is_home(&move, &gone[0]->chunks[0]));
}

static void a_copy_under_way_is_broken_off(void **state)
{
    struct segment *gone[1];
    overflow(gone, 1);
    struct operation op = on(take_on(1, HOME_PAGES));
    struct move_action copy = shift_of(&op, gone[0]);
    move_abandon(&move, &op.request);
    struct operation own = on(gone[0]);
    assert_int_equal(ask(&own), MOVE_HELD);
    assert_true(gone[0]->chunks[0].recalled);
    assert_int_equal(state_of(gone[0]), CHUNK_SHIFTING); /* somebody copies */
    done(&copy, (struct move_result){.recalled = true});
    assert_int_equal(state_of(gone[0]), CHUNK_ABSENT);
    assert_int_equal(place_of(gone[0]), other_home);
    assert_int_equal(frames.place[host].free_pages, 1);
    admit(&own);
}

static void a_guest_that_dies_meanwhile_is_forgotten(void **state)
{
    struct segment *gone[1];
    overflow(gone, 1);
    struct segment *need = take_on(1, HOME_PAGES);
    struct operation op = on(need);
    struct move_action copy = shift_of(&op, gone[0]);
    segment_rest(&segments, gone[0]);
    move_forget_dead(&move, gone[0]);
    done_and_ended(&copy, (struct move_result){.ok = true});
    assert_int_equal(state_of(gone[0]), CHUNK_EMPTY);
    assert_int_equal(gone[0]->state, SEGMENT_BARE);
    assert_int_equal(frames.place[host].used_pages, 0);
    admit(&op);
}

static void a_guest_stays_where_its_copy_failed(void **state)
{
    struct segment *gone[1];
    overflow(gone, 1);
    struct operation op = on(take_on(1, HOME_PAGES));
    struct move_action copy = shift_of(&op, gone[0]);
    done(&copy, (struct move_result){.ok = false});
    assert_int_equal(place_of(gone[0]), other_home);
    admit(&op);
    assert_int_equal(place_of(gone[0]), host);
}

/* What is mapped where it is leaves as it would leave home, and is mapped where it goes. */
static void a_mapped_guest_moves_on_too(void **state)
{
    struct segment *loose = take_on(0, 1);
    run(loose);
    loose->loose = true;
    for (unsigned i = 0; i < HOME_PAGES; i++) run(take_on(0, 1));
    assert_int_equal(state_of(loose), CHUNK_RESIDENT);
    assert_int_equal(place_of(loose), other_home);
    run(take_on(1, HOME_PAGES));
    assert_int_equal(state_of(loose), CHUNK_RESIDENT);
    assert_int_equal(place_of(loose), host);
    assert_int_equal(move.counts.relocations, 1);
}

/* The memory of the other card cannot be used in place: data lies there, and goes elsewhere to be
 * used. */
static void data_is_used_where_that_is_possible(void **state)
{
    move.usable[0] = ~(UINT32_C(1) << other_home);
    struct segment *large = take_on(0, HOME_PAGES + 2);
    struct operation op = on(large);
    admit(&op);
    for (uint32_t i = 0; i < large->chunk_count; i++)
        assert_int_not_equal(large->chunks[i].frame->place, other_home);
    assert_int_equal(op.request.in_place, 2);
    copies_end();
    run(take_on(0, HOME_PAGES)); /* all of it leaves, some to the other card */
    unsigned there = 0;
    for (uint32_t i = 0; i < large->chunk_count; i++) {
        there += large->chunks[i].frame && large->chunks[i].frame->place == other_home;
        assert_int_not_equal(large->chunks[i].state, CHUNK_EMPTY);
    }
    assert_true(there > 0);
    struct operation again = on(large);
    admit(&again);
    for (uint32_t i = 0; i < large->chunk_count; i++)
        if (large->chunks[i].state == CHUNK_RESIDENT)
            assert_int_not_equal(large->chunks[i].frame->place, other_home);
}

/* The link to the other card is lost while data is used there, over the link. */
static void what_was_used_where_a_link_is_lost_is_used_elsewhere(void **state)
{
    struct segment *large = take_on(0, HOME_PAGES + 2);
    struct operation op = on(large);
    admit(&op);
    unsigned there = 0;
    for (uint32_t i = 0; i < large->chunk_count; i++)
        there += large->chunks[i].frame->place == other_home;
    assert_int_equal(there, 2);
    refuge_cut_off(&move, other_home, 1);
    struct operation again = on(large);
    assert_int_equal(ask(&again), MOVE_HELD);
    admit(&again);
    for (uint32_t i = 0; i < large->chunk_count; i++)
        assert_int_not_equal(large->chunks[i].frame->place, other_home);
    assert_int_equal(again.request.in_place, 2);
}

/* What a chunk left behind there is no place for it, where it has to stay mapped. */
static void a_backup_behind_a_lost_link_is_not_used(void **state)
{
    struct segment *gone[1];
    move.digests = 1;
    move.always_mapped = true;
    overflow(gone, 1);
    run(gone[0]);
    assert_non_null(gone[0]->chunks[0].backup);
    assert_int_equal(gone[0]->chunks[0].backup->place, other_home);
    refuge_cut_off(&move, other_home, 1);
    for (unsigned i = 0; i < HOME_PAGES; i++) run(take_on(0, 1));
    assert_int_equal(state_of(gone[0]), CHUNK_RESIDENT);
    assert_int_equal(place_of(gone[0]), host);
}

/* Card 0 reaches its own memory and card 1's, card 1 the host too: what of card 1 stands in the way
 * goes there. */
static void others_make_way_for_what_fits_nowhere(void **state)
{
    move.refuges[0] = 1;
    struct segment *theirs = take_on(1, HOME_PAGES);
    run(theirs);
    for (unsigned i = 0; i < HOME_PAGES; i++) run(take_on(0, 1));
    run(take_on(0, 1)); /* its own memory is full, and the other card's too */
    unsigned at_host = 0;
    for (uint32_t i = 0; i < theirs->chunk_count; i++)
        at_host += theirs->chunks[i].frame->place == host;
    assert_true(at_host >= 1);
}

/* The way leads over card 0's home, which has room for one: that one comes. More that were asked to
 * come would drive others out, into the way again. */
static void no_more_make_way_than_there_is_room_for(void **state)
{
    move.refuges[0] = move.refuges[1] = 1;
    move.refuge[1][0] = host;
    move.usable[1] = 0;
    struct segment *guests[2], *theirs = take_on(1, 1);
    overflow(guests, 2);
    frames.place[home].share_pages = ++frames.place[home].capacity_pages;
    for (unsigned i = 0; i < 4; i++) {
        struct move_action action = {0};
        if (refuge_clear_way(&move, &theirs->chunks[0], &action) == FOUND_ACTION) succeed(&action);
        copies_end();
    }
    assert_int_equal((place_of(guests[0]) == home) + (place_of(guests[1]) == home), 1);
    assert_true(list_empty(&move.wanted));
}

/* The other card has room, but demands as much itself: so does it get it first, and is what needs
 * room told to wait, and not that there is none. */
static void room_that_the_card_demands_may_be_had_later(void **state)
{
    move.refuges[0] = 1;
    struct segment *theirs = take_on(1, HOME_PAGES), *mine = take_on(0, HOME_PAGES);
    run(mine);
    move_want(&move, &theirs->chunks[0]);
    for (unsigned i = 1; i < HOME_PAGES; i++) frame_in(other_home);
    struct move_action action = {.may_copy = true};
    enum found found;
    assert_null(refuge_find(&move, &mine->chunks[0], false, &action, &found));
    assert_int_equal(found, FOUND_BUSY);
    assert_true(refuge_may_come(&move, &mine->chunks[0]));
    theirs->chunks[0].pages = 2; /* that room is of no use to the other card */
    assert_null(refuge_find(&move, &mine->chunks[0], false, &action, &found));
    assert_int_equal(found, FOUND_NOTHING);
    assert_false(refuge_may_come(&move, &mine->chunks[0]));
    theirs->chunks[0].pages = 1;
    frame_in(other_home);
    assert_null(refuge_find(&move, &mine->chunks[0], false, &action, &found));
    assert_int_equal(found, FOUND_NOTHING);
    assert_false(refuge_may_come(&move, &mine->chunks[0]));
}

/* ---- Equally near refuges ---- */

static unsigned peers[2];

/* Card 0 computes; two others lend it their memory, as fast the one as the other. */
static int begin_near(void **state)
{
    begin(state);
    for (unsigned i = 0; i < 2; i++) {
        peers[i] = frame_place_add(&frames, "peer", VP_PLACE_CARD, 1 + (int)i, HOME_PAGES);
        move.refuge[0][i] = peers[i];
    }
    move.refuge[0][2] = host;
    move.refuges[0] = 3;
    move.near[0] = move.ways[0] = 2;
    return 0;
}

static void near_ones_take_turns(void **state)
{
    struct segment *gone[4];
    overflow(gone, 4);
    for (unsigned i = 0; i < 4; i++) assert_int_equal(place_of(gone[i]), peers[i % 2]);
    assert_int_equal(refuge_lane_in(&move, &gone[0]->chunks[0]),
                     refuge_lane_in(&move, &gone[2]->chunks[0]));
    assert_int_not_equal(refuge_lane_in(&move, &gone[0]->chunks[0]),
                         refuge_lane_in(&move, &gone[1]->chunks[0]));
    run(gone[1]); /* and comes back */
    assert_true(move_chunk_is_home(&move, &gone[1]->chunks[0]));
}

static void a_full_one_leaves_it_to_the_other(void **state)
{
    struct segment *gone[HOME_PAGES];
    frames.place[peers[0]].capacity_pages = 1;
    overflow(gone, HOME_PAGES);
    unsigned in_first = 0, in_second = 0;
    for (unsigned i = 0; i < HOME_PAGES; i++) {
        in_first += place_of(gone[i]) == peers[0];
        in_second += place_of(gone[i]) == peers[1];
    }
    assert_int_equal(in_first, 1);
    assert_int_equal(in_second, HOME_PAGES - 1);
}

static void one_that_is_cut_off_leaves_it_to_the_other(void **state)
{
    struct segment *gone[4];
    refuge_cut_off(&move, peers[0], 1);
    assert_int_equal(move.refuges[0], 2);
    overflow(gone, 4);
    for (unsigned i = 0; i < 4; i++) assert_int_equal(place_of(gone[i]), peers[1]);
}

static void copies_go_out_side_by_side(void **state)
{
    struct move_action copy[2], none;
    for (unsigned i = 0; i < HOME_PAGES; i++) run(take_on(0, 1));
    struct operation op = on(take_on(0, 3));
    assert_int_equal(ask(&op), MOVE_HELD);
    for (unsigned i = 0; i < 2; i++) {
        do assert_true(move_next(&move, MOVE_WORKER_COPIES, &copy[i]));
        while (copy[i].kind != MOVE_DO_COPY && (succeed(&copy[i]), true));
    }
    assert_int_not_equal(copy[0].lane, copy[1].lane);
    assert_int_not_equal(copy[0].to->place, copy[1].to->place);
    assert_false(move_next(&move, MOVE_WORKER_COPIES, &none)); /* both links are busy */
    for (unsigned i = 0; i < 2; i++) succeed(&copy[i]);
    copies_end();
    move_abandon(&move, &op.request);
}

#define NEAR(name) cmocka_unit_test_setup_teardown(name, begin_near, end)
#define TWO(name)  cmocka_unit_test_setup_teardown(name, begin_two, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TWO(what_leaves_goes_to_the_other_card),
        TWO(it_stays_away_from_what_the_card_needs_itself),
        TWO(guests_move_on_when_the_card_needs_its_memory),
        TWO(those_that_had_to_go_do_not_come_back_at_once),
        TWO(a_guest_that_is_needed_stays_for_that),
        TWO(a_copy_under_way_is_broken_off),
        TWO(a_guest_that_dies_meanwhile_is_forgotten),
        TWO(a_guest_stays_where_its_copy_failed),
        TWO(a_mapped_guest_moves_on_too),
        TWO(data_is_used_where_that_is_possible),
        TWO(what_was_used_where_a_link_is_lost_is_used_elsewhere),
        TWO(a_backup_behind_a_lost_link_is_not_used),
        TWO(others_make_way_for_what_fits_nowhere),
        TWO(no_more_make_way_than_there_is_room_for),
        TWO(room_that_the_card_demands_may_be_had_later),
        NEAR(near_ones_take_turns),
        NEAR(a_full_one_leaves_it_to_the_other),
        NEAR(one_that_is_cut_off_leaves_it_to_the_other),
        NEAR(copies_go_out_side_by_side),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
