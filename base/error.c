/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

const char *wr_strerror(int errnum, char *buf, size_t size)
{
    char *text = strerror_r(errnum, buf, size); /* GNU form: may return a constant instead of filling buf */
    if (text != buf)
        wr_str_copy(buf, size, text);
    return buf;
}

void wr_error_clear(weir_error *err)
{
    if (!err)
        return;
    memset(err, 0, sizeof *err);
    err->rank = -1;
}

static void error_fill(weir_error *err, weir_status status, const char *advice, const char *fmt, va_list ap)
{
    wr_error_clear(err);
    err->status = status;
    vsnprintf(err->message, sizeof err->message, fmt, ap);
    if (advice)
        wr_str_copy(err->advice, sizeof err->advice, advice);
}

weir_status wr_error_set(weir_error *err, weir_status status, const char *advice, const char *fmt, ...)
{
    if (err) {
        va_list ap;
        va_start(ap, fmt);
        error_fill(err, status, advice, fmt, ap);
        va_end(ap);
    }
    return status;
}

weir_status wr_error_errno(weir_error *err, weir_status status, int errnum, const char *advice, const char *fmt, ...)
{
    if (err) {
        char text[128];
        va_list ap;
        va_start(ap, fmt);
        error_fill(err, status, advice, fmt, ap);
        va_end(ap);
        wr_str_append(err->message, sizeof err->message, ": ");
        wr_str_append(err->message, sizeof err->message, wr_strerror(errnum, text, sizeof text));
    }
    return status;
}

weir_status wr_error_memory(weir_error *err, size_t bytes, const char *what)
{
    return wr_error_set(err, WEIR_ERR_NO_MEMORY, "use less memory, or raise the job's memory limit",
                        "out of memory: %zu bytes for %s", bytes, what);
}

void wr_error_at(weir_error *err, int rank, const char *host)
{
    if (!err)
        return;
    if (rank >= 0)
        err->rank = rank;
    if (host)
        wr_str_copy(err->host, sizeof err->host, host);
}

void wr_error_operation(weir_error *err, const char *operation)
{
    if (err && !err->operation[0])
        wr_str_copy(err->operation, sizeof err->operation, operation);
}

const char *wr_error_line(const weir_error *err, char *buf, size_t size)
{
    wr_str_copy(buf, size, "");
    if (err->operation[0]) {
        wr_str_append(buf, size, err->operation);
        wr_str_append(buf, size, ": ");
    }
    wr_str_append(buf, size, err->message[0] ? err->message : weir_status_message(err->status));
    if (err->rank >= 0) {
        char where[128];
        snprintf(where, sizeof where, err->host[0] ? " (rank %d on host %s)" : " (rank %d)", err->rank, err->host);
        wr_str_append(buf, size, where);
    }
    if (err->advice[0]) {
        wr_str_append(buf, size, "; ");
        wr_str_append(buf, size, err->advice);
    }
    return buf;
}
