/* What only the wrappers know of the driver's binary interface, beyond driver/abi.h: as much of
 * these structures as they read. tests/system/test_shim_abi.c compares them with <cuda.h>. */
#ifndef SHIM_ABI_H
#define SHIM_ABI_H

#include "driver/abi.h"

/* CUDA_LAUNCH_PARAMS: one launch of cuLaunchCooperativeKernelMultiDevice. */
struct abi_launch {
    CUfunction function;
    unsigned grid[3], block[3], shared_bytes;
    CUstream stream;
    void **params;
};

/* CUstreamBatchMemOpParams: one operation of cuStreamBatchMemOp. */
enum {
    ABI_WORD_WAIT_32 = 1,
    ABI_WORD_WRITE_32 = 2,
    ABI_WORD_WAIT_64 = 4,
    ABI_WORD_WRITE_64 = 5,
    ABI_WORD_REDUCE = 8
};
union abi_word {
    int operation;
    struct {
        int operation;
        CUdeviceptr address;
    } on;
    uint64_t pad[6];
};

/* CUgraphNodeType: the nodes that use memory, and those that hold others. */
enum {
    ABI_NODE_KERNEL = 0,
    ABI_NODE_COPY = 1,
    ABI_NODE_SET = 2,
    ABI_NODE_CHILD = 4,
    ABI_NODE_WORDS = 12,
    ABI_NODE_CONDITIONAL = 13
};

/* CUDA_KERNEL_NODE_PARAMS_v2; the first form ends before `kernel`. */
struct abi_kernel_node {
    CUfunction function;
    unsigned grid[3], block[3], shared_bytes;
    void **params, **extra;
    CUkernel kernel;
    CUcontext context;
};

/* CUDA_MEMSET_NODE_PARAMS. */
struct abi_set_node {
    CUdeviceptr to;
    size_t pitch;
    unsigned value, element_bytes;
    size_t width, height;
};

/* CUDA_BATCH_MEM_OP_NODE_PARAMS. */
struct abi_words_node {
    CUcontext context;
    unsigned count;
    union abi_word *words;
    unsigned flags;
};

/* CUgraphNodeParams: any node. */
struct abi_node {
    int type, reserved[3];
    union {
        long long pad[29];
        struct abi_kernel_node kernel;
        struct {
            int flags, reserved;
            CUcontext context;
            CUDA_MEMCPY3D copy;
        } copy;
        struct abi_set_node set;
        struct abi_words_node words;
        CUgraph child;
        struct {
            unsigned long long handle;
            int type;
            unsigned count;
            CUgraph *bodies; /* the driver fills it in */
            CUcontext context;
        } conditional;
    };
    long long more;
};

/* CUmemcpy3DOperand: one end of a box that cuMemcpy3DBatchAsync copies. */
enum { ABI_OPERAND_POINTER = 1, ABI_OPERAND_ARRAY = 2 };
struct abi_operand {
    int type;
    union {
        struct {
            CUdeviceptr address;
            size_t row_length, layer_height; /* in elements and rows; 0: as the extent says */
            CUmemLocation hint;
        } pointer;
        struct {
            CUarray array;
            size_t x, y, z;
        } array;
    };
};

/* CUDA_MEMCPY3D_BATCH_OP. */
struct abi_box {
    struct abi_operand from, to;
    size_t width, height, depth;
    int order;
    unsigned flags;
};

/* CUDA_ARRAY_DESCRIPTOR, CUDA_ARRAY3D_DESCRIPTOR; and of CUarray_format those of the oldest. */
enum {
    ABI_FORMAT_UINT8 = 0x01,
    ABI_FORMAT_UINT16 = 0x02,
    ABI_FORMAT_INT8 = 0x08,
    ABI_FORMAT_INT16 = 0x09,
    ABI_FORMAT_HALF = 0x10
};
struct abi_array {
    size_t width, height;
    int format;
    unsigned channels;
};
struct abi_array3 {
    size_t width, height, depth;
    int format;
    unsigned channels, flags;
};

/* CUDA_RESOURCE_DESC: what a texture views. */
enum { ABI_RESOURCE_LINE = 2, ABI_RESOURCE_PLANE = 3 };
struct abi_resource {
    int type;
    union {
        CUdeviceptr address; /* of a line or a plane */
        int reserved[32];
    };
    unsigned flags;
};

/* CUmem_advise. */
enum {
    ABI_SET_READ_MOSTLY = 1,
    ABI_UNSET_READ_MOSTLY = 2,
    ABI_SET_PREFERRED = 3,
    ABI_UNSET_PREFERRED = 4,
    ABI_SET_ACCESSED_BY = 5,
    ABI_UNSET_ACCESSED_BY = 6
};

#define ABI_DEVICE_CPU ((CUdevice)-1)

#endif
