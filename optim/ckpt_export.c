/* SPDX-License-Identifier: BSD-3-Clause */
/* Whole tensors of a source into one file, a few MiB at a time: for other programs, or as a new checkpoint. */
#include "optim/ckpt_source.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"

/* A tensor on its way: `data` of the piece points to the wr_ckpt_tensor that it comes from. */
struct crossing {
    size_t n;
    struct wr_st_tensor *pieces;
};

static void crossing_free(struct crossing *crossing)
{
    for (size_t i = 0; i < crossing->n; i++)
        free(crossing->pieces[i].name);
    free(crossing->pieces);
}

static weir_status read_filter(const weir_ckpt_filter *filter, weir_ckpt_filter *out, const struct wr_ckpt_dtype **as,
                               weir_error *err)
{
    weir_ckpt_filter f = WEIR_CKPT_FILTER_INIT;
    if (filter && (filter->size < sizeof f.size || filter->size > 4096))
        return wr_error_set(err, WEIR_ERR_INVALID, "start from WEIR_CKPT_FILTER_INIT",
                            "a filter with a size that cannot be");
    if (filter)
        memcpy(&f, filter, filter->size < sizeof f ? filter->size : sizeof f);
    if (f.flags)
        return wr_error_set(err, WEIR_ERR_INVALID, "flags must be 0", "a filter with flags that are not known");
    *as = f.dtype ? wr_ckpt_dtype_named(f.dtype) : NULL;
    if (f.dtype && (!*as || !wr_ckpt_converts(WEIR_FP32, (*as)->type)))
        return wr_error_set(err, WEIR_ERR_INVALID, "give F64, F32, BF16 or F16", "tensors cannot be made of type '%s'",
                            f.dtype);
    f.prefix = f.prefix ? f.prefix : "";
    f.replace = f.replace ? f.replace : f.prefix;
    *out = f;
    return WEIR_OK;
}

/* The tensor's new name, to be freed. */
static char *rename_tensor(const char *name, const weir_ckpt_filter *filter)
{
    size_t cut = strlen(filter->prefix), len = strlen(filter->replace);
    char *made = malloc(len + strlen(name + cut) + 1);
    if (made) {
        memcpy(made, filter->replace, len);
        strcpy(made + len, name + cut);
    }
    return made;
}

static weir_status choose(const weir_ckpt_source *source, const weir_ckpt_filter *filter, struct crossing *crossing,
                          weir_error *err)
{
    weir_ckpt_filter f = WEIR_CKPT_FILTER_INIT;
    const struct wr_ckpt_dtype *as = NULL;
    char brief[96];
    weir_status status = read_filter(filter, &f, &as, err);
    if (status != WEIR_OK)
        return status;
    crossing->pieces = calloc(source->index.ntensors + 1, sizeof *crossing->pieces);
    if (!crossing->pieces)
        return wr_error_memory(err, source->index.ntensors * sizeof *crossing->pieces, "a list of tensors");
    for (size_t i = 0; i < source->index.ntensors; i++) {
        const struct wr_ckpt_tensor *from = &source->index.tensors[i];
        struct wr_st_tensor *to = &crossing->pieces[crossing->n];
        if (strncmp(from->name, f.prefix, strlen(f.prefix)))
            continue;
        *to = (struct wr_st_tensor){.dtype = from->dtype, .ndims = from->ndims, .count = from->count, .data = from};
        if (as && wr_ckpt_converts(from->dtype->type, as->type))
            to->dtype = as;
        memcpy(to->shape, from->shape, sizeof to->shape);
        to->name = rename_tensor(from->name, &f);
        if (!to->name)
            return wr_error_memory(err, strlen(from->name), "a name");
        crossing->n++;
        if (!*to->name || strlen(to->name) > WEIR_CKPT_NAME_MAX || !strcmp(to->name, "__metadata__"))
            return wr_error_set(err, WEIR_ERR_INVALID, "replace the prefix by another text",
                                "tensor '%s' gets a name that cannot be", wr_ckpt_brief(from->name, brief));
    }
    if (!crossing->n && source->index.ntensors)
        return wr_error_set(err, WEIR_ERR_INVALID, "'weir-ckpt list --tensors' shows their names",
                            "no tensor's name begins with '%s'", f.prefix);
    return WEIR_OK;
}

static weir_status copy_tensor(weir_ckpt_source *source, const struct wr_st_tensor *piece, struct wr_st_writer *writer,
                               void *buffer, weir_error *err)
{
    weir_status status = WEIR_OK;
    uint64_t most = WR_CKPT_CHUNK / piece->dtype->bytes;
    for (uint64_t first = 0, n; status == WEIR_OK && first < piece->count; first += n) {
        n = piece->count - first < most ? piece->count - first : most;
        status = wr_ckpt_source_get(source, piece->data, first, n, piece->dtype, buffer, err);
        if (status == WEIR_OK)
            status = wr_st_put(writer, buffer, n * piece->dtype->bytes, err);
    }
    return status;
}

/* Writes the file, up to its name; the folder is not synced. */
static weir_status write_file(weir_ckpt_source *source, struct crossing *crossing, const char *path, bool sums,
                              weir_error *err)
{
    struct wr_st_writer *writer;
    char *buffer = malloc(WR_CKPT_CHUNK);
    if (!buffer)
        return wr_error_memory(err, WR_CKPT_CHUNK, "a buffer");
    weir_status status = wr_st_create(&wr_ckpt_fs_posix, path, crossing->pieces, crossing->n, sums, &writer, err);
    if (status == WEIR_OK) {
        for (size_t i = 0; status == WEIR_OK && i < crossing->n; i++)
            status = copy_tensor(source, &crossing->pieces[i], writer, buffer, err);
        if (status == WEIR_OK)
            status = wr_st_finish(writer, NULL, NULL, err);
        else
            wr_st_abandon(writer);
    }
    free(buffer);
    return status;
}

weir_status weir_ckpt_export(weir_ckpt_source *source, const char *file, const weir_ckpt_filter *filter,
                             weir_error *error)
{
    struct crossing crossing = {0};
    char folder[WR_CKPT_PATH];
    if (!source || !file || !*file || strlen(file) >= sizeof folder - 8)
        return wr_error_set(error, WEIR_ERR_INVALID, NULL, "no source, or a path of no or too many bytes");
    const char *slash = strrchr(file, '/');
    memcpy(folder, file, strlen(file) + 1);
    folder[!slash ? 0 : slash == file ? 1 : slash - file] = '\0';
    weir_status status = choose(source, filter, &crossing, error);
    if (status == WEIR_OK)
        status = write_file(source, &crossing, file, false, error);
    if (status == WEIR_OK)
        status = wr_ckpt_sync_folder(&wr_ckpt_fs_posix, *folder ? folder : ".", error);
    crossing_free(&crossing);
    return status;
}

/* The index of a checkpoint of one shard, from the shard itself. */
static weir_status index_shard(const weir_ckpt_source *source, const char *path, uint64_t step,
                               struct wr_ckpt_index *index, weir_error *err)
{
    struct wr_st_file *file;
    weir_status status = wr_st_open(path, &file, err);
    if (status != WEIR_OK)
        return status;
    index->step = step;
    index->ranks = 1;
    index->saved = wr_clock_wall_ns() / 1000000000;
    index->entries = json_incref(source->index.entries);
    index->shards = calloc(1, sizeof *index->shards);
    status = index->shards ? wr_ckpt_index_add_file(index, 0, file, err)
                           : wr_error_memory(err, sizeof *index->shards, "an index");
    if (status == WEIR_OK) {
        index->nshards = 1;
        wr_ckpt_shard_name(0, 1, index->shards[0].file);
        index->shards[0].bytes = file->size;
        index->shards[0].header_sum = file->header_sum;
        wr_ckpt_index_sort(index);
    }
    wr_st_close(file);
    return status;
}

/* Fills the folder of a new checkpoint and commits it. */
static weir_status fill(weir_ckpt_source *source, struct crossing *crossing, const char *folder, const char *name,
                        uint64_t step, weir_error *err)
{
    struct wr_ckpt_index index = {0};
    char path[WR_CKPT_PATH], shard[WR_CKPT_PATH], file[WR_CKPT_FILE_NAME];
    wr_ckpt_shard_name(0, 1, file);
    weir_status status = wr_ckpt_path(path, folder, name, err);
    if (status == WEIR_OK)
        status = wr_ckpt_path(shard, path, file, err);
    if (status == WEIR_OK)
        status = write_file(source, crossing, shard, true, err);
    if (status == WEIR_OK)
        status = wr_ckpt_sync_folder(&wr_ckpt_fs_posix, path, err);
    if (status == WEIR_OK)
        status = index_shard(source, shard, step, &index, err);
    if (status == WEIR_OK)
        status = wr_ckpt_commit(&wr_ckpt_fs_posix, path, &index, err);
    wr_ckpt_index_free(&index);
    return status;
}

weir_status weir_ckpt_import(weir_ckpt_source *source, const char *folder, uint64_t step,
                             const weir_ckpt_filter *filter, weir_error *error)
{
    struct crossing crossing = {0};
    char name[64];
    if (!source || !folder || !*folder || step > INT64_MAX)
        return wr_error_set(error, WEIR_ERR_INVALID, NULL, "no source, no folder, or a step that cannot be");
    weir_status status = choose(source, filter, &crossing, error);
    if (status == WEIR_OK)
        status = wr_ckpt_make_folder(&wr_ckpt_fs_posix, folder, error);
    if (status == WEIR_OK)
        status = wr_ckpt_begin(&wr_ckpt_fs_posix, folder, step, name, error);
    if (status == WEIR_OK) {
        status = fill(source, &crossing, folder, name, step, error);
        if (status != WEIR_OK)
            wr_ckpt_discard(&wr_ckpt_fs_posix, folder, name);
    }
    crossing_free(&crossing);
    return status;
}
