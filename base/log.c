/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/str.h"

static const char *const level_names[] = {"off", "error", "warn", "info", "debug", "trace"};

static const char *const component_names[] = {
#define X(NAME, text) text,
    WR_LOG_COMPONENTS(X)
#undef X
};

void wr_log_init(struct wr_log *log)
{
    log->fd = STDERR_FILENO;
    log->owns_fd = false;
    log->rank = -1;
    for (int i = 0; i < WR_LOG_NCOMPONENTS; i++)
        log->level[i] = WR_LOG_WARN;
}

static int name_index(const char *const *names, size_t n, const char *word, size_t len)
{
    for (size_t i = 0; i < n; i++)
        if (strlen(names[i]) == len && !memcmp(names[i], word, len))
            return (int)i;
    return -1;
}

weir_status wr_log_set_levels(struct wr_log *log, const char *spec, weir_error *err)
{
    struct wr_log next = *log;
    for (const char *item = spec; *item;) {
        size_t len = strcspn(item, ",");
        const char *colon = memchr(item, ':', len);
        const char *word = colon ? colon + 1 : item;
        int level = name_index(level_names, WR_ARRAY_SIZE(level_names), word, len - (size_t)(word - item));
        int component = colon ? name_index(component_names, WR_LOG_NCOMPONENTS, item, (size_t)(colon - item)) : -1;
        if (!colon && level < 0 && (component = name_index(component_names, WR_LOG_NCOMPONENTS, item, len)) >= 0)
            level = WR_LOG_INFO;
        if (level < 0 || (colon && component < 0))
            return wr_error_set(err, WEIR_ERR_CONFIG,
                                "levels are off, error, warn, info, debug, trace; components are ctx, config, topo, boot, "
                                "transport, mem, p2p, plan, coll, optim",
                                "WEIR_LOG=%s is not valid at '%.*s': it must be LEVEL, COMPONENT or "
                                "COMPONENT:LEVEL, separated by commas",
                                spec, (int)len, item);
        for (int i = 0; i < WR_LOG_NCOMPONENTS; i++)
            if (component < 0 || i == component)
                next.level[i] = (enum wr_log_level)level;
        item += len;
        item += *item == ',';
    }
    *log = next;
    return WEIR_OK;
}

weir_status wr_log_open(struct wr_log *log, const char *path, weir_error *err)
{
    struct wr_buf name = {0};
    for (const char *p = path; *p; p++) {
        if (p[0] == '%' && p[1] == 'r') {
            wr_buf_printf(&name, "%d", log->rank < 0 ? 0 : log->rank);
            p++;
        } else {
            wr_buf_add(&name, p, 1);
        }
    }
    if (name.failed || !name.data) {
        wr_buf_free(&name);
        return wr_error_memory(err, strlen(path), "the log file's name");
    }
    int fd = open(name.data, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    weir_status status = WEIR_OK;
    if (fd < 0) {
        status = wr_error_errno(err, WEIR_ERR_IO, errno, "set WEIR_LOG_FILE to a path that can be written",
                                "cannot open the log file '%s'", name.data);
    } else {
        wr_log_close(log);
        log->fd = fd;
        log->owns_fd = true;
    }
    wr_buf_free(&name);
    return status;
}

void wr_log_close(struct wr_log *log)
{
    if (log->owns_fd)
        close(log->fd);
    log->fd = STDERR_FILENO;
    log->owns_fd = false;
}

void wr_log_write(const struct wr_log *log, enum wr_log_component component, enum wr_log_level level, const char *fmt, ...)
{
    char line[1024];
    int saved_errno = errno;
    size_t len;
    va_list ap;
    int64_t now = wr_clock_wall_ns();
    if (log->rank >= 0)
        snprintf(line, sizeof line, "[weir %lld.%06d rank %d] %s %s: ", (long long)(now / 1000000000),
                 (int)(now % 1000000000 / 1000), log->rank, level_names[level], component_names[component]);
    else
        snprintf(line, sizeof line, "[weir %lld.%06d pid %d] %s %s: ", (long long)(now / 1000000000),
                 (int)(now % 1000000000 / 1000), (int)getpid(), level_names[level], component_names[component]);
    len = strlen(line);
    va_start(ap, fmt);
    vsnprintf(line + len, sizeof line - len - 1, fmt, ap);
    va_end(ap);
    len = strlen(line);
    line[len++] = '\n';
    while (write(log->fd, line, len) < 0 && errno == EINTR)
        ;
    errno = saved_errno;
}
