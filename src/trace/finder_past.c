#include "trace/finder_past.h"

enum { NO_BLOCK = UINT32_MAX };

bool finder_past_create(struct finder_past *past)
{
    memset(past, 0, sizeof *past);
    past->free_block = past->dead_head = past->dead_tail = NO_BLOCK;
    past->ops = malloc(FINDER_HISTORY * sizeof *past->ops);
    past->touches = malloc(FINDER_HISTORY_TOUCHES * sizeof *past->touches);
    bool mapped = finder_map_create(&past->ids, 1024);
    if (past->ops && past->touches && mapped) return true;
    finder_past_destroy(past);
    return false;
}

void finder_past_destroy(struct finder_past *past)
{
    free(past->ops);
    free(past->touches);
    free(past->blocks);
    finder_map_destroy(&past->ids);
    for (unsigned i = 0; i < FINDER_STREAMS; i++) free(past->lanes[i]);
    memset(past, 0, sizeof *past);
}

static void forget_dead(struct finder_past *past)
{
    while (past->dead_head != NO_BLOCK) {
        uint32_t index = past->dead_head;
        struct finder_past_block *block = &past->blocks[index];
        if (block->died > past->first) return;
        past->dead_head = block->next;
        if (past->dead_head == NO_BLOCK) past->dead_tail = NO_BLOCK;
        block->next = past->free_block;
        past->free_block = index;
    }
}

void finder_past_restart(struct finder_past *past, uint64_t next, bool blocks)
{
    past->first = past->end = next;
    forget_dead(past);
    if (!blocks) return;
    finder_map_clear(&past->ids);
    past->block_count = 0;
    past->free_block = past->dead_head = past->dead_tail = NO_BLOCK;
}

static uint32_t new_block(struct finder_past *past)
{
    uint32_t index = past->free_block;
    if (index != NO_BLOCK) {
        past->free_block = past->blocks[index].next;
        return index;
    }
    if (past->block_count == past->block_room) {
        uint32_t room = past->block_room ? 2 * past->block_room : 1024;
        void *blocks = realloc(past->blocks, room * sizeof *past->blocks);
        if (!blocks) return NO_BLOCK;
        past->blocks = blocks;
        past->block_room = room;
    }
    return past->block_count++;
}

bool finder_past_alloc(struct finder_past *past, uint32_t id, uint64_t bytes)
{
    uint32_t index = finder_map_find(&past->ids, id);
    if (index != FINDER_ABSENT) {
        past->blocks[index].bytes = bytes;
        return true;
    }
    if (finder_map_is_full(&past->ids) && !finder_map_grow(&past->ids)) return false;
    index = new_block(past);
    if (index == NO_BLOCK) return false;
    past->blocks[index] = (struct finder_past_block){.bytes = bytes,
                                                     .born = past->end,
                                                     .died = FINDER_ALIVE,
                                                     .born_rank = past->rank++,
                                                     .id = id,
                                                     .name_lane = FINDER_STREAMS,
                                                     .next = NO_BLOCK};
    finder_map_set(&past->ids, id, index);
    return true;
}

void finder_past_free(struct finder_past *past, uint32_t id)
{
    uint32_t index = finder_map_find(&past->ids, id);
    if (index == FINDER_ABSENT) return;
    struct finder_past_block *block = &past->blocks[index];
    finder_map_remove(&past->ids, id);
    block->died = past->end;
    block->died_rank = past->rank++;
    if (past->dead_tail == NO_BLOCK)
        past->dead_head = index;
    else
        past->blocks[past->dead_tail].next = index;
    past->dead_tail = index;
}

struct finder_past_op *finder_past_add(struct finder_past *past, uint32_t lane, uint32_t turn,
                                       uint32_t touch_count)
{
    if (!past->lanes[lane]) {
        past->lanes[lane] = calloc(FINDER_HISTORY, sizeof *past->lanes[lane]);
        if (!past->lanes[lane]) return NULL;
    }
    past->touch_end += touch_count;
    uint64_t next = past->end + 1;
    while (
        past->first < past->end &&
        (next - past->first > FINDER_HISTORY ||
         past->touch_end - finder_past_op(past, past->first)->first_touch > FINDER_HISTORY_TOUCHES))
        past->first++;
    forget_dead(past);
    struct finder_past_op *op = &past->ops[past->end % FINDER_HISTORY];
    *op = (struct finder_past_op){.first_touch = past->touch_end - touch_count,
                                  .touch_count = touch_count,
                                  .turn = turn,
                                  .matched = past->matched,
                                  .keyed = past->keyed,
                                  .lane = (uint8_t)lane};
    past->turns[lane] = turn + 1;
    past->rank = 0;
    past->lanes[lane][turn % FINDER_HISTORY] = past->end++;
    return op;
}

bool finder_past_touch(struct finder_past *past, struct finder_past_op *op, uint32_t index,
                       uint32_t id)
{
    uint32_t at = finder_map_find(&past->ids, id);
    if (at == FINDER_ABSENT) {
        if (!finder_past_alloc(past, id, 0)) return false;
        at = finder_map_find(&past->ids, id);
        past->blocks[at].born = past->end - 1; /* before this op */
    }
    struct finder_past_block *block = &past->blocks[at];
    if (block->name_lane == FINDER_STREAMS) {
        block->name_lane = op->lane;
        block->name_turn = op->turn;
        block->named = past->end - 1;
        block->name_index = index;
    }
    past->touches[(op->first_touch + index) % FINDER_HISTORY_TOUCHES] = at;
    return true;
}

struct finder_past_op *finder_past_turn(const struct finder_past *past, uint32_t lane,
                                        uint32_t turn)
{
    uint32_t back = past->turns[lane] - turn;
    if (!past->lanes[lane] || back == 0 || back > FINDER_HISTORY) return NULL;
    uint64_t number = finder_past_number(past, lane, turn);
    if (number < past->first || number >= past->end) return NULL;
    struct finder_past_op *op = finder_past_op(past, number);
    return op->lane == lane && op->turn == turn ? op : NULL;
}

bool finder_past_is_valid(const struct finder_past *past)
{
    uint32_t live = 0, dead = 0, unused = 0;
    for (uint32_t i = 0; i <= past->ids.mask; i++) {
        if (past->ids.entries[i].id == 0) continue;
        const struct finder_past_block *block = &past->blocks[past->ids.entries[i].value];
        if (block->id != past->ids.entries[i].id || block->died != FINDER_ALIVE) return false;
        live++;
    }
    for (uint32_t i = past->dead_head; i != NO_BLOCK; i = past->blocks[i].next) dead++;
    for (uint32_t i = past->free_block; i != NO_BLOCK; i = past->blocks[i].next) unused++;
    for (uint64_t number = past->first; number < past->end; number++) {
        const struct finder_past_op *op = finder_past_op(past, number);
        if (finder_past_number(past, op->lane, op->turn) != number) return false;
        for (uint32_t i = 0; i < op->touch_count; i++)
            if (finder_past_block(past, op, i)->born > number) return false;
    }
    return live == past->ids.count && live + dead + unused == past->block_count;
}
