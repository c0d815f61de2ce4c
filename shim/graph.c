/* Graphs: whatever an executable graph will use is kept within reach as long as it lives.
 *
 * A graph comes into being by capture, node by node, from other graphs, or by all of that. What was
 * captured is kept by the graph from the captured operations themselves (pool_capture_ends); the
 * rest is found by walking over the nodes when an executable is made of it, children and
 * conditional bodies too. A change to an executable adds what it names.
 *
 * What the driver looks at in a call of a graph's, it finds mapped there. */
#include <pthread.h>
#include <stdlib.h>

#include "base/log.h"
#include "shim/abi.h"
#include "shim/wrap.h"

/* ---- Bodies of conditional nodes: no call of the driver's tells them later ---- */

struct conditional {
    CUgraph graph; /* that the node is in */
    CUgraphNode node;
    const CUgraph *bodies; /* the driver's, good as long as the node */
    unsigned count;
};

static pthread_mutex_t bodies_lock = PTHREAD_MUTEX_INITIALIZER;
static struct conditional *conditionals; /* under bodies_lock, like the rest here */
static size_t conditional_count, conditional_room;

static bool grow(void)
{
    if (conditional_count < conditional_room) return true;
    size_t room = conditional_room ? 2 * conditional_room : 16;
    struct conditional *grown = realloc(conditionals, room * sizeof *grown);
    if (!grown) return false;
    conditionals = grown;
    conditional_room = room;
    return true;
}

static void note_conditional(CUgraph graph, CUgraphNode node, const struct abi_node *params)
{
    pthread_mutex_lock(&bodies_lock);
    if (grow()) {
        conditionals[conditional_count++] = (struct conditional){
            graph, node, params->conditional.bodies, params->conditional.count};
    }
    pthread_mutex_unlock(&bodies_lock);
}

/* The last node of that handle, since handles are used again. */
static bool find_conditional(CUgraphNode node, struct conditional *found)
{
    found->bodies = NULL;
    pthread_mutex_lock(&bodies_lock);
    for (size_t i = conditional_count; i-- > 0 && !found->bodies;) {
        if (conditionals[i].node == node) *found = conditionals[i];
    }
    pthread_mutex_unlock(&bodies_lock);
    return found->bodies != NULL;
}

static void forget_conditionals(CUgraph graph)
{
    pthread_mutex_lock(&bodies_lock);
    size_t kept = 0;
    for (size_t i = 0; i < conditional_count; i++) {
        if (conditionals[i].graph != graph) conditionals[kept++] = conditionals[i];
    }
    conditional_count = kept;
    pthread_mutex_unlock(&bodies_lock);
}

/* ---- What a node uses: of a kernel whole blocks, of others what they name ---- */

static void touch_kernel(struct pool_op *op, const struct abi_kernel_node *kernel, bool is_v2)
{
    void *function = kernel->function;
    if (!function && is_v2) function = kernel->kernel;
    if (function) pool_op_touch_params(op, function, kernel->params, kernel->extra);
}

static void touch_set(struct pool_op *op, const struct abi_set_node *set)
{
    shim_touch_plane(op, set->to, set->pitch, set->element_bytes, set->width, set->height);
}

static void touch_words(struct pool_op *op, const struct abi_words_node *words)
{
    shim_touch_words(op, words->words, words->count);
}

/* What the driver looks at when it is told of the node: a kernel's parameters it takes as they are.
 */
static void touch_seen(struct pool_op *op, const struct abi_node *node)
{
    if (node->type == ABI_NODE_COPY) shim_touch_copy(op, &node->copy.copy);
    if (node->type == ABI_NODE_SET) touch_set(op, &node->set);
    if (node->type == ABI_NODE_WORDS) touch_words(op, &node->words);
}

#define GET(symbol, type, into)                                                                    \
    (SHIM_REAL(symbol, (CUgraphNode, type *)) &&                                                   \
     SHIM_REAL(symbol, (CUgraphNode, type *))(node, into) == CUDA_SUCCESS)

/* False: the driver does not say. */
static bool touch_kernel_node(struct pool_op *op, CUgraphNode node)
{
    struct abi_kernel_node kernel = {0};
    bool is_v2 = GET(cuGraphKernelNodeGetParams_v2, struct abi_kernel_node, &kernel);
    if (!is_v2 && !GET(cuGraphKernelNodeGetParams, struct abi_kernel_node, &kernel)) return false;
    touch_kernel(op, &kernel, is_v2);
    return true;
}

static bool touch_node(struct pool_op *op, CUgraphNode node, int type)
{
    CUDA_MEMCPY3D copy;
    struct abi_set_node set;
    struct abi_words_node words;
    switch (type) {
    case ABI_NODE_KERNEL: return touch_kernel_node(op, node);
    case ABI_NODE_COPY:
        if (!GET(cuGraphMemcpyNodeGetParams, CUDA_MEMCPY3D, &copy)) return false;
        shim_touch_copy(op, &copy);
        return true;
    case ABI_NODE_SET:
        if (!GET(cuGraphMemsetNodeGetParams, struct abi_set_node, &set)) return false;
        touch_set(op, &set);
        return true;
    case ABI_NODE_WORDS:
        if (!GET(cuGraphBatchMemOpNodeGetParams, struct abi_words_node, &words)) return false;
        touch_words(op, &words);
        return true;
    default: return true; /* uses no memory, or memory of its own */
    }
}

/* ---- Walking over a graph ---- */

/* `captured`: what was captured is known without the driver. */
struct walk {
    vp_pool *pool;
    const void *owner;
    bool captured;
    unsigned depth;
};

enum { DEPTH_MOST = 64 };

static CUresult keep_graph(struct walk walk, CUgraph graph);

static CUresult keep_bodies(struct walk walk, CUgraphNode node, bool *known)
{
    struct conditional found;
    CUresult result = CUDA_SUCCESS;
    *known = find_conditional(node, &found);
    for (unsigned i = 0; *known && i < found.count && result == CUDA_SUCCESS; i++)
        result = keep_graph(walk, found.bodies[i]);
    return result;
}

static CUresult keep_node(struct walk walk, CUgraphNode node)
{
    int type = ABI_NODE_KERNEL;
    CUgraph child = NULL;
    CUresult result = CUDA_SUCCESS;
    bool known = GET(cuGraphNodeGetType, int, &type);
    struct pool_op op;
    if (known && type == ABI_NODE_CONDITIONAL) {
        result = keep_bodies(walk, node, &known);
    } else if (known && type == ABI_NODE_CHILD) {
        known = GET(cuGraphChildGraphNodeGetGraph, CUgraph, &child);
        if (known) result = keep_graph(walk, child);
    }
    if (result != CUDA_SUCCESS) return result;
    pool_op_begin(&op, walk.pool, POOL_GRAPH, NULL, "cuGraphInstantiate");
    if (known) known = touch_node(&op, node, type);
    if (!known && !walk.captured) {
        log_warn("the driver does not say what a node of type %d of a graph uses: all memory is "
                 "kept where it is, until the graph ends",
                 type);
        pool_op_touch_anything(&op);
    }
    return pool_op_keep(&op, walk.owner);
}

static CUresult keep_graph(struct walk walk, CUgraph graph)
{
    CUresult (*list)(CUgraph, CUgraphNode *, size_t *) =
        SHIM_REAL(cuGraphGetNodes, (CUgraph, CUgraphNode *, size_t *));
    size_t count = 0;
    walk.captured = walk.captured || pool_keeper_exists(walk.pool, graph);
    pool_keeper_copies(walk.pool, walk.owner, graph);
    if (++walk.depth > DEPTH_MOST) return CUDA_ERROR_NOT_SUPPORTED;
    CUresult result = list ? list(graph, NULL, &count) : CUDA_ERROR_NOT_SUPPORTED;
    if (result != CUDA_SUCCESS || count == 0) return result;
    CUgraphNode *nodes = calloc(count, sizeof(CUgraphNode));
    if (!nodes) return CUDA_ERROR_OUT_OF_MEMORY;
    result = list(graph, nodes, &count);
    for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) result = keep_node(walk, nodes[i]);
    free(nodes);
    return result;
}

static CUresult keep_for(const void *owner, CUgraph graph)
{
    vp_pool *pool = shim_pool();
    return pool && owner && graph ? keep_graph((struct walk){pool, owner, false, 0}, graph)
                                  : CUDA_SUCCESS;
}

/* ---- Executables ---- */

/* What its call kept, since the driver may look at it, is the executable's now. */
static CUresult made(CUresult result, const CUgraphExec *exec, const void *call)
{
    vp_pool *pool = shim_pool();
    if (pool && result == CUDA_SUCCESS) pool_keeper_copies(pool, *exec, call);
    if (pool) pool_keeper_ends(pool, call);
    return result;
}

#define MAKES(symbol, params, args)                                                                \
    static CUresult symbol##_wrap params                                                           \
    {                                                                                              \
        struct shim_retry retry = {0};                                                             \
        CUresult result = keep_for(&retry, graph);                                                 \
        if (result != CUDA_SUCCESS) return made(result, exec, &retry);                             \
        do result = SHIM_REAL(symbol, params) args;                                                \
        while (SHIM_RETRY(&retry, result, #symbol, SHIM_ON_CARD, 0));                              \
        return made(result, exec, &retry);                                                         \
    }
MAKES(cuGraphInstantiate,
      (CUgraphExec * exec, CUgraph graph, CUgraphNode *node, char *text, size_t bytes),
      (exec, graph, node, text, bytes))
MAKES(cuGraphInstantiate_v2,
      (CUgraphExec * exec, CUgraph graph, CUgraphNode *node, char *text, size_t bytes),
      (exec, graph, node, text, bytes))
MAKES(cuGraphInstantiateWithFlags, (CUgraphExec * exec, CUgraph graph, unsigned long long flags),
      (exec, graph, flags))
MAKES(cuGraphInstantiateWithParams, (CUgraphExec * exec, CUgraph graph, void *how),
      (exec, graph, how))
MAKES(cuGraphInstantiateWithParams_ptsz, (CUgraphExec * exec, CUgraph graph, void *how),
      (exec, graph, how))

#define FROM_GRAPH(symbol, graph, params, args)                                                    \
    static CUresult symbol##_wrap params                                                           \
    {                                                                                              \
        CUresult kept = keep_for(exec, graph);                                                     \
        return kept == CUDA_SUCCESS ? SHIM_REAL(symbol, params) args : kept;                       \
    }
FROM_GRAPH(cuGraphExecUpdate, graph,
           (CUgraphExec exec, CUgraph graph, CUgraphNode *node, int *result),
           (exec, graph, node, result))
FROM_GRAPH(cuGraphExecUpdate_v2, graph, (CUgraphExec exec, CUgraph graph, void *result),
           (exec, graph, result))
FROM_GRAPH(cuGraphExecChildGraphNodeSetParams, child,
           (CUgraphExec exec, CUgraphNode node, CUgraph child), (exec, node, child))

/* A node of an executable gets other parameters. */
#define SETS(symbol, given, params, args, touch)                                                   \
    static CUresult symbol##_wrap params                                                           \
    {                                                                                              \
        vp_pool *pool = exec && node && (given) ? shim_pool() : NULL;                              \
        CUresult kept = CUDA_SUCCESS;                                                              \
        struct pool_op op;                                                                         \
        if (pool) {                                                                                \
            pool_op_begin(&op, pool, POOL_GRAPH, NULL, #symbol);                                   \
            touch;                                                                                 \
            kept = pool_op_keep(&op, exec);                                                        \
        }                                                                                          \
        return kept == CUDA_SUCCESS ? SHIM_REAL(symbol, params) args : kept;                       \
    }
SETS(cuGraphExecKernelNodeSetParams, to,
     (CUgraphExec exec, CUgraphNode node, const struct abi_kernel_node *to), (exec, node, to),
     touch_kernel(&op, to, false))
SETS(cuGraphExecKernelNodeSetParams_v2, to,
     (CUgraphExec exec, CUgraphNode node, const struct abi_kernel_node *to), (exec, node, to),
     touch_kernel(&op, to, true))
SETS(cuGraphExecMemcpyNodeSetParams, to,
     (CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *to, CUcontext context),
     (exec, node, to, context), shim_touch_copy(&op, to))
SETS(cuGraphExecMemsetNodeSetParams, to,
     (CUgraphExec exec, CUgraphNode node, const struct abi_set_node *to, CUcontext context),
     (exec, node, to, context), touch_set(&op, to))
SETS(cuGraphExecBatchMemOpNodeSetParams, to,
     (CUgraphExec exec, CUgraphNode node, const struct abi_words_node *to), (exec, node, to),
     touch_words(&op, to))

static CUresult cuGraphExecNodeSetParams_wrap(CUgraphExec exec, CUgraphNode node,
                                              struct abi_node *to)
{
    vp_pool *pool = exec && node && to ? shim_pool() : NULL;
    CUresult kept = CUDA_SUCCESS;
    struct pool_op op;
    if (pool && to->type == ABI_NODE_CHILD) {
        kept = keep_for(exec, to->child);
    } else if (pool) {
        pool_op_begin(&op, pool, POOL_GRAPH, NULL, "cuGraphExecNodeSetParams");
        if (to->type == ABI_NODE_KERNEL) touch_kernel(&op, &to->kernel, true);
        touch_seen(&op, to);
        kept = pool_op_keep(&op, exec);
    }
    if (kept != CUDA_SUCCESS) return kept;
    return SHIM_REAL(cuGraphExecNodeSetParams,
                     (CUgraphExec, CUgraphNode, struct abi_node *))(exec, node, to);
}

/* ---- Nodes of graphs ---- */

static CUresult added(CUresult result, const CUgraphNode *node, CUgraph graph,
                      const struct abi_node *params)
{
    vp_pool *pool = result == CUDA_SUCCESS && params ? shim_pool_wanted() : NULL;
    if (!pool) return result;
    if (params->type == ABI_NODE_CHILD) pool_keeper_copies(pool, graph, params->child);
    if (params->type == ABI_NODE_CONDITIONAL) note_conditional(graph, *node, params);
    return result;
}

/* The driver refuses a node that names memory which is not mapped at that moment. It is kept as
 * long as the call lasts: nobody tells when a graph inside another ends, nor which graph a node is
 * in. Making an executable keeps it again. */
#define NAMES(symbol, params, args, touch, told)                                                   \
    static CUresult symbol##_wrap params                                                           \
    {                                                                                              \
        vp_pool *pool = to ? shim_pool() : NULL;                                                   \
        CUresult result = CUDA_SUCCESS;                                                            \
        struct pool_op op;                                                                         \
        if (pool) {                                                                                \
            pool_op_begin(&op, pool, POOL_GRAPH, NULL, #symbol);                                   \
            touch;                                                                                 \
            result = pool_op_keep(&op, &op);                                                       \
        }                                                                                          \
        if (result == CUDA_SUCCESS) result = SHIM_REAL(symbol, params) args;                       \
        if (pool) pool_keeper_ends(pool, &op);                                                     \
        return told;                                                                               \
    }
NAMES(cuGraphAddMemcpyNode,
      (CUgraphNode * node, CUgraph graph, const CUgraphNode *after, size_t count,
       const CUDA_MEMCPY3D *to, CUcontext context),
      (node, graph, after, count, to, context), shim_touch_copy(&op, to), result)
NAMES(cuGraphAddMemsetNode,
      (CUgraphNode * node, CUgraph graph, const CUgraphNode *after, size_t count,
       const struct abi_set_node *to, CUcontext context),
      (node, graph, after, count, to, context), touch_set(&op, to), result)
NAMES(cuGraphAddBatchMemOpNode,
      (CUgraphNode * node, CUgraph graph, const CUgraphNode *after, size_t count,
       const struct abi_words_node *to),
      (node, graph, after, count, to), touch_words(&op, to), result)
NAMES(cuGraphAddNode,
      (CUgraphNode * node, CUgraph graph, const CUgraphNode *after, size_t count,
       struct abi_node *to),
      (node, graph, after, count, to), touch_seen(&op, to), added(result, node, graph, to))
NAMES(cuGraphAddNode_v2,
      (CUgraphNode * node, CUgraph graph, const CUgraphNode *after, const void *edges, size_t count,
       struct abi_node *to),
      (node, graph, after, edges, count, to), touch_seen(&op, to), added(result, node, graph, to))
NAMES(cuGraphMemcpyNodeSetParams, (CUgraphNode node, const CUDA_MEMCPY3D *to), (node, to),
      shim_touch_copy(&op, to), result)
NAMES(cuGraphMemsetNodeSetParams, (CUgraphNode node, const struct abi_set_node *to), (node, to),
      touch_set(&op, to), result)
NAMES(cuGraphBatchMemOpNodeSetParams, (CUgraphNode node, const struct abi_words_node *to),
      (node, to), touch_words(&op, to), result)
NAMES(cuGraphNodeSetParams, (CUgraphNode node, struct abi_node *to), (node, to),
      touch_seen(&op, to), result)

/* ---- Graphs of graphs, and ends ---- */

static CUresult cuGraphClone_wrap(CUgraph *clone, CUgraph graph)
{
    CUresult result = SHIM_REAL(cuGraphClone, (CUgraph *, CUgraph))(clone, graph);
    vp_pool *pool = shim_pool();
    if (pool && result == CUDA_SUCCESS) pool_keeper_copies(pool, *clone, graph);
    return result;
}

/* Of the child a copy goes in, whose nodes are found; but not what was captured. */
static CUresult cuGraphAddChildGraphNode_wrap(CUgraphNode *node, CUgraph graph,
                                              const CUgraphNode *after, size_t count, CUgraph child)
{
    CUresult result =
        SHIM_REAL(cuGraphAddChildGraphNode, (CUgraphNode *, CUgraph, const CUgraphNode *, size_t,
                                             CUgraph))(node, graph, after, count, child);
    vp_pool *pool = shim_pool();
    if (pool && result == CUDA_SUCCESS) pool_keeper_copies(pool, graph, child);
    return result;
}

/* When the driver's call is over, another thread may have been given the same handle already: what
 * the old one kept is the call's by then. Launches under way end as they would have: what they use
 * is idle once they have. */
#define ENDS(symbol, type, before)                                                                 \
    static CUresult symbol##_wrap(type object)                                                     \
    {                                                                                              \
        vp_pool *pool = shim_pool();                                                               \
        before;                                                                                    \
        if (pool) pool_keeper_moves(pool, &pool, object);                                          \
        CUresult result = SHIM_REAL(symbol, (type))(object);                                       \
        if (pool && result != CUDA_SUCCESS) pool_keeper_moves(pool, object, &pool);                \
        if (pool && result == CUDA_SUCCESS) pool_keeper_ends(pool, &pool);                         \
        return result;                                                                             \
    }
ENDS(cuGraphExecDestroy, CUgraphExec, (void)0)
/* Of conditional nodes that are forgotten and live on, all memory is kept. */
ENDS(cuGraphDestroy, CUgraph, forget_conditionals(object))

/* clang-format off */
const struct shim_wrap shim_graph_wraps[] = {
    SHIM_ROW_ONE(cuGraphInstantiate, 10000),
    SHIM_ROW_ONE(cuGraphInstantiate_v2, 11000),
    SHIM_ROW_ONE(cuGraphInstantiateWithFlags, 11040),
    SHIM_ROW_PAIR(cuGraphInstantiateWithParams, cuGraphInstantiateWithParams_ptsz, 12000),
    SHIM_ROW_ONE(cuGraphExecUpdate, 10020),
    SHIM_ROW_ONE(cuGraphExecUpdate_v2, 12000),
    SHIM_ROW_ONE(cuGraphExecChildGraphNodeSetParams, 11010),
    SHIM_ROW_ONE(cuGraphExecKernelNodeSetParams, 10010),
    SHIM_ROW_ONE(cuGraphExecKernelNodeSetParams_v2, 12000),
    SHIM_ROW_ONE(cuGraphExecMemcpyNodeSetParams, 10020),
    SHIM_ROW_ONE(cuGraphExecMemsetNodeSetParams, 10020),
    SHIM_ROW_ONE(cuGraphExecBatchMemOpNodeSetParams, 11070),
    SHIM_ROW_ONE(cuGraphExecNodeSetParams, 12020),
    SHIM_ROW_ONE(cuGraphClone, 10000),
    SHIM_ROW_ONE(cuGraphAddChildGraphNode, 10000),
    SHIM_ROW_ONE(cuGraphAddMemcpyNode, 10000),
    SHIM_ROW_ONE(cuGraphAddMemsetNode, 10000),
    SHIM_ROW_ONE(cuGraphAddBatchMemOpNode, 11070),
    SHIM_ROW_ONE(cuGraphMemcpyNodeSetParams, 10000),
    SHIM_ROW_ONE(cuGraphMemsetNodeSetParams, 10000),
    SHIM_ROW_ONE(cuGraphBatchMemOpNodeSetParams, 11070),
    SHIM_ROW_ONE(cuGraphNodeSetParams, 12020),
    SHIM_ROW_ONE(cuGraphAddNode, 12020),
    SHIM_ROW_ONE(cuGraphAddNode_v2, 12030),
    SHIM_ROW_ONE(cuGraphExecDestroy, 10000),
    SHIM_ROW_ONE(cuGraphDestroy, 10000),
    SHIM_ROWS_END,
};
/* clang-format on */
