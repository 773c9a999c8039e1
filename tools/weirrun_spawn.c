/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/error.h"
#include "tools/weirrun_agent.h"
#include "tools/weirrun_bind.h"
#include "tools/weirrun_env.h"

enum child_step { STEP_EXEC, STEP_BIND, STEP_STDIO };

/* What a child writes to a->failures when it cannot become the program. Shorter than PIPE_BUF, so never torn.
 */
struct failure {
    int64_t rank;
    int32_t step, errnum;
};

/* What the children need, made once. */
struct spawner {
    struct wr_agent *a;
    struct wr_rank_env env;
    struct wr_binding *binding;
    pid_t parent;
    int null;         /* /dev/null, the standard input of all ranks but 0 */
    int failures_out; /* the writing end of a->failures */
};

static WR_NORETURN void child_fails(const struct spawner *sp, int64_t rank, enum child_step step)
{
    int errnum = errno;
    struct failure f = {rank, step, errnum};
    ssize_t n;
    do
        n = write(sp->failures_out, &f, sizeof f);
    while (n < 0 && errno == EINTR);
    _exit(errnum == ENOENT || errnum == ENOTDIR ? 127 : 126);
}

/* Runs in the child. */
static WR_NORETURN void become_rank(const struct spawner *sp, int64_t local, int in, int out, int err)
{
    /* dies with the agent; which may have died before this was set */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != sp->parent)
        _exit(1);
    setpgid(0, 0);
    int64_t rank = sp->a->order.rank[local];
    int bind_error = wr_binding_apply(sp->binding, local);
    if (bind_error && sp->a->order.bind != WR_BIND_AUTO) {
        errno = bind_error;
        child_fails(sp, rank, STEP_BIND);
    }
    if (dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 || dup2(err, STDERR_FILENO) < 0)
        child_fails(sp, rank, STEP_STDIO);
    wr_inherited_restore(sp->a->inherited);
    environ = (char **)sp->env.vars; /* execvp() searches the PATH of this one */
    execvp(sp->a->order.args[0], (char *const *)sp->a->order.args);
    child_fails(sp, rank, STEP_EXEC);
}

static void close_pair(const int fds[2])
{
    for (int i = 0; i < 2; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

/* Starts one rank; false with errno when the system refuses. */
static bool spawn_rank(struct spawner *sp, int64_t local)
{
    struct wr_agent *a = sp->a;
    struct wr_agent_rank *rank = &a->ranks[local];
    int64_t number = a->order.rank[local];
    int in[2] = {-1, -1}, out[2] = {-1, -1}, err[2] = {-1, -1};
    if (pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC) || (number == 0 && pipe2(in, O_CLOEXEC)))
        goto close_pipes;
    wr_rank_env_set_rank(&sp->env, number);
    pid_t pid = fork();
    if (pid == 0)
        become_rank(sp, local, number == 0 ? in[0] : sp->null, out[1], err[1]);
    if (pid < 0)
        goto close_pipes;
    setpgid(pid, pid); /* here too: signals for the group may be sent before the child runs */
    rank->pid = pid;
    a->running++;
    close(out[1]);
    close(err[1]);
    out[1] = err[1] = -1;
    fcntl(out[0], F_SETFL, O_NONBLOCK);
    fcntl(err[0], F_SETFL, O_NONBLOCK);
    if (number == 0) {
        close(in[0]);
        fcntl(in[1], F_SETFL, O_NONBLOCK);
        a->input = in[1];
        in[0] = in[1] = -1;
    }
    if (!wr_streams_add(a, rank, number, out[0], err[0]))
        goto close_pipes;
    return true;
close_pipes:;
    int saved = errno;
    for (int i = 0; i < 2; i++) { /* wr_streams_add() may have taken one over */
        int *fd = i ? err : out;
        if (rank->out[i].fd >= 0 && rank->out[i].fd == fd[0])
            fd[0] = -1;
        close_pair(fd);
    }
    close_pair(in);
    errno = saved;
    return false;
}

static void report_errno(struct wr_agent *a, uint32_t rank, uint32_t code, int errnum, const char *what)
{
    char reason[128], text[512];
    snprintf(text, sizeof text, "%s: %s", what, wr_strerror(errnum, reason, sizeof reason));
    wr_agent_report(a, rank, code, text);
}

static void spawn_all(struct spawner *sp)
{
    struct wr_agent *a = sp->a;
    for (int64_t i = 0; i < a->order.count; i++)
        if (!spawn_rank(sp, i)) {
            report_errno(a, (uint32_t)a->order.rank[i], 1, errno, "the process cannot be created");
            return;
        }
}

void wr_agent_spawn(struct wr_agent *a)
{
    int failures[2];
    weir_error err;
    struct spawner sp = {.a = a, .parent = getpid()};
    if (chdir(a->order.directory)) {
        char what[400];
        snprintf(what, sizeof what, "cannot enter the directory '%.300s'", a->order.directory);
        report_errno(a, WR_FRAME_NO_RANK, 1, errno, what);
        return;
    }
    if (wr_rank_env_create(&sp.env, a->order.env, a->order.nenv, &err)) {
        wr_agent_report(a, WR_FRAME_NO_RANK, 1, err.message);
        return;
    }
    if (wr_binding_create((enum wr_bind)a->order.bind, a->order.count, &sp.binding, &err)) {
        wr_agent_report(a, WR_FRAME_NO_RANK, 1, err.message);
        goto free_env;
    }
    sp.null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (sp.null < 0 || pipe2(failures, O_CLOEXEC)) {
        report_errno(a, WR_FRAME_NO_RANK, 1, errno, "the ranks cannot be started");
        goto free_binding;
    }
    fcntl(failures[0], F_SETFL, O_NONBLOCK);
    a->failures = failures[0];
    sp.failures_out = failures[1];
    spawn_all(&sp);
    close(sp.failures_out);
free_binding:
    if (sp.null >= 0)
        close(sp.null);
    wr_binding_destroy(sp.binding);
free_env:
    wr_rank_env_free(&sp.env);
}

void wr_agent_read_failures(struct wr_agent *a)
{
    struct failure f;
    while (a->failures >= 0) {
        ssize_t n = read(a->failures, &f, sizeof f);
        if (n == (ssize_t)sizeof f) {
            char what[400];
            if (f.step == STEP_EXEC)
                snprintf(what, sizeof what, "cannot execute '%.300s'", a->order.args[0]);
            else
                snprintf(what, sizeof what, "%s",
                         f.step == STEP_BIND ? "cannot be bound to its cores"
                                             : "its standard streams cannot be set up");
            report_errno(a, (uint32_t)f.rank, f.errnum == ENOENT || f.errnum == ENOTDIR ? 127 : 126, f.errnum, what);
        } else if (n == 0) { /* all children have become the program, or ended */
            close(a->failures);
            a->failures = -1;
        } else if (errno != EINTR) {
            return;
        }
    }
}
