/* Stream capture: what it takes, what it refuses, and what it does to calls beside it. */
#include "suite.h"

#include <pthread.h>

enum {
    WORDS = 256,
    BYTES = WORDS * 4,
    GLOBAL = CU_STREAM_CAPTURE_MODE_GLOBAL,
    RELAXED = CU_STREAM_CAPTURE_MODE_RELAXED
};

struct work {
    CUstream stream;
    CUdeviceptr at, copy;
};

static const char *work_make(struct work *w)
{
    OK(cu.cuStreamCreate(&w->stream, CU_STREAM_NON_BLOCKING));
    OK(cu.cuMemAlloc_v2(&w->at, BYTES));
    OK(cu.cuMemAlloc_v2(&w->copy, BYTES));
    OK(cu.cuMemsetD8_v2(w->at, 0, BYTES));
    OK(cu.cuMemsetD8_v2(w->copy, 0, BYTES));
    OK(run_fill(w->copy, 0, WORDS, NULL));
    OK(cu.cuCtxSynchronize());
    return NULL;
}

static const char *work_drop(const struct work *w)
{
    OK(cu.cuCtxSynchronize());
    OK(cu.cuStreamDestroy_v2(w->stream));
    OK(cu.cuMemFree_v2(w->at));
    OK(cu.cuMemFree_v2(w->copy));
    return NULL;
}

static CUresult add_one(CUdeviceptr to, CUstream stream)
{
    uint32_t one = 1, count = WORDS;
    void *params[] = {&to, &one, &count};
    return run("add_words", WORDS, stream, params);
}

static const char *holds(CUdeviceptr at, uint32_t value)
{
    uint32_t words[WORDS];
    OK(cu.cuMemcpyDtoH_v2(words, at, BYTES));
    CHECK(words_are(words, WORDS, value));
    return NULL;
}

static const char *replay(CUgraph graph, CUstream stream, unsigned times)
{
    CUgraphExec exec;
    OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (unsigned i = 0; i < times; i++) OK(cu.cuGraphLaunch(exec, stream));
    OK(cu.cuStreamSynchronize(stream));
    OK(cu.cuGraphExecDestroy(exec));
    OK(cu.cuGraphDestroy(graph));
    return NULL;
}

const char *case_capture_and_replay(void)
{
    struct work w;
    CUgraph graph;
    int status = -1, type = -1;
    size_t count = 0;
    uint64_t id = 0;
    DO(work_make(&w));
    OK(cu.cuStreamIsCapturing(w.stream, &status));
    CHECK(status == CU_STREAM_CAPTURE_STATUS_NONE);
    OK(cu.cuStreamBeginCapture_v2(w.stream, GLOBAL));
    OK(cu.cuStreamIsCapturing(w.stream, &status));
    CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    OK(add_one(w.at, w.stream));
    OK(cu.cuMemcpyDtoDAsync_v2(w.copy, w.at, BYTES, w.stream));
    OK(cu.cuMemsetD32Async(w.at, 10, WORDS, w.stream));
    OK(add_one(w.at, w.stream));
    const CUgraphNode *dependencies;
    size_t dependency_count = 0;
    OK(cu.cuStreamGetCaptureInfo_v2(w.stream, &status, &id, &graph, &dependencies,
                                    &dependency_count));
    CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE && id != 0 && dependency_count == 1);
    OK(cu.cuStreamEndCapture(w.stream, &graph));
    DO(holds(w.at, 0)); /* nothing has run */
    OK(cu.cuGraphGetNodes(graph, NULL, &count));
    CHECK(count == 4);
    CUgraphNode nodes[4];
    OK(cu.cuGraphGetNodes(graph, nodes, &count));
    unsigned kernels = 0;
    for (size_t i = 0; i < 4; i++) {
        OK(cu.cuGraphNodeGetType(nodes[i], &type));
        kernels += type == CU_GRAPH_NODE_TYPE_KERNEL;
    }
    CHECK(kernels == 2);
    DO(replay(graph, w.stream, 3));
    DO(holds(w.at, 11));
    DO(holds(w.copy, 12));
    return work_drop(&w);
}

/* Events carry a capture into other streams and back. */
const char *case_capture_across_streams(void)
{
    struct work w;
    CUstream side;
    CUevent fork, join;
    CUgraph graph;
    int status;
    DO(work_make(&w));
    OK(cu.cuStreamCreate(&side, CU_STREAM_NON_BLOCKING));
    OK(cu.cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
    OK(cu.cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
    OK(cu.cuStreamBeginCapture_v2(w.stream, GLOBAL));
    OK(add_one(w.at, w.stream));
    OK(cu.cuEventRecord(fork, w.stream));
    OK(cu.cuStreamWaitEvent(side, fork, 0));
    OK(cu.cuStreamIsCapturing(side, &status));
    CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    OK(cu.cuMemcpyDtoDAsync_v2(w.copy, w.at, BYTES, side));
    OK(cu.cuEventRecord(join, side));
    OK(cu.cuStreamWaitEvent(w.stream, join, 0));
    OK(add_one(w.at, w.stream));
    OK(cu.cuStreamEndCapture(w.stream, &graph));
    OK(cu.cuStreamIsCapturing(side, &status));
    CHECK(status == CU_STREAM_CAPTURE_STATUS_NONE);
    DO(replay(graph, w.stream, 2));
    DO(holds(w.at, 4));
    DO(holds(w.copy, 3));
    /* What was not joined is an error. */
    OK(cu.cuStreamBeginCapture_v2(w.stream, GLOBAL));
    OK(cu.cuEventRecord(fork, w.stream));
    OK(cu.cuStreamWaitEvent(side, fork, 0));
    OK(add_one(w.at, side));
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, cu.cuStreamEndCapture(w.stream, &graph));
    OK(cu.cuEventDestroy_v2(fork));
    OK(cu.cuEventDestroy_v2(join));
    OK(cu.cuStreamDestroy_v2(side));
    return work_drop(&w);
}

/* Ends a capture that an error has spoilt. */
static const char *is_spoilt(CUstream stream)
{
    CUgraph graph = NULL;
    int status = -1;
    OK(cu.cuStreamIsCapturing(stream, &status));
    CHECK(status == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cu.cuStreamEndCapture(stream, &graph));
    CHECK(!graph);
    return NULL;
}

const char *case_capture_refuses(void)
{
    struct work w;
    CUstream blocking;
    CUgraph graph;
    int status;
    DO(work_make(&w));
    OK(cu.cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    REFUSED(cu.cuStreamBeginCapture_v2(NULL, GLOBAL)); /* the legacy stream */
    OK(cu.cuStreamBeginCapture_v2(w.stream, GLOBAL));
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cu.cuStreamSynchronize(w.stream));
    DO(is_spoilt(w.stream));
    OK(cu.cuStreamBeginCapture_v2(w.stream, GLOBAL));
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cu.cuStreamQuery(w.stream));
    DO(is_spoilt(w.stream));
    /* Work in the legacy stream would wait for a blocking stream that captures. */
    OK(cu.cuStreamBeginCapture_v2(blocking, RELAXED));
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cu.cuStreamIsCapturing(NULL, &status));
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, add_one(w.at, NULL));
    DO(is_spoilt(blocking));
    /* A non-blocking one is no matter to it. */
    OK(cu.cuStreamBeginCapture_v2(w.stream, RELAXED));
    OK(add_one(w.at, NULL));
    OK(add_one(w.at, w.stream));
    OK(cu.cuStreamEndCapture(w.stream, &graph));
    OK(cu.cuGraphDestroy(graph));
    EXPECT(CUDA_ERROR_ILLEGAL_STATE,
           cu.cuStreamEndCapture(w.stream, &graph)); /* captures nothing */
    OK(cu.cuStreamDestroy_v2(blocking));
    return work_drop(&w);
}

static CUDA_MEMCPY3D copy_of(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                           .srcDevice = from,
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = to,
                           .WidthInBytes = bytes,
                           .Height = 1,
                           .Depth = 1};
}

/* A node is told of memory: the driver looks then whether that is mapped. */
const char *case_nodes_name_mapped_memory(void)
{
    struct work w;
    CUgraph graph;
    CUgraphNode set, copy, refused;
    CUmemGenericAllocationHandle handle;
    CUdeviceptr range;
    size_t g = suite.granule;
    DO(work_make(&w));
    OK(cu.cuGraphCreate(&graph, 0));
    OK(cu.cuMemAddressReserve(&range, g, 0, 0, 0));
    CUDA_MEMCPY3D there = copy_of(w.copy, w.at, BYTES), gone = copy_of(range, w.at, BYTES);
    struct emu_set_node sets = {
        .dst = range, .pitch = BYTES, .value = 3, .elementSize = 4, .width = WORDS, .height = 1};
    EXPECT(CUDA_ERROR_INVALID_VALUE,
           cu.cuGraphAddMemcpyNode(&refused, graph, NULL, 0, &gone, suite.context));
    EXPECT(CUDA_ERROR_INVALID_VALUE,
           cu.cuGraphAddMemsetNode(&refused, graph, NULL, 0, &sets, suite.context));
    OK(create(ON_CARD, g, &handle));
    OK(cu.cuMemMap(range, g, 0, handle, 0));
    OK(set_access(range, g, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    OK(cu.cuGraphAddMemsetNode(&set, graph, NULL, 0, &sets, suite.context));
    there = copy_of(w.at, range, BYTES);
    OK(cu.cuGraphAddMemcpyNode(&copy, graph, &set, 1, &there, suite.context));
    DO(replay(graph, w.stream, 1));
    DO(holds(w.at, 3));
    OK(cu.cuGraphCreate(&graph, 0));
    sets.dst = w.at;
    there = copy_of(w.copy, w.at, BYTES);
    OK(cu.cuGraphAddMemsetNode(&set, graph, NULL, 0, &sets, suite.context));
    OK(cu.cuGraphAddMemcpyNode(&copy, graph, &set, 1, &there, suite.context));
    OK(cu.cuMemUnmap(range, g));
    sets.dst = range;
    EXPECT(CUDA_ERROR_INVALID_VALUE, cu.cuGraphMemcpyNodeSetParams(copy, &gone));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cu.cuGraphMemsetNodeSetParams(set, &sets));
    DO(replay(graph, w.stream, 1)); /* as it was */
    DO(holds(w.copy, 3));
    OK(cu.cuMemRelease(handle));
    OK(cu.cuMemAddressFree(range, g));
    return work_drop(&w);
}

/* Begins a capture, makes a call that needs no stream, and ends it; notes what came of both. */
#define BESIDE_CAPTURE(mode, call)                                                                 \
    do {                                                                                           \
        CUgraph graph_ = NULL;                                                                     \
        OK(cu.cuStreamBeginCapture_v2(w.stream, mode));                                            \
        CUresult during_ = (call);                                                                 \
        CUresult ended_ = cu.cuStreamEndCapture(w.stream, &graph_);                                \
        if (graph_) OK(cu.cuGraphDestroy(graph_));                                                 \
        note("%s in capture mode %d: %d, then the end: %d", #call, mode, during_, ended_);         \
        during = during_;                                                                          \
        ended = ended_;                                                                            \
    } while (0)

#define HARMLESS() CHECK(during == CUDA_SUCCESS && ended == CUDA_SUCCESS)

const char *case_capture_and_memory_calls(void)
{
    struct work w;
    CUdeviceptr at = 0, range;
    CUevent event;
    CUmemGenericAllocationHandle handle;
    CUresult during, ended;
    void *host;
    size_t g = suite.granule, free_bytes, total;
    int mode = RELAXED;
    DO(work_make(&w));
    OK(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cu.cuEventRecord(event, NULL));
    OK(cu.cuMemAddressReserve(&range, g, 0, 0, 0));
    BESIDE_CAPTURE(GLOBAL, cu.cuMemAlloc_v2(&at, 4096));
    CHECK(during == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CHECK(ended == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    BESIDE_CAPTURE(GLOBAL, cu.cuEventQuery(event));
    CHECK(during == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    BESIDE_CAPTURE(GLOBAL, cu.cuMemHostAlloc(&host, 4096, 0));
    CHECK(during == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    BESIDE_CAPTURE(GLOBAL, cu.cuStreamQuery(NULL));
    CHECK(during == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    BESIDE_CAPTURE(GLOBAL, cu.cuCtxSynchronize());
    CHECK(during == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    /* Mapping is allowed. */
    BESIDE_CAPTURE(GLOBAL, create(ON_CARD, g, &handle));
    HARMLESS();
    BESIDE_CAPTURE(GLOBAL, cu.cuMemMap(range, g, 0, handle, 0));
    HARMLESS();
    BESIDE_CAPTURE(GLOBAL, set_access(range, g, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    HARMLESS();
    BESIDE_CAPTURE(GLOBAL, cu.cuMemUnmap(range, g));
    HARMLESS();
    BESIDE_CAPTURE(GLOBAL, cu.cuMemRelease(handle));
    HARMLESS();
    BESIDE_CAPTURE(GLOBAL, cu.cuMemGetInfo_v2(&free_bytes, &total));
    HARMLESS();
    BESIDE_CAPTURE(RELAXED, cu.cuMemAlloc_v2(&at, 4096));
    HARMLESS();
    OK(cu.cuMemFree_v2(at));
    BESIDE_CAPTURE(RELAXED, cu.cuEventQuery(event));
    HARMLESS();
    /* A thread may exempt itself. */
    OK(cu.cuThreadExchangeStreamCaptureMode(&mode));
    CHECK(mode == GLOBAL);
    BESIDE_CAPTURE(GLOBAL, cu.cuMemAlloc_v2(&at, 4096));
    HARMLESS();
    OK(cu.cuMemFree_v2(at));
    OK(cu.cuThreadExchangeStreamCaptureMode(&mode));
    CHECK(mode == RELAXED);
    OK(cu.cuMemAddressFree(range, g));
    OK(cu.cuEventDestroy_v2(event));
    return work_drop(&w);
}

/* ---- Another thread, as a mover is one ---- */

struct other {
    CUevent event;
    int mode;
    CUresult result;
};

static void *query_event(void *data)
{
    struct other *other = data;
    int mode = other->mode;
    other->result = cu.cuCtxSetCurrent(suite.context);
    if (other->result == CUDA_SUCCESS) other->result = cu.cuThreadExchangeStreamCaptureMode(&mode);
    if (other->result == CUDA_SUCCESS) other->result = cu.cuEventQuery(other->event);
    return NULL;
}

static const char *query_beside(CUevent event, int mode, CUresult *result)
{
    struct other other = {event, mode, CUDA_SUCCESS};
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, query_event, &other) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    *result = other.result;
    return NULL;
}

const char *case_capture_and_other_threads(void)
{
    struct work w;
    CUevent event;
    CUgraph graph;
    CUresult result;
    if (!suite.library) SKIP("the emulator in this process is one thread");
    DO(work_make(&w));
    OK(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cu.cuEventRecord(event, NULL));
    OK(cu.cuStreamBeginCapture_v2(w.stream, GLOBAL));
    DO(query_beside(event, RELAXED, &result)); /* what a mover must do */
    CHECK(result == CUDA_SUCCESS);
    OK(cu.cuStreamEndCapture(w.stream, &graph));
    OK(cu.cuGraphDestroy(graph));
    OK(cu.cuStreamBeginCapture_v2(w.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    DO(query_beside(event, GLOBAL, &result));
    CHECK(result == CUDA_SUCCESS);
    OK(cu.cuStreamEndCapture(w.stream, &graph));
    OK(cu.cuGraphDestroy(graph));
    OK(cu.cuStreamBeginCapture_v2(w.stream, GLOBAL));
    DO(query_beside(event, GLOBAL, &result));
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, result);
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cu.cuStreamEndCapture(w.stream, &graph));
    OK(cu.cuEventDestroy_v2(event));
    return work_drop(&w);
}
