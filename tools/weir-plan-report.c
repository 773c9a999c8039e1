/* SPDX-License-Identifier: BSD-3-Clause */
/* What weir-plan says: as text and as JSON. */
#include <string.h>

#include "base/str.h"
#include "tools/table.h"
#include "tools/weir-plan.h"

static const char *bytes_text(uint64_t bytes, char buf[32])
{
    return wr_format_bytes(bytes, buf, 32);
}

static const char *time_text(double ns, char buf[32])
{
    return wr_format_time((int64_t)(ns + 0.5), buf, 32);
}

/* Of the whole vector; alltoall: of one rank's buffer. */
static uint64_t vector_bytes(const struct wr_plan_spec *s)
{
    bool shares = s->coll == WR_COLL_REDUCE_SCATTER || s->coll == WR_COLL_ALLGATHER || s->coll == WR_COLL_GATHER ||
                  s->coll == WR_COLL_SCATTER || s->coll == WR_COLL_ALLTOALL;
    return s->count * s->elem_size * (shares ? (uint64_t)s->topo->nranks : 1);
}

void plan_print_list(FILE *out)
{
    for (int c = 0; c < WR_COLL_COUNT; c++) {
        fprintf(out, "%-16s", wr_collective_name((enum wr_collective)c));
        for (int i = 0; wr_algorithms[i]; i++)
            if ((int)wr_algorithms[i]->coll == c)
                fprintf(out, " %s", wr_algorithms[i]->name);
        fputc('\n', out);
    }
}

void plan_print_machine(const struct plan_report *r, FILE *out)
{
    const struct wr_plan_spec *s = &r->spec;
    char size[32], share[32];
    fprintf(out, "%s of %s", wr_collective_name(s->coll), bytes_text(vector_bytes(s), size));
    if (vector_bytes(s) != s->count * s->elem_size)
        fprintf(out, " (%s a rank)", bytes_text(s->count * s->elem_size, share));
    fprintf(out, ", %s, %d ranks on %d nodes, %s placement", weir_type_name(r->options->type), s->topo->nranks, s->topo->nnodes,
            r->options->placement);
    for (int l = s->topo->nlevels - 1; l >= 0; l--) {
        int most = 0;
        for (int n = 0; n < s->topo->nnodes; n++)
            most = WR_MAX(most, s->topo->group_of[l][n] + 1);
        fprintf(out, ", %d %s%s", most, r->machine->level_name[l], most == 1 ? "" : most > 1 && !strcmp(r->machine->level_name[l], "switch") ? "es" : "s");
    }
    fputs("\n", out);
}

static void print_excess(double ratio, const char *verb, FILE *out)
{
    if (ratio == 0)
        return;
    if (ratio <= 1.0 + 1e-12)
        fprintf(out, "; no node %s more than it must", verb);
    else
        fprintf(out, "; a node %s up to %.3f times what it must", verb, ratio);
}

/* Of how many ranks a large machine's proof is. */
static void print_classes(const struct plan_report *r, const struct plan_outcome *o, FILE *out)
{
    int n = r->spec.topo->nranks;
    if (o->how.shifts == 1)
        fprintf(out, "  in full: all %d ranks were run\n", n);
    else if (o->how.shifts)
        fprintf(out, "  by symmetry: %d class%s of %d ranks each; one of each was run, and %s%llu of %d programs were compared\n",
                o->how.classes, o->how.classes == 1 ? "" : "es", o->how.shifts, o->how.compared < (uint64_t)n ? "only " : "", (unsigned long long)o->how.compared, n);
}

/* What was and was not proven of a machine that is too large. */
static void print_smaller(const struct plan_report *r, const struct plan_outcome *o, FILE *out)
{
    fprintf(out, "  not proven for this machine: %s\n", o->unproven);
    if (o->scanned)
        fprintf(out, "  in full: the programs of all %d ranks stay inside their memory, and every signal has its wait\n", r->spec.topo->nranks);
    if (o->small_ranks)
        fprintf(out, "  on %d nodes of the same shape (%d ranks): contents, order, no deadlock\n", o->small_nodes, o->small_ranks);
    if (o->simulated && o->result.method != WR_SIM_FIT)
        fprintf(out, "  at full size it ends in the simulation: %s\n", o->result.how);
}

void plan_print_proofs(const struct plan_report *r, FILE *out)
{
    char scratch[32], local[32], network[32];
    for (int i = 0; i < r->n; i++) {
        const struct plan_outcome *o = &r->outcome[i];
        bool sized = o->verified || o->scanned;
        if (!sized && !o->small_ranks)
            continue;
        fprintf(out, "%s: %s", o->verified ? "proven" : "checked", o->algorithm->name);
        if (sized) {
            fprintf(out, ": %llu steps, %u lane%s a rank, %s of scratch; %s loaded and stored, %s between nodes",
                    (unsigned long long)o->proof.steps, o->proof.max_lanes, o->proof.max_lanes == 1 ? "" : "s",
                    bytes_text(o->proof.max_scratch * r->spec.partial_size, scratch), bytes_text(o->proof.local_bytes, local),
                    bytes_text(o->proof.network_bytes, network));
            print_excess(o->egress, "sends", out);
            print_excess(o->ingress, "receives", out);
        }
        fputs("\n", out);
        if (o->verified)
            print_classes(r, o, out);
        else
            print_smaller(r, o, out);
    }
}

bool plan_print_times(const struct plan_report *r, FILE *out)
{
    struct table table;
    char header[256] = "<algorithm time first bound share in-node", buf[32];
    int levels = r->spec.topo->nlevels;
    for (int l = 0; l < levels; l++) {
        wr_str_append(header, sizeof header, " in-");
        wr_str_append(header, sizeof header, r->machine->level_name[l]);
    }
    wr_str_append(header, sizeof header, levels ? " across <how" : " network <how");
    table_init(&table, header);
    for (int i = 0; i < r->n; i++) {
        const struct plan_outcome *o = &r->outcome[i];
        table_cell(&table, "%s", o->algorithm->name);
        if (!o->simulated) {
            for (int k = 0; k < 5 + levels + 1; k++)
                table_cell(&table, "-");
            table_cell(&table, "%s", o->error.message);
            continue;
        }
        table_cell(&table, "%s", time_text(o->result.time, buf));
        table_cell(&table, "%s", time_text(o->result.first, buf));
        table_cell(&table, "%s", time_text(o->result.bound, buf));
        table_cell(&table, "%.3f", o->result.time > 0 ? o->result.bound / o->result.time : 1.0);
        for (int l = 0; l < levels + 2; l++)
            table_cell(&table, "%s", bytes_text(o->result.bytes[l], buf));
        table_cell(&table, "%s", o->result.how);
    }
    bool ok = table_print(&table, 0, out);
    table_free(&table);
    return ok;
}

/* ---- JSON ---- */

static void quote(const char *text, FILE *out)
{
    fputc('"', out);
    wr_json_text(out, text);
    fputc('"', out);
}

static void json_proof(const struct plan_report *r, const struct plan_outcome *o, FILE *out)
{
    fprintf(out,
            ", \"proof\": {\"steps\": %llu, \"signals\": %llu, \"lanes\": %u, \"scratch_bytes\": %llu, \"local_bytes\": %llu, "
            "\"network_bytes\": %llu, \"nodes\": [",
            (unsigned long long)o->proof.steps, (unsigned long long)o->proof.signals, o->proof.max_lanes,
            (unsigned long long)(o->proof.max_scratch * r->spec.partial_size), (unsigned long long)o->proof.local_bytes,
            (unsigned long long)o->proof.network_bytes);
    for (int n = 0; n < o->proof.nnodes; n++) {
        uint64_t egress, ingress;
        wr_sim_node_bound(&r->spec, n, &egress, &ingress);
        fprintf(out, "%s{\"egress\": %llu, \"egress_bound\": %llu, \"ingress\": %llu, \"ingress_bound\": %llu}", n ? ", " : "",
                (unsigned long long)o->proof.egress[n], (unsigned long long)egress, (unsigned long long)o->proof.ingress[n],
                (unsigned long long)ingress);
    }
    fputs("]}", out);
    if (o->scanned)
        fprintf(out, ", \"proven_nodes\": %d, \"proven_ranks\": %d", o->small_nodes, o->small_ranks);
    if (o->how.shifts)
        fprintf(out, ", \"classes\": %d, \"compared\": %llu", o->how.classes, (unsigned long long)o->how.compared);
}

static void json_result(const struct plan_report *r, const struct wr_sim_result *s, FILE *out)
{
    static const char *const methods[] = {"full", "classes", "closed form"};
    fprintf(out,
            ", \"simulation\": {\"time_us\": %.3f, \"first_us\": %.3f, \"bound_us\": %.3f, \"share\": %.6f, \"method\": \"%s\", \"how\": ",
            s->time / 1e3, s->first / 1e3, s->bound / 1e3, s->time > 0 ? s->bound / s->time : 1.0, methods[s->method]);
    quote(s->how, out);
    fprintf(out,
            ", \"steps\": %llu, \"events\": %llu, \"max_egress\": %llu, \"max_ingress\": %llu, \"interface_out_busy_us\": %.3f, "
            "\"interface_in_busy_us\": %.3f, \"memory_busy_us\": %.3f, \"bytes\": [",
            (unsigned long long)s->steps, (unsigned long long)s->events, (unsigned long long)s->max_egress,
            (unsigned long long)s->max_ingress, s->out_busy / 1e3, s->in_busy / 1e3, s->memory_busy / 1e3);
    for (int l = 0; l < r->spec.topo->nlevels + 2; l++)
        fprintf(out, "%s%llu", l ? ", " : "", (unsigned long long)s->bytes[l]);
    fputs("]}", out);
}

void plan_print_json(const struct plan_report *r, FILE *out)
{
    const struct wr_plan_spec *s = &r->spec;
    fprintf(out, "{\"weir\": \"%s\", \"coll\": \"%s\", \"bytes\": %llu, \"count\": %llu, \"type\": \"%s\", \"root\": %d, \"ranks\": %d, \"nodes\": %d, \"placement\": ",
            weir_version(), wr_collective_name(s->coll), (unsigned long long)vector_bytes(s), (unsigned long long)s->count,
            weir_type_name(r->options->type), s->root, s->topo->nranks, s->topo->nnodes);
    quote(r->options->placement, out);
    fputs(", \"levels\": [", out);
    for (int l = 0; l < s->topo->nlevels; l++)
        fprintf(out, "%s\"%s\"", l ? ", " : "", r->machine->level_name[l]);
    fputs("], \"algorithms\": [", out);
    for (int i = 0; i < r->n; i++) {
        const struct plan_outcome *o = &r->outcome[i];
        fprintf(out, "%s{\"name\": \"%s\", \"proven\": %s", i ? ", " : "", o->algorithm->name, o->verified ? "true" : "false");
        if (o->verified || o->scanned)
            json_proof(r, o, out);
        if (o->simulated) {
            json_result(r, &o->result, out);
        } else if (o->error.status) {
            fputs(", \"error\": ", out);
            quote(o->error.message, out);
        }
        fputc('}', out);
    }
    fputs("]}\n", out);
}
