/* full: lives near the edge of the memory that there is, in the ways that break allocators.
 *
 * Usage: full pieces BYTES ROUNDS   frees BYTES in pieces, in random order, and asks for it whole
 *        full lifetimes BYTES COUNT  COUNT blocks of random sizes and lives, at most BYTES at once
 *        full spikes BYTES STEPS     keeps 92 % of BYTES, which each step uses, and needs 108 %
 *        full crowded BYTES ROUNDS   has half of BYTES when other memory of the card is taken, all
 *                                    that the driver gives, past any pool; then wants all of BYTES
 *
 * All of them with one word more, a library, take memory by its vmm_alloc and vmm_free
 * (vmm_plugin.c) instead of cuMemAlloc and cuMemFree.
 *
 * What lives is marked by a kernel, a word every 64 KiB, and checked by another before it is freed.
 * `lifetimes` then fills up what is left. Prints a line of JSON: what was asked for and checked,
 * the most that lived, and the words that were wrong. Exit status 1: a word was wrong, or an
 * allocation failed that should not. It knows nothing of vrampool. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "driver/abi.h"
#include "emu/emu_kernel.h"
#include "gpu.h"

enum { STRIDE = 64 << 10, PAGE = 2 << 20, MAX_BLOCKS = 1 << 16, SEED = 1 };

/* One thread a word; `full_check` adds up the words that are not as `full_mark` left them. */
static const char full_ptx[] =
    ".version 6.4\n.target sm_75\n.address_size 64\n"
    ".visible .entry full_mark(.param .u64 at, .param .u32 words, .param .u32 value)\n"
    "{\n"
    "  .reg .pred %p;\n"
    "  .reg .b32 %i, %n, %w, %v;\n"
    "  .reg .b64 %at, %o;\n"
    "  ld.param.u64 %at, [at];\n"
    "  ld.param.u32 %n, [words];\n"
    "  ld.param.u32 %v, [value];\n"
    "  mov.u32 %i, %ctaid.x;\n"
    "  mov.u32 %w, %ntid.x;\n"
    "  mul.lo.u32 %i, %i, %w;\n"
    "  mov.u32 %w, %tid.x;\n"
    "  add.u32 %i, %i, %w;\n"
    "  setp.ge.u32 %p, %i, %n;\n"
    "  @%p ret;\n"
    "  mul.wide.u32 %o, %i, 65536;\n"
    "  cvta.to.global.u64 %at, %at;\n"
    "  add.u64 %at, %at, %o;\n"
    "  add.u32 %v, %v, %i;\n"
    "  st.global.u32 [%at], %v;\n"
    "  ret;\n"
    "}\n"
    ".visible .entry full_check(.param .u64 at, .param .u32 words, .param .u32 value,\n"
    "                           .param .u64 wrong)\n"
    "{\n"
    "  .reg .pred %p;\n"
    "  .reg .b32 %i, %n, %w, %v;\n"
    "  .reg .b64 %at, %o, %wrong;\n"
    "  ld.param.u64 %at, [at];\n"
    "  ld.param.u64 %wrong, [wrong];\n"
    "  ld.param.u32 %n, [words];\n"
    "  ld.param.u32 %v, [value];\n"
    "  mov.u32 %i, %ctaid.x;\n"
    "  mov.u32 %w, %ntid.x;\n"
    "  mul.lo.u32 %i, %i, %w;\n"
    "  mov.u32 %w, %tid.x;\n"
    "  add.u32 %i, %i, %w;\n"
    "  setp.ge.u32 %p, %i, %n;\n"
    "  @%p ret;\n"
    "  mul.wide.u32 %o, %i, 65536;\n"
    "  cvta.to.global.u64 %at, %at;\n"
    "  add.u64 %at, %at, %o;\n"
    "  add.u32 %v, %v, %i;\n"
    "  ld.global.u32 %w, [%at];\n"
    "  setp.eq.u32 %p, %w, %v;\n"
    "  @%p ret;\n"
    "  cvta.to.global.u64 %wrong, %wrong;\n"
    "  red.global.add.u32 [%wrong], 1;\n"
    "  ret;\n"
    "}\n";

void emu_kernel_full_mark(struct emu_block *b);
void emu_kernel_full_mark(struct emu_block *b)
{
    uint64_t at = emu_param_u64(b, 0), first, last;
    uint32_t words = emu_param_u32(b, 1), value = emu_param_u32(b, 2);
    emu_threads(b, &first, &last);
    if (last > words) last = words;
    for (uint64_t i = first; i < last; i++) emu_store_u32(b, at + i * STRIDE, value + (uint32_t)i);
}

void emu_kernel_full_check(struct emu_block *b);
void emu_kernel_full_check(struct emu_block *b)
{
    uint64_t at = emu_param_u64(b, 0), wrong = emu_param_u64(b, 3), first, last;
    uint32_t words = emu_param_u32(b, 1), value = emu_param_u32(b, 2);
    emu_threads(b, &first, &last);
    if (last > words) last = words;
    for (uint64_t i = first; i < last; i++)
        if (emu_load_u32(b, at + i * STRIDE) != value + (uint32_t)i)
            emu_atomic_add_u32(b, wrong, 1);
}

struct block {
    gpu_address at;
    size_t bytes;
    uint32_t value;
};

struct crowd {
    struct gpu gpu;
    gpu_function mark, check;
    int (*alloc)(gpu_address *address, size_t bytes);
    int (*free)(gpu_address address);
    gpu_address wrong; /* one word: how many were */
    struct random random;
    struct block blocks[MAX_BLOCKS];
    unsigned count;
    size_t live_bytes, most_bytes;
    unsigned long long asked; /* blocks, in all */
};

/* Allocates a block behind the others and marks it. False: there was no memory. */
static int try_birth(struct crowd *crowd, size_t bytes)
{
    struct block *block = &crowd->blocks[crowd->count];
    if (crowd->count == MAX_BLOCKS) return 0;
    if (crowd->alloc(&block->at, bytes) != 0) return 0;
    block->bytes = bytes;
    block->value = (uint32_t)random_next(&crowd->random);
    unsigned words = (unsigned)((bytes + STRIDE - 1) / STRIDE);
    void *params[] = {&block->at, &words, &block->value};
    gpu_launch(&crowd->gpu, crowd->mark, words, params);
    crowd->count++;
    crowd->asked++;
    crowd->live_bytes += bytes;
    if (crowd->live_bytes > crowd->most_bytes) crowd->most_bytes = crowd->live_bytes;
    return 1;
}

static void birth(struct crowd *crowd, size_t bytes)
{
    if (try_birth(crowd, bytes)) return;
    fprintf(stderr, "full: no memory for %zu bytes beside %zu in %u blocks\n", bytes,
            crowd->live_bytes, crowd->count);
    exit(1);
}

static void check(struct crowd *crowd, const struct block *block)
{
    unsigned words = (unsigned)((block->bytes + STRIDE - 1) / STRIDE);
    void *params[] = {(void *)&block->at, &words, (void *)&block->value, &crowd->wrong};
    gpu_launch(&crowd->gpu, crowd->check, words, params);
}

/* Checks a block and frees it; the last one takes its place in the list. */
static void death(struct crowd *crowd, unsigned index)
{
    struct block *block = &crowd->blocks[index];
    check(crowd, block);
    gpu_check(&crowd->gpu, crowd->free(block->at), "freeing a block");
    crowd->live_bytes -= block->bytes;
    *block = crowd->blocks[--crowd->count];
}

static void kill_all(struct crowd *crowd)
{
    while (crowd->count) death(crowd, (unsigned)random_below(&crowd->random, crowd->count));
}

static void pieces(struct crowd *crowd, size_t bytes, unsigned rounds)
{
    for (unsigned round = 0; round < rounds; round++) {
        while (crowd->live_bytes < bytes) {
            size_t left = bytes - crowd->live_bytes, most = bytes / 64 / PAGE + 1;
            size_t piece = PAGE * (1 + random_below(&crowd->random, most));
            birth(crowd, piece < left ? piece : left);
        }
        kill_all(crowd);
        birth(crowd, bytes);
        death(crowd, 0);
    }
}

/* Three in four are pages, up to a 48th of all; the others are small, the smaller the less there
 * is: those of one size share a page, and the pages of all sizes must not matter. */
static size_t random_size(struct crowd *crowd, size_t bytes)
{
    if (random_below(&crowd->random, 4) == 0)
        return 512 * (1 + random_below(&crowd->random, bytes >> 26));
    return PAGE * (1 + random_below(&crowd->random, bytes / 48 / PAGE + 1));
}

static void lifetimes(struct crowd *crowd, size_t bytes, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        size_t size = random_size(crowd, bytes);
        while (crowd->live_bytes + size > bytes)
            death(crowd, (unsigned)random_below(&crowd->random, crowd->count));
        birth(crowd, size);
    }
    while (try_birth(crowd, PAGE)) continue;
    kill_all(crowd);
}

static void spikes(struct crowd *crowd, size_t bytes, unsigned steps)
{
    size_t kept = bytes / 100 * 92, most = bytes / 100 * 108,
           piece = PAGE * (1 + bytes / 64 / PAGE);
    while (crowd->live_bytes < kept) birth(crowd, piece);
    unsigned lasting = crowd->count;
    for (unsigned step = 0; step < steps; step++) {
        for (unsigned i = 0; i < lasting; i++) check(crowd, &crowd->blocks[i]);
        while (crowd->live_bytes < most) birth(crowd, piece);
        while (crowd->count > lasting) death(crowd, crowd->count - 1);
    }
    kill_all(crowd);
}

/* The driver's calls for memory that programs map themselves. */
typedef CUresult (*create_call)(CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *,
                                unsigned long long);
typedef CUresult (*release_call)(CUmemGenericAllocationHandle);

static void *find(const char *symbol)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW), *found = NULL;
    if (library) found = dlsym(library, symbol);
    if (found) return found;
    fprintf(stderr, "full: the driver has no %s\n", symbol);
    exit(1);
}

/* Takes memory piece by piece until there is no more, and gives the last one back: the driver needs
 * some for itself. Returns how many are left. */
static unsigned take_card(CUmemGenericAllocationHandle *handles, size_t piece)
{
    create_call create = (create_call)find("cuMemCreate");
    release_call release = (release_call)find("cuMemRelease");
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
    unsigned count = 0;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    while (count < MAX_BLOCKS && create(&handles[count], piece, &prop, 0) == CUDA_SUCCESS) count++;
    if (count) release(handles[--count]);
    return count;
}

static void crowded(struct crowd *crowd, size_t bytes, unsigned rounds)
{
    static CUmemGenericAllocationHandle handles[MAX_BLOCKS];
    release_call release = (release_call)find("cuMemRelease");
    size_t piece = PAGE * (1 + bytes / 64 / PAGE);
    for (unsigned round = 0; round < rounds; round++) {
        while (crowd->live_bytes < bytes / 2) birth(crowd, piece);
        unsigned count = take_card(handles, piece);
        while (crowd->live_bytes < bytes) birth(crowd, piece);
        for (unsigned i = 0; i < crowd->count; i++) check(crowd, &crowd->blocks[i]);
        gpu_check(&crowd->gpu, crowd->gpu.cuCtxSynchronize(), "waiting, the card taken");
        fprintf(stderr, "full: %zu bytes of the card were taken\n", count * piece);
        while (count) release(handles[--count]);
        kill_all(crowd);
    }
}

static void use_library(struct crowd *crowd, const char *path)
{
    void *library = dlopen(path, RTLD_NOW);
    if (library) {
        *(void **)&crowd->alloc = dlsym(library, "vmm_alloc");
        *(void **)&crowd->free = dlsym(library, "vmm_free");
    }
    if (library && crowd->alloc && crowd->free) return;
    fprintf(stderr, "full: %s has no vmm_alloc and vmm_free\n", path);
    exit(2);
}

int main(int count, char **words)
{
    static struct crowd crowd = {.random = {SEED}};
    static const struct {
        const char *name;
        void (*run)(struct crowd *crowd, size_t bytes, unsigned number);
    } ways[] = {
        {"pieces", pieces}, {"lifetimes", lifetimes}, {"spikes", spikes}, {"crowded", crowded}};
    size_t bytes = 0;
    int way = (int)(sizeof ways / sizeof *ways) - 1;
    while (way >= 0 && ((count != 4 && count != 5) || strcmp(words[1], ways[way].name) != 0)) way--;
    if (way < 0 || !gpu_parse_bytes(words[2], &bytes) || bytes < 64 << 20) {
        fprintf(stderr,
                "full pieces|lifetimes|spikes|crowded BYTES NUMBER [LIBRARY], of at least 64M\n");
        return 2;
    }
    gpu_open(&crowd.gpu, "full", NULL);
    gpu_load_kernels(&crowd.gpu, full_ptx);
    crowd.alloc = crowd.gpu.cuMemAlloc_v2;
    crowd.free = crowd.gpu.cuMemFree_v2;
    if (count == 5) use_library(&crowd, words[4]);
    crowd.mark = gpu_kernel(&crowd.gpu, "full_mark");
    crowd.check = gpu_kernel(&crowd.gpu, "full_check");
    crowd.wrong = gpu_alloc(&crowd.gpu, sizeof(uint32_t));
    gpu_check(&crowd.gpu, crowd.gpu.cuMemsetD8_v2(crowd.wrong, 0, sizeof(uint32_t)), "cuMemsetD8");
    ways[way].run(&crowd, bytes, (unsigned)strtoul(words[3], NULL, 10));
    uint32_t wrong = 0;
    gpu_check(&crowd.gpu, crowd.gpu.cuMemcpyDtoH_v2(&wrong, crowd.wrong, sizeof wrong),
              "cuMemcpyDtoH");
    printf("{\"way\": \"%s\", \"bytes\": %zu, \"blocks\": %llu, \"most_bytes\": %zu, "
           "\"wrong\": %u}\n",
           ways[way].name, bytes, crowd.asked, crowd.most_bytes, wrong);
    return wrong != 0;
}
