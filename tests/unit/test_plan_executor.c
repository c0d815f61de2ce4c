/* The executor: step by step on small programs, then driven in every order that chance finds. */
#include "plan/executor.h"

#include <stdio.h>

#include "plan/gaps.h"
#include "plan_steps.h"
#include "test.h"

static struct step_maker maker;

static struct executor_options options_of(enum executor_mode mode, uint64_t capacity_bytes)
{
    return (struct executor_options){.mode = mode,
                                     .capacity_bytes = capacity_bytes,
                                     .refuges = 1,
                                     .near = 1,
                                     .refuge = {{1 * GIB, 1, true}},
                                     .ahead_ops = 8,
                                     .lead_ops = 64};
}

/* Two blocks by turns, room for one. */
static void make_turns(struct shape *shape, enum step_access access)
{
    step_begin(&maker);
    for (unsigned i = 0; i < 2; i++) step_add_role(&maker, 2 * MIB);
    for (unsigned i = 0; i < 2; i++) {
        step_op(&maker, 1000);
        step_touch(&maker, i, 0, access);
    }
    assert_int_equal(shape_create(&maker.step, 2 * MIB, 2 * MIB, shape), VP_OK);
}

static void evicts_then_fetches(void **state)
{
    struct shape shape;
    struct executor executor;
    struct executor_action out, in, none;
    make_turns(&shape, STEP_WRITES);
    struct executor_options options = options_of(EXECUTOR_DEMAND, 2 * MIB);
    assert_int_equal(executor_create(&shape, &options, NULL, &executor), VP_OK);
    assert_true(executor_launch(&executor)); /* the first block is at home */
    assert_true(executor_can_run(&executor));
    assert_false(executor_launch(&executor));
    assert_int_equal(executor_waits(&executor), EXECUTOR_WAITS_ROOM);
    assert_false(executor_next(&executor, EXECUTOR_OUT, &out)); /* it is in use */
    executor_op_ended(&executor);
    assert_true(executor_next(&executor, EXECUTOR_OUT, &out));
    assert_int_equal(out.kind, EXECUTOR_EVICT);
    assert_int_equal(out.item, 0);
    assert_false(executor_next(&executor, EXECUTOR_IN, &none));
    assert_true(executor_copied(&executor, &out));
    assert_false(executor_next(&executor, EXECUTOR_IN, &none)); /* still mapped */
    executor_ended(&executor, &out);
    assert_true(executor_next(&executor, EXECUTOR_IN, &in));
    assert_int_equal(in.kind, EXECUTOR_FETCH);
    assert_int_equal(in.item, 1);
    assert_false(executor_launch(&executor)); /* being mapped */
    executor_queued(&executor, &in);
    assert_true(executor_launch(&executor)); /* it waits for the copy on the device */
    assert_false(executor_can_run(&executor));
    executor_ended(&executor, &in);
    assert_true(executor_can_run(&executor));
    assert_true(executor_is_valid(&executor));
    executor_destroy(&executor);
    shape_destroy(&shape);
}

static void drops_what_has_a_copy(void **state)
{
    struct shape shape;
    struct executor executor;
    struct executor_action action, none;
    make_turns(&shape, STEP_READS);
    struct executor_options options = options_of(EXECUTOR_DEMAND, 2 * MIB);
    assert_int_equal(executor_create(&shape, &options, NULL, &executor), VP_OK);
    executor.items[0].host_frame = executor.items[0].host_copy = true;
    executor.host_used_bytes[0] += 2 * MIB;
    assert_true(executor_launch(&executor));
    executor_op_ended(&executor);
    assert_false(executor_launch(&executor));
    assert_false(executor_next(&executor, EXECUTOR_OUT, &none));
    assert_true(executor_next(&executor, EXECUTOR_REMAP, &action));
    assert_int_equal(action.kind, EXECUTOR_DROP);
    executor_ended(&executor, &action);
    assert_int_equal(executor_free_bytes(&executor), 2 * MIB);
    executor_destroy(&executor);
    shape_destroy(&shape);
}

/* An op that needs what is on its way out has it back, once the copy is over. */
static void recalls(void **state)
{
    struct shape shape;
    struct executor executor;
    struct executor_action out;
    static const uint8_t away[] = {1, 0};
    static const uint32_t save_for[] = {SHAPE_NEVER, SHAPE_NEVER};
    static const uint64_t occupied[3];
    struct executor_plan plan = {away, save_for, occupied};
    step_begin(&maker);
    uint32_t block = step_add_role(&maker, 2 * MIB);
    for (unsigned i = 0; i < 3; i++) {
        step_op(&maker, 1000);
        if (i != 1) step_touch(&maker, block, 0, STEP_WRITES);
    }
    assert_int_equal(shape_create(&maker.step, 2 * MIB, 2 * MIB, &shape), VP_OK);
    struct executor_options options = options_of(EXECUTOR_PLAN, 4 * MIB);
    assert_int_equal(executor_create(&shape, &options, &plan, &executor), VP_OK);
    assert_true(executor_launch(&executor));
    executor_op_ended(&executor);
    assert_true(executor_next(&executor, EXECUTOR_OUT, &out));
    assert_int_equal(out.kind, EXECUTOR_EVICT);
    assert_true(executor_launch(&executor)); /* does not need it */
    assert_false(executor_launch(&executor));
    assert_false(executor_copied(&executor, &out));
    assert_false(executor_launch(&executor));
    executor_ended(&executor, &out);
    assert_true(executor.items[0].host_copy);
    assert_true(executor_launch(&executor));
    assert_false(executor.items[0].host_copy); /* it may write */
    assert_true(executor_is_valid(&executor));
    executor_destroy(&executor);
    shape_destroy(&shape);
}

/* A block that is born takes over the frame of one of its size that died; otherwise one is mapped,
 * from frames of the dead if need be. */
static void reuses_frames_of_the_dead(void **state)
{
    struct shape shape;
    struct executor executor;
    struct executor_action action;
    step_begin(&maker);
    static const uint64_t bytes[] = {2 * MIB, 2 * MIB, 4 * MIB};
    for (unsigned i = 0; i < 3; i++) {
        uint32_t role = step_alloc(&maker, bytes[i]);
        step_op(&maker, 1000);
        step_touch(&maker, role, 0, STEP_WRITES);
        step_free(&maker, role, 0);
    }
    assert_int_equal(shape_create(&maker.step, 4 * MIB, 2 * MIB, &shape), VP_OK);
    struct executor_options options = options_of(EXECUTOR_DEMAND, 4 * MIB);
    assert_int_equal(executor_create(&shape, &options, NULL, &executor), VP_OK);
    assert_false(executor_launch(&executor));
    assert_int_equal(executor_waits(&executor), EXECUTOR_WAITS_MAP);
    assert_true(executor_next(&executor, EXECUTOR_MAP, &action));
    assert_int_equal(action.kind, EXECUTOR_READY);
    executor_ended(&executor, &action);
    assert_true(executor_launch(&executor));
    assert_true(executor_launch(&executor));  /* takes over the same frame, behind it */
    assert_false(executor_launch(&executor)); /* of another size */
    assert_false(executor_next(&executor, EXECUTOR_MAP, &action)); /* the frame is in use */
    executor_op_ended(&executor);
    executor_op_ended(&executor);
    assert_true(executor_next(&executor, EXECUTOR_MAP, &action));
    assert_int_equal(action.kind, EXECUTOR_STRIP);
    executor_ended(&executor, &action);
    assert_true(executor_next(&executor, EXECUTOR_MAP, &action));
    assert_int_equal(action.kind, EXECUTOR_READY);
    executor_ended(&executor, &action);
    assert_true(executor_launch(&executor));
    executor_destroy(&executor);
    shape_destroy(&shape);
}

/* An op that touches more than fits uses the rest in place, when everything else has left. */
static void relents(void **state)
{
    struct shape shape;
    struct executor executor;
    struct executor_action action;
    step_begin(&maker);
    for (unsigned i = 0; i < 3; i++) step_add_role(&maker, 2 * MIB);
    step_op(&maker, 1000);
    for (uint32_t i = 0; i < 3; i++) step_touch(&maker, i, 0, STEP_WRITES);
    assert_int_equal(shape_create(&maker.step, 2 * MIB, 2 * MIB, &shape), VP_OK);
    struct executor_options options = options_of(EXECUTOR_DEMAND, 4 * MIB);
    assert_int_equal(executor_create(&shape, &options, NULL, &executor), VP_OK);
    assert_false(executor_launch(&executor));
    for (unsigned lane = 0; lane < EXECUTOR_LANES; lane++)
        assert_false(executor_next(&executor, (enum executor_lane)lane, &action));
    assert_true(executor_relent(&executor));
    assert_false(executor_launch(&executor));
    assert_true(executor_next(&executor, EXECUTOR_MAP, &action));
    assert_int_equal(action.kind, EXECUTOR_HOST);
    executor_ended(&executor, &action);
    assert_true(executor_launch(&executor));
    assert_int_equal(executor.in_place_read_bytes[0], 2 * MIB);
    assert_int_equal(executor.in_place_write_bytes[0], 2 * MIB);
    executor_destroy(&executor);

    options.refuge[0].in_place_works = false;
    assert_int_equal(executor_create(&shape, &options, NULL, &executor), VP_OK);
    assert_false(executor_launch(&executor));
    assert_false(executor_relent(&executor));
    executor_destroy(&executor);
    shape_destroy(&shape);
}

/* Random driving. */

struct drive {
    struct executor executor;
    struct executor_action flying[256];
    bool copied[256]; /* FETCH: queued; EVICT: copied */
    unsigned count;
};

static void check_op(const struct executor *executor, uint64_t op, bool runs)
{
    const struct shape *shape = executor->shape;
    const struct shape_op *at = &shape->ops[op % shape->op_count];
    for (uint32_t i = at->first_touch; i < at->first_touch + at->touch_count; i++) {
        const struct shape_touch *touch = &shape->touches[i];
        const struct shape_role *role = &shape->roles[touch->role];
        uint64_t step = op / shape->op_count - touch->age;
        for (uint32_t k = 0; k < role->chunk_count; k++) {
            uint32_t first = shape->chunks[role->first_chunk + k].first_item;
            const struct executor_item *item = &executor->items[first + step % role->copies];
            bool home = item->state == ITEM_HOME || (!runs && item->state == ITEM_LANDING);
            bool in_place = item->state == ITEM_AWAY && item->host_mapped;
            if (item->serial && item->last != op) continue; /* its block has died since */
            assert_true(home || in_place || item->state == ITEM_EMPTY || item->dies);
        }
    }
}

static void finish_one(struct drive *drive, unsigned which)
{
    struct executor_action action = drive->flying[which];
    if (!drive->copied[which] && action.kind == EXECUTOR_FETCH) {
        executor_queued(&drive->executor, &action);
        drive->copied[which] = true;
        return;
    }
    if (!drive->copied[which] && action.kind == EXECUTOR_EVICT &&
        executor_copied(&drive->executor, &action)) {
        drive->copied[which] = true;
        return;
    }
    executor_ended(&drive->executor, &action);
    drive->count--;
    drive->flying[which] = drive->flying[drive->count];
    drive->copied[which] = drive->copied[drive->count];
}

static bool start_one(struct drive *drive, struct random *random, enum executor_lane lane)
{
    struct executor_action action;
    if (lane == EXECUTOR_IN || lane == EXECUTOR_OUT)
        executor_set_busy(&drive->executor, lane, random ? (uint32_t)random_below(random, 4) : 0);
    if (drive->count == 256 || !executor_next(&drive->executor, lane, &action)) return false;
    drive->flying[drive->count] = action;
    drive->copied[drive->count++] = false;
    return true;
}

static bool do_something(struct drive *drive, struct random *random)
{
    struct executor *executor = &drive->executor;
    uint64_t choice = random_below(random, EXECUTOR_LANES + 3);
    if (choice < EXECUTOR_LANES) return start_one(drive, random, (enum executor_lane)choice);
    if (choice == EXECUTOR_LANES) {
        uint64_t lead = executor->launched - executor->done;
        if (lead >= executor->shape->op_count || !executor_launch(executor)) return false;
        check_op(executor, executor->launched - 1, false);
        return true;
    }
    if (choice == EXECUTOR_LANES + 1) {
        if (!executor_can_run(executor)) return false;
        check_op(executor, executor->done, true);
        executor_op_ended(executor);
        return true;
    }
    if (drive->count == 0) return false;
    finish_one(drive, (unsigned)random_below(random, drive->count));
    return true;
}

/* Nothing happened for long: tries everything in order. False: it is stuck. */
static bool push(struct drive *drive)
{
    struct executor *executor = &drive->executor;
    if (executor_launch(executor)) return true;
    for (unsigned lane = 0; lane < EXECUTOR_LANES; lane++)
        if (start_one(drive, NULL, (enum executor_lane)lane)) return true;
    if (drive->count) {
        finish_one(drive, 0);
        return true;
    }
    if (executor_can_run(executor)) {
        executor_op_ended(executor);
        return true;
    }
    return executor_relent(executor);
}

static void drive_steps(struct drive *drive, struct random *random, unsigned steps)
{
    struct executor *executor = &drive->executor;
    uint64_t end = executor->done + steps * executor->shape->op_count;
    for (unsigned idle = 0; executor->done < end;) {
        idle = do_something(drive, random) ? 0 : idle + 1;
        if (idle > 200 && executor->launched - executor->done < executor->shape->op_count) {
            assert_true(push(drive));
            idle = 0;
        }
        assert_true(executor_is_valid(executor));
    }
}

static void survives_any_order(void **state)
{
    for (uint64_t seed = 1; seed <= 150; seed++) {
        static struct drive drive;
        struct random random = {seed};
        struct shape shape;
        struct gaps gaps;
        print_message("seed %u\n", (unsigned)seed);
        step_make_random(&maker, &random, 2 + (uint32_t)random_below(&random, 30));
        assert_int_equal(shape_create(&maker.step, 8 * MIB, 2 * MIB, &shape), VP_OK);
        assert_int_equal(gaps_create(&shape, &gaps), VP_OK);
        uint64_t capacity = shape.peak_bytes / 10 * (2 + random_below(&random, 9)) + 2 * MIB;
        struct executor_options options =
            options_of((enum executor_mode)(seed % 5), units_round_up(capacity, 2 * MIB));
        options.spare_bytes = random_below(&random, 3) * 8 * MIB;
        options.refuges = 1 + (uint32_t)(seed % 3);
        options.near = 1 + (uint32_t)random_below(&random, options.refuges);
        for (uint32_t i = 1; i < options.refuges; i++) options.refuge[i] = options.refuge[0];
        if (options.refuges > 1) options.refuge[0].bytes = random_below(&random, 16) * 8 * MIB;
        gaps_fit(&gaps, options.capacity_bytes);
        gaps_find_saves(&gaps);
        struct executor_plan plan = {gaps.away, gaps.save_for, gaps.occupied};
        memset(&drive, 0, sizeof drive);
        assert_int_equal(executor_create(&shape, &options, &plan, &drive.executor), VP_OK);
        drive_steps(&drive, &random, 4);
        executor_destroy(&drive.executor);
        gaps_destroy(&gaps);
        shape_destroy(&shape);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(evicts_then_fetches),
        cmocka_unit_test(drops_what_has_a_copy),
        cmocka_unit_test(recalls),
        cmocka_unit_test(reuses_frames_of_the_dead),
        cmocka_unit_test(relents),
        cmocka_unit_test(survives_any_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
