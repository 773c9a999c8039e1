/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/weirrun_launcher.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"

/* Beyond grace and SIGKILL, agents get this long to clear up; their own limit is shorter. */
#define BACKSTOP_NS ((int64_t)10000000000)
/* Output that was not taken for so long, when the user wants the end. */
#define STUCK_NS ((int64_t)1000000000)

/* ---- the end ---- */

static void send_all(struct wr_run *run, enum wr_frame_type type, uint32_t arg)
{
    for (int i = 0; i < run->o->nhosts; i++) {
        struct wr_host *host = &run->hosts[i];
        if (host->state == WR_HOST_RUNNING)
            wr_channel_send(&host->ch, type, arg, NULL, 0);
        else if (host->state == WR_HOST_STARTING && (type == WR_FRAME_END || type == WR_FRAME_KILL))
            wr_host_close(host); /* nothing runs there yet */
    }
}

void wr_run_end(struct wr_run *run, int sig)
{
    if (run->state != WR_RUN_RUNNING)
        return;
    run->state = WR_RUN_ENDING;
    send_all(run, WR_FRAME_END, (uint32_t)sig);
    int64_t grace = run->o->grace_ns;
    run->backstop_at = wr_deadline(grace < WR_TIME_INF - BACKSTOP_NS ? grace + BACKSTOP_NS : WR_TIME_INF);
}

void wr_run_kill(struct wr_run *run)
{
    if (run->state == WR_RUN_KILLING)
        return;
    run->state = WR_RUN_KILLING;
    send_all(run, WR_FRAME_KILL, 0);
    run->backstop_at = wr_deadline(BACKSTOP_NS);
}

/* ---- signals ---- */

/* SIGINT and the like end the job; the second one does not wait for the grace. */
static void ending_signal(struct wr_run *run, int sig)
{
    char name[32];
    run->hurry = true;
    if (run->ended_by || run->state != WR_RUN_RUNNING) {
        wr_run_kill(run);
        return;
    }
    run->ended_by = sig;
    wr_run_say(run, "%s: ending the job", wr_signal_name(sig, name, sizeof name));
    wr_run_end(run, sig);
}

/* Ctrl-Z: the ranks stop, then this process; it goes on after SIGCONT. */
static void stop_everything(struct wr_run *run)
{
    send_all(run, WR_FRAME_SIGNAL, SIGTSTP);
    for (int i = 0; i < run->o->nhosts; i++)
        if (run->hosts[i].state == WR_HOST_RUNNING)
            wr_channel_flush(&run->hosts[i].ch);
    raise(SIGSTOP);
}

static void read_signals(struct wr_run *run)
{
    struct signalfd_siginfo info;
    while (read(run->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        int sig = (int)info.ssi_signo;
        switch (sig) {
        case SIGINT:
        case SIGTERM:
        case SIGHUP:
        case SIGQUIT:
            ending_signal(run, sig);
            break;
        case SIGTSTP:
            stop_everything(run);
            break;
        case SIGCHLD: /* agents and remote shells: their connections tell */
            break;
        default:
            if (sig == SIGCONT)
                wr_run_check_terminal(run);
            send_all(run, WR_FRAME_SIGNAL, (uint32_t)sig);
        }
    }
}

/* ---- the loop ---- */

static bool hosts_left(const struct wr_run *run)
{
    for (int i = 0; i < run->o->nhosts; i++)
        if (run->hosts[i].state == WR_HOST_STARTING || run->hosts[i].state == WR_HOST_RUNNING)
            return true;
    return false;
}

static bool output_left(const struct wr_run *run)
{
    return wr_queue_len(&run->out.queue) || wr_queue_len(&run->err.queue);
}

enum { POLL_SIGNALS, POLL_SERVER, POLL_STDIN, POLL_STDOUT, POLL_STDERR, POLL_HOSTS };

static int writer_fd(const struct wr_writer *w)
{
    return !w->closed && wr_queue_len(&w->queue) ? w->fd : -1;
}

static void fill_poll(const struct wr_run *run, struct pollfd *fds)
{
    fds[POLL_SIGNALS] = (struct pollfd){.fd = run->signals, .events = POLLIN};
    fds[POLL_SERVER] = (struct pollfd){.fd = wr_server_fd(run->server), .events = POLLIN};
    fds[POLL_STDIN] = (struct pollfd){.fd = wr_run_wants_input(run) ? STDIN_FILENO : -1, .events = POLLIN};
    fds[POLL_STDOUT] = (struct pollfd){.fd = writer_fd(&run->out), .events = POLLOUT};
    fds[POLL_STDERR] = (struct pollfd){.fd = writer_fd(&run->err), .events = POLLOUT};
    for (int i = 0; i < run->o->nhosts; i++) {
        const struct wr_host *host = &run->hosts[i];
        bool open = host->state == WR_HOST_STARTING || host->state == WR_HOST_RUNNING;
        bool writing = open && !host->ch.mute && wr_queue_len(&host->ch.tx);
        fds[POLL_HOSTS + i] =
            (struct pollfd){.fd = open ? host->ch.in : -1, .events = (short)(POLLIN | (writing ? POLLOUT : 0))};
    }
}

static int poll_ms(const struct wr_run *run)
{
    int64_t deadline = WR_MIN(run->backstop_at, WR_MIN(run->timeout_at, run->start_by));
    int ms = wr_deadline_poll_ms(deadline), server_ms = wr_server_timeout_ms(run->server);
    if (run->lost_connections > 0 || run->input_quiet || (run->hurry && output_left(run)))
        server_ms = server_ms < 0 ? 500 : WR_MIN(server_ms, 500);
    if (ms < 0 || (server_ms >= 0 && server_ms < ms))
        ms = server_ms;
    return ms;
}

/* The job was ended by a signal or by --timeout, the ranks are gone, and nobody takes their output. */
static void drop_stuck_output(struct wr_run *run)
{
    size_t len = wr_queue_len(&run->out.queue) + wr_queue_len(&run->err.queue);
    if (!run->hurry || run->running > 0 || len == 0 || run->stuck_at == 0 || len < run->stuck_len) {
        run->stuck_at = wr_clock_ns();
    } else if (wr_clock_ns() - run->stuck_at > STUCK_NS) {
        wr_queue_free(&run->out.queue);
        wr_queue_free(&run->err.queue);
        run->out.closed = run->err.closed = true;
    }
    run->stuck_len = len;
}

static void check_time(struct wr_run *run)
{
    drop_stuck_output(run);
    if (wr_deadline_passed(run->timeout_at)) {
        run->timeout_at = WR_TIME_INF;
        run->hurry = true;
        if (hosts_left(run))
            wr_run_timed_out(run);
    }
    if (wr_deadline_passed(run->start_by)) {
        run->start_by = WR_TIME_INF;
        for (int i = 0; i < run->o->nhosts; i++)
            if (run->hosts[i].state == WR_HOST_STARTING) {
                wr_run_fail(run, 1, "host %s did not answer within the time of WEIR_BOOT_TIMEOUT", run->hosts[i].name);
                break;
            }
    }
    if (wr_deadline_passed(run->backstop_at) && output_left(run))
        run->backstop_at = wr_deadline(BACKSTOP_NS); /* agents wait for who reads the output, and that is all right */
    if (wr_deadline_passed(run->backstop_at)) {
        run->backstop_at = WR_TIME_INF;
        for (int i = 0; i < run->o->nhosts; i++)
            if (run->hosts[i].state == WR_HOST_RUNNING) {
                wr_run_say(run, "host %s does not finish: its processes may be left", run->hosts[i].name);
                wr_host_close(&run->hosts[i]);
            }
    }
}

/* One turn: waits, then does what can be done. */
static void turn(struct wr_run *run, struct pollfd *fds)
{
    for (int i = 0; i < run->o->nhosts; i++)
        if (run->hosts[i].state == WR_HOST_RUNNING)
            wr_channel_flush(&run->hosts[i].ch);
    fill_poll(run, fds);
    int n = poll(fds, (nfds_t)(POLL_HOSTS + run->o->nhosts), poll_ms(run));
    if (n < 0)
        return;
    if (run->input_quiet)
        wr_run_check_terminal(run);
    if (fds[POLL_SIGNALS].revents)
        read_signals(run);
    wr_server_progress(run->server);
    wr_run_server_events(run);
    for (int i = 0; i < run->o->nhosts; i++)
        if (fds[POLL_HOSTS + i].revents && run->hosts[i].state != WR_HOST_GONE)
            wr_host_progress(run, &run->hosts[i]);
    if (fds[POLL_STDIN].revents)
        wr_run_read_input(run);
    wr_writer_progress(&run->out);
    wr_writer_progress(&run->err);
    wr_run_grant_credit(run);
    check_time(run);
}

/* Ranks learn that nobody reads their output as they would in a pipeline: by SIGPIPE. */
static void pass_on_closed(struct wr_run *run, bool told[2])
{
    const struct wr_writer *w[2] = {&run->out, &run->err};
    for (int i = 0; i < 2; i++)
        if (w[i]->closed && !told[i]) {
            told[i] = true;
            send_all(run, WR_FRAME_CLOSED, (uint32_t)(i + 1));
        }
}

static void serve(struct wr_run *run, struct pollfd *fds)
{
    bool told[2] = {false, false};
    while (hosts_left(run) || output_left(run)) {
        turn(run, fds);
        pass_on_closed(run, told);
    }
    wr_writer_progress(&run->out);
    wr_writer_progress(&run->err);
}

/* ---- life ---- */

static weir_status start_server(struct wr_run *run, weir_error *err)
{
    char address[128] = "127.0.0.1";
    bool remote = false;
    for (int i = 0; i < run->o->nhosts; i++)
        remote = remote || (!run->o->hosts[i].local && run->o->hosts[i].count > 0);
    if (remote || run->o->iface) {
        weir_status status = wr_run_address(run->o, address, sizeof address, err);
        if (status)
            return status;
    }
    struct wr_server_options options = {.size = (int)run->o->size,
                                        .bind_address = address,
                                        .log = run->log,
                                        .arg = run,
                                        .on_joined = wr_run_on_joined,
                                        .on_finalized = wr_run_on_finalized,
                                        .on_lost = wr_run_on_lost,
                                        .on_abort = wr_run_on_abort};
    weir_status status = wr_server_create(&options, &run->server, err);
    if (!status)
        wr_str_copy(run->server_address, sizeof run->server_address, wr_server_address(run->server));
    return status;
}

static weir_status allocate(struct wr_run *run, struct pollfd **fds, weir_error *err)
{
    const struct wr_run_options *o = run->o;
    run->hosts = calloc((size_t)o->nhosts, sizeof *run->hosts);
    run->ranks = calloc((size_t)o->size, sizeof *run->ranks);
    *fds = calloc((size_t)o->nhosts + POLL_HOSTS, sizeof **fds);
    if (!run->hosts || !run->ranks || !*fds)
        return wr_error_memory(err, (size_t)o->size * sizeof *run->ranks, "the job");
    for (int i = 0; i < o->nhosts; i++) {
        struct wr_host *host = &run->hosts[i];
        host->given = &o->hosts[i];
        host->ch.in = host->ch.out = -1;
        wr_str_copy(host->name, sizeof host->name, o->hosts[i].name);
        if (o->hosts[i].local && gethostname(host->name, sizeof host->name - 1))
            wr_str_copy(host->name, sizeof host->name, "localhost");
    }
    return WEIR_OK;
}

static weir_status start(struct wr_run *run, weir_error *err)
{
    run->orphans_are_ours = !wr_children_exist();
    if (run->orphans_are_ours)
        wr_children_adopt();
    weir_status status = wr_hosts_start_local(run, err);
    if (status)
        return status;
    run->signals = wr_signals_open();
    if (run->signals < 0)
        return wr_error_errno(err, WEIR_ERR_SYSTEM, errno, NULL, "cannot open a signalfd");
    status = start_server(run, err);
    return status ? status : wr_hosts_start_remote(run, err);
}

int wr_run_job(const struct wr_run_options *o, const struct wr_inherited *inherited, const struct wr_log *log,
               int64_t start_timeout_ns)
{
    struct wr_run run = {.o = o,
                         .inherited = inherited,
                         .log = log,
                         .signals = -1,
                         .running = o->size,
                         .input_open = true,
                         .input_credit = WR_STDIN_WINDOW,
                         .start_by = wr_deadline(start_timeout_ns),
                         .timeout_at = wr_deadline(o->timeout_ns),
                         .backstop_at = WR_TIME_INF};
    struct pollfd *fds = NULL;
    weir_error err;
    char line[1200];
    wr_writer_open(&run.out, STDOUT_FILENO);
    wr_writer_open(&run.err, STDERR_FILENO);
    wr_run_check_terminal(&run);
    weir_status status = allocate(&run, &fds, &err);
    if (!status)
        status = start(&run, &err);
    if (status)
        fprintf(stderr, "weirrun: %s\n", wr_error_line(&err, line, sizeof line));
    else
        serve(&run, fds);
    for (int i = 0; run.hosts && i < o->nhosts; i++)
        wr_host_close(&run.hosts[i]);
    if (run.hosts)
        wr_hosts_reap(&run);
    if (run.server)
        wr_server_destroy(run.server);
    if (run.signals >= 0)
        close(run.signals);
    wr_writer_close(&run.out);
    wr_writer_close(&run.err);
    free(run.hosts);
    free(run.ranks);
    free(fds);
    if (status)
        return status == WEIR_ERR_INVALID ? WR_EXIT_USAGE : 1;
    return run.exit_code;
}
