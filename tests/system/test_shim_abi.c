/* What shim/abi.h says of the driver's structures is what <cuda.h> says. Built where that header
 * is. */
#include "shim/abi.h"

#include <stddef.h>

#include "shim/abi_facts.h"
#include "unit/test.h"

static const struct {
    const char *what;
    long value;
} ours[] = {
#define SIZE(ours, real)                  {"size of " #ours, (long)sizeof(ours)},
#define AT(ours, field, real, real_field) {#ours "." #field, (long)offsetof(ours, field)},
#define VALUE(ours, real)                 {#ours, (long)(ours)},
    ABI_FACTS(SIZE, AT, VALUE)};

static void structures_are_the_drivers(void **state)
{
    if (abi_facts_real[0] < 0) {
        print_message("no <cuda.h> here to compare with\n");
        skip();
    }
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
        if (ours[i].value != abi_facts_real[i])
            fail_msg("%s is %ld here, %ld in <cuda.h>", ours[i].what, ours[i].value,
                     abi_facts_real[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(structures_are_the_drivers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
