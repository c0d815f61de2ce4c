/* Our declarations of the driver's interface against the real ones, where cuda.h is installed. The
 * two headers do not go together, so abi_cuda.c evaluates the same list with the real one. */
#include "test.h"

#include <stdio.h>
#include <string.h>

#include "abi_list.h"
#include "emu/abi_more.h"

typedef CUDA_MEMCPY3D CUDA_MEMCPY3D_PEER;
typedef struct emu_kernel_node CUDA_KERNEL_NODE_PARAMS;
typedef struct emu_node CUgraphNodeParams;
typedef struct emu_box_side CUmemcpy3DOperand;
typedef struct emu_box CUDA_MEMCPY3D_BATCH_OP;
#define OPERAND pointer

static const struct abi_entry ours[] = {ABI_LIST(ABI_VALUE, ABI_SIZE, ABI_OFFSET)};

extern const struct abi_entry abi_real[] __attribute__((weak));
extern const size_t abi_real_count;

static void agrees_with_cuda_h(void **state)
{
    (void)state;
    if (abi_real_count == 0) {
        print_message("there is no cuda.h here to compare with\n");
        skip();
    }
    assert_int_equal(abi_real_count, sizeof ours / sizeof *ours);
    for (size_t i = 0; i < abi_real_count; i++) {
        assert_string_equal(ours[i].text, abi_real[i].text);
        if (ours[i].value != abi_real[i].value)
            fail_msg("%s is %llu in driver/abi.h or emu/abi_more.h and %llu in cuda.h",
                     ours[i].text, ours[i].value, abi_real[i].value);
    }
}

static void errors_are_named_once(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int value;
    } errors[] = {
#define NAMED(name, value, text) {"CUDA_" #name, value},
        EMU_ERRORS(NAMED)
#undef NAMED
    };
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        for (size_t j = 0; j < i; j++) assert_int_not_equal(errors[i].value, errors[j].value);
        for (size_t j = 0; j < sizeof ours / sizeof *ours; j++)
            if (strcmp(errors[i].name, ours[j].text) == 0)
                assert_int_equal(errors[i].value, ours[j].value);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_cuda_h),
        cmocka_unit_test(errors_are_named_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
