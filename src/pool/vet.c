/* Vetting: does a function write addresses of the pool into memory?
 *
 * After each of its first launches, and after one that names more addresses than those did, the
 * start of every buffer it was given is copied to the host, on the same stream, and looked through:
 * buffers up to 1 MiB whole, larger ones their first 64 KiB, less where many share the staging
 * buffer. Until that is over the operation counts as running alone, and no move starts. */
#include "pool/internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/units.h"

enum { VET_PIECES = 1024, VET_SLOTS = 16 };

static const uint64_t staging_bytes = 2 * MIB, large_bytes = 64 * KIB; /* staging: of each slot */

struct vet_piece {
    struct segment *segment;
    uint32_t generation;
    uint64_t offset, bytes; /* in the staging buffer */
};

/* One operation that ran alone. */
struct vet_slot {
    bool used, queued;
    uint64_t serial; /* of the operation */
    CUevent event;   /* kept, like the staging buffer, for the next; of this context */
    void *context;
    void *staging;
    void *lender; /* the context that the staging buffer is of */
    struct param_function *function;
    bool staged;    /* the copies were queued; else what was written is not known */
    uint32_t words; /* that it named */
    uint32_t count; /* pieces */
    struct vet_piece pieces[VET_PIECES];
};

struct vet {
    uint64_t serial; /* of the last operation that ran alone */
    unsigned used;   /* slots */
    struct vet_slot slots[VET_SLOTS];
};

vp_status vet_create(vp_pool *pool)
{
    pool->vet = calloc(1, sizeof *pool->vet);
    return pool->vet ? VP_OK : VP_NO_HOST_MEMORY;
}

void vet_destroy(vp_pool *pool)
{
    if (!pool->vet) return;
    for (unsigned i = 0; i < VET_SLOTS; i++) {
        struct vet_slot *slot = &pool->vet->slots[i];
        if (slot->event) pool_give_event(pool, slot->event);
        if (slot->staging) pool_give_host(pool, slot->staging);
    }
    free(pool->vet);
    pool->vet = NULL;
}

struct vet_slot *vet_reserve(vp_pool *pool)
{
    for (unsigned i = 0; i < VET_SLOTS; i++) {
        struct vet_slot *slot = &pool->vet->slots[i];
        if (slot->used) continue;
        slot->used = true;
        slot->queued = slot->staged = false;
        slot->serial = ++pool->vet->serial;
        slot->function = NULL;
        slot->count = 0;
        pool->vet->used++;
        return slot;
    }
    return NULL;
}

void vet_release(vp_pool *pool, struct vet_slot *slot)
{
    if (!slot) return;
    assert(slot->used);
    slot->used = slot->queued = false;
    pool->vet->used--;
}

void vet_note(struct pool_op *op)
{
    for (uint32_t i = 0; op->vet && i < op->request.count; i++)
        op->thread->touches[i].segment->look_serial = op->vet->serial;
}

/* The oldest operation whose writes have yet to be looked at. */
static uint64_t oldest_serial(const struct vet *vet)
{
    uint64_t oldest = UINT64_MAX;
    for (unsigned i = 0; i < VET_SLOTS; i++)
        if (vet->slots[i].used && vet->slots[i].serial < oldest) oldest = vet->slots[i].serial;
    return oldest;
}

bool vet_is_over(const struct pool_op *op)
{
    const struct param_function *function = op->function;
    return !atomic_load_explicit(&function->probation, memory_order_relaxed) &&
           !atomic_load_explicit(&function->writes_addresses, memory_order_relaxed) &&
           op->word_count <= atomic_load_explicit(&function->most_words, memory_order_relaxed);
}

bool vet_is_due(const struct pool_op *op)
{
    const struct vet *vet = op->pool->vet;
    bool follows = op->kind == POOL_KERNEL || (op->kind == POOL_COPY && op->request.count > 1);
    if (!vet->used || !follows) return false;
    uint64_t oldest = oldest_serial(vet);
    for (uint32_t i = 0; i < op->request.count; i++)
        if (op->thread->touches[i].segment->look_serial >= oldest) return true;
    return false;
}

static uint64_t bytes_worth_looking_at(vp_pool *pool, struct segment *segment, vp_addr address,
                                       vp_addr *start)
{
    *start = segment->base;
    uint64_t size = segment->bytes;
    const struct block *block = segment->noted ? segment_block_at(segment, address) : NULL;
    if (block) {
        *start = block->start;
        size = block->end - block->start;
    } else if (segment->noted && !segment->unlisted) {
        return 0; /* what is dead is not looked at */
    } else if (segment->slab && !slab_block_at(segment->slab, address, start, &size)) {
        return 0;
    }
    return size <= MIB ? size : large_bytes;
}

/* The card whose context the operation runs in. */
static unsigned card_of(const vp_pool *pool, const struct pool_op *op)
{
    const void *context = pool->order.stream[op->slot]->context;
    for (unsigned card = 0; card < pool->cards; card++)
        if (context && pool->context[card] == context) return card;
    return (unsigned)__builtin_ctz(pool->options.compute_cards);
}

/* Whether the operation could reach the piece: it was among what it may touch, and lies where its
 * card has access. Otherwise a pointer leads there that it does not use. */
static bool is_within_reach(const vp_pool *pool, const struct pool_op *op,
                            const struct segment *segment, vp_addr start, uint64_t bytes)
{
    uint32_t first = segment_chunk_at(segment, start);
    uint32_t last = segment_chunk_at(segment, start + bytes - 1);
    bool touched = false;
    for (uint32_t i = 0; i < op->request.count && !touched; i++) {
        const struct move_touch *touch = &op->request.touches[i];
        touched = touch->segment == segment && touch->generation == segment->generation &&
                  touch->first_chunk <= first && last <= touch->last_chunk;
    }
    uint32_t reach = pool->reach[card_of(pool, op)];
    for (uint32_t i = first; i <= last && touched; i++) {
        const struct frame *frame = segment->chunks[i].frame;
        const struct frame_place *place = frame ? &pool->frames.place[frame->place] : NULL;
        touched = place && (place->kind == VP_PLACE_HOST || (reach >> place->id & 1));
    }
    return touched;
}

/* Lists what to look at: each buffer that the parameters name, from its start. */
static void list_pieces(vp_pool *pool, const struct pool_op *op, struct vet_slot *slot,
                        vp_addr *starts)
{
    uint32_t count = 0;
    uint64_t share = staging_bytes / (op->word_count ? op->word_count : 1) & ~UINT64_C(15),
             offset = 0;
    for (uint32_t i = 0; i < op->word_count && count < VET_PIECES; i++) {
        vp_addr address = op->thread->words[i], start;
        struct segment *segment = segment_of(&pool->segments, address);
        if (!segment) continue;
        uint64_t bytes = bytes_worth_looking_at(pool, segment, address, &start);
        if (bytes > share) bytes = share;
        bool twice = count && starts[count - 1] == start;
        if (bytes < sizeof(vp_addr) || twice) continue;
        if (!is_within_reach(pool, op, segment, start, bytes)) continue;
        starts[count] = start;
        slot->pieces[count++] = (struct vet_piece){segment, segment->generation, offset, bytes};
        offset += units_round_up(bytes, 16);
    }
    slot->count = count;
}

static CUresult stage(vp_pool *pool, const struct pool_op *op, struct vet_slot *slot,
                      const vp_addr *starts, CUcontext context)
{
    CUresult result = CUDA_SUCCESS;
    if (slot->count && !slot->staging) {
        slot->lender = context;
        result = pool->driver->cuMemHostAlloc(&slot->staging, staging_bytes, 0);
    }
    for (uint32_t i = 0; i < slot->count && result == CUDA_SUCCESS; i++) {
        const struct vet_piece *piece = &slot->pieces[i];
        result = pool->driver->cuMemcpyAsync((CUdeviceptr)(uintptr_t)slot->staging + piece->offset,
                                             starts[i], piece->bytes, op->stream);
    }
    return result;
}

/* Looks through what was staged; lock held. */
static void look(vp_pool *pool, struct vet_slot *slot)
{
    unsigned found = 0;
    for (uint32_t i = 0; i < slot->count; i++) {
        const struct vet_piece *piece = &slot->pieces[i];
        struct segment *segment = piece->segment;
        if (segment->generation != piece->generation || segment->state != SEGMENT_LIVE) continue;
        if (slot->staged)
            found |= table_learn(&pool->segments, segment,
                                 (const char *)slot->staging + piece->offset, piece->bytes);
        else
            table_fill(segment);
    }
    if (found & TABLE_NEW || !slot->staged) pool->tables++;
    struct param_function *function = slot->function;
    if (!function || !slot->staged) return;
    if (found & TABLE_NEW && !atomic_exchange(&function->writes_addresses, true))
        log_info("%s writes addresses into memory: it is looked through at each launch",
                 function->name);
    /* Stale addresses may have been written just now, or lain there for long. */
    if (found & TABLE_STALE && function->doubts++ < PARAMS_DOUBTS) return;
    uint32_t left = atomic_load(&function->probation);
    if (left) atomic_store(&function->probation, left - 1);
    if (slot->words > atomic_load(&function->most_words))
        atomic_store(&function->most_words, slot->words);
}

static void finish(vp_pool *pool, struct vet_slot *slot)
{
    look(pool, slot);
    vet_release(pool, slot);
    move_exclusive_over(&pool->move);
}

static CUresult record(vp_pool *pool, const struct pool_op *op, struct vet_slot *slot,
                       CUcontext context)
{
    CUresult result = CUDA_SUCCESS;
    if (slot->event && slot->context != context) {
        pool_give_event(pool, slot->event);
        slot->event = NULL;
    }
    if (!slot->event) result = pool->driver->cuEventCreate(&slot->event, CU_EVENT_DISABLE_TIMING);
    slot->context = context;
    return result == CUDA_SUCCESS ? pool->driver->cuEventRecord(slot->event, op->stream) : result;
}

void vet_queue(struct pool_op *op, CUresult result)
{
    vp_pool *pool = op->pool;
    struct vet_slot *slot = op->vet;
    pool_lock(pool);
    if (result == CUDA_SUCCESS && op->function) list_pieces(pool, op, slot, op->thread->scanned);
    pool_unlock(pool);
    slot->function = result == CUDA_SUCCESS ? op->function : NULL; /* else it wrote nothing */
    slot->words = op->word_count;
    CUcontext context = NULL;
    CUresult recorded = pool_current_context(pool, &context);
    slot->staged = recorded == CUDA_SUCCESS &&
                   stage(pool, op, slot, op->thread->scanned, context) == CUDA_SUCCESS;
    if (recorded == CUDA_SUCCESS) recorded = record(pool, op, slot, context);
    if (recorded != CUDA_SUCCESS) pool_drain_stream(pool, op->stream);
    pool_lock(pool);
    slot->queued = recorded == CUDA_SUCCESS;
    if (!slot->queued) finish(pool, slot);
    pool_unlock(pool);
}

bool vet_poll(vp_pool *pool)
{
    bool any = false;
    for (unsigned i = 0; i < VET_SLOTS; i++) {
        struct vet_slot *slot = &pool->vet->slots[i];
        if (!slot->used || !slot->queued) continue;
        if (!pool_has_passed(pool, slot->event)) continue;
        finish(pool, slot);
        any = true;
    }
    return any;
}

static void clear(vp_pool *pool, struct vet_slot *slot, CUcontext context)
{
    CUevent event = slot->context == context ? slot->event : NULL;
    void *staging = slot->lender == context ? slot->staging : NULL;
    if (event) slot->event = NULL;
    if (staging) slot->staging = NULL;
    pool_unlock(pool);
    if (event) pool_give_event(pool, event);
    if (staging) pool_give_host(pool, staging);
    pool_lock(pool);
}

void vet_context_ends(vp_pool *pool, CUcontext context)
{
    for (unsigned i = 0; i < VET_SLOTS; i++) {
        struct vet_slot *slot = &pool->vet->slots[i];
        bool concerned =
            (slot->event && slot->context == context) || (slot->staging && slot->lender == context);
        if (!concerned) continue;
        if (slot->used && slot->queued) {
            pool_unlock(pool);
            CUresult done = pool->driver->cuEventSynchronize(slot->event);
            pool_lock(pool);
            if (done != CUDA_SUCCESS) slot->staged = false; /* what was written is not known */
            finish(pool, slot);
        }
        if (!slot->used) clear(pool, slot, context);
    }
}
