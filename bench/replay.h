/* replay: a recorded program on the real pool, in virtual time.
 *
 * The pool (its launch path, mover, copier and student) runs on the emulator with the measured
 * costs of a machine, all threads played in one. Whoever's clock is least runs, so that what the
 * threads do to each other comes in the order of time. A run gives the same figures each time: what
 * the pool's rules and thresholds are worth shows without a GPU.
 *
 * As a rule memory holds nothing: only which operation wrote a page is known (replay_content.c).
 * With a scale, sizes and rates are that much smaller and memory is real (replay_data.c).
 *
 * Not charged: what the pool itself computes. Charged: driver calls (machine->costs), copies,
 * operations as long as they were recorded, the program's own time for each launch, and how late
 * sleeping threads wake. */
#ifndef BENCH_REPLAY_H
#define BENCH_REPLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/random.h"
#include "emu/abi_more.h"
#include "emu/calls.h"
#include "emu/emu.h"
#include "pool/internal.h"
#include "trace/step.h"

/* clang-format off */
#define REPLAY_DECLARE(kind, variant, symbol, base, version, arguments, names) \
    CUresult symbol arguments;
EMU_CALLS(REPLAY_DECLARE)
#undef REPLAY_DECLARE
/* clang-format on */

enum { REPLAY_CARDS = 2 }; /* that compute, at most: each runs the step in a thread of its own */

enum replay_thread {
    REPLAY_PROGRAM, /* and the next one */
    REPLAY_MAPS = REPLAY_PROGRAM + REPLAY_CARDS,
    REPLAY_STUDENT,
    REPLAY_STOCK,
    REPLAY_COPIES, /* and the following ones, as many as the pool has */
    REPLAY_THREADS = REPLAY_COPIES + MOVE_WAYS,
};

enum { REPLAY_STEPS_MOST = 200, REPLAY_MARKS_MOST = 8192 };

struct replay_step {
    uint64_t duration_ns;
    vp_stats stats; /* what the step added; peaks as they are */
};

struct replay {
    struct step step;
    const char **names; /* of each operation: the same pointer for the same key */
    vp_pool *pool;
    unsigned steps, cards;
    unsigned stale_percent, wander_percent, extra_most; /* noise, from `random` */
    struct random random;
    uint32_t policy; /* of vp_options */
    uint64_t scale;  /* sizes are divided by it; more than 1: there is data */
    bool native;     /* no pool: all lies on the card */
    bool frozen;     /* what lasts is only read */
    struct replay_step result[REPLAY_CARDS][REPLAY_STEPS_MOST];
    uint64_t
        mark_key; /* of operations in front of which the program waits for all others; 0: none */
    uint64_t mark_ns[REPLAY_MARKS_MOST]; /* when it did */
    unsigned mark_count;
    bool failed;
};
extern struct replay replay;

/* Says how a step on a card went, unless all is said at the end. */
void replay_print_step(unsigned card, unsigned index);

/* replay_edge.c: time, and the turns that threads take. */
void replay_wrap_driver(struct driver *driver);
extern const struct pool_edge replay_edge;
void replay_play(void (*program)(unsigned card));

/* Lets those run who are behind; to be called before each driver call that is not the pool's. */
void replay_settle(void);
void replay_sleep(uint64_t ns);

/* replay_program.c: the program. */
void replay_program(unsigned card);

/* The blocks that an operation uses. */
struct replay_uses {
    struct replay_uses *next; /* older ones */
    uint64_t seed;            /* the operation's own */
    uint32_t count;
    struct {
        vp_addr address;
        uint64_t bytes;
        bool reads, writes;
    } part[];
};

/* replay_content.c: what operations write, and so what digests the pool gets. */
void replay_content_begin(void);
void replay_content_write(const struct replay_uses *uses);
void replay_content_end(void);

/* replay_data.c: what operations read and write, where there is data. */
enum { REPLAY_DATA_GRID = 4 };
void replay_data_run(struct emu_block *b, const struct replay_uses *uses);

/* Adds what lies in a block to the sum of all that was read. */
void replay_data_look(vp_addr address, uint64_t bytes);
uint64_t replay_data_sum(void);

/* replay_cache.c: PyTorch's caching allocator, as far as it decides where blocks lie. 0: no memory.
 */
vp_addr replay_cache_take(unsigned card, uint64_t bytes);
void replay_cache_give(vp_addr address);
void replay_cache_end(void);

#endif
