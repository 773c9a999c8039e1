/* SPDX-License-Identifier: BSD-3-Clause */
/* Executes the list of a stage. */
#include "base/clock.h"
#include "base/error.h"
#include "optim/pipe_engine_impl.h"

/* What has been counted in this run. */
struct run {
    weir_pipe_engine *e;
    int64_t activations, unsharded;
};

/* A callback's failure, as an error of this stage. */
static weir_status judge(const weir_pipe_engine *e, const char *what, const weir_pipe_instr *i, weir_status status, weir_error *err)
{
    char text[96];
    if (status == WEIR_OK)
        return WEIR_OK;
    wr_error_set(err, status, NULL, "stage %d: the callback %s of %s: %s", e->stage, what, weir_pipe_instr_text(i, text, sizeof text),
                 weir_status_message(status));
    wr_error_at(err, e->ranks[e->stage], NULL);
    return status;
}

static weir_status call_shard(weir_pipe_engine *e, const weir_pipe_instr *i, weir_error *err)
{
    int64_t begin = wr_clock_ns();
    weir_status status = e->calls.shard ? e->calls.shard(e->calls.user, (weir_pipe_op)i->op, i->chunk) : WEIR_OK;
    e->report.compute_ns += wr_clock_ns() - begin;
    return judge(e, "shard", i, status, err);
}

static weir_status call_ready(weir_pipe_engine *e, bool *started, const weir_pipe_instr *i, weir_error *err)
{
    if (!*started)
        return WEIR_OK;
    *started = false;
    int64_t begin = wr_clock_ns();
    weir_status status = e->calls.ready ? e->calls.ready(e->calls.user, (weir_pipe_op)i->op, i->chunk) : WEIR_OK;
    e->report.wait_ns += wr_clock_ns() - begin;
    return judge(e, "ready", i, status, err);
}

static void *pointer(const weir_pipe_engine *e, struct wr_pipe_ref ref)
{
    return ref.pool < 0 ? NULL : (unsigned char *)weir_mem_ptr(e->data) + wr_pipe_offset(&e->flow, ref);
}

static weir_status compute(struct run *r, const weir_pipe_instr *i, struct wr_pipe_ref result, weir_error *err)
{
    weir_pipe_engine *e = r->e;
    const struct wr_pipe_item *item = wr_pipe_item(&e->flow, i->chunk, i->micro);
    bool forward = i->op == WEIR_PIPE_OP_F, input = i->op == WEIR_PIPE_OP_I || i->op == WEIR_PIPE_OP_B;
    weir_pipe_work work = {.micro = i->micro, .chunk = i->chunk,
                           .part = weir_pipe_part(e->lists.placement, e->lists.stages, e->stage, i->chunk)};
    weir_pipe_instr unshard = {.op = WEIR_PIPE_OP_UNSHARD, .micro = -1, .chunk = i->chunk, .peer = -1};
    weir_status status = WEIR_OK;
    if (forward || input)
        status = call_ready(e, &e->chunk[i->chunk].gathering, &unshard, err);
    if (status != WEIR_OK)
        return status;
    work.input = pointer(e, item->in);
    work.output = forward ? pointer(e, result) : NULL;
    work.grad_output = forward ? NULL : pointer(e, item->dout);
    work.grad_input = input ? pointer(e, result) : NULL;
    r->activations += forward;
    e->report.activations = WR_MAX(e->report.activations, r->activations);
    int64_t begin = wr_clock_ns();
    status = e->calls.compute(e->calls.user, (weir_pipe_op)i->op, &work);
    e->report.compute_ns += wr_clock_ns() - begin;
    r->activations -= i->op == WEIR_PIPE_OP_W || i->op == WEIR_PIPE_OP_B;
    return judge(e, "compute", i, status, err);
}

static weir_status shard(struct run *r, const weir_pipe_instr *i, weir_error *err)
{
    weir_pipe_engine *e = r->e;
    struct wr_pipe_chunk *chunk = &e->chunk[i->chunk];
    weir_pipe_instr unshard = {.op = WEIR_PIPE_OP_UNSHARD, .micro = -1, .chunk = i->chunk, .peer = -1};
    weir_status status = WEIR_OK;
    if (i->op == WEIR_PIPE_OP_RESHARD) { /* it may never have been used */
        status = call_ready(e, &chunk->gathering, &unshard, err);
        r->unsharded--;
    } else if (i->op == WEIR_PIPE_OP_UNSHARD) {
        chunk->gathering = true;
        r->unsharded++;
        e->report.unsharded = WR_MAX(e->report.unsharded, r->unsharded);
    } else {
        chunk->reducing = true;
    }
    return status == WEIR_OK ? call_shard(e, i, err) : status;
}

/* The request of a buffer that is sent. */
static weir_request **request_of(weir_pipe_engine *e, struct wr_pipe_ref ref)
{
    return &e->request[ref.pool - POOL_OUT_ACT][ref.index];
}

static weir_status execute(struct run *r, const weir_pipe_instr *i, weir_error *err)
{
    weir_pipe_engine *e = r->e;
    struct wr_pipe_ref taken, given[2];
    weir_status status = WEIR_OK;
    wr_pipe_flow_before(&e->flow, i, &taken);
    if (taken.pool >= POOL_OUT_ACT) /* it may still be being sent */
        status = wr_pipe_complete(e, request_of(e, taken), err);
    else if (wr_pipe_is_recv(i->op))
        status = wr_pipe_receive(e, taken.pool, err);
    if (status != WEIR_OK)
        return status;
    if (i->op <= WEIR_PIPE_OP_B) {
        status = compute(r, i, taken, err);
    } else if (wr_pipe_is_send(i->op)) {
        const struct wr_pipe_item *item = wr_pipe_item(&e->flow, i->chunk, i->micro);
        struct wr_pipe_ref from = i->op == WEIR_PIPE_OP_SEND_ACT ? item->out : item->din;
        status = wr_pipe_send(e, i, from, request_of(e, from), err);
    } else if (i->op >= WEIR_PIPE_OP_UNSHARD) {
        status = shard(r, i, err);
    }
    wr_pipe_flow_after(&e->flow, i, given);
    for (int k = 0; k < 2 && status == WEIR_OK; k++)
        if (given[k].pool >= 0 && given[k].pool < CHANNELS)
            status = wr_pipe_grant(e, given[k].pool, err);
    return status;
}

/* Messages move on while this stage computes only when their transport is asked now and then. */
static weir_status progress(weir_pipe_engine *e, weir_error *err)
{
    for (int kind = 0; kind < 2; kind++)
        for (int i = 0; i < e->flow.pool[POOL_OUT_ACT + kind].n; i++) {
            weir_request **request = &e->request[kind][i];
            weir_status status = *request ? weir_test(request) : WEIR_OK;
            if (status != WEIR_OK && status != WEIR_IN_PROGRESS)
                return wr_pipe_comm_error(e, status, err);
        }
    return WEIR_OK;
}

/* What is still under way at the end of the list. */
static weir_status finish(weir_pipe_engine *e, weir_error *err)
{
    weir_status status = WEIR_OK;
    for (int c = 0; status == WEIR_OK && c < e->lists.chunks; c++) {
        weir_pipe_instr reduce = {.op = WEIR_PIPE_OP_REDUCE_GRAD, .micro = -1, .chunk = c, .peer = -1};
        status = call_ready(e, &e->chunk[c].reducing, &reduce, err);
    }
    for (int kind = 0; kind < 2; kind++)
        for (int i = 0; status == WEIR_OK && i < e->flow.pool[POOL_OUT_ACT + kind].n; i++)
            status = wr_pipe_complete(e, &e->request[kind][i], err);
    return status;
}

static weir_status run_list(weir_pipe_engine *e, weir_error *err)
{
    struct run r = {.e = e};
    weir_status status = wr_pipe_heard(e, err);
    for (int64_t n = 0; status == WEIR_OK && n < e->lists.lengths[e->stage]; n++) {
        const weir_pipe_instr *instr = &e->lists.instrs[e->stage][n];
        status = execute(&r, instr, err);
        if (status == WEIR_OK)
            status = progress(e, err);
        if (status == WEIR_OK && e->calls.executed)
            e->calls.executed(e->calls.user, n, instr);
    }
    return status == WEIR_OK ? finish(e, err) : status;
}

weir_status weir_pipe_engine_run(weir_pipe_engine *e, weir_error *error)
{
    int64_t begin = wr_clock_ns();
    uint64_t buffer_bytes = e->report.buffer_bytes;
    weir_status status = e->error.status;
    if (status == WEIR_OK) {
        e->report = (weir_pipe_engine_report){.buffer_bytes = buffer_bytes};
        wr_error_clear(&e->error);
        status = run_list(e, &e->error);
        e->report.total_ns = wr_clock_ns() - begin;
        if (status != WEIR_OK) {
            e->error.status = status;
            wr_pipe_tell(e, status);
        }
    }
    if (status != WEIR_OK && error)
        *error = e->error;
    return status;
}
