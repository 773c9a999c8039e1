/* SPDX-License-Identifier: BSD-3-Clause */
/* Every algorithm is right for every machine: the symbolic proof, over sizes, placements and kinds of memory. */
#include "tests/unit/unit.h"

#include "tests/unit/plan_world.h"

/* How a collective may be asked for; small numbers, so that all chunks and edges occur. */
static void random_spec(struct wr_plan_spec *s, uint64_t *state, const struct plan_world *w,
                        const struct wr_algorithm *a, uint64_t *counts, uint64_t *offsets)
{
    bool v_form = a->coll == WR_COLL_REDUCE_SCATTER || a->coll == WR_COLL_ALLGATHER || a->coll == WR_COLL_GATHER ||
                  a->coll == WR_COLL_SCATTER;
    memset(s, 0, sizeof *s);
    s->coll = a->coll;
    s->topo = &w->topo;
    s->root = (int)plan_random(state, (unsigned)w->topo.nranks);
    s->count = plan_random(state, 12);
    s->reduces = plan_reduces(a->coll);
    s->in_place = plan_random(state, 2);
    s->in_mapped = plan_random(state, 2);
    s->out_mapped = plan_random(state, 2);
    if (s->in_place)
        s->in_mapped = s->out_mapped;
    s->out_shared = a->coll == WR_COLL_ALLGATHER && plan_random(state, 4) == 0;
    if (s->out_shared)
        s->out_mapped = true;
    if (s->out_shared && s->in_place)
        s->in_mapped = true;
    s->out_remote = plan_random(state, 2);
    s->elem_size = 4;
    s->partial_size = s->reduces && plan_random(state, 2) ? 8 : 4;
    s->chunk = plan_random(state, 5);
    s->rails = (int)plan_random(state, 4);
    if (a->coll == WR_COLL_ALLTOALL && plan_random(state, 2)) {
        for (int i = 0; i < w->topo.nranks * w->topo.nranks; i++)
            counts[i] = plan_random(state, 3) ? plan_random(state, 9) : 0;
        s->counts = counts;
    }
    if (v_form && plan_random(state, 2)) {
        plan_counts(state, w->topo.nranks, 12, counts, offsets);
        s->counts = counts;
        s->offsets = offsets;
    }
}

static void verify_random(const struct wr_algorithm *a, uint64_t *state, const struct plan_world *w)
{
    uint64_t counts[64 * 64], offsets[65];
    struct wr_plan_spec s;
    weir_error err;
    char words[256];
    random_spec(&s, state, w, a, counts, offsets);
    if (!a->applies(&s))
        return;
    struct wr_verify_result result;
    if (wr_verify(&s, a, &result, &err) != WEIR_OK)
        fail_msg("%s: %s", plan_words(&s, a->name, words), err.message);
    if (!result.same_at_all && a->coll == WR_COLL_ALLREDUCE)
        fail_msg("%s: ranks combine in different orders", plan_words(&s, a->name, words));
    wr_verify_result_free(&result);
}

static void all_algorithms_on_one_node(void **unused)
{
    (void)unused;
    uint64_t state = 1;
    for (int n = 1; n <= 40; n++) {
        struct plan_world w;
        plan_world_blocks(&w, 1, n);
        for (int i = 0; wr_algorithms[i]; i++)
            for (int k = 0; k < (n < 10 ? 24 : 4); k++)
                verify_random(wr_algorithms[i], &state, &w);
        plan_world_free(&w);
    }
}

static void all_algorithms_on_random_machines(void **unused)
{
    (void)unused;
    uint64_t state = 2;
    for (int k = 0; k < 250; k++) {
        struct plan_world w;
        int nranks = 2 + (int)plan_random(&state, k % 5 ? 11 : 39), nnodes = 2 + (int)plan_random(&state, 7);
        plan_world_random(&w, &state, nranks, nnodes > nranks ? nranks : nnodes);
        for (int i = 0; wr_algorithms[i]; i++)
            for (int j = 0; j < 2; j++)
                verify_random(wr_algorithms[i], &state, &w);
        plan_world_free(&w);
    }
}

/* With WEIR_REPRODUCIBLE every element is combined in the same order whatever the machine and the algorithm. */
static void reproducible_results_do_not_depend_on_the_machine(void **unused)
{
    (void)unused;
    static const enum wr_collective colls[] = {WR_COLL_REDUCE, WR_COLL_ALLREDUCE, WR_COLL_REDUCE_SCATTER, WR_COLL_SCAN};
    uint64_t state = 3, want[4] = {0};
    for (int k = 0; k < 30; k++) {
        struct plan_world w;
        plan_world_random(&w, &state, 9, 1 + k % 5);
        for (int i = 0; wr_algorithms[i]; i++)
            for (int c = 0; c < 4; c++) {
                struct wr_plan_spec s = {.coll = colls[c],
                                         .topo = &w.topo,
                                         .count = 7,
                                         .reduces = true,
                                         .reproducible = true,
                                         .in_mapped = k % 2,
                                         .elem_size = 2,
                                         .partial_size = 4,
                                         .chunk = k % 4};
                struct wr_verify_result result;
                weir_error err;
                if (wr_algorithms[i]->coll != colls[c] || !wr_algorithms[i]->applies(&s))
                    continue;
                assert_ok(wr_verify(&s, wr_algorithms[i], &result, &err), &err);
                want[c] = want[c] ? want[c] : result.order;
                assert_true(result.order && result.order == want[c]);
                wr_verify_result_free(&result);
            }
        plan_world_free(&w);
    }
}

/* Builds a rank's program from what that rank alone knows of the counts. */
static void build_local(const struct wr_plan_spec *all, int rank, struct wr_program *p)
{
    uint64_t to[16], to_at[16], from[16], from_at[16], none[17] = {0}, own[16] = {0};
    int n = all->topo->nranks;
    struct wr_plan_pairs pairs = {to, to_at, from, from_at};
    struct wr_plan_spec s = *all;
    weir_error err;
    s.local = true;
    if (all->coll == WR_COLL_ALLTOALL) {
        for (int q = 0; q < n; q++) {
            to[q] = all->counts[rank * n + q];
            from[q] = all->counts[q * n + rank];
            to_at[q] = q ? to_at[q - 1] + to[q - 1] : 0;
            from_at[q] = q ? from_at[q - 1] + from[q - 1] : 0;
        }
        s.pairs = &pairs;
        s.counts = NULL;
    } else if (rank != s.root) {
        own[rank] = all->counts[rank];
        s.counts = own;
        s.offsets = none;
    }
    const struct wr_algorithm *a = wr_algorithm_find(s.coll, "pairwise");
    assert_ok(a->build(&s, rank, p, &err), &err);
}

/* Programs of which each was built with the counts that its rank knows are a valid plan for the counts of all. */
static void local_counts_are_enough(void **unused)
{
    (void)unused;
    static const enum wr_collective colls[] = {WR_COLL_GATHER, WR_COLL_SCATTER, WR_COLL_ALLTOALL};
    uint64_t state = 5;
    for (int k = 0; k < 60; k++) {
        uint64_t counts[16 * 16], offsets[16 * 16 + 1];
        struct wr_program programs[16];
        struct plan_world w;
        weir_error err;
        plan_world_random(&w, &state, 7, 1 + (int)plan_random(&state, 4));
        int n = w.topo.nranks;
        bool all = k % 3 == 2;
        plan_counts(&state, all ? n * n : n, 30, counts, offsets);
        struct wr_plan_spec s = {.coll = colls[k % 3],
                                 .topo = &w.topo,
                                 .root = all ? 0 : (int)plan_random(&state, (unsigned)n),
                                 .counts = counts,
                                 .offsets = all ? NULL : offsets,
                                 .chunk = 4,
                                 .elem_size = 1,
                                 .partial_size = 1};
        for (int r = 0; r < n; r++)
            build_local(&s, r, &programs[r]);
        assert_ok(wr_verify_programs(&s, programs, NULL, &err), &err);
        for (int r = 0; r < n; r++)
            wr_program_free(&programs[r]);
        plan_world_free(&w);
    }
}

/* For every machine and every way of asking there is an algorithm. */
static void every_call_is_served(void **unused)
{
    (void)unused;
    uint64_t state = 4;
    for (int k = 0; k < 400; k++) {
        uint64_t counts[64 * 64], offsets[65];
        struct plan_world w;
        struct wr_plan_spec s;
        plan_world_random(&w, &state, 6, 1 + (int)plan_random(&state, 6));
        for (int coll = 0; coll < WR_COLL_COUNT; coll++) {
            const struct wr_algorithm any = {.coll = (enum wr_collective)coll};
            bool served = false;
            random_spec(&s, &state, &w, &any, counts, offsets);
            s.reproducible = plan_random(&state, 2);
            s.in_place = s.in_place && coll != WR_COLL_SCATTER && coll != WR_COLL_ALLTOALL;
            for (int i = 0; wr_algorithms[i]; i++)
                served = served || ((int)wr_algorithms[i]->coll == coll && wr_algorithms[i]->applies(&s));
            assert_true(served);
        }
        plan_world_free(&w);
    }
    assert_non_null(wr_algorithm_find(WR_COLL_ALLGATHER, "hier"));
    assert_null(wr_algorithm_find(WR_COLL_ALLGATHER, "none"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_algorithms_on_one_node),
        cmocka_unit_test(all_algorithms_on_random_machines),
        cmocka_unit_test(reproducible_results_do_not_depend_on_the_machine),
        cmocka_unit_test(local_counts_are_enough),
        cmocka_unit_test(every_call_is_served),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
