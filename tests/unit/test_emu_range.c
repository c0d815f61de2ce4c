/* The set of address ranges, against a plain array. */
#include "test.h"

#include "base/random.h"
#include "emu/range.h"

enum { SLOTS = 400, STEPS = 20000, WIDTH = 100 };

static struct range ranges[SLOTS];
static bool in_set[SLOTS];

/* Slot i may hold a range within [WIDTH i, WIDTH (i + 1)). */
static void agree(struct range *root, uint64_t at)
{
    struct range *found = NULL, *from = NULL;
    for (unsigned i = 0; i < SLOTS; i++) {
        if (!in_set[i]) continue;
        if (ranges[i].start <= at && at < ranges[i].end) found = &ranges[i];
        if (!from && ranges[i].end > at) from = &ranges[i];
    }
    assert_ptr_equal(range_find(root, at), found);
    assert_ptr_equal(range_from(root, at), from);
    assert_int_equal(range_hits(root, at, at + 30), from && from->start < at + 30);
}

static void behaves_like_an_array(void **state)
{
    (void)state;
    struct random random = {12};
    struct range *root = NULL;
    for (unsigned step = 0; step < STEPS; step++) {
        unsigned i = (unsigned)random_below(&random, SLOTS);
        if (in_set[i]) {
            range_remove(&root, &ranges[i]);
        } else {
            ranges[i].start = WIDTH * i + random_below(&random, WIDTH / 2);
            ranges[i].end = ranges[i].start + 1 + random_below(&random, WIDTH / 2);
            range_insert(&root, &ranges[i]);
        }
        in_set[i] = !in_set[i];
        if (step % 20 == 0) agree(root, random_below(&random, SLOTS * WIDTH));
    }
    for (unsigned i = 0; i < SLOTS; i++)
        if (in_set[i]) range_remove(&root, &ranges[i]);
    assert_null(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(behaves_like_an_array)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
