/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * GPT-2's architecture as a list of units. A unit is what a training engine gathers, updates and drops as a whole, and what
 * pipeline stages are made of:
 *
 *   unit 0       wte, the embedding of tokens, which the last layer uses again as its matrix (tied)
 *   unit 1       wpe, the embedding of positions
 *   unit 2 + l   block l: norm, attention, norm, two-layer perceptron; both halves are added to what they were given
 *   last unit    ln_f, the norm before the last layer
 *
 * Tensors have the names and shapes of GPT-2's files: matrices have a row for each input.
 */
#ifndef GPT_MODEL_H
#define GPT_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "examples/gpt/real.h"

struct gpt_config {
    int vocabulary; /* different tokens */
    int context;    /* tokens that the model sees at once */
    int width;      /* numbers for a token between blocks; a multiple of heads */
    int heads;
    int layers;
    double dropout; /* share of numbers that training drops, in [0, 1) */
};

enum gpt_unit_kind { GPT_UNIT_WTE, GPT_UNIT_WPE, GPT_UNIT_BLOCK, GPT_UNIT_NORM };

/* The tensors of a block, in their order. */
enum gpt_block_tensor {
    GPT_LN1_WEIGHT,
    GPT_LN1_BIAS,
    GPT_QKV_WEIGHT,
    GPT_QKV_BIAS,
    GPT_OUT_WEIGHT,
    GPT_OUT_BIAS,
    GPT_LN2_WEIGHT,
    GPT_LN2_BIAS,
    GPT_FC_WEIGHT,
    GPT_FC_BIAS,
    GPT_PROJ_WEIGHT,
    GPT_PROJ_BIAS,
    GPT_BLOCK_TENSORS
};

/* What a tensor is before training, as in GPT-2. */
enum gpt_initial {
    GPT_INITIAL_ZERO,
    GPT_INITIAL_ONE,
    GPT_INITIAL_NORMAL,  /* mean 0, standard deviation 0.02 */
    GPT_INITIAL_POSITION, /* 0.01 */
    GPT_INITIAL_RESIDUAL /* 0.02 / sqrt(2 layers): what adds to the sum that runs through all blocks */
};

struct gpt_tensor {
    char name[40];  /* "h.0.attn.c_attn.weight" */
    int unit_name;  /* its first characters that name the unit, "h.0" */
    int64_t rows;   /* 1: a vector */
    int64_t cols;
    enum gpt_initial initial;
};

/* Why a configuration makes no sense; NULL when it does. */
const char *gpt_config_check(const struct gpt_config *config);

static inline int gpt_units(const struct gpt_config *config)
{
    return config->layers + 3;
}

enum gpt_unit_kind gpt_unit_kind(const struct gpt_config *config, int unit);

/* Number of tensors of a unit, and one of them. */
int gpt_unit_tensors(const struct gpt_config *config, int unit);
void gpt_unit_tensor(const struct gpt_config *config, int unit, int tensor, struct gpt_tensor *out);

/* Elements of a unit, and of all. */
int64_t gpt_unit_size(const struct gpt_config *config, int unit);
int64_t gpt_model_size(const struct gpt_config *config);

/*
 * Elements first .. first + n - 1 of a tensor before training. Each depends on the seed and its place alone, so whoever holds a part of
 * a tensor makes that part for itself.
 */
void gpt_initial_values(const struct gpt_config *config, int unit, int tensor, uint64_t seed, int64_t first, int64_t n, real *out);

#endif
