/* What the cases share. */
#include "suite.h"

CUresult create(enum place place, size_t bytes, CUmemGenericAllocationHandle *handle)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
    bool card = place == ON_CARD || suite.far_card;
    prop.location.type = card ? CU_MEM_LOCATION_TYPE_DEVICE : suite.host_type;
    prop.location.id = place == ON_CARD ? 0 : suite.far_card;
    return cu.cuMemCreate(handle, bytes, &prop, 0);
}

CUresult set_access(CUdeviceptr at, size_t bytes, int flags)
{
    CUmemAccessDesc desc = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, flags};
    return cu.cuMemSetAccess(at, bytes, &desc, 1);
}

static const char *map_new(enum place place, CUdeviceptr at, size_t bytes)
{
    CUmemGenericAllocationHandle handle;
    OK(create(place, bytes, &handle));
    OK(cu.cuMemMap(at, bytes, 0, handle, 0));
    OK(cu.cuMemRelease(handle));
    return NULL;
}

const char *mixed_make(struct mixed *mixed, enum place first)
{
    mixed->bytes = MIXED_GRANULES * suite.granule;
    OK(cu.cuMemAddressReserve(&mixed->at, mixed->bytes, 0, 0, 0));
    for (unsigned i = 0; i < MIXED_GRANULES; i++) {
        enum place place = (i % 2 == 0) == (first == ON_CARD) ? ON_CARD : ON_HOST;
        DO(map_new(place, mixed->at + i * suite.granule, suite.granule));
    }
    OK(set_access(mixed->at, mixed->bytes, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    return NULL;
}

const char *mapped_make(enum place place, size_t bytes, CUdeviceptr *at)
{
    OK(cu.cuMemAddressReserve(at, bytes, 0, 0, 0));
    DO(map_new(place, *at, bytes));
    OK(set_access(*at, bytes, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    return NULL;
}

const char *mapped_drop(CUdeviceptr at, size_t bytes)
{
    OK(cu.cuCtxSynchronize());
    OK(cu.cuMemUnmap(at, bytes));
    OK(cu.cuMemAddressFree(at, bytes));
    return NULL;
}

const char *mixed_drop(const struct mixed *mixed)
{
    return mapped_drop(mixed->at, mixed->bytes);
}

enum { BLOCK_THREADS = 256 };

CUresult run(const char *kernel, size_t threads, CUstream stream, void **params)
{
    CUfunction function;
    CUresult result = cu.cuModuleGetFunction(&function, suite.module, kernel);
    if (result != CUDA_SUCCESS) return result;
    unsigned blocks = (unsigned)((threads + BLOCK_THREADS - 1) / BLOCK_THREADS);
    return cu.cuLaunchKernel(function, blocks, 1, 1, threads == 1 ? 1 : BLOCK_THREADS, 1, 1, 0,
                             stream, params, NULL);
}

CUresult spin_ms(unsigned ms, CUstream stream)
{
    uint64_t ns = ms * UINT64_C(1000000);
    void *params[] = {&ns};
    return run("spin", 1, stream, params);
}

CUresult run_fill(CUdeviceptr to, uint32_t value, size_t words, CUstream stream)
{
    uint32_t count = (uint32_t)words;
    void *params[] = {&to, &value, &count};
    return run("fill", words, stream, params);
}

static uint32_t pattern_word(size_t i, uint32_t seed)
{
    return (uint32_t)i * 2654435761u ^ seed;
}

void pattern_write(void *to, size_t bytes, uint32_t seed)
{
    for (size_t i = 0; i < bytes / 4; i++) ((uint32_t *)to)[i] = pattern_word(i, seed);
}

bool pattern_is(const void *at, size_t bytes, uint32_t seed)
{
    for (size_t i = 0; i < bytes / 4; i++)
        if (((const uint32_t *)at)[i] != pattern_word(i, seed)) return false;
    return true;
}

bool words_are(const uint32_t *at, size_t words, uint32_t value)
{
    for (size_t i = 0; i < words; i++)
        if (at[i] != value) return false;
    return true;
}
