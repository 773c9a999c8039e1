/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the machine could do: loops that move the bytes of a collective between the same mappings, on the same buffers,
 * with no agreement about anything, since all ranks have met before. Sums of 1 MiB or more go past the caches.
 */
#include "perf/weir-perf.h"

#include <string.h>

#include "perf/stream.h"

enum { STREAMED = 1 << 20, PEERS_MAX = 64, STEP = 2048 };

static void add_two(float *restrict to, const float *restrict a, const float *restrict b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = a[i] + b[i];
}

static void add_in(float *restrict to, const float *restrict a, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] += a[i];
}

/* Sum of n elements from each of `ranks` places. */
static void sum_up(float *to, const float *const *from, int ranks, size_t n, bool streamed)
{
    float sums[STEP];
    for (size_t done = 0; done < n; done += STEP) {
        size_t piece = n - done < STEP ? n - done : STEP;
        float *here = streamed ? sums : to + done;
        if (ranks == 1)
            memcpy(here, from[0] + done, piece * sizeof *here);
        else
            add_two(here, from[0] + done, from[1] + done, piece);
        for (int r = 2; r < ranks; r++)
            add_in(here, from[r] + done, piece);
        if (streamed)
            put_out(to + done, sums, piece);
    }
}

static const char *at_peer(const struct self *s, weir_mem *mem, const void *own, int rank)
{
    const char *base = rank == s->rank ? weir_mem_ptr(mem) : weir_mem_peer_ptr(mem, rank);
    return base + ((const char *)own - (const char *)weir_mem_ptr(mem));
}

const char *reference_refuse(const struct self *s, const struct coll_options *o)
{
    if (o->memory != MEMORY_REGISTERED || o->persistent)
        return "the reference is for --registered, without --persistent";
    if (coll_reduces(o->coll) && (o->type != WEIR_FP32 || o->op != WEIR_SUM))
        return "the reference adds fp32 only";
    if (o->coll == COLL_SCAN || o->coll == COLL_EXSCAN || coll_is_v(o->coll))
        return "there is no reference of this collective";
    if (s->size > PEERS_MAX || s->nodes > 1)
        return "the reference is for up to 64 ranks of one node";
    return NULL;
}

bool reference_run(struct self *s, struct coll_call *c)
{
    weir_mem *in = s->mems[0], *out = s->mems[1];
    size_t bytes = c->count * coll_type_size(c->type), n = c->count, share = (n / (unsigned)s->size + 3) / 4 * 4;
    const float *from[PEERS_MAX];
    size_t first = (size_t)s->rank * (c->coll == COLL_REDUCE_SCATTER ? n : share);
    bool streamed = bytes >= STREAMED;
    for (int r = 0; r < s->size && coll_reduces(c->coll); r++)
        from[r] = (const float *)at_peer(s, in, c->in, r) + first;
    if (c->coll == COLL_BARRIER)
        return ok(s, weir_barrier(s->comm), "weir_barrier");
    if (c->coll == COLL_BCAST && s->rank)
        memcpy(c->out, at_peer(s, out, c->out, 0), bytes);
    bool gathers = c->coll == COLL_ALLGATHER || (c->coll == COLL_GATHER && !s->rank), all = c->coll == COLL_ALLTOALL;
    for (int i = 0; i < s->size && (gathers || all); i++) {
        int r = (s->rank + i) % s->size;
        memcpy((char *)c->out + (size_t)r * bytes, at_peer(s, in, c->in, r) + (all ? (size_t)s->rank * bytes : 0), bytes);
    }
    if (c->coll == COLL_SCATTER)
        memcpy(c->out, at_peer(s, in, c->in, 0) + (size_t)s->rank * bytes, bytes);
    if (c->coll == COLL_REDUCE && !s->rank)
        sum_up(c->out, from, s->size, n, streamed);
    if (c->coll == COLL_REDUCE_SCATTER)
        sum_up(c->out, from, s->size, n, streamed);
    if (c->coll != COLL_ALLREDUCE)
        return true;
    /* a share each, then those of the others */
    for (int half = 0; half < 2; half++) {
        for (int i = 0; i < s->size; i++) {
            int r = (s->rank + i) % s->size;
            size_t begin = (size_t)r * share, end = r + 1 == s->size ? n : begin + share;
            begin = begin < n ? begin : n;
            end = end < n ? end : n;
            if (half == 0 && i == 0)
                sum_up((float *)c->out + begin, from, s->size, end - begin, streamed);
            else if (half == 1 && i > 0)
                memcpy((float *)c->out + begin, (const float *)at_peer(s, out, c->out, r) + begin, (end - begin) * 4);
        }
        if (half == 0 && !ok(s, weir_barrier(s->comm), "weir_barrier"))
            return false;
    }
    return true;
}
