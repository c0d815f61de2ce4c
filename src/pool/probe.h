/* probe: tries out the ways between a card and the places that its chunks may go to.
 *
 * At the card's first allocation, and where it has a choice: some MiB are copied there and back, a
 * few times, by the clock of the card, and the data is looked at. Places are then tried in the
 * order of how fast they are; one where data does not arrive is no refuge. What was measured is
 * kept per boot (machine/rates.h), so later starts measure nothing. */
#ifndef POOL_PROBE_H
#define POOL_PROBE_H

#include "machine/rates.h"
#include "pool/internal.h"

/* In the card's context, the current one, with a stream of ours in it; nothing of the card is
 * elsewhere yet. Lock not held. */
void probe_card(vp_pool *pool, unsigned card, CUstream stream);

/* Puts the card's refuges in the order of the rates: one that is a tenth faster comes first, among
 * equals the order stays. Broken ones go. Pure but for the pool's tables; lock held. */
void probe_order(vp_pool *pool, unsigned card, const struct rate *rates);

#endif
