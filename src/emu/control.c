#include "emu/internal.h"

#include <string.h>

/* The emulator as a whole: opening and closing, the way into and out of each call, time and
 * failures as asked for through emu.h. */

struct emulator emu = {.lock = PTHREAD_MUTEX_INITIALIZER, .called_back = PTHREAD_COND_INITIALIZER};
_Thread_local bool emu_in_callback;

/* ---- Handles ---- */

enum { SLOT_KIND_BITS = 8, GENERATIONS = 1 << 12 };

struct slot {
    void *object;
    uint32_t generation;
    uint8_t kind;
};

static struct {
    struct slot *slots;
    uint32_t count, room, *free_slots, free_count;
} handles;

/* generation << 32 | slot + 1 << 8 | kind: small, never 0, 1 or 2, and no device address. */
static uint64_t handle_of(uint32_t slot)
{
    const struct slot *s = &handles.slots[slot];
    return (uint64_t)s->generation << 32 | (uint64_t)(slot + 1) << SLOT_KIND_BITS | s->kind;
}

uint64_t handle_new(enum handle_kind kind, void *object)
{
    uint32_t slot;
    if (handles.free_count > 0) {
        slot = handles.free_slots[--handles.free_count];
    } else {
        if (handles.count == handles.room) {
            handles.room = handles.room ? 2 * handles.room : 64;
            handles.slots = realloc(handles.slots, handles.room * sizeof *handles.slots);
            handles.free_slots =
                realloc(handles.free_slots, handles.room * sizeof *handles.free_slots);
            assert(handles.slots && handles.free_slots);
        }
        slot = handles.count++;
        handles.slots[slot].generation = 0;
    }
    assert(slot < 1 << 23);
    handles.slots[slot].object = object;
    handles.slots[slot].kind = (uint8_t)kind;
    return handle_of(slot);
}

static bool handle_slot(uint64_t handle, uint32_t *slot)
{
    uint32_t low = (uint32_t)handle;
    if (low >> SLOT_KIND_BITS == 0) return false;
    *slot = (low >> SLOT_KIND_BITS) - 1;
    return *slot < handles.count && handles.slots[*slot].object && handle_of(*slot) == handle;
}

void *handle_get(enum handle_kind kind, uint64_t handle)
{
    uint32_t slot;
    if (!handle_slot(handle, &slot) || handles.slots[slot].kind != kind) return NULL;
    return handles.slots[slot].object;
}

void handle_free(uint64_t handle)
{
    uint32_t slot;
    bool known = handle_slot(handle, &slot);
    assert(known);
    (void)known;
    handles.slots[slot].object = NULL;
    handles.slots[slot].generation = (handles.slots[slot].generation + 1) % GENERATIONS;
    handles.free_slots[handles.free_count++] = slot;
}

void handle_each(enum handle_kind kind, void (*visit)(void *object))
{
    for (uint32_t slot = 0; slot < handles.count; slot++)
        if (handles.slots[slot].object && handles.slots[slot].kind == kind)
            visit(handles.slots[slot].object);
}

/* ---- The lock and the calling thread ---- */

static _Thread_local unsigned lock_depth;

void lock_take(void)
{
    if (lock_depth++ == 0) pthread_mutex_lock(&emu.lock);
}

void lock_drop(void)
{
    assert(lock_depth > 0);
    if (--lock_depth == 0) pthread_mutex_unlock(&emu.lock);
}

struct host_thread *thread_get(void)
{
    static _Thread_local struct host_thread mine;
    if (!emu.options.free_running) return &emu.threads[emu.thread];
    if (mine.epoch != emu.epoch) {
        memset(&mine, 0, sizeof mine);
        mine.epoch = emu.epoch;
        mine.index = ++emu.thread_count;
    }
    return &mine;
}

/* ---- The way into a call ---- */

static bool forked; /* the parent's emulator is none of ours */

static void after_fork(void)
{
    forked = true;
    lock_depth = 0;
    pthread_mutex_init(&emu.lock, NULL);
}

static CUresult inject(enum call call)
{
    emu.calls[call]++;
    if (emu.fail_in[call] == 0 || --emu.fail_in[call] > 0) return CUDA_SUCCESS;
    emu.failed[call]++;
    return emu.fail_with[call];
}

CUresult call_enter(enum call call, enum call_kind kind)
{
    bool nested = lock_depth > 0 || emu_in_callback; /* from a host function */
    lock_take();
    if (nested) return CUDA_ERROR_NOT_PERMITTED;
    if (forked || (!emu.open && call != CALL_cuInit && kind != CALL_FREE))
        return CUDA_ERROR_NOT_INITIALIZED;
    if (emu.open) {
        CUresult result = inject(call);
        if (result != CUDA_SUCCESS) return result;
    }
    if (kind == CALL_FREE) return CUDA_SUCCESS;
    if (!emu.initialized) return CUDA_ERROR_NOT_INITIALIZED;
    struct host_thread *thread = thread_get();
    struct context *context = context_current();
    if (kind == CALL_VMM) clock_set(emu.lock_free_ns);
    time_run_until(clock_get());
    if (emu.parked) time_unpark();
    if (kind == CALL_INIT || kind == CALL_VMM) return CUDA_SUCCESS;
    if (kind == CALL_CTX && !context)
        return thread->depth ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_ERROR_INVALID_CONTEXT;
    return context ? context->lost : CUDA_SUCCESS;
}

void call_leave(void)
{
    lock_drop();
}

/* ---- Opening and closing ---- */

static vp_status open_locked(const struct emu_options *options)
{
    const char *why;
    if (emu.open) {
        log_error("emulator: it is open already; there is one in a process");
        return VP_INVALID;
    }
    if (!options->machine || !machine_is_valid(options->machine, &why)) {
        log_error("emulator: the machine's description is not valid: %s",
                  options->machine ? why : "there is none");
        return VP_INVALID;
    }
    if (options->threads > EMU_MAX_THREADS) return VP_INVALID;
    static bool watching_forks;
    if (!watching_forks) pthread_atfork(NULL, NULL, after_fork);
    watching_forks = true;
    struct emulator *e = &emu;
    size_t kept = offsetof(struct emulator, open);
    uint64_t epoch = e->epoch + 1;
    memset((char *)e + kept, 0, sizeof *e - kept);
    e->epoch = epoch;
    e->options = *options;
    e->machine = *options->machine;
    e->options.machine = &e->machine;
    e->random.state = options->seed;
    e->address_cursor = EMU_ADDRESS_FIRST;
    e->callbacks_last = &e->callbacks;
    links_open();
    e->cards_hash = cards_hash();
    for (unsigned i = 0; i < EMU_MAX_THREADS; i++) e->threads[i].index = i;
    e->scratch = calloc(1, EMU_SCRATCH_BYTES + 64);
    assert(e->scratch);
    findings_open();
    e->open = true;
    return VP_OK;
}

vp_status emu_open(const struct emu_options *options)
{
    lock_take();
    vp_status status = open_locked(options);
    lock_drop();
    return status;
}

void emu_close(void)
{
    lock_take();
    while (emu.callbacks_running) pthread_cond_wait(&emu.called_back, &emu.lock);
    if (emu.open) {
        findings_close();
        module_close();
        capture_close();
        graph_close();
        device_close();
        map_close();
        memory_close();
        time_close();
        findings_drop();
        free(handles.slots);
        free(handles.free_slots);
        memset(&handles, 0, sizeof handles);
        emu.open = emu.initialized = false;
    }
    lock_drop();
}

/* As the shared library the emulator opens itself, from what the environment says. */
static CUresult open_from_environment(void)
{
    const char *text = getenv("VRAMPOOL_EMULATE"), *seed = getenv("VRAMPOOL_EMU_SEED");
    const char *lose = getenv("VRAMPOOL_EMU_LOSE");
    struct machine machine;
    if (!text) {
        log_error(
            "emulator: VRAMPOOL_EMULATE names no machine; for one of 8 cards of 24 MiB set it to "
            "8x24M");
        return CUDA_ERROR_NO_DEVICE;
    }
    if (machine_from_text(text, &machine) != VP_OK) {
        log_error("emulator: VRAMPOOL_EMULATE=%s is no machine", text);
        return CUDA_ERROR_NO_DEVICE;
    }
    struct emu_options options = {.machine = &machine,
                                  .seed = seed ? strtoull(seed, NULL, 0) : 1,
                                  .carry_data = true,
                                  .free_running = true};
    if (open_locked(&options) != VP_OK) return CUDA_ERROR_NO_DEVICE;
    return !lose || losses_parse(lose) ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

CUresult do_cuInit(unsigned flags)
{
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    CUresult result = emu.open ? CUDA_SUCCESS : open_from_environment();
    if (result == CUDA_SUCCESS) emu.initialized = true;
    return result;
}

/* ---- Time ---- */

void emu_set_thread(unsigned thread)
{
    lock_take();
    assert(!emu.options.free_running);
    assert(thread < (emu.options.threads ? emu.options.threads : 1));
    emu.thread = thread;
    lock_drop();
}

uint64_t emu_now_ns(void)
{
    lock_take();
    uint64_t now = clock_get();
    lock_drop();
    return now;
}

uint64_t emu_device_ns(void)
{
    lock_take();
    uint64_t now = emu.device_ns;
    lock_drop();
    return now;
}

void emu_advance_ns(uint64_t duration_ns)
{
    lock_take();
    clock_set(clock_get() + duration_ns);
    time_run_until(clock_get());
    lock_drop();
}

bool emu_next_event_ns(uint64_t *at_ns)
{
    lock_take();
    bool found = time_next(at_ns);
    lock_drop();
    return found;
}

void emu_run_until_idle(void)
{
    lock_take();
    while (time_step()) {
    }
    clock_set(emu.device_ns);
    lock_drop();
}

void emu_allow_torn_reads(bool allowed)
{
    lock_take();
    emu.allow_torn_reads = allowed;
    lock_drop();
}

/* ---- Looking inside ---- */

static bool look(CUdeviceptr address, unsigned char *out, const unsigned char *in, size_t bytes)
{
    struct spot spot;
    for (size_t done = 0; done < bytes; done += spot.bytes) {
        if (!address_is_device(address + done) ||
            !spot_find(address + done, bytes - done, 0, EMU_READ, TRANSLATE_PEEK, &spot))
            return false;
        if (out) memcpy(out + done, spot.at, spot.bytes);
        if (in) memcpy(spot.at, in + done, spot.bytes);
    }
    return true;
}

static bool look_locked(CUdeviceptr address, void *out, const void *in, size_t bytes)
{
    lock_take();
    bool good = emu.open && emu.options.carry_data && look(address, NULL, NULL, bytes);
    if (good) look(address, out, in, bytes);
    lock_drop();
    return good;
}

bool emu_peek(CUdeviceptr address, void *out, size_t bytes)
{
    return look_locked(address, out, NULL, bytes);
}

bool emu_poke(CUdeviceptr address, const void *in, size_t bytes)
{
    return look_locked(address, NULL, in, bytes);
}

int emu_place(CUdeviceptr address)
{
    lock_take();
    struct mapping *mapping = mapping_at(address);
    int place = mapping ? mapping->phys->place : -1;
    lock_drop();
    return place;
}

/* ---- Failures ---- */

static bool call_find(const char *symbol, enum call *call)
{
    for (unsigned i = 0; i < CALL_COUNT; i++) {
        if (strcmp(call_name((enum call)i), symbol) != 0) continue;
        *call = (enum call)i;
        return true;
    }
    return false;
}

vp_status emu_fail_call(const char *symbol, uint64_t nth, CUresult error)
{
    enum call call;
    if (!call_find(symbol, &call)) return VP_NOT_FOUND;
    lock_take();
    emu.fail_in[call] = nth;
    emu.fail_with[call] = error;
    lock_drop();
    return VP_OK;
}

static uint64_t counter(const char *symbol, const uint64_t *counters)
{
    enum call call;
    if (!call_find(symbol, &call)) return 0;
    lock_take();
    uint64_t value = counters[call];
    lock_drop();
    return value;
}

uint64_t emu_call_count(const char *symbol)
{
    return counter(symbol, emu.calls);
}

uint64_t emu_fail_count(const char *symbol)
{
    return counter(symbol, emu.failed);
}
