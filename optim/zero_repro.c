/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reproducible steps. A rank gets its part of a section from all ranks and adds the rows in the complete binary tree over their
 * number; the sums of passes are added in the same tree, of which each level has at most one sum that waits for its neighbour.
 * Both are a binary counter: a sum goes up a level where there is one already. Additions commute, so only who is added to whom
 * counts. Norms are sums over fixed blocks, each of which is in one piece; the squares of tensors are added without rounding, so it does
 * not matter which of them are on other ranks of norm_comm.
 */
#include <math.h>
#include <string.h>

#include "base/compiler.h"
#include "optim/exact.h"
#include "optim/zero.h"

enum { CHUNK = 256, LEVELS = 11 };

static uint64_t own_part(const weir_zero *zero, const struct wr_zero_job *job)
{
    return wr_zero_part(&zero->l.sections[job->section], zero->my_shard);
}

/* Bytes of the rows of the largest section. */
static uint64_t most_rows(const weir_zero *zero)
{
    uint64_t most = 0;
    for (uint64_t s = 0; s < zero->l.nsections; s++)
        most = WR_MAX(most, zero->l.sections[s].trainable ? wr_zero_part(&zero->l.sections[s], zero->my_shard) : 0);
    return most * (uint64_t)zero->nranks * zero->gsize;
}

weir_status wr_zero_repro_collect(weir_zero *zero, struct wr_zero_job *job)
{
    const struct wr_zero_section *s = &zero->l.sections[job->section];
    weir_type type = (weir_type)zero->o.grad_type;
    uint64_t n = own_part(zero, job), counts[WR_ZERO_TREE_MOST];
    job->phase = WR_ZERO_REDUCING;
    if (zero->nranks == 1)
        return WEIR_OK;
    unsigned char **rows = &zero->g.rows[(job - zero->g.jobs) % WR_ZERO_ROWS]; /* no more are under way, one behind the other */
    if (!*rows && !(*rows = wr_zero_alloc(zero, most_rows(zero), "the gradients of all ranks")))
        return WEIR_ERR_NO_MEMORY;
    job->rows = *rows;
    wr_zero_count_reduce(zero, zero->nshard == 1, (zero->nshard == 1 ? (uint64_t)(zero->nranks - 1) * n : s->n - n) * zero->gsize);
    if (zero->nshard == 1)
        return weir_iallgather(zero->replica, job->data, job->rows, n, type, &job->request);
    if (!s->bounds)
        return weir_ialltoall(zero->shard, job->data, job->rows, n, type, &job->request);
    for (int r = 0; r < zero->nranks; r++)
        counts[r] = n;
    return weir_ialltoallv(zero->shard, job->data, s->counts, NULL, job->rows, counts, NULL, type, &job->request);
}

static void add_to(float *sum, const float *other, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        sum[i] += other[i];
}

/* The sum over all ranks of m elements from `at` on; `rows` of n elements each. */
static void sum_rows(const weir_zero *zero, const unsigned char *rows, uint64_t n, uint64_t at, uint64_t m, float *sum)
{
    float level[LEVELS][CHUNK];
    for (uint64_t r = 0; r < (uint64_t)zero->nranks; r++) {
        unsigned k = 0;
        weir_convert(sum, WEIR_FP32, rows + (r * n + at) * zero->gsize, (weir_type)zero->o.grad_type, m);
        for (; r >> k & 1; k++)
            add_to(sum, level[k], m);
        memcpy(level[k], sum, m * sizeof *sum);
    }
}

void wr_zero_repro_add(weir_zero *zero, struct wr_zero_job *job)
{
    struct wr_zero_grads *g = &zero->g;
    uint64_t n = own_part(zero, job);
    unsigned top = wr_zero_levels(&zero->o) - 1;
    float sum[CHUNK];
    for (uint64_t at = 0; at < n; at += CHUNK) {
        uint64_t m = WR_MIN(n - at, (uint64_t)CHUNK);
        float *to = g->shard + g->shard_at[job->section] + at;
        unsigned k = 0;
        sum_rows(zero, job->rows ? job->rows : job->data, n, at, m, sum);
        if (job->extra)
            add_to(sum, to + (k = top) * g->shard_n, m);
        else
            for (; job->round >> k & 1; k++)
                add_to(sum, to + k * g->shard_n, m);
        memcpy(to + k * g->shard_n, sum, m * sizeof *sum);
    }
}

/* ---- norms ---- */

void wr_zero_repro_keep(weir_zero *zero, const struct wr_zero_piece *p, const double *sums, int n)
{
    uint64_t blocks = weir_norm_blocks(0, p->n), at = p->tensor->norm_at + p->first / WEIR_NORM_BLOCK;
    for (int which = 0; which < n; which++)
        memcpy(zero->norm_blocks + (uint64_t)which * zero->l.norm_blocks + at, sums + (uint64_t)which * blocks, blocks * sizeof *sums);
}

weir_status wr_zero_repro_share(weir_zero *zero)
{
    if (zero->nshard == 1)
        return WEIR_OK;
    weir_status status = weir_allreduce(zero->shard, WEIR_IN_PLACE, zero->norm_blocks, 2 * zero->l.norm_blocks, WEIR_FP64, WEIR_SUM);
    return status == WEIR_OK ? WEIR_OK : wr_zero_comm_failed(zero, status);
}

double wr_zero_repro_tensor(const weir_zero *zero, const struct wr_zero_tensor *t, int which)
{
    return weir_norm_fold(zero->norm_blocks + (uint64_t)which * zero->l.norm_blocks + t->norm_at, weir_norm_blocks(0, t->n));
}

weir_status wr_zero_repro_loss(weir_zero *zero, const double *losses, double *mean)
{
    uint64_t passes = zero->o.accumulate, ranks = (uint64_t)zero->nranks, bytes = passes * (ranks + 1) * sizeof(double);
    double *all = wr_zero_alloc(zero, bytes, "the losses of all ranks"), *sums = all ? all + passes * ranks : NULL;
    if (!all)
        return WEIR_ERR_NO_MEMORY;
    weir_status status = weir_allgather(zero->all, losses, all, passes, WEIR_FP64);
    for (uint64_t k = 0; k < passes; k++)
        sums[k] = 0;
    for (uint64_t k = 0; status == WEIR_OK && k < passes; k++) {
        for (uint64_t width = 1; width < ranks; width *= 2)
            for (uint64_t r = 0; r < ranks; r += 2 * width)
                all[r * passes + k] += all[(r + width) * passes + k];
        sums[k] = all[k];
    }
    for (uint64_t width = 1; width < passes; width *= 2)
        for (uint64_t k = 0; k < passes; k += 2 * width)
            sums[k] += sums[k + width];
    if (status == WEIR_OK)
        *mean = sums[0] / (double)(passes * ranks);
    wr_zero_free(zero, all, bytes);
    return status == WEIR_OK ? WEIR_OK : wr_zero_comm_failed(zero, status);
}

weir_status wr_zero_repro_norm(weir_zero *zero, double *norm)
{
    struct wr_exact sum = {{0}};
    for (uint64_t u = 0; u < zero->l.nunits; u++)
        for (uint64_t i = 0; i < zero->l.units[u].ntensors; i++) {
            const struct wr_zero_tensor *t = &zero->l.units[u].tensors[i];
            double square = t->origin == t && !t->frozen && !(t->said.flags & WEIR_ZERO_NORM_ELSEWHERE) ? wr_zero_repro_tensor(zero, t, 0) : 0;
            if (isfinite(square)) /* else the step is not made, whatever the norm */
                wr_exact_add(&sum, square);
        }
    weir_status status = WEIR_OK;
    if (zero->o.norm_comm && weir_comm_size(zero->o.norm_comm) > 1)
        status = weir_allreduce(zero->o.norm_comm, WEIR_IN_PLACE, sum.limbs, WR_EXACT_LIMBS, WEIR_INT64, WEIR_SUM);
    *norm = wr_exact_round(&sum);
    return status == WEIR_OK ? WEIR_OK : wr_zero_comm_failed(zero, status);
}
