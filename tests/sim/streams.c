/* The program's streams: default ones, per-thread ones, blocking and non-blocking ones. Behind each
 * operation goes an event; what depends on a stream's work waits for its event. */
#include "sim.h"

static void must(CUresult result, const char *call)
{
    if (result != CUDA_SUCCESS && !sim.card_lost) sim_fail("%s returned %d", call, result);
}

static unsigned vacant(void)
{
    unsigned i = 0;
    while (i < SIM_STREAMS && (sim.streams[i].alive || sim.streams[i].ending)) i++;
    return i;
}

/* A vacant place may still tell of the end of a destroyed stream: that is waited for. */
static struct stream *take(unsigned card)
{
    unsigned i = vacant();
    if (i == SIM_STREAMS) return NULL;
    struct stream *stream = &sim.streams[i];
    if (stream->ended) {
        must(cuEventSynchronize(stream->event), "cuEventSynchronize");
        must(cuEventDestroy_v2(stream->event), "cuEventDestroy");
        blocks_forget_stream(i);
    }
    *stream = (struct stream){.alive = true, .card = card, .owner = -1, .blocking = true};
    must(cuEventCreate(&stream->event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    return stream;
}

void streams_open_default(void)
{
    for (unsigned card = 0; card < sim.profile.cards; card++) {
        if (!sim.context[card]) continue;
        must(cuCtxSetCurrent(sim.context[card]), "cuCtxSetCurrent");
        take(card)->handle = NULL;
    }
    for (unsigned i = 0; i < sim.profile.threads; i++) {
        must(cuCtxSetCurrent(sim.context[sim.threads[i].card]), "cuCtxSetCurrent");
        struct stream *own = take(sim.threads[i].card);
        own->handle = CU_STREAM_PER_THREAD;
        own->owner = (int)i;
    }
}

static bool is_default(const struct stream *stream)
{
    return stream->handle == NULL || stream->handle == CU_STREAM_PER_THREAD;
}

unsigned streams_default(unsigned card, int owner)
{
    for (unsigned i = 0; i < SIM_STREAMS; i++) {
        const struct stream *stream = &sim.streams[i];
        bool right = stream->alive && stream->card == card && stream->owner == owner;
        if (right && is_default(stream)) return i;
    }
    sim_fail("card %u has no default stream", card);
}

void streams_make(struct thread *thread)
{
    struct stream *stream = take(thread->card);
    if (!stream) return;
    stream->blocking = sim_chance(40);
    unsigned flags = stream->blocking ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING;
    must(cuStreamCreateWithPriority(&stream->handle, flags, 0), "cuStreamCreate");
}

unsigned streams_pick(struct thread *thread)
{
    for (;;) {
        unsigned i = (unsigned)sim_below(SIM_STREAMS);
        const struct stream *stream = &sim.streams[i];
        bool mine = stream->owner < 0 || stream->owner == (int)thread->index;
        if (stream->alive && mine && stream->card == thread->card) return i;
    }
}

static void destroy(unsigned i)
{
    struct stream *stream = &sim.streams[i];
    stream->alive = false; /* nobody picks it while the pool settles it */
    stream->ending = true;
    if (sim.pool) pool_stream_ends(sim.pool, stream->handle);
    must(cuStreamDestroy_v2(stream->handle), "cuStreamDestroy");
    stream->ending = false;
    stream->ended = true;
    sim.coverage.streams_ended++;
}

void streams_destroy_one(struct thread *thread)
{
    unsigned i = streams_pick(thread);
    struct stream *stream = &sim.streams[i];
    if (is_default(stream) || stream->queueing) return;
    sim_trace("stream %u ends", i);
    destroy(i);
}

void streams_close_all(void)
{
    for (unsigned i = 0; i < SIM_STREAMS; i++) {
        struct stream *stream = &sim.streams[i];
        if (!stream->alive && !stream->ended) continue;
        must(cuCtxSetCurrent(sim.context[stream->card]), "cuCtxSetCurrent");
        if (stream->alive && !is_default(stream)) destroy(i);
        must(cuEventDestroy_v2(stream->event), "cuEventDestroy");
        *stream = (struct stream){0};
    }
}

/* The legacy stream and blocking ones wait for each other by themselves. */
static bool follow_each_other(const struct stream *a, const struct stream *b)
{
    bool legacy = a->handle == NULL || b->handle == NULL;
    return legacy && a->blocking && b->blocking && a->card == b->card && a->alive && b->alive;
}

void streams_wait(unsigned stream, unsigned other)
{
    struct stream *after = &sim.streams[stream], *before = &sim.streams[other];
    if (stream == other) return;
    if (follow_each_other(after, before) && sim_chance(60)) return;
    must(cuStreamWaitEvent(after->handle, before->event, 0), "cuStreamWaitEvent");
}

void streams_record(unsigned i)
{
    must(cuEventRecord(sim.streams[i].event, sim.streams[i].handle), "cuEventRecord");
}

void streams_synchronize(unsigned i)
{
    struct stream *stream = &sim.streams[i];
    must(cuStreamSynchronize(stream->handle), "cuStreamSynchronize");
    if (!stream->queueing) blocks_forget_stream(i);
}
