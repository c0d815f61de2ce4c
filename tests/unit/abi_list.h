/* What test_abi.c compares, one list for both sides: V(value), S(type), F(type, field). */
#define ABI_LIST(V, S, F)                                                                          \
    V(CUDA_SUCCESS)                                                                                \
    V(CUDA_ERROR_INVALID_VALUE)                                                                    \
    V(CUDA_ERROR_OUT_OF_MEMORY)                                                                    \
    V(CUDA_ERROR_NOT_INITIALIZED)                                                                  \
    V(CUDA_ERROR_DEINITIALIZED)                                                                    \
    V(CUDA_ERROR_NO_DEVICE)                                                                        \
    V(CUDA_ERROR_INVALID_DEVICE)                                                                   \
    V(CUDA_ERROR_INVALID_IMAGE)                                                                    \
    V(CUDA_ERROR_INVALID_CONTEXT)                                                                  \
    V(CUDA_ERROR_MAP_FAILED)                                                                       \
    V(CUDA_ERROR_UNMAP_FAILED)                                                                     \
    V(CUDA_ERROR_ALREADY_MAPPED)                                                                   \
    V(CUDA_ERROR_NO_BINARY_FOR_GPU)                                                                \
    V(CUDA_ERROR_NOT_MAPPED)                                                                       \
    V(CUDA_ERROR_ECC_UNCORRECTABLE)                                                                \
    V(CUDA_ERROR_UNSUPPORTED_LIMIT)                                                                \
    V(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED)                                                          \
    V(CUDA_ERROR_INVALID_PTX)                                                                      \
    V(CUDA_ERROR_FILE_NOT_FOUND)                                                                   \
    V(CUDA_ERROR_OPERATING_SYSTEM)                                                                 \
    V(CUDA_ERROR_INVALID_HANDLE)                                                                   \
    V(CUDA_ERROR_ILLEGAL_STATE)                                                                    \
    V(CUDA_ERROR_NOT_FOUND)                                                                        \
    V(CUDA_ERROR_NOT_READY)                                                                        \
    V(CUDA_ERROR_ILLEGAL_ADDRESS)                                                                  \
    V(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES)                                                          \
    V(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)                                                      \
    V(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED)                                                          \
    V(CUDA_ERROR_CONTEXT_IS_DESTROYED)                                                             \
    V(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED)                                                   \
    V(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED)                                                       \
    V(CUDA_ERROR_LAUNCH_FAILED)                                                                    \
    V(CUDA_ERROR_NOT_PERMITTED)                                                                    \
    V(CUDA_ERROR_NOT_SUPPORTED)                                                                    \
    V(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)                                                       \
    V(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)                                                       \
    V(CUDA_ERROR_STREAM_CAPTURE_MERGE)                                                             \
    V(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED)                                                         \
    V(CUDA_ERROR_STREAM_CAPTURE_UNJOINED)                                                          \
    V(CUDA_ERROR_STREAM_CAPTURE_ISOLATION)                                                         \
    V(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)                                                          \
    V(CUDA_ERROR_CAPTURED_EVENT)                                                                   \
    V(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD)                                                      \
    V(CUDA_ERROR_UNKNOWN)                                                                          \
    V(CU_STREAM_LEGACY)                                                                            \
    V(CU_STREAM_PER_THREAD)                                                                        \
    V(CU_STREAM_DEFAULT)                                                                           \
    V(CU_STREAM_NON_BLOCKING)                                                                      \
    V(CU_EVENT_DEFAULT)                                                                            \
    V(CU_EVENT_BLOCKING_SYNC)                                                                      \
    V(CU_EVENT_DISABLE_TIMING)                                                                     \
    V(CU_STREAM_CAPTURE_STATUS_NONE)                                                               \
    V(CU_STREAM_CAPTURE_STATUS_ACTIVE)                                                             \
    V(CU_STREAM_CAPTURE_STATUS_INVALIDATED)                                                        \
    V(CU_STREAM_CAPTURE_MODE_GLOBAL)                                                               \
    V(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)                                                         \
    V(CU_STREAM_CAPTURE_MODE_RELAXED)                                                              \
    V(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)                                                           \
    V(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)                                                           \
    V(CU_MEMPOOL_ATTR_USED_MEM_HIGH)                                                               \
    V(CU_MEMORYTYPE_HOST)                                                                          \
    V(CU_MEMORYTYPE_DEVICE)                                                                        \
    V(CU_MEMORYTYPE_ARRAY)                                                                         \
    V(CU_MEMORYTYPE_UNIFIED)                                                                       \
    V(CU_MEM_ALLOCATION_TYPE_PINNED)                                                               \
    V(CU_MEM_LOCATION_TYPE_DEVICE)                                                                 \
    V(CU_MEM_LOCATION_TYPE_HOST)                                                                   \
    V(CU_MEM_LOCATION_TYPE_HOST_NUMA)                                                              \
    V(CU_MEM_ACCESS_FLAGS_PROT_NONE)                                                               \
    V(CU_MEM_ACCESS_FLAGS_PROT_READ)                                                               \
    V(CU_MEM_ACCESS_FLAGS_PROT_READWRITE)                                                          \
    V(CU_MEM_ALLOC_GRANULARITY_MINIMUM)                                                            \
    V(CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)                                                        \
    V(CU_LAUNCH_PARAM_END)                                                                         \
    V(CU_LAUNCH_PARAM_BUFFER_POINTER)                                                              \
    V(CU_LAUNCH_PARAM_BUFFER_SIZE)                                                                 \
    V(CU_POINTER_ATTRIBUTE_CONTEXT)                                                                \
    V(CU_POINTER_ATTRIBUTE_MEMORY_TYPE)                                                            \
    V(CU_POINTER_ATTRIBUTE_DEVICE_POINTER)                                                         \
    V(CU_POINTER_ATTRIBUTE_HOST_POINTER)                                                           \
    V(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)                                                            \
    V(CU_POINTER_ATTRIBUTE_BUFFER_ID)                                                              \
    V(CU_POINTER_ATTRIBUTE_IS_MANAGED)                                                             \
    V(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)                                                         \
    V(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE)                                             \
    V(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR)                                                       \
    V(CU_POINTER_ATTRIBUTE_RANGE_SIZE)                                                             \
    V(CU_POINTER_ATTRIBUTE_MAPPED)                                                                 \
    V(CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES)                                                   \
    V(CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE)                                             \
    V(CU_POINTER_ATTRIBUTE_ACCESS_FLAGS)                                                           \
    V(CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE)                                                         \
    V(CU_POINTER_ATTRIBUTE_MAPPING_SIZE)                                                           \
    V(CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR)                                                      \
    V(CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID)                                                        \
    V(CU_DEVICE_ATTRIBUTE_CLOCK_RATE)                                                              \
    V(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)                                                    \
    V(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)                                                              \
    V(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID)                                                           \
    V(CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT)                                                      \
    V(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING)                                                      \
    V(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID)                                                           \
    V(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)                                                \
    V(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)                                                \
    V(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)                                     \
    V(CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID)                                                            \
    V(CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)                           \
    V(CU_GET_PROC_ADDRESS_DEFAULT)                                                                 \
    V(CU_GET_PROC_ADDRESS_LEGACY_STREAM)                                                           \
    V(CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)                                               \
    V(CU_GET_PROC_ADDRESS_SUCCESS)                                                                 \
    V(CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND)                                                        \
    V(CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT)                                                  \
    V(CU_GRAPH_NODE_TYPE_KERNEL)                                                                   \
    V(CU_GRAPH_NODE_TYPE_MEMCPY)                                                                   \
    V(CU_GRAPH_NODE_TYPE_MEMSET)                                                                   \
    V(CU_GRAPH_NODE_TYPE_HOST)                                                                     \
    V(CU_GRAPH_NODE_TYPE_EMPTY)                                                                    \
    V(CU_GRAPH_NODE_TYPE_WAIT_EVENT)                                                               \
    V(CU_GRAPH_NODE_TYPE_EVENT_RECORD)                                                             \
    V(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP)                                                             \
    V(CU_STREAM_WAIT_VALUE_GEQ)                                                                    \
    V(CU_STREAM_WAIT_VALUE_EQ)                                                                     \
    V(CU_STREAM_WAIT_VALUE_AND)                                                                    \
    V(CU_STREAM_WAIT_VALUE_NOR)                                                                    \
    V(CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK)                                                    \
    V(CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED)                                                    \
    V(CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED)                                             \
    V(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)                                                     \
    V(CU_FUNC_ATTRIBUTE_NUM_REGS)                                                                  \
    V(CU_FUNC_ATTRIBUTE_PTX_VERSION)                                                               \
    V(CU_FUNC_ATTRIBUTE_BINARY_VERSION)                                                            \
    V(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)                                             \
    S(CUresult)                                                                                    \
    S(CUdevice)                                                                                    \
    S(CUdeviceptr)                                                                                 \
    S(CUmemGenericAllocationHandle)                                                                \
    S(CUuuid)                                                                                      \
    S(CUipcMemHandle)                                                                              \
    S(CUmemLocation)                                                                               \
    F(CUmemLocation, type)                                                                         \
    F(CUmemLocation, id)                                                                           \
    S(CUmemAllocationProp)                                                                         \
    F(CUmemAllocationProp, type)                                                                   \
    F(CUmemAllocationProp, requestedHandleTypes)                                                   \
    F(CUmemAllocationProp, location)                                                               \
    F(CUmemAllocationProp, win32HandleMetaData)                                                    \
    F(CUmemAllocationProp, allocFlags)                                                             \
    F(CUmemAllocationProp, allocFlags.gpuDirectRDMACapable)                                        \
    F(CUmemAllocationProp, allocFlags.usage)                                                       \
    S(CUmemAccessDesc)                                                                             \
    F(CUmemAccessDesc, flags)                                                                      \
    S(CUDA_MEMCPY2D)                                                                               \
    F(CUDA_MEMCPY2D, srcY)                                                                         \
    F(CUDA_MEMCPY2D, srcMemoryType)                                                                \
    F(CUDA_MEMCPY2D, srcHost)                                                                      \
    F(CUDA_MEMCPY2D, srcDevice)                                                                    \
    F(CUDA_MEMCPY2D, srcArray)                                                                     \
    F(CUDA_MEMCPY2D, srcPitch)                                                                     \
    F(CUDA_MEMCPY2D, dstXInBytes)                                                                  \
    F(CUDA_MEMCPY2D, dstMemoryType)                                                                \
    F(CUDA_MEMCPY2D, dstHost)                                                                      \
    F(CUDA_MEMCPY2D, dstDevice)                                                                    \
    F(CUDA_MEMCPY2D, dstPitch)                                                                     \
    F(CUDA_MEMCPY2D, WidthInBytes)                                                                 \
    F(CUDA_MEMCPY2D, Height)                                                                       \
    S(CUDA_MEMCPY3D)                                                                               \
    S(CUDA_MEMCPY3D_PEER)                                                                          \
    F(CUDA_MEMCPY3D, srcLOD)                                                                       \
    F(CUDA_MEMCPY3D, srcMemoryType)                                                                \
    F(CUDA_MEMCPY3D, srcDevice)                                                                    \
    F(CUDA_MEMCPY3D, srcPitch)                                                                     \
    F(CUDA_MEMCPY3D, srcHeight)                                                                    \
    F(CUDA_MEMCPY3D, dstXInBytes)                                                                  \
    F(CUDA_MEMCPY3D, dstLOD)                                                                       \
    F(CUDA_MEMCPY3D, dstMemoryType)                                                                \
    F(CUDA_MEMCPY3D, dstDevice)                                                                    \
    F(CUDA_MEMCPY3D, dstPitch)                                                                     \
    F(CUDA_MEMCPY3D, dstHeight)                                                                    \
    F(CUDA_MEMCPY3D, WidthInBytes)                                                                 \
    F(CUDA_MEMCPY3D, Depth)                                                                        \
    F(CUDA_MEMCPY3D_PEER, srcContext)                                                              \
    F(CUDA_MEMCPY3D_PEER, dstContext)                                                              \
    F(CUDA_MEMCPY3D_PEER, Depth)                                                                   \
    S(CUlaunchAttribute)                                                                           \
    F(CUlaunchAttribute, id)                                                                       \
    F(CUlaunchAttribute, value)                                                                    \
    S(CUlaunchConfig)                                                                              \
    F(CUlaunchConfig, blockDimX)                                                                   \
    F(CUlaunchConfig, sharedMemBytes)                                                              \
    F(CUlaunchConfig, hStream)                                                                     \
    F(CUlaunchConfig, attrs)                                                                       \
    F(CUlaunchConfig, numAttrs)                                                                    \
    S(CUDA_KERNEL_NODE_PARAMS)                                                                     \
    F(CUDA_KERNEL_NODE_PARAMS, func)                                                               \
    F(CUDA_KERNEL_NODE_PARAMS, blockDimX)                                                          \
    F(CUDA_KERNEL_NODE_PARAMS, kernelParams)                                                       \
    F(CUDA_KERNEL_NODE_PARAMS, extra)                                                              \
    F(CUDA_KERNEL_NODE_PARAMS, kern)                                                               \
    F(CUDA_KERNEL_NODE_PARAMS, ctx)                                                                \
    S(CUgraphNodeParams)                                                                           \
    F(CUgraphNodeParams, kernel.kern)                                                              \
    F(CUgraphNodeParams, memcpy.copyParams)                                                        \
    F(CUgraphNodeParams, memset.dst)                                                               \
    S(CUmemcpy3DOperand)                                                                           \
    F(CUmemcpy3DOperand, OPERAND.ptr)                                                              \
    F(CUmemcpy3DOperand, OPERAND.layerHeight)                                                      \
    F(CUmemcpy3DOperand, OPERAND.locHint)                                                          \
    S(CUDA_MEMCPY3D_BATCH_OP)                                                                      \
    F(CUDA_MEMCPY3D_BATCH_OP, dst)                                                                 \
    F(CUDA_MEMCPY3D_BATCH_OP, extent)                                                              \
    F(CUDA_MEMCPY3D_BATCH_OP, srcAccessOrder)                                                      \
    F(CUDA_MEMCPY3D_BATCH_OP, flags)

struct abi_entry {
    const char *text;
    unsigned long long value;
};

#define ABI_VALUE(value)        {#value, (unsigned long long)(value)},
#define ABI_SIZE(type)          {"sizeof(" #type ")", sizeof(type)},
#define ABI_OFFSET(type, field) {"offsetof(" #type ", " #field ")", offsetof(type, field)},
