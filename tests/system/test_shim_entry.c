/* cuGetProcAddress hands out the wrapper of exactly the function that the driver found, for the
 * version and the kind of default stream asked for. */
#include "shim/harness.h"

#define DEFAULT    0
#define PER_THREAD CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM

static void *ask(const char *name, int version, uint64_t flags)
{
    void *function = (void *)1;
    int found = -1;
    CUresult result = CALL(cuGetProcAddress_v2, (const char *, void **, int, uint64_t, int *),
                           (name, &function, version, flags, &found));
    assert_int_equal(result, CUDA_SUCCESS);
    assert_int_equal(found,
                     function ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    return function;
}

/* The function is a wrapper that ends in the driver's `symbol`, on default stream `stream`. */
static void check_launch(void *function, const char *symbol, const char *log)
{
    assert_ptr_not_equal(function, real_function(symbol));
    CUresult (*launch)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                       unsigned, CUstream, void **, void **) =
        (CUresult(*)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                     unsigned, CUstream, void **, void **))function;
    assert_int_equal(launch((CUfunction)0xf1, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), CUDA_SUCCESS);
    assert_string_equal(last_name(), symbol);
    check_log(log);
}

static void the_default_stream_chooses_the_form(void **state)
{
    check_launch(ask("cuLaunchKernel", 12000, DEFAULT), "cuLaunchKernel",
                 "kernel stream=0 cuLaunchKernel params:f1:0:0 enter leave:0 ");
    check_launch(ask("cuLaunchKernel", 12000, PER_THREAD), "cuLaunchKernel_ptsz",
                 "kernel stream=2 cuLaunchKernel_ptsz params:f1:0:0 enter leave:0 ");
    check_launch(ask("cuLaunchKernel", 12000, CU_GET_PROC_ADDRESS_LEGACY_STREAM), "cuLaunchKernel",
                 "kernel stream=0 cuLaunchKernel params:f1:0:0 enter leave:0 ");
}

static void check_copy(void *function, const char *symbol, const char *log)
{
    CUresult (*copy)(CUdeviceptr, CUdeviceptr, size_t, CUstream) =
        (CUresult(*)(CUdeviceptr, CUdeviceptr, size_t, CUstream))function;
    assert_int_equal(copy(FAKE_FIRST, FAKE_FIRST + 64, 8, NULL), CUDA_SUCCESS);
    assert_string_equal(last_name(), symbol);
    check_log(log);
}

static void versions_choose_the_form(void **state)
{
    check_copy(ask("cuMemcpyDtoDAsync", 12000, DEFAULT), "cuMemcpyDtoDAsync_v2",
               "copy stream=0 cuMemcpyDtoDAsync_v2 touch:P+0:8 touch:P+40:8 enter leave:0 ");
    check_copy(ask("cuMemcpyDtoDAsync", 12000, PER_THREAD), "cuMemcpyDtoDAsync_v2_ptsz",
               "copy stream=2 cuMemcpyDtoDAsync_v2_ptsz touch:P+0:8 touch:P+40:8 enter leave:0 ");
    check_copy(ask("cuMemcpyDtoD", 12000, PER_THREAD), "cuMemcpyDtoD_v2_ptds",
               "copy stream=2 cuMemcpyDtoD_v2_ptds touch:P+0:8 touch:P+40:8 enter leave:0 ");
    /* before CUDA 3.2 it is another function, with addresses of 32 bits: the driver's own */
    assert_ptr_equal(ask("cuMemcpyDtoDAsync", 3000, DEFAULT), real_function("cuMemcpyDtoDAsync"));
    assert_ptr_equal(ask("cuMemAlloc", 3000, DEFAULT), real_function("cuMemAlloc"));
    assert_ptr_not_equal(ask("cuMemAlloc", 3020, DEFAULT), real_function("cuMemAlloc_v2"));
}

/* This driver answers with a form that by the versions of real drivers it should not know yet: what
 * it gives is what counts. */
static void the_answer_goes_before_the_version(void **state)
{
    CUresult (*advise)(CUdeviceptr, size_t, int, CUmemLocation) =
        (CUresult(*)(CUdeviceptr, size_t, int, CUmemLocation))ask("cuMemAdvise", 8000, DEFAULT);
    assert_ptr_not_equal(advise, real_function("cuMemAdvise_v2"));
    assert_int_equal(advise(8, 8, 1, (CUmemLocation){0}), CUDA_SUCCESS);
    assert_string_equal(last_name(), "cuMemAdvise_v2");
}

static void what_is_not_wrapped_is_the_drivers(void **state)
{
    assert_ptr_equal(ask("cuEventQuery", 12000, DEFAULT), real_function("cuEventQuery"));
    assert_ptr_equal(ask("cuEventRecord", 12000, PER_THREAD), real_function("cuEventRecord_ptsz"));
    assert_null(ask("cuNoSuchCall", 12000, DEFAULT));
    assert_null(ask("", 12000, DEFAULT));
}

/* The runtime asks for cuGetProcAddress itself, by cuGetProcAddress or dlsym. */
static void it_answers_for_itself(void **state)
{
    CUresult (*again)(const char *, void **, int, uint64_t, int *) =
        (CUresult(*)(const char *, void **, int, uint64_t, int *))ask("cuGetProcAddress", 12000,
                                                                      DEFAULT);
    void *function = NULL;
    int found;
    assert_int_equal(again("cuLaunchKernel", &function, 12000, PER_THREAD, &found), CUDA_SUCCESS);
    check_launch(function, "cuLaunchKernel_ptsz",
                 "kernel stream=2 cuLaunchKernel_ptsz params:f1:0:0 enter leave:0 ");
    assert_int_equal(CALL(cuGetProcAddress, (const char *, void **, int, uint64_t),
                          ("cuLaunchKernel", &function, 11030, DEFAULT)),
                     CUDA_SUCCESS);
    check_launch(function, "cuLaunchKernel",
                 "kernel stream=0 cuLaunchKernel params:f1:0:0 enter leave:0 ");
    function = (void *)5;
    assert_int_equal(CALL(cuGetProcAddress, (const char *, void **, int, uint64_t),
                          ("cuNoSuchCall", &function, 11030, DEFAULT)),
                     CUDA_ERROR_NOT_FOUND);
    assert_null(function);
}

/* A driver whose answers are not among its exported functions. */
static void unknown_functions_are_told_by_version(void **state)
{
    the_recorder()->foreign = 1;
    void *foreign = ask("cuEventQuery", 12000, DEFAULT);
    check_launch(ask("cuLaunchKernel", 12000, DEFAULT), "cuLaunchKernel",
                 "kernel stream=0 cuLaunchKernel params:f1:0:0 enter leave:0 ");
    check_launch(ask("cuLaunchKernel", 12000, PER_THREAD), "cuLaunchKernel_ptsz",
                 "kernel stream=2 cuLaunchKernel_ptsz params:f1:0:0 enter leave:0 ");
    check_copy(ask("cuMemcpyDtoD", 12000, PER_THREAD), "cuMemcpyDtoD_v2_ptds",
               "copy stream=2 cuMemcpyDtoD_v2_ptds touch:P+0:8 touch:P+40:8 enter leave:0 ");
    assert_ptr_equal(ask("cuMemAlloc", 3000, DEFAULT), foreign);
    assert_ptr_not_equal(ask("cuMemAlloc", 3020, DEFAULT), foreign);
    void *old = ask("cuMemAdvise", 12010, DEFAULT), *new = ask("cuMemAdvise", 12020, DEFAULT);
    assert_ptr_not_equal(old, foreign);
    assert_ptr_not_equal(new, foreign);
    assert_ptr_not_equal(old, new);
    /* newer than what is known: its arguments may be others, so that it is left alone */
    assert_ptr_equal(ask("cuLaunchKernel", 99000, DEFAULT), foreign);
    the_recorder()->foreign = 0;
}

/* A driver newer than this list of functions may have more that change a thread's context. */
static void after_unknown_functions_the_context_is_asked_for(void **state)
{
    struct recorder *real = the_recorder();
    CUcontext context = NULL;
    real->context = (void *)0xc0;
    assert_int_equal(CALL(cuCtxSetCurrent, (CUcontext), ((CUcontext)0xc0)), CUDA_SUCCESS);
    assert_int_equal(fake_pool()->driver->cuCtxGetCurrent(&context), CUDA_SUCCESS);
    real->context = (void *)0xc1;
    assert_int_equal(fake_pool()->driver->cuCtxGetCurrent(&context), CUDA_SUCCESS);
    assert_ptr_equal(context, (void *)0xc0);
    real->foreign = 1;
    assert_non_null(ask("cuCtxGetApiVersion", 12000, DEFAULT));
    real->foreign = 0;
    assert_int_equal(fake_pool()->driver->cuCtxGetCurrent(&context), CUDA_SUCCESS);
    assert_ptr_equal(context, (void *)0xc1);
}

static int start(void **state)
{
    start_program();
    return 0;
}

int main(void)
{
    setenv("VRAMPOOL_LOG", "quiet", 1); /* refusals are part of these tests */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_default_stream_chooses_the_form),
        cmocka_unit_test(versions_choose_the_form),
        cmocka_unit_test(the_answer_goes_before_the_version),
        cmocka_unit_test(what_is_not_wrapped_is_the_drivers),
        cmocka_unit_test(it_answers_for_itself),
        cmocka_unit_test(unknown_functions_are_told_by_version),
        cmocka_unit_test(after_unknown_functions_the_context_is_asked_for), /* for good: last */
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
