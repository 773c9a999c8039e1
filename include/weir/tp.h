/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Tensor parallelism: layers whose matrices are divided among the ranks of a communicator, forward and backward.
 *
 * Activations are matrices of fp32, row-major and dense, with a row for each token. A *column-parallel* layer divides its outputs
 * among the ranks, a *row-parallel* one its inputs; one after the other they need one communication forward and one backward
 * (Shoeybi et al., "Megatron-LM", 2019, arXiv:1909.08053):
 *
 * | layer | forward | backward |
 * | column-parallel | y_r = x w_r + b_r: none | dx = sum over ranks of dy_r w_r': all-reduce |
 * | row-parallel | y = (sum over ranks of x_r w_r) + b: all-reduce | dx_r = dy w_r': none |
 *
 * With ::WEIR_TP_SEQUENCE the activations between such pairs (x of the first, y of the second one) are divided among the ranks, too,
 * by tokens, and what is done with them there (norms, dropout, residuals) is done once instead of on every rank. The all-reduces
 * then become all-gathers of tokens and reduce-scatters, which together move as many bytes (Korthikanti et al., "Reducing activation
 * recomputation in large transformer models", 2022, arXiv:2205.05198).
 *
 * A ::weir_tp belongs to activations of one width, not to a layer: all layers of a model that communicate matrices of that
 * width use the same one, with one set of buffers and persistent requests. Its calls are collective over its communicator and
 * allocate nothing. Weights, gradients and activations are the caller's; gradients of weights are added to what is there, those of
 * activations are written.
 *
 * Whatever is divided (outputs, inputs, words, tokens) is divided by weir_share_first(): parts may be unequal, and empty.
 *
 * Calls return a status; the sentence that belongs to it is weir_tp_error(). After an error of communication a ::weir_tp is only to
 * be freed. Arrays are not NULL, unless it is said, or they have no elements.
 *
 * Thread safety: one thread at a time on a ::weir_tp, and one collective call at a time on its communicator.
 */
#ifndef WEIR_TP_H
#define WEIR_TP_H

#include <stddef.h>
#include <stdint.h>

#include <weir/comm.h>

#ifdef __cplusplus
extern "C" {
#endif

/** @name What is divided, and products of matrices */
/** @{ */

/**
 * How `total` things in a row are divided among ranks: rank r has those from weir_share_first(total, nranks, r) to before
 * weir_share_first(total, nranks, r + 1). The first `total % nranks` ranks have one more than the others. Thread safety: safe.
 *
 * @param total   0 or more
 * @param nranks  1 or more
 * @param rank    0 .. nranks
 */
int64_t weir_share_first(int64_t total, int nranks, int rank);

/** The number of things that a rank has, see weir_share_first(). Thread safety: safe. */
int64_t weir_share(int64_t total, int nranks, int rank);

/**
 * A product of matrices: c = alpha op(a) op(b) + beta c. c has m rows of n, op(a) m rows of k, op(b) k rows of n; all are row-major,
 * lda, ldb and ldc elements from row to row as they are stored. op transposes where transpose_a or transpose_b is not 0: a is then stored
 * as k rows of m. With beta 0, c is not read.
 */
typedef void (*weir_gemm_fn)(void *user, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float *a, int lda,
                             const float *b, int ldb, float beta, float *c, int ldc);

/** @} */
/** @name Making and ending */
/** @{ */

/** Activations of one width on the ranks of one communicator, opaque. */
typedef struct weir_tp weir_tp;

/** Flags of weir_tp_create(). */
typedef enum weir_tp_flags {
    WEIR_TP_SEQUENCE = 1 /**< activations between the layers are divided by tokens: Megatron's sequence parallelism */
} weir_tp_flags;

/** How a ::weir_tp is made; must agree on all ranks, but for pointers. */
typedef struct weir_tp_options {
    size_t size;       /**< set by ::WEIR_TP_OPTIONS_INIT */
    int64_t tokens;    /**< most tokens (rows) of a call */
    int64_t width;     /**< numbers for a token in what is communicated, as a whole */
    uint64_t flags;    /**< ::weir_tp_flags */
    int64_t experts;   /**< 1. More, that is layers that only some tokens go through, are not supported */
    weir_gemm_fn gemm; /**< multiplies matrices; NULL: OpenBLAS does, in the calling thread's number of threads */
    void *gemm_user;   /**< handed to it */
} weir_tp_options;

/** No tokens and no width yet; products by OpenBLAS. */
#define WEIR_TP_OPTIONS_INIT                                                                                           \
    {                                                                                                                  \
        sizeof(weir_tp_options), 0, 0, 0, 1, NULL, NULL                                                                \
    }

/**
 * Makes a ::weir_tp. Collective. It holds two matrices of tokens x width in registered memory.
 *
 * @param comm        the ranks that divide the layers, best those of a node; must outlive it
 * @param options     see there
 * @param[out] tp     to be freed by weir_tp_free(); set on success only
 * @param[out] error  may be NULL
 * @return ::WEIR_OK on all ranks, or an error on all: ::WEIR_ERR_INVALID; ::WEIR_ERR_UNSUPPORTED for experts, or where OpenBLAS is
 *         needed and missing; ::WEIR_ERR_MISMATCH when the ranks' options differ; ::WEIR_ERR_CANCELED when another rank had an error;
 *         ::WEIR_ERR_NO_MEMORY; ::WEIR_ERR_LIMIT; ::WEIR_ERR_PEER_LOST
 */
weir_status weir_tp_create(weir_comm *comm, const weir_tp_options *options, weir_tp **tp, weir_error *error);

/** Frees it. Collective; NULL does nothing. */
void weir_tp_free(weir_tp *tp);

/** What was wrong in the last call that failed. Owned by tp, until the next call. */
const weir_error *weir_tp_error(const weir_tp *tp);

/**
 * The tokens that this rank has of activations between the layers: with ::WEIR_TP_SEQUENCE its share of the *most* tokens, as far as
 * there are that many, so that a row is on the same rank in every call; else all of them.
 *
 * @param tokens      of the call, at most weir_tp_options::tokens
 * @param[out] first  the first of them; may be NULL
 * @return how many
 */
int64_t weir_tp_rows(const weir_tp *tp, int64_t tokens, int64_t *first);

/** @} */
/** @name Linear layers */
/** @{ */

/** How the matrix of a layer is stored. */
typedef enum weir_tp_layout {
    WEIR_TP_ROW_PER_INPUT = 0, /**< w has inputs rows of outputs, as in GPT-2's files */
    WEIR_TP_ROW_PER_OUTPUT = 1 /**< w has outputs rows of inputs, as PyTorch's Linear and as an embedding that is used again */
} weir_tp_layout;

/**
 * A column-parallel layer forward: y = x w + bias, for this rank's outputs.
 *
 * @param tp       a ::weir_tp; its width is that of the inputs
 * @param tokens   at most weir_tp_options::tokens
 * @param outputs  of this rank; 0 or more
 * @param layout   of w, a ::weir_tp_layout
 * @param x        weir_tp_rows() x width
 * @param w        this rank's part of the matrix: width x outputs, see layout
 * @param bias     outputs; NULL for none
 * @param[out] y   tokens x outputs
 * @return ::WEIR_OK; ::WEIR_ERR_INVALID; errors of communication
 */
weir_status weir_tp_column_forward(weir_tp *tp, int64_t tokens, int64_t outputs, int layout, const float *x, const float *w,
                                   const float *bias, float *y);

/**
 * A column-parallel layer backward. The communication of dx goes on while dw is computed.
 *
 * @param tp, tokens, outputs, layout, x, w  as in the forward pass; with ::WEIR_TP_SEQUENCE x is gathered again
 * @param dy          gradient of y, tokens x outputs
 * @param[out] dx     gradient of x, weir_tp_rows() x width; NULL: it is not computed (as everywhere)
 * @param[in,out] dw     gradient of w, in its layout, is added to; NULL: it is not computed, and x is not looked at
 * @param[in,out] dbias  gradient of bias is added to; may be NULL
 * @return as weir_tp_column_forward(). All ranks ask for the same gradients
 */
weir_status weir_tp_column_backward(weir_tp *tp, int64_t tokens, int64_t outputs, int layout, const float *x, const float *w,
                                    const float *dy, float *dx, float *dw, float *dbias);

/**
 * A row-parallel layer forward: y = (the sum over ranks of x w) + bias.
 *
 * @param tp      a ::weir_tp; its width is that of the outputs
 * @param tokens  at most weir_tp_options::tokens
 * @param inputs  of this rank; 0 or more
 * @param layout  of w, a ::weir_tp_layout
 * @param x       tokens x inputs
 * @param w       this rank's part of the matrix: inputs x width, see layout
 * @param bias    width, the same on all ranks, added once; NULL for none
 * @param[out] y  weir_tp_rows() x width
 * @return as weir_tp_column_forward()
 */
weir_status weir_tp_row_forward(weir_tp *tp, int64_t tokens, int64_t inputs, int layout, const float *x, const float *w,
                                const float *bias, float *y);

/**
 * A row-parallel layer backward.
 *
 * @param tp, tokens, inputs, layout, x, w  as in the forward pass
 * @param dy          gradient of y, weir_tp_rows() x width; with ::WEIR_TP_SEQUENCE it is gathered
 * @param[out] dx     gradient of x, tokens x inputs; NULL: it is not computed
 * @param[in,out] dw     gradient of w, in its layout, is added to; NULL: it is not computed, and x is not looked at
 * @param[in,out] dbias  gradient of bias, of all tokens on every rank, is added to; may be NULL
 * @return as weir_tp_column_forward(). All ranks ask for the same gradients
 */
weir_status weir_tp_row_backward(weir_tp *tp, int64_t tokens, int64_t inputs, int layout, const float *x, const float *w,
                                 const float *dy, float *dx, float *dw, float *dbias);

/** @} */
/** @name The communications alone, for layers that a program computes itself */
/** @{ */

/**
 * What comes before a column-parallel layer, and the way back of weir_tp_reduce(): the rows of all ranks.
 *
 * @param x           weir_tp_rows() x width
 * @param[out] whole  tokens x width: x itself, or with ::WEIR_TP_SEQUENCE a buffer of tp, valid until the next call
 * @return ::WEIR_OK; ::WEIR_ERR_INVALID; errors of communication
 */
weir_status weir_tp_gather(weir_tp *tp, int64_t tokens, const float *x, const float **whole);

/**
 * What comes after a row-parallel layer, and the way back of weir_tp_gather(): the sum over ranks.
 *
 * @param x       tokens x width; the ranks' parts of a sum
 * @param[out] y  weir_tp_rows() x width; may be x
 * @return ::WEIR_OK; ::WEIR_ERR_INVALID; errors of communication
 */
weir_status weir_tp_reduce(weir_tp *tp, int64_t tokens, const float *x, float *y);

/**
 * Starts what weir_tp_reduce() does; x may be written to again. Until weir_tp_reduce_end() only weir_tp_gather() may be called in between, and
 * what else the program has to compute.
 *
 * @return as weir_tp_reduce(); ::WEIR_ERR_INVALID also when one was started already
 */
weir_status weir_tp_reduce_start(weir_tp *tp, int64_t tokens, const float *x);

/** Waits for the sum. @return as weir_tp_reduce(); ::WEIR_ERR_INVALID also when none was started */
weir_status weir_tp_reduce_end(weir_tp *tp, float *y);

/** @} */
/** @name Embedding and loss over a vocabulary that is divided */
/** @{ */

/**
 * An embedding forward: each token's row of the table. Rank r has the rows of weir_share(vocabulary, ranks, r) words.
 *
 * @param tp          a ::weir_tp; its width is that of the table
 * @param tokens      at most weir_tp_options::tokens
 * @param vocabulary  words in all
 * @param words       tokens numbers, 0 .. vocabulary-1; the same on all ranks
 * @param table       this rank's words x width
 * @param[out] y      weir_tp_rows() x width
 * @return ::WEIR_OK; ::WEIR_ERR_INVALID, also for a word out of range (on all ranks, before anything is sent); errors of communication
 */
weir_status weir_tp_embed_forward(weir_tp *tp, int64_t tokens, int64_t vocabulary, const int32_t *words, const float *table, float *y);

/**
 * An embedding backward. No communication, but with ::WEIR_TP_SEQUENCE, where dy is gathered.
 *
 * @param dy              gradient of y, weir_tp_rows() x width
 * @param[in,out] dtable  gradient of this rank's part of the table; is added to
 * @return as weir_tp_embed_forward()
 */
weir_status weir_tp_embed_backward(weir_tp *tp, int64_t tokens, int64_t vocabulary, const int32_t *words, const float *dy, float *dtable);

/**
 * The cross-entropy of logits whose columns are divided as the words of weir_tp_embed_forward() are, and its gradient:
 * loss of a token = log(sum over words of exp(logit)) - logit of its target. Two all-reduces of one and of two numbers for each token.
 *
 * @param tp                a ::weir_tp of any width
 * @param tokens            at most weir_tp_options::tokens
 * @param vocabulary        words in all
 * @param targets           tokens numbers, 0 .. vocabulary-1, or negative: that token has no loss and no gradient; the same on all ranks
 * @param scale             of the gradient
 * @param[in,out] logits    tokens x this rank's words; become the gradient of scale x the sum of the losses
 * @param[out] losses       of each token; may be NULL
 * @param[out] sum          of the losses, the same on all ranks; may be NULL
 * @return as weir_tp_embed_forward()
 */
weir_status weir_tp_cross_entropy(weir_tp *tp, int64_t tokens, int64_t vocabulary, const int32_t *targets, float scale, float *logits,
                                  float *losses, double *sum);

/** @} */

#ifdef __cplusplus
}
#endif

#endif
