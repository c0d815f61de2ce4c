/* launch: what the pool adds to a launch, and what an allocation costs from it.
 *
 * Run it under the pool (`vrampool run -- build/bench/launch`): each launch goes once through the
 * library that stands in front of the driver and once to the driver itself, by turns, in one
 * process and on the same stream, so that both meet the same conditions. Run alone it measures the
 * driver.
 *
 * stdout has one line of JSON. Times are ns of the calling thread; `added` is a launch through the
 * library less the driver's median; each figure is the median of ROUNDS rounds, with the least and
 * the largest. */
#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/sample.h"
#include "emu/emu_kernel.h"
#include "gpu.h"

enum { ROUNDS = 5, LAUNCHES = 4000, PAIRS = 1000, BETWEEN_WAITS = 32, POINTERS = 4 };
enum { SMALL_BYTES = 512 << 10, LARGE_BYTES = 8 << 20 };

static const char noop_ptx[] = ".version 6.4\n.target sm_75\n.address_size 64\n"
                               ".visible .entry bench_noop(.param .u64 a, .param .u64 b,\n"
                               "                           .param .u64 c, .param .u64 d)\n"
                               "{ ret; }\n";

void emu_kernel_bench_noop(struct emu_block *b);
void emu_kernel_bench_noop(struct emu_block *b) {}

/* One figure of each round. */
struct figure {
    double rounds[ROUNDS];
};

struct launch_figures {
    struct figure median, p99, native_median, native_p99, added_median, added_p99;
};

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static const char *path_of(const void *function)
{
    Dl_info about;
    return dladdr(function, &about) && about.dli_fname ? about.dli_fname : "";
}

struct search {
    const char *front; /* the library that programs call */
    char path[4096];
};

static int look_at(struct dl_phdr_info *library, size_t size, void *data)
{
    struct search *search = data;
    const char *name = strrchr(library->dlpi_name, '/');
    bool driver = name && (strncmp(name, "/libcuda.so", 11) == 0 ||
                           strncmp(name, "/libvrampool-emu", 16) == 0);
    if (!driver || strcmp(library->dlpi_name, search->front) == 0) return 0;
    snprintf(search->path, sizeof search->path, "%s", library->dlpi_name);
    return 1;
}

/* Finds the driver's launch behind the preloaded library, in `native`, whose other calls stay those
 * of `front`; false: there is none. The preloaded library answers dlopen for the driver's path with
 * itself; dlmopen of what is loaded already is left alone. */
static bool find_driver(const struct gpu *front, struct gpu *native)
{
    struct search search = {.front = path_of(*(void *const *)&front->cuLaunchKernel)};
    if (!dl_iterate_phdr(look_at, &search)) return false;
    void *driver = dlmopen(LM_ID_BASE, search.path, RTLD_NOW | RTLD_NOLOAD);
    if (!driver) return false;
    *native = *front;
    *(void **)&native->cuLaunchKernel = dlsym(driver, "cuLaunchKernel");
    return native->cuLaunchKernel && native->cuLaunchKernel != front->cuLaunchKernel;
}

static double time_launch(const struct gpu *gpu, gpu_function function, void **params)
{
    double start = now_ns();
    int error = gpu->cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL);
    double end = now_ns();
    gpu_check(gpu, error, "launching");
    return end - start;
}

/* One round: the same launch through both, by turns; `native` may be NULL. */
static void measure_launches(const struct gpu *gpu, const struct gpu *native, gpu_function function,
                             void **params, struct launch_figures *figures, unsigned round)
{
    static double front[LAUNCHES], behind[LAUNCHES];
    for (unsigned i = 0; i < LAUNCHES; i++) {
        bool native_first = i % 2;
        if (native && native_first) behind[i] = time_launch(native, function, params);
        front[i] = time_launch(gpu, function, params);
        if (native && !native_first) behind[i] = time_launch(native, function, params);
        if (i % BETWEEN_WAITS == 0) gpu_check(gpu, gpu->cuCtxSynchronize(), "waiting");
    }
    figures->median.rounds[round] = sample_median(front, LAUNCHES);
    figures->p99.rounds[round] = sample_quantile(front, LAUNCHES, 0.99);
    if (!native) return;
    double base = sample_median(behind, LAUNCHES);
    figures->native_median.rounds[round] = base;
    figures->native_p99.rounds[round] = sample_quantile(behind, LAUNCHES, 0.99);
    figures->added_median.rounds[round] = figures->median.rounds[round] - base;
    figures->added_p99.rounds[round] =
        figures->p99.rounds[round] - figures->native_p99.rounds[round];
}

/* The median time of an allocation and its release. */
static double measure_pairs(const struct gpu *gpu, size_t bytes)
{
    static double times[PAIRS];
    for (unsigned i = 0; i < PAIRS; i++) {
        gpu_address address = 0;
        double start = now_ns();
        int error = gpu->cuMemAlloc_v2(&address, bytes);
        int freed = error == 0 ? gpu->cuMemFree_v2(address) : 0;
        times[i] = now_ns() - start;
        gpu_check(gpu, error, "allocating");
        gpu_check(gpu, freed, "freeing");
    }
    return sample_median(times, PAIRS);
}

static void print_figure(const char *name, struct figure *figure)
{
    double middle = sample_median(figure->rounds, ROUNDS); /* which sorts them */
    printf("\"%s\": {\"median\": %.0f, \"least\": %.0f, \"largest\": %.0f}", name, middle,
           figure->rounds[0], figure->rounds[ROUNDS - 1]);
}

int main(void)
{
    struct gpu gpu, native;
    gpu_open(&gpu, "launch", NULL);
    bool pooled = find_driver(&gpu, &native);
    gpu_load_kernels(&gpu, noop_ptx);
    gpu_function function = gpu_kernel(&gpu, "bench_noop");
    gpu_address blocks[POINTERS];
    void *params[POINTERS];
    for (unsigned i = 0; i < POINTERS; i++) {
        blocks[i] = gpu_alloc(&gpu, LARGE_BYTES);
        params[i] = &blocks[i];
        gpu_check(&gpu, gpu.cuMemsetD8_v2(blocks[i], 0, LARGE_BYTES), "cuMemsetD8");
    }

    struct launch_figures figures, warm;
    struct figure small, large;
    measure_launches(&gpu, pooled ? &native : NULL, function, params, &warm, 0);
    measure_pairs(&gpu, SMALL_BYTES);
    for (unsigned round = 0; round < ROUNDS; round++) {
        measure_launches(&gpu, pooled ? &native : NULL, function, params, &figures, round);
        small.rounds[round] = measure_pairs(&gpu, SMALL_BYTES);
        large.rounds[round] = measure_pairs(&gpu, LARGE_BYTES);
    }

    printf("{\"pooled\": %s, ", pooled ? "true" : "false");
    print_figure("launch_ns", &figures.median);
    printf(", ");
    print_figure("launch_p99_ns", &figures.p99);
    if (pooled) {
        printf(", ");
        print_figure("native_launch_ns", &figures.native_median);
        printf(", ");
        print_figure("native_launch_p99_ns", &figures.native_p99);
        printf(", ");
        print_figure("added_ns", &figures.added_median);
        printf(", ");
        print_figure("added_p99_ns", &figures.added_p99);
    }
    printf(", ");
    print_figure("alloc_free_512k_ns", &small);
    printf(", ");
    print_figure("alloc_free_8m_ns", &large);
    printf("}\n");
    return 0;
}
