/* report: what is said about a pool when its program ends: collected once, written as JSON, or as
 * one page of HTML. docs/running.md explains each field. */
#ifndef POOL_REPORT_H
#define POOL_REPORT_H

#include <stdio.h>

#include "pool/links.h"
#include "pool/measure.h"
#include "pool/predict.h"

/* What the device waited for in a step: X(name, in words). Its idle time is known from its own
 * clock; it is split by what operations were held for. */
#define REPORT_STALLS(X)                                                                           \
    X(in, "data to come in")                                                                       \
    X(room, "data to leave")                                                                       \
    X(frames, "host memory to be made")                                                            \
    X(map, "memory to be mapped")                                                                  \
    X(alone, "work that runs alone")                                                               \
    X(in_place, "use over the link")                                                               \
    X(other, "the program itself")

enum report_stall {
#define REPORT_STALL(name, words) REPORT_STALL_##name,
    REPORT_STALLS(REPORT_STALL)
#undef REPORT_STALL
        REPORT_STALL_COUNT
};

const char *report_stall_name(enum report_stall stall);
const char *report_stall_words(enum report_stall stall);

/* The step that repeats, where one is known. Per step: medians and means of the last ones. */
struct report_step {
    uint32_t op_count, touch_count;
    struct measure_step steps[MEASURE_STEPS]; /* oldest first */
    uint32_t count;                           /* 0: no whole step was measured */
    uint64_t step_ns;                         /* median */
    uint64_t compute_ns; /* all its operations, everything at home; 0: not measured */
    uint64_t stall_ns[REPORT_STALL_COUNT];
    struct measure_counts counts; /* mean of the steps that are no slower than twice the median */
    bool predicted;
    struct predict predict;
};

struct report {
    vp_stats stats;
    const char *policy;
    uint64_t chunk_bytes, reserve_bytes, ahead_ops;
    unsigned places;
    vp_place_info_t place[VP_MAX_PLACES];
    struct links links;
    struct measure_rates rates;
    bool has_step;
    struct report_step step;
};

/* Takes up to a second a simulation, of which there are nine, where a step is known. NULL without
 * memory; given back with free. */
struct report *report_collect(vp_pool *pool);

void report_write_json(const struct report *report, FILE *file);
void report_write_html(const struct report *report, FILE *file);

/* Less than 1: the part of the speed that the step would have with everything in HBM. 0: unknown.
 */
double report_fraction(const struct report_step *step);

#endif
