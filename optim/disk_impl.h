/* SPDX-License-Identifier: BSD-3-Clause */
/* What the two engines of disk.h share. */
#ifndef WR_DISK_IMPL_H
#define WR_DISK_IMPL_H

#include "optim/disk.h"

struct wr_disk_engine {
    const char *name;
    int (*open)(struct wr_disk *disk, unsigned depth); /* sets disk->engine_data; these three return 0 or an errno */
    int (*start)(struct wr_disk *disk, struct wr_disk_op *op);
    int (*wait)(struct wr_disk *disk, struct wr_disk_op *op, int64_t deadline); /* ETIMEDOUT */
    void (*close)(struct wr_disk *disk); /* waits for all operations */
};

struct wr_disk {
    const struct wr_disk_engine *engine;
    void *engine_data;
    int fd;
    bool direct;
    char *folder;
    const char *what;
    uint64_t bytes, most;
    void *memory;
    uint64_t memory_bytes;
};

extern const struct wr_disk_engine wr_disk_uring, wr_disk_threads;

/* Bytes of the next call of the system for an operation. */
uint64_t wr_disk_next(const struct wr_disk *disk, const struct wr_disk_op *op);

/* Takes what such a call returned: bytes, or a negative errno. Returns true when the operation needs another one. */
bool wr_disk_took(struct wr_disk_op *op, int64_t result);

#endif
