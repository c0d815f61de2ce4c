#include "base/cuckoo.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"

enum { PUSHES = 256, FULL_PERCENT = 85 };

static uint64_t hash(uint64_t key)
{
    return random_next(&(struct random){.state = key});
}

/* Where a key may lie. */
struct home {
    uint32_t bucket;
    uint16_t print;
};

static struct home find_home(const struct cuckoo *filter, uint64_t key)
{
    uint64_t bits = hash(key);
    uint16_t print = (uint16_t)((bits >> 48) & filter->mask);
    /* 0 means empty; its share goes to all others, so that none is met more often. */
    if (print == 0) print = (uint16_t)(1 + (bits >> 32) % filter->mask);
    return (struct home){(uint32_t)bits & (filter->buckets - 1), print};
}

static uint32_t other_bucket(const struct cuckoo *filter, uint32_t bucket, uint16_t print)
{
    return (bucket ^ (uint32_t)hash(print)) & (filter->buckets - 1);
}

static uint16_t *find(const struct cuckoo *filter, uint32_t bucket, uint16_t print)
{
    for (unsigned i = 0; i < CUCKOO_SLOTS; i++) {
        uint16_t *slot = &filter->slots[(size_t)bucket * CUCKOO_SLOTS + i];
        if (*slot == print) return slot;
    }
    return NULL;
}

/* In either bucket; NULL: in none. */
static uint16_t *find_key(const struct cuckoo *filter, uint64_t key)
{
    struct home home = find_home(filter, key);
    uint16_t *slot = find(filter, home.bucket, home.print);
    return slot ? slot : find(filter, other_bucket(filter, home.bucket, home.print), home.print);
}

vp_status cuckoo_create(uint32_t keys, unsigned bits, struct cuckoo *filter)
{
    assert(bits >= CUCKOO_LEAST_BITS && bits <= CUCKOO_MOST_BITS);
    uint64_t buckets = 1;
    while (buckets * CUCKOO_SLOTS * FULL_PERCENT < keys * UINT64_C(100)) buckets *= 2;
    assert(buckets <= UINT32_MAX);
    *filter = (struct cuckoo){.buckets = (uint32_t)buckets, .mask = (uint16_t)((1u << bits) - 1)};
    filter->slots = calloc(buckets * CUCKOO_SLOTS, sizeof *filter->slots);
    return filter->slots ? VP_OK : VP_NO_HOST_MEMORY;
}

void cuckoo_destroy(struct cuckoo *filter)
{
    free(filter->slots);
    memset(filter, 0, sizeof *filter);
}

/* Puts the print into a full bucket and pushes what was there on to its other one, and so on. */
static bool push(struct cuckoo *filter, uint32_t bucket, uint16_t print)
{
    uint16_t *pushed[PUSHES];
    struct random random = {.state = (uint64_t)bucket << 16 | print};
    for (unsigned i = 0; i < PUSHES; i++) {
        pushed[i] =
            &filter->slots[(size_t)bucket * CUCKOO_SLOTS + random_below(&random, CUCKOO_SLOTS)];
        uint16_t out = *pushed[i];
        *pushed[i] = print;
        print = out;
        bucket = other_bucket(filter, bucket, print);
        uint16_t *empty = find(filter, bucket, 0);
        if (!empty) continue;
        *empty = print;
        return true;
    }
    for (unsigned i = PUSHES; i-- > 0;) {
        uint16_t in = *pushed[i];
        *pushed[i] = print;
        print = in;
    }
    return false;
}

bool cuckoo_add(struct cuckoo *filter, uint64_t key)
{
    struct home home = find_home(filter, key);
    uint32_t other = other_bucket(filter, home.bucket, home.print);
    uint16_t *empty = find(filter, home.bucket, 0);
    if (!empty) empty = find(filter, other, 0);
    if (empty)
        *empty = home.print;
    else if (!push(filter, other, home.print))
        return false;
    filter->count++;
    return true;
}

bool cuckoo_has(const struct cuckoo *filter, uint64_t key)
{
    return find_key(filter, key) != NULL;
}

bool cuckoo_remove(struct cuckoo *filter, uint64_t key)
{
    uint16_t *slot = find_key(filter, key);
    if (!slot) return false;
    assert(filter->count > 0);
    *slot = 0;
    filter->count--;
    return true;
}
