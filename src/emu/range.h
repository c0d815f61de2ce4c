/* range: an ordered set of address ranges that do not overlap, as a treap of nodes that live inside
 * their owners. Finding, adding and removing take O(log n); no memory is allocated. */
#ifndef EMU_RANGE_H
#define EMU_RANGE_H

#include <stdbool.h>
#include <stdint.h>

struct range {
    uint64_t start, end; /* [start, end), not empty */
    struct range *left, *right;
    uint64_t priority;
};

/* The range that contains `at`, or NULL. */
struct range *range_find(struct range *root, uint64_t at);

/* The first range that ends after `at`, or NULL. */
struct range *range_from(struct range *root, uint64_t at);

/* Whether some range overlaps [start, end). */
bool range_hits(struct range *root, uint64_t start, uint64_t end);

/* Adds a node whose start and end are set and overlap no other. */
void range_insert(struct range **root, struct range *node);
void range_remove(struct range **root, struct range *node);

#endif
