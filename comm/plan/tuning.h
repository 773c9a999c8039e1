/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tuning file: costs of steps on these hosts, as weir-tune has measured them. A few lines of text:
 *
 *   weir-tuning 1
 *   # what follows a # is for people
 *   latency 1500
 *   ...
 *   end
 *
 * A line is a key of cost.h and its value; keys that are absent keep their default, each stands at most once.
 */
#ifndef WR_TUNING_H
#define WR_TUNING_H

#include "comm/context.h"
#include "comm/plan/cost.h"

enum { WR_TUNING_MAX = 16384 }; /* bytes of a file */

/* Reads the text of a file, which is changed. WEIR_ERR_CONFIG names the line, and leaves *cost as it was. */
weir_status wr_tuning_parse(char *text, struct wr_cost *cost, weir_error *err);

/* The path that WEIR_TUNING_FILE gives, or the one in the cache folder; false: none is used. */
bool wr_tuning_path(const weir_ctx *ctx, char *path, size_t size);

/*
 * The costs for this context: the defaults, changed by the file. A file that WEIR_TUNING_FILE names must be readable, else
 * WEIR_ERR_CONFIG; of the one in the cache folder nothing is said when it is absent, and one warning when it is damaged.
 */
weir_status wr_tuning_load(const weir_ctx *ctx, struct wr_cost *cost, weir_error *err);

#endif
