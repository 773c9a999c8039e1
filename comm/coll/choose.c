/* SPDX-License-Identifier: BSD-3-Clause */
/* Which algorithm serves a collective: WEIR_ALGO, or rules by size and nodes. */
#include <string.h>

#include "base/error.h"
#include "comm/coll/coll.h"

enum { SMALL_BYTES = 16384 }; /* of the whole vector: latency counts, not bandwidth */

/* The name that WEIR_ALGO ("allgather:ring,allreduce:hier") has for a collective; false when it has none. */
static bool override_of(const char *spec, const char *coll, char *name, size_t size)
{
    for (const char *item = spec; item && *item;) {
        size_t len = strcspn(item, ","), head = strcspn(item, ":,");
        if (head < len && strlen(coll) == head && !memcmp(item, coll, head)) {
            size_t n = WR_MIN(len - head - 1, size - 1);
            memcpy(name, item + head + 1, n);
            name[n] = '\0';
            return true;
        }
        item += len;
        item += *item == ',';
    }
    return false;
}

/* Names in order of preference, ended by NULL. */
static const char *const *preference(const struct wr_plan_spec *spec)
{
    static const char *const one_node[] = {"direct", "dissemination", "hier", "ring", "bruck", "binomial", NULL};
    static const char *const small[] = {"latency", "bruck", "hier", "binomial", "dissemination", "ring", NULL};
    static const char *const large[] = {"hier", "chain", "ring", "bruck", "binomial", "dissemination", NULL};
    uint64_t bytes = spec->count * spec->elem_size;
    if (spec->coll == WR_COLL_REDUCE_SCATTER || spec->coll == WR_COLL_ALLGATHER)
        bytes = wr_plan_total(spec) * spec->elem_size;
    if (spec->topo->nnodes == 1)
        return one_node;
    return bytes <= SMALL_BYTES ? small : large;
}

weir_status wr_coll_choose(const struct wr_coll_state *state, const struct wr_plan_spec *spec,
                           const struct wr_algorithm **algorithm, weir_error *err)
{
    const char *coll = wr_collective_name(spec->coll);
    char name[32];
    if (override_of(state->comm->ctx->config.algo, coll, name, sizeof name)) {
        const struct wr_algorithm *a = wr_algorithm_find(spec->coll, name);
        if (!a || !a->applies(spec))
            return wr_error_set(err, WEIR_ERR_CONFIG, "weir-plan --list shows the algorithms",
                                a ? "WEIR_ALGO: the algorithm %s does not serve this %s"
                                  : "WEIR_ALGO: there is no algorithm %s for %s",
                                name, coll);
        *algorithm = a;
        return WEIR_OK;
    }
    for (const char *const *p = preference(spec); *p; p++) {
        const struct wr_algorithm *a = wr_algorithm_find(spec->coll, *p);
        if (a && a->applies(spec)) {
            *algorithm = a;
            return WEIR_OK;
        }
    }
    for (int i = 0; wr_algorithms[i]; i++)
        if (wr_algorithms[i]->coll == spec->coll && wr_algorithms[i]->applies(spec)) {
            *algorithm = wr_algorithms[i];
            return WEIR_OK;
        }
    return wr_error_set(err, WEIR_ERR_UNSUPPORTED, NULL, "no algorithm serves this %s", coll);
}
