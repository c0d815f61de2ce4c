#include "base/digest.h"

#include <string.h>

#include "base/random.h"

typedef unsigned __int128 wide;

/* Key `index` of a seed: its generator's draw number index + 1. */
static uint64_t key(uint64_t seed, uint64_t index)
{
    struct random random = {seed + index * UINT64_C(0x9E3779B97F4A7C15)};
    return random_next(&random);
}

static wide get(const struct digest *sum, unsigned s)
{
    return (wide)sum->word[2 * s + 1] << 64 | sum->word[2 * s];
}

static void set(struct digest *sum, unsigned s, wide value)
{
    sum->word[2 * s] = (uint64_t)value;
    sum->word[2 * s + 1] = (uint64_t)(value >> 64);
}

void digest_add_units(struct digest *sum, const struct digest_seeds *seeds, uint64_t first,
                      const void *units, uint64_t count)
{
    for (unsigned s = 0; s < 2; s++) {
        wide total = get(sum, s);
        for (uint64_t i = 0; i < count; i++) {
            uint64_t half[2];
            memcpy(half, (const char *)units + i * DIGEST_UNIT_BYTES, sizeof half);
            half[0] += key(seeds->seed[s], 2 * (first + i));
            half[1] += key(seeds->seed[s], 2 * (first + i) + 1);
            total += (wide)half[0] * half[1];
        }
        set(sum, s, total);
    }
}

void digest_add(struct digest *sum, const struct digest *part)
{
    for (unsigned s = 0; s < 2; s++) set(sum, s, get(sum, s) + get(part, s));
}
