/* SPDX-License-Identifier: BSD-3-Clause */
/* One rail: fabric, domain, completion queue, address vector and endpoint on one interface. */
#include "comm/transport/ofi/ofi.h"

#include <stdlib.h>
#include <string.h>

enum { ENDPOINT_TRIES = 16 };

weir_status wr_ofi_error(const struct wr_ofi *ofi, weir_error *err, const char *what, long code)
{
    return wr_error_set(err, code == -FI_ENOMEM ? WEIR_ERR_NO_MEMORY : WEIR_ERR_TRANSPORT,
                        "FI_LOG_LEVEL=warn shows libfabric's own reason; WEIR_OFI_PROVIDER chooses another provider",
                        "libfabric provider %s on %s: %s: %s", ofi->provider,
                        ofi->device[0] ? ofi->device : "any device", what, fi_strerror((int)-code));
}

/* The queue must hold what we keep in flight; devices bound it, and say so only by refusing. */
static int wr_ofi_cq_open(struct wr_ofi_rail *rail, unsigned rx_count)
{
    static const enum fi_wait_obj waits[] = {FI_WAIT_FD, FI_WAIT_NONE};
    int rc = -FI_EINVAL;
    for (size_t w = 0; w < WR_ARRAY_SIZE(waits); w++)
        for (unsigned tx = rail->tx_max; tx >= 16; tx /= 2) {
            struct fi_cq_attr attr = {.size = tx + rx_count + 16, .format = FI_CQ_FORMAT_DATA, .wait_obj = waits[w]};
            rc = fi_cq_open(rail->domain, &attr, &rail->cq, NULL);
            if (rc)
                continue;
            rail->tx_max = tx;
            rail->wait_fd = -1;
            if (waits[w] == FI_WAIT_FD && fi_control(&rail->cq->fid, FI_GETWAIT, &rail->wait_fd))
                rail->wait_fd = -1;
            return 0;
        }
    return rc;
}

static int wr_ofi_av_open(struct wr_ofi_rail *rail)
{
    struct fi_av_attr attr = {.type = rail->info->domain_attr->av_type == FI_AV_MAP ? FI_AV_MAP : FI_AV_TABLE,
                              .count = 64};
    return fi_av_open(rail->domain, &attr, &rail->av, NULL);
}

/* Fills in what can be asked of the description alone. */
static void wr_ofi_rail_limits(struct wr_ofi *ofi, struct wr_ofi_rail *rail)
{
    struct fi_info *info = rail->info;
    info->tx_attr->op_flags = 0; /* what is wanted is said with each operation */
    info->rx_attr->op_flags = 0;
    if (!ofi->stream) {
        info->tx_attr->msg_order &= FI_ORDER_SAS; /* order that is not needed costs speed on adaptive networks */
        info->rx_attr->msg_order &= FI_ORDER_SAS;
    }
    rail->tx_max = (unsigned)WR_MIN(info->tx_attr->size ? info->tx_attr->size : 256, (size_t)1024);
    rail->inject = ofi->quirks->bad_inject ? 0 : info->tx_attr->inject_size;
    rail->max_post = WR_MIN((uint64_t)info->ep_attr->max_msg_size, (uint64_t)WR_OFI_CHUNK_MAX);
}

void wr_ofi_rail_close_endpoint(struct wr_ofi_rail *rail)
{
    if (rail->ep)
        fi_close(&rail->ep->fid);
    rail->ep = NULL;
}

static int wr_ofi_endpoint_try(struct wr_ofi_rail *rail, const char **what)
{
    *what = "opening the endpoint";
    int rc = fi_endpoint(rail->domain, rail->info, &rail->ep, NULL);
    if (rc)
        return rc;
    *what = "binding the endpoint";
    rc = fi_ep_bind(rail->ep, &rail->av->fid, 0);
    if (!rc)
        rc = fi_ep_bind(rail->ep, &rail->cq->fid, FI_TRANSMIT | FI_RECV);
    if (rc)
        return rc;
    *what = "enabling the endpoint (queues larger than the device has? FI_UNIVERSE_SIZE makes them smaller)";
    return fi_enable(rail->ep);
}

/*
 * libfabric's shm names endpoints by process and count. Where a process of this number was killed before, it takes what that one
 * left behind for somebody's who is alive; the next endpoint has another name.
 */
static int wr_ofi_endpoint_open(struct wr_ofi_rail *rail, const char **what)
{
    int rc = wr_ofi_endpoint_try(rail, what);
    for (int tries = 1; rc == -FI_EBUSY && tries < ENDPOINT_TRIES; tries++) {
        wr_ofi_rail_close_endpoint(rail);
        rc = wr_ofi_endpoint_try(rail, what);
    }
    return rc;
}

weir_status wr_ofi_rail_open(struct wr_ofi *ofi, unsigned index, struct fi_info *info, weir_error *err)
{
    struct wr_ofi_rail *rail = &ofi->rail[index];
    memset(rail, 0, sizeof *rail);
    rail->index = index;
    rail->wait_fd = -1;
    rail->info = info;
    wr_ofi_rail_limits(ofi, rail);
    unsigned rx_count = (unsigned)WR_MIN(info->rx_attr->size ? info->rx_attr->size : 64, (size_t)WR_OFI_RX_BUFFERS);
    const char *what = "opening the fabric";
    int rc = fi_fabric(info->fabric_attr, &rail->fabric, NULL);
    if (!rc) {
        what = "opening the domain";
        rc = fi_domain(rail->fabric, info, &rail->domain, NULL);
    }
    if (!rc) {
        what = "opening the completion queue";
        rc = wr_ofi_cq_open(rail, rx_count);
    }
    if (!rc) {
        what = "opening the address vector";
        rc = wr_ofi_av_open(rail);
    }
    if (!rc)
        rc = wr_ofi_endpoint_open(rail, &what);
    if (!rc)
        return WEIR_OK;
    rail->info = NULL; /* stays with the caller */
    wr_ofi_rail_close(rail);
    return wr_ofi_error(ofi, err, what, rc);
}

void wr_ofi_rail_close(struct wr_ofi_rail *rail)
{
    wr_ofi_rail_close_endpoint(rail);
    if (rail->av)
        fi_close(&rail->av->fid);
    if (rail->cq)
        fi_close(&rail->cq->fid);
    if (rail->domain)
        fi_close(&rail->domain->fid);
    if (rail->fabric)
        fi_close(&rail->fabric->fid);
    if (rail->info)
        fi_freeinfo(rail->info);
    memset(rail, 0, sizeof *rail);
    rail->wait_fd = -1;
}
