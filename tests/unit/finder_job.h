/* A made-up training job that is told to a finder: layers with weights, activations, gradients and
 * optimizer state, on one stream or several; steps may differ in what a test wants to differ. Every
 * foretelling of the finder about next uses is kept and held against what comes. */
#ifndef TESTS_UNIT_FINDER_JOB_H
#define TESTS_UNIT_FINDER_JOB_H

#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "test.h"
#include "trace/finder.h"

enum { JOB_LAYERS = 24, JOB_IDS = 1 << 20 };

struct job {
    struct finder *finder;
    uint32_t next_id;
    uint32_t weights[JOB_LAYERS], states[JOB_LAYERS], gradients[JOB_LAYERS];
    uint32_t layers;
    uint32_t study_each; /* events a study, after each op; 0: the test studies itself */
    struct finder_place place;
    /* Of the ops since job_count. */
    uint32_t ops, matched, lost, touches, deviated;
    uint32_t longest_lost, lost_now;
    /* What next use was foretold of each block: an op number, UINT64_MAX: none, 0: not asked. */
    uint64_t *foretold;
    bool checking;
    uint32_t wrong_uses;
    uint64_t changed_at; /* this op of the step gets another key; 0: none */
    uint64_t step_op;
    /* So many operations in a hundred touch some weight more, or instead of what they touch. */
    unsigned added_percent, replaced_percent;
    struct random random;
};

static inline void job_open(struct job *job)
{
    memset(job, 0, sizeof *job);
    assert_int_equal(finder_create(&job->finder), VP_OK);
    job->layers = JOB_LAYERS;
    job->study_each = 1000;
    job->next_id = 1;
    job->foretold = calloc(JOB_IDS, sizeof *job->foretold);
    assert_non_null(job->foretold);
}

static inline void job_close(struct job *job)
{
    assert_true(finder_is_valid(job->finder));
    finder_destroy(job->finder);
    free(job->foretold);
}

static inline void job_count(struct job *job)
{
    job->ops = job->matched = job->lost = job->touches = job->deviated = 0;
    job->longest_lost = job->lost_now = job->wrong_uses = 0;
}

static inline uint32_t job_alloc(struct job *job, uint64_t bytes)
{
    uint32_t id = job->next_id++;
    assert_true(id < JOB_IDS);
    finder_alloc(job->finder, id, bytes);
    return id;
}

static inline void job_free(struct job *job, uint32_t id)
{
    job->wrong_uses += job->foretold[id] != 0 && job->foretold[id] != UINT64_MAX;
    finder_free(job->finder, id);
}

static inline void job_foretell(struct job *job, uint32_t id)
{
    uint64_t number = job->place.number;
    if (job->foretold[id]) job->wrong_uses += job->foretold[id] != number;
    uint32_t ahead = finder_next_use(job->finder, id);
    job->foretold[id] = ahead == FINDER_NEVER ? UINT64_MAX : number + ahead;
}

static inline bool job_touches(const uint32_t *ids, uint32_t count, uint32_t id)
{
    for (uint32_t i = 0; i < count; i++)
        if (ids[i] == id) return true;
    return false;
}

/* What an operation touches, with noise; at most three blocks and one more. */
static inline uint32_t job_noise(struct job *job, const uint32_t *ids, uint32_t count,
                                 uint32_t *noisy)
{
    uint64_t dice = random_below(&job->random, 100);
    uint32_t other = job->weights[random_below(&job->random, JOB_LAYERS)];
    bool adds = dice < job->added_percent;
    bool replaces = !adds && dice < job->added_percent + job->replaced_percent && count > 0;
    uint64_t at = random_below(&job->random, count + 1);
    if (replaces && at == count) at--;
    assert_true(count <= 3);
    memcpy(noisy, ids, count * sizeof *ids);
    if ((!adds && !replaces) || job_touches(ids, count, other)) return count;
    if (adds) memmove(&noisy[at + 1], &noisy[at], (count - at) * sizeof *noisy);
    noisy[at] = other;
    return count + adds;
}

static inline void job_op_on(struct job *job, uint32_t stream, uint64_t key, const uint32_t *ids,
                             uint32_t count)
{
    if (++job->step_op == job->changed_at) key ^= 0x5555;
    uint32_t noisy[4];
    if (job->added_percent || job->replaced_percent) {
        count = job_noise(job, ids, count, noisy);
        ids = noisy;
    }
    struct finder_op op = {key, stream, TRACE_KERNEL, ids, count};
    finder_op(job->finder, &op, &job->place);
    job->ops++;
    job->matched += job->place.match == FINDER_MATCHED;
    job->touches += job->place.match == FINDER_TOUCHES;
    job->deviated += job->place.match == FINDER_DEVIATED;
    job->lost += job->place.match == FINDER_LOST;
    job->lost_now = job->place.match == FINDER_LOST ? job->lost_now + 1 : 0;
    if (job->lost_now > job->longest_lost) job->longest_lost = job->lost_now;
    for (uint32_t i = 0; i < count && job->checking; i++) job_foretell(job, ids[i]);
    if (job->study_each) finder_study(job->finder, job->study_each);
}

/* An op that touches up to four blocks; ids of 0 are none. */
static inline void job_op(struct job *job, uint64_t key, uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t ids[3] = {0}, count = 0;
    if (a) ids[count++] = a;
    if (b) ids[count++] = b;
    if (c) ids[count++] = c;
    job_op_on(job, 0, key, ids, count);
}

/* Allocates what stays. */
static inline void job_start(struct job *job)
{
    for (uint32_t i = 0; i < job->layers; i++) {
        job->weights[i] = job_alloc(job, 4 << 20);
        job->states[i] = job_alloc(job, 8 << 20);
        job_op(job, 1000, job->weights[i], 0, 0);
        job_op(job, 1001, job->states[i], 0, 0);
    }
}

static inline void job_forward(struct job *job, uint64_t shape, bool keep, uint32_t *activations)
{
    job_op(job, 3 + shape, 0, 0, 0);
    for (uint32_t i = 0; i < job->layers; i++) {
        uint32_t scratch = job_alloc(job, (1 + shape) << 20);
        activations[i] = job_alloc(job, (2 + shape) << 20);
        job_op(job, 10 + shape, i ? activations[i - 1] : 0, scratch, 0);
        job_op(job, 11 + shape, job->weights[i], scratch, activations[i]);
        job_op(job, 12 + shape, activations[i], 0, 0);
        job_free(job, scratch);
        if (!keep && i > 0) job_free(job, activations[i - 1]);
    }
    job_op(job, 4 + shape, activations[job->layers - 1], 0, 0);
    if (!keep) job_free(job, activations[job->layers - 1]);
}

/* With `fresh`, makes the gradients; otherwise adds to them. */
static inline void job_backward(struct job *job, uint64_t shape, bool fresh, uint32_t *activations)
{
    for (uint32_t i = job->layers; i-- > 0;) {
        uint32_t scratch = job_alloc(job, (3 + shape) << 20);
        job_op(job, 20 + shape, job->weights[i], activations[i], scratch);
        if (fresh) {
            job->gradients[i] = job_alloc(job, 4 << 20);
            job_op(job, 21 + shape, job->gradients[i], scratch, 0);
        } else {
            job_op(job, 22 + shape, job->gradients[i], scratch, 0);
        }
        job_free(job, scratch);
        job_free(job, activations[i]);
    }
}

static inline void job_update(struct job *job)
{
    for (uint32_t i = 0; i < job->layers; i++)
        job_op(job, 30, job->weights[i], job->gradients[i], job->states[i]);
    for (uint32_t i = 0; i < job->layers; i++) job_free(job, job->gradients[i]);
}

static inline void job_step(struct job *job, uint64_t shape, uint32_t accumulate)
{
    uint32_t activations[JOB_LAYERS];
    job->step_op = 0;
    for (uint32_t i = 0; i < accumulate; i++) {
        job_forward(job, shape, true, activations);
        job_backward(job, shape, i == 0, activations);
    }
    job_update(job);
}

static inline void job_evaluate(struct job *job, uint64_t shape)
{
    uint32_t activations[JOB_LAYERS];
    job_forward(job, shape, false, activations);
    job_op(job, 5, 0, 0, 0);
}

#endif
