/* SPDX-License-Identifier: BSD-3-Clause */
/* The index as JSON, written and read. A reader believes nothing. */
#include "optim/ckpt.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static const char advice_index[] = "it is no index of a checkpoint, or it was damaged: take another checkpoint";

/* ---- hexadecimal ---- */

void wr_ckpt_hex(const void *data, size_t n, char *text)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *from = data;
    for (size_t i = 0; i < n; i++) {
        text[2 * i] = digits[from[i] >> 4];
        text[2 * i + 1] = digits[from[i] & 15];
    }
    text[2 * n] = '\0';
}

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool wr_ckpt_unhex(const char *text, void *data, size_t n)
{
    unsigned char *to = data;
    if (strlen(text) != 2 * n)
        return false;
    for (size_t i = 0; i < n; i++) {
        int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        to[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

bool wr_ckpt_unhex64(const char *text, uint64_t *value)
{
    unsigned char bytes[8];
    if (!wr_ckpt_unhex(text, bytes, sizeof bytes))
        return false;
    *value = 0;
    for (int i = 0; i < 8; i++)
        *value = *value << 8 | bytes[i];
    return true;
}

/* ---- writing ---- */

static json_t *tensor_json(const struct wr_ckpt_tensor *tensor)
{
    json_t *shape = json_array(), *parts = json_array();
    for (unsigned i = 0; i < tensor->ndims; i++)
        json_array_append_new(shape, json_integer((json_int_t)tensor->shape[i]));
    for (size_t i = 0; i < tensor->nparts; i++)
        json_array_append_new(parts, json_pack("[I, I, I]", (json_int_t)tensor->parts[i].shard,
                                               (json_int_t)tensor->parts[i].first, (json_int_t)tensor->parts[i].count));
    return json_pack("{s:s, s:o, s:o}", "dtype", tensor->dtype->name, "shape", shape, "parts", parts);
}

static json_t *shard_json(const struct wr_ckpt_shard *shard)
{
    char sum[17];
    snprintf(sum, sizeof sum, "%016" PRIx64, shard->header_sum);
    return json_pack("{s:s, s:I, s:s}", "file", shard->file, "bytes", (json_int_t)shard->bytes, "header_xxh3", sum);
}

char *wr_ckpt_index_text(const struct wr_ckpt_index *index, size_t *len)
{
    json_t *shards = json_array(), *tensors = json_object();
    int failed = 0;
    for (size_t i = 0; i < index->nshards; i++)
        failed |= json_array_append_new(shards, shard_json(&index->shards[i]));
    for (size_t i = 0; i < index->ntensors; i++)
        failed |= json_object_set_new(tensors, index->tensors[i].name, tensor_json(&index->tensors[i]));
    json_t *root =
        json_pack("{s:s, s:i, s:s, s:I, s:I, s:I, s:o, s:o, s:O*}", "format", "weir-checkpoint", "version", 1, "weir",
                  PACKAGE_VERSION, "step", (json_int_t)index->step, "saved", (json_int_t)index->saved, "ranks",
                  (json_int_t)index->ranks, "shards", shards, "tensors", tensors, "entries", index->entries);
    char *text = failed ? NULL : json_dumps(root, JSON_COMPACT);
    json_decref(root);
    if (text)
        *len = strlen(text);
    return text;
}

/* ---- reading ---- */

static bool get_number(const json_t *value, uint64_t *number)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return false;
    *number = (uint64_t)json_integer_value(value);
    return true;
}

/* A file's name that leads nowhere else. */
static bool plain_file(const char *name)
{
    return name && *name && *name != '.' && !strchr(name, '/') && strlen(name) < WR_CKPT_FILE_NAME;
}

static const char *parse_shard(const json_t *value, struct wr_ckpt_shard *shard)
{
    const char *file = json_string_value(json_object_get(value, "file")),
               *sum = json_string_value(json_object_get(value, "header_xxh3"));
    if (!plain_file(file))
        return "has a shard whose file's name is none";
    memcpy(shard->file, file, strlen(file) + 1);
    if (!get_number(json_object_get(value, "bytes"), &shard->bytes) || !shard->bytes || !sum ||
        !wr_ckpt_unhex64(sum, &shard->header_sum))
        return "has a shard without size and checksum";
    return NULL;
}

static const char *parse_parts(const json_t *list, uint64_t nshards, struct wr_ckpt_tensor *tensor)
{
    uint64_t at = 0;
    if (!json_is_array(list))
        return "has no parts";
    tensor->parts = calloc(json_array_size(list) + 1, sizeof *tensor->parts);
    if (!tensor->parts)
        return "has more parts than there is memory for";
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        struct wr_ckpt_part *part = &tensor->parts[i];
        if (json_array_size(one) != 3 || !get_number(json_array_get(one, 0), &part->shard) ||
            !get_number(json_array_get(one, 1), &part->first) || !get_number(json_array_get(one, 2), &part->count) ||
            part->shard >= nshards)
            return "has a part that is none";
        if (part->first != at || !part->count || part->count > tensor->count - at)
            return "has parts that do not make it";
        at += part->count;
        tensor->nparts++;
    }
    return at == tensor->count ? NULL : "has parts that do not make it";
}

static const char *parse_tensor(const json_t *value, uint64_t nshards, struct wr_ckpt_tensor *tensor)
{
    const char *dtype = json_string_value(json_object_get(value, "dtype"));
    const json_t *shape = json_object_get(value, "shape");
    tensor->dtype = dtype ? wr_ckpt_dtype_named(dtype) : NULL;
    if (!tensor->dtype || !json_is_array(shape) || json_array_size(shape) > WEIR_CKPT_DIMS_MAX)
        return "has no type or shape that can be";
    tensor->ndims = (unsigned)json_array_size(shape);
    for (unsigned i = 0; i < tensor->ndims; i++)
        if (!get_number(json_array_get(shape, i), &tensor->shape[i]))
            return "has a shape that is none";
    if (!wr_ckpt_count(tensor->shape, tensor->ndims, tensor->dtype->bytes, &tensor->count))
        return "has more elements than can be";
    return parse_parts(json_object_get(value, "parts"), nshards, tensor);
}

static const char *parse_entries(json_t *entries)
{
    const char *key;
    json_t *value;
    if (entries && !json_is_object(entries))
        return "has entries that are no object";
    json_object_foreach(entries, key, value)
    {
        const char *hex = json_string_value(json_object_get(value, "hex"));
        if (json_object_size(value) != 1 || (!hex && !json_object_get(value, "json")))
            return "has an entry that is neither JSON nor bytes";
        if (hex && (strlen(hex) % 2 || strlen(hex) / 2 > WEIR_CKPT_ENTRY_MAX))
            return "has an entry whose bytes are none";
    }
    return NULL;
}

static weir_status parse_root(json_t *root, struct wr_ckpt_index *index, weir_error *err)
{
    const char *format = json_string_value(json_object_get(root, "format")), *name, *wrong = NULL;
    json_t *shards = json_object_get(root, "shards"), *tensors = json_object_get(root, "tensors"), *value;
    uint64_t saved;
    char brief[96];
    if (!format || strcmp(format, "weir-checkpoint") || json_integer_value(json_object_get(root, "version")) != 1)
        return wr_error_set(err, WEIR_ERR_IO, "read it with the version of weir that wrote it",
                            "it is no index of a checkpoint of version 1");
    if (!json_is_array(shards) || !json_is_object(tensors) ||
        !get_number(json_object_get(root, "step"), &index->step) ||
        !get_number(json_object_get(root, "ranks"), &index->ranks) ||
        !get_number(json_object_get(root, "saved"), &saved))
        return wr_error_set(err, WEIR_ERR_IO, advice_index, "the index lacks shards, tensors, step, ranks or time");
    index->saved = (int64_t)saved;
    index->shards = calloc(json_array_size(shards) + 1, sizeof *index->shards);
    index->tensors = calloc(json_object_size(tensors) + 1, sizeof *index->tensors);
    if (!index->shards || !index->tensors)
        return wr_error_memory(err, json_object_size(tensors) * sizeof *index->tensors, "an index");
    for (size_t i = 0; !wrong && i < json_array_size(shards); i++)
        wrong = parse_shard(json_array_get(shards, i), &index->shards[index->nshards++]);
    if (!wrong)
        wrong = parse_entries(json_object_get(root, "entries"));
    if (wrong)
        return wr_error_set(err, WEIR_ERR_IO, advice_index, "the index %s", wrong);
    index->entries = json_incref(json_object_get(root, "entries"));
    json_object_foreach(tensors, name, value)
    {
        struct wr_ckpt_tensor *tensor = &index->tensors[index->ntensors++];
        tensor->name = strdup(name);
        wrong = !*name || strlen(name) > WEIR_CKPT_NAME_MAX ? "has a name of no or too many bytes"
                : tensor->name                              ? parse_tensor(value, index->nshards, tensor)
                                                            : "has a name that there is no memory for";
        if (wrong)
            return wr_error_set(err, WEIR_ERR_IO, advice_index, "tensor '%s' %s", wr_ckpt_brief(name, brief), wrong);
    }
    wr_ckpt_index_sort(index);
    return WEIR_OK;
}

/* Parses JSON and lets `read` fill in an index. */
static weir_status parse(const char *text, size_t len,
                         weir_status (*read)(json_t *, struct wr_ckpt_index *, weir_error *),
                         struct wr_ckpt_index *index, weir_error *err)
{
    json_error_t why;
    struct wr_ckpt_index made = {0};
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
    if (!root)
        return wr_error_set(err, WEIR_ERR_IO, advice_index, "it is not JSON: line %d: %s", why.line, why.text);
    weir_status status = read(root, &made, err);
    json_decref(root);
    if (status != WEIR_OK)
        wr_ckpt_index_free(&made);
    else
        *index = made;
    return status;
}

weir_status wr_ckpt_index_parse(const char *text, size_t len, struct wr_ckpt_index *index, weir_error *err)
{
    return parse(text, len, parse_root, index, err);
}

/* ---- files from elsewhere ---- */

static int by_file(const void *a, const void *b)
{
    return strcmp(((const struct wr_ckpt_shard *)a)->file, ((const struct wr_ckpt_shard *)b)->file);
}

static weir_status parse_map(json_t *root, struct wr_ckpt_index *index, weir_error *err)
{
    json_t *map = json_object_get(root, "weight_map"), *value;
    const char *name;
    size_t n = 0;
    char brief[96];
    if (!json_is_object(map))
        return wr_error_set(err, WEIR_ERR_IO, "give a safetensors file, its index, or a checkpoint",
                            "it has no weight_map");
    index->shards = calloc(json_object_size(map) + 1, sizeof *index->shards);
    if (!index->shards)
        return wr_error_memory(err, json_object_size(map) * sizeof *index->shards, "an index");
    json_object_foreach(map, name, value)
    {
        const char *file = json_string_value(value);
        if (!plain_file(file))
            return wr_error_set(err, WEIR_ERR_IO, advice_index, "the file of tensor '%s' has a name that is none",
                                wr_ckpt_brief(name, brief));
        memcpy(index->shards[n++].file, file, strlen(file) + 1);
    }
    qsort(index->shards, n, sizeof *index->shards, by_file);
    for (size_t i = 0; i < n; i++)
        if (!i || strcmp(index->shards[i].file, index->shards[index->nshards - 1].file))
            index->shards[index->nshards++] = index->shards[i];
    return WEIR_OK;
}

weir_status wr_ckpt_weight_map_parse(const char *text, size_t len, struct wr_ckpt_index *index, weir_error *err)
{
    return parse(text, len, parse_map, index, err);
}

weir_status wr_ckpt_index_add_file(struct wr_ckpt_index *index, uint64_t shard, const struct wr_st_file *file,
                                   weir_error *err)
{
    char brief[96];
    struct wr_ckpt_tensor *more = realloc(index->tensors, (index->ntensors + file->header.n + 1) * sizeof *more);
    if (!more)
        return wr_error_memory(err, file->header.n * sizeof *more, "the tensors of a file");
    index->tensors = more;
    for (size_t i = 0; i < file->header.n; i++) {
        const struct wr_st_tensor *from = &file->header.tensors[i];
        struct wr_ckpt_tensor *to = &more[index->ntensors];
        if (strlen(from->name) > WEIR_CKPT_NAME_MAX)
            return wr_error_set(err, WEIR_ERR_IO, NULL, "%s: tensor '%s' has a name of more than %d bytes", file->path,
                                wr_ckpt_brief(from->name, brief), WEIR_CKPT_NAME_MAX);
        *to = (struct wr_ckpt_tensor){.dtype = from->dtype, .ndims = from->ndims, .count = from->count};
        memcpy(to->shape, from->shape, sizeof to->shape);
        to->name = strdup(from->name);
        to->parts = calloc(1, sizeof *to->parts);
        index->ntensors++;
        if (!to->name || !to->parts)
            return wr_error_memory(err, strlen(from->name), "a tensor's name");
        to->parts[0] = (struct wr_ckpt_part){shard, 0, from->count};
        to->nparts = from->count > 0;
    }
    return WEIR_OK;
}
