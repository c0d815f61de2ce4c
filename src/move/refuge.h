/* refuge: where chunks of a card go when they must leave its memory, and how they move on.
 *
 * Each card that computes has its refuges in order: other cards, by what was measured or follows
 * from the routes, and the host. A refuge may be the home of another card that computes. What lies
 * there is a guest: it comes only where that card needs no memory of its own (a home is *open*, as
 * far as it is larger than all that lives for its card), and moves on to its next refuge when the
 * card does need it. A home whose guests had to go stays closed for a while, so that nothing moves
 * to and fro. Where there is no other room at all, a chunk may go to a home that is not open,
 * beside what its card demands: what was promised is kept.
 *
 * Data can lie wherever the card's copies reach. Used where it is, in place, it is only where all
 * that may use it reach it too, and atomics work as they do at home: in places that are *usable*.
 *
 * What is absent moves from refuge to refuge by a copy alone (SHIFTING, move.h); what is mapped
 * there leaves as it would leave home. */
#ifndef MOVE_REFUGE_H
#define MOVE_REFUGE_H

#include "move/policy.h"

enum { REFUGE_CLOSED_ENDINGS = 512 }; /* marks that come to pass until guests may come back */

/* Whether chunks of the card may be mapped in the place, for work to use them there. */
static inline bool refuge_is_usable(const struct move *move, unsigned card, unsigned place)
{
    return (move->usable[card] >> place & 1) != 0;
}

/* Whether work may use the chunk where its data is. */
static inline bool refuge_serves(const struct move *move, const struct chunk *chunk)
{
    return refuge_is_usable(move, chunk->segment->card, chunk->frame->place);
}

/* A link was lost: chunks of the cards (bit i: card i) do not go to the place any more, and
 * nobody's are used there but those that are at home. */
void refuge_cut_off(struct move *move, unsigned place, uint32_t cards);

/* A frame for the chunk in the nearest refuge with room, other than where it is; `used`: where it
 * may be used in place. Of equally near ones first that of the way whose lane the action has.
 * NULL: see *found. */
struct frame *refuge_find(struct move *move, const struct chunk *chunk, bool used,
                          struct move_action *action, enum found *found);

/* Whether refuge_find would find room for a chunk that leaves, now or soon. */
bool refuge_may_come(const struct move *move, const struct chunk *chunk);

/* Whether there is room that takes nobody's backup. */
bool refuge_is_to_spare(const struct move *move, const struct chunk *chunk);

/* Whether the chunk is to be mapped wherever it goes. */
bool refuge_keeps_mapped(const struct move *move, const struct chunk *chunk);

/* The card whose lanes a copy of the chunk away from where it is goes over. */
unsigned refuge_copier(const struct move *move, const struct chunk *chunk);

/* The lane over which the chunk, which is in a refuge, comes home: each near refuge has its own, as
 * far as there are ways. */
unsigned refuge_lane_in(const struct move *move, const struct chunk *chunk);

/* The card needs memory at home: sends one guest on. `ahead` of need only to where there is room
 * that nobody else needs. */
enum found refuge_send_guest_on(struct move *move, unsigned card, bool ahead,
                                struct move_action *action);

/* Whether all that lives for the card does not fit its memory beside the guests there, and what it
 * keeps ready. */
static inline bool refuge_is_crowded(const struct move *move, unsigned card)
{
    uint64_t guests = move->guest_pages[move->home[card]];
    uint64_t kept = move->segments->card_pages[card] + move->low_pages[card];
    return guests && kept + guests > move->frames->place[move->home[card]].capacity_pages;
}

/* An absent chunk that is to be used, and lies where it cannot be: moves it to where it can. */
enum found refuge_make_usable(struct move *move, struct chunk *chunk, struct move_action *action);

/* No place of the chunk's card has room: others make way, if need be one for the other, towards a
 * place that has some. */
enum found refuge_clear_way(struct move *move, const struct chunk *chunk,
                            struct move_action *action);

#endif
