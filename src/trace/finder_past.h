/* The learner's history: the last operations, what they touched, and the blocks that these were.
 *
 * Operations are numbered as they came; `first` … `end`-1 are remembered. Within their stream (its
 * lane) they are numbered too, in `turn`. A block's name is its first touch: lane, turn and index
 * in the touches. It says nothing of the order between lanes, and is the same distance apart for
 * all blocks that play the same role.
 *
 * A dead block is forgotten when no operation remembered can have touched it. */
#ifndef TRACE_FINDER_PAST_H
#define TRACE_FINDER_PAST_H

#include "trace/finder.h"
#include "trace/finder_map.h"

#define FINDER_ALIVE UINT64_MAX

struct finder_past_op {
    uint64_t key;
    uint64_t first_touch; /* in the ring of touches, counted from the start */
    uint32_t touch_count;
    uint32_t turn;
    uint32_t period, place; /* where the follower saw it; period 0: nowhere */
    uint32_t matched;       /* operations before it that were as foretold, modulo 2^32 */
    uint32_t keyed;         /* the same, but for their touches */
    uint32_t duration_ns;   /* 0: not known */
    uint8_t lane, kind;
};

struct finder_past_block {
    uint64_t bytes;
    uint64_t born, died;           /* operations before; FINDER_ALIVE */
    uint64_t named;                /* the operation that touched it first */
    uint32_t born_rank, died_rank; /* allocs and frees since the operation before */
    uint32_t id;
    uint32_t name_turn, name_index; /* valid where name_lane is */
    uint8_t name_lane;              /* FINDER_STREAMS: not touched yet */
    uint32_t mark, mark_round;      /* for whoever goes through the history */
    uint32_t next;                  /* among the dead, or the free records */
};

struct finder_past {
    struct finder_past_op *ops;
    uint32_t *touches;               /* indices of blocks */
    uint64_t *lanes[FINDER_STREAMS]; /* number of each turn; made at the first one */
    uint32_t turns[FINDER_STREAMS];  /* the next one, modulo 2^32 */
    uint64_t first, end, touch_end;
    uint32_t rank, matched, keyed;
    struct finder_map ids;
    struct finder_past_block *blocks;
    uint32_t block_count, block_room, free_block, dead_head, dead_tail, round;
};

bool finder_past_create(struct finder_past *past);
void finder_past_destroy(struct finder_past *past);

/* Forgets the operations; the blocks too where allocs or frees were missed. The next operation gets
 * the number `next`. */
void finder_past_restart(struct finder_past *past, uint64_t next, bool blocks);

/* False: no memory. A block that is alive already keeps its name. */
bool finder_past_alloc(struct finder_past *past, uint32_t id, uint64_t bytes);
void finder_past_free(struct finder_past *past, uint32_t id);

/* Starts an operation and returns it, to be filled in by the caller (touches by
 * finder_past_touch); NULL: no memory. */
struct finder_past_op *finder_past_add(struct finder_past *past, uint32_t lane, uint32_t turn,
                                       uint32_t touch_count);
bool finder_past_touch(struct finder_past *past, struct finder_past_op *op, uint32_t index,
                       uint32_t id);

static inline struct finder_past_op *finder_past_op(const struct finder_past *past, uint64_t number)
{
    assert(number >= past->first && number < past->end);
    return &past->ops[number % FINDER_HISTORY];
}

static inline struct finder_past_block *
finder_past_block(const struct finder_past *past, const struct finder_past_op *op, uint32_t index)
{
    return &past->blocks[past->touches[(op->first_touch + index) % FINDER_HISTORY_TOUCHES]];
}

/* Whether the block was made for use within so many operations. Otherwise its first touch says when
 * the program, or the finder, began, and nothing of its role. */
static inline bool finder_past_is_passing(const struct finder_past_block *block, uint64_t ops)
{
    return block->named - block->born <= ops;
}

/* The operation that was this turn of the lane; NULL: no longer, or not yet, remembered. */
struct finder_past_op *finder_past_turn(const struct finder_past *past, uint32_t lane,
                                        uint32_t turn);

/* Its number; only for turns that are remembered. */
static inline uint64_t finder_past_number(const struct finder_past *past, uint32_t lane,
                                          uint32_t turn)
{
    return past->lanes[lane][turn % FINDER_HISTORY];
}

bool finder_past_is_valid(const struct finder_past *past);

#endif
