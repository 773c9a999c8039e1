/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of an engine as the tensors of a checkpoint. Sees the engine through its public calls only. */
#include <weir/zero_ckpt.h>
#include <weir/zero_state.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "optim/ckpt.h"

#define COUNTERS_KEY "weir.zero"

/* The parts of this rank, as ranges of a checkpoint. */
struct ranges {
    size_t n, room;
    weir_ckpt_tensor *tensors;
    uint64_t (*shapes)[WEIR_ZERO_DIMS]; /* of each */
    char **names;                       /* of each */
    struct on_disk {
        weir_zero *zero;
        uint64_t part, count;
        weir_type type;
    } *disk;                            /* of each: where a part is that has no memory */
    bool any_disk;
};

static weir_status fetch(void *user, uint64_t first, uint64_t n, void *elements, weir_error *err)
{
    const struct on_disk *d = user;
    weir_status status = weir_zero_state_read(d->zero, d->part, first, n, elements);
    if (status != WEIR_OK && err)
        *err = *weir_zero_error(d->zero);
    return status;
}

static void ranges_free(struct ranges *ranges)
{
    for (size_t i = 0; i < ranges->n; i++)
        free(ranges->names[i]);
    free(ranges->tensors);
    free(ranges->shapes);
    free(ranges->names);
    free(ranges->disk);
}

static weir_status ranges_alloc(struct ranges *ranges, size_t room, weir_error *err)
{
    ranges->room = room + 1;
    ranges->tensors = calloc(ranges->room, sizeof *ranges->tensors);
    ranges->shapes = calloc(ranges->room, sizeof *ranges->shapes);
    ranges->names = calloc(ranges->room, sizeof *ranges->names);
    ranges->disk = calloc(ranges->room, sizeof *ranges->disk);
    if (ranges->tensors && ranges->shapes && ranges->names && ranges->disk)
        return WEIR_OK;
    return wr_error_memory(err, room * (sizeof *ranges->tensors + sizeof *ranges->shapes),
                           "the list of an engine's state");
}

static weir_status add_part(weir_zero *zero, struct ranges *ranges, uint64_t index, const weir_zero_part *part, weir_error *err)
{
    size_t i = ranges->n, len = strlen(part->kind) + strlen(part->name) + 2;
    weir_ckpt_tensor tensor = WEIR_CKPT_TENSOR_INIT;
    ranges->names[i] = malloc(len);
    if (!ranges->names[i])
        return wr_error_memory(err, len, "a name");
    snprintf(ranges->names[i], len, "%s/%s", part->kind, part->name);
    memcpy(ranges->shapes[i], part->shape, sizeof *ranges->shapes);
    tensor.name = ranges->names[i];
    tensor.type = part->type;
    tensor.ndims = part->ndim;
    tensor.shape = ranges->shapes[i];
    tensor.first = part->first;
    tensor.count = part->count;
    tensor.data = part->data;
    ranges->disk[i] = (struct on_disk){zero, index, part->count, (weir_type)part->type};
    if (!part->data) {
        tensor.fetch = fetch;
        tensor.user = &ranges->disk[i];
        ranges->any_disk = true;
    }
    ranges->tensors[ranges->n++] = tensor;
    return WEIR_OK;
}

enum purpose { SAVE, SAVE_STAGE, LOAD, LOAD_MODEL };

/* Whether a part is wanted: to save, when nobody else gives it; to load always, or when it is a parameter. */
static bool wanted(const weir_zero_part *part, enum purpose purpose)
{
    if (purpose == LOAD_MODEL)
        return !strcmp(part->kind, "param");
    return purpose == LOAD || (!part->replica && !(purpose == SAVE_STAGE && part->flags & WEIR_ZERO_NORM_ELSEWHERE));
}

static weir_status list_parts(weir_zero *zero, enum purpose purpose, size_t more, struct ranges *ranges,
                              weir_error *err)
{
    uint64_t n = weir_zero_state_count(zero);
    weir_zero_part part = {.size = sizeof part};
    weir_status status = ranges_alloc(ranges, n + more, err);
    for (uint64_t i = 0; status == WEIR_OK && i < n; i++) {
        status = weir_zero_state_get(zero, i, &part);
        if (status != WEIR_OK)
            return wr_error_set(err, status, NULL, "part %llu of an engine's state is not there",
                                (unsigned long long)i);
        if (wanted(&part, purpose))
            status = add_part(zero, ranges, i, &part, err);
    }
    return status;
}

/* ---- saving ---- */

static char *counters_text(const weir_zero_counters *counters)
{
    json_t *value =
        json_pack("{s:I, s:I, s:f, s:I}", "step", (json_int_t)counters->step, "skipped", (json_int_t)counters->skipped,
                  "loss_scale", counters->loss_scale, "good", (json_int_t)counters->good);
    char *text = value ? json_dumps(value, JSON_COMPACT) : NULL;
    json_decref(value);
    return text;
}

/* Puts the program's tensors and entries behind the engine's. */
static weir_status add_more(const weir_ckpt_content *more, struct ranges *ranges, weir_ckpt_entry *entries,
                            weir_error *err)
{
    for (uint64_t i = 0; more && i < more->ntensors; i++) {
        if (more->tensors[i].size != sizeof *more->tensors)
            return wr_error_set(err, WEIR_ERR_INVALID, "start from WEIR_CKPT_TENSOR_INIT",
                                "tensor %llu has a size that cannot be", (unsigned long long)i);
        ranges->tensors[ranges->n + i] = more->tensors[i];
    }
    for (uint64_t i = 0; more && i < more->nentries; i++)
        entries[1 + i] = more->entries[i];
    return WEIR_OK;
}

weir_status weir_zero_save(weir_zero *zero, weir_ckpt *ckpt, const weir_ckpt_content *more, uint64_t flags,
                           weir_error *error)
{
    struct ranges ranges = {0};
    weir_ckpt_content content = WEIR_CKPT_CONTENT_INIT;
    weir_zero_counters counters = {.size = sizeof counters};
    weir_ckpt_entry entry = WEIR_CKPT_ENTRY_INIT;
    if (!zero || !ckpt || (flags & ~(WEIR_ZERO_BACKGROUND | WEIR_ZERO_PIPELINE)) || (more && more->size != sizeof *more))
        return wr_error_set(error, WEIR_ERR_INVALID, NULL,
                            "no engine, no folder, or flags or a content that cannot be");
    uint64_t ntensors = more ? more->ntensors : 0, nentries = more ? more->nentries : 0;
    weir_ckpt_entry *entries = calloc(nentries + 1, sizeof *entries);
    weir_status flushed = weir_zero_flush(zero);
    weir_zero_state_counters(zero, &counters);
    char *text = counters_text(&counters);
    weir_status status = entries && text ? list_parts(zero, flags & WEIR_ZERO_PIPELINE ? SAVE_STAGE : SAVE, ntensors, &ranges, error)
                                         : wr_error_memory(error, 256, "entries");
    if (flushed != WEIR_OK && status == WEIR_OK) {
        status = flushed;
        if (error)
            *error = *weir_zero_error(zero);
    }
    if (status == WEIR_OK)
        status = add_more(more, &ranges, entries, error);
    if (status == WEIR_OK) {
        entry.key = COUNTERS_KEY;
        entry.json = text;
        entries[0] = entry;
        content.step = counters.step;
        content.tensors = ranges.tensors;
        content.ntensors = ranges.n + ntensors;
        content.entries = entries;
        content.nentries = nentries + 1;
    } else {
        content.size = 0; /* the others are told that this rank cannot */
    }
    weir_error failed;
    wr_error_clear(&failed);
    /* what is on disk has no second copy, so the save is complete when the call returns */
    weir_status saved = flags & WEIR_ZERO_BACKGROUND && !ranges.any_disk ? weir_ckpt_isave(ckpt, &content, &failed)
                                                     : weir_ckpt_save(ckpt, &content, &failed);
    if (status == WEIR_OK && saved != WEIR_OK && error)
        *error = failed;
    ranges_free(&ranges);
    free(entries);
    free(text);
    return status == WEIR_OK ? saved : status;
}

/* ---- loading ---- */

static weir_status read_counters(const weir_ckpt_source *source, weir_zero_counters *counters, weir_error *err)
{
    weir_ckpt_entry entry = WEIR_CKPT_ENTRY_INIT;
    json_int_t step = -1, skipped = -1, good = -1;
    json_t *value = NULL;
    if (weir_ckpt_source_entry(source, COUNTERS_KEY, &entry) == WEIR_OK && entry.json)
        value = json_loads(entry.json, 0, NULL);
    bool ok = value &&
              !json_unpack(value, "{s:I, s:I, s:F, s:I}", "step", &step, "skipped", &skipped, "loss_scale",
                           &counters->loss_scale, "good", &good) &&
              step >= 0 && skipped >= 0 && good >= 0;
    json_decref(value);
    if (!ok)
        return wr_error_set(err, WEIR_ERR_NOT_FOUND, "load the model only (WEIR_ZERO_MODEL)",
                            "the checkpoint has no counters of an engine");
    counters->step = (uint64_t)step;
    counters->skipped = (uint64_t)skipped;
    counters->good = (uint64_t)good;
    return WEIR_OK;
}

/* Whether the arrays of the checkpoint have as many elements as the engine's, which a range alone does not tell. */
static weir_status check_totals(const weir_ckpt_source *source, const struct ranges *ranges, weir_error *err)
{
    weir_ckpt_tensor there = WEIR_CKPT_TENSOR_INIT;
    char brief[96];
    for (size_t i = 0; i < ranges->n; i++) {
        uint64_t total = 1;
        for (uint64_t d = 0; d < ranges->tensors[i].ndims; d++)
            total *= ranges->tensors[i].shape[d];
        if (weir_ckpt_source_find(source, ranges->names[i], &there) == WEIR_OK && there.count != total)
            return wr_error_set(err, WEIR_ERR_INVALID, "the model must be the one that was saved",
                                "tensor '%s' has %llu elements in the checkpoint and %llu here",
                                wr_ckpt_brief(ranges->names[i], brief), (unsigned long long)there.count,
                                (unsigned long long)total);
    }
    return WEIR_OK;
}

enum { CHUNK = 1 << 18 }; /* elements that are read at once for the disk */

/* A range that is on disk. */
static weir_status read_to_disk(weir_ckpt_source *source, const struct on_disk *d, const weir_ckpt_tensor *range, weir_error *err)
{
    weir_ckpt_tensor some = *range;
    weir_status status = WEIR_OK;
    some.data = malloc(CHUNK * weir_type_size(d->type));
    if (!some.data)
        return wr_error_memory(err, CHUNK * weir_type_size(d->type), "a buffer");
    for (uint64_t at = 0; status == WEIR_OK && at < d->count; at += some.count) {
        some.first = range->first + at;
        some.count = d->count - at < CHUNK ? d->count - at : CHUNK;
        status = weir_ckpt_source_read(source, &some, 1, err);
        if (status != WEIR_OK)
            break;
        status = weir_zero_state_write(d->zero, d->part, at, some.count, some.data);
        if (status != WEIR_OK && err)
            *err = *weir_zero_error(d->zero);
    }
    free(some.data);
    return status;
}

static weir_status read_ranges(weir_ckpt_source *source, const struct ranges *ranges, weir_error *err)
{
    weir_status status = WEIR_OK;
    for (size_t i = 0; status == WEIR_OK && i < ranges->n; i++)
        status = ranges->tensors[i].data ? weir_ckpt_source_read(source, &ranges->tensors[i], 1, err)
                                         : read_to_disk(source, &ranges->disk[i], &ranges->tensors[i], err);
    return status;
}

static weir_status read_parts(weir_zero *zero, weir_ckpt_source *source, bool model, weir_zero_counters *counters,
                              weir_error *err)
{
    struct ranges ranges = {0};
    weir_status status = list_parts(zero, model ? LOAD_MODEL : LOAD, 0, &ranges, err);
    if (status == WEIR_OK && !model)
        status = read_counters(source, counters, err);
    if (status == WEIR_OK)
        status = check_totals(source, &ranges, err);
    if (status == WEIR_OK)
        status = read_ranges(source, &ranges, err);
    ranges_free(&ranges);
    return status;
}

weir_status weir_zero_load(weir_zero *zero, weir_ckpt *ckpt, uint64_t step, uint64_t flags, weir_ckpt_source **source,
                           weir_error *error)
{
    weir_ckpt_source *made;
    weir_zero_counters counters = {.size = sizeof counters};
    bool model = flags & WEIR_ZERO_MODEL;
    weir_error err;
    if (!zero || !ckpt || (flags & ~WEIR_ZERO_MODEL))
        return wr_error_set(error, WEIR_ERR_INVALID, NULL, "no engine, no folder, or flags that are not known");
    weir_status status = weir_zero_flush(zero);
    if (status != WEIR_OK) {
        if (error)
            *error = *weir_zero_error(zero);
        return status;
    }
    status = weir_ckpt_resume(ckpt, step, &made, error);
    if (status != WEIR_OK)
        return status;
    wr_error_clear(&err);
    read_parts(zero, made, model, &counters, &err);
    status = wr_ckpt_agree(wr_ckpt_ranks_of(ckpt), &err);
    if (status == WEIR_OK) {
        status = weir_zero_state_loaded(zero, model ? NULL : &counters);
        if (status != WEIR_OK)
            err = *weir_zero_error(zero);
    }
    if (status != WEIR_OK && error)
        *error = err;
    if (status != WEIR_OK || !source)
        weir_ckpt_source_close(made);
    else
        *source = made;
    return status;
}
