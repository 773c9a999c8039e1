/* SPDX-License-Identifier: BSD-3-Clause */
/* The proof by classes passes what the full one passes, and never what that one refuses. */
#include "tests/unit/unit.h"

#include "comm/plan/verify_impl.h"
#include "tests/unit/plan_mutate.h"
#include "tests/unit/plan_world.h"

static struct wr_plan_spec spec_of(const struct plan_world *w, const struct wr_algorithm *a, uint64_t share, bool mapped)
{
    uint64_t count = a->coll == WR_COLL_BARRIER ? 0 : a->coll == WR_COLL_ALLREDUCE ? share * (uint64_t)w->topo.nranks : share;
    return (struct wr_plan_spec){.coll = a->coll, .topo = &w->topo, .count = count, .in_mapped = mapped, .out_mapped = mapped,
                                 .out_remote = mapped, .reduces = plan_reduces(a->coll), .elem_size = 4, .partial_size = 4};
}

/* Which collectives look the same from all ranks. */
static bool has_classes(const struct wr_algorithm *a)
{
    bool named = !strcmp(a->name, "latency") || !strcmp(a->name, "linear"); /* these go by numbers of ranks */
    return !named && (a->coll == WR_COLL_BARRIER || a->coll == WR_COLL_ALLREDUCE || a->coll == WR_COLL_REDUCE_SCATTER ||
                      a->coll == WR_COLL_ALLGATHER || a->coll == WR_COLL_ALLTOALL);
}

static void same_bytes(const struct wr_verify_result *a, const struct wr_verify_result *b)
{
    assert_int_equal(a->network_bytes, b->network_bytes);
    assert_int_equal(a->local_bytes, b->local_bytes);
    for (int k = 0; k < a->nnodes; k++)
        assert_true(a->egress[k] == b->egress[k] && a->ingress[k] == b->ingress[k]);
}

/* nodes x ppn ranks, or ppn and `other` in turn. */
static void make_world(struct plan_world *w, int nodes, int ppn, int other)
{
    int node_of[256], n = 0;
    for (int k = 0; k < nodes; k++)
        for (int i = 0; i < (k % 2 ? other : ppn); i++)
            node_of[n++] = k;
    plan_world_init(w, n, nodes, node_of);
}

static void agrees_with_the_full_proof(void **unused)
{
    (void)unused;
    static const struct {
        int nodes, ppn, other, levels;
        uint64_t share, chunk;
    } cases[] = {{6, 3, 3, 0, 5, 0}, {8, 1, 1, 0, 7, 3}, {4, 2, 4, 0, 3, 0}, {8, 2, 2, 1, 9, 4}, {5, 4, 4, 0, 1, 0}};
    int by_classes = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int k = 0; wr_algorithms[k]; k++)
            for (int mapped = 0; mapped < 2; mapped++) {
                struct plan_world w;
                struct wr_verify_how how;
                struct wr_verify_result some, full;
                weir_error err;
                char words[256];
                make_world(&w, cases[i].nodes, cases[i].ppn, cases[i].other);
                w.topo.nlevels = cases[i].levels;
                struct wr_plan_spec s = spec_of(&w, wr_algorithms[k], cases[i].share, mapped);
                s.chunk = cases[i].chunk;
                if (wr_algorithms[k]->applies(&s)) {
                    assert_ok(wr_verify(&s, wr_algorithms[k], &full, &err), &err);
                    if (wr_verify_classes(&s, wr_algorithms[k], &how, &some, &err) != WEIR_OK)
                        fail_msg("%s: %s", plan_words(&s, wr_algorithms[k]->name, words), err.message);
                    same_bytes(&some, &full);
                    if (has_classes(wr_algorithms[k]) && how.shifts == 1 && !cases[i].levels && cases[i].ppn == cases[i].other)
                        fail_msg("%s: no classes", plan_words(&s, wr_algorithms[k]->name, words));
                    by_classes += how.shifts > 1;
                    assert_int_equal(how.compared, w.topo.nranks);
                    wr_verify_result_free(&some);
                    wr_verify_result_free(&full);
                }
                plan_world_free(&w);
            }
    assert_true(by_classes > 40);
}

/* Clocks that forget are enough, also without symmetry. */
static void sparse_clocks_are_enough(void **unused)
{
    (void)unused;
    uint64_t state = 5;
    for (int round = 0; round < 4; round++)
        for (int k = 0; wr_algorithms[k]; k++) {
            struct plan_world w;
            struct wr_program *p;
            weir_error err;
            char words[256];
            plan_world_random(&w, &state, 20 + round, 5);
            struct wr_plan_spec s = spec_of(&w, wr_algorithms[k], 40, round % 2);
            s.chunk = 9;
            s.root = round;
            if (wr_algorithms[k]->applies(&s)) {
                struct wr_verify_shape shape = {w.topo.nranks, 1};
                assert_ok(wr_programs_build(&s, wr_algorithms[k], &p, &err), &err);
                if (wr_verify_run(&s, p, &shape, true, NULL, &err) != WEIR_OK)
                    fail_msg("%s: %s", plan_words(&s, wr_algorithms[k]->name, words), err.message);
                wr_programs_free(p, w.topo.nranks);
            }
            plan_world_free(&w);
        }
}

/* ---- mutants: `target`'s program, or those of all ranks of its class, with one step dropped or changed ---- */

static struct mutation {
    const struct wr_algorithm *algorithm;
    enum plan_mutation how;
    int target, period; /* period 0: that rank alone */
    uint32_t step;
    bool happened;
} mutation;

static weir_status build_mutant(const struct wr_plan_spec *spec, int rank, struct wr_program *program, weir_error *err)
{
    struct mutation *m = &mutation;
    weir_status status = m->algorithm->build(spec, rank, program, err);
    if (status || (m->period ? rank % m->period != m->target : rank != m->target) || m->step >= program->nsteps)
        return status;
    if (m->how == PLAN_DROP) {
        struct wr_program less;
        plan_copy(&less, program, m->step);
        wr_program_free(program);
        *program = less;
        m->happened = true;
    } else if (plan_mutate(program, m->step, m->how, spec->topo->nranks)) {
        m->happened = true;
    }
    return WEIR_OK;
}

static void finds_what_the_full_proof_finds(void **unused)
{
    (void)unused;
    struct plan_world w;
    uint64_t state = 3;
    int mutants = 0, refused = 0, symmetric = 0;
    plan_world_blocks(&w, 4, 3);
    for (int k = 0; wr_algorithms[k]; k++)
        for (int i = 0; i < 24; i++) {
            struct wr_plan_spec s = spec_of(&w, wr_algorithms[k], 6, i % 2);
            struct wr_algorithm mutant = *wr_algorithms[k];
            struct wr_verify_how how;
            weir_error err;
            char words[256];
            s.chunk = 4;
            if (!wr_algorithms[k]->applies(&s) || !has_classes(wr_algorithms[k]))
                continue;
            mutation = (struct mutation){.algorithm = wr_algorithms[k], .how = (enum plan_mutation)(i % PLAN_MUTATIONS),
                                         .period = i % 3 ? 3 : 0, .step = plan_random(&state, 30)};
            mutation.target = (int)plan_random(&state, mutation.period ? 3 : 12);
            mutant.build = build_mutant;
            bool full = wr_verify(&s, &mutant, NULL, &err) == WEIR_OK, some = wr_verify_classes(&s, &mutant, &how, NULL, &err) == WEIR_OK;
            if (some && !full)
                fail_msg("%s: mutation %d of step %u of rank %d, period %d, was passed", plan_words(&s, mutant.name, words), i % PLAN_MUTATIONS,
                         mutation.step, mutation.target, mutation.period);
            mutants += mutation.happened;
            refused += mutation.happened && !some;
            symmetric += mutation.happened && !some && mutation.period;
        }
    if (mutants < 100 || refused < 0.8 * mutants || symmetric < 50)
        fail_msg("of %d mutants %d were refused, %d of them symmetric", mutants, refused, symmetric);
    plan_world_free(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_the_full_proof),
        cmocka_unit_test(sparse_clocks_are_enough),
        cmocka_unit_test(finds_what_the_full_proof_finds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
