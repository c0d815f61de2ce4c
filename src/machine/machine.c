/* Machines by name, and what every description has to keep. */
#include "machine/machine.h"

#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/units.h"
#include "machine/measured.h"

/* The start cost of a copy follows from 52 GB/s in pieces of 2 MiB against 55.3 in large ones
 * (H200). */
enum { COPY_START_NS = 2400 };

/* The reference machine's links: NVLink-like between cards, PCIe 4 to the host. */
static const struct machine_path plain_peer = {.gbps = 50,
                                               .both_gbps = 50,
                                               .latency_ns = 420,
                                               .start_ns = COPY_START_NS,
                                               .access = true,
                                               .atomics = true};
static const struct machine_path plain_host = {
    .gbps = 25, .both_gbps = 24, .latency_ns = 1200, .start_ns = COPY_START_NS, .access = true};

enum { HBM_LATENCY_NS = 600 }; /* where nobody says */

void machine_fill_own_paths(struct machine *machine)
{
    uint32_t latency_ns = machine->hbm_latency_ns ? machine->hbm_latency_ns : HBM_LATENCY_NS;
    for (unsigned card = 0; card < machine->cards && card < VP_MAX_CARDS; card++) {
        machine->path[card][card] = (struct machine_path){.gbps = machine->hbm_gbps[card],
                                                          .both_gbps = machine->hbm_gbps[card],
                                                          .latency_ns = latency_ns,
                                                          .start_ns = COPY_START_NS,
                                                          .access = true,
                                                          .atomics = true};
    }
}

static struct machine measured_machine(void)
{
    struct machine h200;
    vp_status status = machine_from_text(MEASURED_TEXT, &h200);
    assert(status == VP_OK);
    (void)status;
    return h200;
}

bool machine_is_routed(const struct machine *machine)
{
    return machine->through_host.factor > 0;
}

const char *machine_link_kind_name(enum machine_link_kind kind)
{
    static const char *const names[] = {
#define KIND_NAME(kind, name) name,
        MACHINE_LINK_KINDS(KIND_NAME)
#undef KIND_NAME
    };
    assert(kind < MACHINE_LINK_KIND_COUNT);
    return names[kind];
}

vp_status machine_scale(struct machine *machine, uint64_t bytes)
{
    uint64_t most = 0, granule = machine->granularity_bytes;
    for (unsigned card = 0; card < machine->cards; card++)
        if (machine->hbm_bytes[card] > most) most = machine->hbm_bytes[card];
    assert(most > 0 && granule > 0);
    double factor = (double)bytes / (double)most;
    struct machine scaled = *machine;
    for (unsigned card = 0; card < machine->cards; card++) {
        scaled.hbm_bytes[card] = (uint64_t)((double)machine->hbm_bytes[card] * factor + 0.5);
        scaled.hbm_bytes[card] -= scaled.hbm_bytes[card] % granule;
        if (scaled.hbm_bytes[card] < granule || bytes > 64 * TIB) {
            char least[32];
            log_error("machine %s: a card has %s to 64 TiB of memory", machine->name,
                      units_format_size(granule, least, sizeof least));
            return VP_INVALID;
        }
    }
    scaled.host_bytes = (uint64_t)((double)machine->host_bytes * factor + 0.5);
    if (scaled.host_bytes > 64 * TIB) scaled.host_bytes = 64 * TIB;
    *machine = scaled;
    return VP_OK;
}

static void set_equal_cards(struct machine *machine, unsigned cards, uint64_t hbm_bytes,
                            double hbm_gbps, const struct machine_path *to_host)
{
    machine->cards = cards;
    machine->granularity_bytes = 2 * MIB;
    machine->costs = measured_machine().costs;
    for (unsigned from = 0; from < cards; from++) {
        machine->hbm_bytes[from] = hbm_bytes;
        machine->hbm_gbps[from] = hbm_gbps;
        for (unsigned to = 0; to < cards; to++) machine->path[from][to] = plain_peer;
        machine->path[from][cards] = machine->path[cards][from] = *to_host;
    }
    machine_fill_own_paths(machine);
}

/* `NxSIZE`. What does not start like one is no such name; what does, and is wrong, is invalid. */
static vp_status set_plain(const char *name, struct machine *machine)
{
    if (!isdigit((unsigned char)name[0])) return VP_NOT_FOUND;
    char *end;
    unsigned long cards = strtoul(name, &end, 10);
    uint64_t bytes;
    if (*end != 'x' || !units_parse_size(end + 1, &bytes)) return VP_NOT_FOUND;
    if (cards == 0 || cards > VP_MAX_CARDS) {
        log_error("machine %s: 1 to %d cards are possible", name, VP_MAX_CARDS);
        return VP_INVALID;
    }
    bytes -= bytes % (2 * MIB);
    if (bytes == 0 || bytes > 64 * TIB) {
        log_error("machine %s: a card has 2M to 64T of memory; a size is such as 24M or 24G", name);
        return VP_INVALID;
    }
    set_equal_cards(machine, (unsigned)cards, bytes, 900, &plain_host);
    machine->host_bytes = 4 * bytes;
    machine->address_bytes = 256 * TIB;
    return VP_OK;
}

vp_status machine_from_name(const char *name, struct machine *machine)
{
    struct machine made = {0};
    vp_status status = VP_OK;
    if (strlen(name) >= sizeof made.name) return VP_NOT_FOUND;
    strcpy(made.name, name);
    if (strcmp(name, "h200") == 0)
        made = measured_machine();
    else
        status = set_plain(name, &made);
    if (status == VP_OK) *machine = made;
    return status;
}

/* Validity. */

static bool name_is_plain(const char *name)
{
    if (!*name) return false;
    for (; *name; name++)
        if (!isalnum((unsigned char)*name) && !strchr("._-+@", *name)) return false;
    return true;
}

static bool rate_is_sane(double gbps)
{
    return gbps > 0 && gbps < 1e6; /* also refuses NaN */
}

static const char *wrong_in_cards(const struct machine *machine)
{
    for (unsigned card = 0; card < machine->cards; card++) {
        uint64_t bytes = machine->hbm_bytes[card];
        if (bytes < machine->granularity_bytes || bytes > 64 * TIB)
            return "hbm_bytes: a card has at least one granule and at most 64 TiB";
        if (!rate_is_sane(machine->hbm_gbps[card])) return "hbm_gbps: a positive rate";
    }
    return NULL;
}

static const char *wrong_in_paths(const struct machine *machine)
{
    for (unsigned from = 0; from <= machine->cards; from++) {
        for (unsigned to = 0; to <= machine->cards; to++) {
            const struct machine_path *path = &machine->path[from][to];
            bool derived =
                machine_is_routed(machine) && from < machine->cards && to < machine->cards;
            if (from == to || derived) continue;
            if (!rate_is_sane(path->gbps)) return "path: gbps is a positive rate";
            if (!rate_is_sane(path->both_gbps) || path->both_gbps > path->gbps)
                return "path: both_gbps is positive and at most gbps";
            if (path->atomics && !path->access) return "path: atomics need access";
        }
    }
    return NULL;
}

/* What a link says that contradicts itself, or NULL. */
static const char *wrong_in_link(const struct machine *machine, const struct machine_link *link)
{
    for (unsigned end = 0; end < 2; end++)
        if (link->ends[end] >= machine->cards && link->ends[end] != MACHINE_SWITCH)
            return "link: ends are cards or the switch";
    if (link->ends[0] == link->ends[1]) return "link: its ends are two";
    if (link->kind >= MACHINE_LINK_KIND_COUNT) return "link: unknown kind";
    if (link->lanes == 0 || link->spare_lanes >= link->lanes)
        return "link: at least one lane that is not spare";
    if (link->dead_lanes > link->lanes) return "link: more dead lanes than lanes";
    if (link->payload_bytes == 0 || link->payload_bytes > MIB || link->header_bytes > MIB)
        return "link: payload of 1 byte to 1 MiB, headers up to 1 MiB";
    if (!rate_is_sane(link->lane_gbps)) return "link: lane_gbps is a positive rate";
    if (!(link->factor > 0 && link->factor <= 1)) return "link: a factor is above 0 and at most 1";
    return NULL;
}

static const char *wrong_in_links(const struct machine *machine)
{
    bool linked[MACHINE_NODES][MACHINE_NODES] = {{false}};
    if (machine->links > MACHINE_MAX_LINKS) return "links: too many";
    for (unsigned i = 0; i < machine->links; i++) {
        const struct machine_link *link = &machine->link[i];
        const char *wrong = wrong_in_link(machine, link);
        if (wrong) return wrong;
        bool *forth = &linked[link->ends[0]][link->ends[1]];
        bool *back = &linked[link->ends[1]][link->ends[0]];
        if (*forth || *back) return "links: two join the same ends; make them one of more lanes";
        *forth = *back = true;
    }
    if (machine->links > 0 && !machine_is_routed(machine))
        return "links: a machine with links says how cards reach each other through the host";
    if (!machine_is_routed(machine)) return NULL;
    if (!(machine->through_host.factor > 0 && machine->through_host.factor <= 1))
        return "through_host: a factor is above 0 and at most 1";
    if (machine->through_host.atomics && !machine->through_host.access)
        return "through_host: atomics need access";
    if (!(machine->relays.factor > 0 && machine->relays.factor <= 1))
        return "relays: a factor is above 0 and at most 1";
    return NULL;
}

bool machine_is_valid(const struct machine *machine, const char **why)
{
    const char *wrong = NULL;
    uint64_t granule = machine->granularity_bytes;
    if (!memchr(machine->name, '\0', sizeof machine->name) || !name_is_plain(machine->name))
        wrong = "name: letters, digits, and . _ - + @ only";
    else if (machine->cards == 0 || machine->cards > VP_MAX_CARDS)
        wrong = "cards: 1 to 16";
    else if (granule == 0 || (granule & (granule - 1)) != 0 || granule % (4 * KIB) != 0)
        wrong = "granularity_bytes: a power of two of at least 4 KiB";
    else if (machine->address_bytes < granule || machine->address_bytes > 256 * TIB)
        wrong = "address_bytes: at least one granule and at most 256 TiB";
    else if (machine->host_bytes > 64 * TIB)
        wrong = "host_bytes: at most 64 TiB";
    else if (!(wrong = wrong_in_cards(machine)) && !(wrong = wrong_in_links(machine)))
        wrong = wrong_in_paths(machine);
    if (why) *why = wrong;
    return !wrong;
}
