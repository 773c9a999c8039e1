/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When the parameters of the chunks are gathered and dropped. The order is known, so the chunk that makes room is the one
 * whose next use is farthest away (Belady, A study of replacement algorithms, 1966), and the next gather starts as soon as there is
 * room for it.
 */
#include <stdlib.h>

#include "optim/pipe.h"

/* A stretch of the order in which one chunk's parameters are used. W uses none. */
struct stretch {
    size_t begin, end; /* steps of the order; end: behind its last use */
    int chunk;
};

struct planner {
    const struct wr_pipe_order *order;
    struct wr_pipe_gathers *out;
    struct stretch *stretch;
    size_t nstretches;
    size_t *room;    /* by free place: since which step; sorted */
    int nroom;
    size_t *used;    /* by chunk: end of its last stretch so far */
    bool *there;     /* by chunk */
    size_t gathered; /* gathers start in the order in which they are needed */
    int chunks;
};

static void emit(struct planner *p, size_t at, weir_pipe_op op, int chunk)
{
    struct wr_pipe_gathers *out = p->out;
    if (out->n == out->cap) {
        size_t cap = out->cap ? 2 * out->cap : 16;
        struct wr_pipe_gather *larger = out->failed ? NULL : realloc(out->gather, cap * sizeof *larger);
        if (!larger) {
            out->failed = true;
            return;
        }
        out->gather = larger;
        out->cap = cap;
    }
    /* sorted by step; what is written later comes later */
    size_t i = out->n++;
    for (; i > 0 && out->gather[i - 1].at > at; i--)
        out->gather[i] = out->gather[i - 1];
    out->gather[i] = (struct wr_pipe_gather){.at = at, .op = (int32_t)op, .chunk = chunk};
}

static void find_stretches(struct planner *p)
{
    for (size_t i = 0; i < p->order->n; i++) {
        const struct wr_pipe_step *step = &p->order->step[i];
        if (step->op == WEIR_PIPE_OP_W)
            continue;
        if (!p->nstretches || p->stretch[p->nstretches - 1].chunk != step->chunk)
            p->stretch[p->nstretches++] = (struct stretch){.begin = i, .chunk = step->chunk};
        p->stretch[p->nstretches - 1].end = i + 1;
    }
}

/* The stretch in which a chunk is used next, from `from` on; nstretches when never. */
static size_t next_use(const struct planner *p, int chunk, size_t from)
{
    while (from < p->nstretches && p->stretch[from].chunk != chunk)
        from++;
    return from;
}

static void drop(struct planner *p, int chunk)
{
    int i = p->nroom++;
    emit(p, p->used[chunk], WEIR_PIPE_OP_RESHARD, chunk);
    p->there[chunk] = false;
    for (; i > 0 && p->room[i - 1] > p->used[chunk]; i--)
        p->room[i] = p->room[i - 1];
    p->room[i] = p->used[chunk];
}

/* Makes room for stretch `r`. The chunk in use just before stays when it can, so that it hides the gather. */
static void make_room(struct planner *p, size_t r, int most)
{
    int before = r && most > 1 ? p->stretch[r - 1].chunk : -1, victim = -1;
    size_t farthest = 0;
    for (int c = 0; c < p->chunks; c++) {
        size_t use = p->there[c] && c != before ? next_use(p, c, r) : 0;
        if (use > farthest) {
            farthest = use;
            victim = c;
        }
    }
    drop(p, victim);
}

static void plan_full(struct planner *p, int most)
{
    for (; p->nroom < most; p->nroom++)
        p->room[p->nroom] = 0;
    for (size_t r = 0; r < p->nstretches; r++) {
        int chunk = p->stretch[r].chunk;
        if (!p->there[chunk]) {
            if (!p->nroom)
                make_room(p, r, most);
            p->gathered = WR_MAX(p->gathered, p->room[0]);
            p->nroom--;
            for (int i = 0; i < p->nroom; i++)
                p->room[i] = p->room[i + 1];
            emit(p, p->gathered, WEIR_PIPE_OP_UNSHARD, chunk);
            p->there[chunk] = true;
        }
        p->used[chunk] = p->stretch[r].end;
        if (next_use(p, chunk, r + 1) == p->nstretches)
            drop(p, chunk);
    }
}

static void plan_once(struct planner *p)
{
    for (size_t r = 0; r < p->nstretches; r++)
        if (!p->there[p->stretch[r].chunk]) {
            emit(p, 0, WEIR_PIPE_OP_UNSHARD, p->stretch[r].chunk);
            p->there[p->stretch[r].chunk] = true;
        }
}

void wr_pipe_shard(const struct wr_pipe_order *order, int chunks, int zero, int most, struct wr_pipe_gathers *gathers)
{
    struct planner p = {.order = order, .out = gathers, .chunks = chunks};
    if (!zero)
        return;
    p.stretch = calloc(order->n + 1, sizeof *p.stretch);
    p.room = calloc((size_t)chunks + 1, sizeof *p.room);
    p.used = calloc((size_t)chunks, sizeof *p.used);
    p.there = calloc((size_t)chunks, sizeof *p.there);
    if (p.stretch && p.room && p.used && p.there) {
        find_stretches(&p);
        if (zero == 3)
            plan_full(&p, WR_MIN(most, chunks));
        else
            plan_once(&p);
    } else {
        gathers->failed = true;
    }
    free(p.there);
    free(p.used);
    free(p.room);
    free(p.stretch);
}
