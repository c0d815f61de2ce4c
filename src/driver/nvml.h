/* nvml: NVIDIA's management library as a table of function pointers, loaded at run time: links,
 * PCIe, temperatures, who may use whose memory.
 *
 * It is $VRAMPOOL_NVML where that names one (tests use a stand-in); else the driver library where
 * that has the calls itself (the emulator's does); else libnvidia-ml.so.1. Every call may be
 * missing or fail: then what it would have told stays unknown. */
#ifndef DRIVER_NVML_H
#define DRIVER_NVML_H

#include <stdbool.h>
#include <stdint.h>

#include "driver/driver.h"

typedef struct nvml_device *nvml_device;

struct nvml_pci {
    char legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};

struct nvml_field {
    unsigned field, scope;
    long long timestamp, latency_us;
    int value_type, result;
    union {
        unsigned number; /* of the types that are used here */
        double widest;
    } value;
};

/* X(symbol, arguments) */
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
    X(nvmlDeviceGetFieldValues, (nvml_device device, int count, struct nvml_field *fields)) \
    X(nvmlDeviceGetP2PStatus, (nvml_device a, nvml_device b, int index, int *status)) \
    X(nvmlDeviceGetTopologyCommonAncestor, (nvml_device a, nvml_device b, int *level))
/* clang-format on */

enum {
    NVML_MAX_LINKS = 18,
    NVML_CAPABILITY_P2P = 0,
    NVML_REMOTE_SWITCH = 2,
    NVML_P2P_READ = 0,
    NVML_P2P_WRITE = 1,
    NVML_FIELD_RECOVERY_ACTION = 230,
};

/* What NVML says that a card wants. */
enum nvml_recovery {
    NVML_RECOVERY_NONE,
    NVML_RECOVERY_RESET,
    NVML_RECOVERY_REBOOT,
    NVML_RECOVERY_DRAIN_P2P, /* its peer traffic is broken */
    NVML_RECOVERY_DRAIN_AND_RESET,
};

struct nvml {
#define NVML_FIELD(symbol, arguments) int(*symbol) arguments;
    NVML_CALLS(NVML_FIELD)
#undef NVML_FIELD
    void *library;
};

/* True where the call is there and succeeds. */
#define NVML_ASK(nvml, symbol, ...) ((nvml)->symbol && (nvml)->symbol(__VA_ARGS__) == 0)

/* Loads and initialises it; false: there is none. `driver` may be NULL. */
bool nvml_open(struct nvml *nvml, const struct driver *driver);
void nvml_close(struct nvml *nvml);

/* NVML writes a bus id's domain with eight digits, CUDA with four. */
bool nvml_is_same_device(const char *a, const char *b);

/* The first of the `count` bus ids that the link of NVML's leads to; `count`: a switch; -1: nobody
 * that is known. */
int nvml_far_end(const struct nvml *nvml, nvml_device device, unsigned link,
                 const char *const *bus_ids, unsigned count);

#endif
