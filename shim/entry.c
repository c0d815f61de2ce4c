/* The way in: cuInit, and cuGetProcAddress, by which runtimes get every other function.
 *
 * cuGetProcAddress gives for a name, a CUDA version and flags one of several functions: cuMemFree
 * may be cuMemFree or cuMemFree_v2, cuLaunchKernel may be cuLaunchKernel_ptsz. The real one is
 * asked first; which exported symbol its answer is tells its address. Then that very symbol's
 * wrapper is handed out, if it has one. What the real one did not find stays not found. */
#include "shim/wrap.h"

#include <ctype.h>
#include <string.h>

#include "base/log.h"

/* Newest version whose functions this list of wrappers is known to match. */
enum { KNOWN_VERSION = 13020 };

static CUresult cuInit_wrap(unsigned flags)
{
    CUresult result = SHIM_REAL(cuInit, (unsigned))(flags);
    if (result == CUDA_SUCCESS) shim_state_initialised();
    return result;
}

/* Whether a symbol's ending marks a form of the same call: nothing, _v2, _ptsz, _v2_ptds and so on.
 */
static bool is_form(const char *ending, bool *per_thread)
{
    if (ending[0] == '_' && ending[1] == 'v' && isdigit((unsigned char)ending[2])) ending += 3;
    *per_thread = strcmp(ending, "_ptsz") == 0 || strcmp(ending, "_ptds") == 0;
    return *per_thread || *ending == '\0';
}

/* The next symbol after `symbol` that is a form of the call `name`; -1: none. Forms are neighbours
 * in the sorted list, among longer names that begin alike. Starts with symbol -1. */
static int next_form(const char *name, int symbol, bool *per_thread)
{
    size_t length = strlen(name);
    for (int i = symbol < 0 ? shim_symbol_find(name) : symbol + 1; i >= 0 && i < SHIM_COUNT; i++) {
        if (strncmp(shim_symbol_name(i), name, length) != 0) return -1;
        if (is_form(shim_symbol_name(i) + length, per_thread)) return i;
    }
    return -1;
}

/* Nearly always a form of the name; but cuGraphInstantiate is, from CUDA 12 on,
 * cuGraphInstantiateWithFlags. */
static int find_by_address(const char *name, const void *function)
{
    bool per_thread;
    for (int i = next_form(name, -1, &per_thread); i >= 0; i = next_form(name, i, &per_thread)) {
        if (shim_reals[i] == function) return i;
    }
    for (int i = 0; i < SHIM_COUNT; i++) {
        if (shim_reals[i] == function) return i;
    }
    return -1;
}

/* For a driver that answers with functions that it does not export: the form is the newest one that
 * the version asked for knows. */
static int find_by_version(const char *name, int version, bool wants_per_thread)
{
    int found = -1, found_since = -1;
    bool found_per_thread = false, per_thread;
    for (int i = next_form(name, -1, &per_thread); i >= 0; i = next_form(name, i, &per_thread)) {
        const struct shim_wrap *wrap = shim_wrap_find(i);
        if (!wrap || wrap->since > version || (per_thread && !wants_per_thread)) continue;
        bool better = per_thread != found_per_thread ? per_thread : wrap->since > found_since;
        if (found >= 0 && !better) continue;
        found = i;
        found_since = wrap->since;
        found_per_thread = per_thread;
    }
    return found;
}

static bool has_wrapped_form(const char *name)
{
    bool per_thread;
    for (int i = next_form(name, -1, &per_thread); i >= 0; i = next_form(name, i, &per_thread)) {
        if (shim_wrap_find(i)) return true;
    }
    return false;
}

/* What the program gets for the function that the driver found. */
static void *answer(const char *name, void *function, int version, uint64_t flags)
{
    if (strcmp(name, "cuGraphInstantiate") == 0 && version >= 12000)
        name = "cuGraphInstantiateWithFlags";
    int symbol = find_by_address(name, function);
    if (symbol < 0 && strstr(name, "Ctx")) shim_context_unseen();
    if (symbol < 0 && version > KNOWN_VERSION && has_wrapped_form(name)) {
        log_error("the driver's %s of CUDA %d.%d is newer than this vrampool: what it does to the "
                  "pool's memory is not seen",
                  name, version / 1000, version % 1000 / 10);
        return function;
    }
    if (symbol < 0) {
        bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
        symbol = find_by_version(name, version, per_thread);
    }
    const struct shim_wrap *wrap = symbol < 0 ? NULL : shim_wrap_find(symbol);
    return wrap ? wrap->function : function;
}

static CUresult cuGetProcAddress_v2_wrap(const char *name, void **function, int version,
                                         uint64_t flags, int *found)
{
    CUresult result = SHIM_REAL(cuGetProcAddress_v2, (const char *, void **, int, uint64_t, int *))(
        name, function, version, flags, found);
    if (result == CUDA_SUCCESS && name && function && *function)
        *function = answer(name, *function, version, flags);
    return result;
}

static CUresult cuGetProcAddress_wrap(const char *name, void **function, int version,
                                      uint64_t flags)
{
    CUresult result = SHIM_REAL(cuGetProcAddress, (const char *, void **, int, uint64_t))(
        name, function, version, flags);
    if (result == CUDA_SUCCESS && name && function && *function)
        *function = answer(name, *function, version, flags);
    return result;
}

/* clang-format off */
const struct shim_wrap shim_entry_wraps[] = {
    SHIM_ROW_ONE(cuInit, 2000),
    SHIM_ROW_ONE(cuGetProcAddress, 11030),
    SHIM_ROW_ONE(cuGetProcAddress_v2, 12000),
    SHIM_ROWS_END,
};
/* clang-format on */
