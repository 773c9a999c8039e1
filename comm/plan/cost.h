/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What steps of a plan cost: a model in the manner of LogGP (Alexandrov et al., 1995) with one set of parameters for the node
 * and one for the network, and latency and uplinks for the levels of switches above the node.
 *
 * Times are nanoseconds, bandwidths GB/s (10^9 bytes a second, that is bytes a nanosecond).
 *
 * The defaults of the node are what one core and one node reached where the library was first measured (memory-bound sizes of
 * 16 MiB): a streaming copy 29 GB/s of payload, c = a + b 28 GB/s with two operands, 150 GB/s of loads and stores with all
 * cores, a flag from core to core 300 ns. Those of the network are a common 100 Gbit/s interface.
 */
#ifndef WR_COST_H
#define WR_COST_H

#include <stdio.h>

#include <weir/status.h>

enum { WR_COST_LEVELS = 8 }; /* levels of switches and groups that have parameters of their own, innermost first */

/* X(field, default, lowest, highest, what it is) */
#define WR_COST_TABLE(X)                                                                                                 \
    X(step, 20, 0, 1e9, "ns that a core spends on any step: dispatch, look at a counter, set a flag")                     \
    X(flag, 300, 0, 1e9, "ns from setting a flag until another rank of the node sees it")                                 \
    X(copy, 0.034, 0, 1e6, "ns a byte that one core copies")                                                              \
    X(reduce, 0.018, 0, 1e6, "ns a byte of each operand that one core combines")                                          \
    X(memory, 150, 1e-6, 1e9, "GB/s of loads and stores that all ranks of a node share")                                  \
    X(overhead, 200, 0, 1e9, "ns that a core spends on starting a put or a signal, or on noticing one from another node") \
    X(latency, 1500, 0, 1e9, "ns from the interface of one node to that of another")                                      \
    X(gap, 10, 0, 1e9, "ns for which a message holds an interface, besides its bytes")                                    \
    X(bandwidth, 12.5, 1e-6, 1e9, "GB/s of one interface, in each direction")                                             \
    X(rails, 1, 1, 64, "interfaces a node; rank number l of a node uses interface l modulo rails")                        \
    X(ack, 1, 0, 1, "1: the source of a put is free when its acknowledgement is back; 0: when it has left")

struct wr_cost {
#define X(field, value, least, most, help) double field;
    WR_COST_TABLE(X)
#undef X
    double hop[WR_COST_LEVELS];    /* ns more when a message leaves a group of this level, and again when it enters one */
    double uplink[WR_COST_LEVELS]; /* GB/s out of and into each group of this level; 0: as much as its nodes can send */
};

void wr_cost_default(struct wr_cost *cost);

/*
 * Changes parameters: "key=value,key=value". Keys are the fields above; hop and uplink set all levels, hop0, uplink2 and so
 * on one of them. WEIR_ERR_INVALID names the word that was not understood and leaves *cost as it was.
 */
weir_status wr_cost_set(struct wr_cost *cost, const char *text, weir_error *err);

/* The same for one word. */
weir_status wr_cost_set_one(struct wr_cost *cost, const char *key, const char *text, weir_error *err);

/* One line a parameter, with its value and what it is. */
void wr_cost_write(const struct wr_cost *cost, FILE *out);

#endif
