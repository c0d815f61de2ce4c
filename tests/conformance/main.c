/* conformance: runs the cases of suite.h and prints `ok NAME`, `FAIL NAME why` or `skip NAME why`
 * for each, at the end `N passed, N failed, N skipped`. Exit status 0 only if none failed.
 *
 * Usage: conformance [--driver PATH | --in-process SEED] [--far CARD] [--notes] [CASE…]
 *
 * Without --driver it loads libcuda.so.1 as the loader finds it. --in-process is the emulator
 * linked in, in one thread. --far puts what else lies on the host on another card, whose peer the
 * first one has to be. --notes prints what was observed
 * where drivers may differ. */
#include "suite.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "emu/emu.h"

#undef cu

struct suite suite;

static const char *driver_path = "libcuda.so.1", *case_now = "";
static bool in_process, notes;
static uint64_t seed;
static int far_card;

void note(const char *format, ...)
{
    if (!notes) return;
    va_list args;
    va_start(args, format);
    printf("  note %s: ", case_now);
    vprintf(format, args);
    printf("\n");
    fflush(stdout); /* the case may take the process down */
    va_end(args);
}

static char why[1024];

const char *failed_at(const char *file, int line, const char *what)
{
    snprintf(why, sizeof why, "%s:%d: %s", strrchr(file, '/') ? strrchr(file, '/') + 1 : file, line,
             what);
    return why;
}

const char *unexpected(const char *file, int line, const char *call, CUresult got, CUresult wanted)
{
    char what[512];
    snprintf(what, sizeof what, "%s returned %d, not %d", call, got, wanted);
    return failed_at(file, line, what);
}

/* ---- Starting ---- */

static const char *find_calls(void)
{
    if (in_process) {
        /* clang-format off */
#define FROM_HERE(kind, variant, symbol, base, version, arguments, names) \
        suite.cu.symbol = (CUresult(*) arguments)dlsym(RTLD_DEFAULT, #symbol);
        EMU_CALLS(FROM_HERE)
#undef FROM_HERE
        /* clang-format on */
        struct machine machine;
        if (machine_from_name("2x64M", &machine) != VP_OK) return "no such machine";
        struct emu_options options = {.machine = &machine, .seed = seed, .carry_data = true};
        return emu_open(&options) == VP_OK ? NULL : "the emulator does not open";
    }
    suite.library = dlopen(driver_path, RTLD_NOW | RTLD_LOCAL);
    if (!suite.library) return dlerror();
#define FROM_LIBRARY(kind, variant, symbol, base, version, arguments, names)                       \
    suite.cu.symbol = (CUresult(*) arguments)dlsym(suite.library, #symbol);
    EMU_CALLS(FROM_LIBRARY)
#undef FROM_LIBRARY
    return suite.cu.cuInit ? NULL : "no cuInit in there: not a CUDA driver";
}

/* Host memory by NUMA node where the driver grants that, else plain. */
static CUresult probe_host(void)
{
    CUmemGenericAllocationHandle handle;
    suite.host_type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
    CUresult result = create(ON_HOST, suite.granule, &handle);
    if (result == CUDA_SUCCESS) return suite.cu.cuMemRelease(handle);
    suite.host_type = CU_MEM_LOCATION_TYPE_HOST;
    result = create(ON_HOST, suite.granule, &handle);
    return result == CUDA_SUCCESS ? suite.cu.cuMemRelease(handle) : result;
}

static const char *probe_far(void)
{
    int cards = 0, access = 0;
    OK(suite.cu.cuDeviceGetCount(&cards));
    if (far_card >= cards) return "there is no such card";
    OK(suite.cu.cuDeviceCanAccessPeer(&access, 0, far_card));
    return access ? NULL : "the first card has no access to that one";
}

static const char *start(void)
{
    DO(find_calls());
    OK(suite.cu.cuInit(0));
    OK(suite.cu.cuDevicePrimaryCtxRetain(&suite.context, 0));
    OK(suite.cu.cuCtxSetCurrent(suite.context));
    OK(suite.cu.cuModuleLoadData(&suite.module, conformance_ptx));
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    OK(suite.cu.cuMemGetAllocationGranularity(&suite.granule, &prop,
                                              CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    OK(probe_host());
    suite.far_card = far_card;
    return far_card ? probe_far() : NULL;
}

/* ---- Cases ---- */

static const struct {
    const char *name;
    bool own_process;
    const char *(*run)(void);
} cases[] = {
#define CASE(name, own) {#name, own, case_##name},
    CONFORMANCE_CASES(CASE)
#undef CASE
};
enum { CASE_COUNT = sizeof cases / sizeof *cases };

/* In a child: what the parent is told of each case. */
enum outcome { PASSED, FAILED, SKIPPED, OUTCOMES };
static unsigned counts[OUTCOMES];

static enum outcome run_case(unsigned number)
{
    suite.skip = NULL;
    case_now = cases[number].name;
    const char *wrong = cases[number].run();
    if (!wrong && !suite.skip) {
        printf("ok %s\n", case_now);
        return PASSED;
    }
    if (wrong) printf("FAIL %s %s\n", case_now, wrong);
    if (!wrong) printf("skip %s %s\n", case_now, suite.skip);
    return wrong ? FAILED : SKIPPED;
}

/* The driver does not survive a fork: each group is a fresh process, which writes an outcome a case
 * to the pipe. */
static void run_group(const bool *chosen, int to)
{
    const char *wrong = start();
    for (unsigned i = 0; i < CASE_COUNT; i++) {
        if (!chosen[i]) continue;
        unsigned char outcome = FAILED;
        if (wrong)
            printf("FAIL %s cannot start: %s\n", cases[i].name, wrong);
        else
            outcome = (unsigned char)run_case(i);
        fflush(stdout);
        if (write(to, &outcome, 1) != 1) _exit(1);
    }
    if (in_process) emu_close();
    _exit(0);
}

/* Runs the chosen cases in one process; a case that takes the process down has failed, and the rest
 * goes on in another one. */
static void group(bool *chosen)
{
    for (;;) {
        int ends[2], status = 0;
        unsigned first = 0;
        while (first < CASE_COUNT && !chosen[first]) first++;
        if (first == CASE_COUNT || pipe(ends) != 0) return;
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) run_group(chosen, ends[1]);
        close(ends[1]);
        unsigned char outcome;
        while (read(ends[0], &outcome, 1) == 1) {
            counts[outcome % OUTCOMES]++;
            chosen[first] = false;
            while (first < CASE_COUNT && !chosen[first]) first++;
        }
        close(ends[0]);
        waitpid(child, &status, 0);
        if (first == CASE_COUNT) return;
        printf("FAIL %s the process ended there (wait status %d)\n", cases[first].name, status);
        counts[FAILED]++;
        chosen[first] = false;
    }
}

static void run_all(const bool *wanted)
{
    bool chosen[CASE_COUNT];
    for (unsigned i = 0; i < CASE_COUNT; i++) chosen[i] = wanted[i] && !cases[i].own_process;
    group(chosen);
    for (unsigned i = 0; i < CASE_COUNT; i++) {
        if (!wanted[i] || !cases[i].own_process) continue;
        chosen[i] = true;
        group(chosen);
    }
}

static int usage(void)
{
    fprintf(stderr, "usage: conformance [--driver PATH | --in-process SEED] [--far CARD] [--notes] "
                    "[CASE...]\n");
    return 2;
}

int main(int argc, char **argv)
{
    bool wanted[CASE_COUNT] = {false}, named = false;
    for (int i = 1; i < argc; i++) {
        bool known = false;
        if (strcmp(argv[i], "--notes") == 0) {
            notes = known = true;
        } else if (strcmp(argv[i], "--driver") == 0 && i + 1 < argc) {
            driver_path = argv[++i];
            known = true;
        } else if (strcmp(argv[i], "--in-process") == 0 && i + 1 < argc) {
            seed = strtoull(argv[++i], NULL, 0);
            in_process = known = true;
        } else if (strcmp(argv[i], "--far") == 0 && i + 1 < argc) {
            far_card = atoi(argv[++i]);
            known = far_card > 0;
        }
        for (unsigned j = 0; j < CASE_COUNT && !known; j++) {
            if (strcmp(argv[i], cases[j].name) != 0) continue;
            wanted[j] = named = known = true;
        }
        if (!known) return usage();
    }
    for (unsigned i = 0; i < CASE_COUNT && !named; i++) wanted[i] = true;
    run_all(wanted);
    printf("%u passed, %u failed, %u skipped\n", counts[PASSED], counts[FAILED], counts[SKIPPED]);
    return counts[FAILED] > 0;
}
