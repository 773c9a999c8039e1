/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Dropout. What is dropped is a function of the step, the place in the model, and of an element's number among those of the whole step:
 * of its sequence among all sequences, and of its token in the whole sequence. So it does not depend on who computes what.
 */
#include "examples/gpt/layers.h"
#include "examples/gpt/random.h"

struct gpt_drop gpt_pass_drop(const struct gpt_pass *p, int layer, enum gpt_drop_site site)
{
    struct gpt_drop drop = {0, 0, 1};
    double share = p->config->dropout;
    if (!p->training || share <= 0)
        return drop;
    drop.key = (uint32_t)(gpt_key(p->dropout_key, (uint64_t)layer * 4 + site) >> 32);
    drop.threshold = (uint32_t)(share * 0x1p32);
    drop.scale = (real)(1 / (1 - share));
    return drop;
}

uint32_t gpt_row_element(const struct gpt_pass *p, int64_t row)
{
    uint64_t sequence = (uint64_t)(p->first + row / p->length), place = (uint64_t)gpt_pass_place(p, (int)(row % p->length));
    return (uint32_t)((sequence * (uint64_t)p->config->context + place) * (uint64_t)p->config->width);
}

/* Rows from this one on, before `end`, whose elements are numbered one after the other. */
static int64_t run_of(const struct gpt_pass *p, int64_t row, int64_t end)
{
    int token = (int)(row % p->length), n = token < p->before ? p->before - token : p->length - token;
    return !p->attend || end - row < n ? end - row : n;
}

void gpt_drop_rows(const struct gpt_pass *p, const struct gpt_drop *drop, const real *x, real *y)
{
    int64_t first, rows = gpt_pass_own(p, &first), c = p->config->width;
    for (int64_t row = 0, n; row < rows; row += n) {
        n = run_of(p, first + row, first + rows);
        p->kernels->drop(n * c, x + row * c, drop, gpt_row_element(p, first + row), y + row * c);
    }
}

void gpt_residual_rows(const struct gpt_pass *p, const struct gpt_drop *drop, const real *x, const real *bias, real *y)
{
    int64_t first, rows = gpt_pass_own(p, &first), c = p->config->width;
    for (int64_t row = 0, n; row < rows; row += n) {
        n = drop->threshold ? run_of(p, first + row, first + rows) : rows;
        p->kernels->residual(n, (int)c, x + row * c, bias, drop, gpt_row_element(p, first + row), y + row * c);
    }
}
