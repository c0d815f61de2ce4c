/* Reading PTX. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emu/ptx.h"

static struct ptx_entry entries[8];
static unsigned entry_count, global_count;
static struct ptx_global globals[8];
static char problem[256];

static void take_entry(void *context, const struct ptx_entry *entry)
{
    (void)context;
    entries[entry_count++] = *entry;
}

static void take_global(void *context, const struct ptx_global *global)
{
    (void)context;
    globals[global_count++] = *global;
}

static bool parse(const char *body)
{
    static char text[8192];
    struct ptx_visitor visitor = {take_entry, take_global, NULL};
    entry_count = global_count = 0;
    snprintf(text, sizeof text, ".version 7.0\n.target sm_75\n.address_size 64\n%s", body);
    return ptx_parse(text, &visitor, problem, sizeof problem);
}

static void param_is(unsigned entry, unsigned index, uint32_t offset, uint32_t bytes)
{
    assert_true(index < entries[entry].param_count);
    assert_int_equal(entries[entry].params[index].offset, offset);
    assert_int_equal(entries[entry].params[index].bytes, bytes);
}

static void lays_parameters_out(void **state)
{
    (void)state;
    assert_true(parse(".visible .entry first(\n"
                      "  .param .u8 a, /* .param .u64 no, */\n"
                      "  .param .f64 b, // .param .u64 no\n"
                      "  .param .align 16 .b8 c[24],\n"
                      "  .param .u64 .ptr .global .align 128 d,\n"
                      "  .param .u16 e\n"
                      ") .maxntid 128, 1, 1 { .reg .b32 %r<3>; { ret; } ret; }\n"
                      ".weak .entry _Z6secondPfi(.param .b64 p) { ret; }\n"
                      ".visible .entry third { ret; }\n"));
    assert_int_equal(entry_count, 3);
    assert_string_equal(entries[0].name, "first");
    assert_int_equal(entries[0].param_count, 5);
    param_is(0, 0, 0, 1);
    param_is(0, 1, 8, 8);
    param_is(0, 2, 16, 24);
    param_is(0, 3, 40, 8); /* .align behind .ptr is the pointee's */
    param_is(0, 4, 48, 2);
    assert_string_equal(entries[1].name, "_Z6secondPfi");
    param_is(1, 0, 0, 8);
    assert_int_equal(entries[2].param_count, 0);
}

static void skips_functions(void **state)
{
    (void)state;
    assert_true(parse(".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);\n"
                      ".func (.reg .f32 %out) helper (.reg .f32 %in) { mov.f32 %out, %in; ret; }\n"
                      ".visible .entry k(.param .u32 n) { .shared .align 4 .b8 s[16]; ret; }\n"));
    assert_int_equal(entry_count, 1);
    assert_int_equal(global_count, 0);
}

static void reads_globals(void **state)
{
    (void)state;
    static const uint32_t words[] = {1, 0xffffffff, 0x3f800000};
    assert_true(parse(".visible .global .align 4 .u32 words[3] = {1, -1, 0f3F800000};\n"
                      ".global .align 8 .b8 zeros[40];\n"
                      ".extern .global .align 4 .b8 elsewhere[];\n"
                      ".const .u16 one = 7;\n"
                      ".global .u8 text[] = {104, 105, 0};\n"));
    assert_int_equal(global_count, 4);
    assert_string_equal(globals[0].name, "words");
    assert_int_equal(globals[0].bytes, 12);
    assert_memory_equal(globals[0].value, words, 12);
    assert_int_equal(globals[1].bytes, 40);
    assert_null(globals[1].value);
    assert_int_equal(globals[2].value[0], 7);
    assert_int_equal(globals[3].bytes, 3);
    assert_memory_equal(globals[3].value, "hi", 3);
    for (unsigned i = 0; i < global_count; i++) free(globals[i].value);
}

static void names_what_is_wrong(void **state)
{
    (void)state;
    struct ptx_visitor visitor = {take_entry, take_global, NULL};
    assert_false(ptx_parse("no ptx at all", &visitor, problem, sizeof problem));
    assert_non_null(strstr(problem, "no .version"));
    assert_false(parse(".visible .entry k(.param .u32"));
    assert_false(parse(".visible .entry k(.reg .u32 x) { ret; }"));
    assert_non_null(strstr(problem, "line 4"));
    assert_false(parse(".visible .entry k() { ret;"));
    assert_false(parse(".global .u32 pointer = generic(other);"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lays_parameters_out),
        cmocka_unit_test(skips_functions),
        cmocka_unit_test(reads_globals),
        cmocka_unit_test(names_what_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
