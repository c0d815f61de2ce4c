#include "emu/graph.h"

/* Stream capture. A capturing stream has a tail, the nodes that its next one comes after; recording
 * an event copies the tail, and a stream that waits for the event takes it over and so joins the
 * capture. */

struct node_set {
    unsigned count;
    struct node **nodes;
    CUgraphNode *handles;
};

struct capture {
    struct list node;
    uint64_t id, thread;
    int mode;
    bool invalid;
    struct graph *graph;
    struct stream *origin;
    struct context *context;
};

static struct list captures = {&captures, &captures};
static uint64_t last_capture;

/* ---- Sets of nodes ---- */

static struct node_set *set_new(void)
{
    struct node_set *set = calloc(1, sizeof *set);
    assert(set);
    return set;
}

static void set_add(struct node_set *set, struct node *node)
{
    for (unsigned i = 0; i < set->count; i++)
        if (set->nodes[i] == node) return;
    set->nodes = realloc(set->nodes, (set->count + 1) * sizeof *set->nodes);
    set->handles = realloc(set->handles, (set->count + 1) * sizeof *set->handles);
    assert(set->nodes && set->handles);
    set->nodes[set->count] = node;
    set->handles[set->count++] = HANDLE_OF(CUgraphNode, node);
}

static void set_merge(struct node_set *set, const struct node_set *other)
{
    for (unsigned i = 0; i < other->count; i++) set_add(set, other->nodes[i]);
}

static void set_free(struct node_set *set)
{
    if (!set) return;
    free(set->nodes);
    free(set->handles);
    free(set);
}

/* ---- What a capture does to other calls ---- */

static bool is_blocking(const struct stream *stream)
{
    return !(stream->flags & CU_STREAM_NON_BLOCKING);
}

/* The capture that work in the legacy stream would have to wait for, or NULL. */
static struct capture *implicit(struct stream *stream)
{
    if (!stream->legacy) return NULL;
    list_each(node, &stream->context->streams)
    {
        struct stream *other = list_entry(node, struct stream, node);
        if (other->capture && is_blocking(other)) return other->capture;
    }
    return NULL;
}

static CUresult spoil(struct capture *capture, CUresult error)
{
    capture->invalid = true;
    return error;
}

/* By the rules of cuThreadExchangeStreamCaptureMode. */
CUresult capture_forbids(void)
{
    struct host_thread *thread = thread_get();
    if (thread->capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
    list_each(at, &captures)
    {
        struct capture *capture = list_entry(at, struct capture, node);
        bool own = capture->thread == thread->index;
        bool matters = own ? capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED
                           : capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                                 thread->capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
        if (matters) return spoil(capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
    return CUDA_SUCCESS;
}

CUresult capture_synchronize(struct stream *stream)
{
    if (stream->capture) return spoil(stream->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    struct capture *capture = implicit(stream);
    if (capture) return spoil(capture, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    return capture_forbids();
}

/* True: the operation went into a graph, or was refused; *result says which. */
bool capture_takes(struct stream *stream, struct op *op, CUresult *result)
{
    struct capture *capture = stream->capture;
    *result = CUDA_SUCCESS;
    if (!capture) {
        capture = implicit(stream);
        if (capture) *result = spoil(capture, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    } else if (capture->invalid) {
        *result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    } else {
        struct node *node = graph_add(capture->graph, op);
        struct node_set *tail = stream->tail;
        node->after_count = tail->count;
        node->after = calloc(tail->count + 1, sizeof(struct node *));
        assert(node->after);
        for (unsigned i = 0; i < tail->count; i++) node->after[i] = tail->nodes[i];
        tail->count = 0;
        set_add(tail, node);
        return true;
    }
    if (*result == CUDA_SUCCESS) return false;
    op_unref(op);
    return true;
}

CUresult capture_records(struct stream *stream, struct event *event)
{
    if (stream->capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    event->captured = set_new();
    event->capture_id = stream->capture->id;
    set_merge(event->captured, stream->tail);
    return CUDA_SUCCESS;
}

void capture_event_clear(struct event *event)
{
    set_free(event->captured);
    event->captured = NULL;
    event->capture_id = 0;
}

static struct capture *capture_by_id(uint64_t id)
{
    list_each(at, &captures)
    {
        struct capture *capture = list_entry(at, struct capture, node);
        if (capture->id == id) return capture;
    }
    return NULL;
}

CUresult capture_waits(struct stream *stream, struct event *event)
{
    struct capture *of_event = event->captured ? capture_by_id(event->capture_id) : NULL;
    if (stream->capture && stream->capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (!of_event)
        return stream->capture ? spoil(stream->capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION)
                               : CUDA_ERROR_CAPTURED_EVENT;
    if (of_event->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (stream->legacy) return spoil(of_event, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    if (!stream->capture) {
        stream->capture = of_event;
        stream->tail = set_new();
    } else if (stream->capture != of_event) {
        of_event->invalid = true;
        return spoil(stream->capture, CUDA_ERROR_STREAM_CAPTURE_MERGE);
    }
    set_merge(stream->tail, event->captured);
    return CUDA_SUCCESS;
}

bool capture_is_into(const struct graph *graph)
{
    list_each(at, &captures)
    {
        if (list_entry(at, struct capture, node)->graph == graph) return true;
    }
    return false;
}

/* ---- Beginning and ending ---- */

static void leave(struct stream *stream)
{
    set_free(stream->tail);
    stream->tail = NULL;
    stream->capture = NULL;
}

/* Every stream of the capture is an ordinary one again. Returns the graph. */
static struct graph *capture_end(struct capture *capture)
{
    list_each(node, &capture->context->streams)
    {
        struct stream *stream = list_entry(node, struct stream, node);
        if (stream->capture == capture) leave(stream);
    }
    struct graph *graph = capture->graph;
    list_remove(&capture->node);
    free(capture);
    return graph;
}

void capture_abandon(struct stream *stream)
{
    if (stream->capture->origin != stream) {
        spoil(stream->capture, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        leave(stream);
        return;
    }
    graph_free(capture_end(stream->capture));
}

CUresult do_cuStreamBeginCapture_v2(CUstream named, int mode)
{
    struct stream *stream = stream_find(named);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (mode < 0 || mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
    if (stream->legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
    struct capture *capture = calloc(1, sizeof *capture);
    assert(capture);
    capture->id = ++last_capture;
    capture->thread = thread_get()->index;
    capture->mode = mode;
    capture->origin = stream;
    capture->context = stream->context;
    capture->graph = graph_new(HANDLE_GRAPH);
    list_push_back(&captures, &capture->node);
    stream->capture = capture;
    stream->tail = set_new();
    return CUDA_SUCCESS;
}

/* Whether every node comes before the tail of the stream where the capture began. Nodes come after
 * what they depend on, so one walk backwards marks all. */
static bool all_joined(const struct capture *capture)
{
    const struct graph *graph = capture->graph;
    const struct node_set *tail = capture->origin->tail;
    for (unsigned i = 0; i < graph->count; i++) graph->nodes[i]->joined = false;
    for (unsigned i = 0; i < tail->count; i++) tail->nodes[i]->joined = true;
    for (unsigned i = graph->count; i-- > 0;) {
        const struct node *node = graph->nodes[i];
        if (!node->joined) return false;
        for (unsigned j = 0; j < node->after_count; j++) node->after[j]->joined = true;
    }
    return true;
}

CUresult do_cuStreamEndCapture(CUstream named, CUgraph *graph)
{
    struct stream *stream = stream_find(named);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    struct capture *capture = stream->capture;
    if (!graph) return CUDA_ERROR_INVALID_VALUE;
    *graph = NULL;
    if (!capture) return CUDA_ERROR_ILLEGAL_STATE;
    if (capture->origin != stream) return spoil(capture, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    if (capture->thread != thread_get()->index && capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    CUresult result = CUDA_SUCCESS;
    if (capture->invalid)
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else if (!all_joined(capture))
        result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    struct graph *captured = capture_end(capture);
    if (result == CUDA_SUCCESS)
        *graph = HANDLE_OF(CUgraph, captured);
    else
        graph_free(captured);
    return result;
}

CUresult do_cuStreamIsCapturing(CUstream named, int *status)
{
    struct stream *stream = stream_find(named);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (!status) return CUDA_ERROR_INVALID_VALUE;
    if (implicit(stream)) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    *status = !stream->capture           ? CU_STREAM_CAPTURE_STATUS_NONE
              : stream->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                         : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return CUDA_SUCCESS;
}

CUresult do_cuStreamGetCaptureInfo_v2(CUstream named, int *status, uint64_t *id, CUgraph *graph,
                                      const CUgraphNode **dependencies, size_t *count)
{
    CUresult result = do_cuStreamIsCapturing(named, status);
    if (result != CUDA_SUCCESS || *status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return result;
    struct stream *stream = stream_find(named);
    if (id) *id = stream->capture->id;
    if (graph) *graph = HANDLE_OF(CUgraph, stream->capture->graph);
    if (dependencies) *dependencies = stream->tail->handles;
    if (count) *count = stream->tail->count;
    return CUDA_SUCCESS;
}

CUresult do_cuStreamGetCaptureInfo_v3(CUstream named, int *status, uint64_t *id, CUgraph *graph,
                                      const CUgraphNode **dependencies, const void **edges,
                                      size_t *count)
{
    if (edges) *edges = NULL;
    return do_cuStreamGetCaptureInfo_v2(named, status, id, graph, dependencies, count);
}

CUresult do_cuThreadExchangeStreamCaptureMode(int *mode)
{
    struct host_thread *thread = thread_get();
    if (!mode || *mode < 0 || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    int before = thread->capture_mode;
    thread->capture_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}

void capture_close(void)
{
    while (!list_empty(&captures)) {
        struct capture *capture = list_entry(captures.next, struct capture, node);
        capture_abandon(capture->origin);
    }
}
