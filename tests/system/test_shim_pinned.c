/* Tables of pointers in pinned host memory, through the shim, on pool memory that does not fit the
 * card: what a kernel finds by such a table is there when it runs.
 *
 * With and without verify mode. */
#include <stdlib.h>
#include <sys/mman.h>

#include "shim/tables.h"
#include "vrampool.h"

/* The words that the table `to` leads to; all others are 0. */
static void check_words(uint32_t expected)
{
    for (unsigned i = 0; i < BLOCKS; i++) {
        uint32_t word;
        CALL(cuMemcpyDtoH_v2, (void *, CUdeviceptr, size_t), (&word, block[i] + 64, 4));
        assert_int_equal(word, i < NAMED ? expected : 0);
    }
}

static void fill(void *table)
{
    for (unsigned i = 0; i < NAMED; i++) ((CUdeviceptr *)table)[i] = block[i] + 64;
}

/* Launches with the table while its blocks are away. */
static void use(void *table)
{
    clear();
    fill(table);
    for (uint32_t i = 1; i <= 4; i++) {
        press(NAMED);
        add_to((uintptr_t)table, i);
        wait();
    }
    check_words(1 + 2 + 3 + 4);
}

/* ---- Tests ---- */

static void allocated_memory_may_hold_a_table(void **state)
{
    void *table;
    CALL(cuMemHostAlloc, (void **, size_t, unsigned), (&table, 4096, 0));
    use(table);
    use((char *)table + 512);
    CALL(cuMemFreeHost, (void *), (table));
    CALL(cuMemAllocHost_v2, (void **, size_t), (&table, 4096));
    use(table);
    CALL(cuMemFreeHost, (void *), (table));
}

static void registered_memory_may_hold_a_table(void **state)
{
    void *table = aligned_alloc(4096, 4096);
    assert_non_null(table);
    CALL(cuMemHostRegister_v2, (void *, size_t, unsigned), (table, 4096, 0));
    use(table);
    CALL(cuMemHostUnregister, (void *), (table));
    free(table);
}

static void a_table_may_lie_deep_in_large_memory(void **state)
{
    void *memory;
    CALL(cuMemHostAlloc, (void **, size_t, unsigned), (&memory, BLOCK_BYTES, 0));
    use((char *)memory + BLOCK_BYTES / 2);
    use((char *)memory + BLOCK_BYTES - sizeof(CUdeviceptr[NAMED]));
    CALL(cuMemFreeHost, (void *), (memory));
}

static void a_captured_launch_keeps_what_its_table_names(void **state)
{
    void *table;
    CUgraph graph;
    CUgraphExec exec;
    CALL(cuMemHostAlloc, (void **, size_t, unsigned), (&table, 4096, 0));
    clear();
    wait();
    fill(table);
    CALL(cuStreamBeginCapture_v2, (CUstream, int), (stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    add_to((uintptr_t)table, 5);
    CALL(cuStreamEndCapture, (CUstream, CUgraph *), (stream, &graph));
    CALL(cuGraphInstantiateWithFlags, (CUgraphExec *, CUgraph, unsigned long long),
         (&exec, graph, 0));
    for (unsigned i = 0; i < 3; i++) {
        press(NAMED);
        CALL(cuGraphLaunch, (CUgraphExec, CUstream), (exec, stream));
        wait();
    }
    check_words(3 * 5);
    CALL(cuGraphExecDestroy, (CUgraphExec), (exec));
    CALL(cuGraphDestroy, (CUgraph), (graph));
    CALL(cuMemFreeHost, (void *), (table));
}

/* A number that was the address of a table, and is nothing now. */
static void what_was_freed_is_not_read(void **state)
{
    void *table, *other,
        *own = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(own, MAP_FAILED);
    CALL(cuMemHostAlloc, (void **, size_t, unsigned), (&other, 4096, 0));
    CALL(cuMemHostAlloc, (void **, size_t, unsigned), (&table, 4096, 0));
    CALL(cuMemHostRegister_v2, (void *, size_t, unsigned), (own, 4096, 0));
    use(table);
    use(own);
    CALL(cuMemFreeHost, (void *), (table));
    CALL(cuMemHostUnregister, (void *), (own));
    assert_int_equal(munmap(own, 4096), 0);
    uint32_t none = 0;
    void *gone[] = {table, own};
    for (unsigned i = 0; i < 2; i++) {
        void *params[] = {&gone[i], &none, &none};
        launch(add, params);
        wait();
    }
    use(other);
    CALL(cuMemFreeHost, (void *), (other));
}

/* The driver refuses to free it there, so the table is one still. */
static void what_could_not_be_freed_is_known_still(void **state)
{
    void *table;
    CUresult (*free_host)(void *) = (CUresult(*)(void *))shim_function("cuMemFreeHost");
    CUresult (*unregister)(void *) = (CUresult(*)(void *))shim_function("cuMemHostUnregister");
    CALL(cuMemHostAlloc, (void **, size_t, unsigned), (&table, 4096, 0));
    assert_int_not_equal(unregister(table), CUDA_SUCCESS);
    use(table);
    CALL(cuMemFreeHost, (void *), (table));
    table = aligned_alloc(4096, 4096);
    assert_non_null(table);
    CALL(cuMemHostRegister_v2, (void *, size_t, unsigned), (table, 4096, 0));
    assert_int_not_equal(free_host(table), CUDA_SUCCESS);
    use(table);
    CALL(cuMemHostUnregister, (void *), (table));
    free(table);
}

static int start(void **state)
{
    start_with(TABLES_PTX, "tables_add");
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocated_memory_may_hold_a_table),
        cmocka_unit_test(registered_memory_may_hold_a_table),
        cmocka_unit_test(a_table_may_lie_deep_in_large_memory),
        cmocka_unit_test(a_captured_launch_keeps_what_its_table_names),
        cmocka_unit_test(what_was_freed_is_not_read),
        cmocka_unit_test(what_could_not_be_freed_is_known_still),
    };
    return cmocka_run_group_tests(tests, start, finish);
}
