/* Segments: their ranges, their reuse, the blocks noted in them. */
#include "test.h"

#include "base/random.h"
#include "block/segment.h"

enum { PAGE = 4096, CHUNK_PAGES = 4, CHUNK = CHUNK_PAGES * PAGE };

static struct space space;
static struct order order;
static struct segments segments;

static int begin(void **state)
{
    assert_int_equal(space_create(&space, UINT64_C(1) << 44, UINT64_C(1) << 30, PAGE), VP_OK);
    order_create(&order);
    segments_create(&segments, &space, &order, CHUNK_PAGES);
    return 0;
}

static int end(void **state)
{
    segments_destroy(&segments);
    order_destroy(&order);
    space_destroy(&space);
    return 0;
}

static struct segment *take(unsigned card, uint64_t bytes)
{
    struct segment *segment;
    assert_int_equal(segment_take(&segments, card, bytes, &segment), VP_OK);
    assert_true(segments_are_valid(&segments));
    return segment;
}

static void rest(struct segment *segment)
{
    segment_rest(&segments, segment);
    assert_true(segments_are_valid(&segments));
}

static void chunks_cover_a_segment(void **state)
{
    static const struct {
        uint64_t bytes, pages;
        uint32_t chunks, last;
    } cases[] = {{1, 1, 1, 1},     {PAGE, 1, 1, 1},      {PAGE + 1, 2, 1, 2},
                 {CHUNK, 4, 1, 4}, {CHUNK + 1, 5, 2, 1}, {10 * CHUNK - 1, 40, 10, 4}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct segment *segment = take(0, cases[i].bytes);
        assert_int_equal(segment->pages, cases[i].pages);
        assert_int_equal(segment->chunk_count, cases[i].chunks);
        const struct chunk *last = &segment->chunks[cases[i].chunks - 1];
        assert_int_equal(last->pages, cases[i].last);
        vp_addr end = chunk_address(last) + chunk_bytes(&segments, last);
        assert_int_equal(end, segment->base + cases[i].pages * PAGE);
        assert_ptr_equal(segment_of(&segments, segment->base), segment);
        assert_ptr_equal(segment_of(&segments, end - 1), segment);
        assert_null(segment_of(&segments, end)); /* the guard */
    }
}

static void a_freed_segment_serves_the_same_size_of_the_same_card(void **state)
{
    struct segment *first = take(0, 3 * CHUNK);
    uint32_t generation = first->generation;
    uint64_t number = first->number;
    first->chunks[1].state = CHUNK_RESIDENT; /* as it is, frames and all */
    rest(first);
    assert_null(segment_of(&segments, first->base));
    assert_ptr_not_equal(take(1, 3 * CHUNK), first);
    assert_ptr_not_equal(take(0, 3 * CHUNK + 1), first);
    struct segment *again = take(0, 3 * CHUNK - 5); /* as many pages */
    assert_ptr_equal(again, first);
    assert_int_equal(again->chunks[1].state, CHUNK_RESIDENT);
    assert_int_equal(again->generation, generation + 1);
    assert_true(again->number > number); /* nobody else ever has the first one's */
}

static void what_is_on_the_move_or_lost_is_not_taken_over(void **state)
{
    static const uint8_t states[] = {CHUNK_MAPPING, CHUNK_SETTLING, CHUNK_LEAVING, CHUNK_UNMAPPING,
                                     CHUNK_POISONED};
    for (unsigned i = 0; i < sizeof states; i++) {
        struct segment *segment = take(0, (i + 20) * CHUNK);
        segment->chunks[3].state = states[i];
        rest(segment);
        assert_ptr_not_equal(take(0, (i + 20) * CHUNK), segment);
    }
}

static void a_bare_range_serves_any_size_that_fits(void **state)
{
    struct segment *first = take(0, 7 * PAGE);
    assert_int_equal(first->range_pages, 8);
    rest(first);
    segment_bare(&segments, first);
    struct segment *again = take(1, 5 * PAGE);
    assert_ptr_equal(again, first);
    assert_int_equal(again->card, 1);
    assert_int_equal(again->chunk_count, 2);
    assert_int_equal(again->chunks[1].pages, 1);
    assert_null(segment_of(&segments, again->base + 5 * PAGE));
    rest(again);
    segment_bare(&segments, again);
    assert_ptr_not_equal(take(0, 9 * PAGE), first);
}

static void addresses_run_out(void **state)
{
    struct segment *segment = NULL;
    vp_status status = VP_OK;
    while (status == VP_OK) status = segment_take(&segments, 0, 64 << 20, &segment);
    assert_int_equal(status, VP_NO_ADDRESSES);
    assert_true(segments_are_valid(&segments));
    rest(segment);
    assert_ptr_equal(take(0, 64 << 20), segment);
}

static void live_bytes_and_their_peak_are_counted(void **state)
{
    struct segment *one = take(0, 1000), *other = take(1, 5000);
    assert_int_equal(segments.live_bytes, 6000);
    assert_int_equal(segments.card_pages[0], 1);
    assert_int_equal(segments.card_pages[1], 2);
    rest(one);
    rest(other);
    assert_int_equal(segments.live_bytes, 0);
    assert_int_equal(segments.live_pages, 0);
    assert_int_equal(segments.card_pages[1], 0);
    assert_int_equal(segments.peak_bytes, 6000);
}

/* ---- Blocks of an allocator above ---- */

static void a_segment_counts_as_one_block_until_notes_come(void **state)
{
    struct segment *segment = take(0, 4 * CHUNK);
    uint32_t first, last;
    assert_true(segment_reach(segment, segment->base + 2 * CHUNK, &first, &last));
    assert_int_equal(first, 0);
    assert_int_equal(last, 3);
    segment_note_alive(&segments, segment, segment->base + CHUNK, 512);
    assert_int_equal(segments.live_bytes, 512);
    assert_true(chunk_is_live(&segment->chunks[1]));
    assert_false(chunk_is_live(&segment->chunks[0]));
    assert_true(segments_are_valid(&segments));
}

static void a_pointer_reaches_the_chunks_of_its_block(void **state)
{
    struct segment *segment = take(0, 8 * CHUNK);
    vp_addr base = segment->base;
    segment_note_alive(&segments, segment, base + CHUNK + 512, 512);
    segment_note_alive(&segments, segment, base + 2 * CHUNK - 512, 2 * CHUNK);
    static const struct {
        uint64_t at;
        bool there;
        uint32_t first, last;
    } cases[] = {{0, false, 0, 0},
                 {CHUNK + 511, false, 0, 0},
                 {CHUNK + 512, true, 1, 1},
                 {CHUNK + 1023, true, 1, 1},
                 {CHUNK + 1024, false, 0, 0},
                 {2 * CHUNK - 512, true, 1, 3}, /* small or not, a block may lie across chunks */
                 {3 * CHUNK, true, 1, 3},
                 {4 * CHUNK - 513, true, 1, 3},
                 {4 * CHUNK - 512, false, 0, 0}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t first, last;
        assert_int_equal(segment_reach(segment, base + cases[i].at, &first, &last), cases[i].there);
        if (!cases[i].there) continue;
        assert_int_equal(first, cases[i].first);
        assert_int_equal(last, cases[i].last);
    }
}

static void where_blocks_could_not_be_listed_a_pointer_reaches_all(void **state)
{
    struct segment *segment = take(0, 4 * CHUNK);
    uint32_t first, last;
    segment_note_alive(&segments, segment, segment->base, 512);
    segment->unlisted = true;
    assert_true(segment_reach(segment, segment->base + 3 * CHUNK, &first, &last));
    assert_int_equal(first, 0);
    assert_int_equal(last, 3);
}

static void assert_span(const struct chunk *chunk, uint64_t start, uint64_t end)
{
    struct span span = chunk_live_span(&segments, chunk);
    assert_int_equal(span.start, start);
    assert_int_equal(span.start + span.bytes, end);
}

static void what_lives_spans_a_part_of_a_chunk(void **state)
{
    struct segment *segment = take(0, 3 * CHUNK);
    const struct chunk *chunks = segment->chunks;
    assert_span(&chunks[1], 0, CHUNK); /* nobody says what lives */
    vp_addr base = segment->base;
    segment_note_alive(&segments, segment, base + 512, 512);
    segment_note_alive(&segments, segment, base + CHUNK - 512, CHUNK);
    assert_span(&chunks[0], 512, CHUNK);
    assert_span(&chunks[1], 0, CHUNK - 512);
    assert_span(&chunks[2], 0, CHUNK); /* nothing lives */
    segment_note_dead(&segments, segment, base + 512, 512);
    assert_span(&chunks[0], CHUNK - 512, CHUNK);
    segment_note_alive(&segments, segment, base + 2 * CHUNK + 24, 24); /* in units of 16 bytes */
    assert_span(&chunks[2], 16, 48);
    segment->unlisted = true;
    assert_span(&chunks[2], 0, CHUNK);
}

static void only_what_was_alive_dies(void **state)
{
    struct segment *segment = take(0, 4 * CHUNK);
    segment_note_alive(&segments, segment, segment->base, 1024);
    segment_note_dead(&segments, segment, segment->base + 512, 512); /* starts no block */
    assert_int_equal(segment->live_bytes, 1024);
    segment_note_dead(&segments, segment, segment->base, 1); /* its own size counts */
    assert_int_equal(segment->live_bytes, 0);
    segment_note_dead(&segments, segment, segment->base, 1024);
    assert_int_equal(segment->live_bytes, 0);
    assert_int_equal(segments.live_bytes, 0);
}

static void notes_end_with_the_segment(void **state)
{
    struct segment *segment = take(0, 4 * CHUNK);
    segment_note_alive(&segments, segment, segment->base + 20, UINT64_MAX); /* to its end */
    assert_int_equal(segment->live_bytes, 4 * CHUNK - 20);
    segment_note_alive(&segments, segment, segment->base + 4 * CHUNK, 100);
    segment_note_alive(&segments, segment, segment->base - 1, 100);
    assert_int_equal(segment->live_bytes, 4 * CHUNK - 20);
    rest(segment);
    segment = take(0, 4 * CHUNK);
    assert_false(segment->noted); /* the next owner is another's */
    assert_null(segment_block_at(segment, segment->base + 20));
}

/* Against a plain list: what lives where, chunk by chunk. */
static void blocks_behave_like_a_list(void **state)
{
    enum { SLOTS = 128, SLOT = 512 };
    struct segment *segment = take(0, SLOTS * SLOT);
    struct random random = {5};
    unsigned length[SLOTS] = {0}; /* in slots, of the block that starts there */
    for (unsigned step = 0; step < 5000; step++) {
        unsigned at = (unsigned)random_below(&random, SLOTS), room = 0;
        unsigned covered = 0;
        for (unsigned i = 0; i < SLOTS; i++)
            if (length[i] && i <= at && at < i + length[i]) covered = i + 1;
        while (at + room < SLOTS && !length[at + room]) room++;
        vp_addr address = segment->base + (vp_addr)at * SLOT;
        const struct block *block = segment_block_at(segment, address + SLOT / 2);
        assert_int_equal(block != NULL, covered != 0);
        if (block) assert_int_equal(block->start, segment->base + (vp_addr)(covered - 1) * SLOT);
        if (covered) {
            segment_note_dead(&segments, segment, segment->base + (vp_addr)(covered - 1) * SLOT,
                              length[covered - 1] * SLOT);
            length[covered - 1] = 0;
        } else {
            length[at] = 1 + (unsigned)random_below(&random, room);
            segment_note_alive(&segments, segment, address, length[at] * SLOT);
        }
    }
    uint64_t live = 0, in_chunks = 0;
    for (unsigned i = 0; i < SLOTS; i++) live += length[i] * SLOT;
    for (unsigned i = 0; i < segment->chunk_count; i++) in_chunks += segment->chunks[i].live_bytes;
    assert_int_equal(segment->live_bytes, live);
    assert_int_equal(in_chunks, live);
}

/* ---- What is needed ---- */

static void what_is_needed_is_counted_for_each_card(void **state)
{
    struct segment *whole = take(0, 2 * CHUNK), *parts = take(3, 2 * CHUNK);
    assert_int_equal(segments.cards, 1u << 0 | 1u << 3);
    segment_note_alive(&segments, parts, parts->base, PAGE);
    assert_true(segments_are_valid(&segments));
    assert_int_equal(segments.needed_pages[0], 2 * CHUNK_PAGES);
    assert_int_equal(segments.needed_pages[3], CHUNK_PAGES); /* of one chunk as a whole */
    rest(whole);
    assert_int_equal(segments.needed_pages[0], 0);
    assert_int_equal(segments.needed_pages[3], CHUNK_PAGES);
    segment_note_dead(&segments, parts, parts->base, PAGE);
    assert_true(segments_are_valid(&segments));
    assert_int_equal(segments.needed_pages[3], 0);
}

/* ---- Former owners ---- */

static void the_next_owner_waits_for_the_last(void **state)
{
    struct segment *segment = take(0, CHUNK);
    unsigned slot = order_find(&order, (void *)1, 0, NULL);
    uint32_t unready = segment->unready;
    order_uses_add(&order, &segment->uses, slot, order_enter(&order, slot));
    order_leave(order.stream[slot]);
    rest(segment);
    assert_ptr_equal(take(0, CHUNK), segment);
    assert_true(segment->has_prior);
    assert_int_equal(segment->unready, unready + 1);
    assert_false(segment_prior_done(&segments, segment));
    order_all_done(order.stream[slot]);
    assert_true(segment_prior_done(&segments, segment));
    assert_false(segment->has_prior);
    assert_int_equal(segment->unready, unready);
}

/* Two lists by whether a chunk is at home; the walker sees who is in the wrong one, or in none. */
static void segments_are_listed_by_what_is_at_home(void **state)
{
    struct segment *segment = take(0, 2 * CHUNK);
    assert_ptr_equal(segments.away[0].next, &segment->age);
    segment->unready--; /* as move counts */
    assert_false(segments_are_valid(&segments));
    segment_make_young(&segments, segment);
    assert_true(segments_are_valid(&segments));
    assert_true(list_empty(&segments.away[0]));
    assert_ptr_equal(segments.age[0].next, &segment->age);
    list_remove(&segment->age);
    assert_false(segments_are_valid(&segments));
    segment_make_old(&segments, segment);
    assert_true(segments_are_valid(&segments));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(chunks_cover_a_segment),
        CASE(a_freed_segment_serves_the_same_size_of_the_same_card),
        CASE(what_is_on_the_move_or_lost_is_not_taken_over),
        CASE(a_bare_range_serves_any_size_that_fits),
        CASE(addresses_run_out),
        CASE(live_bytes_and_their_peak_are_counted),
        CASE(a_segment_counts_as_one_block_until_notes_come),
        CASE(a_pointer_reaches_the_chunks_of_its_block),
        CASE(where_blocks_could_not_be_listed_a_pointer_reaches_all),
        CASE(what_lives_spans_a_part_of_a_chunk),
        CASE(only_what_was_alive_dies),
        CASE(notes_end_with_the_segment),
        CASE(blocks_behave_like_a_list),
        CASE(what_is_needed_is_counted_for_each_card),
        CASE(the_next_owner_waits_for_the_last),
        CASE(segments_are_listed_by_what_is_at_home),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
