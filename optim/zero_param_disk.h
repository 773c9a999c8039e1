/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parameters on disk (stage 3). Each rank has a file with the parameters of the whole model, so that a unit is gathered by reading it, and
 * ranks move each section once a step, when it was updated: it is put together in one of two buffers, of which the file is written.
 * Sections and tensors begin at multiples of a page (see wr_zero_layout::align), so blocks are read to where they are used.
 */
#ifndef WR_ZERO_PARAM_DISK_H
#define WR_ZERO_PARAM_DISK_H

#include "optim/disk.h"
#include "optim/zero.h"

enum { WR_ZERO_STAGES = 2 };

struct wr_zero_param_disk {
    struct wr_disk *disk;
    struct wr_disk_op *reads; /* by block */
    unsigned char *memory;    /* the buffers */
    uint64_t buffer_bytes;
    struct wr_disk_op writes[WR_ZERO_STAGES];
    uint64_t turn; /* the buffer of the section at work */
};

static inline bool wr_zero_params_on_disk(const weir_zero_options *o)
{
    return o->offload & WEIR_ZERO_OFFLOAD_PARAMS;
}

/* Bytes of one buffer. */
uint64_t wr_zero_param_buffer(const weir_zero_options *o, const struct wr_zero_layout *l);

weir_status wr_zero_param_disk_create(weir_zero *zero);
void wr_zero_param_disk_destroy(weir_zero *zero);

/*
 * This rank's pieces of a section have memory for parameters from now on; with `read` what is in the file stands there, else zero.
 * wr_zero_param_disk_put() ends that: all ranks get the section and begin to write it. Collective. Both do nothing when
 * parameters are in memory.
 */
weir_status wr_zero_param_disk_open(weir_zero *zero, uint64_t section, bool read);
weir_status wr_zero_param_disk_put(weir_zero *zero, uint64_t section);

/* What was put is in the file. */
weir_status wr_zero_param_disk_sync(weir_zero *zero);

/* Starts to read a block to where it is gathered; completes that. */
weir_status wr_zero_param_disk_begin(weir_zero *zero, uint64_t block);
weir_status wr_zero_param_disk_complete(weir_zero *zero, uint64_t block);

/* Copies elements of a piece from the file, or to it (`write`). */
weir_status wr_zero_param_disk_access(const weir_zero *zero, uint64_t piece, uint64_t first, uint64_t n, unsigned char *data, bool write,
                                      weir_error *err);

#endif
