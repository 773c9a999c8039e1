/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/weirrun_frame.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

void wr_u32_store(unsigned char *p, uint32_t v)
{
    p[0] = (unsigned char)v;
    p[1] = (unsigned char)(v >> 8);
    p[2] = (unsigned char)(v >> 16);
    p[3] = (unsigned char)(v >> 24);
}

uint32_t wr_u32_load(const void *p)
{
    const unsigned char *b = p;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

/* ---- queue ---- */

void wr_queue_add(struct wr_queue *q, const void *data, size_t len)
{
    /* move the rest to the front when that is cheap compared with what was taken since */
    if (q->head > 4096 && q->head >= wr_queue_len(q)) {
        memmove(q->buf.data, q->buf.data + q->head, wr_queue_len(q));
        q->buf.len -= q->head;
        q->head = 0;
    }
    wr_buf_add(&q->buf, data, len);
}

void wr_queue_take(struct wr_queue *q, size_t len)
{
    q->head += len;
    if (q->head == q->buf.len)
        q->head = q->buf.len = 0;
}

void wr_queue_free(struct wr_queue *q)
{
    wr_buf_free(&q->buf);
    q->head = 0;
}

/* ---- channel ---- */

static void set_nonblocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags >= 0)
        fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

void wr_channel_open(struct wr_channel *ch, int in, int out)
{
    memset(ch, 0, sizeof *ch);
    ch->in = in;
    ch->out = out;
    set_nonblocking(in);
    set_nonblocking(out);
}

void wr_channel_close(struct wr_channel *ch)
{
    if (ch->in >= 0)
        close(ch->in);
    if (ch->out >= 0 && ch->out != ch->in)
        close(ch->out);
    ch->in = ch->out = -1;
    wr_queue_free(&ch->rx);
    wr_queue_free(&ch->tx);
}

void wr_channel_send(struct wr_channel *ch, enum wr_frame_type type, uint32_t arg, const void *data, size_t len)
{
    unsigned char header[WR_FRAME_HEADER];
    if (ch->gone || ch->mute)
        return;
    wr_u32_store(header, (uint32_t)len);
    wr_u32_store(header + 4, (uint32_t)type);
    wr_u32_store(header + 8, arg);
    wr_queue_add(&ch->tx, header, sizeof header);
    if (len)
        wr_queue_add(&ch->tx, data, len);
    if (ch->tx.buf.failed || len > WR_FRAME_MAX)
        ch->gone = true;
}

void wr_channel_flush(struct wr_channel *ch)
{
    while (!ch->gone && !ch->mute && wr_queue_len(&ch->tx) > 0) {
        ssize_t n = write(ch->out, wr_queue_data(&ch->tx), wr_queue_len(&ch->tx));
        if (n > 0)
            wr_queue_take(&ch->tx, (size_t)n);
        else if (n < 0 && errno == EAGAIN)
            return;
        else if (!(n < 0 && errno == EINTR))
            ch->mute = true;
    }
}

void wr_channel_fill(struct wr_channel *ch)
{
    char piece[65536];
    /* a few pieces at a time, so that one busy host does not keep the others waiting */
    for (int i = 0; i < 4 && !ch->gone; i++) {
        ssize_t n = read(ch->in, piece, sizeof piece);
        if (n > 0) {
            wr_queue_add(&ch->rx, piece, (size_t)n);
            if (ch->rx.buf.failed)
                ch->gone = true;
            if ((size_t)n < sizeof piece)
                return;
        } else if (n < 0 && errno == EAGAIN) {
            return;
        } else if (!(n < 0 && errno == EINTR)) {
            ch->gone = true;
        }
    }
}

bool wr_channel_next(struct wr_channel *ch, struct wr_agent_frame *frame)
{
    if (ch->rx.buf.failed || wr_queue_len(&ch->rx) < WR_FRAME_HEADER)
        return false;
    const char *p = wr_queue_data(&ch->rx);
    size_t len = wr_u32_load(p);
    if (len > WR_FRAME_MAX) {
        ch->gone = true;
        wr_queue_free(&ch->rx);
        return false;
    }
    if (wr_queue_len(&ch->rx) < WR_FRAME_HEADER + len)
        return false;
    frame->type = wr_u32_load(p + 4);
    frame->arg = wr_u32_load(p + 8);
    frame->data = p + WR_FRAME_HEADER;
    frame->len = len;
    wr_queue_take(&ch->rx, WR_FRAME_HEADER + len); /* the bytes stay in place until more are added */
    return true;
}
