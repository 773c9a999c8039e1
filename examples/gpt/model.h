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
    int ways, way;  /* ranks that divide the matrices, and which one this is; 0 ways: nothing is divided */
};

/* What this rank has of `total` things that are divided (heads, numbers inside the perceptron, words): how many, and the first. */
static inline int gpt_own(const struct gpt_config *config, int total, int *first)
{
    int ways = config->ways ? config->ways : 1, each = total / ways, more = total % ways;
    *first = config->way * each + (config->way < more ? config->way : more);
    return each + (config->way < more);
}

static inline int gpt_own_heads(const struct gpt_config *config)
{
    int first;
    return gpt_own(config, config->heads, &first);
}

static inline int gpt_own_inner(const struct gpt_config *config)
{
    int first;
    return gpt_own(config, 4 * config->width, &first);
}

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
    int64_t rows;   /* on this rank; 1: a vector */
    int64_t cols;
    enum gpt_initial initial;
    /* The tensor as a whole, of which this rank has rows and, in each of so many equal groups, columns from these on. */
    int64_t whole_rows, whole_cols, first_row, first_col;
    int groups;
};

/* Whether ranks have different parts of it. */
static inline bool gpt_tensor_divided(const struct gpt_tensor *tensor)
{
    return tensor->rows != tensor->whole_rows || tensor->cols != tensor->whole_cols;
}

/* Where element i is in the whole, and how many after it follow there, itself included. */
void gpt_tensor_place(const struct gpt_tensor *tensor, int64_t i, int64_t *place, int64_t *run);

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

/* Elements of a unit on this rank, and of the whole model. */
int64_t gpt_unit_size(const struct gpt_config *config, int unit);
int64_t gpt_model_size(const struct gpt_config *config);

/*
 * Elements first .. first + n - 1 of this rank's part of a tensor before training. Each depends on the seed and its place alone, so whoever holds a part of
 * a tensor makes that part for itself.
 */
void gpt_initial_values(const struct gpt_config *config, int unit, int tensor, uint64_t seed, int64_t first, int64_t n, real *out);

#endif
