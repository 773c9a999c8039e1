/* SPDX-License-Identifier: BSD-3-Clause */
/* The reader of a safetensors header, which may come from anywhere: nothing in it is believed. */
#include "optim/ckpt.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static const char advice_other[] = "it is no safetensors file, or it was damaged: take another copy";

bool wr_ckpt_count(const uint64_t *shape, size_t ndims, unsigned bytes, uint64_t *count)
{
    uint64_t n = 1;
    bool empty = false;
    for (size_t i = 0; i < ndims; i++)
        empty = empty || !shape[i];
    for (size_t i = 0; !empty && i < ndims; i++)
        if (__builtin_mul_overflow(n, shape[i], &n))
            return false;
    *count = empty ? 0 : n;
    return *count <= ((uint64_t)1 << 62) / bytes;
}

const char *wr_ckpt_brief(const char *name, char buf[96])
{
    size_t n = strlen(name);
    if (n < 90)
        return memcpy(buf, name, n + 1);
    memcpy(buf, name, 86);
    memcpy(buf + 86, "...", 4);
    return buf;
}

/* A whole number that is not negative. */
static bool get_number(const json_t *value, uint64_t *number)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return false;
    *number = (uint64_t)json_integer_value(value);
    return true;
}

/* Fills in dtype, shape, count, begin and end; returns what is wrong, or NULL. */
static const char *parse_tensor(const json_t *value, uint64_t bytes, struct wr_st_tensor *tensor)
{
    const json_t *shape = json_object_get(value, "shape"), *offsets = json_object_get(value, "data_offsets");
    const char *dtype = json_string_value(json_object_get(value, "dtype"));
    if (!dtype || !json_is_array(shape) || json_array_size(offsets) != 2 || json_object_size(value) != 3)
        return "has not exactly a dtype, a shape and two data_offsets";
    tensor->dtype = wr_ckpt_dtype_named(dtype);
    if (!tensor->dtype)
        return "has a type that is not known";
    if (json_array_size(shape) > WEIR_CKPT_DIMS_MAX)
        return "has more than 16 dimensions";
    tensor->ndims = (unsigned)json_array_size(shape);
    for (unsigned i = 0; i < tensor->ndims; i++)
        if (!get_number(json_array_get(shape, i), &tensor->shape[i]))
            return "has a shape that is none";
    if (!wr_ckpt_count(tensor->shape, tensor->ndims, tensor->dtype->bytes, &tensor->count))
        return "has more elements than can be";
    if (!get_number(json_array_get(offsets, 0), &tensor->begin) ||
        !get_number(json_array_get(offsets, 1), &tensor->end) || tensor->begin > tensor->end || tensor->end > bytes)
        return "lies outside the file";
    if (tensor->end - tensor->begin != tensor->count * tensor->dtype->bytes)
        return "has not as many bytes as its shape wants";
    return NULL;
}

/* The checksums of a shard; "" is all a text may be else. */
static const char *parse_sums(const json_t *metadata, struct wr_st_header *header)
{
    const char *block = json_string_value(json_object_get(metadata, "weir.block"));
    const char *sums = json_string_value(json_object_get(metadata, "weir.xxh3"));
    if (!block && !sums)
        return NULL;
    char *end;
    header->block = block ? strtoull(block, &end, 10) : 0;
    if (!sums || !header->block || *end || header->block > (1 << 30))
        return "has checksums of blocks that cannot be";
    header->nsums = header->bytes / header->block + (header->bytes % header->block != 0);
    if (strlen(sums) / 16 != header->nsums || strlen(sums) % 16)
        return "has not one checksum a block";
    header->sums = calloc(header->nsums + 1, sizeof *header->sums);
    if (!header->sums)
        return "has more checksums than there is memory for";
    for (uint64_t i = 0; i < header->nsums; i++) {
        char one[17];
        memcpy(one, sums + 16 * i, 16);
        one[16] = '\0';
        if (!wr_ckpt_unhex64(one, &header->sums[i]))
            return "has a checksum that is none";
    }
    return NULL;
}

static const char *parse_metadata(const json_t *metadata, struct wr_st_header *header)
{
    const char *key;
    json_t *value;
    if (!json_is_object(metadata))
        return "has __metadata__ that is no object";
    json_object_foreach((json_t *)metadata, key,
                        value) if (!json_is_string(value)) return "has __metadata__ that is no text";
    return parse_sums(metadata, header);
}

static int by_place(const void *a, const void *b)
{
    const struct wr_st_tensor *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct wr_st_tensor *)a)->name, ((const struct wr_st_tensor *)b)->name);
}

/* Whether the tensors cover the data without gap or overlap; sorts them by name in the end. */
static weir_status check_tiling(struct wr_st_header *header, weir_error *err)
{
    uint64_t at = 0;
    char brief[96];
    qsort(header->tensors, header->n, sizeof *header->tensors, by_place);
    for (size_t i = 0; i < header->n; i++) {
        const struct wr_st_tensor *tensor = &header->tensors[i];
        if (tensor->begin != at)
            return wr_error_set(err, WEIR_ERR_IO, advice_other,
                                "tensor '%s' begins at byte %llu of the data, and what is before it ends at %llu",
                                wr_ckpt_brief(tensor->name, brief), (unsigned long long)tensor->begin,
                                (unsigned long long)at);
        at = tensor->end;
    }
    if (at != header->bytes)
        return wr_error_set(err, WEIR_ERR_IO, advice_other, "the tensors have %llu bytes, the file has %llu for them",
                            (unsigned long long)at, (unsigned long long)header->bytes);
    qsort(header->tensors, header->n, sizeof *header->tensors, by_name);
    return WEIR_OK;
}

static weir_status parse_root(json_t *root, struct wr_st_header *header, weir_error *err)
{
    const char *name, *wrong;
    json_t *value;
    char brief[96];
    header->tensors = calloc(json_object_size(root) + 1, sizeof *header->tensors);
    if (!header->tensors)
        return wr_error_memory(err, json_object_size(root) * sizeof *header->tensors, "the tensors of a file");
    json_object_foreach(root, name, value)
    {
        if (!strcmp(name, "__metadata__")) {
            wrong = parse_metadata(value, header);
            if (wrong)
                return wr_error_set(err, WEIR_ERR_IO, advice_other, "the header %s", wrong);
            continue;
        }
        struct wr_st_tensor *tensor = &header->tensors[header->n];
        wrong = strlen(name) >= WR_CKPT_PART_NAME || !*name ? "has a name of no or too many bytes"
                                                            : parse_tensor(value, header->bytes, tensor);
        if (wrong)
            return wr_error_set(err, WEIR_ERR_IO, advice_other, "tensor '%s' %s", wr_ckpt_brief(name, brief), wrong);
        tensor->name = strdup(name);
        if (!tensor->name)
            return wr_error_memory(err, strlen(name) + 1, "a tensor's name");
        header->n++;
    }
    return check_tiling(header, err);
}

weir_status wr_st_parse(const char *text, size_t len, uint64_t bytes, struct wr_st_header *header, weir_error *err)
{
    json_error_t why;
    struct wr_st_header made = {.bytes = bytes};
    if (!len || text[0] != '{')
        return wr_error_set(err, WEIR_ERR_IO, advice_other, "the header does not begin with '{'");
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
    if (!root)
        return wr_error_set(err, WEIR_ERR_IO, advice_other, "the header is not JSON: %s", why.text);
    weir_status status = json_is_object(root)
                             ? parse_root(root, &made, err)
                             : wr_error_set(err, WEIR_ERR_IO, advice_other, "the header is no JSON object");
    json_decref(root);
    if (status != WEIR_OK)
        wr_st_header_free(&made);
    else
        *header = made;
    return status;
}

void wr_st_header_free(struct wr_st_header *header)
{
    for (size_t i = 0; i < header->n; i++)
        free(header->tensors[i].name);
    free(header->tensors);
    free(header->sums);
    memset(header, 0, sizeof *header);
}

const struct wr_st_tensor *wr_st_find(const struct wr_st_header *header, const char *name)
{
    struct wr_st_tensor key = {.name = (char *)name};
    return bsearch(&key, header->tensors, header->n, sizeof key, by_name);
}
