/* What is found out about links and cards that are not whole, with a stand-in for NVML (two cards,
 * four links, one of them down). The emulated driver's own answers: tests/system/test_train.py. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>

#include "pool/links.h"

static CUresult bus_id(char *text, int size, CUdevice device)
{
    snprintf(text, (size_t)size, "0000:%02x:00.0", (unsigned)device + 1);
    return CUDA_SUCCESS;
}

static void a_link_with_a_dead_lane_is_found(void **state)
{
    struct driver driver = {.cuDeviceGetPCIBusId = bus_id};
    struct links links;
    setenv("VRAMPOOL_NVML", NVML_STANDIN, 1);
    links_look(&driver, 2, &links);
    assert_int_equal(links.faults, 1);
    assert_int_equal(links.fault[0].a, 0);
    assert_int_equal(links.fault[0].b, 1);
    assert_int_equal(links.fault[0].lanes, 4);
    assert_int_equal(links.fault[0].lanes_up, 3);
    assert_int_equal(links.cards, 0); /* it does not tell */
    char text[96];
    assert_string_equal(links_text(&links, 0, text, sizeof text),
                        "the link between card0 and card1 has 3 of 4 lanes");
    assert_null(links_text(&links, 1, text, sizeof text));
    links_look(&driver, 1, &links); /* the far end is nobody that we know */
    assert_int_equal(links.faults, 0);
}

static void without_nvml_nothing_is_known(void **state)
{
    struct driver driver = {.cuDeviceGetPCIBusId = bus_id};
    struct links links = {.faults = 7, .cards = 7};
    setenv("VRAMPOOL_NVML", "/nonexistent/libnvidia-ml.so.1", 1);
    links_look(&driver, 2, &links);
    assert_int_equal(links.faults + links.cards, 0);
    links = (struct links){.faults = 7};
    links_look(&(struct driver){0}, 2, &links); /* nor without bus ids */
    assert_int_equal(links.faults, 0);
}

static void each_fault_has_words(void **state)
{
    struct links links = {.fault = {{0, 1, 4, 0}, {2, LINKS_SWITCH, 18, 17}}, .faults = 2};
    links.card[0] = (struct card_fault){3, NVML_RECOVERY_DRAIN_P2P};
    links.card[1] = (struct card_fault){5, NVML_RECOVERY_RESET};
    links.cards = 2;
    static const char *const expected[] = {
        "the link between card0 and card1 is lost",
        "the link between card2 and the switch has 17 of 18 lanes",
        "card3 passes on nothing to other cards any more", "card5 needs a reset"};
    char text[96];
    for (unsigned i = 0; i < 4; i++)
        assert_string_equal(links_text(&links, i, text, sizeof text), expected[i]);
    assert_null(links_text(&links, 4, text, sizeof text));
    for (int i = NVML_RECOVERY_NONE; i <= NVML_RECOVERY_DRAIN_AND_RESET; i++)
        assert_string_not_equal(links_action((enum nvml_recovery)i), "unknown");
}

static void bus_ids_are_compared_without_their_domains_length(void **state)
{
    assert_true(nvml_is_same_device("00000000:0A:00.0", "0000:0a:00.0"));
    assert_false(nvml_is_same_device("00000000:0A:00.0", "0000:0b:00.0"));
    assert_false(nvml_is_same_device("00000001:0A:00.0", "0000:0a:00.0"));
    assert_false(nvml_is_same_device("", "0000:0a:00.0"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_link_with_a_dead_lane_is_found),
        cmocka_unit_test(without_nvml_nothing_is_known),
        cmocka_unit_test(each_fault_has_words),
        cmocka_unit_test(bus_ids_are_compared_without_their_domains_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
