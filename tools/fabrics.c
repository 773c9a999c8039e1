/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/fabrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "tools/fabrics_open.h"
#include "tools/probe.h"

static const char *const libraries[2] = {"libfabric", "ucx"};
static const char *const prefixes[2] = {"ofi", "ucx"};

/* Adds a word to a list with commas, once. */
static void add_word(char *list, size_t size, const char *word)
{
    size_t len = strlen(word);
    for (const char *p = list; (p = strstr(p, word)); p += len)
        if ((p == list || p[-1] == ',') && (p[len] == ',' || !p[len]))
            return;
    if (strlen(list) + len + 5 >= size) { /* "," word "..." */
        if (!strstr(list, "..."))
            wr_str_append(list, size, "...");
        return;
    }
    if (*list)
        wr_str_append(list, size, ",");
    wr_str_append(list, size, word);
}

static struct fabric *find_or_add(struct fabrics *fabrics, int library, const char *name)
{
    for (size_t i = 0; i < fabrics->n; i++)
        if (!strcmp(fabrics->list[i].library, libraries[library]) && !strcmp(fabrics->list[i].name, name))
            return &fabrics->list[i];
    struct fabric *list = realloc(fabrics->list, (fabrics->n + 1) * sizeof *list);
    if (!list)
        return NULL;
    fabrics->list = list;
    struct fabric *fabric = &list[fabrics->n++];
    memset(fabric, 0, sizeof *fabric);
    wr_str_copy(fabric->library, sizeof fabric->library, libraries[library]);
    wr_str_copy(fabric->name, sizeof fabric->name, name);
    return fabric;
}

/* Lines of a listing: name, kind, device. */
static void read_listing(struct fabrics *fabrics, int library, struct probe *probe)
{
    char *text = probe->text.data, *field[3];
    size_t n;
    while ((n = probe_next_line(&text, field, 3)) > 0) {
        struct fabric *fabric = n == 3 ? find_or_add(fabrics, library, field[0]) : NULL;
        if (!fabric)
            continue;
        if (*field[1])
            add_word(fabric->kind, sizeof fabric->kind, field[1]);
        if (*field[2])
            add_word(fabric->devices, sizeof fabric->devices, field[2]);
    }
    char reason[120];
    if (probe_failure(probe, PROBE_TIMEOUT_MS, reason, sizeof reason))
        snprintf(fabrics->failure[library], sizeof fabrics->failure[library], "listing %s %s", libraries[library], reason);
}

/* Lines of a trial: "try" device kind, then "ok" device kind or "no" device kind reason. */
static void read_trial(struct fabric *fabric, struct probe *probe)
{
    char *text = probe->text.data, *field[4];
    char last[64] = "", reason[128];
    size_t n;
    while ((n = probe_next_line(&text, field, 4)) >= 3) {
        if (!strcmp(field[0], "try")) {
            wr_str_copy(last, sizeof last, field[1]);
        } else if (!strcmp(field[0], "ok")) {
            fabric->opens = true;
        } else if (n == 4 && !*fabric->why) {
            snprintf(fabric->why, sizeof fabric->why, "%s%s%s: %s", field[1], *field[2] ? " " : "", field[2], field[3]);
        }
    }
    if (probe_failure(probe, PROBE_TIMEOUT_MS, reason, sizeof reason)) {
        fabric->opens = false; /* what may hang or crash must not be relied on */
        snprintf(fabric->why, sizeof fabric->why, "%s%s%s", last, *last ? ": " : "", reason);
    } else if (!fabric->opens && !*fabric->why) {
        wr_str_copy(fabric->why, sizeof fabric->why, "is listed but offers nothing to open");
    }
}

void fabrics_find(struct fabrics *fabrics)
{
    memset(fabrics, 0, sizeof *fabrics);
    struct probe listing[2];
    memset(listing, 0, sizeof listing);
    for (int i = 0; i < 2; i++)
        wr_str_copy(listing[i].name, sizeof listing[i].name, prefixes[i]);
    probes_run(listing, 2, PROBE_TIMEOUT_MS);
    for (int i = 0; i < 2; i++) {
        read_listing(fabrics, i, &listing[i]);
        probe_free(&listing[i]);
    }
    struct probe *trials = calloc(fabrics->n + 1, sizeof *trials);
    if (!trials)
        return;
    for (size_t i = 0; i < fabrics->n; i++) {
        const char *prefix = prefixes[strcmp(fabrics->list[i].library, libraries[0]) != 0];
        snprintf(trials[i].name, sizeof trials[i].name, "%s:%s", prefix, fabrics->list[i].name);
    }
    probes_run(trials, fabrics->n, PROBE_TIMEOUT_MS);
    for (size_t i = 0; i < fabrics->n; i++) {
        read_trial(&fabrics->list[i], &trials[i]);
        probe_free(&trials[i]);
    }
    free(trials);
}

void fabrics_free(struct fabrics *fabrics)
{
    free(fabrics->list);
    memset(fabrics, 0, sizeof *fabrics);
}

int fabrics_probe(const char *name)
{
    int library = strncmp(name, "ofi", 3) ? strncmp(name, "ucx", 3) ? -1 : 1 : 0;
    if (library < 0 || (name[3] && name[3] != ':'))
        return -1;
    FILE *out = probe_begin();
    if (!out)
        return 2;
    const char *what = name[3] ? name + 4 : NULL;
    if (library == 0)
        what ? ofi_open(out, what) : ofi_list(out);
    else
        what ? ucx_open(out, what) : ucx_list(out);
    fflush(out);
    /* Not exit(): the libraries' own destructors are no part of the question and may hang. */
    _exit(0);
}
