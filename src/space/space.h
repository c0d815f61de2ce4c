/* space: the pool's address range and its page table.
 *
 * A page is the granule of physical memory (2 MiB on real cards). The table is a radix tree of two
 * levels over page numbers: a root of pointers, and leaves of SPACE_LEAF_PAGES entries that come
 * into being with the first range that needs them and stay. An entry holds two words: who owns the
 * page (a segment), and where it is: place, frame, page within the frame, packed into one atomic
 * word. So a lookup is two dependent loads and takes no lock, and each page's entry is exact at
 * every moment of a move.
 *
 * Reading is safe from any thread at any time. Changing is for the holder of the pool's lock. */
#ifndef SPACE_SPACE_H
#define SPACE_SPACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vrampool.h"

#define SPACE_LARGE_BYTES (UINT64_C(1) << 42)

enum { SPACE_LEAF_SHIFT = 17, SPACE_LEAF_PAGES = 1 << SPACE_LEAF_SHIFT };

struct segment; /* the owner of pages; this part only carries the pointer */

/* Where a page is, in one word. Zero: nowhere. */
typedef uint64_t space_location;

struct space_entry {
    _Atomic(space_location) location;
    _Atomic(struct segment *) owner;
};

struct space_leaf {
    struct space_entry entries[SPACE_LEAF_PAGES];
};

struct space {
    vp_addr base;
    uint64_t bytes;
    unsigned page_shift;
    size_t root_count;
    _Atomic(struct space_leaf *) *root;
    vp_addr next, end; /* never handed out yet, up to the end or to where that began */
};

/* Lays a table over [base, base + bytes). page_bytes is a power of two. VP_NO_HOST_MEMORY. */
vp_status space_create(struct space *space, vp_addr base, uint64_t bytes,
                       uint64_t page_bytes) VP_MUST_USE;
void space_destroy(struct space *space);

/* Hands out `pages` pages of addresses that nobody had before, and makes their leaves. Ranges are
 * recycled by who owns them (block), never given back. VP_NO_ADDRESSES, VP_NO_HOST_MEMORY. */
vp_status space_extend(struct space *space, uint64_t pages, vp_addr *address) VP_MUST_USE;

void space_set_owner(struct space *space, vp_addr address, uint64_t pages, struct segment *owner);

/* The pages from `address` on now are pages 0, 1, … of `frame` in `place`; with pages cleared:
 * nowhere. */
void space_set_location(struct space *space, vp_addr address, uint64_t pages, unsigned place,
                        uint64_t frame);
void space_clear_location(struct space *space, vp_addr address, uint64_t pages);

/* Layout of the word: bit 63 valid; 57…62 place; 24…56 frame; 0…23 page within the frame. */
static inline space_location space_location_pack(unsigned place, uint64_t frame, uint64_t page)
{
    return UINT64_C(1) << 63 | (uint64_t)place << 57 | frame << 24 | page;
}

static inline unsigned space_location_place(space_location location)
{
    return (unsigned)(location >> 57) & 63;
}

static inline uint64_t space_location_frame(space_location location)
{
    return (location >> 24) & ((UINT64_C(1) << 33) - 1);
}

static inline uint64_t space_location_page(space_location location)
{
    return location & ((UINT64_C(1) << 24) - 1);
}

static inline bool space_contains(const struct space *space, vp_addr address)
{
    return address - space->base < space->bytes;
}

/* The entry of an address, or NULL where no range was ever handed out. */
static inline struct space_entry *space_entry_of(const struct space *space, vp_addr address)
{
    uint64_t offset = address - space->base;
    if (offset >= space->bytes) return NULL;
    uint64_t page = offset >> space->page_shift;
    struct space_leaf *leaf =
        atomic_load_explicit(&space->root[page >> SPACE_LEAF_SHIFT], memory_order_acquire);
    return leaf ? &leaf->entries[page & (SPACE_LEAF_PAGES - 1)] : NULL;
}

static inline space_location space_lookup(const struct space *space, vp_addr address)
{
    const struct space_entry *entry = space_entry_of(space, address);
    return entry ? atomic_load_explicit(&entry->location, memory_order_acquire) : 0;
}

static inline struct segment *space_owner(const struct space *space, vp_addr address)
{
    const struct space_entry *entry = space_entry_of(space, address);
    return entry ? atomic_load_explicit(&entry->owner, memory_order_acquire) : NULL;
}

#endif
