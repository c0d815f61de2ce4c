/* pool: a program that opens a pool of its own, with include/vrampool.h and without `vrampool run`.
 *
 * It puts eight blocks of 8 MiB on a card of which the pool may hold 24 MiB, so that most of them
 * must be elsewhere at any time, and reads back what it wrote. What the pool cannot see here, the
 * work on the card, is bracketed by vp_use_begin and vp_use_end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"
#include "vrampool.h"

enum { BLOCKS = 8, BLOCK_BYTES = 8 << 20, HBM_BYTES = 24 << 20 };

static void check(vp_status status, const char *what)
{
    if (status == VP_OK) return;
    fprintf(stderr, "pool: %s: %s (%s)\n", what, vp_status_text(status), vp_status_name(status));
    exit(1);
}

/* Fills a block on the card. The block is sure to be in place for work queued before vp_use_end. */
static void fill(vp_pool *pool, const struct gpu *gpu, vp_addr block, unsigned char value)
{
    vp_use use;
    check(vp_use_begin(pool, NULL, &block, 1, &use), "vp_use_begin");
    int error = gpu->cuMemsetD8_v2(block, value, BLOCK_BYTES);
    vp_use_end(pool, &use);
    gpu_check(gpu, error, "cuMemsetD8");
}

/* Reads a block back; false when it is not what fill wrote. */
static int holds(vp_pool *pool, const struct gpu *gpu, vp_addr block, unsigned char value)
{
    static unsigned char bytes[BLOCK_BYTES];
    vp_use use;
    check(vp_use_begin(pool, NULL, &block, 1, &use), "vp_use_begin");
    int error = gpu->cuMemcpyDtoH_v2(bytes, block, BLOCK_BYTES);
    vp_use_end(pool, &use);
    gpu_check(gpu, error, "cuMemcpyDtoH");
    return bytes[0] == value && memcmp(bytes, bytes + 1, BLOCK_BYTES - 1) == 0;
}

static void print_location(vp_pool *pool, unsigned number, vp_addr block)
{
    vp_location location;
    vp_place_info_t place;
    check(vp_locate(pool, block, &location), "vp_locate");
    check(vp_place_info(pool, location.place, &place), "vp_place_info");
    printf("block %u at 0x%llx: ", number, (unsigned long long)block);
    if (location.resident)
        printf("%s, frame %llu, offset %llu\n", place.name, (unsigned long long)location.frame,
               (unsigned long long)location.offset_bytes);
    else
        printf("no memory yet\n");
}

static void print_figures(vp_pool *pool)
{
    for (unsigned i = 0; i < vp_place_count(pool); i++) {
        vp_place_info_t place;
        check(vp_place_info(pool, i, &place), "vp_place_info");
        printf("%-8s %6llu MiB of %llu\n", place.name, (unsigned long long)place.used_bytes >> 20,
               (unsigned long long)place.capacity_bytes >> 20);
    }
    vp_stats stats;
    vp_stats_read(pool, &stats);
#define PRINT_STAT(name, text)                                                                     \
    printf("%-14s %12llu  %s\n", #name, (unsigned long long)stats.name, text);
    VP_STATS(PRINT_STAT)
#undef PRINT_STAT
}

int main(int count, char **words)
{
    if (count > 3) {
        fprintf(stderr, "pool [DRIVER [REPORT]]: a driver library, real or emulated, and a file\n");
        return 2;
    }
    const char *driver = count > 1 ? words[1] : NULL, *report = count > 2 ? words[2] : NULL;
    struct gpu gpu;
    gpu_open(&gpu, "pool", driver);

    vp_options options;
    vp_options_init(&options);
    options.driver_path = driver;
    options.hbm_bytes = HBM_BYTES;
    vp_pool *pool = NULL;
    check(vp_open(&options, &pool), "vp_open");

    vp_addr blocks[BLOCKS];
    for (unsigned i = 0; i < BLOCKS; i++) {
        check(vp_alloc(pool, 0, BLOCK_BYTES, &blocks[i]), "vp_alloc");
        fill(pool, &gpu, blocks[i], (unsigned char)(i + 1));
    }
    check(vp_advise(pool, blocks[0], BLOCK_BYTES, VP_ADVISE_PREFERRED_PLACE, 0), "vp_advise");
    check(vp_prefetch(pool, blocks[1], BLOCK_BYTES, 0), "vp_prefetch");
    for (unsigned i = 0; i < BLOCKS; i++) print_location(pool, i, blocks[i]);

    int good = 1;
    for (unsigned i = 0; i < BLOCKS; i++) {
        if (holds(pool, &gpu, blocks[i], (unsigned char)(i + 1))) continue;
        fprintf(stderr, "pool: block %u does not hold what was written\n", i);
        good = 0;
    }
    print_figures(pool);
    if (report) check(vp_report(pool, report), "vp_report");
    for (unsigned i = 0; i < BLOCKS; i++) check(vp_free(pool, blocks[i]), "vp_free");
    vp_close(pool);
    return good ? 0 : 1;
}
