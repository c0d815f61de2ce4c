/* machine: the description of a machine: places, the paths between them, what driver calls cost.
 *
 * A description comes from a name (`h200`), from `NxSIZE` (N equal cards, plain links), from a
 * file, or from what the driver reports. The emulator behaves as described, the planner predicts
 * with it. Plain data. */
#ifndef MACHINE_MACHINE_H
#define MACHINE_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vrampool.h"

/* Cost of a driver call in ns: base + per_mib × size. The values for h200 were measured there. */
struct machine_call_cost {
    uint32_t base_ns;
    uint32_t per_mib_ns;
};

/* X(call): apart for memory on a card and on the host where they differ. access_busy is
 * cuMemSetAccess while unpaced copies to the host are queued; copy, record, query and wait are the
 * calls for streams and events. */
/* clang-format off */
#define MACHINE_COSTS(X) \
    X(create_card) X(create_host) X(release_card) X(release_host) X(map) X(unmap_card) \
    X(unmap_host) X(access_card) X(access_host) X(access_busy) X(launch) X(copy) X(record) \
    X(query) X(wait)
/* clang-format on */

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
    bool access;         /* the card at one end can use memory at the other end in place */
    bool atomics;        /* device atomics over it are native */
};

struct machine {
    char name[64];
    unsigned cards; /* places 0 … cards-1 are the cards, place `cards` the host */
    uint64_t hbm_bytes[VP_MAX_CARDS]; /* each card's memory */
    uint64_t host_bytes;              /* what the host can give */
    uint64_t granularity_bytes;       /* of physical allocations: 2 MiB on real cards */
    uint64_t address_bytes;           /* largest address range that can be reserved */
    double hbm_gbps[VP_MAX_CARDS];    /* local memory, as kernels stream it */
    /* [from][to]; a card's path to itself is derived from its hbm_gbps. */
    struct machine_path path[VP_MAX_CARDS + 1][VP_MAX_CARDS + 1];
    struct machine_costs costs;
};

/* Fills the paths from each card to itself, which no description gives, from its hbm_gbps. */
void machine_fill_own_paths(struct machine *machine);

/* Understands `NxSIZE` and the built-in names. VP_NOT_FOUND: neither; VP_INVALID: sizes out of
 * range (logged). */
vp_status machine_from_name(const char *name, struct machine *machine) VP_MUST_USE;

/* The compact text form, one line of `key=value` pairs, that passes a description to a child
 * process through its environment. Rates in it are whole bytes a second. machine_to_text:
 * VP_INVALID when it does not fit (MACHINE_TEXT_BYTES always do). machine_from_text understands
 * machine_to_text's output and, for convenience, names. VP_MALFORMED: neither syntax; VP_INVALID:
 * the machine contradicts itself (both logged). */
enum { MACHINE_TEXT_BYTES = 16384 };
vp_status machine_to_text(const struct machine *machine, char *text, size_t text_size) VP_MUST_USE;
vp_status machine_from_text(const char *text, struct machine *machine) VP_MUST_USE;

/* False when a description contradicts itself; *why then names the field. */
bool machine_is_valid(const struct machine *machine, const char **why);

#endif
