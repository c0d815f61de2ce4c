/* Steps cut into chunks: sizes, uses, deaths, blocks that live into the next step. */
#include "plan/shape.h"

#include <stdio.h>

#include "plan_steps.h"
#include "test.h"

static struct step_maker maker;

static void cuts_blocks_into_chunks(void **state)
{
    struct shape shape;
    step_begin(&maker);
    uint32_t large = step_add_role(&maker, 70 * MIB);
    uint32_t tail = step_alloc(&maker, 32 * MIB + 1);
    uint32_t small = step_alloc(&maker, 3000);
    uint32_t unused = step_alloc(&maker, 50 * MIB);
    step_op(&maker, 10);
    step_touch(&maker, large, 0, STEP_READS);
    step_touch(&maker, tail, 0, STEP_UNKNOWN);
    step_touch(&maker, small, 0, STEP_UNKNOWN);
    step_free(&maker, tail, 0);
    step_free(&maker, small, 0);
    step_free(&maker, unused, 0);
    assert_int_equal(shape_create(&maker.step, 32 * MIB, 2 * MIB, &shape), VP_OK);
    assert_int_equal(shape.role_count, 3); /* nothing touches the last one */
    assert_int_equal(shape.chunk_count, 3 + 2 + 1);
    static const uint64_t wanted[] = {32 * MIB, 32 * MIB, 6 * MIB, 32 * MIB, 2 * MIB, 3072};
    for (unsigned i = 0; i < 6; i++) assert_int_equal(shape.chunks[i].bytes, wanted[i]);
    assert_int_equal(shape.peak_bytes, 70 * MIB + 32 * MIB + 1 + 3000 + 50 * MIB);
    shape_destroy(&shape);
}

static void orders_uses_and_deaths(void **state)
{
    struct shape shape;
    step_begin(&maker);
    uint32_t kept = step_add_role(&maker, 2 * MIB);
    uint32_t carried = step_add_role(&maker, 2 * MIB); /* born in the middle, freed a step later */
    step_op(&maker, 10);
    step_touch(&maker, carried, 1, STEP_READS);
    step_free(&maker, carried, 1);
    maker.roles[carried].born_op = 1;
    step_add_event(&maker, TRACE_ALLOC, carried, 0);
    step_op(&maker, 20);
    step_touch(&maker, kept, 0, STEP_WRITES);
    step_touch(&maker, carried, 0, STEP_WRITES);
    assert_true(step_is_valid(&maker.step));
    assert_int_equal(shape_create(&maker.step, 2 * MIB, 2 * MIB, &shape), VP_OK);
    const struct shape_role *role = &shape.roles[carried];
    assert_int_equal(role->born, 1);
    assert_int_equal(role->end, 3); /* before op 1 of the next step */
    assert_int_equal(role->copies, 2);
    assert_int_equal(shape_use_at(&shape, role, 0), 1);
    assert_int_equal(shape_use_at(&shape, role, 1), 2);
    assert_int_equal(shape_use_at(&shape, role, 2), 3);
    assert_int_equal(shape_use_at(&shape, &shape.roles[kept], 1), 3);
    assert_int_equal(shape.ops[1].death_count, 1);
    assert_int_equal(shape.deaths[shape.ops[1].first_death].age, 1);
    assert_int_equal(shape.chunks[kept].slot, shape.chunks[carried].slot); /* of one size */
    shape_destroy(&shape);
}

static void holds_for_random_steps(void **state)
{
    struct random random = {20261202};
    for (unsigned i = 0; i < 200; i++) {
        struct shape shape;
        step_make_random(&maker, &random, 2 + (uint32_t)random_below(&random, 60));
        assert_int_equal(shape_create(&maker.step, 8 * MIB, 2 * MIB, &shape), VP_OK);
        assert_true(shape_is_valid(&shape));
        assert_int_equal(shape.ops[shape.op_count].start_ns, step_duration_ns(&maker.step));
        shape_destroy(&shape);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cuts_blocks_into_chunks),
        cmocka_unit_test(orders_uses_and_deaths),
        cmocka_unit_test(holds_for_random_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
