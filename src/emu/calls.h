/* The calls that the emulated driver has, one list: X(kind, variant, symbol, base, version,
 * arguments, names). From it come the exported functions, their per-thread-stream variants, the
 * answers of cuGetProcAddress, the counters and the failure injection. The work of `symbol` is in
 * do_symbol.
 *
 *     kind     FREE: no check; INIT: cuInit was called; CTX: a context is current and not lost;
 *              LIVE: INIT, and no context is current or one that is not lost;
 *              VMM: INIT, serialised by the context lock, and possible after a loss
 *     variant  NO; SZ: there is symbol_ptsz too; DS: symbol_ptds
 *     base     the name that cuGetProcAddress knows it by, from CUDA `version` on
 *              (1000 × major + 10 × minor) */
#ifndef EMU_CALLS_H
#define EMU_CALLS_H

/* clang-format off */
#define EMU_CALLS(X) \
    /* init, errors, devices */ \
    X(FREE, NO, cuInit, cuInit, 2000, (unsigned flags), (flags)) \
    X(FREE, NO, cuDriverGetVersion, cuDriverGetVersion, 2020, (int *version), (version)) \
    X(FREE, NO, cuGetErrorName, cuGetErrorName, 6000, (CUresult error, const char **text), (error, text)) \
    X(FREE, NO, cuGetErrorString, cuGetErrorString, 6000, (CUresult error, const char **text), (error, text)) \
    X(FREE, NO, cuGetProcAddress, cuGetProcAddress, 11030, (const char *symbol, void **function, int version, uint64_t flags), (symbol, function, version, flags)) \
    X(FREE, NO, cuGetProcAddress_v2, cuGetProcAddress, 12000, (const char *symbol, void **function, int version, uint64_t flags, int *found), (symbol, function, version, flags, found)) \
    X(INIT, NO, cuDeviceGetCount, cuDeviceGetCount, 2000, (int *count), (count)) \
    X(INIT, NO, cuDeviceGet, cuDeviceGet, 2000, (CUdevice *device, int ordinal), (device, ordinal)) \
    X(INIT, NO, cuDeviceGetName, cuDeviceGetName, 2000, (char *name, int len, CUdevice device), (name, len, device)) \
    X(INIT, NO, cuDeviceGetUuid, cuDeviceGetUuid, 9020, (CUuuid *uuid, CUdevice device), (uuid, device)) \
    X(INIT, NO, cuDeviceGetUuid_v2, cuDeviceGetUuid, 11040, (CUuuid *uuid, CUdevice device), (uuid, device)) \
    X(INIT, NO, cuDeviceGetAttribute, cuDeviceGetAttribute, 2000, (int *value, int attribute, CUdevice device), (value, attribute, device)) \
    X(INIT, NO, cuDeviceTotalMem_v2, cuDeviceTotalMem, 3020, (size_t *bytes, CUdevice device), (bytes, device)) \
    X(INIT, NO, cuDeviceCanAccessPeer, cuDeviceCanAccessPeer, 4000, (int *can, CUdevice device, CUdevice peer), (can, device, peer)) \
    X(INIT, NO, cuDeviceGetP2PAttribute, cuDeviceGetP2PAttribute, 8000, (int *value, int attribute, CUdevice src, CUdevice dst), (value, attribute, src, dst)) \
    X(INIT, NO, cuDeviceGetPCIBusId, cuDeviceGetPCIBusId, 4010, (char *pci_bus_id, int len, CUdevice device), (pci_bus_id, len, device)) \
    X(INIT, NO, cuDeviceGetByPCIBusId, cuDeviceGetByPCIBusId, 4010, (CUdevice *device, const char *pci_bus_id), (device, pci_bus_id)) \
    X(INIT, NO, cuDeviceComputeCapability, cuDeviceComputeCapability, 2000, (int *major, int *minor, CUdevice device), (major, minor, device)) \
    X(INIT, NO, cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 7000, (CUcontext *context, CUdevice device), (context, device)) \
    X(INIT, NO, cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease, 7000, (CUdevice device), (device)) \
    X(INIT, NO, cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRelease, 11000, (CUdevice device), (device)) \
    X(INIT, NO, cuDevicePrimaryCtxReset_v2, cuDevicePrimaryCtxReset, 11000, (CUdevice device), (device)) \
    X(INIT, NO, cuDevicePrimaryCtxGetState, cuDevicePrimaryCtxGetState, 7000, (CUdevice device, unsigned *flags, int *active), (device, flags, active)) \
    X(INIT, NO, cuDevicePrimaryCtxSetFlags_v2, cuDevicePrimaryCtxSetFlags, 11000, (CUdevice device, unsigned flags), (device, flags)) \
    X(INIT, NO, cuDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool, 11020, (CUmemoryPool *pool, CUdevice device), (pool, device)) \
    X(INIT, NO, cuDeviceGetMemPool, cuDeviceGetMemPool, 11020, (CUmemoryPool *pool, CUdevice device), (pool, device)) \
    X(INIT, NO, cuDeviceSetMemPool, cuDeviceSetMemPool, 11020, (CUdevice device, CUmemoryPool pool), (device, pool)) \
    /* contexts */ \
    X(INIT, NO, cuCtxCreate_v2, cuCtxCreate, 3020, (CUcontext *context, unsigned flags, CUdevice device), (context, flags, device)) \
    X(INIT, NO, cuCtxCreate_v3, cuCtxCreate, 11040, (CUcontext *context, void *params_array, int num_params, unsigned flags, CUdevice device), (context, params_array, num_params, flags, device)) \
    X(INIT, NO, cuCtxCreate_v4, cuCtxCreate, 12050, (CUcontext *context, void *params, unsigned flags, CUdevice device), (context, params, flags, device)) \
    X(INIT, NO, cuCtxDestroy_v2, cuCtxDestroy, 4000, (CUcontext context), (context)) \
    X(INIT, NO, cuCtxPushCurrent_v2, cuCtxPushCurrent, 4000, (CUcontext context), (context)) \
    X(INIT, NO, cuCtxPopCurrent_v2, cuCtxPopCurrent, 4000, (CUcontext *context), (context)) \
    X(INIT, NO, cuCtxSetCurrent, cuCtxSetCurrent, 4000, (CUcontext context), (context)) \
    X(INIT, NO, cuCtxGetCurrent, cuCtxGetCurrent, 4000, (CUcontext *context), (context)) \
    X(INIT, NO, cuCtxGetDevice, cuCtxGetDevice, 2000, (CUdevice *device), (device)) \
    X(INIT, NO, cuCtxGetDevice_v2, cuCtxGetDevice, 13000, (CUdevice *device, CUcontext context), (device, context)) \
    X(INIT, NO, cuCtxGetFlags, cuCtxGetFlags, 7000, (unsigned *flags), (flags)) \
    X(INIT, NO, cuCtxSetFlags, cuCtxSetFlags, 12010, (unsigned flags), (flags)) \
    X(INIT, NO, cuCtxGetCacheConfig, cuCtxGetCacheConfig, 3020, (int *config), (config)) \
    X(INIT, NO, cuCtxSetCacheConfig, cuCtxSetCacheConfig, 3020, (int config), (config)) \
    X(INIT, NO, cuCtxGetApiVersion, cuCtxGetApiVersion, 3020, (CUcontext context, unsigned *version), (context, version)) \
    X(INIT, NO, cuCtxGetLimit, cuCtxGetLimit, 3010, (size_t *value, int limit), (value, limit)) \
    X(INIT, NO, cuCtxSetLimit, cuCtxSetLimit, 3010, (int limit, size_t value), (limit, value)) \
    X(INIT, NO, cuCtxGetId, cuCtxGetId, 12000, (CUcontext context, unsigned long long *id), (context, id)) \
    X(INIT, NO, cuCtxGetStreamPriorityRange, cuCtxGetStreamPriorityRange, 5050, (int *least_priority, int *greatest_priority), (least_priority, greatest_priority)) \
    X(CTX, NO, cuCtxSynchronize, cuCtxSynchronize, 2000, (void), ()) \
    X(INIT, NO, cuCtxSynchronize_v2, cuCtxSynchronize, 13000, (CUcontext context), (context)) \
    X(CTX, NO, cuCtxEnablePeerAccess, cuCtxEnablePeerAccess, 4000, (CUcontext peer_context, unsigned flags), (peer_context, flags)) \
    X(CTX, NO, cuCtxDisablePeerAccess, cuCtxDisablePeerAccess, 4000, (CUcontext peer_context), (peer_context)) \
    X(INIT, NO, cuProfilerStart, cuProfilerStart, 4000, (void), ()) \
    X(INIT, NO, cuProfilerStop, cuProfilerStop, 4000, (void), ()) \
    /* modules, kernels */ \
    X(CTX, NO, cuModuleLoad, cuModuleLoad, 2000, (CUmodule *module, const char *path), (module, path)) \
    X(CTX, NO, cuModuleLoadData, cuModuleLoadData, 2000, (CUmodule *module, const void *image), (module, image)) \
    X(CTX, NO, cuModuleLoadDataEx, cuModuleLoadDataEx, 2010, (CUmodule *module, const void *image, unsigned num_options, int *options, void **option_values), (module, image, num_options, options, option_values)) \
    X(CTX, NO, cuModuleUnload, cuModuleUnload, 2000, (CUmodule module), (module)) \
    X(CTX, NO, cuModuleGetFunction, cuModuleGetFunction, 2000, (CUfunction *function, CUmodule module, const char *name), (function, module, name)) \
    X(CTX, NO, cuModuleGetFunctionCount, cuModuleGetFunctionCount, 12040, (unsigned *count, CUmodule mod), (count, mod)) \
    X(CTX, NO, cuModuleGetGlobal_v2, cuModuleGetGlobal, 3020, (CUdeviceptr *address, size_t *bytes, CUmodule module, const char *name), (address, bytes, module, name)) \
    X(INIT, NO, cuModuleGetLoadingMode, cuModuleGetLoadingMode, 11070, (int *mode), (mode)) \
    X(LIVE, NO, cuLibraryLoadData, cuLibraryLoadData, 12000, (CUlibrary *library, const void *code, int *jit_options, void **jit_options_values, unsigned num_jit_options, int *library_options, void **library_option_values, unsigned num_library_options), (library, code, jit_options, jit_options_values, num_jit_options, library_options, library_option_values, num_library_options)) \
    X(LIVE, NO, cuLibraryUnload, cuLibraryUnload, 12000, (CUlibrary library), (library)) \
    X(LIVE, NO, cuLibraryGetKernel, cuLibraryGetKernel, 12000, (CUkernel *kernel, CUlibrary library, const char *name), (kernel, library, name)) \
    X(CTX, NO, cuLibraryGetModule, cuLibraryGetModule, 12000, (CUmodule *module, CUlibrary library), (module, library)) \
    X(CTX, NO, cuLibraryGetGlobal, cuLibraryGetGlobal, 12000, (CUdeviceptr *address, size_t *bytes, CUlibrary library, const char *name), (address, bytes, library, name)) \
    X(LIVE, NO, cuLibraryGetKernelCount, cuLibraryGetKernelCount, 12040, (unsigned *count, CUlibrary library), (count, library)) \
    X(CTX, NO, cuKernelGetFunction, cuKernelGetFunction, 12000, (CUfunction *function, CUkernel kernel), (function, kernel)) \
    X(LIVE, NO, cuKernelGetName, cuKernelGetName, 12030, (const char **name, CUkernel function), (name, function)) \
    X(LIVE, NO, cuKernelGetParamInfo, cuKernelGetParamInfo, 12040, (CUkernel kernel, size_t index, size_t *offset, size_t *bytes), (kernel, index, offset, bytes)) \
    X(LIVE, NO, cuKernelGetAttribute, cuKernelGetAttribute, 12000, (int *value, int attribute, CUkernel kernel, CUdevice device), (value, attribute, kernel, device)) \
    X(LIVE, NO, cuKernelSetAttribute, cuKernelSetAttribute, 12000, (int attribute, int value, CUkernel kernel, CUdevice device), (attribute, value, kernel, device)) \
    X(LIVE, NO, cuKernelSetCacheConfig, cuKernelSetCacheConfig, 12000, (CUkernel kernel, int config, CUdevice device), (kernel, config, device)) \
    X(LIVE, NO, cuKernelGetLibrary, cuKernelGetLibrary, 12050, (CUlibrary *library, CUkernel kernel), (library, kernel)) \
    X(LIVE, NO, cuFuncGetName, cuFuncGetName, 12030, (const char **name, CUfunction function), (name, function)) \
    X(LIVE, NO, cuFuncGetParamInfo, cuFuncGetParamInfo, 12040, (CUfunction function, size_t index, size_t *offset, size_t *bytes), (function, index, offset, bytes)) \
    X(LIVE, NO, cuFuncGetModule, cuFuncGetModule, 11000, (CUmodule *module, CUfunction function), (module, function)) \
    X(LIVE, NO, cuFuncIsLoaded, cuFuncIsLoaded, 12040, (int *state, CUfunction function), (state, function)) \
    X(LIVE, NO, cuFuncLoad, cuFuncLoad, 12040, (CUfunction function), (function)) \
    X(LIVE, NO, cuFuncGetAttribute, cuFuncGetAttribute, 2020, (int *value, int attribute, CUfunction function), (value, attribute, function)) \
    X(LIVE, NO, cuFuncSetAttribute, cuFuncSetAttribute, 9000, (CUfunction function, int attribute, int value), (function, attribute, value)) \
    X(LIVE, NO, cuFuncSetCacheConfig, cuFuncSetCacheConfig, 3000, (CUfunction function, int config), (function, config)) \
    X(CTX, NO, cuOccupancyMaxActiveBlocksPerMultiprocessor, cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050, (int *num_blocks, CUfunction func, int block_size, size_t dynamic_smem_size), (num_blocks, func, block_size, dynamic_smem_size)) \
    X(CTX, SZ, cuLaunchKernel, cuLaunchKernel, 4000, (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void **params, void **extra), (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, params, extra)) \
    X(CTX, SZ, cuLaunchKernelEx, cuLaunchKernelEx, 11060, (const CUlaunchConfig *config, CUfunction function, void **params, void **extra), (config, function, params, extra)) \
    X(CTX, SZ, cuLaunchCooperativeKernel, cuLaunchCooperativeKernel, 9000, (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void **params), (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, params)) \
    X(CTX, SZ, cuLaunchHostFunc, cuLaunchHostFunc, 10000, (CUstream stream, CUhostFn fn, void *data), (stream, fn, data)) \
    /* memory */ \
    X(CTX, NO, cuMemGetInfo_v2, cuMemGetInfo, 3020, (size_t *free_bytes, size_t *total_bytes), (free_bytes, total_bytes)) \
    X(CTX, NO, cuMemAlloc_v2, cuMemAlloc, 3020, (CUdeviceptr *address, size_t bytes), (address, bytes)) \
    X(CTX, NO, cuMemAllocPitch_v2, cuMemAllocPitch, 3020, (CUdeviceptr *address, size_t *pitch, size_t width_in_bytes, size_t height, unsigned element_size_bytes), (address, pitch, width_in_bytes, height, element_size_bytes)) \
    X(CTX, NO, cuMemFree_v2, cuMemFree, 3020, (CUdeviceptr address), (address)) \
    X(INIT, NO, cuMemGetAddressRange_v2, cuMemGetAddressRange, 3020, (CUdeviceptr *base, size_t *bytes, CUdeviceptr address), (base, bytes, address)) \
    X(CTX, NO, cuMemAllocHost_v2, cuMemAllocHost, 3020, (void **pointer, size_t bytes), (pointer, bytes)) \
    X(CTX, NO, cuMemHostAlloc, cuMemHostAlloc, 2020, (void **pointer, size_t bytes, unsigned flags), (pointer, bytes, flags)) \
    X(CTX, NO, cuMemFreeHost, cuMemFreeHost, 2000, (void *pointer), (pointer)) \
    X(CTX, NO, cuMemHostGetDevicePointer_v2, cuMemHostGetDevicePointer, 3020, (CUdeviceptr *address, void *pointer, unsigned flags), (address, pointer, flags)) \
    X(CTX, NO, cuMemHostGetFlags, cuMemHostGetFlags, 2030, (unsigned *flags, void *pointer), (flags, pointer)) \
    X(CTX, NO, cuMemHostRegister_v2, cuMemHostRegister, 6050, (void *pointer, size_t bytes, unsigned flags), (pointer, bytes, flags)) \
    X(CTX, NO, cuMemHostUnregister, cuMemHostUnregister, 4000, (void *pointer), (pointer)) \
    X(CTX, NO, cuMemAllocManaged, cuMemAllocManaged, 6000, (CUdeviceptr *address, size_t bytes, unsigned flags), (address, bytes, flags)) \
    X(INIT, NO, cuPointerGetAttribute, cuPointerGetAttribute, 4000, (void *data, int attribute, CUdeviceptr address), (data, attribute, address)) \
    X(INIT, NO, cuPointerGetAttributes, cuPointerGetAttributes, 7000, (unsigned num_attributes, int *attributes, void **data, CUdeviceptr address), (num_attributes, attributes, data, address)) \
    X(INIT, NO, cuPointerSetAttribute, cuPointerSetAttribute, 6000, (const void *value, int attribute, CUdeviceptr address), (value, attribute, address)) \
    X(CTX, NO, cuIpcGetMemHandle, cuIpcGetMemHandle, 4010, (CUipcMemHandle *handle, CUdeviceptr address), (handle, address)) \
    X(CTX, NO, cuIpcOpenMemHandle_v2, cuIpcOpenMemHandle, 11000, (CUdeviceptr *address, CUipcMemHandle handle, unsigned flags), (address, handle, flags)) \
    X(CTX, NO, cuIpcCloseMemHandle, cuIpcCloseMemHandle, 4010, (CUdeviceptr address), (address)) \
    X(CTX, SZ, cuMemAllocAsync, cuMemAllocAsync, 11020, (CUdeviceptr *address, size_t bytes, CUstream stream), (address, bytes, stream)) \
    X(CTX, SZ, cuMemFreeAsync, cuMemFreeAsync, 11020, (CUdeviceptr address, CUstream stream), (address, stream)) \
    X(CTX, SZ, cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, 11020, (CUdeviceptr *address, size_t bytes, CUmemoryPool pool, CUstream stream), (address, bytes, pool, stream)) \
    X(INIT, NO, cuMemPoolCreate, cuMemPoolCreate, 11020, (CUmemoryPool *pool, const void *pool_props), (pool, pool_props)) \
    X(INIT, NO, cuMemPoolDestroy, cuMemPoolDestroy, 11020, (CUmemoryPool pool), (pool)) \
    X(INIT, NO, cuMemPoolTrimTo, cuMemPoolTrimTo, 11020, (CUmemoryPool pool, size_t min_bytes_to_keep), (pool, min_bytes_to_keep)) \
    X(INIT, NO, cuMemPoolSetAttribute, cuMemPoolSetAttribute, 11020, (CUmemoryPool pool, int attr, void *value), (pool, attr, value)) \
    X(INIT, NO, cuMemPoolGetAttribute, cuMemPoolGetAttribute, 11020, (CUmemoryPool pool, int attr, void *value), (pool, attr, value)) \
    X(INIT, NO, cuMemPoolSetAccess, cuMemPoolSetAccess, 11020, (CUmemoryPool pool, const CUmemAccessDesc *map, size_t count), (pool, map, count)) \
    /* virtual memory */ \
    X(VMM, NO, cuMemGetAllocationGranularity, cuMemGetAllocationGranularity, 10020, (size_t *granularity, const CUmemAllocationProp *prop, int option), (granularity, prop, option)) \
    X(VMM, NO, cuMemCreate, cuMemCreate, 10020, (CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *prop, unsigned long long flags), (handle, bytes, prop, flags)) \
    X(VMM, NO, cuMemRelease, cuMemRelease, 10020, (CUmemGenericAllocationHandle handle), (handle)) \
    X(VMM, NO, cuMemAddressReserve, cuMemAddressReserve, 10020, (CUdeviceptr *address, size_t bytes, size_t alignment, CUdeviceptr hint, unsigned long long flags), (address, bytes, alignment, hint, flags)) \
    X(VMM, NO, cuMemAddressFree, cuMemAddressFree, 10020, (CUdeviceptr address, size_t bytes), (address, bytes)) \
    X(VMM, NO, cuMemMap, cuMemMap, 10020, (CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags), (address, bytes, offset, handle, flags)) \
    X(VMM, NO, cuMemUnmap, cuMemUnmap, 10020, (CUdeviceptr address, size_t bytes), (address, bytes)) \
    X(VMM, NO, cuMemSetAccess, cuMemSetAccess, 10020, (CUdeviceptr address, size_t bytes, const CUmemAccessDesc *desc, size_t count), (address, bytes, desc, count)) \
    X(VMM, NO, cuMemGetAccess, cuMemGetAccess, 10020, (unsigned long long *flags, const CUmemLocation *location, CUdeviceptr address), (flags, location, address)) \
    X(VMM, NO, cuMemRetainAllocationHandle, cuMemRetainAllocationHandle, 11000, (CUmemGenericAllocationHandle *handle, void *address), (handle, address)) \
    X(VMM, NO, cuMemGetAllocationPropertiesFromHandle, cuMemGetAllocationPropertiesFromHandle, 10020, (CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle), (prop, handle)) \
    X(VMM, NO, cuMemExportToShareableHandle, cuMemExportToShareableHandle, 10020, (void *shareable_handle, CUmemGenericAllocationHandle handle, int handle_type, unsigned long long flags), (shareable_handle, handle, handle_type, flags)) \
    X(VMM, NO, cuMemImportFromShareableHandle, cuMemImportFromShareableHandle, 10020, (CUmemGenericAllocationHandle *handle, void *os_handle, int sh_handle_type), (handle, os_handle, sh_handle_type)) \
    /* copies */ \
    X(CTX, DS, cuMemcpy, cuMemcpy, 4000, (CUdeviceptr dst, CUdeviceptr src, size_t bytes), (dst, src, bytes)) \
    X(CTX, SZ, cuMemcpyAsync, cuMemcpyAsync, 4000, (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream), (dst, src, bytes, stream)) \
    X(CTX, DS, cuMemcpyHtoD_v2, cuMemcpyHtoD, 3020, (CUdeviceptr dst, const void *src, size_t bytes), (dst, src, bytes)) \
    X(CTX, SZ, cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync, 3020, (CUdeviceptr dst, const void *src, size_t bytes, CUstream stream), (dst, src, bytes, stream)) \
    X(CTX, DS, cuMemcpyDtoH_v2, cuMemcpyDtoH, 3020, (void *dst, CUdeviceptr src, size_t bytes), (dst, src, bytes)) \
    X(CTX, SZ, cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync, 3020, (void *dst, CUdeviceptr src, size_t bytes, CUstream stream), (dst, src, bytes, stream)) \
    X(CTX, DS, cuMemcpyDtoD_v2, cuMemcpyDtoD, 3020, (CUdeviceptr dst, CUdeviceptr src, size_t bytes), (dst, src, bytes)) \
    X(CTX, SZ, cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync, 3020, (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream), (dst, src, bytes, stream)) \
    X(CTX, DS, cuMemcpyPeer, cuMemcpyPeer, 4000, (CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src, CUcontext src_context, size_t bytes), (dst, dst_context, src, src_context, bytes)) \
    X(CTX, SZ, cuMemcpyPeerAsync, cuMemcpyPeerAsync, 4000, (CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src, CUcontext src_context, size_t bytes, CUstream stream), (dst, dst_context, src, src_context, bytes, stream)) \
    X(CTX, DS, cuMemcpy2D_v2, cuMemcpy2D, 3020, (const CUDA_MEMCPY2D *copy), (copy)) \
    X(CTX, DS, cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned, 3020, (const CUDA_MEMCPY2D *copy), (copy)) \
    X(CTX, SZ, cuMemcpy2DAsync_v2, cuMemcpy2DAsync, 3020, (const CUDA_MEMCPY2D *copy, CUstream stream), (copy, stream)) \
    X(CTX, DS, cuMemcpy3D_v2, cuMemcpy3D, 3020, (const CUDA_MEMCPY3D *copy), (copy)) \
    X(CTX, SZ, cuMemcpy3DAsync_v2, cuMemcpy3DAsync, 3020, (const CUDA_MEMCPY3D *copy, CUstream stream), (copy, stream)) \
    X(CTX, DS, cuMemcpy3DPeer, cuMemcpy3DPeer, 4000, (const CUDA_MEMCPY3D *copy), (copy)) \
    X(CTX, SZ, cuMemcpy3DPeerAsync, cuMemcpy3DPeerAsync, 4000, (const CUDA_MEMCPY3D *copy, CUstream stream), (copy, stream)) \
    X(CTX, SZ, cuMemcpyBatchAsync, cuMemcpyBatchAsync, 12080, (CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count, void *attributes, size_t *attribute_indices, size_t attribute_count, size_t *fail_index, CUstream stream), (dsts, srcs, sizes, count, attributes, attribute_indices, attribute_count, fail_index, stream)) \
    X(CTX, SZ, cuMemcpyBatchAsync_v2, cuMemcpyBatchAsync, 13000, (CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count, void *attributes, size_t *attribute_indices, size_t attribute_count, CUstream stream), (dsts, srcs, sizes, count, attributes, attribute_indices, attribute_count, stream)) \
    X(CTX, SZ, cuMemcpy3DBatchAsync, cuMemcpy3DBatchAsync, 12080, (size_t count, struct emu_box *boxes, size_t *fail_index, unsigned long long flags, CUstream stream), (count, boxes, fail_index, flags, stream)) \
    X(CTX, SZ, cuMemcpy3DBatchAsync_v2, cuMemcpy3DBatchAsync, 13000, (size_t count, struct emu_box *boxes, unsigned long long flags, CUstream stream), (count, boxes, flags, stream)) \
    /* memsets */ \
    X(CTX, DS, cuMemsetD8_v2, cuMemsetD8, 3020, (CUdeviceptr dst, unsigned char value, size_t n), (dst, value, n)) \
    X(CTX, SZ, cuMemsetD8Async, cuMemsetD8Async, 3020, (CUdeviceptr dst, unsigned char value, size_t n, CUstream stream), (dst, value, n, stream)) \
    X(CTX, DS, cuMemsetD16_v2, cuMemsetD16, 3020, (CUdeviceptr dst, unsigned short value, size_t n), (dst, value, n)) \
    X(CTX, SZ, cuMemsetD16Async, cuMemsetD16Async, 3020, (CUdeviceptr dst, unsigned short value, size_t n, CUstream stream), (dst, value, n, stream)) \
    X(CTX, DS, cuMemsetD32_v2, cuMemsetD32, 3020, (CUdeviceptr dst, unsigned value, size_t n), (dst, value, n)) \
    X(CTX, SZ, cuMemsetD32Async, cuMemsetD32Async, 3020, (CUdeviceptr dst, unsigned value, size_t n, CUstream stream), (dst, value, n, stream)) \
    X(CTX, DS, cuMemsetD2D8_v2, cuMemsetD2D8, 3020, (CUdeviceptr dst, size_t dst_pitch, unsigned char value, size_t width, size_t height), (dst, dst_pitch, value, width, height)) \
    X(CTX, SZ, cuMemsetD2D8Async, cuMemsetD2D8Async, 3020, (CUdeviceptr dst, size_t dst_pitch, unsigned char value, size_t width, size_t height, CUstream stream), (dst, dst_pitch, value, width, height, stream)) \
    X(CTX, DS, cuMemsetD2D16_v2, cuMemsetD2D16, 3020, (CUdeviceptr dst, size_t dst_pitch, unsigned short value, size_t width, size_t height), (dst, dst_pitch, value, width, height)) \
    X(CTX, SZ, cuMemsetD2D16Async, cuMemsetD2D16Async, 3020, (CUdeviceptr dst, size_t dst_pitch, unsigned short value, size_t width, size_t height, CUstream stream), (dst, dst_pitch, value, width, height, stream)) \
    X(CTX, DS, cuMemsetD2D32_v2, cuMemsetD2D32, 3020, (CUdeviceptr dst, size_t dst_pitch, unsigned value, size_t width, size_t height), (dst, dst_pitch, value, width, height)) \
    X(CTX, SZ, cuMemsetD2D32Async, cuMemsetD2D32Async, 3020, (CUdeviceptr dst, size_t dst_pitch, unsigned value, size_t width, size_t height, CUstream stream), (dst, dst_pitch, value, width, height, stream)) \
    /* streams, events */ \
    X(CTX, NO, cuStreamCreate, cuStreamCreate, 2000, (CUstream *stream, unsigned flags), (stream, flags)) \
    X(CTX, NO, cuStreamCreateWithPriority, cuStreamCreateWithPriority, 5050, (CUstream *stream, unsigned flags, int priority), (stream, flags, priority)) \
    X(CTX, NO, cuStreamDestroy_v2, cuStreamDestroy, 4000, (CUstream stream), (stream)) \
    X(CTX, SZ, cuStreamQuery, cuStreamQuery, 2000, (CUstream stream), (stream)) \
    X(CTX, SZ, cuStreamSynchronize, cuStreamSynchronize, 2000, (CUstream stream), (stream)) \
    X(CTX, SZ, cuStreamWaitEvent, cuStreamWaitEvent, 3020, (CUstream stream, CUevent event, unsigned flags), (stream, event, flags)) \
    X(CTX, SZ, cuStreamGetFlags, cuStreamGetFlags, 5050, (CUstream stream, unsigned *flags), (stream, flags)) \
    X(CTX, SZ, cuStreamGetPriority, cuStreamGetPriority, 5050, (CUstream stream, int *priority), (stream, priority)) \
    X(CTX, SZ, cuStreamGetCtx, cuStreamGetCtx, 9020, (CUstream stream, CUcontext *context), (stream, context)) \
    X(CTX, SZ, cuStreamGetId, cuStreamGetId, 12000, (CUstream stream, unsigned long long *stream_id), (stream, stream_id)) \
    X(CTX, SZ, cuStreamGetDevice, cuStreamGetDevice, 12080, (CUstream stream, CUdevice *device), (stream, device)) \
    X(CTX, SZ, cuStreamAddCallback, cuStreamAddCallback, 5000, (CUstream stream, emu_stream_callback callback, void *data, unsigned flags), (stream, callback, data, flags)) \
    X(CTX, SZ, cuStreamWaitValue32_v2, cuStreamWaitValue32, 11070, (CUstream stream, CUdeviceptr address, uint32_t value, unsigned flags), (stream, address, value, flags)) \
    X(CTX, SZ, cuStreamWaitValue64_v2, cuStreamWaitValue64, 11070, (CUstream stream, CUdeviceptr address, uint64_t value, unsigned flags), (stream, address, value, flags)) \
    X(CTX, SZ, cuStreamWriteValue32_v2, cuStreamWriteValue32, 11070, (CUstream stream, CUdeviceptr address, uint32_t value, unsigned flags), (stream, address, value, flags)) \
    X(CTX, SZ, cuStreamWriteValue64_v2, cuStreamWriteValue64, 11070, (CUstream stream, CUdeviceptr address, uint64_t value, unsigned flags), (stream, address, value, flags)) \
    X(CTX, NO, cuEventCreate, cuEventCreate, 2000, (CUevent *event, unsigned flags), (event, flags)) \
    X(CTX, NO, cuEventDestroy_v2, cuEventDestroy, 4000, (CUevent event), (event)) \
    X(CTX, SZ, cuEventRecord, cuEventRecord, 2000, (CUevent event, CUstream stream), (event, stream)) \
    X(CTX, SZ, cuEventRecordWithFlags, cuEventRecordWithFlags, 11010, (CUevent event, CUstream stream, unsigned flags), (event, stream, flags)) \
    X(CTX, NO, cuEventQuery, cuEventQuery, 2000, (CUevent event), (event)) \
    X(CTX, NO, cuEventSynchronize, cuEventSynchronize, 2000, (CUevent event), (event)) \
    X(CTX, NO, cuEventElapsedTime, cuEventElapsedTime, 2000, (float *ms, CUevent start, CUevent end), (ms, start, end)) \
    X(CTX, NO, cuEventElapsedTime_v2, cuEventElapsedTime, 12080, (float *ms, CUevent start, CUevent end), (ms, start, end)) \
    /* capture, graphs */ \
    X(CTX, SZ, cuStreamIsCapturing, cuStreamIsCapturing, 10000, (CUstream stream, int *status), (stream, status)) \
    X(CTX, SZ, cuStreamBeginCapture_v2, cuStreamBeginCapture, 10010, (CUstream stream, int mode), (stream, mode)) \
    X(CTX, SZ, cuStreamEndCapture, cuStreamEndCapture, 10000, (CUstream stream, CUgraph *graph), (stream, graph)) \
    X(CTX, SZ, cuStreamGetCaptureInfo_v2, cuStreamGetCaptureInfo, 11030, (CUstream stream, int *status, uint64_t *id, CUgraph *graph, const CUgraphNode **dependencies, size_t *count), (stream, status, id, graph, dependencies, count)) \
    X(CTX, SZ, cuStreamGetCaptureInfo_v3, cuStreamGetCaptureInfo, 12030, (CUstream stream, int *status, uint64_t *id, CUgraph *graph, const CUgraphNode **dependencies, const void **edges, size_t *count), (stream, status, id, graph, dependencies, edges, count)) \
    X(INIT, NO, cuThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode, 10010, (int *mode), (mode)) \
    X(CTX, NO, cuGraphCreate, cuGraphCreate, 10000, (CUgraph *graph, unsigned flags), (graph, flags)) \
    X(CTX, NO, cuGraphDestroy, cuGraphDestroy, 10000, (CUgraph graph), (graph)) \
    X(CTX, NO, cuGraphGetNodes, cuGraphGetNodes, 10000, (CUgraph graph, CUgraphNode *nodes, size_t *count), (graph, nodes, count)) \
    X(CTX, NO, cuGraphNodeGetType, cuGraphNodeGetType, 10000, (CUgraphNode node, int *type), (node, type)) \
    X(CTX, NO, cuGraphKernelNodeGetParams_v2, cuGraphKernelNodeGetParams, 12000, (CUgraphNode node, struct emu_kernel_node *params), (node, params)) \
    X(CTX, NO, cuGraphMemcpyNodeGetParams, cuGraphMemcpyNodeGetParams, 10000, (CUgraphNode node, CUDA_MEMCPY3D *params), (node, params)) \
    X(CTX, NO, cuGraphMemsetNodeGetParams, cuGraphMemsetNodeGetParams, 10000, (CUgraphNode node, struct emu_set_node *params), (node, params)) \
    X(CTX, NO, cuGraphChildGraphNodeGetGraph, cuGraphChildGraphNodeGetGraph, 10000, (CUgraphNode node, CUgraph *graph), (node, graph)) \
    X(CTX, NO, cuGraphAddKernelNode_v2, cuGraphAddKernelNode, 12000, (CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count, const struct emu_kernel_node *params), (node, graph, after, count, params)) \
    X(CTX, NO, cuGraphAddMemcpyNode, cuGraphAddMemcpyNode, 10000, (CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count, const CUDA_MEMCPY3D *params, CUcontext context), (node, graph, after, count, params, context)) \
    X(CTX, NO, cuGraphAddMemsetNode, cuGraphAddMemsetNode, 10000, (CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count, const struct emu_set_node *params, CUcontext context), (node, graph, after, count, params, context)) \
    X(CTX, NO, cuGraphAddChildGraphNode, cuGraphAddChildGraphNode, 10000, (CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count, CUgraph child), (node, graph, after, count, child)) \
    X(CTX, NO, cuGraphAddNode, cuGraphAddNode, 12020, (CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count, struct emu_node *params), (node, graph, after, count, params)) \
    X(CTX, NO, cuGraphAddNode_v2, cuGraphAddNode, 12030, (CUgraphNode *node, CUgraph graph, const CUgraphNode *after, const void *edges, size_t count, struct emu_node *params), (node, graph, after, edges, count, params)) \
    X(CTX, NO, cuGraphMemcpyNodeSetParams, cuGraphMemcpyNodeSetParams, 10000, (CUgraphNode node, const CUDA_MEMCPY3D *params), (node, params)) \
    X(CTX, NO, cuGraphMemsetNodeSetParams, cuGraphMemsetNodeSetParams, 10000, (CUgraphNode node, const struct emu_set_node *params), (node, params)) \
    X(CTX, NO, cuGraphNodeSetParams, cuGraphNodeSetParams, 12020, (CUgraphNode node, struct emu_node *params), (node, params)) \
    X(CTX, NO, cuGraphExecMemcpyNodeSetParams, cuGraphExecMemcpyNodeSetParams, 10020, (CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *params, CUcontext context), (exec, node, params, context)) \
    X(CTX, NO, cuGraphExecMemsetNodeSetParams, cuGraphExecMemsetNodeSetParams, 10020, (CUgraphExec exec, CUgraphNode node, const struct emu_set_node *params, CUcontext context), (exec, node, params, context)) \
    X(CTX, NO, cuGraphExecNodeSetParams, cuGraphExecNodeSetParams, 12020, (CUgraphExec exec, CUgraphNode node, struct emu_node *params), (exec, node, params)) \
    X(CTX, NO, cuGraphClone, cuGraphClone, 10000, (CUgraph *clone, CUgraph graph), (clone, graph)) \
    X(CTX, NO, cuGraphExecKernelNodeSetParams_v2, cuGraphExecKernelNodeSetParams, 12000, (CUgraphExec exec, CUgraphNode node, const struct emu_kernel_node *params), (exec, node, params)) \
    X(CTX, NO, cuGraphExecUpdate_v2, cuGraphExecUpdate, 12000, (CUgraphExec exec, CUgraph graph, struct emu_update *info), (exec, graph, info)) \
    X(CTX, NO, cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags, 11040, (CUgraphExec *exec, CUgraph graph, unsigned long long flags), (exec, graph, flags)) \
    X(CTX, SZ, cuGraphUpload, cuGraphUpload, 11010, (CUgraphExec exec, CUstream stream), (exec, stream)) \
    X(CTX, SZ, cuGraphLaunch, cuGraphLaunch, 10000, (CUgraphExec exec, CUstream stream), (exec, stream)) \
    X(CTX, NO, cuGraphExecDestroy, cuGraphExecDestroy, 10000, (CUgraphExec exec), (exec))
/* clang-format on */

#endif
