/* machine: the description of a machine: places, the paths between them, what driver calls cost.
 *
 * A description comes from a name (`h200`), from `NxSIZE` (N equal cards, plain links), from a file, or from
 * what the driver reports. The emulator behaves as described, the planner predicts with it. Plain data. */
#ifndef MACHINE_MACHINE_H
#define MACHINE_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vrampool.h"

/* Cost of driver calls in ns: base + per_mib × size. Source of the values for h200: measured there. */
struct machine_call_cost {
    uint32_t base_ns;
    uint32_t per_mib_ns;
};

/* X(name, what): costs apart for memory on a card and on the host where they differ. */
#define MACHINE_COSTS(X)                                                                           \
    X(create_card) X(create_host) X(release_card) X(release_host) X(map) X(unmap_card)             \
    X(unmap_host) X(access_card) X(access_host) X(access_busy) X(launch) X(copy) X(record)         \
    X(query) X(wait)

struct machine_costs {
#define MACHINE_COST_FIELD(name) struct machine_call_cost name;
    MACHINE_COSTS(MACHINE_COST_FIELD)
#undef MACHINE_COST_FIELD
};

/* One direction from one place to another. */
struct machine_path {
    double gbps;         /* alone, in 1e9 bytes a second, large pieces */
    double both_gbps;    /* when the opposite direction runs too */
    uint32_t latency_ns; /* of one load over it */
    uint32_t start_ns;   /* fixed cost of one copy: makes small pieces slower */
    bool access;         /* kernels of a card at the reading end can use memory at the other end in place */
    bool atomics;        /* device atomics over it are native */
};

struct machine {
    char name[64];
    unsigned cards;                     /* places 0 … cards-1 are the cards, place `cards` is the host */
    uint64_t hbm_bytes[VP_MAX_CARDS];   /* each card's memory */
    uint64_t host_bytes;                /* what the host can give */
    uint64_t granularity_bytes;         /* of physical allocations: 2 MiB on real cards */
    uint64_t address_bytes;             /* largest address range that can be reserved */
    double hbm_gbps[VP_MAX_CARDS];      /* local memory, as kernels stream it */
    struct machine_path path[VP_MAX_CARDS + 1][VP_MAX_CARDS + 1]; /* [from][to] */
    struct machine_costs costs;
};

/* Understands `NxSIZE` and the built-in names. VP_NOT_FOUND: neither; VP_INVALID: sizes out of range. */
vp_status machine_from_name(const char *name, struct machine *machine) VP_MUST_USE;

/* The compact text form, one line of `key=value` pairs, that passes a description to a child process through its
 * environment. machine_from_text understands machine_to_text's output and, for convenience, names. */
vp_status machine_to_text(const struct machine *machine, char *text, size_t text_size) VP_MUST_USE;
vp_status machine_from_text(const char *text, struct machine *machine) VP_MUST_USE;

/* False when a description contradicts itself; *why then names the field. */
bool machine_is_valid(const struct machine *machine, const char **why);

#endif
