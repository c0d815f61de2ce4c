/* Contexts beside the first, through the shim: one ends while there are others, and what was done
 * in it costs those nothing. */
#include <stdlib.h>

#include "emu/emu_kernel.h"
#include "shim/blocks.h"

static const char ptx[] =
    ".version 6.4\n.target sm_75\n.address_size 64\n"
    ".visible .entry contexts_set(.param .u64 at, .param .u32 number)\n{\n  ret;\n}\n";

void emu_kernel_contexts_set(struct emu_block *b);
void emu_kernel_contexts_set(struct emu_block *b)
{
    uint64_t first, last;
    emu_threads(b, &first, &last);
    if (first == 0) emu_store_u32(b, emu_param_u64(b, 0), emu_param_u32(b, 1));
}

static void set(CUfunction function, CUstream on, CUdeviceptr at, uint32_t number)
{
    void *params[] = {&at, &number};
    CALL(cuLaunchKernel,
         (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
          CUstream, void **, void **),
         (function, 1, 1, 1, 32, 1, 1, 0, on, params, NULL));
}

/* A function's first launches are looked through, by means of the context that they are in. */
static void what_is_looked_through_ends_with_its_context(void **state)
{
    clear();
    for (uint32_t i = 1; i <= 20; i++) {
        CUcontext second;
        CUmodule module;
        CUfunction function;
        CALL(cuCtxCreate_v2, (CUcontext *, unsigned, CUdevice), (&second, 0, 0));
        CALL(cuModuleLoadData, (CUmodule *, const void *), (&module, ptx));
        CALL(cuModuleGetFunction, (CUfunction *, CUmodule, const char *),
             (&function, module, "contexts_set"));
        set(function, NULL, block[0], i);
        wait();
        CALL(cuCtxDestroy_v2, (CUcontext), (second));
        uint32_t word;
        press(1);
        set(add, stream, block[1], i);
        wait();
        CALL(cuMemcpyDtoH_v2, (void *, CUdeviceptr, size_t), (&word, block[0], 4));
        assert_int_equal(word, i);
        CALL(cuMemcpyDtoH_v2, (void *, CUdeviceptr, size_t), (&word, block[1], 4));
        assert_int_equal(word, i);
    }
}

/* The mover, in the first one's context, marks work there as well. */
static void a_stream_of_another_context_is_marked(void **state)
{
    CUcontext first, second;
    CUmodule module;
    CUfunction function;
    CUstream other;
    clear();
    CALL(cuCtxGetCurrent, (CUcontext *), (&first));
    CALL(cuCtxCreate_v2, (CUcontext *, unsigned, CUdevice), (&second, 0, 0));
    CALL(cuModuleLoadData, (CUmodule *, const void *), (&module, ptx));
    CALL(cuModuleGetFunction, (CUfunction *, CUmodule, const char *),
         (&function, module, "contexts_set"));
    CALL(cuStreamCreate, (CUstream *, unsigned), (&other, CU_STREAM_NON_BLOCKING));
    for (uint32_t i = 1; i <= 100; i++) {
        CALL(cuCtxSetCurrent, (CUcontext), (second));
        set(function, other, block[i % 8], i);
        CALL(cuStreamSynchronize, (CUstream), (other));
        CALL(cuCtxSetCurrent, (CUcontext), (first));
        press(1);
        uint32_t word;
        CALL(cuMemcpyDtoH_v2, (void *, CUdeviceptr, size_t), (&word, block[i % 8], 4));
        assert_int_equal(word, i);
    }
    CALL(cuCtxDestroy_v2, (CUcontext), (second));
    press(1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_of_another_context_is_marked),
        cmocka_unit_test(what_is_looked_through_ends_with_its_context),
    };
    start_with(ptx, "contexts_set");
    return cmocka_run_group_tests(tests, NULL, finish);
}
