/* SPDX-License-Identifier: BSD-3-Clause */
/* What a block costs, with the ends of the model beside the first and the last one: for cutting it into parts of equal time. */
#ifndef GPT_COSTS_H
#define GPT_COSTS_H

#include "examples/gpt/job.h"
#include "examples/gpt/part.h"

/*
 * Measures a micro-batch forward and backward through one block, and through one with each end of the model, with parameters of its own.
 * seconds: of each block, the same on all ranks; NULL on a rank without memory for it. Collective over job->all, as layers may be divided. pass: as in training, its scratch not
 * yet there.
 */
weir_status gpt_costs_measure(const struct gpt_job *job, const struct gpt_pass *pass, double *seconds);

#endif
