/* SPDX-License-Identifier: BSD-3-Clause */
/* The order in which a kind of pass uses units: each pass is written down, and compared with the one before. */
#include <stdlib.h>

#include "optim/zero.h"

void wr_zero_order_begin(struct wr_zero_order *order)
{
    order->nnow = 0;
    order->at = 0;
    order->differs = false;
}

static bool room_for_one(struct wr_zero_order *order)
{
    if (order->nnow < order->cap_now)
        return true;
    uint64_t cap = order->cap_now * 2 + 64;
    uint32_t *more = realloc(order->now, cap * sizeof *more);
    if (!more)
        return false;
    order->now = more;
    order->cap_now = cap;
    return true;
}

/* A use that is not the expected one: the pass is taken up again where that unit comes next. */
static void look_for(struct wr_zero_order *order, uint64_t unit)
{
    order->differs = true;
    for (uint64_t i = order->at; i < order->nknown; i++)
        if (order->known[i] == unit) {
            order->at = i + 1;
            return;
        }
}

bool wr_zero_order_use(struct wr_zero_order *order, uint64_t unit)
{
    if (order->at < order->nknown && order->known[order->at] == unit)
        order->at++;
    else if (order->nknown)
        look_for(order, unit);
    if (!room_for_one(order))
        return false;
    order->now[order->nnow++] = (uint32_t)unit;
    return true;
}

void wr_zero_order_end(struct wr_zero_order *order)
{
    uint32_t *known = order->known;
    uint64_t cap = order->cap_known;
    order->known = order->now;
    order->nknown = order->nnow;
    order->cap_known = order->cap_now;
    order->now = known;
    order->cap_now = cap;
    order->nnow = 0;
    order->at = 0;
}

bool wr_zero_order_next(const struct wr_zero_order *order, uint64_t ahead, uint64_t *unit)
{
    if (ahead >= order->nknown)
        return false;
    *unit = order->known[(order->at + ahead) % order->nknown];
    return true;
}

void wr_zero_order_free(struct wr_zero_order *order)
{
    free(order->known);
    free(order->now);
}
