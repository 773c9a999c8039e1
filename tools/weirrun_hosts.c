/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <weir/version.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/error.h"
#include "tools/weirrun_agent.h"
#include "tools/weirrun_launcher.h"

/* What may come before an agent's greeting: login messages. */
enum { HELLO_MAX = 1 << 20 };

static weir_status host_failed(weir_error *err, const struct wr_host *host)
{
    return wr_error_errno(err, WEIR_ERR_SYSTEM, errno, NULL, "cannot start a process for host %s", host->name);
}

weir_status wr_hosts_start_local(struct wr_run *run, weir_error *err)
{
    for (int i = 0; i < run->o->nhosts; i++) {
        struct wr_host *host = &run->hosts[i];
        int ends[2];
        if (!host->given->local || host->given->count == 0)
            continue;
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
            return host_failed(err, host);
        pid_t pid = fork();
        if (pid == 0) {
            /* the standard output must end when weirrun does, so this copy is not kept */
            int null = open("/dev/null", O_RDWR | O_CLOEXEC);
            if (null >= 0 && dup2(null, STDIN_FILENO) >= 0 && dup2(null, STDOUT_FILENO) >= 0)
                close(null);
            close(ends[0]);
            _exit(wr_agent_main(ends[1], ends[1], run->inherited));
        }
        close(ends[1]);
        if (pid < 0) {
            close(ends[0]);
            return host_failed(err, host);
        }
        host->pid = pid;
        wr_channel_open(&host->ch, ends[0], ends[0]);
        host->state = WR_HOST_STARTING;
        return WEIR_OK; /* there is one such host at most */
    }
    return WEIR_OK;
}

/* ---- remote ---- */

/* 'text' for a shell. */
static void add_quoted(struct wr_buf *buf, const char *text)
{
    wr_buf_str(buf, "'");
    for (; *text; text++)
        if (*text == '\'')
            wr_buf_str(buf, "'\\''");
        else
            wr_buf_add(buf, text, 1);
    wr_buf_str(buf, "'");
}

/* The command for the shell of the other host. No secret is in it: that follows on the standard input. */
static weir_status agent_command(const struct wr_run_options *o, struct wr_buf *command, weir_error *err)
{
    char self[4096];
    const char *path = o->agent_path;
    if (!path) {
        ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
        if (n < 0)
            return wr_error_errno(err, WEIR_ERR_SYSTEM, errno, "give weirrun's path with --agent-path",
                                  "cannot find the path of weirrun");
        self[n] = '\0';
        path = self;
    }
    wr_buf_str(command, "exec ");
    add_quoted(command, path);
    wr_buf_str(command, " --agent");
    return command->failed ? wr_error_memory(err, strlen(path), "the command for other hosts") : WEIR_OK;
}

/* Splits --rsh into words and appends host and command; the array and *words are to be freed. */
static char **rsh_arguments(const char *rsh, const char *host, char *command, char **words)
{
    size_t n = 0;
    char **args = calloc(strlen(rsh) / 2 + 4, sizeof *args);
    *words = strdup(rsh);
    if (!args || !*words) {
        free(args);
        free(*words);
        return NULL;
    }
    char *save = NULL;
    for (char *word = strtok_r(*words, " \t", &save); word; word = strtok_r(NULL, " \t", &save))
        args[n++] = word;
    args[n++] = (char *)host; /* execvp() changes none of them */
    args[n++] = command;
    return args;
}

static WR_NORETURN void become_rsh(const struct wr_run *run, pid_t parent, int fd, char *const *args)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    setpgid(0, 0); /* the terminal's signals go to weirrun alone */
    if (dup2(fd, STDIN_FILENO) < 0 || dup2(fd, STDOUT_FILENO) < 0)
        _exit(126);
    wr_inherited_restore(run->inherited);
    execvp(args[0], args);
    char reason[128], text[512];
    int len = snprintf(text, sizeof text, "weirrun: cannot execute the remote shell '%.300s': %s\n", args[0],
                       wr_strerror(errno, reason, sizeof reason));
    if (write(STDERR_FILENO, text, (size_t)len) < 0)
        _exit(126);
    _exit(127);
}

static weir_status start_remote(struct wr_run *run, struct wr_host *host, char *command, weir_error *err)
{
    int ends[2];
    char *words;
    char **args = rsh_arguments(run->o->rsh, host->given->name, command, &words);
    if (!args)
        return wr_error_memory(err, strlen(run->o->rsh), "the remote shell's command line");
    weir_status status = WEIR_OK;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)) {
        status = host_failed(err, host);
        goto free_args;
    }
    pid_t parent = getpid(), pid = fork();
    if (pid == 0)
        become_rsh(run, parent, ends[1], args);
    close(ends[1]);
    if (pid < 0) {
        status = host_failed(err, host);
        close(ends[0]);
        goto free_args;
    }
    setpgid(pid, pid);
    host->pid = pid;
    wr_channel_open(&host->ch, ends[0], ends[0]);
    host->state = WR_HOST_STARTING;
free_args:
    free(args);
    free(words);
    return status;
}

weir_status wr_hosts_start_remote(struct wr_run *run, weir_error *err)
{
    struct wr_buf command = {0};
    weir_status status = agent_command(run->o, &command, err);
    for (int i = 0; i < run->o->nhosts && !status; i++)
        if (!run->hosts[i].given->local && run->hosts[i].given->count > 0)
            status = start_remote(run, &run->hosts[i], command.data, err);
    wr_buf_free(&command);
    return status;
}

/* ---- START ---- */

struct env_list {
    const char **vars;
    size_t n, cap;
    bool failed;
};

static void env_add(struct env_list *list, const char *entry)
{
    if (list->n == list->cap) {
        size_t cap = list->cap ? 2 * list->cap : 32;
        const char **vars = realloc(list->vars, cap * sizeof *vars);
        if (!vars) {
            list->failed = true;
            return;
        }
        list->vars = vars;
        list->cap = cap;
    }
    list->vars[list->n++] = entry;
}

/* Of this process's environment other hosts get what is weir's. */
static bool env_add_ours(void *arg, const char *entry)
{
    if (strncmp(entry, "WEIR_JOB_", 9))
        env_add(arg, entry);
    return true;
}

static void send_start(struct wr_run *run, struct wr_host *host)
{
    const struct wr_run_options *o = run->o;
    char size[40], node[40], server[200], secret[80], cwd[4096] = "/";
    struct wr_buf nodes = {0}, placement = {0}, data = {0};
    struct env_list env = {0};
    if (!host->given->local)
        wr_env_each(NULL, "WEIR_", env_add_ours, &env);
    wr_buf_printf(&nodes, "WEIR_NODES=%s", o->nodes ? o->nodes : "");
    wr_buf_printf(&placement, "WEIR_PLACEMENT=%s", o->placement ? o->placement : "");
    if (o->nodes)
        env_add(&env, nodes.data);
    if (o->placement && !o->places_on_hosts)
        env_add(&env, placement.data);
    for (size_t i = 0; i < o->nenv; i++)
        env_add(&env, o->env[i]);
    snprintf(size, sizeof size, "WEIR_JOB_SIZE=%lld", (long long)o->size);
    snprintf(node, sizeof node, "WEIR_JOB_NODE=%d", (int)(host - run->hosts));
    snprintf(server, sizeof server, "WEIR_JOB_SERVER=%s", run->server_address);
    snprintf(secret, sizeof secret, "WEIR_JOB_SECRET=%s", wr_server_secret(run->server));
    env_add(&env, size);
    env_add(&env, node);
    env_add(&env, server);
    env_add(&env, secret);
    if (!getcwd(cwd, sizeof cwd))
        wr_str_copy(cwd, sizeof cwd, "/");
    struct wr_order order = {.size = o->size,
                             .count = host->given->count,
                             .rank = host->given->rank,
                             .node = host - run->hosts,
                             .bind = o->bind,
                             .tag_output = o->tag_output,
                             .whole_lines = o->size > 1,
                             .grace_ns = o->grace_ns,
                             .directory = o->directory ? o->directory : cwd,
                             .nenv = env.n,
                             .env = env.vars,
                             .args = (const char **)o->program};
    while (order.args[order.nargs])
        order.nargs++;
    wr_order_pack(&order, &data);
    if (env.failed || nodes.failed || placement.failed || data.failed)
        wr_run_fail(run, 1, "out of memory");
    else
        wr_channel_send(&host->ch, WR_FRAME_START, 0, data.data, data.len);
    explicit_bzero(secret, sizeof secret);
    wr_buf_free(&data);
    wr_buf_free(&nodes);
    wr_buf_free(&placement);
    free(env.vars);
}

/* ---- life ---- */

/* Looks for the agent's greeting in what came; true once it was there. */
static bool take_hello(struct wr_run *run, struct wr_host *host)
{
    static const char hello[] = WR_AGENT_HELLO, version[] = WEIR_VERSION_STRING;
    struct wr_queue *rx = &host->ch.rx;
    const char *data = wr_queue_data(rx);
    size_t len = wr_queue_len(rx);
    const char *at = len ? memmem(data, len, hello, sizeof hello - 1) : NULL;
    const char *newline = at ? memchr(at, '\n', len - (size_t)(at - data)) : NULL;
    if (!newline) {
        if (len > HELLO_MAX)
            host->ch.gone = true;
        return false;
    }
    const char *theirs = at + sizeof hello - 1;
    size_t n = (size_t)(newline - theirs);
    if (n != sizeof version - 1 || memcmp(theirs, version, n)) {
        wr_run_fail(run, 1,
                    "host %s has weirrun %.*s, and this is %s: install the same version, or give its path with "
                    "--agent-path",
                    host->name, (int)WR_MIN(n, (size_t)40), theirs, version);
        wr_host_close(host);
        return false;
    }
    wr_queue_take(rx, (size_t)(newline + 1 - data));
    host->state = WR_HOST_RUNNING;
    host->answered = true;
    send_start(run, host);
    return true;
}

void wr_host_progress(struct wr_run *run, struct wr_host *host)
{
    struct wr_agent_frame frame;
    wr_channel_fill(&host->ch);
    if (host->state == WR_HOST_STARTING && !take_hello(run, host)) {
        if (host->state == WR_HOST_STARTING && host->ch.gone)
            wr_run_host_lost(run, host);
        return;
    }
    while (host->state == WR_HOST_RUNNING && wr_channel_next(&host->ch, &frame))
        wr_run_frame(run, host, &frame);
    if (host->state == WR_HOST_RUNNING && host->ch.gone)
        wr_run_host_lost(run, host);
}

void wr_host_close(struct wr_host *host)
{
    if (host->state == WR_HOST_IDLE)
        return;
    wr_channel_close(&host->ch);
    host->state = WR_HOST_GONE;
}

void wr_hosts_reap(struct wr_run *run)
{
    static const int64_t patience_ns = (int64_t)8 * 1000000000; /* longer than an agent that clears up */
    int64_t deadline = wr_deadline(patience_ns);
    for (int i = 0; i < run->o->nhosts; i++) {
        struct wr_host *host = &run->hosts[i];
        for (int64_t pause_ns = 50000; host->pid > 0; pause_ns = WR_MIN(2 * pause_ns, (int64_t)20000000)) {
            pid_t pid = waitpid(host->pid, NULL, WNOHANG);
            if (pid == host->pid || (pid < 0 && errno == ECHILD)) {
                host->pid = 0;
                break;
            }
            if (!host->answered ||
                wr_deadline_passed(deadline)) { /* a remote shell that reached nothing has no more time */
                kill(host->given->local ? host->pid : -host->pid, SIGKILL);
                waitpid(host->pid, NULL, 0);
                host->pid = 0;
                break;
            }
            struct timespec pause = {0, pause_ns};
            nanosleep(&pause, NULL);
        }
    }
    /* an agent that was killed left its processes to this one */
    if (run->agent_died && run->orphans_are_ours)
        wr_children_end_all();
}
