/* The follower when it is lost. It keeps a few guesses of where the program may be, and puts each
 * operation to all of them; one that has held for a while, and better than the others, is where it
 * is. A wrong guess costs time only. */
#include "trace/finder_follow.h"

enum {
    MATCHES = 3,         /* a guess that alone has held for so many ops is taken; */
    MATCHES_SHARED = 12, /* where others have held as well, so many */
    CONTEXT_MATCHES = 2, /* what four equal keys count for */
};

bool finder_agrees(const struct finder_period *period, uint32_t index, const struct finder_op *op,
                   uint32_t *evidence)
{
    const struct finder_period_op *expected = &period->ops[index];
    if (expected->wild) return true;
    if (expected->key != op->key) return false;
    if (expected->touch_count != op->count && !period->loose) return false;
    uint32_t from = 0;
    for (uint32_t i = 0; i < expected->touch_count; i++) {
        uint32_t slot = period->touches[expected->first_touch + i];
        if (slot >= period->persistent_count || period->bound[slot] == 0) continue;
        bool same = i < op->count && period->bound[slot] == op->ids[i];
        if (!same && period->loose) same = finder_touches(op, period->bound[slot], &from);
        if (!same) return false;
        ++*evidence;
    }
    return true;
}

void finder_drop_guesses(struct finder *finder, const struct finder_period *period)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < finder->guess_count; i++)
        if (period && finder->guesses[i].period != period)
            finder->guesses[kept++] = finder->guesses[i];
    finder->guess_count = kept;
}

static void drop_lane(struct finder *finder, uint32_t lane)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < finder->guess_count; i++)
        if (finder->guesses[i].lane != lane) finder->guesses[kept++] = finder->guesses[i];
    finder->guess_count = kept;
}

static void guess(struct finder *finder, struct finder_guess made)
{
    if (finder->guess_count == FINDER_GUESSES) return;
    for (uint32_t i = 0; i < finder->guess_count; i++)
        if (finder->guesses[i].period == made.period && finder->guesses[i].cursor == made.cursor &&
            finder->guesses[i].lane == made.lane)
            return;
    finder->guesses[finder->guess_count++] = made;
}

/* Whether a guess holds. What is near need not touch what is foretold in a loose period: there that
 * is often wrong, and the program seldom goes far. */
static bool holds(const struct finder_period *period, uint32_t index, const struct finder_op *op,
                  uint32_t *evidence, bool near)
{
    if (finder_agrees(period, index, op, evidence)) return true;
    return near && period->loose && period->ops[index].key == op->key;
}

/* Close to where it was: the op was added, or put in the place of another, or some before it were
 * left out. */
static void guess_near(struct finder *finder, uint32_t lane, const struct finder_op *op)
{
    struct finder_period *period = finder->now;
    uint32_t due = finder->lanes[lane].cursor, index = due;
    guess(finder,
          (struct finder_guess){.period = period, .cursor = due, .lane = lane, .near = true});
    index = period->ops[due].next;
    guess(finder,
          (struct finder_guess){.period = period, .cursor = index, .lane = lane, .near = true});
    for (uint32_t i = 0; i < FINDER_NEAR && index != due; i++) {
        uint32_t evidence = 0, next = period->ops[index].next;
        if (holds(period, index, op, &evidence, true)) {
            guess(finder, (struct finder_guess){period, index, next, 1, evidence, lane, true});
            return;
        }
        index = next;
    }
}

/* A shorter period than the one followed, which knows this place too: a loop in it. */
static bool is_part(const struct finder *finder, const struct finder_period *period, uint32_t lane)
{
    return finder->now && period->op_count < finder->now->op_count &&
           finder_period_like(finder->now, finder->lanes[lane].context) != FINDER_NONE;
}

/* Anywhere in a known period where the last four keys are these. */
static void guess_by_context(struct finder *finder, uint32_t lane, const struct finder_op *op)
{
    for (uint32_t i = 0; i < FINDER_PERIODS && finder->known[i]; i++) {
        struct finder_period *period = finder->known[i];
        uint32_t index = finder_period_like(period, finder->lanes[lane].context);
        if (is_part(finder, period, lane)) continue;
        for (uint32_t k = 0; k < FINDER_CHAIN && index != FINDER_NONE; k++) {
            const struct finder_period_op *at = &period->ops[index];
            uint32_t evidence = 0;
            if (at->lane == lane && finder_agrees(period, index, op, &evidence))
                guess(finder, (struct finder_guess){period, index, at->next, CONTEXT_MATCHES,
                                                    evidence, lane, false});
            index = at->like_next;
        }
    }
}

/* Puts the op to all guesses of the lane. */
static void test_guesses(struct finder *finder, uint32_t lane, const struct finder_op *op)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < finder->guess_count; i++) {
        struct finder_guess made = finder->guesses[i];
        if (made.lane == lane) {
            if (!holds(made.period, made.cursor, op, &made.evidence, made.near)) continue;
            made.matched++;
            made.last = made.cursor;
            made.cursor = made.period->ops[made.cursor].next;
        }
        finder->guesses[kept++] = made;
    }
    finder->guess_count = kept;
}

static bool is_better(const struct finder *finder, const struct finder_guess *a,
                      const struct finder_guess *b)
{
    if ((a->period == finder->now) != (b->period == finder->now)) return a->period == finder->now;
    if (a->near != b->near && a->period->loose) return a->near;
    if (a->evidence != b->evidence) return a->evidence > b->evidence;
    if (a->near != b->near) return a->near;
    if (a->matched != b->matched) return a->matched > b->matched;
    return a->period->op_count > b->period->op_count;
}

/* The guess to take; NULL: none yet. */
static const struct finder_guess *choose(const struct finder *finder, uint32_t lane)
{
    const struct finder_guess *best = NULL;
    uint32_t count = 0;
    for (uint32_t i = 0; i < finder->guess_count; i++) {
        const struct finder_guess *made = &finder->guesses[i];
        if (made->lane != lane) continue;
        count++;
        if (!best || is_better(finder, made, best)) best = made;
    }
    if (!best || best->matched < (count > 1 ? MATCHES_SHARED : MATCHES)) return NULL;
    return best;
}

/* Changes. */

const struct finder_change *finder_due_change(const struct finder *finder)
{
    for (uint32_t i = 0; i < finder->change_count; i++) {
        const struct finder_change *change = &finder->changes[i];
        if (change->regular && change->from == finder->now->number &&
            change->from_op == finder->at && change->laps == finder->laps)
            return change;
    }
    return NULL;
}

static struct finder_period *find_known(struct finder *finder, uint32_t number)
{
    for (uint32_t i = 0; i < FINDER_PERIODS && finder->known[i]; i++)
        if (finder->known[i]->number == number) return finder->known[i];
    return NULL;
}

static void note_change(struct finder *finder, const struct finder_change *change)
{
    for (uint32_t i = 0; i < finder->change_count; i++) {
        struct finder_change *known = &finder->changes[i];
        if (known->from != change->from || known->from_op != change->from_op) continue;
        bool regular =
            known->to == change->to && known->to_op == change->to_op && known->laps == change->laps;
        *known = *change;
        known->regular = regular;
        return;
    }
    finder->changes[finder->next_change] = *change;
    finder->next_change = (finder->next_change + 1) % FINDER_CHANGES;
    if (finder->change_count < FINDER_CHANGES) finder->change_count++;
}

static void touch_period(struct finder *finder, const struct finder_period *period)
{
    for (uint32_t i = 0; i < FINDER_PERIODS; i++)
        if (finder->known[i] == period) finder->used[i] = finder->number;
}

/* Leaves the period for another: its first op there was `first`, the last one `last`. */
static void change_period(struct finder *finder, struct finder_period *to, uint32_t lane,
                          uint32_t first, uint32_t last)
{
    const struct finder_period *from = finder->now;
    if (from) {
        struct finder_change change = {from->number, finder->at,   to->number,
                                       first,        finder->laps, false};
        note_change(finder, &change);
        touch_period(finder, from);
    }
    finder_forget_passing(to);
    finder_drop_guesses(finder, NULL);
    finder_enter(finder, to, lane, last);
    touch_period(finder, to);
}

/* Finds its way again. */

static enum finder_match take_guess(struct finder *finder, uint32_t index,
                                    const struct finder_guess *made, const struct finder_op *op)
{
    struct finder_guess taken = *made;
    struct finder_lane *lane = &finder->lanes[index];
    if (taken.period != finder->now) {
        const struct finder_period_lane *of = &taken.period->lanes[index];
        uint32_t back = lane->lost % of->count;
        uint32_t turn = taken.period->ops[taken.last].turn + of->count - back;
        change_period(finder, taken.period, index, of->ops[turn % of->count], taken.last);
        lane->cursor = taken.last;
    }
    bool wrapped = taken.last < lane->cursor;
    lane->laps += wrapped;
    if (index == finder->now->lead) finder->laps += wrapped;
    lane->cursor = taken.last;
    lane->follows = true;
    drop_lane(finder, index);
    (void)finder_move_on(finder, lane);
    finder->stats.returns++;
    (void)finder_settle(finder, &finder->now->ops[taken.last], op);
    return FINDER_MATCHED;
}

enum finder_match finder_deviate(struct finder *finder, uint32_t index, const struct finder_op *op)
{
    const struct finder_change *change = finder_due_change(finder);
    uint32_t evidence = 0;
    if (change) {
        struct finder_period *to = find_known(finder, change->to);
        uint32_t first = change->to_op;
        if (to && to->ops[first].lane == index && finder_agrees(to, first, op, &evidence)) {
            change_period(finder, to, index, first, first);
            (void)finder_settle(finder, &to->ops[first], op);
            return FINDER_MATCHED;
        }
    }
    finder->lanes[index].follows = false;
    finder->lanes[index].lost = 0;
    drop_lane(finder, index);
    guess_near(finder, index, op);
    guess_by_context(finder, index, op);
    return FINDER_DEVIATED;
}

static bool has_near(const struct finder *finder, uint32_t lane)
{
    for (uint32_t i = 0; i < finder->guess_count; i++)
        if (finder->guesses[i].near && finder->guesses[i].lane == lane) return true;
    return false;
}

enum finder_match finder_seek(struct finder *finder, uint32_t index, const struct finder_op *op)
{
    struct finder_lane *lane = &finder->lanes[index];
    if (lane->stranger) {
        lane->stranger = false;
        return FINDER_DEVIATED;
    }
    if (!finder->known[0]) return FINDER_LOST;
    if (lane->lost < UINT32_MAX) lane->lost++;
    test_guesses(finder, index, op);
    if (finder->now && finder->now->loose && lane->lost < FINDER_NEAR && !has_near(finder, index))
        guess_near(finder, index, op);
    if (finder->guess_count < FINDER_GUESSES) guess_by_context(finder, index, op);
    const struct finder_guess *made = choose(finder, index);
    return made ? take_guess(finder, index, made, op) : FINDER_LOST;
}
