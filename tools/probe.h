/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Probes: what may hang or crash (drivers, providers, foreign libraries) is tried in a process of its own, with a time
 * limit. A probe is this same program, started again as `PROGRAM --probe NAME`; it answers with lines on its standard
 * output. What libraries print themselves is dropped.
 */
#ifndef WR_TOOLS_PROBE_H
#define WR_TOOLS_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/str.h"

struct probe {
    char name[96];      /* set by the caller */
    struct wr_buf text; /* lines that the probe wrote, also when it came to no good end */
    bool timed_out;
    bool failed_to_start;
    int signal;    /* that ended it, 0 for none */
    int exit_code; /* 0..255, when no signal ended it */
};

enum { PROBE_TIMEOUT_MS = 10000 };

/* Runs all probes, a few at a time, each for at most `timeout_ms`. Fills in all but the name. */
void probes_run(struct probe *probes, size_t n, int timeout_ms);
void probe_free(struct probe *probe);

/* What went wrong, as a phrase ("hung for 10 s", "died of signal 11"); NULL when it ended well. Returns buf. */
const char *probe_failure(const struct probe *probe, int timeout_ms, char *buf, size_t size);

/* In the probe's process: separates its answers from what libraries print. NULL when that failed. */
FILE *probe_begin(void);

/* Splits the next line "a\tb\tc" of `*text` in place into at most `max` fields; returns their number, 0 at the end. */
size_t probe_next_line(char **text, char **fields, size_t max);

#endif
