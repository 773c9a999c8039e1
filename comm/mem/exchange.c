/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/mem/exchange.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"

/* A message that ends when any member is lost: the others may have given up the exchange. */
struct message {
    const weir_comm *comm;
    weir_request *request;
};

static bool has_ended(void *arg)
{
    const struct message *m = arg;
    return m->request->complete || wr_comm_lost(m->comm) >= 0;
}

weir_status wr_exchange_finish(const weir_comm *comm, weir_request *request, bool (*cancel)(weir_request *request),
                               weir_error *err)
{
    struct message m = {comm, request};
    weir_status status = wr_comm_wait(comm, has_ended, &m, err);
    if (!status && (request->complete || !cancel(request)))
        return wr_request_finish(request, err);
    if (status)
        cancel(request);
    return status ? status : wr_engine_lost_error(comm->engine, &comm->group, -1, err);
}

/* Sends to one rank and receives from another, of known lengths. */
static weir_status swap(weir_comm *comm, const void *send, size_t send_bytes, int to, void *recv, size_t recv_bytes, int from, int32_t tag,
                        weir_error *err)
{
    weir_request *in = NULL, *out = NULL;
    weir_status sent, status = wr_p2p_recv(comm->p2p, &comm->group, WR_P2P_EXCHANGE, recv, recv_bytes, from, tag, NULL, &in, err);
    if (status)
        return status;
    sent = wr_p2p_send(comm->p2p, &comm->group, WR_P2P_EXCHANGE, send, send_bytes, to, tag, &out, err);
    if (!sent && out)
        sent = wr_exchange_finish(comm, out, wr_p2p_cancel_send, err);
    if (!sent)
        return wr_exchange_finish(comm, in, wr_p2p_cancel_recv, err);
    wr_p2p_cancel_recv(in); /* it may never end: the peer is lost, or the job */
    return sent;
}

/* Bruck's algorithm: block j holds rank (rank + j) until the last turn. */
weir_status wr_exchange_allgather(weir_comm *comm, const void *send, void *recv, size_t bytes, weir_error *err)
{
    int n = comm->size, rank = comm->rank;
    char *blocks = malloc((size_t)n * bytes + 1);
    weir_status status = WEIR_OK;
    if (!blocks)
        return wr_error_memory(err, (size_t)n * bytes, "an exchange between ranks");
    memcpy(blocks, send, bytes);
    int32_t step = 0;
    for (int have = 1; have < n && !status; have *= 2, step++) {
        size_t count = (size_t)WR_MIN(have, n - have);
        status = swap(comm, blocks, count * bytes, (rank - have % n + n) % n, blocks + (size_t)have * bytes, count * bytes,
                      (rank + have) % n, step, err);
    }
    if (!status)
        for (int j = 0; j < n; j++)
            memcpy((char *)recv + (size_t)((rank + j) % n) * bytes, blocks + (size_t)j * bytes, bytes);
    free(blocks);
    return status;
}

weir_status wr_exchange_barrier(weir_comm *comm, weir_error *err)
{
    weir_status status = WEIR_OK;
    int32_t step = 64;
    for (int distance = 1; distance < comm->size && !status; distance *= 2, step++)
        status = swap(comm, NULL, 0, (comm->rank + distance) % comm->size, NULL, 0,
                      (comm->rank - distance % comm->size + comm->size) % comm->size, step, err);
    return status;
}

weir_status wr_exchange_agree(weir_comm *comm, weir_status mine, weir_error *err)
{
    struct verdict {
        int32_t status;
        char message[256], advice[128];
    } verdict;
    memset(&verdict, 0, sizeof verdict);
    verdict.status = mine;
    if (mine) {
        wr_str_copy(verdict.message, sizeof verdict.message, err->message);
        wr_str_copy(verdict.advice, sizeof verdict.advice, err->advice);
    }
    /* two rounds, so that the usual case moves 4 bytes a rank */
    int32_t *all = malloc((size_t)comm->size * sizeof *all);
    weir_error lost;
    if (!all)
        return wr_error_memory(err, (size_t)comm->size * sizeof *all, "an agreement");
    weir_status status = wr_exchange_allgather(comm, &verdict.status, all, sizeof *all, &lost);
    int who = -1;
    for (int r = comm->size - 1; !status && r >= 0; r--)
        if (all[r])
            who = r;
    if (!status && who >= 0) {
        struct verdict *texts = malloc((size_t)comm->size * sizeof *texts);
        status = texts ? wr_exchange_allgather(comm, &verdict, texts, sizeof verdict, &lost)
                       : wr_error_memory(&lost, (size_t)comm->size * sizeof *texts, "an agreement");
        if (!status) {
            texts[who].message[sizeof texts[who].message - 1] = texts[who].advice[sizeof texts[who].advice - 1] = '\0';
            status = wr_error_set(&lost, (weir_status)all[who], texts[who].advice, "%s", texts[who].message);
            wr_error_at(&lost, who, NULL);
        }
        free(texts);
    }
    free(all);
    if (status)
        *err = lost;
    return status;
}
