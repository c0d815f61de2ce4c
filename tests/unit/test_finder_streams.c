/* The step finder where order is not all: several streams whose calls race, blocks that live across
 * steps, buffers that take turns, operations that differ each time. */
#include <stdio.h>

#include "finder_job.h"

enum { STREAMS = 3, LAYERS = 30 };

/* Three threads, each with a stream: one computes, one reduces gradients, one copies batches. They
 * meet at some points of the step; in between their calls interleave at random. */
struct racer {
    struct job job;
    struct random random;
    uint32_t weights[LAYERS], buckets[2], batch, old_batch, results[LAYERS];
    uint32_t stages[STREAMS]; /* of each thread in the step */
};

static void do_compute(struct racer *racer, uint32_t stage)
{
    struct job *job = &racer->job;
    uint32_t layer = stage % LAYERS;
    if (stage < LAYERS) {
        racer->results[layer] = job_alloc(job, 2 << 20);
        uint32_t before = layer ? racer->results[layer - 1] : racer->batch;
        uint32_t ids[] = {racer->weights[layer], before, racer->results[layer]};
        job_op_on(job, 0, 100, ids, 3);
        job_op_on(job, 0, 101, &racer->results[layer], 1);
    } else {
        uint32_t last = LAYERS - 1 - layer;
        uint32_t ids[] = {racer->weights[last], racer->results[last], racer->buckets[0]};
        job_op_on(job, 0, 102, ids, 3);
        job_free(job, racer->results[last]);
    }
}

static void do_reduce(struct racer *racer, uint32_t stage)
{
    job_op_on(&racer->job, 7, 200 + stage % 2, racer->buckets, 2);
}

static void do_copy(struct racer *racer, uint32_t stage)
{
    struct job *job = &racer->job;
    if (stage == 0) racer->old_batch = job_alloc(job, 16 << 20); /* the next one, as yet */
    job_op_on(job, 3, 300 + stage, &racer->old_batch, 1);
}

static void race(struct racer *racer)
{
    static const uint32_t stages[STREAMS] = {2 * LAYERS, 20, 4};
    static void (*const work[STREAMS])(struct racer *, uint32_t) = {do_compute, do_reduce, do_copy};
    uint32_t left = stages[0] + stages[1] + stages[2];
    memset(racer->stages, 0, sizeof racer->stages);
    while (left > 0) {
        uint32_t thread = (uint32_t)random_below(&racer->random, STREAMS);
        if (racer->stages[thread] == stages[thread]) continue;
        work[thread](racer, racer->stages[thread]++);
        left--;
    }
    job_free(&racer->job, racer->batch);
    racer->batch = racer->old_batch;
}

static void racing_streams_are_one_step(void **state)
{
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct racer racer = {.random = {seed}};
        struct job *job = &racer.job;
        print_message("seed %u\n", (unsigned)seed);
        job_open(job);
        for (uint32_t i = 0; i < LAYERS; i++) racer.weights[i] = job_alloc(job, 4 << 20);
        for (uint32_t i = 0; i < 2; i++) racer.buckets[i] = job_alloc(job, 8 << 20);
        racer.batch = job_alloc(job, 16 << 20);
        for (int i = 0; i < 10; i++) race(&racer);
        job_count(job);
        for (int i = 0; i < 20; i++) race(&racer);
        assert_int_equal(job->deviated + job->lost, 0);
        assert_true(job->touches <= 1); /* what was allocated as the period was taken over */
        const struct step *step = finder_step(job->finder, job->place.period);
        assert_int_equal(step->op_count, 3 * LAYERS + 20 + 4);
        uint32_t of[FINDER_STREAMS] = {0};
        for (uint32_t i = 0; i < step->op_count; i++) of[step->ops[i].stream]++;
        assert_int_equal(of[0] + of[1] + of[2], step->op_count);
        job_count(job);
        job_op_on(job, 3, 999, NULL, 0);
        assert_int_equal(job->deviated, 1);
        for (int i = 0; i < 2; i++) race(&racer);
        job_count(job);
        for (int i = 0; i < 5; i++) race(&racer);
        assert_int_equal(job->matched, job->ops);
        job_close(job);
    }
}

/* Two cards with a job each, of equal steps: the threads are held by turns, so that one runs ahead
 * of the other by up to most of a step. */
static void jobs_that_take_turns_are_one_step(void **state)
{
    enum { CARDS = 2, STEP = 1000, KEYS = 40, LEAST = 400, MORE = 500, STEPS = 30, KNOWN = 20 };
    struct job job;
    struct random random = {7};
    uint32_t weights[CARDS][STEP / KEYS], done[CARDS] = {0};
    job_open(&job);
    for (unsigned i = 0; i < CARDS * STEP / KEYS; i++)
        weights[i / (STEP / KEYS)][i % (STEP / KEYS)] = job_alloc(&job, 2 << 20);
    for (unsigned card = 0; done[card] < STEPS * STEP; card = !card) {
        uint64_t burst = LEAST + random_below(&random, MORE);
        uint32_t most = done[!card] + STEP - LEAST / 2; /* steps end together, nearly */
        if (done[0] < KNOWN * STEP) job_count(&job);
        for (; burst && done[card] < most; burst--, done[card]++) {
            uint32_t at = done[card] % STEP;
            job_op_on(&job, card, 1 + at % KEYS, &weights[card][at / KEYS], 1);
        }
    }
    assert_true(job.ops > 2 * (STEPS - KNOWN - 2) * STEP);
    assert_int_equal(job.matched, job.ops);
    job_close(&job);
}

/* One of the streams stops: that is seen no later than a step on. */
static void a_silent_stream_is_noticed(void **state)
{
    struct job job;
    uint32_t a, b;
    job_open(&job);
    a = job_alloc(&job, 2 << 20);
    b = job_alloc(&job, 2 << 20);
    for (int i = 0; i < 600; i++) {
        job_op_on(&job, 0, 1 + (uint64_t)(i % 100), &a, 1);
        if (i % 5 == 0) job_op_on(&job, 1, 2, &b, 1);
    }
    job_count(&job);
    for (int i = 0; i < 250; i++) job_op_on(&job, 0, 1 + (uint64_t)(i % 100), &a, 1);
    assert_int_equal(job.deviated, 1);
    assert_int_equal(job.matched, job.ops - 1);
    job_close(&job);
}

/* A block that is made in one step and freed in the next, when its successor lives. */
static void blocks_live_across_steps(void **state)
{
    struct job job;
    uint32_t state_id, kept = 0;
    job_open(&job);
    state_id = job_alloc(&job, 1 << 20);
    for (int i = 0; i < 12; i++) {
        job.checking = i >= 6;
        job_count(&job);
        for (uint64_t k = 0; k < 40; k++) {
            uint32_t scratch = job_alloc(&job, 5 << 20);
            job_op(&job, 10 + k, state_id, scratch, 0);
            job_free(&job, scratch);
        }
        uint32_t made = job_alloc(&job, 3 << 20);
        job_op(&job, 1, made, kept, 0);
        job_op(&job, 2, made, 0, 0);
        for (uint64_t k = 0; k < 40; k++) job_op(&job, 60 + k, state_id, kept, 0);
        if (kept) job_free(&job, kept);
        job_op(&job, 3, made, 0, 0);
        kept = made;
        if (i < 6) continue;
        assert_int_equal(job.matched, job.ops);
        assert_int_equal(job.wrong_uses, 0);
    }
    /* At its lowest, the step still has one block that crosses its boundary. */
    const struct step *step = finder_step(job.finder, job.place.period);
    uint32_t crossing = 0;
    for (uint32_t i = 0; i < step->role_count; i++) crossing += step->roles[i].age > 0;
    assert_int_equal(crossing, 1);
    uint32_t age = 9, role = finder_role_of(job.finder, kept, &age);
    assert_true(role != FINDER_NONE);
    assert_true(step->roles[role].age == 1);
    job_close(&job);
}

/* Two persistent buffers take turns: the period is two steps, and both are known. */
static void double_buffers_keep_their_roles(void **state)
{
    struct job job;
    uint32_t buffers[2];
    job_open(&job);
    job_start(&job);
    buffers[0] = job_alloc(&job, 6 << 20);
    buffers[1] = job_alloc(&job, 6 << 20);
    for (int i = 0; i < 14; i++) {
        job.checking = i >= 6;
        if (i == 6) job_count(&job);
        job_op(&job, 50, buffers[i % 2], 0, 0);
        job_step(&job, 0, 1);
        job_op(&job, 51, buffers[i % 2], buffers[1 - i % 2], 0);
    }
    assert_int_equal(job.matched, job.ops);
    assert_int_equal(job.wrong_uses, 0);
    assert_int_equal(finder_step(job.finder, job.place.period)->op_count, 2 * (4 + 6 * JOB_LAYERS));
    job_close(&job);
}

/* An op whose grid depends on the data, and one that touches now this, now that. */
static void what_always_differs_is_wild(void **state)
{
    struct random random = {7};
    struct job job;
    job_open(&job);
    job_start(&job);
    for (int i = 0; i < 20; i++) {
        if (i == 10) job_count(&job);
        job_op(&job, random_next(&random), 0, 0, 0);
        job_op(&job, 50, job.weights[random_below(&random, JOB_LAYERS)], 0, 0);
        job_step(&job, 0, 1);
    }
    assert_int_equal(job.matched, job.ops);
    assert_int_equal(finder_step(job.finder, job.place.period)->op_count, 4 + 6 * JOB_LAYERS);
    job_close(&job);
}

/* A second model of the same shape: the same kernels on other weights are another period. */
static void another_model_is_another_period(void **state)
{
    struct job job;
    job_open(&job);
    job_start(&job);
    for (int i = 0; i < 7; i++) job_step(&job, 0, 1);
    uint32_t first = job.place.period;
    for (uint32_t i = 0; i < JOB_LAYERS; i++) {
        job_free(&job, job.weights[i]);
        job_free(&job, job.states[i]);
    }
    job_start(&job);
    for (int i = 0; i < 4; i++) job_step(&job, 0, 1);
    job_count(&job);
    job.checking = true;
    for (int i = 0; i < 3; i++) job_step(&job, 0, 1);
    assert_int_equal(job.matched, job.ops);
    assert_int_equal(job.wrong_uses, 0);
    assert_true(first != 0 && job.place.period != 0);
    job_close(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(racing_streams_are_one_step),
        cmocka_unit_test(jobs_that_take_turns_are_one_step),
        cmocka_unit_test(a_silent_stream_is_noticed),
        cmocka_unit_test(blocks_live_across_steps),
        cmocka_unit_test(double_buffers_keep_their_roles),
        cmocka_unit_test(what_always_differs_is_wild),
        cmocka_unit_test(another_model_is_another_period),
    };
    return cmocka_run_group_tests_name("finder_streams", tests, NULL, NULL);
}
