/* A small seeded generator (splitmix64, Steele, Lea and Flood 2014): same seed, same sequence,
 * everywhere. */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stdint.h>

struct random {
    uint64_t state;
};

static inline uint64_t random_next(struct random *r)
{
    uint64_t z = (r->state += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* Uniform in [0, bound); bound > 0. */
static inline uint64_t random_below(struct random *r, uint64_t bound)
{
    return (uint64_t)(((unsigned __int128)random_next(r) * bound) >> 64);
}

#endif
