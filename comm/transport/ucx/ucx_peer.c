/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints: made when a peer is first used, read for what UCX chose, closed when the peer is lost. */
#include <stdio.h>
#include <stdlib.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/str.h"
#include "comm/transport/ucx/ucx.h"

static void on_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    struct ucx_peer *p = arg;
    (void)ep;
    wr_debug(p->u->base.params.log, TRANSPORT, "ucx: the connection to rank %d failed: %s", p->rank,
             ucs_status_string(status));
    p->failed = true;
    wr_ucx_has_work(p);
}

/* Takes "0:tcp/lo.0" apart into transport and device. */
static void lane_names(const char *text, char *transport, size_t tsize, char *device, size_t dsize)
{
    char word[96];
    const char *colon = strchr(text, ':');
    if (!colon || sscanf(colon + 1, "%95s", word) != 1)
        return;
    char *slash = strchr(word, '/');
    if (!slash)
        return;
    *slash = 0;
    wr_str_copy(transport, tsize, word);
    char *dot = strrchr(slash + 1, '.');
    if (dot)
        *dot = 0;
    wr_str_copy(device, dsize, slash + 1);
}

/*
 * UCX tells which lanes an endpoint has only as text for people. A line "put[0]: ..." or a lane marked "rma" means that
 * puts are carried out by a transport; without one they are emulated in software.
 */
static void read_lanes(struct ucx_peer *p)
{
    char *text = NULL, *save = NULL;
    size_t size = 0;
    unsigned lanes = 0;
    bool rma = false;
    char transport[32] = "", device[32] = "";
    FILE *f = open_memstream(&text, &size);
    if (!f)
        return;
    ucp_ep_print_info(p->ep, f);
    fclose(f);
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        const char *lane = strstr(line, "lane[");
        if (strstr(line, "put[")) {
            rma = true;
        } else if (lane && (lane = strchr(lane, ']'))) {
            char name[32] = "", dev[32] = "";
            lane = strchr(lane, ':');
            lane_names(lane ? lane + 1 : line, name, sizeof name, dev, sizeof dev);
            lanes++;
            if (strncmp(name, "tcp", 3) && (strstr(line, " rma ") || strstr(line, " rma#")))
                rma = true;
            if (!transport[0] || strstr(line, " am ")) {
                wr_str_copy(transport, sizeof transport, name);
                wr_str_copy(device, sizeof device, dev);
            }
        }
    }
    free(text);
    p->messages = !rma;
    p->one_lane = lanes == 1;
    p->locks = wr_ucx_locks_memory(transport);
    if (!p->u->device[0] && transport[0]) {
        wr_str_copy(p->u->provider, sizeof p->u->provider, transport);
        wr_str_copy(p->u->device, sizeof p->u->device, device);
    }
    wr_debug(p->u->base.params.log, TRANSPORT, "ucx: rank %d is reached over %s/%s, %u lanes, data by %s", p->rank,
             transport, device, lanes, rma ? "puts" : "messages");
}

static bool on_this_node(const struct wr_transport_params *params, int peer)
{
    for (int i = 0; i < params->node_size; i++)
        if (params->node_ranks[i] == peer)
            return true;
    return false;
}

static ucs_status_t endpoint_create(struct ucx_peer *p, const void *address, bool errors)
{
    ucp_ep_params_t e = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                                       UCP_EP_PARAM_FIELD_ERR_HANDLER,
                         .address = address,
                         .err_mode = errors ? UCP_ERR_HANDLING_MODE_PEER : UCP_ERR_HANDLING_MODE_NONE,
                         .err_handler = {on_error, p}};
    p->peer_errors = errors;
    return ucp_ep_create(p->u->worker, &e, &p->ep);
}

static weir_status send_control(struct ucx_peer *p, enum ucx_kind kind, const void *data, size_t len, weir_error *err)
{
    struct ucx_req *r = wr_ucx_req_get(p->u, p, true);
    if (!r)
        return wr_error_set(err, WEIR_ERR_LIMIT, "complete operations before connecting to more peers",
                            "no request is free to connect to rank %d", p->rank);
    wr_ucx_header(r, kind, UCX_WIRE_SHORT);
    r->complete = wr_ucx_complete_op;
    ucs_status_t s = wr_ucx_send(r, data, len);
    return s == UCS_OK || s == UCS_INPROGRESS ? WEIR_OK : wr_ucx_error(s, p, "the first message", err);
}

weir_status wr_ucx_peer_open(struct ucx_peer *p, const void *address, size_t len, weir_error *err)
{
    struct ucx *u = p->u;
    if (p->ep)
        return WEIR_OK;
    if (!len)
        return wr_error_set(err, WEIR_ERR_PROTOCOL, NULL, "rank %d published no UCX address", p->rank);
    /* UCX's shared memory cannot report errors, and asking for them would choose another transport. */
    bool errors = !u->only_shm && !(u->own_shm && on_this_node(&u->base.params, p->rank));
    ucs_status_t s = endpoint_create(p, address, errors);
    if (s != UCS_OK && errors)
        s = endpoint_create(p, address, false);
    if (s != UCS_OK) {
        p->ep = NULL;
        return wr_ucx_error(s, p, "connecting", err);
    }
    read_lanes(p);
    int how = u->base.params.config ? u->base.params.config->ucx_put : 0;
    if (how)
        p->messages = how == 2;
    wr_list_push_back(&u->connected, &p->link);
    return p->address ? WEIR_OK : send_control(p, UCX_HELLO, u->address, u->address_len, err);
}

weir_status wr_ucx_connect(struct wr_transport *t, int peer, weir_error *err)
{
    struct ucx *u = ucx_of(t);
    if (peer < 0 || peer >= t->params.size)
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "rank %d is not in 0..%d", peer, t->params.size - 1);
    struct ucx_peer *p = &u->peers[peer];
    if (p->connected && !p->lost)
        return WEIR_OK;
    if (p->lost || p->departed)
        return wr_ucx_peer_usable(u, peer, &p, err);
    if (!p->ep) {
        const void *address;
        size_t len;
        weir_status status = t->params.peer_address(t->params.arg, peer, &address, &len, err);
        if (status == WEIR_OK)
            status = wr_ucx_peer_open(p, address, len, err);
        if (status != WEIR_OK)
            return status;
    }
    p->connected = true;
    return WEIR_OK;
}

weir_status wr_ucx_peer_usable(struct ucx *u, int peer, struct ucx_peer **out, weir_error *err)
{
    if (WR_UNLIKELY(peer < 0 || peer >= u->base.params.size))
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "rank %d is not in 0..%d", peer, u->base.params.size - 1);
    struct ucx_peer *p = &u->peers[peer];
    if (WR_UNLIKELY(p->lost || p->failed || p->departed)) {
        wr_error_set(err, WEIR_ERR_PEER_LOST, NULL, "the connection to rank %d %s", peer,
                     p->departed ? "was closed by that rank" : "is lost");
        wr_error_at(err, peer, NULL);
        return WEIR_ERR_PEER_LOST;
    }
    if (WR_UNLIKELY(!p->ep))
        return wr_error_set(err, WEIR_ERR_INVALID, "connect to a peer before using it", "rank %d is not connected", peer);
    *out = p;
    return WEIR_OK;
}

static void endpoint_close(struct ucx_peer *p)
{
    /* Without error handling an endpoint can only be closed with the peer's help: it goes with the worker. */
    if (p->peer_errors) {
        ucs_status_ptr_t req = ucp_ep_close_nb(p->ep, UCP_EP_CLOSE_MODE_FORCE);
        if (UCS_PTR_IS_PTR(req))
            ucp_request_free(req); /* UCX frees it when it is done */
    }
    p->ep = NULL;
    wr_list_remove(&p->link);
}

static void fail_list(struct wr_list *list)
{
    struct ucx_stream *s, *next;
    wr_list_for_each_safe(s, next, list, link) {
        s->left = 0;
        s->status = WEIR_ERR_PEER_LOST;
        wr_list_remove(&s->link);
        if (!s->in_flight)
            wr_list_push_back(&s->peer->u->ended, &s->link);
    }
}

void wr_ucx_peer_fail(struct ucx_peer *p, const char *reason)
{
    struct ucx *u = p->u;
    struct ucx_req *r, *next;
    if (p->lost)
        return;
    if (p->silent_since)
        wr_ucx_note_sent(p, true);
    p->lost = true;
    if (p->ep)
        endpoint_close(p);
    fail_list(&p->streams);
    fail_list(&p->awaiting);
    wr_list_for_each_safe(r, next, &p->gets, link) {
        r->status = WEIR_ERR_PEER_LOST;
        wr_list_remove(&r->link);
        wr_list_push_back(&u->finished, &r->link);
    }
    p->am_visible = p->am_sent;
    p->rma_visible = p->rma_sent;
    p->ack_owed = false;
    if (!p->departed && !u->closing && u->base.params.on_peer_lost)
        u->base.params.on_peer_lost(u->base.params.arg, p->rank, reason);
}

/* Whether a peer that has an endpoint here is still to say goodbye. */
static bool expects_bye(const struct ucx *u)
{
    const struct ucx_peer *p;
    wr_list_for_each(p, &u->connected, link)
        if (!p->failed && !p->departed)
            return true;
    return false;
}

/*
 * Waits until no request is in flight and the peers have said goodbye too, at most `ns`: where all close at once, as they
 * do at the end of a job, nobody's connection is then still being made to a rank that does not listen any more, at which
 * UCX's tcp ends the process (seen with 1.13).
 */
static void drain(struct ucx *u, int64_t ns)
{
    int64_t deadline = wr_deadline(ns);
    while ((u->nfree < UCX_REQUESTS || expects_bye(u)) && !wr_deadline_passed(deadline))
        if (!ucp_worker_progress(u->worker) && wr_list_empty(&u->finished))
            wr_cpu_relax();
        else
            wr_ucx_drop_finished(u);
}

void wr_ucx_peers_close(struct ucx *u)
{
    struct ucx_peer *p, *next;
    wr_list_for_each(p, &u->connected, link)
        if (!p->failed && !p->departed)
            send_control(p, UCX_BYE, NULL, 0, NULL);
    drain(u, 100000000);
    wr_list_for_each_safe(p, next, &u->connected, link)
        endpoint_close(p);
    for (int i = 0; i < 100; i++)
        ucp_worker_progress(u->worker);
    wr_ucx_drop_finished(u);
}
