/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/comm.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "comm/context_cards.h"
#include "comm/transport/layer.h"
#include "topo/topo.h"

weir_ctx *weir_comm_ctx(const weir_comm *comm)
{
    return comm->ctx;
}

int weir_comm_rank(const weir_comm *comm)
{
    return comm->rank;
}

int weir_comm_size(const weir_comm *comm)
{
    return comm->size;
}

/* The transport to a rank, below its layers; NULL when there is none. */
static const struct wr_transport *transport_to(const weir_comm *comm, int rank)
{
    if (rank < 0 || rank >= comm->size)
        return NULL;
    int peer = wr_comm_world_rank(comm, rank);
    return comm->engine->route[peer] == WR_NO_ROUTE ? NULL : wr_layer_bottom(wr_engine_route(comm->engine, peer));
}

const char *weir_comm_transport(const weir_comm *comm, int rank)
{
    const struct wr_transport *t = transport_to(comm, rank);
    return t ? t->ops->name : NULL;
}

const char *weir_comm_provider(const weir_comm *comm, int rank)
{
    const struct wr_transport *t = transport_to(comm, rank);
    if (!t)
        return NULL;
    return t->caps.provider ? t->caps.provider : "";
}

int weir_comm_world_rank(const weir_comm *comm, int rank)
{
    return rank >= 0 && rank < comm->size ? wr_comm_world_rank(comm, rank) : -1;
}

static weir_status make_topo(weir_comm *comm, const weir_topo **topo, weir_error *err)
{
    const weir_topo *whole = NULL;
    weir_status status = wr_comm_check_alive(comm, err);
    if (!status)
        status = wr_ctx_topo(comm->ctx, &whole, err);
    if (status || comm->topo || !comm->group.world) {
        *topo = comm->topo ? comm->topo : whole;
        return status;
    }
    status = wr_topo_restrict(whole, comm->group.world, comm->size, &comm->topo, err);
    *topo = comm->topo;
    return status;
}

weir_status weir_comm_topo(weir_comm *comm, const weir_topo **topo)
{
    weir_error err;
    const weir_topo *made = NULL;
    wr_error_clear(&err);
    pthread_mutex_lock(&comm->ctx->comms_lock);
    weir_status status = make_topo(comm, &made, &err);
    pthread_mutex_unlock(&comm->ctx->comms_lock);
    if (status)
        return wr_comm_fail(comm, &err, "weir_comm_topo");
    *topo = made;
    return WEIR_OK;
}

weir_status wr_comm_check_rank(const weir_comm *comm, const char *what, int rank, weir_error *err)
{
    if (rank >= 0 && rank < comm->size)
        return WEIR_OK;
    return wr_error_set(err, WEIR_ERR_INVALID, NULL, "%s %d is not in 0..%d", what, rank, comm->size - 1);
}

weir_status wr_comm_check_alive(const weir_comm *comm, weir_error *err)
{
    if (comm->coll)
        return WEIR_OK;
    return wr_error_set(err, WEIR_ERR_STALE, "use a communicator between its making and its freeing",
                        "the communicator was freed already");
}

weir_status wr_comm_fail(const weir_comm *comm, weir_error *err, const char *operation)
{
    if (err->rank < 0)
        err->rank = comm->rank;
    if (!err->host[0] && (err->rank >= comm->size || !wr_engine_host(comm->engine, wr_comm_world_rank(comm, err->rank),
                                                                     err->host, sizeof err->host)))
        wr_str_copy(err->host, sizeof err->host, "?"); /* not this rank's */
    return wr_ctx_fail(comm->ctx, err, operation);
}

/* ---- the object ---- */

struct member {
    int world, rank;
};

static int by_world(const void *a, const void *b)
{
    int x = ((const struct member *)a)->world, y = ((const struct member *)b)->world;
    return (x > y) - (x < y);
}

/* Keeps the members, and their order by world rank unless it is that of their ranks. */
static bool make_group(struct wr_group *g, const int *world)
{
    size_t n = (size_t)g->size;
    bool sorted = true;
    if (!world)
        return true;
    g->world = malloc(n * sizeof *g->world);
    if (!g->world)
        return false;
    memcpy(g->world, world, n * sizeof *world);
    for (size_t r = 1; r < n; r++)
        sorted &= world[r - 1] < world[r];
    if (sorted)
        return true;
    struct member *m = malloc(n * sizeof *m);
    g->by_world = malloc(n * sizeof *g->by_world);
    for (size_t r = 0; m && g->by_world && r < n; r++)
        m[r] = (struct member){world[r], (int)r};
    if (m && g->by_world)
        qsort(m, n, sizeof *m, by_world);
    for (size_t r = 0; m && g->by_world && r < n; r++)
        g->by_world[r] = m[r].rank;
    bool made = m && g->by_world;
    free(m);
    return made;
}

/* Numbers the members' nodes. */
static bool make_nodes(struct weir_comm *comm)
{
    const weir_ctx *ctx = comm->ctx;
    size_t n = (size_t)comm->size;
    int *number = malloc((size_t)ctx->nnodes * sizeof *number); /* by node of the job */
    comm->node_of = malloc(n * sizeof *comm->node_of);
    comm->node_leader = malloc(n * sizeof *comm->node_leader);
    comm->mates = malloc(n * sizeof *comm->mates);
    bool made = number && comm->node_of && comm->node_leader && comm->mates;
    for (int i = 0; made && i < ctx->nnodes; i++)
        number[i] = -1;
    for (int r = 0; made && r < comm->size; r++) {
        int node = ctx->node_of[wr_comm_world_rank(comm, r)];
        if (number[node] < 0) {
            comm->node_leader[comm->nnodes] = r;
            number[node] = comm->nnodes++;
        }
        comm->node_of[r] = number[node];
    }
    for (int r = 0; made && comm->rank >= 0 && r < comm->size; r++) {
        if (comm->node_of[r] != comm->node_of[comm->rank])
            continue;
        if (r == comm->rank)
            comm->mate = comm->nmates;
        comm->mates[comm->nmates++] = r;
    }
    free(number);
    return made;
}

weir_status wr_comm_new(struct wr_comms *comms, weir_ctx *ctx, uint32_t id, const int *world, int size, struct weir_comm **out,
                        weir_error *err)
{
    struct weir_comm *comm = calloc(1, sizeof *comm);
    if (!comm)
        return wr_error_memory(err, sizeof *comm, "a communicator");
    *comm = (struct weir_comm){.ctx = ctx, .engine = comms->engine, .p2p = comms->p2p, .mem = comms->mem, .size = size, .next_mem_id = 1, .overdue = {.after_ns = WR_TIME_INF}};
    comm->group = (struct wr_group){.id = id, .size = size};
    wr_list_init(&comm->link);
    bool made = make_group(&comm->group, world);
    comm->rank = made ? wr_group_rank(&comm->group, ctx->rank) : -1;
    if (!made || !make_nodes(comm)) {
        wr_comm_free(comm);
        return wr_error_memory(err, (size_t)size * 5 * sizeof(int), "a communicator");
    }
    *out = comm;
    return WEIR_OK;
}

void wr_comm_free(struct weir_comm *comm)
{
    if (!comm)
        return;
    wr_list_remove(&comm->link);
    wr_shrink_free(comm);
    free(comm->group.world);
    free(comm->group.by_world);
    free(comm->node_of);
    free(comm->node_leader);
    free(comm->mates);
    weir_topo_free(comm->topo);
    free(comm);
}
