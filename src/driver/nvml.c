#include "driver/nvml.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static void *find_library(const struct driver *driver)
{
    const char *named = getenv("VRAMPOOL_NVML");
    if (named) return dlopen(named, RTLD_NOW | RTLD_LOCAL);
    if (driver && driver->library && dlsym(driver->library, "nvmlInit_v2"))
        return dlopen(driver->path, RTLD_NOW | RTLD_LOCAL);
    return dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
}

bool nvml_open(struct nvml *nvml, const struct driver *driver)
{
    memset(nvml, 0, sizeof *nvml);
    nvml->library = find_library(driver);
    if (!nvml->library) return false;
#define NVML_LOAD(symbol, arguments) nvml->symbol = (int(*) arguments)dlsym(nvml->library, #symbol);
    NVML_CALLS(NVML_LOAD)
#undef NVML_LOAD
    if (NVML_ASK(nvml, nvmlInit_v2)) return true;
    dlclose(nvml->library);
    memset(nvml, 0, sizeof *nvml);
    return false;
}

void nvml_close(struct nvml *nvml)
{
    if (!nvml->library) return;
    (void)NVML_ASK(nvml, nvmlShutdown);
    dlclose(nvml->library);
    memset(nvml, 0, sizeof *nvml);
}

bool nvml_is_same_device(const char *a, const char *b)
{
    size_t a_length = strlen(a), b_length = strlen(b), tail = strlen("0000:00:00.0");
    return a_length >= tail && b_length >= tail &&
           strcasecmp(a + a_length - tail, b + b_length - tail) == 0;
}

int nvml_far_end(const struct nvml *nvml, nvml_device device, unsigned link,
                 const char *const *bus_ids, unsigned count)
{
    struct nvml_pci pci = {.bus_id = ""};
    int type = 0;
    if (NVML_ASK(nvml, nvmlDeviceGetNvLinkRemoteDeviceType, device, link, &type) &&
        type == NVML_REMOTE_SWITCH)
        return (int)count;
    if (!NVML_ASK(nvml, nvmlDeviceGetNvLinkRemotePciInfo_v2, device, link, &pci)) return -1;
    for (unsigned card = 0; card < count; card++)
        if (nvml_is_same_device(pci.bus_id, bus_ids[card])) return (int)card;
    return -1;
}
