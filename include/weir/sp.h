/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Attention over sequences that are divided among ranks, forward and backward.
 *
 * Each rank has some tokens of every sequence: of `length` tokens those that weir_share_first() gives it, or with ::WEIR_SP_ZIGZAG pieces r
 * and 2 n - 1 - r of the 2 n pieces that it makes for rank r of n. weir_sp_place() says which. Everything in a transformer but
 * attention looks at one token at a time; attention is what this file is for. It is exact, by one of two methods:
 *
 * - *Ulysses*: an all-to-all gives each rank all tokens of some of the heads, which it attends to alone, and another one brings the results
 *   back to where the tokens are (Jacobs et al., "DeepSpeed Ulysses", 2023, arXiv:2309.14509). Fewest bytes; needs as many heads as ranks.
 * - *Ring*: keys and values travel from rank to rank, and each block of them is attended to while the next one is on its way; softmax
 *   is made block by block (Liu et al., "Ring attention with blockwise transformers", 2023, arXiv:2310.01889). Any number of heads. With
 *   ::WEIR_SP_CAUSAL blocks only travel to the ranks that look at them, and the last rank has most to do; ::WEIR_SP_ZIGZAG gives
 *   each rank one piece of the beginning and one of the end, so that all have the same to do (Brandon et al., "Striped attention", 2023,
 *   arXiv:2311.09431, shows how much is lost without; pieces from both ends are those of Dubey et al., "The Llama 3 herd of models", 2024).
 *
 * Neither ever holds a matrix of tokens x tokens: scores are made in tiles and not kept; the backward pass makes them again (Dao et al.,
 * "FlashAttention", 2022, arXiv:2205.14135).
 *
 * Queries, keys, values and results are matrices of fp32, row-major, with a row for each token of this rank, sequence after sequence:
 * row i * rows + j is its token j of sequence i, where rows is weir_sp_rows(). A row has heads x head_size numbers, head after head; rows
 * may stand further apart, so that queries, keys and values can lie side by side.
 *
 * Calls are collective over the communicator and allocate nothing. They return a status; the sentence that belongs to it is
 * weir_sp_error(). After an error of communication a ::weir_sp is only to be freed.
 *
 * Thread safety: one thread at a time on a ::weir_sp, and one collective call at a time on its communicator.
 */
#ifndef WEIR_SP_H
#define WEIR_SP_H

#include <stddef.h>
#include <stdint.h>

#include <weir/comm.h>
#include <weir/tp.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Attention over divided sequences, opaque. */
typedef struct weir_sp weir_sp;

/** The methods: X(name, value, text). */
#define WEIR_SP_METHOD_TABLE(X)                                                                                        \
    X(WEIR_SP_ULYSSES, 0, "ulysses")                                                                                   \
    X(WEIR_SP_RING, 1, "ring")

/** How tokens of different ranks meet. */
typedef enum weir_sp_method {
#define WEIR_SP_METHOD_ENUM(name, value, text) name = value,
    WEIR_SP_METHOD_TABLE(WEIR_SP_METHOD_ENUM)
#undef WEIR_SP_METHOD_ENUM
} weir_sp_method;

/** Flags of weir_sp_create(). */
typedef enum weir_sp_flags {
    WEIR_SP_CAUSAL = 1, /**< a token attends to itself and those before it; else to all of its sequence */
    WEIR_SP_ZIGZAG = 2  /**< ::WEIR_SP_RING: each rank has two pieces of each sequence, and all have equally much to do */
} weir_sp_flags;

/**
 * Drops shares of attention: multiplies those of `n` tokens from `key` on, to which token `query` attends in head `head` of sequence
 * `sequence` of the call, by 0 or by what makes up for that. Tokens are numbered by their place in the sequence, so that what is dropped
 * need not depend on how sequences are divided. Called for any parts of a row, in any order, and again, with the same answer, by
 * the backward pass.
 */
typedef void (*weir_sp_drop_fn)(void *user, int64_t sequence, int64_t head, int64_t query, int64_t key, int64_t n, float *shares);

/** How a ::weir_sp is made; must agree on all ranks, but for pointers. */
typedef struct weir_sp_options {
    size_t size;       /**< set by ::WEIR_SP_OPTIONS_INIT */
    uint64_t method;   /**< a ::weir_sp_method */
    uint64_t flags;    /**< ::weir_sp_flags */
    int64_t sequences; /**< most sequences of a call */
    int64_t length;    /**< tokens of each, over all ranks; at least one for each rank */
    int64_t heads;     /**< with ::WEIR_SP_ULYSSES at least one for each rank; they need not divide evenly */
    int64_t head_size; /**< numbers of a token in a head */
    double scale;      /**< of scores, before softmax; 0: 1 / sqrt(head_size) */
    weir_gemm_fn gemm; /**< multiplies matrices; NULL: OpenBLAS does */
    void *gemm_user;   /**< handed to it */
    weir_sp_drop_fn drop; /**< drops shares, after softmax; NULL: none is dropped */
    void *drop_user;   /**< handed to it */
} weir_sp_options;

/** Causal Ulysses; sequences, length, heads and head_size are to be set. */
#define WEIR_SP_OPTIONS_INIT                                                                                           \
    {                                                                                                                  \
        sizeof(weir_sp_options), WEIR_SP_ULYSSES, WEIR_SP_CAUSAL, 0, 0, 0, 0, 0.0, NULL, NULL, NULL, NULL              \
    }

/**
 * Makes a ::weir_sp. Collective. With R = sequences x this rank's tokens x heads x head_size numbers it holds, in registered memory, about
 * 14 R (Ulysses) or, with the largest R of all ranks, 12 R (ring).
 *
 * @param comm        the ranks among which sequences are divided, in the order of the tokens; must outlive it
 * @param options     see there
 * @param[out] sp     to be freed by weir_sp_free(); set on success only
 * @param[out] error  may be NULL
 * @return ::WEIR_OK on all ranks, or an error on all: ::WEIR_ERR_INVALID, also for sequences with fewer tokens than ranks, or fewer heads
 *         than ranks with ::WEIR_SP_ULYSSES; ::WEIR_ERR_UNSUPPORTED where OpenBLAS is needed and missing; ::WEIR_ERR_MISMATCH when the
 *         ranks' options differ; ::WEIR_ERR_CANCELED when another rank had an error; ::WEIR_ERR_NO_MEMORY; ::WEIR_ERR_LIMIT;
 *         ::WEIR_ERR_PEER_LOST
 */
weir_status weir_sp_create(weir_comm *comm, const weir_sp_options *options, weir_sp **sp, weir_error *error);

/** Frees it. Collective; NULL does nothing. */
void weir_sp_free(weir_sp *sp);

/** What was wrong in the last call that failed. Owned by sp, until the next call. */
const weir_error *weir_sp_error(const weir_sp *sp);

/** Tokens of each sequence on this rank; the first of them is `*first` (which may be NULL). */
int64_t weir_sp_rows(const weir_sp *sp, int64_t *first);

/** The place in its sequence of this rank's token `row`, 0 .. weir_sp_rows() - 1: it grows with the row. Thread safety: safe. */
int64_t weir_sp_place(const weir_sp *sp, int64_t row);

/** The rank that has the token at a place, 0 .. length - 1; its row there is `*row` (which may be NULL). -1: there is no such place. Thread
    safety: safe. */
int weir_sp_owner(const weir_sp *sp, int64_t place, int64_t *row);

/**
 * Attention forward: in each head, out = softmax(scale q k') v over the tokens that may be looked at.
 *
 * @param sp          a ::weir_sp
 * @param sequences   at most weir_sp_options::sequences
 * @param q, k, v     of this rank's tokens
 * @param stride      numbers from one row of q, k or v to the next, at least heads x head_size
 * @param[out] out    what was attended to; rows lie heads x head_size apart
 * @param[out] norms  logarithm of the sum of exponentials of each token's scores, a row of heads numbers for each token; wanted by
 *                    weir_sp_attention_backward()
 * @return ::WEIR_OK; ::WEIR_ERR_INVALID; errors of communication
 */
weir_status weir_sp_attention_forward(weir_sp *sp, int64_t sequences, const float *q, const float *k, const float *v, int64_t stride,
                                      float *out, float *norms);

/**
 * Attention backward.
 *
 * @param sp, sequences, q, k, v, stride, out, norms  as in the forward pass
 * @param dout             gradient of out
 * @param[out] dq, dk, dv  gradients of q, k and v, in rows that lie `stride` numbers apart, too
 * @return as weir_sp_attention_forward()
 */
weir_status weir_sp_attention_backward(weir_sp *sp, int64_t sequences, const float *q, const float *k, const float *v, int64_t stride,
                                       const float *out, const float *norms, const float *dout, float *dq, float *dk, float *dv);

#ifdef __cplusplus
}
#endif

#endif
