/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bare tools of the libraries below as references: fi_pingpong and ucx_perftest, with the provider or UCX_TLS that weir
 * uses. The peer starts the server, rank 0 the client, each with the core that its rank is bound to. Of all operations that
 * a tool has, the best counts.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "perf/weir-p2p.h"

extern char **environ;

enum { ARGS = 24, ATTEMPTS = 20, TOOL_TIMEOUT_MS = 20000 };

/* What the peer answers. */
struct served {
    int32_t port; /* negative: the error number of starting the server */
    char host[64];
};

/* By the shell, which looks for it where posix_spawnp() will. */
static bool find_program(const char *name)
{
    char text[64];
    const char *argv[] = {"sh", "-c", text, NULL};
    int status = -1;
    pid_t pid;
    snprintf(text, sizeof text, "command -v %s >/dev/null 2>&1", name);
    return !posix_spawnp(&pid, argv[0], NULL, NULL, (char *const *)argv, environ) && waitpid(pid, &status, 0) == pid &&
           WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* The command line of one half; host is NULL for the server. */
static void make_args(const struct command *c, int port, const char *host, char text[][32], const char **argv)
{
    int n = 0;
    snprintf(text[0], 32, "%d", port);
    snprintf(text[1], 32, "%d", c->iterations);
    snprintf(text[2], 32, "%llu", (unsigned long long)c->bytes);
    snprintf(text[3], 32, "%d", c->iterations / 5 + 1);
    argv[n++] = c->tool.program;
    if (!strcmp(c->tool.program, "fi_pingpong")) {
        const char *const fixed[] = {host ? "-P" : "-B", text[0], "-I",  text[1], "-S",        text[2], "-p",
                                     c->tool.provider,   "-e",    "rdm", "-m",    c->tool.test};
        for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
            argv[n++] = fixed[i];
        argv[n++] = host;
    } else {
        const char *const fixed[] = {"-p", text[0]}, *const client[] = {host,    "-t", c->tool.test, "-n",
                                                                        text[1], "-s", text[2],      "-w",
                                                                        text[3], "-f", "-v"};
        for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
            argv[n++] = fixed[i];
        for (size_t i = 0; host && i < sizeof client / sizeof *client; i++)
            argv[n++] = client[i];
    }
    argv[n] = NULL;
}

/* Starts it; its output goes to *out, or nowhere. */
static int start(const char **argv, int *out, pid_t *pid)
{
    int ends[2] = {-1, -1};
    posix_spawn_file_actions_t actions;
    /* UCX's tool may use what weir lets UCX use: not its shared memory, unless that is asked for. */
    setenv("UCX_TLS", "^shm", 0);
    if (out && pipe2(ends, O_CLOEXEC))
        return errno;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    if (out)
        posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    else
        posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    int rc = posix_spawnp(pid, argv[0], &actions, NULL, (char *const *)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (out) {
        close(ends[1]);
        if (rc)
            close(ends[0]);
        *out = ends[0];
    }
    return rc;
}

/* Waits for a process; ends it when it takes too long. Whether it ended well. */
static bool end_of(pid_t pid, int ms)
{
    int status = -1;
    for (int i = 0; i < ms; i += 2) {
        if (waitpid(pid, &status, WNOHANG) == pid)
            return WIFEXITED(status) && WEXITSTATUS(status) == 0;
        poll(NULL, 0, 2);
    }
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return false;
}

/* A port that nobody uses now. */
static int free_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET};
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), port = -1;
    if (fd >= 0 && !bind(fd, (struct sockaddr *)&a, len) && !getsockname(fd, (struct sockaddr *)&a, &len))
        port = ntohs(a.sin_port);
    if (fd >= 0)
        close(fd);
    return port;
}

bool tool_serve(struct bench *b, const struct command *c)
{
    struct served served = {.port = free_port()};
    const char *argv[ARGS];
    char text[4][32], stop;
    pid_t pid = 0;
    gethostname(served.host, sizeof served.host - 1);
    make_args(c, served.port, NULL, text, argv);
    int rc = start(argv, NULL, &pid);
    if (rc)
        served.port = -rc;
    bool ok = check(b, weir_send(b->comm, &served, sizeof served, b->peer, TAG_PORT), "weir_send") &&
              check(b, weir_recv(b->comm, &stop, 1, b->peer, TAG_STOP, NULL), "weir_recv");
    if (!rc)
        end_of(pid, 200);
    return ok;
}

/* Reads all output of the client; whether it ended well. */
static bool read_client(const char **argv, char *text, size_t size)
{
    int fd, left = TOOL_TIMEOUT_MS;
    size_t len = 0;
    pid_t pid;
    ssize_t n = 1;
    if (start(argv, &fd, &pid))
        return false;
    while (left > 0 && n > 0 && len < size - 1) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (poll(&p, 1, 50) > 0 && (n = read(fd, text + len, size - 1 - len)) > 0)
            len += (size_t)n;
        else
            left -= 50;
    }
    text[len] = '\0';
    close(fd);
    return end_of(pid, left > 0 ? 2000 : 0);
}

/* The numbers in what a tool printed. */
static bool parse(const struct command *c, const char *text, struct value *v)
{
    const char *last = NULL;
    double f[7];
    for (const char *line = text; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        if (*line != '\n' && line[strspn(line, " \t")])
            last = line;
    if (!last)
        return false;
    if (!strcmp(c->tool.program, "fi_pingpong")) { /* bytes #sent #ack total time MB/sec usec/xfer Mxfers/sec */
        if (sscanf(last, "%*s %*s %*s %*s %*s %lf %lf", &f[0], &f[1]) != 2)
            return false;
        v->latency_us = f[1];
        v->gb_s = f[1] > 0 ? (double)c->bytes / f[1] * 1e-3 : 0;
        return true;
    }
    /* iterations, median, average and overall latency, average and overall bandwidth in MiB/s */
    if (sscanf(last, "%lf,%lf,%lf,%lf,%lf,%lf", &f[0], &f[1], &f[2], &f[3], &f[4], &f[5]) != 6)
        return false;
    if (strstr(c->tool.test, "lat"))
        v->latency_us = f[1];
    else
        v->gb_s = f[5] * 1.048576e-3;
    return true;
}

/* One run of a tool; false when weir failed meanwhile. */
static bool run_tool(struct bench *b, struct command *c, struct value *v)
{
    struct served served;
    const char *argv[ARGS];
    char text[4][32], output[4096], stop = 0;
    *v = (struct value){0};
    if (!check(b, weir_send(b->comm, c, sizeof *c, b->peer, TAG_COMMAND), "weir_send") ||
        !check(b, weir_recv(b->comm, &served, sizeof served, b->peer, TAG_PORT, NULL), "weir_recv"))
        return false;
    char own[64] = "";
    gethostname(own, sizeof own - 1);
    make_args(c, served.port, strcmp(own, served.host) ? served.host : "127.0.0.1", text, argv);
    for (int i = 0; i < ATTEMPTS && served.port > 0; i++) {
        poll(NULL, 0, 50); /* the server must listen first */
        if (read_client(argv, output, sizeof output) && parse(c, output, v))
            break;
    }
    return check(b, weir_send(b->comm, &stop, 1, b->peer, TAG_STOP), "weir_send");
}

static void keep_best(struct row *row, const struct value *v, const char *test, const char **latency_by,
                      const char **rate_by)
{
    if (v->latency_us > 0 && (row->reference.latency_us <= 0 || v->latency_us < row->reference.latency_us)) {
        row->reference.latency_us = v->latency_us;
        *latency_by = test;
    }
    if (v->gb_s > row->reference.gb_s) {
        row->reference.gb_s = v->gb_s;
        *rate_by = test;
    }
}

/* The same for all methods of a size: measured once. */
struct known {
    int peer;
    uint64_t bytes;
    struct value best;
    char name[64];
};

bool tool_reference(struct bench *b, const struct options *o, struct row *row)
{
    /* it prints means: of several short runs, one may be undisturbed */
    static const char *const fi_tests[] = {"msg", "tagged", "msg", "tagged", "msg", "tagged", "msg", "tagged", NULL};
    static const char *const ucx_tests[] = {"tag_lat",   "ucp_am_lat", "ucp_put_lat", "tag_bw",
                                            "ucp_am_bw", "ucp_put_bw", NULL};
    static struct known known = {.peer = -1};
    bool ucx = !strcmp(row->transport, "ucx");
    const char *latency_by = "", *rate_by = "";
    struct command c = {.action = DO_TOOL, .bytes = row->bytes};
    if (known.peer == b->peer && known.bytes == row->bytes) {
        row->reference = known.best;
        snprintf(row->reference_name, sizeof row->reference_name, "%s", known.name);
        return true;
    }
    snprintf(c.tool.program, sizeof c.tool.program, "%s", ucx ? "ucx_perftest" : "fi_pingpong");
    snprintf(c.tool.provider, sizeof c.tool.provider, "%s", row->provider);
    if (!find_program(c.tool.program)) {
        snprintf(row->reference_name, sizeof row->reference_name, "no %s here", c.tool.program);
        return true;
    }
    double each = (double)row->bytes / 1000 + 5; /* a guess of microseconds where nothing was measured */
    if (row->weir.latency_us > 0)
        each = row->weir.latency_us;
    double n = o->point_s * 1e6 / (2 * each) / (ucx ? 1 : 8);
    for (int i = 0; ucx ? ucx_tests[i] != NULL : fi_tests[i] != NULL; i++) {
        struct value v;
        snprintf(c.tool.test, sizeof c.tool.test, "%s", ucx ? ucx_tests[i] : fi_tests[i]);
        if (ucx && !(o->kinds & (strstr(c.tool.test, "lat") ? LATENCY : BANDWIDTH)))
            continue;
        c.iterations = n < 10 ? 10 : n > 20000 ? 20000 : (int32_t)n;
        if (!run_tool(b, &c, &v))
            return false;
        keep_best(row, &v, ucx ? ucx_tests[i] : fi_tests[i], &latency_by, &rate_by);
    }
    if (!*latency_by && !*rate_by)
        snprintf(row->reference_name, sizeof row->reference_name, "%s failed", c.tool.program);
    else
        snprintf(row->reference_name, sizeof row->reference_name, "%s %s%s%s", c.tool.program, latency_by,
                 *latency_by && *rate_by && strcmp(latency_by, rate_by) ? ", " : "",
                 strcmp(latency_by, rate_by) ? rate_by : "");
    known = (struct known){.peer = b->peer, .bytes = row->bytes, .best = row->reference};
    snprintf(known.name, sizeof known.name, "%s", row->reference_name);
    return true;
}
