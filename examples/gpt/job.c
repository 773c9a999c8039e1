/* SPDX-License-Identifier: BSD-3-Clause */
#include "examples/gpt/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void say(const char *sentence)
{
    fprintf(stderr, "weir-gpt: %s\n", sentence);
}

bool gpt_job_join(struct gpt_job *job)
{
    weir_error error;
    weir_init_options options = WEIR_INIT_OPTIONS_INIT;
    *job = (struct gpt_job){.stages = 1, .replicas = 1, .slices = 1, .ways = 1};
    options.error = &error;
    if (weir_init(&options, &job->ctx) != WEIR_OK) {
        fprintf(stderr, "weir-gpt: %s; %s\n", error.message, error.advice);
        return false;
    }
    if (weir_comm_world(job->ctx, &job->world) != WEIR_OK) {
        say(weir_last_error(job->ctx)->message);
        weir_finalize(job->ctx);
        return false;
    }
    return true;
}

bool gpt_job_agree(struct gpt_job *job, bool good, const char *why)
{
    int32_t mine = good ? weir_comm_size(job->world) : weir_comm_rank(job->world), first;
    weir_status status = weir_allreduce(job->world, &mine, &first, 1, WEIR_INT32, WEIR_MIN);
    if (status != WEIR_OK)
        gpt_job_die(job, status, weir_last_error(job->ctx));
    if (first == weir_comm_rank(job->world))
        say(why);
    return first == weir_comm_size(job->world);
}

bool gpt_job_check(struct gpt_job *job, weir_status status, const weir_error *error)
{
    char text[sizeof error->message + sizeof error->advice + 64];
    const char *message = error->message[0] ? error->message : weir_status_message(status);
    snprintf(text, sizeof text, "%s%s%s", message, error->advice[0] ? "; " : "", error->advice);
    /* Who was only told that another rank failed leaves the word to that one. */
    if (!gpt_job_agree(job, status == WEIR_OK || status == WEIR_ERR_CANCELED, text))
        return false;
    return gpt_job_agree(job, status == WEIR_OK, text);
}

void gpt_job_die(struct gpt_job *job, weir_status status, const weir_error *error)
{
    const char *message = error->status == status && error->message[0] ? error->message : weir_status_message(status);
    if (status != WEIR_ERR_CANCELED)
        say(message);
    fflush(NULL);
    weir_abort(job->ctx, 1, NULL);
    exit(1);
}

weir_status gpt_job_arrange(struct gpt_job *job, int pp, int dp, int sp, int tp, weir_error *error)
{
    weir_axis axes[] = {{"pp", pp}, {"dp", dp}, {"sp", sp}, {"tp", tp}};
    const struct {
        const char *axes;
        weir_comm **comm;
    } subs[] = {{"pp", &job->pp}, {"sp", &job->sp}, {"tp", &job->tp}, {"dp,sp", &job->shard}, {"pp,sp,tp", &job->model}, {"pp,tp", &job->parts}};
    weir_status status = weir_grid_create(job->world, 4, axes, 0, &job->grid);
    for (size_t i = 0; i < sizeof subs / sizeof *subs && status == WEIR_OK; i++)
        status = weir_grid_sub(job->grid, subs[i].axes, subs[i].comm);
    *error = *weir_last_error(job->ctx);
    if (status != WEIR_OK)
        return status;
    job->all = weir_grid_comm(job->grid);
    job->stage = weir_comm_rank(job->pp);
    job->stages = weir_comm_size(job->pp);
    job->replica = weir_grid_coord(job->grid, weir_comm_rank(job->all), "dp");
    job->replicas = weir_grid_axis_size(job->grid, "dp");
    job->slice = weir_comm_rank(job->sp);
    job->slices = weir_comm_size(job->sp);
    job->way = weir_comm_rank(job->tp);
    job->ways = weir_comm_size(job->tp);
    return WEIR_OK;
}

int gpt_job_processors(const struct gpt_job *job)
{
    const weir_topo *topo;
    weir_rank_info me = {.size = sizeof me}, other = {.size = sizeof other};
    int sharers = 0;
    if (weir_ctx_topo(job->ctx, &topo) != WEIR_OK || weir_topo_rank_info(topo, weir_rank(job->ctx), &me) != WEIR_OK)
        return 1;
    for (int r = 0; r < weir_size(job->ctx); r++)
        if (weir_topo_rank_info(topo, r, &other) == WEIR_OK && !strcmp(me.host, other.host) && !strcmp(me.cpuset, other.cpuset))
            sharers++;
    return me.npus > sharers && sharers ? me.npus / sharers : 1;
}

void gpt_job_leave(struct gpt_job *job)
{
    weir_grid_free(job->grid);
    weir_finalize(job->ctx);
}
