/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many puts in a row of one plan: each rank, alone on its node, sends its neighbour many parts, each with a signal in the same
 * counter, and the neighbour looks at a part as soon as the counter says that it has come. Executions follow each other without
 * a barrier, so that an old part is one of the execution before.
 */
#include "comm/comm.h"
#include "comm/mem/exchange.h"
#include "comm/mem/steps.h"
#include "comm/plan/exec.h"

#include "tests/multi/multi.h" /* its variables would hide behind parameters of the headers above */

enum { RANKS = 8, PARTS = 120, LEN = 300, EXECUTIONS = 4, DATA = 0, TAKEN = 1 };

static weir_status build(const struct wr_plan_spec *spec, int me, struct wr_program *p, weir_error *err)
{
    int n = spec->topo->nranks, to = (me + 1) % n, from = (me + n - 1) % n;
    wr_program_init(p, me);
    wr_program_lane(p);
    wr_program_wait_earlier(p, to, TAKEN, 1); /* it has looked at the parts of the execution before */
    for (uint64_t k = 0; k < PARTS; k++)
        wr_program_put_signal(p, wr_ref(to, WR_BUF_SCRATCH, k * LEN), wr_ref(me, WR_BUF_IN, k * LEN), LEN, DATA);
    wr_program_drain(p);
    wr_program_lane(p);
    for (uint32_t k = 0; k < PARTS; k++) {
        wr_program_wait(p, from, DATA, k + 1);
        wr_program_copy(p, wr_ref(me, WR_BUF_OUT, (uint64_t)k * LEN), wr_ref(me, WR_BUF_SCRATCH, (uint64_t)k * LEN), LEN);
    }
    wr_program_signal(p, from, TAKEN);
    wr_program_lane(p);
    wr_program_wait(p, to, TAKEN, 1);
    p->scratch = PARTS * LEN;
    return wr_program_finish(p, err);
}

static const struct wr_algorithm puts_in_a_row = {.name = "puts", .build = build};

static struct wr_exec *make(const struct wr_plan_spec *spec)
{
    weir_error err;
    struct wr_exec_params params = {.comm = comm, .spec = spec, .algorithm = &puts_in_a_row, .divide_by = 1};
    struct wr_exec_making *making = NULL;
    weir_status status = wr_exec_make(&params, &making, &err);
    if (!status)
        status = wr_steps_run(wr_exec_making_steps(making), &err);
    CHECK(!status, "wr_exec_make: %s", err.message);
    return wr_exec_made(making, true);
}

static uint64_t number(int r, int execution, uint64_t i)
{
    return (uint64_t)r << 40 | (uint64_t)execution << 32 | i;
}

/* Elements of OUT that are wrong. */
static uint64_t execute(struct wr_exec *x, uint64_t *in, uint64_t *out, int execution)
{
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < PARTS * LEN; i++)
        in[i] = number(rank, execution, i);
    wr_exec_start(x, in, out);
    while (!wr_exec_done(x)) {
        wr_exec_progress(x);
        wr_engine_progress(comm->engine);
    }
    CHECK(!wr_exec_status(x), "the plan failed: %s", weir_status_name(wr_exec_status(x)));
    for (uint64_t i = 0; i < PARTS * LEN; i++)
        wrong += out[i] != number((rank + size - 1) % size, execution, i);
    return wrong;
}

int main(void)
{
    static int node_of[RANKS], local_rank[RANKS], node_size[RANKS], member[RANKS];
    static const int *node_ranks[RANKS];
    static uint64_t in[PARTS * LEN], out[PARTS * LEN];
    start();
    CHECK(size > 1 && size <= RANKS, "%d ranks", size);
    for (int r = 0; r < size; r++) {
        node_of[r] = member[r] = r;
        node_size[r] = 1;
        node_ranks[r] = &member[r];
    }
    struct wr_plan_topo topo = {size, size, node_of, node_ranks, node_size, local_rank, 0, NULL};
    struct wr_plan_spec spec = {
        .coll = WR_COLL_ALLREDUCE, .topo = &topo, .count = PARTS * LEN, .elem_size = 8, .partial_size = 8};
    uint64_t wrong = 0;
    weir_error err;
    wr_engine_lock(comm->engine);
    struct wr_exec *x = make(&spec);
    for (int e = 0; e < EXECUTIONS; e++)
        wrong += execute(x, in, out, e);
    while (!wr_exec_is_quiet(x))
        wr_engine_progress(comm->engine);
    weir_status status = wr_exchange_barrier(comm, &err);
    CHECK(!status, "the end: %s", err.message);
    wr_exec_abandon(x);
    wr_engine_unlock(comm->engine);
    CHECK(!wrong, "%llu elements had not come when their signal had", (unsigned long long)wrong);
    finish("puts in a row");
    return 0;
}
