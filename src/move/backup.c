#include "move/backup.h"

#include <assert.h>

#include "move/refuge.h"

enum {
    DOUBT_MOST = 6,
    TRUST_MOST = 16,
    PROBES = 64,     /* chunks whose backups are dear before any was found to be of use */
    FREE_LEAVES = 2, /* after which the next is expected to be free too */
    SPARSE = 32,     /* where hardly any is of use, one in so many is tried */
};

static bool may_help(const struct move *move, const struct chunk *chunk)
{
    const struct segment *segment = chunk->segment;
    return (move->digests >> segment->card & 1) && !segment->unchecked && !segment->captured;
}

bool backup_is_the_rule(const struct move *move)
{
    return move->trust == TRUST_MOST;
}

bool backup_is_worth(struct move *move, const struct chunk *chunk)
{
    if (!may_help(move, chunk)) return false;
    if (chunk->segment->proven || move->trust > -TRUST_MOST) return true;
    return ++move->untried % SPARSE == 0;
}

/* A new frame on the host costs ten copies: whether one is made rather than this one taken. */
static bool is_dear(const struct move *move, const struct chunk *chunk,
                    const struct frame_place *place)
{
    const struct segment *segment = chunk->segment;
    if (chunk->early) return true; /* the copy is paid for */
    if (segment->doubt) return false;
    return segment->proven || move->trust > 0 ||
           place->dear_pages < PROBES * (uint64_t)move->segments->chunk_pages;
}

void backup_keep(struct move *move, struct chunk *chunk, struct frame *frame)
{
    bool keeps = chunk->digested && !frame->copies && chunk_is_live(chunk) &&
                 move_chunk_is_home(move, chunk) && !chunk->backup;
    if (!keeps) {
        frame_give(move->frames, frame);
        return;
    }
    bool dear = is_dear(move, chunk, &move->frames->place[frame->place]);
    frame_lay_by(move->frames, frame, &chunk->backup, dear);
}

struct frame *backup_take(struct move *move, struct chunk *chunk, bool *check)
{
    if (chunk->backup && refuge_keeps_mapped(move, chunk) &&
        !refuge_is_usable(move, chunk->segment->card, chunk->backup->place))
        backup_lose(move, chunk);
    *check = backup_tells(move, chunk) && (chunk->early || may_help(move, chunk));
    if (!*check) chunk->digested = false;
    return chunk->backup ? frame_recover(move->frames, &chunk->backup) : NULL;
}

void backup_lose(struct move *move, struct chunk *chunk)
{
    if (!chunk->backup) return;
    frame_let_go(move->frames, &chunk->backup);
    if (!chunk_is_live(chunk)) backup_note(move, chunk, false); /* it was of no use either */
}

void backup_note(struct move *move, struct chunk *chunk, bool unchanged)
{
    struct segment *segment = chunk->segment;
    segment->proven = unchanged;
    if (unchanged) {
        segment->doubt = 0;
        if (move->trust < TRUST_MOST) move->trust++;
        return;
    }
    if (segment->doubt < DOUBT_MOST) segment->doubt++;
    if (segment->doubt > 1) segment->unchecked = 1u << segment->doubt;
    if (move->trust > -TRUST_MOST) move->trust--;
}

void backup_note_leave(struct move *move, struct chunk *chunk, bool free)
{
    struct segment *segment = chunk->segment;
    bool was_clean = chunk->free_leaves == FREE_LEAVES;
    if (!free)
        chunk->free_leaves = 0;
    else if (!was_clean)
        chunk->free_leaves++;
    if (free)
        chunk->paid_leaves = 0;
    else if (chunk->paid_leaves < UINT8_MAX)
        chunk->paid_leaves++;
    bool clean = chunk->free_leaves == FREE_LEAVES;
    if (clean && !was_clean) segment->clean_chunks++;
    if (was_clean && !clean) segment->clean_chunks--;
    segment_outlook(move->segments, segment)->clean = segment->clean_chunks == segment->chunk_count;
}
