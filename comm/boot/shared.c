/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/boot/shared.h"

#include <stdlib.h>
#include <unistd.h>

void wr_shared_keep(struct wr_shared *shared, void *connection, void (*at_exit)(void))
{
    shared->connection = connection;
    shared->pid = (int)getpid();
    if (!shared->at_exit)
        shared->at_exit = !atexit(at_exit);
}

void wr_shared_end(struct wr_shared *shared, void (*finalize)(void *connection))
{
    /* a thread that is still inside a call keeps the lock: then nobody says goodbye */
    if (!shared->connection || shared->pid != (int)getpid() || pthread_mutex_trylock(&shared->lock))
        return;
    finalize(shared->connection);
    shared->connection = NULL;
    pthread_mutex_unlock(&shared->lock);
}
