/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of weir-gpt. */
#ifndef GPT_OPTIONS_H
#define GPT_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct gpt_options {
    /* the model */
    int64_t layers, width, heads, context, vocabulary;
    double dropout;
    const char *dtype;
    /* the step */
    int64_t batch, microbatches, accumulate, recompute, steps;
    double seconds, lr, final_lr, weight_decay, beta2, clip;
    int64_t warmup;
    const char *rule, *lr_schedule;
    int64_t seed;
    /* how it is divided */
    int64_t zero, pp, dp, sp, tp, ep, chunks, threads;
    const char *schedule, *cut, *sp_method;
    /* data, and what is shown */
    double validation, temperature;
    int64_t eval_every, eval_sequences, log_every, sample, measure;
    const char *prompt, *log, *plot, *trace;
    int64_t trace_steps;
    /* checkpoints */
    const char *save, *resume, *import, *export;
    int64_t save_every;
    const char *config;
    bool baseline, json, help, reproducible, tp_sequence;
    char **paths; /* files and folders to train on */
    int npaths;
    uint64_t given[2]; /* a bit for each option that was on the command line; see gpt_options_given() */
};

/* false and a sentence when the arguments make no sense. Reads argv during the call; strings stay argv's. */
bool gpt_options_parse(int argc, char **argv, struct gpt_options *options, char *why, size_t size);

/* Whether an option, by its name without hyphens, was on the command line. */
bool gpt_options_given(const struct gpt_options *options, const char *name);

void gpt_options_help(FILE *out);

#endif
