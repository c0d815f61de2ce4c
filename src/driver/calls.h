/* The driver calls that vrampool makes itself, one list: X(need, symbol, arguments). The symbol is
 * the one the library exports (so `cuMemAlloc_v2`, not the `cuMemAlloc` of the header). `need` is
 * REQUIRED where the pool cannot work without it, OPTIONAL where the field may be NULL.
 * Calls that only programs make are not here: the shim passes them on without knowing them. */
#ifndef DRIVER_CALLS_H
#define DRIVER_CALLS_H

/* clang-format off */
#define DRIVER_CALLS(X) \
    X(REQUIRED, cuInit, (unsigned flags)) \
    X(REQUIRED, cuDriverGetVersion, (int *version)) \
    X(REQUIRED, cuGetErrorName, (CUresult error, const char **text)) \
    X(REQUIRED, cuGetErrorString, (CUresult error, const char **text)) \
    X(REQUIRED, cuDeviceGetCount, (int *count)) \
    X(REQUIRED, cuDeviceGet, (CUdevice *device, int ordinal)) \
    X(REQUIRED, cuDeviceGetName, (char *name, int size, CUdevice device)) \
    X(REQUIRED, cuDeviceGetAttribute, (int *value, int attribute, CUdevice device)) \
    X(REQUIRED, cuDeviceTotalMem_v2, (size_t *bytes, CUdevice device)) \
    X(REQUIRED, cuDeviceCanAccessPeer, (int *can, CUdevice device, CUdevice peer)) \
    X(REQUIRED, cuDevicePrimaryCtxRetain, (CUcontext *context, CUdevice device)) \
    X(REQUIRED, cuDevicePrimaryCtxRelease_v2, (CUdevice device)) \
    X(REQUIRED, cuCtxGetCurrent, (CUcontext *context)) \
    X(REQUIRED, cuCtxSetCurrent, (CUcontext context)) \
    X(REQUIRED, cuCtxGetDevice, (CUdevice *device)) \
    X(REQUIRED, cuCtxSynchronize, (void)) \
    X(REQUIRED, cuMemGetInfo_v2, (size_t *free_bytes, size_t *total_bytes)) \
    X(REQUIRED, cuMemGetAllocationGranularity, (size_t *bytes, const CUmemAllocationProp *prop, int option)) \
    X(REQUIRED, cuMemCreate, (CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *prop, unsigned long long flags)) \
    X(REQUIRED, cuMemRelease, (CUmemGenericAllocationHandle handle)) \
    X(REQUIRED, cuMemAddressReserve, (CUdeviceptr *address, size_t bytes, size_t alignment, CUdeviceptr hint, unsigned long long flags)) \
    X(REQUIRED, cuMemAddressFree, (CUdeviceptr address, size_t bytes)) \
    X(REQUIRED, cuMemMap, (CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags)) \
    X(REQUIRED, cuMemUnmap, (CUdeviceptr address, size_t bytes)) \
    X(REQUIRED, cuMemSetAccess, (CUdeviceptr address, size_t bytes, const CUmemAccessDesc *desc, size_t count)) \
    X(REQUIRED, cuStreamCreateWithPriority, (CUstream *stream, unsigned flags, int priority)) \
    X(REQUIRED, cuStreamDestroy_v2, (CUstream stream)) \
    X(REQUIRED, cuStreamSynchronize, (CUstream stream)) \
    X(REQUIRED, cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags)) \
    X(REQUIRED, cuStreamIsCapturing, (CUstream stream, int *status)) \
    X(REQUIRED, cuThreadExchangeStreamCaptureMode, (int *mode)) \
    X(REQUIRED, cuEventCreate, (CUevent *event, unsigned flags)) \
    X(REQUIRED, cuEventDestroy_v2, (CUevent event)) \
    X(REQUIRED, cuEventRecord, (CUevent event, CUstream stream)) \
    X(REQUIRED, cuEventQuery, (CUevent event)) \
    X(REQUIRED, cuEventSynchronize, (CUevent event)) \
    X(REQUIRED, cuEventElapsedTime, (float *ms, CUevent start, CUevent end)) \
    X(REQUIRED, cuMemcpyAsync, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)) \
    X(REQUIRED, cuMemsetD8Async, (CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream)) \
    X(REQUIRED, cuMemHostAlloc, (void **pointer, size_t bytes, unsigned flags)) \
    X(REQUIRED, cuMemFreeHost, (void *pointer)) \
    X(REQUIRED, cuMemAlloc_v2, (CUdeviceptr *address, size_t bytes)) \
    X(REQUIRED, cuMemFree_v2, (CUdeviceptr address)) \
    X(REQUIRED, cuModuleLoadData, (CUmodule *module, const void *image)) \
    X(REQUIRED, cuModuleUnload, (CUmodule module)) \
    X(REQUIRED, cuModuleGetFunction, (CUfunction *function, CUmodule module, const char *name)) \
    X(REQUIRED, cuLaunchKernel, (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void **params, void **extra)) \
    X(OPTIONAL, cuStreamGetCtx, (CUstream stream, CUcontext *context)) \
    X(OPTIONAL, cuDeviceGetPCIBusId, (char *bus_id, int size, CUdevice device)) \
    X(OPTIONAL, cuDeviceGetUuid_v2, (CUuuid *uuid, CUdevice device)) \
    X(OPTIONAL, cuDeviceGetP2PAttribute, (int *value, int attribute, CUdevice from, CUdevice to)) \
    X(OPTIONAL, cuDeviceGetMemPool, (CUmemoryPool *pool, CUdevice device)) \
    X(OPTIONAL, cuMemPoolGetAttribute, (CUmemoryPool pool, int attribute, void *value)) \
    X(OPTIONAL, cuFuncGetParamInfo, (CUfunction function, size_t index, size_t *offset, size_t *bytes)) \
    X(OPTIONAL, cuKernelGetParamInfo, (CUkernel kernel, size_t index, size_t *offset, size_t *bytes)) \
    X(OPTIONAL, cuFuncGetName, (const char **name, CUfunction function)) \
    X(OPTIONAL, cuKernelGetName, (const char **name, CUkernel kernel)) \
    X(REQUIRED, cuGetProcAddress_v2, (const char *symbol, void **function, int version, uint64_t flags, int *found))
/* clang-format on */

#endif
