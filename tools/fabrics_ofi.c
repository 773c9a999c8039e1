/* SPDX-License-Identifier: BSD-3-Clause */
/* libfabric: lists the providers, and opens fabric, domain and endpoint of one of them on each interface. */
#include "tools/fabrics_open.h"

#include <stdbool.h>
#include <string.h>

#include "base/compiler.h"
#include "tools/fabrics.h"

#ifdef HAVE_LIBFABRIC
#include "base/libfabric.h"

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

#define API_VERSION FI_VERSION(1, 11)

static const char *kind_of(const struct fi_info *info)
{
    switch (info->ep_attr->type) {
    case FI_EP_MSG:
        return "msg";
    case FI_EP_RDM:
        return "rdm";
    case FI_EP_DGRAM:
        return "dgram";
    default:
        return "";
    }
}

/* Whether an earlier entry of the list is the same provider, domain and kind. */
static bool seen_before(const struct fi_info *list, const struct fi_info *info)
{
    for (; list != info; list = list->next)
        if (list->ep_attr->type == info->ep_attr->type &&
            !strcmp(list->fabric_attr->prov_name, info->fabric_attr->prov_name) &&
            !strcmp(list->domain_attr->name, info->domain_attr->name))
            return true;
    return false;
}

static int query(struct fi_info *hints, struct fi_info **list)
{
    hints->mode = ~0ull;
    hints->domain_attr->mode = ~0ull;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
    return fi_getinfo(API_VERSION, NULL, NULL, 0, hints, list);
}

void ofi_list(FILE *out)
{
    struct fi_info *hints = fi_allocinfo(), *list = NULL;
    if (hints && !query(hints, &list))
        for (const struct fi_info *info = list; info; info = info->next)
            if (!seen_before(list, info))
                fprintf(out, "%s\t%s\t%s\n", info->fabric_attr->prov_name, kind_of(info), info->domain_attr->name);
    fi_freeinfo(list);
    fi_freeinfo(hints);
}

struct opened {
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_ep *ep;
    struct fid_eq *eq;
    struct fid_cq *cq;
    struct fid_av *av;
};

/* Opens everything up to an endpoint that could be used; returns what failed, with *rc, or NULL. */
static const char *open_endpoint(struct fi_info *info, struct opened *o, int *rc)
{
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_CONTEXT, .wait_obj = FI_WAIT_NONE, .size = 64};
    struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_UNSPEC};
    struct fi_av_attr av_attr = {.type = FI_AV_UNSPEC};
    bool connected = info->ep_attr->type == FI_EP_MSG;

    if ((*rc = fi_fabric(info->fabric_attr, &o->fabric, NULL)))
        return "fi_fabric";
    if ((*rc = fi_domain(o->fabric, info, &o->domain, NULL)))
        return "fi_domain";
    if ((*rc = fi_cq_open(o->domain, &cq_attr, &o->cq, NULL)))
        return "fi_cq_open";
    if ((*rc = fi_endpoint(o->domain, info, &o->ep, NULL)))
        return "fi_endpoint";
    if ((*rc = fi_ep_bind(o->ep, &o->cq->fid, FI_TRANSMIT | FI_RECV)))
        return "fi_ep_bind (completion queue)";
    if (connected) {
        if ((*rc = fi_eq_open(o->fabric, &eq_attr, &o->eq, NULL)))
            return "fi_eq_open";
        if ((*rc = fi_ep_bind(o->ep, &o->eq->fid, 0)))
            return "fi_ep_bind (event queue)";
    } else {
        if ((*rc = fi_av_open(o->domain, &av_attr, &o->av, NULL)))
            return "fi_av_open";
        if ((*rc = fi_ep_bind(o->ep, &o->av->fid, 0)))
            return "fi_ep_bind (address vector)";
    }
    if ((*rc = fi_enable(o->ep)))
        return "fi_enable";
    return NULL;
}

static void close_all(struct opened *o)
{
    if (o->ep)
        fi_close(&o->ep->fid);
    if (o->av)
        fi_close(&o->av->fid);
    if (o->eq)
        fi_close(&o->eq->fid);
    if (o->cq)
        fi_close(&o->cq->fid);
    if (o->domain)
        fi_close(&o->domain->fid);
    if (o->fabric)
        fi_close(&o->fabric->fid);
}

void ofi_open(FILE *out, const char *provider)
{
    struct fi_info *hints = fi_allocinfo(), *list = NULL;
    if (!hints)
        return;
    hints->fabric_attr->prov_name = strdup(provider);
    if (!query(hints, &list))
        for (struct fi_info *info = list; info; info = info->next) {
            if (strcmp(info->fabric_attr->prov_name, provider) || seen_before(list, info))
                continue;
            struct opened o;
            int rc = 0;
            memset(&o, 0, sizeof o);
            const char *device = info->domain_attr->name, *kind = kind_of(info);
            fprintf(out, "try\t%s\t%s\n", device, kind);
            const char *failed = open_endpoint(info, &o, &rc);
            if (failed)
                fprintf(out, "no\t%s\t%s\t%s: %s\n", device, kind, failed, fi_strerror(-rc));
            close_all(&o);
            if (!failed)
                fprintf(out, "ok\t%s\t%s\n", device, kind);
        }
    fi_freeinfo(list);
    fi_freeinfo(hints);
}

static void version(char *buf, size_t size)
{
    snprintf(buf, size, "API %u.%u", FI_MAJOR(fi_version()), FI_MINOR(fi_version()));
}
#else
void ofi_list(FILE *out WR_UNUSED)
{
}

void ofi_open(FILE *out WR_UNUSED, const char *provider WR_UNUSED)
{
}

static void version(char *buf, size_t size)
{
    snprintf(buf, size, "not built in");
}
#endif

const char *fabrics_version_ofi(char *buf, size_t size)
{
    version(buf, size);
    return buf;
}
