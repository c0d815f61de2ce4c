/* pinned: the program's pinned host memory, and the addresses of the pool that lie in it.
 *
 * A kernel reaches pinned host memory by its own address, so a parameter may name a table of
 * pointers there: batched solvers are given such. What it holds is looked through at each launch
 * whose parameters name it. The list is the process's, since memory is pinned before there is a
 * pool, and outlives it.
 *
 * The driver's memory is read under the list's lock, and is off the list before the driver frees
 * it; registered memory is read by the kernel, which says where there is none any more. So nothing
 * is read that is gone, though a number may look like an address in it.
 *
 * Any thread may call anything. */
#ifndef PARAMS_PINNED_H
#define PARAMS_PINNED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "vrampool.h"

struct pinned_range {
    vp_addr start, end;
    const void *context; /* that it ends with */
    bool registered;     /* the program's own, which it may unmap without a word to the driver */
};

/* Takes the place of whatever the list has there: that ended unseen. */
void pinned_add(const struct pinned_range *range);

/* Takes the range that starts there off the list; false: there is none. Waits for scans. */
bool pinned_remove(const void *start, struct pinned_range *range);
void pinned_context_ends(const void *context);

/* For the child of a fork, which has no pool: an empty list, whoever held its lock. */
void pinned_forget(void);

/* All ranges lie between these; each range is within them for as long as it is on the list. */
extern _Atomic(vp_addr) pinned_first, pinned_end;

/* Where to look for addresses of pinned memory; false: there is none. */
static inline bool pinned_hull(vp_addr *first, uint64_t *bytes)
{
    vp_addr end = atomic_load_explicit(&pinned_end, memory_order_relaxed);
    *first = atomic_load_explicit(&pinned_first, memory_order_relaxed);
    *bytes = end - *first;
    return end > *first;
}

/* Of the `count` words named, those that are addresses in pinned memory: looks through ranges up to
 * 1 MiB whole, through larger ones 64 KiB from the address on, for addresses in [base, base +
 * bytes). Collects at most `room`; returns how many there are. One that comes again at once counts
 * once. */
unsigned pinned_scan(const vp_addr *named, unsigned count, vp_addr base, uint64_t bytes,
                     vp_addr *words, unsigned room);

#endif
