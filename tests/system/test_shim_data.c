/* Every form of copy and memset, through the shim, on pool memory that does not fit the card:
 * whatever moves meanwhile, each byte is what the same operations make of plain arrays.
 *
 * The shim is the real one, over the emulator: a card of 8 MiB, 14 MiB of blocks. The seed chooses
 * the operations, their places and sizes. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "shim/abi.h"
#include "shim/exported.h"
#include "vrampool.h"

#define BLOCK_BYTES ((size_t)2 << 20)
#define HOST_BYTES  ((size_t)256 << 10)
enum { BLOCKS = 7, ROUNDS = 1500 };

static struct random rng;
static CUdeviceptr block[BLOCKS];
static unsigned char *model[BLOCKS]; /* what block[i] must hold */
static unsigned char *host;          /* a buffer that copies go through; its model is itself */
static CUstream stream;

/* NAME is a string; the types are those of the function. */
#define CALL(name, types, args)                                                                    \
    do {                                                                                           \
        CUresult result_ = ((CUresult(*) types)shim_function(name))args;                           \
        if (result_ != CUDA_SUCCESS) fail_msg("%s: %d", name, result_);                            \
    } while (0)

/* ---- Streams: the named one, the legacy default, the thread's own. Work on different ones is not
 * ordered among them, and host memory is used next by the test itself: then it waits. ---- */

enum line { SYNC, SYNC_OWN, NAMED, LEGACY, OWN }; /* the first two are calls without a stream */

static void wait(void)
{
    CALL("cuCtxSynchronize", (void), ());
}

static void change_line(enum line line)
{
    static enum line last = SYNC;
    if (line != last) wait();
    last = line;
}

static CUstream stream_of(enum line line)
{
    return line == NAMED ? stream : NULL;
}

/* ---- Places ---- */

struct spot {
    CUdeviceptr address;
    unsigned char *model;
};
enum place { HOST, CARD };

static size_t below(size_t limit)
{
    return (size_t)random_below(&rng, limit);
}

static struct spot in_block(unsigned i, size_t bytes)
{
    size_t at = below((BLOCK_BYTES - bytes) / 8 + 1) * 8;
    return (struct spot){block[i] + at, model[i] + at};
}

static struct spot in_host(size_t bytes)
{
    size_t at = below(HOST_BYTES - bytes + 1);
    return (struct spot){(CUdeviceptr)(uintptr_t)(host + at), host + at};
}

/* Two places that do not overlap, as the driver wants them. */
static void choose(enum place to_place, enum place from_place, size_t bytes, struct spot *to,
                   struct spot *from)
{
    unsigned i = (unsigned)below(BLOCKS), other = (i + 1 + (unsigned)below(BLOCKS - 1)) % BLOCKS;
    *to = to_place == CARD ? in_block(i, bytes) : in_host(bytes);
    *from = from_place == CARD ? in_block(other, bytes) : in_host(bytes);
}

/* ---- Copies of one row ---- */

static const struct row_form {
    const char *name;
    enum place to, from;
    enum line line;
    bool peer;
} row_forms[] = {
    {"cuMemcpyHtoD_v2", CARD, HOST, SYNC, false},
    {"cuMemcpyHtoD_v2_ptds", CARD, HOST, SYNC_OWN, false},
    {"cuMemcpyHtoDAsync_v2", CARD, HOST, NAMED, false},
    {"cuMemcpyHtoDAsync_v2_ptsz", CARD, HOST, OWN, false},
    {"cuMemcpyDtoH_v2", HOST, CARD, SYNC, false},
    {"cuMemcpyDtoH_v2_ptds", HOST, CARD, SYNC_OWN, false},
    {"cuMemcpyDtoHAsync_v2", HOST, CARD, NAMED, false},
    {"cuMemcpyDtoHAsync_v2_ptsz", HOST, CARD, OWN, false},
    {"cuMemcpyDtoD_v2", CARD, CARD, SYNC, false},
    {"cuMemcpyDtoD_v2_ptds", CARD, CARD, SYNC_OWN, false},
    {"cuMemcpyDtoDAsync_v2", CARD, CARD, NAMED, false},
    {"cuMemcpyDtoDAsync_v2", CARD, CARD, LEGACY, false},
    {"cuMemcpyDtoDAsync_v2_ptsz", CARD, CARD, OWN, false},
    {"cuMemcpy", CARD, CARD, SYNC, false},
    {"cuMemcpy", HOST, CARD, SYNC, false},
    {"cuMemcpy_ptds", CARD, HOST, SYNC_OWN, false},
    {"cuMemcpyAsync", CARD, CARD, NAMED, false},
    {"cuMemcpyAsync", CARD, HOST, LEGACY, false},
    {"cuMemcpyAsync_ptsz", HOST, CARD, OWN, false},
    {"cuMemcpyPeer", CARD, CARD, SYNC, true},
    {"cuMemcpyPeer_ptds", CARD, CARD, SYNC_OWN, true},
    {"cuMemcpyPeerAsync", CARD, CARD, NAMED, true},
    {"cuMemcpyPeerAsync_ptsz", CARD, CARD, OWN, true},
};

static void call_row(const struct row_form *form, CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    CUstream on = stream_of(form->line);
    CUcontext here = NULL;
    bool sync = form->line <= SYNC_OWN;
    if (form->peer) CALL("cuCtxGetCurrent", (CUcontext *), (&here));
    if (form->peer && sync)
        CALL(form->name, (CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t),
             (to, here, from, here, bytes));
    else if (form->peer)
        CALL(form->name, (CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t, CUstream),
             (to, here, from, here, bytes, on));
    else if (sync)
        CALL(form->name, (CUdeviceptr, CUdeviceptr, size_t), (to, from, bytes));
    else
        CALL(form->name, (CUdeviceptr, CUdeviceptr, size_t, CUstream), (to, from, bytes, on));
}

static void copy_row(void)
{
    const struct row_form *form = &row_forms[below(sizeof row_forms / sizeof *row_forms)];
    size_t bytes = 8 + below(HOST_BYTES / 2);
    struct spot to, from;
    choose(form->to, form->from, bytes, &to, &from);
    change_line(form->line);
    call_row(form, to.address, from.address, bytes);
    if (form->to == HOST || form->from == HOST) wait();
    memcpy(to.model, from.model, bytes);
}

static void copy_batch(void)
{
    static const char *const names[] = {"cuMemcpyBatchAsync_v2", "cuMemcpyBatchAsync_v2_ptsz"};
    enum { PIECES = 5 };
    CUdeviceptr to[PIECES], from[PIECES];
    size_t bytes[PIECES], index = 0;
    struct {
        int order;
        CUmemLocation to, from;
        unsigned flags;
    } attributes = {.order = 1}; /* the source is read in stream order */
    for (unsigned i = 0; i < PIECES;
         i++) { /* each into a block of its own: pieces are not ordered */
        bytes[i] = 8 + below(4096);
        struct spot a = in_block(i, bytes[i]), b = in_block(PIECES + (unsigned)below(2), bytes[i]);
        if (i == 0) b = in_host(bytes[i]);
        to[i] = a.address;
        from[i] = b.address;
        memcpy(a.model, b.model, bytes[i]);
    }
    change_line(NAMED);
    CALL(names[below(2)],
         (CUdeviceptr *, CUdeviceptr *, size_t *, size_t, void *, size_t *, size_t, CUstream),
         (to, from, bytes, PIECES, &attributes, &index, 1, stream));
    wait();
}

/* ---- Copies of rows and slices ---- */

static const struct box_form {
    const char *name;
    enum line line;
    bool deep; /* a CUDA_MEMCPY3D, else 2D */
} box_forms[] = {
    {"cuMemcpy2D_v2", SYNC, false},          {"cuMemcpy2D_v2_ptds", SYNC_OWN, false},
    {"cuMemcpy2DUnaligned_v2", SYNC, false}, {"cuMemcpy2DUnaligned_v2_ptds", SYNC_OWN, false},
    {"cuMemcpy2DAsync_v2", NAMED, false},    {"cuMemcpy2DAsync_v2_ptsz", OWN, false},
    {"cuMemcpy3D_v2", SYNC, true},           {"cuMemcpy3D_v2_ptds", SYNC_OWN, true},
    {"cuMemcpy3DAsync_v2", NAMED, true},     {"cuMemcpy3DAsync_v2_ptsz", OWN, true},
};

static void call_box(const struct box_form *form, const CUDA_MEMCPY3D *copy)
{
    CUDA_MEMCPY2D flat = {.srcXInBytes = copy->srcXInBytes,
                          .srcY = copy->srcY,
                          .srcMemoryType = copy->srcMemoryType,
                          .srcHost = copy->srcHost,
                          .srcDevice = copy->srcDevice,
                          .srcPitch = copy->srcPitch,
                          .dstXInBytes = copy->dstXInBytes,
                          .dstY = copy->dstY,
                          .dstMemoryType = copy->dstMemoryType,
                          .dstHost = copy->dstHost,
                          .dstDevice = copy->dstDevice,
                          .dstPitch = copy->dstPitch,
                          .WidthInBytes = copy->WidthInBytes,
                          .Height = copy->Height};
    const void *description = form->deep ? (const void *)copy : &flat;
    if (form->line <= SYNC_OWN)
        CALL(form->name, (const void *), (description));
    else
        CALL(form->name, (const void *, CUstream), (description, stream_of(form->line)));
}

static void copy_box(void)
{
    const struct box_form *form = &box_forms[below(sizeof box_forms / sizeof *box_forms)];
    CUDA_MEMCPY3D copy = {.WidthInBytes = 8 + below(400),
                          .Height = 1 + below(20),
                          .Depth = form->deep ? 1 + below(4) : 1,
                          .srcXInBytes = below(16),
                          .srcY = below(3),
                          .dstXInBytes = below(16),
                          .dstY = below(3)};
    copy.srcPitch = copy.WidthInBytes + copy.srcXInBytes + below(64);
    copy.dstPitch = copy.WidthInBytes + copy.dstXInBytes + below(64);
    copy.srcHeight = copy.Height + copy.srcY + below(3);
    copy.dstHeight = copy.Height + copy.dstY + below(3);
    size_t from_slice = copy.srcPitch * copy.srcHeight, to_slice = copy.dstPitch * copy.dstHeight;
    size_t bytes = (from_slice > to_slice ? from_slice : to_slice) * copy.Depth;
    enum place from_place = below(2) ? CARD : HOST;
    enum place to_place = from_place == HOST ? CARD : below(2) ? CARD : HOST;
    struct spot to, from;
    choose(to_place, from_place, bytes, &to, &from);
    copy.srcMemoryType = from_place == CARD ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
    copy.dstMemoryType = to_place == CARD ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
    copy.srcDevice = from.address;
    copy.srcHost = (const void *)(uintptr_t)from.address;
    copy.dstDevice = to.address;
    copy.dstHost = (void *)(uintptr_t)to.address;
    change_line(form->line);
    call_box(form, &copy);
    wait();
    for (size_t z = 0; z < copy.Depth; z++) {
        for (size_t y = 0; y < copy.Height; y++)
            memcpy(to.model + z * to_slice + (y + copy.dstY) * copy.dstPitch + copy.dstXInBytes,
                   from.model + z * from_slice + (y + copy.srcY) * copy.srcPitch + copy.srcXInBytes,
                   copy.WidthInBytes);
    }
}

/* ---- Memsets ---- */

static const struct set_form {
    const char *name;
    unsigned element;
    enum line line;
    bool plane;
} set_forms[] = {
#define SET_FORMS(bits)                                                                            \
    {"cuMemsetD" #bits "_v2", bits / 8, SYNC, false},                                              \
        {"cuMemsetD" #bits "_v2_ptds", bits / 8, SYNC_OWN, false},                                 \
        {"cuMemsetD" #bits "Async", bits / 8, NAMED, false},                                       \
        {"cuMemsetD" #bits "Async_ptsz", bits / 8, OWN, false},                                    \
        {"cuMemsetD2D" #bits "_v2", bits / 8, SYNC, true},                                         \
        {"cuMemsetD2D" #bits "_v2_ptds", bits / 8, SYNC_OWN, true},                                \
        {"cuMemsetD2D" #bits "Async", bits / 8, NAMED, true},                                      \
        {"cuMemsetD2D" #bits "Async_ptsz", bits / 8, OWN, true},
    SET_FORMS(8) SET_FORMS(16) SET_FORMS(32)};

/* A value narrower than 32 bits goes where one of 32 bits would: in a register, the rest ignored.
 */
static void call_set(const struct set_form *form, CUdeviceptr to, size_t pitch, unsigned value,
                     size_t width, size_t height)
{
    CUstream on = stream_of(form->line);
    bool sync = form->line <= SYNC_OWN;
    if (form->plane && sync)
        CALL(form->name, (CUdeviceptr, size_t, unsigned, size_t, size_t),
             (to, pitch, value, width, height));
    else if (form->plane)
        CALL(form->name, (CUdeviceptr, size_t, unsigned, size_t, size_t, CUstream),
             (to, pitch, value, width, height, on));
    else if (sync)
        CALL(form->name, (CUdeviceptr, unsigned, size_t), (to, value, width));
    else
        CALL(form->name, (CUdeviceptr, unsigned, size_t, CUstream), (to, value, width, on));
}

static void set(void)
{
    const struct set_form *form = &set_forms[below(sizeof set_forms / sizeof *set_forms)];
    size_t width = 1 + below(form->plane ? 300 : 100000), height = form->plane ? 1 + below(30) : 1;
    size_t pitch = (width * form->element + below(200)) / 4 * 4 + 4;
    unsigned value = (unsigned)random_next(&rng) & (~0u >> (32 - 8 * form->element));
    struct spot to = in_block((unsigned)below(BLOCKS), pitch * height);
    change_line(form->line);
    call_set(form, to.address, pitch, value, width, height);
    for (size_t y = 0; y < height; y++) {
        for (size_t x = 0; x < width; x++)
            memcpy(to.model + y * pitch + x * form->element, &value, form->element);
    }
}

/* ---- The test ---- */

static void check_blocks(void)
{
    static unsigned char seen[2 << 20];
    wait();
    for (unsigned i = 0; i < BLOCKS; i++) {
        CALL("cuMemcpyDtoH_v2", (void *, CUdeviceptr, size_t), (seen, block[i], BLOCK_BYTES));
        for (size_t k = 0; k < BLOCK_BYTES; k++) {
            if (seen[k] != model[i][k])
                fail_msg("block %u, byte %zu: %02x instead of %02x", i, k, seen[k], model[i][k]);
        }
    }
}

static void every_form_leaves_the_right_bytes(void **state)
{
    for (unsigned round = 1; round <= ROUNDS; round++) {
        if (round % 20 == 0) {
            wait();
            for (size_t i = 0; i < HOST_BYTES; i++) host[i] = (unsigned char)random_next(&rng);
        }
        switch (below(8)) {
        case 0: copy_batch(); break;
        case 1:
        case 2: copy_box(); break;
        case 3:
        case 4: set(); break;
        default: copy_row(); break;
        }
        if (round % 300 == 0) check_blocks();
    }
    check_blocks();
}

static void the_pool_was_at_work(void **state)
{
    vp_pool *(*find)(void) = (vp_pool * (*)(void)) shim_function("vp_default");
    void (*read)(vp_pool *, vp_stats *) =
        (void (*)(vp_pool *, vp_stats *))shim_function("vp_stats_read");
    assert_non_null(find());
    vp_stats stats;
    read(find(), &stats);
    assert_true(stats.operations >= ROUNDS);
    assert_true(stats.moved_bytes > BLOCKS * BLOCK_BYTES);
    print_message("%llu operations, %llu bytes moved\n", (unsigned long long)stats.operations,
                  (unsigned long long)stats.moved_bytes);
}

static void what_the_program_asks_is_about_its_blocks(void **state)
{
    for (unsigned i = 0; i < BLOCKS; i++) {
        CUdeviceptr base = 0;
        size_t bytes = 0;
        unsigned type = 0;
        CALL("cuMemGetAddressRange_v2", (CUdeviceptr *, size_t *, CUdeviceptr),
             (&base, &bytes, block[i] + 12345));
        assert_int_equal(base, block[i]);
        assert_int_equal(bytes, BLOCK_BYTES);
        CALL("cuPointerGetAttribute", (void *, int, CUdeviceptr),
             (&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, block[i] + BLOCK_BYTES - 1));
        assert_int_equal(type, CU_MEMORYTYPE_DEVICE);
    }
    size_t free_bytes = 0, total = 0, card = 0;
    CALL("cuMemGetInfo_v2", (size_t *, size_t *), (&free_bytes, &total));
    CALL("cuDeviceTotalMem_v2", (size_t *, CUdevice), (&card, 0));
    assert_int_equal(total, card);
    assert_true(total > BLOCKS * BLOCK_BYTES && free_bytes < total);
}

/* Programs key caches of registrations by it. */
static uint64_t buffer_id(CUdeviceptr address)
{
    uint64_t id = 0;
    CALL("cuPointerGetAttribute", (void *, int, CUdeviceptr),
         (&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, address));
    return id;
}

static void a_buffer_id_is_never_used_twice(void **state)
{
    static const size_t sizes[] = {300, 1 << 20};
    uint64_t seen[64];
    unsigned count = 0, same = 0;
    CUdeviceptr last = 0, address;
    seen[count++] = buffer_id(block[0]);
    assert_int_equal(buffer_id(block[0] + BLOCK_BYTES - 1), seen[0]);
    for (unsigned i = 0; i < 16; i++) {
        CALL("cuMemAlloc_v2", (CUdeviceptr *, size_t), (&address, sizes[i / 8]));
        uint64_t id = buffer_id(address);
        for (unsigned k = 0; k < count; k++) assert_int_not_equal(id, seen[k]);
        seen[count++] = id;
        same += address == last;
        last = address;
        CALL("cuMemFree_v2", (CUdeviceptr), (address));
    }
    assert_true(same > 0); /* addresses are */
}

static int start(void **state)
{
    const char *text = getenv("SEED");
    uint64_t seed = text ? strtoull(text, NULL, 0) : 1;
    print_message("seed %llu\n", (unsigned long long)seed);
    rng.state = seed;
    CUcontext context;
    CALL("cuInit", (unsigned), (0));
    CALL("cuDevicePrimaryCtxRetain", (CUcontext *, CUdevice), (&context, 0));
    CALL("cuCtxSetCurrent", (CUcontext), (context));
    CALL("cuStreamCreate", (CUstream *, unsigned), (&stream, CU_STREAM_DEFAULT));
    host = calloc(1, HOST_BYTES);
    assert_non_null(host);
    for (unsigned i = 0; i < BLOCKS; i++) {
        model[i] = calloc(1, BLOCK_BYTES);
        assert_non_null(model[i]);
        CALL("cuMemAlloc_v2", (CUdeviceptr *, size_t), (&block[i], BLOCK_BYTES));
        CALL("cuMemsetD8_v2", (CUdeviceptr, unsigned, size_t), (block[i], 0, BLOCK_BYTES));
    }
    return 0;
}

static int finish(void **state)
{
    for (unsigned i = 0; i < BLOCKS; i++) {
        CALL("cuMemFree_v2", (CUdeviceptr), (block[i]));
        free(model[i]);
    }
    free(host);
    CALL("cuStreamDestroy_v2", (CUstream), (stream));
    CALL("cuDevicePrimaryCtxRelease_v2", (CUdevice), (0));
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_leaves_the_right_bytes),
        cmocka_unit_test(the_pool_was_at_work),
        cmocka_unit_test(what_the_program_asks_is_about_its_blocks),
        cmocka_unit_test(a_buffer_id_is_never_used_twice),
    };
    return cmocka_run_group_tests(tests, start, finish);
}
