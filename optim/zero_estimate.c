/* SPDX-License-Identifier: BSD-3-Clause */
/* What an engine would hold and move, from the layout alone. */
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/error.h"
#include "optim/quant.h"
#include "optim/zero_delay.h"
#include "optim/zero_offload.h"
#include "optim/zero_param_disk.h"

/* Bytes of the states and masters that a rank has. */
static void add_shard(const weir_zero_options *o, const struct wr_zero_layout *l, int rank, weir_zero_budget *b)
{
    for (uint64_t s = 0; s < l->nsections; s++) {
        const struct wr_zero_section *section = &l->sections[s];
        uint64_t low = section->at + wr_zero_bound(section, rank), high = section->at + wr_zero_bound(section, rank + 1);
        const struct wr_zero_block *block = &l->blocks[section->block];
        for (uint64_t u = block->unit; section->trainable && u < block->unit + block->nunits; u++)
            for (uint64_t i = 0; i < l->units[u].ntensors; i++) {
                const struct wr_zero_tensor *t = &l->units[u].tensors[i];
                uint64_t from = WR_MAX(t->at, low), to = WR_MIN(t->at + t->n, high);
                if (t->origin != t || t->frozen || from >= to)
                    continue;
                bool whole = to - from == t->n;
                b->state_bytes += weir_group_state_bytes(wr_zero_group(o, t), whole ? t->rows : 1, whole ? t->cols : to - from);
                b->master_bytes += !wr_zero_masters_apart(o) ? 0 : (to - from + 15) / 16 * 16 * sizeof(float);
            }
    }
}

/* Bytes of the parts of a section that others have, or the whole of it with rank -1, when parts travel as int8 or else as `size` bytes. */
static uint64_t wire(const weir_zero_options *o, const struct wr_zero_layout *l, const struct wr_zero_section *s, int rank, bool quantised, uint64_t size)
{
    uint64_t bytes = 0;
    for (int r = 0; r < l->ranks; r++) {
        uint64_t n = wr_zero_part(s, r);
        bytes += r == rank ? 0 : quantised ? wr_quant_bytes(n, o->quant_block) : n * size;
    }
    return bytes;
}

/* Ranks that keep a second copy among them; 0: none do. How many are on a node is not known here: as if there were one. */
static uint64_t keepers(const weir_zero_options *o)
{
    return o->secondary_group <= 1 ? 0 : o->secondary_group == WEIR_ZERO_NODE ? 1 : o->secondary_group;
}

/* What a rank gets of a section in a step with stage 3. A group of G gets what it does not own, and each rank its share of that. */
static uint64_t gathered(const weir_zero_options *o, const struct wr_zero_layout *l, const struct wr_zero_section *s, int rank, uint64_t w)
{
    bool quantised = o->flags & WEIR_ZERO_QUANTIZED_PARAMS;
    uint64_t others = wire(o, l, s, rank, quantised, w), g = keepers(o);
    if (!g || l->ranks == 1)
        return 2 * o->accumulate * others;
    uint64_t all = wire(o, l, s, -1, quantised, w);
    return (all - WR_MIN(g * (all - others), all)) / g;
}

static void add_traffic(const weir_zero_options *o, const struct wr_zero_layout *l, int rank, int replicas, weir_zero_budget *b)
{
    uint64_t w = weir_type_size((weir_type)o->param_type), d = weir_type_size((weir_type)o->reduce_type);
    uint64_t rounds = o->reduce == WEIR_ZERO_REDUCE_EVERY ? o->accumulate : 1;
    for (uint64_t s = 0; s < l->nsections; s++) {
        const struct wr_zero_section *section = &l->sections[s];
        uint64_t own = wr_zero_part(section, rank), others = section->n - own, r = (uint64_t)replicas;
        uint64_t scattered = wire(o, l, section, rank, o->flags & WEIR_ZERO_QUANTIZED_GRADS, d);
        if (section->trainable)
            b->reduce_bytes += rounds * (scattered + (o->flags & WEIR_ZERO_REPRODUCIBLE ? own * d * (r - 1) : 2 * own * d * (r - 1) / r));
        if (o->stage == 3)
            b->gather_bytes += gathered(o, l, section, rank, w);
        else if (section->trainable)
            b->gather_bytes += others * w;
    }
}

/* Reproducible: the gradients of all ranks for the largest part of a section. */
static uint64_t rows_bytes(const weir_zero_options *o, const struct wr_zero_layout *l, int replicas)
{
    uint64_t most = 0, ranks = (uint64_t)l->ranks * (uint64_t)replicas;
    for (uint64_t s = 0; s < l->nsections; s++)
        for (int r = 0; l->sections[s].trainable && r < l->ranks; r++)
            most = WR_MAX(most, wr_zero_part(&l->sections[s], r));
    return ranks == 1 ? 0 : WR_ZERO_ROWS * most * ranks * weir_type_size((weir_type)o->grad_type);
}

/* What goes to disk instead, and what that takes. */
static weir_status offload(const weir_zero_options *o, const struct wr_zero_layout *l, int rank, weir_zero_budget *b, weir_error *err)
{
    uint64_t n = wr_zero_list_pieces(l, rank, NULL, NULL);
    struct wr_zero_piece *pieces = calloc(n + 1, sizeof *pieces);
    uint64_t *section_piece = calloc(l->nsections + 1, sizeof *section_piece);
    struct wr_zero_subs subs = {0};
    weir_status status = pieces && section_piece ? WEIR_OK : wr_error_memory(err, n * sizeof *pieces, "the pieces of a model");
    if (status == WEIR_OK) {
        wr_zero_list_pieces(l, rank, pieces, section_piece);
        status = wr_zero_subs_make(&subs, o, pieces, section_piece, l->nsections, err);
    }
    if (status == WEIR_OK) {
        b->state_bytes = 0;
        b->master_bytes = wr_zero_masters_on_disk(o) ? 0 : b->master_bytes;
        b->buffer_bytes += WR_MIN(o->offload_buffers, subs.nsubs) * subs.most;
        b->disk_bytes += subs.bytes;
    }
    wr_zero_subs_free(&subs);
    free(pieces);
    free(section_piece);
    return status;
}

static weir_status fill(const weir_zero_options *o, const struct wr_zero_layout *l, int replicas, weir_zero_budget *b, weir_error *err)
{
    uint64_t w = weir_type_size((weir_type)o->param_type);
    uint64_t shard = 0, most = 0;
    int largest = 0;
    for (int r = 0; r < l->ranks; r++)
        if (l->shard_n[r] > most) {
            most = l->shard_n[r];
            largest = r;
        }
    for (uint64_t s = 0; s < l->nsections; s++)
        shard += l->sections[s].trainable ? wr_zero_part(&l->sections[s], largest) : 0;
    b->parameters = l->parameters;
    b->trainable = l->trainable;
    b->param_bytes = (o->stage == 3 ? most : l->n) * w + wr_zero_codes_bytes(o, l, largest);
    if (wr_zero_params_on_disk(o)) {
        b->param_bytes = 0;
        b->buffer_bytes = WR_ZERO_STAGES * wr_zero_param_buffer(o, l);
        b->disk_bytes = l->n * w;
    }
    add_shard(o, l, largest, b);
    b->live_bytes = wr_zero_live_room(o, l) / WR_MAX(keepers(o), 1) + wr_zero_staging_room(o, l);
    b->grad_bytes = wr_zero_grad_room(o, l) + wr_zero_quant_grad_room(o, l) + (o->reduce == WEIR_ZERO_REDUCE_EVERY ? wr_zero_levels(o) * shard * sizeof(float) : 0);
    weir_status status = o->offload & WEIR_ZERO_OFFLOAD_STATES ? offload(o, l, largest, b, err) : WEIR_OK;
    b->delay_bytes = wr_zero_delay_bytes(o, shard);
    if (o->flags & WEIR_ZERO_REPRODUCIBLE)
        b->grad_bytes += rows_bytes(o, l, replicas);
    b->total_bytes = b->param_bytes + b->master_bytes + b->state_bytes + b->live_bytes + b->grad_bytes + b->buffer_bytes + b->delay_bytes;
    add_traffic(o, l, largest, replicas, b);
    return status;
}

uint64_t wr_zero_formula(const weir_zero *zero)
{
    weir_zero_budget b = {0};
    if (fill(&zero->o, &zero->l, zero->nreplica, &b, NULL) != WEIR_OK)
        return 0;
    if (!zero->live.window.shared || zero->live.window.group)
        return b.total_bytes;
    return b.total_bytes - b.live_bytes + b.live_bytes / (uint64_t)zero->live.window.nlocal;
}

weir_status weir_zero_estimate(const weir_zero_options *options, const weir_zero_unit *units, uint64_t nunits,
                               int nranks, weir_zero_budget *budget, weir_error *error)
{
    weir_zero_options o;
    weir_zero_budget b = {0};
    struct wr_zero_layout l;
    weir_status status = wr_zero_options_read(options, &o, error);
    if (status != WEIR_OK)
        return status;
    int group = o.stage == 0 ? 1 : o.shard_group ? (int)WR_MIN(o.shard_group, (uint64_t)INT32_MAX) : nranks;
    if (nranks < 1 || nranks % group)
        return wr_error_set(error, WEIR_ERR_INVALID, "choose a divisor of the number of ranks", "%d ranks cannot be divided into groups of %d",
                            nranks, group);
    status = wr_zero_options_fit(&o, group, error);
    if (status != WEIR_OK)
        return status;
    status = wr_zero_layout_make(&l, &o, units, nunits, group, error);
    if (status != WEIR_OK)
        return status;
    status = fill(&o, &l, nranks / group, &b, error);
    wr_zero_layout_free(&l);
    if (status != WEIR_OK)
        return status;
    b.size = WR_MIN(budget->size, sizeof b);
    memcpy(budget, &b, b.size);
    return WEIR_OK;
}
