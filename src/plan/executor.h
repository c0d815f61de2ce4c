/* executor: decides what the mover does next. Pure, and driven by events: it is told what the
 * program and the copies have done, and answers with the next action of a lane. It knows neither
 * time nor driver: the simulator drives it, and whatever carries a plan out may.
 *
 * Ops are counted through all steps: op t is op t mod op_count of step t / op_count. A first count,
 * `launched`, says which ops have gone to the driver; a second, `done`, which have ended on the
 * device. An item (shape.h) is one chunk of one block:
 *
 *              takes a ready frame                          evict, save
 *     EMPTY ------------------------> HOME ----------+----------------> LEAVING (save: HOME)
 *       ^                              ^ ^           | drop               | copied
 *       | dies                  landed | |           v                    v
 *     (any)                      LANDING |        UNMAPPING <-------------+
 *                         copy queued ^  | recalled  | done
 *                                     |  +-----------|---- LEAVING
 *                                   COMING <------- AWAY, in a refuge; perhaps usable in place
 *                                           fetch
 *
 * What leaves goes to the refuge whose link is free, of the near ones to that which was sent least
 * so far for what it can carry: so chunks that leave one after the other come back side by side.
 * The farther ones take what the near ones have no room for. ("Host" in names below is whatever
 * refuge it is.)
 *
 * Room is counted in bytes of frames. A dead chunk keeps its frame mapped, for the next block of
 * its size to take over without a call (a `ready` frame of the chunk's slot); frames are taken from
 * there (strip) when none is unmapped and free.
 *
 * How it decides is its mode: by a plan, or by one of four rules. In all of them an op that is not
 * prepared for gets what it needs as fast as can be; when everything else has left and it still
 * does not fit, the rest is used in place. */
#ifndef PLAN_EXECUTOR_H
#define PLAN_EXECUTOR_H

#include "plan/heap.h"
#include "plan/shape.h"

/* X(enumerator): PLAN carries a plan out. EAGER fetches ahead by next use and evicts what is used
 * last as soon as a shortage is in sight. DEMAND evicts what is used last, LRU what was used least
 * recently, both when an op needs room. INPLACE moves nothing. */
#define EXECUTOR_MODES(X) X(PLAN) X(EAGER) X(DEMAND) X(LRU) X(INPLACE)

enum executor_mode {
#define EXECUTOR_MODE(name) EXECUTOR_##name,
    EXECUTOR_MODES(EXECUTOR_MODE)
#undef EXECUTOR_MODE
};

/* Where chunks go. */
struct executor_refuge {
    uint64_t bytes;      /* of its frames, at most */
    uint32_t ns_per_mib; /* there and back, alone */
    bool in_place_works; /* the card can use memory there where it is */
};

enum { EXECUTOR_REFUGES = 16 };
_Static_assert((int)EXECUTOR_REFUGES == (int)VP_MAX_CARDS, "all other cards, and the host");

struct executor_options {
    enum executor_mode mode;
    uint64_t capacity_bytes; /* of the card, for data and spare frames */
    uint32_t refuges, near;  /* near ones first; at least one */
    struct executor_refuge refuge[EXECUTOR_REFUGES];
    uint64_t spare_bytes; /* unmapped free frames to have at hand */
    uint32_t ahead_ops;   /* how far ahead frames are mapped for blocks that will be born */
    uint32_t lead_ops;    /* how far the host may be ahead of the device: what is launched holds
                             all that it touches */
};

/* What a plan decides, by gap (shape.h) and by op; PLAN mode only. The owner keeps it. */
struct executor_plan {
    const uint8_t *away;      /* of each gap: the chunk leaves during it */
    const uint32_t *save_for; /* of each gap: the later gap of the same chunk, before which nothing
                                 writes, for which the chunk is copied out early; SHAPE_NEVER */
    const uint64_t *occupied; /* of each op: bytes at home while it runs, as planned */
};

enum executor_state {
    ITEM_EMPTY,
    ITEM_HOME,
    ITEM_AWAY,
    ITEM_COMING,
    ITEM_LANDING,
    ITEM_LEAVING,
    ITEM_UNMAPPING,
};

struct executor_item {
    uint64_t base; /* first op of the step in which it was born; persistent: of its next use */
    uint64_t next; /* next op that touches it and is not launched yet; or its death */
    uint64_t last; /* last launched op that touches it */
    uint64_t in_place_by; /* the op that may use it in place, plus one */
    uint32_t chunk;
    uint32_t use;     /* of the role's uses, the next one */
    uint32_t serial;  /* counts blocks */
    uint8_t state;    /* enum executor_state */
    uint8_t refuge;   /* where */
    bool host_frame;  /* it has a frame; */
    bool host_copy;   /* which holds the same data; */
    bool host_mapped; /* and is mapped: usable in place */
    bool hosting;     /* being mapped there */
    bool saving;      /* at home, being copied out */
    bool dies;        /* its block is dead, the move is not over */
    bool promised;    /* PLAN: at home, and will leave by itself once its last use is over */
};

enum executor_lane { EXECUTOR_IN, EXECUTOR_OUT, EXECUTOR_REMAP, EXECUTOR_MAP, EXECUTOR_LANES };

/* X(enumerator, lane): FETCH maps a frame, then copies in. EVICT copies out, then unmaps. SAVE
 * copies out early. DROP unmaps what has a good copy. READY maps a frame for a block to be born.
 * STRIP unmaps the frame of a dead chunk. HOST maps a chunk in its refuge. */
#define EXECUTOR_KINDS(X)                                                                          \
    X(FETCH, IN) X(EVICT, OUT) X(SAVE, OUT) X(DROP, REMAP) X(READY, MAP) X(STRIP, MAP) X(HOST, MAP)

enum executor_kind {
#define EXECUTOR_KIND(name, lane) EXECUTOR_##name,
    EXECUTOR_KINDS(EXECUTOR_KIND)
#undef EXECUTOR_KIND
};

struct executor_action {
    enum executor_kind kind;
    uint32_t item;   /* FETCH, EVICT, SAVE, DROP, HOST */
    uint32_t slot;   /* READY, STRIP */
    uint32_t serial; /* of the item's block */
    uint8_t refuge;  /* FETCH, EVICT, SAVE, HOST */
    uint64_t bytes;
};

/* Why an op is not launched; of several reasons the last in this list. */
enum executor_wait {
    EXECUTOR_WAITS_NOT,
    EXECUTOR_WAITS_MAP,  /* something is to be mapped */
    EXECUTOR_WAITS_IN,   /* something comes, or waits for its turn to come */
    EXECUTOR_WAITS_ROOM, /* something must leave first */
};

struct executor_slot {
    uint64_t bytes;
    uint32_t first_birth, birth_count; /* ops in which a block of the slot is first used */
    uint32_t dead, ready,
        coming;            /* frames mapped at dead chunks; of which done with; being mapped */
    uint32_t stamp, count; /* scratch of one look at what will be born */
    uint32_t host_dead[EXECUTOR_REFUGES]; /* the same, mapped frames of refuges */
};

/* A frame of a dead chunk that work not yet done may use: ready when `after` ops are done. */
struct executor_grave {
    uint64_t after;
    uint32_t slot;
};

struct executor {
    const struct shape *shape;
    struct executor_options options;
    struct executor_plan plan;
    struct executor_item *items;
    struct executor_slot *slots;
    uint32_t *births;              /* op positions, by slot, in order */
    struct executor_grave *graves; /* a ring */
    uint32_t grave_first, grave_count, grave_room;
    struct heap away[EXECUTOR_REFUGES]; /* items AWAY there that will be used, by next use; they
                                           share keys and places */
    struct heap idle;                   /* items HOME that no launched op uses; next victim first */
    struct heap leaving;  /* PLAN: items whose time away has begun, first come first; */
    struct heap dropping; /* the same where the host has a good copy */
    struct heap saving;   /* PLAN: items to be copied out early */
    uint32_t *wanted;     /* items that the waiting op lacks, those without a frame first; */
    uint32_t wanted_count, wanted_births; /* of which so many, at most */
    uint64_t relented; /* the op that uses in place what does not fit, plus one */
    uint64_t *due;     /* of each op position: bytes of items AWAY that it uses next */
    int64_t *growth;   /* of each op position: bytes born before it less bytes died */
    uint64_t *early;   /* PLAN: of each op position: bytes at home earlier than planned */
    uint64_t launched, done, buried; /* ops; buried: whose deaths have been dealt with */
    uint64_t used_bytes;             /* of frames of the card */
    uint64_t ready_bytes;            /* of those, frames of dead chunks that can be taken */
    uint64_t pending_bytes;          /* the same, of which work may not be done */
    uint64_t going_bytes;            /* of items LEAVING and UNMAPPING */
    uint64_t promised_bytes;         /* of items that are promised */
    uint64_t host_used_bytes[EXECUTOR_REFUGES];
    uint64_t sent_ns[EXECUTOR_REFUGES]; /* what was sent there would have taken, there and back */
    uint32_t busy[EXECUTOR_LANES];      /* see executor_set_busy */
    uint64_t in_place_read_bytes[EXECUTOR_REFUGES]; /* of the op launched last, by refuge; */
    uint64_t in_place_write_bytes[EXECUTOR_REFUGES];
    uint64_t evictions;
    uint64_t
        birth_op; /* of the next block that will lack a frame, as last found; UINT64_MAX: none */
    uint32_t birth_slot;
    bool births_known; /* nothing that matters has changed since */
    uint64_t blocker;  /* an op position that lacked room for a fetch when last looked at */
    uint32_t landing;  /* the item on which an op waited last */
    uint32_t flying;   /* actions begun and not done */
    uint64_t revision; /* counts changes; */
    uint64_t idle_at[EXECUTOR_LANES];  /* nothing to do then, so nothing as long as it stays */
    uint64_t looked_at;                /* the op could not be launched then */
    uint64_t frontier_at, frontier_op; /* the shortage as last found */
    uint64_t wanted_at, wanted_bytes;  /* what the waiting op lacks, as last counted, */
    uint32_t wanted_stamp;             /* and what is promised to it (stamp) */
    uint32_t stamp;
};

/* Starts before the first step: persistent blocks are at home, in the order of their roles, as far
 * as they fit; the rest is in refuges. shape and plan outlive it. VP_QUOTA: they do not fit there
 * either; VP_NO_HOST_MEMORY. */
vp_status executor_create(const struct shape *shape, const struct executor_options *options,
                          const struct executor_plan *plan, struct executor *executor) VP_MUST_USE;
void executor_destroy(struct executor *executor);

/* The program wants to launch the op `launched`. True: it is launched (what it touches is noted).
 * Otherwise ask again after each event. */
bool executor_launch(struct executor *executor);

/* The op `done` can run: everything copied for it has landed. */
bool executor_can_run(struct executor *executor);

/* The op `done` has ended on the device. */
void executor_op_ended(struct executor *executor);

/* Bit i of `refuges`: the link to refuge i (lane OUT) or from there (lane IN) takes no more copies
 * for now. */
void executor_set_busy(struct executor *executor, enum executor_lane lane, uint32_t refuges);

/* The next action of a lane, if there is one; it has begun then. */
bool executor_next(struct executor *executor, enum executor_lane lane,
                   struct executor_action *action);

/* FETCH: its copy is queued. EVICT: its copy has ended, it will be unmapped; false: it was
 * recalled, the action is over. */
void executor_queued(struct executor *executor, const struct executor_action *action);
bool executor_copied(struct executor *executor, const struct executor_action *action);

/* The action is over. */
void executor_ended(struct executor *executor, const struct executor_action *action);

/* Nothing runs, no lane has anything to do, and the op still waits: lets it use in place what does
 * not fit. False: that is not possible, the op cannot run. */
bool executor_relent(struct executor *executor);

/* Why the op `launched` waits. */
enum executor_wait executor_waits(const struct executor *executor);

/* The gap (shape.h) in which an item is, between its last use and its next; SHAPE_NEVER: nothing
 * uses it. */
uint32_t executor_gap(const struct executor *executor, uint32_t item);

/* Unmapped, free. */
static inline uint64_t executor_free_bytes(const struct executor *executor)
{
    return executor->used_bytes < executor->options.capacity_bytes
               ? executor->options.capacity_bytes - executor->used_bytes
               : 0;
}

/* What is taken of all refuges. */
static inline uint64_t executor_refuge_bytes(const struct executor *executor)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < executor->options.refuges; i++) bytes += executor->host_used_bytes[i];
    return bytes;
}

/* For debug builds and tests: counts agree with states. */
bool executor_is_valid(const struct executor *executor);

#endif
