/* What objects of the program's keep: lists that do not grow with how often they are told. */
#include "pool_fixture.h"

static int begin(void **state)
{
    play("1x64M");
    return 0;
}

static int end(void **state)
{
    emu_close();
    return 0;
}

/* Two executables that use the same memory, each updated in every step. */
static void updates_in_turn_cost_no_memory(void **state)
{
    enum { SEGMENTS = 3, UPDATES = 10000, MOST = 64 };
    static const char first, second;
    vp_options options;
    vp_options_init(&options);
    options.host_bytes = 64 * MIB;
    vp_pool *pool;
    vp_addr address[SEGMENTS];
    assert_int_equal(pool_open(&driver, &options, &pool), VP_OK);
    for (unsigned i = 0; i < SEGMENTS; i++)
        assert_int_equal(vp_alloc(pool, 0, 4 * MIB, &address[i]), VP_OK);
    pool_lock(pool);
    for (unsigned update = 0; update < UPDATES; update++)
        for (unsigned i = 0; i < SEGMENTS; i++) {
            struct segment *segment = segment_of(&pool->segments, address[i]);
            keep_segment(pool, &first, segment);
            keep_segment(pool, &second, segment);
            assert_in_range(segment->keepers, 1, MOST);
        }
    keep_ends(pool, &first);
    for (unsigned i = 0; i < SEGMENTS; i++)
        assert_true(segment_of(&pool->segments, address[i])->captured);
    keep_ends(pool, &second);
    for (unsigned i = 0; i < SEGMENTS; i++) {
        assert_false(segment_of(&pool->segments, address[i])->captured);
        assert_int_equal(segment_of(&pool->segments, address[i])->keepers, 0);
    }
    pool_unlock(pool);
    vp_close(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(updates_in_turn_cost_no_memory, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
