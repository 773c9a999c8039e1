/* SPDX-License-Identifier: BSD-3-Clause */
/* The simulator agrees with closed forms, with itself under symmetry, and with what physics allows. */
#include "tests/unit/unit.h"

#include <math.h>

#include "comm/plan/simulate.h"
#include "tests/unit/plan_world.h"

/* Simple numbers: 1 GB/s, so that a byte is a nanosecond. */
static struct wr_cost plain_cost(void)
{
    struct wr_cost c;
    wr_cost_default(&c);
    weir_error err;
    assert_ok(wr_cost_set(&c, "step=1,flag=10,copy=0.5,reduce=0.25,memory=1000000,overhead=100,latency=1000,gap=7,bandwidth=1,ack=0", &err),
              &err);
    return c;
}

static void near(double got, double want)
{
    if (got < want - 1e-3 || got > want + 1e-3)
        fail_msg("%.6f instead of %.6f", got, want);
}

static struct wr_plan_spec spec_of(const struct plan_world *w, enum wr_collective coll, uint64_t count)
{
    return (struct wr_plan_spec){.coll = coll, .topo = &w->topo, .count = count, .in_mapped = true, .out_mapped = true,
                                 .reduces = coll == WR_COLL_REDUCE_SCATTER || coll == WR_COLL_ALLREDUCE || coll == WR_COLL_REDUCE ||
                                            coll == WR_COLL_SCAN || coll == WR_COLL_EXSCAN,
                                 .elem_size = 4, .partial_size = 4};
}

static struct wr_sim_result simulate(const struct wr_plan_spec *s, const struct wr_algorithm *a, const struct wr_cost *c, int classes)
{
    struct wr_sim_options o = {.classes = classes};
    struct wr_sim_result r;
    weir_error err;
    char words[256];
    if (wr_simulate(s, a, c, &o, &r, &err) != WEIR_OK)
        fail_msg("%s: %s", plan_words(s, a->name, words), err.message);
    return r;
}

/* Rank i of n, each on its own node, passes `bytes` bytes on to rank i + 1. */
static double chain(int n, uint64_t len, const struct wr_cost *c)
{
    struct plan_world w;
    struct wr_program *p = calloc((size_t)n, sizeof *p);
    struct wr_sim_result r;
    weir_error err;
    plan_world_blocks(&w, n, 1);
    struct wr_plan_spec s = spec_of(&w, WR_COLL_BCAST, len);
    for (int i = 0; i < n; i++) {
        wr_program_init(&p[i], i);
        if (i)
            wr_program_wait(&p[i], i - 1, 0, 1);
        if (i < n - 1)
            wr_program_put_signal(&p[i], wr_ref(i + 1, WR_BUF_OUT, 0), wr_ref(i, WR_BUF_OUT, 0), len, 0);
        assert_ok(wr_program_finish(&p[i], &err), &err);
    }
    assert_ok(wr_simulate_programs(&s, p, c, NULL, &r, &err), &err);
    for (int i = 0; i < n; i++)
        wr_program_free(&p[i]);
    free(p);
    plan_world_free(&w);
    return r.time;
}

static void puts_have_a_closed_form(void **unused)
{
    (void)unused;
    struct wr_cost c = plain_cost();
    /* overhead, gap, latency, the gap at the receiver, bytes, overhead there */
    near(chain(2, 1000, &c), 100 + 7 + 1000 + 7 + 4000 + 100);
    near(chain(6, 1000, &c), 5 * (100 + 7 + 1000 + 7 + 4000 + 100));
    /* in pieces, of which the gap delays the first alone: the same */
    near(chain(2, 1000000, &c), 100 + 7 + 1000 + 7 + 4000000 + 100);
    assert_ok(wr_cost_set(&c, "latency=0,overhead=0,gap=0", NULL), &(weir_error){0});
    near(chain(3, 1000, &c), 2 * 4000);
}

/* After a copy of 4,000 bytes each hop puts, notices and combines two operands; credits (100 ns) may come in between. */
static void rings_have_a_closed_form(void **unused)
{
    (void)unused;
    struct wr_cost c = plain_cost();
    const double hop = (1 + 0.25 * 8000) + (100 + 7 + 1000 + 7 + 4000 + 100), copy = 1 + 0.5 * 4000;
    for (int n = 3; n <= 12; n++) {
        struct plan_world w;
        plan_world_blocks(&w, n, 1);
        struct wr_plan_spec s = spec_of(&w, WR_COLL_REDUCE_SCATTER, 1000);
        double time = simulate(&s, wr_algorithm_find(s.coll, "ring"), &c, -1).time;
        if (time < copy + (n - 1) * hop || time > copy + (n - 1) * (hop + 100) + 200)
            fail_msg("%.1f ns for %d ranks, a hop being %.1f", time, n, hop);
        plan_world_free(&w);
    }
}

/* The k-th algorithm that serves the spec, or NULL. */
static const struct wr_algorithm *serving(struct wr_plan_spec *s, int k)
{
    const struct wr_algorithm *a = wr_algorithms[k];
    s->coll = a->coll;
    s->reduces = spec_of(&(struct plan_world){0}, a->coll, 0).reduces;
    return a->applies(s) ? a : NULL;
}

static void classes_give_what_a_full_run_gives(void **unused)
{
    (void)unused;
    struct wr_cost c;
    wr_cost_default(&c);
    int used = 0;
    for (int levels = 0; levels < 2; levels++) {
        struct plan_world w;
        plan_world_blocks(&w, 8, 3);
        w.topo.nlevels = levels;
        c.uplink[0] = levels ? 9 : 0;
        for (int k = 0; wr_algorithms[k]; k++) {
            struct wr_plan_spec s = spec_of(&w, WR_COLL_BARRIER, 24 * 700);
            s.chunk = 300;
            const struct wr_algorithm *a = serving(&s, k);
            if (!a)
                continue;
            struct wr_sim_result full = simulate(&s, a, &c, -1), some = simulate(&s, a, &c, 1);
            used += some.method == WR_SIM_CLASSES;
            assert_true(full.method == WR_SIM_FULL);
            near(some.time, full.time);
            near(some.first, full.first);
            near(some.out_busy, full.out_busy);
            near(some.memory_busy, full.memory_busy);
            assert_memory_equal(some.bytes, full.bytes, sizeof full.bytes);
            assert_int_equal(some.max_egress, full.max_egress);
        }
        plan_world_free(&w);
    }
    assert_true(used >= 8);
}

static void never_faster_than_the_bound_and_growing(void **unused)
{
    (void)unused;
    struct wr_cost c;
    wr_cost_default(&c);
    uint64_t state = 11;
    for (int round = 0; round < 12; round++) {
        struct plan_world w;
        int nranks = 1 + (int)plan_random(&state, 24), nnodes = 1 + (int)plan_random(&state, 6);
        plan_world_random(&w, &state, nranks, nnodes > nranks ? nranks : nnodes);
        c.rails = 1 + round % 3;
        for (int k = 0; wr_algorithms[k]; k++) {
            double before = 0;
            for (uint64_t count = 0; count < 400000; count = count * 8 + 5) {
                struct wr_plan_spec s = spec_of(&w, WR_COLL_BARRIER, count);
                char words[256];
                s.root = round % nranks;
                s.partial_size = round & 1 ? 4 : 2;
                s.elem_size = round & 1 ? 4 : 2;
                const struct wr_algorithm *a = serving(&s, k);
                if (!a)
                    continue;
                struct wr_sim_result r = simulate(&s, a, &c, -1);
                if (r.time < r.bound)
                    fail_msg("%s: %.1f ns, the bound is %.1f", plan_words(&s, a->name, words), r.time, r.bound);
                /* another cut into chunks may save a little */
                if (r.time < 0.9 * before)
                    fail_msg("%s: %.1f ns, and %.1f for fewer bytes", plan_words(&s, a->name, words), r.time, before);
                before = r.time;
            }
        }
        plan_world_free(&w);
    }
}

/* The same programs by other numbers of ranks and nodes. */
static void names_of_ranks_do_not_matter(void **unused)
{
    (void)unused;
    enum { N = 12, NODES = 4 };
    int node_of[N];
    struct plan_world w, v;
    struct wr_program *p;
    struct wr_cost c;
    struct wr_sim_result a, b;
    weir_error err;
    wr_cost_default(&c);
    plan_world_blocks(&w, NODES, N / NODES);
    for (int r = 0; r < N; r++)
        node_of[r] = (N - 1 - r) * NODES / N;
    plan_world_init(&v, N, NODES, node_of);
    struct wr_plan_spec s = spec_of(&w, WR_COLL_REDUCE_SCATTER, 5000), t = spec_of(&v, WR_COLL_REDUCE_SCATTER, 5000);
    assert_ok(wr_programs_build(&s, wr_algorithm_find(s.coll, "ring"), &p, &err), &err);
    assert_ok(wr_simulate_programs(&s, p, &c, NULL, &a, &err), &err);
    for (int r = 0; r < N; r++) {
        for (uint32_t i = 0; i < p[r].nsteps; i++)
            p[r].steps[i].peer = N - 1 - p[r].steps[i].peer;
        for (uint32_t i = 0; i < p[r].nrefs; i++)
            p[r].refs[i].rank = N - 1 - p[r].refs[i].rank;
    }
    for (int r = 0; r < N / 2; r++) {
        struct wr_program q = p[r];
        p[r] = p[N - 1 - r];
        p[N - 1 - r] = q;
    }
    for (int r = 0; r < N; r++)
        p[r].rank = r;
    assert_ok(wr_simulate_programs(&t, p, &c, NULL, &b, &err), &err);
    assert_true(b.time > 0.99 * a.time && b.time < 1.01 * a.time); /* who is first of two at once depends on names */
    assert_memory_equal(a.bytes, b.bytes, sizeof a.bytes);
    wr_programs_free(p, N);
    plan_world_free(&w);
    plan_world_free(&v);
}

/* A long run as the line through two shorter ones: close to what it really takes. */
static void lines_are_close(void **unused)
{
    (void)unused;
    struct wr_cost c;
    wr_cost_default(&c);
    static const struct {
        enum wr_collective coll;
        const char *name;
        int nodes;
        uint64_t count, chunk, max_steps;
        double tolerance;
    } cases[] = {
        {WR_COLL_REDUCE_SCATTER, "hier", 6, 100 * 500 + 17, 500, 9000, 0.05},
        {WR_COLL_ALLREDUCE, "hier", 6, 12 * 100 * 500, 500, 20000, 0.05},
        {WR_COLL_BCAST, "chain", 6, 1000 * 5000, 5000, 20000, 0.01},
        {WR_COLL_BCAST, "chain", 16, 1000 * 8192, 8192, 30000, 0.01},
        {WR_COLL_BCAST, "chain", 24, 700 * 8192, 8192, 30000, 0.05},
        {WR_COLL_REDUCE_SCATTER, "ring", 512, 1000, 0, 8000, 0.05},
        {WR_COLL_ALLGATHER, "ring", 512, 1000, 0, 8000, 0.05},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct plan_world w;
        plan_world_blocks(&w, cases[i].nodes, 2);
        struct wr_plan_spec s = spec_of(&w, cases[i].coll, cases[i].count);
        s.chunk = cases[i].chunk;
        s.in_place = s.coll == WR_COLL_BCAST; /* as they are called */
        const struct wr_algorithm *a = wr_algorithm_find(s.coll, cases[i].name);
        struct wr_sim_options o = {.max_steps = cases[i].max_steps, .classes = cases[i].nodes < 100 ? -1 : 0};
        struct wr_sim_result fit, full = simulate(&s, a, &c, 0);
        weir_error err;
        assert_ok(wr_simulate(&s, a, &c, &o, &fit, &err), &err);
        if (fit.method != WR_SIM_FIT || !strstr(fit.how, "closed form"))
            fail_msg("case %zu was done as %s", i, fit.how);
        if (fabs(fit.time / full.time - 1) > cases[i].tolerance)
            fail_msg("case %zu: %.1f ns by %s, %.1f in full", i, fit.time, fit.how, full.time);
        plan_world_free(&w);
    }
}

/* While a lane waits for acknowledgements the core serves the others: a broadcast along a chain fills the interfaces. */
static void a_chain_keeps_the_network_busy(void **unused)
{
    (void)unused;
    struct plan_world w;
    struct wr_cost c;
    wr_cost_default(&c);
    plan_world_blocks(&w, 8, 2);
    struct wr_plan_spec s = spec_of(&w, WR_COLL_BCAST, 64 * 8192);
    const struct wr_algorithm *a = wr_algorithm_find(s.coll, "chain");
    s.chunk = 8192;
    s.in_place = true;
    double little = simulate(&s, a, &c, 0).time, more;
    s.count *= 2;
    more = simulate(&s, a, &c, 0).time;
    double each = 8192 * s.elem_size / c.bandwidth + c.gap;
    if (more - little > 1.05 * 64 * each)
        fail_msg("64 chunks more take %.0f ns, on the wire %.0f", more - little, 64 * each);
    plan_world_free(&w);
}

static double time_of(int nodes, int ppn, uint64_t count, enum wr_collective coll, const char *name)
{
    struct plan_world w;
    struct wr_cost c;
    wr_cost_default(&c);
    plan_world_blocks(&w, nodes, ppn);
    struct wr_plan_spec s = spec_of(&w, coll, count);
    double time = simulate(&s, wr_algorithm_find(coll, name), &c, 0).time;
    plan_world_free(&w);
    return time;
}

/* The time of the algorithm that would be chosen. */
static double best_time(int nodes, int ppn, enum wr_collective coll, uint64_t count)
{
    struct wr_cost c;
    struct plan_world w;
    double best = 0;
    wr_cost_default(&c);
    plan_world_blocks(&w, nodes, ppn);
    struct wr_plan_spec s = spec_of(&w, coll, count);
    for (int i = 0; wr_algorithms[i]; i++)
        if (wr_algorithms[i]->coll == coll && wr_algorithms[i]->applies(&s)) {
            double t = simulate(&s, wr_algorithms[i], &c, 0).time;
            best = best == 0 || t < best ? t : best;
        }
    plan_world_free(&w);
    return best;
}

static void allreduce_is_not_slower_than_reduce_and_broadcast(void **unused)
{
    (void)unused;
    static const int nodes[] = {1, 2, 5, 16}, ppn[] = {2, 4};
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++)
        for (size_t k = 0; k < sizeof ppn / sizeof *ppn; k++)
            for (uint64_t count = 1; count <= 1 << 20; count *= 1024) {
                double whole = best_time(nodes[i], ppn[k], WR_COLL_ALLREDUCE, count),
                       parts = best_time(nodes[i], ppn[k], WR_COLL_REDUCE, count) + best_time(nodes[i], ppn[k], WR_COLL_BCAST, count);
                if (whole > parts)
                    fail_msg("all-reduce of %llu on %d nodes of %d takes %.0f ns, reduce and broadcast %.0f", (unsigned long long)count,
                             nodes[i], ppn[k], whole, parts);
            }
}

static void hierarchies_win_and_there_are_no_cliffs(void **unused)
{
    (void)unused;
    assert_true(time_of(64, 16, 16384, WR_COLL_REDUCE_SCATTER, "hier") * 1.5 < time_of(64, 16, 16384, WR_COLL_REDUCE_SCATTER, "ring"));
    assert_true(time_of(64, 16, 16384, WR_COLL_ALLGATHER, "hier") < time_of(64, 16, 16384, WR_COLL_ALLGATHER, "ring"));
    static const struct {
        enum wr_collective coll;
        const char *name;
    } forms[] = {{WR_COLL_REDUCE_SCATTER, "hier"}, {WR_COLL_ALLGATHER, "hier"}, {WR_COLL_REDUCE_SCATTER, "bruck"},
                 {WR_COLL_ALLGATHER, "bruck"}};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        double t127 = time_of(127, 4, 512, forms[i].coll, forms[i].name), t128 = time_of(128, 4, 512, forms[i].coll, forms[i].name),
               t129 = time_of(129, 4, 512, forms[i].coll, forms[i].name);
        if (t127 > 1.1 * t128 || t129 > 1.1 * t128 || t128 > 1.1 * t127)
            fail_msg("%s:%s takes %.0f, %.0f and %.0f ns on 127, 128 and 129 nodes", wr_collective_name(forms[i].coll), forms[i].name,
                     t127, t128, t129);
    }
}

/* 131,072 ranks. */
static void a_hundred_thousand_ranks(void **unused)
{
    (void)unused;
    struct plan_world w;
    struct wr_cost c;
    wr_cost_default(&c);
    plan_world_blocks(&w, 2048, 64);
    struct wr_plan_spec s = spec_of(&w, WR_COLL_REDUCE_SCATTER, 256);
    struct wr_sim_result hier = simulate(&s, wr_algorithm_find(s.coll, "hier"), &c, 0);
    assert_int_equal(hier.method, WR_SIM_CLASSES);
    assert_int_equal(hier.max_egress, (131072 - 64) * 256ull * 4);
    assert_int_equal(hier.bytes[1], 2048ull * (131072 - 64) * 256 * 4);
    assert_true(hier.time >= hier.bound);
    plan_world_free(&w);
}

static void plans_that_do_not_end_and_wrong_costs(void **unused)
{
    (void)unused;
    struct plan_world w;
    struct wr_program p[2];
    struct wr_cost c;
    struct wr_sim_result r;
    weir_error err;
    wr_cost_default(&c);
    plan_world_blocks(&w, 2, 1);
    struct wr_plan_spec s = spec_of(&w, WR_COLL_BARRIER, 0);
    for (int i = 0; i < 2; i++) {
        wr_program_init(&p[i], i);
        wr_program_wait(&p[i], 1 - i, 0, 1);
        wr_program_signal(&p[i], 1 - i, 0);
        assert_ok(wr_program_finish(&p[i], &err), &err);
    }
    assert_int_equal(wr_simulate_programs(&s, p, &c, NULL, &r, &err), WEIR_ERR_INTERNAL);
    assert_non_null(strstr(err.message, "rank 0, lane 0 waits for signal 1 from rank 1"));
    for (int i = 0; i < 2; i++)
        wr_program_free(&p[i]);
    static const char *const wrong[] = {"latency", "latency=", "latency=x", "latencies=3", "bandwidth=0", "rails=0", "hop9=1", "uplink0=-1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(wr_cost_set(&c, wrong[i], &err), WEIR_ERR_INVALID);
    assert_ok(wr_cost_set(&c, "hop=5,uplink1=12.5,rails=4", &err), &err);
    assert_true(c.hop[7] == 5 && c.uplink[1] == 12.5 && c.uplink[0] == 0 && c.rails == 4);
    plan_world_free(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(puts_have_a_closed_form),
        cmocka_unit_test(rings_have_a_closed_form),
        cmocka_unit_test(classes_give_what_a_full_run_gives),
        cmocka_unit_test(never_faster_than_the_bound_and_growing),
        cmocka_unit_test(names_of_ranks_do_not_matter),
        cmocka_unit_test(lines_are_close),
        cmocka_unit_test(a_chain_keeps_the_network_busy),
        cmocka_unit_test(allreduce_is_not_slower_than_reduce_and_broadcast),
        cmocka_unit_test(hierarchies_win_and_there_are_no_cliffs),
        cmocka_unit_test(a_hundred_thousand_ranks),
        cmocka_unit_test(plans_that_do_not_end_and_wrong_costs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
