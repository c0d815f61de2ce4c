/* tables: a kernel that finds blocks by a table of pointers, for tests with blocks.h. */
#ifndef TESTS_TABLES_H
#define TESTS_TABLES_H

#include "emu/emu_kernel.h"
#include "shim/blocks.h"

enum { NAMED = 3 }; /* addresses in a table */

/* For real cards there is nothing in it: the tests are for the emulator. */
#define TABLES_PTX                                                                                 \
    ".version 6.4\n.target sm_75\n.address_size 64\n"                                              \
    ".visible .entry tables_add(.param .u64 table, .param .u32 count, .param .u32 number)\n"       \
    "{\n  ret;\n}\n"

/* Adds a number to the word behind each address in a table. */
void emu_kernel_tables_add(struct emu_block *b);
void emu_kernel_tables_add(struct emu_block *b)
{
    uint64_t table = emu_param_u64(b, 0), first, last;
    uint32_t count = emu_param_u32(b, 1), number = emu_param_u32(b, 2);
    emu_threads(b, &first, &last);
    if (last > count) last = count;
    for (uint64_t i = first; i < last; i++) {
        uint64_t at = emu_load_u64(b, table + 8 * i);
        emu_store_u32(b, at, emu_load_u32(b, at) + number);
    }
}

static inline void launch(CUfunction function, void **params)
{
    CALL(cuLaunchKernel,
         (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
          CUstream, void **, void **),
         (function, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL));
}

static inline void add_to(CUdeviceptr table, uint32_t number)
{
    uint32_t count = NAMED;
    void *params[] = {&table, &count, &number};
    launch(add, params);
}

#endif
