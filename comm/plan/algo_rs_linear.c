/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reduce-scatter whose numbers do not depend on the machine: every owner gets the inputs of all ranks and
 * combines them in the order of ranks. It moves more bytes than the others. Reduce is the case in which the
 * root owns everything.
 */
#include <stdlib.h>

#include "base/error.h"
#include "comm/plan/algo.h"

enum { START, DONE, DATA, CREDIT, SLOTS };
enum { BUFFERS = 2, HELD = 1 << 20 }; /* elements that the buffers of a rank hold by default */

struct linear {
    const struct wr_plan_spec *spec;
    struct wr_program *p;
    int rank, n, owner; /* owner: of everything; -1: each owns its share */
    uint64_t chunk;
    uint32_t rounds;
    struct wr_ref *src;
};

static uint64_t share(const struct wr_plan_spec *spec, int rank)
{
    if (spec->coll == WR_COLL_REDUCE)
        return rank == spec->root ? spec->count : 0;
    return wr_plan_share(spec, rank);
}

static uint64_t share_offset(const struct wr_plan_spec *spec, int rank)
{
    return spec->coll == WR_COLL_REDUCE ? 0 : wr_plan_share_offset(spec, rank);
}

static uint64_t largest(const struct wr_plan_spec *spec)
{
    return spec->coll == WR_COLL_REDUCE ? spec->count : wr_largest_share(spec);
}

static uint64_t chunk_of(const struct wr_plan_spec *spec)
{
    uint64_t chunk = spec->chunk ? spec->chunk : (uint64_t)WR_MAX(HELD / BUFFERS / spec->topo->nranks, 256);
    return WR_MIN(chunk, WR_MAX(largest(spec), 1));
}

/* Puts cannot convert: inputs of another type are widened first. */
static bool widens(const struct wr_plan_spec *spec)
{
    return spec->elem_size != spec->partial_size && spec->topo->nnodes > 1;
}

/* SCRATCH: what comes in, by buffer and sender; widened inputs, by owner; the result of an in-place call until
 * the end. */
static uint64_t scratch(const struct wr_plan_spec *spec, int rank)
{
    uint64_t areas = (BUFFERS + widens(spec)) * (uint64_t)spec->topo->nranks;
    return areas * chunk_of(spec) + (spec->in_place ? share(spec, rank) : 0);
}

static bool same_node(const struct linear *l, int peer)
{
    return l->spec->topo->node_of[peer] == l->spec->topo->node_of[l->rank];
}

/* Whether inputs are loaded from where they are. */
static bool loads(const struct linear *l, int peer)
{
    return peer == l->rank || (l->spec->in_mapped && same_node(l, peer));
}

/* Whether a rank owns anything, so that others have to do with it. */
static bool owns(const struct linear *l, int rank)
{
    return share(l->spec, rank) > 0;
}

/* The mates that load from this rank begin after its start, and it ends after them. */
static void start(const struct linear *l, const struct wr_mates *mates)
{
    for (int i = 1; i < mates->n; i++)
        if (owns(l, wr_mate(mates, i)))
            wr_program_signal(l->p, wr_mate(mates, i), START);
    if (owns(l, l->rank))
        wr_wait_mates(l->p, mates, START, 1);
}

static void end(const struct linear *l, const struct wr_mates *mates)
{
    if (owns(l, l->rank))
        wr_signal_mates(l->p, mates, DONE);
    for (int i = 1; i < mates->n; i++)
        if (owns(l, wr_mate(mates, i)))
            wr_program_wait(l->p, wr_mate(mates, i), DONE, 1);
}

static struct wr_ref incoming(const struct linear *l, int rank, int from, uint32_t c)
{
    return wr_ref(rank, WR_BUF_SCRATCH, ((uint64_t)l->n * (c % BUFFERS) + (uint64_t)from) * l->chunk);
}

static void send(const struct linear *l, int owner, uint32_t c)
{
    uint64_t len = wr_chunk_len(share(l->spec, owner), l->chunk, c);
    struct wr_ref in = wr_ref(l->rank, WR_BUF_IN, share_offset(l->spec, owner) + c * l->chunk);
    struct wr_ref dst = incoming(l, owner, l->rank, c);
    if (c >= BUFFERS)
        wr_program_wait(l->p, owner, CREDIT, c - BUFFERS + 1);
    else if (c == 0)
        wr_program_wait_earlier(l->p, owner, CREDIT, l->rounds);
    if (same_node(l, owner)) {
        wr_program_copy(l->p, dst, in, len);
        wr_program_signal(l->p, owner, DATA);
        return;
    }
    if (widens(l->spec)) {
        struct wr_ref wide = wr_ref(l->rank, WR_BUF_SCRATCH, ((uint64_t)l->n * BUFFERS + (uint64_t)owner) * l->chunk);
        wr_program_copy(l->p, wide, in, len);
        in = wide;
    }
    wr_program_put_signal(l->p, dst, in, len, DATA);
}

static void one_round(const struct linear *l, uint32_t c, struct wr_ref result)
{
    uint64_t own = share_offset(l->spec, l->rank) + c * l->chunk;
    if (c && widens(l->spec))
        wr_program_drain(l->p);
    int first = l->owner < 0 ? 1 : (l->owner - l->rank + l->n) % l->n, last = l->owner < 0 ? l->n - 1 : first;
    for (int i = first; i <= last; i++)
        if (!loads(l, (l->rank + i) % l->n) && owns(l, (l->rank + i) % l->n))
            send(l, (l->rank + i) % l->n, c);
    for (int p = 0; owns(l, l->rank) && p < l->n; p++) {
        if (!loads(l, p))
            wr_program_wait(l->p, p, DATA, c + 1);
        l->src[p] = loads(l, p) ? wr_ref(p, WR_BUF_IN, own) : incoming(l, l->rank, p, c);
    }
    wr_program_reduce(l->p, wr_ref_add(result, c * l->chunk), l->src, (unsigned)l->n,
                      wr_chunk_len(share(l->spec, l->rank), l->chunk, c));
    for (int i = 1; owns(l, l->rank) && i < l->n; i++)
        if (!loads(l, (l->rank + i) % l->n))
            wr_program_signal(l->p, (l->rank + i) % l->n, CREDIT);
}

static weir_status build(const struct wr_plan_spec *spec, int rank, struct wr_program *p, weir_error *err)
{
    struct linear l = {.spec = spec, .p = p, .rank = rank, .n = spec->topo->nranks, .chunk = chunk_of(spec),
                       .owner = spec->coll == WR_COLL_REDUCE ? spec->root : -1};
    struct wr_mates mates = wr_mates(spec->topo, rank);
    uint64_t mine = share(spec, rank);
    struct wr_ref out = wr_ref(rank, WR_BUF_OUT, 0), tail = wr_ref(rank, WR_BUF_SCRATCH, scratch(spec, rank) - mine);
    l.rounds = (uint32_t)((largest(spec) + l.chunk - 1) / l.chunk);
    l.src = malloc((size_t)l.n * sizeof *l.src);
    if (!l.src)
        return wr_error_memory(err, (size_t)l.n * sizeof *l.src, "the program of a collective");
    wr_program_init(p, rank);
    if (spec->in_mapped)
        start(&l, &mates);
    for (uint32_t c = 0; c < l.rounds; c++)
        one_round(&l, c, spec->in_place ? tail : out);
    if (spec->topo->nnodes > 1)
        wr_program_drain(p);
    if (spec->in_mapped)
        end(&l, &mates);
    if (spec->in_place)
        wr_program_copy(p, out, tail, mine);
    p->scratch = scratch(spec, rank);
    free(l.src);
    return wr_program_finish(p, err);
}

/* A step names at most 65535 places. */
static bool applies(const struct wr_plan_spec *spec)
{
    return !spec->out_shared && spec->topo->nranks < UINT16_MAX;
}

const struct wr_algorithm wr_rs_linear = {"linear", WR_COLL_REDUCE_SCATTER, applies, build, scratch, SLOTS};
const struct wr_algorithm wr_reduce_linear = {"linear", WR_COLL_REDUCE, applies, build, NULL, 0};
