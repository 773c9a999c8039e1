/* SPDX-License-Identifier: BSD-3-Clause */
/* A transport that is a table of pointers, and two ranks that use it through a layer. For tests of layers. */
#ifndef WR_PLAIN_WORLD_H
#define WR_PLAIN_WORLD_H

#include <unistd.h>

#include "base/pool.h"
#include "comm/transport/layer.h"
#include "tests/unit/transport_pair.h"

/* ---- the plain transport ---------------------------------------------------------------------------------- */
enum { PLAIN_LATE = 64 };

struct plain {
    struct wr_transport base;
    struct pair *all;
    struct wr_op *late[PLAIN_LATE]; /* puts that complete at the next progress() */
    int nlate, calls;
};

struct plain_region {
    char *addr;
    uint64_t len;
};

static weir_status plain_later(struct plain *p, struct wr_op *op)
{
    p->calls++;
    if (!op || p->calls % 3)
        return WEIR_OK;
    p->late[p->nlate++] = op;
    return WEIR_IN_PROGRESS;
}

static bool plain_full(struct plain *p)
{
    return p->nlate == PLAIN_LATE;
}

static weir_status plain_put(struct wr_transport *t, int peer, const void *src, struct wr_region *region, uint64_t len,
                             struct wr_rkey *rkey, uint64_t offset, unsigned flags, struct wr_op *op, weir_error *err)
{
    struct plain_region *k = (struct plain_region *)rkey;
    (void)region, (void)peer, (void)flags, (void)err;
    if (plain_full((struct plain *)t))
        return WEIR_ERR_BUSY;
    assert_true(offset + len <= k->len);
    memcpy(k->addr + offset, src, len);
    return plain_later((struct plain *)t, op);
}

static weir_status plain_put_signal(struct wr_transport *t, int peer, const void *src, struct wr_region *region,
                                    uint64_t len, struct wr_rkey *rkey, uint64_t offset, uint32_t slot, unsigned flags,
                                    struct wr_op *op, weir_error *err)
{
    struct plain *p = (struct plain *)t;
    weir_status status = len ? plain_put(t, peer, src, region, len, rkey, offset, flags, op, err) : WEIR_OK;
    if (status != WEIR_ERR_BUSY)
        p->all->rank[peer].signals[slot]++;
    return status;
}

static weir_status plain_get(struct wr_transport *t, int peer, void *dst, struct wr_region *region, uint64_t len,
                             struct wr_rkey *rkey, uint64_t offset, struct wr_op *op, weir_error *err)
{
    struct plain_region *k = (struct plain_region *)rkey;
    (void)peer, (void)region, (void)err;
    if (plain_full((struct plain *)t))
        return WEIR_ERR_BUSY;
    memcpy(dst, k->addr + offset, len);
    return plain_later((struct plain *)t, op);
}

static weir_status plain_am(struct wr_transport *t, int peer, unsigned id, const void *header, size_t header_len,
                            const void *payload, size_t len, unsigned flags, weir_error *err)
{
    char message[8192];
    struct plain *p = (struct plain *)t;
    (void)flags, (void)err, (void)id;
    if (header_len)
        memcpy(message, header, header_len);
    if (len)
        memcpy(message + header_len, payload, len);
    pair_message(&p->all->rank[peer], t->params.rank, message, header_len + len);
    return WEIR_OK;
}

static weir_status plain_flush(struct wr_transport *t, int peer, struct wr_op *op, weir_error *err)
{
    (void)peer, (void)err;
    return plain_full((struct plain *)t) ? WEIR_ERR_BUSY : plain_later((struct plain *)t, op);
}

static int plain_progress(struct wr_transport *t)
{
    struct plain *p = (struct plain *)t;
    struct wr_op *late[PLAIN_LATE];
    int n = p->nlate;
    memcpy(late, p->late, sizeof late);
    p->nlate = 0;
    for (int i = 0; i < n; i++)
        late[i]->done(late[i], WEIR_OK);
    return n;
}

static weir_status plain_connect(struct wr_transport *t, int peer, weir_error *err)
{
    (void)t, (void)peer, (void)err;
    return WEIR_OK;
}

static weir_status plain_reg(struct wr_transport *t, void *addr, uint64_t len, unsigned flags, struct wr_region **region,
                             weir_error *err)
{
    struct plain_region *r = malloc(sizeof *r);
    (void)t, (void)flags, (void)err;
    *r = (struct plain_region){addr, len};
    *region = (struct wr_region *)r;
    return WEIR_OK;
}

static void plain_dereg(struct wr_transport *t, struct wr_region *region)
{
    (void)t;
    free(region);
}

static weir_status plain_export(struct wr_transport *t, struct wr_region *region, void *buf, size_t *len, weir_error *err)
{
    (void)t, (void)err;
    memcpy(buf, region, sizeof(struct plain_region));
    *len = sizeof(struct plain_region);
    return WEIR_OK;
}

static weir_status plain_import(struct wr_transport *t, int peer, const void *key, size_t len, struct wr_rkey **rkey,
                                weir_error *err)
{
    struct plain_region *r = malloc(sizeof *r);
    (void)t, (void)peer, (void)err;
    assert_int_equal(len, sizeof *r);
    memcpy(r, key, sizeof *r);
    *rkey = (struct wr_rkey *)r;
    return WEIR_OK;
}

static void plain_key_close(struct wr_transport *t, struct wr_rkey *rkey)
{
    (void)t;
    free(rkey);
}

static bool plain_arm(struct wr_transport *t)
{
    return !((struct plain *)t)->nlate;
}

static void plain_close(struct wr_transport *t)
{
    free(t);
}

static const struct wr_transport_ops plain_ops = {.name = "plain",
                                                  .close = plain_close,
                                                  .connect = plain_connect,
                                                  .reg = plain_reg,
                                                  .dereg = plain_dereg,
                                                  .key_export = plain_export,
                                                  .key_import = plain_import,
                                                  .key_close = plain_key_close,
                                                  .put = plain_put,
                                                  .put_signal = plain_put_signal,
                                                  .get = plain_get,
                                                  .am = plain_am,
                                                  .flush = plain_flush,
                                                  .progress = plain_progress,
                                                  .arm = plain_arm};

static void wait_a_little(void)
{
    struct timespec pause = {.tv_nsec = 200000};
    nanosleep(&pause, NULL);
}

/* ---- two ranks, a window at rank 1, layers at rank 0 ------------------------------------------------------- */
struct world {
    struct pair pair;
    struct wr_transport *t;
    char window[65536], source[65536];
    struct wr_region *window_region, *source_region;
    struct wr_rkey *key;
};

static struct wr_transport *open_plain(struct pair *pair, int rank)
{
    struct plain *p = calloc(1, sizeof *p);
    p->all = pair;
    p->base.ops = &plain_ops;
    p->base.caps = (struct wr_transport_caps){.put = true, .get = true, .max_am = 4096, .inject = 4096, .ordered = true};
    pair_params(pair, rank, NULL, &p->base.params);
    return &p->base;
}

/* Layers as in WEIR_FAULT and its like. */
static struct world *open_world(const char *layers, const char *const *vars)
{
    struct world *w = calloc(1, sizeof *w);
    struct wr_env env = {vars};
    char key[WR_KEY_MAX];
    size_t len = sizeof key;
    weir_error err;
    w->pair.n = 2;
    wr_log_init(&w->pair.log);
    assert_ok(wr_config_load(&w->pair.config, &env, NULL, &err), &err);
    for (int i = 0; i < 2; i++) {
        w->pair.rank[i].t = open_plain(&w->pair, i);
        assert_ok(wr_layers_wrap_named(layers, &w->pair.rank[i].t, &err), &err);
    }
    struct wr_transport *t = w->t = w->pair.rank[0].t, *v = w->pair.rank[1].t;
    assert_ok(v->ops->reg(v, w->window, sizeof w->window, 3, &w->window_region, &err), &err);
    assert_ok(v->ops->key_export(v, w->window_region, key, &len, &err), &err);
    assert_ok(t->ops->connect(t, 1, &err), &err);
    assert_ok(t->ops->key_import(t, 1, key, len, &w->key, &err), &err);
    assert_ok(t->ops->reg(t, w->source, sizeof w->source, 0, &w->source_region, &err), &err);
    return w;
}

static void close_world(struct world *w)
{
    struct wr_transport *t = w->t, *v = w->pair.rank[1].t;
    t->ops->dereg(t, w->source_region);
    t->ops->key_close(t, w->key);
    v->ops->dereg(v, w->window_region);
    t->ops->close(t);
    v->ops->close(v);
    wr_config_free(&w->pair.config);
    free(w);
}

#endif
