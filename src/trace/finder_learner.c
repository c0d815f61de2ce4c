#include "trace/finder_learner.h"

enum {
    TOUCHES_PROPOSING = 2,  /* of each operation */
    MISSES_MIN = 4,         /* a candidate may have so many, */
    MISS_SHARE = 32,        /* and one more for each so many operations */
    LOOSE_TIMES = 4,        /* repetitions of a loose period */
    UNFORESEEN_SHARE = 128, /* a period is worth having from one unforeseen operation in so many, */
    UNFORESEEN_MIN = 16,    /* and so many: more than the follower needs to find its way again */
    EXTEND_FROM = 32,       /* a clean run that is looked back from, */
    EXTEND_MAX = 4096,      /* so far */
    WEIGH_EVERY = 256,
    RACE_TIMES = 4, /* periods before the length of a lane that races can be told, */
    SKEW = 8,       /* which is so close to their average */
};

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ hash >> 32;
}

bool finder_learner_create(struct finder_learner *learner)
{
    memset(learner, 0, sizeof *learner);
    learner->seen = calloc(FINDER_SEEN, sizeof *learner->seen);
    return finder_past_create(&learner->past) && learner->seen;
}

void finder_learner_destroy(struct finder_learner *learner)
{
    while (learner->periods) finder_learner_forget(learner, learner->periods);
    free(learner->seen);
    finder_past_destroy(&learner->past);
}

static void drop_candidates(struct finder_learner *learner)
{
    memset(learner->candidates, 0, sizeof learner->candidates);
}

void finder_learner_restart(struct finder_learner *learner, bool blocks)
{
    finder_past_restart(&learner->past, learner->past.end, blocks);
    drop_candidates(learner);
}

void finder_learner_forget(struct finder_learner *learner, struct finder_period *period)
{
    struct finder_period **link = &learner->periods;
    while (*link != period) link = &(*link)->next;
    *link = period->next;
    finder_period_destroy(period);
}

struct finder_period *finder_learner_period(const struct finder_learner *learner, uint32_t number)
{
    struct finder_period *period = learner->periods;
    while (period && period->number != number) period = period->next;
    return period;
}

/* Candidates. */

/* Whether the touch of block `y` repeats that of `x`; lengths of other lanes are learned on the
 * way. */
static bool touch_repeats(const struct finder_past_block *x, const struct finder_past_block *y,
                          uint32_t *lengths)
{
    if (x == y) return true;
    if (x->bytes != y->bytes || x->name_lane != y->name_lane || x->name_index != y->name_index ||
        x->name_lane == FINDER_STREAMS)
        return false;
    uint32_t apart = y->name_turn - x->name_turn;
    if (lengths[x->name_lane] == 0) lengths[x->name_lane] = apart;
    return lengths[x->name_lane] == apart;
}

static bool op_repeats(const struct finder_past *past, const struct finder_past_op *before,
                       const struct finder_past_op *op, uint32_t *lengths)
{
    if (before->key != op->key || before->touch_count != op->touch_count) return false;
    for (uint32_t i = 0; i < op->touch_count; i++)
        if (!touch_repeats(finder_past_block(past, before, i), finder_past_block(past, op, i),
                           lengths))
            return false;
    return true;
}

/* Looks whether what came before the candidate was proposed repeats itself, too. */
static void extend(struct finder_learner *learner, struct finder_candidate *candidate,
                   const struct finder_past_op *last)
{
    candidate->extended = true;
    for (uint32_t i = 0; i < EXTEND_MAX && candidate->clean < candidate->length; i++) {
        uint32_t turn = last->turn - candidate->clean;
        const struct finder_past_op *op = finder_past_turn(&learner->past, learner->lead, turn);
        const struct finder_past_op *before =
            finder_past_turn(&learner->past, learner->lead, turn - candidate->length);
        if (!op || !before || !op_repeats(&learner->past, before, op, candidate->lengths)) return;
        candidate->clean++;
        candidate->run++;
    }
}

static void test_candidate(struct finder_learner *learner, struct finder_candidate *candidate,
                           const struct finder_past_op *op)
{
    const struct finder_past_op *before =
        finder_past_turn(&learner->past, learner->lead, op->turn - candidate->length);
    if (!before) {
        candidate->length = 0;
        return;
    }
    candidate->run++;
    if (op_repeats(&learner->past, before, op, candidate->lengths)) {
        candidate->clean++;
        if (candidate->clean >= candidate->length) candidate->run = candidate->misses = 0;
        if (candidate->clean >= EXTEND_FROM && !candidate->extended && candidate->misses == 0)
            extend(learner, candidate, op);
        return;
    }
    candidate->clean = candidate->next_clean = 0;
    if (++candidate->misses > MISSES_MIN + candidate->run / MISS_SHARE) candidate->length = 0;
}

static uint32_t strength(const struct finder_candidate *candidate)
{
    return candidate->run > candidate->clean ? candidate->run : candidate->clean;
}

static void propose(struct finder_learner *learner, uint32_t length)
{
    if (length == 0 || length >= FINDER_HISTORY) return;
    if (length < FINDER_SHORTEST) length *= (FINDER_SHORTEST + length - 1) / length;
    struct finder_candidate *weakest = &learner->candidates[0];
    for (unsigned i = 0; i < FINDER_CANDIDATES; i++) {
        struct finder_candidate *candidate = &learner->candidates[i];
        if (candidate->length == length) return;
        if (candidate->length == 0)
            weakest = candidate;
        else if (weakest->length != 0 && strength(candidate) < strength(weakest))
            weakest = candidate;
    }
    *weakest = (struct finder_candidate){.length = length};
    weakest->lengths[learner->lead] = length;
}

/* Proposes the distance to where the sign was last seen. */
static void sight(struct finder_learner *learner, uint64_t sign, uint32_t turn)
{
    struct finder_sighting *seen = &learner->seen[sign % FINDER_SEEN];
    uint32_t tag = (uint32_t)(sign >> 32) | 1;
    if (seen->tag == tag) propose(learner, turn - seen->turn);
    *seen = (struct finder_sighting){tag, turn};
}

static void sight_op(struct finder_learner *learner, const struct finder_past_op *op)
{
    learner->context = finder_context(learner->context, op->key);
    sight(learner, mix(learner->context, learner->lead), op->turn);
    for (uint32_t i = 0; i < op->touch_count && i < TOUCHES_PROPOSING; i++) {
        const struct finder_past_block *block = finder_past_block(&learner->past, op, i);
        if (block->name_lane == op->lane && block->name_turn == op->turn) continue; /* new */
        sight(learner, mix(mix(op->key, i), block->id), op->turn);
    }
}

/* Periods. */

/* Whether the last `length` turns of a lane are as those before. Of a loose period a few may
 * differ. */
static bool lane_repeats(const struct finder_past *past, uint32_t lane, uint32_t length,
                         uint32_t *lengths, bool loose)
{
    uint32_t misses = 0, known[FINDER_STREAMS];
    memcpy(known, lengths, sizeof known);
    known[lane] = length;
    for (uint32_t i = 1; i <= length; i++) {
        const struct finder_past_op *op = finder_past_turn(past, lane, past->turns[lane] - i);
        const struct finder_past_op *before =
            finder_past_turn(past, lane, past->turns[lane] - i - length);
        if (!op || !before) return false;
        misses += !op_repeats(past, before, op, known);
        if (misses > (loose ? MISSES_MIN + length / MISS_SHARE : 0)) return false;
    }
    memcpy(lengths, known, sizeof known);
    return true;
}

/* Turns of a lane since the last `turns` ones of the lead lane began; as far as is remembered. */
static uint32_t turns_within(const struct finder_learner *learner, uint32_t lane, uint32_t turns)
{
    const struct finder_past *past = &learner->past;
    uint32_t count = 0, first_turn = past->turns[learner->lead] - turns;
    const struct finder_past_op *first = finder_past_turn(past, learner->lead, first_turn);
    uint64_t from = first ? finder_past_number(past, learner->lead, first_turn) : past->first;
    while (count < FINDER_HISTORY) {
        const struct finder_past_op *op =
            finder_past_turn(past, lane, past->turns[lane] - count - 1);
        if (!op || finder_past_number(past, lane, op->turn) < from) break;
        count++;
    }
    return count;
}

/* Whether the last `length` turns of a lane came as many operations behind those before as those of
 * the lead lane: nobody races. */
static bool keeps_order(const struct finder_learner *learner, uint32_t lane, uint32_t length,
                        uint32_t lead_length)
{
    const struct finder_past *past = &learner->past;
    uint32_t last = past->turns[learner->lead] - 1;
    if (!finder_past_turn(past, learner->lead, last - lead_length)) return false;
    uint64_t apart = finder_past_number(past, learner->lead, last) -
                     finder_past_number(past, learner->lead, last - lead_length);
    for (uint32_t i = 1; i <= length; i++) {
        uint32_t turn = past->turns[lane] - i;
        if (!finder_past_turn(past, lane, turn - length) ||
            finder_past_number(past, lane, turn) - finder_past_number(past, lane, turn - length) !=
                apart)
            return false;
    }
    return true;
}

/* Finds the length of another lane. Where none races, it is the number of its turns in the period;
 * otherwise it takes more periods, so that their average tells, and the closest length that repeats
 * is taken. */
static bool find_length(const struct finder_learner *learner, uint32_t lane,
                        const struct finder_candidate *candidate, struct finder_repeat *repeat)
{
    const struct finder_past *past = &learner->past;
    uint32_t last = turns_within(learner, lane, candidate->length);
    if (repeat->lengths[lane])
        return lane_repeats(past, lane, repeat->lengths[lane], repeat->lengths, repeat->loose);
    if (keeps_order(learner, lane, last, candidate->length))
        return lane_repeats(past, lane, last, repeat->lengths, repeat->loose);
    uint32_t periods = 1 + candidate->clean / candidate->length;
    if (periods < RACE_TIMES) return false;
    uint32_t count = turns_within(learner, lane, periods * candidate->length);
    uint32_t average = (count + periods / 2) / periods;
    for (uint32_t skew = 0; skew <= SKEW; skew++) {
        if (lane_repeats(past, lane, average + skew, repeat->lengths, repeat->loose)) return true;
        if (skew && skew < average &&
            lane_repeats(past, lane, average - skew, repeat->lengths, repeat->loose))
            return true;
    }
    return false;
}

/* Completes what the lead lane repeats by the other lanes; those that repeat nothing are left out
 * of a loose period. */
static bool find_repeat(const struct finder_learner *learner,
                        const struct finder_candidate *candidate, struct finder_repeat *repeat)
{
    const struct finder_past *past = &learner->past;
    uint32_t lead = learner->lead;
    memcpy(repeat->lengths, candidate->lengths, sizeof repeat->lengths);
    repeat->lead = lead;
    const struct finder_past_op *first =
        finder_past_turn(past, lead, past->turns[lead] - candidate->length);
    if (!first) return false;
    for (uint32_t lane = 0; lane < FINDER_STREAMS; lane++) {
        if (lane == lead || !past->lanes[lane]) continue;
        bool silent = turns_within(learner, lane, candidate->length) == 0;
        if (silent) repeat->lengths[lane] = 0;
        if (silent || find_length(learner, lane, candidate, repeat)) continue;
        if (!repeat->loose) return false;
        repeat->lengths[lane] = 0;
    }
    return true;
}

/* The same wherever in the period the window starts, and different for other periods: a sum over
 * its operations. *touching: whether they touch anything. */
static uint64_t sign(const struct finder_past *past, const struct finder_repeat *repeat,
                     bool *touching)
{
    uint64_t sum = 0;
    *touching = false;
    for (uint32_t lane = 0; lane < FINDER_STREAMS; lane++) {
        uint32_t length = repeat->lengths[lane];
        uint64_t context = 0;
        sum += mix(lane, length);
        for (uint32_t i = length ? length + 4 : 0; i > 0; i--) {
            const struct finder_past_op *op = finder_past_turn(past, lane, past->turns[lane] - i);
            if (op) context = finder_context(context, op->key);
            if (i > length || !op) continue;
            const struct finder_past_op *before = finder_past_turn(past, lane, op->turn - length);
            sum += mix(context, op->touch_count);
            *touching |= op->touch_count > 0;
            if (!before || before->touch_count != op->touch_count) continue;
            for (uint32_t k = 0; k < op->touch_count; k++) {
                const struct finder_past_block *block = finder_past_block(past, op, k);
                if (finder_past_block(past, before, k) == block) sum += mix(op->key + k, block->id);
            }
        }
    }
    return sum;
}

/* Counts what the follower did not foresee in the period, since it has the newest one. While that
 * is on its way, and no longer ago than this one is long, there is no telling. */
static bool is_worth_having(const struct finder_learner *learner,
                            const struct finder_candidate *candidate, bool loose)
{
    const struct finder_past *past = &learner->past;
    const struct finder_past_op *last = finder_past_op(past, past->end - 1);
    uint32_t turn = past->turns[learner->lead] - candidate->length;
    uint64_t from = finder_past_number(past, learner->lead, turn);
    if (!learner->newest_seen && learner->newest && learner->newest_from > from) return false;
    if (learner->newest_seen && learner->newest_from > from) from = learner->newest_from;
    uint64_t total = past->end - from;
    uint64_t unforeseen = total - (past->matched - finder_past_op(past, from)->matched);
    if (unforeseen >= UNFORESEEN_MIN && unforeseen * UNFORESEEN_SHARE >= total) return true;
    const struct finder_period *followed = finder_learner_period(learner, last->period);
    return followed && followed->loose && !loose;
}

static struct finder_period *make_period(struct finder_learner *learner,
                                         const struct finder_candidate *candidate, bool loose)
{
    struct finder_repeat repeat = {.loose = loose};
    repeat.times = 1 + (loose ? LOOSE_TIMES : candidate->clean / candidate->length);
    bool touching;
    if (!find_repeat(learner, candidate, &repeat)) return NULL;
    if (!is_worth_having(learner, candidate, loose)) return NULL;
    uint64_t signature = sign(&learner->past, &repeat, &touching);
    if (!touching) return NULL;
    for (struct finder_period *known = learner->periods; known; known = known->next)
        if (known->signature == signature) return NULL;
    struct finder_period *period = finder_period_create(&learner->past, &repeat);
    if (!period) return NULL;
    period->signature = signature;
    period->number = ++learner->newest;
    learner->newest_seen = false;
    learner->newest_from = learner->past.end;
    period->next = learner->periods;
    learner->periods = period;
    learner->handover.period = period;
    memcpy(learner->handover.turns, learner->past.turns, sizeof learner->handover.turns);
    return period;
}

static bool is_due(const struct finder_candidate *candidate, bool *loose)
{
    if (candidate->length == 0) return false;
    *loose = candidate->clean < candidate->length;
    if (!*loose) return candidate->clean >= candidate->next_clean;
    return candidate->run / LOOSE_TIMES >= candidate->length &&
           candidate->misses <= candidate->run / MISS_SHARE &&
           candidate->run >= candidate->next_loose;
}

/* The shortest candidate that has held long enough is made a period. */
static struct finder_period *look(struct finder_learner *learner)
{
    struct finder_candidate *best = NULL;
    bool best_loose = false, loose;
    for (unsigned i = 0; i < FINDER_CANDIDATES; i++) {
        struct finder_candidate *candidate = &learner->candidates[i];
        if (!is_due(candidate, &loose) || (best && best->length <= candidate->length)) continue;
        best = candidate;
        best_loose = loose;
    }
    if (!best) return NULL;
    if (best_loose)
        best->next_loose = best->run + LOOSE_TIMES * best->length;
    else
        best->next_clean = best->clean + best->length / 4 + 1;
    return make_period(learner, best, best_loose);
}

/* Every so often: is another lane the one to look at? */
static void weigh(struct finder_learner *learner, uint32_t lane)
{
    learner->weights[lane]++;
    if (++learner->ops % WEIGH_EVERY != 0) return;
    uint32_t heaviest = learner->lead;
    for (uint32_t i = 0; i < FINDER_STREAMS; i++)
        if (learner->weights[i] > learner->weights[heaviest]) heaviest = i;
    if (learner->weights[heaviest] > learner->weights[learner->lead] * 3 / 2) {
        learner->lead = heaviest;
        drop_candidates(learner);
    }
    for (uint32_t i = 0; i < FINDER_STREAMS; i++) learner->weights[i] /= 2;
}

static struct finder_period *study_op(struct finder_learner *learner,
                                      const struct finder_past_op *op, bool may_hand)
{
    weigh(learner, op->lane);
    if (op->lane != learner->lead) return NULL;
    for (unsigned i = 0; i < FINDER_CANDIDATES; i++)
        if (learner->candidates[i].length) test_candidate(learner, &learner->candidates[i], op);
    sight_op(learner, op);
    return may_hand ? look(learner) : NULL;
}

/* Messages. */

static struct finder_past_op *add_op(struct finder_learner *learner,
                                     const struct finder_queue *queue,
                                     const struct finder_event *event)
{
    struct finder_past *past = &learner->past;
    if (event->number != (uint32_t)past->end) { /* some were left out */
        finder_past_restart(past, past->end + (uint32_t)(event->number - (uint32_t)past->end),
                            false);
        drop_candidates(learner);
    }
    struct finder_past_op *op = finder_past_add(past, event->lane, event->turn, event->count);
    if (!op) return NULL;
    op->key = event->key;
    op->kind = (uint8_t)event->kind;
    op->period = event->period;
    op->place = event->place;
    past->matched += event->matched;
    if (!learner->newest_seen && op->period && op->period == learner->newest) {
        learner->newest_seen = true;
        learner->newest_from = past->end - 1;
    }
    for (uint32_t i = 0; i < event->count; i++)
        if (!finder_past_touch(past, op, i, finder_queue_id(queue, event, i))) return NULL;
    return op;
}

static void note_duration(struct finder_learner *learner, uint32_t number, uint64_t ns)
{
    struct finder_past *past = &learner->past;
    uint32_t back = (uint32_t)past->end - number;
    if (back == 0 || back > past->end - past->first) return;
    struct finder_past_op *op = finder_past_op(past, past->end - back);
    op->duration_ns = ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
    struct finder_period *period = op->period ? finder_learner_period(learner, op->period) : NULL;
    if (!period || op->place >= period->op_count) return;
    period->sum_ns[op->place] += op->duration_ns;
    period->samples[op->place] += op->duration_ns != 0;
}

struct finder_period *finder_learner_take(struct finder_learner *learner,
                                          const struct finder_queue *queue,
                                          const struct finder_event *event, bool may_hand)
{
    struct finder_past_op *op;
    switch (event->message) {
    case FINDER_ALLOC:
        if (!finder_past_alloc(&learner->past, event->id, event->key))
            finder_learner_restart(learner, true);
        return NULL;
    case FINDER_FREE: finder_past_free(&learner->past, event->id); return NULL;
    case FINDER_TOOK: note_duration(learner, event->id, event->key); return NULL;
    case FINDER_OP:
        op = add_op(learner, queue, event);
        if (op) return study_op(learner, op, may_hand);
        finder_learner_restart(learner, true);
        return NULL;
    }
    return NULL;
}
