/* foresight: which memory will be used when, as far as a repeating program lets us know.
 *
 * Where the program is in a known period (trace/finder.h), each operation is an entry of that
 * period: the segments it touched last time, and for each how many operations later it was touched
 * again. So at the operation's next turn the next use of what it touches is known. With it goes how
 * much lived at each operation: what is about to be born or to die. Operations are counted for each
 * card, by what they touch: cards whose threads race do not push back each other's. A touch is
 * known by its segment. What an operation touches that it did not touch last time takes the part of
 * what it touched then and does not now, in order: an allocator has put the same thing elsewhere.
 *
 * A wrong forecast costs time only: it decides what leaves and what comes early, never whether
 * something is there. Pure; under the pool's lock. */
#ifndef MOVE_FORESIGHT_H
#define MOVE_FORESIGHT_H

#include "block/segment.h"

enum {
    FORESIGHT_PERIODS = 4,
    FORESIGHT_TOUCHES = 1 << 21, /* of all periods together, this turn's and the last one's */
    FORESIGHT_OPS = 1 << 17,     /* of one period */
    FORESIGHT_STRETCH = 64,
    FORESIGHT_NEAR = 8,    /* operations ahead that an unknown one may be */
    FORESIGHT_STRAYS = 32, /* unknown operations after which nothing is foretold any more */
};

struct move_touch {
    struct segment *segment;
    uint32_t generation;              /* the owner that is meant: it may go while others wait */
    uint32_t first_chunk, last_chunk; /* inclusive */
    bool pinned;                      /* by move */
};

struct foresight_touch {
    struct segment *segment;
    uint32_t ahead; /* operations until the next touch, last time; 0: not known */
    bool dies;      /* what lived there died before that touch */
    bool matched;   /* the operation's next turn touched the same segment */
};

struct foresight_op {
    uint32_t first, count; /* its last turn's part of the touches */
    uint32_t spare, room;  /* where its next turn's goes: for so many, as where `first` is */
    bool noted;            /* it has been entered */
    uint16_t cards;        /* bit i: it is one of card i's operations */
};

/* So many operations of a period in a row that whoever looks ahead need not look at each of them.
 */
struct foresight_stretch {
    uint32_t most;     /* of their entries in foresight_card.needed */
    uint32_t op_count; /* that are the card's */
};

/* What a period is to a card: those of its operations that touch what is the card's, or nothing. */
struct foresight_card {
    /* Of each operation, if any is the card's: when it was entered, pages of the card's chunks in
     * which something lived, and 1; 0: it is not the card's. */
    uint32_t *needed;
    struct foresight_stretch *stretches; /* of FORESIGHT_STRETCH operations each */
    uint32_t op_count;                   /* that are the card's */
    uint32_t at;                         /* of them the one entered last */
};

struct foresight_period {
    uint32_t number; /* the finder's; 0: none */
    uint32_t op_count;
    uint32_t known; /* operations that were entered */
    uint64_t used;  /* when it was followed last */
    uint64_t notes; /* operations entered in it */
    struct foresight_op *ops;
    struct foresight_card cards[VP_MAX_CARDS];
};

struct foresight {
    const struct segments *segments;
    uint64_t clock;                /* operations so far; the first is 1 */
    uint64_t clocks[VP_MAX_CARDS]; /* the same of each card's */
    struct foresight_period periods[FORESIGHT_PERIODS];
    const struct foresight_period *following; /* NULL: nothing is foretold */
    uint32_t strayed;                         /* unknown operations since */
    uint64_t unknown_at;                      /* the last one, by the clock */
    struct foresight_touch *touches;
    uint32_t touch_count;
};

/* VP_NO_HOST_MEMORY. */
vp_status foresight_create(struct foresight *foresight,
                           const struct segments *segments) VP_MUST_USE;
void foresight_destroy(struct foresight *foresight);

/* An operation enters: operation `op` of a period of `op_count`, or, with period 0, one that
 * nothing is known of. Foretells the next use of each segment touched. `needed_pages`: of each card
 * (block/segment.h). */
void foresight_note(struct foresight *foresight, uint32_t period, uint32_t op_count, uint32_t op,
                    const struct move_touch *touches, uint32_t count,
                    const uint64_t needed_pages[VP_MAX_CARDS]);

/* What lived in the segment is dead. */
void foresight_died(struct foresight *foresight, struct segment *segment);

/* Operations of the card until the next use of a segment of its own, from 1; UINT32_MAX: none is
 * foretold. */
static inline uint32_t foresight_ahead_at(const struct foresight *foresight, unsigned card,
                                          const struct outlook *outlook)
{
    uint64_t clock = foresight->clocks[card], ahead = outlook->next_use - clock;
    return outlook->next_use > clock && ahead < UINT32_MAX ? (uint32_t)ahead : UINT32_MAX;
}

/* The segment is not BARE. Without foresight none is foretold. */
static inline uint32_t foresight_ahead(const struct foresight *foresight,
                                       const struct segment *segment)
{
    if (!foresight->segments) return UINT32_MAX;
    return foresight_ahead_at(foresight, segment->card,
                              segment_outlook(foresight->segments, segment));
}

/* True where enough is known to act on. */
static inline bool foresight_sees(const struct foresight *foresight)
{
    return foresight->following && foresight->following->notes > foresight->following->op_count;
}

/* True where the last period was as foretold, without anything unknown in between. */
static inline bool foresight_is_calm(const struct foresight *foresight)
{
    return foresight->clock - foresight->unknown_at > foresight->following->op_count;
}

/* Operations of the card in a period; 0: nothing is foretold of it. */
static inline uint32_t foresight_length(const struct foresight *foresight, unsigned card)
{
    return foresight->following->cards[card].op_count;
}

/* Over the card's operations ahead, as many as there are in a period. */
struct foresight_walk {
    const struct foresight_card *card;
    uint32_t op, op_count;
};

static inline struct foresight_walk foresight_walk_begin(const struct foresight *foresight,
                                                         unsigned card)
{
    const struct foresight_period *period = foresight->following;
    return (struct foresight_walk){&period->cards[card], period->cards[card].at, period->op_count};
}

/* The operation of the period behind the walk's. */
static inline uint32_t foresight_walk_next(const struct foresight_walk *walk)
{
    return walk->op + 1 < walk->op_count ? walk->op + 1 : 0;
}

/* On to the next one, of which there is one: pages of the card's chunks in which something lives
 * then. */
static inline uint64_t foresight_walk_on(struct foresight_walk *walk)
{
    do walk->op = foresight_walk_next(walk);
    while (!walk->card->needed[walk->op]);
    return walk->card->needed[walk->op] - 1;
}

/* The stretch that begins with the next operation, if that has one of the card's and `most` of them
 * at most; NULL: none does. */
static inline const struct foresight_stretch *
foresight_walk_stretch(const struct foresight_walk *walk, uint32_t most)
{
    uint32_t next = foresight_walk_next(walk);
    if (next % FORESIGHT_STRETCH) return NULL;
    const struct foresight_stretch *stretch = &walk->card->stretches[next / FORESIGHT_STRETCH];
    return stretch->op_count && stretch->op_count <= most ? stretch : NULL;
}

/* On to the last operation of that stretch. */
static inline void foresight_walk_over(struct foresight_walk *walk)
{
    uint32_t end = foresight_walk_next(walk) + FORESIGHT_STRETCH;
    walk->op = (end < walk->op_count ? end : walk->op_count) - 1;
}

/* Most pages of the card's chunks in which something lives at one of the card's next `ops`
 * operations, of which there are so many in a period. */
static inline uint64_t foresight_most_needed(const struct foresight *foresight, unsigned card,
                                             uint32_t ops)
{
    struct foresight_walk walk = foresight_walk_begin(foresight, card);
    uint64_t most = 0;
    while (ops > 0) {
        const struct foresight_stretch *stretch = foresight_walk_stretch(&walk, ops);
        uint64_t needed = stretch ? stretch->most - 1 : foresight_walk_on(&walk);
        if (stretch) foresight_walk_over(&walk);
        ops -= stretch ? stretch->op_count : 1;
        if (needed > most) most = needed;
    }
    return most;
}

#endif
