/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/weirrun_agent.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/version.h>

#include "base/clock.h"
#include "base/error.h"

#define MS ((int64_t)1000000)

/* What a rank left behind (say, the tee of a pipeline) may finish in this time; then it is killed. */
#define LEFTOVER_NS (250 * MS)
/* A process that SIGKILL does not end in this time (stuck in the kernel, or another user's) is left alone. */
#define GIVE_UP_NS (5000 * MS)

void wr_agent_report(struct wr_agent *a, uint32_t rank, uint32_t code, const char *sentence)
{
    struct wr_buf data = {0};
    unsigned char number[4];
    wr_u32_store(number, code);
    wr_buf_add(&data, number, sizeof number);
    wr_buf_str(&data, sentence);
    if (!data.failed)
        wr_channel_send(&a->ch, WR_FRAME_FAILED, rank, data.data, data.len);
    wr_buf_free(&data);
}

/* ---- signals for ranks, and their end ---- */

/*
 * A rank that has ended is passed over: its process id, and with it its group's, may be somebody else's by
 * now. What it left behind is an orphan, so a child of this process, and killed in the end.
 */
static void signal_ranks(struct wr_agent *a, int sig)
{
    for (int64_t i = 0; i < a->order.count && a->ranks; i++)
        if (a->ranks[i].pid > 0)
            kill(-a->ranks[i].pid, sig);
}

static void kill_all(struct wr_agent *a)
{
    a->ending = a->killed = true;
    a->kill_at = WR_TIME_INF;
    signal_ranks(a, SIGKILL);
    if (a->sweep_at > wr_clock_ns())
        a->sweep_at = wr_clock_ns();
}

static void end_ranks(struct wr_agent *a, int sig)
{
    if (a->ending)
        return;
    a->ending = true;
    a->kill_at = wr_deadline(a->order.grace_ns);
    signal_ranks(a, sig);
    /* A stopped one could not react. Others get no SIGCONT, which would confuse who traces them (sanitizers do). */
    for (int64_t i = 0; i < a->order.count && a->ranks; i++)
        if (a->ranks[i].pid > 0 && wr_process_is_stopped(a->ranks[i].pid))
            kill(-a->ranks[i].pid, SIGCONT);
}

static void rank_ended(struct wr_agent *a, int64_t local, int status)
{
    struct wr_agent_rank *rank = &a->ranks[local];
    unsigned char data[4];
    int code = WIFSIGNALED(status) ? WR_EXIT_SIGNALED + WTERMSIG(status) : WEXITSTATUS(status);
    rank->pid = 0;
    a->running--;
    if (rank->out[0].fd >= 0 || rank->out[1].fd >= 0)
        wr_streams_drain(a, rank);
    if (a->order.rank[local] == 0)
        wr_input_close(a);
    wr_agent_read_failures(a); /* the reason goes before the exit code */
    wr_u32_store(data, (uint32_t)code);
    wr_channel_send(&a->ch, WR_FRAME_EXIT, (uint32_t)(a->order.rank[local]), data, sizeof data);
}

/* Reaps ranks, and orphans that this process was given. */
static void reap(struct wr_agent *a)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        for (int64_t i = 0; i < a->order.count && a->ranks; i++)
            if (a->ranks[i].pid == pid) {
                rank_ended(a, i, status);
                break;
            }
}

static void read_signals(struct wr_agent *a)
{
    struct signalfd_siginfo info;
    bool children = false;
    while (read(a->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        int sig = (int)info.ssi_signo;
        if (sig == SIGCHLD)
            children = true;
        else if (sig == SIGTERM || sig == SIGINT || sig == SIGHUP || sig == SIGQUIT)
            end_ranks(a, sig); /* somebody wants this process to end; weirrun sends frames */
    }
    if (children)
        reap(a);
}

/* ---- frames ---- */

static void start(struct wr_agent *a, const struct wr_agent_frame *frame)
{
    weir_error err;
    if (a->started)
        return;
    a->started = true;
    if (a->ending) {
        wr_agent_report(a, WR_FRAME_NO_RANK, 1, "the agent was told to end by a signal");
        return;
    }
    a->start_data = malloc(frame->len + 1);
    if (!a->start_data) {
        wr_agent_report(a, WR_FRAME_NO_RANK, 1, "out of memory");
        return;
    }
    memcpy(a->start_data, frame->data, frame->len);
    if (wr_order_unpack(&a->order, a->start_data, frame->len, &err)) {
        a->order.count = 0;
        wr_agent_report(a, WR_FRAME_NO_RANK, 1, err.message);
        return;
    }
    a->ranks = calloc((size_t)a->order.count, sizeof *a->ranks);
    if (!a->ranks) {
        a->order.count = 0;
        wr_agent_report(a, WR_FRAME_NO_RANK, 1, "out of memory");
        return;
    }
    for (int64_t i = 0; i < a->order.count; i++)
        a->ranks[i].out[0].fd = a->ranks[i].out[1].fd = -1;
    wr_agent_spawn(a);
}

static void close_streams(struct wr_agent *a, int stream)
{
    for (int64_t i = 0; i < a->order.count && a->ranks; i++)
        for (int k = 0; k < 2; k++)
            if (stream == 0 || a->ranks[i].out[k].stream == stream)
                wr_stream_close(a, &a->ranks[i].out[k]);
}

static void read_frames(struct wr_agent *a)
{
    struct wr_agent_frame frame;
    wr_channel_fill(&a->ch);
    while (wr_channel_next(&a->ch, &frame)) {
        switch (frame.type) {
        case WR_FRAME_START:
            start(a, &frame);
            break;
        case WR_FRAME_STDIN:
            wr_input_add(a, frame.data, frame.len);
            break;
        case WR_FRAME_CREDIT:
            a->credit += frame.arg;
            break;
        case WR_FRAME_SIGNAL:
            signal_ranks(a, (int)frame.arg);
            break;
        case WR_FRAME_END:
            end_ranks(a, (int)frame.arg);
            break;
        case WR_FRAME_KILL:
            kill_all(a);
            break;
        case WR_FRAME_CLOSED:
            close_streams(a, (int)frame.arg);
            break;
        default: /* not from a weirrun of this version */
            a->ch.gone = true;
        }
    }
}

/* ---- life ---- */

/* The ranks have ended: gets rid of what they left behind, then of the last output, then says so. */
static void wind_down(struct wr_agent *a)
{
    int64_t now = wr_clock_ns();
    if (a->give_up_at == WR_TIME_INF) {
        a->give_up_at = now + LEFTOVER_NS + GIVE_UP_NS;
        if (a->sweep_at == WR_TIME_INF)
            a->sweep_at = now + LEFTOVER_NS;
    }
    if (a->credit <= 0 && !a->ch.gone)
        a->give_up_at = now + GIVE_UP_NS; /* whoever reads the output takes his time */
    reap(a);
    if (wr_children_exist() && now < a->give_up_at) {
        if (now >= a->sweep_at) {
            wr_children_kill();
            a->sweep_at = now + 10 * MS; /* for the children of those */
        }
        return;
    }
    if (a->ch.gone || now >= a->give_up_at)
        close_streams(a, 0);
    a->sweep_at = WR_TIME_INF;
    if (a->open_streams > 0)
        return;
    wr_channel_send(&a->ch, WR_FRAME_DONE, 0, NULL, 0);
    a->finished = true;
}

static void wait_for_something(struct wr_agent *a)
{
    int64_t deadline = WR_MIN(a->kill_at, a->give_up_at);
    bool winding = a->started && a->running == 0;
    if (winding)
        deadline = WR_MIN(deadline, a->sweep_at);
    struct pollfd fds[] = {
        {.fd = a->ch.gone ? -1 : a->ch.in, .events = POLLIN},
        {.fd = !a->ch.mute && wr_queue_len(&a->ch.tx) ? a->ch.out : -1, .events = POLLOUT},
        {.fd = a->signals, .events = POLLIN},
        {.fd = a->credit > 0 && a->open_streams ? a->pipes : -1, .events = POLLIN},
        {.fd = a->failures, .events = POLLIN},
        {.fd = a->input, .events = wr_queue_len(&a->input_data) ? POLLOUT : 0}, /* and POLLERR: rank 0 closed it */
    };
    if (poll(fds, WR_ARRAY_SIZE(fds), wr_deadline_poll_ms(deadline)) < 0)
        return;
    if (fds[0].revents)
        read_frames(a);
    if (fds[2].revents)
        read_signals(a);
    if (fds[3].revents)
        wr_streams_progress(a);
    if (fds[4].revents)
        wr_agent_read_failures(a);
    if (fds[5].revents & (POLLERR | POLLHUP))
        wr_input_close(a);
    else if (fds[5].revents)
        wr_input_progress(a);
}

static void serve(struct wr_agent *a)
{
    while (!a->finished) {
        wr_channel_flush(&a->ch);
        wait_for_something(a);
        if (wr_deadline_passed(a->kill_at) || (a->ch.gone && !a->killed))
            kill_all(a);
        if (a->ch.gone && !a->started)
            return;
        if (a->started && a->running == 0)
            wind_down(a);
    }
    /* the end of the output may still be on its way */
    while (!a->ch.gone && !a->ch.mute && wr_queue_len(&a->ch.tx)) {
        struct pollfd fds[] = {{.fd = a->ch.in, .events = POLLIN}, {.fd = a->ch.out, .events = POLLOUT}};
        poll(fds, 2, -1);
        if (fds[0].revents)
            wr_channel_fill(&a->ch);
        wr_channel_flush(&a->ch);
    }
}

int wr_agent_main(int in, int out, const struct wr_inherited *inherited)
{
    static const char hello[] = WR_AGENT_HELLO WEIR_VERSION_STRING "\n";
    struct wr_agent a = {.inherited = inherited,
                         .failures = -1,
                         .input = -1,
                         .credit = WR_OUTPUT_WINDOW,
                         .kill_at = WR_TIME_INF,
                         .sweep_at = WR_TIME_INF,
                         .give_up_at = WR_TIME_INF};
    int code = 1;
    prctl(PR_SET_NAME, "weir-agent");
    setsid(); /* away from the terminal: its signals go to weirrun alone */
    wr_children_adopt();
    wr_channel_open(&a.ch, in, out);
    a.signals = wr_signals_open();
    a.pipes = epoll_create1(EPOLL_CLOEXEC);
    if (a.signals < 0 || a.pipes < 0)
        goto close_all;
    wr_queue_add(&a.ch.tx, hello, sizeof hello - 1);
    serve(&a);
    code = 0;
close_all:
    if (a.pipes >= 0)
        close(a.pipes);
    if (a.signals >= 0)
        close(a.signals);
    if (a.failures >= 0)
        close(a.failures);
    wr_channel_close(&a.ch);
    wr_queue_free(&a.input_data);
    free(a.ranks);
    wr_order_free(&a.order);
    free(a.start_data);
    return code;
}

int wr_agent_guarded_main(const struct wr_inherited *inherited)
{
    int status = 0, null;
    wr_children_adopt();
    pid_t ended, pid = fork();
    if (pid <= 0) /* without another process, then, should the system refuse it */
        return wr_agent_main(STDIN_FILENO, STDOUT_FILENO, inherited);
    prctl(PR_SET_NAME, "weir-guard");
    null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null >= 0 && dup2(null, STDIN_FILENO) >= 0 && dup2(null, STDOUT_FILENO) >= 0)
        close(null);
    do
        ended = waitpid(-1, &status, 0);
    while (ended != pid && (ended > 0 || errno == EINTR));
    wr_children_end_all();
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
