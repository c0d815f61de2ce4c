#include "trace/writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/random.h"
#include "test.h"

static char path[] = "/tmp/vrampool-trace-XXXXXX";

static int make_file(void **state)
{
    int file = mkstemp(path);
    return file < 0 ? -1 : close(file);
}

static int drop_file(void **state)
{
    return unlink(path);
}

static struct trace_writer *opened(const char *comment)
{
    struct trace_writer *writer;
    assert_int_equal(trace_writer_open(path, comment, &writer), VP_OK);
    return writer;
}

static struct trace read_back(void)
{
    struct trace trace;
    assert_int_equal(trace_read(path, &trace, NULL), VP_OK);
    return trace;
}

static void what_is_written_is_read(void **state)
{
    struct trace_writer *writer = opened("one line\nnot two");
    trace_writer_alloc(writer, 1, 1048577);
    trace_writer_alloc(writer, UINT64_MAX, 0);
    uint64_t ids[] = {UINT64_MAX, 1};
    uint64_t first =
        trace_writer_op(writer, TRACE_KERNEL, 0x7f00deadbeef, "void f<int>(a b)", ids, 2);
    uint64_t second = trace_writer_op(writer, TRACE_COPY, 0, NULL, ids, 0);
    trace_writer_op(writer, TRACE_GRAPH, 0, "", ids, 1);
    trace_writer_duration(writer, second, 2000);
    trace_writer_free(writer, 1);
    trace_writer_duration(writer, first, UINT64_MAX);
    assert_int_equal(trace_writer_close(writer), VP_OK);

    struct trace trace = read_back();
    assert_int_equal(trace.op_count, 3);
    assert_int_equal(trace.blocks[0].bytes, 1048577);
    assert_int_equal(trace.blocks[0].died_op, 3);
    assert_true(trace.blocks[1].id == UINT64_MAX);
    assert_string_equal(trace.names[trace.ops[0].name], "void_f<int>(a_b)");
    assert_string_equal(trace.names[trace.ops[1].name], "?");
    assert_int_equal(trace.ops[0].duration_ns, 999999999999);
    assert_int_equal(trace.ops[1].duration_ns, 2000);
    assert_int_equal(trace.ops[2].duration_ns, 0);
    assert_int_equal(trace.ops[0].touch_count, 2);
    assert_int_equal(trace.ops[2].kind, TRACE_GRAPH);
    trace_release(&trace);
}

/* Lines that cross the buffer's end, durations that come before and after their line has gone out,
 * in any order: each must end up in its own line. */
static void durations_find_their_lines(void **state)
{
    enum { OPS = 60000, LAG = 5000 };
    static uint64_t tickets[OPS];
    struct random random = {.state = 2};
    struct trace_writer *writer = opened(NULL);
    char name[400];
    for (unsigned i = 0; i < OPS; i++) {
        size_t length = 1 + (size_t)random_below(&random, sizeof name - 2);
        memset(name, 'x', length);
        name[length] = '\0';
        tickets[i] = trace_writer_op(writer, TRACE_KERNEL, 0, name, NULL, 0);
        if (random_below(&random, 1000) == 0) trace_writer_flush(writer);
        if (i % 2 == 0) trace_writer_duration(writer, tickets[i], 1 + i);
        if (i >= LAG && i % 2 == 0)
            trace_writer_duration(writer, tickets[i - LAG + 1], i - LAG + 2);
    }
    assert_int_equal(trace_writer_close(writer), VP_OK);
    struct trace trace = read_back();
    assert_int_equal(trace.op_count, OPS);
    for (unsigned i = 0; i < OPS; i++) {
        bool filled = i % 2 == 0 || i + LAG - 1 < OPS;
        assert_int_equal(trace.ops[i].duration_ns, filled ? 1 + i : 0);
    }
    trace_release(&trace);
}

static void a_long_line_is_written_whole(void **state)
{
    enum { IDS = 200000 };
    uint64_t *ids = malloc(IDS * sizeof *ids);
    assert_non_null(ids);
    struct trace_writer *writer = opened(NULL);
    for (unsigned i = 0; i < IDS; i++) trace_writer_alloc(writer, ids[i] = i, 1);
    uint64_t ticket = trace_writer_op(writer, TRACE_KERNEL, 0, "wide", ids, IDS);
    trace_writer_duration(writer, ticket, 5);
    assert_int_equal(trace_writer_close(writer), VP_OK);
    struct trace trace = read_back();
    assert_int_equal(trace.ops[0].touch_count, IDS);
    assert_int_equal(trace.ops[0].duration_ns, 5);
    trace_release(&trace);
    free(ids);
}

static void a_forked_child_writes_nothing(void **state)
{
    struct trace_writer *writer = opened(NULL);
    trace_writer_alloc(writer, 1, 1);
    pid_t child = fork();
    if (child == 0) {
        trace_writer_alloc(writer, 2, 1);
        trace_writer_close(writer);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(trace_writer_close(writer), VP_OK);
    struct trace trace = read_back();
    assert_int_equal(trace.block_count, 1);
    trace_release(&trace);
}

static void a_full_disk_is_told_at_the_end(void **state)
{
    struct trace_writer *writer;
    if (access("/dev/full", W_OK) != 0) {
        print_message("no /dev/full here\n");
        skip();
    }
    assert_int_equal(trace_writer_open("/dev/full", NULL, &writer), VP_OK);
    for (unsigned i = 0; i < 100000; i++) {
        uint64_t ticket = trace_writer_op(writer, TRACE_KERNEL, 0, "name", NULL, 0);
        trace_writer_duration(writer, ticket, i);
    }
    assert_int_equal(trace_writer_close(writer), VP_IO);
    assert_int_equal(trace_writer_open("/nonesuch/a.trace", NULL, &writer), VP_IO);
}

int main(void)
{
    log_set_level(LOG_QUIET);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(durations_find_their_lines),
        cmocka_unit_test(a_long_line_is_written_whole),
        cmocka_unit_test(a_forked_child_writes_nothing),
        cmocka_unit_test(a_full_disk_is_told_at_the_end),
    };
    return cmocka_run_group_tests(tests, make_file, drop_file);
}
