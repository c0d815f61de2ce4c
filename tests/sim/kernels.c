/* The kernels of the simulated programs: as the emulator runs them, and what a word of their result
 * is, for the reference memory. */
#include <stdio.h>
#include <string.h>

#include "sim.h"

/* clang-format off */
/* X(id, name, parameters as PTX types them) */
#define KERNEL_LIST(X) \
    X(FILL, fill, ".param .u64 dst, .param .u64 words, .param .u64 seed, .param .u64 ignored") \
    X(MIX, mix, ".param .u64 dst, .param .u64 src, .param .u64 words, .param .u64 seed") \
    X(COPY, copy, ".param .u64 dst, .param .u64 src, .param .u64 words") \
    X(POINT, point, ".param .u64 table, .param .align 4 .b8 args[28]") \
    X(DERIVE, derive, ".param .u64 dst, .param .u64 src, .param .u64 words, .param .u64 delta") \
    X(GATHER, gather, ".param .u64 dst, .param .u64 table, .param .u64 count, .param .u64 words") \
    X(SCATTER, scatter, ".param .u64 table, .param .u64 count, .param .u64 words, .param .u64 seed") \
    X(DEEP, deep, ".param .u64 dst, .param .u64 root, .param .u64 count, .param .u64 words")
/* clang-format on */
_Static_assert(sizeof(struct point_args) == 28, "as in the list");

enum { PART_WORDS = 256 };

uint64_t kernels_fill_value(uint64_t seed, uint64_t i)
{
    return (seed + i) * UINT64_C(0x9E3779B97F4A7C15) >> 1;
}

uint64_t kernels_mix_value(uint64_t old, uint64_t other, uint64_t seed)
{
    return (old * 3 + other * 5 + seed) >> 1;
}

/* The words of the blocks to run now. */
static void range_of(const struct emu_block *b, uint64_t words, uint64_t *first, uint64_t *last)
{
    *first = words * b->first / b->grid[0];
    *last = words * b->last / b->grid[0];
}

static uint64_t part_of(uint64_t at, uint64_t last)
{
    return last - at < PART_WORDS ? last - at : PART_WORDS;
}

static void run_fill(struct emu_block *b)
{
    uint64_t dst = emu_param_u64(b, 0), seed = emu_param_u64(b, 2), first, last;
    uint64_t words[PART_WORDS];
    range_of(b, emu_param_u64(b, 1), &first, &last);
    for (uint64_t at = first, part; at < last; at += part) {
        part = part_of(at, last);
        for (uint64_t i = 0; i < part; i++) words[i] = kernels_fill_value(seed, at + i);
        emu_write(b, dst + 8 * at, words, 8 * part);
    }
}

/* dst = mix(dst, src), for the part of the words that the blocks stand for. */
static void mix_part(struct emu_block *b, uint64_t dst, uint64_t src, uint64_t count, uint64_t seed)
{
    uint64_t first, last, old[PART_WORDS], other[PART_WORDS];
    range_of(b, count, &first, &last);
    for (uint64_t at = first, part; at < last; at += part) {
        part = part_of(at, last);
        emu_read(b, dst + 8 * at, old, 8 * part);
        memset(other, 0, sizeof other);
        if (src) emu_read(b, src + 8 * at, other, 8 * part);
        for (uint64_t i = 0; i < part; i++) old[i] = kernels_mix_value(old[i], other[i], seed);
        emu_write(b, dst + 8 * at, old, 8 * part);
    }
}

static void run_mix(struct emu_block *b)
{
    mix_part(b, emu_param_u64(b, 0), emu_param_u64(b, 1), emu_param_u64(b, 2), emu_param_u64(b, 3));
}

static void copy_part(struct emu_block *b, uint64_t delta)
{
    uint64_t dst = emu_param_u64(b, 0), src = emu_param_u64(b, 1), first, last;
    uint64_t words[PART_WORDS];
    range_of(b, emu_param_u64(b, 2), &first, &last);
    for (uint64_t at = first, part; at < last; at += part) {
        part = part_of(at, last);
        emu_read(b, src + 8 * at, words, 8 * part);
        for (uint64_t i = 0; i < part; i++) words[i] += delta;
        emu_write(b, dst + 8 * at, words, 8 * part);
    }
}

static void run_copy(struct emu_block *b)
{
    copy_part(b, 0);
}

static void run_derive(struct emu_block *b)
{
    copy_part(b, emu_param_u64(b, 3));
}

static void run_point(struct emu_block *b)
{
    struct point_args args;
    uint64_t table = emu_param_u64(b, 0), first, last;
    emu_param(b, 1, &args, sizeof args);
    range_of(b, POINT_COUNT, &first, &last);
    for (uint64_t i = first; i < last; i++) {
        uint64_t address;
        memcpy(&address, args.address[i], sizeof address);
        emu_store_u64(b, table + 8 * (args.at + i), address);
    }
}

static void run_gather(struct emu_block *b)
{
    uint64_t dst = emu_param_u64(b, 0), table = emu_param_u64(b, 1), count = emu_param_u64(b, 2);
    for (uint64_t k = 0; k < count && !emu_faulted(b); k++)
        mix_part(b, dst, emu_load_u64(b, table + 8 * k), emu_param_u64(b, 3), k);
}

static void run_scatter(struct emu_block *b)
{
    uint64_t table = emu_param_u64(b, 0), count = emu_param_u64(b, 1), seed = emu_param_u64(b, 3);
    for (uint64_t k = 0; k < count && !emu_faulted(b); k++)
        mix_part(b, emu_load_u64(b, table + 8 * k), 0, emu_param_u64(b, 2), seed);
}

static void run_deep(struct emu_block *b)
{
    uint64_t dst = emu_param_u64(b, 0), root = emu_param_u64(b, 1), count = emu_param_u64(b, 2);
    for (uint64_t k = 0; k < count && !emu_faulted(b); k++) {
        uint64_t table = emu_load_u64(b, root + 8 * k);
        if (!emu_faulted(b)) mix_part(b, dst, emu_load_u64(b, table), emu_param_u64(b, 3), k);
    }
}

static const struct {
    const char *name, *params;
    emu_kernel_fn run;
} kernels[] = {
#define ROW(id, name, params) {"sim_" #name, params, run_##name},
    KERNEL_LIST(ROW)
#undef ROW
};

/* Every kernel exists several times, so that unknown functions turn up all the time. */
static char names[KERNELS][SIM_VARIANTS][32];

void kernels_register(void)
{
    for (unsigned k = 0; k < KERNELS; k++)
        for (unsigned v = 0; v < SIM_VARIANTS; v++) {
            snprintf(names[k][v], sizeof names[k][v], "%s_%u", kernels[k].name, v);
            vp_status status = emu_kernel_register(names[k][v], kernels[k].run, NULL);
            if (status != VP_OK) sim_fail("emu_kernel_register: %s", vp_status_text(status));
        }
}

CUmodule kernels_load(void)
{
    static char ptx[8192];
    size_t used =
        (size_t)snprintf(ptx, sizeof ptx, ".version 7.0\n.target sm_80\n.address_size 64\n");
    for (unsigned k = 0; k < KERNELS; k++)
        for (unsigned v = 0; v < SIM_VARIANTS; v++)
            used += (size_t)snprintf(ptx + used, sizeof ptx - used,
                                     ".visible .entry %s(%s)\n{ ret; }\n", names[k][v],
                                     kernels[k].params);
    assert(used < sizeof ptx);
    CUmodule module;
    CUresult result = cuModuleLoadData(&module, ptx);
    if (result != CUDA_SUCCESS) sim_fail("cuModuleLoadData returned %d", result);
    return module;
}

CUfunction kernels_get(CUmodule module, enum kernel kernel, unsigned variant)
{
    CUfunction function = NULL;
    CUresult result = cuModuleGetFunction(&function, module, names[kernel][variant]);
    if (result != CUDA_SUCCESS && !sim.card_lost)
        sim_fail("cuModuleGetFunction returned %d", result);
    return function;
}

const char *kernels_name(enum kernel kernel)
{
    return kernels[kernel].name;
}
