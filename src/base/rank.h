/* The place of this process among those of one job on this machine, as torchrun and other launchers
 * tell it in the environment, and what of the machine is its share.
 *
 * With C processes, process R computes on card R, and of the cards beyond the first C those lend to
 * it whose number leaves R when divided by C: so no card's memory is given to two pools. */
#ifndef BASE_RANK_H
#define BASE_RANK_H

#include <stdbool.h>
#include <stdint.h>

struct rank {
    unsigned number; /* LOCAL_RANK */
    unsigned count;  /* LOCAL_WORLD_SIZE; at least 1 */
};

/* Reads the two variables. False: they are not both set, or do not make sense together; they are
 * not ours to complain of. */
bool rank_read(struct rank *rank);

struct rank_share {
    uint32_t compute_cards; /* one bit */
    uint32_t lend_cards;
    unsigned visible; /* the first cards, which the ranks compute on */
};

/* The share of a machine of `cards` cards. With fewer cards than ranks the launcher has shown each
 * its own, or wants them shared: the rank takes card R modulo `cards`, and none lends. */
struct rank_share rank_share(const struct rank *rank, unsigned cards);

#endif
