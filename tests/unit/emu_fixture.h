/* What the emulator's tests share: a small machine, two kernels, and opening and closing around
 * each test. */
#ifndef TESTS_UNIT_EMU_FIXTURE_H
#define TESTS_UNIT_EMU_FIXTURE_H

#include "test.h"

#include <stdio.h>
#include <string.h>

#include "emu/emu.h"

enum { GRANULE = 4096 };

static struct driver cu;
static CUcontext fixture_context;
static CUmodule fixture_module;

static const char fixture_ptx[] =
    ".version 7.0\n.target sm_50\n.address_size 64\n"
    ".visible .entry add_one(.param .u64 to, .param .u32 count) { ret; }\n"
    ".visible .entry move_words(.param .u64 to, .param .u64 from,\n"
    "  .param .u32 count) { ret; }\n";

/* Adds one to each of `count` words: block i does words 256 i … 256 i + 255. */
static inline void add_one(struct emu_block *b)
{
    uint64_t to = emu_param_u64(b, 0), first, last;
    uint32_t count = emu_param_u32(b, 1);
    emu_threads(b, &first, &last);
    for (uint64_t i = first; i < last && i < count; i++)
        emu_store_u32(b, to + 4 * i, emu_load_u32(b, to + 4 * i) + 1);
}

static inline void move_words(struct emu_block *b)
{
    uint64_t to = emu_param_u64(b, 0), from = emu_param_u64(b, 1), first, last;
    uint32_t count = emu_param_u32(b, 2);
    emu_threads(b, &first, &last);
    for (uint64_t i = first; i < last && i < count; i++)
        emu_store_u32(b, to + 4 * i, emu_load_u32(b, from + 4 * i));
}

/* Two cards of 1 MiB and a host of 4 MiB, in granules of 4 KiB; costs are round numbers. */
static inline struct machine fixture_machine(void)
{
    struct machine machine = {.name = "small", .cards = 2, .host_bytes = 4 << 20};
    machine.granularity_bytes = GRANULE;
    machine.address_bytes = UINT64_C(1) << 46;
    for (unsigned from = 0; from <= 2; from++) {
        for (unsigned to = 0; to <= 2; to++) {
            struct machine_path path = {.gbps = 10, .both_gbps = 8, .latency_ns = 1000};
            path.start_ns = 1000;
            path.access = true;
            machine.path[from][to] = path;
        }
    }
    for (unsigned card = 0; card < 2; card++) {
        machine.hbm_bytes[card] = 1 << 20;
        machine.hbm_gbps[card] = 100;
        machine.path[card][card].gbps = 50;
        machine.path[card][card].both_gbps = 50;
    }
    machine.costs.launch.base_ns = 1000;
    machine.costs.copy.base_ns = 1000;
    machine.costs.record.base_ns = 100;
    machine.costs.query.base_ns = 100;
    machine.costs.wait.base_ns = 100;
    machine.costs.map.base_ns = 1000;
    machine.costs.access_card.base_ns = 20000;
    machine.costs.access_host.base_ns = 40000;
    machine.costs.access_busy.base_ns = 1000000;
    machine.costs.unmap_card.base_ns = 10000;
    machine.costs.unmap_host.base_ns = 20000;
    machine.costs.create_card.base_ns = 10000;
    machine.costs.create_host.base_ns = 100000;
    return machine;
}

static inline void fixture_open(uint64_t seed, unsigned threads)
{
    struct machine machine = fixture_machine();
    struct emu_options options = {
        .machine = &machine, .seed = seed, .carry_data = true, .threads = threads};
    assert_int_equal(emu_kernel_register("add_one", add_one, NULL), VP_OK);
    assert_int_equal(emu_kernel_register("move_words", move_words, NULL), VP_OK);
    assert_int_equal(emu_open(&options), VP_OK);
    emu_driver(&cu);
    assert_int_equal(cu.cuInit(0), CUDA_SUCCESS);
    assert_int_equal(cu.cuDevicePrimaryCtxRetain(&fixture_context, 0), CUDA_SUCCESS);
    assert_int_equal(cu.cuCtxSetCurrent(fixture_context), CUDA_SUCCESS);
}

static inline int setup(void **state)
{
    (void)state;
    fixture_open(7, 1);
    return 0;
}

static inline int teardown(void **state)
{
    (void)state;
    emu_close();
    return 0;
}

/* A function that cu.h has but the driver table has not, by name. */
static inline void *call_of(const char *name)
{
    void *function = NULL;
    int found = 0;
    assert_int_equal(cu.cuGetProcAddress_v2(name, &function, 13000, 0, &found), CUDA_SUCCESS);
    assert_non_null(function);
    return function;
}

static inline CUfunction fixture_function(const char *name)
{
    CUresult (*load)(CUmodule *, const void *) =
        (CUresult(*)(CUmodule *, const void *))call_of("cuModuleLoadData");
    CUresult (*get)(CUfunction *, CUmodule, const char *) =
        (CUresult(*)(CUfunction *, CUmodule, const char *))call_of("cuModuleGetFunction");
    CUfunction function;
    if (!cu.library) {
        assert_int_equal(load(&fixture_module, fixture_ptx), CUDA_SUCCESS);
        cu.library = fixture_module;
    }
    assert_int_equal(get(&function, fixture_module, name), CUDA_SUCCESS);
    return function;
}

static inline CUresult launch(CUfunction function, unsigned blocks, CUstream stream, void **params)
{
    CUresult (*call)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                     unsigned, CUstream, void **, void **) = NULL;
    *(void **)&call = call_of("cuLaunchKernel");
    return call(function, blocks, 1, 1, 256, 1, 1, 0, stream, params, NULL);
}

static inline CUmemGenericAllocationHandle make_handle(int place, size_t bytes)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
    CUmemGenericAllocationHandle handle;
    prop.location.type = place == 2 ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = place == 2 ? 0 : place;
    assert_int_equal(cu.cuMemCreate(&handle, bytes, &prop, 0), CUDA_SUCCESS);
    return handle;
}

static inline CUresult grant(CUdeviceptr address, size_t bytes, int card)
{
    CUmemAccessDesc desc = {{CU_MEM_LOCATION_TYPE_DEVICE, card},
                            CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    return cu.cuMemSetAccess(address, bytes, &desc, 1);
}

/* A reservation of one granule a place named, mapped there and open to card 0. */
static inline CUdeviceptr make_mixed(const int *places, unsigned count)
{
    CUdeviceptr address;
    assert_int_equal(cu.cuMemAddressReserve(&address, count * GRANULE, 0, 0, 0), CUDA_SUCCESS);
    for (unsigned i = 0; i < count; i++) {
        CUmemGenericAllocationHandle handle = make_handle(places[i], GRANULE);
        assert_int_equal(cu.cuMemMap(address + i * GRANULE, GRANULE, 0, handle, 0), CUDA_SUCCESS);
        assert_int_equal(cu.cuMemRelease(handle), CUDA_SUCCESS);
    }
    assert_int_equal(grant(address, count * GRANULE, 0), CUDA_SUCCESS);
    return address;
}

static inline void drop_mixed(CUdeviceptr address, unsigned count)
{
    assert_int_equal(cu.cuMemUnmap(address, count * GRANULE), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemAddressFree(address, count * GRANULE), CUDA_SUCCESS);
}

#endif
