/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What sparse clocks keep: the entries of those who use the same memory as a rank does, because whether their accesses are over is
 * what it will be asked; of memory that very many use only those of its owner, who tells them when it is their turn.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "comm/plan/verify_impl.h"

enum { USERS = 256, KEPT = 4096 }; /* of one memory; of one rank */

static weir_status no_memory(const struct wr_verifier *v)
{
    return wr_error_memory(v->err, (size_t)v->period * sizeof *v->users, "verifying a plan");
}

static size_t memory_of(const struct wr_verifier *v, const struct wr_ref *ref)
{
    int rank = wr_vmodel(v, ref->rank);
    uint32_t buffer = ref->buffer;
    if (buffer == WR_BUF_IN && wr_verify_in_place(v->spec, rank))
        buffer = WR_BUF_OUT;
    if (buffer == WR_BUF_OUT && v->spec->out_shared)
        rank = v->topo->node_ranks[v->topo->node_of[rank]][0];
    return (size_t)rank * 3 + buffer;
}

weir_status wr_verify_find_users(struct wr_verifier *v)
{
    if (!v->clocks.sparse)
        return WEIR_OK;
    v->users = calloc((size_t)v->period * 3, sizeof *v->users);
    if (!v->users)
        return no_memory(v);
    for (uint32_t l = 0; l < v->nlanes; l++) {
        const struct wr_vlane *lane = &v->lane[l];
        const struct wr_vrank *rank = &v->rank[lane->rank];
        for (uint32_t i = 0; i < lane->steps; i++) {
            const struct wr_step *step = &rank->program->steps[lane->first + i];
            const struct wr_ref *refs = rank->program->refs + step->first_ref;
            for (uint32_t k = 0; step->op <= WR_STEP_PUT && k < step->nrefs; k++) {
                struct wr_vtouches *users = &v->users[memory_of(v, &refs[k])];
                bool lands = step->op == WR_STEP_PUT && k == 0;
                uint32_t index = lands ? v->counter[v->aux[rank->aux + lane->first + i].counter].channel : l;
                wr_vdim dim = wr_vdim_of(wr_vback(v, wr_vshift_of(v, refs[k].rank)), index);
                if (users->n <= USERS && !wr_vtouch(users, dim, 1))
                    return no_memory(v);
            }
        }
    }
    return WEIR_OK;
}

/* The lanes of a memory's owner, and its users as they look from a rank for which the owner's shift is `shift`. */
static bool keep_users(struct wr_verifier *v, size_t memory, uint32_t shift, struct wr_vclock **clock)
{
    const struct wr_vrank *owner = &v->rank[memory / 3];
    const struct wr_vtouches *users = &v->users[memory];
    for (uint32_t i = 0; i < owner->program->nlanes; i++)
        wr_vsparse_keep(&v->clocks, clock, wr_vdim_of(shift, owner->first_lane + i));
    for (uint32_t i = 0; users->n <= USERS && i < users->cap; i++)
        if (users->at[i].tick)
            wr_vsparse_keep(&v->clocks, clock, wr_vdim_shift(&v->clocks, users->at[i].dim, shift));
    return !v->clocks.failed;
}

/* Of the memories that a rank uses, those of its node or (far) also others. */
static weir_status keep_used(struct wr_verifier *v, int rank, bool far, uint32_t *kept, struct wr_vclock **clock)
{
    const struct wr_program *p = v->rank[rank].program;
    struct wr_vtouches seen = {0};
    bool ok = true;
    *kept = 0;
    for (uint32_t i = 0; i < p->nrefs && ok && *kept <= KEPT; i++) {
        const struct wr_ref *ref = &p->refs[i];
        size_t memory = memory_of(v, ref);
        uint32_t shift = wr_vshift_of(v, ref->rank);
        wr_vdim key = wr_vdim_of(shift, (uint32_t)memory);
        if ((!far && v->topo->node_of[ref->rank] != v->topo->node_of[rank]) || wr_vtouched(&seen, key))
            continue;
        *kept += 1 + (v->users[memory].n <= USERS ? v->users[memory].n : 0);
        ok = wr_vtouch(&seen, key, 1) && (*kept > KEPT || keep_users(v, memory, shift, clock));
    }
    free(seen.at);
    return ok ? WEIR_OK : no_memory(v);
}

weir_status wr_verify_keep(struct wr_verifier *v, int rank, struct wr_vclock **clock)
{
    uint32_t kept;
    if (!v->clocks.sparse)
        return WEIR_OK;
    if (v->spec->coll == WR_COLL_BARRIER) /* at the end all must be known to have started */
        for (int p = 0; p < v->topo->nranks; p++)
            wr_vsparse_keep(&v->clocks, clock, wr_vdim_of(wr_vshift_of(v, p), v->rank[wr_vmodel(v, p)].first_lane));
    for (int b = 0; b < 3; b++)
        keep_users(v, (size_t)rank * 3 + (size_t)b, 0, clock);
    weir_status status = keep_used(v, rank, true, &kept, clock);
    if (status != WEIR_OK || kept <= KEPT)
        return status;
    wr_vclock_unref(&v->clocks, *clock);
    *clock = wr_vclock_new(&v->clocks);
    if (!*clock)
        return no_memory(v);
    for (int b = 0; b < 3; b++)
        keep_users(v, (size_t)rank * 3 + (size_t)b, 0, clock);
    return keep_used(v, rank, false, &kept, clock);
}
