/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Proofs: of all ranks up to some thousand; above that by classes; and where these have too many steps, of a smaller machine and
 * of what can be looked at rank by rank.
 */
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "tools/weir-plan.h"

static double excess(uint64_t bytes, uint64_t bound, double most)
{
    return bound ? WR_MAX(most, (double)bytes / (double)bound) : most;
}

/* The nodes' bytes against what they must move. */
static void compare_bytes(const struct plan_report *r, struct plan_outcome *o)
{
    for (int n = 0; n < o->proof.nnodes; n++) {
        uint64_t egress, ingress;
        wr_sim_node_bound(&r->spec, n, &egress, &ingress);
        /* what reduce-scatter receives and all-gather sends is bounded for all nodes together, not for each */
        if (r->spec.coll != WR_COLL_ALLGATHER)
            o->egress = excess(o->proof.egress[n], egress, o->egress);
        if (r->spec.coll != WR_COLL_REDUCE_SCATTER)
            o->ingress = excess(o->proof.ingress[n], ingress, o->ingress);
    }
}

/* The machine with half of the nodes, again and again, until all its ranks can be run symbolically. */
static weir_status make_smaller(const struct plan_options *o, struct plan_machine *machine, weir_error *err)
{
    struct plan_options less = *o;
    while (less.nodes % 2 == 0 && less.nodes > 2) {
        less.nodes /= 2;
        if (plan_machine_make(machine, &less, err) != WEIR_OK)
            break; /* the levels cannot be halved */
        if (machine->topo.nranks <= PLAN_SMALL_RANKS)
            return WEIR_OK;
        plan_machine_free(machine);
    }
    return WEIR_ERR_UNSUPPORTED;
}

/* The same call there: as much for each rank. */
static struct wr_plan_spec smaller_spec(const struct plan_report *r, const struct plan_machine *machine)
{
    struct wr_plan_spec spec = r->spec;
    spec.topo = &machine->topo;
    spec.root %= machine->topo.nranks;
    if (spec.coll == WR_COLL_ALLREDUCE)
        spec.count = spec.count / (uint64_t)r->spec.topo->nranks * (uint64_t)machine->topo.nranks +
                     spec.count % (uint64_t)r->spec.topo->nranks % (uint64_t)machine->topo.nranks;
    return spec;
}

/* Whether all programs can be built in a while. */
static weir_status is_short(const struct plan_report *r, const struct wr_algorithm *algorithm, bool *is, weir_error *err)
{
    struct wr_program p;
    weir_status status = algorithm->build(&r->spec, r->spec.topo->nranks - 1, &p, err);
    if (status == WEIR_OK) {
        *is = (double)p.nsteps * r->spec.topo->nranks < PLAN_SCAN_STEPS;
        wr_program_free(&p);
    }
    return status;
}

/* What is left where classes are too large. */
static weir_status prove_smaller(const struct plan_report *r, struct plan_outcome *o, weir_error *err)
{
    struct plan_machine machine;
    bool is = false;
    weir_status status = is_short(r, o->algorithm, &is, err);
    if (status == WEIR_OK && is)
        status = wr_verify_scan(&r->spec, o->algorithm, &o->proof, err);
    if (status != WEIR_OK)
        return status;
    if (is)
        compare_bytes(r, o);
    o->scanned = is;
    if (make_smaller(r->options, &machine, err) != WEIR_OK)
        return wr_error_set(err, WEIR_ERR_UNSUPPORTED, "ask for a number of nodes that can be halved until 1024 ranks are left",
                            "%s; and there is no smaller machine of the same shape with at most %d ranks", o->unproven, PLAN_SMALL_RANKS);
    struct wr_plan_spec spec = smaller_spec(r, &machine);
    status = o->algorithm->applies(&spec) ? wr_verify(&spec, o->algorithm, is ? NULL : &o->proof, err)
                                          : wr_error_set(err, WEIR_ERR_UNSUPPORTED, NULL, "it does not serve the smaller machine");
    if (status == WEIR_OK) {
        o->small_nodes = machine.topo.nnodes;
        o->small_ranks = machine.topo.nranks;
    }
    plan_machine_free(&machine);
    return status;
}

weir_status plan_prove(const struct plan_report *r, struct plan_outcome *o, weir_error *err)
{
    weir_status status;
    if (r->machine->topo.nranks > PLAN_VERIFY_RANKS) {
        status = wr_verify_classes(&r->spec, o->algorithm, &o->how, &o->proof, err);
        if (status == WEIR_ERR_UNSUPPORTED) {
            wr_str_append(o->unproven, sizeof o->unproven, err->message);
            return prove_smaller(r, o, err);
        }
    } else {
        status = wr_verify(&r->spec, o->algorithm, &o->proof, err);
    }
    if (status == WEIR_OK)
        compare_bytes(r, o);
    o->verified = status == WEIR_OK;
    return status;
}
