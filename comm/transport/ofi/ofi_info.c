/* SPDX-License-Identifier: BSD-3-Clause */
/* Which providers there are, which of them can be used, and in which order they are tried. */
#include "comm/transport/ofi/ofi.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/*
 * The only place that knows providers by name. "stream" is stated for providers that run a pair over one connection
 * whose far end handles what arrives in order (TCP, or a reliable connected queue pair); everything else is asked for
 * delivery completion. Names: "x" exactly, "*x" ends with, "x*" begins with; the first match counts.
 */
static const struct wr_ofi_quirks wr_ofi_quirks_table[] = {
    {"cxi", 90, .eager_put = 1024},
    {"opx", 85, .eager_put = 2048},
    {"psm3", 82, .eager_put = 2048},
    {"psm2", 82, .eager_put = 2048},
    {"efa", 80, .eager_put = 4096},
    {"verbs;ofi_rxm", 70, .stream = true, .eager_put = 1024},
    {"net", 34, .stream = true, .eager_put = 1024, .long_am = 69632},
    {"tcp", 32, .stream = true, .eager_put = 1024, .long_am = 69632},
    {"tcp;ofi_rxm", 20, .stream = true, .eager_put = 1024},
    {"shm", 5, .node_only = true, .eager_put = 4096},
    {.name = "sockets"},     /* its remote CQ data hangs, and it is no longer maintained */
    {.name = "net;ofi_rxm"}, /* the same as net with a layer more */
    {.name = "*;ofi_mrail"}, /* striping is done here */
    {.name = "off_coll*"},
    {"*;ofi_rxd", 10, .bad_inject = true, .eager_put = 4096},
    {"*;ofi_rxm", 40, .stream = true, .eager_put = 1024},
    {"*", 50, .eager_put = 1024},
};

static bool wr_ofi_name_matches(const char *pattern, const char *name)
{
    size_t n = strlen(pattern), len = strlen(name);
    if (n && pattern[0] == '*')
        return len >= n - 1 && !strcasecmp(name + len - (n - 1), pattern + 1);
    if (n && pattern[n - 1] == '*')
        return !strncasecmp(name, pattern, n - 1);
    return !strcasecmp(pattern, name);
}

const struct wr_ofi_quirks *wr_ofi_quirks_find(const char *provider)
{
    const struct wr_ofi_quirks *q = wr_ofi_quirks_table;
    while (!wr_ofi_name_matches(q->name, provider))
        q++; /* the last line matches everything */
    return q;
}

static struct fi_info *wr_ofi_hints(void)
{
    struct fi_info *hints = fi_allocinfo();
    if (!hints)
        return NULL;
    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = FI_MSG | FI_RMA;
    hints->mode = FI_CONTEXT | FI_CONTEXT2 | FI_RX_CQ_DATA;
    hints->domain_attr->mr_mode =
        FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT | FI_MR_RAW;
    hints->domain_attr->threading = FI_THREAD_DOMAIN; /* rule 1 of transport.h: one thread at a time */
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    return hints;
}

struct fi_info *wr_ofi_info_refine(const struct fi_info *info, uint64_t caps, uint64_t op_flags)
{
    struct fi_info *hints = fi_dupinfo(info), *found = NULL;
    if (!hints)
        return NULL;
    hints->caps = FI_MSG | FI_RMA | caps;
    hints->tx_attr->caps = hints->rx_attr->caps = 0;
    hints->tx_attr->op_flags = op_flags;
    hints->domain_attr->caps = 0;
    free(hints->dest_addr);
    hints->dest_addr = NULL;
    hints->dest_addrlen = 0;
    if (fi_getinfo(FI_VERSION(1, 11), NULL, NULL, 0, hints, &found))
        found = NULL;
    /* the answer may start with another interface */
    struct fi_info *result = NULL;
    for (struct fi_info *i = found; i && !result; i = i->next)
        if (!strcmp(i->domain_attr->name, info->domain_attr->name) && i->src_addrlen == info->src_addrlen &&
            (!i->src_addrlen || !memcmp(i->src_addr, info->src_addr, i->src_addrlen)))
            result = fi_dupinfo(i);
    if (found)
        fi_freeinfo(found);
    fi_freeinfo(hints);
    return result;
}

/* 0: preferred form of address; larger is worse; -1: cannot be used between hosts. */
static int wr_ofi_address_rank(const struct fi_info *info)
{
    const unsigned char *a = info->src_addr;
    if (info->addr_format == FI_SOCKADDR_IN6) {
        /* sockaddr_in6: the address starts after family, port and flow information; fe80::/10 needs a scope */
        if (a && info->src_addrlen >= 24 && a[8] == 0xfe && (a[9] & 0xc0) == 0x80)
            return -1;
        return 1;
    }
    return 0;
}

static bool wr_ofi_usable(const struct fi_info *info)
{
    const uint64_t need = FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
    if ((info->caps & need) != need || info->ep_attr->type != FI_EP_RDM)
        return false;
    if (info->mode & ~(FI_CONTEXT | FI_CONTEXT2 | FI_RX_CQ_DATA))
        return false;
    if (info->ep_attr->max_msg_size < WR_OFI_BUFFER || wr_ofi_address_rank(info) < 0)
        return false;
    return wr_ofi_quirks_find(info->fabric_attr->prov_name)->preference > 0;
}

/* Whether two entries are the same interface of the same provider, in different forms. */
static bool wr_ofi_same_interface(const struct fi_info *a, const struct fi_info *b)
{
    return !strcmp(a->fabric_attr->prov_name, b->fabric_attr->prov_name) &&
           !strcmp(a->domain_attr->name, b->domain_attr->name);
}

static void wr_ofi_candidate_add(struct wr_ofi_candidates *c, struct fi_info *info)
{
    for (size_t i = 0; i < c->n; i++)
        if (wr_ofi_same_interface(c->info[i], info)) {
            if (wr_ofi_address_rank(info) < wr_ofi_address_rank(c->info[i]))
                c->info[i] = info;
            return;
        }
    c->info[c->n++] = info;
}

/* Orders by preference, keeping libfabric's order among equals (insertion: the lists are short). */
static void wr_ofi_candidates_sort(struct wr_ofi_candidates *c)
{
    for (size_t i = 1; i < c->n; i++) {
        struct fi_info *info = c->info[i];
        const char *name = info->fabric_attr->prov_name;
        int p = wr_ofi_quirks_find(name)->preference;
        size_t j = i;
        for (; j > 0; j--) {
            const char *other = c->info[j - 1]->fabric_attr->prov_name;
            int q = wr_ofi_quirks_find(other)->preference;
            if (q > p || (q == p && strcmp(other, name) <= 0))
                break;
            c->info[j] = c->info[j - 1];
        }
        c->info[j] = info;
    }
}

static void wr_ofi_candidates_text(const struct wr_ofi_candidates *c, char *buf, size_t size)
{
    buf[0] = '\0';
    for (size_t i = 0; i < c->n; i++) {
        const char *name = c->info[i]->fabric_attr->prov_name;
        if (i && !strcmp(name, c->info[i - 1]->fabric_attr->prov_name))
            continue;
        if (i)
            wr_str_append(buf, size, ", ");
        wr_str_append(buf, size, name);
    }
    if (!c->n)
        wr_str_copy(buf, size, "none");
}

/* Keeps the providers called `want`: by the whole name, else by the part before the ';'. */
static size_t wr_ofi_candidates_filter(struct wr_ofi_candidates *c, const char *want)
{
    for (int by_core = 0; by_core < 2; by_core++) {
        size_t kept = 0;
        for (size_t i = 0; i < c->n; i++) {
            const char *name = c->info[i]->fabric_attr->prov_name;
            size_t core = strcspn(name, ";");
            if (by_core ? strlen(want) == core && !strncasecmp(want, name, core) : !strcasecmp(want, name))
                c->info[kept++] = c->info[i];
        }
        if (kept)
            return kept;
    }
    return 0;
}

/* A provider that stays inside the node serves only jobs on one node, unless asked for by name. */
static void wr_ofi_candidates_drop_local(struct wr_ofi_candidates *c)
{
    size_t kept = 0;
    for (size_t i = 0; i < c->n; i++)
        if (!wr_ofi_quirks_find(c->info[i]->fabric_attr->prov_name)->node_only)
            c->info[kept++] = c->info[i];
    c->n = kept;
}

weir_status wr_ofi_candidates_find(const struct wr_transport_params *params, struct wr_ofi_candidates *c,
                                   weir_error *err)
{
    const char *want = params->config->ofi_provider;
    memset(c, 0, sizeof *c);
    struct fi_info *hints = wr_ofi_hints();
    if (!hints)
        return wr_error_set(err, WEIR_ERR_UNSUPPORTED, "install libfabric, or put its folder into LD_LIBRARY_PATH",
                            "libfabric gave no hints: %s", fi_strerror(FI_ENOMEM));
    int rc = fi_getinfo(FI_VERSION(1, 11), NULL, NULL, 0, hints, &c->list);
    fi_freeinfo(hints);
    if (rc)
        return wr_error_set(err, WEIR_ERR_UNSUPPORTED, "look at the output of fi_info -t FI_EP_RDM",
                            "libfabric has no provider with datagram endpoints and RMA: %s", fi_strerror(-rc));
    size_t total = 0;
    for (struct fi_info *i = c->list; i; i = i->next)
        total++;
    c->info = calloc(total, sizeof *c->info);
    if (!c->info) {
        wr_ofi_candidates_free(c);
        return wr_error_memory(err, total * sizeof *c->info, "libfabric's providers");
    }
    for (struct fi_info *i = c->list; i; i = i->next)
        if (wr_ofi_usable(i))
            wr_ofi_candidate_add(c, i);
    wr_ofi_candidates_sort(c);
    if (want) {
        char text[256];
        wr_ofi_candidates_text(c, text, sizeof text);
        c->n = wr_ofi_candidates_filter(c, want);
        if (!c->n) {
            wr_ofi_candidates_free(c);
            return wr_error_set(err, WEIR_ERR_CONFIG, "choose one of these, or unset WEIR_OFI_PROVIDER",
                                "WEIR_OFI_PROVIDER=%s is not a usable provider of libfabric here; there are: %s", want,
                                text);
        }
    } else if (params->node_size < params->size) {
        wr_ofi_candidates_drop_local(c);
    }
    if (!c->n) {
        wr_ofi_candidates_free(c);
        return wr_error_set(err, WEIR_ERR_UNSUPPORTED, "look at the output of fi_info -t FI_EP_RDM",
                            "libfabric has no provider that can be used here");
    }
    return WEIR_OK;
}

void wr_ofi_candidates_free(struct wr_ofi_candidates *c)
{
    free(c->info);
    if (c->list)
        fi_freeinfo(c->list);
    memset(c, 0, sizeof *c);
}
