#include "pool/timeline.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "base/path.h"
#include "pool/internal.h"

/* The first so many spans are kept: some minutes, 128 MiB. */
enum { FIRST_ROOM = 1 << 14, MOST_SPANS = 1 << 21 };

struct timeline {
    FILE *file;
    pid_t owner;
    uint64_t opened_ns;
    pthread_mutex_t lock;
    struct timeline_span *spans;
    uint32_t count, room;
    uint64_t lost;
    char path[4096];
};

/* What it holds is for the user alone. */
static FILE *open_private(const char *path)
{
    int descriptor = path_open_to_write(path, 0600);
    FILE *file = descriptor < 0 ? NULL : fdopen(descriptor, "w");
    if (!file && descriptor >= 0) close(descriptor);
    return file;
}

vp_status timeline_create(vp_pool *pool, const char *path)
{
    struct timeline *timeline = calloc(1, sizeof *timeline);
    if (!timeline) return VP_NO_HOST_MEMORY;
    timeline->file = open_private(path);
    if (!timeline->file) {
        log_error("timeline %s: %s", path, strerror(errno));
        free(timeline);
        return VP_IO;
    }
    timeline->owner = getpid();
    timeline->opened_ns = pool_now_ns(pool);
    pthread_mutex_init(&timeline->lock, NULL);
    snprintf(timeline->path, sizeof timeline->path, "%s", path);
    pool->timeline = timeline;
    return VP_OK;
}

uint64_t timeline_now(const vp_pool *pool)
{
    return pool->timeline ? pool_now_ns(pool) : 0;
}

/* Room for one more; lock of the timeline held. */
static bool has_room(struct timeline *timeline)
{
    if (timeline->count < timeline->room) return true;
    if (timeline->room == MOST_SPANS) return false;
    uint32_t room = timeline->room ? 2 * timeline->room : FIRST_ROOM;
    struct timeline_span *wider = realloc(timeline->spans, room * sizeof *wider);
    if (!wider) return false;
    timeline->spans = wider;
    timeline->room = room;
    return true;
}

void timeline_add(vp_pool *pool, struct timeline_span span)
{
    struct timeline *timeline = pool->timeline;
    if (!timeline) return;
    span.ended_ns = pool_now_ns(pool);
    span.thread = (uint32_t)syscall(SYS_gettid);
    pthread_mutex_lock(&timeline->lock);
    if (timeline->file && has_room(timeline))
        timeline->spans[timeline->count++] = span;
    else
        timeline->lost++;
    pthread_mutex_unlock(&timeline->lock);
}

static void put_text(FILE *file, const char *text)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            fprintf(file, "\\%c", c);
        else if (c < ' ')
            fprintf(file, "\\u%04x", c);
        else
            fputc(c, file);
    }
}

static void put_span(const struct timeline *timeline, const struct timeline_span *span)
{
    FILE *file = timeline->file;
    fputs(",\n{\"ph\":\"X\",\"name\":\"", file);
    put_text(file, span->name);
    fprintf(file, "\",\"pid\":%d,\"ts\":%.3f,\"dur\":%.3f", (int)timeline->owner,
            (double)(span->began_ns - timeline->opened_ns) / 1e3,
            (double)(span->ended_ns - span->began_ns) / 1e3);
    uint32_t row = span->row == TIMELINE_THREAD ? span->thread : (uint32_t)span->row;
    fprintf(file, ",\"tid\":%" PRIu32, row);
    fputs(",\"args\":{", file);
    const char *comma = "";
    if (span->bytes) {
        fprintf(file, "\"bytes\":%" PRIu64, span->bytes);
        comma = ",";
    }
    if (span->address) {
        fprintf(file, "%s\"address\":\"%#" PRIx64 "\"", comma, span->address);
        comma = ",";
    }
    if (span->ahead) {
        fprintf(file, "%s\"ahead\":%" PRIu32, comma, span->ahead);
        comma = ",";
    }
    if (span->why) fprintf(file, "%s\"why\":\"%s\"", comma, span->why);
    fputs("}}", file);
}

static void put_title(const struct timeline *timeline, const char *kind, uint32_t row,
                      const char *title)
{
    fprintf(timeline->file,
            "%s\n{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%d,\"tid\":%" PRIu32
            ",\"args\":{\"name\":\"%s\"}}",
            row ? "," : "", kind, (int)timeline->owner, row, title);
}

static void put_all(const struct timeline *timeline)
{
    static const char *const titles[] = {
#define TITLE(name, title) title,
        TIMELINE_ROWS(TITLE)
#undef TITLE
    };
    fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", timeline->file);
    put_title(timeline, "process_name", 0, "vrampool");
    for (uint32_t row = 1; row < TIMELINE_ROW_COUNT; row++)
        put_title(timeline, "thread_name", row, titles[row]);
    for (uint32_t i = 0; i < timeline->count; i++) put_span(timeline, &timeline->spans[i]);
    fputs("\n]}\n", timeline->file);
}

void timeline_write(vp_pool *pool)
{
    struct timeline *timeline = pool->timeline;
    if (!timeline || timeline->owner != getpid()) return;
    pthread_mutex_lock(&timeline->lock);
    if (timeline->file) {
        put_all(timeline);
        if (timeline->lost)
            log_warn("timeline %s: it ends early, %llu later spans are not in it", timeline->path,
                     (unsigned long long)timeline->lost);
        bool failed = ferror(timeline->file) != 0;
        if (fclose(timeline->file) != 0 || failed)
            log_error("timeline %s: %s; it is not whole", timeline->path, strerror(errno));
        timeline->file = NULL;
    }
    pthread_mutex_unlock(&timeline->lock);
}

void timeline_destroy(vp_pool *pool)
{
    struct timeline *timeline = pool->timeline;
    if (!timeline) return;
    timeline_write(pool);
    pool->timeline = NULL;
    pthread_mutex_destroy(&timeline->lock);
    free(timeline->spans);
    free(timeline);
}
