/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank's part in training: its parts of the model, its share of the data, and the engines that tie them to the other ranks. */
#ifndef GPT_TRAINER_H
#define GPT_TRAINER_H

#include "examples/gpt/data.h"
#include "examples/gpt/divide.h"
#include "examples/gpt/sequence.h"
#include "examples/gpt/shards.h"
#include "examples/gpt/trace.h"

/* Why training is to end. */
enum gpt_stop { GPT_GO_ON, GPT_STOP_TIME, GPT_STOP_SIGNAL };

/* What a step was like, over all ranks. */
struct gpt_step {
    double loss;      /* mean over its tokens */
    double norm;      /* of the gradient */
    double lr;
    double exposed;   /* share of the time in which this rank waited for others */
    bool skipped;     /* the gradient was not finite */
    enum gpt_stop stop; /* what the ranks agreed on */
};

struct gpt_trainer {
    struct gpt_job *job;
    const struct gpt_options *options;
    const struct gpt_data *data;
    struct gpt_config config;
    struct gpt_shards shards;
    struct gpt_sequence sequence;
    struct gpt_divide divide;
    struct gpt_trace trace;
    struct gpt_part *parts; /* one for each chunk of this stage */
    int nparts;
    int64_t total_parts;    /* over all stages */
    weir_pipe *pipe;        /* with several stages, or several parts here; else NULL */
    weir_pipe_engine *engine;
    weir_pipe_lists lists;
    struct gpt_micro micro; /* as the layers are to be called; the numbers change */
    int64_t per_rank;       /* sequences of a step on this rank */
    int64_t step;           /* steps that were made */
    double used;            /* share of --seconds that has passed, as the first rank sees it; 0 without */
    int64_t position;       /* sequences that were trained on */
    uint64_t memory;        /* bytes that the engine held at most, after the last step */
    int64_t run;            /* which of a step's passes goes on */
    int64_t micros;         /* micro-batches of a pass */
    int32_t *tokens, *targets; /* of a step on this rank */
    weir_error error;       /* of the pipeline's engine */
    double loss;            /* sum over the tokens of this step so far */
    double *costs;          /* with --cut time: seconds of each block; else NULL */
    double *losses;         /* with --reproducible: by micro-batch of the whole step, or of the validation; else NULL */
    int64_t nlosses;
    real *flow[2];          /* activations on their way in gpt_trainer_forward() */
};

/* Collective. false when it failed anywhere, and then the reason was said. To be freed by gpt_trainer_free() in any case. */
bool gpt_trainer_create(struct gpt_trainer *trainer, struct gpt_job *job, const struct gpt_options *options,
                        const struct gpt_settings *settings, const struct gpt_data *data);
void gpt_trainer_free(struct gpt_trainer *trainer);

/*
 * One step. stop: what this rank has to say about that; used: on the first rank of job->all, trainer->used from the next step on.
 * Collective; an error of communication is the end.
 */
weir_status gpt_trainer_step(struct gpt_trainer *trainer, enum gpt_stop stop, double used, struct gpt_step *step);

/*
 * The model forward, through all stages, on `sequences` sequences of `length` tokens (where sequences are divided, this rank's tokens of
 * whole ones), which each rank of a pipeline gives alike. With
 * targets the sum of the losses comes out on the last stage, else logits are left there (elsewhere NULL).
 */
weir_status gpt_trainer_forward(struct gpt_trainer *trainer, int sequences, int length, const int32_t *tokens, const int32_t *targets,
                                double *loss, const real **logits);

/* Of so many whole sequences in trainer->tokens and targets, keeps this rank's tokens. */
void gpt_trainer_slice(struct gpt_trainer *trainer, int64_t sequences);

/* The loss on the validation data, as a mean over its tokens. Collective. NAN when there are none. */
weir_status gpt_trainer_validate(struct gpt_trainer *trainer, double *loss);

/* n tokens that follow a prompt, at every rank. Collective. */
weir_status gpt_trainer_sample(struct gpt_trainer *trainer, const int32_t *prompt, int length, int n, int32_t *tokens);

/* From now on what the rank does is remembered. Collective. */
weir_status gpt_trainer_begin_trace(struct gpt_trainer *trainer);

/* And from now on no more, if it was. */
void gpt_trainer_end_trace(struct gpt_trainer *trainer);

/* The sentence that belongs to a status that one of these gave. */
const weir_error *gpt_trainer_error(const struct gpt_trainer *trainer, weir_status status);

/* Makes the pipeline's engine; part of gpt_trainer_create(). */
weir_status gpt_trainer_make_engine(struct gpt_trainer *trainer, weir_error *error);

/*
 * Sums of n numbers over all ranks, of which the first is a loss: with --reproducible that of trainer->losses, which are added one after
 * the other, and become zero. Collective.
 */
weir_status gpt_trainer_sum(struct gpt_trainer *trainer, double *numbers, int n);

/* The stage on which a part is, and its chunk there. */
int gpt_trainer_owner(const struct gpt_trainer *trainer, int64_t part, int64_t *chunk);

#endif
