/* SPDX-License-Identifier: BSD-3-Clause */
/* A source that is read from, inside. */
#ifndef WR_CKPT_SOURCE_H
#define WR_CKPT_SOURCE_H

#include "optim/ckpt.h"

struct wr_ckpt_value {
    char *key, *json;
    unsigned char *bytes;
    uint64_t nbytes;
};

struct weir_ckpt_source {
    char *folder; /* that the shards stand in */
    weir_ckpt_info info;
    struct wr_ckpt_index index;
    struct wr_st_file **files; /* of each shard; NULL: not opened yet */
    size_t nopen;              /* files with a descriptor, about */
    struct wr_st_cache cache;
    void *chunk; /* WR_CKPT_CHUNK bytes to convert in; NULL: not needed yet */
    size_t nvalues;
    struct wr_ckpt_value *values; /* in the order of keys */
};

/* The file of a shard, opened and compared with the index. */
weir_status wr_ckpt_source_file(weir_ckpt_source *source, uint64_t shard, struct wr_st_file **file, weir_error *err);

/* Reads elements of a tensor as another type, or, where that is the same type, as they are. */
weir_status wr_ckpt_source_get(weir_ckpt_source *source, const struct wr_ckpt_tensor *tensor, uint64_t first,
                               uint64_t count, const struct wr_ckpt_dtype *as, void *data, weir_error *err);

#endif
