/* params: what one launch may touch, as far as its parameters tell.
 *
 * The driver says for each function where its parameters lie and how large they are; whatever
 * 8-byte word in them, at 4-byte steps (pointers sit inside structures passed by value), lies in
 * the pool's range may be used as an address. Layouts are asked for once per function and kept.
 *
 * Tables that the program has in pinned host memory are another matter (pinned.h).
 *
 * A function is also vetted: after its first launches the small buffers it was given are looked
 * through (vet in pool); a function that wrote no pool addresses into memory touches only what its
 * parameters name. So it is again when a launch names more addresses than any that was looked
 * through: what has made a range of numbers may next be given an address to start from.
 *
 * params_find may be called by any thread without a lock; a function's layout never changes once
 * published. */
#ifndef PARAMS_PARAMS_H
#define PARAMS_PARAMS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "block/segment.h"
#include "driver/driver.h"

enum {
    PARAMS_FUNCTIONS = 1 << 14, /* functions kept; beyond that each launch asks the driver again */
    PARAMS_PROBATION = 2,       /* launches of a function that are looked through */
    PARAMS_DOUBTS = 8, /* more of them, where what was found may be the function's or not */
};

struct param_piece {
    uint32_t offset, bytes;
};

struct param_function {
    void *handle;
    bool layout_known;
    uint32_t count;
    struct param_piece *pieces;
    char *name;
    _Atomic uint32_t probation;  /* launches still to be looked through; 0: vetted */
    _Atomic uint32_t most_words; /* that a launch named which was looked through */
    uint32_t doubts;             /* guarded by the pool's lock */
    _Atomic bool writes_addresses;
    bool listed;                 /* as one that needs more than its parameters (verify mode) */
    struct param_function *next; /* among those forgotten */
};

struct params {
    const struct driver *driver;
    _Atomic(struct param_function *) functions[PARAMS_FUNCTIONS];
    _Atomic(struct param_function *) forgotten; /* kept until the end: a launch may still look */
};

void params_create(struct params *params, const struct driver *driver);
void params_destroy(struct params *params);

/* What is known of a function; asks the driver at first sight (about 1 ms). NULL only without
 * memory. */
struct param_function *params_find(struct params *params, void *function);

/* Modules are about to change: handles may come to mean other functions, so what is known is not
 * used again. */
void params_forget(struct params *params);

/* Collects the words of a launch's parameters in [base, base + bytes), at most `room`; returns how
 * many there are. `params` and `extra` are those of cuLaunchKernel; either may be NULL. */
unsigned params_scan(const struct param_function *function, void *const *params, void *const *extra,
                     vp_addr base, uint64_t bytes, vp_addr *words, unsigned room);

/* The same over a piece of memory, at steps of `step` bytes. */
unsigned params_scan_memory(const void *memory, uint64_t memory_bytes, unsigned step, vp_addr base,
                            uint64_t bytes, vp_addr *words, unsigned room);

/* ---- tables: buffers that hold addresses ---- */

enum { TABLE_TARGETS = 512 };

/* It holds addresses: what is freed and allocated again at the same one it points to as before. */
struct table {
    uint32_t count;
    bool full; /* points to more than fits: work given it may touch anything */
    struct {
        struct segment *segment; /* not all of them live */
        uint32_t generation;     /* who lived there when it was last looked at */
    } to[TABLE_TARGETS];
};

/* Looks through memory that is, or will be, the content of `holder`, and notes which live segments
 * it points to. Says what there was: addresses of segments not noted before (TABLE_NEW), addresses
 * where nothing lives any more (TABLE_STALE). Without host memory the holder is loose. */
enum { TABLE_NEW = 1, TABLE_STALE = 2 };
unsigned table_learn(struct segments *segments, struct segment *holder, const void *memory,
                     uint64_t bytes);

/* The holder's content becomes, in part, that of a buffer with this table. True: it points to more
 * than before. */
bool table_copy(struct segment *holder, const struct table *from);

/* The holder's content could not be looked at: it may point anywhere. */
void table_fill(struct segment *holder);

/* Forgets what a segment points to. */
void table_clear(struct segment *segment);

#endif
