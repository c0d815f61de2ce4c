/* What a pool's settings are where nothing is said. */
#include "test.h"

#include "base/setting.h"

static void a_chunk_is_a_twelfth_rounded_down_to_a_power_of_two(void **state)
{
    assert_int_equal(setting_chunk_bytes(24 * MIB, 2 * MIB), 2 * MIB);
    assert_int_equal(setting_chunk_bytes(47 * MIB, 2 * MIB), 2 * MIB);
    assert_int_equal(setting_chunk_bytes(48 * MIB, 2 * MIB), 4 * MIB);
    assert_int_equal(setting_chunk_bytes(150 * MIB, 2 * MIB), 8 * MIB); /* not 12 */
    assert_int_equal(setting_chunk_bytes(60 * 4096, 4096), 4 * 4096);
}

static void it_is_a_page_at_least_and_64_mib_at_most(void **state)
{
    assert_int_equal(setting_chunk_bytes(2 * MIB, 2 * MIB), 2 * MIB);
    assert_int_equal(setting_chunk_bytes(0, 2 * MIB), 2 * MIB);
    assert_int_equal(setting_chunk_bytes(768 * MIB, 2 * MIB), 64 * MIB);
    assert_int_equal(setting_chunk_bytes(140 * GIB, 2 * MIB), 64 * MIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chunk_is_a_twelfth_rounded_down_to_a_power_of_two),
        cmocka_unit_test(it_is_a_page_at_least_and_64_mib_at_most),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
