/* SPDX-License-Identifier: BSD-3-Clause */
/* Parameters on disk: a file of the whole model for each rank. */
#include "optim/zero_param_disk.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/error.h"
#include "optim/zero_offload.h"

uint64_t wr_zero_param_buffer(const weir_zero_options *o, const struct wr_zero_layout *l)
{
    uint64_t most = 0;
    for (uint64_t s = 0; wr_zero_params_on_disk(o) && s < l->nsections; s++)
        most = WR_MAX(most, l->sections[s].n * weir_type_size((weir_type)o->param_type));
    return (most + WR_DISK_PAGE - 1) / WR_DISK_PAGE * WR_DISK_PAGE;
}

weir_status wr_zero_param_disk_create(weir_zero *zero)
{
    struct wr_zero_param_disk *d = calloc(1, sizeof *d);
    struct wr_disk_options o = {.folder = zero->o.offload_path, .what = "parameters", .bytes = zero->l.n * zero->wsize,
                                .depth = (unsigned)WR_MIN(zero->l.nblocks, (uint64_t)1024) + WR_ZERO_STAGES};
    if (!d)
        return wr_error_memory(&zero->error, sizeof *d, "parameters on disk");
    zero->param_disk = d;
    d->buffer_bytes = wr_zero_param_buffer(&zero->o, &zero->l);
    d->reads = calloc(zero->l.nblocks, sizeof *d->reads);
    d->memory = wr_zero_map(zero, WR_ZERO_STAGES * d->buffer_bytes, "buffers of parameters");
    if (!d->reads || !d->memory)
        return wr_error_memory(&zero->error, WR_ZERO_STAGES * d->buffer_bytes, "buffers of parameters");
    weir_status status = wr_zero_choose_io(&zero->o, &o.kind, &zero->error);
    return status == WEIR_OK ? wr_disk_open(&o, &d->disk, &zero->error) : status;
}

void wr_zero_param_disk_destroy(weir_zero *zero)
{
    struct wr_zero_param_disk *d = zero->param_disk;
    if (!d)
        return;
    wr_disk_close(d->disk); /* waits for reads to where blocks are */
    if (d->memory)
        wr_zero_unmap(zero, d->memory, WR_ZERO_STAGES * d->buffer_bytes);
    free(d->reads);
    free(d);
    zero->param_disk = NULL;
}

/* A failure of the disk leaves ranks with different parameters. */
static weir_status failed(weir_zero *zero, weir_status status)
{
    zero->broken |= status != WEIR_OK;
    return status;
}

/* ---- sections ---- */

static unsigned char *buffer(const struct wr_zero_param_disk *d, uint64_t turn)
{
    return d->memory + turn % WR_ZERO_STAGES * d->buffer_bytes;
}

static uint64_t section_at(const weir_zero *zero, uint64_t section)
{
    const struct wr_zero_section *s = &zero->l.sections[section];
    return (zero->l.blocks[s->block].at + s->at) * zero->wsize;
}

/* Starts to move a section and its buffer. */
static weir_status move(weir_zero *zero, uint64_t section, bool write)
{
    struct wr_zero_param_disk *d = zero->param_disk;
    struct wr_disk_op *op = &d->writes[d->turn % WR_ZERO_STAGES];
    *op = (struct wr_disk_op){.data = buffer(d, d->turn), .bytes = zero->l.sections[section].n * zero->wsize, .at = section_at(zero, section),
                              .write = write};
    return op->bytes ? failed(zero, wr_disk_start(d->disk, op, &zero->error)) : WEIR_OK;
}

static weir_status wait_for(weir_zero *zero, uint64_t turn)
{
    struct wr_zero_param_disk *d = zero->param_disk;
    return failed(zero, wr_disk_wait(d->disk, &d->writes[turn % WR_ZERO_STAGES], &zero->error));
}

static void place(weir_zero *zero, uint64_t section, unsigned char *data)
{
    for (uint64_t i = zero->section_piece[section]; i < zero->section_piece[section + 1]; i++) {
        struct wr_zero_piece *p = &zero->pieces[i];
        p->param = p->fresh = data ? data + (p->at - zero->l.sections[section].at) * zero->wsize : NULL;
    }
}

weir_status wr_zero_param_disk_open(weir_zero *zero, uint64_t section, bool read)
{
    struct wr_zero_param_disk *d = zero->param_disk;
    if (!d)
        return WEIR_OK;
    weir_status status = wait_for(zero, d->turn);
    if (status == WEIR_OK && read && (status = move(zero, section, false)) == WEIR_OK)
        status = wait_for(zero, d->turn);
    if (status != WEIR_OK)
        return status;
    if (!read)
        memset(buffer(d, d->turn), 0, zero->l.sections[section].n * zero->wsize);
    place(zero, section, buffer(d, d->turn));
    return WEIR_OK;
}

weir_status wr_zero_param_disk_put(weir_zero *zero, uint64_t section)
{
    struct wr_zero_param_disk *d = zero->param_disk;
    const struct wr_zero_section *s = &zero->l.sections[section];
    weir_type type = (weir_type)zero->o.param_type;
    weir_status status = WEIR_OK;
    if (!d)
        return WEIR_OK;
    place(zero, section, NULL);
    if (zero->nshard > 1) {
        int64_t begin = wr_clock_ns();
        wr_zero_count_gather(zero, (s->n - wr_zero_part(s, zero->my_shard)) * zero->wsize);
        status = s->bounds ? weir_allgatherv(zero->shard, WEIR_IN_PLACE, buffer(d, d->turn), s->counts, NULL, type)
                           : weir_allgather(zero->shard, WEIR_IN_PLACE, buffer(d, d->turn), s->per, type);
        wr_zero_exposed(zero, begin);
    }
    if (status != WEIR_OK)
        return wr_zero_comm_failed(zero, status);
    status = move(zero, section, true);
    d->turn++;
    return status;
}

weir_status wr_zero_param_disk_sync(weir_zero *zero)
{
    weir_status status = WEIR_OK;
    for (uint64_t i = 0; zero->param_disk && i < WR_ZERO_STAGES; i++) {
        weir_status one = wait_for(zero, i);
        status = status == WEIR_OK ? one : status;
    }
    return status;
}

/* ---- blocks ---- */

weir_status wr_zero_param_disk_begin(weir_zero *zero, uint64_t block)
{
    struct wr_zero_param_disk *d = zero->param_disk;
    const struct wr_zero_block *b = &zero->l.blocks[block];
    d->reads[block] = (struct wr_disk_op){.data = zero->live.blocks[block].data, .bytes = b->n * zero->wsize, .at = b->at * zero->wsize};
    return failed(zero, wr_disk_start(d->disk, &d->reads[block], &zero->error));
}

weir_status wr_zero_param_disk_complete(weir_zero *zero, uint64_t block)
{
    int64_t begin = wr_clock_ns();
    weir_status status = wr_disk_wait(zero->param_disk->disk, &zero->param_disk->reads[block], &zero->error);
    wr_zero_exposed(zero, begin);
    return failed(zero, status);
}

/* ---- single elements ---- */

weir_status wr_zero_param_disk_access(const weir_zero *zero, uint64_t piece, uint64_t first, uint64_t n, unsigned char *data, bool write,
                                      weir_error *err)
{
    struct wr_zero_param_disk *d = zero->param_disk;
    const struct wr_zero_piece *p = &zero->pieces[piece];
    uint64_t at = (zero->l.blocks[zero->l.sections[p->section].block].at + p->at + first) * zero->wsize, bytes = n * zero->wsize;
    uint64_t low = at / WR_DISK_PAGE * WR_DISK_PAGE, high = (at + bytes + WR_DISK_PAGE - 1) / WR_DISK_PAGE * WR_DISK_PAGE;
    struct wr_disk_op *op = &d->writes[d->turn % WR_ZERO_STAGES];
    unsigned char *there = buffer(d, d->turn) + (at - low);
    weir_status status = wr_disk_wait(d->disk, op, err);
    for (int i = 0; status == WEIR_OK && i < 1 + write; i++) {
        *op = (struct wr_disk_op){.data = buffer(d, d->turn), .bytes = high - low, .at = low, .write = i > 0};
        status = wr_disk_start(d->disk, op, err);
        if (status == WEIR_OK)
            status = wr_disk_wait(d->disk, op, err);
        if (status == WEIR_OK && i == 0)
            memcpy(write ? there : data, write ? data : there, bytes);
    }
    return status;
}
