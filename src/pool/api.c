/* The rest of vrampool.h. */
#include "pool/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"

/* An open use: an operation whose launch the pool does not see. */
struct use {
    struct pool_op op;
};

_Static_assert(sizeof(vp_use) >= sizeof(struct use *), "a vp_use holds a pointer");

vp_status vp_open(const vp_options *options, vp_pool **pool)
{
    if (!options || !pool || options->struct_size != sizeof *options) return VP_INVALID;
    struct driver driver;
    char path[sizeof driver.path];
    vp_status status = VP_OK;
    if (options->driver_path && strlen(options->driver_path) < sizeof path)
        strcpy(path, options->driver_path);
    else
        status = driver_find(NULL, path, sizeof path);
    if (status == VP_OK) status = driver_load(&driver, path);
    if (status != VP_OK) return status;
    CUcontext context = NULL;
    unsigned first = options->compute_cards ? (unsigned)__builtin_ctz(options->compute_cards) : 0;
    CUresult result = driver.cuInit(0);
    if (result == CUDA_SUCCESS) result = driver.cuCtxGetCurrent(&context);
    if (result == CUDA_SUCCESS && !context) {
        result = driver.cuDevicePrimaryCtxRetain(&context, (CUdevice)first);
        if (result == CUDA_SUCCESS) result = driver.cuCtxSetCurrent(context);
    }
    if (result != CUDA_SUCCESS) {
        log_error("the driver cannot be initialised: %s", driver_error_name(&driver, result));
        driver_unload(&driver);
        return VP_DRIVER;
    }
    struct driver *kept = malloc(sizeof *kept);
    if (kept) *kept = driver;
    status = kept ? pool_open(kept, options, pool) : VP_NO_HOST_MEMORY;
    if (status == VP_OK)
        (*pool)->owned_driver = kept;
    else
        free(kept);
    return status;
}

vp_status vp_use_begin(vp_pool *pool, vp_stream stream, const vp_addr *addresses, size_t count,
                       vp_use *use)
{
    struct use *open = malloc(sizeof *open);
    if (!open) return VP_NO_HOST_MEMORY;
    pool_op_begin(&open->op, pool, POOL_KERNEL, (CUstream)stream, "vp_use");
    open->op.shape = count;
    for (size_t i = 0; i < count; i++) pool_op_touch(&open->op, addresses[i]);
    CUresult result = pool_op_enter(&open->op);
    if (result != CUDA_SUCCESS) {
        result = pool_op_leave(&open->op, result);
        free(open);
        return result == CUDA_ERROR_OUT_OF_MEMORY ? VP_NO_DEVICE_MEMORY : VP_DRIVER;
    }
    memcpy(use->opaque, &open, sizeof open);
    return VP_OK;
}

void vp_use_end(vp_pool *pool, vp_use *use)
{
    struct use *open;
    memcpy(&open, use->opaque, sizeof open);
    CUresult result = pool_op_leave(&open->op, CUDA_SUCCESS);
    (void)result;
    free(open);
}

vp_status vp_prefetch(vp_pool *pool, vp_addr address, uint64_t bytes, unsigned place)
{
    if (place >= pool->frames.places) return VP_INVALID;
    pool_lock(pool);
    struct segment *segment = segment_of(&pool->segments, address);
    if (segment && bytes && place == pool->move.home[segment->card]) {
        vp_addr end = segment->base + segment->pages * pool->page_bytes;
        vp_addr last = (bytes < end - address ? address + bytes : end) - 1;
        for (uint32_t i = segment_chunk_at(segment, address); i <= segment_chunk_at(segment, last);
             i++)
            if (segment->chunks[i].state == CHUNK_ABSENT)
                move_want(&pool->move, &segment->chunks[i]);
    }
    pool_wake(pool);
    pool_unlock(pool);
    return segment ? VP_OK : VP_NOT_FOUND;
}

vp_status vp_advise(vp_pool *pool, vp_addr address, uint64_t bytes, vp_advice advice,
                    unsigned place)
{
    if (place >= pool->frames.places && advice != VP_ADVISE_NONE && advice != VP_ADVISE_READ_MOSTLY)
        return VP_INVALID;
    pool_lock(pool);
    struct segment *segment = segment_of(&pool->segments, address);
    if (segment && advice == VP_ADVISE_ACCESSED_BY) segment->loose = true;
    pool_unlock(pool);
    return segment ? VP_OK : VP_NOT_FOUND;
}

vp_status vp_locate(vp_pool *pool, vp_addr address, vp_location *location)
{
    struct space_entry *entry = space_entry_of(&pool->space, address);
    if (!entry || !atomic_load_explicit(&entry->owner, memory_order_acquire)) return VP_NOT_FOUND;
    space_location found = atomic_load_explicit(&entry->location, memory_order_acquire);
    uint64_t in_page = (address - pool->space.base) & (pool->page_bytes - 1);
    location->resident = found != 0;
    location->place = space_location_place(found);
    location->frame = space_location_frame(found);
    location->offset_bytes = space_location_page(found) * pool->page_bytes + in_page;
    return VP_OK;
}
