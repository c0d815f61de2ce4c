/* Copies, memsets, kernels and atomics over memory whose granules lie on the card and on the host
 * by turns; and what synchronous calls wait for. */
#include "suite.h"

#include <stdlib.h>

#define G suite.granule

enum { ODD_BYTES = 36 }; /* copies begin and end beside granule borders */

/* Two host buffers of n bytes; pinned ones come from the driver. */
static const char *buffers_make(uint32_t **a, uint32_t **b, size_t n, bool pinned)
{
    if (pinned) {
        OK(cu.cuMemHostAlloc((void **)a, n, 0));
        OK(cu.cuMemHostAlloc((void **)b, n, 0));
    } else {
        *a = malloc(n);
        *b = malloc(n);
        CHECK(*a && *b);
    }
    memset(*b, 0, n);
    return NULL;
}

static const char *buffers_drop(uint32_t *a, uint32_t *b, bool pinned)
{
    if (pinned) {
        OK(cu.cuMemFreeHost(a));
        OK(cu.cuMemFreeHost(b));
    } else {
        free(a);
        free(b);
    }
    return NULL;
}

enum way { WAY_HTOD, WAY_HTOD_ASYNC, WAY_UNIFIED, WAY_UNIFIED_ASYNC, WAYS };

static CUresult copy_in(enum way way, CUdeviceptr to, const void *from, size_t n)
{
    switch (way) {
    case WAY_HTOD: return cu.cuMemcpyHtoD_v2(to, from, n);
    case WAY_HTOD_ASYNC: return cu.cuMemcpyHtoDAsync_v2(to, from, n, NULL);
    case WAY_UNIFIED: return cu.cuMemcpy(to, (CUdeviceptr)(uintptr_t)from, n);
    default: return cu.cuMemcpyAsync(to, (CUdeviceptr)(uintptr_t)from, n, NULL);
    }
}

static CUresult copy_out(enum way way, void *to, CUdeviceptr from, size_t n)
{
    switch (way) {
    case WAY_HTOD: return cu.cuMemcpyDtoH_v2(to, from, n);
    case WAY_HTOD_ASYNC: return cu.cuMemcpyDtoHAsync_v2(to, from, n, NULL);
    case WAY_UNIFIED: return cu.cuMemcpy((CUdeviceptr)(uintptr_t)to, from, n);
    default: return cu.cuMemcpyAsync((CUdeviceptr)(uintptr_t)to, from, n, NULL);
    }
}

static const char *mixed_host_copies(bool pinned)
{
    struct mixed mixed;
    uint32_t *a, *b;
    DO(mixed_make(&mixed, ON_CARD));
    size_t n = mixed.bytes - 2 * ODD_BYTES;
    DO(buffers_make(&a, &b, n, pinned));
    for (uint32_t way = 0; way < WAYS; way++) {
        pattern_write(a, n, way + 1);
        OK(copy_in((enum way)way, mixed.at + ODD_BYTES, a, n));
        OK(copy_out((enum way)((way + 1) % WAYS), b, mixed.at + ODD_BYTES, n));
        OK(cu.cuCtxSynchronize());
        CHECK(pattern_is(b, n, way + 1));
    }
    DO(buffers_drop(a, b, pinned));
    return mixed_drop(&mixed);
}

const char *case_mixed_copies_from_host(void)
{
    return mixed_host_copies(false);
}

const char *case_mixed_copies_to_host(void)
{
    return mixed_host_copies(true);
}

/* Reads all of a range into `to` and compares it with the pattern. */
static const char *range_is(CUdeviceptr at, uint32_t *to, size_t n, uint32_t seed)
{
    memset(to, 0, n);
    OK(cu.cuMemcpyDtoH_v2(to, at, n));
    CHECK(pattern_is(to, n, seed));
    return NULL;
}

const char *case_mixed_copies_on_card(void)
{
    struct mixed first, second;
    CUdeviceptr plain;
    uint32_t *a, *b;
    DO(mixed_make(&first, ON_CARD));
    DO(mixed_make(&second, ON_HOST));
    size_t n = first.bytes;
    OK(cu.cuMemAlloc_v2(&plain, n));
    DO(buffers_make(&a, &b, n, false));
    pattern_write(a, n, 77);
    OK(cu.cuMemcpyHtoD_v2(plain, a, n));
    OK(cu.cuMemcpyDtoD_v2(first.at, plain, n));
    OK(cu.cuMemcpyDtoDAsync_v2(second.at, first.at, n, NULL));
    DO(range_is(second.at, b, n, 77));
    OK(cu.cuMemsetD8_v2(plain, 0, n));
    OK(cu.cuMemcpyAsync(plain, second.at, n, NULL));
    DO(range_is(plain, b, n, 77));
    OK(cu.cuMemsetD8_v2(first.at, 0, n));
    OK(cu.cuMemcpyPeerAsync(first.at, suite.context, second.at, suite.context, n, NULL));
    DO(range_is(first.at, b, n, 77));
    DO(buffers_drop(a, b, false));
    OK(cu.cuMemFree_v2(plain));
    DO(mixed_drop(&first));
    return mixed_drop(&second);
}

/* Rows of a pitch that is no power of two, so that some lie across a border. */
const char *case_mixed_copies_of_rows(void)
{
    struct mixed mixed;
    uint32_t *a, *b;
    DO(mixed_make(&mixed, ON_CARD));
    size_t pitch = G / 4 + 512, width = G / 4 - 256;
    size_t rows = mixed.bytes / pitch, n = rows * width;
    DO(buffers_make(&a, &b, n, false));
    pattern_write(a, n, 5);
    CUDA_MEMCPY2D in = {.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = a, .srcPitch = width};
    in.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
    in.dstDevice = mixed.at;
    in.dstPitch = pitch;
    in.WidthInBytes = width;
    in.Height = rows;
    CUDA_MEMCPY2D out = {.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = mixed.at};
    out.srcPitch = pitch;
    out.dstMemoryType = CU_MEMORYTYPE_HOST;
    out.dstHost = b;
    out.dstPitch = width;
    out.WidthInBytes = width;
    out.Height = rows;
    OK(cu.cuMemcpy2D_v2(&in));
    OK(cu.cuMemcpy2DAsync_v2(&out, NULL));
    OK(cu.cuCtxSynchronize());
    CHECK(pattern_is(b, n, 5));
    memset(b, 0, n);
    pattern_write(a, n, 6);
    OK(cu.cuMemcpy2DAsync_v2(&in, NULL));
    OK(cu.cuMemcpy2DUnaligned_v2(&out));
    CHECK(pattern_is(b, n, 6));
    in.dstPitch = width - 4; /* less than a row */
    EXPECT(CUDA_ERROR_INVALID_VALUE, cu.cuMemcpy2D_v2(&in));
    DO(buffers_drop(a, b, false));
    return mixed_drop(&mixed);
}

const char *case_mixed_copies_of_slices(void)
{
    struct mixed mixed;
    uint32_t *a, *b;
    DO(mixed_make(&mixed, ON_HOST));
    size_t width = G / 8, pitch = G / 8 + 256, height = 4, rows = 5;
    size_t depth = mixed.bytes / (pitch * rows), n = width * height * depth;
    DO(buffers_make(&a, &b, n, false));
    pattern_write(a, n, 9);
    CUDA_MEMCPY3D in = {.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = a, .srcPitch = width};
    in.srcHeight = height;
    in.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
    in.dstDevice = mixed.at;
    in.dstPitch = pitch;
    in.dstHeight = rows;
    in.WidthInBytes = width;
    in.Height = height;
    in.Depth = depth;
    CUDA_MEMCPY3D out = {.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = mixed.at};
    out.srcPitch = pitch;
    out.srcHeight = rows;
    out.dstMemoryType = CU_MEMORYTYPE_HOST;
    out.dstHost = b;
    out.dstPitch = width;
    out.dstHeight = height;
    out.WidthInBytes = width;
    out.Height = height;
    out.Depth = depth;
    OK(cu.cuMemcpy3D_v2(&in));
    OK(cu.cuMemcpy3DAsync_v2(&out, NULL));
    OK(cu.cuCtxSynchronize());
    CHECK(pattern_is(b, n, 9));
    DO(buffers_drop(a, b, false));
    return mixed_drop(&mixed);
}

/* CUmemcpyAttributes, of which only the order of access to the source is needed: 1 is stream order.
 */
struct batch_attributes {
    int order;
    CUmemLocation from_hint, to_hint;
    unsigned flags;
};

const char *case_mixed_copies_in_batch(void)
{
    struct mixed mixed;
    uint32_t *a, *b;
    CUstream stream;
    CUdeviceptr plain;
    if (!cu.cuMemcpyBatchAsync_v2 && !cu.cuMemcpyBatchAsync) SKIP("the driver has no batch copies");
    DO(mixed_make(&mixed, ON_CARD));
    size_t half = mixed.bytes / 2 / 256 * 256;
    OK(cu.cuMemAlloc_v2(&plain, mixed.bytes));
    OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    DO(buffers_make(&a, &b, 2 * half, true));
    pattern_write(a, 2 * half, 21);
    struct batch_attributes attributes = {.order = 1};
    size_t index = 0, fail = 0, sizes[] = {half, half};
    CUdeviceptr host = (CUdeviceptr)(uintptr_t)a;
    CUdeviceptr to[] = {mixed.at, mixed.at + half}, from[] = {host, host + half};
    if (cu.cuMemcpyBatchAsync_v2)
        OK(cu.cuMemcpyBatchAsync_v2(to, from, sizes, 2, &attributes, &index, 1, stream));
    else
        OK(cu.cuMemcpyBatchAsync(to, from, sizes, 2, &attributes, &index, 1, &fail, stream));
    OK(cu.cuStreamSynchronize(stream));
    DO(range_is(mixed.at, b, 2 * half, 21));
    DO(buffers_drop(a, b, true));
    OK(cu.cuStreamDestroy_v2(stream));
    OK(cu.cuMemFree_v2(plain));
    return mixed_drop(&mixed);
}

/* A pattern in pinned memory, taken to every second slice of a range and back, as boxes of one
 * batch. */
const char *case_mixed_boxes_in_batch(void)
{
    struct mixed mixed;
    uint32_t *a, *b;
    CUstream stream;
    if (!cu.cuMemcpy3DBatchAsync_v2) SKIP("the driver has no batches of boxes");
    DO(mixed_make(&mixed, ON_CARD));
    OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    size_t width = G / 4, pitch = G / 4 + 512, rows = 3, depth = mixed.bytes / (pitch * (rows + 1));
    size_t n = width * rows * depth;
    DO(buffers_make(&a, &b, n, true));
    pattern_write(a, n, 22);
    struct emu_box in = {.srcAccessOrder = 1};
    in.src.type = in.dst.type = 1;
    in.src.pointer.ptr = (CUdeviceptr)(uintptr_t)a;
    in.dst.pointer.ptr = mixed.at;
    in.dst.pointer.rowLength = pitch;
    in.dst.pointer.layerHeight = rows + 1;
    in.extent.width = width;
    in.extent.height = rows;
    in.extent.depth = depth;
    struct emu_box out = in;
    out.src = in.dst;
    out.dst = in.src;
    out.dst.pointer.ptr = (CUdeviceptr)(uintptr_t)b;
    OK(cu.cuMemcpy3DBatchAsync_v2(1, &in, 0, stream));
    OK(cu.cuMemcpy3DBatchAsync_v2(1, &out, 0, stream));
    OK(cu.cuStreamSynchronize(stream));
    CHECK(pattern_is(b, n, 22));
    DO(buffers_drop(a, b, true));
    OK(cu.cuStreamDestroy_v2(stream));
    return mixed_drop(&mixed);
}

/* The words of [at, at + n) are `value`, those before and behind it are `around`. */
static const char *set_is(const struct mixed *mixed, uint32_t *words, size_t from, size_t n,
                          uint32_t value, uint32_t around)
{
    OK(cu.cuMemcpyDtoH_v2(words, mixed->at, mixed->bytes));
    CHECK(words_are(words, from / 4, around));
    CHECK(words_are(words + from / 4, n / 4, value));
    CHECK(words_are(words + (from + n) / 4, (mixed->bytes - from - n) / 4, around));
    return NULL;
}

const char *case_mixed_memsets(void)
{
    struct mixed mixed;
    DO(mixed_make(&mixed, ON_CARD));
    uint32_t *words = malloc(mixed.bytes);
    CHECK(words);
    size_t from = ODD_BYTES, n = mixed.bytes - 3 * ODD_BYTES;
    OK(cu.cuMemsetD32_v2(mixed.at, 0x11111111, mixed.bytes / 4));
    OK(cu.cuMemsetD8_v2(mixed.at + from, 0x22, n));
    DO(set_is(&mixed, words, from, n, 0x22222222, 0x11111111));
    OK(cu.cuMemsetD16_v2(mixed.at + from, 0x3334, n / 2));
    DO(set_is(&mixed, words, from, n, 0x33343334, 0x11111111));
    OK(cu.cuMemsetD32_v2(mixed.at + from, 0x45464748, n / 4));
    DO(set_is(&mixed, words, from, n, 0x45464748, 0x11111111));
    OK(cu.cuMemsetD8Async(mixed.at + from, 0x55, n, NULL));
    DO(set_is(&mixed, words, from, n, 0x55555555, 0x11111111));
    OK(cu.cuMemsetD32Async(mixed.at + from, 0x66676869, n / 4, NULL));
    DO(set_is(&mixed, words, from, n, 0x66676869, 0x11111111));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cu.cuMemsetD32_v2(mixed.at + 2, 0, 1)); /* not aligned */
    size_t pitch = G + 512, rows = mixed.bytes / pitch;
    OK(cu.cuMemsetD2D32_v2(mixed.at, pitch, 7, G / 4, rows));
    OK(cu.cuMemcpyDtoH_v2(words, mixed.at, mixed.bytes));
    for (size_t row = 0; row < rows; row++)
        CHECK(words_are(words + row * pitch / 4, G / 4, 7) && words[row * pitch / 4 + G / 4] != 7);
    free(words);
    return mixed_drop(&mixed);
}

const char *case_mixed_kernels(void)
{
    struct mixed first, second;
    uint32_t *a, *b;
    DO(mixed_make(&first, ON_CARD));
    DO(mixed_make(&second, ON_HOST));
    size_t n = first.bytes;
    uint32_t count = (uint32_t)(n / 4), one = 1;
    DO(buffers_make(&a, &b, n, false));
    OK(run_fill(first.at, 41, n / 4, NULL));
    void *add[] = {&first.at, &one, &count}, *move[] = {&second.at, &first.at, &count};
    OK(run("add_words", n / 4, NULL, add));
    OK(run("move_words", n / 4, NULL, move));
    OK(cu.cuMemcpyDtoH_v2(b, second.at, n));
    CHECK(words_are(b, n / 4, 42));
    DO(buffers_drop(a, b, false));
    DO(mixed_drop(&first));
    return mixed_drop(&second);
}

/* ---- Atomics ---- */

struct counters {
    uint32_t word, pad;
    uint64_t wide;
    float real;
    uint32_t pad2, swapped, pad3;
};

static const char *atomics_at(CUdeviceptr at)
{
    enum { THREADS = 2048 };
    struct counters counters;
    uint32_t count = THREADS;
    void *params[] = {&at, &count};
    OK(cu.cuMemsetD8_v2(at, 0, sizeof counters));
    OK(run("atomics", THREADS, NULL, params));
    OK(cu.cuMemcpyDtoH_v2(&counters, at, sizeof counters));
    CHECK(counters.word == THREADS);
    CHECK(counters.wide == THREADS);
    CHECK(counters.real == (float)THREADS);
    CHECK(counters.swapped == THREADS);
    return NULL;
}

static const char *atomics_on(enum place place)
{
    CUdeviceptr at;
    DO(mapped_make(place, G, &at));
    DO(atomics_at(at + 64));
    return mapped_drop(at, G);
}

const char *case_atomics_on_card(void)
{
    return atomics_on(ON_CARD);
}

const char *case_atomics_on_host(void)
{
    return atomics_on(ON_HOST);
}

const char *case_atomics_on_mixed(void)
{
    struct mixed mixed;
    DO(mixed_make(&mixed, ON_HOST));
    for (unsigned i = 0; i < MIXED_GRANULES; i++) DO(atomics_at(mixed.at + i * G));
    return mixed_drop(&mixed);
}

/* A kernel follows pointers that lie in memory, as batched matrix products do. */
const char *case_hidden_access(void)
{
    struct mixed data, table;
    enum { POINTERS = MIXED_GRANULES * 4 };
    CUdeviceptr pointers[POINTERS], out;
    uint32_t count = POINTERS, words[POINTERS];
    DO(mixed_make(&data, ON_CARD));
    DO(mixed_make(&table, ON_HOST));
    OK(cu.cuMemAlloc_v2(&out, sizeof words));
    for (uint32_t i = 0; i < POINTERS; i++) {
        pointers[i] = data.at + i * (G / 4);
        OK(cu.cuMemsetD32Async(pointers[i], i + 1, 1, NULL));
    }
    OK(cu.cuMemcpyHtoD_v2(table.at + G - 64, pointers, sizeof pointers));
    CUdeviceptr from = table.at + G - 64;
    void *params[] = {&out, &from, &count};
    OK(run("gather", POINTERS, NULL, params));
    OK(cu.cuMemcpyDtoH_v2(words, out, sizeof words));
    for (uint32_t i = 0; i < POINTERS; i++) CHECK(words[i] == i + 1);
    OK(cu.cuMemFree_v2(out));
    DO(mixed_drop(&data));
    return mixed_drop(&table);
}

/* ---- What calls wait for ---- */

enum { BUSY_MS = 100 };

/* The source may be overwritten as soon as a copy from pageable memory has returned. */
static const char *from_pageable(size_t n, bool async)
{
    CUdeviceptr to;
    uint32_t *a, *b;
    OK(cu.cuMemAlloc_v2(&to, n));
    DO(buffers_make(&a, &b, n, false));
    pattern_write(a, n, 31);
    OK(spin_ms(BUSY_MS, NULL));
    if (async)
        OK(cu.cuMemcpyHtoDAsync_v2(to, a, n, NULL));
    else
        OK(cu.cuMemcpyHtoD_v2(to, a, n));
    note("%zu bytes: the stream is then %s", n,
         cu.cuStreamQuery(NULL) == CUDA_SUCCESS ? "idle" : "busy");
    memset(a, 0xee, n);
    DO(range_is(to, b, n, 31));
    DO(buffers_drop(a, b, false));
    OK(cu.cuMemFree_v2(to));
    return NULL;
}

const char *case_sync_copy_from_pageable(void)
{
    DO(from_pageable(4096, false));
    DO(from_pageable(64 << 10, false));
    return from_pageable(1 << 20, false);
}

const char *case_async_copy_from_pageable(void)
{
    DO(from_pageable(4096, true));
    DO(from_pageable(64 << 10, true));
    return from_pageable(1 << 20, true);
}

/* The source is read when the copy runs, not when it is queued. */
const char *case_async_copy_from_pinned(void)
{
    const size_t n = 4096;
    CUdeviceptr to;
    uint32_t *a, *b;
    OK(cu.cuMemAlloc_v2(&to, n));
    DO(buffers_make(&a, &b, n, true));
    pattern_write(a, n, 1);
    OK(spin_ms(BUSY_MS, NULL));
    OK(cu.cuMemcpyHtoDAsync_v2(to, a, n, NULL));
    EXPECT(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(NULL));
    pattern_write(a, n, 2);
    DO(range_is(to, b, n, 2));
    DO(buffers_drop(a, b, true));
    OK(cu.cuMemFree_v2(to));
    return NULL;
}

const char *case_copy_to_pageable_is_done(void)
{
    const size_t n = 1 << 18;
    CUdeviceptr from;
    uint32_t *a, *b;
    OK(cu.cuMemAlloc_v2(&from, n));
    DO(buffers_make(&a, &b, n, false));
    OK(spin_ms(BUSY_MS, NULL));
    OK(run_fill(from, 8, n / 4, NULL));
    OK(cu.cuMemcpyDtoHAsync_v2(b, from, n, NULL));
    CHECK(words_are(b, n / 4, 8)); /* the asynchronous form, too, returns when it is done */
    OK(run_fill(from, 9, n / 4, NULL));
    OK(cu.cuMemcpyDtoH_v2(b, from, n));
    CHECK(words_are(b, n / 4, 9));
    DO(buffers_drop(a, b, false));
    OK(cu.cuMemFree_v2(from));
    return NULL;
}

/* A synchronous copy is work of the legacy stream: it comes after work in blocking streams, and not
 * after that in non-blocking ones. */
const char *case_sync_copy_waits_for_its_stream(void)
{
    CUdeviceptr at;
    CUstream blocking;
    uint32_t word = 0;
    OK(cu.cuMemAlloc_v2(&at, 4096));
    OK(cu.cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    OK(cu.cuMemsetD32_v2(at, 1, 1024));
    OK(spin_ms(BUSY_MS, blocking));
    OK(run_fill(at, 2, 1024, blocking));
    OK(cu.cuMemcpyDtoH_v2(&word, at, 4));
    CHECK(word == 2);
    OK(cu.cuStreamDestroy_v2(blocking));
    OK(cu.cuMemFree_v2(at));
    return NULL;
}

/* What is queued behind a kernel that spins BUSY_MS cannot have run when the query answers, unless
 * this process stalls for that long. */
#define BUSY(stream) EXPECT(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(stream))

const char *case_memset_does_not_wait(void)
{
    CUdeviceptr at;
    uint32_t word;
    OK(cu.cuMemAlloc_v2(&at, 4096));
    OK(spin_ms(BUSY_MS, NULL));
    OK(cu.cuMemsetD8_v2(at, 3, 4096));
    BUSY(NULL);
    OK(cu.cuMemcpyDtoH_v2(&word, at, 4));
    CHECK(word == 0x03030303);
    OK(cu.cuMemFree_v2(at));
    return NULL;
}

const char *case_copy_on_card_does_not_wait(void)
{
    CUdeviceptr a, b;
    uint32_t word;
    OK(cu.cuMemAlloc_v2(&a, 4096));
    OK(cu.cuMemAlloc_v2(&b, 4096));
    OK(cu.cuMemsetD32_v2(a, 77, 1024));
    OK(spin_ms(BUSY_MS, NULL));
    OK(cu.cuMemcpyDtoD_v2(b, a, 4096));
    BUSY(NULL);
    OK(cu.cuMemcpyDtoH_v2(&word, b, 4));
    CHECK(word == 77);
    OK(cu.cuMemFree_v2(a));
    OK(cu.cuMemFree_v2(b));
    return NULL;
}
