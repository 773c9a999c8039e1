/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading and writing by two threads, so that a read need not wait for a write. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "optim/disk_impl.h"

enum { THREADS = 2 };

struct threads {
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    struct wr_disk *disk;
    struct wr_disk_op *first, **last; /* those that no thread has taken */
    bool stop;
    int n;
    pthread_t threads[THREADS];
};

/* All of an operation. */
static void move(const struct wr_disk *disk, struct wr_disk_op *op)
{
    ssize_t n;
    do {
        unsigned char *data = (unsigned char *)op->data + op->done;
        size_t bytes = wr_disk_next(disk, op);
        off_t at = (off_t)(op->at + op->done);
        n = op->write ? pwrite(disk->fd, data, bytes, at) : pread(disk->fd, data, bytes, at);
    } while (wr_disk_took(op, n < 0 ? -errno : n));
}

static void *serve(void *arg)
{
    struct threads *t = arg;
    pthread_mutex_lock(&t->lock);
    for (;;) {
        struct wr_disk_op *op = t->first;
        if (op) {
            t->first = op->next;
            if (!t->first)
                t->last = &t->first;
            pthread_mutex_unlock(&t->lock);
            move(t->disk, op);
            pthread_mutex_lock(&t->lock);
            op->pending = false;
            pthread_cond_broadcast(&t->done);
        } else if (t->stop) {
            break;
        } else {
            pthread_cond_wait(&t->work, &t->lock);
        }
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

static void threads_close(struct wr_disk *disk)
{
    struct threads *t = disk->engine_data;
    pthread_mutex_lock(&t->lock);
    t->stop = true;
    pthread_cond_broadcast(&t->work);
    pthread_mutex_unlock(&t->lock);
    for (int i = 0; i < t->n; i++)
        pthread_join(t->threads[i], NULL);
    pthread_cond_destroy(&t->work);
    pthread_cond_destroy(&t->done);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

static int threads_open(struct wr_disk *disk, unsigned depth)
{
    struct threads *t = calloc(1, sizeof *t);
    pthread_condattr_t monotonic;
    sigset_t all, before;
    int failed = 0;
    (void)depth;
    if (!t)
        return ENOMEM;
    t->disk = disk;
    t->last = &t->first;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->work, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&t->done, &monotonic);
    pthread_condattr_destroy(&monotonic);
    disk->engine_data = t;
    sigfillset(&all); /* the program's signals are for the program's threads */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (t->n < THREADS && !(failed = pthread_create(&t->threads[t->n], NULL, serve, t)))
        t->n++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (t->n)
        return 0; /* one is enough */
    threads_close(disk);
    return failed;
}

static int threads_start(struct wr_disk *disk, struct wr_disk_op *op)
{
    struct threads *t = disk->engine_data;
    op->next = NULL;
    pthread_mutex_lock(&t->lock);
    *t->last = op;
    t->last = &op->next;
    pthread_cond_signal(&t->work);
    pthread_mutex_unlock(&t->lock);
    return 0;
}

static int threads_wait(struct wr_disk *disk, struct wr_disk_op *op, int64_t deadline)
{
    struct threads *t = disk->engine_data;
    struct timespec limit = {.tv_sec = deadline / 1000000000, .tv_nsec = deadline % 1000000000};
    int failed = 0;
    pthread_mutex_lock(&t->lock);
    while (op->pending && !failed)
        failed = pthread_cond_timedwait(&t->done, &t->lock, &limit);
    failed = op->pending ? failed : 0;
    pthread_mutex_unlock(&t->lock);
    return failed;
}

const struct wr_disk_engine wr_disk_threads = {
    .name = "threads", .open = threads_open, .start = threads_start, .wait = threads_wait, .close = threads_close};
