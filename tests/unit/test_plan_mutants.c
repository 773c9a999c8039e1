/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The verifier against broken plans: each step of each program is dropped or changed, one at a time. All are
 * run on real numbers under hostile timing: random interleaving of lanes, puts that arrive in part, late, or
 * after puts that were issued later. A mutant that the verifier lets pass must always give the right numbers;
 * nearly all must be caught; and nearly all that it catches must give wrong numbers or hang in one of some runs
 * (what is left are races that need a timing of their own, and signals that nobody misses).
 */
#include "tests/unit/unit.h"

#include "tests/unit/plan_mutate.h"
#include "tests/unit/plan_run.h"

struct tally {
    unsigned tried, caught, equivalent, failed; /* failed: in execution */
};

/* Whether it gives wrong numbers or hangs in one of some runs. */
static bool fails_in_execution(const struct wr_plan_spec *s, const struct wr_program *programs)
{
    for (uint64_t seed = 1; seed <= 12; seed++)
        if (!plan_run(s, programs, seed))
            return true;
    return false;
}

static void try_mutant(const struct wr_plan_spec *s, const char *name, struct wr_program *programs, int rank,
                       uint32_t step, enum plan_mutation how, struct tally *t)
{
    struct wr_program whole = programs[rank];
    weir_error err;
    char words[256];
    plan_copy(&programs[rank], &whole, how == PLAN_DROP ? step : UINT32_MAX);
    if (how == PLAN_DROP || plan_mutate(&programs[rank], step, how, s->topo->nranks)) {
        t->tried++;
        if (wr_verify_programs(s, programs, NULL, &err) != WEIR_OK) {
            assert_true(err.message[0]);
            t->caught++;
            t->failed += fails_in_execution(s, programs);
        } else {
            t->equivalent++;
            for (uint64_t seed = 1; seed <= 6; seed++)
                if (!plan_run(s, programs, seed))
                    fail_msg(
                        "%s: mutation %d of step %u (op %d) of rank %d passes the verifier and gives wrong numbers",
                        plan_words(s, name, words), (int)how, step, whole.steps[step].op, rank);
        }
    }
    wr_program_free(&programs[rank]);
    programs[rank] = whole;
}

static void mutate_all(const struct wr_plan_spec *s, const struct wr_algorithm *a, struct tally *t)
{
    struct wr_program *programs;
    weir_error err;
    assert_ok(wr_programs_build(s, a, &programs, &err), &err);
    for (uint64_t seed = 1; seed <= 4; seed++)
        if (!plan_run(s, programs, seed))
            fail_msg("%s:%s gives wrong numbers", wr_collective_name(s->coll), a->name);
    for (int rank = 0; rank < s->topo->nranks; rank++)
        for (uint32_t i = 0; i < programs[rank].nsteps; i++)
            for (int how = 0; how < PLAN_MUTATIONS; how++)
                try_mutant(s, a->name, programs, rank, i, (enum plan_mutation)how, t);
    wr_programs_free(programs, s->topo->nranks);
}

static void mutants_of_a_machine(int nranks, int nnodes, const int *node_of, bool mapped, bool in_place)
{
    struct plan_world w;
    plan_world_init(&w, nranks, nnodes, node_of);
    for (int i = 0; wr_algorithms[i]; i++) {
        const struct wr_algorithm *a = wr_algorithms[i];
        struct tally t = {0};
        struct wr_plan_spec s = {.coll = a->coll,
                                 .topo = &w.topo,
                                 .count = 5,
                                 .elem_size = 8,
                                 .partial_size = 8,
                                 .chunk = 2,
                                 .in_mapped = mapped,
                                 .out_mapped = mapped,
                                 .in_place = in_place,
                                 .out_remote = true,
                                 .root = nranks - 1,
                                 .reduces = plan_reduces(a->coll)};
        if (!a->applies(&s))
            continue;
        mutate_all(&s, a, &t);
        if (t.equivalent * 8 > t.tried)
            fail_msg("too many mutants of %s:%s pass", wr_collective_name(a->coll), a->name);
        print_message("%s:%s: %u mutants, %u caught, %u of them fail in execution\n", wr_collective_name(a->coll), a->name, t.tried,
                      t.caught, t.failed);
        if (t.failed * 100 < t.caught * 75)
            fail_msg("too many mutants of %s:%s fail in the verifier only: %u of %u", wr_collective_name(a->coll), a->name,
                     t.caught - t.failed, t.caught);
    }
    plan_world_free(&w);
}

static void broken_plans_on_one_node(void **unused)
{
    (void)unused;
    static const int node_of[] = {0, 0, 0};
    mutants_of_a_machine(3, 1, node_of, true, false);
    mutants_of_a_machine(3, 1, node_of, false, true);
}

static void broken_plans_on_three_nodes(void **unused)
{
    (void)unused;
    static const int node_of[] = {0, 1, 1, 2};
    mutants_of_a_machine(4, 3, node_of, true, true);
    mutants_of_a_machine(4, 3, node_of, false, false);
}

/* Operands that change places are still a right plan, but another order of combination, and the verifier says so. */
static void the_order_of_combination_is_known(void **unused)
{
    (void)unused;
    static const int node_of[] = {0, 0, 0};
    struct plan_world w;
    struct wr_program *programs;
    struct wr_verify_result before, after;
    weir_error err;
    plan_world_init(&w, 3, 1, node_of);
    struct wr_plan_spec s =
        {.coll = WR_COLL_ALLREDUCE, .topo = &w.topo, .count = 5, .reduces = true, .elem_size = 8, .partial_size = 8};
    assert_ok(wr_programs_build(&s, wr_algorithm_find(s.coll, "latency"), &programs, &err), &err);
    assert_ok(wr_verify_programs(&s, programs, &before, &err), &err);
    assert_true(before.same_at_all);
    for (uint32_t i = 0; i < programs[1].nsteps; i++) {
        struct wr_ref *refs = programs[1].refs + programs[1].steps[i].first_ref, first;
        if (programs[1].steps[i].op != WR_STEP_REDUCE)
            continue;
        first = refs[1];
        refs[1] = refs[2];
        refs[2] = first;
    }
    assert_ok(wr_verify_programs(&s, programs, &after, &err), &err);
    assert_true(plan_run(&s, programs, 1));
    assert_false(after.same_at_all);
    assert_true(after.order != before.order);
    wr_verify_result_free(&before);
    wr_verify_result_free(&after);
    wr_programs_free(programs, 3);
    plan_world_free(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broken_plans_on_one_node),
        cmocka_unit_test(broken_plans_on_three_nodes),
        cmocka_unit_test(the_order_of_combination_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
