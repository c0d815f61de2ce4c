/* machine: the description of a machine: places, the paths between them, what driver calls cost.
 *
 * A description comes from a name (`h200`), from `NxSIZE` (N equal cards, plain links), from a
 * file, or from what the driver reports. The emulator behaves as described, the planner predicts
 * with it. Plain data.
 *
 * Paths between cards are given one by one, or (on a *routed* machine) they follow from the links
 * and the paths to the host: machine/route.h derives them, anew whenever a link's state changes. */
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

/* Where links end: the cards' numbers, and one switch (all chips of a machine's switch fabric). */
enum { MACHINE_SWITCH = VP_MAX_CARDS, MACHINE_NODES, MACHINE_MAX_LINKS = 136 };

/* X(kind, name) */
#define MACHINE_LINK_KINDS(X) X(NVLINK, "nvlink") X(PCIE, "pcie")
/* clang-format off */
enum machine_link_kind {
#define MACHINE_LINK_KIND(kind, name) MACHINE_LINK_##kind,
    MACHINE_LINK_KINDS(MACHINE_LINK_KIND)
#undef MACHINE_LINK_KIND
    MACHINE_LINK_KIND_COUNT
};
/* clang-format on */

/* The lanes between two cards, or between a card and the switch; as much goes either way at once.
 * Data goes in packets of payload and header. Spare lanes carry nothing until others are dead. */
struct machine_link {
    uint8_t ends[2]; /* cards, or MACHINE_SWITCH */
    uint8_t kind;    /* enum machine_link_kind */
    uint8_t lanes, spare_lanes, dead_lanes;
    bool dead;
    bool calibrated;     /* a figure was chosen so that a result comes out, not measured */
    uint32_t latency_ns; /* that it adds to a load */
    uint32_t payload_bytes, header_bytes;
    double lane_gbps; /* of one lane, each way, headers included */
    double factor;    /* what is measured as a share of what the headers leave */
};

/* Cards that pass on what is meant for others. Each one on the way leaves `factor` of the rate. */
struct machine_relays {
    bool allowed, calibrated;
    bool dead[VP_MAX_CARDS]; /* this card passes nothing on */
    double factor;
};

/* Card to card through the host, where no link leads. */
struct machine_through_host {
    bool access, atomics; /* as in a path */
    bool calibrated;
    uint32_t latency_ns;
    double factor; /* of the slower of the two paths; 0: the machine is not routed */
};

struct machine {
    char name[64];
    unsigned cards; /* places 0 … cards-1 are the cards, place `cards` the host */
    uint64_t hbm_bytes[VP_MAX_CARDS]; /* each card's memory */
    uint64_t host_bytes;              /* what the host can give */
    uint64_t granularity_bytes;       /* of physical allocations: 2 MiB on real cards */
    uint64_t address_bytes;           /* largest address range that can be reserved */
    double hbm_gbps[VP_MAX_CARDS];    /* local memory, as kernels stream it */
    uint32_t hbm_latency_ns;          /* of one load from it; 0: 600 */
    /* [from][to]; a card's path to itself is derived from its hbm_gbps. */
    struct machine_path path[VP_MAX_CARDS + 1][VP_MAX_CARDS + 1];
    unsigned links;
    struct machine_link link[MACHINE_MAX_LINKS];
    uint32_t end_latency_ns; /* what the two cards at a route's ends add to its links' latency */
    struct machine_relays relays;
    struct machine_through_host through_host;
    struct machine_costs costs;
};

/* Whether the paths between cards follow from links and the host. */
bool machine_is_routed(const struct machine *machine);

const char *machine_link_kind_name(enum machine_link_kind kind);

/* Makes the largest card's memory `bytes`, and all other memory, the host's too, that much larger
 * or smaller; in whole granules. VP_INVALID: some card would have less than one, or more than 64
 * TiB (logged). */
vp_status machine_scale(struct machine *machine, uint64_t bytes) VP_MUST_USE;

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
