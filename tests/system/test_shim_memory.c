/* Memory, devices and contexts: what the program is told, and what the pool is. */
#include "shim/harness.h"

#include <string.h>

#include "shim/abi.h"

#define POOL(offset) (FAKE_FIRST + (offset))
#define NOT_POOL     UINT64_C(0x7f0000000000)

/* The call ended in the driver's function, with the driver's answer. */
#define CHECK_DRIVERS(symbol, types, args)                                                         \
    do {                                                                                           \
        the_recorder()->fail_symbol = (int)SHIM_##symbol;                                          \
        the_recorder()->fail_result = 4242;                                                        \
        CUresult drivers_ = CALL(symbol, types, args);                                             \
        the_recorder()->fail_symbol = -1;                                                          \
        assert_int_equal(drivers_, 4242);                                                          \
        check_log("");                                                                             \
    } while (0)

static CUdeviceptr alloc(size_t bytes, CUresult expected)
{
    CUdeviceptr address = 0;
    CUresult result = CALL(cuMemAlloc_v2, (CUdeviceptr *, size_t), (&address, bytes));
    assert_int_equal(result, expected);
    return address;
}

static void allocations_come_from_the_pool(void **state)
{
    assert_int_equal(alloc(64, CUDA_SUCCESS), POOL(FAKE_BLOCK));
    check_log("alloc:40 ");
    CUdeviceptr address = 7;
    CHECK_DRIVERS(cuMemAlloc_v2, (CUdeviceptr *, size_t), (&address, 0));
    CHECK_DRIVERS(cuMemAlloc_v2, (CUdeviceptr *, size_t), (NULL, 64));
    fake_pool()->alloc_result = CUDA_ERROR_OUT_OF_MEMORY;
    alloc(64, CUDA_ERROR_OUT_OF_MEMORY);
    check_log("alloc:40 ");
    fake_pool()->alloc_result = CUDA_ERROR_NOT_FOUND; /* a card that is not the pool's */
    alloc(64, CUDA_SUCCESS);
    assert_string_equal(last_name(), "cuMemAlloc_v2");
    fake_pool()->alloc_result = CUDA_SUCCESS;
    check_log("alloc:40 ");
}

static void pitches_are_the_drivers(void **state)
{
#define PITCH_TYPES (CUdeviceptr *, size_t *, size_t, size_t, unsigned)
    CUdeviceptr address;
    size_t pitch = 0;
    assert_int_equal(CALL(cuMemAllocPitch_v2, PITCH_TYPES, (&address, &pitch, 513, 3, 8)),
                     CUDA_SUCCESS);
    assert_int_equal(pitch, 1024);
    check_log("alloc:c00 ");
    CHECK_DRIVERS(cuMemAllocPitch_v2, PITCH_TYPES, (&address, &pitch, 513, 3, 3));
    CHECK_DRIVERS(cuMemAllocPitch_v2, PITCH_TYPES, (&address, &pitch, 0, 3, 8));
    CHECK_DRIVERS(cuMemAllocPitch_v2, PITCH_TYPES, (&address, &pitch, SIZE_MAX, 3, 8));
    CHECK_DRIVERS(cuMemAllocPitch_v2, PITCH_TYPES, (&address, NULL, 513, 3, 8));
}

static void the_pool_frees_its_own(void **state)
{
    assert_int_equal(CALL(cuMemFree_v2, (CUdeviceptr), (POOL(FAKE_BLOCK))), CUDA_SUCCESS);
    check_log("free:P+100000 ");
    assert_int_equal(CALL(cuMemFree_v2, (CUdeviceptr), (POOL(FAKE_BLOCK + 8))),
                     CUDA_ERROR_INVALID_VALUE);
    check_log("free:P+100008 ");
    assert_int_equal(CALL(cuMemFreeAsync_ptsz, (CUdeviceptr, CUstream), (POOL(0), NULL)),
                     CUDA_SUCCESS);
    check_log("free:P+0 ");
    CHECK_DRIVERS(cuMemFreeAsync, (CUdeviceptr, CUstream), (NOT_POOL, NULL));
    CHECK_DRIVERS(cuMemFree_v2, (CUdeviceptr), (NOT_POOL));
    CHECK_DRIVERS(cuMemFree_v2, (CUdeviceptr), (0));
}

static void memory_is_as_large_as_the_pool(void **state)
{
    size_t free_bytes = 0, total = 0;
#define INFO_TYPES (size_t *, size_t *)
    assert_int_equal(CALL(cuMemGetInfo_v2, INFO_TYPES, (&free_bytes, &total)), CUDA_SUCCESS);
    assert_int_equal(free_bytes, (size_t)150 << 30);
    assert_int_equal(total, (size_t)192 << 30);
    total = 0;
    assert_int_equal(CALL(cuMemGetInfo_v2, INFO_TYPES, (NULL, &total)), CUDA_SUCCESS);
    assert_int_equal(total, (size_t)192 << 30);
    unsigned old_free = 0, old_total = 0;
    assert_int_equal(CALL(cuMemGetInfo, (unsigned *, unsigned *), (&old_free, &old_total)),
                     CUDA_SUCCESS);
    assert_int_equal(old_total, UINT32_MAX);
    the_recorder()->context = NULL;
    CHECK_DRIVERS(cuMemGetInfo_v2, INFO_TYPES, (&free_bytes, &total));
    the_recorder()->context = (void *)0xc0;
    assert_int_equal(CALL(cuDeviceTotalMem_v2, (size_t *, CUdevice), (&total, 0)), CUDA_SUCCESS);
    assert_int_equal(total, (size_t)192 << 30);
    assert_int_equal(CALL(cuDeviceTotalMem, (unsigned *, CUdevice), (&old_total, 0)), CUDA_SUCCESS);
    assert_int_equal(old_total, UINT32_MAX);
}

static void ranges_are_blocks(void **state)
{
    CUdeviceptr base = 0;
    size_t bytes = 0;
#define RANGE_TYPES (CUdeviceptr *, size_t *, CUdeviceptr)
    assert_int_equal(CALL(cuMemGetAddressRange_v2, RANGE_TYPES, (&base, &bytes, POOL(0x180000))),
                     CUDA_SUCCESS);
    assert_int_equal(base, POOL(FAKE_BLOCK));
    assert_int_equal(bytes, FAKE_BLOCK);
    assert_int_equal(CALL(cuMemGetAddressRange_v2, RANGE_TYPES, (NULL, NULL, POOL(0))),
                     CUDA_SUCCESS);
    CHECK_DRIVERS(cuMemGetAddressRange_v2, RANGE_TYPES, (&base, &bytes, NOT_POOL));
}

/* Values and sizes are those of driver 580 for memory from cuMemAlloc, but for what sharing it
 * would take. */
static void attributes_are_those_of_device_memory(void **state)
{
    static const struct {
        int attribute;
        size_t bytes;
        uint64_t value;
    } rows[] = {
        {CU_POINTER_ATTRIBUTE_CONTEXT, 8, 0xc0},
        {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 4, CU_MEMORYTYPE_DEVICE},
        {CU_POINTER_ATTRIBUTE_DEVICE_POINTER, 8, POOL(0x100008)},
        {CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, 4, 1},
        {CU_POINTER_ATTRIBUTE_BUFFER_ID, 8, 78}, /* the block's number */
        {CU_POINTER_ATTRIBUTE_IS_MANAGED, 4, 0},
        {CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, 4, 0},
        {CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, 4, 0},
        {CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, 8, POOL(FAKE_BLOCK)},
        {CU_POINTER_ATTRIBUTE_RANGE_SIZE, 8, FAKE_BLOCK},
        {CU_POINTER_ATTRIBUTE_MAPPED, 4, 1},
        {CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, 8, 0},
        {CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, 4, 0},
        {CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, 4, CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
        {CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, 8, 0},
        {CU_POINTER_ATTRIBUTE_MAPPING_SIZE, 8, FAKE_BLOCK},
        {CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, 8, POOL(FAKE_BLOCK)},
    };
#define ATTRIBUTE_TYPES (void *, int, CUdeviceptr)
    CUcontext context;
    assert_int_equal(CALL(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice), (&context, 0)),
                     CUDA_SUCCESS);
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        unsigned char data[16], expected[16];
        memset(data, 0xaa, sizeof data);
        memset(expected, 0xaa, sizeof expected);
        memcpy(expected, &rows[i].value, rows[i].bytes);
        CUresult result =
            CALL(cuPointerGetAttribute, ATTRIBUTE_TYPES, (data, rows[i].attribute, POOL(0x100008)));
        assert_int_equal(result, CUDA_SUCCESS);
        assert_memory_equal(data, expected, sizeof data);
    }
    uint64_t data = 1;
    assert_int_equal(CALL(cuPointerGetAttribute, ATTRIBUTE_TYPES,
                          (&data, CU_POINTER_ATTRIBUTE_HOST_POINTER, POOL(0))),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(CALL(cuPointerGetAttribute, ATTRIBUTE_TYPES, (&data, 99, POOL(0))),
                     CUDA_ERROR_INVALID_VALUE);
    int on = 1;
    assert_int_equal(CALL(cuPointerSetAttribute, ATTRIBUTE_TYPES,
                          (&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, POOL(0))),
                     CUDA_SUCCESS);
    CHECK_DRIVERS(cuPointerSetAttribute, ATTRIBUTE_TYPES,
                  (&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, NOT_POOL));
    CHECK_DRIVERS(cuPointerGetAttribute, ATTRIBUTE_TYPES, (NULL, 2, POOL(0)));
    CHECK_DRIVERS(cuPointerGetAttribute, ATTRIBUTE_TYPES, (&data, 2, NOT_POOL));
}

static void attributes_come_by_the_list(void **state)
{
    unsigned type = 0;
    void *host_pointer = (void *)1;
    int attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_HOST_POINTER, 99};
    void *data[] = {&type, &host_pointer, &type};
#define LIST_TYPES (unsigned, int *, void **, CUdeviceptr)
    assert_int_equal(CALL(cuPointerGetAttributes, LIST_TYPES, (2, attributes, data, POOL(0))),
                     CUDA_SUCCESS);
    assert_int_equal(type, CU_MEMORYTYPE_DEVICE);
    assert_null(host_pointer);
    assert_int_equal(CALL(cuPointerGetAttributes, LIST_TYPES, (3, attributes, data, POOL(0))),
                     CUDA_ERROR_INVALID_VALUE);
    CHECK_DRIVERS(cuPointerGetAttributes, LIST_TYPES, (0, attributes, data, POOL(0)));
    CHECK_DRIVERS(cuPointerGetAttributes, LIST_TYPES, (2, attributes, data, NOT_POOL));
}

static void advice_is_the_pools(void **state)
{
    CUmemLocation host = {CU_MEM_LOCATION_TYPE_HOST, 0}, card = {CU_MEM_LOCATION_TYPE_DEVICE, 1};
#define PREFETCH_TYPES    (CUdeviceptr, size_t, int, CUstream)
#define PREFETCH_V2_TYPES (CUdeviceptr, size_t, CUmemLocation, unsigned, CUstream)
    assert_int_equal(CALL(cuMemPrefetchAsync, PREFETCH_TYPES, (POOL(0), 64, 1, NULL)),
                     CUDA_SUCCESS);
    check_log("prefetch:P+0:40:1 ");
    assert_int_equal(CALL(cuMemPrefetchAsync_ptsz, PREFETCH_TYPES, (POOL(0), 64, -1, NULL)),
                     CUDA_SUCCESS);
    check_log("prefetch:P+0:40:2 ");
    assert_int_equal(CALL(cuMemPrefetchAsync_v2, PREFETCH_V2_TYPES, (POOL(0), 64, host, 0, NULL)),
                     CUDA_SUCCESS);
    check_log("prefetch:P+0:40:2 ");
    assert_int_equal(CALL(cuMemPrefetchAsync, PREFETCH_TYPES, (POOL(0), 64, 5, NULL)),
                     CUDA_ERROR_INVALID_DEVICE);
    CHECK_DRIVERS(cuMemPrefetchAsync, PREFETCH_TYPES, (NOT_POOL, 64, 0, NULL));
    CHECK_DRIVERS(cuMemPrefetchAsync_v2_ptsz, PREFETCH_V2_TYPES, (NOT_POOL, 64, card, 0, NULL));
    assert_int_equal(
        CALL(cuMemAdvise_v2, (CUdeviceptr, size_t, int, CUmemLocation), (POOL(0), 64, 3, card)),
        CUDA_SUCCESS);
    check_log("advise:P+0:40:0:1 ");
    assert_int_equal(CALL(cuMemAdvise, (CUdeviceptr, size_t, int, int), (POOL(0), 64, 1, 0)),
                     CUDA_SUCCESS);
    check_log("advise:P+0:40:2:0 ");
    assert_int_equal(CALL(cuMemAdvise, (CUdeviceptr, size_t, int, int), (POOL(0), 64, 99, 0)),
                     CUDA_ERROR_INVALID_VALUE);
    CHECK_DRIVERS(cuMemAdvise, (CUdeviceptr, size_t, int, int), (NOT_POOL, 64, 1, 0));
}

static void what_pins_memory_is_refused(void **state)
{
    char handle[64];
#define IPC_TYPES (void *, CUdeviceptr)
    assert_int_equal(CALL(cuIpcGetMemHandle, IPC_TYPES, (handle, POOL(0))),
                     CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(CALL(cuMemRetainAllocationHandle, IPC_TYPES, (handle, POOL(0))),
                     CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(CALL(cuMemGetHandleForAddressRange,
                          (void *, CUdeviceptr, size_t, int, unsigned long long),
                          (handle, POOL(0), 64, 1, 0)),
                     CUDA_ERROR_NOT_SUPPORTED);
#define BIND_TYPES (unsigned long long, size_t, CUdeviceptr, size_t, unsigned long long)
    assert_int_equal(CALL(cuMulticastBindAddr, BIND_TYPES, (1, 0, POOL(0), 64, 0)),
                     CUDA_ERROR_NOT_SUPPORTED);
#define BIND_MEM_TYPES                                                                             \
    (unsigned long long, size_t, unsigned long long, size_t, size_t, unsigned long long)
    assert_int_equal(CALL(cuMulticastBindMem, BIND_MEM_TYPES, (1, 0, POOL(0), 0, 64, 0)),
                     CUDA_ERROR_NOT_SUPPORTED);
    CHECK_DRIVERS(cuMulticastBindMem, BIND_MEM_TYPES, (1, 0, NOT_POOL, 0, 64, 0));
    CHECK_DRIVERS(cuMulticastBindAddr, BIND_TYPES, (1, 0, NOT_POOL, 64, 0));
    CHECK_DRIVERS(cuIpcGetMemHandle, IPC_TYPES, (handle, NOT_POOL));
    CHECK_DRIVERS(cuMemRetainAllocationHandle, IPC_TYPES, (handle, NOT_POOL));
}

/* Of what XLA has freed, or never had, the driver may find the pool's own mapping. */
static void what_is_no_mapping_of_the_programs_is_wrong(void **state)
{
#define CHECK_WRONG(symbol, types, args)                                                           \
    do {                                                                                           \
        unsigned calls_ = the_recorder()->calls;                                                   \
        assert_int_equal(CALL(symbol, types, args), CUDA_ERROR_INVALID_VALUE);                     \
        assert_int_equal(the_recorder()->calls, calls_);                                           \
    } while (0)
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, 3};
    CUmemAllocationProp prop;
    char shared[64];
    CHECK_WRONG(cuMemRelease, (unsigned long long), (POOL(0)));
    CHECK_WRONG(cuMemUnmap, (CUdeviceptr, size_t), (POOL(0), 64));
    CHECK_WRONG(cuMemAddressFree, (CUdeviceptr, size_t), (POOL(0), 64));
    CHECK_WRONG(cuMemGetAllocationPropertiesFromHandle, (void *, unsigned long long),
                (&prop, POOL(0)));
    CHECK_WRONG(cuMemExportToShareableHandle, (void *, unsigned long long, int, unsigned long long),
                (shared, POOL(0), 1, 0));
#define MAP_TYPES (CUdeviceptr, size_t, size_t, unsigned long long, unsigned long long)
    CHECK_WRONG(cuMemMap, MAP_TYPES, (POOL(0), 64, 0, 9, 0));
    CHECK_WRONG(cuMemMap, MAP_TYPES, (NOT_POOL, 64, 0, POOL(0), 0));
    CHECK_WRONG(cuMemSetAccess, (CUdeviceptr, size_t, const void *, size_t),
                (POOL(0), 64, &access, 1));
    CHECK_DRIVERS(cuMemUnmap, (CUdeviceptr, size_t), (NOT_POOL, 64));
    CHECK_DRIVERS(cuMemRelease, (unsigned long long), (9));
}

static void cards_that_lend_are_hidden(void **state)
{
    the_recorder()->cards = 8; /* and one computes, by default */
    int count = 0;
    CUdevice device = -1;
    assert_int_equal(CALL(cuDeviceGetCount, (int *), (&count)), CUDA_SUCCESS);
    assert_int_equal(count, 1);
    assert_int_equal(CALL(cuDeviceGet, (CUdevice *, int), (&device, 0)), CUDA_SUCCESS);
    assert_int_equal(CALL(cuDeviceGet, (CUdevice *, int), (&device, 1)), CUDA_ERROR_INVALID_DEVICE);
    assert_int_equal(CALL(cuDeviceGetByPCIBusId, (CUdevice *, const char *), (&device, "0")),
                     CUDA_SUCCESS);
    assert_int_equal(CALL(cuDeviceGetByPCIBusId, (CUdevice *, const char *), (&device, "3")),
                     CUDA_ERROR_INVALID_DEVICE);
    assert_int_equal(device, 0);
    size_t total = 5;
    assert_int_equal(CALL(cuDeviceTotalMem_v2, (size_t *, CUdevice), (&total, 3)),
                     CUDA_ERROR_INVALID_DEVICE);
    assert_int_equal(total, 5);
}

#define DESTROY(context) CALL(cuCtxDestroy_v2, (CUcontext), ((CUcontext)(context)))
#define RELEASE()        CALL(cuDevicePrimaryCtxRelease_v2, (CUdevice), (0))

/* The pool stands on 0xc0, which is also card 0's primary context, retained once above. */
static void a_pool_ends_with_its_context(void **state)
{
    CUcontext context;
    assert_int_equal(DESTROY(0xd7), CUDA_SUCCESS); /* another context: the pool goes on */
    check_log("context-ends:d7 ");
    assert_int_equal(DESTROY(0xc0), CUDA_SUCCESS); /* the driver refuses this for a primary one */
    check_log("");
    assert_int_equal(CALL(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice), (&context, 0)),
                     CUDA_SUCCESS);
    assert_int_equal(RELEASE(), CUDA_SUCCESS);
    check_log("");
    assert_int_equal(RELEASE(), CUDA_SUCCESS); /* the last reference */
    check_log("close ");
    assert_string_equal(last_name(), "cuDevicePrimaryCtxRelease_v2");
    CHECK_DRIVERS(cuDevicePrimaryCtxRelease_v2, (CUdevice), (0)); /* one too many */
    assert_int_equal(fake_pool()->closed, 1);

    alloc(64, CUDA_SUCCESS); /* the next allocation opens another pool */
    check_log("alloc:40 ");
    assert_int_equal(fake_pool()->opened, 2);
    assert_int_equal(CALL(cuDevicePrimaryCtxReset_v2, (CUdevice), (0)), CUDA_SUCCESS);
    check_log("close ");
    assert_string_equal(last_name(), "cuDevicePrimaryCtxReset_v2");
}

static void unloading_forgets_functions(void **state)
{
    alloc(64, CUDA_SUCCESS);
    check_log("alloc:40 ");
    assert_int_equal(CALL(cuModuleUnload, (void *), ((void *)9)), CUDA_SUCCESS);
    check_log("functions-end ");
    assert_int_equal(CALL(cuLibraryUnload, (void *), ((void *)9)), CUDA_SUCCESS);
    check_log("functions-end ");
    CHECK_DRIVERS(cuModuleUnload, (void *), (NULL));
}

/* A texture over the pool's memory keeps it, from the call that makes it on. */
static void textures_keep_what_they_view(void **state)
{
#define TEXTURE_TYPES (uint64_t *, const void *, const void *, const void *)
    uint64_t object = 0x7e;
    struct abi_resource what = {.type = ABI_RESOURCE_LINE, .address = POOL(64)};
    alloc(64, CUDA_SUCCESS);
    fake_pool()->log[0] = '\0';
    assert_int_equal(CALL(cuTexObjectCreate, TEXTURE_TYPES, (&object, &what, NULL, NULL)),
                     CUDA_SUCCESS);
    assert_string_equal(last_name(), "cuTexObjectCreate");
    check_log("graph stream=0 cuTexObjectCreate touch:P+40 keep:call keep-copies:7e:call "
              "keep-ends:call ");
    assert_int_equal(CALL(cuTexObjectDestroy, (uint64_t), (object)), CUDA_SUCCESS);
    check_log("keep-moves:call:7e keep-ends:call ");
    the_recorder()->fail_symbol = (int)SHIM_cuTexObjectDestroy;
    the_recorder()->fail_result = 4242;
    assert_int_equal(CALL(cuTexObjectDestroy, (uint64_t), (object)), 4242);
    the_recorder()->fail_symbol = -1;
    check_log("keep-moves:call:7e keep-moves:7e:call "); /* it lives on */

    what.address = NOT_POOL;
    CHECK_DRIVERS(cuTexObjectCreate, TEXTURE_TYPES, (&object, &what, NULL, NULL));
    what = (struct abi_resource){.type = 0, .address = POOL(64)}; /* an array's handle */
    CHECK_DRIVERS(cuTexObjectCreate, TEXTURE_TYPES, (&object, &what, NULL, NULL));
    CHECK_DRIVERS(cuTexObjectCreate, TEXTURE_TYPES, (&object, NULL, NULL, NULL));
    /* What cannot be brought within reach cannot be viewed. */
    what = (struct abi_resource){.type = ABI_RESOURCE_PLANE, .address = POOL(64)};
    fake_pool()->enter_result = CUDA_ERROR_OUT_OF_MEMORY;
    assert_int_equal(CALL(cuTexObjectCreate, TEXTURE_TYPES, (&object, &what, NULL, NULL)),
                     CUDA_ERROR_OUT_OF_MEMORY);
    fake_pool()->enter_result = CUDA_SUCCESS;
    fake_pool()->log[0] = '\0';
}

static void references_keep_what_they_are_bound_to(void **state)
{
#define LINE_TYPES  (size_t *, void *, CUdeviceptr, size_t)
#define PLANE_TYPES (void *, const void *, CUdeviceptr, size_t)
    size_t offset;
    assert_int_equal(CALL(cuTexRefSetAddress_v2, LINE_TYPES, (&offset, (void *)0x7f, POOL(64), 64)),
                     CUDA_SUCCESS);
    check_log("keep-moves:call:7f graph stream=0 cuTexRefSetAddress_v2 touch:P+40 keep:7f "
              "keep-ends:call ");
    /* What cannot be bound leaves it bound as it was. */
    the_recorder()->fail_symbol = (int)SHIM_cuTexRefSetAddress_v2;
    the_recorder()->fail_result = 4242;
    assert_int_equal(CALL(cuTexRefSetAddress_v2, LINE_TYPES, (&offset, (void *)0x7f, POOL(64), 64)),
                     4242);
    the_recorder()->fail_symbol = -1;
    check_log("keep-moves:call:7f graph stream=0 cuTexRefSetAddress_v2 touch:P+40 keep:7f "
              "keep-ends:7f keep-moves:7f:call ");
    assert_int_equal(
        CALL(cuTexRefSetAddress2D_v3, PLANE_TYPES, ((void *)0x7f, &offset, NOT_POOL, 64)),
        CUDA_SUCCESS);
    check_log("keep-moves:call:7f keep-ends:call ");
}

static int start(void **state)
{
    start_program();
    return 0;
}

#define CASE(name) cmocka_unit_test(name)

int main(void)
{
    setenv("VRAMPOOL_LOG", "quiet", 1); /* refusals are part of these tests */
    const struct CMUnitTest tests[] = {
        CASE(allocations_come_from_the_pool),
        CASE(pitches_are_the_drivers),
        CASE(the_pool_frees_its_own),
        CASE(memory_is_as_large_as_the_pool),
        CASE(ranges_are_blocks),
        CASE(attributes_are_those_of_device_memory),
        CASE(attributes_come_by_the_list),
        CASE(advice_is_the_pools),
        CASE(what_pins_memory_is_refused),
        CASE(what_is_no_mapping_of_the_programs_is_wrong),
        CASE(cards_that_lend_are_hidden),
        CASE(a_pool_ends_with_its_context),
        CASE(unloading_forgets_functions),
        CASE(textures_keep_what_they_view),
        CASE(references_keep_what_they_are_bound_to),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
