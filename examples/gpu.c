#include "gpu.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ERROR_OUT_OF_MEMORY = 2, THREADS_PER_BLOCK = 128 };

#define MIB ((double)(1 << 20))

static void load_calls(struct gpu *gpu, const char *path)
{
    void *library = dlopen(path ? path : "libcuda.so.1", RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s: no CUDA driver: %s\n", gpu->program, dlerror());
        exit(1);
    }
#define GPU_LOAD(symbol, arguments)                                                                \
    *(void **)&gpu->symbol = dlsym(library, #symbol);                                              \
    if (!gpu->symbol) {                                                                            \
        fprintf(stderr, "%s: the CUDA driver has no " #symbol "\n", gpu->program);                 \
        exit(1);                                                                                   \
    }
    GPU_CALLS(GPU_LOAD)
#undef GPU_LOAD
}

static void load(struct gpu *gpu, const char *program, const char *path)
{
    *gpu = (struct gpu){.program = program};
    load_calls(gpu, path);
    gpu_check(gpu, gpu->cuInit(0), "cuInit");
}

static void enter(const struct gpu *gpu, int card)
{
    int device = 0;
    void *context = NULL;
    gpu_check(gpu, gpu->cuDeviceGet(&device, card), "no such card");
    gpu_check(gpu, gpu->cuDevicePrimaryCtxRetain(&context, device), "creating a context");
    gpu_check(gpu, gpu->cuCtxSetCurrent(context), "cuCtxSetCurrent");
}

void gpu_open(struct gpu *gpu, const char *program, const char *path)
{
    int cards = 0;
    const char *rank = getenv("LOCAL_RANK");
    load(gpu, program, path);
    gpu_check(gpu, gpu->cuDeviceGetCount(&cards), "counting cards");
    enter(gpu, rank && cards > 0 ? atoi(rank) % cards : 0);
}

void gpu_open_card(struct gpu *gpu, const char *program, const char *path, int card)
{
    load(gpu, program, path);
    enter(gpu, card);
}

void gpu_check(const struct gpu *gpu, int error, const char *what)
{
    if (error == 0) return;
    const char *name = NULL;
    if (gpu->cuGetErrorName(error, &name) != 0 || !name) name = "unknown error";
    fprintf(stderr, "%s: %s%s: %s (%d)\n", gpu->program,
            error == ERROR_OUT_OF_MEMORY ? "out of memory: " : "", what, name, error);
    exit(1);
}

void gpu_load_kernels(struct gpu *gpu, const char *ptx)
{
    gpu_check(gpu, gpu->cuModuleLoadData(&gpu->module, ptx), "loading the kernels");
}

gpu_function gpu_kernel(const struct gpu *gpu, const char *name)
{
    gpu_function function = NULL;
    gpu_check(gpu, gpu->cuModuleGetFunction(&function, gpu->module, name), name);
    return function;
}

gpu_address gpu_alloc(struct gpu *gpu, size_t bytes)
{
    gpu_address address = 0;
    int error = gpu->cuMemAlloc_v2(&address, bytes);
    if (error != 0) {
        char what[128];
        snprintf(what, sizeof what, "allocating %.1f MiB on top of %.1f MiB", (double)bytes / MIB,
                 (double)gpu->allocated_bytes / MIB);
        gpu_check(gpu, error, what);
    }
    gpu->allocated_bytes += bytes;
    return address;
}

void gpu_launch(const struct gpu *gpu, gpu_function function, unsigned threads, void **params)
{
    unsigned width = threads < THREADS_PER_BLOCK ? threads : THREADS_PER_BLOCK;
    unsigned blocks = (threads + width - 1) / width;
    gpu_check(gpu, gpu->cuLaunchKernel(function, blocks, 1, 1, width, 1, 1, 0, NULL, params, NULL),
              "launching a kernel");
}

void gpu_take_rest(struct gpu *gpu, size_t leave_bytes)
{
    enum { PAGE_BYTES = 2 << 20 }; /* what drivers hand memory out by */
    size_t taken_bytes = 0, try_bytes = SIZE_MAX;
    for (;;) {
        size_t free_bytes = 0, total_bytes = 0;
        gpu_check(gpu, gpu->cuMemGetInfo_v2(&free_bytes, &total_bytes), "cuMemGetInfo");
        size_t spare_bytes = free_bytes > leave_bytes ? free_bytes - leave_bytes : 0;
        if (try_bytes > spare_bytes) try_bytes = spare_bytes;
        try_bytes -= try_bytes % PAGE_BYTES;
        if (try_bytes == 0) break;
        gpu_address address; /* held until the program ends */
        if (gpu->cuMemAlloc_v2(&address, try_bytes) == 0)
            taken_bytes += try_bytes;
        else
            try_bytes /= 2;
    }
    fprintf(stderr, "%s: %.1f MiB of the card are taken; %.1f MiB were to be left\n", gpu->program,
            (double)taken_bytes / MIB, (double)leave_bytes / MIB);
}

int gpu_parse_bytes(const char *text, size_t *bytes)
{
    char *end = NULL;
    unsigned long long value = strtoull(text, &end, 10);
    if (end == text || *text == '-') return 0;
    unsigned shift = 0;
    switch (*end) {
    case 'K': shift = 10; break;
    case 'M': shift = 20; break;
    case 'G': shift = 30; break;
    default: break;
    }
    if (shift) end++;
    if (*end || value > SIZE_MAX >> shift) return 0;
    *bytes = (size_t)value << shift;
    return 1;
}
