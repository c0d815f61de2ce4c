/* Cards, links and ways, as tables in nvidia-smi's manner and as JSON. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/units.h"
#include "topo.h"

enum cell { CELL_PATH, CELL_RATE, CELL_LATENCY };

static void print_matrix(const struct topo *topo, const char *title, enum cell cell)
{
    unsigned cards = topo->machine.cards;
    char name[16];
    printf("\n%-8s", title);
    for (unsigned to = 0; to <= cards; to++) printf(" %7s", topo_node_name(topo, to, name));
    putchar('\n');
    for (unsigned from = 0; from < cards; from++) {
        printf("%-8s", topo_node_name(topo, from, name));
        for (unsigned to = 0; to <= cards; to++) {
            const struct machine_path *path = &topo->machine.path[from][to];
            if (cell == CELL_PATH || from == to)
                printf(" %7s", topo_path_name(topo, from, to, name));
            else if (cell == CELL_RATE)
                printf(" %7.1f", path->gbps);
            else
                printf(" %7u", path->latency_ns);
        }
        putchar('\n');
    }
}

static void print_known(const char *before, int value, const char *after)
{
    if (value != TOPO_UNKNOWN) printf("%s%d%s", before, value, after);
}

static void print_cards(const struct topo *topo)
{
    char text[32], name[16];
    for (unsigned i = 0; i < topo->machine.cards; i++) {
        const struct topo_card *card = &topo->card[i];
        printf("%-8s %s", topo_node_name(topo, i, name),
               topo->machine.hbm_bytes[i]
                   ? units_format_size(topo->machine.hbm_bytes[i], text, sizeof text)
                   : "memory unknown");
        if (card->bus_id[0]) printf(", %s", card->bus_id);
        print_known(", PCIe ", card->pcie_generation, "");
        print_known(" x", card->pcie_width, "");
        print_known(", NUMA node ", card->numa_node, "");
        print_known(", ", card->temperature_c, " °C");
        putchar('\n');
    }
    if (topo->machine.host_bytes == 0) return;
    printf("%-8s %s\n", "host0", units_format_size(topo->machine.host_bytes, text, sizeof text));
}

static void print_links(const struct topo *topo)
{
    char a[16], b[16], ends[40];
    if (topo->machine.links == 0) return;
    printf("\n%-15s %-7s %5s %6s %5s %5s  %-9s %9s\n", "link", "kind", "lanes", "in use", "spare",
           "dead", "state", "GB/s");
    for (unsigned i = 0; i < topo->machine.links; i++) {
        const struct machine_link *link = &topo->machine.link[i];
        snprintf(ends, sizeof ends, "%s-%s", topo_node_name(topo, link->ends[0], a),
                 topo_node_name(topo, link->ends[1], b));
        printf("%-15s %-7s %5u %6u %5u %5u  %-9s %9.1f%s\n", ends,
               machine_link_kind_name(link->kind), link->lanes, route_lanes_in_use(link),
               link->spare_lanes, link->dead_lanes, topo_link_state(link), route_link_gbps(link),
               link->calibrated ? " (calibrated)" : "");
    }
}

void topo_print_table(const struct topo *topo)
{
    printf("machine  %s%s\n", topo->machine.name, topo->emulated ? " (emulated)" : "");
    print_cards(topo);
    print_links(topo);
    print_matrix(topo, "way", CELL_PATH);
    print_matrix(topo, "GB/s", CELL_RATE);
    print_matrix(topo, "ns", CELL_LATENCY);
    puts("\nNV#  over a link with # lanes in use (NV: as described)   NVB  through a relay card\n"
         "PIX, PXB  over PCIe switches   PHB, NODE  through the host   SYS  and between its nodes");
    if (!topo->emulated)
        puts("Rates and latencies follow from the parts; vrampool bench measures them.");
    if (!topo->emulated && !topo->nvml)
        puts("NVML (libnvidia-ml.so.1) was not found: links and temperatures are unknown. It comes "
             "with\nthe driver; in a container start it with --gpus all.");
}

static json_t *known(int value)
{
    return value == TOPO_UNKNOWN ? json_null() : json_integer(value);
}

static json_t *figure(double value)
{
    return json_real((double)(long long)(value * 100 + 0.5) / 100);
}

static json_t *card_json(const struct topo *topo, unsigned i)
{
    const struct topo_card *card = &topo->card[i];
    char name[16];
    return json_pack("{ss sI so so so so so}", "name", topo_node_name(topo, i, name),
                     "memory_bytes", (json_int_t)topo->machine.hbm_bytes[i], "bus_id",
                     card->bus_id[0] ? json_string(card->bus_id) : json_null(), "pcie_generation",
                     known(card->pcie_generation), "pcie_width", known(card->pcie_width),
                     "numa_node", known(card->numa_node), "temperature_c",
                     known(card->temperature_c));
}

static json_t *link_json(const struct topo *topo, const struct machine_link *link)
{
    char a[16], b[16];
    return json_pack(
        "{ss ss ss si si si si ss so sb}", "from", topo_node_name(topo, link->ends[0], a), "to",
        topo_node_name(topo, link->ends[1], b), "kind", machine_link_kind_name(link->kind), "lanes",
        (int)link->lanes, "in_use", (int)route_lanes_in_use(link), "spare_lanes",
        (int)link->spare_lanes, "dead_lanes", (int)link->dead_lanes, "state", topo_link_state(link),
        "gbps", figure(route_link_gbps(link)), "calibrated", link->calibrated);
}

static json_t *pair_json(const struct topo *topo, unsigned from, unsigned to)
{
    const struct machine_path *path = &topo->machine.path[from][to];
    struct route route = route_find(&topo->machine, from, to);
    json_t *through = json_array();
    char a[16], b[16], way[16];
    for (unsigned i = 1; i < route.links; i++)
        json_array_append_new(through, json_string(topo_node_name(topo, route.node[i], a)));
    return json_pack("{ss ss si ss so so si sb sb}", "from", topo_node_name(topo, from, a), "to",
                     topo_node_name(topo, to, b), "hops", (int)route.hops, "way",
                     topo_path_name(topo, from, to, way), "through", through, "gbps",
                     figure(path->gbps), "latency_ns", (int)path->latency_ns, "access",
                     path->access, "atomics", path->atomics);
}

void topo_print_json(const struct topo *topo)
{
    json_t *cards = json_array(), *links = json_array(), *pairs = json_array();
    unsigned places = topo->machine.cards + 1;
    for (unsigned i = 0; i < topo->machine.cards; i++)
        json_array_append_new(cards, card_json(topo, i));
    for (unsigned i = 0; i < topo->machine.links; i++)
        json_array_append_new(links, link_json(topo, &topo->machine.link[i]));
    for (unsigned from = 0; from < places; from++)
        for (unsigned to = 0; to < places; to++)
            if (from != to) json_array_append_new(pairs, pair_json(topo, from, to));
    json_t *root = json_pack("{ss sb sb sI so so so}", "machine", topo->machine.name, "emulated",
                             topo->emulated, "nvml", topo->nvml, "host_bytes",
                             (json_int_t)topo->machine.host_bytes, "cards", cards, "links", links,
                             "pairs", pairs);
    json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
    putchar('\n');
    json_decref(root);
}
