/* The kernels of bench_kernels.cu for the emulator. A block has a stretch of the words to itself
 * here; their costs are those of streaming once through, and of one load after the other. */
#include <assert.h>
#include <dlfcn.h>

#include "bench.h"
#include "emu/emu_kernel.h"

static const uint64_t mix = 0x9e3779b97f4a7c15;

static uint64_t blocks_of(const struct emu_block *b)
{
    return (uint64_t)b->grid[0] * b->grid[1] * b->grid[2];
}

/* The words [*first, *last) of `count` that the blocks to run have. */
static void stretch(const struct emu_block *b, uint64_t count, uint64_t *first, uint64_t *last)
{
    uint64_t each = (count + blocks_of(b) - 1) / blocks_of(b);
    *first = b->first * each < count ? b->first * each : count;
    *last = b->last * each < count ? b->last * each : count;
}

static void write_words(struct emu_block *b)
{
    uint64_t to = emu_param_u64(b, 0), count = emu_param_u64(b, 1), seed = emu_param_u64(b, 2);
    uint64_t first, last;
    stretch(b, count, &first, &last);
    for (size_t part; first < last; first += part / 8) {
        uint64_t *words = emu_access(b, to + 8 * first, 8 * (last - first), EMU_WRITE, &part);
        for (size_t i = 0; i < part / 8; i++) words[i] = (first + i + seed) * mix;
    }
}

static void read_words(struct emu_block *b)
{
    uint64_t from = emu_param_u64(b, 0), count = emu_param_u64(b, 1), first, last, sum = 0;
    stretch(b, count, &first, &last);
    for (size_t part; first < last; first += part / 8) {
        const uint64_t *words =
            emu_access(b, from + 8 * first, 8 * (last - first), EMU_READ, &part);
        for (size_t i = 0; i < part / 8; i++) sum += words[i];
    }
    emu_atomic_add_u64(b, emu_param_u64(b, 2), sum);
}

static void link_words(struct emu_block *b)
{
    uint64_t base = emu_param_u64(b, 0), count = emu_param_u64(b, 1), stride = emu_param_u64(b, 2);
    uint64_t first, last;
    stretch(b, count, &first, &last);
    for (uint64_t i = first; i < last; i++)
        emu_store_u64(b, base + 8 * i * stride,
                      base + 8 * ((i * 1103515245 + 12345) % count * stride));
}

static void chase_words(struct emu_block *b)
{
    uint64_t at = emu_param_u64(b, 0), loads = emu_param_u64(b, 1);
    for (uint64_t i = 0; i < loads && !emu_faulted(b); i++) at = emu_load_u64(b, at);
    emu_store_u64(b, emu_param_u64(b, 2), at);
}

static uint64_t stream_cost(struct emu_block *b)
{
    return emu_cost(b, emu_param_u64(b, 0), 8 * emu_param_u64(b, 1));
}

static uint64_t chase_cost(struct emu_block *b)
{
    return emu_latency(b, emu_param_u64(b, 0)) * emu_param_u64(b, 1);
}

bool bench_register_kernels(const struct driver *driver)
{
    vp_status (*enter)(const char *, emu_kernel_fn, emu_cost_fn);
    *(void **)&enter = dlsym(driver->library, "emu_kernel_register");
    return enter && enter("bench_write", write_words, stream_cost) == VP_OK &&
           enter("bench_read", read_words, stream_cost) == VP_OK &&
           enter("bench_link", link_words, NULL) == VP_OK &&
           enter("bench_chase", chase_words, chase_cost) == VP_OK;
}
