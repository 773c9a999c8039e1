/* SPDX-License-Identifier: BSD-3-Clause */
/* What the ranks of the job ask of the bootstrap server: sessions, values, fences, farewells, news of lost ranks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "comm/boot/server_impl.h"

/* The owner (weirrun) learns from the kernel why a process died, moments after its connection ended. */
#define OWNER_KNOWS_BETTER_NS 500000000

static void session_free(struct wr_server *s, struct session *session)
{
    for (int rank = 0; rank < s->options.size; rank++)
        wr_kv_free(&session->members[rank].kv);
    wr_list_remove(&session->link);
    free(session->members);
    free(session);
}

void wr_job_free(struct wr_server *s)
{
    struct session *session, *next;
    wr_list_for_each_safe(session, next, &s->sessions, link)
        session_free(s, session);
}

static struct session *session_get(struct wr_server *s, uint32_t number)
{
    struct session *session;
    wr_list_for_each(session, &s->sessions, link)
        if (session->number == number)
            return session;
    session = calloc(1, sizeof *session);
    if (!session)
        return NULL;
    session->members = calloc((size_t)s->options.size, sizeof *session->members);
    if (!session->members) {
        free(session);
        return NULL;
    }
    session->number = number;
    wr_list_push_back(&s->sessions, &session->link);
    return session;
}

/*
 * Sends a frame to every rank that is in the session. The ranks that live in the server's own process come last: after
 * the farewell that process may end at once, and the server with it.
 */
static void send_all(struct wr_server *s, struct session *session, const struct wr_buf *frame)
{
    uint64_t own = (uint64_t)getpid();
    for (int pass = 0; pass < 2; pass++) {
        struct conn *conn, *next;
        wr_list_for_each_safe(conn, next, &s->joined, link)
            if ((!session || conn->session == session) && (conn->pid == own) == (pass == 1) && conn->state == CONN_JOINED)
                wr_conn_send(conn, frame);
    }
}

/* ---- joining ---- */

bool wr_job_admit(struct conn *conn, const struct wr_wire_hello *hello, char *refusal, size_t size)
{
    struct wr_server *s = conn->server;
    if (hello->size != (uint32_t)s->options.size || hello->rank >= hello->size) {
        snprintf(refusal, size, "this job has %d ranks; the process came as rank %u of %u", s->options.size, hello->rank,
                 hello->size);
        return false;
    }
    struct rank_state *r = &s->ranks[hello->rank];
    if (r->live && (r->pid != hello->pid || strcmp(r->host, hello->host))) {
        snprintf(refusal, size, "rank %u is taken by process %llu on host %s", hello->rank, (unsigned long long)r->pid,
                 r->host);
        return false;
    }
    struct session *session = session_get(s, r->joins);
    if (!session) {
        snprintf(refusal, size, "the bootstrap server is out of memory");
        return false;
    }
    struct member *m = &session->members[hello->rank];
    m->joined = true;
    m->conn = conn;
    m->node = hello->node;
    memcpy(m->identity, hello->identity, sizeof m->identity);
    m->identity_len = hello->identity_len;
    session->njoined++;
    r->joins++;
    r->live++;
    r->pid = hello->pid;
    memcpy(r->host, hello->host, sizeof r->host);
    r->farewelled = false;
    conn->session = session;
    conn->rank = (int)hello->rank;
    conn->pid = hello->pid;
    return true;
}

static bool same_node(const struct member *a, const struct member *b)
{
    return a->node == b->node && a->identity_len == b->identity_len && !memcmp(a->identity, b->identity, a->identity_len);
}

/* Tells all ranks of a session that is complete who shares a node: the same host by identity, and by WEIR_JOB_NODE. */
static void send_nodes(struct wr_server *s, struct session *session)
{
    size_t size = (size_t)s->options.size;
    struct wr_buf frame = {0};
    int *node_of = malloc(size * sizeof *node_of), *first = malloc(size * sizeof *first), nnodes = 0;
    if (!node_of || !first) {
        frame.failed = true; /* the connections are dropped, which the ranks notice */
    } else {
        for (int rank = 0; rank < s->options.size; rank++) {
            int node = 0;
            while (node < nnodes && !same_node(&session->members[first[node]], &session->members[rank]))
                node++;
            if (node == nnodes)
                first[nnodes++] = rank;
            node_of[rank] = node;
        }
        wr_wire_write_nodes(&frame, node_of, s->options.size);
    }
    send_all(s, session, &frame);
    free(node_of);
    free(first);
    wr_buf_free(&frame);
}

static struct wr_boot_event lost_event(const struct wr_server *s, int rank)
{
    struct wr_boot_event event = {.kind = WR_BOOT_EVENT_RANK_LOST, .rank = rank};
    wr_str_copy(event.host, sizeof event.host, s->ranks[rank].host);
    wr_str_copy(event.reason, sizeof event.reason, s->ranks[rank].lost_reason);
    return event;
}

void wr_job_admitted(struct conn *conn)
{
    struct wr_server *s = conn->server;
    struct session *session = conn->session;
    struct wr_buf frame = {0};
    for (int rank = 0; rank < s->options.size; rank++) {
        if (s->ranks[rank].lost && rank != conn->rank) {
            struct wr_boot_event event = lost_event(s, rank);
            wr_wire_write_event(&frame, &event);
        }
    }
    if (s->aborted.kind != WR_BOOT_EVENT_NONE)
        wr_wire_write_event(&frame, &s->aborted);
    if (frame.len || frame.failed)
        wr_conn_send(conn, &frame);
    wr_buf_free(&frame);
    wr_debug(s->options.log, BOOT, "rank %d joined session %u: %d of %d", conn->rank, session->number, session->njoined,
             s->options.size);
    if (s->options.on_joined)
        s->options.on_joined(s->options.arg, conn->rank);
    if (session->njoined == s->options.size)
        send_nodes(s, session);
}

/* ---- leaving ---- */

void wr_job_announce_lost(struct wr_server *s, int rank, const char *host, const char *reason)
{
    struct rank_state *r = &s->ranks[rank];
    struct wr_buf frame = {0};
    if (r->lost_deadline) {
        r->lost_deadline = 0;
        s->nlost_pending--;
    }
    if (r->lost)
        return;
    r->lost = true;
    if (host != r->host)
        wr_str_copy(r->host, sizeof r->host, host);
    if (reason != r->lost_reason)
        wr_str_copy(r->lost_reason, sizeof r->lost_reason, reason);
    struct wr_boot_event event = lost_event(s, rank);
    wr_wire_write_event(&frame, &event);
    send_all(s, NULL, &frame);
    wr_buf_free(&frame);
}

void wr_job_left(struct conn *conn, const char *reason)
{
    struct wr_server *s = conn->server;
    struct session *session = conn->session;
    struct member *m = &session->members[conn->rank];
    struct rank_state *r = &s->ranks[conn->rank];
    bool farewell = m->farewell;
    m->conn = NULL;
    conn->session = NULL;
    if (++session->nleft == s->options.size)
        session_free(s, session);
    if (farewell)
        return;
    r->live--;
    if (r->lost || r->lost_deadline)
        return;
    wr_str_copy(r->lost_reason, sizeof r->lost_reason, reason);
    if (s->options.on_lost) {
        r->lost_deadline = wr_deadline(OWNER_KNOWS_BETTER_NS);
        s->nlost_pending++;
        s->options.on_lost(s->options.arg, conn->rank);
    } else {
        wr_job_announce_lost(s, conn->rank, r->host, r->lost_reason);
    }
}

/* ---- requests ---- */

static void answer_get(struct conn *conn, const struct wr_wire_get *get)
{
    struct wr_buf frame = {0};
    size_t len = 0;
    const void *value = NULL;
    if (get->rank < (uint32_t)conn->server->options.size)
        value = wr_kv_get(&conn->session->members[get->rank].kv, get->key, &len);
    wr_wire_write_value(&frame, get->request, value != NULL, value, len);
    wr_conn_send(conn, &frame);
    wr_buf_free(&frame);
}

static bool arrive_at_fence(struct conn *conn, uint32_t number)
{
    struct wr_server *s = conn->server;
    struct session *session = conn->session;
    struct member *m = &session->members[conn->rank];
    if (number != session->fence || m->at_fence)
        return false;
    m->at_fence = true;
    if (++session->nfence < s->options.size)
        return true;
    struct wr_buf frame = {0};
    for (int rank = 0; rank < s->options.size; rank++)
        session->members[rank].at_fence = false;
    session->nfence = 0;
    wr_wire_write_number(&frame, WR_WIRE_FENCE_DONE, session->fence++);
    send_all(s, session, &frame);
    wr_buf_free(&frame);
    return true;
}

static bool say_farewell(struct conn *conn)
{
    struct wr_server *s = conn->server;
    struct session *session = conn->session;
    struct member *m = &session->members[conn->rank];
    struct rank_state *r = &s->ranks[conn->rank];
    if (m->farewell)
        return false;
    m->farewell = true;
    session->nfarewell++;
    r->live--;
    r->farewelled = true;
    if (!r->live && s->options.on_finalized)
        s->options.on_finalized(s->options.arg, conn->rank);
    if (session->nfarewell == s->options.size) {
        struct wr_buf frame = {0};
        wr_wire_write_empty(&frame, WR_WIRE_FAREWELL_DONE);
        send_all(s, session, &frame);
        wr_buf_free(&frame);
    }
    return true;
}

/* Which ranks have not come to a stage, for the message of a rank that gives up waiting. */
static bool answer_who(struct conn *conn, uint32_t stage)
{
    struct wr_server *s = conn->server;
    struct wr_buf frame = {0};
    char text[256];
    int *missing = malloc((size_t)s->options.size * sizeof *missing), n = 0;
    if (!missing || stage > WR_WIRE_AT_FAREWELL) {
        free(missing);
        return false;
    }
    for (int rank = 0; rank < s->options.size; rank++) {
        const struct member *m = &conn->session->members[rank];
        if (stage == WR_WIRE_AT_START ? !m->joined : stage == WR_WIRE_AT_FENCE ? !m->at_fence : !m->farewell)
            missing[n++] = rank;
    }
    wr_format_ranges(missing, (size_t)n, text, sizeof text);
    wr_wire_write_text(&frame, WR_WIRE_MISSING, (uint32_t)n, text);
    free(missing);
    wr_conn_send(conn, &frame);
    wr_buf_free(&frame);
    return true;
}

static void abort_job(struct conn *conn, uint32_t code, const char *message)
{
    struct wr_server *s = conn->server;
    struct wr_buf frame = {0};
    if (s->aborted.kind != WR_BOOT_EVENT_NONE)
        return;
    s->aborted.kind = WR_BOOT_EVENT_JOB_ABORTED;
    s->aborted.rank = conn->rank;
    wr_str_copy(s->aborted.host, sizeof s->aborted.host, s->ranks[conn->rank].host);
    wr_str_copy(s->aborted.reason, sizeof s->aborted.reason, message);
    if (s->options.on_abort)
        s->options.on_abort(s->options.arg, conn->rank, (int)code, message);
    wr_wire_write_event(&frame, &s->aborted);
    send_all(s, NULL, &frame);
    wr_buf_free(&frame);
}

bool wr_job_frame(struct conn *conn, const struct wr_frame *frame)
{
    struct wr_wire_put put;
    struct wr_wire_get get;
    uint32_t number;
    char text[192];
    switch (frame->type) {
    case WR_WIRE_PUT:
        return wr_wire_read_put(frame, &put) &&
               wr_kv_put(&conn->session->members[conn->rank].kv, put.key, put.data, put.len, NULL) == WEIR_OK;
    case WR_WIRE_GET:
        if (!wr_wire_read_get(frame, &get))
            return false;
        answer_get(conn, &get);
        return true;
    case WR_WIRE_FENCE:
        return wr_wire_read_number(frame, &number) && arrive_at_fence(conn, number);
    case WR_WIRE_WHO:
        return wr_wire_read_number(frame, &number) && answer_who(conn, number);
    case WR_WIRE_ABORT:
        if (!wr_wire_read_text(frame, &number, text, sizeof text))
            return false;
        abort_job(conn, number, text);
        return true;
    case WR_WIRE_FAREWELL:
        return frame->len == 0 && say_farewell(conn);
    default:
        return false;
    }
}
