/* Machines by name, and their text form.
 *
 * The text form names classes of places first (`hbm=*:SIZE`, `path=*>h:…`) and then only the
 * exceptions, so eight equal cards take a few hundred bytes. A reader applies the pairs in order;
 * later ones win. */
#include "machine/machine.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/units.h"

enum { EVERY_CARD = -1, MAX_PAIR = 256 };

/* Measured on one H200, driver 580.159.04; lines through the values at 2 and 32 MiB, the sizes of
 * chunks. copy and wait were not measured apart: they are taken like a launch's share and two event
 * records. */
static const struct machine_costs measured_costs = {
    .create_card = {11500, 12},
    .create_host = {327000, 277000},
    .release_card = {13000, 470},
    .release_host = {7600, 18200},
    .map = {900, 1},
    .unmap_card = {17500, 25},
    .unmap_host = {24800, 2100},
    .access_card = {28000, 50},
    .access_host = {46000, 9070},
    .access_busy = {1010000, 0},
    .launch = {3700, 0},
    .copy = {3700, 0},
    .record = {150, 0},
    .query = {130, 0},
    .wait = {300, 0},
};

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
static const struct machine_path h200_host = {
    .gbps = 55.3, .both_gbps = 49.6, .latency_ns = 1130, .start_ns = COPY_START_NS, .access = true};

void machine_fill_own_paths(struct machine *machine)
{
    for (unsigned card = 0; card < machine->cards && card < VP_MAX_CARDS; card++) {
        machine->path[card][card] = (struct machine_path){.gbps = machine->hbm_gbps[card],
                                                          .both_gbps = machine->hbm_gbps[card],
                                                          .latency_ns = 600,
                                                          .start_ns = COPY_START_NS,
                                                          .access = true,
                                                          .atomics = true};
    }
}

static void set_equal_cards(struct machine *machine, unsigned cards, uint64_t hbm_bytes,
                            double hbm_gbps, const struct machine_path *to_host)
{
    machine->cards = cards;
    machine->granularity_bytes = 2 * MIB;
    machine->costs = measured_costs;
    for (unsigned from = 0; from < cards; from++) {
        machine->hbm_bytes[from] = hbm_bytes;
        machine->hbm_gbps[from] = hbm_gbps;
        for (unsigned to = 0; to < cards; to++) machine->path[from][to] = plain_peer;
        machine->path[from][cards] = machine->path[cards][from] = *to_host;
    }
    machine_fill_own_paths(machine);
}

static void set_h200(struct machine *machine)
{
    set_equal_cards(machine, 1, 71578 * 2 * MIB, 4477, &h200_host); /* 139.8 GiB */
    machine->host_bytes = 125 * GIB;
    machine->address_bytes = 64 * TIB;
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
        log_error("machine %s: a card has 2M to 64T of memory", name);
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
        set_h200(&made);
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
        if (!isalnum((unsigned char)*name) && !strchr("._-+", *name)) return false;
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
            if (from == to) continue;
            if (!rate_is_sane(path->gbps)) return "path: gbps is a positive rate";
            if (!rate_is_sane(path->both_gbps) || path->both_gbps > path->gbps)
                return "path: both_gbps is positive and at most gbps";
            if (path->atomics && !path->access) return "path: atomics need access";
        }
    }
    return NULL;
}

bool machine_is_valid(const struct machine *machine, const char **why)
{
    const char *wrong = NULL;
    uint64_t granule = machine->granularity_bytes;
    if (!memchr(machine->name, '\0', sizeof machine->name) || !name_is_plain(machine->name))
        wrong = "name: letters, digits, and . _ - + only";
    else if (machine->cards == 0 || machine->cards > VP_MAX_CARDS)
        wrong = "cards: 1 to 16";
    else if (granule == 0 || (granule & (granule - 1)) != 0 || granule % (4 * KIB) != 0)
        wrong = "granularity_bytes: a power of two of at least 4 KiB";
    else if (machine->address_bytes < granule || machine->address_bytes > 256 * TIB)
        wrong = "address_bytes: at least one granule and at most 256 TiB";
    else if (machine->host_bytes > 64 * TIB)
        wrong = "host_bytes: at most 64 TiB";
    else if (!(wrong = wrong_in_cards(machine)))
        wrong = wrong_in_paths(machine);
    if (why) *why = wrong;
    return !wrong;
}

/* Writing the text form. */

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

static void put_cards(struct writer *out, const struct machine *machine)
{
    put(out, " hbm=*:%llu hbm_rate=*:%llu", (unsigned long long)machine->hbm_bytes[0],
        rate_to_text(machine->hbm_gbps[0]));
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
#define PUT_COST(call)                                                                             \
    put(&out, " " #call "=%u,%u", machine->costs.call.base_ns, machine->costs.call.per_mib_ns);
    MACHINE_COSTS(PUT_COST)
#undef PUT_COST
    return out.full ? VP_INVALID : VP_OK;
}

/* Reading it. Every reader below moves *at behind what it took, and returns false at anything else.
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
    if (strcmp(key, "path") == 0) return read_path(value, machine);
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
    *machine = made;
    return VP_OK;
}
