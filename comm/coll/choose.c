/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which algorithm serves a collective, and with which parameters: what WEIR_ALGO says, or what takes least time on the cost
 * model. Rank 0 decides and tells the others.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "comm/coll/coll.h"
#include "comm/plan/simulate.h"
#include "comm/plan/tuning.h"

/* Steps that a simulation may run: it takes some milliseconds then. */
enum { STEPS_MAX = 30000, RAILS_MAX = 64 };

/* By less than this factor the model does not tell: what comes earlier in the table of algorithms is taken. */
static const double CLEAR = 0.9;

/* ---- WEIR_ALGO ---- */

static void list_names(enum wr_collective coll, char *buf, size_t size)
{
    buf[0] = '\0';
    for (int i = 0; wr_algorithms[i]; i++)
        if (wr_algorithms[i]->coll == coll) {
            wr_str_append(buf, size, buf[0] ? ", " : "");
            wr_str_append(buf, size, wr_algorithms[i]->name);
        }
}

/* "allgather:ring" */
static weir_status check_item(const char *item, size_t len, weir_error *err)
{
    char names[300] = "", coll[32] = "", name[32] = "";
    size_t head = strcspn(item, ":,");
    if (head < len && head < sizeof coll && len - head - 1 < sizeof name) {
        memcpy(coll, item, head);
        memcpy(name, item + head + 1, len - head - 1);
    }
    for (int c = 0; c < WR_COLL_COUNT; c++) {
        if (strcmp(wr_collective_name((enum wr_collective)c), coll) != 0) {
            wr_str_append(names, sizeof names, c ? ", " : "");
            wr_str_append(names, sizeof names, wr_collective_name((enum wr_collective)c));
            continue;
        }
        if (wr_algorithm_find((enum wr_collective)c, name))
            return WEIR_OK;
        list_names((enum wr_collective)c, names, sizeof names);
        return wr_error_set(err, WEIR_ERR_CONFIG, "weir-plan --list shows all of them",
                            "WEIR_ALGO: there is no algorithm '%s' for %s; there are %s", name, coll, names);
    }
    return wr_error_set(err, WEIR_ERR_CONFIG, "write COLLECTIVE:ALGORITHM,COLLECTIVE:ALGORITHM, for example allgather:ring",
                        "WEIR_ALGO: '%.*s' does not begin with a collective; there are %s", (int)WR_MIN(len, 60), item, names);
}

/* The algorithm that WEIR_ALGO ("allgather:ring,allreduce:hier") has for a collective: NULL when it has none. */
static weir_status asked_for(const char *spec, enum wr_collective coll, const struct wr_algorithm **algorithm, weir_error *err)
{
    const char *name = wr_collective_name(coll);
    *algorithm = NULL;
    for (const char *item = spec; item && *item;) {
        size_t len = strcspn(item, ","), head = strlen(name);
        weir_status status = check_item(item, len, err);
        if (status)
            return status;
        for (int i = 0; len > head && !memcmp(item, name, head) && item[head] == ':' && wr_algorithms[i]; i++)
            if (wr_algorithms[i]->coll == coll && strlen(wr_algorithms[i]->name) == len - head - 1 &&
                !memcmp(wr_algorithms[i]->name, item + head + 1, len - head - 1))
                *algorithm = wr_algorithms[i];
        item += len;
        item += *item == ',';
    }
    return WEIR_OK;
}

weir_status wr_coll_algorithm_asked(const struct wr_coll_state *state, enum wr_collective coll, bool *asked, weir_error *err)
{
    const struct wr_algorithm *algorithm;
    weir_status status = asked_for(state->comm->ctx->config.algo, coll, &algorithm, err);
    *asked = !status && algorithm;
    return status;
}

/* ---- the cost model ---- */

static weir_status know_costs(struct wr_coll_state *state, weir_error *err)
{
    weir_status status = state->cost_known ? WEIR_OK : wr_tuning_load(state->comm->ctx, &state->cost, err);
    state->cost_known = !status;
    return status;
}

/*
 * What a plan takes of the network, as the time for which it fills a node's interfaces on average, out and in. Others use the
 * network too: of two plans that are nearly as fast the one that moves less is better, even where the busiest node is the same.
 */
static double load_of(const struct wr_plan_spec *spec, const struct wr_sim_result *result, const struct wr_cost *cost)
{
    double bytes = 0;
    for (int i = 1; i < WR_SIM_LEVELS; i++)
        bytes += (double)result->bytes[i];
    return 2 * bytes / (spec->topo->nnodes * cost->bandwidth * cost->rails);
}

/* Predicts one candidate; takes it when it is clearly better than the choice, or nothing has been chosen. */
static void consider(const struct wr_coll_state *state, const struct wr_plan_spec *spec, const struct wr_algorithm *a,
                     struct wr_coll_choice *choice)
{
    struct wr_sim_options options = {.max_steps = STEPS_MAX};
    struct wr_sim_result result;
    weir_error why;
    if (wr_simulate(spec, a, &state->cost, &options, &result, &why)) {
        if (!choice->algorithm)
            *choice = (struct wr_coll_choice){.algorithm = a, .chunk = spec->chunk, .rails = spec->rails};
        return;
    }
    wr_debug(&state->comm->ctx->log, PLAN, "%s:%s, rails %d: %.2f us predicted", wr_collective_name(spec->coll), a->name,
             spec->rails, result.time / 1e3);
    double weight = result.time + load_of(spec, &result, &state->cost);
    if (choice->algorithm && choice->predicted > 0 && weight >= CLEAR * choice->weight)
        return;
    *choice = (struct wr_coll_choice){.algorithm = a, .chunk = spec->chunk, .rails = spec->rails, .predicted = result.time,
                                      .bound = result.bound, .weight = weight};
}

static int most_mates(const struct wr_plan_topo *topo)
{
    int most = 0;
    for (int n = 0; n < topo->nnodes; n++)
        most = WR_MAX(most, topo->node_size[n]);
    return most;
}

weir_status wr_coll_choose(struct wr_coll_state *state, const struct wr_plan_spec *spec, struct wr_coll_choice *choice,
                           weir_error *err)
{
    const struct wr_algorithm *asked;
    struct wr_plan_spec variant = *spec;
    int mates = most_mates(spec->topo);
    weir_status status = know_costs(state, err);
    memset(choice, 0, sizeof *choice);
    if (!status)
        status = asked_for(state->comm->ctx->config.algo, spec->coll, &asked, err);
    if (status)
        return status;
    if (asked && !asked->applies(spec))
        return wr_error_set(err, WEIR_ERR_CONFIG, "weir-plan --list shows the algorithms",
                            "WEIR_ALGO: the algorithm %s does not serve this %s", asked->name, wr_collective_name(spec->coll));
    for (int i = 0; wr_algorithms[i]; i++)
        if (wr_algorithms[i]->coll == spec->coll && (asked ? wr_algorithms[i] == asked : wr_algorithms[i]->applies(spec)))
            consider(state, spec, wr_algorithms[i], choice);
    if (!choice->algorithm)
        return wr_error_set(err, WEIR_ERR_UNSUPPORTED, NULL, "no algorithm serves this %s", wr_collective_name(spec->coll));
    /* fewer ranks a node at the network: worth it for small messages */
    for (variant.rails = 1; spec->topo->nnodes > 1 && variant.rails < WR_MIN(mates, RAILS_MAX); variant.rails *= 2)
        consider(state, &variant, choice->algorithm, choice);
    choice->asked = asked != NULL;
    return WEIR_OK;
}

/* ---- agreement ---- */

static uint64_t mix(uint64_t hash, const void *data, size_t len)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ p[i]) * 0x100000001b3u; /* FNV-1a */
    return hash;
}

/* What builders see, besides the call: the machine, and the algorithms that this build has. */
static uint64_t fingerprint(const struct wr_plan_spec *spec)
{
    const struct wr_plan_topo *topo = spec->topo;
    uint64_t hash = mix(0xcbf29ce484222325u, weir_version(), strlen(weir_version()));
    hash = mix(hash, topo->node_of, (size_t)topo->nranks * sizeof *topo->node_of);
    for (int l = 0; l < topo->nlevels; l++)
        hash = mix(hash, topo->group_of[l], (size_t)topo->nnodes * sizeof *topo->group_of[l]);
    for (int i = 0; wr_algorithms[i]; i++)
        hash = mix(hash, wr_algorithms[i]->name, strlen(wr_algorithms[i]->name) + 1);
    const uint64_t fields[] = {(uint64_t)spec->coll, (uint64_t)spec->root, spec->counts ? 0 : spec->count, spec->reduces,
                               spec->in_mapped, spec->out_mapped, spec->out_shared, spec->out_remote, spec->reproducible,
                               spec->elem_size, spec->partial_size, spec->counts != NULL};
    return mix(hash, fields, sizeof fields);
}

/* As it travels. */
struct wr_coll_choice_card {
    uint64_t hash, chunk;
    double predicted, bound;
    int32_t algorithm, rails, asked, unused;
};

static int32_t index_of(const struct wr_algorithm *algorithm)
{
    int32_t i = 0;
    while (wr_algorithms[i] && wr_algorithms[i] != algorithm)
        i++;
    return i;
}

/* Buffers of a program that rotate ask for the same again and again. */
static weir_status choose_once(struct wr_coll_state *state, const struct wr_plan_spec *spec, uint64_t hash,
                               struct wr_coll_choice *choice, weir_error *err)
{
    struct wr_coll_decision *known = &state->decision[hash % WR_COLL_DECISIONS];
    if (!spec->counts && known->choice.algorithm && known->hash == hash) {
        *choice = known->choice;
        return WEIR_OK;
    }
    weir_status status = wr_coll_choose(state, spec, choice, err);
    if (!status)
        *known = (struct wr_coll_decision){hash, *choice};
    return status;
}

/* ---- the steps of deciding ---- */

static weir_status choose_first(void *arg, struct wr_steps *steps, weir_error *err)
{
    struct wr_coll_deciding *d = arg;
    weir_status status = WEIR_OK;
    d->hash = fingerprint(d->spec);
    d->cards = malloc((size_t)steps->comm->size * sizeof *d->cards);
    if (!d->cards)
        status = wr_error_memory(err, (size_t)steps->comm->size * sizeof *d->cards, "a choice");
    else if (steps->comm->rank == 0)
        status = choose_once(d->state, d->spec, d->hash ^ d->spec->in_place, d->choice, err);
    return wr_steps_agree(steps, status, err);
}

static weir_status tell_choice(void *arg, struct wr_steps *steps, weir_error *err)
{
    struct wr_coll_deciding *d = arg;
    const struct wr_coll_choice *choice = d->choice;
    struct wr_coll_choice_card card;
    memset(&card, 0, sizeof card);
    if (steps->comm->rank == 0)
        card = (struct wr_coll_choice_card){.chunk = choice->chunk, .predicted = choice->predicted, .bound = choice->bound,
                                            .algorithm = index_of(choice->algorithm), .rails = choice->rails, .asked = choice->asked};
    card.hash = d->hash;
    return wr_steps_gather(steps, &card, d->cards, sizeof card, err);
}

static weir_status take_choice(void *arg, struct wr_steps *steps, weir_error *err)
{
    struct wr_coll_deciding *d = arg;
    const struct wr_coll_choice_card *first = &d->cards[0];
    for (int r = 1; r < steps->comm->size; r++)
        if (d->cards[r].hash != first->hash)
            return wr_error_set(err, WEIR_ERR_MISMATCH, "run one build of weir on all ranks",
                                "ranks 0 and %d would make different plans of this %s", r, wr_collective_name(d->spec->coll));
    *d->choice = (struct wr_coll_choice){.algorithm = wr_algorithms[first->algorithm],
                                         .chunk = first->chunk,
                                         .rails = first->rails,
                                         .asked = first->asked != 0,
                                         .predicted = first->predicted,
                                         .bound = first->bound};
    d->spec->chunk = d->choice->chunk;
    d->spec->rails = d->choice->rails;
    return WEIR_OK;
}

struct wr_steps *wr_coll_decide(struct wr_coll_deciding *d, struct wr_coll_state *state, struct wr_plan_spec *spec,
                                struct wr_coll_choice *choice)
{
    static const wr_step list[] = {choose_first, tell_choice, take_choice, NULL};
    *d = (struct wr_coll_deciding){.state = state, .spec = spec, .choice = choice};
    wr_steps_init(&d->steps, state->comm, list, d);
    return &d->steps;
}

void wr_coll_end_deciding(struct wr_coll_deciding *d)
{
    free(d->cards);
    d->cards = NULL;
}
