/* The text form of a machine.
 *
 * It names classes of places first (`hbm=*:SIZE`, `path=*>h:…`) and then only the exceptions, so
 * eight equal cards take a few hundred bytes. A reader applies the pairs in order; later ones win.
 * Paths that follow from links are not written. */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "machine/machine.h"
#include "machine/route.h"

enum { EVERY_CARD = -1, MAX_PAIR = 256 };

/* ---- Writing ---- */

struct writer {
    char *at;
    size_t left;
    bool full;
};

__attribute__((format(printf, 2, 3))) static void put(struct writer *out, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(out->at, out->left, format, args);
    va_end(args);
    if (length < 0 || (size_t)length >= out->left) {
        out->full = true;
        return;
    }
    out->at += length;
    out->left -= (size_t)length;
}

static unsigned long long rate_to_text(double gbps)
{
    return (unsigned long long)(gbps * 1e9 + 0.5);
}

static bool same_path(const struct machine_path *a, const struct machine_path *b)
{
    return rate_to_text(a->gbps) == rate_to_text(b->gbps) &&
           rate_to_text(a->both_gbps) == rate_to_text(b->both_gbps) &&
           a->latency_ns == b->latency_ns && a->start_ns == b->start_ns && a->access == b->access &&
           a->atomics == b->atomics;
}

static void put_path(struct writer *out, const char *from, const char *to,
                     const struct machine_path *path)
{
    put(out, " path=%s>%s:%llu,%llu,%u,%u,%d,%d", from, to, rate_to_text(path->gbps),
        rate_to_text(path->both_gbps), path->latency_ns, path->start_ns, path->access,
        path->atomics);
}

static void put_paths(struct writer *out, const struct machine *machine)
{
    unsigned cards = machine->cards;
    for (unsigned from = 0; from <= cards; from++) {
        for (unsigned to = 0; to <= cards; to++) {
            if (from == to) continue;
            if (from < cards && to < cards && machine_is_routed(machine)) continue;
            /* The class's first path speaks for all of it, so it comes first. */
            unsigned class_from = from == cards ? cards : 0;
            unsigned class_to = to == cards ? cards : from == cards ? 0 : 1;
            bool first = from == class_from && to == class_to;
            const struct machine_path *path = &machine->path[from][to];
            if (!first && same_path(path, &machine->path[class_from][class_to])) continue;
            char name_from[12], name_to[12];
            snprintf(name_from, sizeof name_from, "%u", from);
            snprintf(name_to, sizeof name_to, "%u", to);
            const char *class_name_from = first ? "*" : name_from;
            const char *class_name_to = first ? "*" : name_to;
            put_path(out, from == cards ? "h" : class_name_from, to == cards ? "h" : class_name_to,
                     path);
        }
    }
}

/* Shares are written in billionths: exact both ways, and without decimal points. */
static unsigned long long share_to_text(double share)
{
    return (unsigned long long)(share * 1e9 + 0.5);
}

static void put_end(struct writer *out, unsigned end)
{
    if (end == MACHINE_SWITCH)
        put(out, "s");
    else
        put(out, "%u", end);
}

static void put_links(struct writer *out, const struct machine *machine)
{
    const struct machine_relays *relays = &machine->relays;
    const struct machine_through_host *host = &machine->through_host;
    if (!machine_is_routed(machine)) return;
    put(out, " through=%llu,%u,%d,%d,%d relays=%d,%llu,%d ends=%u", share_to_text(host->factor),
        host->latency_ns, host->access, host->atomics, host->calibrated, relays->allowed,
        share_to_text(relays->factor), relays->calibrated, machine->end_latency_ns);
    for (unsigned card = 0; card < machine->cards; card++)
        if (relays->dead[card]) put(out, " dead=%u", card);
    for (unsigned i = 0; i < machine->links; i++) {
        const struct machine_link *link = &machine->link[i];
        put(out, " link=");
        put_end(out, link->ends[0]);
        put(out, "-");
        put_end(out, link->ends[1]);
        put(out, ":%u,%u,%u,%u,%d,%d,%u,%u,%u,%llu,%llu", link->kind, link->lanes,
            link->spare_lanes, link->dead_lanes, link->dead, link->calibrated, link->latency_ns,
            link->payload_bytes, link->header_bytes, rate_to_text(link->lane_gbps),
            share_to_text(link->factor));
    }
}

static void put_cards(struct writer *out, const struct machine *machine)
{
    put(out, " hbm=*:%llu hbm_rate=*:%llu", (unsigned long long)machine->hbm_bytes[0],
        rate_to_text(machine->hbm_gbps[0]));
    if (machine->hbm_latency_ns) put(out, " hbm_latency=%u", machine->hbm_latency_ns);
    for (unsigned card = 1; card < machine->cards; card++) {
        if (machine->hbm_bytes[card] != machine->hbm_bytes[0])
            put(out, " hbm=%u:%llu", card, (unsigned long long)machine->hbm_bytes[card]);
        if (rate_to_text(machine->hbm_gbps[card]) != rate_to_text(machine->hbm_gbps[0]))
            put(out, " hbm_rate=%u:%llu", card, rate_to_text(machine->hbm_gbps[card]));
    }
}

vp_status machine_to_text(const struct machine *machine, char *text, size_t text_size)
{
    struct writer out = {.at = text, .left = text_size};
    put(&out, "name=%s cards=%u host=%llu granularity=%llu address=%llu", machine->name,
        machine->cards, (unsigned long long)machine->host_bytes,
        (unsigned long long)machine->granularity_bytes, (unsigned long long)machine->address_bytes);
    put_cards(&out, machine);
    put_paths(&out, machine);
    put_links(&out, machine);
#define PUT_COST(call)                                                                             \
    put(&out, " " #call "=%u,%u", machine->costs.call.base_ns, machine->costs.call.per_mib_ns);
    MACHINE_COSTS(PUT_COST)
#undef PUT_COST
    return out.full ? VP_INVALID : VP_OK;
}

/* ---- Reading: every reader below moves *at behind what it took, and returns false at anything
 * else.
 */

static bool take(const char **at, char wanted)
{
    if (**at != wanted) return false;
    (*at)++;
    return true;
}

static bool take_number(const char **at, uint64_t most, uint64_t *value)
{
    if (!isdigit((unsigned char)**at)) return false;
    char *end;
    unsigned long long read = strtoull(*at, &end, 10);
    if (read > most) return false;
    *value = read;
    *at = end;
    return true;
}

static bool take_u32(const char **at, uint32_t *value)
{
    uint64_t wide;
    if (!take_number(at, UINT32_MAX, &wide)) return false;
    *value = (uint32_t)wide;
    return true;
}

static bool take_rate(const char **at, double *gbps)
{
    uint64_t bytes;
    if (!take_number(at, UINT64_C(1) << 53, &bytes)) return false;
    *gbps = (double)bytes / 1e9;
    return true;
}

static bool take_flag(const char **at, bool *flag)
{
    uint64_t value;
    if (!take_number(at, 1, &value)) return false;
    *flag = value == 1;
    return true;
}

/* A card, `*` for every card, or (as `cards`) `h` for the host. */
static bool take_place(const char **at, unsigned cards, int *place)
{
    if (take(at, '*')) {
        *place = EVERY_CARD;
        return true;
    }
    if (take(at, 'h')) {
        *place = (int)cards;
        return true;
    }
    uint64_t number;
    if (!take_number(at, cards - 1, &number)) return false;
    *place = (int)number;
    return true;
}

static bool place_matches(int wanted, unsigned place, unsigned cards)
{
    return wanted == EVERY_CARD ? place < cards : (unsigned)wanted == place;
}

static bool read_hbm(const char *value, struct machine *machine)
{
    int wanted;
    uint64_t bytes;
    if (!take_place(&value, machine->cards, &wanted) || !take(&value, ':')) return false;
    if (!take_number(&value, UINT64_MAX, &bytes) || *value) return false;
    for (unsigned card = 0; card < machine->cards; card++)
        if (place_matches(wanted, card, machine->cards)) machine->hbm_bytes[card] = bytes;
    return true;
}

static bool read_hbm_rate(const char *value, struct machine *machine)
{
    int wanted;
    double gbps;
    if (!take_place(&value, machine->cards, &wanted) || !take(&value, ':')) return false;
    if (!take_rate(&value, &gbps) || *value) return false;
    for (unsigned card = 0; card < machine->cards; card++)
        if (place_matches(wanted, card, machine->cards)) machine->hbm_gbps[card] = gbps;
    return true;
}

static bool take_path(const char **at, struct machine_path *path)
{
    return take_rate(at, &path->gbps) && take(at, ',') && take_rate(at, &path->both_gbps) &&
           take(at, ',') && take_u32(at, &path->latency_ns) && take(at, ',') &&
           take_u32(at, &path->start_ns) && take(at, ',') && take_flag(at, &path->access) &&
           take(at, ',') && take_flag(at, &path->atomics);
}

static bool read_path(const char *value, struct machine *machine)
{
    int wanted_from, wanted_to;
    struct machine_path path;
    unsigned cards = machine->cards;
    if (!take_place(&value, cards, &wanted_from) || !take(&value, '>')) return false;
    if (!take_place(&value, cards, &wanted_to) || !take(&value, ':')) return false;
    if (!take_path(&value, &path) || *value) return false;
    for (unsigned from = 0; from <= cards; from++)
        for (unsigned to = 0; to <= cards; to++)
            if (from != to && place_matches(wanted_from, from, cards) &&
                place_matches(wanted_to, to, cards))
                machine->path[from][to] = path;
    return true;
}

/* `,` and a number of at most `most`. */
static bool take_next(const char **at, uint64_t most, uint64_t *value)
{
    return take(at, ',') && take_number(at, most, value);
}

static bool take_end(const char **at, unsigned cards, uint8_t *end)
{
    uint64_t number = MACHINE_SWITCH;
    if (!take(at, 's') && !take_number(at, cards - 1, &number)) return false;
    *end = (uint8_t)number;
    return true;
}

static bool take_link(const char **at, struct machine_link *link)
{
    uint64_t kind, lanes, spare, dead, cut, calibrated, latency, payload, header, rate, factor;
    if (!take_number(at, UINT8_MAX, &kind) || !take_next(at, UINT8_MAX, &lanes) ||
        !take_next(at, UINT8_MAX, &spare) || !take_next(at, UINT8_MAX, &dead) ||
        !take_next(at, 1, &cut) || !take_next(at, 1, &calibrated) ||
        !take_next(at, UINT32_MAX, &latency) || !take_next(at, UINT32_MAX, &payload) ||
        !take_next(at, UINT32_MAX, &header) || !take_next(at, UINT64_C(1) << 53, &rate) ||
        !take_next(at, UINT32_MAX, &factor))
        return false;
    link->kind = (uint8_t)kind;
    link->lanes = (uint8_t)lanes;
    link->spare_lanes = (uint8_t)spare;
    link->dead_lanes = (uint8_t)dead;
    link->dead = cut == 1;
    link->calibrated = calibrated == 1;
    link->latency_ns = (uint32_t)latency;
    link->payload_bytes = (uint32_t)payload;
    link->header_bytes = (uint32_t)header;
    link->lane_gbps = (double)rate / 1e9;
    link->factor = (double)factor / 1e9;
    return true;
}

static bool read_link(const char *value, struct machine *machine)
{
    if (machine->links == MACHINE_MAX_LINKS) return false;
    struct machine_link *link = &machine->link[machine->links];
    if (!take_end(&value, machine->cards, &link->ends[0]) || !take(&value, '-') ||
        !take_end(&value, machine->cards, &link->ends[1]) || !take(&value, ':') ||
        !take_link(&value, link) || *value)
        return false;
    machine->links++;
    return true;
}

static bool read_through(const char *value, struct machine *machine)
{
    struct machine_through_host *host = &machine->through_host;
    uint64_t factor, latency, access, atomics, calibrated;
    if (!take_number(&value, UINT32_MAX, &factor) || !take_next(&value, UINT32_MAX, &latency) ||
        !take_next(&value, 1, &access) || !take_next(&value, 1, &atomics) ||
        !take_next(&value, 1, &calibrated) || *value)
        return false;
    *host = (struct machine_through_host){.access = access == 1,
                                          .atomics = atomics == 1,
                                          .calibrated = calibrated == 1,
                                          .latency_ns = (uint32_t)latency,
                                          .factor = (double)factor / 1e9};
    return true;
}

static bool read_relays(const char *value, struct machine *machine)
{
    uint64_t allowed, factor, calibrated;
    if (!take_number(&value, 1, &allowed) || !take_next(&value, UINT32_MAX, &factor) ||
        !take_next(&value, 1, &calibrated) || *value)
        return false;
    machine->relays.allowed = allowed == 1;
    machine->relays.calibrated = calibrated == 1;
    machine->relays.factor = (double)factor / 1e9;
    return true;
}

static bool read_whole(const char *value, uint64_t most, uint64_t *number)
{
    return take_number(&value, most, number) && !*value;
}

static bool read_name(const char *value, struct machine *machine)
{
    if (strlen(value) >= sizeof machine->name) return false;
    strcpy(machine->name, value);
    return true;
}

static bool read_cost(const char *key, const char *value, struct machine *machine)
{
#define READ_COST(call)                                                                            \
    if (strcmp(key, #call) == 0)                                                                   \
        return take_u32(&value, &machine->costs.call.base_ns) && take(&value, ',') &&              \
               take_u32(&value, &machine->costs.call.per_mib_ns) && !*value;
    MACHINE_COSTS(READ_COST)
#undef READ_COST
    return false;
}

static bool read_pair(const char *key, const char *value, struct machine *machine)
{
    if (strcmp(key, "name") == 0) return read_name(value, machine);
    if (strcmp(key, "cards") == 0) {
        uint64_t cards;
        if (!read_whole(value, VP_MAX_CARDS, &cards) || cards == 0) return false;
        machine->cards = (unsigned)cards;
        return true;
    }
    if (strcmp(key, "host") == 0) return read_whole(value, UINT64_MAX, &machine->host_bytes);
    if (strcmp(key, "granularity") == 0)
        return read_whole(value, UINT64_MAX, &machine->granularity_bytes);
    if (strcmp(key, "address") == 0) return read_whole(value, UINT64_MAX, &machine->address_bytes);
    if (machine->cards == 0) return false; /* what follows needs to know how many there are */
    if (strcmp(key, "hbm") == 0) return read_hbm(value, machine);
    if (strcmp(key, "hbm_rate") == 0) return read_hbm_rate(value, machine);
    if (strcmp(key, "hbm_latency") == 0)
        return take_u32(&value, &machine->hbm_latency_ns) && !*value;
    if (strcmp(key, "path") == 0) return read_path(value, machine);
    if (strcmp(key, "link") == 0) return read_link(value, machine);
    if (strcmp(key, "through") == 0) return read_through(value, machine);
    if (strcmp(key, "relays") == 0) return read_relays(value, machine);
    if (strcmp(key, "ends") == 0) return take_u32(&value, &machine->end_latency_ns) && !*value;
    if (strcmp(key, "dead") == 0) {
        uint64_t card;
        if (!read_whole(value, machine->cards - 1, &card)) return false;
        return machine->relays.dead[card] = true;
    }
    return read_cost(key, value, machine);
}

static vp_status read_pairs(const char *text, struct machine *machine)
{
    while (*text) {
        char pair[MAX_PAIR];
        size_t length = strcspn(text, " ");
        if (length >= sizeof pair) return VP_MALFORMED;
        memcpy(pair, text, length);
        pair[length] = '\0';
        text += length + strspn(text + length, " ");
        char *equals = strchr(pair, '=');
        if (equals) *equals = '\0';
        if (equals && read_pair(pair, equals + 1, machine)) continue;
        log_error("machine description: `%s` is not understood", pair);
        return VP_MALFORMED;
    }
    return VP_OK;
}

vp_status machine_from_text(const char *text, struct machine *machine)
{
    if (!strchr(text, '=')) return machine_from_name(text, machine);
    struct machine made = {0};
    vp_status status = read_pairs(text, &made);
    if (status != VP_OK) return status;
    machine_fill_own_paths(&made);
    const char *why;
    if (!machine_is_valid(&made, &why)) {
        log_error("machine description: %s", why);
        return VP_INVALID;
    }
    route_fill_paths(&made);
    *machine = made;
    return VP_OK;
}
