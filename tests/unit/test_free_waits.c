/* Who waits for what will leave for nothing does not wait for ever, whoever's look is the last: the
 * card may be waiting for the program. */
#include "move_fixture.h"

#include "move/policy.h"

enum { LOOKS = 100000, WAITS = 2000 /* as in foreseen.c */ };

/* What is unchanged and old is in use by work that will not end; what changed is idle. Looks until
 * something leaves: each worker of `turns` in turn. */
static void wait_ends(const enum move_worker *turns, unsigned count, uint32_t waited)
{
    move.digests = 1;
    struct segment *clean = take(1);
    run(clean);
    for (unsigned i = 0; i < HOME_PAGES; i++) run(take(1));
    run(clean);
    assert_int_equal(state_of(clean), CHUNK_RESIDENT);
    clean->proven = true;
    use(clean);
    segment_make_old(&segments, clean);
    move.free_waits[0] = waited;
    struct operation op = on(take(1));
    for (unsigned looks = 0; looks < LOOKS; looks++) {
        struct move_action action;
        ask(&op);
        if (!move_next(&move, turns[looks % count], &action)) continue;
        if (action.kind != MOVE_DO_COPY) { /* a mark, a frame on the host */
            succeed(&action);
            continue;
        }
        assert_int_equal(action.kind, MOVE_DO_COPY);
        assert_ptr_not_equal(action.chunk, clean->chunks);
        move_abandon(&move, &op.request);
        return;
    }
    fail_msg("nothing leaves in %u looks; free_waits %u", LOOKS, move.free_waits[0]);
}

static const enum move_worker copies[] = {MOVE_WORKER_COPIES}, all[] = {MOVE_WORKER_ALL},
                              both[] = {MOVE_WORKER_COPIES, MOVE_WORKER_MAPS},
                              maps_first[] = {MOVE_WORKER_MAPS, MOVE_WORKER_COPIES},
                              more_maps[] = {MOVE_WORKER_COPIES, MOVE_WORKER_MAPS,
                                             MOVE_WORKER_MAPS};

static void who_has_waited_enough_does_not(void **state)
{
    wait_ends(both, 2, WAITS);
}

static void the_last_wait_counted_by_a_true_look(void **state)
{
    wait_ends(copies, 1, WAITS - 1);
}

static void one_worker_copies(void **state)
{
    wait_ends(copies, 1, 0);
}

static void one_worker_for_all(void **state)
{
    wait_ends(all, 1, 0);
}

static void copies_and_maps(void **state)
{
    wait_ends(both, 2, 0);
}

static void maps_and_copies(void **state)
{
    wait_ends(maps_first, 2, 0);
}

static void more_looks_by_who_maps(void **state)
{
    wait_ends(more_maps, 3, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(who_has_waited_enough_does_not),
        CASE(the_last_wait_counted_by_a_true_look),
        CASE(one_worker_copies),
        CASE(one_worker_for_all),
        CASE(copies_and_maps),
        CASE(maps_and_copies),
        CASE(more_looks_by_who_maps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
