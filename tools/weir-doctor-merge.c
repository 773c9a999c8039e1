/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of findings: adding, bringing together at rank 0, merging equal ones. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "tools/probe.h"
#include "tools/weir-doctor.h"

static struct finding *add(struct doctor *d)
{
    struct finding *list = realloc(d->list, (d->n + 1) * sizeof *list);
    if (!list) {
        d->failed = true;
        return NULL;
    }
    d->list = list;
    memset(&list[d->n], 0, sizeof *list);
    return &list[d->n++];
}

/* Findings travel as lines with tabs between the fields. */
static void clean(char *text)
{
    for (; *text; text++)
        if (*text == '\t' || *text == '\n' || *text == '\r')
            *text = ' ';
}

void doctor_say(struct doctor *d, enum level level, enum scope scope, const char *subject, const char *fix, const char *fmt, ...)
{
    struct finding *f = add(d);
    if (!f)
        return;
    f->level = level;
    f->scope = scope;
    wr_str_copy(f->subject, sizeof f->subject, subject);
    wr_str_copy(f->fix, sizeof f->fix, fix ? fix : "");
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(f->text, sizeof f->text, fmt, ap);
    va_end(ap);
    clean(f->text);
    clean(f->fix);
}

size_t doctor_count(const struct doctor *d, enum level level)
{
    size_t count = 0;
    for (size_t i = 0; i < d->n; i++)
        count += d->list[i].level == level;
    return count;
}

/* ---- merging at rank 0: for each finding the set of ranks that it holds for ---- */

struct merged {
    struct doctor *d;
    bool *holds;     /* [finding * size + rank] */
    size_t cap;      /* findings that `holds` has room for */
};

static bool grow(struct merged *m, size_t n)
{
    if (n <= m->cap)
        return true;
    size_t cap = m->cap ? m->cap * 2 : 64, row = (size_t)m->d->size;
    cap = WR_MAX(cap, n);
    bool *holds = realloc(m->holds, cap * row);
    if (!holds)
        return false;
    memset(holds + m->cap * row, 0, (cap - m->cap) * row);
    m->holds = holds;
    m->cap = cap;
    return true;
}

/* Marks the ranks that a finding of `rank` holds for. */
static void mark(struct merged *m, size_t finding, int rank)
{
    const struct doctor *d = m->d;
    bool *row = m->holds + finding * (size_t)d->size;
    if (d->list[finding].scope == SCOPE_JOB) {
        memset(row, true, (size_t)d->size);
        return;
    }
    row[rank] = true;
    int node = d->topo ? weir_topo_node(d->topo, rank) : -1;
    if (d->list[finding].scope == SCOPE_NODE && node >= 0)
        for (int i = 0; i < weir_topo_node_size(d->topo, node); i++)
            row[weir_topo_node_rank(d->topo, node, i)] = true;
}

static bool equal(const struct finding *a, const struct finding *b)
{
    return a->level == b->level && a->scope == b->scope && !strcmp(a->subject, b->subject) && !strcmp(a->text, b->text) &&
           !strcmp(a->fix, b->fix);
}

static void take(struct merged *m, int rank, char **field)
{
    struct doctor *d = m->d;
    struct finding f;
    memset(&f, 0, sizeof f);
    int level = atoi(field[0]), scope = atoi(field[1]);
    if (level < LEVEL_OK || level > LEVEL_PROBLEM || scope < SCOPE_JOB || scope > SCOPE_RANK)
        return;
    f.level = (enum level)level;
    f.scope = (enum scope)scope;
    wr_str_copy(f.subject, sizeof f.subject, field[2]);
    wr_str_copy(f.text, sizeof f.text, field[3]);
    wr_str_copy(f.fix, sizeof f.fix, field[4]);
    size_t i = 0;
    while (i < d->n && !equal(&d->list[i], &f))
        i++;
    if (i == d->n) {
        struct finding *new = grow(m, d->n + 1) ? add(d) : NULL;
        if (!new) {
            d->failed = true;
            return;
        }
        *new = f;
    }
    mark(m, i, rank);
}

/* Writes whom a finding holds for: nothing when for all, whole nodes as nodes. */
static void name_holders(const struct merged *m, size_t finding)
{
    const struct doctor *d = m->d;
    const bool *row = m->holds + finding * (size_t)d->size;
    struct finding *f = &d->list[finding];
    int nodes = d->topo ? weir_topo_nnodes(d->topo) : 0;
    size_t n = 0;
    bool whole_nodes = nodes > 0;
    char list[96];
    int *numbers = malloc((size_t)(d->size + nodes) * sizeof *numbers);
    if (!numbers)
        return;
    for (int rank = 0; rank < d->size; rank++)
        if (row[rank])
            numbers[n++] = rank;
    if (n == (size_t)d->size)
        goto done;
    size_t k = n;
    for (int node = 0; node < nodes; node++) {
        int members = weir_topo_node_size(d->topo, node), holding = 0;
        for (int i = 0; i < members; i++)
            holding += row[weir_topo_node_rank(d->topo, node, i)];
        if (holding == members)
            numbers[k++] = node;
        else if (holding)
            whole_nodes = false;
    }
    if (whole_nodes)
        snprintf(f->where, sizeof f->where, "node%s %s", k - n > 1 ? "s" : "", wr_format_ranges(numbers + n, k - n, list, sizeof list));
    else
        snprintf(f->where, sizeof f->where, "rank%s %s", n > 1 ? "s" : "", wr_format_ranges(numbers, n, list, sizeof list));
    weir_rank_info info = {.size = sizeof info};
    if (d->topo && (n == 1 || k - n == 1) && !weir_topo_rank_info(d->topo, numbers[0], &info)) {
        wr_str_append(f->where, sizeof f->where, " on host ");
        wr_str_append(f->where, sizeof f->where, info.host);
    }
done:
    free(numbers);
}

/* Equal subjects stand together, in the order in which they came first. */
static void sort_by_subject(struct doctor *d)
{
    for (size_t i = 1; i < d->n; i++) {
        size_t place = i;
        for (size_t j = 0; j < i; j++)
            if (!strcmp(d->list[j].subject, d->list[i].subject))
                place = j + 1;
        struct finding f = d->list[i];
        memmove(&d->list[place + 1], &d->list[place], (i - place) * sizeof f);
        d->list[place] = f;
    }
}

/* ---- gathering ---- */

/* What others need to hear of: from ranks other than 0 a plain "ok" is none. */
static void write_findings(const struct doctor *d, struct wr_buf *buf)
{
    for (size_t i = 0; i < d->n; i++) {
        const struct finding *f = &d->list[i];
        if (f->level != LEVEL_OK)
            wr_buf_printf(buf, "%d\t%d\t%s\t%s\t%s\n", f->level, f->scope, f->subject, f->text, f->fix);
    }
    wr_buf_add(buf, "", 1);
}

/* All ranks' texts, each in a place of the longest one's size; NULL at ranks other than 0 as well when it failed. */
static weir_status exchange(struct doctor *d, const struct wr_buf *mine, char **all, size_t *longest)
{
    weir_status status;
    int64_t len = (int64_t)mine->len, *lens = malloc((size_t)d->size * sizeof *lens);
    char *padded = NULL;
    *longest = 0;
    *all = NULL;
    if (!lens)
        return wr_error_memory(&d->error, (size_t)d->size * sizeof *lens, "the findings' lengths");
    if ((status = weir_boot_allgather(d->ctx, &len, lens, sizeof len)))
        goto from_ctx;
    for (int i = 0; i < d->size; i++)
        *longest = WR_MAX(*longest, (size_t)WR_MAX(lens[i], 0));
    padded = calloc(1, *longest);
    *all = malloc(*longest * (size_t)d->size);
    if (!padded || !*all) {
        status = wr_error_memory(&d->error, *longest * (size_t)d->size, "the findings of all ranks");
        goto done;
    }
    memcpy(padded, mine->data, mine->len);
    if (!(status = weir_boot_allgather(d->ctx, padded, *all, *longest)))
        goto done;
from_ctx:
    d->error = *weir_last_error(d->ctx);
done:
    free(padded);
    free(lens);
    return status;
}

static void merge(struct doctor *d, char *all, size_t longest)
{
    struct merged m = {.d = d};
    if (!grow(&m, d->n)) {
        d->failed = true;
        return;
    }
    for (size_t i = 0; i < d->n; i++)
        if (d->list[i].level == LEVEL_OK)
            memset(m.holds + i * (size_t)d->size, true, (size_t)d->size);
        else
            mark(&m, i, 0);
    for (int rank = 1; rank < d->size; rank++) {
        char *text = all + (size_t)rank * longest, *field[5];
        while (probe_next_line(&text, field, 5) == 5)
            take(&m, rank, field);
    }
    for (size_t i = 0; i < d->n; i++)
        name_holders(&m, i);
    free(m.holds);
}

weir_status doctor_gather(struct doctor *d)
{
    struct wr_buf mine = {0};
    char *all = NULL;
    size_t longest = 0;
    weir_status status = WEIR_OK;
    if (d->ctx && d->size > 1) {
        write_findings(d, &mine);
        status = mine.failed ? wr_error_memory(&d->error, mine.len, "the findings") : exchange(d, &mine, &all, &longest);
        if (!status && d->rank == 0)
            merge(d, all, longest);
    }
    sort_by_subject(d);
    free(all);
    wr_buf_free(&mine);
    return status;
}
