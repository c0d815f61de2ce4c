/* Small allocations that share a page. */
#include "test.h"

#include <stdlib.h>

#include "base/random.h"
#include "block/slab.h"

enum { PAGE = 2 << 20 };

static struct slabs slabs;
static struct segment segments[8];

static int begin(void **state)
{
    slabs_create(&slabs);
    for (unsigned i = 0; i < 8; i++)
        segments[i] = (struct segment){.base = UINT64_C(0x600000000000) + (vp_addr)i * 2 * PAGE};
    return 0;
}

static int end(void **state)
{
    for (unsigned i = 0; i < 8; i++) free(segments[i].slab);
    slabs_destroy(&slabs);
    return 0;
}

static void classes_are_powers_of_two(void **state)
{
    static const struct {
        uint64_t bytes, page;
        unsigned class;
    } cases[] = {{1, PAGE, 0},
                 {512, PAGE, 0},
                 {513, PAGE, 1},
                 {1024, PAGE, 1},
                 {1 << 20, PAGE, 11},
                 {(1 << 20) + 1, PAGE, SLAB_CLASSES}, /* a segment of its own */
                 {2048, 4096, 2},
                 {2049, 4096, SLAB_CLASSES}, /* a page must hold two at least */
                 {UINT64_MAX, PAGE, SLAB_CLASSES}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(slab_class(cases[i].bytes, cases[i].page), cases[i].class);
}

static void a_slab_gives_each_block_once(void **state)
{
    struct slab *from = NULL;
    assert_int_equal(slab_take(&slabs, 0, 2, 1500, &from), 0); /* there is none yet */
    struct slab *slab = slab_add(&slabs, &segments[0], 0, 2, PAGE);
    assert_int_equal(slab->blocks, PAGE / 2048);
    for (unsigned i = 0; i < slab->blocks; i++) {
        vp_addr address = slab_take(&slabs, 0, 2, 1500, &from);
        assert_int_equal(address, segments[0].base + (vp_addr)i * 2048);
        assert_ptr_equal(from, slab);
    }
    assert_int_equal(slab_take(&slabs, 0, 2, 1500, &from), 0);
    assert_int_equal(slab_give(&slabs, slab, segments[0].base + 5 * 2048), 1500);
    assert_int_equal(slab_take(&slabs, 0, 2, 9, &from), segments[0].base + 5 * 2048);
}

static void the_smallest_blocks_are_as_many_as_can_be_kept(void **state)
{
    struct slab *slab = slab_add(&slabs, &segments[0], 0, 0, 64 << 20), *from;
    assert_int_equal(slab->blocks, SLAB_MAX_BLOCKS);
    for (unsigned i = 0; i < SLAB_MAX_BLOCKS; i++)
        assert_true(slab_take(&slabs, 0, 0, 100, &from) != 0);
    assert_int_equal(slab_take(&slabs, 0, 0, 100, &from), 0);
}

static void cards_and_classes_have_their_own(void **state)
{
    struct slab *from;
    slab_add(&slabs, &segments[0], 0, 2, PAGE);
    assert_int_equal(slab_take(&slabs, 1, 2, 1500, &from), 0);
    assert_int_equal(slab_take(&slabs, 0, 3, 1500, &from), 0);
    assert_true(slab_take(&slabs, 0, 2, 1500, &from) != 0);
}

static void only_starts_of_taken_blocks_are_given_back(void **state)
{
    struct slab *slab = slab_add(&slabs, &segments[0], 0, 2, PAGE), *from;
    vp_addr address = slab_take(&slabs, 0, 2, 1500, &from);
    assert_int_equal(slab_give(&slabs, slab, address + 512), 0);
    assert_int_equal(slab_give(&slabs, slab, address + 2048), 0);
    assert_int_equal(slab_give(&slabs, slab, segments[0].base + PAGE), 0);
    assert_int_equal(slab_give(&slabs, slab, address), 1500);
    assert_int_equal(slab_give(&slabs, slab, address), 0);
}

static void an_address_leads_to_its_block(void **state)
{
    struct slab *slab = slab_add(&slabs, &segments[0], 0, 2, PAGE), *from;
    vp_addr start = 0, address = slab_take(&slabs, 0, 2, 1500, &from);
    uint64_t bytes = 0;
    assert_true(slab_block_at(slab, address + 1499, &start, &bytes));
    assert_int_equal(start, address);
    assert_int_equal(bytes, 1500);
    assert_true(slab_block_at(slab, address + 2047, &start, &bytes)); /* rounded up */
    assert_false(slab_block_at(slab, address + 2048, &start, &bytes));
    assert_false(slab_block_at(slab, segments[0].base + PAGE, &start, &bytes));
}

/* The address is the same, the block is another one. */
static void a_number_is_never_used_twice(void **state)
{
    struct slab *slab = slab_add(&slabs, &segments[0], 0, 2, PAGE), *from;
    vp_addr first = slab_take(&slabs, 0, 2, 1500, &from), other = slab_take(&slabs, 0, 2, 9, &from);
    uint64_t number = slab_number_at(slab, first + 1499);
    assert_int_not_equal(number, 0);
    assert_int_equal(slab_number_at(slab, first), number);
    assert_int_not_equal(slab_number_at(slab, other), number);
    slab_give(&slabs, slab, first);
    assert_int_equal(slab_number_at(slab, first), 0);
    assert_int_equal(slab_take(&slabs, 0, 2, 1500, &from), first);
    assert_true(slab_number_at(slab, first) > number);
}

static void an_empty_slab_goes_and_its_descriptor_serves_again(void **state)
{
    struct slab *slab = slab_add(&slabs, &segments[0], 0, 2, PAGE), *from;
    slab_give(&slabs, slab, slab_take(&slabs, 0, 2, 1500, &from));
    assert_int_equal(slab->used, 0);
    slab_remove(&slabs, slab);
    assert_null(segments[0].slab);
    assert_int_equal(slab_take(&slabs, 0, 2, 1500, &from), 0);
    assert_ptr_equal(slab_add(&slabs, &segments[1], 0, 5, PAGE), slab);
    assert_int_equal(slab_take(&slabs, 0, 5, 9000, &from), segments[1].base);
}

static void blocks_behave_like_a_set(void **state)
{
    enum { SLABS = 4, BLOCKS = SLABS * (PAGE >> 14) };
    static vp_addr taken[BLOCKS];
    struct random random = {3};
    unsigned count = 0;
    for (unsigned i = 0; i < SLABS; i++) slab_add(&slabs, &segments[i], 0, 5, PAGE);
    for (unsigned step = 0; step < 20000; step++) {
        struct slab *slab = NULL;
        if (random_below(&random, 100) < 52) {
            vp_addr address = slab_take(&slabs, 0, 5, 16000, &slab);
            assert_int_equal(address == 0, count == BLOCKS);
            for (unsigned i = 0; i < count && address; i++) assert_int_not_equal(taken[i], address);
            if (address) taken[count++] = address;
        } else if (count) {
            unsigned i = (unsigned)random_below(&random, count);
            slab = segments[(taken[i] - segments[0].base) / (2 * PAGE)].slab;
            assert_int_equal(slab_give(&slabs, slab, taken[i]), 16000);
            taken[i] = taken[--count];
        }
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(classes_are_powers_of_two),
        CASE(a_slab_gives_each_block_once),
        CASE(the_smallest_blocks_are_as_many_as_can_be_kept),
        CASE(cards_and_classes_have_their_own),
        CASE(only_starts_of_taken_blocks_are_given_back),
        CASE(an_address_leads_to_its_block),
        CASE(a_number_is_never_used_twice),
        CASE(an_empty_slab_goes_and_its_descriptor_serves_again),
        CASE(blocks_behave_like_a_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
