/* What the program's threads do, and the mover's thread. */
#include <inttypes.h>

#include "sim.h"

static void prefetch(struct thread *thread)
{
    const struct sim_block *block = blocks_pick(thread->card, 1);
    if (!block) return;
    unsigned place = (unsigned)sim_below(vp_place_count(sim.pool));
    uint64_t bytes = sim_between(1, 8 * block->words);
    sim_trace("prefetch %#" PRIx64 ", %" PRIu64 " bytes to place %u", block->address, bytes, place);
    vp_status status = vp_prefetch(sim.pool, block->address, bytes, place);
    if (status != VP_OK) sim_fail("vp_prefetch: %s", vp_status_text(status));
    sim.coverage.advice++;
}

static void advise(struct thread *thread)
{
    const struct sim_block *block = blocks_pick(thread->card, 1);
    if (!block) return;
    vp_advice advice = (vp_advice)sim_below(VP_ADVISE_NONE + 1);
    unsigned place = (unsigned)sim_below(vp_place_count(sim.pool));
    vp_status status = vp_advise(sim.pool, block->address, 8 * block->words, advice, place);
    if (status != VP_OK) sim_fail("vp_advise: %s", vp_status_text(status));
    sim.coverage.advice++;
}

static void ask(void)
{
    vp_stats stats;
    size_t free_bytes, total_bytes;
    vp_stats_read(sim.pool, &stats);
    CUresult result = pool_mem_info(sim.pool, &free_bytes, &total_bytes);
    if (result != CUDA_SUCCESS || free_bytes > total_bytes)
        sim_fail("pool_mem_info: %d, %zu of %zu bytes free", result, free_bytes, total_bytes);
}

/* A driver call of the program's failed for memory, as far as the pool knows. What it gives the
 * driver has. */
static void want_memory(struct thread *thread)
{
    struct pool_relief relief;
    uint64_t page = sim.pool->page_bytes, bytes = sim_chance(50) ? 0 : page * sim_between(1, 64);
    unsigned card = sim_chance(20) ? POOL_HOST : thread->card;
    if (!pool_relieve(sim.pool, card, bytes, &relief)) return;
    sim.coverage.reliefs++;
    sim_trace("place %u gives %" PRIu64 " pages", relief.place, relief.given_pages);
    CUmemAllocationProp prop = sim.pool->place_prop[relief.place];
    CUmemGenericAllocationHandle handle = 0;
    bool takes = card != POOL_HOST && sim_chance(70), helped = sim_chance(50);
    if (takes) helped = cuMemCreate(&handle, bytes ? bytes : page, &prop, 0) == CUDA_SUCCESS;
    bool enough = relief.given_pages * page >= bytes && sim.profile.threads == 1;
    if (takes && !helped && enough && !sim.injected && !sim.card_lost)
        sim_fail("the driver has not got what the pool gave it");
    emu_advance_ns(sim_below(20000));
    edge_yield();
    pool_relief_ends(sim.pool, &relief, helped);
    if (!helped || !takes) return;
    if (sim.profile.threads > 1) sim.profile.exact = false; /* others may have counted on it */
    if (cuMemRelease(handle) != CUDA_SUCCESS && !sim.card_lost) sim_fail("cuMemRelease failed");
}

static void wait_for_device(struct thread *thread)
{
    if (sim_chance(20)) {
        CUresult result = cuCtxSynchronize();
        if (result != CUDA_SUCCESS && !sim.card_lost)
            sim_fail("cuCtxSynchronize returned %d", result);
        return;
    }
    streams_synchronize(streams_pick(thread));
}

static void act(struct thread *thread)
{
    uint64_t kind = sim_below(100);
    if (kind < 14) {
        blocks_allocate(thread);
    } else if (kind < 22) {
        blocks_cut(thread);
    } else if (kind < 34) {
        blocks_free_some();
    } else if (kind < 58) {
        work_launch(thread);
    } else if (kind < 66) {
        if (sim.profile.tables) work_hidden(thread);
    } else if (kind < 82) {
        transfer_copy(thread);
    } else if (kind < 87) {
        transfer_memset(thread);
    } else if (kind < 90) {
        prefetch(thread);
    } else if (kind < 92) {
        advise(thread);
    } else if (kind < 93) {
        ask();
    } else if (kind < 94) {
        want_memory(thread);
    } else if (kind < 96) {
        wait_for_device(thread);
    } else if (kind < 98) {
        streams_make(thread);
    } else if (kind < 99) {
        if (sim_chance(50))
            streams_destroy_one(thread);
        else
            graphs_run(thread);
    } else {
        pool_functions_end(sim.pool);
        machines_lose_card();
    }
}

void actions_of_thread(void *argument)
{
    struct thread *thread = argument;
    CUresult result = cuCtxSetCurrent(sim.context[thread->card]);
    if (result != CUDA_SUCCESS) sim_fail("cuCtxSetCurrent returned %d", result);
    if (sim.profile.plans && thread->index == 0) steps_play(thread, act);
    while (thread->left-- > 0) {
        machines_break();
        act(thread);
        emu_advance_ns(sim_below(sim_chance(10) ? 100000 : 2000));
        edge_yield();
    }
    transfer_look_at_pinned(thread);
    for (unsigned i = 0; i < sim.profile.threads; i++)
        if (i != thread->index && fiber_is_alive(i)) return;
    sim.done = sim.pool->stopping = true;
}

/* As the mover's thread does it, where the pool's threads are not played: then whoever waits does
 * all that is to be done. */
static void move_alone(void)
{
    vp_pool *pool = sim.pool;
    CUcontext current = NULL;
    pool_lock(pool);
    while (!sim.done) {
        CUcontext context = pool->computes ? pool->context[__builtin_ctz(pool->computes)] : NULL;
        if (context != current) {
            pool_unlock(pool);
            CUresult result = pool->driver->cuCtxSetCurrent(context);
            pool_lock(pool);
            if (result == CUDA_SUCCESS) current = context;
        }
        if (!context || !pool_work(pool)) pool_wait(pool, 0);
    }
    pool_unlock(pool);
}

void actions_of_mover(void *unused)
{
    if (sim.profile.paced)
        pool_map_main(sim.pool);
    else
        move_alone();
}

void actions_of_copier(void *unused)
{
    pool_copy_main(sim.pool);
}

void actions_of_student(void *unused)
{
    vp_pool *pool = sim.pool;
    pool_lock(pool);
    while (!pool->foresee && !pool->stopping) pool_wait(pool, 0);
    pool_unlock(pool);
    if (pool->foresee) foresee_main(pool);
}
