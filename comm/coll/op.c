/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations of the user, and the kernel of a call. */
#include <weir/coll_op.h>

#include <stdlib.h>

#include "base/error.h"
#include "comm/coll/coll.h"

enum { OPS = 256 };

/* Of a context; its places never move, so that calls look without a lock at operations that they were given. */
struct wr_user_ops {
    int next; /* number of the next one */
    struct user_op {
        weir_op op; /* 0: free */
        size_t size;
        weir_op_fn fn;
        void *user;
        bool ordered;
    } at[OPS];
};

static const struct user_op *find(const weir_ctx *ctx, weir_op op)
{
    if (op < WEIR_OP_USER || !ctx->user_ops)
        return NULL;
    const struct user_op *found = &ctx->user_ops->at[(int)op % OPS];
    return found->op == op ? found : NULL;
}

bool wr_coll_kernel(const weir_ctx *ctx, weir_type type, weir_op op, struct wr_kernel *kernel)
{
    if (op < WEIR_OP_USER)
        return wr_kernel_find(type, op, NULL, kernel);
    const struct user_op *user = find(ctx, op);
    if (!user || (type != WEIR_OPAQUE && weir_type_size(type) != user->size))
        return false;
    *kernel = (struct wr_kernel){.type = type,
                                 .op = op,
                                 .size = user->size,
                                 .partial_size = user->size,
                                 .user = user->fn,
                                 .user_arg = user->user,
                                 .stream_bytes = SIZE_MAX};
    return true;
}

size_t wr_coll_op_size(const weir_ctx *ctx, weir_op op)
{
    const struct user_op *user = find(ctx, op);
    return user ? user->size : 0;
}

bool wr_coll_op_ordered(const weir_ctx *ctx, weir_op op)
{
    const struct user_op *user = find(ctx, op);
    return user && user->ordered;
}

/* A free place, with its operation's number; NULL when there is none. */
static struct user_op *take_place(struct wr_user_ops *ops, weir_op *op)
{
    for (int tries = 0; tries < OPS; tries++) {
        int number = ops->next++;
        if (ops->at[number % OPS].op)
            continue;
        *op = (weir_op)(WEIR_OP_USER + number);
        return &ops->at[number % OPS];
    }
    return NULL;
}

static weir_status create(weir_ctx *ctx, const struct user_op *made, weir_op *op, weir_error *err)
{
    if (!ctx->user_ops)
        ctx->user_ops = calloc(1, sizeof *ctx->user_ops);
    if (!ctx->user_ops)
        return wr_error_memory(err, sizeof *ctx->user_ops, "operations");
    struct user_op *place = take_place(ctx->user_ops, op);
    if (!place)
        return wr_error_set(err, WEIR_ERR_LIMIT, "free operations that are no longer used", "%d operations exist", OPS);
    *place = *made;
    place->op = *op;
    return WEIR_OK;
}

weir_status weir_op_create(weir_ctx *ctx, size_t element_size, weir_op_fn fn, void *user, uint64_t flags, weir_op *op)
{
    weir_error err = {.rank = -1};
    weir_status status = WEIR_OK;
    struct user_op made = {.size = element_size, .fn = fn, .user = user, .ordered = flags & WEIR_OP_ORDERED};
    if (!fn || !element_size || element_size > WEIR_OP_ELEMENT_MAX)
        status = wr_error_set(&err, WEIR_ERR_INVALID, NULL, "an operation needs a function and elements of 1 to %d bytes",
                              WEIR_OP_ELEMENT_MAX);
    else if (flags & ~(uint64_t)WEIR_OP_ORDERED)
        status = wr_error_set(&err, WEIR_ERR_INVALID, NULL, "there are no flags %#llx of an operation",
                              (unsigned long long)flags);
    if (!status) {
        pthread_mutex_lock(&ctx->comms_lock);
        status = create(ctx, &made, op, &err);
        pthread_mutex_unlock(&ctx->comms_lock);
    }
    return status ? wr_ctx_fail(ctx, &err, "weir_op_create") : WEIR_OK;
}

weir_status weir_op_free(weir_ctx *ctx, weir_op op)
{
    weir_error err = {.rank = -1};
    pthread_mutex_lock(&ctx->comms_lock);
    struct user_op *found = (struct user_op *)(uintptr_t)find(ctx, op);
    if (found)
        found->op = (weir_op)0;
    pthread_mutex_unlock(&ctx->comms_lock);
    if (found)
        return WEIR_OK;
    wr_error_set(&err, WEIR_ERR_INVALID, NULL, "there is no operation %d", (int)op);
    return wr_ctx_fail(ctx, &err, "weir_op_free");
}
