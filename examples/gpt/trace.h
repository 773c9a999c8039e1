/* SPDX-License-Identifier: BSD-3-Clause */
/* What a rank did when, and a file of all ranks' for chrome://tracing or Perfetto. */
#ifndef GPT_TRACE_H
#define GPT_TRACE_H

#include <stdio.h>

#include "examples/gpt/job.h"

/* Rows of a rank in the picture. */
enum gpt_trace_row { GPT_TRACE_STEP, GPT_TRACE_PIPE, GPT_TRACE_ZERO };

struct gpt_trace {
    bool on;
    int64_t origin;  /* nanoseconds, when all ranks began */
    int64_t last;    /* when the last instruction ended */
    struct gpt_event {
        int64_t begin, end;
        int32_t row, what;   /* a ::weir_pipe_op, or what `name` says */
        int32_t micro, chunk; /* of a pipeline's instruction; else the number of what `name` is of; -1: none */
        const char *name;    /* not copied; NULL: it is an instruction */
        const char *of;      /* not copied: a unit of the engine; or NULL */
        int64_t bytes;       /* of what was under way beside others; -1: it was not */
    } *events;
    size_t n, room;
    bool cut; /* there was no memory for more */
};

int64_t gpt_trace_now(void);

/* Begins, at the same time on all ranks. Collective. */
weir_status gpt_trace_begin(struct gpt_trace *trace, const struct gpt_job *job);

/* An instruction has ended; it began when the one before it had. */
void gpt_trace_instruction(struct gpt_trace *trace, const weir_pipe_instr *instr);

/* Something else has ended, which began at a time: `name` and, unless it is negative, a number. */
void gpt_trace_add(struct gpt_trace *trace, enum gpt_trace_row row, const char *name, int64_t number, int64_t begin);

/* Adds what an engine remembers of gathering, reducing, waiting and updating. The engine must stay until the trace is written. */
void gpt_trace_take(struct gpt_trace *trace, const weir_zero *zero);

/* The first rank of job->all writes what all have seen, a process for each rank. Collective; false when that failed, which was said. */
bool gpt_trace_write(const struct gpt_trace *trace, struct gpt_job *job, const char *path);

void gpt_trace_free(struct gpt_trace *trace);

#endif
