/* SPDX-License-Identifier: BSD-3-Clause */
/* An imagined machine from a few words: "switch:2 node:4 package:2 core:8". */
#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/error.h"
#include "topo/card.h"
#include "topo/tree.h"

#define ADVICE                                                                                                         \
    "write levels from the outermost to the innermost, e.g. 'switch:2 node:4 package:2 numa:2 cache:2 core:8'"

enum kind { KIND_GROUP, KIND_SWITCH, KIND_NODE, KIND_PACKAGE, KIND_NUMA, KIND_CACHE, KIND_CORE, NKINDS };
static const char *const words[NKINDS] = {"group", "switch", "node", "package", "numa", "cache", "core"};

enum { RANKS_MAX = 1 << 24 };

struct plan {
    int64_t nranks;
    int64_t nnodes;
    int nswitches;                              /* levels above the nodes */
    enum kind switch_kind[WR_SWITCH_DEPTH_MAX]; /* outermost first */
    int64_t switch_count[WR_SWITCH_DEPTH_MAX];  /* children of each above */
    int64_t count[NKINDS];                      /* inside a node: children of the level above; 0 when not given */
};

static weir_status add_level(struct plan *plan, enum kind kind, int64_t count, weir_error *err)
{
    if (plan->nranks > RANKS_MAX / count)
        return wr_error_set(err, WEIR_ERR_LIMIT, "describe a smaller machine", "the machine has more than %d ranks",
                            RANKS_MAX);
    plan->nranks *= count;
    if (kind <= KIND_NODE)
        plan->nnodes *= count;
    if (kind >= KIND_NODE) {
        plan->count[kind] = count;
        return WEIR_OK;
    }
    if (plan->nswitches == WR_SWITCH_DEPTH_MAX)
        return wr_error_set(err, WEIR_ERR_LIMIT, "describe a smaller machine", "more than %d levels of switches",
                            WR_SWITCH_DEPTH_MAX);
    plan->switch_kind[plan->nswitches] = kind;
    plan->switch_count[plan->nswitches++] = count;
    return WEIR_OK;
}

/* One word "name:count"; `last` is the kind of the word before, -1 for the first. */
static weir_status parse_word(struct plan *plan, const char *word, size_t len, int *last, weir_error *err)
{
    const char *colon = memchr(word, ':', len);
    int64_t count = 0;
    int kind = 0;
    size_t name_len = colon ? (size_t)(colon - word) : len;
    while (kind < NKINDS && (strlen(words[kind]) != name_len || memcmp(words[kind], word, name_len)))
        kind++;
    if (kind == NKINDS)
        return wr_error_set(err, WEIR_ERR_INVALID, ADVICE, "'%.*s' is no level", (int)WR_MIN(len, 60u), word);
    for (const char *c = colon ? colon + 1 : word + len; c < word + len; c++)
        count = isdigit((unsigned char)*c) && count >= 0 && count <= RANKS_MAX ? 10 * count + (*c - '0') : -1;
    if (count < 1)
        return wr_error_set(err, WEIR_ERR_INVALID, ADVICE, "'%.*s' has no number of 1 or more", (int)WR_MIN(len, 60u),
                            word);
    if (kind < *last || (kind == *last && kind > KIND_SWITCH))
        return wr_error_set(err, WEIR_ERR_INVALID, ADVICE, "'%.*s' cannot stand inside '%s'", (int)WR_MIN(len, 60u),
                            word, words[*last]);
    *last = kind;
    return add_level(plan, (enum kind)kind, count, err);
}

static weir_status parse_spec(struct plan *plan, const char *spec, weir_error *err)
{
    int last = -1;
    memset(plan, 0, sizeof *plan);
    plan->nranks = plan->nnodes = 1;
    for (const char *at = spec + strspn(spec, " \t\n,"); *at;) {
        size_t len = strcspn(at, " \t\n,");
        weir_status status = parse_word(plan, at, len, &last, err);
        if (status)
            return status;
        at += len;
        at += strspn(at, " \t\n,");
    }
    if (last < 0)
        return wr_error_set(err, WEIR_ERR_INVALID, ADVICE, "the machine is described by no word");
    for (int kind = KIND_PACKAGE; kind <= KIND_CACHE; kind++) {
        int64_t total = 1;
        for (int outer = KIND_PACKAGE; outer <= kind; outer++)
            total *= WR_MAX(plan->count[outer], 1);
        if (total > INT16_MAX)
            return wr_error_set(err, WEIR_ERR_LIMIT, "describe a smaller node", "a node with %lld times '%s'",
                                (long long)total, words[kind]);
    }
    return WEIR_OK;
}

/* Indices count over the whole node, as hwloc's logical ones do. */
static void place_rank(const struct plan *plan, int64_t local, int64_t per_node, struct wr_place *place)
{
    int64_t index[NKINDS], ranks = per_node; /* ranks in one object of the kind */
    for (int kind = KIND_PACKAGE; kind < NKINDS; kind++) {
        ranks /= WR_MAX(plan->count[kind], 1);
        index[kind] = plan->count[kind] ? local / ranks : -1;
    }
    *place = (struct wr_place){
        .core = (int32_t)local,
        .npus = 1,
        .cpus = WR_NO_CPUS,
        .package = (int16_t)index[KIND_PACKAGE],
        .numa = (int16_t)index[KIND_NUMA],
        .cache = (int16_t)index[KIND_CACHE],
    };
}

/* The switches above node number `number`, of `nnodes`. */
static bool connect_node(const struct plan *plan, int64_t number, struct wr_switches *switches, int32_t *leaf)
{
    int64_t nodes = plan->nnodes, index = 0;
    int at = -1, seen[2] = {0, 0};
    for (int i = 0; i < plan->nswitches; i++) {
        char name[64];
        bool is_switch = plan->switch_kind[i] == KIND_SWITCH;
        nodes /= plan->switch_count[i];
        index = number / nodes;
        /* switches of several levels are told apart by a letter: switch-a0 above switch-b0 */
        if (seen[is_switch]++ || (i + 1 < plan->nswitches && plan->switch_kind[i + 1] == plan->switch_kind[i]))
            snprintf(name, sizeof name, "%s-%c%lld", words[plan->switch_kind[i]], 'a' + seen[is_switch] - 1,
                     (long long)index);
        else
            snprintf(name, sizeof name, "%s%lld", words[plan->switch_kind[i]], (long long)index);
        at = wr_switches_add(switches, at, is_switch ? WEIR_LEVEL_SWITCH : WEIR_LEVEL_GROUP, name, strlen(name));
        if (at < 0)
            return false;
    }
    *leaf = at;
    return true;
}

static weir_status fill(weir_topo *topo, const struct plan *plan, struct wr_switches *switches, weir_error *err)
{
    int64_t per_node = plan->nranks / plan->nnodes;
    topo->nodes = calloc((size_t)plan->nnodes, sizeof *topo->nodes);
    if (!topo->nodes)
        return wr_error_memory(err, (size_t)plan->nnodes * sizeof *topo->nodes, "the nodes of the topology");
    topo->nnodes = (int)plan->nnodes;
    for (int64_t rank = 0; rank < plan->nranks; rank++) {
        topo->node_of[rank] = (int32_t)(rank / per_node);
        place_rank(plan, rank % per_node, per_node, &topo->places[rank]);
    }
    for (int i = 0; i < topo->nnodes; i++) {
        struct wr_node *node = &topo->nodes[i];
        char host[32];
        snprintf(host, sizeof host, "node%d", i);
        node->host = wr_topo_string(topo, host, strlen(host));
        node->flags = (uint8_t)((plan->count[KIND_PACKAGE] ? WR_NODE_HAS_PACKAGES : 0) |
                                (plan->count[KIND_NUMA] ? WR_NODE_HAS_NUMAS : 0) |
                                (plan->count[KIND_CACHE] ? WR_NODE_HAS_CACHES : 0));
        if (!connect_node(plan, i, switches, &node->leaf) || topo->strings.failed)
            return wr_error_memory(err, 0, "the switches of the topology");
    }
    wr_switches_finish(switches);
    return wr_topo_index_nodes(topo, err);
}

weir_status weir_topo_create(const char *spec, weir_topo **topo, weir_error *error)
{
    struct plan plan;
    struct wr_switches switches = {.cap = 0};
    if (!spec || !topo)
        return wr_error_set(error, WEIR_ERR_INVALID, ADVICE,
                            "weir_topo_create needs a description and a place for the result");
    weir_status status = parse_spec(&plan, spec, error);
    if (status)
        return status;
    weir_topo *made = wr_topo_alloc((int)plan.nranks);
    if (!made)
        return wr_error_memory(error, (size_t)plan.nranks * sizeof *made->places, "the topology");
    status = fill(made, &plan, &switches, error);
    if (!status)
        status = wr_topo_make_levels(made, &switches, error);
    wr_switches_free(&switches);
    if (status) {
        weir_topo_free(made);
        return status;
    }
    *topo = made;
    return WEIR_OK;
}
