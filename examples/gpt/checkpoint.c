/* SPDX-License-Identifier: BSD-3-Clause */
#include "examples/gpt/checkpoint.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX "param/"
#define KEY    "weir-gpt" /* of the entry with what is not in tensors */

/* What a rank gives, or takes. */
struct list {
    weir_ckpt_tensor *tensors;
    char (*names)[128];
    uint64_t (*shapes)[WEIR_ZERO_DIMS];
    size_t n;
};

static void list_free(struct list *l)
{
    free(l->tensors);
    free(l->names);
    free(l->shapes);
}

/* Where two stages have wte, the first one saves it. */
static bool second_copy(const struct gpt_trainer *t, const weir_zero_part *part)
{
    return t->shards.tied && t->job->stage != 0 && t->shards.unit[part->unit] == 0;
}

enum purpose { SAVE, RESUME, IMPORT };

/* The tensor that a part is of. */
static void tensor_of(const struct gpt_trainer *t, const weir_zero_part *part, struct gpt_tensor *tensor)
{
    gpt_unit_tensor(&t->config, t->shards.unit[part->unit], (int)part->tensor, tensor);
}

/* Whether a rank is to give a part, or to get it. */
static bool wanted(const struct gpt_trainer *t, enum purpose purpose, const weir_zero_part *part)
{
    struct gpt_tensor tensor;
    tensor_of(t, part, &tensor);
    if (purpose == SAVE) /* of what all ranks along tp have, the first one's */
        return !part->replica && !second_copy(t, part) && (t->job->way == 0 || gpt_tensor_divided(&tensor));
    return purpose == RESUME || !strcmp(part->kind, "param");
}

/* Pieces of a part that lie one after the other in the whole array. */
static size_t pieces(const struct gpt_trainer *t, const weir_zero_part *part)
{
    struct gpt_tensor tensor;
    size_t n = 0;
    int64_t run, place;
    tensor_of(t, part, &tensor);
    for (uint64_t at = 0; at < part->count; at += (uint64_t)run, n++)
        gpt_tensor_place(&tensor, (int64_t)(part->first + at), &place, &run);
    return gpt_tensor_divided(&tensor) ? n : 1;
}

/* Adds the pieces of a part. */
static weir_status add_part(const struct gpt_trainer *t, enum purpose purpose, const weir_zero_part *part, struct list *l)
{
    struct gpt_tensor tensor;
    tensor_of(t, part, &tensor);
    bool divided = gpt_tensor_divided(&tensor);
    if (divided && part->total != (uint64_t)(tensor.rows * tensor.cols))
        return WEIR_ERR_UNSUPPORTED; /* a state that is no number for each element cannot be put together */
    for (uint64_t at = 0; at < part->count;) {
        int64_t place = (int64_t)(part->first + at), run = (int64_t)part->count;
        size_t k = l->n++;
        if (divided)
            gpt_tensor_place(&tensor, place, &place, &run);
        uint64_t n = (uint64_t)run < part->count - at ? (uint64_t)run : part->count - at;
        snprintf(l->names[k], sizeof l->names[k], "%s%s%s", purpose == IMPORT ? "" : part->kind, purpose == IMPORT ? "" : "/", part->name);
        memcpy(l->shapes[k], part->shape, sizeof l->shapes[k]);
        if (divided) {
            l->shapes[k][0] = (uint64_t)(part->ndim > 1 ? tensor.whole_rows : tensor.whole_cols);
            l->shapes[k][1] = (uint64_t)(part->ndim > 1 ? tensor.whole_cols : 0);
        }
        l->tensors[k] = (weir_ckpt_tensor)WEIR_CKPT_TENSOR_INIT;
        l->tensors[k].name = l->names[k];
        l->tensors[k].type = part->type;
        l->tensors[k].ndims = part->ndim;
        l->tensors[k].shape = l->shapes[k];
        l->tensors[k].first = (uint64_t)place;
        l->tensors[k].count = n;
        l->tensors[k].data = (char *)part->data + at * weir_type_size((weir_type)part->type);
        at += n;
    }
    return WEIR_OK;
}

/* The parts of all arrays that are here: for saving those that no other rank saves, for importing those of parameters. */
static weir_status list_parts(const struct gpt_trainer *t, enum purpose purpose, struct list *l)
{
    size_t parts = weir_zero_state_count(t->shards.zero), most = 1;
    weir_status status = WEIR_OK;
    weir_zero_part part = {.size = sizeof part};
    *l = (struct list){NULL, NULL, NULL, 0};
    for (size_t i = 0; i < parts && status == WEIR_OK; i++) {
        status = weir_zero_state_get(t->shards.zero, i, &part);
        most += status == WEIR_OK && wanted(t, purpose, &part) ? pieces(t, &part) : 0;
    }
    if (status != WEIR_OK)
        return status;
    *l = (struct list){calloc(most, sizeof *l->tensors), calloc(most, sizeof *l->names), calloc(most, sizeof *l->shapes), 0};
    if (!l->tensors || !l->names || !l->shapes)
        return WEIR_ERR_NO_MEMORY;
    for (size_t i = 0; i < parts && status == WEIR_OK; i++) {
        status = weir_zero_state_get(t->shards.zero, i, &part);
        if (status == WEIR_OK && wanted(t, purpose, &part))
            status = add_part(t, purpose, &part, l);
    }
    return status;
}

/* What is not in tensors, as text. */
static int write_state(const struct gpt_trainer *t, char *text, size_t size)
{
    const struct gpt_config *c = &t->config;
    weir_zero_counters counters = {.size = sizeof counters};
    weir_zero_state_counters(t->shards.zero, &counters);
    return snprintf(text, size, "step %" PRId64 " position %" PRId64 " seed %" PRIu64 " updates %" PRIu64 " skipped %" PRIu64
                    " scale %.17g good %" PRIu64 " layers %d width %d heads %d context %d vocabulary %d\n",
                    t->step, t->position, t->shards.seed, counters.step, counters.skipped, counters.loss_scale, counters.good,
                    c->layers, c->width, c->heads, c->context, c->vocabulary);
}

static weir_status read_state(struct gpt_trainer *t, const char *text, weir_zero_counters *k, weir_error *error)
{
    const struct gpt_config *c = &t->config;
    struct gpt_config was;
    uint64_t seed;
    int n = sscanf(text, "step %" SCNd64 " position %" SCNd64 " seed %" SCNu64 " updates %" SCNu64 " skipped %" SCNu64
                   " scale %lf good %" SCNu64 " layers %d width %d heads %d context %d vocabulary %d", &t->step, &t->position, &seed,
                   &k->step, &k->skipped, &k->loss_scale, &k->good, &was.layers, &was.width, &was.heads, &was.context, &was.vocabulary);
    if (n != 12 || was.layers != c->layers || was.width != c->width || was.heads != c->heads || was.context != c->context ||
        was.vocabulary != c->vocabulary || seed != t->shards.seed) {
        *error = (weir_error){.status = WEIR_ERR_MISMATCH, .rank = -1};
        snprintf(error->message, sizeof error->message, "the checkpoint in %s is of another model, or of another --seed: it says '%.*s'",
                 t->options->resume, (int)strcspn(text, "\n"), text);
        return WEIR_ERR_MISMATCH;
    }
    return WEIR_OK;
}

bool gpt_checkpoint_open(struct gpt_checkpoint *c, struct gpt_trainer *t)
{
    weir_error error = {.status = WEIR_OK};
    c->ckpt = NULL;
    return !t->options->save || gpt_job_check(t->job, weir_ckpt_open(t->job->all, t->options->save, NULL, &c->ckpt, &error), &error);
}

void gpt_checkpoint_close(struct gpt_checkpoint *c)
{
    if (c->ckpt)
        weir_ckpt_close(c->ckpt);
    c->ckpt = NULL;
}

bool gpt_checkpoint_save(struct gpt_checkpoint *c, struct gpt_trainer *t)
{
    weir_ckpt_content content = WEIR_CKPT_CONTENT_INIT;
    weir_ckpt_entry entry = WEIR_CKPT_ENTRY_INIT;
    weir_error error = {.status = WEIR_OK};
    struct list list;
    char text[512];
    if (!c->ckpt)
        return true;
    bool good = gpt_job_check(t->job, list_parts(t, SAVE, &list), &error);
    entry.key = KEY;
    entry.bytes = text;
    entry.nbytes = (uint64_t)write_state(t, text, sizeof text);
    content.step = (uint64_t)t->step;
    content.ntensors = list.n;
    content.tensors = list.tensors;
    content.nentries = t->job->stage == 0; /* the engines of all stages count alike */
    content.entries = &entry;
    good = good && gpt_job_check(t->job, weir_ckpt_save(c->ckpt, &content, &error), &error);
    list_free(&list);
    return good;
}

/* Where the run was, from the checkpoint's entry. */
static weir_status read_entry(struct gpt_trainer *t, const weir_ckpt_source *source, weir_zero_counters *counters, weir_error *error)
{
    weir_ckpt_entry entry = WEIR_CKPT_ENTRY_INIT;
    char text[512];
    weir_status status = weir_ckpt_source_entry(source, KEY, &entry);
    if (status != WEIR_OK)
        return status;
    snprintf(text, sizeof text, "%.*s", (int)entry.nbytes, (const char *)entry.bytes);
    return read_state(t, text, counters, error);
}

static weir_status read_arrays(struct gpt_trainer *t, enum purpose purpose, weir_zero_counters *counters, weir_error *error)
{
    weir_ckpt_source *source = NULL;
    struct list list = {NULL, NULL, NULL, 0};
    const char *path = purpose == RESUME ? t->options->resume : t->options->import;
    weir_status status = weir_ckpt_source_open(path, WEIR_CKPT_LATEST, &source, error);
    if (status == WEIR_OK && purpose == RESUME)
        status = read_entry(t, source, counters, error);
    if (status == WEIR_OK)
        status = list_parts(t, purpose, &list);
    if (status == WEIR_OK)
        status = weir_ckpt_source_read(source, list.tensors, list.n, error);
    list_free(&list);
    weir_ckpt_source_close(source);
    return status;
}

bool gpt_checkpoint_read(struct gpt_trainer *t)
{
    weir_zero_counters counters = {.size = sizeof counters};
    weir_error error = {.status = WEIR_OK};
    enum purpose purpose = t->options->resume ? RESUME : IMPORT;
    if (!t->options->resume && !t->options->import)
        return true;
    if (!gpt_job_check(t->job, read_arrays(t, purpose, &counters, &error), &error))
        return false;
    weir_status status = weir_zero_state_loaded(t->shards.zero, purpose == RESUME ? &counters : NULL);
    return gpt_job_check(t->job, status, weir_zero_error(t->shards.zero));
}

static weir_status export(const struct gpt_trainer *t, weir_error *error)
{
    weir_ckpt_filter filter = WEIR_CKPT_FILTER_INIT;
    weir_ckpt_source *source;
    filter.prefix = PREFIX;
    filter.replace = "";
    weir_status status = weir_ckpt_source_open(t->options->save, WEIR_CKPT_LATEST, &source, error);
    if (status != WEIR_OK)
        return status;
    status = weir_ckpt_export(source, t->options->export, &filter, error);
    weir_ckpt_source_close(source);
    return status;
}

bool gpt_checkpoint_export(struct gpt_trainer *t)
{
    weir_error error = {.status = WEIR_OK};
    bool mine = t->options->export && weir_comm_rank(t->job->all) == 0;
    return gpt_job_check(t->job, mine ? export(t, &error) : WEIR_OK, &error);
}
