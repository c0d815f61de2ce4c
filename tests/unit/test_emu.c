/* The emulator: memory and the virtual-memory rules. */
#include "emu_fixture.h"

#include "emu/abi_more.h"
#include "emu/calls.h"

/* clang-format off */
#define DECLARE(kind, variant, symbol, base, version, arguments, names) CUresult symbol arguments;
EMU_CALLS(DECLARE)
#undef DECLARE
/* clang-format on */

static void allocations_are_counted(void **state)
{
    (void)state;
    size_t free_bytes, total;
    CUdeviceptr a, b;
    assert_int_equal(cu.cuMemAlloc_v2(&a, 1000), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemGetInfo_v2(&free_bytes, &total), CUDA_SUCCESS);
    assert_int_equal(total, 1 << 20);
    assert_int_equal(free_bytes, (1 << 20) - GRANULE); /* small ones share a granule */
    assert_int_equal(cu.cuMemAlloc_v2(&b, 1 << 20), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(cu.cuMemAlloc_v2(&b, 0), CUDA_ERROR_INVALID_VALUE);
    assert_true(a >= EMU_ADDRESS_FIRST && a < EMU_ADDRESS_END);
    assert_int_equal(cu.cuMemFree_v2(a + 1), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.cuMemFree_v2(a), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemFree_v2(a), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.cuMemGetInfo_v2(&free_bytes, &total), CUDA_SUCCESS);
    assert_int_equal(free_bytes, total);
}

static void mapping_keeps_to_the_rules(void **state)
{
    (void)state;
    CUdeviceptr at;
    CUmemGenericAllocationHandle h = make_handle(0, 2 * GRANULE), h2 = make_handle(2, GRANULE);
    assert_int_equal(cu.cuMemAddressReserve(&at, 4 * GRANULE, 0, 0, 0), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemAddressReserve(&at, 4 * GRANULE + 1, 0, 0, 0),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.cuMemMap(at, GRANULE, GRANULE, h, 0), CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(cu.cuMemMap(at, GRANULE, 0, h, 0), CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(cu.cuMemMap(at + 3 * GRANULE, 2 * GRANULE, 0, h, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.cuMemMap(at, 2 * GRANULE, 0, h, 0), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemMap(at + GRANULE, GRANULE, 0, h2, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.cuMemMap(at + 2 * GRANULE, GRANULE, 0, h2, 0), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemMap(at + 3 * GRANULE, GRANULE, 0, h2, 0), CUDA_SUCCESS);
    assert_int_equal(grant(at, 4 * GRANULE, 0), CUDA_SUCCESS);
    assert_int_equal(grant(at, GRANULE, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.cuMemUnmap(at, GRANULE), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.cuMemAddressFree(at, 4 * GRANULE), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.cuMemRelease(h), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemRelease(h2), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemRelease(h2), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.cuMemUnmap(at, 3 * GRANULE), CUDA_SUCCESS);
    assert_int_equal(grant(at, 4 * GRANULE, 0), CUDA_ERROR_INVALID_VALUE); /* begins in a hole */
    assert_int_equal(emu_place(at + 3 * GRANULE), 2);
    assert_int_equal(cu.cuMemUnmap(at + 3 * GRANULE, GRANULE), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemAddressFree(at, 4 * GRANULE), CUDA_SUCCESS);
}

static void memory_lives_while_mapped(void **state)
{
    (void)state;
    size_t before, between, after, total;
    const int places[] = {0, 0};
    assert_int_equal(cu.cuMemGetInfo_v2(&before, &total), CUDA_SUCCESS);
    CUdeviceptr at = make_mixed(places, 2); /* its handles are released */
    assert_int_equal(cu.cuMemGetInfo_v2(&between, &total), CUDA_SUCCESS);
    drop_mixed(at, 2);
    assert_int_equal(cu.cuMemGetInfo_v2(&after, &total), CUDA_SUCCESS);
    assert_int_equal(before - between, 2 * GRANULE);
    assert_int_equal(before, after);
}

static void two_mappings_show_the_same_bytes(void **state)
{
    (void)state;
    CUdeviceptr at;
    uint32_t value = 0;
    CUmemGenericAllocationHandle h = make_handle(2, GRANULE);
    assert_int_equal(cu.cuMemAddressReserve(&at, 2 * GRANULE, 0, 0, 0), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemMap(at, GRANULE, 0, h, 0), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemMap(at + GRANULE, GRANULE, 0, h, 0), CUDA_SUCCESS);
    assert_int_equal(grant(at, 2 * GRANULE, 0), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemsetD8Async(at + 16, 0x5a, 4, NULL), CUDA_SUCCESS);
    emu_run_until_idle();
    assert_true(emu_peek(at + GRANULE + 16, &value, 4));
    assert_int_equal(value, 0x5a5a5a5a);
    assert_int_equal(cu.cuMemRelease(h), CUDA_SUCCESS);
    drop_mixed(at, 2);
    assert_int_equal(emu_findings_count(), 0);
}

static void fresh_memory_is_poisoned(void **state)
{
    (void)state;
    CUdeviceptr a;
    uint32_t words[4];
    assert_int_equal(cu.cuMemAlloc_v2(&a, sizeof words), CUDA_SUCCESS);
    assert_true(emu_peek(a, words, sizeof words));
    for (unsigned i = 0; i < 4; i++) assert_int_equal(words[i] >> 16, 0x7fc0);
    assert_int_equal(cu.cuMemFree_v2(a), CUDA_SUCCESS);
    assert_false(emu_peek(a, words, sizeof words));
}

static void kernels_work_over_mixed_places(void **state)
{
    (void)state;
    const int places[] = {0, 2, 1, 0};
    CUdeviceptr at = make_mixed(places, 4);
    uint32_t count = GRANULE, words[GRANULE]; /* 4096 words of 4 bytes: all four granules */
    CUfunction add = fixture_function("add_one");
    void *params[] = {&at, &count};
    for (unsigned i = 0; i < count; i++) words[i] = i;
    assert_true(emu_poke(at, words, sizeof words));
    assert_int_equal(launch(add, 16, NULL, params), CUDA_SUCCESS);
    assert_true(emu_peek(at, words, sizeof words));
    assert_int_equal(words[5], 5); /* not at the call */
    assert_int_equal(cu.cuCtxSynchronize(), CUDA_SUCCESS);
    assert_true(emu_peek(at, words, sizeof words));
    for (unsigned i = 0; i < count; i++) assert_int_equal(words[i], i + 1);
    drop_mixed(at, 4);
    assert_int_equal(emu_findings_count(), 0);
}

static void wrong_handles_are_errors(void **state)
{
    (void)state;
    assert_int_equal(cu.cuStreamSynchronize((CUstream)(uintptr_t)0x1234),
                     CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cu.cuEventQuery(NULL), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cu.cuMemRelease(99), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.cuCtxSetCurrent((CUcontext)(uintptr_t)77), CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(cu.cuMemcpyAsync(EMU_ADDRESS_FIRST + 5, EMU_ADDRESS_FIRST, 16, NULL),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.cuCtxSetCurrent(NULL), CUDA_SUCCESS);
    assert_int_equal(cu.cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
}

/* Every call with NULL and 0 for all of its arguments, which are passed in registers and on the
 * stack whatever their types: it may do what it likes but crash. */
static void nothing_given_is_no_crash(void **state)
{
    (void)state;
    typedef CUresult (*any_call)(long, long, long, long, long, long, long, long, long, long, long,
                                 long, long, long, long, long);
    static const struct {
        const char *name;
        any_call call;
    } calls[] = {
#define CALL(kind, variant, symbol, base, version, arguments, names)                               \
    {#symbol, (any_call)(void (*)(void))symbol},
        EMU_CALLS(CALL)
#undef CALL
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        fixture_open(i, 1);
        CUresult result = calls[i].call(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
        assert_true(result >= 0);
        emu_run_until_idle();
        emu_close();
    }
}

static void copies_reach_other_cards(void **state)
{
    (void)state;
    const int here[] = {0, 0}, there[] = {1, 1};
    CUdeviceptr a = make_mixed(here, 2), b = make_mixed(there, 2);
    uint32_t word = 0;
    assert_int_equal(cu.cuMemsetD8Async(a, 7, 2 * GRANULE, NULL), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemcpyAsync(b, a, 2 * GRANULE, NULL), CUDA_SUCCESS);
    emu_run_until_idle();
    assert_true(emu_peek(b + 2 * GRANULE - 4, &word, 4));
    assert_int_equal(word, 0x07070707);
    assert_int_equal(emu_place(a), 0);
    assert_int_equal(emu_place(b), 1);
    assert_int_equal(emu_findings_count(), 0);
    drop_mixed(a, 2);
    drop_mixed(b, 2);
}

static void memory_out_of_reach_cannot_be_opened(void **state)
{
    (void)state;
    struct machine machine = fixture_machine();
    machine.path[1][0].access = machine.path[0][1].access = false;
    struct emu_options options = {.machine = &machine, .carry_data = true};
    CUdeviceptr at;
    int can = 1;
    assert_int_equal(emu_open(&options), VP_OK);
    emu_driver(&cu);
    assert_int_equal(cu.cuInit(0), CUDA_SUCCESS);
    assert_int_equal(cu.cuDeviceCanAccessPeer(&can, 0, 1), CUDA_SUCCESS);
    assert_int_equal(can, 0);
    CUmemGenericAllocationHandle h = make_handle(1, GRANULE);
    assert_int_equal(cu.cuMemAddressReserve(&at, GRANULE, 0, 0, 0), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemMap(at, GRANULE, 0, h, 0), CUDA_SUCCESS);
    assert_int_equal(grant(at, GRANULE, 0), CUDA_ERROR_INVALID_DEVICE);
    assert_int_equal(grant(at, GRANULE, 1), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemRelease(h), CUDA_SUCCESS);
    drop_mixed(at, 1);
    emu_close();
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(allocations_are_counted),
        TEST(mapping_keeps_to_the_rules),
        TEST(memory_lives_while_mapped),
        TEST(two_mappings_show_the_same_bytes),
        TEST(fresh_memory_is_poisoned),
        TEST(kernels_work_over_mixed_places),
        TEST(wrong_handles_are_errors),
        TEST(copies_reach_other_cards),
        cmocka_unit_test(memory_out_of_reach_cannot_be_opened),
        cmocka_unit_test(nothing_given_is_no_crash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
