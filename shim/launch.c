/* Launches: kernels, graphs, and captures into graphs. */
#include "shim/abi.h"
#include "shim/wrap.h"

static CUstream config_stream(const CUlaunchConfig *config)
{
    return config ? config->hStream : NULL;
}

static uint64_t shape_of(unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                         unsigned block_y, unsigned block_z)
{
    const uint64_t odd = UINT64_C(0x9E3779B97F4A7C15);
    uint64_t grid = grid_x | (uint64_t)grid_y << 32, mixed = grid_z | (uint64_t)block_x << 32;
    return ((grid * odd) ^ mixed) * odd ^ (block_y | (uint64_t)block_z << 32);
}

static uint64_t shape_of_config(const CUlaunchConfig *config)
{
    if (!config) return 0;
    return shape_of(config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX,
                    config->blockDimY, config->blockDimZ);
}

/* The oldest calls set their parameters one by one (cuParamSetv), unseen: they may touch anything.
 * A launch over several cards is rare and waits for all moves too: its streams are many, an
 * operation has one. */
/* clang-format off */
#define LAUNCHES(X) \
    X(ASYNC, cuLaunchKernel, 4000, POOL_KERNEL, stream, \
      (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, \
       unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void **params, \
       void **extra), \
      (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, params, \
       extra), \
      touch_params(&op, function, params, extra); \
      op.shape = shape_of(grid_x, grid_y, grid_z, block_x, block_y, block_z)) \
    X(ASYNC, cuLaunchKernelEx, 11060, POOL_KERNEL, config_stream(config), \
      (const CUlaunchConfig *config, CUfunction function, void **params, void **extra), \
      (config, function, params, extra), \
      touch_params(&op, function, params, extra); \
      op.shape = shape_of_config(config)) \
    X(ASYNC, cuLaunchCooperativeKernel, 9000, POOL_KERNEL, stream, \
      (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, \
       unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void **params), \
      (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, params), \
      touch_params(&op, function, params, NULL); \
      op.shape = shape_of(grid_x, grid_y, grid_z, block_x, block_y, block_z)) \
    X(ASYNC, cuGraphLaunch, 10000, POOL_GRAPH, stream, (CUgraphExec graph, CUstream stream), \
      (graph, stream), pool_op_touch_anything(&op)) \
    X(ONCE, cuLaunchCooperativeKernelMultiDevice, 9000) \
    X(ONCE, cuLaunch, 2000) \
    X(ONCE, cuLaunchGrid, 2000) \
    X(ONCE, cuLaunchGridAsync, 2000)
/* clang-format on */

static void touch_params(struct pool_op *op, CUfunction function, void **params, void **extra)
{
    if (function) pool_op_touch_params(op, function, params, extra);
}

LAUNCHES(SHIM_DEFINE)

SHIM_OPERATION(cuLaunchCooperativeKernelMultiDevice, POOL_KERNEL,
               count &&launches ? launches->stream : NULL,
               (struct abi_launch * launches, unsigned count, unsigned flags),
               (launches, count, flags), pool_op_touch_anything(&op))
SHIM_OPERATION(cuLaunch, POOL_KERNEL, NULL, (CUfunction function), (function),
               pool_op_touch_anything(&op))
SHIM_OPERATION(cuLaunchGrid, POOL_KERNEL, NULL, (CUfunction function, int width, int height),
               (function, width, height), pool_op_touch_anything(&op))
SHIM_OPERATION(cuLaunchGridAsync, POOL_KERNEL, stream,
               (CUfunction function, int width, int height, CUstream stream),
               (function, width, height, stream), pool_op_touch_anything(&op))

/* Captures. The pool is told before a capture begins, so that no move of the stream's chunks is
 * under way in it, and told back when the driver refuses. */
#define BEGIN(symbol, stream_used, params, args)                                                   \
    static CUresult symbol##_wrap params                                                           \
    {                                                                                              \
        vp_pool *pool = shim_pool();                                                               \
        if (pool) pool_capture_begins(pool, stream_used);                                          \
        CUresult result = SHIM_REAL(symbol, params) args;                                          \
        if (pool && result != CUDA_SUCCESS) pool_capture_ends(pool, stream_used, NULL);            \
        return result;                                                                             \
    }
#define BEGIN_FORMS(symbol, params, args)                                                          \
    BEGIN(symbol, stream, params, args)                                                            \
    BEGIN(symbol##_ptsz, shim_own_stream(stream), params, args)

#define END(symbol, stream_used)                                                                   \
    static CUresult symbol##_wrap(CUstream stream, CUgraph *graph)                                 \
    {                                                                                              \
        CUresult result = SHIM_REAL(symbol, (CUstream, CUgraph *))(stream, graph);                 \
        vp_pool *pool = shim_pool();                                                               \
        bool ended = result == CUDA_SUCCESS && graph;                                              \
        if (pool) pool_capture_ends(pool, stream_used, ended ? *graph : NULL);                     \
        return result;                                                                             \
    }

BEGIN_FORMS(cuStreamBeginCapture, (CUstream stream), (stream))
BEGIN_FORMS(cuStreamBeginCapture_v2, (CUstream stream, int mode), (stream, mode))
BEGIN_FORMS(cuStreamBeginCaptureToGraph,
            (CUstream stream, CUgraph graph, const CUgraphNode *after, const void *edges,
             size_t count, int mode),
            (stream, graph, after, edges, count, mode))
END(cuStreamEndCapture, stream)
END(cuStreamEndCapture_ptsz, shim_own_stream(stream))

/* clang-format off */
const struct shim_wrap shim_launch_wraps[] = {
    LAUNCHES(SHIM_ROW) /* ends in a comma */
    SHIM_ROW_PAIR(cuStreamBeginCapture, cuStreamBeginCapture_ptsz, 10000),
    SHIM_ROW_PAIR(cuStreamBeginCapture_v2, cuStreamBeginCapture_v2_ptsz, 10010),
    SHIM_ROW_PAIR(cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph_ptsz, 12030),
    SHIM_ROW_PAIR(cuStreamEndCapture, cuStreamEndCapture_ptsz, 10000),
    SHIM_ROWS_END,
};
/* clang-format on */
