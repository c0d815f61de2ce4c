/* A binary heap of small integers by key, that knows where each one is, so that keys can change.
 * Equal keys come out by number: the order is the same everywhere. The arrays are the owner's. */
#ifndef PLAN_HEAP_H
#define PLAN_HEAP_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#define HEAP_NOWHERE UINT32_MAX

struct heap {
    uint64_t *key;   /* of each number */
    uint32_t *order; /* numbers, least key first */
    uint32_t *place; /* of each number in order; HEAP_NOWHERE: not in the heap */
    uint32_t count;
};

static inline bool heap_has(const struct heap *heap, uint32_t number)
{
    return heap->place[number] != HEAP_NOWHERE;
}

static inline bool heap_less(const struct heap *heap, uint32_t a, uint32_t b)
{
    return heap->key[a] != heap->key[b] ? heap->key[a] < heap->key[b] : a < b;
}

static inline void heap_put(struct heap *heap, uint32_t at, uint32_t number)
{
    heap->order[at] = number;
    heap->place[number] = at;
}

/* Moves the number at `at` to where its key belongs. */
static inline void heap_settle(struct heap *heap, uint32_t at)
{
    uint32_t number = heap->order[at];
    while (at > 0 && heap_less(heap, number, heap->order[(at - 1) / 2])) {
        heap_put(heap, at, heap->order[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= heap->count) break;
        if (child + 1 < heap->count && heap_less(heap, heap->order[child + 1], heap->order[child]))
            child++;
        if (!heap_less(heap, heap->order[child], number)) break;
        heap_put(heap, at, heap->order[child]);
        at = child;
    }
    heap_put(heap, at, number);
}

/* Adds the number, or changes its key. */
static inline void heap_set(struct heap *heap, uint32_t number, uint64_t key)
{
    heap->key[number] = key;
    if (!heap_has(heap, number)) heap_put(heap, heap->count++, number);
    heap_settle(heap, heap->place[number]);
}

/* Takes it out, if it is in. */
static inline void heap_remove(struct heap *heap, uint32_t number)
{
    uint32_t at = heap->place[number];
    if (at == HEAP_NOWHERE) return;
    assert(at < heap->count && heap->order[at] == number);
    heap->place[number] = HEAP_NOWHERE;
    uint32_t last = heap->order[--heap->count];
    if (last == number) return;
    heap_put(heap, at, last);
    heap_settle(heap, at);
}

static inline uint32_t heap_first(const struct heap *heap)
{
    return heap->count ? heap->order[0] : HEAP_NOWHERE;
}

#endif
