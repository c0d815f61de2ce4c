#include "move/foresight.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

vp_status foresight_create(struct foresight *foresight, const struct segments *segments)
{
    memset(foresight, 0, sizeof *foresight);
    foresight->segments = segments;
    foresight->touches = calloc(FORESIGHT_TOUCHES, sizeof *foresight->touches);
    return foresight->touches ? VP_OK : VP_NO_HOST_MEMORY;
}

static void forget(struct foresight_period *period)
{
    free(period->ops);
    for (unsigned card = 0; card < VP_MAX_CARDS; card++) {
        free(period->cards[card].needed);
        free(period->cards[card].stretches);
    }
    memset(period, 0, sizeof *period);
}

void foresight_destroy(struct foresight *foresight)
{
    for (unsigned i = 0; i < FORESIGHT_PERIODS; i++) forget(&foresight->periods[i]);
    free(foresight->touches);
    memset(foresight, 0, sizeof *foresight);
}

/* Forgets all periods: their touches have used up the room. */
static void start_over(struct foresight *foresight)
{
    for (unsigned i = 0; i < FORESIGHT_PERIODS; i++) forget(&foresight->periods[i]);
    memset(foresight->touches, 0, foresight->touch_count * sizeof *foresight->touches);
    foresight->touch_count = 0;
    foresight->following = NULL;
}

static struct foresight_period *find(struct foresight *foresight, uint32_t number,
                                     uint32_t op_count)
{
    struct foresight_period *oldest = &foresight->periods[0];
    for (unsigned i = 0; i < FORESIGHT_PERIODS; i++) {
        struct foresight_period *period = &foresight->periods[i];
        if (period->number == number && period->op_count == op_count) return period;
        if (period->used < oldest->used) oldest = period;
    }
    struct foresight_op *ops = op_count <= FORESIGHT_OPS ? calloc(op_count, sizeof *ops) : NULL;
    if (!ops) return NULL;
    if (foresight->following == oldest) foresight->following = NULL;
    forget(oldest);
    *oldest = (struct foresight_period){.number = number, .op_count = op_count, .ops = ops};
    return oldest;
}

/* The operation's last turn. */
static struct foresight_touch *last_turn(const struct foresight *foresight,
                                         const struct foresight_op *op)
{
    return &foresight->touches[op->first];
}

/* The entry of `segment` among `count`, where it is looked for from `*cursor` on: what is touched
 * comes in the same order, as a rule. NULL: there is none. */
static struct foresight_touch *find_entry(struct foresight_touch *entries, uint32_t count,
                                          const struct segment *segment, uint32_t *cursor)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t k = *cursor + i < count ? *cursor + i : *cursor + i - count;
        if (entries[k].segment != segment) continue;
        *cursor = k + 1 < count ? k + 1 : 0;
        return &entries[k];
    }
    return NULL;
}

/* Tells the touch before this one how far ahead this one was. */
static void fulfil(struct foresight *foresight, const struct segment *segment)
{
    if (!segment->used_last || segment->touch_last >= foresight->touch_count) return;
    struct foresight_touch *touch = &foresight->touches[segment->touch_last];
    uint64_t ahead = foresight->clocks[segment->card] - segment->used_last;
    if (touch->segment == segment && ahead < UINT32_MAX) touch->ahead = (uint32_t)ahead;
}

/* For two turns: while this one is entered, the last one is there as a whole. */
static bool make_room(struct foresight *foresight, struct foresight_op *op, uint32_t count)
{
    if (count <= op->room) return true;
    if (2 * (uint64_t)count > FORESIGHT_TOUCHES - foresight->touch_count) return false;
    struct foresight_touch *room = &foresight->touches[foresight->touch_count];
    memcpy(room, last_turn(foresight, op), op->count * sizeof *room);
    op->first = foresight->touch_count;
    op->spare = op->first + count;
    op->room = count;
    foresight->touch_count += 2 * count;
    return true;
}

/* A touch that the operation did not have in its last turn, of a segment that is to be used further
 * on: an address in an unused parameter, more often than not. It changes nothing that is foretold,
 * unless it comes again. */
static bool is_stray(const struct foresight_op *op, const struct outlook *outlook, uint64_t clock)
{
    return op->noted && !outlook->has_died && outlook->next_use > clock;
}

/* What the operation's last turn foretells of its touches now, entered in `now`. */
static void match(const struct foresight *foresight, const struct foresight_op *op,
                  const struct move_touch *touches, uint32_t count, struct foresight_touch *now)
{
    struct foresight_touch *last = last_turn(foresight, op);
    uint32_t cursor = 0, missing = 0;
    for (uint32_t k = 0; k < op->count; k++) last[k].matched = false;
    for (uint32_t k = 0; k < count; k++) {
        const struct segment *segment = touches[k].segment;
        struct foresight_touch *same = find_entry(last, op->count, segment, &cursor);
        now[k] = same ? *same : (struct foresight_touch){0};
        if (same) same->matched = true;
        if (!same) missing++;
    }
    for (uint32_t k = 0, i = 0; missing && k < count; k++) {
        if (now[k].segment) continue;
        while (i < op->count && last[i].matched) i++;
        if (i == op->count) return;
        now[k] = last[i++];
        now[k].segment = NULL;
        missing--;
    }
}

/* Operations of the card in the period, at most: those that never came yet may be the card's. What
 * is used later than foretold would pass for something that is not used any more. */
static uint32_t length_of(const struct foresight_period *period, unsigned card)
{
    return period->cards[card].op_count + (period->op_count - period->known);
}

/* Enters this turn's touches beside the last turn's. */
static void enter(struct foresight *foresight, const struct foresight_period *period,
                  struct foresight_op *op, const struct move_touch *touches, uint32_t count)
{
    struct foresight_touch *now = &foresight->touches[op->spare];
    match(foresight, op, touches, count, now);
    for (uint32_t k = 0; k < count; k++) {
        struct segment *segment = touches[k].segment;
        bool same = now[k].segment != NULL;
        if (segment->state == SEGMENT_BARE) { /* freed while the operation waited */
            now[k] = (struct foresight_touch){0};
            continue;
        }
        struct outlook *outlook = segment_outlook(foresight->segments, segment);
        uint64_t clock = foresight->clocks[segment->card];
        now[k].segment = segment;
        if (!same && is_stray(op, outlook, clock)) continue;
        fulfil(foresight, segment);
        outlook->has_died = false;
        outlook->next_use =
            clock + (now[k].ahead ? now[k].ahead : length_of(period, segment->card));
        outlook->will_die = now[k].dies;
        now[k].dies = false; /* unless it dies again */
        segment->touch_last = op->spare + k;
        segment->used_last = clock;
    }
    op->spare = op->first;
    op->first = (uint32_t)(now - foresight->touches);
    op->count = count;
}

/* The entry of the segment in one of the operations that come next; UINT32_MAX: in none. */
static uint32_t entry_near(const struct foresight *foresight, const struct segment *segment)
{
    struct foresight_walk walk = foresight_walk_begin(foresight, segment->card);
    uint32_t most = foresight_length(foresight, segment->card);
    for (uint32_t i = 1; i <= foresight->strayed + FORESIGHT_NEAR && i <= most; i++) {
        foresight_walk_on(&walk);
        const struct foresight_op *op = &foresight->following->ops[walk.op];
        for (uint32_t k = 0; k < op->count; k++)
            if (foresight->touches[op->first + k].segment == segment) return op->first + k;
    }
    return UINT32_MAX;
}

/* Where the program has just left its step it is back in a moment, as a rule: what is foretold
 * stays, and what was due hereabouts has been used now. */
static void note_stray(struct foresight *foresight, struct segment *segment)
{
    struct outlook *outlook = segment_outlook(foresight->segments, segment);
    uint64_t clock = foresight->clocks[segment->card];
    if (outlook->next_use > clock + foresight->strayed + FORESIGHT_NEAR) return;
    uint32_t entry = entry_near(foresight, segment);
    uint32_t ahead = entry == UINT32_MAX ? 0 : foresight->touches[entry].ahead;
    if (ahead == 0) return;
    fulfil(foresight, segment);
    outlook->next_use = clock + ahead;
    outlook->will_die = foresight->touches[entry].dies;
    segment->touch_last = entry;
    segment->used_last = clock;
}

static void note_unknown(struct foresight *foresight, const struct move_touch *touches,
                         uint32_t count)
{
    foresight->unknown_at = foresight->clock;
    bool strays = foresight->following && ++foresight->strayed <= FORESIGHT_STRAYS;
    if (!strays) foresight->following = NULL;
    for (uint32_t k = 0; k < count; k++) {
        struct segment *segment = touches[k].segment;
        if (segment->state == SEGMENT_BARE) continue;
        if (strays) {
            note_stray(foresight, segment);
            continue;
        }
        struct outlook *outlook = segment_outlook(foresight->segments, segment);
        outlook->next_use = segment->used_last = 0;
        outlook->will_die = false;
    }
}

_Static_assert(VP_MAX_CARDS <= 16, "a bit of foresight_op.cards for each");

/* Whose operation it is: the cards' that own what it touches; all of them where it touches nothing.
 */
static uint32_t cards_of(const struct foresight *foresight, const struct move_touch *touches,
                         uint32_t count)
{
    uint32_t cards = 0;
    for (uint32_t k = 0; k < count; k++)
        if (touches[k].segment->state != SEGMENT_BARE) cards |= 1u << touches[k].segment->card;
    return cards ? cards : foresight->segments->cards;
}

static void pass(struct foresight *foresight, uint32_t cards)
{
    foresight->clock++;
    for (uint32_t left = cards; left; left &= left - 1) foresight->clocks[__builtin_ctz(left)]++;
}

/* False: no memory. */
static bool make_row(struct foresight_card *card, uint32_t op_count)
{
    if (card->needed) return true;
    uint32_t count = (op_count + FORESIGHT_STRETCH - 1) / FORESIGHT_STRETCH;
    card->needed = calloc(op_count, sizeof *card->needed);
    card->stretches = calloc(count, sizeof *card->stretches);
    if (card->needed && card->stretches) return true;
    free(card->needed);
    free(card->stretches);
    card->needed = NULL;
    card->stretches = NULL;
    return false;
}

static void set_needed(const struct foresight_period *period, struct foresight_card *card,
                       uint32_t at, uint32_t needed)
{
    struct foresight_stretch *stretch = &card->stretches[at / FORESIGHT_STRETCH];
    uint32_t before = card->needed[at];
    card->needed[at] = needed;
    uint32_t more = needed != 0, less = before != 0;
    card->op_count += more - less;
    stretch->op_count += more - less;
    if (needed >= stretch->most || before < stretch->most) {
        if (needed > stretch->most) stretch->most = needed;
        return;
    }
    uint32_t first = at - at % FORESIGHT_STRETCH, end = first + FORESIGHT_STRETCH;
    stretch->most = 0; /* the largest has become less: which is it now? */
    for (uint32_t i = first; i < end && i < period->op_count; i++)
        if (card->needed[i] > stretch->most) stretch->most = card->needed[i];
}

/* Enters operation `at` with the cards it belongs to. Most programs use one: a card's row is made
 * with its first operation. Without memory for it nothing is foretold of the card's room. */
static void note_cards(struct foresight_period *period, uint32_t at, uint32_t cards,
                       const uint64_t *needed_pages)
{
    struct foresight_op *op = &period->ops[at];
    for (uint32_t left = op->cards & ~cards; left; left &= left - 1)
        set_needed(period, &period->cards[__builtin_ctz(left)], at, 0);
    for (uint32_t left = cards; left; left &= left - 1) {
        unsigned i = (unsigned)__builtin_ctz(left);
        struct foresight_card *card = &period->cards[i];
        if (!make_row(card, period->op_count)) {
            cards &= ~(1u << i);
            continue;
        }
        set_needed(period, card, at, (uint32_t)needed_pages[i] + 1);
        card->at = at;
    }
    op->cards = (uint16_t)cards;
    period->known += !op->noted;
    op->noted = true;
}

void foresight_note(struct foresight *foresight, uint32_t number, uint32_t op_count, uint32_t at,
                    const struct move_touch *touches, uint32_t count,
                    const uint64_t needed_pages[VP_MAX_CARDS])
{
    uint32_t cards = cards_of(foresight, touches, count);
    pass(foresight, cards);
    struct foresight_period *period = number ? find(foresight, number, op_count) : NULL;
    if (!period || at >= op_count) {
        note_unknown(foresight, touches, count);
        return;
    }
    struct foresight_op *op = &period->ops[at];
    if (!make_room(foresight, op, count)) {
        start_over(foresight);
        note_unknown(foresight, touches, count);
        return;
    }
    enter(foresight, period, op, touches, count);
    note_cards(period, at, cards, needed_pages);
    foresight->following = period;
    foresight->strayed = 0;
    period->used = foresight->clock;
    period->notes++;
}

void foresight_died(struct foresight *foresight, struct segment *segment)
{
    if (!segment->used_last || segment->touch_last >= foresight->touch_count) return;
    struct foresight_touch *touch = &foresight->touches[segment->touch_last];
    if (touch->segment == segment) touch->dies = true;
    segment_outlook(foresight->segments, segment)->has_died = true;
}
