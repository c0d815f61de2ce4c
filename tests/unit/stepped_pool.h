/* A pool in which one thread does everything, by a clock that the test turns. */
#ifndef TESTS_UNIT_STEPPED_POOL_H
#define TESTS_UNIT_STEPPED_POOL_H

#include "pool_fixture.h"

static vp_pool *pool;
static uint64_t now_ns;
static struct pool_thread own;

static inline void nothing(void *context) {}

static inline void wait_for(void *context, uint64_t ns)
{
    now_ns += ns;
}

static inline uint64_t clock_of(void *context)
{
    return now_ns;
}

static inline uint64_t thread_of(void *context)
{
    return (uint64_t)(uintptr_t)&own;
}

static const struct pool_edge edge = {.locked = nothing,
                                      .unlocked = nothing,
                                      .wait = wait_for,
                                      .now_ns = clock_of,
                                      .thread = thread_of,
                                      .wake = nothing,
                                      .pause = nothing};

/* On a card of 64 MiB, beside 64 MiB of the host. */
static inline void open_stepped(uint64_t hbm_bytes)
{
    vp_options options;
    play("1x64M");
    vp_options_init(&options);
    options.host_bytes = 64 * MIB;
    options.hbm_bytes = hbm_bytes;
    options.chunk_bytes = 2 * MIB;
    own = (struct pool_thread){.id = 1};
    assert_int_equal(pool_open_stepped(&driver, &options, &edge, &pool), VP_OK);
}

static inline CUresult fill(vp_addr block, uint64_t bytes)
{
    struct pool_op op;
    pool_op_begin(&op, pool, POOL_MEMSET, NULL, "cuMemsetD8Async");
    pool_op_touch_range(&op, block, bytes);
    CUresult result = pool_op_enter(&op);
    if (result == CUDA_SUCCESS) result = driver.cuMemsetD8Async(block, 1, bytes, NULL);
    return pool_op_leave(&op, result);
}

#endif
