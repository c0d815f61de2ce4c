/* What the wrappers of queued work are made with: each call is one row of a list that names its
 * arguments and what it may touch; the macros write the wrapper, in each exported form, and the row
 * of the table that puts it in its slot.
 *
 *     #define SETS(X) X(SYNC, cuMemsetD8_v2, 3020, POOL_MEMSET,
 *                       (CUdeviceptr to, unsigned char value, size_t count), (to, value, count),
 *                       pool_op_touch_range(&op, to, count))
 *     SETS(SHIM_DEFINE)
 *     const struct shim_wrap shim_set_wraps[] = {SETS(SHIM_ROW) SHIM_ROWS_END};
 *
 * SYNC: the call works on the legacy default stream, its form _ptds on the thread's own.
 * ASYNC: the call names a stream (the argument after `kind` says which); for its form _ptsz a NULL
 * stream is the thread's own.
 * ONCE: a wrapper of a single form, for which the function SYMBOL_wrap is written by hand. */
#ifndef SHIM_WRAP_H
#define SHIM_WRAP_H

#include "shim/abi.h"
#include "shim/shim.h"

#define SHIM_LIST(...) __VA_ARGS__

/* What an operation names, in its full extent. A copy's host memory is not looked through. */
void shim_touch_copy(struct pool_op *op, const CUDA_MEMCPY3D *copy);
void shim_touch_plane(struct pool_op *op, CUdeviceptr to, size_t pitch, size_t element,
                      size_t width, size_t height);
void shim_touch_words(struct pool_op *op, const union abi_word *words, unsigned count);

/* The real function, as a function of these parameters. */
#define SHIM_REAL(symbol, params) ((CUresult(*) params)shim_reals[SHIM_##symbol])

#define SHIM_OPERATION(symbol, kind, stream_used, params, args, ...)                               \
    static CUresult symbol##_wrap params                                                           \
    {                                                                                              \
        CUresult(*real) params = SHIM_REAL(symbol, params);                                        \
        vp_pool *pool = shim_pool();                                                               \
        if (!pool) return real args;                                                               \
        struct pool_op op;                                                                         \
        struct shim_retry retry = {0};                                                             \
        CUresult result, entered;                                                                  \
        do {                                                                                       \
            pool_op_begin(&op, pool, kind, stream_used, #symbol);                                  \
            __VA_ARGS__;                                                                           \
            result = entered = pool_op_enter(&op);                                                 \
            if (entered == CUDA_SUCCESS) result = real args;                                       \
            result = pool_op_leave(&op, result);                                                   \
        } while (SHIM_RETRY(&retry, entered == CUDA_SUCCESS ? result : CUDA_ERROR_NOT_READY,       \
                            #symbol, SHIM_ON_CARD, 0));                                            \
        return result;                                                                             \
    }

#define SHIM_DEFINE_SYNC(symbol, since, kind, params, args, ...)                                   \
    SHIM_OPERATION(symbol, kind, NULL, params, args, __VA_ARGS__)                                  \
    SHIM_OPERATION(symbol##_ptds, kind, CU_STREAM_PER_THREAD, params, args, __VA_ARGS__)

#define SHIM_DEFINE_ASYNC(symbol, since, kind, stream_named, params, args, ...)                    \
    SHIM_OPERATION(symbol, kind, stream_named, params, args, __VA_ARGS__)                          \
    SHIM_OPERATION(symbol##_ptsz, kind, shim_own_stream(stream_named), params, args, __VA_ARGS__)

#define SHIM_DEFINE_ONCE(symbol, since)

/* The per-thread forms came with CUDA 7.0. */
#define SHIM_PER_THREAD_SINCE(since) ((since) < 7000 ? 7000 : (since))

#define SHIM_ROW_ONE(symbol, since)                                                                \
    {                                                                                              \
        SHIM_##symbol, since, (void *)symbol##_wrap                                                \
    }
#define SHIM_ROW_PAIR(symbol, other, since)                                                        \
    SHIM_ROW_ONE(symbol, since), SHIM_ROW_ONE(other, SHIM_PER_THREAD_SINCE(since))
#define SHIM_ROW_SYNC(symbol, since, ...)  SHIM_ROW_PAIR(symbol, symbol##_ptds, since),
#define SHIM_ROW_ASYNC(symbol, since, ...) SHIM_ROW_PAIR(symbol, symbol##_ptsz, since),
#define SHIM_ROW_ONCE(symbol, since)       SHIM_ROW_ONE(symbol, since),

#define SHIM_DEFINE(form, ...) SHIM_DEFINE_##form(__VA_ARGS__)
#define SHIM_ROW(form, ...)    SHIM_ROW_##form(__VA_ARGS__)
#define SHIM_ROWS_END                                                                              \
    {                                                                                              \
        SHIM_COUNT, 0, NULL                                                                        \
    }

static inline CUstream shim_own_stream(CUstream stream)
{
    return stream ? stream : CU_STREAM_PER_THREAD;
}

#endif
