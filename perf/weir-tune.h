/* SPDX-License-Identifier: BSD-3-Clause */
/* weir-tune: measures what the steps of plans cost on these hosts, and writes the tuning file. */
#ifndef WEIR_TUNE_H
#define WEIR_TUNE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/weir.h>

/* Layout of each rank's part of the memory: flags, then the area that is read, then the one that is written. */
enum { FLAGS = 4096, AREA = 16 << 20 };

struct tune {
    weir_ctx *ctx;
    weir_comm *comm;
    weir_mem *mem;
    const weir_topo *topo;
    int rank, size;
    int mate, far;    /* of rank 0: a rank on its node, one on another; -1: there is none */
    double seconds;   /* for one number */
    uint64_t arrived; /* signals that have come */
    double *all;      /* room for a number of each rank */
};

double now_ns(void);

/* Reports a failed call: rank 0's processes end then. Returns whether it was well. */
bool check(struct tune *t, weir_status status, const char *what);

/* Every rank gives a number and has those of all in t->all. */
bool share(struct tune *t, double mine);

/* The l-th rank of a node; -1: there is none. */
int rank_of(const struct tune *t, int node, int l);

/* weir-tune-node.c. All ranks call them; results at all of them. */
bool measure_copy(struct tune *t, double *copy, double *reduce, double *memory);
bool measure_flag(struct tune *t, double *flag);
bool measure_step(struct tune *t, double *step);

/* weir-tune-network.c: likewise; needs t->far. */
bool measure_network(struct tune *t, double *overhead, double *latency, double *gap, double *bandwidth, int *rails, int *ack);
/* From rank 0 to `peer`, for 8 bytes. */
bool one_way(struct tune *t, int peer, double *ns);
/* Ranks from[i] send to to[i] at once: GB/s of all together. */
bool rate_of(struct tune *t, const int *from, const int *to, int pairs, double *rate);

/* weir-tune-levels.c: likewise. Of each level of switches or groups, innermost first; -1: it could not be measured. */
enum { LEVELS = 8 };
bool measure_levels(struct tune *t, double bandwidth, double *hop, double *uplink, int *levels);
/* Which levels of the topology these are, and how many. */
int find_levels(const weir_topo *topo, int index[LEVELS]);

#endif
