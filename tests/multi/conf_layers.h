/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts layers ("contrary,trace": the innermost first) on a transport that is open. Besides those of the library there is
 * "nofence": it forgets every fence that the code above asks for, so that what depends on one must fail.
 */
#ifndef WR_TEST_CONF_LAYERS_H
#define WR_TEST_CONF_LAYERS_H

#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "comm/transport/layer.h"

static inline weir_status nofence_put(struct wr_transport *t, int peer, const void *src, struct wr_region *region,
                                      uint64_t len, struct wr_rkey *rkey, uint64_t offset, unsigned flags,
                                      struct wr_op *op, weir_error *err)
{
    flags &= ~(unsigned)WR_OP_FENCE;
    return t->lower->ops->put(t->lower, peer, src, region, len, rkey, offset, flags, op, err);
}

static inline weir_status nofence_put_signal(struct wr_transport *t, int peer, const void *src, struct wr_region *region,
                                             uint64_t len, struct wr_rkey *rkey, uint64_t offset, uint32_t slot,
                                             unsigned flags, struct wr_op *op, weir_error *err)
{
    flags &= ~(unsigned)WR_OP_FENCE;
    return t->lower->ops->put_signal(t->lower, peer, src, region, len, rkey, offset, slot, flags, op, err);
}

static inline weir_status nofence_get(struct wr_transport *t, int peer, void *dst, struct wr_region *region, uint64_t len,
                                      struct wr_rkey *rkey, uint64_t offset, struct wr_op *op, weir_error *err)
{
    return t->lower->ops->get(t->lower, peer, dst, region, len, rkey, offset, op, err);
}

static inline weir_status nofence_am(struct wr_transport *t, int peer, unsigned id, const void *header, size_t header_len,
                                     const void *payload, size_t len, unsigned flags, weir_error *err)
{
    flags &= ~(unsigned)WR_OP_FENCE;
    return t->lower->ops->am(t->lower, peer, id, header, header_len, payload, len, flags, err);
}

static inline weir_status nofence_am_long(struct wr_transport *t, int peer, unsigned id, const void *header,
                                          size_t header_len, const void *src, struct wr_region *region, size_t len,
                                          struct wr_op *op, weir_error *err)
{
    return t->lower->ops->am_long(t->lower, peer, id, header, header_len, src, region, len, op, err);
}

static inline weir_status nofence_flush(struct wr_transport *t, int peer, struct wr_op *op, weir_error *err)
{
    return t->lower->ops->flush(t->lower, peer, op, err);
}

static inline void nofence_close(struct wr_transport *t)
{
    t->lower->ops->close(t->lower);
    free(t);
}

static inline weir_status nofence_wrap(struct wr_transport **t)
{
    static const struct wr_transport_ops ops = {.name = "nofence",
                                                .address = wr_layer_address,
                                                .start = wr_layer_start,
                                                .close = nofence_close,
                                                .reaches = wr_layer_reaches,
                                                .connect = wr_layer_connect,
                                                .reg = wr_layer_reg,
                                                .dereg = wr_layer_dereg,
                                                .key_export = wr_layer_key_export,
                                                .key_import = wr_layer_key_import,
                                                .key_close = wr_layer_key_close,
                                                .put = nofence_put,
                                                .put_signal = nofence_put_signal,
                                                .get = nofence_get,
                                                .am = nofence_am,
                                                .am_long = nofence_am_long,
                                                .am_long_max = wr_layer_am_long_max,
                                                .flush = nofence_flush,
                                                .progress = wr_layer_progress,
                                                .wait_fd = wr_layer_wait_fd,
                                                .arm = wr_layer_arm,
                                                .disarm = wr_layer_disarm};
    struct wr_transport *layer = calloc(1, sizeof *layer);
    if (!layer)
        return WEIR_ERR_NO_MEMORY;
    wr_layer_init(layer, &ops, *t);
    *t = layer;
    return WEIR_OK;
}

static inline weir_status conf_layers_wrap(const char *layers, struct wr_transport **t, weir_error *err)
{
    char list[128], *save = NULL;
    weir_status status = WEIR_OK;
    wr_str_copy(list, sizeof list, layers);
    for (char *name = strtok_r(list, ",", &save); name && status == WEIR_OK; name = strtok_r(NULL, ",", &save))
        status = strcmp(name, "nofence") ? wr_layers_wrap_named(name, t, err) : nofence_wrap(t);
    return status;
}

#endif
