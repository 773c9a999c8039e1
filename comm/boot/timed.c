/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/boot/timed.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"

struct timed {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool done, abandoned;
    void (*run)(void *arg);
    void (*release)(void *arg);
    void *arg;
};

static void timed_free(struct timed *t)
{
    pthread_cond_destroy(&t->cond);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

static void *timed_thread(void *arg)
{
    struct timed *t = arg;
    t->run(t->arg);
    pthread_mutex_lock(&t->lock);
    bool abandoned = t->abandoned;
    t->done = true;
    pthread_cond_signal(&t->cond);
    pthread_mutex_unlock(&t->lock);
    if (abandoned) {
        t->release(t->arg);
        timed_free(t);
    }
    return NULL;
}

static struct timed *timed_create(void (*run)(void *arg), void (*release)(void *arg), void *arg)
{
    pthread_condattr_t monotonic;
    struct timed *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    pthread_mutex_init(&t->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&t->cond, &monotonic);
    pthread_condattr_destroy(&monotonic);
    t->run = run;
    t->release = release;
    t->arg = arg;
    return t;
}

bool wr_timed_run(void (*run)(void *arg), void (*release)(void *arg), void *arg, int64_t timeout_ns)
{
    pthread_t thread;
    sigset_t all, before;
    int64_t deadline = wr_deadline(timeout_ns);
    struct timed *t = timed_create(run, release, arg);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = t && !pthread_create(&thread, NULL, timed_thread, t);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!started) {
        if (t)
            timed_free(t);
        run(arg);
        return true;
    }
    struct timespec end = {(time_t)(deadline / 1000000000), (long)(deadline % 1000000000)};
    int rc = 0;
    pthread_mutex_lock(&t->lock);
    while (!t->done && !rc)
        rc = deadline == WR_TIME_INF ? pthread_cond_wait(&t->cond, &t->lock)
                                     : pthread_cond_timedwait(&t->cond, &t->lock, &end);
    bool done = t->done;
    t->abandoned = !done;
    pthread_mutex_unlock(&t->lock);
    if (!done) {
        pthread_detach(thread);
        return false;
    }
    pthread_join(thread, NULL);
    timed_free(t);
    return true;
}
