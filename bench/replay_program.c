/* The program: allocates, launches and frees as the step says, over and over. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "replay.h"

enum {
    AGES = 8,   /* steps that a block lives on, at most */
    FREED = 64, /* of the blocks freed last the addresses are kept somewhere */
};

/* The host's part of a launch but for the driver's: Python, dispatch, allocation. */
static const uint64_t launch_host_ns = 4 * NS_PER_US, first_use_ns = 100 * NS_PER_US,
                      extra_ns = 5 * NS_PER_US, poll_ns = 10 * NS_PER_US;

/* Traces leave small blocks out: what touches nothing else touches one. */
static const uint64_t extra_bytes = 2 * MIB, small_bytes = 512 * KIB;

static const char ptx[] = ".version 7.0\n.target sm_80\n.address_size 64\n"
                          ".visible .entry replay_op(.param .u64 duration, .param .u64 writes)\n"
                          "{ ret; }\n";

static CUfunction function;
static CUevent end_of_step;
static vp_addr (*live)[AGES]; /* of each role, by the step in which it was born */
static vp_addr freed[FREED], extra_block, small_block;
static uint32_t freed_count;

static void run(struct emu_block *b)
{
    struct replay_writes *writes = (struct replay_writes *)(uintptr_t)emu_param_u64(b, 1);
    if (writes) replay_content_write(writes);
    free(writes);
}

static uint64_t cost(struct emu_block *b)
{
    return emu_param_u64(b, 0);
}

static void expect(CUresult result, const char *what)
{
    if (result == CUDA_SUCCESS) return;
    fprintf(stderr, "replay: %s returned %d\n", what, result);
    exit(EXIT_FAILURE);
}

static struct replay_writes *make_writes(uint32_t most)
{
    struct replay_writes *writes = malloc(sizeof *writes + most * sizeof writes->part[0]);
    if (!writes) abort();
    writes->count = 0;
    return writes;
}

static void add_write(struct replay_writes *writes, vp_addr address, uint64_t bytes)
{
    writes->part[writes->count].address = address;
    writes->part[writes->count++].bytes = bytes;
}

/* `writes` may be NULL; the operation gives it back. */
static void launch(const char *name, const vp_addr *touched, uint32_t count, uint64_t duration_ns,
                   struct replay_writes *writes)
{
    struct pool_op op;
    replay_sleep(launch_host_ns);
    pool_op_begin(&op, replay.pool, POOL_KERNEL, NULL, name);
    for (uint32_t i = 0; i < count; i++) pool_op_touch(&op, touched[i]);
    CUresult result = pool_op_enter(&op);
    expect(result, "pool_op_enter");
    replay_settle();
    void *params[] = {&duration_ns, &writes};
    result = cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL);
    expect(pool_op_leave(&op, result), "a launch");
}

/* Adds an address that the parameters hold by chance, somewhere among the others. */
static uint32_t add_stale(vp_addr *touched, uint32_t count)
{
    if (!replay.stale_percent || !freed_count || count == POOL_WORDS) return count;
    if (random_below(&replay.random, 100) >= replay.stale_percent) return count;
    uint32_t kept = freed_count < FREED ? freed_count : FREED;
    uint64_t at = random_below(&replay.random, count + 1);
    memmove(&touched[at + 1], &touched[at], (count - at) * sizeof *touched);
    touched[at] = freed[random_below(&replay.random, kept)];
    return count + 1;
}

static void give(vp_addr address)
{
    if (!address) return;
    replay_cache_give(address);
    freed[freed_count++ % FREED] = address;
}

static vp_addr take(uint64_t bytes)
{
    vp_addr address = replay_cache_take(bytes);
    if (address) return address;
    fprintf(stderr, "replay: the pool has no memory for a block of %llu bytes: give more --host\n",
            (unsigned long long)bytes);
    exit(EXIT_FAILURE);
}

static void synchronise(void)
{
    CUresult result;
    replay_settle();
    expect(cuEventRecord(end_of_step, NULL), "cuEventRecord");
    do {
        replay_sleep(poll_ns);
        result = cuEventQuery(end_of_step);
    } while (result == CUDA_ERROR_NOT_READY);
    expect(result, "cuEventQuery");
}

static void mark(void)
{
    synchronise();
    if (replay.mark_count < REPLAY_MARKS_MOST) replay.mark_ns[replay.mark_count++] = emu_now_ns();
}

static void run_op(uint32_t index, uint32_t turn)
{
    static vp_addr touched[POOL_WORDS];
    const struct step *step = &replay.step;
    const struct step_op *op = &step->ops[index];
    uint32_t count = 0;
    if (replay.mark_key && op->key == replay.mark_key) mark();
    struct replay_writes *writes = make_writes(op->touch_count);
    for (uint32_t i = 0; i < op->touch_count && count < POOL_WORDS; i++) {
        const struct step_touch *touch = &step->touches[op->first_touch + i];
        bool persists = step->roles[touch->role].born_op == STEP_NEVER;
        vp_addr address = live[touch->role][persists ? 0 : (turn - touch->age) % AGES];
        if (!address) continue; /* what the step before would have made is not there */
        touched[count++] = address;
        if (!persists || touch->access == STEP_WRITES)
            add_write(writes, address, step->roles[touch->role].bytes);
    }
    if (count == 0) touched[count++] = small_block;
    count = add_stale(touched, count);
    launch(replay.names[index], touched, count, op->duration_ns, writes);
}

static void run_step(uint32_t turn)
{
    const struct step *step = &replay.step;
    uint64_t extra = replay.extra_most ? random_below(&replay.random, replay.extra_most + 1) : 0;
    for (uint32_t i = 0; i < step->event_count; i++) {
        const struct step_event *event = &step->events[i];
        if (random_below(&replay.random, step->event_count - i) < extra) {
            launch("extra", &extra_block, 1, extra_ns, NULL);
            extra--;
        }
        vp_addr *block = &live[event->index][(turn - event->age) % AGES];
        switch (event->kind) {
        case TRACE_OP: run_op(event->index, turn); break;
        case TRACE_ALLOC:
            live[event->index][turn % AGES] = take(step->roles[event->index].bytes);
            break;
        case TRACE_FREE:
            give(*block);
            *block = 0;
            break;
        }
    }
    synchronise();
}

/* What lives on from step to step is made and written first. */
static void set_up(void)
{
    CUmodule module;
    expect(emu_kernel_register("replay_op", run, cost) == VP_OK ? CUDA_SUCCESS
                                                                : CUDA_ERROR_OUT_OF_MEMORY,
           "emu_kernel_register");
    expect(cuModuleLoadData(&module, ptx), "cuModuleLoadData");
    expect(cuModuleGetFunction(&function, module, "replay_op"), "cuModuleGetFunction");
    expect(cuEventCreate(&end_of_step, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    for (uint32_t i = 0; i < replay.step.role_count; i++) {
        const struct step_role *role = &replay.step.roles[i];
        if (role->born_op != STEP_NEVER) continue;
        live[i][0] = take(role->bytes);
        struct replay_writes *writes = make_writes(1);
        add_write(writes, live[i][0], role->bytes);
        launch("first use", &live[i][0], 1, first_use_ns, writes);
    }
    extra_block = take(extra_bytes);
    small_block = take(small_bytes);
    synchronise();
}

static void subtract(vp_stats *stats, const vp_stats *before)
{
#define SUBTRACT(name, text) stats->name -= before->name;
    VP_STATS(SUBTRACT)
#undef SUBTRACT
}

void replay_program(void)
{
    CUcontext context;
    vp_stats before, after;
    live = calloc(replay.step.role_count, sizeof *live);
    if (!live) abort();
    expect(cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
    expect(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    set_up();
    for (unsigned i = 0; i < replay.steps; i++) {
        struct replay_step *result = &replay.result[i];
        uint64_t start_ns = emu_now_ns();
        vp_stats_read(replay.pool, &before);
        run_step(i);
        result->duration_ns = emu_now_ns() - start_ns;
        vp_stats_read(replay.pool, &after);
        result->stats = after;
        subtract(&result->stats, &before);
        result->stats.finder_period_operations = after.finder_period_operations;
        replay_print_step(i);
    }
    free(live);
}
