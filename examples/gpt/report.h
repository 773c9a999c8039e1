/* SPDX-License-Identifier: BSD-3-Clause */
/* What the first rank tells of a run: lines for people or JSON, a log, a plot. On other ranks all of this does nothing. */
#ifndef GPT_REPORT_H
#define GPT_REPORT_H

#include "examples/gpt/trainer.h"

struct gpt_report {
    const struct gpt_trainer *trainer;
    bool speaks;
    FILE *log;
    double begin, before;     /* seconds: of the run, of the last line */
    double used;              /* the processor's, at the last line */
    int64_t first_step, line; /* steps made before the run, and at the last line */
    double loss;              /* sum over the steps since the last line */
    double exposed;
    double bigram, trigram; /* perplexities of counts; 0: not known */
    struct gpt_point {
        int64_t step;
        double loss, check; /* check: NAN where it was not measured */
    } *points;
    size_t npoints;
};

/* false and a sentence when the log cannot be written. To be closed by gpt_report_close() in any case. */
bool gpt_report_open(struct gpt_report *report, const struct gpt_trainer *trainer, char *why, size_t size);

/* What is about to be trained, and how it is divided. */
void gpt_report_begin(struct gpt_report *report, int threads);

/* After each step; tells of it when a line is due. */
void gpt_report_step(struct gpt_report *report, const struct gpt_step *step);

/* The loss on the validation data. */
void gpt_report_check(struct gpt_report *report, double loss);

/* Perplexities of counts, beside the last one of the model. */
void gpt_report_baseline(struct gpt_report *report, double bigram, double trigram);

/* Medians of the processor's seconds of a step, of its matrix products alone, and of the memory that AdamW goes through. */
void gpt_report_measure(struct gpt_report *report, double step, double products, double update);

/* Bytes of memory of a process, at most: when the ranks had met, and by how much they grew. */
void gpt_report_memory(struct gpt_report *report, int64_t start, int64_t growth);

/* Tokens that the model wrote after a prompt. */
void gpt_report_sample(struct gpt_report *report, const char *prompt, const int32_t *tokens, int64_t n);

/* The end; draws the plot. */
void gpt_report_end(struct gpt_report *report, enum gpt_stop reason);

/* Seconds since the run began. */
double gpt_report_seconds(const struct gpt_report *report);

void gpt_report_close(struct gpt_report *report);

#endif
