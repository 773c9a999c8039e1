/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Executes lists on paper. Stages execute in order, a channel has one sender and one receiver: who waits for what is then the
 * same for every timing (a Kahn process network, with bounded channels a marked graph), and one run proves whether the lists
 * come to their end.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "optim/pipe.h"

struct channel {
    struct wr_pipe_message *message; /* in the order in which they are sent */
    int64_t sends, sent, received;
    int64_t known; /* of `received`: what the sender has been told by messages of the receiver */
};

struct player {
    struct wr_pipe_play *play;
    const weir_pipe_lists *lists;
    struct channel *channel; /* by stage, direction (0 to the next stage, 1 to the one before) and kind */
    struct wr_pipe_message *messages;
    int64_t *at; /* by stage: the next instruction */
};

static struct channel *channel_of(const struct player *p, int from, int to, int kind)
{
    int direction = to == (from + 1) % p->lists->stages ? 0 : 1;
    return &p->channel[(from * 2 + direction) * 2 + kind];
}

static int kind_of(int op)
{
    return op == WEIR_PIPE_OP_SEND_GRAD || op == WEIR_PIPE_OP_RECV_GRAD;
}

static struct channel *channel_of_instr(const struct player *p, int stage, const weir_pipe_instr *instr)
{
    bool send = wr_pipe_is_send(instr->op);
    return channel_of(p, send ? stage : instr->peer, send ? instr->peer : stage, kind_of(instr->op));
}

/* The part that receives a message. */
static int32_t receiving_part(const weir_pipe_lists *lists, int stage, const weir_pipe_instr *instr)
{
    int32_t part = (int32_t)weir_pipe_part(lists->placement, lists->stages, stage, instr->chunk);
    return instr->op == WEIR_PIPE_OP_SEND_ACT ? part + 1 : instr->op == WEIR_PIPE_OP_SEND_GRAD ? part - 1 : part;
}

static weir_status prepare(struct player *p, weir_error *err)
{
    const weir_pipe_lists *lists = p->lists;
    size_t total = 0, nchannels = (size_t)lists->stages * 4;
    p->at = calloc((size_t)lists->stages, sizeof *p->at);
    p->channel = calloc(nchannels, sizeof *p->channel);
    if (!p->at || !p->channel)
        return wr_error_memory(err, nchannels * sizeof *p->channel, "the channels of a pipeline");
    for (int s = 0; s < lists->stages; s++)
        for (int64_t i = 0; i < lists->lengths[s]; i++)
            if (wr_pipe_is_send(lists->instrs[s][i].op)) {
                channel_of_instr(p, s, &lists->instrs[s][i])->sends++;
                total++;
            }
    p->messages = calloc(total + 1, sizeof *p->messages);
    if (!p->messages)
        return wr_error_memory(err, total * sizeof *p->messages, "the messages of a pipeline");
    struct wr_pipe_message *next = p->messages;
    for (size_t c = 0; c < nchannels; c++) {
        p->channel[c].message = next;
        next += p->channel[c].sends;
    }
    p->play->messages = (int64_t)total;
    return WEIR_OK;
}

static bool full(const struct player *p, const struct channel *c)
{
    return p->play->buffers && c->sent - c->received >= p->play->buffers;
}

static struct wr_pipe_message *send(struct player *p, int stage, const weir_pipe_instr *instr)
{
    struct channel *c = channel_of_instr(p, stage, instr);
    if (full(p, c))
        return NULL;
    struct wr_pipe_message *m = &c->message[c->sent++];
    m->micro = instr->micro;
    m->part = receiving_part(p->lists, stage, instr);
    m->before = p->play->buffers && c->sent > p->play->buffers ? m - p->play->buffers : NULL;
    for (int kind = 0; kind < 2; kind++)
        m->seen[kind] = channel_of(p, instr->peer, stage, kind)->received;
    p->play->enough = WR_MAX(p->play->enough, c->sent - c->known);
    return m;
}

static struct wr_pipe_message *receive(struct player *p, int stage, const weir_pipe_instr *instr)
{
    struct channel *c = channel_of_instr(p, stage, instr);
    if (c->received == c->sent)
        return NULL;
    struct wr_pipe_message *m = &c->message[c->received++];
    for (int kind = 0; kind < 2; kind++) {
        struct channel *back = channel_of(p, stage, instr->peer, kind);
        back->known = WR_MAX(back->known, m->seen[kind]);
    }
    return m;
}

/* Executes what a stage can; *moved is set when that was anything. */
static weir_status advance(struct player *p, int stage, bool *moved, weir_error *err)
{
    const weir_pipe_lists *lists = p->lists;
    for (; p->at[stage] < lists->lengths[stage]; p->at[stage]++, *moved = true) {
        const weir_pipe_instr *instr = &lists->instrs[stage][p->at[stage]];
        struct wr_pipe_message *m = NULL;
        bool sends = wr_pipe_is_send(instr->op), receives = wr_pipe_is_recv(instr->op);
        if (sends || receives) {
            m = sends ? send(p, stage, instr) : receive(p, stage, instr);
            if (!m)
                return WEIR_OK;
            if (receives && (m->micro != instr->micro || m->part != receiving_part(lists, stage, instr))) {
                char where[160];
                return wr_error_set(err, WEIR_ERR_INVALID, "send and receive in the same order",
                                    "%sthe next message from stage %d is that of micro-batch %d for part %d",
                                    wr_pipe_where(lists, stage, p->at[stage], where, sizeof where), instr->peer, m->micro, m->part);
            }
        }
        if (p->play->visit)
            p->play->visit(p->play->user, stage, p->at[stage], m);
    }
    return WEIR_OK;
}

/* Nothing moves any more: is everything done? */
static weir_status judge(const struct player *p, weir_error *err)
{
    const weir_pipe_lists *lists = p->lists;
    char where[160], there[160];
    for (int s = 0; s < lists->stages; s++) {
        if (p->at[s] == lists->lengths[s])
            continue;
        const weir_pipe_instr *instr = &lists->instrs[s][p->at[s]];
        int peer = instr->peer;
        wr_pipe_where(lists, s, p->at[s], where, sizeof where);
        if (p->at[peer] == lists->lengths[peer])
            return wr_error_set(err, WEIR_ERR_INVALID, NULL, "%swaits for ever: stage %d has come to its end", where, peer);
        wr_pipe_where(lists, peer, p->at[peer], there, sizeof there);
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "%sit waits for a %s in a deadlock with %.*s", where,
                            wr_pipe_is_send(instr->op) ? "free buffer" : "message", (int)strlen(there) - 2, there);
    }
    return WEIR_OK;
}

weir_status wr_pipe_play(struct wr_pipe_play *play, weir_error *err)
{
    struct player p = {.play = play, .lists = play->lists};
    play->messages = play->enough = 0;
    weir_status status = prepare(&p, err);
    for (bool moved = true; status == WEIR_OK && moved;) {
        moved = false;
        for (int s = 0; status == WEIR_OK && s < play->lists->stages; s++)
            status = advance(&p, s, &moved, err);
    }
    if (status == WEIR_OK)
        status = judge(&p, err);
    free(p.messages);
    free(p.channel);
    free(p.at);
    return status;
}
