/* SPDX-License-Identifier: BSD-3-Clause */
/* weir-ckpt, inside. */
#ifndef WEIR_CKPT_TOOL_H
#define WEIR_CKPT_TOOL_H

#include <stdbool.h>
#include <stdio.h>

#include <weir/ckpt.h>

struct ckpt_options {
    const char *command, *path, *target;
    uint64_t step;    /* of the source; WEIR_CKPT_LATEST: the last */
    uint64_t as_step; /* of the new checkpoint; WEIR_CKPT_LATEST: that of the source */
    bool tensors, json;
    weir_ckpt_filter filter;
};

/* What each command has to say, as text or JSON. false: it could not be written. */
bool ckpt_print_list(const struct ckpt_options *o, const weir_ckpt_info *infos, size_t n, FILE *out);
bool ckpt_print_source(const struct ckpt_options *o, const weir_ckpt_source *source, FILE *out);
bool ckpt_print_done(const struct ckpt_options *o, const weir_ckpt_source *source, uint64_t checked, FILE *out);

/* A failure in JSON, {"error": ..., "advice": ...}. */
void ckpt_print_error(const weir_error *err, FILE *out);

#endif
