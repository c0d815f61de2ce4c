/* Writes a trace while the program runs: buffered, no memory taken per event, no thread of its own.
 *
 * How long an op took is known only later. So the field is written as twelve zeros, and filled in
 * when the time comes: in the buffer, or in the file where the line has gone there already. What is
 * never filled in stays 0. A program that is killed leaves a trace that is valid up to its last
 * whole line.
 *
 * Calls come one at a time (the caller's lock). Errors are logged once; from then on nothing is
 * written, and trace_writer_close tells. After a fork only the parent writes. */
#ifndef TRACE_WRITER_H
#define TRACE_WRITER_H

#include "trace/trace.h"

struct trace_writer;

/* Starts a file over what was there. `comment` is one line for its head, may be NULL.
 * VP_IO: it cannot be created; VP_NO_HOST_MEMORY: no buffer; both logged. */
vp_status trace_writer_open(const char *path, const char *comment,
                            struct trace_writer **writer) VP_MUST_USE;

/* IDs are the caller's; better never used twice. */
void trace_writer_alloc(struct trace_writer *writer, uint64_t id, uint64_t bytes);
void trace_writer_free(struct trace_writer *writer, uint64_t id);

/* Returns a ticket for trace_writer_duration. Blanks in the name become underscores; NULL is `?`.
 */
uint64_t trace_writer_op(struct trace_writer *writer, enum trace_kind kind, uint64_t stream,
                         const char *name, const uint64_t *ids, size_t count);

/* Fills in a duration, in any order. More than 999 s is cut to that. */
void trace_writer_duration(struct trace_writer *writer, uint64_t ticket, uint64_t duration_ns);

/* Writes what is buffered; call it now and then, so that a kill loses little. */
void trace_writer_flush(struct trace_writer *writer);

/* VP_IO: something could not be written. The writer is gone in any case. */
vp_status trace_writer_close(struct trace_writer *writer);

#endif
