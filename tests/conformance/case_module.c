/* cuGetProcAddress, modules, functions and launches. */
#include "suite.h"

#include <dlfcn.h>

typedef CUresult (*alloc_function)(CUdeviceptr *, size_t);

/* Asks as libraries do; *found is what was said of it. */
static const char *ask(const char *name, int version, uint64_t flags, void **function, int *found)
{
    *function = NULL;
    *found = -1;
    CUresult result = cu.cuGetProcAddress_v2(name, function, version, flags, found);
    if (*found == CU_GET_PROC_ADDRESS_SUCCESS) {
        CHECK(result == CUDA_SUCCESS && *function);
        return NULL;
    }
    CHECK(!*function);
    note("%s for %d: not found, result %d, status %d", name, version, result, *found);
    return NULL;
}

const char *case_proc_address(void)
{
    void *old, *new, *plain, *per_thread, *none;
    int found;
    CUdeviceptr at;
    DO(ask("cuMemAlloc", 13000, 0, &new, &found));
    CHECK(found == CU_GET_PROC_ADDRESS_SUCCESS);
    OK(((alloc_function) new)(&at, 16)); /* the 64-bit form */
    OK(cu.cuMemFree_v2(at));
    DO(ask("cuMemcpyAsync", 12000, CU_GET_PROC_ADDRESS_DEFAULT, &plain, &found));
    DO(ask("cuMemcpyAsync", 12000, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &old, &found));
    DO(ask("cuMemcpyAsync", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &per_thread,
           &found));
    CHECK(plain && old && per_thread);
    CHECK(plain == old && plain != per_thread);
    /* A call without a stream has no such variant: the flag changes nothing. */
    DO(ask("cuMemAlloc", 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &per_thread,
           &found));
    CHECK(per_thread == new);
    DO(ask("cuNoSuchCall", 13000, 0, &none, &found));
    CHECK(found == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    DO(ask("cuMemAlloc_v2", 13000, 0, &none, &found)); /* names carry no version */
    CHECK(found == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    DO(ask("cuMemCreate", 9000, 0, &none, &found)); /* came with 10.2 */
    CHECK(found == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    DO(ask("cuCtxCreate", 11040, 0, &old, &found));
    CHECK(found == CU_GET_PROC_ADDRESS_SUCCESS);
    DO(ask("cuCtxCreate", 4000, 0, &new, &found)); /* another form */
    CHECK(found == CU_GET_PROC_ADDRESS_SUCCESS && old != new);
    DO(ask("cuGetProcAddress", 12000, 0, &new, &found));
    CHECK(found == CU_GET_PROC_ADDRESS_SUCCESS);
    if (!suite.library) return NULL;
    DO(ask("cuMemAlloc", 13000, 0, &new, &found));
    note("cuMemAlloc is %s as from dlsym",
         new == dlsym(suite.library, "cuMemAlloc_v2") ? "the same" : "not the same");
    return NULL;
}

const char *case_param_info(void)
{
    static const size_t offsets[] = {0, 2, 4, 8, 16, 40}, sizes[] = {1, 2, 4, 8, 24, 4};
    CUfunction function;
    size_t offset, bytes;
    const char *name = NULL;
    if (!cu.cuFuncGetParamInfo) SKIP("the driver is older than CUDA 12.4");
    OK(cu.cuModuleGetFunction(&function, suite.module, "many_params"));
    for (size_t i = 0; i < 6; i++) {
        OK(cu.cuFuncGetParamInfo(function, i, &offset, &bytes));
        CHECK(offset == offsets[i] && bytes == sizes[i]);
    }
    EXPECT(CUDA_ERROR_INVALID_VALUE, cu.cuFuncGetParamInfo(function, 6, &offset, &bytes));
    OK(cu.cuFuncGetParamInfo(function, 1, &offset, NULL));
    OK(cu.cuFuncGetName(&name, function));
    CHECK(strcmp(name, "many_params") == 0);
    OK(cu.cuModuleGetFunction(&function, suite.module, "no_params"));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cu.cuFuncGetParamInfo(function, 0, &offset, &bytes));
    EXPECT(CUDA_ERROR_NOT_FOUND, cu.cuModuleGetFunction(&function, suite.module, "no_such_kernel"));
    /* The same by way of a library and its kernels, as the runtime does it. */
    CUlibrary library;
    CUkernel kernel;
    OK(cu.cuLibraryLoadData(&library, conformance_ptx, NULL, NULL, 0, NULL, NULL, 0));
    OK(cu.cuLibraryGetKernel(&kernel, library, "many_params"));
    OK(cu.cuKernelGetParamInfo(kernel, 4, &offset, &bytes));
    CHECK(offset == 16 && bytes == 24);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cu.cuKernelGetParamInfo(kernel, 6, &offset, &bytes));
    OK(cu.cuKernelGetName(&name, kernel));
    CHECK(strcmp(name, "many_params") == 0);
    OK(cu.cuKernelGetFunction(&function, kernel));
    OK(cu.cuLibraryUnload(library));
    return NULL;
}

const char *case_launch_arguments(void)
{
    CUfunction fill;
    CUdeviceptr at;
    uint32_t value = 1, count = 4;
    void *params[] = {&at, &value, &count};
    OK(cu.cuMemAlloc_v2(&at, 16));
    OK(cu.cuModuleGetFunction(&fill, suite.module, "fill"));
    EXPECT(CUDA_ERROR_INVALID_VALUE,
           cu.cuLaunchKernel(fill, 0, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
    EXPECT(CUDA_ERROR_INVALID_VALUE,
           cu.cuLaunchKernel(fill, 1, 1, 1, 0, 1, 1, 0, NULL, params, NULL));
    EXPECT(CUDA_ERROR_INVALID_VALUE,
           cu.cuLaunchKernel(fill, 1, 1, 1, 2048, 1, 1, 0, NULL, params, NULL));
    EXPECT(CUDA_ERROR_INVALID_VALUE,
           cu.cuLaunchKernel(fill, 1, 65536, 1, 32, 1, 1, 0, NULL, params, NULL));
    REFUSED(cu.cuLaunchKernel(NULL, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
    OK(cu.cuCtxSynchronize());
    OK(cu.cuMemFree_v2(at));
    return NULL;
}

/* Parameters are taken at the call; the array, the packed buffer, a CUkernel and the Ex form all
 * work. */
const char *case_launch_forms(void)
{
    struct {
        CUdeviceptr to;
        uint32_t value, count;
    } packed = {.count = 64};
    CUfunction fill;
    CUdeviceptr at;
    uint32_t words[64];
    size_t bytes = sizeof packed;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     CU_LAUNCH_PARAM_END};
    OK(cu.cuMemAlloc_v2(&at, sizeof words));
    packed.to = at;
    OK(cu.cuModuleGetFunction(&fill, suite.module, "fill"));
    OK(spin_ms(10, NULL));
    packed.value = 5;
    OK(cu.cuLaunchKernel(fill, 1, 1, 1, 64, 1, 1, 0, NULL, NULL, extra));
    packed.value = 6; /* too late for that one */
    OK(cu.cuMemcpyDtoH_v2(words, at, sizeof words));
    CHECK(words_are(words, 64, 5));
    void *params[] = {&packed.to, &packed.value, &packed.count};
    CUlaunchConfig config = {.gridDimX = 2, .gridDimY = 1, .gridDimZ = 1};
    config.blockDimX = 32;
    config.blockDimY = config.blockDimZ = 1;
    OK(cu.cuLaunchKernelEx(&config, fill, params, NULL));
    OK(cu.cuMemcpyDtoH_v2(words, at, sizeof words));
    CHECK(words_are(words, 64, 6));
    CUlibrary library;
    CUkernel kernel;
    OK(cu.cuLibraryLoadData(&library, conformance_ptx, NULL, NULL, 0, NULL, NULL, 0));
    OK(cu.cuLibraryGetKernel(&kernel, library, "fill"));
    packed.value = 7;
    OK(cu.cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 64, 1, 1, 0, NULL, params, NULL));
    OK(cu.cuMemcpyDtoH_v2(words, at, sizeof words));
    CHECK(words_are(words, 64, 7));
    packed.value = 8;
    OK(cu.cuLaunchCooperativeKernel(fill, 1, 1, 1, 64, 1, 1, 0, NULL, params));
    OK(cu.cuMemcpyDtoH_v2(words, at, sizeof words));
    CHECK(words_are(words, 64, 8));
    OK(cu.cuLibraryUnload(library));
    OK(cu.cuMemFree_v2(at));
    return NULL;
}

const char *case_module_variables(void)
{
    static const uint32_t wanted[] = {3, 1, 4, 1};
    CUdeviceptr at;
    uint32_t values[4];
    size_t bytes = 0;
    CUmodule module;
    OK(cu.cuModuleGetGlobal_v2(&at, &bytes, suite.module, "table"));
    CHECK(bytes == sizeof values);
    OK(cu.cuMemcpyDtoH_v2(values, at, sizeof values));
    CHECK(memcmp(values, wanted, sizeof values) == 0);
    EXPECT(CUDA_ERROR_NOT_FOUND, cu.cuModuleGetGlobal_v2(&at, &bytes, suite.module, "nothing"));
    EXPECT(CUDA_ERROR_INVALID_IMAGE, cu.cuModuleLoadData(&module, "this is no PTX"));
    return NULL;
}
