/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Configuration: one struct with a field for each line of base/config_table.h, filled from defaults, the environment
 * and overrides. This is the only place that reads the environment; other variables (a launcher's) are read with
 * wr_env_get(), so that tests can supply an environment of their own.
 */
#ifndef WR_CONFIG_H
#define WR_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/status.h>

#include "base/config_table.h"

#define WR_CONFIG_TYPE_BOOL  bool
#define WR_CONFIG_TYPE_INT   int64_t
#define WR_CONFIG_TYPE_BYTES uint64_t
#define WR_CONFIG_TYPE_TIME  int64_t
#define WR_CONFIG_TYPE_ENUM  int
#define WR_CONFIG_TYPE_TEXT  char *

struct wr_config {
#define X(KIND, field, ...) WR_CONFIG_TYPE_##KIND field;
    WR_CONFIG_TABLE(X)
#undef X
};

enum wr_config_kind {
    WR_CONFIG_BOOL,
    WR_CONFIG_INT,
    WR_CONFIG_BYTES,
    WR_CONFIG_TIME,
    WR_CONFIG_ENUM,
    WR_CONFIG_TEXT
};

enum wr_config_scope { WR_CONFIG_USER, WR_CONFIG_JOB };

/* One line of the table, for printing. */
struct wr_config_entry {
    const char *name; /* with the prefix WEIR_ */
    enum wr_config_kind kind;
    const char *default_text;
    const char *allowed; /* what may be written, for people */
    enum wr_config_scope scope;
    const char *help;
    size_t offset; /* of the field in struct wr_config */
};

/* An environment: NULL stands for the process's own. */
struct wr_env {
    const char *const *vars; /* NULL-terminated "NAME=value" */
};

/* The value of any variable, or NULL. The string belongs to the environment. */
const char *wr_env_get(const struct wr_env *env, const char *name);

/*
 * Sets a variable of the process that another library reads, unless the user has set it. Writing to the environment is
 * not thread safe: only for libraries that have no other way, and before they are used for the first time.
 */
void wr_env_default(const char *name, const char *value);

/* Calls `visit` for each variable that starts with `prefix`, until it returns false. */
void wr_env_each(const struct wr_env *env, const char *prefix, bool (*visit)(void *arg, const char *entry), void *arg);

/*
 * Fills `config` from the defaults, then `env`, then `overrides` (NULL or a NULL-terminated array of "NAME=value", prefix
 * optional). On failure (WEIR_ERR_CONFIG, WEIR_ERR_NO_MEMORY) nothing needs to be freed. A WEIR_ variable that is not in
 * the table is no error in `env` (see wr_config_unknown) but one in `overrides`.
 */
weir_status wr_config_load(struct wr_config *config, const struct wr_env *env, const char *const *overrides, weir_error *err);
void wr_config_free(struct wr_config *config);

/*
 * Calls `visit` with each WEIR_ variable of `env` that the table does not know, and the nearest name in it (NULL when
 * none is near).
 */
void wr_config_unknown(const struct wr_env *env, void (*visit)(void *arg, const char *name, const char *nearest), void *arg);

/* The table. */
const struct wr_config_entry *wr_config_entries(size_t *count);

/* The nearest name in the table to `name` (with prefix), or NULL. */
const char *wr_config_nearest(const char *name);

/* Writes an entry's value as a user would write it; returns buf. Secrets are written as "(set)". */
const char *wr_config_format(const struct wr_config *config, const struct wr_config_entry *entry, char *buf, size_t size);

/* The word of an ENUM entry's index `value`, e.g. wr_config_word("BOOT", 1) is "tcp"; copied to buf, which is returned. */
const char *wr_config_word(const char *name, int value, char *buf, size_t size);

#endif
