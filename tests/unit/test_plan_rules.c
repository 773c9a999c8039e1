/* SPDX-License-Identifier: BSD-3-Clause */
/* Each rule of plans has a small program that breaks it, and the sentence says who does what wrong. */
#include "tests/unit/unit.h"

#include "tests/unit/plan_world.h"

/* Two ranks of one node (0, 1) and one of another (2), who gather 4 elements each. */
struct rules {
    struct plan_world w;
    struct wr_plan_spec s;
    struct wr_program p[3];
};

enum { GO, DATA, OVER, NEVER };

static struct wr_ref in(int rank)
{
    return wr_ref(rank, WR_BUF_IN, 0);
}

static struct wr_ref out(int rank, int share)
{
    return wr_ref(rank, WR_BUF_OUT, 4 * (uint64_t)share);
}

static struct wr_ref scratch(int rank, uint64_t offset)
{
    return wr_ref(rank, WR_BUF_SCRATCH, offset);
}

static void begin(struct rules *t)
{
    static const int node_of[] = {0, 0, 1};
    memset(t, 0, sizeof *t);
    plan_world_init(&t->w, 3, 2, node_of);
    t->s = (struct wr_plan_spec){.coll = WR_COLL_GATHER,
                                 .root = 1,
                                 .topo = &t->w.topo,
                                 .count = 4,
                                 .in_mapped = true,
                                 .elem_size = 4,
                                 .partial_size = 4};
    for (int r = 0; r < 3; r++) {
        wr_program_init(&t->p[r], r);
        wr_program_lane(&t->p[r]);
        t->p[r].scratch = 16;
    }
}

/* Keeps a rank from ending, for it would have no result: it waits for what it says afterwards. */
static void hold(struct rules *t, int rank)
{
    wr_program_wait(&t->p[rank], rank, NEVER, 1);
    wr_program_signal(&t->p[rank], rank, NEVER);
}

/* Verifies; the sentence must contain `want` (NULL: there must be none). */
static void end(struct rules *t, const char *want)
{
    weir_error err = {0};
    weir_status status = wr_verify_programs(&t->s, t->p, NULL, &err);
    if (!want)
        assert_ok(status, &err);
    else if (status != WEIR_ERR_INTERNAL || !strstr(err.message, want))
        fail_msg("wanted \"%s\", got: %s", want, status == WEIR_OK ? "success" : err.message);
    for (int r = 0; r < 3; r++)
        wr_program_free(&t->p[r]);
    plan_world_free(&t->w);
}

/* All tell all that they have come, then that they are through; so that other rules can be broken in between. */
static void all_to_all(struct rules *t, uint32_t slot)
{
    for (int r = 0; r < 3; r++)
        for (int q = 0; q < 3; q++)
            if (q != r)
                wr_program_signal(&t->p[r], q, slot);
    for (int r = 0; r < 3; r++)
        for (int q = 0; q < 3; q++)
            if (q != r)
                wr_program_wait(&t->p[r], q, slot, 1);
}

/* An all-gather that is right: loads on the node, puts through SCRATCH between nodes. */
static void gather(struct rules *t)
{
    t->s.coll = WR_COLL_ALLGATHER;
    all_to_all(t, GO);
    for (int r = 0; r < 3; r++)
        for (int q = 0; q < 3; q++)
            if (t->w.node_of[q] != t->w.node_of[r])
                wr_program_put_signal(&t->p[r], scratch(q, 4 * (uint64_t)r), in(r), 4, DATA);
    for (int r = 0; r < 3; r++)
        for (int q = 0; q < 3; q++) {
            bool near = t->w.node_of[q] == t->w.node_of[r];
            if (!near)
                wr_program_wait(&t->p[r], q, DATA, 1);
            wr_program_copy(&t->p[r], out(r, q), near ? in(q) : scratch(r, 4 * (uint64_t)q), 4);
        }
    all_to_all(t, OVER);
}

static struct wr_step *find(struct rules *t, int rank, int op, int nth)
{
    for (uint32_t i = 0; i < t->p[rank].nsteps; i++)
        if (t->p[rank].steps[i].op == op && nth-- == 0)
            return &t->p[rank].steps[i];
    fail_msg("no such step");
    return NULL;
}

/* The same when no rank is meant to come to its end. */
static void end_held(struct rules *t, const char *want)
{
    for (int r = 0; r < 3; r++)
        hold(t, r);
    end(t, want);
}

static void right_plans_pass(void **unused)
{
    (void)unused;
    struct rules t;
    begin(&t);
    gather(&t);
    end(&t, NULL);
    begin(&t);
    t.s.coll = WR_COLL_BARRIER;
    all_to_all(&t, GO);
    end(&t, NULL);
}

static void wrong_contents(void **unused)
{
    (void)unused;
    struct rules t;
    begin(&t);
    gather(&t);
    t.p[1].refs[find(&t, 1, WR_STEP_COPY, 0)->first_ref + 1].rank = 1;
    end(&t, "rank 1 ends execution 1, but element 0 of its OUT is not the result");
    begin(&t);
    gather(&t);
    find(&t, 0, WR_STEP_COPY, 2)->len = 3;
    end(&t, "rank 0 ends execution 1, but element 11 of its OUT is not the result");
    begin(&t);
    wr_program_copy(&t.p[2], scratch(2, 0), scratch(2, 8), 2);
    end_held(&t, "rank 2, lane 0, step 0 (COPY): it reads element 8 of SCRATCH of rank 2, which nothing has written");
}

static void wrong_sums(void **unused)
{
    (void)unused;
    struct rules t;
    struct wr_ref twice[2] = {in(0), in(0)}, beside[2] = {in(0), wr_ref(1, WR_BUF_IN, 1)};
    begin(&t);
    t.s.coll = WR_COLL_ALLREDUCE;
    t.s.reduces = true;
    wr_program_reduce(&t.p[0], scratch(0, 0), twice, 2, 1);
    end_held(&t, "the contribution of a rank to element 0 would be counted twice");
    begin(&t);
    t.s.coll = WR_COLL_ALLREDUCE;
    t.s.reduces = true;
    all_to_all(&t, GO);
    wr_program_reduce(&t.p[0], scratch(0, 0), beside, 2, 1);
    end_held(&t, "operand 1 holds element 1 of the vector, operand 0 element 0");
    begin(&t);
    wr_program_reduce(&t.p[0], scratch(0, 0), twice, 2, 1);
    end_held(&t, "combines nothing");
    begin(&t);
    t.s.coll = WR_COLL_ALLREDUCE;
    t.s.reduces = true;
    t.s.partial_size = 8;
    struct wr_ref mine[2] = {in(0), in(1)}, rounded[2] = {out(0, 0), scratch(0, 0)};
    all_to_all(&t, GO);
    wr_program_reduce(&t.p[0], out(0, 0), mine, 2, 4);
    wr_program_put_signal(&t.p[2], scratch(0, 0), scratch(2, 0), 4, DATA);
    wr_program_wait(&t.p[0], 2, DATA, 1);
    wr_program_reduce(&t.p[0], out(0, 0), rounded, 2, 4);
    struct wr_step wide = t.p[2].steps[t.p[2].nsteps - 1];
    t.p[2].nsteps--;
    t.p[2].lane[1]--;
    wr_program_copy(&t.p[2], scratch(2, 0), in(2), 4);
    wr_program_step(&t.p[2], &wide, &t.p[2].refs[wide.first_ref]);
    end_held(&t, "operand 0 is a partial result that was rounded already");
}

static void wrong_order(void **unused)
{
    (void)unused;
    struct rules t;
    begin(&t); /* the put is covered by a signal that rank 1 hears of, not rank 2 */
    wr_program_put(&t.p[0], scratch(2, 0), in(0), 4);
    wr_program_signal(&t.p[0], 2, GO);
    wr_program_signal(&t.p[0], 1, GO);
    wr_program_wait(&t.p[1], 0, GO, 1);
    wr_program_signal(&t.p[1], 2, DATA);
    wr_program_wait(&t.p[2], 1, DATA, 1);
    wr_program_copy(&t.p[2], scratch(2, 8), scratch(2, 0), 4);
    wr_program_wait(&t.p[2], 0, GO, 1);
    end_held(&t,
             "rank 2, lane 0, step 1 (COPY): it reads memory of rank 2 that may still be written by lane 0 of rank 0");
    begin(&t); /* the source is used again without a drain */
    wr_program_copy(&t.p[0], scratch(0, 0), in(0), 4);
    wr_program_put_signal(&t.p[0], scratch(2, 0), scratch(0, 0), 4, DATA);
    wr_program_copy(&t.p[0], scratch(0, 0), in(0), 4);
    wr_program_wait(&t.p[2], 0, DATA, 1);
    end_held(&t, "rank 0, lane 0, step 2 (COPY): it writes memory of rank 0 that may still be read by lane 0 of rank 0 "
                 "until its end");
    begin(&t); /* right once, but the second execution overwrites what may not have been read */
    wr_program_put_signal(&t.p[0], scratch(2, 0), in(0), 4, DATA);
    wr_program_wait(&t.p[0], 2, OVER, 1);
    wr_program_wait(&t.p[2], 0, DATA, 1);
    wr_program_signal(&t.p[2], 0, OVER); /* too early */
    wr_program_copy(&t.p[2], scratch(2, 8), scratch(2, 0), 4);
    hold(&t, 1);
    end(&t, "rank 0, lane 0, step 0 (PUT): it writes memory of rank 2 that may still be read by lane 0 of rank 2");
    begin(&t); /* two lanes */
    wr_program_copy(&t.p[0], scratch(0, 0), in(0), 4);
    wr_program_lane(&t.p[0]);
    wr_program_copy(&t.p[0], scratch(0, 2), in(0), 4);
    end_held(&t,
             "rank 0, lane 1, step 0 (COPY): it writes memory of rank 0 that may still be written by lane 0 of rank 0");
}

static void wrong_time(void **unused)
{
    (void)unused;
    struct rules t;
    begin(&t);
    wr_program_copy(&t.p[0], scratch(0, 0), in(1), 4);
    end_held(&t, "IN of rank 1 may be touched before that rank has started");
    begin(&t);
    t.s.root = 0;
    wr_program_signal(&t.p[1], 0, GO);
    wr_program_wait(&t.p[0], 1, GO, 1);
    wr_program_wait(&t.p[0], 1, DATA, 1);
    wr_program_signal(&t.p[1], 0, DATA);
    wr_program_copy(&t.p[0], scratch(0, 0), in(1), 4);
    end(&t, "IN of rank 1 may be touched after that rank has ended");
    begin(&t);
    t.s.coll = WR_COLL_BARRIER;
    end(&t, "but rank 1 may not have started");
}

static void wrong_signals(void **unused)
{
    (void)unused;
    struct rules t;
    begin(&t);
    wr_program_signal(&t.p[0], 1, GO);
    wr_program_signal(&t.p[0], 1, GO);
    wr_program_wait(&t.p[1], 0, GO, 1);
    end_held(&t, "rank 0 sends 2 signals in slot 0 to rank 1, which waits for 1");
    begin(&t);
    for (int r = 0; r < 2; r++) {
        wr_program_wait(&t.p[r], 1 - r, GO, 1);
        wr_program_signal(&t.p[r], 1 - r, GO);
    }
    end_held(&t, "rank 0, lane 0, step 0 (WAIT): deadlock: in execution 1 it waits for signal 1 from rank 1 in slot 0, "
                 "and 0 came");
    begin(&t);
    wr_program_signal(&t.p[0], 1, 7);
    end_held(&t, "slot 7 of rank 1, which has 4");
    begin(&t);
    wr_program_put(&t.p[0], scratch(2, 0), in(0), 1);
    end_held(&t, "no later signal to rank 2 covers it");
    begin(&t);
    wr_program_signal(&t.p[0], 1, GO);
    wr_program_wait(&t.p[1], 0, GO, 2);
    wr_program_lane(&t.p[0]);
    wr_program_signal(&t.p[0], 1, GO);
    end_held(&t, "lane 0 uses the same counter (rank 0 to 1, slot 0)");
}

static void wrong_shapes(void **unused)
{
    (void)unused;
    struct rules t;
    begin(&t);
    hold(&t, 1);
    t.p[1].lane[1] = 1;
    end(&t, "the lanes of rank 1 are not its steps");
    begin(&t);
    wr_program_copy(&t.p[0], scratch(0, 0), in(0), 4);
    t.p[0].steps[0].nrefs = 3;
    end_held(&t, "rank 0, lane 0, step 0 (COPY): the step makes no sense");
    begin(&t);
    wr_program_copy(&t.p[0], scratch(5, 0), in(0), 4);
    end_held(&t, "buffer 2 of rank 5 does not exist");
}

static void wrong_places(void **unused)
{
    (void)unused;
    struct rules t;
    begin(&t);
    wr_program_copy(&t.p[0], scratch(0, 0), in(2), 1);
    end_held(&t, "memory of rank 2 is on another node");
    begin(&t);
    t.s.in_mapped = false;
    wr_program_copy(&t.p[0], scratch(0, 0), in(1), 1);
    end_held(&t, "IN of rank 1 is not mapped");
    begin(&t);
    wr_program_put_signal(&t.p[0], scratch(1, 0), scratch(0, 0), 1, GO);
    wr_program_wait(&t.p[1], 0, GO, 1);
    end_held(&t, "a put goes to another node");
    begin(&t);
    wr_program_copy(&t.p[0], scratch(0, 15), scratch(0, 0), 2);
    end_held(&t, "elements 15..17 of SCRATCH of rank 0, which has 16");
    begin(&t);
    wr_program_copy(&t.p[0], in(0), scratch(0, 0), 1);
    end_held(&t, "it writes IN of rank 0");
    begin(&t);
    wr_program_copy(&t.p[0], scratch(0, 0), scratch(0, 1), 2);
    end_held(&t, "its destination overlaps its source 0");
    begin(&t);
    wr_program_put_signal(&t.p[0], out(2, 0), in(0), 1, GO);
    t.s.root = 2;
    end_held(&t, "OUT of rank 2 cannot be put into");
    begin(&t);
    t.s.partial_size = 8;
    wr_program_put_signal(&t.p[0], scratch(2, 0), in(0), 1, GO);
    end_held(&t, "a put cannot convert");
}

/* ---- rank by rank ---- */

static int lost_rank = -1;

/* A right plan in which one rank has lost its last signal. */
static weir_status forgetful(const struct wr_plan_spec *spec, int rank, struct wr_program *p, weir_error *err)
{
    weir_status status = wr_algorithm_find(WR_COLL_ALLGATHER, "ring")->build(spec, rank, p, err);
    for (uint32_t i = p->nsteps; i-- > 0 && status == WEIR_OK && rank == lost_rank;)
        if (p->steps[i].op == WR_STEP_SIGNAL) {
            p->steps[i].slot = !p->steps[i].slot;
            break;
        }
    return status;
}

static bool always(const struct wr_plan_spec *spec)
{
    (void)spec;
    return true;
}

static void what_can_be_seen_of_each_rank_alone(void **state)
{
    (void)state;
    static const struct wr_algorithm algorithm = {"forgetful", WR_COLL_ALLGATHER, always, forgetful, NULL, 0};
    struct plan_world w;
    struct wr_verify_result all, one;
    weir_error err;
    plan_world_blocks(&w, 3, 2);
    struct wr_plan_spec s = {.coll = WR_COLL_ALLGATHER, .topo = &w.topo, .count = 7, .elem_size = 4, .partial_size = 4, .chunk = 2};
    lost_rank = -1;
    assert_ok(wr_verify(&s, &algorithm, &all, &err), &err);
    assert_ok(wr_verify_scan(&s, &algorithm, &one, &err), &err);
    assert_true(one.steps == all.steps && one.signals == all.signals && one.max_scratch == all.max_scratch);
    assert_true(one.local_bytes == all.local_bytes && one.network_bytes == all.network_bytes && one.refs == all.refs);
    assert_memory_equal(one.egress, all.egress, 3 * sizeof *one.egress);
    wr_verify_result_free(&all);
    wr_verify_result_free(&one);
    for (lost_rank = 0; lost_rank < 6; lost_rank++) {
        assert_int_equal(wr_verify_scan(&s, &algorithm, NULL, &err), WEIR_ERR_INTERNAL);
        assert_non_null(strstr(err.message, "do not wait for all signals"));
    }
    lost_rank = -1;
    plan_world_free(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_plans_pass), cmocka_unit_test(wrong_contents), cmocka_unit_test(wrong_sums),
        cmocka_unit_test(wrong_order),      cmocka_unit_test(wrong_time),     cmocka_unit_test(wrong_signals),
        cmocka_unit_test(wrong_places),     cmocka_unit_test(wrong_shapes),
        cmocka_unit_test(what_can_be_seen_of_each_rank_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
