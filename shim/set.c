/* Memsets, and the stream operations that read or write one word of memory. */
#include "shim/abi.h"
#include "shim/wrap.h"

/* `rows` rows of `row_bytes`, `pitch` apart. A size beyond all memory touches the first byte alone:
 * the driver will refuse it. */
static void touch_rows(struct pool_op *op, CUdeviceptr to, size_t pitch, size_t row_bytes,
                       size_t rows)
{
    uint64_t bytes = 0;
    if (row_bytes && rows && !__builtin_mul_overflow(rows - 1, pitch, &bytes) &&
        !__builtin_add_overflow(bytes, row_bytes, &bytes))
        pool_op_touch_range(op, to, bytes);
    else
        pool_op_touch(op, to);
}

static void touch_elements(struct pool_op *op, CUdeviceptr to, size_t element, size_t count)
{
    touch_rows(op, to, element, element, count);
}

void shim_touch_plane(struct pool_op *op, CUdeviceptr to, size_t pitch, size_t element,
                      size_t width, size_t height)
{
    uint64_t row_bytes;
    if (__builtin_mul_overflow(width, element, &row_bytes)) row_bytes = 0;
    touch_rows(op, to, pitch, row_bytes, height);
}

void shim_touch_words(struct pool_op *op, const union abi_word *words, unsigned count)
{
    for (unsigned i = 0; words && i < count; i++) {
        switch (words[i].operation) {
        case ABI_WORD_WAIT_32:
        case ABI_WORD_WRITE_32: pool_op_touch_range(op, words[i].on.address, 4); break;
        case ABI_WORD_WAIT_64:
        case ABI_WORD_WRITE_64:
        case ABI_WORD_REDUCE: pool_op_touch_range(op, words[i].on.address, 8); break;
        default: /* names no memory */ break;
        }
    }
}

/* clang-format off */
#define LINE_PARAMS(type)        (CUdeviceptr to, type value, size_t count)
#define LINE_PARAMS_ASYNC(type)  (CUdeviceptr to, type value, size_t count, CUstream stream)
#define PLANE_PARAMS(type)       (CUdeviceptr to, size_t pitch, type value, size_t width, \
                                  size_t height)
#define PLANE_PARAMS_ASYNC(type) (CUdeviceptr to, size_t pitch, type value, size_t width, \
                                  size_t height, CUstream stream)

#define SETS_OF(X, bits, type) \
    X(SYNC, cuMemsetD##bits##_v2, 3020, POOL_MEMSET, LINE_PARAMS(type), (to, value, count), \
      touch_elements(&op, to, sizeof value, count)) \
    X(ASYNC, cuMemsetD##bits##Async, 3020, POOL_MEMSET, stream, LINE_PARAMS_ASYNC(type), \
      (to, value, count, stream), touch_elements(&op, to, sizeof value, count)) \
    X(SYNC, cuMemsetD2D##bits##_v2, 3020, POOL_MEMSET, PLANE_PARAMS(type), \
      (to, pitch, value, width, height), \
      shim_touch_plane(&op, to, pitch, sizeof value, width, height)) \
    X(ASYNC, cuMemsetD2D##bits##Async, 3020, POOL_MEMSET, stream, PLANE_PARAMS_ASYNC(type), \
      (to, pitch, value, width, height, stream), \
      shim_touch_plane(&op, to, pitch, sizeof value, width, height))

#define WORD(X, symbol, since, type) \
    X(ASYNC, symbol, since, POOL_MEMSET, stream, \
      (CUstream stream, CUdeviceptr address, type value, unsigned flags), \
      (stream, address, value, flags), pool_op_touch_range(&op, address, sizeof value))
#define WORDS(X, symbol, since) \
    X(ASYNC, symbol, since, POOL_MEMSET, stream, \
      (CUstream stream, unsigned count, union abi_word *words, unsigned flags), \
      (stream, count, words, flags), shim_touch_words(&op, words, count))

#define SETS(X) \
    SETS_OF(X, 8, unsigned char) \
    SETS_OF(X, 16, unsigned short) \
    SETS_OF(X, 32, unsigned) \
    WORD(X, cuStreamWaitValue32, 8000, uint32_t) \
    WORD(X, cuStreamWaitValue32_v2, 11070, uint32_t) \
    WORD(X, cuStreamWaitValue64, 9000, uint64_t) \
    WORD(X, cuStreamWaitValue64_v2, 11070, uint64_t) \
    WORD(X, cuStreamWriteValue32, 8000, uint32_t) \
    WORD(X, cuStreamWriteValue32_v2, 11070, uint32_t) \
    WORD(X, cuStreamWriteValue64, 9000, uint64_t) \
    WORD(X, cuStreamWriteValue64_v2, 11070, uint64_t) \
    WORDS(X, cuStreamBatchMemOp, 8000) \
    WORDS(X, cuStreamBatchMemOp_v2, 11070)
/* clang-format on */

SETS(SHIM_DEFINE)

const struct shim_wrap shim_set_wraps[] = {SETS(SHIM_ROW) SHIM_ROWS_END};
