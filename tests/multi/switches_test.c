/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Plans know the switches: of the world and of communicators of some ranks the levels above the node are those of the job's
 * topology, and the hierarchical plans move no more across each of them than they must.
 *
 * usage: switches_test LEVELS: how many lie between node and world; switches_test fails: weir_comm_world() does so
 */
#include "comm/coll/coll.h"
#include "comm/plan/verify.h"

#include "tests/multi/multi.h" /* its variables would hide behind parameters of the headers above */

enum { RANKS = 64 };

/* The levels of a communicator group its nodes as the job's topology does. */
static void compare(const struct wr_plan_topo *plan, const weir_comm *c, const weir_topo *topo)
{
    int l = 0;
    for (int i = 0; i < weir_topo_nlevels(topo); i++) {
        weir_level level = {.size = sizeof level};
        OK(weir_topo_level(topo, i, &level));
        if (level.kind != WEIR_LEVEL_SWITCH && level.kind != WEIR_LEVEL_GROUP)
            continue;
        for (int a = 0; a < plan->nranks; a++)
            for (int b = 0; b < plan->nranks; b++) {
                bool together = plan->group_of[l][plan->node_of[a]] == plan->group_of[l][plan->node_of[b]];
                bool said = weir_topo_group(topo, i, weir_comm_world_rank(c, a)) == weir_topo_group(topo, i, weir_comm_world_rank(c, b));
                CHECK(together == said, "ranks %d and %d at level %d", a, b, l);
            }
        l++;
    }
    CHECK(l == plan->nlevels, "plans have %d of %d levels", plan->nlevels, l);
}

/* What leaves a group of reduce-scatter, and enters one of all-gather, is the whole vector less the group's own shares. */
static void check_bytes(const struct wr_plan_topo *topo, int level, bool reduces)
{
    const int *group = topo->group_of[level];
    struct wr_plan_spec s = {.coll = reduces ? WR_COLL_REDUCE_SCATTER : WR_COLL_ALLGATHER,
                             .topo = topo,
                             .count = 6,
                             .reduces = reduces,
                             .in_mapped = true,
                             .elem_size = 4,
                             .partial_size = 4,
                             .chunk = 4};
    uint64_t moved[RANKS] = {0}, own[RANKS] = {0};
    struct wr_program *programs;
    weir_error err;
    CHECK(!wr_verify(&s, wr_algorithm_find(s.coll, "hier"), NULL, &err), "%s", err.message);
    CHECK(!wr_programs_build(&s, wr_algorithm_find(s.coll, "hier"), &programs, &err), "%s", err.message);
    for (int r = 0; r < topo->nranks; r++) {
        int from = group[topo->node_of[r]];
        own[from] += s.count;
        for (uint32_t i = 0; i < programs[r].nsteps; i++) {
            const struct wr_step *step = &programs[r].steps[i];
            int to = step->op == WR_STEP_PUT ? group[topo->node_of[step->peer]] : from;
            if (to != from)
                moved[reduces ? from : to] += step->len;
        }
    }
    for (int g = 0; g < RANKS; g++)
        CHECK(!own[g] || moved[g] == wr_plan_total(&s) - own[g], "level %d, group %d moves %llu of %llu elements, %llu its own", level,
              g, (unsigned long long)moved[g], (unsigned long long)wr_plan_total(&s), (unsigned long long)own[g]);
    wr_programs_free(programs, topo->nranks);
}

static void check_comm(weir_comm *c, int levels, const weir_topo *topo)
{
    const struct wr_plan_topo *plan = &c->coll->topo;
    CHECK(plan->nnodes == 1 || plan->nlevels == levels, "%d levels", plan->nlevels);
    if (topo && plan->nnodes > 1)
        compare(plan, c, topo);
    for (int l = 0; l < plan->nlevels; l++) {
        check_bytes(plan, l, true);
        check_bytes(plan, l, false);
    }
}

/* Rank 0's file counts: the others need not have it. */
static void forget_file(void)
{
    const char *me = getenv("WEIR_JOB_RANK");
    if (me && strcmp(me, "0") != 0)
        unsetenv("WEIR_TOPOLOGY_FILE");
}

static int fails(void)
{
    static const char *const quiet[] = {"LOG=off", NULL};
    weir_init_options options = WEIR_INIT_OPTIONS_INIT;
    options.config = quiet;
    CHECK(!weir_init(&options, &ctx), "weir_init");
    weir_status status = weir_comm_world(ctx, &comm);
    CHECK(status == WEIR_ERR_CONFIG && strstr(weir_last_error(ctx)->message, "rank 0: "), "%s", weir_last_error(ctx)->message);
    CHECK(!weir_finalize(ctx), "weir_finalize");
    return 0;
}

int main(int argc, char **argv)
{
    const weir_topo *topo = NULL;
    weir_comm *part;
    forget_file();
    if (argc > 1 && !strcmp(argv[1], "fails"))
        return fails();
    start();
    int levels = argc > 1 ? atoi(argv[1]) : 0;
    CHECK(size <= RANKS, "too many ranks");
    if (rank == 0)
        OK(weir_ctx_topo(ctx, &topo));
    check_comm(comm, levels, topo);
    for (int how = 2; how < 4; how++) {
        OK(weir_comm_split(comm, rank % how, -rank, &part));
        check_comm(part, levels, topo);
        OK(weir_comm_free(part));
    }
    finish("switches");
    return 0;
}
