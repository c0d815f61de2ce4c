#include "emu/internal.h"

/* ---- Address ranges ---- */

bool address_is_device(uint64_t address)
{
    return address >= EMU_ADDRESS_FIRST && address < EMU_ADDRESS_END;
}

static bool range_is_free(uint64_t start, uint64_t bytes)
{
    return start >= EMU_ADDRESS_FIRST && start < EMU_ADDRESS_END &&
           bytes <= EMU_ADDRESS_END - start && !range_hits(emu.reservations, start, start + bytes);
}

/* Addresses are handed out upwards and come round again late: what is used after it was freed
 * then faults instead of hitting its successor. Reservations have a gap behind them. */
static bool find_free(uint64_t bytes, uint64_t alignment, uint64_t gap, uint64_t *start)
{
    uint64_t at = units_round_up(emu.address_cursor, alignment);
    for (unsigned rounds = 0; rounds < 2;) {
        if (at < EMU_ADDRESS_FIRST || at >= EMU_ADDRESS_END || bytes > EMU_ADDRESS_END - at) {
            at = units_round_up(EMU_ADDRESS_FIRST, alignment);
            rounds++;
            continue;
        }
        struct range *next = range_from(emu.reservations, at);
        if (!next || next->start >= at + bytes) {
            *start = at;
            emu.address_cursor = at + bytes + gap;
            return true;
        }
        at = units_round_up(next->end + gap, alignment);
    }
    return false;
}

struct reservation *reservation_new(uint64_t bytes, uint64_t alignment, uint64_t hint, bool plain)
{
    uint64_t granularity = emu.machine.granularity_bytes;
    if (!plain || bytes >= granularity)
        alignment = alignment > granularity ? alignment : granularity;
    uint64_t start = hint;
    if (hint == 0 || hint % alignment || !range_is_free(hint, bytes))
        if (!find_free(bytes, alignment, plain ? 0 : granularity, &start)) return NULL;
    struct reservation *reservation = calloc(1, sizeof *reservation);
    assert(reservation);
    reservation->range.start = start;
    reservation->range.end = start + bytes;
    reservation->plain = plain;
    range_insert(&emu.reservations, &reservation->range);
    return reservation;
}

void reservation_free(struct reservation *reservation)
{
    range_remove(&emu.reservations, &reservation->range);
    free(reservation);
}

CUresult do_cuMemAddressReserve(CUdeviceptr *address, size_t bytes, size_t alignment,
                                CUdeviceptr hint, unsigned long long flags)
{
    if (!address || flags != 0 || bytes == 0 || bytes % emu.machine.granularity_bytes ||
        (alignment & (alignment - 1)))
        return CUDA_ERROR_INVALID_VALUE;
    if (bytes > emu.machine.address_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
    charge_locked(emu.machine.costs.map, 0);
    struct reservation *reservation = reservation_new(bytes, alignment, hint, false);
    if (!reservation) return CUDA_ERROR_OUT_OF_MEMORY;
    *address = reservation->range.start;
    return CUDA_SUCCESS;
}

CUresult do_cuMemAddressFree(CUdeviceptr address, size_t bytes)
{
    struct reservation *reservation = (struct reservation *)range_find(emu.reservations, address);
    if (!reservation || reservation->plain || reservation->range.start != address ||
        reservation->range.end - address != bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (range_hits(emu.mappings, address, address + bytes)) return CUDA_ERROR_INVALID_VALUE;
    charge_locked(emu.machine.costs.map, 0);
    reservation_free(reservation);
    return CUDA_SUCCESS;
}

/* ---- Mappings ---- */

struct mapping *mapping_at(uint64_t address)
{
    return (struct mapping *)range_find(emu.mappings, address);
}

struct mapping *mapping_add(uint64_t address, uint64_t bytes, struct phys *phys)
{
    struct mapping *mapping = calloc(1, sizeof *mapping);
    assert(mapping);
    mapping->range.start = address;
    mapping->range.end = address + bytes;
    mapping->phys = phys;
    mapping->serial = ++emu.next_mapping;
    phys->mappings++;
    range_insert(&emu.mappings, &mapping->range);
    emu.map_generation++;
    return mapping;
}

void mapping_remove(struct mapping *mapping)
{
    range_remove(&emu.mappings, &mapping->range);
    emu.map_generation++;
    mapping->phys->mappings--;
    phys_unref(mapping->phys);
    free(mapping);
}

CUresult do_cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                     CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    struct phys *phys = handle_get(HANDLE_PHYS, handle);
    if (!phys || flags != 0 || bytes == 0 || bytes % emu.machine.granularity_bytes ||
        offset > phys->bytes || bytes > phys->bytes - offset)
        return CUDA_ERROR_INVALID_VALUE;
    if (bytes != phys->bytes) return CUDA_ERROR_NOT_SUPPORTED; /* no parts of a handle */
    struct reservation *reservation = (struct reservation *)range_find(emu.reservations, address);
    if (!reservation || reservation->plain || address % emu.machine.granularity_bytes ||
        bytes > reservation->range.end - address)
        return CUDA_ERROR_INVALID_VALUE;
    if (range_hits(emu.mappings, address, address + bytes)) return CUDA_ERROR_INVALID_VALUE;
    charge_locked(emu.machine.costs.map, bytes);
    mapping_add(address, bytes, phys);
    return CUDA_SUCCESS;
}

/* The first mapping that reaches behind `at`, if it begins before `end`. */
static struct mapping *mapping_from(uint64_t at, uint64_t end)
{
    struct mapping *mapping = (struct mapping *)range_from(emu.mappings, at);
    return mapping && mapping->range.start < end ? mapping : NULL;
}

/* Whether [address, address + bytes) cuts no mapping. Holes are allowed, and reservations are not
 * looked at. */
static bool cuts_nothing(uint64_t address, uint64_t bytes)
{
    if (bytes == 0 || bytes > EMU_ADDRESS_END || address % emu.machine.granularity_bytes ||
        bytes % emu.machine.granularity_bytes)
        return false;
    uint64_t end = address + bytes;
    for (struct mapping *m = mapping_from(address, end); m; m = mapping_from(m->range.end, end))
        if (m->owner || m->range.start < address || m->range.end > end) return false;
    return true;
}

/* Takes effect at once, as early as the driver may do it. */
CUresult do_cuMemUnmap(CUdeviceptr address, size_t bytes)
{
    if (!cuts_nothing(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
    uint64_t end = address + bytes;
    findings_memory_goes(address, end, false);
    for (struct mapping *m = mapping_from(address, end); m; m = mapping_from(address, end)) {
        bool on_card = m->phys->place < (int)emu.machine.cards;
        charge_locked(on_card ? emu.machine.costs.unmap_card : emu.machine.costs.unmap_host,
                      m->range.end - m->range.start);
        mapping_remove(m);
    }
    return CUDA_SUCCESS;
}

/* ---- Access ---- */

/* A change of rights takes effect when the call returns, as late as the driver may do it. */
struct access_change {
    uint64_t start, end, last_serial;
    int flags[VP_MAX_CARDS]; /* -1: unchanged */
};

void access_apply(struct access_change *change)
{
    for (struct mapping *m = mapping_from(change->start, change->end); m;
         m = mapping_from(m->range.end, change->end)) {
        if (m->serial > change->last_serial) continue; /* made since: not what was meant */
        for (unsigned card = 0; card < emu.machine.cards; card++)
            if (change->flags[card] >= 0) m->rights[card] = (uint8_t)change->flags[card];
    }
    emu.map_generation++;
    free(change);
}

static bool card_reaches(unsigned card, int place)
{
    return place == (int)card || emu.machine.path[place][card].access;
}

static CUresult access_check(uint64_t address, uint64_t bytes, const CUmemAccessDesc *desc,
                             int *flags)
{
    const CUmemLocation *where = &desc->location;
    if (desc->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
        desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
        desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
        return CUDA_ERROR_INVALID_VALUE;
    if (where->type == CU_MEM_LOCATION_TYPE_HOST || where->type == CU_MEM_LOCATION_TYPE_HOST_NUMA)
        return CUDA_SUCCESS; /* device addresses are no host pointers here */
    if (where->type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
    if (!card_is_valid(where->id)) return CUDA_ERROR_INVALID_DEVICE;
    uint64_t end = address + bytes;
    for (struct mapping *m = mapping_from(address, end); m; m = mapping_from(m->range.end, end))
        if (desc->flags && !card_reaches((unsigned)where->id, m->phys->place))
            return CUDA_ERROR_INVALID_DEVICE;
    flags[where->id] = desc->flags;
    return CUDA_SUCCESS;
}

/* What the call costs, by the memory that is changed and by what is being copied. */
static void access_charge(uint64_t address, uint64_t bytes)
{
    const struct machine_costs *costs = &emu.machine.costs;
    uint64_t end = address + bytes;
    for (struct mapping *m = mapping_from(address, end); m; m = mapping_from(m->range.end, end)) {
        int place = m->phys->place;
        bool on_card = place < (int)emu.machine.cards;
        struct machine_call_cost cost = on_card ? costs->access_card : costs->access_host;
        bool busy = false;
        for (unsigned card = 0; card < emu.machine.cards; card++)
            if (emu.to_host_queued[card] && (!on_card || (int)card == place)) busy = true;
        if (busy && costs->access_busy.base_ns > cost.base_ns) cost = costs->access_busy;
        charge_locked(cost, m->range.end - m->range.start);
    }
}

CUresult do_cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *desc,
                           size_t count)
{
    if (!desc || count == 0 || !cuts_nothing(address, bytes) || !mapping_at(address))
        return CUDA_ERROR_INVALID_VALUE;
    struct access_change change = {address, address + bytes, emu.next_mapping, {0}};
    for (unsigned card = 0; card < VP_MAX_CARDS; card++) change.flags[card] = -1;
    for (size_t i = 0; i < count; i++) {
        CUresult result = access_check(address, bytes, &desc[i], change.flags);
        if (result != CUDA_SUCCESS) return result;
    }
    access_charge(address, bytes);
    struct access_change *later = malloc(sizeof *later);
    assert(later);
    *later = change;
    time_push(clock_get(), TIME_ACCESS, later, 0);
    return CUDA_SUCCESS;
}

CUresult do_cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
                           CUdeviceptr address)
{
    struct mapping *mapping = mapping_at(address);
    if (!flags || !location || !mapping || mapping->owner) return CUDA_ERROR_INVALID_VALUE;
    if (location->type != CU_MEM_LOCATION_TYPE_DEVICE) {
        *flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
        return CUDA_SUCCESS;
    }
    if (!card_is_valid(location->id)) return CUDA_ERROR_INVALID_DEVICE;
    *flags = mapping->rights[location->id];
    return CUDA_SUCCESS;
}

/* ---- Translation ---- */

/* Whether some card may use it. To copies and attributes what nobody may use is no memory. */
bool is_open(const struct mapping *mapping)
{
    if (mapping->owner) return true;
    for (unsigned card = 0; card < emu.machine.cards; card++)
        if (mapping->rights[card]) return true;
    return false;
}

bool is_gone(const struct mapping *mapping)
{
    int place = mapping->phys->place;
    return place < (int)emu.machine.cards && emu.card_lost[place];
}

bool right_of(const struct mapping *mapping, unsigned card, int mode)
{
    unsigned need = (unsigned)mode & CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    if (need & EMU_WRITE) need = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    if (!mapping->owner) return (mapping->rights[card] & need) == need;
    unsigned home = mapping->owner->card;
    return card == home || emu.peer[card][home];
}

/* A copy may also use the rights of the card where the memory is: its engines can do the work. */
static bool may(const struct mapping *mapping, unsigned card, int mode, enum translate how)
{
    if (how == TRANSLATE_PEEK || right_of(mapping, card, mode)) return true;
    int place = mapping->phys->place;
    return how == TRANSLATE_COPY && place < (int)emu.machine.cards &&
           right_of(mapping, (unsigned)place, mode);
}

static bool host_spot(uint64_t address, uint64_t bytes, enum translate how, struct spot *spot)
{
    if (how == TRANSLATE_KERNEL) {
        struct host_memory *memory = host_memory_at(address);
        if (!memory) return false;
        if (bytes > memory->range.end - address) bytes = memory->range.end - address;
    }
    *spot = (struct spot){
        (unsigned char *)(uintptr_t)address, bytes, 0, address, (int)emu.machine.cards, NULL};
    return address != 0;
}

/* The last mappings found, by address: kernels walk several buffers by turns. */
enum { RECENT = 16 };
static struct {
    uint64_t generation;
    struct mapping *mapping;
} recent[RECENT];

static struct mapping *mapping_find(uint64_t address)
{
    unsigned slot = (unsigned)(address >> 12 ^ address >> 21) % RECENT;
    struct mapping *mapping = recent[slot].mapping;
    if (mapping && recent[slot].generation == emu.map_generation &&
        address >= mapping->range.start && address < mapping->range.end)
        return mapping;
    mapping = mapping_at(address);
    recent[slot].generation = emu.map_generation;
    recent[slot].mapping = mapping;
    return mapping;
}

bool spot_find(uint64_t address, uint64_t bytes, unsigned card, int mode, enum translate how,
               struct spot *spot)
{
    assert(bytes > 0);
    if (!address_is_device(address)) return host_spot(address, bytes, how, spot);
    struct mapping *mapping = mapping_find(address);
    if (!mapping || !may(mapping, card, mode, how) || is_gone(mapping)) return false;
    uint64_t contiguous, offset = address - mapping->range.start;
    spot->at = phys_at(mapping->phys, offset, &contiguous);
    spot->bytes = contiguous < bytes ? contiguous : bytes;
    spot->phys_id = mapping->phys->id;
    spot->offset = offset;
    spot->place = mapping->phys->place;
    spot->mapping = mapping;
    return true;
}

/* Called once the leaks are counted. */
void map_close(void)
{
    while (emu.mappings) mapping_remove((struct mapping *)emu.mappings);
    while (emu.reservations) reservation_free((struct reservation *)emu.reservations);
    for (unsigned i = 0; i < RECENT; i++) recent[i].mapping = NULL;
}
