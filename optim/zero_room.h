/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranges of a memory of the ZeRO engine. */
#ifndef WR_ZERO_ROOM_H
#define WR_ZERO_ROOM_H

#include <stdint.h>

struct wr_zero_span {
    uint64_t at, bytes;
};

/* Ranges of a memory that are given out: first fit. */
struct wr_zero_room {
    unsigned char *base;
    uint64_t bytes;
    struct wr_zero_span *spans; /* by address */
    uint64_t n, cap;
};

/* NULL when nothing fits (or cap ranges are out). */
unsigned char *wr_zero_room_take(struct wr_zero_room *room, uint64_t bytes);
void wr_zero_room_give(struct wr_zero_room *room, const unsigned char *data);

#endif
