/* The rules of reservations, handles, mappings and access. */
#include "suite.h"

#define G       suite.granule
#define RW      CU_MEM_ACCESS_FLAGS_PROT_READWRITE
#define INVALID CUDA_ERROR_INVALID_VALUE

const char *case_map_sizes(void)
{
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
    size_t granule = 0;
    prop.location.type = suite.host_type;
    OK(cu.cuMemGetAllocationGranularity(&granule, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    CHECK(granule > 0 && (granule & (granule - 1)) == 0);
    CHECK(G > 0 && (G & (G - 1)) == 0 && granule <= G);
    note("granule of the card %zu, of the host %zu", G, granule);
    EXPECT(INVALID, create(ON_CARD, G / 2, &handle));
    EXPECT(INVALID, create(ON_CARD, G + 4096 / 2, &handle));
    EXPECT(INVALID, create(ON_CARD, 0, &handle));
    EXPECT(INVALID, create(ON_HOST, granule + 8, &handle));
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = 999;
    REFUSED(cu.cuMemCreate(&handle, G, &prop, 0));
    REFUSED(cu.cuMemCreate(&handle, G, NULL, 0));
    return NULL;
}

const char *case_map_arguments(void)
{
    CUmemGenericAllocationHandle two;
    CUdeviceptr at;
    OK(create(ON_CARD, 2 * G, &two));
    OK(cu.cuMemAddressReserve(&at, 4 * G, 0, 0, 0));
    EXPECT(CUDA_ERROR_NOT_SUPPORTED, cu.cuMemMap(at, G, G, two, 0)); /* an offset */
    EXPECT(CUDA_ERROR_NOT_SUPPORTED, cu.cuMemMap(at, G, 0, two, 0)); /* a part of the handle */
    REFUSED(cu.cuMemMap(at, 4 * G, 0, two, 0));                      /* more than the handle */
    REFUSED(cu.cuMemMap(at + G / 2, 2 * G, 0, two, 0));
    REFUSED(cu.cuMemMap(at, 2 * G, 0, two, 1)); /* flags */
    /* Over the reservation's end: not asked. The driver takes it where the range behind is its own.
     */
    OK(cu.cuMemMap(at + 2 * G, 2 * G, 0, two, 0));
    OK(cu.cuMemUnmap(at + 2 * G, 2 * G));
    OK(cu.cuMemRelease(two));
    OK(cu.cuMemAddressFree(at, 4 * G));
    return NULL;
}

const char *case_map_taken(void)
{
    CUmemGenericAllocationHandle a, b;
    CUdeviceptr at;
    OK(create(ON_CARD, G, &a));
    OK(create(ON_HOST, G, &b));
    OK(cu.cuMemAddressReserve(&at, 2 * G, 0, 0, 0));
    OK(cu.cuMemMap(at, G, 0, a, 0));
    REFUSED(cu.cuMemMap(at, G, 0, b, 0));
    REFUSED(cu.cuMemMap(at, G, 0, a, 0));
    REFUSED(cu.cuMemAddressFree(at, 2 * G)); /* something is mapped in it */
    OK(cu.cuMemMap(at + G, G, 0, b, 0));
    OK(cu.cuMemUnmap(at, 2 * G));
    OK(cu.cuMemMap(at, G, 0, b, 0)); /* and again, the other way round */
    OK(cu.cuMemUnmap(at, G));
    OK(cu.cuMemRelease(a));
    OK(cu.cuMemRelease(b));
    OK(cu.cuMemAddressFree(at, 2 * G));
    return NULL;
}

const char *case_unmap_whole_mappings(void)
{
    CUmemGenericAllocationHandle a, b, c;
    CUdeviceptr at;
    OK(create(ON_CARD, 2 * G, &a));
    OK(create(ON_HOST, G, &b));
    OK(create(ON_CARD, G, &c));
    OK(cu.cuMemAddressReserve(&at, 6 * G, 0, 0, 0));
    OK(cu.cuMemUnmap(at, G)); /* nothing there: nothing to do */
    OK(cu.cuMemMap(at, 2 * G, 0, a, 0));
    OK(cu.cuMemMap(at + 2 * G, G, 0, b, 0));
    OK(cu.cuMemMap(at + 4 * G, G, 0, c, 0));
    EXPECT(INVALID, cu.cuMemUnmap(at, G));         /* the first half of one */
    EXPECT(INVALID, cu.cuMemUnmap(at + G, G));     /* the second half */
    EXPECT(INVALID, cu.cuMemUnmap(at + G, 2 * G)); /* half of one and another */
    EXPECT(INVALID, cu.cuMemUnmap(at + 4 * G, G / 2));
    OK(set_access(at, 3 * G, RW)); /* all is still there */
    OK(cu.cuMemUnmap(at, 5 * G));  /* two that adjoin, a hole, another */
    REFUSED(set_access(at, G, RW));
    REFUSED(set_access(at + 4 * G, G, RW));
    OK(cu.cuMemUnmap(at, 7 * G)); /* not even the reservation's end matters */
    OK(cu.cuMemRelease(a));
    OK(cu.cuMemRelease(b));
    OK(cu.cuMemRelease(c));
    OK(cu.cuMemAddressFree(at, 6 * G));
    return NULL;
}

const char *case_access_spans_mappings(void)
{
    CUmemGenericAllocationHandle a, b, c;
    CUdeviceptr at;
    OK(create(ON_CARD, 2 * G, &a));
    OK(create(ON_HOST, G, &b));
    OK(create(ON_CARD, G, &c));
    OK(cu.cuMemAddressReserve(&at, 5 * G, 0, 0, 0));
    REFUSED(set_access(at, G, RW)); /* nothing mapped */
    OK(cu.cuMemMap(at, 2 * G, 0, a, 0));
    OK(cu.cuMemMap(at + 2 * G, G, 0, b, 0));
    OK(cu.cuMemMap(at + 4 * G, G, 0, c, 0));
    OK(set_access(at, 3 * G, RW));                      /* several at once */
    OK(set_access(at, 5 * G, RW));                      /* a hole is passed over */
    EXPECT(INVALID, set_access(at + 3 * G, 2 * G, RW)); /* unless it begins there */
    OK(set_access(at + 2 * G, G, RW));                  /* one of several */
    OK(set_access(at + 4 * G, G, RW));
    OK(run_fill(at, 7, 3 * G / 4, NULL));
    OK(run_fill(at + 4 * G, 7, G / 4, NULL));
    OK(cu.cuCtxSynchronize());
    EXPECT(INVALID, set_access(at, G, RW)); /* halves of a mapping */
    EXPECT(INVALID, set_access(at + G, G, RW));
    EXPECT(INVALID, set_access(at + G, 2 * G, RW));
    OK(cu.cuMemUnmap(at, 3 * G));
    OK(cu.cuMemUnmap(at + 4 * G, G));
    OK(cu.cuMemRelease(a));
    OK(cu.cuMemRelease(b));
    OK(cu.cuMemRelease(c));
    OK(cu.cuMemAddressFree(at, 5 * G));
    return NULL;
}

const char *case_access_flags(void)
{
    CUdeviceptr at;
    CUmemLocation card = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    CUmemAccessDesc desc = {{CU_MEM_LOCATION_TYPE_DEVICE, 999}, RW};
    unsigned long long flags = 99;
    DO(mapped_make(ON_CARD, G, &at));
    OK(cu.cuMemGetAccess(&flags, &card, at));
    CHECK(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    OK(set_access(at, G, CU_MEM_ACCESS_FLAGS_PROT_NONE));
    OK(cu.cuMemGetAccess(&flags, &card, at));
    CHECK(flags == CU_MEM_ACCESS_FLAGS_PROT_NONE);
    OK(set_access(at, G, RW));
    REFUSED(cu.cuMemSetAccess(at, G, &desc, 1));
    REFUSED(cu.cuMemSetAccess(at, G, NULL, 1));
    REFUSED(set_access(at, G, 2));
    OK(cu.cuMemGetAccess(&flags, &card, at));
    CHECK(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    return mapped_drop(at, G);
}

const char *case_reservations(void)
{
    CUdeviceptr a, b, huge;
    REFUSED(cu.cuMemAddressReserve(&a, G + 1, 0, 0, 0));
    REFUSED(cu.cuMemAddressReserve(&a, 0, 0, 0, 0));
    OK(cu.cuMemAddressReserve(&a, 2 * G, 0, 0, 0));
    CHECK(a % G == 0);
    REFUSED(cu.cuMemAddressFree(a, G)); /* a part */
    REFUSED(cu.cuMemAddressFree(a + G, G));
    OK(cu.cuMemAddressReserve(&b, G, 16 * G, 0, 0));
    CHECK(b % (16 * G) == 0);
    OK(cu.cuMemAddressFree(a, 2 * G));
    REFUSED(cu.cuMemAddressFree(a, 2 * G));
    OK(cu.cuMemAddressFree(b, G));
    OK(cu.cuMemAddressReserve(&huge, (size_t)1 << 40, 0, 0, 0));
    OK(cu.cuMemAddressFree(huge, (size_t)1 << 40));
    OK(cu.cuMemAddressReserve(&b, G, 0, huge, 0)); /* a hint that is free */
    note("hint %s", b == huge ? "taken" : "not taken");
    OK(cu.cuMemAddressFree(b, G));
    return NULL;
}

const char *case_release_keeps_mapped_memory(void)
{
    CUmemGenericAllocationHandle handle, again;
    CUdeviceptr at;
    uint32_t word = 0;
    OK(create(ON_CARD, G, &handle));
    OK(cu.cuMemAddressReserve(&at, G, 0, 0, 0));
    OK(cu.cuMemMap(at, G, 0, handle, 0));
    OK(cu.cuMemRelease(handle));
    OK(set_access(at, G, RW));
    OK(run_fill(at, 42, G / 4, NULL));
    OK(cu.cuMemcpyDtoH_v2(&word, at + G - 4, 4));
    CHECK(word == 42);
    OK(cu.cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(at + 8)));
    OK(cu.cuMemUnmap(at, G));
    OK(cu.cuMemMap(at, G, 0, again, 0)); /* retained: it outlives the mapping, data and all */
    OK(set_access(at, G, RW));
    word = 0;
    OK(cu.cuMemcpyDtoH_v2(&word, at, 4));
    CHECK(word == 42);
    OK(cu.cuMemRelease(again));
    return mapped_drop(at, G);
}

const char *case_handles(void)
{
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop;
    CUdeviceptr at;
    int type = suite.far_card ? CU_MEM_LOCATION_TYPE_DEVICE : suite.host_type;
    OK(create(ON_HOST, G, &handle));
    OK(cu.cuMemGetAllocationPropertiesFromHandle(&prop, handle));
    CHECK(prop.location.type == type && prop.type == CU_MEM_ALLOCATION_TYPE_PINNED);
    OK(cu.cuMemRelease(handle));
    OK(cu.cuMemAddressReserve(&at, G, 0, 0, 0));
    OK(cu.cuMemAddressFree(at, G)); /* to use a dead handle is no error everywhere: a crash */
    REFUSED(cu.cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)at));
    return NULL;
}

static const char *alias_of(enum place place)
{
    CUmemGenericAllocationHandle handle;
    CUdeviceptr a, b;
    uint32_t word = 0;
    OK(create(place, G, &handle));
    OK(cu.cuMemAddressReserve(&a, G, 0, 0, 0));
    OK(cu.cuMemAddressReserve(&b, G, 0, 0, 0));
    OK(cu.cuMemMap(a, G, 0, handle, 0));
    OK(cu.cuMemMap(b, G, 0, handle, 0));
    OK(set_access(a, G, RW));
    OK(set_access(b, G, RW));
    OK(run_fill(a, 11, G / 4, NULL));
    OK(cu.cuMemcpyDtoH_v2(&word, b + G - 4, 4));
    CHECK(word == 11);
    OK(cu.cuMemUnmap(a, G)); /* the other stays */
    OK(run_fill(b, 12, G / 4, NULL));
    OK(cu.cuMemcpyDtoH_v2(&word, b, 4));
    CHECK(word == 12);
    OK(cu.cuMemUnmap(b, G));
    OK(cu.cuMemRelease(handle));
    OK(cu.cuMemAddressFree(a, G));
    OK(cu.cuMemAddressFree(b, G));
    return NULL;
}

const char *case_aliases(void)
{
    DO(alias_of(ON_CARD));
    return alias_of(ON_HOST);
}

/* Remapping neither waits for a running kernel nor disturbs it. */
const char *case_remap_beside_a_kernel(void)
{
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at, other;
    CUstream stream;
    CUevent event;
    OK(cu.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));
    OK(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    DO(mapped_make(ON_CARD, G, &at));
    DO(mapped_make(ON_CARD, G, &other));
    OK(run_fill(other, 1, G / 4, stream)); /* loads the kernels */
    OK(spin_ms(1, stream));
    OK(cu.cuStreamSynchronize(stream));
    OK(create(ON_CARD, G, &handle));
    OK(spin_ms(100, stream));
    OK(run_fill(other, 5, G / 4, stream));
    OK(cu.cuEventRecord(event, stream));
    OK(cu.cuMemUnmap(at, G));
    OK(cu.cuMemMap(at, G, 0, handle, 0));
    OK(set_access(at, G, RW));
    EXPECT(CUDA_ERROR_NOT_READY, cu.cuEventQuery(event));
    OK(cu.cuStreamSynchronize(stream));
    uint32_t word = 0;
    OK(cu.cuMemcpyDtoH_v2(&word, other, 4));
    CHECK(word == 5);
    OK(cu.cuMemRelease(handle));
    OK(cu.cuEventDestroy_v2(event));
    OK(cu.cuStreamDestroy_v2(stream));
    DO(mapped_drop(at, G));
    return mapped_drop(other, G);
}

/* One move as the pool does it: copy through an alias, then map the other frame at the address. */
static const char *move_chunk(CUdeviceptr at, enum place to, CUmemGenericAllocationHandle *now)
{
    CUmemGenericAllocationHandle frame;
    CUdeviceptr alias;
    OK(create(to, G, &frame));
    OK(cu.cuMemAddressReserve(&alias, G, 0, 0, 0));
    OK(cu.cuMemMap(alias, G, 0, frame, 0));
    OK(set_access(alias, G, RW));
    OK(cu.cuMemcpyAsync(alias, at, G, NULL));
    OK(cu.cuStreamSynchronize(NULL));
    OK(cu.cuMemUnmap(at, G));
    OK(cu.cuMemMap(at, G, 0, frame, 0));
    OK(set_access(at, G, RW));
    OK(cu.cuMemUnmap(alias, G));
    OK(cu.cuMemAddressFree(alias, G));
    OK(cu.cuMemRelease(*now));
    *now = frame;
    return NULL;
}

const char *case_remap_moves_data(void)
{
    CUmemGenericAllocationHandle frame;
    CUdeviceptr at;
    uint32_t words[64] = {0};
    OK(create(ON_CARD, G, &frame));
    OK(cu.cuMemAddressReserve(&at, G, 0, 0, 0));
    OK(cu.cuMemMap(at, G, 0, frame, 0));
    OK(set_access(at, G, RW));
    OK(run_fill(at, 100, G / 4, NULL));
    uint32_t one = 1, count = (uint32_t)(G / 4);
    void *params[] = {&at, &one, &count};
    for (unsigned round = 0; round < 4; round++) {
        DO(move_chunk(at, round % 2 ? ON_CARD : ON_HOST, &frame));
        OK(run("add_words", G / 4, NULL, params));
    }
    OK(cu.cuMemcpyDtoH_v2(words, at + G - sizeof words, sizeof words));
    CHECK(words_are(words, 64, 104));
    OK(cu.cuMemRelease(frame));
    return mapped_drop(at, G);
}

const char *case_attributes_of_mapped_memory(void)
{
    CUdeviceptr at, base = 0;
    size_t bytes = 0;
    unsigned type = 0;
    int ordinal = -1;
    DO(mapped_make(ON_CARD, 2 * G, &at));
    OK(cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at + 8));
    CHECK(type == CU_MEMORYTYPE_DEVICE);
    OK(cu.cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at + 8));
    CHECK(ordinal == 0);
    OK(cu.cuMemGetAddressRange_v2(&base, &bytes, at + G));
    CHECK(base == at && bytes == 2 * G);
    DO(mapped_drop(at, 2 * G));
    EXPECT(INVALID, cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at + 8));
    REFUSED(cu.cuMemGetAddressRange_v2(&base, &bytes, at));
    DO(mapped_make(ON_HOST, G, &at));
    OK(cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at + 8));
    CHECK(type == (suite.far_card ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST));
    note("cuMemGetAddressRange of a host frame: %d, base %s",
         cu.cuMemGetAddressRange_v2(&base, &bytes, at), base == at ? "the same" : "another");
    return mapped_drop(at, G);
}

/* Of an address in a reservation that holds two mappings: the range is the reservation, the mapping
 * the mapping. */
const char *case_ranges_and_mappings(void)
{
    struct mixed mixed;
    CUdeviceptr base = 0, start = 0;
    size_t bytes = 0;
    DO(mixed_make(&mixed, ON_CARD));
    CUdeviceptr at = mixed.at + 2 * G + 8; /* on the card */
    OK(cu.cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, at));
    OK(cu.cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, at));
    CHECK(start == mixed.at && bytes == mixed.bytes);
    OK(cu.cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, at));
    OK(cu.cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_MAPPING_SIZE, at));
    CHECK(start == mixed.at + 2 * G && bytes == G);
    OK(cu.cuMemGetAddressRange_v2(&base, &bytes, at));
    CHECK(base == start && bytes == G);
    EXPECT(INVALID, cu.cuMemFree_v2(mixed.at));
    return mixed_drop(&mixed);
}

const char *case_memory_is_accounted(void)
{
    CUmemGenericAllocationHandle handle;
    size_t before, with, after, total;
    CUdeviceptr at;
    OK(cu.cuMemGetInfo_v2(&before, &total));
    OK(create(ON_CARD, 4 * G, &handle));
    OK(cu.cuMemGetInfo_v2(&with, &total));
    CHECK(before - with == 4 * G);
    OK(cu.cuMemAddressReserve(&at, 4 * G, 0, 0, 0));
    OK(cu.cuMemMap(at, 4 * G, 0, handle, 0));
    OK(cu.cuMemRelease(handle));
    OK(cu.cuMemGetInfo_v2(&with, &total));
    CHECK(before - with == 4 * G); /* kept by the mapping */
    DO(mapped_drop(at, 4 * G));
    OK(cu.cuMemGetInfo_v2(&after, &total));
    CHECK(after == before);
    EXPECT(CUDA_ERROR_OUT_OF_MEMORY, create(ON_CARD, (total / G + 1) * G, &handle));
    EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAlloc_v2(&at, total + G));
    return NULL;
}

/* ---- Faults: each in a process of its own ---- */

static const char *context_is_lost(void)
{
    CUdeviceptr at;
    EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuCtxSynchronize());
    EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuCtxSynchronize()); /* and stays so */
    EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuMemAlloc_v2(&at, G));
    EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, spin_ms(1, NULL));
    EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuStreamQuery(NULL));
    /* The calls that map memory belong to no context: they go on, and what was mapped can be tidied
     * up. */
    CUmemGenericAllocationHandle handle;
    OK(cu.cuMemAddressReserve(&at, G, 0, 0, 0));
    OK(create(ON_CARD, G, &handle));
    OK(cu.cuMemMap(at, G, 0, handle, 0));
    OK(set_access(at, G, RW));
    OK(cu.cuMemUnmap(at, G));
    OK(cu.cuMemRelease(handle));
    OK(cu.cuMemAddressFree(at, G));
    return NULL;
}

const char *case_unmap_protects_nothing(void)
{
    CUdeviceptr at;
    DO(mapped_make(ON_CARD, G, &at));
    OK(run_fill(at, 1, G / 4, NULL));
    OK(spin_ms(1, NULL));
    OK(cu.cuCtxSynchronize());
    OK(spin_ms(50, NULL));
    OK(run_fill(at, 2, G / 4, NULL));
    OK(cu.cuMemUnmap(at, G)); /* neither refused nor waited for */
    return context_is_lost();
}

const char *case_no_access_faults(void)
{
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at;
    OK(create(ON_CARD, G, &handle));
    OK(cu.cuMemAddressReserve(&at, G, 0, 0, 0));
    OK(cu.cuMemMap(at, G, 0, handle, 0));
    OK(run_fill(at, 1, G / 4, NULL)); /* mapped, but open to nobody */
    return context_is_lost();
}

const char *case_read_only_faults_on_write(void)
{
    CUdeviceptr at;
    uint32_t word;
    DO(mapped_make(ON_CARD, G, &at));
    OK(run_fill(at, 3, G / 4, NULL));
    OK(cu.cuCtxSynchronize());
    CUresult result = set_access(at, G, CU_MEM_ACCESS_FLAGS_PROT_READ);
    if (result != CUDA_SUCCESS) SKIP("this driver grants no read-only access");
    OK(cu.cuMemcpyDtoH_v2(&word, at, 4));
    CHECK(word == 3);
    OK(run_fill(at, 4, G / 4, NULL));
    return context_is_lost();
}

/* Memory that nobody has access to is no memory to a copy: it is refused when it is called. */
static const char *copy_is_refused(CUdeviceptr from)
{
    CUdeviceptr to;
    OK(cu.cuMemAlloc_v2(&to, G));
    EXPECT(INVALID, cu.cuMemcpyDtoDAsync_v2(to, from, 4096, NULL));
    EXPECT(INVALID, cu.cuMemcpyDtoDAsync_v2(from, to, 4096, NULL));
    EXPECT(INVALID, cu.cuMemsetD8Async(from, 0, 4096, NULL));
    OK(cu.cuCtxSynchronize());
    OK(cu.cuMemFree_v2(to));
    return NULL;
}

const char *case_copy_without_mapping(void)
{
    CUdeviceptr at;
    OK(cu.cuMemAddressReserve(&at, G, 0, 0, 0));
    DO(copy_is_refused(at));
    OK(cu.cuMemAddressFree(at, G));
    return NULL;
}

const char *case_copy_without_access(void)
{
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at;
    OK(create(ON_CARD, G, &handle));
    OK(cu.cuMemAddressReserve(&at, G, 0, 0, 0));
    OK(cu.cuMemMap(at, G, 0, handle, 0));
    OK(cu.cuMemRelease(handle));
    DO(copy_is_refused(at));
    return mapped_drop(at, G);
}

/* A copy whose memory is unmapped under it is as lost as a kernel. */
const char *case_unmap_under_a_copy(void)
{
    CUdeviceptr at, to;
    OK(cu.cuMemAlloc_v2(&to, G));
    DO(mapped_make(ON_CARD, G, &at));
    OK(run_fill(at, 1, G / 4, NULL));
    OK(spin_ms(1, NULL));
    OK(cu.cuCtxSynchronize());
    OK(spin_ms(50, NULL));
    OK(cu.cuMemcpyDtoDAsync_v2(to, at, G, NULL));
    OK(cu.cuMemUnmap(at, G));
    return context_is_lost();
}
