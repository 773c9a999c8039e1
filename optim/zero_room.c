/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranges of a memory, first fit. There are as many as blocks of a model that are there at once: a few dozen. */
#include <string.h>

#include "optim/zero_room.h"

unsigned char *wr_zero_room_take(struct wr_zero_room *room, uint64_t bytes)
{
    uint64_t at = 0, i = 0;
    bytes = (bytes + 63) / 64 * 64;
    if (room->n == room->cap)
        return NULL;
    while (i < room->n && room->spans[i].at - at < bytes) {
        at = room->spans[i].at + room->spans[i].bytes;
        i++;
    }
    if (room->bytes - at < bytes)
        return NULL;
    memmove(&room->spans[i + 1], &room->spans[i], (room->n - i) * sizeof *room->spans);
    room->spans[i] = (struct wr_zero_span){at, bytes};
    room->n++;
    return room->base + at;
}

void wr_zero_room_give(struct wr_zero_room *room, const unsigned char *data)
{
    uint64_t at = (uint64_t)(data - room->base), i = 0;
    while (i < room->n && room->spans[i].at != at)
        i++;
    if (i == room->n)
        return;
    room->n--;
    memmove(&room->spans[i], &room->spans[i + 1], (room->n - i) * sizeof *room->spans);
}
