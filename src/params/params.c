#include "params/params.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void params_create(struct params *params, const struct driver *driver)
{
    memset(params, 0, sizeof *params);
    params->driver = driver;
}

static void destroy_function(struct param_function *function)
{
    if (!function) return;
    free(function->pieces);
    free(function->name);
    free(function);
}

void params_forget(struct params *params)
{
    for (unsigned i = 0; i < PARAMS_FUNCTIONS; i++) {
        struct param_function *function = atomic_exchange(&params->functions[i], NULL);
        if (!function) continue;
        function->next = atomic_load(&params->forgotten);
        while (!atomic_compare_exchange_weak(&params->forgotten, &function->next, function))
            continue;
    }
}

void params_destroy(struct params *params)
{
    params_forget(params);
    struct param_function *function = atomic_load(&params->forgotten);
    while (function) {
        struct param_function *next = function->next;
        destroy_function(function);
        function = next;
    }
}

static CUresult piece_info(const struct driver *driver, void *function, size_t i, size_t *offset,
                           size_t *bytes)
{
    /* The runtime launches kernel handles, so that is asked first. A handle of the other kind, and
     * an index past the end, are both errors: past the end one of the two says INVALID_VALUE. */
    CUresult kernel = CUDA_ERROR_NOT_SUPPORTED, result = CUDA_ERROR_NOT_SUPPORTED;
    if (driver->cuKernelGetParamInfo)
        kernel = driver->cuKernelGetParamInfo((CUkernel)function, i, offset, bytes);
    if (kernel == CUDA_SUCCESS || (kernel == CUDA_ERROR_INVALID_VALUE && i > 0)) return kernel;
    if (driver->cuFuncGetParamInfo)
        result = driver->cuFuncGetParamInfo((CUfunction)function, i, offset, bytes);
    return result == CUDA_SUCCESS || kernel != CUDA_ERROR_INVALID_VALUE ? result : kernel;
}

enum { TRIES = 8 }; /* an answer is kept for good, so a failure is not taken at its word */

static bool ask_layout(const struct driver *driver, struct param_function *function)
{
    uint32_t room = 0;
    for (size_t i = 0;; i++) {
        size_t offset, bytes;
        CUresult result;
        unsigned tries = 0;
        do result = piece_info(driver, function->handle, i, &offset, &bytes);
        while (result != CUDA_SUCCESS && result != CUDA_ERROR_INVALID_VALUE && ++tries < TRIES);
        if (result == CUDA_ERROR_INVALID_VALUE) return true; /* past the last parameter */
        if (result != CUDA_SUCCESS) return false;
        if (function->count == room) {
            room = room ? 2 * room : 8;
            struct param_piece *wider = realloc(function->pieces, room * sizeof *wider);
            if (!wider) return false;
            function->pieces = wider;
        }
        function->pieces[function->count++] =
            (struct param_piece){(uint32_t)offset, (uint32_t)bytes};
    }
}

static void ask_name(const struct driver *driver, struct param_function *function)
{
    const char *name = NULL;
    bool known = driver->cuKernelGetName &&
                 driver->cuKernelGetName(&name, (CUkernel)function->handle) == CUDA_SUCCESS;
    if (!known && driver->cuFuncGetName &&
        driver->cuFuncGetName(&name, (CUfunction)function->handle) != CUDA_SUCCESS)
        name = NULL;
    function->name = strdup(name ? name : "unnamed_kernel");
}

static struct param_function *learn(const struct driver *driver, void *handle)
{
    struct param_function *function = calloc(1, sizeof *function);
    if (!function) return NULL;
    function->handle = handle;
    function->layout_known = ask_layout(driver, function);
    ask_name(driver, function);
    atomic_init(&function->probation, PARAMS_PROBATION);
    return function;
}

static unsigned hash(const void *handle)
{
    return (unsigned)((((uint64_t)(uintptr_t)handle >> 4) * UINT64_C(0x9E3779B97F4A7C15)) >> 50) %
           PARAMS_FUNCTIONS;
}

struct param_function *params_find(struct params *params, void *handle)
{
    struct param_function *made = NULL;
    for (unsigned probe = 0; probe < PARAMS_FUNCTIONS; probe++) {
        unsigned at = (hash(handle) + probe) % PARAMS_FUNCTIONS;
        struct param_function *found =
            atomic_load_explicit(&params->functions[at], memory_order_acquire);
        if (!found) {
            if (!made) made = learn(params->driver, handle);
            if (!made) return NULL;
            if (atomic_compare_exchange_strong(&params->functions[at], &found, made)) return made;
        }
        if (found->handle == handle) {
            destroy_function(made);
            return found;
        }
    }
    destroy_function(made);
    return NULL;
}

unsigned params_scan_memory(const void *memory, uint64_t memory_bytes, unsigned step, vp_addr base,
                            uint64_t bytes, vp_addr *words, unsigned room)
{
    unsigned found = 0;
    const char *at = memory;
    for (uint64_t offset = 0; offset + sizeof(vp_addr) <= memory_bytes; offset += step) {
        vp_addr word;
        memcpy(&word, at + offset, sizeof word);
        if (word - base >= bytes) continue;
        if (found < room) words[found] = word;
        found++;
    }
    return found;
}

static unsigned scan_extra(void *const *extra, vp_addr base, uint64_t bytes, vp_addr *words,
                           unsigned room)
{
    const void *buffer = NULL;
    size_t buffer_bytes = 0;
    for (unsigned i = 0; i < 16 && extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
        if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER) buffer = extra[i + 1];
        if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE && extra[i + 1])
            buffer_bytes = *(const size_t *)extra[i + 1];
    }
    return buffer ? params_scan_memory(buffer, buffer_bytes, 4, base, bytes, words, room) : 0;
}

unsigned params_scan(const struct param_function *function, void *const *params, void *const *extra,
                     vp_addr base, uint64_t bytes, vp_addr *words, unsigned room)
{
    if (!params) return extra ? scan_extra(extra, base, bytes, words, room) : 0;
    unsigned found = 0;
    const struct param_piece *piece = function->pieces, *end = piece + function->count;
    for (; piece < end; piece++, params++) {
        const void *value = *params;
        if (!value) continue;
        if (piece->bytes == sizeof(vp_addr)) { /* most are */
            vp_addr word;
            memcpy(&word, value, sizeof word);
            if (word - base >= bytes) continue;
            if (found < room) words[found] = word;
            found++;
            continue;
        }
        unsigned at = found < room ? found : room;
        found += params_scan_memory(value, piece->bytes, 4, base, bytes, words + at, room - at);
    }
    return found;
}

/* ---- tables ---- */

/* True: it was not there before. */
static bool add_target(struct table *table, struct segment *target)
{
    uint32_t at = TABLE_TARGETS;
    for (uint32_t i = 0; i < table->count; i++) {
        if (table->to[i].segment == target) {
            bool same = table->to[i].generation == target->generation;
            table->to[i].generation = target->generation;
            return !same;
        }
        /* Another than was looked at, or none: it makes way for what is found now. */
        if (table->to[i].segment->generation != table->to[i].generation ||
            table->to[i].segment->state != SEGMENT_LIVE)
            at = i;
    }
    if (at == TABLE_TARGETS && table->count < TABLE_TARGETS) at = table->count++;
    if (at == TABLE_TARGETS) {
        table->full = true;
        return true;
    }
    table->to[at].segment = target;
    table->to[at].generation = target->generation;
    return true;
}

static struct table *table_of(struct segment *holder)
{
    if (!holder->table) holder->table = calloc(1, sizeof *holder->table);
    if (!holder->table) holder->loose = true;
    return holder->table;
}

void table_fill(struct segment *holder)
{
    struct table *table = table_of(holder);
    if (table) table->full = true;
}

unsigned table_learn(struct segments *segments, struct segment *holder, const void *memory,
                     uint64_t bytes)
{
    unsigned found = 0;
    const struct space *space = segments->space;
    /* In memory, pointers are aligned; at steps of 4, two indices side by side look like one. */
    for (uint64_t offset = 0; offset + sizeof(vp_addr) <= bytes; offset += sizeof(vp_addr)) {
        vp_addr word;
        memcpy(&word, (const char *)memory + offset, sizeof word);
        if (!space_entry_of(space, word)) continue; /* nothing ever lived near there */
        struct segment *target = segment_of(segments, word);
        struct table *table = target ? table_of(holder) : NULL;
        if (!target)
            found |= TABLE_STALE;
        else if (!table || add_target(table, target)) /* the holder too: it may hold many blocks */
            found |= TABLE_NEW;
    }
    return found;
}

bool table_copy(struct segment *holder, const struct table *from)
{
    if (holder->table == from) return false;
    struct table *table = table_of(holder);
    bool more = !table || from->full > table->full;
    if (!table) return more;
    table->full |= from->full;
    for (uint32_t i = 0; i < from->count; i++) more |= add_target(table, from->to[i].segment);
    return more;
}

void table_clear(struct segment *segment)
{
    free(segment->table);
    segment->table = NULL;
}
