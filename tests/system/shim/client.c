/* client: a program that uses the driver, in the ways that test_shim_process.py asks for. It prints
 * what calls return, one a line.
 *
 *     client [dlopen[:NAME]] STEP...
 *
 * With `dlopen` it loads libcuda.so.1 by name, as the runtime does, or NAME; else it is bound to
 * the one that it was linked with. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver/abi.h"
#include "recorder.h"

CUresult cuInit(unsigned flags);
CUresult cuDriverGetVersion(int *version);
CUresult cuGetErrorName(CUresult error, const char **text);
CUresult cuDeviceGetCount(int *count);
CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes);
CUresult cuMemFree_v2(CUdeviceptr address);
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device);

static void *library;

/* The function to call: by name, or as linked. */
#define CALL(symbol) (library ? (__typeof__(&symbol))dlsym(library, #symbol) : symbol)

static struct recorder *the_recorder(void)
{
    void *driver = dlopen(getenv("VRAMPOOL_DRIVER"), RTLD_NOW);
    struct recorder *(*get)(void) = (struct recorder * (*)(void)) dlsym(driver, "recorder");
    return get();
}

static void alloc(const char *who)
{
    CUdeviceptr address = 0;
    CUresult result = CALL(cuMemAlloc_v2)(&address, 4096);
    printf("%s %d %s\n", who, result, address ? "pool" : "driver");
}

/* A pool is open; in a child it is not. */
static void fork_and_alloc(void)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        alloc("child");
        exit(0); /* with all exit handlers */
    }
    int status = -1;
    waitpid(child, &status, 0);
    printf("child ended %d\n", status);
    alloc("parent");
}

/* Runs after the shim's own exit handler. */
static void release_late(void)
{
    printf("release %d\n", CALL(cuDevicePrimaryCtxRelease_v2)(0));
}

static void *first_call(void *start)
{
    pthread_barrier_wait(start);
    int version = 0;
    return (void *)(intptr_t)CALL(cuDriverGetVersion)(&version);
}

/* Many first calls at once. */
static void call_from_threads(void)
{
    enum { THREADS = 16 };
    pthread_t threads[THREADS];
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, THREADS);
    unsigned good = 0;
    for (unsigned i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, first_call, &start) != 0) exit(3);
    for (unsigned i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(threads[i], &result);
        good += result == NULL;
    }
    printf("threads %u\n", good);
}

/* As a runtime linked into the program does it: all functions come from cuGetProcAddress. */
static void alloc_by_runtime(void)
{
    CUresult (*find)(const char *, void **, int, uint64_t, int *) =
        (CUresult(*)(const char *, void **, int, uint64_t, int *))dlsym(library,
                                                                        "cuGetProcAddress_v2");
    void *function = NULL;
    int found = 0;
    CUdeviceptr address = 0;
    CUresult result = find("cuMemAlloc", &function, 12000, 0, &found);
    if (result == 0) result = ((CUresult(*)(CUdeviceptr *, size_t))function)(&address, 4096);
    printf("runtime %d %s\n", result, address ? "pool" : "driver");
}

/* A library that only this program's RUNPATH leads to. */
static void open_plugin(void)
{
    void *plugin = dlopen("libplugin.so", RTLD_NOW);
    printf("plugin %s\n", plugin ? (const char *)dlsym(plugin, "plugin_name") : dlerror());
}

static void step(const char *name)
{
    int number = -1;
    const char *text = NULL;
    if (strcmp(name, "init") == 0) {
        printf("init %d\n", CALL(cuInit)(0));
    } else if (strcmp(name, "version") == 0) {
        CUresult result = CALL(cuDriverGetVersion)(&number);
        printf("version %d %d\n", result, number);
    } else if (strcmp(name, "error") == 0) {
        CUresult result = CALL(cuGetErrorName)(CUDA_ERROR_NO_DEVICE, &text);
        printf("error %d %s\n", result, text ? text : "(null)");
    } else if (strcmp(name, "count") == 0) {
        CUresult result = CALL(cuDeviceGetCount)(&number);
        printf("count %d %d\n", result, number);
    } else if (strcmp(name, "cards") == 0) { /* the driver has eight */
        the_recorder()->cards = 8;
    } else if (strcmp(name, "context") == 0) { /* one is current */
        the_recorder()->context = (void *)0xc0;
    } else if (strcmp(name, "alloc") == 0) {
        alloc("alloc");
    } else if (strcmp(name, "runtime") == 0) {
        alloc_by_runtime();
    } else if (strcmp(name, "plugin") == 0) {
        open_plugin();
    } else if (strcmp(name, "free") == 0) {
        printf("free %d\n", CALL(cuMemFree_v2)(0));
    } else if (strcmp(name, "fork") == 0) {
        fork_and_alloc();
    } else if (strcmp(name, "late") == 0) {
        atexit(release_late);
    } else if (strcmp(name, "retain") == 0) {
        CUcontext context;
        printf("retain %d\n", CALL(cuDevicePrimaryCtxRetain)(&context, 0));
    } else if (strcmp(name, "threads") == 0) {
        call_from_threads();
    } else if (strcmp(name, "maps") == 0) {
        fflush(stdout);
        system("cat /proc/$PPID/maps");
    } else {
        exit(3);
    }
}

int main(int count, char **arguments)
{
    int first = 1;
    if (count > 1 && strncmp(arguments[1], "dlopen", 6) == 0) {
        const char *name = strchr(arguments[1], ':');
        library = dlopen(name ? name + 1 : "libcuda.so.1", RTLD_NOW);
        if (!library) return 4;
        first++;
    }
    for (int i = first; i < count; i++) step(arguments[i]);
    return 0;
}
