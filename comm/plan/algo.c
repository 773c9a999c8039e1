/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>

#include "comm/plan/algo.h"

void wr_signal_mates(struct wr_program *p, const struct wr_mates *m, uint32_t slot)
{
    for (int i = 1; i < m->n; i++)
        wr_program_signal(p, wr_mate(m, i), slot);
}

void wr_wait_mates(struct wr_program *p, const struct wr_mates *m, uint32_t slot, uint32_t value)
{
    for (int i = 1; i < m->n; i++)
        wr_program_wait(p, wr_mate(m, i), slot, value);
}

void wr_wait_mates_earlier(struct wr_program *p, const struct wr_mates *m, uint32_t slot, uint32_t per_execution)
{
    for (int i = 1; i < m->n; i++)
        wr_program_wait_earlier(p, wr_mate(m, i), slot, per_execution);
}

/* Whether node a comes before node b in the chain that ends at `owner`. */
static bool before(const struct wr_plan_topo *topo, int owner, int a, int b)
{
    int n = topo->nnodes;
    for (int level = topo->nlevels - 1; level >= 0; level--) {
        const int *group = topo->group_of[level];
        int x = (group[a] - group[owner] - 1 + n) % n, y = (group[b] - group[owner] - 1 + n) % n;
        if (x != y)
            return x < y;
    }
    return (a - owner - 1 + n) % n < (b - owner - 1 + n) % n;
}

struct wr_hop wr_chain_hop(const struct wr_plan_topo *topo, int owner, int node)
{
    int n = topo->nnodes;
    struct wr_hop hop = {.at = 0, .prev = -1, .next = -1};
    if (!topo->nlevels) {
        hop.at = (node - owner - 1 + n) % n;
        hop.prev = hop.at > 0 ? (node - 1 + n) % n : -1;
        hop.next = hop.at < n - 1 ? (node + 1) % n : -1;
        return hop;
    }
    for (int k = 0; k < n; k++) {
        if (k == node)
            continue;
        if (before(topo, owner, k, node)) {
            hop.at++;
            if (hop.prev < 0 || before(topo, owner, hop.prev, k))
                hop.prev = k;
        } else if (hop.next < 0 || before(topo, owner, k, hop.next)) {
            hop.next = k;
        }
    }
    return hop;
}

bool wr_rank_order(const struct wr_plan_topo *topo, int **order, int **place)
{
    int n = topo->nranks, nodes = topo->nnodes, at = 0;
    int *o = malloc((size_t)n * sizeof *o), *p = malloc((size_t)n * sizeof *p), *node = malloc((size_t)nodes * sizeof *node);
    bool ok = o && p && node;
    for (int k = 0; ok && k < nodes; k++)
        node[wr_chain_hop(topo, nodes - 1, k).at] = k;
    for (int k = 0; ok && k < nodes; k++)
        for (int i = 0; i < topo->node_size[node[k]]; i++) {
            o[at] = topo->node_ranks[node[k]][i];
            p[o[at]] = at;
            at++;
        }
    free(node);
    if (!ok || !place) {
        free(p);
        p = NULL;
    }
    if (!ok) {
        free(o);
        return false;
    }
    *order = o;
    if (place)
        *place = p;
    return true;
}

uint64_t wr_largest_share(const struct wr_plan_spec *spec)
{
    uint64_t most = 0;
    if (!spec->counts)
        return spec->count;
    for (int r = 0; r < spec->topo->nranks; r++)
        most = WR_MAX(most, spec->counts[r]);
    return most;
}

bool wr_single_node(const struct wr_plan_spec *spec)
{
    return spec->topo->nnodes == 1 && !(spec->out_shared && spec->coll != WR_COLL_ALLGATHER);
}

/* The step of the second program as a step of both. */
static void append_step(struct wr_program *p, const struct wr_program *from, const struct wr_step *step,
                        const struct wr_plan_spec *spec, const struct wr_algorithm *first)
{
    struct wr_ref refs[2];
    for (unsigned i = 0; i < step->nrefs && i < 2; i++) {
        refs[i] = from->refs[step->first_ref + i];
        if (refs[i].buffer == WR_BUF_SCRATCH) {
            refs[i].offset += first->scratch(spec, refs[i].rank);
        } else if (refs[i].buffer == WR_BUF_IN) {
            refs[i].buffer = WR_BUF_OUT;
            refs[i].offset += wr_plan_share_offset(spec, refs[i].rank);
        }
    }
    if (step->op == WR_STEP_COPY)
        wr_program_copy(p, refs[0], refs[1], step->len);
    else if (step->op == WR_STEP_PUT && step->flags & WR_STEP_SIGNALS)
        wr_program_put_signal(p, refs[0], refs[1], step->len, step->slot + first->slots);
    else if (step->op == WR_STEP_PUT)
        wr_program_put(p, refs[0], refs[1], step->len);
    else if (step->op == WR_STEP_SIGNAL)
        wr_program_signal(p, step->peer, step->slot + first->slots);
    else if (step->op == WR_STEP_WAIT && step->flags & WR_STEP_EARLIER)
        wr_program_wait_earlier(p, step->peer, step->slot + first->slots, step->value);
    else if (step->op == WR_STEP_WAIT)
        wr_program_wait(p, step->peer, step->slot + first->slots, step->value);
    else if (step->op == WR_STEP_DRAIN)
        wr_program_drain(p);
}

static void append_as_is(struct wr_program *p, const struct wr_program *from, const struct wr_step *step)
{
    const struct wr_ref *refs = from->refs + step->first_ref;
    if (step->op == WR_STEP_COPY)
        wr_program_copy(p, refs[0], refs[1], step->len);
    else if (step->op == WR_STEP_REDUCE)
        wr_program_reduce(p, refs[0], refs + 1, step->nrefs - 1u, step->len);
    else if (step->op == WR_STEP_PUT && step->flags & WR_STEP_SIGNALS)
        wr_program_put_signal(p, refs[0], refs[1], step->len, step->slot);
    else if (step->op == WR_STEP_PUT)
        wr_program_put(p, refs[0], refs[1], step->len);
    else if (step->op == WR_STEP_SIGNAL)
        wr_program_signal(p, step->peer, step->slot);
    else if (step->op == WR_STEP_WAIT && step->flags & WR_STEP_EARLIER)
        wr_program_wait_earlier(p, step->peer, step->slot, step->value);
    else if (step->op == WR_STEP_WAIT)
        wr_program_wait(p, step->peer, step->slot, step->value);
    else
        wr_program_drain(p);
}

weir_status wr_program_append(struct wr_program *first, struct wr_program *second, const struct wr_plan_spec *spec,
                              const struct wr_algorithm *first_algorithm, weir_error *err)
{
    struct wr_program both;
    wr_program_init(&both, first->rank);
    uint32_t nlanes = WR_MAX(first->nlanes, second->nlanes);
    for (uint32_t lane = 0; lane < nlanes; lane++) {
        wr_program_lane(&both);
        for (uint32_t i = first->lane[lane]; lane < first->nlanes && i < first->lane[lane + 1]; i++)
            append_as_is(&both, first, &first->steps[i]);
        for (uint32_t i = second->lane[lane]; lane < second->nlanes && i < second->lane[lane + 1]; i++)
            append_step(&both, second, &second->steps[i], spec, first_algorithm);
    }
    both.scratch = first_algorithm->scratch(spec, first->rank) + second->scratch;
    wr_program_free(first);
    wr_program_free(second);
    *first = both;
    return wr_program_finish(first, err);
}
