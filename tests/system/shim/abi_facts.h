/* Sizes and places of structures, each told twice: as shim/abi.h has them and as <cuda.h> does. The
 * two headers do not go into one file, so that each of two files makes its own list of this. */
#define ABI_FACTS(SIZE, AT, VALUE)                                                                 \
    SIZE(struct abi_launch, CUDA_LAUNCH_PARAMS)                                                    \
    AT(struct abi_launch, function, CUDA_LAUNCH_PARAMS, function)                                  \
    AT(struct abi_launch, stream, CUDA_LAUNCH_PARAMS, hStream)                                     \
    AT(struct abi_launch, params, CUDA_LAUNCH_PARAMS, kernelParams)                                \
    SIZE(union abi_word, CUstreamBatchMemOpParams)                                                 \
    AT(union abi_word, operation, CUstreamBatchMemOpParams, operation)                             \
    AT(union abi_word, on.address, CUstreamBatchMemOpParams, writeValue.address)                   \
    AT(union abi_word, on.address, CUstreamBatchMemOpParams, waitValue.address)                    \
    VALUE(ABI_WORD_WAIT_32, CU_STREAM_MEM_OP_WAIT_VALUE_32)                                        \
    VALUE(ABI_WORD_WRITE_32, CU_STREAM_MEM_OP_WRITE_VALUE_32)                                      \
    VALUE(ABI_WORD_WAIT_64, CU_STREAM_MEM_OP_WAIT_VALUE_64)                                        \
    VALUE(ABI_WORD_WRITE_64, CU_STREAM_MEM_OP_WRITE_VALUE_64)                                      \
    VALUE(ABI_NODE_KERNEL, CU_GRAPH_NODE_TYPE_KERNEL)                                              \
    VALUE(ABI_NODE_COPY, CU_GRAPH_NODE_TYPE_MEMCPY)                                                \
    VALUE(ABI_NODE_SET, CU_GRAPH_NODE_TYPE_MEMSET)                                                 \
    VALUE(ABI_NODE_CHILD, CU_GRAPH_NODE_TYPE_GRAPH)                                                \
    VALUE(ABI_NODE_WORDS, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP)                                         \
    VALUE(ABI_NODE_CONDITIONAL, CU_GRAPH_NODE_TYPE_CONDITIONAL)                                    \
    SIZE(struct abi_kernel_node, CUDA_KERNEL_NODE_PARAMS_v2)                                       \
    AT(struct abi_kernel_node, params, CUDA_KERNEL_NODE_PARAMS_v2, kernelParams)                   \
    AT(struct abi_kernel_node, extra, CUDA_KERNEL_NODE_PARAMS_v2, extra)                           \
    AT(struct abi_kernel_node, kernel, CUDA_KERNEL_NODE_PARAMS_v2, kern)                           \
    AT(struct abi_kernel_node, params, CUDA_KERNEL_NODE_PARAMS_v1, kernelParams)                   \
    SIZE(struct abi_set_node, CUDA_MEMSET_NODE_PARAMS_v1)                                          \
    AT(struct abi_set_node, to, CUDA_MEMSET_NODE_PARAMS_v1, dst)                                   \
    SIZE(struct abi_words_node, CUDA_BATCH_MEM_OP_NODE_PARAMS_v2)                                  \
    AT(struct abi_words_node, words, CUDA_BATCH_MEM_OP_NODE_PARAMS_v2, paramArray)                 \
    SIZE(struct abi_node, CUgraphNodeParams)                                                       \
    AT(struct abi_node, kernel.params, CUgraphNodeParams, kernel.kernelParams)                     \
    AT(struct abi_node, kernel.kernel, CUgraphNodeParams, kernel.kern)                             \
    AT(struct abi_node, copy.copy, CUgraphNodeParams, memcpy.copyParams)                           \
    AT(struct abi_node, set.to, CUgraphNodeParams, memset.dst)                                     \
    AT(struct abi_node, words.words, CUgraphNodeParams, memOp.paramArray)                          \
    AT(struct abi_node, child, CUgraphNodeParams, graph.graph)                                     \
    AT(struct abi_node, conditional.count, CUgraphNodeParams, conditional.size)                    \
    AT(struct abi_node, conditional.bodies, CUgraphNodeParams, conditional.phGraph_out)            \
    SIZE(struct abi_operand, CUmemcpy3DOperand)                                                    \
    AT(struct abi_operand, pointer.address, CUmemcpy3DOperand, op.ptr.ptr)                         \
    AT(struct abi_operand, pointer.row_length, CUmemcpy3DOperand, op.ptr.rowLength)                \
    AT(struct abi_operand, pointer.layer_height, CUmemcpy3DOperand, op.ptr.layerHeight)            \
    AT(struct abi_operand, pointer.hint, CUmemcpy3DOperand, op.ptr.locHint)                        \
    AT(struct abi_operand, array.array, CUmemcpy3DOperand, op.array.array)                         \
    AT(struct abi_operand, array.z, CUmemcpy3DOperand, op.array.offset.z)                          \
    VALUE(ABI_OPERAND_POINTER, CU_MEMCPY_OPERAND_TYPE_POINTER)                                     \
    VALUE(ABI_OPERAND_ARRAY, CU_MEMCPY_OPERAND_TYPE_ARRAY)                                         \
    SIZE(struct abi_box, CUDA_MEMCPY3D_BATCH_OP)                                                   \
    AT(struct abi_box, from, CUDA_MEMCPY3D_BATCH_OP, src)                                          \
    AT(struct abi_box, to, CUDA_MEMCPY3D_BATCH_OP, dst)                                            \
    AT(struct abi_box, width, CUDA_MEMCPY3D_BATCH_OP, extent.width)                                \
    AT(struct abi_box, height, CUDA_MEMCPY3D_BATCH_OP, extent.height)                              \
    AT(struct abi_box, depth, CUDA_MEMCPY3D_BATCH_OP, extent.depth)                                \
    AT(struct abi_box, order, CUDA_MEMCPY3D_BATCH_OP, srcAccessOrder)                              \
    AT(struct abi_box, flags, CUDA_MEMCPY3D_BATCH_OP, flags)                                       \
    SIZE(struct abi_resource, CUDA_RESOURCE_DESC)                                                  \
    AT(struct abi_resource, address, CUDA_RESOURCE_DESC, res.linear.devPtr)                        \
    AT(struct abi_resource, address, CUDA_RESOURCE_DESC, res.pitch2D.devPtr)                       \
    AT(struct abi_resource, flags, CUDA_RESOURCE_DESC, flags)                                      \
    VALUE(ABI_RESOURCE_LINE, CU_RESOURCE_TYPE_LINEAR)                                              \
    VALUE(ABI_RESOURCE_PLANE, CU_RESOURCE_TYPE_PITCH2D)                                            \
    SIZE(struct abi_array, CUDA_ARRAY_DESCRIPTOR)                                                  \
    AT(struct abi_array, channels, CUDA_ARRAY_DESCRIPTOR, NumChannels)                             \
    SIZE(struct abi_array3, CUDA_ARRAY3D_DESCRIPTOR)                                               \
    AT(struct abi_array3, depth, CUDA_ARRAY3D_DESCRIPTOR, Depth)                                   \
    AT(struct abi_array3, channels, CUDA_ARRAY3D_DESCRIPTOR, NumChannels)                          \
    VALUE(ABI_FORMAT_UINT8, CU_AD_FORMAT_UNSIGNED_INT8)                                            \
    VALUE(ABI_FORMAT_UINT16, CU_AD_FORMAT_UNSIGNED_INT16)                                          \
    VALUE(ABI_FORMAT_INT8, CU_AD_FORMAT_SIGNED_INT8)                                               \
    VALUE(ABI_FORMAT_INT16, CU_AD_FORMAT_SIGNED_INT16)                                             \
    VALUE(ABI_FORMAT_HALF, CU_AD_FORMAT_HALF)                                                      \
    VALUE(ABI_SET_READ_MOSTLY, CU_MEM_ADVISE_SET_READ_MOSTLY)                                      \
    VALUE(ABI_UNSET_READ_MOSTLY, CU_MEM_ADVISE_UNSET_READ_MOSTLY)                                  \
    VALUE(ABI_SET_PREFERRED, CU_MEM_ADVISE_SET_PREFERRED_LOCATION)                                 \
    VALUE(ABI_UNSET_PREFERRED, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION)                             \
    VALUE(ABI_SET_ACCESSED_BY, CU_MEM_ADVISE_SET_ACCESSED_BY)                                      \
    VALUE(ABI_UNSET_ACCESSED_BY, CU_MEM_ADVISE_UNSET_ACCESSED_BY)                                  \
    VALUE(ABI_DEVICE_CPU, CU_DEVICE_CPU)

extern const long abi_facts_real[];
