/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads and writes of the symbolic run: what they see, and whether every conflicting access is ordered before
 * them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "comm/plan/verify_impl.h"

static weir_status no_memory(struct wr_verifier *v)
{
    return wr_error_memory(v->err, v->reads.n * sizeof *v->reads.at, "verifying a plan");
}

const char *wr_verify_who(const struct wr_verifier *v, wr_vdim dim, uint32_t tick, char buf[96])
{
    const struct wr_vlane *lane = &v->lane[v->dim_lane[(uint32_t)dim]];
    const struct wr_program *p = v->rank[lane->rank].program;
    uint32_t step = (tick - 1) % (lane->steps + 2);
    int rank = lane->rank + (int)(dim >> 32) * v->period;
    if (step == 0)
        snprintf(buf, 96, "the start of rank %d", rank);
    else if (step > lane->steps)
        snprintf(buf, 96, "lane %u of rank %d until its end", lane->index, rank);
    else
        snprintf(buf, 96, "lane %u of rank %d until its step %u (%s)", lane->index, rank, step - 1,
                 wr_step_name(&p->steps[lane->first + step - 1]));
    return buf;
}

static bool known(const struct wr_verifier *v, const struct wr_vlane *lane, wr_vdim dim, uint32_t tick)
{
    if (dim == (uint32_t)(lane - v->lane))
        return lane->tick >= tick;
    return tick == 0 || wr_vclock_at(&v->clocks, lane->clock, dim) >= tick;
}

/* The memory behind a reference, and the offset in it; all of this is in the frame of its owner. */
static struct wr_vmem *resolve(const struct wr_verifier *v, const struct wr_ref *ref, uint64_t *off)
{
    uint32_t buffer = ref->buffer;
    int rank = wr_vmodel(v, ref->rank);
    *off = wr_vframe(v, buffer, ref->offset, wr_vshift_of(v, ref->rank));
    if (buffer == WR_BUF_IN && wr_verify_in_place(v->spec, rank)) {
        buffer = WR_BUF_OUT;
        *off += wr_plan_in_offset(v->spec, rank);
    }
    if (buffer == WR_BUF_OUT && v->spec->out_shared)
        rank = v->topo->node_ranks[v->topo->node_of[rank]][0];
    return &v->mem[(size_t)rank * 3 + buffer];
}

static weir_status in_time(struct wr_verifier *v, struct wr_vlane *lane, int owner, uint32_t buffer)
{
    const struct wr_vrank *o = &v->rank[wr_vmodel(v, owner)];
    uint32_t execution = v->rank[lane->rank].execution;
    wr_vdim start = wr_vdim_of(wr_vshift_of(v, owner), o->first_lane);
    if (owner == lane->rank)
        return WEIR_OK;
    if (o->ended || o->execution > execution)
        return wr_verify_fail(v, lane, "%s of rank %d may be touched after that rank has ended",
                              buffer == WR_BUF_IN ? "IN" : "OUT", owner);
    if (o->execution < execution || !known(v, lane, start, wr_vtick_start(&v->lane[o->first_lane], execution)))
        return wr_verify_fail(v, lane, "%s of rank %d may be touched before that rank has started",
                              buffer == WR_BUF_IN ? "IN" : "OUT", owner);
    return WEIR_OK;
}

/* Rule 3, for an access to IN or OUT of others; the end is checked when it comes. */
static weir_status touch(struct wr_verifier *v, struct wr_vlane *lane, const struct wr_ref *ref, struct wr_vmem *mem,
                         bool writes, wr_vdim dim, uint32_t tick)
{
    weir_status status = WEIR_OK;
    bool window = v->spec->out_shared && ref->buffer == WR_BUF_OUT;
    if (ref->buffer == WR_BUF_SCRATCH || (ref->rank == lane->rank && !(window && writes)))
        return WEIR_OK;
    if (!window) {
        status = in_time(v, lane, ref->rank, ref->buffer);
    } else {
        int node = v->topo->node_of[ref->rank];
        for (int i = 0; i < v->topo->node_size[node] && status == WEIR_OK; i++)
            status = in_time(v, lane, v->topo->node_ranks[node][i], ref->buffer);
    }
    if (status == WEIR_OK && !wr_vtouch(&mem->touches, wr_vdim_shift(&v->clocks, dim, wr_vback(v, wr_vshift_of(v, ref->rank))), tick))
        return no_memory(v);
    return status;
}

/* Elements from `place` on that are next to each other after a shift, too. */
static uint64_t unbroken(const struct wr_verifier *v, uint64_t place, uint32_t shift)
{
    uint64_t at = place % v->total, to = (at + shift * v->unit) % v->total;
    return v->total - WR_MAX(at, to);
}

static uint64_t shift_place(const struct wr_verifier *v, uint64_t place, uint32_t shift)
{
    uint64_t row = place / v->total, at = (place % v->total + shift * v->unit) % v->total;
    if (v->spec->coll == WR_COLL_ALLTOALL) /* of which each rank has a vector */
        row = (row + shift * (uint64_t)v->period) % (uint64_t)v->topo->nranks;
    return row * v->total + at;
}

/* Adds what is found in a rank's frame, as it looks from one for which that rank's shift is `shift`. */
static bool add_pieces(struct wr_verifier *v, struct wr_vpieces *pieces, uint64_t len, uint64_t place, uint32_t set, uint32_t shift)
{
    if (!shift)
        return wr_vpieces_add(pieces, len, place, set);
    if (v->spec->reduces && (set = wr_vvalues_shift(&v->values, set, shift * (uint32_t)v->period)) == WR_VERIFY_NONE)
        return false;
    while (len) {
        uint64_t run = WR_MIN(len, unbroken(v, place, shift));
        if (!wr_vpieces_add(pieces, run, shift_place(v, place, shift), set))
            return false;
        place += run;
        len -= run;
    }
    return true;
}

/* What can be reached without a break in the owner's frame. */
static uint64_t run_of(const struct wr_verifier *v, const struct wr_ref *ref, uint64_t len)
{
    uint32_t shift = wr_vshift_of(v, ref->rank);
    if (!shift || !wr_vrotates(v->spec, ref->buffer))
        return len;
    uint64_t at = wr_vframe(v, ref->buffer, ref->offset, shift);
    return WR_MIN(len, v->total - at);
}

static weir_status read_run(struct wr_verifier *v, struct wr_vlane *lane, const struct wr_ref *ref, uint64_t len,
                            uint32_t until, struct wr_vpieces *pieces)
{
    char who[96];
    uint64_t off;
    uint32_t shift = wr_vshift_of(v, ref->rank);
    wr_vdim me = wr_vdim_of(0, (uint32_t)(lane - v->lane)), seen = wr_vdim_shift(&v->clocks, me, wr_vback(v, shift));
    struct wr_vmem *mem = resolve(v, ref, &off);
    weir_status status = touch(v, lane, ref, mem, false, me, until);
    if (status != WEIR_OK)
        return status;
    if (!mem->store) {
        uint64_t place = v->spec->reduces ? ref->offset : v->place[ref->rank] + ref->offset;
        uint32_t set = v->spec->reduces ? 1 + (uint32_t)ref->rank : WR_VALUE_MOVED;
        return wr_vpieces_add(pieces, len, place, set) ? WEIR_OK : no_memory(v);
    }
    uint32_t i = wr_vmem_split(mem, off), j = i == WR_VERIFY_NONE ? i : wr_vmem_split(mem, off + len);
    if (j == WR_VERIFY_NONE)
        return no_memory(v);
    for (; i < j; i++) {
        struct wr_vspan *s = wr_vspan_at(mem, i);
        uint64_t end = i + 1 < mem->n ? wr_vspan_at(mem, i + 1)->start : mem->len;
        wr_vdim writer = wr_vdim_shift(&v->clocks, s->writer, shift);
        if (s->set == WR_VALUE_NONE)
            return wr_verify_fail(v, lane, "it reads element %llu of %s of rank %d, which nothing has written",
                                  (unsigned long long)(ref->offset + s->start - off),
                                  ref->buffer == WR_BUF_SCRATCH ? "SCRATCH" : "OUT", ref->rank);
        if (!known(v, lane, writer, s->written))
            return wr_verify_fail(v, lane, "it reads memory of rank %d that may still be written by %s", ref->rank,
                                  wr_verify_who(v, writer, s->written, who));
        if (!wr_vread_add(&v->reads, &s->reads, seen, until) ||
            !add_pieces(v, pieces, end - s->start, s->place, s->set, shift))
            return no_memory(v);
    }
    return WEIR_OK;
}

static weir_status read_place(struct wr_verifier *v, struct wr_vlane *lane, const struct wr_ref *ref, uint64_t len,
                              uint32_t until, struct wr_vpieces *pieces)
{
    struct wr_ref at = *ref;
    weir_status status = WEIR_OK;
    pieces->n = 0;
    for (uint64_t run; len && status == WEIR_OK; at.offset += run, len -= run) {
        run = run_of(v, &at, len);
        status = read_run(v, lane, &at, run, until, pieces);
    }
    return status;
}

/* Whether all that was done to a span is over. */
static weir_status may_write(struct wr_verifier *v, struct wr_vlane *lane, const struct wr_ref *ref, const struct wr_vspan *s)
{
    char who[96];
    uint32_t shift = wr_vshift_of(v, ref->rank);
    wr_vdim writer = wr_vdim_shift(&v->clocks, s->writer, shift);
    /* who has read it knew that it was written */
    if (!s->reads && !known(v, lane, writer, s->written))
        return wr_verify_fail(v, lane, "it writes memory of rank %d that may still be written by %s", ref->rank,
                              wr_verify_who(v, writer, s->written, who));
    for (uint32_t r = s->reads; r; r = v->reads.at[r].next) {
        wr_vdim reader = wr_vdim_shift(&v->clocks, v->reads.at[r].dim, shift);
        if (!known(v, lane, reader, v->reads.at[r].tick))
            return wr_verify_fail(v, lane, "it writes memory of rank %d that may still be read by %s", ref->rank,
                                  wr_verify_who(v, reader, v->reads.at[r].tick, who));
    }
    return WEIR_OK;
}

/* The next `len` elements of `pieces`, from what `cursor` says on, as they look in a rank's frame. */
struct cursor {
    const struct wr_vpieces *pieces;
    uint32_t at;
    uint64_t done; /* of that piece */
};

static bool cut(struct wr_verifier *v, struct cursor *c, uint64_t len, uint32_t back, struct wr_vpieces *to)
{
    to->n = 0;
    while (len) {
        const struct wr_vpiece *p = &c->pieces->at[c->at];
        uint64_t run = WR_MIN(len, p->len - c->done);
        if (!add_pieces(v, to, run, p->place + c->done, p->set, back))
            return false;
        len -= run;
        c->done += run;
        if (c->done == p->len) {
            c->at++;
            c->done = 0;
        }
    }
    return true;
}

static weir_status write_place(struct wr_verifier *v, struct wr_vlane *lane, const struct wr_ref *ref, uint64_t len,
                               const struct wr_vpieces *pieces, wr_vdim dim, uint32_t tick)
{
    uint32_t back = wr_vback(v, wr_vshift_of(v, ref->rank));
    struct wr_ref at = *ref;
    struct cursor cursor = {pieces, 0, 0};
    for (uint64_t run, off; len; at.offset += run, len -= run) {
        run = run_of(v, &at, len);
        struct wr_vmem *mem = resolve(v, &at, &off);
        weir_status status = touch(v, lane, &at, mem, true, dim, tick);
        if (status != WEIR_OK)
            return status;
        uint32_t i = wr_vmem_split(mem, off), j = i == WR_VERIFY_NONE ? i : wr_vmem_split(mem, off + run);
        if (j == WR_VERIFY_NONE)
            return no_memory(v);
        for (uint32_t k = i; k < j && status == WEIR_OK; k++)
            status = may_write(v, lane, &at, wr_vspan_at(mem, k));
        if (status != WEIR_OK)
            return status;
        const struct wr_vpieces *what = pieces;
        if (back || run < len || cursor.at || cursor.done) {
            if (!cut(v, &cursor, run, back, &v->parts))
                return no_memory(v);
            what = &v->parts;
        }
        if (!wr_vmem_write(mem, i, j, off, what, wr_vdim_shift(&v->clocks, dim, back), tick))
            return no_memory(v);
    }
    return WEIR_OK;
}

/* Combines the pieces of all operands into v->outcome. */
static weir_status combine(struct wr_verifier *v, struct wr_vlane *lane, uint32_t n, uint64_t len)
{
    v->outcome.n = 0;
    memset(v->cursor, 0, n * sizeof *v->cursor);
    memset(v->within, 0, n * sizeof *v->within);
    for (uint64_t done = 0; done < len;) {
        uint64_t run = len - done, place = v->operand[0].at[v->cursor[0]].place + v->within[0];
        for (uint32_t i = 0; i < n; i++) {
            const struct wr_vpiece *p = &v->operand[i].at[v->cursor[i]];
            if (p->place + v->within[i] != place)
                return wr_verify_fail(v, lane, "operand %u holds element %llu of the vector, operand 0 element %llu", i,
                                      (unsigned long long)(p->place + v->within[i]), (unsigned long long)place);
            run = WR_MIN(run, p->len - v->within[i]);
            v->ids[i] = p->set;
        }
        uint32_t set = wr_vvalues_combine(&v->values, v->ids, n);
        if (!set)
            return wr_verify_fail(v, lane, "the contribution of a rank to element %llu would be counted twice",
                                  (unsigned long long)place);
        if (set == WR_VERIFY_NONE || !wr_vpieces_add(&v->outcome, run, place, set))
            return no_memory(v);
        for (uint32_t i = 0; i < n; i++) {
            v->within[i] += run;
            if (v->within[i] == v->operand[i].at[v->cursor[i]].len) {
                v->within[i] = 0;
                v->cursor[i]++;
            }
        }
        done += run;
    }
    return WEIR_OK;
}

/* A step reads and writes element by element, so it may write just where it reads, but not beside it. */
static weir_status check_overlap(struct wr_verifier *v, struct wr_vlane *lane, const struct wr_step *step,
                                 const struct wr_ref *refs)
{
    uint64_t to, from;
    const struct wr_vmem *mem = resolve(v, &refs[0], &to);
    for (unsigned i = 1; i < step->nrefs; i++)
        if (resolve(v, &refs[i], &from) == mem && from < to + step->len && to < from + step->len &&
            (from != to || step->op == WR_STEP_COPY))
            return wr_verify_fail(v, lane, "its destination overlaps its source %u", i - 1);
    return WEIR_OK;
}

static weir_status check_rounding(struct wr_verifier *v, struct wr_vlane *lane, uint32_t n, const struct wr_ref *refs)
{
    if (v->spec->elem_size == v->spec->partial_size)
        return WEIR_OK;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < v->operand[i].n && refs[i].buffer == WR_BUF_OUT; k++)
            if (v->values.set[v->operand[i].at[k].set].size > 1)
                return wr_verify_fail(v, lane, "operand %u is a partial result that was rounded already", i);
    return WEIR_OK;
}

weir_status wr_verify_step(struct wr_verifier *v, struct wr_vlane *lane, const struct wr_step *step)
{
    const struct wr_vrank *rank = &v->rank[lane->rank];
    const struct wr_ref *refs = rank->program->refs + step->first_ref;
    const struct wr_vaux *aux = &v->aux[rank->aux + lane->first + lane->pc];
    bool put = step->op == WR_STEP_PUT;
    uint32_t read_until = put ? wr_vtick(lane, rank->execution, aux->drain) : lane->tick;
    weir_status status = check_overlap(v, lane, step, refs);
    for (uint32_t i = 1; i < step->nrefs && status == WEIR_OK; i++)
        status = read_place(v, lane, &refs[i], step->len, read_until, &v->operand[i - 1]);
    const struct wr_vpieces *result = &v->operand[0];
    if (status == WEIR_OK && step->op == WR_STEP_REDUCE) {
        status = check_rounding(v, lane, step->nrefs - 1u, refs + 1);
        if (status == WEIR_OK)
            status = combine(v, lane, step->nrefs - 1u, step->len);
        result = &v->outcome;
    }
    if (status != WEIR_OK)
        return status;
    wr_vdim dim = wr_vdim_of(0, put ? v->counter[aux->counter].channel : (uint32_t)(lane - v->lane));
    uint32_t tick = put ? wr_vtick(lane, rank->execution, aux->until) : lane->tick;
    return write_place(v, lane, &refs[0], step->len, result, dim, tick);
}

/* ---- start and end of a rank ---- */

static weir_status set_values(struct wr_verifier *v, struct wr_vmem *m, uint64_t off, uint64_t len, uint64_t place,
                              uint32_t set, int owner)
{
    const struct wr_vrank *o = &v->rank[owner];
    struct wr_vpiece piece = {len, place, set};
    struct wr_vpieces pieces = {&piece, 1, 1};
    if (!len)
        return WEIR_OK;
    uint32_t i = wr_vmem_split(m, off), j = i == WR_VERIFY_NONE ? i : wr_vmem_split(m, off + len);
    if (j == WR_VERIFY_NONE ||
        !wr_vmem_write(m, i, j, off, &pieces, o->first_lane, wr_vtick_start(&v->lane[o->first_lane], o->execution)))
        return no_memory(v);
    return WEIR_OK;
}

static weir_status set_input(struct wr_verifier *v, struct wr_vmem *m, int rank)
{
    if (!wr_verify_in_place(v->spec, rank))
        return WEIR_OK;
    return set_values(v, m, wr_plan_in_offset(v->spec, rank), wr_plan_in_len(v->spec, rank),
                      v->spec->reduces ? 0 : v->place[rank], v->spec->reduces ? 1 + (uint32_t)rank : WR_VALUE_MOVED,
                      rank);
}

/* A window of a node is new when the last rank of the node has started; before that nobody may write it. */
static weir_status start_window(struct wr_verifier *v, int rank)
{
    int node = v->topo->node_of[rank], n = v->topo->node_size[node];
    const int *ranks = v->topo->node_ranks[node];
    struct wr_vmem *m = &v->mem[(size_t)ranks[0] * 3 + WR_BUF_OUT];
    uint32_t execution = v->rank[rank].execution;
    /* later, what the input's owner puts there between executions is between it and its mates */
    weir_status status = execution ? WEIR_OK : set_input(v, m, rank);
    for (int i = 0; i < n; i++)
        if (v->rank[ranks[i]].execution < execution || !v->lane[v->rank[ranks[i]].first_lane].clock)
            return status;
    uint64_t at = 0;
    for (int i = 0; i < n && status == WEIR_OK; i++) {
        bool keep = wr_verify_in_place(v->spec, ranks[i]);
        uint64_t from = keep ? wr_plan_in_offset(v->spec, ranks[i]) : m->len;
        if (from > at && keep)
            status = set_values(v, m, at, from - at, 0, WR_VALUE_NONE, rank);
        at = keep ? from + wr_plan_in_len(v->spec, ranks[i]) : at;
    }
    return status == WEIR_OK ? set_values(v, m, at, m->len - at, 0, WR_VALUE_NONE, rank) : status;
}

weir_status wr_verify_start(struct wr_verifier *v, int rank)
{
    struct wr_vmem *m = &v->mem[(size_t)rank * 3 + WR_BUF_OUT];
    if (v->spec->out_shared)
        return start_window(v, rank);
    weir_status status = set_values(v, m, 0, m->len, 0, WR_VALUE_NONE, rank);
    return status == WEIR_OK ? set_input(v, m, rank) : status;
}

static weir_status end_error(struct wr_verifier *v, int rank, const char *what, unsigned long long number)
{
    char text[160];
    snprintf(text, sizeof text, what, number);
    return wr_error_set(v->err, WEIR_ERR_INTERNAL, "this is a defect of the algorithm; choose another with WEIR_ALGO",
                        "%s: rank %d ends execution %u, but %s", wr_collective_name(v->spec->coll), rank,
                        v->rank[rank].execution + 1, text);
}

/* What element `off` of OUT must be, and how many elements from there on continue it. */
struct expected {
    uint64_t place, len;
    int from, to; /* ranks that contribute */
    bool any;
};

static struct expected expect(const struct wr_verifier *v, int rank, uint64_t off)
{
    const struct wr_plan_spec *spec = v->spec;
    int n = v->topo->nranks;
    struct expected e = {.place = off, .len = UINT64_MAX, .to = n};
    if (spec->coll == WR_COLL_REDUCE_SCATTER)
        e.place += wr_plan_share_offset(spec, rank);
    if (spec->coll == WR_COLL_SCAN)
        e.to = rank + 1;
    if (spec->coll == WR_COLL_EXSCAN)
        e.to = rank, e.any = rank == 0;
    if (spec->coll == WR_COLL_BCAST)
        e.place += v->place[spec->root];
    if (spec->coll == WR_COLL_SCATTER)
        e.place += v->place[spec->root] + wr_plan_share_offset(spec, rank);
    if (spec->coll != WR_COLL_ALLTOALL)
        return e;
    uint64_t at = 0;
    for (int p = 0; p < n; p++) {
        uint64_t len = spec->counts ? spec->counts[(size_t)p * (size_t)n + (size_t)rank] : spec->count, sent = 0;
        if (off >= at + len) {
            at += len;
            continue;
        }
        for (int q = 0; q < rank; q++)
            sent += spec->counts ? spec->counts[(size_t)p * (size_t)n + (size_t)q] : spec->count;
        e.place = v->place[p] + sent + (off - at);
        e.len = at + len - off;
        break;
    }
    return e;
}

static bool as_expected(const struct wr_verifier *v, const struct expected *e, const struct wr_vspan *s, uint64_t place)
{
    if (e->any)
        return true;
    if (s->set == WR_VALUE_NONE || place != e->place)
        return false;
    return !v->spec->reduces || wr_vvalues_is_range(&v->values, s->set, e->from, e->to);
}

/* Rule 1, and the hash of the order of combination: a sum over elements, so that it does not depend on how they
 * are cut. */
static weir_status check_result(struct wr_verifier *v, int rank, const struct wr_vclock *end)
{
    struct wr_ref out = wr_ref(rank, WR_BUF_OUT, 0);
    uint64_t off, len = wr_plan_out_len(v->spec, rank), order = 0;
    const struct wr_vmem *m = resolve(v, &out, &off);
    for (uint64_t at = 0; at < len;) {
        uint32_t i = wr_vmem_find(m, at);
        const struct wr_vspan *s = wr_vspan_at(m, i);
        struct expected e = expect(v, rank, at);
        uint64_t span_end = i + 1 < m->n ? wr_vspan_at(m, i + 1)->start : m->len, place = s->place + (at - s->start);
        uint64_t run = WR_MIN(WR_MIN(span_end, len) - at, e.len);
        if (!as_expected(v, &e, s, place))
            return end_error(v, rank, "element %llu of its OUT is not the result", at);
        if (!e.any && s->written && wr_vclock_at(&v->clocks, end, s->writer) < s->written)
            return end_error(v, rank, "element %llu of its OUT may still be on its way", at);
        if (v->spec->reduces && !e.any) {
            uint64_t last = place + run; /* (place + 1) + .. + last, without overflow before halving */
            uint64_t a = run, b = place + 1 + last;
            order += v->values.set[s->set].order * (a % 2 ? a * (b / 2) : a / 2 * b);
        }
        at += run;
    }
    if (!v->some_ended)
        v->first_order = order;
    v->some_ended = true;
    if (v->spec->coll == WR_COLL_ALLREDUCE && order != v->first_order)
        v->result.same_at_all = false;
    if (v->rank[rank].execution == 0)
        v->result.order += order;
    return WEIR_OK;
}

static weir_status check_touches(struct wr_verifier *v, int rank, struct wr_vmem *m, const struct wr_vclock *end)
{
    char who[96], text[160];
    for (uint32_t i = 0; i < m->touches.cap; i++) {
        if (!m->touches.at[i].tick || wr_vclock_at(&v->clocks, end, m->touches.at[i].dim) >= m->touches.at[i].tick)
            continue;
        snprintf(text, sizeof text, "its memory may still be in use by %s",
                 wr_verify_who(v, m->touches.at[i].dim, m->touches.at[i].tick, who));
        return end_error(v, rank, text, 0);
    }
    return WEIR_OK;
}

static void forget_touches(struct wr_vmem *m)
{
    if (m->touches.at)
        memset(m->touches.at, 0, m->touches.cap * sizeof *m->touches.at);
    m->touches.n = 0;
}

static void forget_window(struct wr_verifier *v, int rank, struct wr_vmem *m)
{
    int node = v->topo->node_of[rank];
    for (int i = 0; i < v->topo->node_size[node]; i++) {
        const struct wr_vrank *o = &v->rank[v->topo->node_ranks[node][i]];
        bool past = o->ended || o->execution > v->rank[rank].execution ||
                    (o->execution == v->rank[rank].execution && !o->running);
        if (!past)
            return;
    }
    forget_touches(m);
}

weir_status wr_verify_end(struct wr_verifier *v, int rank, const struct wr_vclock *end)
{
    struct wr_ref out = wr_ref(rank, WR_BUF_OUT, 0);
    uint64_t off;
    struct wr_vmem *in = &v->mem[(size_t)rank * 3 + WR_BUF_IN], *m = resolve(v, &out, &off);
    weir_status status = check_touches(v, rank, in, end);
    if (status == WEIR_OK)
        status = check_touches(v, rank, m, end);
    forget_touches(in);
    if (v->spec->out_shared)
        forget_window(v, rank, m);
    else
        forget_touches(m);
    for (int p = 0; p < v->topo->nranks && status == WEIR_OK && v->spec->coll == WR_COLL_BARRIER; p++) {
        uint32_t first = v->rank[wr_vmodel(v, p)].first_lane;
        if (wr_vclock_at(&v->clocks, end, wr_vdim_of(wr_vshift_of(v, p), first)) <
            wr_vtick_start(&v->lane[first], v->rank[rank].execution))
            return end_error(v, rank, "rank %llu may not have started", (unsigned long long)p);
    }
    return status == WEIR_OK ? check_result(v, rank, end) : status;
}
