/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cases with recorded results, tests/fixtures/rules/(name).txt: each is a rule with its settings, run for some steps from inputs that
 * tests/fixtures/rules/inputs.py makes in the same way.
 */
#ifndef WR_RULE_NUMBERS_H
#define WR_RULE_NUMBERS_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/rule.h>

enum { NUMBERS_MOST = 4096, NUMBERS_ROWS = 8 };

struct number_row {
    char what[32]; /* "w" or the name of a state */
    uint64_t step; /* of "w" */
    size_t n;
    double *values;
};

struct number_case {
    weir_rule_options options;
    double lr, weight_decay;
    uint64_t steps;
    bool wave; /* another learning rate in each step */
    uint64_t rows, cols;
    struct number_row row[NUMBERS_ROWS];
    int nrows;
};

/* ---- inputs ---- */

static uint32_t numbers_mix(uint32_t x)
{
    x = (x ^ x >> 16) * 0x7feb352d;
    x = (x ^ x >> 15) * 0x846ca68b;
    return x ^ x >> 16;
}

static float numbers_value(uint32_t seed, uint32_t i)
{
    return (float)(numbers_mix(seed * 0x9e3779b9u + i) >> 8) / 16777216.0f - 0.5f;
}

static inline float numbers_weight(uint32_t i)
{
    return numbers_value(1, i);
}

static inline float numbers_gradient(uint64_t t, uint32_t i)
{
    return i % 13 == 5 ? 0 : numbers_value(100 + (uint32_t)t, i) / (float)(1 << i % 8);
}

static inline double numbers_rate(const struct number_case *c, uint64_t t)
{
    return c->wave ? c->lr * (1 + (double)(t % 5)) / 4 : c->lr;
}

/* ---- reading ---- */

static inline bool numbers_setting(struct number_case *c, const char *name, double v)
{
    static const struct {
        const char *name;
        size_t at;
    } fields[] = {
#define FIELD(name) {#name, offsetof(weir_rule_options, name)}
        FIELD(beta1),          FIELD(beta2), FIELD(eps),      FIELD(momentum), FIELD(dampening), FIELD(lr_decay),
        FIELD(initial),        FIELD(trust), FIELD(norm_min), FIELD(norm_max), FIELD(eps2),      FIELD(clip),
        FIELD(decay_exponent),
#undef FIELD
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (!strcmp(name, fields[i].name)) {
            memcpy((char *)&c->options + fields[i].at, &v, sizeof v);
            return true;
        }
    static const struct {
        const char *name;
        uint64_t flag;
    } flags[] = {{"nesterov", WEIR_RULE_NESTEROV},
                 {"relative", WEIR_RULE_RELATIVE_STEP},
                 {"scaled", WEIR_RULE_SCALE_PARAMETER},
                 {"match", WEIR_RULE_MATCH_ADAM},
                 {"amsgrad", WEIR_RULE_AMSGRAD}};
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        if (!strcmp(name, flags[i].name)) {
            c->options.flags = v != 0 ? c->options.flags | flags[i].flag : c->options.flags & ~flags[i].flag;
            return true;
        }
    if (!strcmp(name, "lr"))
        c->lr = v;
    else if (!strcmp(name, "weight_decay"))
        c->weight_decay = v;
    else if (!strcmp(name, "steps"))
        c->steps = (uint64_t)v;
    else if (!strcmp(name, "wave"))
        c->wave = v != 0;
    else if (!strcmp(name, "rows"))
        c->rows = (uint64_t)v;
    else if (!strcmp(name, "cols"))
        c->cols = (uint64_t)v;
    else if (!strcmp(name, "iterations"))
        c->options.iterations = (uint64_t)v;
    else
        return false;
    return true;
}

static inline bool numbers_case_line(struct number_case *c, char *line)
{
    char *save = NULL, *word = strtok_r(line, " \n", &save);
    weir_rule_kind kind;
    if (!word || weir_rule_kind_find(word, &kind) != WEIR_OK)
        return false;
    c->options.size = sizeof c->options;
    c->rows = 1;
    c->cols = 40;
    if (weir_rule_defaults(kind, &c->options) != WEIR_OK)
        return false;
    while ((word = strtok_r(NULL, " \n", &save))) {
        char *value = strchr(word, '=');
        if (!value)
            return false;
        *value++ = '\0';
        if (!numbers_setting(c, word, strtod(value, NULL)))
            return false;
    }
    return true;
}

static inline bool numbers_row_line(struct number_case *c, char *line)
{
    char *save = NULL, *word = strtok_r(line, " \n", &save), *end;
    struct number_row *row = &c->row[c->nrows];
    bool weight = !strcmp(word, "w");
    char *second = strtok_r(NULL, " \n", &save);
    if (!second || c->nrows == NUMBERS_ROWS)
        return false;
    snprintf(row->what, sizeof row->what, "%s", weight ? "w" : second);
    row->step = weight ? strtoull(second, NULL, 10) : 0;
    row->values = calloc(NUMBERS_MOST, sizeof(double));
    while ((word = strtok_r(NULL, " \n", &save)) && row->n < NUMBERS_MOST) {
        row->values[row->n++] = strtod(word, &end);
        if (*end)
            return false;
    }
    c->nrows++;
    return row->n > 0;
}

static inline void numbers_free(struct number_case *c)
{
    for (int i = 0; i < c->nrows; i++)
        free(c->row[i].values);
    memset(c, 0, sizeof *c);
}

/* Calls body for each case of a file; returns their number, -1 when the file cannot be read. */
static inline int numbers_each(const char *name, void (*body)(const struct number_case *c, void *arg), void *arg)
{
    char path[4096];
    const char *top = getenv("top_srcdir");
    snprintf(path, sizeof path, "%s/tests/fixtures/rules/%s.txt", top ? top : ".", name);
    FILE *file = fopen(path, "r");
    if (!file)
        return -1;
    struct number_case c = {0};
    char *line = NULL;
    size_t size = 0;
    int count = 0;
    bool good = true;
    while (good && getline(&line, &size, file) > 0) {
        if (line[0] == '#')
            continue;
        if (!strncmp(line, "case ", 5)) {
            if (count)
                body(&c, arg);
            numbers_free(&c);
            count++;
            good = numbers_case_line(&c, line + 5);
        } else {
            good = count && numbers_row_line(&c, line);
        }
    }
    if (good && count)
        body(&c, arg);
    numbers_free(&c);
    free(line);
    fclose(file);
    return good ? count : -1;
}

#endif
