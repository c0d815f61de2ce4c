/* A stand-in for NVML: two cards, 0000:01:00.0 and 0000:02:00.0, joined by four NVLinks of the
 * third version, of which one is down; the fifth link is not there. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { CARDS = 2, LINKS = 4, DOWN = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6 };

struct pci {
    char legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};

static int cards[CARDS]; /* their addresses are the handles */

#define STANDIN(name, ...)                                                                         \
    int name(__VA_ARGS__);                                                                         \
    int name(__VA_ARGS__)

static unsigned number_of(const int *device)
{
    return (unsigned)(device - cards);
}

static void bus_id_of(unsigned card, char *text, size_t bytes)
{
    snprintf(text, bytes, "00000000:%02X:00.0", card + 1);
}

STANDIN(nvmlInit_v2, void)
{
    return 0;
}

STANDIN(nvmlShutdown, void)
{
    return 0;
}

STANDIN(nvmlDeviceGetHandleByPciBusId_v2, const char *bus_id, int **device)
{
    for (unsigned card = 0; card < CARDS; card++) {
        char own[32];
        bus_id_of(card, own, sizeof own);
        *device = &cards[card];
        if (strcasecmp(bus_id, own + 4) == 0) return 0;
    }
    return NOT_FOUND;
}

STANDIN(nvmlDeviceGetTemperature, const int *device, int sensor, unsigned *celsius)
{
    *celsius = 40 + number_of(device);
    return sensor == 0 ? 0 : NOT_SUPPORTED;
}

STANDIN(nvmlDeviceGetCurrPcieLinkGeneration, const int *device, unsigned *generation)
{
    *generation = 4;
    return 0;
}

STANDIN(nvmlDeviceGetCurrPcieLinkWidth, const int *device, unsigned *width)
{
    *width = number_of(device) == 0 ? 16 : 8;
    return 0;
}

STANDIN(nvmlDeviceGetNvLinkState, const int *device, unsigned link, unsigned *active)
{
    *active = link != DOWN;
    return link < LINKS ? 0 : NOT_SUPPORTED;
}

STANDIN(nvmlDeviceGetNvLinkVersion, const int *device, unsigned link, unsigned *version)
{
    *version = 3;
    return 0;
}

STANDIN(nvmlDeviceGetNvLinkRemotePciInfo_v2, const int *device, unsigned link, struct pci *pci)
{
    memset(pci, 0, sizeof *pci);
    bus_id_of(1 - number_of(device), pci->bus_id, sizeof pci->bus_id);
    return 0;
}

STANDIN(nvmlDeviceGetP2PStatus, const int *a, const int *b, int index, int *status)
{
    *status = 0;
    return 0;
}

STANDIN(nvmlDeviceGetTopologyCommonAncestor, const int *a, const int *b, int *level)
{
    *level = 40;
    return 0;
}
