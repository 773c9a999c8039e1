/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gather, scatter and all-to-all as messages between pairs: in step i a rank sends to the i-th behind it and
 * receives from the i-th before it. On a node the receiver loads from the sender's input when that is mapped;
 * else chunks go through the receiver's SCRATCH, which it offers to one sender at a time.
 */
#include "comm/plan/algo.h"

enum { READY, TAKEN, DATA, CREDIT, SLOTS };
enum { BUFFERS = 4, CHUNK = 1 << 15 };

struct exchange {
    const struct wr_plan_spec *spec;
    struct wr_program *p;
    int rank, n;
    uint64_t chunk;
};

/* Elements that rank a sends to rank b, and where they are in IN of a and in OUT of b; one of them is `me`. */
static uint64_t length(const struct wr_plan_spec *s, int me, int a, int b)
{
    size_t n = (size_t)s->topo->nranks;
    switch (s->coll) {
    case WR_COLL_GATHER:
        return b == s->root ? wr_plan_share(s, a) : 0;
    case WR_COLL_SCATTER:
        return a == s->root ? wr_plan_share(s, b) : 0;
    default:
        if (s->pairs)
            return a == me ? s->pairs->to[b] : s->pairs->from[a];
        return s->counts ? s->counts[(size_t)a * n + (size_t)b] : s->count;
    }
}

static struct wr_ref source(const struct wr_plan_spec *s, int a, int b)
{
    uint64_t at = 0;
    bool all = s->coll == WR_COLL_ALLTOALL;
    if (s->coll == WR_COLL_SCATTER)
        at = wr_plan_share_offset(s, b);
    else if (all && s->pairs)
        at = s->pairs->to_at[b];
    else if (all && !s->counts)
        at = s->count * (uint64_t)b;
    for (int q = 0; all && s->counts && q < b; q++)
        at += s->counts[(size_t)a * (size_t)s->topo->nranks + (size_t)q];
    return wr_ref(a, WR_BUF_IN, at);
}

static struct wr_ref target(const struct wr_plan_spec *s, int a, int b)
{
    uint64_t at = 0;
    bool all = s->coll == WR_COLL_ALLTOALL;
    if (s->coll == WR_COLL_GATHER)
        at = wr_plan_share_offset(s, a);
    else if (all && s->pairs)
        at = s->pairs->from_at[a];
    else if (all && !s->counts)
        at = s->count * (uint64_t)a;
    for (int q = 0; all && s->counts && q < a; q++)
        at += s->counts[(size_t)q * (size_t)s->topo->nranks + (size_t)b];
    return wr_ref(b, WR_BUF_OUT, at);
}

static bool same_node(const struct exchange *x, int peer)
{
    return x->spec->topo->node_of[peer] == x->spec->topo->node_of[x->rank];
}

static bool loads(const struct exchange *x, int peer)
{
    return x->spec->in_mapped && same_node(x, peer);
}

static struct wr_ref buffer(const struct exchange *x, int rank, uint32_t c)
{
    return wr_ref(rank, WR_BUF_SCRATCH, (c % BUFFERS) * x->chunk);
}

static void send_chunk(const struct exchange *x, int to, struct wr_ref src, uint64_t len, uint32_t c)
{
    struct wr_ref dst = buffer(x, to, c), from = wr_ref_add(src, c * x->chunk);
    wr_program_wait(x->p, to, CREDIT, c + 1);
    if (same_node(x, to)) {
        wr_program_copy(x->p, dst, from, wr_chunk_len(len, x->chunk, c));
        wr_program_signal(x->p, to, DATA);
    } else {
        wr_program_put_signal(x->p, dst, from, wr_chunk_len(len, x->chunk, c), DATA);
    }
}

static void one_step(const struct exchange *x, int to, int from)
{
    uint64_t out = length(x->spec, x->rank, x->rank, to), in = length(x->spec, x->rank, from, x->rank);
    uint32_t sends = loads(x, to) ? 0 : (uint32_t)((out + x->chunk - 1) / x->chunk);
    uint32_t receives = loads(x, from) ? 0 : (uint32_t)((in + x->chunk - 1) / x->chunk);
    struct wr_ref dst = in ? target(x->spec, from, x->rank) : buffer(x, x->rank, 0);
    struct wr_ref src = out ? source(x->spec, x->rank, to) : dst;
    for (uint32_t c = 0; c < WR_MIN(receives, BUFFERS); c++)
        wr_program_signal(x->p, from, CREDIT);
    if (in && loads(x, from)) {
        wr_program_wait(x->p, from, READY, 1);
        wr_program_copy(x->p, dst, source(x->spec, from, x->rank), in);
        wr_program_signal(x->p, from, TAKEN);
    }
    for (uint32_t c = 0; c < WR_MAX(sends, receives); c++) {
        if (c < sends)
            send_chunk(x, to, src, out, c);
        if (c >= receives)
            continue;
        wr_program_wait(x->p, from, DATA, c + 1);
        wr_program_copy(x->p, wr_ref_add(dst, c * x->chunk), buffer(x, x->rank, c), wr_chunk_len(in, x->chunk, c));
        if (c + BUFFERS < receives)
            wr_program_signal(x->p, from, CREDIT);
    }
}

/* The steps in which a rank has anything to do: of gather and scatter one, unless it is the root. */
static void steps_of(const struct wr_plan_spec *spec, int rank, int *first, int *last)
{
    int n = spec->topo->nranks;
    *first = 1;
    *last = n - 1;
    if (spec->coll == WR_COLL_ALLTOALL || rank == spec->root)
        return;
    *first = *last = (spec->coll == WR_COLL_GATHER ? spec->root - rank + n : rank - spec->root + n) % n;
}

/* Signals to, or waits for, the ranks that load from this one. */
static void loaders(const struct exchange *x, bool waits)
{
    int first, last;
    steps_of(x->spec, x->rank, &first, &last);
    for (int i = first; i <= last; i++) {
        int to = (x->rank + i) % x->n;
        if (!loads(x, to) || !length(x->spec, x->rank, x->rank, to))
            continue;
        if (waits)
            wr_program_wait(x->p, to, TAKEN, 1);
        else
            wr_program_signal(x->p, to, READY);
    }
}

static uint64_t chunk_of(const struct wr_plan_spec *spec)
{
    uint64_t chunk = spec->chunk ? spec->chunk : CHUNK;
    if (spec->local || (spec->coll == WR_COLL_ALLTOALL && spec->counts))
        return chunk;
    return WR_MIN(chunk, WR_MAX(wr_largest_share(spec), 1));
}

static weir_status build(const struct wr_plan_spec *spec, int rank, struct wr_program *p, weir_error *err)
{
    struct exchange x = {.spec = spec, .p = p, .rank = rank, .n = spec->topo->nranks, .chunk = chunk_of(spec)};
    int first, last;
    steps_of(spec, rank, &first, &last);
    wr_program_init(p, rank);
    loaders(&x, false);
    if (length(spec, rank, rank, rank) && !spec->in_place)
        wr_program_copy(p, target(spec, rank, rank), source(spec, rank, rank), length(spec, rank, rank, rank));
    for (int i = first; i <= last; i++)
        one_step(&x, (rank + i) % x.n, (rank - i + x.n) % x.n);
    loaders(&x, true);
    p->scratch = BUFFERS * x.chunk;
    return wr_program_finish(p, err);
}

static bool moves(const struct wr_plan_spec *spec)
{
    return !spec->out_shared && spec->elem_size == spec->partial_size;
}

static bool not_in_place(const struct wr_plan_spec *spec)
{
    return moves(spec) && !spec->in_place;
}

const struct wr_algorithm wr_gather_pairwise = {"pairwise", WR_COLL_GATHER, moves, build, NULL, SLOTS};
const struct wr_algorithm wr_scatter_pairwise = {"pairwise", WR_COLL_SCATTER, not_in_place, build, NULL, SLOTS};
const struct wr_algorithm wr_alltoall_pairwise = {"pairwise", WR_COLL_ALLTOALL, not_in_place, build, NULL, SLOTS};
