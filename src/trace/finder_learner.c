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
    GAP_MOST = 8,           /* operations added or left out in one place, */
    GAP_PROOF = 4,          /* behind which so many keys are equal; */
    GAPS_MIN = 4,           /* so many such places, */
    GAP_SHARE = 64,         /* and one more for each so many operations */
    GAP_COST = 8,           /* operations that the follower loses at each */
    ALIKE = 16,             /* periods up to so much longer are made of the same steps */
    CHANGE_SHARE = 6,       /* and worth changing from one operation lost in so many */
    VOTERS = 16,            /* touches of an operation that may vote */
    VOTES_MIN = 8,          /* fewer say nothing */
    NOISY_LEAST = 512, /* operations that make a noisy period: a loop of layers is over by then,
                          or has had its votes */
    CLEAN_SOON = 4,    /* after that part of its length it may become clean */
    EXPLAINS_MORE = 9, /* a longer period is to have so many ninths of equal touches */
    EXPLAINS_LESS = 8,
    WEIGH_FIRST = 256, /* operations before the lanes are weighed; then twice as many each time, */
    WEIGH_MOST = 4096, /* up to so many: lanes that do as much take turns within a step */
    RACE_TIMES = 4,    /* periods before the length of a lane that races can be told, */
    SKEW = 8,          /* which is so close to their average */
};

/* What a period is made of: operations that are all equal, all but a few, or in their keys. */
enum tier { CLEAN, LOOSE, NOISY };

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ hash >> 32;
}

bool finder_learner_create(struct finder_learner *learner)
{
    memset(learner, 0, sizeof *learner);
    learner->weigh_at = WEIGH_FIRST;
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
                          uint64_t ops_apart, uint32_t *lengths)
{
    if (x == y) return true;
    if (!finder_past_is_passing(y, ops_apart)) return false;
    if (x->bytes != y->bytes || x->name_lane != y->name_lane || x->name_index != y->name_index ||
        x->name_lane == FINDER_STREAMS)
        return false;
    uint32_t apart = y->name_turn - x->name_turn;
    if (lengths[x->name_lane] == 0) lengths[x->name_lane] = apart;
    return lengths[x->name_lane] == apart;
}

static uint64_t number_of(const struct finder_past *past, const struct finder_past_op *op)
{
    return finder_past_number(past, op->lane, op->turn);
}

static bool op_repeats(const struct finder_past *past, const struct finder_past_op *before,
                       const struct finder_past_op *op, uint32_t *lengths)
{
    if (before->key != op->key || before->touch_count != op->touch_count) return false;
    uint64_t apart = number_of(past, op) - number_of(past, before);
    for (uint32_t i = 0; i < op->touch_count; i++)
        if (!touch_repeats(finder_past_block(past, before, i), finder_past_block(past, op, i),
                           apart, lengths))
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

static void vote(const struct finder_past *past, struct finder_candidate *candidate,
                 const struct finder_past_op *before, const struct finder_past_op *op)
{
    uint64_t then = number_of(past, before);
    for (uint32_t i = 0; i < op->touch_count && i < VOTERS; i++) {
        const struct finder_past_block *block = finder_past_block(past, op, i);
        if (block->born > then) continue; /* it was not there yet */
        bool same = false, alike = false;
        for (uint32_t k = 0; k < before->touch_count && k < 2 * VOTERS && !same; k++) {
            const struct finder_past_block *x = finder_past_block(past, before, k);
            same |= x == block;
            alike |= x->bytes == block->bytes && x->name_lane == block->name_lane &&
                     block->name_turn - x->name_turn == candidate->length;
        }
        candidate->votes_for += same;
        candidate->votes_against += !same && !alike;
    }
}

static bool has_votes(const struct finder_candidate *candidate)
{
    return candidate->votes_for + candidate->votes_against >= VOTES_MIN;
}

static bool is_voted_for(const struct finder_candidate *candidate)
{
    return !has_votes(candidate) || candidate->votes_for >= 2 * candidate->votes_against;
}

/* How many operations `behind` others to leave out, of those that end in `turn` and of those
 * before, so that the keys are equal again. False: not within reach. */
static bool close_gap(const struct finder_past *past, uint32_t lane, uint32_t *turn,
                      uint32_t *before)
{
    for (uint32_t both = 1; both <= GAP_MOST; both++)
        for (uint32_t i = 0; i <= both; i++) {
            uint32_t equal = 0;
            for (; equal < GAP_PROOF; equal++) {
                const struct finder_past_op *x =
                    finder_past_turn(past, lane, *before - (both - i) - equal);
                const struct finder_past_op *y = finder_past_turn(past, lane, *turn - i - equal);
                if (!x || !y || x->key != y->key) break;
            }
            if (equal < GAP_PROOF) continue;
            *turn -= i;
            *before -= both - i;
            return true;
        }
    return false;
}

/* So many equal keys make a noisy period. */
static uint32_t keys_needed(const struct finder_candidate *candidate)
{
    uint32_t needed = candidate->length + candidate->length / 2;
    return needed > NOISY_LEAST ? needed : NOISY_LEAST;
}

/* Looks how far the keys before repeat themselves, but for gaps. */
static void extend_keys(const struct finder_learner *learner, struct finder_candidate *candidate,
                        const struct finder_past_op *last)
{
    const struct finder_past *past = &learner->past;
    uint32_t turn = last->turn - candidate->keyed, before = turn - candidate->length;
    uint32_t lengths[FINDER_STREAMS];
    candidate->keys_extended = true;
    while (candidate->keyed < keys_needed(candidate)) {
        const struct finder_past_op *op = finder_past_turn(past, learner->lead, turn);
        const struct finder_past_op *x = finder_past_turn(past, learner->lead, before);
        if (!op || !x) return;
        if (op->key != x->key) {
            if (++candidate->gaps > GAPS_MIN + candidate->keyed / GAP_SHARE ||
                !close_gap(past, learner->lead, &turn, &before))
                return;
            continue;
        }
        memset(lengths, 0, sizeof lengths);
        lengths[learner->lead] = turn - before;
        candidate->equal += op_repeats(past, x, op, lengths);
        vote(past, candidate, x, op);
        candidate->keyed++;
        turn--;
        before--;
    }
}

/* False: the keys have differed too often. */
static bool test_keys(const struct finder_learner *learner, struct finder_candidate *candidate,
                      const struct finder_past_op *before, const struct finder_past_op *op,
                      bool repeats)
{
    candidate->tests++;
    if (before->key != op->key) {
        candidate->keyed = candidate->equal = candidate->gaps = candidate->next_keyed = 0;
        candidate->votes_for = candidate->votes_against = 0;
        candidate->keys_extended = false;
        return ++candidate->key_misses <= MISSES_MIN + candidate->tests / MISS_SHARE;
    }
    candidate->keyed++;
    candidate->equal += repeats;
    vote(&learner->past, candidate, before, op);
    if (candidate->keyed >= candidate->length) candidate->tests = candidate->key_misses = 0;
    if (candidate->keyed >= EXTEND_FROM && !candidate->keys_extended)
        extend_keys(learner, candidate, op);
    return true;
}

static void test_candidate(struct finder_learner *learner, struct finder_candidate *candidate,
                           const struct finder_past_op *op)
{
    const struct finder_past_op *before =
        finder_past_turn(&learner->past, learner->lead, op->turn - candidate->length);
    bool repeats = before && op_repeats(&learner->past, before, op, candidate->lengths);
    if (!before || !test_keys(learner, candidate, before, op, repeats)) {
        candidate->length = 0;
        return;
    }
    candidate->run++;
    if (repeats) {
        candidate->clean++;
        if (candidate->clean >= candidate->length) candidate->run = candidate->misses = 0;
        if (candidate->clean >= EXTEND_FROM && !candidate->extended && candidate->misses == 0)
            extend(learner, candidate, op);
        return;
    }
    candidate->clean = candidate->next_clean = 0;
    if (++candidate->misses <= MISSES_MIN + candidate->run / MISS_SHARE) return;
    candidate->run = candidate->misses = candidate->next_loose = 0; /* as if proposed anew */
    candidate->extended = false;
    memset(candidate->lengths, 0, sizeof candidate->lengths);
    candidate->lengths[learner->lead] = candidate->length;
}

static uint32_t strength(const struct finder_candidate *candidate)
{
    return candidate->run > candidate->keyed ? candidate->run : candidate->keyed;
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
 * differ; of a noisy one only keys count. Then it is part of what repeats. */
static bool lane_repeats(const struct finder_past *past, uint32_t lane, uint32_t length,
                         struct finder_repeat *repeat)
{
    uint32_t misses = 0, known[FINDER_STREAMS];
    memcpy(known, repeat->lengths, sizeof known);
    known[lane] = length;
    for (uint32_t i = 1; i <= length; i++) {
        const struct finder_past_op *op = finder_past_turn(past, lane, past->turns[lane] - i);
        const struct finder_past_op *before =
            finder_past_turn(past, lane, past->turns[lane] - i - length);
        if (!op || !before) return false;
        misses += repeat->noisy ? before->key != op->key : !op_repeats(past, before, op, known);
        if (misses > (repeat->loose ? MISSES_MIN + length / MISS_SHARE : 0)) return false;
    }
    memcpy(repeat->lengths, known, sizeof known);
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
 * otherwise it takes more periods. Then it is as long as the lead lane's, where two cards do the
 * same; else the average tells, and the closest length that repeats is taken. */
static bool find_length(const struct finder_learner *learner, uint32_t lane,
                        const struct finder_candidate *candidate, struct finder_repeat *repeat)
{
    const struct finder_past *past = &learner->past;
    uint32_t last = turns_within(learner, lane, candidate->length);
    if (repeat->lengths[lane]) return lane_repeats(past, lane, repeat->lengths[lane], repeat);
    if (keeps_order(learner, lane, last, candidate->length))
        return lane_repeats(past, lane, last, repeat);
    uint32_t periods = repeat->times;
    if (periods < RACE_TIMES) return false;
    if (lane_repeats(past, lane, candidate->length, repeat)) return true;
    uint32_t count = turns_within(learner, lane, periods * candidate->length);
    uint32_t average = (count + periods / 2) / periods;
    for (uint32_t skew = 0; skew <= SKEW; skew++) {
        if (lane_repeats(past, lane, average + skew, repeat)) return true;
        if (skew && skew < average && lane_repeats(past, lane, average - skew, repeat)) return true;
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
    if (!repeat->noisy) memcpy(repeat->lengths, candidate->lengths, sizeof repeat->lengths);
    repeat->lengths[lead] = candidate->length;
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
 * its operations; of a noisy one, over their keys. *touching: whether they touch anything. */
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
            sum += mix(context, repeat->noisy ? 0 : op->touch_count);
            *touching |= op->touch_count > 0;
            if (repeat->noisy || !before || before->touch_count != op->touch_count) continue;
            for (uint32_t k = 0; k < op->touch_count; k++) {
                const struct finder_past_block *block = finder_past_block(past, op, k);
                if (finder_past_block(past, before, k) == block) sum += mix(op->key + k, block->id);
            }
        }
    }
    return sum;
}

static bool is_much(uint64_t unforeseen, uint64_t total)
{
    return unforeseen >= UNFORESEEN_MIN && unforeseen * UNFORESEEN_SHARE >= total;
}

/* What comes and goes by chance costs any period of about this length as much; and to change the
 * period costs a step. */
static bool is_better_noise(const struct finder_candidate *candidate, uint64_t lost, uint64_t total)
{
    uint64_t as_before = total * GAP_COST * candidate->gaps / candidate->keyed;
    return lost * CHANGE_SHARE >= total && lost >= 2 * as_before;
}

/* Touches that vary by chance, such as those of stray words, vary as much between any two steps:
 * several steps as one period foresee them no better than one does. */
static bool misses_less(const struct finder_candidate *candidate, uint64_t unforeseen,
                        uint64_t total)
{
    return 2 * candidate->misses * total <= unforeseen * candidate->run;
}

/* Counts what the follower did not foresee in the period, since it has the newest one. While that
 * is on its way, and no longer ago than this one is long, there is no telling. */
static bool is_worth_having(const struct finder_learner *learner,
                            const struct finder_candidate *candidate, enum tier tier)
{
    const struct finder_past *past = &learner->past;
    const struct finder_past_op *last = finder_past_op(past, past->end - 1);
    uint32_t turn = past->turns[learner->lead] - candidate->length;
    uint64_t from = finder_past_number(past, learner->lead, turn);
    if (!learner->newest_seen && learner->newest && learner->newest_from > from) return false;
    if (learner->newest_seen && learner->newest_from > from) from = learner->newest_from;
    uint64_t total = past->end - from;
    uint64_t matched = past->matched - finder_past_op(past, from)->matched;
    uint64_t lost = total - (past->keyed - finder_past_op(past, from)->keyed);
    const struct finder_period *followed = finder_learner_period(learner, last->period);
    uint32_t length = followed ? followed->lanes[learner->lead].count : 0;
    bool alike = length * ALIKE > candidate->length;
    if (is_much(lost, total))
        return !alike || tier != NOISY || is_better_noise(candidate, lost, total);
    if (candidate->length < length || !followed) return false;
    if (tier == CLEAN)
        return is_much(total - matched, total) ||
               (followed->loose && candidate->length < 2 * length);
    if (tier == LOOSE)
        return is_much(total - matched, total) && misses_less(candidate, total - matched, total);
    return candidate->length > length &&
           candidate->equal * total * EXPLAINS_LESS > matched * candidate->keyed * EXPLAINS_MORE;
}

static uint32_t times_of(const struct finder_candidate *candidate, enum tier tier)
{
    if (tier == LOOSE) return 1 + LOOSE_TIMES;
    if (tier == CLEAN) return 1 + candidate->clean / candidate->length;
    return candidate->gaps ? 2 : 1 + candidate->keyed / candidate->length;
}

static struct finder_period *make_period(struct finder_learner *learner,
                                         const struct finder_candidate *candidate, enum tier tier)
{
    struct finder_repeat repeat = {
        .times = times_of(candidate, tier), .loose = tier != CLEAN, .noisy = tier == NOISY};
    bool touching;
    if (!find_repeat(learner, candidate, &repeat)) return NULL;
    if (!is_worth_having(learner, candidate, tier)) return NULL;
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

static bool is_due(const struct finder_candidate *candidate, enum tier *tier)
{
    uint32_t length = candidate->length;
    if (length == 0 || !is_voted_for(candidate)) return false;
    *tier = CLEAN;
    if (candidate->clean >= length) return candidate->clean >= candidate->next_clean;
    *tier = LOOSE;
    if (candidate->run / LOOSE_TIMES >= length &&
        candidate->misses <= candidate->run / MISS_SHARE && candidate->run >= candidate->next_loose)
        return true;
    *tier = NOISY;
    return has_votes(candidate) && candidate->clean < length / CLEAN_SOON &&
           candidate->keyed >= keys_needed(candidate) && candidate->keyed >= candidate->next_keyed;
}

/* Whether a noisy candidate is some steps, of which one is on its way to be a candidate as good. */
static bool has_part(const struct finder_learner *learner, const struct finder_candidate *whole)
{
    for (unsigned i = 0; i < FINDER_CANDIDATES; i++) {
        const struct finder_candidate *candidate = &learner->candidates[i];
        if (candidate->length && 2 * candidate->length < whole->length + candidate->length / 2 &&
            candidate->keyed >= candidate->length && has_votes(candidate) &&
            is_voted_for(candidate))
            return true;
    }
    return false;
}

/* The shortest candidate that has held long enough is made a period. */
static struct finder_period *look(struct finder_learner *learner)
{
    struct finder_candidate *best = NULL;
    enum tier best_tier = CLEAN, tier;
    for (unsigned i = 0; i < FINDER_CANDIDATES; i++) {
        struct finder_candidate *candidate = &learner->candidates[i];
        if (!is_due(candidate, &tier) || (best && best->length <= candidate->length)) continue;
        best = candidate;
        best_tier = tier;
    }
    if (!best || (best_tier == NOISY && has_part(learner, best))) return NULL;
    uint32_t soon = best->length / 4 + 1;
    switch (best_tier) {
    case CLEAN: best->next_clean = best->clean + soon; break;
    case LOOSE: best->next_loose = best->run + LOOSE_TIMES * best->length; break;
    case NOISY: best->next_keyed = best->keyed + soon; break;
    }
    return make_period(learner, best, best_tier);
}

struct finder_outlook finder_learner_outlook(const struct finder_learner *learner)
{
    const struct finder_candidate *best = &learner->candidates[0];
    for (unsigned i = 1; i < FINDER_CANDIDATES; i++) {
        const struct finder_candidate *candidate = &learner->candidates[i];
        if (candidate->length && candidate->keyed > best->keyed) best = candidate;
    }
    struct finder_outlook outlook = {.length = best->length, .keyed = best->keyed};
    uint64_t votes = (uint64_t)best->votes_for + best->votes_against;
    if (best->keyed) outlook.equal_percent = (uint32_t)(UINT64_C(100) * best->equal / best->keyed);
    if (votes) outlook.votes_percent = (uint32_t)(UINT64_C(100) * best->votes_for / votes);
    return outlook;
}

/* Every so often: is another lane the one to look at? */
static void weigh(struct finder_learner *learner, uint32_t lane)
{
    learner->weights[lane]++;
    if (++learner->ops < learner->weigh_at) return;
    learner->ops = 0;
    if (learner->weigh_at < WEIGH_MOST) learner->weigh_at *= 2;
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
    past->keyed += event->period != 0;
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
