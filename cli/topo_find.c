/* The real machine: cards from the driver, links and PCIe from NVML, NUMA nodes from hwloc. Rates
 * follow from the parts, by the link model; `vrampool bench` measures them. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#ifdef HAVE_HWLOC
#include <hwloc.h>
#endif

#include "base/log.h"
#include "base/units.h"
#include "cli.h"
#include "machine/host.h"
#include "topo.h"

enum { P2P_NATIVE_ATOMICS = 3 }; /* for cuDeviceGetP2PAttribute */

int topo_numa_node(const char *bus_id)
{
    int node = TOPO_UNKNOWN;
#ifdef HAVE_HWLOC
    hwloc_topology_t topology;
    if (hwloc_topology_init(&topology) != 0) return node;
    hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL);
    if (hwloc_topology_load(topology) == 0) {
        hwloc_obj_t device = hwloc_get_pcidev_by_busidstring(topology, bus_id);
        hwloc_obj_t near = device ? hwloc_get_non_io_ancestor_obj(topology, device) : NULL;
        if (near && near->nodeset) node = hwloc_bitmap_first(near->nodeset);
    }
    hwloc_topology_destroy(topology);
#else
    (void)bus_id;
#endif
    return node;
}

/* What PCIe carries each way with 16 lanes, as measured (generations 3 to 5), in GB/s. */
static double pcie_gbps(const struct topo_card *card)
{
    static const double of_16[] = {26, 3, 6, 12.3, 26, 55.3, 110};
    int generation = card->pcie_generation, width = card->pcie_width;
    if (generation < 0 || generation > 6) generation = 0;
    if (width <= 0 || width > 16) width = 16;
    return of_16[generation] * width / 16;
}

void topo_set_paths(struct topo *topo)
{
    struct machine *machine = &topo->machine;
    for (unsigned card = 0; card < machine->cards; card++) {
        double gbps = pcie_gbps(&topo->card[card]);
        machine->path[card][machine->cards] = machine->path[machine->cards][card] =
            (struct machine_path){.gbps = gbps,
                                  .both_gbps = 0.9 * gbps,
                                  .latency_ns = 1130,
                                  .start_ns = 2400,
                                  .access = true};
    }
    machine->relays.factor = 1;
    machine->end_latency_ns = 400;
    machine->through_host = (struct machine_through_host){.latency_ns = 2300, .factor = 0.7};
    machine_fill_own_paths(machine);
    route_fill_paths(machine);
    for (unsigned a = 0; a < machine->cards; a++) {
        for (unsigned b = 0; b < machine->cards; b++) {
            const struct topo_pair *pair = &topo->pair[a][b];
            if (a == b) continue;
            machine->path[a][b].access = pair->read == 1 && pair->write == 1;
            machine->path[a][b].atomics = machine->path[a][b].access && pair->atomics == 1;
        }
    }
}

static void ask_pairs(const struct driver *driver, struct topo *topo)
{
    CUresult (*ask)(int *, int, CUdevice, CUdevice);
    *(void **)&ask = dlsym(driver->library, "cuDeviceGetP2PAttribute");
    for (unsigned a = 0; a < topo->machine.cards; a++) {
        for (unsigned b = 0; b < topo->machine.cards; b++) {
            struct topo_pair *pair = &topo->pair[a][b];
            int can;
            *pair = (struct topo_pair){TOPO_UNKNOWN, TOPO_UNKNOWN, TOPO_UNKNOWN, TOPO_UNKNOWN};
            if (a == b) continue;
            if (driver->cuDeviceCanAccessPeer(&can, (CUdevice)a, (CUdevice)b) == CUDA_SUCCESS)
                pair->read = pair->write = can;
            if (ask && ask(&can, P2P_NATIVE_ATOMICS, (CUdevice)a, (CUdevice)b) == CUDA_SUCCESS)
                pair->atomics = can;
        }
    }
}

static void ask_cards(const struct driver *driver, struct topo *topo)
{
    CUresult (*bus_id_of)(char *, int, CUdevice);
    *(void **)&bus_id_of = dlsym(driver->library, "cuDeviceGetPCIBusId");
    for (unsigned i = 0; i < topo->machine.cards; i++) {
        struct topo_card *card = &topo->card[i];
        size_t bytes = 0;
        *card = (struct topo_card){"", TOPO_UNKNOWN, TOPO_UNKNOWN, TOPO_UNKNOWN, TOPO_UNKNOWN};
        if (driver->cuDeviceTotalMem_v2(&bytes, (CUdevice)i) != CUDA_SUCCESS) bytes = 0;
        topo->machine.hbm_bytes[i] = bytes;
        topo->machine.hbm_gbps[i] = 1000; /* unknown: bench measures it */
        if (!bus_id_of || bus_id_of(card->bus_id, TOPO_BUS_ID, (CUdevice)i) != CUDA_SUCCESS)
            continue;
        for (char *c = card->bus_id; *c; c++)
            if (*c >= 'A' && *c <= 'F') *c = (char)(*c - 'A' + 'a');
        card->numa_node = topo_numa_node(card->bus_id);
    }
}

bool topo_discover(struct topo *topo)
{
    static struct driver driver;
    struct host_memory memory;
    char path[4096];
    int count = 0;
    if (driver_find(NULL, path, sizeof path) != VP_OK || driver_load(&driver, path) != VP_OK)
        return false;
    CUresult result = driver.cuInit(0);
    if (result == CUDA_SUCCESS) result = driver.cuDeviceGetCount(&count);
    if (result != CUDA_SUCCESS || count == 0) {
        cli_fail(1, "topo: no card can be used (%s); without one try --emulate double-cube-8x24",
                 driver_error_name(&driver, result));
        return false;
    }
    strcpy(topo->machine.name, "this-machine");
    topo->machine.cards = count < VP_MAX_CARDS ? (unsigned)count : VP_MAX_CARDS;
    if (host_memory_read("", &memory) == VP_OK) topo->machine.host_bytes = memory.total_bytes;
    ask_cards(&driver, topo);
    ask_pairs(&driver, topo);
    topo->nvml = topo_ask_nvml(topo);
    topo_set_paths(topo);
    return true;
}
