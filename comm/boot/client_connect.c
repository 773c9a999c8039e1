/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "comm/boot/client_impl.h"
#include "comm/boot/siphash.h"
#include "comm/boot/sock.h"

#define FIND_NS       20000000000 /* to find the server; it was there before its ranks */
#define CONNECT_NS    3000000000  /* for one address, so that the next gets its turn */
#define CHALLENGE_NS  5000000000  /* a server of ours speaks at once */
#define RETRY_NS      50000000
#define RETRY_MAX_NS  1000000000
#define REJECTED_MAX  4 /* several servers may listen at the addresses of an id, and only one be the job's */
#define ADVICE        "check that the launcher or the process that made the id still runs and can be reached from this host"

bool wr_secret_parse(const char *hex, uint8_t secret[WR_SECRET_BYTES])
{
    if (!hex || strlen(hex) != WR_SECRET_HEX || strspn(hex, "0123456789abcdefABCDEF") != WR_SECRET_HEX)
        return false;
    for (int i = 0; i < WR_SECRET_BYTES; i++) {
        char digits[3] = {hex[2 * i], hex[2 * i + 1], 0};
        secret[i] = (uint8_t)strtoul(digits, NULL, 16);
    }
    return true;
}

enum outcome { JOINED, FAILED, REJECTED, REFUSED };

/* One attempt, with what it needs and what became of it. */
struct attempt {
    struct client *client;
    const struct wr_boot_params *params;
    const struct wr_target *target;
    int64_t deadline;
    char why[320];
};

static enum outcome failed(struct attempt *a, enum outcome outcome, const char *what)
{
    wr_str_copy(a->why, sizeof a->why, what);
    return outcome;
}

/* The next frame by a deadline. */
static bool next_frame(struct client *c, int64_t deadline, struct wr_frame *frame)
{
    for (;;) {
        switch (wr_client_take(c, frame)) {
        case TAKE_FRAME:
            return true;
        case TAKE_GARBAGE:
            return false;
        case TAKE_NOTHING:
            break;
        }
        if (wr_client_read(c, deadline) <= 0)
            return false;
    }
}

static void fill_hello(const struct attempt *a, const uint8_t server_nonce[WR_WIRE_NONCE],
                       const uint8_t nonce[WR_WIRE_NONCE], struct wr_wire_hello *hello)
{
    memset(hello, 0, sizeof *hello);
    memcpy(hello->nonce, nonce, sizeof hello->nonce);
    hello->rank = (uint32_t)a->target->rank;
    hello->size = (uint32_t)a->target->size;
    hello->pid = (uint64_t)getpid();
    hello->node = a->target->node;
    gethostname(hello->host, sizeof hello->host - 1);
    hello->identity_len = WR_MIN(a->params->identity_len, sizeof hello->identity);
    if (hello->identity_len)
        memcpy(hello->identity, a->params->identity, hello->identity_len);
    wr_wire_hello_mac(a->target->secret, server_nonce, hello, hello->mac);
}

static enum outcome shake_hands(struct attempt *a)
{
    struct client *c = a->client;
    struct wr_frame frame;
    struct wr_wire_hello hello;
    struct wr_wire_welcome welcome;
    struct wr_buf out = {0};
    uint8_t server_nonce[WR_WIRE_NONCE], nonce[WR_WIRE_NONCE], mac[WR_WIRE_MAC];
    uint32_t number;
    if (!next_frame(c, WR_MIN(a->deadline, wr_deadline(CHALLENGE_NS)), &frame) ||
        !wr_wire_read_challenge(&frame, server_nonce))
        return failed(a, FAILED, "what listens there is no bootstrap server of this version");
    if (getrandom(nonce, sizeof nonce, 0) != (ssize_t)sizeof nonce)
        return failed(a, FAILED, "getrandom failed");
    fill_hello(a, server_nonce, nonce, &hello);
    wr_wire_write_hello(&out, &hello);
    bool sent = !out.failed && wr_sock_send_all(c->fd, out.data, out.len, a->deadline);
    wr_buf_free(&out);
    if (!sent || !next_frame(c, a->deadline, &frame))
        return failed(a, FAILED, "the server dropped the connection without an answer; strangers may keep it busy");
    if (frame.type == WR_WIRE_REFUSED && wr_wire_read_text(&frame, &number, a->why, sizeof a->why))
        return number == WR_WIRE_REFUSED_SECRET ? REJECTED : REFUSED;
    if (!wr_wire_read_welcome(&frame, &welcome))
        return failed(a, FAILED, "what listens there is no bootstrap server of this version");
    wr_wire_welcome_mac(a->target->secret, server_nonce, nonce, welcome.session, mac);
    if (!wr_equal_constant_time(mac, welcome.mac, sizeof mac))
        return failed(a, FAILED, "the server does not know the job's secret");
    c->joined = true;
    return JOINED;
}

static void disconnect(struct client *c)
{
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
    wr_buf_free(&c->in);
    c->in_used = 0;
    c->ended = false;
}

static enum outcome try_address(struct attempt *a, const union wr_sockaddr *address)
{
    char text[128];
    a->client->fd = wr_sock_connect(address, WR_MIN(a->deadline, wr_deadline(CONNECT_NS)));
    if (a->client->fd < 0)
        return failed(a, FAILED, wr_strerror(errno, text, sizeof text));
    enum outcome outcome = shake_hands(a);
    if (outcome != JOINED)
        disconnect(a->client);
    return outcome;
}

/* Tries one "host:port". */
static enum outcome try_host(struct attempt *a, const char *spec, size_t len)
{
    char host[256];
    union wr_sockaddr address;
    const char *colon = memrchr(spec, ':', len);
    int port = colon ? atoi(colon + 1) : 0;
    size_t host_len = colon ? (size_t)(colon - spec) : 0;
    if (host_len >= 2 && spec[0] == '[' && spec[host_len - 1] == ']') {
        spec++;
        host_len -= 2;
    }
    if (!host_len || host_len >= sizeof host || port < 1 || port > 65535)
        return failed(a, REFUSED, "the server's address is not of the form host:port");
    memcpy(host, spec, host_len);
    host[host_len] = 0;
    if (wr_sock_numeric(host, &address)) {
        wr_sock_set_port(&address, port);
        return try_address(a, &address);
    }
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    int rc = getaddrinfo(host, NULL, &hints, &list);
    if (rc)
        return failed(a, FAILED, gai_strerror(rc));
    enum outcome outcome = failed(a, FAILED, "the name has no address");
    for (struct addrinfo *i = list; i && (outcome == FAILED || outcome == REJECTED); i = i->ai_next) {
        if (i->ai_addrlen > sizeof address)
            continue;
        memcpy(&address, i->ai_addr, i->ai_addrlen);
        wr_sock_set_port(&address, port);
        outcome = try_address(a, &address);
    }
    freeaddrinfo(list);
    return outcome;
}

weir_status wr_client_connect(struct client *c, const struct wr_boot *boot, const struct wr_boot_params *params,
                              const struct wr_target *target, int64_t deadline, weir_error *err)
{
    struct attempt a = {.client = c, .params = params, .target = target, .deadline = deadline};
    int64_t give_up = WR_MIN(deadline, wr_deadline(FIND_NS)), pause = RETRY_NS;
    int rejected = 0;
    enum outcome outcome = FAILED;
    do {
        for (const char *at = target->addresses; *at;) {
            size_t len = strcspn(at, ",");
            outcome = try_host(&a, at, len);
            if (outcome == JOINED)
                return WEIR_OK;
            wr_debug(boot->log, BOOT, "bootstrap server %.*s: %s", (int)len, at, a.why);
            rejected += outcome == REJECTED;
            if (outcome == REFUSED)
                return wr_error_set(err, WEIR_ERR_LAUNCHER, "start every rank once, with its own rank and the job's size",
                                    "the bootstrap server refuses this process: %s", a.why);
            at += len;
            at += *at == ',';
        }
        struct timespec nap = {pause / 1000000000, pause % 1000000000};
        nanosleep(&nap, NULL);
        pause = WR_MIN(2 * pause, RETRY_MAX_NS);
    } while (rejected < REJECTED_MAX && !wr_deadline_passed(give_up));
    return wr_error_set(err, WEIR_ERR_LAUNCHER, ADVICE, "cannot join the job at the bootstrap server %s: %s",
                        target->addresses, a.why);
}
