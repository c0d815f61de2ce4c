/* pace: what a program that is bound by its launches loses where memory has to move.
 *
 * Each step launches OPS empty kernels, each after GAP of the calling thread's own work, as Python
 * does it; they go over BLOCKS blocks to the last and back to the first, as a forward and a
 * backward pass over frozen weights do, and use one more throughout. Run it under `vrampool run`
 * with
 * `--policy plan` and `lru` and HBM for some of the blocks, and with `--no-pool`:
 *
 *     vrampool run --emulate h200@256M --hbm 64M --chunk 2M -- build/bench/pace 40 2M
 *
 * stdout has one line of JSON: a step's time and what of it was spent in launches, in ms, the
 * median of the last half of the steps with the least and the largest, and the launches in it that
 * took longer than 20 us. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/sample.h"
#include "base/units.h"
#include "emu/emu_kernel.h"
#include "gpu.h"

enum { OPS = 4600, STEPS = 20, MEASURED = STEPS / 2, SHAPES = 13 };

static const double gap_ns = 20e3, slow_ns = 20e3;

static const char noop_ptx[] = ".version 6.4\n.target sm_75\n.address_size 64\n"
                               ".visible .entry bench_noop(.param .u64 a, .param .u64 b)\n"
                               "{ ret; }\n";

void emu_kernel_bench_noop(struct emu_block *b);
void emu_kernel_bench_noop(struct emu_block *b) {}

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

struct program {
    struct gpu gpu;
    gpu_function function;
    gpu_address *blocks, all; /* `all` is used by each operation */
    unsigned count;
};

struct step {
    double ms, launch_ms, slow;
};

/* The block that an operation uses: to the last and back. */
static gpu_address block_of(const struct program *program, unsigned op)
{
    const unsigned half = OPS / 2, from_end = op < half ? op : OPS - 1 - op;
    return program->blocks[from_end * program->count / half];
}

static double launch(struct program *program, unsigned op)
{
    gpu_address block = block_of(program, op);
    void *params[] = {&block, &program->all};
    unsigned grid = 1 + (op * 2654435761u >> 7) % SHAPES; /* else the shortest repetition wins */
    double start = now_ns();
    int error =
        program->gpu.cuLaunchKernel(program->function, grid, 1, 1, 32, 1, 1, 0, NULL, params, NULL);
    double end = now_ns();
    gpu_check(&program->gpu, error, "launching");
    return end - start;
}

static struct step run_step(struct program *program)
{
    struct step step = {0};
    double start = now_ns();
    for (unsigned op = 0; op < OPS; op++) {
        double until = now_ns() + gap_ns;
        while (now_ns() < until) continue;
        double took = launch(program, op);
        step.launch_ms += took / 1e6;
        step.slow += took > slow_ns;
    }
    gpu_check(&program->gpu, program->gpu.cuCtxSynchronize(), "waiting");
    step.ms = (now_ns() - start) / 1e6;
    return step;
}

static void print_figure(const char *name, double *values, const char *end)
{
    double middle = sample_median(values, MEASURED); /* which sorts them */
    printf("\"%s\": {\"median\": %.1f, \"least\": %.1f, \"largest\": %.1f}%s", name, middle,
           values[0], values[MEASURED - 1], end);
}

int main(int argc, char **argv)
{
    struct program program = {0};
    uint64_t bytes = 0;
    program.count = argc == 3 ? (unsigned)strtoul(argv[1], NULL, 10) : 0;
    if (program.count == 0 || !units_parse_size(argv[2], &bytes) || bytes == 0) {
        fprintf(stderr, "usage: pace BLOCKS BYTES, such as: pace 40 2M\n");
        return 2;
    }
    gpu_open(&program.gpu, "pace", NULL);
    gpu_load_kernels(&program.gpu, noop_ptx);
    program.function = gpu_kernel(&program.gpu, "bench_noop");
    program.all = gpu_alloc(&program.gpu, bytes);
    program.blocks = calloc(program.count, sizeof *program.blocks);
    if (!program.blocks) abort();
    for (unsigned i = 0; i < program.count; i++) {
        program.blocks[i] = gpu_alloc(&program.gpu, bytes);
        int error = program.gpu.cuMemsetD8_v2(program.blocks[i], (unsigned char)i, bytes);
        gpu_check(&program.gpu, error, "cuMemsetD8");
    }
    double ms[MEASURED], launch_ms[MEASURED], slow[MEASURED];
    for (unsigned i = 0; i < STEPS; i++) {
        struct step step = run_step(&program);
        ms[i % MEASURED] = step.ms;
        launch_ms[i % MEASURED] = step.launch_ms;
        slow[i % MEASURED] = step.slow;
    }
    printf("{");
    print_figure("step_ms", ms, ", ");
    print_figure("launch_ms", launch_ms, ", ");
    print_figure("slow_launches", slow, "}\n");
    free(program.blocks);
    return 0;
}
