/* SPDX-License-Identifier: BSD-3-Clause */
/* Plans that are kept: finding, letting go, making those that are missing. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "comm/coll/coll.h"

enum {
    INSTANCES = 4,  /* of one plan, for calls of one kind that run at once */
    MOST_PLANS = 64 /* that are kept */
};

struct wr_coll_plan {
    struct wr_list link;
    struct wr_coll_key key;
    unsigned mapped; /* for which buffers, see wr_coll_find_buffers() */
    uint64_t *counts; /* those of the key's hash */
    struct wr_coll_instance instance[INSTANCES];
    unsigned next;
};

static void free_numbers(struct wr_coll_instance *instance)
{
    free(instance->numbers.counts);
    free(instance->packed);
}

static void free_plan(struct wr_coll_state *state, struct wr_coll_plan *plan)
{
    for (int i = 0; i < INSTANCES; i++)
        free_numbers(&plan->instance[i]);
    wr_list_remove(&plan->link);
    state->nplans--;
    free(plan->counts);
    free(plan);
}

/* ---- ending: the steps ---- */

static weir_status come_to_rest(void *arg, struct wr_steps *steps, weir_error *err)
{
    const struct wr_coll_ending *e = arg;
    if (wr_comm_lost(steps->comm) >= 0)
        return WEIR_OK;
    for (int i = 0; i < e->n; i++)
        if (e->instance[i].exec && !wr_exec_is_quiet(e->instance[i].exec))
            return WEIR_IN_PROGRESS;
    return wr_steps_gather(steps, NULL, NULL, 0, err); /* nobody puts anything into it any more */
}

static weir_status abandon(void *arg, struct wr_steps *steps, weir_error *err)
{
    struct wr_coll_ending *e = arg;
    (void)steps;
    (void)err;
    for (int i = 0; i < e->n; i++) {
        wr_exec_abandon(e->instance[i].exec);
        e->instance[i].exec = NULL;
    }
    return WEIR_OK;
}

/* The memory of instances goes, collectively, when they no longer run. */
static struct wr_steps *begin_ending(struct wr_coll_ending *e, weir_comm *comm, struct wr_coll_instance *instance, int n)
{
    static const wr_step list[] = {come_to_rest, abandon, NULL};
    e->instance = instance;
    e->n = n;
    wr_steps_init(&e->steps, comm, list, e);
    return &e->steps;
}

weir_status wr_coll_instance_free(struct wr_coll_state *state, struct wr_coll_instance *instance, weir_error *err)
{
    struct wr_coll_ending ending;
    if (!instance)
        return WEIR_OK;
    weir_status status = wr_steps_run(begin_ending(&ending, state->comm, instance, 1), err);
    free_numbers(instance);
    free(instance);
    return status;
}

/* A plan that is no longer kept, its end being begun. */
static struct wr_steps *let_go(struct wr_coll_state *state, struct wr_coll_plan *plan, struct wr_coll_ending *ending)
{
    for (int i = 0; i < INSTANCES; i++)
        if (plan->instance[i].exec)
            state->plan_bytes -= wr_exec_bytes(plan->instance[i].exec);
    return begin_ending(ending, state->comm, plan->instance, INSTANCES);
}

/* ---- finding ---- */

static bool is_of(const struct wr_coll_plan *plan, const struct wr_coll_key *key, unsigned mapped, const uint64_t *counts, size_t n)
{
    return plan->mapped == mapped && !memcmp(&plan->key, key, sizeof *key) && (!plan->counts || !memcmp(plan->counts, counts, n * sizeof *counts));
}

static struct wr_coll_plan *find(struct wr_coll_state *state, const struct wr_coll_key *key, unsigned mapped, const uint64_t *counts)
{
    struct wr_coll_plan *plan;
    wr_list_for_each (plan, &state->plans, link) {
        if (!is_of(plan, key, mapped, counts, (size_t)state->comm->size))
            continue;
        wr_list_remove(&plan->link);
        wr_list_push_front(&state->plans, &plan->link);
        return plan;
    }
    return NULL;
}

static weir_status add(struct wr_coll_state *state, const struct wr_coll_key *key, unsigned mapped, const uint64_t *counts,
                       struct wr_coll_plan **added, weir_error *err)
{
    size_t n = (size_t)state->comm->size;
    struct wr_coll_plan *plan = calloc(1, sizeof *plan);
    if (plan && key->hash)
        plan->counts = malloc(n * sizeof *counts);
    if (!plan || (key->hash && !plan->counts)) {
        free(plan);
        return wr_error_memory(err, sizeof *plan + n * sizeof *counts, "a plan");
    }
    if (plan->counts)
        memcpy(plan->counts, counts, n * sizeof *counts);
    plan->key = *key;
    plan->mapped = mapped;
    wr_list_push_front(&state->plans, &plan->link);
    state->nplans++;
    *added = plan;
    return WEIR_OK;
}

struct wr_coll_instance *wr_coll_plan_ready(struct wr_coll_state *state, const struct wr_coll_call *call)
{
    struct wr_coll_key key = wr_coll_key(state->comm, call);
    struct wr_coll_plan *plan = find(state, &key, 0, call->counts);
    struct wr_coll_instance *i = plan ? &plan->instance[plan->next % INSTANCES] : NULL;
    if (!i || !i->exec || !wr_exec_done(i->exec))
        return NULL;
    plan->next++;
    return i;
}

/* ---- getting a plan, which is made when there is none: the steps ---- */

/* Room for one more: the least recently used goes. The same at all ranks, since all make the same calls. */
static weir_status find_plan(void *arg, struct wr_steps *steps, weir_error *err)
{
    struct wr_coll_getting *g = arg;
    struct wr_coll_state *s = g->state;
    struct wr_coll_key key = wr_coll_key(s->comm, g->call);
    if (g->leaving) {
        free_plan(s, g->leaving);
        g->leaving = NULL;
    }
    g->plan = find(s, &key, g->mapped, g->call->counts);
    if (g->plan)
        return WEIR_OK;
    if (!s->nplans || (s->nplans < MOST_PLANS && s->plan_bytes <= s->comm->ctx->config.plan_cache))
        return add(s, &key, g->mapped, g->call->counts, &g->plan, err);
    g->leaving = wr_list_entry(s->plans.prev, struct wr_coll_plan, link);
    steps->inner = let_go(s, g->leaving, &g->ending);
    steps->next--; /* again, then */
    return WEIR_OK;
}

static weir_status find_instance(void *arg, struct wr_steps *steps, weir_error *err)
{
    struct wr_coll_getting *g = arg;
    /* which instance follows from the order of calls alone, so that all ranks take the same */
    g->instance = &g->plan->instance[g->form == WR_COLL_BLOCKING ? 0 : g->plan->next++ % INSTANCES];
    if (g->instance->exec)
        return WEIR_OK;
    weir_status status = wr_coll_make(g->state, g->call, g->form, g->number, g->mapped, g->instance, &g->making, err);
    if (!status)
        steps->inner = wr_coll_making_steps(g->making);
    return status;
}

static weir_status take_instance(void *arg, struct wr_steps *steps, weir_error *err)
{
    struct wr_coll_getting *g = arg;
    (void)steps;
    if (g->making) {
        wr_coll_made(g->making, true);
        g->making = NULL;
        g->state->plan_bytes += wr_exec_bytes(g->instance->exec);
    }
    if (!wr_exec_done(g->instance->exec))
        return WEIR_IN_PROGRESS;
    return g->call->vector ? wr_coll_bind_numbers(g->state, g->call, g->instance, err) : WEIR_OK;
}

struct wr_steps *wr_coll_get(struct wr_coll_getting *g, struct wr_coll_state *state, const struct wr_coll_call *call,
                             enum wr_coll_form form, uint64_t number, unsigned mapped)
{
    static const wr_step list[] = {find_plan, find_instance, take_instance, NULL};
    *g = (struct wr_coll_getting){.state = state, .call = call, .form = form, .number = number, .mapped = mapped};
    wr_steps_init(&g->steps, state->comm, list, g);
    return &g->steps;
}

void wr_coll_get_failed(struct wr_coll_getting *g)
{
    wr_coll_made(g->making, false);
    for (int i = 0; g->plan && i < INSTANCES; i++)
        if (g->plan->instance[i].exec)
            return;
    if (g->plan)
        free_plan(g->state, g->plan);
}

weir_status wr_coll_plan_get(struct wr_coll_state *state, const struct wr_coll_call *call, struct wr_coll_instance **instance,
                             weir_error *err)
{
    struct wr_coll_buffers buffers;
    struct wr_coll_getting g;
    buffers.mapped = 0;
    weir_status status = state->fast && !call->vector ? wr_coll_find_buffers(state, call, &buffers, err) : WEIR_OK;
    if (status)
        return status;
    status = wr_steps_run(wr_coll_get(&g, state, call, WR_COLL_BLOCKING, state->calls - 1, buffers.mapped), err);
    if (status) {
        wr_coll_get_failed(&g);
        return status;
    }
    if (buffers.mapped > 1)
        wr_exec_rebind(g.instance->exec, buffers.in_mem, buffers.out_mem, buffers.where);
    *instance = g.instance;
    return WEIR_OK;
}

weir_status wr_coll_plan_own(struct wr_coll_state *state, const struct wr_coll_call *call, struct wr_coll_instance **out,
                             weir_error *err)
{
    struct wr_coll_making *making;
    struct wr_coll_instance *instance = calloc(1, sizeof *instance);
    if (!instance)
        return wr_error_memory(err, sizeof *instance, "a plan");
    weir_status status =
        wr_coll_make(state, call, WR_COLL_PERSISTENT, state->calls - 1, true, instance, &making, err);
    if (!status) {
        status = wr_steps_run(wr_coll_making_steps(making), err);
        wr_coll_made(making, !status);
    }
    if (!status && call->vector)
        status = wr_coll_bind_numbers(state, call, instance, err);
    if (!status) {
        *out = instance;
        return WEIR_OK;
    }
    free_numbers(instance);
    free(instance);
    return status;
}

/* ---- all of them ---- */

weir_status wr_coll_drop_plans(struct wr_coll_state *state, weir_error *err)
{
    weir_status status = wr_exchange_settle(state->comm, err);
    while (!status && !wr_list_empty(&state->plans)) {
        struct wr_coll_ending ending;
        struct wr_coll_plan *plan = wr_list_first(&state->plans, struct wr_coll_plan, link);
        status = wr_steps_run(let_go(state, plan, &ending), err);
        if (!status)
            free_plan(state, plan);
    }
    return status;
}

void wr_coll_abandon_plans(struct wr_coll_state *state)
{
    struct wr_coll_plan *plan;
    wr_list_for_each (plan, &state->plans, link)
        for (int i = 0; i < INSTANCES; i++) {
            wr_exec_abandon(plan->instance[i].exec);
            plan->instance[i].exec = NULL;
        }
    wr_coll_forget_plans(state);
}

void wr_coll_forget_plans(struct wr_coll_state *state)
{
    struct wr_coll_plan *plan, *next;
    wr_list_for_each_safe (plan, next, &state->plans, link) {
        for (int i = 0; i < INSTANCES; i++)
            wr_exec_forget(plan->instance[i].exec);
        free_plan(state, plan);
    }
    wr_list_init(&state->plans);
}

void wr_coll_break_plans(struct wr_coll_state *state)
{
    struct wr_coll_plan *plan;
    wr_list_for_each (plan, &state->plans, link) {
        for (int i = 0; i < INSTANCES; i++)
            if (plan->instance[i].exec)
                wr_exec_break(plan->instance[i].exec, WEIR_ERR_PEER_LOST);
    }
}
