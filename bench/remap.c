/* remap: what the driver's mapping calls cost with one card at work, and with all of them at once.
 *
 * A thread a card maps a frame of that card, opens it to every card that has access, and unmaps it,
 * ROUNDS times; first each card's by itself, then all together. The driver serialises such calls to
 * a degree, and a pool over several cards has a mover for each.
 *
 * stdout: a line of JSON; microseconds, medians over all cards, and the 99th percentile.
 *
 * Usage: remap [ROUNDS] */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/sample.h"
#include "driver/driver.h"

enum { CHUNK_BYTES = 32 << 20, DEFAULT_ROUNDS = 300, MAX_ROUNDS = 100000 };

/* The three calls that are timed. */
enum call { MAP, ACCESS, UNMAP, CALLS };
static const char *const call_names[] = {"map", "set_access", "unmap"};

struct card {
    pthread_t thread;
    int ordinal;
    CUcontext context;
    CUdeviceptr at;
    CUmemGenericAllocationHandle frame;
    CUmemAccessDesc access[VP_MAX_CARDS];
    size_t access_count;
    double *us[CALLS];
};

static struct driver driver;
static pthread_barrier_t barrier;
static size_t rounds = DEFAULT_ROUNDS;

static void must(CUresult result, const char *what)
{
    if (result == CUDA_SUCCESS) return;
    fprintf(stderr, "remap: %s: %s\n", what, driver_error_name(&driver, result));
    exit(1);
}

/* `count` cards; those that may access this one get access, and itself. */
static void prepare(struct card *card, int ordinal, int count)
{
    card->ordinal = ordinal;
    for (int other = 0; other < count; other++) {
        int allowed = other == ordinal;
        if (!allowed)
            must(driver.cuDeviceCanAccessPeer(&allowed, other, ordinal), "cuDeviceCanAccessPeer");
        if (!allowed) continue;
        card->access[card->access_count++] = (CUmemAccessDesc){
            .location = {CU_MEM_LOCATION_TYPE_DEVICE, other},
            .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
    }
    must(driver.cuDevicePrimaryCtxRetain(&card->context, ordinal), "cuDevicePrimaryCtxRetain");
    must(driver.cuCtxSetCurrent(card->context), "cuCtxSetCurrent");
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
    prop.location = (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, ordinal};
    must(driver.cuMemCreate(&card->frame, CHUNK_BYTES, &prop, 0), "cuMemCreate");
    must(driver.cuMemAddressReserve(&card->at, CHUNK_BYTES, 0, 0, 0), "cuMemAddressReserve");
    for (int call = 0; call < CALLS; call++) {
        card->us[call] = calloc(rounds, sizeof *card->us[call]);
        if (!card->us[call]) must(CUDA_ERROR_OUT_OF_MEMORY, "room for the times");
    }
}

static void drop(struct card *card)
{
    must(driver.cuMemAddressFree(card->at, CHUNK_BYTES), "cuMemAddressFree");
    must(driver.cuMemRelease(card->frame), "cuMemRelease");
    must(driver.cuDevicePrimaryCtxRelease_v2(card->ordinal), "cuDevicePrimaryCtxRelease");
    for (int call = 0; call < CALLS; call++) free(card->us[call]);
}

static double us_since(uint64_t *start)
{
    uint64_t now = clock_now_ns(), before = *start;
    *start = now;
    return (double)(now - before) / 1e3;
}

static void *work(void *argument)
{
    struct card *card = argument;
    must(driver.cuCtxSetCurrent(card->context), "cuCtxSetCurrent");
    pthread_barrier_wait(&barrier);
    for (size_t i = 0; i < rounds; i++) {
        uint64_t start = clock_now_ns();
        must(driver.cuMemMap(card->at, CHUNK_BYTES, 0, card->frame, 0), "cuMemMap");
        card->us[MAP][i] = us_since(&start);
        must(driver.cuMemSetAccess(card->at, CHUNK_BYTES, card->access, card->access_count),
             "cuMemSetAccess");
        card->us[ACCESS][i] = us_since(&start);
        must(driver.cuMemUnmap(card->at, CHUNK_BYTES), "cuMemUnmap");
        card->us[UNMAP][i] = us_since(&start);
    }
    return NULL;
}

static void run_together(struct card *cards, unsigned count)
{
    pthread_barrier_init(&barrier, NULL, count);
    for (unsigned i = 0; i < count; i++)
        if (pthread_create(&cards[i].thread, NULL, work, &cards[i]) != 0) abort();
    for (unsigned i = 0; i < count; i++) pthread_join(cards[i].thread, NULL);
    pthread_barrier_destroy(&barrier);
}

/* Over all cards: {"map_us": …, "map_p99_us": …, …}. */
static void print(const struct card *cards, unsigned count)
{
    double *all = malloc(count * rounds * sizeof *all);
    if (!all) must(CUDA_ERROR_OUT_OF_MEMORY, "room for the times");
    for (int call = 0; call < CALLS; call++) {
        for (unsigned i = 0; i < count; i++)
            memcpy(all + i * rounds, cards[i].us[call], rounds * sizeof *all);
        double p99 = sample_quantile(all, count * rounds, 0.99);
        printf("%s\"%s_us\": %.2f, \"%s_p99_us\": %.2f", call ? ", " : "{", call_names[call],
               sample_median(all, count * rounds), call_names[call], p99);
    }
    printf("}");
    free(all);
}

int main(int argc, char **argv)
{
    static struct card cards[VP_MAX_CARDS];
    static char path[4096];
    int count = 0;
    if (argc > 1) rounds = strtoull(argv[1], NULL, 10);
    if (argc > 2 || rounds == 0 || rounds > MAX_ROUNDS) {
        fprintf(stderr, "remap [ROUNDS], at most %d\n", MAX_ROUNDS);
        return 2;
    }
    if (driver_find(NULL, path, sizeof path) != VP_OK || driver_load(&driver, path) != VP_OK)
        return 1;
    must(driver.cuInit(0), "cuInit");
    must(driver.cuDeviceGetCount(&count), "cuDeviceGetCount");
    if (count > VP_MAX_CARDS) count = VP_MAX_CARDS;
    for (int i = 0; i < count; i++) prepare(&cards[i], i, count);
    for (int i = 0; i < count; i++) run_together(&cards[i], 1);
    printf("{\"cards\": %d, \"chunk_bytes\": %d, \"rounds\": %zu, \"alone\": ", count, CHUNK_BYTES,
           rounds);
    print(cards, (unsigned)count);
    run_together(cards, (unsigned)count);
    printf(", \"together\": ");
    print(cards, (unsigned)count);
    printf("}\n");
    for (int i = 0; i < count; i++) drop(&cards[i]);
    driver_unload(&driver);
    return 0;
}
