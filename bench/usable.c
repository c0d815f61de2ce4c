/* usable: how much memory the pool needs for what lives in it.
 *
 * Replays the step of a recorded trace STEPS times on the emulated driver, each block an
 * allocation, and compares the frames that hold live data with the live bytes: rounding to pages,
 * slabs and all, at the step's fullest point. Frames kept at freed blocks for the next one of the
 * size, and free ones, can be had at any time and are listed apart.
 *
 * Usage: usable TRACE… */
#include <stdio.h>
#include <stdlib.h>

#include "base/units.h"
#include "emu/emu.h"
#include "machine/machine.h"
#include "pool/internal.h"
#include "trace/step.h"

enum { STEPS = 100 };

struct usage {
    uint64_t live_bytes, live_pages, kept_pages;
};

static void must(bool fine, const char *what)
{
    if (fine) return;
    fprintf(stderr, "usable: %s failed\n", what);
    exit(1);
}

static struct usage count(vp_pool *pool)
{
    struct usage usage = {0};
    list_each(node, &pool->segments.all)
    {
        const struct segment *segment = list_entry(node, struct segment, all);
        usage.live_bytes += segment->state == SEGMENT_LIVE ? segment->live_bytes : 0;
        for (uint32_t i = 0; i < segment->chunk_count; i++) {
            const struct chunk *chunk = &segment->chunks[i];
            if (!chunk->frame || segment->state == SEGMENT_BARE) continue;
            *(chunk_is_live(chunk) ? &usage.live_pages : &usage.kept_pages) += chunk->pages;
        }
    }
    return usage;
}

static void use(vp_pool *pool, const vp_addr *addresses, uint32_t number)
{
    vp_use use;
    must(vp_use_begin(pool, NULL, addresses, number, &use) == VP_OK, "vp_use_begin");
    vp_use_end(pool, &use);
}

/* One turn of the step; returns the usage where most lives. */
static struct usage play(vp_pool *pool, const struct step *step, vp_addr *address)
{
    struct usage fullest = {0};
    for (uint32_t i = 0; i < step->event_count; i++) {
        const struct step_event *event = &step->events[i];
        vp_addr *block = &address[event->index];
        if (event->kind == TRACE_ALLOC) {
            must(vp_alloc(pool, 0, step->roles[event->index].bytes, block) == VP_OK, "vp_alloc");
            use(pool, block, 1);
        } else if (event->kind == TRACE_FREE) {
            if (*block) must(vp_free(pool, *block) == VP_OK, "vp_free");
            *block = 0;
        }
        if (event->kind == TRACE_OP || pool->segments.live_bytes <= fullest.live_bytes) continue;
        fullest = count(pool);
    }
    return fullest;
}

static void replay(const char *path)
{
    struct trace trace;
    struct step step;
    bool repeats;
    must(trace_read(path, &trace, NULL) == VP_OK, "reading the trace");
    must(step_from_trace(&trace, &step, &repeats) == VP_OK, "finding the step");
    struct machine machine;
    must(machine_from_name("h200", &machine) == VP_OK, "machine_from_name");
    struct emu_options emu = {.machine = &machine, .seed = 1, .free_running = true};
    must(emu_open(&emu) == VP_OK, "emu_open");
    struct driver driver;
    emu_driver(&driver);
    CUcontext context;
    must(driver.cuInit(0) == CUDA_SUCCESS &&
             driver.cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS &&
             driver.cuCtxSetCurrent(context) == CUDA_SUCCESS,
         "starting the driver");
    vp_options options;
    vp_options_init(&options);
    options.host_bytes = 0;
    vp_pool *pool;
    must(pool_open(&driver, &options, &pool) == VP_OK, "pool_open");
    vp_addr *address = calloc(step.role_count, sizeof *address), small[100];
    must(address != NULL, "calloc");
    for (uint32_t i = 0; i < step.role_count; i++)
        if (step.roles[i].born_op == STEP_NEVER) {
            must(vp_alloc(pool, 0, step.roles[i].bytes, &address[i]) == VP_OK, "vp_alloc");
            use(pool, &address[i], 1);
        }
    for (uint32_t i = 0; i < 100; i++) { /* traces leave small blocks out */
        must(vp_alloc(pool, 0, 512 + i * 4096, &small[i]) == VP_OK, "vp_alloc");
        use(pool, &small[i], 1);
    }
    struct usage usage = {0};
    for (unsigned i = 0; i < STEPS; i++) usage = play(pool, &step, address);
    uint64_t page = pool->page_bytes, reserve = pool->frames.place[0].free_pages * page;
    double over = 100.0 * ((double)(usage.live_pages * page) / (double)usage.live_bytes - 1);
    printf(
        "{\"trace\": \"%s\", \"live_bytes\": %llu, \"frame_bytes\": %llu, \"over_percent\": %.3f, "
        "\"kept_bytes\": %llu, \"reserve_bytes\": %llu}\n",
        path, (unsigned long long)usage.live_bytes, (unsigned long long)(usage.live_pages * page),
        over, (unsigned long long)(usage.kept_pages * page), (unsigned long long)reserve);
    vp_close(pool);
    emu_close();
    free(address);
    step_release(&step);
    trace_release(&trace);
}

int main(int count, char **words)
{
    if (count < 2) {
        fputs("Usage: usable TRACE…\n", stderr);
        return 2;
    }
    for (int i = 1; i < count; i++) replay(words[i]);
    return 0;
}
