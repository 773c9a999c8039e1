/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The world of the transport conformance program: N ranks as forked processes or as threads of one process,
 * which publish addresses and keys in shared memory and meet in barriers that progress their transports.
 */
#ifndef WR_TEST_CONF_H
#define WR_TEST_CONF_H

#include <stdbool.h>
#include <stdint.h>

#include "comm/transport/transport.h"

enum { CONF_RANKS = 8, CONF_KEYS = 4, CONF_SIGNALS = 64 };

struct conf_blob {
    uint32_t len;
    unsigned char bytes[WR_ADDRESS_MAX];
};

/* Shared by all ranks. */
struct conf_world {
    int size;
    int failed; /* set by the first rank that fails; ends every wait */
    int arrived, generation;
    struct conf_blob address[CONF_RANKS];
    struct conf_blob key[CONF_RANKS][CONF_KEYS];
};

struct conf_options {
    const char *transport;
    const char *layers; /* "", or names separated by commas, the innermost first */
    int ranks;
    bool threads;
    uint64_t max_bytes;
    int rounds;    /* of the repeated cases */
    int lifetimes; /* contexts opened and closed */
    uint64_t seed;
    const char *only; /* run only the case of this name */
};

struct conf_rank;
typedef void (*conf_handler)(struct conf_rank *r, int source, const void *data, size_t len);

/* One rank. */
struct conf_rank {
    struct conf_world *world;
    const struct conf_options *options;
    int rank, size;
    int node_ranks[CONF_RANKS];
    struct wr_config config;
    struct wr_log log;
    struct wr_transport *t;
    uint64_t signals[CONF_SIGNALS];
    void *case_state; /* of the running case, for the message handlers */
    conf_handler handler[WR_AM_HANDLERS];
    uint64_t random;
    int lost; /* peers reported lost */
};

/* Runs `body` once a rank; returns the number of ranks that failed. */
int conf_run(const struct conf_options *options, void (*body)(struct conf_rank *r));

/* Opens and starts the transport of a rank, and closes it. */
void conf_open(struct conf_rank *r);
void conf_close(struct conf_rank *r);

/* Reports a failure of this rank and ends it; does not return. */
void conf_fail(struct conf_rank *r, const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 4, 5), noreturn));

/* Waits until all ranks have come, progressing the transport (if it is open). */
void conf_barrier(struct conf_rank *r);

/* Progresses until *counter >= goal (the counter is written by callbacks of this rank). */
void conf_wait(struct conf_rank *r, const uint64_t *counter, uint64_t goal, const char *what);

/* Progresses once; fails the rank when another has failed. */
void conf_progress(struct conf_rank *r);

/* Registers memory under a key slot and publishes it; the barrier after it makes it usable. */
struct wr_region *conf_register(struct conf_rank *r, int slot, void *memory, uint64_t len);
struct wr_rkey *conf_import(struct conf_rank *r, int peer, int slot);

/* A deterministic pattern: byte i of stream `seed`. */
void conf_fill(void *memory, uint64_t len, uint64_t seed);
/* The first position that differs from the pattern, or -1. */
int64_t conf_check(const void *memory, uint64_t len, uint64_t seed);

/* A random number of this rank's own sequence, below `bound`. */
uint64_t conf_random(struct conf_rank *r, uint64_t bound);

#define CONF_ASSERT(r, condition, ...)                     \
    do {                                                   \
        if (!(condition))                                  \
            conf_fail(r, __FILE__, __LINE__, __VA_ARGS__); \
    } while (0)

#define CONF_OK(r, call, err)                                                                     \
    do {                                                                                          \
        weir_status conf_status_ = (call);                                                        \
        if (conf_status_)                                                                         \
            conf_fail(r, __FILE__, __LINE__, "%s: %s: %s", #call, weir_status_name(conf_status_), \
                      (err)->message);                                                            \
    } while (0)

/* Repeats an operation while it is BUSY; gives OK or IN_PROGRESS, fails otherwise. */
#define CONF_START(r, err, call)                                                                  \
    ({                                                                                            \
        weir_status conf_status_;                                                                 \
        while ((conf_status_ = (call)) == WEIR_ERR_BUSY)                                          \
            conf_progress(r);                                                                     \
        if (conf_status_ < 0)                                                                     \
            conf_fail(r, __FILE__, __LINE__, "%s: %s: %s", #call, weir_status_name(conf_status_), \
                      (err)->message);                                                            \
        conf_status_;                                                                             \
    })

#endif
