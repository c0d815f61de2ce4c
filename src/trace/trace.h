/* trace: what a program did with its memory, as text: one event a line, in the order of the host's
 * calls.
 *
 *     vrampool-trace 1
 *     # comment
 *     alloc ID BYTES
 *     free ID
 *     op KIND STREAM DURATION_NS NAME ID…     kernel | copy | memset | graph
 *
 * The duration of an op counts from the end of the op before it in its stream; 0: not known. IDs
 * are the blocks that it may touch. Names have no blanks. docs/traces.md is the whole format.
 *
 * Read, a trace is flat arrays: events in order, and what they speak of. Indices into them take the
 * place of IDs, so that whoever works on it needs no tables of his own. */
#ifndef TRACE_TRACE_H
#define TRACE_TRACE_H

#include <stddef.h>
#include <stdint.h>

#include "vrampool.h"

#define TRACE_FIRST_LINE "vrampool-trace 1"
#define TRACE_NEVER      UINT32_MAX

/* X(enumerator, word in the file) */
#define TRACE_KINDS(X) X(KERNEL, "kernel") X(COPY, "copy") X(MEMSET, "memset") X(GRAPH, "graph")

enum trace_kind {
#define TRACE_KIND_ENUM(name, word) TRACE_##name,
    TRACE_KINDS(TRACE_KIND_ENUM)
#undef TRACE_KIND_ENUM
        TRACE_KIND_COUNT
};

const char *trace_kind_name(enum trace_kind kind);

enum trace_event_kind { TRACE_ALLOC, TRACE_FREE, TRACE_OP };

struct trace_event {
    enum trace_event_kind kind;
    uint32_t index; /* of the block or the op */
};

struct trace_block {
    uint64_t id; /* in the file; one that is used again after its free is another block here */
    uint64_t bytes;
    uint32_t born_op; /* ops before its alloc */
    uint32_t died_op; /* ops before its free; TRACE_NEVER: it lives on */
};

struct trace_op {
    enum trace_kind kind;
    uint32_t stream;                   /* number in order of first use */
    uint32_t name;                     /* index in names */
    uint32_t first_touch, touch_count; /* its part of touches, each block once */
    uint64_t duration_ns;
};

struct trace {
    struct trace_event *events;
    struct trace_block *blocks;
    struct trace_op *ops;
    uint32_t *touches; /* indices of blocks */
    char **names;      /* each once */
    uint32_t event_count, block_count, op_count, touch_count, name_count, stream_count;
};

/* Reads a file. VP_IO: it cannot be read. VP_MALFORMED: *line (may be NULL) is where; both are
 * logged. The caller owns the arrays of *trace and gives them back with trace_release. */
vp_status trace_read(const char *path, struct trace *trace, uint32_t *line) VP_MUST_USE;

/* The same from memory; `path` is for messages. */
vp_status trace_parse(const char *path, const char *text, size_t length, struct trace *trace,
                      uint32_t *line) VP_MUST_USE;

void trace_release(struct trace *trace);

#endif
