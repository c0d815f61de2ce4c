/* A treap whose shape depends on its content alone, so that runs repeat; see range.h. */
#include "emu/range.h"

#include <assert.h>
#include <stddef.h>

struct range *range_find(struct range *root, uint64_t at)
{
    while (root && (at < root->start || at >= root->end))
        root = at < root->start ? root->left : root->right;
    return root;
}

struct range *range_from(struct range *root, uint64_t at)
{
    struct range *found = NULL;
    while (root) {
        if (root->end > at) found = root;
        root = root->end > at ? root->left : root->right;
    }
    return found;
}

bool range_hits(struct range *root, uint64_t start, uint64_t end)
{
    struct range *first = range_from(root, start);
    return first && first->start < end;
}

/* A node's priority is a hash of its start: the tree's shape depends on its content alone. */
static uint64_t hash(uint64_t value)
{
    value ^= value >> 33;
    value *= UINT64_C(0xff51afd7ed558ccd);
    value ^= value >> 33;
    value *= UINT64_C(0xc4ceb9fe1a85ec53);
    return value ^ (value >> 33);
}

/* Splits by start: what starts before `at` goes left. */
static void split(struct range *root, uint64_t at, struct range **left, struct range **right)
{
    while (root) {
        if (root->start < at) {
            *left = root;
            left = &root->right;
            root = root->right;
        } else {
            *right = root;
            right = &root->left;
            root = root->left;
        }
    }
    *left = *right = NULL;
}

void range_insert(struct range **root, struct range *node)
{
    assert(node->start < node->end);
    assert(!range_hits(*root, node->start, node->end));
    node->priority = hash(node->start);
    while (*root && (*root)->priority >= node->priority)
        root = node->start < (*root)->start ? &(*root)->left : &(*root)->right;
    split(*root, node->start, &node->left, &node->right);
    *root = node;
}

static struct range *merge(struct range *left, struct range *right)
{
    struct range *root = NULL, **at = &root;
    while (left && right) {
        if (left->priority >= right->priority) {
            *at = left;
            at = &left->right;
            left = left->right;
        } else {
            *at = right;
            at = &right->left;
            right = right->left;
        }
    }
    *at = left ? left : right;
    return root;
}

void range_remove(struct range **root, struct range *node)
{
    while (*root && *root != node)
        root = node->start < (*root)->start ? &(*root)->left : &(*root)->right;
    assert(*root == node);
    *root = merge(node->left, node->right);
    node->left = node->right = NULL;
}
