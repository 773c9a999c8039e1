/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The halves of each measurement. Buffers rotate, and their owner writes to them before: a cached buffer flatters. Where the
 * reference is a tool, which has one buffer, there is one here, too.
 */
#include <string.h>

#include "perf/weir-p2p.h"

unsigned slots_of(const struct bench *b, uint64_t bytes)
{
    uint64_t stride = (bytes + 63) / 64 * 64, n = b->area / stride;
    return n > b->buffers ? b->buffers : (unsigned)n;
}

uint64_t slot_at(const struct bench *b, uint64_t bytes, unsigned n)
{
    return (bytes + 63) / 64 * 64 * (n % slots_of(b, bytes));
}

static char *send_slot(struct bench *b, uint64_t bytes, unsigned n)
{
    return (char *)weir_mem_ptr(b->mem) + FLAGS + slot_at(b, bytes, n);
}

static char *recv_slot(struct bench *b, uint64_t bytes, unsigned n)
{
    return send_slot(b, bytes, n) + b->area;
}

/* Marks a buffer that is sent, and looks for the mark in one that came. */
static void mark(char *buffer, uint64_t bytes, uint64_t stamp)
{
    memcpy(buffer, &stamp, bytes < sizeof stamp ? bytes : sizeof stamp);
}

static void look_for_mark(struct bench *b, const char *buffer, uint64_t bytes, uint64_t stamp)
{
    b->failed |= memcmp(buffer, &stamp, bytes < sizeof stamp ? bytes : sizeof stamp) != 0;
}

static bool finish(struct bench *b, weir_request **request)
{
    return !*request || check(b, weir_wait(request), "weir_wait");
}

/* ---- latency ---- */

static bool send_one(struct bench *b, const struct command *c, uint64_t stamp, unsigned turn)
{
    weir_request *request = NULL;
    char *from = send_slot(b, c->bytes, turn);
    mark(from, c->bytes, stamp);
    if (c->method == MESSAGE)
        return check(b, weir_send(b->comm, from, c->bytes, b->peer, TAG_DATA), "weir_send");
    uint64_t to = FLAGS + b->area + slot_at(b, c->bytes, turn);
    return check(b, weir_put_signal(b->mem, from, c->bytes, b->peer, to, 0, &request), "weir_put_signal") &&
           finish(b, &request);
}

static bool receive_one(struct bench *b, const struct command *c, uint64_t stamp, unsigned turn)
{
    char *to = recv_slot(b, c->bytes, turn);
    bool ok = c->method == MESSAGE ? check(b, weir_recv(b->comm, to, c->bytes, b->peer, TAG_DATA, NULL), "weir_recv")
                                   : check(b, weir_signal_wait(b->mem, 0, ++b->arrived), "weir_signal_wait");
    look_for_mark(b, to, c->bytes, stamp);
    return ok;
}

static bool get_some(struct bench *b, const struct command *c)
{
    bool ok = true;
    for (int k = 0; k < GETS && ok; k++) {
        weir_request *request = NULL;
        unsigned turn = b->turn++;
        ok = check(b,
                   weir_get(b->mem, recv_slot(b, c->bytes, turn), c->bytes, b->peer, FLAGS + slot_at(b, c->bytes, turn),
                            &request),
                   "weir_get") &&
             finish(b, &request);
    }
    return ok;
}

static bool latency(struct bench *b, const struct command *c, double *results)
{
    bool ok = true;
    if (c->method == GET && b->rank)
        return true;
    for (int i = 0; i < c->iterations && ok; i++) {
        uint64_t stamp = c->stamp + (uint64_t)i;
        if (b->rank) {
            unsigned turn = b->turn++;
            ok = receive_one(b, c, stamp, turn) && send_one(b, c, stamp, turn);
            continue;
        }
        double start = now_us();
        if (c->method == GET) {
            ok = get_some(b, c);
        } else {
            unsigned turn = b->turn++;
            ok = send_one(b, c, stamp, turn) && receive_one(b, c, stamp, turn);
        }
        results[i] = (now_us() - start - b->clock_us) / (c->method == GET ? GETS : 2);
    }
    return ok;
}

/* ---- bandwidth ---- */

/* Starts one operation of a window. */
static weir_status start_one(struct bench *b, const struct command *c, unsigned turn, weir_request **request)
{
    uint64_t at = FLAGS + slot_at(b, c->bytes, turn);
    *request = NULL;
    switch (c->method) {
    case PUT:
        return weir_put(b->mem, send_slot(b, c->bytes, turn), c->bytes, b->peer, at + b->area, request);
    case GET:
        return weir_get(b->mem, recv_slot(b, c->bytes, turn), c->bytes, b->peer, at, request);
    default:
        return b->rank ? weir_irecv(b->comm, recv_slot(b, c->bytes, turn), c->bytes, b->peer, TAG_DATA, NULL, request)
                       : weir_isend(b->comm, send_slot(b, c->bytes, turn), c->bytes, b->peer, TAG_DATA, request);
    }
}

static bool bandwidth(struct bench *b, const struct command *c, double *result)
{
    weir_request *requests[WINDOW_MAX];
    bool ok = true;
    char ack = 0;
    if (c->method != MESSAGE && b->rank)
        return true;
    double start = now_us();
    for (int i = 0; i < c->iterations && ok; i++) {
        for (int k = 0; k < c->window; k++) {
            if (!check(b, start_one(b, c, b->turn++, &requests[k]), "starting an operation"))
                return false;
        }
        ok = check(b, weir_waitall((size_t)c->window, requests), "weir_waitall");
    }
    if (!ok)
        return false;
    if (c->method == PUT)
        ok = check(b, weir_flush(b->mem, b->peer), "weir_flush");
    else if (c->method == MESSAGE)
        ok = b->rank ? check(b, weir_send(b->comm, &ack, 1, b->peer, TAG_DATA), "weir_send")
                     : check(b, weir_recv(b->comm, &ack, 1, b->peer, TAG_DATA, NULL), "weir_recv");
    if (!b->rank)
        *result = (double)c->bytes * c->iterations * c->window / (now_us() - start) * 1e-3;
    return ok;
}

/* Both write to what they will send or have received, so that it lies in their own caches, as in a program that computes. */
static void dirty(struct bench *b, const struct command *c)
{
    unsigned n = slots_of(b, c->bytes);
    bool sends = (c->method == GET) == (b->rank != 0);
    for (unsigned i = 0; i < n; i++)
        memset(sends ? send_slot(b, c->bytes, i) : recv_slot(b, c->bytes, i), (int)c->stamp, c->bytes);
}

bool carry_out(struct bench *b, const struct command *c, double *results)
{
    char ready = 0;
    if (c->action == DO_TOOL)
        return tool_serve(b, c);
    b->turn = 0;
    b->buffers = c->buffers;
    if (c->action == DO_BANDWIDTH || c->action == DO_BARE_BANDWIDTH)
        dirty(b, c);
    if (b->rank ? !check(b, weir_send(b->comm, &ready, 1, b->peer, TAG_READY), "weir_send")
                : !check(b, weir_recv(b->comm, &ready, 1, b->peer, TAG_READY, NULL), "weir_recv"))
        return false;
    switch (c->action) {
    case DO_LATENCY:
        return latency(b, c, results);
    case DO_BANDWIDTH:
        return bandwidth(b, c, results);
    case DO_BARE_LATENCY:
        if (c->method != GET || !b->rank)
            bare_latency(b, c, results);
        return true;
    default:
        if (!b->rank)
            *results = bare_bandwidth(b, c);
        return true;
    }
}
