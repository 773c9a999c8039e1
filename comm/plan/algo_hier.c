/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "comm/plan/algo_hier.h"

/* Bytes of a chunk by default; staged inputs of a lane hold at most STAGED bytes unless that makes chunks shorter than SHORTEST
 * elements. What an agent has under way is bounded by the credits: a chunk for each other node and lane. */
enum { CHUNK = 1 << 17, STAGED = 1 << 22, SHORTEST = 256 };

static uint64_t chunk_of(const struct wr_plan_spec *spec)
{
    uint64_t most = WR_MAX(wr_largest_share(spec), 1), chunk = spec->chunk ? spec->chunk : CHUNK / spec->partial_size;
    if (!spec->chunk && !spec->in_mapped)
        chunk = WR_MIN(chunk, WR_MAX((uint64_t)STAGED / spec->partial_size / (unsigned)spec->topo->nranks, (uint64_t)SHORTEST));
    return WR_MIN(chunk, most);
}

static int rails(const struct wr_plan_spec *spec, int node)
{
    int n = spec->topo->node_size[node];
    return spec->rails > 0 ? WR_MIN(spec->rails, n) : n;
}

void wr_hier_range(const struct wr_plan_spec *spec, int node, int local, int owner, int *from, int *to)
{
    int64_t shares = spec->topo->node_size[owner], q = rails(spec, node);
    if (node == owner) {
        *from = local;
        *to = local + 1;
    } else if (local >= q) {
        *from = *to = 0;
    } else {
        *from = (int)((local * shares + q - 1) / q);
        *to = (int)(((local + 1) * shares + q - 1) / q);
    }
}

static int agent_of(const struct wr_hier *h, int node, int owner, int j)
{
    int64_t shares = h->topo->node_size[owner];
    if (node == owner)
        return h->topo->node_ranks[node][j];
    return h->topo->node_ranks[node][(int)((int64_t)j * rails(h->spec, node) / shares)];
}

bool wr_hier_next_part(const struct wr_hier *h, const struct wr_hier_item *item, int node, struct wr_hier_part *part)
{
    int j = part->from = part->to;
    if (node < 0 || j >= item->to)
        return false;
    part->agent = agent_of(h, node, item->owner, j);
    while (++j < item->to && agent_of(h, node, item->owner, j) == part->agent)
        ;
    part->to = j;
    return true;
}

uint64_t wr_hier_len(const struct wr_hier *h, int owner, int j, uint64_t c)
{
    return wr_chunk_len(wr_plan_share(h->spec, wr_hier_share(h, owner, j)), h->chunk, c);
}

uint64_t wr_hier_sum(const struct wr_hier *h, int owner, int from, int to, uint64_t c)
{
    uint64_t sum = 0;
    if (!h->spec->counts)
        return from < to ? (uint64_t)(to - from) * wr_chunk_len(h->spec->count, h->chunk, c) : 0;
    for (int j = from; j < to; j++)
        sum += wr_hier_len(h, owner, j, c);
    return sum;
}

uint64_t wr_hier_contiguous(const struct wr_hier *h, int owner, int *j, int to, uint64_t c, uint64_t *at)
{
    uint64_t len = 0;
    for (; *j < to; ++*j) {
        uint64_t n = wr_hier_len(h, owner, *j, c);
        uint64_t begin = n ? wr_plan_share_offset(h->spec, wr_hier_share(h, owner, *j)) + c * h->chunk : 0;
        if (n && len && begin != *at + len)
            break;
        if (n && !len)
            *at = begin;
        len += n;
    }
    return len;
}

/* ---- layout of SCRATCH ---- */

/* The slots of one lane of `rank`: at[m] for each owner node (at may be NULL); returns their sum. */
static uint64_t slots_of(const struct wr_hier *h, int rank, uint64_t *at)
{
    uint64_t sum = 0;
    int node = h->topo->node_of[rank], local = h->topo->local_rank[rank];
    for (int i = 1; i <= h->topo->nnodes; i++) {
        int from, to, m = (node + i) % h->topo->nnodes;
        wr_hier_range(h->spec, node, local, m, &from, &to);
        if (at)
            at[m] = sum;
        if (m != node || h->own_slot)
            sum += wr_hier_sum(h, m, from, to, 0); /* chunk 0 is as long as any */
    }
    return sum;
}

static const uint64_t *table_of(struct wr_hier *h, int rank)
{
    for (int i = h->ntables; i-- > 0;)
        if (h->table[i].rank == rank)
            return h->table[i].at;
    if (h->ntables == h->cap_tables) {
        int cap = h->cap_tables ? h->cap_tables * 2 : 4;
        struct wr_hier_table *larger = realloc(h->table, (size_t)cap * sizeof *larger);
        if (!larger)
            return NULL;
        h->table = larger;
        h->cap_tables = cap;
    }
    uint64_t *at = malloc((size_t)(h->topo->nnodes + 1) * sizeof *at);
    if (!at)
        return NULL;
    at[h->topo->nnodes] = slots_of(h, rank, at);
    h->table[h->ntables++] = (struct wr_hier_table){rank, at};
    return at;
}

struct wr_ref wr_hier_slot(struct wr_hier *h, int peer, int owner, int j, uint32_t lane, uint64_t c)
{
    const uint64_t *at = table_of(h, peer);
    int from, to;
    if (!at) {
        h->failed = true;
        return wr_ref(peer, WR_BUF_SCRATCH, 0);
    }
    wr_hier_range(h->spec, h->topo->node_of[peer], h->topo->local_rank[peer], owner, &from, &to);
    return wr_ref(peer, WR_BUF_SCRATCH,
                  h->nlanes * h->stage + lane * at[h->topo->nnodes] + at[owner] + wr_hier_sum(h, owner, from, j, c));
}

/* The parts that need no memory. */
static void shape(struct wr_hier *h, const struct wr_plan_spec *spec, int rank, bool forward)
{
    memset(h, 0, sizeof *h);
    h->spec = spec;
    h->topo = spec->topo;
    h->rank = rank;
    h->node = spec->topo->node_of[rank];
    h->local = spec->topo->local_rank[rank];
    h->mates = wr_mates(spec->topo, rank);
    h->chunk = chunk_of(spec);
    h->rounds = (uint32_t)((wr_largest_share(spec) + h->chunk - 1) / h->chunk);
    h->nlanes = h->rounds > 1 ? WR_HIER_LANES : 1;
    h->stages = forward && !spec->in_mapped && spec->topo->nranks > spec->topo->nnodes;
    /* all-gather: mates load the owner's chunk from there, and puts begin there when IN has another type than
     * SCRATCH */
    h->own_slot = forward || !spec->in_mapped || spec->elem_size != spec->partial_size;
    for (int m = 0; h->stages && m < h->topo->nnodes; m++)
        h->stage += wr_hier_sum(h, m, 0, h->topo->node_size[m], 0);
}

uint64_t wr_hier_scratch_rs(const struct wr_plan_spec *spec, int rank)
{
    struct wr_hier h;
    shape(&h, spec, rank, true);
    return h.nlanes * (h.stage + slots_of(&h, rank, NULL)) + (spec->in_place ? wr_plan_share(spec, rank) : 0);
}

uint64_t wr_hier_scratch_ag(const struct wr_plan_spec *spec, int rank)
{
    struct wr_hier h;
    shape(&h, spec, rank, false);
    return h.nlanes * slots_of(&h, rank, NULL);
}

bool wr_hier_applies(const struct wr_plan_spec *spec)
{
    return spec->topo->nnodes > 1 && !(spec->out_shared && spec->coll != WR_COLL_ALLGATHER) &&
           !(spec->reproducible && spec->reduces);
}

static int by_hop(const void *a, const void *b)
{
    const struct wr_hier_item *x = a, *y = b;
    return x->hop != y->hop ? x->hop - y->hop : x->owner - y->owner;
}

weir_status wr_hier_init(struct wr_hier *h, const struct wr_plan_spec *spec, int rank, bool forward, weir_error *err)
{
    size_t n = (size_t)spec->topo->nranks, nodes = (size_t)spec->topo->nnodes;
    shape(h, spec, rank, forward);
    h->item = calloc(nodes, sizeof *h->item);
    h->received = calloc(n, sizeof *h->received);
    h->credit = calloc(n, sizeof *h->credit);
    h->grant = calloc(n, sizeof *h->grant);
    if (!h->item || !h->received || !h->credit || !h->grant) {
        wr_hier_free(h);
        return wr_error_memory(err, 3 * n * sizeof *h->received, "the program of a collective");
    }
    for (int m = 0; m < spec->topo->nnodes; m++) {
        struct wr_hop hop = wr_chain_hop(spec->topo, m, h->node);
        h->item[m] = (struct wr_hier_item){.owner = m, .hop = hop.at, .prev = hop.prev, .next = hop.next};
        if (!forward)
            h->item[m] = (struct wr_hier_item){.owner = m,
                                               .hop = spec->topo->nnodes - 1 - hop.at,
                                               .prev = hop.next,
                                               .next = hop.prev};
        wr_hier_range(spec, h->node, h->local, m, &h->item[m].from, &h->item[m].to);
    }
    qsort(h->item, nodes, sizeof *h->item, by_hop);
    return WEIR_OK;
}

void wr_hier_free(struct wr_hier *h)
{
    for (int i = 0; i < h->ntables; i++)
        free(h->table[i].at);
    free(h->table);
    free(h->item);
    free(h->received);
    free(h->credit);
    free(h->grant);
    memset(h, 0, sizeof *h);
}

/* ---- the network phase ---- */

void wr_hier_receive(struct wr_hier *h, struct wr_program *p, const struct wr_hier_item *item, uint32_t lane)
{
    struct wr_hier_part part = {.to = item->from};
    while (wr_hier_next_part(h, item, item->prev, &part))
        wr_program_wait(p, part.agent, WR_HIER_DATA + lane, ++h->received[part.agent]);
}

void wr_hier_send(struct wr_hier *h, struct wr_program *p, const struct wr_hier_item *item, uint32_t lane, uint64_t c)
{
    uint32_t iteration = (uint32_t)(c / h->nlanes);
    struct wr_hier_part part = {.to = item->from};
    while (wr_hier_next_part(h, item, item->next, &part)) {
        if (h->grant[part.agent] != c + 1) {
            h->grant[part.agent] = (uint32_t)c + 1;
            if (iteration)
                wr_program_wait(p, part.agent, WR_HIER_CREDIT + lane, iteration);
            else
                wr_program_wait_earlier(p, part.agent, WR_HIER_CREDIT + lane, wr_hier_iterations(h, lane));
        }
        bool straight = item->owner == h->node && !h->own_slot; /* from the user's buffer */
        struct wr_ref src =
            straight ? wr_ref(h->rank, WR_BUF_IN, c * h->chunk) : wr_hier_slot(h, h->rank, item->owner, part.from, lane, c);
        wr_program_put_signal(p, wr_hier_slot(h, part.agent, item->owner, part.from, lane, c), src,
                              wr_hier_sum(h, item->owner, part.from, part.to, c), WR_HIER_DATA + lane);
    }
}

void wr_hier_end_round(struct wr_hier *h, struct wr_program *p, uint32_t lane, uint64_t c)
{
    bool sent = false;
    for (int i = 0; i < h->topo->nnodes; i++)
        sent = sent || (h->item[i].next >= 0 && h->item[i].from < h->item[i].to);
    if (sent)
        wr_program_drain(p);
    for (int i = 0; i < h->topo->nnodes; i++) {
        const struct wr_hier_item *item = &h->item[i];
        struct wr_hier_part part = {.to = item->from};
        while (wr_hier_next_part(h, item, item->prev, &part)) {
            if (h->credit[part.agent] != c + 1)
                wr_program_signal(p, part.agent, WR_HIER_CREDIT + lane);
            h->credit[part.agent] = (uint32_t)c + 1;
        }
    }
}

static void fork_lanes(const struct wr_hier *h, struct wr_program *p, uint32_t lane)
{
    if (lane) {
        wr_program_wait(p, h->rank, WR_HIER_FORK + lane, 1);
        return;
    }
    wr_signal_mates(p, &h->mates, WR_HIER_START);
    wr_wait_mates(p, &h->mates, WR_HIER_START, 1);
    for (uint32_t i = 1; i < h->nlanes; i++)
        wr_program_signal(p, h->rank, WR_HIER_FORK + i);
}

void wr_hier_lane(struct wr_hier *h, struct wr_program *p, uint32_t lane, bool fork)
{
    wr_program_lane(p);
    if (fork)
        fork_lanes(h, p, lane);
    for (int i = 0; i < h->topo->nranks; i++)
        h->received[i] = 0;
}

void wr_hier_join(const struct wr_hier *h, struct wr_program *p, uint32_t lane)
{
    if (lane) {
        wr_program_signal(p, h->rank, WR_HIER_JOIN + lane);
        return;
    }
    for (uint32_t i = 1; i < h->nlanes; i++)
        wr_program_wait(p, h->rank, WR_HIER_JOIN + i, 1);
    wr_signal_mates(p, &h->mates, WR_HIER_DONE);
    wr_wait_mates(p, &h->mates, WR_HIER_DONE, 1);
}

weir_status wr_hier_finish(struct wr_hier *h, struct wr_program *p, weir_error *err)
{
    p->failed = p->failed || h->failed;
    wr_hier_free(h);
    return wr_program_finish(p, err);
}
