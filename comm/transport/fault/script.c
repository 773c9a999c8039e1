/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/transport/fault/script.h"

#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/error.h"
#include "base/str.h"

static const char *const op_words[] = {"put", "signal", "get", "am", "flush", "any"};

static bool parse_probability(const char *text, double *p)
{
    char *end;
    double v = strtod(text, &end);
    if (end == text || *end || !(v >= 0 && v <= 1))
        return false;
    *p = v;
    return true;
}

static bool parse_count(const char *text, int64_t min, int64_t *n)
{
    return wr_parse_int(text, n) && *n >= min;
}

/* Takes "OP:" from the front of a value. */
static enum fault_op take_op(char **value)
{
    char *colon = strchr(*value, ':');
    if (!colon)
        return FAULT_ANY;
    for (size_t i = 0; i < WR_ARRAY_SIZE(op_words); i++)
        if ((size_t)(colon - *value) == strlen(op_words[i]) && !strncmp(*value, op_words[i], strlen(op_words[i]))) {
            *value = colon + 1;
            return (enum fault_op)i;
        }
    return FAULT_ANY;
}

static bool parse_rule(const char *key, char *value, struct fault_rule *r)
{
    int64_t n = 1;
    *r = (struct fault_rule){.op = FAULT_ANY, .probability = 1, .peer = -1};
    if (!strcmp(key, "dead")) {
        char *colon = strchr(value, ':');
        int64_t peer;
        if (colon)
            *colon = 0;
        r->kind = FAULT_DEAD;
        if (!parse_count(value, 0, &peer) || peer > INT32_MAX || (colon && !parse_count(colon + 1, 1, &n)))
            return false;
        r->peer = (int)peer;
        r->number = (uint64_t)n;
        return true;
    }
    if (!strcmp(key, "refuse")) {
        char *colon = strchr(value, ':');
        if (colon)
            *colon = 0;
        r->kind = FAULT_REFUSE;
        if (strcmp(value, "reg") != 0 || (colon && !parse_count(colon + 1, 1, &n)))
            return false;
        r->number = (uint64_t)n;
        return true;
    }
    r->op = take_op(&value);
    if (!strcmp(key, "error")) {
        r->kind = FAULT_ERROR;
        if (!parse_count(value, 1, &n))
            return false;
        r->number = (uint64_t)n;
        return true;
    }
    if (!strcmp(key, "delay")) {
        char *colon = strchr(value, ':');
        if (colon)
            *colon = 0;
        r->kind = FAULT_DELAY;
        return wr_parse_time(value, &r->delay_ns) && r->delay_ns >= 0 && r->delay_ns != WR_TIME_INF &&
               (!colon || parse_probability(colon + 1, &r->probability));
    }
    r->kind = !strcmp(key, "dup") ? FAULT_DUP : FAULT_DROP;
    if (r->kind == FAULT_DUP && (r->op == FAULT_GET || r->op == FAULT_FLUSH))
        return false;
    return (r->kind == FAULT_DUP || !strcmp(key, "drop")) && parse_probability(value, &r->probability);
}

static weir_status parse_word(char *word, struct fault_script *s, weir_error *err)
{
    char copy[128];
    int64_t n;
    wr_str_copy(copy, sizeof copy, word);
    char *eq = strchr(word, '=');
    if (eq) {
        *eq = 0;
        char *value = eq + 1;
        if (!strcmp(word, "seed") && parse_count(value, 0, &n)) {
            s->seed = (uint64_t)n;
            return WEIR_OK;
        }
        if (!strcmp(word, "rank") && parse_count(value, 0, &n) && n <= INT32_MAX) {
            s->rank = (int)n;
            return WEIR_OK;
        }
        if (s->nrules == FAULT_RULES)
            return wr_error_set(err, WEIR_ERR_CONFIG, NULL, "WEIR_FAULT has more than %d rules, at '%s'", FAULT_RULES,
                                copy);
        if (parse_rule(word, value, &s->rule[s->nrules])) {
            s->nrules++;
            return WEIR_OK;
        }
    }
    return wr_error_set(err, WEIR_ERR_CONFIG,
                        "words are seed=N, rank=N, drop=[OP:]P, dup=[OP:]P, delay=[OP:]TIME[:P], error=[OP:]N, "
                        "dead=PEER[:N], refuse=reg[:N]; OP is put, signal, get, am, flush or any",
                        "WEIR_FAULT: '%s' is not understood", copy);
}

weir_status wr_fault_parse(const char *text, struct fault_script *script, weir_error *err)
{
    struct fault_script s = {.seed = 1, .rank = -1};
    char *copy = strdup(text), *save = NULL;
    weir_status status = WEIR_OK;
    if (!copy)
        return wr_error_memory(err, strlen(text), "the fault script");
    for (char *word = strtok_r(copy, "; \t\n", &save); word && status == WEIR_OK; word = strtok_r(NULL, "; \t\n", &save))
        status = parse_word(word, &s, err);
    free(copy);
    if (status == WEIR_OK)
        *script = s;
    return status;
}
