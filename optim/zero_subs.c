/* SPDX-License-Identifier: BSD-3-Clause */
/* Cuts a rank's pieces into sub-groups that fit in a buffer. */
#include <stdlib.h>

#include <weir/vector.h>

#include "base/compiler.h"
#include "base/error.h"
#include "optim/zero_offload.h"

enum { LINE = 64 }; /* arrays begin at multiples of it */

struct cutter {
    struct wr_zero_subs *s;
    const weir_zero_options *o;
    uint64_t view_cap, sub_cap;
    uint64_t used; /* bytes of the sub-group that is open */
    bool open;
    weir_error *err;
};

static uint64_t round_up(uint64_t n, uint64_t to)
{
    return (n + to - 1) / to * to;
}

/* Bytes of the arrays of n elements of a piece: of the master (0) and the states (1 ..), as they stand. Returns the sum. */
static uint64_t arrays(const struct cutter *c, const struct wr_zero_piece *p, uint64_t n, uint64_t bytes[1 + WEIR_RULE_STATES_MAX])
{
    const weir_rule *rule = wr_zero_group(c->o, p->tensor)->rule;
    struct wr_zero_piece part = *p;
    uint64_t sum = bytes[0] = wr_zero_masters_on_disk(c->o) ? n * sizeof(float) : 0;
    part.n = n;
    sum = round_up(sum, LINE);
    for (unsigned k = 0; k < WEIR_RULE_STATES_MAX; k++) {
        weir_rule_state s = {.size = sizeof s};
        bytes[1 + k] = 0;
        if (k >= weir_rule_nstates(rule))
            continue;
        weir_rule_state_info(rule, k, &s);
        bytes[1 + k] = wr_zero_state_entries(rule, k, &part) * weir_type_size((weir_type)s.type);
        sum += round_up(bytes[1 + k], LINE);
    }
    return sum;
}

/* A piece is cut at multiples of it; 0: nowhere. */
static uint64_t granule(const struct cutter *c, const struct wr_zero_piece *p)
{
    const weir_rule *rule = wr_zero_group(c->o, p->tensor)->rule;
    weir_access access = weir_rule_access(rule);
    if (access == WEIR_ACCESS_MATRIX)
        return 0;
    uint64_t g = WR_MAX(weir_rule_granule(rule), (uint64_t)LINE);
    return access == WEIR_ACCESS_TENSOR ? WR_MAX(g, (uint64_t)WEIR_NORM_BLOCK) : g; /* both are powers of two */
}

/* How many of the `left` last elements of a piece fit into `room` bytes. */
static uint64_t fits(const struct cutter *c, const struct wr_zero_piece *p, uint64_t left, uint64_t room)
{
    uint64_t bytes[1 + WEIR_RULE_STATES_MAX], g = granule(c, p);
    if (arrays(c, p, left, bytes) <= room)
        return left;
    uint64_t lines = g ? arrays(c, p, g, bytes) : 0, n = g ? WR_MIN(room / lines * g, left / g * g) : 0;
    return n;
}

static void close_sub(struct cutter *c)
{
    struct wr_zero_subs *s = c->s;
    if (!c->open)
        return;
    struct wr_zero_sub *sub = &s->subs[s->nsubs++];
    sub->nviews = s->nviews - sub->view;
    sub->bytes = round_up(c->used, WR_DISK_PAGE);
    s->bytes += sub->bytes;
    s->most = WR_MAX(s->most, sub->bytes);
    c->open = false;
}

static bool grow(void *array, uint64_t *cap, uint64_t n, size_t size)
{
    void **at = array;
    if (n < *cap)
        return true;
    uint64_t to = 2 * *cap + 64;
    void *more = realloc(*at, to * size);
    if (!more)
        return false;
    *at = more;
    *cap = to;
    return true;
}

static weir_status add_view(struct cutter *c, const struct wr_zero_piece *p, uint64_t piece, uint64_t first, uint64_t n)
{
    struct wr_zero_subs *s = c->s;
    if (!grow(&s->views, &c->view_cap, s->nviews, sizeof *s->views) || !grow(&s->subs, &c->sub_cap, s->nsubs, sizeof *s->subs))
        return wr_error_memory(c->err, (s->nviews + 64) * sizeof *s->views, "sub-groups of optimizer states");
    if (!c->open) {
        s->subs[s->nsubs] = (struct wr_zero_sub){.view = s->nviews, .at = s->bytes};
        c->used = 0;
        c->open = true;
    }
    struct wr_zero_view *v = &s->views[s->nviews++];
    *v = (struct wr_zero_view){.piece = piece, .first = first, .n = n};
    arrays(c, p, n, v->bytes);
    for (unsigned k = 0; k < WR_ARRAY_SIZE(v->at); k++) {
        v->at[k] = c->used;
        c->used += round_up(v->bytes[k], LINE);
    }
    return WEIR_OK;
}

static weir_status cut_piece(struct cutter *c, const struct wr_zero_piece *p, uint64_t piece)
{
    uint64_t bytes[1 + WEIR_RULE_STATES_MAX], most = round_up(c->o->offload_bytes, WR_DISK_PAGE);
    weir_status status = WEIR_OK;
    if (p->tensor->frozen || !arrays(c, p, p->n, bytes)) /* a rule without states */
        return WEIR_OK;
    for (uint64_t first = 0, n; status == WEIR_OK && first < p->n; first += n) {
        uint64_t left = p->n - first, g = granule(c, p);
        n = fits(c, p, left, c->open ? most - WR_MIN(most, c->used) : most);
        if (!n && c->open) {
            close_sub(c);
            continue;
        }
        n = n ? n : g ? WR_MIN(g, left) : left; /* larger than a buffer should be */
        status = add_view(c, p, piece, first, n);
    }
    return status;
}

/* Which views a piece has, and in which sub-groups views are. */
static weir_status connect(struct cutter *c, uint64_t npieces)
{
    struct wr_zero_subs *s = c->s;
    s->piece_view = calloc(npieces + 1, sizeof *s->piece_view);
    s->view_sub = calloc(s->nviews + 1, sizeof *s->view_sub);
    if (!s->piece_view || !s->view_sub)
        return wr_error_memory(c->err, npieces * sizeof *s->piece_view, "sub-groups of optimizer states");
    for (uint64_t i = 0, v = 0; i <= npieces; i++) {
        while (v < s->nviews && s->views[v].piece < i)
            v++;
        s->piece_view[i] = v;
    }
    for (uint64_t i = 0; i < s->nsubs; i++)
        for (uint64_t v = 0; v < s->subs[i].nviews; v++)
            s->view_sub[s->subs[i].view + v] = i;
    return WEIR_OK;
}

weir_status wr_zero_subs_make(struct wr_zero_subs *subs, const weir_zero_options *o, const struct wr_zero_piece *pieces,
                              const uint64_t *section_piece, uint64_t nsections, weir_error *err)
{
    struct wr_zero_subs s = {.section_sub = calloc(nsections + 1, sizeof *s.section_sub)};
    struct cutter c = {.s = &s, .o = o, .err = err};
    weir_status status = s.section_sub ? WEIR_OK : wr_error_memory(err, nsections * sizeof *s.section_sub, "sub-groups of optimizer states");
    for (uint64_t section = 0; status == WEIR_OK && section < nsections; section++) {
        s.section_sub[section] = s.nsubs;
        for (uint64_t i = section_piece[section]; status == WEIR_OK && i < section_piece[section + 1]; i++)
            status = cut_piece(&c, &pieces[i], i);
        close_sub(&c);
    }
    if (status == WEIR_OK) {
        s.section_sub[nsections] = s.nsubs;
        status = connect(&c, section_piece[nsections]);
    }
    if (status == WEIR_OK)
        *subs = s;
    else
        wr_zero_subs_free(&s);
    return status;
}

void wr_zero_subs_free(struct wr_zero_subs *s)
{
    free(s->views);
    free(s->subs);
    free(s->section_sub);
    free(s->piece_view);
    free(s->view_sub);
    *s = (struct wr_zero_subs){0};
}
