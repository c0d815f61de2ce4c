#include "order/order.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void order_create(struct order *order)
{
    memset(order, 0, sizeof *order);
}

void order_destroy(struct order *order)
{
    for (unsigned i = 0; i < order->count; i++) free(order->stream[i]);
    memset(order, 0, sizeof *order);
}

static bool is_finished(const struct order_stream *stream)
{
    return stream->done == stream->entered;
}

static void reset(struct order_stream *stream, void *handle, uint64_t key, void *context)
{
    stream->handle = handle;
    stream->key = key;
    stream->context = context;
    stream->ended = stream->bare = stream->capturing = false;
    stream->mark_wanted = false;
    for (unsigned i = 0; i < ORDER_MARKS; i++) stream->marks[i].inherited = true;
    /* counts go on: uses noted of the stream that had the slot before stay done */
}

unsigned order_find(struct order *order, void *handle, uint64_t key, void *context)
{
    unsigned reusable = ORDER_STREAMS;
    for (unsigned i = 0; i < order->count; i++) {
        struct order_stream *stream = order->stream[i];
        bool same = stream->context == context; /* its events are of no use in another */
        if (!same && !stream->bare) continue;
        if (!stream->ended && stream->handle == handle && stream->key == key) return i;
        if (stream->ended && is_finished(stream) && stream->mark_count == 0) reusable = i;
    }
    if (reusable == ORDER_STREAMS && order->count < ORDER_STREAMS) {
        struct order_stream *stream = calloc(1, sizeof *stream);
        if (!stream) return ORDER_STREAMS;
        stream->order = order;
        order->stream[order->count] = stream;
        reusable = order->count++;
    }
    if (reusable < ORDER_STREAMS) reset(order->stream[reusable], handle, key, context);
    return reusable;
}

uint64_t order_mark_covers(struct order_stream *stream)
{
    uint64_t returned = atomic_load_explicit(&stream->returned, memory_order_acquire);
    if (returned != stream->entered || stream->marked == returned) return 0;
    if (stream->ended || stream->capturing) return 0;
    stream->covering_clock = stream->order->clock;
    return returned;
}

struct order_mark *order_mark_next(struct order_stream *stream)
{
    unsigned behind = stream->mark_count < ORDER_MARKS ? stream->mark_count : ORDER_MARKS - 1;
    return &stream->marks[(stream->first_mark + behind) % ORDER_MARKS];
}

void order_mark_recorded(struct order_stream *stream, uint64_t covers)
{
    assert(covers <= stream->entered);
    if (covers <= stream->marked) return; /* all was found to be done while it was recorded */
    struct order_mark *mark = order_mark_next(stream);
    mark->covers = covers;
    mark->clock = stream->marked_clock = stream->covering_clock;
    if (stream->mark_count < ORDER_MARKS) stream->mark_count++;
    stream->marked = covers;
    stream->mark_wanted = false;
}

struct order_mark *order_mark_oldest(struct order_stream *stream)
{
    return stream->mark_count ? &stream->marks[stream->first_mark] : NULL;
}

void order_mark_passed(struct order_stream *stream, uint64_t covers)
{
    struct order_mark *mark = order_mark_oldest(stream);
    if (!mark || mark->covers != covers) return;
    assert(covers >= stream->done);
    stream->done = mark->covers;
    stream->done_clock = mark->clock;
    stream->order->endings++;
    stream->first_mark = (stream->first_mark + 1) % ORDER_MARKS;
    stream->mark_count--;
}

void order_all_done(struct order_stream *stream)
{
    stream->order->endings++;
    stream->done = stream->marked = stream->entered;
    stream->done_clock = stream->marked_clock = stream->order->clock;
    stream->mark_count = 0;
    stream->mark_wanted = false;
}

void order_end(struct order *order, unsigned slot)
{
    assert(slot < order->count);
    order->stream[slot]->ended = true;
}

static bool use_done(const struct order *order, const struct order_use *use)
{
    return order->stream[use->slot]->done >= use->sequence;
}

void order_uses_crowd(const struct order *order, struct order_uses *uses)
{
    uses->crowded = true;
    uses->crowd_clock = order->clock;
}

static bool crowd_done(const struct order *order, const struct order_uses *uses)
{
    for (unsigned i = 0; i < order->count; i++) {
        const struct order_stream *stream = order->stream[i];
        if (!is_finished(stream) && stream->done_clock < uses->crowd_clock) return false;
    }
    return true;
}

void order_uses_add(const struct order *order, struct order_uses *uses, unsigned slot,
                    uint64_t sequence)
{
    for (unsigned i = 0; i < uses->count; i++) {
        if (uses->use[i].slot != slot) continue;
        if (uses->use[i].sequence < sequence) uses->use[i].sequence = sequence;
        return;
    }
    if (uses->count == ORDER_USES && !order_uses_done(order, uses) && uses->count == ORDER_USES) {
        order_uses_crowd(order, uses);
        return;
    }
    uses->use[uses->count++] = (struct order_use){slot, sequence};
}

void order_uses_merge(const struct order *order, struct order_uses *uses,
                      const struct order_uses *more)
{
    if (more->crowded && (!uses->crowded || uses->crowd_clock < more->crowd_clock))
        uses->crowd_clock = more->crowd_clock;
    uses->crowded |= more->crowded;
    for (unsigned i = 0; i < more->count; i++)
        if (!use_done(order, &more->use[i]))
            order_uses_add(order, uses, more->use[i].slot, more->use[i].sequence);
}

bool order_uses_done(const struct order *order, struct order_uses *uses)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < uses->count; i++)
        if (!use_done(order, &uses->use[i])) uses->use[kept++] = uses->use[i];
    uses->count = kept;
    if (uses->crowded && crowd_done(order, uses)) uses->crowded = false;
    return kept == 0 && !uses->crowded;
}

static void want_mark(struct order_stream *stream, uint64_t sequence)
{
    if (stream->done < sequence && stream->marked < sequence && !stream->ended)
        stream->mark_wanted = true;
}

void order_uses_want_marks(struct order *order, const struct order_uses *uses)
{
    for (unsigned i = 0; i < uses->count; i++)
        want_mark(order->stream[uses->use[i].slot], uses->use[i].sequence);
    if (!uses->crowded) return;
    for (unsigned i = 0; i < order->count; i++) {
        struct order_stream *stream = order->stream[i];
        bool covered = is_finished(stream) || stream->marked_clock >= uses->crowd_clock;
        if (!covered && !stream->ended) stream->mark_wanted = true;
    }
}

/* Of a stream that ended, or captures, there will be no other mark. */
static bool is_covered(const struct order_stream *stream, bool covered)
{
    return covered || stream->marked == stream->entered || stream->ended || stream->capturing;
}

bool order_uses_marked(const struct order *order, const struct order_uses *uses)
{
    for (unsigned i = 0; i < uses->count; i++) {
        const struct order_stream *stream = order->stream[uses->use[i].slot];
        if (!is_covered(stream, stream->marked >= uses->use[i].sequence)) return false;
    }
    for (unsigned i = 0; i < order->count && uses->crowded; i++) {
        const struct order_stream *stream = order->stream[i];
        if (!is_covered(stream, stream->marked_clock >= uses->crowd_clock)) return false;
    }
    return true;
}
