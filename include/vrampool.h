/* vrampool: the memory of all cards of a machine, and its host memory, as one address space.
 *
 * Programs need none of this: `vrampool run -- PROGRAM` puts a pool under them unchanged. This
 * header is for programs that open a pool of their own, and for those that run under one and want
 * to look or to advise (vp_default).
 *
 * Rules for all calls: sizes are bytes, times nanoseconds. Any thread may call anything but
 * vp_close. A vp_pool is owned by who opened it. Calls return a vp_status that must be looked at;
 * where one fails, its outputs are untouched and nothing has changed. Nothing here blocks on the
 * device unless it says so. */
#ifndef VRAMPOOL_H
#define VRAMPOOL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define VP_VERSION "0.1.0"

/* Every status, with the sentence shown to people. */
#define VP_STATUSES(X)                                                                             \
    X(OK, "success")                                                                               \
    X(INVALID, "an argument is not valid")                                                         \
    X(NOT_FOUND, "no such thing")                                                                  \
    X(NO_DEVICE_MEMORY, "a card's memory is exhausted")                                            \
    X(NO_HOST_MEMORY, "the host's memory is exhausted")                                            \
    X(QUOTA, "the pool's limits are reached")                                                      \
    X(NO_ADDRESSES, "the pool's address range is exhausted")                                       \
    X(DRIVER, "the CUDA driver returned an error")                                                 \
    X(NOT_READY, "not ready yet")                                                                  \
    X(UNSUPPORTED, "not supported here")                                                           \
    X(MALFORMED, "the file is malformed")                                                          \
    X(IO, "a file could not be read or written")                                                   \
    X(POISONED, "data of this block was lost")

typedef enum vp_status {
#define VP_STATUS_ENUM(name, text) VP_##name,
    VP_STATUSES(VP_STATUS_ENUM)
#undef VP_STATUS_ENUM
} vp_status;

#if defined(__GNUC__)
#define VP_MUST_USE __attribute__((warn_unused_result))
#define VP_API      __attribute__((visibility("default")))
#else
#define VP_MUST_USE
#define VP_API
#endif

typedef struct vp_pool vp_pool;
typedef uint64_t vp_addr;              /* an address in the pool; what a kernel dereferences */
typedef struct CUstream_st *vp_stream; /* a CUDA stream of the program */

enum { VP_MAX_PLACES = 32, VP_MAX_CARDS = 16 };

typedef enum vp_place_kind { VP_PLACE_CARD, VP_PLACE_HOST } vp_place_kind;

/* What moves when: X(name, word). PLAN: learns the program's step and moves ahead of it. The others
 * are to compare with. LRU: moves when something is needed, and sends away what was used least
 * recently. DEMAND: the same, but what will be used last, once the step is learned. INPLACE: moves
 * nothing; what does not fit comes into being elsewhere and is used there. */
#define VP_POLICIES(X) X(PLAN, "plan") X(LRU, "lru") X(DEMAND, "demand") X(INPLACE, "inplace")

typedef enum vp_policy {
#define VP_POLICY_ENUM(name, word) VP_POLICY_##name,
    VP_POLICIES(VP_POLICY_ENUM)
#undef VP_POLICY_ENUM
} vp_policy;

/* Options of a pool; vp_options_init sets each to what `vrampool run` without options uses. */
typedef struct vp_options {
    uint32_t struct_size;   /* sizeof(vp_options), set by vp_options_init */
    uint32_t compute_cards; /* bit i: card i computes (its kernels use the pool) */
    uint32_t lend_cards;    /* bit i: card i lends memory only; default: all that do not compute.
                               0: nothing lends, also no card that computes to another */
    uint32_t always_mapped; /* 1: absent chunks stay reachable where they are, whatever used them */
    uint32_t strict;        /* 1: and nothing is moved but while the device is idle (slow) */
    uint32_t verify;        /* 1: only what an operation may touch is mapped; 2: by parameters */
    uint32_t policy;        /* enum vp_policy */
    uint32_t host_sharers;  /* processes that share the host: its default is divided by this */
    uint32_t ahead_ops;     /* memory is made ready so many operations ahead; 0: 64 */
    /* Most that card i lends; 0: as hbm_bytes says. A card that computes and is among lend_cards
     * lends so much beside its own share: a place of its own, where nothing but what must leave
     * goes. */
    uint64_t lend_bytes[VP_MAX_CARDS];
    uint64_t hbm_bytes;        /* most that the pool holds on each card; 0: free less headroom */
    uint64_t host_bytes;       /* the same for host memory; VP_DEFAULT_BYTES: 90 % of available */
    uint64_t chunk_bytes;      /* 0: a card's share / 12, between 2 and 64 MiB */
    uint64_t reserve_bytes;    /* of a card, kept free for what is not foreseen; 0: two chunks */
    const char *driver_path;   /* the driver library; NULL: search for it */
    const char *record_path;   /* where to record a trace; NULL: nowhere */
    const char *timeline_path; /* where to write what was done when; NULL: nowhere */
} vp_options;

#define VP_DEFAULT_BYTES UINT64_MAX

typedef struct vp_location {
    uint32_t place;        /* index, as for vp_place_info */
    uint32_t resident;     /* 0: no memory stands behind this address yet */
    uint64_t frame;        /* number of the frame within the pool */
    uint64_t offset_bytes; /* offset of the address within the frame */
} vp_location;

typedef struct vp_place_info_t {
    char name[16]; /* card0, card1, …, host0 */
    vp_place_kind kind;
    uint64_t capacity_bytes; /* most that the pool may hold here */
    uint64_t used_bytes;     /* in frames that hold data */
    uint64_t reserve_bytes;  /* in frames kept free for the next move */
    uint64_t peak_bytes;     /* most used_bytes ever */
} vp_place_info_t;

/* Counters: X(name, what it counts). */
#define VP_STATS(X)                                                                                \
    X(live_bytes, "bytes in live blocks")                                                          \
    X(peak_bytes, "most bytes ever in live blocks")                                                \
    X(moved_bytes, "bytes copied between places")                                                  \
    X(in_bytes, "bytes copied to the card that computes")                                          \
    X(out_bytes, "bytes copied away from it")                                                      \
    X(fetches, "chunks brought in")                                                                \
    X(evictions, "chunks sent out")                                                                \
    X(clean_drops, "of these, without a copy, as what was there before was the same")              \
    X(early_copies, "chunks copied out before they had to leave")                                  \
    X(drops, "chunks of dead blocks given up without a copy")                                      \
    X(relocations, "chunks moved on from one place to another, neither of them home")              \
    X(cancels, "moves out taken back because a launch needed the chunk")                           \
    X(in_place, "operations that used a chunk over a link")                                        \
    X(relief_bytes, "given back to the driver for calls that failed for memory")                   \
    X(driver_pool_bytes,                                                                           \
      "most that the driver's own pools (cuMemAllocAsync) held, beside the pool's share")          \
    X(operations, "launches, copies and memsets seen")                                             \
    X(holds, "operations that waited on the host for a move")                                      \
    X(hold_ns, "how long they waited, together")                                                   \
    X(hold_map_ns, "of that, for memory to be mapped")                                             \
    X(hold_in_ns, "for data to come")                                                              \
    X(hold_room_ns, "for others to leave")                                                         \
    X(hold_alone_ns, "for work that runs alone, or of a former owner")                             \
    X(throttle_ns, "how long launches were kept from running too far ahead")                       \
    X(touch_p99_percent,                                                                           \
      "verify: what work may touch, in per cent of what it names; 99th percentile")                \
    X(lookup_ns, "average time of a translation, sampled")                                         \
    X(host_wait_ns, "how long moves waited for host frames to be made")                            \
    X(finder_operations, "operations shown to the step finder")                                    \
    X(finder_matched, "of those, as foretold")                                                     \
    X(finder_touches, "of those, foretold, but for what they touched")                             \
    X(finder_deviations, "how often the program left the step that was followed")                  \
    X(finder_returns, "how often it was found again")                                              \
    X(finder_dropped, "operations, allocs and frees that the finder had no time for")              \
    X(finder_periods, "repeating steps found")                                                     \
    X(finder_period_operations, "length of the step followed last")

typedef struct vp_stats {
#define VP_STAT_FIELD(name, text) uint64_t name;
    VP_STATS(VP_STAT_FIELD)
#undef VP_STAT_FIELD
} vp_stats;

/* Only ACCESSED_BY has an effect so far; it lasts as long as the block. */
typedef enum vp_advice {
    VP_ADVISE_PREFERRED_PLACE, /* keep it there where that costs nothing */
    VP_ADVISE_ACCESSED_BY,     /* card `place` will use it: keep it mapped for that card */
    VP_ADVISE_READ_MOSTLY,     /* it is hardly written: its copy elsewhere is worth keeping */
    VP_ADVISE_NONE,            /* no advice */
} vp_advice;

/* The name of a status (`VP_QUOTA`) and its sentence. Never NULL. */
VP_API const char *vp_status_name(vp_status status);
VP_API const char *vp_status_text(vp_status status);

VP_API void vp_options_init(vp_options *options);

/* Opens a pool over this machine's cards. Initialises the driver and retains the primary context of
 * each card. VP_NOT_FOUND: no driver. VP_UNSUPPORTED: a card or the driver lacks what is needed
 * (logged). VP_NO_HOST_MEMORY: the host is too small for host_bytes. */
VP_API vp_status vp_open(const vp_options *options, vp_pool **pool) VP_MUST_USE;

/* Waits for the device, then gives everything back. No other call may be running; addresses are
 * dead. */
VP_API void vp_close(vp_pool *pool);

/* The pool that this process runs under (`vrampool run`), or NULL. Not to be closed. */
VP_API vp_pool *vp_default(void);

/* How many cards this process sees at most under `vrampool run`: the first ones; the others only
 * lend. UINT32_MAX: all. Needs no cuInit, which may find fewer. */
VP_API uint32_t vp_visible_cards(void);

/* Allocates a block for card `card`. It is mapped when an operation first uses it.
 * VP_QUOTA: more than the pool has left; the log says what is where and what would help. */
VP_API vp_status vp_alloc(vp_pool *pool, unsigned card, uint64_t bytes,
                          vp_addr *address) VP_MUST_USE;

/* Frees a block at once; work still queued on it may finish. VP_NOT_FOUND: not the start of a
 * block. */
VP_API vp_status vp_free(vp_pool *pool, vp_addr address) VP_MUST_USE;

/* Brackets work that the pool cannot see (without the shim): after vp_use_begin, work on `stream`
 * may touch the blocks at the given addresses; vp_use_end is called once that work has been queued.
 * Blocks the caller while chunks are on the move. Opaque, on the caller's stack; ends with the same
 * thread. */
typedef struct vp_use {
    uint64_t opaque[16];
} vp_use;
VP_API vp_status vp_use_begin(vp_pool *pool, vp_stream stream, const vp_addr *addresses,
                              size_t count, vp_use *use) VP_MUST_USE;
VP_API void vp_use_end(vp_pool *pool, vp_use *use);

/* Asks for [address, address + bytes) to be brought to `place`, when that is free of cost. Returns
 * at once. */
VP_API vp_status vp_prefetch(vp_pool *pool, vp_addr address, uint64_t bytes,
                             unsigned place) VP_MUST_USE;
VP_API vp_status vp_advise(vp_pool *pool, vp_addr address, uint64_t bytes, vp_advice advice,
                           unsigned place) VP_MUST_USE;

/* Notes of an allocator above, which cuts segments into blocks: this block lives now; this one is
 * dead, its data worth nothing, once the work queued so far is done. Callable under the allocator's
 * lock. */
VP_API void vp_note_alive(vp_pool *pool, vp_addr address, uint64_t bytes);
VP_API void vp_note_dead(vp_pool *pool, vp_addr address, uint64_t bytes);

/* Where the byte at `address` is now. Takes no lock. VP_NOT_FOUND: not in the pool. */
VP_API vp_status vp_locate(vp_pool *pool, vp_addr address, vp_location *location) VP_MUST_USE;

VP_API unsigned vp_place_count(vp_pool *pool);
VP_API vp_status vp_place_info(vp_pool *pool, unsigned place, vp_place_info_t *info) VP_MUST_USE;
VP_API void vp_stats_read(vp_pool *pool, vp_stats *stats);

/* Writes the report to a file: JSON, or a page of HTML where the name ends in .html; `-` is stderr.
 * Takes seconds where a step was learned, for predictions. VP_IO: it could not be written. */
VP_API vp_status vp_report(vp_pool *pool, const char *path) VP_MUST_USE;

#ifdef __cplusplus
}
#endif

#endif
