/* SPDX-License-Identifier: BSD-3-Clause */
#include "examples/gpt/part.h"

#include <stdlib.h>
#include <string.h>

/* One allocation for a micro-batch: of the forward pass, or of what its backward pass defers. */
struct gpt_slot {
    int64_t micro; /* -1: free */
    real *memory;
};

static int blocks_of(const struct gpt_part *part)
{
    return part->last - part->first;
}

static int64_t padded(int64_t n)
{
    return (n + 15) / 16 * 16;
}

static int64_t row_numbers(const struct gpt_part *part, const struct gpt_pass *pass)
{
    return padded(gpt_pass_own(pass, NULL) * part->config->width);
}

static bool recomputed(const struct gpt_part *part, int block)
{
    return part->recompute && block % part->recompute == 0;
}

/* Blocks before this one, in the part, that keep all that their backward pass needs. */
static int64_t keepers(const struct gpt_part *part, int block)
{
    int64_t n = 0;
    for (int b = part->first; b < block; b++)
        n += !recomputed(part, b);
    return n;
}

/*
 * A slot of the forward pass: the inputs of all blocks and the last one's output; what the blocks keep; then what the last layers
 * keep.
 */
static int64_t slot_size(const struct gpt_part *part, const struct gpt_pass *pass)
{
    int64_t size = (1 + blocks_of(part)) * row_numbers(part, pass) + keepers(part, part->last) * gpt_block_acts_size(pass);
    return size + (part->ends ? padded(gpt_head_acts_size(pass)) : 0);
}

static real *slot_input(const struct gpt_part *part, const struct gpt_pass *pass, const struct gpt_slot *slot, int block)
{
    return slot->memory + (block - part->first) * row_numbers(part, pass);
}

static struct gpt_block_acts slot_acts(const struct gpt_part *part, const struct gpt_pass *pass, const struct gpt_slot *slot, int block)
{
    real *acts = slot_input(part, pass, slot, part->last + 1) + keepers(part, block) * gpt_block_acts_size(pass);
    return gpt_block_acts_in(pass, recomputed(part, block) ? part->again + row_numbers(part, pass) : acts);
}

static struct gpt_head_acts slot_head(const struct gpt_part *part, const struct gpt_pass *pass, const struct gpt_slot *slot)
{
    real *acts = slot_input(part, pass, slot, part->last + 1);
    return gpt_head_acts_in(pass, acts + keepers(part, part->last) * gpt_block_acts_size(pass));
}

/* Of the backward pass: the gradient of the last block's output, then those of the blocks; when nothing is deferred two blocks take
 * turns. */
static int grads_count(const struct gpt_part *part)
{
    return part->split || blocks_of(part) < 2 ? blocks_of(part) : 2;
}

static int64_t deferred_size(const struct gpt_part *part, const struct gpt_pass *pass)
{
    return row_numbers(part, pass) + grads_count(part) * gpt_block_grads_size(pass);
}

static struct gpt_block_grads slot_grads(const struct gpt_part *part, const struct gpt_pass *pass, const struct gpt_slot *slot, int block)
{
    int which = (block - part->first) % grads_count(part);
    return gpt_block_grads_in(pass, slot->memory + row_numbers(part, pass) + which * gpt_block_grads_size(pass));
}

static struct gpt_slot *make_slots(int n, int64_t size)
{
    struct gpt_slot *slots = calloc((size_t)n, sizeof *slots);
    for (int i = 0; slots && i < n; i++) {
        slots[i].micro = -1;
        slots[i].memory = aligned_alloc(64, (size_t)padded(size) * sizeof(real));
    }
    return slots;
}

static bool complete(const struct gpt_slot *slots, int n)
{
    for (int i = 0; slots && i < n; i++)
        if (!slots[i].memory)
            return false;
    return slots;
}

static void free_slots(struct gpt_slot *slots, int n)
{
    for (int i = 0; slots && i < n; i++)
        free(slots[i].memory);
    free(slots);
}

weir_status gpt_part_create(struct gpt_part *part, const struct gpt_pass *pass, int slots, int deferred)
{
    part->nslots = slots;
    part->ndeferred = part->split ? deferred : 1;
    part->slots = make_slots(part->nslots, slot_size(part, pass));
    part->deferred = make_slots(part->ndeferred, deferred_size(part, pass));
    if (part->recompute) { /* an output that nobody reads, and what one block keeps */
        part->again = aligned_alloc(64, (size_t)padded(row_numbers(part, pass) + gpt_block_acts_size(pass)) * sizeof(real));
        if (!part->again)
            return WEIR_ERR_NO_MEMORY;
    }
    return complete(part->slots, part->nslots) && complete(part->deferred, part->ndeferred) ? WEIR_OK : WEIR_ERR_NO_MEMORY;
}

void gpt_part_free(struct gpt_part *part)
{
    free_slots(part->slots, part->nslots);
    free_slots(part->deferred, part->ndeferred);
    free(part->again);
    part->slots = part->deferred = NULL;
    part->again = NULL;
}

int64_t gpt_part_bytes(const struct gpt_part *part, const struct gpt_pass *pass)
{
    int64_t again = part->again ? padded(row_numbers(part, pass) + gpt_block_acts_size(pass)) : 0;
    return (part->nslots * padded(slot_size(part, pass)) + part->ndeferred * padded(deferred_size(part, pass)) + again) * (int64_t)sizeof(real);
}

/* The slot of a micro-batch; with micro -1 a free one. */
static struct gpt_slot *find(struct gpt_slot *slots, int n, int64_t micro)
{
    for (int i = 0; i < n; i++)
        if (slots[i].micro == micro)
            return &slots[i];
    return NULL;
}

/* Whether what ranks do together in a layer went well. */
static weir_status joined(const struct gpt_micro *m)
{
    weir_status status = m->pass.attend ? m->pass.attend->status : WEIR_OK;
    return status == WEIR_OK && m->pass.join ? m->pass.join->status : status;
}

static weir_status embed(const struct gpt_part *part, const struct gpt_micro *m, real *y)
{
    const struct gpt_store *s = part->store;
    const real *const *wte, *const *wpe;
    weir_status status = s->use(s->user, 0, false, &wte, NULL);
    if (status == WEIR_OK && (status = s->use(s->user, 1, false, &wpe, NULL)) == WEIR_OK) {
        gpt_embed(&m->pass, wte[0], wpe[0], m->tokens, y);
        status = s->done(s->user, 1, false);
    }
    if (status == WEIR_OK)
        status = s->done(s->user, 0, false);
    return status == WEIR_OK ? joined(m) : status;
}

static weir_status block(const struct gpt_part *part, const struct gpt_micro *m, int layer, const real *x,
                         const struct gpt_block_acts *acts, real *y)
{
    const struct gpt_store *s = part->store;
    const real *const *w;
    weir_status status = s->use(s->user, 2 + layer, false, &w, NULL);
    if (status != WEIR_OK)
        return status;
    gpt_block(&m->pass, layer, w, x, acts, y);
    status = s->done(s->user, 2 + layer, false);
    return status == WEIR_OK ? joined(m) : status;
}

/* The last layers; the logits become their gradient where there are targets. */
static weir_status head(const struct gpt_part *part, const struct gpt_micro *m, const real *x, const struct gpt_head_acts *acts,
                        double *loss)
{
    const struct gpt_store *s = part->store;
    const real *const *norm, *const *wte;
    int last = gpt_units(part->config) - 1;
    weir_status status = s->use(s->user, last, false, &norm, NULL);
    if (status == WEIR_OK && (status = s->use(s->user, 0, false, &wte, NULL)) == WEIR_OK) {
        gpt_head(&m->pass, wte[0], norm, x, acts);
        if (m->targets)
            *loss += gpt_head_loss(&m->pass, m->targets, m->scale, acts);
        status = s->done(s->user, 0, false);
    }
    if (status == WEIR_OK)
        status = s->done(s->user, last, false);
    return status == WEIR_OK ? joined(m) : status;
}

weir_status gpt_part_forward(struct gpt_part *part, const struct gpt_micro *m, const real *input, real *output, double *loss)
{
    struct gpt_slot *slot = find(part->slots, part->nslots, -1);
    if (!slot)
        return WEIR_ERR_INTERNAL;
    slot->micro = m->number;
    if (part->begins) {
        real *y = slot_input(part, &m->pass, slot, part->first);
        weir_status status = embed(part, m, y);
        if (status != WEIR_OK)
            return status;
        input = y;
    }
    for (int b = part->first; b < part->last; b++) {
        real *y = b + 1 == part->last && !part->ends ? output : slot_input(part, &m->pass, slot, b + 1);
        struct gpt_block_acts acts = slot_acts(part, &m->pass, slot, b);
        weir_status status = block(part, m, b, input, &acts, y);
        if (status != WEIR_OK)
            return status;
        input = y;
    }
    if (!part->ends)
        return WEIR_OK;
    struct gpt_head_acts acts = slot_head(part, &m->pass, slot);
    return head(part, m, input, &acts, loss);
}

weir_status gpt_part_evaluate(struct gpt_part *part, const struct gpt_micro *m, const real *input, real *output, double *loss,
                              const real **logits)
{
    weir_status status = gpt_part_forward(part, m, input, output, loss);
    struct gpt_slot *slot = find(part->slots, part->nslots, m->number);
    if (status != WEIR_OK)
        return status;
    if (part->ends && logits)
        *logits = slot_head(part, &m->pass, slot).logits;
    slot->micro = -1;
    return WEIR_OK;
}

/* ---- backward ---- */

static weir_status head_back(const struct gpt_part *part, const struct gpt_micro *m, enum gpt_back what, const struct gpt_slot *slot,
                             real *dx)
{
    const struct gpt_store *s = part->store;
    const real *const *norm, *const *wte;
    real *const *dnorm, *const *dwte;
    int last = gpt_units(part->config) - 1;
    struct gpt_head_acts acts = slot_head(part, &m->pass, slot);
    weir_status status = s->use(s->user, last, true, &norm, &dnorm);
    if (status == WEIR_OK && (status = s->use(s->user, 0, true, &wte, &dwte)) == WEIR_OK) {
        if (what & GPT_BACK_INPUT)
            gpt_head_back_input(&m->pass, wte[0], norm, slot_input(part, &m->pass, slot, part->last), &acts, dx, dnorm);
        if (what & GPT_BACK_WEIGHT)
            gpt_head_back_weight(&m->pass, &acts, dwte[0]);
        status = s->done(s->user, 0, true);
    }
    return status == WEIR_OK ? s->done(s->user, last, true) : status;
}

static weir_status embed_back(const struct gpt_part *part, const struct gpt_micro *m, const real *dy)
{
    const struct gpt_store *s = part->store;
    const real *const *w;
    real *const *dwte, *const *dwpe;
    weir_status status = s->use(s->user, 1, true, &w, &dwpe);
    if (status == WEIR_OK && (status = s->use(s->user, 0, true, &w, &dwte)) == WEIR_OK) {
        gpt_embed_back(&m->pass, m->tokens, dy, dwte[0], dwpe[0]);
        status = s->done(s->user, 0, true);
    }
    return status == WEIR_OK ? s->done(s->user, 1, true) : status;
}

weir_status gpt_part_back(struct gpt_part *part, const struct gpt_micro *m, enum gpt_back what, const real *input,
                          const real *grad_output, real *grad_input)
{
    const struct gpt_store *s = part->store;
    struct gpt_slot *slot = find(part->slots, part->nslots, m->number);
    struct gpt_slot *kept = find(part->deferred, part->ndeferred, what & GPT_BACK_INPUT ? -1 : m->number);
    weir_status status = WEIR_OK;
    if (!slot || !kept)
        return WEIR_ERR_INTERNAL;
    kept->micro = m->number;
    const real *dy = grad_output;
    if (part->ends) {
        status = head_back(part, m, what, slot, kept->memory);
        dy = kept->memory;
    }
    for (int b = part->last - 1; b >= part->first && status == WEIR_OK; b--) {
        const real *x = b > part->first || part->begins ? slot_input(part, &m->pass, slot, b) : input;
        struct gpt_block_acts acts = slot_acts(part, &m->pass, slot, b);
        struct gpt_block_grads grads = slot_grads(part, &m->pass, kept, b);
        const real *const *w;
        real *const *dw;
        if (b == part->first && !part->begins)
            grads.dx = grad_input;
        if ((status = s->use(s->user, 2 + b, true, &w, &dw)) != WEIR_OK)
            return status;
        if (recomputed(part, b))
            gpt_block(&m->pass, b, w, x, &acts, part->again);
        if (what & GPT_BACK_INPUT)
            gpt_block_back_input(&m->pass, b, w, x, &acts, dy, &grads, dw, what & GPT_BACK_WEIGHT);
        else
            gpt_block_back_weight(&m->pass, &acts, dy, &grads, dw);
        status = s->done(s->user, 2 + b, true);
        if (status == WEIR_OK)
            status = joined(m);
        dy = grads.dx;
    }
    if (!(what & GPT_BACK_WEIGHT) || status != WEIR_OK)
        return status;
    if (part->begins)
        status = embed_back(part, m, dy);
    slot->micro = kept->micro = -1;
    return status;
}
