/* SPDX-License-Identifier: BSD-3-Clause */
/* The libfabric transport over the software providers, two and more ranks in one process. */
#include "tests/unit/ofi_world.h"

#include <poll.h>

static const size_t sizes[] = {1,    7,    8,    64,   129,   1000,   1024,    1025,
                               4096, 8191, 8192, 8193, 65536, 100001, 1048576, 3000001};
enum { SPACE = 3000001 + 64 };

struct pair {
    struct world w;
    unsigned char *from, *to;
    struct wr_region *from_region, *to_region;
    struct wr_rkey *rkey; /* of `to`, at rank 0 */
};

static bool pair_open(struct pair *p, const char *provider, const char *extra)
{
    weir_error err;
    char text[80];
    memset(p, 0, sizeof *p);
    snprintf(text, sizeof text, "OFI_PROVIDER=%s", provider);
    const char *overrides[] = {text, extra, NULL};
    weir_status status = world_try(&p->w, 2, overrides, &err);
    if (status == WEIR_ERR_CONFIG || status == WEIR_ERR_UNSUPPORTED) {
        print_message("skipped: %s\n", err.message);
        return false;
    }
    assert_ok(status, &err);
    world_connect(&p->w);
    p->from = malloc(SPACE);
    p->to = malloc(SPACE);
    assert_ok(wr_ofi_ops.reg(p->w.rank[0], p->from, SPACE, 0, &p->from_region, &err), &err);
    assert_ok(wr_ofi_ops.reg(p->w.rank[1], p->to, SPACE, WR_REG_REMOTE_WRITE | WR_REG_REMOTE_READ, &p->to_region, &err),
              &err);
    p->rkey = world_key(&p->w, 1, p->to_region, 0);
    return true;
}

static void pair_close(struct pair *p)
{
    wr_ofi_ops.key_close(p->w.rank[0], p->rkey);
    wr_ofi_ops.dereg(p->w.rank[0], p->from_region);
    wr_ofi_ops.dereg(p->w.rank[1], p->to_region);
    world_close(&p->w);
    free(p->from);
    free(p->to);
}

static void messages(struct pair *p)
{
    struct world *w = &p->w;
    weir_error err;
    unsigned char data[8192];
    size_t max = w->rank[0]->caps.max_am;
    uint32_t sent = 0;
    assert_true(max >= 1024 && max <= sizeof data);
    for (int i = 0; i < 2000; i++) {
        size_t len = i % 10 == 9 ? max : 4 + (size_t)(i * 37 % 300);
        memcpy(data, &sent, sizeof sent);
        for (size_t k = 4; k < len; k++)
            data[k] = (unsigned char)(sent + k);
        weir_status status;
        int64_t deadline = wr_deadline(20000000000);
        while ((status = wr_ofi_ops.am(w->rank[0], 1, 1, data, 4, data + 4, len - 4, 0, &err)) == WEIR_ERR_BUSY) {
            world_progress(w);
            assert_false(wr_deadline_passed(deadline));
        }
        assert_ok(status, &err);
        sent++;
    }
    world_until(w, w->arg[1].got == sent);
    assert_int_equal(w->arg[1].wrong, 0);
    assert_int_equal(wr_ofi_ops.am(w->rank[0], 1, 1, data, max, data, 1, 0, &err), WEIR_ERR_INVALID);
}

static void puts_and_gets(struct pair *p)
{
    struct world *w = &p->w;
    struct world_op o;
    weir_error err;
    for (size_t i = 0; i < WR_ARRAY_SIZE(sizes); i++) {
        size_t len = sizes[i], offset = i * 3 % 64;
        memset(p->to, 0, SPACE);
        world_fill(p->from + i % 5, len, (unsigned)i);
        world_call(w, &o,
                   wr_ofi_ops.put(w->rank[0], 1, p->from + i % 5, p->from_region, len, p->rkey, offset, 0, &o.op,
                                  &err));
        world_call(w, &o, wr_ofi_ops.flush(w->rank[0], i % 2 ? 1 : -1, &o.op, &err));
        if (!world_filled(p->to + offset, len, (unsigned)i) || (offset && p->to[offset - 1]) || p->to[offset + len])
            fail_msg("put of %zu bytes arrived wrong", len);
        memset(p->from, 0, SPACE);
        world_call(w, &o, wr_ofi_ops.get(w->rank[0], 1, p->from, p->from_region, len, p->rkey, offset, &o.op, &err));
        if (!world_filled(p->from, len, (unsigned)i) || p->from[len])
            fail_msg("get of %zu bytes arrived wrong", len);
    }
    assert_int_equal(wr_ofi_ops.put(w->rank[0], 1, p->from, p->from_region, 2, p->rkey, SPACE - 1, 0, &o.op, &err),
                     WEIR_ERR_INVALID);
    assert_int_equal(wr_ofi_ops.flush(w->rank[0], -1, &o.op, &err), WEIR_OK);
}

static void signals(struct pair *p)
{
    struct world *w = &p->w;
    struct world_op o;
    weir_error err;
    uint64_t count = w->signals[1][5];
    for (size_t i = 0; i < WR_ARRAY_SIZE(sizes); i++) {
        memset(p->to, 0, SPACE);
        world_fill(p->from, sizes[i], (unsigned)i + 100);
        world_call(w, &o,
                   wr_ofi_ops.put_signal(w->rank[0], 1, p->from, p->from_region, sizes[i], p->rkey, 3, 5, 0, &o.op,
                                         &err));
        count++;
        world_until(w, w->signals[1][5] == count);
        if (!world_filled(p->to + 3, sizes[i], (unsigned)i + 100))
            fail_msg("the signal of %zu bytes came before them", sizes[i]);
    }
    world_call(w, &o, wr_ofi_ops.put_signal(w->rank[0], 1, NULL, NULL, 0, NULL, 0, 6, 0, &o.op, &err));
    world_until(w, w->signals[1][6] == 1);
    assert_true(w->signals[1][5] == count);
    assert_int_equal(wr_ofi_ops.put_signal(w->rank[0], 1, NULL, NULL, 0, NULL, 0, WR_SIGNAL_MAX, 0, &o.op, &err),
                     WEIR_ERR_INVALID);
}

/* Puts, then a fenced signal, a fenced message and a fenced put: each after the data. */
static void fences(struct pair *p)
{
    struct world *w = &p->w;
    struct world_op o[8], f;
    weir_error err;
    for (int round = 0; round < 30; round++) {
        size_t len = 1000 + (size_t)round * 20011;
        memset(p->to, 0, SPACE);
        world_fill(p->from, len, (unsigned)round);
        size_t piece = len / 8;
        uint64_t before = w->signals[1][7];
        unsigned got = w->arg[1].got;
        for (size_t k = 0; k < 8; k++) {
            size_t at = k * piece, n = k == 7 ? len - at : piece;
            weir_status status;
            o[k].done = false;
            o[k].op.done = world_done;
            while ((status = wr_ofi_ops.put(w->rank[0], 1, p->from + at, p->from_region, n, p->rkey, at, 0, &o[k].op,
                                            &err)) == WEIR_ERR_BUSY)
                world_progress(w);
            assert_true(status == WEIR_OK || status == WEIR_IN_PROGRESS);
            o[k].done = status == WEIR_OK;
        }
        if (round % 3 == 0) {
            world_call(w, &f,
                       wr_ofi_ops.put_signal(w->rank[0], 1, NULL, NULL, 0, NULL, 0, 7, WR_OP_FENCE, &f.op, &err));
            world_until(w, w->signals[1][7] == before + 1);
        } else if (round % 3 == 1) {
            uint32_t n = w->arg[1].next[0];
            world_call(w, &f, wr_ofi_ops.am(w->rank[0], 1, 1, &n, sizeof n, NULL, 0, WR_OP_FENCE, &err));
            world_until(w, w->arg[1].got == got + 1);
        } else {
            p->from[SPACE - 1] = 1;
            world_call(w, &f,
                       wr_ofi_ops.put(w->rank[0], 1, p->from + SPACE - 1, p->from_region, 1, p->rkey, SPACE - 1,
                                      WR_OP_FENCE, &f.op, &err));
            world_until(w, wr_load_acquire(&p->to[SPACE - 1]) == 1);
        }
        if (!world_filled(p->to, len, (unsigned)round))
            fail_msg("round %d: the fenced operation passed a put", round);
        world_until(w, o[0].done && o[1].done && o[2].done && o[3].done && o[4].done && o[5].done && o[6].done &&
                           o[7].done);
    }
}

/* Thousands in flight both ways at once. */
static void crowds(struct pair *p)
{
    struct world *w = &p->w;
    enum { N = 3000 };
    struct world_op *o = calloc(2 * N, sizeof *o);
    weir_error err;
    struct wr_rkey *back = world_key(w, 0, p->from_region, 1);
    uint64_t before[2] = {w->signals[0][9], w->signals[1][9]};
    wr_ofi_ops.key_close(w->rank[1], back);
    int next[2] = {0, 0};
    struct wr_region *target;
    unsigned char *space = calloc(1, 65536);
    assert_ok(wr_ofi_ops.reg(w->rank[0], space, 65536, WR_REG_REMOTE_WRITE, &target, &err), &err);
    back = world_key(w, 0, target, 1);
    int64_t deadline = wr_deadline(60000000000);
    while (next[0] < N || next[1] < N) {
        for (int r = 0; r < 2; r++) {
            while (next[r] < N) {
                size_t len = (size_t)next[r] * 13 % 9000;
                struct world_op *op = &o[r * N + next[r]];
                op->op.done = world_done;
                weir_status status =
                    wr_ofi_ops.put_signal(w->rank[r], 1 - r, r ? p->to : p->from, r ? p->to_region : p->from_region,
                                          len, r ? back : p->rkey, 0, 9, 0, &op->op, &err);
                if (status == WEIR_ERR_BUSY)
                    break;
                assert_true(status == WEIR_OK || status == WEIR_IN_PROGRESS);
                if (status == WEIR_OK)
                    op->done = true;
                next[r]++;
            }
        }
        world_progress(w);
        assert_false(wr_deadline_passed(deadline));
    }
    world_until(w, w->signals[0][9] == before[0] + N && w->signals[1][9] == before[1] + N);
    for (int i = 0; i < 2 * N; i++)
        world_until(w, o[i].done);
    wr_ofi_ops.key_close(w->rank[1], back);
    wr_ofi_ops.dereg(w->rank[0], target);
    free(space);
    free(o);
}

/* Sleeping until the descriptor of rank 1 tells of something; whether it did within `ms`. */
static bool woken(struct world *w, int ms)
{
    struct wr_transport *t = w->rank[1];
    struct pollfd fd = {.fd = wr_ofi_ops.wait_fd(t), .events = POLLIN};
    int64_t deadline = wr_deadline(10000000000);
    while (!wr_ofi_ops.arm(t)) {
        world_progress(w);
        assert_false(wr_deadline_passed(deadline));
    }
    bool woken = poll(&fd, 1, ms) > 0;
    wr_ofi_ops.disarm(t);
    return woken;
}

/* After all that traffic a rank to which nothing comes can sleep, and what comes wakes it. */
static void sleeps(struct pair *p)
{
    struct world *w = &p->w;
    struct world_op o;
    weir_error err;
    if (wr_ofi_ops.wait_fd(w->rank[1]) < 0)
        return;
    for (int round = 0; round < 5; round++) {
        int wakes = 0;
        while (woken(w, 20) && wakes < 50) {
            world_progress(w);
            wakes++;
        }
        if (wakes == 50)
            fail_msg("round %d: the descriptor is readable though nothing comes", round);
        uint64_t before = w->signals[1][7];
        o = (struct world_op){.op.done = world_done};
        weir_status status = wr_ofi_ops.put_signal(w->rank[0], 1, p->from, p->from_region, 64, p->rkey, 0, 7, 0, &o.op, &err);
        assert_true(status == WEIR_OK || status == WEIR_IN_PROGRESS);
        o.done = status == WEIR_OK;
        if (!woken(w, 5000) && w->signals[1][7] == before)
            fail_msg("round %d: what came did not wake", round);
        world_until(w, o.done && w->signals[1][7] == before + 1);
    }
}

static void all_of(const char *provider, const char *extra)
{
    struct pair p;
    if (!pair_open(&p, provider, extra))
        return;
    messages(&p);
    puts_and_gets(&p);
    signals(&p);
    fences(&p);
    crowds(&p);
    sleeps(&p);
    pair_close(&p);
}

#define PROVIDER(function, name, extra)                                                                                \
    static void function(void **state)                                                                                 \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        all_of(name, extra);                                                                                           \
    }
PROVIDER(over_net, "net", NULL)
PROVIDER(over_rxm, "tcp;ofi_rxm", NULL)
PROVIDER(over_shm, "shm", NULL)
PROVIDER(over_rxd, "udp;ofi_rxd", NULL)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(over_net),
        cmocka_unit_test(over_rxm),
        cmocka_unit_test(over_shm),
        cmocka_unit_test(over_rxd),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
