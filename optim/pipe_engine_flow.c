/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which buffer each instruction of a stage uses. The same rules run twice: over the whole list before anything exists, which
 * tells how many buffers there must be and where each message goes, and then instruction by instruction.
 *
 * F writes into a buffer that the next part reads when that is on this stage, else into one that is sent; I and B likewise for the
 * part before. Inputs and output gradients are kept until W or B.
 */
#include <stdlib.h>

#include "base/error.h"
#include "optim/pipe_engine_impl.h"

static const struct wr_pipe_ref none = {-1, 0};

int wr_pipe_channel(const weir_pipe_lists *lists, int stage, const weir_pipe_instr *instr)
{
    bool send = wr_pipe_is_send(instr->op);
    int from = send ? stage : instr->peer, to = send ? instr->peer : stage;
    int direction = to == (from + 1) % lists->stages ? 0 : 1;
    return direction * 2 + (instr->op == WEIR_PIPE_OP_SEND_GRAD || instr->op == WEIR_PIPE_OP_RECV_GRAD);
}

/* The stage and chunk of the neighbouring part (+1 or -1) of a chunk; -1 when there is none. */
static int neighbour(const struct wr_pipe_flow *f, int chunk, int step, int *chunk_there)
{
    const weir_pipe_lists *l = f->lists;
    int64_t part = weir_pipe_part(l->placement, l->stages, f->stage, chunk) + step;
    if (part < 0 || part >= l->stages * l->chunks)
        return -1;
    *chunk_there = wr_pipe_part_chunk(l->placement, (int)l->stages, (int)part);
    return wr_pipe_part_stage(l->placement, (int)l->stages, (int)part);
}

static int pop(struct wr_pipe_flow *f, int id)
{
    struct wr_pipe_pool *p = &f->pool[id];
    if (!p->nfree) /* only while planning */
        return p->n++;
    int index = p->free[0];
    p->nfree--;
    for (int i = 0; i < p->nfree; i++)
        p->free[i] = p->free[i + 1];
    return index;
}

/* While planning: says to which buffers the next messages of a channel go. */
static void assign(struct wr_pipe_flow *f, int channel)
{
    struct wr_pipe_in *in = &f->in[channel];
    while (f->planning && in->granted - in->received < (uint64_t)f->window && in->granted < (uint64_t)in->messages)
        in->slot[in->granted++] = pop(f, channel);
}

static struct wr_pipe_ref give(struct wr_pipe_flow *f, struct wr_pipe_ref *ref)
{
    struct wr_pipe_ref given = *ref;
    *ref = none;
    if (given.pool < 0)
        return given;
    if (given.pool < CHANNELS && !f->planning) {
        f->in[given.pool].taken[given.index] = false;
        return given;
    }
    struct wr_pipe_pool *p = &f->pool[given.pool];
    p->free[p->nfree++] = given.index;
    if (given.pool < CHANNELS)
        assign(f, given.pool);
    return given;
}

/* Takes the buffer for the result of F (step 1) or of I and B (step -1), and hands it to the neighbouring part if that is here. */
static struct wr_pipe_ref take_result(struct wr_pipe_flow *f, const weir_pipe_instr *i, int step)
{
    struct wr_pipe_item *item = wr_pipe_item(f, i->chunk, i->micro);
    int chunk, peer = neighbour(f, i->chunk, step, &chunk);
    struct wr_pipe_ref ref = none;
    if (peer < 0)
        return ref;
    bool local = peer == f->stage;
    ref.pool = (local ? POOL_LOCAL_ACT : POOL_OUT_ACT) + (step < 0);
    ref.index = pop(f, ref.pool);
    *(step > 0 ? &item->out : &item->din) = ref;
    if (local) {
        struct wr_pipe_item *next = wr_pipe_item(f, chunk, i->micro);
        *(step > 0 ? &next->in : &next->dout) = ref;
    }
    return ref;
}

void wr_pipe_flow_before(struct wr_pipe_flow *f, const weir_pipe_instr *i, struct wr_pipe_ref *taken)
{
    *taken = none;
    if (i->op == WEIR_PIPE_OP_F) {
        *taken = take_result(f, i, 1);
    } else if (i->op == WEIR_PIPE_OP_I || i->op == WEIR_PIPE_OP_B) {
        *taken = take_result(f, i, -1);
    } else if (wr_pipe_is_recv(i->op)) {
        struct wr_pipe_item *item = wr_pipe_item(f, i->chunk, i->micro);
        int channel = wr_pipe_channel(f->lists, f->stage, i);
        struct wr_pipe_in *in = &f->in[channel];
        *taken = (struct wr_pipe_ref){channel, in->slot[in->received++ % (uint64_t)in->messages]};
        *(i->op == WEIR_PIPE_OP_RECV_ACT ? &item->in : &item->dout) = *taken;
        assign(f, channel);
    }
}

void wr_pipe_flow_after(struct wr_pipe_flow *f, const weir_pipe_instr *i, struct wr_pipe_ref given[2])
{
    given[0] = given[1] = none;
    if (i->micro < 0)
        return;
    struct wr_pipe_item *item = wr_pipe_item(f, i->chunk, i->micro);
    if (i->op == WEIR_PIPE_OP_SEND_ACT) {
        given[0] = give(f, &item->out);
    } else if (i->op == WEIR_PIPE_OP_SEND_GRAD) {
        given[0] = give(f, &item->din);
    } else if (i->op == WEIR_PIPE_OP_W || i->op == WEIR_PIPE_OP_B) {
        given[0] = give(f, &item->in);
        given[1] = give(f, &item->dout);
    }
}

/* Counts the messages of the channels and makes their tables. */
static weir_status find_channels(struct wr_pipe_flow *f, weir_error *err)
{
    const weir_pipe_instr *list = f->lists->instrs[f->stage];
    for (int c = 0; c < CHANNELS; c++)
        f->in[c].peer = -1;
    for (int64_t i = 0; i < f->lists->lengths[f->stage]; i++)
        if (wr_pipe_is_recv(list[i].op)) {
            struct wr_pipe_in *in = &f->in[wr_pipe_channel(f->lists, f->stage, &list[i])];
            in->peer = list[i].peer;
            in->messages++;
        }
    for (int c = 0; c < CHANNELS; c++) {
        f->in[c].slot = calloc((size_t)f->in[c].messages + 1, sizeof *f->in[c].slot);
        f->in[c].taken = calloc((size_t)(f->in[c].messages + f->window) + 1, sizeof *f->in[c].taken);
        if (!f->in[c].slot || !f->in[c].taken)
            return wr_error_memory(err, (size_t)f->in[c].messages * sizeof *f->in[c].slot, "the channels of a pipeline");
    }
    return WEIR_OK;
}

/* After planning: all buffers are free, and have their places. */
static void lay_out(struct wr_pipe_flow *f, const uint64_t bytes[2])
{
    uint64_t at = ALIGN;
    for (int id = 0; id < POOLS; id++) {
        struct wr_pipe_pool *p = &f->pool[id];
        int kind = id < CHANNELS ? id % 2 : id == POOL_LOCAL_GRAD || id == POOL_OUT_GRAD;
        p->n += p->n && id >= POOL_OUT_ACT; /* one more is written while another is still being sent */
        p->bytes = (bytes[kind] + ALIGN - 1) / ALIGN * ALIGN;
        p->base = at;
        at += (uint64_t)p->n * p->bytes;
        for (p->nfree = 0; p->nfree < p->n; p->nfree++)
            p->free[p->nfree] = p->nfree;
    }
    for (int c = 0; c < CHANNELS; c++)
        f->in[c].granted = f->in[c].received = 0;
}

weir_status wr_pipe_flow_plan(struct wr_pipe_flow *f, const weir_pipe_lists *lists, int stage, int window, const uint64_t bytes[2],
                              weir_error *err)
{
    size_t items = (size_t)(lists->chunks * lists->microbatches);
    *f = (struct wr_pipe_flow){.lists = lists, .stage = stage, .window = window, .planning = true};
    weir_status status = find_channels(f, err);
    f->item = calloc(items, sizeof *f->item);
    bool got = f->item != NULL;
    for (int id = 0; id < POOLS; id++) {
        f->pool[id].free = calloc(items + (size_t)window + 2, sizeof *f->pool[id].free);
        got = got && f->pool[id].free;
    }
    if (status != WEIR_OK || !got)
        return status != WEIR_OK ? status : wr_error_memory(err, items * sizeof *f->item, "the buffers of a pipeline");
    for (size_t i = 0; i < items; i++)
        f->item[i] = (struct wr_pipe_item){none, none, none, none};
    for (int c = 0; c < CHANNELS; c++)
        assign(f, c);
    for (int64_t n = 0; n < lists->lengths[stage]; n++) {
        struct wr_pipe_ref taken, given[2];
        wr_pipe_flow_before(f, &lists->instrs[stage][n], &taken);
        wr_pipe_flow_after(f, &lists->instrs[stage][n], given);
    }
    lay_out(f, bytes);
    f->planning = false;
    return WEIR_OK;
}

uint64_t wr_pipe_flow_bytes(const struct wr_pipe_flow *f)
{
    const struct wr_pipe_pool *last = &f->pool[POOLS - 1];
    return last->base + (uint64_t)last->n * last->bytes;
}

void wr_pipe_flow_free(struct wr_pipe_flow *f)
{
    for (int c = 0; c < CHANNELS; c++) {
        free(f->in[c].slot);
        free(f->in[c].taken);
    }
    for (int id = 0; id < POOLS; id++)
        free(f->pool[id].free);
    free(f->item);
}
