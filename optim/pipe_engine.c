/* SPDX-License-Identifier: BSD-3-Clause */
/* Making and ending pipeline engines. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "optim/agree.h"
#include "optim/pipe_engine_impl.h"

/* ---- what each rank does alone ---- */

static weir_status read_ranks(weir_pipe_engine *e, const int *ranks, weir_error *err)
{
    int size = weir_comm_size(e->comm), me = weir_comm_rank(e->comm);
    e->stage = -1;
    e->ranks = calloc((size_t)e->lists.stages, sizeof *e->ranks);
    if (!e->ranks)
        return wr_error_memory(err, (size_t)e->lists.stages * sizeof *e->ranks, "the ranks of a pipeline");
    for (int s = 0; s < e->lists.stages; s++) {
        e->ranks[s] = ranks ? ranks[s] : s;
        if (e->ranks[s] < 0 || e->ranks[s] >= size)
            return wr_error_set(err, WEIR_ERR_INVALID, "each stage is one rank", "stage %d would be rank %d of %d", s, e->ranks[s], size);
        for (int t = 0; t < s; t++)
            if (e->ranks[t] == e->ranks[s])
                return wr_error_set(err, WEIR_ERR_INVALID, "each stage is one rank", "stages %d and %d are both rank %d", t, s, e->ranks[s]);
        if (e->ranks[s] == me)
            e->stage = s;
    }
    return e->stage >= 0 ? WEIR_OK
                         : wr_error_set(err, WEIR_ERR_INVALID, "give each rank the ranks of its own pipeline",
                                        "rank %d is no stage of the %lld of the pipeline", me, (long long)e->lists.stages);
}

static weir_status read_options(weir_pipe_engine *e, const weir_pipe_engine_options *given, const weir_pipe_callbacks *calls, weir_error *err)
{
    weir_pipe_engine_options o = WEIR_PIPE_ENGINE_OPTIONS_INIT;
    if (!given || !calls)
        return wr_error_set(err, WEIR_ERR_INVALID, "start from WEIR_PIPE_ENGINE_OPTIONS_INIT and WEIR_PIPE_CALLBACKS_INIT",
                            "there are no %s", given ? "callbacks" : "options");
    memcpy(&o, given, WR_MIN(given->size, sizeof o));
    memcpy(&e->calls, calls, WR_MIN(calls->size, sizeof e->calls));
    if (!e->calls.compute)
        return wr_error_set(err, WEIR_ERR_INVALID, "set callbacks.compute", "nobody computes");
    if (!o.activation_bytes)
        return wr_error_set(err, WEIR_ERR_INVALID, "set options.activation_bytes", "activations have 0 bytes");
    e->bytes[0] = o.activation_bytes;
    e->bytes[1] = o.gradient_bytes ? o.gradient_bytes : o.activation_bytes;
    return read_ranks(e, o.ranks, err);
}

/* Buffers of a channel beside those in use: what the lists say, or as many as a simulation can make use of. */
static weir_status choose_window(weir_pipe_engine *e, weir_error *err)
{
    weir_pipe_report report = {.size = sizeof report};
    weir_pipe_result best = {.size = sizeof best}, with = {.size = sizeof with};
    weir_pipe_costs costs = WEIR_PIPE_COSTS_INIT;
    weir_pipe_lists l = e->lists;
    weir_status status = weir_pipe_check(&l, &report, NULL, err);
    costs.comm = 1;
    e->window = (int)l.buffers;
    if (status != WEIR_OK || l.buffers)
        return status;
    status = weir_pipe_simulate(&l, &costs, NULL, NULL, &best, err);
    int64_t low = WR_MAX(report.buffers_least, 2), high = WR_MAX(report.buffers_enough, low);
    while (status == WEIR_OK && low < high) {
        l.buffers = (low + high) / 2;
        status = weir_pipe_simulate(&l, &costs, NULL, NULL, &with, err);
        if (with.time <= best.time * (1 + 1e-9))
            high = l.buffers;
        else
            low = l.buffers + 1;
    }
    e->window = (int)high;
    return status;
}

/* Where the messages to a stage go. */
static weir_status plan_sends(weir_pipe_engine *e, int peer, weir_error *err)
{
    struct wr_pipe_flow there;
    weir_status status = wr_pipe_flow_plan(&there, &e->lists, peer, e->window, e->bytes, err);
    for (int c = 0; status == WEIR_OK && c < CHANNELS; c++) {
        struct wr_pipe_out *out = &e->out[c];
        if (there.in[c].peer != e->stage || out->offset)
            continue;
        out->messages = there.in[c].messages;
        out->offset = calloc((size_t)out->messages, sizeof *out->offset);
        if (!out->offset)
            status = wr_error_memory(err, (size_t)out->messages * sizeof *out->offset, "the channels of a pipeline");
        for (int64_t k = 0; status == WEIR_OK && k < out->messages; k++)
            out->offset[k] = wr_pipe_offset(&there, (struct wr_pipe_ref){c, there.in[c].slot[k]});
    }
    wr_pipe_flow_free(&there);
    return status;
}

static weir_status prepare(weir_pipe_engine *e, const weir_pipe_engine_options *options, const weir_pipe_callbacks *calls, weir_error *err)
{
    int stages = (int)e->lists.stages;
    weir_status status = read_options(e, options, calls, err);
    if (status == WEIR_OK)
        status = choose_window(e, err);
    if (status == WEIR_OK)
        status = wr_pipe_flow_plan(&e->flow, &e->lists, e->stage, e->window, e->bytes, err);
    if (status == WEIR_OK && stages > 1)
        status = plan_sends(e, (e->stage + 1) % stages, err);
    if (status == WEIR_OK && stages > 2)
        status = plan_sends(e, (e->stage + stages - 1) % stages, err);
    if (status != WEIR_OK)
        return status;
    e->chunk = calloc((size_t)e->lists.chunks, sizeof *e->chunk);
    for (int kind = 0; kind < 2; kind++)
        e->request[kind] = calloc((size_t)e->flow.pool[POOL_OUT_ACT + kind].n + 1, sizeof **e->request);
    return e->chunk && e->request[0] && e->request[1] ? WEIR_OK : wr_error_memory(err, sizeof *e->chunk, "a pipeline engine");
}

/* ---- what all do together ---- */

/* What must be the same at all ranks. */
static uint64_t hash_lists(const weir_pipe_engine *e)
{
    const weir_pipe_lists *l = &e->lists;
    const int64_t numbers[] = {l->stages, l->microbatches, l->chunks, l->placement, e->window, (int64_t)e->bytes[0], (int64_t)e->bytes[1]};
    uint64_t h = wr_agree_hash(WR_AGREE_HASH, numbers, sizeof numbers);
    for (int64_t s = 0; s < l->stages; s++)
        h = wr_agree_hash(h, l->instrs[s], (size_t)l->lengths[s] * sizeof **l->instrs);
    return h;
}

/* Ends the same way on all ranks. */
static weir_status agree(const weir_pipe_engine *e, weir_status mine, weir_error *err)
{
    return wr_agree(e->comm, mine, mine == WEIR_OK ? hash_lists(e) : 0, "pipeline engine", err);
}

static weir_status set_up(weir_pipe_engine *e, weir_error *err)
{
    uint64_t bytes = wr_pipe_flow_bytes(&e->flow);
    weir_status status = weir_mem_alloc(e->comm, bytes, 0, &e->data);
    if (status != WEIR_OK)
        return wr_pipe_comm_error(e, status, err);
    e->report.buffer_bytes = bytes;
    for (int c = 0; status == WEIR_OK && c < CHANNELS; c++)
        if (e->flow.in[c].peer >= 0)
            status = wr_pipe_grant(e, c, err);
    return status;
}

weir_status weir_pipe_engine_create(weir_comm *comm, const weir_pipe *pipe, const weir_pipe_engine_options *options,
                                    const weir_pipe_callbacks *callbacks, weir_pipe_engine **engine, weir_error *error)
{
    weir_pipe_engine *e = calloc(1, sizeof *e), none = {.comm = comm};
    if (!e)
        return agree(&none, wr_error_memory(error, sizeof *e, "a pipeline engine"), error);
    e->comm = comm;
    e->lists.size = sizeof e->lists;
    weir_pipe_get_lists(pipe, &e->lists);
    weir_status status = agree(e, prepare(e, options, callbacks, error), error);
    if (status == WEIR_OK)
        status = set_up(e, error);
    if (status == WEIR_OK)
        *engine = e;
    else
        weir_pipe_engine_destroy(e);
    return status;
}

void weir_pipe_engine_get_report(const weir_pipe_engine *engine, weir_pipe_engine_report *report)
{
    size_t size = WR_MIN(report->size, sizeof *report);
    memcpy(report, &engine->report, size);
    report->size = size;
    if (size >= offsetof(weir_pipe_engine_report, activations))
        report->stage = engine->stage;
}

/* Requests that are still open read memory that is about to go. Their errors have been told or do not matter any more. */
static void complete_all(weir_pipe_engine *e)
{
    for (int c = 0; c < CHANNELS; c++)
        weir_wait(&e->flow.in[c].request);
    for (int kind = 0; kind < 2; kind++)
        for (int i = 0; e->request[kind] && i < e->flow.pool[POOL_OUT_ACT + kind].n; i++)
            weir_wait(&e->request[kind][i]);
}

void weir_pipe_engine_destroy(weir_pipe_engine *e)
{
    if (!e)
        return;
    complete_all(e);
    if (e->data)
        weir_mem_free(e->data);
    for (int c = 0; c < CHANNELS; c++)
        free(e->out[c].offset);
    wr_pipe_flow_free(&e->flow);
    free(e->request[0]);
    free(e->request[1]);
    free(e->chunk);
    free(e->ranks);
    free(e);
}
