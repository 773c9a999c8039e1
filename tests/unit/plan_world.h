/* SPDX-License-Identifier: BSD-3-Clause */
/* Machines and calls for the tests of plans. */
#ifndef WR_PLAN_WORLD_H
#define WR_PLAN_WORLD_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/plan/verify.h"

struct plan_world {
    struct wr_plan_topo topo;
    int *node_of, *node_size, *local_rank, **node_ranks, *group;
    const int *groups[1];
};

/* Whether a collective combines elements. */
static inline bool plan_reduces(enum wr_collective coll)
{
    return coll == WR_COLL_REDUCE || coll == WR_COLL_ALLREDUCE || coll == WR_COLL_REDUCE_SCATTER ||
           coll == WR_COLL_SCAN || coll == WR_COLL_EXSCAN;
}

/* A machine whose rank r sits on node_of[r] (any numbers below nnodes, each used). */
static inline void plan_world_init(struct plan_world *w, int nranks, int nnodes, const int *node_of)
{
    int known = 0, *name = calloc((size_t)nnodes, sizeof *name);
    memset(w, 0, sizeof *w);
    w->node_of = calloc((size_t)nranks, sizeof(int));
    w->local_rank = calloc((size_t)nranks, sizeof(int));
    w->node_size = calloc((size_t)nnodes, sizeof(int));
    w->node_ranks = calloc((size_t)nnodes, sizeof(int *));
    w->group = calloc((size_t)nnodes, sizeof(int));
    for (int r = 0; r < nranks; r++) {
        if (!name[node_of[r]])
            name[node_of[r]] = ++known;
        int node = w->node_of[r] = name[node_of[r]] - 1; /* numbered by lowest rank */
        w->node_ranks[node] = realloc(w->node_ranks[node], (size_t)(w->node_size[node] + 1) * sizeof(int));
        w->local_rank[r] = w->node_size[node];
        w->node_ranks[node][w->node_size[node]++] = r;
    }
    for (int i = 0; i < nnodes; i++)
        w->group[i] = i / 2;
    w->groups[0] = w->group;
    w->topo = (struct wr_plan_topo){.nranks = nranks,
                                    .nnodes = known,
                                    .node_of = w->node_of,
                                    .node_ranks = (const int *const *)w->node_ranks,
                                    .node_size = w->node_size,
                                    .local_rank = w->local_rank,
                                    .group_of = w->groups};
    free(name);
}

static inline void plan_world_free(struct plan_world *w)
{
    for (int i = 0; i < w->topo.nnodes; i++)
        free(w->node_ranks[i]);
    free(w->node_ranks);
    free(w->node_of);
    free(w->node_size);
    free(w->local_rank);
    free(w->group);
}

/* A generator of its own, so that a failure can be repeated from its seed. */
static inline unsigned plan_random(uint64_t *state, unsigned below)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)((*state >> 33) % below);
}

/* nnodes nodes, unequal, placed at random or in blocks; every node has a rank. */
static inline void plan_world_random(struct plan_world *w, uint64_t *state, int nranks, int nnodes)
{
    int *node_of = calloc((size_t)nranks, sizeof(int));
    unsigned how = plan_random(state, 3);
    for (int r = 0; r < nranks; r++)
        node_of[r] = r < nnodes ? r
                     : how == 0 ? r * nnodes / nranks
                     : how == 1 ? r % nnodes
                                : (int)plan_random(state, (unsigned)nnodes);
    plan_world_init(w, nranks, nnodes, node_of);
    w->topo.nlevels = (int)plan_random(state, 2);
    free(node_of);
}

/* nnodes nodes of ppn ranks each, in blocks. */
static inline void plan_world_blocks(struct plan_world *w, int nnodes, int ppn)
{
    int *node_of = calloc((size_t)nnodes * (size_t)ppn, sizeof(int));
    for (int r = 0; r < nnodes * ppn; r++)
        node_of[r] = r / ppn;
    plan_world_init(w, nnodes * ppn, nnodes, node_of);
    free(node_of);
}

/* A specification as words, for messages. */
static inline const char *plan_words(const struct wr_plan_spec *s, const char *algorithm, char buf[256])
{
    snprintf(buf, 256, "%s:%s, %d ranks on %d nodes, %s %llu, chunk %llu, rails %d%s%s%s%s, sizes %u/%u",
             wr_collective_name(s->coll), algorithm, s->topo->nranks, s->topo->nnodes,
             s->counts ? "unequal, total" : "count",
             (unsigned long long)(s->counts && s->offsets ? wr_plan_total(s) : s->count), (unsigned long long)s->chunk,
             s->rails, s->in_place ? ", in place" : "", s->in_mapped ? ", in mapped" : "",
             s->out_mapped ? ", out mapped" : "", s->out_shared ? ", out shared" : "", s->elem_size, s->partial_size);
    return buf;
}

/* Counts for a v-form: a third of them zero. `counts` has n, `offsets` n + 1 places. */
static inline void plan_counts(uint64_t *state, int n, unsigned below, uint64_t *counts, uint64_t *offsets)
{
    offsets[0] = 0;
    for (int r = 0; r < n; r++) {
        counts[r] = plan_random(state, 3) ? plan_random(state, below) : 0;
        offsets[r + 1] = offsets[r] + counts[r];
    }
}

#endif
