/* lookup: how long it takes to find where an address of the pool is, while chunks move.
 *
 * A pool over the emulated driver, with its own threads. A fifth thread uses blocks in turn, more
 * than the card holds, so that chunks come and go all the time; four threads translate random
 * addresses (vp_locate), first over 10^3 chunks, then uniformly over 10^5. Times are CPU time of
 * the four threads; for the 99th percentile single lookups are timed, one in 64, less the least
 * that reading the clock takes.
 *
 * stdout: a table, or with --json one line. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/random.h"
#include "base/sample.h"
#include "base/units.h"
#include "emu/emu.h"
#include "machine/machine.h"
#include "pool/pool.h"

enum { THREADS = 4, LOOKUPS = 10000000, CHUNKS = 100000, HOT = 1000, SAMPLE = 64, ROUNDS = 3 };

struct looker {
    pthread_t thread;
    vp_pool *pool;
    const vp_addr *blocks;
    uint64_t block_count, seed;
    uint64_t cpu_ns, wrong;
    double *samples_ns;
};

struct figures {
    double average_ns, p99_ns;
};

static _Atomic bool stop;
static _Atomic uint64_t uses;

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static void must(bool fine, const char *what)
{
    if (fine) return;
    fprintf(stderr, "lookup: %s failed\n", what);
    exit(1);
}

/* Least difference of two readings of the clock: what a timed lookup is charged too much. */
static uint64_t clock_cost_ns(void)
{
    uint64_t least = UINT64_MAX;
    for (unsigned i = 0; i < 10000; i++) {
        uint64_t a = clock_ns(CLOCK_MONOTONIC), b = clock_ns(CLOCK_MONOTONIC);
        if (b - a < least) least = b - a;
    }
    return least;
}

static void *look(void *argument)
{
    struct looker *looker = argument;
    enum { EACH = LOOKUPS / THREADS };
    vp_addr *addresses = malloc(EACH * sizeof *addresses);
    must(addresses != NULL, "malloc");
    struct random random = {looker->seed};
    for (unsigned i = 0; i < EACH; i++)
        addresses[i] = looker->blocks[random_below(&random, looker->block_count)] +
                       random_below(&random, 2 * MIB);
    vp_location location;
    uint64_t began = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    for (unsigned i = 0; i < EACH; i++)
        looker->wrong += vp_locate(looker->pool, addresses[i], &location) != VP_OK;
    looker->cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - began;
    uint64_t cost = clock_cost_ns();
    for (unsigned i = 0; i < EACH / SAMPLE; i++) {
        volatile vp_addr address =
            addresses[i * SAMPLE]; /* in a register before the clock is read */
        uint64_t before = clock_ns(CLOCK_MONOTONIC);
        looker->wrong += vp_locate(looker->pool, address, &location) != VP_OK;
        uint64_t took = clock_ns(CLOCK_MONOTONIC) - before;
        looker->samples_ns[i] = took > cost ? (double)(took - cost) : 0;
    }
    free(addresses);
    return NULL;
}

static struct figures measure(vp_pool *pool, const vp_addr *blocks, uint64_t count, uint64_t seed)
{
    enum { EACH_SAMPLES = LOOKUPS / THREADS / SAMPLE };
    static double samples[THREADS * EACH_SAMPLES];
    struct looker lookers[THREADS];
    uint64_t cpu_ns = 0, wrong = 0;
    for (unsigned i = 0; i < THREADS; i++) {
        lookers[i] = (struct looker){.pool = pool,
                                     .blocks = blocks,
                                     .block_count = count,
                                     .seed = seed * THREADS + i,
                                     .samples_ns = &samples[i * EACH_SAMPLES]};
        must(pthread_create(&lookers[i].thread, NULL, look, &lookers[i]) == 0, "pthread_create");
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(lookers[i].thread, NULL);
        cpu_ns += lookers[i].cpu_ns;
        wrong += lookers[i].wrong;
    }
    must(wrong == 0, "finding a block that exists");
    return (struct figures){(double)cpu_ns / LOOKUPS,
                            sample_quantile(samples, THREADS * EACH_SAMPLES, 0.99)};
}

struct mover {
    const struct driver *driver;
    vp_pool *pool;
    CUcontext context;
    const vp_addr *blocks;
};

/* Uses all blocks in turn: with more blocks than the card holds, each use moves something. */
static void *keep_moving(void *argument)
{
    const struct mover *mover = argument;
    must(mover->driver->cuCtxSetCurrent(mover->context) == CUDA_SUCCESS, "cuCtxSetCurrent");
    for (uint64_t i = 0; !atomic_load(&stop); i++) {
        vp_use use;
        vp_addr address = mover->blocks[i % CHUNKS];
        must(vp_use_begin(mover->pool, NULL, &address, 1, &use) == VP_OK, "vp_use_begin");
        vp_use_end(mover->pool, &use);
        atomic_fetch_add(&uses, 1);
    }
    return NULL;
}

static vp_pool *open_pool(struct driver *driver, CUcontext *context, vp_addr *blocks)
{
    struct machine machine;
    must(machine_from_name("1x150G", &machine) == VP_OK, "machine_from_name");
    machine.host_bytes = 100 * GIB;
    struct emu_options emu = {.machine = &machine, .seed = 1, .free_running = true};
    must(emu_open(&emu) == VP_OK, "emu_open");
    emu_driver(driver);
    must(driver->cuInit(0) == CUDA_SUCCESS, "cuInit");
    must(driver->cuDevicePrimaryCtxRetain(context, 0) == CUDA_SUCCESS, "cuDevicePrimaryCtxRetain");
    must(driver->cuCtxSetCurrent(*context) == CUDA_SUCCESS, "cuCtxSetCurrent");
    vp_options options;
    vp_options_init(&options);
    options.host_bytes = 90 * GIB;
    options.chunk_bytes = 2 * MIB;
    options.policy = VP_POLICY_LRU;
    vp_pool *pool;
    must(pool_open(driver, &options, &pool) == VP_OK, "pool_open");
    for (unsigned i = 0; i < CHUNKS; i++)
        must(vp_alloc(pool, 0, 2 * MIB, &blocks[i]) == VP_OK, "vp_alloc");
    return pool;
}

int main(int count, char **words)
{
    bool json = count > 1 && strcmp(words[1], "--json") == 0;
    static vp_addr blocks[CHUNKS];
    struct driver driver;
    struct mover mover = {.driver = &driver, .blocks = blocks};
    mover.pool = open_pool(&driver, &mover.context, blocks);
    pthread_t thread;
    must(pthread_create(&thread, NULL, keep_moving, &mover) == 0, "pthread_create");
    while (atomic_load(&uses) < CHUNKS) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    vp_stats before, after;
    vp_stats_read(mover.pool, &before);
    const uint64_t sizes[] = {HOT, CHUNKS};
    struct figures figures[2][ROUNDS];
    for (unsigned round = 0; round < ROUNDS; round++)
        for (unsigned i = 0; i < 2; i++)
            figures[i][round] = measure(mover.pool, blocks, sizes[i], round * 2 + i + 1);
    vp_stats_read(mover.pool, &after);
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
    if (!json) printf("%8s  %18s  %18s\n", "chunks", "average ns", "99th percentile ns");
    for (unsigned i = 0; i < 2; i++)
        for (unsigned round = 0; round < ROUNDS; round++)
            printf(json ? "{\"chunks\": %llu, \"average_ns\": %.1f, \"p99_ns\": %.0f}\n"
                        : "%8llu  %18.1f  %18.0f\n",
                   (unsigned long long)sizes[i], figures[i][round].average_ns,
                   figures[i][round].p99_ns);
    fprintf(
        stderr, "%llu chunks moved meanwhile\n",
        (unsigned long long)(after.fetches + after.evictions - before.fetches - before.evictions));
    vp_close(mover.pool);
    emu_close();
    return 0;
}
