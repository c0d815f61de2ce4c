/* The choice of gaps: what it holds at each op, and that nothing is chosen in vain. */
#include "plan/gaps.h"

#include <stdio.h>

#include "plan_steps.h"
#include "test.h"

static struct step_maker maker;

/* a and b by turns, c beside both: with room for two, one of a and b is always away. */
static void chooses_the_longest_gaps(void **state)
{
    struct shape shape;
    struct gaps gaps;
    step_begin(&maker);
    uint32_t block[3];
    for (unsigned i = 0; i < 3; i++) block[i] = step_add_role(&maker, 2 * MIB);
    for (unsigned i = 0; i < 4; i++) {
        step_op(&maker, 1000);
        step_touch(&maker, block[i / 2], 0, STEP_READS);
        step_touch(&maker, block[2], 0, STEP_READS);
    }
    assert_int_equal(shape_create(&maker.step, 2 * MIB, 2 * MIB, &shape), VP_OK);
    assert_int_equal(gaps_create(&shape, &gaps), VP_OK);
    for (unsigned i = 0; i < 4; i++) assert_int_equal(gaps.occupied[i], 6 * MIB);
    gaps_fit(&gaps, 6 * MIB);
    for (uint32_t i = 0; i < shape.gap_count; i++) assert_false(gaps.away[i]);
    gaps_fit(&gaps, 4 * MIB);
    unsigned away = 0;
    for (uint32_t i = 0; i < shape.gap_count; i++) away += gaps.away[i];
    assert_int_equal(away, 2);
    for (unsigned i = 0; i < 4; i++) assert_int_equal(gaps.occupied[i], 4 * MIB);
    assert_true(gaps.away[shape.chunks[0].first_gap + 1]); /* from its second use around */
    gaps_destroy(&gaps);
    shape_destroy(&shape);
}

/* Written by op 0, read by op 2, away after that: it can be copied out between the two. */
static void finds_early_copies(void **state)
{
    struct shape shape;
    struct gaps gaps;
    step_begin(&maker);
    uint32_t kept = step_add_role(&maker, 2 * MIB), other = step_add_role(&maker, 2 * MIB);
    for (unsigned i = 0; i < 6; i++) {
        step_op(&maker, 1000);
        if (i == 0) step_touch(&maker, kept, 0, STEP_WRITES);
        if (i == 2) step_touch(&maker, kept, 0, STEP_READS);
        if (i == 4) step_touch(&maker, other, 0, STEP_READS);
    }
    assert_int_equal(shape_create(&maker.step, 2 * MIB, 2 * MIB, &shape), VP_OK);
    assert_int_equal(gaps_create(&shape, &gaps), VP_OK);
    uint8_t away[8] = {0};
    uint32_t first = shape.chunks[0].first_gap;
    away[first + 1] = 1;
    gaps_set(&gaps, away);
    gaps_find_saves(&gaps);
    assert_int_equal(gaps.save_for[first], first + 1);
    assert_int_equal(gaps.save_for[first + 1], SHAPE_NEVER);
    away[first + 1] = 0;
    away[first] = 1; /* the other way round a write lies between */
    gaps_set(&gaps, away);
    gaps_find_saves(&gaps);
    assert_int_equal(gaps.save_for[first + 1], SHAPE_NEVER);
    gaps_destroy(&gaps);
    shape_destroy(&shape);
}

/* Bytes that ops of the shape touch: no choice can go below. */
static uint64_t touched_bytes(const struct shape *shape, uint32_t op_index)
{
    uint64_t bytes = 0;
    const struct shape_op *op = &shape->ops[op_index];
    for (uint32_t i = op->first_touch; i < op->first_touch + op->touch_count; i++) {
        const struct shape_role *role = &shape->roles[shape->touches[i].role];
        for (uint32_t k = 0; k < role->chunk_count; k++)
            bytes += shape->chunks[role->first_chunk + k].bytes;
    }
    return bytes;
}

static void fits_random_steps(void **state)
{
    struct random random = {77};
    unsigned full = 0;
    for (unsigned i = 0; i < 200; i++) {
        struct shape shape;
        struct gaps gaps;
        step_make_random(&maker, &random, 2 + (uint32_t)random_below(&random, 60));
        assert_int_equal(shape_create(&maker.step, 8 * MIB, 2 * MIB, &shape), VP_OK);
        assert_int_equal(gaps_create(&shape, &gaps), VP_OK);
        uint64_t bytes = shape.peak_bytes / 4 * (1 + random_below(&random, 4));
        gaps_fit(&gaps, bytes);
        assert_true(gaps_are_valid(&gaps));
        for (uint32_t op = 0; op < shape.op_count; op++) {
            uint64_t needed = touched_bytes(&shape, op);
            assert_true(gaps.occupied[op] >= needed);
            if (gaps.occupied[op] > bytes) full++;
        }
        gaps_destroy(&gaps);
        shape_destroy(&shape);
    }
    assert_true(full < 200 * 60 / 4); /* only ops that touch too much themselves */
}

static bool gap_covers(const struct gaps *gaps, uint32_t index, uint32_t op)
{
    const struct gap *gap = &gaps->gap[index];
    uint64_t count = gaps->shape->op_count;
    for (uint64_t at = gap->from + 1ull; at < gap->to && at <= gap->from + count; at++)
        if (at % count == op) return true;
    return false;
}

/* Whichever way it walks, it stops at no op that a gap could still relieve. */
static void a_sweep_relieves_what_can_be(void **state)
{
    struct random random = {78};
    for (unsigned i = 0; i < 200; i++) {
        struct shape shape;
        struct gaps gaps;
        step_make_random(&maker, &random, 2 + (uint32_t)random_below(&random, 40));
        assert_int_equal(shape_create(&maker.step, 8 * MIB, 2 * MIB, &shape), VP_OK);
        assert_int_equal(gaps_create(&shape, &gaps), VP_OK);
        uint64_t bytes = shape.peak_bytes / 4 * (1 + random_below(&random, 4));
        gaps_sweep(&gaps, bytes, i % 2);
        assert_true(gaps_are_valid(&gaps));
        for (uint32_t op = 0; op < shape.op_count; op++)
            for (uint32_t k = 0; k < gaps.worth_count; k++)
                assert_true(gaps.occupied[op] <= bytes || gaps.away[gaps.by_worth[k]] ||
                            !gap_covers(&gaps, gaps.by_worth[k], op));
        gaps_destroy(&gaps);
        shape_destroy(&shape);
    }
}

/* One of four blocks has to be away at each op. The long gap of the last one is as good as all but
 * ops 0 and 1; for these one more is needed, and not one for each stretch in between. */
static void a_sweep_takes_the_fewest_gaps(void **state)
{
    static const unsigned used[3][2] = {{4, 9}, {7, 14}, {0, 1}};
    for (unsigned back = 0; back < 2; back++) {
        struct shape shape;
        struct gaps gaps;
        step_begin(&maker);
        uint32_t block[3], filler = step_add_role(&maker, 2 * MIB);
        for (unsigned i = 0; i < 3; i++) block[i] = step_add_role(&maker, 2 * MIB);
        for (unsigned op = 0; op < 20; op++) {
            step_op(&maker, 1000);
            step_touch(&maker, filler, 0, STEP_READS);
            for (unsigned i = 0; i < 3; i++)
                if (op == used[i][0] || op == used[i][1])
                    step_touch(&maker, block[i], 0, STEP_READS);
        }
        assert_int_equal(shape_create(&maker.step, 2 * MIB, 2 * MIB, &shape), VP_OK);
        assert_int_equal(gaps_create(&shape, &gaps), VP_OK);
        gaps_sweep(&gaps, 6 * MIB, back);
        unsigned away = 0;
        for (uint32_t i = 0; i < shape.gap_count; i++) away += gaps.away[i];
        assert_int_equal(away, 2);
        gaps_destroy(&gaps);
        shape_destroy(&shape);
    }
}

/* A quarter of 64 blocks, each used by one op of its own, has to be away: every fourth or so, as a
 * link that brings them has no time for several in a row. */
static void spreads_what_is_alike(void **state)
{
    enum { COUNT = 64, WINDOW = 8 };
    struct shape shape;
    struct gaps gaps;
    step_begin(&maker);
    for (uint32_t i = 0; i < COUNT; i++) {
        step_add_role(&maker, 2 * MIB);
        step_op(&maker, 1000);
        step_touch(&maker, i, 0, STEP_READS);
    }
    assert_int_equal(shape_create(&maker.step, 2 * MIB, 2 * MIB, &shape), VP_OK);
    assert_int_equal(gaps_create(&shape, &gaps), VP_OK);
    gaps_fit(&gaps, COUNT / 4 * 3 * 2 * MIB);
    for (uint32_t first = 0; first + WINDOW <= COUNT; first++) {
        unsigned away = 0;
        for (uint32_t i = first; i < first + WINDOW; i++) away += gaps.away[i];
        assert_in_range(away, 1, 3);
    }
    gaps_destroy(&gaps);
    shape_destroy(&shape);
}

/* Half of what is idle during most of a step can only be brought back, half only be sent away. */
static unsigned count_brought_back(double spread, unsigned count, unsigned wanted)
{
    struct shape shape;
    struct gaps gaps;
    uint32_t role[STEP_ROLES];
    unsigned back = 0;
    step_begin(&maker);
    for (uint32_t i = 0; i < count; i++) role[i] = step_add_role(&maker, 2 * MIB);
    for (uint32_t i = count; i < 2 * count; i++) role[i] = step_alloc(&maker, 2 * MIB);
    step_op(&maker, 1000);
    for (uint32_t i = 0; i < 2 * count; i++)
        step_touch(&maker, role[i], 0, i < count ? STEP_READS : STEP_WRITES);
    for (unsigned op = 1; op < 4; op++) step_op(&maker, 1000);
    for (uint32_t i = count; i < 2 * count; i++) step_free(&maker, role[i], 0);
    assert_int_equal(shape_create(&maker.step, 2 * MIB, 2 * MIB, &shape), VP_OK);
    assert_int_equal(gaps_create(&shape, &gaps), VP_OK);
    assert_int_equal(gaps_weigh(&gaps, 1, 1.2, spread), VP_OK);
    assert_true(gaps.worth_count >= wanted);
    for (uint32_t i = 0; i < wanted; i++) back += !gaps.gap[gaps.by_worth[i]].dies;
    gaps_destroy(&gaps);
    shape_destroy(&shape);
    return back;
}

/* With one weight for all, the cheaper half goes first, over one link; spread, some of both. */
static void spread_weights_use_both_links(void **state)
{
    assert_int_equal(count_brought_back(0, 32, 24), 24);
    assert_in_range(count_brought_back(0.9, 32, 24), 8, 20);
}

/* What is fixed stays as it is, away or at home; others make room in its place. */
static void leaves_what_is_fixed(void **state)
{
    enum { COUNT = 6 };
    struct shape shape;
    struct gaps gaps;
    step_begin(&maker);
    for (uint32_t i = 0; i < COUNT; i++) step_add_role(&maker, 2 * MIB);
    for (uint32_t i = 0; i < COUNT; i++) {
        step_op(&maker, 1000);
        step_touch(&maker, i, 0, STEP_READS);
    }
    assert_int_equal(shape_create(&maker.step, 2 * MIB, 2 * MIB, &shape), VP_OK);
    assert_int_equal(gaps_create(&shape, &gaps), VP_OK);
    gaps_fit(&gaps, (COUNT - 1) * 2 * MIB);
    uint32_t once = 0;
    while (!gaps.away[once]) once++;
    uint32_t other = once ? 0 : 1;
    gaps_set(&gaps, NULL);
    gaps.fixed[once] = gaps.fixed[other] = true;
    gaps_flip(&gaps, other);
    gaps_fit(&gaps, (COUNT - 1) * 2 * MIB);
    assert_false(gaps.away[once]);
    assert_true(gaps.away[other]);
    gaps_fit(&gaps, COUNT * 2 * MIB);
    assert_true(gaps.away[other]);
    assert_true(gaps_are_valid(&gaps));
    gaps_flip(&gaps, other);
    for (uint32_t i = 0; i < COUNT; i++) assert_int_equal(gaps.occupied[i], COUNT * 2 * MIB);
    gaps_destroy(&gaps);
    shape_destroy(&shape);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chooses_the_longest_gaps),
        cmocka_unit_test(finds_early_copies),
        cmocka_unit_test(fits_random_steps),
        cmocka_unit_test(a_sweep_relieves_what_can_be),
        cmocka_unit_test(a_sweep_takes_the_fewest_gaps),
        cmocka_unit_test(spreads_what_is_alike),
        cmocka_unit_test(spread_weights_use_both_links),
        cmocka_unit_test(leaves_what_is_fixed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
