/* One operation on its way to the driver. The launch path: no heap, one lock. */
#include "pool/internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/units.h"
#include "params/pinned.h"
#include "pool/measure.h"
#include "pool/timeline.h"

static const uint64_t throttle_wait_ns = 20 * NS_PER_US, throttle_most_ns = 20 * NS_PER_MS;
static const uint64_t hold_wait_ns = 50 * NS_PER_US, hold_report_ns = 10 * NS_PER_S;

enum { ASK_TRIES = 8 }; /* of a question to the driver that fails */

static _Atomic uint32_t next_thread_id = 1;
static pthread_key_t thread_key;
static pthread_once_t thread_once = PTHREAD_ONCE_INIT;
static __thread struct pool_thread *this_thread __attribute__((tls_model("initial-exec")));

static void free_thread(void *thread)
{
    free(thread);
    this_thread = NULL;
}

static void make_key(void)
{
    if (pthread_key_create(&thread_key, free_thread) != 0) abort();
}

static struct pool_thread *make_thread(void)
{
    pthread_once(&thread_once, make_key);
    struct pool_thread *thread =
        malloc(sizeof *thread); /* its lists are touched as they are needed */
    if (!thread) return NULL;
    thread->id = atomic_fetch_add(&next_thread_id, 1);
    thread->slot = 0;
    pthread_setspecific(thread_key, thread);
    this_thread = thread;
    return thread;
}

struct pool_thread *pool_thread_get(vp_pool *pool)
{
    if (pool->edge) return (struct pool_thread *)(uintptr_t)pool->edge->thread(pool->edge->context);
    return this_thread ? this_thread : make_thread();
}

void pool_op_begin(struct pool_op *op, vp_pool *pool, enum pool_op_kind kind, CUstream stream,
                   const char *name)
{
    op->pool = pool;
    op->kind = kind;
    op->stream = stream;
    op->name = name;
    op->handle = NULL;
    op->shape = 0;
    op->function = NULL;
    op->params = op->extra = NULL;
    op->host_count = 0;
    op->word_count = 0;
    op->has_ranges = op->keeps = false;
    op->sequence = op->patience_ns = 0;
    op->vet = NULL;
    op->sample = NULL;
    op->unclear = op->overflown = op->verifying = false;
    op->thread = pool_thread_get(pool);
    memset(&op->request, 0, offsetof(struct move_request, waits));
}

static void add_word(struct pool_op *op, vp_addr address, uint64_t bytes)
{
    if (!op->thread || op->word_count == POOL_WORDS) {
        op->overflown = true;
        return;
    }
    op->thread->words[op->word_count] = address;
    op->thread->word_bytes[op->word_count++] = bytes;
}

void pool_op_touch(struct pool_op *op, CUdeviceptr address)
{
    if (space_contains(&op->pool->space, address)) add_word(op, address, 0);
}

void pool_op_touch_range(struct pool_op *op, CUdeviceptr address, uint64_t bytes)
{
    if (bytes == 0 || !space_contains(&op->pool->space, address)) return;
    op->has_ranges = true;
    add_word(op, address, bytes);
}

/* Tables in pinned host memory that the parameters name. Too many addresses there are like a table
 * that points to more than fits. */
static void touch_pinned(struct pool_op *op)
{
    vp_addr first;
    uint64_t bytes;
    if (op->pool->options.verify == 2 || !pinned_hull(&first, &bytes)) return;
    vp_addr *named = op->thread->scanned;
    unsigned count =
        params_scan(op->function, op->params, op->extra, first, bytes, named, POOL_WORDS);
    if (count == 0) return;
    const struct space *space = &op->pool->space;
    unsigned room = POOL_WORDS - op->word_count;
    unsigned found = pinned_scan(named, count < POOL_WORDS ? count : POOL_WORDS, space->base,
                                 space->bytes, &op->thread->words[op->word_count], room);
    op->unclear |= found > room || count > POOL_WORDS;
    op->word_count += found < room ? found : room;
}

void pool_op_touch_params(struct pool_op *op, void *handle, void **params, void **extra)
{
    op->handle = handle;
    op->params = params;
    op->extra = extra;
    op->function = params_find(&op->pool->params, handle);
    if (!op->thread || !op->function) {
        op->overflown = true;
        return;
    }
    if (params && !op->function->layout_known) op->unclear = true;
    const struct space *space = &op->pool->space;
    unsigned found = params_scan(op->function, params, extra, space->base, space->bytes,
                                 &op->thread->words[op->word_count], POOL_WORDS - op->word_count);
    if (found > POOL_WORDS - op->word_count)
        op->overflown = true;
    else
        op->word_count += found;
    touch_pinned(op);
}

void pool_op_scan_host(struct pool_op *op, CUdeviceptr to, const void *from, uint64_t bytes)
{
    const struct space *space = &op->pool->space;
    uint64_t skipped = -to & (sizeof(vp_addr) - 1); /* where they arrive, pointers are aligned */
    if (!from || bytes < skipped) return;
    from = (const char *)from + skipped;
    bytes -= skipped;
    if (bytes > MIB) bytes = 64 * KIB;
    if (!params_scan_memory(from, bytes, sizeof(vp_addr), space->base, space->bytes, NULL, 0))
        return;
    if (!op->thread || op->host_count == POOL_HOSTS)
        op->overflown = true;
    else
        op->thread->hosts[op->host_count++] = (struct pool_host){from, bytes, to + skipped};
}

void pool_op_touch_anything(struct pool_op *op)
{
    op->unclear = true;
}

/* ---- what the words come to; lock held ---- */

static inline void add_touch(struct pool_op *op, struct segment *segment, uint32_t first,
                             uint32_t last)
{
    struct move_touch *touches = op->thread->touches;
    const uint64_t serial = op->pool->touch_serial;
    const uint32_t at = op->request.count;
    if (segment->touch_serial == serial) {
        struct move_touch *known = &touches[segment->touch_index];
        if (first <= known->last_chunk + 1 && last + 1 >= known->first_chunk) {
            if (first < known->first_chunk) known->first_chunk = first;
            if (last > known->last_chunk) known->last_chunk = last;
            return;
        }
    }
    if (at == POOL_TOUCHES) {
        op->overflown = true;
        return;
    }
    op->request.count = at + 1;
    segment->touch_serial = serial;
    segment->touch_index = at;
    touches[at] = (struct move_touch){segment, segment->generation, first, last, false};
}

static void add_segment(struct pool_op *op, struct segment *segment)
{
    add_touch(op, segment, 0, segment->chunk_count - 1);
}

/* A pointer: to the block it points into. One to dead memory touches nothing. */
static void resolve_pointer(struct pool_op *op, struct segment *segment, vp_addr address)
{
    /* One block, and most programs have no others; or what is dead now may live when it is used. */
    if (!segment->noted || op->keeps) {
        add_touch(op, segment, 0, segment->chunk_count - 1);
        return;
    }
    uint32_t first, last;
    if (segment_reach(segment, address, &first, &last)) add_touch(op, segment, first, last);
}

static void resolve_range(struct pool_op *op, vp_addr address, uint64_t bytes)
{
    const struct segments *segments = &op->pool->segments;
    vp_addr end = address + bytes;
    while (address < end) {
        struct segment *segment = segment_of(segments, address);
        if (!segment)
            return; /* past the segment's end: the driver will say what it thinks of that */
        vp_addr segment_end = segment->base + (segment->pages << segments->space->page_shift);
        vp_addr last = (end < segment_end ? end : segment_end) - 1;
        add_touch(op, segment, segment_chunk_at(segment, address), segment_chunk_at(segment, last));
        address = last + 1;
    }
}

/* What the touched tables point to, and what tables among that point to. True when there is any
 * table. */
static bool close_over_tables(struct pool_op *op)
{
    bool any = false;
    for (uint32_t i = 0; i < op->request.count; i++) {
        const struct table *table = op->thread->touches[i].segment->table;
        if (!table) continue;
        any = true;
        op->unclear |= table->full;
        for (uint32_t k = 0; k < table->count; k++) {
            struct segment *target = table->to[k].segment;
            if (target->state == SEGMENT_LIVE) add_segment(op, target);
        }
    }
    return any;
}

/* Verify mode by parameters alone: says which functions are given more than their parameters name.
 */
static void list_tables(struct pool_op *op)
{
    for (uint32_t i = 0; i < op->request.count && !op->function->listed; i++) {
        const struct segment *segment = op->thread->touches[i].segment;
        if (!segment->table) continue;
        op->function->listed = true;
        log_warn("verify: %s needs more than its parameters: block %u, which they name, holds "
                 "addresses of "
                 "%u blocks",
                 op->function->name, segment->id, segment->table->count);
    }
}

/* Memory that is not the pool's gets to know addresses of the pool: a variable of a module, or an
 * allocation that the driver made. Nobody will tell who uses them when: what lies there is brought
 * within reach, and stays. */
static void fix_targets(struct pool_op *op, const struct pool_host *host)
{
    for (uint64_t at = 0; at + sizeof(vp_addr) <= host->bytes; at += sizeof(vp_addr)) {
        vp_addr word;
        memcpy(&word, (const char *)host->from + at, sizeof word);
        struct segment *target = segment_of(&op->pool->segments, word);
        if (!target) continue;
        if (!target->captured) op->pool->move.changes++;
        target->captured = target->fixed = true;
        add_segment(op, target);
    }
}

static void learn_from_host(struct pool_op *op)
{
    for (uint32_t i = 0; i < op->host_count; i++) {
        const struct pool_host *host = &op->thread->hosts[i];
        struct segment *holder = segment_of(&op->pool->segments, host->to);
        if (!holder)
            fix_targets(op, host);
        else if (table_learn(&op->pool->segments, holder, host->from, host->bytes) & TABLE_NEW)
            op->pool->tables++;
    }
}

/* A copy carries the addresses in its source along. */
static void learn_from_copy(struct pool_op *op)
{
    struct move_touch *touches = op->thread->touches;
    for (uint32_t i = 0; i < op->request.count; i++) {
        const struct table *table = touches[i].segment->table;
        for (uint32_t k = 0; table && k < op->request.count; k++)
            if (k != i && table_copy(touches[k].segment, table)) op->pool->tables++;
    }
}

/* What is not known may lie anywhere; of a graph the captured segments stay where they are. */
static void add_all(struct pool_op *op)
{
    list_each(node, &op->pool->segments.all)
    {
        struct segment *segment = list_entry(node, struct segment, all);
        if (op->request.count == POOL_TOUCHES) return;
        if (segment->state == SEGMENT_LIVE) add_segment(op, segment);
    }
}

static void resolve(struct pool_op *op)
{
    vp_pool *pool = op->pool;
    pool->touch_serial++;
    op->request.count = 0;
    op->request.touches = op->thread->touches;
    for (uint32_t i = 0; i < op->word_count; i++) {
        vp_addr address = op->thread->words[i];
        if (op->has_ranges && op->thread->word_bytes[i]) {
            resolve_range(op, address, op->thread->word_bytes[i]);
            continue;
        }
        struct segment *segment = segment_of(&pool->segments, address);
        if (segment) resolve_pointer(op, segment, address);
    }
    learn_from_host(op);
    if (op->kind == POOL_COPY) learn_from_copy(op);
    /* Copies and memsets use what they name, and no more. */
    uint32_t named = op->request.count;
    if (op->function && pool->options.verify == 2) list_tables(op);
    bool tables = op->function && pool->options.verify != 2 && close_over_tables(op);
    if (op->function && pool->options.verify) verify_count(op, named);
    bool vetted = !op->function || vet_is_over(op);
    if (op->unclear && (op->kind != POOL_GRAPH || op->keeps)) add_all(op);
    bool known = op->pool->move.strict || op->request.host_waits; /* nothing moves beside it */
    op->request.exclusive = (op->unclear || !vetted || tables) && !known;
    if (op->unclear)
        for (uint32_t i = 0; i < op->request.count; i++)
            op->thread->touches[i].segment->loose = true;
    op->tables = pool->tables;
}

/* ---- streams ---- */

static bool is_special(CUstream stream)
{
    return (uintptr_t)stream <= (uintptr_t)CU_STREAM_PER_THREAD;
}

/* The slot of the operation's stream; lock held. ORDER_STREAMS: no room for another stream. */
static unsigned find_slot(struct pool_op *op, CUcontext context)
{
    CUstream stream = op->stream == CU_STREAM_LEGACY ? NULL : op->stream;
    uint64_t key = stream == CU_STREAM_PER_THREAD ? op->thread->id : 0;
    struct order *order = &op->pool->order;
    unsigned slot = op->thread->slot;
    if (slot < order->count) {
        const struct order_stream *last = order->stream[slot];
        if (last->handle == stream && last->key == key && !last->ended &&
            (!context || last->context == context))
            return slot;
    }
    slot = order_find(order, stream, key, context);
    if (slot < ORDER_STREAMS) op->thread->slot = slot;
    return slot;
}

/* ---- entering ---- */

/* The watchdog: names what a held operation waits for. */
static void report_hold(struct pool_op *op, uint64_t held_ns)
{
    char why[512];
    move_explain(&op->pool->move, &op->request, why, sizeof why);
    log_warn("%s has been held for %.0f s: %s", op->function ? op->function->name : op->name,
             (double)held_ns / 1e9, why);
    for (uint32_t i = 0; i < op->request.count; i++) {
        const struct order_uses *prior = &op->thread->touches[i].segment->prior;
        for (uint32_t k = 0; k < prior->count; k++) {
            const struct order_stream *stream = op->pool->order.stream[prior->use[k].slot];
            log_warn("  it waits for operation %llu of stream %p: %llu entered, %llu returned, "
                     "%llu marked, "
                     "%llu done",
                     (unsigned long long)prior->use[k].sequence, stream->handle,
                     (unsigned long long)stream->entered,
                     (unsigned long long)atomic_load(&stream->returned),
                     (unsigned long long)stream->marked, (unsigned long long)stream->done);
        }
    }
}

static enum move_verdict try_admit(struct pool_op *op)
{
    vp_pool *pool = op->pool;
    if (op->tables != pool->tables) { /* it may touch more than it seemed */
        move_touches_change(&pool->move, &op->request);
        resolve(op);
    }
    if (op->overflown) {
        move_abandon(&pool->move, &op->request);
        return MOVE_REFUSED;
    }
    if (vet_is_due(op)) return MOVE_HELD;
    if (op->request.exclusive && !(op->vet = vet_reserve(pool))) return MOVE_HELD;
    enum move_verdict verdict = move_admit(&pool->move, &op->request);
    if (verdict != MOVE_ADMITTED) {
        vet_release(pool, op->vet);
        op->vet = NULL;
    }
    return verdict;
}

static const char *cause_name(enum move_cause cause)
{
    static const char *const names[MOVE_CAUSES] = {"to be alone", "mapping", "data", "room"};
    return names[cause];
}

/* One stretch of a hold, for one cause. */
static void note_hold(struct pool_op *op, enum move_cause cause, uint64_t began)
{
    timeline_add(op->pool,
                 (struct timeline_span){.name = op->function ? op->function->name : op->name,
                                        .row = TIMELINE_HELD,
                                        .why = cause_name(cause),
                                        .began_ns = began});
}

/* Lets something change. Where the pool has threads of its own they see to it: two who map at once
 * hold each other up in the driver. */
static void let_work(vp_pool *pool, uint64_t wait_ns)
{
    bool helped = pool->edge ? pool->edge->threads : pool->movers > 0;
    if (helped || !pool_work(pool)) pool_wait(pool, wait_ns);
}

static CUresult hold(struct pool_op *op, enum move_verdict *verdict)
{
    vp_pool *pool = op->pool;
    uint64_t began = pool_now_ns(pool), reported = 0, held = 0, since = began;
    enum move_cause cause = move_cause(&pool->move, &op->request), before = cause;
    pool_wake(pool); /* there is something to do */
    while (*verdict == MOVE_HELD && !pool->lost && !(op->patience_ns && held > op->patience_ns)) {
        cause = move_cause(&pool->move, &op->request);
        if (cause != before) {
            note_hold(op, before, since);
            since = timeline_now(pool);
            before = cause;
        }
        let_work(pool, hold_wait_ns);
        *verdict = try_admit(op);
        uint64_t now = pool_now_ns(pool) - began;
        pool->hold_for_ns[cause] += now - held;
        held = now;
        if (held - reported > hold_report_ns) {
            reported = held;
            report_hold(op, held);
        }
    }
    note_hold(op, cause, since);
    pool->holds++;
    /* A job that just fits sends nothing away, but maps what is dead anew again and again. */
    if (pool->move.counts.evictions || pool->move.counts.drops) pool->sample = SAMPLE_SPILLING;
    if (*verdict != MOVE_HELD) return CUDA_SUCCESS;
    move_abandon(&pool->move, &op->request);
    return pool->lost ? pool->lost_with : CUDA_ERROR_NOT_READY;
}

/* The event that tells of a wait's end; NULL when it has ended. Lock held. */
static CUevent event_of(vp_pool *pool, const struct move_wait *wait)
{
    if (!wait->is_mark) {
        if (pool->move.lanes[wait->lane_or_slot].ended >= wait->number) return NULL;
        return pool->lanes[wait->lane_or_slot].events[wait->number % MOVE_COPIES];
    }
    const struct order_stream *stream = pool->order.stream[wait->lane_or_slot];
    for (unsigned i = 0; i < stream->mark_count; i++) {
        const struct order_mark *mark = &stream->marks[(stream->first_mark + i) % ORDER_MARKS];
        if (mark->covers >= wait->number) return (CUevent)mark->event;
    }
    return NULL;
}

static void note_uses(struct pool_op *op)
{
    vp_pool *pool = op->pool;
    const struct move_touch *touches = op->thread->touches;
    const uint32_t count = op->request.count, slot = op->slot;
    const uint64_t sequence = op->sequence = order_enter(&pool->order, slot);
    const uint64_t age_now =
        pool->touch_serial / AGE_GRAIN; /* the list of ages need not be finer */
    for (uint32_t i = 0; i < count; i++) {
        struct segment *segment = touches[i].segment;
        order_uses_note(&pool->order, &segment->uses, slot, sequence);
        if (segment->aged == age_now || segment->state != SEGMENT_LIVE) continue;
        segment->aged = age_now;
        segment_make_young(&pool->segments, segment);
    }
}

static bool all_ready(const struct pool_op *op)
{
    if (op->request.exclusive || op->pool->captures || op->pool->move.strict) return false;
    const struct move_touch *touch = op->thread->touches, *end = touch + op->request.count;
    for (; touch < end; touch++)
        if (touch->segment->unready) return false;
    return true;
}

/* A kernel that names nothing of the pool's, where hidden accesses are reckoned with: it must not
 * run beside moves. */
static bool runs_unseen(const struct pool_op *op)
{
    return op->pool->move.strict && op->kind == POOL_KERNEL;
}

/* While a stream captures, what it touches stays where it is for good, and the host waits for
 * copies. */
static CUresult prepare_capture(struct pool_op *op)
{
    vp_pool *pool = op->pool;
    if (!pool->captures) return CUDA_SUCCESS;
    int status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult asked;
    unsigned tries = 0;
    pool_unlock(pool);
    do asked = pool->driver->cuStreamIsCapturing(op->stream, &status);
    while (asked != CUDA_SUCCESS && ++tries < ASK_TRIES);
    pool_lock(pool);
    bool captures = asked == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE;
    pool->order.stream[op->slot]->capturing = captures;
    if (!captures) return asked;
    op->request.host_waits = true;
    op->request.exclusive = false; /* it does not run now; the graph will be unclear */
    return CUDA_SUCCESS;
}

/* What was freed while the operation waited is nobody's to keep. */
static void keep_touches(struct pool_op *op, const void *owner)
{
    for (uint32_t i = 0; i < op->request.count; i++) {
        const struct move_touch *touch = &op->thread->touches[i];
        if (!move_touch_is_gone(touch)) keep_segment(op->pool, owner, touch->segment);
    }
}

static CUresult refuse(struct pool_op *op)
{
    log_error(
        "%s cannot run: what it needs can be brought neither to the card nor within its reach; "
        "raise --hbm or --host, or free memory",
        op->function ? op->function->name : op->name);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* Keeps the host from running far ahead of the device where chunks have to leave: all that queued
 * operations touch has to stay. Never waits long: the device may be waiting for the host. */
static void throttle(struct pool_op *op)
{
    vp_pool *pool = op->pool;
    if (!move_looks_ahead(&pool->move) || pool->captures) return;
    const struct order_stream *stream = pool->order.stream[op->slot];
    uint64_t began = pool_now_ns(pool);
    while (stream->entered - stream->done > pool->move.ahead_ops && !pool->lost &&
           pool_now_ns(pool) - began < throttle_most_ns)
        let_work(pool, throttle_wait_ns);
    pool->throttle_ns += pool_now_ns(pool) - began;
}

/* Whether it had better use over the link what there is no room for. Where it is known what comes,
 * fetching ahead is better. */
static bool may_be_far(const struct pool_op *op)
{
    const struct move *move = &op->pool->move;
    if (move->policy != VP_POLICY_PLAN || foresight_sees(&move->foresight)) return false;
    return measure_in_place(op->pool, op) == IN_PLACE_PAYS;
}

/* Shows the operation to the finder, once there is something to foresee. */
static void show(struct pool_op *op)
{
    const struct move_counts *counts = &op->pool->move.counts;
    if (counts->evictions || counts->drops || counts->in_place) foresee_op(op->pool, op);
}

/* Decides under the lock; collects the events to wait for. */
static CUresult admit(struct pool_op *op, CUcontext context, CUevent *events, unsigned *event_count)
{
    vp_pool *pool = op->pool;
    op->slot = find_slot(op, context);
    if (op->slot == ORDER_STREAMS) {
        log_error("more than %d streams are in use; vrampool cannot keep them apart",
                  ORDER_STREAMS);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    op->request.slot = op->slot;
    throttle(op);
    resolve(op);
    if (op->overflown) return refuse(op);
    if (op->request.count == 0 && !op->unclear && !runs_unseen(op)) {
        /* What it names is dead; in the next step something may live there, by chance. */
        if (!pool->captures) show(op);
        return CUDA_SUCCESS;
    }
    CUresult asked = prepare_capture(op);
    if (asked != CUDA_SUCCESS) return asked;
    if (!all_ready(op) || vet_is_due(op)) {
        op->request.in_place_pays = may_be_far(op);
        enum move_verdict verdict = try_admit(op);
        CUresult lost = verdict == MOVE_HELD ? hold(op, &verdict) : CUDA_SUCCESS;
        if (lost != CUDA_SUCCESS) return lost;
        if (verdict == MOVE_REFUSED) return refuse(op);
        for (unsigned i = 0; i < op->request.wait_count; i++) {
            CUevent event = event_of(pool, &op->request.waits[i]);
            if (event) events[(*event_count)++] = event;
        }
        if (op->request.host_waits) keep_touches(op, &pool->captures);
    }
    if (op->request.host_waits) return CUDA_SUCCESS; /* it is not queued now */
    note_uses(op);
    vet_note(op);
    show(op);
    return CUDA_SUCCESS;
}

CUresult pool_op_enter(struct pool_op *op)
{
    vp_pool *pool = op->pool;
    if (!op->word_count && !op->host_count && !op->unclear && !op->overflown && !runs_unseen(op))
        return CUDA_SUCCESS;
    if (!op->thread) return CUDA_ERROR_OUT_OF_MEMORY;
    CUcontext context = NULL;
    CUresult known = CUDA_SUCCESS;
    if (is_special(op->stream) || pool->options.compute_cards & (pool->options.compute_cards - 1))
        known = pool_current_context(pool, &context);
    if (known != CUDA_SUCCESS) return known;
    if (pool->options.verify) verify_begin(op);
    CUevent events[MOVE_WAITS];
    unsigned event_count = 0;
    bool relaxes = atomic_load_explicit(&pool->captures, memory_order_relaxed) != 0;
    int mode = CU_STREAM_CAPTURE_MODE_RELAXED; /* our queries disturb no capture of the program's */
    relaxes = relaxes && pool_exchange_mode(pool, &mode) == CUDA_SUCCESS;
    pool_lock(pool);
    CUresult result = admit(op, context, events, &event_count);
    pool_unlock(pool);
    if (relaxes) pool_exchange_mode(pool, &mode);
    if (op->sample) measure_arrives(pool, op->sample, op->stream);
    for (unsigned i = 0; i < event_count && result == CUDA_SUCCESS; i++) {
        result = pool->driver->cuStreamWaitEvent(op->stream, events[i], 0);
        if (result != CUDA_SUCCESS) result = pool->driver->cuEventSynchronize(events[i]);
    }
    if (op->sample) measure_begins(pool, op->sample, op->stream);
    return result;
}

/* As a captured operation is admitted: nothing is queued, and the host waits. */
static CUresult admit_kept(struct pool_op *op, const void *owner)
{
    op->slot = op->request.slot = ORDER_STREAMS;
    op->keeps = op->request.host_waits = true;
    resolve(op);
    if (op->overflown) return refuse(op);
    enum move_verdict verdict = try_admit(op);
    CUresult lost = verdict == MOVE_HELD ? hold(op, &verdict) : CUDA_SUCCESS;
    if (lost != CUDA_SUCCESS) return lost;
    if (verdict == MOVE_REFUSED) return refuse(op);
    keep_touches(op, owner);
    return CUDA_SUCCESS;
}

CUresult pool_op_keep(struct pool_op *op, const void *owner)
{
    vp_pool *pool = op->pool;
    if (!op->word_count && !op->unclear && !op->overflown) return CUDA_SUCCESS;
    if (!op->thread) return CUDA_ERROR_OUT_OF_MEMORY;
    int mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    bool relaxes = pool_exchange_mode(pool, &mode) == CUDA_SUCCESS;
    pool_lock(pool);
    CUresult result = admit_kept(op, owner);
    pool_unlock(pool);
    if (relaxes) pool_exchange_mode(pool, &mode);
    return result;
}

/* No other thread can name this thread's default stream: what it does not mark, nobody will. */
static bool is_own_stream(const struct pool_op *op)
{
    return op->stream == CU_STREAM_PER_THREAD;
}

/* Records a mark on the operation's own stream, where one is due. */
static void mark(struct pool_op *op)
{
    vp_pool *pool = op->pool;
    pool_lock(pool);
    struct order_stream *stream = pool->order.stream[op->slot];
    uint64_t covers = stream->marking ? 0 : order_mark_covers(stream);
    struct order_mark *next = covers ? order_mark_next(stream) : NULL;
    if (next) stream->marking = true;
    pool_unlock(pool);
    if (!next) return;
    CUresult done = pool_record_mark(pool, next, op->stream);
    bool drained = done != CUDA_SUCCESS && is_own_stream(op);
    if (drained) pool_drain_stream(pool, op->stream);
    pool_lock(pool);
    stream->marking = false;
    if (done == CUDA_SUCCESS) order_mark_recorded(stream, covers);
    if (drained) order_all_done(stream);
    pool_unlock(pool);
}

CUresult pool_op_leave(struct pool_op *op, CUresult result)
{
    vp_pool *pool = op->pool;
    if (op->sequence) {
        struct order_stream *stream = pool->order.stream[op->slot];
        if (op->sample) measure_ends(pool, op->sample, op->stream, result == CUDA_SUCCESS);
        if (op->vet) vet_queue(op, result);
        if (pool->record && result == CUDA_SUCCESS) record_op(pool, op);
        order_leave(stream);
        bool wanted = atomic_load_explicit(&stream->mark_wanted, memory_order_relaxed);
        if (wanted || is_own_stream(op) || !(op->sequence & (pool->sample - 1))) mark(op);
    }
    return op->verifying ? verify_end(op, result) : result;
}
