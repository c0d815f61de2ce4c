#include "emu/internal.h"

#include <string.h>

/* ---- What a kernel function can ask for, see emu_kernel.h ---- */

/* One call of a kernel function. Nothing is mapped or unmapped meanwhile, so what it has translated
 * stays good; nearby accesses find it again by their address. */
enum { TRANSLATED = 16 };
struct run {
    struct op *op;
    struct {
        uint64_t start, end;
        int modes;
        struct spot spot;
    } translated[TRANSLATED];
};

static struct op *op_of(const struct emu_block *b)
{
    return ((const struct run *)b->internal)->op;
}

static int block_param(struct emu_block *b, unsigned index, void *value, size_t bytes)
{
    const struct op *op = op_of(b);
    const struct function *function = op->launch.function;
    memset(value, 0, bytes);
    if (index >= function->param_count || function->params[index].bytes != bytes) {
        log_error("emulator: kernel %s asked for parameter %u of %zu bytes, which it does not have",
                  b->name, index, bytes);
        return 0;
    }
    if (function->params[index].offset + bytes > op->launch.params_bytes) return 0;
    memcpy(value, op->launch.params + function->params[index].offset, bytes);
    return 1;
}

/* Translates as much around an access as is contiguous from it on. NULL: a fault. */
static const struct spot *translate(struct run *run, uint64_t address, int mode, uint64_t *start)
{
    unsigned slot = (unsigned)(address >> 12 ^ address >> 21) % (TRANSLATED / 2);
    if (mode & EMU_WRITE) slot += TRANSLATED / 2;
    if (address >= run->translated[slot].start && address < run->translated[slot].end &&
        (run->translated[slot].modes & mode) == mode) {
        *start = run->translated[slot].start;
        return &run->translated[slot].spot;
    }
    struct spot spot;
    if (!spot_find(address, EMU_PAGE_BYTES, run->op->card, mode, TRANSLATE_KERNEL, &spot))
        return NULL;
    run->translated[slot].start = *start = address;
    run->translated[slot].end = address + spot.bytes;
    run->translated[slot].modes = mode;
    run->translated[slot].spot = spot;
    return &run->translated[slot].spot;
}

static void *block_access(struct emu_block *b, uint64_t address, size_t bytes, int mode,
                          size_t *contiguous)
{
    struct run *run = b->internal;
    struct op *op = run->op;
    uint64_t start = 0;
    const struct spot *spot = NULL;
    *contiguous = bytes;
    if (bytes > 0 && !op->faulted) {
        spot = translate(run, address, mode, &start);
        if (!spot) op_fault(op, address, mode);
    }
    if (!spot) {
        if (*contiguous > EMU_SCRATCH_BYTES) *contiguous = EMU_SCRATCH_BYTES;
        return emu.scratch;
    }
    uint64_t within = address - start, left = spot->bytes - within;
    if (bytes > left) *contiguous = left;
    flight_touch(op->flight, spot->phys_id, spot->offset + within, *contiguous, mode);
    return emu.options.carry_data ? spot->at + within : emu.scratch;
}

static double stream_ns(unsigned card, int place, uint64_t bytes)
{
    double gbps =
        place == (int)card ? emu.machine.hbm_gbps[card] : emu.machine.path[place][card].gbps;
    return (double)bytes / (gbps > 0 ? gbps : 10);
}

static uint64_t block_cost(struct emu_block *b, uint64_t address, uint64_t bytes)
{
    const struct op *op = op_of(b);
    double ns = 0;
    for (uint64_t done = 0, part; done < bytes; done += part) {
        struct mapping *mapping = mapping_at(address + done);
        part = bytes - done;
        int place = (int)emu.machine.cards;
        if (mapping) {
            place = mapping->phys->place;
            uint64_t left = mapping->range.end - (address + done);
            if (part > left) part = left;
        }
        ns += stream_ns(op->card, place, part);
    }
    return (uint64_t)ns;
}

static int block_faulted(struct emu_block *b)
{
    return op_of(b)->faulted;
}

static uint64_t block_latency(struct emu_block *b, uint64_t address)
{
    struct mapping *mapping = mapping_at(address);
    int place = mapping ? mapping->phys->place : (int)emu.machine.cards;
    return emu.machine.path[op_of(b)->card][place].latency_ns;
}

static const struct emu_block_calls block_calls = {block_param, block_access, block_cost,
                                                   block_faulted, block_latency};

static struct emu_block block_of(struct run *run, uint64_t first, uint64_t last)
{
    const struct launch *launch = &run->op->launch;
    struct emu_block block = {.calls = &block_calls,
                              .internal = run,
                              .name = launch->function->name,
                              .first = first,
                              .last = last,
                              .shared_bytes = launch->shared_bytes,
                              .card = run->op->card};
    memcpy(block.grid, launch->grid, sizeof block.grid);
    memcpy(block.block, launch->block, sizeof block.block);
    return block;
}

/* ---- Running ---- */

enum { KERNEL_BASE_NS = 2000, COSTED_MOST = 64 };

/* Without a cost function: once through each mapping that a parameter points into. */
static double default_cost(const struct op *op)
{
    const struct launch *launch = &op->launch;
    struct mapping *seen[COSTED_MOST];
    unsigned count = 0;
    double ns = 0;
    for (size_t at = 0; at + 8 <= launch->params_bytes && count < COSTED_MOST; at += 4) {
        uint64_t word;
        memcpy(&word, launch->params + at, sizeof word);
        struct mapping *mapping = address_is_device(word) ? mapping_at(word) : NULL;
        bool known = !mapping;
        for (unsigned i = 0; i < count; i++) known = known || seen[i] == mapping;
        if (known) continue;
        seen[count++] = mapping;
        ns += stream_ns(op->card, mapping->phys->place, mapping->range.end - mapping->range.start);
    }
    return ns;
}

static uint64_t launch_blocks(const struct launch *launch)
{
    return (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
}

void kernel_start(struct op *op)
{
    const struct launch *launch = &op->launch;
    uint64_t blocks = launch_blocks(launch);
    struct run run = {.op = op};
    struct emu_block block = block_of(&run, 0, blocks);
    double ns = KERNEL_BASE_NS;
    op->flight = flight_begin(op);
    ns += launch->function->cost ? (double)launch->function->cost(&block) : default_cost(op);
    op_cut(op, blocks, false);
    op_run_timed(op, ns, ns);
}

void kernel_piece(struct op *op, uint64_t first, uint64_t last)
{
    struct run run = {.op = op};
    struct emu_block block = block_of(&run, first, last);
    op->launch.function->run(&block);
}

/* ---- Launching ---- */

/* Takes the parameters as they are now, from the array or from the buffer in `extra`. */
static CUresult take_params(const struct function *function, void **params, void **extra,
                            struct launch *launch)
{
    const void *buffer = NULL;
    const size_t *buffer_bytes = NULL;
    for (void **at = extra; at && *at != CU_LAUNCH_PARAM_END; at += 2) {
        if (at[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = at[1];
        else if (at[0] == CU_LAUNCH_PARAM_BUFFER_SIZE)
            buffer_bytes = at[1];
        else
            return CUDA_ERROR_INVALID_VALUE;
    }
    if (extra && params) return CUDA_ERROR_INVALID_VALUE;
    if (extra && (!buffer || !buffer_bytes)) return CUDA_ERROR_INVALID_VALUE;
    if (!extra && !params && function->param_count > 0) return CUDA_ERROR_INVALID_VALUE;
    if (extra && *buffer_bytes < function->params_bytes) return CUDA_ERROR_INVALID_VALUE;
    launch->params_bytes = function->params_bytes;
    launch->params = calloc(1, function->params_bytes + 1);
    assert(launch->params);
    if (extra) {
        memcpy(launch->params, buffer, function->params_bytes);
        return CUDA_SUCCESS;
    }
    for (unsigned i = 0; i < function->param_count; i++) {
        if (!params[i]) {
            free(launch->params);
            return CUDA_ERROR_INVALID_VALUE;
        }
        memcpy(launch->params + function->params[i].offset, params[i], function->params[i].bytes);
    }
    return CUDA_SUCCESS;
}

CUresult launch_make(CUfunction handle, void **params, void **extra, struct launch *launch)
{
    struct function *function = handle_get(HANDLE_FUNCTION, (uintptr_t)handle);
    if (!function) return CUDA_ERROR_INVALID_HANDLE;
    const unsigned *block = launch->block;
    if (launch_blocks(launch) == 0 || block[0] == 0 || block[1] == 0 || block[2] == 0 ||
        (uint64_t)block[0] * block[1] * block[2] > 1024 || launch->grid[1] > 65535 ||
        launch->grid[2] > 65535 || launch->shared_bytes > 227 << 10)
        return CUDA_ERROR_INVALID_VALUE;
    if (!function_bind(function)) return CUDA_ERROR_NO_BINARY_FOR_GPU;
    launch->function = function;
    return take_params(function, params, extra, launch);
}

static CUresult launch_kernel(CUfunction function, struct launch launch, CUstream named,
                              void **params, void **extra)
{
    struct stream *stream = stream_find(named);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = launch_make(function, params, extra, &launch);
    if (result != CUDA_SUCCESS) return result;
    charge(emu.machine.costs.launch, 0);
    struct op *op = op_new(stream->context, OP_KERNEL, launch.function->name);
    op->launch = launch;
    return op_submit(stream, op);
}

CUresult do_cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                           unsigned block_x, unsigned block_y, unsigned block_z,
                           unsigned shared_bytes, CUstream stream, void **params, void **extra)
{
    struct launch launch = {.grid = {grid_x, grid_y, grid_z},
                            .block = {block_x, block_y, block_z},
                            .shared_bytes = shared_bytes};
    return launch_kernel(function, launch, stream, params, extra);
}

CUresult do_cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                      unsigned grid_z, unsigned block_x, unsigned block_y,
                                      unsigned block_z, unsigned shared_bytes, CUstream stream,
                                      void **params)
{
    return do_cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
                             shared_bytes, stream, params, NULL);
}

CUresult do_cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **params,
                             void **extra)
{
    if (!config) return CUDA_ERROR_INVALID_VALUE;
    return do_cuLaunchKernel(function, config->gridDimX, config->gridDimY, config->gridDimZ,
                             config->blockDimX, config->blockDimY, config->blockDimZ,
                             config->sharedMemBytes, config->hStream, params, extra);
}

CUresult do_cuLaunchHostFunc(CUstream named, CUhostFn function, void *data)
{
    struct stream *stream = stream_find(named);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (!function) return CUDA_ERROR_INVALID_VALUE;
    charge(emu.machine.costs.launch, 0);
    struct op *op = op_new(stream->context, OP_HOST, "a host function");
    op->host.function = function;
    op->host.data = data;
    return op_submit(stream, op);
}

CUresult do_cuStreamAddCallback(CUstream named, emu_stream_callback callback, void *data,
                                unsigned flags)
{
    struct stream *stream = stream_find(named);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (!callback || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (stream->capture) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    charge(emu.machine.costs.launch, 0);
    struct op *op = op_new(stream->context, OP_CALLBACK, "a stream callback");
    op->host.callback = callback;
    op->host.stream = named;
    op->host.data = data;
    return op_submit(stream, op);
}
