/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The layers, forward and backward. A layer owns nothing: parameters, gradients and what is kept between the passes are the caller's
 * arrays; of a unit with several tensors there is an array of pointers to them. Gradients of parameters are added to what is there.
 *
 * The backward pass of a block comes in two parts, as pipelines want it: _back_input() gives the gradient of the layer's input, on
 * which the layers before it wait; _back_weight() gives that of the matrices and biases, whenever there is time. (The few parameters of
 * the norms get theirs in the first part.)
 */
#ifndef GPT_LAYERS_H
#define GPT_LAYERS_H

#include <weir/status.h>

#include "examples/gpt/kernels.h"
#include "examples/gpt/model.h"

struct gpt_pass;
struct gpt_block_acts;

/* Attention where the tokens of a sequence are on several ranks; its other layers look at one token at a time. */
struct gpt_attend {
    weir_status status; /* the first error; after one nothing is computed any more */
    void (*forward)(struct gpt_attend *attend, const struct gpt_pass *pass, int layer, const struct gpt_block_acts *acts);
    void (*backward)(struct gpt_attend *attend, const struct gpt_pass *pass, int layer, const struct gpt_block_acts *acts,
                     const real *dheads, real *dqkv);
};

/*
 * Layers whose matrices are divided among ranks; each then computes with the same rows. What is between such layers (norms, dropout,
 * sums) each rank does for all rows, or for rows of its own: Megatron's sequence parallelism.
 */
struct gpt_join {
    weir_status status; /* as above */
    /* Rows that are this rank's own, and the first of them. */
    int64_t (*own)(const struct gpt_join *join, const struct gpt_pass *pass, int64_t *first);
    /* Starts to sum x, all rows x width, over these ranks; waits until y, own rows x width, is the sum. They may be the same. */
    void (*start)(struct gpt_join *join, const struct gpt_pass *pass, const real *x);
    void (*end)(struct gpt_join *join, const struct gpt_pass *pass, real *y);
    /* All rows, of which each rank has its own: x itself, or memory that the next call of these uses again. */
    const real *(*gather)(struct gpt_join *join, const struct gpt_pass *pass, const real *x);
    /* gpt_head_loss(); of the logits each rank has the columns of its words. */
    double (*loss)(struct gpt_join *join, const struct gpt_pass *pass, const int32_t *targets, double scale, real *logits);
};

/* What all layers have to know of a pass. */
struct gpt_pass {
    struct gpt_join *join; /* NULL: this rank has the whole of every layer */
    const struct gpt_config *config;
    const struct gpt_kernels *kernels;
    int sequences;
    int length;            /* tokens of each on this rank, at most the context */
    int position;          /* of the first of them in its sequence */
    int before, jump;      /* the first so many of them lie one after the other; those behind them lie that much further on */
    struct gpt_attend *attend; /* NULL: sequences are whole */
    uint64_t dropout_key;  /* of this training step; looked at where config->dropout is not 0 */
    bool training;         /* dropout takes place */
    int64_t first;         /* number of the first sequence among those of the step, over all ranks */
    real *scratch;         /* gpt_scratch_size() elements that keep nothing between calls */
    struct gpt_products *products; /* where matrix products are noted; NULL: nowhere */
};

/* The products that passes made. */
struct gpt_products {
    struct gpt_product *list;
    size_t n, room; /* what does not fit is not noted */
};

/* Makes a product of a pass. */
static inline void gpt_pass_multiply(const struct gpt_pass *pass, struct gpt_product product)
{
    if (pass->products && pass->products->n < pass->products->room)
        pass->products->list[pass->products->n++] = product;
    gpt_multiply(&product);
}

/* Numbers for a token in the heads of this rank. */
static inline int gpt_pass_attended(const struct gpt_pass *pass)
{
    return gpt_own_heads(pass->config) * (pass->config->width / pass->config->heads);
}

static inline int64_t gpt_pass_rows(const struct gpt_pass *pass)
{
    return (int64_t)pass->sequences * pass->length;
}

/* Rows of this rank between divided layers; the first of them is *first, which may be NULL. */
static inline int64_t gpt_pass_own(const struct gpt_pass *pass, int64_t *first)
{
    int64_t zero;
    first = first ? first : &zero;
    *first = 0;
    return pass->join ? pass->join->own(pass->join, pass, first) : gpt_pass_rows(pass);
}

/* y, own rows, becomes the sum of x, of which every rank of a divided layer has computed a part for all rows. Without one they are the same. */
static inline void gpt_pass_start(const struct gpt_pass *pass, const real *x)
{
    if (pass->join)
        pass->join->start(pass->join, pass, x);
}

static inline void gpt_pass_end(const struct gpt_pass *pass, real *y)
{
    if (pass->join)
        pass->join->end(pass->join, pass, y);
}

static inline void gpt_pass_sum(const struct gpt_pass *pass, const real *x, real *y)
{
    gpt_pass_start(pass, x);
    gpt_pass_end(pass, y);
}

/* All rows of what every rank has its own rows of. */
static inline const real *gpt_pass_gather(const struct gpt_pass *pass, const real *x)
{
    return pass->join ? pass->join->gather(pass->join, pass, x) : x;
}

/* Where a product whose rows are to be summed up is put: where the sum goes, unless that has room for own rows only. */
static inline real *gpt_pass_parts(const struct gpt_pass *pass, real *sum)
{
    return gpt_pass_own(pass, NULL) < gpt_pass_rows(pass) ? pass->scratch : sum;
}

/* The place in its sequence of a token of this rank. */
static inline int gpt_pass_place(const struct gpt_pass *pass, int token)
{
    return pass->position + token + (token >= pass->before ? pass->jump : 0);
}

/* Where dropout takes place; with `layer` they say which elements. */
enum gpt_drop_site { GPT_DROP_ATTENTION, GPT_DROP_OUT, GPT_DROP_PROJ, GPT_DROP_EMBEDDING };

struct gpt_drop gpt_pass_drop(const struct gpt_pass *pass, int layer, enum gpt_drop_site site);

/* The number, for dropout, of the first element of a row of `width` elements. */
uint32_t gpt_row_element(const struct gpt_pass *pass, int64_t row);

/* The number of the first element of an attention matrix, context x context, of one head of all. */
uint32_t gpt_attention_element(const struct gpt_pass *pass, int64_t sequence, int64_t head);

/* y = drop(x), and y = x + drop(y + bias), of this rank's own rows. */
void gpt_drop_rows(const struct gpt_pass *pass, const struct gpt_drop *drop, const real *x, real *y);
void gpt_residual_rows(const struct gpt_pass *pass, const struct gpt_drop *drop, const real *x, const real *bias, real *y);

/* What a block keeps of its forward pass. Of what is as wide as the model there are own rows only. */
struct gpt_block_acts {
    real *norm1, *stats1; /* rows x width; rows x 2 */
    real *qkv;            /* rows x 3 width */
    real *shares;         /* sequences x heads x length x length: the attention; or what a gpt_attend keeps, rows x heads */
    real *heads;          /* rows x width: what was attended to */
    real *mid, *norm2, *stats2;
    real *fc, *gelu;      /* rows x 4 width */
};

/* What _back_input() leaves for _back_weight(). dx is the gradient of the block's input. */
struct gpt_block_grads {
    real *proj; /* of the perceptron's output, rows x width; with dropout only */
    real *fc;   /* rows x 4 width */
    real *mid;  /* of the sum between the halves */
    real *out;  /* of the attention's output; with dropout only */
    real *qkv;  /* rows x 3 width */
    real *dx;   /* rows x width */
};

/* Elements of these, and of a pass' scratch. */
int64_t gpt_block_acts_size(const struct gpt_pass *pass);
int64_t gpt_block_grads_size(const struct gpt_pass *pass);
int64_t gpt_scratch_size(const struct gpt_pass *pass);

/* Divides an array of that many elements. */
struct gpt_block_acts gpt_block_acts_in(const struct gpt_pass *pass, real *memory);
struct gpt_block_grads gpt_block_grads_in(const struct gpt_pass *pass, real *memory);

/* y = wte[token] + wpe[position]; rows x width. */
void gpt_embed(const struct gpt_pass *pass, const real *wte, const real *wpe, const int32_t *tokens, real *y);
void gpt_embed_back(const struct gpt_pass *pass, const int32_t *tokens, const real *dy, real *dwte, real *dwpe);

/* y = block(x). */
void gpt_block(const struct gpt_pass *pass, int layer, const real *const *w, const real *x, const struct gpt_block_acts *a, real *y);
/* weights: what gpt_block_back_weight() does is done, too, while sums over ranks are under way. */
void gpt_block_back_input(const struct gpt_pass *pass, int layer, const real *const *w, const real *x, const struct gpt_block_acts *a,
                          const real *dy, const struct gpt_block_grads *g, real *const *dw, bool weights);
void gpt_block_back_weight(const struct gpt_pass *pass, const struct gpt_block_acts *a, const real *dy,
                           const struct gpt_block_grads *g, real *const *dw);

/* Attention between qkv and heads of the acts, and back from dheads to dqkv. */
void gpt_attention(const struct gpt_pass *pass, int layer, const struct gpt_block_acts *a);
void gpt_attention_back(const struct gpt_pass *pass, int layer, const struct gpt_block_acts *a, const real *dheads, real *dqkv);

/* What the last layers keep: the norm of their input, and the logits, which gpt_head_loss() makes their gradient. */
struct gpt_head_acts {
    real *norm, *stats; /* rows x width; rows x 2 */
    real *logits;       /* rows x vocabulary */
};

int64_t gpt_head_acts_size(const struct gpt_pass *pass);
struct gpt_head_acts gpt_head_acts_in(const struct gpt_pass *pass, real *memory);

/* Logits of x. */
void gpt_head(const struct gpt_pass *pass, const real *wte, const real *const *norm, const real *x,
              const struct gpt_head_acts *a);

/* The sum of the losses over all rows; the logits become the gradient of `scale` times it. */
double gpt_head_loss(const struct gpt_pass *pass, const int32_t *targets, double scale, const struct gpt_head_acts *a);

void gpt_head_back_input(const struct gpt_pass *pass, const real *wte, const real *const *norm, const real *x,
              const struct gpt_head_acts *a,
                         real *dx, real *const *dnorm);
void gpt_head_back_weight(const struct gpt_pass *pass, const struct gpt_head_acts *a, real *dwte);

#endif
