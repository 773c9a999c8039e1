/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/weirrun_order.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* The numbers, in the order in which they are sent. */
#define ORDER_NUMBERS(X)                                                                                               \
    X(size)                                                                                                            \
    X(count)                                                                                                           \
    X(node)                                                                                                            \
    X(bind)                                                                                                            \
    X(tag_output)                                                                                                      \
    X(whole_lines)                                                                                                     \
    X(grace_ns)

static void pack_text(struct wr_buf *buf, const char *text)
{
    wr_buf_add(buf, text, strlen(text) + 1);
}

static void pack_number(struct wr_buf *buf, int64_t n)
{
    wr_buf_printf(buf, "%lld", (long long)n);
    wr_buf_add(buf, "", 1);
}

void wr_order_pack(const struct wr_order *order, struct wr_buf *buf)
{
#define X(field) pack_number(buf, order->field);
    ORDER_NUMBERS(X)
#undef X
    for (int64_t i = 0; i < order->count; i++)
        pack_number(buf, order->rank[i]);
    pack_text(buf, order->directory);
    pack_number(buf, (int64_t)order->nenv);
    for (size_t i = 0; i < order->nenv; i++)
        pack_text(buf, order->env[i]);
    pack_number(buf, (int64_t)order->nargs);
    for (size_t i = 0; i < order->nargs; i++)
        pack_text(buf, order->args[i]);
}

struct cursor {
    const char *at, *end;
    bool bad;
};

static const char *next_text(struct cursor *c)
{
    const char *text = c->at;
    const char *nul = c->bad || text == c->end ? NULL : memchr(text, '\0', (size_t)(c->end - text));
    if (!nul) {
        c->bad = true;
        return "";
    }
    c->at = nul + 1;
    return text;
}

static int64_t next_number(struct cursor *c)
{
    int64_t n = 0;
    if (!wr_parse_int(next_text(c), &n))
        c->bad = true;
    return n;
}

/* A count and so many strings, as a NULL-terminated array; NULL and c->bad when it does not fit. */
static const char **next_array(struct cursor *c, size_t *count)
{
    int64_t n = next_number(c);
    *count = 0;
    if (c->bad || n < 0 || n > c->end - c->at) { /* each string takes a byte at least */
        c->bad = true;
        return NULL;
    }
    const char **array = calloc((size_t)n + 1, sizeof *array);
    if (!array)
        return NULL;
    for (int64_t i = 0; i < n; i++)
        array[i] = next_text(c);
    *count = (size_t)n;
    return array;
}

/* The ranks of this host; NULL and c->bad when they are not ascending numbers below the size of the job. */
static int64_t *next_ranks(struct cursor *c, const struct wr_order *order)
{
    if (c->bad || order->count < 1 || order->count > order->size || order->count > c->end - c->at) {
        c->bad = true;
        return NULL;
    }
    int64_t *rank = calloc((size_t)order->count, sizeof *rank);
    for (int64_t i = 0, last = -1; rank && i < order->count; i++) {
        rank[i] = next_number(c);
        c->bad |= rank[i] <= last || rank[i] >= order->size;
        last = rank[i];
    }
    return rank;
}

weir_status wr_order_unpack(struct wr_order *order, const char *data, size_t len, weir_error *err)
{
    struct cursor c = {data, data + len, false};
    memset(order, 0, sizeof *order);
#define X(field) order->field = next_number(&c);
    ORDER_NUMBERS(X)
#undef X
    order->rank = next_ranks(&c, order);
    order->directory = next_text(&c);
    order->env = next_array(&c, &order->nenv);
    order->args = next_array(&c, &order->nargs);
    if (!c.bad && (!order->rank || !order->env || !order->args)) {
        wr_order_free(order);
        return wr_error_memory(err, len, "the orders for this host");
    }
    if (c.bad || order->nargs < 1 || order->size > INT32_MAX) {
        wr_order_free(order);
        return wr_error_set(err, WEIR_ERR_PROTOCOL, "use the same version of weirrun on all hosts",
                            "the orders for this host are damaged");
    }
    return WEIR_OK;
}

void wr_order_free(struct wr_order *order)
{
    free((void *)order->rank);
    free(order->env);
    free(order->args);
    order->rank = NULL;
    order->env = order->args = NULL;
}
