/* The measurements: copies and kernels between buffers mapped as the pool maps its frames.
 *
 * Time is taken by events around each of several rounds that are queued at once, so what a call
 * costs does not count. What was copied is read back by a kernel: its sum must be right. */
#include <assert.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cuckoo.h"
#include "base/random.h"
#include "base/sample.h"
#include "base/units.h"
#include "bench.h"
#include "cli.h"
#include "machine/route.h"
#include "space/space.h"

extern const char bench_ptx[];

/* clang-format off */
#define KERNEL_CALLS(X) \
    X(cuModuleLoadData, (void **module, const char *image)) \
    X(cuModuleGetFunction, (CUfunction *function, void *module, const char *name)) \
    X(cuLaunchKernel, (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, \
                       unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared, \
                       CUstream stream, void **params, void **extra))
/* clang-format on */

enum { BLOCKS = 528, THREADS = 512, CHASE_LOADS = 16384, CHASE_STRIDE = 16 /* words: a line */ };

struct card {
    CUcontext context;
    CUstream stream;
    CUfunction write, read, link, chase;
    CUdeviceptr result; /* one word in its own memory */
};

struct buffer {
    CUmemGenericAllocationHandle handle;
    CUdeviceptr address;
    uint64_t bytes;
    unsigned place;
    uint32_t reach; /* bit i: card i may use it in place */
};

struct run {
    const struct driver *driver;
    struct bench *bench;
#define CALL_FIELD(symbol, arguments) CUresult(*symbol) arguments;
    KERNEL_CALLS(CALL_FIELD)
#undef CALL_FIELD
    struct card card[VP_MAX_CARDS];
    CUevent event[BENCH_MAX_ROUNDS + 1];
    double sample[BENCH_MAX_ROUNDS];
};

static bool good(const struct run *run, CUresult result, const char *what)
{
    if (result == CUDA_SUCCESS) return true;
    cli_fail(1, "bench: %s: %s", what, driver_error_name(run->driver, result));
    return false;
}

#define MUST(call, what)                                                                           \
    do {                                                                                           \
        if (!good(run, call, what)) return false;                                                  \
    } while (0)

static bool use_card(struct run *run, unsigned card)
{
    MUST(run->driver->cuCtxSetCurrent(run->card[card].context), "choosing a card");
    return true;
}

/* ---- Buffers ---- */

static CUresult create(const struct run *run, struct buffer *buffer)
{
    const struct driver *driver = run->driver;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = (int)buffer->place;
    if (buffer->place < run->bench->cards)
        return driver->cuMemCreate(&buffer->handle, buffer->bytes, &prop, 0);
    prop.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA; /* refused in some containers */
    prop.location.id = 0;
    if (driver->cuMemCreate(&buffer->handle, buffer->bytes, &prop, 0) == CUDA_SUCCESS)
        return CUDA_SUCCESS;
    prop.location.type = CU_MEM_LOCATION_TYPE_HOST;
    return driver->cuMemCreate(&buffer->handle, buffer->bytes, &prop, 0);
}

static void drop(const struct run *run, struct buffer *buffer)
{
    const struct driver *driver = run->driver;
    if (!buffer->address) return;
    driver->cuMemUnmap(buffer->address, buffer->bytes);
    driver->cuMemAddressFree(buffer->address, buffer->bytes);
    driver->cuMemRelease(buffer->handle);
    *buffer = (struct buffer){0};
}

static bool make(struct run *run, unsigned place, struct buffer *buffer)
{
    const struct driver *driver = run->driver;
    unsigned home = place < run->bench->cards ? place : 0;
    *buffer = (struct buffer){.place = place, .bytes = run->bench->size_bytes};
    if (!use_card(run, home)) return false;
    MUST(create(run, buffer), "making a buffer; try a smaller --size");
    MUST(driver->cuMemAddressReserve(&buffer->address, buffer->bytes, 0, 0, 0), "an address");
    MUST(driver->cuMemMap(buffer->address, buffer->bytes, 0, buffer->handle, 0), "mapping");
    for (unsigned card = 0; card < run->bench->cards; card++) {
        CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, (int)card},
                                  CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        if (driver->cuMemSetAccess(buffer->address, buffer->bytes, &access, 1) == CUDA_SUCCESS)
            buffer->reach |= UINT32_C(1) << card;
    }
    if (buffer->reach >> home & 1) return true;
    cli_fail(1, "bench: card%u cannot use a buffer of its own", home);
    return false;
}

/* ---- Work in rounds ---- */

struct work {
    unsigned card;
    CUfunction function; /* NULL: a copy from params[1] to params[0] */
    unsigned blocks, threads;
    uint64_t params[3];
    uint64_t bytes;
};

static CUresult queue(struct run *run, struct work *work)
{
    CUstream stream = run->card[work->card].stream;
    void *params[] = {&work->params[0], &work->params[1], &work->params[2]};
    if (!work->function)
        return run->driver->cuMemcpyAsync(work->params[0], work->params[1], work->bytes, stream);
    return run->cuLaunchKernel(work->function, work->blocks, 1, 1, work->threads, 1, 1, 0, stream,
                               params, NULL);
}

/* Median time of one round, in ns. All are queued at once. */
static bool time_rounds(struct run *run, struct work *work, unsigned rounds, double *ns)
{
    const struct driver *driver = run->driver;
    CUstream stream = run->card[work->card].stream;
    if (!use_card(run, work->card)) return false;
    for (unsigned i = 0; i <= rounds; i++)
        MUST(driver->cuEventCreate(&run->event[i], 0), "making an event");
    MUST(driver->cuEventRecord(run->event[0], stream), "an event");
    for (unsigned i = 0; i < rounds; i++) {
        MUST(queue(run, work), work->function ? "launching a kernel" : "copying");
        MUST(driver->cuEventRecord(run->event[i + 1], stream), "an event");
    }
    MUST(driver->cuStreamSynchronize(stream), "waiting for copies or kernels");
    for (unsigned i = 0; i < rounds; i++) {
        float ms = 0;
        MUST(driver->cuEventElapsedTime(&ms, run->event[i], run->event[i + 1]), "reading time");
        run->sample[i] = (double)ms * 1e6;
    }
    for (unsigned i = 0; i <= rounds; i++) driver->cuEventDestroy_v2(run->event[i]);
    *ns = sample_median(run->sample, rounds);
    return true;
}

static bool rate(struct run *run, struct work *work, unsigned rounds, double *gbps)
{
    double ns = 0;
    if (!time_rounds(run, work, rounds, &ns)) return false;
    *gbps = ns > 0 ? (double)work->bytes / ns : 0;
    return true;
}

static struct work stream_work(const struct run *run, unsigned card, CUfunction function,
                               const struct buffer *buffer, uint64_t last)
{
    return (struct work){.card = card,
                         .function = function,
                         .blocks = BLOCKS,
                         .threads = THREADS,
                         .params = {buffer->address, run->bench->size_bytes / 8, last},
                         .bytes = run->bench->size_bytes};
}

/* ---- One pair ---- */

static bool fill(struct run *run, unsigned card, const struct buffer *buffer, uint64_t seed)
{
    double ns;
    struct work work = stream_work(run, card, run->card[card].write, buffer, seed);
    return time_rounds(run, &work, 1, &ns);
}

static bool read_result(struct run *run, unsigned card, uint64_t *value)
{
    CUdeviceptr to = (CUdeviceptr)(uintptr_t)value;
    CUstream stream = run->card[card].stream;
    MUST(run->driver->cuMemcpyAsync(to, run->card[card].result, sizeof *value, stream),
         "reading a result");
    MUST(run->driver->cuStreamSynchronize(stream), "reading a result");
    return true;
}

static bool check(struct run *run, unsigned card, const struct buffer *buffer, uint64_t seed)
{
    uint64_t count = run->bench->size_bytes / 8, found, index_sum;
    struct work work = stream_work(run, card, run->card[card].read, buffer, run->card[card].result);
    double ns;
    if (!use_card(run, card)) return false;
    MUST(run->driver->cuMemsetD8Async(run->card[card].result, 0, 8, run->card[card].stream),
         "clearing a result");
    if (!time_rounds(run, &work, 1, &ns) || !read_result(run, card, &found)) return false;
    index_sum = count % 2 ? (count - 1) / 2 * count : count / 2 * (count - 1);
    if (found == (index_sum + count * seed) * UINT64_C(0x9e3779b97f4a7c15)) return true;
    cli_fail(1, "bench: what was copied to place %u is wrong: this path cannot be used",
             buffer->place);
    return false;
}

static uint64_t chase_loads(const struct run *run)
{
    uint64_t loads = CHASE_LOADS;
    while (loads * CHASE_STRIDE * 8 > run->bench->size_bytes) loads /= 2;
    return loads;
}

/* Chases pointers through a buffer. They are as far apart as it is large, up to 256 MiB. */
static bool latency(struct run *run, unsigned card, const struct buffer *buffer, double *ns)
{
    uint64_t loads = chase_loads(run), end, span = run->bench->size_bytes;
    if (span > 256 * MIB) span = 256 * MIB;
    uint64_t stride = span / 8 / loads;
    struct work link = {.card = card,
                        .function = run->card[card].link,
                        .blocks = 16,
                        .threads = THREADS,
                        .params = {buffer->address, loads, stride}};
    struct work chase = {.card = card,
                         .function = run->card[card].chase,
                         .blocks = 1,
                         .threads = 1,
                         .params = {buffer->address, loads, run->card[card].result}};
    if (!time_rounds(run, &link, 1, ns) || !time_rounds(run, &chase, 1, ns)) return false;
    *ns /= (double)loads;
    if (!read_result(run, card, &end)) return false;
    if (end == buffer->address) return true;
    cli_fail(1, "bench: a ring of pointers in place %u did not close: this path cannot be used",
             buffer->place);
    return false;
}

static bool use_in_place(struct run *run, unsigned card, const struct buffer *buffer,
                         struct bench_pair *pair)
{
    struct work write = stream_work(run, card, run->card[card].write, buffer, 1);
    struct work read = stream_work(run, card, run->card[card].read, buffer, run->card[card].result);
    pair->in_place = buffer->reach >> card & 1;
    if (!pair->in_place) return true;
    return rate(run, &write, run->bench->rounds, &pair->write_gbps) &&
           latency(run, card, buffer, &pair->latency_ns) &&
           rate(run, &read, run->bench->rounds, &pair->read_gbps);
}

static unsigned hops_between(const struct bench *bench, unsigned from, unsigned to)
{
    return bench->described.cards ? route_find(&bench->described, from, to).hops : 0;
}

static bool copy_rate(struct run *run, const struct buffer *source, const struct buffer *target,
                      double *gbps)
{
    unsigned cards = run->bench->cards;
    unsigned card = source->place < cards ? source->place : target->place;
    unsigned reader = target->place < cards ? target->place : card;
    uint64_t seed = source->place * UINT64_C(1000) + target->place;
    struct work copy = {.card = card,
                        .params = {target->address, source->address, 0},
                        .bytes = run->bench->size_bytes};
    return fill(run, card, source, seed) && rate(run, &copy, run->bench->rounds, gbps) &&
           check(run, reader, target, seed);
}

static bool measure_pair(struct run *run, const struct buffer *source, const struct buffer *target)
{
    struct bench *bench = run->bench;
    struct bench_pair *pair = &bench->pair[bench->pairs++];
    bool from_host = source->place == bench->cards;
    *pair = (struct bench_pair){.from = source->place, .to = target->place};
    pair->hops = hops_between(bench, pair->from, pair->to);
    return copy_rate(run, source, target, &pair->copy_gbps) &&
           use_in_place(run, from_host ? target->place : source->place, from_host ? source : target,
                        pair);
}

static bool measure_pairs(struct run *run)
{
    unsigned places = run->bench->cards + 1;
    struct buffer target[BENCH_PLACES] = {{0}}, source = {0};
    bool fine = true;
    for (unsigned to = 0; to < places && fine; to++) fine = make(run, to, &target[to]);
    for (unsigned from = 0; from < places && fine; from++) {
        fine = make(run, from, &source);
        for (unsigned to = 0; to < places && fine; to++)
            if (from != run->bench->cards || to != from)
                fine = measure_pair(run, &source, &target[to]);
        drop(run, &source);
    }
    for (unsigned to = 0; to < places; to++) drop(run, &target[to]);
    return fine;
}

/* ---- Through the host ---- */

/* Takes all links away from the emulated machine: what is left is the way through the host. */
static bool cut_links(struct run *run)
{
    const struct machine *machine = &run->bench->described;
    vp_status (*lose)(unsigned, unsigned);
    *(void **)&lose = dlsym(run->driver->library, "emu_lose_link");
    for (unsigned i = 0; i < machine->links; i++)
        if (!lose || lose(machine->link[i].ends[0], machine->link[i].ends[1]) != VP_OK)
            return false;
    return true;
}

/* On a real machine: a copy out and a copy in, piece by piece at once, as staged copies go. */
static bool staged_rate(struct run *run, const struct buffer *host, struct buffer *source,
                        struct buffer *target)
{
    enum { PIECES = 32 };
    const struct driver *driver = run->driver;
    uint64_t bytes = run->bench->size_bytes / PIECES;
    CUevent landed[PIECES];
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (unsigned i = 0; i < PIECES; i++) {
        uint64_t at = i * bytes;
        if (!use_card(run, source->place)) return false;
        MUST(driver->cuEventCreate(&landed[i], 0), "making an event");
        MUST(driver->cuMemcpyAsync(host->address + at, source->address + at, bytes,
                                   run->card[source->place].stream),
             "copying to the host");
        MUST(driver->cuEventRecord(landed[i], run->card[source->place].stream), "an event");
        if (!use_card(run, target->place)) return false;
        MUST(driver->cuStreamWaitEvent(run->card[target->place].stream, landed[i], 0), "an event");
        MUST(driver->cuMemcpyAsync(target->address + at, host->address + at, bytes,
                                   run->card[target->place].stream),
             "copying from the host");
    }
    MUST(driver->cuStreamSynchronize(run->card[target->place].stream), "waiting for a copy");
    clock_gettime(CLOCK_MONOTONIC, &end);
    double ns = (double)(end.tv_sec - start.tv_sec) * 1e9 + (double)(end.tv_nsec - start.tv_nsec);
    run->bench->fallback_gbps = (double)(bytes * PIECES) / ns;
    for (unsigned i = 0; i < PIECES; i++) driver->cuEventDestroy_v2(landed[i]);
    return true;
}

/* From card 0 to card 1. Where cards may not load through the host, the latency is that of loading
 * from the host's memory, where such data would be used. */
static bool measure_fallback(struct run *run)
{
    struct bench *bench = run->bench;
    struct buffer source = {0}, target = {0}, host = {0};
    bench->has_fallback = bench->cards > 1;
    if (!bench->has_fallback) return true;
    bool fine = !bench->emulated || cut_links(run);
    fine = fine && make(run, 0, &source) && make(run, 1, &target) && make(run, bench->cards, &host);
    if (fine && bench->emulated)
        fine = copy_rate(run, &source, &target, &bench->fallback_gbps);
    else if (fine)
        fine = staged_rate(run, &host, &source, &target);
    bool direct = bench->emulated && (target.reach & 1);
    fine = fine && latency(run, 0, direct ? &target : &host, &bench->fallback_latency_ns);
    drop(run, &source);
    drop(run, &target);
    drop(run, &host);
    return fine;
}

/* ---- The whole ---- */

static bool open_card(struct run *run, unsigned number)
{
    const struct driver *driver = run->driver;
    struct card *card = &run->card[number];
    CUdevice device;
    void *module;
    MUST(driver->cuDeviceGet(&device, (int)number), "finding a card");
    MUST(driver->cuDevicePrimaryCtxRetain(&card->context, device), "opening a card");
    if (!use_card(run, number)) return false;
    MUST(driver->cuStreamCreateWithPriority(&card->stream, 1, 0), "making a stream");
    MUST(driver->cuMemAlloc_v2(&card->result, 8), "memory for a result");
    MUST(run->cuModuleLoadData(&module, bench_ptx), "loading the kernels");
    MUST(run->cuModuleGetFunction(&card->write, module, "bench_write"), "bench_write");
    MUST(run->cuModuleGetFunction(&card->read, module, "bench_read"), "bench_read");
    MUST(run->cuModuleGetFunction(&card->link, module, "bench_link"), "bench_link");
    MUST(run->cuModuleGetFunction(&card->chase, module, "bench_chase"), "bench_chase");
    return true;
}

static bool find_calls(struct run *run)
{
#define CALL_FIND(symbol, arguments)                                                               \
    *(void **)&run->symbol = dlsym(run->driver->library, #symbol);                                 \
    if (!run->symbol) {                                                                            \
        cli_fail(1, "bench: the driver has no " #symbol);                                          \
        return false;                                                                              \
    }
    KERNEL_CALLS(CALL_FIND)
#undef CALL_FIND
    return true;
}

/* Two buffers on each card, and on the host, with room to spare. */
static bool fit_size(struct run *run)
{
    struct bench *bench = run->bench;
    for (unsigned card = 0; card < bench->cards; card++) {
        size_t free_bytes, total_bytes;
        if (!use_card(run, card)) return false;
        MUST(run->driver->cuMemGetInfo_v2(&free_bytes, &total_bytes), "asking for memory");
        if (bench->size_bytes > free_bytes / 4) bench->size_bytes = free_bytes / 4;
    }
    bench->size_bytes -= bench->size_bytes % (2 * MIB);
    if (bench->size_bytes > 0) return true;
    cli_fail(1, "bench: a card has no room for two buffers of 2 MiB");
    return false;
}

bool bench_measure(const struct driver *driver, struct bench *bench)
{
    static struct run run;
    run = (struct run){.driver = driver, .bench = bench};
    if (!find_calls(&run)) return false;
    for (unsigned card = 0; card < bench->cards; card++)
        if (!open_card(&run, card)) return false;
    return fit_size(&run) && measure_pairs(&run) && measure_fallback(&run);
}

/* ---- Lookup ---- */

enum { CHUNKS = 100000, LOOKUPS = 1 << 20 };

static double cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

double bench_lookup_ns(void)
{
    const uint64_t page_bytes = 2 * MIB;
    struct space space;
    vp_addr base;
    vp_addr *addresses = malloc(LOOKUPS * sizeof *addresses);
    if (!addresses || space_create(&space, UINT64_C(1) << 45, 64 * TIB, page_bytes) != VP_OK ||
        space_extend(&space, CHUNKS, &base) != VP_OK)
        return -1;
    struct random random = {.state = 1};
    for (unsigned i = 0; i < CHUNKS; i++)
        space_set_location(&space, base + i * page_bytes, 1, i % BENCH_PLACES, i);
    for (unsigned i = 0; i < LOOKUPS; i++)
        addresses[i] = base + random_below(&random, CHUNKS * page_bytes);
    uint64_t sum = 0;
    double start_ns = cpu_ns();
    for (unsigned i = 0; i < LOOKUPS; i++)
        sum += space_location_frame(space_lookup(&space, addresses[i]));
    double ns = cpu_ns() - start_ns;
    space_destroy(&space);
    free(addresses);
    return sum > 0 ? ns / LOOKUPS : -1; /* it always is, and so the lookups are not left out */
}

/* Every other chunk is remote, and so every other answer is yes. */
double bench_filter_ns(void)
{
    struct cuckoo filter;
    uint32_t *chunks = malloc(LOOKUPS * sizeof *chunks), remote = 0;
    if (!chunks || cuckoo_create(CHUNKS, CUCKOO_MOST_BITS, &filter) != VP_OK) return -1;
    struct random random = {.state = 1};
    bool fine = true;
    for (unsigned i = 0; i < CHUNKS; i += 2) fine &= cuckoo_add(&filter, i);
    for (unsigned i = 0; i < LOOKUPS; i++) chunks[i] = (uint32_t)random_below(&random, CHUNKS);
    double start_ns = cpu_ns();
    for (unsigned i = 0; i < LOOKUPS; i++) remote += cuckoo_has(&filter, chunks[i]);
    double ns = cpu_ns() - start_ns;
    cuckoo_destroy(&filter);
    free(chunks);
    return fine && remote >= LOOKUPS / 3 ? ns / LOOKUPS : -1;
}
