#include "pool/measure.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "pool/internal.h"

enum {
    SAMPLES = 64,
    SPARSE = 64, /* one operation in so many, */
    DENSE = 16,  /* and while each has its first turns */
    WAITS = 8,   /* one in so many of those that wait on the device */
    COPIES = 16,
};

static const uint64_t least_copy_bytes = MIB; /* smaller ones tell nothing about a link's rate */

enum sample_kind { SAMPLE_OP, SAMPLE_COPY_IN, SAMPLE_COPY_OUT };

/* Taken in order, given back in order:
 *
 *     TAKEN ── events recorded ──> RUNS ── passed, read ──> (free)
 *       └───── something failed ──> VOID ───────────────────┘ */
enum sample_state { SAMPLE_TAKEN, SAMPLE_RUNS, SAMPLE_VOID };

struct measure_sample {
    CUevent arrives, begins, ends; /* made at first need */
    _Atomic uint32_t state;        /* enum sample_state */
    enum sample_kind kind;
    bool failed; /* one of the events is not recorded; who has the sample */
    bool waits;  /* stands for WAITS that waited on the device */
    bool starts; /* a step, */
    bool whole;  /* and the one before it came as foretold */
    uint32_t period, op_count;
    uint64_t step;   /* counts steps */
    uint64_t number; /* the finder's */
    uint64_t function, bytes, far_bytes;
    struct measure_counts counts; /* so far, where it starts a step */
};

struct measure {
    struct finder *finder;
    struct measure_sample samples[SAMPLES];
    uint64_t head, tail; /* taken: head … tail-1 */
    uint64_t ops, waits, copies, wait_ns;
    uint32_t period, followed; /* operations of it in a row */
    uint32_t turning;          /* the last period there was */
    uint64_t step, turns;      /* of the program; of this period */
    struct {
        CUevent event;
        uint64_t step;
        uint32_t period;
        struct measure_counts counts;
    } last; /* start of a step that was picked up */
    struct measure_step steps[MEASURE_STEPS];
    uint64_t step_count;
    struct measure_rates rates;
    struct in_place in_place;
};

struct measure *measure_create(vp_pool *pool, struct finder *finder)
{
    struct measure *measure = calloc(1, sizeof *measure);
    if (measure) measure->finder = finder;
    return measure;
}

static void give_event(vp_pool *pool, CUevent event)
{
    if (event) pool_give_event(pool, event);
}

void measure_destroy(vp_pool *pool, struct measure *measure)
{
    if (!measure) return;
    for (unsigned i = 0; i < SAMPLES; i++) {
        give_event(pool, measure->samples[i].arrives);
        give_event(pool, measure->samples[i].begins);
        give_event(pool, measure->samples[i].ends);
    }
    give_event(pool, measure->last.event);
    free(measure);
}

/* ---- choosing; lock held ---- */

static struct measure_sample *take(vp_pool *pool, enum sample_kind kind)
{
    struct measure *measure = pool->measure;
    bool one_card = !(pool->computes & (pool->computes - 1));
    if (measure->tail - measure->head == SAMPLES || !one_card || pool->captures || pool->lost)
        return NULL;
    struct measure_sample *sample = &measure->samples[measure->tail++ % SAMPLES];
    CUevent arrives = sample->arrives, begins = sample->begins, ends = sample->ends;
    memset(sample, 0, sizeof *sample);
    sample->arrives = arrives;
    sample->begins = begins;
    sample->ends = ends;
    sample->kind = kind;
    return sample;
}

static void count(const vp_pool *pool, struct measure_counts *counts)
{
    const struct move_counts *moves = &pool->move.counts;
    *counts = (struct measure_counts){
        .hold_alone_ns = pool->hold_for_ns[MOVE_FOR_ALONE],
        .hold_map_ns = pool->hold_for_ns[MOVE_FOR_MAP],
        .hold_in_ns = pool->hold_for_ns[MOVE_FOR_IN],
        .hold_room_ns = pool->hold_for_ns[MOVE_FOR_ROOM],
        .throttle_ns = pool->throttle_ns,
        .host_wait_ns = atomic_load_explicit(&pool->host_wait_ns, memory_order_relaxed),
        .wait_ns = pool->measure->wait_ns,
        .in_bytes = moves->in_bytes,
        .out_bytes = moves->out_bytes,
        .fetches = moves->fetches,
        .evictions = moves->evictions,
        .drops = moves->drops,
        .holds = pool->holds,
        .in_place = moves->in_place,
        .in_place_bytes = moves->in_place_pages * pool->page_bytes,
    };
}

static uint64_t function_of(const struct pool_op *op)
{
    return (uint64_t)(uintptr_t)(op->handle ? op->handle : op->name);
}

static uint64_t touched_bytes(const struct pool_op *op)
{
    uint64_t pages = 0;
    for (uint32_t i = 0; i < op->request.count; i++) {
        const struct move_touch *touch = &op->request.touches[i];
        for (uint32_t k = touch->first_chunk; k <= touch->last_chunk; k++)
            pages += touch->segment->chunks[k].pages;
    }
    return pages * op->pool->page_bytes;
}

/* Keeps count of how far the period was followed. True: a step starts; *whole: the one before it
 * came as foretold. */
static bool follow(struct measure *measure, const struct finder_place *place, uint32_t op_count,
                   bool *whole)
{
    if (!op_count || place->period != measure->period) {
        measure->period = op_count ? place->period : 0;
        measure->followed = 0;
        if (op_count && place->period != measure->turning) {
            measure->turning = place->period;
            measure->turns = 0;
        }
        measure->step += 2; /* no step goes across */
    }
    bool starts = op_count && place->op == 0;
    *whole = starts && measure->followed == op_count;
    if (starts) {
        measure->step++;
        measure->turns++;
        measure->followed = 0;
    }
    measure->followed++;
    return starts;
}

static bool is_its_turn(const struct measure *measure, const struct finder_place *place,
                        uint32_t op_count)
{
    if (!op_count) return measure->ops % SPARSE == 0;
    uint64_t stride = measure->turns <= DENSE ? DENSE : SPARSE;
    return (place->op + measure->turns) % stride == 0;
}

void measure_op(struct pool_op *op, const struct finder_place *place, uint32_t op_count)
{
    struct measure *measure = op->pool->measure;
    if (!measure) return;
    bool whole, starts = follow(measure, place, op_count, &whole);
    uint64_t function = function_of(op);
    bool waits = op->request.wait_count && measure->waits++ % WAITS == 0;
    bool far = op->request.in_place > 0;
    bool due = starts || waits || is_its_turn(measure, place, op_count) ||
               in_place_wants(&measure->in_place, function, far);
    measure->ops++;
    struct measure_sample *sample = due ? take(op->pool, SAMPLE_OP) : NULL;
    if (!sample) return;
    sample->waits = waits;
    sample->starts = starts;
    sample->whole = whole;
    sample->period = measure->period;
    sample->op_count = op_count;
    sample->step = measure->step;
    sample->number = place->number;
    sample->function = function;
    sample->bytes = touched_bytes(op);
    sample->far_bytes = op->request.in_place_pages * op->pool->page_bytes;
    if (starts) count(op->pool, &sample->counts);
    op->sample = sample;
}

struct measure_sample *measure_copy(vp_pool *pool, bool in, uint64_t bytes)
{
    struct measure *measure = pool->measure;
    if (!measure || bytes < least_copy_bytes || measure->copies++ % COPIES) return NULL;
    struct measure_sample *sample = take(pool, in ? SAMPLE_COPY_IN : SAMPLE_COPY_OUT);
    if (sample) sample->bytes = bytes;
    return sample;
}

/* ---- recording; lock not held ---- */

static void record(vp_pool *pool, struct measure_sample *sample, CUevent *event, CUstream stream)
{
    if (sample->failed) return;
    CUresult result = CUDA_SUCCESS;
    if (!*event) result = pool->driver->cuEventCreate(event, CU_EVENT_DEFAULT);
    if (result == CUDA_SUCCESS)
        result = pool->driver->cuEventRecord(*event, stream);
    else
        *event = NULL;
    sample->failed = result != CUDA_SUCCESS;
}

void measure_arrives(vp_pool *pool, struct measure_sample *sample, CUstream stream)
{
    if (sample->waits) record(pool, sample, &sample->arrives, stream);
}

void measure_begins(vp_pool *pool, struct measure_sample *sample, CUstream stream)
{
    record(pool, sample, &sample->begins, stream);
}

void measure_ends(vp_pool *pool, struct measure_sample *sample, CUstream stream, bool ok)
{
    if (ok) record(pool, sample, &sample->ends, stream);
    bool runs = ok && !sample->failed;
    atomic_store_explicit(&sample->state, runs ? SAMPLE_RUNS : SAMPLE_VOID, memory_order_release);
}

/* ---- reading ---- */

/* What was read of a sample's events, without the lock. */
struct reading {
    bool ok, has_step;
    uint64_t ran_ns, waited_ns, step_ns;
};

static bool elapsed(const vp_pool *pool, CUevent from, CUevent to, uint64_t *ns)
{
    float ms = 0;
    if (pool->driver->cuEventElapsedTime(&ms, from, to) != CUDA_SUCCESS || ms < 0) return false;
    *ns = (uint64_t)((double)ms * 1e6);
    return true;
}

static void read_events(const vp_pool *pool, const struct measure_sample *sample,
                        struct reading *reading)
{
    const struct measure *measure = pool->measure;
    reading->ok = elapsed(pool, sample->begins, sample->ends, &reading->ran_ns);
    if (sample->waits && !elapsed(pool, sample->arrives, sample->begins, &reading->waited_ns))
        reading->waited_ns = 0;
    bool follows = sample->starts && sample->whole && measure->last.event &&
                   measure->last.step + 1 == sample->step;
    reading->has_step =
        follows && elapsed(pool, measure->last.event, sample->begins, &reading->step_ns);
}

static void note_step(struct measure *measure, const struct measure_sample *sample,
                      uint64_t step_ns)
{
    struct measure_step *step = &measure->steps[measure->step_count++ % MEASURE_STEPS];
    *step = (struct measure_step){
        .period = sample->period, .op_count = sample->op_count, .step_ns = step_ns};
#define DIFFERENCE(name) step->counts.name = sample->counts.name - measure->last.counts.name;
    MEASURE_COUNTS(DIFFERENCE)
#undef DIFFERENCE
}

/* The sample's event stays, for the next step; the one before it goes to the sample. */
static void keep_start(struct measure *measure, struct measure_sample *sample)
{
    CUevent before = measure->last.event;
    measure->last.event = sample->begins;
    measure->last.step = sample->step;
    measure->last.period = sample->period;
    measure->last.counts = sample->counts;
    sample->begins = before;
}

static void note_copy(struct measure *measure, const struct measure_sample *sample, uint64_t ns)
{
    if (ns == 0) return;
    double gbps = (double)sample->bytes / (double)ns;
    bool in = sample->kind == SAMPLE_COPY_IN;
    double *best = in ? &measure->rates.in_gbps : &measure->rates.out_gbps;
    if (gbps <= *best) return;
    *best = gbps;
    if (in) in_place_set_rate(&measure->in_place, gbps);
}

static void note(struct measure *measure, struct measure_sample *sample,
                 const struct reading *reading)
{
    if (sample->kind != SAMPLE_OP) {
        if (reading->ok) note_copy(measure, sample, reading->ran_ns);
        return;
    }
    if (reading->ok && sample->far_bytes) {
        in_place_note_far(&measure->in_place, sample->function, sample->bytes, sample->far_bytes,
                          reading->ran_ns);
        uint64_t near_ns = in_place_near_ns(&measure->in_place, sample->function, sample->bytes);
        if (near_ns) finder_duration(measure->finder, sample->number, near_ns);
    } else if (reading->ok) {
        in_place_note_near(&measure->in_place, sample->function, sample->bytes, reading->ran_ns);
        finder_duration(measure->finder, sample->number, reading->ran_ns);
    }
    measure->wait_ns += WAITS * reading->waited_ns;
    if (reading->has_step) note_step(measure, sample, reading->step_ns);
    if (sample->starts) keep_start(measure, sample);
}

void measure_poll(vp_pool *pool)
{
    struct measure *measure = pool->measure;
    while (measure && measure->head < measure->tail) {
        struct measure_sample *sample = &measure->samples[measure->head % SAMPLES];
        uint32_t state = atomic_load_explicit(&sample->state, memory_order_acquire);
        if (state == SAMPLE_TAKEN) return;
        if (state == SAMPLE_RUNS) {
            struct reading reading = {0};
            pool_unlock(pool);
            CUresult result = pool->driver->cuEventQuery(sample->ends);
            if (result == CUDA_SUCCESS) read_events(pool, sample, &reading);
            pool_lock(pool);
            if (result == CUDA_ERROR_NOT_READY) return;
            if (result == CUDA_SUCCESS) note(measure, sample, &reading);
        }
        measure->head++;
    }
}

/* Whose they are is not known: all are made anew at need, but those that are being recorded. */
void measure_context_ends(vp_pool *pool)
{
    struct measure *measure = pool->measure;
    if (!measure) return;
    CUevent events[3 * SAMPLES + 1];
    unsigned count = 0;
    for (uint64_t i = measure->head; i < measure->head + SAMPLES; i++) {
        struct measure_sample *sample = &measure->samples[i % SAMPLES];
        uint32_t state = atomic_load_explicit(&sample->state, memory_order_acquire);
        if (i < measure->tail && state == SAMPLE_TAKEN) continue;
        atomic_store_explicit(&sample->state, SAMPLE_VOID, memory_order_relaxed);
        events[count++] = sample->arrives;
        events[count++] = sample->begins;
        events[count++] = sample->ends;
        sample->arrives = sample->begins = sample->ends = NULL;
    }
    events[count++] = measure->last.event;
    measure->last.event = NULL;
    pool_unlock(pool);
    for (unsigned i = 0; i < count; i++) give_event(pool, events[i]);
    pool_lock(pool);
}

enum in_place_verdict measure_in_place(const vp_pool *pool, const struct pool_op *op)
{
    return pool->measure ? in_place_judge(&pool->measure->in_place, function_of(op))
                         : IN_PLACE_UNKNOWN;
}

uint32_t measure_period(const struct measure *measure)
{
    if (!measure->step_count) return 0;
    return measure->steps[(measure->step_count - 1) % MEASURE_STEPS].period;
}

uint32_t measure_steps(const struct measure *measure, struct measure_step *steps)
{
    uint64_t count = measure->step_count;
    uint64_t first = count < MEASURE_STEPS ? 0 : count - MEASURE_STEPS;
    uint32_t found = 0;
    for (uint64_t i = first; i < count; i++) {
        const struct measure_step *step = &measure->steps[i % MEASURE_STEPS];
        bool same = step->period == measure->steps[(count - 1) % MEASURE_STEPS].period;
        if (same && steps) steps[found] = *step;
        found += same;
    }
    return found;
}

struct measure_rates measure_rates_of(const struct measure *measure)
{
    return measure->rates;
}

const struct in_place *measure_costs(const struct measure *measure)
{
    return &measure->in_place;
}
