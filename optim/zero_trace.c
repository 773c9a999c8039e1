/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an engine did, as a trace for people: events in a ring, written by rank 0, to which each rank sends its own in turn. A few
 * barriers, which end everywhere at about the same moment, tell how the clocks of nodes differ.
 */
#include <weir/zero_trace.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/error.h"
#include "base/str.h"
#include "optim/zero.h"

enum { CHUNK = 256, MOMENTS = 5, SHORT_NS = 1000 };

/* What a rank sends before its events. */
struct sender {
    uint64_t n;
    int64_t moments[MOMENTS]; /* of the ends of barriers */
    int64_t node;
};

/* ---- remembering ---- */

weir_status weir_zero_trace(weir_zero *zero, uint64_t room)
{
    struct wr_zero_trace *t = &zero->trace;
    struct wr_zero_event *events = NULL;
    int64_t *opened = NULL;
    if (room > UINT64_MAX / sizeof *events)
        return wr_zero_fail(zero, WEIR_ERR_NO_MEMORY, "remember less", "ZeRO engine: no memory for so many events");
    if (room) {
        events = calloc(room, sizeof *events);
        opened = calloc(zero->l.nunits, sizeof *opened);
    }
    if (room && (!events || !opened)) {
        free(events);
        free(opened);
        return wr_error_memory(&zero->error, room * sizeof *events, "a trace");
    }
    wr_zero_trace_free(zero);
    *t = (struct wr_zero_trace){events, room, 0, opened, wr_clock_ns()};
    return WEIR_OK;
}

void wr_zero_trace_free(weir_zero *zero)
{
    free(zero->trace.events);
    free(zero->trace.opened);
    zero->trace = (struct wr_zero_trace){0};
}

void wr_zero_trace_add(weir_zero *zero, enum wr_zero_what what, uint64_t index, int64_t begin, uint64_t bytes)
{
    struct wr_zero_trace *t = &zero->trace;
    int64_t now = t->room ? wr_clock_ns() : 0;
    if (!t->room || (what == WR_ZERO_DID_WAIT && now - begin < SHORT_NS))
        return;
    t->events[t->n++ % t->room] = (struct wr_zero_event){begin, now, bytes, (uint32_t)index, (uint32_t)what};
}

void wr_zero_trace_open(weir_zero *zero, uint64_t unit)
{
    if (zero->trace.room)
        zero->trace.opened[unit] = wr_clock_ns();
}

void wr_zero_trace_close(weir_zero *zero, uint64_t unit, bool backward)
{
    if (zero->trace.room && zero->trace.opened[unit])
        wr_zero_trace_add(zero, backward ? WR_ZERO_DID_BACKWARD : WR_ZERO_DID_FORWARD, unit, zero->trace.opened[unit], 0);
}

/* ---- writing ---- */

static const char *const names[] = {"forward", "backward", "reduce", "gather", "parameters", "wait", "update", "step"};

/* Whether an event may overlap with others. */
static bool in_flight(const struct wr_zero_event *e)
{
    return e->what >= WR_ZERO_DID_REDUCE && e->what <= WR_ZERO_DID_PARAMS;
}

/* What an event is about: a unit, or the first one of a block. */
static const char *unit_name(const weir_zero *zero, const struct wr_zero_event *e)
{
    uint64_t unit = e->what <= WR_ZERO_DID_BACKWARD ? e->index : zero->l.blocks[e->index].unit;
    return unit < zero->l.nunits ? zero->l.units[unit].name : "";
}

weir_status weir_zero_trace_event(const weir_zero *zero, uint64_t index, weir_zero_event *event)
{
    const struct wr_zero_trace *t = &zero->trace;
    uint64_t forgotten = t->n > t->room ? t->n - t->room : 0;
    if (!event || event->size < sizeof event->size)
        return WEIR_ERR_INVALID;
    if (index >= t->n - forgotten)
        return WEIR_ERR_NOT_FOUND;
    const struct wr_zero_event *e = &t->events[(forgotten + index) % t->room];
    weir_zero_event made = {WR_MIN(event->size, sizeof made), names[e->what], e->what <= WR_ZERO_DID_PARAMS ? unit_name(zero, e) : "",
                            e->begin, e->end, in_flight(e), e->bytes};
    memcpy(event, &made, made.size);
    return WEIR_OK;
}

static void put_event(const weir_zero *zero, FILE *out, int r, uint64_t id, int64_t offset, const struct wr_zero_event *e)
{
    const char *of = e->what <= WR_ZERO_DID_PARAMS ? unit_name(zero, e) : "";
    char name[16];
    snprintf(name, sizeof name, "%s%s", names[e->what], *of ? " " : "");
    double at = (double)(e->begin - offset) * 1e-3, to = (double)(e->end - offset) * 1e-3;
    bool flight = in_flight(e);
    fprintf(out, ",\n{\"ph\":\"%s\",\"name\":\"%s", flight ? "b" : "X", name);
    wr_json_text(out, of);
    fprintf(out, "\",\"cat\":\"%s\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f", flight ? "communication" : "program", r, e->what == WR_ZERO_DID_STEP, at);
    if (!flight) {
        fprintf(out, ",\"dur\":%.3f}", to - at);
        return;
    }
    fprintf(out, ",\"id\":\"%d.%llu\",\"args\":{\"bytes\":%llu}},\n{\"ph\":\"e\",\"name\":\"%s", r, (unsigned long long)id,
            (unsigned long long)e->bytes, name);
    wr_json_text(out, of);
    fprintf(out, "\",\"cat\":\"communication\",\"pid\":%d,\"tid\":0,\"ts\":%.3f,\"id\":\"%d.%llu\"}", r, to, r, (unsigned long long)id);
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* How far the clock of a rank is ahead of rank 0's. */
static int64_t ahead(const struct sender *first, const struct sender *s)
{
    int64_t differences[MOMENTS];
    if (s->node == first->node)
        return 0;
    for (int i = 0; i < MOMENTS; i++)
        differences[i] = s->moments[i] - first->moments[i];
    qsort(differences, MOMENTS, sizeof *differences, by_value);
    return differences[MOMENTS / 2];
}

static weir_status bcast(weir_zero *zero, void *data, uint64_t bytes, int root)
{
    weir_status status = weir_bcast(zero->all, data, bytes, WEIR_UINT8, root);
    return status == WEIR_OK ? WEIR_OK : wr_zero_comm_failed(zero, status);
}

/* The events of rank r go to rank 0, which has the file. */
static weir_status pass_on(weir_zero *zero, FILE *out, int r, const struct sender *first, struct sender *s)
{
    struct wr_zero_event chunk[CHUNK];
    weir_status status = bcast(zero, s, sizeof *s, r);
    int64_t offset = status == WEIR_OK ? zero->trace.since + ahead(first, s) : 0;
    if (out && status == WEIR_OK)
        fprintf(out, "%s\n{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"args\":{\"name\":\"rank %d, node %lld\"}}", r ? "," : "", r, r, (long long)s->node);
    for (uint64_t at = 0; status == WEIR_OK && at < s->n; at += CHUNK) {
        uint64_t n = WR_MIN(s->n - at, (uint64_t)CHUNK);
        if (zero->me == r)
            memcpy(chunk, zero->trace.events + at, n * sizeof *chunk);
        status = bcast(zero, chunk, n * sizeof *chunk, r);
        for (uint64_t i = 0; out && status == WEIR_OK && i < n; i++)
            put_event(zero, out, r, at + i, offset, &chunk[i]);
    }
    return status;
}

static weir_status describe_self(weir_zero *zero, struct sender *s)
{
    const weir_topo *topo;
    weir_status status = weir_comm_topo(zero->all, &topo);
    *s = (struct sender){.n = WR_MIN(zero->trace.n, zero->trace.room)};
    s->node = status == WEIR_OK ? weir_topo_node(topo, zero->me) : -1;
    for (int i = 0; i < MOMENTS && status == WEIR_OK; i++) {
        status = weir_barrier(zero->all);
        s->moments[i] = wr_clock_ns();
    }
    return status == WEIR_OK ? WEIR_OK : wr_zero_comm_failed(zero, status);
}

static weir_status pass_all(weir_zero *zero, FILE *out)
{
    struct sender own, first, s;
    weir_status status = describe_self(zero, &own);
    first = own;
    if (out)
        fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", out);
    for (int r = 0; status == WEIR_OK && r < zero->nranks; r++) {
        s = own;
        status = pass_on(zero, out, r, &first, &s);
        if (r == 0)
            first = s;
    }
    if (out)
        fputs("\n]}\n", out);
    return status;
}

weir_status weir_zero_trace_write(weir_zero *zero, const char *path)
{
    FILE *out = NULL;
    int32_t failed = 0;
    if (zero->broken)
        return zero->error.status;
    if (zero->in_pass)
        return wr_zero_fail(zero, WEIR_ERR_INVALID, "call weir_zero_end() first", "ZeRO engine: a trace is written inside a pass");
    if (zero->me == 0 && !(out = path ? fopen(path, "w") : NULL))
        failed = path ? errno : EINVAL;
    weir_status status = pass_all(zero, out);
    if (out && ferror(out))
        failed = EIO;
    if (out && fclose(out) && !failed)
        failed = errno;
    if (status == WEIR_OK)
        status = bcast(zero, &failed, sizeof failed, 0);
    if (status == WEIR_OK && failed)
        return wr_zero_fail(zero, WEIR_ERR_IO, "see whether rank 0 can write there", "ZeRO engine: the trace %s cannot be written: %s",
                            zero->me == 0 && path ? path : "of rank 0", strerror(failed));
    return status;
}
