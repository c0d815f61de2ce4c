/* What NVML tells of the machine: links, PCIe, temperatures, who may use whose memory. */
#include "driver/nvml.h"
#include "topo.h"

static struct nvml nvml;

#define ASK(symbol, ...) NVML_ASK(&nvml, symbol, __VA_ARGS__)

/* A link's rate each way by NVLink's version, in GB/s, and what is measured of it. */
static const struct {
    double lane_gbps, factor;
} generations[] = {{20, 0.97},  {20, 0.97},     {25.8, 0.99},
                   {25, 0.965}, {26.56, 0.843}, {53.12, 0.843}};
enum { GENERATIONS = sizeof generations / sizeof *generations, LINK_LATENCY_NS = 250 };

/* The node at a link's far end, or -1. */
static int far_end(const struct topo *topo, nvml_device device, unsigned link)
{
    const char *bus_ids[VP_MAX_CARDS];
    unsigned cards = topo->machine.cards;
    for (unsigned card = 0; card < cards; card++) bus_ids[card] = topo->card[card].bus_id;
    int end = nvml_far_end(&nvml, device, link, bus_ids, cards);
    return end == (int)cards ? MACHINE_SWITCH : end;
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
        if (ASK(nvmlDeviceGetNvLinkCapability, device, i, NVML_CAPABILITY_P2P, &p2p) && !p2p)
            continue;
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
    if (ASK(nvmlDeviceGetP2PStatus, a, b, NVML_P2P_READ, &value)) pair->read = value == 0;
    if (ASK(nvmlDeviceGetP2PStatus, a, b, NVML_P2P_WRITE, &value)) pair->write = value == 0;
    if (ASK(nvmlDeviceGetTopologyCommonAncestor, a, b, &value)) pair->ancestor = value;
}

bool topo_ask_nvml(struct topo *topo)
{
    nvml_device device[VP_MAX_CARDS] = {NULL};
    if (!nvml_open(&nvml, NULL)) return false;
    for (unsigned card = 0; card < topo->machine.cards; card++) {
        if (!ASK(nvmlDeviceGetHandleByPciBusId_v2, topo->card[card].bus_id, &device[card]))
            continue;
        ask_card(&topo->card[card], device[card]);
        ask_links(topo, card, device[card]);
    }
    for (unsigned a = 0; a < topo->machine.cards; a++)
        for (unsigned b = 0; b < topo->machine.cards; b++)
            if (a != b && device[a] && device[b]) ask_pair(&topo->pair[a][b], device[a], device[b]);
    nvml_close(&nvml);
    return true;
}
