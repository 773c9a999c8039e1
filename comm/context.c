/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/context.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/version.h>

#include "base/error.h"
#include "comm/context_cards.h"
#include "topo/topo.h"

/* ---- errors ---- */

/* Completes an error at the boundary of the library and logs it. */
static void complete_error(weir_ctx *ctx, weir_error *err, const char *operation)
{
    char inner[sizeof err->operation], line[1200];
    wr_str_copy(inner, sizeof inner, err->operation);
    wr_str_copy(err->operation, sizeof err->operation, operation);
    if (inner[0] && strcmp(inner, operation)) {
        wr_str_append(err->operation, sizeof err->operation, ": ");
        wr_str_append(err->operation, sizeof err->operation, inner);
    }
    if (err->rank < 0 && ctx->log.rank >= 0)
        err->rank = ctx->rank;
    if (!err->host[0] && (err->rank == ctx->rank || err->rank < 0))
        wr_str_copy(err->host, sizeof err->host, ctx->host);
    wr_error(&ctx->log, CTX, "%s", wr_error_line(err, line, sizeof line));
}

weir_status wr_ctx_fail(weir_ctx *ctx, weir_error *err, const char *operation)
{
    complete_error(ctx, err, operation);
    pthread_mutex_lock(&ctx->error_lock);
    ctx->last_error = *err;
    pthread_mutex_unlock(&ctx->error_lock);
    return err->status;
}

const weir_error *weir_last_error(const weir_ctx *ctx)
{
    return &ctx->last_error;
}

/* ---- the boot under the lock ---- */

weir_status wr_ctx_put(weir_ctx *ctx, const char *key, const void *value, size_t len, weir_error *err)
{
    pthread_mutex_lock(&ctx->boot_lock);
    weir_status status = wr_boot_put(ctx->boot, key, value, len, WR_BOOT_JOB, err);
    pthread_mutex_unlock(&ctx->boot_lock);
    return status;
}

weir_status wr_ctx_put_on_node(weir_ctx *ctx, const char *key, const void *value, size_t len, weir_error *err)
{
    pthread_mutex_lock(&ctx->boot_lock);
    weir_status status = wr_boot_put(ctx->boot, key, value, len, WR_BOOT_NODE, err);
    pthread_mutex_unlock(&ctx->boot_lock);
    return status;
}

weir_status wr_ctx_fence(weir_ctx *ctx, weir_error *err)
{
    pthread_mutex_lock(&ctx->boot_lock);
    weir_status status = wr_boot_fence(ctx->boot, err);
    pthread_mutex_unlock(&ctx->boot_lock);
    return status;
}

weir_status wr_ctx_get(weir_ctx *ctx, int rank, const char *key, void **value, size_t *len, weir_error *err)
{
    pthread_mutex_lock(&ctx->boot_lock);
    weir_status status = wr_boot_get(ctx->boot, rank, key, value, len, err);
    pthread_mutex_unlock(&ctx->boot_lock);
    return status;
}

weir_status wr_ctx_barrier(weir_ctx *ctx, weir_error *err)
{
    pthread_mutex_lock(&ctx->boot_lock);
    weir_status status = wr_boot_barrier(ctx->boot, err);
    pthread_mutex_unlock(&ctx->boot_lock);
    return status;
}

int wr_ctx_event_fd(weir_ctx *ctx)
{
    return ctx->boot->ops->event_fd ? ctx->boot->ops->event_fd(ctx->boot) : -1;
}

bool wr_ctx_poll_event(weir_ctx *ctx, struct wr_boot_event *event)
{
    if (!ctx->boot->ops->poll_event || pthread_mutex_trylock(&ctx->boot_lock))
        return false;
    bool found = ctx->boot->ops->poll_event(ctx->boot, event);
    pthread_mutex_unlock(&ctx->boot_lock);
    return found;
}

/* ---- weir_init ---- */

/* Reads the caller's options, of any older or newer size, into ours. */
static weir_status read_options(const weir_init_options *given, weir_init_options *options, weir_error *err)
{
    static const weir_init_options defaults = WEIR_INIT_OPTIONS_INIT;
    const char *advice = "start from WEIR_INIT_OPTIONS_INIT";
    *options = defaults;
    if (!given)
        return WEIR_OK;
    if (given->size < offsetof(weir_init_options, config))
        return wr_error_set(err, WEIR_ERR_INVALID, advice, "the options' size is %zu", given->size);
    memcpy(options, given, WR_MIN(given->size, sizeof *options));
    options->size = sizeof *options;
    for (size_t i = sizeof *options; i < given->size; i++)
        if (((const char *)given)[i])
            return wr_error_set(err, WEIR_ERR_INVALID, "run with the library that the program was compiled for, or a newer one",
                                "the options use a field that this version of weir (%s) does not know", WEIR_VERSION_STRING);
    if (options->flags)
        return wr_error_set(err, WEIR_ERR_INVALID, "set flags to 0", "unknown flags %#llx in the options",
                            (unsigned long long)options->flags);
    if (options->unique_id && options->callbacks)
        return wr_error_set(err, WEIR_ERR_INVALID, "give one of them", "the options have both a unique id and callbacks");
    const weir_boot_callbacks *c = options->callbacks;
    if (c && (c->size < offsetof(weir_boot_callbacks, abort) || !c->allgather))
        return wr_error_set(err, WEIR_ERR_INVALID, "set size to sizeof(weir_boot_callbacks), and allgather",
                            "the callbacks are incomplete");
    if (c && (c->nranks < 1 || c->rank < 0 || c->rank >= c->nranks))
        return wr_error_set(err, WEIR_ERR_INVALID, "give 0 <= rank < nranks", "the callbacks are for rank %d of %d", c->rank,
                            c->nranks);
    return WEIR_OK;
}

static void warn_unknown(void *arg, const char *name, const char *nearest)
{
    const weir_ctx *ctx = arg;
    if (nearest)
        wr_warn(&ctx->log, CONFIG, "the variable %s is not known; did you mean %s?", name, nearest);
    else
        wr_warn(&ctx->log, CONFIG, "the variable %s is not known; see weir-config(7)", name);
}

static weir_status open_boot(weir_ctx *ctx, const weir_init_options *options, weir_error *err)
{
    struct wr_host_id identity;
    wr_host_id_self(&identity);
    struct wr_boot_params params = {.config = &ctx->config, .env = &ctx->env, .log = &ctx->log, .options = options,
                                    .identity = &identity, .identity_len = sizeof identity};
    weir_status status = wr_boot_open(&params, &ctx->boot, err);
    if (status != WEIR_OK)
        return status;
    ctx->rank = ctx->boot->info.rank;
    ctx->size = ctx->boot->info.size;
    ctx->log.rank = ctx->rank;
    if (ctx->config.log_file)
        status = wr_log_open(&ctx->log, ctx->config.log_file, err);
    if (ctx->rank == 0) /* all have the same environment: one of them says it */
        wr_config_unknown(&ctx->env, warn_unknown, ctx);
    wr_info(&ctx->log, BOOT, "rank %d of %d, started by %s%s%s", ctx->rank, ctx->size, ctx->boot->ops->name,
            ctx->boot->info.job[0] ? ", job " : "", ctx->boot->info.job);
    return status;
}

static weir_status join(weir_ctx *ctx, const weir_init_options *given, weir_error *err)
{
    weir_init_options options;
    weir_status status = read_options(given, &options, err);
    if (status == WEIR_OK)
        status = wr_config_load(&ctx->config, &ctx->env, options.config, err);
    if (status != WEIR_OK)
        return status;
    status = ctx->config.log ? wr_log_set_levels(&ctx->log, ctx->config.log, err) : WEIR_OK;
    if (status == WEIR_OK)
        status = open_boot(ctx, &options, err);
    if (status == WEIR_OK)
        status = wr_ctx_publish(ctx, err);
    return status;
}

static weir_ctx *ctx_create(void)
{
    weir_ctx *ctx = calloc(1, sizeof *ctx);
    if (!ctx)
        return NULL;
    pthread_mutex_init(&ctx->boot_lock, NULL);
    pthread_mutex_init(&ctx->topo_lock, NULL);
    pthread_mutex_init(&ctx->comms_lock, NULL);
    pthread_mutex_init(&ctx->error_lock, NULL);
    wr_log_init(&ctx->log);
    wr_error_clear(&ctx->last_error);
    gethostname(ctx->host, sizeof ctx->host - 1);
    return ctx;
}

/* Frees everything but the boot. */
static void ctx_free(weir_ctx *ctx)
{
    weir_topo_free(ctx->topo);
    free(ctx->node_of);
    free(ctx->node_leader);
    free(ctx->user_ops);
    wr_log_close(&ctx->log);
    wr_config_free(&ctx->config);
    pthread_mutex_destroy(&ctx->boot_lock);
    pthread_mutex_destroy(&ctx->topo_lock);
    pthread_mutex_destroy(&ctx->comms_lock);
    pthread_mutex_destroy(&ctx->error_lock);
    free(ctx);
}

/* Where the caller wants the description of a failure, if its options are new enough to say so. */
static weir_error *error_target(const weir_init_options *options)
{
    return options && options->size >= offsetof(weir_init_options, error) + sizeof options->error ? options->error : NULL;
}

weir_status weir_init(const weir_init_options *options, weir_ctx **out)
{
    weir_error err;
    wr_error_clear(&err);
    if (!out)
        return WEIR_ERR_INVALID;
    weir_ctx *ctx = ctx_create();
    if (!ctx)
        return WEIR_ERR_NO_MEMORY;
    weir_status status = join(ctx, options, &err);
    if (status != WEIR_OK) {
        complete_error(ctx, &err, "weir_init");
        if (error_target(options))
            *error_target(options) = err;
        wr_boot_close(ctx->boot, false, NULL);
        ctx_free(ctx);
        return status;
    }
    *out = ctx;
    return WEIR_OK;
}

/* ---- the rest ---- */

weir_status weir_finalize(weir_ctx *ctx)
{
    weir_error err;
    if (!ctx)
        return WEIR_OK;
    wr_error_clear(&err);
    if (ctx->comms)
        ctx->comms_close(ctx, false);
    if (ctx->loss.status) /* the launcher may find out much later, if at all, that the lost rank does not come */
        ctx->boot->timeout_ns = WR_MIN(ctx->boot->timeout_ns, ctx->config.peer_timeout);
    weir_status status = wr_boot_close(ctx->boot, true, &err);
    if (status == WEIR_ERR_TIMEOUT && ctx->loss.status) {
        err = ctx->loss;
        status = err.status;
    }
    if (status != WEIR_OK)
        complete_error(ctx, &err, "weir_finalize");
    ctx_free(ctx);
    return status;
}

void weir_abort(weir_ctx *ctx, int code, const char *message)
{
    if (code < 1 || code > 255)
        code = 1;
    wr_error(&ctx->log, CTX, "weir_abort with code %d: %s", code, message ? message : "no message");
    ctx->boot->ops->abort(ctx->boot, code, message);
    _exit(code);
}

int weir_rank(const weir_ctx *ctx)
{
    return ctx->rank;
}

int weir_size(const weir_ctx *ctx)
{
    return ctx->size;
}

const char *weir_boot_name(const weir_ctx *ctx)
{
    return ctx->boot->ops->name;
}

weir_status weir_boot_barrier(weir_ctx *ctx)
{
    weir_error err;
    wr_error_clear(&err);
    weir_status status = wr_ctx_barrier(ctx, &err);
    return status == WEIR_OK ? WEIR_OK : wr_ctx_fail(ctx, &err, "weir_boot_barrier");
}

const char *weir_version(void)
{
    return WEIR_VERSION_STRING;
}
