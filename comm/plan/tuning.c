/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/plan/tuning.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/str.h"

#define FORMAT "weir-tuning 1"

enum { KEYS_MAX = 64, KEY_LENGTH = 24 };

static const char advice[] = "write it anew with weir-tune, or set WEIR_TUNING_FILE=off";

/* Cuts off the next line. */
static char *next_line(char **text)
{
    char *line = *text;
    if (!*line)
        return NULL;
    size_t len = strcspn(line, "\n");
    *text = line + len + (line[len] == '\n');
    line[len] = '\0';
    line[strcspn(line, "#")] = '\0';
    for (size_t n = strlen(line); n && (line[n - 1] == ' ' || line[n - 1] == '\t' || line[n - 1] == '\r'); n--)
        line[n - 1] = '\0';
    return line + strspn(line, " \t");
}

/* The keys that have been seen. */
struct seen {
    char key[KEYS_MAX][KEY_LENGTH];
    size_t n;
};

static weir_status read_line(char *line, struct wr_cost *cost, struct seen *seen, weir_error *err)
{
    char *save = NULL, *key = strtok_r(line, " \t", &save), *value = strtok_r(NULL, " \t", &save);
    if (!key || !value || strtok_r(NULL, " \t", &save))
        return wr_error_set(err, WEIR_ERR_CONFIG, NULL, "it is not a key and a value");
    for (size_t i = 0; i < seen->n; i++)
        if (!strcmp(seen->key[i], key))
            return wr_error_set(err, WEIR_ERR_CONFIG, NULL, "%s stands there twice", key);
    weir_status status = wr_cost_set_one(cost, key, value, err);
    if (!status && (seen->n == KEYS_MAX || !wr_str_copy(seen->key[seen->n++], KEY_LENGTH, key)))
        return wr_error_set(err, WEIR_ERR_CONFIG, NULL, "there are too many keys");
    return status;
}

weir_status wr_tuning_parse(char *text, struct wr_cost *cost, weir_error *err)
{
    struct wr_cost changed = *cost;
    struct seen seen = {.n = 0};
    weir_error why;
    char *line;
    int number = 1;
    if (!(line = next_line(&text)) || strcmp(line, FORMAT) != 0)
        return wr_error_set(err, WEIR_ERR_CONFIG, advice, "it does not begin with the line '%s'", FORMAT);
    while ((line = next_line(&text)) && strcmp(line, "end") != 0) {
        number++;
        if (*line && read_line(line, &changed, &seen, &why))
            return wr_error_set(err, WEIR_ERR_CONFIG, advice, "line %d: %.200s", number, why.message);
    }
    if (!line)
        return wr_error_set(err, WEIR_ERR_CONFIG, advice, "its last line, 'end', is missing");
    while ((line = next_line(&text)))
        if (*line)
            return wr_error_set(err, WEIR_ERR_CONFIG, advice, "something stands after the line 'end'");
    *cost = changed;
    return WEIR_OK;
}

bool wr_tuning_path(const weir_ctx *ctx, char *path, size_t size)
{
    char name[80];
    const char *given = ctx->config.tuning_file;
    if (given)
        return strcmp(given, "off") != 0 && wr_str_copy(path, size, given);
    snprintf(name, sizeof name, "tuning.%s", ctx->host);
    return wr_file_cached(&ctx->config, &ctx->env, name, path, size);
}

weir_status wr_tuning_load(const weir_ctx *ctx, struct wr_cost *cost, weir_error *err)
{
    char path[512], line[700], *text = NULL;
    bool given = ctx->config.tuning_file != NULL;
    weir_error why;
    wr_cost_default(cost);
    if (!wr_tuning_path(ctx, path, sizeof path))
        return WEIR_OK;
    int failed = wr_file_read(path, WR_TUNING_MAX, given ? 0 : WR_FILE_OWN, &text, NULL);
    if (failed == ENOENT && !given)
        return WEIR_OK;
    if (failed)
        wr_error_errno(&why, WEIR_ERR_CONFIG, failed, advice, "it cannot be read");
    weir_status status = failed ? WEIR_ERR_CONFIG : wr_tuning_parse(text, cost, &why);
    free(text);
    if (!status) {
        wr_info(&ctx->log, PLAN, "the costs of plans are those of %s", path);
        return WEIR_OK;
    }
    snprintf(line, sizeof line, "the tuning file %.300s is of no use: %.300s", path, why.message);
    if (given)
        return wr_error_set(err, WEIR_ERR_CONFIG, advice, "%s", line);
    wr_warn(&ctx->log, PLAN, "%s; %s", line, advice);
    return WEIR_OK;
}
