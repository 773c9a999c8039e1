/* SPDX-License-Identifier: BSD-3-Clause */
#include "topo/topology_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/error.h"
#include "topo/hostlist.h"

#define ADVICE "correct the line; the syntax is that of Slurm's topology.conf"

enum { SCOPE_SWITCH, SCOPE_NODE };

struct parser {
    struct wr_topology_file *file;
    const char *path;
    int line; /* where the current statement starts */
    bool any_switch, any_block;
    weir_error *err;
};

static weir_status fault(const struct parser *p, int line, const char *fmt, ...) WR_PRINTF(3, 4);

static weir_status fault(const struct parser *p, int line, const char *fmt, ...)
{
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return wr_error_set(p->err, WEIR_ERR_CONFIG, ADVICE, "%s:%d: %s", p->path, line, text);
}

/* The entry of a name, made when it is new; NULL when out of memory or above the limit. */
static struct wr_topology_entry *entry_of(struct parser *p, int scope, const char *name, size_t len)
{
    struct wr_topology_file *file = p->file;
    int before = file->names.n;
    int index = before < WR_TOPOLOGY_FILE_NAMES ? wr_intern_add(&file->names, scope, name, len)
                                                : wr_intern_find(&file->names, scope, name, len);
    if (index < 0)
        return NULL;
    if (index < before)
        return &file->entries[index];
    if (index >= file->cap) {
        struct wr_topology_entry *entries = realloc(file->entries, (size_t)file->names.cap * sizeof *entries);
        if (!entries)
            return NULL;
        file->entries = entries;
        file->cap = file->names.cap;
    }
    file->entries[index] = (struct wr_topology_entry){-1, 0, p->line};
    return &file->entries[index];
}

struct members {
    struct parser *parser;
    int scope, parent;
};

static bool add_member(void *arg, const char *name, size_t len)
{
    const struct members *m = arg;
    struct wr_topology_entry *entry = entry_of(m->parser, m->scope, name, len);
    if (!entry)
        return false;
    if (entry->parent < 0)
        entry->parent = m->parent;
    return true;
}

static weir_status add_members(struct parser *p, int scope, int parent, const char *list, size_t len)
{
    struct members m = {p, scope, parent};
    const char *wrong = wr_hostlist_each(list, len, add_member, &m);
    if (!wrong)
        return WEIR_OK;
    if (*wrong)
        return fault(p, p->line, "the list '%.*s%s' has %s", (int)WR_MIN(len, 60u), list, len > 60 ? "..." : "", wrong);
    if (p->file->names.n >= WR_TOPOLOGY_FILE_NAMES)
        return fault(p, p->line, "the file has more than %d names", WR_TOPOLOGY_FILE_NAMES);
    return wr_error_memory(p->err, len, "the topology file");
}

struct word {
    const char *text;
    size_t len;
};

/* One statement's words; a text of NULL was not given. */
struct statement {
    struct word name, nodes, switches, ignored;
    bool block;
};

static bool is_word(const char *text, size_t len, const char *word)
{
    return len == strlen(word) && !strncasecmp(text, word, len);
}

static weir_status add_word(struct parser *p, struct statement *st, const char *key, size_t key_len, struct word value)
{
    struct word *slot = NULL;
    if (is_word(key, key_len, "SwitchName") || is_word(key, key_len, "BlockName")) {
        slot = &st->name;
        st->block = st->block || is_word(key, key_len, "BlockName");
    } else if (is_word(key, key_len, "Nodes")) {
        slot = &st->nodes;
    } else if (is_word(key, key_len, "Switches")) {
        slot = &st->switches;
    } else if (is_word(key, key_len, "LinkSpeed") || is_word(key, key_len, "BlockSizes")) {
        slot = &st->ignored;
    } else {
        return fault(p, p->line, "the word '%.*s' is not known", (int)WR_MIN(key_len, 60u), key);
    }
    if (slot->text)
        return fault(p, p->line, "'%.*s' is given twice", (int)WR_MIN(key_len, 60u), key);
    if (!value.len)
        return fault(p, p->line, "'%.*s=' has no value", (int)WR_MIN(key_len, 60u), key);
    *slot = value;
    return WEIR_OK;
}

static weir_status apply(struct parser *p, const struct statement *st)
{
    if (!st->name.text) {
        if (st->ignored.text && !st->nodes.text && !st->switches.text)
            return WEIR_OK;
        return fault(p, p->line, "the line has no SwitchName= or BlockName=");
    }
    p->any_block = p->any_block || st->block;
    p->any_switch = p->any_switch || !st->block;
    if (p->any_block && p->any_switch)
        return fault(p, p->line, "switches and blocks cannot stand in one file");
    if (!st->nodes.text && !st->switches.text)
        return fault(p, p->line, "'%.*s' has neither Nodes= nor Switches=", (int)WR_MIN(st->name.len, 60u),
                     st->name.text);
    if (st->block && st->switches.text)
        return fault(p, p->line, "a block has Nodes=, not Switches=");
    if (st->name.len > WR_HOSTLIST_NAME_MAX)
        return fault(p, p->line, "the name is longer than %d characters", WR_HOSTLIST_NAME_MAX);
    struct wr_topology_entry *entry = entry_of(p, SCOPE_SWITCH, st->name.text, st->name.len);
    if (!entry)
        return wr_error_memory(p->err, st->name.len, "the topology file");
    if (entry->line)
        return fault(p, p->line, "'%.*s' is defined already on line %d", (int)WR_MIN(st->name.len, 60u), st->name.text,
                     entry->line);
    entry->line = p->line;
    int index = (int)(entry - p->file->entries);
    weir_status status = WEIR_OK;
    if (st->switches.text)
        status = add_members(p, SCOPE_SWITCH, index, st->switches.text, st->switches.len);
    if (!status && st->nodes.text)
        status = add_members(p, SCOPE_NODE, index, st->nodes.text, st->nodes.len);
    return status;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

/* Skips blanks and continued line ends; true when the statement goes on at *at. */
static bool skip_blanks(const char **at, const char *end, int *lines)
{
    while (*at < end) {
        const char *c = *at;
        if (is_blank(*c)) {
            (*at)++;
        } else if (*c == '\\' && c + 1 < end && (c[1] == '\n' || (c[1] == '\r' && c + 2 < end && c[2] == '\n'))) {
            *at += c[1] == '\n' ? 2 : 3;
            ++*lines;
        } else if (*c == '#') {
            const char *newline = memchr(c, '\n', (size_t)(end - c));
            *at = newline ? newline : end;
        } else {
            return *c != '\n';
        }
    }
    return false;
}

/* Reads key=value at *at. */
static weir_status parse_word(struct parser *p, struct statement *st, const char **at, const char *end)
{
    const char *key = *at;
    while (*at < end && **at != '=' && **at != '\n' && !is_blank(**at))
        (*at)++;
    size_t key_len = (size_t)(*at - key);
    if (*at == end || **at != '=')
        return fault(p, p->line, "'%.*s' is not of the form Word=value", (int)WR_MIN(key_len, 60u), key);
    (*at)++;
    bool quoted = *at < end && **at == '"';
    *at += quoted;
    struct word value = {*at, 0};
    while (*at < end && **at != '\n' && (quoted ? **at != '"' : !is_blank(**at) && **at != '#' && **at != '\\'))
        (*at)++;
    value.len = (size_t)(*at - value.text);
    if (quoted && (*at == end || **at != '"'))
        return fault(p, p->line, "a quotation mark is missing");
    *at += quoted;
    return add_word(p, st, key, key_len, value);
}

static weir_status parse_statements(struct parser *p, const char *data, size_t len)
{
    const char *end = data + len;
    int line = 1;
    for (const char *at = data; at < end; at++, line++) {
        struct statement st = {.block = false};
        bool empty = true;
        p->line = line;
        while (skip_blanks(&at, end, &line)) {
            weir_status status = parse_word(p, &st, &at, end);
            if (status)
                return status;
            empty = false;
        }
        weir_status status = empty ? WEIR_OK : apply(p, &st);
        if (status)
            return status;
    }
    return WEIR_OK;
}

static weir_status check_entries(const struct parser *p)
{
    const struct wr_topology_file *file = p->file;
    for (int i = 0; i < file->names.n; i++) {
        const struct wr_topology_entry *entry = &file->entries[i];
        int depth = 0;
        if (file->names.items[i].scope == SCOPE_SWITCH && !entry->line)
            return fault(p, entry->mentioned, "the switch '%.60s' is not defined", wr_intern_name(&file->names, i));
        for (int at = entry->parent; at >= 0; at = file->entries[at].parent)
            if (++depth > WR_SWITCH_DEPTH_MAX)
                return fault(p, entry->mentioned, "'%.60s' is below more than %d switches, or below itself",
                             wr_intern_name(&file->names, i), WR_SWITCH_DEPTH_MAX);
    }
    return WEIR_OK;
}

weir_status wr_topology_file_parse(struct wr_topology_file *file, const char *data, size_t len, const char *path,
                                   weir_error *err)
{
    struct parser p = {.file = file, .path = path, .err = err};
    memset(file, 0, sizeof *file);
    weir_status status = parse_statements(&p, data, len);
    if (!status)
        status = check_entries(&p);
    if (status) {
        wr_topology_file_free(file);
        return status;
    }
    file->kind = p.any_block ? WEIR_LEVEL_GROUP : WEIR_LEVEL_SWITCH;
    return WEIR_OK;
}

weir_status wr_topology_file_load(struct wr_topology_file *file, const char *path, weir_error *err)
{
    static const char advice[] = "set WEIR_TOPOLOGY_FILE to a readable file, or unset it";
    struct wr_buf text = {0};
    struct stat st;
    weir_status status = WEIR_OK;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return wr_error_errno(err, WEIR_ERR_CONFIG, errno, advice, "the topology file %s cannot be opened", path);
    if (fstat(fd, &st) || !S_ISREG(st.st_mode))
        status = wr_error_set(err, WEIR_ERR_CONFIG, advice, "the topology file %s is not a regular file", path);
    for (ssize_t n = 1; !status && n > 0;) {
        char block[16384];
        n = read(fd, block, sizeof block);
        if (n > 0)
            wr_buf_add(&text, block, (size_t)n);
        if (n < 0 && errno != EINTR)
            status = wr_error_errno(err, WEIR_ERR_CONFIG, errno, advice, "the topology file %s cannot be read", path);
        else if (text.failed || text.len > WR_TOPOLOGY_FILE_BYTES)
            status = wr_error_set(err, WEIR_ERR_CONFIG, advice, "the topology file %s is longer than %d bytes", path,
                                  WR_TOPOLOGY_FILE_BYTES);
        n = n < 0 ? 1 : n;
    }
    close(fd);
    if (!status)
        status = wr_topology_file_parse(file, text.data ? text.data : "", text.len, path, err);
    wr_buf_free(&text);
    return status;
}

weir_status wr_topology_file_find(const struct wr_topology_file *file, const char *host, struct wr_switches *switches,
                                  int *leaf, weir_error *err)
{
    int chain[WR_SWITCH_DEPTH_MAX], depth = 0;
    size_t len = strlen(host);
    int index = wr_intern_find(&file->names, SCOPE_NODE, host, len);
    if (index < 0 && strcspn(host, ".") < len)
        index = wr_intern_find(&file->names, SCOPE_NODE, host, strcspn(host, "."));
    *leaf = -1;
    if (index < 0)
        return WEIR_OK;
    for (int at = file->entries[index].parent; at >= 0; at = file->entries[at].parent)
        chain[depth++] = at;
    int at = -1;
    while (depth-- > 0) {
        const char *name = wr_intern_name(&file->names, chain[depth]);
        at = wr_switches_add(switches, at, file->kind, name, strlen(name));
        if (at < 0)
            return wr_error_memory(err, strlen(name), "the switches");
    }
    *leaf = at;
    return WEIR_OK;
}

void wr_topology_file_free(struct wr_topology_file *file)
{
    wr_intern_free(&file->names);
    free(file->entries);
    memset(file, 0, sizeof *file);
}
