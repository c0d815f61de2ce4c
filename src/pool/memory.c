/* Allocation and freeing, and what programs ask about memory. */
#include "pool/internal.h"

#include <assert.h>
#include <stdio.h>

#include "base/log.h"
#include "base/units.h"
#include "pool/measure.h"
#include "pool/promise.h"

static const uint64_t relief_wait_ns = 50 * NS_PER_US, relief_wait_most_ns = NS_PER_S,
                      bring_most_ns = 100 * NS_PER_MS, quiesce_most_ns = 10 * NS_PER_S;

/* Bit i: place i is the card's home, or one where its chunks may go: where they are always mapped,
 * one where they can be used. */
static uint32_t places_of(const vp_pool *pool, unsigned card)
{
    const struct move *move = &pool->move;
    uint32_t home = UINT32_C(1) << move->home[card], places = 0;
    for (unsigned i = 0; i < move->refuges[card]; i++)
        places |= UINT32_C(1) << move->refuge[card][i];
    return home | (places & (move->always_mapped ? move->usable[card] : UINT32_MAX));
}

static uint32_t all_places(const vp_pool *pool)
{
    uint32_t places = 0;
    for (unsigned card = 0; card < pool->cards; card++)
        if (pool->options.compute_cards >> card & 1) places |= places_of(pool, card);
    return places;
}

/* What blocks can be promised with. */
static uint64_t place_pages(const vp_pool *pool, unsigned place)
{
    uint64_t capacity = frame_capacity_pages(&pool->frames.place[place]);
    uint64_t reserved = owed_reserved_pages(&pool->move, place);
    return capacity > reserved ? capacity - reserved : 0;
}

/* Room that can be promised. A chunk lies in one place, so every place but one may be left with
 * less room than a chunk takes: every one but the host, where that has as much, as all cards reach
 * it; else but the largest. */
static void fill_room(const vp_pool *pool, uint64_t *room)
{
    uint64_t lost = pool->segments.chunk_pages - 1;
    unsigned whole = pool->host_place;
    for (unsigned i = 0; i < pool->frames.places; i++) {
        room[i] = place_pages(pool, i);
        if (room[pool->host_place] < lost && room[i] > room[whole]) whole = i;
    }
    for (unsigned i = 0; i < pool->frames.places; i++)
        if (i != whole) room[i] -= room[i] < lost ? room[i] : lost;
}

static uint64_t total_pages(const vp_pool *pool)
{
    uint64_t room[VP_MAX_PLACES] = {0}, pages = 0;
    fill_room(pool, room);
    for (uint32_t places = all_places(pool); places; places &= places - 1)
        pages += room[__builtin_ctz(places)];
    return pages;
}

/* Most programs leave their cards room to spare, which is seen sooner than how to share out. */
static bool fits_at_home(const vp_pool *pool, unsigned card, uint64_t pages)
{
    uint64_t lost = pool->segments.chunk_pages - 1; /* at most, see fill_room */
    for (unsigned i = 0; i < pool->cards; i++) {
        if (!(pool->options.compute_cards >> i & 1)) continue;
        uint64_t need = pool->segments.card_pages[i] + (i == card ? pages : 0);
        if (need + lost > place_pages(pool, pool->move.home[i])) return false;
    }
    return true;
}

/* Whether all that lives, and so much more for one card, can lie somewhere. */
bool pool_fits(const vp_pool *pool, unsigned card, uint64_t pages)
{
    if (fits_at_home(pool, card, pages)) return true;
    struct promise promise = {.cards = pool->cards, .places = pool->frames.places};
    fill_room(pool, promise.room);
    for (unsigned i = 0; i < pool->cards; i++) {
        if (!(pool->options.compute_cards >> i & 1)) continue;
        promise.need[i] = pool->segments.card_pages[i] + (i == card ? pages : 0);
        promise.places_of[i] = places_of(pool, i);
    }
    return promise_fits(&promise);
}

static void explain_refusal(vp_pool *pool, uint64_t bytes)
{
    char want[16], live[16], total[16], places[VP_MAX_PLACES * 48];
    size_t used = 0;
    for (unsigned i = 0; i < pool->frames.places && used < sizeof places; i++) {
        const struct frame_place *place = &pool->frames.place[i];
        char in_use[16], capacity[16];
        units_format_size(place->used_pages * pool->page_bytes, in_use, sizeof in_use);
        units_format_size(place->capacity_pages * pool->page_bytes, capacity, sizeof capacity);
        used += (size_t)snprintf(places + used, sizeof places - used, "%s%s %s of %s",
                                 i ? ", " : "", place->name, in_use, capacity);
    }
    log_error("out of memory: %s asked for, %s of %s promised (%s); raise --hbm or --host, lend "
              "more cards with --lend%s, or make the job smaller",
              units_format_size(bytes, want, sizeof want),
              units_format_size(pool->segments.live_pages * pool->page_bytes, live, sizeof live),
              units_format_size(total_pages(pool) * pool->page_bytes, total, sizeof total), places,
              pool->options.chunk_bytes ? ", make --chunk smaller" : "");
}

static void lay_to_rest(vp_pool *pool, struct segment *segment)
{
    segment_rest(&pool->segments, segment);
    segment_make_old(&pool->segments, segment); /* its frames are the first to go */
    move_forget_dead(&pool->move, segment);
    table_clear(segment);
}

/* Maps the guard behind a segment; that of the size it had before goes. Lock not held. */
static CUresult move_guard(vp_pool *pool, struct segment *segment)
{
    uint64_t bytes = pool->page_bytes;
    if (segment->guard_pages) {
        CUresult result = pool_unmap(pool, segment->base + segment->guard_pages * bytes, bytes);
        if (result != CUDA_SUCCESS) return result;
    }
    segment->guard_pages = 0;
    CUresult result = pool_map(pool, segment->base + segment->pages * bytes, bytes,
                               pool->guards[segment->card], pool->move.home[segment->card]);
    if (result != CUDA_SUCCESS) return result;
    segment->guard_pages = segment->pages;
    segment->guard_card = segment->card;
    return result;
}

/* Whether it fits, perhaps a moment later: what a card gave back to the driver for a call of
 * another thread's may return. Lock held, let go in between. */
static bool will_fit(vp_pool *pool, unsigned card, uint64_t pages)
{
    if (pool_fits(pool, card, pages)) return true;
    uint64_t began = pool_now_ns(pool);
    while (!pool_fits(pool, card, pages)) {
        if (!pool->reliefs || pool_now_ns(pool) - began > relief_wait_most_ns) return false;
        pool_wait(pool, relief_wait_ns);
    }
    return true;
}

/* A live segment, with a guard behind it; lock held, let go while the guard is mapped. */
static vp_status take_segment(vp_pool *pool, unsigned card, uint64_t bytes, bool fresh,
                              struct segment **segment)
{
    uint64_t pages = units_div_up(bytes, pool->page_bytes);
    if (!will_fit(pool, card, pages)) {
        explain_refusal(pool, bytes);
        return VP_QUOTA;
    }
    pool->segments.shuns_kept = fresh;
    vp_status status = segment_take(&pool->segments, card, bytes, segment);
    pool->segments.shuns_kept = false;
    if (status != VP_OK) {
        log_error("out of memory: %s", vp_status_text(status));
        return status;
    }
    struct segment *taken = *segment;
    table_clear(taken);
    bool guarded = taken->guard_pages == taken->pages && taken->guard_card == card;
    if (guarded || !pool->guards[card]) return VP_OK;
    pool_unlock(pool);
    CUresult result = move_guard(pool, taken);
    pool_lock(pool);
    if (result == CUDA_SUCCESS) return VP_OK;
    log_error("cannot map the guard behind an allocation: %s",
              driver_error_name(pool->driver, result));
    lay_to_rest(pool, taken);
    return VP_DRIVER;
}

static vp_status take_small(vp_pool *pool, unsigned card, unsigned class, uint64_t bytes,
                            bool fresh, vp_addr *address, bool *kept)
{
    struct slab *slab;
    *address = slab_take(&pool->slabs, card, class, bytes, &slab);
    if (!*address) {
        struct segment *segment;
        vp_status status = take_segment(pool, card, pool->page_bytes, fresh, &segment);
        if (status != VP_OK) return status;
        slab = slab_add(&pool->slabs, segment, card, class, pool->page_bytes);
        if (!slab) {
            lay_to_rest(pool, segment);
            return VP_NO_HOST_MEMORY;
        }
        *kept = segment->captured; /* else all of it is within reach already */
        segments_count_live(&pool->segments, -(int64_t)segment->live_bytes);
        segment->live_bytes = 0;
        *address = slab_take(&pool->slabs, card, class, bytes, &slab);
        assert(*address);
    }
    segment_set_prior(&pool->segments,
                      slab->segment); /* the block may have been another's a moment ago */
    slab->segment->live_bytes += bytes;
    segments_count_live(&pool->segments, (int64_t)bytes);
    return VP_OK;
}

/* *kept: something of the program's uses what lies at that address, and it has yet to be brought
 * within reach. `fresh`: not at such an address. */
static vp_status take(vp_pool *pool, unsigned card, uint64_t bytes, bool fresh, vp_addr *address,
                      bool *kept)
{
    pool_lock(pool);
    unsigned class = slab_class(bytes, pool->page_bytes);
    vp_status status;
    if (class < SLAB_CLASSES) {
        status = take_small(pool, card, class, bytes, fresh, address, kept);
    } else {
        struct segment *segment;
        status = take_segment(pool, card, bytes, fresh, &segment);
        if (status == VP_OK) {
            *address = segment->base;
            *kept = segment->captured;
            pool_block_lives(pool, segment->id, bytes);
        }
    }
    pool_unlock(pool);
    return status;
}

static void rest(vp_pool *pool, struct segment *segment)
{
    if (segment->captured) order_uses_crowd(&pool->order, &segment->uses); /* by graphs, unnamed */
    if (!segment->noted) pool_block_dies(pool, segment->id, segment->bytes);
    lay_to_rest(pool, segment);
}

static vp_status give_small(vp_pool *pool, struct segment *segment, vp_addr address)
{
    uint64_t bytes = slab_give(&pool->slabs, segment->slab, address);
    if (!bytes) return VP_NOT_FOUND;
    segment->live_bytes -= bytes;
    segments_count_live(&pool->segments, -(int64_t)bytes);
    if (segment->slab->used) return VP_OK;
    slab_remove(&pool->slabs, segment->slab);
    rest(pool, segment);
    return VP_OK;
}

vp_status vp_free(vp_pool *pool, vp_addr address)
{
    pool_lock(pool);
    struct segment *segment = segment_of(&pool->segments, address);
    vp_status status = VP_NOT_FOUND;
    if (segment && segment->slab) {
        status = give_small(pool, segment, address);
    } else if (segment && segment->base == address) {
        rest(pool, segment);
        status = VP_OK;
    }
    pool_unlock(pool);
    return status;
}

/* What is kept from the start is brought within reach: nobody will name it before it is used. */
static vp_status bring_kept(vp_pool *pool, vp_addr address)
{
    struct pool_op op;
    pool_op_begin(&op, pool, POOL_GRAPH, NULL, "an allocation that a graph uses");
    pool_op_touch(&op, address);
    op.patience_ns = bring_most_ns; /* what it waits for may wait for this thread */
    CUresult result = pool_op_keep(&op, &op);
    pool_keeper_ends(pool, &op);
    return result == CUDA_SUCCESS ? VP_OK : VP_QUOTA;
}

/* The context is attached at its card's first allocation. */
static vp_status ensure_attached(vp_pool *pool, unsigned card)
{
    if (pool->computes >> card & 1) return VP_OK;
    CUcontext context = NULL;
    if (pool_current_context(pool, &context) != CUDA_SUCCESS) return VP_DRIVER;
    return context ? pool_attach(pool, card, context) : VP_UNSUPPORTED;
}

vp_status vp_alloc(vp_pool *pool, unsigned card, uint64_t bytes, vp_addr *address)
{
    if (!bytes || card >= pool->cards || !(pool->options.compute_cards >> card & 1))
        return VP_INVALID;
    bool kept = false;
    vp_status status = ensure_attached(pool, card);
    if (status == VP_OK) status = take(pool, card, bytes, false, address, &kept);
    if (!kept) return status;
    if (bring_kept(pool, *address) == VP_OK) return VP_OK;
    if (vp_free(pool, *address) != VP_OK) assert(false);
    return take(pool, card, bytes, true, address, &kept);
}

CUresult pool_mem_alloc(vp_pool *pool, CUdeviceptr *address, size_t bytes)
{
    if (!address || !bytes) return CUDA_ERROR_INVALID_VALUE;
    CUdevice device;
    CUresult result = pool->driver->cuCtxGetDevice(&device);
    if (result != CUDA_SUCCESS) return result;
    vp_addr taken;
    switch (vp_alloc(pool, (unsigned)device, bytes, &taken)) {
    case VP_OK: *address = taken; return CUDA_SUCCESS;
    case VP_INVALID: return CUDA_ERROR_NOT_FOUND; /* a card that does not compute for the pool */
    case VP_DRIVER: return CUDA_ERROR_UNKNOWN;
    default: return CUDA_ERROR_OUT_OF_MEMORY;
    }
}

CUresult pool_mem_free(vp_pool *pool, CUdeviceptr address)
{
    if (!pool_owns(pool, address)) return CUDA_ERROR_NOT_FOUND;
    return vp_free(pool, address) == VP_OK ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Segments whose blocks are all dead count as free: their allocator holds on to addresses, not to
 * data. */
static uint64_t dead_pages(const vp_pool *pool)
{
    uint64_t pages = 0;
    list_each(node, &pool->segments.all)
    {
        const struct segment *segment = list_entry(node, struct segment, all);
        if (segment->state == SEGMENT_LIVE && segment->noted && !segment->live_bytes)
            pages += segment->pages;
    }
    return pages;
}

CUresult pool_mem_info(vp_pool *pool, size_t *free_bytes, size_t *total_bytes)
{
    if (!free_bytes || !total_bytes) return CUDA_ERROR_INVALID_VALUE;
    pool_lock(pool);
    uint64_t total = total_pages(pool), live = pool->segments.live_pages - dead_pages(pool);
    pool_unlock(pool);
    *total_bytes = total * pool->page_bytes;
    *free_bytes = (total > live ? total - live : 0) * pool->page_bytes;
    return CUDA_SUCCESS;
}

CUresult pool_mem_range(vp_pool *pool, CUdeviceptr address, struct pool_range *range)
{
    if (!pool_owns(pool, address)) return CUDA_ERROR_NOT_FOUND;
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    pool_lock(pool);
    struct segment *segment = segment_of(&pool->segments, address);
    vp_addr start = segment ? segment->base : 0;
    uint64_t size = segment ? segment->bytes : 0;
    bool found =
        segment && (!segment->slab || slab_block_at(segment->slab, address, &start, &size));
    if (found && address - start < units_round_up(size, pool->page_bytes)) {
        uint64_t number = segment->slab ? slab_number_at(segment->slab, address) : segment->number;
        *range = (struct pool_range){start, size, number, segment->card};
        result = CUDA_SUCCESS;
    }
    pool_unlock(pool);
    return result;
}

bool pool_owns(const vp_pool *pool, CUdeviceptr address)
{
    return space_contains(&pool->space, address);
}

uint64_t pool_card_bytes(const vp_pool *pool, unsigned card)
{
    return card < pool->cards ? total_pages(pool) * pool->page_bytes : 0;
}

void vp_note_alive(vp_pool *pool, vp_addr address, uint64_t bytes)
{
    pool_lock(pool);
    struct segment *segment = segment_of(&pool->segments, address);
    if (segment && !segment->slab) {
        if (!segment->noted) pool_block_dies(pool, segment->id, segment->bytes);
        segment_note_alive(&pool->segments, segment, address, bytes);
        const struct block *block = segment_block_at(segment, address);
        if (block && block->start == address) pool_block_lives(pool, block->id, bytes);
    }
    pool_unlock(pool);
}

void vp_note_dead(vp_pool *pool, vp_addr address, uint64_t bytes)
{
    pool_lock(pool);
    struct segment *segment = segment_of(&pool->segments, address);
    if (segment && segment->noted) {
        const struct block *block = segment_block_at(segment, address);
        if (block && block->start == address)
            pool_block_dies(pool, block->id, block->end - block->start);
        segment_note_dead(&pool->segments, segment, address, bytes);
        move_forget_dead(&pool->move, segment);
        if (!segment->live_bytes) foresight_died(&pool->move.foresight, segment);
        if (!segment->live_bytes)
            segment_make_old(&pool->segments, segment); /* what is dead goes first */
    }
    pool_unlock(pool);
}

/* ---- streams and contexts ---- */

static void settle(vp_pool *pool, struct order_stream *stream)
{
    while (stream->marking) pool_wait(pool, 50 * NS_PER_US);
}

void pool_stream_ends(vp_pool *pool, CUstream handle)
{
    pool_lock(pool);
    for (unsigned slot = 0; slot < pool->order.count; slot++) {
        struct order_stream *stream = pool->order.stream[slot];
        if (stream->ended || stream->handle != handle) continue;
        settle(pool, stream);
        uint64_t covers = order_mark_covers(stream);
        struct order_mark *mark = covers ? order_mark_next(stream) : NULL;
        if (mark) { /* the last mark: none can be recorded later */
            stream->marking = true;
            pool_unlock(pool);
            CUresult done = pool_record_mark(pool, mark, handle);
            if (done != CUDA_SUCCESS) pool_drain_stream(pool, handle);
            pool_lock(pool);
            stream->marking = false;
            if (done == CUDA_SUCCESS)
                order_mark_recorded(stream, covers);
            else
                order_all_done(stream);
        } else if (stream->marked < stream->entered) { /* it captures */
            pool_unlock(pool);
            pool_drain_stream(pool, handle);
            pool_lock(pool);
            order_all_done(stream);
        }
        order_end(&pool->order, slot);
    }
    pool_unlock(pool);
}

/* Whether the work of a stream is of that context, which has not ended yet; lock let go meanwhile
 * where only the driver knows. */
static bool is_within(vp_pool *pool, const struct order_stream *stream, CUcontext context, bool own)
{
    CUstream handle = (CUstream)stream->handle;
    if (stream->context || !handle || own) return stream->context == context;
    pool_unlock(pool);
    CUcontext found = pool_stream_context(pool, handle);
    pool_lock(pool);
    return found == context && stream->handle == handle && !stream->ended;
}

/* The events of a context that is about to end: nobody may ask for them later. */
static void give_marks(vp_pool *pool, struct order_stream *stream, CUcontext context)
{
    CUevent events[ORDER_MARKS];
    unsigned count = 0;
    for (unsigned i = 0; i < ORDER_MARKS; i++) {
        struct order_mark *mark = &stream->marks[i];
        if (!mark->event || mark->context != context) continue;
        if (stream->mark_count)
            order_all_done(stream); /* it is of that context, and ended before */
        events[count++] = (CUevent)mark->event;
        mark->event = NULL;
    }
    stream->bare = stream->bare || (stream->ended && stream->context == context);
    pool_unlock(pool);
    for (unsigned i = 0; i < count; i++) pool_give_event(pool, events[i]);
    pool_lock(pool);
}

void pool_context_ends(vp_pool *pool, CUcontext context)
{
    pool_lock(pool);
    bool own = false; /* the mover's streams go with it */
    for (unsigned card = 0; card < pool->cards; card++) own |= pool->context[card] == context;
    while (!own && pool->polling) pool_wait(pool, 50 * NS_PER_US);
    if (!own) pool->polling = true;
    for (unsigned slot = 0; slot < pool->order.count; slot++) {
        struct order_stream *stream = pool->order.stream[slot];
        if (!stream->ended && is_within(pool, stream, context, own)) {
            settle(pool, stream);
            order_all_done(stream);
            order_end(&pool->order, slot);
        }
        if (!own) give_marks(pool, stream, context);
    }
    if (own) {
        pool->lost = true;
        pool->lost_with = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    } else {
        vet_context_ends(pool, context);
        measure_context_ends(pool);
        pool->polling = false;
    }
    pool_unlock(pool);
}

/* Of a stream that captures nobody can ask whether its earlier work is done, nor mark it: so all
 * work is marked before, and strict, where moves wait for all work, waited for. But not for ever:
 * others may launch more. Lock held, let go in between. */
static void quiesce(vp_pool *pool)
{
    struct order_uses all = {0};
    uint64_t began = pool_now_ns(pool);
    order_uses_crowd(&pool->order, &all);
    while (!order_uses_done(&pool->order, &all) && !pool->lost &&
           pool_now_ns(pool) - began < quiesce_most_ns) {
        order_uses_want_marks(&pool->order, &all);
        if (!pool->move.strict && order_uses_marked(&pool->order, &all)) return;
        if (!pool_work(pool)) pool_wait(pool, relief_wait_ns);
    }
}

/* A mark on a capturing stream would become part of the graph. Streams that joined the capture are
 * known by their operations (prepare_capture), and forgotten with the last capture. */
void pool_capture_begins(vp_pool *pool, CUstream handle)
{
    pool_lock(pool);
    quiesce(pool);
    pool->captures++;
    for (unsigned slot = 0; slot < pool->order.count; slot++) {
        struct order_stream *stream = pool->order.stream[slot];
        if (stream->handle != handle || stream->ended) continue;
        settle(pool, stream);
        stream->capturing = true;
    }
    pool_unlock(pool);
}

void pool_capture_ends(vp_pool *pool, CUstream handle, const void *graph)
{
    pool_lock(pool);
    if (graph) keep_copies(pool, graph, &pool->captures);
    if (pool->captures) pool->captures--;
    if (!pool->captures) keep_ends(pool, &pool->captures);
    for (unsigned slot = 0; slot < pool->order.count; slot++) {
        struct order_stream *stream = pool->order.stream[slot];
        if (stream->handle == handle || !pool->captures) stream->capturing = false;
    }
    pool_unlock(pool);
}

void pool_functions_end(vp_pool *pool)
{
    params_forget(&pool->params);
}
