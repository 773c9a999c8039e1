/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/boot/wire.h"

#include <string.h>

#include "comm/boot/siphash.h"

#define MAGIC     "weirboot"
#define MAGIC_LEN 8

/* ---- fields ---- */

struct reader {
    const uint8_t *p;
    size_t left;
    bool bad;
};

static struct reader reader_of(const struct wr_frame *frame)
{
    return (struct reader){frame->payload, frame->len, false};
}

static const uint8_t *take(struct reader *r, size_t len)
{
    if (r->bad || len > r->left) {
        r->bad = true;
        return NULL;
    }
    const uint8_t *p = r->p;
    r->p += len;
    r->left -= len;
    return p;
}

static void take_bytes(struct reader *r, void *out, size_t len)
{
    const uint8_t *p = take(r, len);
    if (p)
        memcpy(out, p, len);
}

static uint64_t take_number(struct reader *r, size_t len)
{
    const uint8_t *p = take(r, len);
    uint64_t v = 0;
    for (size_t i = len; p && i-- > 0;)
        v = v << 8 | p[i];
    return v;
}

/* A text with its length before it; must fit with its end mark and hold none. */
static void take_text(struct reader *r, char *out, size_t size)
{
    size_t len = (size_t)take_number(r, 2);
    const uint8_t *p = take(r, len);
    if (!p || len >= size || memchr(p, 0, len)) {
        r->bad = true;
        out[0] = 0;
        return;
    }
    memcpy(out, p, len);
    out[len] = 0;
}

/* A reader is content when it has met the end exactly. */
static bool done(const struct reader *r)
{
    return !r->bad && !r->left;
}

static void add_number(struct wr_buf *buf, uint64_t value, size_t len)
{
    uint8_t b[8];
    for (size_t i = 0; i < len; i++)
        b[i] = (uint8_t)(value >> 8 * i);
    wr_buf_add(buf, b, len);
}

void wr_wire_add_u32(struct wr_buf *buf, uint32_t value)
{
    add_number(buf, value, 4);
}

static void add_text(struct wr_buf *buf, const char *text)
{
    size_t len = strlen(text);
    add_number(buf, len, 2);
    wr_buf_add(buf, text, len);
}

/* ---- frames ---- */

int wr_wire_frame(const void *data, size_t have, size_t max_payload, struct wr_frame *frame)
{
    struct reader r = {data, have, false};
    size_t len = (size_t)take_number(&r, 4);
    unsigned version = (unsigned)take_number(&r, 1), type = (unsigned)take_number(&r, 1);
    unsigned zero = (unsigned)take_number(&r, 2);
    if (r.bad)
        return 0;
    if (len > max_payload || version != WR_WIRE_VERSION || !type || type >= WR_WIRE_NTYPES || zero)
        return -1;
    const uint8_t *payload = take(&r, len);
    if (!payload)
        return 0;
    *frame = (struct wr_frame){(enum wr_wire_type)type, payload, len};
    return 1;
}

size_t wr_wire_start(struct wr_buf *buf, enum wr_wire_type type)
{
    size_t start = buf->len;
    add_number(buf, 0, 4);
    add_number(buf, WR_WIRE_VERSION, 1);
    add_number(buf, type, 1);
    add_number(buf, 0, 2);
    return start;
}

void wr_wire_finish(struct wr_buf *buf, size_t start)
{
    if (buf->failed)
        return;
    size_t len = buf->len - start - WR_WIRE_HEADER;
    for (size_t i = 0; i < 4; i++)
        buf->data[start + i] = (char)(len >> 8 * i);
}

/* ---- the handshake ---- */

void wr_wire_write_challenge(struct wr_buf *buf, const uint8_t nonce[WR_WIRE_NONCE])
{
    size_t start = wr_wire_start(buf, WR_WIRE_CHALLENGE);
    wr_buf_add(buf, MAGIC, MAGIC_LEN);
    wr_buf_add(buf, nonce, WR_WIRE_NONCE);
    wr_wire_finish(buf, start);
}

bool wr_wire_read_challenge(const struct wr_frame *frame, uint8_t nonce[WR_WIRE_NONCE])
{
    struct reader r = reader_of(frame);
    const uint8_t *magic = take(&r, MAGIC_LEN);
    take_bytes(&r, nonce, WR_WIRE_NONCE);
    return done(&r) && frame->type == WR_WIRE_CHALLENGE && !memcmp(magic, MAGIC, MAGIC_LEN);
}

/* What the hello says about the rank: sent, and covered by its mac. */
static void add_claims(struct wr_buf *buf, const struct wr_wire_hello *hello)
{
    add_number(buf, hello->rank, 4);
    add_number(buf, hello->size, 4);
    add_number(buf, hello->pid, 8);
    add_number(buf, (uint32_t)hello->node, 4);
    add_text(buf, hello->host);
    add_number(buf, hello->identity_len, 2);
    wr_buf_add(buf, hello->identity, hello->identity_len);
}

void wr_wire_hello_mac(const uint8_t secret[16], const uint8_t server_nonce[WR_WIRE_NONCE], const struct wr_wire_hello *hello,
                       uint8_t mac[WR_WIRE_MAC])
{
    struct wr_buf text = {0};
    wr_buf_str(&text, "weir hello");
    wr_buf_add(&text, server_nonce, WR_WIRE_NONCE);
    wr_buf_add(&text, hello->nonce, WR_WIRE_NONCE);
    add_claims(&text, hello);
    if (text.failed)
        memset(mac, 0, WR_WIRE_MAC); /* out of memory: matches nothing that the other side computes */
    else
        wr_siphash128(secret, text.data, text.len, mac);
    wr_buf_free(&text);
}

void wr_wire_welcome_mac(const uint8_t secret[16], const uint8_t server_nonce[WR_WIRE_NONCE],
                         const uint8_t rank_nonce[WR_WIRE_NONCE], uint32_t session, uint8_t mac[WR_WIRE_MAC])
{
    uint8_t text[12 + 2 * WR_WIRE_NONCE + 4] = "weir welcome";
    memcpy(text + 12, rank_nonce, WR_WIRE_NONCE);
    memcpy(text + 12 + WR_WIRE_NONCE, server_nonce, WR_WIRE_NONCE);
    for (int i = 0; i < 4; i++)
        text[12 + 2 * WR_WIRE_NONCE + i] = (uint8_t)(session >> 8 * i);
    wr_siphash128(secret, text, sizeof text, mac);
}

void wr_wire_write_hello(struct wr_buf *buf, const struct wr_wire_hello *hello)
{
    size_t start = wr_wire_start(buf, WR_WIRE_HELLO);
    wr_buf_add(buf, hello->nonce, WR_WIRE_NONCE);
    wr_buf_add(buf, hello->mac, WR_WIRE_MAC);
    add_claims(buf, hello);
    wr_wire_finish(buf, start);
}

bool wr_wire_read_hello(const struct wr_frame *frame, struct wr_wire_hello *hello)
{
    struct reader r = reader_of(frame);
    memset(hello, 0, sizeof *hello);
    take_bytes(&r, hello->nonce, WR_WIRE_NONCE);
    take_bytes(&r, hello->mac, WR_WIRE_MAC);
    hello->rank = (uint32_t)take_number(&r, 4);
    hello->size = (uint32_t)take_number(&r, 4);
    hello->pid = take_number(&r, 8);
    hello->node = (int32_t)(uint32_t)take_number(&r, 4);
    take_text(&r, hello->host, sizeof hello->host);
    size_t len = (size_t)take_number(&r, 2);
    if (len > sizeof hello->identity)
        return false;
    take_bytes(&r, hello->identity, len);
    hello->identity_len = len;
    return done(&r) && frame->type == WR_WIRE_HELLO;
}

void wr_wire_write_welcome(struct wr_buf *buf, const struct wr_wire_welcome *welcome)
{
    size_t start = wr_wire_start(buf, WR_WIRE_WELCOME);
    wr_buf_add(buf, welcome->mac, WR_WIRE_MAC);
    add_number(buf, welcome->session, 4);
    wr_wire_finish(buf, start);
}

bool wr_wire_read_welcome(const struct wr_frame *frame, struct wr_wire_welcome *welcome)
{
    struct reader r = reader_of(frame);
    take_bytes(&r, welcome->mac, WR_WIRE_MAC);
    welcome->session = (uint32_t)take_number(&r, 4);
    return done(&r) && frame->type == WR_WIRE_WELCOME;
}

/* ---- the rest ---- */

void wr_wire_write_text(struct wr_buf *buf, enum wr_wire_type type, uint32_t number, const char *text)
{
    size_t start = wr_wire_start(buf, type);
    add_number(buf, number, 4);
    add_text(buf, text);
    wr_wire_finish(buf, start);
}

bool wr_wire_read_text(const struct wr_frame *frame, uint32_t *number, char *text, size_t size)
{
    struct reader r = reader_of(frame);
    *number = (uint32_t)take_number(&r, 4);
    take_text(&r, text, size);
    return done(&r);
}

void wr_wire_write_nodes(struct wr_buf *buf, const int *node_of, int size)
{
    size_t start = wr_wire_start(buf, WR_WIRE_NODES);
    for (int rank = 0, end; rank < size; rank = end) {
        for (end = rank + 1; end < size && node_of[end] == node_of[rank]; end++)
            ;
        add_number(buf, (uint32_t)node_of[rank], 4);
        add_number(buf, (uint32_t)(end - rank), 4);
    }
    wr_wire_finish(buf, start);
}

bool wr_wire_read_nodes(const struct wr_frame *frame, int *node_of, int size)
{
    struct reader r = reader_of(frame);
    int rank = 0, nnodes = 0;
    while (!r.bad && r.left) {
        uint32_t node = (uint32_t)take_number(&r, 4), count = (uint32_t)take_number(&r, 4);
        if (r.bad || !count || count > (uint32_t)(size - rank) || node > (uint32_t)nnodes)
            return false;
        nnodes += node == (uint32_t)nnodes;
        for (uint32_t i = 0; i < count; i++)
            node_of[rank++] = (int)node;
    }
    return done(&r) && rank == size && frame->type == WR_WIRE_NODES;
}

void wr_wire_write_put(struct wr_buf *buf, const char *key, const void *value, size_t len)
{
    size_t start = wr_wire_start(buf, WR_WIRE_PUT);
    add_text(buf, key);
    wr_buf_add(buf, value, len);
    wr_wire_finish(buf, start);
}

bool wr_wire_read_put(const struct wr_frame *frame, struct wr_wire_put *put)
{
    struct reader r = reader_of(frame);
    take_text(&r, put->key, sizeof put->key);
    put->data = r.p;
    put->len = r.left;
    return !r.bad && put->key[0] && frame->type == WR_WIRE_PUT;
}

void wr_wire_write_get(struct wr_buf *buf, uint32_t request, uint32_t rank, const char *key)
{
    size_t start = wr_wire_start(buf, WR_WIRE_GET);
    add_number(buf, request, 4);
    add_number(buf, rank, 4);
    add_text(buf, key);
    wr_wire_finish(buf, start);
}

bool wr_wire_read_get(const struct wr_frame *frame, struct wr_wire_get *get)
{
    struct reader r = reader_of(frame);
    get->request = (uint32_t)take_number(&r, 4);
    get->rank = (uint32_t)take_number(&r, 4);
    take_text(&r, get->key, sizeof get->key);
    return done(&r) && frame->type == WR_WIRE_GET;
}

void wr_wire_write_value(struct wr_buf *buf, uint32_t request, bool found, const void *value, size_t len)
{
    size_t start = wr_wire_start(buf, WR_WIRE_VALUE);
    add_number(buf, request, 4);
    add_number(buf, found, 1);
    wr_buf_add(buf, value, len);
    wr_wire_finish(buf, start);
}

bool wr_wire_read_value(const struct wr_frame *frame, struct wr_wire_value *value)
{
    struct reader r = reader_of(frame);
    value->request = (uint32_t)take_number(&r, 4);
    uint64_t found = take_number(&r, 1);
    value->found = found == 1;
    value->data = r.p;
    value->len = r.left;
    return !r.bad && found <= 1 && frame->type == WR_WIRE_VALUE;
}

void wr_wire_write_number(struct wr_buf *buf, enum wr_wire_type type, uint32_t number)
{
    size_t start = wr_wire_start(buf, type);
    add_number(buf, number, 4);
    wr_wire_finish(buf, start);
}

bool wr_wire_read_number(const struct wr_frame *frame, uint32_t *number)
{
    struct reader r = reader_of(frame);
    *number = (uint32_t)take_number(&r, 4);
    return done(&r);
}

void wr_wire_write_event(struct wr_buf *buf, const struct wr_boot_event *event)
{
    size_t start = wr_wire_start(buf, WR_WIRE_EVENT);
    add_number(buf, event->kind, 1);
    add_number(buf, (uint32_t)event->rank, 4);
    add_text(buf, event->host);
    add_text(buf, event->reason);
    wr_wire_finish(buf, start);
}

bool wr_wire_read_event(const struct wr_frame *frame, struct wr_boot_event *event)
{
    struct reader r = reader_of(frame);
    uint64_t kind = take_number(&r, 1);
    event->rank = (int)(int32_t)(uint32_t)take_number(&r, 4);
    take_text(&r, event->host, sizeof event->host);
    take_text(&r, event->reason, sizeof event->reason);
    event->kind = (enum wr_boot_event_kind)kind;
    return done(&r) && (kind == WR_BOOT_EVENT_RANK_LOST || kind == WR_BOOT_EVENT_JOB_ABORTED) &&
           frame->type == WR_WIRE_EVENT;
}

void wr_wire_write_empty(struct wr_buf *buf, enum wr_wire_type type)
{
    wr_wire_finish(buf, wr_wire_start(buf, type));
}
