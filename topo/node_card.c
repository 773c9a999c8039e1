/* SPDX-License-Identifier: BSD-3-Clause */
/* The node card: what one rank learns from hwloc for all ranks of its node. */
#include "topo/card.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "topo/cpus.h"
#include "topo/machine.h"

/* What goes into the card about one rank, beside its rank card. */
struct member {
    struct wr_rank_card card;
    struct wr_binding binding;
    struct wr_buf cpus; /* as adopted by the machine */
    size_t part;        /* which of the nodes in this card it belongs to */
};

struct writer {
    const struct wr_machine *machine;
    const struct wr_host_id *self;
    struct member *members;
    size_t n, nparts;
    struct wr_buf devices; /* both lists, encoded once */
};

static bool in_bitmap(const void *arg, unsigned cpu)
{
    return hwloc_bitmap_isset(arg, cpu);
}

static weir_status decode_members(struct writer *w, const struct wr_card *cards, weir_error *err)
{
    for (size_t i = 0; i < w->n; i++) {
        struct member *m = &w->members[i];
        if (!wr_rank_card_decode(cards[i].data, cards[i].len, &m->card) || m->card.rank != cards[i].rank ||
            (i && m->card.rank <= m[-1].card.rank)) {
            wr_error_set(err, WEIR_ERR_PROTOCOL, "see that all ranks run the same version of weir",
                         "the rank card of rank %d is not valid (%zu bytes)", cards[i].rank, cards[i].len);
            wr_error_at(err, cards[i].rank, NULL);
            return WEIR_ERR_PROTOCOL;
        }
        /* few distinct hosts: usually one */
        size_t j = 0;
        while (j < i && memcmp(&w->members[j].card.host_id, &m->card.host_id, sizeof m->card.host_id))
            j++;
        m->part = j < i ? w->members[j].part : w->nparts++;
    }
    return WEIR_OK;
}

static bool on_this_machine(const struct writer *w, const struct member *m)
{
    return !memcmp(m->card.host_id.boot_id, w->self->boot_id, sizeof w->self->boot_id);
}

static weir_status bind_member(const struct writer *w, struct member *m, int index, weir_error *err)
{
    const struct wr_binding unknown = {-1, -1, -1, -1};
    m->binding = unknown;
    if (!on_this_machine(w, m)) {
        wr_buf_add(&m->cpus, m->card.cpus, m->card.cpus_len);
        return WEIR_OK;
    }
    hwloc_bitmap_t cpus = hwloc_bitmap_alloc();
    struct wr_cpus_walk walk = wr_cpus_walk(m->card.cpus, m->card.cpus_len);
    unsigned first, last;
    bool ok = cpus;
    while (ok && wr_cpus_next(&walk, &first, &last))
        ok = !hwloc_bitmap_set_range(cpus, first, (int)last);
    if (ok) {
        wr_machine_adopt(w->machine, index, cpus);
        m->binding = wr_machine_locate(w->machine, cpus);
        wr_cpus_put(&m->cpus, in_bitmap, cpus, (unsigned)(hwloc_bitmap_last(cpus) + 1));
    }
    hwloc_bitmap_free(cpus);
    return ok && !m->cpus.failed ? WEIR_OK : wr_error_memory(err, 0, "the binding of a rank");
}

static weir_status encode_devices(struct writer *w, weir_error *err)
{
    struct wr_device_list nics = {NULL, 0, 0}, gpus = {NULL, 0, 0};
    weir_status status = wr_machine_nics(w->machine, &nics, err);
    if (!status)
        status = wr_machine_gpus(w->machine, &gpus, err);
    if (!status) {
        wr_device_put(&w->devices, &nics);
        wr_device_put(&w->devices, &gpus);
    }
    wr_device_list_free(&nics);
    wr_device_list_free(&gpus);
    return status;
}

static void put_machine(const struct writer *w, bool known, struct wr_buf *buf)
{
    const struct wr_machine *machine = w->machine;
    wr_put_u(buf, known ? machine->memory : 0);
    wr_put_u(buf, !known ? 0
                         : (machine->npackages ? WR_NODE_HAS_PACKAGES : 0) | (machine->nnumas ? WR_NODE_HAS_NUMAS : 0) |
                               (machine->ncaches ? WR_NODE_HAS_CACHES : 0));
    if (known) {
        wr_buf_add(buf, w->devices.data, w->devices.len);
    } else {
        wr_put_u(buf, 0);
        wr_put_u(buf, 0);
    }
}

/* The pid namespaces of a part in order of appearance; returns how many. */
static size_t list_namespaces(const struct writer *w, size_t part, uint64_t *namespaces)
{
    size_t n = 0;
    for (size_t i = 0; i < w->n; i++) {
        if (w->members[i].part != part)
            continue;
        size_t j = 0;
        while (j < n && namespaces[j] != w->members[i].card.pid_namespace)
            j++;
        if (j == n)
            namespaces[n++] = w->members[i].card.pid_namespace;
    }
    return n;
}

static void put_ranks(const struct writer *w, size_t part, const uint64_t *namespaces, struct wr_buf *buf)
{
    int before = -1;
    size_t count = 0;
    for (size_t i = 0; i < w->n; i++)
        count += w->members[i].part == part;
    wr_put_u(buf, count);
    for (size_t i = 0; i < w->n; i++) {
        const struct member *m = &w->members[i];
        size_t ns = 0;
        if (m->part != part)
            continue;
        while (namespaces[ns] != m->card.pid_namespace)
            ns++;
        wr_put_u(buf, (uint64_t)(m->card.rank - before - 1));
        before = m->card.rank;
        wr_put_u(buf, (uint64_t)m->card.pid);
        wr_put_u(buf, ns);
        wr_put_index(buf, m->binding.package);
        wr_put_index(buf, m->binding.numa);
        wr_put_index(buf, m->binding.cache);
        wr_put_index(buf, m->binding.core);
        wr_put_blob(buf, m->cpus.data, m->cpus.len);
    }
}

static void put_part(const struct writer *w, size_t part, uint64_t *namespaces, struct wr_buf *buf)
{
    const struct member *first = w->members;
    while (first->part != part)
        first++;
    wr_host_id_put(buf, &first->card.host_id);
    wr_put_text(buf, first->card.host);
    wr_put_text(buf, first->card.address);
    wr_put_text(buf, first->card.pattern);
    put_machine(w, on_this_machine(w, first), buf);
    size_t n = list_namespaces(w, part, namespaces);
    wr_put_u(buf, n);
    for (size_t i = 0; i < n; i++)
        wr_put_u(buf, namespaces[i]);
    put_ranks(w, part, namespaces, buf);
}

weir_status wr_node_card_encode(const struct wr_machine *machine, const struct wr_host_id *self,
                                const struct wr_card *rank_cards, size_t n, struct wr_buf *buf, weir_error *err)
{
    struct writer w = {.machine = machine, .n = n};
    weir_status status;
    if (!n || n > WR_CARD_NODE_RANKS_MAX)
        return wr_error_set(err, WEIR_ERR_LIMIT, NULL, "a node of %zu ranks is not possible", n);
    uint64_t *namespaces = calloc(n, sizeof *namespaces);
    w.members = calloc(n, sizeof *w.members);
    if (!w.members || !namespaces) {
        status = wr_error_memory(err, n * sizeof *w.members, "the node card");
        goto free_members;
    }
    if ((status = decode_members(&w, rank_cards, err)))
        goto free_members;
    w.self = self ? self : &w.members[0].card.host_id;
    for (size_t i = 0; i < n && !status; i++)
        status = bind_member(&w, &w.members[i], (int)i, err);
    if (status || (status = encode_devices(&w, err)))
        goto free_members;
    wr_buf_str(buf, WR_NODE_CARD_MAGIC);
    wr_put_u(buf, WR_CARD_VERSION);
    wr_put_u(buf, w.nparts);
    for (size_t part = 0; part < w.nparts; part++)
        put_part(&w, part, namespaces, buf);
    if (buf->failed || w.devices.failed)
        status = wr_error_memory(err, 0, "the node card");

free_members:
    for (size_t i = 0; w.members && i < n; i++)
        wr_buf_free(&w.members[i].cpus);
    free(w.members);
    free(namespaces);
    wr_buf_free(&w.devices);
    return status;
}

weir_status wr_topo_node_card(const struct wr_config *config, const struct wr_env *env, const struct wr_log *log,
                              const struct wr_card *rank_cards, size_t n, struct wr_buf *buf, weir_error *err)
{
    (void)env;
    struct wr_machine machine;
    struct wr_host_id self;
    weir_status status = wr_machine_open(&machine, config, err);
    if (status)
        return status;
    wr_host_id_self(&self);
    if (machine.imagined)
        wr_info(log, TOPO, "the described machine is not this host: ranks are bound to its %d cores in turn",
                machine.ncores);
    status = wr_node_card_encode(&machine, &self, rank_cards, n, buf, err);
    wr_machine_close(&machine);
    return status;
}
