/* SPDX-License-Identifier: BSD-3-Clause */
/* The job: its ranks, how they are arranged, and how it ends when something is wrong. */
#ifndef GPT_JOB_H
#define GPT_JOB_H

#include <stdbool.h>

#include <weir/weir.h>

struct gpt_job {
    weir_ctx *ctx;
    weir_comm *world;
    weir_grid *grid;
    weir_comm *all;     /* in the grid's order; rank 0 speaks */
    weir_comm *pp, *sp, *tp; /* along each axis */
    weir_comm *shard;   /* along dp and sp: ZeRO divides parameters and sums up gradients over it */
    weir_comm *model;   /* along pp, sp and tp: one copy of the model at work; stage by stage */
    weir_comm *parts;   /* along pp and tp: who have different parameters */
    int stage, stages;  /* of the pipeline: rank and size of pp */
    int replica, replicas; /* along dp: who have sequences of their own */
    int slice, slices;  /* along sp: who have tokens of the same sequences */
    int way, ways;      /* along tp: who divide each layer */
};

/* Joins. NULL, and the reason on standard error, when that fails. */
bool gpt_job_join(struct gpt_job *job);

/* Arranges the ranks as pp x dp x sp x tp; dp 0: what the others leave. Collective. */
weir_status gpt_job_arrange(struct gpt_job *job, int pp, int dp, int sp, int tp, weir_error *error);

/*
 * Whether all ranks are well. Collective; of those that are not, the first one says why on standard error: one sentence for the whole
 * job, and false on all ranks.
 */
bool gpt_job_agree(struct gpt_job *job, bool good, const char *why);

/* The same for calls of weir: a status and its sentence. */
bool gpt_job_check(struct gpt_job *job, weir_status status, const weir_error *error);

/* Ends the job when a call failed in the midst of communication, where ranks cannot agree any more. Does not return. */
_Noreturn void gpt_job_die(struct gpt_job *job, weir_status status, const weir_error *error);

/* Processors for this rank alone: its binding, divided by the ranks of its node that have the same. */
int gpt_job_processors(const struct gpt_job *job);

/* Leaves. */
void gpt_job_leave(struct gpt_job *job);

#endif
