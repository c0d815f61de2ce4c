/* timeline: what the pool did when, for a person who looks for lost time. Spans are collected while
 * the program runs and written at the end, in the trace event format that Perfetto and
 * chrome://tracing read.
 *
 * Any thread; no lock need be held. Without a timeline each call costs one comparison. */
#ifndef POOL_TIMELINE_H
#define POOL_TIMELINE_H

#include "pool/pool.h"

struct timeline;

/* Where a span is drawn: X(enumerator, title). */
/* clang-format off */
#define TIMELINE_ROWS(X) \
    X(THREAD, "the calling thread") X(STEPS, "steps") X(HELD, "operations held") X(IN, "copies in")
/* clang-format on */

enum timeline_row {
#define TIMELINE_ROW(name, title) TIMELINE_##name,
    TIMELINE_ROWS(TIMELINE_ROW)
#undef TIMELINE_ROW
        TIMELINE_ROW_COUNT,
};

struct timeline_span {
    const char *name; /* lives as long as the pool */
    enum timeline_row row;
    const char *why; /* or NULL */
    uint64_t began_ns, ended_ns;
    uint64_t bytes, address;
    uint32_t ahead; /* operations until the memory's next use, as foretold */
    uint32_t thread;
};

/* VP_IO: the file cannot be written; VP_NO_HOST_MEMORY. */
vp_status timeline_create(vp_pool *pool, const char *path) VP_MUST_USE;

/* Writes the file, once: what comes later is not in it. */
void timeline_write(vp_pool *pool);

/* Writes it where that was not done. No other call is under way. */
void timeline_destroy(vp_pool *pool);

/* Enters a span that ends now. */
void timeline_add(vp_pool *pool, struct timeline_span span);

/* When something begins that will be entered; 0 without a timeline. */
uint64_t timeline_now(const vp_pool *pool);

#endif
