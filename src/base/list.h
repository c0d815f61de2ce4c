/* Intrusive doubly linked list. A head is a node that points to itself; so does a node
 * out of any list. */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *next, *prev;
};

static inline void list_init(struct list *node)
{
    node->next = node->prev = node;
}

static inline bool list_empty(const struct list *head)
{
    return head->next == head;
}

static inline void list_remove(struct list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    list_init(node);
}

/* Puts node, which is in no list, before `at`: with a head, at the list's end. */
static inline void list_insert_before(struct list *at, struct list *node)
{
    node->prev = at->prev;
    node->next = at;
    at->prev->next = node;
    at->prev = node;
}

static inline void list_push_back(struct list *head, struct list *node)
{
    list_insert_before(head, node);
}

static inline void list_push_front(struct list *head, struct list *node)
{
    list_insert_before(head->next, node);
}

#define list_entry(node, type, member) ((type *)(void *)((char *)(node)-offsetof(type, member)))

#define list_each(node, head)                                                                      \
    for (struct list *node = (head)->next; node != (head); node = node->next)

/* The same when the body may remove the node it stands on. */
#define list_each_safe(node, head)                                                                 \
    for (struct list *node = (head)->next, *node##_next = node->next; node != (head);              \
         node = node##_next, node##_next = node->next)

#endif
