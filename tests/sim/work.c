/* Launches of the simulated programs, each with its effect on the reference memory. */
#include <inttypes.h>
#include <string.h>

#include "sim.h"

/* ---- Launches ---- */

static void pack(enum kernel kernel, void **params, unsigned count, char *buffer, size_t *bytes,
                 void **extra)
{
    *bytes = 0;
    for (unsigned i = 0; i < count; i++) {
        size_t size = kernel == KERNEL_POINT && i == 1 ? sizeof(struct point_args) : 8;
        memcpy(buffer + *bytes, params[i], size);
        *bytes += size;
    }
    extra[0] = CU_LAUNCH_PARAM_BUFFER_POINTER;
    extra[1] = buffer;
    extra[2] = CU_LAUNCH_PARAM_BUFFER_SIZE;
    extra[3] = bytes;
    extra[4] = CU_LAUNCH_PARAM_END;
}

static CUresult launch_native(CUfunction function, CUstream stream, void **params, void **extra)
{
    unsigned grid = (unsigned)sim_between(1, 8);
    if (sim_chance(50))
        return cuLaunchKernel(function, grid, 1, 1, 32, 1, 1, 0, stream, params, extra);
    CUlaunchConfig config = {.gridDimX = grid,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 32,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .hStream = stream};
    return cuLaunchKernelEx(&config, function, params, extra);
}

/* As the shim does it. */
CUresult work_run(struct job *job, enum kernel kernel, void **params, unsigned count)
{
    char buffer[64];
    size_t bytes;
    void *extra[5];
    CUstream stream = sim.streams[job->stream].handle;
    CUfunction function = kernels_get(sim.module[job->thread->card], kernel, job->variant);
    if (!function) return CUDA_ERROR_UNKNOWN;
    bool packed = sim_chance(20);
    if (packed) pack(kernel, params, count, buffer, &bytes, extra);
    struct pool_op op;
    pool_op_begin(&op, sim.pool, POOL_KERNEL, stream, "cuLaunchKernel");
    pool_op_touch_params(&op, function, packed ? NULL : params, packed ? extra : NULL);
    CUresult result = pool_op_enter(&op);
    if (result == CUDA_SUCCESS) {
        edge_yield();
        result = launch_native(function, stream, packed ? NULL : params, packed ? extra : NULL);
        job_check_admitted(result, kernels_name(kernel));
        edge_yield();
    }
    result = pool_op_leave(&op, result);
    sim.coverage.launches += result == CUDA_SUCCESS;
    return result;
}

/* The same, announced by hand; only for kernels that touch what they are given and no more. */
static CUresult launch_announced(struct job *job, enum kernel kernel, void **params)
{
    CUstream stream = sim.streams[job->stream].handle;
    CUfunction function = kernels_get(sim.module[job->thread->card], kernel, 0);
    if (!function) return CUDA_ERROR_UNKNOWN;
    vp_addr named[2 * SIM_NAMED];
    size_t count = 0;
    for (unsigned i = 0; i < job->read_count; i++) named[count++] = job->reads[i]->address;
    for (unsigned i = 0; i < job->write_count; i++) named[count++] = job->writes[i]->address;
    vp_use use;
    vp_status status = vp_use_begin(sim.pool, stream, named, count, &use);
    if (status != VP_OK) return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = launch_native(function, stream, params, NULL);
    job_check_admitted(result, "a use");
    edge_yield();
    vp_use_end(sim.pool, &use);
    sim.coverage.uses++;
    return result;
}

static void fill(struct job *job, struct sim_block *block)
{
    uint64_t words = block->words, seed = random_next(&sim.program) >> 2;
    struct place to = blocks_pick_part(block, &words);
    vp_addr dst = place_address(to), ignored = blocks_stale_address();
    void *params[] = {&dst, &words, &seed, &ignored};
    job_writes(job, block);
    if (!job_begin(job)) return;
    sim_trace("fill %#" PRIx64 ", %" PRIu64 " words, stream %u", dst, words, job->stream);
    CUresult result = sim_chance(10) ? launch_announced(job, KERNEL_FILL, params)
                                     : work_run(job, KERNEL_FILL, params, 4);
    for (uint64_t i = 0; i < words && result == CUDA_SUCCESS; i++)
        blocks_set_word(to, i, kernels_fill_value(seed, i), KNOWN);
    job_end(job, result, "fill");
}

static void mix(struct job *job, struct sim_block *to_block, struct sim_block *from_block)
{
    uint64_t words = to_block->words, seed = sim_below(1000);
    if (words > from_block->words) words = from_block->words;
    struct place to = blocks_pick_part(to_block, &words), from = {from_block, 0};
    vp_addr dst = place_address(to), src = place_address(from);
    void *params[] = {&dst, &src, &words, &seed};
    job_writes(job, to_block);
    job_reads(job, from_block);
    if (!job_begin(job)) return;
    sim_trace("mix %#" PRIx64 " with %#" PRIx64 ", %" PRIu64 " words, stream %u", dst, src, words,
              job->stream);
    CUresult result = sim_chance(10) ? launch_announced(job, KERNEL_MIX, params)
                                     : work_run(job, KERNEL_MIX, params, 4);
    if (result == CUDA_SUCCESS) blocks_mix_words(to, &from, words, seed);
    job_end(job, result, "mix");
}

/* COPY, or DERIVE with a delta. */
static void copy_by_kernel(struct job *job, struct sim_block *to_block,
                           struct sim_block *from_block)
{
    uint64_t words = to_block->words, delta = sim_chance(50) ? 0 : 8 * sim_below(4);
    if (words > from_block->words) words = from_block->words;
    struct place to = blocks_pick_part(to_block, &words), from = {from_block, 0};
    vp_addr dst = place_address(to), src = place_address(from);
    void *params[] = {&dst, &src, &words, &delta};
    job_writes(job, to_block);
    job_reads(job, from_block);
    if (!job_begin(job)) return;
    sim_trace("copy to %#" PRIx64 " from %#" PRIx64 ", %" PRIu64 " words + %" PRIu64 ", stream %u",
              dst, src, words, delta, job->stream);
    CUresult result =
        delta ? work_run(job, KERNEL_DERIVE, params, 4) : work_run(job, KERNEL_COPY, params, 3);
    if (result == CUDA_SUCCESS) blocks_copy_words(to, from, words, delta);
    job_end(job, result, "copy by kernel");
}

/* A kernel writes addresses that it was given into memory. */
static void point(struct job *job, struct sim_block *table)
{
    struct point_args args = {.at = (uint32_t)sim_below(4)};
    uint64_t frees = sim.coverage.frees;
    vp_addr addresses[POINT_COUNT], base = table->address;
    if (table->words < args.at + POINT_COUNT) return;
    for (unsigned i = 0; i < POINT_COUNT; i++) {
        struct sim_block *target = blocks_pick(table->card, 1);
        addresses[i] = target ? target->address + 8 * sim_below(target->words < 8 ? 1 : 8) : 0;
        if (!target || target == table) return;
    }
    memcpy(args.address, addresses, sizeof args.address);
    void *params[] = {&base, &args};
    job_writes(job, table);
    if (!job_begin(job)) return;
    sim_trace("point from %#" PRIx64 " to %#" PRIx64 " %#" PRIx64 " %#" PRIx64 ", stream %u", base,
              addresses[0], addresses[1], addresses[2], job->stream);
    CUresult result = work_run(job, KERNEL_POINT, params, 2);
    for (unsigned i = 0; i < POINT_COUNT && result == CUDA_SUCCESS; i++) {
        bool alive = sim.coverage.frees == frees; /* as far as is known */
        blocks_set_word((struct place){table, args.at}, i, addresses[i],
                        alive ? KNOWN : KNOWN_DEAD);
        table->pointers = true;
    }
    job_end(job, result, "point");
}

void work_launch(struct thread *thread)
{
    struct job job = {.thread = thread,
                      .stream = streams_pick(thread),
                      .variant = (unsigned)sim_below(SIM_VARIANTS)};
    struct sim_block *to = blocks_pick(thread->card, 1), *from = blocks_pick(thread->card, 1);
    if (!to || !from) return;
    uint64_t kind = sim_below(10);
    if (kind < 4 || to == from)
        fill(&job, to);
    else if (kind < 7)
        mix(&job, to, from);
    else if (kind < 9 || !sim.profile.tables)
        copy_by_kernel(&job, to, from);
    else
        point(&job, to);
}

/* ---- Kernels that find blocks through tables ---- */

/* The block that word `i` of a table leads to, if it can be followed; *words: what lies there. */
static struct sim_block *follow(const struct sim_block *table, uint64_t i, struct place *to,
                                uint64_t *words)
{
    if (table->known[i] != KNOWN) return NULL;
    vp_addr address = table->value[i];
    struct sim_block *block = blocks_find(address);
    if (!block || block->lost || (address - block->address) % 8 || block->card != table->card)
        return NULL;
    *to = (struct place){block, (address - block->address) / 8};
    *words = block->words - to->first;
    return block;
}

static bool names(struct sim_block *const *blocks, unsigned count, const struct sim_block *block)
{
    for (unsigned i = 0; i < count; i++)
        if (blocks[i] == block) return true;
    return false;
}

/* How many words of the table, from its first, lead to blocks other than those named; the blocks
 * are added to the job. */
static unsigned follow_all(struct job *job, struct sim_block *table, bool writing, struct place *to,
                           uint64_t *words)
{
    unsigned count = 0;
    *words = 512;
    while (count < 4 && count < table->words) {
        uint64_t there;
        struct sim_block *block = follow(table, count, &to[count], &there);
        if (!block || names(job->writes, job->write_count, block) ||
            (writing && names(job->reads, job->read_count, block)))
            break;
        if (there < *words) *words = there;
        if (writing)
            job_writes(job, block);
        else if (!names(job->reads, job->read_count, block))
            job_reads(job, block);
        count++;
    }
    return count;
}

static void gather(struct job *job, struct sim_block *to_block, struct sim_block *table)
{
    struct place from[4], to = {to_block, 0};
    uint64_t words;
    job_writes(job, to_block);
    job_reads(job, table);
    uint64_t count = follow_all(job, table, false, from, &words);
    if (words > to_block->words) words = to_block->words;
    vp_addr dst = to_block->address, base = table->address;
    void *params[] = {&dst, &base, &count, &words};
    if (!count || !job_begin(job)) return;
    sim_trace("gather into %#" PRIx64 " from %" PRIu64 " of table %#" PRIx64 ", stream %u", dst,
              count, base, job->stream);
    CUresult result = work_run(job, KERNEL_GATHER, params, 4);
    for (uint64_t k = 0; k < count && result == CUDA_SUCCESS; k++)
        blocks_mix_words(to, &from[k], words, k);
    sim.coverage.hidden += result == CUDA_SUCCESS;
    job_end(job, result, "gather");
}

static void scatter(struct job *job, struct sim_block *table)
{
    struct place to[4];
    uint64_t words, seed = sim_below(1000);
    job_reads(job, table);
    uint64_t count = follow_all(job, table, true, to, &words);
    vp_addr base = table->address;
    void *params[] = {&base, &count, &words, &seed};
    if (!count || !job_begin(job)) return;
    sim_trace("scatter through %" PRIu64 " of table %#" PRIx64 ", stream %u", count, base,
              job->stream);
    CUresult result = work_run(job, KERNEL_SCATTER, params, 4);
    for (uint64_t k = 0; k < count && result == CUDA_SUCCESS; k++)
        blocks_mix_words(to[k], NULL, words, seed);
    sim.coverage.hidden += result == CUDA_SUCCESS;
    job_end(job, result, "scatter");
}

/* Through a table of tables. */
static void deep(struct job *job, struct sim_block *to_block, struct sim_block *root)
{
    struct place table[4], from[4], to = {to_block, 0};
    uint64_t there, words = 512;
    job_writes(job, to_block);
    job_reads(job, root);
    uint64_t count = follow_all(job, root, false, table, &there);
    for (unsigned k = 0; k < count; k++) {
        struct sim_block *block = follow(table[k].block, table[k].first, &from[k], &there);
        bool fits = block && block != to_block;
        if (!fits) count = k;
        if (!fits) break;
        if (there < words) words = there;
        if (!names(job->reads, job->read_count, block)) job_reads(job, block);
    }
    if (words > to_block->words) words = to_block->words;
    vp_addr dst = to_block->address, base = root->address;
    void *params[] = {&dst, &base, &count, &words};
    if (!count || !job_begin(job)) return;
    sim_trace("gather into %#" PRIx64 " through %" PRIu64 " of the tables at %#" PRIx64
              ", stream %u",
              dst, count, base, job->stream);
    CUresult result = work_run(job, KERNEL_DEEP, params, 4);
    for (uint64_t k = 0; k < count && result == CUDA_SUCCESS; k++)
        blocks_mix_words(to, &from[k], words, k);
    sim.coverage.hidden += result == CUDA_SUCCESS;
    job_end(job, result, "deep gather");
}

static struct sim_block *pick_table(unsigned card)
{
    for (unsigned tries = 0; tries < 8; tries++) {
        struct sim_block *block = blocks_pick(card, 1);
        if (block && block->pointers) return block;
    }
    return NULL;
}

void work_hidden(struct thread *thread)
{
    struct job job = {.thread = thread,
                      .stream = streams_pick(thread),
                      .variant = (unsigned)sim_below(SIM_VARIANTS)};
    struct sim_block *table = pick_table(thread->card), *to = blocks_pick(thread->card, 1);
    if (!table || !to || to == table) return;
    uint64_t kind = sim_below(10);
    if (kind < 4)
        gather(&job, to, table);
    else if (kind < 7)
        scatter(&job, table);
    else
        deep(&job, to, table);
}
