/* SPDX-License-Identifier: BSD-3-Clause */
/* What weir-pipe says: as text and as JSON. */
#include "tools/table.h"
#include "tools/weir-pipe.h"

static const char *plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

void pipe_print_list(FILE *out)
{
    for (int64_t i = 0; weir_pipe_schedule_name(i); i++)
        fprintf(out, "%-12s %s\n", weir_pipe_schedule_name(i), weir_pipe_schedule_text(i));
}

static void print_lists(const weir_pipe_lists *l, FILE *out)
{
    char text[96];
    for (int64_t s = 0; s < l->stages; s++) {
        fprintf(out, "\nstage %lld\n", (long long)s);
        for (int64_t i = 0; i < l->lengths[s]; i++)
            fprintf(out, "  %5lld  %s\n", (long long)i, weir_pipe_instr_text(&l->instrs[s][i], text, sizeof text));
    }
}

bool pipe_print(const struct pipe_options *o, const struct pipe_outcome *r, FILE *out)
{
    const weir_pipe_lists *l = &r->lists;
    struct table table;
    fprintf(out, "%s, %lld stage%s of %lld chunk%s, %lld micro-batch%s\n", weir_pipe_schedule_name(o->make.schedule), (long long)l->stages,
            plural(l->stages), (long long)l->chunks, plural(l->chunks), (long long)l->microbatches, l->microbatches == 1 ? "" : "es");
    fprintf(out, "proven: no deadlock from %lld buffer%s a channel on, no send that waits from %lld on; %lld message%s\n",
            (long long)r->report.buffers_least, plural(r->report.buffers_least), (long long)r->report.buffers_enough,
            (long long)r->report.messages, plural(r->report.messages));
    fprintf(out, "bubble %.4f: the longest stage takes %g, its work %g\n", r->result.bubble, r->result.span, r->result.work);
    fprintf(out, "time %g, first start to last end of all stages; with a barrier between steps the bubble is %.4f\n", r->result.time,
            r->result.bubble_barrier);
    table_init(&table, "stage instructions activations deferred-W gradients gathered");
    for (int64_t s = 0; s < l->stages; s++) {
        table_cell(&table, "%lld", (long long)s);
        table_cell(&table, "%lld", (long long)l->lengths[s]);
        table_cell(&table, "%lld", (long long)r->stages[s].activations);
        table_cell(&table, "%lld", (long long)r->stages[s].deferred);
        table_cell(&table, "%lld", (long long)r->stages[s].gradients);
        table_cell(&table, "%lld", (long long)r->stages[s].unsharded);
    }
    bool ok = table_print(&table, 0, out);
    table_free(&table);
    if (o->print)
        print_lists(l, out);
    return ok;
}

bool pipe_print_all(const struct pipe_options *o, const struct pipe_outcome *r, FILE *out)
{
    struct table table;
    fprintf(out, "%lld stage%s, %lld micro-batch%s\n", (long long)o->make.stages, plural(o->make.stages), (long long)o->make.microbatches,
            o->make.microbatches == 1 ? "" : "es");
    table_init(&table, "<schedule chunks bubble with-barrier time activations of-a-stage gathered <why-not");
    for (int64_t i = 0; weir_pipe_schedule_name(i); i++) {
        bool made = r[i].error.status == WEIR_OK;
        table_cell(&table, "%s", weir_pipe_schedule_name(i));
        if (made) {
            table_cell(&table, "%lld", (long long)r[i].lists.chunks);
            table_cell(&table, "%.4f", r[i].result.bubble);
            table_cell(&table, "%.4f", r[i].result.bubble_barrier);
            /* a chunk is a part of the stage: what costs the same is compared */
            table_cell(&table, "%g", r[i].result.time / (double)r[i].lists.chunks);
            table_cell(&table, "%lld", (long long)r[i].report.activations);
            table_cell(&table, "%g", (double)r[i].report.activations / (double)r[i].lists.chunks);
            table_cell(&table, "%lld", (long long)r[i].report.unsharded);
        }
        for (int k = 0; !made && k < 7; k++)
            table_cell(&table, "-");
        table_cell(&table, "%s", made ? "" : r[i].error.message);
    }
    bool ok = table_print(&table, 0, out);
    table_free(&table);
    return ok;
}

/* ---- JSON ---- */

static void json_stages(const struct pipe_options *o, const struct pipe_outcome *r, FILE *out)
{
    const weir_pipe_lists *l = &r->lists;
    for (int64_t s = 0; s < l->stages; s++) {
        fprintf(out, "%s{\"instructions\": %lld, \"activations\": %lld, \"deferred\": %lld, \"gradients\": %lld, \"unsharded\": %lld",
                s ? ", " : "", (long long)l->lengths[s], (long long)r->stages[s].activations, (long long)r->stages[s].deferred,
                (long long)r->stages[s].gradients, (long long)r->stages[s].unsharded);
        if (o->print)
            fputs(", \"list\": [", out);
        for (int64_t i = 0; o->print && i < l->lengths[s]; i++) {
            const weir_pipe_instr *instr = &l->instrs[s][i];
            fprintf(out, "%s{\"op\": \"%s\", \"micro\": %d, \"chunk\": %d, \"peer\": %d}", i ? ", " : "", weir_pipe_op_name(instr->op),
                    instr->micro, instr->chunk, instr->peer);
        }
        fputs(o->print ? "]}" : "}", out);
    }
}

void pipe_print_json(const struct pipe_options *o, const struct pipe_outcome *r, FILE *out)
{
    const weir_pipe_lists *l = &r->lists;
    const weir_pipe_costs *c = &o->costs;
    fprintf(out,
            "{\"weir\": \"%s\", \"schedule\": \"%s\", \"stages\": %lld, \"microbatches\": %lld, \"chunks\": %lld, \"placement\": \"%s\", "
            "\"zero\": %lld, \"costs\": {\"f\": %.12g, \"i\": %.12g, \"w\": %.12g, \"comm\": %.12g, \"unshard\": %.12g, \"reduce\": %.12g}, ",
            weir_version(), weir_pipe_schedule_name(o->make.schedule), (long long)l->stages, (long long)l->microbatches,
            (long long)l->chunks, l->placement == WEIR_PIPE_V ? "v" : "loop", (long long)l->zero, c->f, c->i, c->w, c->comm, c->unshard,
            c->reduce);
    fprintf(out,
            "\"time\": %.12g, \"span\": %.12g, \"work\": %.12g, \"bubble\": %.12g, \"bubble_barrier\": %.12g, \"peak_activations\": %lld, "
            "\"messages\": %lld, \"buffers_least\": %lld, \"buffers_enough\": %lld, \"stage\": [",
            r->result.time, r->result.span, r->result.work, r->result.bubble, r->result.bubble_barrier, (long long)r->report.activations,
            (long long)r->report.messages, (long long)r->report.buffers_least, (long long)r->report.buffers_enough);
    json_stages(o, r, out);
    fputs("]}\n", out);
}
