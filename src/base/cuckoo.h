/* cuckoo: a filter that answers "is this key in the set?" from a few bits a key, and forgets keys
 * again (Fan, Andersen, Kaminsky, Mitzenmacher 2014).
 *
 * A key's fingerprint lies in one of two buckets of four; the other bucket follows from the one and
 * the fingerprint, so entries can be pushed on without their keys. No for a key that is in it:
 * never. Yes for one that is not: with the probability that one of the 8 slots looked at holds the
 * same fingerprint, 1 - (1 - 1/(2^bits - 1))^(8 × load), about 8 × load / 2^bits.
 *
 * A key that was entered twice is in it until it was removed twice. Removing one that was never
 * entered may remove another: that is the caller's error. */
#ifndef BASE_CUCKOO_H
#define BASE_CUCKOO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vrampool.h"

enum { CUCKOO_SLOTS = 4, CUCKOO_LEAST_BITS = 4, CUCKOO_MOST_BITS = 16 };

struct cuckoo {
    uint16_t *slots;  /* CUCKOO_SLOTS of each bucket; 0: empty */
    uint32_t buckets; /* a power of two */
    uint32_t count;   /* entries */
    uint16_t mask;    /* of a fingerprint's bits */
};

/* Room for `keys` at a load of at most 85 %. VP_NO_HOST_MEMORY. */
vp_status cuckoo_create(uint32_t keys, unsigned bits, struct cuckoo *filter) VP_MUST_USE;
void cuckoo_destroy(struct cuckoo *filter);

/* False: there is no room for it, and nothing has changed. */
bool cuckoo_add(struct cuckoo *filter, uint64_t key) VP_MUST_USE;

bool cuckoo_has(const struct cuckoo *filter, uint64_t key);

/* False: it is not in the filter. */
bool cuckoo_remove(struct cuckoo *filter, uint64_t key);

static inline double cuckoo_load(const struct cuckoo *filter)
{
    return (double)filter->count / ((double)filter->buckets * CUCKOO_SLOTS);
}

#endif
