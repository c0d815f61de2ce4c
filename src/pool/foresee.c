/* Foresight in a running program: feeds the finder with operations, and what it recognises to move.
 *
 * Nothing of it runs until chunks have had to leave a card: a program that fits pays nothing. From
 * then on each operation is shown to the finder under the lock, and a thread of its own studies
 * what it has seen, and learns the periods in it. */
#include "pool/internal.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/units.h"
#include "pool/measure.h"
#include "pool/predict.h"
#include "pool/timeline.h"

enum {
    STUDY_EVENTS = 4096,
    KNOWN_PERIODS = 16,
    FOLLOWED_PERCENT = 50,
    REPORT_OPS = 8192, /* after so many operations it is said how well they were foretold */
    PREDICT_STEPS = 4, /* measured before the step's time is predicted */
};

static const uint64_t study_wait_ns = 5 * NS_PER_MS;

struct foresee {
    struct finder *finder;
    pthread_t student;
    bool runs;
    pthread_mutex_t studying; /* the learner; taken before the pool's lock */
    bool told;                /* what the step should take */
    struct {
        uint32_t number, op_count;
    } known[KNOWN_PERIODS];
    uint32_t known_count;
    uint32_t length;  /* of the period followed last; 0: none yet */
    uint64_t step_ns; /* when it began last */
    struct finder_stats reported;
};

/* Puts a period's length where the follower can see it; lock not held. */
static void learn_period(vp_pool *pool, uint32_t number)
{
    struct foresee *foresee = pool->foresee;
    for (uint32_t i = 0; i < KNOWN_PERIODS; i++)
        if (foresee->known[i].number == number) return;
    const struct step *step = finder_step(foresee->finder, number);
    if (!step) return;
    pool_lock(pool);
    uint32_t at = foresee->known_count++ % KNOWN_PERIODS;
    foresee->known[at].number = number;
    foresee->known[at].op_count = step->op_count;
    pool_unlock(pool);
    log_info("a step of %u operations repeats", step->op_count);
}

/* Says, every so often, how well the program is foretold, or how close it comes to repeating
 * itself.
 */
static void report(vp_pool *pool)
{
    struct foresee *foresee = pool->foresee;
    pool_lock(pool);
    struct finder_stats stats = finder_stats_of(foresee->finder), *before = &foresee->reported;
    uint32_t length = foresee->length;
    pool_unlock(pool);
    uint64_t ops = stats.ops - before->ops;
    if (ops < REPORT_OPS) return;
    double percent = 100.0 / (double)ops;
    double matched = (double)(stats.matched - before->matched) * percent;
    double touches = (double)(stats.touches - before->touches) * percent;
    if (matched + touches > 0)
        log_info("of the last %llu operations %.1f %% were foretold, %.1f %% but for what they "
                 "touch; the step of %u was left %llu times",
                 (unsigned long long)ops, matched, touches, length,
                 (unsigned long long)(stats.deviations - before->deviations));
    struct finder_outlook best = finder_outlook(foresee->finder);
    if (matched + touches < FOLLOWED_PERCENT)
        log_info(
            "no step is followed after %llu operations; what comes closest: %u in a row called "
            "the same as those %u before; %u %% of these touched the same, and %u %% of the "
            "touches speak for it; %llu were left out",
            (unsigned long long)stats.ops, best.keyed, best.length, best.equal_percent,
            best.votes_percent, (unsigned long long)(stats.dropped + stats.dropped_blocks));
    foresee->reported = stats;
}

bool foresee_with_step(vp_pool *pool, void (*use)(void *context, const struct step *step),
                       void *context)
{
    struct foresee *foresee = pool->foresee;
    if (!foresee || !pool->measure) return false;
    pthread_mutex_lock(&foresee->studying);
    pool_lock(pool);
    uint32_t number = measure_period(pool->measure);
    pool_unlock(pool);
    if (!number) number = finder_newest(foresee->finder);
    const struct step *step = number ? finder_step(foresee->finder, number) : NULL;
    if (step) use(context, step);
    pthread_mutex_unlock(&foresee->studying);
    return step != NULL;
}

struct telling {
    vp_pool *pool;
    struct predict predict;
    bool ok;
};

static void predict_now(void *context, const struct step *step)
{
    struct telling *telling = context;
    struct predict_setup setup;
    pool_predict_setup(telling->pool, &setup);
    telling->ok = predict_step(step, &setup, &telling->predict) == VP_OK;
}

static bool is_measured(vp_pool *pool)
{
    pool_lock(pool);
    bool enough = pool->measure && measure_steps(pool->measure, NULL) >= PREDICT_STEPS;
    pool_unlock(pool);
    return enough;
}

/* The line about what to expect: once, in the student's thread, which has the time. */
static void tell(vp_pool *pool)
{
    struct telling telling = {.pool = pool};
    pool->foresee->told = true;
    if (!log_shows_progress()) return;
    if (!foresee_with_step(pool, predict_now, &telling) || !telling.ok) return;
    const struct sim_result *now = &telling.predict.now;
    log_progress("the step is learned; it should take %.3f s, %.0f %% of its speed with everything "
                 "in HBM",
                 (double)now->step_ns / 1e9, 100.0 * (double)now->in_hbm_ns / (double)now->step_ns);
}

void *foresee_main(void *argument)
{
    vp_pool *pool = argument;
    struct foresee *foresee = pool->foresee;
    pool_lock(pool);
    while (!pool->stopping) {
        pool_unlock(pool);
        pthread_mutex_lock(&foresee->studying);
        bool more = finder_study(foresee->finder, STUDY_EVENTS);
        uint32_t newest = finder_newest(foresee->finder);
        if (newest) learn_period(pool, newest);
        report(pool);
        pthread_mutex_unlock(&foresee->studying);
        if (!foresee->told && is_measured(pool)) tell(pool);
        pool_lock(pool);
        if (!more && !pool->stopping) pool_wait(pool, study_wait_ns);
    }
    pool_unlock(pool);
    return NULL;
}

/* Tells the finder what lives already. */
static void announce(vp_pool *pool, struct finder *finder)
{
    list_each(node, &pool->segments.all)
    {
        const struct segment *segment = list_entry(node, struct segment, all);
        if (segment->state != SEGMENT_LIVE || segment->slab) continue;
        if (!segment->noted && !block_is_small(&pool->segments, segment->bytes))
            finder_alloc(finder, segment->id, segment->bytes);
        for (uint32_t i = 0; segment->noted && i < segment->block_count; i++) {
            const struct block *block = &segment->blocks[i];
            if (!block_is_small(&pool->segments, block->end - block->start))
                finder_alloc(finder, block->id, block->end - block->start);
        }
    }
}

/* Lock held. Where this fails the pool goes on without foresight. */
static void start(vp_pool *pool)
{
    pool->foresee_tried = true;
    struct foresee *foresee = calloc(1, sizeof *foresee);
    if (!foresee) return;
    if (foresight_create(&pool->move.foresight, &pool->segments) != VP_OK ||
        finder_create(&foresee->finder) != VP_OK) {
        log_warn("no memory to learn the program's steps; moves are made on demand");
        foresight_destroy(&pool->move.foresight);
        free(foresee);
        return;
    }
    pthread_mutex_init(&foresee->studying, NULL);
    pool->foresee = foresee;
    pool->measure = measure_create(pool, foresee->finder);
    announce(pool, foresee->finder);
    char live[16];
    log_progress("memory has to leave the card, %s live in blocks; learning the program's step",
                 units_format_size(pool->segments.live_bytes, live, sizeof live));
    if (pool->edge) return; /* somebody plays the student */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    foresee->runs = pthread_create(&foresee->student, NULL, foresee_main, pool) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static uint32_t length_of(const struct foresee *foresee, uint32_t number)
{
    for (uint32_t i = 0; i < KNOWN_PERIODS; i++)
        if (foresee->known[i].number == number) return foresee->known[i].op_count;
    return 0;
}

/* What is called, how large it is. Not what it touches: where an allocator puts a block, and which
 * addresses lie in unused parameters by chance, changes from step to step. */
static uint64_t key_of(const struct pool_op *op)
{
    const uint64_t odd = UINT64_C(0x9E3779B97F4A7C15);
    uint64_t key = (uint64_t)(uintptr_t)(op->handle ? op->handle : op->name) ^ op->shape;
    for (uint32_t i = 0; op->has_ranges && i < op->word_count; i++)
        key = (key ^ op->thread->word_bytes[i]) * odd;
    key = (key + op->kind) * odd;
    return key ^ key >> 29;
}

/* In simulation only where the student is played too. */
static bool may_start(const vp_pool *pool)
{
    return !pool->edge || pool->edge->threads;
}

/* The step is learned under any policy, to be reported; not all ask what comes. */
static bool asks(const vp_pool *pool)
{
    return pool->move.policy == VP_POLICY_PLAN || pool->move.policy == VP_POLICY_DEMAND;
}

/* A step starts: on the timeline, the one before it ends. */
static void note_step(vp_pool *pool)
{
    struct foresee *foresee = pool->foresee;
    if (foresee->step_ns)
        timeline_add(pool, (struct timeline_span){.name = "step",
                                                  .row = TIMELINE_STEPS,
                                                  .began_ns = foresee->step_ns});
    foresee->step_ns = timeline_now(pool);
}

void foresee_op(vp_pool *pool, struct pool_op *op)
{
    if (pool->options.verify) return; /* nothing may be mapped ahead there */
    if (pool->edge && pool->edge->foresee) {
        pool->edge->foresee(pool->edge->context, op);
        return;
    }
    if (!pool->foresee && !pool->foresee_tried && may_start(pool)) start(pool);
    struct foresee *foresee = pool->foresee;
    if (!foresee) return;
    const struct finder_op seen = {.key = key_of(op),
                                   .stream = op->slot,
                                   .kind = pool_op_trace_kind(op),
                                   .ids = op->thread->ids,
                                   .count = pool_op_blocks(op, op->thread->ids)};
    struct finder_place place;
    finder_op(foresee->finder, &seen, &place);
    bool follows = place.match == FINDER_MATCHED || place.match == FINDER_TOUCHES;
    uint32_t length = follows ? length_of(foresee, place.period) : 0;
    if (length) foresee->length = length;
    if (pool->timeline && length && place.op == 0) note_step(pool);
    measure_op(op, &place, length);
    if (!asks(pool)) return;
    foresight_note(&pool->move.foresight, length ? place.period : 0, length, place.op,
                   op->request.touches, op->request.count, pool->segments.needed_pages);
}

void foresee_stats(const vp_pool *pool, vp_stats *stats)
{
    if (!pool->foresee) return;
    struct finder_stats finder = finder_stats_of(pool->foresee->finder);
    stats->finder_operations = finder.ops;
    stats->finder_matched = finder.matched;
    stats->finder_touches = finder.touches;
    stats->finder_deviations = finder.deviations;
    stats->finder_returns = finder.returns;
    stats->finder_dropped = finder.dropped + finder.dropped_blocks;
    stats->finder_periods = finder.periods;
    stats->finder_period_operations = pool->foresee->length;
}

void foresee_alloc(vp_pool *pool, uint32_t id, uint64_t bytes)
{
    finder_alloc(pool->foresee->finder, id, bytes);
}

void foresee_free(vp_pool *pool, uint32_t id)
{
    finder_free(pool->foresee->finder, id);
}

void foresee_destroy(vp_pool *pool)
{
    struct foresee *foresee = pool->foresee;
    if (!foresee) return;
    if (foresee->runs) pthread_join(foresee->student, NULL);
    measure_destroy(pool, pool->measure);
    pool->measure = NULL;
    finder_destroy(foresee->finder);
    pthread_mutex_destroy(&foresee->studying);
    foresight_destroy(&pool->move.foresight);
    free(foresee);
    pool->foresee = NULL;
}
