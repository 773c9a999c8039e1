/* SPDX-License-Identifier: BSD-3-Clause */
/* A configuration in DeepSpeed's vocabulary, inside: JSON becomes a struct of what was given, and that becomes options. */
#ifndef WR_ZERO_CONFIG_H
#define WR_ZERO_CONFIG_H

#include <stdbool.h>

#include <weir/zero_config.h>

/* Values as given. */
typedef int64_t wr_zero_count; /* -1: not given */
typedef double wr_zero_real;   /* NaN: not given */
typedef int wr_zero_flag;      /* -1: not given */
enum { WR_ZERO_WORD = 64, WR_ZERO_PATH = 1024 }; /* bytes of a word, of a path; "": not given */

struct wr_zero_raw {
    wr_zero_count train, micro, accumulate, seed, scale_power, scale_window, hysteresis, warmup_steps, total_steps;
    wr_zero_count stage, bucket, prefetch, live, reuse, persistent, shard_group, hpz;
    wr_zero_real clip, predivide, loss_scale, min_scale, lr, betas[2], eps, weight_decay, momentum, dampening;
    wr_zero_real warmup_min_lr, warmup_max_lr, warmup_ratio, cos_ratio;
    wr_zero_flag prescale, sparse, bf16, fp16, auto_cast, consecutive, amp, nesterov, adam_w, bias_correction, amsgrad;
    wr_zero_flag quantized_weights, quantized_frozen, quantized_gradients, cpu_offload;
    char wire[WR_ZERO_WORD], grad_accum[WR_ZERO_WORD], optimizer[WR_ZERO_WORD], scheduler[WR_ZERO_WORD],
        warmup_type[WR_ZERO_WORD];
    char offload_optimizer[WR_ZERO_WORD], offload_param[WR_ZERO_WORD], offload_path[WR_ZERO_PATH];
    wr_zero_count offload_buffers, sub_group;
    wr_zero_real offload_ratio;
    int none;
};

/* A line of the table. */
struct wr_zero_key {
    const char *block, *name, *kind, *text;
    size_t offset; /* in struct wr_zero_raw */
};
const struct wr_zero_key *wr_zero_config_keys(size_t *count);

struct weir_zero_config {
    weir_zero_batch batch;
    weir_zero_options options;
    weir_rule *rule; /* NULL: no optimizer was given */
    weir_schedule schedule;
    weir_group group;
    char offload_path[WR_ZERO_PATH]; /* of options */
};

/* Reads JSON; WEIR_ERR_CONFIG names the key. */
weir_status wr_zero_config_scan(const char *text, size_t length, struct wr_zero_raw *raw, weir_error *err);

/* Makes options of it; what was made must be freed in any case. */
weir_status wr_zero_config_apply(const struct wr_zero_raw *raw, int nranks, weir_zero_config *config, weir_error *err);

#endif
