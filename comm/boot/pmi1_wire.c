/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/str.h"
#include "comm/boot/launcher.h"
#include "comm/boot/pmi1.h"
#include "comm/boot/sock.h"

#define FINALIZE_NS 2000000000
/* Servers read a request into a buffer of 1024 bytes, whatever longest value they announce. */
#define REQUEST_MAX 1000
#define ADVICE      "see whether the launcher reports an error; another way is WEIR_BOOT=pmix or weirrun"

/* ---- lines ---- */

bool wr_pmi1_word(const char *line, const char *name, char *out, size_t size)
{
    size_t len = strlen(name);
    for (const char *p = line; *p;) {
        p += strspn(p, " ");
        size_t word = strcspn(p, " ");
        if (word > len && !strncmp(p, name, len) && p[len] == '=') {
            const char *value = p + len + 1;
            size_t n = strcmp(name, "value") ? word - len - 1 : strlen(value);
            if (n >= size)
                return false;
            memcpy(out, value, n);
            out[n] = 0;
            return true;
        }
        p += word;
    }
    return false;
}

static weir_status gone(struct wr_pmi1 *pmi, const char *what, weir_error *err)
{
    pmi->broken = true;
    return wr_error_set(err, WEIR_ERR_LAUNCHER, ADVICE, "the launcher's PMI-1 server %s", what);
}

/* Waits for the next whole line, without its end, in pmi->line. */
static weir_status read_line(struct wr_pmi1 *pmi, int64_t deadline, weir_error *err)
{
    for (;;) {
        char *end = memchr(pmi->in, '\n', pmi->in_len);
        if (end) {
            size_t len = (size_t)(end - pmi->in);
            memcpy(pmi->line, pmi->in, len);
            pmi->line[len] = 0;
            pmi->in_len -= len + 1;
            memmove(pmi->in, end + 1, pmi->in_len);
            return WEIR_OK;
        }
        if (pmi->in_len == sizeof pmi->in)
            return gone(pmi, "sent a line that is too long", err);
        struct pollfd p = {.fd = pmi->fd, .events = POLLIN};
        int n = poll(&p, 1, wr_deadline_poll_ms(deadline));
        if (n < 0 && errno != EINTR)
            return gone(pmi, "cannot be waited for", err);
        if (n <= 0) {
            if (!wr_deadline_passed(deadline))
                continue;
            pmi->broken = true;
            return WEIR_ERR_TIMEOUT;
        }
        ssize_t got = read(pmi->fd, pmi->in + pmi->in_len, sizeof pmi->in - pmi->in_len);
        if (got > 0)
            pmi->in_len += (size_t)got;
        else if (!got || (errno != EINTR && errno != EAGAIN))
            return gone(pmi, "closed the connection", err);
    }
}

static weir_status write_line(struct wr_pmi1 *pmi, const char *text, size_t len, weir_error *err)
{
    while (len) {
        ssize_t n = write(pmi->fd, text, len);
        if (n > 0) {
            text += n;
            len -= (size_t)n;
        } else if (n < 0 && errno != EINTR && errno != EAGAIN) {
            return gone(pmi, "closed the connection", err);
        }
    }
    return WEIR_OK;
}

/* Sends a request and waits for its answer, which must be `answer`. */
static WR_PRINTF(5, 6) weir_status ask(struct wr_pmi1 *pmi, const char *answer, int64_t timeout_ns, weir_error *err,
                                       const char *fmt, ...)
{
    char line[2048], cmd[64], text[32];
    va_list ap;
    if (pmi->broken)
        return gone(pmi, "has failed before", err);
    va_start(ap, fmt);
    int len = vsnprintf(line, sizeof line - 1, fmt, ap);
    va_end(ap);
    if (len < 0 || (size_t)len >= sizeof line - 1)
        return wr_error_set(err, WEIR_ERR_INTERNAL, NULL, "a PMI-1 request of %d bytes", len);
    line[len++] = '\n';
    weir_status status = write_line(pmi, line, (size_t)len, err);
    if (status == WEIR_OK)
        status = read_line(pmi, wr_deadline(timeout_ns), err);
    if (status == WEIR_ERR_TIMEOUT)
        return wr_error_set(err, status, "see whether all ranks run, or raise WEIR_BOOT_TIMEOUT",
                            "the launcher's PMI-1 server did not send %s within %s", answer,
                            wr_format_time(timeout_ns, text, sizeof text));
    if (status == WEIR_OK && (!wr_pmi1_word(pmi->line, "cmd", cmd, sizeof cmd) || strcmp(cmd, answer)))
        return wr_error_set(err, WEIR_ERR_LAUNCHER, ADVICE, "the launcher's PMI-1 server sent '%.100s' instead of %s",
                            pmi->line, answer);
    return status;
}

/* The number in a word of the last answer. */
static bool word_number(const struct wr_pmi1 *pmi, const char *name, int64_t *out)
{
    char text[32];
    return wr_pmi1_word(pmi->line, name, text, sizeof text) && wr_parse_int(text, out);
}

static bool answered_well(const struct wr_pmi1 *pmi)
{
    int64_t rc;
    return !word_number(pmi, "rc", &rc) || rc == 0;
}

/* ---- joining ---- */

/* PMI_PORT=host:port: the server tells rank and size after the process has said which it is. */
static weir_status connect_port(struct wr_pmi1 *pmi, const struct wr_env *env, const char *port_text, weir_error *err)
{
    char host[256];
    const char *colon = strrchr(port_text, ':');
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    long long id = wr_env_number(env, "PMI_ID", wr_env_number(env, "PMI_RANK", -1));
    int64_t deadline = wr_deadline(pmi->timeout_ns), value;
    char word[64];
    if (!colon || (size_t)(colon - port_text) >= sizeof host || id < 0)
        return wr_error_set(err, WEIR_ERR_LAUNCHER, ADVICE, "PMI_PORT=%s with PMI_ID=%lld cannot be used", port_text, id);
    memcpy(host, port_text, (size_t)(colon - port_text));
    host[colon - port_text] = 0;
    int rc = getaddrinfo(host, colon + 1, &hints, &list);
    if (rc)
        return wr_error_set(err, WEIR_ERR_LAUNCHER, ADVICE, "PMI_PORT=%s: %s", port_text, gai_strerror(rc));
    for (const struct addrinfo *i = list; i && pmi->fd < 0; i = i->ai_next) {
        union wr_sockaddr address;
        if (i->ai_addrlen > sizeof address)
            continue;
        memcpy(&address, i->ai_addr, i->ai_addrlen);
        pmi->fd = wr_sock_connect(&address, deadline);
    }
    freeaddrinfo(list);
    if (pmi->fd < 0)
        return wr_error_errno(err, WEIR_ERR_LAUNCHER, errno, ADVICE, "cannot connect to PMI_PORT=%s", port_text);
    weir_status status = ask(pmi, "initack", pmi->timeout_ns, err, "cmd=initack pmiid=%lld", id);
    while (status == WEIR_OK && (pmi->size < 1 || pmi->rank < 0)) {
        status = read_line(pmi, deadline, err);
        if (status != WEIR_OK)
            return status == WEIR_ERR_TIMEOUT ? gone(pmi, "did not tell rank and size", err) : status;
        if (!wr_pmi1_word(pmi->line, "cmd", word, sizeof word) || strcmp(word, "set"))
            return gone(pmi, "did not tell rank and size", err);
        if (word_number(pmi, "size", &value))
            pmi->size = (int)value;
        if (word_number(pmi, "rank", &value))
            pmi->rank = (int)value;
    }
    /* one more line of settings follows (debug=...); it is passed over by the init below */
    return status;
}

static weir_status connect_fd(struct wr_pmi1 *pmi, const struct wr_env *env, long long fd, weir_error *err)
{
    pmi->rank = (int)wr_env_number(env, "PMI_RANK", -1);
    pmi->size = (int)wr_env_number(env, "PMI_SIZE", -1);
    if (fd < 0 || fcntl((int)fd, F_GETFD) < 0)
        return wr_error_set(err, WEIR_ERR_LAUNCHER,
                            "let the program inherit the descriptors of its launcher, or unset PMI_FD to run it alone",
                            "PMI_FD=%lld is not an open descriptor", fd);
    pmi->fd = (int)fd;
    return WEIR_OK;
}

/* Says hello; settings that were sent unasked may still stand before the answer. */
static weir_status say_init(struct wr_pmi1 *pmi, weir_error *err)
{
    char cmd[64];
    weir_error ignored;
    weir_status status = ask(pmi, "response_to_init", pmi->timeout_ns, err, "cmd=init pmi_version=1 pmi_subversion=1");
    while (status == WEIR_ERR_LAUNCHER && !pmi->broken && wr_pmi1_word(pmi->line, "cmd", cmd, sizeof cmd) &&
           !strcmp(cmd, "set")) {
        status = read_line(pmi, wr_deadline(pmi->timeout_ns), &ignored);
        if (status == WEIR_OK && (!wr_pmi1_word(pmi->line, "cmd", cmd, sizeof cmd) || strcmp(cmd, "response_to_init")))
            status = WEIR_ERR_LAUNCHER;
    }
    if (status == WEIR_OK && !answered_well(pmi))
        status = wr_error_set(err, WEIR_ERR_LAUNCHER, ADVICE, "the launcher's PMI-1 server refuses version 1.1: '%.100s'",
                              pmi->line);
    return status;
}

weir_status wr_pmi1_connect(struct wr_pmi1 *pmi, const struct wr_env *env, int64_t timeout_ns, weir_error *err)
{
    const char *fd = wr_env_get(env, "PMI_FD"), *port = wr_env_get(env, "PMI_PORT");
    int64_t key_max = 64, value_max = 256;
    weir_status status;
    memset(pmi, 0, sizeof *pmi);
    pmi->fd = pmi->rank = pmi->size = -1;
    pmi->timeout_ns = timeout_ns;
    if (fd)
        status = connect_fd(pmi, env, wr_env_number(env, "PMI_FD", -1), err);
    else if (port)
        status = connect_port(pmi, env, port, err);
    else
        status = wr_error_set(err, WEIR_ERR_LAUNCHER, "start the program with a launcher that offers PMI-1",
                              "neither PMI_FD nor PMI_PORT is set");
    if (status == WEIR_OK && (pmi->size < 1 || pmi->rank < 0 || pmi->rank >= pmi->size))
        status = wr_error_set(err, WEIR_ERR_LAUNCHER, ADVICE, "the launcher says rank %d of %d (PMI_RANK, PMI_SIZE)", pmi->rank,
                              pmi->size);
    if (status == WEIR_OK)
        status = say_init(pmi, err);
    if (status == WEIR_OK)
        status = ask(pmi, "maxes", timeout_ns, err, "cmd=get_maxes");
    if (status == WEIR_OK) {
        word_number(pmi, "keylen_max", &key_max);
        word_number(pmi, "vallen_max", &value_max);
        status = ask(pmi, "my_kvsname", timeout_ns, err, "cmd=get_my_kvsname");
    }
    if (status == WEIR_OK && !wr_pmi1_word(pmi->line, "kvsname", pmi->kvs, sizeof pmi->kvs))
        status = gone(pmi, "did not tell the name of its store", err);
    if (status != WEIR_OK)
        return status;
    key_max = WR_MIN(key_max - 1, 63);
    value_max = WR_MIN(value_max - 1, REQUEST_MAX - key_max - (int64_t)strlen(pmi->kvs) - 40);
    if (key_max < 48 || value_max < 32)
        return gone(pmi, "allows too short keys or values", err);
    pmi->key_max = (size_t)key_max;
    pmi->value_max = (size_t)value_max;
    return WEIR_OK;
}

/* ---- requests ---- */

weir_status wr_pmi1_put(struct wr_pmi1 *pmi, const char *key, const char *value, weir_error *err)
{
    weir_status status = ask(pmi, "put_result", pmi->timeout_ns, err, "cmd=put kvsname=%s key=%s value=%s", pmi->kvs, key,
                             value);
    if (status == WEIR_OK && !answered_well(pmi))
        return wr_error_set(err, WEIR_ERR_LAUNCHER, ADVICE, "the launcher's PMI-1 server did not take '%s': '%.100s'", key,
                            pmi->line);
    return status;
}

weir_status wr_pmi1_get(struct wr_pmi1 *pmi, const char *key, char *value, size_t size, weir_error *err)
{
    weir_status status = ask(pmi, "get_result", pmi->timeout_ns, err, "cmd=get kvsname=%s key=%s", pmi->kvs, key);
    if (status != WEIR_OK)
        return status;
    if (!answered_well(pmi) || !wr_pmi1_word(pmi->line, "value", value, size))
        return wr_error_set(err, WEIR_ERR_NOT_FOUND, "the rank must put the key before a fence",
                            "nobody has put '%s' into the launcher's store", key);
    return WEIR_OK;
}

weir_status wr_pmi1_barrier(struct wr_pmi1 *pmi, weir_error *err)
{
    return ask(pmi, "barrier_out", pmi->timeout_ns, err, "cmd=barrier_in");
}

void wr_pmi1_abort(struct wr_pmi1 *pmi, int code)
{
    char line[64];
    int len = snprintf(line, sizeof line, "cmd=abort exitcode=%d\n", code);
    write_line(pmi, line, (size_t)len, NULL); /* has no answer */
}

void wr_pmi1_finalize(struct wr_pmi1 *pmi)
{
    if (!pmi->broken)
        ask(pmi, "finalize_ack", FINALIZE_NS, NULL, "cmd=finalize");
}
