#include "trace/writer.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/path.h"

enum { BUFFER_BYTES = 1 << 20, DURATION_DIGITS = 12, NUMBER_BYTES = 24 };

static const uint64_t MAX_DURATION_NS = 999999999999;

struct trace_writer {
    int file;
    pid_t owner;
    bool failed;
    uint64_t written; /* bytes in the file; the buffer's first byte is at this offset */
    size_t used;
    char path[4096];
    char buffer[BUFFER_BYTES];
};

static void fail(struct trace_writer *writer)
{
    log_error("trace %s: %s; recording ends here", writer->path, strerror(errno));
    writer->failed = true;
}

void trace_writer_flush(struct trace_writer *writer)
{
    size_t done = 0;
    bool ours = writer->owner == getpid(); /* a fork's copy of the buffer goes nowhere */
    while (ours && !writer->failed && done < writer->used) {
        ssize_t wrote = write(writer->file, writer->buffer + done, writer->used - done);
        if (wrote >= 0)
            done += (size_t)wrote;
        else if (errno != EINTR)
            fail(writer);
    }
    writer->written += writer->used;
    writer->used = 0;
}

static void put(struct trace_writer *writer, const char *text, size_t length)
{
    while (length > 0) {
        if (writer->used == BUFFER_BYTES) trace_writer_flush(writer);
        size_t room = BUFFER_BYTES - writer->used, part = length < room ? length : room;
        memcpy(writer->buffer + writer->used, text, part);
        writer->used += part;
        text += part;
        length -= part;
    }
}

static void put_text(struct trace_writer *writer, const char *text)
{
    put(writer, text, strlen(text));
}

static void put_number(struct trace_writer *writer, uint64_t number)
{
    char digits[NUMBER_BYTES];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number);
    digits[--at] = ' ';
    put(writer, digits + at, sizeof digits - at);
}

/* A name as one word, whatever is in it. */
static void put_name(struct trace_writer *writer, const char *name)
{
    put(writer, " ", 1);
    if (!name || !*name) name = "?";
    while (*name) {
        size_t plain = 0;
        while ((unsigned char)name[plain] > ' ' && name[plain] != 0x7f) plain++;
        put(writer, name, plain);
        name += plain;
        if (*name) {
            put(writer, "_", 1);
            name++;
        }
    }
}

vp_status trace_writer_open(const char *path, const char *comment, struct trace_writer **writer)
{
    struct trace_writer *made = malloc(sizeof *made);
    if (!made) {
        log_error("trace %s: no memory for its buffer", path);
        return VP_NO_HOST_MEMORY;
    }
    made->file = path_open_to_write(path, 0666);
    if (made->file < 0) {
        log_error("trace %s: %s", path, strerror(errno));
        free(made);
        return VP_IO;
    }
    made->owner = getpid();
    made->failed = false;
    made->written = made->used = 0;
    snprintf(made->path, sizeof made->path, "%s", path);
    put_text(made, TRACE_FIRST_LINE "\n");
    if (comment) {
        put_text(made, "# ");
        put(made, comment, strcspn(comment, "\n"));
        put(made, "\n", 1);
    }
    trace_writer_flush(made);
    *writer = made;
    return VP_OK;
}

void trace_writer_alloc(struct trace_writer *writer, uint64_t id, uint64_t bytes)
{
    put_text(writer, "alloc");
    put_number(writer, id);
    put_number(writer, bytes);
    put(writer, "\n", 1);
}

void trace_writer_free(struct trace_writer *writer, uint64_t id)
{
    put_text(writer, "free");
    put_number(writer, id);
    put(writer, "\n", 1);
}

uint64_t trace_writer_op(struct trace_writer *writer, enum trace_kind kind, uint64_t stream,
                         const char *name, const uint64_t *ids, size_t count)
{
    assert(kind < TRACE_KIND_COUNT);
    put_text(writer, "op ");
    put_text(writer, trace_kind_name(kind));
    put_number(writer, stream);
    put(writer, " ", 1);
    /* The field lies whole in the buffer or whole in the file. */
    if (BUFFER_BYTES - writer->used < DURATION_DIGITS) trace_writer_flush(writer);
    uint64_t ticket = writer->written + writer->used;
    put(writer, "000000000000", DURATION_DIGITS);
    put_name(writer, name);
    for (size_t i = 0; i < count; i++) put_number(writer, ids[i]);
    put(writer, "\n", 1);
    return ticket;
}

void trace_writer_duration(struct trace_writer *writer, uint64_t ticket, uint64_t duration_ns)
{
    assert(ticket > 0 && ticket + DURATION_DIGITS < writer->written + writer->used);
    if (duration_ns > MAX_DURATION_NS) duration_ns = MAX_DURATION_NS;
    char digits[NUMBER_BYTES];
    snprintf(digits, sizeof digits, "%0*" PRIu64, DURATION_DIGITS, duration_ns);
    if (ticket >= writer->written)
        memcpy(writer->buffer + (ticket - writer->written), digits, DURATION_DIGITS);
    else if (!writer->failed && writer->owner == getpid() &&
             pwrite(writer->file, digits, DURATION_DIGITS, (off_t)ticket) < 0 && errno != ESPIPE)
        fail(writer);
}

vp_status trace_writer_close(struct trace_writer *writer)
{
    trace_writer_flush(writer);
    bool failed = writer->failed;
    if (close(writer->file) != 0 && !failed) {
        fail(writer);
        failed = true;
    }
    free(writer);
    return failed ? VP_IO : VP_OK;
}
