/* SPDX-License-Identifier: BSD-3-Clause */
/* How long lists take: a clock a stage, and one beside it for gathers and reductions. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "optim/pipe.h"

struct stage_clock {
    double now, collective; /* until when computing, and gathers and reductions, are busy */
    double first, last;
    bool started;
};

struct simulation {
    const weir_pipe_lists *lists;
    weir_pipe_costs costs;
    weir_pipe_event_fn event;
    void *user;
    struct stage_clock *clock;
    double *gathered; /* by stage and chunk: when its parameters are there */
};

static double cost_of(const weir_pipe_costs *c, int op)
{
    switch (op) {
    case WEIR_PIPE_OP_F: return c->f;
    case WEIR_PIPE_OP_I: return c->i;
    case WEIR_PIPE_OP_W: return c->w;
    case WEIR_PIPE_OP_B: return c->i + c->w;
    case WEIR_PIPE_OP_UNSHARD: return c->unshard;
    case WEIR_PIPE_OP_REDUCE_GRAD: return c->reduce;
    default: return 0;
    }
}

static void visit(void *user, int stage, int64_t index, struct wr_pipe_message *message)
{
    struct simulation *sim = user;
    const weir_pipe_instr *instr = &sim->lists->instrs[stage][index];
    struct stage_clock *clock = &sim->clock[stage];
    double *gathered = &sim->gathered[stage * sim->lists->chunks + instr->chunk];
    double begin = clock->now, end = begin;
    if (instr->op <= WEIR_PIPE_OP_B) {
        if (instr->op != WEIR_PIPE_OP_W)
            begin = WR_MAX(begin, *gathered);
        end = clock->now = begin + cost_of(&sim->costs, instr->op);
        clock->first = clock->started ? clock->first : begin;
        clock->started = true;
        clock->last = WR_MAX(clock->last, end);
    } else if (wr_pipe_is_send(instr->op)) {
        end = clock->now = message->before ? WR_MAX(begin, message->before->freed) : begin;
        message->time = end + sim->costs.comm;
    } else if (wr_pipe_is_recv(instr->op)) {
        end = clock->now = message->freed = WR_MAX(begin, message->time);
    } else if (instr->op != WEIR_PIPE_OP_RESHARD) {
        begin = WR_MAX(begin, clock->collective);
        end = clock->collective = begin + cost_of(&sim->costs, instr->op);
        if (instr->op == WEIR_PIPE_OP_UNSHARD)
            *gathered = end;
        else
            clock->last = WR_MAX(clock->last, end);
    }
    if (sim->event) {
        weir_pipe_event event = {.stage = stage, .index = index, .instr = *instr, .begin = begin, .end = end};
        sim->event(sim->user, &event);
    }
}

static weir_status read_costs(const weir_pipe_costs *given, weir_pipe_costs *c, weir_error *err)
{
    *c = (weir_pipe_costs)WEIR_PIPE_COSTS_INIT;
    if (given)
        memcpy(c, given, WR_MIN(given->size, sizeof *c));
    const double all[] = {c->f, c->i, c->w, c->comm, c->unshard, c->reduce};
    double most = 0;
    for (size_t i = 0; i < WR_ARRAY_SIZE(all); i++) {
        if (!(all[i] >= 0 && all[i] <= 1e15))
            return wr_error_set(err, WEIR_ERR_INVALID, NULL, "a cost of %g is not between 0 and 1e15", all[i]);
        most = i < 3 ? WR_MAX(most, all[i]) : most;
    }
    return most > 0 ? WEIR_OK : wr_error_set(err, WEIR_ERR_INVALID, NULL, "F, I and W all cost nothing");
}

static void summarise(const struct simulation *sim, weir_pipe_result *result)
{
    const weir_pipe_lists *l = sim->lists;
    weir_pipe_result r = {.size = WR_MIN(result->size, sizeof r)};
    double first = sim->clock[0].first;
    for (int s = 0; s < l->stages; s++) {
        first = WR_MIN(first, sim->clock[s].first);
        r.time = WR_MAX(r.time, sim->clock[s].last);
        r.span = WR_MAX(r.span, sim->clock[s].last - sim->clock[s].first);
    }
    r.time -= first;
    r.work = (double)(l->microbatches * l->chunks) * (sim->costs.f + sim->costs.i + sim->costs.w);
    r.bubble = 1 - r.work / r.span;
    r.bubble_barrier = 1 - r.work / r.time;
    memcpy(result, &r, r.size);
}

weir_status weir_pipe_simulate(const weir_pipe_lists *lists, const weir_pipe_costs *costs, weir_pipe_event_fn event, void *user,
                               weir_pipe_result *result, weir_error *error)
{
    struct simulation sim = {.lists = lists, .event = event, .user = user};
    struct wr_pipe_play play = {.lists = lists, .buffers = lists ? lists->buffers : 0, .visit = visit, .user = &sim};
    weir_pipe_stage_report ignored = {0};
    weir_status status = wr_pipe_lists_valid(lists, error);
    if (status == WEIR_OK)
        status = read_costs(costs, &sim.costs, error);
    for (int s = 0; status == WEIR_OK && s < lists->stages; s++)
        status = wr_pipe_check_stage(lists, s, &ignored, error);
    if (status != WEIR_OK)
        return status;
    size_t cells = (size_t)(lists->stages * lists->chunks);
    sim.clock = calloc((size_t)lists->stages, sizeof *sim.clock);
    sim.gathered = calloc(cells, sizeof *sim.gathered);
    status = sim.clock && sim.gathered ? wr_pipe_play(&play, error)
                                       : wr_error_memory(error, cells * sizeof *sim.gathered, "a simulation");
    if (status == WEIR_OK)
        summarise(&sim, result);
    free(sim.gathered);
    free(sim.clock);
    return status;
}
