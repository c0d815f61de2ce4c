#include "emu/internal.h"

#include <string.h>

/* ---- Streams ---- */

struct stream *stream_new(struct context *context, unsigned flags, int priority)
{
    struct stream *stream = calloc(1, sizeof *stream);
    assert(stream);
    stream->context = context;
    stream->flags = flags;
    stream->priority = priority < 0 ? (priority < -5 ? -5 : priority) : 0;
    stream->id = ++emu.next_stream;
    list_push_back(&context->streams, &stream->node);
    return stream;
}

/* What is queued goes on without the stream. */
void stream_release(struct stream *stream)
{
    list_remove(&stream->node);
    if (stream->last) op_unref(stream->last);
    if (stream->handle) handle_free(stream->handle);
    free(stream);
}

static struct stream *per_thread_stream(struct context *context)
{
    uint64_t thread = thread_get()->index;
    list_each(node, &context->streams)
    {
        struct stream *stream = list_entry(node, struct stream, node);
        if (stream->per_thread && stream->thread == thread) return stream;
    }
    struct stream *stream = stream_new(context, CU_STREAM_DEFAULT, 0);
    stream->per_thread = true;
    stream->thread = thread;
    return stream;
}

struct stream *stream_find(CUstream named)
{
    struct context *context = context_current();
    if (named == NULL) named = per_thread_default() ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
    if (named == CU_STREAM_LEGACY) return context ? context->legacy : NULL;
    if (named == CU_STREAM_PER_THREAD) return context ? per_thread_stream(context) : NULL;
    return handle_get(HANDLE_STREAM, (uintptr_t)named);
}

CUresult do_cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority)
{
    if (!stream || flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
    struct stream *made = stream_new(context_current(), flags, priority);
    made->handle = handle_new(HANDLE_STREAM, made);
    *stream = HANDLE_OF(CUstream, made);
    return CUDA_SUCCESS;
}

CUresult do_cuStreamCreate(CUstream *stream, unsigned flags)
{
    return do_cuStreamCreateWithPriority(stream, flags, 0);
}

CUresult do_cuStreamDestroy_v2(CUstream named)
{
    struct stream *stream = handle_get(HANDLE_STREAM, (uintptr_t)named);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (stream->capture) capture_abandon(stream);
    stream_release(stream);
    return CUDA_SUCCESS;
}

/* The legacy stream is idle when every blocking stream of its context is. */
static bool all_idle(struct stream *stream)
{
    if (!stream_is_idle(stream)) return false;
    if (!stream->legacy) return true;
    list_each(node, &stream->context->streams)
    {
        struct stream *other = list_entry(node, struct stream, node);
        if (!(other->flags & CU_STREAM_NON_BLOCKING) && !stream_is_idle(other)) return false;
    }
    return true;
}

CUresult do_cuStreamQuery(CUstream named)
{
    struct stream *stream = stream_find(named);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = capture_synchronize(stream);
    if (result != CUDA_SUCCESS) return result;
    charge(emu.machine.costs.query, 0);
    if (!all_idle(stream)) time_jump();
    if (stream->context->lost) return stream->context->lost;
    return all_idle(stream) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult do_cuStreamSynchronize(CUstream named)
{
    struct stream *stream = stream_find(named);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = capture_synchronize(stream);
    if (result != CUDA_SUCCESS) return result;
    charge(emu.machine.costs.query, 0);
    struct context *context = stream->context;
    if (!stream->legacy) {
        op_wait(stream->last);
        return context->lost;
    }
    struct op *op = op_new(context, OP_NOTHING, "cuStreamSynchronize");
    op_ref(op);
    result = op_submit(stream, op);
    if (result == CUDA_SUCCESS) result = op_wait(op);
    op_unref(op);
    return result;
}

CUresult do_cuStreamGetFlags(CUstream named, unsigned *flags)
{
    struct stream *stream = stream_find(named);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (!flags) return CUDA_ERROR_INVALID_VALUE;
    *flags = stream->flags;
    return CUDA_SUCCESS;
}

CUresult do_cuStreamGetPriority(CUstream named, int *priority)
{
    struct stream *stream = stream_find(named);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (!priority) return CUDA_ERROR_INVALID_VALUE;
    *priority = stream->priority;
    return CUDA_SUCCESS;
}

CUresult do_cuStreamGetCtx(CUstream named, CUcontext *context)
{
    struct stream *stream = stream_find(named);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (!context) return CUDA_ERROR_INVALID_VALUE;
    *context = HANDLE_OF(CUcontext, stream->context);
    return CUDA_SUCCESS;
}

CUresult do_cuStreamGetId(CUstream named, unsigned long long *id)
{
    struct stream *stream = stream_find(named);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (!id) return CUDA_ERROR_INVALID_VALUE;
    *id = stream->id;
    return CUDA_SUCCESS;
}

CUresult do_cuStreamGetDevice(CUstream named, CUdevice *device)
{
    struct stream *stream = stream_find(named);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (!device) return CUDA_ERROR_INVALID_VALUE;
    *device = (CUdevice)stream->context->card;
    return CUDA_SUCCESS;
}

/* ---- Events ---- */

static struct event *event_find(CUevent named)
{
    return handle_get(HANDLE_EVENT, (uintptr_t)named);
}

CUresult do_cuEventCreate(CUevent *event, unsigned flags)
{
    if (!event || flags > 7 || (flags & 6) == 4) return CUDA_ERROR_INVALID_VALUE;
    struct event *made = calloc(1, sizeof *made);
    assert(made);
    made->flags = flags;
    made->context = context_current();
    made->handle = handle_new(HANDLE_EVENT, made);
    *event = HANDLE_OF(CUevent, made);
    return CUDA_SUCCESS;
}

static void event_forget(struct event *event)
{
    if (event->record) op_unref(event->record);
    event->record = NULL;
    capture_event_clear(event);
}

void event_release(struct event *event)
{
    event_forget(event);
    handle_free(event->handle);
    free(event);
}

CUresult do_cuEventDestroy_v2(CUevent named)
{
    struct event *event = event_find(named);
    if (!event) return CUDA_ERROR_INVALID_HANDLE;
    event_release(event);
    return CUDA_SUCCESS;
}

CUresult do_cuEventRecordWithFlags(CUevent named, CUstream named_stream, unsigned flags)
{
    struct event *event = event_find(named);
    struct stream *stream = stream_find(named_stream);
    if (!event || !stream) return CUDA_ERROR_INVALID_HANDLE;
    if (flags > 1) return CUDA_ERROR_INVALID_VALUE;
    if (event->context != stream->context) return CUDA_ERROR_INVALID_HANDLE;
    charge(emu.machine.costs.record, 0);
    if (stream->capture) {
        if (flags) return CUDA_ERROR_NOT_SUPPORTED;
        event_forget(event);
        return capture_records(stream, event);
    }
    struct op *op = op_new(stream->context, OP_RECORD, "cuEventRecord");
    op_ref(op);
    CUresult result = op_submit(stream, op);
    if (result != CUDA_SUCCESS) {
        op_unref(op);
        return result;
    }
    event_forget(event);
    event->record = op;
    return CUDA_SUCCESS;
}

CUresult do_cuEventRecord(CUevent event, CUstream stream)
{
    return do_cuEventRecordWithFlags(event, stream, 0);
}

/* Waits for the record that is the event's last one now; one never recorded is no wait. */
CUresult do_cuStreamWaitEvent(CUstream named_stream, CUevent named, unsigned flags)
{
    struct event *event = event_find(named);
    struct stream *stream = stream_find(named_stream);
    if (!event || !stream) return CUDA_ERROR_INVALID_HANDLE;
    if (flags > 1) return CUDA_ERROR_INVALID_VALUE;
    charge(emu.machine.costs.wait, 0);
    if (event->captured || stream->capture) return capture_waits(stream, event);
    if (!event->record || event->record->done) return CUDA_SUCCESS;
    struct op *op = op_new(stream->context, OP_NOTHING, "cuStreamWaitEvent");
    op_after(op, event->record);
    return op_submit(stream, op);
}

CUresult do_cuEventQuery(CUevent named)
{
    struct event *event = event_find(named);
    if (!event) return CUDA_ERROR_INVALID_HANDLE;
    if (event->captured) return CUDA_ERROR_CAPTURED_EVENT;
    CUresult result = capture_forbids();
    if (result != CUDA_SUCCESS) return result;
    charge(emu.machine.costs.query, 0);
    bool done = op_is_done(event->record);
    if (event->context->lost) return event->context->lost;
    return done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult do_cuEventSynchronize(CUevent named)
{
    struct event *event = event_find(named);
    if (!event) return CUDA_ERROR_INVALID_HANDLE;
    if (event->captured) return CUDA_ERROR_CAPTURED_EVENT;
    CUresult result = capture_forbids();
    if (result != CUDA_SUCCESS) return result;
    charge(emu.machine.costs.query, 0);
    op_wait(event->record);
    return event->context->lost;
}

CUresult do_cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
    struct event *first = event_find(start), *last = event_find(end);
    if (!first || !last) return CUDA_ERROR_INVALID_HANDLE;
    if (!ms) return CUDA_ERROR_INVALID_VALUE;
    if (((first->flags | last->flags) & CU_EVENT_DISABLE_TIMING) || !first->record || !last->record)
        return CUDA_ERROR_INVALID_HANDLE;
    bool done = op_is_done(first->record) && op_is_done(last->record);
    if (!done) return CUDA_ERROR_NOT_READY;
    double ns = (double)last->record->end_ns - (double)first->record->end_ns;
    *ms = (float)(ns / 1e6);
    return CUDA_SUCCESS;
}

CUresult do_cuEventElapsedTime_v2(float *ms, CUevent start, CUevent end)
{
    return do_cuEventElapsedTime(ms, start, end);
}

/* ---- Waiting for and writing values in memory ---- */

static uint64_t word_read(const struct op *op, const struct spot *spot)
{
    uint64_t value = 0;
    if (spot->bytes >= op->word.bytes) memcpy(&value, spot->at, op->word.bytes);
    return value;
}

bool word_condition(const struct op *op)
{
    struct spot spot;
    if (!spot_find(op->word.address, op->word.bytes, op->card, EMU_READ, TRANSLATE_KERNEL, &spot))
        return false;
    if (!emu.options.carry_data) return true;
    uint64_t now = word_read(op, &spot), value = op->word.value;
    bool wide = op->word.bytes == 8;
    switch (op->word.flags & 3) {
    case CU_STREAM_WAIT_VALUE_GEQ:
        return wide ? (int64_t)(now - value) >= 0 : (int32_t)(uint32_t)(now - value) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ: return now == value;
    case CU_STREAM_WAIT_VALUE_AND: return (now & value) != 0;
    default: return (wide ? ~(now | value) : (uint32_t) ~(now | value)) != 0;
    }
}

void word_write(struct op *op)
{
    struct spot spot;
    if (!spot_find(op->word.address, op->word.bytes, op->card, EMU_WRITE, TRANSLATE_KERNEL, &spot))
        op_fault(op, op->word.address, EMU_WRITE);
    else if (emu.options.carry_data)
        memcpy(spot.at, &op->word.value, op->word.bytes);
}

static CUresult word_op(CUstream named, enum op_kind kind, const char *name, CUdeviceptr address,
                        uint64_t value, unsigned bytes, unsigned flags)
{
    struct stream *stream = stream_find(named);
    struct spot spot;
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (address % bytes ||
        !spot_find(address, bytes, stream->context->card, EMU_READ, TRANSLATE_KERNEL, &spot))
        return CUDA_ERROR_INVALID_VALUE;
    charge(emu.machine.costs.wait, 0);
    struct op *op = op_new(stream->context, kind, name);
    op->word.address = address;
    op->word.value = value;
    op->word.bytes = bytes;
    op->word.flags = flags;
    return op_submit(stream, op);
}

CUresult do_cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, uint32_t value,
                                   unsigned flags)
{
    return word_op(stream, OP_WAIT_VALUE, "cuStreamWaitValue32", address, value, 4, flags);
}

CUresult do_cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr address, uint64_t value,
                                   unsigned flags)
{
    return word_op(stream, OP_WAIT_VALUE, "cuStreamWaitValue64", address, value, 8, flags);
}

CUresult do_cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, uint32_t value,
                                    unsigned flags)
{
    return word_op(stream, OP_WRITE_VALUE, "cuStreamWriteValue32", address, value, 4, flags);
}

CUresult do_cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, uint64_t value,
                                    unsigned flags)
{
    return word_op(stream, OP_WRITE_VALUE, "cuStreamWriteValue64", address, value, 8, flags);
}
