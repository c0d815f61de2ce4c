/* The pool's edge in the simulation: where threads take turns, where time passes, and where driver
 * calls fail.
 *
 * The pool's driver table is the emulator's with a wrapper around each call. In the wrapper another
 * thread may run before the call and after it, as it may on a real machine, and the call may be
 * made to fail; the emulator's own means to fail calls does that, so that the call has no effect.
 */
#include "sim.h"

/* Hooks called without anything being achieved. A hold of the largest program takes some thousand.
 */
enum { STEPS_MOST = 400000 };

static void step(void)
{
    sim.steps++;
    if (sim.steps - sim.progress_step > STEPS_MOST)
        sim_fail("no operation got anywhere for %d steps: %u chunks on the move, %u operations "
                 "running alone, %u frames being made, %llu pages wanted, requests %swait",
                 STEPS_MOST, sim.pool->move.moving, sim.pool->move.exclusive_running,
                 sim.pool->move.making, (unsigned long long)move_wanted_pages(&sim.pool->move),
                 list_empty(&sim.pool->move.requests) ? "do not " : "");
}

void edge_progress(void)
{
    sim.progress_step = sim.steps;
}

/* A thread that has run for so long without a pause is made to pause. */
enum { SLICE_STEPS = 500 };

static void switch_at(unsigned percent)
{
    assert(!sim.locked);
    bool over = sim.steps - sim.switch_step > SLICE_STEPS;
    if (!sim.running || (!over && random_below(&sim.schedule, 100) >= percent)) return;
    unsigned next = (unsigned)random_below(&sim.schedule, FIBERS);
    if (!fiber_is_alive(next) || next == fiber_current()) return;
    sim.coverage.switches++;
    sim.switch_step = sim.steps;
    fiber_switch(next);
}

void edge_yield(void)
{
    switch_at(sim.profile.switch_percent);
}

static void let_time_pass(void);

void edge_pause(void)
{
    let_time_pass();
    switch_at(80);
}

/* ---- Hooks ---- */

static void catch_up(uint64_t at_ns)
{
    uint64_t now_ns = emu_now_ns();
    if (now_ns < at_ns) emu_advance_ns(at_ns - now_ns);
}

/* Who takes the lock knows what was done under it before: its clock cannot be behind. */
static void take(void)
{
    catch_up(sim.lock_ns);
    sim.locked = true;
}

static void release(void)
{
    sim.lock_ns = emu_now_ns();
    sim.locked = false;
}

static void locked(void *context)
{
    if (sim.locked) sim_fail("the pool takes its lock while it holds it");
    take();
}

static void unlocked(void *context)
{
    if (!sim.locked) sim_fail("the pool lets a lock go that it does not hold");
    release();
    step();
    if (sim.running && random_below(&sim.schedule, 64) == 0) world_check();
    switch_at(sim.profile.switch_percent);
}

static void let_time_pass(void)
{
    uint64_t at_ns, now_ns = emu_now_ns();
    bool jump = random_below(&sim.schedule, 4) == 0 && emu_next_event_ns(&at_ns);
    if (jump && at_ns > now_ns)
        emu_advance_ns(at_ns - now_ns);
    else
        emu_advance_ns(1 + random_below(&sim.schedule, 20000));
}

static void wait_a_moment(void *context, uint64_t ns)
{
    if (!sim.locked) sim_fail("the pool waits without its lock");
    release();
    step();
    switch_at(80);
    let_time_pass();
    switch_at(50);
    take();
}

static uint64_t now_ns(void *context)
{
    return emu_now_ns();
}

static struct pool_thread threads[FIBERS + 1];

void edge_open(void)
{
    for (unsigned i = 0; i <= FIBERS; i++) {
        threads[i].id = i + 1;
        threads[i].slot = 0;
    }
}

static uint64_t thread(void *context)
{
    return (uint64_t)(uintptr_t)&threads[fiber_current()];
}

/* Forecasts of a period that the program does not have: a wrong one may cost time, and no more. */
static void foresee(void *context, const struct pool_op *op)
{
    if (!sim.profile.forecasts) return;
    bool lost = random_below(&sim.schedule, 40) == 0;
    sim.foretold = lost ? (uint32_t)random_below(&sim.schedule, sim.profile.period)
                        : (sim.foretold + 1) % sim.profile.period;
    bool known = !lost || random_below(&sim.schedule, 2);
    uint64_t needed_pages[VP_MAX_CARDS];
    for (unsigned card = 0; card < VP_MAX_CARDS; card++)
        needed_pages[card] = sim.pool->segments.needed_pages[card] * sim.profile.inflation;
    foresight_note(&sim.pool->move.foresight, known, known ? sim.profile.period : 0, sim.foretold,
                   op->request.touches, op->request.count, needed_pages);
}

static void wake(void *context) {} /* waits end by themselves */

static void pause_a_moment(void *context)
{
    let_time_pass();
    switch_at(50);
}

static struct pool_edge hooks = {.locked = locked,
                                 .unlocked = unlocked,
                                 .wait = wait_a_moment,
                                 .now_ns = now_ns,
                                 .thread = thread,
                                 .foresee = foresee,
                                 .wake = wake,
                                 .pause = pause_a_moment};

const struct pool_edge *edge_hooks(void)
{
    hooks.threads = sim.profile.paced;
    hooks.foresee = sim.profile.plans ? NULL : foresee;
    return &hooks;
}

void edge_play_alone(void)
{
    hooks.threads = false;
}

/* ---- Failures ---- */

static const char *const call_names[] = {
#define NAME(kind, variant, symbol, base, version, arguments, names) #symbol,
    EMU_CALLS(NAME)
#undef NAME
};

/* Those that the pool may make. */
static const enum sim_call pools_calls[] = {
#define NUMBER(need, symbol, arguments) SIM_##symbol,
    DRIVER_CALLS(NUMBER)
#undef NUMBER
};
enum { POOLS_CALLS = sizeof pools_calls / sizeof *pools_calls };

/* Calls whose failures lead the pool into its rarer ways. */
static const enum sim_call telling[] = {
    SIM_cuMemCreate,   SIM_cuMemMap,       SIM_cuMemSetAccess,    SIM_cuMemUnmap,
    SIM_cuMemMap,      SIM_cuMemSetAccess, SIM_cuMemUnmap,        SIM_cuMemcpyAsync,
    SIM_cuEventRecord, SIM_cuEventCreate,  SIM_cuStreamWaitEvent, SIM_cuEventQuery};

static CUresult pick_error(enum sim_call call)
{
    static const CUresult errors[] = {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_NOT_READY,
                                      CUDA_ERROR_OPERATING_SYSTEM};
    bool for_memory = call == SIM_cuMemCreate || call == SIM_cuMemHostAlloc;
    return for_memory ? CUDA_ERROR_OUT_OF_MEMORY : errors[random_below(&sim.failure, 3)];
}

enum { CONTEXT_TRIES = 7 }; /* in a row; the pool tries once more */

static bool fails_in_burst(enum sim_call call)
{
    if (sim.burst_left == 0) {
        if (random_below(&sim.failure, 400)) return false;
        unsigned kinds = sizeof telling / sizeof *telling;
        bool any = random_below(&sim.failure, 3) == 0;
        sim.burst_left = 1 + (unsigned)random_below(&sim.failure, 24);
        sim.burst_call = any ? pools_calls[random_below(&sim.failure, POOLS_CALLS)]
                             : telling[random_below(&sim.failure, kinds)];
        sim.burst_other = telling[random_below(&sim.failure, kinds)];
        if (random_below(&sim.failure, 8) == 0) { /* all of that at once loses data */
            sim.burst_call = SIM_cuMemcpyAsync;
            sim.burst_other = SIM_cuMemUnmap;
            sim.burst_left = 24;
        }
        /* A thread whose context cannot be restored works on another card from then on: nobody but
         * the program could help that. */
        if (sim.burst_call == SIM_cuCtxSetCurrent && sim.burst_left > CONTEXT_TRIES)
            sim.burst_left = CONTEXT_TRIES;
    }
    if (call != sim.burst_call && call != sim.burst_other) return false;
    sim.burst_left--;
    return true;
}

/* Calls that are made seldom, or only where another has failed. */
static bool is_rare(enum sim_call call)
{
    return call == SIM_cuKernelGetName || call == SIM_cuFuncGetName ||
           call == SIM_cuFuncGetParamInfo || call == SIM_cuEventSynchronize ||
           call == SIM_cuStreamSynchronize || call == SIM_cuEventElapsedTime ||
           call == SIM_cuCtxSynchronize || call == SIM_cuModuleLoadData ||
           call == SIM_cuModuleGetFunction || call == SIM_cuModuleUnload ||
           call == SIM_cuStreamCreateWithPriority || call == SIM_cuMemHostAlloc ||
           call == SIM_cuThreadExchangeStreamCaptureMode || call == SIM_cuStreamIsCapturing;
}

static bool fails(enum sim_call call)
{
    if (!sim.injecting || sim.profile.failures == FAIL_NEVER) return false;
    if (!sim.running) return random_below(&sim.failure, 10) == 0; /* opening, closing */
    if (is_rare(call)) return random_below(&sim.failure, 10) == 0;
    if (call == SIM_cuMemCreate && random_below(&sim.failure, 4))
        return false; /* each takes memory away for good */
    if (sim.profile.failures == FAIL_IN_BURSTS) return fails_in_burst(call);
    return random_below(&sim.failure, 150) == 0;
}

static void before_call(enum sim_call call)
{
    if (call == SIM_cuGetErrorName) return; /* text alone */
    if (sim.locked) sim_fail("the pool calls %s under its lock", call_names[call]);
    step();
    switch_at(sim.profile.switch_percent);
    catch_up(emu_device_ns()); /* others have run meanwhile: the call is made now, not earlier */
    sim.coverage.called[call]++;
    if (!fails(call)) return;
    CUresult error = pick_error(call);
    vp_status status = emu_fail_call(call_names[call], 1, error);
    assert(status == VP_OK);
    (void)status;
    sim.coverage.failed[call]++;
    sim.coverage.injected++;
    sim.injected = true;
    sim_trace("%s will fail with %d", call_names[call], error);
}

static void after_call(enum sim_call call, CUresult result)
{
    if (call == SIM_cuGetErrorName) return;
    if (sim.trace && call != SIM_cuEventQuery) sim_trace("    %s: %d", call_names[call], result);
    switch_at(sim.profile.switch_percent);
}

/* ---- The wrapped table ---- */

/* clang-format off */
#define WRAP(kind, variant, symbol, base, version, arguments, names) \
    __attribute__((unused)) static CUresult wrapped_##symbol arguments \
    { \
        before_call(SIM_##symbol); \
        CUresult result = symbol names; \
        after_call(SIM_##symbol, result); \
        return result; \
    }
EMU_CALLS(WRAP)
#undef WRAP
/* clang-format on */

/* Strict: none of the program's work is under way while something moves. */
static void check_strict(void)
{
    for (unsigned i = 0; i < SIM_STREAMS && !sim.card_lost; i++) {
        const struct stream *stream = &sim.streams[i];
        bool named = stream->alive && !stream->ended && (uintptr_t)stream->handle > 2;
        if (named && cuStreamQuery(stream->handle) == CUDA_ERROR_NOT_READY)
            sim_fail("data is moved while stream %u is at work", i);
    }
}

/* The mover copies between frames; what goes to the host is vetting's look at buffers that the
 * program may be writing, in which only addresses are looked for. */
static CUresult copy_by_pool(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    before_call(SIM_cuMemcpyAsync);
    if (sim.options.strict && to >= EMU_ADDRESS_FIRST) check_strict();
    int cards = (int)sim.machine.cards, source = emu_place(from), target = emu_place(to);
    sim.coverage.peer_copies += source >= 0 && target >= 0 && source < cards && target < cards;
    sim_trace("    copy from %#llx in place %d to %#llx in place %d, %zu bytes", from, source, to,
              target, bytes);
    emu_allow_torn_reads(to < EMU_ADDRESS_FIRST);
    CUresult result = cuMemcpyAsync(to, from, bytes, stream);
    emu_allow_torn_reads(false);
    after_call(SIM_cuMemcpyAsync, result);
    return result;
}

/* Where mappings change is what a trace is read for. */
static CUresult map_by_pool(CUdeviceptr address, size_t bytes, size_t offset,
                            CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    sim_trace("    map %#llx, %zu bytes", address, bytes);
    const struct move *move = &sim.pool->move;
    bool ahead = move_looks_ahead(move) && list_empty(&move->requests) && list_empty(&move->wanted);
    sim.coverage.ahead += sim.running && ahead && pool_owns(sim.pool, address);
    return wrapped_cuMemMap(address, bytes, offset, handle, flags);
}

static CUresult unmap_by_pool(CUdeviceptr address, size_t bytes)
{
    sim_trace("    unmap %#llx, %zu bytes", address, bytes);
    return wrapped_cuMemUnmap(address, bytes);
}

void edge_wrap_driver(struct driver *driver)
{
    emu_driver(driver);
#define FILL(need, symbol, arguments) driver->symbol = wrapped_##symbol;
    DRIVER_CALLS(FILL)
#undef FILL
    driver->cuMemcpyAsync = copy_by_pool;
    driver->cuMemMap = map_by_pool;
    driver->cuMemUnmap = unmap_by_pool;
}

const char *edge_call_name(enum sim_call call)
{
    return call_names[call];
}
