#include "trace/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/random.h"
#include "test.h"

#define HEAD TRACE_FIRST_LINE "\n"

static struct trace parsed(const char *text)
{
    struct trace trace;
    assert_int_equal(trace_parse("test", text, strlen(text), &trace, NULL), VP_OK);
    return trace;
}

static void a_trace_becomes_flat_arrays(void **state)
{
    struct trace trace = parsed(HEAD "# made by hand\n"
                                     "alloc 7 4096\n"
                                     "op kernel 5 100 first 7\n"
                                     "alloc 9 8192\n"
                                     "op copy 0 000000000200 second 9 7 9\n"
                                     "free 7\n"
                                     "\n"
                                     "op kernel 5 300 first 9 \n"
                                     "alloc 7 1\n"
                                     "op memset 5 0 third\n");
    assert_int_equal(trace.op_count, 4);
    assert_int_equal(trace.block_count, 3);
    assert_int_equal(trace.event_count, 8);
    assert_int_equal(trace.stream_count, 2);
    assert_int_equal(trace.name_count, 3);

    assert_int_equal(trace.blocks[0].id, 7);
    assert_int_equal(trace.blocks[0].bytes, 4096);
    assert_int_equal(trace.blocks[0].born_op, 0);
    assert_int_equal(trace.blocks[0].died_op, 2);
    assert_int_equal(trace.blocks[2].id, 7); /* used again: another block */
    assert_int_equal(trace.blocks[2].born_op, 3);
    assert_int_equal(trace.blocks[2].died_op, TRACE_NEVER);

    assert_int_equal(trace.ops[1].kind, TRACE_COPY);
    assert_int_equal(trace.ops[1].duration_ns, 200);
    assert_int_equal(trace.ops[1].stream, 1);
    assert_int_equal(trace.ops[1].touch_count, 2); /* each block once */
    assert_int_equal(trace.touches[trace.ops[1].first_touch], 1);
    assert_int_equal(trace.touches[trace.ops[1].first_touch + 1], 0);
    assert_string_equal(trace.names[trace.ops[2].name], "first");
    assert_int_equal(trace.ops[3].touch_count, 0);

    assert_int_equal(trace.events[4].kind, TRACE_FREE);
    assert_int_equal(trace.events[4].index, 0);
    assert_int_equal(trace.events[7].kind, TRACE_OP);
    assert_int_equal(trace.events[7].index, 3);
    trace_release(&trace);
    assert_null(trace.events);
}

static void an_empty_trace_is_one(void **state)
{
    struct trace trace = parsed(TRACE_FIRST_LINE);
    assert_int_equal(trace.event_count, 0);
    trace_release(&trace);
}

static void malformed_lines_are_told_by_number(void **state)
{
    static const struct {
        const char *text;
        uint32_t line;
    } bad[] = {
        {"", 1},
        {"vrampool-trace", 1},
        {"vrampool-trace 2\n", 1},
        {"vrampool-trace 1 2\n", 1},
        {"alloc 1 2\n", 1},
        {HEAD "alloc 1\n", 2},
        {HEAD "\n\nalloc 1 2 3\n", 4},
        {HEAD "alloc 1 2\nalloc 1 2\n", 3},
        {HEAD "alloc 1 -2\n", 2},
        {HEAD "alloc 1 18446744073709551616\n", 2},
        {HEAD "alloc 1 4503599627370497\n", 2},
        {HEAD "alloc 1 4503599627370495\nalloc 2 2\n", 3},
        {HEAD "free 1\n", 2},
        {HEAD "alloc 1 2\nfree 1\nfree 1\n", 4},
        {HEAD "op\n", 2},
        {HEAD "op launch 0 0 name\n", 2},
        {HEAD "op kernel 0 0\n", 2},
        {HEAD "op kernel 0 x name\n", 2},
        {HEAD "op kernel 0 4503599627370495 a\nop kernel 0 2 a\n", 3},
        {HEAD "op kernel 0 0 name 3\n", 2},
        {HEAD "alloc 1 2\nfree 1\nop kernel 0 0 name 1\n", 4},
        {HEAD "alloc 1 2\nop kernel 0 0 name 1x\n", 3},
        {HEAD "jump 3\n", 2},
    };
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct trace trace = {.op_count = 77};
        uint32_t line = 0;
        vp_status status = trace_parse("test", bad[i].text, strlen(bad[i].text), &trace, &line);
        if (status != VP_MALFORMED || line != bad[i].line)
            fail_msg("case %u: %s at line %u", i, vp_status_name(status), line);
        assert_int_equal(trace.op_count, 77);
    }
}

static void zero_bytes_are_refused(void **state)
{
    static const char text[] = HEAD "alloc 0 1\nop kernel 0 0 n\0me 0\n";
    struct trace trace;
    assert_int_equal(trace_parse("test", text, sizeof text - 1, &trace, NULL), VP_MALFORMED);
}

static void a_missing_file_is_an_error(void **state)
{
    struct trace trace;
    assert_int_equal(trace_read("/nonesuch.trace", &trace, NULL), VP_IO);
    assert_int_equal(trace_read("/tmp", &trace, NULL), VP_IO);
    assert_int_equal(trace_read("/dev/null", &trace, NULL), VP_IO);
}

/* Many IDs, names and streams, some with equal low bits, so that tables grow and probe. */
static void tables_grow(void **state)
{
    enum { BLOCKS = 20000 };
    size_t room = 64 + (size_t)BLOCKS * 96, used;
    char *text = malloc(room);
    assert_non_null(text);
    used = (size_t)sprintf(text, HEAD);
    for (uint64_t i = 0; i < BLOCKS; i++) {
        used += (size_t)sprintf(text + used, "alloc %llu %llu\n", (unsigned long long)(i << 20),
                                (unsigned long long)i);
        used += (size_t)sprintf(text + used, "op kernel %llu 1 name%llu %llu 0\n",
                                (unsigned long long)(i % 300) << 32, (unsigned long long)(i % 5000),
                                (unsigned long long)(i << 20));
    }
    struct trace trace;
    assert_int_equal(trace_parse("test", text, used, &trace, NULL), VP_OK);
    assert_int_equal(trace.block_count, BLOCKS);
    assert_int_equal(trace.stream_count, 300);
    assert_int_equal(trace.name_count, 5000);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        assert_int_equal(trace.blocks[i].bytes, i);
        assert_int_equal(trace.ops[i].name, i % 5000);
        assert_int_equal(trace.touches[trace.ops[i].first_touch], i);
        assert_int_equal(trace.ops[i].touch_count, i ? 2 : 1);
    }
    trace_release(&trace);
    free(text);
}

/* Every index in a trace that was taken must be good, whatever the text was. */
static void check_indices(const struct trace *trace)
{
    uint32_t ops = 0;
    for (uint32_t i = 0; i < trace->event_count; i++) {
        const struct trace_event *event = &trace->events[i];
        assert_true(event->index <
                    (event->kind == TRACE_OP ? trace->op_count : trace->block_count));
        if (event->kind == TRACE_OP) assert_int_equal(event->index, ops++);
    }
    assert_int_equal(ops, trace->op_count);
    for (uint32_t i = 0; i < trace->op_count; i++) {
        const struct trace_op *op = &trace->ops[i];
        assert_true(op->kind < TRACE_KIND_COUNT && op->name < trace->name_count);
        assert_true(op->stream < trace->stream_count);
        assert_true(op->first_touch + op->touch_count <= trace->touch_count);
        for (uint32_t j = 0; j < op->touch_count; j++) {
            const struct trace_block *block = &trace->blocks[trace->touches[op->first_touch + j]];
            assert_true(block->born_op <= i && i < block->died_op);
        }
    }
}

static void damaged_text_never_breaks(void **state)
{
    static const char good[] = HEAD "# comment\nalloc 1 4096\nalloc 2 9\nop kernel 0 12 a 1 2\n"
                                    "op copy 1 3 b 2\nfree 1\nop memset 0 4 a\nalloc 1 5\n"
                                    "op graph 2 7 c 1 2\nfree 2\n";
    static const char letters[] = " \n\t0129ax#-\0alloc";
    struct random random = {.state = 5};
    unsigned taken = 0;
    for (unsigned round = 0; round < 20000; round++) {
        char text[sizeof good];
        memcpy(text, good, sizeof good);
        size_t length =
            random_below(&random, 2) ? sizeof good - 1 : (size_t)random_below(&random, sizeof good);
        for (unsigned i = 0; i < 1 + round % 3; i++)
            text[random_below(&random, sizeof good - 1)] =
                letters[random_below(&random, sizeof letters - 1)];
        char *exact = malloc(length ? length : 1); /* so that ASan sees a step over its end */
        assert_non_null(exact);
        memcpy(exact, text, length);
        struct trace trace;
        if (trace_parse("test", exact, length, &trace, NULL) == VP_OK) {
            check_indices(&trace);
            trace_release(&trace);
            taken++;
        }
        free(exact);
    }
    assert_in_range(taken, 100, 15000);
}

int main(void)
{
    log_set_level(LOG_QUIET);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trace_becomes_flat_arrays),
        cmocka_unit_test(an_empty_trace_is_one),
        cmocka_unit_test(malformed_lines_are_told_by_number),
        cmocka_unit_test(zero_bytes_are_refused),
        cmocka_unit_test(a_missing_file_is_an_error),
        cmocka_unit_test(tables_grow),
        cmocka_unit_test(damaged_text_never_breaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
