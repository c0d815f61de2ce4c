#include "emu/internal.h"

/* What the driver says about an address. */

/* Everything known of an address. */
struct known {
    uint64_t start, bytes;               /* of the allocation or reservation */
    uint64_t mapped_start, mapped_bytes; /* of the mapping */
    struct mapping *mapping;
    struct host_memory *host;
    int card;
    bool on_host, open; /* open: somebody may use it */
};

static void know_mapping(struct mapping *mapping, struct known *known)
{
    known->mapping = mapping;
    known->mapped_start = mapping->range.start;
    known->mapped_bytes = mapping->range.end - mapping->range.start;
    known->start = known->mapped_start;
    known->bytes = mapping->asked_bytes;
    if (!mapping->owner) {
        struct range *reservation = range_find(emu.reservations, known->mapped_start);
        known->start = reservation->start;
        known->bytes = reservation->end - reservation->start;
    }
    known->on_host = mapping->phys->place == (int)emu.machine.cards;
    known->card = known->on_host ? 0 : mapping->phys->place;
    known->open = is_open(mapping);
}

static bool look(uint64_t address, struct known *known)
{
    struct mapping *mapping = mapping_at(address);
    *known = (struct known){0};
    if (mapping) {
        know_mapping(mapping, known);
        return true;
    }
    known->host = host_memory_at(address);
    if (!known->host) return false;
    known->start = known->mapped_start = known->host->range.start;
    known->bytes = known->mapped_bytes = known->host->range.end - known->start;
    known->on_host = known->open = true;
    known->card = known->host->owner ? (int)known->host->owner->card : 0;
    return true;
}

static struct context *context_of(const struct known *known)
{
    if (known->host) return known->host->owner;
    return known->mapping->owner; /* what is mapped belongs to no context */
}

/* Of mapped host memory the driver tells the host's base, which there is none. */
CUresult do_cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr address)
{
    struct known known;
    if (!look(address, &known) || !known.open) return CUDA_ERROR_NOT_FOUND;
    bool mapped = known.mapping && !known.mapping->owner;
    if (base) *base = !mapped ? known.start : known.on_host ? 0 : known.mapped_start;
    if (bytes) *bytes = mapped ? known.mapped_bytes : known.bytes;
    return CUDA_SUCCESS;
}

static CUresult pointer_of(void *data, int attribute, const struct known *known, uint64_t address)
{
    struct context *context = context_of(known);
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)data = context ? HANDLE_OF(CUcontext, context) : NULL;
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        if (!known->open) return CUDA_ERROR_INVALID_VALUE;
        *(CUdeviceptr *)data = address;
        break;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (!known->host) return CUDA_ERROR_INVALID_VALUE;
        *(void **)data = (void *)(uintptr_t)address;
        break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: *(CUdeviceptr *)data = known->start; break;
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR: *(CUdeviceptr *)data = known->mapped_start; break;
    default: /* the pool */
        *(CUmemoryPool *)data = NULL;
        if (known->mapping && known->mapping->async)
            *(CUmemoryPool *)data = (CUmemoryPool)(uintptr_t)(known->card + 1);
        break;
    }
    return CUDA_SUCCESS;
}

static unsigned access_of(const struct known *known)
{
    if (known->mapping && !known->mapping->owner) return known->mapping->rights[known->card];
    return CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}

static CUresult attribute_of(void *data, int attribute, CUdeviceptr address)
{
    struct known known;
    if (!data || !look(address, &known)) return CUDA_ERROR_INVALID_VALUE;
    const struct mapping *mapping = known.mapping;
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: return pointer_of(data, attribute, &known, address);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)data = known.on_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        break;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: *(int *)data = 0; break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        *(unsigned long long *)data = mapping ? mapping->serial : known.start;
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *(int *)data = known.card; break;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        *(int *)data = mapping && mapping->owner;
        break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: *(size_t *)data = known.bytes; break;
    case CU_POINTER_ATTRIBUTE_MAPPED: *(int *)data = 1; break;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES: *(uint64_t *)data = 0; break;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE: *(int *)data = !known.on_host; break;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: *(unsigned *)data = access_of(&known); break;
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE: *(size_t *)data = known.mapped_bytes; break;
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        *(unsigned long long *)data = mapping ? mapping->phys->id : known.start;
        break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult do_cuPointerGetAttribute(void *data, int attribute, CUdeviceptr address)
{
    return attribute_of(data, attribute, address);
}

/* What cannot be answered is set to nothing or left alone, and the call succeeds, as the driver's
 * does. */
static CUresult nothing_of(void *data, int attribute, CUdeviceptr address)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: *(CUcontext *)data = NULL; break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: *(unsigned *)data = 0; break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: *(CUdeviceptr *)data = 0; break;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        *(void **)data = mapping_at(address) ? NULL : (void *)(uintptr_t)address;
        break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: *(unsigned long long *)data = 0; break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *(int *)data = -2; break;
    default:
        if (attribute < 1 || attribute > CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID)
            return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult do_cuPointerGetAttributes(unsigned num_attributes, int *attributes, void **data,
                                   CUdeviceptr address)
{
    if (!attributes || !data) return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < num_attributes; i++) {
        if (!data[i]) return CUDA_ERROR_INVALID_VALUE;
        if (attribute_of(data[i], attributes[i], address) == CUDA_SUCCESS) continue;
        CUresult result = nothing_of(data[i], attributes[i], address);
        if (result != CUDA_SUCCESS) return result;
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
