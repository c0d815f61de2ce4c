#include "block/slab.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void slabs_create(struct slabs *slabs)
{
    list_init(&slabs->spare);
    for (unsigned card = 0; card < VP_MAX_CARDS; card++)
        for (unsigned class = 0; class < SLAB_CLASSES; class ++)
            list_init(&slabs->with_room[card][class]);
}

unsigned slab_class(uint64_t bytes, uint64_t page_bytes)
{
    bool least = bytes <= UINT64_C(1) << SLAB_MIN_SHIFT;
    unsigned shift = least ? SLAB_MIN_SHIFT : 64u - (unsigned)__builtin_clzll(bytes - 1);
    if (shift > SLAB_MAX_SHIFT || (UINT64_C(2) << shift) > page_bytes) return SLAB_CLASSES;
    return shift - SLAB_MIN_SHIFT;
}

static uint32_t first_free(const struct slab *slab)
{
    for (uint32_t word = 0; word < (slab->blocks + 63) / 64; word++)
        if (~slab->taken[word]) return word * 64 + (uint32_t)__builtin_ctzll(~slab->taken[word]);
    return slab->blocks;
}

vp_addr slab_take(struct slabs *slabs, unsigned card, unsigned class, uint64_t bytes,
                  struct slab **from)
{
    struct list *head = &slabs->with_room[card][class];
    if (list_empty(head)) return 0;
    struct slab *slab = list_entry(head->next, struct slab, link);
    uint32_t i = first_free(slab);
    assert(i < slab->blocks);
    slab->taken[i / 64] |= UINT64_C(1) << i % 64;
    slab->asked[i] = (uint32_t)bytes;
    slab->number[i] = segment_number_new();
    if (++slab->used == slab->blocks) list_remove(&slab->link);
    *from = slab;
    return slab->segment->base + ((uint64_t)i << slab->shift);
}

struct slab *slab_add(struct slabs *slabs, struct segment *segment, unsigned card, unsigned class,
                      uint64_t page_bytes)
{
    bool spare = !list_empty(&slabs->spare);
    struct slab *slab =
        spare ? list_entry(slabs->spare.next, struct slab, link) : malloc(sizeof *slab);
    if (!slab) return NULL;
    if (spare) list_remove(&slab->link);
    memset(slab, 0, offsetof(struct slab, asked));
    slab->segment = segment;
    slab->shift = class + SLAB_MIN_SHIFT;
    uint64_t blocks = page_bytes >> slab->shift;
    slab->blocks = (uint32_t)(blocks < SLAB_MAX_BLOCKS ? blocks : SLAB_MAX_BLOCKS);
    if (slab->blocks % 64) /* what the last word has beyond the end is never free */
        slab->taken[slab->blocks / 64] = ~UINT64_C(0) << slab->blocks % 64;
    segment->slab = slab;
    list_push_front(&slabs->with_room[card][class], &slab->link);
    return slab;
}

static bool taken(const struct slab *slab, uint64_t i)
{
    return i < slab->blocks && (slab->taken[i / 64] >> i % 64 & 1);
}

uint64_t slab_give(struct slabs *slabs, struct slab *slab, vp_addr address)
{
    uint64_t offset = address - slab->segment->base, i = offset >> slab->shift;
    if (offset != i << slab->shift || !taken(slab, i)) return 0;
    slab->taken[i / 64] &= ~(UINT64_C(1) << i % 64);
    if (slab->used-- == slab->blocks)
        list_push_front(&slabs->with_room[slab->segment->card][slab->shift - SLAB_MIN_SHIFT],
                        &slab->link);
    return slab->asked[i];
}

void slab_remove(struct slabs *slabs, struct slab *slab)
{
    assert(slab->used == 0);
    list_remove(&slab->link);
    slab->segment->slab = NULL;
    list_push_front(&slabs->spare, &slab->link);
}

void slabs_destroy(struct slabs *slabs)
{
    list_each_safe(node, &slabs->spare) free(list_entry(node, struct slab, link));
    list_init(&slabs->spare);
}

bool slab_block_at(const struct slab *slab, vp_addr address, vp_addr *start, uint64_t *bytes)
{
    uint64_t i = (address - slab->segment->base) >> slab->shift;
    if (!taken(slab, i)) return false;
    *start = slab->segment->base + (i << slab->shift);
    *bytes = slab->asked[i];
    return true;
}

uint64_t slab_number_at(const struct slab *slab, vp_addr address)
{
    uint64_t i = (address - slab->segment->base) >> slab->shift;
    return taken(slab, i) ? slab->number[i] : 0;
}
