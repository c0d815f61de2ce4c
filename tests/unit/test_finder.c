/* The step finder on planted programs: what it finds, when, and how it deals with what differs. */
#include <stdio.h>

#include "finder_job.h"

static uint32_t steps_until_followed(struct job *job, uint32_t most)
{
    for (uint32_t step = 1; step <= most; step++) {
        job_count(job);
        job_step(job, 0, 1);
        if (job->matched == job->ops) return step;
    }
    fail_msg("no period after %u steps", most);
    return 0;
}

/* Follows without a fault, and foretells every use. */
static void assert_followed(struct job *job)
{
    if (job->matched == job->ops && job->wrong_uses == 0) return;
    fail_msg("of %u ops %u as foretold, %u lost, %u of other blocks, %u deviated; %u uses wrong",
             job->ops, job->matched, job->lost, job->touches, job->deviated, job->wrong_uses);
}

static void a_step_is_found_after_two(void **state)
{
    struct job job;
    job_open(&job);
    job_start(&job);
    /* The gradients of the first step are the first; its repetition ends the third. */
    assert_int_equal(steps_until_followed(&job, 3), 3);
    job.checking = true;
    job_count(&job);
    for (int i = 0; i < 10; i++) job_step(&job, 0, 1);
    assert_followed(&job);

    const struct step *step = finder_step(job.finder, job.place.period);
    assert_non_null(step);
    assert_true(step_is_valid(step));
    assert_int_equal(step->op_count, 2 + 6 * JOB_LAYERS);
    uint32_t persistent = 0;
    for (uint32_t i = 0; i < step->role_count; i++) {
        persistent += step->roles[i].born_op == STEP_NEVER;
        assert_int_equal(step->roles[i].age, 0); /* cut where nothing crosses */
    }
    assert_int_equal(persistent, 2 * JOB_LAYERS);
    assert_int_equal(step->role_count, 6 * JOB_LAYERS);
    job_close(&job);
}

static void roles_are_the_same_in_each_step(void **state)
{
    struct job job;
    uint32_t roles[JOB_LAYERS], activations[JOB_LAYERS], age;
    job_open(&job);
    job_start(&job);
    for (int i = 0; i < 4; i++) job_step(&job, 0, 1);
    uint32_t ops = finder_step(job.finder, job.place.period)->op_count;
    for (int i = 0; i < 3; i++) {
        job_forward(&job, 0, true, activations);
        for (uint32_t k = 0; k < JOB_LAYERS; k++) {
            uint32_t role = finder_role_of(job.finder, activations[k], &age);
            assert_true(role != FINDER_NONE);
            assert_int_equal(age, 0);
            if (i > 0) assert_int_equal(role, roles[k]);
            roles[k] = role;
            assert_int_equal(finder_block_of(job.finder, role, 0, ops), activations[k]);
        }
        job_backward(&job, 0, true, activations);
        assert_int_equal(finder_block_of(job.finder, roles[0], 0, ops), 0);
        job_update(&job);
    }
    assert_int_equal(finder_role_of(job.finder, 12345, NULL), FINDER_NONE);
    assert_int_equal(finder_next_use(job.finder, 12345), FINDER_NEVER);
    job_close(&job);
}

/* The role is told at the alloc, before anything touches the block. */
static void allocs_are_foretold(void **state)
{
    struct job job;
    job_open(&job);
    job_start(&job);
    for (int i = 0; i < 4; i++) job_step(&job, 0, 1);
    job_op(&job, 3, 0, 0, 0);
    uint32_t scratch = job.next_id++, activation = job.next_id++;
    uint32_t first = finder_alloc(job.finder, scratch, 1 << 20);
    uint32_t second = finder_alloc(job.finder, activation, 2 << 20);
    assert_true(first != FINDER_NONE && second != FINDER_NONE && first != second);
    assert_int_equal(finder_next_use(job.finder, scratch), 1);
    assert_int_equal(finder_next_use(job.finder, activation), 2);
    const struct step *step = finder_step(job.finder, job.place.period);
    assert_int_equal(step->roles[first].bytes, 1 << 20);
    assert_int_equal(step->roles[second].bytes, 2 << 20);
    assert_int_equal(finder_free(job.finder, scratch), first);
    job_close(&job);
}

static void a_changed_launch_is_seen_at_once_and_passes(void **state)
{
    for (uint64_t at = 1; at < 2 + 6 * JOB_LAYERS; at += 7) {
        struct job job;
        job_open(&job);
        job_start(&job);
        for (int i = 0; i < 4; i++) job_step(&job, 0, 1);
        job_count(&job);
        job.changed_at = at;
        job_step(&job, 0, 1);
        job.changed_at = 0;
        assert_int_equal(job.deviated, 1);
        assert_true(job.longest_lost <= 4);
        job_step(&job, 0, 1); /* a change at the end is got over in the next step */
        job_count(&job);
        job.checking = true;
        for (int i = 0; i < 3; i++) job_step(&job, 0, 1);
        assert_followed(&job);
        assert_int_equal(finder_newest(job.finder), finder_stats_of(job.finder).periods);
        job_close(&job);
    }
}

static void added_and_missing_ops_pass(void **state)
{
    struct job job;
    uint32_t activations[JOB_LAYERS];
    job_open(&job);
    job_start(&job);
    for (int i = 0; i < 4; i++) job_step(&job, 0, 1);
    for (int kind = 0; kind < 3; kind++) {
        job_count(&job);
        job_forward(&job, 0, true, activations);
        if (kind == 0) job_op(&job, 777, job.weights[3], 0, 0);
        if (kind == 1)
            for (uint64_t i = 0; i < 40; i++) job_op(&job, 778 + i, 0, 0, 0);
        job_backward(&job, 0, true, activations);
        uint32_t layers = job.layers;
        job.layers = kind == 2 ? layers - 5 : layers; /* some layers are not updated */
        job_update(&job);
        for (uint32_t i = job.layers; i < layers; i++) job_free(&job, job.gradients[i]);
        job.layers = layers;
        job_step(&job, 0, 1);
        assert_int_equal(job.deviated, 1);
        assert_true(job.longest_lost <= (kind == 1 ? 44 : 4));
        job_count(&job);
        job_step(&job, 0, 1);
        assert_followed(&job);
    }
    job_close(&job);
}

static void an_extra_alloc_does_no_harm(void **state)
{
    struct job job;
    uint32_t activations[JOB_LAYERS];
    job_open(&job);
    job_start(&job);
    for (int i = 0; i < 4; i++) job_step(&job, 0, 1);
    for (uint64_t bytes = 1 << 20; bytes <= 2 << 20; bytes <<= 1) {
        /* Of the size of the allocs that come next, so that it is taken for one. */
        job_count(&job);
        uint32_t extra = job_alloc(&job, bytes);
        job_forward(&job, 0, true, activations);
        job_free(&job, extra);
        job_backward(&job, 0, true, activations);
        job_update(&job);
        assert_int_equal(job.deviated, 0);
        assert_int_equal(job.matched, job.ops);
        job.checking = true;
        job_count(&job);
        job_step(&job, 0, 1);
        job_step(&job, 0, 1);
        assert_followed(&job);
        job.checking = false;
        memset(job.foretold, 0, JOB_IDS * sizeof *job.foretold);
    }
    job_close(&job);
}

/* A block that nothing touches, of the size of those that come next, in each step: it is no role,
 * takes one that is not its own, and has to give it back. */
static void untouched_blocks_do_no_harm(void **state)
{
    struct job job;
    uint32_t activations[JOB_LAYERS];
    job_open(&job);
    job_start(&job);
    for (int i = 0; i < 12; i++) {
        job.checking = i >= 6;
        if (i == 6) job_count(&job);
        job_forward(&job, 0, true, activations);
        uint32_t untouched = job_alloc(&job, 3 << 20);
        job_op(&job, 6, job.weights[0], 0, 0);
        job_backward(&job, 0, true, activations);
        job_update(&job);
        job_free(&job, untouched);
    }
    assert_followed(&job);
    job_close(&job);
}

/* A persistent block is replaced: said once, then it has the role. */
static void a_replaced_block_takes_over_the_role(void **state)
{
    struct job job;
    job_open(&job);
    job_start(&job);
    for (int i = 0; i < 4; i++) job_step(&job, 0, 1);
    uint32_t role = finder_role_of(job.finder, job.weights[5], NULL);
    job_free(&job, job.weights[5]);
    job.weights[5] = job_alloc(&job, 4 << 20);
    job_count(&job);
    job_step(&job, 0, 1);
    assert_true(job.touches <= 1);
    assert_int_equal(job.deviated + job.lost, 0);
    assert_int_equal(finder_role_of(job.finder, job.weights[5], NULL), role);
    job_count(&job);
    job_step(&job, 0, 1);
    assert_followed(&job);
    job_close(&job);
}

static void accumulation_is_one_step(void **state)
{
    struct job job;
    job_open(&job);
    job_start(&job);
    for (int i = 0; i < 3; i++) job_step(&job, 0, 4);
    job_count(&job);
    job.checking = true;
    for (int i = 0; i < 4; i++) job_step(&job, 0, 4);
    assert_followed(&job);
    const struct step *step = finder_step(job.finder, job.place.period);
    assert_int_equal(step->op_count, 4 * (2 + 5 * JOB_LAYERS) + JOB_LAYERS);
    job_close(&job);
}

/* Before the whole is known, its inner repetition is followed. */
static void the_inner_repetition_serves_until_then(void **state)
{
    struct job job;
    job_open(&job);
    job_start(&job);
    job_step(&job, 0, 8);
    assert_true(job.matched > 3 * 2 + 3 * 5 * JOB_LAYERS);
    job_count(&job);
    job_step(&job, 0, 8);
    assert_true(job.matched * 10 > job.ops * 6);
    job_close(&job);
}

static void alternating_shapes_are_one_step(void **state)
{
    struct job job;
    job_open(&job);
    job_start(&job);
    for (int i = 0; i < 6; i++) job_step(&job, i % 2 ? 100 : 0, 1);
    job_count(&job);
    job.checking = true;
    for (int i = 0; i < 6; i++) job_step(&job, i % 2 ? 100 : 0, 1);
    assert_followed(&job);
    assert_int_equal(finder_step(job.finder, job.place.period)->op_count, 2 * (2 + 6 * JOB_LAYERS));
    job_close(&job);
}

/* Shapes in no order, once each has been seen twice in a row. */
static void known_shapes_are_recognised(void **state)
{
    struct random random = {42};
    struct job job;
    job_open(&job);
    job_start(&job);
    for (uint64_t shape = 0; shape < 3; shape++)
        for (int i = 0; i < 4; i++) job_step(&job, shape * 100, 1);
    uint32_t newest = finder_newest(job.finder);
    job_count(&job);
    for (int i = 0; i < 60; i++) job_step(&job, random_below(&random, 3) * 100, 1);
    assert_int_equal(finder_newest(job.finder), newest);
    assert_true(job.longest_lost <= 16);
    assert_true(job.matched * 100 > job.ops * 95);
    job_close(&job);
}

/* Trains, and evaluates every ten steps. Returns how many of the ops from step 41 on were not
 * foretold. */
static uint32_t train_and_evaluate(struct job *job, uint64_t shape)
{
    uint32_t late = 0;
    job_open(job);
    job_start(job);
    for (int i = 1; i <= 60; i++) {
        job_count(job);
        job_step(job, 0, 1);
        if (i > 3 && i % 10 != 1) assert_int_equal(job->matched, job->ops);
        if (i > 3) assert_true(job->longest_lost <= 16); /* over within the step */
        if (i > 40) late += job->ops - job->matched;
        if (i % 10 != 0) continue;
        job_count(job);
        job_evaluate(job, shape);
        if (i > 40) late += job->ops - job->matched;
    }
    return late;
}

static void evaluation_becomes_part_of_the_period(void **state)
{
    struct job job;
    assert_int_equal(train_and_evaluate(&job, 50), 0);
    assert_int_equal(finder_step(job.finder, job.place.period)->op_count,
                     10 * (2 + 6 * JOB_LAYERS) + 3 + 3 * JOB_LAYERS);
    job_close(&job);
}

/* An evaluation with the kernels of the forward pass deviates only at its end: no new period. */
static void evaluation_like_the_forward_pass_is_got_over(void **state)
{
    struct job job;
    assert_true(train_and_evaluate(&job, 0) <= 2 * 6);
    assert_int_equal(finder_step(job.finder, job.place.period)->op_count, 2 + 6 * JOB_LAYERS);
    job_close(&job);
}

/* Two periods, each many times, by turns: too long to be one, but the change is foretold. */
static void regular_changes_are_foretold(void **state)
{
    enum { EACH = 300, ROUNDS = 8 };
    struct job job;
    uint32_t ops = 0;
    job_open(&job);
    job_start(&job);
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < EACH; i++) {
            uint32_t next = finder_next_period(job.finder, &ops);
            if (round == ROUNDS - 1) assert_true(next != 0 && next != job.place.period);
            if (i == EACH - 2 && next) assert_int_equal(ops, 2 * (2 + 6 * JOB_LAYERS));
            job_count(&job);
            job_step(&job, round % 2 ? 100 : 0, 1);
            if (round == ROUNDS - 1) assert_int_equal(job.matched, job.ops);
        }
    job_close(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_is_found_after_two),
        cmocka_unit_test(roles_are_the_same_in_each_step),
        cmocka_unit_test(allocs_are_foretold),
        cmocka_unit_test(a_changed_launch_is_seen_at_once_and_passes),
        cmocka_unit_test(added_and_missing_ops_pass),
        cmocka_unit_test(an_extra_alloc_does_no_harm),
        cmocka_unit_test(untouched_blocks_do_no_harm),
        cmocka_unit_test(a_replaced_block_takes_over_the_role),
        cmocka_unit_test(accumulation_is_one_step),
        cmocka_unit_test(the_inner_repetition_serves_until_then),
        cmocka_unit_test(alternating_shapes_are_one_step),
        cmocka_unit_test(known_shapes_are_recognised),
        cmocka_unit_test(evaluation_becomes_part_of_the_period),
        cmocka_unit_test(evaluation_like_the_forward_pass_is_got_over),
        cmocka_unit_test(regular_changes_are_foretold),
    };
    return cmocka_run_group_tests_name("finder", tests, NULL, NULL);
}
