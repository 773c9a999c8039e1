/* SPDX-License-Identifier: BSD-3-Clause */
/* weir-perf: the loop of coll-loop.c with the calls of weir. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perf/weir-perf.h"

enum { TAG = 1 };

bool ok(struct self *s, weir_status status, const char *what)
{
    if (status == WEIR_OK)
        return true;
    const weir_error *err = weir_last_error(s->ctx);
    const char *message = err->message[0] ? err->message : weir_status_message(status);
    s->unsupported |= status == WEIR_ERR_UNSUPPORTED;
    if (!s->unsupported || s->rank == 0)
        fprintf(stderr, "weir-perf: rank %d: %s: %s%s%s\n", s->rank, what, message, err->advice[0] ? "; " : "",
                err->advice);
    return false;
}

static const char *refuse(void *self, const struct coll_options *o)
{
    struct self *s = self;
    s->reference = o->reference;
    return o->reference ? reference_refuse(s, o) : NULL;
}

/* The request of a persistent call stays: weir_wait() leaves it to be started again. */
static bool run_persistent(struct self *s, struct coll_call *c)
{
    weir_request *request = c->handle;
    return ok(s, weir_start(request), "weir_start") && ok(s, weir_wait(&request), "weir_wait");
}

/* A call in one of its forms: blocking, or persistent where there is a request to be made. */
#define CALL(name, ...) (r ? weir_##name##_init(comm, __VA_ARGS__, r) : weir_##name(comm, __VA_ARGS__))

static weir_status call(weir_comm *comm, const struct coll_call *c, weir_request **r)
{
    const struct coll_parts *p = c->parts;
    switch (c->coll) {
    case COLL_BARRIER:
        return r ? weir_barrier_init(comm, r) : weir_barrier(comm);
    case COLL_BCAST:
        return CALL(bcast, c->out, c->count, c->type, 0);
    case COLL_REDUCE:
        return CALL(reduce, c->in, c->out, c->count, c->type, c->op, 0);
    case COLL_ALLREDUCE:
        return CALL(allreduce, c->in, c->out, c->count, c->type, c->op);
    case COLL_REDUCE_SCATTER:
        return CALL(reduce_scatter, c->in, c->out, c->count, c->type, c->op);
    case COLL_ALLGATHER:
        return CALL(allgather, c->in, c->out, c->count, c->type);
    case COLL_GATHER:
        return CALL(gather, c->in, c->out, c->count, c->type, 0);
    case COLL_SCATTER:
        return CALL(scatter, c->in, c->out, c->count, c->type, 0);
    case COLL_ALLTOALL:
        return CALL(alltoall, c->in, c->out, c->count, c->type);
    case COLL_SCAN:
        return CALL(scan, c->in, c->out, c->count, c->type, c->op);
    case COLL_EXSCAN:
        return CALL(exscan, c->in, c->out, c->count, c->type, c->op);
    case COLL_REDUCE_SCATTERV:
        return CALL(reduce_scatterv, c->in, c->out, p->out_counts, c->type, c->op);
    case COLL_ALLGATHERV:
        return CALL(allgatherv, c->in, c->out, p->out_counts, p->out_offsets, c->type);
    case COLL_GATHERV:
        return CALL(gatherv, c->in, c->mine, c->out, p->out_counts, p->out_offsets, c->type, 0);
    case COLL_SCATTERV:
        return CALL(scatterv, c->in, p->in_counts, p->in_offsets, c->out, c->mine, c->type, 0);
    case COLL_ALLTOALLV:
        return CALL(alltoallv, c->in, p->in_counts, p->in_offsets, c->out, p->out_counts, p->out_offsets, c->type);
    case COLLS:
        break;
    }
    return WEIR_ERR_UNSUPPORTED;
}

static bool run(void *self, struct coll_call *c)
{
    struct self *s = self;
    if (s->reference)
        return reference_run(s, c);
    if (c->handle)
        return run_persistent(s, c);
    return ok(s, call(s->comm, c, NULL), coll_name(c->coll));
}

static bool make_persistent(void *self, struct coll_call *c)
{
    struct self *s = self;
    weir_request *request = NULL;
    bool made = ok(s, call(s->comm, c, &request), "making a persistent call");
    c->handle = request;
    return made;
}

static bool free_persistent(void *self, struct coll_call *c)
{
    weir_request *request = c->handle;
    c->handle = NULL;
    return ok(self, weir_request_free(&request), "weir_request_free");
}

static void *alloc(void *self, size_t bytes, enum coll_memory memory, void **handle)
{
    struct self *s = self;
    weir_mem *mem;
    void *p = NULL;
    *handle = NULL;
    if (memory == MEMORY_HEAP) {
        if (!posix_memalign(&p, 4096, bytes))
            return p;
        fprintf(stderr, "weir-perf: no %zu bytes of memory; choose smaller sizes\n", bytes);
        return NULL;
    }
    if (!ok(s, weir_mem_alloc(s->comm, bytes, memory == MEMORY_NODE_SHARED ? WEIR_MEM_NODE_SHARED : 0, &mem),
            "weir_mem_alloc"))
        return NULL;
    *handle = mem;
    s->mems[s->nmems++] = mem;
    return weir_mem_ptr(mem);
}

static bool free_memory(void *self, void *address, enum coll_memory memory, void *handle)
{
    struct self *s = self;
    if (memory != MEMORY_HEAP) {
        s->nmems--;
        return ok(s, weir_mem_free(handle), "weir_mem_free");
    }
    free(address);
    return true;
}

static bool barrier(void *self)
{
    struct self *s = self;
    return ok(s, weir_barrier(s->comm), "weir_barrier");
}

static bool from_root(void *self, double *value)
{
    struct self *s = self;
    return ok(s, weir_bcast(s->comm, value, 1, WEIR_FP64, 0), "weir_bcast");
}

/* By messages: what is measured must not also count its own errors. */
static bool combine(void *self, double *values, int n, bool sum)
{
    struct self *s = self;
    uint64_t bytes = (uint64_t)n * sizeof *values;
    if (s->rank)
        return ok(s, weir_send(s->comm, values, bytes, 0, TAG), "weir_send");
    double *theirs = malloc(bytes);
    bool good = theirs != NULL;
    for (int r = 1; r < s->size && good; r++) {
        good = ok(s, weir_recv(s->comm, theirs, bytes, r, TAG, NULL), "weir_recv");
        for (int i = 0; i < n && good; i++)
            values[i] = sum ? values[i] + theirs[i] : theirs[i] > values[i] ? theirs[i] : values[i];
    }
    free(theirs);
    return good;
}

/* The transports to the other ranks, each once: "shm (memfd), ofi (tcp)". */
static void name_transports(const struct self *s, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (int r = 0; r < s->size && used < size; r++) {
        char one[64];
        const char *name = weir_comm_transport(s->comm, r), *provider = weir_comm_provider(s->comm, r);
        if ((r == s->rank && s->size > 1) || !name)
            continue;
        snprintf(one, sizeof one, provider && provider[0] ? "%s (%s)" : "%s", name, provider);
        if (!strstr(text, one))
            used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", one);
    }
}

int main(int argc, char **argv)
{
    weir_init_options init = WEIR_INIT_OPTIONS_INIT;
    struct coll_options o;
    struct self s = {0};
    weir_error err;
    const weir_topo *topo;
    char version[64];
    struct coll_backend be = {.program = "weir-perf",
                              .version = version,
                              .self = &s,
                              .refuse = refuse,
                              .run = run,
                              .make_persistent = make_persistent,
                              .free_persistent = free_persistent,
                              .alloc = alloc,
                              .free = free_memory,
                              .barrier = barrier,
                              .from_root = from_root,
                              .combine = combine};
    init.error = &err;
    if (weir_init(&init, &s.ctx)) {
        fprintf(stderr, "weir-perf: %s%s%s\n", err.message, err.advice[0] ? "; " : "", err.advice);
        return 1;
    }
    be.rank = s.rank = weir_rank(s.ctx);
    be.size = s.size = weir_size(s.ctx);
    int code = coll_parse(&o, argc, argv, "weir-perf", s.rank == 0);
    if (code >= 0)
        return weir_finalize(s.ctx) ? 1 : code;
    if (!ok(&s, weir_comm_world(s.ctx, &s.comm), "weir_comm_world") ||
        !ok(&s, weir_ctx_topo(s.ctx, &topo), "weir_ctx_topo"))
        return 1;
    be.nodes = s.nodes = weir_topo_nnodes(topo);
    name_transports(&s, be.transport, sizeof be.transport);
    snprintf(version, sizeof version, "weir %s", weir_version());
    code = coll_measure(&be, &o);
    if (s.unsupported)
        return 2;
    if (code == 1)
        return 1; /* the others may be somewhere else: no leaving together */
    weir_status status = weir_finalize(s.ctx);
    return status || fflush(stdout) || ferror(stdout) ? 1 : code;
}
