#include "emu/internal.h"

#include <string.h>

/* The exported symbols: each one a check, the work, and the way out. Also what is made from the
 * list of calls: names, counters, the answers of cuGetProcAddress, the driver table. */

static _Thread_local bool null_is_per_thread;

bool per_thread_default(void)
{
    return null_is_per_thread;
}

#define VARIANT_NO(symbol, arguments, names)
#define VARIANT_SZ(symbol, arguments, names) VARIANT(symbol##_ptsz, symbol, arguments, names)
#define VARIANT_DS(symbol, arguments, names) VARIANT(symbol##_ptds, symbol, arguments, names)
#define VARIANT(variant, symbol, arguments, names)                                                 \
    CUresult variant arguments;                                                                    \
    CUresult variant arguments                                                                     \
    {                                                                                              \
        bool before = null_is_per_thread;                                                          \
        null_is_per_thread = true;                                                                 \
        CUresult result = symbol names;                                                            \
        null_is_per_thread = before;                                                               \
        return result;                                                                             \
    }
#define DEFINE(kind, variant, symbol, base, version, arguments, names)                             \
    CUresult symbol arguments                                                                      \
    {                                                                                              \
        CUresult result = call_enter(CALL_##symbol, CALL_##kind);                                  \
        if (result == CUDA_SUCCESS) result = do_##symbol names;                                    \
        call_leave();                                                                              \
        return result;                                                                             \
    }                                                                                              \
    VARIANT_##variant(symbol, arguments, names)
EMU_CALLS(DEFINE)

static const char *const call_names[] = {
#define NAME(kind, variant, symbol, base, version, arguments, names) #symbol,
    EMU_CALLS(NAME)
#undef NAME
};

const char *call_name(enum call call)
{
    return call_names[call];
}

const char *const *emu_call_names(size_t *count)
{
    *count = CALL_COUNT;
    return call_names;
}

/* ---- Errors ---- */

static const struct {
    CUresult error;
    const char *name, *text;
} errors[] = {
#define ERROR(name, value, text) {value, "CUDA_" #name, text},
    EMU_ERRORS(ERROR)
#undef ERROR
};

static CUresult error_text(CUresult error, const char **text, bool name)
{
    if (!text) return CUDA_ERROR_INVALID_VALUE;
    *text = NULL;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].error == error) *text = name ? errors[i].name : errors[i].text;
    return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult do_cuGetErrorName(CUresult error, const char **text)
{
    return error_text(error, text, true);
}

CUresult do_cuGetErrorString(CUresult error, const char **text)
{
    return error_text(error, text, false);
}

/* ---- cuGetProcAddress ---- */

typedef void (*any_function)(void);

static const struct known {
    const char *base;
    int version;
    any_function function, per_thread; /* per_thread: NULL where there is no such variant */
} known[] = {
#define PER_THREAD_NO(symbol) NULL
#define PER_THREAD_SZ(symbol) (any_function) symbol##_ptsz
#define PER_THREAD_DS(symbol) (any_function) symbol##_ptds
#define KNOWN(kind, variant, symbol, base, version, arguments, names)                              \
    {#base, version, (any_function)symbol, PER_THREAD_##variant(symbol)},
    EMU_CALLS(KNOWN)
#undef KNOWN
};

/* Finds the newest form of a name that a program written for CUDA `version` knows. */
CUresult do_cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags,
                                int *found)
{
    if (!symbol || !function || flags > CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
        return CUDA_ERROR_INVALID_VALUE;
    const struct known *best = NULL;
    bool exists = false;
    for (size_t i = 0; i < CALL_COUNT; i++) {
        if (strcmp(known[i].base, symbol) != 0) continue;
        exists = true;
        if (known[i].version > version || (best && known[i].version < best->version)) continue;
        best = &known[i];
    }
    *function = NULL;
    if (found)
        *found = best     ? CU_GET_PROC_ADDRESS_SUCCESS
                 : exists ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                          : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    if (!best) return found ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
    bool per_thread = flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM && best->per_thread;
    any_function chosen = per_thread ? best->per_thread : best->function;
    memcpy(function, &chosen, sizeof chosen);
    return CUDA_SUCCESS;
}

CUresult do_cuGetProcAddress(const char *symbol, void **function, int version, uint64_t flags)
{
    return do_cuGetProcAddress_v2(symbol, function, version, flags, NULL);
}

/* ---- The driver table ---- */

void emu_driver(struct driver *table)
{
    memset(table, 0, sizeof *table);
#define FILL(need, symbol, arguments) table->symbol = symbol;
    DRIVER_CALLS(FILL)
#undef FILL
    strcpy(table->path, "the emulator");
}
