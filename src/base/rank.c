#include "base/rank.h"

#include <assert.h>
#include <ctype.h>
#include <limits.h>
#include <stdlib.h>

#include "vrampool.h"

static bool read_number(const char *name, unsigned *number)
{
    const char *text = getenv(name);
    if (!text || !isdigit((unsigned char)*text)) return false;
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    if (*end || value > INT_MAX) return false;
    *number = (unsigned)value;
    return true;
}

bool rank_read(struct rank *rank)
{
    struct rank read;
    if (!read_number("LOCAL_RANK", &read.number) || !read_number("LOCAL_WORLD_SIZE", &read.count))
        return false;
    if (read.number >= read.count) return false;
    *rank = read;
    return true;
}

struct rank_share rank_share(const struct rank *rank, unsigned cards)
{
    assert(rank->number < rank->count);
    struct rank_share share = {0};
    if (!cards) return share;
    bool enough = cards >= rank->count;
    share.compute_cards = UINT32_C(1) << (rank->number % cards);
    share.visible = enough ? rank->count : cards;
    for (unsigned card = rank->count; card < cards && card < VP_MAX_CARDS; card++)
        if (card % rank->count == rank->number) share.lend_cards |= UINT32_C(1) << card;
    return share;
}
