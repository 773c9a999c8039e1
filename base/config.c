/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/config.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/error.h"
#include "base/str.h"

#define PREFIX     "WEIR_"
#define PREFIX_LEN (sizeof PREFIX - 1)

extern char **environ;

static const struct wr_config_entry table[] = {
#define X(KIND, field, NAME, DEFAULT, ALLOWED, SCOPE, HELP)                                                  \
    {PREFIX #NAME, WR_CONFIG_##KIND, DEFAULT, ALLOWED, WR_CONFIG_##SCOPE, HELP, offsetof(struct wr_config, field)},
    WR_CONFIG_TABLE(X)
#undef X
};

const struct wr_config_entry *wr_config_entries(size_t *count)
{
    *count = WR_ARRAY_SIZE(table);
    return table;
}

static const char *const *env_vars(const struct wr_env *env)
{
    return env && env->vars ? env->vars : (const char *const *)environ;
}

/* The environment belongs to the process, and so does its lock: contexts of several threads read it and give defaults. */
static pthread_mutex_t env_lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

const char *wr_env_get(const struct wr_env *env, const char *name)
{
    size_t len = strlen(name);
    const char *value = NULL;
    pthread_mutex_lock(&env_lock);
    for (const char *const *var = env_vars(env); var && *var && !value; var++)
        if (!strncmp(*var, name, len) && (*var)[len] == '=')
            value = *var + len + 1;
    pthread_mutex_unlock(&env_lock);
    return value;
}

void wr_env_default(const char *name, const char *value)
{
    pthread_mutex_lock(&env_lock);
    setenv(name, value, 0);
    pthread_mutex_unlock(&env_lock);
}

void wr_env_each(const struct wr_env *env, const char *prefix, bool (*visit)(void *arg, const char *entry), void *arg)
{
    size_t len = strlen(prefix);
    bool more = true;
    pthread_mutex_lock(&env_lock);
    for (const char *const *var = env_vars(env); var && *var && more; var++)
        if (!strncmp(*var, prefix, len))
            more = visit(arg, *var);
    pthread_mutex_unlock(&env_lock);
}

/* The entry called name[0..len), with or without the prefix. */
static const struct wr_config_entry *find_entry(const char *name, size_t len)
{
    for (size_t i = 0; i < WR_ARRAY_SIZE(table); i++) {
        const char *full = table[i].name;
        if (strlen(full) == len && !memcmp(full, name, len))
            return &table[i];
        if (strlen(full) - PREFIX_LEN == len && !memcmp(full + PREFIX_LEN, name, len))
            return &table[i];
    }
    return NULL;
}

const char *wr_config_nearest(const char *name)
{
    const char *nearest = NULL;
    int best = (int)(strlen(name) - WR_MIN(strlen(name), PREFIX_LEN)) / 3 + 1; /* a third of the letters may differ */
    for (size_t i = 0; i < WR_ARRAY_SIZE(table); i++) {
        int distance = wr_str_distance(name, table[i].name);
        if (distance <= best) {
            best = distance - 1; /* the first of equally near ones */
            nearest = table[i].name;
        }
    }
    return nearest;
}

/* The index of `word` in "one|two|three", or -1. */
static int enum_index(const char *choices, const char *word)
{
    size_t len = strlen(word);
    int index = 0;
    for (const char *p = choices;; index++) {
        size_t n = strcspn(p, "|");
        if (n == len && !memcmp(p, word, n))
            return index;
        if (!p[n])
            return -1;
        p += n + 1;
    }
}

static bool parse_bounded_int(const char *text, const char *allowed, int64_t *out)
{
    int64_t min, max;
    return wr_parse_int(text, out) && sscanf(allowed, "%" SCNd64 "..%" SCNd64, &min, &max) == 2 && *out >= min &&
           *out <= max;
}

static bool set_text(char **field, const char *text)
{
    char *copy = NULL;
    if (*text && !(copy = strdup(text)))
        return false;
    free(*field);
    *field = copy;
    return true;
}

/* What may be written for an entry, as a phrase. */
static const char *allowed_phrase(const struct wr_config_entry *entry, char *buf, size_t size)
{
    switch (entry->kind) {
    case WR_CONFIG_BOOL:
        return "yes or no";
    case WR_CONFIG_INT:
        snprintf(buf, size, "a whole number in %s", entry->allowed);
        return buf;
    case WR_CONFIG_BYTES:
        return "a number of bytes such as 4096, 64K, 1.5M, 2G or inf";
    case WR_CONFIG_TIME:
        return "a time such as 50us, 20ms, 1.5s, 2m or inf";
    case WR_CONFIG_ENUM:
        snprintf(buf, size, "one of %s", entry->allowed);
        return buf;
    case WR_CONFIG_TEXT:
        break;
    }
    return "text";
}

static weir_status set_entry(struct wr_config *config, const struct wr_config_entry *entry, const char *text, weir_error *err)
{
    void *field = (char *)config + entry->offset;
    bool ok = false;
    switch (entry->kind) {
    case WR_CONFIG_BOOL:
        ok = wr_parse_bool(text, field);
        break;
    case WR_CONFIG_INT:
        ok = parse_bounded_int(text, entry->allowed, field);
        break;
    case WR_CONFIG_BYTES:
        ok = wr_parse_bytes(text, field);
        break;
    case WR_CONFIG_TIME:
        ok = wr_parse_time(text, field);
        break;
    case WR_CONFIG_ENUM: {
        int index = enum_index(entry->allowed, text);
        ok = index >= 0;
        if (ok)
            *(int *)field = index;
        break;
    }
    case WR_CONFIG_TEXT:
        if (!set_text(field, text))
            return wr_error_memory(err, strlen(text) + 1, entry->name);
        return WEIR_OK;
    }
    if (ok)
        return WEIR_OK;
    char phrase[256];
    return wr_error_set(err, WEIR_ERR_CONFIG, "correct or unset the variable; weir-info --config lists what is allowed",
                        "%s=%s is not valid: it must be %s", entry->name, text,
                        allowed_phrase(entry, phrase, sizeof phrase));
}

static weir_status apply_override(struct wr_config *config, const char *override, weir_error *err)
{
    const char *eq = strchr(override, '=');
    size_t len = eq ? (size_t)(eq - override) : strlen(override);
    const struct wr_config_entry *entry = find_entry(override, len);
    if (!eq)
        return wr_error_set(err, WEIR_ERR_CONFIG, "write NAME=value", "configuration override '%s' has no '='", override);
    if (!entry) {
        char name[128];
        snprintf(name, sizeof name, "%s%.*s", strncmp(override, PREFIX, PREFIX_LEN) ? PREFIX : "", (int)WR_MIN(len, 100),
                 override);
        const char *nearest = wr_config_nearest(name);
        return wr_error_set(err, WEIR_ERR_CONFIG, "weir-info --config lists all variables",
                            nearest ? "there is no configuration variable %s; did you mean %s?"
                                    : "there is no configuration variable %s",
                            name, nearest);
    }
    return set_entry(config, entry, eq + 1, err);
}

weir_status wr_config_load(struct wr_config *config, const struct wr_env *env, const char *const *overrides, weir_error *err)
{
    weir_status status = WEIR_OK;
    memset(config, 0, sizeof *config);
    for (size_t i = 0; i < WR_ARRAY_SIZE(table) && !status; i++) {
        const char *text = wr_env_get(env, table[i].name);
        /* an empty variable counts as unset, as in most shells' habits */
        status = set_entry(config, &table[i], text && *text ? text : table[i].default_text, err);
    }
    for (const char *const *o = overrides; o && *o && !status; o++)
        status = apply_override(config, *o, err);
    if (status)
        wr_config_free(config);
    return status;
}

void wr_config_free(struct wr_config *config)
{
    for (size_t i = 0; i < WR_ARRAY_SIZE(table); i++)
        if (table[i].kind == WR_CONFIG_TEXT) {
            char **field = (char **)(void *)((char *)config + table[i].offset);
            free(*field);
            *field = NULL;
        }
}

struct unknown_visit {
    void (*visit)(void *arg, const char *name, const char *nearest);
    void *arg;
};

static bool visit_if_unknown(void *arg, const char *entry)
{
    const struct unknown_visit *v = arg;
    size_t len = strcspn(entry, "=");
    char name[128];
    if (find_entry(entry, len))
        return true;
    snprintf(name, sizeof name, "%.*s", (int)WR_MIN(len, sizeof name - 1), entry);
    v->visit(v->arg, name, wr_config_nearest(name));
    return true;
}

void wr_config_unknown(const struct wr_env *env, void (*visit)(void *arg, const char *name, const char *nearest), void *arg)
{
    struct unknown_visit v = {visit, arg};
    wr_env_each(env, PREFIX, visit_if_unknown, &v);
}

const char *wr_config_word(const char *name, int value, char *buf, size_t size)
{
    const struct wr_config_entry *entry = find_entry(name, strlen(name));
    const char *p = entry && entry->kind == WR_CONFIG_ENUM ? entry->allowed : "";
    for (int i = 0; i < value && *p; i++) {
        p += strcspn(p, "|");
        p += *p == '|';
    }
    snprintf(buf, size, "%.*s", (int)strcspn(p, "|"), p);
    return buf;
}

const char *wr_config_format(const struct wr_config *config, const struct wr_config_entry *entry, char *buf, size_t size)
{
    const void *field = (const char *)config + entry->offset;
    switch (entry->kind) {
    case WR_CONFIG_BOOL:
        wr_str_copy(buf, size, *(const bool *)field ? "yes" : "no");
        break;
    case WR_CONFIG_INT:
        snprintf(buf, size, "%" PRId64, *(const int64_t *)field);
        break;
    case WR_CONFIG_BYTES:
        wr_format_bytes(*(const uint64_t *)field, buf, size);
        break;
    case WR_CONFIG_TIME:
        wr_format_time(*(const int64_t *)field, buf, size);
        break;
    case WR_CONFIG_ENUM:
        wr_config_word(entry->name, *(const int *)field, buf, size);
        break;
    case WR_CONFIG_TEXT: {
        const char *text = *(char *const *)field;
        bool secret = strstr(entry->name, "SECRET") != NULL;
        wr_str_copy(buf, size, !text ? "" : secret ? "(set)" : text);
        break;
    }
    }
    return buf;
}
