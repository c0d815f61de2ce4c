/* gpu: one card through the CUDA driver API, for the examples and the benchmarks.
 *
 * The driver is loaded at run time, so that programs build and link without CUDA. Nothing here
 * knows of vrampool. A struct gpu is for one thread. Where a call fails, the program ends with exit
 * status 1 and a line on stderr that says what failed; `out of memory` stands in that line when it
 * was that. */
#ifndef GPU_H
#define GPU_H

#include <stddef.h>
#include <stdint.h>

typedef unsigned long long gpu_address;
typedef struct gpu_function_t *gpu_function; /* CUfunction */

/* The driver calls used: X(symbol as exported, arguments). */
/* clang-format off */
#define GPU_CALLS(X) \
    X(cuInit, (unsigned flags)) \
    X(cuGetErrorName, (int error, const char **name)) \
    X(cuDeviceGetCount, (int *count)) \
    X(cuDeviceGet, (int *device, int ordinal)) \
    X(cuDevicePrimaryCtxRetain, (void **context, int device)) \
    X(cuCtxSetCurrent, (void *context)) \
    X(cuCtxSynchronize, (void)) \
    X(cuModuleLoadData, (void **module, const void *image)) \
    X(cuModuleGetFunction, (gpu_function *function, void *module, const char *name)) \
    X(cuMemGetInfo_v2, (size_t *free_bytes, size_t *total_bytes)) \
    X(cuMemAlloc_v2, (gpu_address *address, size_t bytes)) \
    X(cuMemFree_v2, (gpu_address address)) \
    X(cuMemsetD8_v2, (gpu_address to, unsigned char value, size_t bytes)) \
    X(cuMemcpyHtoD_v2, (gpu_address to, const void *from, size_t bytes)) \
    X(cuMemcpyDtoH_v2, (void *to, gpu_address from, size_t bytes)) \
    X(cuLaunchKernel, (gpu_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, \
                       unsigned block_x, unsigned block_y, unsigned block_z, \
                       unsigned shared_bytes, void *stream, void **params, void **extra))
/* clang-format on */

struct gpu {
#define GPU_FIELD(symbol, arguments) int(*symbol) arguments;
    GPU_CALLS(GPU_FIELD)
#undef GPU_FIELD
    const char *program;    /* starts each line on stderr */
    void *module;           /* from gpu_load_kernels */
    size_t allocated_bytes; /* in live blocks from gpu_alloc */
};

/* Loads the driver from `path` (NULL: libcuda.so.1, as the loader finds it) and makes a card's
 * context current: the first one's, or in a job of several processes that of LOCAL_RANK, modulo the
 * number of cards. */
void gpu_open(struct gpu *gpu, const char *program, const char *path);

/* The same for the card of that number, in the calling thread. */
void gpu_open_card(struct gpu *gpu, const char *program, const char *path, int card);

/* Ends the program when a driver call has failed; `what` says what was tried. */
void gpu_check(const struct gpu *gpu, int error, const char *what);

/* Loads PTX text; on the emulator its entries are the functions emu_kernel_… that the program
 * exports. */
void gpu_load_kernels(struct gpu *gpu, const char *ptx);
gpu_function gpu_kernel(const struct gpu *gpu, const char *name);

gpu_address gpu_alloc(struct gpu *gpu, size_t bytes);

/* Launches `threads` threads in blocks of 128, or fewer; `params` points to each parameter. */
void gpu_launch(const struct gpu *gpu, gpu_function function, unsigned threads, void **params);

/* Allocates all that is free on the card but `leave_bytes`, as if another job had it. */
void gpu_take_rest(struct gpu *gpu, size_t leave_bytes);

/* Reads a size such as 24M or 8G; false when it is none. */
int gpu_parse_bytes(const char *text, size_t *bytes);

#endif
