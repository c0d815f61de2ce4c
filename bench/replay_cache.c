/* Small blocks do not occur: traces leave them out. */
#include <stdbool.h>
#include <assert.h>
#include <stdlib.h>

#include "base/list.h"
#include "base/units.h"
#include "replay.h"

/* PyTorch's sizes, with max_split_size_mb:21. */
static const uint64_t round_bytes = 512, shared_mib = 20, own_from_mib = 10, own_round_mib = 2,
                      split_most_mib = 21, rest_least_mib = 1, waste_most_mib = 20;

static uint64_t scaled(uint64_t mib)
{
    return mib * MIB / replay.scale;
}

/* A part of a segment, in use or free; in the order of addresses. */
struct part {
    struct list link;
    struct part *before, *behind; /* in its segment */
    vp_addr address;
    uint64_t bytes;
    unsigned card;
    bool used;
};

static struct list parts = {&parts, &parts};

static struct part *part_new(unsigned card, vp_addr address, uint64_t bytes)
{
    struct part *part = calloc(1, sizeof *part);
    if (!part) abort();
    *part = (struct part){.address = address, .bytes = bytes, .card = card};
    list_push_back(&parts, &part->link);
    return part;
}

/* Whether this one is taken rather than another of its size. */
static bool wanders(void)
{
    return replay.wander_percent && random_below(&replay.random, 100) < replay.wander_percent;
}

static struct part *best_fit(unsigned card, uint64_t bytes)
{
    struct part *best = NULL;
    list_each(node, &parts)
    {
        struct part *part = list_entry(node, struct part, link);
        if (part->card != card || part->used || part->bytes < bytes) continue;
        if (best && part->bytes == best->bytes && wanders()) best = part;
        if (!best || part->bytes < best->bytes ||
            (part->bytes == best->bytes && part->address < best->address))
            best = part;
    }
    if (!best) return NULL;
    if (bytes < scaled(split_most_mib) ? best->bytes >= scaled(split_most_mib)
                                       : best->bytes >= bytes + scaled(waste_most_mib))
        return NULL;
    return best;
}

/* On the thread's card. */
static struct part *new_segment(unsigned card, uint64_t bytes)
{
    uint64_t size = bytes < scaled(own_from_mib) ? scaled(shared_mib)
                                                 : units_round_up(bytes, scaled(own_round_mib));
    CUdeviceptr address;
    CUresult result =
        replay.native ? cuMemAlloc_v2(&address, size) : pool_mem_alloc(replay.pool, &address, size);
    if (result != CUDA_SUCCESS) return NULL;
    return part_new(card, address, size);
}

vp_addr replay_cache_take(unsigned card, uint64_t bytes)
{
    bytes = units_round_up(bytes, round_bytes);
    struct part *part = best_fit(card, bytes);
    if (!part) part = new_segment(card, bytes);
    if (!part) return 0;
    uint64_t rest = part->bytes - bytes;
    if (bytes < scaled(split_most_mib) && rest > scaled(rest_least_mib)) {
        struct part *behind = part_new(card, part->address + bytes, rest);
        behind->before = part;
        behind->behind = part->behind;
        if (part->behind) part->behind->before = behind;
        part->behind = behind;
        part->bytes = bytes;
    }
    part->used = true;
    if (!replay.native) vp_note_alive(replay.pool, part->address, bytes);
    return part->address;
}

static void merge(struct part *part, struct part *behind)
{
    if (!part || !behind || part->used || behind->used) return;
    part->bytes += behind->bytes;
    part->behind = behind->behind;
    if (part->behind) part->behind->before = part;
    list_remove(&behind->link);
    free(behind);
}

void replay_cache_give(vp_addr address)
{
    list_each(node, &parts)
    {
        struct part *part = list_entry(node, struct part, link);
        if (part->address != address || !part->used) continue;
        if (!replay.native) vp_note_dead(replay.pool, address, part->bytes);
        part->used = false;
        merge(part, part->behind);
        merge(part->before, part);
        return;
    }
    assert(false); /* a block that is given back was taken */
}

void replay_cache_end(void)
{
    list_each_safe(node, &parts) free(list_entry(node, struct part, link));
    list_init(&parts);
}
