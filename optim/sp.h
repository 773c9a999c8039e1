/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Attention over divided sequences, inside. sp.c makes and ends plans and checks calls, sp_block.c attends to a block of keys,
 * sp_ulysses.c and sp_ring.c bring queries and keys together.
 */
#ifndef WR_OPTIM_SP_H
#define WR_OPTIM_SP_H

#include <weir/mem.h>
#include <weir/sp.h>

#include "base/compiler.h"
#include "optim/gemm.h"
#include "optim/table.h"

/* Queries and keys that are multiplied at a time: both and the scores between them stay in the second cache. */
enum { WR_SP_QUERIES = 64, WR_SP_KEYS = 128 };

/* What a call works on: the arguments of the public calls. */
struct wr_sp_call {
    int64_t sequences, stride;
    const float *q, *k, *v, *out, *norms, *dout;
    float *to, *to_norms;  /* forward */
    float *dq, *dk, *dv;   /* backward */
};

struct wr_sp_class {
    /* This rank alone: checks the options and makes what is not registered memory. */
    weir_status (*prepare)(weir_sp *sp, weir_error *err);
    uint64_t (*elements)(const weir_sp *sp); /* of registered memory */
    weir_status (*set_up)(weir_sp *sp);      /* collective, once sp->memory is there; an error is one of communication */
    void (*tear_down)(weir_sp *sp);          /* collective */
    weir_status (*forward)(weir_sp *sp, const struct wr_sp_call *call);
    weir_status (*backward)(weir_sp *sp, const struct wr_sp_call *call);
};

extern const struct wr_sp_class wr_sp_ulysses, wr_sp_ring;

/* The exchanges of Ulysses. */
enum wr_sp_exchange { WR_SP_THERE, WR_SP_BACK, WR_SP_THERE_BACKWARD, WR_SP_BACK_BACKWARD, WR_SP_EXCHANGES };

/* What is under way around the ring. */
enum wr_sp_open { WR_SP_KEYS_IN, WR_SP_KEYS_OUT, WR_SP_GRADS_IN, WR_SP_GRADS_OUT, WR_SP_GRADS_OUT_TOO, WR_SP_GRADS_HOME, WR_SP_OPEN };

struct weir_sp {
    weir_comm *comm;
    weir_sp_options o;
    const struct wr_sp_class *class;
    int rank, nranks;
    int64_t rows;      /* tokens of each sequence here */
    int64_t most_rows; /* on the rank that has most of them */
    int64_t width;     /* heads x head_size */
    struct wr_gemm gemm;
    const struct wr_softmax_loops *loops;
    weir_mem *mem;
    float *memory;     /* registered */
    float *tiles;      /* two of WR_SP_QUERIES x WR_SP_KEYS */
    float *most, *sum; /* of softmax: one number for a token and head that is computed here */
    weir_error error;
    bool broken;
    /* Ulysses */
    int64_t heads;     /* of this rank */
    uint64_t *counts;  /* by exchange, out or in, and rank */
    weir_request *exchange[WR_SP_EXCHANGES];
    /* Ring */
    weir_request *open[WR_SP_OPEN];
    weir_status failed; /* of what was under way */
};

/* Tokens in a row that a rank has of each sequence: its first row with them, how many, and the place of the first. */
struct wr_sp_piece {
    int64_t row, n, place;
};

/* Pieces of a rank. */
static inline int wr_sp_pieces(const weir_sp *sp)
{
    return sp->o.flags & WEIR_SP_ZIGZAG ? 2 : 1;
}

/* ---- sp.c ---- */

/* Piece k of a rank. */
struct wr_sp_piece wr_sp_piece(const weir_sp *sp, int rank, int k);

/* Tokens of each sequence that a rank has. */
int64_t wr_sp_rows_of(const weir_sp *sp, int rank);

/* Remembers an error of communication; returns status. */
weir_status wr_sp_checked(weir_sp *sp, weir_status status);

/* ---- sp_block.c: one head of one sequence, some queries and a block of keys and values ---- */

struct wr_sp_block {
    int64_t sequence, head;     /* of the call; of all heads */
    int64_t nq, nk;             /* tokens */
    int64_t q_first, k_first;   /* their places in the sequence */
    const float *q, *k, *v;
    int64_t q_stride, k_stride; /* numbers from token to token; that of v is that of k */
};

/* What is known of queries after some blocks. It begins with 0, -infinity and 0. */
struct wr_sp_sums {
    float *out;        /* sum of values, times exponentials relative to most */
    int64_t stride;    /* numbers from token to token */
    float *most, *sum; /* largest score, and sum of exponentials */
    int64_t step;      /* from token to token of those */
};

void wr_sp_block_forward(const weir_sp *sp, const struct wr_sp_block *b, const struct wr_sp_sums *s);

/* After the last block: divides by the sums; norms may be most. */
void wr_sp_block_finish(const weir_sp *sp, int64_t nq, const struct wr_sp_sums *s, float *norms, int64_t step);

/* Gradients, which are added to. */
struct wr_sp_grads {
    const float *dout;           /* of the result */
    int64_t dout_stride;
    const float *norms, *means;  /* of a token: as the forward pass left it; product of dout and out */
    int64_t step;                /* from token to token of those */
    float *dq, *dk, *dv;         /* stand as far apart as these numbers say */
    int64_t dq_stride, dk_stride;
};

void wr_sp_block_backward(const weir_sp *sp, const struct wr_sp_block *b, const struct wr_sp_grads *g);

#endif
