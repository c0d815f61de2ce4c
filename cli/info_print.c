#include <assert.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/units.h"
#include "info.h"

static bool host_counts(const struct info *info)
{
    return info->driver_works && info->host_usable;
}

static const char *size(uint64_t bytes, char out[32])
{
    return units_format_size(bytes, out, 32);
}

static void print_row(const char *name, uint64_t total_bytes, uint64_t free_bytes,
                      uint64_t poolable_bytes, const char *what)
{
    char total[32], left[32], poolable[32];
    printf("%-8s %12s %12s %14s  %s\n", name, size(total_bytes, total), size(free_bytes, left),
           size(poolable_bytes, poolable), what);
}

/* What a card can do with the memory of others. */
static const char *peers_text(const struct info *info, const struct info_card *card)
{
    if (info->cards < 2) return "";
    if (!card->peers) return ", no peer access";
    if (card->in_place == card->peers) return ", peer access";
    return card->in_place ? ", peer access, to some without native atomics (keeps data there only)"
                          : ", peer access without native atomics (keeps data there only)";
}

static void print_places(const struct info *info)
{
    uint64_t all_bytes = 0;
    char text[32];
    printf("\n%-8s %12s %12s %14s  %s\n", "place", "memory", "free", "can be pooled", "what");
    for (unsigned i = 0; i < info->cards; i++) {
        const struct info_card *card = &info->card[i];
        uint64_t poolable_bytes = card->usable ? card->free_bytes : 0;
        char name[16], what[256];
        snprintf(name, sizeof name, "card%u", i);
        snprintf(what, sizeof what, "%s, compute %d.%d%s", card->model, card->compute_major,
                 card->compute_minor, peers_text(info, card));
        print_row(name, card->total_bytes, card->free_bytes, poolable_bytes, what);
        all_bytes += poolable_bytes;
    }
    uint64_t host_bytes = host_counts(info) ? info->host_poolable_bytes : 0;
    print_row("host0", info->host.total_bytes, host_memory_free(&info->host), host_bytes,
              "host memory");
    all_bytes += host_bytes;
    printf("%-8s %12s %12s %14s\n", "together", "", "", size(all_bytes, text));
}

void info_print_table(const struct info *info)
{
    char text[32], left[32];
    printf("vrampool %s\n", VP_VERSION);
    if (info->emulated[0]) printf("machine  %s (emulated)\n", info->emulated);
    if (!info->driver_path[0])
        printf("driver   none found\n");
    else if (info->driver_version == 0)
        printf("driver   %s\n", info->driver_path);
    else
        printf("driver   %s, CUDA %d.%d (12.4 or newer is needed)\n", info->driver_path,
               info->driver_version / 1000, info->driver_version % 1000 / 10);
    printf("host     %s, ", size(info->host.total_bytes, text));
    if (info->host.limit_bytes == HOST_NO_LIMIT)
        printf("no control group limits it\n");
    else
        printf("limited to %s, of which %s are left, by %s\n", size(info->host.limit_bytes, text),
               size(info->host.limit_left_bytes, left), info->host.limit_file);
    print_places(info);
    if (info->problems) printf("\nmissing\n");
    for (unsigned i = 0; i < info->problems; i++)
        printf("- %s\n  what helps: %s\n", info->problem[i].what, info->problem[i].remedy);
}

static json_t *json_bytes(uint64_t bytes)
{
    return bytes == HOST_NO_LIMIT ? json_null() : json_integer((json_int_t)bytes);
}

static json_t *json_driver(const struct info *info)
{
    char version[32] = "";
    if (!info->driver_path[0]) return json_null();
    if (info->driver_version)
        snprintf(version, sizeof version, "%d.%d", info->driver_version / 1000,
                 info->driver_version % 1000 / 10);
    return json_pack("{s:s, s:s?, s:b}", "path", info->driver_path, "cuda_version",
                     *version ? version : NULL, "works", info->driver_works);
}

static json_t *json_cards(uint32_t cards)
{
    json_t *list = json_array();
    for (; cards; cards &= cards - 1)
        json_array_append_new(list, json_integer(__builtin_ctz(cards)));
    return list;
}

static json_t *json_card(const struct info *info, unsigned number)
{
    const struct info_card *card = &info->card[number];
    char name[16], compute[32];
    snprintf(name, sizeof name, "card%u", number);
    snprintf(compute, sizeof compute, "%d.%d", card->compute_major, card->compute_minor);
    json_t *peers = json_cards(card->peers), *in_place = json_cards(card->in_place);
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:b, s:b, s:b, s:o, s:o}", "name", name, "kind",
        "card", "model", card->model, "compute_capability", compute, "total_bytes",
        json_bytes(card->total_bytes), "free_bytes", json_bytes(card->free_bytes), "poolable_bytes",
        json_bytes(card->usable ? card->free_bytes : 0), "usable", card->usable, "vmm", card->vmm,
        "host_numa_vmm", card->host_numa_vmm, "peers", peers, "peers_in_place", in_place);
}

static json_t *json_host(const struct info *info)
{
    bool counts = host_counts(info);
    return json_pack("{s:s, s:s, s:o, s:o, s:o, s:b, s:o, s:o, s:s?}", "name", "host0", "kind",
                     "host", "total_bytes", json_bytes(info->host.total_bytes), "free_bytes",
                     json_bytes(host_memory_free(&info->host)), "poolable_bytes",
                     json_bytes(counts ? info->host_poolable_bytes : 0), "usable", counts,
                     "limit_bytes", json_bytes(info->host.limit_bytes), "limit_left_bytes",
                     json_bytes(info->host.limit_left_bytes), "limit_file",
                     info->host.limit_file[0] ? info->host.limit_file : NULL);
}

void info_print_json(const struct info *info)
{
    json_t *places = json_array(), *problems = json_array();
    for (unsigned i = 0; i < info->cards; i++) json_array_append_new(places, json_card(info, i));
    json_array_append_new(places, json_host(info));
    for (unsigned i = 0; i < info->problems; i++)
        json_array_append_new(problems, json_pack("{s:s, s:s}", "what", info->problem[i].what,
                                                  "remedy", info->problem[i].remedy));
    json_t *all = json_pack("{s:s, s:s?, s:o, s:o, s:o}", "vrampool", VP_VERSION, "emulated",
                            info->emulated[0] ? info->emulated : NULL, "driver", json_driver(info),
                            "places", places, "problems", problems);
    assert(
        all); /* fails only for text that is not UTF-8, which none of ours is, or without memory */
    json_dumpf(all, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(all);
}
