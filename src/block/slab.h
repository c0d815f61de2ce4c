/* Slabs: small allocations that share a segment of one page, in blocks of one power of two each. */
#ifndef BLOCK_SLAB_H
#define BLOCK_SLAB_H

#include "block/segment.h"

enum {
    SLAB_MIN_SHIFT = 9,  /* 512 bytes: the alignment that the driver gives */
    SLAB_MAX_SHIFT = 20, /* 1 MiB */
    SLAB_CLASSES = SLAB_MAX_SHIFT - SLAB_MIN_SHIFT + 1,
    SLAB_MAX_BLOCKS = 4096,
};

struct slab {
    struct segment *segment;
    struct list link; /* among the slabs of its class that have room */
    uint32_t shift;   /* log2 of the block size */
    uint32_t blocks, used;
    uint64_t taken[SLAB_MAX_BLOCKS / 64];
    uint32_t asked[SLAB_MAX_BLOCKS];  /* bytes asked for, per block */
    uint64_t number[SLAB_MAX_BLOCKS]; /* as a segment's */
};

struct slabs {
    struct list spare; /* descriptors without a segment */
    struct list with_room[VP_MAX_CARDS][SLAB_CLASSES];
};

void slabs_create(struct slabs *slabs);

/* The class for an allocation of bytes, or SLAB_CLASSES when it needs a segment of its own: because
 * it is large, or because a page of page_bytes holds fewer than two such blocks. */
unsigned slab_class(uint64_t bytes, uint64_t page_bytes);

/* Takes a block from a slab with room; 0: there is none (then slab_add one). */
vp_addr slab_take(struct slabs *slabs, unsigned card, unsigned class, uint64_t bytes,
                  struct slab **from);

/* Makes a slab of a fresh one-page segment. NULL: no host memory. */
struct slab *slab_add(struct slabs *slabs, struct segment *segment, unsigned card, unsigned class,
                      uint64_t page_bytes);

/* Gives a block back; returns the bytes once asked for, 0 where no taken block starts at the
 * address. */
uint64_t slab_give(struct slabs *slabs, struct slab *slab, vp_addr address);

/* Takes an unused slab out of the books; its segment is the caller's. */
void slab_remove(struct slabs *slabs, struct slab *slab);
void slabs_destroy(struct slabs *slabs);

/* Start and size of the taken block that holds an address; false: none. */
bool slab_block_at(const struct slab *slab, vp_addr address, vp_addr *start, uint64_t *bytes);
uint64_t slab_number_at(const struct slab *slab, vp_addr address); /* 0: none */

#endif
