/* owed: what a place is to give back to the driver, for a call of the program's that failed for
 * memory.
 *
 * Free frames are released first; then, at a card's home, idle chunks leave as for any other need
 * of room, and their frames are released. What was given is ceded (frame.h): no frame is made of it
 * until whoever asked says that the driver has had its turn. Pure, like all of move. */
#ifndef MOVE_OWED_H
#define MOVE_OWED_H

#include "move/move.h"

/* `place` is to give so many pages, and never more than `most`; where it cedes them that is what
 * its promises can spare, else it may make other frames in their place. One at a time for each
 * place.
 */
void owed_begin(struct move *move, unsigned place, uint64_t wanted_pages, uint64_t most_pages,
                bool cedes);

/* Pages that nothing may be promised with, as they are about to be given. */
uint64_t owed_reserved_pages(const struct move *move, unsigned place);

/* True while more is to come. */
bool owed_is_open(const struct move *move, unsigned place);

/* Nothing more is wanted. owed_end, once no frame is on its way: returns the pages given. */
void owed_stop(struct move *move, unsigned place);
uint64_t owed_end(struct move *move, unsigned place);

/* The next thing to do: a frame to release, a chunk to send away. */
bool owed_next_release(struct move *move, struct move_action *action);
bool owed_next_eviction(struct move *move, struct move_action *action);

/* The frame of a release that cedes was released, or could not be. */
void owed_release_done(struct move *move, struct frame *frame, bool released);

#endif
