/* Loading the real library, at the first call of any driver symbol, and filling the slots. */
#include "shim/shim.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

#define HIDDEN __attribute__((visibility("hidden")))

void *shim_reals[SHIM_COUNT] HIDDEN;

static const char *const names[SHIM_COUNT] = {
#define NAME(name) #name,
    SHIM_SYMBOLS(NAME)
#undef NAME
};
static const struct shim_wrap *wraps[SHIM_COUNT];

static int compare_names(const void *name, const void *entry)
{
    return strcmp(name, *(const char *const *)entry);
}

int shim_symbol_find(const char *name)
{
    const char *const *found = bsearch(name, names, SHIM_COUNT, sizeof *names, compare_names);
    return found ? (int)(found - names) : -1;
}

const char *shim_symbol_name(int symbol)
{
    return names[symbol];
}

const struct shim_wrap *shim_wrap_find(int symbol)
{
    return wraps[symbol];
}

/* ---- Stubs, for what is not there. Called with any arguments. ---- */

static CUresult not_supported(void)
{
    return CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult no_driver(void)
{
    return CUDA_ERROR_NO_DEVICE;
}

/* As the runtime documents it: version 0 where there is no driver. */
static CUresult no_driver_version(int *version)
{
    if (!version) return CUDA_ERROR_INVALID_VALUE;
    *version = 0;
    return CUDA_SUCCESS;
}

static CUresult no_driver_name(CUresult error, const char **text)
{
    if (!text) return CUDA_ERROR_INVALID_VALUE;
    *text = error == CUDA_ERROR_NO_DEVICE ? "CUDA_ERROR_NO_DEVICE" : NULL;
    return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult no_driver_text(CUresult error, const char **text)
{
    if (!text) return CUDA_ERROR_INVALID_VALUE;
    *text = error == CUDA_ERROR_NO_DEVICE ? "no CUDA-capable device is detected" : NULL;
    return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- Loading ---- */

static void set_slot(unsigned symbol, void *function)
{
    atomic_store_explicit(&shim_slots[symbol], function, memory_order_release);
}

static void fill_without_driver(void)
{
    for (unsigned i = 0; i < SHIM_COUNT; i++) set_slot(i, (void *)no_driver);
    set_slot(SHIM_cuDriverGetVersion, (void *)no_driver_version);
    set_slot(SHIM_cuGetErrorName, (void *)no_driver_name);
    set_slot(SHIM_cuGetErrorString, (void *)no_driver_text);
}

static void fill_wraps(void)
{
    static const struct shim_wrap *const tables[] = {
        shim_entry_wraps,   shim_device_wraps, shim_memory_wraps, shim_launch_wraps,
        shim_graph_wraps,   shim_copy_wraps,   shim_set_wraps,    shim_retry_wraps,
        shim_texture_wraps, shim_vmm_wraps,    shim_host_wraps};
    for (unsigned i = 0; i < sizeof tables / sizeof *tables; i++) {
        for (const struct shim_wrap *wrap = tables[i]; wrap->function; wrap++)
            wraps[wrap->symbol] = wrap;
    }
}

static void fill_from(void *library)
{
    for (unsigned i = 0; i < SHIM_COUNT; i++) shim_reals[i] = dlsym(library, names[i]);
    if (!shim_settings.off) fill_wraps();
    for (unsigned i = 0; i < SHIM_COUNT; i++) {
        void *target = shim_reals[i] ? shim_reals[i] : (void *)not_supported;
        set_slot(i, wraps[i] && shim_reals[i] ? wraps[i]->function : target);
    }
}

/* Whoever knows the cause has logged it. */
static void *open_library(void)
{
    static char path[PATH_MAX];
    Dl_info own;
    const char *self = dladdr((void *)shim_load, &own) ? own.dli_fname : NULL;
    if (driver_find(self, path, sizeof path) != VP_OK) return NULL;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        log_error("cannot load the CUDA driver library %s: %s", path, dlerror());
        return NULL;
    }
    if (!shim_settings.off && driver_load(&shim_driver, path) != VP_OK) {
        log_error("without a pool: %s is too old for it; every call passes straight on", path);
        shim_settings.off = true;
    }
    shim_context_remember(&shim_driver);
    return library;
}

static void load(void)
{
    shim_settings_read();
    void *library = open_library();
    if (library)
        fill_from(library);
    else
        fill_without_driver();
}

HIDDEN void *shim_load(unsigned symbol)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool loaded; /* under lock */
    static _Thread_local bool loading __attribute__((tls_model("initial-exec")));
    /* The library that is being loaded calls a driver symbol and gets ours: it is not there yet. */
    if (loading) return (void *)not_supported;
    loading = true;
    pthread_mutex_lock(&lock);
    if (!loaded) load();
    loaded = true;
    pthread_mutex_unlock(&lock);
    loading = false;
    return atomic_load_explicit(&shim_slots[symbol], memory_order_acquire);
}
