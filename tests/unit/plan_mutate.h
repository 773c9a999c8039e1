/* SPDX-License-Identifier: BSD-3-Clause */
/* Broken plans, for tests: a step that is dropped, or changed in one of several ways. */
#ifndef WR_PLAN_MUTATE_H
#define WR_PLAN_MUTATE_H

#include <string.h>

#include "comm/plan/plan.h"

enum plan_mutation {
    PLAN_DROP,
    PLAN_OFFSET,
    PLAN_OTHER_OFFSET,
    PLAN_PEER,
    PLAN_SLOT,
    PLAN_VALUE,
    PLAN_SWAP,
    PLAN_SHORTER,
    PLAN_MUTATIONS
};

/* The copy of a program without step `drop` (UINT32_MAX: with all). */
static inline void plan_copy(struct wr_program *to, const struct wr_program *from, uint32_t drop)
{
    wr_program_init(to, from->rank);
    for (uint32_t lane = 0; lane < from->nlanes; lane++) {
        wr_program_lane(to);
        for (uint32_t i = from->lane[lane]; i < from->lane[lane + 1]; i++)
            if (i != drop)
                wr_program_step(to, &from->steps[i], from->refs + from->steps[i].first_ref);
    }
    to->scratch = from->scratch;
    to->nslots = from->nslots;
}

/* Changes a step in place; false when this mutation says nothing about it. */
static inline bool plan_mutate(struct wr_program *p, uint32_t i, enum plan_mutation how, int nranks)
{
    struct wr_step *s = &p->steps[i];
    struct wr_ref *refs = p->refs + s->first_ref;
    bool moves = s->op <= WR_STEP_PUT;
    switch (how) {
    case PLAN_OFFSET:
        if (moves)
            refs[0].offset++;
        return moves;
    case PLAN_OTHER_OFFSET:
        if (moves)
            refs[1].offset += refs[1].offset ? (uint64_t)-1 : 1;
        return moves;
    case PLAN_PEER:
        s->peer = (s->peer + 1) % nranks;
        return s->op == WR_STEP_SIGNAL || s->op == WR_STEP_WAIT;
    case PLAN_SLOT:
        s->slot++;
        return s->op == WR_STEP_SIGNAL || s->op == WR_STEP_WAIT || s->flags & WR_STEP_SIGNALS;
    case PLAN_VALUE:
        s->value--;
        return s->op == WR_STEP_WAIT && s->value > 0;
    case PLAN_SWAP: {
        if (!moves)
            return false;
        struct wr_ref t = refs[0];
        refs[0] = refs[1];
        refs[1] = t;
        return memcmp(&refs[0], &refs[1], sizeof t) != 0;
    }
    case PLAN_SHORTER:
        s->len--;
        return moves && s->len > 0;
    case PLAN_DROP:
    case PLAN_MUTATIONS:
        break;
    }
    return false;
}

#endif
