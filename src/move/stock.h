/* stock: frames of the host that are made before chunks have to leave for it.
 *
 * A frame of the host costs 0.28 ms a MiB, whatever the number of threads that make them
 * (measured), so a program whose first step does not fit would wait seconds for them. Once more
 * than half of a card is in use whose chunks go to the host first, two thirds of what is beyond the
 * half are kept ready on the host, in the sizes of the chunks that live on the card, and at most a
 * quarter of what the host may hold. A worker of its own makes them: whoever maps or copies has
 * better things to do. The driver makes one after the other, so that more than is needed would be
 * in the way.
 */
#ifndef MOVE_STOCK_H
#define MOVE_STOCK_H

#include "move/move.h"

/* A frame to be made ahead of need, if one is wanted. */
bool stock_next(struct move *move, struct move_action *action);

#endif
