/* NVML, loaded at run time: links, PCIe, temperatures, who may use whose memory.
 *
 * $VRAMPOOL_NVML names another library (tests use a stand-in). Every call may fail or be missing:
 * then what it would have told stays unknown. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/log.h"
#include "topo.h"

typedef struct nvml_device *nvml_device;

struct nvml_pci {
    char legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};

/* clang-format off */
#define NVML_CALLS(X) \
    X(nvmlInit_v2, (void)) \
    X(nvmlShutdown, (void)) \
    X(nvmlDeviceGetHandleByPciBusId_v2, (const char *bus_id, nvml_device *device)) \
    X(nvmlDeviceGetTemperature, (nvml_device device, int sensor, unsigned *celsius)) \
    X(nvmlDeviceGetCurrPcieLinkGeneration, (nvml_device device, unsigned *generation)) \
    X(nvmlDeviceGetCurrPcieLinkWidth, (nvml_device device, unsigned *width)) \
    X(nvmlDeviceGetNvLinkState, (nvml_device device, unsigned link, unsigned *active)) \
    X(nvmlDeviceGetNvLinkVersion, (nvml_device device, unsigned link, unsigned *version)) \
    X(nvmlDeviceGetNvLinkCapability, (nvml_device device, unsigned link, int which, unsigned *has)) \
    X(nvmlDeviceGetNvLinkRemoteDeviceType, (nvml_device device, unsigned link, int *type)) \
    X(nvmlDeviceGetNvLinkRemotePciInfo_v2, (nvml_device device, unsigned link, struct nvml_pci *pci)) \
    X(nvmlDeviceGetP2PStatus, (nvml_device a, nvml_device b, int index, int *status)) \
    X(nvmlDeviceGetTopologyCommonAncestor, (nvml_device a, nvml_device b, int *level))
/* clang-format on */

enum { NVML_MAX_LINKS = 18, CAPABILITY_P2P = 0, REMOTE_SWITCH = 2, P2P_READ = 0, P2P_WRITE = 1 };

static struct {
#define NVML_FIELD(symbol, arguments) int(*symbol) arguments;
    NVML_CALLS(NVML_FIELD)
#undef NVML_FIELD
} nvml;

#define ASK(symbol, ...) (nvml.symbol && nvml.symbol(__VA_ARGS__) == 0)

/* A link's rate each way by NVLink's version, in GB/s, and what is measured of it. */
static const struct {
    double lane_gbps, factor;
} generations[] = {{20, 0.97},  {20, 0.97},     {25.8, 0.99},
                   {25, 0.965}, {26.56, 0.843}, {53.12, 0.843}};
enum { GENERATIONS = sizeof generations / sizeof *generations, LINK_LATENCY_NS = 250 };

static bool load(void)
{
    const char *named = getenv("VRAMPOOL_NVML");
    void *library = dlopen(named ? named : "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) return false;
#define NVML_LOAD(symbol, arguments) *(void **)&nvml.symbol = dlsym(library, #symbol);
    NVML_CALLS(NVML_LOAD)
#undef NVML_LOAD
    return ASK(nvmlInit_v2);
}

/* NVML writes the domain with eight digits, CUDA with four. */
static bool same_device(const char *a, const char *b)
{
    size_t a_length = strlen(a), b_length = strlen(b), tail = strlen("0000:00:00.0");
    return a_length >= tail && b_length >= tail &&
           strcasecmp(a + a_length - tail, b + b_length - tail) == 0;
}

/* The node at a link's far end, or -1. */
static int far_end(const struct topo *topo, nvml_device device, unsigned link)
{
    struct nvml_pci pci = {.bus_id = ""};
    int type = 0;
    if (ASK(nvmlDeviceGetNvLinkRemoteDeviceType, device, link, &type) && type == REMOTE_SWITCH)
        return MACHINE_SWITCH;
    if (!ASK(nvmlDeviceGetNvLinkRemotePciInfo_v2, device, link, &pci)) return -1;
    for (unsigned card = 0; card < topo->machine.cards; card++)
        if (same_device(pci.bus_id, topo->card[card].bus_id)) return (int)card;
    return -1;
}

struct machine_link *topo_link_to(struct machine *machine, unsigned card, unsigned other,
                                  unsigned version)
{
    int known = route_link_between(machine, card, other);
    if (known >= 0) return &machine->link[known];
    if (version >= GENERATIONS) version = GENERATIONS - 1;
    struct machine_link *link = &machine->link[machine->links++];
    *link = (struct machine_link){.ends = {(uint8_t)card, (uint8_t)other},
                                  .latency_ns = LINK_LATENCY_NS,
                                  .payload_bytes = 256,
                                  .header_bytes = 16,
                                  .lane_gbps = generations[version].lane_gbps,
                                  .factor = generations[version].factor};
    return link;
}

/* A link of NVML's is a lane of ours. One between two cards is told by both: the lower one counts.
 */
static void ask_links(struct topo *topo, unsigned card, nvml_device device)
{
    for (unsigned i = 0; i < NVML_MAX_LINKS; i++) {
        unsigned active = 0, version = 0, p2p = 1;
        if (!ASK(nvmlDeviceGetNvLinkState, device, i, &active)) continue;
        int other = far_end(topo, device, i);
        if (other < 0 || (other != MACHINE_SWITCH && (unsigned)other <= card)) continue;
        if (ASK(nvmlDeviceGetNvLinkCapability, device, i, CAPABILITY_P2P, &p2p) && !p2p) continue;
        if (!ASK(nvmlDeviceGetNvLinkVersion, device, i, &version)) version = 4;
        struct machine_link *link = topo_link_to(&topo->machine, card, (unsigned)other, version);
        link->lanes++;
        link->dead_lanes = (uint8_t)(link->dead_lanes + !active);
    }
}

static void ask_card(struct topo_card *card, nvml_device device)
{
    unsigned value;
    if (ASK(nvmlDeviceGetTemperature, device, 0, &value)) card->temperature_c = (int)value;
    if (ASK(nvmlDeviceGetCurrPcieLinkGeneration, device, &value))
        card->pcie_generation = (int)value;
    if (ASK(nvmlDeviceGetCurrPcieLinkWidth, device, &value)) card->pcie_width = (int)value;
}

static void ask_pair(struct topo_pair *pair, nvml_device a, nvml_device b)
{
    int value;
    if (ASK(nvmlDeviceGetP2PStatus, a, b, P2P_READ, &value)) pair->read = value == 0;
    if (ASK(nvmlDeviceGetP2PStatus, a, b, P2P_WRITE, &value)) pair->write = value == 0;
    if (ASK(nvmlDeviceGetTopologyCommonAncestor, a, b, &value)) pair->ancestor = value;
}

bool topo_ask_nvml(struct topo *topo)
{
    nvml_device device[VP_MAX_CARDS] = {NULL};
    if (!load()) return false;
    for (unsigned card = 0; card < topo->machine.cards; card++) {
        if (!ASK(nvmlDeviceGetHandleByPciBusId_v2, topo->card[card].bus_id, &device[card]))
            continue;
        ask_card(&topo->card[card], device[card]);
        ask_links(topo, card, device[card]);
    }
    for (unsigned a = 0; a < topo->machine.cards; a++)
        for (unsigned b = 0; b < topo->machine.cards; b++)
            if (a != b && device[a] && device[b]) ask_pair(&topo->pair[a][b], device[a], device[b]);
    (void)ASK(nvmlShutdown);
    return true;
}
