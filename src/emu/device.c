#include "emu/internal.h"

#include <stdio.h>
#include <string.h>

/* ---- Contexts ---- */

struct context *context_current(void)
{
    struct host_thread *thread = thread_get();
    if (thread->depth == 0) return NULL;
    return handle_get(HANDLE_CONTEXT, thread->stack[thread->depth - 1]);
}

static struct context *context_new(unsigned card, unsigned flags, bool primary)
{
    struct context *context = calloc(1, sizeof *context);
    assert(context);
    context->id = ++emu.next_context;
    context->card = card;
    context->flags = flags;
    context->primary = primary;
    list_init(&context->streams);
    list_init(&context->ops);
    context->legacy = stream_new(context, CU_STREAM_DEFAULT, 0);
    context->legacy->legacy = true;
    if (emu.card_lost[card]) context->lost = CUDA_ERROR_UNKNOWN;
    context->handle = handle_new(HANDLE_CONTEXT, context);
    context->next = emu.contexts;
    emu.contexts = context;
    return context;
}

static struct context *dying;

static void forget_event(void *object)
{
    struct event *event = object;
    if (event->context == dying) event_release(event);
}

/* Ends a context with all that is in it: queued work is dropped, streams, events and allocations
 * go. */
static void context_release(struct context *context)
{
    bool lossy = emu.lossy;
    context_lose(context, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    emu.lossy = lossy; /* that was no accident */
    dying = context;
    handle_each(HANDLE_EVENT, forget_event);
    while (!list_empty(&context->streams)) {
        struct stream *stream = list_entry(context->streams.next, struct stream, node);
        if (stream->capture) capture_abandon(stream);
        stream_release(stream);
    }
    struct range *range = emu.mappings ? range_from(emu.mappings, 0) : NULL;
    while (range) {
        struct mapping *mapping = (struct mapping *)range;
        uint64_t end = range->end;
        if (mapping->owner == context) memory_free(mapping);
        range = range_from(emu.mappings, end);
    }
    if (context->primary) emu.primary[context->card] = NULL;
    struct context **link = &emu.contexts;
    while (*link != context) link = &(*link)->next;
    *link = context->next;
    handle_free(context->handle);
    free(context);
}

static struct context *context_find(CUcontext handle)
{
    return handle_get(HANDLE_CONTEXT, (uintptr_t)handle);
}

CUresult do_cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    if (!context) return CUDA_ERROR_INVALID_VALUE;
    if (!card_is_valid(device)) return CUDA_ERROR_INVALID_DEVICE;
    if (!emu.primary[device]) emu.primary[device] = context_new((unsigned)device, 0, true);
    emu.primary[device]->retains++;
    *context = HANDLE_OF(CUcontext, emu.primary[device]);
    return CUDA_SUCCESS;
}

CUresult do_cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    if (!card_is_valid(device)) return CUDA_ERROR_INVALID_DEVICE;
    struct context *context = emu.primary[device];
    if (!context || context->retains == 0) return CUDA_ERROR_INVALID_CONTEXT;
    if (--context->retains == 0) context_release(context);
    return CUDA_SUCCESS;
}

CUresult do_cuDevicePrimaryCtxRelease(CUdevice device)
{
    return do_cuDevicePrimaryCtxRelease_v2(device);
}

CUresult do_cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    if (!card_is_valid(device)) return CUDA_ERROR_INVALID_DEVICE;
    if (emu.primary[device]) context_release(emu.primary[device]);
    return CUDA_SUCCESS;
}

CUresult do_cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active)
{
    if (!card_is_valid(device)) return CUDA_ERROR_INVALID_DEVICE;
    if (flags) *flags = emu.primary[device] ? emu.primary[device]->flags : 0;
    if (active) *active = emu.primary[device] != NULL;
    return CUDA_SUCCESS;
}

CUresult do_cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags)
{
    return card_is_valid(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult do_cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device)
{
    struct host_thread *thread = thread_get();
    if (!context) return CUDA_ERROR_INVALID_VALUE;
    if (!card_is_valid(device)) return CUDA_ERROR_INVALID_DEVICE;
    if (thread->depth == EMU_CONTEXT_STACK) return CUDA_ERROR_OUT_OF_MEMORY;
    struct context *made = context_new((unsigned)device, flags, false);
    thread->stack[thread->depth++] = made->handle;
    *context = HANDLE_OF(CUcontext, made);
    return CUDA_SUCCESS;
}

CUresult do_cuCtxCreate_v3(CUcontext *context, void *params_array, int num_params, unsigned flags,
                           CUdevice device)
{
    return num_params ? CUDA_ERROR_NOT_SUPPORTED : do_cuCtxCreate_v2(context, flags, device);
}

CUresult do_cuCtxCreate_v4(CUcontext *context, void *params, unsigned flags, CUdevice device)
{
    return do_cuCtxCreate_v2(context, flags, device); /* params may be NULL or say nothing */
}

CUresult do_cuCtxDestroy_v2(CUcontext handle)
{
    struct context *context = context_find(handle);
    struct host_thread *thread = thread_get();
    if (!context || context->primary) return CUDA_ERROR_INVALID_CONTEXT;
    if (context == context_current()) thread->depth--;
    context_release(context);
    return CUDA_SUCCESS;
}

CUresult do_cuCtxPushCurrent_v2(CUcontext handle)
{
    struct host_thread *thread = thread_get();
    struct context *context = context_find(handle);
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    if (thread->depth == EMU_CONTEXT_STACK) return CUDA_ERROR_OUT_OF_MEMORY;
    thread->stack[thread->depth++] = context->handle;
    return CUDA_SUCCESS;
}

CUresult do_cuCtxPopCurrent_v2(CUcontext *handle)
{
    struct host_thread *thread = thread_get();
    if (thread->depth == 0) return CUDA_ERROR_INVALID_CONTEXT;
    uint64_t context = thread->stack[--thread->depth];
    if (handle) *handle = (CUcontext)(uintptr_t)context;
    return CUDA_SUCCESS;
}

CUresult do_cuCtxSetCurrent(CUcontext handle)
{
    struct host_thread *thread = thread_get();
    if (!handle) {
        if (thread->depth) thread->depth--;
        return CUDA_SUCCESS;
    }
    struct context *context = context_find(handle);
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    if (thread->depth == 0) thread->depth = 1;
    thread->stack[thread->depth - 1] = context->handle;
    return CUDA_SUCCESS;
}

CUresult do_cuCtxGetCurrent(CUcontext *handle)
{
    struct context *context = context_current();
    if (!handle) return CUDA_ERROR_INVALID_VALUE;
    *handle = context ? HANDLE_OF(CUcontext, context) : NULL;
    return CUDA_SUCCESS;
}

CUresult do_cuCtxGetDevice(CUdevice *device)
{
    struct context *context = context_current();
    if (!device) return CUDA_ERROR_INVALID_VALUE;
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    *device = (CUdevice)context->card;
    return CUDA_SUCCESS;
}

CUresult do_cuCtxGetFlags(unsigned *flags)
{
    struct context *context = context_current();
    if (!flags) return CUDA_ERROR_INVALID_VALUE;
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    *flags = context->flags;
    return CUDA_SUCCESS;
}

CUresult do_cuCtxGetDevice_v2(CUdevice *device, CUcontext handle)
{
    struct context *context = handle ? context_find(handle) : context_current();
    if (!device) return CUDA_ERROR_INVALID_VALUE;
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    *device = (CUdevice)context->card;
    return CUDA_SUCCESS;
}

CUresult do_cuCtxSetFlags(unsigned flags)
{
    return context_current() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult do_cuCtxGetCacheConfig(int *config)
{
    if (!config) return CUDA_ERROR_INVALID_VALUE;
    *config = 0; /* no preference */
    return do_cuCtxSetFlags(0);
}

CUresult do_cuCtxSetCacheConfig(int config)
{
    return do_cuCtxSetFlags(0);
}

CUresult do_cuCtxGetApiVersion(CUcontext handle, unsigned *version)
{
    if (!version) return CUDA_ERROR_INVALID_VALUE;
    if (handle && !context_find(handle)) return CUDA_ERROR_INVALID_CONTEXT;
    *version = 3020;
    return CUDA_SUCCESS;
}

CUresult do_cuCtxGetLimit(size_t *value, int limit)
{
    static const size_t limits[] = {1024, 1 << 20, 8 << 20, 2, 2048, 64, 0};
    if (!value) return CUDA_ERROR_INVALID_VALUE;
    if (!context_current()) return CUDA_ERROR_INVALID_CONTEXT;
    if (limit < 0 || (size_t)limit >= sizeof limits / sizeof *limits)
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    *value = limits[limit];
    return CUDA_SUCCESS;
}

CUresult do_cuCtxSetLimit(int limit, size_t value)
{
    if (!context_current()) return CUDA_ERROR_INVALID_CONTEXT;
    return limit >= 0 && limit <= 6 ? CUDA_SUCCESS : CUDA_ERROR_UNSUPPORTED_LIMIT;
}

CUresult do_cuCtxGetId(CUcontext handle, unsigned long long *id)
{
    struct context *context = handle ? context_find(handle) : context_current();
    if (!id) return CUDA_ERROR_INVALID_VALUE;
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    *id = context->id;
    return CUDA_SUCCESS;
}

CUresult do_cuCtxGetStreamPriorityRange(int *least_priority, int *greatest_priority)
{
    if (!context_current()) return CUDA_ERROR_INVALID_CONTEXT;
    if (least_priority) *least_priority = 0;
    if (greatest_priority) *greatest_priority = -5;
    return CUDA_SUCCESS;
}

static CUresult synchronize(struct context *context)
{
    CUresult result = capture_forbids();
    if (result != CUDA_SUCCESS) return result;
    charge(emu.machine.costs.query, 0);
    uint64_t last = emu.next_op;
    while (!list_empty(&context->ops)) {
        struct op *op = list_entry(context->ops.next, struct op, in_context);
        if (op->id > last) break;
        op_wait(op);
    }
    return context->lost;
}

CUresult do_cuCtxSynchronize(void)
{
    return synchronize(context_current());
}

CUresult do_cuCtxSynchronize_v2(CUcontext handle)
{
    struct context *context = handle ? context_find(handle) : context_current();
    return context ? synchronize(context) : CUDA_ERROR_INVALID_CONTEXT;
}

static CUresult peer_change(CUcontext handle, bool enable)
{
    struct context *context = context_current(), *peer = context_find(handle);
    if (!peer || peer == context) return CUDA_ERROR_INVALID_CONTEXT;
    bool *enabled = &emu.peer[context->card][peer->card];
    if (enable && *enabled) return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    if (!enable && !*enabled) return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    if (enable && !emu.machine.path[peer->card][context->card].access)
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    *enabled = enable;
    return CUDA_SUCCESS;
}

CUresult do_cuCtxEnablePeerAccess(CUcontext peer_context, unsigned flags)
{
    return flags ? CUDA_ERROR_INVALID_VALUE : peer_change(peer_context, true);
}

CUresult do_cuCtxDisablePeerAccess(CUcontext peer_context)
{
    return peer_change(peer_context, false);
}

CUresult do_cuProfilerStart(void)
{
    return context_current() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult do_cuProfilerStop(void)
{
    return do_cuProfilerStart();
}

/* ---- Devices ---- */

bool card_is_valid(CUdevice device)
{
    return device >= 0 && (unsigned)device < emu.machine.cards;
}

CUresult do_cuDriverGetVersion(int *version)
{
    if (!version) return CUDA_ERROR_INVALID_VALUE;
    *version = 13000;
    return CUDA_SUCCESS;
}

CUresult do_cuDeviceGetCount(int *count)
{
    if (!count) return CUDA_ERROR_INVALID_VALUE;
    *count = (int)emu.machine.cards;
    return CUDA_SUCCESS;
}

CUresult do_cuDeviceGet(CUdevice *device, int ordinal)
{
    if (!device) return CUDA_ERROR_INVALID_VALUE;
    if (!card_is_valid(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult do_cuDeviceGetName(char *name, int len, CUdevice device)
{
    if (!name || len < 1) return CUDA_ERROR_INVALID_VALUE;
    if (!card_is_valid(device)) return CUDA_ERROR_INVALID_DEVICE;
    snprintf(name, (size_t)len, "emulated %s", emu.machine.name);
    return CUDA_SUCCESS;
}

/* Of the machine as it was opened: cards of another one, or of one with other links, are others. */
uint64_t cards_hash(void)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (unsigned from = 0; from <= emu.machine.cards; from++) {
        for (unsigned to = 0; to <= emu.machine.cards; to++) {
            uint64_t word = (uint64_t)(1e6 * emu.machine.path[from][to].gbps);
            hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
            hash ^= hash >> 29;
        }
    }
    return hash;
}

CUresult do_cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    if (!uuid) return CUDA_ERROR_INVALID_VALUE;
    if (!card_is_valid(device)) return CUDA_ERROR_INVALID_DEVICE;
    memcpy(uuid->bytes, "emulate", 7);
    memcpy(uuid->bytes + 7, &emu.cards_hash, sizeof emu.cards_hash);
    uuid->bytes[15] = (char)device;
    return CUDA_SUCCESS;
}

CUresult do_cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    return do_cuDeviceGetUuid_v2(uuid, device);
}

/* X(attribute, value): an H100's and H200's, where a program may care; all others are 0. */
/* clang-format off */
#define ATTRIBUTES(X) \
    X(1, 1024) X(2, 1024) X(3, 1024) X(4, 64) X(5, 2147483647) X(6, 65535) X(7, 65535) \
    X(8, 48 << 10) X(9, 64 << 10) X(10, 32) X(11, 2147483647) X(12, 65536) X(13, 1980000) \
    X(14, 512) X(15, 1) X(16, 132) X(19, 1) X(30, 512) X(31, 1) X(32, 1) X(35, 0) \
    X(36, 3201000) X(37, 6144) X(38, 60 << 20) X(39, 2048) X(40, 3) X(41, 1) X(51, 32) \
    X(75, 9) X(76, 0) X(78, 1) X(79, 1) X(80, 1) X(81, 228 << 10) X(82, 65536) X(90, 1) \
    X(91, 1) X(92, 1) X(93, 1) X(94, 1) X(95, 1) X(97, 227 << 10) X(99, 1) X(102, 1) \
    X(106, 32) X(111, 1024) X(115, 1) X(122, 1) X(123, 1) X(129, 1) X(141, 1) X(145, 1)
/* clang-format on */

CUresult do_cuDeviceGetAttribute(int *value, int attribute, CUdevice device)
{
    static const struct {
        int attribute, value;
    } known[] = {
#define ATTRIBUTE(attribute, value) {attribute, value},
        ATTRIBUTES(ATTRIBUTE)
#undef ATTRIBUTE
    };
    if (!value || attribute < 1 || attribute > 200) return CUDA_ERROR_INVALID_VALUE;
    if (!card_is_valid(device)) return CUDA_ERROR_INVALID_DEVICE;
    *value = 0;
    if (attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID) *value = device + 1;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].attribute == attribute) *value = known[i].value;
    return CUDA_SUCCESS;
}

CUresult do_cuDeviceComputeCapability(int *major, int *minor, CUdevice device)
{
    if (!major || !minor) return CUDA_ERROR_INVALID_VALUE;
    if (!card_is_valid(device)) return CUDA_ERROR_INVALID_DEVICE;
    *major = 9;
    *minor = 0;
    return CUDA_SUCCESS;
}

CUresult do_cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    if (!bytes) return CUDA_ERROR_INVALID_VALUE;
    if (!card_is_valid(device)) return CUDA_ERROR_INVALID_DEVICE;
    *bytes = emu.machine.hbm_bytes[device];
    return CUDA_SUCCESS;
}

CUresult do_cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    if (!can) return CUDA_ERROR_INVALID_VALUE;
    if (!card_is_valid(device) || !card_is_valid(peer)) return CUDA_ERROR_INVALID_DEVICE;
    *can = device != peer && emu.machine.path[peer][device].access;
    return CUDA_SUCCESS;
}

CUresult do_cuDeviceGetP2PAttribute(int *value, int attribute, CUdevice src, CUdevice dst)
{
    if (!value) return CUDA_ERROR_INVALID_VALUE;
    if (!card_is_valid(src) || !card_is_valid(dst) || src == dst) return CUDA_ERROR_INVALID_DEVICE;
    const struct machine_path *path = &emu.machine.path[dst][src];
    switch (attribute) {
    case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK: *value = 0; break;
    case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED: *value = path->access; break;
    case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
        *value = path->access && path->atomics;
        break;
    case 4: *value = path->access; break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult do_cuDeviceGetPCIBusId(char *pci_bus_id, int len, CUdevice device)
{
    if (!pci_bus_id || len < 13) return CUDA_ERROR_INVALID_VALUE;
    if (!card_is_valid(device)) return CUDA_ERROR_INVALID_DEVICE;
    snprintf(pci_bus_id, (size_t)len, "0000:%02x:00.0", (unsigned)device + 1);
    return CUDA_SUCCESS;
}

CUresult do_cuDeviceGetByPCIBusId(CUdevice *device, const char *pci_bus_id)
{
    unsigned domain, bus, slot;
    if (!device || !pci_bus_id) return CUDA_ERROR_INVALID_VALUE;
    if (sscanf(pci_bus_id, "%x:%x:%x", &domain, &bus, &slot) != 3) return CUDA_ERROR_INVALID_VALUE;
    if (domain != 0 || slot != 0 || !card_is_valid((CUdevice)bus - 1))
        return CUDA_ERROR_INVALID_DEVICE;
    *device = (CUdevice)bus - 1;
    return CUDA_SUCCESS;
}

void device_close(void)
{
    while (emu.contexts) context_release(emu.contexts);
}
