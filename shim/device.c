/* Devices, contexts and streams: which cards the program sees, how large they look, and what comes
 * to an end. */
#include "shim/wrap.h"

#include "machine/host.h"
#include "params/pinned.h"

/* ---- Which cards: the first shim_settings.visible ---- */

bool shim_computes(CUdevice device)
{
    return device >= 0 && device < VP_MAX_CARDS &&
           (shim_settings.options.compute_cards >> device & 1);
}

uint32_t vp_visible_cards(void)
{
    shim_load(SHIM_cuInit);
    return shim_settings.off ? UINT32_MAX : shim_settings.visible;
}

static bool hidden(int ordinal)
{
    return ordinal >= 0 && (unsigned)ordinal >= shim_settings.visible;
}

static CUresult cuDeviceGetCount_wrap(int *count)
{
    CUresult result = SHIM_REAL(cuDeviceGetCount, (int *))(count);
    if (result == CUDA_SUCCESS && hidden(*count)) *count = (int)shim_settings.visible;
    return result;
}

static CUresult cuDeviceGet_wrap(CUdevice *device, int ordinal)
{
    if (hidden(ordinal)) ordinal = -1; /* the driver then says what it says of no such device */
    return SHIM_REAL(cuDeviceGet, (CUdevice *, int))(device, ordinal);
}

static CUresult cuDeviceGetByPCIBusId_wrap(CUdevice *device, const char *bus_id)
{
    CUdevice found;
    if (!device)
        return SHIM_REAL(cuDeviceGetByPCIBusId, (CUdevice *, const char *))(device, bus_id);
    CUresult result = SHIM_REAL(cuDeviceGetByPCIBusId, (CUdevice *, const char *))(&found, bus_id);
    if (result != CUDA_SUCCESS) return result;
    if (hidden(found)) return CUDA_ERROR_INVALID_DEVICE;
    *device = found;
    return CUDA_SUCCESS;
}

/* ---- How large: what the pool will hold for a card. Runtimes ask before there is a context, and
 * launchers ask without ever using a card: that must not open a pool, so it is worked out. ---- */

static uint64_t share_of(CUdevice device)
{
    const vp_options *options = &shim_settings.options;
    size_t bytes = 0;
    if (shim_driver.cuDeviceTotalMem_v2(&bytes, device) != CUDA_SUCCESS) return 0;
    uint64_t lends = options->lend_cards >> device & 1 ? options->lend_bytes[device] : 0;
    uint64_t most = options->hbm_bytes;
    if (most && shim_computes(device))
        most += lends;
    else if (lends && !shim_computes(device))
        most = lends;
    return most && most < bytes ? most : bytes;
}

static uint64_t planned_bytes(void)
{
    const vp_options *options = &shim_settings.options;
    int count = 0;
    if (shim_driver.cuDeviceGetCount(&count) != CUDA_SUCCESS) return 0;
    uint32_t cards = options->compute_cards | options->lend_cards;
    uint64_t sum = 0;
    for (int i = 0; i < count && i < VP_MAX_CARDS; i++) {
        if (cards >> i & 1) sum += share_of(i);
    }
    if (options->host_bytes != VP_DEFAULT_BYTES) return sum + options->host_bytes;
    struct host_memory host;
    return host_memory_read("", &host) == VP_OK
               ? sum + host_memory_share(&host, options->host_sharers)
               : sum;
}

/* Overwrites what the driver said, once it has said that the device is right. Another rank's card
 * stays as it is. */
static uint64_t pool_bytes(CUdevice device, uint64_t real_bytes)
{
    if (!shim_computes(device)) return real_bytes;
    vp_pool *pool = shim_pool();
    uint64_t bytes = pool ? pool_card_bytes(pool, (unsigned)device) : planned_bytes();
    return bytes ? bytes : real_bytes;
}

static CUresult cuDeviceTotalMem_v2_wrap(size_t *bytes, CUdevice device)
{
    if (hidden(device)) device = -1;
    CUresult result = SHIM_REAL(cuDeviceTotalMem_v2, (size_t *, CUdevice))(bytes, device);
    if (result == CUDA_SUCCESS) *bytes = pool_bytes(device, *bytes);
    return result;
}

static CUresult cuDeviceTotalMem_wrap(unsigned *bytes, CUdevice device)
{
    if (hidden(device)) device = -1;
    CUresult result = SHIM_REAL(cuDeviceTotalMem, (unsigned *, CUdevice))(bytes, device);
    if (result != CUDA_SUCCESS) return result;
    uint64_t all = pool_bytes(device, *bytes);
    *bytes = all < UINT32_MAX ? (unsigned)all : UINT32_MAX;
    return result;
}

/* ---- The calling thread's context. Those that make contexts are in retry.c, but for the oldest.
 * ---- */

static _Thread_local CUcontext remembered __attribute__((tls_model("initial-exec")));
static atomic_bool unseen; /* a function was handed out that may change it */

void shim_context_forget(void)
{
    remembered = NULL;
}

void shim_context_unseen(void)
{
    atomic_store(&unseen, true);
}

static CUresult current_context(CUcontext *context)
{
    *context = remembered;
    if (*context && !atomic_load_explicit(&unseen, memory_order_relaxed)) return CUDA_SUCCESS;
    CUresult result = SHIM_REAL(cuCtxGetCurrent, (CUcontext *))(context);
    if (result == CUDA_SUCCESS) remembered = *context;
    return result;
}

/* clang-format off */
#define SWITCHES(X) \
    X(cuCtxSetCurrent, 4000, (CUcontext context), (context)) \
    X(cuCtxPushCurrent, 2000, (CUcontext context), (context)) \
    X(cuCtxPushCurrent_v2, 4000, (CUcontext context), (context)) \
    X(cuCtxPopCurrent, 2000, (CUcontext *context), (context)) \
    X(cuCtxPopCurrent_v2, 4000, (CUcontext *context), (context)) \
    X(cuCtxAttach, 2000, (CUcontext *context, unsigned flags), (context, flags)) \
    X(cuCtxCreate, 2000, (CUcontext *context, unsigned flags, CUdevice card), \
      (context, flags, card)) \
    X(cuGLCtxCreate, 2000, (CUcontext *context, unsigned flags, CUdevice card), \
      (context, flags, card)) \
    X(cuGLCtxCreate_v2, 3020, (CUcontext *context, unsigned flags, CUdevice card), \
      (context, flags, card)) \
    X(cuVDPAUCtxCreate, 3010, \
      (CUcontext *context, unsigned flags, CUdevice card, uint32_t vdpau, void *get_address), \
      (context, flags, card, vdpau, get_address)) \
    X(cuVDPAUCtxCreate_v2, 3020, \
      (CUcontext *context, unsigned flags, CUdevice card, uint32_t vdpau, void *get_address), \
      (context, flags, card, vdpau, get_address))
/* clang-format on */
#define SWITCH(symbol, since, params, args)                                                        \
    static CUresult symbol##_wrap params                                                           \
    {                                                                                              \
        CUresult result = SHIM_REAL(symbol, params) args;                                          \
        shim_context_forget();                                                                     \
        return result;                                                                             \
    }
SWITCHES(SWITCH)

void shim_context_remember(struct driver *driver)
{
    driver->cuCtxGetCurrent = current_context;
    driver->cuCtxSetCurrent = cuCtxSetCurrent_wrap;
}

/* ---- What comes to an end. A primary context ends with the last of the program's references. ----
 */

static _Atomic(CUcontext) primaries[VP_MAX_CARDS];
static atomic_int references[VP_MAX_CARDS];

CUcontext shim_primary_context(unsigned card)
{
    return card < VP_MAX_CARDS ? atomic_load(&primaries[card]) : NULL;
}

static bool counted(CUdevice device)
{
    return device >= 0 && device < VP_MAX_CARDS;
}

static CUresult cuDevicePrimaryCtxRetain_wrap(CUcontext *context, CUdevice device)
{
    struct shim_retry retry = {0};
    CUresult result;
    do result = SHIM_REAL(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice))(context, device);
    while (SHIM_RETRY(&retry, result, "cuDevicePrimaryCtxRetain", device, 0));
    if (result == CUDA_SUCCESS && counted(device)) {
        atomic_store(&primaries[device], *context);
        atomic_fetch_add(&references[device], 1);
    }
    return result;
}

static void context_ends(CUcontext context)
{
    if (!context) return;
    pinned_context_ends(context);
    if (shim_pool()) shim_pool_context_ends(context);
}

/* The driver refuses to destroy a primary context by its handle. */
static void own_context_ends(CUcontext context)
{
    for (unsigned i = 0; i < VP_MAX_CARDS; i++) {
        if (shim_primary_context(i) == context) return;
    }
    context_ends(context);
}

static void release(CUdevice device)
{
    if (!counted(device)) return;
    int before = atomic_load(&references[device]);
    while (before > 0 && !atomic_compare_exchange_weak(&references[device], &before, before - 1)) {
    }
    if (before == 1) context_ends(shim_primary_context((unsigned)device));
}

static void reset(CUdevice device)
{
    if (!counted(device)) return;
    atomic_store(&references[device], 0);
    context_ends(shim_primary_context((unsigned)device));
}

static void stream_ends(CUstream stream)
{
    vp_pool *pool = shim_pool();
    if (pool && stream) pool_stream_ends(pool, stream);
}

static void functions_end(void *module)
{
    vp_pool *pool = shim_pool();
    if (pool && module) pool_functions_end(pool);
}

#define ENDS(symbol, type, tell)                                                                   \
    static CUresult symbol##_wrap(type object)                                                     \
    {                                                                                              \
        tell(object);                                                                              \
        CUresult result = SHIM_REAL(symbol, (type))(object);                                       \
        shim_context_forget();                                                                     \
        return result;                                                                             \
    }
ENDS(cuCtxDestroy, CUcontext, own_context_ends)
ENDS(cuCtxDestroy_v2, CUcontext, own_context_ends)
ENDS(cuCtxDetach, CUcontext, own_context_ends)
ENDS(cuDevicePrimaryCtxRelease, CUdevice, release)
ENDS(cuDevicePrimaryCtxRelease_v2, CUdevice, release)
ENDS(cuDevicePrimaryCtxReset, CUdevice, reset)
ENDS(cuDevicePrimaryCtxReset_v2, CUdevice, reset)
ENDS(cuStreamDestroy, CUstream, stream_ends)
ENDS(cuStreamDestroy_v2, CUstream, stream_ends)
ENDS(cuModuleUnload, CUmodule, functions_end)
ENDS(cuLibraryUnload, CUlibrary, functions_end)

/* clang-format off */
const struct shim_wrap shim_device_wraps[] = {
    SHIM_ROW_ONE(cuDeviceGetCount, 2000),
    SHIM_ROW_ONE(cuDeviceGet, 2000),
    SHIM_ROW_ONE(cuDeviceGetByPCIBusId, 4010),
    SHIM_ROW_ONE(cuDeviceTotalMem, 2000),
    SHIM_ROW_ONE(cuDeviceTotalMem_v2, 3020),
    SHIM_ROW_ONE(cuDevicePrimaryCtxRetain, 7000),
    SHIM_ROW_ONE(cuDevicePrimaryCtxRelease, 7000),
    SHIM_ROW_ONE(cuDevicePrimaryCtxRelease_v2, 11000),
    SHIM_ROW_ONE(cuDevicePrimaryCtxReset, 7000),
    SHIM_ROW_ONE(cuDevicePrimaryCtxReset_v2, 11000),
#define SWITCH_ROW(symbol, since, ...) SHIM_ROW_ONE(symbol, since),
    SWITCHES(SWITCH_ROW)
    SHIM_ROW_ONE(cuCtxDestroy, 2000),
    SHIM_ROW_ONE(cuCtxDestroy_v2, 4000),
    SHIM_ROW_ONE(cuCtxDetach, 2000),
    SHIM_ROW_ONE(cuStreamDestroy, 2000),
    SHIM_ROW_ONE(cuStreamDestroy_v2, 4000),
    SHIM_ROW_ONE(cuModuleUnload, 2000),
    SHIM_ROW_ONE(cuLibraryUnload, 12000),
    SHIM_ROWS_END,
};
/* clang-format on */
