/* Calls every driver symbol of a library with arguments that say nothing, each in a process of its
 * own, and prints how that went. test_shim_zeros.py compares the shim with the driver beneath it.
 *
 *     zeros LIBRARY STATE       STATE: fresh, initialised, current or capturing
 *
 * A line is "SYMBOL MASK ENDING": argument i was 1 where bit i of MASK is set, else 0; ENDING is
 * the result, or minus the signal that ended the process. A library that lacks a symbol says
 * nothing of it. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver/abi.h"
#include "symbols.h"

enum state { FRESH, INITIALISED, CURRENT, CAPTURING, STATES };
static const char *const state_names[STATES] = {"fresh", "initialised", "current", "capturing"};
static const char *const names[] = {
#define NAME(name) #name,
    SHIM_SYMBOLS(NAME)
#undef NAME
};
enum { NAMES = sizeof names / sizeof *names, ARGUMENTS = 11 };

typedef uint64_t word;
typedef CUresult call(word, word, word, word, word, word, word, word, word, word, word);

static void expect(CUresult result, const char *what)
{
    if (result == CUDA_SUCCESS) return;
    fprintf(stderr, "zeros: %s: %d\n", what, result);
    _exit(111);
}

static call *find(void *library, const char *name)
{
    return (call *)dlsym(library, name);
}

#define CALL(name, ...) expect(find(library, name)(__VA_ARGS__), name)
#define POINTER(to)     ((word)(uintptr_t)(to))

/* A block exists, so that the shim's pool is open. */
static void prepare(void *library, enum state state)
{
    CUcontext context = NULL;
    CUdeviceptr block;
    CUstream stream;
    if (state == FRESH) return;
    CALL("cuInit", 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    if (state == INITIALISED) return;
    CALL("cuDevicePrimaryCtxRetain", POINTER(&context), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    CALL("cuCtxSetCurrent", POINTER(context), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    CALL("cuMemAlloc_v2", POINTER(&block), 4096, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    if (state == CURRENT) return;
    CALL("cuStreamCreate", POINTER(&stream), CU_STREAM_NON_BLOCKING, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    CALL("cuStreamBeginCapture_v2", POINTER(stream), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
}

static CUresult call_with(call *function, unsigned mask)
{
    word a[ARGUMENTS];
    for (unsigned i = 0; i < ARGUMENTS; i++) a[i] = mask >> i & 1;
    return function(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10]);
}

static int try(const char *path, const char *name, enum state state, unsigned mask, int out)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    call *function = library ? find(library, name) : NULL;
    if (!library) fprintf(stderr, "zeros: %s\n", dlerror());
    if (!function) return library ? 0 : 111;
    prepare(library, state);
    CUresult result = call_with(function, mask);
    return write(out, &result, sizeof result) == sizeof result ? 0 : 111;
}

/* False: the harness itself failed. */
static bool report(const char *path, const char *name, enum state state, unsigned mask)
{
    int ends[2], status;
    CUresult result;
    if (pipe(ends) != 0) return false;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) _exit(try(path, name, state, mask, ends[1]));
    close(ends[1]);
    bool answered = read(ends[0], &result, sizeof result) == sizeof result;
    close(ends[0]);
    if (child < 0 || waitpid(child, &status, 0) != child) return false;
    if (WIFSIGNALED(status)) {
        printf("%s %u %d\n", name, mask, -WTERMSIG(status));
    } else if (WEXITSTATUS(status) == 111) {
        return false;
    } else if (answered) {
        printf("%s %u %d\n", name, mask, result);
    }
    return true;
}

int main(int argc, char **argv)
{
    enum state state = FRESH;
    while (argc == 3 && state < STATES && strcmp(argv[2], state_names[state]) != 0) state++;
    if (argc != 3 || state == STATES) return 2;
    for (unsigned i = 0; i < NAMES; i++) {
        if (!report(argv[1], names[i], state, 0)) return 1;
        for (unsigned bit = 0; state == CURRENT && bit < 4; bit++)
            if (!report(argv[1], names[i], state, 1u << bit)) return 1;
    }
    return 0;
}
