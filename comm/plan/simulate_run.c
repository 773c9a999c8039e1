/* SPDX-License-Identifier: BSD-3-Clause */
/* One run: lanes on cores, copies on the memory bus, counters. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "comm/plan/simulate_impl.h"

static double core_at(const struct wr_sim *sim, const struct wr_sim_lane *lane, double time)
{
    return WR_MAX(time, sim->rank[lane->rank].core);
}

static void tell_step(const struct wr_sim *sim, const struct wr_sim_lane *lane, enum wr_sim_kind kind, int peer, uint64_t bytes,
                      double end)
{
    wr_sim_tell(sim, &(struct wr_sim_event){kind, (int)lane->rank, lane->index, peer, bytes, lane->begin, end, end});
}

/* The next piece of a copy, which begins now; true when it was the last, *time being its end. */
static bool copy_piece(struct wr_sim *sim, struct wr_sim_lane *lane, const struct wr_sim_op *op, double *time)
{
    struct wr_sim_server *bus = &sim->bus[sim->topo->node_of[lane->rank]];
    if (!lane->left) {
        lane->left = op->bytes;
        lane->begin = *time;
    }
    uint64_t piece = WR_MIN(lane->left, wr_sim_piece(op->bytes));
    double core = *time + op->core * ((double)piece / (double)op->bytes), moves = (double)piece / sim->cost->memory;
    bus->free = WR_MAX(bus->free, *time) + moves;
    bus->busy += moves;
    *time = WR_MAX(core, bus->free);
    sim->rank[lane->rank].core = *time;
    lane->left -= piece;
    sim->bytes[0] += piece;
    if (lane->left)
        return false;
    tell_step(sim, lane, op->op == WR_STEP_COPY ? WR_SIM_COPY : WR_SIM_REDUCE, -1, op->bytes, *time);
    return true;
}

static void signal(struct wr_sim *sim, uint32_t id, const struct wr_sim_op *op, double *time)
{
    struct wr_sim_lane *lane = &sim->lane[id];
    bool remote = op->flags & WR_SIM_REMOTE;
    *time = core_at(sim, lane, *time) + (remote ? sim->cost->overhead : sim->cost->step);
    sim->rank[lane->rank].core = *time;
    if (remote) {
        wr_sim_post(sim, id, op, *time);
        return;
    }
    double there = *time + (op->flags & WR_SIM_SELF ? 0 : sim->cost->flag);
    wr_sim_push(sim, there, WR_SIM_COUNT, op->counter, 0, 0);
    if (!(op->flags & WR_SIM_SELF))
        wr_sim_tell(sim, &(struct wr_sim_event){WR_SIM_FLAG, (int)lane->rank, lane->index, op->peer, 0, *time, there, *time});
}

/* Whether the lane may go on. */
static bool wait_for(struct wr_sim *sim, uint32_t id, const struct wr_sim_op *op, double *time)
{
    struct wr_sim_lane *lane = &sim->lane[id];
    struct wr_sim_counter *c = &sim->counter[op->counter];
    if (c->arrived < op->arg) {
        if (c->lane != id)
            lane->begin = *time;
        c->lane = id;
        c->want = op->arg;
        lane->ready = *time;
        return false;
    }
    if (c->lane == id) {
        tell_step(sim, lane, WR_SIM_WAIT, op->peer, 0, *time);
        c->lane = WR_SIM_NONE;
    }
    *time = core_at(sim, lane, *time) + (op->flags & WR_SIM_REMOTE ? sim->cost->overhead : sim->cost->step);
    sim->rank[lane->rank].core = *time;
    return true;
}

/* Until the lane's puts are acknowledged; meanwhile the core is there for other lanes. */
static bool drain(struct wr_sim *sim, uint32_t id, double *time)
{
    struct wr_sim_lane *lane = &sim->lane[id];
    if (!lane->draining)
        lane->begin = *time;
    lane->draining = lane->outstanding > 0 || lane->drained > *time;
    lane->ready = *time;
    if (lane->draining) {
        if (!lane->outstanding) /* else who sends the last of them pushes it */
            wr_sim_push(sim, lane->drained, WR_SIM_RUN, id, 0, 0);
        return false;
    }
    if (*time > lane->begin)
        tell_step(sim, lane, WR_SIM_DRAIN, -1, 0, *time);
    return true;
}

/* Runs a lane from `now` until it blocks, has to wait for its core or ends. */
static void run_lane(struct wr_sim *sim, uint32_t id, double now)
{
    struct wr_sim_lane *lane = &sim->lane[id];
    struct wr_sim_rank *rank = &sim->rank[lane->rank];
    double time = now;
    for (; lane->pc < lane->end; lane->pc++) {
        const struct wr_sim_op *op = &sim->op[lane->pc];
        if (op->op == WR_STEP_WAIT) {
            if (!wait_for(sim, id, op, &time))
                return;
        } else if (op->op == WR_STEP_DRAIN) {
            if (!drain(sim, id, &time))
                return;
        } else if (op->op == WR_STEP_COPY || op->op == WR_STEP_REDUCE) {
            /* what is shared is taken in the order of time only */
            if (core_at(sim, lane, time) > now) {
                wr_sim_push(sim, core_at(sim, lane, time), WR_SIM_RUN, id, 0, 0);
                return;
            }
            if (!copy_piece(sim, lane, op, &time)) {
                wr_sim_push(sim, time, WR_SIM_RUN, id, 0, 0);
                return;
            }
        } else {
            signal(sim, id, op, &time);
        }
    }
    if (lane->done || !drain(sim, id, &time))
        return;
    lane->done = true;
    rank->running--;
    rank->done = WR_MAX(rank->done, time);
}

static void count(struct wr_sim *sim, uint32_t id, double now)
{
    struct wr_sim_counter *c = &sim->counter[id];
    c->arrived++;
    if (c->lane == WR_SIM_NONE || c->arrived < c->want)
        return;
    double ready = sim->lane[c->lane].ready;
    c->want = UINT32_MAX; /* it is woken once */
    if (ready > now)
        wr_sim_push(sim, ready, WR_SIM_RUN, c->lane, 0, 0);
    else
        run_lane(sim, c->lane, now);
}

static weir_status stuck(const struct wr_sim *sim)
{
    for (uint32_t i = 0; i < sim->nlanes; i++) {
        const struct wr_sim_lane *lane = &sim->lane[i];
        if (lane->done)
            continue;
        const struct wr_sim_op *op = &sim->op[lane->pc];
        return wr_error_set(sim->err, WEIR_ERR_INTERNAL, "verify the plan",
                            "the plan does not end: rank %u, lane %u waits for signal %u from rank %d, and %u came", lane->rank,
                            lane->index, op->arg, op->peer, sim->counter[op->counter].arrived);
    }
    return WEIR_OK;
}

static weir_status run(struct wr_sim *sim)
{
    struct wr_sim_item item;
    for (uint32_t i = 0; i < sim->nlanes; i++)
        wr_sim_push(sim, 0, WR_SIM_RUN, i, 0, 0);
    while (!sim->failed && wr_sim_pop(sim, &item)) {
        if (item.kind == WR_SIM_RUN)
            run_lane(sim, item.id, item.time);
        else if (item.kind == WR_SIM_SEND)
            wr_sim_send(sim, item.id, item.time);
        else if (item.kind == WR_SIM_HEAD)
            wr_sim_head(sim, &item);
        else
            count(sim, item.id, item.time);
    }
    return sim->failed ? wr_error_memory(sim->err, sim->cap_heap * sizeof *sim->heap, "simulating a plan") : stuck(sim);
}

/* ---- set up, results, tear down ---- */

static weir_status set_up(struct wr_sim *sim)
{
    size_t nodes = (size_t)sim->nodes, nics = nodes * (size_t)sim->rails, groups = nodes * (size_t)sim->levels + 1;
    sim->rank = calloc((size_t)sim->ranks, sizeof *sim->rank);
    sim->bus = calloc(nodes, sizeof *sim->bus);
    sim->out = calloc(nics, sizeof *sim->out);
    sim->in = calloc(nics, sizeof *sim->in);
    sim->up = calloc(groups, sizeof *sim->up);
    sim->down = calloc(groups, sizeof *sim->down);
    sim->egress = calloc(nodes, sizeof *sim->egress);
    sim->ingress = calloc(nodes, sizeof *sim->ingress);
    sim->spare = WR_SIM_NONE;
    if (!sim->rank || !sim->bus || !sim->out || !sim->in || !sim->up || !sim->down || !sim->egress || !sim->ingress)
        return wr_error_memory(sim->err, nics * sizeof *sim->out, "simulating a plan");
    return WEIR_OK;
}

static weir_status load_all(struct wr_sim *sim, const struct wr_algorithm *algorithm, const struct wr_program *programs)
{
    weir_status status = WEIR_OK;
    for (int r = 0; r < sim->ranks && status == WEIR_OK; r++) {
        struct wr_program program;
        if (programs) {
            status = wr_sim_load(sim, &programs[r]);
            continue;
        }
        status = algorithm->build(sim->spec, r, &program, sim->err);
        if (status != WEIR_OK)
            break;
        status = wr_sim_load(sim, &program);
        wr_program_free(&program);
    }
    return status;
}

static void gather(const struct wr_sim *sim, struct wr_sim_result *result)
{
    uint64_t times = (uint64_t)(sim->topo->nnodes / sim->nodes);
    memset(result, 0, sizeof *result);
    result->nodes = sim->nodes;
    result->ranks = sim->ranks;
    result->steps = sim->nops;
    result->events = sim->events;
    for (int r = 0; r < sim->ranks; r++) {
        result->time = WR_MAX(result->time, sim->rank[r].done);
        result->first = r ? WR_MIN(result->first, sim->rank[r].done) : sim->rank[r].done;
    }
    for (int l = 0; l < WR_SIM_LEVELS; l++)
        result->bytes[l] = sim->bytes[l] * times;
    for (int n = 0; n < sim->nodes; n++) {
        result->max_egress = WR_MAX(result->max_egress, sim->egress[n]);
        result->max_ingress = WR_MAX(result->max_ingress, sim->ingress[n]);
        result->memory_busy = WR_MAX(result->memory_busy, sim->bus[n].busy);
    }
    for (int i = 0; i < sim->nodes * sim->rails; i++) {
        result->out_busy = WR_MAX(result->out_busy, sim->out[i].busy);
        result->in_busy = WR_MAX(result->in_busy, sim->in[i].busy);
    }
    result->bound = wr_sim_bound(sim->spec, sim->cost);
}

static void tear_down(struct wr_sim *sim)
{
    free(sim->op);
    free(sim->lane);
    free(sim->rank);
    free(sim->counter);
    free(sim->key);
    free(sim->index);
    free(sim->message);
    free(sim->heap);
    free(sim->bus);
    free(sim->out);
    free(sim->in);
    free(sim->up);
    free(sim->down);
    free(sim->egress);
    free(sim->ingress);
}

weir_status wr_sim_run(const struct wr_plan_spec *spec, const struct wr_algorithm *algorithm, const struct wr_program *programs,
                       int nodes, const struct wr_cost *cost, const struct wr_sim_options *options,
                       struct wr_sim_result *result, weir_error *err)
{
    static const struct wr_sim_options none;
    const struct wr_plan_topo *topo = spec->topo;
    struct wr_sim sim = {.spec = spec, .topo = topo, .cost = cost, .options = options ? options : &none, .err = err,
                         .nodes = nodes, .rails = (int)cost->rails, .levels = WR_MIN(topo->nlevels, WR_COST_LEVELS)};
    sim.ranks = nodes == topo->nnodes ? topo->nranks : nodes * topo->node_size[0];
    weir_status status = set_up(&sim);
    if (status == WEIR_OK)
        status = load_all(&sim, algorithm, programs);
    if (status == WEIR_OK)
        status = run(&sim);
    if (status == WEIR_OK) {
        gather(&sim, result);
        result->method = nodes == topo->nnodes ? WR_SIM_FULL : WR_SIM_CLASSES;
    }
    tear_down(&sim);
    return status;
}
