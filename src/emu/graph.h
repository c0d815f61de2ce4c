/* graph: a graph of operations, as captured or built by hand, and the executable made of one.
 *
 * A node is an operation that is never launched; each launch of a graph launches copies of it.
 * Nodes stand in the order in which they were added, so each comes behind those it depends on. */
#ifndef EMU_GRAPH_H
#define EMU_GRAPH_H

#include "emu/internal.h"

struct node {
    uint64_t handle;
    struct op *op; /* a template; owned */
    struct node **after;
    unsigned after_count, index;
    void **param_pointers; /* what cuGraphKernelNodeGetParams gives out */
    struct graph *child;   /* owned: the node stands for its nodes */
    uint64_t source;       /* in an executable: the node of the graph that it was made of */
    bool joined;
};

struct graph {
    uint64_t handle;
    struct node **nodes; /* each after those it depends on */
    unsigned count;
    bool inner; /* a node's child */
};

/* `kind` is HANDLE_GRAPH, or HANDLE_EXEC for an executable. */
struct graph *graph_new(enum handle_kind kind);
void graph_free(struct graph *graph);

/* The graph owns the operation from now on. */
struct node *graph_add(struct graph *graph, struct op *op);
void graph_node_after(struct node *node, struct node *first);

/* Whether a capture that goes on adds to it. */
bool capture_is_into(const struct graph *graph);

#endif
