/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs as they are simulated: steps with their costs, counters by number. */
#include <stdlib.h>

#include "base/error.h"
#include "comm/plan/simulate_impl.h"

/* Makes room for one more of `size` bytes. */
static bool grow(struct wr_sim *sim, void **array, uint64_t *cap, uint64_t used, size_t size)
{
    if (used < *cap)
        return true;
    uint64_t more = *cap ? *cap + *cap / 2 : 256;
    void *larger = realloc(*array, more * size);
    if (!larger) {
        sim->failed = true;
        return false;
    }
    *array = larger;
    *cap = more;
    return true;
}

static uint64_t hash(uint64_t key)
{
    key ^= key >> 31;
    key *= 0x9e3779b97f4a7c15u;
    return key ^ key >> 29;
}

static bool rehash(struct wr_sim *sim)
{
    uint64_t buckets = sim->buckets ? sim->buckets * 2 : 1024;
    uint64_t *key = calloc(buckets, sizeof *key);
    uint32_t *index = malloc(buckets * sizeof *index);
    if (!key || !index) {
        free(key);
        free(index);
        sim->failed = true;
        return false;
    }
    for (uint64_t i = 0; i < sim->buckets; i++) {
        if (!sim->key[i])
            continue;
        uint64_t at = hash(sim->key[i]) & (buckets - 1);
        while (key[at])
            at = (at + 1) & (buckets - 1);
        key[at] = sim->key[i];
        index[at] = sim->index[i];
    }
    free(sim->key);
    free(sim->index);
    sim->key = key;
    sim->index = index;
    sim->buckets = buckets;
    return true;
}

/* The counter of (from, to, slot); it is made when it is new. */
static uint32_t counter(struct wr_sim *sim, int from, int to, uint32_t slot)
{
    uint64_t key = ((uint64_t)to << 42 | (uint64_t)from << 20 | slot) + 1;
    if (2 * (uint64_t)sim->ncounters >= sim->buckets && !rehash(sim))
        return 0;
    uint64_t at = hash(key) & (sim->buckets - 1);
    while (sim->key[at] && sim->key[at] != key)
        at = (at + 1) & (sim->buckets - 1);
    if (sim->key[at])
        return sim->index[at];
    uint64_t cap = sim->cap_counters;
    if (!grow(sim, (void **)&sim->counter, &cap, sim->ncounters, sizeof *sim->counter))
        return 0;
    sim->cap_counters = (uint32_t)cap;
    sim->key[at] = key;
    sim->index[at] = sim->ncounters;
    sim->counter[sim->ncounters] = (struct wr_sim_counter){.lane = WR_SIM_NONE};
    return sim->ncounters++;
}

/*
 * The counter that `rank` raises at `peer`. In a run of a period, a peer outside is the image of one inside, under a shift by
 * whole periods, and what it gets from `rank` is what the one inside gets from the image of `rank`.
 */
static uint32_t raised(struct wr_sim *sim, int rank, int peer, uint32_t slot)
{
    const struct wr_plan_topo *topo = sim->topo;
    int node = topo->node_of[peer], shift = node - node % sim->nodes;
    if (!shift)
        return counter(sim, rank, peer, slot);
    int ppn = topo->node_size[0], from = (topo->node_of[rank] - shift + topo->nnodes) % topo->nnodes;
    return counter(sim, from * ppn + topo->local_rank[rank], peer - shift * ppn, slot);
}

static uint64_t size_of(const struct wr_sim *sim, const struct wr_ref *ref)
{
    return ref->buffer == WR_BUF_SCRATCH ? sim->spec->partial_size : sim->spec->elem_size;
}

/* Costs of a COPY or REDUCE. */
static void load_local(const struct wr_sim *sim, const struct wr_step *step, const struct wr_ref *ref, struct wr_sim_op *op)
{
    uint64_t stored = step->len * size_of(sim, &ref[0]), loaded = 0;
    for (uint32_t i = 1; i < step->nrefs; i++)
        loaded += step->len * size_of(sim, &ref[i]);
    op->bytes = stored + loaded;
    op->core = sim->cost->step + (step->op == WR_STEP_COPY ? sim->cost->copy * (double)stored : sim->cost->reduce * (double)loaded);
}

static struct wr_sim_op load(struct wr_sim *sim, int rank, const struct wr_step *step, const struct wr_ref *ref)
{
    struct wr_sim_op op = {.op = step->op, .counter = WR_SIM_NONE, .peer = -1};
    if (step->op == WR_STEP_COPY || step->op == WR_STEP_REDUCE) {
        load_local(sim, step, ref, &op);
        return op;
    }
    if (step->op == WR_STEP_DRAIN)
        return op;
    op.peer = step->peer;
    if (sim->topo->node_of[rank] != sim->topo->node_of[step->peer])
        op.flags = WR_SIM_REMOTE;
    else if (rank == step->peer)
        op.flags = WR_SIM_SELF;
    if (step->op == WR_STEP_WAIT) {
        op.counter = counter(sim, step->peer, rank, step->slot);
        op.arg = step->value;
        return op;
    }
    op.arg = (uint32_t)sim->topo->node_of[step->peer];
    if (step->op == WR_STEP_PUT)
        op.bytes = step->len * size_of(sim, &ref[0]);
    if (step->op == WR_STEP_SIGNAL || step->flags & WR_STEP_SIGNALS) {
        op.flags |= WR_SIM_SIGNALS;
        op.counter = raised(sim, rank, step->peer, step->slot);
    }
    return op;
}

static void append(struct wr_sim *sim, const struct wr_sim_lane *lane, const struct wr_sim_op *op)
{
    struct wr_sim_op *last = sim->nops > lane->first ? &sim->op[sim->nops - 1] : NULL;
    if (last && op->op <= WR_STEP_REDUCE && last->op == op->op && last->bytes + op->bytes <= WR_SIM_PIECE) {
        last->bytes += op->bytes;
        last->core += op->core;
    } else if (grow(sim, (void **)&sim->op, &sim->cap_ops, sim->nops, sizeof *sim->op)) {
        sim->op[sim->nops++] = *op;
    }
}

weir_status wr_sim_load(struct wr_sim *sim, const struct wr_program *program)
{
    int rank = program->rank;
    sim->rank[rank] = (struct wr_sim_rank){.head = WR_SIM_NONE, .tail = WR_SIM_NONE, .running = program->nlanes};
    for (uint32_t i = 0; i < program->nlanes; i++) {
        uint64_t cap = sim->cap_lanes;
        if (!grow(sim, (void **)&sim->lane, &cap, sim->nlanes, sizeof *sim->lane))
            break;
        sim->cap_lanes = (uint32_t)cap;
        struct wr_sim_lane *lane = &sim->lane[sim->nlanes++];
        *lane = (struct wr_sim_lane){.rank = (uint32_t)rank, .index = i, .first = sim->nops, .pc = sim->nops};
        for (uint32_t k = program->lane[i]; k < program->lane[i + 1] && !sim->failed; k++) {
            const struct wr_step *step = &program->steps[k];
            if (step->op == WR_STEP_WAIT && step->flags & WR_STEP_EARLIER)
                continue;
            if (step->slot >= 1u << 20 || step->peer >= 1 << 22)
                return wr_error_set(sim->err, WEIR_ERR_UNSUPPORTED, "simulate fewer ranks",
                                    "rank %d signals rank %d in slot %u: more than the simulator can number", rank, step->peer,
                                    step->slot);
            struct wr_sim_op op = load(sim, rank, step, program->refs + step->first_ref);
            append(sim, lane, &op);
        }
        lane->end = sim->nops;
    }
    return sim->failed ? wr_error_memory(sim->err, sim->cap_ops * sizeof *sim->op, "simulating a plan") : WEIR_OK;
}
