/* SPDX-License-Identifier: BSD-3-Clause */
/* The hierarchical algorithms move no more between nodes than they must, in memory that is bounded; and large
 * machines are proven in full. */
#include "tests/unit/unit.h"

#include "tests/unit/plan_world.h"

/* Reduce-scatter sends S - B_n out of node n; all-gather receives S - B_n. */
static void check_bounds(const struct wr_plan_spec *s, const char *name)
{
    const struct wr_algorithm *a = wr_algorithm_find(s->coll, name);
    struct wr_verify_result result;
    weir_error err;
    char words[256];
    if (wr_verify(s, a, &result, &err) != WEIR_OK)
        fail_msg("%s: %s", plan_words(s, name, words), err.message);
    for (int node = 0; node < s->topo->nnodes; node++) {
        uint64_t bound = wr_plan_total(s);
        for (int i = 0; i < s->topo->node_size[node]; i++)
            bound -= wr_plan_share(s, s->topo->node_ranks[node][i]);
        uint64_t moved = s->coll == WR_COLL_REDUCE_SCATTER ? result.egress[node] : result.ingress[node];
        if (moved != bound * s->partial_size)
            fail_msg("%s: node %d moves %llu bytes, the bound is %llu", plan_words(s, name, words), node,
                     (unsigned long long)moved, (unsigned long long)(bound * s->partial_size));
    }
    wr_verify_result_free(&result);
}

static void check_both(const struct plan_world *w, uint64_t *state)
{
    uint64_t counts[64], offsets[65];
    struct wr_plan_spec s = {.coll = WR_COLL_REDUCE_SCATTER,
                             .topo = &w->topo,
                             .count = 1 + plan_random(state, 20),
                             .reduces = true,
                             .in_mapped = true,
                             .elem_size = 2,
                             .partial_size = 4,
                             .chunk = 1 + plan_random(state, 9),
                             .rails = (int)plan_random(state, 4)};
    if (plan_random(state, 2)) {
        plan_counts(state, w->topo.nranks, 20, counts, offsets);
        s.counts = counts;
        s.offsets = offsets;
    }
    check_bounds(&s, "hier");
    s.coll = WR_COLL_ALLGATHER;
    s.reduces = false;
    s.partial_size = s.elem_size;
    check_bounds(&s, "hier");
    s.out_shared = s.out_mapped = s.out_remote = true;
    check_bounds(&s, "hier");
    check_bounds(&s, "hier_put");
}

static void nodes_move_only_what_they_must(void **unused)
{
    (void)unused;
    static const int unequal[] = {0, 1, 1, 1, 1, 2, 2}, cyclic[] = {0, 1, 2, 3, 0, 1, 2, 3};
    uint64_t state = 7;
    struct plan_world w;
    plan_world_init(&w, 7, 3, unequal);
    check_both(&w, &state);
    plan_world_free(&w);
    plan_world_init(&w, 8, 4, cyclic);
    check_both(&w, &state);
    plan_world_free(&w);
    for (int k = 0; k < 60; k++) {
        int nranks = 2 + (int)plan_random(&state, 30), nnodes = 2 + (int)plan_random(&state, 7);
        plan_world_random(&w, &state, nranks, nnodes > nranks ? nranks : nnodes);
        check_both(&w, &state);
        plan_world_free(&w);
    }
}

/* With switches, a group of nodes sends no more than it must either: chains visit the groups one after the other. */
static void groups_move_only_what_they_must(void **unused)
{
    (void)unused;
    uint64_t state = 11;
    for (int k = 0; k < 20; k++) {
        struct plan_world w;
        struct wr_program *programs;
        weir_error err;
        uint64_t out[4] = {0}, own[4] = {0};
        plan_world_random(&w, &state, 8 + (int)plan_random(&state, 16), 8);
        w.topo.nlevels = 1;
        for (int i = 0; i < 8; i++)
            w.group[i] = i % 4; /* not neighbours in the order of nodes */
        struct wr_plan_spec s = {.coll = WR_COLL_REDUCE_SCATTER,
                                 .topo = &w.topo,
                                 .count = 6,
                                 .reduces = true,
                                 .in_mapped = true,
                                 .elem_size = 4,
                                 .partial_size = 4,
                                 .chunk = 4};
        assert_ok(wr_programs_build(&s, wr_algorithm_find(s.coll, "hier"), &programs, &err), &err);
        for (int r = 0; r < w.topo.nranks; r++) {
            int group = w.group[w.node_of[r]];
            own[group] += s.count;
            for (uint32_t i = 0; i < programs[r].nsteps; i++)
                if (programs[r].steps[i].op == WR_STEP_PUT && w.group[w.node_of[programs[r].steps[i].peer]] != group)
                    out[group] += programs[r].steps[i].len;
        }
        for (int g = 0; g < 4; g++)
            assert_int_equal(out[g], wr_plan_total(&s) - own[g]);
        wr_programs_free(programs, w.topo.nranks);
        plan_world_free(&w);
    }
}

/* SCRATCH does not grow with the vector, but for the algorithms that are meant for small ones. */
static void scratch_is_bounded(void **unused)
{
    (void)unused;
    struct plan_world w[2];
    plan_world_blocks(&w[0], 1, 3);
    plan_world_blocks(&w[1], 3, 2);
    for (int i = 0; wr_algorithms[i]; i++)
        for (int k = 0; k < 4; k++) {
            const struct wr_algorithm *a = wr_algorithms[i];
            struct wr_plan_spec s = {.coll = a->coll,
                                     .topo = &w[k / 2].topo,
                                     .count = 1 << 21,
                                     .reduces = plan_reduces(a->coll),
                                     .in_mapped = k % 2,
                                     .out_mapped = k % 2,
                                     .elem_size = 4,
                                     .partial_size = 4};
            struct wr_verify_result small, large;
            weir_error err;
            if (!strcmp(a->name, "bruck") || !strcmp(a->name, "latency") || !a->applies(&s))
                continue;
            assert_ok(wr_verify(&s, a, &small, &err), &err);
            s.count *= 2;
            assert_ok(wr_verify(&s, a, &large, &err), &err);
            assert_true(large.max_scratch == small.max_scratch && large.max_scratch < 4 << 20);
            wr_verify_result_free(&small);
            wr_verify_result_free(&large);
        }
    plan_world_free(&w[0]);
    plan_world_free(&w[1]);
}

/* 4,096 ranks on 64 nodes, and fewer where sanitizers make everything slow. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { LARGE = 20 };
#else
enum { LARGE = 64 };
#endif

static void a_large_machine_in_full(void **unused)
{
    (void)unused;
    struct plan_world w;
    plan_world_blocks(&w, LARGE, LARGE);
    struct wr_plan_spec s = {.coll = WR_COLL_REDUCE_SCATTER,
                             .topo = &w.topo,
                             .count = 16,
                             .reduces = true,
                             .in_mapped = true,
                             .elem_size = 4,
                             .partial_size = 4,
                             .rails = 4};
    check_bounds(&s, "hier");
    s.coll = WR_COLL_ALLGATHER;
    s.reduces = false;
    check_bounds(&s, "hier");
    plan_world_free(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_move_only_what_they_must),
        cmocka_unit_test(groups_move_only_what_they_must),
        cmocka_unit_test(scratch_is_bounded),
        cmocka_unit_test(a_large_machine_in_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
