/* SPDX-License-Identifier: BSD-3-Clause */
/* Making the lists of a schedule; names. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "optim/pipe.h"

struct weir_pipe {
    weir_pipe_lists lists;
    const weir_pipe_instr **instrs;
    int64_t *lengths, *activations;
};

static const struct wr_pipe_builder *const builders[] = {
    [WEIR_PIPE_GPIPE] = &wr_pipe_gpipe,           [WEIR_PIPE_1F1B] = &wr_pipe_1f1b,
    [WEIR_PIPE_INTERLEAVED] = &wr_pipe_interleaved, [WEIR_PIPE_LOOPED_BFS] = &wr_pipe_looped_bfs,
    [WEIR_PIPE_ZB_H1] = &wr_pipe_zb_h1,           [WEIR_PIPE_ZB_H2] = &wr_pipe_zb_h2,
    [WEIR_PIPE_ZB_V] = &wr_pipe_zb_v,
};

/* ---- names ---- */

static const struct wr_pipe_builder *builder_of(int64_t schedule)
{
    return schedule >= 0 && schedule < (int64_t)WR_ARRAY_SIZE(builders) ? builders[schedule] : NULL;
}

const char *weir_pipe_schedule_name(int64_t schedule)
{
    return builder_of(schedule) ? builder_of(schedule)->name : NULL;
}

const char *weir_pipe_schedule_text(int64_t schedule)
{
    return builder_of(schedule) ? builder_of(schedule)->text : NULL;
}

weir_status weir_pipe_schedule_find(const char *name, int64_t *schedule, weir_error *error)
{
    char names[160] = "it is one of";
    for (size_t i = 0; i < WR_ARRAY_SIZE(builders); i++) {
        if (name && !strcmp(name, builders[i]->name)) {
            *schedule = (int64_t)i;
            return WEIR_OK;
        }
        wr_str_append(names, sizeof names, i ? ", " : " ");
        wr_str_append(names, sizeof names, builders[i]->name);
    }
    return wr_error_set(error, WEIR_ERR_NOT_FOUND, names, "there is no schedule '%s'", name ? name : "");
}

static const char *const op_names[] = {
    [WEIR_PIPE_OP_F] = "F", [WEIR_PIPE_OP_I] = "I", [WEIR_PIPE_OP_W] = "W", [WEIR_PIPE_OP_B] = "B",
    [WEIR_PIPE_OP_SEND_ACT] = "SEND_ACT", [WEIR_PIPE_OP_RECV_ACT] = "RECV_ACT", [WEIR_PIPE_OP_SEND_GRAD] = "SEND_GRAD",
    [WEIR_PIPE_OP_RECV_GRAD] = "RECV_GRAD", [WEIR_PIPE_OP_UNSHARD] = "UNSHARD", [WEIR_PIPE_OP_RESHARD] = "RESHARD",
    [WEIR_PIPE_OP_REDUCE_GRAD] = "REDUCE_GRAD",
};

const char *weir_pipe_op_name(int64_t op)
{
    return op >= 0 && op < (int64_t)WR_ARRAY_SIZE(op_names) ? op_names[op] : NULL;
}

const char *weir_pipe_instr_text(const weir_pipe_instr *instr, char *buf, size_t size)
{
    const char *name = weir_pipe_op_name(instr->op);
    char micro[40] = "", peer[40] = "";
    if (!name)
        snprintf(buf, size, "instruction %d", instr->op);
    else {
        if (instr->op < WEIR_PIPE_OP_UNSHARD)
            snprintf(micro, sizeof micro, "micro-batch %d, ", instr->micro);
        if (wr_pipe_is_send(instr->op) || wr_pipe_is_recv(instr->op))
            snprintf(peer, sizeof peer, ", %s stage %d", wr_pipe_is_send(instr->op) ? "to" : "from", instr->peer);
        snprintf(buf, size, "%s of %schunk %d%s", name, micro, instr->chunk, peer);
    }
    return buf;
}

const char *wr_pipe_where(const weir_pipe_lists *lists, int stage, int64_t index, char *buf, size_t size)
{
    char text[96];
    snprintf(buf, size, "stage %d, instruction %lld (%s): ", stage, (long long)index,
             weir_pipe_instr_text(&lists->instrs[stage][index], text, sizeof text));
    return buf;
}

/* ---- making ---- */

/* The caller's options over the defaults, checked. */
static weir_status read_options(const weir_pipe_options *given, weir_pipe_options *o, weir_error *err)
{
    *o = (weir_pipe_options)WEIR_PIPE_OPTIONS_INIT;
    if (!given || given->size < sizeof given->size)
        return wr_error_set(err, WEIR_ERR_INVALID, "start from WEIR_PIPE_OPTIONS_INIT", "there are no options");
    memcpy(o, given, WR_MIN(given->size, sizeof *o));
    const struct wr_pipe_builder *b = builder_of(o->schedule);
    if (!b)
        return wr_error_set(err, WEIR_ERR_INVALID, "see weir_pipe_schedule", "there is no schedule %lld", (long long)o->schedule);
    o->chunks = o->chunks ? o->chunks : b->chunks;
    if (o->stages < 1 || o->stages > WR_PIPE_STAGES_MAX)
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "%lld stages are not between 1 and %d", (long long)o->stages, WR_PIPE_STAGES_MAX);
    if (o->microbatches < 1 || o->microbatches > WR_PIPE_MICROS_MAX)
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "%lld micro-batches are not between 1 and %d", (long long)o->microbatches,
                            WR_PIPE_MICROS_MAX);
    if (o->chunks < 1 || o->chunks > WR_PIPE_CHUNKS_MAX)
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "%lld chunks a stage are not between 1 and %d", (long long)o->chunks,
                            WR_PIPE_CHUNKS_MAX);
    if (b->chunks_only && o->chunks != b->chunks)
        return wr_error_set(err, WEIR_ERR_INVALID, "interleaved and looped-bfs take any number of chunks",
                            "%s has %d chunk%s a stage, not %lld", b->name, b->chunks, b->chunks == 1 ? "" : "s", (long long)o->chunks);
    if (o->stages * o->chunks * o->microbatches > WR_PIPE_TOTAL_MAX)
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "%lld stages of %lld chunks with %lld micro-batches are more than %d in all",
                            (long long)o->stages, (long long)o->chunks, (long long)o->microbatches, WR_PIPE_TOTAL_MAX);
    if (o->zero < 0 || o->zero > 3)
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "there is no ZeRO stage %lld, but 0 to 3", (long long)o->zero);
    if (o->max_activations < 0 || o->max_unsharded < 0 || o->buffers < 0)
        return wr_error_set(err, WEIR_ERR_INVALID, "0 leaves the choice to the schedule",
                            "max_activations %lld, max_unsharded %lld or buffers %lld is below 0", (long long)o->max_activations,
                            (long long)o->max_unsharded, (long long)o->buffers);
    return WEIR_OK;
}

static weir_status check_limit(const struct wr_pipe_builder *b, const struct wr_pipe_shape *shape, weir_error *err)
{
    for (int s = 0; s < shape->stages; s++)
        if (shape->limit && b->peak(shape, s) > shape->limit)
            return wr_error_set(err, WEIR_ERR_LIMIT, "raise the limit, or choose fewer micro-batches or a schedule that holds less (1f1b)",
                                "%s holds up to %lld activations of micro-batch chunks on stage %d, and %lld are the limit", b->name,
                                (long long)b->peak(shape, s), s, (long long)shape->limit);
    return WEIR_OK;
}

/* Writes the list of one stage. */
static weir_status make_stage(weir_pipe *pipe, const struct wr_pipe_builder *b, const struct wr_pipe_shape *shape, int stage,
                              struct wr_pipe_order *order, weir_error *err)
{
    struct wr_pipe_gathers gathers = {0};
    struct wr_pipe_list list = {0};
    order->n = 0;
    b->build(shape, stage, order);
    wr_pipe_shard(order, shape->chunks, (int)pipe->lists.zero, (int)pipe->lists.max_unsharded, &gathers);
    wr_pipe_lower(shape, b->placement, stage, order, &gathers, &list);
    free(gathers.gather);
    pipe->instrs[stage] = list.instr;
    pipe->lengths[stage] = (int64_t)list.n;
    pipe->activations[stage] = b->peak(shape, stage);
    return gathers.failed || list.failed ? wr_error_memory(err, list.cap * sizeof *list.instr, "the list of a stage") : WEIR_OK;
}

static weir_status make_lists(weir_pipe *pipe, const struct wr_pipe_builder *b, const struct wr_pipe_shape *shape, weir_error *err)
{
    size_t steps = 3 * (size_t)shape->micros * (size_t)shape->chunks;
    struct wr_pipe_order order = {.step = calloc(steps, sizeof *order.step)};
    weir_status status = order.step ? WEIR_OK : wr_error_memory(err, steps * sizeof *order.step, "the order of a stage");
    for (int s = 0; status == WEIR_OK && s < shape->stages; s++)
        status = make_stage(pipe, b, shape, s, &order, err);
    free(order.step);
    return status;
}

static weir_pipe *allocate(const weir_pipe_options *o, const struct wr_pipe_builder *b)
{
    size_t n = (size_t)o->stages;
    weir_pipe *pipe = calloc(1, sizeof *pipe);
    if (!pipe)
        return NULL;
    pipe->instrs = calloc(n, sizeof *pipe->instrs);
    pipe->lengths = calloc(n, sizeof *pipe->lengths);
    pipe->activations = calloc(n, sizeof *pipe->activations);
    pipe->lists = (weir_pipe_lists){.size = sizeof pipe->lists, .stages = o->stages, .microbatches = o->microbatches,
                                    .chunks = o->chunks, .placement = b->placement, .zero = o->zero, .buffers = o->buffers,
                                    .instrs = pipe->instrs, .lengths = pipe->lengths, .activations = pipe->activations};
    if (o->zero == 3)
        pipe->lists.max_unsharded = o->max_unsharded ? o->max_unsharded : WR_MIN(2, o->chunks);
    if (!pipe->instrs || !pipe->lengths || !pipe->activations) {
        weir_pipe_destroy(pipe);
        return NULL;
    }
    return pipe;
}

weir_status weir_pipe_create(const weir_pipe_options *options, weir_pipe **pipe, weir_error *error)
{
    weir_pipe_options o;
    weir_status status = read_options(options, &o, error);
    if (status != WEIR_OK)
        return status;
    const struct wr_pipe_builder *b = builder_of(o.schedule);
    struct wr_pipe_shape shape = {.stages = (int)o.stages, .micros = (int)o.microbatches, .chunks = (int)o.chunks,
                                  .limit = o.max_activations};
    status = check_limit(b, &shape, error);
    if (status != WEIR_OK)
        return status;
    weir_pipe *p = allocate(&o, b);
    if (!p)
        return wr_error_memory(error, sizeof *p, "a pipeline schedule");
    status = make_lists(p, b, &shape, error);
    if (status == WEIR_OK)
        status = weir_pipe_check(&p->lists, NULL, NULL, error);
    if (status == WEIR_OK)
        *pipe = p;
    else
        weir_pipe_destroy(p);
    return status;
}

void weir_pipe_destroy(weir_pipe *pipe)
{
    if (!pipe)
        return;
    for (int64_t s = 0; pipe->instrs && s < pipe->lists.stages; s++)
        free((void *)(uintptr_t)pipe->instrs[s]);
    free(pipe->instrs);
    free(pipe->lengths);
    free(pipe->activations);
    free(pipe);
}

void weir_pipe_get_lists(const weir_pipe *pipe, weir_pipe_lists *lists)
{
    size_t size = WR_MIN(lists->size, sizeof pipe->lists);
    memcpy(lists, &pipe->lists, size);
    lists->size = size;
}
