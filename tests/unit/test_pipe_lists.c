/* SPDX-License-Identifier: BSD-3-Clause */
/* Pipeline schedules over a grid of stages, micro-batches and chunks: proven, and as good as the theory says. */
#include "tests/unit/unit.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "tests/unit/pipe_lists.h"

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* The bubble of the papers; negative where they claim none. */
static double theory(int64_t schedule, int p, int m, int v)
{
    switch (schedule) {
    case WEIR_PIPE_GPIPE:
    case WEIR_PIPE_1F1B: return (p - 1.0) / (m + p - 1);
    case WEIR_PIPE_INTERLEAVED: return m % p ? -1 : (p - 1.0) / (v * m + p - 1);
    case WEIR_PIPE_LOOPED_BFS: return m < p ? -1 : (p - 1.0) / (v * m + p - 1);
    case WEIR_PIPE_ZB_H1: return m < p ? -1 : (p - 1.0) / (3 * m + p - 1);
    default: return m < 2 * p - 1 ? -1 : 0;
    }
}

/* The peak of the papers on a stage; negative where they claim none. */
static int peak(int64_t schedule, int p, int m, int v, int s)
{
    switch (schedule) {
    case WEIR_PIPE_GPIPE: return m;
    case WEIR_PIPE_1F1B: return least(p - s, m);
    case WEIR_PIPE_INTERLEAVED: return m % p ? -1 : least((v - 1) * p + 2 * (p - 1 - s) + 1, v * m);
    case WEIR_PIPE_LOOPED_BFS: return v * m;
    case WEIR_PIPE_ZB_H1: return m < p ? -1 : p;
    case WEIR_PIPE_ZB_H2: return m < 2 * p - 1 ? -1 : 2 * p - 1;
    default: return m < 2 * p - 1 ? -1 : 2 * p;
    }
}

static void check_one(int64_t schedule, int p, int m, int v)
{
    weir_pipe_lists lists;
    weir_pipe *pipe = pipe_make(schedule, p, m, v, &lists);
    weir_pipe_stage_report stages[PIPE_P];
    weir_pipe_result result = {.size = sizeof result};
    weir_error err;
    const char *name = weir_pipe_schedule_name(schedule);
    assert_ok(weir_pipe_check(&lists, NULL, stages, &err), &err);
    for (int s = 0; s < p; s++) {
        int64_t stated = peak(schedule, p, m, v, s);
        if (stated >= 0 && (stages[s].activations != stated || lists.activations[s] != stated))
            fail_msg("%s, P %d, M %d, V %d: peak %d on stage %d instead of %d", name, p, m, v, (int)stages[s].activations, s,
                     (int)stated);
    }
    assert_ok(weir_pipe_simulate(&lists, NULL, NULL, NULL, &result, &err), &err);
    double wanted = theory(schedule, p, m, v);
    if (wanted >= 0 && fabs(result.bubble - wanted) > 1e-12)
        fail_msg("%s, P %d, M %d, V %d: bubble %g instead of %g", name, p, m, v, result.bubble, wanted);
    assert_true(result.bubble > -1e-12 && result.bubble_barrier >= result.bubble - 1e-12);
    weir_pipe_destroy(pipe);
}

static void grid(int64_t schedule)
{
    for (int p = 1; p <= PIPE_P; p++)
        for (int m = 1; m <= PIPE_M; m++)
            if (pipe_takes_chunks(schedule))
                for (int v = 1; v <= PIPE_V; v++)
                    check_one(schedule, p, m, v);
            else
                check_one(schedule, p, m, 0);
}

#define GRID(name, schedule)       \
    static void name(void **unused) \
    {                              \
        (void)unused;              \
        grid(schedule);            \
    }
GRID(gpipe, WEIR_PIPE_GPIPE)
GRID(one_forward_one_backward, WEIR_PIPE_1F1B)
GRID(interleaved, WEIR_PIPE_INTERLEAVED)
GRID(looped_bfs, WEIR_PIPE_LOOPED_BFS)
GRID(zb_h1, WEIR_PIPE_ZB_H1)
GRID(zb_h2, WEIR_PIPE_ZB_H2)
GRID(zb_v, WEIR_PIPE_ZB_V)

/* The barrier that zero-bubble schedules avoid by validating afterwards: counted, it costs the skew of the stages. */
static void barrier(void **unused)
{
    (void)unused;
    weir_pipe_lists lists;
    weir_pipe_result r = {.size = sizeof r};
    weir_error err;
    weir_pipe *pipe = pipe_make(WEIR_PIPE_ZB_H2, 8, 40, 0, &lists);
    assert_ok(weir_pipe_simulate(&lists, NULL, NULL, NULL, &r, &err), &err);
    assert_true(fabs(r.span - 120) < 1e-9 && fabs(r.time - 127) < 1e-9 && fabs(r.bubble_barrier - 7.0 / 127) < 1e-12);
    weir_pipe_destroy(pipe);
}

/* Interleaved schedules whose micro-batches the stages do not divide: not much worse than their neighbours. */
static void interleaved_uneven(void **unused)
{
    (void)unused;
    for (int p = 2; p <= 8; p++)
        for (int m = p; m <= PIPE_M; m++) {
            weir_pipe_lists lists;
            weir_pipe_result r = {.size = sizeof r};
            weir_error err;
            weir_pipe *pipe = pipe_make(WEIR_PIPE_INTERLEAVED, p, m, 3, &lists);
            assert_ok(weir_pipe_simulate(&lists, NULL, NULL, NULL, &r, &err), &err);
            if (r.span > 3.0 * (3 * m + 2 * p))
                fail_msg("P %d, M %d: %g units of time for %g of work", p, m, r.span, r.work);
            weir_pipe_destroy(pipe);
        }
}

/* ---- other costs ---- */

struct seen {
    weir_pipe_lists *lists;
    int64_t next[PIPE_P];
    double now[PIPE_P];
};

static void see(void *user, const weir_pipe_event *e)
{
    struct seen *seen = user;
    const weir_pipe_instr *i = &seen->lists->instrs[e->stage][e->index];
    assert_true(e->index == seen->next[e->stage]++ && !memcmp(i, &e->instr, sizeof *i));
    assert_true(e->end >= e->begin);
    if (i->op <= WEIR_PIPE_OP_B) {
        assert_true(e->begin >= seen->now[e->stage] - 1e-12);
        seen->now[e->stage] = e->end;
    }
}

static void costs(void **unused)
{
    (void)unused;
    weir_pipe_costs c = WEIR_PIPE_COSTS_INIT;
    weir_pipe_lists lists;
    weir_pipe_result r = {.size = sizeof r};
    weir_error err;
    weir_pipe *pipe = pipe_make(WEIR_PIPE_GPIPE, 4, 8, 0, &lists);
    struct seen seen = {.lists = &lists};
    c.f = 2;
    c.i = 3;
    c.w = 5;
    c.comm = 0.5;
    /* the first micro-batch through all stages and back, then one after the other */
    assert_ok(weir_pipe_simulate(&lists, &c, see, &seen, &r, &err), &err);
    assert_true(fabs(r.time - (11 * 10 + 6 * 0.5)) < 1e-9 && r.work == 80);
    for (int s = 0; s < 4; s++)
        assert_int_equal(seen.next[s], lists.lengths[s]);
    c.w = -1;
    assert_int_equal(weir_pipe_simulate(&lists, &c, NULL, NULL, &r, &err), WEIR_ERR_INVALID);
    c.w = NAN;
    assert_int_equal(weir_pipe_simulate(&lists, &c, NULL, NULL, &r, &err), WEIR_ERR_INVALID);
    c.f = c.i = c.w = 0;
    assert_int_equal(weir_pipe_simulate(&lists, &c, NULL, NULL, &r, &err), WEIR_ERR_INVALID);
    weir_pipe_destroy(pipe);
}

/* The input gradient leaves before the weights' is begun. */
static void gradients_leave_first(void **unused)
{
    (void)unused;
    weir_pipe_lists lists;
    weir_pipe *pipe = pipe_make(WEIR_PIPE_ZB_V, 4, 9, 0, &lists);
    int split = 0;
    for (int s = 0; s < 4; s++)
        for (int64_t i = 0; i < lists.lengths[s]; i++)
            if (lists.instrs[s][i].op == WEIR_PIPE_OP_I && weir_pipe_part(WEIR_PIPE_V, 4, s, lists.instrs[s][i].chunk) % 7) {
                bool local = s == 3 && lists.instrs[s][i].chunk == 1;
                assert_true(local || lists.instrs[s][i + 1].op == WEIR_PIPE_OP_SEND_GRAD);
                split++;
            }
    assert_int_equal(split, 9 * 6);
    weir_pipe_destroy(pipe);
}

/* ---- sharding ---- */

static int64_t count(const weir_pipe_lists *l, int stage, weir_pipe_op op)
{
    int64_t n = 0;
    for (int64_t i = 0; i < l->lengths[stage]; i++)
        n += l->instrs[stage][i].op == (int32_t)op;
    return n;
}

/* Is a chunk used after an instruction? */
static bool used_after(const weir_pipe_lists *l, int stage, int64_t i, int chunk)
{
    for (i++; i < l->lengths[stage]; i++) {
        const weir_pipe_instr *instr = &l->instrs[stage][i];
        if (instr->op <= WEIR_PIPE_OP_B && instr->op != WEIR_PIPE_OP_W && instr->chunk == chunk)
            return true;
    }
    return false;
}

/*
 * With room for two chunks or more another chunk computes while one is gathered; but not at the beginning, and not when it takes
 * the room of the chunk just before, which is not needed any more.
 */
static void check_overlap(const weir_pipe_lists *l, int stage)
{
    bool begun = false;
    for (int64_t i = 0; i < l->lengths[stage]; i++) {
        const weir_pipe_instr *gather = &l->instrs[stage][i], *use = gather + 1;
        begun = begun || gather->op <= WEIR_PIPE_OP_B;
        if (gather->op != WEIR_PIPE_OP_UNSHARD || !begun)
            continue;
        while (use->op > WEIR_PIPE_OP_B || use->op == WEIR_PIPE_OP_W)
            use++;
        bool last = gather[-1].op == WEIR_PIPE_OP_RESHARD && !used_after(l, stage, i, gather[-1].chunk);
        if (use->chunk == gather->chunk && !last)
            fail_msg("P %d, M %d, V %d, stage %d: instruction %d gathers what is used next", (int)l->stages, (int)l->microbatches,
                     (int)l->chunks, stage, (int)i);
    }
}

static void shard_one(weir_pipe_options *o)
{
    weir_pipe_lists lists = {.size = sizeof lists};
    weir_pipe_stage_report stages[PIPE_P];
    weir_pipe_report report = {.size = sizeof report};
    weir_pipe *pipe;
    weir_error err;
    assert_ok(weir_pipe_create(o, &pipe, &err), &err);
    weir_pipe_get_lists(pipe, &lists);
    assert_ok(weir_pipe_check(&lists, &report, stages, &err), &err);
    for (int s = 0; s < o->stages; s++) {
        int64_t gathers = count(&lists, s, WEIR_PIPE_OP_UNSHARD), drops = count(&lists, s, WEIR_PIPE_OP_RESHARD);
        assert_int_equal(count(&lists, s, WEIR_PIPE_OP_REDUCE_GRAD), lists.chunks);
        if (o->zero < 3)
            assert_true(gathers == (o->zero ? lists.chunks : 0) && drops == 0);
        else
            assert_true(gathers == drops && gathers >= lists.chunks && stages[s].unsharded <= lists.max_unsharded);
        if (o->zero == 3 && lists.max_unsharded > 1)
            check_overlap(&lists, s);
        /* with room for all, each is gathered once; breadth first each twice, less those that stay between both passes */
        if (o->zero == 3 && lists.max_unsharded >= lists.chunks)
            assert_int_equal(gathers, lists.chunks);
        else if (o->zero == 3 && o->schedule == WEIR_PIPE_LOOPED_BFS)
            assert_int_equal(gathers, 2 * lists.chunks - lists.max_unsharded);
        if (o->schedule == WEIR_PIPE_LOOPED_BFS)
            assert_int_equal(stages[s].gradients, 1);
    }
    weir_pipe_destroy(pipe);
}

static void sharding(void **unused)
{
    (void)unused;
    weir_pipe_options o = WEIR_PIPE_OPTIONS_INIT;
    for (o.schedule = 0; weir_pipe_schedule_name(o.schedule); o.schedule++)
        for (o.stages = 1; o.stages <= 5; o.stages++)
            for (o.microbatches = 1; o.microbatches <= 12; o.microbatches++)
                for (o.chunks = 0; o.chunks <= (pipe_takes_chunks(o.schedule) ? PIPE_V : 0); o.chunks++)
                    for (o.zero = 0; o.zero <= 3; o.zero++)
                        for (o.max_unsharded = 0; o.max_unsharded <= (o.zero == 3 ? PIPE_V : 0); o.max_unsharded++)
                            shard_one(&o);
}

/* With room for two chunks the gathers of the breadth-first schedule hide behind the chunk in use; with room for one they do not. */
static void gathers_hide(void **unused)
{
    (void)unused;
    weir_pipe_costs c = WEIR_PIPE_COSTS_INIT;
    double time[3];
    for (int most = 1; most <= 2; most++) {
        weir_pipe_options o = WEIR_PIPE_OPTIONS_INIT;
        weir_pipe_lists lists = {.size = sizeof lists};
        weir_pipe_result r = {.size = sizeof r};
        weir_pipe *pipe;
        weir_error err;
        o.schedule = WEIR_PIPE_LOOPED_BFS;
        o.stages = 4;
        o.microbatches = 8;
        o.chunks = 4;
        o.zero = 3;
        o.max_unsharded = most;
        c.unshard = 6;
        assert_ok(weir_pipe_create(&o, &pipe, &err), &err);
        weir_pipe_get_lists(pipe, &lists);
        assert_ok(weir_pipe_simulate(&lists, &c, NULL, NULL, &r, &err), &err);
        time[most] = r.span;
        weir_pipe_destroy(pipe);
    }
    assert_true(fabs(time[2] - 3 * (4 * 8 + 3)) < 1e-9); /* nothing is seen of them */
    assert_true(time[1] >= time[2] + 6 * 6);             /* six of seven are not the first */
}

/* ---- limits and errors ---- */

static void refuse(const weir_pipe_options *o, weir_status status, const char *words)
{
    weir_pipe *pipe = NULL;
    weir_error err;
    assert_int_equal(weir_pipe_create(o, &pipe, &err), status);
    if (!strstr(err.message, words))
        fail_msg("'%s' does not say '%s'", err.message, words);
    assert_null(pipe);
    assert_int_equal(weir_pipe_create(o, &pipe, NULL), status);
}

static void refusals(void **unused)
{
    (void)unused;
    weir_pipe_options o = WEIR_PIPE_OPTIONS_INIT;
    refuse(NULL, WEIR_ERR_INVALID, "no options");
    o.schedule = 7;
    refuse(&o, WEIR_ERR_INVALID, "no schedule 7");
    o.schedule = WEIR_PIPE_GPIPE;
    o.stages = 0;
    refuse(&o, WEIR_ERR_INVALID, "0 stages");
    o.stages = 4;
    o.microbatches = -1;
    refuse(&o, WEIR_ERR_INVALID, "-1 micro-batches");
    o.microbatches = 8;
    o.chunks = 2;
    refuse(&o, WEIR_ERR_INVALID, "gpipe has 1 chunk a stage, not 2");
    o.chunks = 0;
    o.max_activations = 7;
    refuse(&o, WEIR_ERR_LIMIT, "holds up to 8 activations of micro-batch chunks on stage 0, and 7 are the limit");
    o.max_activations = 0;
    o.zero = 4;
    refuse(&o, WEIR_ERR_INVALID, "no ZeRO stage 4");
    o.zero = 0;
    o.stages = 1024;
    o.microbatches = 65536;
    refuse(&o, WEIR_ERR_INVALID, "more than 1048576 in all");
    o.stages = 4;
    o.microbatches = 8;
    o.buffers = -1;
    refuse(&o, WEIR_ERR_INVALID, "below 0");
    int64_t schedule = 99;
    weir_error err;
    assert_int_equal(weir_pipe_schedule_find("2f2b", &schedule, &err), WEIR_ERR_NOT_FOUND);
    assert_non_null(strstr(err.advice, "gpipe, 1f1b, interleaved, looped-bfs, zb-h1, zb-h2, zb-v"));
    for (int64_t i = 0; weir_pipe_schedule_name(i); i++) {
        assert_ok(weir_pipe_schedule_find(weir_pipe_schedule_name(i), &schedule, &err), &err);
        assert_true(schedule == i && weir_pipe_schedule_text(i));
    }
}

/* Between H1's memory and H2's, ZB-H2 takes what it gets, and is the better the more that is. */
static void between_h1_and_h2(void **unused)
{
    (void)unused;
    for (int p = 2; p <= 8; p++) {
        double before = 1;
        for (int limit = p; limit <= 2 * p - 1; limit++) {
            weir_pipe_options o = WEIR_PIPE_OPTIONS_INIT;
            weir_pipe_lists lists = {.size = sizeof lists};
            weir_pipe_report report = {.size = sizeof report};
            weir_pipe_result r = {.size = sizeof r};
            weir_pipe *pipe;
            weir_error err;
            o.schedule = WEIR_PIPE_ZB_H2;
            o.stages = p;
            o.microbatches = 30;
            o.max_activations = limit;
            assert_ok(weir_pipe_create(&o, &pipe, &err), &err);
            weir_pipe_get_lists(pipe, &lists);
            assert_ok(weir_pipe_check(&lists, &report, NULL, &err), &err);
            assert_ok(weir_pipe_simulate(&lists, NULL, NULL, NULL, &r, &err), &err);
            assert_true(report.activations == limit && r.bubble < before);
            before = r.bubble;
            weir_pipe_destroy(pipe);
        }
        assert_true(fabs(before) < 1e-12);
    }
}

/* The time when buffers do not matter. */
static double free_time(int64_t schedule, int p)
{
    weir_pipe_lists lists;
    weir_pipe_result r = {.size = sizeof r};
    weir_error err;
    weir_pipe *pipe = pipe_make(schedule, p, 11, 0, &lists);
    assert_ok(weir_pipe_simulate(&lists, NULL, NULL, NULL, &r, &err), &err);
    weir_pipe_destroy(pipe);
    return r.time;
}

/* Fewer buffers than the least deadlock and are refused; with the least and with one more they come to their end. */
static void buffers(void **unused)
{
    (void)unused;
    int slower = 0; /* schedules that few buffers slow down */
    for (int64_t schedule = 0; weir_pipe_schedule_name(schedule); schedule++)
        for (int p = 2; p <= 6; p++) {
            weir_pipe_lists lists;
            weir_pipe_report report = {.size = sizeof report};
            weir_error err;
            weir_pipe *pipe = pipe_make(schedule, p, 11, 0, &lists);
            assert_ok(weir_pipe_check(&lists, &report, NULL, &err), &err);
            assert_true(report.buffers_least >= 1 && report.buffers_least <= report.buffers_enough);
            assert_int_equal(report.messages, 2 * 11 * (p * lists.chunks - 1 - (lists.placement == WEIR_PIPE_V)));
            for (lists.buffers = report.buffers_least; lists.buffers <= report.buffers_enough; lists.buffers++)
                assert_ok(weir_pipe_check(&lists, NULL, NULL, &err), &err);
            /* fewer buffers take as long or longer, and so many that no SEND waits as long as any number */
            double before = 0;
            for (lists.buffers = report.buffers_enough + 1; lists.buffers >= report.buffers_least; lists.buffers--) {
                weir_pipe_result r = {.size = sizeof r};
                assert_ok(weir_pipe_simulate(&lists, NULL, NULL, NULL, &r, &err), &err);
                assert_true(r.time >= before && (lists.buffers != report.buffers_enough || r.time == before));
                before = r.time;
            }
            slower += before > free_time(schedule, p) + 1e-9;
            lists.buffers = report.buffers_least - 1;
            if (lists.buffers) {
                assert_int_equal(weir_pipe_check(&lists, NULL, NULL, &err), WEIR_ERR_LIMIT);
                assert_non_null(strstr(err.message, "a deadlock"));
            }
            weir_pipe_destroy(pipe);
        }
    assert_true(slower > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpipe),
        cmocka_unit_test(one_forward_one_backward),
        cmocka_unit_test(interleaved),
        cmocka_unit_test(looped_bfs),
        cmocka_unit_test(zb_h1),
        cmocka_unit_test(zb_h2),
        cmocka_unit_test(zb_v),
        cmocka_unit_test(barrier),
        cmocka_unit_test(interleaved_uneven),
        cmocka_unit_test(costs),
        cmocka_unit_test(gradients_leave_first),
        cmocka_unit_test(sharding),
        cmocka_unit_test(gathers_hide),
        cmocka_unit_test(refusals),
        cmocka_unit_test(between_h1_and_h2),
        cmocka_unit_test(buffers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
