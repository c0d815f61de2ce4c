/* What `vrampool bench` measures, and how it shows it. */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include <stdbool.h>

#include "driver/driver.h"
#include "machine/machine.h"

enum { BENCH_MAX_ROUNDS = 1000, BENCH_PLACES = VP_MAX_CARDS + 1 };

/* One ordered pair of places. The card at one end (`from`, where both are cards) uses memory at the
 * other end in place. */
struct bench_pair {
    unsigned from, to;
    unsigned hops;    /* links between cards; 0 within a card and wherever the host is an end */
    double copy_gbps; /* median of the rounds */
    bool in_place;    /* the three below could be measured */
    double read_gbps, write_gbps;
    double latency_ns;     /* of one load that needs the one before */
    double translation_ns; /* by the model below; 0 without it */
};

/* What the model of translation in layers says (plan/translate.h), of all pairs together. */
struct bench_translation {
    unsigned rounds; /* 0: the machine is real, and there is no model of it */
    uint64_t page_bytes, operand_bytes, entries;
    double average_ns, worst_pair_ns, p99_ns;
    double cold_ns; /* average of the first round */
    double hit_share, controller_share;
    double wait_ns; /* at the controller, of what got there */
    double uniform_ns, uniform_hit_share, uniform_wait_ns; /* pages at random, of all memory */
};

struct bench {
    char machine[64];
    bool emulated;
    unsigned cards;
    struct machine described; /* real: as vrampool topo finds it */
    uint64_t asked_bytes, size_bytes;
    unsigned rounds;
    struct bench_pair pair[BENCH_PLACES * BENCH_PLACES];
    unsigned pairs;
    bool has_fallback; /* there are two cards */
    double fallback_gbps, fallback_latency_ns;
    double lookup_ns, filter_ns;
    struct bench_translation translation;
};

/* Measures all pairs that bench->cards has; the driver is loaded and initialised. False, and why is
 * on stderr: a call failed, or a copy's data were wrong. */
bool bench_measure(const struct driver *driver, struct bench *bench) VP_MUST_USE;

/* Average of looking up one address in a page table of 10^5 chunks, in ns of this thread. */
double bench_lookup_ns(void);

/* The same of asking a cuckoo filter of 10^5 chunks whether one is remote. */
double bench_filter_ns(void);

/* Fills in what the model of translation says of an emulated machine; after bench_measure. False,
 * and why is on stderr: no memory. */
bool bench_translate(struct bench *bench) VP_MUST_USE;

/* Gives the emulator behind a driver the kernels that bench_kernels.ptx has for cards. False: it is
 * none. */
bool bench_register_kernels(const struct driver *driver) VP_MUST_USE;

const char *bench_place_name(const struct bench *bench, unsigned place, char name[16]);

void bench_print_table(const struct bench *bench);

/* Prints JSON; docs/topology.md has the fields. */
void bench_print_json(const struct bench *bench);

/* Draws the rates. VP_IO: the file cannot be written (logged). */
vp_status bench_draw(const struct bench *bench, const char *path) VP_MUST_USE;

#endif
