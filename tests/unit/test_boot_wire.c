/* SPDX-License-Identifier: BSD-3-Clause */
/* The pure parts of the bootstrap: keyed hash, framing, messages, keys and values. */
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/boot/kv.h"
#include "comm/boot/siphash.h"
#include "comm/boot/wire.h"

/* The vectors published with SipHash's reference code: key 00..0f, message 00, 01, ... of each length. */
static void siphash_gives_the_published_vectors(void **state)
{
    (void)state;
    static const struct {
        size_t len;
        uint8_t want[16];
    } vectors[] = {
        {0, {0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6, 0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55, 0x02, 0x93}},
        {1, {0xda, 0x87, 0xc1, 0xd8, 0x6b, 0x99, 0xaf, 0x44, 0x34, 0x76, 0x59, 0x11, 0x9b, 0x22, 0xfc, 0x45}},
        {2, {0x81, 0x77, 0x22, 0x8d, 0xa4, 0xa4, 0x5d, 0xc7, 0xfc, 0xa3, 0x8b, 0xde, 0xf6, 0x0a, 0xff, 0xe4}},
        {3, {0x9c, 0x70, 0xb6, 0x0c, 0x52, 0x67, 0xa9, 0x4e, 0x5f, 0x33, 0xb6, 0xb0, 0x29, 0x85, 0xed, 0x51}},
        {4, {0xf8, 0x81, 0x64, 0xc1, 0x2d, 0x9c, 0x8f, 0xaf, 0x7d, 0x0f, 0x6e, 0x7c, 0x7b, 0xcd, 0x55, 0x79}},
        {8, {0x3b, 0x62, 0xa9, 0xba, 0x62, 0x58, 0xf5, 0x61, 0x0f, 0x83, 0xe2, 0x64, 0xf3, 0x14, 0x97, 0xb4}},
        {63, {0x51, 0x50, 0xd1, 0x77, 0x2f, 0x50, 0x83, 0x4a, 0x50, 0x3e, 0x06, 0x9a, 0x97, 0x3f, 0xbd, 0x7c}},
    };
    uint8_t key[16], message[64], out[16];
    for (size_t i = 0; i < sizeof message; i++)
        message[i] = (uint8_t)i;
    memcpy(key, message, sizeof key);
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        wr_siphash128(key, message, vectors[i].len, out);
        assert_memory_equal(out, vectors[i].want, 16);
    }
}

static void comparison_sees_every_byte(void **state)
{
    (void)state;
    uint8_t a[16] = {0}, b[16];
    for (size_t i = 0; i < sizeof a; i++) {
        memcpy(b, a, sizeof b);
        assert_true(wr_equal_constant_time(a, b, sizeof a));
        b[i] ^= 0x80;
        assert_false(wr_equal_constant_time(a, b, sizeof a));
    }
}

static void a_frame_is_found_only_when_it_is_whole(void **state)
{
    (void)state;
    struct wr_buf buf = {0};
    struct wr_frame frame;
    uint32_t number;
    wr_wire_write_number(&buf, WR_WIRE_FENCE, 77);
    for (size_t have = 0; have < buf.len; have++)
        assert_int_equal(wr_wire_frame(buf.data, have, 100, &frame), 0);
    assert_int_equal(wr_wire_frame(buf.data, buf.len, 100, &frame), 1);
    assert_int_equal(frame.type, WR_WIRE_FENCE);
    assert_true(wr_wire_read_number(&frame, &number));
    assert_int_equal(number, 77);
    wr_buf_free(&buf);
}

static void a_bad_header_is_refused(void **state)
{
    (void)state;
    static const uint8_t bad[][WR_WIRE_HEADER] = {
        {101, 0, 0, 0, WR_WIRE_VERSION, WR_WIRE_FENCE, 0, 0},         /* longer than allowed */
        {255, 255, 255, 255, WR_WIRE_VERSION, WR_WIRE_FENCE, 0, 0},   /* very long */
        {4, 0, 0, 0, WR_WIRE_VERSION + 1, WR_WIRE_FENCE, 0, 0},       /* another version */
        {4, 0, 0, 0, WR_WIRE_VERSION, 0, 0, 0},                       /* no type */
        {4, 0, 0, 0, WR_WIRE_VERSION, WR_WIRE_NTYPES, 0, 0},          /* unknown type */
        {4, 0, 0, 0, WR_WIRE_VERSION, WR_WIRE_FENCE, 1, 0},           /* reserved bits */
        {'G', 'E', 'T', ' ', '/', ' ', 'H', 'T'},
    };
    struct wr_frame frame;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(wr_wire_frame(bad[i], WR_WIRE_HEADER, 100, &frame), -1);
}

static void hello_survives_the_wire_and_its_mac_covers_it(void **state)
{
    (void)state;
    struct wr_wire_hello in = {.rank = 3, .size = 9, .pid = 1ull << 40, .node = -1, .host = "n1", .identity_len = 5}, out;
    uint8_t secret[16] = {1}, nonce[16] = {2}, mac[16];
    struct wr_buf buf = {0};
    struct wr_frame frame;
    memcpy(in.identity, "abcde", 5);
    wr_wire_hello_mac(secret, nonce, &in, in.mac);
    wr_wire_write_hello(&buf, &in);
    assert_int_equal(wr_wire_frame(buf.data, buf.len, WR_WIRE_STRANGER_MAX, &frame), 1);
    assert_true(wr_wire_read_hello(&frame, &out));
    assert_memory_equal(&in, &out, sizeof in);
    wr_wire_hello_mac(secret, nonce, &out, mac);
    assert_true(wr_equal_constant_time(mac, out.mac, 16));
    /* any changed byte either breaks the message or its mac */
    for (size_t i = WR_WIRE_HEADER; i < buf.len; i++) {
        buf.data[i] ^= 1;
        if (wr_wire_read_hello(&frame, &out)) {
            wr_wire_hello_mac(secret, nonce, &out, mac);
            assert_false(wr_equal_constant_time(mac, out.mac, 16));
        }
        buf.data[i] ^= 1;
    }
    nonce[15] ^= 1;
    wr_wire_hello_mac(secret, nonce, &in, mac);
    assert_false(wr_equal_constant_time(mac, in.mac, 16));
    wr_buf_free(&buf);
}

static void texts_with_ends_inside_are_refused(void **state)
{
    (void)state;
    struct wr_buf buf = {0};
    struct wr_frame frame;
    struct wr_wire_get get;
    char text[8];
    uint32_t number;
    wr_wire_write_get(&buf, 1, 2, "key");
    assert_int_equal(wr_wire_frame(buf.data, buf.len, 100, &frame), 1);
    assert_true(wr_wire_read_get(&frame, &get));
    assert_string_equal(get.key, "key");
    buf.data[buf.len - 2] = 0;
    assert_false(wr_wire_read_get(&frame, &get));
    buf.len = 0;
    wr_wire_write_text(&buf, WR_WIRE_REFUSED, 5, "longer than eight");
    assert_int_equal(wr_wire_frame(buf.data, buf.len, 100, &frame), 1);
    assert_false(wr_wire_read_text(&frame, &number, text, sizeof text));
    wr_buf_free(&buf);
}

static void node_maps_travel_as_runs(void **state)
{
    (void)state;
    static const int maps[][6] = {{0, 0, 0, 1, 1, 1}, {0, 1, 0, 1, 0, 1}, {0, 1, 2, 3, 4, 5}, {0, 0, 1, 0, 2, 2}};
    int out[6];
    struct wr_frame frame;
    for (size_t i = 0; i < sizeof maps / sizeof maps[0]; i++) {
        struct wr_buf buf = {0};
        wr_wire_write_nodes(&buf, maps[i], 6);
        assert_int_equal(wr_wire_frame(buf.data, buf.len, 1000, &frame), 1);
        assert_true(wr_wire_read_nodes(&frame, out, 6));
        assert_memory_equal(out, maps[i], sizeof out);
        assert_false(wr_wire_read_nodes(&frame, out, 5)); /* too many ranks */
        frame.len -= 8;
        assert_false(wr_wire_read_nodes(&frame, out, 6)); /* too few */
        wr_buf_free(&buf);
    }
    /* a node that skips a number */
    static const int skips[2] = {0, 2};
    struct wr_buf buf = {0};
    wr_wire_write_nodes(&buf, skips, 2);
    assert_int_equal(wr_wire_frame(buf.data, buf.len, 1000, &frame), 1);
    assert_false(wr_wire_read_nodes(&frame, out, 2));
    wr_buf_free(&buf);
}

static void random_bytes_never_read_past_their_end(void **state)
{
    (void)state;
    uint32_t seed = 12345;
    for (int round = 0; round < 20000; round++) {
        uint8_t head[WR_WIRE_HEADER] = {0};
        size_t len = (seed >> 8) % 64;
        uint8_t *bytes = malloc(WR_WIRE_HEADER + len); /* exactly as long, so that the sanitizer sees a byte too far */
        head[0] = (uint8_t)len;
        head[4] = WR_WIRE_VERSION;
        head[5] = (uint8_t)(1 + round % (WR_WIRE_NTYPES - 1));
        memcpy(bytes, head, sizeof head);
        for (size_t i = 0; i < len; i++) {
            seed = seed * 1103515245 + 12345;
            bytes[WR_WIRE_HEADER + i] = (seed >> 16) % 3 ? (uint8_t)(seed >> 24) % 8 : 0;
        }
        seed = seed * 1103515245 + 12345;
        struct wr_frame frame;
        assert_int_equal(wr_wire_frame(bytes, WR_WIRE_HEADER + len, 100, &frame), 1);
        struct wr_wire_hello hello;
        struct wr_wire_welcome welcome;
        struct wr_wire_get get;
        struct wr_wire_put put;
        struct wr_wire_value value;
        struct wr_boot_event event;
        uint8_t nonce[WR_WIRE_NONCE];
        int nodes[16];
        uint32_t number;
        char text[16];
        wr_wire_read_challenge(&frame, nonce);
        wr_wire_read_hello(&frame, &hello);
        wr_wire_read_welcome(&frame, &welcome);
        wr_wire_read_get(&frame, &get);
        wr_wire_read_put(&frame, &put);
        wr_wire_read_value(&frame, &value);
        wr_wire_read_event(&frame, &event);
        wr_wire_read_number(&frame, &number);
        wr_wire_read_nodes(&frame, nodes, 16);
        wr_wire_read_text(&frame, &number, text, sizeof text);
        free(bytes);
    }
}

static void values_are_kept_by_key(void **state)
{
    (void)state;
    struct wr_kv kv = {0};
    weir_error err;
    size_t len;
    void *copy;
    assert_ok(wr_kv_put(&kv, "a", "one", 3, &err), &err);
    assert_ok(wr_kv_put(&kv, "b", "", 0, &err), &err);
    assert_ok(wr_kv_put(&kv, "a", "three", 5, &err), &err);
    assert_memory_equal(wr_kv_get(&kv, "a", &len), "three", 5);
    assert_int_equal(len, 5);
    assert_non_null(wr_kv_get(&kv, "b", &len));
    assert_int_equal(len, 0);
    assert_null(wr_kv_get(&kv, "c", &len));
    assert_int_equal(wr_kv_copy(&kv, 7, "c", &copy, &len, &err), WEIR_ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, "rank 7"));
    wr_kv_free(&kv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(siphash_gives_the_published_vectors),
        cmocka_unit_test(comparison_sees_every_byte),
        cmocka_unit_test(a_frame_is_found_only_when_it_is_whole),
        cmocka_unit_test(a_bad_header_is_refused),
        cmocka_unit_test(hello_survives_the_wire_and_its_mac_covers_it),
        cmocka_unit_test(texts_with_ends_inside_are_refused),
        cmocka_unit_test(node_maps_travel_as_runs),
        cmocka_unit_test(random_bytes_never_read_past_their_end),
        cmocka_unit_test(values_are_kept_by_key),
    };
    return cmocka_run_group_tests_name("boot_wire", tests, NULL, NULL);
}
