/* The emulator: what it notices, and what it makes fail. */
#include "emu_fixture.h"

static CUstream stream_new(void)
{
    CUstream stream;
    assert_int_equal(cu.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0),
                     CUDA_SUCCESS);
    return stream;
}

static void finds_conflicts(void **state)
{
    (void)state;
    CUdeviceptr at;
    CUstream a = stream_new(), b = stream_new();
    assert_int_equal(cu.cuMemAlloc_v2(&at, 4096), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemsetD8Async(at, 1, 2048, a), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemsetD8Async(at + 2048, 1, 2048, b), CUDA_SUCCESS);
    emu_run_until_idle();
    assert_int_equal(emu_findings_count(), 0); /* beside each other */
    assert_int_equal(cu.cuMemsetD8Async(at, 1, 2049, a), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemsetD8Async(at + 2048, 1, 2048, b), CUDA_SUCCESS);
    emu_run_until_idle();
    assert_true(emu_findings().conflicts >= 1); /* one byte */
    assert_non_null(strstr(emu_findings().first, "conflict"));
    assert_non_null(strstr(emu_findings().first, "cuMemsetD8Async"));
}

static void order_is_no_conflict(void **state)
{
    (void)state;
    CUdeviceptr at, to;
    CUevent event;
    CUstream a = stream_new(), b = stream_new();
    assert_int_equal(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemAlloc_v2(&at, 4096), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemAlloc_v2(&to, 4096), CUDA_SUCCESS);
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(cu.cuMemsetD8Async(at, 1, 4096, a), CUDA_SUCCESS);
        assert_int_equal(cu.cuEventRecord(event, a), CUDA_SUCCESS);
        assert_int_equal(cu.cuStreamWaitEvent(b, event, 0), CUDA_SUCCESS);
        assert_int_equal(cu.cuMemcpyAsync(to, at, 4096, b), CUDA_SUCCESS);
        assert_int_equal(cu.cuEventRecord(event, b), CUDA_SUCCESS);
        assert_int_equal(cu.cuStreamWaitEvent(a, event, 0), CUDA_SUCCESS);
    }
    emu_run_until_idle();
    assert_int_equal(emu_findings_count(), 0);
}

/* Two mappings of one handle are the same bytes. */
static void finds_conflicts_through_aliases(void **state)
{
    (void)state;
    CUdeviceptr at;
    CUstream a = stream_new(), b = stream_new();
    CUmemGenericAllocationHandle h = make_handle(0, GRANULE);
    assert_int_equal(cu.cuMemAddressReserve(&at, 2 * GRANULE, 0, 0, 0), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemMap(at, GRANULE, 0, h, 0), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemMap(at + GRANULE, GRANULE, 0, h, 0), CUDA_SUCCESS);
    assert_int_equal(grant(at, 2 * GRANULE, 0), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemsetD8Async(at, 1, GRANULE, a), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemsetD8Async(at + GRANULE, 2, GRANULE, b), CUDA_SUCCESS);
    emu_run_until_idle();
    assert_true(emu_findings().conflicts >= 1);
}

static void a_fault_loses_the_context(void **state)
{
    (void)state;
    const int places[] = {0};
    CUdeviceptr at = make_mixed(places, 1);
    uint32_t count = 2000; /* 8000 bytes: past the end */
    void *params[] = {&at, &count};
    assert_int_equal(launch(fixture_function("add_one"), 8, NULL, params), CUDA_SUCCESS);
    assert_int_equal(cu.cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(cu.cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(cu.cuMemsetD8Async(at, 0, 1, NULL), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(emu_findings().faults, 1);
    assert_non_null(strstr(emu_findings().first, "add_one"));
    char wanted[32];
    snprintf(wanted, sizeof wanted, "0x%llx", (unsigned long long)at + GRANULE);
    assert_non_null(strstr(emu_findings().first, "where nothing is mapped"));
    drop_mixed(at, 1); /* mapping goes on */
    assert_int_equal(cu.cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
    assert_int_equal(cu.cuDevicePrimaryCtxRetain(&fixture_context, 0), CUDA_SUCCESS);
    assert_int_equal(cu.cuCtxSetCurrent(fixture_context), CUDA_SUCCESS);
    assert_int_equal(cu.cuCtxSynchronize(), CUDA_SUCCESS); /* a new one is whole */
}

static void another_cards_memory_needs_a_right(void **state)
{
    (void)state;
    const int places[] = {1};
    CUdeviceptr at = make_mixed(places, 1);
    uint32_t count = 16;
    void *params[] = {&at, &count};
    CUfunction add = fixture_function("add_one");
    assert_int_equal(launch(add, 1, NULL, params), CUDA_SUCCESS);
    assert_int_equal(cu.cuCtxSynchronize(), CUDA_SUCCESS);
    CUmemAccessDesc none = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_NONE};
    assert_int_equal(grant(at, GRANULE, 1), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemSetAccess(at, GRANULE, &none, 1), CUDA_SUCCESS);
    assert_int_equal(launch(add, 1, NULL, params), CUDA_SUCCESS);
    assert_int_equal(cu.cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_non_null(strstr(emu_findings().first, "no right"));
}

static void finds_unmaps_under_work(void **state)
{
    (void)state;
    const int places[] = {0};
    CUdeviceptr at = make_mixed(places, 1), to;
    CUstream a = stream_new();
    assert_int_equal(cu.cuMemAlloc_v2(&to, GRANULE), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemcpyAsync(to, at, GRANULE, a), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemUnmap(at, GRANULE), CUDA_SUCCESS);
    assert_int_equal(emu_findings().unmaps_in_use, 1);
    assert_non_null(strstr(emu_findings().first, "unmap in use"));
    assert_int_equal(cu.cuStreamSynchronize(a), CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void counts_what_was_left(void **state)
{
    (void)state;
    CUdeviceptr at;
    CUevent event;
    void *host;
    fixture_open(1, 1);
    CUmemGenericAllocationHandle h = make_handle(0, GRANULE);
    assert_int_equal(cu.cuMemAddressReserve(&at, GRANULE, 0, 0, 0), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemMap(at, GRANULE, 0, h, 0), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemAlloc_v2(&at, 100), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemHostAlloc(&host, 100, 0), CUDA_SUCCESS);
    assert_int_equal(cu.cuEventCreate(&event, 0), CUDA_SUCCESS);
    stream_new();
    emu_close();
    struct emu_findings found = emu_findings();
    assert_int_equal(found.lost_handles, 1);
    assert_int_equal(found.lost_mappings, 1);
    assert_int_equal(found.lost_reservations, 1);
    assert_int_equal(found.lost_allocations, 2);
    assert_int_equal(found.lost_events, 1);
    assert_int_equal(found.lost_streams, 1);
    fixture_open(1, 1);
    assert_int_equal(emu_findings_count(), 0);
    emu_close();
    assert_int_equal(emu_findings_count(), 0);
}

static void any_call_can_fail(void **state)
{
    (void)state;
    size_t count;
    const char *const *names = emu_call_names(&count);
    CUdeviceptr at;
    assert_true(count > 100);
    for (size_t i = 0; i < count; i++) assert_int_equal(emu_fail_call(names[i], 0, 0), VP_OK);
    assert_int_equal(emu_fail_call("cuNoSuchCall", 1, 2), VP_NOT_FOUND);
    uint64_t before = emu_call_count("cuMemAlloc_v2");
    assert_int_equal(emu_fail_call("cuMemAlloc_v2", 2, CUDA_ERROR_OUT_OF_MEMORY), VP_OK);
    assert_int_equal(cu.cuMemAlloc_v2(&at, 16), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemFree_v2(at), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemAlloc_v2(&at, 16), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(cu.cuMemAlloc_v2(&at, 16), CUDA_SUCCESS);
    assert_int_equal(emu_call_count("cuMemAlloc_v2"), before + 3);
    assert_int_equal(emu_fail_count("cuMemAlloc_v2"), 1);
}

static void a_lost_card_answers_no_more(void **state)
{
    (void)state;
    CUcontext other;
    CUdeviceptr at;
    assert_int_equal(cu.cuDevicePrimaryCtxRetain(&other, 1), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemAlloc_v2(&at, 4096), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemsetD8Async(at, 0, 4096, NULL), CUDA_SUCCESS);
    emu_lose_card(0);
    assert_int_equal(cu.cuCtxSynchronize(), CUDA_ERROR_UNKNOWN);
    assert_int_equal(cu.cuMemAlloc_v2(&at, 4096), CUDA_ERROR_UNKNOWN);
    assert_int_equal(cu.cuCtxSetCurrent(other), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemAlloc_v2(&at, 4096), CUDA_SUCCESS); /* the other one does */
}

static void the_memory_of_a_lost_card_is_gone(void **state)
{
    (void)state;
    CUcontext other;
    CUdeviceptr far, near;
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    size_t bytes = 0;
    assert_int_equal(cu.cuMemGetAllocationGranularity(&bytes, &prop, 0), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemAlloc_v2(&far, 4096), CUDA_SUCCESS);
    assert_int_equal(cu.cuDevicePrimaryCtxRetain(&other, 1), CUDA_SUCCESS);
    assert_int_equal(cu.cuCtxSetCurrent(other), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemAlloc_v2(&near, 4096), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemcpyAsync(near, far, 4096, NULL), CUDA_SUCCESS);
    assert_int_equal(cu.cuCtxSynchronize(), CUDA_SUCCESS);
    emu_lose_card(0);
    assert_int_equal(cu.cuMemCreate(&handle, bytes, &prop, 0), CUDA_ERROR_UNKNOWN);
    assert_int_equal(cu.cuMemcpyAsync(near, far, 4096, NULL), CUDA_SUCCESS);
    assert_int_equal(cu.cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(emu_findings().faults, 0); /* nothing that a correct program does not cause */
}

static void big_runs_need_no_data(void **state)
{
    (void)state;
    struct machine machine;
    CUdeviceptr at;
    uint32_t count = 1 << 20;
    void *params[] = {&at, &count};
    assert_int_equal(machine_from_name("h200", &machine), VP_OK);
    struct emu_options options = {.machine = &machine, .seed = 1};
    assert_int_equal(emu_kernel_register("add_one", add_one, NULL), VP_OK);
    assert_int_equal(emu_open(&options), VP_OK);
    emu_driver(&cu);
    assert_int_equal(cu.cuInit(0), CUDA_SUCCESS);
    assert_int_equal(cu.cuDevicePrimaryCtxRetain(&fixture_context, 0), CUDA_SUCCESS);
    assert_int_equal(cu.cuCtxSetCurrent(fixture_context), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemAlloc_v2(&at, UINT64_C(100) << 30), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemsetD8Async(at, 0, UINT64_C(100) << 30, NULL), CUDA_SUCCESS);
    assert_int_equal(launch(fixture_function("add_one"), count / 256, NULL, params), CUDA_SUCCESS);
    assert_int_equal(cu.cuCtxSynchronize(), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemFree_v2(at), CUDA_SUCCESS);
    assert_int_equal(emu_findings_count(), 0);
    emu_close();
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(finds_conflicts),
        TEST(order_is_no_conflict),
        TEST(finds_conflicts_through_aliases),
        TEST(a_fault_loses_the_context),
        TEST(another_cards_memory_needs_a_right),
        TEST(finds_unmaps_under_work),
        cmocka_unit_test(counts_what_was_left),
        TEST(any_call_can_fail),
        TEST(a_lost_card_answers_no_more),
        TEST(the_memory_of_a_lost_card_is_gone),
        cmocka_unit_test(big_runs_need_no_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
