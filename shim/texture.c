/* Textures over memory of the pool. A kernel gets a texture as a number, or not at all: nothing
 * tells which memory it reads. So that memory stays mapped where it is for as long as the texture
 * is there, as for a graph. Textures and surfaces over arrays are the driver's own memory. */
#include "shim/abi.h"
#include "shim/wrap.h"

/* Brings the block within reach and keeps it there for `owner`. */
static CUresult keep(vp_pool *pool, CUdeviceptr address, const void *owner, const char *call)
{
    struct pool_op op;
    pool_op_begin(&op, pool, POOL_GRAPH, NULL, call);
    pool_op_touch(&op, address);
    return pool_op_keep(&op, owner);
}

/* ---- Objects ---- */

static const void *object_owner(uint64_t object)
{
    return (const void *)(uintptr_t)object;
}

/* The block has to be there when the driver looks at it, before there is an object to keep it. */
static CUresult cuTexObjectCreate_wrap(uint64_t *object, const struct abi_resource *resource,
                                       const void *texture, const void *view)
{
    CUresult (*real)(uint64_t *, const struct abi_resource *, const void *, const void *) =
        SHIM_REAL(cuTexObjectCreate,
                  (uint64_t *, const struct abi_resource *, const void *, const void *));
    bool views = object && resource &&
                 (resource->type == ABI_RESOURCE_LINE || resource->type == ABI_RESOURCE_PLANE);
    vp_pool *pool = views ? shim_pool() : NULL;
    bool ours = pool && pool_owns(pool, resource->address);
    if (ours) {
        CUresult kept = keep(pool, resource->address, &resource, "cuTexObjectCreate");
        if (kept != CUDA_SUCCESS) return kept;
    }
    struct shim_retry retry = {0};
    CUresult result;
    do result = real(object, resource, texture, view);
    while (SHIM_RETRY(&retry, result, "cuTexObjectCreate", SHIM_ON_CARD, 0));
    if (ours && result == CUDA_SUCCESS) pool_keeper_copies(pool, object_owner(*object), &resource);
    if (ours) pool_keeper_ends(pool, &resource);
    return result;
}

/* The driver may give its number to another at once. */
static CUresult cuTexObjectDestroy_wrap(uint64_t object)
{
    vp_pool *pool = shim_pool();
    if (pool) pool_keeper_moves(pool, &pool, object_owner(object));
    CUresult result = SHIM_REAL(cuTexObjectDestroy, (uint64_t))(object);
    if (pool && result != CUDA_SUCCESS) pool_keeper_moves(pool, object_owner(object), &pool);
    if (pool && result == CUDA_SUCCESS) pool_keeper_ends(pool, &pool);
    return result;
}

static CUresult cuSurfObjectCreate_wrap(uint64_t *object, const struct abi_resource *resource)
{
    struct shim_retry retry = {0};
    CUresult result;
    do
        result = SHIM_REAL(cuSurfObjectCreate, (uint64_t *, const struct abi_resource *))(object,
                                                                                          resource);
    while (SHIM_RETRY(&retry, result, "cuSurfObjectCreate", SHIM_ON_CARD, 0));
    return result;
}

/* ---- References: the older kind, variables of a module. What one is bound to it keeps until it is
 * bound anew; of those that are never, the block stays for good. ---- */

/* What the reference kept before is kept aside until it is bound anew. */
static void settle(vp_pool *pool, const void *reference, const void *aside, CUresult result)
{
    if (result == CUDA_SUCCESS) {
        pool_keeper_ends(pool, aside);
        return;
    }
    pool_keeper_ends(pool, reference);
    pool_keeper_moves(pool, reference, aside);
}

#define BINDS(symbol, params, args)                                                                \
    static CUresult symbol##_wrap params                                                           \
    {                                                                                              \
        vp_pool *pool = reference ? shim_pool() : NULL;                                            \
        CUresult result = CUDA_SUCCESS;                                                            \
        if (pool) pool_keeper_moves(pool, &pool, reference);                                       \
        if (pool && pool_owns(pool, address)) result = keep(pool, address, reference, #symbol);    \
        if (result == CUDA_SUCCESS) result = SHIM_REAL(symbol, params) args;                       \
        if (pool) settle(pool, reference, &pool, result);                                          \
        return result;                                                                             \
    }
BINDS(cuTexRefSetAddress_v2, (size_t * offset, void *reference, CUdeviceptr address, size_t bytes),
      (offset, reference, address, bytes))
BINDS(cuTexRefSetAddress2D_v2,
      (void *reference, const void *what, CUdeviceptr address, size_t pitch),
      (reference, what, address, pitch))
BINDS(cuTexRefSetAddress2D_v3,
      (void *reference, const void *what, CUdeviceptr address, size_t pitch),
      (reference, what, address, pitch))

/* clang-format off */
const struct shim_wrap shim_texture_wraps[] = {
    SHIM_ROW_ONE(cuTexObjectCreate, 5000),
    SHIM_ROW_ONE(cuTexObjectDestroy, 5000),
    SHIM_ROW_ONE(cuSurfObjectCreate, 5000),
    SHIM_ROW_ONE(cuTexRefSetAddress_v2, 3020),
    SHIM_ROW_ONE(cuTexRefSetAddress2D_v2, 3020),
    SHIM_ROW_ONE(cuTexRefSetAddress2D_v3, 4010),
    SHIM_ROWS_END,
};
/* clang-format on */
