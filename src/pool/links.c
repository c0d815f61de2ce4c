#include "pool/links.h"

#include <stdio.h>
#include <string.h>

enum { BUS_ID = 16 };

struct look {
    struct nvml nvml;
    unsigned cards;
    char bus_id[VP_MAX_CARDS][BUS_ID];
    const char *bus_ids[VP_MAX_CARDS];
    nvml_device device[VP_MAX_CARDS];
};

static bool find_devices(const struct driver *driver, struct look *look)
{
    for (unsigned card = 0; card < look->cards; card++) {
        look->bus_ids[card] = look->bus_id[card];
        look->device[card] = NULL;
        CUresult known = driver->cuDeviceGetPCIBusId(look->bus_id[card], BUS_ID, (CUdevice)card);
        if (known != CUDA_SUCCESS) return false;
        if (!NVML_ASK(&look->nvml, nvmlDeviceGetHandleByPciBusId_v2, look->bus_id[card],
                      &look->device[card]))
            look->device[card] = NULL;
    }
    return true;
}

/* Both ends tell of a link between two cards: the lower one counts. */
static void look_at_links(const struct look *look, unsigned card, struct links *links)
{
    unsigned lanes[LINKS_SWITCH + 1] = {0}, up[LINKS_SWITCH + 1] = {0};
    for (unsigned i = 0; i < NVML_MAX_LINKS; i++) {
        unsigned active = 0;
        if (!NVML_ASK(&look->nvml, nvmlDeviceGetNvLinkState, look->device[card], i, &active))
            continue;
        int end = nvml_far_end(&look->nvml, look->device[card], i, look->bus_ids, look->cards);
        if (end < 0) continue;
        unsigned other = (unsigned)end == look->cards ? LINKS_SWITCH : (unsigned)end;
        lanes[other]++;
        up[other] += active != 0;
    }
    for (unsigned other = card + 1; other <= LINKS_SWITCH; other++) {
        if (up[other] == lanes[other] || links->faults == LINKS_MOST) continue;
        links->fault[links->faults++] = (struct link_fault){card, other, lanes[other], up[other]};
    }
}

static void look_at_card(const struct look *look, unsigned card, struct links *links)
{
    struct nvml_field field = {.field = NVML_FIELD_RECOVERY_ACTION};
    bool known = NVML_ASK(&look->nvml, nvmlDeviceGetFieldValues, look->device[card], 1, &field) &&
                 field.result == 0;
    if (!known || field.value.number == NVML_RECOVERY_NONE) return;
    links->card[links->cards++] = (struct card_fault){card, (enum nvml_recovery)field.value.number};
}

void links_look(const struct driver *driver, unsigned cards, struct links *links)
{
    struct look look = {.cards = cards};
    memset(links, 0, sizeof *links);
    if (!driver->cuDeviceGetPCIBusId || !nvml_open(&look.nvml, driver)) return;
    bool found = find_devices(driver, &look);
    for (unsigned card = 0; card < cards && found; card++) {
        if (!look.device[card]) continue;
        look_at_links(&look, card, links);
        look_at_card(&look, card, links);
    }
    nvml_close(&look.nvml);
}

const char *links_action(enum nvml_recovery action)
{
    switch (action) {
    case NVML_RECOVERY_NONE: return "none";
    case NVML_RECOVERY_RESET: return "reset";
    case NVML_RECOVERY_REBOOT: return "reboot";
    case NVML_RECOVERY_DRAIN_P2P: return "drain_p2p";
    case NVML_RECOVERY_DRAIN_AND_RESET: return "drain_and_reset";
    }
    return "unknown";
}

static const char *words_of(enum nvml_recovery action)
{
    switch (action) {
    case NVML_RECOVERY_DRAIN_P2P: return "passes on nothing to other cards any more";
    case NVML_RECOVERY_REBOOT: return "needs a reboot of the machine";
    default: return "needs a reset";
    }
}

const char *links_text(const struct links *links, unsigned index, char *text, size_t size)
{
    if (index >= links->faults) {
        index -= links->faults;
        if (index >= links->cards) return NULL;
        const struct card_fault *card = &links->card[index];
        snprintf(text, size, "card%u %s", card->card, words_of(card->action));
        return text;
    }
    const struct link_fault *fault = &links->fault[index];
    char other[16] = "the switch";
    if (fault->b != LINKS_SWITCH) snprintf(other, sizeof other, "card%u", fault->b);
    if (fault->lanes_up)
        snprintf(text, size, "the link between card%u and %s has %u of %u lanes", fault->a, other,
                 fault->lanes_up, fault->lanes);
    else
        snprintf(text, size, "the link between card%u and %s is lost", fault->a, other);
    return text;
}
