/* SPDX-License-Identifier: BSD-3-Clause */
/* The queue of events, and messages on their way through interfaces and uplinks. */
#include <stdlib.h>

#include "comm/plan/simulate_impl.h"

static bool earlier(const struct wr_sim_item *a, const struct wr_sim_item *b)
{
    return a->time < b->time || (a->time == b->time && a->seq < b->seq);
}

void wr_sim_push(struct wr_sim *sim, double time, enum wr_sim_event_kind kind, uint32_t id, uint64_t bytes, double tail)
{
    if (sim->nheap == sim->cap_heap) {
        uint64_t cap = sim->cap_heap ? sim->cap_heap * 2 : 1024;
        struct wr_sim_item *larger = realloc(sim->heap, cap * sizeof *larger);
        if (!larger) {
            sim->failed = true;
            return;
        }
        sim->heap = larger;
        sim->cap_heap = cap;
    }
    struct wr_sim_item item = {time, sim->seq++, kind, id, bytes, tail};
    uint64_t at = sim->nheap++;
    for (uint64_t up; at && earlier(&item, &sim->heap[up = (at - 1) / 2]); at = up)
        sim->heap[at] = sim->heap[up];
    sim->heap[at] = item;
}

bool wr_sim_pop(struct wr_sim *sim, struct wr_sim_item *item)
{
    if (!sim->nheap)
        return false;
    *item = sim->heap[0];
    struct wr_sim_item last = sim->heap[--sim->nheap];
    uint64_t at = 0;
    for (uint64_t child; (child = 2 * at + 1) < sim->nheap; at = child) {
        if (child + 1 < sim->nheap && earlier(&sim->heap[child + 1], &sim->heap[child]))
            child++;
        if (!earlier(&sim->heap[child], &last))
            break;
        sim->heap[at] = sim->heap[child];
    }
    sim->heap[at] = last;
    sim->events++;
    return true;
}

void wr_sim_tell(const struct wr_sim *sim, const struct wr_sim_event *event)
{
    if (sim->options->event)
        sim->options->event(sim->options->user, event);
}

/* From `time` on, for `duration`; returns when the service begins. */
static double serve(struct wr_sim_server *server, double time, double duration)
{
    double begin = WR_MAX(time, server->free);
    server->free = begin + duration;
    server->busy += duration;
    return begin;
}

static bool crosses(const struct wr_sim *sim, int level, int from, int to)
{
    return sim->topo->group_of[level][from] != sim->topo->group_of[level][to];
}

static uint32_t take_message(struct wr_sim *sim)
{
    uint32_t id = sim->spare;
    if (id != WR_SIM_NONE) {
        sim->spare = sim->message[id].next;
        return id;
    }
    if (sim->nmessages == sim->cap_messages) {
        uint32_t cap = sim->cap_messages ? sim->cap_messages * 2 : 256;
        struct wr_sim_message *larger = realloc(sim->message, cap * sizeof *larger);
        if (!larger) {
            sim->failed = true;
            return WR_SIM_NONE;
        }
        sim->message = larger;
        sim->cap_messages = cap;
    }
    return sim->nmessages++;
}

void wr_sim_post(struct wr_sim *sim, uint32_t lane, const struct wr_sim_op *op, double time)
{
    uint32_t rank = sim->lane[lane].rank, id = take_message(sim);
    int from = sim->topo->node_of[rank], to = (int)op->arg, level = 0;
    if (id == WR_SIM_NONE)
        return;
    sim->message[id] = (struct wr_sim_message){.bytes = op->bytes, .left = op->bytes, .coming = op->bytes, .counter = op->counter,
                                               .lane = lane, .rank = rank, .next = WR_SIM_NONE, .node = op->arg,
                                               .peer = op->peer, .begin = time};
    while (level < sim->levels && crosses(sim, level, from, to))
        level++;
    sim->bytes[1 + level] += op->bytes;
    sim->egress[from] += op->bytes;
    sim->ingress[to % sim->nodes] += op->bytes;
    sim->lane[lane].outstanding++;
    struct wr_sim_rank *r = &sim->rank[rank];
    if (r->head == WR_SIM_NONE)
        r->head = id;
    else
        sim->message[r->tail].next = id;
    r->tail = id;
    if (!r->sending)
        wr_sim_push(sim, time, WR_SIM_SEND, rank, 0, 0);
    r->sending = true;
}

/* The last piece of the message at the head of the rank's queue has left, or will at `gone`. */
static void has_left(struct wr_sim *sim, uint32_t rank, double gone, double one_way)
{
    struct wr_sim_rank *r = &sim->rank[rank];
    struct wr_sim_message *m = &sim->message[r->head];
    struct wr_sim_lane *lane = &sim->lane[m->lane];
    double free = gone + (sim->cost->ack != 0 ? 2 * one_way : 0);
    m->gone = gone;
    lane->drained = WR_MAX(lane->drained, free);
    if (--lane->outstanding == 0 && lane->draining)
        wr_sim_push(sim, WR_MAX(lane->drained, lane->ready), WR_SIM_RUN, m->lane, 0, 0);
    r->head = m->next;
    r->sending = r->head != WR_SIM_NONE;
}

void wr_sim_send(struct wr_sim *sim, uint32_t rank, double now)
{
    struct wr_sim_rank *r = &sim->rank[rank];
    uint32_t id = r->head;
    struct wr_sim_message *m = &sim->message[id];
    const struct wr_cost *cost = sim->cost;
    int from = sim->topo->node_of[rank], rail = sim->topo->local_rank[rank] % sim->rails;
    uint64_t piece = WR_MIN(m->left, wr_sim_piece(m->bytes));
    double gap = m->left == m->bytes ? cost->gap : 0, one_way = cost->latency;
    struct wr_sim_server *out = &sim->out[from * sim->rails + rail];
    double head = serve(out, now, gap + (double)piece / cost->bandwidth) + gap, gone = out->free, tail = gone;
    serve(&sim->bus[from], now, (double)piece / cost->memory);
    for (int l = 0; l < sim->levels && crosses(sim, l, from, (int)m->node); l++) {
        one_way += 2 * cost->hop[l];
        if (cost->uplink[l] > 0) {
            struct wr_sim_server *up = &sim->up[l * sim->nodes + sim->topo->group_of[l][from]];
            head = serve(up, head, (double)piece / cost->uplink[l]);
            tail = WR_MAX(tail, up->free);
        }
    }
    wr_sim_push(sim, head + one_way, WR_SIM_HEAD, id, piece, tail + one_way);
    m->left -= piece;
    if (!m->left)
        has_left(sim, rank, gone, one_way);
    if (r->sending)
        wr_sim_push(sim, gone, WR_SIM_SEND, rank, 0, 0);
}

void wr_sim_head(struct wr_sim *sim, const struct wr_sim_item *item)
{
    struct wr_sim_message *m = &sim->message[item->id];
    const struct wr_cost *cost = sim->cost;
    int from = sim->topo->node_of[m->rank], to = (int)m->node, here = to % sim->nodes;
    int rail = sim->topo->local_rank[m->peer] % sim->rails;
    double head = item->time, tail = item->tail;
    struct wr_sim_server *in = &sim->in[here * sim->rails + rail];
    for (int l = sim->levels - 1; l >= 0; l--)
        if (cost->uplink[l] > 0 && crosses(sim, l, from, to)) {
            struct wr_sim_server *down = &sim->down[l * sim->nodes + sim->topo->group_of[l][here]];
            head = serve(down, head, (double)item->bytes / cost->uplink[l]);
            tail = WR_MAX(tail, down->free);
        }
    serve(in, head, (m->head ? 0 : cost->gap) + (double)item->bytes / cost->bandwidth);
    serve(&sim->bus[here], item->time, (double)item->bytes / cost->memory);
    m->head = true;
    m->coming -= item->bytes;
    if (m->coming)
        return;
    tail = WR_MAX(tail, in->free);
    if (m->counter != WR_SIM_NONE)
        wr_sim_push(sim, tail, WR_SIM_COUNT, m->counter, 0, 0);
    wr_sim_tell(sim, &(struct wr_sim_event){WR_SIM_MESSAGE, (int)m->rank, sim->lane[m->lane].index, m->peer, m->bytes, m->begin,
                                           tail, m->gone});
    m->next = sim->spare;
    sim->spare = item->id;
}
