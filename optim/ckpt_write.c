/* SPDX-License-Identifier: BSD-3-Clause */
/* A safetensors file that is written: data front to back, then the header, which holds their checksums, before them. */
#include "optim/ckpt.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/error.h"

struct wr_st_writer {
    const struct wr_ckpt_fs *fs;
    char *path, *temporary;
    int fd;
    char *head; /* 8 bytes of length, then the text, padded to a multiple of 8 */
    size_t head_len;
    char *sums; /* where they stand in it; NULL: none are wanted */
    uint64_t bytes, at;
    XXH3_state_t *state; /* of the block that is being written */
    weir_status status;  /* nothing more is written after a failure */
};

static int by_size_and_name(const void *a, const void *b)
{
    const struct wr_st_tensor *x = a, *y = b;
    if (x->dtype->bytes != y->dtype->bytes)
        return x->dtype->bytes > y->dtype->bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

static json_t *tensor_json(const struct wr_st_tensor *tensor)
{
    json_t *shape = json_array();
    for (unsigned i = 0; i < tensor->ndims; i++)
        json_array_append_new(shape, json_integer((json_int_t)tensor->shape[i]));
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", tensor->dtype->name, "shape", shape, "data_offsets",
                     (json_int_t)tensor->begin, (json_int_t)tensor->end);
}

/* Room for the checksums of `bytes` bytes, as zeros. */
static json_t *sums_json(uint64_t bytes)
{
    size_t n = (size_t)((bytes + WR_CKPT_BLOCK - 1) / WR_CKPT_BLOCK) * 16;
    char block[24], *zeros = malloc(n + 1);
    if (!zeros)
        return NULL;
    memset(zeros, '0', n);
    zeros[n] = '\0';
    snprintf(block, sizeof block, "%d", WR_CKPT_BLOCK);
    json_t *metadata = json_pack("{s:s, s:s, s:s}", "format", "weir", "weir.block", block, "weir.xxh3", zeros);
    free(zeros);
    return metadata;
}

/* The header as text; NULL when out of memory or when a name is no UTF-8. */
static char *header_text(const struct wr_st_tensor *tensors, size_t n, uint64_t bytes, bool sums)
{
    json_t *root = json_object();
    /* first, so that the place of the checksums is found again; other readers want "format": "pt" */
    int failed =
        json_object_set_new(root, "__metadata__", sums ? sums_json(bytes) : json_pack("{s:s}", "format", "pt"));
    for (size_t i = 0; !failed && i < n; i++)
        failed = json_object_set_new(root, tensors[i].name, tensor_json(&tensors[i]));
    char *text = failed ? NULL : json_dumps(root, JSON_COMPACT);
    json_decref(root);
    return text;
}

static weir_status make_header(struct wr_st_writer *w, const struct wr_st_tensor *tensors, size_t n, bool sums,
                               weir_error *err)
{
    static const char place[] = "\"weir.xxh3\":\"";
    char *text = header_text(tensors, n, w->bytes, sums);
    if (!text)
        return wr_error_memory(err, n * 128, "a header (or a name in it is not UTF-8)");
    size_t len = strlen(text), padded = (len + 7) / 8 * 8;
    if (padded > WR_ST_HEADER_MAX) {
        free(text);
        return wr_error_set(err, WEIR_ERR_LIMIT, "use more ranks, or fewer and shorter names",
                            "a header of %zu bytes is longer than readers allow", padded);
    }
    w->head_len = padded + 8;
    w->head = malloc(w->head_len + 1);
    if (!w->head) {
        free(text);
        return wr_error_memory(err, w->head_len, "a header");
    }
    for (int i = 0; i < 8; i++)
        w->head[i] = (char)(padded >> (8 * i));
    memcpy(w->head + 8, text, len);
    memset(w->head + 8 + len, ' ', padded - len);
    w->head[w->head_len] = '\0';
    w->sums = sums ? strstr(w->head + 8, place) + strlen(place) : NULL;
    free(text);
    return WEIR_OK;
}

static void writer_free(struct wr_st_writer *w)
{
    if (w->fd >= 0)
        close(w->fd);
    XXH3_freeState(w->state);
    free(w->path);
    free(w->temporary);
    free(w->head);
    free(w);
}

static weir_status prepare(struct wr_st_writer *w, struct wr_st_tensor *tensors, size_t n, bool sums, weir_error *err)
{
    char brief[96];
    qsort(tensors, n, sizeof *tensors, by_size_and_name);
    for (size_t i = 0; i < n; i++) {
        if (i && !strcmp(tensors[i].name, tensors[i - 1].name))
            return wr_error_set(err, WEIR_ERR_INVALID, "give each range once", "'%s' is there twice",
                                wr_ckpt_brief(tensors[i].name, brief));
        tensors[i].begin = w->bytes;
        w->bytes += tensors[i].count * tensors[i].dtype->bytes;
        tensors[i].end = w->bytes;
    }
    return make_header(w, tensors, n, sums, err);
}

weir_status wr_st_create(const struct wr_ckpt_fs *fs, const char *path, struct wr_st_tensor *tensors, size_t n,
                         bool sums, struct wr_st_writer **writer, weir_error *err)
{
    weir_status status;
    size_t len = strlen(path) + sizeof ".tmp";
    struct wr_st_writer *w = calloc(1, sizeof *w);
    if (!w)
        return wr_error_memory(err, sizeof *w, "a writer");
    w->fs = fs;
    w->fd = -1;
    w->path = strdup(path);
    w->temporary = malloc(len);
    w->state = XXH3_createState();
    if (!w->path || !w->temporary || !w->state) {
        status = wr_error_memory(err, len, "a writer");
        goto err_free;
    }
    snprintf(w->temporary, len, "%s.tmp", path);
    XXH3_64bits_reset(w->state);
    status = prepare(w, tensors, n, sums, err);
    if (status != WEIR_OK)
        goto err_free;
    w->fd = fs->create(fs, w->temporary);
    if (w->fd < 0) {
        status = wr_ckpt_fs_error("cannot make", w->temporary, err);
        goto err_free;
    }
    *writer = w;
    return WEIR_OK;

err_free:
    writer_free(w);
    return status;
}

/* Ends a block's checksum. */
static void end_block(struct wr_st_writer *w, uint64_t block)
{
    char text[17];
    snprintf(text, sizeof text, "%016" PRIx64, (uint64_t)XXH3_64bits_digest(w->state));
    memcpy(w->sums + 16 * block, text, 16);
    XXH3_64bits_reset(w->state);
}

/* Takes bytes that stand at w->at into the checksums. */
static void sum(struct wr_st_writer *w, const unsigned char *data, uint64_t len)
{
    for (uint64_t at = w->at, step; len; at += step, data += step, len -= step) {
        uint64_t left = WR_CKPT_BLOCK - at % WR_CKPT_BLOCK;
        step = len < left ? len : left;
        XXH3_64bits_update(w->state, data, (size_t)step);
        if (step == left || at + step == w->bytes)
            end_block(w, at / WR_CKPT_BLOCK);
    }
}

weir_status wr_st_put(struct wr_st_writer *w, const void *data, uint64_t len, weir_error *err)
{
    const unsigned char *from = data;
    for (uint64_t step; w->status == WEIR_OK && len; from += step, len -= step) {
        step = len < WR_CKPT_CHUNK ? len : WR_CKPT_CHUNK;
        if (w->sums)
            sum(w, from, step);
        w->status = wr_ckpt_write(w->fs, w->fd, w->temporary, from, (size_t)step, w->head_len + w->at, err);
        w->at += step;
    }
    return w->status;
}

weir_status wr_st_finish(struct wr_st_writer *w, uint64_t *bytes, uint64_t *header_sum, weir_error *err)
{
    weir_status status = w->status;
    if (status == WEIR_OK && w->at != w->bytes)
        status = wr_error_set(err, WEIR_ERR_INTERNAL, NULL, "%s got %llu bytes instead of %llu", w->path,
                              (unsigned long long)w->at, (unsigned long long)w->bytes);
    if (status == WEIR_OK)
        status = wr_ckpt_write(w->fs, w->fd, w->temporary, w->head, w->head_len, 0, err);
    if (status == WEIR_OK) {
        status = wr_ckpt_finish_file(w->fs, w->fd, w->temporary, w->path, err);
        w->fd = -1;
    }
    if (status != WEIR_OK) {
        wr_st_abandon(w);
        return status;
    }
    if (bytes)
        *bytes = w->head_len + w->bytes;
    if (header_sum)
        *header_sum = XXH3_64bits(w->head, w->head_len);
    writer_free(w);
    return WEIR_OK;
}

void wr_st_abandon(struct wr_st_writer *w)
{
    w->fs->remove(w->fs, w->temporary);
    writer_free(w);
}
