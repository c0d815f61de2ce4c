/* What the tests of move share: a card of few pages, the host, operations, and somebody who carries
 * out what move decides. */
#ifndef TESTS_UNIT_MOVE_FIXTURE_H
#define TESTS_UNIT_MOVE_FIXTURE_H

#include "test.h"

#include "move/chunk_state.h"

enum { PAGE = 4096, HOME_PAGES = 4, HOST_PAGES = 8, STREAM = 1 };

static struct space space;
static struct order order;
static struct segments segments;
static struct frame_table frames;
static struct move move;
static unsigned home, host, slot;
static uint64_t next_handle;

static inline int begin_cut(uint32_t chunk_pages, uint64_t home_pages, uint64_t host_pages)
{
    assert_int_equal(space_create(&space, UINT64_C(1) << 44, UINT64_C(1) << 30, PAGE), VP_OK);
    order_create(&order);
    segments_create(&segments, &space, &order, chunk_pages);
    assert_int_equal(frame_table_create(&frames), VP_OK);
    home = frame_place_add(&frames, "card0", VP_PLACE_CARD, 0, home_pages);
    host = frame_place_add(&frames, "host0", VP_PLACE_HOST, 0, host_pages);
    move_create(&move, &segments, &frames, &order);
    move.home[0] = home;
    move.refuge[0][0] = host;
    move.refuges[0] = 1;
    slot = order_find(&order, (void *)STREAM, 0, NULL);
    return 0;
}

static inline int begin_with(uint64_t home_pages, uint64_t host_pages)
{
    return begin_cut(1, home_pages, host_pages);
}

static inline int begin(void **state)
{
    return begin_with(HOME_PAGES, HOST_PAGES);
}

static inline int end(void **state)
{
    segments_destroy(&segments);
    order_destroy(&order);
    frame_table_destroy(&frames);
    space_destroy(&space);
    return 0;
}

static inline struct segment *take(unsigned pages)
{
    struct segment *segment;
    assert_int_equal(segment_take(&segments, 0, pages * PAGE, &segment), VP_OK);
    return segment;
}

/* ---- Carrying out ---- */

static inline struct move_action next(enum move_action_kind kind)
{
    struct move_action action;
    assert_true(move_next(&move, MOVE_WORKER_ALL, &action));
    assert_int_equal(action.kind, kind);
    return action;
}

static inline void nothing_to_do(enum move_worker worker)
{
    struct move_action action;
    assert_false(move_next(&move, worker, &action));
}

static inline void done(const struct move_action *action, struct move_result result)
{
    move_done(&move, action, &result);
    assert_true(move_is_valid(&move));
    assert_true(segments_are_valid(&segments));
    assert_true(frame_table_is_valid(&frames));
}

static inline void copies_end(void);

/* The same, and what was copied has ended. */
static inline void done_and_ended(const struct move_action *action, struct move_result result)
{
    done(action, result);
    copies_end();
}

/* It went well. */
static inline void succeed(const struct move_action *action)
{
    struct move_result result = {.ok = true, .mapping = MOVE_MAPPED_NEW};
    if (action->kind == MOVE_DO_UNMAP && !action->to) result.mapping = MOVE_MAPPED_NOWHERE;
    if (action->kind == MOVE_DO_MAP) result.digested = action->digest;
    if (action->kind == MOVE_DO_MAKE) result.handle = result.alias = ++next_handle;
    done(action, result);
}

static inline void go(enum move_action_kind kind)
{
    struct move_action action = next(kind);
    succeed(&action);
}

/* The digest of all there is, unless a test says otherwise. */
static const struct digest some = {{1, 2, 3, 4}}, other_digest = {{1, 2, 3, 5}};

static inline void copies_end(void)
{
    for (unsigned lane = 0; lane < MOVE_LANES; lane++)
        while (move.lanes[lane].ended < move.lanes[lane].issued)
            move_copy_ended(&move, lane, move_copy_is_digested(&move, lane) ? &some : NULL);
    assert_true(move_is_valid(&move));
}

/* ---- Operations ---- */

struct operation {
    struct move_touch touches[4];
    struct move_request request;
};

static inline void name(struct operation *op, struct segment *segment, uint32_t first,
                        uint32_t last)
{
    op->request.touches = op->touches;
    op->request.slot = slot;
    op->touches[op->request.count++] =
        (struct move_touch){segment, segment->generation, first, last, false};
}

static inline struct operation on(struct segment *segment)
{
    struct operation op = {0};
    name(&op, segment, 0, segment->chunk_count - 1);
    return op;
}

/* Before each question: the touches are where they are now. */
static inline enum move_verdict ask(struct operation *op)
{
    op->request.touches = op->touches;
    enum move_verdict verdict = move_admit(&move, &op->request);
    assert_true(move_is_valid(&move));
    return verdict;
}

/* Carries out whatever is to be done until the operation is admitted. */
static inline void admit(struct operation *op)
{
    for (unsigned i = 0; i < 1000; i++) {
        struct move_action action;
        if (ask(op) == MOVE_ADMITTED) return;
        if (move_next(&move, MOVE_WORKER_ALL, &action))
            succeed(&action);
        else
            copies_end();
    }
    fail_msg("the operation is not admitted");
}

/* Admits it, and its work is done at once. */
static inline void run(struct segment *segment)
{
    struct operation op = on(segment);
    admit(&op);
    copies_end();
    segment_make_young(&segments, segment); /* as the pool does it */
}

/* Its work on the stream has not ended. */
static inline void use(struct segment *segment)
{
    order_uses_add(&order, &segment->uses, slot, order_enter(&order, slot));
    order_leave(order.stream[slot]);
}

static inline enum chunk_state state_of(const struct segment *segment)
{
    return (enum chunk_state)segment->chunks[0].state;
}

static inline struct frame *frame_in(unsigned place)
{
    struct frame *frame;
    next_handle++;
    if (frame_plan(&frames, place, 1, &frame) == FRAME_MAKE) {
        assert_non_null(frame_add(&frames, place, 1, next_handle, next_handle));
        assert_int_equal(frame_plan(&frames, place, 1, &frame), FRAME_TAKE);
    }
    return frame;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)

#endif
