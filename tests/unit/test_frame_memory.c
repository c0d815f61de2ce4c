/* The host has no memory for a frame's descriptor when the driver has made the frame: what the
 * driver gave goes back to it. Here calloc can be made to fail (linked with --wrap=calloc). */
#include "stepped_pool.h"

static unsigned failures_left, failed;

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);

void *__wrap_calloc(size_t count, size_t size)
{
    if (count != 1 || size != sizeof(struct frame) || !failures_left)
        return __real_calloc(count, size);
    failures_left--;
    failed++;
    return NULL;
}

static size_t free_bytes(void)
{
    size_t free_now, total;
    assert_int_equal(driver.cuMemGetInfo_v2(&free_now, &total), CUDA_SUCCESS);
    return free_now;
}

static int begin(void **state)
{
    open_stepped(40 * MIB);
    return 0;
}

static int end(void **state)
{
    failures_left = 0;
    emu_close();
    return 0;
}

/* More than the card's share, so that frames of the host are made, too, which have aliases. */
static void what_cannot_be_entered_goes_back(void **state)
{
    vp_addr a, b;
    assert_int_equal(vp_alloc(pool, 0, 32 * MIB, &a), VP_OK);
    assert_int_equal(vp_alloc(pool, 0, 32 * MIB, &b), VP_OK);
    size_t before = free_bytes();
    for (unsigned i = 0; i < 4; i++) {
        failures_left = 1; /* one frame of those that it needs; another is made instead */
        assert_int_equal(fill(i % 2 ? b : a, 32 * MIB), CUDA_SUCCESS);
    }
    assert_in_range(failed, 2, 4);
    failures_left = 0;
    vp_place_info_t info;
    assert_int_equal(vp_place_info(pool, pool->move.home[0], &info), VP_OK);
    assert_int_equal(before - free_bytes(), info.used_bytes + info.reserve_bytes);
    vp_close(pool);
    assert_int_equal(emu_findings_count(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_cannot_be_entered_goes_back, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
