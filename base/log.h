/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log of one context: levels per component, to the standard error or a file. Off but for warnings and errors.
 * A line is written with one write(2), so that lines of several ranks do not mix.
 */
#ifndef WR_LOG_H
#define WR_LOG_H

#include <stdbool.h>

#include <weir/status.h>

#include "base/compiler.h"

enum wr_log_level { WR_LOG_OFF, WR_LOG_ERROR, WR_LOG_WARN, WR_LOG_INFO, WR_LOG_DEBUG, WR_LOG_TRACE };

/* Components: X(NAME, text). */
#define WR_LOG_COMPONENTS(X)                                                                                 \
    X(CTX, "ctx")                                                                                            \
    X(CONFIG, "config")                                                                                      \
    X(TOPO, "topo")                                                                                          \
    X(BOOT, "boot")                                                                                          \
    X(TRANSPORT, "transport")                                                                                \
    X(MEM, "mem")                                                                                            \
    X(P2P, "p2p")                                                                                            \
    X(PLAN, "plan")                                                                                          \
    X(COLL, "coll")                                                                                          \
    X(OPTIM, "optim")

enum wr_log_component {
#define X(NAME, text) WR_LOG_##NAME,
    WR_LOG_COMPONENTS(X)
#undef X
        WR_LOG_NCOMPONENTS
};

struct wr_log {
    int fd;
    bool owns_fd;
    int rank; /* -1 until it is known */
    enum wr_log_level level[WR_LOG_NCOMPONENTS];
};

/* Starts a log with warnings to the standard error: what there is before the configuration is known. */
void wr_log_init(struct wr_log *log);

/* Sets levels from WEIR_LOG's syntax; WEIR_ERR_CONFIG names the word that was not understood. */
weir_status wr_log_set_levels(struct wr_log *log, const char *spec, weir_error *err);

/* Sends the log to a file, "%r" in the path being the rank; WEIR_ERR_IO when it cannot be opened. */
weir_status wr_log_open(struct wr_log *log, const char *path, weir_error *err);

void wr_log_close(struct wr_log *log);

/* Use the macros; `log` may be NULL (nothing is written). Thread safe. */
void wr_log_write(const struct wr_log *log, enum wr_log_component component, enum wr_log_level level, const char *fmt, ...)
    WR_PRINTF(4, 5);

static inline bool wr_log_on(const struct wr_log *log, enum wr_log_component component, enum wr_log_level level)
{
    return log && log->level[component] >= level;
}

#define wr_log_at(log, component, lvl, ...)                                                                  \
    do {                                                                                                     \
        if (WR_UNLIKELY(wr_log_on(log, WR_LOG_##component, lvl)))                                                   \
            wr_log_write(log, WR_LOG_##component, lvl, __VA_ARGS__);                                         \
    } while (0)

#define wr_error(log, component, ...) wr_log_at(log, component, WR_LOG_ERROR, __VA_ARGS__)
#define wr_warn(log, component, ...)  wr_log_at(log, component, WR_LOG_WARN, __VA_ARGS__)
#define wr_info(log, component, ...)  wr_log_at(log, component, WR_LOG_INFO, __VA_ARGS__)
#define wr_debug(log, component, ...) wr_log_at(log, component, WR_LOG_DEBUG, __VA_ARGS__)
#define wr_trace(log, component, ...) wr_log_at(log, component, WR_LOG_TRACE, __VA_ARGS__)

#endif
