/* SPDX-License-Identifier: BSD-3-Clause */
/* Masters and states on disk: buffers that sub-groups pass through, and single arrays that are looked at. */
#include "optim/zero_offload.h"

#include <weir/zero_state.h>

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/config.h"
#include "base/error.h"
#include "optim/zero_delay.h"
#include "optim/zero_param_disk.h"

enum { NONE_HELD = -1 };

/* ---- making ---- */

weir_status wr_zero_choose_io(const weir_zero_options *o, enum wr_disk_kind *kind, weir_error *err)
{
    struct wr_config config;
    *kind = (enum wr_disk_kind)o->offload_io;
    if (*kind != WR_DISK_AUTO)
        return WEIR_OK;
    weir_status status = wr_config_load(&config, NULL, NULL, err);
    if (status != WEIR_OK)
        return status;
    *kind = (enum wr_disk_kind)config.io;
    wr_config_free(&config);
    return WEIR_OK;
}

static weir_status open_file(struct wr_zero_offload *f, const weir_zero_options *o, weir_error *err)
{
    struct wr_disk_options d = {.folder = o->offload_path, .what = "optimizer states", .bytes = f->subs.bytes,
                                .depth = (unsigned)f->nbuffers, .memory = f->memory, .memory_bytes = f->nbuffers * f->buffer_bytes};
    weir_status status = wr_zero_choose_io(o, &d.kind, err);
    return status == WEIR_OK ? wr_disk_open(&d, &f->disk, err) : status;
}

weir_status wr_zero_offload_create(weir_zero *zero)
{
    struct wr_zero_offload *f = calloc(1, sizeof *f);
    if (!f)
        return wr_error_memory(&zero->error, sizeof *f, "the offload of a ZeRO engine");
    zero->offload = f;
    f->masters = wr_zero_masters_on_disk(&zero->o);
    f->held = (uint64_t)NONE_HELD;
    weir_status status = wr_zero_subs_make(&f->subs, &zero->o, zero->pieces, zero->section_piece, zero->l.nsections, &zero->error);
    if (status != WEIR_OK || !f->subs.nsubs)
        return status;
    f->nbuffers = WR_MIN(zero->o.offload_buffers, f->subs.nsubs);
    f->buffer_bytes = f->subs.most;
    f->order = calloc(f->subs.nsubs, sizeof *f->order);
    f->ops = calloc(f->nbuffers, sizeof *f->ops);
    if (!f->order || !f->ops)
        return wr_error_memory(&zero->error, f->subs.nsubs * sizeof *f->order, "the offload of a ZeRO engine");
    f->memory = wr_zero_map(zero, f->nbuffers * f->buffer_bytes, "buffers of an offload");
    return f->memory ? open_file(f, &zero->o, &zero->error) : WEIR_ERR_NO_MEMORY;
}

void wr_zero_offload_destroy(weir_zero *zero)
{
    struct wr_zero_offload *f = zero->offload;
    if (!f)
        return;
    wr_disk_close(f->disk);
    if (f->memory)
        wr_zero_unmap(zero, f->memory, f->nbuffers * f->buffer_bytes);
    wr_zero_subs_free(&f->subs);
    free(f->order);
    free(f->ops);
    free(f);
    zero->offload = NULL;
}

/* ---- one sub-group and one buffer ---- */

static weir_status start(struct wr_zero_offload *f, uint64_t buffer, uint64_t sub, bool write, weir_error *err)
{
    struct wr_disk_op *op = &f->ops[buffer];
    op->data = f->memory + buffer * f->buffer_bytes;
    op->bytes = f->subs.subs[sub].bytes;
    op->at = f->subs.subs[sub].at;
    op->write = write;
    f->moved += op->bytes;
    return wr_disk_start(f->disk, op, err);
}

static weir_status wait_for(struct wr_zero_offload *f, uint64_t buffer, weir_error *err)
{
    return wr_disk_wait(f->disk, &f->ops[buffer], err);
}

/* ---- a way through sub-groups ---- */

/* Reads ahead into buffers whose sub-groups have been written. */
static weir_status read_ahead(struct wr_zero_offload *f, uint64_t upto, weir_error *err)
{
    weir_status status = WEIR_OK;
    for (; f->reads && status == WEIR_OK && f->ahead < WR_MIN(upto, f->n); f->ahead++) {
        status = wait_for(f, f->ahead % f->nbuffers, err);
        if (status == WEIR_OK)
            status = start(f, f->ahead % f->nbuffers, f->order[f->ahead], false, err);
    }
    return status;
}

/* What was looked at goes back to the disk. */
static weir_status let_go(struct wr_zero_offload *f, weir_error *err)
{
    weir_status status = f->dirty ? start(f, 0, f->held, true, err) : WEIR_OK;
    if (status == WEIR_OK)
        status = wait_for(f, 0, err);
    f->held = (uint64_t)NONE_HELD;
    f->dirty = false;
    return status;
}

weir_status wr_zero_offload_begin(const weir_zero *zero, const uint64_t *sections, bool reads, bool writes, weir_error *err)
{
    struct wr_zero_offload *f = zero->offload;
    if (!f || !f->subs.nsubs)
        return WEIR_OK;
    weir_status status = let_go(f, err);
    f->n = f->at = f->ahead = 0;
    for (uint64_t i = 0; i < zero->l.nsections; i++) {
        uint64_t section = sections ? sections[i] : i;
        for (uint64_t s = f->subs.section_sub[section]; s < f->subs.section_sub[section + 1]; s++)
            f->order[f->n++] = s;
    }
    f->reads = reads;
    f->writes = writes;
    f->under_way = true;
    return status == WEIR_OK ? read_ahead(f, WR_MAX(f->nbuffers - 1, 1), err) : status;
}

/* The next sub-group is in its buffer. */
static weir_status next(struct wr_zero_offload *f, unsigned char **data, weir_error *err)
{
    uint64_t buffer = f->at % f->nbuffers;
    weir_status status = read_ahead(f, f->at + 1, err); /* with a single buffer it has not begun */
    if (status == WEIR_OK)
        status = wait_for(f, buffer, err);
    *data = f->memory + buffer * f->buffer_bytes;
    if (!f->reads)
        memset(*data, 0, f->subs.subs[f->order[f->at]].bytes);
    return status;
}

/* It is written back, and its place in the queue goes to another one. */
static weir_status done(struct wr_zero_offload *f, weir_error *err)
{
    weir_status status = f->writes ? start(f, f->at % f->nbuffers, f->order[f->at], true, err) : WEIR_OK;
    f->at++;
    if (status == WEIR_OK && f->nbuffers > 1)
        status = read_ahead(f, f->at + f->nbuffers - 1, err);
    return status;
}

weir_status wr_zero_offload_end(const weir_zero *zero, weir_error *err)
{
    struct wr_zero_offload *f = zero->offload;
    weir_status status = WEIR_OK;
    if (!f || !f->under_way)
        return WEIR_OK;
    for (uint64_t i = 0; i < f->nbuffers; i++) {
        weir_status one = wait_for(f, i, status == WEIR_OK ? err : NULL);
        status = status == WEIR_OK ? one : status;
    }
    f->under_way = false;
    return status;
}

/* ---- visiting ---- */

static void *after(void *memory, uint64_t bytes)
{
    return memory ? (unsigned char *)memory + bytes : NULL;
}

/* A view as a piece, whose arrays are in a buffer. */
static struct wr_zero_piece as_piece(const weir_zero *zero, const struct wr_zero_view *v, unsigned char *data)
{
    const struct wr_zero_piece *of = &zero->pieces[v->piece];
    struct wr_zero_piece p = {.tensor = of->tensor, .section = of->section, .first = of->first + v->first, .at = of->at + v->first, .n = v->n};
    p.param = after(of->param, v->first * zero->wsize);
    p.fresh = after(of->fresh, v->first * zero->wsize);
    p.master = zero->offload->masters ? (float *)(void *)(data + v->at[0]) : after(of->master, v->first * sizeof(float));
    for (unsigned k = 0; k < WEIR_RULE_STATES_MAX; k++)
        p.states[k] = v->bytes[1 + k] ? data + v->at[1 + k] : NULL;
    return p;
}

static bool in_memory(const struct wr_zero_offload *f, uint64_t piece)
{
    return !f || f->subs.piece_view[piece] == f->subs.piece_view[piece + 1];
}

static weir_status visit_sub(const weir_zero *zero, uint64_t sub, wr_zero_visitor visit, void *arg, weir_error *err)
{
    struct wr_zero_offload *f = zero->offload;
    const struct wr_zero_sub *s = &f->subs.subs[sub];
    unsigned char *data;
    weir_status status = next(f, &data, err);
    for (uint64_t v = s->view; status == WEIR_OK && v < s->view + s->nviews; v++) {
        struct wr_zero_piece part = as_piece(zero, &f->subs.views[v], data);
        status = visit(arg, &part, f->subs.views[v].piece, f->subs.views[v].first);
    }
    return status == WEIR_OK ? done(f, err) : status;
}

weir_status wr_zero_visit_section(const weir_zero *zero, uint64_t section, wr_zero_visitor visit, void *arg, weir_error *err)
{
    const struct wr_zero_offload *f = zero->offload;
    weir_status status = WEIR_OK;
    for (uint64_t i = zero->section_piece[section]; status == WEIR_OK && i < zero->section_piece[section + 1]; i++)
        if (in_memory(f, i))
            status = visit(arg, &zero->pieces[i], i, 0);
    for (uint64_t s = f ? f->subs.section_sub[section] : 0; f && status == WEIR_OK && s < f->subs.section_sub[section + 1]; s++)
        status = visit_sub(zero, s, visit, arg, err);
    return status;
}

weir_status wr_zero_visit_all(const weir_zero *zero, bool reads, bool writes, wr_zero_visitor visit, void *arg, weir_error *err)
{
    weir_status status = wr_zero_offload_begin(zero, NULL, reads, writes, err);
    for (uint64_t s = 0; status == WEIR_OK && s < zero->l.nsections; s++)
        status = wr_zero_visit_section(zero, s, visit, arg, err);
    weir_status end = wr_zero_offload_end(zero, status == WEIR_OK ? err : NULL);
    return status == WEIR_OK ? end : status;
}

uint64_t wr_zero_offload_moved(const weir_zero *zero)
{
    uint64_t moved = zero->offload ? zero->offload->moved : 0;
    if (zero->offload)
        zero->offload->moved = 0;
    return moved;
}

/* What a step moves, and nothing else. */
static weir_status move_all(const weir_zero *zero, weir_error *err)
{
    struct wr_zero_offload *f = zero->offload;
    unsigned char *data;
    weir_status status = wr_zero_offload_begin(zero, NULL, true, true, err);
    for (uint64_t i = 0; status == WEIR_OK && i < f->subs.nsubs; i++) {
        status = next(f, &data, err);
        if (status == WEIR_OK)
            status = done(f, err);
    }
    weir_status end = wr_zero_offload_end(zero, status == WEIR_OK ? err : NULL);
    return status == WEIR_OK ? end : status;
}

weir_status weir_zero_disk_time(weir_zero *zero, int64_t *ns, uint64_t *bytes)
{
    weir_status status = zero->broken ? zero->error.status : wr_zero_delay_join(zero);
    if (status != WEIR_OK)
        return status;
    wr_zero_offload_moved(zero);
    int64_t begin = wr_clock_ns();
    if (zero->offload)
        status = move_all(zero, &zero->error);
    if (status != WEIR_OK)
        return status;
    *ns = zero->offload ? wr_clock_ns() - begin : 0;
    uint64_t moved = wr_zero_offload_moved(zero);
    if (bytes)
        *bytes = moved;
    return WEIR_OK;
}

/* ---- single arrays ---- */

void *wr_zero_array(const weir_zero *zero, uint64_t piece, int state)
{
    const struct wr_zero_piece *p = &zero->pieces[piece];
    if (state >= 0)
        return p->states[state];
    return p->tensor->frozen ? p->param : p->master;
}

/* The type of an array's entries, and how many of them a range of a piece has. */
static uint64_t entries_of(const weir_zero *zero, const struct wr_zero_piece *p, int state, size_t *size)
{
    const struct wr_zero_tensor *t = p->tensor;
    weir_rule_state s = {.size = sizeof s};
    *size = t->frozen ? zero->wsize : sizeof(float);
    if (state < 0)
        return p->n;
    const weir_rule *rule = wr_zero_group(&zero->o, t)->rule;
    weir_rule_state_info(rule, (unsigned)state, &s);
    *size = weir_type_size((weir_type)s.type);
    return wr_zero_state_entries(rule, (unsigned)state, p);
}

/* Buffer 0 holds a sub-group. */
static weir_status hold(struct wr_zero_offload *f, uint64_t sub, weir_error *err)
{
    if (f->held == sub)
        return WEIR_OK;
    weir_status status = let_go(f, err);
    if (status == WEIR_OK)
        status = start(f, 0, sub, false, err);
    if (status == WEIR_OK)
        status = wait_for(f, 0, err);
    if (status == WEIR_OK)
        f->held = sub;
    return status;
}

/* Copies a range of an array from or (`write`) to the sub-groups that have it. */
static weir_status access_disk(const weir_zero *zero, uint64_t piece, int state, uint64_t first, uint64_t n, unsigned char *data, bool write,
                               weir_error *err)
{
    struct wr_zero_offload *f = zero->offload;
    weir_status status = WEIR_OK;
    uint64_t begin = 0; /* the first entry of the view */
    for (uint64_t v = f->subs.piece_view[piece]; status == WEIR_OK && v < f->subs.piece_view[piece + 1]; v++) {
        const struct wr_zero_view *view = &f->subs.views[v];
        struct wr_zero_piece part = zero->pieces[piece];
        size_t size;
        part.n = view->n;
        uint64_t count = entries_of(zero, &part, state, &size), low = WR_MAX(begin, first), high = WR_MIN(begin + count, first + n);
        if (low < high && (status = hold(f, f->subs.view_sub[v], err)) == WEIR_OK) {
            unsigned char *there = f->memory + view->at[state + 1] + (low - begin) * size, *here = data + (low - first) * size;
            memcpy(write ? there : here, write ? here : there, (high - low) * size);
            f->dirty |= write;
        }
        begin += count;
    }
    return status;
}

/* The same of an array that is in one of the files. */
static weir_status access(const weir_zero *zero, uint64_t piece, int state, uint64_t first, uint64_t n, unsigned char *data, bool write, weir_error *err)
{
    if (zero->pieces[piece].tensor->frozen)
        return wr_zero_param_disk_access(zero, piece, first, n, data, write, err);
    return access_disk(zero, piece, state, first, n, data, write, err);
}

weir_status wr_zero_array_read(const weir_zero *zero, uint64_t piece, int state, uint64_t first, uint64_t n, void *to, weir_error *err)
{
    const unsigned char *data = wr_zero_array(zero, piece, state);
    size_t size;
    if (!data)
        return access(zero, piece, state, first, n, to, false, err);
    entries_of(zero, &zero->pieces[piece], state, &size);
    memcpy(to, data + first * size, n * size);
    return WEIR_OK;
}

weir_status wr_zero_array_write(const weir_zero *zero, uint64_t piece, int state, uint64_t first, uint64_t n, const void *from, weir_error *err)
{
    unsigned char *data = wr_zero_array(zero, piece, state);
    size_t size;
    if (!data)
        return access(zero, piece, state, first, n, (unsigned char *)from, true, err);
    entries_of(zero, &zero->pieces[piece], state, &size);
    memcpy(data + first * size, from, n * size);
    return WEIR_OK;
}
