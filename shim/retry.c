/* Driver calls that may fail for memory, because the pool holds most of a card. When one does, the
 * pool gives memory of that card back (pool_relieve), and the call is made once more. What it says
 * then, the program gets.
 *
 * Calls that are wrapped for other reasons (launches, graphs, contexts) do the same where they are:
 * SHIM_RETRY in shim.h. Those that only need this are listed here. */
#include "base/log.h"
#include "shim/abi.h"
#include "shim/wrap.h"

/* ---- Once more ---- */

static void give(struct shim_retry *retry, unsigned card, uint64_t bytes)
{
    struct pool_relief relief;
    if (pool_relieve(retry->pool, card, bytes, &relief)) retry->reliefs[retry->count++] = relief;
}

static bool begin(struct shim_retry *retry, const char *call, int where, uint64_t bytes)
{
    CUdevice card = where;
    bool host = where == SHIM_ON_HOST;
    retry->pool = shim_pool();
    if (!retry->pool) return false;
    bool known = where >= 0 || shim_driver.cuCtxGetDevice(&card) == CUDA_SUCCESS;
    if (known && shim_computes(card)) give(retry, (unsigned)card, host ? 0 : bytes);
    if (host) give(retry, POOL_HOST, bytes);
    if (!retry->count)
        log_warn(
            "%s: the driver has no memory left, and the pool cannot give enough, as it is promised "
            "or in use; --hbm with less leaves the driver more",
            call);
    return retry->count > 0;
}

bool shim_retry_again(struct shim_retry *retry, CUresult result, const char *call, int where,
                      uint64_t bytes)
{
    if (!retry->pool) return begin(retry, call, where, bytes);
    bool helped = result != CUDA_ERROR_OUT_OF_MEMORY;
    for (unsigned i = 0; i < retry->count; i++)
        pool_relief_ends(retry->pool, &retry->reliefs[i], helped);
    if (!helped)
        log_warn("%s: the driver has no memory left, and what the pool could give was not enough; "
                 "--hbm with less leaves the driver more",
                 call);
    return false;
}

/* ---- How much it needs, where that can be told ---- */

/* An upper bound, for elements of unknown formats. */
static uint64_t array_bytes(const struct abi_array *array, size_t depth)
{
    uint64_t bytes = array->format == ABI_FORMAT_UINT8 || array->format == ABI_FORMAT_INT8 ? 1
                     : array->format == ABI_FORMAT_UINT16 || array->format == ABI_FORMAT_INT16 ||
                             array->format == ABI_FORMAT_HALF
                         ? 2
                         : 4;
    bytes *= array->channels * array->width;
    return bytes * (array->height ? array->height : 1) * (depth ? depth : 1);
}

static uint64_t flat_bytes(const struct abi_array *array)
{
    return array_bytes(array, 1);
}

static uint64_t deep_bytes(const struct abi_array3 *array)
{
    struct abi_array flat = {array->width, array->height, array->format, array->channels};
    return array_bytes(&flat, array->depth);
}

int shim_card_of(const CUmemAllocationProp *prop)
{
    return prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? prop->location.id : SHIM_ON_HOST;
}

/* ---- The calls: symbol, since, where, bytes, parameters, arguments. ON_CARD: the current one.
 * ----
 */

/* clang-format off */
#define LIBRARY_PARAMS(type) \
    (CUlibrary *library, type what, int *options, void **values, unsigned count, int *more, \
     void **more_values, unsigned more_count)
#define LIBRARY_ARGS (library, what, options, values, count, more, more_values, more_count)

#define RETRIED(X) \
    X(cuModuleLoad, 2000, SHIM_ON_CARD, 0, (CUmodule *module, const char *path), (module, path)) \
    X(cuModuleLoadData, 2000, SHIM_ON_CARD, 0, (CUmodule *module, const void *image), \
      (module, image)) \
    X(cuModuleLoadDataEx, 2010, SHIM_ON_CARD, 0, \
      (CUmodule *module, const void *image, unsigned count, int *options, void **values), \
      (module, image, count, options, values)) \
    X(cuModuleLoadFatBinary, 2000, SHIM_ON_CARD, 0, (CUmodule *module, const void *image), \
      (module, image)) \
    X(cuModuleGetFunction, 2000, SHIM_ON_CARD, 0, \
      (CUfunction *function, CUmodule module, const char *name), (function, module, name)) \
    X(cuLibraryLoadData, 12000, SHIM_ON_CARD, 0, LIBRARY_PARAMS(const void *), LIBRARY_ARGS) \
    X(cuLibraryLoadFromFile, 12000, SHIM_ON_CARD, 0, LIBRARY_PARAMS(const char *), LIBRARY_ARGS) \
    X(cuLibraryGetModule, 12000, SHIM_ON_CARD, 0, (CUmodule *module, CUlibrary library), \
      (module, library)) \
    X(cuLibraryGetGlobal, 12000, SHIM_ON_CARD, 0, \
      (CUdeviceptr *address, size_t *bytes, CUlibrary library, const char *name), \
      (address, bytes, library, name)) \
    X(cuKernelGetFunction, 12000, SHIM_ON_CARD, 0, (CUfunction *function, CUkernel kernel), \
      (function, kernel)) \
    X(cuFuncLoad, 12040, SHIM_ON_CARD, 0, (CUfunction function), (function)) \
    X(cuCtxCreate_v2, 3020, card, 0, (CUcontext *context, unsigned flags, CUdevice card), \
      (context, flags, card)) \
    X(cuCtxCreate_v3, 11040, card, 0, \
      (CUcontext *context, void *params, int count, unsigned flags, CUdevice card), \
      (context, params, count, flags, card)) \
    X(cuCtxCreate_v4, 12050, card, 0, \
      (CUcontext *context, void *params, unsigned flags, CUdevice card), \
      (context, params, flags, card)) \
    X(cuCtxSetLimit, 3010, SHIM_ON_CARD, 0, (int limit, size_t value), (limit, value)) \
    X(cuCtxEnablePeerAccess, 4000, SHIM_ON_CARD, 0, (CUcontext peer, unsigned flags), \
      (peer, flags)) \
    X(cuGreenCtxCreate, 12040, card, 0, \
      (void **context, void *resources, CUdevice card, unsigned flags), \
      (context, resources, card, flags)) \
    X(cuCtxFromGreenCtx, 12040, SHIM_ON_CARD, 0, (CUcontext *context, void *green), \
      (context, green)) \
    X(cuStreamCreate, 2000, SHIM_ON_CARD, 0, (CUstream *stream, unsigned flags), (stream, flags)) \
    X(cuStreamCreateWithPriority, 5050, SHIM_ON_CARD, 0, \
      (CUstream *stream, unsigned flags, int priority), (stream, flags, priority)) \
    X(cuGreenCtxStreamCreate, 12050, SHIM_ON_CARD, 0, \
      (CUstream *stream, void *green, unsigned flags, int priority), \
      (stream, green, flags, priority)) \
    X(cuEventCreate, 2000, SHIM_ON_CARD, 0, (CUevent *event, unsigned flags), (event, flags)) \
    X(cuMemAllocManaged, 6000, SHIM_ON_CARD, bytes, \
      (CUdeviceptr *address, size_t bytes, unsigned flags), (address, bytes, flags)) \
    X(cuArrayCreate_v2, 3020, SHIM_ON_CARD, flat_bytes(what), \
      (CUarray *array, const struct abi_array *what), (array, what)) \
    X(cuArray3DCreate_v2, 3020, SHIM_ON_CARD, deep_bytes(what), \
      (CUarray *array, const struct abi_array3 *what), (array, what)) \
    X(cuMipmappedArrayCreate, 5000, SHIM_ON_CARD, deep_bytes(what) / 3 * 4, \
      (void **array, const struct abi_array3 *what, unsigned levels), (array, what, levels)) \
    X(cuMemImportFromShareableHandle, 10020, SHIM_ON_CARD, 0, \
      (CUmemGenericAllocationHandle *handle, void *shared, int type), (handle, shared, type)) \
    X(cuMulticastCreate, 12010, SHIM_ON_CARD, 0, \
      (CUmemGenericAllocationHandle *handle, const void *prop), (handle, prop)) \
    X(cuMemPoolCreate, 11020, SHIM_ON_CARD, 0, (CUmemoryPool *made, const void *props), \
      (made, props)) \
    X(cuImportExternalMemory, 10000, SHIM_ON_CARD, 0, (void **memory, const void *what), \
      (memory, what)) \
    X(cuExternalMemoryGetMappedBuffer, 10000, SHIM_ON_CARD, 0, \
      (CUdeviceptr *address, void *memory, const void *what), (address, memory, what))

/* The same, with a form for a thread's own default stream. */
#define RETRIED_ON_STREAMS(X) \
    X(cuMemAllocAsync, 11020, SHIM_ON_CARD, bytes, \
      (CUdeviceptr *address, size_t bytes, CUstream stream), (address, bytes, stream)) \
    X(cuMemAllocFromPoolAsync, 11020, SHIM_ON_CARD, bytes, \
      (CUdeviceptr *address, size_t bytes, CUmemoryPool from, CUstream stream), \
      (address, bytes, from, stream)) \
    X(cuGraphUpload, 11010, SHIM_ON_CARD, 0, (CUgraphExec exec, CUstream stream), (exec, stream))
/* clang-format on */

#define DEFINE(symbol, since, where, needed, params, args)                                         \
    static CUresult symbol##_wrap params                                                           \
    {                                                                                              \
        struct shim_retry retry = {0};                                                             \
        CUresult result;                                                                           \
        do result = SHIM_REAL(symbol, params) args;                                                \
        while (SHIM_RETRY(&retry, result, #symbol, where, needed));                                \
        shim_context_forget(); /* those that make a context change the thread's */                 \
        return result;                                                                             \
    }
#define DEFINE_PAIR(symbol, ...) DEFINE(symbol, __VA_ARGS__) DEFINE(symbol##_ptsz, __VA_ARGS__)
RETRIED(DEFINE)
RETRIED_ON_STREAMS(DEFINE_PAIR)

#define ROW(symbol, since, ...)      SHIM_ROW_ONE(symbol, since),
#define ROW_PAIR(symbol, since, ...) SHIM_ROW_PAIR(symbol, symbol##_ptsz, since),
const struct shim_wrap shim_retry_wraps[] = {RETRIED(ROW) RETRIED_ON_STREAMS(ROW_PAIR)
                                                 SHIM_ROWS_END};
