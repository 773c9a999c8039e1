/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libFuzzer on the readers of checkpoints: the header of a safetensors file, the index, and an index from elsewhere. What they take
 * keeps the promises that the readers of data rely on; what they do not take has a sentence. The first byte chooses the reader.
 */
#include <stdlib.h>
#include <string.h>

#include "optim/ckpt.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool condition)
{
    if (!condition)
        abort();
}

static void header(const char *text, size_t len, uint64_t bytes)
{
    struct wr_st_header h;
    weir_error err;
    uint64_t total = 0;
    if (wr_st_parse(text, len, bytes, &h, &err) != WEIR_OK) {
        check(err.message[0] && (err.status == WEIR_ERR_NO_MEMORY || err.advice[0]));
        return;
    }
    for (size_t i = 0; i < h.n; i++) {
        const struct wr_st_tensor *tensor = &h.tensors[i];
        check(tensor->begin <= tensor->end && tensor->end <= bytes && tensor->ndims <= WEIR_CKPT_DIMS_MAX);
        check(tensor->end - tensor->begin == tensor->count * tensor->dtype->bytes &&
              wr_st_find(&h, tensor->name) == tensor);
        total += tensor->end - tensor->begin;
    }
    check(total == bytes && (!h.block || h.nsums == (bytes + h.block - 1) / h.block));
    wr_st_header_free(&h);
}

static void index_of(const char *text, size_t len)
{
    struct wr_ckpt_index index, again;
    weir_error err;
    size_t n;
    if (wr_ckpt_index_parse(text, len, &index, &err) != WEIR_OK) {
        check(err.message[0]);
        return;
    }
    for (size_t i = 0; i < index.ntensors; i++) {
        const struct wr_ckpt_tensor *tensor = &index.tensors[i];
        uint64_t at = 0;
        for (size_t k = 0; k < tensor->nparts; k++) {
            check(tensor->parts[k].first == at && tensor->parts[k].count && tensor->parts[k].shard < index.nshards);
            at += tensor->parts[k].count;
        }
        check(at == tensor->count);
    }
    for (size_t i = 0; i < index.nshards; i++)
        check(index.shards[i].file[0] && !strchr(index.shards[i].file, '/'));
    char *written = wr_ckpt_index_text(&index, &n); /* and it can be written and read again */
    check(written && wr_ckpt_index_parse(written, n, &again, &err) == WEIR_OK && again.ntensors == index.ntensors);
    free(written);
    wr_ckpt_index_free(&again);
    wr_ckpt_index_free(&index);
}

static void map_of(const char *text, size_t len)
{
    struct wr_ckpt_index index;
    weir_error err;
    if (wr_ckpt_weight_map_parse(text, len, &index, &err) != WEIR_OK)
        return;
    for (size_t i = 0; i < index.nshards; i++)
        check(index.shards[i].file[0] && index.shards[i].file[0] != '.' && !strchr(index.shards[i].file, '/'));
    wr_ckpt_index_free(&index);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    const char *text = (const char *)data + 1;
    switch (data[0] % 4) {
    case 0:
        header(text, size - 1, 8);
        break;
    case 1:
        header(text, size - 1, data[0]);
        break;
    case 2:
        index_of(text, size - 1);
        break;
    default:
        map_of(text, size - 1);
    }
    return 0;
}
