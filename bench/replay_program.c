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

/* What a card runs. */
static struct job {
    unsigned card;
    CUfunction function;
    CUevent end_of_step;
    vp_addr (*live)[AGES]; /* of each role, by the step in which it was born */
    vp_addr freed[FREED], extra_block, small_block;
    uint32_t freed_count;
    bool *written;            /* of each role and age: something has written the block */
    struct replay_uses *used; /* of operations that may not be done */
} jobs[REPLAY_CARDS];

static unsigned unfinished; /* jobs that have not run all steps yet */
static uint64_t used_count;

static void run(struct emu_block *b)
{
    const struct replay_uses *uses = (const struct replay_uses *)(uintptr_t)emu_param_u64(b, 1);
    if (replay.scale > 1)
        replay_data_run(b, uses);
    else
        replay_content_write(uses);
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

static struct replay_uses *make_uses(struct job *job, uint32_t most)
{
    struct replay_uses *uses = malloc(sizeof *uses + most * sizeof uses->part[0]);
    if (!uses) abort();
    uses->count = 0;
    uses->seed = ++used_count;
    uses->next = job->used;
    job->used = uses;
    return uses;
}

static void add_use(struct replay_uses *uses, vp_addr address, uint64_t bytes, bool reads,
                    bool writes)
{
    uses->part[uses->count].address = address;
    uses->part[uses->count].bytes = bytes;
    uses->part[uses->count].reads = reads;
    uses->part[uses->count++].writes = writes;
}

/* All operations are done. */
static void free_uses(struct job *job)
{
    while (job->used) {
        struct replay_uses *next = job->used->next;
        free(job->used);
        job->used = next;
    }
}

static void enter(struct pool_op *op, const char *name, const vp_addr *touched, uint32_t count)
{
    if (replay.native) return;
    pool_op_begin(op, replay.pool, POOL_KERNEL, NULL, name);
    for (uint32_t i = 0; i < count; i++) pool_op_touch(op, touched[i]);
    expect(pool_op_enter(op), "pool_op_enter");
}

static void launch(const struct job *job, const char *name, const vp_addr *touched, uint32_t count,
                   uint64_t duration_ns, struct replay_uses *uses)
{
    struct pool_op op;
    replay_sleep(launch_host_ns);
    enter(&op, name, touched, count);
    replay_settle();
    void *params[] = {&duration_ns, &uses};
    unsigned grid = replay.scale > 1 ? REPLAY_DATA_GRID : 1;
    CUresult result = cuLaunchKernel(job->function, grid, 1, 1, 32, 1, 1, 0, NULL, params, NULL);
    expect(replay.native ? result : pool_op_leave(&op, result), "a launch");
}

/* Adds an address that the parameters hold by chance, somewhere among the others. */
static uint32_t add_stale(const struct job *job, vp_addr *touched, uint32_t count)
{
    if (!replay.stale_percent || !job->freed_count || count == POOL_WORDS) return count;
    if (random_below(&replay.random, 100) >= replay.stale_percent) return count;
    uint32_t kept = job->freed_count < FREED ? job->freed_count : FREED;
    uint64_t at = random_below(&replay.random, count + 1);
    memmove(&touched[at + 1], &touched[at], (count - at) * sizeof *touched);
    touched[at] = job->freed[random_below(&replay.random, kept)];
    return count + 1;
}

static void give(struct job *job, vp_addr address)
{
    if (!address) return;
    replay_cache_give(address);
    job->freed[job->freed_count++ % FREED] = address;
}

static vp_addr take(const struct job *job, uint64_t bytes)
{
    vp_addr address = replay_cache_take(job->card, bytes);
    if (address) return address;
    fprintf(stderr, "replay: the pool has no memory for a block of %llu bytes: give more --host\n",
            (unsigned long long)bytes);
    exit(EXIT_FAILURE);
}

static void synchronise(struct job *job)
{
    CUresult result;
    replay_settle();
    expect(cuEventRecord(job->end_of_step, NULL), "cuEventRecord");
    do {
        replay_sleep(poll_ns);
        result = cuEventQuery(job->end_of_step);
    } while (result == CUDA_ERROR_NOT_READY);
    expect(result, "cuEventQuery");
    free_uses(job);
}

static void mark(struct job *job)
{
    synchronise(job);
    if (replay.mark_count < REPLAY_MARKS_MOST) replay.mark_ns[replay.mark_count++] = emu_now_ns();
}

static void run_op(struct job *job, uint32_t index, uint32_t turn)
{
    vp_addr touched[POOL_WORDS];
    const struct step *step = &replay.step;
    const struct step_op *op = &step->ops[index];
    uint32_t count = 0;
    if (replay.mark_key && op->key == replay.mark_key) mark(job);
    struct replay_uses *uses = make_uses(job, op->touch_count);
    for (uint32_t i = 0; i < op->touch_count && count < POOL_WORDS; i++) {
        const struct step_touch *touch = &step->touches[op->first_touch + i];
        bool persists = step->roles[touch->role].born_op == STEP_NEVER;
        uint32_t age = persists ? 0 : (turn - touch->age) % AGES;
        vp_addr address = job->live[touch->role][age];
        if (!address) continue; /* what the step before would have made is not there */
        touched[count++] = address;
        bool writes = !persists || (touch->access == STEP_WRITES && !replay.frozen);
        bool *known = &job->written[touch->role * AGES + age];
        add_use(uses, address, step->roles[touch->role].bytes, *known, writes);
        *known |= writes;
    }
    if (count == 0) touched[count++] = job->small_block;
    count = add_stale(job, touched, count);
    launch(job, replay.names[index], touched, count, op->duration_ns, uses);
}

static void run_step(struct job *job, uint32_t turn)
{
    const struct step *step = &replay.step;
    uint64_t extra = replay.extra_most ? random_below(&replay.random, replay.extra_most + 1) : 0;
    for (uint32_t i = 0; i < step->event_count; i++) {
        const struct step_event *event = &step->events[i];
        if (random_below(&replay.random, step->event_count - i) < extra) {
            launch(job, "extra", &job->extra_block, 1, extra_ns, make_uses(job, 0));
            extra--;
        }
        vp_addr *block = &job->live[event->index][(turn - event->age) % AGES];
        switch (event->kind) {
        case TRACE_OP: run_op(job, event->index, turn); break;
        case TRACE_ALLOC:
            job->live[event->index][turn % AGES] = take(job, step->roles[event->index].bytes);
            job->written[event->index * AGES + turn % AGES] = false;
            break;
        case TRACE_FREE:
            give(job, *block);
            *block = 0;
            break;
        }
    }
    synchronise(job);
}

/* What lives on from step to step is made and written first. */
static void set_up(struct job *job)
{
    CUmodule module;
    CUcontext context;
    job->live = calloc(replay.step.role_count, sizeof *job->live);
    job->written = calloc(replay.step.role_count, AGES * sizeof *job->written);
    if (!job->live || !job->written) abort();
    expect(cuDevicePrimaryCtxRetain(&context, (CUdevice)job->card), "cuDevicePrimaryCtxRetain");
    expect(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    expect(cuModuleLoadData(&module, ptx), "cuModuleLoadData");
    expect(cuModuleGetFunction(&job->function, module, "replay_op"), "cuModuleGetFunction");
    expect(cuEventCreate(&job->end_of_step, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    for (uint32_t i = 0; i < replay.step.role_count; i++) {
        const struct step_role *role = &replay.step.roles[i];
        if (role->born_op != STEP_NEVER) continue;
        job->live[i][0] = take(job, role->bytes);
        struct replay_uses *uses = make_uses(job, 1);
        add_use(uses, job->live[i][0], role->bytes, false, true);
        job->written[i * AGES] = true;
        launch(job, "first use", &job->live[i][0], 1, first_use_ns, uses);
    }
    job->extra_block = take(job, extra_bytes / replay.scale);
    job->small_block = take(job, small_bytes / replay.scale);
    synchronise(job);
}

static void subtract(vp_stats *stats, const vp_stats *before)
{
#define SUBTRACT(name, text) stats->name -= before->name;
    VP_STATS(SUBTRACT)
#undef SUBTRACT
}

static void read_stats(vp_stats *stats)
{
    memset(stats, 0, sizeof *stats);
    if (!replay.native) vp_stats_read(replay.pool, stats);
}

/* What lies in all that lasts, at the end. */
static void look_at_all(const struct job *job)
{
    for (uint32_t i = 0; i < replay.step.role_count; i++)
        if (replay.step.roles[i].born_op == STEP_NEVER)
            replay_data_look(job->live[i][0], replay.step.roles[i].bytes);
}

static void measure_step(struct job *job, unsigned turn)
{
    struct replay_step *result = &replay.result[job->card][turn];
    vp_stats before;
    uint64_t start_ns = emu_now_ns();
    read_stats(&before);
    run_step(job, turn);
    result->duration_ns = emu_now_ns() - start_ns;
    read_stats(&result->stats);
    uint64_t operations = result->stats.finder_period_operations;
    subtract(&result->stats, &before);
    result->stats.finder_period_operations = operations;
    replay_print_step(job->card, turn);
}

/* Who has run all steps goes on until the others have, so that they are not alone. */
void replay_program(unsigned card)
{
    struct job *job = &jobs[card];
    job->card = card;
    if (card == 0) { /* it begins first */
        unfinished = replay.cards;
        if (emu_kernel_register("replay_op", run, cost) != VP_OK) abort();
    }
    set_up(job);
    uint32_t turn = 0;
    while (turn < replay.steps) measure_step(job, turn++);
    for (unfinished--; unfinished; turn++) run_step(job, turn);
    if (replay.scale > 1) look_at_all(job);
    free(job->live);
    free(job->written);
}
