/* SPDX-License-Identifier: BSD-3-Clause */
/* Scan and exscan along the chain of all ranks, chunk by chunk: what comes from the rank before is combined
 * with the own input and passed on. The order of combination is that of ranks, whatever the machine. */
#include "comm/plan/algo.h"

enum { DATA, CREDIT, SLOTS };
enum { BUFFERS = 4, CHUNK = 1 << 14 };

/* Sends the sum of `prefix` (may be NULL) and the own input to the next rank. */
static void pass_on(const struct wr_plan_spec *spec, struct wr_program *p, uint32_t c, uint64_t chunk,
                    const struct wr_ref *prefix)
{
    int next = p->rank + 1;
    uint32_t rounds = (uint32_t)((spec->count + chunk - 1) / chunk);
    uint64_t len = wr_chunk_len(spec->count, chunk, c), at = (c % BUFFERS) * chunk;
    bool remote = spec->topo->node_of[next] != spec->topo->node_of[p->rank];
    struct wr_ref in = wr_ref(p->rank, WR_BUF_IN, c * chunk), src[2] = {prefix ? *prefix : in, in};
    struct wr_ref dst = wr_ref(next, WR_BUF_SCRATCH, at), sum = dst;
    if (remote) {
        sum = wr_ref(p->rank, WR_BUF_SCRATCH, BUFFERS * chunk + at);
        if (c && c % BUFFERS == 0)
            wr_program_drain(p);
    }
    if (c >= BUFFERS)
        wr_program_wait(p, next, CREDIT, c - BUFFERS + 1);
    else if (c == 0)
        wr_program_wait_earlier(p, next, CREDIT, rounds);
    if (prefix)
        wr_program_reduce(p, sum, src, 2, len);
    else
        wr_program_copy(p, sum, in, len);
    if (remote)
        wr_program_put_signal(p, dst, sum, len, DATA);
    else
        wr_program_signal(p, next, DATA);
}

static void result(const struct wr_plan_spec *spec, struct wr_program *p, uint32_t c, uint64_t chunk,
                   const struct wr_ref *prefix)
{
    struct wr_ref in = wr_ref(p->rank, WR_BUF_IN, c * chunk), out = wr_ref(p->rank, WR_BUF_OUT, c * chunk);
    struct wr_ref src[2] = {prefix ? *prefix : in, in};
    uint64_t len = wr_chunk_len(spec->count, chunk, c);
    if (prefix && spec->coll == WR_COLL_SCAN)
        wr_program_reduce(p, out, src, 2, len);
    else if (prefix)
        wr_program_copy(p, out, *prefix, len);
    else if (spec->coll == WR_COLL_SCAN && !spec->in_place)
        wr_program_copy(p, out, in, len);
}

static weir_status build(const struct wr_plan_spec *spec, int rank, struct wr_program *p, weir_error *err)
{
    uint64_t chunk = WR_MAX(WR_MIN(spec->chunk ? spec->chunk : CHUNK, spec->count), 1);
    uint32_t rounds = (uint32_t)((spec->count + chunk - 1) / chunk);
    wr_program_init(p, rank);
    for (uint32_t c = 0; c < rounds; c++) {
        struct wr_ref prefix = wr_ref(rank, WR_BUF_SCRATCH, (c % BUFFERS) * chunk);
        if (rank)
            wr_program_wait(p, rank - 1, DATA, c + 1);
        if (rank + 1 < spec->topo->nranks)
            pass_on(spec, p, c, chunk, rank ? &prefix : NULL);
        result(spec, p, c, chunk, rank ? &prefix : NULL);
        if (rank)
            wr_program_signal(p, rank - 1, CREDIT);
    }
    p->scratch = 2 * BUFFERS * chunk;
    return wr_program_finish(p, err);
}

static bool applies(const struct wr_plan_spec *spec)
{
    return !spec->out_shared;
}

const struct wr_algorithm wr_scan_chain = {"chain", WR_COLL_SCAN, applies, build, NULL, SLOTS};
const struct wr_algorithm wr_exscan_chain = {"chain", WR_COLL_EXSCAN, applies, build, NULL, SLOTS};
