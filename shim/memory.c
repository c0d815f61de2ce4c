/* Memory: allocation, what the program asks about it, advice on it, and what is refused. */
#include "shim/wrap.h"

#include <string.h>

#include "base/log.h"
#include "shim/abi.h"

static bool owns(CUdeviceptr address)
{
    vp_pool *pool = shim_pool();
    return pool && pool_owns(pool, address);
}

/* ---- Allocation ----
 * The first forms of these calls (without _v2) know addresses of 32 bits alone; none of them can be
 * the pool's, so that they pass through. */

static CUresult cuMemAlloc_v2_wrap(CUdeviceptr *address, size_t bytes)
{
    vp_pool *pool = address && bytes ? shim_pool_wanted() : NULL;
    CUresult result = pool ? pool_mem_alloc(pool, address, bytes) : CUDA_ERROR_NOT_FOUND;
    if (result != CUDA_ERROR_NOT_FOUND) return result; /* else: not a card of the pool's */
    return SHIM_REAL(cuMemAlloc_v2, (CUdeviceptr *, size_t))(address, bytes);
}

/* Rows start where the driver starts them: 512 bytes apart or a multiple. */
static CUresult cuMemAllocPitch_v2_wrap(CUdeviceptr *address, size_t *pitch, size_t width,
                                        size_t height, unsigned element_bytes)
{
    enum { PITCH = 512 };
    size_t row, bytes;
    bool fine = address && pitch && width && height &&
                (element_bytes == 4 || element_bytes == 8 || element_bytes == 16) &&
                !__builtin_add_overflow(width, PITCH - 1, &row) &&
                !__builtin_mul_overflow(row / PITCH * PITCH, height, &bytes);
    vp_pool *pool = fine ? shim_pool_wanted() : NULL;
    CUresult result = pool ? pool_mem_alloc(pool, address, bytes) : CUDA_ERROR_NOT_FOUND;
    if (result == CUDA_SUCCESS) *pitch = row / PITCH * PITCH;
    if (result != CUDA_ERROR_NOT_FOUND) return result;
    return SHIM_REAL(cuMemAllocPitch_v2, (CUdeviceptr *, size_t *, size_t, size_t, unsigned))(
        address, pitch, width, height, element_bytes);
}

static CUresult cuMemFree_v2_wrap(CUdeviceptr address)
{
    vp_pool *pool = shim_pool();
    CUresult result = pool ? pool_mem_free(pool, address) : CUDA_ERROR_NOT_FOUND;
    if (result != CUDA_ERROR_NOT_FOUND) return result;
    return SHIM_REAL(cuMemFree_v2, (CUdeviceptr))(address);
}

/* The pool lets work still queued finish, so that a free in stream order is a free. */
#define FREE_ASYNC(symbol)                                                                         \
    static CUresult symbol##_wrap(CUdeviceptr address, CUstream stream)                            \
    {                                                                                              \
        vp_pool *pool = shim_pool();                                                               \
        CUresult result = pool ? pool_mem_free(pool, address) : CUDA_ERROR_NOT_FOUND;              \
        if (result != CUDA_ERROR_NOT_FOUND) return result;                                         \
        return SHIM_REAL(symbol, (CUdeviceptr, CUstream))(address, stream);                        \
    }
FREE_ASYNC(cuMemFreeAsync)
FREE_ASYNC(cuMemFreeAsync_ptsz)

/* Of memory of another rank's card the driver tells. */
static vp_pool *pool_asked(void)
{
    CUdevice device;
    vp_pool *pool = shim_pool_wanted();
    if (!pool || !shim_settings.by_rank) return pool;
    bool ours = shim_driver.cuCtxGetDevice(&device) == CUDA_SUCCESS && shim_computes(device);
    return ours ? pool : NULL;
}

/* The driver is asked first: errors are its own. */
static CUresult cuMemGetInfo_v2_wrap(size_t *free_bytes, size_t *total_bytes)
{
    CUresult result = SHIM_REAL(cuMemGetInfo_v2, (size_t *, size_t *))(free_bytes, total_bytes);
    vp_pool *pool = result == CUDA_SUCCESS ? pool_asked() : NULL;
    if (!pool) return result;
    size_t pool_free, pool_total;
    result = pool_mem_info(pool, &pool_free, &pool_total);
    if (result != CUDA_SUCCESS) return result;
    if (free_bytes) *free_bytes = pool_free;
    if (total_bytes) *total_bytes = pool_total;
    return CUDA_SUCCESS;
}

/* The first form has room for 32 bits: the driver then says all ones. */
static CUresult cuMemGetInfo_wrap(unsigned *free_bytes, unsigned *total_bytes)
{
    if (!pool_asked() || !shim_has_context())
        return SHIM_REAL(cuMemGetInfo, (unsigned *, unsigned *))(free_bytes, total_bytes);
    size_t pool_free = 0, pool_total = 0;
    CUresult result = cuMemGetInfo_v2_wrap(&pool_free, &pool_total);
    if (result != CUDA_SUCCESS) return result;
    if (free_bytes) *free_bytes = pool_free < UINT32_MAX ? (unsigned)pool_free : UINT32_MAX;
    if (total_bytes) *total_bytes = pool_total < UINT32_MAX ? (unsigned)pool_total : UINT32_MAX;
    return CUDA_SUCCESS;
}

static CUresult cuMemGetAddressRange_v2_wrap(CUdeviceptr *base, size_t *bytes, CUdeviceptr address)
{
    vp_pool *pool = shim_pool();
    struct pool_range block;
    CUresult result = pool ? pool_mem_range(pool, address, &block) : CUDA_ERROR_NOT_FOUND;
    if (result == CUDA_ERROR_NOT_FOUND) {
        return SHIM_REAL(cuMemGetAddressRange_v2,
                         (CUdeviceptr *, size_t *, CUdeviceptr))(base, bytes, address);
    }
    if (result != CUDA_SUCCESS) return result;
    if (base) *base = block.base;
    if (bytes) *bytes = block.bytes;
    return CUDA_SUCCESS;
}

/* ---- Attributes of a pointer: what the driver says of memory from cuMemAlloc ---- */

#define PUT(type, value)                                                                           \
    do {                                                                                           \
        type put = (type)(value);                                                                  \
        memcpy(data, &put, sizeof put);                                                            \
        return CUDA_SUCCESS;                                                                       \
    } while (0)

/* Sizes are those that the driver writes. Memory that moves can be given to no other process or
 * device, so that it has no handles, no IPC and no RDMA. */
static CUresult put_attribute(const struct pool_range *block, CUdeviceptr address, int attribute,
                              void *data)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: PUT(CUcontext, shim_primary_context(block->card));
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: PUT(unsigned, CU_MEMORYTYPE_DEVICE);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: PUT(CUdeviceptr, address);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: PUT(int, block->card);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID: PUT(CUdeviceptr, block->base);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: PUT(uint64_t, block->number);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE: PUT(size_t, block->bytes);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: PUT(int, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_MAPPED: PUT(int, 1);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE: PUT(int, 0);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: PUT(uint64_t, 0);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        memset(data, 0, sizeof(void *));
        return CUDA_ERROR_INVALID_VALUE;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
}

/* False: not a live block of the pool, so the driver is to say what it thinks of the address. */
static bool find_block(CUdeviceptr address, struct pool_range *block)
{
    vp_pool *pool = shim_pool();
    return pool && pool_mem_range(pool, address, block) == CUDA_SUCCESS;
}

static CUresult cuPointerGetAttribute_wrap(void *data, int attribute, CUdeviceptr address)
{
    struct pool_range block;
    if (data && find_block(address, &block)) return put_attribute(&block, address, attribute, data);
    return SHIM_REAL(cuPointerGetAttribute, (void *, int, CUdeviceptr))(data, attribute, address);
}

/* The host pointer is an error for the single call, and NULL for this one. */
static CUresult cuPointerGetAttributes_wrap(unsigned count, const int *attributes, void **data,
                                            CUdeviceptr address)
{
    struct pool_range block;
    if (!count || !attributes || !data || !find_block(address, &block)) {
        return SHIM_REAL(cuPointerGetAttributes, (unsigned, const int *, void **, CUdeviceptr))(
            count, attributes, data, address);
    }
    for (unsigned i = 0; i < count; i++) {
        if (!data[i]) return CUDA_ERROR_INVALID_VALUE;
        CUresult result = put_attribute(&block, address, attributes[i], data[i]);
        if (result != CUDA_SUCCESS && attributes[i] != CU_POINTER_ATTRIBUTE_HOST_POINTER)
            return result;
    }
    return CUDA_SUCCESS;
}

/* Synchronous copies are what the pool's memory has, as its attribute says. */
static CUresult cuPointerSetAttribute_wrap(const void *value, int attribute, CUdeviceptr address)
{
    if (value && attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS && owns(address))
        return CUDA_SUCCESS;
    return SHIM_REAL(cuPointerSetAttribute, (const void *, int, CUdeviceptr))(value, attribute,
                                                                              address);
}

/* ---- Advice: that for managed memory means the same for the pool's ---- */

static bool find_place(vp_pool *pool, int device, unsigned *place)
{
    unsigned count = vp_place_count(pool);
    for (unsigned i = 0, cards = 0; i < count; i++) {
        vp_place_info_t info;
        if (vp_place_info(pool, i, &info) != VP_OK) continue;
        bool match = info.kind == VP_PLACE_CARD ? (int)cards++ == device : device == ABI_DEVICE_CPU;
        if (!match) continue;
        *place = i;
        return true;
    }
    return false;
}

/* Advice that cannot be followed now is not an error. */
static CUresult advice_result(vp_status status)
{
    return status == VP_INVALID || status == VP_NOT_FOUND ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static CUresult prefetch(CUdeviceptr address, size_t bytes, int device)
{
    unsigned place;
    vp_pool *pool = shim_pool();
    if (!find_place(pool, device, &place)) return CUDA_ERROR_INVALID_DEVICE;
    return advice_result(vp_prefetch(pool, address, bytes, place));
}

static CUresult advise(CUdeviceptr address, size_t bytes, int advice, int device)
{
    vp_pool *pool = shim_pool();
    unsigned place = 0;
    vp_advice ours = VP_ADVISE_NONE;
    if (advice < ABI_SET_READ_MOSTLY || advice > ABI_UNSET_ACCESSED_BY)
        return CUDA_ERROR_INVALID_VALUE;
    if (advice == ABI_SET_READ_MOSTLY) ours = VP_ADVISE_READ_MOSTLY;
    if (advice == ABI_SET_PREFERRED) ours = VP_ADVISE_PREFERRED_PLACE;
    if (advice == ABI_SET_ACCESSED_BY) ours = VP_ADVISE_ACCESSED_BY;
    bool placed = advice == ABI_SET_PREFERRED || advice == ABI_SET_ACCESSED_BY;
    if (placed && !find_place(pool, device, &place)) return CUDA_ERROR_INVALID_DEVICE;
    return advice_result(vp_advise(pool, address, bytes, ours, place));
}

static int location_device(CUmemLocation location)
{
    return location.type == CU_MEM_LOCATION_TYPE_DEVICE ? location.id : ABI_DEVICE_CPU;
}

#define PREFETCH(symbol)                                                                           \
    static CUresult symbol##_wrap(CUdeviceptr address, size_t bytes, int device, CUstream stream)  \
    {                                                                                              \
        if (owns(address)) return prefetch(address, bytes, device);                                \
        return SHIM_REAL(symbol, (CUdeviceptr, size_t, int, CUstream))(address, bytes, device,     \
                                                                       stream);                    \
    }
#define PREFETCH_V2(symbol)                                                                        \
    static CUresult symbol##_wrap(CUdeviceptr address, size_t bytes, CUmemLocation location,       \
                                  unsigned flags, CUstream stream)                                 \
    {                                                                                              \
        if (owns(address)) return prefetch(address, bytes, location_device(location));             \
        return SHIM_REAL(symbol, (CUdeviceptr, size_t, CUmemLocation, unsigned, CUstream))(        \
            address, bytes, location, flags, stream);                                              \
    }
PREFETCH(cuMemPrefetchAsync)
PREFETCH(cuMemPrefetchAsync_ptsz)
PREFETCH_V2(cuMemPrefetchAsync_v2)
PREFETCH_V2(cuMemPrefetchAsync_v2_ptsz)

static CUresult cuMemAdvise_wrap(CUdeviceptr address, size_t bytes, int advice, int device)
{
    if (owns(address)) return advise(address, bytes, advice, device);
    return SHIM_REAL(cuMemAdvise, (CUdeviceptr, size_t, int, int))(address, bytes, advice, device);
}

static CUresult cuMemAdvise_v2_wrap(CUdeviceptr address, size_t bytes, int advice,
                                    CUmemLocation location)
{
    if (owns(address)) return advise(address, bytes, advice, location_device(location));
    return SHIM_REAL(cuMemAdvise_v2, (CUdeviceptr, size_t, int, CUmemLocation))(address, bytes,
                                                                                advice, location);
}

/* ---- What holds on to physical memory is refused: the pool's moves ---- */

static CUresult refuse(const char *call, CUdeviceptr address, _Atomic(bool) *said)
{
    if (!atomic_exchange(said, true)) {
        log_error("%s: 0x%llx is memory of the pool, which moves and cannot be shared with another "
                  "process or device; run this program with VRAMPOOL=0, or allocate what it shares "
                  "with cuMemCreate (PyTorch: share through host memory)",
                  call, address);
    }
    return CUDA_ERROR_NOT_SUPPORTED;
}

#define REFUSE(symbol, address, params, args)                                                      \
    static CUresult symbol##_wrap params                                                           \
    {                                                                                              \
        static _Atomic(bool) said;                                                                 \
        CUdeviceptr used = (CUdeviceptr)(uintptr_t)(address);                                      \
        if (owns(used)) return refuse(#symbol, used, &said);                                       \
        return SHIM_REAL(symbol, params) args;                                                     \
    }
REFUSE(cuIpcGetMemHandle, address, (CUipcMemHandle * handle, CUdeviceptr address),
       (handle, address))
static CUresult cuMemRetainAllocationHandle_wrap(CUmemGenericAllocationHandle *handle,
                                                 void *address)
{
    static _Atomic(bool) said;
    CUdeviceptr used = (CUdeviceptr)(uintptr_t)address;
    if (shim_vmm_retain(handle, used)) return CUDA_SUCCESS;
    if (owns(used)) return refuse("cuMemRetainAllocationHandle", used, &said);
    return SHIM_REAL(cuMemRetainAllocationHandle,
                     (CUmemGenericAllocationHandle *, void *))(handle, address);
}
REFUSE(cuMemGetHandleForAddressRange, address,
       (void *handle, CUdeviceptr address, size_t bytes, int type, unsigned long long flags),
       (handle, address, bytes, type, flags))

REFUSE(cuMulticastBindMem, memory, /* a handle from vmm.c */
       (CUmemGenericAllocationHandle multicast, size_t offset, CUmemGenericAllocationHandle memory,
        size_t memory_offset, size_t bytes, unsigned long long flags),
       (multicast, offset, memory, memory_offset, bytes, flags))
REFUSE(cuMulticastBindAddr, address,
       (CUmemGenericAllocationHandle multicast, size_t offset, CUdeviceptr address, size_t bytes,
        unsigned long long flags),
       (multicast, offset, address, bytes, flags))

/* clang-format off */
const struct shim_wrap shim_memory_wraps[] = {
    SHIM_ROW_ONE(cuMemAlloc_v2, 3020),
    SHIM_ROW_ONE(cuMemAllocPitch_v2, 3020),
    SHIM_ROW_ONE(cuMemFree_v2, 3020),
    SHIM_ROW_PAIR(cuMemFreeAsync, cuMemFreeAsync_ptsz, 11020),
    SHIM_ROW_ONE(cuMemGetInfo, 2000),
    SHIM_ROW_ONE(cuMemGetInfo_v2, 3020),
    SHIM_ROW_ONE(cuMemGetAddressRange_v2, 3020),
    SHIM_ROW_ONE(cuPointerGetAttribute, 4000),
    SHIM_ROW_ONE(cuPointerGetAttributes, 7000),
    SHIM_ROW_ONE(cuPointerSetAttribute, 6000),
    SHIM_ROW_PAIR(cuMemPrefetchAsync, cuMemPrefetchAsync_ptsz, 8000),
    SHIM_ROW_PAIR(cuMemPrefetchAsync_v2, cuMemPrefetchAsync_v2_ptsz, 12020),
    SHIM_ROW_ONE(cuMemAdvise, 8000),
    SHIM_ROW_ONE(cuMemAdvise_v2, 12020),
    SHIM_ROW_ONE(cuIpcGetMemHandle, 4010),
    SHIM_ROW_ONE(cuMemRetainAllocationHandle, 11000),
    SHIM_ROW_ONE(cuMemGetHandleForAddressRange, 11070),
    SHIM_ROW_ONE(cuMulticastBindMem, 12010),
    SHIM_ROW_ONE(cuMulticastBindAddr, 12010),
    SHIM_ROWS_END,
};
/* clang-format on */
