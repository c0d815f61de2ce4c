/* The edge: asks the driver what has finished, and carries out what move decides. */
#include "pool/internal.h"

#include <assert.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "move/refuge.h"
#include "pool/measure.h"
#include "pool/timeline.h"

enum {
    TRIES = 8,       /* of a call that the driver refuses for the moment */
    MARK_TRIES = 64, /* marks in a row that cannot be recorded */
    DRAIN_TRIES = 32,
};

uint64_t pool_now_ns(const vp_pool *pool)
{
    return pool->edge ? pool->edge->now_ns(pool->edge->context) : clock_now_ns();
}

void pool_wake(vp_pool *pool)
{
    if (!pool->edge)
        pthread_cond_broadcast(&pool->changed);
    else if (pool->edge->wake)
        pool->edge->wake(pool->edge->context);
}

void pool_wait(vp_pool *pool, uint64_t ns)
{
    if (pool->edge) {
        pool->edge->wait(pool->edge->context, ns);
        return;
    }
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)ns;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&pool->changed, &pool->lock, &until);
}

/* The context is gone: nothing will finish any more, and nothing is moved. Programs see the
 * driver's own error. */
static void lose(vp_pool *pool, CUresult result)
{
    if (!pool->lost)
        log_error("the device reports %s: nothing is moved any more",
                  driver_error_name(pool->driver, result));
    pool->lost = true;
    pool->lost_with = result;
}

/* ---- memory and mappings ---- */

static bool retry(const vp_pool *pool, CUresult result, unsigned *tries)
{
    bool final = result == CUDA_SUCCESS || result == CUDA_ERROR_ILLEGAL_ADDRESS ||
                 result == CUDA_ERROR_INVALID_DEVICE;
    bool again = !final && ++*tries < TRIES;
    if (again)
        log_debug("a mapping call failed with %s; trying again",
                  driver_error_name(pool->driver, result));
    return again;
}

static void note_call(vp_pool *pool, const char *name, uint64_t began, vp_addr address,
                      uint64_t bytes)
{
    if (!pool->timeline) return;
    timeline_add(pool, (struct timeline_span){
                           .name = name, .began_ns = began, .address = address, .bytes = bytes});
}

CUresult pool_unmap(vp_pool *pool, vp_addr address, uint64_t bytes)
{
    CUresult result;
    unsigned tries = 0;
    uint64_t began = timeline_now(pool);
    do result = pool->driver->cuMemUnmap(address, bytes);
    while (retry(pool, result, &tries));
    note_call(pool, "cuMemUnmap", began, address, bytes);
    return result;
}

static void note_residue(vp_pool *pool, vp_addr address, uint64_t bytes)
{
    pool_lock(pool);
    uint32_t count = pool->residue_count;
    if (count < POOL_RESIDUES) {
        pool->residues[count] = (struct pool_residue){address, bytes};
        pool->residue_count = count + 1;
    }
    pool_unlock(pool);
}

/* Takes one in the range off the list; false: there is none. */
static bool take_residue(vp_pool *pool, vp_addr address, uint64_t bytes, struct pool_residue *taken)
{
    bool found = false;
    pool_lock(pool);
    for (uint32_t i = 0; i < pool->residue_count && !found; i++) {
        *taken = pool->residues[i];
        found = taken->address < address + bytes && address < taken->address + taken->bytes;
        if (found) pool->residues[i] = pool->residues[--pool->residue_count];
    }
    pool_unlock(pool);
    return found;
}

void pool_clear_residue(vp_pool *pool, vp_addr address, uint64_t bytes)
{
    struct pool_residue residue = {0};
    while (pool->residue_count && take_residue(pool, address, bytes, &residue)) {
        if (pool_unmap(pool, residue.address, residue.bytes) == CUDA_SUCCESS) continue;
        note_residue(pool, residue.address, residue.bytes);
        return;
    }
}

/* A link was lost: finds out which cards can be given access to the place's memory no more. They
 * are left out from now on, and nothing is used in place there. False: no others than before. */
static bool sever(vp_pool *pool, unsigned place)
{
    const struct frame_place *there = &pool->frames.place[place];
    uint32_t gone = 0;
    for (unsigned i = 0; i < pool->accesses[place] && there->kind == VP_PLACE_CARD; i++) {
        int card = pool->access[place][i].location.id, can = 1;
        if (card == there->id) continue;
        if (pool->driver->cuDeviceCanAccessPeer(&can, card, there->id) != CUDA_SUCCESS) can = 1;
        gone |= can ? 0 : UINT32_C(1) << card;
    }
    pool_lock(pool);
    gone &= ~pool->severed[place];
    pool->severed[place] |= gone;
    if (gone) refuge_cut_off(&pool->move, place, gone);
    pool_unlock(pool);
    for (unsigned card = 0; card < pool->cards; card++)
        if (gone >> card & 1)
            log_warn(
                "card %u cannot use %s any more: a link is lost; what lies there is copied back "
                "when it is needed",
                card, there->name);
    return gone != 0;
}

/* Lets all cards use the memory that can. */
static CUresult grant(vp_pool *pool, vp_addr address, uint64_t bytes, unsigned place)
{
    CUresult result;
    unsigned tries = 0;
    do {
        CUmemAccessDesc access[VP_MAX_CARDS];
        unsigned count = 0;
        for (unsigned i = 0; i < pool->accesses[place]; i++) {
            const CUmemAccessDesc *one = &pool->access[place][i];
            bool host = one->location.type != CU_MEM_LOCATION_TYPE_DEVICE;
            if (host || !(pool->severed[place] >> one->location.id & 1)) access[count++] = *one;
        }
        if (count == 0) return CUDA_ERROR_INVALID_DEVICE;
        atomic_fetch_add_explicit(&pool->granting, 1, memory_order_relaxed);
        result = pool->driver->cuMemSetAccess(address, bytes, access, count);
        atomic_store_explicit(&pool->granted_ns, pool_now_ns(pool), memory_order_relaxed);
        atomic_fetch_sub_explicit(&pool->granting, 1, memory_order_relaxed);
    } while (retry(pool, result, &tries) ||
             (result == CUDA_ERROR_INVALID_DEVICE && sever(pool, place)));
    return result;
}

CUresult pool_map(vp_pool *pool, vp_addr address, uint64_t bytes,
                  CUmemGenericAllocationHandle handle, unsigned place)
{
    const struct driver *driver = pool->driver;
    CUresult result;
    unsigned tries = 0;
    pool_clear_residue(pool, address, bytes);
    uint64_t began = timeline_now(pool);
    do result = driver->cuMemMap(address, bytes, 0, handle, 0);
    while (retry(pool, result, &tries));
    note_call(pool, "cuMemMap", began, address, bytes);
    if (result != CUDA_SUCCESS) return result;
    began = timeline_now(pool);
    result = grant(pool, address, bytes, place);
    note_call(pool, "cuMemSetAccess", began, address, bytes);
    if (result != CUDA_SUCCESS && pool_unmap(pool, address, bytes) != CUDA_SUCCESS)
        note_residue(pool, address, bytes);
    return result;
}

/* A slot of a chunk's size in the range of aliases; 0: none left. */
static vp_addr take_alias(vp_pool *pool)
{
    pool_lock(pool);
    uint64_t slot_bytes = pool->segments.chunk_pages * pool->page_bytes;
    vp_addr alias = 0;
    if (pool->alias_free_count) {
        alias = pool->alias_free[--pool->alias_free_count];
    } else if (pool->alias_end - pool->alias_next >= slot_bytes) {
        alias = pool->alias_next;
        pool->alias_next += slot_bytes;
    }
    pool_unlock(pool);
    return alias;
}

static void give_alias(vp_pool *pool, vp_addr alias)
{
    pool_lock(pool);
    if (pool->alias_free_count == pool->alias_free_room) {
        uint64_t room = pool->alias_free_room ? 2 * pool->alias_free_room : 256;
        vp_addr *wider = realloc(pool->alias_free, room * sizeof *wider);
        if (wider) {
            pool->alias_free = wider;
            pool->alias_free_room = room;
        }
    }
    if (pool->alias_free_count <
        pool->alias_free_room) /* else the slot is lost; there are plenty */
        pool->alias_free[pool->alias_free_count++] = alias;
    pool_unlock(pool);
}

static CUresult map_alias(vp_pool *pool, unsigned place, uint64_t bytes,
                          CUmemGenericAllocationHandle handle, vp_addr *alias)
{
    *alias = take_alias(pool);
    if (!*alias) return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = pool_map(pool, *alias, bytes, handle, place);
    if (result != CUDA_SUCCESS) give_alias(pool, *alias);
    return result;
}

CUresult pool_make_memory(vp_pool *pool, unsigned place, uint64_t bytes, uint64_t *out,
                          vp_addr *alias)
{
    CUmemGenericAllocationHandle handle;
    *alias = 0;
    CUresult result = pool->driver->cuMemCreate(&handle, bytes, &pool->place_prop[place], 0);
    if (result != CUDA_SUCCESS) return result;
    if (pool->refuge_places >> place & 1) result = map_alias(pool, place, bytes, handle, alias);
    if (result != CUDA_SUCCESS)
        pool_give_handle(pool, handle);
    else
        *out = handle;
    return result;
}

CUresult pool_release_memory(vp_pool *pool, const struct frame *frame)
{
    uint64_t bytes = frame->pages * pool->page_bytes;
    CUresult result = frame->alias ? pool_unmap(pool, frame->alias, bytes) : CUDA_SUCCESS;
    if (result != CUDA_SUCCESS) return result;
    pool_give_handle(pool, frame->handle);
    if (frame->alias) give_alias(pool, frame->alias);
    return CUDA_SUCCESS;
}

/* ---- actions ---- */

static void explain_exhaustion(vp_pool *pool, const struct move_action *action)
{
    const struct frame_place *place = &pool->frames.place[action->place];
    log_warn("%s gives no more than %llu MiB, not the %llu MiB it was thought to have; the pool "
             "shrinks to "
             "that%s",
             place->name,
             (unsigned long long)((place->used_pages + place->free_pages) * pool->page_bytes >> 20),
             (unsigned long long)(place->capacity_pages * pool->page_bytes >> 20),
             place->kind == VP_PLACE_HOST
                 ? " (host memory is taken by others, or limited: ulimit -l)"
                 : "");
}

static void do_make(vp_pool *pool, const struct move_action *action, struct move_result *result)
{
    uint64_t began = pool_now_ns(pool);
    CUresult made = pool_make_memory(pool, action->place, action->pages * pool->page_bytes,
                                     &result->handle, &result->alias);
    result->ok = made == CUDA_SUCCESS;
    bool lost = made == CUDA_ERROR_INVALID_DEVICE || made == CUDA_ERROR_UNKNOWN; /* link or card */
    result->exhausted = made == CUDA_ERROR_OUT_OF_MEMORY || lost;
    if (action->stocks) return; /* nobody waits for it */
    if (result->exhausted) explain_exhaustion(pool, action);
    if (action->place == pool->host_place)
        atomic_fetch_add_explicit(&pool->host_wait_ns, pool_now_ns(pool) - began,
                                  memory_order_relaxed);
}

/* Where the frame of a chunk that moves can be reached: one without an alias is mapped at the chunk
 * while it is copied. */
static vp_addr reach(const struct move_action *action, const struct frame *frame)
{
    return frame->alias ? frame->alias : action->address;
}

/* The copy is queued: from now on its event tells of its end. Where it cannot, that is here. */
static void record_end(vp_pool *pool, const struct move_action *action)
{
    const struct pool_lane *lane = &pool->lanes[action->lane];
    CUevent event = lane->events[action->ticket % MOVE_COPIES];
    if (pool->driver->cuEventRecord(event, lane->stream) != CUDA_SUCCESS)
        pool_drain_stream(pool, lane->stream);
}

static CUresult queue_copy(vp_pool *pool, const struct move_action *action,
                           struct move_result *queued, struct measure_sample *sample)
{
    struct pool_lane *lane = &pool->lanes[action->lane];
    if (sample) measure_begins(pool, sample, lane->stream);
    lane->queued_ns[action->ticket % MOVE_COPIES] = timeline_now(pool);
    vp_addr to = reach(action, action->to), from = reach(action, action->from);
    CUresult result = pool->driver->cuMemcpyAsync(to, from, action->bytes, lane->stream);
    if (result != CUDA_SUCCESS) return result;
    queued->digested = action->digest && digest_queue(pool, action->lane, action->ticket,
                                                      to + action->span.start, action->span.bytes);
    record_end(pool, action);
    return CUDA_SUCCESS;
}

void pool_pause(vp_pool *pool)
{
    if (!pool->edge)
        sched_yield();
    else
        pool->edge->pause(pool->edge->context);
}

/* Records the lane's event behind what was queued for the action, and waits for that. */
static CUresult wait_for_lane(vp_pool *pool, const struct move_action *action)
{
    const struct pool_lane *lane = &pool->lanes[action->lane];
    CUevent event = lane->events[action->ticket % MOVE_COPIES];
    CUresult done = pool->driver->cuEventRecord(event, lane->stream);
    if (done != CUDA_SUCCESS) return done;
    while ((done = pool->driver->cuEventQuery(event)) == CUDA_ERROR_NOT_READY) pool_pause(pool);
    return done;
}

/* Whether what is to leave is still what lies in its backup. */
static void check(vp_pool *pool, const struct move_action *action, struct move_result *result)
{
    vp_addr from = reach(action, action->from) + action->span.start;
    if (!digest_queue(pool, action->lane, action->ticket, from, action->span.bytes)) return;
    if (wait_for_lane(pool, action) != CUDA_SUCCESS) {
        pool_drain_stream(pool, pool->lanes[action->lane].stream);
        return;
    }
    result->digested = true;
    result->digest = digest_read(&pool->lanes[action->lane], action->ticket);
    result->unchanged = action->check && digest_is_equal(&result->digest, &action->expected);
}

static bool is_recalled(const struct move_action *action)
{
    return atomic_load_explicit(&action->chunk->recalled, memory_order_relaxed);
}

static void do_copy(vp_pool *pool, const struct move_action *action, struct move_result *result,
                    struct measure_sample *sample)
{
    if (pool->edge && !pool->edge->threads) { /* nobody may wait */
        result->ok = queue_copy(pool, action, result, sample) == CUDA_SUCCESS;
        return;
    }
    uint64_t queued_bytes = 0;
    CUresult done = CUDA_SUCCESS;
    if ((action->check || action->digest) && !is_recalled(action)) check(pool, action, result);
    if (sample) measure_begins(pool, sample, pool->lanes[action->lane].stream);
    if (!result->unchanged)
        done = pieces_copy(pool, action, reach(action, action->to), reach(action, action->from),
                           &queued_bytes);
    result->intact = queued_bytes == 0;
    bool whole = result->unchanged || queued_bytes == action->bytes;
    result->recalled = done == CUDA_SUCCESS && !whole;
    result->ok = done == CUDA_SUCCESS && whole;
    if (result->ok) record_end(pool, action);
}

static void do_map(vp_pool *pool, const struct move_action *action, struct move_result *result,
                   struct measure_sample *sample)
{
    const struct frame *old = action->mapped ? action->from : NULL;
    if (old && pool_unmap(pool, action->address, action->bytes) != CUDA_SUCCESS) {
        result->mapping = MOVE_MAPPED_OLD;
        return;
    }
    CUresult done =
        pool_map(pool, action->address, action->bytes, action->to->handle, action->to->place);
    if (done == CUDA_SUCCESS) {
        if (!action->from || (done = queue_copy(pool, action, result, sample)) == CUDA_SUCCESS) {
            result->ok = true;
            result->mapping = MOVE_MAPPED_NEW;
            return;
        }
        if (pool_unmap(pool, action->address, action->bytes) != CUDA_SUCCESS) {
            result->mapping = MOVE_MAPPED_NEW;
            return;
        }
    }
    result->mapping = MOVE_MAPPED_NOWHERE;
    if (old &&
        pool_map(pool, action->address, action->bytes, old->handle, old->place) == CUDA_SUCCESS)
        result->mapping = MOVE_MAPPED_OLD;
}

static void do_unmap(vp_pool *pool, const struct move_action *action, struct move_result *result)
{
    if (pool_unmap(pool, action->address, action->bytes) != CUDA_SUCCESS) {
        result->mapping = MOVE_MAPPED_OLD;
        return;
    }
    result->ok = true;
    result->mapping = MOVE_MAPPED_NOWHERE;
    /* Where the new mapping fails the data is safe in its frame all the same: it is fetched when
     * needed. */
    const struct frame *to = action->to;
    if (to && pool_map(pool, action->address, action->bytes, to->handle, to->place) == CUDA_SUCCESS)
        result->mapping = MOVE_MAPPED_NEW;
}

CUresult pool_record_mark(vp_pool *pool, struct order_mark *mark, CUstream stream)
{
    const struct driver *driver = pool->driver;
    bool fresh = !mark->event;
    CUevent event = (CUevent)mark->event;
    CUcontext context = NULL;
    CUresult result = CUDA_SUCCESS;
    if (fresh) result = pool_current_context(pool, &context);
    if (fresh && result == CUDA_SUCCESS)
        result = driver->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
    if (result != CUDA_SUCCESS) return result;
    result = driver->cuEventRecord(event, stream);
    bool strange = fresh || (mark->inherited && result == CUDA_ERROR_INVALID_HANDLE);
    if (result == CUDA_SUCCESS) {
        mark->event = event;
        if (fresh) mark->context = context;
        mark->inherited = false;
    } else if (strange) { /* perhaps of the wrong context for this stream: the next tries anew */
        mark->event = NULL;
        pool_give_event(pool, event);
    }
    return result;
}

void pool_drain_stream(vp_pool *pool, CUstream stream)
{
    CUresult result;
    unsigned tries = 0;
    do result = pool->driver->cuStreamSynchronize(stream);
    while (result != CUDA_SUCCESS && ++tries < DRAIN_TRIES);
    if (result == CUDA_SUCCESS) return;
    pool_lock(pool);
    lose(pool, result);
    pool_unlock(pool);
}

void pool_drain_context(vp_pool *pool, CUcontext context)
{
    CUresult result;
    unsigned tries = 0;
    do {
        result = pool->driver->cuCtxSetCurrent(context);
        if (result == CUDA_SUCCESS) result = pool->driver->cuCtxSynchronize();
    } while (result != CUDA_SUCCESS && ++tries < DRAIN_TRIES);
    if (result == CUDA_SUCCESS) return;
    pool_lock(pool);
    lose(pool, result);
    pool_unlock(pool);
}

CUresult pool_current_context(const vp_pool *pool, CUcontext *context)
{
    CUresult result;
    unsigned tries = 0;
    do result = pool->driver->cuCtxGetCurrent(context);
    while (retry(pool, result, &tries));
    return result;
}

CUresult pool_enter_context(vp_pool *pool, CUcontext context, CUcontext *before)
{
    CUresult result = pool_current_context(pool, before);
    if (result != CUDA_SUCCESS || *before == context) return result;
    return pool->driver->cuCtxSetCurrent(context);
}

void pool_leave_context(vp_pool *pool, CUcontext context, CUcontext before)
{
    CUresult result = CUDA_SUCCESS;
    unsigned tries = 0;
    if (before == context) return;
    do result = pool->driver->cuCtxSetCurrent(before);
    while (result != CUDA_SUCCESS && ++tries < TRIES);
    if (result != CUDA_SUCCESS)
        log_error("a thread's context cannot be restored: %s",
                  driver_error_name(pool->driver, result));
}

CUcontext pool_stream_context(const vp_pool *pool, CUstream stream)
{
    CUcontext context = NULL;
    if (!pool->driver->cuStreamGetCtx) return NULL;
    return pool->driver->cuStreamGetCtx(stream, &context) == CUDA_SUCCESS ? context : NULL;
}

static CUresult record_mark_in(vp_pool *pool, struct order_mark *mark, CUstream stream,
                               CUcontext context)
{
    CUcontext before;
    CUresult result = pool_enter_context(pool, context, &before);
    if (result != CUDA_SUCCESS) return result;
    result = pool_record_mark(pool, mark, stream);
    pool_leave_context(pool, context, before);
    return result;
}

static void do_mark(vp_pool *pool, const struct move_action *action, struct move_result *result)
{
    pool_lock(pool);
    struct order_stream *stream = pool->order.stream[action->slot];
    struct order_mark *mark = order_mark_next(stream);
    CUstream handle = (CUstream)stream->handle;
    CUcontext context = (CUcontext)stream->context; /* NULL: only one card computes */
    bool known = context != NULL;
    if (!known) context = pool->context[__builtin_ctz(pool->computes)];
    pool_unlock(pool);
    result->driver = record_mark_in(pool, mark, handle, context);
    if (result->driver == CUDA_ERROR_INVALID_HANDLE && !known) {
        context = pool_stream_context(pool, handle); /* the program may have made another */
        if (context) result->driver = record_mark_in(pool, mark, handle, context);
    }
    result->ok = result->driver == CUDA_SUCCESS;
}

static void carry_out(vp_pool *pool, const struct move_action *action, struct move_result *result,
                      struct measure_sample *sample)
{
    switch (action->kind) {
    case MOVE_DO_NOTHING: break;
    case MOVE_DO_MAKE: do_make(pool, action, result); break;
    case MOVE_DO_RELEASE:
        result->ok = pool_release_memory(pool, action->from) == CUDA_SUCCESS;
        break;
    case MOVE_DO_MAP: do_map(pool, action, result, sample); break;
    case MOVE_DO_COPY: do_copy(pool, action, result, sample); break;
    case MOVE_DO_UNMAP: do_unmap(pool, action, result); break;
    case MOVE_DO_MARK: do_mark(pool, action, result); break;
    }
    bool copied = result->ok && !result->unchanged;
    if (sample) measure_ends(pool, sample, pool->lanes[action->lane].stream, copied);
}

/* ---- what has finished ---- */

CUresult pool_exchange_mode(vp_pool *pool, int *mode)
{
    CUresult result;
    unsigned tries = 0;
    do result = pool->driver->cuThreadExchangeStreamCaptureMode(mode);
    while (result != CUDA_SUCCESS && ++tries < TRIES);
    return result;
}

/* The program captures, and the driver will not be asked now. */
static bool is_for_capture(CUresult result)
{
    return result >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
           result <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
}

bool pool_has_passed(vp_pool *pool, CUevent event)
{
    CUresult result;
    unsigned tries = 0;
    pool_unlock(pool);
    do result = pool->driver->cuEventQuery(event);
    while (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY && ++tries < TRIES);
    pool_lock(pool);
    if (tries == TRIES && !is_for_capture(result)) lose(pool, result);
    return result == CUDA_SUCCESS;
}

/* A copy in, as long as it took until somebody looked. */
static void note_copy(vp_pool *pool, unsigned lane, uint64_t ticket)
{
    if (!pool->timeline || lane % 2) return;
    const struct chunk *chunk = pool->move.lanes[lane].copies[ticket % MOVE_COPIES].chunk;
    timeline_add(
        pool, (struct timeline_span){.name = "copy in",
                                     .row = TIMELINE_IN,
                                     .began_ns = pool->lanes[lane].queued_ns[ticket % MOVE_COPIES],
                                     .bytes = chunk->pages * pool->page_bytes,
                                     .address = chunk_address(chunk)});
}

static bool poll_lane(vp_pool *pool, unsigned index)
{
    bool any = false;
    struct move_lane *lane = &pool->move.lanes[index];
    while (lane->ended < lane->issued) {
        uint64_t ticket = lane->ended + 1;
        if (!pool_has_passed(pool, pool->lanes[index].events[ticket % MOVE_COPIES])) break;
        note_copy(pool, index, ticket);
        bool digested = move_copy_is_digested(&pool->move, index);
        struct digest digest;
        if (digested) digest = digest_read(&pool->lanes[index], ticket);
        move_copy_ended(&pool->move, index, digested ? &digest : NULL);
        any = true;
    }
    return any;
}

static bool poll_stream(vp_pool *pool, struct order_stream *stream)
{
    bool any = false;
    struct order_mark *mark;
    while ((mark = order_mark_oldest(stream)) != NULL) {
        uint64_t covers = mark->covers;
        if (!pool_has_passed(pool, (CUevent)mark->event)) break;
        order_mark_passed(stream, covers);
        any = true;
    }
    return any;
}

static bool poll(vp_pool *pool)
{
    if (pool->polling || pool->lost) return false;
    pool->polling = true;
    bool any = false;
    for (unsigned card = 0; card < pool->cards; card++) {
        if (!(pool->computes >> card & 1)) continue;
        for (uint32_t way = 0; way < pool->move.ways[card]; way++) {
            any |= poll_lane(pool, move_lane(card, way, false));
            any |= poll_lane(pool, move_lane(card, way, true));
        }
    }
    for (unsigned slot = 0; slot < pool->order.count; slot++)
        any |= poll_stream(pool, pool->order.stream[slot]);
    any |= vet_poll(pool);
    measure_poll(pool);
    pool->polling = false;
    return any;
}

/* A lost context shows by marks too: without one there may be no event to ask for. */
static void count_mark(vp_pool *pool, const struct move_result *result)
{
    pool->mark_failures = result->ok ? 0 : pool->mark_failures + 1;
    if (pool->mark_failures == MARK_TRIES) lose(pool, result->driver);
}

static void note_action(vp_pool *pool, const struct move_action *action, uint64_t began)
{
    static const char *const names[] = {
        [MOVE_DO_NOTHING] = "nothing", [MOVE_DO_MAKE] = "make frame", [MOVE_DO_RELEASE] = "release",
        [MOVE_DO_MAP] = "map",         [MOVE_DO_COPY] = "copy out",   [MOVE_DO_UNMAP] = "unmap",
        [MOVE_DO_MARK] = "mark"};
    if (!pool->timeline) return;
    const struct chunk *chunk = action->chunk;
    struct timeline_span span = {.name = names[action->kind],
                                 .began_ns = began,
                                 .bytes = chunk ? action->bytes : action->pages * pool->page_bytes,
                                 .address = action->address};
    if (chunk) span.ahead = foresight_ahead(&pool->move.foresight, chunk->segment);
    if (action->kind == MOVE_DO_MAP && action->from) span.name = "map and copy in";
    timeline_add(pool, span);
}

/* A frame was made, but the host has no memory to enter it: it goes back, as if it had failed. */
static void check_made(vp_pool *pool, const struct move_action *action, struct move_result *result)
{
    if (action->kind != MOVE_DO_MAKE || !result->ok || frame_prepare(&pool->frames)) return;
    struct frame made = {.handle = result->handle, .alias = result->alias, .pages = action->pages};
    pool_unlock(pool);
    log_error("no host memory to keep account of %s's", pool->frames.place[action->place].name);
    if (pool_release_memory(pool, &made) != CUDA_SUCCESS) {
        note_residue(pool, made.alias, made.pages * pool->page_bytes);
        pool_give_handle(pool, made.handle);
    }
    pool_lock(pool);
    result->ok = false;
}

bool pool_act(vp_pool *pool, enum move_worker worker)
{
    struct move_action action;
    if (pool->lost || !move_next(&pool->move, worker, &action)) return false;
    struct move_result result = {0};
    bool copies = action.kind == MOVE_DO_COPY || (action.kind == MOVE_DO_MAP && action.from);
    struct measure_sample *sample =
        copies ? measure_copy(pool, action.kind == MOVE_DO_MAP, action.bytes) : NULL;
    uint64_t began = timeline_now(pool);
    pool_unlock(pool);
    carry_out(pool, &action, &result, sample);
    pool_lock(pool);
    note_action(pool, &action, began);
    check_made(pool, &action, &result);
    if (result.exhausted) regrow_rest(pool);
    move_done(&pool->move, &action, &result);
    if (action.kind == MOVE_DO_MARK) count_mark(pool, &result);
    return true;
}

bool pool_work(vp_pool *pool)
{
    bool any = poll(pool);
    bool alone = pool->edge && !pool->edge->threads;
    any |= regrow(pool);
    any |= pool_act(pool, alone ? MOVE_WORKER_ALL : MOVE_WORKER_MAPS);
    if (any) pool_wake(pool);
    return any;
}
