/* Backups: what is found as it came leaves without a copy. */
#include "move_fixture.h"

#include "move/policy.h"

/* A chunk that has been away and is at home again, with its backup. */
static struct segment *come_back(void)
{
    move.digests = 1;
    struct segment *segment = take(1);
    run(segment);
    for (unsigned i = 0; i < HOME_PAGES; i++) run(take(1));
    assert_int_equal(state_of(segment), CHUNK_ABSENT);
    run(segment);
    assert_int_equal(state_of(segment), CHUNK_RESIDENT);
    return segment;
}

/* Others take its place: the copy out that this asks for. */
static struct move_action send_away(struct segment *segment)
{
    segment_make_old(&segments, segment);
    struct operation op = on(take(1));
    assert_int_equal(ask(&op), MOVE_HELD);
    struct move_action copy = next(MOVE_DO_COPY);
    assert_ptr_equal(copy.chunk, segment->chunks);
    move_abandon(&move, &op.request);
    return copy;
}

static void what_is_found_as_it_came_is_not_copied(void **state)
{
    struct segment *segment = come_back();
    struct frame *backup = segment->chunks[0].backup;
    assert_int_equal(backup->place, host);
    struct move_action copy = send_away(segment);
    uint64_t out_bytes = move.counts.out_bytes;
    assert_true(copy.check);
    assert_ptr_equal(copy.to, backup);
    assert_memory_equal(&copy.expected, &some, sizeof some);
    done_and_ended(&copy, (struct move_result){
                              .ok = true, .unchanged = true, .digested = true, .digest = some});
    go(MOVE_DO_UNMAP);
    assert_int_equal(state_of(segment), CHUNK_ABSENT);
    assert_ptr_equal(segment->chunks[0].frame, backup);
    assert_int_equal(move.counts.clean_drops, 1);
    assert_int_equal(move.counts.out_bytes, out_bytes);
    assert_int_equal(move.coverage[CHUNK_LEAVING][MOVE_SAME], 1);
}

static void what_has_changed_is_copied(void **state)
{
    struct segment *segment = come_back();
    struct move_action copy = send_away(segment);
    done_and_ended(&copy,
                   (struct move_result){.ok = true, .digested = true, .digest = other_digest});
    assert_int_equal(move.counts.clean_drops, 0);
    assert_memory_equal(&segment->chunks[0].digest, &other_digest, sizeof other_digest);
    go(MOVE_DO_UNMAP);
    struct operation op = on(segment);
    assert_int_equal(ask(&op), MOVE_HELD);
    struct move_action map = next(MOVE_DO_MAP);
    assert_false(map.digest); /* it is known */
    succeed(&map);
    copies_end();
    assert_non_null(segment->chunks[0].backup);
    assert_memory_equal(&segment->chunks[0].digest, &other_digest, sizeof other_digest);
}

/* Beside what lives, allocators keep things for a moment. */
static void what_died_since_does_not_count(void **state)
{
    move.digests = 1;
    struct segment *segment = take(1);
    segment_note_alive(&segments, segment, segment->base, 1024);
    run(segment);
    for (unsigned i = 0; i < HOME_PAGES; i++) run(take(1));
    run(segment);
    segment_note_alive(&segments, segment, segment->base + 2048, 512);
    segment_note_dead(&segments, segment, segment->base + 2048, 512);
    struct move_action copy = send_away(segment);
    assert_true(copy.check);
    assert_int_equal(copy.span.start, 0);
    assert_int_equal(copy.span.bytes, 1024);
    done(&copy, (struct move_result){.recalled = true, .intact = true});
    segment_note_alive(&segments, segment, segment->base + 2048, 512); /* it lives: it is new */
    copy = send_away(segment);
    assert_false(copy.check);
}

static void a_check_broken_off_leaves_the_backup(void **state)
{
    struct segment *segment = come_back();
    struct frame *backup = segment->chunks[0].backup;
    struct move_action copy = send_away(segment);
    done(&copy, (struct move_result){.recalled = true, .intact = true});
    assert_int_equal(state_of(segment), CHUNK_RESIDENT);
    assert_ptr_equal(segment->chunks[0].backup, backup);
    copy = send_away(segment);
    assert_memory_equal(&copy.expected, &some, sizeof some);
    done(&copy, (struct move_result){.recalled = true}); /* after some of it was copied */
    assert_null(segment->chunks[0].backup);
    assert_false(send_away(segment).check);
}

/* The backup holds what was there before; to keep the new digest with it would lose data. */
static void a_change_found_in_vain_ends_the_backup(void **state)
{
    struct segment *segment = come_back();
    struct move_action copy = send_away(segment);
    done(&copy, (struct move_result){
                    .recalled = true, .intact = true, .digested = true, .digest = other_digest});
    assert_int_equal(state_of(segment), CHUNK_RESIDENT);
    assert_null(segment->chunks[0].backup);
}

static void backups_give_way(void **state)
{
    struct segment *segment = come_back();
    assert_non_null(segment->chunks[0].backup);
    while (frames.place[host].capacity_pages > frames.place[host].used_pages) frame_in(host);
    assert_null(segment->chunks[0].backup);
    assert_true(move_is_valid(&move));
}

static void the_dead_have_no_backup(void **state)
{
    struct segment *segment = come_back();
    segment_rest(&segments, segment);
    segment_make_old(&segments, segment);
    struct operation op = on(take(2)); /* no heir */
    assert_int_equal(ask(&op), MOVE_HELD);
    struct move_action drop = next(MOVE_DO_UNMAP);
    assert_ptr_equal(drop.chunk, segment->chunks);
    assert_null(segment->chunks[0].backup);
    succeed(&drop);
}

/* What always changes is left alone, ever longer, but not for good. */
static void what_always_changes_is_seldom_checked(void **state)
{
    struct segment *segment = come_back();
    unsigned checks = 0, trips = 200;
    for (unsigned i = 0; i < trips; i++) {
        struct move_action copy = send_away(segment);
        checks += copy.check;
        done_and_ended(&copy, (struct move_result){
                                  .ok = true, .digested = copy.check, .digest = other_digest});
        go(MOVE_DO_UNMAP);
        run(segment);
    }
    assert_in_range(checks, 3, trips / 10);
}

/* A chunk at home is about to be copied early. */
static struct move_action copy_early(struct segment *segment)
{
    struct move_action copy = {.may_copy = true};
    for (unsigned i = 0; i < 2; i++) { /* first a frame may have to be made */
        assert_true(policy_copy_early(&move, &segment->chunks[0], &copy));
        if (copy.kind == MOVE_DO_COPY) break;
        succeed(&copy);
        copy = (struct move_action){.may_copy = true};
    }
    assert_int_equal(copy.kind, MOVE_DO_COPY);
    assert_true(copy.digest);
    return copy;
}

/* Who leaves by age: the oldest, one that was away and is back, and two that were used since. */
static void leaves_by_age(bool proven, bool most_unchanged)
{
    move.digests = 1;
    struct segment *back = take(1), *other[HOME_PAGES];
    run(back);
    for (unsigned i = 0; i < HOME_PAGES; i++) run(other[i] = take(1));
    run(back);
    run(other[2]);
    run(other[3]);
    back->proven = proven;
    move.trust = most_unchanged ? 1 : -1;
    struct operation op = on(take(1));
    assert_int_equal(ask(&op), MOVE_HELD);
    bool unchanged = proven || most_unchanged;
    if (!unchanged) go(MOVE_DO_MAKE); /* where it goes */
    struct move_action copy = next(MOVE_DO_COPY);
    assert_ptr_equal(copy.chunk, unchanged ? back->chunks : other[1]->chunks);
}

static void what_is_unchanged_leaves_before_what_is_older(void **state)
{
    leaves_by_age(true, false);
}

static void what_may_be_unchanged_leaves_where_most_was(void **state)
{
    leaves_by_age(false, true);
}

static void where_most_changed_the_oldest_leaves(void **state)
{
    leaves_by_age(false, false);
}

static void what_was_copied_early_leaves_without_a_copy(void **state)
{
    struct segment *segment = take(1);
    run(segment);
    struct move_action copy = copy_early(segment);
    assert_false(copy.check);                     /* there is nothing to compare with */
    assert_int_equal(move.coming_pages[home], 0); /* its frame will not be free */
    done_and_ended(&copy, (struct move_result){.ok = true, .digested = true, .digest = some});
    assert_int_equal(state_of(segment), CHUNK_RESIDENT);
    assert_ptr_equal(segment->chunks[0].backup, copy.to);
    assert_int_equal(move.counts.early_copies, 1);
    assert_int_equal(move.counts.evictions, 0);
    for (unsigned i = 1; i < HOME_PAGES; i++) run(take(1));
    copy = send_away(segment);
    assert_true(copy.check);
    assert_memory_equal(&copy.expected, &some, sizeof some);
}

static void what_was_copied_early_is_copied_again_if_it_changed(void **state)
{
    struct segment *segment = come_back();
    struct move_action copy = copy_early(segment);
    assert_true(copy.check); /* with what it left behind */
    done_and_ended(&copy,
                   (struct move_result){.ok = true, .digested = true, .digest = other_digest});
    assert_memory_equal(&segment->chunks[0].digest, &other_digest, sizeof other_digest);
    copy = send_away(segment);
    assert_memory_equal(&copy.expected, &other_digest, sizeof other_digest);
    done_and_ended(&copy, (struct move_result){.ok = true, .digested = true, .digest = some});
    assert_int_equal(move.counts.clean_drops, 0);
    assert_int_equal(move.coverage[CHUNK_LEAVING][MOVE_SAME], 0);
}

/* An operation that needs it meanwhile waits for a piece, no more; nothing torn is kept. */
static void a_copy_made_early_is_broken_off(void **state)
{
    struct segment *segment = take(1);
    run(segment);
    struct move_action copy = copy_early(segment);
    struct operation op = on(segment);
    assert_int_equal(ask(&op), MOVE_HELD);
    assert_true(segment->chunks[0].recalled);
    done(&copy, (struct move_result){.recalled = true, .digested = true, .digest = some});
    assert_int_equal(ask(&op), MOVE_ADMITTED);
    assert_null(segment->chunks[0].backup);
    assert_int_equal(move.counts.early_copies, 0);
}

/* Without a digest there is no telling. */
static void a_copy_made_early_is_nothing_without_a_digest(void **state)
{
    struct segment *segment = take(1);
    run(segment);
    struct move_action copy = copy_early(segment);
    done_and_ended(&copy, (struct move_result){.ok = true});
    assert_int_equal(state_of(segment), CHUNK_RESIDENT);
    assert_null(segment->chunks[0].backup);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(what_is_found_as_it_came_is_not_copied),
        CASE(what_has_changed_is_copied),
        CASE(what_died_since_does_not_count),
        CASE(a_check_broken_off_leaves_the_backup),
        CASE(a_change_found_in_vain_ends_the_backup),
        CASE(backups_give_way),
        CASE(the_dead_have_no_backup),
        CASE(what_always_changes_is_seldom_checked),
        CASE(what_is_unchanged_leaves_before_what_is_older),
        CASE(what_may_be_unchanged_leaves_where_most_was),
        CASE(where_most_changed_the_oldest_leaves),
        CASE(what_was_copied_early_leaves_without_a_copy),
        CASE(what_was_copied_early_is_copied_again_if_it_changed),
        CASE(a_copy_made_early_is_broken_off),
        CASE(a_copy_made_early_is_nothing_without_a_digest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
