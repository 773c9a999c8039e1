/* SPDX-License-Identifier: BSD-3-Clause */
/* Keeping the result of the measurement, and making it in a child process. */
#include "comm/engine/measured.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/str.h"

#define FORMAT "weir-networks 1"

enum { FILE_MAX = 4096, KEPT_SECONDS = 30 * 24 * 3600 };
static const int64_t TIME_MAX_NS = (int64_t)3600 * 1000 * 1000 * 1000, CHILD_NS = (int64_t)3 * 1000 * 1000 * 1000;

/* ---- the file ---- */

bool wr_measured_path(const weir_ctx *ctx, char *path, size_t size)
{
    char name[300];
    snprintf(name, sizeof name, "networks.%s", ctx->host);
    return wr_file_cached(&ctx->config, &ctx->env, name, path, size);
}

/* A file of this user that is not too old; NULL when it is anything else. */
static char *read_own_file(const char *path)
{
    char *text = NULL;
    int64_t modified, now = time(NULL);
    if (wr_file_read(path, FILE_MAX, WR_FILE_OWN, &text, &modified))
        return NULL;
    if (modified <= now && now - modified < KEPT_SECONDS)
        return text;
    free(text);
    return NULL;
}

/* "name small large" */
static bool read_line(char *line, struct wr_measured *m)
{
    char *save = NULL, *name = strtok_r(line, " ", &save), *small = strtok_r(NULL, " ", &save),
         *large = strtok_r(NULL, " ", &save);
    return name && small && large && !strtok_r(NULL, " ", &save) && wr_str_copy(m->name, sizeof m->name, name) &&
           wr_parse_int(small, &m->small_ns) && wr_parse_int(large, &m->large_ns) && m->small_ns >= 0 &&
           m->large_ns >= 0 && m->small_ns <= TIME_MAX_NS && m->large_ns <= TIME_MAX_NS && !m->small_ns == !m->large_ns;
}

static bool parse(char *text, const char *key, struct wr_measured *found, size_t n)
{
    char *save = NULL, *line = strtok_r(text, "\n", &save);
    size_t have = 0;
    if (!line || strcmp(line, FORMAT) != 0 || !(line = strtok_r(NULL, "\n", &save)) || strcmp(line, key) != 0)
        return false;
    while ((line = strtok_r(NULL, "\n", &save)) && strcmp(line, "end") != 0) {
        struct wr_measured m;
        size_t i = 0;
        if (!read_line(line, &m))
            return false;
        while (i < n && strcmp(found[i].name, m.name) != 0)
            i++;
        if (i == n || found[i].small_ns != -1)
            return false;
        found[i] = m;
        have++;
    }
    return line && have == n && !strtok_r(NULL, "\n", &save);
}

bool wr_measured_read(const char *path, const char *key, struct wr_measured *networks, size_t n)
{
    struct wr_measured found[WR_MEASURED_MAX];
    char *text = n <= WR_MEASURED_MAX ? read_own_file(path) : NULL;
    if (!text)
        return false;
    for (size_t i = 0; i < n; i++) {
        found[i] = networks[i];
        found[i].small_ns = -1;
    }
    bool ok = parse(text, key, found, n);
    if (ok)
        memcpy(networks, found, n * sizeof *found);
    free(text);
    return ok;
}

bool wr_measured_write(const char *path, const char *key, const struct wr_measured *networks, size_t n)
{
    struct wr_buf text = {0};
    wr_buf_printf(&text, "%s\n%s\n", FORMAT, key);
    for (size_t i = 0; i < n; i++)
        wr_buf_printf(&text, "%s %lld %lld\n", networks[i].name, (long long)networks[i].small_ns,
                      (long long)networks[i].large_ns);
    wr_buf_printf(&text, "end\n");
    bool ok = !text.failed && wr_file_replace(path, text.data, text.len);
    wr_buf_free(&text);
    return ok;
}

/* ---- what a result depends on ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Interfaces without hardware come and go with containers and tests. */
static bool is_virtual(const char *folder, const char *name)
{
    char path[512], target[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    ssize_t n = readlink(path, target, sizeof target - 1);
    if (n < 0)
        return false;
    target[n] = '\0';
    return strstr(target, "/devices/virtual/") != NULL;
}

/* The names of devices in a folder of /sys, sorted. */
static void add_names(struct wr_buf *key, const char *folder)
{
    char *names[64];
    size_t n = 0;
    struct dirent *entry;
    DIR *dir = opendir(folder);
    while (dir && n < WR_ARRAY_SIZE(names) && (entry = readdir(dir)))
        if (entry->d_name[0] != '.' && !is_virtual(folder, entry->d_name) && (names[n] = strdup(entry->d_name)))
            n++;
    if (dir)
        closedir(dir);
    qsort(names, n, sizeof *names, by_name);
    for (size_t i = 0; i < n; i++) {
        wr_buf_printf(key, ",%s", names[i]);
        free(names[i]);
    }
}

static void make_key(const weir_ctx *ctx, char text[WR_MEASURED_KEY])
{
    static const char *const settings[] = {"UCX_TLS", "UCX_NET_DEVICES", "FI_PROVIDER"};
    const struct wr_config *c = &ctx->config;
    struct wr_buf key = {0};
    wr_buf_printf(&key, "key weir=%s libraries=%s host=%s nics=", weir_version(), NETWORK_LIBRARIES, ctx->host);
    add_names(&key, "/sys/class/net");
    add_names(&key, "/sys/class/infiniband");
    wr_buf_printf(&key, " provider=%s nic=%s tls=%s", c->ofi_provider ? c->ofi_provider : "", c->nic ? c->nic : "",
                  c->ucx_tls ? c->ucx_tls : "");
    for (size_t i = 0; i < WR_ARRAY_SIZE(settings); i++) {
        const char *value = wr_env_get(&ctx->env, settings[i]);
        wr_buf_printf(&key, " %s=%s", settings[i], value ? value : "");
    }
    wr_str_copy(text, WR_MEASURED_KEY, key.data ? key.data : "");
    for (char *p = text; *p; p++)
        if ((unsigned char)*p < ' ')
            *p = '?';
    wr_buf_free(&key);
}

/* ---- measuring ---- */

static void stop_child(pid_t child)
{
    kill(child, SIGKILL);
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
        ;
}

/* One network in a child; false when it does not answer in time. */
static bool measure(weir_ctx *ctx, struct wr_measured *network)
{
    int fd[2];
    struct wr_measured result = *network;
    size_t have = 0;
    int64_t deadline = wr_deadline(CHILD_NS);
    if (pipe2(fd, O_CLOEXEC))
        return false;
    pid_t child = fork();
    if (child < 0) {
        close(fd[0]);
        close(fd[1]);
        return false;
    }
    if (!child) {
        bool ok = wr_measure_here(ctx, &result) && write(fd[1], &result, sizeof result) == (ssize_t)sizeof result;
        _exit(ok ? 0 : 1);
    }
    close(fd[1]);
    while (have < sizeof result && !wr_deadline_passed(deadline)) {
        struct pollfd poll_fd = {fd[0], POLLIN, 0};
        int ready = poll(&poll_fd, 1, 50);
        ssize_t n = ready > 0 ? read(fd[0], (char *)&result + have, sizeof result - have) : 1;
        if (ready > 0 && n <= 0)
            break;
        have += ready > 0 ? (size_t)n : 0;
    }
    close(fd[0]);
    stop_child(child);
    if (have < sizeof result)
        return false;
    *network = result;
    return true;
}

void wr_measured_get(weir_ctx *ctx, struct wr_measured *networks, size_t n)
{
    char path[512], key[WR_MEASURED_KEY];
    bool kept = wr_measured_path(ctx, path, sizeof path);
    make_key(ctx, key);
    if (kept && wr_measured_read(path, key, networks, n))
        return;
    for (size_t i = 0; i < n; i++) {
        if (!measure(ctx, &networks[i]))
            networks[i].small_ns = networks[i].large_ns = 0;
        wr_info(&ctx->log, TRANSPORT, "%s: 8 bytes take %lld ns, 1 MiB takes %lld ns on this host", networks[i].name,
                (long long)networks[i].small_ns, (long long)networks[i].large_ns);
    }
    if (kept && !wr_measured_write(path, key, networks, n))
        wr_info(&ctx->log, TRANSPORT, "%s cannot be written: networks are measured again at the next start", path);
}

void wr_measured_order(struct wr_measured *networks, size_t n)
{
    for (size_t i = 1; i < n; i++)
        for (size_t j = i; j > 0; j--) {
            struct wr_measured *before = &networks[j - 1], *m = &networks[j], moved = *m;
            double ratio = m->small_ns && before->small_ns ? (double)m->small_ns / (double)before->small_ns *
                                                                 (double)m->large_ns / (double)before->large_ns
                                                           : 1;
            if (ratio > 0.75 && (before->small_ns || !m->small_ns))
                break;
            *m = *before;
            *before = moved;
        }
}
