/* What the files of this part share: the pool's state. pool.h is its interface.
 *
 * One lock guards all that decides (space's owners, frames, order, segments, move). It is never
 * held across a driver call. What runs without it: address lookups, parameter scans, the driver
 * calls themselves. */
#ifndef POOL_INTERNAL_H
#define POOL_INTERNAL_H

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "block/slab.h"
#include "move/owed.h"
#include "pool/pool.h"
#include "trace/trace.h"

enum {
    POOL_WORDS = 8192,   /* addresses and ranges one operation may name */
    POOL_TOUCHES = 8192, /* pieces of segments they come to */
    POOL_HOSTS = 1024,   /* pieces of host memory with addresses in them */
    /* A mark every so many operations of a stream: rarely while everything fits, since recording
     * one costs as much as a launch; often once chunks have to leave, since marks tell which are
     * idle. Powers of two. */
    SAMPLE_AT_EASE = 128,
    SAMPLE_SPILLING = 8,
    POOL_MOVERS = 2 + MOVE_WAYS,
    POOL_PIECES = 2, /* of a copy out, queued at once at most */
    POOL_LOCK_LOOKS = 300,
    POOL_LOCK_PAUSES = 4, /* between two looks */
    AGE_GRAIN = 16,       /* operations that count as one moment when ages are compared */
};

/* Ratios from 1 in tenths; the last holds all above. */
enum { VERIFY_RATIOS = 256 };

/* For verify mode's reports. */
struct verify_past {
    const char *name;
    uint32_t touches;
};

/* A piece of host memory that is copied to the device, and holds addresses of the pool. */
struct pool_host {
    const void *from;
    uint64_t bytes;
    CUdeviceptr to;
};

/* Per thread that launches; made at its first operation. */
struct pool_thread {
    uint32_t id;
    uint32_t slot;             /* of the stream it used last */
    vp_addr words[POOL_WORDS]; /* addresses and starts of ranges */
    uint64_t
        word_bytes[POOL_WORDS]; /* their lengths, where the operation has ranges; 0: a pointer */
    struct move_touch touches[POOL_TOUCHES];
    struct pool_host hosts[POOL_HOSTS];
    vp_addr scanned[POOL_WORDS];
    uint32_t ids[POOL_WORDS];
};

struct pool_lane {
    CUstream stream;
    CUevent events[MOVE_COPIES];
    uint64_t queued_ns[MOVE_COPIES]; /* for the timeline */
    /* Of copies out (pieces.c): pieces so far, their sizes, when the oldest on its way began, and
     * how long one took lately (0: not known). */
    unsigned pieces_queued, pieces_done;
    CUevent piece_events[POOL_PIECES];
    uint64_t piece_bytes[POOL_PIECES];
    uint64_t piece_since_ns;
    double piece_ns_per_byte;
    CUmodule module;      /* that the lane is to unload */
    CUfunction digest;    /* NULL: no digests are made in this lane (digest.c) */
    struct digest *parts; /* pinned: DIGEST_BLOCKS for each of MOVE_COPIES */
};

/* Something that should not be mapped, which the driver refused to unmap. */
struct pool_residue {
    vp_addr address;
    uint64_t bytes;
};
enum { POOL_RESIDUES = 64 };

struct measure;  /* measure.h */
struct vet;      /* vet.c */
struct record;   /* record.c */
struct timeline; /* timeline.h */
struct foresee;  /* foresee.c */
struct step;     /* trace/step.h */

/* Threads and time, for running the whole pool in one thread under the simulated driver: NULL in
 * real life. */
struct pool_edge {
    void (*locked)(void *context);   /* the lock was taken */
    void (*unlocked)(void *context); /* the lock was let go: others may run */
    /* Nothing to do now, for so long at most: let others run, or time pass. */
    void (*wait)(void *context, uint64_t ns);
    uint64_t (*now_ns)(void *context);
    uint64_t (*thread)(void *context); /* which thread of control this is */
    /* True: the pool's threads are played too, by who calls pool_map_main and the others, each in a
     * thread of control of its own; then it is also told when waits end early, and when a thread
     * has the device to wait for. Otherwise whoever waits does all that is to be done. */
    bool threads;
    void (*wake)(void *context);
    void (*pause)(void *context);
    /* NULL, or in place of the finder: an operation enters, and what is foretold of it, true or
     * not. Lock held. */
    void (*foresee)(void *context, const struct pool_op *op);
    void *context;
};

struct vp_pool {
    const struct driver *driver;
    struct driver *owned_driver; /* the same, where vp_open loaded it */
    vp_options options;
    const struct pool_edge *edge;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct space space;
    struct frame_table frames;
    struct order order;
    struct segments segments;
    struct slabs slabs;
    struct move move;
    struct params params;
    uint64_t touch_serial, seen_serial;
    bool polling;     /* somebody asks the driver what has finished */
    bool relieving;   /* somebody has memory given back to it (relief.c); */
    uint32_t reliefs; /* so many may have some of that returned */

    uint64_t regrow_at_ns; /* no card that shrank is looked at before (regrow.c) */

    uint64_t page_bytes;
    unsigned cards;                        /* of the machine */
    _Atomic uint32_t computes;             /* bit i: card i is attached; set under the lock */
    bool shares;                           /* cards that compute lend to each other */
    uint32_t reach[VP_MAX_CARDS];          /* bit i: the card can use card i's memory in place, */
    uint32_t native_atomics[VP_MAX_CARDS]; /* also for atomics */
    CUcontext context[VP_MAX_CARDS];
    unsigned host_place;
    uint32_t
        refuge_places; /* bit i: frames of place i may hold data of chunks that are not mapped */
    CUmemAllocationProp place_prop[VP_MAX_PLACES];
    CUmemAccessDesc access[VP_MAX_PLACES][VP_MAX_CARDS];
    unsigned accesses[VP_MAX_PLACES];
    _Atomic uint32_t severed[VP_MAX_PLACES]; /* bit i: card i has lost its way to that memory */
    vp_addr alias_base, alias_next, alias_end;
    vp_addr *alias_free; /* slots given back, as a stack */
    uint64_t alias_free_count, alias_free_room;
    /* Of each card that computes: one page, mapped behind all its segments. */
    CUmemGenericAllocationHandle guards[VP_MAX_CARDS];
    struct pool_residue residues[POOL_RESIDUES];
    _Atomic uint32_t residue_count;
    CUmemGenericAllocationHandle orphans[POOL_RESIDUES]; /* that it refused to release */
    uint32_t orphan_count;
    void *host_orphans[POOL_RESIDUES];
    uint32_t host_orphan_count;
    struct pool_lane lanes[MOVE_LANES];
    struct digest_seeds digest_seeds;

    struct vet *vet;
    uint64_t tables; /* changes with every table */
    struct record *record;
    struct timeline *timeline;
    struct foresee *foresee; /* from the first eviction on */
    bool foresee_tried;
    struct measure *measure;   /* from then on too */
    _Atomic uint32_t captures; /* streams that capture; its address owns what they touch */
    struct list keepers;
    uint64_t keeper_serial;
    pthread_mutex_t verifying, recording;
    struct verify_past past[8];
    uint64_t
        touch_ratios[VERIFY_RATIOS]; /* operations by what they may touch over what they name */
    uint32_t past_count;
    bool lost; /* the context is gone: nothing more is moved */
    CUresult lost_with;
    unsigned mark_failures; /* in a row */

    pthread_t mover[POOL_MOVERS]; /* one maps and fetches, one makes frames, the others copy out */
    unsigned movers;
    bool stopping;

    _Atomic uint32_t sample; /* operations of a stream between marks */
    uint64_t holds, hold_for_ns[MOVE_CAUSES], throttle_ns, relief_pages;
    _Atomic uint64_t host_wait_ns; /* counted while the lock is not held */
    _Atomic uint32_t granting;     /* threads that set access to a mapping */
    _Atomic uint64_t granted_ns;   /* when that was done last; 0: never */
};

/* Lets the other thread of the core go first. */
static inline void pool_relax(void)
{
#if defined __x86_64__
    __builtin_ia32_pause();
#elif defined __aarch64__
    __asm__ volatile("yield");
#endif
}

/* Who finds the lock taken looks again for some 20 to 50 us before it sleeps: it is not held for
 * longer, as a rule, and being woken takes as long again, which a program that is bound by its
 * launches feels. */
static inline void pool_lock(vp_pool *pool)
{
    if (pool->edge) {
        pool->edge->locked(pool->edge->context);
        return;
    }
    for (unsigned look = 0; look < POOL_LOCK_LOOKS; look++) {
        if (pthread_mutex_trylock(&pool->lock) == 0) return;
        for (unsigned i = 0; i < POOL_LOCK_PAUSES; i++) pool_relax();
    }
    pthread_mutex_lock(&pool->lock);
}

static inline void pool_unlock(vp_pool *pool)
{
    if (!pool->edge)
        pthread_mutex_unlock(&pool->lock);
    else
        pool->edge->unlocked(pool->edge->context);
}

uint64_t pool_now_ns(const vp_pool *pool);

/* The calling thread's lists; NULL without memory. */
struct pool_thread *pool_thread_get(vp_pool *pool);

/* open.c: makes card `card` usable with its current context, at the first allocation there. Lock
 * not held. */
vp_status pool_attach(vp_pool *pool, unsigned card, CUcontext context) VP_MUST_USE;

/* As pool_open, with an edge and no thread of its own. For simulation. */
vp_status pool_open_stepped(const struct driver *driver, const vp_options *options,
                            const struct pool_edge *edge, vp_pool **pool) VP_MUST_USE;

/* What the pool leaves free of a card for the context, modules, local memory and libraries that
 * allocate for themselves. */
static inline uint64_t pool_headroom_bytes(uint64_t total_bytes)
{
    return total_bytes / 32 < GIB ? total_bytes / 32 : GIB;
}

/* regrow.c: lets cards that shrank have a little of their share again, where it is time to look and
 * there is plenty; regrow_rest: one has just shrunk. Lock held, regrow lets it go in between. */
bool regrow(vp_pool *pool);
void regrow_rest(vp_pool *pool);

/* memory.c: whether so many more pages for a card can be promised; lock held. */
bool pool_fits(const vp_pool *pool, unsigned card, uint64_t pages);

/* work.c: records a mark on a stream, in the current context. Lock not held; `marking` is set. */
CUresult pool_record_mark(vp_pool *pool, struct order_mark *mark, CUstream stream);

/* The context of a stream of the program's; NULL: the driver does not say. Lock not held. */
CUcontext pool_stream_context(const vp_pool *pool, CUstream stream);

/* The same for all work of a context, which is the current one afterwards. */
void pool_drain_context(vp_pool *pool, CUcontext context);

/* The calling thread's context. Streams are told apart by it, so one failure is not taken for an
 * answer. */
CUresult pool_current_context(const vp_pool *pool, CUcontext *context);

/* Sets the thread's capture mode, and returns the one before in *mode. */
CUresult pool_exchange_mode(vp_pool *pool, int *mode);

/* Whether an event has come to pass; lock held, let go meanwhile. An error that stays is that of a
 * lost context: then the pool is lost. */
bool pool_has_passed(vp_pool *pool, CUevent event);

/* Waits for all work of a stream that is about to end or that cannot be marked; where that fails
 * for good the pool is lost. Lock not held. */
void pool_drain_stream(vp_pool *pool, CUstream stream);

/* pieces.c: copies what the action says, until it is recalled; *queued_bytes: how much. If that is
 * all the last piece may be on its way, else nothing is. Lock not held. */
CUresult pieces_copy(vp_pool *pool, const struct move_action *action, vp_addr to, vp_addr from,
                     uint64_t *queued_bytes);

/* A moment on the way to the device's next event. Lock not held. */
void pool_pause(vp_pool *pool);

/* Finds out what has finished, and carries out one action; lock held, let go in between.
 * False: there was nothing to do. */
bool pool_work(vp_pool *pool);

/* Carries out one action, if there is one for such a worker; lock held, let go in between. */
bool pool_act(vp_pool *pool, enum move_worker worker);

/* Waits a moment for something to change; lock held, let go in between. */
void pool_wait(vp_pool *pool, uint64_t ns);
void pool_wake(vp_pool *pool);

/* mover.c: the threads that do this, and their bodies, which return once the pool stops: one maps
 * and fetches, some copy out, one makes frames ahead of need. */
vp_status pool_start_mover(vp_pool *pool) VP_MUST_USE;
void pool_stop_mover(vp_pool *pool);
void *pool_map_main(void *pool);
void *pool_copy_main(void *pool);
void *pool_stock_main(void *pool);
unsigned pool_copiers(const vp_pool *pool); /* threads that copy out: for as many links at once */

/* Maps `frame` at an address, for all cards that can reach it; retried a few times. */
CUresult pool_map(vp_pool *pool, vp_addr address, uint64_t bytes,
                  CUmemGenericAllocationHandle handle, unsigned place);
CUresult pool_unmap(vp_pool *pool, vp_addr address, uint64_t bytes);

/* Unmaps what is left mapped in a range. Lock not held. */
void pool_clear_residue(vp_pool *pool, vp_addr address, uint64_t bytes);

/* Makes and releases frames' memory, alias mapping included; what cannot be released is as it was.
 * Lock not held. */
CUresult pool_make_memory(vp_pool *pool, unsigned place, uint64_t bytes, uint64_t *handle,
                          vp_addr *alias);
CUresult pool_release_memory(vp_pool *pool, const struct frame *frame);

/* Makes `context` current for this thread, which may be the program's; *before is what was. */
CUresult pool_enter_context(vp_pool *pool, CUcontext context, CUcontext *before);
void pool_leave_context(vp_pool *pool, CUcontext context, CUcontext before);

/* digest.c: makes a card's lanes able to digest, in its context, the current one; where that fails
 * they are not. Lock not held. */
void digest_open(vp_pool *pool, struct pool_lane *in, struct pool_lane *out);
void digest_close(vp_pool *pool, struct pool_lane *lane); /* nothing runs in it any more */

/* Queues a digest of what lies at an address, of the card `card`, as part of copy `ticket`. Lock
 * not held. False: there will be none. */
bool digest_queue(vp_pool *pool, unsigned lane, uint64_t ticket, vp_addr address, uint64_t bytes);

/* What it was, once it has ended. */
struct digest digest_read(const struct pool_lane *lane, uint64_t ticket);

/* give.c */
void pool_give_event(const vp_pool *pool, CUevent event);
void pool_give_stream(const vp_pool *pool, CUstream stream);
void pool_give_module(const vp_pool *pool, CUmodule module);
void pool_give_handle(vp_pool *pool, CUmemGenericAllocationHandle handle); /* lock not held */
void pool_give_orphans(vp_pool *pool);
void pool_give_range(const vp_pool *pool, vp_addr address, uint64_t bytes);
void pool_give_host(vp_pool *pool, void *memory); /* lock not held */

/* vet.c: looking through what unvetted functions wrote. */
vp_status vet_create(vp_pool *pool) VP_MUST_USE;
void vet_destroy(vp_pool *pool);

/* Where what the operation will have written is looked at; NULL: all places are taken for now. Lock
 * held. vet_release gives it back unused. */
struct vet_slot *vet_reserve(vp_pool *pool);
void vet_release(vp_pool *pool, struct vet_slot *slot);

/* What the operation touches is to be looked at before others that are given it may run. Lock
 * held. */
void vet_note(struct pool_op *op);

/* Whether the operation's function, given as many addresses, is known to write none. */
bool vet_is_over(const struct pool_op *op);

/* True while something that the operation is given has yet to be looked at. Lock held. */
bool vet_is_due(const struct pool_op *op);

/* After the operation was queued, or failed to be: queues copies of what it may have written, on
 * its stream. */
void vet_queue(struct pool_op *op, CUresult result);

/* Looks at what has arrived; lock held, let go in between. True when something was over. */
bool vet_poll(vp_pool *pool);

/* Waits for what is looked through by means of that context, and gives them back. Lock held, let go
 * in between; nobody polls meanwhile. */
void vet_context_ends(vp_pool *pool, CUcontext context);

/* keep.c: segments that an object of the program's keeps where they are; lock held. */
void keep_segment(vp_pool *pool, const void *owner, struct segment *segment);
void keep_copies(vp_pool *pool, const void *to, const void *from);
void keep_ends(vp_pool *pool, const void *owner);
void keep_destroy(vp_pool *pool);

/* blocks.c: what records and learns is told of the program's blocks; lock held. */
void pool_block_lives(vp_pool *pool, uint32_t id, uint64_t bytes);
void pool_block_dies(vp_pool *pool, uint32_t id, uint64_t bytes);

/* The blocks that the operation's parameters name, each once, into ids[POOL_WORDS]; lock held. */
uint32_t pool_op_blocks(const struct pool_op *op, uint32_t *ids);
enum trace_kind pool_op_trace_kind(const struct pool_op *op);

/* record.c: the trace of what the program does. */
vp_status record_create(vp_pool *pool, const char *path) VP_MUST_USE;
void record_destroy(vp_pool *pool);
void record_alloc(vp_pool *pool, uint32_t id, uint64_t bytes);
void record_free(vp_pool *pool, uint32_t id);
void record_op(vp_pool *pool, const struct pool_op *op);

/* foresee.c: shows an admitted operation to the finder; lock held. */
void foresee_op(vp_pool *pool, struct pool_op *op);
void foresee_alloc(vp_pool *pool, uint32_t id, uint64_t bytes);
void foresee_free(vp_pool *pool, uint32_t id);
void foresee_stats(const vp_pool *pool, vp_stats *stats);

/* Calls `use` with the step that repeats, while nothing is learned; false: there is none yet. Lock
 * not held. */
bool foresee_with_step(vp_pool *pool, void (*use)(void *context, const struct step *step),
                       void *context);
void foresee_destroy(vp_pool *pool); /* after pool->stopping was set */
void *foresee_main(void *pool);      /* the student's body, from when pool->foresee is there */

/* report.c: what this pool's steps are predicted with. Lock not held. */
struct predict_setup;
void pool_predict_setup(vp_pool *pool, struct predict_setup *setup);

/* verify.c */
void verify_begin(struct pool_op *op);
void verify_count(struct pool_op *op, uint32_t named); /* the first touches; lock held */
uint64_t verify_ratio_percent(const vp_pool *pool);    /* 99th percentile */
CUresult verify_end(struct pool_op *op, CUresult result);

#endif
