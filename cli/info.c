/* `vrampool info`: asks the driver and the host what is there, and says what a pool can use and
 * what not. */
#include "info.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/log.h"
#include "base/units.h"
#include "cli.h"
#include "driver/driver.h"
#include "install.h"
#include "machine_file.h"
#include "option.h"
#include "program.h"

__attribute__((format(printf, 3, 4))) static void add_problem(struct info *info, const char *remedy,
                                                              const char *what, ...)
{
    if (info->problems == INFO_MAX_PROBLEMS) return;
    struct info_problem *problem = &info->problem[info->problems++];
    va_list args;
    va_start(args, what);
    vsnprintf(problem->what, sizeof problem->what, what, args);
    va_end(args);
    snprintf(problem->remedy, sizeof problem->remedy, "%s", remedy);
}

static bool attribute(const struct driver *driver, CUdevice device, int which, int *value)
{
    *value = 0;
    return driver->cuDeviceGetAttribute(value, which, device) == CUDA_SUCCESS;
}

static bool has_native_atomics(const struct driver *driver, CUdevice device, CUdevice peer)
{
    int native = 0;
    return driver->cuDeviceGetP2PAttribute &&
           driver->cuDeviceGetP2PAttribute(&native, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED,
                                           device, peer) == CUDA_SUCCESS &&
           native;
}

static void ask_peers(const struct driver *driver, struct info *info)
{
    for (unsigned from = 0; from < info->cards; from++) {
        for (unsigned to = 0; to < info->cards; to++) {
            CUdevice device, peer;
            int can = 0;
            if (from == to || driver->cuDeviceGet(&device, (int)from) != CUDA_SUCCESS) continue;
            if (driver->cuDeviceGet(&peer, (int)to) != CUDA_SUCCESS) continue;
            if (driver->cuDeviceCanAccessPeer(&can, device, peer) != CUDA_SUCCESS || !can) continue;
            info->card[from].peers |= UINT32_C(1) << to;
            if (has_native_atomics(driver, device, peer))
                info->card[from].in_place |= UINT32_C(1) << to;
        }
    }
}

/* Tries to make one granule of host memory for a card: the only sure answer. In a container the
 * NUMA form needs SYS_NICE; the plain one is second best. Needs a current context. */
static CUresult try_host_frame(const struct driver *driver, int numa)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
    CUmemGenericAllocationHandle handle;
    size_t bytes = 0;
    prop.location.type = numa < 0 ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_HOST_NUMA;
    prop.location.id = numa < 0 ? 0 : numa;
    CUresult result =
        driver->cuMemGetAllocationGranularity(&bytes, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    if (result == CUDA_SUCCESS) result = driver->cuMemCreate(&handle, bytes, &prop, 0);
    if (result == CUDA_SUCCESS) result = driver->cuMemRelease(handle);
    return result;
}

static void probe_host(const struct driver *driver, struct info *info, CUdevice device)
{
    int numa;
    if (!attribute(driver, device, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, &numa) || numa < 0) numa = 0;
    CUresult result = try_host_frame(driver, numa);
    if (result != CUDA_SUCCESS) result = try_host_frame(driver, -1);
    info->host_usable = result == CUDA_SUCCESS;
    if (!info->host_usable)
        add_problem(
            info, "in a container start it with --cap-add SYS_NICE; otherwise raise `ulimit -l`",
            "host memory cannot be made for the cards (%s)", driver_error_name(driver, result));
}

/* What needs a context: free memory, and on the first card whether host memory works. */
static void ask_in_context(const struct driver *driver, struct info *info, CUdevice device,
                           unsigned number)
{
    CUcontext context;
    size_t free_bytes, total_bytes;
    CUresult result = driver->cuDevicePrimaryCtxRetain(&context, device);
    if (result != CUDA_SUCCESS) {
        info->card[number].usable = false;
        add_problem(
            info, "see who uses it with nvidia-smi; its memory may be full, or it is set exclusive",
            "card%u: no context can be made on it (%s)", number, driver_error_name(driver, result));
        return;
    }
    if (driver->cuCtxSetCurrent(context) == CUDA_SUCCESS) {
        if (driver->cuMemGetInfo_v2(&free_bytes, &total_bytes) == CUDA_SUCCESS)
            info->card[number].free_bytes = free_bytes;
        if (!info->host_usable && number == 0) probe_host(driver, info, device);
        driver->cuCtxSetCurrent(NULL);
    }
    driver->cuDevicePrimaryCtxRelease_v2(device);
}

static void ask_card(const struct driver *driver, struct info *info, unsigned number)
{
    struct info_card *card = &info->card[number];
    CUdevice device;
    size_t total_bytes = 0;
    int value;
    if (driver->cuDeviceGet(&device, (int)number) != CUDA_SUCCESS) return;
    driver->cuDeviceGetName(card->model, sizeof card->model, device);
    card->model[sizeof card->model - 1] = '\0';
    driver->cuDeviceTotalMem_v2(&total_bytes, device);
    card->total_bytes = total_bytes;
    attribute(driver, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &card->compute_major);
    attribute(driver, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &card->compute_minor);
    attribute(driver, device, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, &value);
    card->vmm = value != 0;
    attribute(driver, device, CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
              &value);
    card->host_numa_vmm = value != 0;
    card->usable = card->vmm && info->driver_version >= INFO_NEEDED_VERSION;
    if (!card->vmm)
        add_problem(info, "a virtual GPU needs this turned on by its host; old cards cannot do it",
                    "card%u: its memory cannot be mapped piece by piece (no VMM)", number);
    ask_in_context(driver, info, device, number);
}

static void ask_cards(const struct driver *driver, struct info *info)
{
    int count = 0;
    CUresult result = driver->cuInit(0);
    if (result == CUDA_SUCCESS) result = driver->cuDeviceGetCount(&count);
    if (result != CUDA_SUCCESS) {
        add_problem(info, "nvidia-smi should list a card; in a container start it with --gpus all",
                    "the driver does not start (%s)", driver_error_name(driver, result));
        return;
    }
    driver->cuDriverGetVersion(&info->driver_version);
    info->driver_works = info->driver_version >= INFO_NEEDED_VERSION;
    if (!info->driver_works)
        add_problem(
            info, "install driver 550 or newer",
            "the driver is for CUDA %d.%d; the pool needs 12.4, for the calls that describe "
            "kernel parameters",
            info->driver_version / 1000, info->driver_version % 1000 / 10);
    if (count > VP_MAX_CARDS)
        add_problem(info, "choose some with CUDA_VISIBLE_DEVICES",
                    "%d cards are there; a pool joins at most %d", count, VP_MAX_CARDS);
    info->cards = count < VP_MAX_CARDS ? (unsigned)count : VP_MAX_CARDS;
    for (unsigned card = 0; card < info->cards; card++) ask_card(driver, info, card);
    ask_peers(driver, info);
}

/* Loads the driver at path; the library stays loaded, as drivers do not like to leave. */
static void ask_driver(struct info *info, const char *path)
{
    static struct driver driver;
    snprintf(info->driver_path, sizeof info->driver_path, "%s", path);
    if (driver_load(&driver, path) == VP_OK)
        ask_cards(&driver, info);
    else
        add_problem(info, "install driver 550 or newer", "%.200s cannot be used", path);
}

static void ask_real_machine(struct info *info)
{
    char path[sizeof info->driver_path];
    enum log_level level = log_get_level();
    if (level <= LOG_WARN) log_set_level(LOG_QUIET); /* no driver is an answer here, no error */
    vp_status status = driver_find(NULL, path, sizeof path);
    log_set_level(level);
    if (status == VP_OK)
        ask_driver(info, path);
    else if (env_get(ENV_DRIVER))
        add_problem(info, "unset VRAMPOOL_DRIVER, or let it name a library that is there",
                    "no driver was found: VRAMPOOL_DRIVER names %s", env_get(ENV_DRIVER));
    else
        add_problem(
            info,
            "install NVIDIA's driver, or name the library with VRAMPOOL_DRIVER; without a card "
            "try --emulate 8x24M",
            "no driver was found: libcuda.so.1 is nowhere where the loader looks");
    if (host_memory_read("", &info->host) == VP_OK)
        info->host_poolable_bytes = host_memory_default(&info->host);
}

static vp_status ask_emulated_machine(struct info *info, struct machine *machine)
{
    static struct install install;
    vp_status status = install_find(&install);
    if (status != VP_OK) return status;
    uint64_t host_bytes = program_emulate(machine, PROGRAM_DEFAULT_HOST, install.emulator);
    strcpy(info->emulated, machine->name);
    info->host = (struct host_memory){
        .total_bytes = machine->host_bytes,
        .available_bytes = machine->host_bytes,
        .limit_bytes = HOST_NO_LIMIT,
        .limit_left_bytes = HOST_NO_LIMIT,
    };
    info->host_poolable_bytes = host_bytes;
    ask_driver(info, install.emulator);
    return VP_OK;
}

static const struct option_spec specs[] = {
    {"json", OPTION_FLAG, NULL, "print JSON"},
    {"emulate", OPTION_VALUE, "MACHINE",
     "look at an emulated machine: NxSIZE (8x24M), a name such as\ndouble-cube-8x24@24M, or a "
     "machine file (.json)"},
    {"help", OPTION_FLAG, NULL, "this text"},
};
enum { INFO_JSON, INFO_EMULATE, INFO_HELP, SPECS };

static int print_help(void)
{
    puts("Usage: vrampool info [OPTION…]\n\n"
         "Shows the driver, the cards, the host's memory and its limits; what of it a pool can "
         "use;\n"
         "and what is missing, why, and what would help. The exit status is 0 also when that is "
         "all.\n");
    option_print(specs, SPECS);
    puts("\nExamples:\n"
         "  vrampool info\n"
         "  vrampool info --json | jq .places\n"
         "  vrampool info --emulate double-cube-8x24@24M");
    return 0;
}

int cli_info(int argc, char **argv)
{
    static struct info info;
    struct option_reader reader = {"info", specs, SPECS, argc, argv, 1};
    struct machine machine;
    bool json = false, emulated = false;
    const char *value;
    int index;
    while ((index = option_next(&reader, &value)) != OPTION_END) {
        if (index == OPTION_WRONG) return EXIT_USAGE;
        if (index == INFO_HELP) return print_help();
        if (index == INFO_JSON) json = true;
        if (index != INFO_EMULATE) continue;
        if (machine_find(value, &machine) != VP_OK) return EXIT_USAGE;
        emulated = true;
    }
    if (reader.next < argc)
        return cli_fail(EXIT_USAGE, "info: `%s` is no option, and info runs no program",
                        argv[reader.next]);
    if (!emulated)
        ask_real_machine(&info);
    else if (ask_emulated_machine(&info, &machine) != VP_OK)
        return EXIT_CANNOT_RUN;
    if (json)
        info_print_json(&info);
    else
        info_print_table(&info);
    return 0;
}
