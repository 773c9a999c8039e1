/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Persistent requests: what moves between the same places in every step is set up when the engine is made, section by section, and only
 * started in the step; ranks of a node then work on each other's memory. That are the parameters that stages 1 and 2 distribute, the
 * gradients that are reduced where the model keeps them (once a step), and the fences of stage 3.
 */
#include <stdlib.h>

#include "base/compiler.h"
#include "base/error.h"
#include "optim/zero.h"

/* Gradients that every step reduces at one place, in their own way. */
static bool at_one_place(const weir_zero *zero)
{
    return zero->o.reduce == WEIR_ZERO_REDUCE_ONCE && !wr_zero_reproducible(zero);
}

static weir_status make_scatter(weir_zero *zero, const struct wr_zero_section *s, void *data, weir_request **request)
{
    weir_type type = (weir_type)zero->o.reduce_type;
    if (zero->nshard == 1 || wr_zero_quantized_grads(zero))
        return WEIR_OK;
    return s->bounds ? weir_reduce_scatterv_init(zero->shard, WEIR_IN_PLACE, data, s->counts, type, WEIR_SUM, request)
                     : weir_reduce_scatter_init(zero->shard, WEIR_IN_PLACE, data, s->per, type, WEIR_SUM, request);
}

static weir_status make_gather(weir_zero *zero, const struct wr_zero_section *s, weir_request **request)
{
    weir_type type = (weir_type)zero->o.param_type;
    void *all = wr_zero_section_params(zero, s);
    return s->bounds ? weir_allgatherv_init(zero->shard, WEIR_IN_PLACE, all, s->counts, NULL, type, request)
                     : weir_allgather_init(zero->shard, WEIR_IN_PLACE, all, s->per, type, request);
}

static weir_status make_section(weir_zero *zero, uint64_t section)
{
    const struct wr_zero_section *s = &zero->l.sections[section];
    struct wr_zero_requests *r = &zero->requests;
    uint64_t n = wr_zero_part(s, zero->my_shard);
    weir_status status = WEIR_OK;
    weir_type type;
    if (zero->o.stage < 3 && zero->nshard > 1)
        status = make_gather(zero, s, &zero->param_requests[section]);
    if (status != WEIR_OK || !s->trainable || !at_one_place(zero))
        return status;
    void *data = wr_zero_grad_of(zero, section, &type);
    status = make_scatter(zero, s, data, &r->scatter[section]);
    if (status == WEIR_OK && zero->nreplica > 1 && n)
        status = weir_allreduce_init(zero->replica, WEIR_IN_PLACE, data, n, type, WEIR_SUM, &r->sum[section]);
    return status;
}

weir_status wr_zero_requests_prepare(weir_zero *zero)
{
    uint64_t n = zero->l.nsections + 1;
    zero->param_requests = calloc(n, sizeof *zero->param_requests);
    zero->requests.scatter = calloc(n, sizeof *zero->requests.scatter);
    zero->requests.sum = calloc(n, sizeof *zero->requests.sum);
    if (zero->param_requests && zero->requests.scatter && zero->requests.sum)
        return WEIR_OK;
    return wr_error_memory(&zero->error, 3 * n * sizeof(weir_request *), "the requests of an engine");
}

weir_status wr_zero_requests_create(weir_zero *zero)
{
    weir_status status = WEIR_OK;
    for (uint64_t s = 0; status == WEIR_OK && s < zero->l.nsections; s++)
        status = make_section(zero, s);
    for (int i = 0; status == WEIR_OK && zero->o.stage == 3 && zero->nshard > 1 && i < 2; i++)
        status = weir_barrier_init(zero->shard, &zero->fences[i]);
    return status == WEIR_OK ? WEIR_OK : wr_zero_comm_failed(zero, status);
}

void wr_zero_requests_destroy(weir_zero *zero)
{
    struct wr_zero_requests *r = &zero->requests;
    for (uint64_t s = 0; r->scatter && r->sum && zero->param_requests && s < zero->l.nsections; s++) {
        weir_wait(&zero->param_requests[s]);
        weir_request_free(&zero->param_requests[s]);
        weir_request_free(&r->scatter[s]);
        weir_request_free(&r->sum[s]);
    }
    for (int i = 0; i < 2; i++) {
        weir_wait(&zero->fences[i]);
        weir_request_free(&zero->fences[i]);
    }
    free(zero->param_requests);
    free(r->scatter);
    free(r->sum);
}
