/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/multi/conf.h"

#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/error.h"
#include "tests/multi/conf_layers.h"

enum { PATIENCE_S = 120 }; /* longest wait for anything: a hang becomes a failure */

struct job {
    const struct conf_options *options;
    struct conf_world *world;
    int rank;
    void (*body)(struct conf_rank *r);
};

WR_NORETURN static void rank_end(const struct conf_rank *r, int code)
{
    if (r->options->threads)
        pthread_exit((void *)(intptr_t)code);
    _exit(code);
}

void conf_fail(struct conf_rank *r, const char *file, int line, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (!wr_exchange_acq_rel(&r->world->failed, 1))
        fprintf(stderr, "FAIL %s rank %d of %d: %s:%d: %s\n", r->options->transport, r->rank, r->size, file,
                line, text);
    rank_end(r, 1);
}

static void check_world(struct conf_rank *r, int64_t deadline, const char *what)
{
    if (wr_load_acquire(&r->world->failed))
        rank_end(r, 1);
    if (wr_deadline_passed(deadline))
        conf_fail(r, __FILE__, __LINE__, "waited more than %d s for %s", PATIENCE_S, what);
}

void conf_progress(struct conf_rank *r)
{
    if (!r->t->ops->progress(r->t))
        sched_yield();
    check_world(r, WR_TIME_INF, "");
}

void conf_wait(struct conf_rank *r, const uint64_t *counter, uint64_t goal, const char *what)
{
    int64_t deadline = wr_deadline(PATIENCE_S * INT64_C(1000000000));
    for (int i = 0; *(const volatile uint64_t *)counter < goal; i++) {
        if (!r->t->ops->progress(r->t))
            sched_yield();
        if (i % 64 == 0)
            check_world(r, deadline, what);
    }
}

void conf_barrier(struct conf_rank *r)
{
    struct conf_world *w = r->world;
    int64_t deadline = wr_deadline(PATIENCE_S * INT64_C(1000000000));
    int generation = wr_load_acquire(&w->generation);
    if (wr_add_acq_rel(&w->arrived, 1) == w->size - 1) {
        wr_store_relaxed(&w->arrived, 0);
        wr_store_release(&w->generation, generation + 1);
        return;
    }
    while (wr_load_acquire(&w->generation) == generation) {
        if (!r->t || !r->t->ops->progress(r->t))
            sched_yield();
        check_world(r, deadline, "the other ranks in a barrier");
    }
}

static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

void conf_fill(void *memory, uint64_t len, uint64_t seed)
{
    unsigned char *p = memory;
    for (uint64_t i = 0; i < len; i += 8) {
        uint64_t v = mix(seed + i);
        memcpy(p + i, &v, WR_MIN(8, len - i));
    }
}

int64_t conf_check(const void *memory, uint64_t len, uint64_t seed)
{
    const unsigned char *p = memory;
    for (uint64_t i = 0; i < len; i += 8) {
        uint64_t v = mix(seed + i);
        if (memcmp(p + i, &v, WR_MIN(8, len - i)))
            return (int64_t)i;
    }
    return -1;
}

uint64_t conf_random(struct conf_rank *r, uint64_t bound)
{
    r->random += 0x9e3779b97f4a7c15u;
    return bound ? mix(r->random) % bound : 0;
}

static weir_status peer_address(void *arg, int peer, const void **address, size_t *len, weir_error *err)
{
    struct conf_rank *r = arg;
    (void)err;
    *address = r->world->address[peer].bytes;
    *len = r->world->address[peer].len;
    return WEIR_OK;
}

static void peer_lost(void *arg, int peer, const char *reason)
{
    struct conf_rank *r = arg;
    (void)peer;
    (void)reason;
    r->lost++;
}

static void handle(struct conf_rank *r, int id, int source, const void *data, size_t len)
{
    CONF_ASSERT(r, r->handler[id], "a message for handler %d came from rank %d outside its case", id, source);
    r->handler[id](r, source, data, len);
}

static void handler_0(void *arg, int source, const void *data, size_t len)
{
    handle(arg, 0, source, data, len);
}

static void handler_1(void *arg, int source, const void *data, size_t len)
{
    handle(arg, 1, source, data, len);
}

static void handler_15(void *arg, int source, const void *data, size_t len)
{
    handle(arg, 15, source, data, len);
}

void conf_open(struct conf_rank *r)
{
    weir_error err;
    const struct wr_transport_ops *ops = wr_transport_find(r->options->transport);
    struct wr_transport_params p = {
        .config = &r->config,
        .log = &r->log,
        .rank = r->rank,
        .size = r->size,
        .node_rank = r->rank,
        .node_size = r->size,
        .node_ranks = r->node_ranks,
        .numa = -1,
        .peer_address = peer_address,
        .on_peer_lost = peer_lost,
        .arg = r,
        .am = {[0] = handler_0, [1] = handler_1, [15] = handler_15},
        .am_arg = r,
        .signals = r->signals,
        .nsignals = CONF_SIGNALS,
        .timeout_ns = 60 * INT64_C(1000000000),
    };
    struct conf_blob *blob = &r->world->address[r->rank];
    size_t len = sizeof blob->bytes;
    struct wr_transport *t;
    CONF_OK(r, ops->open(&p, &t, &err), &err);
    CONF_OK(r, conf_layers_wrap(r->options->layers, &t, &err), &err);
    CONF_OK(r, t->ops->address(t, blob->bytes, &len, &err), &err);
    blob->len = (uint32_t)len;
    conf_barrier(r);
    if (t->ops->start)
        CONF_OK(r, t->ops->start(t, &err), &err);
    r->t = t;
    conf_barrier(r);
    for (int peer = 0; peer < r->size; peer++)
        if (t->ops->reaches(t, peer))
            CONF_OK(r, t->ops->connect(t, peer, &err), &err);
    conf_barrier(r);
}

void conf_close(struct conf_rank *r)
{
    struct wr_transport *t = r->t;
    weir_error err;
    conf_barrier(r);
    r->t = NULL; /* no progress any more: what comes is still under way when the transport closes, which has to drop it */
    conf_barrier(r);
    for (int peer = 0; peer < r->size; peer++)
        if (t->ops->reaches(t, peer))
            t->ops->am(t, peer, 0, "late", 4, NULL, 0, 0, &err);
    conf_barrier(r);
    t->ops->close(t);
}

struct wr_region *conf_register(struct conf_rank *r, int slot, void *memory, uint64_t len)
{
    weir_error err;
    struct wr_region *region;
    struct conf_blob *blob = &r->world->key[r->rank][slot];
    size_t room = WR_KEY_MAX;
    CONF_OK(r, r->t->ops->reg(r->t, memory, len, WR_REG_REMOTE_READ | WR_REG_REMOTE_WRITE, &region, &err),
            &err);
    CONF_OK(r, r->t->ops->key_export(r->t, region, blob->bytes, &room, &err), &err);
    blob->len = (uint32_t)room;
    return region;
}

struct wr_rkey *conf_import(struct conf_rank *r, int peer, int slot)
{
    weir_error err;
    struct wr_rkey *rkey;
    struct conf_blob *blob = &r->world->key[peer][slot];
    CONF_OK(r, r->t->ops->key_import(r->t, peer, blob->bytes, blob->len, &rkey, &err), &err);
    return rkey;
}

static void *rank_main(void *arg)
{
    struct job *job = arg;
    struct conf_rank *r = calloc(1, sizeof *r);
    weir_error err;
    if (!r || wr_config_load(&r->config, NULL, NULL, &err))
        return (void *)(intptr_t)1;
    r->world = job->world;
    r->options = job->options;
    r->rank = job->rank;
    r->size = job->options->ranks;
    r->random = job->options->seed * 1000003 + (uint64_t)job->rank;
    for (int i = 0; i < r->size; i++)
        r->node_ranks[i] = i;
    wr_log_init(&r->log);
    r->log.rank = r->rank;
    CONF_OK(r, wr_log_set_levels(&r->log, r->config.log, &err), &err);
    job->body(r);
    wr_config_free(&r->config);
    free(r);
    return NULL;
}

static int run_threads(struct job *jobs, int n)
{
    pthread_t thread[CONF_RANKS];
    int failed = 0;
    for (int i = 0; i < n; i++)
        if (pthread_create(&thread[i], NULL, rank_main, &jobs[i]))
            abort();
    for (int i = 0; i < n; i++) {
        void *code;
        pthread_join(thread[i], &code);
        failed += code != NULL;
    }
    return failed;
}

static int run_processes(struct job *jobs, int n)
{
    pid_t pid[CONF_RANKS];
    int failed = 0;
    fflush(NULL);
    for (int i = 0; i < n; i++) {
        pid[i] = fork();
        if (pid[i] < 0)
            abort();
        if (!pid[i])
            exit(rank_main(&jobs[i]) != NULL);
    }
    for (int left = n; left > 0; left--) {
        int status;
        pid_t who = wait(&status);
        if (!status)
            continue;
        failed++;
        if (wr_exchange_acq_rel(&jobs[0].world->failed, 1))
            continue;
        for (int i = 0; i < n; i++)
            if (pid[i] == who)
                fprintf(stderr, "FAIL %s: rank %d ended with status 0x%x\n", jobs[0].options->transport, i,
                        status);
    }
    return failed;
}

int conf_run(const struct conf_options *options, void (*body)(struct conf_rank *r))
{
    struct conf_world *world =
        mmap(NULL, sizeof *world, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct job jobs[CONF_RANKS];
    if (world == MAP_FAILED)
        abort();
    world->size = options->ranks;
    for (int i = 0; i < options->ranks; i++)
        jobs[i] = (struct job){options, world, i, body};
    int failed = options->threads ? run_threads(jobs, options->ranks) : run_processes(jobs, options->ranks);
    munmap(world, sizeof *world);
    return failed;
}
