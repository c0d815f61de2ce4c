#include "machine_file.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/units.h"
#include "install.h"
#include "json_line.h"
#include "machine/route.h"
#include "option.h"

enum { FORMAT_VERSION = 1, MAX_FILE_BYTES = 1 << 20 };

/* One object of the file being read, and where it is: for messages. */
struct reader {
    const char *file, *text;
    char path[128]; /* of `object`, such as /cards/0 */
    json_t *object;
};

/* Says what is wrong with a field (NULL: with the object). Always false. */
__attribute__((format(printf, 3, 4))) static bool wrong(const struct reader *reader,
                                                        const char *field, const char *format, ...)
{
    char path[192], why[256];
    va_list args;
    snprintf(path, sizeof path, "%s%s%s", reader->path, field ? "/" : "", field ? field : "");
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    log_error("%s:%u: %s: %s", reader->file, json_line_of(reader->text, path),
              *path ? path + 1 : "the file", why);
    return false;
}

/* Goes into reader's field `name`, or into its element `index`. */
static struct reader inside(const struct reader *outer, const char *name, int index, json_t *object)
{
    struct reader reader = *outer;
    reader.object = object;
    if (index < 0)
        snprintf(reader.path, sizeof reader.path, "%.60s/%.60s", outer->path, name);
    else
        snprintf(reader.path, sizeof reader.path, "%.60s/%.40s/%d", outer->path, name, index);
    return reader;
}

/* Every key must be known: a misspelt one would be ignored otherwise. */
static bool knows_all(const struct reader *reader, const char *const *known, size_t count)
{
    const char *key;
    json_t *value;
    if (!json_is_object(reader->object)) return wrong(reader, NULL, "must be an object { … }");
    json_object_foreach(reader->object, key, value)
    {
        size_t i = 0;
        while (i < count && strcmp(known[i], key) != 0) i++;
        if (i < count) continue;
        const char *nearest = option_nearest(key, known, count, sizeof *known);
        return nearest ? wrong(reader, key, "unknown field; did you mean \"%s\"?", nearest)
                       : wrong(reader, key, "unknown field");
    }
    return true;
}

static json_t *get(const struct reader *reader, const char *key)
{
    return json_object_get(reader->object, key);
}

/* The readers of one field leave the value as it is where the field is missing. */

static bool get_size(const struct reader *reader, const char *key, uint64_t *bytes)
{
    json_t *value = get(reader, key);
    if (!value) return true;
    if (json_is_integer(value) && json_integer_value(value) >= 0) {
        *bytes = (uint64_t)json_integer_value(value);
        return true;
    }
    if (json_is_string(value) && units_parse_size(json_string_value(value), bytes)) return true;
    return wrong(reader, key, "must be a size such as \"24G\", or a number of bytes");
}

static bool get_number(const struct reader *reader, const char *key, uint64_t most,
                       uint64_t *number)
{
    json_t *value = get(reader, key);
    if (!value) return true;
    json_int_t read = json_integer_value(value);
    if (!json_is_integer(value) || read < 0 || (uint64_t)read > most)
        return wrong(reader, key, "must be a whole number from 0 to %llu",
                     (unsigned long long)most);
    *number = (uint64_t)read;
    return true;
}

static bool get_u32(const struct reader *reader, const char *key, uint32_t *number)
{
    uint64_t wide = *number;
    if (!get_number(reader, key, UINT32_MAX, &wide)) return false;
    *number = (uint32_t)wide;
    return true;
}

static bool get_positive(const struct reader *reader, const char *key, double most,
                         const char *what, double *number)
{
    json_t *value = get(reader, key);
    if (!value) return true;
    double read = json_number_value(value);
    if (!json_is_number(value) || !(read > 0) || read > most)
        return wrong(reader, key, "must be %s", what);
    *number = read;
    return true;
}

static bool get_rate(const struct reader *reader, const char *key, double *gbps)
{
    return get_positive(reader, key, 1e5, "a rate in GB/s, above 0", gbps);
}

static bool get_factor(const struct reader *reader, const char *key, double *factor)
{
    return get_positive(reader, key, 1, "a factor above 0 and at most 1", factor);
}

static bool get_flag(const struct reader *reader, const char *key, bool *flag)
{
    json_t *value = get(reader, key);
    if (!value) return true;
    if (!json_is_boolean(value)) return wrong(reader, key, "must be true or false");
    *flag = json_is_true(value);
    return true;
}

static bool needs(const struct reader *reader, const char *const *keys, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!get(reader, keys[i])) return wrong(reader, NULL, "\"%s\" is missing", keys[i]);
    return true;
}

/* Which figures were chosen so that a result comes out, by name. False: a name that is none. */
static bool get_calibrated(const struct reader *reader, bool *calibrated)
{
    json_t *list = get(reader, "calibrated"), *name;
    size_t index;
    if (!list) return true;
    if (!json_is_array(list))
        return wrong(reader, "calibrated", "must be a list of fields of this entry");
    json_array_foreach(list, index, name)
    {
        if (!json_is_string(name) || !get(reader, json_string_value(name)))
            return wrong(reader, "calibrated", "must be a list of fields of this entry");
        *calibrated = true;
    }
    return true;
}

#define COUNT(array) (sizeof(array) / sizeof *(array))

static bool read_card(const struct reader *reader, struct machine *machine)
{
    static const char *const known[] = {"count", "hbm", "hbm_gbps"};
    static const char *const needed[] = {"hbm", "hbm_gbps"};
    uint64_t count = 1, hbm_bytes = 0;
    double gbps = 0;
    if (!knows_all(reader, known, COUNT(known)) || !needs(reader, needed, COUNT(needed)))
        return false;
    if (!get_number(reader, "count", VP_MAX_CARDS, &count) ||
        !get_size(reader, "hbm", &hbm_bytes) || !get_rate(reader, "hbm_gbps", &gbps))
        return false;
    if (count == 0) return wrong(reader, "count", "must be at least 1");
    if (machine->cards + count > VP_MAX_CARDS)
        return wrong(reader, NULL, "more than %d cards", VP_MAX_CARDS);
    for (; count > 0; count--, machine->cards++) {
        machine->hbm_bytes[machine->cards] = hbm_bytes;
        machine->hbm_gbps[machine->cards] = gbps;
    }
    return true;
}

/* An end of a path: the first and last place that it stands for. */
struct ends {
    unsigned first, last;
};

static bool get_ends(const struct reader *reader, const char *key, const struct machine *machine,
                     struct ends *ends)
{
    json_t *value = get(reader, key);
    const char *name = json_is_string(value) ? json_string_value(value) : "";
    if (strcmp(name, "host") == 0) {
        ends->first = ends->last = machine->cards;
    } else if (strcmp(name, "cards") == 0) {
        ends->first = 0;
        ends->last = machine->cards - 1;
    } else if (json_is_integer(value) && json_integer_value(value) >= 0 &&
               json_integer_value(value) < machine->cards) {
        ends->first = ends->last = (unsigned)json_integer_value(value);
    } else {
        return wrong(reader, key, "must be \"cards\", \"host\", or a card's number from 0 to %u",
                     machine->cards - 1);
    }
    return true;
}

static void set_paths(struct machine *machine, struct ends from, struct ends to,
                      const struct machine_path *path)
{
    for (unsigned a = from.first; a <= from.last; a++)
        for (unsigned b = to.first; b <= to.last; b++)
            if (a != b) machine->path[a][b] = *path;
}

static bool read_path(const struct reader *reader, struct machine *machine)
{
    static const char *const known[] = {"from",       "to",         "gbps",    "both_gbps",
                                        "latency_ns", "access",     "atomics", "both_ways",
                                        "start_ns",   "calibrated", "comment"};
    static const char *const needed[] = {"from", "to", "gbps", "latency_ns"};
    struct machine_path path = {.start_ns = 2400, .access = true};
    struct ends from, to;
    bool both_ways = true, calibrated;
    if (!knows_all(reader, known, COUNT(known)) || !needs(reader, needed, COUNT(needed)))
        return false;
    if (!get_rate(reader, "gbps", &path.gbps)) return false;
    path.both_gbps = path.gbps;
    bool fine = get_ends(reader, "from", machine, &from) && get_ends(reader, "to", machine, &to) &&
                get_rate(reader, "both_gbps", &path.both_gbps) &&
                get_u32(reader, "latency_ns", &path.latency_ns) &&
                get_u32(reader, "start_ns", &path.start_ns) &&
                get_flag(reader, "access", &path.access) &&
                get_flag(reader, "atomics", &path.atomics) &&
                get_flag(reader, "both_ways", &both_ways) && get_calibrated(reader, &calibrated);
    if (!fine) return false;
    if (path.both_gbps > path.gbps) return wrong(reader, "both_gbps", "is more than gbps");
    if (path.atomics && !path.access) return wrong(reader, "atomics", "needs access");
    set_paths(machine, from, to, &path);
    if (both_ways) set_paths(machine, to, from, &path);
    return true;
}

/* ---- Links ---- */

static bool get_names(const struct reader *reader, const char *key, const char *const *names,
                      size_t count, uint8_t *index)
{
    json_t *value = get(reader, key);
    const char *name = json_string_value(value);
    if (!value) return true;
    for (size_t i = 0; name && i < count; i++) {
        if (strcmp(names[i], name) != 0) continue;
        *index = (uint8_t)i;
        return true;
    }
    return wrong(reader, key, "must be one of the kinds in docs/machine-files.md, such as \"%s\"",
                 names[0]);
}

static bool get_u8(const struct reader *reader, const char *key, uint8_t *number)
{
    uint64_t wide = *number;
    if (!get_number(reader, key, UINT8_MAX, &wide)) return false;
    *number = (uint8_t)wide;
    return true;
}

static bool add_link(const struct reader *reader, const char *key, struct machine *machine,
                     const struct machine_link *link)
{
    if (link->ends[0] == link->ends[1]) return wrong(reader, key, "joins a card to itself");
    if (route_link_between(machine, link->ends[0], link->ends[1]) >= 0)
        return wrong(reader, key, "these two have a link already; give that one more lanes");
    assert(machine->links < MACHINE_MAX_LINKS); /* there are no more pairs */
    machine->link[machine->links++] = *link;
    return true;
}

static bool read_end(const struct reader *reader, const char *key, const json_t *value,
                     const struct machine *machine, uint8_t *end)
{
    if (json_is_string(value) && strcmp(json_string_value(value), "switch") == 0) {
        *end = MACHINE_SWITCH;
        return true;
    }
    if (!json_is_integer(value) || json_integer_value(value) < 0 ||
        json_integer_value(value) >= machine->cards)
        return wrong(reader, key, "an end is \"switch\" or a card's number from 0 to %u",
                     machine->cards - 1);
    *end = (uint8_t)json_integer_value(value);
    return true;
}

static bool link_between(const struct reader *reader, struct machine *machine,
                         struct machine_link *link)
{
    json_t *list = get(reader, "between"), *pair;
    size_t index;
    if (!list) return true;
    if (!json_is_array(list)) return wrong(reader, "between", "must be a list of pairs [0, 1]");
    json_array_foreach(list, index, pair)
    {
        if (!json_is_array(pair) || json_array_size(pair) != 2)
            return wrong(reader, "between", "must be a list of pairs such as [0, 1]");
        for (unsigned i = 0; i < 2; i++)
            if (!read_end(reader, "between", json_array_get(pair, i), machine, &link->ends[i]))
                return false;
        if (!add_link(reader, "between", machine, link)) return false;
    }
    return true;
}

static bool link_among(const struct reader *reader, struct machine *machine,
                       struct machine_link *link)
{
    json_t *list = get(reader, "among");
    if (!list) return true;
    if (!json_is_array(list) || json_array_size(list) < 2)
        return wrong(reader, "among", "must be a list of at least two cards");
    for (size_t a = 0; a < json_array_size(list); a++) {
        for (size_t b = a + 1; b < json_array_size(list); b++) {
            if (!read_end(reader, "among", json_array_get(list, a), machine, &link->ends[0]) ||
                !read_end(reader, "among", json_array_get(list, b), machine, &link->ends[1]) ||
                !add_link(reader, "among", machine, link))
                return false;
        }
    }
    return true;
}

static bool read_link(const struct reader *reader, struct machine *machine)
{
    static const char *const known[] = {
        "between",   "among",      "kind",    "lanes",  "spare_lanes", "dead_lanes", "dead",
        "lane_gbps", "latency_ns", "payload", "header", "factor",      "calibrated", "comment"};
    static const char *const needed[] = {"lanes", "lane_gbps", "latency_ns"};
    static const char *const kinds[] = {
#define KIND_NAME(kind, name) name,
        MACHINE_LINK_KINDS(KIND_NAME)
#undef KIND_NAME
    };
    struct machine_link link = {.payload_bytes = 256, .header_bytes = 16, .factor = 1};
    if (!knows_all(reader, known, COUNT(known)) || !needs(reader, needed, COUNT(needed)))
        return false;
    if (!get(reader, "between") == !get(reader, "among"))
        return wrong(reader, NULL, "needs \"between\" (pairs) or \"among\" (cards), one of both");
    bool fine =
        get_names(reader, "kind", kinds, COUNT(kinds), &link.kind) &&
        get_u8(reader, "lanes", &link.lanes) && get_u8(reader, "spare_lanes", &link.spare_lanes) &&
        get_u8(reader, "dead_lanes", &link.dead_lanes) && get_flag(reader, "dead", &link.dead) &&
        get_rate(reader, "lane_gbps", &link.lane_gbps) &&
        get_u32(reader, "latency_ns", &link.latency_ns) &&
        get_u32(reader, "payload", &link.payload_bytes) &&
        get_u32(reader, "header", &link.header_bytes) &&
        get_factor(reader, "factor", &link.factor) && get_calibrated(reader, &link.calibrated);
    if (!fine) return false;
    if (link.lanes == 0) return wrong(reader, "lanes", "must be at least 1");
    if (link.spare_lanes >= link.lanes)
        return wrong(reader, "spare_lanes", "at least one lane has to carry data");
    if (link.dead_lanes > link.lanes)
        return wrong(reader, "dead_lanes", "there are only %u lanes", link.lanes);
    if (link.payload_bytes == 0) return wrong(reader, "payload", "must be at least 1");
    return link_between(reader, machine, &link) && link_among(reader, machine, &link);
}

static bool read_relays(const struct reader *outer, struct machine *machine)
{
    static const char *const known[] = {"allowed", "factor", "calibrated", "comment"};
    machine->relays.factor = 1;
    if (!get(outer, "relays")) return true;
    struct reader reader = inside(outer, "relays", -1, get(outer, "relays"));
    return knows_all(&reader, known, COUNT(known)) &&
           get_flag(&reader, "allowed", &machine->relays.allowed) &&
           get_factor(&reader, "factor", &machine->relays.factor) &&
           get_calibrated(&reader, &machine->relays.calibrated);
}

static bool read_through_host(const struct reader *outer, struct machine *machine)
{
    static const char *const known[] = {"factor",  "latency_ns", "access",
                                        "atomics", "calibrated", "comment"};
    static const char *const needed[] = {"factor", "latency_ns"};
    struct machine_through_host *host = &machine->through_host;
    struct reader reader = inside(outer, "through_host", -1, get(outer, "through_host"));
    bool fine = knows_all(&reader, known, COUNT(known)) && needs(&reader, needed, COUNT(needed)) &&
                get_factor(&reader, "factor", &host->factor) &&
                get_u32(&reader, "latency_ns", &host->latency_ns) &&
                get_flag(&reader, "access", &host->access) &&
                get_flag(&reader, "atomics", &host->atomics) &&
                get_calibrated(&reader, &host->calibrated);
    if (!fine) return false;
    if (host->atomics && !host->access) return wrong(&reader, "atomics", "needs access");
    return true;
}

static bool read_list(const struct reader *reader, const char *key, struct machine *machine,
                      bool (*read)(const struct reader *, struct machine *))
{
    json_t *list = get(reader, key), *element;
    size_t index;
    if (!json_is_array(list) || json_array_size(list) == 0)
        return wrong(reader, key, "must be a list [ … ] with at least one entry");
    json_array_foreach(list, index, element)
    {
        struct reader entry = inside(reader, key, (int)index, element);
        if (!read(&entry, machine)) return false;
    }
    return true;
}

static bool every_path_is_there(const struct reader *reader, const struct machine *machine)
{
    for (unsigned from = 0; from <= machine->cards; from++) {
        for (unsigned to = 0; to <= machine->cards; to++) {
            bool between = from < machine->cards && to < machine->cards;
            bool given = machine->path[from][to].gbps > 0;
            if (from == to) continue;
            if (between && given && machine_is_routed(machine))
                return wrong(reader, "paths",
                             "paths between cards follow from through_host and "
                             "links; give those to the host alone");
            if (!given && !(between && machine_is_routed(machine)))
                return wrong(reader, "paths", "none from place %u to place %u (%u is the host)",
                             from, to, machine->cards);
        }
    }
    return true;
}

static bool read_costs(const struct reader *reader, struct machine_costs *costs)
{
    static const char *const known[] = {
#define COST_NAME(call) #call,
        MACHINE_COSTS(COST_NAME)
#undef COST_NAME
    };
    static const char *const parts[] = {"base_ns", "per_mib_ns"};
    if (!knows_all(reader, known, COUNT(known))) return false;
#define READ_COST(call)                                                                            \
    if (get(reader, #call)) {                                                                      \
        struct reader cost = inside(reader, #call, -1, get(reader, #call));                        \
        if (!knows_all(&cost, parts, COUNT(parts)) ||                                              \
            !get_u32(&cost, "base_ns", &costs->call.base_ns) ||                                    \
            !get_u32(&cost, "per_mib_ns", &costs->call.per_mib_ns))                                \
            return false;                                                                          \
    }
    MACHINE_COSTS(READ_COST)
#undef READ_COST
    return true;
}

/* What makes a machine routed. */
static bool read_all_links(const struct reader *reader, struct machine *machine)
{
    bool unused;
    if (!get_u32(reader, "end_latency_ns", &machine->end_latency_ns) ||
        !get_calibrated(reader, &unused) || !read_relays(reader, machine))
        return false;
    if (get(reader, "through_host")) {
        if (!read_through_host(reader, machine)) return false;
    } else if (get(reader, "links")) {
        return wrong(reader, "links",
                     "\"through_host\" is missing: how cards reach each other "
                     "where no link leads");
    }
    return !get(reader, "links") || read_list(reader, "links", machine, read_link);
}

static bool read_name(const struct reader *reader, struct machine *machine)
{
    const char *name = json_string_value(get(reader, "name"));
    if (!name || strlen(name) >= sizeof machine->name)
        return wrong(reader, "name", "must be a name of at most %zu letters",
                     sizeof machine->name - 1);
    strcpy(machine->name, name);
    return true;
}

static bool read_machine(const struct reader *reader, struct machine *machine)
{
    static const char *const known[] = {"machine",     "name",         "cards",          "host",
                                        "granularity", "address",      "hbm_latency_ns", "paths",
                                        "links",       "through_host", "end_latency_ns", "relays",
                                        "costs",       "calibrated",   "comment"};
    static const char *const needed[] = {"machine", "name", "cards", "host", "paths"};
    uint64_t version = 0;
    if (!knows_all(reader, known, COUNT(known)) || !needs(reader, needed, COUNT(needed)))
        return false;
    if (!get_number(reader, "machine", UINT32_MAX, &version)) return false;
    if (version != FORMAT_VERSION)
        return wrong(reader, "machine", "format %llu; this vrampool reads format %d",
                     (unsigned long long)version, FORMAT_VERSION);
    bool fine = read_name(reader, machine) && get_size(reader, "host", &machine->host_bytes) &&
                get_size(reader, "granularity", &machine->granularity_bytes) &&
                get_size(reader, "address", &machine->address_bytes) &&
                get_u32(reader, "hbm_latency_ns", &machine->hbm_latency_ns) &&
                read_list(reader, "cards", machine, read_card) &&
                read_list(reader, "paths", machine, read_path) && read_all_links(reader, machine) &&
                every_path_is_there(reader, machine);
    if (!fine) return false;
    if (get(reader, "costs")) {
        struct reader costs = inside(reader, "costs", -1, get(reader, "costs"));
        if (!read_costs(&costs, &machine->costs)) return false;
    }
    machine_fill_own_paths(machine);
    const char *why;
    if (!machine_is_valid(machine, &why)) return wrong(reader, NULL, "%s", why);
    route_fill_paths(machine);
    return true;
}

/* Reads the whole file as a string that the caller frees; NULL, logged: it cannot be. */
static char *read_text(const char *path)
{
    FILE *file = fopen(path, "re");
    char *text = file ? malloc(MAX_FILE_BYTES + 1) : NULL;
    size_t length = text ? fread(text, 1, MAX_FILE_BYTES + 1, file) : 0;
    if (!text || ferror(file)) {
        log_error("cannot read %s: %s", path, strerror(errno));
    } else if (length > MAX_FILE_BYTES) {
        log_error("%s: larger than a machine file can be", path);
    } else {
        text[length] = '\0';
        fclose(file);
        return text;
    }
    if (file) fclose(file);
    free(text);
    return NULL;
}

vp_status machine_file_read(const char *path, struct machine *machine)
{
    /* Call costs that the file does not give are those measured on a real card. */
    struct machine h200, made = {.granularity_bytes = 2 * MIB, .address_bytes = 256 * TIB};
    vp_status status = machine_from_name("h200", &h200);
    assert(status == VP_OK);
    made.costs = h200.costs;

    char *text = read_text(path);
    if (!text) return VP_IO;
    json_error_t error;
    struct reader reader = {.file = path, .text = text};
    reader.object = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    status = VP_MALFORMED;
    if (!reader.object)
        log_error("%s:%d: %s", path, error.line, error.text);
    else if (read_machine(&reader, &made))
        status = VP_OK;
    json_decref(reader.object);
    free(text);
    if (status == VP_OK) *machine = made;
    return status;
}

/* A file of that name among those that come with vrampool. */
static vp_status find_shipped(const char *name, struct machine *machine)
{
    char folder[PATH_MAX], path[PATH_MAX + 80];
    if (strlen(name) >= sizeof machine->name || !install_machines(folder)) return VP_NOT_FOUND;
    snprintf(path, sizeof path, "%s/%s.json", folder, name);
    return access(path, R_OK) == 0 ? machine_file_read(path, machine) : VP_NOT_FOUND;
}

static int is_machine_file(const struct dirent *entry)
{
    const char *dot = strrchr(entry->d_name, '.');
    return dot && strcmp(dot, ".json") == 0;
}

/* The names of those that come with vrampool: "dgx1v, h200". */
static void list_shipped(char *text, size_t room)
{
    char folder[PATH_MAX];
    struct dirent **entries;
    size_t used = 0;
    snprintf(text, room, "none is there");
    int count =
        install_machines(folder) ? scandir(folder, &entries, is_machine_file, alphasort) : 0;
    for (int i = 0; i < count; i++) {
        size_t length = strlen(entries[i]->d_name) - strlen(".json");
        if (used < room)
            used += (size_t)snprintf(text + used, room - used, "%s%.*s", i ? ", " : "", (int)length,
                                     entries[i]->d_name);
        free(entries[i]);
    }
    if (count > 0) free(entries);
}

/* NAME without a size behind it. */
static vp_status find_plain(const char *name, struct machine *machine)
{
    size_t length = strlen(name);
    if (strchr(name, '/') || (length > 5 && strcmp(name + length - 5, ".json") == 0))
        return machine_file_read(name, machine);
    vp_status status = machine_from_name(name, machine);
    if (status == VP_NOT_FOUND) status = find_shipped(name, machine);
    if (status == VP_NOT_FOUND) {
        char shipped[256];
        list_shipped(shipped, sizeof shipped);
        log_error("no machine `%s`: write NxSIZE (such as 8x24M), the path of a .json file, or one "
                  "of those that come with vrampool (%s)",
                  name, shipped);
    }
    return status;
}

vp_status machine_find(const char *text, struct machine *machine)
{
    char name[PATH_MAX];
    const char *size = strrchr(text, '@');
    uint64_t bytes = 0;
    if (size && (size == text || !units_parse_size(size + 1, &bytes) || bytes == 0)) {
        log_error("machine %s: what follows @ is a card's memory, such as 24M", text);
        return VP_INVALID;
    }
    size_t length = size ? (size_t)(size - text) : strlen(text);
    if (length >= sizeof name) {
        log_error("the machine's name is too long");
        return VP_INVALID;
    }
    memcpy(name, text, length);
    name[length] = '\0';
    struct machine found;
    vp_status status = find_plain(name, &found);
    if (status == VP_OK && size) status = machine_scale(&found, bytes);
    if (status != VP_OK) return status;
    if (size && strlen(found.name) + strlen(size) < sizeof found.name) strcat(found.name, size);
    *machine = found;
    return VP_OK;
}
