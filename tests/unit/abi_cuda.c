/* The real header's side of test_abi.c; empty where there is no <cuda.h>. */
#if __has_include(<cuda.h>)
#include <cuda.h>
#include <stddef.h>

#include "abi_list.h"

#define OPERAND op.ptr /* a union of ours in emu/abi_more.h */

extern const struct abi_entry abi_real[];
extern const size_t abi_real_count;

const struct abi_entry abi_real[] = {ABI_LIST(ABI_VALUE, ABI_SIZE, ABI_OFFSET)};
const size_t abi_real_count = sizeof abi_real / sizeof *abi_real;
#else
#include <stddef.h>

extern const size_t abi_real_count;
const size_t abi_real_count = 0;
#endif
