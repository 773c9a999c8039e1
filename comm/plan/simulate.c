/* SPDX-License-Identifier: BSD-3-Clause */
/* How a simulation is done: in full, by classes, or as a line through two smaller ones. */
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "comm/plan/simulate_impl.h"

enum { MAX_STEPS = 16000000, CLASSES_FROM = 512, CHUNKS = 16, MOST_CHUNKS = 1024, FEWEST_CHUNKS = 4, DEFAULT_CHUNK = 1 << 15 };
enum { BEAT = 8 }; /* chunks go through lanes and their buffers in turn: at most 4 times 2 */

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

/* A spec with `chunks` chunks or a few more, as long as the given one in its last chunk and with as many of them modulo BEAT. */
static struct wr_plan_spec fewer_chunks(const struct wr_plan_spec *spec, uint64_t chunks)
{
    struct wr_plan_spec less = *spec;
    uint64_t u = unit(spec);
    less.count = (chunks + spec->count / u % BEAT) * u + spec->count % u;
    return less;
}

static bool has_chunks(const struct wr_plan_spec *spec)
{
    return !spec->counts && spec->count / unit(spec) > 2 * FEWEST_CHUNKS + BEAT;
}

/* Steps of programs. */
struct load {
    double mean, longest;
};

/* Of the programs of a rank in the middle of the machine, of the first of its node, which may lead the others, and of the root. */
static weir_status program_steps(const struct choice *how, const struct wr_plan_spec *spec, struct load *load)
{
    const struct wr_plan_topo *topo = spec->topo;
    int node = topo->nnodes / 2, ppn = topo->node_size[node];
    int at[] = {topo->node_ranks[node][0], topo->node_ranks[node][ppn - 1], spec->root};
    double steps[3];
    for (int i = 0; i < 3; i++) {
        struct wr_program p;
        weir_status status = how->algorithm->build(spec, at[i], &p, how->err);
        if (status != WEIR_OK)
            return status;
        steps[i] = p.nsteps;
        wr_program_free(&p);
    }
    load->mean = (steps[0] + (ppn - 1) * steps[1]) / ppn + steps[2] / topo->nranks;
    load->longest = WR_MAX(WR_MAX(steps[0], steps[1]), steps[2]);
    return WEIR_OK;
}

/* About how many steps programs have, without building them at their full length. */
static weir_status estimate(const struct choice *how, const struct wr_plan_spec *spec, struct load *load)
{
    if (!has_chunks(spec))
        return program_steps(how, spec, load);
    struct wr_plan_spec one = fewer_chunks(spec, 2), two = fewer_chunks(spec, 4), little = *spec;
    struct load a, b;
    little.count = unit(spec) / 8; /* some move less at a time than others */
    weir_status status = program_steps(how, &little, &a);
    if (status == WEIR_OK && a.longest > (double)how->max_steps / 16) {
        double times = (double)(spec->count / little.count);
        *load = (struct load){a.mean * times, a.longest * times};
        return WEIR_OK;
    }
    if (status == WEIR_OK)
        status = program_steps(how, &one, &a);
    if (status == WEIR_OK)
        status = program_steps(how, &two, &b);
    double times = (double)(spec->count - two.count) / (double)(two.count - one.count);
    if (status == WEIR_OK)
        *load = (struct load){b.mean + (b.mean - a.mean) * times, b.longest + (b.longest - a.longest) * times};
    return status;
}

/* ---- lines ---- */

/* The value at `x` of the line through (x1, a) and (x2, b), never below b. */
static double line(double a, double b, double x1, double x2, double x)
{
    return WR_MAX(b, b + (b - a) * ((x - x2) / (x2 - x1)));
}

/* `nodes` of the three: bytes are taken a node, because those of a node may grow with the machine. */
static void draw_line(struct wr_sim_result *r, const struct wr_sim_result *a, const struct wr_sim_result *b, double x1, double x2,
                      double x, const int nodes[3])
{
    *r = *b;
    r->method = WR_SIM_FIT;
    r->steps = a->steps + b->steps;
    r->events = a->events + b->events;
    r->time = line(a->time, b->time, x1, x2, x);
    r->first = line(a->first, b->first, x1, x2, x);
    for (int i = 0; i < WR_SIM_LEVELS; i++)
        r->bytes[i] = (uint64_t)(nodes[2] * line((double)a->bytes[i] / nodes[0], (double)b->bytes[i] / nodes[1], x1, x2, x));
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

/* By how much longer something is busy: once a pipeline is full no chunk takes less than that. */
static double more_busy(const struct wr_sim_result *a, const struct wr_sim_result *b)
{
    double network = WR_MAX(b->out_busy - a->out_busy, b->in_busy - a->in_busy);
    return WR_MAX(network, b->memory_busy - a->memory_busy);
}

/* Runs of `chunks` and twice as many. */
static weir_status by_chunks(const struct choice *how, const struct wr_plan_spec *spec, uint64_t chunks,
                             struct wr_sim_result *result)
{
    struct wr_plan_spec one = fewer_chunks(spec, chunks), two = fewer_chunks(spec, 2 * chunks);
    struct wr_sim_result a, b;
    int n = spec->topo->nnodes;
    weir_status status = choose(how, &one, &a);
    if (status == WEIR_OK)
        status = choose(how, &two, &b);
    if (status != WEIR_OK)
        return status;
    double each = WR_MAX(b.time - a.time, more_busy(&a, &b)) / (double)(two.count - one.count);
    draw_line(result, &a, &b, (double)one.count, (double)two.count, (double)spec->count, (const int[]){n, n, n});
    result->time = b.time + each * (double)(spec->count - two.count);
    snprintf(result->how, sizeof result->how, "closed form: %.4g us and %.4g us a chunk, from runs of %llu and %llu chunks",
             (b.time - each * (double)two.count) / 1e3, each * (double)unit(spec) / 1e3,
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

/* Nodes of a machine that is a quarter of what can be run at ease, a multiple of `group`; 0: none. */
static weir_status small_machine(const struct choice *how, const struct wr_plan_spec *spec, int group, int *small)
{
    struct wr_plan_topo topo;
    for (int nodes = spec->topo->nnodes / group / 8 * group; nodes >= 4 * group; nodes = nodes / group / 2 * group) {
        struct wr_plan_spec less = fewer_nodes(spec, nodes, &topo), probe;
        struct load load;
        int period;
        probe = has_chunks(&less) ? fewer_chunks(&less, 2 * FEWEST_CHUNKS) : less;
        weir_status status = estimate(how, &probe, &load);
        if (status == WEIR_OK && load.longest > (double)how->max_steps / 16)
            continue;
        if (status == WEIR_OK)
            status = wr_sim_period(&probe, how->algorithm, &period, how->err);
        if (status != WEIR_OK)
            return status;
        if (4 * load.mean * 4 * period * topo.node_size[0] <= (double)how->max_steps) {
            *small = nodes;
            return WEIR_OK;
        }
    }
    *small = 0;
    return WEIR_OK;
}

/* Three machines, each twice as large as the one before, must lie on a line. */
static weir_status by_nodes(const struct choice *how, const struct wr_plan_spec *spec, double steps, struct wr_sim_result *result)
{
    int group, small = 0, n = spec->topo->nnodes;
    bool uneven = spec->coll == WR_COLL_ALLREDUCE && spec->count % (uint64_t)spec->topo->nranks;
    if (spec->counts || uneven || !wr_sim_regular(spec->topo, &group))
        return too_long(how, spec, steps);
    weir_status status = small_machine(how, spec, group, &small);
    struct wr_sim_result r[3];
    for (int i = 0; i < 3 && status == WEIR_OK && small; i++) {
        struct wr_plan_topo topo;
        struct wr_plan_spec less = fewer_nodes(spec, small << i, &topo);
        status = choose(how, &less, &r[i]);
    }
    if (status != WEIR_OK)
        return status;
    double slope = small ? (r[2].time - r[1].time) / (2 * small) : 0, earlier = small ? (r[1].time - r[0].time) / small : 0;
    if (!small || slope < 0.9 * earlier || slope > 1.1 * earlier)
        return too_long(how, spec, steps);
    draw_line(result, &r[1], &r[2], 2 * small, 4 * small, n, (const int[]){2 * small, 4 * small, n});
    snprintf(result->how, sizeof result->how, "closed form: %.4g us and %.4g us a node, from runs of %d, %d and %d nodes",
             (r[2].time - slope * 4 * small) / 1e3, slope / 1e3, small, 2 * small, 4 * small);
    return WEIR_OK;
}

/* Until a pipeline is full, chunks run into each other on their way through the nodes, which takes some chunks for each node. */
static uint64_t chunks_until_full(const struct wr_plan_spec *spec)
{
    uint64_t chunks = CHUNKS;
    while (chunks < 4 * (uint64_t)spec->topo->nnodes && chunks < MOST_CHUNKS)
        chunks *= 2;
    return chunks;
}

/* A line, through runs with as many chunks as are needed, or as can be run, or with fewer nodes. */
static weir_status by_line(const struct choice *how, const struct wr_plan_spec *spec, double programs, double steps,
                           struct wr_sim_result *result)
{
    for (uint64_t chunks = chunks_until_full(spec); has_chunks(spec) && chunks >= FEWEST_CHUNKS; chunks /= 2) {
        struct wr_plan_spec less = fewer_chunks(spec, 2 * chunks);
        struct load each;
        if (less.count >= spec->count)
            continue;
        weir_status status = estimate(how, &less, &each);
        if (status != WEIR_OK)
            return status;
        if (each.mean * programs <= (double)how->max_steps)
            return by_chunks(how, spec, chunks, result);
    }
    return by_nodes(how, spec, steps, result);
}

static weir_status choose(const struct choice *how, const struct wr_plan_spec *spec, struct wr_sim_result *result)
{
    const struct wr_plan_topo *topo = spec->topo;
    int period = topo->nnodes, wish = how->options ? how->options->classes : 0;
    bool pictures = how->options && how->options->event;
    struct load load;
    weir_status status = estimate(how, spec, &load);
    if (status != WEIR_OK)
        return status;
    /* shorter programs tell as well whether nodes look alike */
    struct wr_plan_spec probe = *spec;
    if (has_chunks(spec))
        probe.count = unit(spec);
    bool many = topo->nranks > CLASSES_FROM || load.mean * topo->nranks > (double)how->max_steps;
    double share = spec->count ? (double)probe.count / (double)spec->count : 1;
    if (!pictures && wish >= 0 && (wish > 0 || many) && load.longest * share < (double)how->max_steps / 4)
        status = wr_sim_period(&probe, how->algorithm, &period, how->err);
    if (status != WEIR_OK)
        return status;
    double programs = period == topo->nnodes ? topo->nranks : period * topo->node_size[0];
    double steps = load.mean * programs;
    if (steps > (double)how->max_steps)
        return pictures ? too_long(how, spec, steps) : by_line(how, spec, programs, steps, result);
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
