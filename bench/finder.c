/* finder: what the step finder adds to a launch and to an allocation, and what its learner takes.
 *
 * A made-up training step (10 % of the ops touch nothing, most touch two or three blocks) is told
 * to a finder while it knows nothing, and again when it follows the step; by turns with the same
 * loop without a finder. One more op touches 1300 blocks, as an optimizer's does.
 *
 * stdout has one line of JSON. Times are ns; each figure is the median of ROUNDS rounds, with the
 * least and the largest. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/sample.h"
#include "trace/finder.h"

enum { ROUNDS = 15, LAYERS = 250, STEPS = 20, WIDE = 1300, WIDE_TIMES = 64 };

struct figure {
    double rounds[ROUNDS];
};

struct work {
    struct finder *finder; /* NULL: the loop alone */
    uint32_t next_id, weights[LAYERS], wide[WIDE];
    uint64_t key_salt; /* changed, nothing repeats */
    uint64_t ops, allocs, op_ns, alloc_ns, wide_ns, study_ns, matched;
    uint64_t sum; /* so that the loop alone is not thrown away */
};

static uint32_t make(struct work *work, uint64_t bytes)
{
    uint32_t id = ++work->next_id;
    if (work->finder) finder_alloc(work->finder, id, bytes);
    work->sum += bytes;
    work->allocs++;
    return id;
}

static void drop(struct work *work, uint32_t id)
{
    if (work->finder) finder_free(work->finder, id);
    work->sum += id;
}

static void launch(struct work *work, uint64_t key, const uint32_t *ids, uint32_t count)
{
    struct finder_op op = {key + work->key_salt, 0, TRACE_KERNEL, ids, count};
    struct finder_place place = {0};
    if (work->finder) finder_op(work->finder, &op, &place);
    work->matched += place.match == FINDER_MATCHED;
    work->sum += key + ids[0];
}

static void train(struct work *work)
{
    uint32_t results[LAYERS];
    uint64_t allocs = work->allocs;
    uint64_t start = clock_now_ns();
    for (uint32_t i = 0; i < LAYERS; i++) results[i] = make(work, (1 + i % 4) << 20);
    uint64_t middle = clock_now_ns();
    for (uint32_t i = 0; i < LAYERS; i++) {
        uint32_t ids[] = {work->weights[i], results[i], results[i ? i - 1 : 0]};
        launch(work, 10, ids, 0);
        launch(work, 11, ids, i ? 3 : 2);
        launch(work, 12, ids + 1, i ? 2 : 1);
    }
    for (uint32_t i = LAYERS; i-- > 0;) {
        uint32_t ids[] = {work->weights[i], results[i]};
        launch(work, 20, ids, 2);
        launch(work, 21, ids, 2);
    }
    uint64_t end = clock_now_ns();
    for (uint32_t i = 0; i < LAYERS; i++) drop(work, results[i]);
    work->alloc_ns += middle - start + clock_now_ns() - end;
    work->op_ns += end - middle;
    work->ops += 5 * LAYERS;
    work->allocs = allocs + LAYERS;
}

static void launch_wide(struct work *work)
{
    uint64_t start = clock_now_ns();
    launch(work, 30, work->wide, WIDE);
    work->wide_ns += clock_now_ns() - start;
}

static void study(struct work *work)
{
    uint64_t start = clock_now_ns();
    while (work->finder && finder_study(work->finder, 1 << 16)) {
    }
    work->study_ns += clock_now_ns() - start;
}

/* Some steps; `fresh` each with kernels never seen. */
static void run(struct work *work, bool fresh)
{
    work->ops = work->allocs = work->op_ns = work->alloc_ns = work->wide_ns = 0;
    work->study_ns = work->matched = 0;
    for (unsigned i = 0; i < STEPS; i++) {
        work->key_salt = fresh ? work->key_salt + 1000 : 0;
        train(work);
        launch_wide(work);
        study(work);
    }
}

static void print(const char *name, struct figure *figure, const char *end)
{
    double middle = sample_median(figure->rounds, ROUNDS); /* which sorts them */
    printf("\"%s\":{\"median\":%.2f,\"least\":%.2f,\"largest\":%.2f}%s", name, middle,
           figure->rounds[0], figure->rounds[ROUNDS - 1], end);
}

struct figures {
    struct figure op, alloc, touch, study;
};

static void note(struct figures *figures, unsigned round, const struct work *work,
                 const struct work *alone)
{
    double ops = (double)work->ops, allocs = (double)work->allocs;
    figures->op.rounds[round] = ((double)work->op_ns - (double)alone->op_ns) / ops;
    figures->alloc.rounds[round] =
        ((double)work->alloc_ns - (double)alone->alloc_ns) / (2 * allocs);
    figures->touch.rounds[round] =
        ((double)work->wide_ns - (double)alone->wide_ns) / (double)(STEPS * WIDE);
    figures->study.rounds[round] = (double)work->study_ns / ops;
}

static void print_all(const char *name, struct figures *figures, const char *end)
{
    printf("\"%s\":{", name);
    print("op_ns", &figures->op, ",");
    print("alloc_or_free_ns", &figures->alloc, ",");
    print("touch_of_1300_ns", &figures->touch, ",");
    print("study_op_ns", &figures->study, "}");
    printf("%s", end);
}

int main(void)
{
    static struct work work, alone;
    static struct figures learning, following, lost;
    if (finder_create(&work.finder) != VP_OK) return 1;
    for (uint32_t i = 0; i < LAYERS; i++) {
        alone.weights[i] = make(&alone, 4 << 20);
        work.weights[i] = make(&work, 4 << 20);
    }
    for (uint32_t i = 0; i < WIDE; i++) work.wide[i] = alone.wide[i] = make(&work, 2 << 20);
    run(&work, true); /* touches the memory */
    for (unsigned round = 0; round < ROUNDS; round++) {
        run(&alone, false);
        run(&work, true);
        note(&learning, round, &work, &alone);
    }
    run(&work, false);
    for (unsigned round = 0; round < ROUNDS; round++) {
        run(&alone, false);
        run(&work, false);
        note(&following, round, &work, &alone);
        if (work.matched != work.ops + STEPS) {
            fprintf(stderr, "finder: %llu ops of %llu were not as foretold\n",
                    (unsigned long long)(work.ops + STEPS - work.matched),
                    (unsigned long long)(work.ops + STEPS));
            return 1;
        }
    }
    for (uint64_t period = 0; period < FINDER_PERIODS; period++) {
        work.key_salt = 1000 * period;
        for (unsigned i = 0; i < 4; i++, study(&work)) train(&work);
    }
    work.key_salt = UINT64_C(1) << 40;
    for (unsigned round = 0; round < ROUNDS; round++) {
        run(&alone, false);
        run(&work, true);
        note(&lost, round, &work, &alone);
    }
    printf("{");
    print_all("learning", &learning, ",");
    print_all("following", &following, ",");
    print_all("lost", &lost, "}\n");
    finder_destroy(work.finder);
    return alone.sum == 0;
}
