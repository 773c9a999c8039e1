/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages between stages, and what a stage that fails tells the others. */
#include "base/clock.h"
#include "base/error.h"
#include "optim/pipe_engine_impl.h"

/* Words at the beginning of the data memory: failures, by direction, told with messages and with grants. */
enum { WORD_DATA = 0, WORD_GRANT = 2, WORDS = 4 };

weir_status wr_pipe_comm_error(const weir_pipe_engine *e, weir_status status, weir_error *err)
{
    const weir_error *last = weir_last_error(weir_comm_ctx(e->comm));
    if (err && last)
        *err = *last;
    return status;
}

weir_status wr_pipe_complete(weir_pipe_engine *e, weir_request **request, weir_error *err)
{
    if (!*request)
        return WEIR_OK;
    int64_t begin = wr_clock_ns();
    weir_status status = weir_wait(request);
    e->report.wait_ns += wr_clock_ns() - begin;
    return status == WEIR_OK ? WEIR_OK : wr_pipe_comm_error(e, status, err);
}

/* Waits for a signal, and looks whether it came from a stage that failed. */
static weir_status wait_for(weir_pipe_engine *e, int signal, uint64_t value, weir_error *err)
{
    int64_t begin = wr_clock_ns();
    weir_status status = weir_signal_wait(e->data, signal, value);
    e->report.wait_ns += wr_clock_ns() - begin;
    return status == WEIR_OK ? wr_pipe_heard(e, err) : wr_pipe_comm_error(e, status, err);
}

static int data_signal(int channel, uint64_t k)
{
    return SIGNAL_DATA + channel * WAYS + (int)(k % WAYS);
}

weir_status wr_pipe_grant(weir_pipe_engine *e, int channel, weir_error *err)
{
    struct wr_pipe_in *in = &e->flow.in[channel];
    while (in->granted - in->received < (uint64_t)e->window) {
        int32_t slot = in->slot[in->granted % (uint64_t)in->messages];
        if (in->taken[slot])
            return WEIR_OK;
        weir_status status = wr_pipe_complete(e, &in->request, err);
        if (status != WEIR_OK)
            return status;
        in->taken[slot] = true;
        in->granted++;
        status = weir_put_signal(e->data, NULL, 0, e->ranks[in->peer], 0, SIGNAL_GRANT + channel, &in->request);
        if (status != WEIR_OK)
            return wr_pipe_comm_error(e, status, err);
    }
    return WEIR_OK;
}

/*
 * Message k uses the signal of message k - WAYS, which must therefore have been counted before. It has when it was received: then
 * message k - WAYS + window was granted. Otherwise all earlier messages are waited for; they were sent a while ago.
 */
static weir_status clear_way(weir_pipe_engine *e, int channel, int peer, uint64_t k, weir_error *err)
{
    if (k < WAYS || weir_signal_read(e->data, SIGNAL_GRANT + channel) > k - WAYS + (uint64_t)e->window)
        return WEIR_OK;
    int64_t begin = wr_clock_ns();
    weir_status status = weir_flush(e->data, e->ranks[peer]);
    e->report.wait_ns += wr_clock_ns() - begin;
    return status == WEIR_OK ? WEIR_OK : wr_pipe_comm_error(e, status, err);
}

weir_status wr_pipe_send(weir_pipe_engine *e, const weir_pipe_instr *instr, struct wr_pipe_ref from, weir_request **request, weir_error *err)
{
    int channel = wr_pipe_channel(&e->lists, e->stage, instr);
    struct wr_pipe_out *out = &e->out[channel];
    uint64_t k = out->sent, bytes = e->bytes[channel % 2];
    weir_status status = wait_for(e, SIGNAL_GRANT + channel, k + 1, err);
    if (status == WEIR_OK)
        status = clear_way(e, channel, instr->peer, k, err);
    if (status != WEIR_OK)
        return status;
    out->sent++;
    e->report.messages++;
    e->report.bytes += bytes;
    status = weir_put_signal(e->data, (unsigned char *)weir_mem_ptr(e->data) + wr_pipe_offset(&e->flow, from), bytes, e->ranks[instr->peer],
                             out->offset[k % (uint64_t)out->messages], data_signal(channel, k), request);
    return status == WEIR_OK ? WEIR_OK : wr_pipe_comm_error(e, status, err);
}

weir_status wr_pipe_receive(weir_pipe_engine *e, int channel, weir_error *err)
{
    uint64_t k = e->flow.in[channel].received - 1; /* the one that was just taken */
    weir_status status = wait_for(e, data_signal(channel, k), k / WAYS + 1, err);
    return status == WEIR_OK ? wr_pipe_grant(e, channel, err) : status;
}

/* ---- failures ---- */

static uint64_t word_heard(const weir_pipe_engine *e)
{
    uint64_t *words = weir_mem_ptr(e->data), word = 0;
    for (int i = 0; i < WORDS && !word; i++)
        word = __atomic_load_n(&words[i], __ATOMIC_ACQUIRE);
    return word;
}

weir_status wr_pipe_heard(const weir_pipe_engine *e, weir_error *err)
{
    uint64_t word = word_heard(e);
    if (!word)
        return WEIR_OK;
    int stage = (int)(word >> 16) - 1;
    wr_error_set(err, WEIR_ERR_CANCELED, "see the error of that stage", "stage %d of the pipeline failed: %s", stage,
                 weir_status_message((weir_status) - (int)(word & 0xffff)));
    wr_error_at(err, e->ranks[stage], NULL);
    return WEIR_ERR_CANCELED;
}

static void tell_one(weir_pipe_engine *e, int peer, int word, int signal)
{
    weir_request *request = NULL;
    if (weir_put_signal(e->data, &e->failure, sizeof e->failure, e->ranks[peer], (uint64_t)word * 8, signal, &request) == WEIR_OK)
        weir_wait(&request);
}

/* All signals that a neighbour may be waiting for are raised; each puts the word with it, that of the stage where it began. */
void wr_pipe_tell(weir_pipe_engine *e, weir_status status)
{
    int stages = (int)e->lists.stages;
    uint64_t heard = word_heard(e);
    e->failure = heard ? heard : (uint64_t)(e->stage + 1) << 16 | (uint64_t)(-(int)status & 0xffff);
    for (int direction = 0; direction < 2 && stages > 1; direction++) {
        int to = (e->stage + (direction ? stages - 1 : 1)) % stages, from = (e->stage + (direction ? 1 : stages - 1)) % stages;
        for (int kind = 0; kind < 2; kind++) {
            int channel = direction * 2 + kind;
            for (uint64_t way = 0; way < WAYS; way++)
                tell_one(e, to, WORD_DATA + direction, data_signal(channel, way));
            tell_one(e, from, WORD_GRANT + direction, SIGNAL_GRANT + channel);
        }
    }
}
