/* `vrampool topo`: which cards there are, how they are linked, and which way data goes. */
#include "topo.h"

#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "machine_file.h"
#include "option.h"

static const struct option_spec specs[] = {
    {"emulate", OPTION_VALUE, "MACHINE",
     "show an emulated machine: a name such as double-cube-8x24,\nNxSIZE (8x24M), or a machine "
     "file (.json)"},
    {"nccl", OPTION_VALUE, "FILE", "show what NCCL saw: the file that NCCL_TOPO_DUMP_FILE named"},
    {"json", OPTION_FLAG, NULL, "print JSON"},
    {"svg", OPTION_VALUE, "FILE", "draw cards and links"},
    {"help", OPTION_FLAG, NULL, "this text"},
};
enum { TOPO_EMULATE, TOPO_NCCL, TOPO_JSON, TOPO_SVG, TOPO_HELP, SPECS };

static int print_help(void)
{
    puts("Usage: vrampool topo [OPTION…]\n\n"
         "Shows the cards, their links with lanes and state, and for every pair which way data\n"
         "goes, at which rate and latency. Rates follow from the parts; vrampool bench measures\n"
         "them.\n");
    option_print(specs, SPECS);
    puts("\nExamples:\n"
         "  vrampool topo\n"
         "  vrampool topo --emulate double-cube-8x24 --svg links.svg\n"
         "  vrampool topo --json | jq .links");
    return 0;
}

const char *topo_node_name(const struct topo *topo, unsigned node, char name[16])
{
    if (node < topo->machine.cards)
        snprintf(name, 16, "card%u", node);
    else
        snprintf(name, 16,
                 node == MACHINE_SWITCH && node != topo->machine.cards ? "switch" : "host0");
    return name;
}

const char *topo_link_state(const struct machine_link *link)
{
    unsigned wanted = (unsigned)link->lanes - link->spare_lanes;
    if (route_lanes_in_use(link) == 0) return "down";
    return route_lanes_in_use(link) < wanted || link->dead_lanes > 0 ? "degraded" : "up";
}

/* NVML's levels of a common ancestor, in nvidia-smi's words. */
static const char *ancestor_name(int level)
{
    return level <= 0    ? "PHB"
           : level <= 10 ? "PIX"
           : level <= 20 ? "PXB"
           : level <= 30 ? "PHB"
           : level <= 40 ? "NODE"
                         : "SYS";
}

const char *topo_path_name(const struct topo *topo, unsigned from, unsigned to, char name[16])
{
    struct route route = route_find(&topo->machine, from, to);
    unsigned lanes = UINT32_MAX;
    const char *fixed = NULL;
    if (from == to)
        fixed = "X";
    else if (from >= topo->machine.cards || to >= topo->machine.cards)
        fixed = "PHB";
    else if (route.kind == ROUTE_HOST)
        fixed = ancestor_name(topo->emulated ? TOPO_UNKNOWN : topo->pair[from][to].ancestor);
    else if (route.kind == ROUTE_LINKS && route.hops > 1)
        fixed = "NVB";
    for (unsigned i = 0; i < route.links; i++) {
        unsigned in_use = route_lanes_in_use(&topo->machine.link[route.link[i]]);
        if (in_use < lanes) lanes = in_use;
    }
    if (!fixed && route.kind == ROUTE_GIVEN) fixed = "NV";
    if (fixed)
        snprintf(name, 16, "%s", fixed);
    else
        snprintf(name, 16, "NV%u", lanes);
    return name;
}

static bool emulated_topo(const char *name, struct topo *topo)
{
    if (machine_find(name, &topo->machine) != VP_OK) return false;
    topo->emulated = true;
    for (unsigned card = 0; card < topo->machine.cards; card++)
        topo->card[card] =
            (struct topo_card){"", TOPO_UNKNOWN, TOPO_UNKNOWN, TOPO_UNKNOWN, TOPO_UNKNOWN};
    return true;
}

int cli_topo(int argc, char **argv)
{
    static struct topo topo;
    struct option_reader reader = {"topo", specs, SPECS, argc, argv, 1};
    const char *value, *machine = NULL, *nccl = NULL, *svg = NULL;
    bool json = false;
    int index;
    while ((index = option_next(&reader, &value)) != OPTION_END) {
        if (index == OPTION_WRONG) return EXIT_USAGE;
        if (index == TOPO_HELP) return print_help();
        if (index == TOPO_EMULATE) machine = value;
        if (index == TOPO_NCCL) nccl = value;
        if (index == TOPO_JSON) json = true;
        if (index == TOPO_SVG) svg = value;
    }
    if (reader.next < argc)
        return cli_fail(EXIT_USAGE, "topo: `%s` is no option, and topo runs no program",
                        argv[reader.next]);
    if (!cli_picture_is_apart("topo", svg, machine) || !cli_picture_is_apart("topo", svg, nccl))
        return EXIT_USAGE;
    if (machine && !emulated_topo(machine, &topo)) return EXIT_USAGE;
    if (machine && nccl) return cli_fail(EXIT_USAGE, "topo: --emulate or --nccl, one of both");
    if (nccl && !topo_read_nccl(&topo, nccl)) return EXIT_USAGE;
    if (!machine && !nccl && !topo_discover(&topo)) return 1;
    if (json)
        topo_print_json(&topo);
    else
        topo_print_table(&topo);
    return svg && topo_draw(&topo, svg) != VP_OK ? EXIT_USAGE : 0;
}
