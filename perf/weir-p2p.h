/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weir-p2p: latency and bandwidth between two ranks, beside what the machine or the bare tools of the library below reach.
 * Rank 0 decides what is measured and tells its peer by commands; each command is carried out by both.
 */
#ifndef WEIR_P2P_BENCHMARK_H
#define WEIR_P2P_BENCHMARK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/weir.h>

enum method { MESSAGE, PUT, GET, METHODS };
enum { LATENCY = 1, BANDWIDTH = 2 };

struct options {
    uint64_t min, max, factor; /* bytes */
    unsigned methods;          /* bit of each method */
    unsigned kinds;            /* LATENCY, BANDWIDTH */
    double point_s;            /* time for one number */
    unsigned buffers;          /* that rotate; 0: as many as the reference has */
    bool json, reference;
    bool part;              /* started by weir-p2p itself: rows only */
    const char *transports; /* list, or NULL */
    const char *weirrun;
};

/* What was measured; 0: it was not. */
struct value {
    double latency_us, p99_us, gb_s;
};

struct row {
    const char *transport, *provider;
    uint64_t bytes;
    enum method method;
    struct value weir, reference;
    char reference_name[64]; /* or why there is none */
};

enum action { DO_LATENCY, DO_BANDWIDTH, DO_BARE_LATENCY, DO_BARE_BANDWIDTH, DO_TOOL, DO_QUIT };

/* Which program serves as reference, and which of its tests. */
struct tool {
    char program[16], provider[64], test[16];
};

/* Rank 0 sends it to its peer. */
struct command {
    int32_t action, method;
    uint64_t bytes;
    uint64_t stamp; /* of the first exchange; later ones count on */
    int32_t iterations, window;
    uint32_t buffers; /* that rotate, at most */
    struct tool tool;
};

/* This process. */
struct bench {
    weir_ctx *ctx;
    weir_comm *comm;
    weir_mem *mem;
    int rank, size;
    int peer;         /* who is measured with */
    uint64_t area;    /* bytes for sending, and as many for receiving, in each part of `mem` */
    uint64_t arrived; /* puts with a signal that have come */
    uint64_t stamp;   /* rank 0: next unused one */
    unsigned turn;    /* buffers rotate ... */
    unsigned buffers; /* ... at most so many of them */
    double clock_us;  /* of reading the clock once */
    bool failed;      /* something has failed and was reported; or wrong data came */
};

/* Tags of messages. */
enum { TAG_COMMAND = 1, TAG_READY, TAG_DATA, TAG_PORT, TAG_STOP };

/* Layout of a part of the memory: flags, then the area for sending, then that for receiving. */
enum { FLAGS = 4096, ROTATION = 6, WINDOW_MAX = 64 };

/* Gets that are timed together, one after the other: one alone is too short for the clock. */
enum { GETS = 4 };

double now_us(void);
double quantile(double *sorted, int n, double q);
void sort_values(double *values, int n);

/* Reports a failed call; the program then ends. Returns whether it was well. */
bool check(struct bench *b, weir_status status, const char *what);

/* ---- weir-p2p-measure.c ---- */

/* Carries out a command that was received, or is being given (rank 0; `results` gets the samples: microseconds one way, or
 * one rate in GB/s). */
bool carry_out(struct bench *b, const struct command *c, double *results);
/* Buffers of a size that fit the area, and where the n-th begins. */
unsigned slots_of(const struct bench *b, uint64_t bytes);
uint64_t slot_at(const struct bench *b, uint64_t bytes, unsigned n);

/* ---- weir-p2p-bare.c: the same by plain loads and stores ---- */

bool has_bare(struct bench *b);
void bare_latency(struct bench *b, const struct command *c, double *results);
double bare_bandwidth(struct bench *b, const struct command *c);

/* ---- weir-p2p-tool.c: the bare tools of libfabric and UCX ---- */

/* Fills in row->reference and its name, by running the tool at both ranks. Rank 0. */
bool tool_reference(struct bench *b, const struct options *o, struct row *row);
/* The peer's half. */
bool tool_serve(struct bench *b, const struct command *c);

/* ---- weir-p2p-drive.c ---- */

/* Starts this program under weirrun for each transport; the exit code. */
int drive(const struct options *o, char **argv);

/* ---- weir-p2p-print.c ---- */

void print_head(const struct options *o);
void print_row(const struct options *o, const struct row *row);
void print_foot(const struct options *o);
/* A line of a part: hands it on. */
void print_line(const struct options *o, const char *line);

#endif
