/* backup: what a chunk that has come home left behind.
 *
 * The frame that it came from still holds the data. It is laid by (frame/frame.h), and the data's
 * digest with it (base/digest.h). When the chunk is to leave again, and its digest is still that,
 * nothing need be copied: the frame is its data again. So what is only read is copied out once.
 *
 * A backup is a guess that costs time at most: what decides is the digest made of the chunk at home
 * once all work that may touch it is done. Chunks that are always written are not worth one: a
 * segment found changed n times in a row is left alone for its next 2^n leaves; and where most were
 * changed of late, few others are tried: a digest holds up the copies behind it. */
#ifndef MOVE_BACKUP_H
#define MOVE_BACKUP_H

#include "move/move.h"

/* Whether the chunk, about to come home, should have a digest made. */
bool backup_is_worth(struct move *move, const struct chunk *chunk);

/* Whether it will hardly be copied if it leaves now. */
static inline bool backup_is_trusted(const struct chunk *chunk)
{
    return chunk->backup && chunk->segment->proven && !chunk->segment->unchecked;
}

/* Whether what lies in the segment was found as it came, or may well be: most was of late. */
static inline bool backup_is_likely(const struct move *move, const struct segment *segment)
{
    return segment->proven || (move->trust > 0 && !segment->doubt);
}

/* Whether nearly all that was checked of late was found as it came. */
bool backup_is_the_rule(const struct move *move);

/* Whether the digest of the chunk's backup is of what lives in the chunk now. */
static inline bool backup_tells(const struct move *move, const struct chunk *chunk)
{
    if (!chunk->backup || !chunk->digested) return false;
    struct span now = chunk_live_span(move->segments, chunk), then = chunk->digest_span;
    return now.start == then.start && now.bytes == then.bytes;
}

/* The chunk is at home, and `frame` is not needed any more: it becomes the backup where the chunk's
 * digest is that of what it holds, else it is given back. */
void backup_keep(struct move *move, struct chunk *chunk, struct frame *frame);

/* For a chunk that leaves: its backup, in use from now on, or NULL. With *check, it holds the data
 * if that has the chunk's digest; else it is just a frame. */
struct frame *backup_take(struct move *move, struct chunk *chunk, bool *check);

/* The chunk is not at home any more, or empty: lets the backup go, if there is one. */
void backup_lose(struct move *move, struct chunk *chunk);

/* The chunk left; `free`: without a copy, and none was made ahead of that. */
void backup_note_leave(struct move *move, struct chunk *chunk, bool free);

/* What came of a check. */
void backup_note(struct move *move, struct chunk *chunk, bool unchanged);

#endif
