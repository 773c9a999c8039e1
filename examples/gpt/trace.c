/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file is in the trace-event format: an array of objects, of which those with "ph": "X" are events with a beginning and a length in
 * microseconds. Each rank's clock begins at a barrier, so clocks of different nodes agree as well as that is fast.
 */
#include "examples/gpt/trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int64_t gpt_trace_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

weir_status gpt_trace_begin(struct gpt_trace *trace, const struct gpt_job *job)
{
    *trace = (struct gpt_trace){.on = true};
    weir_status status = weir_barrier(job->all); /* the second one finds all ranks awake */
    if (status == WEIR_OK)
        status = weir_barrier(job->all);
    trace->origin = trace->last = gpt_trace_now();
    return status;
}

static void add(struct gpt_trace *t, struct gpt_event event)
{
    if (!t->on)
        return;
    if (t->n == t->room) {
        size_t room = t->room ? 2 * t->room : 4096;
        struct gpt_event *grown = realloc(t->events, room * sizeof *grown);
        t->cut |= !grown;
        if (!grown)
            return;
        t->events = grown;
        t->room = room;
    }
    t->events[t->n++] = event;
}

void gpt_trace_instruction(struct gpt_trace *t, const weir_pipe_instr *i)
{
    if (!t->on)
        return;
    int64_t end = gpt_trace_now();
    add(t, (struct gpt_event){t->last, end, GPT_TRACE_PIPE, i->op, i->micro, i->chunk, NULL, NULL, -1});
    t->last = end;
}

void gpt_trace_add(struct gpt_trace *t, enum gpt_trace_row row, const char *name, int64_t number, int64_t begin)
{
    add(t, (struct gpt_event){begin, gpt_trace_now(), (int32_t)row, 0, (int32_t)number, -1, name, NULL, -1});
}

void gpt_trace_take(struct gpt_trace *t, const weir_zero *zero)
{
    weir_zero_event e = {.size = sizeof e};
    for (uint64_t i = 0; weir_zero_trace_event(zero, i, &e) == WEIR_OK; i++)
        if (e.in_flight || !strcmp(e.what, "wait") || !strcmp(e.what, "update"))
            add(t, (struct gpt_event){e.begin_ns, e.end_ns, GPT_TRACE_ZERO, 0, -1, -1, e.what, e.unit, e.in_flight ? (int64_t)e.bytes : -1});
}

/* ---- writing ---- */

static void write_rank(const struct gpt_job *job, FILE *out)
{
    static const char *const rows[] = {[GPT_TRACE_STEP] = "steps", [GPT_TRACE_PIPE] = "computation and messages", [GPT_TRACE_ZERO] = "ZeRO"};
    int rank = weir_comm_rank(job->all);
    fprintf(out, "{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": %d, \"args\": {\"name\": \"rank %d: pp %d dp %d sp %d tp %d\"}}", rank, rank,
            job->stage, job->replica, job->slice, job->way);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        fprintf(out, ",\n{\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": %d, \"tid\": %d, \"args\": {\"name\": \"%s\"}}", rank, (int)i, rows[i]);
}

static void write_event(const struct gpt_trace *t, const struct gpt_event *e, int rank, FILE *out)
{
    char name[96], where[64];
    const char *op = e->name ? e->name : weir_pipe_op_name(e->what);
    double begin = (double)(e->begin - t->origin) * 1e-3, end = (double)(e->end - t->origin) * 1e-3;
    if (e->micro >= 0)
        snprintf(name, sizeof name, "%s %d", op, e->micro);
    else
        snprintf(name, sizeof name, "%s %s", op, e->of ? e->of : "");
    snprintf(where, sizeof where, "\"pid\": %d, \"tid\": %d", rank, e->row);
    if (e->bytes >= 0) { /* others may be under way at the same time */
        long long id = (long long)(e - t->events);
        fprintf(out, ",\n{\"ph\": \"b\", \"name\": \"%s\", \"cat\": \"%s\", %s, \"id\": \"%d.%lld\", \"ts\": %.3f, \"args\": {\"bytes\": %lld}}", name, op,
                where, rank, id, begin, (long long)e->bytes);
        fprintf(out, ",\n{\"ph\": \"e\", \"name\": \"%s\", \"cat\": \"%s\", %s, \"id\": \"%d.%lld\", \"ts\": %.3f}", name, op, where, rank, id, end);
        return;
    }
    fprintf(out, ",\n{\"ph\": \"X\", \"name\": \"%s\", \"cat\": \"%s\", %s, \"ts\": %.3f, \"dur\": %.3f", name, op, where, begin, end - begin);
    if (!e->name)
        fprintf(out, ", \"args\": {\"micro\": %d, \"chunk\": %d}", e->micro, e->chunk);
    fputc('}', out);
}

/* This rank's events as text, for which the caller is to call free(); NULL without memory. */
static char *text_of(const struct gpt_trace *t, const struct gpt_job *job, size_t *size)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, size);
    if (!out)
        return NULL;
    write_rank(job, out);
    for (size_t i = 0; i < t->n; i++)
        write_event(t, &t->events[i], weir_comm_rank(job->all), out);
    bool good = !ferror(out);
    if (fclose(out) == 0 && good)
        return text;
    free(text);
    return NULL;
}

/* The first rank writes the texts of all, one after the other. */
static weir_status collect(const struct gpt_job *job, FILE *out, const char *mine, uint64_t size)
{
    enum { SIZE, TEXT };
    weir_status status = WEIR_OK;
    if (weir_comm_rank(job->all) > 0) {
        status = weir_send(job->all, &size, sizeof size, 0, SIZE);
        return status == WEIR_OK ? weir_send(job->all, mine, size, 0, TEXT) : status;
    }
    fprintf(out, "[\n%s", mine);
    for (int r = 1; r < weir_comm_size(job->all) && status == WEIR_OK; r++) {
        status = weir_recv(job->all, &size, sizeof size, r, SIZE, NULL);
        char *text = status == WEIR_OK ? malloc(size + 1) : NULL;
        if (status == WEIR_OK && !text)
            return WEIR_ERR_NO_MEMORY;
        if (status == WEIR_OK)
            status = weir_recv(job->all, text, size, r, TEXT, NULL);
        if (status == WEIR_OK)
            fprintf(out, ",\n%.*s", (int)size, text);
        free(text);
    }
    fputs("\n]\n", out);
    return status;
}

bool gpt_trace_write(const struct gpt_trace *t, struct gpt_job *job, const char *path)
{
    char why[512] = "";
    size_t size = 0;
    bool first = weir_comm_rank(job->all) == 0;
    char *text = text_of(t, job, &size);
    FILE *out = first ? fopen(path, "w") : NULL;
    if (!text)
        snprintf(why, sizeof why, "there is no memory for the text of the trace");
    else if (first && !out)
        snprintf(why, sizeof why, "the trace %s cannot be written: %s", path, strerror(errno));
    if (!gpt_job_agree(job, text && (out || !first), why)) {
        if (out)
            fclose(out);
        free(text);
        return false;
    }
    weir_status status = collect(job, out, text, size);
    if (status != WEIR_OK)
        gpt_job_die(job, status, weir_last_error(job->ctx));
    bool written = !out || !ferror(out);
    if (out && fclose(out) != 0)
        written = false;
    if (!written)
        snprintf(why, sizeof why, "the trace %s cannot be written: %s", path, strerror(errno));
    free(text);
    return gpt_job_agree(job, written, why);
}

void gpt_trace_free(struct gpt_trace *t)
{
    free(t->events);
    *t = (struct gpt_trace){.on = false};
}
