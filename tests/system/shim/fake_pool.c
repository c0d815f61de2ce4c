#include "fake_pool.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static struct fake_pool fake;
static int the_pool; /* its address is the handle */

struct fake_pool *fake_pool(void)
{
    return &fake;
}

static void __attribute__((format(printf, 1, 2))) say(const char *format, ...)
{
    size_t used = strlen(fake.log);
    va_list args;
    va_start(args, format);
    vsnprintf(fake.log + used, sizeof fake.log - used - 1, format, args);
    va_end(args);
    strcat(fake.log, " ");
}

static const char *where(uint64_t address)
{
    static char texts[4][40];
    static unsigned next;
    char *text = texts[next++ % 4];
    uint64_t host = (uint64_t)(uintptr_t)fake.host;
    if (address >= FAKE_FIRST && address < FAKE_END)
        snprintf(text, sizeof texts[0], "P+%llx", (unsigned long long)(address - FAKE_FIRST));
    else if (address >= host && address < host + fake.host_bytes)
        snprintf(text, sizeof texts[0], "H+%llx", (unsigned long long)(address - host));
    else
        snprintf(text, sizeof texts[0], "%llx", (unsigned long long)address);
    return text;
}

static unsigned long long id(const void *handle)
{
    return (unsigned long long)(uintptr_t)handle;
}

void vp_options_init(vp_options *options)
{
    memset(options, 0, sizeof *options);
    options->struct_size = sizeof *options;
    options->compute_cards = 1;
    options->lend_cards = ~1u;
    options->host_bytes = VP_DEFAULT_BYTES;
}

vp_status pool_open(const struct driver *driver, const vp_options *options, vp_pool **pool)
{
    if (fake.open_status != VP_OK) return fake.open_status;
    fake.opened++;
    fake.options = *options;
    fake.driver = driver;
    *pool = (vp_pool *)&the_pool;
    return VP_OK;
}

void vp_close(vp_pool *pool)
{
    fake.closed++;
    say("close");
}

/* ---- Operations ---- */

void pool_op_begin(struct pool_op *op, vp_pool *pool, enum pool_op_kind kind, CUstream stream,
                   const char *name)
{
    static const char *const kinds[] = {"kernel", "copy", "set", "graph"};
    op->pool = pool;
    say("%s stream=%llx %s", kinds[kind], id(stream), name);
}

void pool_op_touch(struct pool_op *op, CUdeviceptr address)
{
    say("touch:%s", where(address));
}

void pool_op_touch_range(struct pool_op *op, CUdeviceptr address, uint64_t bytes)
{
    say("touch:%s:%llx", where(address), (unsigned long long)bytes);
}

void pool_op_touch_params(struct pool_op *op, void *function, void **params, void **extra)
{
    say("params:%llx:%llx:%llx", id(function), id(params), id(extra));
}

void pool_op_scan_host(struct pool_op *op, CUdeviceptr to, const void *from, uint64_t bytes)
{
    say("scan:%s:%s:%llx", where(to), where((uintptr_t)from), (unsigned long long)bytes);
}

void pool_op_touch_anything(struct pool_op *op)
{
    say("anything");
}

CUresult pool_op_enter(struct pool_op *op)
{
    say("enter");
    return fake.enter_result;
}

CUresult pool_op_leave(struct pool_op *op, CUresult result)
{
    say("leave:%d", result);
    return result;
}

/* ---- Memory ---- */

bool pool_relieve(vp_pool *pool, unsigned card, uint64_t bytes, struct pool_relief *relief)
{
    say("relieve:%d:%llx", card == POOL_HOST ? -1 : (int)card, (unsigned long long)bytes);
    relief->place = card;
    return !fake.nothing_to_give;
}

void pool_relief_ends(vp_pool *pool, struct pool_relief *relief, bool helped)
{
    say("%s:%d", helped ? "helped" : "in-vain", relief->place == POOL_HOST ? -1 : 0);
}

bool pool_owns(const vp_pool *pool, CUdeviceptr address)
{
    return address >= FAKE_FIRST && address < FAKE_END;
}

CUresult pool_mem_alloc(vp_pool *pool, CUdeviceptr *address, size_t bytes)
{
    say("alloc:%zx", bytes);
    if (fake.alloc_result == CUDA_SUCCESS) *address = FAKE_FIRST + FAKE_BLOCK;
    return fake.alloc_result;
}

CUresult pool_mem_free(vp_pool *pool, CUdeviceptr address)
{
    if (!pool_owns(pool, address)) return CUDA_ERROR_NOT_FOUND;
    say("free:%s", where(address));
    return address % FAKE_BLOCK ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult pool_mem_info(vp_pool *pool, size_t *free_bytes, size_t *total_bytes)
{
    *free_bytes = (size_t)150 << 30;
    *total_bytes = (size_t)192 << 30;
    return CUDA_SUCCESS;
}

CUresult pool_mem_range(vp_pool *pool, CUdeviceptr address, struct pool_range *range)
{
    if (!pool_owns(pool, address)) return CUDA_ERROR_NOT_FOUND;
    CUdeviceptr base = address / FAKE_BLOCK * FAKE_BLOCK;
    *range = (struct pool_range){base, FAKE_BLOCK, (base - FAKE_FIRST) / FAKE_BLOCK + 77, 0};
    return CUDA_SUCCESS;
}

uint64_t pool_card_bytes(const vp_pool *pool, unsigned card)
{
    return (uint64_t)192 << 30;
}

/* ---- Ends, captures, advice, report ---- */

void pool_stream_ends(vp_pool *pool, CUstream stream)
{
    say("stream-ends:%llx", id(stream));
}

void pool_context_ends(vp_pool *pool, CUcontext context)
{
    say("context-ends:%llx", id(context));
}

void pool_capture_begins(vp_pool *pool, CUstream stream)
{
    say("capture:%llx", id(stream));
}

void pool_capture_ends(vp_pool *pool, CUstream stream, const void *graph)
{
    say("captured:%llx", id(stream));
    if (graph) say("into:%llx", id(graph));
}

/* Handles are small numbers in tests; what is kept for a call alone has some address as owner. */
static const char *owner_name(const void *owner)
{
    static char texts[2][20];
    static unsigned next;
    char *text = texts[next++ % 2];
    snprintf(text, sizeof texts[0], id(owner) >> 32 ? "call" : "%llx", id(owner));
    return text;
}

CUresult pool_op_keep(struct pool_op *op, const void *owner)
{
    say("keep:%s", owner_name(owner));
    return fake.enter_result;
}

void pool_keeper_copies(vp_pool *pool, const void *to, const void *from)
{
    say("keep-copies:%s:%s", owner_name(to), owner_name(from));
}

void pool_keeper_moves(vp_pool *pool, const void *to, const void *from)
{
    say("keep-moves:%s:%s", owner_name(to), owner_name(from));
}

bool pool_keeper_exists(vp_pool *pool, const void *owner)
{
    return true;
}

void pool_keeper_ends(vp_pool *pool, const void *owner)
{
    say("keep-ends:%s", owner_name(owner));
}

void pool_functions_end(vp_pool *pool)
{
    say("functions-end");
}

void pool_flush_files(vp_pool *pool)
{
    say("flush-record");
}

void pool_log_summary(vp_pool *pool)
{
    say("summary");
    fputs("fake summary\n", stderr);
}

vp_status vp_report(vp_pool *pool, const char *path)
{
    say("report");
    FILE *file = fopen(path, "w");
    if (!file) return VP_IO;
    fputs("fake report\n", file);
    return fclose(file) == 0 ? VP_OK : VP_IO;
}

unsigned vp_place_count(vp_pool *pool)
{
    return 3;
}

vp_status vp_place_info(vp_pool *pool, unsigned place, vp_place_info_t *info)
{
    memset(info, 0, sizeof *info);
    info->kind = place < 2 ? VP_PLACE_CARD : VP_PLACE_HOST;
    return VP_OK;
}

vp_status vp_prefetch(vp_pool *pool, vp_addr address, uint64_t bytes, unsigned place)
{
    say("prefetch:%s:%llx:%u", where(address), (unsigned long long)bytes, place);
    return VP_OK;
}

vp_status vp_advise(vp_pool *pool, vp_addr address, uint64_t bytes, vp_advice advice,
                    unsigned place)
{
    say("advise:%s:%llx:%d:%u", where(address), (unsigned long long)bytes, (int)advice, place);
    return VP_OK;
}
