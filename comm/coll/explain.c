/* SPDX-License-Identifier: BSD-3-Clause */
/* What was chosen for a collective, in words, and how long it takes. */
#include <weir/plan.h>

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "comm/coll/coll.h"
#include "comm/plan/tuning.h"

static const char *time_text(double ns, char *buf, size_t size)
{
    return wr_format_time((int64_t)(ns + 0.5), buf, size);
}

static void add_choice(const struct wr_coll_choice *c, const struct wr_plan_spec *spec, char *text, size_t size)
{
    char word[64];
    wr_str_append(text, size, ": ");
    wr_str_append(text, size, c->algorithm->name);
    if (c->asked)
        wr_str_append(text, size, " (by WEIR_ALGO)");
    if (spec->topo->nnodes > 1) {
        if (c->rails)
            snprintf(word, sizeof word, ", %d rank%s a node at the network", c->rails, c->rails == 1 ? "" : "s");
        wr_str_append(text, size, c->rails ? word : ", all ranks at the network");
    }
    if (c->chunk) {
        snprintf(word, sizeof word, ", chunks of %llu elements", (unsigned long long)c->chunk);
        wr_str_append(text, size, word);
    }
    if (spec->out_shared)
        wr_str_append(text, size, ", one result a node");
    else if (spec->in_mapped || spec->out_mapped)
        wr_str_append(text, size, !spec->out_mapped ? ", input mapped" : !spec->in_mapped ? ", output mapped" : ", buffers mapped");
}

static void add_times(const struct wr_coll_instance *i, char *text, size_t size)
{
    const struct wr_coll_choice *c = &i->choice;
    char word[160], a[32], b[32];
    if (c->predicted > 0) {
        snprintf(word, sizeof word, "; predicted %s, limit %s", time_text(c->predicted, a, sizeof a), time_text(c->bound, b, sizeof b));
        wr_str_append(text, size, word);
    } else {
        wr_str_append(text, size, "; no prediction");
    }
    if (!i->runs)
        return;
    snprintf(word, sizeof word, "; took %s, at best %s of %llu", time_text((double)i->last, a, sizeof a),
             time_text((double)i->best, b, sizeof b), (unsigned long long)i->runs);
    wr_str_append(text, size, word);
    if (c->bound > 0 && i->best > 0) {
        snprintf(word, sizeof word, ", %.0f %% of the limit", 100 * c->bound / (double)i->best);
        wr_str_append(text, size, word);
    }
}

void wr_coll_explain(const struct wr_coll_state *state, const struct wr_coll_instance *i, char *text, size_t size)
{
    char call[200];
    const struct wr_plan_spec *spec = wr_exec_spec(i->exec);
    wr_coll_describe(&i->key, call, sizeof call);
    snprintf(text, size, "%s on %d ranks, %d node%s", call, state->comm->size, spec->topo->nnodes, spec->topo->nnodes == 1 ? "" : "s");
    add_choice(&i->choice, spec, text, size);
    add_times(i, text, size);
}

void wr_coll_begin_timed(struct wr_coll_instance *i)
{
    i->begun = wr_clock_ns();
}

void wr_coll_end_timed(struct wr_coll_state *state, struct wr_coll_instance *i)
{
    i->last = wr_clock_ns() - i->begun;
    i->best = i->runs++ ? WR_MIN(i->best, i->last) : i->last;
    if (!wr_log_on(&state->comm->ctx->log, WR_LOG_PLAN, WR_LOG_DEBUG))
        return;
    char text[600];
    wr_coll_explain(state, i, text, sizeof text);
    wr_debug(&state->comm->ctx->log, PLAN, "%s", text);
}

weir_status weir_explain(const weir_request *request, char *text, size_t size)
{
    if (!request || !text || !size || !wr_coll_is_request(request))
        return WEIR_ERR_INVALID;
    const struct wr_coll_request *r = WR_CONTAINER_OF(request, const struct wr_coll_request, request);
    const weir_comm *comm = r->state->comm;
    wr_engine_lock(comm->engine);
    if (r->instance) {
        wr_coll_explain(r->state, r->instance, text, size);
    } else {
        struct wr_coll_key key = wr_coll_key(comm, &r->call);
        char call[200];
        wr_coll_describe(&key, call, sizeof call);
        if (r->pending)
            snprintf(text, size, "%s on %d ranks: its plan is being set up", call, comm->size);
        else
            snprintf(text, size, "%s on %d ranks, 1 node: the way of small calls, without a plan", call, comm->size);
    }
    wr_engine_unlock(comm->engine);
    return WEIR_OK;
}

weir_status weir_tuning_path(const weir_ctx *ctx, char *path, size_t size)
{
    char found[512];
    if (!wr_tuning_path(ctx, found, sizeof found) || strlen(found) >= size)
        return WEIR_ERR_UNSUPPORTED;
    wr_str_copy(path, size, found);
    return WEIR_OK;
}
