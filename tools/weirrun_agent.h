/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The agent: the process that starts the ranks of one host, passes on what they say, and makes sure that
 * nothing of them is left. On weirrun's own host it is a forked child, elsewhere `weirrun --agent` behind the
 * remote shell. It lives as long as its connection: when weirrun is gone, however it died, the agent kills
 * the ranks and everything they started.
 *
 *   weirrun_agent.c    the loop, and the agent's life
 *   weirrun_spawn.c    starting the ranks
 *   weirrun_streams.c  output in whole lines, and the standard input of rank 0
 */
#ifndef WEIRRUN_AGENT_H
#define WEIRRUN_AGENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tools/weirrun_frame.h"
#include "tools/weirrun_order.h"
#include "tools/weirrun_procs.h"

enum { WR_LINE_MAX = 64 << 10 }; /* a longer line is passed on in pieces */

/* One output of a rank: stream 1 or 2. */
struct wr_stream {
    int fd; /* -1 when closed */
    int stream;
    bool mid_line; /* what was sent last did not end in a newline */
    int64_t rank;
    struct wr_buf partial; /* the beginning of a line */
};

struct wr_agent_rank {
    pid_t pid; /* also its process group; 0 when it was not started or has ended */
    struct wr_stream out[2];
};

struct wr_agent {
    const struct wr_inherited *inherited;
    struct wr_channel ch;
    bool started; /* START has come */
    char *start_data;
    struct wr_order order;
    struct wr_agent_rank *ranks; /* order.count */
    int signals;                 /* signalfd */
    int pipes;    /* epoll of all outputs, in a set of its own: it is not asked while there is no credit */
    int failures; /* pipe on which a child says why it could not execute the program */
    int64_t open_streams;
    int64_t credit; /* bytes of output that may be sent; may become negative by one piece */
    int64_t running;
    int input; /* pipe to the standard input of rank 0, -1 when there is none */
    bool input_ended;
    struct wr_queue input_data;
    bool ending, killed;
    int64_t kill_at;  /* when SIGKILL follows the ending signal; WR_TIME_INF: never */
    int64_t sweep_at; /* when what the ranks left behind is killed */
    int64_t give_up_at;
    bool finished;
};

/*
 * Serves the connection until the ranks are gone; returns the process's exit code. Takes over the
 * descriptors. The process must have no children.
 */
int wr_agent_main(int in, int out, const struct wr_inherited *inherited);

/*
 * The same behind a remote shell, on the standard input and output, in a child: this process only waits for
 * it, and kills what is left should the child be killed. On weirrun's own host weirrun does that.
 */
int wr_agent_guarded_main(const struct wr_inherited *inherited);

/* Tells weirrun that something failed: rank or WR_FRAME_NO_RANK, the exit code that follows from it, a
 * sentence. */
void wr_agent_report(struct wr_agent *a, uint32_t rank, uint32_t code, const char *sentence);

/* ---- weirrun_spawn.c ---- */

/* Starts the ranks of a->order; what fails is reported to weirrun, and the ranks started so far run on. */
void wr_agent_spawn(struct wr_agent *a);

/* Reads why children could not execute the program, and reports it. */
void wr_agent_read_failures(struct wr_agent *a);

/* ---- weirrun_streams.c ---- */

/* Watches the two outputs of a rank. False when the kernel refuses. */
bool wr_streams_add(struct wr_agent *a, struct wr_agent_rank *rank, int64_t number, int out_fd, int err_fd);

/* Reads from outputs that have something, as far as the credit goes. */
void wr_streams_progress(struct wr_agent *a);

/* The rank ended: passes on what it wrote last, as far as the credit goes. */
void wr_streams_drain(struct wr_agent *a, struct wr_agent_rank *rank);

/* Sends what is left of a last line, and closes the output. */
void wr_stream_close(struct wr_agent *a, struct wr_stream *s);

/* Standard input of rank 0: data that came (len 0: end of file), and writing what the pipe takes. */
void wr_input_add(struct wr_agent *a, const char *data, size_t len);
void wr_input_progress(struct wr_agent *a);
void wr_input_close(struct wr_agent *a);

#endif
