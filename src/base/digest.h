/* digest: 256 bits that say whether memory still holds what it held.
 *
 * Two sums of products, each modulo 2^128, over the units of 16 bytes (a, b), unit i as of the
 * first:
 *
 *     sum_s = Σ_i (a_i + key(s, 2i)) · (b_i + key(s, 2i + 1)),   s = 0, 1
 *
 * the inner sums modulo 2^64 (NH: Black, Halevi, Krawczyk, Krovetz and Rogaway 1999). Were the keys
 * random, two different contents of equal length had equal sums with a chance of at most 2^-64
 * each, 2^-128 both, whatever they are; here they come from a generator with two seeds that are
 * drawn anew by each process. docs/design/0016 says why that will do.
 *
 * Sums may be made in parts and in any order: the card makes one for each block of the kernel
 * `vrampool_digest` (pool/digest_kernel.cu), which must agree with this file. */
#ifndef BASE_DIGEST_H
#define BASE_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DIGEST_UNIT_BYTES = 16,
    DIGEST_BLOCKS = 256,        /* of the kernel: each digests a run of units, */
    DIGEST_BLOCK_THREADS = 256, /* and writes one part */
};

#define DIGEST_KERNEL "vrampool_digest"

struct digest {
    uint64_t word[4]; /* both sums, low halves first */
};

struct digest_seeds {
    uint64_t seed[2];
};

/* Adds to *sum what `count` units hold, the first of them being unit `first`. */
void digest_add_units(struct digest *sum, const struct digest_seeds *seeds, uint64_t first,
                      const void *units, uint64_t count);

/* Adds one part to *sum. */
void digest_add(struct digest *sum, const struct digest *part);

/* The units of block `block` of the kernel, among `units` in all: [*first, *last). */
static inline void digest_block_units(uint64_t units, uint64_t block, uint64_t *first,
                                      uint64_t *last)
{
    uint64_t each = (units + DIGEST_BLOCKS - 1) / DIGEST_BLOCKS;
    *first = block * each < units ? block * each : units;
    *last = *first + each < units ? *first + each : units;
}

static inline bool digest_is_equal(const struct digest *left, const struct digest *right)
{
    return left->word[0] == right->word[0] && left->word[1] == right->word[1] &&
           left->word[2] == right->word[2] && left->word[3] == right->word[3];
}

#endif
