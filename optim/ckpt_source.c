/* SPDX-License-Identifier: BSD-3-Clause */
/* What is asked of an open source, and reading ranges of tensors from it. */
#include "optim/ckpt_source.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

enum { OPEN_MAX_FILES = 64 };

weir_status weir_ckpt_source_info(const weir_ckpt_source *source, weir_ckpt_info *info)
{
    if (!source || !info || info->size < sizeof info->size || info->size > 4096)
        return WEIR_ERR_INVALID;
    size_t size = info->size;
    memcpy(info, &source->info, size < sizeof *info ? size : sizeof *info);
    info->size = size;
    return WEIR_OK;
}

static weir_status describe(const struct wr_ckpt_tensor *from, weir_ckpt_tensor *tensor)
{
    if (!tensor || tensor->size != sizeof *tensor)
        return WEIR_ERR_INVALID;
    if (!from)
        return WEIR_ERR_NOT_FOUND;
    *tensor = (weir_ckpt_tensor){
        .size = sizeof *tensor,
        .name = from->name,
        .type = from->dtype->type,
        .ndims = from->ndims,
        .shape = from->shape,
        .count = from->count,
        .dtype = from->dtype->name,
    };
    return WEIR_OK;
}

weir_status weir_ckpt_source_tensor(const weir_ckpt_source *source, uint64_t index, weir_ckpt_tensor *tensor)
{
    if (!source || index >= source->index.ntensors)
        return WEIR_ERR_INVALID;
    return describe(&source->index.tensors[index], tensor);
}

weir_status weir_ckpt_source_find(const weir_ckpt_source *source, const char *name, weir_ckpt_tensor *tensor)
{
    return source && name ? describe(wr_ckpt_index_find(&source->index, name), tensor) : WEIR_ERR_INVALID;
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct wr_ckpt_value *)a)->key, ((const struct wr_ckpt_value *)b)->key);
}

weir_status weir_ckpt_source_entry(const weir_ckpt_source *source, const char *key, weir_ckpt_entry *entry)
{
    if (!source || !key || !entry || entry->size != sizeof *entry)
        return WEIR_ERR_INVALID;
    struct wr_ckpt_value wanted = {.key = (char *)key};
    const struct wr_ckpt_value *value = bsearch(&wanted, source->values, source->nvalues, sizeof wanted, by_key);
    if (!value)
        return WEIR_ERR_NOT_FOUND;
    *entry = (weir_ckpt_entry){sizeof *entry, value->key, value->json, value->bytes, value->nbytes};
    return WEIR_OK;
}

const char *weir_ckpt_source_key(const weir_ckpt_source *source, uint64_t index)
{
    return source && index < source->nvalues ? source->values[index].key : NULL;
}

/* Gives descriptors back when there are many; files are opened again when they are needed. */
static void limit_open(weir_ckpt_source *source)
{
    if (source->nopen < OPEN_MAX_FILES)
        return;
    for (size_t i = 0; i < source->index.nshards; i++) {
        if (source->files[i] && source->files[i]->fd >= 0) {
            close(source->files[i]->fd);
            source->files[i]->fd = -1;
        }
    }
    source->nopen = 0;
}

weir_status wr_ckpt_source_file(weir_ckpt_source *source, uint64_t shard, struct wr_st_file **file, weir_error *err)
{
    const struct wr_ckpt_shard *wanted = &source->index.shards[shard];
    struct wr_st_file *made = source->files[shard];
    char path[WR_CKPT_PATH];
    if (!made || made->fd < 0) {
        limit_open(source);
        source->nopen++;
    }
    if (made) {
        *file = made;
        return WEIR_OK;
    }
    weir_status status = wr_ckpt_path(path, source->folder, wanted->file, err);
    if (status == WEIR_OK)
        status = wr_st_open(path, &made, err);
    if (status != WEIR_OK)
        return status;
    if (wanted->bytes && (made->size != wanted->bytes || made->header_sum != wanted->header_sum)) {
        wr_st_close(made);
        return wr_error_set(err, WEIR_ERR_IO, "take another checkpoint",
                            "%s was cut or altered: size or header are not those of the index", path);
    }
    source->files[shard] = *file = made;
    return WEIR_OK;
}

/* The part that element `first` is in. */
static const struct wr_ckpt_part *part_of(const struct wr_ckpt_tensor *tensor, uint64_t first)
{
    size_t low = 0, high = tensor->nparts;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (tensor->parts[middle].first <= first)
            low = middle;
        else
            high = middle;
    }
    return &tensor->parts[low];
}

/* Reads elements that are in one part, as they are. */
static weir_status read_part(weir_ckpt_source *source, const struct wr_ckpt_tensor *tensor,
                             const struct wr_ckpt_part *part, uint64_t first, uint64_t count, void *data,
                             weir_error *err)
{
    struct wr_st_file *file;
    char buf[WR_CKPT_PART_NAME], brief[96];
    unsigned bytes = tensor->dtype->bytes;
    weir_status status = wr_ckpt_source_file(source, part->shard, &file, err);
    if (status != WEIR_OK)
        return status;
    const char *name = wr_ckpt_part_name(tensor->name, tensor->count, part, buf);
    const struct wr_st_tensor *there = wr_st_find(&file->header, name);
    if (!there || there->dtype != tensor->dtype || there->count != part->count)
        return wr_error_set(err, WEIR_ERR_IO, "take another checkpoint", "%s has not the part '%s' that the index says",
                            file->path, wr_ckpt_brief(name, brief));
    return wr_st_read(file, &source->cache, there->begin + (first - part->first) * bytes, data, count * bytes, err);
}

/* Reads elements as they are. */
static weir_status read_plain(weir_ckpt_source *source, const struct wr_ckpt_tensor *tensor, uint64_t first,
                              uint64_t count, void *data, weir_error *err)
{
    weir_status status = WEIR_OK;
    char *to = data;
    for (uint64_t n; status == WEIR_OK && count; first += n, count -= n, to += n * tensor->dtype->bytes) {
        const struct wr_ckpt_part *part = part_of(tensor, first);
        uint64_t left = part->first + part->count - first;
        n = count < left ? count : left;
        status = read_part(source, tensor, part, first, n, to, err);
    }
    return status;
}

weir_status wr_ckpt_source_get(weir_ckpt_source *source, const struct wr_ckpt_tensor *tensor, uint64_t first,
                               uint64_t count, const struct wr_ckpt_dtype *as, void *data, weir_error *err)
{
    weir_status status = WEIR_OK;
    char *to = data;
    if (as->type == tensor->dtype->type)
        return read_plain(source, tensor, first, count, data, err);
    if (!source->chunk && !(source->chunk = malloc(WR_CKPT_CHUNK)))
        return wr_error_memory(err, WR_CKPT_CHUNK, "a buffer to convert in");
    for (uint64_t n; status == WEIR_OK && count; first += n, count -= n, to += n * as->bytes) {
        uint64_t most = WR_CKPT_CHUNK / tensor->dtype->bytes;
        n = count < most ? count : most;
        status = read_plain(source, tensor, first, n, source->chunk, err);
        if (status == WEIR_OK)
            wr_ckpt_convert(to, as->type, source->chunk, tensor->dtype->type, n);
    }
    return status;
}

static weir_status read_one(weir_ckpt_source *source, const weir_ckpt_tensor *range, weir_error *err)
{
    char brief[96];
    if (range->size != sizeof *range || !range->name || (range->count && !range->data))
        return wr_error_set(err, WEIR_ERR_INVALID, "start from WEIR_CKPT_TENSOR_INIT",
                            "a range with a size, name or data that cannot be");
    const struct wr_ckpt_tensor *tensor = wr_ckpt_index_find(&source->index, range->name);
    const struct wr_ckpt_dtype *as = wr_ckpt_dtype_of(range->type);
    wr_ckpt_brief(range->name, brief);
    if (!tensor)
        return wr_error_set(err, WEIR_ERR_NOT_FOUND, "'weir-ckpt list --tensors' shows which there are",
                            "there is no tensor '%s' in %s", brief, source->folder);
    if (range->first > tensor->count || range->count > tensor->count - range->first)
        return wr_error_set(err, WEIR_ERR_INVALID, "see that the model is the same",
                            "tensor '%s' has %llu elements, and %llu from %llu on are wanted", brief,
                            (unsigned long long)tensor->count, (unsigned long long)range->count,
                            (unsigned long long)range->first);
    if (!as || !wr_ckpt_converts(tensor->dtype->type, range->type))
        return wr_error_set(err, WEIR_ERR_INVALID, "read it as the type that it has",
                            "tensor '%s' has type %s and cannot be read as %s", brief, tensor->dtype->name,
                            as ? as->name : "a type that files have not");
    return wr_ckpt_source_get(source, tensor, range->first, range->count, as, range->data, err);
}

weir_status weir_ckpt_source_read(weir_ckpt_source *source, const weir_ckpt_tensor *ranges, size_t n, weir_error *error)
{
    weir_status status = WEIR_OK;
    if (!source || (n && !ranges))
        return wr_error_set(error, WEIR_ERR_INVALID, NULL, "no source, or no ranges");
    for (size_t i = 0; status == WEIR_OK && i < n; i++)
        status = read_one(source, &ranges[i], error);
    return status;
}

weir_status weir_ckpt_source_verify(weir_ckpt_source *source, uint64_t *checked, weir_error *error)
{
    uint64_t total = 0;
    weir_status status = source ? WEIR_OK : wr_error_set(error, WEIR_ERR_INVALID, NULL, "no source");
    char *data = malloc(WR_CKPT_CHUNK);
    if (!data)
        return wr_error_memory(error, WR_CKPT_CHUNK, "a buffer");
    for (uint64_t shard = 0; status == WEIR_OK && shard < source->index.nshards; shard++) {
        struct wr_st_file *file;
        status = wr_ckpt_source_file(source, shard, &file, error);
        for (uint64_t at = 0, n; status == WEIR_OK && at < file->header.bytes; at += n) {
            n = file->header.bytes - at < WR_CKPT_CHUNK ? file->header.bytes - at : WR_CKPT_CHUNK;
            status = wr_st_read(file, &source->cache, at, data, n, error);
            total += file->header.block ? n : 0;
        }
    }
    free(data);
    if (status == WEIR_OK && checked)
        *checked = total;
    return status;
}
