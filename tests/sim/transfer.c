/* Copies and memsets of the simulated programs. */
#include <inttypes.h>
#include <string.h>

#include "sim.h"

static CUdeviceptr host(const void *pointer)
{
    return (CUdeviceptr)(uintptr_t)pointer;
}

/* ---- The forms a copy has ---- */

enum form {
    HTOD,
    HTOD_ASYNC,
    DTOH,
    DTOH_ASYNC,
    DTOD,
    DTOD_ASYNC,
    ANY,
    ANY_ASYNC,
    ROWS,
    ROWS_ASYNC,
};

struct transfer {
    enum form form;
    CUdeviceptr to, from; /* device or host */
    uint64_t bytes;
    uint64_t rows, pitch; /* ROWS: of the device's sides */
};

static bool is_sync(enum form form)
{
    return form == HTOD || form == DTOH || form == DTOD || form == ANY || form == ROWS;
}

static CUDA_MEMCPY2D rows_of(const struct transfer *t)
{
    uint64_t width = t->bytes / t->rows;
    CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                          .srcDevice = t->from,
                          .srcPitch = pool_owns(sim.pool, t->from) ? t->pitch : width,
                          .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                          .dstDevice = t->to,
                          .dstPitch = pool_owns(sim.pool, t->to) ? t->pitch : width,
                          .WidthInBytes = width,
                          .Height = t->rows};
    return copy;
}

static CUresult copy_native(const struct transfer *t, CUstream stream)
{
    void *to_host = (void *)(uintptr_t)t->to;           /* NOLINT */
    const void *from_host = (void *)(uintptr_t)t->from; /* NOLINT */
    CUDA_MEMCPY2D rows;
    switch (t->form) {
    case HTOD: return cuMemcpyHtoD_v2(t->to, from_host, t->bytes);
    case HTOD_ASYNC: return cuMemcpyHtoDAsync_v2(t->to, from_host, t->bytes, stream);
    case DTOH: return cuMemcpyDtoH_v2(to_host, t->from, t->bytes);
    case DTOH_ASYNC: return cuMemcpyDtoHAsync_v2(to_host, t->from, t->bytes, stream);
    case DTOD: return cuMemcpyDtoD_v2(t->to, t->from, t->bytes);
    case DTOD_ASYNC: return cuMemcpyDtoDAsync_v2(t->to, t->from, t->bytes, stream);
    case ANY: return cuMemcpy(t->to, t->from, t->bytes);
    case ANY_ASYNC: return cuMemcpyAsync(t->to, t->from, t->bytes, stream);
    case ROWS: rows = rows_of(t); return cuMemcpy2D_v2(&rows);
    case ROWS_ASYNC: rows = rows_of(t); return cuMemcpy2DAsync_v2(&rows, stream);
    }
    return CUDA_ERROR_INVALID_VALUE;
}

static void touch(struct pool_op *op, const struct transfer *t)
{
    bool rows = t->form == ROWS || t->form == ROWS_ASYNC;
    uint64_t bytes = rows ? t->pitch * (t->rows - 1) + t->bytes / t->rows : t->bytes;
    pool_op_touch_range(op, t->to, bytes);
    pool_op_touch_range(op, t->from, bytes);
    if (pool_owns(sim.pool, t->from)) return;
    pool_op_scan_host(op, t->to, (const void *)(uintptr_t)t->from, t->bytes); /* NOLINT */
}

/* As the shim does it. */
static CUresult copy(struct job *job, const struct transfer *t)
{
    CUstream stream = sim.streams[job->stream].handle;
    struct pool_op op;
    pool_op_begin(&op, sim.pool, POOL_COPY, stream, "a copy");
    touch(&op, t);
    CUresult result = pool_op_enter(&op);
    if (result == CUDA_SUCCESS) {
        edge_yield();
        result = copy_native(t, stream);
        job_check_admitted(result, "a copy");
        edge_yield();
    }
    result = pool_op_leave(&op, result);
    sim.coverage.copies += result == CUDA_SUCCESS;
    return result;
}

static enum form pick_form(enum form sync, enum form async)
{
    enum form forms[] = {sync, async, async, sim_chance(50) ? ANY : ANY_ASYNC,
                         sim_chance(50) ? ROWS : ROWS_ASYNC};
    return forms[sim_below(sizeof forms / sizeof *forms)];
}

/* Cuts a part of a block into rows where the form asks for them; the host's side is dense. */
static void shape(struct transfer *t, uint64_t *words)
{
    t->rows = 1;
    if (t->form == ROWS || t->form == ROWS_ASYNC) {
        t->rows = sim_between(1, *words < 6 ? *words : 6);
        *words -= *words % t->rows;
        t->pitch = *words / t->rows * 8;
    }
    t->bytes = 8 * *words;
}

/* ---- From the host ---- */

/* Random words; where programs keep addresses, sometimes those of blocks. */
static bool make_words(unsigned card, uint64_t *words, uint64_t count)
{
    uint64_t seed = random_next(&sim.program) >> 2;
    for (uint64_t i = 0; i < count; i++) words[i] = kernels_fill_value(seed, i);
    if (!sim.profile.tables || !sim_chance(40)) return false;
    uint64_t pointers = sim_between(1, count < 5 ? count : 5);
    for (uint64_t i = 0; i < pointers; i++) {
        const struct sim_block *target = blocks_pick(card, 1);
        uint64_t at = target ? sim_below(target->words < 8 ? 1 : 8) : 0;
        words[i] = target ? target->address + 8 * at : 0;
    }
    return true;
}

static void enter_words(struct place to, const uint64_t *words, uint64_t count, bool pointers,
                        bool dead)
{
    const struct space *space = &sim.pool->space;
    for (uint64_t i = 0; i < count; i++) {
        bool is_dead = dead && space_contains(space, words[i]);
        blocks_set_word(to, i, words[i], is_dead ? KNOWN_DEAD : KNOWN);
    }
    to.block->pointers |= pointers;
}

static void copy_in(struct job *job, struct place to, uint64_t words, enum form form)
{
    struct thread *thread = job->thread;
    struct transfer t = {.form = form};
    if (is_sync(t.form)) job->stream = streams_default(thread->card, -1);
    shape(&t, &words);
    job_writes(job, to.block);
    if (!job_begin(job)) return;
    bool pinned = sim_chance(50);
    if (pinned) transfer_look_at_pinned(thread);
    uint64_t *from = pinned ? thread->pinned : thread->scratch;
    bool pointers = make_words(thread->card, from, words);
    uint64_t frees = sim.coverage.frees;
    t.from = host(from);
    t.to = place_address(to);
    sim_trace("copy in to %#llx, %" PRIu64 " words, form %d%s%s, stream %u", t.to, words, t.form,
              pinned ? " pinned" : "", pointers ? " with addresses" : "", job->stream);
    CUresult result = copy(job, &t);
    if (result == CUDA_SUCCESS) {
        enter_words(to, from, words, pointers, frees != sim.coverage.frees);
        if (pinned) transfer_mark_pinned(thread, job->stream);
    }
    job_end(job, result, "copy in");
}

void transfer_write(struct thread *thread, unsigned stream, struct sim_block *block)
{
    struct job job = {.thread = thread, .stream = stream};
    uint64_t words = block->words < SIM_PINNED_WORDS ? block->words : SIM_PINNED_WORDS;
    copy_in(&job, (struct place){block, 0}, words, HTOD_ASYNC);
}

/* ---- To the host ---- */

void transfer_mark_pinned(struct thread *thread, unsigned stream)
{
    CUresult result = cuEventRecord(thread->pinned_event, sim.streams[stream].handle);
    if (result != CUDA_SUCCESS && !sim.card_lost) sim_fail("cuEventRecord returned %d", result);
    thread->pending.any = true;
}

void transfer_look_at_pinned(struct thread *thread)
{
    struct pending *pending = &thread->pending;
    if (!pending->any) return;
    CUresult result = cuEventSynchronize(thread->pinned_event);
    if (result != CUDA_SUCCESS && !sim.card_lost)
        sim_fail("cuEventSynchronize returned %d", result);
    if (pending->expected && result == CUDA_SUCCESS)
        blocks_compare("an asynchronous copy out", thread->pinned, pending->expected,
                       pending->known, pending->words);
    free(pending->expected);
    free(pending->known);
    *pending = (struct pending){0};
}

/* The reference moves on before the copy has landed: what is expected is kept. */
static void expect(struct thread *thread, struct place from, uint64_t words)
{
    struct pending *pending = &thread->pending;
    pending->words = words;
    pending->expected = malloc(8 * words);
    pending->known = malloc(words);
    assert(pending->expected && pending->known);
    memcpy(pending->expected, place_value(from), 8 * words);
    memcpy(pending->known, place_known(from), words);
}

static void copy_out(struct job *job, struct place from, uint64_t words, enum form form,
                     bool pinned)
{
    struct thread *thread = job->thread;
    struct transfer t = {.form = form, .from = place_address(from)};
    if (is_sync(form)) job->stream = streams_default(thread->card, -1);
    shape(&t, &words);
    job_reads(job, from.block);
    if (!job_begin(job)) return;
    if (pinned) transfer_look_at_pinned(thread);
    uint64_t *to = pinned ? thread->pinned : thread->scratch;
    t.to = host(to);
    sim_trace("copy out from %#llx, %" PRIu64 " words, form %d%s, stream %u", t.from, words, form,
              pinned ? " pinned" : "", job->stream);
    CUresult result = copy(job, &t);
    if (result == CUDA_SUCCESS && pinned) {
        transfer_mark_pinned(thread, job->stream);
        expect(thread, from, words);
    } else if (result == CUDA_SUCCESS) {
        blocks_compare("a copy out", to, place_value(from), place_known(from), words);
    }
    job_end(job, result, "copy out");
}

void transfer_read(struct thread *thread, struct sim_block *block, uint64_t first, uint64_t words)
{
    struct job job = {.thread = thread};
    copy_out(&job, (struct place){block, first}, words, DTOH, false);
}

/* ---- Between blocks ---- */

static void copy_between(struct job *job, struct sim_block *to_block, struct sim_block *from_block)
{
    struct transfer t = {.form = pick_form(DTOD, DTOD_ASYNC)};
    uint64_t words = to_block->words < from_block->words ? to_block->words : from_block->words;
    struct place to = blocks_pick_part(to_block, &words), from = {from_block, 0};
    if (is_sync(t.form)) job->stream = streams_default(job->thread->card, -1);
    shape(&t, &words);
    job_writes(job, to_block);
    job_reads(job, from_block);
    if (!job_begin(job)) return;
    t.to = place_address(to);
    t.from = place_address(from);
    sim_trace("copy to %#llx from %#llx, %" PRIu64 " words, form %d, stream %u", t.to, t.from,
              words, t.form, job->stream);
    CUresult result = copy(job, &t);
    if (result == CUDA_SUCCESS) blocks_copy_words(to, from, words, 0);
    job_end(job, result, "copy");
}

void transfer_copy(struct thread *thread)
{
    struct job job = {.thread = thread, .stream = streams_pick(thread)};
    struct sim_block *one = blocks_pick(thread->card, 1), *other = blocks_pick(thread->card, 1);
    if (!one || !other) return;
    uint64_t kind = sim_below(10);
    uint64_t words = one->words < SIM_PINNED_WORDS ? one->words : SIM_PINNED_WORDS;
    if (kind < 3) {
        struct place to = blocks_pick_part(one, &words);
        copy_in(&job, to, words, pick_form(HTOD, HTOD_ASYNC));
    } else if (kind < 7 || one == other) {
        struct place from = blocks_pick_part(one, &words);
        copy_out(&job, from, words, pick_form(DTOH, DTOH_ASYNC), sim_chance(50));
    } else {
        copy_between(&job, one, other);
    }
}

/* ---- Memsets ---- */

static CUresult set_native(vp_addr to, bool bytes, uint32_t value, uint64_t words, bool sync,
                           CUstream stream)
{
    if (bytes && sync) return cuMemsetD8_v2(to, (unsigned char)value, 8 * words);
    if (bytes) return cuMemsetD8Async(to, (unsigned char)value, 8 * words, stream);
    if (sync) return cuMemsetD32_v2(to, value, 2 * words);
    return cuMemsetD32Async(to, value, 2 * words, stream);
}

void transfer_memset(struct thread *thread)
{
    struct job job = {.thread = thread, .stream = streams_pick(thread)};
    struct sim_block *block = blocks_pick(thread->card, 1);
    if (!block) return;
    bool sync = sim_chance(30), bytes = sim_chance(50);
    uint64_t words = block->words;
    uint32_t value = (uint32_t)sim_below(bytes ? 256 : UINT32_MAX);
    struct place to = blocks_pick_part(block, &words);
    if (sync) job.stream = streams_default(thread->card, -1);
    job_writes(&job, block);
    if (!job_begin(&job)) return;
    vp_addr address = place_address(to);
    sim_trace("set %#" PRIx64 ", %" PRIu64 " words, stream %u", address, words, job.stream);
    CUstream stream = sim.streams[job.stream].handle;
    struct pool_op op;
    pool_op_begin(&op, sim.pool, POOL_MEMSET, stream, "a memset");
    pool_op_touch_range(&op, address, 8 * words);
    CUresult result = pool_op_enter(&op);
    if (result == CUDA_SUCCESS) {
        edge_yield();
        result = set_native(address, bytes, value, words, sync, stream);
        job_check_admitted(result, "a memset");
    }
    result = pool_op_leave(&op, result);
    sim.coverage.memsets += result == CUDA_SUCCESS;
    uint64_t half = bytes ? value * UINT64_C(0x01010101) : value;
    for (uint64_t i = 0; i < words && result == CUDA_SUCCESS; i++)
        blocks_set_word(to, i, half << 32 | half, KNOWN);
    job_end(&job, result, "memset");
}
