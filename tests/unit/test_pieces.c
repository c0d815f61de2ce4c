/* Copies out in pieces, over a driver that does what a test wants. */
#include "test.h"

#include <string.h>

#include "base/units.h"
#include "pool/internal.h"

static struct driver driver;
static struct vp_pool pool;
static struct chunk chunk;
static uint64_t now_ns, copied_bytes;
static unsigned queued, ended, looks; /* pieces; questions about them */
static unsigned recall_at_look, fail_copy, fail_query;

static uint64_t read_clock(void *context)
{
    return now_ns;
}

static void pause_for_a_moment(void *context)
{
    now_ns += 10 * NS_PER_US;
}

static const struct pool_edge edge = {.now_ns = read_clock, .pause = pause_for_a_moment};

static CUresult copy(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    if (queued + 1 == fail_copy) return CUDA_ERROR_INVALID_VALUE;
    assert_int_equal(to - 1000, from - 2000); /* the same part */
    assert_int_equal(to - 1000, copied_bytes);
    copied_bytes += bytes;
    queued++;
    assert_true(queued - ended <= POOL_PIECES);
    return CUDA_SUCCESS;
}

static CUresult record(CUevent event, CUstream stream)
{
    return CUDA_SUCCESS;
}

/* Each piece has ended when it is asked for the third time. */
static CUresult query(CUevent event)
{
    looks++;
    assert_true(looks < 1000); /* it comes to an end */
    assert_true(queued > ended);
    if (looks == fail_query) return CUDA_ERROR_ILLEGAL_ADDRESS;
    if (looks == recall_at_look) chunk.recalled = true;
    if (looks % 3) return CUDA_ERROR_NOT_READY;
    ended++;
    return CUDA_SUCCESS;
}

static CUresult synchronize(CUstream stream)
{
    ended = queued;
    return CUDA_SUCCESS;
}

static int begin(void **state)
{
    memset(&pool, 0, sizeof pool);
    memset(&chunk, 0, sizeof chunk);
    driver.cuMemcpyAsync = copy;
    driver.cuEventRecord = record;
    driver.cuEventQuery = query;
    driver.cuStreamSynchronize = synchronize;
    pool.driver = &driver;
    pool.edge = &edge;
    now_ns = copied_bytes = 0;
    queued = ended = looks = 0;
    recall_at_look = fail_copy = fail_query = 0;
    return 0;
}

static int end(void **state)
{
    return 0;
}

static CUresult copy_out(uint64_t bytes, uint64_t *queued_bytes)
{
    struct move_action action = {.kind = MOVE_DO_COPY, .chunk = &chunk, .bytes = bytes, .lane = 1};
    copied_bytes = 0;
    return pieces_copy(&pool, &action, 1000, 2000, queued_bytes);
}

static void all_is_copied_and_the_last_piece_left_on_its_way(void **state)
{
    uint64_t bytes;
    assert_int_equal(copy_out(20 * MIB, &bytes), CUDA_SUCCESS);
    assert_int_equal(bytes, 20 * MIB);
    assert_int_equal(queued, 3);
    assert_true(ended < queued);
    assert_int_equal(copy_out(MIB, &bytes), CUDA_SUCCESS);
    assert_int_equal(bytes, MIB);
    assert_int_equal(queued, 4);
}

/* The next piece waits while access is set, and is small thereafter; but not for ever. */
static void pieces_give_way_to_those_who_set_access(void **state)
{
    uint64_t bytes;
    pool.granting = 1;
    now_ns = NS_PER_MS;
    assert_int_equal(copy_out(8 * MIB, &bytes), CUDA_SUCCESS);
    assert_int_equal(bytes, 8 * MIB);
    assert_int_equal(queued, 1);
    assert_in_range(now_ns, NS_PER_MS + 100 * NS_PER_US, 3 * NS_PER_MS);
    pool.granting = 0;
    pool.granted_ns = now_ns + NS_PER_MS;
    assert_int_equal(copy_out(16 * MIB, &bytes), CUDA_SUCCESS);
    assert_int_equal(bytes, 16 * MIB);
    assert_int_equal(queued, 1 + 4);
    now_ns += 10 * NS_PER_MS;
    assert_int_equal(copy_out(16 * MIB, &bytes), CUDA_SUCCESS);
    assert_int_equal(queued, 1 + 4 + 2);
}

static void a_copy_recalled_before_it_begins_copies_nothing(void **state)
{
    uint64_t bytes;
    chunk.recalled = true;
    assert_int_equal(copy_out(20 * MIB, &bytes), CUDA_SUCCESS);
    assert_int_equal(bytes, 0);
    assert_int_equal(looks, 0);
    /* Nor behind another, whose end it waits for. */
    chunk.recalled = false;
    assert_int_equal(copy_out(8 * MIB, &bytes), CUDA_SUCCESS);
    chunk.recalled = true;
    assert_int_equal(copy_out(20 * MIB, &bytes), CUDA_SUCCESS);
    assert_int_equal(bytes, 0);
    assert_int_equal(ended, queued);
}

/* Whenever it comes. */
static void a_recalled_copy_has_ended(void **state)
{
    for (unsigned look = 1; look < 12; look++) {
        begin(state);
        recall_at_look = look;
        uint64_t bytes;
        assert_int_equal(copy_out(32 * MIB, &bytes), CUDA_SUCCESS);
        assert_int_equal(bytes, copied_bytes);
        if (bytes < 32 * MIB) assert_int_equal(ended, queued);
        recall_at_look = 0;
        chunk.recalled = false; /* and the next one is whole */
        assert_int_equal(copy_out(32 * MIB, &bytes), CUDA_SUCCESS);
        assert_int_equal(bytes, 32 * MIB);
    }
}

static void a_copy_that_fails_leaves_nothing_on_its_way(void **state)
{
    uint64_t bytes;
    fail_copy = 2;
    assert_int_equal(copy_out(20 * MIB, &bytes), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(ended, queued);
    fail_copy = 0;
    assert_int_equal(copy_out(20 * MIB, &bytes), CUDA_SUCCESS);
    assert_int_equal(bytes, 20 * MIB);
    fail_query = looks + 2;
    assert_int_equal(copy_out(20 * MIB, &bytes), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(ended, queued);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(all_is_copied_and_the_last_piece_left_on_its_way),
        CASE(pieces_give_way_to_those_who_set_access),
        CASE(a_copy_recalled_before_it_begins_copies_nothing),
        CASE(a_recalled_copy_has_ended),
        CASE(a_copy_that_fails_leaves_nothing_on_its_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
