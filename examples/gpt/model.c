/* SPDX-License-Identifier: BSD-3-Clause */
#include "examples/gpt/model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "examples/gpt/random.h"

/* What divides a tensor when ranks share a layer: the heads, or the numbers inside the perceptron; over its columns or its rows. */
enum divided { WHOLE, HEADS_COLS, HEADS_ROWS, INNER_COLS, INNER_ROWS };

/* Shapes in multiples of the width; rows 0: a vector. */
static const struct {
    const char *name;
    int rows, cols;
    enum gpt_initial initial;
    enum divided divided;
} block_tensors[GPT_BLOCK_TENSORS] = {
    [GPT_LN1_WEIGHT] = {"ln_1.weight", 0, 1, GPT_INITIAL_ONE, WHOLE},
    [GPT_LN1_BIAS] = {"ln_1.bias", 0, 1, GPT_INITIAL_ZERO, WHOLE},
    [GPT_QKV_WEIGHT] = {"attn.c_attn.weight", 1, 3, GPT_INITIAL_NORMAL, HEADS_COLS},
    [GPT_QKV_BIAS] = {"attn.c_attn.bias", 0, 3, GPT_INITIAL_ZERO, HEADS_COLS},
    [GPT_OUT_WEIGHT] = {"attn.c_proj.weight", 1, 1, GPT_INITIAL_RESIDUAL, HEADS_ROWS},
    [GPT_OUT_BIAS] = {"attn.c_proj.bias", 0, 1, GPT_INITIAL_ZERO, WHOLE},
    [GPT_LN2_WEIGHT] = {"ln_2.weight", 0, 1, GPT_INITIAL_ONE, WHOLE},
    [GPT_LN2_BIAS] = {"ln_2.bias", 0, 1, GPT_INITIAL_ZERO, WHOLE},
    [GPT_FC_WEIGHT] = {"mlp.c_fc.weight", 1, 4, GPT_INITIAL_NORMAL, INNER_COLS},
    [GPT_FC_BIAS] = {"mlp.c_fc.bias", 0, 4, GPT_INITIAL_ZERO, INNER_COLS},
    [GPT_PROJ_WEIGHT] = {"mlp.c_proj.weight", 4, 1, GPT_INITIAL_RESIDUAL, INNER_ROWS},
    [GPT_PROJ_BIAS] = {"mlp.c_proj.bias", 0, 1, GPT_INITIAL_ZERO, WHOLE},
};

const char *gpt_config_check(const struct gpt_config *c)
{
    if (c->vocabulary < 2 || c->vocabulary > 65536)
        return "the vocabulary must have 2 to 65536 tokens";
    if (c->context < 1 || c->context > 65536)
        return "the context must have 1 to 65536 tokens";
    if (c->layers < 1 || c->layers > 1000)
        return "there must be 1 to 1000 layers";
    if (c->width < 1 || c->width > 65536)
        return "the width must be 1 to 65536";
    if (c->heads < 1 || c->width % c->heads)
        return "the width must be a multiple of the heads";
    if (c->ways > c->heads || c->ways > c->vocabulary)
        return "there must be as many heads and as many tokens in the vocabulary as ranks along tp";
    if (!(c->dropout >= 0 && c->dropout < 1))
        return "the dropout must be at least 0 and below 1";
    return NULL;
}

enum gpt_unit_kind gpt_unit_kind(const struct gpt_config *c, int unit)
{
    return unit == 0                  ? GPT_UNIT_WTE
           : unit == 1                ? GPT_UNIT_WPE
           : unit == gpt_units(c) - 1 ? GPT_UNIT_NORM
                                      : GPT_UNIT_BLOCK;
}

int gpt_unit_tensors(const struct gpt_config *c, int unit)
{
    static const int counts[] = {
        [GPT_UNIT_WTE] = 1, [GPT_UNIT_WPE] = 1, [GPT_UNIT_BLOCK] = GPT_BLOCK_TENSORS, [GPT_UNIT_NORM] = 2};
    return counts[gpt_unit_kind(c, unit)];
}

static void whole_tensor(const struct gpt_config *c, int unit, int tensor, struct gpt_tensor *out)
{
    switch (gpt_unit_kind(c, unit)) {
    case GPT_UNIT_WTE:
        *out = (struct gpt_tensor){.name = "wte.weight", .unit_name = 3, .rows = c->vocabulary, .cols = c->width, .initial = GPT_INITIAL_NORMAL};
        break;
    case GPT_UNIT_WPE:
        *out = (struct gpt_tensor){.name = "wpe.weight", .unit_name = 3, .rows = c->context, .cols = c->width, .initial = GPT_INITIAL_POSITION};
        break;
    case GPT_UNIT_BLOCK:
        out->rows = block_tensors[tensor].rows ? block_tensors[tensor].rows * (int64_t)c->width : 1;
        out->cols = block_tensors[tensor].cols * (int64_t)c->width;
        out->initial = block_tensors[tensor].initial;
        out->unit_name = snprintf(out->name, sizeof out->name, "h.%d", unit - 2);
        snprintf(out->name + out->unit_name, sizeof out->name - (size_t)out->unit_name, ".%s", block_tensors[tensor].name);
        break;
    case GPT_UNIT_NORM:
        *out = tensor == 0 ? (struct gpt_tensor){.name = "ln_f.weight", .unit_name = 4, .rows = 1, .cols = c->width, .initial = GPT_INITIAL_ONE}
                           : (struct gpt_tensor){.name = "ln_f.bias", .unit_name = 4, .rows = 1, .cols = c->width, .initial = GPT_INITIAL_ZERO};
        break;
    }
    out->whole_rows = out->rows;
    out->whole_cols = out->cols;
    out->first_row = out->first_col = 0;
    out->groups = 1;
}

void gpt_unit_tensor(const struct gpt_config *c, int unit, int tensor, struct gpt_tensor *out)
{
    enum gpt_unit_kind kind = gpt_unit_kind(c, unit);
    enum divided divided = kind == GPT_UNIT_BLOCK ? block_tensors[tensor].divided : WHOLE;
    int head, heads = gpt_own(c, c->heads, &head), inner, inners = gpt_own(c, 4 * c->width, &inner), size = c->width / c->heads;
    whole_tensor(c, unit, tensor, out);
    if (divided == HEADS_COLS) { /* queries, keys and values side by side */
        out->groups = 3;
        out->first_col = (int64_t)head * size;
        out->cols = 3 * (int64_t)heads * size;
    } else if (divided == HEADS_ROWS) {
        out->first_row = (int64_t)head * size;
        out->rows = (int64_t)heads * size;
    } else if (divided == INNER_COLS) {
        out->first_col = inner;
        out->cols = inners;
    } else if (divided == INNER_ROWS) {
        out->first_row = inner;
        out->rows = inners;
    } else if (kind == GPT_UNIT_WTE) {
        int word;
        out->rows = gpt_own(c, c->vocabulary, &word);
        out->first_row = word;
    }
}

void gpt_tensor_place(const struct gpt_tensor *t, int64_t i, int64_t *place, int64_t *run)
{
    int64_t row = i / t->cols, col = i % t->cols, here = t->cols / t->groups, there = t->whole_cols / t->groups;
    *place = (t->first_row + row) * t->whole_cols + col / here * there + t->first_col + col % here;
    *run = t->cols == t->whole_cols ? t->rows * t->cols - i : here - col % here;
}

int64_t gpt_unit_size(const struct gpt_config *c, int unit)
{
    int64_t size = 0;
    for (int t = 0; t < gpt_unit_tensors(c, unit); t++) {
        struct gpt_tensor tensor;
        gpt_unit_tensor(c, unit, t, &tensor);
        size += tensor.rows * tensor.cols;
    }
    return size;
}

int64_t gpt_model_size(const struct gpt_config *c)
{
    int64_t size = 0;
    for (int u = 0; u < gpt_units(c); u++)
        for (int t = 0; t < gpt_unit_tensors(c, u); t++) {
            struct gpt_tensor tensor;
            gpt_unit_tensor(c, u, t, &tensor);
            size += tensor.whole_rows * tensor.whole_cols;
        }
    return size;
}

/* Box and Muller's transformation of two uniform numbers. */
static double normal(uint64_t key, uint64_t n)
{
    double u = 1 - gpt_uniform(key, 2 * n), v = gpt_uniform(key, 2 * n + 1);
    return sqrt(-2 * log(u)) * cos(2 * 3.14159265358979323846 * v);
}

void gpt_initial_values(const struct gpt_config *c, int unit, int tensor, uint64_t seed, int64_t first, int64_t n, real *out)
{
    uint64_t key = gpt_key(gpt_key(seed, (uint64_t)unit), (uint64_t)tensor);
    struct gpt_tensor t;
    gpt_unit_tensor(c, unit, tensor, &t);
    double scale = t.initial == GPT_INITIAL_RESIDUAL ? 0.02 / sqrt(2.0 * c->layers) : t.initial == GPT_INITIAL_POSITION ? 0.01 : 0.02;
    for (int64_t i = 0, place = 0, run = 0; i < n; i++, place++, run--) {
        if (!run)
            gpt_tensor_place(&t, first + i, &place, &run);
        out[i] = t.initial == GPT_INITIAL_ZERO  ? 0
                 : t.initial == GPT_INITIAL_ONE ? 1
                                                : (real)(scale * normal(key, (uint64_t)place));
    }
}
