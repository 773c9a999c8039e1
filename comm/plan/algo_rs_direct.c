/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reduce-scatter on one node: every rank loads its share from the inputs of all and combines it in one pass, in
 * the order of ranks. Where the inputs are not mapped they pass through SCRATCH, chunk by chunk in two buffers.
 */
#include <stdlib.h>

#include "base/error.h"
#include "comm/plan/algo.h"

enum { START, DONE, READY = 0, CONSUMED = 1, SLOTS };
enum { BUFFERS = 2, STAGED = 1 << 18 }; /* elements of all shares that one buffer holds by default */

static uint64_t chunk_of(const struct wr_plan_spec *spec)
{
    uint64_t most = WR_MAX(wr_largest_share(spec), 1);
    uint64_t chunk = spec->chunk ? spec->chunk : (uint64_t)WR_MAX(STAGED / spec->topo->nranks, 256);
    return WR_MIN(chunk, most);
}

static uint64_t scratch(const struct wr_plan_spec *spec, int rank)
{
    if (!spec->in_mapped)
        return BUFFERS * (uint64_t)spec->topo->nranks * chunk_of(spec);
    return spec->in_place ? wr_plan_share(spec, rank) : 0;
}

static void mapped(const struct wr_plan_spec *spec, int rank, struct wr_program *p, struct wr_ref *src)
{
    struct wr_mates mates = wr_mates(spec->topo, rank);
    uint64_t len = wr_plan_share(spec, rank);
    struct wr_ref out = wr_ref(rank, WR_BUF_OUT, 0), dst = spec->in_place ? wr_ref(rank, WR_BUF_SCRATCH, 0) : out;
    wr_signal_mates(p, &mates, START);
    wr_wait_mates(p, &mates, START, 1);
    for (int i = 0; i < spec->topo->nranks; i++)
        src[i] = wr_ref(i, WR_BUF_IN, wr_plan_share_offset(spec, rank));
    wr_program_reduce(p, dst, src, (unsigned)spec->topo->nranks, len);
    wr_signal_mates(p, &mates, DONE);
    wr_wait_mates(p, &mates, DONE, 1);
    if (spec->in_place) /* only now is the input, on which the result lands, no longer needed by others */
        wr_program_copy(p, out, dst, len);
}

static void staged(const struct wr_plan_spec *spec, int rank, struct wr_program *p, struct wr_ref *src)
{
    struct wr_mates mates = wr_mates(spec->topo, rank);
    int n = spec->topo->nranks;
    uint64_t chunk = chunk_of(spec), most = wr_largest_share(spec);
    uint32_t rounds = (uint32_t)((most + chunk - 1) / chunk);
    for (uint32_t c = 0; c < rounds; c++) {
        uint64_t buffer = (c % BUFFERS) * (uint64_t)n * chunk, at = c * chunk;
        /* Who is ready for a round has consumed the one before; so only the last round of an execution needs to
         * say so, when the next execution's first round takes the same buffer. */
        if (c == 0 && rounds % BUFFERS)
            wr_wait_mates_earlier(p, &mates, CONSUMED, 1);
        for (int s = 0; s < n; s++)
            if (s != rank || spec->in_place) /* in place the result may overlap what is loaded for it */
                wr_program_copy(p, wr_ref(rank, WR_BUF_SCRATCH, buffer + (uint64_t)s * chunk),
                                wr_ref(rank, WR_BUF_IN, wr_plan_share_offset(spec, s) + at),
                                wr_chunk_len(wr_plan_share(spec, s), chunk, c));
        wr_signal_mates(p, &mates, READY);
        wr_wait_mates(p, &mates, READY, c + 1);
        for (int i = 0; i < n; i++)
            src[i] = i == rank && !spec->in_place ? wr_ref(i, WR_BUF_IN, wr_plan_share_offset(spec, rank) + at)
                                                  : wr_ref(i, WR_BUF_SCRATCH, buffer + (uint64_t)rank * chunk);
        /* in place: what is overwritten here was staged in this round or before, for it lies at or behind its
         * own chunk */
        wr_program_reduce(p, wr_ref(rank, WR_BUF_OUT, at), src, (unsigned)n,
                          wr_chunk_len(wr_plan_share(spec, rank), chunk, c));
    }
    if (rounds % BUFFERS)
        wr_signal_mates(p, &mates, CONSUMED);
}

static weir_status build(const struct wr_plan_spec *spec, int rank, struct wr_program *p, weir_error *err)
{
    struct wr_ref *src = malloc((size_t)spec->topo->nranks * sizeof *src);
    if (!src)
        return wr_error_memory(err, (size_t)spec->topo->nranks * sizeof *src, "the program of a collective");
    wr_program_init(p, rank);
    if (spec->in_mapped)
        mapped(spec, rank, p, src);
    else
        staged(spec, rank, p, src);
    p->scratch = scratch(spec, rank);
    free(src);
    return wr_program_finish(p, err);
}

const struct wr_algorithm wr_rs_direct = {"direct", WR_COLL_REDUCE_SCATTER, wr_single_node, build, scratch, SLOTS};
