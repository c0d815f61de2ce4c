/* Tables of pointers that a kernel writes, through the shim, on pool memory that does not fit the
 * card: what the next kernel finds by such a table is there when it runs.
 *
 * With and without verify mode. */
#include <stdlib.h>

#include "shim/tables.h"
#include "vrampool.h"

/* ---- The kernel that makes tables ---- */

static const char ptx[] =
    TABLES_PTX ".visible .entry tables_range(.param .u64 to, .param .u64 first, .param .u64 step,"
               " .param .u32 count)\n"
               "{\n  ret;\n}\n";

/* Writes the numbers first, first + step and so on, whatever they mean. */
void emu_kernel_tables_range(struct emu_block *b);
void emu_kernel_tables_range(struct emu_block *b)
{
    uint64_t to = emu_param_u64(b, 0), start = emu_param_u64(b, 1), step = emu_param_u64(b, 2);
    uint64_t first, last;
    uint32_t count = emu_param_u32(b, 3);
    emu_threads(b, &first, &last);
    if (last > count) last = count;
    for (uint64_t i = first; i < last; i++) emu_store_u64(b, to + 8 * i, start + i * step);
}

static CUfunction range;

static void make_range(CUdeviceptr to, uint64_t first, uint64_t step)
{
    uint32_t count = NAMED;
    void *params[] = {&to, &first, &step, &count};
    launch(range, params);
}

/* Words at `data`, 256 bytes from each other. */
static void check_words(CUdeviceptr data, uint32_t expected)
{
    for (unsigned i = 0; i < NAMED; i++) {
        uint32_t word;
        CALL(cuMemcpyDtoH_v2, (void *, CUdeviceptr, size_t), (&word, data + 256 * i, 4));
        assert_int_equal(word, expected);
    }
}

/* What has made numbers alone so far. */
static void make_numbers(CUdeviceptr to)
{
    for (unsigned i = 0; i < 8; i++) {
        make_range(to, i, 1);
        wait();
    }
}

/* Makes a table and uses it, while what it leads to is away. */
static void make_and_use(CUdeviceptr table, CUdeviceptr data)
{
    for (uint32_t i = 1; i <= 4; i++) {
        make_range(table, data, 256);
        press(2);
        add_to(table, i);
        wait();
    }
    check_words(data, 1 + 2 + 3 + 4);
}

/* ---- Tests ---- */

/* As a batched solver has it: the kernel that counts indices makes the table as well. */
static void what_wrote_numbers_may_write_addresses(void **state)
{
    clear();
    make_numbers(block[0]);
    make_and_use(block[0], block[1] + 64);
}

/* Who keeps a table does not write it anew for a block at the same address. */
static void a_table_leads_to_what_is_allocated_there_later(void **state)
{
    CUdeviceptr table = block[0], data = block[1] + 64;
    clear();
    make_range(table, data, 256);
    for (uint32_t i = 1; i <= 4; i++) {
        CUdeviceptr before = block[1];
        CALL(cuMemFree_v2, (CUdeviceptr), (before));
        CALL(cuMemAlloc_v2, (CUdeviceptr *, size_t), (&block[1], BLOCK_BYTES));
        assert_int_equal(block[1], before);
        CALL(cuMemsetD8_v2, (CUdeviceptr, unsigned, size_t), (before, 0, BLOCK_BYTES));
        press(2);
        add_to(table, i);
        wait();
        check_words(data, i);
    }
}

/* What the driver refused wrote nothing, so nothing was looked through. */
static void a_refused_launch_was_not_looked_through(void **state)
{
    CUdeviceptr table = block[0];
    clear();
    make_numbers(table);
    uint32_t count = NAMED;
    uint64_t first = block[7], step = 256;
    void *params[] = {&table, &first, &step, &count};
    CUresult (*launch_it)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                          unsigned, CUstream, void **, void **) = shim_function("cuLaunchKernel");
    CUresult refused = launch_it(range, 1, 1, 1, 4096, 1, 1, 0, stream, params, NULL);
    assert_int_not_equal(refused, CUDA_SUCCESS);
    wait();
    make_and_use(table, block[1] + 64);
}

static int start(void **state)
{
    CUmodule module;
    start_with(ptx, "tables_add");
    CALL(cuModuleLoadData, (CUmodule *, const void *), (&module, ptx));
    CALL(cuModuleGetFunction, (CUfunction *, CUmodule, const char *),
         (&range, module, "tables_range"));
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_wrote_numbers_may_write_addresses),
        cmocka_unit_test(a_table_leads_to_what_is_allocated_there_later),
        cmocka_unit_test(a_refused_launch_was_not_looked_through),
    };
    return cmocka_run_group_tests(tests, start, finish);
}
