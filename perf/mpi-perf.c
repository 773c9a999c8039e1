/* SPDX-License-Identifier: BSD-3-Clause */
/* mpi-perf: the loop of weir-perf with the calls of an MPI. Persistent calls as far as the MPI has them. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(OPEN_MPI) && OPEN_MPI
#include <mpi-ext.h>
#endif

#include "perf/coll-loop.h"

#if MPI_VERSION >= 4
#define HAVE_PERSISTENT 1
#define INIT(name)      MPI_##name##_init
#elif defined(OMPI_HAVE_MPI_EXT_PCOLLREQ)
#define HAVE_PERSISTENT 1
#define INIT(name)      MPIX_##name##_init
#else
#define HAVE_PERSISTENT 0
#endif

struct self {
    MPI_Comm comm;
    MPI_Request requests[SLOTS_MAX];
    int used;
};

static bool ok(int rc, const char *what)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (rc == MPI_SUCCESS)
        return true;
    MPI_Error_string(rc, text, &length);
    fprintf(stderr, "mpi-perf: %s: %s\n", what, text);
    return false;
}

static MPI_Datatype type_of(weir_type type)
{
    switch (type) {
    case WEIR_INT8:
        return MPI_INT8_T;
    case WEIR_INT16:
        return MPI_INT16_T;
    case WEIR_INT32:
        return MPI_INT32_T;
    case WEIR_INT64:
        return MPI_INT64_T;
    case WEIR_UINT8:
        return MPI_UINT8_T;
    case WEIR_UINT16:
        return MPI_UINT16_T;
    case WEIR_UINT32:
        return MPI_UINT32_T;
    case WEIR_UINT64:
        return MPI_UINT64_T;
    case WEIR_FP32:
        return MPI_FLOAT;
    case WEIR_FP64:
        return MPI_DOUBLE;
    default:
        return MPI_DATATYPE_NULL;
    }
}

static MPI_Op op_of(weir_op op)
{
    switch (op) {
    case WEIR_SUM:
        return MPI_SUM;
    case WEIR_PROD:
        return MPI_PROD;
    case WEIR_MIN:
        return MPI_MIN;
    case WEIR_MAX:
        return MPI_MAX;
    case WEIR_AND:
        return MPI_BAND;
    case WEIR_OR:
        return MPI_BOR;
    case WEIR_XOR:
        return MPI_BXOR;
    default:
        return MPI_OP_NULL;
    }
}

static const char *refuse(void *self, const struct coll_options *o)
{
    (void)self;
    if (o->reference)
        return "the reference belongs to weir-perf";
    if (type_of(o->type) == MPI_DATATYPE_NULL)
        return "MPI has no type of 16-bit floats";
    if (coll_reduces(o->coll) && op_of(o->op) == MPI_OP_NULL)
        return "MPI has no operation for the average";
    if (o->memory == MEMORY_NODE_SHARED)
        return "MPI has no all-gather into a window of the node";
    if (o->persistent && !HAVE_PERSISTENT)
        return "this MPI has no persistent collectives";
    for (int i = 0; i < (o->nsizes ? o->nsizes : 1); i++)
        if ((o->nsizes ? o->sizes[i] : o->max) / coll_type_size(o->type) > 0x7fffffff)
            return "counts of MPI have 31 bits; choose smaller sizes";
    return NULL;
}

static bool run(void *self, struct coll_call *c)
{
    struct self *s = self;
    MPI_Datatype type = type_of(c->type);
    MPI_Op op = op_of(c->op);
    MPI_Comm comm = s->comm;
    const struct coll_parts *p = c->parts;
    int n = (int)c->count, mine = (int)c->mine, rc = MPI_ERR_OTHER;
    if (c->handle)
        return ok(MPI_Start(c->handle), "MPI_Start") && ok(MPI_Wait(c->handle, MPI_STATUS_IGNORE), "MPI_Wait");
    switch (c->coll) {
    case COLL_BARRIER:
        rc = MPI_Barrier(comm);
        break;
    case COLL_BCAST:
        rc = MPI_Bcast(c->out, n, type, 0, comm);
        break;
    case COLL_REDUCE:
        rc = MPI_Reduce(c->in, c->out, n, type, op, 0, comm);
        break;
    case COLL_ALLREDUCE:
        rc = MPI_Allreduce(c->in, c->out, n, type, op, comm);
        break;
    case COLL_REDUCE_SCATTER:
        rc = MPI_Reduce_scatter_block(c->in, c->out, n, type, op, comm);
        break;
    case COLL_ALLGATHER:
        rc = MPI_Allgather(c->in, n, type, c->out, n, type, comm);
        break;
    case COLL_GATHER:
        rc = MPI_Gather(c->in, n, type, c->out, n, type, 0, comm);
        break;
    case COLL_SCATTER:
        rc = MPI_Scatter(c->in, n, type, c->out, n, type, 0, comm);
        break;
    case COLL_ALLTOALL:
        rc = MPI_Alltoall(c->in, n, type, c->out, n, type, comm);
        break;
    case COLL_SCAN:
        rc = MPI_Scan(c->in, c->out, n, type, op, comm);
        break;
    case COLL_EXSCAN:
        rc = MPI_Exscan(c->in, c->out, n, type, op, comm);
        break;
    case COLL_REDUCE_SCATTERV:
        rc = MPI_Reduce_scatter(c->in, c->out, p->int_out_counts, type, op, comm);
        break;
    case COLL_ALLGATHERV:
        rc = MPI_Allgatherv(c->in, mine, type, c->out, p->int_out_counts, p->int_out_offsets, type, comm);
        break;
    case COLL_GATHERV:
        rc = MPI_Gatherv(c->in, mine, type, c->out, p->int_out_counts, p->int_out_offsets, type, 0, comm);
        break;
    case COLL_SCATTERV:
        rc = MPI_Scatterv(c->in, p->int_in_counts, p->int_in_offsets, type, c->out, mine, type, 0, comm);
        break;
    case COLL_ALLTOALLV:
        rc = MPI_Alltoallv(c->in, p->int_in_counts, p->int_in_offsets, type, c->out, p->int_out_counts,
                           p->int_out_offsets, type, comm);
        break;
    case COLLS:
        break;
    }
    return ok(rc, coll_name(c->coll));
}

#if HAVE_PERSISTENT
static bool make_persistent(void *self, struct coll_call *c)
{
    struct self *s = self;
    MPI_Datatype type = type_of(c->type);
    MPI_Op op = op_of(c->op);
    MPI_Comm comm = s->comm;
    MPI_Info info = MPI_INFO_NULL;
    MPI_Request *q = &s->requests[s->used];
    const struct coll_parts *p = c->parts;
    int n = (int)c->count, mine = (int)c->mine, rc = MPI_ERR_OTHER;
    switch (c->coll) {
    case COLL_BARRIER:
        rc = INIT(Barrier)(comm, info, q);
        break;
    case COLL_BCAST:
        rc = INIT(Bcast)(c->out, n, type, 0, comm, info, q);
        break;
    case COLL_REDUCE:
        rc = INIT(Reduce)(c->in, c->out, n, type, op, 0, comm, info, q);
        break;
    case COLL_ALLREDUCE:
        rc = INIT(Allreduce)(c->in, c->out, n, type, op, comm, info, q);
        break;
    case COLL_REDUCE_SCATTER:
        rc = INIT(Reduce_scatter_block)(c->in, c->out, n, type, op, comm, info, q);
        break;
    case COLL_ALLGATHER:
        rc = INIT(Allgather)(c->in, n, type, c->out, n, type, comm, info, q);
        break;
    case COLL_GATHER:
        rc = INIT(Gather)(c->in, n, type, c->out, n, type, 0, comm, info, q);
        break;
    case COLL_SCATTER:
        rc = INIT(Scatter)(c->in, n, type, c->out, n, type, 0, comm, info, q);
        break;
    case COLL_ALLTOALL:
        rc = INIT(Alltoall)(c->in, n, type, c->out, n, type, comm, info, q);
        break;
    case COLL_SCAN:
        rc = INIT(Scan)(c->in, c->out, n, type, op, comm, info, q);
        break;
    case COLL_EXSCAN:
        rc = INIT(Exscan)(c->in, c->out, n, type, op, comm, info, q);
        break;
    case COLL_REDUCE_SCATTERV:
        rc = INIT(Reduce_scatter)(c->in, c->out, p->int_out_counts, type, op, comm, info, q);
        break;
    case COLL_ALLGATHERV:
        rc = INIT(Allgatherv)(c->in, mine, type, c->out, p->int_out_counts, p->int_out_offsets, type, comm, info, q);
        break;
    case COLL_GATHERV:
        rc = INIT(Gatherv)(c->in, mine, type, c->out, p->int_out_counts, p->int_out_offsets, type, 0, comm, info, q);
        break;
    case COLL_SCATTERV:
        rc = INIT(Scatterv)(c->in, p->int_in_counts, p->int_in_offsets, type, c->out, mine, type, 0, comm, info, q);
        break;
    case COLL_ALLTOALLV:
        rc = INIT(Alltoallv)(c->in, p->int_in_counts, p->int_in_offsets, type, c->out, p->int_out_counts,
                             p->int_out_offsets, type, comm, info, q);
        break;
    case COLLS:
        break;
    }
    c->handle = q;
    s->used++;
    return ok(rc, "making a persistent call");
}

static bool free_persistent(void *self, struct coll_call *c)
{
    struct self *s = self;
    bool done = ok(MPI_Request_free(c->handle), "MPI_Request_free");
    c->handle = NULL;
    s->used--;
    return done;
}
#else
static bool make_persistent(void *self, struct coll_call *c)
{
    return (void)self, (void)c, false;
}

static bool free_persistent(void *self, struct coll_call *c)
{
    return (void)self, (void)c, false;
}
#endif

static void *alloc(void *self, size_t bytes, enum coll_memory memory, void **handle)
{
    void *p = NULL;
    (void)self;
    *handle = NULL;
    if (memory == MEMORY_HEAP) {
        if (posix_memalign(&p, 4096, bytes)) {
            fprintf(stderr, "mpi-perf: no %zu bytes of memory; choose smaller sizes\n", bytes);
            return NULL;
        }
        return p;
    }
    return ok(MPI_Alloc_mem((MPI_Aint)bytes, MPI_INFO_NULL, &p), "MPI_Alloc_mem") ? p : NULL;
}

static bool free_memory(void *self, void *address, enum coll_memory memory, void *handle)
{
    (void)self, (void)handle;
    if (memory != MEMORY_HEAP)
        return ok(MPI_Free_mem(address), "MPI_Free_mem");
    free(address);
    return true;
}

static bool barrier(void *self)
{
    return ok(MPI_Barrier(((struct self *)self)->comm), "MPI_Barrier");
}

static bool from_root(void *self, double *value)
{
    return ok(MPI_Bcast(value, 1, MPI_DOUBLE, 0, ((struct self *)self)->comm), "MPI_Bcast");
}

static bool combine(void *self, double *values, int n, bool sum)
{
    struct self *s = self;
    int rank, rc = MPI_Comm_rank(s->comm, &rank);
    if (rc == MPI_SUCCESS)
        rc = MPI_Reduce(rank ? values : MPI_IN_PLACE, values, n, MPI_DOUBLE, sum ? MPI_SUM : MPI_MAX, 0, s->comm);
    return ok(rc, "MPI_Reduce");
}

/* Nodes are where memory can be shared. */
static int count_nodes(void)
{
    MPI_Comm node;
    int rank, first, nodes = 0;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &rank);
    first = rank == 0;
    MPI_Allreduce(&first, &nodes, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Comm_free(&node);
    return nodes;
}

int main(int argc, char **argv)
{
    struct coll_options o;
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length, code;
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    struct self s = {.comm = MPI_COMM_WORLD};
    struct coll_backend be = {.program = "mpi-perf",
                              .version = version,
                              .self = &s,
                              .transport = "the MPI's choice",
                              .refuse = refuse,
                              .run = run,
                              .make_persistent = make_persistent,
                              .free_persistent = free_persistent,
                              .alloc = alloc,
                              .free = free_memory,
                              .barrier = barrier,
                              .from_root = from_root,
                              .combine = combine};
    MPI_Comm_rank(MPI_COMM_WORLD, &be.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &be.size);
    be.nodes = count_nodes();
    MPI_Get_library_version(version, &length);
    version[strcspn(version, ",\n")] = '\0';
    for (char *c = version; *c; c++) /* "MPICH Version:\t4.0.2" */
        *c = *c == '\t' ? ' ' : *c;
    code = coll_parse(&o, argc, argv, "mpi-perf", be.rank == 0);
    if (code < 0)
        code = coll_measure(&be, &o);
    if (code == 1)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Finalize();
    return code;
}
