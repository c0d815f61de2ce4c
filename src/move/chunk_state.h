/* The one place where a chunk's state changes, and the queues that follow from it. */
#ifndef MOVE_CHUNK_STATE_H
#define MOVE_CHUNK_STATE_H

#include "move/move.h"

/* Takes the chunk through `event`, which must be possible; from then on `frame` holds its data and
 * `other` is the second frame of a move. Keeps the counts and the page table that follow from state
 * and frames. */
void chunk_change(struct move *move, struct chunk *chunk, enum move_event event,
                  struct frame *frame, struct frame *other);

/* Removes the chunk from the queue of demands or of copied chunks, if it is in one. */
void chunk_unqueue(struct chunk *chunk);

#endif
