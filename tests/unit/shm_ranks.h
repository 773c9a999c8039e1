/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks over shm for unit tests: threads of one process, or forked processes. */
#ifndef WR_SHM_RANKS_H
#define WR_SHM_RANKS_H

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "comm/transport/shm/shm.h"

enum { RANKS_MAX = 16, RANKS_SIGNALS = 64 };

struct ranks_world { /* shared by all ranks */
    int size, arrived, generation, failed;
    char address[RANKS_MAX][WR_ADDRESS_MAX];
    size_t address_len[RANKS_MAX];
    char key[RANKS_MAX][WR_KEY_MAX];
    size_t key_len[RANKS_MAX];
    uint64_t word[64]; /* for the tests */
};

struct ranks_rank {
    struct ranks_world *world;
    int rank, size;
    int node_ranks[RANKS_MAX];
    struct wr_config config;
    struct wr_log log;
    struct wr_transport *t;
    uint64_t signals[RANKS_SIGNALS];
    int lost, lost_rank;
    uint64_t received;
    void (*handler)(struct ranks_rank *r, int source, const void *data, size_t len);
    void *state;
};

/* Ends the rank's body with a message; the test fails. */
#define RANKS_CHECK(r, condition, ...)                                                                       \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "rank %d: %s:%d: %s: ", (r)->rank, __FILE__, __LINE__, #condition);              \
            fprintf(stderr, __VA_ARGS__);                                                                    \
            fprintf(stderr, "\n");                                                                           \
            __atomic_store_n(&(r)->world->failed, 1, __ATOMIC_RELEASE);                                      \
            return;                                                                                          \
        }                                                                                                    \
    } while (0)

#define RANKS_OK(r, call)                                                                                    \
    do {                                                                                                     \
        weir_error err_ = {0};                                                                               \
        weir_error *err = &err_;                                                                             \
        weir_status status_ = (call);                                                                        \
        RANKS_CHECK(r, status_ == WEIR_OK, "%s (%s)", weir_status_name(status_), err->message);              \
    } while (0)

static inline weir_status ranks_peer_address(void *arg, int peer, const void **address, size_t *len, weir_error *err)
{
    struct ranks_rank *r = arg;
    (void)err;
    *address = r->world->address[peer];
    *len = r->world->address_len[peer];
    return WEIR_OK;
}

static inline void ranks_peer_lost(void *arg, int peer, const char *reason)
{
    struct ranks_rank *r = arg;
    (void)reason;
    r->lost++;
    r->lost_rank = peer;
}

static inline void ranks_handler(void *arg, int source, const void *data, size_t len)
{
    struct ranks_rank *r = arg;
    r->received++;
    if (r->handler)
        r->handler(r, source, data, len);
}

static inline void ranks_barrier(struct ranks_rank *r)
{
    struct ranks_world *w = r->world;
    int generation = wr_load_acquire(&w->generation);
    if (wr_add_acq_rel(&w->arrived, 1) == w->size - 1) {
        wr_store_relaxed(&w->arrived, 0);
        wr_store_release(&w->generation, generation + 1);
        return;
    }
    while (wr_load_acquire(&w->generation) == generation && !wr_load_acquire(&w->failed)) {
        if (r->t)
            r->t->ops->progress(r->t);
        sched_yield();
    }
}

/* Opens and starts the transport; false after a failure that was printed. */
static inline int ranks_open(struct ranks_rank *r)
{
    weir_error err;
    size_t len = WR_ADDRESS_MAX;
    struct wr_transport *t = NULL;
    struct wr_transport_params p = {.config = &r->config,
                                    .log = &r->log,
                                    .rank = r->rank,
                                    .size = r->size,
                                    .node_rank = r->rank,
                                    .node_size = r->size,
                                    .node_ranks = r->node_ranks,
                                    .numa = 0,
                                    .peer_address = ranks_peer_address,
                                    .on_peer_lost = ranks_peer_lost,
                                    .arg = r,
                                    .am = {[3] = ranks_handler},
                                    .am_arg = r,
                                    .signals = r->signals,
                                    .nsignals = RANKS_SIGNALS,
                                    .timeout_ns = 30 * INT64_C(1000000000)};
    weir_status status = wr_shm_ops.open(&p, &t, &err);
    if (!status)
        status = wr_shm_ops.address(t, r->world->address[r->rank], &len, &err);
    r->world->address_len[r->rank] = len;
    ranks_barrier(r);
    if (!status)
        status = wr_shm_ops.start(t, &err);
    for (int i = 0; i < r->size && !status; i++)
        if (wr_shm_ops.reaches(t, i))
            status = wr_shm_ops.connect(t, i, &err);
    r->t = t;
    ranks_barrier(r);
    if (!status)
        return 1;
    fprintf(stderr, "rank %d: %s: %s\n", r->rank, weir_status_name(status), err.message);
    wr_store_release(&r->world->failed, 1);
    return 0;
}

struct ranks_job {
    struct ranks_world *world;
    int rank;
    const char *const *vars;
    void (*body)(struct ranks_rank *r);
};

static inline void *ranks_main(void *arg)
{
    struct ranks_job *job = arg;
    struct ranks_rank *r = calloc(1, sizeof *r);
    struct wr_env env = {job->vars};
    weir_error err;
    if (!r || wr_config_load(&r->config, &env, NULL, &err))
        abort();
    wr_log_init(&r->log);
    r->world = job->world;
    r->rank = job->rank;
    r->size = job->world->size;
    for (int i = 0; i < r->size; i++)
        r->node_ranks[i] = i;
    if (ranks_open(r))
        job->body(r);
    ranks_barrier(r);
    if (r->t)
        r->t->ops->close(r->t);
    wr_config_free(&r->config);
    free(r);
    return NULL;
}

/* Runs `body` as each of `n` ranks; the number of failures. */
static inline int ranks_run(int n, int as_threads, const char *const *vars, void (*body)(struct ranks_rank *r))
{
    static const char *const none[] = {NULL};
    struct ranks_job jobs[RANKS_MAX];
    pthread_t thread[RANKS_MAX];
    pid_t pid[RANKS_MAX];
    struct ranks_world *w = mmap(NULL, sizeof *w, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (w == MAP_FAILED)
        abort();
    w->size = n;
    for (int i = 0; i < n; i++) {
        jobs[i] = (struct ranks_job){w, i, vars ? vars : none, body};
        if (as_threads && pthread_create(&thread[i], NULL, ranks_main, &jobs[i]))
            abort();
        if (as_threads)
            continue;
        fflush(NULL);
        pid[i] = fork();
        if (pid[i] < 0)
            abort();
        if (!pid[i]) {
            ranks_main(&jobs[i]);
            exit(w->failed);
        }
    }
    for (int i = 0; i < n; i++) {
        int status = 0;
        if (as_threads)
            pthread_join(thread[i], NULL);
        else if (waitpid(pid[i], &status, 0) == pid[i] && status && !(WIFSIGNALED(status) && w->word[63]))
            w->failed = 1;
    }
    int failed = w->failed;
    munmap(w, sizeof *w);
    return failed;
}

#endif
