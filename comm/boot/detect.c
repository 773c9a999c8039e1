/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "comm/boot/components.h"
#include "comm/boot/launcher.h"

/* In the order in which they are asked whether they started this process. */
static const struct wr_boot_ops *const launched[] = {&wr_boot_tcp, &wr_boot_pmix, &wr_boot_pmi2, &wr_boot_pmi1};

static weir_status open_with(const struct wr_boot_ops *ops, const struct wr_boot_params *params, struct wr_boot **boot,
                             weir_error *err)
{
    struct wr_boot *b = calloc(1, sizeof *b);
    if (!b)
        return wr_error_memory(err, sizeof *b, "the bootstrap");
    b->ops = ops;
    b->log = params->log;
    b->timeout_ns = params->config->boot_timeout;
    weir_status status = ops->open(b, params, err);
    if (status != WEIR_OK) {
        free(b->info.node_of);
        free(b);
        return status;
    }
    *boot = b;
    return WEIR_OK;
}

/*
 * A launcher's server may take a process for a job of its own (a PMIx server that was not asked for, an MPI's library
 * that falls back): running alone as one of several would be silently wrong.
 */
static weir_status check_size(const struct wr_boot_params *params, struct wr_boot **boot, weir_error *err)
{
    struct wr_launcher_hint hint;
    if ((*boot)->info.size != 1 || !wr_launcher_hint(params->env, &hint) || !hint.trusted)
        return WEIR_OK;
    weir_status status = wr_error_set(err, WEIR_ERR_LAUNCHER, hint.advice,
                                      "%s started this process as one of %d, but its %s server knows it as a job of one",
                                      hint.launcher, hint.size, (*boot)->ops->name);
    wr_boot_close(*boot, false, NULL);
    *boot = NULL;
    return status;
}

static weir_status detect(const struct wr_boot_params *params, struct wr_boot **boot, weir_error *err)
{
    struct wr_launcher_hint hint;
    weir_error first = {.status = WEIR_OK};
    for (size_t i = 0; i < WR_ARRAY_SIZE(launched); i++) {
        const char *why = "";
        weir_error e;
        if (!launched[i]->detect(params, &why))
            continue;
        wr_debug(params->log, BOOT, "trying %s: %s", launched[i]->name, why);
        weir_status status = open_with(launched[i], params, boot, &e);
        if (status == WEIR_OK)
            return launched[i] == &wr_boot_tcp ? WEIR_OK : check_size(params, boot, err);
        if (status != WEIR_ERR_UNSUPPORTED) {
            if (err)
                *err = e;
            return status;
        }
        if (first.status == WEIR_OK)
            first = e; /* its library is missing; another way may be open */
    }
    if (first.status != WEIR_OK) {
        first.status = WEIR_ERR_LAUNCHER;
        if (err)
            *err = first;
        return WEIR_ERR_LAUNCHER;
    }
    if (wr_launcher_hint(params->env, &hint))
        return wr_error_set(err, WEIR_ERR_LAUNCHER, hint.advice,
                            "%s started this process as one of %d, but gave it no way to reach the others", hint.launcher,
                            hint.size);
    return open_with(&wr_boot_single, params, boot, err);
}

weir_status wr_boot_open(const struct wr_boot_params *params, struct wr_boot **boot, weir_error *err)
{
    static const struct wr_boot_ops *const all[] = {&wr_boot_tcp, &wr_boot_pmix, &wr_boot_pmi2, &wr_boot_pmi1,
                                                    &wr_boot_single};
    char word[16];
    weir_status status;
    if (params->options->callbacks)
        return open_with(&wr_boot_user, params, boot, err);
    if (params->options->unique_id)
        return open_with(&wr_boot_id, params, boot, err);
    wr_config_word("BOOT", params->config->boot, word, sizeof word);
    for (size_t i = 0; i < WR_ARRAY_SIZE(all); i++) {
        if (strcmp(all[i]->name, word))
            continue;
        status = open_with(all[i], params, boot, err);
        if (status == WEIR_ERR_UNSUPPORTED && err)
            err->status = WEIR_ERR_LAUNCHER;
        return status == WEIR_ERR_UNSUPPORTED ? WEIR_ERR_LAUNCHER : status;
    }
    return detect(params, boot, err);
}
