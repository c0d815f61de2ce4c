#include "emu/internal.h"

/* What the driver says about an address. */

/* Everything known of an address. */
struct known {
    uint64_t address, start, bytes;
    struct mapping *mapping;
    struct host_memory *host;
    bool reserved; /* reserved, nothing mapped */
    int card;      /* -2: the host */
    bool on_host;
};

static bool look(uint64_t address, struct known *known)
{
    *known = (struct known){.address = address, .card = -2};
    known->mapping = mapping_at(address);
    if (known->mapping) {
        known->start = known->mapping->range.start;
        known->bytes = known->mapping->asked_bytes;
        if (known->bytes == 0) known->bytes = known->mapping->range.end - known->start;
        known->on_host = known->mapping->phys->place == (int)emu.machine.cards;
        known->card = known->on_host ? 0 : known->mapping->phys->place;
        return true;
    }
    known->host = host_memory_at(address);
    if (!known->host) return false;
    known->start = known->host->range.start;
    known->bytes = known->host->range.end - known->start;
    known->on_host = true;
    known->card = known->host->owner ? (int)known->host->owner->card : 0;
    return true;
}

static struct context *context_of(const struct known *known)
{
    if (known->host) return known->host->owner;
    if (known->mapping->owner) return known->mapping->owner;
    return NULL; /* mapped memory belongs to no context */
}

CUresult do_cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr address)
{
    struct known known;
    if (!look(address, &known)) return CUDA_ERROR_NOT_FOUND;
    if (base) *base = known.start;
    if (bytes) *bytes = known.bytes;
    return CUDA_SUCCESS;
}

/* For an address that is nobody's the driver answers some attributes with nothing, and refuses
 * others. */
static CUresult unknown_attribute(void *data, int attribute)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE: *(int *)data = 0; return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult attribute_of(void *data, int attribute, CUdeviceptr address)
{
    struct known known;
    if (!data) return CUDA_ERROR_INVALID_VALUE;
    if (!look(address, &known)) return unknown_attribute(data, attribute);
    struct context *context = context_of(&known);
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)data = context ? HANDLE_OF(CUcontext, context) : NULL;
        break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)data = known.on_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: *(CUdeviceptr *)data = address; break;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (!known.host) return CUDA_ERROR_INVALID_VALUE;
        *(void **)data = (void *)(uintptr_t)address;
        break;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: *(int *)data = 0; break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        *(unsigned long long *)data = known.mapping ? known.mapping->serial : known.start;
        break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: *(int *)data = 0; break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *(int *)data = known.card; break;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        *(int *)data = known.mapping && known.mapping->owner;
        break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: *(CUdeviceptr *)data = known.start; break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: *(size_t *)data = known.bytes; break;
    case CU_POINTER_ATTRIBUTE_MAPPED: *(int *)data = 1; break;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES: *(uint64_t *)data = 0; break;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE: *(int *)data = 0; break;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        *(unsigned *)data = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        if (known.mapping && !known.mapping->owner)
            *(unsigned *)data = known.mapping->rights[known.card];
        break;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *(CUmemoryPool *)data = NULL;
        if (known.mapping && known.mapping->async)
            *(CUmemoryPool *)data = (CUmemoryPool)(uintptr_t)(known.card + 1);
        break;
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE: *(size_t *)data = known.bytes; break;
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR: *(CUdeviceptr *)data = known.start; break;
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        *(unsigned long long *)data = known.mapping ? known.mapping->phys->id : known.start;
        break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult do_cuPointerGetAttribute(void *data, int attribute, CUdeviceptr address)
{
    return attribute_of(data, attribute, address);
}

/* What cannot be answered is left as the driver leaves it: zero, and success. */
CUresult do_cuPointerGetAttributes(unsigned num_attributes, int *attributes, void **data,
                                   CUdeviceptr address)
{
    if (!attributes || !data) return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < num_attributes; i++) {
        if (!data[i]) return CUDA_ERROR_INVALID_VALUE;
        if (attribute_of(data[i], attributes[i], address) == CUDA_SUCCESS) continue;
        switch (attributes[i]) {
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: *(unsigned *)data[i] = 0; break;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *(int *)data[i] = -2; break;
        case CU_POINTER_ATTRIBUTE_CONTEXT:
        case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE: *(uint64_t *)data[i] = 0; break;
        default: return CUDA_ERROR_INVALID_VALUE;
        }
    }
    return CUDA_SUCCESS;
}

CUresult do_cuPointerSetAttribute(const void *value, int attribute, CUdeviceptr address)
{
    struct known known;
    if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !look(address, &known))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

/* ---- Sharing with other processes: there are none, so only the rules of refusal are kept ---- */

CUresult do_cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address)
{
    struct known known;
    if (!handle || !look(address, &known) || !known.mapping || !known.mapping->owner)
        return CUDA_ERROR_INVALID_VALUE; /* mapped memory has no such handle */
    *handle = (CUipcMemHandle){{0}};
    for (unsigned i = 0; i < 8; i++) handle->reserved[i] = (char)(known.start >> 8 * i);
    return CUDA_SUCCESS;
}

CUresult do_cuIpcOpenMemHandle_v2(CUdeviceptr *address, CUipcMemHandle handle, unsigned flags)
{
    return CUDA_ERROR_INVALID_CONTEXT; /* a process may not open its own */
}

CUresult do_cuIpcCloseMemHandle(CUdeviceptr address)
{
    return CUDA_ERROR_INVALID_VALUE;
}
