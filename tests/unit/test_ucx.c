/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/unit.h"

#include <poll.h>
#include <stdio.h>

#include "comm/transport/components.h"
#include "comm/transport/ucx/ucx.h"
#include "tests/unit/transport_pair.h"

static const char *const tcp[] = {"UCX_TLS=tcp", "UCX_NET_DEVICES=lo", NULL};
static const char *const tcp_rma[] = {"UCX_TLS=tcp", "UCX_NET_DEVICES=lo", "WEIR_UCX_PUT=rma", NULL};
static const char *const posix[] = {"UCX_TLS=posix", NULL};
static const char *const cma[] = {"UCX_TLS=posix,cma", NULL};
static const char *const messages[] = {"UCX_TLS=sysv", "WEIR_UCX_PUT=message", NULL};
static const char *const usual[] = {"UCX_NET_DEVICES=lo", NULL};
static const struct {
    const char *name, *const *vars;
} settings[] = {{"tcp", tcp}, {"tcp_rma", tcp_rma}, {"posix", posix}, {"cma", cma}, {"messages", messages}, {"usual", usual}};

static struct wr_env env;

static struct pair *open_pair(int n, const char *const *vars)
{
    struct pair *p = calloc(1, sizeof *p);
    struct wr_transport_params params;
    weir_error err;
    env.vars = vars;
    p->n = n;
    wr_log_init(&p->log);
    assert_ok(wr_config_load(&p->config, &env, NULL, &err), &err);
    for (int i = 0; i < n; i++) {
        struct pair_rank *r = &p->rank[i];
        pair_params(p, i, &env, &params);
        assert_ok(wr_ucx_ops.open(&params, &r->t, &err), &err);
        r->address_len = sizeof r->address;
        assert_ok(r->t->ops->address(r->t, r->address, &r->address_len, &err), &err);
    }
    return p;
}

static void close_pair(struct pair *p)
{
    for (int i = 0; i < p->n; i++)
        if (p->rank[i].t)
            p->rank[i].t->ops->close(p->rank[i].t);
    wr_config_free(&p->config);
    free(p);
}

/* A region at one rank and its key at another. */
struct window {
    char *mem;
    struct wr_region *region;
    struct wr_rkey *key;
};

static struct window make_window(struct pair *p, int owner, int user, size_t len)
{
    struct window w = {.mem = calloc(1, len ? len : 1)};
    struct wr_transport *t = p->rank[owner].t, *v = p->rank[user].t;
    char key[WR_KEY_MAX];
    size_t key_len = sizeof key;
    weir_error err;
    assert_ok(t->ops->reg(t, w.mem, len, WR_REG_REMOTE_READ | WR_REG_REMOTE_WRITE, &w.region, &err), &err);
    assert_ok(t->ops->key_export(t, w.region, key, &key_len, &err), &err);
    assert_ok(v->ops->connect(v, owner, &err), &err);
    assert_ok(v->ops->key_import(v, owner, key, key_len, &w.key, &err), &err);
    return w;
}

static void drop_window(struct pair *p, int owner, int user, struct window *w)
{
    struct wr_transport *t = p->rank[owner].t, *v = p->rank[user].t;
    v->ops->key_close(v, w->key);
    t->ops->dereg(t, w->region);
    free(w->mem);
}

static void fill(char *p, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++)
        p[i] = (char)((i * 2654435761u + seed * 40503u) >> 7);
}

static void puts_and_gets_of_all_sizes(void **state)
{
    const char *const *vars = *state;
    static const size_t sizes[] = {0, 1, 7, 256, 257, 4096, 65536, 261120, 261121, 3000001, 16 << 20};
    struct pair *p = open_pair(2, vars);
    size_t max = (16 << 20) + 64;
    struct window w = make_window(p, 1, 0, max);
    struct wr_transport *t = p->rank[0].t;
    char *src = malloc(max), *back = malloc(max);
    struct pair_op o;
    for (size_t i = 0; i < WR_ARRAY_SIZE(sizes); i++) {
        size_t len = sizes[i], at = i % 5;
        fill(src, max, (unsigned)i);
        memset(w.mem, 0, max);
        memset(back, 0, max);
        pair_run(p, o, t->ops->put(t, 1, src + at, NULL, len, w.key, 2 * at, 0, &o.op, &err_));
        assert_int_equal(o.status, WEIR_OK);
        memset(src + at, 0x55, len < 4096 ? len : 0); /* complete: ours again */
        pair_run(p, o, t->ops->flush(t, i % 2 ? 1 : -1, &o.op, &err_));
        assert_int_equal(o.status, WEIR_OK);
        fill(src, max, (unsigned)i);
        assert_memory_equal(w.mem + 2 * at, src + at, len);
        assert_int_equal(w.mem[2 * at + len], 0);
        pair_run(p, o, t->ops->get(t, 1, back + at, NULL, len, w.key, 2 * at, &o.op, &err_));
        assert_int_equal(o.status, WEIR_OK);
        assert_memory_equal(back + at, src + at, len);
        assert_int_equal(back[at + len], 0);
    }
    free(src);
    free(back);
    drop_window(p, 1, 0, &w);
    close_pair(p);
}

static void a_signal_comes_after_its_data(void **state)
{
    static const size_t sizes[] = {0, 8, 2048, 2049, 100000, 300000, 5000000};
    struct pair *p = open_pair(2, *state);
    size_t max = 5000000;
    struct window w = make_window(p, 1, 0, max);
    struct wr_transport *t = p->rank[0].t;
    char *src = malloc(max);
    struct pair_op o[4];
    uint64_t want = 0;
    weir_error err;
    for (unsigned i = 0; i < 20; i++) {
        size_t len = sizes[i % WR_ARRAY_SIZE(sizes)];
        fill(src, max, i);
        weir_status s;
        o[0] = (struct pair_op){.op.done = pair_done};
        pair_call(p, s, t->ops->put_signal(t, 1, src, NULL, len, len ? w.key : NULL, 0, 5, 0, &o[0].op, &err));
        assert_true(s == WEIR_OK || s == WEIR_IN_PROGRESS);
        want++;
        pair_wait(p, p->rank[1].signals[5] == want);
        assert_memory_equal(w.mem, src, len);
        if (s == WEIR_IN_PROGRESS)
            pair_wait(p, o[0].done);
        /* A fenced signal and a fenced message come after a plain put. */
        fill(src, max, i + 1000);
        pair_call(p, s, t->ops->put(t, 1, src, NULL, len, w.key, 0, 0, &o[1].op, &err));
        o[1] = (struct pair_op){.op.done = pair_done, .done = s == WEIR_OK};
        if (i % 2) {
            pair_call(p, s, t->ops->put_signal(t, 1, NULL, NULL, 0, NULL, 0, 5, WR_OP_FENCE, &o[2].op, &err));
            want++;
            pair_wait(p, p->rank[1].signals[5] == want);
        } else {
            int m = p->rank[1].messages;
            pair_call(p, s, t->ops->am(t, 1, 3, "head", 4, "load", 4, WR_OP_FENCE, &err));
            pair_wait(p, p->rank[1].messages > m);
            assert_int_equal(p->rank[1].last_len, 8);
            assert_memory_equal(p->rank[1].last, "headload", 8);
        }
        assert_memory_equal(w.mem, src, len);
        pair_wait(p, o[1].done);
    }
    free(src);
    drop_window(p, 1, 0, &w);
    close_pair(p);
}

static void thousands_outstanding_both_ways(void **state)
{
    enum { N = 3000, BYTES = 700 };
    struct pair *p = open_pair(2, *state);
    struct window w[2] = {make_window(p, 0, 1, N * BYTES), make_window(p, 1, 0, N * BYTES)};
    char *src = malloc(N * BYTES);
    struct pair_op *ops = calloc(2 * N, sizeof *ops);
    weir_error err;
    fill(src, N * BYTES, 9);
    for (int i = 0; i < N; i++)
        for (int me = 0; me < 2; me++) {
            struct wr_transport *t = p->rank[me].t;
            struct pair_op *o = &ops[2 * i + me];
            weir_status s;
            o->op.done = pair_done;
            pair_call(p, s, t->ops->put_signal(t, 1 - me, src + i * BYTES, NULL, BYTES, w[1 - me].key,
                                               (uint64_t)i * BYTES, 7, i % 3 ? 0 : WR_OP_FENCE, &o->op, &err));
            assert_true(s == WEIR_OK || s == WEIR_IN_PROGRESS);
            o->done += s == WEIR_OK;
        }
    pair_wait(p, p->rank[0].signals[7] == N && p->rank[1].signals[7] == N);
    for (int i = 0; i < 2 * N; i++)
        pair_wait(p, ops[i].done == 1);
    assert_memory_equal(w[0].mem, src, N * BYTES);
    assert_memory_equal(w[1].mem, src, N * BYTES);
    free(ops);
    free(src);
    drop_window(p, 0, 1, &w[0]);
    drop_window(p, 1, 0, &w[1]);
    close_pair(p);
}

static void messages_arrive_in_order(void **state)
{
    struct pair *p = open_pair(3, *state);
    weir_error err;
    char big[8192 + 64];
    for (int i = 1; i < 3; i++)
        assert_ok(p->rank[i].t->ops->connect(p->rank[i].t, 0, &err), &err);
    for (int i = 0; i < 600; i++) {
        size_t len = i % 7 ? 16 : sizeof big - sizeof i;
        struct wr_transport *t = p->rank[1 + i % 2].t;
        int seen = p->rank[0].messages;
        weir_status s;
        memset(big, i, sizeof big);
        pair_call(p, s, t->ops->am(t, 0, 3, &i, sizeof i, big, len, 0, &err));
        assert_int_equal(s, WEIR_OK);
        if (i % 50 == 49) {
            pair_wait(p, p->rank[0].messages == i + 1);
            int got;
            memcpy(&got, p->rank[0].last, sizeof got);
            assert_true(got >= i - 1 && seen <= i);
            assert_int_equal(p->rank[0].last_source, 1 + got % 2);
        }
    }
    assert_int_equal(p->rank[1].t->ops->am(p->rank[1].t, 0, 3, "x", 1, big, sizeof big, 0, &err), WEIR_ERR_INVALID);
    close_pair(p);
}

/* As where UCX finds no memory for a device's buffers under a small limit: nothing leaves, and UCX does not tell. */
static void a_silent_peer_is_given_up_under_a_limit(void **state)
{
    (void)state;
    for (int limited = 0; limited < 2; limited++) {
        struct pair *p = open_pair(2, tcp);
        struct wr_transport *t = p->rank[0].t;
        struct ucx *u = (struct ucx *)(void *)t;
        weir_error err;
        int64_t begin = wr_clock_ns();
        u->locked_limit = limited ? 8 << 20 : UINT64_MAX;
        t->params.timeout_ns = 30 * 1000 * 1000;
        assert_ok(t->ops->connect(t, 1, &err), &err);
        u->peers[1].proven = false; /* the other rank makes no progress, so nothing more leaves */
        u->peers[1].locks = true;
        wr_ucx_note_sent(&u->peers[1], false);
        while (wr_clock_ns() - begin < 100 * 1000 * 1000 && !p->rank[0].lost)
            wr_ucx_look_for_silent(u);
        assert_int_equal(p->rank[0].lost, limited);
        assert_int_equal(t->ops->am(t, 1, 0, "x", 1, NULL, 0, 0, &err), limited ? WEIR_ERR_PEER_LOST : WEIR_OK);
        assert_true(!limited || (strstr(p->rank[0].reason, "8 MiB") && strstr(p->rank[0].reason, "RLIMIT_MEMLOCK")));
        close_pair(p);
    }
}

static void a_stale_key_is_refused(void **state)
{
    struct pair *p = open_pair(2, *state);
    struct window w = make_window(p, 1, 0, 4096);
    struct wr_transport *t = p->rank[0].t, *v = p->rank[1].t;
    struct wr_log quiet = p->log;
    struct pair_op o;
    char buf[64] = "data";
    weir_error err;
    assert_int_equal(t->ops->put(t, 1, buf, NULL, 64, w.key, 4090, 0, NULL, &err), WEIR_ERR_INVALID);
    assert_int_equal(t->ops->put(t, 0, buf, NULL, 64, w.key, 0, 0, NULL, &err), WEIR_ERR_INVALID);
    v->ops->dereg(v, w.region);
    quiet.level[WR_LOG_TRANSPORT] = WR_LOG_OFF;
    v->params.log = &quiet;
    pair_run(p, o, t->ops->put(t, 1, buf, NULL, 64, w.key, 0, 0, &o.op, &err_));
    pair_run(p, o, t->ops->flush(t, 1, &o.op, &err_));
    assert_int_equal(o.status, WEIR_ERR_STALE);
    pair_run(p, o, t->ops->get(t, 1, buf, NULL, 64, w.key, 0, &o.op, &err_));
    assert_int_equal(o.status, WEIR_ERR_STALE);
    assert_int_equal(w.mem[0], 0);
    assert_ok(v->ops->reg(v, w.mem, 4096, WR_REG_REMOTE_READ, &w.region, &err), &err);
    drop_window(p, 1, 0, &w);
    close_pair(p);
}

static void a_closed_peer_is_an_error_and_no_loss(void **state)
{
    struct pair *p = open_pair(2, *state);
    struct window w = make_window(p, 1, 0, 4096);
    struct wr_transport *t = p->rank[0].t, *v = p->rank[1].t;
    weir_error err;
    weir_status s;
    char buf[64] = {0};
    assert_ok(v->ops->connect(v, 0, &err), &err);
    pair_call(p, s, v->ops->am(v, 0, 3, "hi", 2, NULL, 0, 0, &err));
    pair_wait(p, p->rank[0].messages == 1);
    v->ops->dereg(v, w.region);
    p->rank[1].t = NULL;
    v->ops->close(v);
    struct pair_op o = {.op.done = pair_done};
    pair_wait(p, t->ops->put(t, 1, buf, NULL, 8, w.key, 0, 0, &o.op, &err) == WEIR_ERR_PEER_LOST);
    assert_int_equal(err.rank, 1);
    assert_int_equal(p->rank[0].lost, 0);
    assert_int_equal(t->ops->connect(t, 1, &err), WEIR_ERR_PEER_LOST);
    t->ops->key_close(t, w.key);
    free(w.mem);
    close_pair(p);
}

static void a_sleeper_is_woken(void **state)
{
    struct pair *p = open_pair(2, *state);
    struct window w = make_window(p, 1, 0, 64);
    struct wr_transport *t = p->rank[0].t, *v = p->rank[1].t;
    weir_error err;
    weir_status s;
    for (uint64_t i = 1; i <= 20; i++) {
        while (v->ops->progress(v) || t->ops->progress(t))
            ;
        while (!v->ops->arm(v))
            v->ops->progress(v);
        struct pollfd f = {.fd = v->ops->wait_fd(v), .events = POLLIN};
        assert_true(f.fd >= 0);
        s = t->ops->put_signal(t, 1, NULL, NULL, 0, NULL, 0, 1, 0, NULL, &err);
        assert_int_equal(s, WEIR_OK);
        int64_t end = wr_deadline(20000000000);
        while (p->rank[1].signals[1] < i) {
            t->ops->progress(t);
            int n = poll(&f, 1, 1);
            if (n) {
                v->ops->disarm(v);
                while (v->ops->progress(v))
                    ;
                while (p->rank[1].signals[1] < i && !v->ops->arm(v))
                    v->ops->progress(v);
            }
            assert_false(wr_deadline_passed(end));
        }
    }
    drop_window(p, 1, 0, &w);
    close_pair(p);
}

static void opening_again_and_again(void **state)
{
    for (int i = 0; i < 20; i++) {
        struct pair *p = open_pair(2, *state);
        weir_error err;
        assert_ok(p->rank[0].t->ops->connect(p->rank[0].t, 1, &err), &err);
        weir_status s;
        pair_call(p, s, p->rank[0].t->ops->am(p->rank[0].t, 1, 3, "a", 1, NULL, 0, 0, &err));
        pair_wait(p, p->rank[1].messages == 1);
        close_pair(p);
    }
}

int main(void)
{
    int failed = 0;
    for (size_t i = 0; i < WR_ARRAY_SIZE(settings); i++) {
        void *vars = (void *)(uintptr_t)settings[i].vars;
        bool by_messages = vars == tcp || vars == messages || vars == usual;
        struct CMUnitTest tests[] = {
            cmocka_unit_test_prestate(puts_and_gets_of_all_sizes, vars),
            cmocka_unit_test_prestate(a_signal_comes_after_its_data, vars),
            cmocka_unit_test_prestate(thousands_outstanding_both_ways, vars),
            cmocka_unit_test_prestate(messages_arrive_in_order, vars),
            cmocka_unit_test_prestate(a_sleeper_is_woken, vars),
            cmocka_unit_test_prestate(opening_again_and_again, vars),
            cmocka_unit_test_prestate(a_closed_peer_is_an_error_and_no_loss, vars),
            cmocka_unit_test_prestate(a_silent_peer_is_given_up_under_a_limit, vars),
            cmocka_unit_test_prestate(a_stale_key_is_refused, vars),
        };
        failed += _cmocka_run_group_tests(settings[i].name, tests, WR_ARRAY_SIZE(tests) - !by_messages, NULL, NULL);
    }
    return failed;
}
