/* Recording: the trace of what the program does, with how long each operation took.
 *
 * Behind each operation goes an event with timing. When it has come to pass, the operation's
 * duration is the time from the event before it in its stream; so the stream's last event is kept
 * until the next one is over. */
#include "pool/internal.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/units.h"
#include "pool/timeline.h"
#include "trace/writer.h"

/* Whoever kills the program early finds all but the last FLUSH_OPS operations in the file. */
enum { RECORD_PENDING = 8192, FLUSH_OPS = 256 };

struct record_pending {
    CUevent event;
    uint64_t ticket;
    uint32_t slot;
};

struct record {
    struct trace_writer *writer;
    struct record_pending pending[RECORD_PENDING];
    uint64_t ops;
    uint64_t head, tail; /* pending: head … tail-1 */
    CUevent last[ORDER_STREAMS];
    CUevent spare[RECORD_PENDING + ORDER_STREAMS];
    uint32_t spare_count;
    uint64_t ids[POOL_TOUCHES];
};

/* A process may open one pool after another, all with the same options: the first one's trace is
 * kept, the next has its number behind the name. */
static void name_file(const char *path, char name[PATH_MAX])
{
    static pthread_mutex_t naming = PTHREAD_MUTEX_INITIALIZER;
    static char last[PATH_MAX];
    static unsigned number;
    pthread_mutex_lock(&naming);
    number = strcmp(path, last) == 0 ? number + 1 : 1;
    snprintf(last, sizeof last, "%s", path);
    if (number == 1)
        snprintf(name, PATH_MAX, "%s", path);
    else
        snprintf(name, PATH_MAX, "%s-%u", path, number);
    pthread_mutex_unlock(&naming);
}

vp_status record_create(vp_pool *pool, const char *path)
{
    struct record *record = calloc(1, sizeof *record);
    if (!record) return VP_NO_HOST_MEMORY;
    char name[PATH_MAX];
    name_file(path, name);
    vp_status status = trace_writer_open(name, "recorded by vrampool " VP_VERSION, &record->writer);
    if (status == VP_OK)
        pool->record = record;
    else
        free(record);
    return status;
}

/* Fills in the durations of operations that are over; with `all`, of the rest too, which are done
 * by then. */
static void drain(vp_pool *pool, bool all)
{
    struct record *record = pool->record;
    const struct driver *driver = pool->driver;
    while (record->head < record->tail) {
        struct record_pending *oldest = &record->pending[record->head % RECORD_PENDING];
        CUresult result =
            all ? driver->cuEventSynchronize(oldest->event) : driver->cuEventQuery(oldest->event);
        if (result == CUDA_ERROR_NOT_READY) return;
        float ms = 0;
        CUevent *last = &record->last[oldest->slot];
        if (result == CUDA_SUCCESS && *last &&
            driver->cuEventElapsedTime(&ms, *last, oldest->event) == CUDA_SUCCESS) {
            pool_lock(pool);
            trace_writer_duration(record->writer, oldest->ticket, (uint64_t)((double)ms * 1e6));
            pool_unlock(pool);
        }
        if (*last) record->spare[record->spare_count++] = *last;
        *last = oldest->event;
        record->head++;
    }
}

void pool_flush_files(vp_pool *pool)
{
    timeline_write(pool);
    if (!pool->record) return;
    pthread_mutex_lock(&pool->recording);
    if (!pool->lost) drain(pool, false);
    pool_lock(pool);
    trace_writer_flush(pool->record->writer);
    pool_unlock(pool);
    pthread_mutex_unlock(&pool->recording);
}

void record_destroy(vp_pool *pool)
{
    struct record *record = pool->record;
    if (!record) return;
    if (!pool->lost) drain(pool, true);
    while (record->head < record->tail)
        pool_give_event(pool, record->pending[record->head++ % RECORD_PENDING].event);
    for (uint32_t i = 0; i < record->spare_count; i++) pool_give_event(pool, record->spare[i]);
    for (unsigned i = 0; i < ORDER_STREAMS; i++)
        if (record->last[i]) pool_give_event(pool, record->last[i]);
    vp_status status = trace_writer_close(record->writer);
    if (status != VP_OK) log_error("the trace is not whole: %s", vp_status_text(status));
    free(record);
    pool->record = NULL;
}

void record_alloc(vp_pool *pool, uint32_t id, uint64_t bytes)
{
    trace_writer_alloc(pool->record->writer, id, bytes);
}

void record_free(vp_pool *pool, uint32_t id)
{
    trace_writer_free(pool->record->writer, id);
}

static CUevent take_event(vp_pool *pool)
{
    struct record *record = pool->record;
    if (record->tail - record->head == RECORD_PENDING) return NULL;
    if (record->spare_count) return record->spare[--record->spare_count];
    CUevent event = NULL;
    return pool->driver->cuEventCreate(&event, CU_EVENT_DEFAULT) == CUDA_SUCCESS ? event : NULL;
}

void record_op(vp_pool *pool, const struct pool_op *op)
{
    struct record *record = pool->record;
    pthread_mutex_lock(&pool->recording);
    drain(pool, record->tail - record->head == RECORD_PENDING);
    CUevent event = op->request.host_waits ? NULL : take_event(pool);
    if (event && pool->driver->cuEventRecord(event, op->stream) != CUDA_SUCCESS) {
        record->spare[record->spare_count++] = event;
        event = NULL;
    }
    pool_lock(pool);
    uint32_t count = pool_op_blocks(op, op->thread->ids);
    for (uint32_t i = 0; i < count; i++) record->ids[i] = op->thread->ids[i];
    uint64_t ticket =
        trace_writer_op(record->writer, pool_op_trace_kind(op), op->slot,
                        op->function ? op->function->name : op->name, record->ids, count);
    if (++record->ops % FLUSH_OPS == 0) trace_writer_flush(record->writer);
    pool_unlock(pool);
    if (event)
        record->pending[record->tail++ % RECORD_PENDING] =
            (struct record_pending){event, ticket, op->slot};
    pthread_mutex_unlock(&pool->recording);
}
