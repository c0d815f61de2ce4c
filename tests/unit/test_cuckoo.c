/* The filter: what is in it is found, what is not hardly ever, and what was removed is gone. */
#include "base/cuckoo.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "test.h"

enum { KEYS = 50000, PROBES = 2000000 };

/* Keys as a pool has them: neighbours, which a weak hash would mix up. */
static uint64_t key_of(uint64_t number)
{
    return number << 21;
}

static void fill(struct cuckoo *filter, uint32_t keys)
{
    for (uint32_t i = 0; i < keys; i++) assert_true(cuckoo_add(filter, key_of(i)));
    assert_int_equal(filter->count, keys);
}

static void what_is_in_it_is_always_found(void **state)
{
    static const uint32_t counts[] = {1, 3, 7, 100, 5000, KEYS};
    for (unsigned i = 0; i < sizeof counts / sizeof *counts; i++) {
        struct cuckoo filter;
        assert_int_equal(cuckoo_create(counts[i], 12, &filter), VP_OK);
        fill(&filter, counts[i]);
        assert_true(cuckoo_load(&filter) <= 0.85);
        for (uint32_t k = 0; k < counts[i]; k++) assert_true(cuckoo_has(&filter, key_of(k)));
        cuckoo_destroy(&filter);
    }
}

static double measured_rate(const struct cuckoo *filter)
{
    uint32_t found = 0;
    for (uint64_t i = 0; i < PROBES; i++) found += cuckoo_has(filter, key_of(KEYS + i));
    return (double)found / PROBES;
}

/* Within four standard deviations of what the header's formula says, full and half empty. */
static void strangers_pass_at_the_rate_of_the_formula(void **state)
{
    for (unsigned bits = 8; bits <= 16; bits += 4) {
        struct cuckoo filter;
        assert_int_equal(cuckoo_create(KEYS, bits, &filter), VP_OK);
        for (uint32_t keys = KEYS / 2; keys <= KEYS; keys += KEYS / 2) {
            fill(&filter, keys);
            double slots = 2 * CUCKOO_SLOTS * cuckoo_load(&filter);
            double wanted = 1 - pow(1 - 1 / (pow(2, bits) - 1), slots);
            double deviation = sqrt(wanted * (1 - wanted) / PROBES);
            double rate = measured_rate(&filter);
            /* Keys share fingerprints, so what a set of them lets through varies more than the
             * probes alone: by another 3 %. */
            if (fabs(rate - wanted) > 4 * deviation + 0.03 * wanted)
                fail_msg("%u bits, %u keys: %g, not %g", bits, keys, rate, wanted);
            memset(filter.slots, 0, (size_t)filter.buckets * CUCKOO_SLOTS * sizeof *filter.slots);
            filter.count = 0;
        }
        cuckoo_destroy(&filter);
    }
}

static void what_was_removed_is_gone(void **state)
{
    struct cuckoo filter;
    assert_int_equal(cuckoo_create(KEYS, 16, &filter), VP_OK);
    fill(&filter, KEYS);
    for (uint32_t i = 0; i < KEYS; i += 2) assert_true(cuckoo_remove(&filter, key_of(i)));
    uint32_t still = 0;
    for (uint32_t i = 0; i < KEYS; i++) {
        if (i % 2)
            assert_true(cuckoo_has(&filter, key_of(i)));
        else
            still += cuckoo_has(&filter, key_of(i));
    }
    assert_true(still < 20); /* false ones: 3 expected */
    for (uint32_t i = 1; i < KEYS; i += 2) assert_true(cuckoo_remove(&filter, key_of(i)));
    assert_int_equal(filter.count, 0);
    for (size_t i = 0; i < (size_t)filter.buckets * CUCKOO_SLOTS; i++)
        assert_int_equal(filter.slots[i], 0);
    assert_false(cuckoo_remove(&filter, key_of(1)));
    cuckoo_destroy(&filter);
}

static void a_key_entered_twice_is_removed_twice(void **state)
{
    struct cuckoo filter;
    assert_int_equal(cuckoo_create(100, 12, &filter), VP_OK);
    assert_true(cuckoo_add(&filter, 5));
    assert_true(cuckoo_add(&filter, 5));
    assert_true(cuckoo_remove(&filter, 5));
    assert_true(cuckoo_has(&filter, 5));
    assert_true(cuckoo_remove(&filter, 5));
    assert_false(cuckoo_has(&filter, 5));
    cuckoo_destroy(&filter);
}

/* Keys come and go for long at the highest load; a reference says which are there. */
static void coming_and_going_loses_none(void **state)
{
    enum { MANY = 4000, ROUNDS = 400000 };
    struct cuckoo filter;
    struct random random = {.state = 11};
    uint64_t *in = malloc(MANY * sizeof *in), fresh = MANY;
    assert_non_null(in);
    assert_int_equal(cuckoo_create(MANY, 12, &filter), VP_OK);
    for (uint32_t i = 0; i < MANY; i++) {
        in[i] = i;
        assert_true(cuckoo_add(&filter, key_of(i)));
    }
    for (uint32_t i = 0; i < ROUNDS; i++) {
        uint64_t *one = &in[random_below(&random, MANY)];
        assert_true(cuckoo_remove(&filter, key_of(*one)));
        *one = fresh++;
        assert_true(cuckoo_add(&filter, key_of(*one)));
        assert_true(cuckoo_has(&filter, key_of(in[random_below(&random, MANY)])));
    }
    for (uint32_t i = 0; i < MANY; i++) assert_true(cuckoo_has(&filter, key_of(in[i])));
    assert_int_equal(filter.count, MANY);
    cuckoo_destroy(&filter);
    free(in);
}

/* A full filter refuses, and what it held it still holds. */
static void a_full_one_says_so_and_keeps_what_it_has(void **state)
{
    struct cuckoo filter;
    assert_int_equal(cuckoo_create(200, 12, &filter), VP_OK);
    uint32_t keys = 0;
    size_t slots = (size_t)filter.buckets * CUCKOO_SLOTS;
    while (keys <= slots && cuckoo_add(&filter, key_of(keys))) keys++;
    assert_true(keys >= slots / 10 * 9 && keys <= slots);
    assert_int_equal(filter.count, keys);
    for (uint32_t i = 0; i < keys; i++) assert_true(cuckoo_has(&filter, key_of(i)));
    cuckoo_destroy(&filter);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_in_it_is_always_found),
        cmocka_unit_test(strangers_pass_at_the_rate_of_the_formula),
        cmocka_unit_test(what_was_removed_is_gone),
        cmocka_unit_test(a_key_entered_twice_is_removed_twice),
        cmocka_unit_test(coming_and_going_loses_none),
        cmocka_unit_test(a_full_one_says_so_and_keeps_what_it_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
