/* Backups: what is found as it came leaves without a copy. */
#include "move_fixture.h"

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
    done(&copy,
         (struct move_result){
             .ok = true, .ended = true, .unchanged = true, .digested = true, .digest = some});
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
    done(&copy,
         (struct move_result){.ok = true, .ended = true, .digested = true, .digest = other_digest});
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
        done(&copy, (struct move_result){
                        .ok = true, .ended = true, .digested = copy.check, .digest = other_digest});
        go(MOVE_DO_UNMAP);
        run(segment);
    }
    assert_in_range(checks, 3, trips / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(what_is_found_as_it_came_is_not_copied),
        CASE(what_has_changed_is_copied),
        CASE(a_check_broken_off_leaves_the_backup),
        CASE(a_change_found_in_vain_ends_the_backup),
        CASE(backups_give_way),
        CASE(the_dead_have_no_backup),
        CASE(what_always_changes_is_seldom_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
