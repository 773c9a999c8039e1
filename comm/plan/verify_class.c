/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The proof by classes. Where the machine looks the same from every node, or every few nodes, ranks that are as many nodes apart are
 * in one class, and the proof has three parts:
 * 1. the machine is the same when all ranks are shifted by one period (checked of all ranks);
 * 2. the program of a rank is that of its model, one of the first period, shifted: peers and owners of memory by as many ranks,
 *    places of the vector by as many shares, round the end of the vector (checked step by step, see alike());
 * 3. the models' programs are right when all images run in lockstep with them (the symbolic run of verify.c).
 * Since what one wait names is the same in all schedules, the lockstep schedule proves all others, too.
 * Without symmetry all ranks are models.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "comm/plan/verify_impl.h"

enum { MAX_STEPS = 32000000 };
static const uint64_t MAX_COMPARED = 500000000u; /* steps of programs, and ranks that are looked at to build them */

struct classes {
    const struct wr_plan_spec *spec;
    const struct wr_algorithm *algorithm;
    struct wr_verify_shape shape;
    uint64_t unit, total;
    struct wr_program *model; /* shape.period of them */
    struct wr_program plain, other; /* of two that are compared */
    weir_error *err;
};

/* ---- the machine ---- */

/* Whether ranks that are one period apart are on nodes that are `nodes` apart, all the same way. */
static bool repeats(const struct wr_plan_topo *topo, int nodes, int *period)
{
    int ranks = 0, n = topo->nranks;
    for (int k = 0; k < nodes; k++)
        ranks += topo->node_size[k];
    if (n % ranks || n / ranks != topo->nnodes / nodes)
        return false;
    for (int r = 0; r + ranks < n; r++)
        if (topo->node_of[r + ranks] != topo->node_of[r] + nodes || topo->local_rank[r + ranks] != topo->local_rank[r])
            return false;
    for (int l = 0; l < topo->nlevels; l++) {
        const int *group = topo->group_of[l];
        int groups = nodes < topo->nnodes ? group[nodes] - group[0] : 0;
        for (int k = 0; k + nodes < topo->nnodes; k++)
            if (groups <= 0 || group[k + nodes] != group[k] + groups)
                return false;
    }
    *period = ranks;
    return true;
}

uint64_t wr_verify_share(const struct wr_plan_spec *spec)
{
    uint64_t n = (uint64_t)spec->topo->nranks;
    return spec->coll == WR_COLL_BARRIER ? 0 : spec->coll == WR_COLL_ALLREDUCE ? spec->count / n : spec->count;
}

/* Whether the collective itself is the same for all ranks, but for a shift. */
static bool equal_parts(const struct wr_plan_spec *s)
{
    if (s->counts || s->pairs || s->out_shared)
        return false;
    switch (s->coll) {
    case WR_COLL_BARRIER:
    case WR_COLL_ALLGATHER:
    case WR_COLL_ALLTOALL:
        return true;
    case WR_COLL_ALLREDUCE:
        return s->count % (uint64_t)s->topo->nranks == 0;
    case WR_COLL_REDUCE_SCATTER:
        return !s->in_place; /* where the first share takes the result */
    default:
        return false;
    }
}

static void find_shape(struct classes *c)
{
    const struct wr_plan_topo *topo = c->spec->topo;
    c->shape = (struct wr_verify_shape){topo->nranks, 1};
    for (int nodes = 1; nodes < topo->nnodes && equal_parts(c->spec) && c->shape.shifts == 1; nodes++)
        if (topo->nnodes % nodes == 0 && repeats(topo, nodes, &c->shape.period))
            c->shape.shifts = (uint32_t)(topo->nnodes / nodes);
    c->unit = wr_verify_share(c->spec) * (uint64_t)c->shape.period;
    c->total = c->unit * c->shape.shifts;
}

/* ---- programs ---- */

/* A place as it looks from the model's frame. */
static struct wr_ref model_ref(const struct classes *c, struct wr_ref ref, uint32_t shift)
{
    int n = c->spec->topo->nranks;
    uint64_t by = shift * c->unit;
    ref.rank = (ref.rank + n - (int)shift * c->shape.period) % n;
    if (wr_vrotates(c->spec, ref.buffer))
        ref.offset = ref.offset >= by ? ref.offset - by : ref.offset + c->total - by;
    return ref;
}

/* Whether b begins where the `len` elements from a on end. */
static bool continues(const struct classes *c, const struct wr_ref *a, const struct wr_ref *b, uint64_t len)
{
    uint64_t end = a->offset + len;
    if (c->total && wr_vrotates(c->spec, a->buffer))
        end %= c->total;
    return a->rank == b->rank && a->buffer == b->buffer && b->offset == end;
}

static bool joins(const struct classes *c, const struct wr_program *p, uint32_t first, const struct wr_step *s, const struct wr_ref *refs)
{
    const struct wr_step *last = p->nsteps > first ? &p->steps[p->nsteps - 1] : NULL;
    if (!last || last->op > WR_STEP_PUT || last->op != s->op || last->flags != s->flags || s->flags & WR_STEP_SIGNALS ||
        last->nrefs != s->nrefs)
        return false;
    for (uint32_t i = 0; i < s->nrefs; i++)
        if (!continues(c, &p->refs[last->first_ref + i], &refs[i], last->len))
            return false;
    return true;
}

/* Puts of a lane that no signal covers yet. */
struct uncovered {
    int peer;
    uint32_t n;
    bool several; /* peers */
};

/* Whether this signal covers the last step and no other put: then it may as well be that one's own. */
static bool is_own_signal(const struct wr_program *p, uint32_t first, const struct wr_step *s, const struct uncovered *u)
{
    const struct wr_step *last = p->nsteps > first ? &p->steps[p->nsteps - 1] : NULL;
    return s->op == WR_STEP_SIGNAL && last && last->op == WR_STEP_PUT && !(last->flags & WR_STEP_SIGNALS) && last->peer == s->peer &&
           u->n == 1 && !u->several;
}

static void count_puts(struct uncovered *u, const struct wr_step *s)
{
    if (s->op == WR_STEP_PUT && !(s->flags & WR_STEP_SIGNALS)) {
        u->several |= u->n && u->peer != s->peer;
        u->peer = s->peer;
        u->n++;
    } else if (s->op == WR_STEP_SIGNAL && s->peer == u->peer) {
        u->n = 0;
    }
}

/*
 * The program of an image as its model's: steps that continue each other are one, since where a builder cuts them depends on where
 * the vector ends.
 */
static bool make_plain(const struct classes *c, const struct wr_program *p, uint32_t shift, struct wr_ref *refs, struct wr_program *out)
{
    int n = c->spec->topo->nranks;
    out->nsteps = out->nrefs = out->nlanes = 0;
    for (uint32_t lane = 0; lane < p->nlanes; lane++) {
        struct uncovered u = {-1, 0, false};
        wr_program_lane(out);
        uint32_t first = out->nsteps;
        for (uint32_t i = p->lane[lane]; i < p->lane[lane + 1]; i++) {
            struct wr_step s = p->steps[i];
            if (s.op == WR_STEP_SIGNAL || s.op == WR_STEP_WAIT || s.op == WR_STEP_PUT)
                s.peer = (s.peer + n - (int)shift * c->shape.period) % n;
            for (uint32_t k = 0; k < s.nrefs; k++)
                refs[k] = model_ref(c, p->refs[s.first_ref + k], shift);
            if (joins(c, out, first, &s, refs)) {
                out->steps[out->nsteps - 1].len += s.len;
                continue;
            }
            if (is_own_signal(out, first, &s, &u)) {
                out->steps[out->nsteps - 1].flags |= WR_STEP_SIGNALS;
                out->steps[out->nsteps - 1].slot = s.slot;
            } else {
                wr_program_step(out, &s, refs);
            }
            count_puts(&u, &s);
        }
    }
    out->scratch = p->scratch;
    out->nslots = p->nslots;
    return !out->failed;
}

static bool same_step(const struct wr_step *a, const struct wr_step *b)
{
    return a->op == b->op && a->flags == b->flags && a->nrefs == b->nrefs && a->len == b->len && a->peer == b->peer &&
           a->slot == b->slot && a->value == b->value;
}

static bool same_program(const struct wr_program *a, const struct wr_program *b)
{
    if (a->nsteps != b->nsteps || a->nrefs != b->nrefs || a->nlanes != b->nlanes || a->scratch != b->scratch || a->nslots != b->nslots ||
        memcmp(a->lane, b->lane, (a->nlanes + 1) * sizeof *a->lane) != 0)
        return false;
    for (uint32_t i = 0; i < a->nsteps; i++)
        if (!same_step(&a->steps[i], &b->steps[i]))
            return false;
    return !a->nrefs || !memcmp(a->refs, b->refs, a->nrefs * sizeof *a->refs);
}

static uint32_t most_refs(const struct wr_program *p)
{
    uint32_t most = 1;
    for (uint32_t i = 0; i < p->nsteps; i++)
        most = WR_MAX(most, p->steps[i].nrefs);
    return most;
}

/* Whether the programs of some images of one model are that one's; *odd: one whose is not, else -1. */
static weir_status alike(struct classes *c, int model, uint32_t from, uint32_t stride, int *odd, uint64_t *compared)
{
    const struct wr_program *p = &c->model[model];
    uint32_t most = most_refs(p);
    struct wr_ref *refs = malloc((most + 1) * sizeof *refs);
    bool ok = refs && make_plain(c, p, 0, refs, &c->plain);
    weir_status status = ok ? WEIR_OK : wr_error_memory(c->err, p->nsteps * sizeof *p->steps, "verifying a plan");
    *odd = -1;
    for (uint32_t k = from; k < c->shape.shifts && status == WEIR_OK && *odd < 0; k += stride, ++*compared) {
        struct wr_program other;
        int rank = model + (int)k * c->shape.period;
        status = c->algorithm->build(c->spec, rank, &other, c->err);
        if (status != WEIR_OK)
            break;
        bool fits = most_refs(&other) <= most;
        if (fits && !make_plain(c, &other, k, refs, &c->other))
            status = wr_error_memory(c->err, other.nsteps * sizeof *other.steps, "verifying a plan");
        else if (!fits || !same_program(&c->plain, &c->other))
            *odd = rank;
        wr_program_free(&other);
    }
    free(refs);
    return status;
}

/* All images, or (with too many steps) as many of each model, evenly spread, and different ones of each. */
static weir_status compare_all(struct classes *c, int *odd, uint64_t *compared)
{
    uint64_t steps = 0;
    uint32_t shifts = c->shape.shifts, stride = 1;
    weir_status status = WEIR_OK;
    for (int q = 0; q < c->shape.period; q++)
        steps += c->model[q].nsteps + 2 * (uint64_t)c->spec->topo->nranks;
    while (steps * (shifts / stride) > MAX_COMPARED)
        stride++;
    *odd = -1;
    /* the ends first: most that is not symmetric shows there */
    for (int i = 0; i < 2 && status == WEIR_OK && *odd < 0; i++)
        status = alike(c, i ? c->shape.period - 1 : 0, i ? shifts - 1 : 1, shifts, odd, compared);
    *compared = 0;
    for (int q = 0; q < c->shape.period && status == WEIR_OK && *odd < 0; q++)
        status = alike(c, q, 1 + (uint32_t)q % stride, stride, odd, compared);
    return status;
}

/* ---- all of it ---- */

static void forget_models(struct classes *c)
{
    wr_programs_free(c->model, c->shape.period);
    c->model = NULL;
}

static weir_status build_models(struct classes *c, const char *why)
{
    uint64_t steps = 0;
    int n = c->shape.period;
    c->model = calloc((size_t)n, sizeof *c->model);
    if (!c->model)
        return wr_error_memory(c->err, (size_t)n * sizeof *c->model, "the programs of a class");
    for (int r = 0; r < n; r++) {
        weir_status status = c->algorithm->build(c->spec, r, &c->model[r], c->err);
        if (status != WEIR_OK)
            return status;
        steps += c->model[r].nsteps;
        double all = (double)steps + (double)c->model[r].nsteps * (n - r - 1); /* the first may be a root */
        if (steps > MAX_STEPS || (r >= 64 && all > 2.0 * MAX_STEPS))
            return wr_error_set(c->err, WEIR_ERR_UNSUPPORTED, "ask for fewer ranks, or longer chunks",
                                "%s:%s: %s, and the %d programs to be run have about %.3g steps, more than %d",
                                wr_collective_name(c->spec->coll), c->algorithm->name, why, n, all, MAX_STEPS);
    }
    return WEIR_OK;
}

static weir_status run_models(struct classes *c, bool sparse, struct wr_verify_result *result)
{
    weir_error why;
    weir_status status = wr_verify_run(c->spec, c->model, &c->shape, sparse, result, &why);
    if (status != WEIR_OK)
        return wr_error_set(c->err, status, status == WEIR_ERR_INTERNAL && sparse
                            ? "a defect of the algorithm, or an order that was forgotten: verify at most 4096 ranks, too" : why.advice,
                            "%s", why.message);
    if (status == WEIR_OK && sparse && result) { /* of the ranks that were run only */
        result->order = 0;
        result->same_at_all = false;
    }
    return status;
}

/* All ranks are models. */
static weir_status run_all(struct classes *c, const char *why, struct wr_verify_how *how, struct wr_verify_result *result)
{
    int n = c->spec->topo->nranks;
    c->shape = (struct wr_verify_shape){n, 1};
    c->unit = c->total = 0;
    weir_status status = build_models(c, why);
    *how = (struct wr_verify_how){.classes = n, .shifts = 1, .compared = (uint64_t)n};
    return status ? status : run_models(c, n > WR_VERIFY_DENSE, result);
}

weir_status wr_verify_classes(const struct wr_plan_spec *spec, const struct wr_algorithm *algorithm, struct wr_verify_how *how,
                              struct wr_verify_result *result, weir_error *err)
{
    struct classes c = {.spec = spec, .algorithm = algorithm, .err = err};
    char why[160] = "the ranks do not fall into classes";
    int odd = -1;
    uint64_t compared = 0;
    find_shape(&c);
    weir_status status = WEIR_OK;
    if (c.shape.shifts > 1) {
        snprintf(why, sizeof why, "the ranks fall into %d classes", c.shape.period);
        status = build_models(&c, why);
        if (status == WEIR_OK)
            status = compare_all(&c, &odd, &compared);
        if (status == WEIR_OK && odd < 0) {
            *how = (struct wr_verify_how){.classes = c.shape.period, .shifts = (int)c.shape.shifts, .compared = compared + (uint64_t)c.shape.period};
            status = run_models(&c, true, result);
        } else if (odd >= 0) {
            snprintf(why, sizeof why, "the program of rank %d is not that of rank %d, shifted", odd, odd % c.shape.period);
        }
        forget_models(&c);
    }
    if (status == WEIR_OK && (c.shape.shifts == 1 || odd >= 0)) {
        status = run_all(&c, why, how, result);
        forget_models(&c);
    }
    wr_program_free(&c.plain);
    wr_program_free(&c.other);
    return status;
}
