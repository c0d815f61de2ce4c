/* Digests: what they tell apart, and that their parts may be made in any order. */
#include "test.h"

#include <string.h>

#include "base/digest.h"
#include "base/random.h"

enum { UNITS = 1000, WORDS = 2 * UNITS };

static const struct digest_seeds seeds = {{UINT64_C(0x123456789ABCDEF0), 42}};
static uint64_t data[WORDS];

static int fill(void **state)
{
    struct random random = {7};
    for (unsigned i = 0; i < WORDS; i++) data[i] = random_next(&random);
    return 0;
}

static struct digest digest_of(const uint64_t *words, uint64_t units)
{
    struct digest sum = {{0}};
    digest_add_units(&sum, &seeds, 0, words, units);
    return sum;
}

/* The sums as base/digest.h draws them, digit by digit. */
static void the_sums_are_those_of_the_header(void **state)
{
    const uint64_t unit[2] = {3, UINT64_MAX};
    struct random key = {seeds.seed[0]};
    uint64_t a = 3 + random_next(&key), b = UINT64_MAX + random_next(&key);
    unsigned __int128 product = (unsigned __int128)a * b;
    struct digest sum = digest_of(unit, 1);
    assert_true(sum.word[0] == (uint64_t)product);
    assert_true(sum.word[1] == (uint64_t)(product >> 64));
}

static bool differ(const struct digest *left, const struct digest *right, unsigned s)
{
    return left->word[2 * s] != right->word[2 * s] ||
           left->word[2 * s + 1] != right->word[2 * s + 1];
}

static void any_changed_bit_shows(void **state)
{
    struct digest before = digest_of(data, UNITS);
    for (unsigned bit = 0; bit < 64 * WORDS; bit += 61) {
        data[bit / 64] ^= UINT64_C(1) << bit % 64;
        struct digest after = digest_of(data, UNITS);
        assert_false(digest_is_equal(&before, &after));
        assert_true(differ(&before, &after, 0) && differ(&before, &after, 1));
        data[bit / 64] ^= UINT64_C(1) << bit % 64;
    }
    struct digest again = digest_of(data, UNITS);
    assert_true(digest_is_equal(&before, &again));
}

static void swapped_and_shifted_data_shows(void **state)
{
    struct digest before = digest_of(data, UNITS), other = digest_of(data + 2, UNITS - 1);
    struct digest shorter = digest_of(data, UNITS - 1);
    assert_false(digest_is_equal(&other, &shorter));
    for (unsigned i = 1; i < WORDS; i += 37) {
        uint64_t word = data[i];
        data[i] = data[i - 1];
        data[i - 1] = word;
        other = digest_of(data, UNITS);
        assert_false(digest_is_equal(&before, &other));
        data[i - 1] = data[i];
        data[i] = word;
    }
    memset(data, 0, sizeof data);
    before = digest_of(data, UNITS);
    other = digest_of(data, UNITS - 1);
    assert_false(digest_is_equal(&before, &other)); /* zeros count */
}

static void parts_add_up(void **state)
{
    struct digest whole = digest_of(data, UNITS), sum = {{0}};
    uint64_t seen = 0;
    for (uint64_t block = DIGEST_BLOCKS; block-- > 0;) {
        struct digest part = {{0}};
        uint64_t first, last;
        digest_block_units(UNITS, block, &first, &last);
        digest_add_units(&part, &seeds, first, data + 2 * first, last - first);
        digest_add(&sum, &part);
        seen += last - first;
    }
    assert_int_equal(seen, UNITS);
    assert_true(digest_is_equal(&whole, &sum));
}

static void other_seeds_give_other_sums(void **state)
{
    const struct digest_seeds other = {{seeds.seed[0] + 1, seeds.seed[1]}};
    struct digest before = digest_of(data, UNITS), after = {{0}};
    digest_add_units(&after, &other, 0, data, UNITS);
    assert_true(differ(&before, &after, 0) && !differ(&before, &after, 1));
}

#define CASE(name) cmocka_unit_test_setup(name, fill)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(the_sums_are_those_of_the_header), CASE(any_changed_bit_shows),
        CASE(swapped_and_shifted_data_shows),   CASE(parts_add_up),
        CASE(other_seeds_give_other_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
