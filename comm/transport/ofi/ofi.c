/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening and closing of the libfabric transport, and its ops table. */
#include "comm/transport/ofi/ofi.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    WR_OFI_STRIDE = (WR_OFI_BUFFER + 127) / 128 * 128,
    /* libfabric's ofi_rxm gives a completion queue 256 entries for each process of the job, and rxe devices have 32767 */
    WR_OFI_SMALL_JOB = 127
};

/*
 * ofi_rxm sizes the completion queue of the device by FI_UNIVERSE_SIZE, "the number of processes", whose default of 256
 * is more than small RDMA devices (soft-RoCE) can hold; it has no other knob. Where there is such a device and the job is
 * smaller, say so, before libfabric reads it for the first time; a user's own value stays.
 */
static void wr_ofi_say_universe(const struct wr_transport_params *params)
{
    if (params->size > WR_OFI_SMALL_JOB || wr_env_get(params->env, "FI_UNIVERSE_SIZE"))
        return;
    DIR *dir = opendir("/sys/class/infiniband");
    if (!dir)
        return;
    bool any = false;
    for (struct dirent *e = readdir(dir); e && !any; e = readdir(dir))
        any = e->d_name[0] != '.';
    closedir(dir);
    if (any)
        wr_env_default("FI_UNIVERSE_SIZE", WR_STR(127));
}

/*
 * Providers keep closed registrations in a cache and trust hooks in the C library to say when the memory behind them goes.
 * The hooks miss a heap that shrinks and grows again (seen with verbs: puts went to the old pages), and pages stay pinned
 * behind the user's back: what weir closes is to be closed. A user's own value stays.
 */
static void wr_ofi_refuse_cache(void)
{
    wr_env_default("FI_MR_CACHE_MONITOR", "disabled");
}

/* What the provider can do decides how puts are followed. */
static weir_status wr_ofi_negotiate(struct wr_ofi *ofi, const struct fi_info *info, weir_error *err)
{
    ofi->quirks = wr_ofi_quirks_find(info->fabric_attr->prov_name);
    ofi->mode = info->mode;
    ofi->mr_mode = info->domain_attr->mr_mode;
    ofi->stream = ofi->quirks->stream;
    ofi->ordered_messages = (info->tx_attr->msg_order & FI_ORDER_SAS) && (info->rx_attr->msg_order & FI_ORDER_SAS);
    ofi->immediate = info->domain_attr->cq_data_size >= 4 && !ofi->quirks->bad_writedata;
    if (ofi->stream && !((info->tx_attr->msg_order & FI_ORDER_SAW) && (info->tx_attr->msg_order & FI_ORDER_RAW)))
        ofi->stream = false; /* it does not say so itself */
    if (ofi->stream)
        return WEIR_OK;
    struct fi_info *refined = wr_ofi_info_refine(info, FI_FENCE, FI_DELIVERY_COMPLETE);
    ofi->fence_flag = refined != NULL;
    if (!refined)
        refined = wr_ofi_info_refine(info, 0, FI_DELIVERY_COMPLETE);
    ofi->delivery_complete = refined != NULL;
    if (refined)
        fi_freeinfo(refined);
    if (ofi->delivery_complete)
        return WEIR_OK;
    return wr_error_set(err, WEIR_ERR_UNSUPPORTED, "choose another provider with WEIR_OFI_PROVIDER",
                        "libfabric provider %s neither orders messages after writes nor offers delivery completion",
                        ofi->provider);
}

/* A copy of `info` that can be opened as it stands. */
static struct fi_info *wr_ofi_final_info(const struct wr_ofi *ofi, const struct fi_info *info)
{
    if (ofi->stream)
        return fi_dupinfo(info);
    return wr_ofi_info_refine(info, ofi->fence_flag ? FI_FENCE : 0, FI_DELIVERY_COMPLETE);
}

static weir_status wr_ofi_rails_open(struct wr_ofi *ofi, struct fi_info *const *info, size_t n, weir_error *err)
{
    struct fi_info *chosen[WR_OFI_RAILS];
    unsigned count;
    char name[64];
    wr_str_copy(ofi->provider, sizeof ofi->provider, info[0]->fabric_attr->prov_name);
    weir_status status = wr_ofi_nics_choose(&ofi->base.params, info, n, chosen, &count, err);
    if (!status)
        status = wr_ofi_negotiate(ofi, chosen[0], err);
    ofi->device[0] = '\0';
    for (unsigned i = 0; !status && i < count; i++) {
        wr_str_append(ofi->device, sizeof ofi->device, i ? "," : "");
        wr_str_append(ofi->device, sizeof ofi->device, wr_ofi_nic_name(chosen[i], name, sizeof name));
        struct fi_info *final = wr_ofi_final_info(ofi, chosen[i]);
        if (!final)
            return wr_error_memory(err, sizeof *final, "libfabric's description of an interface");
        status = wr_ofi_rail_open(ofi, i, final, err);
        if (status)
            fi_freeinfo(final);
        else
            ofi->nrails = i + 1;
    }
    return status;
}

static void wr_ofi_rails_close(struct wr_ofi *ofi)
{
    for (unsigned i = 0; i < ofi->nrails; i++)
        wr_ofi_rail_close(&ofi->rail[i]);
    ofi->nrails = 0;
}

/* The first provider, in order of preference, whose endpoints open. */
static weir_status wr_ofi_provider_open(struct wr_ofi *ofi, weir_error *err)
{
    struct wr_ofi_candidates c;
    weir_status status = wr_ofi_candidates_find(&ofi->base.params, &c, err);
    if (status)
        return status;
    status = WEIR_ERR_UNSUPPORTED;
    for (size_t at = 0, n; at < c.n; at += n) {
        const char *name = c.info[at]->fabric_attr->prov_name;
        for (n = 1; at + n < c.n && !strcmp(c.info[at + n]->fabric_attr->prov_name, name); n++)
            ;
        status = wr_ofi_rails_open(ofi, &c.info[at], n, err);
        if (status == WEIR_OK)
            break;
        wr_ofi_rails_close(ofi);
        if (status == WEIR_ERR_CONFIG && at + n == c.n)
            break; /* the last one says what was wrong with WEIR_NIC */
        wr_info(ofi->base.params.log, TRANSPORT, "ofi: provider %s cannot be used: %s", name, err ? err->message : "");
    }
    wr_ofi_candidates_free(&c);
    return status;
}

/* They need order, since there are no spare buffers of their size, and two pieces in one message. */
static bool has_long_messages(const struct wr_ofi *ofi)
{
    const struct fi_info *info = ofi->rail[0].info;
    return ofi->quirks->long_am && ofi->ordered_messages && info->tx_attr->iov_limit >= 2 &&
           info->ep_attr->max_msg_size >= ofi->quirks->long_am + sizeof(struct wr_ofi_header);
}

static weir_status wr_ofi_memory_open(struct wr_ofi *ofi, weir_error *err)
{
    size_t rx_size = ofi->rail[0].info->rx_attr->size;
    size_t rx_stride = WR_OFI_STRIDE, rx_most = WR_OFI_RX_BUFFERS;
    ofi->rx_size = WR_OFI_BUFFER;
    if (has_long_messages(ofi)) {
        ofi->rx_size = ofi->quirks->long_am + sizeof(struct wr_ofi_header);
        rx_stride = (ofi->rx_size + WR_OFI_PAGE - 1) / WR_OFI_PAGE * WR_OFI_PAGE;
        rx_most = WR_OFI_RX_LONG;
    }
    ofi->rx_target = (unsigned)WR_MIN(rx_size ? rx_size : 64, rx_most);
    ofi->nrx = ofi->rx_target + (ofi->ordered_messages ? 0 : WR_OFI_RX_SPARE);
    size_t tx_len = (size_t)WR_OFI_TX_BUFFERS * WR_OFI_STRIDE, buffers = tx_len + ofi->nrx * rx_stride;
    size_t control = (size_t)ofi->base.params.size * sizeof(uint64_t);
    ofi->memory_len = buffers + control;
    void *memory = mmap(NULL, ofi->memory_len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        ofi->memory_len = 0;
        return wr_error_memory(err, buffers, "message buffers");
    }
    ofi->memory = memory;
    ofi->control = (uint64_t *)(void *)(ofi->memory + buffers);
    for (size_t i = WR_OFI_TX_BUFFERS; i-- > 0;)
        wr_ofi_tx_put(ofi, ofi->memory + i * WR_OFI_STRIDE);
    ofi->rx = calloc(ofi->nrx, sizeof *ofi->rx);
    if (!ofi->rx)
        return wr_error_memory(err, ofi->nrx * sizeof *ofi->rx, "receives");
    for (unsigned i = 0; i < ofi->nrx; i++) {
        ofi->rx[i].ctx.type = WR_OFI_CTX_RX;
        ofi->rx[i].data = ofi->memory + tx_len + i * rx_stride;
        wr_list_push_back(&ofi->rx_idle, &ofi->rx[i].link);
    }
    weir_status status = WEIR_OK;
    if (ofi->mr_mode & FI_MR_LOCAL)
        status = wr_ofi_region_create(ofi, ofi->memory, buffers, 0,
                                      FI_SEND | FI_RECV | FI_READ | FI_WRITE, false, &ofi->buffers, err);
    if (!status)
        status = wr_ofi_region_create(ofi, ofi->control, control, 0, FI_REMOTE_READ, false, &ofi->control_region, err);
    return status;
}

static weir_status wr_ofi_tables_open(struct wr_ofi *ofi, weir_error *err)
{
    size_t size = (size_t)ofi->base.params.size;
    ofi->peers = calloc(size, sizeof *ofi->peers);
    if (!ofi->peers)
        return wr_error_memory(err, size * sizeof *ofi->peers, "the table of peers");
    if (!ofi->ordered_messages) {
        ofi->sources = calloc(size, sizeof *ofi->sources);
        if (!ofi->sources)
            return wr_error_memory(err, size * sizeof *ofi->sources, "the order of messages");
        for (size_t i = 0; i < size; i++)
            wr_list_init(&ofi->sources[i].held);
    }
    unsigned in_flight = 0;
    for (unsigned i = 0; i < ofi->nrails; i++)
        in_flight += ofi->rail[i].tx_max;
    in_flight = WR_MIN(in_flight, (unsigned)WR_OFI_REQUESTS);
    wr_pool_init(&ofi->reqs, sizeof(struct wr_ofi_req), 0, 256, in_flight);
    wr_pool_init(&ofi->bulk_pool, sizeof(struct wr_ofi_bulk), 0, 64, WR_OFI_BULKS);
    wr_pool_init(&ofi->flush_pool, sizeof(struct wr_ofi_flush), 0, 64, WR_OFI_BULKS);
    wr_pool_init(&ofi->waiter_pool, sizeof(struct wr_ofi_waiter), 0, 64, 64);
    weir_status status = wr_pool_reserve(&ofi->reqs, in_flight, err);
    if (!status)
        status = wr_pool_reserve(&ofi->bulk_pool, WR_OFI_BULKS, err);
    if (!status)
        status = wr_pool_reserve(&ofi->flush_pool, WR_OFI_BULKS, err);
    return status;
}

static void wr_ofi_caps(struct wr_ofi *ofi)
{
    const struct fi_info *info = ofi->rail[0].info;
    size_t inject = WR_MAX(ofi->rail[0].inject, (size_t)1024);
    ofi->base.caps = (struct wr_transport_caps){
        .put = true,
        .get = true,
        .ordered = ofi->stream && ofi->ordered_messages,
        .needs_local_region = (ofi->mr_mode & FI_MR_LOCAL) != 0,
        .signal_kind = ofi->immediate ? WR_SIGNAL_IMMEDIATE : WR_SIGNAL_MESSAGE,
        .immediate_bytes = ofi->immediate ? (info->domain_attr->cq_data_size >= 8 ? 8 : 4) : 0,
        .max_put = ofi->rail[0].max_post,
        .max_am = WR_OFI_PAYLOAD,
        .inject = WR_MIN(inject, (size_t)WR_OFI_PAYLOAD),
        .eager_put = ofi->quirks->eager_put,
        .memory_modes = (unsigned)ofi->mr_mode,
        .rails = ofi->nrails,
        .provider = ofi->provider,
        .device = ofi->device,
    };
}

enum { CLOSING_READS = 10000, EMPTY_READS = 100 }; /* of a queue in drop_arrivals(); in a row, after which it counts as empty */

/*
 * Takes what has come off the completion queues, for nobody: an endpoint of verbs;ofi_rxm that is closed with messages that were
 * not read ends the process (libfabric 1.17). Those that come later still may: the layers above part before they close.
 */
static void drop_arrivals(struct wr_ofi *ofi)
{
    struct fi_cq_data_entry entry[WR_OFI_CQ_BATCH];
    struct fi_cq_err_entry error = {0};
    for (unsigned i = 0; i < ofi->nrails && !ofi->broken; i++)
        for (int reads = 0, empty = 0; ofi->rail[i].cq && reads < CLOSING_READS && empty < EMPTY_READS; reads++) {
            ssize_t n = fi_cq_read(ofi->rail[i].cq, entry, WR_OFI_CQ_BATCH);
            if (n == -FI_EAVAIL)
                n = fi_cq_readerr(ofi->rail[i].cq, &error, 0);
            empty = n > 0 ? 0 : empty + 1;
            if (n < 0 && n != -FI_EAGAIN)
                break;
        }
}

static void wr_ofi_close(struct wr_transport *t)
{
    struct wr_ofi *ofi = wr_ofi_of(t);
    drop_arrivals(ofi);
    /* Registrations bound to the endpoint are closed before it; otherwise the endpoint goes first, with its receives. */
    if (!(ofi->mr_mode & FI_MR_ENDPOINT))
        for (unsigned i = 0; i < ofi->nrails; i++)
            wr_ofi_rail_close_endpoint(&ofi->rail[i]);
    wr_ofi_region_destroy(ofi, ofi->buffers);
    wr_ofi_region_destroy(ofi, ofi->control_region);
    for (uint32_t i = 0; i < ofi->nregions; i++) /* those that the owner has not given back */
        wr_ofi_region_destroy(ofi, ofi->regions[i]);
    for (int i = 0; ofi->peers && i < t->params.size; i++)
        wr_ofi_peer_free(ofi, ofi->peers[i]);
    wr_ofi_rails_close(ofi);
    wr_ofi_wait_close(ofi);
    wr_pool_destroy(&ofi->reqs);
    wr_pool_destroy(&ofi->bulk_pool);
    wr_pool_destroy(&ofi->flush_pool);
    wr_pool_destroy(&ofi->waiter_pool);
    if (ofi->memory)
        munmap(ofi->memory, ofi->memory_len);
    free(ofi->rx);
    free(ofi->peers);
    free(ofi->sources);
    free(ofi->regions);
    free(ofi->generations);
    free(ofi->free_next);
    free(ofi);
}

static weir_status wr_ofi_open(const struct wr_transport_params *params, struct wr_transport **transport,
                               weir_error *err)
{
    struct wr_ofi *ofi = calloc(1, sizeof *ofi);
    weir_error own;
    if (!err)
        err = &own;
    if (!ofi)
        return wr_error_memory(err, sizeof *ofi, "the libfabric transport");
    ofi->base.ops = &wr_ofi_ops;
    ofi->base.params = *params;
    ofi->epoll_fd = -1;
    wr_list_init(&ofi->rx_idle);
    wr_list_init(&ofi->bulks);
    wr_list_init(&ofi->syncing);
    wr_ofi_say_universe(params);
    wr_ofi_refuse_cache();
    weir_status status = wr_ofi_provider_open(ofi, err);
    if (!status)
        status = wr_ofi_tables_open(ofi, err);
    if (!status)
        status = wr_ofi_memory_open(ofi, err);
    if (!status)
        status = wr_ofi_wait_open(ofi, err);
    if (!status)
        status = wr_ofi_rx_post(ofi, err);
    if (status) {
        wr_ofi_close(&ofi->base);
        return status;
    }
    wr_ofi_caps(ofi);
    wr_info(params->log, TRANSPORT, "ofi: provider %s on %s, %u rails, mr_mode %#x, signals by %s, %s", ofi->provider,
            ofi->device, ofi->nrails, (unsigned)ofi->mr_mode, ofi->immediate ? "immediate data" : "message",
            ofi->stream ? "ordered" : "delivery completion");
    *transport = &ofi->base;
    return WEIR_OK;
}

const struct wr_transport_ops wr_ofi_ops = {
    .name = "ofi",
    .open = wr_ofi_open,
    .address = wr_ofi_address,
    .start = NULL,
    .close = wr_ofi_close,
    .reaches = wr_ofi_reaches,
    .connect = wr_ofi_connect,
    .reg = wr_ofi_reg,
    .dereg = wr_ofi_dereg,
    .key_export = wr_ofi_key_export,
    .key_import = wr_ofi_key_import,
    .key_close = wr_ofi_key_close,
    .put = wr_ofi_put,
    .put_signal = wr_ofi_put_signal,
    .get = wr_ofi_get,
    .am = wr_ofi_am,
    .am_long = wr_ofi_am_long,
    .am_long_max = wr_ofi_am_long_max,
    .flush = wr_ofi_flush,
    .progress = wr_ofi_progress,
    .wait_fd = wr_ofi_wait_fd,
    .arm = wr_ofi_arm,
    .disarm = wr_ofi_disarm,
};
