/* What lies in memory, where it is scaled down and real: every operation reads words of all blocks
 * that it uses, and what it writes depends on each word read. So one wrong byte, anywhere and at
 * any time, ends up in what is compared: a sum over all that was ever read, and all that lasts.
 *
 * One word of each page is used, enough to see a page of another block or of another time. The
 * emulator runs an operation in parts, in any order: each part takes its share of the words of all
 * blocks, and the sum does not depend on the order. */
#include <stdlib.h>

#include "base/random.h"
#include "replay.h"

enum { PAGE_BYTES = 4096, PAGE_WORDS = PAGE_BYTES / 8 };

static uint64_t sum;

/* The offset of the word that is used in a page of a block of so many bytes. */
static uint64_t word_at(uint64_t page, uint64_t bytes)
{
    uint64_t left = (bytes - page * PAGE_BYTES) / 8, words = left < PAGE_WORDS ? left : PAGE_WORDS;
    return page * PAGE_BYTES + 8 * (page * 37 % words);
}

static uint64_t pages_of(uint64_t bytes)
{
    return (bytes / 8 + PAGE_WORDS - 1) / PAGE_WORDS;
}

static uint64_t mix(uint64_t a, uint64_t b)
{
    struct random random = {a * 3 ^ b};
    return random_next(&random);
}

/* One of REPLAY_DATA_GRID parts. */
static void run_part(struct emu_block *b, uint64_t index, const struct replay_uses *uses)
{
    uint64_t read = mix(uses->seed, index);
    for (uint32_t i = 0; i < uses->count; i++) {
        uint64_t bytes = uses->part[i].bytes, pages = pages_of(bytes);
        uint64_t last = pages * (index + 1) / REPLAY_DATA_GRID;
        for (uint64_t page = pages * index / REPLAY_DATA_GRID; page < last; page++)
            if (uses->part[i].reads)
                read = mix(read, emu_load_u64(b, uses->part[i].address + word_at(page, bytes)));
    }
    sum += read;
    for (uint32_t i = 0; i < uses->count; i++) {
        uint64_t bytes = uses->part[i].bytes, pages = pages_of(bytes);
        uint64_t last = pages * (index + 1) / REPLAY_DATA_GRID;
        for (uint64_t page = pages * index / REPLAY_DATA_GRID; page < last; page++)
            if (uses->part[i].writes)
                emu_store_u64(b, uses->part[i].address + word_at(page, bytes), mix(read, page + i));
    }
}

void replay_data_run(struct emu_block *b, const struct replay_uses *uses)
{
    for (uint64_t index = b->first; index < b->last; index++) run_part(b, index, uses);
}

static CUresult copy_out(uint64_t *to, vp_addr from, uint64_t bytes)
{
    if (replay.native) return cuMemcpyDtoH_v2(to, from, bytes);
    struct pool_op op;
    pool_op_begin(&op, replay.pool, POOL_COPY, NULL, "cuMemcpyDtoH");
    pool_op_touch_range(&op, from, bytes);
    CUresult result = pool_op_enter(&op);
    replay_settle();
    if (result == CUDA_SUCCESS) result = cuMemcpyDtoH_v2(to, from, bytes);
    return pool_op_leave(&op, result);
}

void replay_data_look(vp_addr address, uint64_t bytes)
{
    uint64_t page_words[PAGE_WORDS];
    for (uint64_t page = 0; page < pages_of(bytes); page++) {
        uint64_t at = page * PAGE_BYTES, left = bytes / 8 * 8 - at;
        uint64_t part = left < PAGE_BYTES ? left : PAGE_BYTES;
        if (copy_out(page_words, address + at, part) != CUDA_SUCCESS) abort();
        sum += mix(page, page_words[(word_at(page, bytes) - at) / 8]);
    }
}

uint64_t replay_data_sum(void)
{
    return sum;
}
