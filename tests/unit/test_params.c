/* What a launch may touch: layouts, the scan, tables. */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "params/params.h"

static const vp_addr base = UINT64_C(0x600000000000);
static const uint64_t bytes = UINT64_C(1) << 40;

/* ---- A driver that knows two functions ---- */

enum { POINTERS = 0x100, STRUCTURE = 0x200, HANDLE_ONLY = 0x300, UNKNOWN = 0x400 };
static unsigned asked, fail_times;

static CUresult func_info(CUfunction function, size_t index, size_t *offset, size_t *size)
{
    static const size_t sizes[] = {8, 8, 4};
    asked++;
    if (fail_times && fail_times--) return CUDA_ERROR_OUT_OF_MEMORY;
    switch ((uintptr_t)function) {
    case POINTERS:
        if (index >= 3) return CUDA_ERROR_INVALID_VALUE;
        *offset = 8 * index;
        *size = sizes[index];
        return CUDA_SUCCESS;
    case STRUCTURE:
        if (index >= 1) return CUDA_ERROR_INVALID_VALUE;
        *offset = 0;
        *size = 28;
        return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_HANDLE;
    }
}

/* Kernel handles are another kind: the driver refuses functions. */
static CUresult kernel_info(CUkernel kernel, size_t index, size_t *offset, size_t *size)
{
    asked++;
    if ((uintptr_t)kernel != HANDLE_ONLY) return CUDA_ERROR_INVALID_HANDLE;
    if (index >= 1) return CUDA_ERROR_INVALID_VALUE;
    *offset = 0;
    *size = 8;
    return CUDA_SUCCESS;
}

static CUresult func_name(const char **name, CUfunction function)
{
    if ((uintptr_t)function != POINTERS) return CUDA_ERROR_INVALID_HANDLE;
    *name = "pointers";
    return CUDA_SUCCESS;
}

static struct driver driver = {.cuFuncGetParamInfo = func_info,
                               .cuKernelGetParamInfo = kernel_info,
                               .cuFuncGetName = func_name};
static struct params *params;
static struct space space;
static struct order order;
static struct segments segments;

static int begin(void **state)
{
    params = malloc(sizeof *params);
    params_create(params, &driver);
    asked = fail_times = 0;
    assert_int_equal(space_create(&space, base, UINT64_C(1) << 30, 4096), VP_OK);
    order_create(&order);
    segments_create(&segments, &space, &order, 4);
    return 0;
}

static int end(void **state)
{
    list_each(node, &segments.all) table_clear(list_entry(node, struct segment, all));
    segments_destroy(&segments);
    order_destroy(&order);
    space_destroy(&space);
    params_destroy(params);
    free(params);
    return 0;
}

static struct param_function *find(uintptr_t handle)
{
    struct param_function *function = params_find(params, (void *)handle);
    assert_non_null(function);
    return function;
}

static void layouts_are_asked_for_once(void **state)
{
    struct param_function *function = find(POINTERS);
    assert_true(function->layout_known);
    assert_int_equal(function->count, 3);
    assert_int_equal(function->pieces[2].offset, 16);
    assert_int_equal(function->pieces[2].bytes, 4);
    assert_string_equal(function->name, "pointers");
    assert_int_equal(function->probation, PARAMS_PROBATION);
    unsigned before = asked;
    assert_ptr_equal(find(POINTERS), function);
    assert_int_equal(asked, before);
}

static void kernel_handles_have_layouts_too(void **state)
{
    struct param_function *function = find(HANDLE_ONLY);
    assert_true(function->layout_known);
    assert_int_equal(function->count, 1);
    assert_string_equal(function->name, "unnamed_kernel");
}

static void one_failure_is_not_an_answer(void **state)
{
    fail_times = 3;
    struct param_function *function = find(POINTERS);
    assert_true(function->layout_known);
    assert_int_equal(function->count, 3);
}

static void what_the_driver_does_not_say_is_not_known(void **state)
{
    assert_false(find(UNKNOWN)->layout_known);
    fail_times = 1000;
    assert_false(find(STRUCTURE)->layout_known);
}

static void forgotten_functions_are_asked_about_again(void **state)
{
    struct param_function *function = find(POINTERS);
    function->probation = 0;
    params_forget(params);
    struct param_function *again = find(POINTERS);
    assert_ptr_not_equal(again, function);
    assert_int_equal(again->probation, PARAMS_PROBATION);
    assert_string_equal(function->name, "pointers"); /* who still looks at it may */
}

static void many_functions_are_kept_apart(void **state)
{
    static struct param_function *found[3000];
    for (uintptr_t i = 0; i < 3000; i++) found[i] = find(0x10000 + 16 * i);
    for (uintptr_t i = 0; i < 3000; i++) {
        assert_ptr_equal(find(0x10000 + 16 * i), found[i]);
        assert_ptr_equal(found[i]->handle, (void *)(0x10000 + 16 * i));
    }
}

/* ---- The scan ---- */

static void pointers_among_parameters_are_found(void **state)
{
    vp_addr first = base + 5, second = base - 1, words[4];
    uint32_t number = 7;
    void *values[] = {&first, &second, &number};
    assert_int_equal(params_scan(find(POINTERS), values, NULL, base, bytes, words, 4), 1);
    assert_int_equal(words[0], base + 5);
    second = base + bytes - 1;
    assert_int_equal(params_scan(find(POINTERS), values, NULL, base, bytes, words, 4), 2);
    assert_int_equal(words[1], second);
    second = base + bytes;
    assert_int_equal(params_scan(find(POINTERS), values, NULL, base, bytes, words, 4), 1);
    values[0] = NULL;
    assert_int_equal(params_scan(find(POINTERS), values, NULL, base, bytes, words, 4), 0);
}

/* At any step of four bytes inside of a structure passed by value. */
static void pointers_inside_structures_are_found(void **state)
{
    for (unsigned at = 0; at <= 20; at += 4) {
        char structure[28] = {0};
        void *values[] = {structure};
        vp_addr pointer = base + 0x12345, words[8];
        memcpy(structure + at, &pointer, sizeof pointer);
        assert_int_equal(params_scan(find(STRUCTURE), values, NULL, base, bytes, words, 8), 1);
        assert_int_equal(words[0], pointer);
    }
}

static void the_buffer_of_a_launch_is_scanned_whole(void **state)
{
    struct {
        uint32_t pad;
        uint32_t words[5];
    } buffer = {0};
    size_t size = sizeof buffer;
    vp_addr pointer = base + 64, words[4];
    memcpy(&buffer.words[2], &pointer, sizeof pointer);
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer,
                     CU_LAUNCH_PARAM_END};
    assert_int_equal(params_scan(find(UNKNOWN), NULL, extra, base, bytes, words, 4), 1);
    assert_int_equal(words[0], pointer);
    size = 12; /* the pointer lies behind */
    assert_int_equal(params_scan(find(UNKNOWN), NULL, extra, base, bytes, words, 4), 0);
    void *empty[] = {CU_LAUNCH_PARAM_END};
    assert_int_equal(params_scan(find(UNKNOWN), NULL, empty, base, bytes, words, 4), 0);
    assert_int_equal(params_scan(find(UNKNOWN), NULL, NULL, base, bytes, words, 4), 0);
}

static void more_words_than_fit_are_counted(void **state)
{
    vp_addr memory[10], words[4] = {0};
    for (unsigned i = 0; i < 10; i++) memory[i] = base + i;
    assert_int_equal(params_scan_memory(memory, sizeof memory, 8, base, bytes, words, 4), 10);
    for (unsigned i = 0; i < 4; i++) assert_int_equal(words[i], base + i);
    assert_int_equal(params_scan_memory(memory, 79, 8, base, bytes, words, 4), 9);
    assert_int_equal(params_scan_memory(memory, 7, 8, base, bytes, words, 4), 0);
}

/* ---- Tables ---- */

static struct segment *take(void)
{
    struct segment *segment;
    assert_int_equal(segment_take(&segments, 0, 100000, &segment), VP_OK);
    return segment;
}

static void tables_know_what_they_point_to(void **state)
{
    struct segment *holder = take(), *one = take(), *other = take();
    vp_addr memory[] = {3, one->base + 8, base - 8, other->base + 99999, 0};
    assert_null(holder->table);
    assert_int_equal(table_learn(&segments, holder, memory, sizeof memory), TABLE_NEW);
    assert_int_equal(holder->table->count, 2);
    assert_ptr_equal(holder->table->to[0].segment, one);
    assert_int_equal(table_learn(&segments, holder, memory, sizeof memory), 0); /* known */
    memory[0] = holder->base; /* its own segment may hold other blocks too */
    assert_int_equal(table_learn(&segments, holder, memory, sizeof memory), TABLE_NEW);
    table_clear(holder);
    assert_null(holder->table);
}

static void stale_addresses_are_told_from_new_ones(void **state)
{
    struct segment *holder = take(), *gone = take();
    vp_addr memory[] = {gone->base};
    segment_rest(&segments, gone);
    assert_int_equal(table_learn(&segments, holder, memory, sizeof memory), TABLE_STALE);
    assert_null(holder->table);
    memory[0] = base + (512 << 20); /* nothing ever lived there: it is any number */
    assert_int_equal(table_learn(&segments, holder, memory, sizeof memory), 0);
}

static void a_target_that_comes_back_is_new(void **state)
{
    struct segment *holder = take(), *target = take();
    vp_addr memory[] = {target->base};
    table_learn(&segments, holder, memory, sizeof memory);
    segment_rest(&segments, target);
    assert_ptr_equal(take(), target);
    assert_int_equal(table_learn(&segments, holder, memory, sizeof memory), TABLE_NEW);
    assert_int_equal(holder->table->count, 1);
    assert_int_equal(holder->table->to[0].generation, target->generation);
}

static void a_table_with_too_much_in_it_is_full(void **state)
{
    struct segment *holder = take();
    static vp_addr memory[TABLE_TARGETS + 1];
    for (unsigned i = 0; i <= TABLE_TARGETS; i++) memory[i] = take()->base;
    table_learn(&segments, holder, memory, sizeof memory - sizeof *memory);
    assert_false(holder->table->full);
    assert_int_equal(table_learn(&segments, holder, memory, sizeof memory), TABLE_NEW);
    assert_true(holder->table->full);
}

static void the_dead_make_room_in_a_table(void **state)
{
    struct segment *holder = take(), *gone = take(), *other = take();
    static vp_addr memory[TABLE_TARGETS];
    for (unsigned i = 0; i < TABLE_TARGETS; i++) memory[i] = i ? take()->base : gone->base;
    table_learn(&segments, holder, memory, sizeof memory);
    segment_rest(&segments, gone);
    memory[0] = other->base;
    assert_int_equal(table_learn(&segments, holder, memory, sizeof memory), TABLE_NEW);
    assert_int_equal(holder->table->count, TABLE_TARGETS);
    assert_ptr_equal(holder->table->to[0].segment, other);
    assert_false(holder->table->full);
}

/* In a program whose blocks are segments, written anew for each. */
static void a_table_of_one_address_at_a_time_does_not_fill(void **state)
{
    struct segment *holder = take();
    static struct segment *all[TABLE_TARGETS + 8];
    for (unsigned i = 0; i < TABLE_TARGETS + 8; i++) all[i] = take();
    for (unsigned i = 0; i < TABLE_TARGETS + 8; i++) {
        vp_addr memory[] = {all[i]->base};
        table_learn(&segments, holder, memory, sizeof memory);
        segment_rest(&segments, all[i]);
        assert_ptr_equal(take(), all[i]);
    }
    assert_int_equal(holder->table->count, 1);
}

static void copies_point_to_the_same(void **state)
{
    struct segment *holder = take(), *copy = take(), *one = take(), *gone = take();
    vp_addr memory[] = {one->base, gone->base};
    table_learn(&segments, holder, memory, sizeof memory);
    segment_rest(&segments, gone);
    assert_true(table_copy(copy, holder->table));
    assert_int_equal(copy->table->count, 2); /* what comes to that address is pointed to as well */
    assert_ptr_equal(copy->table->to[0].segment, one);
    assert_ptr_equal(copy->table->to[1].segment, gone);
    assert_false(table_copy(copy, holder->table)); /* nothing more */
    table_fill(holder);
    assert_true(table_copy(copy, holder->table));
    assert_true(copy->table->full);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(layouts_are_asked_for_once),
        CASE(kernel_handles_have_layouts_too),
        CASE(one_failure_is_not_an_answer),
        CASE(what_the_driver_does_not_say_is_not_known),
        CASE(forgotten_functions_are_asked_about_again),
        CASE(many_functions_are_kept_apart),
        CASE(pointers_among_parameters_are_found),
        CASE(pointers_inside_structures_are_found),
        CASE(the_buffer_of_a_launch_is_scanned_whole),
        CASE(more_words_than_fit_are_counted),
        CASE(tables_know_what_they_point_to),
        CASE(stale_addresses_are_told_from_new_ones),
        CASE(a_target_that_comes_back_is_new),
        CASE(a_table_with_too_much_in_it_is_full),
        CASE(the_dead_make_room_in_a_table),
        CASE(a_table_of_one_address_at_a_time_does_not_fill),
        CASE(copies_point_to_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
