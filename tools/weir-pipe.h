/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of weir-pipe. */
#ifndef WR_TOOLS_WEIR_PIPE_H
#define WR_TOOLS_WEIR_PIPE_H

#include <stdbool.h>
#include <stdio.h>

#include <weir/weir.h>

struct pipe_options {
    weir_pipe_options make;
    weir_pipe_costs costs;
    const char *svg;
    bool all, print, json; /* all: every schedule in turn */
};

/* What became of one schedule. */
struct pipe_outcome {
    weir_pipe *pipe; /* NULL when it was refused: see error */
    weir_pipe_lists lists;
    weir_pipe_report report;
    weir_pipe_stage_report *stages;
    weir_pipe_result result;
    weir_error error;
};

/* weir-pipe-report.c */
bool pipe_print(const struct pipe_options *options, const struct pipe_outcome *outcome, FILE *out);
bool pipe_print_all(const struct pipe_options *options, const struct pipe_outcome *outcome, FILE *out);
void pipe_print_json(const struct pipe_options *options, const struct pipe_outcome *outcome, FILE *out);
void pipe_print_list(FILE *out);

/* weir-pipe-draw.c */
weir_status pipe_draw(const struct pipe_options *options, const struct pipe_outcome *outcome, const char *path, weir_error *err);

#endif
