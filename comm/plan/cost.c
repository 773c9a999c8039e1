/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "comm/plan/cost.h"

static const struct {
    const char *name;
    size_t at;
    double value, least, most;
    const char *help;
} fields[] = {
#define X(field, value, least, most, help) {#field, offsetof(struct wr_cost, field), value, least, most, help},
    WR_COST_TABLE(X)
#undef X
};

static double *place(struct wr_cost *cost, size_t at)
{
    return (double *)(void *)((char *)cost + at);
}

void wr_cost_default(struct wr_cost *cost)
{
    memset(cost, 0, sizeof *cost);
    for (size_t i = 0; i < WR_ARRAY_SIZE(fields); i++)
        *place(cost, fields[i].at) = fields[i].value;
    for (int i = 0; i < WR_COST_LEVELS; i++)
        cost->hop[i] = 100;
}

/* "hop", "hop3": sets all or one of an array. */
static bool set_level(double *array, const char *name, const char *key, double value)
{
    size_t len = strlen(name);
    if (strncmp(key, name, len) != 0 || value < 0 || value > 1e9)
        return false;
    if (!key[len]) {
        for (int i = 0; i < WR_COST_LEVELS; i++)
            array[i] = value;
        return true;
    }
    if (key[len] < '0' || key[len] >= '0' + WR_COST_LEVELS || key[len + 1])
        return false;
    array[key[len] - '0'] = value;
    return true;
}

weir_status wr_cost_set_one(struct wr_cost *cost, const char *key, const char *text, weir_error *err)
{
    static const char advice[] = "the keys are step, flag, copy, reduce, memory, overhead, latency, gap, bandwidth, rails, ack, "
                                 "hop, hop0.., uplink, uplink0..";
    double value;
    if (!wr_parse_real(text, &value))
        return wr_error_set(err, WEIR_ERR_INVALID, "write a number", "the cost %s=%s has no number", key, text);
    for (size_t i = 0; i < WR_ARRAY_SIZE(fields); i++)
        if (!strcmp(fields[i].name, key)) {
            if (value < fields[i].least || value > fields[i].most)
                return wr_error_set(err, WEIR_ERR_INVALID, fields[i].help, "the cost %s=%s is too %s", key, text,
                                    value < fields[i].least ? "small" : "large");
            *place(cost, fields[i].at) = value;
            return WEIR_OK;
        }
    if (set_level(cost->hop, "hop", key, value) || set_level(cost->uplink, "uplink", key, value))
        return WEIR_OK;
    return wr_error_set(err, WEIR_ERR_INVALID, advice, "there is no cost %s=%s", key, text);
}

weir_status wr_cost_set(struct wr_cost *cost, const char *text, weir_error *err)
{
    struct wr_cost changed = *cost;
    char *copy = strdup(text), *save = NULL;
    weir_status status = WEIR_OK;
    if (!copy)
        return wr_error_memory(err, strlen(text) + 1, "the costs");
    for (char *word = strtok_r(copy, ",", &save); word && status == WEIR_OK; word = strtok_r(NULL, ",", &save)) {
        char *equals = strchr(word, '=');
        if (!equals) {
            status = wr_error_set(err, WEIR_ERR_INVALID, "write key=value,key=value", "the cost '%s' has no value", word);
            break;
        }
        *equals = '\0';
        status = wr_cost_set_one(&changed, word, equals + 1, err);
    }
    free(copy);
    if (status == WEIR_OK)
        *cost = changed;
    return status;
}

void wr_cost_write(const struct wr_cost *cost, FILE *out)
{
    struct wr_cost copy = *cost;
    for (size_t i = 0; i < WR_ARRAY_SIZE(fields); i++)
        fprintf(out, "%-10s %-8g %s\n", fields[i].name, *place(&copy, fields[i].at), fields[i].help);
    fprintf(out, "%-10s %-8g %s\n", "hop", cost->hop[0], "ns more for leaving a group, and for entering one; hop0, hop1, ..: by level");
    fprintf(out, "%-10s %-8g %s\n", "uplink", cost->uplink[0],
            "GB/s out of and into each group; 0: as its nodes can send; uplink0, uplink1, ..: by level");
}
