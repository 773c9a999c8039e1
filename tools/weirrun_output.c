/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/weirrun_launcher.h"

/* More than this waiting to be written, and agents get no credit. */
enum { OUTPUT_WAITING_MAX = WR_OUTPUT_WINDOW };

/*
 * The descriptor is shared with who started weirrun, so it must not be made non-blocking. A pipe or terminal
 * is opened a second time; where that is refused, a pipe that poll() calls writable takes PIPE_BUF bytes
 * without blocking.
 */
void wr_writer_open(struct wr_writer *w, int fd)
{
    struct stat st;
    memset(w, 0, sizeof *w);
    w->fd = fd;
    w->kind = WR_WRITER_POLLED;
    if (fstat(fd, &st) || S_ISREG(st.st_mode)) {
        w->kind = WR_WRITER_FILE;
    } else if (S_ISSOCK(st.st_mode)) {
        w->kind = WR_WRITER_SOCKET;
    } else {
        char path[32];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        int own = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (own >= 0) {
            w->fd = own;
            w->kind = WR_WRITER_OPENED;
        }
    }
}

void wr_writer_close(struct wr_writer *w)
{
    if (w->kind == WR_WRITER_OPENED)
        close(w->fd);
    wr_queue_free(&w->queue);
}

void wr_writer_add(struct wr_writer *w, const char *data, size_t len)
{
    if (w->closed)
        return;
    wr_queue_add(&w->queue, data, len);
    if (w->queue.buf.failed) { /* out of memory: the rest of the output is lost, the job is not */
        wr_queue_free(&w->queue);
        w->closed = true;
    }
}

static ssize_t write_some(struct wr_writer *w)
{
    const char *data = wr_queue_data(&w->queue);
    size_t len = wr_queue_len(&w->queue);
    if (w->kind == WR_WRITER_SOCKET)
        return send(w->fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (w->kind == WR_WRITER_POLLED) {
        struct pollfd p = {.fd = w->fd, .events = POLLOUT};
        if (poll(&p, 1, 0) == 0) {
            errno = EAGAIN;
            return -1;
        }
        len = WR_MIN(len, (size_t)PIPE_BUF);
    }
    return write(w->fd, data, len);
}

void wr_writer_progress(struct wr_writer *w)
{
    while (!w->closed && wr_queue_len(&w->queue) > 0) {
        ssize_t n = write_some(w);
        if (n >= 0) {
            wr_queue_take(&w->queue, (size_t)n);
        } else if (errno == EAGAIN) {
            return;
        } else if (errno != EINTR) { /* EPIPE, ENOSPC, EIO */
            wr_queue_free(&w->queue);
            w->closed = true;
        }
    }
}

void wr_run_grant_credit(struct wr_run *run)
{
    if (wr_queue_len(&run->out.queue) + wr_queue_len(&run->err.queue) > OUTPUT_WAITING_MAX)
        return;
    for (int i = 0; i < run->o->nhosts; i++) {
        struct wr_host *host = &run->hosts[i];
        if (host->owed && host->state == WR_HOST_RUNNING)
            wr_channel_send(&host->ch, WR_FRAME_CREDIT, host->owed, NULL, 0);
        host->owed = 0;
    }
}

/* ---- standard input ---- */

/* Reading a terminal from the background would stop this process. */
void wr_run_check_terminal(struct wr_run *run)
{
    run->input_quiet = isatty(STDIN_FILENO) && tcgetpgrp(STDIN_FILENO) != getpgrp();
}

bool wr_run_wants_input(const struct wr_run *run)
{
    return run->input_open && !run->input_quiet && run->input_credit > 0 && run->state == WR_RUN_RUNNING &&
           run->hosts[run->o->host_of[0]].state == WR_HOST_RUNNING;
}

void wr_run_read_input(struct wr_run *run)
{
    char data[16384];
    wr_run_check_terminal(run);
    if (!wr_run_wants_input(run))
        return;
    ssize_t n = read(STDIN_FILENO, data, WR_MIN(sizeof data, run->input_credit));
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n <= 0) {
        n = 0;
        run->input_open = false;
    }
    run->input_credit -= (size_t)n;
    wr_channel_send(&run->hosts[run->o->host_of[0]].ch, WR_FRAME_STDIN, 0, data, (size_t)n); /* without data: end of file */
}
