/* What `vrampool topo` finds out, and how it shows it. */
#ifndef CLI_TOPO_H
#define CLI_TOPO_H

#include <stdbool.h>

#include "driver/driver.h"
#include "machine/machine.h"
#include "machine/route.h"

enum { TOPO_UNKNOWN = -1, TOPO_BUS_ID = 32 };

struct topo_card {
    char bus_id[TOPO_BUS_ID];                                  /* 0000:1b:00.0; empty: emulated */
    int temperature_c, pcie_generation, pcie_width, numa_node; /* TOPO_UNKNOWN */
};

/* How the PCIe topology joins two cards, as NVML tells it. */
struct topo_pair {
    int ancestor;             /* TOPO_UNKNOWN, or NVML's level */
    int read, write, atomics; /* allowed: 1, not: 0, TOPO_UNKNOWN */
};

struct topo {
    struct machine machine; /* of a real machine: rates follow from the parts, not measured */
    bool emulated, nvml;
    struct topo_card card[VP_MAX_CARDS];
    struct topo_pair pair[VP_MAX_CARDS][VP_MAX_CARDS];
};

/* Asks the driver, NVML and hwloc. False, and why is on stderr: there is no driver or no card. */
bool topo_discover(struct topo *topo) VP_MUST_USE;

/* Fills in links, temperatures and the like from NVML, for cards whose bus_id is known. False: it
 * is not there. */
bool topo_ask_nvml(struct topo *topo);

/* Reads NCCL's topology file instead. False, and why is on stderr: it cannot be. */
bool topo_read_nccl(struct topo *topo, const char *path) VP_MUST_USE;

/* The link between two nodes, made without lanes if there is none; by NVLink's version. */
struct machine_link *topo_link_to(struct machine *machine, unsigned card, unsigned other,
                                  unsigned version);

/* Derives paths once cards and links are known. */
void topo_set_paths(struct topo *topo);

/* The NUMA node next to a PCI device, or TOPO_UNKNOWN. */
int topo_numa_node(const char *bus_id);

/* How data goes between two places, in nvidia-smi's words: X, NV3, NVB, PIX, PHB, SYS…; NV's number
 * is that of lanes in use. */
const char *topo_path_name(const struct topo *topo, unsigned from, unsigned to, char name[16]);

const char *topo_node_name(const struct topo *topo, unsigned node, char name[16]);

const char *topo_link_state(const struct machine_link *link); /* up, degraded, down */

void topo_print_table(const struct topo *topo);

/* Prints JSON; docs/topology.md has the fields. */
void topo_print_json(const struct topo *topo);

/* Draws cards and links. VP_IO: the file cannot be written (logged). */
vp_status topo_draw(const struct topo *topo, const char *path) VP_MUST_USE;

#endif
