/* The step of a trace: cuts, roles, blocks that cross the step's boundary, durations. */
#include "trace/step.h"

#include <stdio.h>
#include <string.h>

#include "test.h"

struct text {
    char data[16384];
    size_t length;
};

static void add(struct text *text, const char *format, unsigned a, unsigned b)
{
    int written =
        snprintf(text->data + text->length, sizeof text->data - text->length, format, a, b);
    assert_true(written > 0 && text->length + (size_t)written < sizeof text->data);
    text->length += (size_t)written;
}

static void make_step(const struct text *text, struct step *step, bool *repeats)
{
    struct trace trace;
    assert_int_equal(trace_parse("test", text->data, text->length, &trace, NULL), VP_OK);
    assert_int_equal(step_from_trace(&trace, step, repeats), VP_OK);
    trace_release(&trace);
    assert_true(step_is_valid(step));
}

/* Four steps: a persistent block, one that lives within the step, an op that marks it. */
static void finds_last_whole_step(void **state)
{
    struct text text = {0};
    struct step step;
    bool repeats = false;
    add(&text, "vrampool-trace 1\nalloc 1 4194304\nop kernel 0 7 init 1\n", 0, 0);
    for (unsigned i = 0; i < 4; i++) {
        add(&text, "alloc %u 2097152\nop kernel 0 900000 first 1 %u\n", 10 + i, 10 + i);
        add(&text, "op kernel 0 20 again 1\nop kernel 0 30 again %u\nfree %u\n", 10 + i, 10 + i);
    }
    make_step(&text, &step, &repeats);
    assert_true(repeats);
    assert_int_equal(step.op_count, 3);
    assert_int_equal(step.role_count, 2);
    assert_int_equal(step.ops[0].duration_ns, 100000); /* the host's idle time is cut */
    assert_int_equal(step_duration_ns(&step), 100050);
    const struct step_role *born = &step.roles[0], *kept = &step.roles[1];
    assert_int_equal(born->born_op, 0);
    assert_int_equal(born->died_op, 3);
    assert_int_equal(born->age, 0);
    assert_int_equal(kept->born_op, STEP_NEVER);
    assert_int_equal(kept->bytes, 4194304);
    assert_int_equal(step.ops[0].touch_count, 2);
    assert_true(step.ops[0].key != step.ops[1].key);
    assert_true(step.ops[1].key != step.ops[2].key); /* same name, other sizes */
    step_release(&step);
}

/* A block that is allocated in one step and freed in the next, while its successor lives. */
static void names_blocks_across_steps(void **state)
{
    struct text text = {0};
    struct step step;
    add(&text, "vrampool-trace 1\nalloc 1 2097152\nop kernel 0 5 init 1\n", 0, 0);
    for (unsigned i = 0; i < 5; i++) {
        add(&text, "alloc %u 8388608\n", 10 + i, 0);
        add(&text, "op kernel 0 10 load %u\nop kernel 0 10 use 1\n", 10 + i, 0);
        if (i > 0) add(&text, "op kernel 0 10 late %u\nfree %u\n", 9 + i, 9 + i);
        if (i == 0) add(&text, "op kernel 0 10 nothing\n", 0, 0);
        add(&text, "alloc %u 1048576\nop kernel 0 10 end %u\n", 100 + i, 100 + i);
        add(&text, "free %u\n", 100 + i, 0);
    }
    make_step(&text, &step, NULL);
    unsigned crossing = 0, old_touches = 0;
    for (uint32_t i = 0; i < step.role_count; i++) {
        if (step.roles[i].bytes != 8388608) continue;
        crossing++;
        assert_int_equal(step.roles[i].age, 1);
    }
    for (uint32_t i = 0; i < step.touch_count; i++) old_touches += step.touches[i].age == 1;
    assert_int_equal(crossing, 1);
    assert_int_equal(old_touches, 1);
    step_release(&step);
}

/* Two streams side by side: what counts is how far the latest end moves. */
static void adds_up_streams(void **state)
{
    struct text text = {0};
    struct step step;
    bool repeats = true;
    add(&text, "vrampool-trace 1\nop kernel 0 100 a\nop kernel 1 0 b\nop kernel 0 50 c\n", 0, 0);
    add(&text, "op kernel 1 40 d\nop kernel 1 30 e\n", 0, 0);
    make_step(&text, &step, &repeats);
    assert_false(repeats);
    assert_int_equal(step.op_count, 5);
    static const unsigned wanted[] = {100, 0, 50, 0, 20};
    for (unsigned i = 0; i < 5; i++) assert_int_equal(step.ops[i].duration_ns, wanted[i]);
    step_release(&step);
}

/* An optimizer's op writes what it updates; others are taken to read persistent blocks. */
static void guesses_writes(void **state)
{
    struct text text = {0};
    struct step step;
    add(&text, "vrampool-trace 1\nalloc 1 4194304\nalloc 2 4194304\n", 0, 0);
    for (unsigned i = 0; i < 4; i++) {
        add(&text, "alloc %u 4194304\nop kernel 0 10 forward%u 1 ", 10 + i, i);
        add(&text, "%u\nop kernel 0 10 update 1 2 %u\n", 10 + i, 10 + i);
        add(&text, "free %u\n", 10 + i, 0);
    }
    make_step(&text, &step, NULL);
    assert_int_equal(step.op_count, 2);
    for (uint32_t i = 0; i < step.touch_count; i++) {
        const struct step_touch *touch = &step.touches[i];
        if (step.roles[touch->role].born_op != STEP_NEVER) continue;
        assert_int_equal(touch->access, i < step.ops[0].touch_count ? STEP_READS : STEP_WRITES);
    }
    step_release(&step);
}

static void refuses_no_ops(void **state)
{
    static const char text[] = "vrampool-trace 1\nalloc 1 5\n";
    struct trace trace;
    struct step step;
    assert_int_equal(trace_parse("test", text, sizeof text - 1, &trace, NULL), VP_OK);
    assert_int_equal(step_from_trace(&trace, &step, NULL), VP_INVALID);
    trace_release(&trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_last_whole_step), cmocka_unit_test(names_blocks_across_steps),
        cmocka_unit_test(adds_up_streams),       cmocka_unit_test(guesses_writes),
        cmocka_unit_test(refuses_no_ops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
