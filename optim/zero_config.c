/* SPDX-License-Identifier: BSD-3-Clause */
#include "optim/zero_config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"

enum { LONGEST = 1 << 20 };

#ifdef HAVE_JANSSON
static weir_status parse(const char *text, size_t length, int nranks, weir_zero_config *config, weir_error *err)
{
    struct wr_zero_raw raw;
    weir_status status = wr_zero_config_scan(text, length, &raw, err);
    return status == WEIR_OK ? wr_zero_config_apply(&raw, nranks, config, err) : status;
}
#else
static weir_status parse(const char *text, size_t length, int nranks, weir_zero_config *config, weir_error *err)
{
    (void)text;
    (void)length;
    (void)nranks;
    (void)config;
    return wr_error_set(err, WEIR_ERR_UNSUPPORTED, "install jansson's development package and build weir again",
                        "JSON configuration is not supported: weir was built without jansson");
}
#endif

weir_status weir_zero_config_parse(const char *text, size_t length, int nranks, weir_zero_config **config,
                                   weir_error *error)
{
    if (!text || nranks < 1 || !config)
        return wr_error_set(error, WEIR_ERR_INVALID, NULL, "no text, no ranks, or no place for the configuration");
    weir_zero_config *made = calloc(1, sizeof *made);
    if (!made)
        return wr_error_memory(error, sizeof *made, "a configuration");
    weir_status status = parse(text, length, nranks, made, error);
    if (status != WEIR_OK)
        weir_zero_config_free(made);
    else
        *config = made;
    return status;
}

weir_status weir_zero_config_read(const char *path, int nranks, weir_zero_config **config, weir_error *error)
{
    char *text, why[512];
    if (!path)
        return wr_error_set(error, WEIR_ERR_INVALID, NULL, "no path");
    int failed = wr_file_read(path, LONGEST, 0, &text, NULL);
    if (failed)
        return wr_error_errno(error, failed == ENOENT ? WEIR_ERR_NOT_FOUND : WEIR_ERR_IO, failed,
                              "give the path of a JSON file", "cannot read %s", path);
    weir_status status = weir_zero_config_parse(text, strlen(text), nranks, config, error);
    free(text);
    if (status != WEIR_OK && error) {
        weir_error was = *error;
        memcpy(why, was.message, sizeof why);
        wr_error_set(error, status, was.advice, "%s: %s", path, why);
    }
    return status;
}

void weir_zero_config_free(weir_zero_config *config)
{
    if (config)
        weir_rule_free(config->rule);
    free(config);
}

weir_status weir_zero_config_batch(const weir_zero_config *config, weir_zero_batch *batch)
{
    if (!config || !batch || batch->size < sizeof batch->size || batch->size > sizeof *batch)
        return WEIR_ERR_INVALID;
    size_t size = batch->size;
    memcpy(batch, &config->batch, size);
    batch->size = size;
    return WEIR_OK;
}

weir_status weir_zero_config_options(const weir_zero_config *config, weir_zero_options *options)
{
    const weir_zero_options *from = config ? &config->options : NULL;
    if (!from || !options || options->size != sizeof *options)
        return WEIR_ERR_INVALID;
    weir_zero_options made = *from;
    if (!config->rule) {
        made.groups = options->groups;
        made.ngroups = options->ngroups;
    }
    made.norm_comm = options->norm_comm;
    made.flags |= options->flags;
    made.partition = options->partition;
    made.reduce = options->reduce;
    made.nonfinite = options->nonfinite;
    *options = made;
    return WEIR_OK;
}
