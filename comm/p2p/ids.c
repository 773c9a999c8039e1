/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers that a peer may name: the lower half is an index, the upper half the slot's generation. */
#include <stdlib.h>

#include "comm/p2p/p2p_impl.h"

enum { NO_SLOT = UINT32_MAX };

static bool ids_grow(struct p2p_ids *ids)
{
    uint32_t n = ids->n ? ids->n * 2 : 16;
    struct p2p_id_slot *slot = n < NO_SLOT / 2 ? realloc(ids->slot, n * sizeof *slot) : NULL;
    if (!slot)
        return false;
    for (uint32_t i = ids->n; i < n; i++)
        slot[i] = (struct p2p_id_slot){NULL, 1, i + 1 < n ? i + 1 : NO_SLOT};
    ids->first_free = ids->n;
    ids->slot = slot;
    ids->n = n;
    return true;
}

bool wr_p2p_id_new(struct p2p_ids *ids, void *object, uint64_t *id)
{
    if ((!ids->n || ids->first_free == NO_SLOT) && !ids_grow(ids))
        return false;
    uint32_t i = ids->first_free;
    ids->first_free = ids->slot[i].next_free;
    ids->slot[i].object = object;
    *id = (uint64_t)ids->slot[i].generation << 32 | i;
    return true;
}

void *wr_p2p_id_find(const struct p2p_ids *ids, uint64_t id)
{
    uint32_t i = (uint32_t)id;
    return i < ids->n && ids->slot[i].generation == id >> 32 ? ids->slot[i].object : NULL;
}

void wr_p2p_id_free(struct p2p_ids *ids, uint64_t id)
{
    uint32_t i = (uint32_t)id;
    ids->slot[i].object = NULL;
    ids->slot[i].generation++;
    ids->slot[i].next_free = ids->first_free;
    ids->first_free = i;
}
