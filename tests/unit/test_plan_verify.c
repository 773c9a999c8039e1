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
    s->reduces = a->coll == WR_COLL_REDUCE || a->coll == WR_COLL_ALLREDUCE || a->coll == WR_COLL_REDUCE_SCATTER ||
                 a->coll == WR_COLL_SCAN || a->coll == WR_COLL_EXSCAN;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_algorithms_on_one_node),
        cmocka_unit_test(all_algorithms_on_random_machines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
