#include "machine_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/random.h"
#include "json_line.h"
#include "test.h"

static char path[] = "/tmp/vrampool-machine-XXXXXX";

static int make_file(void **state)
{
    int descriptor = mkstemp(path);
    return descriptor < 0 ? -1 : close(descriptor);
}

static int drop_file(void **state)
{
    return unlink(path);
}

static vp_status read_text(const char *text, struct machine *machine)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
    return machine_file_read(path, machine);
}

/* Reads a wrong description; what is logged about it has to start with the file and hold `said`. */
static void assert_refused(const char *text, const char *said)
{
    struct machine machine;
    char name[] = "/tmp/vrampool-stderr-XXXXXX", line[1024] = "", start[128];
    int log = mkstemp(name), keep = dup(STDERR_FILENO);
    assert_true(log >= 0 && keep >= 0);
    dup2(log, STDERR_FILENO);
    vp_status status = read_text(text, &machine);
    dup2(keep, STDERR_FILENO);
    assert_true(pread(log, line, sizeof line - 1, 0) > 0);
    close(log);
    close(keep);
    unlink(name);
    snprintf(start, sizeof start, "vrampool: error: %s:", path);
    assert_int_equal(status, VP_MALFORMED);
    if (strncmp(line, start, strlen(start)) != 0 || !strstr(line, said))
        fail_msg("`%s` lacks `%s`", line, said);
}

#define PATHS "\"paths\":[{\"from\":\"cards\",\"to\":\"host\",\"gbps\":25,\"latency_ns\":9}]"

static const char *const shipped[] = {"double-cube-8x24", "rtx4090-8", "rtx4090-8-p2p", "dgx1v",
                                      "hgx-h200-8",       "h200"};
enum { SHIPPED = sizeof shipped / sizeof *shipped };

static struct machine shipped_machine(const char *name)
{
    struct machine machine;
    char file[256];
    snprintf(file, sizeof file, "%s/%s.json", MACHINES, name);
    assert_int_equal(machine_file_read(file, &machine), VP_OK);
    return machine;
}

static void the_shipped_files_are_what_their_names_say(void **state)
{
    char a[MACHINE_TEXT_BYTES], b[MACHINE_TEXT_BYTES];
    for (unsigned i = 0; i < SHIPPED; i++) {
        struct machine machine = shipped_machine(shipped[i]), read;
        assert_string_equal(machine.name, shipped[i]);
        assert_int_equal(machine.cards, strcmp(shipped[i], "h200") == 0 ? 1 : 8);
        assert_int_equal(machine_to_text(&machine, a, sizeof a), VP_OK);
        assert_int_equal(machine_from_text(a, &read), VP_OK);
        assert_int_equal(machine_to_text(&read, b, sizeof b), VP_OK);
        assert_string_equal(a, b);
        for (unsigned from = 0; from <= machine.cards; from++) {
            for (unsigned to = 0; to <= machine.cards; to++) {
                const struct machine_path *ours = &machine.path[from][to];
                assert_true(ours->gbps > 0 || from == to);
                assert_true(ours->gbps == read.path[from][to].gbps);
                assert_int_equal(ours->latency_ns, read.path[from][to].latency_ns);
            }
        }
    }
    /* The library's own h200 is made from the file, by another reader of it. */
    struct machine file = shipped_machine("h200"), named;
    assert_int_equal(machine_from_name("h200", &named), VP_OK);
    assert_int_equal(machine_to_text(&file, a, sizeof a), VP_OK);
    assert_int_equal(machine_to_text(&named, b, sizeof b), VP_OK);
    assert_string_equal(a, b);
}

static void a_size_scales_all_memory(void **state)
{
    struct machine machine;
    assert_int_equal(machine_find(MACHINES "/double-cube-8x24.json@24M", &machine), VP_OK);
    assert_string_equal(machine.name, "double-cube-8x24@24M");
    for (unsigned card = 0; card < 8; card++) assert_int_equal(machine.hbm_bytes[card], 24 << 20);
    assert_int_equal(machine.host_bytes, 96 << 20);
    assert_int_equal(machine_find("4x8G@16M", &machine), VP_OK);
    assert_int_equal(machine.hbm_bytes[3], 16 << 20);
    assert_int_equal(machine_find("4x8G@1M", &machine), VP_INVALID);
    assert_int_equal(machine_find("4x8G@many", &machine), VP_INVALID);
    assert_int_equal(machine_find("@24M", &machine), VP_INVALID);
}

#define ROUTED(links)                                                                              \
    "{\"machine\":1,\"name\":\"odd\",\"host\":\"1G\","                                             \
    "\"cards\":[{\"count\":3,\"hbm\":\"24M\",\"hbm_gbps\":9}]," PATHS                              \
    ",\"through_host\":{\"factor\":0.5,\"latency_ns\":9},\n\"links\":[{" links "}]}"
#define LANES ",\"lanes\":2,\"lane_gbps\":10,\"latency_ns\":1"

static void links_are_checked(void **state)
{
    struct machine machine;
    assert_int_equal(read_text(ROUTED("\"between\":[[0,1]]" LANES), &machine), VP_OK);
    assert_int_equal(machine.links, 1);
    assert_true(machine.path[0][2].gbps == 12.5 && !machine.path[0][2].access);
    static const struct {
        const char *links, *said;
    } wrongs[] = {
        {"\"between\":[[0,3]]" LANES, ":2: links/0/between: an end is"},
        {"\"between\":[[0,0]]" LANES, ":2: links/0/between: joins a card to itself"},
        {"\"between\":[[0,1],[1,0]]" LANES, "have a link already"},
        {"\"between\":[[0,1]],\"among\":[0,1]" LANES, "one of both"},
        {"\"between\":[0,1]" LANES, "a list of pairs"},
        {"\"among\":[0]" LANES, "at least two cards"},
        {"\"between\":[[0,1]],\"spare_lanes\":2" LANES, "has to carry data"},
        {"\"between\":[[0,1]],\"factor\":1.5" LANES, "above 0 and at most 1"},
        {"\"between\":[[0,1]],\"kind\":\"string\"" LANES, "such as \"nvlink\""},
        {"\"between\":[[0,1]],\"calibrated\":[\"factor\"]" LANES, "fields of this entry"},
        {"\"between\":[[0,1]],\"lane\":4" LANES, "did you mean \"lanes\""},
    };
    for (unsigned i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
        char text[1024];
        snprintf(text, sizeof text, "%s", ROUTED("@"));
        char *at = strchr(text, '@');
        snprintf(at, sizeof text - (size_t)(at - text), "%s}]}", wrongs[i].links);
        assert_refused(text, wrongs[i].said);
    }
    assert_refused("{\"machine\":1,\"name\":\"odd\",\"host\":\"1G\","
                   "\"cards\":[{\"count\":2,\"hbm\":\"24M\",\"hbm_gbps\":9}]," PATHS
                   ",\"links\":[{\"between\":[[0,1]]" LANES "}]}",
                   "\"through_host\" is missing");
}

static void later_paths_win(void **state)
{
    struct machine machine;
    const char *text =
        "{\"machine\":1,\"name\":\"odd\",\"host\":\"1G\","
        "\"cards\":[{\"count\":2,\"hbm\":\"24M\",\"hbm_gbps\":9},{\"hbm\":\"8M\",\"hbm_gbps\":1}],"
        "\"paths\":[{\"from\":\"cards\",\"to\":\"cards\",\"gbps\":50,\"latency_ns\":1},"
        "{\"from\":0,\"to\":2,\"gbps\":7,\"latency_ns\":2,\"both_ways\":false,\"access\":false},"
        "{\"from\":\"cards\",\"to\":\"host\",\"gbps\":25,\"latency_ns\":9}],"
        "\"costs\":{\"launch\":{\"base_ns\":5}}}";
    assert_int_equal(read_text(text, &machine), VP_OK);
    assert_int_equal(machine.cards, 3);
    assert_true(machine.path[0][2].gbps == 7 && !machine.path[0][2].access);
    assert_true(machine.path[2][0].gbps == 50 && machine.path[2][0].access);
    assert_true(machine.path[3][1].gbps == 25 && machine.path[1][3].gbps == 25);
    assert_int_equal(machine.costs.launch.base_ns, 5);
    assert_int_equal(machine.costs.record.base_ns, 150);
}

static void mistakes_are_told_with_line_and_field(void **state)
{
    assert_refused("{\n\"machine\": 1,\n\"name\": }", ":3:");
    assert_refused("[]", ":1: the file: must be an object");
    assert_refused("{\"machine\":1}", "\"name\" is missing");
    assert_refused("{\"machine\":2,\"name\":\"a\",\"host\":1,\"cards\":[],\"paths\":[]}",
                   "machine: format 2");
    assert_refused("{\"machine\":1,\"name\":\"a\",\"host\":1,\n\"crads\":[],\n\"paths\":[]}",
                   ":2: crads: unknown field; did you mean \"cards\"?");
    assert_refused("{\"machine\":1,\"name\":\"a\",\"host\":1,\"cards\":[\n"
                   "{\"hbm\":\"4M\",\"hbm_gbps\":1},\n{\"hbm\":\"4Q\",\"hbm_gbps\":1}]," PATHS "}",
                   ":3: cards/1/hbm: must be a size");
    assert_refused("{\"machine\":1,\"name\":\"a\",\"host\":1,\n"
                   "\"cards\":[{\"count\":2,\"hbm\":\"4M\",\"hbm_gbps\":1}],\n" PATHS "}",
                   ":3: paths: none from place 0 to place 1");
    assert_refused("{\"machine\":1,\"name\":\"a\",\"host\":1,"
                   "\"cards\":[{\"count\":17,\"hbm\":\"4M\",\"hbm_gbps\":1}]," PATHS "}",
                   "cards/0/count: must be a whole number from 0 to 16");
    assert_refused("{\"machine\":1,\"name\":\"a b\",\"host\":1,"
                   "\"cards\":[{\"hbm\":\"4M\",\"hbm_gbps\":1}]," PATHS "}",
                   "name: letters");
    assert_refused("{\"machine\":1,\"name\":\"a\",\"host\":1,\"cards\":[{\"hbm\":\"4M\","
                   "\"hbm_gbps\":1}],\n\"costs\":{\n\"map\":{\"base_ns\":-1}}," PATHS "}",
                   ":3: costs/map/base_ns");
    assert_refused("{\"machine\":1,\"machine\":1}", "duplicate");
}

static void a_missing_file_is_no_machine(void **state)
{
    struct machine machine;
    log_set_level(LOG_QUIET);
    assert_int_equal(machine_file_read("/nonesuch.json", &machine), VP_IO);
    assert_int_equal(machine_file_read("/tmp", &machine), VP_IO);
    assert_int_equal(machine_find("nonesuch", &machine), VP_NOT_FOUND);
    assert_int_equal(machine_find("nonesuch.json", &machine), VP_IO);
    assert_int_equal(machine_find("2x4M", &machine), VP_OK);
    log_set_level(LOG_WARN);
}

/* Any change to a good file is read or refused, nothing else (run under ASan). */
static void damaged_files_never_break(void **state)
{
    struct random random = {.state = 3};
    char good[8192], damaged[8192];
    FILE *file = fopen(MACHINES "/h200.json", "r");
    assert_non_null(file);
    size_t length = fread(good, 1, sizeof good - 1, file);
    fclose(file);
    log_set_level(LOG_QUIET);
    for (unsigned round = 0; round < 1000; round++) {
        memcpy(damaged, good, length);
        damaged[random_below(&random, 4) ? length : random_below(&random, length)] = '\0';
        for (unsigned i = 0; i < 2; i++)
            damaged[random_below(&random, length)] = "{}[],:\"0 -\n\\x"[random_below(&random, 13)];
        damaged[length] = '\0';
        struct machine machine;
        const char *why;
        if (read_text(damaged, &machine) == VP_OK) assert_true(machine_is_valid(&machine, &why));
    }
    log_set_level(LOG_WARN);
}

static void lines_of_values_are_found(void **state)
{
    const char *text = "{\n\"a\": [1,\n \"]\\\"}\",\n {\"b\": {},\n \"c\"\n: 2}],\n\"d\": 4}\n";
    assert_int_equal(json_line_of(text, ""), 1);
    assert_int_equal(json_line_of(text, "/a"), 2);
    assert_int_equal(json_line_of(text, "/a/1"), 3);
    assert_int_equal(json_line_of(text, "/a/2/b"), 4);
    assert_int_equal(json_line_of(text, "/a/2/c"), 6);
    assert_int_equal(json_line_of(text, "/a/2/missing"), 4);
    assert_int_equal(json_line_of(text, "/a/9"), 2);
    assert_int_equal(json_line_of(text, "/d"), 7);
    assert_int_equal(json_line_of("", "/d"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_shipped_files_are_what_their_names_say),
        cmocka_unit_test(a_size_scales_all_memory),
        cmocka_unit_test(links_are_checked),
        cmocka_unit_test(later_paths_win),
        cmocka_unit_test(mistakes_are_told_with_line_and_field),
        cmocka_unit_test(a_missing_file_is_no_machine),
        cmocka_unit_test(damaged_files_never_break),
        cmocka_unit_test(lines_of_values_are_found),
    };
    return cmocka_run_group_tests(tests, make_file, drop_file);
}
