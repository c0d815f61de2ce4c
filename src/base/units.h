/* Sizes as people write them: `24G`, `512M`, `1.5g`, `4096`. Binary: 1G is 2^30 bytes. */
#ifndef BASE_UNITS_H
#define BASE_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define TIB (UINT64_C(1) << 40)

#define NS_PER_US UINT64_C(1000)
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S  UINT64_C(1000000000)

/* Reads a size: digits, an optional fraction, an optional unit K M G T (with or without B or iB).
 * False, and *bytes untouched, when the text is anything else or does not fit 63 bits. */
bool units_parse_size(const char *text, uint64_t *bytes);

/* Writes bytes as `23.4 GiB`; returns out. Sixteen bytes are enough. */
char *units_format_size(uint64_t bytes, char *out, size_t out_size);

static inline uint64_t units_round_up(uint64_t value, uint64_t multiple)
{
    return (value + multiple - 1) / multiple * multiple;
}

static inline uint64_t units_div_up(uint64_t value, uint64_t divisor)
{
    return (value + divisor - 1) / divisor;
}

#endif
