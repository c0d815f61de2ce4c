#include "emu/internal.h"

#include <string.h>

/* The calls that copy and set memory, with the driver's rules on what they wait for:
 *
 *     host to host           waits for the stream, then copies at once
 *     pageable host to card  waits for the stream and returns when the bytes are staged: the
 *                            last STAGED_BYTES may not have landed. The asynchronous form
 *                            of a copy up to ASYNC_STAGED_BYTES waits for nothing.
 *     pinned host to card    returns when done; the asynchronous form at once
 *     card to pageable host  returns when done, both forms
 *     card to pinned host    returns when done; the asynchronous form at once
 *     card to card           returns at once, both forms
 *     memset                 returns at once, both forms; of host memory when done */
enum { STAGED_BYTES = 64 << 10, ASYNC_STAGED_BYTES = 1 << 20 };

static bool is_pageable(uint64_t address)
{
    return !address_is_device(address) && !host_memory_at(address);
}

/* Whether everything that a side names is memory now, as the driver checks when it is called. */
bool side_is_memory(const struct side *side, uint64_t width, uint64_t height, uint64_t depth)
{
    if (!address_is_device(side->address)) return side->address != 0;
    uint64_t end = side->address + (depth - 1) * side->slice + (height - 1) * side->pitch + width;
    if (end <= side->address) return false;
    for (uint64_t at = side->address; at < end;) {
        struct mapping *mapping = mapping_at(at);
        if (!mapping || !is_open(mapping)) return false;
        at = mapping->range.end;
    }
    return true;
}

static struct op *copy_op(struct stream *stream, const struct copy *copy, const char *name)
{
    struct op *op = op_new(stream->context, OP_COPY, name);
    op->copy = *copy;
    struct mapping *mapping = mapping_at(copy->from.address);
    op->to_host = !address_is_device(copy->to.address);
    if (address_is_device(copy->to.address)) {
        struct mapping *target = mapping_at(copy->to.address);
        op->to_host = target && target->phys->place == (int)emu.machine.cards;
    }
    op->to_host = op->to_host && mapping && mapping->phys->place < (int)emu.machine.cards;
    return op;
}

/* Takes the source's bytes now; what is queued then reads the taken ones. */
static CUresult stage(struct copy *copy)
{
    uint64_t rows = copy->height * copy->depth;
    unsigned char *bytes = malloc(rows * copy->width);
    if (!bytes) return CUDA_ERROR_OUT_OF_MEMORY;
    for (uint64_t row = 0; row < rows && emu.options.carry_data; row++) {
        uint64_t from = copy->from.address + row / copy->height * copy->from.slice +
                        row % copy->height * copy->from.pitch;
        memcpy(bytes + row * copy->width, (const void *)(uintptr_t)from, copy->width);
    }
    copy->staged = bytes;
    copy->from = (struct side){(uint64_t)(uintptr_t)bytes, copy->width, copy->width * copy->height};
    return CUDA_SUCCESS;
}

static CUresult submit_copy(struct stream *stream, const struct copy *copy, const char *name,
                            bool wait)
{
    struct op *op = copy_op(stream, copy, name);
    op_ref(op);
    CUresult result = op_submit(stream, op);
    if (result == CUDA_SUCCESS && wait) result = op_wait(op);
    op_unref(op);
    return result;
}

static CUresult wait_stream(struct stream *stream)
{
    /* A blocking stream's turn comes after the legacy stream's and the other way round: an empty
     * operation in it is done when all that is. */
    struct op *op = op_new(stream->context, OP_NOTHING, "a synchronous call");
    op_ref(op);
    CUresult result = op_submit(stream, op);
    if (result == CUDA_SUCCESS) result = op_wait(op);
    op_unref(op);
    return result;
}

static CUresult from_pageable(struct stream *stream, struct copy *copy, const char *name, bool sync)
{
    uint64_t bytes = copy->width * copy->height * copy->depth;
    CUresult result = CUDA_SUCCESS;
    uint64_t staged = sync ? STAGED_BYTES : ASYNC_STAGED_BYTES;
    if (sync || bytes > staged) result = wait_stream(stream);
    if (result == CUDA_SUCCESS && bytes > staged) {
        bool linear = copy->height == 1 && copy->depth == 1;
        if (!linear) return submit_copy(stream, copy, name, true);
        struct copy head = *copy;
        head.width -= staged;
        result = submit_copy(stream, &head, name, true);
        copy->from.address += head.width;
        copy->to.address += head.width;
        copy->width = staged;
    }
    if (result == CUDA_SUCCESS) result = stage(copy);
    if (result != CUDA_SUCCESS) return result;
    return submit_copy(stream, copy, name, false);
}

static CUresult host_to_host(struct stream *stream, const struct copy *copy)
{
    CUresult result = wait_stream(stream);
    if (result != CUDA_SUCCESS) return result;
    for (uint64_t row = 0; row < copy->height * copy->depth; row++) {
        uint64_t z = row / copy->height, y = row % copy->height;
        void *to = (void *)(uintptr_t)(copy->to.address + z * copy->to.slice + y * copy->to.pitch);
        memmove(to,
                (const void *)(uintptr_t)(copy->from.address + z * copy->from.slice +
                                          y * copy->from.pitch),
                copy->width);
    }
    return CUDA_SUCCESS;
}

static CUresult transfer(struct copy copy, CUstream named, const char *name, bool sync)
{
    struct stream *stream = stream_find(named);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (copy.width == 0 || copy.height == 0 || copy.depth == 0) return CUDA_SUCCESS;
    if (!side_is_memory(&copy.from, copy.width, copy.height, copy.depth) ||
        !side_is_memory(&copy.to, copy.width, copy.height, copy.depth))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = sync ? capture_synchronize(stream) : CUDA_SUCCESS;
    if (result != CUDA_SUCCESS) return result;
    charge(emu.machine.costs.copy, 0);
    bool from_host = !address_is_device(copy.from.address);
    bool to_host = !address_is_device(copy.to.address);
    if (stream->capture) return submit_copy(stream, &copy, name, false);
    if (from_host && to_host) return host_to_host(stream, &copy);
    if (from_host && is_pageable(copy.from.address))
        return from_pageable(stream, &copy, name, sync);
    bool wait = (to_host && is_pageable(copy.to.address)) || (sync && (from_host || to_host));
    return submit_copy(stream, &copy, name, wait);
}

static struct copy linear(uint64_t to, uint64_t from, uint64_t bytes)
{
    return (struct copy){{from, bytes, bytes}, {to, bytes, bytes}, bytes, 1, 1, NULL};
}

static uint64_t host_address(const void *pointer)
{
    return (uint64_t)(uintptr_t)pointer;
}

CUresult do_cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t bytes)
{
    return transfer(linear(dst, src, bytes), NULL, "cuMemcpy", true);
}

CUresult do_cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
    return transfer(linear(dst, src, bytes), stream, "cuMemcpyAsync", false);
}

CUresult do_cuMemcpyHtoD_v2(CUdeviceptr dst, const void *src, size_t bytes)
{
    return transfer(linear(dst, host_address(src), bytes), NULL, "cuMemcpyHtoD", true);
}

CUresult do_cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t bytes, CUstream stream)
{
    return transfer(linear(dst, host_address(src), bytes), stream, "cuMemcpyHtoDAsync", false);
}

CUresult do_cuMemcpyDtoH_v2(void *dst, CUdeviceptr src, size_t bytes)
{
    return transfer(linear(host_address(dst), src, bytes), NULL, "cuMemcpyDtoH", true);
}

CUresult do_cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
    return transfer(linear(host_address(dst), src, bytes), stream, "cuMemcpyDtoHAsync", false);
}

CUresult do_cuMemcpyDtoD_v2(CUdeviceptr dst, CUdeviceptr src, size_t bytes)
{
    return transfer(linear(dst, src, bytes), NULL, "cuMemcpyDtoD", true);
}

CUresult do_cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
    return transfer(linear(dst, src, bytes), stream, "cuMemcpyDtoDAsync", false);
}

static CUresult peer_contexts(CUcontext a, CUcontext b)
{
    bool known =
        handle_get(HANDLE_CONTEXT, (uintptr_t)a) && handle_get(HANDLE_CONTEXT, (uintptr_t)b);
    return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult do_cuMemcpyPeer(CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src,
                         CUcontext src_context, size_t bytes)
{
    CUresult result = peer_contexts(dst_context, src_context);
    if (result != CUDA_SUCCESS) return result;
    return transfer(linear(dst, src, bytes), NULL, "cuMemcpyPeer", true);
}

CUresult do_cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src,
                              CUcontext src_context, size_t bytes, CUstream stream)
{
    CUresult result = peer_contexts(dst_context, src_context);
    if (result != CUDA_SUCCESS) return result;
    return transfer(linear(dst, src, bytes), stream, "cuMemcpyPeerAsync", false);
}

/* ---- Copies of rows and slices ---- */

/* Finds a side's start. Arrays are not emulated. */
static CUresult side_of(int type, const void *host, CUdeviceptr device, struct side *side)
{
    switch (type) {
    case CU_MEMORYTYPE_HOST: side->address = host_address(host); return CUDA_SUCCESS;
    case CU_MEMORYTYPE_DEVICE:
    case CU_MEMORYTYPE_UNIFIED: side->address = device; return CUDA_SUCCESS;
    case CU_MEMORYTYPE_ARRAY: return CUDA_ERROR_NOT_SUPPORTED;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult side_shape(struct side *side, uint64_t x, uint64_t y, uint64_t z, uint64_t pitch,
                           uint64_t rows, const struct copy *copy)
{
    if (pitch == 0) pitch = x + copy->width;
    if (rows == 0) rows = y + copy->height;
    if (pitch < x + copy->width || (copy->depth > 1 && rows < y + copy->height))
        return CUDA_ERROR_INVALID_VALUE;
    side->pitch = pitch;
    side->slice = pitch * rows;
    side->address += z * side->slice + y * pitch + x;
    return CUDA_SUCCESS;
}

static CUresult copy_2d(const CUDA_MEMCPY2D *asked, CUstream stream, const char *name, bool sync)
{
    if (!asked) return CUDA_ERROR_INVALID_VALUE;
    struct copy copy = {.width = asked->WidthInBytes, .height = asked->Height, .depth = 1};
    CUresult result = side_of(asked->srcMemoryType, asked->srcHost, asked->srcDevice, &copy.from);
    if (result == CUDA_SUCCESS)
        result = side_of(asked->dstMemoryType, asked->dstHost, asked->dstDevice, &copy.to);
    if (result == CUDA_SUCCESS)
        result =
            side_shape(&copy.from, asked->srcXInBytes, asked->srcY, 0, asked->srcPitch, 0, &copy);
    if (result == CUDA_SUCCESS)
        result =
            side_shape(&copy.to, asked->dstXInBytes, asked->dstY, 0, asked->dstPitch, 0, &copy);
    return result == CUDA_SUCCESS ? transfer(copy, stream, name, sync) : result;
}

CUresult do_cuMemcpy2D_v2(const CUDA_MEMCPY2D *copy)
{
    return copy_2d(copy, NULL, "cuMemcpy2D", true);
}

CUresult do_cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *copy)
{
    return copy_2d(copy, NULL, "cuMemcpy2DUnaligned", true);
}

CUresult do_cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream stream)
{
    return copy_2d(copy, stream, "cuMemcpy2DAsync", false);
}

CUresult copy_make(const CUDA_MEMCPY3D *asked, struct copy *copy)
{
    if (!asked || asked->srcLOD || asked->dstLOD) return CUDA_ERROR_INVALID_VALUE;
    *copy =
        (struct copy){.width = asked->WidthInBytes, .height = asked->Height, .depth = asked->Depth};
    CUresult result = side_of(asked->srcMemoryType, asked->srcHost, asked->srcDevice, &copy->from);
    if (result == CUDA_SUCCESS)
        result = side_of(asked->dstMemoryType, asked->dstHost, asked->dstDevice, &copy->to);
    if (result == CUDA_SUCCESS)
        result = side_shape(&copy->from, asked->srcXInBytes, asked->srcY, asked->srcZ,
                            asked->srcPitch, asked->srcHeight, copy);
    if (result != CUDA_SUCCESS) return result;
    return side_shape(&copy->to, asked->dstXInBytes, asked->dstY, asked->dstZ, asked->dstPitch,
                      asked->dstHeight, copy);
}

static CUresult copy_3d(const CUDA_MEMCPY3D *asked, CUstream stream, const char *name, bool sync)
{
    struct copy copy;
    CUresult result = copy_make(asked, &copy);
    return result == CUDA_SUCCESS ? transfer(copy, stream, name, sync) : result;
}

CUresult do_cuMemcpy3D_v2(const CUDA_MEMCPY3D *copy)
{
    return copy_3d(copy, NULL, "cuMemcpy3D", true);
}

CUresult do_cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *copy, CUstream stream)
{
    return copy_3d(copy, stream, "cuMemcpy3DAsync", false);
}

CUresult do_cuMemcpy3DPeer(const CUDA_MEMCPY3D *copy)
{
    return copy_3d(copy, NULL, "cuMemcpy3DPeer", true);
}

CUresult do_cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D *copy, CUstream stream)
{
    return copy_3d(copy, stream, "cuMemcpy3DPeerAsync", false);
}

/* The copies of a batch may run in any order; here in theirs. */
CUresult do_cuMemcpyBatchAsync_v2(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
                                  void *attributes, size_t *attribute_indices,
                                  size_t attribute_count, CUstream stream)
{
    struct stream *found = stream_find(stream);
    if (!found) return CUDA_ERROR_INVALID_HANDLE;
    if (!dsts || !srcs || !sizes || !attributes || !attribute_indices || count == 0 ||
        attribute_count == 0 || attribute_count > count || attribute_indices[0] != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (found->legacy || found->per_thread) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        struct copy copy = linear(dsts[i], srcs[i], sizes[i]);
        if (sizes[i] == 0 || !side_is_memory(&copy.from, sizes[i], 1, 1) ||
            !side_is_memory(&copy.to, sizes[i], 1, 1))
            return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
        result = transfer(linear(dsts[i], srcs[i], sizes[i]), stream, "cuMemcpyBatchAsync", false);
    return result;
}

CUresult do_cuMemcpyBatchAsync(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
                               void *attributes, size_t *attribute_indices, size_t attribute_count,
                               size_t *fail_index, CUstream stream)
{
    if (fail_index) *fail_index = SIZE_MAX;
    return do_cuMemcpyBatchAsync_v2(dsts, srcs, sizes, count, attributes, attribute_indices,
                                    attribute_count, stream);
}

static CUresult copy_of_box(const struct emu_box *box, struct copy *copy)
{
    const struct emu_box_side *src = &box->src, *dst = &box->dst;
    if (src->type == 2 || dst->type == 2) return CUDA_ERROR_NOT_SUPPORTED;
    *copy = (struct copy){{src->pointer.ptr, 0, 0}, {dst->pointer.ptr, 0, 0}, box->extent.width,
                          box->extent.height,       box->extent.depth,        NULL};
    if (src->type != 1 || dst->type != 1 || copy->width == 0 || copy->height == 0 ||
        copy->depth == 0)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result =
        side_shape(&copy->from, 0, 0, 0, src->pointer.rowLength, src->pointer.layerHeight, copy);
    if (result == CUDA_SUCCESS)
        result =
            side_shape(&copy->to, 0, 0, 0, dst->pointer.rowLength, dst->pointer.layerHeight, copy);
    if (result != CUDA_SUCCESS) return result;
    bool good = side_is_memory(&copy->from, copy->width, copy->height, copy->depth) &&
                side_is_memory(&copy->to, copy->width, copy->height, copy->depth);
    return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult do_cuMemcpy3DBatchAsync_v2(size_t count, struct emu_box *boxes, unsigned long long flags,
                                    CUstream stream)
{
    struct stream *found = stream_find(stream);
    struct copy copy;
    if (!found) return CUDA_ERROR_INVALID_HANDLE;
    if (!boxes || count == 0 || flags != 0 || found->legacy || found->per_thread)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
        result = copy_of_box(&boxes[i], &copy);
    for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
        copy_of_box(&boxes[i], &copy);
        result = transfer(copy, stream, "cuMemcpy3DBatchAsync", false);
    }
    return result;
}

CUresult do_cuMemcpy3DBatchAsync(size_t count, struct emu_box *boxes, size_t *fail_index,
                                 unsigned long long flags, CUstream stream)
{
    if (fail_index) *fail_index = SIZE_MAX;
    return do_cuMemcpy3DBatchAsync_v2(count, boxes, flags, stream);
}

/* ---- Memsets ---- */

static CUresult set_memory(CUdeviceptr to, size_t pitch, uint32_t value, unsigned value_bytes,
                           size_t width, size_t height, CUstream named, const char *name, bool sync)
{
    struct stream *stream = stream_find(named);
    uint64_t row;
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (width == 0 || height == 0) return CUDA_SUCCESS;
    if (__builtin_mul_overflow(width, value_bytes, &row)) return CUDA_ERROR_INVALID_VALUE;
    if (height == 1) pitch = row;
    struct side side = {to, pitch, 0};
    if (to % value_bytes || pitch % value_bytes || pitch < row || is_pageable(to) ||
        !side_is_memory(&side, row, height, 1))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = sync ? capture_synchronize(stream) : CUDA_SUCCESS;
    if (result != CUDA_SUCCESS) return result;
    charge(emu.machine.costs.copy, 0);
    struct op *op = op_new(stream->context, OP_SET, name);
    op->set = (struct set){side, row, height, value, value_bytes};
    op_ref(op);
    result = op_submit(stream, op);
    if (result == CUDA_SUCCESS && sync && !address_is_device(to)) result = op_wait(op);
    op_unref(op);
    return result;
}

/* clang-format off */
#define SET_CALLS(bits, type, bytes, v2) \
    CUresult do_cuMemsetD##bits##v2(CUdeviceptr dst, type value, size_t n) \
    { \
        return set_memory(dst, 0, value, bytes, n, 1, NULL, "cuMemsetD" #bits, true); \
    } \
    CUresult do_cuMemsetD##bits##Async(CUdeviceptr dst, type value, size_t n, CUstream stream) \
    { \
        return set_memory(dst, 0, value, bytes, n, 1, stream, "cuMemsetD" #bits "Async", false); \
    } \
    CUresult do_cuMemsetD2D##bits##v2(CUdeviceptr dst, size_t pitch, type value, size_t width, \
                                      size_t height) \
    { \
        return set_memory(dst, pitch, value, bytes, width, height, NULL, "cuMemsetD2D" #bits, \
                          true); \
    } \
    CUresult do_cuMemsetD2D##bits##Async(CUdeviceptr dst, size_t pitch, type value, size_t width, \
                                         size_t height, CUstream stream) \
    { \
        return set_memory(dst, pitch, value, bytes, width, height, stream, \
                          "cuMemsetD2D" #bits "Async", false); \
    }
SET_CALLS(8, unsigned char, 1, _v2)
SET_CALLS(16, unsigned short, 2, _v2)
SET_CALLS(32, unsigned, 4, _v2)
/* clang-format on */
