/* SPDX-License-Identifier: BSD-3-Clause */
/* JSON becomes a struct of what was given, by the table of keys. */
#include "optim/zero_config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "base/error.h"
#include "base/str.h"
#include "optim/zero_config_table.h"

enum { PATH = 192 };

static const struct wr_zero_key keys[] = {
#define KEY(block, name, kind, field, text) {block, name, #kind, text, offsetof(struct wr_zero_raw, field)},
    WR_ZERO_CONFIG_KEYS(KEY)
#undef KEY
};

const struct wr_zero_key *wr_zero_config_keys(size_t *count)
{
    *count = WR_ARRAY_SIZE(keys);
    return keys;
}

static void forget(struct wr_zero_raw *raw)
{
    memset(raw, 0, sizeof *raw);
    for (size_t i = 0; i < WR_ARRAY_SIZE(keys); i++) {
        void *field = (char *)raw + keys[i].offset;
        wr_zero_count *count = field;
        wr_zero_real *real = field;
        wr_zero_flag *flag = field;
        if (!strcmp(keys[i].kind, "COUNT"))
            *count = -1;
        else if (!strcmp(keys[i].kind, "REAL") || !strcmp(keys[i].kind, "PAIR"))
            *real = NAN;
        else if (!strcmp(keys[i].kind, "FLAG"))
            *flag = -1;
    }
}

static const struct wr_zero_key *find(const char *block, const char *name)
{
    for (size_t i = 0; i < WR_ARRAY_SIZE(keys); i++)
        if (!strcmp(keys[i].block, block) && !strcmp(keys[i].name, name))
            return &keys[i];
    return NULL;
}

/* An unknown key, with the nearest that there is: in its own block, else the same name in another one. */
static weir_status unknown(const char *block, const char *name, weir_error *err)
{
    const struct wr_zero_key *nearest = NULL;
    int best = 1000;
    char advice[384];
    for (size_t i = 0; i < WR_ARRAY_SIZE(keys); i++) {
        int distance = wr_str_distance(keys[i].name, name) + (strcmp(keys[i].block, block) ? 1 : 0);
        if (distance < best) {
            best = distance;
            nearest = &keys[i];
        }
    }
    bool near = nearest && best <= 2 + (int)strlen(name) / 4;
    snprintf(advice, sizeof advice,
             near ? "did you mean '%s%s%s'? doc/zero-config.md has all keys" : "doc/zero-config.md has all keys",
             near ? nearest->block : "", near && *nearest->block ? "." : "", near ? nearest->name : "");
    return wr_error_set(err, WEIR_ERR_CONFIG, advice, "the key '%s%s%.64s' is not known", block, *block ? "." : "",
                        name);
}

/* A whole number, which may be written as 5e8; -1, which some keys have for "none", counts as not given. */
static bool read_count(const json_t *value, wr_zero_count *count)
{
    double number = json_number_value(value);
    if (!json_is_number(value) || number < -1 || number > 0x1p53 || number != floor(number))
        return false;
    *count = json_is_integer(value) ? json_integer_value(value) : (wr_zero_count)number;
    return true;
}

static bool read_value(const struct wr_zero_key *key, const json_t *value, void *field)
{
    wr_zero_real *real = field;
    wr_zero_flag *flag = field;
    if (!strcmp(key->kind, "ANY"))
        return true;
    if (!strcmp(key->kind, "COUNT"))
        return read_count(value, field);
    if (!strcmp(key->kind, "REAL")) {
        *real = json_number_value(value);
        return json_is_number(value);
    }
    if (!strcmp(key->kind, "PAIR")) {
        real[0] = json_number_value(json_array_get(value, 0));
        real[1] = json_number_value(json_array_get(value, 1));
        return json_array_size(value) == 2 && json_is_number(json_array_get(value, 0)) &&
               json_is_number(json_array_get(value, 1));
    }
    if (!strcmp(key->kind, "FLAG")) {
        *flag = json_is_true(value);
        return json_is_boolean(value);
    }
    return json_is_string(value) && json_string_length(value) &&
           wr_str_copy(field, strcmp(key->kind, "PATH") ? WR_ZERO_WORD : WR_ZERO_PATH, json_string_value(value));
}

static weir_status wrong_value(const struct wr_zero_key *key, const char *path, const json_t *value, weir_error *err)
{
    static const struct {
        const char *kind, *wanted;
    } kinds[] = {{"COUNT", "a whole number"}, {"REAL", "a number"},    {"FLAG", "true or false"},
                 {"WORD", "a short text"},   {"PATH", "a path"},    {"PAIR", "two numbers"}, {"BLOCK", "an object"}};
    const char *wanted = "", *text = json_string_value(value);
    for (size_t i = 0; i < WR_ARRAY_SIZE(kinds); i++)
        if (!strcmp(key->kind, kinds[i].kind))
            wanted = kinds[i].wanted;
    if (text && !strcmp(text, "auto"))
        return wr_error_set(err, WEIR_ERR_CONFIG, "write the value itself",
                            "'%s' is \"auto\", which another program was to fill in", path);
    return wr_error_set(err, WEIR_ERR_CONFIG, key->text, "'%s' is not %s", path, wanted);
}

/* The keys of one object, and of those in it; the table is three deep. */
static weir_status scan(const json_t *object, const char *block, struct wr_zero_raw *raw, weir_error *err)
{
    const char *name;
    json_t *value;
    char path[PATH];
    weir_status status = WEIR_OK;
    json_object_foreach((json_t *)object, name, value)
    {
        const struct wr_zero_key *key = find(block, name);
        if (!key)
            return unknown(block, name, err);
        snprintf(path, sizeof path, "%s%s%s", block, *block ? "." : "", name);
        if (strcmp(key->kind, "BLOCK"))
            status = read_value(key, value, (char *)raw + key->offset) ? WEIR_OK : wrong_value(key, path, value, err);
        else
            status = json_is_object(value) ? scan(value, path, raw, err) : wrong_value(key, path, value, err);
        if (status != WEIR_OK)
            return status;
    }
    return status;
}

weir_status wr_zero_config_scan(const char *text, size_t length, struct wr_zero_raw *raw, weir_error *err)
{
    json_error_t why;
    json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &why);
    forget(raw);
    if (!root)
        return wr_error_set(err, WEIR_ERR_CONFIG, "it must be one JSON object", "line %d, column %d: %s", why.line,
                            why.column, why.text);
    weir_status status = json_is_object(root) ? scan(root, "", raw, err)
                                              : wr_error_set(err, WEIR_ERR_CONFIG, "it must be one JSON object",
                                                             "the configuration is no object");
    json_decref(root);
    return status;
}
