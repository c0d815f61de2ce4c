/* Driver calls that fail for memory, through the shim: they are made once more with memory that the
 * pool gives back, no byte is lost, and the pool is as large afterwards as the driver lets it be.
 *
 * The shim is the real one, over the emulator: a card of 32 MiB, blocks of 40 MiB. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "emu/abi_more.h"
#include "shim/exported.h"
#include "vrampool.h"

#define MIB ((size_t)1 << 20)
enum { BLOCKS = 10, BLOCK_MIB = 4 };

static CUdeviceptr block[BLOCKS];
static CUcontext context;
static CUstream stream;

#define RESULT(symbol, types, args) (((CUresult(*) types)shim_function(#symbol))args)
#define CALL(symbol, types, args)   assert_int_equal(RESULT(symbol, types, args), CUDA_SUCCESS)
#define REFUSED(symbol, types, args)                                                               \
    assert_int_equal(RESULT(symbol, types, args), CUDA_ERROR_OUT_OF_MEMORY)

/* ---- The emulator behind the shim ---- */

static void *emulator(const char *name)
{
    void *found = dlsym(dlopen(getenv("VRAMPOOL_DRIVER"), RTLD_NOW), name);
    if (!found) fail_msg("the emulator has no %s", name);
    return found;
}

static void fail_next(const char *symbol)
{
    vp_status (*request)(const char *, uint64_t, CUresult) =
        (vp_status(*)(const char *, uint64_t, CUresult))emulator("emu_fail_call");
    if (request(symbol, 1, CUDA_ERROR_OUT_OF_MEMORY) != VP_OK) fail_msg("no call %s", symbol);
}

static uint64_t calls(const char *symbol)
{
    return ((uint64_t(*)(const char *))emulator("emu_call_count"))(symbol);
}

/* ---- The pool ---- */

static vp_pool *pool(void)
{
    return ((vp_pool * (*)(void)) shim_function("vp_default"))();
}

static vp_stats stats(void)
{
    vp_stats read;
    ((void (*)(vp_pool *, vp_stats *))shim_function("vp_stats_read"))(pool(), &read);
    return read;
}

static uint64_t relief_bytes(void)
{
    return stats().relief_bytes;
}

static uint64_t capacity(unsigned place)
{
    vp_place_info_t info;
    vp_status (*ask)(vp_pool *, unsigned, vp_place_info_t *) =
        (vp_status(*)(vp_pool *, unsigned, vp_place_info_t *))shim_function("vp_place_info");
    assert_int_equal(ask(pool(), place, &info), VP_OK);
    return info.capacity_bytes;
}

/* ---- What must not get lost ---- */

static uint32_t word(unsigned i)
{
    return 0x1000 + 7 * i;
}

/* Every block has been used, so that the card is full. */
static void fill(void)
{
    for (unsigned i = 0; i < BLOCKS; i++)
        CALL(cuMemsetD32_v2, (CUdeviceptr, unsigned, size_t),
             (block[i], word(i), BLOCK_MIB * MIB / 4));
    CALL(cuCtxSynchronize, (void), ());
}

static void check(void)
{
    static uint32_t words[BLOCK_MIB * MIB / 4];
    for (unsigned i = 0; i < BLOCKS; i++) {
        CALL(cuMemcpyDtoH_v2, (void *, CUdeviceptr, size_t), (words, block[i], sizeof words));
        for (size_t k = 0; k < sizeof words / 4; k++) assert_int_equal(words[k], word(i));
    }
}

/* ---- Tests ---- */

#define CREATE_TYPES                                                                               \
    (CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *, unsigned long long)

static CUmemAllocationProp on_card(void)
{
    CUmemAllocationProp prop;
    memset(&prop, 0, sizeof prop);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    return prop;
}

/* Of 32 MiB the pool holds all but a little: 12 can only be had from it. */
static void a_full_card_has_room_for_the_program(void **state)
{
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = on_card();
    uint64_t before = capacity(0);
    fill();
    assert_true(before > 20 * MIB);
    CALL(cuMemCreate, CREATE_TYPES, (&handle, 12 * MIB, &prop, 0));
    assert_true(relief_bytes() >= 8 * MIB);
    assert_true(capacity(0) <= 20 * MIB); /* the driver has the rest */
    assert_true(capacity(0) >= 16 * MIB); /* and no more than that */
    check();
    fill();
    check();
    CALL(cuMemRelease, (CUmemGenericAllocationHandle), (handle));
}

static void in_stream_order_too(void **state)
{
    CUdeviceptr address = 0;
    uint64_t before = capacity(0);
    fill();
    CUmemGenericAllocationHandle rest[16];
    unsigned count = 0; /* whatever else is free: then the pool has to give */
    CUmemAllocationProp prop = on_card();
    CUresult (*create)(CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *,
                       unsigned long long) = (CUresult(*) CREATE_TYPES)emulator("cuMemCreate");
    while (count < 16 && create(&rest[count], 2 * MIB, &prop, 0) == CUDA_SUCCESS) count++;
    CALL(cuMemAllocAsync, (CUdeviceptr *, size_t, CUstream), (&address, 4 * MIB, stream));
    assert_true(capacity(0) < before);
    assert_int_equal(stats().driver_pool_bytes, 4 * MIB);
    CALL(cuMemFreeAsync, (CUdeviceptr, CUstream), (address, stream));
    CALL(cuStreamSynchronize, (CUstream), (stream));
    check();
    while (count) CALL(cuMemRelease, (CUmemGenericAllocationHandle), (rest[--count]));
}

/* What is not there at all is not looked for. */
static void too_much_is_the_drivers_error(void **state)
{
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = on_card();
    fill();
    uint64_t before = capacity(0), given = relief_bytes();
    REFUSED(cuMemCreate, CREATE_TYPES, (&handle, 48 * MIB, &prop, 0));
    assert_int_equal(relief_bytes(), given);
    assert_int_equal(capacity(0), before);
    check();
}

static const char large_module[] = ".version 6.4\n.target sm_75\n.address_size 64\n"
                                   ".visible .global .align 16 .b8 large[29360128];\n";

/* How much a module takes nobody says: what is given for it does not help, and comes back. */
static void what_does_not_help_comes_back(void **state)
{
    CUmodule module = NULL;
    fill();
    uint64_t before = capacity(0), given = relief_bytes(), loads = calls("cuModuleLoadData");
    REFUSED(cuModuleLoadData, (CUmodule *, const void *), (&module, large_module));
    assert_int_equal(calls("cuModuleLoadData"), loads + 2);
    assert_true(relief_bytes() > given);
    assert_int_equal(capacity(0), before);
    check();
}

#define AGAIN(symbol, types, args)                                                                 \
    do {                                                                                           \
        uint64_t before_ = calls(#symbol), given_ = relief_bytes();                                \
        fill();                                                                                    \
        uint64_t filled_ = calls(#symbol);                                                         \
        fail_next(#symbol);                                                                        \
        CALL(symbol, types, args);                                                                 \
        assert_true(calls(#symbol) >= filled_ + 2 && before_ <= filled_);                          \
        if (relief_bytes() == given_) fail_msg("%s: nothing was given", #symbol);                  \
    } while (0)

/* Calls of each kind that the emulator has, and the pool does not make meanwhile: the first time
 * one fails, the program does not notice. */
static void calls_that_fail_once_are_made_again(void **state)
{
    static const char small[] = ".version 6.4\n.target sm_75\n.address_size 64\n";
    CUmodule module;
    CUstream other;
    CUdeviceptr address;
    CUcontext more, popped;
    void *pinned;
    AGAIN(cuModuleLoadData, (CUmodule *, const void *), (&module, small));
    CALL(cuModuleUnload, (CUmodule), (module));
    AGAIN(cuStreamCreate, (CUstream *, unsigned), (&other, 1));
    CALL(cuStreamDestroy_v2, (CUstream), (other));
    AGAIN(cuMemAllocAsync, (CUdeviceptr *, size_t, CUstream), (&address, 4096, stream));
    CALL(cuMemFreeAsync, (CUdeviceptr, CUstream), (address, stream));
    AGAIN(cuMemHostAlloc, (void **, size_t, unsigned), (&pinned, 4096, 0));
    CALL(cuMemFreeHost, (void *), (pinned));
    AGAIN(cuCtxCreate_v4, (CUcontext *, void *, unsigned, CUdevice), (&more, NULL, 0, 0));
    CALL(cuCtxPopCurrent_v2, (CUcontext *), (&popped));
    assert_ptr_equal(popped, more);
    CALL(cuCtxSetCurrent, (CUcontext), (context));
    CALL(cuCtxDestroy_v2, (CUcontext), (more));
    AGAIN(cuMemsetD8Async, (CUdeviceptr, unsigned char, size_t, CUstream),
          (block[3], (unsigned char)word(3), 1, stream));
    CALL(cuStreamSynchronize, (CUstream), (stream));
    check();
}

/* All that the pool may hold is promised: then it keeps what it has, and the driver's error is the
 * program's. Calls later there is room again. */
static void promises_are_kept(void **state)
{
    CUdeviceptr more[64];
    unsigned count = 0;
    CUstream other;
    fill();
    while (count < 64 &&
           RESULT(cuMemAlloc_v2, (CUdeviceptr *, size_t), (&more[count], 2 * MIB)) == CUDA_SUCCESS)
        count++;
    assert_in_range(count, 1, 63);
    uint64_t given = relief_bytes(), made = calls("cuStreamCreate");
    fail_next("cuStreamCreate");
    REFUSED(cuStreamCreate, (CUstream *, unsigned), (&other, 1));
    assert_int_equal(calls("cuStreamCreate"), made + 1);
    assert_int_equal(relief_bytes(), given);
    while (count) CALL(cuMemFree_v2, (CUdeviceptr), (more[--count]));
    AGAIN(cuStreamCreate, (CUstream *, unsigned), (&other, 1));
    CALL(cuStreamDestroy_v2, (CUstream), (other));
    check();
}

static int start(void **state)
{
    CALL(cuInit, (unsigned), (0));
    CALL(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice), (&context, 0));
    CALL(cuCtxSetCurrent, (CUcontext), (context));
    CALL(cuStreamCreate, (CUstream *, unsigned), (&stream, CU_STREAM_NON_BLOCKING));
    for (unsigned i = 0; i < BLOCKS; i++)
        CALL(cuMemAlloc_v2, (CUdeviceptr *, size_t), (&block[i], BLOCK_MIB * MIB));
    return 0;
}

static int finish(void **state)
{
    for (unsigned i = 0; i < BLOCKS; i++) CALL(cuMemFree_v2, (CUdeviceptr), (block[i]));
    CALL(cuStreamDestroy_v2, (CUstream), (stream));
    CALL(cuDevicePrimaryCtxRelease_v2, (CUdevice), (0));
    return 0;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, start, finish)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_full_card_has_room_for_the_program), CASE(in_stream_order_too),
        CASE(too_much_is_the_drivers_error),        CASE(what_does_not_help_comes_back),
        CASE(calls_that_fail_once_are_made_again),  CASE(promises_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
