/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf/startup-run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "perf/startup.h"

extern char **environ;

struct job {
    pid_t pid;
    int fd;
    double deadline;
    char *text;
    size_t len, cap;
};

/* Starts the command in a process group of its own, its output and errors in one pipe. */
static int start(struct job *job, char *const *argv)
{
    int ends[2];
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none;
    if (pipe2(ends, O_CLOEXEC))
        return errno;
    sigemptyset(&none);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawnattr_setsigmask(&attr, &none);
    int rc = posix_spawnp(&job->pid, argv[0], &actions, &attr, argv, environ);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (rc)
        close(ends[0]);
    job->fd = ends[0];
    return rc;
}

/* Takes some output; false at its end. */
static bool take(struct job *job)
{
    if (job->cap - job->len < 4096) {
        char *text = realloc(job->text, job->cap * 2 + 8192);
        if (!text)
            return false;
        job->text = text;
        job->cap = job->cap * 2 + 8192;
    }
    ssize_t n = read(job->fd, job->text + job->len, job->cap - job->len - 1);
    if (n > 0) {
        job->len += (size_t)n;
        job->text[job->len] = '\0';
    }
    return n > 0 || (n < 0 && errno == EINTR);
}

/* Reads until the end or the deadline, then ends what is left. Returns the wait status, -1 when time was up. */
static int finish(struct job *job)
{
    int status = -1;
    pid_t ended = 0;
    for (bool more = true; !ended && startup_now() < job->deadline;) {
        struct pollfd fd = {.fd = more ? job->fd : -1, .events = POLLIN};
        if (poll(&fd, 1, more ? 20 : 1) > 0)
            more = take(job);
        else
            ended = waitpid(job->pid, &status, WNOHANG);
        if (!more && !ended)
            ended = waitpid(job->pid, &status, WNOHANG);
    }
    if (ended == job->pid) {
        struct pollfd fd = {.fd = job->fd, .events = POLLIN};
        while (poll(&fd, 1, 0) > 0 && take(job))
            ;
    } else {
        /* first as people do, so that the launcher can clean up behind itself */
        kill(-job->pid, SIGTERM);
        for (int i = 0; i < 300 && waitpid(job->pid, &status, WNOHANG) == 0; i++)
            poll(NULL, 0, 10);
        status = -1;
    }
    kill(-job->pid, SIGKILL);
    waitpid(job->pid, NULL, 0);
    close(job->fd);
    return status;
}

/* Sums up the ranks' lines; returns how many there were. */
static int sum_up(char *text, int ranks, struct launch *launch)
{
    int seen = 0, rank;
    double init, topo, grown = 0;
    long before, after;
    char *save = NULL;
    for (char *line = text ? strtok_r(text, "\n", &save) : NULL; line; line = strtok_r(NULL, "\n", &save)) {
        char *found = strstr(line, "startup rank ");
        if (!found || sscanf(found, "startup rank %d init %lf topo %lf pss %ld %ld", &rank, &init, &topo, &before, &after) != 5) {
            if (!*launch->why)
                snprintf(launch->why, sizeof launch->why, "%s", line);
            continue;
        }
        seen++;
        launch->init_s = init > launch->init_s ? init : launch->init_s;
        launch->topo_s = topo > launch->topo_s ? topo : launch->topo_s;
        grown += (double)(after - before);
    }
    launch->pss_kib = grown / ranks;
    return seen;
}

bool launch_run(char *const *argv, int ranks, double timeout_s, struct launch *launch)
{
    struct job job = {0};
    memset(launch, 0, sizeof *launch);
    double begin = startup_now();
    job.deadline = begin + timeout_s;
    int rc = start(&job, argv);
    if (rc) {
        snprintf(launch->why, sizeof launch->why, "%s: %s", argv[0], strerror(rc));
        return false;
    }
    int status = finish(&job);
    launch->wall_s = startup_now() - begin;
    int seen = sum_up(job.text, ranks, launch);
    free(job.text);
    if (status == -1)
        snprintf(launch->why, sizeof launch->why, "not finished after %.0f s", timeout_s);
    else if (status == 0 && seen != ranks)
        snprintf(launch->why, sizeof launch->why, "%d of %d ranks reported", seen, ranks);
    else if (status == 0)
        launch->why[0] = '\0';
    else if (!*launch->why)
        snprintf(launch->why, sizeof launch->why, "exit status %d", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    return !*launch->why;
}

bool launch_quiet(char *const *argv, char *line, size_t size)
{
    struct job job = {0};
    job.deadline = startup_now() + 5;
    if (start(&job, argv))
        return false;
    int status = finish(&job);
    if (line && job.text) {
        job.text[strcspn(job.text, "\n")] = '\0';
        snprintf(line, size, "%s", job.text);
    }
    free(job.text);
    return status == 0;
}
