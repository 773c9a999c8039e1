/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether a machine and a plan on it look the same from several nodes. */
#include "comm/plan/simulate_impl.h"

/* Whether shifting by `period` nodes maps every node and every group onto another one. */
static bool shifts(const struct wr_plan_topo *topo, int period)
{
    int n = topo->nnodes;
    for (int l = 0; l < topo->nlevels; l++) {
        const int *group = topo->group_of[l];
        int groups = n > period ? group[period] : 0; /* in one period */
        if (groups < 1)
            return false;
        for (int i = 0; i < n; i++)
            if (group[i] < 0 || (i < period && group[i] >= groups) || (i >= period && group[i] != group[i - period] + groups))
                return false;
    }
    return true;
}

bool wr_sim_regular(const struct wr_plan_topo *topo, int *period)
{
    int n = topo->nnodes, ppn = topo->node_size[0], size = 1;
    for (int r = 0; r < topo->nranks; r++)
        if (topo->node_of[r] != r / ppn || topo->local_rank[r] != r % ppn)
            return false;
    if (topo->nranks != n * ppn)
        return false;
    if (topo->nlevels) {
        const int *group = topo->group_of[topo->nlevels - 1];
        while (size < n && group[size] == group[0])
            size++;
    }
    if (n % size || (size < n && !shifts(topo, size)))
        return false;
    *period = size;
    return true;
}

static bool equal_step(const struct wr_step *a, const struct wr_step *b)
{
    return a->op == b->op && a->flags == b->flags && a->nrefs == b->nrefs && a->first_ref == b->first_ref && a->len == b->len &&
           a->slot == b->slot && a->value == b->value;
}

/* Whether b is a with all ranks shifted by `shift`. */
static bool shifted(const struct wr_program *a, const struct wr_program *b, int shift, int nranks)
{
    if (a->nsteps != b->nsteps || a->nrefs != b->nrefs || a->nlanes != b->nlanes)
        return false;
    for (uint32_t i = 0; i <= a->nlanes; i++)
        if (a->lane[i] != b->lane[i])
            return false;
    for (uint32_t i = 0; i < a->nsteps; i++) {
        const struct wr_step *x = &a->steps[i], *y = &b->steps[i];
        bool peer = x->op == WR_STEP_PUT || x->op == WR_STEP_SIGNAL || x->op == WR_STEP_WAIT;
        if (!equal_step(x, y) || (peer && (x->peer + shift) % nranks != y->peer))
            return false;
    }
    for (uint32_t i = 0; i < a->nrefs; i++)
        if (a->refs[i].buffer != b->refs[i].buffer || (a->refs[i].rank + shift) % nranks != b->refs[i].rank)
            return false;
    return true;
}

static weir_status compare(const struct wr_plan_spec *spec, const struct wr_algorithm *algorithm, int rank, int shift, bool *same,
                           weir_error *err)
{
    struct wr_program a, b;
    int n = spec->topo->nranks;
    weir_status status = algorithm->build(spec, rank, &a, err);
    if (status != WEIR_OK)
        return status;
    status = algorithm->build(spec, (rank + shift) % n, &b, err);
    if (status == WEIR_OK) {
        *same = shifted(&a, &b, shift, n);
        wr_program_free(&b);
    }
    wr_program_free(&a);
    return status;
}

weir_status wr_sim_period(const struct wr_plan_spec *spec, const struct wr_algorithm *algorithm, int *period, weir_error *err)
{
    const struct wr_plan_topo *topo = spec->topo;
    int size, n = topo->nnodes, ppn = topo->node_size[0];
    *period = n;
    if (spec->counts || !wr_sim_regular(topo, &size) || size == n)
        return WEIR_OK;
    /* the first and the last rank of the period: with the next period, one in the middle and the last */
    int at[] = {0, size * ppn - 1}, shift[] = {size, n / size / 2 * size, n - size};
    for (size_t i = 0; i < WR_ARRAY_SIZE(at); i++)
        for (size_t k = 0; k < WR_ARRAY_SIZE(shift); k++) {
            bool same = false;
            weir_status status = compare(spec, algorithm, at[i], shift[k] * ppn, &same, err);
            if (status != WEIR_OK || !same)
                return status;
        }
    *period = size;
    return WEIR_OK;
}
