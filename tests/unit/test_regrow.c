/* What another program took of a card, and has given back, the pool may have again: slowly, and
 * only where there is plenty. One thread, and a clock that the test turns. */
#include "stepped_pool.h"

enum { SHARE_MIB = 40, OTHERS_MIB = 44, STEP_MIB = 4 };

static CUmemGenericAllocationHandle others;

/* Another program has most of the card when the pool wants to fill its share. */
static int begin(void **state)
{
    vp_addr block;
    open_stepped(SHARE_MIB * MIB);
    CUmemAllocationProp prop = pool->place_prop[pool->move.home[0]];
    assert_int_equal(driver.cuMemCreate(&others, OTHERS_MIB * MIB, &prop, 0), CUDA_SUCCESS);
    assert_int_equal(vp_alloc(pool, 0, SHARE_MIB * MIB, &block), VP_OK);
    assert_int_equal(fill(block, SHARE_MIB * MIB), CUDA_SUCCESS);
    return 0;
}

static int end(void **state)
{
    vp_close(pool);
    if (others) assert_int_equal(driver.cuMemRelease(others), CUDA_SUCCESS);
    emu_close();
    return 0;
}

static uint64_t capacity_mib(void)
{
    vp_place_info_t info;
    assert_int_equal(vp_place_info(pool, pool->move.home[0], &info), VP_OK);
    return info.capacity_bytes / MIB;
}

static void look_after(uint64_t seconds)
{
    now_ns += seconds * NS_PER_S;
    pool_lock(pool);
    for (unsigned i = 0; i < 8; i++) pool_work(pool);
    pool_unlock(pool);
}

static void the_other_ends(void)
{
    assert_int_equal(driver.cuMemRelease(others), CUDA_SUCCESS);
    others = 0;
}

static void nothing_comes_back_while_there_is_little(void **state)
{
    uint64_t shrunk = capacity_mib();
    assert_in_range(shrunk, 2, 64 - OTHERS_MIB);
    for (unsigned i = 0; i < 100; i++) look_after(100);
    assert_int_equal(capacity_mib(), shrunk);
}

static void the_share_comes_back_when_the_other_ends(void **state)
{
    uint64_t shrunk = capacity_mib();
    the_other_ends();
    look_after(5);
    assert_int_equal(capacity_mib(), shrunk); /* not at once */
    look_after(6);
    uint64_t first = capacity_mib();
    assert_in_range(first, shrunk + 1, shrunk + STEP_MIB);
    look_after(0);
    assert_int_equal(capacity_mib(), first);
    for (unsigned i = 0; i < 60; i++) look_after(1);
    assert_int_equal(capacity_mib(), SHARE_MIB); /* and no more than that */
}

/* Another one that starts meanwhile finds what it would have found. */
static void what_is_free_is_not_taken_whole(void **state)
{
    size_t free_bytes, total_bytes;
    CUmemAllocationProp prop = pool->place_prop[pool->move.home[0]];
    the_other_ends();
    assert_int_equal(driver.cuMemCreate(&others, (OTHERS_MIB - 16) * MIB, &prop, 0), CUDA_SUCCESS);
    for (unsigned i = 0; i < 60; i++) look_after(11);
    assert_int_equal(driver.cuMemGetInfo_v2(&free_bytes, &total_bytes), CUDA_SUCCESS);
    const struct frame_place *home = &pool->frames.place[pool->move.home[0]];
    uint64_t made = home->used_pages + home->free_pages;
    uint64_t unmade_bytes = (home->capacity_pages - made) * pool->page_bytes;
    assert_true(unmade_bytes > 0);
    assert_true(free_bytes >= unmade_bytes + 2 * total_bytes / 32);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(nothing_comes_back_while_there_is_little),
        CASE(the_share_comes_back_when_the_other_ends),
        CASE(what_is_free_is_not_taken_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
