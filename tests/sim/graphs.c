/* Graphs: a few launches captured, then launched as one, several times. */
#include <inttypes.h>

#include "sim.h"

enum { NODES_MOST = 3, BLOCKS_MOST = 3 };

struct node {
    enum kernel kernel; /* FILL or MIX */
    struct place to, from;
    uint64_t words, seed;
};

struct graph {
    struct thread *thread;
    CUstream stream; /* of its own */
    struct sim_block *blocks[BLOCKS_MOST];
    unsigned block_count;
    struct node nodes[NODES_MOST];
    unsigned node_count;
};

static void must(CUresult result, const char *call)
{
    if (result != CUDA_SUCCESS && !sim.card_lost) sim_fail("%s returned %d", call, result);
}

/* Blocks that nobody else uses from now on until the graph is gone. */
static bool take_blocks(struct graph *graph)
{
    unsigned count = (unsigned)sim_between(1, BLOCKS_MOST);
    for (unsigned i = 0; i < count; i++) {
        struct sim_block *block = blocks_pick(graph->thread->card, 1);
        if (!block || block->reading || block->writing) continue;
        block->writing = true;
        graph->blocks[graph->block_count++] = block;
    }
    for (unsigned i = 0; i < graph->block_count; i++) {
        const struct sim_block *block = graph->blocks[i];
        uint32_t streams = block->ghosts | block->readers;
        if (block->writer >= 0) streams |= 1u << block->writer;
        for (; streams; streams &= streams - 1)
            must(cuEventSynchronize(sim.streams[__builtin_ctz(streams)].event),
                 "cuEventSynchronize");
    }
    return graph->block_count > 0;
}

/* All work on them is done. */
static void give_blocks(struct graph *graph)
{
    for (unsigned i = 0; i < graph->block_count; i++) {
        struct sim_block *block = graph->blocks[i];
        block->writing = false;
        block->writer = -1;
        block->readers = block->ghosts = 0;
    }
}

static struct sim_block *any_block(const struct graph *graph)
{
    return graph->blocks[sim_below(graph->block_count)];
}

static struct node choose_node(const struct graph *graph)
{
    struct sim_block *to = any_block(graph), *from = any_block(graph);
    struct node node = {.kernel = sim_chance(50) || to == from ? KERNEL_FILL : KERNEL_MIX,
                        .words = to->words,
                        .seed = sim_below(1000)};
    if (node.kernel == KERNEL_MIX && from->words < node.words) node.words = from->words;
    node.to = blocks_pick_part(to, &node.words);
    node.from = (struct place){from, 0};
    return node;
}

/* Into the capture, as the shim does it. */
static void launch_node(struct graph *graph, const struct node *node)
{
    CUfunction function = kernels_get(sim.module[graph->thread->card], node->kernel,
                                      (unsigned)sim_below(SIM_VARIANTS));
    if (!function) return;
    vp_addr dst = place_address(node->to), src = place_address(node->from), ignored = 0;
    uint64_t words = node->words, seed = node->seed;
    void *fill[] = {&dst, &words, &seed, &ignored}, *mix[] = {&dst, &src, &words, &seed};
    void **params = node->kernel == KERNEL_FILL ? fill : mix;
    struct pool_op op;
    pool_op_begin(&op, sim.pool, POOL_KERNEL, graph->stream, "cuLaunchKernel");
    pool_op_touch_params(&op, function, params, NULL);
    CUresult result = pool_op_enter(&op);
    if (result == CUDA_SUCCESS) {
        edge_yield();
        result = cuLaunchKernel(function, 4, 1, 1, 32, 1, 1, 0, graph->stream, params, NULL);
        job_check_admitted(result, "a captured launch");
    }
    result = pool_op_leave(&op, result);
    if (result == CUDA_SUCCESS) graph->nodes[graph->node_count++] = *node;
    edge_yield();
}

static CUgraphExec capture(struct graph *graph)
{
    static const int modes[] = {CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                CU_STREAM_CAPTURE_MODE_RELAXED};
    unsigned nodes = (unsigned)sim_between(1, NODES_MOST);
    CUgraph captured = NULL;
    CUgraphExec exec = NULL;
    pool_capture_begins(sim.pool, graph->stream);
    must(cuStreamBeginCapture_v2(graph->stream, modes[sim_below(2)]), "cuStreamBeginCapture");
    for (unsigned i = 0; i < nodes; i++) {
        struct node node = choose_node(graph);
        launch_node(graph, &node);
    }
    must(cuStreamEndCapture(graph->stream, &captured), "cuStreamEndCapture");
    pool_capture_ends(sim.pool, graph->stream, captured);
    if (sim.card_lost) return NULL;
    must(cuGraphInstantiateWithFlags(&exec, captured, 0), "cuGraphInstantiate");
    pool_keeper_copies(sim.pool, exec, captured);
    pool_keeper_ends(sim.pool, captured);
    must(cuGraphDestroy(captured), "cuGraphDestroy");
    return exec;
}

/* What the graph does, on the reference memory. */
static void apply(const struct graph *graph)
{
    for (unsigned n = 0; n < graph->node_count; n++) {
        const struct node *node = &graph->nodes[n];
        if (node->kernel == KERNEL_MIX)
            blocks_mix_words(node->to, &node->from, node->words, node->seed);
        for (uint64_t i = 0; node->kernel == KERNEL_FILL && i < node->words; i++)
            blocks_set_word(node->to, i, kernels_fill_value(node->seed, i), KNOWN);
    }
}

static void launch_graph(const struct graph *graph, CUgraphExec exec)
{
    struct pool_op op;
    pool_op_begin(&op, sim.pool, POOL_GRAPH, graph->stream, "cuGraphLaunch");
    pool_op_touch_anything(&op);
    CUresult result = pool_op_enter(&op);
    if (result == CUDA_SUCCESS) {
        edge_yield();
        result = cuGraphLaunch(exec, graph->stream);
        job_check_admitted(result, "a graph");
    }
    result = pool_op_leave(&op, result);
    if (result == CUDA_SUCCESS) apply(graph);
    sim.coverage.graphs += result == CUDA_SUCCESS;
    if (result != CUDA_SUCCESS && !sim.injected && !sim.card_lost)
        sim_fail("a graph is refused with %d", result);
    edge_progress();
    world_check_findings();
}

void graphs_run(struct thread *thread)
{
    struct graph graph = {.thread = thread};
    if (!take_blocks(&graph)) return;
    must(cuStreamCreateWithPriority(&graph.stream, CU_STREAM_NON_BLOCKING, 0), "cuStreamCreate");
    sim_trace("a graph over %u blocks", graph.block_count);
    CUgraphExec exec = capture(&graph);
    for (uint64_t i = sim_between(1, 3); exec && i > 0; i--) {
        launch_graph(&graph, exec);
        edge_yield();
    }
    must(cuStreamSynchronize(graph.stream), "cuStreamSynchronize");
    sim_trace("the graph ends");
    if (exec) pool_keeper_ends(sim.pool, exec);
    if (exec) must(cuGraphExecDestroy(exec), "cuGraphExecDestroy");
    pool_stream_ends(sim.pool, graph.stream);
    must(cuStreamDestroy_v2(graph.stream), "cuStreamDestroy");
    give_blocks(&graph);
}
