/* What the two policies share: policy.c acts when an operation needs something, foreseen.c ahead of
 * that. */
#ifndef MOVE_POLICY_H
#define MOVE_POLICY_H

#include "move/chunk_state.h"

/* FOUND_BUSY: something is under way, or would be idle later; FOUND_NOTHING: waiting does not help.
 */
enum found { FOUND_ACTION, FOUND_BUSY, FOUND_NOTHING };

/* The next action for a thread that does all but copies out; the next for one that copies out. */
bool policy_next(struct move *move, struct move_action *action);
bool policy_next_copy(struct move *move, struct move_action *action);

/* Reserves the next ticket of a lane for the action; false: it is full, or somebody queues a copy.
 */
bool policy_take_lane(struct move *move, struct move_action *action, unsigned lane);
void policy_leave_lane(struct move *move, struct move_action *action); /* it was not needed */

/* The same of the card's lanes out, by turns; and of the lane in over which the chunk comes home.
 */
bool policy_take_lane_out(struct move *move, struct move_action *action, unsigned card);
bool policy_take_lane_in(struct move *move, struct move_action *action, const struct chunk *chunk);

/* Turns a plan for a frame into an action; true when *frame is there to be used. */
bool policy_use_plan(struct move *move, unsigned place, uint32_t pages, struct frame **frame,
                     struct move_action *action, enum found *found);

/* Pages of chunks that are to be brought home to the card. */
uint64_t policy_wanted_pages(const struct move *move, unsigned card);

/* Sends a chunk away that is at home: dead, it is unmapped; live, copied out where the action may
 * copy. */
enum found policy_send_away(struct move *move, struct chunk *chunk, struct move_action *action);

/* Sends the chunk away that the policy chooses of those at the card's home. */
enum found policy_evict(struct move *move, unsigned card, struct move_action *action);

/* Copies a chunk out ahead of its leaving: it stays at home, and has a backup. */
bool policy_copy_early(struct move *move, struct chunk *chunk, struct move_action *action);

/* A chunk leaves, or is shifted: it will be copied to the target. The lane is taken. */
void policy_start_copy(struct move *move, struct chunk *chunk, enum move_event event,
                       struct frame *target, struct move_action *action);

/* Makes a frame of pages that are promised. */
void policy_start_make(struct move *move, unsigned place, uint32_t pages,
                       struct move_action *action);

/* Whether the chunk should be mapped where it is, and the driver refused that. */
bool policy_is_adrift(const struct move *move, const struct chunk *chunk);

/* Gives up the frame of something dead in the card's own memory. */
enum found policy_drop_dead(struct move *move, unsigned card, struct move_action *action);

/* Maps the chunk to a frame; what it held elsewhere is copied in. */
void policy_start_map(struct move *move, struct chunk *chunk, struct frame *to,
                      struct move_action *action);

/* Maps the chunk home, where there is room for it now; else what is to be done for the room. */
enum found policy_map_home(struct move *move, struct chunk *chunk, struct move_action *action);

/* Whether such a look would find what the last one found; and: it found nothing. */
bool policy_looked(const struct move *move, const struct move_looked *looked);
void policy_note_look(const struct move *move, struct move_looked *looked);

/* All work that may touch the segment is done; if not, marks are asked for that will tell. */
bool policy_segment_is_idle(struct move *move, struct segment *segment);

/* With foresight: the same decisions by what is used when. */
enum found foreseen_evict(struct move *move, unsigned card, struct move_action *action);

/* Whether who evicts should wait for what will leave for nothing in a moment: not for long, since
 * it may be that it waits for what this one is to do. Counts looks; move->free_waits is set back
 * once something left. */
bool foreseen_may_wait(struct move *move, unsigned card);

/* Counts a look that was spared while who evicts waits for the dying. True: long enough; look. */
bool foreseen_is_tired(struct move *move, unsigned card);
bool foreseen_next(struct move *move, struct move_action *action);
bool foreseen_next_copy(struct move *move, struct move_action *action);

#endif
