/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/transport/layer.h"

#include <string.h>

#include "base/error.h"
#include "base/str.h"

void wr_layer_init(struct wr_transport *t, const struct wr_transport_ops *ops, struct wr_transport *lower)
{
    t->ops = ops;
    t->caps = lower->caps;
    t->params = lower->params;
    t->lower = lower;
}

weir_status wr_layer_address(struct wr_transport *t, void *buf, size_t *len, weir_error *err)
{
    return t->lower->ops->address(t->lower, buf, len, err);
}

weir_status wr_layer_start(struct wr_transport *t, weir_error *err)
{
    return t->lower->ops->start ? t->lower->ops->start(t->lower, err) : WEIR_OK;
}

bool wr_layer_reaches(const struct wr_transport *t, int peer)
{
    return t->lower->ops->reaches(t->lower, peer);
}

weir_status wr_layer_connect(struct wr_transport *t, int peer, weir_error *err)
{
    return t->lower->ops->connect(t->lower, peer, err);
}

weir_status wr_layer_reg(struct wr_transport *t, void *addr, uint64_t len, unsigned flags, struct wr_region **region,
                         weir_error *err)
{
    return t->lower->ops->reg(t->lower, addr, len, flags, region, err);
}

void wr_layer_dereg(struct wr_transport *t, struct wr_region *region)
{
    t->lower->ops->dereg(t->lower, region);
}

weir_status wr_layer_key_export(struct wr_transport *t, struct wr_region *region, void *buf, size_t *len,
                                weir_error *err)
{
    return t->lower->ops->key_export(t->lower, region, buf, len, err);
}

weir_status wr_layer_key_import(struct wr_transport *t, int peer, const void *key, size_t len, struct wr_rkey **rkey,
                                weir_error *err)
{
    return t->lower->ops->key_import(t->lower, peer, key, len, rkey, err);
}

void wr_layer_key_close(struct wr_transport *t, struct wr_rkey *rkey)
{
    t->lower->ops->key_close(t->lower, rkey);
}

size_t wr_layer_am_long_max(const struct wr_transport *t, int peer)
{
    return t->lower->ops->am_long_max ? t->lower->ops->am_long_max(t->lower, peer) : 0;
}

int wr_layer_progress(struct wr_transport *t)
{
    return t->lower->ops->progress(t->lower);
}

int wr_layer_wait_fd(struct wr_transport *t)
{
    return t->lower->ops->wait_fd ? t->lower->ops->wait_fd(t->lower) : -1;
}

bool wr_layer_arm(struct wr_transport *t)
{
    return !t->lower->ops->arm || t->lower->ops->arm(t->lower);
}

void wr_layer_disarm(struct wr_transport *t)
{
    if (t->lower->ops->disarm)
        t->lower->ops->disarm(t->lower);
}

uint64_t wr_layer_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static weir_status wrap_one(const char *name, struct wr_transport **t, weir_error *err)
{
    const struct wr_config *config = (*t)->params.config;
    const char *script = config && config->fault ? config->fault : "";
    const char *path = config && config->trace ? config->trace : "";
    uint64_t seed = config ? (uint64_t)config->contrary_seed : 1;
    if (!strcmp(name, "trace"))
        return wr_trace_wrap(*t, path, t, err);
    if (!strcmp(name, "fault"))
        return wr_fault_wrap(*t, script, t, err);
    if (!strcmp(name, "contrary"))
        return wr_contrary_wrap(*t, seed, t, err);
    return wr_error_set(err, WEIR_ERR_CONFIG, "layers are trace, fault and contrary", "there is no layer '%s'", name);
}

weir_status wr_layers_wrap_named(const char *names, struct wr_transport **t, weir_error *err)
{
    char list[128], *save = NULL;
    weir_status status = WEIR_OK;
    if (!wr_str_copy(list, sizeof list, names))
        status = wr_error_set(err, WEIR_ERR_CONFIG, NULL, "the list of layers '%s' is too long", names);
    for (char *name = strtok_r(list, ",", &save); name && status == WEIR_OK; name = strtok_r(NULL, ",", &save))
        status = wrap_one(name, t, err);
    if (status != WEIR_OK) {
        (*t)->ops->close(*t);
        *t = NULL;
    }
    return status;
}

weir_status wr_layers_wrap(struct wr_transport **t, weir_error *err)
{
    const struct wr_config *config = (*t)->params.config;
    char names[64] = "";
    if (!config)
        return WEIR_OK;
    if (config->fault)
        wr_str_append(names, sizeof names, "fault,");
    if (config->contrary)
        wr_str_append(names, sizeof names, "contrary,");
    if (config->trace)
        wr_str_append(names, sizeof names, "trace,");
    return wr_layers_wrap_named(names, t, err);
}
