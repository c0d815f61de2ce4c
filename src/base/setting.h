/* What a pool's settings are where nothing is said, and what they may be: for the pool itself, and
 * for those who predict and tune it. */
#ifndef BASE_SETTING_H
#define BASE_SETTING_H

#include <stdint.h>

#include "base/units.h"

enum {
    SETTING_AHEAD_OPS = 64,        /* memory is made ready so many operations before its use */
    SETTING_RESERVE_CHUNKS = 2,    /* kept free for what is not foreseen */
    SETTING_CHUNKS_OF_A_CARD = 12, /* at least, so that there is a choice of what to move */
    SETTING_RESERVE_PART = 6,      /* of a card that a reserve may take */
};

/* Driver calls that map cost hardly more for a large chunk, and limit a step that moves much; one
 * of 128 MiB gains little more (docs/design/0018). */
static const uint64_t setting_largest_chunk_bytes = 64 * MIB;

/* The chunk for a card of which the pool may hold so much: a power of two times the page. */
static inline uint64_t setting_chunk_bytes(uint64_t share_bytes, uint64_t page_bytes)
{
    uint64_t most = share_bytes / SETTING_CHUNKS_OF_A_CARD, bytes = page_bytes;
    if (most > setting_largest_chunk_bytes) most = setting_largest_chunk_bytes;
    while (2 * bytes <= most) bytes *= 2;
    return bytes;
}

#endif
