/* SPDX-License-Identifier: BSD-3-Clause */
/* The Gantt chart of a pipeline schedule. */
#include <stdlib.h>

#include "base/error.h"
#include "tools/picture.h"
#include "tools/weir-pipe.h"

enum { INSTRS_MAX = 100000, LEFT = 70, TOP = 64, LANE = 22, GAP = 6, BOTTOM = 40, TEXT_WIDTH = 14 };

struct chart {
    const struct pipe_options *options;
    const struct pipe_outcome *outcome;
    weir_pipe_event *event;
    size_t n;
    bool splits;      /* I and W take the place of B */
    bool collectives; /* gathers and reductions take time: a second lane */
    double end, width, height;
};

static void collect(void *user, const weir_pipe_event *event)
{
    struct chart *c = user;
    c->event[c->n++] = *event;
    c->splits = c->splits || event->instr.op == WEIR_PIPE_OP_I;
    c->end = event->end > c->end ? event->end : c->end;
}

static double x_of(const struct chart *c, double time)
{
    return LEFT + (c->end > 0 ? time / c->end * c->width : 0);
}

static double stage_height(const struct chart *c)
{
    return (c->collectives ? 1.5 * LANE : LANE) + GAP;
}

static double y_of(const struct chart *c, int64_t stage)
{
    return TOP + (double)stage * stage_height(c);
}

static void draw_bar(const struct chart *c, const weir_pipe_event *e, FILE *out)
{
    bool compute = e->instr.op <= WEIR_PIPE_OP_B;
    double x = x_of(c, e->begin), w = x_of(c, e->end) - x, y = y_of(c, e->stage) + (compute ? 0 : LANE), h = compute ? LANE - 2 : LANE / 2 - 2;
    char text[96];
    fprintf(out, "<rect class=\"%s c%d\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\"><title>stage %lld, %s: %g to %g</title></rect>\n",
            weir_pipe_op_name(e->instr.op), e->instr.chunk % 4, x, y, w > 0.3 ? w : 0.3, h, (long long)e->stage,
            weir_pipe_instr_text(&e->instr, text, sizeof text), e->begin, e->end);
    if (compute && w >= TEXT_WIDTH)
        fprintf(out, "<text class=\"micro\" x=\"%.2f\" y=\"%.1f\">%d</text>\n", x + w / 2, y + 14, e->instr.micro);
}

static void draw_message(const struct chart *c, const weir_pipe_event *e, FILE *out)
{
    bool down = e->instr.peer > e->stage;
    fprintf(out, "<line class=\"%s\" x1=\"%.2f\" y1=\"%.1f\" x2=\"%.2f\" y2=\"%.1f\"/>\n",
            e->instr.op == WEIR_PIPE_OP_SEND_ACT ? "act" : "grad", x_of(c, e->end), y_of(c, e->stage) + (down ? LANE - 2 : 0),
            x_of(c, e->end + c->options->costs.comm), y_of(c, e->instr.peer) + (down ? 0 : LANE - 2));
}

static void draw(const void *user, FILE *out)
{
    const struct chart *c = user;
    const weir_pipe_lists *l = &c->outcome->lists;
    const weir_pipe_result *r = &c->outcome->result;
    static const char *const fused[] = {"F", "B", "UNSHARD", "REDUCE_GRAD"}, *const split[] = {"F", "I", "W", "UNSHARD", "REDUCE_GRAD"};
    size_t kinds = c->splits ? 3 : 2;
    picture_begin(out, LEFT + c->width + 20, c->height,
                  ".F{fill:#6d9dc5}.B{fill:#e09f3e}.I{fill:#e0c13e}.W{fill:#81b29a}.UNSHARD{fill:#b8a9c9}.REDUCE_GRAD{fill:#b23a48}"
                  ".c1{fill-opacity:0.65}.c2{fill-opacity:0.45}.c3{fill-opacity:0.3}.idle{fill:#f0f0f0}"
                  ".stage{text-anchor:end;fill:#555555}.micro{text-anchor:middle;fill:#222222}"
                  ".time{text-anchor:middle;fill:#555555}.tick{stroke:#cccccc;stroke-width:0.5}"
                  ".act{stroke:#3d5a80;stroke-width:0.7}.grad{stroke:#b5651d;stroke-width:0.7;stroke-dasharray:3 2}",
                  LEFT, "%s, %lld stages of %lld chunks, %lld micro-batches: bubble %.4f, up to %lld activations",
                  weir_pipe_schedule_name(c->options->make.schedule), (long long)l->stages, (long long)l->chunks,
                  (long long)l->microbatches, r->bubble, (long long)c->outcome->report.activations);
    picture_axis(out, LEFT, c->width, TOP - GAP, c->height - BOTTOM, c->end, 1, "");
    picture_legend(out, LEFT, c->splits ? split : fused, c->collectives ? kinds + 2 : kinds);
    for (int64_t s = 0; s < l->stages; s++)
        fprintf(out, "<rect class=\"idle\" x=\"%d\" y=\"%.1f\" width=\"%.0f\" height=\"%d\"/>\n<text class=\"stage\" x=\"%d\" y=\"%.1f\">stage %lld</text>\n",
                LEFT, y_of(c, s), c->width, LANE - 2, LEFT - 6, y_of(c, s) + 14, (long long)s);
    for (size_t i = 0; i < c->n; i++) {
        const weir_pipe_event *e = &c->event[i];
        bool collective = e->instr.op == WEIR_PIPE_OP_UNSHARD || e->instr.op == WEIR_PIPE_OP_REDUCE_GRAD;
        if (e->instr.op <= WEIR_PIPE_OP_B || (collective && e->end > e->begin))
            draw_bar(c, e, out);
        else if (c->options->costs.comm > 0 && (e->instr.op == WEIR_PIPE_OP_SEND_ACT || e->instr.op == WEIR_PIPE_OP_SEND_GRAD))
            draw_message(c, e, out);
    }
    fputs("</svg>\n", out);
}

weir_status pipe_draw(const struct pipe_options *options, const struct pipe_outcome *outcome, const char *path, weir_error *err)
{
    struct chart c = {.options = options, .outcome = outcome};
    weir_pipe_result result = {.size = sizeof result};
    const weir_pipe_lists *l = &outcome->lists;
    int64_t instrs = 0;
    for (int64_t s = 0; s < l->stages; s++)
        instrs += l->lengths[s];
    if (instrs > INSTRS_MAX)
        return wr_error_set(err, WEIR_ERR_UNSUPPORTED, "draw fewer stages or micro-batches", "a picture of %lld instructions would show nothing",
                            (long long)instrs);
    c.event = calloc((size_t)instrs, sizeof *c.event);
    if (!c.event)
        return wr_error_memory(err, (size_t)instrs * sizeof *c.event, "a picture");
    c.collectives = options->costs.unshard > 0 || options->costs.reduce > 0;
    weir_status status = weir_pipe_simulate(l, &options->costs, collect, &c, &result, err);
    double bars = (double)(3 * l->microbatches * l->chunks + l->stages);
    c.width = bars * TEXT_WIDTH * 1.2 < 1000 ? 1000 : bars * TEXT_WIDTH * 1.2 > 4000 ? 4000 : bars * TEXT_WIDTH * 1.2;
    c.height = y_of(&c, l->stages) + BOTTOM;
    if (status == WEIR_OK)
        status = picture_file(path, draw, &c, err);
    free(c.event);
    return status;
}
