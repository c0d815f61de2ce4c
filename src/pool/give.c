/* Giving back what was had from the driver. A call that fails is made again a few times: what it
 * does not take back is lost for good, so that is said. */
#include "base/log.h"
#include "pool/internal.h"

enum { TRIES = 32 };

#define GIVE(name, parameters, symbol, arguments)                                                  \
    void name parameters                                                                           \
    {                                                                                              \
        CUresult result;                                                                           \
        unsigned tries = 0;                                                                        \
        do result = pool->driver->symbol arguments;                                                \
        while (result != CUDA_SUCCESS && ++tries < TRIES);                                         \
        if (result != CUDA_SUCCESS && !pool->lost)                                                 \
            log_error(#symbol " fails: %s", driver_error_name(pool->driver, result));              \
    }

GIVE(pool_give_event, (const vp_pool *pool, CUevent event), cuEventDestroy_v2, (event))
GIVE(pool_give_stream, (const vp_pool *pool, CUstream stream), cuStreamDestroy_v2, (stream))
GIVE(pool_give_range, (const vp_pool *pool, vp_addr address, uint64_t bytes), cuMemAddressFree,
     (address, bytes))
GIVE(pool_give_module, (const vp_pool *pool, CUmodule module), cuModuleUnload, (module))

/* Memory that is not released now is once more tried to be at the end. */
void pool_give_handle(vp_pool *pool, CUmemGenericAllocationHandle handle)
{
    CUresult result;
    unsigned tries = 0;
    do result = pool->driver->cuMemRelease(handle);
    while (result != CUDA_SUCCESS && ++tries < TRIES);
    if (result == CUDA_SUCCESS) return;
    log_error("cuMemRelease fails: %s", driver_error_name(pool->driver, result));
    pool_lock(pool);
    if (pool->orphan_count < POOL_RESIDUES) pool->orphans[pool->orphan_count++] = handle;
    pool_unlock(pool);
}

void pool_give_host(vp_pool *pool, void *memory)
{
    CUresult result;
    unsigned tries = 0;
    do result = pool->driver->cuMemFreeHost(memory);
    while (result != CUDA_SUCCESS && ++tries < TRIES);
    if (result == CUDA_SUCCESS || pool->lost) return;
    log_error("cuMemFreeHost fails: %s", driver_error_name(pool->driver, result));
    pool_lock(pool);
    if (pool->host_orphan_count < POOL_RESIDUES)
        pool->host_orphans[pool->host_orphan_count++] = memory;
    pool_unlock(pool);
}

void pool_give_orphans(vp_pool *pool)
{
    uint32_t host_count = pool->host_orphan_count;
    pool->host_orphan_count = 0;
    for (uint32_t i = 0; i < host_count; i++) pool_give_host(pool, pool->host_orphans[i]);
    uint32_t count = pool->orphan_count;
    pool->orphan_count = 0;
    for (uint32_t i = 0; i < count; i++) pool_give_handle(pool, pool->orphans[i]);
}
