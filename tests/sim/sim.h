/* sim: random programs on the emulated driver, with random timing and failures, against a plain
 * reference memory.
 *
 * One seed is one program. Its threads of control, and the mover's, are fibers of one OS thread;
 * whenever the pool lets its lock go, waits or calls the driver, another may run, as the seed says.
 * So every interleaving is replayed by its seed.
 *
 * The programs are free of races: what conflicts is put in order by events, and nobody starts an
 * operation on a block while another thread is about to queue a conflicting one. So the reference
 * memory can follow operations in the order in which they are queued, every byte read back must be
 * the reference's, and every conflict, fault or leak that the emulator finds is the pool's doing.
 *
 *     main.c       seeds, worker processes, coverage, verdict
 *     seed.c       one seed from beginning to end
 *     world.c      the machine, the pool's options, what must hold at any moment
 *     machines.c   machines, and what of them is lost
 *     edge.c       the pool's edge: locks, waits, driver calls with failures
 *     fiber.c      threads of control
 *     blocks.c     blocks, the reference memory, allocation and notes
 *     streams.c    the program's streams
 *     order.c      the order of operations
 *     kernels.c    the kernels, emulated and on the reference memory
 *     work.c       launches
 *     steps.c      a program that repeats itself, for the pool to learn
 *     transfer.c   copies and memsets
 *     graphs.c     captures, and what comes of them
 *     actions.c    everything else a program does, and what it does next */
#ifndef SIM_SIM_H
#define SIM_SIM_H

#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>

#include "base/random.h"
#include "emu/abi_more.h"
#include "emu/calls.h"
#include "emu/emu.h"
#include "fiber.h"
#include "pool/internal.h"

enum {
    SIM_THREADS = 3, /* threads of control of the program */
    SIM_CARDS = 8,
    SIM_STREAMS = 24,
    SIM_BLOCKS = 96,
    SIM_PARENTS = 6,
    SIM_NAMED = 8, /* blocks one operation may read, and write */
    SIM_VARIANTS = 4,
    SIM_STALE = 16, /* addresses of freed blocks that the program still has */
};

enum sim_call {
#define SIM_CALL(kind, variant, symbol, base, version, arguments, names) SIM_##symbol,
    EMU_CALLS(SIM_CALL)
#undef SIM_CALL
        SIM_CALLS
};

/* The emulated driver, as the program calls it; the pool goes through edge.c. */
/* clang-format off */
#define SIM_DECLARE(kind, variant, symbol, base, version, arguments, names) \
    CUresult symbol arguments;
EMU_CALLS(SIM_DECLARE)
#undef SIM_DECLARE
/* clang-format on */

/* What a seed's program did: X(name, what it counts). */
#define SIM_COUNTS(X)                                                                              \
    X(seeds, "seeds")                                                                              \
    X(moves, "chunks moved or dropped")                                                            \
    X(recalls, "moves out taken back")                                                             \
    X(in_place, "operations that used a chunk in place")                                           \
    X(allocations, "allocations")                                                                  \
    X(notes, "blocks noted alive")                                                                 \
    X(frees, "blocks freed")                                                                       \
    X(refused_allocations, "allocations refused")                                                  \
    X(launches, "kernels launched")                                                                \
    X(hidden, "kernels that reached blocks through tables")                                        \
    X(copies, "copies")                                                                            \
    X(memsets, "memsets")                                                                          \
    X(uses, "uses announced without the shim")                                                     \
    X(graphs, "graphs launched")                                                                   \
    X(refused, "operations refused")                                                               \
    X(read_back_bytes, "bytes read back and compared")                                             \
    X(streams_ended, "streams destroyed")                                                          \
    X(advice, "prefetches and advice")                                                             \
    X(reliefs, "times that memory was given back to the driver")                                   \
    X(switches, "switches between threads")                                                        \
    X(injected, "driver calls failed on purpose")                                                  \
    X(failed_opens, "pools that failed to open")                                                   \
    X(cards_lost, "cards lost")                                                                    \
    X(lenders_lost, "of these, cards that only lent")                                              \
    X(routed, "machines with links")                                                               \
    X(links_lost, "links lost")                                                                    \
    X(lanes_lost, "lanes lost")                                                                    \
    X(relays_lost, "relays lost")                                                                  \
    X(peer_copies, "chunks copied from card to card")                                              \
    X(strict, "seeds that move only while the device is idle")                                     \
    X(verified, "seeds in verify mode")                                                            \
    X(poisoned, "seeds that lost a chunk's data, and were told so")                                \
    X(steps, "steps of programs that repeat themselves")                                           \
    X(deviations, "of these, steps that differed on purpose")                                      \
    X(plans, "periods that the pool learned")                                                      \
    X(followed, "operations that came as foretold")                                                \
    X(left, "times that a period was left")                                                        \
    X(returned, "times that it was found again")                                                   \
    X(ahead, "chunks mapped before anybody waited for them")                                       \
    X(early_copies, "chunks copied out before they had to leave")                                  \
    X(clean_drops, "chunks that left without a copy, as they had come")

struct coverage {
#define SIM_COUNT(name, text) uint64_t name;
    SIM_COUNTS(SIM_COUNT)
#undef SIM_COUNT
    uint64_t called[SIM_CALLS], failed[SIM_CALLS];
    uint64_t arrows[CHUNK_STATES][MOVE_EVENT_COUNT];
};

/* ---- Memory ---- */

/* A segment that the program's own allocator cuts into blocks, and tells the pool so. */
struct parent {
    bool alive;
    vp_addr address;
    uint64_t bytes;
    unsigned card, blocks;
    uint32_t ghosts; /* streams whose work may still touch blocks that died in it */
};

/* What the reference knows of a word. KNOWN_DEAD: its value, an address whose block was freed: it
 * is not followed, even where another block has come to lie there. */
enum known { UNKNOWN, KNOWN, KNOWN_DEAD };

struct sim_block {
    bool alive, lost; /* lost: its data is gone, as the pool said */
    bool kept;        /* the program that repeats itself has it: nobody else frees it */
    vp_addr address;
    uint64_t words; /* of 8 bytes */
    uint64_t *value;
    uint8_t *known; /* enum known, of each word */
    unsigned card;
    struct parent *parent; /* NULL: an allocation of its own */
    bool pointers;         /* may hold addresses */
    unsigned reading;      /* operations about to be queued that read it */
    bool writing;
    int writer;       /* stream that wrote it last, or -1 */
    uint32_t readers; /* streams that have read it since */
    uint32_t ghosts;  /* streams whose work may still touch what was here before */
};

struct place { /* words of a block */
    struct sim_block *block;
    uint64_t first;
};

static inline vp_addr place_address(struct place place)
{
    return place.block->address + 8 * place.first;
}

static inline uint64_t *place_value(struct place place)
{
    return place.block->value + place.first;
}

static inline uint8_t *place_known(struct place place)
{
    return place.block->known + place.first;
}

/* ---- Streams ---- */

struct stream {
    bool alive, ending, ended; /* ended: destroyed, its event still tells of its end */
    CUstream handle;
    CUevent event; /* recorded behind its last operation */
    unsigned card;
    int owner; /* thread whose per-thread stream it is, or -1 */
    bool blocking;
    unsigned queueing; /* threads that are queueing on it */
};

/* ---- Threads ---- */

/* A copy to or from pinned memory that has not been looked at yet. */
struct pending {
    bool any;
    uint64_t words;
    uint64_t *expected; /* NULL: a copy to the device */
    uint8_t *known;
};

struct thread {
    unsigned index, card;
    uint64_t *pinned;
    CUevent pinned_event; /* behind the last copy that used `pinned` */
    struct pending pending;
    uint64_t *scratch; /* pageable */
    unsigned left;     /* actions to take */
};

enum { SIM_PINNED_WORDS = 1 << 15 };

/* ---- The seed ---- */

enum sim_profile_failures { FAIL_NEVER, FAIL_SOMETIMES, FAIL_IN_BURSTS };

struct profile {
    unsigned threads, actions, cards;
    unsigned switch_percent;
    enum sim_profile_failures failures;
    bool failing_open, failing_close;
    bool lose_card;
    bool breaks;        /* links and relays are lost */
    bool tables;        /* programs keep addresses in memory */
    bool paced;         /* copies out go in pieces, by a thread of their own */
    bool forecasts;     /* made up */
    unsigned period;    /* of these, in operations */
    unsigned inflation; /* of what they say is needed */
    bool plans;         /* a program that repeats itself, and forecasts made by the pool itself */
    bool exact; /* nothing gives less memory than the pool is told: refusals are then bugs */
    uint64_t largest_bytes;
};

struct sim {
    uint64_t seed;
    uint32_t foretold; /* the operation that the forecasts take the next one for */
    bool trace;
    struct random program, schedule, failure; /* apart, so that one changes without the others */
    struct profile profile;
    struct machine machine;
    vp_options options;
    struct driver driver; /* the emulator's, wrapped */
    vp_pool *pool;
    CUcontext context[SIM_CARDS];
    CUmodule module[SIM_CARDS];
    struct sim_block blocks[SIM_BLOCKS];
    struct parent parents[SIM_PARENTS];
    struct stream streams[SIM_STREAMS];
    vp_addr stale[SIM_STALE];
    unsigned stale_count;
    struct thread threads[SIM_THREADS];
    bool running;   /* threads run: the edge may switch */
    bool injecting; /* driver calls may fail */
    bool injected;  /* one has */
    bool card_lost;
    bool done;        /* the mover may stop */
    bool locked;      /* the pool's lock, */
    uint64_t lock_ns; /* let go last at this time */
    uint64_t steps, progress_step, switch_step;
    unsigned burst_left;
    enum sim_call burst_call, burst_other;
    struct coverage coverage;
};

extern struct sim sim;

/* Prints why the seed fails, and ends the process with status 1. */
_Noreturn void sim_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
void sim_trace(const char *format, ...) __attribute__((format(printf, 1, 2)));

static inline uint64_t sim_below(uint64_t bound)
{
    return random_below(&sim.program, bound);
}

static inline bool sim_chance(unsigned percent)
{
    return sim_below(100) < percent;
}

static inline uint64_t sim_between(uint64_t least, uint64_t most)
{
    return least + sim_below(most - least + 1);
}

/* seed.c */
void sim_run_seed(uint64_t seed, bool trace);

/* world.c */
void world_choose(void); /* profile, machine, options */
void world_check(void);  /* what must hold whenever nobody holds the pool's lock */
void world_check_findings(void);
void world_dump(void);
bool world_has_room(void); /* whatever is live fits: no operation may be refused */

/* machines.c */
void machines_choose(uint64_t page, uint64_t card_pages);
void machines_break(void);     /* a link, lanes or a relay, now and then */
void machines_lose_card(void); /* the same, where a seed loses one */

/* edge.c */
const struct pool_edge *edge_hooks(void);
void edge_play_alone(void); /* the pool's threads are played no more */
void edge_open(void);       /* before a seed */
void edge_wrap_driver(struct driver *driver);
const char *edge_call_name(enum sim_call call);
void edge_yield(void);    /* another thread may run here */
void edge_pause(void);    /* nothing can be done now: time passes, and others run */
void edge_progress(void); /* something was achieved: the watchdog starts anew */

/* blocks.c */
struct sim_block *blocks_pick(unsigned card, uint64_t least_words); /* NULL: none suits */
struct sim_block *blocks_find(vp_addr address); /* the live block that holds it, or NULL */
struct sim_block *blocks_make(struct thread *thread, uint64_t bytes); /* NULL: refused */
void blocks_allocate(struct thread *thread);
void blocks_cut(struct thread *thread);
void blocks_free(struct sim_block *block);
void blocks_free_some(void);
void blocks_free_all(void);
void blocks_forget_stream(unsigned stream);
struct place blocks_pick_part(struct sim_block *block,
                              uint64_t *words); /* *words: at most; then how many */
void blocks_set_word(struct place place, uint64_t i, uint64_t value, uint8_t known);
void blocks_mix_words(struct place to, const struct place *from, uint64_t words, uint64_t seed);
void blocks_copy_words(struct place to, struct place from, uint64_t words, uint64_t delta);
void blocks_compare(const char *what, const uint64_t *got, const uint64_t *expected,
                    const uint8_t *known, uint64_t words);
bool blocks_is_poisoned(const struct sim_block *block);
vp_addr blocks_stale_address(void); /* of a block that was freed, or anything */

/* streams.c */
void streams_open_default(void); /* the default streams of all cards and threads */
void streams_close_all(void);
unsigned streams_pick(struct thread *thread);
unsigned streams_default(unsigned card, int owner); /* -1: the one for synchronous calls */
void streams_make(struct thread *thread);
void streams_destroy_one(struct thread *thread);
void streams_wait(unsigned stream,
                  unsigned other); /* work on `stream` comes after that of `other` */
void streams_record(unsigned stream);
void streams_synchronize(unsigned stream);

/* kernels.c */
enum kernel {
    KERNEL_FILL,    /* dst[i] = f(i) */
    KERNEL_MIX,     /* dst[i] = f(dst[i], src[i]) */
    KERNEL_COPY,    /* dst[i] = src[i] */
    KERNEL_POINT,   /* table[at…] = addresses among its parameters */
    KERNEL_DERIVE,  /* dst[i] = src[i] + delta: new addresses from old ones */
    KERNEL_GATHER,  /* dst[i] = f(dst[i], table[k][i] …) */
    KERNEL_SCATTER, /* table[k][i] = f(table[k][i]) for all k */
    KERNEL_DEEP,    /* dst[i] = f(dst[i], root[k][0][i] …) */
    KERNELS
};
enum { POINT_COUNT = 3 };
struct point_args { /* passed by value; addresses lie at odd multiples of 4 */
    uint32_t at;
    uint32_t address[POINT_COUNT][2];
};
void kernels_register(void);
CUmodule kernels_load(void);
/* NULL only on a lost card. */
CUfunction kernels_get(CUmodule module, enum kernel kernel, unsigned variant);
const char *kernels_name(enum kernel kernel);
uint64_t kernels_fill_value(uint64_t seed, uint64_t i);
uint64_t kernels_mix_value(uint64_t old, uint64_t other, uint64_t seed);

/* order.c: one operation, what it reads and writes. */
struct job {
    struct thread *thread;
    unsigned stream, variant; /* of the kernel */
    struct sim_block *reads[2 * SIM_NAMED], *writes[SIM_NAMED];
    unsigned read_count, write_count;
};
void job_reads(struct job *job, struct sim_block *block);
void job_writes(struct job *job, struct sim_block *block);

/* Puts the operation behind all that it conflicts with. False: another thread is just queueing
 * something that it conflicts with, or is freeing a block. */
bool job_begin(struct job *job);

/* The operation was queued, and its effect on the reference memory entered; or it was refused. */
void job_end(struct job *job, CUresult result, const char *what);

/* What the pool admits the driver must take. */
void job_check_admitted(CUresult result, const char *what);

/* work.c */
void work_launch(struct thread *thread);
CUresult work_run(struct job *job, enum kernel kernel, void **params, unsigned count);
void work_hidden(struct thread *thread); /* a kernel that finds blocks through a table */

/* transfer.c */
void transfer_copy(struct thread *thread);
void transfer_memset(struct thread *thread);
void transfer_read(struct thread *thread, struct sim_block *block, uint64_t first, uint64_t words);
void transfer_write(struct thread *thread, unsigned stream, struct sim_block *block);
/* Pinned memory is in use until its event has come to pass, and is looked at then. */
void transfer_mark_pinned(struct thread *thread, unsigned stream);
void transfer_look_at_pinned(struct thread *thread);

/* steps.c: with an action of another kind now and then, as the caller has it. */
void steps_play(struct thread *thread, void (*act)(struct thread *thread));

/* graphs.c */
void graphs_run(struct thread *thread);

/* actions.c */
void actions_of_thread(void *thread);
void actions_of_mover(void *unused);
void actions_of_copier(void *unused);  /* the mover's other threads */
void actions_of_student(void *unused); /* the finder's */

#endif
