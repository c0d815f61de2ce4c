/* The learner: history and candidates.
 *
 * A candidate is a length: the last operations of the lead lane (the one with most operations) may
 * repeat those that many turns before. Lengths are proposed by operations that touched the same
 * block with the same key before, and by sequences of four keys seen before; nested loops propose
 * theirs, too, but their touches differ. Each operation puts all candidates to the test. One that
 * held for its whole length is a period, if the other lanes repeat themselves as well.
 *
 * Something that differs now and then does not end a candidate, only its clean run. When it has
 * held for four times its length but for one operation in 32, it is a loose period: what differs is
 * wild. Where touches differ all the time (an allocator moves blocks, unused parameters hold old
 * addresses), keys decide: equal ones for one and a half times the length, but for operations added
 * or left out here and there, are a noisy period, if most touches speak for it. Each touch of a
 * block that was there already a length ago has a vote: for, if the operation there touched it too.
 * The layers of a network have equal keys, but other weights: their touches vote against.
 *
 * A period is worth having when the follower did not foresee the operations in it, or when it
 * explains more of their touches: so an inner loop is replaced by the outer one, and nothing is
 * learned twice. What is shorter never replaces what is followed. */
#ifndef TRACE_FINDER_LEARNER_H
#define TRACE_FINDER_LEARNER_H

#include "trace/finder_period.h"
#include "trace/finder_queue.h"

enum { FINDER_CANDIDATES = 24, FINDER_SEEN = 1 << 18 };

struct finder_candidate {
    uint32_t length;            /* turns of the lead lane; 0: none */
    uint32_t clean;             /* ops since something differed */
    uint32_t run, misses;       /* ops, and those that differed, since it held for its length */
    uint32_t keyed;             /* ops since a key differed, */
    uint32_t equal;             /* of those, the ones with equal touches; */
    uint32_t gaps;              /* how often ops were added or left out in between */
    uint32_t tests, key_misses; /* ops, and those of another key, since keyed was length */
    uint32_t votes_for, votes_against; /* touches of blocks that could have been touched before */
    uint32_t next_clean, next_loose, next_keyed; /* when to look again: of clean, run, keyed */
    bool extended, keys_extended;
    uint32_t lengths[FINDER_STREAMS]; /* as the touches across lanes tell; 0: not known */
};

/* A sign and the turn at which it was last seen: direct mapped, the newest stays. */
struct finder_sighting {
    uint32_t tag, turn;
};

/* A period on its way to the follower, and where the program was in it: the op that was due next in
 * each lane, at which turn. */
struct finder_handover {
    struct finder_period *period;
    uint32_t turns[FINDER_STREAMS];
    uint64_t read; /* of the queue's words */
};

struct finder_learner {
    struct finder_past past;
    struct finder_candidate candidates[FINDER_CANDIDATES];
    struct finder_sighting *seen;
    uint32_t lead;
    uint32_t weights[FINDER_STREAMS]; /* operations of late */
    uint32_t ops, weigh_at;           /* since the weights were looked at, and when they will be */
    uint64_t context;                 /* of the lead lane */
    struct finder_period *periods;    /* all there are, the newest first */
    uint32_t newest;
    bool newest_seen;     /* the follower follows it, or has: */
    uint64_t newest_from; /* from this operation on; until then, when it was handed over */
    struct finder_handover handover;
};

bool finder_learner_create(struct finder_learner *learner);
void finder_learner_destroy(struct finder_learner *learner);

/* Takes one message. Returns a period that is to be handed to the follower, if there is one;
 * learner->handover says where the program is in it. `may_hand`: one can be handed over now. */
struct finder_period *finder_learner_take(struct finder_learner *learner,
                                          const struct finder_queue *queue,
                                          const struct finder_event *event, bool may_hand);

/* Starts over; with `blocks`, forgets these, too. */
/* The candidate whose keys have repeated for longest. */
struct finder_outlook finder_learner_outlook(const struct finder_learner *learner);

void finder_learner_restart(struct finder_learner *learner, bool blocks);

/* The follower has no more use for it. */
void finder_learner_forget(struct finder_learner *learner, struct finder_period *period);

struct finder_period *finder_learner_period(const struct finder_learner *learner, uint32_t number);

#endif
