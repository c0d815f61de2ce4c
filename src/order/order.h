/* order: what has been handed to the device, and what of it has finished.
 *
 * Each stream counts operations entered (about to go to the driver) and returned (the driver call
 * is over). A mark is an event recorded on a stream; it covers the operations that had returned to
 * their callers when it was recorded, and no others, since a call still under way may land behind
 * it. When the mark's event has come to pass, all it covers is done. Marks are sampled: by who
 * launches, every few operations, or when asked.
 *
 * A user of memory keeps a `struct order_uses`: the last operation of each stream that may touch
 * it. Memory is idle when all its uses are done.
 *
 * This part decides and counts; recording and querying events is the caller's. All under the pool's
 * lock, except order_leave, which any thread may call. */
#ifndef ORDER_ORDER_H
#define ORDER_ORDER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "vrampool.h"

enum {
    ORDER_MARKS = 64,     /* outstanding marks of one stream; then the newest moves on */
    ORDER_STREAMS = 1024, /* streams alive or with work unfinished at once */
    ORDER_USES = 4,       /* streams remembered for one user of memory */
};

struct order_mark {
    void *event;     /* the driver's; made by the caller at first use of the slot, kept with it */
    void *context;   /* that the event was made in, */
    bool inherited;  /* perhaps for a stream of another that had the slot before */
    uint64_t covers; /* operations up to this one */
    uint64_t clock;  /* of all streams, when that was so */
};

struct order;

struct order_stream {
    struct order *order;
    void *handle;  /* the program's stream */
    uint64_t key;  /* the thread whose default stream it is, or 0; only that thread can name it, so
                      it records a mark behind each of its operations */
    void *context; /* where its work runs; NULL: the handle alone says it */
    bool ended;    /* destroyed by the program; the slot goes when its work is done */
    bool bare;     /* ended, and its events are gone with their context: anybody's slot */
    bool capturing;
    bool marking;             /* a mark is being recorded */
    _Atomic bool mark_wanted; /* somebody waits for a mark: who returns next records one */
    uint64_t entered;
    _Atomic uint64_t returned;
    uint64_t marked;                                   /* covered by a recorded mark */
    uint64_t done;                                     /* covered by a mark that came to pass */
    uint64_t covering_clock, marked_clock, done_clock; /* the same by the clock of all streams */
    unsigned first_mark, mark_count;                   /* ring of outstanding marks, oldest first */
    struct order_mark marks[ORDER_MARKS];
};

struct order {
    uint64_t clock;   /* operations entered, of all streams */
    uint64_t endings; /* how often some were found to be done */
    unsigned count;   /* slots in use are below this */
    struct order_stream *stream[ORDER_STREAMS];
};

struct order_use {
    uint32_t slot;
    uint64_t sequence;
};

struct order_uses {
    uint32_t count;
    bool crowded;         /* more streams than fit: */
    uint64_t crowd_clock; /* idle only when all operations up to this one of any stream are done */
    struct order_use use[ORDER_USES];
};

void order_create(struct order *order);
void order_destroy(struct order *order); /* events are the caller's to destroy before */

/* The slot of a stream, made at its first sight. ORDER_STREAMS when there is no room or memory for
 * another. */
unsigned order_find(struct order *order, void *handle, uint64_t key, void *context);

/* An operation enters a stream; returns its number there (from 1). */
static inline uint64_t order_enter(struct order *order, unsigned slot)
{
    order->clock++;
    return ++order->stream[slot]->entered;
}

/* Its driver call is over. Any thread, no lock. */
static inline void order_leave(struct order_stream *stream)
{
    atomic_fetch_add_explicit(&stream->returned, 1, memory_order_release);
}

/* The operation a mark recorded now would cover up to, or 0: nothing new, one is under way, or the
 * stream captures. Who gets one records it before anybody asks again (`marking`). */
uint64_t order_mark_covers(struct order_stream *stream);

/* The ring slot whose event is to be recorded next: a new mark, or where the ring is full the
 * newest one again. Then, once recorded, order_mark_recorded. */
struct order_mark *order_mark_next(struct order_stream *stream);
void order_mark_recorded(struct order_stream *stream, uint64_t covers);

/* The oldest outstanding mark, or NULL; and: it has come to pass, if it still is the oldest, and
 * was not recorded again meanwhile to cover more. */
struct order_mark *order_mark_oldest(struct order_stream *stream);
void order_mark_passed(struct order_stream *stream, uint64_t covers);

/* Nothing of this stream is unfinished any more (it was synchronised, or its context is gone). */
void order_all_done(struct order_stream *stream);

/* The program destroyed the stream. After this no mark may be recorded on it. */
void order_end(struct order *order, unsigned slot);

/* Notes that operation `sequence` of `slot` may touch the memory. */
void order_uses_add(const struct order *order, struct order_uses *uses, unsigned slot,
                    uint64_t sequence);

/* The same, quick where the stream is the one noted first. */
static inline void order_uses_note(const struct order *order, struct order_uses *uses,
                                   unsigned slot, uint64_t sequence)
{
    if (uses->count && uses->use[0].slot == slot)
        uses->use[0].sequence = sequence; /* numbers of a stream only grow */
    else
        order_uses_add(order, uses, slot, sequence);
}

/* Whatever has been entered so far, on any stream, may touch the memory. */
void order_uses_crowd(const struct order *order, struct order_uses *uses);

/* Adds all uses in `more`. */
void order_uses_merge(const struct order *order, struct order_uses *uses,
                      const struct order_uses *more);

/* Drops uses that are done; true when none are left. */
bool order_uses_done(const struct order *order, struct order_uses *uses);

/* Asks for marks that cover the uses not done, on streams where none outstanding does. */
void order_uses_want_marks(struct order *order, const struct order_uses *uses);

/* Whether marks cover the uses, done or not, as far as their streams can be marked. */
bool order_uses_marked(const struct order *order, const struct order_uses *uses);

#endif
