/* SPDX-License-Identifier: BSD-3-Clause */
/* This rank's pieces of tensors: which there are, and where their parameters, masters and states are. */
#include <stdlib.h>
#include <string.h>

#include <weir/vector.h>

#include "base/compiler.h"
#include "base/error.h"
#include "optim/zero_delay.h"
#include "optim/zero_offload.h"
#include "optim/zero_param_disk.h"

/* The part of a tensor in elements low .. high - 1 of its block; false when there is none. */
static bool overlap(const struct wr_zero_tensor *t, uint64_t low, uint64_t high, struct wr_zero_piece *p)
{
    uint64_t from = WR_MAX(t->at, low), to = WR_MIN(t->at + t->n, high);
    if (from >= to)
        return false;
    p->first = from - t->at;
    p->n = to - from;
    p->at = from;
    return true;
}

uint64_t wr_zero_list_pieces(const struct wr_zero_layout *l, int rank, struct wr_zero_piece *pieces, uint64_t *section_piece)
{
    uint64_t n = 0;
    for (uint64_t s = 0; s < l->nsections; s++) {
        const struct wr_zero_section *section = &l->sections[s];
        const struct wr_zero_block *b = &l->blocks[section->block];
        uint64_t low = section->at + wr_zero_bound(section, rank);
        uint64_t high = section->at + wr_zero_bound(section, rank + 1);
        if (pieces)
            section_piece[s] = n;
        for (uint64_t u = b->unit; u < b->unit + b->nunits; u++)
            for (uint64_t i = 0; i < l->units[u].ntensors; i++) {
                struct wr_zero_piece p = {.tensor = &l->units[u].tensors[i], .section = s};
                if (p.tensor->origin != p.tensor || !overlap(p.tensor, low, high, &p))
                    continue;
                if (pieces)
                    pieces[n] = p;
                n++;
            }
    }
    if (pieces)
        section_piece[l->nsections] = n;
    return n;
}

uint64_t wr_zero_state_entries(const weir_rule *rule, unsigned state, const struct wr_zero_piece *p)
{
    weir_rule_state s = {.size = sizeof s};
    weir_rule_state_info(rule, state, &s);
    return s.span ? weir_rule_state_count(rule, state, 1, p->n) : weir_rule_state_count(rule, state, p->tensor->rows, p->tensor->cols);
}

/* ---- memory ---- */

/* Where a piece's parameters are, in elements of what params or live.shards hold. */
static uint64_t param_at(const weir_zero *zero, const struct wr_zero_piece *p)
{
    const struct wr_zero_section *s = &zero->l.sections[p->section];
    if (zero->o.stage < 3)
        return zero->l.blocks[s->block].at + p->at;
    return wr_zero_shard_at(s, zero->my_shard) + p->at - s->at - wr_zero_bound(s, zero->my_shard);
}

static weir_status place_params(weir_zero *zero)
{
    unsigned char *params = weir_mem_ptr(zero->o.stage < 3 ? zero->params : zero->live.shards);
    bool apart = wr_zero_masters_apart(&zero->o) && !wr_zero_masters_on_disk(&zero->o);
    uint64_t n = 0;
    for (uint64_t i = 0; i < zero->npieces; i++)
        n += zero->pieces[i].tensor->frozen ? 0 : (zero->pieces[i].n + 15) / 16 * 16;
    if (apart && !(zero->masters = wr_zero_alloc(zero, n * sizeof(float), "masters")))
        return WEIR_ERR_NO_MEMORY;
    n = 0;
    for (uint64_t i = 0; i < zero->npieces; i++) {
        struct wr_zero_piece *p = &zero->pieces[i];
        p->param = p->fresh = zero->param_disk ? NULL : params + param_at(zero, p) * zero->wsize;
        if (p->tensor->frozen)
            continue;
        if (!wr_zero_masters_on_disk(&zero->o))
            p->master = zero->masters ? zero->masters + n : p->param;
        n += (p->n + 15) / 16 * 16;
    }
    return WEIR_OK;
}

static weir_status place_states(weir_zero *zero)
{
    for (uint64_t i = 0; i < zero->npieces; i++) {
        struct wr_zero_piece *p = &zero->pieces[i];
        const weir_rule *rule = wr_zero_group(&zero->o, p->tensor)->rule;
        for (unsigned k = 0; !p->tensor->frozen && k < weir_rule_nstates(rule); k++) {
            weir_rule_state s = {.size = sizeof s};
            weir_rule_state_info(rule, k, &s);
            uint64_t n = wr_zero_state_entries(rule, k, p);
            if (n && !(p->states[k] = wr_zero_alloc(zero, n * weir_type_size((weir_type)s.type), "optimizer states")))
                return WEIR_ERR_NO_MEMORY;
        }
    }
    return WEIR_OK;
}

/* What weir_zero_state_get() counts: each piece and its states. */
static weir_status list_parts(weir_zero *zero)
{
    zero->parts = calloc(zero->npieces * (1 + WEIR_RULE_STATES_MAX) + 1, sizeof *zero->parts);
    if (!zero->parts)
        return wr_zero_fail(zero, WEIR_ERR_NO_MEMORY, NULL, "no memory for a list of %llu pieces", (unsigned long long)zero->npieces);
    for (uint64_t i = 0; i < zero->npieces; i++) {
        const struct wr_zero_piece *p = &zero->pieces[i];
        const weir_rule *rule = wr_zero_group(&zero->o, p->tensor)->rule;
        unsigned nstates = p->tensor->frozen ? 0 : weir_rule_nstates(rule);
        for (int k = -1; k < (int)nstates; k++)
            if (k < 0 || wr_zero_state_entries(rule, (unsigned)k, p))
                zero->parts[zero->nparts++] = (struct wr_zero_part_ref){i, k};
    }
    return WEIR_OK;
}

uint64_t wr_zero_work_bytes(const weir_zero *zero)
{
    uint64_t work = 64;
    for (uint64_t i = 0; i < zero->npieces; i++) {
        const struct wr_zero_tensor *t = zero->pieces[i].tensor;
        uint64_t need = t->frozen ? 0 : weir_rule_work_bytes(wr_zero_group(&zero->o, t)->rule, t->rows, t->cols);
        work = WR_MAX(work, need);
        work = WR_MAX(work, weir_norm_blocks(0, zero->pieces[i].n) * 4 * sizeof(double)); /* two sums, of all and of a part */
    }
    return work;
}

/* Room for the rules: sums of tensors, and work for those that see whole tensors. */
static weir_status make_room(weir_zero *zero)
{
    zero->work = wr_zero_alloc(zero, wr_zero_work_bytes(zero), "the work of update rules");
    if (wr_zero_reproducible(zero) && !(zero->norm_blocks = wr_zero_alloc(zero, 2 * zero->l.norm_blocks * sizeof(double), "sums of blocks")))
        return WEIR_ERR_NO_MEMORY;
    zero->tensor_sums = wr_zero_alloc(zero, (zero->l.ntensors + 1) * 2 * sizeof(double), "sums of tensors");
    return zero->work && zero->tensor_sums ? WEIR_OK : WEIR_ERR_NO_MEMORY;
}

weir_status wr_zero_pieces_create(weir_zero *zero)
{
    zero->npieces = wr_zero_list_pieces(&zero->l, zero->my_shard, NULL, NULL);
    zero->pieces = calloc(zero->npieces + 1, sizeof *zero->pieces);
    zero->piece_sums = calloc(zero->npieces + 1, sizeof *zero->piece_sums);
    zero->section_piece = calloc(zero->l.nsections + 1, sizeof *zero->section_piece);
    zero->order_of_update = calloc(zero->l.nsections + 1, sizeof *zero->order_of_update);
    if (!zero->pieces || !zero->piece_sums || !zero->section_piece || !zero->order_of_update)
        return wr_zero_fail(zero, WEIR_ERR_NO_MEMORY, NULL, "no memory for the pieces of a model");
    wr_zero_list_pieces(&zero->l, zero->my_shard, zero->pieces, zero->section_piece);
    weir_status status = wr_zero_params_on_disk(&zero->o) ? wr_zero_param_disk_create(zero) : WEIR_OK;
    if (status == WEIR_OK)
        status = place_params(zero);
    if (status == WEIR_OK)
        status = zero->o.offload & WEIR_ZERO_OFFLOAD_STATES ? wr_zero_offload_create(zero) : place_states(zero);
    if (status == WEIR_OK)
        status = list_parts(zero);
    if (status == WEIR_OK)
        status = make_room(zero);
    return status == WEIR_OK && zero->o.delayed ? wr_zero_delay_create(zero) : status;
}

void wr_zero_pieces_destroy(weir_zero *zero)
{
    wr_zero_delay_destroy(zero);
    wr_zero_offload_destroy(zero);
    for (uint64_t i = 0; zero->pieces && i < zero->npieces; i++)
        for (unsigned k = 0; k < WEIR_RULE_STATES_MAX; k++)
            free(zero->pieces[i].states[k]);
    free(zero->pieces);
    free(zero->piece_sums);
    free(zero->section_piece);
    free(zero->order_of_update);
    free(zero->parts);
    free(zero->masters);
    free(zero->work);
    free(zero->tensor_sums);
    free(zero->norm_blocks);
}
