/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of weir-info. */
#ifndef WR_TOOLS_WEIR_INFO_H
#define WR_TOOLS_WEIR_INFO_H

#include <stdbool.h>
#include <stdio.h>

#include <weir/weir.h>

#include "base/config.h"
#include "tools/fabrics.h"

enum {
    INFO_BUILD = 1,
    INFO_LAUNCHER = 2,
    INFO_CONFIG = 4,
    INFO_TOPO = 8,
    INFO_RANKS = 16,
    INFO_TRANSPORTS = 32,
};

struct info {
    unsigned sections;
    bool all;  /* no section was asked for by name: everything, the configuration shortened */
    bool json;
    bool speaks;           /* this process prints for all */
    weir_ctx *ctx;         /* NULL when weir_init() failed */
    const weir_topo *topo; /* NULL when it was not asked for or could not be had */
    weir_error error;      /* why ctx or topo is missing */
    struct wr_config config;
    bool config_ok;
    weir_error config_error;
    struct fabrics fabrics;
};

void info_print_build(FILE *out);
void info_print_config(const struct info *info, FILE *out);
bool info_print_ranks(const struct info *info, FILE *out);
bool info_print_transports(const struct info *info, FILE *out);
void info_print_launcher(const struct info *info, FILE *out);

/* Writes everything asked for as one JSON object. */
weir_status info_print_json(const struct info *info, FILE *out, weir_error *err);

/* Facts of the build: calls `visit` with each name and text, in order. */
void info_build_facts(void (*visit)(void *arg, const char *name, const char *text), void *arg);

/* A NIC distance in words. */
const char *info_distance(int distance);

/* One line on the job: ranks, nodes, launcher. Returns buf. */
const char *info_job_line(const struct info *info, char *buf, size_t size);

#endif
