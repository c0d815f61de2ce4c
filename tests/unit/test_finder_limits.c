/* The step finder at its limits: nothing that repeats, very long and very short periods, a learner
 * that comes late or not at all, more periods than are remembered, durations. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "finder_job.h"

static void nothing_is_found_where_nothing_repeats(void **state)
{
    struct random random = {3};
    struct job job;
    uint32_t blocks[64];
    job_open(&job);
    for (uint32_t i = 0; i < 64; i++) blocks[i] = job_alloc(&job, (1 + i % 5) << 20);
    for (int i = 0; i < 300000; i++) {
        uint32_t *block = &blocks[random_below(&random, 64)];
        if (random_below(&random, 4) == 0) {
            job_free(&job, *block);
            *block = job_alloc(&job, (1 + random_below(&random, 5)) << 20);
        }
        job_op(&job, random_below(&random, 50), *block, 0, 0);
    }
    assert_int_equal(finder_newest(job.finder), 0);
    assert_int_equal(job.lost, job.ops);
    assert_int_equal(finder_stats_of(job.finder).dropped, 0);
    job_close(&job);
}

/* A step of 100,000 operations, without a repetition within. */
static void a_very_long_step(void **state)
{
    enum { LENGTH = 100000, WEIGHTS = 500 };
    struct job job;
    uint32_t weights[WEIGHTS], passing = 0;
    job_open(&job);
    for (uint32_t i = 0; i < WEIGHTS; i++) weights[i] = job_alloc(&job, 2 << 20);
    for (int step = 0; step < 4; step++) {
        struct random random = {9};
        if (step == 2) job_count(&job);
        if (step == 3) assert_true(job.ops - job.matched <= 64 || job.matched == 0);
        if (step == 3) job_count(&job);
        job.checking = step == 3;
        for (int i = 0; i < LENGTH; i++) {
            if (i % 10 == 0) passing = job_alloc(&job, (1 + random_below(&random, 3)) << 20);
            job_op(&job, random_below(&random, 200), weights[random_below(&random, WEIGHTS)],
                   passing, 0);
            if (i % 10 == 9) job_free(&job, passing);
        }
    }
    assert_int_equal(job.wrong_uses, 0);
    assert_int_equal(job.matched, job.ops);
    assert_int_equal(finder_step(job.finder, job.place.period)->op_count, LENGTH);
    job_close(&job);
}

static void a_very_short_step_is_taken_several_times(void **state)
{
    struct job job;
    uint32_t weight;
    job_open(&job);
    weight = job_alloc(&job, 2 << 20);
    for (int i = 0; i < 200; i++) {
        if (i == 50) job_count(&job);
        job.checking = i >= 50;
        uint32_t made = job_alloc(&job, 4 << 20);
        job_op(&job, 1, weight, made, 0);
        job_op(&job, 2, made, 0, 0);
        job_op(&job, 3, weight, 0, 0);
        job_free(&job, made);
    }
    assert_int_equal(job.matched, job.ops);
    assert_int_equal(job.wrong_uses, 0);
    assert_int_equal(finder_step(job.finder, job.place.period)->op_count,
                     (FINDER_SHORTEST + 2) / 3 * 3);
    job_close(&job);
}

/* Repetitions of what touches nothing are none: there is nothing to plan. */
static void nothing_touched_is_nothing_found(void **state)
{
    struct job job;
    job_open(&job);
    for (uint64_t i = 0; i < 5000; i++) job_op(&job, 1 + i % 40, 0, 0, 0);
    assert_int_equal(finder_newest(job.finder), 0);
    job_close(&job);
}

/* The learner runs now and then, for as long as it likes. */
static void a_late_learner_finds_it_too(void **state)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct random random = {seed};
        struct job job;
        print_message("seed %u\n", (unsigned)seed);
        job_open(&job);
        job.study_each = 0;
        job_start(&job);
        for (int i = 0; i < 40; i++) {
            uint32_t activations[JOB_LAYERS];
            job_forward(&job, 0, true, activations);
            finder_study(job.finder, (uint32_t)random_below(&random, 1000));
            job_backward(&job, 0, true, activations);
            finder_study(job.finder, (uint32_t)random_below(&random, 1000));
            job_update(&job);
            if (i == 30) job_count(&job);
        }
        assert_int_equal(job.matched, job.ops);
        job.checking = true;
        job_count(&job);
        job_step(&job, 0, 1);
        assert_int_equal(job.wrong_uses, 0);
        job_close(&job);
    }
}

/* The queue overflows: operations are left out, what lives is still known. */
static void an_absent_learner_does_no_harm(void **state)
{
    struct job job;
    job_open(&job);
    job.study_each = 0;
    job_start(&job);
    for (int i = 0; i < 700; i++) job_step(&job, 0, 1);
    assert_true(finder_stats_of(job.finder).dropped > 0);
    while (finder_study(job.finder, 100000)) {
    }
    job.study_each = 100;
    for (int i = 0; i < 4; i++) job_step(&job, 0, 1);
    job_count(&job);
    job.checking = true;
    for (int i = 0; i < 4; i++) job_step(&job, 0, 1);
    assert_int_equal(job.matched, job.ops);
    assert_int_equal(job.wrong_uses, 0);
    job_close(&job);
}

/* Even allocs and frees are lost: whoever notices tells again what lives. */
static void lost_blocks_are_told_again(void **state)
{
    struct job job;
    job_open(&job);
    job.study_each = 0;
    job_start(&job);
    for (int i = 0; i < 3000; i++) job_step(&job, 0, 1);
    assert_true(finder_stats_of(job.finder).dropped_blocks > 0);
    while (finder_study(job.finder, 100000)) {
    }
    for (uint32_t i = 0; i < JOB_LAYERS; i++) {
        finder_alloc(job.finder, job.weights[i], 4 << 20);
        finder_alloc(job.finder, job.states[i], 8 << 20);
    }
    job.study_each = 100;
    for (int i = 0; i < 4; i++) job_step(&job, 0, 1);
    job_count(&job);
    job.checking = true;
    for (int i = 0; i < 4; i++) job_step(&job, 0, 1);
    assert_int_equal(job.matched, job.ops);
    assert_int_equal(job.wrong_uses, 0);
    job_close(&job);
}

/* A finder that starts in the middle of the program finds the step, but does not know how large the
 * blocks are that were there before, unless it is told. */
static void a_late_start_is_none_if_told_what_lives(void **state)
{
    for (int told = 0; told < 2; told++) {
        struct job job;
        job_open(&job);
        for (uint32_t i = 0; i < JOB_LAYERS; i++) {
            job.weights[i] = job.next_id++;
            job.states[i] = job.next_id++;
            if (!told) continue;
            finder_alloc(job.finder, job.weights[i], 4 << 20);
            finder_alloc(job.finder, job.states[i], 8 << 20);
        }
        for (int i = 0; i < 4; i++) job_step(&job, 0, 1);
        job_count(&job);
        job.checking = true;
        for (int i = 0; i < 4; i++) job_step(&job, 0, 1);
        assert_int_equal(job.matched, job.ops);
        assert_int_equal(job.wrong_uses, 0);
        uint32_t role = finder_role_of(job.finder, job.states[3], NULL);
        const struct step *step = finder_step(job.finder, job.place.period);
        assert_int_equal(step->roles[role].bytes, told ? 8 << 20 : 0);
        job_close(&job);
    }
}

/* More periods than the follower remembers: the least used ones go, and are learned again. */
static void old_periods_are_given_up(void **state)
{
    struct job job;
    job_open(&job);
    job_start(&job);
    for (uint64_t shape = 0; shape < FINDER_PERIODS + 4; shape++)
        for (int i = 0; i < 4; i++) job_step(&job, shape * 100, 1);
    assert_true(finder_newest(job.finder) >= FINDER_PERIODS + 4);
    assert_null(finder_step(job.finder, 1));
    assert_non_null(finder_step(job.finder, job.place.period));
    for (int i = 0; i < 4; i++) job_step(&job, 0, 1);
    job_count(&job);
    for (int i = 0; i < 4; i++) job_step(&job, 0, 1);
    assert_int_equal(job.matched, job.ops);
    job_close(&job);
}

static void durations_are_averaged(void **state)
{
    struct job job;
    job_open(&job);
    job_start(&job);
    for (int step = 0; step < 12; step++) {
        uint64_t first = job.place.number + 1;
        job_step(&job, 0, 1);
        /* Every third op is measured, late, and backwards. */
        for (uint64_t number = job.place.number; number >= first; number--)
            if (number % 3 == 0) finder_duration(job.finder, number, 1000 + (number - first));
        finder_study(job.finder, 1000);
    }
    const struct step *step = finder_step(job.finder, job.place.period);
    uint32_t measured = 0;
    for (uint32_t i = 0; i < step->op_count; i++) measured += step->ops[i].duration_ns > 0;
    assert_int_equal(measured, step->op_count);
    /* The step is cut where it starts, so that an op's place is its number within. */
    assert_int_equal(step->ops[0].key, 3);
    assert_in_range(step->ops[0].duration_ns, 1000, 1000);
    assert_in_range(step->ops[145].duration_ns, 1145, 1145);
    finder_duration(job.finder, 0, 1);                       /* long forgotten */
    finder_duration(job.finder, job.place.number + 1000, 1); /* not yet */
    finder_study(job.finder, 1000);
    job_close(&job);
}

struct learner_thread {
    struct finder *finder;
    atomic_bool stop;
    atomic_uint idle; /* how often it had nothing left to study */
};

static void *study_until_told(void *context)
{
    struct learner_thread *thread = context;
    while (!atomic_load(&thread->stop)) {
        if (finder_study(thread->finder, 100))
            finder_step(thread->finder, 1);
        else
            atomic_fetch_add(&thread->idle, 1);
    }
    return NULL;
}

static void wait_until_studied(struct learner_thread *thread)
{
    unsigned before = atomic_load(&thread->idle);
    while (atomic_load(&thread->idle) - before < 2) sched_yield();
}

/* As in real life; what is seen when depends on the threads, what is right does not. */
static void the_learner_has_a_thread(void **state)
{
    struct job job;
    pthread_t id;
    job_open(&job);
    job.study_each = 0;
    struct learner_thread thread = {.finder = job.finder};
    assert_int_equal(pthread_create(&id, NULL, study_until_told, &thread), 0);
    job_start(&job);
    for (uint64_t i = 0; i < 2000; i++) {
        job_step(&job, i / 50 % 12 * 100, 1);
        finder_duration(job.finder, job.place.number, 5);
    }
    for (int i = 0; i < 8; i++) {
        wait_until_studied(&thread);
        job_count(&job);
        job_step(&job, 0, 1);
    }
    atomic_store(&thread.stop, true);
    pthread_join(id, NULL);
    assert_int_equal(job.matched, job.ops);
    job_close(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_found_where_nothing_repeats),
        cmocka_unit_test(a_very_long_step),
        cmocka_unit_test(a_very_short_step_is_taken_several_times),
        cmocka_unit_test(nothing_touched_is_nothing_found),
        cmocka_unit_test(a_late_learner_finds_it_too),
        cmocka_unit_test(an_absent_learner_does_no_harm),
        cmocka_unit_test(lost_blocks_are_told_again),
        cmocka_unit_test(a_late_start_is_none_if_told_what_lives),
        cmocka_unit_test(old_periods_are_given_up),
        cmocka_unit_test(durations_are_averaged),
        cmocka_unit_test(the_learner_has_a_thread),
    };
    return cmocka_run_group_tests_name("finder_limits", tests, NULL, NULL);
}
