#include "space/space.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* A leaf is one huge page where the system gives it: random lookups over 10^5 chunks spend their
 * time in misses of the TLB otherwise. Without, only what is used of it takes memory. */
static struct space_leaf *make_leaf(void)
{
    enum { BYTES = sizeof(struct space_leaf) };
    _Static_assert(BYTES == 2 << 20, "a huge page");
    char *wide =
        mmap(NULL, 2 * (size_t)BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (wide == MAP_FAILED) return NULL;
    size_t skipped = -(uintptr_t)wide % BYTES;
    char *leaf = wide + skipped;
    if (skipped) munmap(wide, skipped);
    munmap(leaf + BYTES, BYTES - skipped);
    madvise(leaf, BYTES, MADV_HUGEPAGE);
    return (struct space_leaf *)(void *)leaf;
}

vp_status space_create(struct space *space, vp_addr base, uint64_t bytes, uint64_t page_bytes)
{
    assert(page_bytes && (page_bytes & (page_bytes - 1)) == 0);
    assert(bytes >= page_bytes && base % page_bytes == 0);
    memset(space, 0, sizeof *space);
    space->page_shift = (unsigned)__builtin_ctzll(page_bytes);
    uint64_t pages = bytes >> space->page_shift;
    space->root_count = (size_t)((pages + SPACE_LEAF_PAGES - 1) >> SPACE_LEAF_SHIFT);
    space->root =
        calloc(space->root_count, sizeof *space->root); /* large ones: untouched zero pages */
    if (!space->root) return VP_NO_HOST_MEMORY;
    space->base = base;
    space->bytes = pages << space->page_shift;
    space->end = base + space->bytes;
    /* A large range is used from its last quarter on: numbers that look like addresses are rarer
     * there. */
    space->next = bytes >= SPACE_LARGE_BYTES ? base + space->bytes / 4 * 3 : base;
    return VP_OK;
}

void space_destroy(struct space *space)
{
    for (size_t i = 0; i < space->root_count; i++) {
        struct space_leaf *leaf = atomic_load_explicit(&space->root[i], memory_order_relaxed);
        if (leaf) munmap(leaf, sizeof *leaf);
    }
    free(space->root);
    memset(space, 0, sizeof *space);
}

static bool make_leaves(struct space *space, uint64_t first_page, uint64_t pages)
{
    uint64_t last = (first_page + pages - 1) >> SPACE_LEAF_SHIFT;
    for (uint64_t i = first_page >> SPACE_LEAF_SHIFT; i <= last; i++) {
        if (atomic_load_explicit(&space->root[i], memory_order_relaxed)) continue;
        struct space_leaf *leaf = make_leaf();
        if (!leaf) return false;
        atomic_store_explicit(&space->root[i], leaf, memory_order_release);
    }
    return true;
}

vp_status space_extend(struct space *space, uint64_t pages, vp_addr *address)
{
    assert(pages > 0);
    if (pages > (space->end - space->next) >> space->page_shift) {
        vp_addr began = space->base + space->bytes / 4 * 3;
        if (space->bytes < SPACE_LARGE_BYTES || space->end == began ||
            pages > (began - space->base) >> space->page_shift)
            return VP_NO_ADDRESSES;
        space->next = space->base;
        space->end = began;
    }
    if (!make_leaves(space, (space->next - space->base) >> space->page_shift, pages))
        return VP_NO_HOST_MEMORY;
    *address = space->next;
    space->next += pages << space->page_shift;
    return VP_OK;
}

void space_set_owner(struct space *space, vp_addr address, uint64_t pages, struct segment *owner)
{
    for (uint64_t i = 0; i < pages; i++) {
        struct space_entry *entry = space_entry_of(space, address + (i << space->page_shift));
        assert(entry);
        atomic_store_explicit(&entry->owner, owner, memory_order_release);
    }
}

void space_set_location(struct space *space, vp_addr address, uint64_t pages, unsigned place,
                        uint64_t frame)
{
    for (uint64_t i = 0; i < pages; i++) {
        struct space_entry *entry = space_entry_of(space, address + (i << space->page_shift));
        assert(entry);
        atomic_store_explicit(&entry->location, space_location_pack(place, frame, i),
                              memory_order_release);
    }
}

void space_clear_location(struct space *space, vp_addr address, uint64_t pages)
{
    for (uint64_t i = 0; i < pages; i++) {
        struct space_entry *entry = space_entry_of(space, address + (i << space->page_shift));
        assert(entry);
        atomic_store_explicit(&entry->location, 0, memory_order_release);
    }
}
