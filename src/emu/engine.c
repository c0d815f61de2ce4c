/* Time and operations: the clocks, the heap of what happens when, and the graph of what comes
 * before what. */
#include "emu/internal.h"

#include <math.h>
#include <sched.h>
#include <string.h>

/* ---- Clocks ---- */

static uint64_t *clock_of_caller(void)
{
    return emu.options.free_running ? &emu.common_clock_ns : &thread_get()->clock_ns;
}

uint64_t clock_get(void)
{
    return *clock_of_caller();
}

void clock_set(uint64_t ns)
{
    uint64_t *clock = clock_of_caller();
    if (ns > *clock) *clock = ns;
}

void charge(struct machine_call_cost cost, uint64_t bytes)
{
    *clock_of_caller() += cost.base_ns + cost.per_mib_ns * bytes / MIB;
}

void charge_locked(struct machine_call_cost cost, uint64_t bytes)
{
    charge(cost, bytes);
    if (clock_get() > emu.lock_free_ns) emu.lock_free_ns = clock_get();
}

struct random *emu_random(void)
{
    return &emu.random;
}

/* ---- The heap of what happens when ---- */

static bool earlier(const struct heap_entry *a, const struct heap_entry *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->sequence < b->sequence;
}

void time_push(uint64_t at_ns, enum time_event what, void *object, unsigned generation)
{
    if (emu.heap_count == emu.heap_room) {
        emu.heap_room = emu.heap_room ? 2 * emu.heap_room : 256;
        emu.heap = realloc(emu.heap, emu.heap_room * sizeof *emu.heap);
        assert(emu.heap);
    }
    if (at_ns < emu.device_ns) at_ns = emu.device_ns;
    struct heap_entry entry = {at_ns, emu.sequence++, what, generation, object};
    if (what != TIME_ACCESS) op_ref(object);
    size_t at = emu.heap_count++;
    for (; at > 0 && earlier(&entry, &emu.heap[(at - 1) / 2]); at = (at - 1) / 2)
        emu.heap[at] = emu.heap[(at - 1) / 2];
    emu.heap[at] = entry;
}

static struct heap_entry heap_pop(void)
{
    assert(emu.heap_count > 0);
    struct heap_entry top = emu.heap[0], moved = emu.heap[--emu.heap_count];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= emu.heap_count) break;
        if (child + 1 < emu.heap_count && earlier(&emu.heap[child + 1], &emu.heap[child])) child++;
        if (!earlier(&emu.heap[child], &moved)) break;
        emu.heap[at] = emu.heap[child];
        at = child;
    }
    emu.heap[at] = moved;
    return top;
}

static bool entry_is_void(const struct heap_entry *entry)
{
    if (entry->what == TIME_ACCESS) return false;
    const struct op *op = entry->object;
    return op->done || op->generation != entry->generation;
}

/* Drops entries at the top that mean nothing any more. */
static void heap_trim(void)
{
    while (emu.heap_count > 0 && entry_is_void(&emu.heap[0])) op_unref(heap_pop().object);
}

bool time_next(uint64_t *at_ns)
{
    heap_trim();
    if (emu.heap_count == 0) return false;
    *at_ns = emu.heap[0].at_ns;
    return true;
}

/* ---- Operations ---- */

struct op *op_new(struct context *context, enum op_kind kind, const char *name)
{
    struct op *op = calloc(1, sizeof *op);
    assert(op);
    op->id = ++emu.next_op;
    op->kind = kind;
    op->name = name;
    op->references = 1;
    op->torn = kind == OP_COPY && emu.allow_torn_reads;
    op->context = context;
    op->card = context->card;
    list_init(&op->in_context);
    return op;
}

void op_ref(struct op *op)
{
    op->references++;
}

void op_unref(struct op *op)
{
    assert(op->references > 0);
    if (--op->references > 0) return;
    op_free_payload(op);
    for (unsigned i = 0; i < op->successor_count; i++) op_unref(op->successors[i]);
    free(op->successors);
    free(op);
}

void op_free_payload(struct op *op)
{
    if (op->kind == OP_COPY) free(op->copy.staged);
    if (op->kind == OP_KERNEL) free(op->launch.params);
    if (op->kind == OP_COPY) op->copy.staged = NULL;
    if (op->kind == OP_KERNEL) op->launch.params = NULL;
}

void op_after(struct op *op, struct op *first)
{
    if (!first || first->done || first == op) return;
    if (first->successor_count == first->successor_room) {
        first->successor_room = first->successor_room ? 2 * first->successor_room : 4;
        first->successors =
            realloc(first->successors, first->successor_room * sizeof *first->successors);
        assert(first->successors);
    }
    first->successors[first->successor_count++] = op;
    op_ref(op);
    op->waits_for++;
}

static void make_ready(struct op *op)
{
    time_push(op->submit_ns, TIME_START, op, op->generation);
}

void op_launch(struct op *op)
{
    assert(!op->ready);
    op->ready = true;
    uint64_t now = clock_get();
    op->submit_ns = now > emu.device_ns ? now : emu.device_ns;
    list_push_back(&op->context->ops, &op->in_context);
    if (op->to_host) emu.to_host_queued[op->card]++;
    if (op->waits_for == 0) make_ready(op);
}

/* Ends an operation: of its own accord, or (dropped) because its context is lost. */
static void op_done(struct op *op)
{
    assert(!op->done);
    op->done = true;
    op->end_ns = emu.device_ns;
    if (op->to_host) emu.to_host_queued[op->card]--;
    list_remove(&op->in_context);
    if (op->flight) flight_end(op->flight);
    op->flight = NULL;
    op_free_payload(op);
    if (op->engine) engine_leave(op);
    for (unsigned i = 0; i < op->successor_count; i++) {
        struct op *next = op->successors[i];
        assert(next->waits_for > 0);
        if (--next->waits_for == 0 && next->ready && !next->done) make_ready(next);
        op_unref(next);
    }
    op->successor_count = 0;
    op_unref(op);
}

CUresult op_submit(struct stream *stream, struct op *op)
{
    CUresult result;
    if (capture_takes(stream, op, &result)) return result;
    op->stream_id = (unsigned)stream->id;
    op_after(op, stream->last);
    struct context *context = stream->context;
    if (stream->legacy) {
        list_each(node, &context->streams)
        {
            struct stream *other = list_entry(node, struct stream, node);
            if (!(other->flags & CU_STREAM_NON_BLOCKING)) op_after(op, other->last);
        }
    } else if (!(stream->flags & CU_STREAM_NON_BLOCKING)) {
        op_after(op, context->legacy->last);
    }
    if (stream->last) op_unref(stream->last);
    stream->last = op;
    op_ref(op);
    op_launch(op);
    return CUDA_SUCCESS;
}

bool stream_is_idle(struct stream *stream)
{
    if (stream->last && stream->last->done) {
        op_unref(stream->last);
        stream->last = NULL;
    }
    return !stream->last;
}

void context_lose(struct context *context, CUresult error)
{
    if (context->lost == CUDA_SUCCESS) context->lost = error;
    emu.lossy = true;
    while (!list_empty(&context->ops))
        op_done(list_entry(context->ops.next, struct op, in_context));
}

/* ---- Progress of a running operation, piece by piece ---- */

static void schedule_piece(struct op *op)
{
    double left = op->piece_at[op->next_piece] - op->progress;
    uint64_t wait_ns = left > 0 ? (uint64_t)ceil(left / op->rate) : 0;
    time_push(op->updated_ns + wait_ns, TIME_PIECE, op, op->generation);
}

/* Cuts [0, total) into pieces at seeded places. With by_progress a piece takes effect when that
 * share of the work is done (a copy), otherwise at a seeded instant, in seeded order (the blocks of
 * a kernel). */
void op_cut(struct op *op, uint64_t total, bool by_progress)
{
    unsigned most = by_progress ? OP_PIECES : OP_PIECES - 1;
    unsigned count = 1 + (unsigned)random_below(&emu.random, most);
    if (count > total) count = total ? (unsigned)total : 1;
    uint64_t from = 0;
    for (unsigned i = 0; i < count; i++) {
        uint64_t rest = total - from - (count - 1 - i);
        uint64_t size = i + 1 == count ? rest : 1 + random_below(&emu.random, rest);
        op->piece_first[i] = from;
        from = op->piece_last[i] = from + size;
        op->piece_at[i] = total ? (double)from / (double)total : 1.0;
    }
    op->pieces = count;
    if (by_progress) return;
    for (unsigned i = 0; i < count; i++) {
        unsigned other = (unsigned)random_below(&emu.random, i + 1);
        uint64_t first = op->piece_first[i], last = op->piece_last[i];
        op->piece_first[i] = op->piece_first[other];
        op->piece_last[i] = op->piece_last[other];
        op->piece_first[other] = first;
        op->piece_last[other] = last;
    }
    double at = 0;
    for (unsigned i = 0; i < count; i++) {
        at += (1 - at) * (double)random_below(&emu.random, 1000) / 1000.0;
        op->piece_at[i] = at;
    }
    op->piece_first[count] = op->piece_last[count] = 0; /* the end itself */
    op->piece_at[count] = 1.0;
    op->pieces = count + 1;
}

void op_rate(struct op *op, double rate)
{
    if (rate == op->rate) return;
    op->progress += op->rate * (double)(emu.device_ns - op->updated_ns);
    op->updated_ns = emu.device_ns;
    op->rate = rate;
    op->generation++;
    schedule_piece(op);
}

void op_run_timed(struct op *op, double alone_ns, double both_ns)
{
    if (emu.options.jitter_percent > 0) {
        double more = (double)random_below(&emu.random, 10001) / 10000.0;
        double factor = 1 + more * emu.options.jitter_percent / 100.0;
        alone_ns *= factor;
        both_ns *= factor;
    }
    if (alone_ns < 1) alone_ns = 1;
    if (both_ns < alone_ns) both_ns = alone_ns;
    op->alone_rate = 1 / alone_ns;
    op->both_rate = 1 / both_ns;
    op->progress = op->rate = 0;
    op->share = 1;
    op->updated_ns = emu.device_ns;
    if (op->kind == OP_COPY && op->from != op->to)
        engine_enter(op);
    else
        op_rate(op, op->alone_rate);
}

static void run_piece(struct op *op)
{
    unsigned piece = op->next_piece++;
    op->progress = op->piece_at[piece];
    op->updated_ns = emu.device_ns;
    uint64_t first = op->piece_first[piece], last = op->piece_last[piece];
    if (first < last) {
        if (op->kind == OP_COPY) copy_piece(op, first, last);
        if (op->kind == OP_SET) set_piece(op, first, last);
        if (op->kind == OP_KERNEL) kernel_piece(op, first, last);
        flight_check(op->flight);
    }
    if (op->faulted)
        context_lose(op->context, CUDA_ERROR_ILLEGAL_ADDRESS);
    else if (op->next_piece == op->pieces)
        op_done(op);
    else
        schedule_piece(op);
}

/* ---- Starting ---- */

/* Host functions run on the caller, in the middle of whatever call let time pass; with free running
 * they run on a thread of their own, like the driver's, since the program's threads may all be
 * waiting for them. */
static void *callback_thread(void *unused)
{
    emu_in_callback = true;
    pthread_mutex_lock(&emu.lock);
    while (emu.callbacks) {
        struct op *op = emu.callbacks;
        emu.callbacks = op->engine_next;
        if (!emu.callbacks) emu.callbacks_last = &emu.callbacks;
        pthread_mutex_unlock(&emu.lock);
        if (op->kind == OP_HOST)
            op->host.function(op->host.data);
        else
            op->host.callback(op->host.stream, CUDA_SUCCESS, op->host.data);
        pthread_mutex_lock(&emu.lock);
        if (!op->done) op_done(op);
        op_unref(op);
        pthread_cond_broadcast(&emu.called_back);
    }
    emu.callbacks_running = 0;
    pthread_cond_broadcast(&emu.called_back);
    pthread_mutex_unlock(&emu.lock);
    return unused;
}

static void call_back(struct op *op)
{
    if (!emu.options.free_running) {
        if (op->kind == OP_HOST)
            op->host.function(op->host.data);
        else
            op->host.callback(op->host.stream, CUDA_SUCCESS, op->host.data);
        if (!op->done) op_done(op);
        return;
    }
    op_ref(op);
    op->engine_next = NULL;
    *emu.callbacks_last = op;
    emu.callbacks_last = &op->engine_next;
    if (emu.callbacks_running) return;
    emu.callbacks_running = 1;
    pthread_t thread;
    int failed = pthread_create(&thread, NULL, callback_thread, NULL);
    assert(!failed);
    (void)failed;
    pthread_detach(thread);
}

/* A wait for a value sleeps here until something may have changed the value. */
static void park(struct op *op)
{
    op_ref(op);
    op->engine_next = emu.parked;
    emu.parked = op;
}

void time_unpark(void)
{
    struct op **at = &emu.parked;
    while (*at) {
        struct op *op = *at;
        if (!op->done && !word_condition(op)) {
            at = &op->engine_next;
            continue;
        }
        *at = op->engine_next;
        if (!op->done) time_push(emu.device_ns, TIME_START, op, op->generation);
        op_unref(op);
    }
}

static void op_start(struct op *op)
{
    op->started = true;
    op->start_ns = emu.device_ns;
    switch (op->kind) {
    case OP_COPY: copy_start(op); break;
    case OP_SET: set_start(op); break;
    case OP_KERNEL: kernel_start(op); break;
    case OP_HOST:
    case OP_CALLBACK: call_back(op); break;
    case OP_WRITE_VALUE:
        word_write(op);
        if (op->faulted)
            context_lose(op->context, CUDA_ERROR_ILLEGAL_ADDRESS);
        else
            op_done(op);
        break;
    case OP_WAIT_VALUE:
        if (op->faulted)
            context_lose(op->context, CUDA_ERROR_ILLEGAL_ADDRESS);
        else if (word_condition(op))
            op_done(op);
        else
            park(op);
        break;
    case OP_FREE: {
        struct mapping *mapping = mapping_at(op->address);
        if (mapping) findings_memory_goes(mapping->range.start, mapping->range.end, true);
        if (mapping) memory_free(mapping);
        op_done(op);
        break;
    }
    case OP_RECORD:
    case OP_NOTHING: op_done(op); break;
    }
}

bool time_step(void)
{
    heap_trim();
    if (emu.heap_count == 0) return false;
    if (loss_step(emu.heap[0].at_ns)) return true;
    struct heap_entry entry = heap_pop();
    assert(entry.at_ns >= emu.device_ns);
    emu.device_ns = entry.at_ns;
    if (entry.what == TIME_ACCESS) {
        access_apply(entry.object);
        return true;
    }
    struct op *op = entry.object;
    if (entry.what == TIME_START)
        op_start(op);
    else
        run_piece(op);
    op_unref(op);
    if (emu.parked) time_unpark();
    return true;
}

void time_run_until(uint64_t at_ns)
{
    for (;;) {
        uint64_t next;
        bool due = time_next(&next) && next <= at_ns;
        if (loss_step(due ? next : at_ns)) continue;
        if (!due) break;
        time_step();
    }
    if (at_ns > emu.device_ns) emu.device_ns = at_ns;
}

/* Lets one more thing happen. False: nothing ever will. */
static bool wait_step(void)
{
    if (time_step()) return true;
    if (emu.callbacks_running) {
        pthread_cond_wait(&emu.called_back, &emu.lock);
        return true;
    }
    if (!emu.parked || !emu.options.free_running) return false;
    pthread_mutex_unlock(&emu.lock); /* another thread of the program may write the value */
    sched_yield();
    pthread_mutex_lock(&emu.lock);
    time_unpark();
    return true;
}

CUresult op_wait(struct op *op)
{
    if (!op) return CUDA_SUCCESS;
    struct context *context = op->context;
    op_ref(op);
    while (!op->done) {
        if (!wait_step()) {
            log_error("emulator: %s can never finish: it waits for work that was never queued",
                      op->name);
            context_lose(context, CUDA_ERROR_LAUNCH_FAILED);
        }
    }
    clock_set(op->end_ns);
    op_unref(op);
    return context->lost;
}

/* Before a query answers "not ready" the device gets on by one event, if nobody else moves the
 * clock. */
void time_jump(void)
{
    uint64_t next;
    if (!emu.options.free_running || !time_next(&next)) return;
    clock_set(next);
    time_run_until(next);
}

bool op_is_done(struct op *op)
{
    if (!op || op->done) return true;
    time_jump();
    return op->done;
}

void time_close(void)
{
    while (emu.parked) {
        struct op *op = emu.parked;
        emu.parked = op->engine_next;
        op_unref(op);
    }
    while (emu.heap_count > 0) {
        struct heap_entry entry = heap_pop();
        if (entry.what == TIME_ACCESS)
            free(entry.object);
        else
            op_unref(entry.object);
    }
    free(emu.heap);
    emu.heap = NULL;
    emu.heap_room = 0;
}
