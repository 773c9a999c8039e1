/* SPDX-License-Identifier: BSD-3-Clause */
/* A doubly linked list whose links stand inside the elements. Not thread safe. */
#ifndef WR_LIST_H
#define WR_LIST_H

#include <stdbool.h>

#include "base/compiler.h"

struct wr_list {
    struct wr_list *next, *prev;
};

static inline void wr_list_init(struct wr_list *head)
{
    head->next = head->prev = head;
}

static inline bool wr_list_empty(const struct wr_list *head)
{
    return head->next == head;
}

static inline void wr_list_insert_between(struct wr_list *item, struct wr_list *prev, struct wr_list *next)
{
    item->prev = prev;
    item->next = next;
    prev->next = item;
    next->prev = item;
}

static inline void wr_list_push_back(struct wr_list *head, struct wr_list *item)
{
    wr_list_insert_between(item, head->prev, head);
}

static inline void wr_list_push_front(struct wr_list *head, struct wr_list *item)
{
    wr_list_insert_between(item, head, head->next);
}

/* Takes an element out of its list; it then is a list of its own. */
static inline void wr_list_remove(struct wr_list *item)
{
    item->prev->next = item->next;
    item->next->prev = item->prev;
    wr_list_init(item);
}

#define wr_list_entry(item, type, member) WR_CONTAINER_OF(item, type, member)
#define wr_list_first(head, type, member) wr_list_entry((head)->next, type, member)

#define wr_list_for_each(pos, head, member)                                                                  \
    for (pos = wr_list_entry((head)->next, __typeof__(*pos), member); &pos->member != (head);                \
         pos = wr_list_entry(pos->member.next, __typeof__(*pos), member))

/* The element at `pos` may be removed inside the loop. */
#define wr_list_for_each_safe(pos, tmp, head, member)                                                        \
    for (pos = wr_list_entry((head)->next, __typeof__(*pos), member),                                        \
        tmp = wr_list_entry(pos->member.next, __typeof__(*pos), member);                                     \
         &pos->member != (head); pos = tmp, tmp = wr_list_entry(tmp->member.next, __typeof__(*tmp), member))

#endif
