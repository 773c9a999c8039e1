/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every collective of weir beside that of the MPI that started the ranks, on the same data: the results must be the same bits.
 * The ranks of weir find each other through MPI. usage: conform [NODES]: virtual nodes for weir
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/weir.h>

enum { ROOT = 1, MOST = 2000 };

static weir_comm *comm;
static int rank, size;
static uint64_t compared;

static int exchange(void *user, const void *send, void *recv, size_t bytes)
{
    (void)user;
    return MPI_Allgather(send, (int)bytes, MPI_BYTE, recv, (int)bytes, MPI_BYTE, MPI_COMM_WORLD) != MPI_SUCCESS;
}

static void stop(const char *what)
{
    fprintf(stderr, "FAIL rank %d of %d: %s: %s\n", rank, size, what,
            comm ? weir_last_error(weir_comm_ctx(comm))->message : "");
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* The same small whole numbers in every type: any order of combination gives the same bits. */
static void fill(void *at, weir_type type, uint64_t n, unsigned seed)
{
    for (uint64_t i = 0; i < n; i++) {
        unsigned v = (unsigned)(i * 2654435761u + seed * 40503u + (unsigned)rank * 97u) >> 9;
        int64_t whole = v % 4;
        double real = (double)whole;
        float single = (float)whole;
        size_t elem = weir_type_size(type);
        memcpy((char *)at + i * elem, type == WEIR_FP64 ? (void *)&real : type == WEIR_FP32 ? (void *)&single : (void *)&whole,
               elem);
    }
}

struct set {
    char *in, *ours, *theirs;
    size_t bytes;
};

static void begin(struct set *s, weir_type type, unsigned seed)
{
    fill(s->in, type, s->bytes / weir_type_size(type), seed);
    memset(s->ours, 0x5a, s->bytes);
    memset(s->theirs, 0x5a, s->bytes);
}

static void end(const struct set *s, weir_status status, int rc, const char *what)
{
    if (status || rc != MPI_SUCCESS)
        stop(what);
    if (memcmp(s->ours, s->theirs, s->bytes) != 0)
        stop(what);
    compared++;
}

static void reductions(struct set *s, weir_type t, MPI_Datatype m, weir_op op, MPI_Op mop, uint64_t n)
{
    int c = (int)n, counts[64];
    uint64_t ours[64];
    for (int r = 0; r < size; r++)
        ours[r] = (uint64_t)(counts[r] = (int)(n * (uint64_t)r / (uint64_t)size));
    begin(s, t, 1);
    end(s, weir_allreduce(comm, s->in, s->ours, n, t, op), MPI_Allreduce(s->in, s->theirs, c, m, mop, MPI_COMM_WORLD),
        "allreduce");
    begin(s, t, 2);
    end(s, weir_reduce(comm, s->in, s->ours, n, t, op, ROOT % size),
        MPI_Reduce(s->in, s->theirs, c, m, mop, ROOT % size, MPI_COMM_WORLD), "reduce");
    begin(s, t, 3);
    end(s, weir_reduce_scatter(comm, s->in, s->ours, n, t, op),
        MPI_Reduce_scatter_block(s->in, s->theirs, c, m, mop, MPI_COMM_WORLD), "reduce_scatter");
    begin(s, t, 4);
    end(s, weir_scan(comm, s->in, s->ours, n, t, op), MPI_Scan(s->in, s->theirs, c, m, mop, MPI_COMM_WORLD), "scan");
    begin(s, t, 5);
    weir_status status = weir_exscan(comm, s->in, s->ours, n, t, op);
    int rc = MPI_Exscan(s->in, s->theirs, c, m, mop, MPI_COMM_WORLD);
    if (rank == 0) /* MPI leaves it undefined */
        memcpy(s->theirs, s->ours, s->bytes);
    end(s, status, rc, "exscan");
    begin(s, t, 6);
    end(s, weir_reduce_scatterv(comm, s->in, s->ours, ours, t, op),
        MPI_Reduce_scatter(s->in, s->theirs, counts, m, mop, MPI_COMM_WORLD), "reduce_scatterv");
}

static void movements(struct set *s, weir_type t, MPI_Datatype m, uint64_t n)
{
    int c = (int)n, root = ROOT % size;
    begin(s, t, 7);
    memcpy(s->ours, s->in, s->bytes);
    memcpy(s->theirs, s->in, s->bytes);
    end(s, weir_bcast(comm, s->ours, n, t, root), MPI_Bcast(s->theirs, c, m, root, MPI_COMM_WORLD), "bcast");
    begin(s, t, 8);
    end(s, weir_allgather(comm, s->in, s->ours, n, t), MPI_Allgather(s->in, c, m, s->theirs, c, m, MPI_COMM_WORLD),
        "allgather");
    begin(s, t, 9);
    end(s, weir_gather(comm, s->in, s->ours, n, t, root),
        MPI_Gather(s->in, c, m, s->theirs, c, m, root, MPI_COMM_WORLD), "gather");
    begin(s, t, 10);
    end(s, weir_scatter(comm, s->in, s->ours, n, t, root),
        MPI_Scatter(s->in, c, m, s->theirs, c, m, root, MPI_COMM_WORLD), "scatter");
    begin(s, t, 11);
    end(s, weir_alltoall(comm, s->in, s->ours, n, t), MPI_Alltoall(s->in, c, m, s->theirs, c, m, MPI_COMM_WORLD),
        "alltoall");
}

/* Unequal counts, with gaps; what a rank sends to another is what that one sends back. */
static void uneven(struct set *s, weir_type t, MPI_Datatype m, uint64_t n)
{
    int counts[64], offsets[64], pairs[64], pair_offsets[64], root = ROOT % size, at = 0, pair_at = 0;
    uint64_t c[64], o[64], p[64], po[64];
    for (int r = 0; r < size; r++) {
        c[r] = (uint64_t)(counts[r] = (int)(n * (uint64_t)r / (uint64_t)size));
        p[r] = (uint64_t)(pairs[r] = (int)(n * (uint64_t)((r + rank) % size) / (uint64_t)size));
        o[r] = (uint64_t)(offsets[r] = at);
        po[r] = (uint64_t)(pair_offsets[r] = pair_at);
        at += counts[r] + 1;
        pair_at += pairs[r] + r % 2;
    }
    int mine = counts[rank];
    begin(s, t, 12);
    end(s, weir_allgatherv(comm, s->in, s->ours, c, o, t),
        MPI_Allgatherv(s->in, mine, m, s->theirs, counts, offsets, m, MPI_COMM_WORLD), "allgatherv");
    begin(s, t, 13);
    end(s, weir_gatherv(comm, s->in, c[rank], s->ours, c, o, t, root),
        MPI_Gatherv(s->in, mine, m, s->theirs, counts, offsets, m, root, MPI_COMM_WORLD), "gatherv");
    begin(s, t, 14);
    end(s, weir_scatterv(comm, s->in, c, o, s->ours, c[rank], t, root),
        MPI_Scatterv(s->in, counts, offsets, m, s->theirs, mine, m, root, MPI_COMM_WORLD), "scatterv");
    begin(s, t, 15);
    end(s, weir_alltoallv(comm, s->in, p, po, s->ours, p, po, t),
        MPI_Alltoallv(s->in, pairs, pair_offsets, m, s->theirs, pairs, pair_offsets, m, MPI_COMM_WORLD), "alltoallv");
}

static void all(struct set *s)
{
    const struct {
        weir_type type;
        MPI_Datatype mpi;
    } type[] = {{WEIR_INT8, MPI_INT8_T},     {WEIR_INT16, MPI_INT16_T},   {WEIR_INT32, MPI_INT32_T}, {WEIR_INT64, MPI_INT64_T},
                {WEIR_UINT8, MPI_UINT8_T},   {WEIR_UINT16, MPI_UINT16_T}, {WEIR_UINT32, MPI_UINT32_T},
                {WEIR_UINT64, MPI_UINT64_T}, {WEIR_FP32, MPI_FLOAT},      {WEIR_FP64, MPI_DOUBLE}};
    const struct {
        weir_op op;
        MPI_Op mpi;
    } op[] = {{WEIR_SUM, MPI_SUM}, {WEIR_PROD, MPI_PROD}, {WEIR_MIN, MPI_MIN}, {WEIR_MAX, MPI_MAX},
              {WEIR_AND, MPI_BAND}, {WEIR_OR, MPI_BOR},   {WEIR_XOR, MPI_BXOR}};
    static const uint64_t sizes[] = {1, 333, MOST};
    for (unsigned k = 0; k < 70; k++) { /* every type with every operation, each with one of the sizes */
        unsigned t = k % 10, o = k / 10;
        uint64_t n = sizes[(k + o) % 3];
        if (t < 8 || o < 4)
            reductions(s, type[t].type, type[t].mpi, op[o].op, op[o].mpi, n);
    }
    for (unsigned k = 0; k < 12; k++) {
        movements(s, type[k % 10].type, type[k % 10].mpi, sizes[k % 3]);
        uneven(s, type[k % 10].type, type[k % 10].mpi, sizes[k % 3]);
    }
}

int main(int argc, char **argv)
{
    char nodes[32] = "NODES=0";
    const char *config[] = {nodes, NULL};
    weir_init_options options = WEIR_INIT_OPTIONS_INIT;
    weir_boot_callbacks callbacks = {.size = sizeof callbacks, .allgather = exchange};
    weir_error err;
    weir_ctx *ctx;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    snprintf(nodes, sizeof nodes, "NODES=%s", argc > 1 ? argv[1] : "0");
    callbacks.rank = rank;
    callbacks.nranks = size;
    options.callbacks = &callbacks;
    options.config = config;
    options.error = &err;
    if (size > 64 || weir_init(&options, &ctx)) {
        fprintf(stderr, "FAIL rank %d: weir_init: %s\n", rank, err.message);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (weir_comm_world(ctx, &comm))
        stop("weir_comm_world");
    struct set s = {.bytes = (size_t)MOST * 8 * (size_t)(size + 1)};
    s.in = malloc(s.bytes);
    s.ours = malloc(s.bytes);
    s.theirs = malloc(s.bytes);
    if (!s.in || !s.ours || !s.theirs)
        stop("no memory");
    all(&s);
    if (rank == 0)
        printf("%llu results are those of MPI, %d ranks over %s\n", (unsigned long long)compared, size,
               weir_comm_transport(comm, size - 1));
    free(s.in);
    free(s.ours);
    free(s.theirs);
    weir_status status = weir_finalize(ctx);
    MPI_Finalize();
    return status != WEIR_OK;
}
