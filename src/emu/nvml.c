/* What of NVML the emulated driver answers: the state of links and cards. A lane of the machine's
 * is a link of NVML's; of each link the last lanes are those that are dead. */
#include "driver/nvml.h"

#include <stdio.h>
#include <string.h>

#include "emu/internal.h"

enum { SUCCESS = 0, INVALID = 2, NOT_FOUND = 6, RETURN_UNSUPPORTED = 3 };

/* clang-format off */
#define DECLARE(symbol, arguments) int symbol arguments;
NVML_CALLS(DECLARE)
/* clang-format on */

static nvml_device handle_of(unsigned card)
{
    return (nvml_device)(uintptr_t)(card + 1);
}

static bool find_card(nvml_device device, unsigned *card)
{
    *card = (unsigned)(uintptr_t)device - 1;
    return *card < emu.machine.cards;
}

/* The machine's link that a card's lane belongs to, and which lane of it; NULL: it has not so many.
 */
static const struct machine_link *find_link(unsigned card, unsigned lane, unsigned *of_link)
{
    for (unsigned i = 0; i < emu.machine.links; i++) {
        const struct machine_link *link = &emu.machine.link[i];
        bool ends = link->ends[0] == card || link->ends[1] == card;
        if (!ends || link->kind != MACHINE_LINK_NVLINK) continue;
        *of_link = lane;
        if (lane < link->lanes) return link;
        lane -= link->lanes;
    }
    return NULL;
}

static const struct machine_link *link_of(nvml_device device, unsigned lane, unsigned *of_link)
{
    unsigned card;
    return find_card(device, &card) ? find_link(card, lane, of_link) : NULL;
}

static unsigned far_end(const struct machine_link *link, nvml_device device)
{
    unsigned card = (unsigned)(uintptr_t)device - 1;
    return link->ends[link->ends[0] == card];
}

int nvmlInit_v2(void)
{
    return SUCCESS;
}

int nvmlShutdown(void)
{
    return SUCCESS;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvml_device *device)
{
    lock_take();
    int result = NOT_FOUND;
    for (unsigned card = 0; card < emu.machine.cards && result != SUCCESS; card++) {
        char own[32];
        snprintf(own, sizeof own, "0000:%02x:00.0", card + 1);
        if (!nvml_is_same_device(bus_id, own)) continue;
        *device = handle_of(card);
        result = SUCCESS;
    }
    lock_drop();
    return result;
}

int nvmlDeviceGetNvLinkState(nvml_device device, unsigned lane, unsigned *active)
{
    lock_take();
    unsigned of_link = 0;
    const struct machine_link *link = link_of(device, lane, &of_link);
    if (link) *active = !link->dead && of_link < (unsigned)link->lanes - link->dead_lanes;
    lock_drop();
    return link ? SUCCESS : INVALID;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(nvml_device device, unsigned lane, int *type)
{
    lock_take();
    unsigned of_link;
    const struct machine_link *link = link_of(device, lane, &of_link);
    if (link) *type = far_end(link, device) == MACHINE_SWITCH ? NVML_REMOTE_SWITCH : 0;
    lock_drop();
    return link ? SUCCESS : INVALID;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(nvml_device device, unsigned lane, struct nvml_pci *pci)
{
    lock_take();
    unsigned of_link;
    const struct machine_link *link = link_of(device, lane, &of_link);
    bool known = link && far_end(link, device) != MACHINE_SWITCH;
    if (known)
        snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", far_end(link, device) + 1);
    lock_drop();
    return known ? SUCCESS : INVALID;
}

int nvmlDeviceGetFieldValues(nvml_device device, int count, struct nvml_field *fields)
{
    unsigned card;
    lock_take();
    bool found = find_card(device, &card);
    for (int i = 0; i < count && found; i++) {
        bool known = fields[i].field == NVML_FIELD_RECOVERY_ACTION;
        fields[i].result = known ? SUCCESS : RETURN_UNSUPPORTED;
        if (!known) continue;
        fields[i].value.number = emu.card_lost[card]             ? NVML_RECOVERY_RESET
                                 : emu.machine.relays.dead[card] ? NVML_RECOVERY_DRAIN_P2P
                                                                 : NVML_RECOVERY_NONE;
    }
    lock_drop();
    return found ? SUCCESS : INVALID;
}
