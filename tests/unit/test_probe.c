/* In which order refuges are tried, by what was measured. */
#include "test.h"

#include <string.h>

#include "pool/probe.h"

static vp_pool pool;

/* Card 0 with a part that it lends itself, cards 1 to 3, and the host, in this order. */
static int begin(void **state)
{
    memset(&pool, 0, sizeof pool);
    assert_int_equal(frame_table_create(&pool.frames), VP_OK);
    pool.move.home[0] = frame_place_add(&pool.frames, "card0", VP_PLACE_CARD, 0, 8);
    static const struct {
        const char *name;
        vp_place_kind kind;
        int id;
    } others[] = {{"lent0", VP_PLACE_CARD, 0},
                  {"card1", VP_PLACE_CARD, 1},
                  {"card2", VP_PLACE_CARD, 2},
                  {"card3", VP_PLACE_CARD, 3},
                  {"host0", VP_PLACE_HOST, 0}};
    for (unsigned i = 0; i < 5; i++)
        pool.move.refuge[0][pool.move.refuges[0]++] =
            frame_place_add(&pool.frames, others[i].name, others[i].kind, others[i].id, 8);
    return 0;
}

static int end(void **state)
{
    frame_table_destroy(&pool.frames);
    return 0;
}

static void expect(const struct rates *rates, const char *order)
{
    char text[128] = "";
    probe_order(&pool, 0, rates->of[0]);
    for (uint32_t i = 0; i < pool.move.refuges[0]; i++) {
        strcat(text, i ? " " : "");
        strcat(text, pool.frames.place[pool.move.refuge[0][i]].name);
    }
    assert_string_equal(text, order);
}

static struct rate both(double gbps)
{
    return (struct rate){gbps, gbps};
}

static void the_fastest_come_first(void **state)
{
    struct rates rates = {0};
    rates.of[0][0] = both(2000);
    rates.of[0][1] = both(20);
    rates.of[0][2] = both(78);
    rates.of[0][3] = both(102);
    rates.of[0][RATES_HOST] = both(55);
    expect(&rates, "lent0 card3 card2 host0 card1");
    expect(&rates, "lent0 card3 card2 host0 card1"); /* once more */
}

static void among_equals_the_order_stays(void **state)
{
    struct rates rates = {0};
    rates.of[0][0] = both(100);
    rates.of[0][1] = both(101);
    rates.of[0][2] = both(105);
    rates.of[0][3] = both(103);
    rates.of[0][RATES_HOST] = both(108);
    expect(&rates, "lent0 card1 card2 card3 host0");
}

static void the_way_back_counts_as_well(void **state)
{
    struct rates rates = {0};
    rates.of[0][0] = both(2000);
    rates.of[0][1] = (struct rate){400, 10};
    rates.of[0][2] = both(50);
    rates.of[0][3] = both(49);
    rates.of[0][RATES_HOST] = both(30);
    expect(&rates, "lent0 card2 card3 host0 card1");
}

static void what_is_not_known_stays_before_the_host(void **state)
{
    struct rates rates = {0};
    expect(&rates, "lent0 card1 card2 card3 host0");
    rates.of[0][RATES_HOST] = both(55);
    expect(&rates, "lent0 card1 card2 card3 host0");
}

static void where_data_does_not_arrive_none_is_sent(void **state)
{
    struct rates rates = {0};
    rates.of[0][2] = both(RATE_BROKEN);
    rates.of[0][RATES_HOST] = both(55);
    expect(&rates, "lent0 card1 card3 host0");
}

/* The first ones that are as fast as the first, but not the host. */
static void as_many_are_near_as_are_as_fast(void **state)
{
    struct rates rates = {0};
    rates.of[0][0] = both(100);
    rates.of[0][1] = both(98);
    rates.of[0][2] = both(102);
    rates.of[0][3] = both(78);
    rates.of[0][RATES_HOST] = both(101);
    expect(&rates, "lent0 card1 card2 host0 card3");
    assert_int_equal(pool.move.near[0], 3);
    rates.of[0][0] = both(2000);
    expect(&rates, "lent0 card1 card2 host0 card3");
    assert_int_equal(pool.move.near[0], 1);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(the_fastest_come_first),
        CASE(among_equals_the_order_stays),
        CASE(the_way_back_counts_as_well),
        CASE(what_is_not_known_stays_before_the_host),
        CASE(where_data_does_not_arrive_none_is_sent),
        CASE(as_many_are_near_as_are_as_fast),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
