/* The host has no memory for a frame's descriptor when the driver has made the frame: what the
 * driver gave goes back to it. Here calloc can be made to fail (linked with --wrap=calloc). */
#include "test.h"

#include <string.h>

#include "base/log.h"
#include "base/units.h"
#include "emu/emu.h"
#include "machine/machine.h"
#include "pool/internal.h"

enum { SHARE_MIB = 40, CHUNK_MIB = 2 };

static struct driver driver;
static struct machine machine;
static vp_pool *pool;
static uint64_t now_ns;
static struct pool_thread own;
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

static void nothing(void *context) {}

static void wait_for(void *context, uint64_t ns)
{
    now_ns += ns;
}

static uint64_t clock_of(void *context)
{
    return now_ns;
}

static uint64_t thread_of(void *context)
{
    return (uint64_t)(uintptr_t)&own;
}

static const struct pool_edge edge = {.locked = nothing,
                                      .unlocked = nothing,
                                      .wait = wait_for,
                                      .now_ns = clock_of,
                                      .thread = thread_of,
                                      .wake = nothing,
                                      .pause = nothing};

static size_t free_bytes(void)
{
    size_t free_now, total;
    assert_int_equal(driver.cuMemGetInfo_v2(&free_now, &total), CUDA_SUCCESS);
    return free_now;
}

static CUresult fill(vp_addr block, uint64_t bytes)
{
    struct pool_op op;
    pool_op_begin(&op, pool, POOL_MEMSET, NULL, "cuMemsetD8Async");
    pool_op_touch_range(&op, block, bytes);
    CUresult result = pool_op_enter(&op);
    if (result == CUDA_SUCCESS) result = driver.cuMemsetD8Async(block, 1, bytes, NULL);
    return pool_op_leave(&op, result);
}

static int begin(void **state)
{
    CUcontext context;
    vp_options options;
    log_set_level(LOG_QUIET);
    assert_int_equal(machine_from_name("1x64M", &machine), VP_OK);
    struct emu_options emu_options = {.machine = &machine, .seed = 1, .free_running = true};
    assert_int_equal(emu_open(&emu_options), VP_OK);
    emu_driver(&driver);
    assert_int_equal(driver.cuInit(0), CUDA_SUCCESS);
    assert_int_equal(driver.cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    assert_int_equal(driver.cuCtxSetCurrent(context), CUDA_SUCCESS);
    vp_options_init(&options);
    options.host_bytes = 64 * MIB;
    options.hbm_bytes = SHARE_MIB * MIB;
    options.chunk_bytes = CHUNK_MIB * MIB;
    own = (struct pool_thread){.id = 1};
    assert_int_equal(pool_open_stepped(&driver, &options, &edge, &pool), VP_OK);
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
