/* Pinned host memory. It is the driver's own; but tables of the pool's addresses may lie there, so
 * it is on a list (params/pinned.h) from when it is made until just before it ends. */
#include "params/pinned.h"
#include "shim/wrap.h"

enum { IO_MEMORY = 4 }; /* a flag of cuMemHostRegister: a device's own, which reading may change */

static void note(const void *start, size_t bytes, bool registered)
{
    CUcontext context = NULL;
    vp_addr at = (uintptr_t)start;
    if (shim_driver.cuCtxGetCurrent(&context) != CUDA_SUCCESS) context = NULL;
    pinned_add(&(struct pinned_range){at, at + bytes, context, registered});
}

/* ---- It begins: symbol, since, where it lies, whether it is registered, parameters, arguments.
 * Made once more where it fails for memory, like the calls of retry.c. ---- */

/* clang-format off */
#define PINS(X) \
    X(cuMemAllocHost, 2000, pointer ? *pointer : NULL, false, (void **pointer, unsigned bytes), \
      (pointer, bytes)) \
    X(cuMemAllocHost_v2, 3020, pointer ? *pointer : NULL, false, (void **pointer, size_t bytes), \
      (pointer, bytes)) \
    X(cuMemHostAlloc, 2020, pointer ? *pointer : NULL, false, \
      (void **pointer, size_t bytes, unsigned flags), (pointer, bytes, flags)) \
    X(cuMemHostRegister, 4000, flags & IO_MEMORY ? NULL : pointer, true, \
      (void *pointer, size_t bytes, unsigned flags), (pointer, bytes, flags)) \
    X(cuMemHostRegister_v2, 6050, flags & IO_MEMORY ? NULL : pointer, true, \
      (void *pointer, size_t bytes, unsigned flags), (pointer, bytes, flags))
/* clang-format on */

#define DEFINE(symbol, since, start, registered, params, args)                                     \
    static CUresult symbol##_wrap params                                                           \
    {                                                                                              \
        struct shim_retry retry = {0};                                                             \
        CUresult result;                                                                           \
        do result = SHIM_REAL(symbol, params) args;                                                \
        while (SHIM_RETRY(&retry, result, #symbol, SHIM_ON_HOST, bytes));                          \
        if (result == CUDA_SUCCESS) note(start, bytes, registered);                                \
        return result;                                                                             \
    }
PINS(DEFINE)

/* ---- It ends ---- */

/* A free may fail for what went wrong before, and free it all the same. */
static bool is_there(void *pointer)
{
    unsigned flags;
    CUresult (*ask)(unsigned *, void *) = SHIM_REAL(cuMemHostGetFlags, (unsigned *, void *));
    return ask && ask(&flags, pointer) == CUDA_SUCCESS;
}

static CUresult cuMemFreeHost_wrap(void *pointer)
{
    struct pinned_range range;
    bool known = pinned_remove(pointer, &range);
    CUresult result = SHIM_REAL(cuMemFreeHost, (void *))(pointer);
    if (known && result != CUDA_SUCCESS && is_there(pointer)) pinned_add(&range);
    return result;
}

/* The memory is the program's, and can be read whatever the driver says. */
static CUresult cuMemHostUnregister_wrap(void *pointer)
{
    struct pinned_range range;
    bool known = pinned_remove(pointer, &range);
    CUresult result = SHIM_REAL(cuMemHostUnregister, (void *))(pointer);
    if (known && result != CUDA_SUCCESS) pinned_add(&range);
    return result;
}

#define ROW(symbol, since, ...) SHIM_ROW_ONE(symbol, since),
/* clang-format off */
const struct shim_wrap shim_host_wraps[] = {
    PINS(ROW) /* ends in a comma */
    SHIM_ROW_ONE(cuMemFreeHost, 2000),
    SHIM_ROW_ONE(cuMemHostUnregister, 4000),
    SHIM_ROWS_END,
};
/* clang-format on */
