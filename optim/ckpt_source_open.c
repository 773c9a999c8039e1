/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening of a source: which of the things that can be read stands at a path. */
#include "optim/ckpt_source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct wr_ckpt_value *)a)->key, ((const struct wr_ckpt_value *)b)->key);
}

/* One entry of the index, as a caller gets it. */
static bool make_value(const char *key, const json_t *from, struct wr_ckpt_value *value)
{
    const char *hex = json_string_value(json_object_get(from, "hex"));
    value->key = strdup(key);
    if (!hex) {
        value->json = json_dumps(json_object_get(from, "json"), JSON_COMPACT | JSON_ENCODE_ANY);
        return value->key && value->json;
    }
    value->nbytes = strlen(hex) / 2;
    value->bytes = malloc(value->nbytes + 1);
    return value->key && value->bytes && wr_ckpt_unhex(hex, value->bytes, value->nbytes);
}

static weir_status make_values(weir_ckpt_source *source, weir_error *err)
{
    const char *key;
    json_t *from;
    char brief[96];
    source->values = calloc(json_object_size(source->index.entries) + 1, sizeof *source->values);
    if (!source->values)
        return wr_error_memory(err, 64, "the entries of a checkpoint");
    json_object_foreach(
        source->index.entries, key,
        from) if (!make_value(key, from,
                              &source->values[source->nvalues++])) return wr_error_set(err, WEIR_ERR_IO,
                                                                                       "take another checkpoint",
                                                                                       "entry '%s' cannot be read",
                                                                                       wr_ckpt_brief(key, brief));
    if (source->nvalues)
        qsort(source->values, source->nvalues, sizeof *source->values, by_key);
    return WEIR_OK;
}

/* What an index says in short. */
static void summarise(weir_ckpt_source *source)
{
    weir_ckpt_info *info = &source->info;
    info->size = sizeof *info;
    info->step = source->index.step;
    info->saved = source->index.saved;
    info->ranks = source->index.ranks;
    info->shards = source->index.nshards;
    info->tensors = source->index.ntensors;
    info->complete = 1;
    for (size_t i = 0; i < source->index.nshards; i++)
        info->bytes += source->index.shards[i].bytes ? source->index.shards[i].bytes : source->files[i]->size;
}

/* A checkpoint's own folder. */
static weir_status open_checkpoint(weir_ckpt_source *source, const char *path, weir_error *err)
{
    unsigned long long number;
    source->folder = strdup(path);
    if (!source->folder)
        return wr_error_memory(err, strlen(path), "a path");
    weir_status status = wr_ckpt_read_index(path, &source->index, err);
    if (status != WEIR_OK)
        return status;
    source->files = calloc(source->index.nshards + 1, sizeof *source->files);
    if (!source->files)
        return wr_error_memory(err, source->index.nshards * sizeof *source->files, "the files of a checkpoint");
    snprintf(source->info.name, sizeof source->info.name, "%s", last_part(path));
    source->info.number = sscanf(source->info.name, "ckpt-%llu-step-", &number) == 1 ? number : 0;
    return make_values(source, err);
}

/* Opens all files of an index from elsewhere, and takes their tensors. */
static weir_status open_files(weir_ckpt_source *source, weir_error *err)
{
    struct wr_st_file *file;
    weir_status status = WEIR_OK;
    char brief[96];
    source->files = calloc(source->index.nshards + 1, sizeof *source->files);
    if (!source->files)
        return wr_error_memory(err, source->index.nshards * sizeof *source->files, "the files of an index");
    for (size_t i = 0; status == WEIR_OK && i < source->index.nshards; i++) {
        status = wr_ckpt_source_file(source, i, &file, err);
        if (status == WEIR_OK)
            status = wr_ckpt_index_add_file(&source->index, i, file, err);
    }
    if (status != WEIR_OK)
        return status;
    wr_ckpt_index_sort(&source->index);
    for (size_t i = 1; i < source->index.ntensors; i++)
        if (!strcmp(source->index.tensors[i].name, source->index.tensors[i - 1].name))
            return wr_error_set(err, WEIR_ERR_IO, "it was not made well: leave out one of the files",
                                "two files of %s have a tensor '%s'", source->folder,
                                wr_ckpt_brief(source->index.tensors[i].name, brief));
    return WEIR_OK;
}

/* A safetensors file, or an index of such files. */
static weir_status open_foreign(weir_ckpt_source *source, const char *path, weir_error *err)
{
    size_t len = strlen(path);
    const char *name = last_part(path);
    bool index = len > 5 && !strcmp(path + len - 5, ".json");
    weir_status status = WEIR_OK;
    if (strlen(name) >= WR_CKPT_FILE_NAME)
        return wr_error_set(err, WEIR_ERR_INVALID, "rename it", "a file's name of %zu bytes is too long", strlen(name));
    source->folder =
        name == path ? strdup(".") : strndup(path, (size_t)(name - path) > 1 ? (size_t)(name - path) - 1 : 1);
    if (!source->folder)
        return wr_error_memory(err, len, "a path");
    if (index) {
        char *text, why[512];
        size_t text_len;
        status = wr_ckpt_get_file(path, WR_ST_HEADER_MAX, &text, &text_len, err);
        if (status != WEIR_OK)
            return status;
        status = wr_ckpt_weight_map_parse(text, text_len, &source->index, err);
        free(text);
        if (status != WEIR_OK && err) {
            memcpy(why, err->message, sizeof why);
            wr_error_set(err, status, "give a safetensors file, its index, or a checkpoint", "%s: %s", path, why);
        }
    } else if (!(source->index.shards = calloc(1, sizeof *source->index.shards))) {
        status = wr_error_memory(err, sizeof *source->index.shards, "an index");
    } else {
        source->index.nshards = 1;
        memcpy(source->index.shards[0].file, name, strlen(name) + 1);
    }
    if (status == WEIR_OK)
        status = open_files(source, err);
    snprintf(source->info.name, sizeof source->info.name, "%s", name);
    return status;
}

static bool is_checkpoint(const char *path)
{
    char file[WR_CKPT_PATH];
    struct stat st;
    unsigned long long number, step;
    if (sscanf(last_part(path), "ckpt-%llu-step-%llu", &number, &step) == 2)
        return true;
    return wr_ckpt_path(file, path, WR_CKPT_INDEX, NULL) == WEIR_OK && !stat(file, &st);
}

static weir_status open_any(weir_ckpt_source *source, char *path, uint64_t step, weir_error *err)
{
    struct stat st;
    struct wr_ckpt_name name;
    char chosen[WR_CKPT_PATH];
    for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--)
        path[n - 1] = '\0';
    if (stat(path, &st))
        return wr_error_errno(err, errno == ENOENT ? WEIR_ERR_NOT_FOUND : WEIR_ERR_IO, errno,
                              "see whether the path is right and can be read", "cannot find %s", path);
    bool folder = S_ISDIR(st.st_mode) && !is_checkpoint(path);
    if (!folder && step != WEIR_CKPT_LATEST)
        return wr_error_set(err, WEIR_ERR_INVALID, "give the folder of checkpoints, or no step",
                            "%s is one checkpoint or file, and a step was given", path);
    if (!folder)
        return S_ISDIR(st.st_mode) ? open_checkpoint(source, path, err) : open_foreign(source, path, err);
    weir_status status = wr_ckpt_choose(path, step, &name, err);
    if (status == WEIR_OK)
        status = wr_ckpt_path(chosen, path, name.name, err);
    return status == WEIR_OK ? open_checkpoint(source, chosen, err) : status;
}

weir_status weir_ckpt_source_open(const char *path, uint64_t step, weir_ckpt_source **source, weir_error *error)
{
    if (!path || !*path || !source)
        return wr_error_set(error, WEIR_ERR_INVALID, NULL, "no path, or no place for the source");
    char *copy = strdup(path);
    weir_ckpt_source *made = calloc(1, sizeof *made);
    weir_status status =
        copy && made ? open_any(made, copy, step, error) : wr_error_memory(error, sizeof *made, "a source");
    free(copy);
    if (status != WEIR_OK) {
        weir_ckpt_source_close(made);
        return status;
    }
    summarise(made);
    *source = made;
    return WEIR_OK;
}

void weir_ckpt_source_close(weir_ckpt_source *source)
{
    if (!source)
        return;
    for (size_t i = 0; source->files && i < source->index.nshards; i++)
        wr_st_close(source->files[i]);
    for (size_t i = 0; i < source->nvalues; i++) {
        free(source->values[i].key);
        free(source->values[i].json);
        free(source->values[i].bytes);
    }
    free(source->values);
    free(source->files);
    wr_ckpt_index_free(&source->index);
    free(source->cache.data);
    free(source->chunk);
    free(source->folder);
    free(source);
}

weir_status weir_ckpt_list(const char *folder, weir_ckpt_info *infos, size_t room, size_t *count, weir_error *error)
{
    struct wr_ckpt_name *names;
    char path[WR_CKPT_PATH];
    size_t n;
    if (!folder || !count || (room && !infos))
        return wr_error_set(error, WEIR_ERR_INVALID, NULL, "no folder, or no place for the list");
    for (size_t i = 0; i < room; i++)
        if (infos[i].size < sizeof infos[i].size || infos[i].size > sizeof infos[i])
            return wr_error_set(error, WEIR_ERR_INVALID, "set the size of each", "a list with a size that cannot be");
    weir_status status = wr_ckpt_scan(folder, &names, &n, error);
    if (status != WEIR_OK)
        return status;
    size_t skip = n > room ? n - room : 0;
    for (size_t i = skip; i < n; i++) {
        weir_ckpt_source *source = NULL;
        weir_ckpt_info *info = &infos[i - skip], full = {.number = names[i].number, .step = names[i].step};
        memcpy(full.name, names[i].name, sizeof full.name);
        if (names[i].committed && wr_ckpt_path(path, folder, names[i].name, NULL) == WEIR_OK &&
            weir_ckpt_source_open(path, WEIR_CKPT_LATEST, &source, NULL) == WEIR_OK)
            full = source->info;
        weir_ckpt_source_close(source);
        full.size = info->size;
        memcpy(info, &full, info->size);
    }
    free(names);
    *count = n;
    return WEIR_OK;
}
