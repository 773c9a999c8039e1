/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reduce of large vectors on one node: every rank combines one part of the vector, loaded from the inputs of all, and stores it
 * into the root's result, so that all cores and memory channels work.
 */
#include <stdlib.h>

#include "base/error.h"
#include "comm/plan/algo.h"

enum { START, DONE, SLOTS };

static weir_status build(const struct wr_plan_spec *spec, int rank, struct wr_program *p, weir_error *err)
{
    struct wr_mates mates = wr_mates(spec->topo, rank);
    uint64_t n = (uint64_t)mates.n, part = spec->count / n, extra = spec->count % n, me = (uint64_t)mates.me;
    uint64_t begin = part * me + WR_MIN(me, extra), len = part + (me < extra);
    struct wr_ref *src = malloc(n * sizeof *src);
    if (!src)
        return wr_error_memory(err, n * sizeof *src, "the program of a collective");
    for (int i = 0; i < mates.n; i++)
        src[i] = wr_ref(mates.rank[i], WR_BUF_IN, begin);
    wr_program_init(p, rank);
    wr_signal_mates(p, &mates, START);
    wr_wait_mates(p, &mates, START, 1);
    wr_program_reduce(p, wr_ref(spec->root, WR_BUF_OUT, begin), src, (unsigned)n, len);
    wr_signal_mates(p, &mates, DONE);
    wr_wait_mates(p, &mates, DONE, 1);
    free(src);
    return wr_program_finish(p, err);
}

static bool applies(const struct wr_plan_spec *spec)
{
    return wr_single_node(spec) && spec->in_mapped && spec->out_mapped;
}

const struct wr_algorithm wr_reduce_split = {"split", WR_COLL_REDUCE, applies, build, NULL, SLOTS};
