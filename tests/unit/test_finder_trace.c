/* Recorded traces told to the finder as if they happened now: a small one that is made up, and
 * those in the folder that VRAMPOOL_TRACES names, if it is there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"
#include "trace/finder.h"

enum { TOUCHES_MAX = 4096 };

struct replay {
    struct trace trace;
    struct finder *finder;
    uint64_t *keys;              /* of each name */
    uint64_t *foretold;          /* next use of each block: an op, UINT64_MAX: none, 0: not asked */
    uint32_t period;             /* the last one, */
    uint64_t found;              /* and the op at which it was first followed */
    uint32_t faults, wrong_uses; /* since then */
};

static void open_replay(struct replay *replay, const char *path)
{
    memset(replay, 0, sizeof *replay);
    assert_int_equal(trace_read(path, &replay->trace, NULL), VP_OK);
    assert_int_equal(finder_create(&replay->finder), VP_OK);
    replay->keys = calloc(replay->trace.name_count, sizeof *replay->keys);
    replay->foretold = calloc(replay->trace.block_count, sizeof *replay->foretold);
    assert_true(replay->keys && replay->foretold);
    for (uint32_t i = 0; i < replay->trace.name_count; i++)
        for (const char *c = replay->trace.names[i]; *c; c++)
            replay->keys[i] = (replay->keys[i] ^ (unsigned char)*c) * UINT64_C(0x100000001B3);
}

static void close_replay(struct replay *replay)
{
    assert_true(finder_is_valid(replay->finder));
    finder_destroy(replay->finder);
    trace_release(&replay->trace);
    free(replay->keys);
    free(replay->foretold);
}

/* Holds what was foretold of the block's next use against the one that is there. */
static void check_use(struct replay *replay, uint32_t block, uint64_t number)
{
    uint64_t *foretold = &replay->foretold[block];
    replay->wrong_uses += *foretold != 0 && *foretold != number;
    uint32_t ahead = finder_next_use(replay->finder, block + 1);
    *foretold = ahead == FINDER_NEVER ? UINT64_MAX : number + ahead;
}

static void do_op(struct replay *replay, uint32_t index)
{
    const struct trace_op *op = &replay->trace.ops[index];
    uint32_t ids[TOUCHES_MAX];
    struct finder_place place;
    struct finder_op told = {replay->keys[op->name], op->stream, op->kind, ids, op->touch_count};
    assert_true(op->touch_count <= TOUCHES_MAX);
    for (uint32_t i = 0; i < op->touch_count; i++) {
        uint32_t block = replay->trace.touches[op->first_touch + i];
        ids[i] = block + 1;
        told.key = told.key * 31 + replay->trace.blocks[block].bytes;
    }
    finder_op(replay->finder, &told, &place);
    finder_duration(replay->finder, place.number, op->duration_ns);
    if (place.period != replay->period) {
        replay->period = place.period;
        replay->found = index;
        replay->faults = replay->wrong_uses = 0;
        memset(replay->foretold, 0, replay->trace.block_count * sizeof *replay->foretold);
    }
    replay->faults += place.match != FINDER_MATCHED;
    for (uint32_t i = 0; i < op->touch_count; i++) check_use(replay, ids[i] - 1, index);
}

static void run(struct replay *replay)
{
    for (uint32_t i = 0; i < replay->trace.event_count; i++) {
        uint32_t index = replay->trace.events[i].index;
        switch (replay->trace.events[i].kind) {
        case TRACE_ALLOC:
            finder_alloc(replay->finder, index + 1, replay->trace.blocks[index].bytes);
            break;
        case TRACE_FREE:
            replay->wrong_uses +=
                replay->foretold[index] != 0 && replay->foretold[index] != UINT64_MAX;
            finder_free(replay->finder, index + 1);
            break;
        case TRACE_OP: do_op(replay, index); break;
        }
        while (finder_study(replay->finder, 1000)) {
        }
    }
}

/* What two steps that start at different places have in common. */
struct summary {
    uint64_t persistent_bytes, passing_bytes, peak_bytes, touches, writes;
    uint32_t persistent, passing, ops;
};

static bool is_touched(const struct step *step, uint32_t role)
{
    for (uint32_t i = 0; i < step->touch_count; i++)
        if (step->touches[i].role == role) return true;
    return false;
}

static struct summary sum_up(const struct step *step)
{
    struct summary sum = {.ops = step->op_count, .touches = step->touch_count};
    int64_t live = 0, least = INT64_MAX, most = INT64_MIN;
    for (uint32_t i = 0; i < step->role_count; i++) {
        bool persistent = step->roles[i].born_op == STEP_NEVER;
        if (!is_touched(step, i)) continue;
        *(persistent ? &sum.persistent : &sum.passing) += 1;
        *(persistent ? &sum.persistent_bytes : &sum.passing_bytes) += step->roles[i].bytes;
    }
    for (uint32_t i = 0; i < step->event_count; i++) {
        const struct step_event *event = &step->events[i];
        if (event->kind == TRACE_OP) continue;
        int64_t bytes = (int64_t)step->roles[event->index].bytes;
        live += event->kind == TRACE_ALLOC ? bytes : -bytes;
        if (live < least) least = live;
        if (live > most) most = live;
    }
    for (uint32_t i = 0; i < step->touch_count; i++)
        sum.writes += step->touches[i].access == STEP_WRITES;
    sum.peak_bytes = (uint64_t)(most - least);
    return sum;
}

/* Followed for nearly the whole last step, without a fault. */
static void assert_followed(const struct replay *replay, const struct step *step)
{
    assert_true(step && step_is_valid(step));
    print_message("%u ops a step, followed from op %u of %u\n", step->op_count,
                  (unsigned)replay->found, replay->trace.op_count);
    assert_int_equal(replay->faults, 0);
    assert_int_equal(replay->wrong_uses, 0);
    assert_true(replay->trace.op_count - replay->found + 8 >= step->op_count);
}

/* Two streams; state that is made in the first step; gradients that are dropped in the next one; a
 * loss that lives on until the next one is there. */
static void a_small_trace(void **state)
{
    struct replay replay;
    open_replay(&replay, SMALL_TRACE);
    run(&replay);
    const struct step *step = finder_step(replay.finder, replay.period);
    assert_followed(&replay, step);
    struct summary sum = sum_up(step);
    assert_int_equal(sum.ops, 61);
    assert_int_equal(sum.persistent, 8 + 8);
    assert_int_equal(sum.passing, 4 * 8 + 3);
    uint64_t last_step_ns = 0;
    for (uint32_t i = replay.trace.op_count - 61; i < replay.trace.op_count; i++)
        last_step_ns += replay.trace.ops[i].duration_ns;
    assert_int_equal(step_duration_ns(step), last_step_ns);
    close_replay(&replay);
}

static void compare_with_trace(const char *path)
{
    struct replay replay;
    struct step expected;
    bool repeats;
    open_replay(&replay, path);
    run(&replay);
    const struct step *step = finder_step(replay.finder, replay.period);
    assert_followed(&replay, step);
    assert_int_equal(step_from_trace(&replay.trace, &expected, &repeats), VP_OK);
    assert_true(repeats);
    struct summary a = sum_up(step), b = sum_up(&expected);
    assert_int_equal(a.ops, b.ops);
    assert_int_equal(a.touches, b.touches);
    assert_int_equal(a.writes, b.writes);
    assert_int_equal(a.persistent, b.persistent);
    assert_int_equal(a.passing, b.passing);
    assert_int_equal(a.persistent_bytes, b.persistent_bytes);
    assert_int_equal(a.passing_bytes, b.passing_bytes);
    assert_int_equal(a.peak_bytes, b.peak_bytes);
    step_release(&expected);
    close_replay(&replay);
}

static void recorded_trace(const char *name)
{
    char path[4096];
    const char *folder = getenv("VRAMPOOL_TRACES");
    snprintf(path, sizeof path, "%s/%s", folder ? folder : SHARED_TRACES, name);
    FILE *file = fopen(path, "r");
    if (!file) {
        print_message("skipped: no %s; VRAMPOOL_TRACES names the folder of traces\n", path);
        skip();
    }
    fclose(file);
    compare_with_trace(path);
}

static void recorded_plain(void **state)
{
    recorded_trace("gpt_plain.trace");
}

static void recorded_checkpointed(void **state)
{
    recorded_trace("gpt_ckpt.trace");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_trace),
        cmocka_unit_test(recorded_plain),
        cmocka_unit_test(recorded_checkpointed),
    };
    return cmocka_run_group_tests_name("finder_trace", tests, NULL, NULL);
}
