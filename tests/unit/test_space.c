/* The page table: ranges, owners, locations. */
#include "test.h"

#include "base/units.h"
#include "space/space.h"

enum { PAGE = 4096 };

static const vp_addr base = UINT64_C(0x600000000000);

static struct space make(uint64_t pages)
{
    struct space space;
    assert_int_equal(space_create(&space, base, pages * PAGE, PAGE), VP_OK);
    return space;
}

static void a_word_holds_all_it_is_given(void **state)
{
    static const struct {
        unsigned place;
        uint64_t frame, page;
    } cases[] = {{0, 0, 0},
                 {31, 1, 2},
                 {63, (UINT64_C(1) << 33) - 1, (1 << 24) - 1},
                 {5, UINT64_C(1) << 32, 0},
                 {0, 0, 1}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        space_location word = space_location_pack(cases[i].place, cases[i].frame, cases[i].page);
        assert_true(word != 0); /* zero means nowhere */
        assert_int_equal(space_location_place(word), cases[i].place);
        assert_int_equal(space_location_frame(word), cases[i].frame);
        assert_int_equal(space_location_page(word), cases[i].page);
    }
}

static void ranges_follow_each_other(void **state)
{
    struct space space = make(10);
    vp_addr first, second;
    assert_int_equal(space_extend(&space, 3, &first), VP_OK);
    assert_int_equal(space_extend(&space, 6, &second), VP_OK);
    assert_int_equal(first, base);
    assert_int_equal(second, base + 3 * PAGE);
    vp_addr untouched = 7;
    assert_int_equal(space_extend(&space, 2, &untouched), VP_NO_ADDRESSES);
    assert_int_equal(untouched, 7);
    assert_int_equal(space_extend(&space, 1, &untouched), VP_OK);
    assert_int_equal(space_extend(&space, 1, &untouched), VP_NO_ADDRESSES);
    space_destroy(&space);
}

static void only_addresses_within_are_known(void **state)
{
    struct space space = make(4 * SPACE_LEAF_PAGES);
    vp_addr range, end = base + 4 * SPACE_LEAF_PAGES * (uint64_t)PAGE;
    assert_int_equal(space_extend(&space, 1, &range), VP_OK);
    assert_true(space_contains(&space, base));
    assert_true(space_contains(&space, end - 1));
    assert_false(space_contains(&space, base - 1));
    assert_false(space_contains(&space, end));
    assert_non_null(space_entry_of(&space, range));
    assert_null(space_entry_of(&space, base - 1));
    assert_null(space_entry_of(&space, end));
    assert_null(space_entry_of(&space, 0));
    assert_null(space_entry_of(&space, UINT64_MAX));
    assert_null(space_entry_of(&space, end - 1)); /* nobody had that yet: no leaf */
    assert_int_equal(space_lookup(&space, end - 1), 0);
    space_destroy(&space);
}

/* A range over the border of two leaves. */
static void each_page_has_its_own_location(void **state)
{
    struct space space = make(3 * SPACE_LEAF_PAGES);
    vp_addr skipped, range;
    assert_int_equal(space_extend(&space, SPACE_LEAF_PAGES - 2, &skipped), VP_OK);
    assert_int_equal(space_extend(&space, 5, &range), VP_OK);
    space_set_location(&space, range, 5, 3, 77);
    for (unsigned i = 0; i < 5; i++) {
        space_location found = space_lookup(&space, range + i * PAGE + PAGE - 1);
        assert_int_equal(space_location_place(found), 3);
        assert_int_equal(space_location_frame(found), 77);
        assert_int_equal(space_location_page(found), i);
    }
    space_clear_location(&space, range + PAGE, 3);
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(space_lookup(&space, range + i * PAGE) == 0, i >= 1 && i <= 3);
    assert_int_equal(space_lookup(&space, range - 1), 0);
    space_destroy(&space);
}

static void owners_are_those_set(void **state)
{
    struct space space = make(100);
    struct segment *one = (void *)0x10, *other = (void *)0x20;
    vp_addr range;
    assert_int_equal(space_extend(&space, 8, &range), VP_OK);
    space_set_owner(&space, range, 8, one);
    space_set_owner(&space, range + 2 * PAGE, 3, other);
    space_set_location(&space, range, 8, 1, 2);
    for (unsigned i = 0; i < 8; i++)
        assert_ptr_equal(space_owner(&space, range + i * PAGE), i >= 2 && i < 5 ? other : one);
    space_set_owner(&space, range, 8, NULL);
    assert_null(space_owner(&space, range));
    assert_true(space_lookup(&space, range) != 0); /* owners and locations are apart */
    space_destroy(&space);
}

static void page_size_may_be_any_power_of_two(void **state)
{
    for (uint64_t page = 4 * KIB; page <= 64 * MIB; page *= 16) {
        struct space space;
        vp_addr range;
        assert_int_equal(space_create(&space, base, 1 * GIB, page), VP_OK);
        assert_int_equal(space_extend(&space, 2, &range), VP_OK);
        space_set_location(&space, range, 2, 1, 9);
        assert_int_equal(space_location_page(space_lookup(&space, range + page - 1)), 0);
        assert_int_equal(space_location_page(space_lookup(&space, range + page)), 1);
        space_destroy(&space);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_word_holds_all_it_is_given),
        cmocka_unit_test(ranges_follow_each_other),
        cmocka_unit_test(only_addresses_within_are_known),
        cmocka_unit_test(each_page_has_its_own_location),
        cmocka_unit_test(owners_are_those_set),
        cmocka_unit_test(page_size_may_be_any_power_of_two),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
