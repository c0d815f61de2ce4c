#include "emu/graph.h"

#include <string.h>

/* ---- Nodes and graphs ---- */

struct graph *graph_new(enum handle_kind kind)
{
    struct graph *graph = calloc(1, sizeof *graph);
    assert(graph);
    graph->handle = handle_new(kind, graph);
    return graph;
}

struct node *graph_add(struct graph *graph, struct op *op)
{
    struct node *node = calloc(1, sizeof *node);
    graph->nodes = realloc(graph->nodes, (graph->count + 1) * sizeof *graph->nodes);
    assert(node && graph->nodes);
    node->op = op;
    node->index = graph->count;
    node->handle = handle_new(HANDLE_NODE, node);
    graph->nodes[graph->count++] = node;
    return node;
}

void graph_node_after(struct node *node, struct node *first)
{
    node->after = realloc(node->after, (node->after_count + 1) * sizeof *node->after);
    assert(node->after);
    node->after[node->after_count++] = first;
}

void graph_free(struct graph *graph)
{
    for (unsigned i = 0; i < graph->count; i++) {
        struct node *node = graph->nodes[i];
        handle_free(node->handle);
        op_unref(node->op);
        if (node->child) graph_free(node->child);
        free(node->after);
        free(node->param_pointers);
        free(node);
    }
    handle_free(graph->handle);
    free(graph->nodes);
    free(graph);
}

/* Makes `to`, fresh from op_new, do what `from` does. */
static void clone_payload(struct op *to, const struct op *from)
{
    to->to_host = from->to_host;
    switch (from->kind) {
    case OP_COPY: to->copy = from->copy; break;
    case OP_SET: to->set = from->set; break;
    case OP_KERNEL:
        to->launch = from->launch;
        to->launch.params = malloc(from->launch.params_bytes + 1);
        assert(to->launch.params);
        memcpy(to->launch.params, from->launch.params, from->launch.params_bytes);
        break;
    case OP_HOST:
    case OP_CALLBACK: to->host = from->host; break;
    case OP_WRITE_VALUE:
    case OP_WAIT_VALUE: to->word = from->word; break;
    case OP_FREE:
    case OP_RECORD:
    case OP_NOTHING: break;
    }
}

static struct op *op_copy(struct context *context, const struct op *from)
{
    struct op *op = op_new(context, from->kind, from->name);
    clone_payload(op, from);
    return op;
}

/* ---- The calls for graphs ---- */

static struct graph *graph_find(CUgraph graph)
{
    return handle_get(HANDLE_GRAPH, (uintptr_t)graph);
}

CUresult do_cuGraphCreate(CUgraph *graph, unsigned flags)
{
    if (!graph || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    *graph = HANDLE_OF(CUgraph, graph_new(HANDLE_GRAPH));
    return CUDA_SUCCESS;
}

CUresult do_cuGraphDestroy(CUgraph named)
{
    struct graph *graph = graph_find(named);
    if (!graph || graph->inner || capture_is_into(graph)) return CUDA_ERROR_INVALID_VALUE;
    graph_free(graph);
    return CUDA_SUCCESS;
}

CUresult do_cuGraphGetNodes(CUgraph named, CUgraphNode *nodes, size_t *count)
{
    struct graph *graph = graph_find(named);
    if (!graph || !count) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; nodes && i < *count; i++)
        nodes[i] = i < graph->count ? HANDLE_OF(CUgraphNode, graph->nodes[i]) : NULL;
    if (!nodes || *count > graph->count) *count = graph->count;
    return CUDA_SUCCESS;
}

CUresult do_cuGraphNodeGetType(CUgraphNode named, int *type)
{
    struct node *node = handle_get(HANDLE_NODE, (uintptr_t)named);
    if (!node || !type) return CUDA_ERROR_INVALID_VALUE;
    if (node->child) {
        *type = CU_GRAPH_NODE_TYPE_GRAPH;
        return CUDA_SUCCESS;
    }
    switch (node->op->kind) {
    case OP_KERNEL: *type = CU_GRAPH_NODE_TYPE_KERNEL; break;
    case OP_COPY: *type = CU_GRAPH_NODE_TYPE_MEMCPY; break;
    case OP_SET: *type = CU_GRAPH_NODE_TYPE_MEMSET; break;
    case OP_HOST: *type = CU_GRAPH_NODE_TYPE_HOST; break;
    case OP_WAIT_VALUE:
    case OP_WRITE_VALUE: *type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP; break;
    default: *type = CU_GRAPH_NODE_TYPE_EMPTY; break;
    }
    return CUDA_SUCCESS;
}

CUresult do_cuGraphKernelNodeGetParams_v2(CUgraphNode named, struct emu_kernel_node *params)
{
    struct node *node = handle_get(HANDLE_NODE, (uintptr_t)named);
    if (!node || !params || node->op->kind != OP_KERNEL) return CUDA_ERROR_INVALID_VALUE;
    struct launch *launch = &node->op->launch;
    struct function *function = launch->function;
    if (!node->param_pointers) {
        node->param_pointers = calloc(function->param_count + 1, sizeof(void *));
        assert(node->param_pointers);
        for (unsigned i = 0; i < function->param_count; i++)
            node->param_pointers[i] = launch->params + function->params[i].offset;
    }
    *params = (struct emu_kernel_node){
        .func = HANDLE_OF(CUfunction, function),
        .gridDimX = launch->grid[0],
        .gridDimY = launch->grid[1],
        .gridDimZ = launch->grid[2],
        .blockDimX = launch->block[0],
        .blockDimY = launch->block[1],
        .blockDimZ = launch->block[2],
        .sharedMemBytes = launch->shared_bytes,
        .kernelParams = node->param_pointers,
    };
    return CUDA_SUCCESS;
}

/* ---- Graphs made of others ---- */

static struct graph *graph_clone(const struct graph *graph)
{
    struct graph *clone = graph_new(HANDLE_GRAPH);
    for (unsigned i = 0; i < graph->count; i++) {
        const struct node *from = graph->nodes[i];
        struct node *node = graph_add(clone, op_copy(context_current(), from->op));
        for (unsigned j = 0; j < from->after_count; j++)
            graph_node_after(node, clone->nodes[from->after[j]->index]);
        if (from->child) node->child = graph_clone(from->child);
        if (node->child) node->child->inner = true;
    }
    return clone;
}

/* Copies the nodes into an executable, behind `before`; a child's nodes go between two of its own
 * that do nothing. */
static void expand(struct graph *made, const struct graph *graph, struct node *before)
{
    struct node **last = calloc(graph->count + 1, sizeof(struct node *)); /* of each node's */
    assert(last);
    for (unsigned i = 0; i < graph->count; i++) {
        const struct node *from = graph->nodes[i];
        struct node *node = graph_add(made, op_copy(context_current(), from->op));
        node->source = from->handle;
        for (unsigned j = 0; j < from->after_count; j++)
            graph_node_after(node, last[from->after[j]->index]);
        if (before && !from->after_count) graph_node_after(node, before);
        last[i] = node;
        if (!from->child) continue;
        expand(made, from->child, node);
        last[i] = graph_add(made, op_new(context_current(), OP_NOTHING, "a child graph's end"));
        for (unsigned j = node->index; j < last[i]->index; j++)
            graph_node_after(last[i], made->nodes[j]);
    }
    free(last);
}

CUresult do_cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph named, unsigned long long flags)
{
    struct graph *graph = graph_find(named);
    if (!exec || !graph) return CUDA_ERROR_INVALID_VALUE;
    struct graph *made = graph_new(HANDLE_EXEC);
    expand(made, graph, NULL);
    *exec = HANDLE_OF(CUgraphExec, made);
    return CUDA_SUCCESS;
}

CUresult do_cuGraphClone(CUgraph *clone, CUgraph named)
{
    const struct graph *graph = graph_find(named);
    if (!clone || !graph) return CUDA_ERROR_INVALID_VALUE;
    *clone = HANDLE_OF(CUgraph, graph_clone(graph));
    return CUDA_SUCCESS;
}

/* ---- Nodes by hand ---- */

/* The nodes that the new one comes after are checked first. */
static CUresult add_node(CUgraphNode *node, CUgraph named, const CUgraphNode *after, size_t count,
                         struct op *op)
{
    struct graph *graph = graph_find(named);
    bool fine = node && graph && (after || !count);
    for (size_t i = 0; fine && i < count; i++) {
        const struct node *first = handle_get(HANDLE_NODE, (uintptr_t)after[i]);
        fine = first && first->index < graph->count && graph->nodes[first->index] == first;
    }
    if (!fine) {
        op_unref(op);
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct node *made = graph_add(graph, op);
    for (size_t i = 0; i < count; i++)
        graph_node_after(made, handle_get(HANDLE_NODE, (uintptr_t)after[i]));
    *node = HANDLE_OF(CUgraphNode, made);
    return CUDA_SUCCESS;
}

static CUresult kernel_op(const struct emu_kernel_node *params, struct op **op)
{
    if (!params) return CUDA_ERROR_INVALID_VALUE;
    struct launch launch = {
        .grid = {params->gridDimX, params->gridDimY, params->gridDimZ},
        .block = {params->blockDimX, params->blockDimY, params->blockDimZ},
        .shared_bytes = params->sharedMemBytes,
    };
    CUresult result = launch_make(params->func, params->kernelParams, params->extra, &launch);
    if (result != CUDA_SUCCESS) return result;
    *op = op_new(context_current(), OP_KERNEL, launch.function->name);
    (*op)->launch = launch;
    return CUDA_SUCCESS;
}

/* Of copies and memsets the memory is looked at when the node is told of it. */
static CUresult set_op(const struct emu_set_node *params, struct op **op)
{
    unsigned bytes = params ? params->elementSize : 0;
    if ((bytes != 1 && bytes != 2 && bytes != 4) || !params->width || !params->height)
        return CUDA_ERROR_INVALID_VALUE;
    struct set set = {{params->dst, params->pitch, 0},
                      params->width * bytes,
                      params->height,
                      params->value,
                      bytes};
    if (!side_is_memory(&set.to, set.width, set.height, 1)) return CUDA_ERROR_INVALID_VALUE;
    *op = op_new(context_current(), OP_SET, "a memset node");
    (*op)->set = set;
    return CUDA_SUCCESS;
}

static CUresult copy_op(const CUDA_MEMCPY3D *params, struct op **op)
{
    struct copy copy;
    CUresult result = copy_make(params, &copy);
    if (result != CUDA_SUCCESS) return result;
    bool any = copy.width && copy.height && copy.depth;
    if (any && (!side_is_memory(&copy.from, copy.width, copy.height, copy.depth) ||
                !side_is_memory(&copy.to, copy.width, copy.height, copy.depth)))
        return CUDA_ERROR_INVALID_VALUE;
    *op = op_new(context_current(), OP_COPY, "a memcpy node");
    (*op)->copy = copy;
    return CUDA_SUCCESS;
}

static CUresult any_op(const struct emu_node *params, struct op **op)
{
    switch (params ? params->type : -1) {
    case CU_GRAPH_NODE_TYPE_KERNEL: return kernel_op(&params->kernel, op);
    case CU_GRAPH_NODE_TYPE_MEMCPY: return copy_op(&params->memcpy.copyParams, op);
    case CU_GRAPH_NODE_TYPE_MEMSET: return set_op(&params->memset, op);
    default: return params ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult do_cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                                    size_t count, const struct emu_kernel_node *params)
{
    struct op *op;
    CUresult result = kernel_op(params, &op);
    return result == CUDA_SUCCESS ? add_node(node, graph, after, count, op) : result;
}

CUresult do_cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                                 size_t count, const CUDA_MEMCPY3D *params, CUcontext context)
{
    struct op *op;
    CUresult result = copy_op(params, &op);
    return result == CUDA_SUCCESS ? add_node(node, graph, after, count, op) : result;
}

CUresult do_cuGraphAddMemsetNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                                 size_t count, const struct emu_set_node *params, CUcontext context)
{
    struct op *op;
    CUresult result = set_op(params, &op);
    return result == CUDA_SUCCESS ? add_node(node, graph, after, count, op) : result;
}

CUresult do_cuGraphAddChildGraphNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                                     size_t count, CUgraph named)
{
    const struct graph *child = graph_find(named);
    if (!child) return CUDA_ERROR_INVALID_VALUE;
    struct op *op = op_new(context_current(), OP_NOTHING, "a child graph");
    CUresult result = add_node(node, graph, after, count, op);
    if (result != CUDA_SUCCESS) return result;
    struct node *made = handle_get(HANDLE_NODE, (uintptr_t)*node);
    made->child = graph_clone(child);
    made->child->inner = true;
    return CUDA_SUCCESS;
}

CUresult do_cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                           struct emu_node *params)
{
    struct op *op;
    if (params && params->type == CU_GRAPH_NODE_TYPE_GRAPH)
        return do_cuGraphAddChildGraphNode(node, graph, after, count, params->child);
    CUresult result = any_op(params, &op);
    return result == CUDA_SUCCESS ? add_node(node, graph, after, count, op) : result;
}

CUresult do_cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                              const void *edges, size_t count, struct emu_node *params)
{
    return edges ? CUDA_ERROR_NOT_SUPPORTED : do_cuGraphAddNode(node, graph, after, count, params);
}

CUresult do_cuGraphChildGraphNodeGetGraph(CUgraphNode named, CUgraph *graph)
{
    const struct node *node = handle_get(HANDLE_NODE, (uintptr_t)named);
    if (!node || !graph || !node->child) return CUDA_ERROR_INVALID_VALUE;
    *graph = HANDLE_OF(CUgraph, node->child);
    return CUDA_SUCCESS;
}

CUresult do_cuGraphMemcpyNodeGetParams(CUgraphNode named, CUDA_MEMCPY3D *params)
{
    const struct node *node = handle_get(HANDLE_NODE, (uintptr_t)named);
    if (!node || !params || node->op->kind != OP_COPY) return CUDA_ERROR_INVALID_VALUE;
    const struct copy *copy = &node->op->copy;
    *params = (CUDA_MEMCPY3D){
        .srcMemoryType = CU_MEMORYTYPE_UNIFIED,
        .srcDevice = copy->from.address,
        .srcPitch = copy->from.pitch,
        .srcHeight = copy->from.pitch ? copy->from.slice / copy->from.pitch : 0,
        .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
        .dstDevice = copy->to.address,
        .dstPitch = copy->to.pitch,
        .dstHeight = copy->to.pitch ? copy->to.slice / copy->to.pitch : 0,
        .WidthInBytes = copy->width,
        .Height = copy->height,
        .Depth = copy->depth,
    };
    return CUDA_SUCCESS;
}

CUresult do_cuGraphMemsetNodeGetParams(CUgraphNode named, struct emu_set_node *params)
{
    const struct node *node = handle_get(HANDLE_NODE, (uintptr_t)named);
    if (!node || !params || node->op->kind != OP_SET) return CUDA_ERROR_INVALID_VALUE;
    const struct set *set = &node->op->set;
    *params = (struct emu_set_node){
        set->to.address, set->to.pitch, set->value, set->value_bytes, set->width / set->value_bytes,
        set->height};
    return CUDA_SUCCESS;
}

/* ---- Changing nodes and executables ---- */

/* The node becomes `op`, where it is of the same kind. */
static CUresult set_node(CUgraphNode named, struct op *op)
{
    struct node *node = handle_get(HANDLE_NODE, (uintptr_t)named);
    bool fits = node && !node->child && node->op->kind == op->kind;
    struct op *goes = fits ? node->op : op;
    if (fits) node->op = op;
    op_unref(goes);
    return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult do_cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D *params)
{
    struct op *op;
    CUresult result = copy_op(params, &op);
    return result == CUDA_SUCCESS ? set_node(node, op) : result;
}

CUresult do_cuGraphMemsetNodeSetParams(CUgraphNode node, const struct emu_set_node *params)
{
    struct op *op;
    CUresult result = set_op(params, &op);
    return result == CUDA_SUCCESS ? set_node(node, op) : result;
}

CUresult do_cuGraphNodeSetParams(CUgraphNode node, struct emu_node *params)
{
    struct op *op;
    CUresult result = any_op(params, &op);
    return result == CUDA_SUCCESS ? set_node(node, op) : result;
}

/* The executable's node becomes `op`, where it is of the same kind. */
static CUresult replace(CUgraphExec exec, CUgraphNode node, struct op *op)
{
    struct graph *made = handle_get(HANDLE_EXEC, (uintptr_t)exec);
    for (unsigned i = 0; made && i < made->count; i++) {
        struct node *found = made->nodes[i];
        if (found->source != (uintptr_t)node || found->op->kind != op->kind) continue;
        op_unref(found->op);
        found->op = op;
        return CUDA_SUCCESS;
    }
    op_unref(op);
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult do_cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                              const struct emu_kernel_node *params)
{
    struct op *op;
    CUresult result = kernel_op(params, &op);
    return result == CUDA_SUCCESS ? replace(exec, node, op) : result;
}

CUresult do_cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                           const CUDA_MEMCPY3D *params, CUcontext context)
{
    struct op *op;
    CUresult result = copy_op(params, &op);
    return result == CUDA_SUCCESS ? replace(exec, node, op) : result;
}

CUresult do_cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                           const struct emu_set_node *params, CUcontext context)
{
    struct op *op;
    CUresult result = set_op(params, &op);
    return result == CUDA_SUCCESS ? replace(exec, node, op) : result;
}

CUresult do_cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, struct emu_node *params)
{
    struct op *op;
    CUresult result = any_op(params, &op);
    return result == CUDA_SUCCESS ? replace(exec, node, op) : result;
}

CUresult do_cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph named, struct emu_update *info)
{
    struct graph *made = handle_get(HANDLE_EXEC, (uintptr_t)exec), *graph = graph_find(named);
    if (!made || !graph || !info) return CUDA_ERROR_INVALID_VALUE;
    struct graph *with = graph_new(HANDLE_EXEC);
    expand(with, graph, NULL);
    bool same = with->count == made->count;
    for (unsigned i = 0; same && i < with->count; i++)
        same = with->nodes[i]->op->kind == made->nodes[i]->op->kind;
    for (unsigned i = 0; same && i < with->count; i++) {
        struct op *op = with->nodes[i]->op;
        with->nodes[i]->op = made->nodes[i]->op;
        made->nodes[i]->op = op;
    }
    graph_free(with);
    *info = (struct emu_update){.result = same ? 0 : 2};
    return same ? CUDA_SUCCESS : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

static struct graph *exec_find(CUgraphExec exec)
{
    return handle_get(HANDLE_EXEC, (uintptr_t)exec);
}

CUresult do_cuGraphUpload(CUgraphExec exec, CUstream stream)
{
    if (!stream_find(stream)) return CUDA_ERROR_INVALID_HANDLE;
    return exec_find(exec) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Between two operations of the stream that do nothing: one before all nodes, one after them. */
CUresult do_cuGraphLaunch(CUgraphExec exec, CUstream named)
{
    struct graph *graph = exec_find(exec);
    struct stream *stream = stream_find(named);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (!graph) return CUDA_ERROR_INVALID_VALUE;
    if (stream->capture) return CUDA_ERROR_NOT_SUPPORTED; /* as a child graph */
    charge(emu.machine.costs.launch, 0);
    struct op *begin = op_new(stream->context, OP_NOTHING, "cuGraphLaunch");
    op_ref(begin);
    CUresult result = op_submit(stream, begin);
    struct op **ops = calloc(graph->count + 1, sizeof(struct op *));
    struct op *end = op_new(stream->context, OP_NOTHING, "cuGraphLaunch");
    assert(ops);
    for (unsigned i = 0; i < graph->count && result == CUDA_SUCCESS; i++) {
        const struct node *node = graph->nodes[i];
        ops[i] = op_copy(stream->context, node->op);
        ops[i]->stream_id = (unsigned)stream->id;
        op_after(ops[i], begin);
        for (unsigned j = 0; j < node->after_count; j++)
            op_after(ops[i], ops[node->after[j]->index]);
        op_after(end, ops[i]);
        op_launch(ops[i]);
    }
    if (result == CUDA_SUCCESS)
        result = op_submit(stream, end);
    else
        op_unref(end);
    op_unref(begin);
    free(ops);
    return result;
}

CUresult do_cuGraphExecDestroy(CUgraphExec exec)
{
    struct graph *graph = exec_find(exec);
    if (!graph) return CUDA_ERROR_INVALID_VALUE;
    graph_free(graph);
    return CUDA_SUCCESS;
}

static void release_graph(void *object)
{
    struct graph *graph = object;
    if (!graph->inner) graph_free(graph);
}

void graph_close(void)
{
    handle_each(HANDLE_GRAPH, release_graph);
    handle_each(HANDLE_EXEC, release_graph);
}
