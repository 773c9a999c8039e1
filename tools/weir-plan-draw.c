/* SPDX-License-Identifier: BSD-3-Clause */
/* Who sends what when: a picture as SVG, and a trace as browsers show it. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "tools/picture.h"
#include "tools/weir-plan.h"

enum { EVENTS_MAX = 400000, LEFT = 110, TOP = 64, WIDTH = 1400, LANE = 14, GAP = 4, BOTTOM = 50 };

struct drawing {
    const struct plan_report *report;
    const struct wr_algorithm *algorithm;
    struct wr_sim_event *event;
    size_t n, cap;
    bool failed, full;
    uint32_t lanes;  /* most of a rank */
    int *row;        /* by rank: node by node */
    double end, height, width;
};

static void collect(void *user, const struct wr_sim_event *event)
{
    struct drawing *d = user;
    if (d->n == d->cap) {
        size_t cap = d->cap ? 2 * d->cap : 1024;
        struct wr_sim_event *larger = d->failed || d->full ? NULL : realloc(d->event, cap * sizeof *larger);
        if (!larger) {
            d->failed = !d->full;
            return;
        }
        d->event = larger;
        d->cap = cap;
    }
    d->full = d->full || d->n >= EVENTS_MAX;
    if (d->full)
        return;
    d->lanes = WR_MAX(d->lanes, event->lane + 1);
    d->event[d->n++] = *event;
}

static double x_of(const struct drawing *d, double time)
{
    return LEFT + (d->end > 0 ? time / d->end * d->width : 0);
}

static double rank_height(const struct drawing *d)
{
    return (double)d->lanes * LANE + GAP;
}

static double y_of(const struct drawing *d, int rank, uint32_t lane)
{
    return TOP + d->row[rank] * rank_height(d) + lane * LANE;
}

/* ---- the picture ---- */

static void svg_bar(const struct drawing *d, const struct wr_sim_event *e, const char *class, const char *name, FILE *out)
{
    double x = x_of(d, e->begin), w = x_of(d, e->end) - x;
    fprintf(out, "<rect class=\"%s\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%d\"><title>rank %d, lane %u: %s", class, x,
            y_of(d, e->rank, e->lane) + 1, WR_MAX(w, 0.2), LANE - 2, e->rank, e->lane, name);
    if (e->peer >= 0)
        fprintf(out, " rank %d", e->peer);
    if (e->bytes)
        fprintf(out, " %llu bytes", (unsigned long long)e->bytes);
    fprintf(out, ", %.3f to %.3f us</title></rect>\n", e->begin / 1e3, e->end / 1e3);
}

static void svg_arrow(const struct drawing *d, const struct wr_sim_event *e, const char *class, const char *name, FILE *out)
{
    bool down = d->row[e->peer] > d->row[e->rank];
    double from = y_of(d, e->rank, e->lane) + (down ? LANE - 2 : 2), to = y_of(d, e->peer, 0) + (down ? 1 : (double)d->lanes * LANE - 1);
    fprintf(out, "<line class=\"%s\" x1=\"%.2f\" y1=\"%.1f\" x2=\"%.2f\" y2=\"%.1f\"><title>%s rank %d to rank %d", class,
            x_of(d, e->begin), from, x_of(d, e->end), to, name, e->rank, e->peer);
    if (e->bytes)
        fprintf(out, ", %llu bytes", (unsigned long long)e->bytes);
    fprintf(out, ", %.3f to %.3f us</title></line>\n", e->begin / 1e3, e->end / 1e3);
}

static void svg_frame(const struct drawing *d, FILE *out)
{
    const struct plan_report *r = d->report;
    const struct wr_plan_topo *topo = r->spec.topo;
    static const char *const legend[] = {"copy", "reduce", "wait", "drain", "put"};
    for (int n = 0; n < topo->nnodes; n++) {
        double y = y_of(d, topo->node_ranks[n][0], 0) - GAP / 2.0, h = topo->node_size[n] * rank_height(d);
        fprintf(out, "<rect class=\"node%d\" x=\"0\" y=\"%.1f\" width=\"%.0f\" height=\"%.1f\"/>\n<text x=\"6\" y=\"%.1f\">node %d</text>\n",
                n % 2, y, LEFT + d->width + 20, h, y + 12, n);
        for (int i = 0; i < topo->node_size[n]; i++)
            fprintf(out, "<text class=\"rank\" x=\"%d\" y=\"%.1f\">rank %d</text>\n", LEFT - 6,
                    y_of(d, topo->node_ranks[n][i], 0) + 11, topo->node_ranks[n][i]);
    }
    picture_axis(out, LEFT, d->width, TOP - GAP, d->height - BOTTOM, d->end, 1e3, " us");
    picture_legend(out, LEFT, legend, WR_ARRAY_SIZE(legend));
}

static void svg_write(const void *user, FILE *out)
{
    const struct drawing *d = user;
    const struct plan_report *r = d->report;
    static const char style[] =
        ".copy{fill:#6d9dc5}.reduce{fill:#e09f3e}.wait{fill:#dddddd}"
        ".drain{fill:#cdb4db}.put{fill:#b23a48}.node0{fill:#f7f7f7}.node1{fill:#ececec}.rank{text-anchor:end;fill:#555555}"
        ".time{text-anchor:middle;fill:#555555}.tick{stroke:#cccccc;stroke-width:0.5}"
        ".message{stroke:#b23a48;stroke-width:1;opacity:0.7;marker-end:url(#head)}"
        ".flag{stroke:#888888;stroke-width:0.5;stroke-dasharray:2 2;opacity:0.6}";
    picture_begin(out, LEFT + d->width + 20, d->height, style, LEFT, "%s:%s, %d ranks on %d nodes, %llu elements of %s%s: %.2f us",
                  wr_collective_name(r->spec.coll), d->algorithm->name, r->spec.topo->nranks, r->spec.topo->nnodes,
                  (unsigned long long)r->spec.count, weir_type_name(r->options->type),
                  r->spec.coll == WR_COLL_ALLREDUCE || r->spec.coll == WR_COLL_BCAST ? "" : " a rank", d->end / 1e3);
    fputs("<defs><marker id=\"head\" viewBox=\"0 0 6 6\" refX=\"6\" refY=\"3\" markerWidth=\"6\" markerHeight=\"6\" orient=\"auto\">"
          "<path d=\"M0,0 L6,3 L0,6 z\" fill=\"#b23a48\"/></marker></defs>\n", out);
    svg_frame(d, out);
    static const struct {
        const char *class, *name;
    } bars[] = {{"copy", "copy"}, {"reduce", "reduce"}, {"wait", "wait for"}, {"drain", "drain"}};
    bool flags = r->spec.topo->nranks <= 16;
    for (size_t i = 0; i < d->n; i++)
        if (d->event[i].kind <= WR_SIM_DRAIN)
            svg_bar(d, &d->event[i], bars[d->event[i].kind].class, bars[d->event[i].kind].name, out);
    for (size_t i = 0; i < d->n; i++)
        if (d->event[i].kind == WR_SIM_MESSAGE && d->event[i].bytes)
            svg_arrow(d, &d->event[i], "message", "put", out);
        else if (d->event[i].kind >= WR_SIM_MESSAGE && flags)
            svg_arrow(d, &d->event[i], "flag", "signal", out);
    fputs("</svg>\n", out);
}

/* ---- the trace ---- */

static void trace_names(const struct drawing *d, FILE *out)
{
    const struct wr_plan_topo *topo = d->report->spec.topo;
    for (int n = 0; n < topo->nnodes; n++)
        fprintf(out, "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"args\":{\"name\":\"node %d\"}},\n", n, n);
    for (int r = 0; r < topo->nranks; r++)
        for (uint32_t l = 0; l < d->lanes; l++)
            fprintf(out, "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":%llu,\"args\":{\"name\":\"rank %d lane %u\"}},\n",
                    topo->node_of[r], (unsigned long long)r * d->lanes + l, r, l);
}

static void trace_write(const void *user, FILE *out)
{
    const struct drawing *d = user;
    static const char *const names[] = {"copy", "reduce", "wait", "drain", "put", "signal"};
    const int *node_of = d->report->spec.topo->node_of;
    fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n", out);
    trace_names(d, out);
    for (size_t i = 0; i < d->n; i++) {
        const struct wr_sim_event *e = &d->event[i];
        unsigned long long tid = (unsigned long long)e->rank * d->lanes + e->lane, bytes = e->bytes;
        const char *name = e->kind == WR_SIM_MESSAGE && !e->bytes ? "signal" : names[e->kind];
        if (e->kind <= WR_SIM_DRAIN)
            fprintf(out, "{\"ph\":\"X\",\"name\":\"%s\",\"cat\":\"step\",\"pid\":%d,\"tid\":%llu,\"ts\":%.4f,\"dur\":%.4f,\"args\":{\"bytes\":%llu,\"peer\":%d}},\n",
                    name, node_of[e->rank], tid, e->begin / 1e3, (e->end - e->begin) / 1e3, bytes, e->peer);
        else /* these overlap */
            fprintf(out,
                    "{\"ph\":\"b\",\"name\":\"%s %d to %d\",\"cat\":\"%s\",\"id\":%zu,\"pid\":%d,\"tid\":%llu,\"ts\":%.4f,\"args\":{\"bytes\":%llu,\"left_us\":%.4f}},\n"
                    "{\"ph\":\"e\",\"name\":\"%s %d to %d\",\"cat\":\"%s\",\"id\":%zu,\"pid\":%d,\"tid\":%llu,\"ts\":%.4f},\n",
                    name, e->rank, e->peer, name, i, node_of[e->rank], tid, e->begin / 1e3, bytes, e->left / 1e3, name, e->rank,
                    e->peer, name, i, node_of[e->rank], tid, e->end / 1e3);
    }
    fprintf(out, "{\"ph\":\"i\",\"name\":\"done\",\"s\":\"g\",\"pid\":0,\"tid\":0,\"ts\":%.4f}\n]}\n", d->end / 1e3);
}

weir_status plan_draw(const struct plan_report *r, const struct wr_algorithm *algorithm, const char *svg, const char *trace,
                      weir_error *err)
{
    struct drawing d = {.report = r, .algorithm = algorithm, .lanes = 1, .width = WIDTH};
    struct wr_sim_options options = {.event = collect, .user = &d, .classes = -1};
    const struct wr_plan_topo *topo = r->spec.topo;
    struct wr_sim_result result = {0};
    int at = 0;
    if (svg && topo->nranks > PLAN_DRAW_RANKS)
        return wr_error_set(err, WEIR_ERR_UNSUPPORTED, "draw a smaller machine, or write a trace", "a picture of %d ranks would show nothing",
                            topo->nranks);
    d.row = calloc((size_t)topo->nranks, sizeof *d.row);
    if (!d.row)
        return wr_error_memory(err, (size_t)topo->nranks * sizeof *d.row, "a picture");
    for (int n = 0; n < topo->nnodes; n++)
        for (int i = 0; i < topo->node_size[n]; i++)
            d.row[topo->node_ranks[n][i]] = at++;
    weir_status status = wr_simulate(&r->spec, algorithm, &r->cost, &options, &result, err);
    if (status == WEIR_OK && d.failed)
        status = wr_error_memory(err, d.cap * sizeof *d.event, "a picture");
    if (status == WEIR_OK && d.full)
        status = wr_error_set(err, WEIR_ERR_UNSUPPORTED, "ask for fewer bytes, longer chunks or fewer ranks",
                              "more than %d events are too many for a picture", EVENTS_MAX);
    d.end = result.time;
    d.height = TOP + topo->nranks * rank_height(&d) + BOTTOM;
    if (status == WEIR_OK && svg)
        status = picture_file(svg, svg_write, &d, err);
    if (status == WEIR_OK && trace)
        status = picture_file(trace, trace_write, &d, err);
    free(d.event);
    free(d.row);
    return status;
}
