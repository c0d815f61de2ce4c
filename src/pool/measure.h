/* measure: how long things take on the device, by its own clock, while the program runs.
 *
 * A sample is a pair of timed events around an operation or a copy of ours; whoever polls picks up
 * those that have come to pass, and nobody waits for one. An event with timing costs 1.2 us, so few
 * operations are sampled: one in 16 until each operation of a period had its turn, then one in 64,
 * others every time; the first one of each period always, whose events also bound the step. When
 * all samples are taken one is left out.
 *
 * Where the device waited for copies that were under way when the operation was launched, a third
 * event in front of those waits tells how long.
 *
 * Only where one card computes: events of different contexts cannot be compared. */
#ifndef POOL_MEASURE_H
#define POOL_MEASURE_H

#include "driver/driver.h"
#include "move/in_place.h"
#include "move/move.h"
#include "trace/finder.h"

enum { MEASURE_STEPS = 64 /* kept, the last ones */ };

struct pool_op;
struct measure;
struct measure_sample;

/* What is counted of a step: X(name). Times in ns by the host's clock, but for wait_ns: sampled on
 * the device. */
#define MEASURE_COUNTS(X)                                                                          \
    X(hold_alone_ns)                                                                               \
    X(hold_map_ns)                                                                                 \
    X(hold_in_ns)                                                                                  \
    X(hold_room_ns)                                                                                \
    X(throttle_ns)                                                                                 \
    X(host_wait_ns)                                                                                \
    X(wait_ns)                                                                                     \
    X(in_bytes)                                                                                    \
    X(out_bytes)                                                                                   \
    X(fetches)                                                                                     \
    X(evictions)                                                                                   \
    X(drops)                                                                                       \
    X(holds)                                                                                       \
    X(in_place)                                                                                    \
    X(in_place_bytes)

struct measure_counts {
#define MEASURE_FIELD(name) uint64_t name;
    MEASURE_COUNTS(MEASURE_FIELD)
#undef MEASURE_FIELD
};

/* One whole step, in which all operations came as foretold. */
struct measure_step {
    uint32_t period, op_count;
    uint64_t step_ns; /* on the device, from its first operation to that of the next step */
    struct measure_counts counts;
};

struct measure_rates {
    double in_gbps, out_gbps; /* the best that a copy reached; 0: none was measured */
};

/* NULL without memory. The finder is told of durations. */
struct measure *measure_create(vp_pool *pool, struct finder *finder);

/* All work of the device is done, or nothing will come of it. */
void measure_destroy(vp_pool *pool, struct measure *measure);

/* An admitted operation, which the finder placed in a period of `op_count` operations (0: none):
 * sets op->sample where it is to be sampled. Lock held. */
void measure_op(struct pool_op *op, const struct finder_place *place, uint32_t op_count);

/* A copy that is about to be queued; NULL: not sampled. Lock held. */
struct measure_sample *measure_copy(vp_pool *pool, bool in, uint64_t bytes);

/* The three moments of a sample, on the stream's thread: before waits on the device, before the
 * operation, behind it. Whoever has a sample ends it. Lock not held. */
void measure_arrives(vp_pool *pool, struct measure_sample *sample, CUstream stream);
void measure_begins(vp_pool *pool, struct measure_sample *sample, CUstream stream);
void measure_ends(vp_pool *pool, struct measure_sample *sample, CUstream stream, bool ok);

/* Picks up what has come to pass; lock held, let go in between. One caller at a time. */
void measure_poll(vp_pool *pool);

/* A context of the program's is about to end, and its events with it. Lock held, let go in between;
 * nobody polls meanwhile. */
void measure_context_ends(vp_pool *pool);

/* What using memory in place costs this function. Lock held. */
enum in_place_verdict measure_in_place(const vp_pool *pool, const struct pool_op *op);

/* Lock held. The period of the last step that was measured; 0: none. */
uint32_t measure_period(const struct measure *measure);

/* Lock held. The steps of that period that are kept, oldest first, into steps[MEASURE_STEPS] (may
 * be NULL); returns how many. */
uint32_t measure_steps(const struct measure *measure, struct measure_step *steps);
struct measure_rates measure_rates_of(const struct measure *measure);
const struct in_place *measure_costs(const struct measure *measure);

#endif
