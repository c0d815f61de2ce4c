#include "block/segment.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"

void segments_create(struct segments *segments, struct space *space, struct order *order,
                     uint32_t chunk_pages)
{
    assert(chunk_pages && (chunk_pages & (chunk_pages - 1)) == 0 && chunk_pages <= FRAME_MAX_PAGES);
    memset(segments, 0, sizeof *segments);
    segments->space = space;
    segments->order = order;
    segments->chunk_pages = chunk_pages;
    segments->next_id = 1;
    list_init(&segments->all);
    for (unsigned i = 0; i < VP_MAX_CARDS; i++) {
        list_init(&segments->age[i]);
        list_init(&segments->away[i]);
    }
    for (unsigned i = 0; i < SEGMENT_SHELVES; i++) list_init(&segments->resting[i]);
    for (unsigned i = 0; i < SEGMENT_RANGES; i++) list_init(&segments->bare[i]);
}

void segments_destroy(struct segments *segments)
{
    list_each_safe(node, &segments->all)
    {
        struct segment *segment = list_entry(node, struct segment, all);
        free(segment->chunks);
        free(segment->blocks);
        free(segment);
    }
    for (unsigned i = 0; i < VP_MAX_CARDS; i++) free(segments->outlooks[i].of);
    memset(segments, 0, sizeof *segments);
}

static unsigned log2_up(uint64_t value)
{
    return value <= 1 ? 0 : 64u - (unsigned)__builtin_clzll(value - 1);
}

static struct list *shelf_of(struct segments *segments, uint64_t pages)
{
    return &segments->resting[pages % SEGMENT_SHELVES];
}

/* Its mapping and frames can be taken over as they are: nothing of it is on the move or has been
 * lost. */
static bool at_rest(const struct segment *segment)
{
    for (uint32_t i = 0; i < segment->chunk_count; i++) {
        uint8_t state = segment->chunks[i].state;
        if (state != CHUNK_EMPTY && state != CHUNK_RESIDENT && state != CHUNK_ABSENT) return false;
    }
    return true;
}

static struct segment *find_resting(struct segments *segments, unsigned card, uint64_t pages)
{
    list_each(node, shelf_of(segments, pages))
    {
        struct segment *segment = list_entry(node, struct segment, shelf);
        if (segments->shuns_kept && segment->keepers) continue;
        if (segment->pages == pages && segment->card == card && at_rest(segment)) return segment;
    }
    return NULL;
}

static struct segment *new_range(struct segments *segments, uint64_t pages, vp_status *status)
{
    unsigned log = log2_up(pages);
    uint64_t range = UINT64_C(1) << log;
    struct segment *segment = calloc(1, sizeof *segment);
    uint32_t chunks = (uint32_t)units_div_up(range, segments->chunk_pages);
    struct chunk *array = segment ? calloc(chunks, sizeof *array) : NULL;
    *status = array ? space_extend(segments->space, range + 1, &segment->base) : VP_NO_HOST_MEMORY;
    if (*status != VP_OK) {
        free(array);
        free(segment);
        return NULL;
    }
    segment->range_pages = range;
    segment->chunks = array;
    segment->state = SEGMENT_BARE;
    list_init(&segment->age);
    list_init(&segment->shelf);
    list_push_back(&segments->all, &segment->all);
    return segment;
}

static struct segment *find_bare(struct segments *segments, uint64_t pages)
{
    list_each(node, &segments->bare[log2_up(pages)])
    {
        struct segment *segment = list_entry(node, struct segment, shelf);
        if (!segments->shuns_kept || !segment->keepers) return segment;
    }
    return NULL;
}

/* ---- outlooks ---- */

static bool make_room(struct outlooks *outlooks)
{
    if (outlooks->count < outlooks->room) return true;
    uint32_t room = outlooks->room ? 2 * outlooks->room : 256;
    struct outlook *wider = realloc(outlooks->of, room * sizeof *wider);
    if (!wider) return false;
    outlooks->of = wider;
    outlooks->room = room;
    return true;
}

static enum standing standing_of(const struct chunk *chunk)
{
    if (chunk->state == CHUNK_EMPTY) return STANDING_EMPTY;
    bool live = chunk_is_live(chunk);
    if (chunk->home) return live ? STANDING_LIVE : STANDING_DEAD;
    return chunk->state == CHUNK_ABSENT && live ? STANDING_ABSENT : STANDING_OTHER;
}

void segment_count_standing(struct segments *segments, struct chunk *chunk)
{
    enum standing was = (enum standing)chunk->standing, is = standing_of(chunk);
    if (was == is) return;
    struct segment *segment = chunk->segment;
    struct outlooks *outlooks = &segments->outlooks[segment->card];
    struct outlook *outlook = &outlooks->of[segment->outlook];
    uint32_t pages = chunk->pages;
    chunk->standing = (uint8_t)is;
    if (--segment->standings[was] == 0) outlook->has &= (uint8_t) ~(1u << was);
    if (segment->standings[is]++ == 0) outlook->has |= (uint8_t)(1u << is);
    if (was == STANDING_ABSENT) outlook->absent_pages -= pages;
    if (is == STANDING_ABSENT) outlook->absent_pages += pages;
    if (was == STANDING_DEAD) outlooks->dead_pages -= pages;
    if (is == STANDING_DEAD) outlooks->dead_pages += pages;
}

static void count_standings(struct segments *segments, struct segment *segment)
{
    for (uint32_t i = 0; i < segment->chunk_count; i++)
        segment_count_standing(segments, &segment->chunks[i]);
}

/* What the next owner keeps there may be written. */
static void forget_clean(struct segments *segments, struct segment *segment)
{
    for (uint32_t i = 0; i < segment->chunk_count; i++)
        segment->chunks[i].free_leaves = segment->chunks[i].paid_leaves = 0;
    segment->clean_chunks = 0;
    segment_outlook(segments, segment)->clean = false;
}

/* There is room. Its chunks are EMPTY. */
static void enter_outlook(struct segments *segments, struct segment *segment)
{
    struct outlooks *outlooks = &segments->outlooks[segment->card];
    segment->outlook = outlooks->count++;
    outlooks->of[segment->outlook] =
        (struct outlook){.segment = segment,
                         .has = 1u << STANDING_EMPTY,
                         .small = segment->pages <= segments->chunk_pages / SEGMENT_SMALL_PART};
}

static void leave_outlook(struct segments *segments, struct segment *segment)
{
    struct outlooks *outlooks = &segments->outlooks[segment->card];
    struct outlook *last = &outlooks->of[--outlooks->count];
    last->segment->outlook = segment->outlook;
    outlooks->of[segment->outlook] = *last;
}

uint64_t segment_number_new(void)
{
    static _Atomic uint64_t next = UINT64_C(1) << 62; /* the driver counts from 1 */
    return atomic_fetch_add_explicit(&next, 1, memory_order_relaxed);
}

/* Cuts a bare range into chunks for `pages` pages. */
static void cut(struct segments *segments, struct segment *segment, uint64_t pages)
{
    segment->pages = pages;
    segment->chunk_shift =
        segments->space->page_shift + (unsigned)__builtin_ctz(segments->chunk_pages);
    segment->chunk_count = (uint32_t)units_div_up(pages, segments->chunk_pages);
    segment->unready = segment->chunk_count;
    segment->has_prior = false; /* counted anew by enliven */
    segment->clean_chunks = 0;
    memset(segment->standings, 0, sizeof segment->standings);
    segment->standings[STANDING_EMPTY] = segment->chunk_count;
    uint64_t left = pages;
    for (uint32_t i = 0; i < segment->chunk_count; i++) {
        struct chunk *chunk = &segment->chunks[i];
        memset(chunk, 0, sizeof *chunk);
        chunk->segment = segment;
        chunk->index = i;
        chunk->standing = STANDING_EMPTY;
        chunk->pages = (uint16_t)(left < segments->chunk_pages ? left : segments->chunk_pages);
        list_init(&chunk->queue);
        left -= chunk->pages;
    }
    space_set_owner(segments->space, segment->base, segment->range_pages, NULL);
}

static void enliven(struct segments *segments, struct segment *segment, unsigned card,
                    uint64_t bytes)
{
    list_remove(&segment->shelf);
    bool bare = segment->state == SEGMENT_BARE;
    segment->state = SEGMENT_LIVE;
    if (segment->card != card) segment->used_last = 0; /* operations are counted for each card */
    segment->card = card;
    if (bare) enter_outlook(segments, segment);
    if (segment->clean_chunks) forget_clean(segments, segment);
    segment_make_young(segments, segment);
    segment->bytes = segment->live_bytes = bytes;
    segment->generation++;
    segment->id = segments->next_id++;
    segment->number = segment_number_new();
    segment->noted = segment->unlisted = segment->loose = false;
    segment->captured = segment->keepers > 0;
    segment->fixed = false;
    segment->block_count = 0;
    segment_set_prior(segments, segment);
    count_standings(segments, segment);
    space_set_owner(segments->space, segment->base, segment->pages, segment);
    segments->live_pages += segment->pages;
    segments->needed_pages[card] += segment->pages;
    segments->card_pages[card] += segment->pages;
    segments->cards |= 1u << card;
    segments_count_live(segments, (int64_t)bytes);
}

vp_status segment_take(struct segments *segments, unsigned card, uint64_t bytes,
                       struct segment **out)
{
    assert(bytes > 0 && card < VP_MAX_CARDS);
    uint64_t pages = units_div_up(bytes, UINT64_C(1) << segments->space->page_shift);
    vp_status status = VP_OK;
    struct segment *segment = find_resting(segments, card, pages);
    if (!segment && !make_room(&segments->outlooks[card])) return VP_NO_HOST_MEMORY;
    if (!segment) {
        segment = find_bare(segments, pages);
        if (!segment) segment = new_range(segments, pages, &status);
        if (!segment) return status;
        cut(segments, segment, pages);
    }
    enliven(segments, segment, card, bytes);
    *out = segment;
    return VP_OK;
}

/* Of a live segment, pages of chunks in which something lives. */
static uint64_t needed_pages(const struct segment *segment)
{
    uint64_t pages = 0;
    for (uint32_t i = 0; i < segment->chunk_count; i++)
        if (chunk_is_live(&segment->chunks[i])) pages += segment->chunks[i].pages;
    return pages;
}

void segment_rest(struct segments *segments, struct segment *segment)
{
    assert(segment->state == SEGMENT_LIVE);
    segments->live_pages -= segment->pages;
    segments->needed_pages[segment->card] -= needed_pages(segment);
    segments->card_pages[segment->card] -= segment->pages;
    segments_count_live(segments, -(int64_t)segment->live_bytes);
    segment->live_bytes = 0;
    segment->captured = segment->fixed = false;
    segment->state = SEGMENT_RESTING;
    for (uint32_t i = 0; i < segment->chunk_count; i++) segment->chunks[i].live_bytes = 0;
    count_standings(segments, segment);
    space_set_owner(segments->space, segment->base, segment->pages, NULL);
    list_push_front(shelf_of(segments, segment->pages), &segment->shelf);
}

void segment_bare(struct segments *segments, struct segment *segment)
{
    assert(segment->state == SEGMENT_RESTING);
    for (uint32_t i = 0; i < segment->chunk_count; i++)
        assert(segment->chunks[i].state == CHUNK_EMPTY);
    segment->state = SEGMENT_BARE;
    leave_outlook(segments, segment);
    list_remove(&segment->shelf);
    list_remove(&segment->age);
    list_push_front(&segments->bare[log2_up(segment->range_pages)], &segment->shelf);
}

void segment_set_prior(struct segments *segments, struct segment *segment)
{
    order_uses_merge(segments->order, &segment->prior, &segment->uses);
    segment_prior_done(segments, segment);
}

bool segment_prior_done(struct segments *segments, struct segment *segment)
{
    bool left = !order_uses_done(segments->order, &segment->prior);
    if (left && !segment->has_prior) segment->unready++;
    if (!left && segment->has_prior) segment->unready--;
    segment->has_prior = left;
    return !left;
}

void segments_count_live(struct segments *segments, int64_t bytes)
{
    segments->live_bytes = (uint64_t)((int64_t)segments->live_bytes + bytes);
    if (segments->live_bytes <= segments->peak_bytes) return;
    segments->peak_bytes = segments->live_bytes;
    segments->peak_needed_pages = 0;
    for (uint32_t cards = segments->cards; cards; cards &= cards - 1)
        segments->peak_needed_pages += segments->needed_pages[__builtin_ctz(cards)];
}

/* Adds `sign` × the overlap of [start, start + bytes) to each chunk's live bytes. */
static void count_chunks(struct segments *segments, struct segment *segment, vp_addr start,
                         uint64_t bytes, int sign)
{
    uint64_t *needed = &segments->needed_pages[segment->card];
    vp_addr end = start + bytes;
    for (uint32_t i = segment_chunk_at(segment, start); i < segment->chunk_count; i++) {
        vp_addr low = chunk_address(&segment->chunks[i]);
        vp_addr high = low + (UINT64_C(1) << segment->chunk_shift);
        if (low >= end) break;
        uint64_t overlap = (high < end ? high : end) - (low > start ? low : start);
        uint64_t *live = &segment->chunks[i].live_bytes, before = *live;
        if (sign > 0)
            *live += overlap;
        else
            *live -= overlap < *live ? overlap : *live;
        if (before == 0 && *live > 0) *needed += segment->chunks[i].pages;
        if (before > 0 && *live == 0) *needed -= segment->chunks[i].pages;
        if ((before > 0) != (*live > 0)) segment_count_standing(segments, &segment->chunks[i]);
    }
}

static uint32_t block_index(const struct segment *segment, vp_addr address)
{
    uint32_t low = 0, high = segment->block_count; /* first block that starts above address */
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (segment->blocks[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void add_block(struct segments *segments, struct segment *segment, vp_addr start,
                      uint64_t bytes)
{
    if (segment->block_count == segment->block_room) {
        uint32_t room = segment->block_room ? 2 * segment->block_room : 4;
        struct block *wider = realloc(segment->blocks, room * sizeof *wider);
        if (!wider) {
            segment->unlisted = true;
            return;
        }
        segment->blocks = wider;
        segment->block_room = room;
    }
    uint32_t at = block_index(segment, start);
    memmove(&segment->blocks[at + 1], &segment->blocks[at],
            (segment->block_count - at) * sizeof *segment->blocks);
    segment->blocks[at] = (struct block){start, start + bytes, segments->next_id++, 0};
    segment->block_count++;
}

/* Takes the block that starts there off the list; false: none does. */
static bool remove_block(struct segment *segment, vp_addr start, uint64_t *bytes)
{
    uint32_t at = block_index(segment, start);
    if (at == 0 || segment->blocks[at - 1].start != start) return false;
    *bytes = segment->blocks[at - 1].end - start;
    memmove(&segment->blocks[at - 1], &segment->blocks[at],
            (segment->block_count - at) * sizeof *segment->blocks);
    segment->block_count--;
    return true;
}

/* Clips a note to the segment; false when nothing is left of it. */
static bool clip(const struct segments *segments, const struct segment *segment, vp_addr start,
                 uint64_t *bytes)
{
    vp_addr end = segment->base + (segment->pages << segments->space->page_shift);
    if (start < segment->base || start >= end) return false;
    if (*bytes > end - start) *bytes = end - start;
    return *bytes > 0;
}

void segment_note_alive(struct segments *segments, struct segment *segment, vp_addr start,
                        uint64_t bytes)
{
    if (!clip(segments, segment, start, &bytes)) return;
    if (!segment->noted) {
        segments->needed_pages[segment->card] -= segment->pages;
        segment->noted = true; /* until now the segment as a whole counted as one block */
        segments_count_live(segments, -(int64_t)segment->live_bytes);
        segment->live_bytes = 0;
        count_standings(segments, segment);
    }
    count_chunks(segments, segment, start, bytes, 1);
    segment->live_bytes += bytes;
    segments_count_live(segments, (int64_t)bytes);
    add_block(segments, segment, start, bytes);
}

void segment_note_dead(struct segments *segments, struct segment *segment, vp_addr start,
                       uint64_t bytes)
{
    if (!segment->noted || !clip(segments, segment, start, &bytes)) return;
    if (!remove_block(segment, start, &bytes) && !segment->unlisted) return; /* never noted alive */
    if (bytes > segment->live_bytes) bytes = segment->live_bytes;
    count_chunks(segments, segment, start, bytes, -1);
    segment->live_bytes -= bytes;
    segments_count_live(segments, -(int64_t)bytes);
}

struct block *segment_block_at(const struct segment *segment, vp_addr address)
{
    uint32_t at = block_index(segment, address);
    if (at == 0 || address >= segment->blocks[at - 1].end) return NULL;
    return &segment->blocks[at - 1];
}

struct span chunk_live_span(const struct segments *segments, const struct chunk *chunk)
{
    const struct segment *segment = chunk->segment;
    struct span all = {0, (uint32_t)chunk_bytes(segments, chunk)};
    if (!segment->noted || segment->unlisted || chunk->live_bytes == 0) return all;
    vp_addr base = chunk_address(chunk), end = base + all.bytes;
    uint32_t first = block_index(segment, base), last = block_index(segment, end - 1);
    if (first > 0 && segment->blocks[first - 1].end > base) first--;
    if (first >= last) return all;
    vp_addr low = segment->blocks[first].start, high = segment->blocks[last - 1].end;
    uint64_t start = low > base ? (low - base) / DIGEST_UNIT_BYTES * DIGEST_UNIT_BYTES : 0;
    uint64_t stop = high < end ? units_round_up(high - base, DIGEST_UNIT_BYTES) : all.bytes;
    return (struct span){(uint32_t)start, (uint32_t)(stop - start)};
}

bool segment_reach(const struct segment *segment, vp_addr address, uint32_t *first, uint32_t *last)
{
    *first = 0;
    *last = segment->chunk_count - 1;
    if (!segment->noted || segment->unlisted) return true;
    const struct block *block = segment_block_at(segment, address);
    if (!block) return false;
    *first = segment_chunk_at(segment, block->start);
    *last = segment_chunk_at(segment, block->end - 1);
    return true;
}

/* Segments in the cards' lists, each where its chunks say; UINT64_MAX: one is not. */
static uint64_t count_listed(const struct segments *segments)
{
    uint64_t listed = 0;
    for (unsigned i = 0; i < 2 * VP_MAX_CARDS; i++) {
        unsigned card = i / 2;
        bool home = i % 2 == 0;
        const struct list *list = home ? &segments->age[card] : &segments->away[card];
        list_each(node, list)
        {
            const struct segment *segment = list_entry(node, struct segment, age);
            if (segment->card != card || segment->state == SEGMENT_BARE) return UINT64_MAX;
            if (home != (segment_home_chunks(segment) > 0)) return UINT64_MAX;
            listed++;
        }
    }
    return listed;
}

/* The segment's chunks and its outlook agree; adds its dead pages to those of its card. */
static bool outlook_is_valid(const struct segments *segments, const struct segment *segment,
                             uint64_t *dead_pages)
{
    const struct outlook *outlook = segment_outlook(segments, segment);
    uint32_t counts[STANDINGS] = {0}, absent_pages = 0;
    for (uint32_t i = 0; i < segment->chunk_count; i++) {
        const struct chunk *chunk = &segment->chunks[i];
        if (chunk->standing != standing_of(chunk)) return false;
        counts[chunk->standing]++;
        if (chunk->standing == STANDING_ABSENT) absent_pages += chunk->pages;
        if (chunk->standing == STANDING_DEAD) dead_pages[segment->card] += chunk->pages;
    }
    for (unsigned i = 0; i < STANDINGS; i++)
        if ((outlook->has >> i & 1) != (counts[i] > 0)) return false;
    return outlook->segment == segment && outlook->absent_pages == absent_pages &&
           memcmp(counts, segment->standings, sizeof counts) == 0;
}

bool segments_are_valid(const struct segments *segments)
{
    uint64_t dead_pages[VP_MAX_CARDS] = {0}, needed[VP_MAX_CARDS] = {0};
    uint64_t live_pages = 0, live_bytes = 0, unlisted = count_listed(segments);
    list_each(node, &segments->all)
    {
        const struct segment *segment = list_entry(node, struct segment, all);
        unlisted -= segment->state != SEGMENT_BARE;
        if (segment->state == SEGMENT_BARE) continue;
        if (!outlook_is_valid(segments, segment, dead_pages)) return false;
        if (segment->state != SEGMENT_LIVE) continue;
        live_pages += segment->pages;
        needed[segment->card] += needed_pages(segment);
        live_bytes += segment->live_bytes;
        uint64_t pages = 0;
        for (uint32_t i = 0; i < segment->chunk_count; i++) pages += segment->chunks[i].pages;
        if (pages != segment->pages || pages > segment->range_pages) return false;
        if (space_owner(segments->space, segment->base) != segment) return false;
    }
    for (unsigned i = 0; i < VP_MAX_CARDS; i++)
        if (dead_pages[i] != segments->outlooks[i].dead_pages) return false;
    if (memcmp(needed, segments->needed_pages, sizeof needed) != 0) return false;
    return live_pages == segments->live_pages && live_bytes == segments->live_bytes &&
           unlisted == 0;
}
