/* What the emulator knows of the driver's interface beyond driver/abi.h: things that programs use
 * and vrampool itself does not. Compared with the real header by the same test. */
#ifndef EMU_ABI_MORE_H
#define EMU_ABI_MORE_H

#include "driver/abi.h"

typedef void (*emu_stream_callback)(CUstream stream, CUresult status, void *data);

/* CUDA_KERNEL_NODE_PARAMS_v2 */
struct emu_kernel_node {
    CUfunction func;
    unsigned gridDimX, gridDimY, gridDimZ;
    unsigned blockDimX, blockDimY, blockDimZ;
    unsigned sharedMemBytes;
    void **kernelParams;
    void **extra;
    CUkernel kern;
    CUcontext ctx;
};

/* CUDA_MEMSET_NODE_PARAMS */
struct emu_set_node {
    CUdeviceptr dst;
    size_t pitch;
    unsigned value, elementSize;
    size_t width, height;
};

/* CUgraphNodeParams: any node, of which the emulator knows these. */
struct emu_node {
    int type, reserved[3];
    union {
        long long pad[29];
        struct emu_kernel_node kernel;
        struct {
            int flags, reserved;
            CUcontext ctx;
            CUDA_MEMCPY3D copyParams;
        } memcpy;
        struct emu_set_node memset;
        CUgraph child;
    };
    long long more;
};

/* CUgraphExecUpdateResultInfo; result 0: done, 1: an error, 2: the graphs differ in their nodes. */
struct emu_update {
    int result;
    CUgraphNode errorNode, errorFromNode;
};

/* CUmemcpy3DOperand, of which the emulator knows the form for pointers. */
struct emu_box_side {
    int type; /* 1: a pointer; 2: an array */
    struct {
        CUdeviceptr ptr;
        size_t rowLength, layerHeight; /* 0: as in the extent */
        CUmemLocation locHint;
    } pointer;
};

/* CUDA_MEMCPY3D_BATCH_OP */
struct emu_box {
    struct emu_box_side src, dst;
    struct {
        size_t width, height, depth;
    } extent;
    int srcAccessOrder;
    unsigned flags;
};

/* Every error by name, value and sentence; those of driver/abi.h again. */
#define EMU_ERRORS(X)                                                                              \
    X(SUCCESS, 0, "no error")                                                                      \
    X(ERROR_INVALID_VALUE, 1, "invalid argument")                                                  \
    X(ERROR_OUT_OF_MEMORY, 2, "out of memory")                                                     \
    X(ERROR_NOT_INITIALIZED, 3, "initialization error")                                            \
    X(ERROR_DEINITIALIZED, 4, "driver shutting down")                                              \
    X(ERROR_NO_DEVICE, 100, "no CUDA-capable device is detected")                                  \
    X(ERROR_INVALID_DEVICE, 101, "invalid device ordinal")                                         \
    X(ERROR_INVALID_IMAGE, 200, "device kernel image is invalid")                                  \
    X(ERROR_INVALID_CONTEXT, 201, "invalid device context")                                        \
    X(ERROR_MAP_FAILED, 205, "mapping of buffer object failed")                                    \
    X(ERROR_UNMAP_FAILED, 206, "unmapping of buffer object failed")                                \
    X(ERROR_ALREADY_MAPPED, 208, "resource already mapped")                                        \
    X(ERROR_NO_BINARY_FOR_GPU, 209, "no kernel image is available for execution on the device")    \
    X(ERROR_NOT_MAPPED, 211, "resource not mapped")                                                \
    X(ERROR_ECC_UNCORRECTABLE, 214, "uncorrectable ECC error encountered")                         \
    X(ERROR_UNSUPPORTED_LIMIT, 215, "limit is not supported on this architecture")                 \
    X(ERROR_PEER_ACCESS_UNSUPPORTED, 217, "peer access is not supported between these devices")    \
    X(ERROR_INVALID_PTX, 218, "a PTX JIT compilation failed")                                      \
    X(ERROR_FILE_NOT_FOUND, 301, "file not found")                                                 \
    X(ERROR_OPERATING_SYSTEM, 304, "OS call failed or operation not supported on this OS")         \
    X(ERROR_INVALID_HANDLE, 400, "invalid resource handle")                                        \
    X(ERROR_ILLEGAL_STATE, 401, "the operation cannot be performed in the present state")          \
    X(ERROR_NOT_FOUND, 500, "named symbol not found")                                              \
    X(ERROR_NOT_READY, 600, "device not ready")                                                    \
    X(ERROR_ILLEGAL_ADDRESS, 700, "an illegal memory access was encountered")                      \
    X(ERROR_LAUNCH_OUT_OF_RESOURCES, 701, "too many resources requested for launch")               \
    X(ERROR_PEER_ACCESS_ALREADY_ENABLED, 704, "peer access is already enabled")                    \
    X(ERROR_PEER_ACCESS_NOT_ENABLED, 705, "peer access has not been enabled")                      \
    X(ERROR_CONTEXT_IS_DESTROYED, 709, "context is destroyed")                                     \
    X(ERROR_HOST_MEMORY_ALREADY_REGISTERED, 712, "part or all of the memory is registered")        \
    X(ERROR_HOST_MEMORY_NOT_REGISTERED, 713, "pointer does not correspond to a registered memory") \
    X(ERROR_LAUNCH_FAILED, 719, "unspecified launch failure")                                      \
    X(ERROR_NOT_PERMITTED, 800, "operation not permitted")                                         \
    X(ERROR_NOT_SUPPORTED, 801, "operation not supported")                                         \
    X(ERROR_STREAM_CAPTURE_UNSUPPORTED, 900, "operation not permitted when stream is capturing")   \
    X(ERROR_STREAM_CAPTURE_INVALIDATED, 901,                                                       \
      "operation failed due to a previous error in capture")                                       \
    X(ERROR_STREAM_CAPTURE_MERGE, 902, "operation would merge two capture sequences")              \
    X(ERROR_STREAM_CAPTURE_UNMATCHED, 903, "capture was not ended in the stream where it began")   \
    X(ERROR_STREAM_CAPTURE_UNJOINED, 904, "capturing stream has unjoined work")                    \
    X(ERROR_STREAM_CAPTURE_ISOLATION, 905, "dependency on uncaptured work in another stream")      \
    X(ERROR_STREAM_CAPTURE_IMPLICIT, 906,                                                          \
      "operation would depend on the legacy stream in capture")                                    \
    X(ERROR_CAPTURED_EVENT, 907, "operation not permitted on an event last recorded in a capture") \
    X(ERROR_STREAM_CAPTURE_WRONG_THREAD, 908, "capture was begun by another thread")               \
    X(ERROR_GRAPH_EXEC_UPDATE_FAILURE, 910, "the graphs differ by more than an update can change") \
    X(ERROR_UNKNOWN, 999, "unknown error")

enum {
    CUDA_ERROR_UNSUPPORTED_LIMIT = 215,
    CUDA_ERROR_ILLEGAL_STATE = 401,
    CUDA_ERROR_STREAM_CAPTURE_MERGE = 902,
    CUDA_ERROR_STREAM_CAPTURE_UNMATCHED = 903,
    CUDA_ERROR_STREAM_CAPTURE_UNJOINED = 904,
    CUDA_ERROR_STREAM_CAPTURE_ISOLATION = 905,
    CUDA_ERROR_CAPTURED_EVENT = 907,
    CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE = 910,
};

enum {
    CU_GRAPH_NODE_TYPE_KERNEL = 0,
    CU_GRAPH_NODE_TYPE_MEMCPY = 1,
    CU_GRAPH_NODE_TYPE_MEMSET = 2,
    CU_GRAPH_NODE_TYPE_HOST = 3,
    CU_GRAPH_NODE_TYPE_GRAPH = 4,
    CU_GRAPH_NODE_TYPE_EMPTY = 5,
    CU_GRAPH_NODE_TYPE_WAIT_EVENT = 6,
    CU_GRAPH_NODE_TYPE_EVENT_RECORD = 7,
    CU_GRAPH_NODE_TYPE_BATCH_MEM_OP = 12
};
enum {
    CU_STREAM_WAIT_VALUE_GEQ = 0,
    CU_STREAM_WAIT_VALUE_EQ = 1,
    CU_STREAM_WAIT_VALUE_AND = 2,
    CU_STREAM_WAIT_VALUE_NOR = 3
};
enum {
    CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
    CU_FUNC_ATTRIBUTE_NUM_REGS = 4,
    CU_FUNC_ATTRIBUTE_PTX_VERSION = 5,
    CU_FUNC_ATTRIBUTE_BINARY_VERSION = 6,
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
};

#endif
