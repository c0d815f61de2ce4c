/* One seed from beginning to end. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "sim.h"

struct sim sim;

enum { MOVER = SIM_THREADS, COPIER, STUDENT = COPIER + MOVE_WAYS, OPENS_MOST = 50 };
_Static_assert(FIBERS == STUDENT + 1, "the pool's threads, and the program's");

void sim_fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (sim.trace && sim.pool) world_dump();
    printf("seed %" PRIu64 ", thread %u: ", sim.seed, fiber_current());
    vprintf(format, args);
    va_end(args);
    struct emu_findings findings = emu_findings();
    if (findings.first[0] && !sim.card_lost) printf("; before: %s", findings.first);
    printf("\n");
    fflush(stdout);
    _exit(1);
}

void sim_trace(const char *format, ...)
{
    if (!sim.trace) return;
    va_list args;
    va_start(args, format);
    printf("%8" PRIu64 " %10" PRIu64 " [%u] ", sim.steps, emu_now_ns(), fiber_current());
    vprintf(format, args);
    va_end(args);
    printf("\n");
    fflush(stdout);
}

static void must(CUresult result, const char *call)
{
    if (result != CUDA_SUCCESS && !sim.card_lost) sim_fail("%s returned %d", call, result);
}

static void open_emulator(void)
{
    struct emu_options options = {.machine = &sim.machine,
                                  .seed = sim.seed,
                                  .carry_data = true,
                                  .threads = FIBERS + 1,
                                  .jitter_percent = (unsigned)sim_below(200)};
    vp_status status = emu_open(&options);
    if (status != VP_OK) sim_fail("emu_open: %s", vp_status_text(status));
    emu_set_thread(FIBER_MAIN);
    must(cuInit(0), "cuInit");
    for (unsigned card = 0; card < sim.profile.cards; card++) {
        if (!(sim.options.compute_cards >> card & 1)) continue;
        must(cuDevicePrimaryCtxRetain(&sim.context[card], (CUdevice)card), "retaining a context");
        must(cuCtxSetCurrent(sim.context[card]), "cuCtxSetCurrent");
        sim.module[card] = kernels_load();
    }
    must(cuCtxSetCurrent(sim.context[0]), "cuCtxSetCurrent");
}

static void open_pool(void)
{
    edge_wrap_driver(&sim.driver);
    for (unsigned tries = 0;; tries++) {
        sim.injecting = sim.profile.failing_open && tries < OPENS_MOST;
        vp_status status = pool_open_stepped(&sim.driver, &sim.options, edge_hooks(), &sim.pool);
        if (status == VP_OK) break;
        sim.coverage.failed_opens++;
        if (!sim.injecting || !sim.injected)
            sim_fail("the pool does not open: %s", vp_status_text(status));
    }
    sim.injecting = sim.profile.failures != FAIL_NEVER;
    sim.injected = false;
    bool eager = random_below(&sim.schedule, 2); /* periods are short */
    sim.pool->move.ease_ops = eager ? 0 : (uint32_t)random_below(&sim.schedule, 32);
    if (sim.profile.forecasts &&
        foresight_create(&sim.pool->move.foresight, &sim.pool->segments) != VP_OK)
        sim_fail("no memory for forecasts");
}

static unsigned pick_card(void)
{
    unsigned card;
    do card = (unsigned)sim_below(sim.profile.cards);
    while (!(sim.options.compute_cards >> card & 1));
    return card;
}

static void open_threads(void)
{
    for (unsigned i = 0; i < sim.profile.threads; i++) {
        struct thread *thread = &sim.threads[i];
        *thread = (struct thread){.index = i, .card = pick_card(), .left = sim.profile.actions};
        must(cuCtxSetCurrent(sim.context[thread->card]), "cuCtxSetCurrent");
        void *pinned = NULL;
        must(cuMemHostAlloc(&pinned, 8 * SIM_PINNED_WORDS, 0), "cuMemHostAlloc");
        thread->pinned = pinned;
        must(cuEventCreate(&thread->pinned_event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
        thread->scratch = malloc(8 * SIM_PINNED_WORDS);
        assert(thread->scratch);
    }
}

static void close_threads(void)
{
    for (unsigned i = 0; i < sim.profile.threads; i++) {
        struct thread *thread = &sim.threads[i];
        must(cuCtxSetCurrent(sim.context[thread->card]), "cuCtxSetCurrent");
        transfer_look_at_pinned(thread);
        must(cuMemFreeHost(thread->pinned), "cuMemFreeHost");
        must(cuEventDestroy_v2(thread->pinned_event), "cuEventDestroy");
        free(thread->scratch);
    }
}

static void resumed(unsigned index)
{
    emu_set_thread(index);
}

static void run_threads(void)
{
    for (unsigned i = 0; i < sim.profile.threads; i++)
        fiber_start(i, actions_of_thread, &sim.threads[i]);
    fiber_start(MOVER, actions_of_mover, NULL);
    for (unsigned i = 0; sim.profile.paced && i < pool_copiers(sim.pool); i++)
        fiber_start(COPIER + i, actions_of_copier, NULL);
    if (sim.profile.plans) fiber_start(STUDENT, actions_of_student, NULL);
    sim.done = false;
    sim.running = true;
    fiber_run_all(resumed);
    sim.running = false;
    edge_play_alone();
    emu_set_thread(FIBER_MAIN);
}

/* Every word of every block, once more. */
static void read_all(void)
{
    for (unsigned i = 0; i < SIM_BLOCKS; i++) {
        struct sim_block *block = &sim.blocks[i];
        if (!block->alive || block->lost || blocks_is_poisoned(block)) continue;
        struct thread *thread = &sim.threads[0];
        thread->card = block->card;
        must(cuCtxSetCurrent(sim.context[block->card]), "cuCtxSetCurrent");
        for (uint64_t at = 0, part; at < block->words; at += part) {
            part = block->words - at < SIM_PINNED_WORDS ? block->words - at : SIM_PINNED_WORDS;
            transfer_read(thread, block, at, part);
        }
    }
}

static void count(void)
{
    struct coverage *coverage = &sim.coverage;
    const struct move *move = &sim.pool->move;
    coverage->seeds++;
    coverage->moves += move->counts.fetches + move->counts.evictions + move->counts.drops;
    coverage->recalls += move->counts.recalls;
    coverage->in_place += move->counts.in_place;
    coverage->early_copies += move->counts.early_copies;
    coverage->clean_drops += move->counts.clean_drops;
    vp_stats stats;
    vp_stats_read(sim.pool, &stats);
    coverage->plans += stats.finder_periods;
    coverage->followed += stats.finder_matched + stats.finder_touches;
    coverage->left += stats.finder_deviations;
    coverage->returned += stats.finder_returns;
    for (unsigned state = 0; state < CHUNK_STATES; state++)
        for (unsigned event = 0; event < MOVE_EVENT_COUNT; event++) {
            uint64_t times = move->coverage[state][event];
            coverage->arrows[state][event] += times;
            if (event == MOVE_POISON && times) coverage->poisoned++;
        }
}

static void close_all(void)
{
    must(cuCtxSetCurrent(sim.context[0]), "cuCtxSetCurrent");
    sim.injecting = sim.profile.failing_close;
    bool streams_first = sim_chance(50);
    if (streams_first) streams_close_all();
    world_check();
    count();
    if (sim.profile.forecasts) foresight_destroy(&sim.pool->move.foresight);
    vp_close(sim.pool);
    sim.pool = NULL;
    if (!streams_first) streams_close_all();
    for (unsigned card = 0; card < sim.profile.cards; card++) {
        if (!sim.context[card]) continue;
        must(cuCtxSetCurrent(sim.context[card]), "cuCtxSetCurrent");
        must(cuModuleUnload(sim.module[card]), "cuModuleUnload");
        must(cuDevicePrimaryCtxRelease_v2((CUdevice)card), "releasing a context");
    }
    emu_close();
}

void sim_run_seed(uint64_t seed, bool trace)
{
    struct coverage kept = sim.coverage;
    memset(&sim, 0, sizeof sim);
    sim.coverage = kept;
    sim.seed = seed;
    sim.trace = trace;
    log_set_level(trace ? LOG_DEBUG : LOG_QUIET);
    sim.program.state = seed * 3;
    sim.schedule.state = seed * 3 + 1;
    sim.failure.state = seed * 3 + 2;
    edge_open();
    world_choose();
    open_emulator();
    open_pool();
    open_threads();
    streams_open_default();
    must(cuCtxSetCurrent(sim.context[0]), "cuCtxSetCurrent");
    run_threads();
    sim.injecting = false;
    read_all();
    blocks_free_all();
    close_threads();
    close_all();
    world_check_findings();
}
