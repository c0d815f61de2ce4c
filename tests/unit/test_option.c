#include "option.h"

#include <string.h>

#include "test.h"

static const struct option_spec specs[] = {
    {"hbm", OPTION_VALUE, "SIZE", "size"},
    {"verify", OPTION_MAYBE, "params", "verify"},
    {"no-pool", OPTION_FLAG, NULL, "flag"},
    {"help", OPTION_FLAG, NULL, "help"},
};

/* Reads one option of a command line; *next is then the index of what follows. */
static int read_one(char **argv, const char **value, int *next)
{
    int argc = 0;
    while (argv[argc]) argc++;
    struct option_reader reader = {"test", specs, sizeof specs / sizeof *specs, argc, argv, 1};
    int index = option_next(&reader, value);
    *next = reader.next;
    return index;
}

#define READ(value, next, ...) read_one((char *[]){"test", __VA_ARGS__, NULL}, value, next)

static void both_forms_of_a_value_are_read(void **state)
{
    const char *value;
    int next;
    assert_int_equal(READ(&value, &next, "--hbm", "24G", "x"), 0);
    assert_string_equal(value, "24G");
    assert_int_equal(next, 3);
    assert_int_equal(READ(&value, &next, "--hbm=24G", "x"), 0);
    assert_string_equal(value, "24G");
    assert_int_equal(next, 2);
}

static void an_optional_value_must_be_attached(void **state)
{
    const char *value;
    int next;
    assert_int_equal(READ(&value, &next, "--verify", "params"), 1);
    assert_null(value);
    assert_int_equal(next, 2);
    assert_int_equal(READ(&value, &next, "--verify=params"), 1);
    assert_string_equal(value, "params");
}

static void reading_ends_at_the_program(void **state)
{
    const char *value;
    int next;
    assert_int_equal(READ(&value, &next, "python", "--hbm"), OPTION_END);
    assert_int_equal(next, 1);
    assert_int_equal(READ(&value, &next, "--", "--hbm"), OPTION_END);
    assert_int_equal(next, 2);
    assert_int_equal(READ(&value, &next, "-", "--hbm"), OPTION_END);
    assert_int_equal(next, 1);
}

static void mistakes_are_refused(void **state)
{
    const char *value;
    int next;
    assert_int_equal(READ(&value, &next, "--hbn", "1"), OPTION_WRONG);
    assert_int_equal(READ(&value, &next, "--hbm"), OPTION_WRONG);
    assert_int_equal(READ(&value, &next, "--hbm", "--", "x"), OPTION_WRONG);
    assert_int_equal(READ(&value, &next, "--hbm=", "x"), OPTION_WRONG);
    assert_int_equal(READ(&value, &next, "--hbm", "", "x"), OPTION_WRONG);
    assert_int_equal(READ(&value, &next, "--no-pool=1"), OPTION_WRONG);
    assert_int_equal(READ(&value, &next, "-hbm"), OPTION_WRONG);
    assert_int_equal(READ(&value, &next, "--hb"), OPTION_WRONG);
    assert_int_equal(READ(&value, &next, "--=3"), OPTION_WRONG);
    char long_word[300] = "--";
    memset(long_word + 2, 'h', 290);
    assert_int_equal(READ(&value, &next, long_word), OPTION_WRONG);
    assert_int_equal(READ(&value, &next, "-h"), 3);
}

static void the_nearest_name_is_found(void **state)
{
    const char *const names[] = {"run", "info", "always-mapped"};
    assert_string_equal(option_nearest("rum", names, 3, sizeof *names), "run");
    assert_string_equal(option_nearest("always_maped", names, 3, sizeof *names), "always-mapped");
    assert_null(option_nearest("xyz", names, 3, sizeof *names));
    assert_null(option_nearest("", names, 3, sizeof *names));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_forms_of_a_value_are_read),
        cmocka_unit_test(an_optional_value_must_be_attached),
        cmocka_unit_test(reading_ends_at_the_program),
        cmocka_unit_test(mistakes_are_refused),
        cmocka_unit_test(the_nearest_name_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
