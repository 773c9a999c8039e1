/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tensor parallelism, inside. tp.c makes and ends plans and moves activations, tp_linear.c has the linear layers, tp_vocabulary.c the
 * embedding and the loss.
 */
#ifndef WR_OPTIM_TP_H
#define WR_OPTIM_TP_H

#include <weir/mem.h>
#include <weir/tp.h>

#include "base/compiler.h"
#include "optim/gemm.h"
#include "optim/table.h"

/* The communications of a plan, each with buffers of its own or with those that no other uses at the same time. */
enum wr_tp_request {
    WR_TP_REDUCE, /* parts -> sum: all-reduce, or reduce-scatter of tokens */
    WR_TP_GATHER, /* tokens of this rank in whole -> whole; with WEIR_TP_SEQUENCE only */
    WR_TP_MOST,   /* stats -> totals, one number a token */
    WR_TP_SUMS,   /* the same with two */
    WR_TP_REQUESTS
};

struct weir_tp {
    weir_comm *comm;
    weir_tp_options o;
    int rank, nranks;
    struct wr_gemm gemm;
    const struct wr_softmax_loops *loops;
    weir_mem *mem;
    float *parts, *sum, *whole; /* tokens x width; sum: what this rank gets; whole may be sum where it is not used */
    float *stats, *totals;      /* 2 x tokens */
    weir_request *request[WR_TP_REQUESTS];
    weir_error error;
    bool broken;
    bool summing;   /* between weir_tp_reduce_start() and its end */
    int64_t tokens; /* of that */
};

/* ---- tp.c ---- */

/* The checks that all calls begin with. */
weir_status wr_tp_begin(weir_tp *tp, int64_t tokens);

/* Fills in tp->error; returns status. */
weir_status wr_tp_fail(weir_tp *tp, weir_status status, const char *advice, const char *fmt, ...) WR_PRINTF(4, 5);

/* Starts and waits for a communication; errors are those of tp. */
weir_status wr_tp_start(weir_tp *tp, enum wr_tp_request which);
weir_status wr_tp_wait(weir_tp *tp, enum wr_tp_request which);

/* Starts to gather rows in tp->whole, where that is needed; `*all` is where they will be. wr_tp_gathered() waits for it. */
weir_status wr_tp_gather_start(weir_tp *tp, int64_t tokens, const float *x, const float **all);
weir_status wr_tp_gathered(weir_tp *tp);

/* Waits for the sum of tp->parts and copies this rank's rows of it to y. bias may be NULL. */
weir_status wr_tp_reduced(weir_tp *tp, int64_t tokens, const float *bias, float *y);

#endif
