/* blocks: pool memory that does not fit the card, for tests of the real shim over the emulator: a
 * card of 8 MiB, 16 MiB of blocks. Between launches all blocks are written, so that whatever may
 * leave has left: who used what is not there would be a fault. */
#ifndef TESTS_BLOCKS_H
#define TESTS_BLOCKS_H

#include "shim/exported.h"

#define BLOCK_BYTES ((size_t)2 << 20)
enum { BLOCKS = 8 };

static CUdeviceptr block[BLOCKS];
static CUstream stream;
static CUfunction add; /* the test's kernel */

#define CALL(symbol, types, args)                                                                  \
    do {                                                                                           \
        CUresult result_ = ((CUresult(*) types)shim_function(#symbol))args;                        \
        if (result_ != CUDA_SUCCESS) fail_msg("%s: %d", #symbol, result_);                         \
    } while (0)

static inline void wait(void)
{
    CALL(cuCtxSynchronize, (void), ());
}

/* Uses every block but the first `spared` ones, twice, so that what may leave leaves. */
static inline void press(unsigned spared)
{
    for (unsigned i = 0; i < 2 * (BLOCKS - spared); i++) {
        CALL(cuMemsetD8Async, (CUdeviceptr, unsigned, size_t, CUstream),
             (block[spared + i % (BLOCKS - spared)] + 4096, i, 4096, stream));
        wait();
    }
}

static inline void clear(void)
{
    for (unsigned i = 0; i < BLOCKS; i++)
        CALL(cuMemsetD8_v2, (CUdeviceptr, unsigned, size_t), (block[i], 0, BLOCK_BYTES));
    wait();
}

static inline void start_with(const char *ptx, const char *kernel)
{
    CUcontext context;
    CUmodule module;
    CALL(cuInit, (unsigned), (0));
    CALL(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice), (&context, 0));
    CALL(cuCtxSetCurrent, (CUcontext), (context));
    CALL(cuStreamCreate, (CUstream *, unsigned), (&stream, CU_STREAM_NON_BLOCKING));
    CALL(cuModuleLoadData, (CUmodule *, const void *), (&module, ptx));
    CALL(cuModuleGetFunction, (CUfunction *, CUmodule, const char *), (&add, module, kernel));
    for (unsigned i = 0; i < BLOCKS; i++)
        CALL(cuMemAlloc_v2, (CUdeviceptr *, size_t), (&block[i], BLOCK_BYTES));
}

static inline int finish(void **state)
{
    for (unsigned i = 0; i < BLOCKS; i++) CALL(cuMemFree_v2, (CUdeviceptr), (block[i]));
    CALL(cuStreamDestroy_v2, (CUstream), (stream));
    CALL(cuDevicePrimaryCtxRelease_v2, (CUdevice), (0));
    return 0;
}

#endif
