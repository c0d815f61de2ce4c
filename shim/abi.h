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
