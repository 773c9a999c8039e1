/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The pipeline engine, inside. pipe_engine.c makes and ends engines, pipe_engine_run.c executes instructions, pipe_engine_flow.c
 * says which buffer each instruction uses, pipe_engine_channel.c moves messages and failures.
 *
 * A channel is known by direction (0 from a stage to the next, 1 to the one before) and kind (activation, gradient). Which buffer
 * of the receiver its k-th message goes to follows from the receiver's list alone, so the sender knows it too. The receiver
 * grants the messages one after the other, as soon as their buffers are free and fewer than `window` grants are open; a
 * grant is a bare signal, of which only the number matters.
 *
 * Messages are signals with data, and nothing says in which order they become visible. A channel has WAYS signals that its messages
 * use in turn, so the receiver can tell WAYS messages apart; the sender lets no more be under way at once.
 */
#ifndef WR_PIPE_ENGINE_IMPL_H
#define WR_PIPE_ENGINE_IMPL_H

#include <weir/mem.h>
#include <weir/pipe_engine.h>

#include "optim/pipe.h"

enum { CHANNELS = 4, WAYS = 3, ALIGN = 64 };

/* Signals of a stage: of its incoming channels, then the grants of its outgoing ones. */
enum { SIGNAL_DATA = 0, SIGNAL_GRANT = CHANNELS * WAYS };

/* Where buffers come from. The first four are the incoming channels. */
enum wr_pipe_pool_id { POOL_LOCAL_ACT = CHANNELS, POOL_LOCAL_GRAD, POOL_OUT_ACT, POOL_OUT_GRAD, POOLS };

/* A buffer, by its pool (-1 for none) and number. */
struct wr_pipe_ref {
    int pool, index;
};

/* Of a micro-batch and chunk: what its instructions use. */
struct wr_pipe_item {
    struct wr_pipe_ref in, out, dout, din;
};

struct wr_pipe_pool {
    int n;             /* buffers */
    int *free, nfree;  /* those that are free, the longest first; not of channels once the engine runs */
    uint64_t base, bytes; /* where they begin, and of each */
};

/* A channel to a stage. */
struct wr_pipe_in {
    int peer;          /* stage that sends, -1 when there is none */
    int64_t messages;  /* in one run */
    int32_t *slot;     /* by message of a run: its buffer */
    uint64_t granted, received; /* since the beginning */
    bool *taken;       /* by buffer: granted or in use */
    weir_request *request;      /* of the last grant */
};

/* Which buffers a stage uses: while planning the numbers grow as they are needed. */
struct wr_pipe_flow {
    const weir_pipe_lists *lists;
    int stage, window;
    bool planning;
    struct wr_pipe_item *item; /* by chunk and micro-batch */
    struct wr_pipe_pool pool[POOLS];
    struct wr_pipe_in in[CHANNELS];
};

/* A channel from this stage. */
struct wr_pipe_out {
    uint64_t *offset;  /* by message of a run: where it goes at the receiver */
    int64_t messages;  /* in one run */
    uint64_t sent;     /* since the beginning */
};

struct wr_pipe_chunk {
    bool gathering, reducing; /* started, not yet waited for */
};

struct weir_pipe_engine {
    weir_comm *comm;
    weir_pipe_lists lists;
    weir_pipe_callbacks calls;
    int stage;
    int *ranks; /* of all stages */
    int window;
    uint64_t bytes[2]; /* of a message, by kind */
    struct wr_pipe_flow flow;
    struct wr_pipe_out out[CHANNELS];
    weir_request **request[2]; /* by buffer of the out pools: the put that still reads it */
    struct wr_pipe_chunk *chunk;
    weir_mem *data;   /* words for failures, then all buffers */
    uint64_t failure; /* what is put to the neighbours when this stage fails */
    weir_error error; /* status is not WEIR_OK once the engine has failed */
    weir_pipe_engine_report report;
};

/* ---- pipe_engine_flow.c ---- */

/* Plans the buffers of a stage; to be freed by wr_pipe_flow_free(), also after an error. */
weir_status wr_pipe_flow_plan(struct wr_pipe_flow *flow, const weir_pipe_lists *lists, int stage, int window, const uint64_t bytes[2],
                              weir_error *err);
void wr_pipe_flow_free(struct wr_pipe_flow *flow);

/* Bytes of the data memory of a planned stage. */
uint64_t wr_pipe_flow_bytes(const struct wr_pipe_flow *flow);

/* Takes the buffer that an instruction writes or receives into; *taken is it, pool -1 when there is none. */
void wr_pipe_flow_before(struct wr_pipe_flow *flow, const weir_pipe_instr *instr, struct wr_pipe_ref *taken);

/* Gives back what is free after an instruction: given[0] and given[1], pool -1 for none. */
void wr_pipe_flow_after(struct wr_pipe_flow *flow, const weir_pipe_instr *instr, struct wr_pipe_ref given[2]);

static inline struct wr_pipe_item *wr_pipe_item(const struct wr_pipe_flow *f, int chunk, int micro)
{
    return &f->item[(int64_t)chunk * f->lists->microbatches + micro];
}

static inline uint64_t wr_pipe_offset(const struct wr_pipe_flow *f, struct wr_pipe_ref ref)
{
    return f->pool[ref.pool].base + (uint64_t)ref.index * f->pool[ref.pool].bytes;
}

/* The channel of a SEND or RECV of a stage: direction * 2 + kind. */
int wr_pipe_channel(const weir_pipe_lists *lists, int stage, const weir_pipe_instr *instr);

/* ---- pipe_engine_channel.c ---- */

/* Grants as many messages of an incoming channel as it can. */
weir_status wr_pipe_grant(weir_pipe_engine *e, int channel, weir_error *err);

/* Starts to send the buffer of a SEND; *request is set until it may be written again. */
weir_status wr_pipe_send(weir_pipe_engine *e, const weir_pipe_instr *instr, struct wr_pipe_ref from, weir_request **request, weir_error *err);

/* Waits for the message of a channel that wr_pipe_flow_before() has just counted, and grants more. */
weir_status wr_pipe_receive(weir_pipe_engine *e, int channel, weir_error *err);

/* WEIR_ERR_CANCELED when another stage has told that it failed. */
weir_status wr_pipe_heard(const weir_pipe_engine *e, weir_error *err);

/* Tells the neighbours, so that none waits for this stage. */
void wr_pipe_tell(weir_pipe_engine *e, weir_status status);

/* Completes a request; the time counts as waiting. */
weir_status wr_pipe_complete(weir_pipe_engine *e, weir_request **request, weir_error *err);

/* The error of a call of the communicator that failed. */
weir_status wr_pipe_comm_error(const weir_pipe_engine *e, weir_status status, weir_error *err);

#endif
