/* The queue from the follower to the learner: one writer, one reader, no lock. Words of 8 bytes in
 * a ring; a message is its head and what follows it. What does not fit is left out: operations when
 * less than a quarter is free, so that allocs and frees, on which the learner depends, get through
 * far longer. */
#ifndef TRACE_FINDER_QUEUE_H
#define TRACE_FINDER_QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "trace/finder.h"

enum finder_message { FINDER_OP, FINDER_ALLOC, FINDER_FREE, FINDER_TOOK };

struct finder_queue {
    uint64_t *words;
    uint64_t write, known_read; /* the writer's: its end, and how far the reader was last seen */
    _Atomic uint64_t written;
    _Alignas(64) _Atomic uint64_t read;
};

/* What one message says. Ids are read with finder_queue_ids, before the next message is taken. */
struct finder_event {
    enum finder_message message;
    enum trace_kind kind;
    uint32_t lane, turn, id, count, number, place, period;
    bool matched;
    uint64_t key; /* of an op; bytes of an alloc; duration */
    uint64_t ids; /* where they are */
};

static inline bool finder_queue_create(struct finder_queue *queue)
{
    queue->words = malloc(FINDER_QUEUE * sizeof *queue->words);
    return queue->words != NULL;
}

static inline uint64_t *finder_queue_word(const struct finder_queue *queue, uint64_t at)
{
    return &queue->words[at % FINDER_QUEUE];
}

/* True when `words` fit and `spare` are left. */
static inline bool finder_queue_has_room(struct finder_queue *queue, uint64_t words, uint64_t spare)
{
    uint64_t limit = queue->write + words + spare - FINDER_QUEUE;
    if ((int64_t)(limit - queue->known_read) <= 0) return true;
    queue->known_read = atomic_load_explicit(&queue->read, memory_order_acquire);
    return (int64_t)(limit - queue->known_read) <= 0;
}

static inline void finder_queue_publish(struct finder_queue *queue, uint64_t words)
{
    queue->write += words;
    atomic_store_explicit(&queue->written, queue->write, memory_order_release);
}

static inline void finder_queue_put_ids(struct finder_queue *queue, uint64_t at,
                                        const uint32_t *ids, uint32_t count)
{
    for (uint32_t i = 0; i + 1 < count; i += 2)
        *finder_queue_word(queue, at++) = ids[i] | (uint64_t)ids[i + 1] << 32;
    if (count % 2) *finder_queue_word(queue, at) = ids[count - 1];
}

static inline bool finder_queue_put_op(struct finder_queue *queue, const struct finder_op *op,
                                       uint32_t lane, uint32_t turn,
                                       const struct finder_place *place)
{
    uint64_t words = 4 + (op->count + UINT64_C(1)) / 2;
    bool matched = place->match == FINDER_MATCHED;
    uint64_t period = matched || place->match == FINDER_TOUCHES ? place->period : 0;
    if (!finder_queue_has_room(queue, words, FINDER_QUEUE / 4)) return false;
    *finder_queue_word(queue, queue->write) = FINDER_OP | (uint64_t)op->kind << 8 |
                                              (uint64_t)lane << 16 | (uint64_t)matched << 24 |
                                              (uint64_t)op->count << 32;
    *finder_queue_word(queue, queue->write + 1) = op->key;
    *finder_queue_word(queue, queue->write + 2) = (uint32_t)place->number | (uint64_t)turn << 32;
    *finder_queue_word(queue, queue->write + 3) = period << 32 | place->op;
    finder_queue_put_ids(queue, queue->write + 4, op->ids, op->count);
    finder_queue_publish(queue, words);
    return true;
}

/* A message of a word that is split and a whole one. */
static inline bool finder_queue_put(struct finder_queue *queue, enum finder_message message,
                                    uint32_t id, uint64_t value, uint64_t spare)
{
    if (!finder_queue_has_room(queue, 2, spare)) return false;
    *finder_queue_word(queue, queue->write) = message | (uint64_t)id << 32;
    *finder_queue_word(queue, queue->write + 1) = value;
    finder_queue_publish(queue, 2);
    return true;
}

/* The reader. */

static inline bool finder_queue_peek(struct finder_queue *queue, struct finder_event *event,
                                     uint64_t *next)
{
    uint64_t at = atomic_load_explicit(&queue->read, memory_order_relaxed);
    if (at == atomic_load_explicit(&queue->written, memory_order_acquire)) return false;
    uint64_t head = *finder_queue_word(queue, at);
    event->message = head & 0xFF;
    event->id = (uint32_t)(head >> 32);
    event->key = *finder_queue_word(queue, at + 1);
    *next = at + 2;
    if (event->message != FINDER_OP) return true;
    event->kind = head >> 8 & 0xFF;
    event->lane = head >> 16 & 0xFF;
    event->matched = head >> 24 & 1;
    event->count = (uint32_t)(head >> 32);
    event->number = (uint32_t)*finder_queue_word(queue, at + 2);
    event->turn = (uint32_t)(*finder_queue_word(queue, at + 2) >> 32);
    event->period = (uint32_t)(*finder_queue_word(queue, at + 3) >> 32);
    event->place = (uint32_t)*finder_queue_word(queue, at + 3);
    event->ids = at + 4;
    *next = at + 4 + (event->count + UINT64_C(1)) / 2;
    return true;
}

static inline uint32_t finder_queue_id(const struct finder_queue *queue,
                                       const struct finder_event *event, uint32_t i)
{
    return (uint32_t)(*finder_queue_word(queue, event->ids + i / 2) >> (i % 2 * 32));
}

/* Gives the words up to `next` back to the writer. */
static inline void finder_queue_done(struct finder_queue *queue, uint64_t next)
{
    atomic_store_explicit(&queue->read, next, memory_order_release);
}

#endif
