/* SPDX-License-Identifier: BSD-3-Clause */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "tools/weirrun_launcher.h"

/* ---- words ---- */

void wr_run_say(struct wr_run *run, const char *fmt, ...)
{
    char line[1024] = "weirrun: ";
    size_t len = strlen(line);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line + len, sizeof line - len - 1, fmt, ap);
    va_end(ap);
    wr_str_append(line, sizeof line, "\n");
    wr_writer_add(&run->err, line, strlen(line));
}

/* "exited with code 3" or "was killed by SIGSEGV" */
static const char *describe_exit(uint32_t code, char *buf, size_t size)
{
    char name[32];
    if (code >= WR_EXIT_SIGNALED)
        snprintf(buf, size, "was killed by %s", wr_signal_name((int)code - WR_EXIT_SIGNALED, name, sizeof name));
    else
        snprintf(buf, size, "exited with code %u", code);
    return buf;
}

static struct wr_host *host_of(struct wr_run *run, int64_t rank)
{
    return &run->hosts[run->o->host_of[rank]];
}

/* ---- failures ---- */

static void set_exit_code(struct wr_run *run, int code)
{
    if (run->failed)
        return;
    run->failed = true;
    run->exit_code = code;
}

void wr_run_fail(struct wr_run *run, int exit_code, const char *fmt, ...)
{
    char text[900];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (run->state == WR_RUN_RUNNING)
        wr_run_say(run, "%s", text);
    set_exit_code(run, exit_code);
    wr_run_end(run, SIGTERM);
}

/* A rank failed by itself: the first one decides the exit code, and the end of the job unless --on-failure
 * continue. What happens to ranks while the job ends is our doing, and is not reported. */
static void rank_failed(struct wr_run *run, int64_t rank, int exit_code, const char *what)
{
    /* the reader of the output went away, and ranks noticed: as quiet as in a shell's pipeline */
    bool quiet = exit_code == 128 + SIGPIPE && (run->out.closed || run->err.closed);
    if (run->state == WR_RUN_RUNNING && !quiet)
        wr_run_say(run, "rank %lld on host %s %s%s", (long long)rank, host_of(run, rank)->name, what,
                   run->o->keep_going || run->running == 0 ? "" : "; the other ranks are ended");
    set_exit_code(run, exit_code);
    if (!run->o->keep_going)
        wr_run_end(run, SIGTERM);
}

static void tell_others(struct wr_run *run, int64_t rank, const char *reason)
{
    wr_server_rank_lost(run->server, (int)rank, host_of(run, rank)->name, reason);
}

static void rank_exited(struct wr_run *run, int64_t rank, uint32_t code)
{
    struct wr_rank_state *r = &run->ranks[rank];
    char what[128];
    if (r->exited)
        return;
    wr_server_progress(run->server); /* its farewell, or its weir_abort(), may have come just before */
    wr_run_server_events(run);
    r->exited = true;
    run->running--;
    if (r->connection_lost)
        run->lost_connections--;
    bool no_farewell = r->joined && !r->finalized;
    describe_exit(code, what, sizeof what);
    if (code == 0 && no_farewell)
        wr_str_append(what, sizeof what, " without calling weir_finalize");
    else if (code == 0 && !r->joined)
        wr_str_append(what, sizeof what, " without calling weir_init");
    if (!r->finalized)
        tell_others(run, rank, strncmp(what, "was ", 4) ? what : what + 4); /* nothing to plain programs */
    if (code >= WR_EXIT_SIGNALED)
        rank_failed(run, rank, 128 + (int)code - WR_EXIT_SIGNALED, what);
    else if (code || no_farewell)
        rank_failed(run, rank, code ? (int)code : run->ended_by ? 128 + run->ended_by : 1, what);
}

static void exec_failed(struct wr_run *run, struct wr_host *host, const struct wr_agent_frame *frame)
{
    if (frame->len < 4)
        return;
    int code = (int)(wr_u32_load(frame->data) & 255);
    int len = (int)WR_MIN(frame->len - 4, (size_t)700);
    if (frame->arg < (uint32_t)run->o->size)
        wr_run_fail(run, code, "rank %u on host %s: %.*s", frame->arg, host->name, len, frame->data + 4);
    else
        wr_run_fail(run, code, "host %s: %.*s", host->name, len, frame->data + 4);
}

/* ---- hosts ---- */

/* Ranks of a host that is gone and whose exit was not reported. */
static void forget_ranks(struct wr_run *run, struct wr_host *host)
{
    for (int64_t i = 0; i < host->given->count; i++) {
        int64_t rank = host->given->rank[i];
        struct wr_rank_state *r = &run->ranks[rank];
        if (r->exited)
            continue;
        r->exited = true;
        run->running--;
        if (r->connection_lost)
            run->lost_connections--;
        if (!r->finalized)
            tell_others(run, rank, "the connection to its host was lost");
    }
}

/* How the agent or remote shell ended, if it has: closing its connection, it usually is about to. */
static const char *describe_process(struct wr_host *host, char *buf, size_t size)
{
    int status;
    for (int i = 0; i < 100 && host->pid > 0; i++) {
        if (waitpid(host->pid, &status, WNOHANG) == host->pid) {
            host->pid = 0;
            describe_exit(WIFSIGNALED(status) ? WR_EXIT_SIGNALED + (uint32_t)WTERMSIG(status)
                                              : (uint32_t)WEXITSTATUS(status),
                          buf, size);
            return buf;
        }
        struct timespec pause = {0, 5000000};
        nanosleep(&pause, NULL);
    }
    snprintf(buf, size, "closed the connection");
    return buf;
}

void wr_run_host_lost(struct wr_run *run, struct wr_host *host)
{
    char how[128], text[512];
    describe_process(host, how, sizeof how);
    wr_host_close(host);
    if (host->given->local) {
        run->agent_died = true;
        snprintf(text, sizeof text, "the agent of this host %s", how);
    } else if (host->answered) {
        snprintf(text, sizeof text, "host %s was lost: the remote shell %s", host->name, how);
    } else {
        snprintf(text, sizeof text, "host %s cannot be reached: '%.100s %s' %s before weirrun answered there",
                 host->name, run->o->rsh, host->name, how);
    }
    wr_run_fail(run, 1, "%s", text);
    forget_ranks(run, host);
}

void wr_run_frame(struct wr_run *run, struct wr_host *host, const struct wr_agent_frame *frame)
{
    bool own_rank = frame->arg < (uint64_t)run->o->size && host_of(run, frame->arg) == host;
    struct wr_writer *w = frame->type == WR_FRAME_OUT ? &run->out : &run->err;
    switch (frame->type) {
    case WR_FRAME_OUT:
    case WR_FRAME_ERR:
        wr_writer_add(w, frame->data, frame->len);
        host->owed += (uint32_t)frame->len;
        break;
    case WR_FRAME_STDIN_CREDIT:
        run->input_credit += frame->arg;
        break;
    case WR_FRAME_STDIN_CLOSED:
        run->input_open = false;
        break;
    case WR_FRAME_EXIT:
        if (own_rank && frame->len == 4)
            rank_exited(run, frame->arg, wr_u32_load(frame->data));
        break;
    case WR_FRAME_FAILED:
        exec_failed(run, host, frame);
        break;
    case WR_FRAME_DONE:
        forget_ranks(run, host);
        wr_host_close(host);
        break;
    default:
        host->ch.gone = true; /* nonsense */
    }
}

void wr_run_timed_out(struct wr_run *run)
{
    char time[32], ranks[256];
    int *left = calloc((size_t)run->running + 1, sizeof *left);
    size_t n = 0;
    for (int64_t i = 0; left && i < run->o->size && n < (size_t)run->running; i++)
        if (!run->ranks[i].exited)
            left[n++] = (int)i;
    wr_run_fail(run, WR_EXIT_TIMEOUT, "the job was ended after %s (--timeout); still running: rank%s %s",
                wr_format_time(run->o->timeout_ns, time, sizeof time), n == 1 ? "" : "s",
                left ? wr_format_ranges(left, n, ranks, sizeof ranks) : "?");
    free(left);
}

/* ---- what the bootstrap server knows ---- */

void wr_run_on_joined(void *arg, int rank)
{
    ((struct wr_run *)arg)->ranks[rank].joined = true;
}

void wr_run_on_finalized(void *arg, int rank)
{
    ((struct wr_run *)arg)->ranks[rank].finalized = true;
}

void wr_run_on_lost(void *arg, int rank)
{
    struct wr_run *run = arg;
    struct wr_rank_state *r = &run->ranks[rank];
    if (r->exited || r->connection_lost)
        return;
    r->connection_lost = wr_clock_ns();
    run->lost_connections++;
}

void wr_run_on_abort(void *arg, int rank, int code, const char *message)
{
    struct wr_run *run = arg;
    if (run->abort_pending)
        return;
    run->abort_pending = true;
    run->abort_rank = rank;
    run->abort_code = code >= 1 && code <= 255 ? code : 1;
    wr_str_copy(run->abort_message, sizeof run->abort_message, message ? message : "");
}

/* A rank whose connection ended is usually about to exit, and its exit code says more. When it lives on, the
 * others are told after a while what is known. */
static void tell_of_lost_connections(struct wr_run *run)
{
    static const int64_t patience_ns = 1000000000;
    for (int64_t i = 0; i < run->o->size && run->lost_connections > 0; i++) {
        struct wr_rank_state *r = &run->ranks[i];
        if (r->connection_lost && !r->exited && wr_clock_ns() - r->connection_lost > patience_ns) {
            tell_others(run, i, "closed its connection to weirrun without calling weir_finalize");
            r->connection_lost = WR_TIME_INF; /* told */
        }
    }
}

void wr_run_server_events(struct wr_run *run)
{
    tell_of_lost_connections(run);
    if (!run->abort_pending || run->state != WR_RUN_RUNNING || run->abort_rank < 0 || run->abort_rank >= run->o->size)
        return;
    const char *message = run->abort_message;
    wr_run_fail(run, run->abort_code, "rank %d on host %s called weir_abort with code %d%s%s", run->abort_rank,
                host_of(run, run->abort_rank)->name, run->abort_code, *message ? ": " : "", message);
}
