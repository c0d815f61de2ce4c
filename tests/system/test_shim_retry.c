/* Which driver calls are made once more when they fail for memory, and what the pool is asked to
 * give for them. */
#include "shim/harness.h"

#include <string.h>

#include "shim/abi.h"

/* The call fails so often; then it succeeds. */
#define FAILING(times, symbol, types, args)                                                        \
    do {                                                                                           \
        the_recorder()->fail_symbol = (int)SHIM_##symbol;                                          \
        the_recorder()->fail_result = CUDA_ERROR_OUT_OF_MEMORY;                                    \
        the_recorder()->fail_times = times;                                                        \
        CUresult result_ = CALL(symbol, types, args);                                              \
        the_recorder()->fail_symbol = -1;                                                          \
        assert_int_equal(result_, times > 1 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS);            \
    } while (0)

#define CHECK(log, symbol, types, args)                                                            \
    do {                                                                                           \
        FAILING(1, symbol, types, args);                                                           \
        check_log(log " helped:0 ");                                                               \
        FAILING(2, symbol, types, args);                                                           \
        check_log(log " in-vain:0 ");                                                              \
    } while (0)

static void what_takes_memory_of_the_card(void **state)
{
    uint64_t out[4];
    CUmemAllocationProp prop;
    memset(&prop, 0, sizeof prop);
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
#define TYPES1        (void *, const void *)
#define TYPES2        (void *, unsigned)
#define LIBRARY_TYPES (void *, const void *, int *, void **, unsigned, int *, void **, unsigned)
    CHECK("relieve:0:0", cuModuleLoad, TYPES1, (out, "x"));
    CHECK("relieve:0:0", cuModuleLoadData, TYPES1, (out, "x"));
    CHECK("relieve:0:0", cuModuleLoadDataEx, (void *, const void *, unsigned, int *, void **),
          (out, "x", 0, NULL, NULL));
    CHECK("relieve:0:0", cuModuleLoadFatBinary, TYPES1, (out, "x"));
    CHECK("relieve:0:0", cuModuleGetFunction, (void *, void *, const char *), (out, out, "f"));
    CHECK("relieve:0:0", cuLibraryLoadData, LIBRARY_TYPES,
          (out, "x", NULL, NULL, 0, NULL, NULL, 0));
    CHECK("relieve:0:0", cuLibraryLoadFromFile, LIBRARY_TYPES,
          (out, "x", NULL, NULL, 0, NULL, NULL, 0));
    CHECK("relieve:0:0", cuLibraryGetModule, TYPES1, (out, out));
    CHECK("relieve:0:0", cuKernelGetFunction, TYPES1, (out, out));
    CHECK("relieve:0:0", cuFuncLoad, (void *), (out));
    CHECK("relieve:0:0", cuCtxCreate_v2, (void *, unsigned, CUdevice), (out, 0, 0));
    CHECK("relieve:0:0", cuCtxCreate_v4, (void *, void *, unsigned, CUdevice), (out, NULL, 0, 0));
    CHECK("relieve:0:0", cuDevicePrimaryCtxRetain, (void *, CUdevice), (out, 0));
    CHECK("relieve:0:0", cuCtxSetLimit, (int, size_t), (0, 1 << 20));
    CHECK("relieve:0:0", cuStreamCreate, TYPES2, (out, 1));
    CHECK("relieve:0:0", cuStreamCreateWithPriority, (void *, unsigned, int), (out, 1, 0));
    CHECK("relieve:0:0", cuEventCreate, TYPES2, (out, 1));
    CHECK("relieve:0:0", cuGraphUpload_ptsz, (void *, CUstream), (out, NULL));
    CHECK("relieve:0:2000", cuMemAllocAsync, (void *, size_t, CUstream), (out, 0x2000, NULL));
    CHECK("relieve:0:2000", cuMemAllocAsync_ptsz, (void *, size_t, CUstream), (out, 0x2000, NULL));
    CHECK("relieve:0:2000", cuMemAllocFromPoolAsync, (void *, size_t, void *, CUstream),
          (out, 0x2000, out, NULL));
    CHECK("relieve:0:2000", cuMemAllocManaged, (void *, size_t, unsigned), (out, 0x2000, 1));
    CHECK("relieve:0:400000", cuMemCreate, (void *, size_t, const void *, unsigned long long),
          (out, 4 << 20, &prop, 0));
}

static void arrays_are_as_large_as_they_are_described(void **state)
{
    uint64_t out;
    struct abi_array flat = {100, 0, ABI_FORMAT_HALF, 4};
    struct abi_array3 deep = {64, 32, 3, 0x20, 2, 0};
#define ARRAY_TYPES (void *, const void *)
    CHECK("relieve:0:320", cuArrayCreate_v2, ARRAY_TYPES, (&out, &flat));
    flat = (struct abi_array){100, 16, ABI_FORMAT_UINT8, 1};
    CHECK("relieve:0:640", cuArrayCreate_v2, ARRAY_TYPES, (&out, &flat));
    CHECK("relieve:0:c000", cuArray3DCreate_v2, ARRAY_TYPES, (&out, &deep));
    CHECK("relieve:0:10000", cuMipmappedArrayCreate, (void *, const void *, unsigned),
          (&out, &deep, 3));
}

static void host_memory_is_looked_for_in_both_places(void **state)
{
    void *out;
    CUmemAllocationProp prop;
    memset(&prop, 0, sizeof prop);
    prop.location.type = CU_MEM_LOCATION_TYPE_HOST;
    FAILING(1, cuMemHostAlloc, (void **, size_t, unsigned), (&out, 0x2000, 0));
    check_log("relieve:0:0 relieve:-1:2000 helped:0 helped:-1 ");
    FAILING(2, cuMemAllocHost_v2, (void **, size_t), (&out, 0x2000));
    check_log("relieve:0:0 relieve:-1:2000 in-vain:0 in-vain:-1 ");
    FAILING(1, cuMemHostRegister_v2, (void *, size_t, unsigned), (&out, 8, 0));
    check_log("relieve:0:0 relieve:-1:8 helped:0 helped:-1 ");
    FAILING(1, cuMemCreate, (void *, size_t, const void *, unsigned long long),
            (&out, 4 << 20, &prop, 0));
    check_log("relieve:0:0 relieve:-1:400000 helped:0 helped:-1 ");
}

/* The whole operation is done again: while it is under way, what it touches cannot leave. */
static void operations_are_begun_anew(void **state)
{
#define LAUNCH_TYPES                                                                               \
    (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream,       \
     void **, void **)
#define LAUNCH_ARGS ((void *)0xf1, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL)
#define LAUNCH_LOG  "kernel stream=0 cuLaunchKernel params:f1:0:0 enter leave:"
    FAILING(1, cuLaunchKernel, LAUNCH_TYPES, LAUNCH_ARGS);
    check_log(LAUNCH_LOG "2 relieve:0:0 " LAUNCH_LOG "0 helped:0 ");
    FAILING(2, cuLaunchKernel, LAUNCH_TYPES, LAUNCH_ARGS);
    check_log(LAUNCH_LOG "2 relieve:0:0 " LAUNCH_LOG "2 in-vain:0 ");
    /* The pool's own refusal is no lack of the driver's. */
    fake_pool()->enter_result = CUDA_ERROR_OUT_OF_MEMORY;
    assert_int_equal(CALL(cuLaunchKernel, LAUNCH_TYPES, LAUNCH_ARGS), CUDA_ERROR_OUT_OF_MEMORY);
    fake_pool()->enter_result = CUDA_SUCCESS;
    check_log(LAUNCH_LOG "2 ");
}

static void executables_are_made_again(void **state)
{
    uint64_t exec = 0xe1;
    FAILING(2, cuGraphInstantiateWithFlags, (void *, void *, unsigned long long),
            (&exec, (void *)0x91, 0));
    check_log("keep-copies:call:91 relieve:0:0 in-vain:0 keep-ends:call ");
}

static void where_there_is_nothing_to_give_it_is_made_once(void **state)
{
    uint64_t out;
    fake_pool()->nothing_to_give = true;
    unsigned calls = the_recorder()->calls;
    FAILING(2, cuEventCreate, (void *, unsigned), (&out, 0));
    check_log("relieve:0:0 ");
    assert_int_equal(the_recorder()->calls, calls + 2); /* and one question for the card */
    fake_pool()->nothing_to_give = false;
}

static void other_errors_are_left_alone(void **state)
{
    uint64_t out;
    the_recorder()->fail_symbol = (int)SHIM_cuMemCreate;
    the_recorder()->fail_result = CUDA_ERROR_INVALID_VALUE;
    the_recorder()->fail_times = 0;
    /* Nothing that the program gave is looked at. */
    assert_int_equal(CALL(cuMemCreate, (void *, size_t, const void *, unsigned long long),
                          (&out, 1, (void *)1, 0)),
                     CUDA_ERROR_INVALID_VALUE);
    the_recorder()->fail_symbol = -1;
    check_log("");
}

static int start(void **state)
{
    start_program();
    return 0;
}

int main(void)
{
    setenv("VRAMPOOL_LOG", "quiet", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_takes_memory_of_the_card),
        cmocka_unit_test(arrays_are_as_large_as_they_are_described),
        cmocka_unit_test(host_memory_is_looked_for_in_both_places),
        cmocka_unit_test(operations_are_begun_anew),
        cmocka_unit_test(executables_are_made_again),
        cmocka_unit_test(where_there_is_nothing_to_give_it_is_made_once),
        cmocka_unit_test(other_errors_are_left_alone),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
