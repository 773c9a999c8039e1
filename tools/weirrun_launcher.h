/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The launcher: weirrun itself. It serves the bootstrap, has one agent a host, writes what the ranks say,
 * forwards signals and standard input, and decides when the job ends and with what exit code.
 *
 *   weirrun_launcher.c  the loop and the life of a job
 *   weirrun_hosts.c     starting agents, and getting rid of them
 *   weirrun_events.c    what ranks and hosts report; failures
 *   weirrun_output.c    standard output, standard error and standard input
 *   weirrun_address.c   the address that other hosts can reach
 */
#ifndef WEIRRUN_LAUNCHER_H
#define WEIRRUN_LAUNCHER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/log.h"
#include "comm/boot/server.h"
#include "tools/weirrun_frame.h"
#include "tools/weirrun_options.h"
#include "tools/weirrun_procs.h"

enum { WR_EXIT_TIMEOUT = 124, WR_EXIT_USAGE = 2 };

/* Where output goes, and what waits to be written. */
struct wr_writer {
    int fd;
    enum { WR_WRITER_FILE, WR_WRITER_POLLED, WR_WRITER_OPENED, WR_WRITER_SOCKET } kind;
    bool closed; /* nobody reads any more: everything is dropped */
    struct wr_queue queue;
};

enum wr_host_state { WR_HOST_IDLE, WR_HOST_STARTING, WR_HOST_RUNNING, WR_HOST_GONE };

struct wr_host {
    const struct wr_run_host *given;
    char name[64]; /* as it is reported */
    enum wr_host_state state;
    bool answered;
    pid_t pid; /* the agent here, or the remote shell; 0 when there is none */
    struct wr_channel ch;
    uint32_t owed; /* bytes of output that were taken and not yet credited */
};

struct wr_rank_state {
    bool joined, finalized, exited;
    int64_t connection_lost; /* when the bootstrap connection ended without farewell, 0: it did not */
};

enum wr_run_state { WR_RUN_RUNNING, WR_RUN_ENDING, WR_RUN_KILLING };

struct wr_run {
    const struct wr_run_options *o;
    const struct wr_inherited *inherited;
    const struct wr_log *log;
    struct wr_server *server;
    char server_address[160]; /* for WEIR_JOB_SERVER */
    int signals;
    bool orphans_are_ours; /* every child of this process belongs to the job */
    bool agent_died;       /* the agent of this host was killed, so its processes become this one's */
    struct wr_host *hosts; /* o->nhosts */
    struct wr_rank_state *ranks;
    int64_t running; /* ranks that have not exited */
    struct wr_writer out, err;
    bool input_open, input_quiet; /* quiet: not read for now, because a terminal would stop this process */
    size_t input_credit;
    int64_t lost_connections; /* ranks that run with connection_lost set */
    enum wr_run_state state;
    bool failed; /* exit_code is decided */
    int exit_code;
    bool hurry;       /* the user wants the end now: output that nobody takes is dropped */
    int64_t stuck_at; /* since when nobody takes the output, once the ranks have ended */
    size_t stuck_len;
    int ended_by;       /* the signal by which somebody ended weirrun, or 0 */
    bool abort_pending; /* weir_abort() was called */
    int abort_rank, abort_code;
    char abort_message[256];
    int64_t start_by;    /* agents must have answered */
    int64_t timeout_at;  /* --timeout */
    int64_t backstop_at; /* what has not ended by itself is given up */
};

/* Runs the job of `o` (spread over hosts) and returns the exit code. */
int wr_run_job(const struct wr_run_options *o, const struct wr_inherited *inherited, const struct wr_log *log,
               int64_t start_timeout_ns);

/* Begins the end: tells all ranks by `sig`, SIGKILL follows after the grace. Nothing when it has begun. */
void wr_run_end(struct wr_run *run, int sig);
/* SIGKILL to all ranks and what they started. */
void wr_run_kill(struct wr_run *run);

/* ---- weirrun_hosts.c ---- */

/* Forks the agent of this host, if ranks are to run here: first of all, while this process has nothing open
 * that a copy of it must not have. */
weir_status wr_hosts_start_local(struct wr_run *run, weir_error *err);
/* Starts the agents of the other hosts through the remote shell. */
weir_status wr_hosts_start_remote(struct wr_run *run, weir_error *err);
/* Reads from a host, and acts on what it says. */
void wr_host_progress(struct wr_run *run, struct wr_host *host);
/* Closes the connection; the agent then kills what it still has. */
void wr_host_close(struct wr_host *host);
/* Waits for agents and remote shells, kills those that do not end. */
void wr_hosts_reap(struct wr_run *run);

/* ---- weirrun_events.c ---- */

/* A line of weirrun's own to the standard error, behind what ranks wrote. */
void wr_run_say(struct wr_run *run, const char *fmt, ...) WR_PRINTF(2, 3);
void wr_run_frame(struct wr_run *run, struct wr_host *host, const struct wr_agent_frame *frame);
/* The connection to a host ended before its ranks did. */
void wr_run_host_lost(struct wr_run *run, struct wr_host *host);
/* The job cannot go on: says why, and ends it with this exit code. */
void wr_run_fail(struct wr_run *run, int exit_code, const char *fmt, ...) WR_PRINTF(3, 4);
/* Time is up: says which ranks still run. */
void wr_run_timed_out(struct wr_run *run);
/* Looks at what the server's callbacks noted. */
void wr_run_server_events(struct wr_run *run);
/* Callbacks for the server, with a struct wr_run. They only take notes. */
void wr_run_on_joined(void *arg, int rank);
void wr_run_on_finalized(void *arg, int rank);
void wr_run_on_lost(void *arg, int rank);
void wr_run_on_abort(void *arg, int rank, int code, const char *message);

/* ---- weirrun_output.c ---- */

void wr_writer_open(struct wr_writer *w, int fd);
void wr_writer_close(struct wr_writer *w);
void wr_writer_add(struct wr_writer *w, const char *data, size_t len);
/* Writes what goes without blocking. */
void wr_writer_progress(struct wr_writer *w);
/* Lets agents send more, unless too much waits to be written. */
void wr_run_grant_credit(struct wr_run *run);
/* Reads the standard input, as far as rank 0 takes it. */
void wr_run_read_input(struct wr_run *run);
/* Whether to poll the standard input. */
bool wr_run_wants_input(const struct wr_run *run);
/* Finds out whether the standard input may be read: not in the background of a terminal. */
void wr_run_check_terminal(struct wr_run *run);

/* ---- weirrun_address.c ---- */

/*
 * The numeric address of this host for hosts to connect to: that of --iface (an address or an interface's
 * name), else the one that the kernel uses towards the first host that can be resolved. WEIR_ERR_INVALID,
 * WEIR_ERR_NOT_FOUND.
 */
weir_status wr_run_address(const struct wr_run_options *o, char *address, size_t size, weir_error *err);

#endif
