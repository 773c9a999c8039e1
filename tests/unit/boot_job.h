/* SPDX-License-Identifier: BSD-3-Clause */
/* For tests of the bootstrap: a server in a thread, and ranks as threads that join it. */
#ifndef WR_TEST_BOOT_JOB_H
#define WR_TEST_BOOT_JOB_H

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/compiler.h"
#include "comm/boot/boot.h"
#include "comm/boot/server.h"

enum { JOB_MAX = 32 };

struct job {
    struct wr_server *server;
    int size;
    const char *const *config; /* more settings, NULL-terminated; may be NULL */
    int stop;
    int wake_fd;
    pthread_t thread;
    void (*rank_main)(struct job *job, int rank, struct wr_boot *boot);
    weir_status open_status[JOB_MAX];
    weir_error open_error[JOB_MAX];
    int node[JOB_MAX]; /* WEIR_JOB_NODE of each rank; -1 */
    int joined, finalized, lost, aborted;
    int failures; /* rank threads count what they find wrong: cmocka's asserts belong to the main thread */
};

#define JOB_CHECK(job, condition)                                                                            \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                  \
            wr_add_acq_rel(&(job)->failures, 1);                                                             \
        }                                                                                                    \
    } while (0)

static void *job_serve(void *arg)
{
    struct job *job = arg;
    while (!wr_load_acquire(&job->stop)) {
        struct pollfd p[2] = {{.fd = wr_server_fd(job->server), .events = POLLIN}, {.fd = job->wake_fd, .events = POLLIN}};
        poll(p, 2, wr_server_timeout_ms(job->server));
        wr_server_progress(job->server);
    }
    return NULL;
}

static WR_UNUSED void job_count(void *arg, int rank)
{
    (void)rank;
    wr_add_acq_rel((int *)arg, 1);
}

static weir_status job_server_start(struct job *job, const struct wr_server_options *options, weir_error *err)
{
    weir_status status = wr_server_create(options, &job->server, err);
    if (status != WEIR_OK)
        return status;
    job->size = options->size;
    job->wake_fd = eventfd(0, EFD_CLOEXEC);
    for (int i = 0; i < JOB_MAX; i++)
        job->node[i] = -1;
    pthread_create(&job->thread, NULL, job_serve, job);
    return WEIR_OK;
}

static void job_server_stop(struct job *job)
{
    uint64_t one = 1;
    wr_store_release(&job->stop, 1);
    if (write(job->wake_fd, &one, sizeof one) != (ssize_t)sizeof one)
        perror("write");
    pthread_join(job->thread, NULL);
    close(job->wake_fd);
    wr_server_destroy(job->server);
}

struct job_rank {
    struct job *job;
    int rank;
    pthread_t thread;
    char settings[5][128];
    const char *config[16];
};

static void *job_rank_thread(void *arg)
{
    struct job_rank *r = arg;
    struct job *job = r->job;
    static const char *const no_vars[] = {NULL};
    struct wr_env env = {no_vars};
    struct wr_config config;
    weir_init_options options = WEIR_INIT_OPTIONS_INIT;
    struct wr_boot *boot;
    weir_error *err = &job->open_error[r->rank];
    job->open_status[r->rank] = wr_config_load(&config, &env, r->config, err);
    if (job->open_status[r->rank] != WEIR_OK)
        return NULL;
    struct wr_boot_params params = {.config = &config, .env = &env, .options = &options, .identity = "here", .identity_len = 4};
    job->open_status[r->rank] = wr_boot_open(&params, &boot, err);
    if (job->open_status[r->rank] == WEIR_OK)
        job->rank_main(job, r->rank, boot);
    wr_config_free(&config);
    return NULL;
}

/* Runs rank_main in `n` threads as ranks first..first+n-1 of the job; it must close its boot. */
static void job_run_ranks(struct job *job, int first, int n)
{
    struct job_rank ranks[JOB_MAX];
    for (int i = 0; i < n; i++) {
        struct job_rank *r = &ranks[i];
        int used = 0;
        r->job = job;
        r->rank = first + i;
        snprintf(r->settings[0], sizeof r->settings[0], "JOB_SERVER=%s", wr_server_address(job->server));
        snprintf(r->settings[1], sizeof r->settings[1], "JOB_SECRET=%s", wr_server_secret(job->server));
        snprintf(r->settings[2], sizeof r->settings[2], "JOB_RANK=%d", r->rank);
        snprintf(r->settings[3], sizeof r->settings[3], "JOB_SIZE=%d", job->size);
        snprintf(r->settings[4], sizeof r->settings[4], "JOB_NODE=%d", job->node[r->rank]);
        for (; used < 5; used++)
            r->config[used] = r->settings[used];
        for (const char *const *more = job->config; more && *more; more++)
            r->config[used++] = *more;
        r->config[used] = NULL;
        pthread_create(&r->thread, NULL, job_rank_thread, r);
    }
    for (int i = 0; i < n; i++)
        pthread_join(ranks[i].thread, NULL);
}

#endif
