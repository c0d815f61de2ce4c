/* stress: the threaded edge of the pool. Two threads launch kernels, copies and memsets on streams
 * of their own, allocate, free, and have memory given back to the driver; the pool's mover works
 * beside them, as their blocks are several times the card that computes; a third thread looks up,
 * prefetches, advises and reads counters all the while.
 *
 * It runs on the emulated driver with real threads, above all under TSan. What each block holds is
 * known at any time, as all its words are equal and its owner's stream is ordered; it is read back
 * and compared now and then, and at the end. The emulator must have found nothing either.
 *
 * Usage: stress [--seed N] [--operations N], which is for each launching thread. */
#include <inttypes.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "base/units.h"
#include "emu/abi_more.h"
#include "emu/calls.h"
#include "emu/emu.h"
#include "pool/pool.h"

/* The emulated driver, as a program calls it. */
/* clang-format off */
#define DECLARE(kind, variant, symbol, base, version, arguments, names) CUresult symbol arguments;
EMU_CALLS(DECLARE)
#undef DECLARE
/* clang-format on */

enum {
    LAUNCHERS = 2,
    BLOCKS = 14,
    STRIDE = 4096, /* one word in each page is used: enough to see a page of the wrong block */
    DEFAULT_OPERATIONS = 1500,
    CHECK_EVERY = 100,
    LOOKS = 5, /* for each operation */
};

struct owned {
    CUdeviceptr address; /* 0: none */
    uint64_t bytes;
    uint64_t word; /* what each of its words is, once its stream is done */
};

struct launcher {
    pthread_t thread;
    struct random random;
    CUstream stream;
    struct owned block[BLOCKS];
    uint64_t *host; /* room for the largest block */
};

static struct {
    uint64_t operations;
    struct driver driver;
    CUcontext context;
    CUfunction mix;
    vp_pool *pool;
    struct launcher launcher[LAUNCHERS];
    _Atomic uint64_t shown[LAUNCHERS * BLOCKS]; /* addresses for the onlooker; 0: none */
    sem_t looks; /* posted for each operation, so that the onlooker takes no more than his share */
    _Atomic bool over;
} stress;

#define CHECK(condition, ...)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "stress: " __VA_ARGS__);                                               \
            fprintf(stderr, "\n");                                                                 \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static void must(CUresult result, const char *what)
{
    CHECK(result == CUDA_SUCCESS, "%s returned %d", what, result);
}

/* mix(to, from, bytes, add): to[i] = 3 to[i] + from[i] + add, for one word in each STRIDE bytes. */
static void run_mix(struct emu_block *b)
{
    uint64_t to = emu_param_u64(b, 0), from = emu_param_u64(b, 1), bytes = emu_param_u64(b, 2);
    uint64_t add = emu_param_u64(b, 3), first, last;
    emu_threads(b, &first, &last);
    for (uint64_t i = first; i < last && i * STRIDE < bytes && !emu_faulted(b); i++) {
        uint64_t at = i * STRIDE;
        emu_store_u64(b, to + at, 3 * emu_load_u64(b, to + at) + emu_load_u64(b, from + at) + add);
    }
}

static const char ptx[] = ".version 7.0\n.target sm_80\n.address_size 64\n"
                          ".visible .entry stress_mix(.param .u64 to, .param .u64 from,\n"
                          "  .param .u64 bytes, .param .u64 add) { ret; }\n";

static void mix(struct launcher *self, struct owned *to, const struct owned *from)
{
    uint64_t bytes = to->bytes < from->bytes ? to->bytes : from->bytes;
    if (bytes != to->bytes) return; /* then its words would not be equal any more */
    uint64_t add = random_next(&self->random);
    uint64_t destination = to->address, source = from->address;
    void *params[] = {&destination, &source, &bytes, &add};
    struct pool_op op;
    pool_op_begin(&op, stress.pool, POOL_KERNEL, self->stream, "cuLaunchKernel");
    pool_op_touch_params(&op, stress.mix, params, NULL);
    CUresult result = pool_op_enter(&op);
    if (result == CUDA_SUCCESS)
        result = cuLaunchKernel(stress.mix, (unsigned)(bytes / STRIDE + 63) / 64, 1, 1, 64, 1, 1, 0,
                                self->stream, params, NULL);
    must(pool_op_leave(&op, result), "a launch");
    to->word = 3 * to->word + from->word + add;
}

static void copy(struct launcher *self, struct owned *to, const struct owned *from)
{
    if (to == from || to->bytes > from->bytes) return;
    struct pool_op op;
    pool_op_begin(&op, stress.pool, POOL_COPY, self->stream, "cuMemcpyDtoDAsync_v2");
    pool_op_touch_range(&op, to->address, to->bytes);
    pool_op_touch_range(&op, from->address, to->bytes);
    CUresult result = pool_op_enter(&op);
    if (result == CUDA_SUCCESS)
        result = cuMemcpyDtoDAsync_v2(to->address, from->address, to->bytes, self->stream);
    must(pool_op_leave(&op, result), "a copy");
    to->word = from->word;
}

static void clear(struct launcher *self, struct owned *block)
{
    unsigned char value = (unsigned char)random_next(&self->random);
    struct pool_op op;
    pool_op_begin(&op, stress.pool, POOL_MEMSET, self->stream, "cuMemsetD8Async");
    pool_op_touch_range(&op, block->address, block->bytes);
    CUresult result = pool_op_enter(&op);
    if (result == CUDA_SUCCESS)
        result = cuMemsetD8Async(block->address, value, block->bytes, self->stream);
    must(pool_op_leave(&op, result), "a memset");
    memset(&block->word, value, sizeof block->word);
}

static void compare(struct launcher *self, const struct owned *block)
{
    struct pool_op op;
    pool_op_begin(&op, stress.pool, POOL_COPY, self->stream, "cuMemcpyDtoHAsync_v2");
    pool_op_touch_range(&op, block->address, block->bytes);
    CUresult result = pool_op_enter(&op);
    if (result == CUDA_SUCCESS)
        result = cuMemcpyDtoHAsync_v2(self->host, block->address, block->bytes, self->stream);
    must(pool_op_leave(&op, result), "reading a block");
    must(cuStreamSynchronize(self->stream), "cuStreamSynchronize");
    for (uint64_t at = 0; at < block->bytes; at += STRIDE)
        CHECK(self->host[at / 8] == block->word,
              "block %#llx + %#" PRIx64 ": %#" PRIx64 " instead of %#" PRIx64, block->address, at,
              self->host[at / 8], block->word);
}

static void show(struct launcher *self, const struct owned *block)
{
    size_t index = (size_t)(self - stress.launcher) * BLOCKS + (size_t)(block - self->block);
    atomic_store_explicit(&stress.shown[index], block->address, memory_order_relaxed);
}

static void make(struct launcher *self, struct owned *block)
{
    block->bytes = (1 + random_below(&self->random, 2)) * 2 * MIB;
    must(pool_mem_alloc(stress.pool, &block->address, block->bytes), "an allocation");
    show(self, block);
    clear(self, block);
}

/* Frees a block with work on it still queued, as programs do. */
static void drop(struct launcher *self, struct owned *block)
{
    must(pool_mem_free(stress.pool, block->address), "a free");
    block->address = 0;
    show(self, block);
}

/* The driver lacks memory, for a moment. */
static void want_memory(struct launcher *self)
{
    static const unsigned wheres[] = {0, 0, POOL_HOST};
    struct pool_relief relief;
    uint64_t bytes = random_below(&self->random, 4) * 2 * MIB;
    unsigned where = wheres[random_below(&self->random, 3)];
    if (pool_relieve(stress.pool, where, bytes, &relief))
        pool_relief_ends(stress.pool, &relief, random_below(&self->random, 2) != 0);
}

static void step(struct launcher *self)
{
    struct owned *a = &self->block[random_below(&self->random, BLOCKS)];
    struct owned *b = &self->block[random_below(&self->random, BLOCKS)];
    uint64_t choice = random_below(&self->random, 100);
    if (choice < 70)
        mix(self, a, b);
    else if (choice < 85)
        copy(self, a, b);
    else if (choice < 95)
        clear(self, a);
    else if (choice < 96)
        want_memory(self);
    else {
        drop(self, a);
        make(self, a);
    }
}

static void *launch(void *argument)
{
    struct launcher *self = argument;
    must(cuCtxSetCurrent(stress.context), "cuCtxSetCurrent");
    must(cuStreamCreate(&self->stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    for (unsigned i = 0; i < BLOCKS; i++) make(self, &self->block[i]);
    for (uint64_t done = 0; done < stress.operations; done++) {
        step(self);
        sem_post(&stress.looks);
        if (done % CHECK_EVERY == 0)
            compare(self, &self->block[random_below(&self->random, BLOCKS)]);
    }
    for (unsigned i = 0; i < BLOCKS; i++) {
        compare(self, &self->block[i]);
        drop(self, &self->block[i]);
    }
    pool_stream_ends(stress.pool, self->stream);
    must(cuStreamDestroy_v2(self->stream), "cuStreamDestroy");
    return NULL;
}

/* Asks and advises about a block that may be gone by then. */
static void look(struct random *random)
{
    size_t index = (size_t)random_below(random, LAUNCHERS * BLOCKS);
    vp_addr address = atomic_load_explicit(&stress.shown[index], memory_order_relaxed);
    unsigned place = (unsigned)random_below(random, vp_place_count(stress.pool));
    vp_location location;
    vp_place_info_t info;
    vp_stats stats;
    if (address && vp_locate(stress.pool, address + 100, &location) == VP_OK)
        CHECK(location.place < vp_place_count(stress.pool), "a block in place %u", location.place);
    if (address && random_below(random, 20) == 0) {
        vp_status asked = vp_prefetch(stress.pool, address, 2 * MIB, place);
        vp_status told = vp_advise(stress.pool, address, 2 * MIB, VP_ADVISE_PREFERRED_PLACE, place);
        CHECK(asked == VP_OK || asked == VP_NOT_FOUND, "prefetch: %s", vp_status_text(asked));
        CHECK(told == VP_OK || told == VP_NOT_FOUND, "advise: %s", vp_status_text(told));
    }
    vp_status status = vp_place_info(stress.pool, place, &info);
    CHECK(status == VP_OK && info.used_bytes <= info.capacity_bytes, "place %u overflows", place);
    vp_stats_read(stress.pool, &stats);
}

static void *look_on(void *argument)
{
    struct random random = {.state = *(const uint64_t *)argument};
    while (sem_wait(&stress.looks) == 0 && !atomic_load(&stress.over))
        for (unsigned i = 0; i < LOOKS; i++) look(&random);
    return NULL;
}

static void open_all(uint64_t seed)
{
    struct machine machine;
    CUmodule module;
    vp_status status = machine_from_name("2x16M", &machine);
    CHECK(status == VP_OK, "machine: %s", vp_status_text(status));
    machine.host_bytes = 128 * MIB;
    struct emu_options emulator = {
        .machine = &machine, .seed = seed, .carry_data = true, .free_running = true};
    status = emu_kernel_register("stress_mix", run_mix, NULL);
    if (status == VP_OK) status = emu_open(&emulator);
    CHECK(status == VP_OK, "emu_open: %s", vp_status_text(status));
    emu_driver(&stress.driver);
    must(cuInit(0), "cuInit");
    must(cuDevicePrimaryCtxRetain(&stress.context, 0), "cuDevicePrimaryCtxRetain");
    must(cuCtxSetCurrent(stress.context), "cuCtxSetCurrent");
    must(cuModuleLoadData(&module, ptx), "cuModuleLoadData");
    must(cuModuleGetFunction(&stress.mix, module, "stress_mix"), "cuModuleGetFunction");
    vp_options options;
    vp_options_init(&options);
    options.host_bytes = 128 * MIB;
    status = pool_open(&stress.driver, &options, &stress.pool);
    CHECK(status == VP_OK, "the pool does not open: %s", vp_status_text(status));
}

static vp_stats run_threads(uint64_t seed)
{
    pthread_t onlooker;
    vp_stats stats;
    sem_init(&stress.looks, 0, 0);
    CHECK(!pthread_create(&onlooker, NULL, look_on, &seed), "no thread");
    for (unsigned i = 0; i < LAUNCHERS; i++) {
        struct launcher *self = &stress.launcher[i];
        self->random.state = seed * 1000 + i;
        self->host = malloc(4 * MIB);
        CHECK(self->host && !pthread_create(&self->thread, NULL, launch, self), "no thread");
    }
    for (unsigned i = 0; i < LAUNCHERS; i++) {
        pthread_join(stress.launcher[i].thread, NULL);
        free(stress.launcher[i].host);
    }
    atomic_store(&stress.over, true);
    sem_post(&stress.looks);
    pthread_join(onlooker, NULL);
    sem_destroy(&stress.looks);
    vp_stats_read(stress.pool, &stats);
    CHECK(stats.live_bytes == 0, "%" PRIu64 " bytes live on after the last free", stats.live_bytes);
    return stats;
}

int main(int argc, char **argv)
{
    uint64_t seed = 1;
    stress.operations = DEFAULT_OPERATIONS;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seed") == 0) seed = strtoull(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--operations") == 0)
            stress.operations = strtoull(argv[i + 1], NULL, 10);
    }
    printf("stress: seed %" PRIu64 ", %" PRIu64 " operations on each of %d threads\n", seed,
           stress.operations, LAUNCHERS);
    fflush(stdout);
    open_all(seed);
    vp_stats stats = run_threads(seed);
    vp_close(stress.pool);
    struct emu_findings findings = emu_findings();
    CHECK(emu_findings_count() == 0, "the emulator found: %s", findings.first);
    uint64_t evictions = stats.evictions, given_mib = stats.relief_bytes / MIB;
    CHECK(evictions > stress.operations / 100, "only %" PRIu64 " chunks were sent out", evictions);
    CHECK(given_mib || stress.operations < DEFAULT_OPERATIONS, "nothing was given to the driver");
    printf("stress: clean, %" PRIu64 " chunks were sent out, %" PRIu64 " MiB given to the driver\n",
           evictions, given_mib);
    return 0;
}
