/* Vetting: does a function write addresses of the pool into memory?
 *
 * After each of its first launches the start of every buffer it was given is copied to the host, on
 * the same stream, and looked through: buffers up to 1 MiB whole, larger ones their first 64 KiB,
 * less where many share the staging buffer. Until that is over the operation counts as running
 * alone, and no move starts. */
#include "pool/internal.h"

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
    CUevent event; /* kept, like the staging buffer, for the next */
    void *staging;
    struct param_function *function;
    uint32_t count;
    struct vet_piece pieces[VET_PIECES];
};

struct vet {
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
        if (slot->event) pool->driver->cuEventDestroy_v2(slot->event);
        if (slot->staging) pool->driver->cuMemFreeHost(slot->staging);
    }
    free(pool->vet);
    pool->vet = NULL;
}

/* Lock held; waits for a slot. */
static struct vet_slot *take_slot(vp_pool *pool)
{
    for (;;) {
        for (unsigned i = 0; i < VET_SLOTS; i++) {
            if (pool->vet->slots[i].used) continue;
            struct vet_slot *slot = &pool->vet->slots[i];
            slot->used = true;
            slot->queued = false;
            slot->function = NULL;
            slot->count = 0;
            return slot;
        }
        if (pool->lost) return NULL;
        if (!pool_work(pool)) pool_wait(pool, 50 * NS_PER_US);
    }
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

/* Lists what to look at: each buffer that the parameters name, from its start. */
static void list_pieces(vp_pool *pool, const struct pool_op *op, struct vet_slot *slot,
                        vp_addr *starts)
{
    uint32_t count = 0;
    uint64_t share = staging_bytes / (op->word_count ? op->word_count : 1) & ~UINT64_C(15),
             offset = 0;
    for (uint32_t i = 0; i < op->word_count && count < VET_PIECES; i++) {
        vp_addr address = op->thread->words[i].address, start;
        struct segment *segment = segment_of(&pool->segments, address);
        if (!segment) continue;
        uint64_t bytes = bytes_worth_looking_at(pool, segment, address, &start);
        if (bytes > share) bytes = share;
        bool twice = count && starts[count - 1] == start;
        if (bytes < sizeof(vp_addr) || twice) continue;
        starts[count] = start;
        slot->pieces[count++] = (struct vet_piece){segment, segment->generation, offset, bytes};
        offset += units_round_up(bytes, 16);
    }
    slot->count = count;
}

static CUresult stage(vp_pool *pool, const struct pool_op *op, struct vet_slot *slot,
                      const vp_addr *starts)
{
    CUresult result = CUDA_SUCCESS;
    if (slot->count && !slot->staging)
        result = pool->driver->cuMemHostAlloc(&slot->staging, staging_bytes, 0);
    for (uint32_t i = 0; i < slot->count && result == CUDA_SUCCESS; i++) {
        const struct vet_piece *piece = &slot->pieces[i];
        result = pool->driver->cuMemcpyAsync((CUdeviceptr)(uintptr_t)slot->staging + piece->offset,
                                             starts[i], piece->bytes, op->stream);
    }
    return result;
}

void vet_queue(vp_pool *pool, const struct pool_op *op)
{
    const struct driver *driver = pool->driver;
    pool_lock(pool);
    struct vet_slot *slot = take_slot(pool);
    if (slot && op->function) list_pieces(pool, op, slot, op->thread->scanned);
    pool_unlock(pool);
    if (!slot) return;
    if (stage(pool, op, slot, op->thread->scanned) == CUDA_SUCCESS)
        slot->function = op->function; /* else it stays on probation */
    else
        slot->count = 0;
    CUresult result = CUDA_SUCCESS;
    if (!slot->event) result = driver->cuEventCreate(&slot->event, CU_EVENT_DISABLE_TIMING);
    if (result == CUDA_SUCCESS) result = driver->cuEventRecord(slot->event, op->stream);
    if (result != CUDA_SUCCESS) driver->cuStreamSynchronize(op->stream);
    pool_lock(pool);
    slot->queued = result == CUDA_SUCCESS;
    if (!slot->queued) { /* over already */
        slot->used = false;
        move_exclusive_over(&pool->move);
    }
    pool_unlock(pool);
}

/* Looks through what was staged; lock held. */
static void look(vp_pool *pool, struct vet_slot *slot)
{
    bool found = false;
    for (uint32_t i = 0; i < slot->count; i++) {
        const struct vet_piece *piece = &slot->pieces[i];
        if (piece->segment->generation != piece->generation ||
            piece->segment->state != SEGMENT_LIVE)
            continue;
        const char *bytes = (const char *)slot->staging + piece->offset;
        bool was_table = piece->segment->table != NULL;
        found |= table_learn(&pool->segments, piece->segment, bytes, piece->bytes) && !was_table;
    }
    struct param_function *function = slot->function;
    if (!function) return;
    if (found && !atomic_exchange(&function->writes_addresses, true))
        log_info("%s writes addresses into memory: it is looked through at each launch",
                 function->name);
    uint32_t left = atomic_load(&function->probation);
    if (left) atomic_store(&function->probation, left - 1);
}

bool vet_poll(vp_pool *pool)
{
    bool any = false;
    for (unsigned i = 0; i < VET_SLOTS; i++) {
        struct vet_slot *slot = &pool->vet->slots[i];
        if (!slot->used || !slot->queued) continue;
        pool_unlock(pool);
        CUresult result = pool->driver->cuEventQuery(slot->event);
        pool_lock(pool);
        if (result != CUDA_SUCCESS) continue;
        look(pool, slot);
        slot->used = slot->queued = false;
        move_exclusive_over(&pool->move);
        any = true;
    }
    return any;
}
