/* Graphs, through the shim, on pool memory that does not fit the card: what a graph uses is there
 * whenever it is launched, however the graph came into being, and may move again when it is gone.
 * With and without verify mode. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "emu/abi_more.h"
#include "emu/emu_kernel.h"
#include "shim/blocks.h"
#include "vrampool.h"

enum { WORDS = BLOCK_BYTES / 4 };

/* ---- The kernel: adds a number to each word ---- */

static const char ptx[] =
    ".version 6.4\n.target sm_75\n.address_size 64\n"
    ".visible .entry graphs_add(.param .u64 at, .param .u32 number, .param .u32 count)\n"
    "{\n  ret;\n}\n"; /* for real cards there is none: the test is for the emulator */

void emu_kernel_graphs_add(struct emu_block *b);
void emu_kernel_graphs_add(struct emu_block *b)
{
    uint64_t at = emu_param_u64(b, 0), first, last;
    uint32_t number = emu_param_u32(b, 1), count = emu_param_u32(b, 2);
    emu_threads(b, &first, &last);
    if (last > count) last = count;
    for (uint64_t i = first; i < last; i++)
        emu_store_u32(b, at + 4 * i, emu_load_u32(b, at + 4 * i) + number);
}

struct add_params {
    CUdeviceptr at;
    uint32_t number, count;
    void *list[3];
};

static struct emu_kernel_node add_node(struct add_params *params, unsigned to, uint32_t number)
{
    *params = (struct add_params){block[to], number, 64, {NULL}};
    params->list[0] = &params->at;
    params->list[1] = &params->number;
    params->list[2] = &params->count;
    return (struct emu_kernel_node){.func = add,
                                    .gridDimX = 1,
                                    .gridDimY = 1,
                                    .gridDimZ = 1,
                                    .blockDimX = 64,
                                    .blockDimY = 1,
                                    .blockDimZ = 1,
                                    .kernelParams = params->list};
}

/* ---- Pressure, and what is seen of it ---- */

static vp_stats read_stats(void)
{
    vp_stats stats;
    vp_pool *(*find)(void) = (vp_pool * (*)(void)) dlsym(RTLD_DEFAULT, "vp_default");
    void (*read)(vp_pool *, vp_stats *) =
        (void (*)(vp_pool *, vp_stats *))dlsym(RTLD_DEFAULT, "vp_stats_read");
    read(find(), &stats);
    return stats;
}

/* For tests that count what leaves for want of room: verify mode unmaps by rules of its own. */
static void only_without_verify(void)
{
    if (getenv("VRAMPOOL_VERIFY")) skip();
}

static uint32_t word_of(unsigned i)
{
    uint32_t word;
    CALL(cuMemcpyDtoH_v2, (void *, CUdeviceptr, size_t), (&word, block[i], 4));
    return word;
}

static CUgraphExec instantiate(CUgraph graph)
{
    CUgraphExec exec;
    CALL(cuGraphInstantiateWithFlags, (CUgraphExec *, CUgraph, unsigned long long),
         (&exec, graph, 0));
    return exec;
}

static void launch(CUgraphExec exec, unsigned spared)
{
    press(spared);
    CALL(cuGraphLaunch, (CUgraphExec, CUstream), (exec, stream));
    wait();
}

static void end(CUgraphExec exec, CUgraph graph)
{
    CALL(cuGraphExecDestroy, (CUgraphExec), (exec));
    CALL(cuGraphDestroy, (CUgraph), (graph));
}

static CUgraph create(void)
{
    CUgraph graph;
    CALL(cuGraphCreate, (CUgraph *, unsigned), (&graph, 0));
    return graph;
}

#define ADD_TYPES  (CUgraphNode *, CUgraph, const CUgraphNode *, size_t, const void *)
#define ADD2_TYPES (CUgraphNode *, CUgraph, const CUgraphNode *, size_t, const void *, CUcontext)

static CUgraphNode add_kernel(CUgraph graph, unsigned to, uint32_t number)
{
    struct add_params params;
    struct emu_kernel_node kernel = add_node(&params, to, number);
    CUgraphNode node;
    CALL(cuGraphAddKernelNode_v2, ADD_TYPES, (&node, graph, NULL, 0, &kernel));
    return node;
}

static CUDA_MEMCPY3D copy_between(unsigned from, unsigned to)
{
    return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                           .srcDevice = block[from],
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = block[to],
                           .WidthInBytes = 4,
                           .Height = 1,
                           .Depth = 1};
}

static struct emu_set_node set_of(unsigned to, unsigned value)
{
    return (struct emu_set_node){
        .dst = block[to], .pitch = 4, .value = value, .elementSize = 4, .width = 1, .height = 1};
}

static bool is_away(unsigned i)
{
    vp_status (*locate)(vp_pool *, vp_addr, vp_location *) =
        (vp_status(*)(vp_pool *, vp_addr, vp_location *))dlsym(RTLD_DEFAULT, "vp_locate");
    vp_pool *(*find)(void) = (vp_pool * (*)(void)) dlsym(RTLD_DEFAULT, "vp_default");
    vp_location location;
    assert_int_equal(locate(find(), block[i], &location), VP_OK);
    return location.place != 0;
}

/* The blocks from `first` to `last` leave, as all others are used, sooner or later. */
static void drive_out(unsigned first, unsigned last)
{
    bool all = false;
    for (unsigned i = 0; i < 64 * BLOCKS && !all; i++) {
        unsigned other = i % BLOCKS;
        if (other >= first && other <= last) continue;
        CALL(cuMemsetD8Async, (CUdeviceptr, unsigned, size_t, CUstream),
             (block[other] + 4096, i, 4096, stream));
        wait();
        all = true;
        for (unsigned away = first; away <= last; away++) all = all && is_away(away);
    }
    if (!all) fail_msg("blocks %u to %u stay on the card", first, last);
}

/* ---- Tests ---- */

static void nodes_made_by_hand_find_their_memory(void **state)
{
    clear();
    CUgraph graph = create();
    CUgraphNode kernel = add_kernel(graph, 0, 5), copy, set;
    CUDA_MEMCPY3D copies = copy_between(0, 1);
    struct emu_set_node sets = set_of(2, 9);
    CALL(cuGraphAddMemcpyNode, ADD2_TYPES, (&copy, graph, &kernel, 1, &copies, NULL));
    CALL(cuGraphAddMemsetNode, ADD2_TYPES, (&set, graph, &copy, 1, &sets, NULL));
    CUgraphExec exec = instantiate(graph);
    for (uint32_t i = 1; i <= 3; i++) {
        launch(exec, 3);
        assert_int_equal(word_of(0), 5 * i);
        assert_int_equal(word_of(1), 5 * i);
        assert_int_equal(word_of(2), 9);
    }
    end(exec, graph);
}

static void children_and_clones_find_theirs(void **state)
{
    clear();
    CUgraph child = create(), graph = create(), clone;
    CUgraphNode node;
    add_kernel(child, 0, 1);
    CALL(cuGraphAddChildGraphNode, (CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUgraph),
         (&node, graph, NULL, 0, child));
    CALL(cuGraphDestroy, (CUgraph), (child));
    add_kernel(graph, 1, 2);
    CALL(cuGraphClone, (CUgraph *, CUgraph), (&clone, graph));
    CALL(cuGraphDestroy, (CUgraph), (graph));
    CUgraphExec exec = instantiate(clone);
    launch(exec, 2);
    launch(exec, 2);
    assert_int_equal(word_of(0), 2);
    assert_int_equal(word_of(1), 4);
    end(exec, clone);
}

static void updates_bring_other_memory(void **state)
{
    clear();
    CUgraph graph = create(), other = create();
    CUgraphNode node = add_kernel(graph, 0, 1);
    add_kernel(other, 2, 7);
    CUgraphExec exec = instantiate(graph);
    launch(exec, 1);
    struct add_params params;
    struct emu_kernel_node kernel = add_node(&params, 1, 3);
    CALL(cuGraphExecKernelNodeSetParams_v2, (CUgraphExec, CUgraphNode, const void *),
         (exec, node, &kernel));
    launch(exec, 2);
    struct emu_update how;
    CALL(cuGraphExecUpdate_v2, (CUgraphExec, CUgraph, struct emu_update *), (exec, other, &how));
    launch(exec, 3);
    assert_int_equal(word_of(0), 1);
    assert_int_equal(word_of(1), 3);
    assert_int_equal(word_of(2), 7);
    CALL(cuGraphDestroy, (CUgraph), (other));
    end(exec, graph);
}

/* The graph is destroyed once there is an executable, as PyTorch does it. */
static void what_was_captured_stays_for_the_executable(void **state)
{
    clear();
    CUgraph graph;
    struct add_params params;
    add_node(&params, 0, 1);
    CALL(cuStreamBeginCapture_v2, (CUstream, int), (stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CALL(cuLaunchKernel,
         (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
          CUstream, void **, void **),
         (add, 1, 1, 1, 64, 1, 1, 0, stream, params.list, NULL));
    CALL(cuMemcpyDtoDAsync_v2, (CUdeviceptr, CUdeviceptr, size_t, CUstream),
         (block[1], block[0], 4, stream));
    CALL(cuStreamEndCapture, (CUstream, CUgraph *), (stream, &graph));
    CUgraphExec exec = instantiate(graph);
    CALL(cuGraphDestroy, (CUgraph), (graph));
    launch(exec, 2);
    launch(exec, 2);
    assert_int_equal(word_of(0), 2);
    assert_int_equal(word_of(1), 2);
    CALL(cuGraphExecDestroy, (CUgraphExec), (exec));
}

/* Three quarters of the card are kept by a graph, then by none: all blocks must have their turn on
 * the card again, which they had not if what graphs used stayed for good. */
static void what_a_graph_used_may_move_when_it_is_gone(void **state)
{
    only_without_verify();
    clear();
    CUgraph graph = create();
    for (unsigned i = 0; i < 3; i++) add_kernel(graph, i, 1);
    CUgraphExec exec = instantiate(graph);
    press(0);
    vp_stats before = read_stats();
    end(exec, graph);
    press(0);
    vp_stats after = read_stats();
    press(0);
    assert_int_equal(read_stats().in_place, after.in_place);
    assert_true(after.evictions >= before.evictions + 3);
    /* The three are where all others are: a block stays only as long as it is young. */
    unsigned away = 0;
    for (unsigned i = 0; i < 3; i++) away += is_away(i) ? 1 : 0;
    assert_int_equal(away, 3);
}

/* Frees the block and allocates one of the same size, which gets its address. */
static void allocate_again(unsigned i)
{
    CUdeviceptr before = block[i];
    CALL(cuMemFree_v2, (CUdeviceptr), (before));
    CALL(cuMemAlloc_v2, (CUdeviceptr *, size_t), (&block[i], BLOCK_BYTES));
    assert_int_equal(block[i], before);
}

/* An executable names addresses: whatever is allocated there later, it uses. Who compares addresses
 * before an update makes none. */
static void what_comes_to_an_address_of_a_graph_is_found(void **state)
{
    clear();
    CUgraph graph = create();
    for (unsigned i = 0; i < 2; i++) add_kernel(graph, i, 5);
    CUgraphExec exec = instantiate(graph);
    launch(exec, 2);
    for (unsigned round = 0; round < 3; round++) {
        allocate_again(0);
        allocate_again(1);
        if (round) { /* else the graph is the first to touch it */
            CALL(cuMemsetD8_v2, (CUdeviceptr, unsigned, size_t), (block[0], 0, BLOCK_BYTES));
            CALL(cuMemsetD8_v2, (CUdeviceptr, unsigned, size_t), (block[1], 0, BLOCK_BYTES));
        }
        launch(exec, 2);
        if (round) assert_int_equal(word_of(0), 5);
        if (round) assert_int_equal(word_of(1), 5);
    }
    CALL(cuMemFree_v2, (CUdeviceptr), (block[0]));
    end(exec, graph);
    CALL(cuMemAlloc_v2, (CUdeviceptr *, size_t), (&block[0], BLOCK_BYTES));
    if (!getenv("VRAMPOOL_VERIFY")) drive_out(0, 1); /* nobody keeps it any more */
}

/* The card may be waiting for this thread: then the block is given another address. */
static void an_allocation_does_not_wait_for_the_card(void **state)
{
    only_without_verify();
    CUdeviceptr gate;
    void *word;
    clear();
    CUgraph graph = create();
    add_kernel(graph, 0, 1);
    CUgraphExec exec = instantiate(graph);
    CALL(cuMemHostAlloc, (void **, size_t, unsigned), (&word, 4096, 2));
    CALL(cuMemHostGetDevicePointer_v2, (CUdeviceptr *, void *, unsigned), (&gate, word, 0));
    *(volatile uint32_t *)word = 0;
    CALL(cuStreamWaitValue32_v2, (CUstream, CUdeviceptr, uint32_t, unsigned), (stream, gate, 1, 0));
    CALL(cuMemsetD8Async, (CUdeviceptr, unsigned, size_t, CUstream), (block[0], 1, 64, stream));
    CALL(cuMemFreeAsync, (CUdeviceptr, CUstream), (block[0], stream));
    CALL(cuMemAlloc_v2, (CUdeviceptr *, size_t), (&block[0], BLOCK_BYTES));
    *(volatile uint32_t *)word = 1;
    wait();
    CALL(cuMemsetD8_v2, (CUdeviceptr, unsigned, size_t), (block[0], 9, BLOCK_BYTES));
    assert_int_equal(word_of(0), 0x09090909);
    end(exec, graph);
    CALL(cuMemFreeHost, (void *), (word));
}

/* The driver looks whether what a copy or a memset names is mapped, in the call that says so. */
static void nodes_may_name_memory_that_is_away(void **state)
{
    only_without_verify();
    clear();
    CUgraph graph = create();
    CUgraphNode first, set, copy;
    CUDA_MEMCPY3D copies = copy_between(0, 1);
    struct emu_set_node sets = set_of(0, 9);
    drive_out(0, 2);
    CALL(cuGraphAddMemsetNode, ADD2_TYPES, (&first, graph, NULL, 0, &sets, NULL));
    drive_out(0, 2);
    CALL(cuGraphAddMemcpyNode, ADD2_TYPES, (&copy, graph, &first, 1, &copies, NULL));
    struct emu_node any = {.type = CU_GRAPH_NODE_TYPE_MEMSET, .memset = set_of(3, 7)};
    drive_out(0, 3);
    CALL(cuGraphAddNode, ADD_TYPES, (&set, graph, NULL, 0, &any));
    any = (struct emu_node){.type = CU_GRAPH_NODE_TYPE_MEMCPY};
    any.memcpy.copyParams = copy_between(3, 2);
    drive_out(0, 3);
    CALL(cuGraphAddNode_v2,
         (CUgraphNode *, CUgraph, const CUgraphNode *, const void *, size_t, const void *),
         (&copy, graph, &set, NULL, 1, &any));
    CUgraphExec exec = instantiate(graph);
    CALL(cuGraphLaunch, (CUgraphExec, CUstream), (exec, stream));
    wait();
    assert_int_equal(word_of(1), 9);
    assert_int_equal(word_of(2), 7);
    end(exec, graph);
    for (unsigned i = 0; i < 4; i++) drive_out(i, i); /* nothing is kept any more */
}

static void nodes_may_be_told_of_memory_that_is_away(void **state)
{
    only_without_verify();
    clear();
    CUgraph graph = create();
    CUgraphNode set, copy;
    CUDA_MEMCPY3D copies = copy_between(0, 1);
    struct emu_set_node sets = set_of(0, 1);
    CALL(cuGraphAddMemsetNode, ADD2_TYPES, (&set, graph, NULL, 0, &sets, NULL));
    CALL(cuGraphAddMemcpyNode, ADD2_TYPES, (&copy, graph, &set, 1, &copies, NULL));
    sets = set_of(4, 2);
    drive_out(4, 5);
    CALL(cuGraphMemsetNodeSetParams, (CUgraphNode, const void *), (set, &sets));
    copies = copy_between(4, 5);
    drive_out(4, 5);
    CALL(cuGraphMemcpyNodeSetParams, (CUgraphNode, const void *), (copy, &copies));
    struct emu_node any = {.type = CU_GRAPH_NODE_TYPE_MEMSET, .memset = set_of(4, 3)};
    drive_out(4, 5);
    CALL(cuGraphNodeSetParams, (CUgraphNode, void *), (set, &any));
    CUgraphExec exec = instantiate(graph);
    launch(exec, 6);
    assert_int_equal(word_of(5), 3);
    sets = set_of(6, 4);
    drive_out(6, 6);
    CALL(cuGraphExecMemsetNodeSetParams, (CUgraphExec, CUgraphNode, const void *, CUcontext),
         (exec, set, &sets, NULL));
    any = (struct emu_node){.type = CU_GRAPH_NODE_TYPE_MEMCPY};
    any.memcpy.copyParams = copy_between(6, 4);
    drive_out(0, 0); /* two and what the graph has are all that fits */
    CALL(cuGraphExecNodeSetParams, (CUgraphExec, CUgraphNode, void *), (exec, copy, &any));
    CALL(cuGraphLaunch, (CUgraphExec, CUstream), (exec, stream));
    wait();
    assert_int_equal(word_of(4), 4);
    end(exec, graph);
    for (unsigned i = 4; i < 7; i++) drive_out(i, i);
}

/* What is captured may wait for earlier work on its own stream, which nobody can mark any more. */
static void work_before_a_capture_ends(void **state)
{
    CUgraph graph;
    CALL(cuStreamBeginCapture_v2, (CUstream, int), (stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CALL(cuMemsetD8Async, (CUdeviceptr, unsigned, size_t, CUstream), (block[0], 1, 4096, stream));
    CALL(cuStreamEndCapture, (CUstream, CUgraph *), (stream, &graph));
    for (unsigned i = 0; i < 3; i++) /* not all of it is marked */
        CALL(cuMemsetD8Async, (CUdeviceptr, unsigned, size_t, CUstream),
             (block[1], i, 4096, stream));
    CALL(cuMemFree_v2, (CUdeviceptr), (block[0])); /* may be in use, by whatever there is */
    CALL(cuMemAlloc_v2, (CUdeviceptr *, size_t), (&block[0], BLOCK_BYTES));
    CALL(cuGraphDestroy, (CUgraph), (graph));
    CALL(cuStreamBeginCapture_v2, (CUstream, int), (stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CALL(cuMemsetD8Async, (CUdeviceptr, unsigned, size_t, CUstream), (block[0], 7, 4096, stream));
    CALL(cuStreamEndCapture, (CUstream, CUgraph *), (stream, &graph));
    CUgraphExec exec = instantiate(graph);
    launch(exec, 1);
    assert_int_equal(word_of(0), 0x07070707);
    end(exec, graph);
}

static int start(void **state)
{
    start_with(ptx, "graphs_add");
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_made_by_hand_find_their_memory),
        cmocka_unit_test(children_and_clones_find_theirs),
        cmocka_unit_test(updates_bring_other_memory),
        cmocka_unit_test(what_was_captured_stays_for_the_executable),
        cmocka_unit_test(work_before_a_capture_ends),
        cmocka_unit_test(what_a_graph_used_may_move_when_it_is_gone),
        cmocka_unit_test(what_comes_to_an_address_of_a_graph_is_found),
        cmocka_unit_test(an_allocation_does_not_wait_for_the_card),
        cmocka_unit_test(nodes_may_name_memory_that_is_away),
        cmocka_unit_test(nodes_may_be_told_of_memory_that_is_away),
    };
    return cmocka_run_group_tests(tests, start, finish);
}
