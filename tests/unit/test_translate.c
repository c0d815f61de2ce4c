/* The model of translation in layers: who answers, how long it takes, and that answers stay right.
 */
#include "plan/translate.h"

#include "base/random.h"
#include "base/units.h"
#include "test.h"

/* The model's own times, and those of the machine below. */
enum { CACHE = 60, FILTER = 10, SERVICE = 100, TABLE = 280, HOST = 1200 };
enum { CARDS = 3, PAGES = 40000 };

static struct translate *make(uint64_t hbm_bytes)
{
    static struct machine machine;
    machine = (struct machine){.cards = CARDS, .hbm_latency_ns = TABLE};
    for (unsigned i = 0; i < CARDS; i++) {
        machine.hbm_bytes[i] = hbm_bytes;
        machine.path[i][CARDS].latency_ns = HOST;
    }
    struct translate *made;
    assert_int_equal(translate_create(&machine, 2 * MIB, PAGES, &made), VP_OK);
    return made;
}

static void each_layer_answers_what_it_is_for(void **state)
{
    struct translate *model = make(64 * MIB); /* 28 entries, in sets of 8: 24 */
    assert_int_equal(translate_entries(model, 0), 24);
    /* At home: the card that it came to has an entry. */
    translate_place(model, 7, 0, 0);
    assert_int_equal(translate_ask(model, 0, 7, 1000), CACHE);
    /* From elsewhere: the controller, then the cache. */
    assert_int_equal(translate_ask(model, 1, 7, 2000), CACHE + FILTER + HOST + SERVICE);
    assert_int_equal(translate_ask(model, 1, 7, 9000), CACHE);
    /* At home, and pushed out of the cache by others: the card's own table. */
    for (uint32_t page = 100; page < 1100; page++) translate_place(model, page, 0, 10000);
    assert_int_equal(translate_ask(model, 0, 7, 900000), CACHE + FILTER + TABLE);
    const struct translate_count *own = translate_count(model, 0, 0);
    const struct translate_count *far = translate_count(model, 1, 0);
    assert_int_equal(own->asked, 2);
    assert_int_equal(own->hits, 1);
    assert_int_equal(own->local, 1);
    assert_int_equal(far->asked, 2);
    assert_int_equal(far->controlled, 1);
    assert_int_equal(far->worst_ns, CACHE + FILTER + HOST + SERVICE);
    assert_true(translate_average_ns(far) == (2 * CACHE + FILTER + HOST + SERVICE) / 2.0);
    assert_true(translate_is_valid(model));
    translate_destroy(model);
}

static void the_cache_covers_nine_tenths_of_the_card(void **state)
{
    struct translate *model = make(16 * GIB);
    uint32_t entries = translate_entries(model, 2);
    assert_in_range(entries, 16 * GIB / (2 * MIB) * 9 / 10 - 8, 16 * GIB / (2 * MIB) * 9 / 10);
    translate_destroy(model);
}

static void a_page_that_moves_is_asked_for_anew(void **state)
{
    struct translate *model = make(GIB);
    translate_place(model, 1, 0, 0);
    translate_ask(model, 1, 1, 1000);
    translate_ask(model, 0, 1, 5000);
    translate_place(model, 1, 1, 10000); /* to the card that had asked */
    assert_int_equal(translate_ask(model, 1, 1, 20000), CACHE);
    assert_int_equal(translate_ask(model, 0, 1, 30000), CACHE + FILTER + HOST + SERVICE);
    translate_place(model, 1, CARDS, 40000); /* to the host */
    for (unsigned card = 0; card < CARDS; card++)
        assert_int_equal(translate_ask(model, card, 1, 50000 + 10000 * card),
                         CACHE + FILTER + HOST + SERVICE);
    assert_int_equal(translate_moves(model), 2);
    assert_true(translate_is_valid(model));
    translate_destroy(model);
}

static void who_asks_at_once_waits_in_turn(void **state)
{
    struct translate *model = make(GIB);
    for (uint32_t page = 0; page < 3; page++) translate_place(model, page, CARDS, 0);
    for (unsigned card = 0; card < CARDS; card++)
        assert_int_equal(translate_ask(model, card, card, 5000),
                         CACHE + FILTER + HOST + SERVICE * (card + 1));
    assert_int_equal(translate_count(model, 2, CARDS)->waited_ns, 2 * SERVICE);
    /* Long after, nobody is in front. */
    assert_int_equal(translate_ask(model, 0, 2, 50000), CACHE + FILTER + HOST + SERVICE);
    translate_destroy(model);
}

/* Filters of twelve bits let some local pages through to the controller, which answers right. */
static void a_local_page_that_seems_remote_costs_time_only(void **state)
{
    struct translate *model = make(64 * MIB);
    uint64_t now_ns = 0;
    for (uint32_t page = 0; page < PAGES; page++) translate_place(model, page, page % 2, 0);
    for (unsigned round = 0; round < 20; round++)
        for (uint32_t page = 0; page < PAGES; page += 2)
            translate_ask(model, 0, page, now_ns += 10000);
    const struct translate_count *own = translate_count(model, 0, 0);
    assert_int_equal(own->controlled, own->mistaken);
    /* 20000 keys in 65536 slots: 8 * 0.31 / 4095 of the 20000 others, which is 12. */
    double share = (double)own->mistaken / (double)(own->local + own->mistaken);
    assert_true(share > 8 * 0.31 / 4095 / 2 && share < 8 * 0.31 / 4095 * 2);
    translate_destroy(model);
}

static void quantiles_are_of_all_answers(void **state)
{
    struct translate *model = make(GIB);
    assert_int_equal(translate_quantile_ns(model, 0.99), 0);
    translate_place(model, 0, CARDS, 0);
    translate_ask(model, 0, 0, 5000);
    for (unsigned i = 0; i < 199; i++) translate_ask(model, 0, 0, 9000);
    assert_int_equal(translate_quantile_ns(model, 0.5), CACHE);
    assert_int_equal(translate_quantile_ns(model, 0.99), CACHE);
    assert_in_range(translate_quantile_ns(model, 1), CACHE + FILTER + HOST + SERVICE,
                    (CACHE + FILTER + HOST + SERVICE) * 33 / 32);
    translate_reset(model);
    assert_int_equal(translate_quantile_ns(model, 1), 0);
    assert_int_equal(translate_ask(model, 0, 0, 9000), CACHE); /* what is cached stays */
    translate_destroy(model);
}

/* Pages go about and are asked for at random; what the model asserts holds, and so do the sums. */
static void random_traffic_stays_valid(void **state)
{
    struct translate *model = make(256 * MIB);
    struct random random = {.state = 4};
    struct translate_count sum = {0};
    uint64_t asked = 0, now_ns = 0;
    for (uint32_t page = 0; page < PAGES; page++)
        translate_place(model, page, (unsigned)random_below(&random, CARDS + 1), 0);
    for (unsigned i = 0; i < 100000; i++) {
        uint32_t page = (uint32_t)random_below(&random, PAGES);
        now_ns += random_below(&random, 300);
        if (random_below(&random, 4) == 0) {
            translate_place(model, page, (unsigned)random_below(&random, CARDS + 1), now_ns);
            continue;
        }
        assert_true(translate_ask(model, (unsigned)random_below(&random, CARDS), page, now_ns) >=
                    CACHE);
        asked++;
        if (i % 10000 == 0) assert_true(translate_is_valid(model));
    }
    for (unsigned card = 0; card < CARDS; card++)
        for (unsigned place = 0; place <= CARDS; place++)
            translate_add(&sum, translate_count(model, card, place));
    assert_int_equal(sum.asked, asked);
    assert_int_equal(sum.asked, sum.hits + sum.local + sum.controlled);
    assert_true(sum.waited_ns > 0);
    assert_true(translate_is_valid(model));
    translate_destroy(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_layer_answers_what_it_is_for),
        cmocka_unit_test(the_cache_covers_nine_tenths_of_the_card),
        cmocka_unit_test(a_page_that_moves_is_asked_for_anew),
        cmocka_unit_test(who_asks_at_once_waits_in_turn),
        cmocka_unit_test(a_local_page_that_seems_remote_costs_time_only),
        cmocka_unit_test(quantiles_are_of_all_answers),
        cmocka_unit_test(random_traffic_stays_valid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
