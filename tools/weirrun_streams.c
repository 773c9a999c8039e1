/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/weirrun_agent.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* ---- output ---- */

bool wr_streams_add(struct wr_agent *a, struct wr_agent_rank *rank, int64_t number, int out_fd, int err_fd)
{
    int fds[2] = {out_fd, err_fd};
    for (int i = 0; i < 2; i++) {
        struct wr_stream *s = &rank->out[i];
        struct epoll_event event = {.events = EPOLLIN, .data = {.ptr = s}};
        s->stream = i + 1;
        s->rank = number;
        if (epoll_ctl(a->pipes, EPOLL_CTL_ADD, fds[i], &event))
            return false;
        s->fd = fds[i];
        a->open_streams++;
    }
    return true;
}

static void send_raw(struct wr_agent *a, const struct wr_stream *s, const char *data, size_t len)
{
    wr_channel_send(&a->ch, s->stream == 1 ? WR_FRAME_OUT : WR_FRAME_ERR, (uint32_t)s->rank, data, len);
    a->credit -= (int64_t)len;
}

/* Sends `a` then `b`, tagged if wanted: together they are whole lines, or a piece of a long or last one. */
static void send_lines(struct wr_agent *a, struct wr_stream *s, const char *data, size_t len)
{
    if (len == 0)
        return;
    if (!a->order.tag_output) {
        send_raw(a, s, data, len);
        s->mid_line = data[len - 1] != '\n';
        return;
    }
    struct wr_buf tagged = {0};
    for (size_t at = 0; at < len;) {
        const char *newline = memchr(data + at, '\n', len - at);
        size_t piece = newline ? (size_t)(newline - data) + 1 - at : len - at;
        if (!s->mid_line)
            wr_buf_printf(&tagged, "[%lld] ", (long long)s->rank);
        wr_buf_add(&tagged, data + at, piece);
        s->mid_line = !newline;
        at += piece;
    }
    if (tagged.failed)
        a->ch.gone = true; /* out of memory: nothing sensible can be done but to end */
    else
        send_raw(a, s, tagged.data, tagged.len);
    wr_buf_free(&tagged);
}

static void send_partial(struct wr_agent *a, struct wr_stream *s)
{
    send_lines(a, s, s->partial.data, s->partial.len);
    s->partial.len = 0;
}

/* Takes what a rank wrote: sends whole lines, keeps the beginning of the next. */
static void take(struct wr_agent *a, struct wr_stream *s, const char *data, size_t len)
{
    size_t whole = len;
    if (a->order.whole_lines) {
        const char *newline = memrchr(data, '\n', len);
        whole = newline ? (size_t)(newline - data) + 1 : 0;
    }
    if (whole && s->partial.len == 0) {
        send_lines(a, s, data, whole);
    } else if (whole) {
        wr_buf_add(&s->partial, data, whole);
        send_partial(a, s);
    }
    if (whole < len) {
        wr_buf_add(&s->partial, data + whole, len - whole);
        if (s->partial.len >= WR_LINE_MAX)
            send_partial(a, s);
    }
    if (s->partial.failed)
        a->ch.gone = true;
}

void wr_stream_close(struct wr_agent *a, struct wr_stream *s)
{
    if (s->fd < 0)
        return;
    send_partial(a, s);
    if (a->order.tag_output && s->mid_line)
        send_raw(a, s, "\n", 1); /* so that the next tag starts a line */
    wr_buf_free(&s->partial);
    epoll_ctl(a->pipes, EPOLL_CTL_DEL, s->fd, NULL);
    close(s->fd);
    s->fd = -1;
    a->open_streams--;
}

/* Reads once; false when there is nothing more for now. */
static bool read_once(struct wr_agent *a, struct wr_stream *s)
{
    char piece[WR_LINE_MAX];
    ssize_t n = read(s->fd, piece, sizeof piece);
    if (n > 0)
        take(a, s, piece, (size_t)n);
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        wr_stream_close(a, s);
    return n > 0 && s->fd >= 0;
}

void wr_streams_progress(struct wr_agent *a)
{
    struct epoll_event events[64];
    int n = epoll_wait(a->pipes, events, 64, 0);
    for (int i = 0; i < n && a->credit > 0; i++)
        read_once(a, events[i].data.ptr);
}

void wr_streams_drain(struct wr_agent *a, struct wr_agent_rank *rank)
{
    /* bounded, because what the rank left behind may write for ever */
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 4 && rank->out[i].fd >= 0 && a->credit > 0; k++)
            if (!read_once(a, &rank->out[i]))
                break;
}

/* ---- standard input of rank 0 ---- */

void wr_input_close(struct wr_agent *a)
{
    if (a->input < 0)
        return;
    close(a->input);
    a->input = -1;
    wr_queue_free(&a->input_data);
    if (!a->input_ended)
        wr_channel_send(&a->ch, WR_FRAME_STDIN_CLOSED, 0, NULL, 0);
}

void wr_input_add(struct wr_agent *a, const char *data, size_t len)
{
    if (a->input < 0)
        return;
    if (len == 0)
        a->input_ended = true;
    wr_queue_add(&a->input_data, data, len);
    if (a->input_data.buf.failed)
        a->ch.gone = true;
    wr_input_progress(a);
}

void wr_input_progress(struct wr_agent *a)
{
    while (a->input >= 0 && wr_queue_len(&a->input_data) > 0) {
        ssize_t n = write(a->input, wr_queue_data(&a->input_data), wr_queue_len(&a->input_data));
        if (n > 0) {
            wr_queue_take(&a->input_data, (size_t)n);
            wr_channel_send(&a->ch, WR_FRAME_STDIN_CREDIT, (uint32_t)n, NULL, 0);
        } else if (n < 0 && errno == EAGAIN) {
            return;
        } else if (!(n < 0 && errno == EINTR)) {
            wr_input_close(a); /* rank 0 reads no more */
        }
    }
    if (a->input >= 0 && a->input_ended)
        wr_input_close(a);
}
