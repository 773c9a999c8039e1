/* SPDX-License-Identifier: BSD-3-Clause */
/* What weir-ckpt says: as text and as JSON. */
#include "tools/weir-ckpt.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jansson.h>

#include "base/str.h"
#include "tools/table.h"

static bool put_json(json_t *value, FILE *out)
{
    bool ok = value && !json_dumpf(value, out, JSON_INDENT(2) | JSON_PRESERVE_ORDER) && fputc('\n', out) != EOF;
    json_decref(value);
    return ok;
}

static const char *when(int64_t seconds, char *buf, size_t size)
{
    time_t t = (time_t)seconds;
    struct tm tm;
    if (!seconds || !localtime_r(&t, &tm) || !strftime(buf, size, "%Y-%m-%dT%H:%M:%S", &tm))
        wr_str_copy(buf, size, "-");
    return buf;
}

static json_t *info_json(const weir_ckpt_info *info)
{
    return json_pack("{s:s, s:I, s:I, s:b, s:I, s:I, s:I, s:I, s:I}", "name", info->name, "number",
                     (json_int_t)info->number, "step", (json_int_t)info->step, "complete", (int)info->complete, "saved",
                     (json_int_t)info->saved, "ranks", (json_int_t)info->ranks, "shards", (json_int_t)info->shards,
                     "tensors", (json_int_t)info->tensors, "bytes", (json_int_t)info->bytes);
}

bool ckpt_print_list(const struct ckpt_options *o, const weir_ckpt_info *infos, size_t n, FILE *out)
{
    struct table table;
    char text[64];
    if (o->json) {
        json_t *list = json_array();
        for (size_t i = 0; i < n; i++)
            json_array_append_new(list, info_json(&infos[i]));
        return put_json(json_pack("{s:s, s:o}", "folder", o->path, "checkpoints", list), out);
    }
    table_init(&table, "<checkpoint step <saved ranks shards tensors size <state");
    for (size_t i = 0; i < n; i++) {
        table_cell(&table, "%s", infos[i].name);
        table_cell(&table, "%llu", (unsigned long long)infos[i].step);
        table_cell(&table, "%s", when(infos[i].saved, text, sizeof text));
        table_cell(&table, "%llu", (unsigned long long)infos[i].ranks);
        table_cell(&table, "%llu", (unsigned long long)infos[i].shards);
        table_cell(&table, "%llu", (unsigned long long)infos[i].tensors);
        table_cell(&table, "%s", wr_format_bytes(infos[i].bytes, text, sizeof text));
        table_cell(&table, "%s", infos[i].complete ? "committed" : "not usable");
    }
    bool ok = table_print(&table, 0, out);
    table_free(&table);
    return ok;
}

static json_t *tensors_json(const weir_ckpt_source *source)
{
    json_t *list = json_object();
    weir_ckpt_tensor tensor = WEIR_CKPT_TENSOR_INIT;
    for (uint64_t i = 0; weir_ckpt_source_tensor(source, i, &tensor) == WEIR_OK; i++) {
        json_t *shape = json_array();
        for (uint64_t d = 0; d < tensor.ndims; d++)
            json_array_append_new(shape, json_integer((json_int_t)tensor.shape[d]));
        json_object_set_new(list, tensor.name,
                            json_pack("{s:s, s:o, s:I}", "dtype", tensor.dtype, "shape", shape, "elements",
                                      (json_int_t)tensor.count));
    }
    return list;
}

static json_t *entries_json(const weir_ckpt_source *source)
{
    json_t *list = json_object();
    weir_ckpt_entry entry = WEIR_CKPT_ENTRY_INIT;
    const char *key;
    for (uint64_t i = 0; (key = weir_ckpt_source_key(source, i)); i++) {
        weir_ckpt_source_entry(source, key, &entry);
        json_object_set_new(list, key,
                            entry.json ? json_loads(entry.json, JSON_DECODE_ANY, NULL)
                                       : json_pack("{s:I}", "bytes", (json_int_t)entry.nbytes));
    }
    return list;
}

static bool print_tensors(const weir_ckpt_source *source, FILE *out)
{
    struct table table;
    weir_ckpt_tensor tensor = WEIR_CKPT_TENSOR_INIT;
    table_init(&table, "<tensor <type <shape elements");
    for (uint64_t i = 0; weir_ckpt_source_tensor(source, i, &tensor) == WEIR_OK; i++) {
        struct wr_buf shape = {0};
        for (uint64_t d = 0; d < tensor.ndims; d++)
            wr_buf_printf(&shape, "%s%llu", d ? "x" : "", (unsigned long long)tensor.shape[d]);
        table_cell(&table, "%s", tensor.name);
        table_cell(&table, "%s", tensor.dtype);
        table_cell(&table, "%s", shape.data && *shape.data ? shape.data : "-");
        table_cell(&table, "%llu", (unsigned long long)tensor.count);
        wr_buf_free(&shape);
    }
    bool ok = table_print(&table, 0, out);
    table_free(&table);
    return ok;
}

bool ckpt_print_source(const struct ckpt_options *o, const weir_ckpt_source *source, FILE *out)
{
    weir_ckpt_info info = {.size = sizeof info};
    weir_ckpt_entry entry = WEIR_CKPT_ENTRY_INIT;
    const char *key;
    char text[64];
    weir_ckpt_source_info(source, &info);
    if (o->json) {
        json_t *value = info_json(&info);
        json_object_del(value, "tensors");
        json_object_set_new(value, "tensors", tensors_json(source));
        json_object_set_new(value, "entries", entries_json(source));
        return put_json(value, out);
    }
    fprintf(out, "%s: step %llu, saved %s, %llu tensor%s in %llu file%s, %s\n", info.name,
            (unsigned long long)info.step, when(info.saved, text, sizeof text), (unsigned long long)info.tensors,
            info.tensors == 1 ? "" : "s", (unsigned long long)info.shards, info.shards == 1 ? "" : "s",
            wr_format_bytes(info.bytes, text + 32, sizeof text - 32));
    for (uint64_t i = 0; (key = weir_ckpt_source_key(source, i)); i++) {
        weir_ckpt_source_entry(source, key, &entry);
        if (entry.json)
            fprintf(out, "entry %s: %.200s%s\n", key, entry.json, strlen(entry.json) > 200 ? "..." : "");
        else
            fprintf(out, "entry %s: %llu bytes\n", key, (unsigned long long)entry.nbytes);
    }
    return print_tensors(source, out);
}

bool ckpt_print_done(const struct ckpt_options *o, const weir_ckpt_source *source, uint64_t checked, FILE *out)
{
    weir_ckpt_info info = {.size = sizeof info};
    char text[64];
    bool verify = !strcmp(o->command, "verify");
    weir_ckpt_source_info(source, &info);
    if (o->json) {
        json_t *value = info_json(&info);
        if (verify)
            json_object_set_new(value, "checked", json_integer((json_int_t)checked));
        else
            json_object_set_new(value, "written", json_string(o->target));
        return put_json(value, out);
    }
    if (verify && !checked && info.bytes && !info.number)
        return fprintf(out, "%s: the layout is right; it has no checksums\n", info.name) > 0;
    if (verify)
        return fprintf(out, "%s: step %llu is whole, %s of data verified\n", info.name, (unsigned long long)info.step,
                       wr_format_bytes(checked, text, sizeof text)) > 0;
    return fprintf(out, "%s: written to %s\n", info.name, o->target) > 0;
}

void ckpt_print_error(const weir_error *err, FILE *out)
{
    put_json(json_pack("{s:s, s:s, s:s}", "error", err->message, "advice", err->advice, "status",
                       weir_status_name(err->status)),
             out);
}
