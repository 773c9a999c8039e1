/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Layers: transports that stand on another one. A layer is put on a transport that is open and not yet started, owns it
 * from then on and closes it; it sees what this rank starts, not what arrives.
 */
#ifndef WR_TRANSPORT_LAYER_H
#define WR_TRANSPORT_LAYER_H

#include "comm/transport/transport.h"

/*
 * Each puts a layer on `lower` and sets *t on success; on failure `lower` is as before.
 * trace: writes every operation to `path` (see trace/trace.c for the two formats).
 */
weir_status wr_trace_wrap(struct wr_transport *lower, const char *path, struct wr_transport **t, weir_error *err);
/* fault: does what the script says (see fault/script.h for its words); WEIR_ERR_CONFIG names the word that is wrong. */
weir_status wr_fault_wrap(struct wr_transport *lower, const char *script, struct wr_transport **t, weir_error *err);
/* contrary: as awkward as the rules of transport.h allow; `seed` chooses among the ways. */
weir_status wr_contrary_wrap(struct wr_transport *lower, uint64_t seed, struct wr_transport **t, weir_error *err);

/*
 * Puts the layers that the configuration asks for (WEIR_FAULT, WEIR_CONTRARY, WEIR_TRACE, in this order) on *t. On
 * failure *t is closed and NULL.
 */
weir_status wr_layers_wrap(struct wr_transport **t, weir_error *err);

/* The same for a list of names, the innermost first: "contrary,trace". Settings are the configuration's. */
weir_status wr_layers_wrap_named(const char *names, struct wr_transport **t, weir_error *err);

/* Fills what every layer's state starts with: a copy of the lower one's capabilities and parameters. */
void wr_layer_init(struct wr_transport *t, const struct wr_transport_ops *ops, struct wr_transport *lower);

/* The transport under all layers, whose name the ranks know it by. */
static inline const struct wr_transport *wr_layer_bottom(const struct wr_transport *t)
{
    while (t->lower)
        t = t->lower;
    return t;
}

/* Operations that only hand on, for the ops tables. */
weir_status wr_layer_address(struct wr_transport *t, void *buf, size_t *len, weir_error *err);
weir_status wr_layer_start(struct wr_transport *t, weir_error *err);
bool wr_layer_reaches(const struct wr_transport *t, int peer);
weir_status wr_layer_connect(struct wr_transport *t, int peer, weir_error *err);
weir_status wr_layer_reg(struct wr_transport *t, void *addr, uint64_t len, unsigned flags, struct wr_region **region,
                         weir_error *err);
void wr_layer_dereg(struct wr_transport *t, struct wr_region *region);
weir_status wr_layer_key_export(struct wr_transport *t, struct wr_region *region, void *buf, size_t *len,
                                weir_error *err);
weir_status wr_layer_key_import(struct wr_transport *t, int peer, const void *key, size_t len, struct wr_rkey **rkey,
                                weir_error *err);
void wr_layer_key_close(struct wr_transport *t, struct wr_rkey *rkey);
/* 0 where the transport below has no long messages. */
size_t wr_layer_am_long_max(const struct wr_transport *t, int peer);
int wr_layer_progress(struct wr_transport *t);
int wr_layer_wait_fd(struct wr_transport *t);
bool wr_layer_arm(struct wr_transport *t);
void wr_layer_disarm(struct wr_transport *t);

/* A small generator for the choices of layers (splitmix64, Steele et al. 2014). */
uint64_t wr_layer_random(uint64_t *state);

#endif
