/* A library that takes memory as XLA does, by the driver's VMM calls. It is built under two names:
 * one as XLA's, of which vrampool makes the memory the pool's, and one as anybody's.
 *
 * vmm_alloc and vmm_free are cuMemAlloc and cuMemFree for `full`; vmm_trial makes the calls one by
 * one, with mistakes, and returns the number of the first that did not answer as expected; 0: all
 * did. vmm_stale goes on with what is freed, and with memory from cuMemAlloc. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "driver/abi.h"

int vmm_alloc(CUdeviceptr *address, size_t bytes);
int vmm_free(CUdeviceptr address);
int vmm_trial(void);
int vmm_stale(void);

typedef CUmemGenericAllocationHandle handle_t;

static CUresult (*init)(unsigned), (*device_get)(CUdevice *, int);
static CUresult (*reset)(CUdevice);
static CUresult (*retain_context)(CUcontext *, CUdevice), (*set_current)(CUcontext);
static CUresult (*create)(handle_t *, size_t, const CUmemAllocationProp *, unsigned long long);
static CUresult (*release)(handle_t), (*retain)(handle_t *, void *);
static CUresult (*reserve)(CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long);
static CUresult (*address_free)(CUdeviceptr, size_t), (*unmap)(CUdeviceptr, size_t);
static CUresult (*map)(CUdeviceptr, size_t, size_t, handle_t, unsigned long long);
static CUresult (*set_access)(CUdeviceptr, size_t, const CUmemAccessDesc *, size_t);
static CUresult (*get_access)(unsigned long long *, const CUmemLocation *, CUdeviceptr);
static CUresult (*range_of)(CUdeviceptr *, size_t *, CUdeviceptr);
static CUresult (*properties_of)(CUmemAllocationProp *, handle_t);
static CUresult (*export_handle)(void *, handle_t, int, unsigned long long);
static CUresult (*alloc)(CUdeviceptr *, size_t), (*set)(CUdeviceptr, unsigned char, size_t);
static CUresult (*read_back)(void *, CUdeviceptr, size_t);
static CUresult (*granularity)(size_t *, const CUmemAllocationProp *, int);

static void *find(void *driver, const char *symbol)
{
    void *found = dlsym(driver, symbol);
    if (found) return found;
    fprintf(stderr, "vmm_plugin: the driver has no %s\n", symbol);
    exit(1);
}

static void load(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (create || !driver) return;
#define LOAD(name, symbol) *(void **)&name = find(driver, symbol)
    LOAD(init, "cuInit");
    LOAD(device_get, "cuDeviceGet");
    LOAD(retain_context, "cuDevicePrimaryCtxRetain");
    LOAD(set_current, "cuCtxSetCurrent");
    LOAD(reset, "cuDevicePrimaryCtxReset_v2");
    LOAD(release, "cuMemRelease");
    LOAD(retain, "cuMemRetainAllocationHandle");
    LOAD(reserve, "cuMemAddressReserve");
    LOAD(address_free, "cuMemAddressFree");
    LOAD(unmap, "cuMemUnmap");
    LOAD(map, "cuMemMap");
    LOAD(set_access, "cuMemSetAccess");
    LOAD(get_access, "cuMemGetAccess");
    LOAD(range_of, "cuMemGetAddressRange_v2");
    LOAD(properties_of, "cuMemGetAllocationPropertiesFromHandle");
    LOAD(export_handle, "cuMemExportToShareableHandle");
    LOAD(alloc, "cuMemAlloc_v2");
    LOAD(set, "cuMemsetD8_v2");
    LOAD(read_back, "cuMemcpyDtoH_v2");
    LOAD(granularity, "cuMemGetAllocationGranularity");
    LOAD(create, "cuMemCreate");
}

static const CUmemAllocationProp prop = {
    .type = CU_MEM_ALLOCATION_TYPE_PINNED,
    .requestedHandleTypes = 1, /* a file descriptor, as XLA asks for */
    .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
    .allocFlags = {.gpuDirectRDMACapable = 1},
};
static const CUmemAccessDesc access_desc = {{CU_MEM_LOCATION_TYPE_DEVICE, 0},
                                            CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

int vmm_alloc(CUdeviceptr *address, size_t bytes)
{
    handle_t handle;
    size_t grain;
    load();
    CUresult result = granularity(&grain, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
    bytes = (bytes + grain - 1) / grain * grain;
    if (result == CUDA_SUCCESS) result = create(&handle, bytes, &prop, 0);
    if (result == CUDA_SUCCESS) result = reserve(address, bytes, grain, 0, 0);
    if (result == CUDA_SUCCESS) result = map(*address, bytes, 0, handle, 0);
    if (result == CUDA_SUCCESS) result = set_access(*address, bytes, &access_desc, 1);
    return (int)result;
}

int vmm_free(CUdeviceptr address)
{
    handle_t handle;
    size_t bytes;
    CUresult result = retain(&handle, (void *)(uintptr_t)address);
    if (result == CUDA_SUCCESS) result = release(handle);
    if (result == CUDA_SUCCESS) result = range_of(NULL, &bytes, address);
    if (result == CUDA_SUCCESS) result = unmap(address, bytes);
    if (result == CUDA_SUCCESS) result = release(handle);
    if (result == CUDA_SUCCESS) result = address_free(address, bytes);
    return (int)result;
}

#define EXPECT(call, answer)                                                                       \
    do {                                                                                           \
        step++;                                                                                    \
        if ((call) != (answer)) return step;                                                       \
    } while (0)
#define OK    CUDA_SUCCESS
#define WRONG CUDA_ERROR_INVALID_VALUE
#define NO    CUDA_ERROR_NOT_SUPPORTED

int vmm_trial(void)
{
    enum { BYTES = 8 << 20, GRAIN = 2 << 20 };
    int step = 0;
    CUdevice device;
    CUcontext context;
    handle_t handle, same, other;
    CUdeviceptr at, elsewhere, base;
    CUmemAllocationProp asked;
    unsigned long long flags;
    size_t bytes;
    load();
    EXPECT(init(0), OK);
    EXPECT(device_get(&device, 0), OK);
    EXPECT(retain_context(&context, device), OK);
    EXPECT(set_current(context), OK);
    EXPECT(create(&handle, BYTES, &prop, 0), OK); /* 5 */
    EXPECT(reserve(&elsewhere, 2 * BYTES, GRAIN, 0, 0), OK);
    EXPECT(map(elsewhere, BYTES, 0, handle, 0), NO); /* in a range of another size */
    EXPECT(release(handle), OK);
    EXPECT(release(handle), WRONG);
    EXPECT(create(&handle, BYTES, &prop, 0), OK); /* 10 */
    EXPECT(reserve(&at, BYTES, GRAIN, 0, 0), OK);
    EXPECT(at, handle);
    EXPECT(unmap(at, BYTES), WRONG);
    EXPECT(get_access(&flags, &access_desc.location, at), WRONG);
    EXPECT(set_access(at, BYTES, &access_desc, 1), WRONG); /* 15 */
    EXPECT(map(at, BYTES / 2, 0, handle, 0), NO);
    EXPECT(map(at, BYTES, 0, handle, 0), OK);
    EXPECT(map(at, BYTES, 0, handle, 0), WRONG);
    EXPECT(set_access(at, 2 * BYTES, &access_desc, 1), WRONG);
    EXPECT(set_access(at, BYTES, &access_desc, 1), OK); /* 20 */
    EXPECT(get_access(&flags, &access_desc.location, at + GRAIN), OK);
    EXPECT(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    EXPECT(range_of(&base, &bytes, at + GRAIN), OK);
    EXPECT(base, at);
    EXPECT(bytes, BYTES); /* 25 */
    EXPECT(properties_of(&asked, handle), OK);
    EXPECT(asked.requestedHandleTypes, prop.requestedHandleTypes);
    EXPECT(export_handle(&flags, handle, 1, 0), NO);
    EXPECT(retain(&same, (void *)(uintptr_t)(at + GRAIN)), OK);
    EXPECT(same, handle); /* 30 */
    EXPECT(release(same), OK);
    EXPECT(address_free(at, BYTES), WRONG); /* it is mapped */
    EXPECT(release(handle), OK);            /* so the memory stays */
    EXPECT(range_of(&base, &bytes, at), OK);
    EXPECT(unmap(at, GRAIN), WRONG); /* 35 */
    EXPECT(unmap(at, BYTES), OK);
    EXPECT(range_of(&base, &bytes, at), OK); /* the range has no other owner yet */
    EXPECT(address_free(at, GRAIN), WRONG);
    EXPECT(address_free(at, BYTES), OK);
    EXPECT(range_of(&base, &bytes, at) == OK, 0); /* 40 */
    EXPECT(create(&handle, (size_t)1 << 46, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT(create(&handle, BYTES, &prop, 0), OK);
    EXPECT(create(&other, BYTES, &prop, 0), OK);
    EXPECT(reserve(&at, BYTES, GRAIN, 0, 0), OK);
    EXPECT(at, other); /* 45: the range of the last one */
    EXPECT(map(at, BYTES, 0, handle, 0), NO);
    EXPECT(release(handle), OK);
    EXPECT(release(other), OK);
    EXPECT(address_free(at, BYTES), OK);
    EXPECT(address_free(elsewhere, 2 * BYTES), OK); /* 50 */
    return 0;
}

/* The pool keeps what was freed mapped, so that the driver would carry these out. */
int vmm_stale(void)
{
    enum { BYTES = 8 << 20, GRAIN = 2 << 20 };
    int step = 0;
    unsigned char last = 0;
    CUdevice device;
    CUcontext context;
    handle_t handle, native;
    CUdeviceptr at, plain, again;
    size_t bytes;
    CUmemAllocationProp asked;
    load();
    EXPECT(init(0), OK);
    EXPECT(device_get(&device, 0), OK);
    EXPECT(retain_context(&context, device), OK);
    EXPECT(set_current(context), OK);
    EXPECT(vmm_alloc(&at, BYTES), 0); /* 5 */
    EXPECT(retain(&handle, (void *)(uintptr_t)at), OK);
    EXPECT(release(handle), OK);
    EXPECT(set(at, 7, BYTES), OK);
    EXPECT(vmm_free(at), 0);
    EXPECT(release(handle), WRONG); /* 10 */
    EXPECT(properties_of(&asked, handle), WRONG);
    EXPECT(unmap(at, BYTES), WRONG);
    EXPECT(address_free(at, BYTES), WRONG);
    EXPECT(set_access(at, BYTES, &access_desc, 1), WRONG);
    EXPECT(alloc(&plain, BYTES), OK); /* 15: takes over what was freed, as it is mapped */
    EXPECT(set(plain, 9, BYTES), OK);
    EXPECT(unmap(plain, BYTES), WRONG);
    EXPECT(read_back(&last, plain + BYTES - 1, 1), OK);
    EXPECT(last, 9);
    EXPECT(create(&native, GRAIN + 1, &prop, 0), WRONG); /* 20 */
    EXPECT(vmm_alloc(&again, BYTES), 0);
    EXPECT(vmm_free(again), 0);
    EXPECT(vmm_alloc(&at, BYTES), 0);
    EXPECT(reset(device), OK); /* the pool ends with its context: as with memory from cuMemAlloc */
    EXPECT(range_of(NULL, &bytes, at) == OK, 0); /* 25 */
    EXPECT(release(at) == OK, 0);
    return 0;
}
