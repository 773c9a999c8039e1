/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What weirrun and its agents (one a host) say to each other: frames of a 12-byte header (length, type,
 * argument; little endian) and data, over a socket pair on this host and over the remote shell's stdin and
 * stdout elsewhere.
 *
 * Both sides always read; what could pile up (output, standard input) is only sent against credit. So nothing
 * can block the frames that report an exit or carry a signal.
 */
#ifndef WEIRRUN_FRAME_H
#define WEIRRUN_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

enum wr_frame_type {
    /* weirrun to agent */
    WR_FRAME_START = 1, /* data: struct wr_order as text, see weirrun_order.h */
    WR_FRAME_STDIN,     /* data for the standard input of rank 0; without data: end of file */
    WR_FRAME_CREDIT,    /* argument: so many more bytes of output may be sent */
    WR_FRAME_SIGNAL,    /* argument: a signal for every rank */
    WR_FRAME_END,       /* argument: a signal for every rank, to be followed by SIGKILL after the grace */
    WR_FRAME_KILL,      /* SIGKILL to everything now */
    WR_FRAME_CLOSED,    /* argument: the stream (1 or 2) that nobody reads any more */
    /* agent to weirrun */
    WR_FRAME_OUT,          /* argument: rank; data for the standard output */
    WR_FRAME_ERR,          /* argument: rank; data for the standard error */
    WR_FRAME_STDIN_CREDIT, /* argument: so many more bytes of standard input may be sent */
    WR_FRAME_STDIN_CLOSED, /* rank 0 reads no more */
    WR_FRAME_EXIT,         /* argument: rank; data: u32, the exit code, or 256 + the signal that killed it */
    WR_FRAME_FAILED,       /* argument: rank or WR_FRAME_NO_RANK; data: u32 exit code, then a sentence */
    WR_FRAME_DONE          /* all ranks and everything they started are gone, all output is sent */
};

#define WR_FRAME_NO_RANK UINT32_MAX

enum {
    WR_FRAME_HEADER = 12,
    WR_FRAME_MAX = 1 << 26,       /* longest data: an environment and arguments fit */
    WR_OUTPUT_WINDOW = 256 << 10, /* output that an agent may send ahead, about */
    WR_STDIN_WINDOW = 64 << 10,   /* standard input that may be sent ahead */
    WR_EXIT_SIGNALED = 256        /* see WR_FRAME_EXIT */
};

/* Starts what an agent says; then the version and a newline. Whatever a login shell printed before it is
 * skipped. */
#define WR_AGENT_HELLO "weir-agent/1 "

struct wr_agent_frame {
    uint32_t type, arg;
    const char *data;
    size_t len;
};

/* Bytes that are added at the end and taken from the front. */
struct wr_queue {
    struct wr_buf buf;
    size_t head;
};

static inline size_t wr_queue_len(const struct wr_queue *q)
{
    return q->buf.len - q->head;
}
static inline const char *wr_queue_data(const struct wr_queue *q)
{
    return q->buf.data + q->head;
}
void wr_queue_add(struct wr_queue *q, const void *data, size_t len);
void wr_queue_take(struct wr_queue *q, size_t len);
void wr_queue_free(struct wr_queue *q);

/* One end of a connection; both descriptors (often the same) are non-blocking. */
struct wr_channel {
    int in, out; /* -1 when closed */
    struct wr_queue rx, tx;
    bool mute; /* nothing can be written any more; what the other side sent before can still be read */
    bool gone; /* the other side closed, or sent nonsense, or memory ran out; frames that came before are
                  still there */
};

/* Takes over the descriptors and makes them non-blocking. */
void wr_channel_open(struct wr_channel *ch, int in, int out);
/* Closes the descriptors and frees what is queued. */
void wr_channel_close(struct wr_channel *ch);
/* Queues a frame; call wr_channel_flush() afterwards. */
void wr_channel_send(struct wr_channel *ch, enum wr_frame_type type, uint32_t arg, const void *data, size_t len);
/* Writes and reads what is possible without blocking; may set `mute` or `gone`. */
void wr_channel_flush(struct wr_channel *ch);
void wr_channel_fill(struct wr_channel *ch);
/* Takes the next whole frame; its data is valid until the next call of fill or next. */
bool wr_channel_next(struct wr_channel *ch, struct wr_agent_frame *frame);

void wr_u32_store(unsigned char *p, uint32_t v);
uint32_t wr_u32_load(const void *p);

#endif
