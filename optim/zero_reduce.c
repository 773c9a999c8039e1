/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reductions of gradients, a section each. Started in the order of all ranks, on each communicator; what is reduced stands at the
 * section's beginning in its slot, so no other memory is needed.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "optim/zero.h"

enum { CHUNK = 512 };

/* fp32 to the type on the wire, in place: the result is never ahead of what is still to be read. */
static void narrow(const weir_zero *zero, unsigned char *data, uint64_t n)
{
    float wide[CHUNK];
    for (uint64_t at = 0; at < n; at += CHUNK) {
        uint64_t m = WR_MIN(n - at, (uint64_t)CHUNK);
        memcpy(wide, data + at * sizeof(float), m * sizeof(float));
        weir_convert(data + at * zero->rsize, (weir_type)zero->o.reduce_type, wide, WEIR_FP32, m);
    }
}

/* dst += src, or dst = src. */
static void add(void *dst, weir_type dst_type, const void *src, weir_type src_type, uint64_t n, bool over)
{
    float a[CHUNK], b[CHUNK];
    size_t dsize = weir_type_size(dst_type), ssize = weir_type_size(src_type);
    if (over && dst_type == WEIR_FP32) {
        weir_convert(dst, dst_type, src, src_type, n);
        return;
    }
    for (uint64_t at = 0; at < n; at += CHUNK) {
        uint64_t m = WR_MIN(n - at, (uint64_t)CHUNK);
        weir_convert(a, WEIR_FP32, (unsigned char *)dst + at * dsize, dst_type, m);
        weir_convert(b, WEIR_FP32, (const unsigned char *)src + at * ssize, src_type, m);
        for (uint64_t i = 0; i < m; i++)
            a[i] += b[i];
        weir_convert((unsigned char *)dst + at * dsize, dst_type, a, WEIR_FP32, m);
    }
}

void *wr_zero_grad_of(const weir_zero *zero, uint64_t section, weir_type *type)
{
    const struct wr_zero_section *s = &zero->l.sections[section];
    if (zero->o.reduce == WEIR_ZERO_REDUCE_ONCE) {
        *type = (weir_type)zero->o.reduce_type;
        return (unsigned char *)weir_mem_ptr(zero->g.memory) + (zero->l.blocks[s->block].grad_at + s->at) * zero->gsize;
    }
    *type = WEIR_FP32;
    return zero->g.shard + (wr_zero_levels(&zero->o) - 1) * zero->g.shard_n + zero->g.shard_at[section];
}

void *wr_zero_piece_grad(const weir_zero *zero, const struct wr_zero_piece *p, weir_type *type)
{
    const struct wr_zero_section *s = &zero->l.sections[p->section];
    unsigned char *grad = wr_zero_grad_of(zero, p->section, type);
    return grad + (p->at - s->at - wr_zero_bound(s, zero->my_shard)) * weir_type_size(*type);
}

void wr_zero_take_norms(weir_zero *zero, uint64_t section)
{
    weir_type type;
    for (uint64_t i = zero->section_piece[section]; i < zero->section_piece[section + 1]; i++) {
        struct wr_zero_piece *p = &zero->pieces[i];
        const void *grad = wr_zero_piece_grad(zero, p, &type);
        weir_norm_partials(grad, type, 0, p->n, zero->work);
        zero->piece_sums[i] = weir_norm_fold(zero->work, weir_norm_blocks(0, p->n));
        if (wr_zero_reproducible(zero))
            wr_zero_repro_keep(zero, p, zero->work, 1);
    }
}

/* ---- a reduction from start to end ---- */

/* The persistent request of a job; false when it has none, or its gradients stand elsewhere. */
static bool take_kept(struct wr_zero_job *job, weir_request *kept)
{
    job->request = job->extra ? NULL : kept;
    return job->request != NULL;
}

static weir_status scatter(weir_zero *zero, struct wr_zero_job *job)
{
    const struct wr_zero_section *s = &zero->l.sections[job->section];
    weir_type type = (weir_type)zero->o.reduce_type;
    if (wr_zero_reproducible(zero))
        return wr_zero_repro_collect(zero, job);
    if (wr_zero_quantized_grads(zero))
        return wr_zero_quant_grad_begin(zero, job);
    if (zero->nshard == 1) {
        job->phase = WR_ZERO_SCATTERED;
        return WEIR_OK;
    }
    job->phase = WR_ZERO_SCATTERING;
    wr_zero_count_reduce(zero, false, (s->n - wr_zero_part(s, zero->my_shard)) * zero->rsize);
    if (take_kept(job, zero->requests.scatter[job->section]))
        return weir_start(job->request);
    if (!s->bounds)
        return weir_ireduce_scatter(zero->shard, WEIR_IN_PLACE, job->data, s->per, type, WEIR_SUM, &job->request);
    return weir_ireduce_scatterv(zero->shard, WEIR_IN_PLACE, job->data, s->counts, type, WEIR_SUM, &job->request);
}

static weir_status reduce(weir_zero *zero, struct wr_zero_job *job)
{
    uint64_t n = wr_zero_part(&zero->l.sections[job->section], zero->my_shard);
    job->phase = WR_ZERO_REDUCING;
    if (wr_zero_quantized_grads(zero))
        wr_zero_quant_grad_end(zero, job);
    if (zero->nreplica == 1 || !n)
        return WEIR_OK;
    wr_zero_count_reduce(zero, true, 2 * n * zero->rsize * (uint64_t)(zero->nreplica - 1) / (uint64_t)zero->nreplica);
    if (take_kept(job, zero->requests.sum[job->section]))
        return weir_start(job->request);
    return weir_iallreduce(zero->replica, WEIR_IN_PLACE, job->data, n, (weir_type)zero->o.reduce_type, WEIR_SUM, &job->request);
}

/* Brings a reduced section to where it belongs. */
static void deliver(weir_zero *zero, struct wr_zero_job *job)
{
    weir_type type;
    void *grad = wr_zero_grad_of(zero, job->section, &type);
    uint64_t n = wr_zero_part(&zero->l.sections[job->section], zero->my_shard);
    if (wr_zero_reproducible(zero))
        wr_zero_repro_add(zero, job);
    else if (grad != job->data && !wr_zero_quant_grad_direct(zero))
        add(grad, type, job->data, (weir_type)zero->o.reduce_type, n, job->round == 0 && !job->extra);
    if (job->extra || job->round + 1 == zero->g.rounds)
        wr_zero_take_norms(zero, job->section);
    job->slot->reading--;
    wr_zero_slot_give(zero, job->slot);
}

/* Starts the second halves of reductions whose first are done, in order. */
static weir_status start_second(weir_zero *zero)
{
    struct wr_zero_grads *g = &zero->g;
    weir_status status = WEIR_OK;
    for (uint64_t i = g->head; i != g->tail && status == WEIR_OK; i++) {
        struct wr_zero_job *job = &g->jobs[i % WR_ZERO_JOBS];
        if (job->phase == WR_ZERO_IN_NODE) {
            if ((status = weir_test(&job->request)) != WEIR_OK)
                return status == WEIR_IN_PROGRESS ? WEIR_OK : status;
            if ((status = wr_zero_quant_grad_across(zero, job)) != WEIR_OK)
                return status;
        }
        if (job->phase == WR_ZERO_SCATTERING) {
            if ((status = weir_test(&job->request)) != WEIR_OK)
                return status == WEIR_IN_PROGRESS ? WEIR_OK : status;
            job->phase = WR_ZERO_SCATTERED;
        }
        if (job->phase == WR_ZERO_SCATTERED)
            status = reduce(zero, job);
    }
    return status;
}

static void end_job(weir_zero *zero)
{
    struct wr_zero_grads *g = &zero->g;
    struct wr_zero_job *job = &g->jobs[g->head++ % WR_ZERO_JOBS];
    wr_zero_flight_end(zero);
    wr_zero_trace_add(zero, WR_ZERO_DID_REDUCE, zero->l.sections[job->section].block, job->started, zero->l.sections[job->section].n * zero->rsize);
    deliver(zero, job);
}

weir_status wr_zero_reduce_progress(weir_zero *zero)
{
    struct wr_zero_grads *g = &zero->g;
    int64_t begin = wr_clock_ns();
    weir_status status = start_second(zero);
    while (status == WEIR_OK && g->head != g->tail) {
        struct wr_zero_job *job = &g->jobs[g->head % WR_ZERO_JOBS];
        if (job->phase != WR_ZERO_REDUCING || (status = weir_test(&job->request)) == WEIR_IN_PROGRESS)
            break;
        if (status == WEIR_OK)
            end_job(zero);
    }
    wr_zero_exposed(zero, begin);
    return status == WEIR_OK || status == WEIR_IN_PROGRESS ? WEIR_OK : wr_zero_comm_failed(zero, status);
}

weir_status wr_zero_reduce_oldest(weir_zero *zero)
{
    struct wr_zero_job *job = &zero->g.jobs[zero->g.head % WR_ZERO_JOBS];
    weir_status status = WEIR_OK;
    while (status == WEIR_OK && job->phase != WR_ZERO_REDUCING) {
        status = wr_zero_wait(zero, &job->request);
        if (status == WEIR_OK && job->phase == WR_ZERO_SCATTERING)
            job->phase = WR_ZERO_SCATTERED;
        if (status == WEIR_OK && (status = start_second(zero)) != WEIR_OK)
            status = wr_zero_comm_failed(zero, status);
    }
    if (status == WEIR_OK)
        status = wr_zero_wait(zero, &job->request);
    if (status == WEIR_OK)
        end_job(zero);
    return status;
}

void wr_zero_reduce_abandon(weir_zero *zero)
{
    struct wr_zero_grads *g = &zero->g;
    for (; g->head != g->tail; g->head++)
        weir_wait(&g->jobs[g->head % WR_ZERO_JOBS].request);
    for (int i = 0; i < WR_ZERO_ROWS; i++)
        free(g->rows[i]);
}

weir_status wr_zero_reduce_all(weir_zero *zero)
{
    weir_status status = WEIR_OK;
    while (status == WEIR_OK && zero->g.head != zero->g.tail)
        status = wr_zero_reduce_oldest(zero);
    return status;
}

weir_status wr_zero_reduce(weir_zero *zero, uint64_t section, struct wr_zero_slot *slot, bool extra)
{
    struct wr_zero_grads *g = &zero->g;
    const struct wr_zero_section *s = &zero->l.sections[section];
    uint64_t most = wr_zero_reproducible(zero) ? WR_ZERO_ROWS : wr_zero_quantized_grads(zero) ? WR_ZERO_QUANT_JOBS : WR_ZERO_JOBS;
    weir_status status = g->tail - g->head == most ? wr_zero_reduce_oldest(zero) : WEIR_OK;
    if (status != WEIR_OK)
        return status;
    struct wr_zero_job *job = &g->jobs[g->tail % WR_ZERO_JOBS];
    *job = (struct wr_zero_job){.section = section, .slot = slot, .data = slot->data + s->at * zero->gsize, .round = g->round,
                                .extra = extra, .started = wr_clock_ns()};
    if (zero->rsize != zero->gsize && !wr_zero_quantized_grads(zero))
        narrow(zero, job->data, s->n);
    slot->reading++;
    g->tail++;
    wr_zero_flight_begin(zero);
    status = scatter(zero, job);
    wr_zero_exposed(zero, job->started);
    return status == WEIR_OK ? WEIR_OK : wr_zero_comm_failed(zero, status);
}
