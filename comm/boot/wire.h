/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The messages between a rank and weir's own bootstrap server.
 *
 * A frame is an 8-byte header (payload length, version, type) and the payload; numbers are little-endian. Everything
 * here is a pure function over bytes that may be hostile: readers check every length and never read past the end.
 *
 * Order of a connection: the server sends CHALLENGE; the rank answers HELLO with a keyed hash over both nonces; the
 * server answers WELCOME with a keyed hash of its own, or REFUSED; then NODES as soon as all ranks are there. After
 * that the rank asks and the server answers; EVENT may come at any time.
 */
#ifndef WR_BOOT_WIRE_H
#define WR_BOOT_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "comm/boot/boot.h"

enum {
    WR_WIRE_VERSION = 1,
    WR_WIRE_HEADER = 8,
    WR_WIRE_NONCE = 16,
    WR_WIRE_MAC = 16,
    WR_WIRE_STRANGER_MAX = 512,    /* longest payload before the other side has proven who it is */
    WR_WIRE_PAYLOAD_MAX = 1 << 26, /* longest payload at all */
    WR_WIRE_IDENTITY_MAX = 64
};

enum wr_wire_type {
    WR_WIRE_CHALLENGE = 1, /* server: magic, nonce */
    WR_WIRE_HELLO,         /* rank: struct wr_wire_hello */
    WR_WIRE_WELCOME,       /* server: struct wr_wire_welcome */
    WR_WIRE_REFUSED,       /* server: enum wr_wire_refusal, text */
    WR_WIRE_NODES,         /* server: the node of each rank, as runs */
    WR_WIRE_PUT,           /* rank: key, value */
    WR_WIRE_GET,           /* rank: struct wr_wire_get */
    WR_WIRE_VALUE,         /* server: struct wr_wire_value */
    WR_WIRE_FENCE,         /* rank: number */
    WR_WIRE_FENCE_DONE,    /* server: number */
    WR_WIRE_WHO,           /* rank: which ranks have not come to enum wr_wire_stage? */
    WR_WIRE_MISSING,       /* server: count and text */
    WR_WIRE_EVENT,         /* server: struct wr_boot_event */
    WR_WIRE_ABORT,         /* rank: exit code and text */
    WR_WIRE_FAREWELL,      /* rank: nothing */
    WR_WIRE_FAREWELL_DONE, /* server: nothing */
    WR_WIRE_NTYPES
};

/* Why a rank is refused: the number of REFUSED. */
enum wr_wire_refusal { WR_WIRE_REFUSED_RANK, WR_WIRE_REFUSED_SECRET };

/* Where ranks may be missing. */
enum wr_wire_stage { WR_WIRE_AT_START, WR_WIRE_AT_FENCE, WR_WIRE_AT_FAREWELL };

struct wr_frame {
    enum wr_wire_type type;
    const uint8_t *payload;
    size_t len;
};

/* Looks for a frame at the start of `have` bytes: 1 found, 0 more bytes are needed, -1 this is no frame of ours. */
int wr_wire_frame(const void *data, size_t have, size_t max_payload, struct wr_frame *frame);

/* Writing: start a frame, add fields, finish it with the position that start returned. */
size_t wr_wire_start(struct wr_buf *buf, enum wr_wire_type type);
void wr_wire_finish(struct wr_buf *buf, size_t start);
void wr_wire_add_u32(struct wr_buf *buf, uint32_t value);

struct wr_wire_hello {
    uint8_t nonce[WR_WIRE_NONCE];
    uint8_t mac[WR_WIRE_MAC];
    uint32_t rank, size;
    uint64_t pid;
    int32_t node; /* WEIR_JOB_NODE, -1 when there is none */
    char host[64];
    uint8_t identity[WR_WIRE_IDENTITY_MAX];
    size_t identity_len;
};

struct wr_wire_welcome {
    uint8_t mac[WR_WIRE_MAC];
    uint32_t session;
};

struct wr_wire_get {
    uint32_t request, rank;
    char key[WR_BOOT_KEY_MAX + 1];
};

struct wr_wire_value {
    uint32_t request;
    bool found;
    const uint8_t *data; /* inside the frame */
    size_t len;
};

struct wr_wire_put {
    char key[WR_BOOT_KEY_MAX + 1];
    const uint8_t *data; /* inside the frame */
    size_t len;
};

/* Keyed hashes of the handshake. The hello's covers all its fields but the mac itself. */
void wr_wire_hello_mac(const uint8_t secret[16], const uint8_t server_nonce[WR_WIRE_NONCE], const struct wr_wire_hello *hello,
                       uint8_t mac[WR_WIRE_MAC]);
void wr_wire_welcome_mac(const uint8_t secret[16], const uint8_t server_nonce[WR_WIRE_NONCE],
                         const uint8_t rank_nonce[WR_WIRE_NONCE], uint32_t session, uint8_t mac[WR_WIRE_MAC]);

/* A writer and a reader for each message. Writers append a whole frame; readers return false for a malformed payload. */
void wr_wire_write_challenge(struct wr_buf *buf, const uint8_t nonce[WR_WIRE_NONCE]);
bool wr_wire_read_challenge(const struct wr_frame *frame, uint8_t nonce[WR_WIRE_NONCE]);
void wr_wire_write_hello(struct wr_buf *buf, const struct wr_wire_hello *hello);
bool wr_wire_read_hello(const struct wr_frame *frame, struct wr_wire_hello *hello);
void wr_wire_write_welcome(struct wr_buf *buf, const struct wr_wire_welcome *welcome);
bool wr_wire_read_welcome(const struct wr_frame *frame, struct wr_wire_welcome *welcome);
void wr_wire_write_text(struct wr_buf *buf, enum wr_wire_type type, uint32_t number, const char *text); /* REFUSED, MISSING, ABORT */
bool wr_wire_read_text(const struct wr_frame *frame, uint32_t *number, char *text, size_t size);
void wr_wire_write_nodes(struct wr_buf *buf, const int *node_of, int size);
bool wr_wire_read_nodes(const struct wr_frame *frame, int *node_of, int size);
void wr_wire_write_put(struct wr_buf *buf, const char *key, const void *value, size_t len);
bool wr_wire_read_put(const struct wr_frame *frame, struct wr_wire_put *put);
void wr_wire_write_get(struct wr_buf *buf, uint32_t request, uint32_t rank, const char *key);
bool wr_wire_read_get(const struct wr_frame *frame, struct wr_wire_get *get);
void wr_wire_write_value(struct wr_buf *buf, uint32_t request, bool found, const void *value, size_t len);
bool wr_wire_read_value(const struct wr_frame *frame, struct wr_wire_value *value);
void wr_wire_write_number(struct wr_buf *buf, enum wr_wire_type type, uint32_t number); /* FENCE, FENCE_DONE, WHO */
bool wr_wire_read_number(const struct wr_frame *frame, uint32_t *number);
void wr_wire_write_event(struct wr_buf *buf, const struct wr_boot_event *event);
bool wr_wire_read_event(const struct wr_frame *frame, struct wr_boot_event *event);
void wr_wire_write_empty(struct wr_buf *buf, enum wr_wire_type type); /* FAREWELL, FAREWELL_DONE */

#endif
