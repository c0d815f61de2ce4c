/* The mover's state machine and the reactive policy, stepped by hand. */
#include "move_fixture.h"

#include "base/random.h"

/* ---- The drawing ---- */

enum { NO = CHUNK_STATES };

/* Where each event leads: with data, and without. */
static const struct arrow {
    enum chunk_state from;
    enum move_event event;
    unsigned to, to_without;
} arrows[] = {
    {CHUNK_EMPTY, MOVE_MAP, NO, CHUNK_MAPPING},
    {CHUNK_ABSENT, MOVE_MAP, CHUNK_MAPPING, NO},
    {CHUNK_ABSENT, MOVE_FORGET, NO, CHUNK_EMPTY},
    {CHUNK_ABSENT, MOVE_SHIFT, CHUNK_SHIFTING, NO},
    {CHUNK_SHIFTING, MOVE_SHIFTED, CHUNK_ABSENT, NO},
    {CHUNK_SHIFTING, MOVE_STAYED, CHUNK_ABSENT, NO},
    {CHUNK_MAPPING, MOVE_MAPPED, CHUNK_RESIDENT, NO},
    {CHUNK_MAPPING, MOVE_MAPPED_COPYING, CHUNK_SETTLING, NO},
    {CHUNK_MAPPING, MOVE_MAP_FAILED, CHUNK_ABSENT, CHUNK_EMPTY},
    {CHUNK_MAPPING, MOVE_MAP_UNDONE, CHUNK_RESIDENT, NO},
    {CHUNK_MAPPING, MOVE_POISON, CHUNK_POISONED, NO},
    {CHUNK_SETTLING, MOVE_LANDED, CHUNK_RESIDENT, NO},
    {CHUNK_RESIDENT, MOVE_MAP, CHUNK_MAPPING, NO},
    {CHUNK_RESIDENT, MOVE_LEAVE, CHUNK_LEAVING, NO},
    {CHUNK_RESIDENT, MOVE_DROP, CHUNK_UNMAPPING, NO},
    {CHUNK_LEAVING, MOVE_LEAVE_FAILED, CHUNK_RESIDENT, NO},
    {CHUNK_LEAVING, MOVE_RECALL, CHUNK_SETTLING, NO},
    {CHUNK_LEAVING, MOVE_COPIED, CHUNK_UNMAPPING, NO},
    {CHUNK_LEAVING, MOVE_SAME, CHUNK_UNMAPPING, NO},
    {CHUNK_LEAVING, MOVE_KEPT, CHUNK_RESIDENT, NO},
    {CHUNK_UNMAPPING, MOVE_UNMAPPED, CHUNK_ABSENT, CHUNK_EMPTY},
    {CHUNK_UNMAPPING, MOVE_REMAPPED, CHUNK_RESIDENT, NO},
    {CHUNK_UNMAPPING, MOVE_UNMAP_FAILED, CHUNK_RESIDENT, NO},
};
enum { ARROWS = sizeof arrows / sizeof *arrows };

static void only_the_arrows_of_the_drawing_are_possible(void **state)
{
    for (unsigned from = 0; from < CHUNK_STATES; from++)
        for (unsigned event = 0; event < MOVE_EVENT_COUNT; event++) {
            bool drawn = false;
            for (unsigned i = 0; i < ARROWS; i++)
                drawn |= arrows[i].from == from && arrows[i].event == event;
            assert_int_equal(move_is_possible((enum chunk_state)from, (enum move_event)event),
                             drawn);
        }
}

static bool on_the_move(enum chunk_state state)
{
    return state == CHUNK_MAPPING || state == CHUNK_SETTLING || state == CHUNK_LEAVING ||
           state == CHUNK_UNMAPPING || state == CHUNK_SHIFTING;
}

/* Takes a chunk along one arrow, and checks all that follows from its state. */
static void follow(const struct arrow *arrow, bool data)
{
    unsigned to = data ? arrow->to : arrow->to_without;
    if (to == NO) return;
    struct chunk *chunk = &take(1)->chunks[0];
    struct frame *frame = data ? frame_in(home) : NULL;
    chunk->state = (uint8_t)arrow->from;
    if (data && arrow->from == CHUNK_RESIDENT) chunk->segment->unready--; /* it was at home */
    if (arrow->from != CHUNK_EMPTY && arrow->from != CHUNK_MAPPING) chunk->frame = frame_in(home);
    bool was_home = move_chunk_is_home(&move, chunk);
    uint32_t unready = chunk->segment->unready;
    move.moving = 1;
    move.coming_pages[home] = 1; /* what the change may take away again */
    chunk->other = chunk->frame; /* not counted as coming */
    chunk_change(&move, chunk, arrow->event, frame, NULL);
    assert_int_equal(chunk->state, to);
    assert_ptr_equal(chunk->frame, frame);
    bool moved = on_the_move((enum chunk_state)arrow->from);
    bool moves = on_the_move((enum chunk_state)to);
    assert_int_equal(move.moving, 1 + (moves ? 1 : 0) - (moved ? 1 : 0));
    bool is_home = move_chunk_is_home(&move, chunk);
    assert_int_equal(chunk->segment->unready, unready + (was_home ? 1 : 0) - (is_home ? 1 : 0));
    space_location location = space_lookup(&space, chunk->segment->base);
    assert_int_equal(location != 0, data);
    if (data) assert_int_equal(space_location_frame(location), frame->number);
    assert_int_equal(move.coverage[arrow->from][arrow->event], 1);
}

static void each_arrow_leads_where_it_is_drawn(void **state)
{
    for (unsigned i = 0; i < ARROWS; i++)
        for (unsigned data = 0; data < 2; data++) {
            end(NULL);
            begin_with(100, 100);
            follow(&arrows[i], data);
        }
}

static void states_and_events_have_names(void **state)
{
    assert_string_equal(move_state_name(CHUNK_SETTLING), "SETTLING");
    assert_string_equal(move_event_name(MOVE_UNMAP_FAILED), "UNMAP_FAILED");
    assert_string_equal(move_event_name(MOVE_EVENT_COUNT), "?");
}

/* ---- In ---- */

static void a_new_chunk_is_mapped_at_home(void **state)
{
    struct segment *segment = take(1);
    struct operation op = on(segment);
    assert_int_equal(ask(&op), MOVE_HELD);
    struct move_action make = next(MOVE_DO_MAKE);
    assert_int_equal(make.place, home);
    assert_int_equal(make.pages, 1);
    nothing_to_do(MOVE_WORKER_ALL); /* it is under way */
    succeed(&make);
    struct move_action map = next(MOVE_DO_MAP);
    assert_int_equal(map.address, segment->base);
    assert_null(map.from);                 /* nothing to copy */
    assert_int_equal(ask(&op), MOVE_HELD); /* never before the mapping is in force */
    succeed(&map);
    assert_int_equal(ask(&op), MOVE_ADMITTED);
    assert_int_equal(op.request.wait_count, 0);
    assert_int_equal(move.moving, 0);
}

static void what_is_fetched_is_waited_for_on_the_device(void **state)
{
    struct segment *segment = take(1);
    run(segment);
    for (unsigned i = 0; i < HOME_PAGES; i++) run(take(1)); /* sends it away */
    assert_int_equal(state_of(segment), CHUNK_ABSENT);
    struct operation op = on(segment);
    struct move_action map;
    assert_int_equal(ask(&op), MOVE_HELD);
    for (;;) {
        assert_true(move_next(&move, MOVE_WORKER_ALL, &map));
        if (map.kind == MOVE_DO_MAP) break;
        succeed(&map);
        copies_end();
    }
    assert_non_null(map.from);
    succeed(&map);
    assert_int_equal(state_of(segment), CHUNK_SETTLING);
    assert_int_equal(ask(&op), MOVE_ADMITTED);
    assert_int_equal(op.request.wait_count, 1);
    assert_false(op.request.waits[0].is_mark);
    assert_int_equal(op.request.waits[0].lane_or_slot, map.lane);
    assert_int_equal(op.request.waits[0].number, map.ticket);
    uint64_t in_host = frames.place[host].free_pages;
    copies_end();
    assert_int_equal(state_of(segment), CHUNK_RESIDENT);
    assert_int_equal(frames.place[host].free_pages, in_host + 1); /* its old frame, only now */
}

static void in_a_capture_the_host_waits(void **state)
{
    struct segment *segment = take(1);
    run(segment);
    for (unsigned i = 0; i < HOME_PAGES; i++) run(take(1));
    struct operation op = on(segment);
    op.request.host_waits = true;
    bool settled = false;
    for (unsigned i = 0; i < 100 && ask(&op) == MOVE_HELD; i++) {
        struct move_action action;
        settled |= state_of(segment) == CHUNK_SETTLING;
        if (move_next(&move, MOVE_WORKER_ALL, &action))
            succeed(&action);
        else
            copies_end();
    }
    assert_true(settled);
    assert_int_equal(op.request.wait_count, 0);
    assert_int_equal(state_of(segment), CHUNK_RESIDENT);
}

/* ---- Out ---- */

static void the_least_recently_used_leaves(void **state)
{
    struct segment *old[HOME_PAGES];
    for (unsigned i = 0; i < HOME_PAGES; i++) run(old[i] = take(1));
    run(old[0]); /* once more */
    struct operation op = on(take(1));
    assert_int_equal(ask(&op), MOVE_HELD);
    go(MOVE_DO_MAKE); /* a frame on the host */
    struct move_action copy = next(MOVE_DO_COPY);
    assert_ptr_equal(copy.chunk, &old[1]->chunks[0]);
    assert_int_equal(copy.to->place, host);
    succeed(&copy);
    nothing_to_do(MOVE_WORKER_ALL); /* not unmapped before the copy has ended */
    assert_int_equal(state_of(old[1]), CHUNK_LEAVING);
    assert_int_equal(frames.place[home].free_pages, 0);
    copies_end();
    struct move_action unmap = next(MOVE_DO_UNMAP);
    assert_ptr_equal(unmap.chunk, &old[1]->chunks[0]);
    assert_int_equal(frames.place[home].free_pages, 0); /* nor is its frame free */
    succeed(&unmap);
    assert_int_equal(state_of(old[1]), CHUNK_ABSENT);
    go(MOVE_DO_MAP);
    assert_int_equal(ask(&op), MOVE_ADMITTED);
    assert_int_equal(move.counts.evictions, 1);
}

/* Who makes room need not pass what has nothing at home. */
static void who_has_nothing_at_home_is_listed_apart(void **state)
{
    struct segment *first = take(HOME_PAGES), *never = take(1);
    run(first);
    assert_ptr_equal(segments.age[0].next, &first->age);
    for (unsigned i = 0; i < HOME_PAGES; i++) {
        assert_ptr_equal(segments.age[0].next, &first->age); /* some of its chunks are left */
        run(take(1));
    }
    assert_ptr_equal(segments.away[0].next, &never->age);
    assert_ptr_equal(segments.away[0].prev, &first->age);
}

static void nothing_leaves_under_work(void **state)
{
    struct segment *old[HOME_PAGES];
    for (unsigned i = 0; i < HOME_PAGES; i++) run(old[i] = take(1));
    for (unsigned i = 0; i < HOME_PAGES; i++) use(old[i]);
    struct operation op = on(take(1));
    assert_int_equal(ask(&op), MOVE_HELD);
    nothing_to_do(MOVE_WORKER_ALL);
    struct move_action mark = next(MOVE_DO_MARK); /* that will tell when the work is done */
    assert_int_equal(mark.slot, slot);
    succeed(&mark);
    nothing_to_do(MOVE_WORKER_ALL);
    order_mark_passed(order.stream[slot], mark.covers);
    admit(&op);
}

static void the_dead_go_without_a_copy(void **state)
{
    struct segment *dead = take(1), *live[HOME_PAGES - 1];
    for (unsigned i = 0; i < HOME_PAGES - 1; i++) run(live[i] = take(1));
    run(dead);
    segment_rest(&segments, dead);
    segment_make_old(&segments, dead);
    struct operation op = on(take(2));
    assert_int_equal(ask(&op), MOVE_HELD);
    struct move_action drop = next(MOVE_DO_UNMAP);
    assert_ptr_equal(drop.chunk, &dead->chunks[0]);
    assert_null(drop.to);
    succeed(&drop);
    assert_int_equal(state_of(dead), CHUNK_EMPTY);
    assert_int_equal(dead->state, SEGMENT_BARE); /* its range serves any size */
    admit(&op);
    assert_int_equal(move.counts.drops, 1);
}

static void what_must_stay_mapped_is_mapped_where_it_goes(void **state)
{
    struct segment *loose = take(1);
    run(loose);
    loose->loose = true;
    for (unsigned i = 0; i < HOME_PAGES; i++) run(take(1));
    assert_int_equal(state_of(loose), CHUNK_RESIDENT);
    assert_int_equal(loose->chunks[0].frame->place, host);
}

static void an_operation_takes_back_what_it_needs(void **state)
{
    struct segment *old[HOME_PAGES];
    for (unsigned i = 0; i < HOME_PAGES; i++) run(old[i] = take(1));
    struct operation op = on(take(1));
    assert_int_equal(ask(&op), MOVE_HELD);
    go(MOVE_DO_MAKE);
    go(MOVE_DO_COPY);
    move_abandon(&move, &op.request);
    struct operation other = on(old[0]);
    assert_int_equal(state_of(old[0]), CHUNK_LEAVING);
    assert_int_equal(ask(&other), MOVE_ADMITTED);
    assert_int_equal(state_of(old[0]), CHUNK_SETTLING);
    assert_int_equal(other.request.wait_count, 1); /* so that nobody writes under the copy */
    assert_int_equal(frames.place[host].free_pages, 0);
    copies_end();
    assert_int_equal(state_of(old[0]), CHUNK_RESIDENT);
    assert_int_equal(frames.place[host].free_pages, 1);
    assert_int_equal(move.counts.recalls, 1);
}

static void who_waits_behind_takes_nothing_back(void **state)
{
    struct segment *old[HOME_PAGES];
    for (unsigned i = 0; i < HOME_PAGES; i++) run(old[i] = take(1));
    struct operation first = on(take(1)), second = on(old[0]);
    assert_int_equal(ask(&first), MOVE_HELD);
    go(MOVE_DO_MAKE);
    go(MOVE_DO_COPY);
    assert_int_equal(ask(&second), MOVE_HELD); /* it would be sent away again */
    assert_int_equal(state_of(old[0]), CHUNK_LEAVING);
    admit(&first);
    admit(&second);
}

static void what_an_operation_gathers_stays(void **state)
{
    struct segment *large = take(HOME_PAGES);
    struct segment *old[HOME_PAGES];
    for (unsigned i = 0; i < HOME_PAGES; i++) run(old[i] = take(1));
    run(large); /* all of it at once, and nothing else */
    for (uint32_t i = 0; i < large->chunk_count; i++)
        assert_true(move_chunk_is_home(&move, &large->chunks[i]));
    for (uint32_t i = 0; i < large->chunk_count; i++) assert_int_equal(large->chunks[i].pins, 0);
}

/* A segment holds many blocks: what of it is not named may go. */
static void only_what_is_named_is_pinned(void **state)
{
    struct segment *large = take(HOME_PAGES + 1);
    for (uint32_t i = 0; i < large->chunk_count; i++) {
        struct operation op = {0};
        name(&op, large, i, i);
        admit(&op);
        copies_end();
    }
    assert_true(move_chunk_is_home(&move, &large->chunks[HOME_PAGES]));
}

/* ---- No room ---- */

static void what_does_not_fit_is_used_in_place(void **state)
{
    struct segment *large = take(HOME_PAGES + 2);
    struct operation op = on(large);
    admit(&op);
    unsigned away = 0;
    for (uint32_t i = 0; i < large->chunk_count; i++) {
        assert_int_equal(large->chunks[i].state, CHUNK_RESIDENT);
        away += large->chunks[i].frame->place == host;
    }
    assert_int_equal(away, 2);
    assert_int_equal(op.request.in_place, 2);
}

/* Two more chunks than the card holds, each used in turn; returns the one that left first. */
static struct segment *fill_up(void)
{
    struct segment *first = take(1);
    run(first);
    for (unsigned i = 0; i < HOME_PAGES + 1; i++) run(take(1));
    assert_int_equal(state_of(first), CHUNK_ABSENT);
    return first;
}

static void whose_function_pays_in_place_sends_nobody_away(void **state)
{
    struct segment *away = fill_up();
    uint64_t evictions = move.counts.evictions;
    struct operation op = on(away);
    op.request.in_place_pays = true;
    admit(&op);
    assert_int_equal(op.request.in_place, 1);
    assert_int_equal(op.request.in_place_pages, 1);
    assert_int_equal(away->chunks[0].frame->place, host);
    assert_int_equal(move.counts.evictions, evictions);
    copies_end();
    run(away); /* another function: it is fetched */
    assert_true(move_chunk_is_home(&move, &away->chunks[0]));
}

static void in_place_nothing_is_moved(void **state)
{
    move.policy = VP_POLICY_INPLACE;
    struct segment *segments_taken[HOME_PAGES + 2];
    for (unsigned i = 0; i < HOME_PAGES + 2; i++) run(segments_taken[i] = take(1));
    for (unsigned i = 0; i < HOME_PAGES + 2; i++) {
        run(segments_taken[i]);
        assert_int_equal(segments_taken[i]->chunks[0].frame->place, i < HOME_PAGES ? home : host);
    }
    assert_int_equal(move.counts.evictions + move.counts.fetches, 0);
    assert_int_equal(move.counts.in_place, 4); /* two of them, twice */
    segment_note_alive(&segments, segments_taken[0], segments_taken[0]->base, 512);
    segment_note_dead(&segments, segments_taken[0], segments_taken[0]->base, 512);
    struct segment *late = take(1);
    run(late); /* the dead keep their frames */
    assert_int_equal(late->chunks[0].frame->place, host);
    assert_int_equal(segments_taken[0]->chunks[0].frame->place, home);
    while (frames.place[host].capacity_pages > frames.place[host].used_pages) frame_in(host);
    struct segment *last = take(1);
    run(last); /* until there is no room elsewhere */
    assert_int_equal(last->chunks[0].frame->place, home);
    assert_null(segments_taken[0]->chunks[0].frame);
}

static void what_fits_nowhere_is_refused(void **state)
{
    struct operation op = on(take(HOME_PAGES + HOST_PAGES + 1));
    enum move_verdict verdict;
    unsigned steps = 0;
    while ((verdict = ask(&op)) == MOVE_HELD && steps++ < 200) {
        struct move_action action;
        if (move_next(&move, MOVE_WORKER_ALL, &action)) succeed(&action);
    }
    assert_int_equal(verdict, MOVE_REFUSED);
    assert_true(list_empty(&move.requests));
    assert_true(list_empty(&move.wanted));
}

/* Two threads share the work: who maps must see that nothing can be copied out. */
static void who_does_not_copy_sees_when_nobody_can(void **state)
{
    for (unsigned i = 0; i < HOME_PAGES; i++) run(take(1));
    for (unsigned i = 0; i < HOST_PAGES; i++) run(take(1)); /* all is full */
    struct segment *absent = NULL;
    list_each(node, &segments.all)
    {
        struct segment *segment = list_entry(node, struct segment, all);
        if (state_of(segment) == CHUNK_ABSENT) absent = segment;
    }
    struct operation op = on(absent);
    assert_int_equal(ask(&op), MOVE_HELD);
    nothing_to_do(MOVE_WORKER_COPIES);
    struct move_action map;
    assert_true(move_next(&move, MOVE_WORKER_MAPS, &map));
    assert_int_equal(map.kind, MOVE_DO_MAP);
    succeed(&map);
    assert_int_equal(ask(&op), MOVE_ADMITTED);
    assert_int_equal(op.request.in_place, 1);
}

static void copies_out_are_left_to_who_copies(void **state)
{
    for (unsigned i = 0; i < HOME_PAGES; i++) run(take(1));
    struct operation op = on(take(1));
    struct move_action action;
    assert_int_equal(ask(&op), MOVE_HELD);
    nothing_to_do(MOVE_WORKER_MAPS);
    assert_true(move_next(&move, MOVE_WORKER_COPIES, &action));
    assert_int_equal(action.kind, MOVE_DO_MAKE);
    succeed(&action);
    nothing_to_do(MOVE_WORKER_MAPS);
    assert_true(move_next(&move, MOVE_WORKER_COPIES, &action));
    assert_int_equal(action.kind, MOVE_DO_COPY);
    done_and_ended(&action, (struct move_result){.ok = true});
    assert_true(move_next(&move, MOVE_WORKER_MAPS, &action));
    assert_int_equal(action.kind, MOVE_DO_UNMAP);
    succeed(&action);
    admit(&op);
}

/* ---- Alone ---- */

static void who_runs_alone_waits_for_moves_and_holds_them(void **state)
{
    struct segment *one = take(1), *other = take(1);
    struct operation op = on(one), alone = on(one), later = on(other);
    alone.request.exclusive = true;
    assert_int_equal(ask(&op), MOVE_HELD);
    go(MOVE_DO_MAKE);
    struct move_action map = next(MOVE_DO_MAP);
    assert_int_equal(ask(&alone), MOVE_HELD);
    succeed(&map);
    assert_int_equal(ask(&op), MOVE_ADMITTED);
    assert_int_equal(ask(&alone), MOVE_ADMITTED);
    assert_int_equal(ask(&later), MOVE_HELD);
    nothing_to_do(MOVE_WORKER_ALL);
    move_exclusive_over(&move);
    admit(&later);
}

/* What is to stay mapped wherever it is, and could not be mapped where it went, is mapped there
 * before anything runs that may use it unseen. */
static void who_runs_alone_waits_for_mappings_that_failed(void **state)
{
    move.always_mapped = true;
    struct segment *first = take(1);
    run(first);
    for (unsigned i = 1; i < HOME_PAGES; i++) run(take(1));
    struct operation more = on(take(1)), alone = {.request = {.slot = slot, .exclusive = true}};
    assert_int_equal(ask(&more), MOVE_HELD);
    struct move_action action = {0};
    while (action.kind != MOVE_DO_UNMAP) {
        if (!move_next(&move, MOVE_WORKER_ALL, &action)) copies_end();
        if (action.kind && action.kind != MOVE_DO_UNMAP) succeed(&action);
    }
    assert_ptr_equal(action.chunk->segment, first);
    assert_non_null(action.to);
    done(&action, (struct move_result){.ok = true, .mapping = MOVE_MAPPED_NOWHERE});
    assert_int_equal(state_of(first), CHUNK_ABSENT);
    assert_true(first->chunks[0].wanted);
    move_abandon(&move, &more.request);
    assert_int_equal(ask(&alone), MOVE_HELD); /* it names nothing */
    action = next(MOVE_DO_MAP);
    assert_ptr_equal(action.to, first->chunks[0].frame);
    assert_null(action.from);
    done(&action, (struct move_result){.mapping = MOVE_MAPPED_NOWHERE}); /* nor now */
    assert_int_equal(ask(&alone), MOVE_HELD);
    go(MOVE_DO_MAP);
    assert_int_equal(state_of(first), CHUNK_RESIDENT);
    admit(&alone);
}

/* ---- Former owners, and blocks that go ---- */

/* Strict: nothing begins to move under work of anybody's, nobody starts while something moves, and
 * who comes later waits behind who needs a move. */
static void strict_moves_wait_for_the_device(void **state)
{
    move.strict = true;
    struct segment *segment[HOME_PAGES + 1];
    for (unsigned i = 0; i < HOME_PAGES; i++) run(segment[i] = take(1));
    struct segment *unrelated = segment[HOME_PAGES - 1];
    uint64_t sequence = order_enter(&order, slot); /* it names nothing of the pool's */
    order_leave(order.stream[slot]);
    struct operation needs = on(segment[HOME_PAGES] = take(1)), later = on(unrelated);
    assert_int_equal(ask(&needs), MOVE_HELD);
    nothing_to_do(MOVE_WORKER_ALL); /* but a mark is wanted now */
    struct move_action mark = next(MOVE_DO_MARK);
    nothing_to_do(MOVE_WORKER_COPIES);
    assert_int_equal(ask(&later), MOVE_HELD); /* all it needs is at home */
    succeed(&mark);
    nothing_to_do(MOVE_WORKER_ALL);
    order_mark_passed(order.stream[slot], sequence);
    go(MOVE_DO_MAKE); /* at the host, so that one may leave for the first in the queue */
    assert_int_equal(ask(&later), MOVE_HELD);
    admit(&needs);
    assert_int_equal(move.moving, 0);
    admit(&later);
}

/* What nobody needs now drives nothing out while somebody waits to be alone: or the moves that this
 * leads to might never end. */
static void who_waits_to_be_alone_waits_for_no_wishes(void **state)
{
    struct segment *gone[2], *kept[HOME_PAGES];
    for (unsigned i = 0; i < 2; i++) run(gone[i] = take(1));
    for (unsigned i = 0; i < HOME_PAGES; i++) run(kept[i] = take(1));
    struct operation other = on(take(1)), alone = on(kept[HOME_PAGES - 1]);
    struct move_action copy = {0};
    assert_int_equal(ask(&other), MOVE_HELD);
    while (copy.kind != MOVE_DO_COPY) {
        assert_true(move_next(&move, MOVE_WORKER_ALL, &copy));
        if (copy.kind != MOVE_DO_COPY) succeed(&copy);
    }
    move_abandon(&move, &other.request);
    alone.request.exclusive = true;
    assert_int_equal(ask(&alone), MOVE_HELD);
    for (unsigned i = 0; i < 2; i++) move_want(&move, &gone[i]->chunks[0]);
    nothing_to_do(MOVE_WORKER_COPIES);
    nothing_to_do(MOVE_WORKER_ALL);
    for (unsigned i = 0; i < 2; i++) assert_false(gone[i]->chunks[0].wanted);
    succeed(&copy);
    admit(&alone);
}

static void the_next_owner_waits_by_a_mark(void **state)
{
    struct segment *segment = take(1);
    unsigned other = order_find(&order, (void *)2, 0, NULL);
    run(segment);
    order_uses_add(&order, &segment->uses, other, order_enter(&order, other));
    order_leave(order.stream[other]);
    segment_rest(&segments, segment);
    assert_ptr_equal(take(1), segment);
    struct operation op = on(segment);
    assert_int_equal(ask(&op), MOVE_HELD); /* no mark covers that work yet */
    struct move_action mark = next(MOVE_DO_MARK);
    assert_int_equal(mark.slot, other);
    succeed(&mark);
    assert_int_equal(ask(&op), MOVE_ADMITTED);
    assert_int_equal(op.request.wait_count, 1);
    assert_true(op.request.waits[0].is_mark);
    assert_int_equal(op.request.waits[0].lane_or_slot, other);
    assert_int_equal(op.request.waits[0].number, mark.covers);
}

static void its_own_stream_needs_no_wait(void **state)
{
    struct segment *segment = take(1);
    run(segment);
    use(segment);
    segment_rest(&segments, segment);
    assert_ptr_equal(take(1), segment);
    struct operation op = on(segment);
    assert_int_equal(ask(&op), MOVE_ADMITTED);
    assert_int_equal(op.request.wait_count, 0);
}

static void absent_data_that_dies_is_forgotten(void **state)
{
    struct segment *segment = take(1);
    run(segment);
    for (unsigned i = 0; i < HOME_PAGES; i++) run(take(1));
    assert_int_equal(state_of(segment), CHUNK_ABSENT);
    uint64_t in_host = frames.place[host].used_pages;
    segment_rest(&segments, segment);
    move_forget_dead(&move, segment);
    assert_int_equal(state_of(segment), CHUNK_EMPTY);
    assert_int_equal(frames.place[host].used_pages, in_host - 1);
}

static void what_is_freed_is_wanted_no_more(void **state)
{
    struct segment *segment = take(1);
    struct operation op = on(segment);
    assert_int_equal(ask(&op), MOVE_HELD);
    assert_true(segment->chunks[0].wanted);
    segment_rest(&segments, segment);
    move_forget_dead(&move, segment);
    nothing_to_do(MOVE_WORKER_ALL);
    assert_int_equal(ask(&op), MOVE_ADMITTED); /* only a stale pointer led there */
    assert_int_equal(segment->pins, 0);
    assert_ptr_equal(take(1), segment);
    assert_int_equal(ask(&op), MOVE_ADMITTED); /* nor to its next owner */
}

/* ---- What goes wrong ---- */

static void a_mapping_that_fails_is_tried_again_and_then_refused(void **state)
{
    struct operation op = on(take(1));
    unsigned tries = 0;
    while (ask(&op) == MOVE_HELD) {
        struct move_action action;
        assert_true(move_next(&move, MOVE_WORKER_ALL, &action));
        if (action.kind == MOVE_DO_MAP) {
            done(&action, (struct move_result){.mapping = MOVE_MAPPED_NOWHERE});
            tries++;
        } else {
            succeed(&action);
        }
    }
    assert_int_equal(tries, MOVE_PATIENCE + 1);
    assert_int_equal(state_of(op.touches[0].segment), CHUNK_EMPTY);
    assert_int_equal(frames.place[home].used_pages, 0);
}

static void a_place_with_less_memory_than_told_shrinks(void **state)
{
    struct operation op = on(take(1));
    assert_int_equal(ask(&op), MOVE_HELD);
    struct move_action make = next(MOVE_DO_MAKE);
    done(&make, (struct move_result){.exhausted = true});
    assert_int_equal(frames.place[home].capacity_pages, 0);
    admit(&op); /* in place, on the host */
    assert_int_equal(op.request.in_place, 1);
}

static void a_copy_out_that_fails_leaves_all_as_it_was(void **state)
{
    struct segment *old[HOME_PAGES];
    for (unsigned i = 0; i < HOME_PAGES; i++) run(old[i] = take(1));
    struct operation op = on(take(1));
    assert_int_equal(ask(&op), MOVE_HELD);
    go(MOVE_DO_MAKE);
    struct move_action copy = next(MOVE_DO_COPY);
    done(&copy, (struct move_result){.ok = false});
    assert_int_equal(state_of(old[0]), CHUNK_RESIDENT);
    assert_int_equal(frames.place[host].free_pages, 1);
    admit(&op);
}

static void an_unmap_that_fails_keeps_the_old_frame(void **state)
{
    struct segment *old[HOME_PAGES];
    for (unsigned i = 0; i < HOME_PAGES; i++) run(old[i] = take(1));
    struct operation op = on(take(1));
    assert_int_equal(ask(&op), MOVE_HELD);
    go(MOVE_DO_MAKE);
    go(MOVE_DO_COPY);
    copies_end();
    struct frame *frame = old[0]->chunks[0].frame;
    struct move_action unmap = next(MOVE_DO_UNMAP);
    done(&unmap, (struct move_result){.mapping = MOVE_MAPPED_OLD});
    assert_int_equal(state_of(old[0]), CHUNK_RESIDENT);
    assert_ptr_equal(old[0]->chunks[0].frame, frame);
    admit(&op);
}

static void a_chunk_that_cannot_be_mapped_back_is_poisoned(void **state)
{
    struct segment *segment = take(1);
    run(segment);
    for (unsigned i = 0; i < HOME_PAGES; i++) run(take(1));
    struct operation op = on(segment);
    assert_int_equal(ask(&op), MOVE_HELD);
    for (;;) {
        struct move_action action;
        assert_true(move_next(&move, MOVE_WORKER_ALL, &action));
        if (action.kind == MOVE_DO_MAP) {
            done(&action, (struct move_result){.mapping = MOVE_MAPPED_NEW});
            break;
        }
        succeed(&action);
        copies_end();
    }
    assert_int_equal(state_of(segment), CHUNK_POISONED);
    assert_int_equal(ask(&op), MOVE_REFUSED);
    struct operation again = on(segment);
    assert_int_equal(ask(&again), MOVE_REFUSED); /* never silently wrong */
}

/* Whatever goes wrong, the books agree, and what goes well in the end is admitted. */
static void the_books_agree_whatever_happens(void **state)
{
    struct random random = {17};
    struct segment *all[10];
    for (unsigned i = 0; i < 10; i++) all[i] = take(1 + (unsigned)random_below(&random, 2));
    for (unsigned round = 0; round < 3000; round++) {
        struct segment *segment = all[random_below(&random, 10)];
        struct operation op = on(segment);
        enum move_verdict verdict;
        while ((verdict = ask(&op)) == MOVE_HELD) {
            struct move_action action;
            bool any = move_next(&move, MOVE_WORKER_ALL, &action);
            bool fails = any && random_below(&random, 12) == 0;
            bool nowhere = action.kind == MOVE_DO_MAP && !action.mapped;
            if (fails && action.kind != MOVE_DO_MARK && action.kind != MOVE_DO_RELEASE)
                done(&action, (struct move_result){.mapping = nowhere ? MOVE_MAPPED_NOWHERE
                                                                      : MOVE_MAPPED_OLD});
            else if (any)
                succeed(&action);
            if (!any || random_below(&random, 3) == 0) copies_end();
            if (!any) order_all_done(order.stream[slot]);
        }
        if (verdict == MOVE_ADMITTED && random_below(&random, 2)) use(segment);
        if (random_below(&random, 4) == 0) order_all_done(order.stream[slot]);
        segment_make_young(&segments, segment);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(only_the_arrows_of_the_drawing_are_possible),
        CASE(each_arrow_leads_where_it_is_drawn),
        CASE(states_and_events_have_names),
        CASE(a_new_chunk_is_mapped_at_home),
        CASE(what_is_fetched_is_waited_for_on_the_device),
        CASE(in_a_capture_the_host_waits),
        CASE(the_least_recently_used_leaves),
        CASE(who_has_nothing_at_home_is_listed_apart),
        CASE(nothing_leaves_under_work),
        CASE(the_dead_go_without_a_copy),
        CASE(what_must_stay_mapped_is_mapped_where_it_goes),
        CASE(an_operation_takes_back_what_it_needs),
        CASE(who_waits_behind_takes_nothing_back),
        CASE(what_an_operation_gathers_stays),
        CASE(only_what_is_named_is_pinned),
        CASE(what_does_not_fit_is_used_in_place),
        CASE(whose_function_pays_in_place_sends_nobody_away),
        CASE(in_place_nothing_is_moved),
        CASE(what_fits_nowhere_is_refused),
        CASE(who_does_not_copy_sees_when_nobody_can),
        CASE(copies_out_are_left_to_who_copies),
        CASE(who_runs_alone_waits_for_moves_and_holds_them),
        CASE(who_runs_alone_waits_for_mappings_that_failed),
        CASE(strict_moves_wait_for_the_device),
        CASE(who_waits_to_be_alone_waits_for_no_wishes),
        CASE(the_next_owner_waits_by_a_mark),
        CASE(its_own_stream_needs_no_wait),
        CASE(absent_data_that_dies_is_forgotten),
        CASE(what_is_freed_is_wanted_no_more),
        CASE(a_mapping_that_fails_is_tried_again_and_then_refused),
        CASE(a_place_with_less_memory_than_told_shrinks),
        CASE(a_copy_out_that_fails_leaves_all_as_it_was),
        CASE(an_unmap_that_fails_keeps_the_old_frame),
        CASE(a_chunk_that_cannot_be_mapped_back_is_poisoned),
        CASE(the_books_agree_whatever_happens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
