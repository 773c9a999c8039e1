/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/boot/client.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "comm/boot/client_impl.h"
#include "comm/boot/sock.h"

#define WHO_NS       2000000000 /* to ask who is missing, after a wait has timed out */
#define ABORT_NS     1000000000
#define LOST_ADVICE  "look at the output of that rank for the reason"
#define VANISHED     "the bootstrap server ended"

struct queued_event {
    struct wr_list link;
    struct wr_boot_event event;
};

/* ---- reading ---- */

static void queue_event(struct client *c, const struct wr_boot_event *event)
{
    struct queued_event *q = malloc(sizeof *q);
    uint64_t one = 1;
    if (c->broken.kind == WR_BOOT_EVENT_NONE)
        c->broken = *event;
    if (!q)
        return; /* the collectives fail all the same */
    q->event = *event;
    wr_list_push_back(&c->events, &q->link);
    if (write(c->event_fd, &one, sizeof one) < 0)
        return; /* the counter is full: it is readable then */
}

enum take_result wr_client_take(struct client *c, struct wr_frame *frame)
{
    for (;;) {
        struct wr_boot_event event;
        int found = wr_wire_frame(c->in.data + c->in_used, c->in.len - c->in_used,
                                  c->joined ? WR_WIRE_PAYLOAD_MAX : WR_WIRE_STRANGER_MAX, frame);
        if (found < 0)
            return TAKE_GARBAGE;
        if (!found)
            return TAKE_NOTHING;
        c->in_used += WR_WIRE_HEADER + frame->len;
        if (frame->type != WR_WIRE_EVENT || !c->joined)
            return TAKE_FRAME;
        if (!wr_wire_read_event(frame, &event))
            return TAKE_GARBAGE;
        queue_event(c, &event);
    }
}

static void note_end(struct client *c)
{
    struct wr_boot_event event = {.kind = WR_BOOT_EVENT_JOB_ABORTED, .rank = -1, .reason = VANISHED};
    if (c->ended)
        return;
    c->ended = true;
    if (!c->joined) /* one attempt of several has failed; the job is not touched by it */
        return;
    epoll_ctl(c->epoll_fd, EPOLL_CTL_DEL, c->fd, NULL); /* it would stay readable for ever */
    queue_event(c, &event);
}

int wr_client_read(struct client *c, int64_t deadline)
{
    char chunk[16384];
    if (c->ended)
        return -1;
    if (c->in_used) {
        memmove(c->in.data, c->in.data + c->in_used, c->in.len - c->in_used);
        c->in.len -= c->in_used;
        c->in_used = 0;
    }
    for (;;) {
        ssize_t n = recv(c->fd, chunk, sizeof chunk, MSG_DONTWAIT);
        if (n > 0) {
            wr_buf_add(&c->in, chunk, (size_t)n);
            return c->in.failed ? -1 : 1;
        }
        if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
            note_end(c);
            return -1;
        }
        struct pollfd p = {.fd = c->fd, .events = POLLIN};
        if (errno == EAGAIN && poll(&p, 1, wr_deadline_poll_ms(deadline)) == 0 && wr_deadline_passed(deadline))
            return 0;
    }
}

/* ---- waiting for an answer ---- */

static weir_status broken(const struct client *c, weir_error *err)
{
    const struct wr_boot_event *e = &c->broken;
    weir_status status;
    if (e->kind == WR_BOOT_EVENT_RANK_LOST)
        status = wr_error_set(err, WEIR_ERR_PEER_LOST, LOST_ADVICE, "rank %d was lost: %s", e->rank, e->reason);
    else if (e->rank >= 0)
        status = wr_error_set(err, WEIR_ERR_PEER_LOST, LOST_ADVICE, "rank %d aborted the job: %s", e->rank, e->reason);
    else
        status = wr_error_set(err, WEIR_ERR_LAUNCHER, "see why the launcher or the process that made the id ended", "%s",
                              e->reason);
    wr_error_at(err, e->rank, e->host);
    return status;
}

/* Whether a frame is the answer of one type, to the question of that number where answers of the type have one. */
static bool answers(const struct wr_frame *frame, enum wr_wire_type type, uint32_t number)
{
    uint32_t first = 0;
    if (frame->type != type)
        return false;
    if (type != WR_WIRE_VALUE && type != WR_WIRE_FENCE_DONE)
        return true;
    for (size_t i = 4; frame->len >= 4 && i-- > 0;)
        first = first << 8 | frame->payload[i];
    return frame->len >= 4 && first == number;
}

/* A late answer to a question that was given up; but a fence can be taken up again. */
static void pass_over(struct client *c, const struct wr_frame *frame)
{
    if (c->at_fence && answers(frame, WR_WIRE_FENCE_DONE, c->fence))
        c->fence_done = true;
}

/*
 * Waits for an answer of one type, or of another one (0: none). A collective one ends when a rank is lost.
 * WEIR_ERR_TIMEOUT is returned without a message.
 */
static weir_status await(struct client *c, enum wr_wire_type type, enum wr_wire_type other, uint32_t number, bool collective,
                         int64_t deadline, struct wr_frame *frame, weir_error *err)
{
    for (;;) {
        enum take_result result = wr_client_take(c, frame);
        if (result == TAKE_FRAME) {
            if (!answers(frame, type, number) && !answers(frame, other, number)) {
                pass_over(c, frame);
                continue;
            }
            /* what was told before the answer counts: a fence does not succeed in a job that is being ended */
            return collective && c->broken.kind != WR_BOOT_EVENT_NONE ? broken(c, err) : WEIR_OK;
        }
        if (result == TAKE_GARBAGE)
            return wr_error_set(err, WEIR_ERR_PROTOCOL, "use the same version of weir everywhere",
                                "the bootstrap server sent a malformed message");
        if (c->broken.kind != WR_BOOT_EVENT_NONE && (collective || c->ended))
            return broken(c, err);
        int got = wr_client_read(c, deadline);
        if (!got)
            return WEIR_ERR_TIMEOUT;
        if (got < 0 && c->in.failed)
            return wr_error_memory(err, c->in.len, "the bootstrap's messages");
    }
}

static weir_status send_frame(struct wr_boot *boot, struct wr_buf *frame, weir_error *err)
{
    struct client *c = boot->state;
    weir_status status = WEIR_OK;
    if (frame->failed)
        status = wr_error_memory(err, frame->len, "a bootstrap message");
    else if (frame->len > WR_WIRE_PAYLOAD_MAX)
        status = wr_error_set(err, WEIR_ERR_LIMIT, "put a shorter value", "a bootstrap value of %zu bytes; at most %d are possible",
                              frame->len, WR_WIRE_PAYLOAD_MAX - 256);
    else if (c->ended)
        status = broken(c, err);
    else if (!wr_sock_send_all(c->fd, frame->data, frame->len, wr_deadline(boot->timeout_ns)))
        status = wr_error_errno(err, WEIR_ERR_LAUNCHER, errno, "see why the launcher ended", "cannot write to the bootstrap server");
    wr_buf_free(frame);
    return status;
}

/*
 * Waits for what the server sends when all ranks have come. When the time is over it asks the server who did not come; the
 * answer that was waited for may still come before the answer to that.
 */
static weir_status await_all(struct wr_boot *boot, enum wr_wire_type type, uint32_t number, int64_t deadline,
                             struct wr_frame *frame, weir_error *err)
{
    struct client *c = boot->state;
    enum wr_wire_stage stage = type == WR_WIRE_NODES        ? WR_WIRE_AT_START
                               : type == WR_WIRE_FENCE_DONE ? WR_WIRE_AT_FENCE
                                                            : WR_WIRE_AT_FAREWELL;
    static const char *const at[] = {"weir_init", "the bootstrap's fence", "weir_finalize"};
    struct wr_buf out = {0};
    uint32_t count;
    char who[256], time[32];
    const char *advice = "see whether these ranks run, or raise WEIR_BOOT_TIMEOUT";
    weir_status status = await(c, type, 0, number, true, deadline, frame, err);
    if (status != WEIR_ERR_TIMEOUT)
        return status;
    wr_format_time(boot->timeout_ns, time, sizeof time);
    wr_wire_write_number(&out, WR_WIRE_WHO, stage);
    if (send_frame(boot, &out, NULL) == WEIR_OK &&
        await(c, type, WR_WIRE_MISSING, number, false, wr_deadline(WHO_NS), frame, NULL) == WEIR_OK) {
        if (frame->type == type)
            return c->broken.kind != WR_BOOT_EVENT_NONE ? broken(c, err) : WEIR_OK;
        if (wr_wire_read_text(frame, &count, who, sizeof who))
            return wr_error_set(err, WEIR_ERR_TIMEOUT, advice, "%u of %d ranks did not come to %s within %s: rank%s %s", count,
                                boot->info.size, at[stage], time, count == 1 ? "" : "s", who);
    }
    return wr_error_set(err, WEIR_ERR_TIMEOUT, advice, "not all of %d ranks came to %s within %s", boot->info.size,
                        at[stage], time);
}

/* ---- the ops ---- */

weir_status wr_client_put(struct wr_boot *boot, const char *key, const void *value, size_t len, enum wr_boot_scope scope, weir_error *err)
{
    (void)scope;
    struct wr_buf frame = {0};
    wr_wire_write_put(&frame, key, value, len);
    return send_frame(boot, &frame, err);
}

weir_status wr_client_fence(struct wr_boot *boot, weir_error *err)
{
    struct client *c = boot->state;
    struct wr_buf out = {0};
    struct wr_frame frame;
    if (c->broken.kind != WR_BOOT_EVENT_NONE)
        return broken(c, err);
    weir_status status = WEIR_OK;
    if (!c->at_fence) { /* else the caller tries again: go on waiting */
        wr_wire_write_number(&out, WR_WIRE_FENCE, c->fence);
        status = send_frame(boot, &out, err);
    }
    if (status == WEIR_OK && !c->fence_done)
        status = await_all(boot, WR_WIRE_FENCE_DONE, c->fence, wr_deadline(boot->timeout_ns), &frame, err);
    c->at_fence = status == WEIR_ERR_TIMEOUT;
    c->fence_done = false;
    c->fence += status == WEIR_OK;
    return status;
}

weir_status wr_client_get(struct wr_boot *boot, int rank, const char *key, void **value, size_t *len, weir_error *err)
{
    struct client *c = boot->state;
    struct wr_buf out = {0};
    struct wr_frame frame;
    struct wr_wire_value answer;
    uint32_t request = c->request++;
    wr_wire_write_get(&out, request, (uint32_t)rank, key);
    weir_status status = send_frame(boot, &out, err);
    if (status == WEIR_OK)
        status = await(c, WR_WIRE_VALUE, 0, request, false, wr_deadline(boot->timeout_ns), &frame, err);
    if (status == WEIR_ERR_TIMEOUT)
        return wr_error_set(err, status, "see whether the launcher still runs", "the bootstrap server did not answer");
    if (status != WEIR_OK)
        return status;
    if (!wr_wire_read_value(&frame, &answer))
        return wr_error_set(err, WEIR_ERR_PROTOCOL, "use the same version of weir everywhere",
                            "the bootstrap server sent a malformed value");
    if (!answer.found)
        return wr_error_set(err, WEIR_ERR_NOT_FOUND, "the rank must put the key before a fence",
                            "rank %d has put nothing under the key '%s'", rank, key);
    void *copy = malloc(answer.len ? answer.len : 1);
    if (!copy)
        return wr_error_memory(err, answer.len, "a bootstrap value");
    memcpy(copy, answer.data, answer.len);
    *value = copy;
    *len = answer.len;
    return WEIR_OK;
}

void wr_client_abort(struct wr_boot *boot, int code, const char *message)
{
    const struct client *c = boot->state;
    char text[160]; /* fits into the reason of the others' event */
    struct wr_buf frame = {0};
    wr_str_copy(text, sizeof text, message ? message : "weir_abort was called");
    wr_wire_write_text(&frame, WR_WIRE_ABORT, (uint32_t)code, text);
    /* reads nothing but the descriptor: another thread may be waiting inside another call */
    if (!frame.failed)
        wr_sock_send_all(c->fd, frame.data, frame.len, wr_deadline(ABORT_NS));
    wr_buf_free(&frame);
}

int wr_client_event_fd(struct wr_boot *boot)
{
    const struct client *c = boot->state;
    return c->epoll_fd;
}

bool wr_client_poll_event(struct wr_boot *boot, struct wr_boot_event *event)
{
    struct client *c = boot->state;
    struct wr_frame frame;
    uint64_t count;
    if (wr_list_empty(&c->events)) {
        enum take_result result;
        do {
            while ((result = wr_client_take(c, &frame)) == TAKE_FRAME)
                pass_over(c, &frame);
            if (result == TAKE_GARBAGE)
                note_end(c);
        } while (wr_list_empty(&c->events) && result == TAKE_NOTHING && wr_client_read(c, wr_clock_ns()) > 0);
    }
    if (wr_list_empty(&c->events))
        return false;
    struct queued_event *q = wr_list_first(&c->events, struct queued_event, link);
    *event = q->event;
    wr_list_remove(&q->link);
    free(q);
    if (wr_list_empty(&c->events) && read(c->event_fd, &count, sizeof count) < 0)
        return true; /* it was empty already */
    return true;
}

/* ---- life ---- */

static void client_free(struct client *c)
{
    struct queued_event *q, *next;
    wr_list_for_each_safe(q, next, &c->events, link)
        free(q);
    if (c->fd >= 0)
        close(c->fd);
    if (c->event_fd >= 0)
        close(c->event_fd);
    if (c->epoll_fd >= 0)
        close(c->epoll_fd);
    wr_buf_free(&c->in);
    free(c);
}

static weir_status open_descriptors(struct client *c, weir_error *err)
{
    struct epoll_event readable = {.events = EPOLLIN};
    c->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    c->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (c->event_fd < 0 || c->epoll_fd < 0 || epoll_ctl(c->epoll_fd, EPOLL_CTL_ADD, c->event_fd, &readable))
        return wr_error_errno(err, WEIR_ERR_SYSTEM, errno, "check the limit on open files", "cannot create an event descriptor");
    return WEIR_OK;
}

weir_status wr_client_open(struct wr_boot *boot, const struct wr_boot_params *params, const struct wr_target *target,
                           weir_error *err)
{
    struct epoll_event readable = {.events = EPOLLIN};
    struct wr_frame frame;
    int64_t deadline = wr_deadline(boot->timeout_ns);
    struct client *c = calloc(1, sizeof *c);
    if (!c)
        return wr_error_memory(err, sizeof *c, "the bootstrap");
    c->fd = c->event_fd = c->epoll_fd = -1;
    wr_list_init(&c->events);
    boot->info.rank = target->rank;
    boot->info.size = target->size;
    boot->info.node_of = malloc((size_t)target->size * sizeof *boot->info.node_of);
    weir_status status = boot->info.node_of ? open_descriptors(c, err)
                                            : wr_error_memory(err, (size_t)target->size * sizeof(int), "the node map");
    if (status == WEIR_OK)
        status = wr_client_connect(c, boot, params, target, deadline, err);
    if (status != WEIR_OK)
        goto free_client;
    boot->state = c;
    if (epoll_ctl(c->epoll_fd, EPOLL_CTL_ADD, c->fd, &readable)) {
        status = wr_error_errno(err, WEIR_ERR_SYSTEM, errno, NULL, "epoll failed");
        goto free_client;
    }
    status = await_all(boot, WR_WIRE_NODES, 0, deadline, &frame, err);
    if (status != WEIR_OK)
        goto free_client;
    if (!wr_wire_read_nodes(&frame, boot->info.node_of, target->size)) {
        status = wr_error_set(err, WEIR_ERR_PROTOCOL, "use the same version of weir everywhere",
                              "the bootstrap server sent a malformed node map");
        goto free_client;
    }
    return WEIR_OK;
free_client:
    boot->state = NULL;
    client_free(c);
    return status;
}

weir_status wr_client_close(struct wr_boot *boot, bool goodbye, weir_error *err)
{
    struct client *c = boot->state;
    struct wr_buf out = {0};
    struct wr_frame frame;
    weir_status status = WEIR_OK;
    if (goodbye) {
        wr_wire_write_empty(&out, WR_WIRE_FAREWELL);
        status = send_frame(boot, &out, err);
        if (status == WEIR_OK)
            status = await_all(boot, WR_WIRE_FAREWELL_DONE, 0, wr_deadline(boot->timeout_ns), &frame, err);
    }
    client_free(c);
    return status;
}
