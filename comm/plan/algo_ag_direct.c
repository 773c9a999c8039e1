/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-gather on one node. Inputs that are mapped are loaded by everybody; else, results that are mapped are
 * stored into by everybody; else shares pass through SCRATCH in two buffers. Into a window that the node
 * shares, each share is stored once.
 */
#include "comm/plan/algo.h"

enum { START, DONE, READY = 0, CONSUMED = 1, SLOTS };
enum { BUFFERS = 2, STAGED = 1 << 16 };

static uint64_t chunk_of(const struct wr_plan_spec *spec)
{
    uint64_t most = WR_MAX(wr_largest_share(spec), 1);
    return WR_MIN(spec->chunk ? spec->chunk : STAGED, most);
}

static bool stages(const struct wr_plan_spec *spec)
{
    return !spec->in_mapped && !spec->out_mapped && !spec->out_shared;
}

static uint64_t scratch(const struct wr_plan_spec *spec, int rank)
{
    (void)rank;
    return stages(spec) ? BUFFERS * chunk_of(spec) : 0;
}

static void copy_own(const struct wr_plan_spec *spec, int rank, struct wr_program *p)
{
    if (!spec->in_place)
        wr_program_copy(p, wr_ref(rank, WR_BUF_OUT, wr_plan_share_offset(spec, rank)), wr_ref(rank, WR_BUF_IN, 0),
                        wr_plan_share(spec, rank));
}

static void load(const struct wr_plan_spec *spec, int rank, struct wr_program *p, const struct wr_mates *mates)
{
    wr_signal_mates(p, mates, START);
    copy_own(spec, rank, p);
    for (int i = 1; i < mates->n; i++) {
        int peer = wr_mate(mates, i);
        wr_program_wait(p, peer, START, 1);
        wr_program_copy(p, wr_ref(rank, WR_BUF_OUT, wr_plan_share_offset(spec, peer)), wr_ref(peer, WR_BUF_IN, 0),
                        wr_plan_share(spec, peer));
        wr_program_signal(p, peer, DONE);
    }
    wr_wait_mates(p, mates, DONE, 1);
}

static void store(const struct wr_plan_spec *spec, int rank, struct wr_program *p, const struct wr_mates *mates)
{
    wr_signal_mates(p, mates, START);
    copy_own(spec, rank, p);
    for (int i = 1; i < mates->n; i++) {
        int peer = wr_mate(mates, i);
        wr_program_wait(p, peer, START, 1);
        wr_program_copy(p, wr_ref(peer, WR_BUF_OUT, wr_plan_share_offset(spec, rank)), wr_ref(rank, WR_BUF_IN, 0),
                        wr_plan_share(spec, rank));
        wr_program_signal(p, peer, DONE);
    }
    wr_wait_mates(p, mates, DONE, 1);
}

static void window(const struct wr_plan_spec *spec, int rank, struct wr_program *p, const struct wr_mates *mates)
{
    wr_signal_mates(p, mates, START);
    if (!spec->in_place) /* in place the share is in its place in the window */
        wr_wait_mates(p, mates, START, 1);
    copy_own(spec, rank, p);
    if (spec->in_place)
        wr_wait_mates(p, mates, START, 1);
    else {
        wr_signal_mates(p, mates, DONE);
        wr_wait_mates(p, mates, DONE, 1);
    }
}

static void staged(const struct wr_plan_spec *spec, int rank, struct wr_program *p, const struct wr_mates *mates)
{
    uint64_t chunk = chunk_of(spec), most = wr_largest_share(spec);
    uint32_t rounds = (uint32_t)((most + chunk - 1) / chunk);
    uint64_t own = wr_plan_share_offset(spec, rank);
    for (uint32_t c = 0; c < rounds; c++) {
        uint64_t buffer = (c % BUFFERS) * chunk, at = c * chunk;
        /* as in reduce-scatter: only the last round says that it is over, when the next execution needs its
         * buffer at once */
        if (c == 0 && rounds % BUFFERS)
            wr_wait_mates_earlier(p, mates, CONSUMED, 1);
        wr_program_copy(p, wr_ref(rank, WR_BUF_SCRATCH, buffer), wr_ref(rank, WR_BUF_IN, at),
                        wr_chunk_len(wr_plan_share(spec, rank), chunk, c));
        wr_signal_mates(p, mates, READY);
        if (!spec->in_place) /* while it is in the cache, and the others stage theirs */
            wr_program_copy(p, wr_ref(rank, WR_BUF_OUT, own + at), wr_ref(rank, WR_BUF_IN, at),
                            wr_chunk_len(wr_plan_share(spec, rank), chunk, c));
        for (int i = 1; i < mates->n; i++) {
            int peer = wr_mate(mates, i);
            wr_program_wait(p, peer, READY, c + 1);
            wr_program_copy(p, wr_ref(rank, WR_BUF_OUT, wr_plan_share_offset(spec, peer) + at),
                            wr_ref(peer, WR_BUF_SCRATCH, buffer), wr_chunk_len(wr_plan_share(spec, peer), chunk, c));
        }
    }
    if (rounds % BUFFERS)
        wr_signal_mates(p, mates, CONSUMED);
}

static weir_status build(const struct wr_plan_spec *spec, int rank, struct wr_program *p, weir_error *err)
{
    struct wr_mates mates = wr_mates(spec->topo, rank);
    wr_program_init(p, rank);
    if (spec->out_shared)
        window(spec, rank, p, &mates);
    else if (spec->in_mapped)
        load(spec, rank, p, &mates);
    else if (spec->out_mapped)
        store(spec, rank, p, &mates);
    else
        staged(spec, rank, p, &mates);
    p->scratch = scratch(spec, rank);
    return wr_program_finish(p, err);
}

const struct wr_algorithm wr_ag_direct = {"direct", WR_COLL_ALLGATHER, wr_single_node, build, scratch, SLOTS};
