/* SPDX-License-Identifier: BSD-3-Clause */
/* The symbolic run: lanes, signals, executions, deadlock. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "comm/plan/verify_impl.h"

enum { MOST_STEPS = 1 << 29 }; /* so that ticks of two executions stay below 2^31 */

static weir_status no_memory(struct wr_verifier *v)
{
    return wr_error_memory(v->err, v->nlanes * sizeof *v->lane, "verifying a plan");
}

/* ---- signals ---- */

static void wake(struct wr_verifier *v, uint32_t lane)
{
    if (lane == WR_VERIFY_NONE || v->lane[lane].queued || v->lane[lane].done)
        return;
    v->lane[lane].queued = true;
    v->queue[(v->queue_head + v->queue_len++) % v->nlanes] = lane;
}

static weir_status emit(struct wr_verifier *v, struct wr_vlane *lane, struct wr_vcounter *c)
{
    uint32_t len = (uint32_t)(c->arrived - c->gone);
    if (len == c->cap) {
        uint32_t cap = c->cap ? c->cap * 2 : 2;
        struct wr_vsnap *larger = malloc(cap * sizeof *larger);
        if (!larger)
            return no_memory(v);
        for (uint32_t i = 0; i < len; i++)
            larger[i] = c->queue[(c->head + i) % c->cap];
        free(c->queue);
        c->queue = larger;
        c->cap = cap;
        c->head = 0;
    }
    lane->clock->refs++;
    c->queue[(c->head + len) % c->cap] = (struct wr_vsnap){lane->clock, lane->tick};
    c->arrived++;
    wake(v, c->to_lane);
    return WEIR_OK;
}

/* What the lane learns from the signal at the head of the queue. */
static void learn(struct wr_verifier *v, struct wr_vlane *lane, const struct wr_vcounter *c,
                  const struct wr_vsnap *snap)
{
    wr_vdim me = wr_vdim_of(0, (uint32_t)(lane - v->lane)), from = wr_vdim_of(c->shift, c->from_lane);
    if (from != me && wr_vclock_at(&v->clocks, lane->clock, from) < snap->tick) {
        wr_vclock_merge(&v->clocks, &lane->clock, snap->clock, c->shift);
        wr_vclock_raise(&v->clocks, &lane->clock, from, snap->tick);
    }
    if (c->channel != WR_VERIFY_NONE)
        wr_vclock_raise(&v->clocks, &lane->clock, wr_vdim_of(c->shift, c->channel), snap->tick);
}

static uint64_t wait_target(const struct wr_verifier *v, const struct wr_vlane *lane, const struct wr_step *step)
{
    const struct wr_vcounter *c = &v->counter[v->aux[v->rank[lane->rank].aux + lane->first + lane->pc].counter];
    uint64_t before = (uint64_t)v->rank[lane->rank].execution * c->sent;
    return step->flags & WR_STEP_EARLIER ? before : before + step->value;
}

/* Whether the lane may go on. */
static bool wait_for(struct wr_verifier *v, struct wr_vlane *lane, const struct wr_step *step)
{
    struct wr_vcounter *c = &v->counter[v->aux[v->rank[lane->rank].aux + lane->first + lane->pc].counter];
    uint64_t target = wait_target(v, lane, step);
    if (c->arrived < target)
        return false;
    for (; c->gone < target; c->gone++) {
        struct wr_vsnap *snap = &c->queue[c->head];
        if (c->gone + 1 == target) /* of one lane: the latest knows what the earlier ones knew */
            learn(v, lane, c, snap);
        wr_vclock_unref(&v->clocks, snap->clock);
        c->head = (c->head + 1) % c->cap;
    }
    return true;
}

/* ---- lanes and executions ---- */

/* Runs a lane until it blocks or ends. */
static weir_status run_lane(struct wr_verifier *v, struct wr_vlane *lane)
{
    const struct wr_vrank *rank = &v->rank[lane->rank];
    for (; lane->pc < lane->steps; lane->pc++) {
        const struct wr_step *step = &rank->program->steps[lane->first + lane->pc];
        struct wr_vcounter *counter = &v->counter[v->aux[rank->aux + lane->first + lane->pc].counter];
        weir_status status = WEIR_OK;
        lane->tick = wr_vtick(lane, rank->execution, lane->pc);
        if (step->op == WR_STEP_WAIT && !wait_for(v, lane, step))
            return WEIR_OK;
        if (step->op <= WR_STEP_PUT)
            status = wr_verify_step(v, lane, step);
        if (status == WEIR_OK &&
            (step->op == WR_STEP_SIGNAL || (step->op == WR_STEP_PUT && step->flags & WR_STEP_SIGNALS)))
            status = emit(v, lane, counter);
        if (status == WEIR_OK && v->clocks.failed)
            status = no_memory(v);
        if (status != WEIR_OK)
            return status;
    }
    lane->done = true;
    return WEIR_OK;
}

static weir_status start_rank(struct wr_verifier *v, int r, struct wr_vclock *clock)
{
    struct wr_vrank *rank = &v->rank[r];
    rank->running = rank->program->nlanes;
    for (uint32_t i = 0; i < rank->program->nlanes; i++)
        wr_vclock_raise(&v->clocks, &clock, rank->first_lane + i,
                        wr_vtick_start(&v->lane[rank->first_lane + i], rank->execution));
    for (uint32_t i = 0; i < rank->program->nlanes; i++) {
        struct wr_vlane *lane = &v->lane[rank->first_lane + i];
        lane->pc = 0;
        lane->done = false;
        lane->tick = wr_vtick_start(lane, rank->execution);
        lane->clock = clock;
        clock->refs += i > 0;
        wake(v, rank->first_lane + i);
    }
    return wr_verify_start(v, r);
}

static weir_status end_rank(struct wr_verifier *v, int r)
{
    struct wr_vrank *rank = &v->rank[r];
    struct wr_vclock *end = NULL;
    for (uint32_t i = 0; i < rank->program->nlanes; i++) {
        struct wr_vlane *lane = &v->lane[rank->first_lane + i];
        if (!end) {
            end = lane->clock;
        } else {
            wr_vclock_merge(&v->clocks, &end, lane->clock, 0);
            wr_vclock_unref(&v->clocks, lane->clock);
        }
        lane->clock = NULL;
    }
    for (uint32_t i = 0; i < rank->program->nlanes; i++) {
        struct wr_vlane *lane = &v->lane[rank->first_lane + i];
        wr_vclock_raise(&v->clocks, &end, rank->first_lane + i, wr_vtick(lane, rank->execution, lane->steps));
    }
    weir_status status = v->clocks.failed ? no_memory(v) : wr_verify_end(v, r, end);
    if (status != WEIR_OK || rank->execution + 1 == WR_VERIFY_EXECUTIONS) {
        rank->ended = true;
        wr_vclock_unref(&v->clocks, end);
        return status;
    }
    rank->execution++;
    return start_rank(v, r, end);
}

static weir_status deadlock(struct wr_verifier *v)
{
    for (uint32_t i = 0; i < v->nlanes; i++) {
        struct wr_vlane *lane = &v->lane[i];
        if (lane->done || v->rank[lane->rank].ended)
            continue;
        const struct wr_step *step = &v->rank[lane->rank].program->steps[lane->first + lane->pc];
        const struct wr_vcounter *c = &v->counter[v->aux[v->rank[lane->rank].aux + lane->first + lane->pc].counter];
        return wr_verify_fail(
            v, lane, "deadlock: in execution %u it waits for signal %llu from rank %d in slot %u, and %llu came",
            v->rank[lane->rank].execution + 1, (unsigned long long)wait_target(v, lane, step), step->peer, step->slot,
            (unsigned long long)c->arrived);
    }
    return WEIR_OK;
}

static weir_status run(struct wr_verifier *v)
{
    weir_status status = WEIR_OK;
    for (int r = 0; r < v->period && status == WEIR_OK; r++) {
        struct wr_vclock *clock = wr_vclock_new(&v->clocks);
        status = clock ? wr_verify_keep(v, r, &clock) : no_memory(v);
        if (status == WEIR_OK)
            status = start_rank(v, r, clock);
        else
            wr_vclock_unref(&v->clocks, clock);
    }
    while (v->queue_len && status == WEIR_OK) {
        struct wr_vlane *lane = &v->lane[v->queue[v->queue_head]];
        v->queue_head = (v->queue_head + 1) % v->nlanes;
        v->queue_len--;
        lane->queued = false;
        if (lane->done) /* its images' signals have woken it once more */
            continue;
        status = run_lane(v, lane);
        if (status == WEIR_OK && lane->done && --v->rank[lane->rank].running == 0)
            status = end_rank(v, lane->rank);
    }
    return status == WEIR_OK ? deadlock(v) : status;
}

/* ---- set up and tear down ---- */

static weir_status set_up_lanes(struct wr_verifier *v, const struct wr_program *programs)
{
    uint64_t steps = 0;
    int n = v->period;
    v->rank = calloc((size_t)n, sizeof *v->rank);
    v->result.egress = calloc((size_t)v->topo->nnodes, sizeof *v->result.egress);
    v->result.ingress = calloc((size_t)v->topo->nnodes, sizeof *v->result.ingress);
    if (!v->rank || !v->result.egress || !v->result.ingress)
        return no_memory(v);
    for (int r = 0; r < n; r++) {
        const struct wr_program *p = &programs[r];
        bool sound = p->nlanes && p->lane[0] == 0 && p->lane[p->nlanes] == p->nsteps && p->nsteps <= MOST_STEPS;
        for (uint32_t i = 0; sound && i < p->nlanes; i++)
            sound = p->lane[i] <= p->lane[i + 1];
        if (!sound)
            return wr_error_set(v->err, WEIR_ERR_INTERNAL, NULL, "the lanes of rank %d are not its steps", r);
        v->rank[r] = (struct wr_vrank){.program = p, .first_lane = v->nlanes, .aux = steps};
        steps += p->nsteps;
        v->nlanes += p->nlanes;
        v->result.refs += p->nrefs;
        v->result.max_lanes = WR_MAX(v->result.max_lanes, p->nlanes);
        v->result.max_scratch = WR_MAX(v->result.max_scratch, p->scratch);
    }
    v->result.steps = steps;
    v->lane = calloc(v->nlanes, sizeof *v->lane);
    v->aux = calloc(steps + 1, sizeof *v->aux);
    v->queue = calloc(v->nlanes, sizeof *v->queue);
    if (!v->lane || !v->aux || !v->queue)
        return no_memory(v);
    for (int r = 0; r < n; r++)
        for (uint32_t i = 0; i < programs[r].nlanes; i++)
            v->lane[v->rank[r].first_lane + i] =
                (struct wr_vlane){.rank = r,
                                  .index = i,
                                  .first = programs[r].lane[i],
                                  .steps = programs[r].lane[i + 1] - programs[r].lane[i]};
    return WEIR_OK;
}

static weir_status set_up_memory(struct wr_verifier *v)
{
    int n = v->topo->nranks;
    v->mem = calloc((size_t)v->period * 3, sizeof *v->mem);
    v->place = calloc((size_t)n + 1, sizeof *v->place);
    v->operand = calloc((size_t)v->noperands + 1, sizeof *v->operand);
    v->ids = calloc((size_t)v->noperands + 1, sizeof *v->ids);
    v->cursor = calloc((size_t)v->noperands + 1, sizeof *v->cursor);
    v->within = calloc((size_t)v->noperands + 1, sizeof *v->within);
    if (!v->mem || !v->place || !v->operand || !v->ids || !v->cursor || !v->within || !wr_vvalues_init(&v->values, n))
        return no_memory(v);
    for (int r = 0; r < n; r++) {
        uint64_t in = wr_plan_in_len(v->spec, r), out = wr_plan_out_len(v->spec, r);
        if (wr_verify_in_place(v->spec, r))
            out = WR_MAX(out, wr_plan_in_offset(v->spec, r) + in);
        v->place[r + 1] = v->place[r] + in;
        if (r >= v->period)
            continue;
        v->mem[r * 3 + WR_BUF_IN].len = in;
        if (!wr_vmem_init(&v->mem[r * 3 + WR_BUF_OUT], out) ||
            !wr_vmem_init(&v->mem[r * 3 + WR_BUF_SCRATCH], v->rank[r].program->scratch))
            return no_memory(v);
    }
    v->clocks.npages = (v->ndims + WR_VERIFY_PAGE - 1) / WR_VERIFY_PAGE;
    return WEIR_OK;
}

static void tear_down(struct wr_verifier *v)
{
    for (uint32_t i = 0; v->lane && i < v->nlanes; i++)
        wr_vclock_unref(&v->clocks, v->lane[i].clock);
    for (uint32_t i = 0; i < v->ncounters; i++) {
        const struct wr_vcounter *c = &v->counter[i];
        for (uint32_t k = 0; k < c->arrived - c->gone; k++)
            wr_vclock_unref(&v->clocks, c->queue[(c->head + k) % c->cap].clock);
        free(c->queue);
    }
    for (int i = 0; v->mem && i < v->period * 3; i++)
        wr_vmem_free(&v->mem[i]);
    for (int i = 0; v->users && i < v->period * 3; i++)
        free(v->users[i].at);
    free(v->users);
    for (uint32_t i = 0; v->operand && i <= v->noperands; i++)
        free(v->operand[i].at);
    free(v->outcome.at);
    free(v->parts.at);
    free(v->reads.at);
    free(v->rank);
    free(v->lane);
    free(v->aux);
    free(v->queue);
    free(v->dim_lane);
    free(v->counter);
    free(v->counter_hash);
    free(v->mem);
    free(v->place);
    free(v->operand);
    free(v->ids);
    free(v->cursor);
    free(v->within);
    wr_vvalues_free(&v->values);
    wr_vclocks_free(&v->clocks);
}

/* What was counted of one period is that of all; the nodes' bytes repeat. */
static void count_images(struct wr_verifier *v)
{
    struct wr_verify_result *r = &v->result;
    uint64_t images = v->clocks.shifts;
    int nodes = v->topo->nnodes / (int)images;
    r->steps *= images;
    r->refs *= images;
    r->signals *= images;
    r->local_bytes *= images;
    r->network_bytes *= images;
    for (int k = 0; k < v->topo->nnodes; k++) { /* received was by the images of those that are run */
        r->egress[k] = r->egress[k % nodes];
        r->ingress[k % nodes] += k < nodes ? 0 : r->ingress[k];
    }
    for (int k = nodes; k < v->topo->nnodes; k++)
        r->ingress[k] = r->ingress[k % nodes];
}

weir_status wr_verify_run(const struct wr_plan_spec *spec, const struct wr_program *programs, const struct wr_verify_shape *shape,
                          bool sparse, struct wr_verify_result *result, weir_error *err)
{
    struct wr_verifier v = {.spec = spec, .topo = spec->topo, .err = err, .period = shape->period};
    v.clocks.sparse = sparse;
    v.clocks.shifts = shape->shifts;
    v.values.nranks = (uint32_t)spec->topo->nranks;
    if (shape->shifts > 1) {
        v.unit = wr_verify_share(spec) * (uint64_t)shape->period;
        v.total = v.unit * shape->shifts;
    }
    v.result.nnodes = spec->topo->nnodes;
    v.result.same_at_all = true;
    weir_status status = set_up_lanes(&v, programs);
    if (status == WEIR_OK)
        status = wr_verify_prepare(&v);
    if (status == WEIR_OK)
        status = set_up_memory(&v);
    if (status == WEIR_OK)
        status = run(&v);
    if (status == WEIR_OK && shape->shifts > 1)
        count_images(&v);
    tear_down(&v);
    if (status == WEIR_OK && result)
        *result = v.result;
    else
        wr_verify_result_free(&v.result);
    return status;
}

weir_status wr_verify_programs(const struct wr_plan_spec *spec, const struct wr_program *programs,
                               struct wr_verify_result *result, weir_error *err)
{
    return wr_verify_run(spec, programs, &(struct wr_verify_shape){spec->topo->nranks, 1}, false, result, err);
}

weir_status wr_programs_build(const struct wr_plan_spec *spec, const struct wr_algorithm *algorithm,
                              struct wr_program **programs, weir_error *err)
{
    int n = spec->topo->nranks;
    struct wr_program *p = calloc((size_t)n, sizeof *p);
    if (!p)
        return wr_error_memory(err, (size_t)n * sizeof *p, "the programs of all ranks");
    for (int r = 0; r < n; r++) {
        weir_status status = algorithm->build(spec, r, &p[r], err);
        if (status != WEIR_OK) {
            wr_programs_free(p, n);
            return status;
        }
    }
    *programs = p;
    return WEIR_OK;
}

void wr_programs_free(struct wr_program *programs, int n)
{
    for (int r = 0; programs && r < n; r++)
        wr_program_free(&programs[r]);
    free(programs);
}

weir_status wr_verify(const struct wr_plan_spec *spec, const struct wr_algorithm *algorithm,
                      struct wr_verify_result *result, weir_error *err)
{
    struct wr_program *programs;
    weir_status status = wr_programs_build(spec, algorithm, &programs, err);
    if (status != WEIR_OK)
        return status;
    status = wr_verify_programs(spec, programs, result, err);
    wr_programs_free(programs, spec->topo->nranks);
    return status;
}

void wr_verify_result_free(struct wr_verify_result *result)
{
    free(result->egress);
    free(result->ingress);
    memset(result, 0, sizeof *result);
}
