/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The trace layer: one line an operation, written when the operation is complete,
 *     <start in us> <rank> <operation> <peer> <bytes> <status> <duration in us>
 * or, when the path ends in ".json", one complete event ("ph":"X") of the trace-event format that Chrome and Perfetto
 * read: pid is the rank, tid the peer. In the path, %r is the rank and %t the transport; what is not named there is put
 * before the extension, so that every rank and transport has a file of its own.
 * Tries that found the transport busy are counted in the line of the try that was accepted.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/pool.h"
#include "base/str.h"
#include "comm/transport/layer.h"

enum { TRACE_OPS = 4096 };

struct trace {
    struct wr_transport base;
    FILE *file;
    bool json, first;
    uint64_t busy; /* tries that were refused since the last accepted operation */
    struct wr_pool ops;
};

struct trace_op {
    struct wr_op op;
    struct wr_op *user;
    struct trace *trace;
    const char *name;
    int peer;
    uint64_t bytes, busy;
    int64_t start;
};

static struct trace *trace_of(struct wr_transport *t)
{
    return (struct trace *)t;
}

static void write_event(struct trace *t, const char *name, int peer, uint64_t bytes, uint64_t busy, int64_t start,
                        weir_status status)
{
    double us = (double)start / 1e3, duration = (double)(wr_clock_ns() - start) / 1e3;
    if (!t->json) {
        fprintf(t->file, "%.3f %d %s %d %llu %s %.3f", us, t->base.params.rank, name, peer, (unsigned long long)bytes,
                weir_status_name(status), duration);
        if (busy)
            fprintf(t->file, " busy %llu", (unsigned long long)busy);
        fputc('\n', t->file);
        return;
    }
    fprintf(t->file,
            "%s{\"name\":\"%s\",\"cat\":\"transport\",\"ph\":\"X\",\"ts\":%.3f,\"dur\":%.3f,\"pid\":%d,\"tid\":%d,"
            "\"args\":{\"bytes\":%llu,\"status\":\"%s\",\"busy\":%llu}}",
            t->first ? "" : ",\n", name, us, duration, t->base.params.rank, peer, (unsigned long long)bytes,
            weir_status_name(status), (unsigned long long)busy);
    t->first = false;
}

static void op_done(struct wr_op *op, weir_status status)
{
    struct trace_op *o = WR_CONTAINER_OF(op, struct trace_op, op);
    struct wr_op *user = o->user;
    struct trace *t = o->trace;
    write_event(t, o->name, o->peer, o->bytes, o->busy, o->start, status);
    wr_pool_put(&t->ops, o);
    if (user)
        user->done(user, status);
}

/* Starts the record of an operation; NULL when too many are in flight. */
static struct trace_op *begin(struct trace *t, const char *name, int peer, uint64_t bytes, struct wr_op *user)
{
    struct trace_op *o = wr_pool_get(&t->ops);
    if (o)
        *o = (struct trace_op){{op_done}, user, t, name, peer, bytes, t->busy, wr_clock_ns()};
    return o;
}

/* Ends the start of an operation: what is in progress is written by op_done(). */
static weir_status end(struct trace_op *o, weir_status status)
{
    struct trace *t = o->trace;
    if (status == WEIR_IN_PROGRESS) {
        t->busy = 0;
        return status;
    }
    if (status == WEIR_ERR_BUSY) {
        t->busy++;
    } else {
        t->busy = 0;
        write_event(t, o->name, o->peer, o->bytes, o->busy, o->start, status);
    }
    wr_pool_put(&t->ops, o);
    return status;
}

static weir_status trace_put(struct wr_transport *t, int peer, const void *src, struct wr_region *region, uint64_t len,
                             struct wr_rkey *rkey, uint64_t offset, unsigned flags, struct wr_op *op, weir_error *err)
{
    struct trace_op *o = begin(trace_of(t), flags & WR_OP_FENCE ? "put+fence" : "put", peer, len, op);
    if (!o)
        return WEIR_ERR_BUSY;
    return end(o, t->lower->ops->put(t->lower, peer, src, region, len, rkey, offset, flags, &o->op, err));
}

static weir_status trace_put_signal(struct wr_transport *t, int peer, const void *src, struct wr_region *region,
                                    uint64_t len, struct wr_rkey *rkey, uint64_t offset, uint32_t slot, unsigned flags,
                                    struct wr_op *op, weir_error *err)
{
    struct trace_op *o = begin(trace_of(t), flags & WR_OP_FENCE ? "put_signal+fence" : "put_signal", peer, len, op);
    if (!o)
        return WEIR_ERR_BUSY;
    return end(o, t->lower->ops->put_signal(t->lower, peer, src, region, len, rkey, offset, slot, flags, &o->op, err));
}

static weir_status trace_get(struct wr_transport *t, int peer, void *dst, struct wr_region *region, uint64_t len,
                             struct wr_rkey *rkey, uint64_t offset, struct wr_op *op, weir_error *err)
{
    struct trace_op *o = begin(trace_of(t), "get", peer, len, op);
    if (!o)
        return WEIR_ERR_BUSY;
    return end(o, t->lower->ops->get(t->lower, peer, dst, region, len, rkey, offset, &o->op, err));
}

static weir_status trace_am(struct wr_transport *t, int peer, unsigned id, const void *header, size_t header_len,
                            const void *payload, size_t len, unsigned flags, weir_error *err)
{
    struct trace_op *o = begin(trace_of(t), flags & WR_OP_FENCE ? "am+fence" : "am", peer, header_len + len, NULL);
    if (!o)
        return WEIR_ERR_BUSY;
    return end(o, t->lower->ops->am(t->lower, peer, id, header, header_len, payload, len, flags, err));
}

static weir_status trace_am_long(struct wr_transport *t, int peer, unsigned id, const void *header, size_t header_len,
                                 const void *src, struct wr_region *region, size_t len, struct wr_op *op, weir_error *err)
{
    struct trace_op *o = begin(trace_of(t), "am_long", peer, header_len + len, op);
    if (!o)
        return WEIR_ERR_BUSY;
    return end(o, t->lower->ops->am_long(t->lower, peer, id, header, header_len, src, region, len, &o->op, err));
}

static weir_status trace_flush(struct wr_transport *t, int peer, struct wr_op *op, weir_error *err)
{
    struct trace_op *o = begin(trace_of(t), "flush", peer, 0, op);
    if (!o)
        return WEIR_ERR_BUSY;
    return end(o, t->lower->ops->flush(t->lower, peer, &o->op, err));
}

static weir_status trace_connect(struct wr_transport *t, int peer, weir_error *err)
{
    int64_t start = wr_clock_ns();
    weir_status status = wr_layer_connect(t, peer, err);
    write_event(trace_of(t), "connect", peer, 0, 0, start, status);
    return status;
}

static weir_status trace_reg(struct wr_transport *t, void *addr, uint64_t len, unsigned flags,
                             struct wr_region **region, weir_error *err)
{
    int64_t start = wr_clock_ns();
    weir_status status = wr_layer_reg(t, addr, len, flags, region, err);
    write_event(trace_of(t), "reg", t->params.rank, len, 0, start, status);
    return status;
}

static void trace_close(struct wr_transport *t)
{
    struct trace *x = trace_of(t);
    t->lower->ops->close(t->lower);
    if (x->json)
        fputs("\n]\n", x->file);
    fclose(x->file);
    wr_pool_destroy(&x->ops);
    free(x);
}

static const struct wr_transport_ops trace_ops = {
    .name = "trace",
    .address = wr_layer_address,
    .start = wr_layer_start,
    .close = trace_close,
    .reaches = wr_layer_reaches,
    .connect = trace_connect,
    .reg = trace_reg,
    .dereg = wr_layer_dereg,
    .key_export = wr_layer_key_export,
    .key_import = wr_layer_key_import,
    .key_close = wr_layer_key_close,
    .put = trace_put,
    .put_signal = trace_put_signal,
    .get = trace_get,
    .am = trace_am,
    .am_long = trace_am_long,
    .am_long_max = wr_layer_am_long_max,
    .flush = trace_flush,
    .progress = wr_layer_progress,
    .wait_fd = wr_layer_wait_fd,
    .arm = wr_layer_arm,
    .disarm = wr_layer_disarm,
};

/* The file of one rank's transport: %r and %t replaced, or put before the extension of the last part. */
static void file_name(const char *path, int rank, const char *transport, struct wr_buf *out)
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
    bool has_rank = strstr(path, "%r"), has_name = strstr(path, "%t");
    if (!dot || (slash && dot < slash))
        dot = path + strlen(path);
    for (const char *p = path;; p++) {
        if (p == dot && !has_rank)
            wr_buf_printf(out, ".%d", rank);
        if (p == dot && !has_name)
            wr_buf_printf(out, ".%s", transport);
        if (!*p)
            return;
        if (p[0] == '%' && p[1] == 'r')
            wr_buf_printf(out, "%d", rank), p++;
        else if (p[0] == '%' && p[1] == 't')
            wr_buf_str(out, transport), p++;
        else
            wr_buf_add(out, p, 1);
    }
}

weir_status wr_trace_wrap(struct wr_transport *lower, const char *path, struct wr_transport **t, weir_error *err)
{
    if (!*path)
        return wr_error_set(err, WEIR_ERR_CONFIG, "set WEIR_TRACE to a path", "the trace has no file to go to");
    struct trace *x = calloc(1, sizeof *x);
    if (!x)
        return wr_error_memory(err, sizeof *x, "the trace layer");
    struct wr_buf name = {0};
    size_t len = strlen(path);
    weir_status status;
    wr_layer_init(&x->base, &trace_ops, lower);
    wr_pool_init(&x->ops, sizeof(struct trace_op), 0, 256, TRACE_OPS);
    x->json = len > 5 && !strcmp(path + len - 5, ".json");
    x->first = true;
    file_name(path, lower->params.rank, wr_layer_bottom(lower)->ops->name, &name);
    status = name.failed ? wr_error_memory(err, len, "a file name") : wr_pool_reserve(&x->ops, 256, err);
    if (status != WEIR_OK)
        goto free_layer;
    x->file = fopen(name.data, "we");
    if (!x->file) {
        status = wr_error_errno(err, WEIR_ERR_IO, errno, "set WEIR_TRACE to a path that can be written",
                                "cannot write the trace %s", name.data);
        goto free_layer;
    }
    wr_buf_free(&name);
    if (x->json)
        fputs("[\n", x->file);
    *t = &x->base;
    return WEIR_OK;
free_layer:
    wr_pool_destroy(&x->ops);
    wr_buf_free(&name);
    free(x);
    return status;
}
