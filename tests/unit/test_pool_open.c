/* Opening pools over the emulator: options that cannot be, and one pool after another. */
#include "pool_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

static vp_status open_with(uint64_t chunk_bytes, const char *record_path)
{
    vp_options options;
    vp_options_init(&options);
    options.host_bytes = 64 * MIB;
    options.chunk_bytes = chunk_bytes;
    options.record_path = record_path;
    vp_pool *pool;
    vp_status status = pool_open(&driver, &options, &pool);
    if (status == VP_OK) vp_close(pool);
    return status;
}

static void a_chunk_is_a_power_of_two_of_pages(void **state)
{
    assert_int_equal(open_with(2 * MIB, NULL), VP_OK);
    assert_int_equal(open_with(4 * MIB, NULL), VP_OK);
    assert_int_equal(open_with(32 * MIB, NULL), VP_OK);
    assert_int_equal(open_with(3 * MIB, NULL), VP_INVALID);
    assert_int_equal(open_with(MIB, NULL), VP_INVALID);
    assert_int_equal(open_with(128 * MIB, NULL), VP_OK);
    assert_int_equal(open_with(256 * MIB, NULL), VP_INVALID);
}

static void a_reserve_is_at_most_a_sixth_of_the_card(void **state)
{
    static const struct {
        uint64_t reserve_bytes;
        vp_status status;
    } cases[] = {
        {0, VP_OK}, {1, VP_OK}, {8 * MIB, VP_OK}, {12 * MIB, VP_INVALID}, {TIB, VP_INVALID}};
    vp_options options;
    vp_options_init(&options);
    options.host_bytes = 64 * MIB;
    options.hbm_bytes = 60 * MIB;
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        vp_pool *pool;
        options.reserve_bytes = cases[i].reserve_bytes;
        vp_status status = pool_open(&driver, &options, &pool);
        assert_int_equal(status, cases[i].status);
        if (status == VP_OK) vp_close(pool);
    }
}

/* Seven peers are as near as each other: what leaves goes to all at once. */
static void a_card_has_a_way_to_each_of_its_near_peers(void **state)
{
    vp_options options;
    vp_pool *pool;
    vp_addr block;
    emu_close();
    play("8x64M");
    vp_options_init(&options);
    options.host_bytes = 64 * MIB;
    assert_int_equal(pool_open(&driver, &options, &pool), VP_OK);
    assert_int_equal(vp_alloc(pool, 0, MIB, &block), VP_OK);
    pool_lock(pool);
    assert_int_equal(pool->move.ways[0], pool->move.near[0]);
    assert_int_equal(pool->move.ways[0], 7);
    pool_unlock(pool);
    vp_close(pool);
}

static void the_next_pool_records_into_a_file_of_its_own(void **state)
{
    char folder[] = "/tmp/vrampool-test-XXXXXX", path[64], next[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/trace", folder);
    snprintf(next, sizeof next, "%s/trace-2", folder);
    assert_int_equal(open_with(0, path), VP_OK);
    assert_int_equal(access(path, R_OK), 0);
    assert_int_not_equal(access(next, R_OK), 0);
    assert_int_equal(open_with(0, path), VP_OK);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(unlink(next), 0);
    assert_int_equal(rmdir(folder), 0);
}

/* A driver, or a container, in which host memory can be had in fewer ways. */
static int plain_hosts, created_on_plain_host;

static CUresult create_choosy(CUmemGenericAllocationHandle *handle, size_t bytes,
                              const CUmemAllocationProp *prop, unsigned long long flags)
{
    if (prop->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA) return CUDA_ERROR_NOT_PERMITTED;
    if (prop->location.type == CU_MEM_LOCATION_TYPE_HOST) {
        if (!plain_hosts) return CUDA_ERROR_NOT_PERMITTED;
        created_on_plain_host++;
    }
    struct driver real;
    emu_driver(&real);
    return real.cuMemCreate(handle, bytes, prop, flags);
}

static void without_nodes_the_plain_host_does(void **state)
{
    driver.cuMemCreate = create_choosy;
    plain_hosts = 1;
    created_on_plain_host = 0;
    assert_int_equal(open_with(0, NULL), VP_OK);
    assert_true(created_on_plain_host > 0);
    plain_hosts = 0;
    assert_int_equal(open_with(0, NULL), VP_UNSUPPORTED);
    vp_options options;
    vp_options_init(&options);
    options.host_bytes = 0;
    vp_pool *pool;
    assert_int_equal(pool_open(&driver, &options, &pool), VP_OK);
    vp_close(pool);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_chunk_is_a_power_of_two_of_pages),
        CASE(a_reserve_is_at_most_a_sixth_of_the_card),
        CASE(a_card_has_a_way_to_each_of_its_near_peers),
        CASE(the_next_pool_records_into_a_file_of_its_own),
        CASE(without_nodes_the_plain_host_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
