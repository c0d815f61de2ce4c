#include "emu/internal.h"

#include <string.h>
#include <sys/mman.h>

/* ---- Physical memory ---- */

static uint64_t place_bytes(int place)
{
    return place == (int)emu.machine.cards ? emu.machine.host_bytes : emu.machine.hbm_bytes[place];
}

/* Small allocations are cut from granules of their own. */
uint64_t place_used(int place)
{
    return emu.used_bytes[place] +
           units_round_up(emu.slab_bytes[place], emu.machine.granularity_bytes);
}

bool place_fits(int place, uint64_t bytes)
{
    uint64_t most = place_bytes(place), used = place_used(place);
    return used <= most && bytes <= most - used;
}

static uint64_t *account_of(int place, bool in_slab)
{
    return in_slab ? &emu.slab_bytes[place] : &emu.used_bytes[place];
}

struct phys *phys_new(int place, uint64_t bytes, bool in_slab, CUresult *error)
{
    *error = CUDA_ERROR_OUT_OF_MEMORY;
    *account_of(place, in_slab) += bytes;
    bool fits = place_fits(place, 0);
    *account_of(place, in_slab) -= bytes;
    if (!fits) return NULL;
    struct phys *phys = calloc(1, sizeof *phys);
    if (!phys) return NULL;
    phys->id = ++emu.next_phys;
    phys->bytes = bytes;
    phys->place = place;
    phys->in_slab = in_slab;
    phys->pages = calloc(units_div_up(bytes, EMU_PAGE_BYTES), sizeof *phys->pages);
    if (!phys->pages) {
        free(phys);
        return NULL;
    }
    *account_of(place, in_slab) += bytes;
    *error = CUDA_SUCCESS;
    return phys;
}

void phys_unref(struct phys *phys)
{
    if (phys->references > 0 || phys->mappings > 0) return;
    *account_of(phys->place, phys->in_slab) -= phys->bytes;
    for (uint64_t i = 0; i < units_div_up(phys->bytes, EMU_PAGE_BYTES); i++) free(phys->pages[i]);
    free(phys->pages);
    free(phys);
}

/* What memory holds before anybody has written it: not numbers as float or bfloat16, no pool
 * addresses, and different in each page. */
static void poison(unsigned char *at, uint64_t bytes, uint64_t seed)
{
    struct random random = {seed};
    uint64_t word =
        (random_next(&random) & UINT64_C(0x0000ffff0000ffff)) | UINT64_C(0x7fc000007fc00000);
    for (uint64_t i = 0; i + 8 <= bytes; i += 8) memcpy(at + i, &word, 8);
    memcpy(at + bytes / 8 * 8, &word, bytes % 8);
}

unsigned char *phys_at(struct phys *phys, uint64_t offset, uint64_t *contiguous)
{
    assert(offset < phys->bytes);
    uint64_t page = offset / EMU_PAGE_BYTES, within = offset % EMU_PAGE_BYTES;
    uint64_t end = (page + 1) * EMU_PAGE_BYTES;
    *contiguous = (end < phys->bytes ? end : phys->bytes) - offset;
    if (!emu.options.carry_data) {
        if (*contiguous > EMU_SCRATCH_BYTES) *contiguous = EMU_SCRATCH_BYTES;
        return emu.scratch;
    }
    if (!phys->pages[page]) {
        uint64_t bytes = within + *contiguous;
        unsigned char *at = malloc(bytes);
        if (!at) {
            log_error("emulator: the machine it runs on has no memory left for %llu bytes",
                      (unsigned long long)bytes);
            abort();
        }
        poison(at, bytes, emu.options.seed ^ (phys->id << 32) ^ page);
        phys->pages[page] = at;
    }
    return phys->pages[page] + within;
}

/* Checks a description of memory and finds its place. */
static CUresult place_of(const CUmemAllocationProp *prop, int *place)
{
    if (!prop || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
    int id = prop->location.id;
    switch (prop->location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
        if (!card_is_valid(id)) return CUDA_ERROR_INVALID_DEVICE;
        *place = id;
        return CUDA_SUCCESS;
    case CU_MEM_LOCATION_TYPE_HOST: break;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
        if (id != 0) return CUDA_ERROR_INVALID_DEVICE; /* one node */
        break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    *place = (int)emu.machine.cards;
    return CUDA_SUCCESS;
}

CUresult do_cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
                                          int option)
{
    int place;
    if (!granularity || (unsigned)option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = place_of(prop, &place);
    if (result == CUDA_SUCCESS) *granularity = emu.machine.granularity_bytes;
    return result;
}

CUresult do_cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
                        const CUmemAllocationProp *prop, unsigned long long flags)
{
    int place;
    if (!handle || flags != 0 || bytes == 0 || bytes % emu.machine.granularity_bytes)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = place_of(prop, &place);
    if (result != CUDA_SUCCESS) return result;
    if (place < (int)emu.machine.cards && emu.card_lost[place]) return CUDA_ERROR_UNKNOWN;
    struct phys *phys = phys_new(place, bytes, false, &result);
    bool on_card = place < (int)emu.machine.cards;
    charge_locked(on_card ? emu.machine.costs.create_card : emu.machine.costs.create_host,
                  phys ? bytes : 0);
    if (!phys) return result;
    phys->prop = *prop;
    phys->references = 1;
    phys->handle = handle_new(HANDLE_PHYS, phys);
    *handle = phys->handle;
    return CUDA_SUCCESS;
}

CUresult do_cuMemRelease(CUmemGenericAllocationHandle handle)
{
    struct phys *phys = handle_get(HANDLE_PHYS, handle);
    if (!phys) return CUDA_ERROR_INVALID_VALUE;
    bool on_card = phys->place < (int)emu.machine.cards;
    charge_locked(on_card ? emu.machine.costs.release_card : emu.machine.costs.release_host,
                  phys->bytes);
    if (--phys->references > 0) return CUDA_SUCCESS;
    handle_free(phys->handle);
    phys->handle = 0;
    phys_unref(phys);
    return CUDA_SUCCESS;
}

CUresult do_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
    struct mapping *mapping = mapping_at((uint64_t)(uintptr_t)address);
    if (!handle || !mapping || mapping->owner) return CUDA_ERROR_INVALID_VALUE;
    struct phys *phys = mapping->phys;
    if (!phys->handle) phys->handle = handle_new(HANDLE_PHYS, phys);
    phys->references++;
    *handle = phys->handle;
    return CUDA_SUCCESS;
}

CUresult do_cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
                                                   CUmemGenericAllocationHandle handle)
{
    struct phys *phys = handle_get(HANDLE_PHYS, handle);
    if (!prop || !phys) return CUDA_ERROR_INVALID_VALUE;
    *prop = phys->prop;
    return CUDA_SUCCESS;
}

CUresult do_cuMemExportToShareableHandle(void *shareable_handle,
                                         CUmemGenericAllocationHandle handle, int handle_type,
                                         unsigned long long flags)
{
    return CUDA_ERROR_NOT_SUPPORTED; /* there is no other process to share with */
}

CUresult do_cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *os_handle,
                                           int sh_handle_type)
{
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* ---- Allocations ---- */

enum { ALLOC_ALIGNMENT = 512 };

CUresult memory_alloc(struct context *context, uint64_t bytes, bool async, CUdeviceptr *address)
{
    if (!address || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    if (bytes > emu.machine.hbm_bytes[context->card]) return CUDA_ERROR_OUT_OF_MEMORY;
    bool small = bytes < emu.machine.granularity_bytes;
    uint64_t whole = units_round_up(bytes, small ? ALLOC_ALIGNMENT : emu.machine.granularity_bytes);
    CUresult result;
    struct phys *phys = phys_new((int)context->card, whole, small, &result);
    if (!phys) return result;
    struct reservation *reservation = reservation_new(whole, ALLOC_ALIGNMENT, 0, true);
    if (!reservation) {
        phys_unref(phys);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    struct mapping *mapping = mapping_add(reservation->range.start, whole, phys);
    mapping->owner = context;
    mapping->asked_bytes = bytes;
    mapping->async = async;
    unsigned card = context->card;
    if (async) emu.pool_bytes[card] += whole;
    if (emu.pool_peak_bytes[card] < emu.pool_bytes[card])
        emu.pool_peak_bytes[card] = emu.pool_bytes[card];
    *address = reservation->range.start;
    return CUDA_SUCCESS;
}

void memory_free(struct mapping *mapping)
{
    uint64_t start = mapping->range.start;
    if (mapping->async)
        emu.pool_bytes[mapping->owner->card] -= mapping->range.end - mapping->range.start;
    mapping_remove(mapping);
    struct range *range = range_find(emu.reservations, start);
    assert(range);
    reservation_free((struct reservation *)range);
}

CUresult do_cuMemAlloc_v2(CUdeviceptr *address, size_t bytes)
{
    CUresult result = capture_forbids();
    if (result == CUDA_SUCCESS) result = memory_alloc(context_current(), bytes, false, address);
    charge_locked(emu.machine.costs.create_card, result == CUDA_SUCCESS ? bytes : 0);
    return result;
}

CUresult do_cuMemAllocPitch_v2(CUdeviceptr *address, size_t *pitch, size_t width_in_bytes,
                               size_t height, unsigned element_size_bytes)
{
    if (!pitch || width_in_bytes == 0 || height == 0) return CUDA_ERROR_INVALID_VALUE;
    if (element_size_bytes != 4 && element_size_bytes != 8 && element_size_bytes != 16)
        return CUDA_ERROR_INVALID_VALUE;
    size_t row = units_round_up(width_in_bytes, ALLOC_ALIGNMENT), bytes;
    if (__builtin_mul_overflow(row, height, &bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = do_cuMemAlloc_v2(address, bytes);
    if (result == CUDA_SUCCESS) *pitch = row;
    return result;
}

/* Like the driver, waits for the work of the allocation's context first. */
CUresult do_cuMemFree_v2(CUdeviceptr address)
{
    if (address == 0) return CUDA_SUCCESS;
    struct mapping *mapping = mapping_at(address);
    if (!mapping || !mapping->owner || mapping->range.start != address)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = capture_forbids();
    if (result != CUDA_SUCCESS) return result;
    struct context *context = mapping->owner;
    uint64_t last = emu.next_op, bytes = mapping->range.end - mapping->range.start;
    while (!list_empty(&context->ops)) {
        struct op *op = list_entry(context->ops.next, struct op, in_context);
        if (op->id > last) break;
        op_wait(op);
    }
    if (mapping_at(address) != mapping) return CUDA_ERROR_INVALID_VALUE; /* freed meanwhile */
    findings_memory_goes(address, address + bytes, true);
    memory_free(mapping);
    charge_locked(emu.machine.costs.release_card, bytes);
    return context->lost;
}

CUresult do_cuMemAllocManaged(CUdeviceptr *address, size_t bytes, unsigned flags)
{
    return CUDA_ERROR_NOT_SUPPORTED; /* never used here */
}

CUresult do_cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
    unsigned card = context_current()->card;
    if (!free_bytes || !total_bytes) return CUDA_ERROR_INVALID_VALUE;
    *total_bytes = emu.machine.hbm_bytes[card];
    *free_bytes = emu.machine.hbm_bytes[card] - place_used((int)card);
    return CUDA_SUCCESS;
}

/* ---- Stream-ordered allocations: one pool a card, without limits or reuse of its own ---- */

CUresult do_cuMemAllocAsync(CUdeviceptr *address, size_t bytes, CUstream stream)
{
    struct stream *found = stream_find(stream);
    if (!found) return CUDA_ERROR_INVALID_HANDLE;
    if (found->capture) return CUDA_ERROR_NOT_SUPPORTED;
    charge(emu.machine.costs.copy, 0);
    CUresult result = memory_alloc(found->context, bytes, true, address);
    while (result == CUDA_ERROR_OUT_OF_MEMORY && !list_empty(&found->context->ops)) {
        op_wait(list_entry(found->context->ops.next, struct op, in_context)); /* frees may come */
        result = memory_alloc(found->context, bytes, true, address);
    }
    return result;
}

static bool pool_is_valid(CUmemoryPool pool)
{
    uintptr_t card = (uintptr_t)pool - 1; /* pools are numbered from 1 */
    return pool && card < emu.machine.cards;
}

CUresult do_cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t bytes, CUmemoryPool pool,
                                    CUstream stream)
{
    if (!pool_is_valid(pool)) return CUDA_ERROR_INVALID_VALUE;
    return do_cuMemAllocAsync(address, bytes, stream);
}

CUresult do_cuMemFreeAsync(CUdeviceptr address, CUstream stream)
{
    struct stream *found = stream_find(stream);
    struct mapping *mapping = mapping_at(address);
    if (!found) return CUDA_ERROR_INVALID_HANDLE;
    if (!mapping || !mapping->owner || mapping->range.start != address)
        return CUDA_ERROR_INVALID_VALUE;
    if (found->capture) return CUDA_ERROR_NOT_SUPPORTED;
    charge(emu.machine.costs.copy, 0);
    struct op *op = op_new(found->context, OP_FREE, "cuMemFreeAsync");
    op->address = address;
    return op_submit(found, op);
}

CUresult do_cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device)
{
    if (!pool) return CUDA_ERROR_INVALID_VALUE;
    if (!card_is_valid(device)) return CUDA_ERROR_INVALID_DEVICE;
    *pool = (CUmemoryPool)(uintptr_t)(device + 1);
    return CUDA_SUCCESS;
}

CUresult do_cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device)
{
    return do_cuDeviceGetDefaultMemPool(pool, device);
}

CUresult do_cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
    if (!card_is_valid(device)) return CUDA_ERROR_INVALID_DEVICE;
    return pool_is_valid(pool) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult do_cuMemPoolCreate(CUmemoryPool *pool, const void *pool_props)
{
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult do_cuMemPoolDestroy(CUmemoryPool pool)
{
    return CUDA_ERROR_INVALID_VALUE; /* a card's own pool cannot be destroyed */
}

CUresult do_cuMemPoolTrimTo(CUmemoryPool pool, size_t min_bytes_to_keep)
{
    return pool_is_valid(pool) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult do_cuMemPoolSetAttribute(CUmemoryPool pool, int attr, void *value)
{
    return pool_is_valid(pool) && value ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult do_cuMemPoolGetAttribute(CUmemoryPool pool, int attr, void *value)
{
    if (!pool_is_valid(pool) || !value || attr < 1 || attr > 8) return CUDA_ERROR_INVALID_VALUE;
    if (attr < 4) {
        *(int *)value = 1;
        return CUDA_SUCCESS;
    }
    uintptr_t card = (uintptr_t)pool - 1;
    bool peak = attr == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH || attr == CU_MEMPOOL_ATTR_USED_MEM_HIGH;
    uint64_t bytes = peak ? emu.pool_peak_bytes[card] : emu.pool_bytes[card];
    *(uint64_t *)value = attr == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
                             ? 0
                             : bytes; /* what is free is given back at once */
    return CUDA_SUCCESS;
}

CUresult do_cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
    return pool_is_valid(pool) && map ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- Pinned host memory: real memory, its own address on every card ---- */

struct host_memory *host_memory_at(uint64_t address)
{
    return (struct host_memory *)range_find(emu.host_memories, address);
}

static struct host_memory *host_memory_add(void *pointer, uint64_t bytes, unsigned flags)
{
    struct host_memory *memory = calloc(1, sizeof *memory);
    assert(memory);
    memory->range.start = (uint64_t)(uintptr_t)pointer;
    memory->range.end = memory->range.start + bytes;
    memory->flags = flags;
    memory->owner = context_current();
    range_insert(&emu.host_memories, &memory->range);
    return memory;
}

CUresult do_cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags)
{
    if (!pointer || bytes == 0 || flags > 7) return CUDA_ERROR_INVALID_VALUE;
    CUresult result = capture_forbids();
    if (result != CUDA_SUCCESS) return result;
    uint64_t whole = units_round_up(bytes, 4096);
    int host = (int)emu.machine.cards;
    void *at = MAP_FAILED;
    if (whole >= bytes && place_fits(host, whole))
        at = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    charge_locked(emu.machine.costs.create_host, at == MAP_FAILED ? 0 : bytes);
    if (at == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    emu.used_bytes[host] += whole;
    host_memory_add(at, whole, flags)->mapped_bytes = whole;
    *pointer = at;
    return CUDA_SUCCESS;
}

CUresult do_cuMemAllocHost_v2(void **pointer, size_t bytes)
{
    return do_cuMemHostAlloc(pointer, bytes, 0);
}

static void host_memory_drop(struct host_memory *memory)
{
    range_remove(&emu.host_memories, &memory->range);
    if (!memory->registered) {
        munmap((void *)(uintptr_t)memory->range.start, memory->mapped_bytes);
        emu.used_bytes[emu.machine.cards] -= memory->mapped_bytes;
    }
    free(memory);
}

/* Both wait, like the driver, until no work can use the memory any more. */
static CUresult host_memory_end(void *pointer, bool registered, CUresult otherwise)
{
    struct host_memory *memory = host_memory_at((uint64_t)(uintptr_t)pointer);
    if (!memory || memory->registered != registered ||
        memory->range.start != (uint64_t)(uintptr_t)pointer)
        return otherwise;
    CUresult result = capture_forbids();
    if (result == CUDA_SUCCESS) result = do_cuCtxSynchronize();
    uint64_t bytes = memory->range.end - memory->range.start;
    if (host_memory_at((uint64_t)(uintptr_t)pointer) == memory) host_memory_drop(memory);
    charge_locked(emu.machine.costs.release_host, bytes);
    return result;
}

CUresult do_cuMemFreeHost(void *pointer)
{
    return host_memory_end(pointer, false, CUDA_ERROR_INVALID_VALUE);
}

CUresult do_cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned flags)
{
    uint64_t start = (uint64_t)(uintptr_t)pointer;
    if (!pointer || bytes == 0 || address_is_device(start) || start + bytes < start)
        return CUDA_ERROR_INVALID_VALUE;
    if (range_hits(emu.host_memories, start, start + bytes))
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    CUresult result = capture_forbids();
    if (result != CUDA_SUCCESS) return result;
    charge_locked(emu.machine.costs.create_host, bytes);
    host_memory_add(pointer, bytes, flags)->registered = true;
    return CUDA_SUCCESS;
}

CUresult do_cuMemHostUnregister(void *pointer)
{
    return host_memory_end(pointer, true, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

CUresult do_cuMemHostGetDevicePointer_v2(CUdeviceptr *address, void *pointer, unsigned flags)
{
    if (!address || flags != 0 || !host_memory_at((uint64_t)(uintptr_t)pointer))
        return CUDA_ERROR_INVALID_VALUE;
    *address = (uint64_t)(uintptr_t)pointer;
    return CUDA_SUCCESS;
}

CUresult do_cuMemHostGetFlags(unsigned *flags, void *pointer)
{
    struct host_memory *memory = host_memory_at((uint64_t)(uintptr_t)pointer);
    if (!flags || !memory) return CUDA_ERROR_INVALID_VALUE;
    *flags = memory->flags;
    return CUDA_SUCCESS;
}

/* ---- The end ---- */

static void release_handle(void *object)
{
    struct phys *phys = object;
    phys->references = 0;
    phys->mappings = 0;
    phys_unref(phys);
}

/* Called once nothing is mapped any more. */
void memory_close(void)
{
    while (emu.host_memories) host_memory_drop((struct host_memory *)emu.host_memories);
    handle_each(HANDLE_PHYS, release_handle);
    free(emu.scratch);
    emu.scratch = NULL;
}
