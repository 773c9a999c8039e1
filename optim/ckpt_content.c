/* SPDX-License-Identifier: BSD-3-Clause */
/* What a rank gives to a checkpoint: checked, described for rank 0, and where wanted copied, so that a thread can work on it. */
#include "optim/ckpt.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static const char advice_header[] = "weir/ckpt.h says what is possible";

static bool utf8(const char *text)
{
    json_t *value = json_string(text);
    json_decref(value);
    return value != NULL;
}

/* What is wrong with a name or key, or NULL. */
static const char *check_name(const char *name)
{
    if (!name || !*name || strlen(name) > WEIR_CKPT_NAME_MAX)
        return "has a name of no or too many bytes";
    if (!strcmp(name, "__metadata__"))
        return "has a name that is taken";
    return utf8(name) ? NULL : "has a name that is not UTF-8";
}

static const char *check_tensor(const weir_ckpt_tensor *tensor, uint64_t *count)
{
    const struct wr_ckpt_dtype *dtype = wr_ckpt_dtype_of(tensor->type);
    const char *wrong = check_name(tensor->name);
    if (wrong)
        return wrong;
    if (!dtype)
        return "has a type that files have not";
    if (tensor->ndims > WEIR_CKPT_DIMS_MAX || (tensor->ndims && !tensor->shape))
        return "has more than 16 dimensions, or no shape";
    if (!wr_ckpt_count(tensor->shape, tensor->ndims, dtype->bytes, count))
        return "has more elements than can be";
    if (tensor->first > *count || tensor->count > *count - tensor->first)
        return "has a range outside it";
    return tensor->count && !tensor->data && !tensor->fetch ? "has no data" : NULL;
}

/* [name, dtype, shape, first, count] */
static json_t *describe(const weir_ckpt_tensor *tensor)
{
    json_t *shape = json_array();
    for (uint64_t i = 0; i < tensor->ndims; i++)
        json_array_append_new(shape, json_integer((json_int_t)tensor->shape[i]));
    return json_pack("[s, s, o, I, I]", tensor->name, wr_ckpt_dtype_of(tensor->type)->name, shape,
                     (json_int_t)tensor->first, (json_int_t)tensor->count);
}

/* How a range stands in the shard. */
static weir_status make_piece(const weir_ckpt_tensor *tensor, uint64_t count, struct wr_st_tensor *piece,
                              weir_error *err)
{
    char buf[WR_CKPT_PART_NAME];
    struct wr_ckpt_part part = {0, tensor->first, tensor->count};
    piece->dtype = wr_ckpt_dtype_of(tensor->type);
    piece->count = tensor->count;
    piece->data = tensor->data;
    piece->fetch = tensor->fetch;
    piece->user = tensor->user;
    piece->ndims = 1;
    piece->shape[0] = tensor->count;
    if (tensor->count == count) {
        piece->ndims = (unsigned)tensor->ndims;
        if (tensor->ndims)
            memcpy(piece->shape, tensor->shape, tensor->ndims * sizeof *piece->shape);
    }
    piece->name = strdup(wr_ckpt_part_name(tensor->name, count, &part, buf));
    return piece->name ? WEIR_OK : wr_error_memory(err, sizeof buf, "a tensor's name");
}

static weir_status take_tensors(const weir_ckpt_content *content, struct wr_ckpt_job *job, json_t *list,
                                weir_error *err)
{
    char brief[96];
    job->pieces = calloc(content->ntensors + 1, sizeof *job->pieces);
    if (!job->pieces)
        return wr_error_memory(err, content->ntensors * sizeof *job->pieces, "a save");
    for (uint64_t i = 0; i < content->ntensors; i++) {
        const weir_ckpt_tensor *tensor = &content->tensors[i];
        uint64_t count;
        const char *wrong = tensor->size != sizeof *tensor ? "has a size that cannot be" : check_tensor(tensor, &count);
        if (wrong)
            return wr_error_set(err, WEIR_ERR_INVALID, advice_header, "tensor %llu, '%s', %s", (unsigned long long)i,
                                tensor->size == sizeof *tensor && tensor->name ? wr_ckpt_brief(tensor->name, brief)
                                                                               : "?",
                                wrong);
        if (json_array_append_new(list, describe(tensor)))
            return wr_error_memory(err, 256, "a description");
        if (!tensor->count)
            continue;
        weir_status status = make_piece(tensor, count, &job->pieces[job->n], err);
        if (status != WEIR_OK)
            return status;
        job->n++;
    }
    return WEIR_OK;
}

/* {"json": value} or {"hex": text} of an entry; NULL and what is wrong. */
static json_t *entry_json(const weir_ckpt_entry *entry, const char **wrong)
{
    *wrong = check_name(entry->key);
    if (*wrong)
        return NULL;
    if (entry->json) {
        json_error_t why;
        json_t *value = json_loads(entry->json, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &why);
        *wrong = strlen(entry->json) > WEIR_CKPT_ENTRY_MAX ? "has a value of too many bytes"
                                                           : "has a value that is not JSON";
        json_t *made = value && strlen(entry->json) <= WEIR_CKPT_ENTRY_MAX ? json_pack("{s:O}", "json", value) : NULL;
        json_decref(value);
        return made;
    }
    *wrong = "has bytes that cannot be";
    if (entry->nbytes > WEIR_CKPT_ENTRY_MAX || (entry->nbytes && !entry->bytes))
        return NULL;
    *wrong = "finds no memory";
    char *text = malloc(2 * entry->nbytes + 1);
    if (!text)
        return NULL;
    wr_ckpt_hex(entry->bytes, entry->nbytes, text);
    json_t *made = json_pack("{s:s}", "hex", text);
    free(text);
    return made;
}

static weir_status take_entries(const weir_ckpt_content *content, json_t *entries, weir_error *err)
{
    char brief[96];
    for (uint64_t i = 0; i < content->nentries; i++) {
        const weir_ckpt_entry *entry = &content->entries[i];
        const char *wrong = "has a size that cannot be";
        json_t *made = entry->size == sizeof *entry ? entry_json(entry, &wrong) : NULL;
        if (made && json_object_get(entries, entry->key)) {
            json_decref(made);
            made = NULL;
            wrong = "is there twice";
        }
        if (!made)
            return wr_error_set(err, WEIR_ERR_INVALID, advice_header, "entry %llu, '%s', %s", (unsigned long long)i,
                                entry->size == sizeof *entry && entry->key ? wr_ckpt_brief(entry->key, brief) : "?",
                                wrong);
        if (json_object_set_new(entries, entry->key, made))
            return wr_error_memory(err, 256, "an entry");
    }
    return WEIR_OK;
}

/* The job's own copy of all data. */
static weir_status copy_data(struct wr_ckpt_job *job, weir_error *err)
{
    size_t bytes = 0;
    for (size_t i = 0; i < job->n; i++)
        bytes += job->pieces[i].count * job->pieces[i].dtype->bytes;
    char *to = job->copy = malloc(bytes + 1);
    if (!to)
        return wr_error_memory(err, bytes, "the copy that a background save works on; give stable memory instead");
    for (size_t i = 0; i < job->n; i++) {
        size_t n = job->pieces[i].count * job->pieces[i].dtype->bytes;
        struct wr_st_tensor *piece = &job->pieces[i];
        weir_status status = WEIR_OK;
        if (piece->data)
            memcpy(to, piece->data, n);
        else
            status = piece->fetch(piece->user, 0, piece->count, to, err);
        if (status != WEIR_OK)
            return status;
        piece->data = to;
        to += n;
    }
    return WEIR_OK;
}

static weir_status take(const weir_ckpt_content *content, struct wr_ckpt_job *job, weir_error *err)
{
    json_t *tensors = json_array(), *entries = json_object();
    weir_status status = take_tensors(content, job, tensors, err);
    if (status == WEIR_OK)
        status = take_entries(content, entries, err);
    json_t *root =
        json_pack("{s:I, s:o, s:o}", "step", (json_int_t)content->step, "tensors", tensors, "entries", entries);
    if (status == WEIR_OK) {
        job->description = json_dumps(root, JSON_COMPACT);
        if (job->description)
            job->description_len = strlen(job->description);
        else
            status = wr_error_memory(err, 256 * content->ntensors, "a description");
    }
    json_decref(root);
    return status;
}

weir_status wr_ckpt_job_create(const weir_ckpt_content *content, bool copy, struct wr_ckpt_job **job, weir_error *err)
{
    if (!content || content->size != sizeof *content || (content->flags & ~WEIR_CKPT_STABLE) ||
        (content->ntensors && !content->tensors) || (content->nentries && !content->entries) ||
        content->step > INT64_MAX)
        return wr_error_set(err, WEIR_ERR_INVALID, "start from WEIR_CKPT_CONTENT_INIT",
                            "a content with a size, flags, pointers or a step that cannot be");
    struct wr_ckpt_job *made = calloc(1, sizeof *made);
    if (!made)
        return wr_error_memory(err, sizeof *made, "a save");
    made->step = content->step;
    weir_status status = take(content, made, err);
    if (status == WEIR_OK && copy)
        status = copy_data(made, err);
    if (status != WEIR_OK)
        wr_ckpt_job_free(made);
    else
        *job = made;
    return status;
}

void wr_ckpt_job_free(struct wr_ckpt_job *job)
{
    if (!job)
        return;
    for (size_t i = 0; i < job->n; i++)
        free(job->pieces[i].name);
    free(job->pieces);
    free(job->description);
    free(job->copy);
    free(job);
}
