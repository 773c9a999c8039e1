/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The checker of pipeline schedules against broken lists. Each instruction is dropped, doubled or changed: all of that must be
 * refused, by a sentence. Each pair of neighbours, and pairs farther apart, are exchanged: whatever the checker lets pass must
 * give the right numbers under random timing, and whatever it refuses must not, or break what is claimed of the memory. The numbers are
 * those of a small machine here that knows nothing of the checker.
 */
#include "tests/unit/unit.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/pipe_lists.h"

enum { P_MAX = 4, CELLS = 64, QUEUE = 256 };

/* ---- the machine ---- */

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t x = (a ^ (b + 0x9e3779b97f4a7c15u + (a << 6))) * 0xbf58476d1ce4e5b9u;
    return x ^ x >> 29;
}

struct stage {
    uint64_t in[CELLS], out[CELLS], dout[CELLS], din[CELLS], saved[CELLS]; /* by chunk and micro-batch; 0: nothing there */
    uint64_t sum[PIPE_V], reduced[PIPE_V];
    bool there[PIPE_V];
    int held, unsharded;
    int64_t at;
};

struct machine {
    const weir_pipe_lists *lists;
    struct stage stage[P_MAX];
    struct {
        uint64_t value[QUEUE];
        int put, got;
    } queue[P_MAX][P_MAX][2];
    bool good; /* nothing was read that is not there, and claims about memory hold */
};

static int part_of(const weir_pipe_lists *l, int stage, int chunk)
{
    return l->placement == WEIR_PIPE_V && chunk ? 2 * (int)l->stages - 1 - stage : chunk * (int)l->stages + stage;
}

/* The cell of a neighbouring part on the same stage, or NULL. */
static uint64_t *beside(struct machine *m, int stage, int chunk, int micro, int step, bool gradient)
{
    const weir_pipe_lists *l = m->lists;
    int part = part_of(l, stage, chunk) + step;
    for (int c = 0; c < l->chunks; c++)
        if (part_of(l, stage, c) == part)
            return (gradient ? m->stage[stage].dout : m->stage[stage].in) + c * l->microbatches + micro;
    return NULL;
}

static void compute(struct machine *m, int s, const weir_pipe_instr *i)
{
    const weir_pipe_lists *l = m->lists;
    struct stage *st = &m->stage[s];
    int cell = i->chunk * (int)l->microbatches + i->micro, part = part_of(l, s, i->chunk);
    if (i->op != WEIR_PIPE_OP_W && l->zero && !st->there[i->chunk])
        m->good = false; /* it would read freed memory */
    if (i->op == WEIR_PIPE_OP_F) {
        uint64_t in = part ? st->in[cell] : mix(77, (uint64_t)i->micro);
        st->out[cell] = in ? mix(in, (uint64_t)part) : 1;
        if (part == l->stages * l->chunks - 1)
            st->dout[cell] = mix(st->out[cell], 99);
        else if (beside(m, s, i->chunk, i->micro, 1, false))
            *beside(m, s, i->chunk, i->micro, 1, false) = st->out[cell];
        st->held++;
    }
    if (i->op == WEIR_PIPE_OP_I || i->op == WEIR_PIPE_OP_B) {
        st->din[cell] = st->dout[cell] && st->out[cell] ? mix(st->dout[cell], (uint64_t)part) : 2;
        st->saved[cell] = st->dout[cell];
        if (part && beside(m, s, i->chunk, i->micro, -1, true))
            *beside(m, s, i->chunk, i->micro, -1, true) = st->din[cell];
    }
    if (i->op == WEIR_PIPE_OP_W || i->op == WEIR_PIPE_OP_B) {
        st->sum[i->chunk] += st->saved[cell] && st->out[cell] ? mix(st->saved[cell], st->out[cell]) : 3;
        m->good = m->good && st->held <= l->activations[s];
        st->held--;
    }
    m->good = m->good && st->held <= l->activations[s];
}

/* false when the stage must wait */
static bool step(struct machine *m, int s)
{
    struct stage *st = &m->stage[s];
    const weir_pipe_instr *i = &m->lists->instrs[s][st->at];
    int cell = i->chunk * (int)m->lists->microbatches + i->micro, kind = i->op == WEIR_PIPE_OP_SEND_GRAD || i->op == WEIR_PIPE_OP_RECV_GRAD;
    if (i->op == WEIR_PIPE_OP_RECV_ACT || i->op == WEIR_PIPE_OP_RECV_GRAD) {
        if (m->queue[i->peer][s][kind].put == m->queue[i->peer][s][kind].got)
            return false;
        (kind ? st->dout : st->in)[cell] = m->queue[i->peer][s][kind].value[m->queue[i->peer][s][kind].got++];
    } else if (i->op == WEIR_PIPE_OP_SEND_ACT || i->op == WEIR_PIPE_OP_SEND_GRAD) {
        m->queue[s][i->peer][kind].value[m->queue[s][i->peer][kind].put++] = (kind ? st->din : st->out)[cell];
    } else if (i->op == WEIR_PIPE_OP_REDUCE_GRAD) {
        st->reduced[i->chunk] = st->sum[i->chunk];
    } else if (i->op == WEIR_PIPE_OP_UNSHARD || i->op == WEIR_PIPE_OP_RESHARD) {
        bool there = i->op == WEIR_PIPE_OP_UNSHARD;
        m->good = m->good && st->there[i->chunk] != there;
        st->there[i->chunk] = there;
        st->unsharded += there ? 1 : -1;
        m->good = m->good && (!m->lists->max_unsharded || st->unsharded <= m->lists->max_unsharded);
    } else {
        compute(m, s, i);
    }
    st->at++;
    return true;
}

/* Runs all stages in random turns; true when the gradients are right and claims about memory hold. */
static bool run(const weir_pipe_lists *l, uint64_t seed)
{
    struct machine *m = calloc(1, sizeof *m);
    assert_non_null(m);
    m->lists = l;
    m->good = true;
    for (int stuck = 0; stuck < 200;) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        int s = (int)((seed >> 40) % (uint64_t)l->stages);
        stuck = m->stage[s].at < l->lengths[s] && step(m, s) ? 0 : stuck + 1;
    }
    bool good = m->good;
    uint64_t act[CELLS], grad[CELLS], sum[P_MAX * PIPE_V] = {0};
    int parts = (int)(l->stages * l->chunks);
    for (int micro = 0; micro < l->microbatches; micro++) {
        for (int p = 0; p < parts; p++)
            act[p] = mix(p ? act[p - 1] : mix(77, (uint64_t)micro), (uint64_t)p);
        for (int p = parts - 1; p >= 0; p--) {
            grad[p] = p == parts - 1 ? mix(act[p], 99) : mix(grad[p + 1], (uint64_t)p + 1);
            sum[p] += mix(grad[p], act[p]);
        }
    }
    for (int s = 0; s < l->stages; s++) {
        good = good && m->stage[s].at == l->lengths[s];
        for (int c = 0; c < l->chunks; c++)
            good = good && m->stage[s].reduced[c] == sum[part_of(l, s, c)];
    }
    free(m);
    return good;
}

/* ---- the mutants ---- */

struct mutant {
    weir_pipe_lists lists;
    const weir_pipe_instr *instrs[P_MAX];
    int64_t lengths[P_MAX];
    weir_pipe_instr *list; /* of the stage that is changed */
    int stage;
};

static void mutant_start(struct mutant *m, const weir_pipe_lists *whole, int stage)
{
    m->lists = *whole;
    m->stage = stage;
    memcpy(m->instrs, whole->instrs, (size_t)whole->stages * sizeof *m->instrs);
    memcpy(m->lengths, whole->lengths, (size_t)whole->stages * sizeof *m->lengths);
    size_t n = (size_t)whole->lengths[stage];
    m->list = malloc((n + 1) * sizeof *m->list);
    assert_non_null(m->list);
    memcpy(m->list, whole->instrs[stage], n * sizeof *m->list);
    m->instrs[stage] = m->list;
    m->lists.instrs = m->instrs;
    m->lists.lengths = m->lengths;
}

static void must_refuse(struct mutant *m, const char *what, int64_t i)
{
    weir_error err;
    weir_status status = weir_pipe_check(&m->lists, NULL, NULL, &err);
    char text[96];
    if (status != WEIR_ERR_INVALID && status != WEIR_ERR_LIMIT)
        fail_msg("stage %d, instruction %d (%s) %s: not refused", m->stage, (int)i,
                 weir_pipe_instr_text(&m->list[i], text, sizeof text), what);
    if (strncmp(err.message, "stage ", 6) || !strchr(err.message, ':') || strlen(strchr(err.message, ':')) < 15)
        fail_msg("'%s' does not name stage, instruction and reason", err.message);
    free(m->list);
}

static void drop_and_double(const weir_pipe_lists *whole, int stage)
{
    int64_t n = whole->lengths[stage];
    for (int64_t i = 0; i < n; i++) {
        struct mutant m;
        size_t rest = (size_t)(n - i);
        mutant_start(&m, whole, stage);
        memmove(m.list + i, m.list + i + 1, (rest - 1) * sizeof *m.list);
        m.lengths[stage]--;
        must_refuse(&m, "dropped", i);
        mutant_start(&m, whole, stage);
        memmove(m.list + i + 1, m.list + i, rest * sizeof *m.list);
        m.lengths[stage]++;
        must_refuse(&m, "doubled", i);
        mutant_start(&m, whole, stage);
        memmove(m.list + i, m.list + i + 1, (rest - 1) * sizeof *m.list);
        m.list[n - 1] = whole->instrs[stage][n / 2]; /* another one in its place, at the end */
        if (i != n / 2)
            must_refuse(&m, "replaced", i);
        else
            free(m.list);
    }
}

static void change_fields(const weir_pipe_lists *whole, int stage)
{
    for (int64_t i = 0; i < whole->lengths[stage]; i++)
        for (int how = 0; how < 8; how++) {
            struct mutant m;
            mutant_start(&m, whole, stage);
            weir_pipe_instr *instr = &m.list[i];
            switch (how) {
            case 0: instr->micro++; break;
            case 1: instr->micro = -2; break;
            case 2: instr->chunk = (instr->chunk + 1) % (int32_t)(whole->chunks + 1); break;
            case 3: instr->chunk = -1; break;
            case 4: instr->peer = instr->peer < 0 ? 0 : (instr->peer + 1) % (int32_t)whole->stages; break;
            case 5: instr->peer = (int32_t)whole->stages; break;
            case 6: instr->op = (instr->op + 1) % 11; break;
            default: instr->op = -1; break;
            }
            if (!memcmp(instr, &whole->instrs[stage][i], sizeof *instr))
                free(m.list);
            else
                must_refuse(&m, "changed", i);
        }
}

struct tally {
    int passed, refused;
};

static void swap_one(const weir_pipe_lists *whole, int stage, int64_t i, int64_t j, struct tally *tally)
{
    struct mutant m;
    weir_error err;
    bool good = true;
    char one[96], other[96];
    mutant_start(&m, whole, stage);
    m.list[i] = whole->instrs[stage][j];
    m.list[j] = whole->instrs[stage][i];
    bool passes = weir_pipe_check(&m.lists, NULL, NULL, &err) == WEIR_OK;
    for (uint64_t seed = 1; seed <= 3; seed++)
        good = run(&m.lists, seed) && good;
    if (passes != good)
        fail_msg("stage %d, %d and %d (%s, %s) exchanged: the checker %s, the numbers are %s", stage, (int)i, (int)j,
                 weir_pipe_instr_text(&m.list[j], one, sizeof one), weir_pipe_instr_text(&m.list[i], other, sizeof other),
                 passes ? "passes them" : err.message, good ? "right" : "wrong");
    tally->passed += passes;
    tally->refused += !passes;
    free(m.list);
}

static void exchange(const weir_pipe_lists *whole, int stage, struct tally *tally)
{
    int64_t n = whole->lengths[stage];
    for (int64_t i = 0; i + 1 < n; i++) {
        swap_one(whole, stage, i, i + 1, tally);
        swap_one(whole, stage, i, i + 1 + (i * 7 + 3) % (n - i - 1), tally);
    }
}

static void mutants_of(int64_t schedule, int stages, int micros, int zero)
{
    weir_pipe_options o = WEIR_PIPE_OPTIONS_INIT;
    weir_pipe_lists lists = {.size = sizeof lists};
    struct tally tally = {0};
    weir_pipe *pipe;
    weir_error err;
    o.schedule = schedule;
    o.stages = stages;
    o.microbatches = micros;
    o.zero = zero;
    assert_ok(weir_pipe_create(&o, &pipe, &err), &err);
    weir_pipe_get_lists(pipe, &lists);
    for (uint64_t seed = 1; seed <= 5; seed++)
        assert_true(run(&lists, seed));
    for (int s = 0; s < stages; s++) {
        drop_and_double(&lists, s);
        change_fields(&lists, s);
        exchange(&lists, s, &tally);
    }
    assert_true(tally.refused > tally.passed / 3);
    weir_pipe_destroy(pipe);
}

static void mutants(void **unused)
{
    (void)unused;
    for (int64_t schedule = 0; weir_pipe_schedule_name(schedule); schedule++)
        for (int stages = 2; stages <= 3; stages++) {
            mutants_of(schedule, stages, 4, 0);
            mutants_of(schedule, stages, 3, 3);
        }
    mutants_of(WEIR_PIPE_INTERLEAVED, 4, 5, 1);
    mutants_of(WEIR_PIPE_ZB_V, 1, 4, 3);
}

/* Sentences that a person reads. */
static void sentences(void **unused)
{
    (void)unused;
    weir_pipe_lists lists;
    weir_error err;
    struct mutant m;
    weir_pipe *pipe = pipe_make(WEIR_PIPE_1F1B, 2, 2, 0, &lists);
    mutant_start(&m, &lists, 1);
    m.lengths[1]--;
    assert_int_equal(weir_pipe_check(&m.lists, NULL, NULL, &err), WEIR_ERR_INVALID);
    assert_string_equal(err.message, "stage 1, end of the list: REDUCE_GRAD of chunk 0 is missing");
    m.lengths[1]++;
    m.list[0].micro = 1;
    m.list[4].micro = 0;
    assert_int_equal(weir_pipe_check(&m.lists, NULL, NULL, &err), WEIR_ERR_INVALID);
    assert_string_equal(err.message, "stage 1, instruction 1 (F of micro-batch 0, chunk 0): its input has not come");
    free(m.list);
    /* stage 0 waits for a gradient before it has sent what that comes from */
    mutant_start(&m, &lists, 0);
    for (int i = 0; i < m.lengths[0]; i++) /* F 0, SEND 0, F 1, SEND 1, RECV 0, B 0: the first SEND goes behind */
        if (m.list[i].op == WEIR_PIPE_OP_RECV_GRAD && m.list[i].micro == 0) {
            weir_pipe_instr send = m.list[1];
            memmove(m.list + 1, m.list + 2, (size_t)(i - 1) * sizeof *m.list);
            m.list[i] = send;
        }
    assert_int_equal(weir_pipe_check(&m.lists, NULL, NULL, &err), WEIR_ERR_INVALID);
    assert_string_equal(err.message, "stage 1, instruction 0 (RECV_ACT of micro-batch 0, chunk 0, from stage 0): the next message from "
                                     "stage 0 is that of micro-batch 1 for part 1");
    free(m.list);
    weir_pipe_destroy(pipe);
}

/* Numbers that make no sense are refused before anything is read. */
static void nonsense(void **unused)
{
    (void)unused;
    weir_pipe_lists lists, bad;
    weir_pipe_result r = {.size = sizeof r};
    weir_error err;
    weir_pipe *pipe = pipe_make(WEIR_PIPE_1F1B, 2, 2, 0, &lists);
    int64_t *fields[] = {&bad.stages, &bad.microbatches, &bad.chunks, &bad.placement, &bad.zero, &bad.buffers};
    assert_int_equal(weir_pipe_check(NULL, NULL, NULL, &err), WEIR_ERR_INVALID);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        bad = lists;
        *fields[i] = i == 3 ? 2 : -1;
        assert_int_equal(weir_pipe_check(&bad, NULL, NULL, &err), WEIR_ERR_INVALID);
        assert_int_equal(weir_pipe_simulate(&bad, NULL, NULL, NULL, &r, &err), WEIR_ERR_INVALID);
    }
    bad = lists;
    bad.instrs = NULL;
    assert_int_equal(weir_pipe_check(&bad, NULL, NULL, &err), WEIR_ERR_INVALID);
    bad = lists;
    bad.lengths = NULL;
    assert_int_equal(weir_pipe_check(&bad, NULL, NULL, &err), WEIR_ERR_INVALID);
    int64_t less[] = {0, 1};
    bad = lists;
    bad.activations = less;
    assert_int_equal(weir_pipe_check(&bad, NULL, NULL, &err), WEIR_ERR_LIMIT);
    assert_string_equal(err.message, "stage 0, instruction 0 (F of micro-batch 0, chunk 0): that makes 1 activations, and 0 are claimed "
                                     "to be the most");
    weir_pipe_destroy(pipe);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mutants),
        cmocka_unit_test(sentences),
        cmocka_unit_test(nonsense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
