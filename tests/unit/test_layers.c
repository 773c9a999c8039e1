/* SPDX-License-Identifier: BSD-3-Clause */
/* The layers over a transport that is a table of pointers: everything arrives at once and in order. */
#include "tests/unit/unit.h"

#include <stdio.h>
#include <unistd.h>

#include "comm/transport/fault/script.h"
#include "tests/unit/plain_world.h"

static const char *const no_vars[] = {NULL};

/* ---- contrary ---------------------------------------------------------------------------------------------- */

/* A put and a signal after it; counts the rounds in which the signal was there before the data. */
static int stale_rounds(const char *const *vars, unsigned flags, bool by_message)
{
    struct world *w = open_world("contrary", vars);
    struct wr_transport *t = w->t;
    int stale = 0;
    weir_error err;
    for (int i = 0; i < 100; i++) {
        struct pair_op o = {.op.done = pair_done};
        weir_status s, m;
        uint64_t before = w->pair.rank[1].signals[2];
        int messages = w->pair.rank[1].messages;
        size_t len = i % 2 ? 8 : 30000;
        memset(w->source, i + 1, len);
        pair_call(&w->pair, s, t->ops->put(t, 1, w->source, w->source_region, len, w->key, 0, 0, &o.op, &err));
        if (by_message)
            pair_call(&w->pair, m, t->ops->am(t, 1, 3, "m", 1, NULL, 0, flags, &err));
        else
            pair_call(&w->pair, m,
                      t->ops->put_signal(t, 1, NULL, NULL, 0, NULL, 0, 2, flags, NULL, &err));
        assert_int_equal(m, WEIR_OK);
        pair_wait(&w->pair, w->pair.rank[1].signals[2] > before || w->pair.rank[1].messages > messages);
        for (size_t k = 0; k < len; k++)
            if (w->window[k] != (char)(i + 1)) {
                stale++;
                break;
            }
        if (s == WEIR_IN_PROGRESS)
            pair_wait(&w->pair, o.done);
        struct pair_op f;
        pair_run(&w->pair, f, t->ops->flush(t, 1, &f.op, &err_));
        assert_int_equal(w->window[len - 1], (char)(i + 1));
    }
    close_world(w);
    return stale;
}

static void a_missing_fence_is_seen_and_a_fence_is_enough(void **state)
{
    static const char *const seed1[] = {"WEIR_CONTRARY_SEED=1", NULL}, *const seed2[] = {"WEIR_CONTRARY_SEED=77", NULL};
    (void)state;
    assert_true(stale_rounds(seed1, 0, false) > 30);
    assert_true(stale_rounds(seed2, 0, true) > 30);
    assert_int_equal(stale_rounds(seed1, WR_OP_FENCE, false), 0);
    assert_int_equal(stale_rounds(seed2, WR_OP_FENCE, false), 0);
    assert_int_equal(stale_rounds(seed1, WR_OP_FENCE, true), 0);
    assert_int_equal(stale_rounds(seed2, WR_OP_FENCE, true), 0);
}

static void signals_bring_their_data_but_come_out_of_order(void **state)
{
    (void)state;
    struct world *w = open_world("contrary", no_vars);
    struct wr_transport *t = w->t;
    weir_error err;
    int disorder = 0;
    struct pair_op o[8];
    for (uint64_t round = 1; round <= 40; round++) {
        for (uint32_t i = 0; i < 8; i++) {
            weir_status s;
            memset(w->source + i * 4096, (int)(round + i), 4096);
            o[i] = (struct pair_op){.op.done = pair_done};
            /* started in order, so that what arrives out of order is the layer's doing */
            pair_call(&w->pair, s,
                      t->ops->put_signal(t, 1, w->source + i * 4096, w->source_region, 4096, w->key, i * 4096, i, 0,
                                         &o[i].op, &err));
            o[i].done += s == WEIR_OK;
        }
        for (int left = 8; left;) {
            left = 0;
            for (uint32_t i = 0; i < 8; i++) {
                bool here = w->pair.rank[1].signals[i] == round;
                left += !here;
                disorder += here && i && w->pair.rank[1].signals[i - 1] < round;
                if (here)
                    assert_int_equal(w->window[i * 4096 + 4095], (char)(round + i));
            }
            pair_progress(&w->pair);
        }
        for (int i = 0; i < 8; i++)
            pair_wait(&w->pair, o[i].done == 1);
    }
    assert_true(disorder > 0);
    close_world(w);
}

static void awkward_limits_hold(void **state)
{
    (void)state;
    struct world *w = open_world("contrary", no_vars);
    struct wr_transport *t = w->t;
    weir_error err;
    weir_status s;
    char elsewhere[4096] = {0};
    int busy = 0;
    assert_int_equal(t->caps.max_am, 1024);
    assert_int_equal(t->caps.immediate_bytes, 4);
    assert_true(t->caps.needs_local_region && !t->caps.ordered && t->caps.memory_modes);
    s = t->ops->put(t, 1, elsewhere, NULL, sizeof elsewhere, w->key, 0, 0, NULL, &err);
    assert_int_equal(s, WEIR_ERR_INVALID);
    s = t->ops->put(t, 1, elsewhere, w->source_region, sizeof elsewhere, w->key, 0, 0, NULL, &err);
    assert_int_equal(s, WEIR_ERR_INVALID);
    s = t->ops->get(t, 1, elsewhere, NULL, 8, w->key, 0, NULL, &err);
    assert_int_equal(s, WEIR_ERR_INVALID);
    s = t->ops->am(t, 1, 3, elsewhere, 1025, NULL, 0, 0, &err);
    assert_int_equal(s, WEIR_ERR_INVALID);
    s = t->ops->put_signal(t, 1, NULL, NULL, 0, NULL, 0, WR_SIGNAL_MAX, 0, NULL, &err);
    assert_int_equal(s, WEIR_ERR_INVALID);
    struct wr_rkey *k;
    assert_int_equal(t->ops->key_import(t, 1, elsewhere, 64, &k, &err), WEIR_ERR_PROTOCOL);
    for (int i = 0; i < 40; i++)
        busy += t->ops->put(t, 1, elsewhere, NULL, 8, w->key, 0, 0, NULL, &err) == WEIR_ERR_BUSY;
    assert_true(busy >= 20); /* tiny queues */
    struct pair_op o;
    pair_run(&w->pair, o, t->ops->flush(t, -1, &o.op, &err_));
    assert_int_equal(o.status, WEIR_OK);
    close_world(w);
}

/* ---- fault --------------------------------------------------------------------------------------------------- */

static void bad_scripts_name_the_word(void **state)
{
    (void)state;
    static const char *const bad[] = {"drop",        "drop=2",         "drop=putt:0.1", "delay=get:soon", "error=0",
                                      "dead=x",      "seed=-1",        "sed=1",         "dup=get:1",      "delay=1ms:7",
                                      "delay=5ms:x", "error=am:1.5",   "rank=-2",       "drop=0.1x",      "dead=1:0",
                                      "refuse=put",    "refuse=reg:0"};
    struct fault_script s;
    weir_error err;
    for (size_t i = 0; i < WR_ARRAY_SIZE(bad); i++) {
        char text[64];
        snprintf(text, sizeof text, "seed=4; %s ;drop=0.5", bad[i]);
        assert_int_equal(wr_fault_parse(text, &s, &err), WEIR_ERR_CONFIG);
        assert_non_null(strstr(err.message, bad[i]));
    }
    assert_ok(wr_fault_parse("seed=9;rank=2;drop=put:0.25;delay=get:5ms;delay=2us:0.5;error=am:3;dead=7:20;refuse=reg:3", &s,
                             &err),
              &err);
    assert_int_equal(s.nrules, 6);
    assert_int_equal(s.rank, 2);
    assert_true(s.rule[1].op == FAULT_GET && s.rule[1].delay_ns == 5000000 && s.rule[1].probability == 1);
    assert_true(s.rule[2].op == FAULT_ANY && s.rule[2].probability == 0.5);
    assert_true(s.rule[4].peer == 7 && s.rule[4].number == 20);
    assert_true(s.rule[5].kind == FAULT_REFUSE && s.rule[5].number == 3);
}

static int drops(const char *script)
{
    const char *vars[] = {script, NULL};
    struct world *w = open_world("fault", vars);
    struct wr_transport *t = w->t;
    struct pair_op o;
    int n = 0;
    for (int i = 0; i < 1000; i++) {
        w->source[0] = (char)(i % 100 + 1);
        w->window[0] = 0;
        pair_run(&w->pair, o, t->ops->put(t, 1, w->source, NULL, 1, w->key, 0, 0, &o.op, &err_));
        assert_int_equal(o.status, WEIR_OK);
        n = n * (i > 0) + !w->window[0];
    }
    close_world(w);
    return n;
}

static void drops_follow_the_seed(void **state)
{
    (void)state;
    int n = drops("WEIR_FAULT=seed=3;drop=put:0.2");
    assert_in_range(n, 140, 260);
    assert_int_equal(n, drops("WEIR_FAULT=seed=3;drop=put:0.2"));
    assert_int_equal(drops("WEIR_FAULT=rank=1;drop=1"), 0);
    assert_int_equal(drops("WEIR_FAULT=drop=am:1"), 0);
    assert_int_equal(drops("WEIR_FAULT=drop=1"), 1000);
}

static void errors_and_duplicates(void **state)
{
    (void)state;
    static const char *const vars[] = {"WEIR_FAULT=error=put:3;dup=am:1;dup=signal:1", NULL};
    struct world *w = open_world("fault", vars);
    struct wr_transport *t = w->t;
    struct pair_op o;
    weir_error err;
    for (int i = 1; i <= 4; i++) {
        pair_run(&w->pair, o, t->ops->put(t, 1, w->source, NULL, 1, w->key, 0, 0, &o.op, &err_));
        assert_int_equal(o.status, i == 3 ? WEIR_ERR_TRANSPORT : WEIR_OK);
    }
    assert_ok(t->ops->am(t, 1, 3, "x", 1, "yz", 2, 0, &err), &err);
    assert_int_equal(w->pair.rank[1].messages, 2);
    assert_memory_equal(w->pair.rank[1].last, "xyz", 3);
    for (int i = 0; i < 5; i++) {
        pair_run(&w->pair, o, t->ops->put_signal(t, 1, w->source, NULL, 8, w->key, 0, 4, 0, &o.op, &err_));
        assert_int_equal(o.status, WEIR_OK);
    }
    assert_int_equal(w->pair.rank[1].signals[4], 10);
    close_world(w);
}

static void registrations_are_refused(void **state)
{
    (void)state;
    static const char *const vars[] = {"WEIR_FAULT=refuse=reg:3", NULL};
    struct world *w = open_world("fault", vars);
    struct wr_region *region;
    weir_error err;
    assert_ok(w->t->ops->reg(w->t, w->source, 100, 0, &region, &err), &err);
    w->t->ops->dereg(w->t, region);
    for (int i = 0; i < 2; i++)
        assert_int_equal(w->t->ops->reg(w->t, w->source, 100, 0, &region, &err), WEIR_ERR_LIMIT);
    close_world(w);
}

static void delays_hold_back_and_keep_the_rules(void **state)
{
    (void)state;
    static const char *const vars[] = {"WEIR_FAULT=delay=get:5ms;delay=put:3ms;delay=am:2ms:0.5", NULL};
    struct world *w = open_world("fault", vars);
    struct wr_transport *t = w->t;
    struct pair_op o, p = {.op.done = pair_done};
    weir_error err;
    weir_status s;
    int64_t start = wr_clock_ns();
    pair_run(&w->pair, o, t->ops->get(t, 1, w->source, NULL, 8, w->key, 0, &o.op, &err_));
    assert_int_equal(o.status, WEIR_OK);
    assert_true(wr_clock_ns() - start >= 5000000);
    /* A fenced message waits for a put that is held; messages stay in order. */
    memset(w->source, 7, 100);
    assert_int_equal(t->ops->put(t, 1, w->source, NULL, 100, w->key, 0, 0, &p.op, &err), WEIR_IN_PROGRESS);
    assert_false(t->ops->arm(t));
    pair_call(&w->pair, s, t->ops->am(t, 1, 3, "f", 1, NULL, 0, WR_OP_FENCE, &err));
    assert_int_equal(s, WEIR_OK);
    assert_int_equal(w->pair.rank[1].messages, 0);
    pair_wait(&w->pair, w->pair.rank[1].messages == 1);
    assert_int_equal(w->window[99], 7);
    pair_wait(&w->pair, p.done);
    for (char i = 0; i < 100; i++) {
        pair_call(&w->pair, s, t->ops->am(t, 1, 3, &i, 1, NULL, 0, 0, &err));
        if (i % 10 == 9)
            pair_wait(&w->pair, w->pair.rank[1].messages == i + 2);
        if (w->pair.rank[1].messages > 1)
            assert_int_equal(w->pair.rank[1].last[0], w->pair.rank[1].messages - 2);
        wait_a_little();
        pair_progress(&w->pair);
    }
    close_world(w);
}

static void a_dead_peer(void **state)
{
    (void)state;
    static const char *const vars[] = {"WEIR_FAULT=delay=put:50ms;dead=1:3", NULL};
    struct world *w = open_world("fault", vars);
    struct wr_transport *t = w->t;
    struct pair_op p = {.op.done = pair_done};
    weir_error err;
    assert_int_equal(t->ops->put(t, 1, w->source, NULL, 100, w->key, 0, 0, &p.op, &err), WEIR_IN_PROGRESS);
    assert_int_equal(t->ops->am(t, 1, 3, "a", 1, NULL, 0, 0, &err), WEIR_OK);
    assert_int_equal(w->pair.rank[0].lost, 0);
    assert_int_equal(t->ops->am(t, 1, 3, "a", 1, NULL, 0, 0, &err), WEIR_ERR_PEER_LOST);
    assert_int_equal(err.rank, 1);
    assert_int_equal(t->ops->flush(t, 1, &p.op, &err), WEIR_ERR_PEER_LOST);
    assert_int_equal(t->ops->connect(t, 1, &err), WEIR_ERR_PEER_LOST);
    pair_wait(&w->pair, p.done);
    assert_int_equal(p.status, WEIR_ERR_PEER_LOST);
    assert_int_equal(p.done, 1);
    assert_int_equal(w->pair.rank[0].lost, 1);
    close_world(w);
}

/* ---- trace ---------------------------------------------------------------------------------------------------- */

static void read_file(const char *path, char *text, size_t size)
{
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    text[fread(text, 1, size - 1, f)] = 0;
    fclose(f);
    unlink(path);
}

static void traced_run(const char *var, const char *layers)
{
    const char *vars[] = {var, "WEIR_CONTRARY=yes", NULL};
    struct world *w = open_world(layers, vars);
    struct wr_transport *t = w->t;
    struct pair_op o;
    for (int i = 0; i < 4; i++)
        pair_run(&w->pair, o, t->ops->put(t, 1, w->source, w->source_region, 1000, w->key, 0, 0, &o.op, &err_));
    pair_run(&w->pair, o, t->ops->get(t, 1, w->source, w->source_region, 24, w->key, 0, &o.op, &err_));
    pair_run(&w->pair, o, t->ops->put_signal(t, 1, NULL, NULL, 0, NULL, 0, 1, WR_OP_FENCE, &o.op, &err_));
    pair_run(&w->pair, o, t->ops->flush(t, 1, &o.op, &err_));
    close_world(w);
}

static int count(const char *text, const char *what)
{
    int n = 0;
    for (const char *p = text; (p = strstr(p, what)); p += strlen(what))
        n++;
    return n;
}

static void a_line_or_an_event_for_each_operation(void **state)
{
    (void)state;
    char dir[] = "/tmp/weir-trace-XXXXXX", var[128], path[128], text[8192];
    weir_error err;
    assert_non_null(mkdtemp(dir));
    snprintf(var, sizeof var, "WEIR_TRACE=%s/%%t-%%r.txt", dir);
    traced_run(var, "trace");
    snprintf(path, sizeof path, "%s/plain-0.txt", dir);
    read_file(path, text, sizeof text);
    assert_int_equal(count(text, " 0 put 1 1000 WEIR_OK "), 4);
    assert_int_equal(count(text, " 0 get 1 24 WEIR_OK "), 1);
    assert_int_equal(count(text, " 0 put_signal+fence 1 0 WEIR_OK "), 1);
    assert_int_equal(count(text, " 0 flush 1 0 WEIR_OK "), 1);
    assert_int_equal(count(text, "\n"), 9); /* with connect and reg */
    snprintf(path, sizeof path, "%s/plain-1.txt", dir);
    unlink(path);
    /* Events, over a transport that is busy now and then: still one each. */
    snprintf(var, sizeof var, "WEIR_TRACE=%s/t.json", dir);
    traced_run(var, "contrary,trace");
    snprintf(path, sizeof path, "%s/t.0.plain.json", dir);
    read_file(path, text, sizeof text);
    assert_int_equal(count(text, "\"ph\":\"X\""), 9);
    assert_int_equal(count(text, "\"name\":\"put\""), 4);
    assert_true(text[0] == '[' && !strcmp(text + strlen(text) - 2, "]\n"));
    snprintf(path, sizeof path, "%s/t.1.plain.json", dir);
    unlink(path);
    struct pair pair = {.n = 1};
    struct wr_transport *t = open_plain(&pair, 0), *traced = t;
    snprintf(path, sizeof path, "%s/none/t", dir);
    assert_int_equal(wr_trace_wrap(t, path, &traced, &err), WEIR_ERR_IO);
    assert_non_null(strstr(err.message, path));
    assert_ptr_equal(traced, t);
    t->ops->close(t);
    assert_int_equal(rmdir(dir), 0);
}

static void layers_by_configuration(void **state)
{
    (void)state;
    static const char *const vars[] = {"WEIR_FAULT=drop=0", "WEIR_CONTRARY=yes", NULL};
    struct wr_env env = {vars};
    struct pair pair = {.n = 1};
    weir_error err;
    assert_ok(wr_config_load(&pair.config, &env, NULL, &err), &err);
    struct wr_transport *t = open_plain(&pair, 0);
    assert_ok(wr_layers_wrap(&t, &err), &err);
    assert_string_equal(t->ops->name, "contrary");
    assert_string_equal(t->lower->ops->name, "fault");
    assert_string_equal(t->lower->lower->ops->name, "plain");
    t->ops->close(t);
    t = open_plain(&pair, 0);
    assert_int_equal(wr_layers_wrap_named("contrary,blur", &t, &err), WEIR_ERR_CONFIG);
    assert_non_null(strstr(err.message, "blur"));
    assert_null(t);
    wr_config_free(&pair.config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_missing_fence_is_seen_and_a_fence_is_enough),
        cmocka_unit_test(signals_bring_their_data_but_come_out_of_order),
        cmocka_unit_test(awkward_limits_hold),
        cmocka_unit_test(bad_scripts_name_the_word),
        cmocka_unit_test(drops_follow_the_seed),
        cmocka_unit_test(errors_and_duplicates),
        cmocka_unit_test(registrations_are_refused),
        cmocka_unit_test(delays_hold_back_and_keep_the_rules),
        cmocka_unit_test(a_dead_peer),
        cmocka_unit_test(a_line_or_an_event_for_each_operation),
        cmocka_unit_test(layers_by_configuration),
    };
    return cmocka_run_group_tests_name("layers", tests, NULL, NULL);
}
