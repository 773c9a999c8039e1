/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gradients that travel as int8, in the manner of ZeRO++ (Wang et al., 2023). Each part of a section has an *agent* on every node: its
 * owner on the owner's node, elsewhere the rank with the owner's local rank (modulo the ranks of the node). First the ranks of a node
 * send each agent its parts, packed; the agent adds them to its own in fp32 and packs the sums of the node for owners elsewhere. Then
 * agents send these to the owners, who add them up in fp32. Nothing is summed up in int8, and what a rank adds itself is exact.
 *
 * Where all nodes have as many ranks, those with the same local rank exchange sums among themselves. Sums are made block by block, so
 * they need no memory: of two exchanges in turn, the second one's data stands where that of the first has gone.
 */
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/error.h"
#include "optim/zero.h"

enum { SENT, SENT_AT, GOT, GOT_AT };

/* ---- who ---- */

/* Who adds up the part of `owner` on a node, as a rank of `shard`. */
static int agent(const struct wr_zero_quant *q, int node, int owner)
{
    return weir_topo_node_rank(q->topo, node, weir_topo_local_rank(q->topo, owner) % weir_topo_node_size(q->topo, node));
}

static bool is_mine(const weir_zero *zero, int owner)
{
    return agent(&zero->q, zero->q.my_node, owner) == zero->my_shard;
}

/* The next part after `owner` (-1: the first) that this rank adds up; nshard: there is none. */
static int next_mine(const weir_zero *zero, int owner)
{
    do
        owner++;
    while (owner < zero->nshard && !is_mine(zero, owner));
    return owner;
}

/* A rank of `shard` in `rail`. */
static int on_rail(const struct wr_zero_quant *q, int r)
{
    return q->equal ? weir_topo_node(q->topo, r) : r;
}

/* ---- where ---- */

static uint64_t part_bytes(const weir_zero *zero, const struct wr_zero_section *s, int owner)
{
    return wr_quant_bytes(wr_zero_part(s, owner), zero->o.quant_block);
}

/* All parts that the rank with local rank l adds up. */
static uint64_t bundle_bytes(const weir_zero *zero, const struct wr_zero_section *s, int local)
{
    uint64_t bytes = 0;
    int r = weir_topo_node_rank(zero->q.topo, zero->q.my_node, local);
    for (int owner = 0; owner < zero->nshard; owner++)
        bytes += agent(&zero->q, zero->q.my_node, owner) == r ? part_bytes(zero, s, owner) : 0;
    return bytes;
}

/*
 * What a job has: `in` holds the bundles of the other ranks of the node, one after the other; `out` what is sent to them, then sums
 * for other nodes and, after these, the sums of other nodes.
 */
struct room {
    unsigned char *in, *out;
    uint64_t bundle; /* bytes of one in `in` */
};

/* Bytes of `in` and `out` for a section. */
static uint64_t room_bytes(const weir_zero *zero, const struct wr_zero_section *s)
{
    const struct wr_zero_quant *q = &zero->q;
    uint64_t bundle = bundle_bytes(zero, s, q->local), first = 0, second = (uint64_t)(q->nnodes - 1) * part_bytes(zero, s, zero->my_shard);
    for (int l = 0; l < q->nlocal; l++)
        first += l == q->local ? 0 : bundle_bytes(zero, s, l);
    second += bundle - part_bytes(zero, s, zero->my_shard);
    return (uint64_t)(q->nlocal - 1) * bundle + WR_MAX(first, second);
}

static struct room room_of(const weir_zero *zero, const struct wr_zero_job *job)
{
    uint64_t number = (uint64_t)(job - zero->g.jobs) % WR_ZERO_QUANT_JOBS;
    unsigned char *base = (unsigned char *)weir_mem_ptr(zero->q.memory) + number * zero->q.bytes;
    uint64_t bundle = bundle_bytes(zero, &zero->l.sections[job->section], zero->q.local);
    return (struct room){base, base + (uint64_t)(zero->q.nlocal - 1) * bundle, bundle};
}

/* ---- making ---- */

/* Twice the largest section: what it takes where nodes have as many ranks. */
static uint64_t job_bytes(const weir_zero_options *o, const struct wr_zero_layout *l)
{
    uint64_t most = 0;
    for (uint64_t i = 0; i < l->nsections; i++) {
        uint64_t bytes = 0;
        for (int r = 0; l->sections[i].trainable && r < l->ranks; r++)
            bytes += wr_quant_bytes(wr_zero_part(&l->sections[i], r), o->quant_block);
        most = WR_MAX(most, bytes);
    }
    return (2 * most + 63) / 64 * 64;
}

uint64_t wr_zero_quant_grad_room(const weir_zero_options *o, const struct wr_zero_layout *l)
{
    return o->flags & WEIR_ZERO_QUANTIZED_GRADS && l->ranks > 1 ? WR_ZERO_QUANT_JOBS * job_bytes(o, l) : 0;
}

static void look_around(weir_zero *zero)
{
    struct wr_zero_quant *q = &zero->q;
    q->my_node = weir_topo_node(q->topo, zero->my_shard);
    q->local = weir_topo_local_rank(q->topo, zero->my_shard);
    q->nlocal = weir_topo_node_size(q->topo, q->my_node);
    q->nnodes = weir_topo_nnodes(q->topo);
    q->equal = true;
    for (int k = 0; k < q->nnodes; k++)
        q->equal &= weir_topo_node_size(q->topo, k) == q->nlocal;
}

static weir_status make_comms(weir_zero *zero)
{
    struct wr_zero_quant *q = &zero->q;
    weir_status status = WEIR_OK;
    if (!q->equal || q->nlocal > 1) /* somewhere are several ranks on a node */
        status = weir_comm_split(zero->shard, q->my_node, q->local, &q->node);
    if (status != WEIR_OK || q->nnodes == 1)
        return status;
    q->own_rail = q->equal && q->nlocal > 1;
    q->rail = zero->shard;
    return q->own_rail ? weir_comm_split(zero->shard, q->local, q->my_node, &q->rail) : WEIR_OK;
}

weir_status wr_zero_quant_grad_prepare(weir_zero *zero)
{
    uint64_t **counts = zero->q.counts, n = (uint64_t)zero->nshard;
    for (int i = 0; i < 4; i++)
        if (!(counts[i] = calloc(n, sizeof *counts[i])))
            return wr_error_memory(&zero->error, n * sizeof *counts[i], "the numbers of an exchange");
    return WEIR_OK;
}

weir_status wr_zero_quant_grad_create(weir_zero *zero)
{
    struct wr_zero_quant *q = &zero->q;
    weir_status status = weir_comm_topo(zero->shard, &q->topo);
    if (status != WEIR_OK)
        return wr_zero_comm_failed(zero, status);
    look_around(zero);
    if ((status = make_comms(zero)) != WEIR_OK)
        return wr_zero_comm_failed(zero, status);
    q->bytes = job_bytes(&zero->o, &zero->l);
    for (uint64_t i = 0; i < zero->l.nsections; i++)
        q->bytes = WR_MAX(q->bytes, zero->l.sections[i].trainable ? (room_bytes(zero, &zero->l.sections[i]) + 63) / 64 * 64 : 0);
    status = weir_mem_alloc(zero->shard, WR_ZERO_QUANT_JOBS * q->bytes, 0, &q->memory);
    if (status != WEIR_OK)
        return wr_zero_comm_failed(zero, status);
    wr_zero_count(zero, (int64_t)(WR_ZERO_QUANT_JOBS * q->bytes));
    return WEIR_OK;
}

void wr_zero_quant_grad_destroy(weir_zero *zero)
{
    struct wr_zero_quant *q = &zero->q;
    if (q->memory)
        weir_mem_free(q->memory);
    if (q->own_rail && q->rail)
        weir_comm_free(q->rail);
    if (q->node)
        weir_comm_free(q->node);
    for (int i = 0; i < 4; i++)
        free(q->counts[i]);
}

/* ---- exchanges ---- */

/* Starts an exchange of what counts say; the next phase begins when it has completed. */
static weir_status exchange(weir_zero *zero, weir_comm *comm, struct wr_zero_job *job, const struct room *room)
{
    uint64_t *const *c = zero->q.counts;
    for (int r = 0; r < weir_comm_size(comm); r++)
        wr_zero_count_sent(zero, comm == zero->q.node, c[SENT][r]);
    return weir_ialltoallv(comm, room->out, c[SENT], c[SENT_AT], room->in, c[GOT], c[GOT_AT], WEIR_UINT8, &job->request);
}

/* Packs the parts that another rank of the node adds up. Returns their bytes. */
static uint64_t pack_bundle(const weir_zero *zero, const struct wr_zero_job *job, int to, unsigned char *at)
{
    const struct wr_zero_section *s = &zero->l.sections[job->section];
    const unsigned char *begin = at;
    for (int owner = 0; owner < zero->nshard; owner++) {
        if (agent(&zero->q, zero->q.my_node, owner) != to)
            continue;
        wr_quant_pack(at, job->data + wr_zero_bound(s, owner) * zero->gsize, (weir_type)zero->o.grad_type, wr_zero_part(s, owner),
                      zero->o.quant_block);
        at += part_bytes(zero, s, owner);
    }
    return (uint64_t)(at - begin);
}

weir_status wr_zero_quant_grad_begin(weir_zero *zero, struct wr_zero_job *job)
{
    const struct wr_zero_quant *q = &zero->q;
    struct room room = room_of(zero, job);
    uint64_t sent = 0, got = 0;
    job->phase = WR_ZERO_IN_NODE;
    if (q->nlocal == 1)
        return WEIR_OK;
    for (int l = 0; l < q->nlocal; l++) {
        bool other = l != q->local;
        q->counts[SENT_AT][l] = sent;
        q->counts[GOT_AT][l] = got;
        q->counts[SENT][l] = other ? pack_bundle(zero, job, weir_topo_node_rank(q->topo, q->my_node, l), room.out + sent) : 0;
        q->counts[GOT][l] = other ? room.bundle : 0;
        sent += q->counts[SENT][l];
        got += q->counts[GOT][l];
    }
    return exchange(zero, q->node, job, &room);
}

/* ---- sums ---- */

/* The sum of this node over elements at .. at + m - 1 of a part, which stands at `offset` in each bundle. */
static void sum_node(const weir_zero *zero, const struct wr_zero_job *job, const struct room *room, int owner, uint64_t offset, uint64_t at,
                     uint64_t m, float *sum)
{
    const struct wr_zero_section *s = &zero->l.sections[job->section];
    const unsigned char *own = job->data + (wr_zero_bound(s, owner) + at) * zero->gsize;
    weir_convert(sum, WEIR_FP32, own, (weir_type)zero->o.grad_type, m);
    for (uint64_t i = 0; i + 1 < (uint64_t)zero->q.nlocal; i++)
        wr_quant_add(sum, room->in + i * room->bundle + offset, wr_zero_part(s, owner), zero->o.quant_block, at, m);
}

/* Packs the sum of this node over a part. */
static void pack_sum(const weir_zero *zero, const struct wr_zero_job *job, const struct room *room, int owner, uint64_t offset, unsigned char *to)
{
    float sum[WR_QUANT_MOST];
    uint64_t n = wr_zero_part(&zero->l.sections[job->section], owner), block = zero->o.quant_block;
    for (uint64_t at = 0; at < n; at += block) {
        uint64_t m = WR_MIN(n - at, block);
        sum_node(zero, job, room, owner, offset, at, m, sum);
        wr_quant_put(to, sum, n, block, at, m);
    }
}

/* Where sums of other nodes come in. */
static unsigned char *sums_in(const weir_zero *zero, const struct wr_zero_job *job, const struct room *room)
{
    return room->out + room->bundle - part_bytes(zero, &zero->l.sections[job->section], zero->my_shard);
}

weir_status wr_zero_quant_grad_across(weir_zero *zero, struct wr_zero_job *job)
{
    const struct wr_zero_quant *q = &zero->q;
    const struct wr_zero_section *s = &zero->l.sections[job->section];
    struct room room = room_of(zero, job), second = {.in = sums_in(zero, job, &room), .out = room.out};
    uint64_t offset = 0, sent = 0, got = 0, own = part_bytes(zero, s, zero->my_shard);
    job->phase = WR_ZERO_SCATTERING;
    if (!q->rail)
        return WEIR_OK;
    for (int i = 0; i < 4; i++)
        memset(q->counts[i], 0, (size_t)zero->nshard * sizeof *q->counts[i]);
    for (int owner = next_mine(zero, -1); owner < zero->nshard; owner = next_mine(zero, owner)) {
        uint64_t bytes = part_bytes(zero, s, owner);
        if (owner != zero->my_shard) {
            pack_sum(zero, job, &room, owner, offset, room.out + sent);
            q->counts[SENT][on_rail(q, owner)] = bytes;
            q->counts[SENT_AT][on_rail(q, owner)] = sent;
            sent += bytes;
        }
        offset += bytes;
    }
    for (int node = 0; node < q->nnodes; node++) {
        int from = on_rail(q, agent(q, node, zero->my_shard));
        if (node == q->my_node)
            continue;
        q->counts[GOT][from] = own;
        q->counts[GOT_AT][from] = got;
        got += own;
    }
    return exchange(zero, q->rail, job, &second);
}

bool wr_zero_quant_grad_direct(const weir_zero *zero)
{
    return wr_zero_quantized_grads(zero) && zero->o.reduce == WEIR_ZERO_REDUCE_EVERY && zero->nreplica == 1;
}

/* Elements at .. at + m - 1 of this rank's part are summed up. The result is never ahead of what is still to be read. */
static void put_sum(const weir_zero *zero, struct wr_zero_job *job, uint64_t at, const float *sum, uint64_t m)
{
    weir_type type;
    if (!wr_zero_quant_grad_direct(zero)) {
        weir_convert(job->data + at * zero->rsize, (weir_type)zero->o.reduce_type, sum, WEIR_FP32, m);
        return;
    }
    float *to = (float *)wr_zero_grad_of(zero, job->section, &type) + at;
    bool over = job->round == 0 && !job->extra;
    for (uint64_t i = 0; i < m; i++)
        to[i] = over ? sum[i] : to[i] + sum[i];
}

void wr_zero_quant_grad_end(weir_zero *zero, struct wr_zero_job *job)
{
    const struct wr_zero_section *s = &zero->l.sections[job->section];
    struct room room = room_of(zero, job);
    const unsigned char *in = sums_in(zero, job, &room);
    uint64_t n = wr_zero_part(s, zero->my_shard), block = zero->o.quant_block, own = part_bytes(zero, s, zero->my_shard), offset = 0;
    float sum[WR_QUANT_MOST];
    for (int owner = next_mine(zero, -1); owner != zero->my_shard; owner = next_mine(zero, owner))
        offset += part_bytes(zero, s, owner);
    for (uint64_t at = 0; at < n; at += block) {
        uint64_t m = WR_MIN(n - at, block);
        sum_node(zero, job, &room, zero->my_shard, offset, at, m, sum);
        for (uint64_t k = 0; k + 1 < (uint64_t)zero->q.nnodes; k++)
            wr_quant_add(sum, in + k * own, n, block, at, m);
        put_sum(zero, job, at, sum, m);
    }
}
