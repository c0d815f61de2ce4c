#include "base/env.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/units.h"
#include "test.h"

static int clear(void **state)
{
    for (unsigned i = 0; i < ENV_COUNT; i++) unsetenv(env_name(i));
    return 0;
}

static void lists_of_cards_are_read(void **state)
{
    static const struct {
        const char *text;
        uint32_t cards;
    } good[] = {{"0", 1},    {"0,2-3", 0xd}, {"15", 0x8000},      {"1-1", 2},
                {"none", 0}, {"3,0", 9},     {"all", UINT32_MAX}, {"0-15", 0xffff}};
    static const char *const bad[] = {"",   ",",  "0,",   "3-2", "16",  "a",     "0 1",
                                      "0-", "-1", "1--2", "0;1", "ALL", "0-2-3", "99999999999"};
    uint32_t cards;
    for (unsigned i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(env_parse_cards(good[i].text, &cards));
        assert_int_equal(cards, good[i].cards);
    }
    cards = 5;
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++)
        if (env_parse_cards(bad[i], &cards)) fail_msg("took `%s`", bad[i]);
    assert_int_equal(cards, 5);
}

static void policies_are_read(void **state)
{
    static const char *const words[] = {"plan", "lru", "demand", "inplace"};
    uint32_t policy = 9;
    assert_false(env_parse_policy("", &policy));
    assert_false(env_parse_policy("LRU", &policy));
    assert_int_equal(policy, 9);
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(env_parse_policy(words[i], &policy));
        assert_int_equal(policy, i);
    }
}

static void what_cards_lend_may_have_sizes(void **state)
{
    uint32_t cards;
    uint64_t bytes[VP_MAX_CARDS];
    assert_true(env_parse_lend("0:40G,2-3,5-6:1.5M", &cards, bytes));
    assert_int_equal(cards, 0x6d);
    assert_int_equal(bytes[0], 40 * GIB);
    assert_int_equal(bytes[2], 0);
    assert_int_equal(bytes[5], 3 * MIB / 2);
    assert_int_equal(bytes[6], 3 * MIB / 2);
    assert_true(env_parse_lend("all", &cards, bytes));
    assert_int_equal(cards, UINT32_MAX);
    assert_int_equal(bytes[0], 0);
    assert_true(env_parse_lend("none", &cards, bytes));
    assert_int_equal(cards, 0);
    static const char *const wrong[] = {"0:",     "0:0",     ":4G",  "all:4G", "0:4G,",
                                        "0:4G;1", "0:4G:4G", "0:4X", "99:4G",  ""};
    for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(env_parse_lend(wrong[i], &cards, bytes));
}

static void options_come_from_the_environment(void **state)
{
    vp_options options = {.hbm_bytes = 1, .host_bytes = VP_DEFAULT_BYTES, .lend_cards = 6};
    setenv("VRAMPOOL_HBM", "24G", 1);
    setenv("VRAMPOOL_COMPUTE", "0,1", 1);
    setenv("VRAMPOOL_VERIFY", "params", 1);
    setenv("VRAMPOOL_ALWAYS_MAPPED", "1", 1);
    setenv("VRAMPOOL_STRICT", "1", 1);
    setenv("VRAMPOOL_RECORD", "/tmp/a.trace", 1);
    setenv("VRAMPOOL_CHUNK", "", 1);
    setenv("VRAMPOOL_AHEAD", "4096", 1);
    setenv("VRAMPOOL_RESERVE", "1.5G", 1);
    assert_int_equal(env_read_options(&options), VP_OK);
    setenv("VRAMPOOL_COMPUTE", "ranks", 1);
    vp_options launcher = options;
    assert_int_equal(env_read_options(&launcher), VP_OK);
    assert_int_equal(launcher.compute_cards, UINT32_MAX);
    assert_int_equal(options.hbm_bytes, 24 * GIB);
    assert_int_equal(options.host_bytes, VP_DEFAULT_BYTES);
    assert_int_equal(options.compute_cards, 3);
    assert_int_equal(options.lend_cards, 6);
    assert_int_equal(options.verify, 2);
    assert_int_equal(options.always_mapped, 1);
    assert_int_equal(options.strict, 1);
    assert_int_equal(options.chunk_bytes, 0);
    assert_int_equal(options.ahead_ops, 4096);
    assert_int_equal(options.reserve_bytes, 3 * GIB / 2);
    assert_string_equal(options.record_path, "/tmp/a.trace");
    assert_null(options.driver_path);
}

static void a_wrong_value_changes_nothing(void **state)
{
    static const char *const names[] = {
        "VRAMPOOL_HBM",           "VRAMPOOL_HOST",    "VRAMPOOL_CHUNK",
        "VRAMPOOL_LEND",          "VRAMPOOL_COMPUTE", "VRAMPOOL_VERIFY",
        "VRAMPOOL_ALWAYS_MAPPED", "VRAMPOOL_AHEAD",   "VRAMPOOL_RESERVE"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        clear(state);
        setenv("VRAMPOOL_RECORD", "/tmp/a.trace", 1);
        setenv(names[i], "24Q", 1);
        vp_options options = {.hbm_bytes = 7}, before = options;
        assert_int_equal(env_read_options(&options), VP_INVALID);
        assert_memory_equal(&options, &before, sizeof options);
    }
}

static void a_chunk_is_a_power_of_two(void **state)
{
    static const char *const wrong[] = {"", "0", "1M", "3M", "256M", "12M", "-2M", "big"};
    uint64_t bytes = 7;
    for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(env_parse_chunk(wrong[i], &bytes));
    assert_int_equal(bytes, 7);
    assert_true(env_parse_chunk("2M", &bytes) && bytes == 2 * MIB);
    assert_true(env_parse_chunk("128M", &bytes) && bytes == 128 * MIB);
}

static void ahead_is_a_number_of_operations(void **state)
{
    static const char *const wrong[] = {
        "", "0", "4097", "-1", "64 ", "1e3", "99999999999999999999"};
    uint32_t ops = 7;
    for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(env_parse_ahead(wrong[i], &ops));
    assert_int_equal(ops, 7);
    assert_true(env_parse_ahead("1", &ops) && ops == 1);
    assert_true(env_parse_ahead("4096", &ops) && ops == 4096);
}

static void flags_are_zero_or_one(void **state)
{
    bool flag = true;
    assert_true(env_get_flag(ENV_SWITCH, &flag) && flag);
    setenv("VRAMPOOL", "0", 1);
    assert_true(env_get_flag(ENV_SWITCH, &flag) && !flag);
    setenv("VRAMPOOL", "off", 1);
    assert_false(env_get_flag(ENV_SWITCH, &flag));
}

static void every_variable_is_described(void **state)
{
    for (unsigned i = 0; i < ENV_COUNT; i++) {
        assert_memory_equal(env_name(i), "VRAMPOOL", 8);
        assert_true(strlen(env_form(i)) > 0 && strlen(env_text(i)) > 10);
    }
}

int main(void)
{
    log_set_level(LOG_QUIET);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_of_cards_are_read),
        cmocka_unit_test(policies_are_read),
        cmocka_unit_test_setup(what_cards_lend_may_have_sizes, clear),
        cmocka_unit_test_setup(options_come_from_the_environment, clear),
        cmocka_unit_test_setup(a_wrong_value_changes_nothing, clear),
        cmocka_unit_test_setup(a_chunk_is_a_power_of_two, clear),
        cmocka_unit_test_setup(ahead_is_a_number_of_operations, clear),
        cmocka_unit_test_setup(flags_are_zero_or_one, clear),
        cmocka_unit_test(every_variable_is_described),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
