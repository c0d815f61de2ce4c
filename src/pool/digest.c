/* Digests of what lies on a card, made there: the kernel (digest_kernel.ptx) and where its parts
 * go.
 *
 * The kernel is loaded into each card's context. It writes its parts into pinned host memory,
 * a place for each copy that may be in flight, and the host adds them up: so a digest is one launch
 * and nothing else. Where any of this fails, or the kernel gives another digest than the host of
 * something that both can read, none are made, and everything is copied. */
#include "pool/internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/log.h"
#include "base/random.h"

enum { PARTS = MOVE_COPIES * DIGEST_BLOCKS, TRIAL = 1, TRIAL_UNITS = 3 * DIGEST_BLOCKS + 5 };
_Static_assert((PARTS - DIGEST_BLOCKS) * sizeof(struct digest) >= TRIAL_UNITS * DIGEST_UNIT_BYTES,
               "the trial's data lies where other parts will");

extern const char digest_kernel_ptx[];

static struct digest *parts_of(const struct pool_lane *lane, uint64_t ticket)
{
    return &lane->parts[ticket % MOVE_COPIES * DIGEST_BLOCKS];
}

static CUresult launch(vp_pool *pool, const struct pool_lane *lane, uint64_t ticket,
                       uint64_t address, uint64_t bytes)
{
    assert(bytes % DIGEST_UNIT_BYTES == 0);
    uint64_t units = bytes / DIGEST_UNIT_BYTES;
    uint64_t parts = (uint64_t)(uintptr_t)parts_of(lane, ticket);
    void *params[] = {&address, &units, &parts, &pool->digest_seeds.seed[0],
                      &pool->digest_seeds.seed[1]};
    return pool->driver->cuLaunchKernel(lane->digest, DIGEST_BLOCKS, 1, 1, DIGEST_BLOCK_THREADS, 1,
                                        1, 0, lane->stream, params, NULL);
}

bool digest_queue(vp_pool *pool, unsigned index, uint64_t ticket, vp_addr address, uint64_t bytes)
{
    CUcontext context = pool->context[move_lane_card(index)], before;
    const struct pool_lane *lane = &pool->lanes[index];
    if (!lane->digest || pool_enter_context(pool, context, &before) != CUDA_SUCCESS) return false;
    CUresult result = launch(pool, lane, ticket, address, bytes);
    pool_leave_context(pool, context, before);
    return result == CUDA_SUCCESS;
}

struct digest digest_read(const struct pool_lane *lane, uint64_t ticket)
{
    struct digest sum = {{0}};
    const struct digest *parts = parts_of(lane, ticket);
    for (unsigned i = 0; i < DIGEST_BLOCKS; i++) digest_add(&sum, &parts[i]);
    return sum;
}

/* Digests a part of its own pinned memory, of which the host makes a digest as well. */
static CUresult try_out(vp_pool *pool, const struct pool_lane *lane, bool *agrees)
{
    struct random random = {pool->digest_seeds.seed[0]};
    struct digest expected = {{0}};
    uint64_t *data = (uint64_t *)parts_of(lane, TRIAL + 1);
    for (unsigned i = 0; i < 2 * TRIAL_UNITS; i++) data[i] = random_next(&random);
    digest_add_units(&expected, &pool->digest_seeds, 0, data, TRIAL_UNITS);
    CUresult result = launch(pool, lane, TRIAL, (uint64_t)(uintptr_t)data,
                             (uint64_t)TRIAL_UNITS * DIGEST_UNIT_BYTES);
    if (result == CUDA_SUCCESS) result = pool->driver->cuStreamSynchronize(lane->stream);
    struct digest made = digest_read(lane, TRIAL);
    *agrees = digest_is_equal(&made, &expected);
    return result;
}

/* Seeds that nobody can have had in mind; in simulation, always the same. */
static void draw_seeds(vp_pool *pool)
{
    struct digest_seeds *seeds = &pool->digest_seeds;
    if (seeds->seed[0]) return;
    struct random random = {pool->edge ? 1 : pool_now_ns(pool) ^ (uint64_t)(uintptr_t)pool};
    seeds->seed[0] = random_next(&random) | 1;
    seeds->seed[1] = random_next(&random);
    if (!pool->edge && getrandom(seeds, sizeof *seeds, GRND_NONBLOCK) == sizeof *seeds)
        seeds->seed[0] |= 1;
}

static CUresult set_up(vp_pool *pool, struct pool_lane *lane, bool *agrees)
{
    void *parts;
    CUresult result = pool->driver->cuMemHostAlloc(&parts, PARTS * sizeof *lane->parts, 0);
    if (result != CUDA_SUCCESS) return result;
    lane->parts = parts;
    return try_out(pool, lane, agrees);
}

static CUresult load(const vp_pool *pool, struct pool_lane *lane)
{
    CUresult result = pool->driver->cuModuleLoadData(&lane->module, digest_kernel_ptx);
    if (result != CUDA_SUCCESS) lane->module = NULL;
    if (result != CUDA_SUCCESS) return result;
    return pool->driver->cuModuleGetFunction(&lane->digest, lane->module, DIGEST_KERNEL);
}

void digest_open(vp_pool *pool, struct pool_lane *in, struct pool_lane *out)
{
    if (pool->options.verify) return; /* little is at home long enough */
    pool_lock(pool);
    draw_seeds(pool);
    pool_unlock(pool);
    int mode = CU_STREAM_CAPTURE_MODE_RELAXED; /* this disturbs no capture of the program's */
    bool agrees = true, relaxes = pool_exchange_mode(pool, &mode) == CUDA_SUCCESS;
    CUresult result = load(pool, in);
    out->digest = in->digest;
    if (result == CUDA_SUCCESS) result = set_up(pool, in, &agrees);
    if (result == CUDA_SUCCESS && agrees) result = set_up(pool, out, &agrees);
    if (relaxes) pool_exchange_mode(pool, &mode);
    if (result == CUDA_SUCCESS && agrees) return;
    log_warn("this card makes no digests (%s): chunks that are only read are copied out each time",
             result == CUDA_SUCCESS ? "it gives wrong ones"
                                    : driver_error_name(pool->driver, result));
    digest_close(pool, in);
    digest_close(pool, out);
}

void digest_close(vp_pool *pool, struct pool_lane *lane)
{
    if (lane->parts) pool_give_host(pool, lane->parts);
    if (lane->module) pool_give_module(pool, lane->module);
    lane->parts = NULL;
    lane->module = NULL;
    lane->digest = NULL;
}
