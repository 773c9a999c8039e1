/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libFuzzer on the parser of the bootstrap's wire: frames, and every reader on every frame. A reader that accepts a
 * message must give the same one back after it was written and read again.
 */
#include <stdlib.h>
#include <string.h>

#include "comm/boot/mapping.h"
#include "comm/boot/pmi1.h"
#include "comm/boot/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool condition)
{
    if (!condition)
        abort();
}

/* Whether a written frame is, byte for byte, the one that was read. */
static void same(struct wr_buf *written, const struct wr_frame *frame)
{
    check(!written->failed && written->len == WR_WIRE_HEADER + frame->len);
    check(!frame->len || !memcmp(written->data + WR_WIRE_HEADER, frame->payload, frame->len));
    wr_buf_free(written);
}

static void read_with_all(const struct wr_frame *frame)
{
    struct wr_buf out = {0};
    struct wr_wire_hello hello;
    struct wr_wire_welcome welcome;
    struct wr_wire_put put;
    struct wr_wire_get get;
    struct wr_wire_value value;
    struct wr_boot_event event;
    uint8_t nonce[WR_WIRE_NONCE];
    uint32_t number;
    int nodes[64];
    char text[192];
    if (wr_wire_read_challenge(frame, nonce)) {
        wr_wire_write_challenge(&out, nonce);
        same(&out, frame);
    }
    if (wr_wire_read_hello(frame, &hello)) {
        wr_wire_write_hello(&out, &hello);
        same(&out, frame);
    }
    if (wr_wire_read_welcome(frame, &welcome)) {
        wr_wire_write_welcome(&out, &welcome);
        same(&out, frame);
    }
    if (wr_wire_read_put(frame, &put)) {
        wr_wire_write_put(&out, put.key, put.data, put.len);
        same(&out, frame);
    }
    if (wr_wire_read_get(frame, &get)) {
        wr_wire_write_get(&out, get.request, get.rank, get.key);
        same(&out, frame);
    }
    if (wr_wire_read_value(frame, &value)) {
        wr_wire_write_value(&out, value.request, value.found, value.data, value.len);
        same(&out, frame);
    }
    if (wr_wire_read_event(frame, &event)) {
        wr_wire_write_event(&out, &event);
        same(&out, frame);
    }
    if (wr_wire_read_text(frame, &number, text, sizeof text)) {
        wr_wire_write_text(&out, frame->type, number, text);
        same(&out, frame);
    }
    if (wr_wire_read_number(frame, &number)) {
        wr_wire_write_number(&out, frame->type, number);
        same(&out, frame);
    }
    for (int n = 1; n <= 64; n *= 2)
        if (wr_wire_read_nodes(frame, nodes, n))
            for (int i = 0; i < n; i++)
                check(nodes[i] >= 0 && nodes[i] < n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wr_frame frame;
    size_t at = 0;
    while (wr_wire_frame(data + at, size - at, WR_WIRE_PAYLOAD_MAX, &frame) > 0) {
        read_with_all(&frame);
        at += WR_WIRE_HEADER + frame.len;
    }
    /* the texts of launchers */
    char *text = malloc(size + 1), word[32];
    int nodes[16];
    if (text) {
        if (size)
            memcpy(text, data, size);
        text[size] = 0;
        wr_process_mapping(text, 16, nodes);
        wr_pmi1_word(text, "value", word, sizeof word);
        wr_pmi1_word(text, "cmd", word, sizeof word);
        free(text);
    }
    return 0;
}
