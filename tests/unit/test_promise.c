/* Whether what is asked for can be kept: by cases, and against trying out all ways. */
#include "test.h"

#include "base/random.h"
#include "pool/promise.h"

static void what_is_within_reach_counts(void **state)
{
    struct promise promise = {.cards = 2, .places = 3, .room = {10, 10, 5}};
    promise.places_of[0] = 1 | 4; /* its own, and the third */
    promise.places_of[1] = 2 | 4;
    promise.need[0] = 15;
    promise.need[1] = 10;
    assert_true(promise_fits(&promise));
    promise.need[1] = 11; /* the third is taken */
    assert_false(promise_fits(&promise));
    promise.need[0] = 16;
    promise.need[1] = 0; /* the second is out of reach */
    assert_false(promise_fits(&promise));
}

static void one_makes_way_for_another(void **state)
{
    /* 0 may lie in 0 and 1, 1 in 1 and 2, 2 in 2 and 3: what 0 puts into 1 pushes the others on. */
    struct promise promise = {.cards = 3, .places = 4, .room = {10, 10, 10, 10}};
    for (unsigned i = 0; i < 3; i++) promise.places_of[i] = 3u << i;
    promise.need[0] = promise.need[1] = 15;
    promise.need[2] = 10;
    assert_true(promise_fits(&promise));
    promise.need[0] = 20;
    promise.need[1] = promise.need[2] = 10;
    assert_true(promise_fits(&promise));
    promise.need[0] = 21;
    assert_false(promise_fits(&promise));
}

/* All fits if and only if each set of cards has room for what they need in what they reach. */
static bool fits_by_sets(const struct promise *promise)
{
    for (uint32_t set = 1; set < UINT32_C(1) << promise->cards; set++) {
        uint64_t need = 0, room = 0;
        uint32_t places = 0;
        for (unsigned card = 0; card < promise->cards; card++) {
            if (!(set >> card & 1)) continue;
            need += promise->need[card];
            places |= promise->places_of[card];
        }
        for (unsigned place = 0; place < promise->places; place++)
            if (places >> place & 1) room += promise->room[place];
        if (need > room) return false;
    }
    return true;
}

static void it_fits_where_each_set_of_cards_fits(void **state)
{
    struct random random = {5};
    unsigned fitting = 0;
    for (unsigned round = 0; round < 20000; round++) {
        struct promise promise = {.cards = 1 + (unsigned)random_below(&random, 5),
                                  .places = 1 + (unsigned)random_below(&random, 6)};
        for (unsigned i = 0; i < promise.places; i++) promise.room[i] = random_below(&random, 20);
        for (unsigned i = 0; i < promise.cards; i++) {
            promise.need[i] = random_below(&random, 25);
            promise.places_of[i] = (uint32_t)random_below(&random, UINT64_C(1) << promise.places);
        }
        bool fits = promise_fits(&promise);
        assert_int_equal(fits, fits_by_sets(&promise));
        fitting += fits;
    }
    assert_in_range(fitting, 500, 19500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_within_reach_counts),
        cmocka_unit_test(one_makes_way_for_another),
        cmocka_unit_test(it_fits_where_each_set_of_cards_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
