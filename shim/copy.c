/* Copies in all their forms. Arrays are the driver's own memory: their side of a copy is nothing to
 * the pool. */
#include "shim/abi.h"
#include "shim/wrap.h"

/* One end of a copy of several rows: where its first byte is, how far apart rows and slices are.
 * address 0: an array. */
struct end {
    CUdeviceptr address;
    size_t pitch, slice;
    bool host; /* the caller says that it is host memory, or leaves it open (unified) */
};

struct box {
    size_t row_bytes, rows, slices;
};

/* ---- Reading host memory ---- */

/* Whether `from` can be read here: it is not a card's memory. The driver accepts device addresses
 * where host addresses belong, so that it must be asked; addresses beyond a process's are neither.
 */
static bool readable(const struct pool_op *op, CUdeviceptr from)
{
    if (!from || from >> 47 || pool_owns(op->pool, from)) return false;
    int type = 0, managed = 0;
    void *answers[] = {&type, &managed};
    static const int asked[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED};
    CUresult (*ask)(unsigned, const int *, void **, CUdeviceptr) =
        SHIM_REAL(cuPointerGetAttributes, (unsigned, const int *, void **, CUdeviceptr));
    /* Of memory that the driver does not know it says nothing, and succeeds. */
    if (!ask || ask(2, asked, answers, from) != CUDA_SUCCESS) return true;
    return type == 0 || type == CU_MEMORYTYPE_HOST || managed;
}

/* Whether [to, to + bytes) lies within one allocation: otherwise the driver refuses the copy before
 * it reads the source, which may then be shorter than `bytes` says. */
static bool fits(const struct pool_op *op, CUdeviceptr to, uint64_t bytes)
{
    struct pool_range in = {0};
    CUresult (*ask)(CUdeviceptr *, size_t *, CUdeviceptr) =
        SHIM_REAL(cuMemGetAddressRange_v2, (CUdeviceptr *, size_t *, CUdeviceptr));
    CUresult result = pool_mem_range(op->pool, to, &in);
    if (result == CUDA_ERROR_NOT_FOUND && ask) result = ask(&in.base, &in.bytes, to);
    if (result != CUDA_SUCCESS) return true; /* such as a module's variable: the driver knows */
    return bytes <= in.bytes && to - in.base <= in.bytes - bytes;
}

/* ---- One row ---- */

static void touch_row(struct pool_op *op, CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    pool_op_touch_range(op, to, bytes);
    pool_op_touch_range(op, from, bytes);
    if (bytes && readable(op, from) && fits(op, to, bytes))
        pool_op_scan_host(op, to, (const void *)(uintptr_t)from, bytes); /* NOLINT */
}

static void touch_batch(struct pool_op *op, const CUdeviceptr *to, const CUdeviceptr *from,
                        const size_t *bytes, size_t count)
{
    for (size_t i = 0; to && from && bytes && i < count; i++)
        touch_row(op, to[i], from[i], bytes[i]);
}

/* ---- Several rows ---- */

/* Bytes from the first to the last; false: more than there can be, the driver will refuse it. */
static bool span(const struct end *end, const struct box *box, uint64_t *bytes)
{
    uint64_t slices, rows;
    if (!box->row_bytes || !box->rows || !box->slices) return false;
    return !__builtin_mul_overflow(box->slices - 1, end->slice, &slices) &&
           !__builtin_mul_overflow(box->rows - 1, end->pitch, &rows) &&
           !__builtin_add_overflow(rows, slices, &rows) &&
           !__builtin_add_overflow(rows, box->row_bytes, bytes) && *bytes < UINT64_C(1) << 47;
}

static void scan_rows(struct pool_op *op, const struct end *to, const struct end *from,
                      const struct box *box)
{
    for (size_t slice = 0; slice < box->slices; slice++) {
        CUdeviceptr to_row = to->address + slice * to->slice;
        CUdeviceptr from_row = from->address + slice * from->slice;
        for (size_t row = 0; row < box->rows; row++) {
            const void *bytes = (const void *)(uintptr_t)(from_row + row * from->pitch);
            pool_op_scan_host(op, to_row + row * to->pitch, bytes, box->row_bytes);
        }
    }
}

/* False: larger than all memory, whole blocks are touched. */
static bool touch_ends(struct pool_op *op, const struct end *to, const struct end *from,
                       const struct box *box, uint64_t *to_bytes, uint64_t *from_bytes)
{
    bool sane = span(to, box, to_bytes) && span(from, box, from_bytes);
    const struct end *ends[] = {to, from};
    const uint64_t bytes[] = {*to_bytes, *from_bytes};
    for (unsigned i = 0; i < 2; i++) {
        if (ends[i]->address && sane) pool_op_touch_range(op, ends[i]->address, bytes[i]);
        if (ends[i]->address && !sane) pool_op_touch(op, ends[i]->address);
    }
    return sane;
}

static void touch_box(struct pool_op *op, const struct end *to, const struct end *from,
                      struct box box)
{
    uint64_t to_bytes = 0, from_bytes = 0;
    bool sane = touch_ends(op, to, from, &box, &to_bytes, &from_bytes);
    if (!sane || !to->address || !from->host || !readable(op, from->address)) return;
    if (!fits(op, to->address, to_bytes)) return;
    if (to_bytes == from_bytes && to_bytes == box.row_bytes * box.rows * box.slices)
        box = (struct box){to_bytes, 1, 1};
    scan_rows(op, to, from, &box);
}

static struct end make_end(int type, CUdeviceptr device, const void *host, size_t offset,
                           size_t pitch, size_t slice)
{
    CUdeviceptr address = type == CU_MEMORYTYPE_HOST ? (CUdeviceptr)(uintptr_t)host : device;
    if (type == CU_MEMORYTYPE_ARRAY || !address) return (struct end){0};
    bool host_side = type == CU_MEMORYTYPE_HOST || type == CU_MEMORYTYPE_UNIFIED;
    return (struct end){address + offset, pitch, slice, host_side};
}

static void touch_2d(struct pool_op *op, const CUDA_MEMCPY2D *copy)
{
    if (!copy) return;
    struct end to = make_end(copy->dstMemoryType, copy->dstDevice, copy->dstHost,
                             copy->dstY * copy->dstPitch + copy->dstXInBytes, copy->dstPitch, 0);
    struct end from = make_end(copy->srcMemoryType, copy->srcDevice, copy->srcHost,
                               copy->srcY * copy->srcPitch + copy->srcXInBytes, copy->srcPitch, 0);
    touch_box(op, &to, &from, (struct box){copy->WidthInBytes, copy->Height, 1});
}

static struct box box_of(const CUDA_MEMCPY3D *copy, struct end *to, struct end *from)
{
    size_t to_slice = copy->dstPitch * copy->dstHeight,
           from_slice = copy->srcPitch * copy->srcHeight;
    *to = make_end(copy->dstMemoryType, copy->dstDevice, copy->dstHost,
                   copy->dstZ * to_slice + copy->dstY * copy->dstPitch + copy->dstXInBytes,
                   copy->dstPitch, to_slice);
    *from = make_end(copy->srcMemoryType, copy->srcDevice, copy->srcHost,
                     copy->srcZ * from_slice + copy->srcY * copy->srcPitch + copy->srcXInBytes,
                     copy->srcPitch, from_slice);
    return (struct box){copy->WidthInBytes, copy->Height, copy->Depth};
}

static void touch_3d(struct pool_op *op, const CUDA_MEMCPY3D *copy)
{
    struct end to, from;
    if (!copy) return;
    struct box box = box_of(copy, &to, &from);
    touch_box(op, &to, &from, box);
}

void shim_touch_copy(struct pool_op *op, const CUDA_MEMCPY3D *copy)
{
    struct end to, from;
    uint64_t to_bytes = 0, from_bytes = 0;
    struct box box = box_of(copy, &to, &from);
    touch_ends(op, &to, &from, &box, &to_bytes, &from_bytes);
}

static struct end operand_end(const struct abi_operand *operand, const struct abi_box *box)
{
    if (operand->type != ABI_OPERAND_POINTER) return (struct end){0};
    size_t row = operand->pointer.row_length ? operand->pointer.row_length : box->width;
    size_t rows = operand->pointer.layer_height ? operand->pointer.layer_height : box->height;
    return (struct end){operand->pointer.address, row, row * rows, true};
}

/* With an array on one side, the elements' size is the array's secret: then whole blocks are
 * touched. */
static void touch_boxes(struct pool_op *op, const struct abi_box *boxes, size_t count)
{
    for (size_t i = 0; boxes && i < count; i++) {
        struct end to = operand_end(&boxes[i].to, &boxes[i]);
        struct end from = operand_end(&boxes[i].from, &boxes[i]);
        if (to.address && from.address) {
            touch_box(op, &to, &from,
                      (struct box){boxes[i].width, boxes[i].height, boxes[i].depth});
        } else {
            if (to.address) pool_op_touch(op, to.address);
            if (from.address) pool_op_touch(op, from.address);
        }
    }
}

/* ---- The calls ---- */

#define ADDRESS(pointer) ((CUdeviceptr)(uintptr_t)(pointer))

/* clang-format off */
#define ROW(X, name, since, to_type, from_type) \
    X(SYNC, name##_v2, since, POOL_COPY, (to_type to, from_type from, size_t bytes), \
      (to, from, bytes), touch_row(&op, ADDRESS(to), ADDRESS(from), bytes)) \
    X(ASYNC, name##Async_v2, since, POOL_COPY, stream, \
      (to_type to, from_type from, size_t bytes, CUstream stream), (to, from, bytes, stream), \
      touch_row(&op, ADDRESS(to), ADDRESS(from), bytes))

#define DESCRIBED(X, form_sync, form_async, since, type, touch) \
    X(SYNC, form_sync, since, POOL_COPY, (const type *copy), (copy), touch(&op, copy)) \
    X(ASYNC, form_async, since, POOL_COPY, stream, (const type *copy, CUstream stream), \
      (copy, stream), touch(&op, copy))

#define COPIES(X) \
    X(SYNC, cuMemcpy, 4000, POOL_COPY, (CUdeviceptr to, CUdeviceptr from, size_t bytes), \
      (to, from, bytes), touch_row(&op, to, from, bytes)) \
    X(ASYNC, cuMemcpyAsync, 4000, POOL_COPY, stream, \
      (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream), \
      (to, from, bytes, stream), touch_row(&op, to, from, bytes)) \
    ROW(X, cuMemcpyHtoD, 3020, CUdeviceptr, const void *) \
    ROW(X, cuMemcpyDtoH, 3020, void *, CUdeviceptr) \
    ROW(X, cuMemcpyDtoD, 3020, CUdeviceptr, CUdeviceptr) \
    X(SYNC, cuMemcpyPeer, 4000, POOL_COPY, \
      (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, \
       size_t bytes), \
      (to, to_context, from, from_context, bytes), touch_row(&op, to, from, bytes)) \
    X(ASYNC, cuMemcpyPeerAsync, 4000, POOL_COPY, stream, \
      (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, \
       size_t bytes, CUstream stream), \
      (to, to_context, from, from_context, bytes, stream), touch_row(&op, to, from, bytes)) \
    X(SYNC, cuMemcpyDtoA_v2, 3020, POOL_COPY, \
      (CUarray to, size_t offset, CUdeviceptr from, size_t bytes), (to, offset, from, bytes), \
      pool_op_touch_range(&op, from, bytes)) \
    X(SYNC, cuMemcpyAtoD_v2, 3020, POOL_COPY, \
      (CUdeviceptr to, CUarray from, size_t offset, size_t bytes), (to, from, offset, bytes), \
      pool_op_touch_range(&op, to, bytes)) \
    X(SYNC, cuMemcpyHtoA_v2, 3020, POOL_COPY, \
      (CUarray to, size_t offset, const void *from, size_t bytes), (to, offset, from, bytes), \
      pool_op_touch_range(&op, ADDRESS(from), bytes)) \
    X(ASYNC, cuMemcpyHtoAAsync_v2, 3020, POOL_COPY, stream, \
      (CUarray to, size_t offset, const void *from, size_t bytes, CUstream stream), \
      (to, offset, from, bytes, stream), pool_op_touch_range(&op, ADDRESS(from), bytes)) \
    X(SYNC, cuMemcpyAtoH_v2, 3020, POOL_COPY, \
      (void *to, CUarray from, size_t offset, size_t bytes), (to, from, offset, bytes), \
      pool_op_touch_range(&op, ADDRESS(to), bytes)) \
    X(ASYNC, cuMemcpyAtoHAsync_v2, 3020, POOL_COPY, stream, \
      (void *to, CUarray from, size_t offset, size_t bytes, CUstream stream), \
      (to, from, offset, bytes, stream), pool_op_touch_range(&op, ADDRESS(to), bytes)) \
    DESCRIBED(X, cuMemcpy2D_v2, cuMemcpy2DAsync_v2, 3020, CUDA_MEMCPY2D, touch_2d) \
    X(SYNC, cuMemcpy2DUnaligned_v2, 3020, POOL_COPY, (const CUDA_MEMCPY2D *copy), (copy), \
      touch_2d(&op, copy)) \
    DESCRIBED(X, cuMemcpy3D_v2, cuMemcpy3DAsync_v2, 3020, CUDA_MEMCPY3D, touch_3d) \
    DESCRIBED(X, cuMemcpy3DPeer, cuMemcpy3DPeerAsync, 4000, CUDA_MEMCPY3D, touch_3d) \
    X(ASYNC, cuMemcpyBatchAsync, 12080, POOL_COPY, stream, \
      (CUdeviceptr *to, CUdeviceptr *from, size_t *bytes, size_t count, void *attributes, \
       size_t *indices, size_t attribute_count, size_t *failed, CUstream stream), \
      (to, from, bytes, count, attributes, indices, attribute_count, failed, stream), \
      touch_batch(&op, to, from, bytes, count)) \
    X(ASYNC, cuMemcpyBatchAsync_v2, 13000, POOL_COPY, stream, \
      (CUdeviceptr *to, CUdeviceptr *from, size_t *bytes, size_t count, void *attributes, \
       size_t *indices, size_t attribute_count, CUstream stream), \
      (to, from, bytes, count, attributes, indices, attribute_count, stream), \
      touch_batch(&op, to, from, bytes, count)) \
    X(ASYNC, cuMemcpy3DBatchAsync, 12080, POOL_COPY, stream, \
      (size_t count, struct abi_box *boxes, size_t *failed, unsigned long long flags, \
       CUstream stream), \
      (count, boxes, failed, flags, stream), touch_boxes(&op, boxes, count)) \
    X(ASYNC, cuMemcpy3DBatchAsync_v2, 13000, POOL_COPY, stream, \
      (size_t count, struct abi_box *boxes, unsigned long long flags, CUstream stream), \
      (count, boxes, flags, stream), touch_boxes(&op, boxes, count)) \
    X(ASYNC, cuMemcpyWithAttributesAsync, 13020, POOL_COPY, stream, \
      (CUdeviceptr to, CUdeviceptr from, size_t bytes, void *attributes, CUstream stream), \
      (to, from, bytes, attributes, stream), touch_row(&op, to, from, bytes)) \
    X(ASYNC, cuMemcpy3DWithAttributesAsync, 13020, POOL_COPY, stream, \
      (struct abi_box *box, unsigned long long flags, CUstream stream), (box, flags, stream), \
      touch_boxes(&op, box, 1)) \
    X(ASYNC, cuMemBatchDecompressAsync, 12060, POOL_COPY, stream, \
      (void *pieces, size_t count, unsigned flags, size_t *failed, CUstream stream), \
      (pieces, count, flags, failed, stream), pool_op_touch_anything(&op))
/* clang-format on */

COPIES(SHIM_DEFINE)

const struct shim_wrap shim_copy_wraps[] = {COPIES(SHIM_ROW) SHIM_ROWS_END};
