/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A launcher's PMI connection belongs to the process, not to a context: there is one descriptor or library state, it can
 * be initialised once only, and after its finalize most launchers accept nothing any more. So the first context opens it,
 * later ones share it, and it is finalized when the process exits. This is the one state of the library that is not
 * inside a context; each of pmi1.c, pmi2.c and pmix.c has one of these.
 */
#ifndef WR_BOOT_SHARED_H
#define WR_BOOT_SHARED_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct wr_shared {
    pthread_mutex_t lock; /* held over each call that uses the connection */
    void *connection;     /* NULL until the first context has opened it */
    uint32_t generation;  /* contexts so far; equal on all ranks, since weir_init() is collective */
    bool at_exit;         /* the finalizer is registered */
    int pid;              /* that opened it: a forked child must not finalize */
};

#define WR_SHARED_INIT {PTHREAD_MUTEX_INITIALIZER, NULL, 0, false, 0}

/* Under the lock, once the connection is open: keeps it, and has `at_exit` called when the process exits. */
void wr_shared_keep(struct wr_shared *shared, void *connection, void (*at_exit)(void));

/* At exit: lets `finalize` end (and free) the connection, unless it is the parent's or a thread is inside a call. */
void wr_shared_end(struct wr_shared *shared, void (*finalize)(void *connection));

#endif
