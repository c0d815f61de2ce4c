#include "machine/machine.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/random.h"
#include "base/units.h"
#include "test.h"

static struct machine named(const char *name)
{
    struct machine machine;
    assert_int_equal(machine_from_name(name, &machine), VP_OK);
    return machine;
}

static void equal_cards_are_as_asked(void **state)
{
    struct machine machine = named("8x24M");
    assert_int_equal(machine.cards, 8);
    assert_int_equal(machine.granularity_bytes, 2 * MIB);
    assert_int_equal(machine.host_bytes, 96 * MIB);
    for (unsigned from = 0; from < 8; from++) {
        assert_int_equal(machine.hbm_bytes[from], 24 * MIB);
        for (unsigned to = 0; to < 8; to++) assert_true(machine.path[from][to].access);
        assert_true(machine.path[from][8].gbps == 25);
        assert_true(machine.path[8][from].gbps == 25);
        assert_true(machine.path[from][(from + 1) % 8].gbps == 50);
    }
}

static void names_are_valid_machines(void **state)
{
    static const char *const names[] = {"h200", "1x2M", "1x512M", "8x24M", "16x24G", "3x1.5G"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        struct machine machine = named(names[i]);
        const char *why = NULL;
        if (!machine_is_valid(&machine, &why)) fail_msg("%s: %s", names[i], why);
        assert_string_equal(machine.name, names[i]);
    }
}

static void h200_has_the_measured_figures(void **state)
{
    struct machine machine = named("h200");
    assert_int_equal(machine.cards, 1);
    assert_true(machine.path[0][1].gbps == 55.3 && machine.path[0][1].both_gbps == 49.6);
    /* A host frame of 32 MiB took 9.2 ms to make, its access 336 µs. */
    uint64_t create_ns =
        machine.costs.create_host.base_ns + 32u * machine.costs.create_host.per_mib_ns;
    uint64_t access_ns =
        machine.costs.access_host.base_ns + 32u * machine.costs.access_host.per_mib_ns;
    assert_in_range(create_ns, 9100000, 9300000);
    assert_in_range(access_ns, 330000, 342000);
}

static void other_names_are_refused(void **state)
{
    static const char *const unknown[] = {"",      "h100",  "x24M",   "8x",
                                          "8x24Q", "8y24M", "8x24M ", "-1x24M"};
    static const char *const wrong[] = {"0x24M", "17x24M", "8x1M", "8x0", "1x1000000T"};
    struct machine machine = {.cards = 77};
    for (unsigned i = 0; i < sizeof unknown / sizeof *unknown; i++)
        assert_int_equal(machine_from_name(unknown[i], &machine), VP_NOT_FOUND);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(machine_from_name(wrong[i], &machine), VP_INVALID);
    assert_int_not_equal(machine_from_name(wrong[4], &machine), VP_OK);
    assert_int_equal(machine.cards, 77);
}

static void assert_round_trip(const struct machine *machine)
{
    char text[MACHINE_TEXT_BYTES], again[MACHINE_TEXT_BYTES];
    struct machine read;
    assert_int_equal(machine_to_text(machine, text, sizeof text), VP_OK);
    assert_int_equal(machine_from_text(text, &read), VP_OK);
    assert_int_equal(machine_to_text(&read, again, sizeof again), VP_OK);
    assert_string_equal(text, again);
    assert_int_equal(read.cards, machine->cards);
    assert_memory_equal(&read.costs, &machine->costs, sizeof read.costs);
    assert_memory_equal(read.hbm_bytes, machine->hbm_bytes, sizeof read.hbm_bytes);
    assert_memory_equal(read.hbm_gbps, machine->hbm_gbps, sizeof read.hbm_gbps);
    for (unsigned from = 0; from <= machine->cards; from++) {
        for (unsigned to = 0; to <= machine->cards; to++) {
            const struct machine_path *a = &machine->path[from][to], *b = &read.path[from][to];
            assert_true(a->gbps == b->gbps && a->both_gbps == b->both_gbps);
            assert_true(a->access == b->access && a->atomics == b->atomics);
            assert_int_equal(a->latency_ns, b->latency_ns);
            assert_int_equal(a->start_ns, b->start_ns);
        }
    }
}

static void text_keeps_named_machines(void **state)
{
    static const char *const names[] = {"h200", "8x24M", "1x512M", "16x24G"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        struct machine machine = named(names[i]);
        assert_round_trip(&machine);
    }
}

/* Machines whose every card and path differs fill the text to the most it can hold. */
static void text_keeps_odd_machines(void **state)
{
    struct random random = {.state = 7};
    for (unsigned round = 0; round < 50; round++) {
        struct machine machine = named(round == 0 ? "16x24G" : "5x24G");
        for (unsigned from = 0; from <= machine.cards; from++) {
            if (from < machine.cards)
                machine.hbm_bytes[from] += 2 * MIB * random_below(&random, 1000);
            for (unsigned to = 0; to <= machine.cards; to++) {
                struct machine_path *path = &machine.path[from][to];
                if (from == to) continue;
                path->gbps = (double)(1 + random_below(&random, UINT64_C(4000000000000))) / 1e9;
                path->both_gbps = (double)(1 + random_below(&random, 1000)) / 1e9;
                if (path->both_gbps > path->gbps) path->both_gbps = path->gbps;
                path->latency_ns = (uint32_t)random_next(&random);
                path->start_ns = (uint32_t)random_next(&random);
                path->access = random_below(&random, 2);
                path->atomics = path->access && random_below(&random, 2);
            }
        }
        machine_fill_own_paths(&machine);
        assert_round_trip(&machine);
    }
}

static void text_that_does_not_fit_is_an_error(void **state)
{
    struct machine machine = named("8x24M");
    char text[MACHINE_TEXT_BYTES];
    assert_int_equal(machine_to_text(&machine, text, sizeof text), VP_OK);
    assert_int_equal(machine_to_text(&machine, text, strlen(text)), VP_INVALID);
    assert_int_equal(machine_to_text(&machine, text, 0), VP_INVALID);
}

static void malformed_text_is_refused(void **state)
{
    static const char *const texts[] = {"cards=0",
                                        "cards=17",
                                        "cards= ",
                                        "hbm=*:1",
                                        "cards=2 hbm=2:4194304",
                                        "cards=2 hbm=:4",
                                        "cards=2 path=0>1:1,1,1,1,1",
                                        "cards=2 path=0>1:1,1,1,1,2,0",
                                        "cards=2 path=0>1:1,1,1,1,1,0x",
                                        "cards=2 launch=1",
                                        "cards=2 launch=99999999999,0",
                                        "cards=2 nothing=1",
                                        "cards=1 host=12Q"};
    struct machine machine;
    for (unsigned i = 0; i < sizeof texts / sizeof *texts; i++)
        if (machine_from_text(texts[i], &machine) != VP_MALFORMED) fail_msg("took `%s`", texts[i]);
    assert_int_equal(machine_from_text("cards=2", &machine), VP_INVALID);
    assert_int_equal(machine_from_text("8x24M", &machine), VP_OK);
}

/* Any damage to a good text is either harmless or refused; nothing else may happen (run under
 * ASan). */
static void damaged_text_never_breaks(void **state)
{
    struct random random = {.state = 11};
    struct machine good = named("3x24M");
    char text[MACHINE_TEXT_BYTES];
    assert_int_equal(machine_to_text(&good, text, sizeof text), VP_OK);
    size_t length = strlen(text);
    for (unsigned round = 0; round < 2000; round++) {
        char damaged[MACHINE_TEXT_BYTES];
        memcpy(damaged, text, length + 1);
        for (unsigned i = 0; i < 3; i++)
            damaged[random_below(&random, length)] = (char)(' ' + random_below(&random, 95));
        struct machine read;
        const char *why = NULL;
        if (machine_from_text(damaged, &read) == VP_OK) assert_true(machine_is_valid(&read, &why));
    }
}

static void contradictions_are_named(void **state)
{
    const char *why = NULL;
    struct machine machine = named("2x24M");
    machine.path[0][1].both_gbps = 51;
    assert_false(machine_is_valid(&machine, &why));
    assert_non_null(strstr(why, "both_gbps"));
    machine = named("2x24M");
    machine.granularity_bytes = 3 * MIB;
    assert_false(machine_is_valid(&machine, &why));
    assert_non_null(strstr(why, "granularity_bytes"));
    machine = named("2x24M");
    strcpy(machine.name, "two words");
    assert_false(machine_is_valid(&machine, NULL));
}

int main(void)
{
    log_set_level(LOG_QUIET);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_cards_are_as_asked),
        cmocka_unit_test(names_are_valid_machines),
        cmocka_unit_test(h200_has_the_measured_figures),
        cmocka_unit_test(other_names_are_refused),
        cmocka_unit_test(text_keeps_named_machines),
        cmocka_unit_test(text_keeps_odd_machines),
        cmocka_unit_test(text_that_does_not_fit_is_an_error),
        cmocka_unit_test(malformed_text_is_refused),
        cmocka_unit_test(damaged_text_never_breaks),
        cmocka_unit_test(contradictions_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
