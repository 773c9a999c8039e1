/* SPDX-License-Identifier: BSD-3-Clause */
/* How a simulation is done: in full, by classes, or as a line through two smaller ones. */
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "comm/plan/simulate_impl.h"

enum { MAX_STEPS = 16000000, CLASSES_FROM = 512, CHUNKS = 16, DEFAULT_CHUNK = 1 << 15 };

struct choice {
    const struct wr_algorithm *algorithm;
    const struct wr_cost *cost;
    const struct wr_sim_options *options;
    uint64_t max_steps;
    weir_error *err;
};

/* The count that adds one chunk to every share. */
static uint64_t unit(const struct wr_plan_spec *spec)
{
    uint64_t chunk = spec->chunk ? spec->chunk : DEFAULT_CHUNK;
    return spec->coll == WR_COLL_ALLREDUCE ? chunk * (uint64_t)spec->topo->nranks : chunk;
}

/* A spec with `chunks` chunks or one more, as long as the given one in its last chunk and with as many of them modulo 2, because
 * chunks go through two lanes or buffers in turn. */
static struct wr_plan_spec fewer_chunks(const struct wr_plan_spec *spec, uint64_t chunks)
{
    struct wr_plan_spec less = *spec;
    uint64_t u = unit(spec);
    less.count = (chunks + (spec->count / u) % 2) * u + spec->count % u;
    return less;
}

static bool has_chunks(const struct wr_plan_spec *spec)
{
    return !spec->counts && spec->count / unit(spec) > 2 * CHUNKS + 2;
}

/* Steps of the longest program among some, as they are. */
static weir_status program_steps(const struct choice *how, const struct wr_plan_spec *spec, double *steps)
{
    int n = spec->topo->nranks, at[] = {0, n / 2, n - 1, spec->root};
    *steps = 0;
    for (size_t i = 0; i < WR_ARRAY_SIZE(at); i++) {
        struct wr_program p;
        weir_status status = how->algorithm->build(spec, at[i], &p, how->err);
        if (status != WEIR_OK)
            return status;
        *steps = WR_MAX(*steps, (double)p.nsteps);
        wr_program_free(&p);
    }
    return WEIR_OK;
}

/* About how many steps a program has, without building it at its full length. */
static weir_status estimate(const struct choice *how, const struct wr_plan_spec *spec, double *steps)
{
    if (!has_chunks(spec))
        return program_steps(how, spec, steps);
    struct wr_plan_spec one = fewer_chunks(spec, 2), two = fewer_chunks(spec, 4);
    double a, b;
    weir_status status = program_steps(how, &one, &a);
    if (status == WEIR_OK)
        status = program_steps(how, &two, &b);
    if (status == WEIR_OK)
        *steps = b + (b - a) * ((double)(spec->count - two.count) / (double)(two.count - one.count));
    return status;
}

/* ---- lines ---- */

/* The value at `x` of the line through (x1, a) and (x2, b), never below b. */
static double line(double a, double b, double x1, double x2, double x)
{
    return WR_MAX(b, b + (b - a) * ((x - x2) / (x2 - x1)));
}

static void draw_line(struct wr_sim_result *r, const struct wr_sim_result *a, const struct wr_sim_result *b, double x1, double x2,
                      double x)
{
    *r = *b;
    r->method = WR_SIM_FIT;
    r->steps = a->steps + b->steps;
    r->events = a->events + b->events;
    r->time = line(a->time, b->time, x1, x2, x);
    r->first = line(a->first, b->first, x1, x2, x);
    for (int i = 0; i < WR_SIM_LEVELS; i++)
        r->bytes[i] = (uint64_t)line((double)a->bytes[i], (double)b->bytes[i], x1, x2, x);
    r->max_egress = (uint64_t)line((double)a->max_egress, (double)b->max_egress, x1, x2, x);
    r->max_ingress = (uint64_t)line((double)a->max_ingress, (double)b->max_ingress, x1, x2, x);
    r->out_busy = line(a->out_busy, b->out_busy, x1, x2, x);
    r->in_busy = line(a->in_busy, b->in_busy, x1, x2, x);
    r->memory_busy = line(a->memory_busy, b->memory_busy, x1, x2, x);
}

static weir_status choose(const struct choice *how, const struct wr_plan_spec *spec, struct wr_sim_result *result);

static weir_status too_long(const struct choice *how, const struct wr_plan_spec *spec, double steps)
{
    return wr_error_set(how->err, WEIR_ERR_UNSUPPORTED, "ask for fewer ranks, longer chunks or fewer bytes",
                        "%s:%s for %d ranks has about %.3g steps, more than the simulator takes, and no regular shape",
                        wr_collective_name(spec->coll), how->algorithm->name, spec->topo->nranks, steps);
}

static weir_status by_chunks(const struct choice *how, const struct wr_plan_spec *spec, struct wr_sim_result *result)
{
    struct wr_plan_spec one = fewer_chunks(spec, CHUNKS), two = fewer_chunks(spec, 2 * CHUNKS);
    struct wr_sim_result a, b;
    weir_status status = choose(how, &one, &a);
    if (status == WEIR_OK)
        status = choose(how, &two, &b);
    if (status != WEIR_OK)
        return status;
    draw_line(result, &a, &b, (double)one.count, (double)two.count, (double)spec->count);
    snprintf(result->how, sizeof result->how, "closed form: %.4g us and %.4g us a chunk, from runs of %llu and %llu chunks",
             (b.time - (b.time - a.time) / (double)(two.count - one.count) * (double)two.count) / 1e3,
             (b.time - a.time) / (double)(two.count - one.count) * (double)unit(spec) / 1e3,
             (unsigned long long)(one.count / unit(spec)), (unsigned long long)(two.count / unit(spec)));
    return WEIR_OK;
}

/* The same call on the first `nodes` nodes. */
static struct wr_plan_spec fewer_nodes(const struct wr_plan_spec *spec, int nodes, struct wr_plan_topo *topo)
{
    struct wr_plan_spec less = *spec;
    *topo = *spec->topo;
    topo->nnodes = nodes;
    topo->nranks = nodes * topo->node_size[0];
    while (topo->nlevels && topo->group_of[topo->nlevels - 1][nodes - 1] == topo->group_of[topo->nlevels - 1][0])
        topo->nlevels--; /* one group of all says nothing */
    less.topo = topo;
    less.root = spec->root % topo->nranks;
    if (spec->coll == WR_COLL_ALLREDUCE)
        less.count = spec->count / (uint64_t)spec->topo->nnodes * (uint64_t)nodes;
    return less;
}

static weir_status by_nodes(const struct choice *how, const struct wr_plan_spec *spec, double steps, struct wr_sim_result *result)
{
    int group, n = spec->topo->nnodes, nodes = n;
    struct wr_plan_topo t1, t2;
    if (spec->counts || !wr_sim_regular(spec->topo, &group) ||
        (spec->coll == WR_COLL_ALLREDUCE && spec->count % (uint64_t)spec->topo->nranks))
        return too_long(how, spec, steps);
    /* programs get shorter with the machine, and there are fewer of them unless classes stand for them */
    for (double left = 0; nodes > 4 * group; nodes /= 2) {
        struct wr_plan_spec less = fewer_nodes(spec, nodes / group * group, &t2);
        int period = t2.nnodes;
        weir_status status = wr_sim_period(&less, how->algorithm, &period, how->err);
        if (status == WEIR_OK)
            status = program_steps(how, &less, &left);
        if (status != WEIR_OK)
            return status;
        if (left * period * t2.node_size[0] <= (double)how->max_steps / 8)
            break;
    }
    nodes = nodes / group * group;
    int half = nodes / 2 / group * group;
    if (nodes >= n || half < 2 * group)
        return too_long(how, spec, steps);
    struct wr_plan_spec one = fewer_nodes(spec, half, &t1), two = fewer_nodes(spec, nodes, &t2);
    struct wr_sim_result a, b;
    weir_status status = choose(how, &one, &a);
    if (status == WEIR_OK)
        status = choose(how, &two, &b);
    if (status != WEIR_OK)
        return status;
    draw_line(result, &a, &b, half, nodes, n);
    snprintf(result->how, sizeof result->how, "closed form: %.4g us and %.4g us a node, from runs of %d and %d nodes",
             (b.time - (b.time - a.time) / (nodes - half) * nodes) / 1e3, (b.time - a.time) / (nodes - half) / 1e3, half, nodes);
    return WEIR_OK;
}

static weir_status choose(const struct choice *how, const struct wr_plan_spec *spec, struct wr_sim_result *result)
{
    const struct wr_plan_topo *topo = spec->topo;
    int period = topo->nnodes, wish = how->options ? how->options->classes : 0;
    bool pictures = how->options && how->options->event;
    double steps = 0;
    weir_status status = estimate(how, spec, &steps);
    /* shorter programs tell as well whether nodes look alike */
    struct wr_plan_spec probe = has_chunks(spec) ? fewer_chunks(spec, 2) : *spec;
    bool many = topo->nranks > CLASSES_FROM || steps * topo->nranks > (double)how->max_steps;
    if (status == WEIR_OK && !pictures && wish >= 0 && (wish > 0 || many))
        status = wr_sim_period(&probe, how->algorithm, &period, how->err);
    if (status != WEIR_OK)
        return status;
    double all = steps * (period == topo->nnodes ? topo->nranks : period * topo->node_size[0]);
    if (all > (double)how->max_steps)
        return pictures             ? too_long(how, spec, all)
               : has_chunks(spec) ? by_chunks(how, spec, result)
                                    : by_nodes(how, spec, all, result);
    status = wr_sim_run(spec, how->algorithm, NULL, period, how->cost, how->options, result, how->err);
    if (status != WEIR_OK)
        return status;
    if (result->method == WR_SIM_FULL)
        snprintf(result->how, sizeof result->how, "all %d ranks", topo->nranks);
    else
        snprintf(result->how, sizeof result->how, "by classes: %d of %d nodes (%d ranks) stand for all", period, topo->nnodes,
                 period * topo->node_size[0]);
    return WEIR_OK;
}

weir_status wr_simulate(const struct wr_plan_spec *spec, const struct wr_algorithm *algorithm, const struct wr_cost *cost,
                        const struct wr_sim_options *options, struct wr_sim_result *result, weir_error *err)
{
    struct choice how = {algorithm, cost, options, options && options->max_steps ? options->max_steps : MAX_STEPS, err};
    struct wr_sim_result r;
    if (!algorithm->applies(spec))
        return wr_error_set(err, WEIR_ERR_UNSUPPORTED, "choose another algorithm", "%s:%s does not serve this call",
                            wr_collective_name(spec->coll), algorithm->name);
    weir_status status = choose(&how, spec, &r);
    if (status != WEIR_OK)
        return status;
    r.bound = wr_sim_bound(spec, cost);
    *result = r;
    return WEIR_OK;
}

weir_status wr_simulate_programs(const struct wr_plan_spec *spec, const struct wr_program *programs, const struct wr_cost *cost,
                                 const struct wr_sim_options *options, struct wr_sim_result *result, weir_error *err)
{
    weir_status status = wr_sim_run(spec, NULL, programs, spec->topo->nnodes, cost, options, result, err);
    if (status == WEIR_OK)
        snprintf(result->how, sizeof result->how, "all %d ranks", spec->topo->nranks);
    return status;
}
