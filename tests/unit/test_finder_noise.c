/* The step finder where no step is quite like the other: touches that come by chance, operations
 * more or less, layers that look like steps. */
#include "finder_job.h"

enum { STEP_OPS = 2 + 6 * JOB_LAYERS, SEEDS = 20 };

/* How many operations of the step were foretold, right touches or not. */
static uint32_t foretold(const struct job *job)
{
    return job->matched + job->touches;
}

static void open_noisy(struct job *job, uint64_t seed, unsigned added, unsigned replaced)
{
    print_message("seed %u\n", (unsigned)seed);
    job_open(job);
    job_start(job);
    job->random.state = seed;
    job->added_percent = added;
    job->replaced_percent = replaced;
}

static void assert_whole_step_is_followed(struct job *job)
{
    for (int i = 0; i < 7; i++) job_step(job, 0, 1);
    uint32_t newest = finder_newest(job->finder);
    assert_int_equal(finder_step(job->finder, newest)->op_count, STEP_OPS);
    for (int i = 0; i < 20; i++) {
        job_count(job);
        job_step(job, 0, 1);
        assert_int_equal(foretold(job), job->ops);
        assert_int_equal(job->place.period, newest);
    }
    assert_int_equal(finder_newest(job->finder), newest); /* and nothing else is learned */
}

static void added_touches_hide_no_step(void **state)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct job job;
        open_noisy(&job, seed, 20, 0);
        assert_whole_step_is_followed(&job);
        job_close(&job);
    }
}

static void other_touches_hide_no_step(void **state)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct job job;
        open_noisy(&job, seed, 10, 10);
        assert_whole_step_is_followed(&job);
        job_close(&job);
    }
}

enum { BUFFERS = 8, BATCH_STEPS = 150 };

/* Stray touches, and a loader whose buffers take turns: that many steps as one period would foresee
 * the buffers, but the strays no better, and cost the plan that is being carried out. */
static void stray_touches_join_no_steps(void **state)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct job job;
        open_noisy(&job, seed, 0, 1);
        uint32_t buffers[BUFFERS];
        for (int i = 0; i < BUFFERS; i++) buffers[i] = job_alloc(&job, 2 << 20);
        for (int i = 0; i < BATCH_STEPS; i++) {
            job_op(&job, 900, buffers[i % BUFFERS], 0, 0);
            job_step(&job, 0, 1);
            if (i >= 12)
                assert_int_equal(finder_step(job.finder, job.place.period)->op_count, STEP_OPS + 1);
        }
        job_close(&job);
    }
}

/* The passes of a step repeat themselves too, weights included; the step must win. */
static void noisy_accumulation_is_one_step(void **state)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct job job;
        open_noisy(&job, seed, 20, 0);
        for (int i = 0; i < 5; i++) job_step(&job, 0, 4);
        job_count(&job);
        for (int i = 0; i < 5; i++) job_step(&job, 0, 4);
        assert_int_equal(foretold(&job), job.ops);
        assert_int_equal(finder_step(job.finder, job.place.period)->op_count,
                         4 * (2 + 5 * JOB_LAYERS) + JOB_LAYERS);
        job_close(&job);
    }
}

/* What is added by chance is not foretold; what is real is, in most of its touches. */
static void real_touches_are_foretold(void **state)
{
    struct job job;
    open_noisy(&job, 5, 15, 0);
    for (int i = 0; i < 12; i++) job_step(&job, 0, 1);
    job_count(&job);
    for (int i = 0; i < 10; i++) job_step(&job, 0, 1);
    assert_int_equal(foretold(&job), job.ops);
    assert_true(job.matched * 10 > job.ops * 8);
    job_close(&job);
}

/* Up to two operations more in each step, anywhere between its parts. */
static void extra_step(struct job *job)
{
    uint32_t activations[JOB_LAYERS];
    uint64_t dice = random_next(&job->random);
    if (dice & 1) job_op(job, 800, job->weights[0], 0, 0);
    job_forward(job, 0, true, activations);
    if (dice & 2) job_op(job, 801, job->weights[1], 0, 0);
    job_backward(job, 0, true, activations);
    if (dice & 4) job_op(job, 802, job->weights[2], 0, 0);
    job_update(job);
}

static void added_ops_hide_no_step(void **state)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct job job;
        open_noisy(&job, seed, 15, 0);
        for (int i = 0; i < 12; i++) extra_step(&job);
        job_count(&job);
        for (int i = 0; i < 20; i++) extra_step(&job);
        assert_true(foretold(&job) * 100 > job.ops * 85);
        uint32_t length = finder_step(job.finder, job.place.period)->op_count;
        assert_in_range(length, STEP_OPS, 8 * (STEP_OPS + 3)); /* steps, not parts of one */
        job_close(&job);
    }
}

enum { DEEP = 200, LAYER_OPS = 6 };

/* A step of equal layers; behind layer `extra` comes an operation more. */
static void deep_step(struct job *job, const uint32_t *weights, uint32_t extra)
{
    uint32_t before = job_alloc(job, 2 << 20);
    for (uint32_t i = 0; i < DEEP; i++) {
        uint32_t made = job_alloc(job, 2 << 20);
        for (uint64_t k = 0; k < LAYER_OPS; k++)
            job_op(job, 10 + k, weights[i], k ? made : before, 0);
        if (i == extra) job_op(job, 777, weights[0], 0, 0);
        job_free(job, before);
        before = made;
    }
    job_op(job, 50, before, 0, 0);
    job_free(job, before);
}

static void open_deep(struct job *job, uint32_t *weights)
{
    job_open(job);
    job->random.state = 3;
    for (uint32_t i = 0; i < DEEP; i++) weights[i] = job_alloc(job, 4 << 20);
    for (int i = 0; i < 100; i++) job_op(job, 900 + (uint64_t)i, weights[0], 0, 0);
    memcpy(job->weights, weights, sizeof job->weights);
    job->added_percent = 15;
}

/* Many equal layers, whose weights come first in the first step: they are no period, not even for
 * as long as nothing better is known. */
static void layers_are_no_step(void **state)
{
    struct job job;
    uint32_t weights[DEEP];
    open_deep(&job, weights);
    for (int step = 0; step < 5; step++) {
        if (step == 1) assert_int_equal(finder_newest(job.finder), 0);
        if (step == 4) job_count(&job);
        deep_step(&job, weights, DEEP);
    }
    assert_int_equal(foretold(&job), job.ops);
    assert_int_equal(finder_step(job.finder, job.place.period)->op_count, DEEP * LAYER_OPS + 1);
    job_close(&job);
}

/* Of layers alike, the one that was lost is found again. */
static void the_way_back_is_short(void **state)
{
    struct job job;
    uint32_t weights[DEEP];
    open_deep(&job, weights);
    for (int step = 0; step < 5; step++) deep_step(&job, weights, DEEP);
    for (uint32_t extra = 1; extra < DEEP - 1; extra += 7) {
        job_count(&job);
        deep_step(&job, weights, extra);
        assert_int_equal(job.deviated, 1);
        assert_true(job.lost <= 4);
    }
    job_close(&job);
}

/* Says what it is short of. */
static void the_outlook_is_told(void **state)
{
    struct job job;
    open_noisy(&job, 1, 0, 0);
    assert_int_equal(finder_outlook(job.finder).keyed < STEP_OPS, 1);
    job_step(&job, 0, 1);
    job_step(&job, 0, 1);
    struct finder_outlook outlook = finder_outlook(job.finder);
    assert_int_equal(outlook.length, STEP_OPS);
    assert_true(outlook.keyed > STEP_OPS / 2 && outlook.votes_percent > 90);
    job_close(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(added_touches_hide_no_step),
        cmocka_unit_test(other_touches_hide_no_step),
        cmocka_unit_test(stray_touches_join_no_steps),
        cmocka_unit_test(noisy_accumulation_is_one_step),
        cmocka_unit_test(real_touches_are_foretold),
        cmocka_unit_test(added_ops_hide_no_step),
        cmocka_unit_test(layers_are_no_step),
        cmocka_unit_test(the_way_back_is_short),
        cmocka_unit_test(the_outlook_is_told),
    };
    return cmocka_run_group_tests_name("finder_noise", tests, NULL, NULL);
}
