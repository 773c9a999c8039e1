/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

extern char **environ;

enum { CONCURRENT = 4, ANSWER_MAX = 1 << 20 };

struct running {
    struct probe *probe; /* NULL: the place is free */
    pid_t pid;
    int fd;
    int64_t deadline;
};

static bool start(struct running *r, struct probe *probe, int timeout_ms)
{
    int pipe_fd[2];
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    char self[] = "/proc/self/exe", option[] = "--probe";
    char *argv[] = {self, option, probe->name, NULL};

    if (pipe2(pipe_fd, O_CLOEXEC))
        return false;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, pipe_fd[1], 1);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    posix_spawnattr_init(&attr);
    /* a group of its own, so that what the probe starts can be ended with it */
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setpgroup(&attr, 0);
    int rc = posix_spawn(&r->pid, self, &actions, &attr, argv, environ);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&actions);
    close(pipe_fd[1]);
    if (rc) {
        close(pipe_fd[0]);
        return false;
    }
    r->probe = probe;
    r->fd = pipe_fd[0];
    r->deadline = wr_deadline((int64_t)timeout_ms * 1000000);
    return true;
}

/* Ends what is left of the probe and learns how it ended. */
static void finish(struct running *r, bool timed_out)
{
    int status = 0;
    pid_t pid = 0;
    /* its answers ended; give it the rest of its time to end by itself */
    while (!timed_out && (pid = waitpid(r->pid, &status, WNOHANG)) == 0 && !wr_deadline_passed(r->deadline))
        poll(NULL, 0, 2);
    if (pid == 0) {
        r->probe->timed_out = true;
        kill(-r->pid, SIGKILL);
        while ((pid = waitpid(r->pid, &status, 0)) < 0 && errno == EINTR)
            ;
    }
    if (pid == r->pid && WIFSIGNALED(status))
        r->probe->signal = WTERMSIG(status);
    else if (pid == r->pid && WIFEXITED(status))
        r->probe->exit_code = WEXITSTATUS(status);
    close(r->fd);
    r->probe = NULL;
}

/* Takes what the probe has written; false when it has nothing more to say. */
static bool take(struct running *r)
{
    char chunk[4096];
    ssize_t n = read(r->fd, chunk, sizeof chunk);
    if (n > 0 && r->probe->text.len < ANSWER_MAX)
        wr_buf_add(&r->probe->text, chunk, (size_t)n);
    return n > 0 || (n < 0 && errno == EINTR);
}

static void wait_once(struct running *places)
{
    struct pollfd fds[CONCURRENT];
    struct running *who[CONCURRENT];
    nfds_t n = 0;
    int64_t first = WR_TIME_INF;
    for (int i = 0; i < CONCURRENT; i++)
        if (places[i].probe) {
            fds[n] = (struct pollfd){.fd = places[i].fd, .events = POLLIN};
            who[n++] = &places[i];
            first = WR_MIN(first, places[i].deadline);
        }
    int ready = poll(fds, n, wr_deadline_poll_ms(first));
    for (nfds_t i = 0; i < n; i++) {
        if (ready > 0 && fds[i].revents && !take(who[i]))
            finish(who[i], false);
        else if (wr_deadline_passed(who[i]->deadline))
            finish(who[i], true);
    }
}

void probes_run(struct probe *probes, size_t n, int timeout_ms)
{
    struct running places[CONCURRENT];
    memset(places, 0, sizeof places);
    size_t next = 0, active = 0;
    do {
        active = 0;
        for (int i = 0; i < CONCURRENT; i++) {
            while (!places[i].probe && next < n) {
                struct probe *probe = &probes[next++];
                if (!start(&places[i], probe, timeout_ms))
                    probe->failed_to_start = true;
            }
            active += places[i].probe != NULL;
        }
        if (active)
            wait_once(places);
    } while (active || next < n);
}

void probe_free(struct probe *probe)
{
    wr_buf_free(&probe->text);
}

const char *probe_failure(const struct probe *probe, int timeout_ms, char *buf, size_t size)
{
    if (probe->failed_to_start)
        snprintf(buf, size, "could not be tried (no process could be started)");
    else if (probe->timed_out)
        snprintf(buf, size, "hung: no answer within %d s", timeout_ms / 1000);
    else if (probe->signal)
        snprintf(buf, size, "crashed: signal %d (%s)", probe->signal, strsignal(probe->signal));
    else if (probe->exit_code)
        snprintf(buf, size, "ended with exit code %d", probe->exit_code);
    else
        return NULL;
    return buf;
}

FILE *probe_begin(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* nothing is left behind when the one who asked is killed */
    int answers = fcntl(1, F_DUPFD_CLOEXEC, 3);
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (answers < 0 || null < 0 || dup2(null, 1) < 0)
        return NULL;
    FILE *out = fdopen(answers, "w");
    if (out)
        setvbuf(out, NULL, _IOLBF, 0);
    return out;
}

size_t probe_next_line(char **text, char **fields, size_t max)
{
    char *line = *text;
    if (!line || !*line)
        return 0;
    char *end = line + strcspn(line, "\n");
    *text = *end ? end + 1 : end;
    *end = '\0';
    size_t n = 0;
    while (n < max) {
        fields[n++] = line;
        if (n == max || !(line = strchr(line, '\t')))
            break;
        *line++ = '\0';
    }
    return n;
}
