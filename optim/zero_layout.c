/* SPDX-License-Identifier: BSD-3-Clause */
/* Where everything of a model is: tensors are put into blocks, blocks are divided into sections, sections among ranks. */
#include <stdlib.h>
#include <string.h>

#include <weir/vector.h>

#include "base/compiler.h"
#include "base/error.h"
#include "optim/zero_layout.h"

/* What is needed while a layout is made. */
struct maker {
    struct wr_zero_layout *l;
    const weir_zero_options *o;
    uint64_t *load;                 /* by rank: elements of whole tensors so far */
    struct wr_zero_tensor **sorted; /* room for the tensors of a block */
    uint64_t cap;                   /* sections that there is room for */
    weir_error *err;
};

static uint64_t round_up(uint64_t n, uint64_t to)
{
    return (n + to - 1) / to * to;
}

/* ---- the copy of the model ---- */

static char *join(const char *unit, const char *tensor)
{
    size_t a = strlen(unit), b = strlen(tensor);
    char *name = malloc(a + b + 2);
    if (!name)
        return NULL;
    memcpy(name, unit, a);
    name[a] = '.';
    memcpy(name + a + 1, tensor, b + 1);
    return name;
}

static weir_status refuse(struct maker *m, const char *unit, const char *tensor, const char *what)
{
    return wr_error_set(m->err, WEIR_ERR_INVALID, "begin with WEIR_ZERO_TENSOR_INIT and WEIR_ZERO_UNIT_INIT",
                        "unit %s%s%s: %s", unit, tensor ? ", tensor " : "", tensor ? tensor : "", what);
}

static weir_status fold(struct maker *m, const char *unit, struct wr_zero_tensor *t)
{
    const weir_zero_tensor *s = &t->said;
    uint64_t n = 1, cols = 1;
    if (s->ndim > WEIR_ZERO_DIMS)
        return refuse(m, unit, s->name, "it has too many dimensions");
    for (uint64_t d = 0; d < s->ndim; d++) {
        if (!s->shape[d] || __builtin_mul_overflow(n, s->shape[d], &n) || n > INT64_MAX / 16)
            return refuse(m, unit, s->name, "its shape has a zero or too many elements");
        if (d > 0)
            cols *= s->shape[d];
    }
    t->n = n;
    t->norm_at = m->l->norm_blocks;
    m->l->norm_blocks += weir_norm_blocks(0, n);
    t->rows = s->ndim > 1 ? s->shape[0] : 1;
    t->cols = s->ndim > 1 ? cols : n;
    return WEIR_OK;
}

static weir_status read_tensor(struct maker *m, const char *unit, const weir_zero_tensor *given, struct wr_zero_tensor *t)
{
    weir_zero_tensor said = WEIR_ZERO_TENSOR_INIT;
    if (!given->name)
        return refuse(m, unit, NULL, "a tensor has no name");
    memcpy(&said, given, WR_MIN(given->size, sizeof said));
    t->said = said;
    t->origin = t;
    if (said.flags & ~(WEIR_ZERO_NO_DECAY | WEIR_ZERO_FROZEN | WEIR_ZERO_NORM_ELSEWHERE))
        return refuse(m, unit, said.name, "it has a flag that does not exist");
    if (said.group >= m->o->ngroups)
        return refuse(m, unit, said.name, "its group does not exist");
    if (said.init > WEIR_ZERO_INIT_CALLBACK || (said.init == WEIR_ZERO_INIT_CALLBACK && !said.init_fn))
        return refuse(m, unit, said.name, "its way to begin does not exist");
    const weir_group *group = wr_zero_group(m->o, t);
    t->frozen = said.flags & WEIR_ZERO_FROZEN || group->flags & WEIR_GROUP_FROZEN;
    t->whole = !t->frozen && (m->o->partition == WEIR_ZERO_WHOLE_TENSOR || weir_rule_access(group->rule) == WEIR_ACCESS_MATRIX);
    if (!t->frozen)
        m->l->align = WR_MAX(m->l->align, weir_rule_granule(group->rule));
    t->name = join(unit, said.name);
    return t->name ? fold(m, unit, t) : wr_error_memory(m->err, strlen(said.name), "the name of a tensor");
}

static weir_status read_unit(struct maker *m, const weir_zero_unit *given, uint64_t index)
{
    struct wr_zero_unit *u = &m->l->units[index];
    if (!given->name || (given->ntensors && !given->tensors))
        return wr_error_set(m->err, WEIR_ERR_INVALID, "give each unit a name and its tensors", "unit %llu has no name or no tensors",
                            (unsigned long long)index);
    u->name = strdup(given->name);
    u->tensors = calloc(given->ntensors + 1, sizeof *u->tensors);
    u->blocks = calloc(given->ntensors + 1, sizeof *u->blocks);
    if (!u->name || !u->tensors || !u->blocks)
        return wr_error_memory(m->err, given->ntensors * sizeof *u->tensors, "a unit");
    weir_status status = WEIR_OK;
    for (uint64_t i = 0; status == WEIR_OK && i < given->ntensors; i++) {
        const char *at = (const char *)given->tensors + i * given->tensors[0].size;
        u->tensors[i].unit = index;
        u->tensors[i].index = i;
        u->tensors[i].number = m->l->ntensors++;
        u->ntensors++;
        status = read_tensor(m, given->name, (const weir_zero_tensor *)(const void *)at, &u->tensors[i]);
    }
    return status;
}

static weir_status tie(struct maker *m, struct wr_zero_tensor *t)
{
    const struct wr_zero_layout *l = m->l;
    uint64_t unit = (uint64_t)t->said.tied_unit, index = (uint64_t)t->said.tied_tensor;
    if (t->said.tied_unit < 0)
        return WEIR_OK;
    const char *name = l->units[t->unit].name;
    if (unit >= l->nunits || index >= l->units[unit].ntensors)
        return refuse(m, name, t->said.name, "it is tied to a tensor that does not exist");
    struct wr_zero_tensor *origin = &l->units[unit].tensors[index];
    if (origin->said.tied_unit >= 0 || origin->n != t->n)
        return refuse(m, name, t->said.name, "it is tied to a tensor that is tied itself or has another number of elements");
    t->origin = origin;
    return WEIR_OK;
}

static weir_status read_model(struct maker *m, const weir_zero_unit *units, uint64_t nunits)
{
    struct wr_zero_layout *l = m->l;
    if (!units || !nunits)
        return wr_error_set(m->err, WEIR_ERR_INVALID, "give a unit for each layer", "a model has no units");
    l->units = calloc(nunits, sizeof *l->units);
    l->blocks = calloc(nunits, sizeof *l->blocks);
    if (!l->units || !l->blocks)
        return wr_error_memory(m->err, nunits * sizeof *l->units, "the units of a model");
    l->nunits = nunits;
    weir_status status = WEIR_OK;
    for (uint64_t u = 0; status == WEIR_OK && u < nunits; u++)
        status = read_unit(m, (const weir_zero_unit *)(const void *)((const char *)units + u * units[0].size), u);
    for (uint64_t u = 0; status == WEIR_OK && u < nunits; u++)
        for (uint64_t i = 0; status == WEIR_OK && i < l->units[u].ntensors; i++)
            status = tie(m, &l->units[u].tensors[i]);
    return status;
}

/* ---- sections ---- */

static struct wr_zero_section *add_section(struct maker *m, struct wr_zero_block *b, bool trainable)
{
    struct wr_zero_layout *l = m->l;
    if (l->nsections == m->cap) {
        uint64_t cap = m->cap * 2 + 16;
        struct wr_zero_section *s = realloc(l->sections, cap * sizeof *s);
        if (!s)
            return NULL;
        l->sections = s;
        m->cap = cap;
    }
    struct wr_zero_section *s = &l->sections[l->nsections++];
    *s = (struct wr_zero_section){.block = (uint64_t)(b - l->blocks), .at = b->n, .trainable = trainable};
    b->nsections++;
    return s;
}

static void put(struct maker *m, struct wr_zero_block *b, struct wr_zero_tensor *t, uint64_t at)
{
    t->block = (uint64_t)(b - m->l->blocks);
    t->at = at;
    m->l->parameters += t->n;
    m->l->trainable += t->frozen ? 0 : t->n;
}

/* The tensors of a block that are of a kind, in order; returns how many. */
static uint64_t choose(struct maker *m, const struct wr_zero_block *b, bool frozen, bool whole)
{
    uint64_t n = 0;
    for (uint64_t u = b->unit; u < b->unit + b->nunits; u++)
        for (uint64_t i = 0; i < m->l->units[u].ntensors; i++) {
            struct wr_zero_tensor *t = &m->l->units[u].tensors[i];
            if (t->origin == t && t->frozen == frozen && t->whole == whole)
                m->sorted[n++] = t;
        }
    return n;
}

/* Flat sections of about a bucket each, over tensors one after the other. */
static weir_status add_flat(struct maker *m, struct wr_zero_block *b, bool frozen)
{
    struct wr_zero_layout *l = m->l;
    uint64_t n = choose(m, b, frozen, false), at = b->n;
    for (uint64_t i = 0; i < n; i++) {
        put(m, b, m->sorted[i], at);
        at = round_up(at + m->sorted[i]->n, l->align);
    }
    uint64_t left = at - b->n, ranks = (uint64_t)l->ranks;
    uint64_t bucket = WR_MAX(m->o->bucket_bytes / weir_type_size((weir_type)m->o->grad_type), 1);
    uint64_t pieces = (left + bucket - 1) / bucket, piece = pieces ? (left + pieces - 1) / pieces : 0;
    while (left) {
        struct wr_zero_section *s = add_section(m, b, !frozen);
        if (!s)
            return wr_error_memory(m->err, sizeof *s, "the sections of a model");
        s->per = round_up((WR_MIN(piece, left) + ranks - 1) / ranks, l->align);
        s->n = s->per * ranks;
        b->n += s->n;
        left -= WR_MIN(left, s->n);
    }
    return WEIR_OK;
}

/* The largest first; those that are equal in their order. */
static int by_size(const void *a, const void *b)
{
    const struct wr_zero_tensor *x = *(struct wr_zero_tensor *const *)a, *y = *(struct wr_zero_tensor *const *)b;
    if (x->n != y->n)
        return x->n < y->n ? 1 : -1;
    if (x->unit != y->unit)
        return x->unit < y->unit ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static int least(const struct maker *m)
{
    int best = 0;
    for (int r = 1; r < m->l->ranks; r++)
        if (m->load[r] < m->load[best])
            best = r;
    return best;
}

/* With one rank a part is the section. */
static void make_flat(struct wr_zero_section *s)
{
    s->per = s->n;
    free(s->bounds);
    free(s->counts);
    free(s->shard_at_of);
    s->bounds = s->counts = s->shard_at_of = NULL;
}

/* One section of whole tensors. While they are dealt out, t->at is the place in the part of rank t->block. */
static weir_status add_whole(struct maker *m, struct wr_zero_block *b)
{
    struct wr_zero_layout *l = m->l;
    uint64_t n = choose(m, b, false, true), at = b->n;
    if (!n)
        return WEIR_OK;
    struct wr_zero_section *s = add_section(m, b, true);
    if (!s || !(s->bounds = calloc((size_t)l->ranks + 1, sizeof *s->bounds)) ||
        !(s->counts = calloc((size_t)l->ranks, sizeof *s->counts)) || !(s->shard_at_of = calloc((size_t)l->ranks, sizeof *s->shard_at_of)))
        return wr_error_memory(m->err, (size_t)l->ranks * sizeof *s->bounds, "the sections of a model");
    qsort(m->sorted, n, sizeof *m->sorted, by_size);
    for (uint64_t i = 0; i < n; i++) {
        struct wr_zero_tensor *t = m->sorted[i];
        int r = least(m);
        t->block = (uint64_t)r;
        t->at = s->bounds[r + 1];
        s->bounds[r + 1] += round_up(t->n, l->align);
        m->load[r] += round_up(t->n, l->align);
    }
    for (int r = 0; r < l->ranks; r++) {
        s->counts[r] = s->bounds[r + 1];
        s->bounds[r + 1] += s->bounds[r];
    }
    for (uint64_t i = 0; i < n; i++)
        put(m, b, m->sorted[i], at + s->bounds[m->sorted[i]->block] + m->sorted[i]->at);
    s->n = s->bounds[l->ranks];
    b->n += s->n;
    if (l->ranks == 1)
        make_flat(s);
    return WEIR_OK;
}

/* ---- blocks ---- */

static weir_status add_block(struct maker *m, uint64_t unit, uint64_t nunits)
{
    struct wr_zero_layout *l = m->l;
    struct wr_zero_block *b = &l->blocks[l->nblocks++];
    *b = (struct wr_zero_block){.at = l->n, .grad_at = l->grad_n, .unit = unit, .nunits = nunits, .section = l->nsections};
    weir_status status = add_flat(m, b, false);
    if (status == WEIR_OK)
        status = add_whole(m, b);
    b->grad_n = b->n;
    if (status == WEIR_OK)
        status = add_flat(m, b, true);
    l->n += b->n;
    l->grad_n += b->grad_n;
    return status;
}

static uint64_t own_elements(const struct wr_zero_unit *u)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < u->ntensors; i++)
        n += u->tensors[i].origin == &u->tensors[i] && !u->tensors[i].frozen ? u->tensors[i].n : 0;
    return n;
}

static weir_status add_blocks(struct maker *m)
{
    struct wr_zero_layout *l = m->l;
    uint64_t bucket = m->o->bucket_bytes / weir_type_size((weir_type)m->o->grad_type);
    weir_status status = WEIR_OK;
    for (uint64_t u = 0; status == WEIR_OK && u < l->nunits;) {
        uint64_t first = u, n = own_elements(&l->units[u++]);
        while (m->o->stage < 3 && u < l->nunits && n + own_elements(&l->units[u]) <= bucket)
            n += own_elements(&l->units[u++]);
        status = add_block(m, first, u - first);
    }
    return status;
}

static void add_need(struct wr_zero_unit *u, uint64_t block)
{
    for (uint64_t i = 0; i < u->nblocks; i++)
        if (u->blocks[i] == block)
            return;
    u->blocks[u->nblocks++] = block;
}

/* Which blocks units need; where sections are in the shards: the flat ones first, which are at the same place on all ranks. */
static weir_status connect(struct maker *m)
{
    struct wr_zero_layout *l = m->l;
    for (uint64_t b = 0; b < l->nblocks; b++)
        for (uint64_t u = l->blocks[b].unit; u < l->blocks[b].unit + l->blocks[b].nunits; u++)
            add_need(&l->units[u], b);
    for (uint64_t u = 0; u < l->nunits; u++)
        for (uint64_t i = 0; i < l->units[u].ntensors; i++)
            add_need(&l->units[u], l->units[u].tensors[i].origin->block);
    uint64_t flat = 0;
    for (uint64_t s = 0; s < l->nsections; s++) {
        l->sections[s].shard_at = flat;
        flat += l->sections[s].bounds ? 0 : l->sections[s].per;
    }
    l->shard_n = calloc((size_t)l->ranks, sizeof *l->shard_n);
    if (!l->shard_n)
        return wr_error_memory(m->err, (size_t)l->ranks * sizeof *l->shard_n, "the shards of a model");
    for (int r = 0; r < l->ranks; r++) {
        l->shard_n[r] = flat;
        for (uint64_t s = 0; s < l->nsections; s++)
            if (l->sections[s].bounds) {
                l->sections[s].shard_at_of[r] = l->shard_n[r];
                l->shard_n[r] += wr_zero_part(&l->sections[s], r);
            }
    }
    return WEIR_OK;
}

weir_status wr_zero_layout_make(struct wr_zero_layout *layout, const weir_zero_options *options, const weir_zero_unit *units,
                                uint64_t nunits, int ranks, weir_error *err)
{
    bool wide = options->flags & WEIR_ZERO_REPRODUCIBLE || options->offload & WEIR_ZERO_OFFLOAD_PARAMS; /* blocks of norms; pages */
    struct wr_zero_layout l = {.ranks = ranks, .align = wide ? WEIR_NORM_BLOCK : WR_ZERO_ALIGN};
    struct maker m = {.l = &l, .o = options, .err = err};
    weir_status status = read_model(&m, units, nunits);
    if (status == WEIR_OK) {
        m.load = calloc((size_t)ranks, sizeof *m.load);
        m.sorted = calloc(l.ntensors + 1, sizeof *m.sorted);
        if (!m.load || !m.sorted)
            status = wr_error_memory(err, (size_t)ranks * sizeof *m.load, "the layout of a model");
    }
    if (status == WEIR_OK)
        status = add_blocks(&m);
    if (status == WEIR_OK)
        status = connect(&m);
    free(m.load);
    free(m.sorted);
    if (status == WEIR_OK)
        *layout = l;
    else
        wr_zero_layout_free(&l);
    return status;
}

void wr_zero_layout_free(struct wr_zero_layout *l)
{
    for (uint64_t u = 0; l->units && u < l->nunits; u++) {
        for (uint64_t i = 0; i < l->units[u].ntensors; i++)
            free(l->units[u].tensors[i].name);
        free(l->units[u].name);
        free(l->units[u].tensors);
        free(l->units[u].blocks);
    }
    for (uint64_t s = 0; s < l->nsections; s++) {
        free(l->sections[s].bounds);
        free(l->sections[s].counts);
        free(l->sections[s].shard_at_of);
    }
    free(l->units);
    free(l->blocks);
    free(l->sections);
    free(l->shard_n);
    memset(l, 0, sizeof *l);
}

/* ---- agreement ---- */

static uint64_t hash(uint64_t h, const void *data, size_t bytes)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < bytes; i++)
        h = (h ^ p[i]) * 0x100000001b3u;
    return h;
}

uint64_t wr_zero_layout_hash(const struct wr_zero_layout *l)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (uint64_t u = 0; u < l->nunits; u++)
        for (uint64_t i = 0; i < l->units[u].ntensors; i++) {
            const struct wr_zero_tensor *t = &l->units[u].tensors[i];
            const uint64_t numbers[] = {t->n, t->rows, t->frozen, t->origin->block, t->origin->at, t->said.flags, t->said.group};
            h = hash(hash(h, t->name, strlen(t->name)), numbers, sizeof numbers);
        }
    const uint64_t numbers[] = {l->nunits, l->nblocks, l->nsections, l->n, (uint64_t)l->ranks};
    return hash(h, numbers, sizeof numbers);
}
