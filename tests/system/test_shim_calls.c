/* Each wrapper: what it tells the pool, in which order, and that the driver gets the program's
 * arguments. P+n are addresses of the pool, H+n of host memory of the test. */
#include "shim/harness.h"

#include "shim/abi.h"

#include <string.h>

#define POOL(offset) (FAKE_FIRST + (offset))
#define STREAM       ((CUstream)0x77)
#define CARD_MEMORY  UINT64_C(0x7f0000000000) /* memory of the card that is not the pool's */

static char host[4096];
#define HOST(offset) ((CUdeviceptr)(uintptr_t)host + (offset))

/* The call returned `result`, the pool was told `log`, and the driver was called last by `symbol`.
 */
static void check(CUresult result, CUresult expected, const char *symbol, const char *log)
{
    assert_string_equal(fake_pool()->log, log);
    assert_int_equal(result, expected);
    assert_string_equal(last_name(), symbol);
    fake_pool()->log[0] = '\0';
}

#define CHECK(symbol, types, args, log)                                                            \
    do {                                                                                           \
        CUresult result_ = CALL(symbol, types, args);                                              \
        check(result_, CUDA_SUCCESS, #symbol, log);                                                \
    } while (0)

/* As for an operation that the pool lets pass: FIRST names it, the touches follow. */
#define OP(first, touches) first " " touches "enter leave:0 "

/* The pool opens with the first allocation after cuInit with a context, and not before. */
static int open_pool(void **state)
{
    CUdeviceptr address = 0;
    struct recorder *real = the_recorder();
    fake_pool()->host = host;
    fake_pool()->host_bytes = sizeof host;
    real->device_first = CARD_MEMORY;
    real->device_end = CARD_MEMORY + (1 << 20);
#define ALLOC() CALL(cuMemAlloc_v2, (CUdeviceptr *, size_t), (&address, 4096))
    assert_int_equal(ALLOC(), CUDA_SUCCESS);
    assert_string_equal(last_name(), "cuMemAlloc_v2"); /* the driver's: there was no cuInit */
    real->fail_symbol = (int)SHIM_cuInit;
    real->fail_result = CUDA_ERROR_NO_DEVICE;
    assert_int_equal(CALL(cuInit, (unsigned), (0)), CUDA_ERROR_NO_DEVICE);
    real->context = (void *)0xc0;
    assert_int_equal(ALLOC(), CUDA_SUCCESS);
    assert_int_equal(fake_pool()->opened, 0);
    real->fail_symbol = -1;
    real->context = NULL;
    assert_int_equal(CALL(cuInit, (unsigned), (0)), CUDA_SUCCESS);
    assert_int_equal(ALLOC(), CUDA_SUCCESS);
    assert_int_equal(fake_pool()->opened, 0); /* no context is current */
    real->context = (void *)0xc0;
    assert_int_equal(ALLOC(), CUDA_SUCCESS);
    assert_int_equal(fake_pool()->opened, 1);
    assert_int_equal(address, POOL(FAKE_BLOCK));
    assert_string_equal(fake_pool()->log, "alloc:1000 ");
    fake_pool()->log[0] = '\0';
    return 0;
}

static void launches_touch_their_parameters(void **state)
{
#define LAUNCH_TYPES                                                                               \
    (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream,   \
     void **, void **)
#define FUNCTION ((CUfunction)0xf1)
#define PARAMS   ((void **)0xaa)
#define EXTRA    ((void **)0xbb)
    CHECK(cuLaunchKernel, LAUNCH_TYPES, (FUNCTION, 1, 2, 3, 4, 5, 6, 7, STREAM, PARAMS, EXTRA),
          OP("kernel stream=77 cuLaunchKernel", "params:f1:aa:bb "));
    const uint64_t sent[] = {0xf1, 1, 2, 3, 4, 5, 6, 7, 0x77, 0xaa, 0xbb};
    for (unsigned i = 0; i < 11; i++) {
        bool narrow = i >= 1 && i <= 7; /* the upper half of such a slot is not the argument's */
        assert_int_equal(narrow ? (uint32_t)argument(i) : argument(i), sent[i]);
    }
    CHECK(cuLaunchKernel, LAUNCH_TYPES, (FUNCTION, 1, 1, 1, 1, 1, 1, 0, NULL, PARAMS, NULL),
          OP("kernel stream=0 cuLaunchKernel", "params:f1:aa:0 "));
    CHECK(cuLaunchKernel_ptsz, LAUNCH_TYPES, (FUNCTION, 1, 1, 1, 1, 1, 1, 0, NULL, PARAMS, NULL),
          OP("kernel stream=2 cuLaunchKernel_ptsz", "params:f1:aa:0 "));
    assert_int_equal(argument(8), 0); /* the driver gets what the program gave */
    CHECK(cuLaunchKernel_ptsz, LAUNCH_TYPES,
          (FUNCTION, 1, 1, 1, 1, 1, 1, 0, CU_STREAM_LEGACY, PARAMS, NULL),
          OP("kernel stream=1 cuLaunchKernel_ptsz", "params:f1:aa:0 "));
    CHECK(cuLaunchKernel, LAUNCH_TYPES, (NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
          OP("kernel stream=0 cuLaunchKernel", ""));

    CUlaunchConfig config = {.gridDimX = 1, .hStream = STREAM};
#define EX_TYPES (const CUlaunchConfig *, CUfunction, void **, void **)
    CHECK(cuLaunchKernelEx, EX_TYPES, (&config, FUNCTION, PARAMS, EXTRA),
          OP("kernel stream=77 cuLaunchKernelEx", "params:f1:aa:bb "));
    config.hStream = NULL;
    CHECK(cuLaunchKernelEx_ptsz, EX_TYPES, (&config, FUNCTION, PARAMS, EXTRA),
          OP("kernel stream=2 cuLaunchKernelEx_ptsz", "params:f1:aa:bb "));
    CHECK(cuLaunchKernelEx, EX_TYPES, (NULL, FUNCTION, PARAMS, EXTRA),
          OP("kernel stream=0 cuLaunchKernelEx", "params:f1:aa:bb "));
    CHECK(cuLaunchCooperativeKernel,
          (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
           CUstream, void **),
          (FUNCTION, 1, 1, 1, 1, 1, 1, 0, STREAM, PARAMS),
          OP("kernel stream=77 cuLaunchCooperativeKernel", "params:f1:aa:0 "));
}

static void unseen_parameters_may_touch_anything(void **state)
{
    CHECK(cuLaunchGridAsync, (CUfunction, int, int, CUstream), (FUNCTION, 1, 1, STREAM),
          OP("kernel stream=77 cuLaunchGridAsync", "anything "));
    CHECK(cuLaunchCooperativeKernelMultiDevice, (void *, unsigned, unsigned), (NULL, 3, 0),
          OP("kernel stream=0 cuLaunchCooperativeKernelMultiDevice", "anything "));
    CHECK(cuGraphLaunch, (void *, CUstream), ((void *)0x99, STREAM),
          OP("graph stream=77 cuGraphLaunch", "anything "));
    CHECK(cuGraphLaunch_ptsz, (void *, CUstream), ((void *)0x99, NULL),
          OP("graph stream=2 cuGraphLaunch_ptsz", "anything "));
    CHECK(cuMemBatchDecompressAsync, (void *, size_t, unsigned, size_t *, CUstream),
          (NULL, 1, 0, NULL, STREAM), OP("copy stream=77 cuMemBatchDecompressAsync", "anything "));
}

/* What the driver looks at is there as long as the call lasts; refused, the driver is not called.
 */
static void nodes_have_what_they_name_in_their_call(void **state)
{
#define NODE_TYPES  (void *, void *, void *, size_t, const void *)
#define NODE_ARGS   (NULL, (void *)0x91, NULL, 0, &words)
#define NODE_LOG    "graph stream=0 cuGraphAddBatchMemOpNode touch:P+40:8 touch:P+80:4 keep:call "
#define KEPT(first) "graph stream=0 " first "keep:call keep-ends:call "
    union abi_word word[] = {{.on = {ABI_WORD_WRITE_64, POOL(64)}},
                             {.on = {ABI_WORD_WAIT_32, POOL(128)}}};
    struct abi_words_node words = {.count = 2, .words = word};
    CHECK(cuGraphAddBatchMemOpNode, NODE_TYPES, NODE_ARGS, NODE_LOG "keep-ends:call ");
    CHECK(cuGraphBatchMemOpNodeSetParams, (void *, const void *), ((void *)0x92, &words),
          KEPT("cuGraphBatchMemOpNodeSetParams touch:P+40:8 touch:P+80:4 "));
    struct abi_node any = {.type = ABI_NODE_WORDS, .words = words};
    CHECK(cuGraphNodeSetParams, (void *, void *), ((void *)0x92, &any),
          KEPT("cuGraphNodeSetParams touch:P+40:8 touch:P+80:4 "));
    any = (struct abi_node){.type = ABI_NODE_SET, .set = {POOL(64), 512, 7, 4, 16, 3}};
    CHECK(cuGraphAddNode, NODE_TYPES, (NULL, (void *)0x91, NULL, 0, &any),
          KEPT("cuGraphAddNode touch:P+40:440 "));
    any = (struct abi_node){.type = ABI_NODE_COPY};
    any.copy.copy = (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                                    .srcDevice = POOL(0),
                                    .srcXInBytes = 16,
                                    .srcY = 1,
                                    .srcPitch = 256,
                                    .srcHeight = 4,
                                    .dstMemoryType = CU_MEMORYTYPE_HOST,
                                    .dstHost = host,
                                    .dstPitch = 64,
                                    .dstHeight = 2,
                                    .WidthInBytes = 64,
                                    .Height = 2,
                                    .Depth = 2};
    CHECK(cuGraphAddNode, NODE_TYPES, (NULL, (void *)0x91, NULL, 0, &any),
          KEPT("cuGraphAddNode touch:H+0:100 touch:P+110:540 "));
    CHECK(cuGraphMemcpyNodeSetParams, (void *, const void *), ((void *)0x92, NULL), "");
    unsigned calls = the_recorder()->calls;
    fake_pool()->enter_result = CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = CALL(cuGraphAddBatchMemOpNode, NODE_TYPES, NODE_ARGS);
    fake_pool()->enter_result = CUDA_SUCCESS;
    check(result, CUDA_ERROR_OUT_OF_MEMORY, last_name(), NODE_LOG "keep-ends:call ");
    assert_int_equal(the_recorder()->calls, calls);
}

/* Another thread may get the handle as soon as the driver has it back: what it keeps by it is not
 * touched then. */
static void what_ends_lets_go_of_its_handle_before(void **state)
{
    CHECK(cuGraphExecDestroy, (void *), ((void *)0x93), "keep-moves:call:93 keep-ends:call ");
    CHECK(cuGraphDestroy, (void *), ((void *)0x91), "keep-moves:call:91 keep-ends:call ");
    the_recorder()->fail_symbol = (int)SHIM_cuGraphExecDestroy;
    the_recorder()->fail_result = 4242;
    assert_int_equal(CALL(cuGraphExecDestroy, (void *), ((void *)0x93)), 4242);
    the_recorder()->fail_symbol = -1;
    check_log("keep-moves:call:93 keep-moves:93:call ");
}

static void a_refused_operation_does_not_reach_the_driver(void **state)
{
    unsigned calls = the_recorder()->calls;
    fake_pool()->enter_result = CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result =
        CALL(cuLaunchKernel, LAUNCH_TYPES, (FUNCTION, 1, 1, 1, 1, 1, 1, 0, STREAM, PARAMS, NULL));
    fake_pool()->enter_result = CUDA_SUCCESS;
    check(result, CUDA_ERROR_OUT_OF_MEMORY, last_name(),
          "kernel stream=77 cuLaunchKernel params:f1:aa:0 enter leave:2 ");
    assert_int_equal(the_recorder()->calls, calls);
}

static void the_drivers_error_is_the_programs(void **state)
{
    the_recorder()->fail_symbol = (int)SHIM_cuMemsetD8Async;
    the_recorder()->fail_result = CUDA_ERROR_LAUNCH_FAILED;
    CUresult result = CALL(cuMemsetD8Async, (CUdeviceptr, unsigned char, size_t, CUstream),
                           (POOL(0), 1, 8, STREAM));
    the_recorder()->fail_symbol = -1;
    check(result, CUDA_ERROR_LAUNCH_FAILED, "cuMemsetD8Async",
          "set stream=77 cuMemsetD8Async touch:P+0:8 enter leave:719 ");
}

static void copies_touch_both_ends(void **state)
{
#define ROW_TYPES   (CUdeviceptr, CUdeviceptr, size_t)
#define ASYNC_TYPES (CUdeviceptr, CUdeviceptr, size_t, CUstream)
    CHECK(cuMemcpyDtoD_v2, ROW_TYPES, (POOL(0), POOL(0x100), 16),
          OP("copy stream=0 cuMemcpyDtoD_v2", "touch:P+0:10 touch:P+100:10 "));
    CHECK(cuMemcpyDtoD_v2_ptds, ROW_TYPES, (POOL(0), POOL(0x100), 16),
          OP("copy stream=2 cuMemcpyDtoD_v2_ptds", "touch:P+0:10 touch:P+100:10 "));
    CHECK(cuMemcpyDtoDAsync_v2, ASYNC_TYPES, (POOL(0), POOL(0x100), 16, STREAM),
          OP("copy stream=77 cuMemcpyDtoDAsync_v2", "touch:P+0:10 touch:P+100:10 "));
    CHECK(cuMemcpyDtoDAsync_v2_ptsz, ASYNC_TYPES, (POOL(0), POOL(0x100), 16, NULL),
          OP("copy stream=2 cuMemcpyDtoDAsync_v2_ptsz", "touch:P+0:10 touch:P+100:10 "));
    CHECK(cuMemcpyDtoHAsync_v2, ASYNC_TYPES, (HOST(0), POOL(8), 16, STREAM),
          OP("copy stream=77 cuMemcpyDtoHAsync_v2", "touch:H+0:10 touch:P+8:10 "));
    CHECK(cuMemcpyPeerAsync, (CUdeviceptr, void *, CUdeviceptr, void *, size_t, CUstream),
          (POOL(0), (void *)1, POOL(64), (void *)2, 32, STREAM),
          OP("copy stream=77 cuMemcpyPeerAsync", "touch:P+0:20 touch:P+40:20 "));
    CHECK(cuMemcpyDtoA_v2, (void *, size_t, CUdeviceptr, size_t), ((void *)9, 4, POOL(0), 32),
          OP("copy stream=0 cuMemcpyDtoA_v2", "touch:P+0:20 "));
    CHECK(cuMemcpyAtoD_v2, (CUdeviceptr, void *, size_t, size_t), (POOL(0), (void *)9, 4, 32),
          OP("copy stream=0 cuMemcpyAtoD_v2", "touch:P+0:20 "));
}

static void host_memory_is_looked_through(void **state)
{
    CHECK(cuMemcpyHtoD_v2, ROW_TYPES, (POOL(0), HOST(0), 16),
          OP("copy stream=0 cuMemcpyHtoD_v2", "touch:P+0:10 touch:H+0:10 scan:P+0:H+0:10 "));
    CHECK(cuMemcpyHtoDAsync_v2_ptsz, ASYNC_TYPES, (POOL(0), HOST(0), 16, NULL),
          OP("copy stream=2 cuMemcpyHtoDAsync_v2_ptsz",
             "touch:P+0:10 touch:H+0:10 scan:P+0:H+0:10 "));
    CHECK(cuMemcpyAsync, ASYNC_TYPES, (POOL(0), HOST(0), 16, STREAM),
          OP("copy stream=77 cuMemcpyAsync", "touch:P+0:10 touch:H+0:10 scan:P+0:H+0:10 "));
    CHECK(cuMemcpy_ptds, ROW_TYPES, (CARD_MEMORY, HOST(0), 16), /* a module's variable, perhaps */
          OP("copy stream=2 cuMemcpy_ptds",
             "touch:7f0000000000:10 touch:H+0:10 scan:7f0000000000:H+0:10 "));
    CHECK(cuMemcpyWithAttributesAsync, (CUdeviceptr, CUdeviceptr, size_t, void *, CUstream),
          (POOL(0), HOST(0), 16, NULL, STREAM),
          OP("copy stream=77 cuMemcpyWithAttributesAsync",
             "touch:P+0:10 touch:H+0:10 scan:P+0:H+0:10 "));
}

/* The driver takes these, or refuses them; either way reading the source here would be fatal. */
static void what_is_not_host_memory_is_not_read(void **state)
{
    CHECK(cuMemcpyHtoD_v2, ROW_TYPES, (POOL(0), CARD_MEMORY, 16),
          OP("copy stream=0 cuMemcpyHtoD_v2", "touch:P+0:10 touch:7f0000000000:10 "));
    CHECK(cuMemcpyHtoD_v2, ROW_TYPES, (POOL(0), 0, 16),
          OP("copy stream=0 cuMemcpyHtoD_v2", "touch:P+0:10 touch:0:10 "));
    CHECK(cuMemcpyHtoD_v2, ROW_TYPES, (POOL(0), HOST(0), 0),
          OP("copy stream=0 cuMemcpyHtoD_v2", "touch:P+0:0 touch:H+0:0 "));
    CHECK(cuMemcpyHtoD_v2, ROW_TYPES, (POOL(0), UINT64_C(1) << 60, 16),
          OP("copy stream=0 cuMemcpyHtoD_v2", "touch:P+0:10 touch:1000000000000000:10 "));
    CHECK(cuMemcpyHtoD_v2, ROW_TYPES, (POOL(0x10), HOST(0), FAKE_BLOCK), /* beyond the block */
          OP("copy stream=0 cuMemcpyHtoD_v2", "touch:P+10:100000 touch:H+0:100000 "));
}

static void planes_touch_from_first_to_last_row(void **state)
{
    CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = host,
                          .srcPitch = 64,
                          .srcXInBytes = 8,
                          .srcY = 2,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = POOL(0),
                          .dstPitch = 512,
                          .dstXInBytes = 16,
                          .dstY = 1,
                          .WidthInBytes = 32,
                          .Height = 2};
#define PLANE_TYPES       (const CUDA_MEMCPY2D *)
#define PLANE_ASYNC_TYPES (const CUDA_MEMCPY2D *, CUstream)
    CHECK(cuMemcpy2D_v2, PLANE_TYPES, (&copy),
          OP("copy stream=0 cuMemcpy2D_v2",
             "touch:P+210:220 touch:H+88:60 scan:P+210:H+88:20 scan:P+410:H+c8:20 "));
    copy.WidthInBytes = copy.srcPitch = copy.dstPitch = 64; /* whole rows: one piece */
    copy.srcXInBytes = copy.dstXInBytes = copy.srcY = copy.dstY = 0;
    CHECK(cuMemcpy2DUnaligned_v2_ptds, PLANE_TYPES, (&copy),
          OP("copy stream=2 cuMemcpy2DUnaligned_v2_ptds",
             "touch:P+0:80 touch:H+0:80 scan:P+0:H+0:80 "));
    copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    CHECK(cuMemcpy2DAsync_v2, PLANE_ASYNC_TYPES, (&copy, STREAM),
          OP("copy stream=77 cuMemcpy2DAsync_v2", "touch:P+0:80 "));
    copy.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
    copy.srcDevice = POOL(0x1000);
    copy.dstPitch = SIZE_MAX / 2; /* the driver will refuse this */
    copy.Height = 9;
    CHECK(cuMemcpy2DAsync_v2_ptsz, PLANE_ASYNC_TYPES, (&copy, NULL),
          OP("copy stream=2 cuMemcpy2DAsync_v2_ptsz", "touch:P+0 touch:P+1000 "));
    CHECK(cuMemcpy2D_v2, PLANE_TYPES, (NULL), OP("copy stream=0 cuMemcpy2D_v2", ""));
}

static void boxes_touch_from_first_to_last_slice(void **state)
{
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = POOL(0x10000),
                          .srcPitch = 64,
                          .srcHeight = 4,
                          .srcZ = 1,
                          .srcY = 1,
                          .srcXInBytes = 4,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = POOL(0),
                          .dstPitch = 32,
                          .dstHeight = 2,
                          .WidthInBytes = 16,
                          .Height = 2,
                          .Depth = 3};
#define BOX_LOG "touch:P+0:b0 touch:P+10144:250 "
    CHECK(cuMemcpy3D_v2, (const CUDA_MEMCPY3D *), (&copy),
          OP("copy stream=0 cuMemcpy3D_v2", BOX_LOG));
    CHECK(cuMemcpy3DAsync_v2, (const CUDA_MEMCPY3D *, CUstream), (&copy, STREAM),
          OP("copy stream=77 cuMemcpy3DAsync_v2", BOX_LOG));
    CHECK(cuMemcpy3DPeerAsync_ptsz, (const CUDA_MEMCPY3D *, CUstream), (&copy, NULL),
          OP("copy stream=2 cuMemcpy3DPeerAsync_ptsz", BOX_LOG));
    copy.Depth = 0;
    CHECK(cuMemcpy3DPeer, (const CUDA_MEMCPY3D *), (&copy),
          OP("copy stream=0 cuMemcpy3DPeer", "touch:P+0 touch:P+10144 "));
}

static void batches_touch_every_piece(void **state)
{
    CUdeviceptr to[] = {POOL(0), POOL(0x100)}, from[] = {HOST(0), POOL(0x200)};
    size_t bytes[] = {8, 16};
#define BATCH_LOG "touch:P+0:8 touch:H+0:8 scan:P+0:H+0:8 touch:P+100:10 touch:P+200:10 "
    CHECK(cuMemcpyBatchAsync,
          (CUdeviceptr *, CUdeviceptr *, size_t *, size_t, void *, size_t *, size_t, size_t *,
           CUstream),
          (to, from, bytes, 2, (void *)5, (void *)6, 7, (void *)8, STREAM),
          OP("copy stream=77 cuMemcpyBatchAsync", BATCH_LOG));
    const uint64_t rest[] = {2, 5, 6, 7, 8, 0x77};
    for (unsigned i = 0; i < 6; i++) assert_int_equal(argument(3 + i), rest[i]);
#define BATCH_V2_TYPES                                                                             \
    (CUdeviceptr *, CUdeviceptr *, size_t *, size_t, void *, size_t *, size_t, CUstream)
    CHECK(cuMemcpyBatchAsync_v2_ptsz, BATCH_V2_TYPES, (to, from, bytes, 2, NULL, NULL, 0, NULL),
          OP("copy stream=2 cuMemcpyBatchAsync_v2_ptsz", BATCH_LOG));
    CHECK(cuMemcpyBatchAsync_v2, BATCH_V2_TYPES, (NULL, from, bytes, 2, NULL, NULL, 0, STREAM),
          OP("copy stream=77 cuMemcpyBatchAsync_v2", ""));
}

/* CUDA_MEMCPY3D_BATCH_OP, as words: source, destination (type; address, row length, layer height,
 * place), extent, order and flags. */
static void box_batches_touch_every_operand(void **state)
{
    uint64_t boxes[2][14] = {
        {1, POOL(0x1000), 64, 0, 0, 1, POOL(0), 0, 0, 0, 32, 2, 1, 0},
        {2, 0xa55a, 0, 0, 0, 1, POOL(0x2000), 0, 0, 0, 32, 2, 1, 0}, /* from an array */
    };
#define BOXES_LOG "touch:P+0:40 touch:P+1000:60 touch:P+2000 "
    CHECK(cuMemcpy3DBatchAsync, (size_t, void *, size_t *, unsigned long long, CUstream),
          (2, boxes, NULL, 0, STREAM), OP("copy stream=77 cuMemcpy3DBatchAsync", BOXES_LOG));
    CHECK(cuMemcpy3DBatchAsync_v2_ptsz, (size_t, void *, unsigned long long, CUstream),
          (2, boxes, 0, NULL), OP("copy stream=2 cuMemcpy3DBatchAsync_v2_ptsz", BOXES_LOG));
    CHECK(cuMemcpy3DWithAttributesAsync, (void *, unsigned long long, CUstream), (boxes, 0, STREAM),
          OP("copy stream=77 cuMemcpy3DWithAttributesAsync", "touch:P+0:40 touch:P+1000:60 "));
}

static void memsets_touch_what_they_set(void **state)
{
#define CHECK_SET(bits, type, bytes)                                                               \
    CHECK(cuMemsetD##bits##_v2, (CUdeviceptr, type, size_t), (POOL(4), 7, 16),                     \
          OP("set stream=0 cuMemsetD" #bits "_v2", "touch:P+4:" bytes " "));                       \
    CHECK(cuMemsetD##bits##_v2_ptds, (CUdeviceptr, type, size_t), (POOL(4), 7, 16),                \
          OP("set stream=2 cuMemsetD" #bits "_v2_ptds", "touch:P+4:" bytes " "));                  \
    CHECK(cuMemsetD##bits##Async, (CUdeviceptr, type, size_t, CUstream), (POOL(4), 7, 16, STREAM), \
          OP("set stream=77 cuMemsetD" #bits "Async", "touch:P+4:" bytes " "));                    \
    CHECK(cuMemsetD##bits##Async_ptsz, (CUdeviceptr, type, size_t, CUstream),                      \
          (POOL(4), 7, 16, NULL),                                                                  \
          OP("set stream=2 cuMemsetD" #bits "Async_ptsz", "touch:P+4:" bytes " "));
    CHECK_SET(8, unsigned char, "10")
    CHECK_SET(16, unsigned short, "20")
    CHECK_SET(32, unsigned, "40")
#define CHECK_PLANE(bits, type, bytes)                                                             \
    CHECK(cuMemsetD2D##bits##_v2, (CUdeviceptr, size_t, type, size_t, size_t),                     \
          (POOL(4), 512, 7, 8, 3),                                                                 \
          OP("set stream=0 cuMemsetD2D" #bits "_v2", "touch:P+4:" bytes " "));                     \
    CHECK(cuMemsetD2D##bits##Async_ptsz, (CUdeviceptr, size_t, type, size_t, size_t, CUstream),    \
          (POOL(4), 512, 7, 8, 3, NULL),                                                           \
          OP("set stream=2 cuMemsetD2D" #bits "Async_ptsz", "touch:P+4:" bytes " "));
    CHECK_PLANE(8, unsigned char, "408")
    CHECK_PLANE(16, unsigned short, "410")
    CHECK_PLANE(32, unsigned, "420")
    CHECK(cuMemsetD32_v2, (CUdeviceptr, unsigned, size_t), (POOL(0), 7, SIZE_MAX),
          OP("set stream=0 cuMemsetD32_v2", "touch:P+0 "));
}

static void words_touch_their_address(void **state)
{
    CHECK(cuStreamWriteValue32_v2, (CUstream, CUdeviceptr, uint32_t, unsigned),
          (STREAM, POOL(8), 7, 0), OP("set stream=77 cuStreamWriteValue32_v2", "touch:P+8:4 "));
    CHECK(cuStreamWaitValue64_v2_ptsz, (CUstream, CUdeviceptr, uint64_t, unsigned),
          (NULL, POOL(8), 7, 0), OP("set stream=2 cuStreamWaitValue64_v2_ptsz", "touch:P+8:8 "));
    uint64_t words[3][6] = {{2, POOL(0x10)}, {6}, {4, POOL(0x20)}}; /* write, barrier, wait */
    CHECK(cuStreamBatchMemOp_v2, (CUstream, unsigned, void *, unsigned), (STREAM, 3, words, 0),
          OP("set stream=77 cuStreamBatchMemOp_v2", "touch:P+10:4 touch:P+20:8 "));
}

static void captures_and_ends_are_told(void **state)
{
    CHECK(cuStreamBeginCapture_v2, (CUstream, int), (STREAM, 0), "capture:77 ");
    CHECK(cuStreamBeginCapture_ptsz, (CUstream), (NULL), "capture:2 ");
    CHECK(cuStreamEndCapture, (CUstream, CUgraph *), (STREAM, NULL), "captured:77 ");
    the_recorder()->fail_symbol = (int)SHIM_cuStreamBeginCaptureToGraph;
    the_recorder()->fail_result = CUDA_ERROR_INVALID_VALUE;
    CUresult result =
        CALL(cuStreamBeginCaptureToGraph, (CUstream, CUgraph, void *, void *, size_t, int),
             (STREAM, NULL, NULL, NULL, 0, 0));
    the_recorder()->fail_symbol = -1;
    check(result, CUDA_ERROR_INVALID_VALUE, "cuStreamBeginCaptureToGraph",
          "capture:77 captured:77 ");
    CHECK(cuStreamDestroy_v2, (CUstream), (STREAM), "stream-ends:77 ");
    CHECK(cuStreamDestroy_v2, (CUstream), (NULL), "");
    CHECK(cuCtxDestroy_v2, (CUcontext), ((CUcontext)0xd7), "context-ends:d7 ");
}

static CUcontext asked(void)
{
    CUcontext context = NULL;
    assert_int_equal(fake_pool()->driver->cuCtxGetCurrent(&context), CUDA_SUCCESS);
    return context;
}

/* The driver is asked for the thread's context again after each call that may have changed it, and
 * only then. */
static void the_context_is_remembered_between_switches(void **state)
{
    struct recorder *real = the_recorder();
    CUcontext one = (CUcontext)0xd1, out = NULL;
#define SWITCH(symbol, types, args)                                                                \
    do {                                                                                           \
        real->context = (char *)asked() + 1;                                                       \
        assert_ptr_not_equal(asked(), real->context);                                              \
        assert_int_equal(CALL(symbol, types, args), CUDA_SUCCESS);                                 \
        assert_ptr_equal(asked(), real->context);                                                  \
    } while (0)
    SWITCH(cuCtxSetCurrent, (CUcontext), (one));
    SWITCH(cuCtxPushCurrent, (CUcontext), (one));
    SWITCH(cuCtxPushCurrent_v2, (CUcontext), (one));
    SWITCH(cuCtxPopCurrent, (CUcontext *), (&out));
    SWITCH(cuCtxPopCurrent_v2, (CUcontext *), (&out));
    SWITCH(cuCtxAttach, (CUcontext *, unsigned), (&out, 0));
    SWITCH(cuCtxDetach, (CUcontext), (one));
    SWITCH(cuCtxCreate, (CUcontext *, unsigned, CUdevice), (&out, 0, 0));
    SWITCH(cuCtxCreate_v2, (CUcontext *, unsigned, CUdevice), (&out, 0, 0));
    SWITCH(cuCtxCreate_v3, (CUcontext *, void *, int, unsigned, CUdevice), (&out, NULL, 0, 0, 0));
    SWITCH(cuCtxCreate_v4, (CUcontext *, void *, unsigned, CUdevice), (&out, NULL, 0, 0));
    SWITCH(cuGLCtxCreate, (CUcontext *, unsigned, CUdevice), (&out, 0, 0));
    SWITCH(cuGLCtxCreate_v2, (CUcontext *, unsigned, CUdevice), (&out, 0, 0));
    SWITCH(cuVDPAUCtxCreate, (CUcontext *, unsigned, CUdevice, uint32_t, void *),
           (&out, 0, 0, 0, NULL));
    SWITCH(cuVDPAUCtxCreate_v2, (CUcontext *, unsigned, CUdevice, uint32_t, void *),
           (&out, 0, 0, 0, NULL));
    SWITCH(cuCtxDestroy, (CUcontext), (one));
    SWITCH(cuCtxDestroy_v2, (CUcontext), (one));
    real->context = (char *)asked() + 1;
    assert_int_equal(fake_pool()->driver->cuCtxSetCurrent(one), CUDA_SUCCESS); /* the pool itself */
    assert_ptr_equal(asked(), real->context);
}

static int empty_log(void **state)
{
    fake_pool()->log[0] = '\0';
    return 0;
}

#define CASE(name) cmocka_unit_test_setup(name, empty_log)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(launches_touch_their_parameters),
        CASE(unseen_parameters_may_touch_anything),
        CASE(nodes_have_what_they_name_in_their_call),
        CASE(what_ends_lets_go_of_its_handle_before),
        CASE(a_refused_operation_does_not_reach_the_driver),
        CASE(the_drivers_error_is_the_programs),
        CASE(copies_touch_both_ends),
        CASE(host_memory_is_looked_through),
        CASE(what_is_not_host_memory_is_not_read),
        CASE(planes_touch_from_first_to_last_row),
        CASE(boxes_touch_from_first_to_last_slice),
        CASE(batches_touch_every_piece),
        CASE(box_batches_touch_every_operand),
        CASE(memsets_touch_what_they_set),
        CASE(words_touch_their_address),
        CASE(captures_and_ends_are_told),
        CASE(the_context_is_remembered_between_switches),
    };
    return cmocka_run_group_tests(tests, open_pool, NULL);
}
