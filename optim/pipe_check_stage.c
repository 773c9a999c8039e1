/* SPDX-License-Identifier: BSD-3-Clause */
/* The checker, one stage by itself: everything in its list that does not depend on when messages come. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "optim/pipe.h"

/* What has been done, by micro-batch and chunk; one bit an instruction, B being I and W. */
#define DONE(op) (1u << (op))

/* Of a chunk. */
struct chunk_state {
    bool unsharded, reduced;
    int64_t weights; /* W and B done */
};

struct stage_check {
    const weir_pipe_lists *lists;
    int stage;
    int64_t index; /* the instruction that is looked at */
    const weir_pipe_instr *instr;
    uint16_t *done;
    struct chunk_state *chunk;
    weir_pipe_stage_report now, *peak;
    weir_error *err;
};

static uint16_t *done_of(const struct stage_check *c, int64_t micro, int64_t chunk)
{
    return &c->done[chunk * c->lists->microbatches + micro];
}

static WR_PRINTF(3, 4) weir_status refuse(const struct stage_check *c, weir_status status, const char *fmt, ...)
{
    char where[160], reason[300];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(reason, sizeof reason, fmt, ap);
    va_end(ap);
    return wr_error_set(c->err, status, NULL, "%s%s", wr_pipe_where(c->lists, c->stage, c->index, where, sizeof where), reason);
}

/* The stage of the neighbouring part (+1 or -1) of a chunk, -1 when there is none. */
static int neighbour(const struct stage_check *c, int chunk, int step)
{
    const weir_pipe_lists *l = c->lists;
    int64_t part = weir_pipe_part(l->placement, l->stages, c->stage, chunk) + step;
    return part < 0 || part >= l->stages * l->chunks ? -1 : wr_pipe_part_stage(l->placement, (int)l->stages, (int)part);
}

static int neighbour_chunk(const struct stage_check *c, int chunk, int step)
{
    const weir_pipe_lists *l = c->lists;
    return wr_pipe_part_chunk(l->placement, (int)l->stages, (int)weir_pipe_part(l->placement, l->stages, c->stage, chunk) + step);
}

/* Has the input of F (step -1), or the output gradient of I and B (step 1), come? */
static bool fed(const struct stage_check *c, int step)
{
    const weir_pipe_instr *i = c->instr;
    int from = neighbour(c, i->chunk, step);
    if (from < 0)
        return true;
    if (from == c->stage)
        return *done_of(c, i->micro, neighbour_chunk(c, i->chunk, step)) & DONE(step < 0 ? WEIR_PIPE_OP_F : WEIR_PIPE_OP_I);
    return *done_of(c, i->micro, i->chunk) & DONE(step < 0 ? WEIR_PIPE_OP_RECV_ACT : WEIR_PIPE_OP_RECV_GRAD);
}

static weir_status check_numbers(const struct stage_check *c)
{
    const weir_pipe_instr *i = c->instr;
    bool of_chunk = i->op >= WEIR_PIPE_OP_UNSHARD;
    if (!weir_pipe_op_name(i->op))
        return refuse(c, WEIR_ERR_INVALID, "there is no instruction %d", i->op);
    if (i->chunk < 0 || i->chunk >= c->lists->chunks)
        return refuse(c, WEIR_ERR_INVALID, "there are chunks 0 to %lld", (long long)c->lists->chunks - 1);
    if (of_chunk ? i->micro != -1 : i->micro < 0 || i->micro >= c->lists->microbatches)
        return refuse(c, WEIR_ERR_INVALID, of_chunk ? "it has no micro-batch (write -1, not %d)" : "there is no micro-batch %d", i->micro);
    if (!wr_pipe_is_send(i->op) && !wr_pipe_is_recv(i->op) && i->peer != -1)
        return refuse(c, WEIR_ERR_INVALID, "it has no other stage (write -1, not %d)", i->peer);
    return WEIR_OK;
}

static weir_status check_message(const struct stage_check *c)
{
    const weir_pipe_instr *i = c->instr;
    uint16_t done = *done_of(c, i->micro, i->chunk);
    bool onwards = i->op == WEIR_PIPE_OP_SEND_ACT || i->op == WEIR_PIPE_OP_RECV_GRAD;
    int peer = neighbour(c, i->chunk, onwards ? 1 : -1);
    if (peer < 0)
        return refuse(c, WEIR_ERR_INVALID, "it is the %s part of the layers", onwards ? "last" : "first");
    if (peer == c->stage)
        return refuse(c, WEIR_ERR_INVALID, "the %s part is on the same stage", onwards ? "next" : "previous");
    if (peer != i->peer)
        return refuse(c, WEIR_ERR_INVALID, "the %s part is on stage %d", onwards ? "next" : "previous", peer);
    if (i->op == WEIR_PIPE_OP_SEND_ACT && !(done & DONE(WEIR_PIPE_OP_F)))
        return refuse(c, WEIR_ERR_INVALID, "it stands before the F that makes the activation");
    if (i->op == WEIR_PIPE_OP_SEND_GRAD && !(done & DONE(WEIR_PIPE_OP_I)))
        return refuse(c, WEIR_ERR_INVALID, "it stands before the I or B that makes the gradient");
    return WEIR_OK;
}

static weir_status check_compute(struct stage_check *c)
{
    const weir_pipe_instr *i = c->instr;
    uint16_t done = *done_of(c, i->micro, i->chunk);
    struct chunk_state *chunk = &c->chunk[i->chunk];
    bool weights = i->op == WEIR_PIPE_OP_W || i->op == WEIR_PIPE_OP_B;
    if (i->op != WEIR_PIPE_OP_F && !(done & DONE(WEIR_PIPE_OP_F)))
        return refuse(c, WEIR_ERR_INVALID, "it stands before its F");
    if (i->op == WEIR_PIPE_OP_B && done & (DONE(WEIR_PIPE_OP_I) | DONE(WEIR_PIPE_OP_W)))
        return refuse(c, WEIR_ERR_INVALID, "its I or W was done already");
    if (i->op == WEIR_PIPE_OP_W && !(done & DONE(WEIR_PIPE_OP_I)))
        return refuse(c, WEIR_ERR_INVALID, "it stands before its I");
    if (i->op == WEIR_PIPE_OP_F && !fed(c, -1))
        return refuse(c, WEIR_ERR_INVALID, "its input has not come");
    if ((i->op == WEIR_PIPE_OP_I || i->op == WEIR_PIPE_OP_B) && !fed(c, 1))
        return refuse(c, WEIR_ERR_INVALID, "the gradient of its output has not come");
    if (i->op != WEIR_PIPE_OP_W && c->lists->zero && !chunk->unsharded)
        return refuse(c, WEIR_ERR_INVALID, "the parameters of the chunk are not gathered");
    if (i->op == WEIR_PIPE_OP_F)
        c->now.activations++;
    if (i->op == WEIR_PIPE_OP_I)
        c->now.deferred++;
    if (i->op == WEIR_PIPE_OP_B)
        *done_of(c, i->micro, i->chunk) |= DONE(WEIR_PIPE_OP_I) | DONE(WEIR_PIPE_OP_W);
    if (weights)
        c->now.gradients += chunk->weights++ == 0;
    if (c->lists->activations && c->now.activations > c->lists->activations[c->stage])
        return refuse(c, WEIR_ERR_LIMIT, "that makes %lld activations, and %lld are claimed to be the most",
                      (long long)c->now.activations, (long long)c->lists->activations[c->stage]);
    return WEIR_OK;
}

/* After the peaks were taken: what an instruction frees. */
static void release(struct stage_check *c)
{
    int op = c->instr->op;
    c->now.activations -= op == WEIR_PIPE_OP_W || op == WEIR_PIPE_OP_B;
    c->now.deferred -= op == WEIR_PIPE_OP_W;
    c->now.unsharded -= op == WEIR_PIPE_OP_RESHARD;
    c->now.gradients -= op == WEIR_PIPE_OP_REDUCE_GRAD;
}

static weir_status check_sharding(struct stage_check *c)
{
    struct chunk_state *chunk = &c->chunk[c->instr->chunk];
    switch (c->instr->op) {
    case WEIR_PIPE_OP_UNSHARD:
        if (!c->lists->zero)
            return refuse(c, WEIR_ERR_INVALID, "parameters are not sharded with zero 0");
        if (chunk->unsharded)
            return refuse(c, WEIR_ERR_INVALID, "the parameters of the chunk are gathered already");
        chunk->unsharded = true;
        c->now.unsharded++;
        if (c->lists->max_unsharded && c->now.unsharded > c->lists->max_unsharded)
            return refuse(c, WEIR_ERR_LIMIT, "that makes %lld gathered chunks, and %lld are claimed to be the most",
                          (long long)c->now.unsharded, (long long)c->lists->max_unsharded);
        break;
    case WEIR_PIPE_OP_RESHARD:
        if (!chunk->unsharded)
            return refuse(c, WEIR_ERR_INVALID, "the parameters of the chunk are not gathered");
        if (c->lists->zero != 3)
            return refuse(c, WEIR_ERR_INVALID, "with zero %lld gathered parameters stay", (long long)c->lists->zero);
        chunk->unsharded = false;
        break;
    default:
        if (chunk->reduced)
            return refuse(c, WEIR_ERR_INVALID, "the gradients of the chunk were reduced before");
        if (chunk->weights < c->lists->microbatches)
            return refuse(c, WEIR_ERR_INVALID, "%lld of %lld W or B of the chunk stand before it", (long long)chunk->weights,
                          (long long)c->lists->microbatches);
        chunk->reduced = true;
    }
    return WEIR_OK;
}

static weir_status check_instr(struct stage_check *c)
{
    int op = c->instr->op;
    weir_status status = check_numbers(c);
    if (status != WEIR_OK)
        return status;
    if (op >= WEIR_PIPE_OP_UNSHARD) {
        status = check_sharding(c);
    } else {
        if (*done_of(c, c->instr->micro, c->instr->chunk) & DONE(op))
            return refuse(c, WEIR_ERR_INVALID, "it was done before");
        status = op <= WEIR_PIPE_OP_B ? check_compute(c) : check_message(c);
        *done_of(c, c->instr->micro, c->instr->chunk) |= DONE(op);
    }
    c->peak->activations = WR_MAX(c->peak->activations, c->now.activations);
    c->peak->deferred = WR_MAX(c->peak->deferred, c->now.deferred);
    c->peak->unsharded = WR_MAX(c->peak->unsharded, c->now.unsharded);
    c->peak->gradients = WR_MAX(c->peak->gradients, c->now.gradients);
    if (status == WEIR_OK)
        release(c);
    return status;
}

/* The end of the list: is anything missing? */
static weir_status check_end(struct stage_check *c)
{
    const weir_pipe_lists *l = c->lists;
    for (int chunk = 0; chunk < l->chunks; chunk++) {
        int next = neighbour(c, chunk, 1), before = neighbour(c, chunk, -1);
        unsigned wanted = DONE(WEIR_PIPE_OP_F) | DONE(WEIR_PIPE_OP_I) | DONE(WEIR_PIPE_OP_W);
        if (next >= 0 && next != c->stage)
            wanted |= DONE(WEIR_PIPE_OP_SEND_ACT) | DONE(WEIR_PIPE_OP_RECV_GRAD);
        if (before >= 0 && before != c->stage)
            wanted |= DONE(WEIR_PIPE_OP_SEND_GRAD) | DONE(WEIR_PIPE_OP_RECV_ACT);
        for (int micro = 0; micro < l->microbatches; micro++) {
            unsigned missing = wanted & ~(unsigned)*done_of(c, micro, chunk);
            if (missing)
                return wr_error_set(c->err, WEIR_ERR_INVALID, NULL, "stage %d, end of the list: %s of micro-batch %d, chunk %d is missing",
                                    c->stage, weir_pipe_op_name(__builtin_ctz(missing)), micro, chunk);
        }
        if (!c->chunk[chunk].reduced || (l->zero == 3 && c->chunk[chunk].unsharded))
            return wr_error_set(c->err, WEIR_ERR_INVALID, NULL, "stage %d, end of the list: %s of chunk %d is missing", c->stage,
                                c->chunk[chunk].reduced ? "RESHARD" : "REDUCE_GRAD", chunk);
    }
    return WEIR_OK;
}

weir_status wr_pipe_check_stage(const weir_pipe_lists *lists, int stage, weir_pipe_stage_report *report, weir_error *err)
{
    struct stage_check c = {.lists = lists, .stage = stage, .peak = report, .err = err};
    size_t cells = (size_t)(lists->chunks * lists->microbatches);
    weir_status status = WEIR_OK;
    c.done = calloc(cells, sizeof *c.done);
    c.chunk = calloc((size_t)lists->chunks, sizeof *c.chunk);
    if (!c.done || !c.chunk)
        status = wr_error_memory(err, cells * sizeof *c.done, "the check of a stage");
    for (; status == WEIR_OK && c.index < lists->lengths[stage]; c.index++) {
        c.instr = &lists->instrs[stage][c.index];
        status = check_instr(&c);
    }
    if (status == WEIR_OK)
        status = check_end(&c);
    free(c.chunk);
    free(c.done);
    return status;
}
