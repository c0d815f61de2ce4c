/* XLA's memory: JAX and TensorFlow take it by the driver's VMM calls, and would keep it all outside
 * the pool.
 *
 * Each allocation there is a handle (cuMemCreate), an address range as large (cuMemAddressReserve)
 * and one mapping of the one to the other. Where XLA asks for such a handle it gets an allocation
 * of the pool, and the range that it reserves next is that allocation's own; mapping it then has
 * nothing to do. The allocation is freed once it has no handle, no mapping and no range any more.
 *
 * Only the caller tells XLA from others who call in the same order: NCCL, NVSHMEM and PyTorch's
 * symmetric memory export what they make, and so need what stays where it is. */
#include "shim/wrap.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

static const char *const xla_names[] = {"xla_cuda_plugin", "xla_extension", "libtensorflow"};

/* An allocation; its handle is its address, which the driver gives to nobody else. */
struct vmm_block {
    CUdeviceptr address;
    size_t bytes;
    uint64_t number; /* of the allocation (pool_range): another may have the address later */
    CUmemAllocationProp prop;
    unsigned handles;
    bool reserved, mapped;
    struct vmm_block *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct vmm_block *blocks;
static _Atomic(unsigned) block_count;     /* read without the lock: mostly there are none */
static _Thread_local CUdeviceptr created; /* by this thread's last call of these; else 0 */

/* Whether the block is still the pool's: that ends with its context, and another pool may give its
 * address to somebody else. */
static bool is_alive(vp_pool *pool, const struct vmm_block *block)
{
    struct pool_range range;
    return pool_mem_range(pool, block->address, &range) == CUDA_SUCCESS &&
           range.base == block->address && range.number == block->number;
}

/* Held: the lock. */
static void unlink_block(const struct vmm_block *block)
{
    struct vmm_block **link = &blocks;
    while (*link != block) link = &(*link)->next;
    *link = block->next;
    atomic_fetch_sub(&block_count, 1);
}

/* Takes the lock, and returns the block with the address in it; NULL: there is none, and it has no
 * lock. Without a pool, as in the child of a fork, there is none. */
static struct vmm_block *take(CUdeviceptr address)
{
    vp_pool *pool = atomic_load(&block_count) ? shim_pool() : NULL;
    if (!pool) return NULL;
    pthread_mutex_lock(&lock);
    struct vmm_block *block = blocks;
    while (block && address - block->address >= block->bytes) block = block->next;
    if (block && !is_alive(pool, block)) {
        unlink_block(block);
        free(block);
        block = NULL;
    }
    if (!block) pthread_mutex_unlock(&lock);
    return block;
}

static struct vmm_block *take_handle(CUmemGenericAllocationHandle handle)
{
    struct vmm_block *block = take(handle);
    if (!block || (block->address == handle && block->handles)) return block;
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* An address, or a handle, of the pool. Where no block has it, it is of memory that was freed, or
 * that never was XLA's: the driver may find a mapping of ours there, and is not asked. */
static bool is_pools(uint64_t value)
{
    vp_pool *pool = shim_pool();
    return pool && pool_owns(pool, value);
}

/* Gives up the lock, and the block if nothing holds it any more. */
static CUresult leave(struct vmm_block *block, CUresult result)
{
    bool ends = !block->handles && !block->reserved && !block->mapped;
    if (ends) unlink_block(block);
    pthread_mutex_unlock(&lock);
    if (!ends) return result;
    vp_pool *pool = shim_pool();
    if (pool && is_alive(pool, block)) pool_mem_free(pool, block->address);
    free(block);
    return result;
}

/* Said once for each such call. */
static CUresult refuse(_Atomic(bool) *said, const char *call, const char *what)
{
    if (!atomic_exchange(said, true))
        log_error("%s: %s is not possible with memory of the pool; run this program with "
                  "VRAMPOOL=0 if it needs that",
                  call, what);
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* ---- Handles ---- */

static bool is_xla(const void *caller)
{
    Dl_info object;
    if (!dladdr(caller, &object) || !object.dli_fname) return false;
    const char *slash = strrchr(object.dli_fname, '/');
    const char *name = slash ? slash + 1 : object.dli_fname;
    for (size_t i = 0; i < sizeof xla_names / sizeof *xla_names; i++)
        if (strstr(name, xla_names[i])) return true;
    return false;
}

/* What the pool's memory can be: of the current card, where kernels reach it and nothing else. Of
 * what is no multiple of the granularity the driver says that it is wrong. */
static bool suits(const CUmemAllocationProp *prop, size_t bytes, unsigned long long flags)
{
    CUdevice device;
    size_t grain = 0;
    return prop && bytes && !flags && prop->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
           prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
           !prop->allocFlags.compressionType && !prop->allocFlags.usage &&
           shim_computes(prop->location.id) &&
           shim_driver.cuCtxGetDevice(&device) == CUDA_SUCCESS && device == prop->location.id &&
           shim_driver.cuMemGetAllocationGranularity(
               &grain, prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM) == CUDA_SUCCESS &&
           grain && bytes % grain == 0;
}

/* CUDA_ERROR_NOT_FOUND: the pool has no such memory. */
static CUresult create(CUmemGenericAllocationHandle *handle, size_t bytes,
                       const CUmemAllocationProp *prop)
{
    vp_pool *pool = shim_pool_wanted();
    struct vmm_block *block = pool ? malloc(sizeof *block) : NULL;
    if (!block) return CUDA_ERROR_NOT_FOUND;
    struct pool_range range;
    *block = (struct vmm_block){.bytes = bytes, .prop = *prop, .handles = 1};
    CUresult result = pool_mem_alloc(pool, &block->address, bytes);
    if (result == CUDA_SUCCESS && pool_mem_range(pool, block->address, &range) != CUDA_SUCCESS) {
        pool_mem_free(pool, block->address);
        result = CUDA_ERROR_NOT_FOUND;
    }
    if (result != CUDA_SUCCESS) {
        free(block);
        return result;
    }
    block->number = range.number;
    *handle = created = block->address;
    pthread_mutex_lock(&lock);
    block->next = blocks;
    blocks = block;
    atomic_fetch_add(&block_count, 1);
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

#define CREATE_PARAMS                                                                              \
    (CUmemGenericAllocationHandle * handle, size_t bytes, const CUmemAllocationProp *prop,         \
     unsigned long long flags)

static CUresult cuMemCreate_wrap CREATE_PARAMS
{
    created = 0;
    CUresult result = CUDA_ERROR_NOT_FOUND;
    if (handle && is_xla(__builtin_return_address(0)) && suits(prop, bytes, flags))
        result = create(handle, bytes, prop);
    if (result != CUDA_ERROR_NOT_FOUND) return result;
    struct shim_retry retry = {0};
    do result = SHIM_REAL(cuMemCreate, CREATE_PARAMS)(handle, bytes, prop, flags);
    while (SHIM_RETRY(&retry, result, "cuMemCreate", shim_card_of(prop), bytes));
    return result;
}

static CUresult cuMemRelease_wrap(CUmemGenericAllocationHandle handle)
{
    created = 0;
    struct vmm_block *block = take_handle(handle);
    if (!block && is_pools(handle)) return CUDA_ERROR_INVALID_VALUE;
    if (!block) return SHIM_REAL(cuMemRelease, (CUmemGenericAllocationHandle))(handle);
    block->handles--;
    return leave(block, CUDA_SUCCESS);
}

bool shim_vmm_retain(CUmemGenericAllocationHandle *handle, CUdeviceptr address)
{
    struct vmm_block *block = handle ? take(address) : NULL;
    if (!block) return false;
    *handle = block->address;
    block->handles++;
    pthread_mutex_unlock(&lock);
    return true;
}

static CUresult cuMemGetAllocationPropertiesFromHandle_wrap(CUmemAllocationProp *prop,
                                                            CUmemGenericAllocationHandle handle)
{
    struct vmm_block *block = prop ? take_handle(handle) : NULL;
    if (!block && is_pools(handle)) return CUDA_ERROR_INVALID_VALUE;
    if (!block)
        return SHIM_REAL(cuMemGetAllocationPropertiesFromHandle,
                         (CUmemAllocationProp *, CUmemGenericAllocationHandle))(prop, handle);
    *prop = block->prop;
    return leave(block, CUDA_SUCCESS);
}

#define EXPORT_PARAMS                                                                              \
    (void *shareable, CUmemGenericAllocationHandle handle, int type, unsigned long long flags)

static CUresult cuMemExportToShareableHandle_wrap EXPORT_PARAMS
{
    struct vmm_block *block = take_handle(handle);
    if (!block && is_pools(handle)) return CUDA_ERROR_INVALID_VALUE;
    if (!block)
        return SHIM_REAL(cuMemExportToShareableHandle, EXPORT_PARAMS)(shareable, handle, type,
                                                                      flags);
    static _Atomic(bool) said;
    leave(block, CUDA_SUCCESS);
    return refuse(&said, "cuMemExportToShareableHandle", "to share it with another process");
}

/* ---- Addresses ---- */

#define RESERVE_PARAMS                                                                             \
    (CUdeviceptr * address, size_t bytes, size_t alignment, CUdeviceptr wish,                      \
     unsigned long long flags)

static CUresult cuMemAddressReserve_wrap RESERVE_PARAMS
{
    struct vmm_block *block = created && address && !wish && !flags ? take_handle(created) : NULL;
    created = 0;
    if (block && block->bytes == bytes && !block->reserved &&
        (!alignment || block->address % alignment == 0)) {
        *address = block->address;
        block->reserved = true;
        return leave(block, CUDA_SUCCESS);
    }
    if (block) leave(block, CUDA_SUCCESS);
    return SHIM_REAL(cuMemAddressReserve, RESERVE_PARAMS)(address, bytes, alignment, wish, flags);
}

static CUresult cuMemAddressFree_wrap(CUdeviceptr address, size_t bytes)
{
    created = 0;
    struct vmm_block *block = take(address);
    if (!block && is_pools(address)) return CUDA_ERROR_INVALID_VALUE;
    if (!block) return SHIM_REAL(cuMemAddressFree, (CUdeviceptr, size_t))(address, bytes);
    bool fine =
        block->reserved && !block->mapped && address == block->address && bytes == block->bytes;
    if (fine) block->reserved = false;
    return leave(block, fine ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

#define MAP_PARAMS                                                                                 \
    (CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,        \
     unsigned long long flags)

static CUresult cuMemMap_wrap MAP_PARAMS
{
    static _Atomic(bool) said;
    created = 0;
    struct vmm_block *block = take_handle(handle), *there = block ? NULL : take(address);
    if (block) {
        bool own = block->reserved && address == block->address && bytes == block->bytes &&
                   !offset && !flags;
        if (!own)
            return leave(block, refuse(&said, "cuMemMap", "to map it elsewhere, or in parts"));
        bool again = block->mapped;
        block->mapped = true;
        return leave(block, again ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS);
    }
    if (there)
        return leave(there, refuse(&said, "cuMemMap", "to map other memory to its addresses"));
    if (is_pools(address) || is_pools(handle)) return CUDA_ERROR_INVALID_VALUE;
    CUresult result;
    struct shim_retry retry = {0};
    do result = SHIM_REAL(cuMemMap, MAP_PARAMS)(address, bytes, offset, handle, flags);
    while (SHIM_RETRY(&retry, result, "cuMemMap", SHIM_ON_CARD, 0));
    return result;
}

static CUresult cuMemUnmap_wrap(CUdeviceptr address, size_t bytes)
{
    created = 0;
    struct vmm_block *block = take(address);
    if (!block && is_pools(address)) return CUDA_ERROR_INVALID_VALUE;
    if (!block) return SHIM_REAL(cuMemUnmap, (CUdeviceptr, size_t))(address, bytes);
    bool fine = block->mapped && address == block->address && bytes == block->bytes;
    if (fine) block->mapped = false;
    return leave(block, fine ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

/* ---- Access: the cards that compute have it ---- */

static bool has_access(const CUmemLocation *location)
{
    return location->type == CU_MEM_LOCATION_TYPE_DEVICE && shim_computes(location->id);
}

#define SET_PARAMS (CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access, size_t count)

static CUresult cuMemSetAccess_wrap SET_PARAMS
{
    static _Atomic(bool) said;
    struct vmm_block *block = access && count ? take(address) : NULL;
    if (block) {
        bool fine = block->mapped && bytes && bytes <= block->bytes - (address - block->address);
        bool may = true;
        for (size_t i = 0; i < count; i++) may = may && has_access(&access[i].location);
        leave(block, CUDA_SUCCESS);
        if (!fine) return CUDA_ERROR_INVALID_VALUE;
        return may ? CUDA_SUCCESS
                   : refuse(&said, "cuMemSetAccess",
                            "to open it to what is not a card that computes");
    }
    if (is_pools(address)) return CUDA_ERROR_INVALID_VALUE;
    CUresult result;
    struct shim_retry retry = {0};
    do result = SHIM_REAL(cuMemSetAccess, SET_PARAMS)(address, bytes, access, count);
    while (SHIM_RETRY(&retry, result, "cuMemSetAccess", SHIM_ON_CARD, 0));
    return result;
}

#define GET_PARAMS (unsigned long long *flags, const CUmemLocation *location, CUdeviceptr address)

static CUresult cuMemGetAccess_wrap GET_PARAMS
{
    struct vmm_block *block = flags && location ? take(address) : NULL;
    if (!block) return SHIM_REAL(cuMemGetAccess, GET_PARAMS)(flags, location, address);
    bool mapped = block->mapped;
    *flags =
        has_access(location) ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return leave(block, mapped ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

/* clang-format off */
const struct shim_wrap shim_vmm_wraps[] = {
    SHIM_ROW_ONE(cuMemCreate, 10020),
    SHIM_ROW_ONE(cuMemRelease, 10020),
    SHIM_ROW_ONE(cuMemGetAllocationPropertiesFromHandle, 10020),
    SHIM_ROW_ONE(cuMemExportToShareableHandle, 10020),
    SHIM_ROW_ONE(cuMemAddressReserve, 10020),
    SHIM_ROW_ONE(cuMemAddressFree, 10020),
    SHIM_ROW_ONE(cuMemMap, 10020),
    SHIM_ROW_ONE(cuMemUnmap, 10020),
    SHIM_ROW_ONE(cuMemSetAccess, 10020),
    SHIM_ROW_ONE(cuMemGetAccess, 10020),
    SHIM_ROWS_END,
};
/* clang-format on */
