/* SPDX-License-Identifier: BSD-3-Clause */
#include "topo/hostlist.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

struct expansion {
    bool (*visit)(void *arg, const char *name, size_t len);
    void *arg;
    size_t count;
    char name[WR_HOSTLIST_NAME_MAX + 1];
};

/* The numbers of one bracket, "0-3,7"; false when there is none at *at. */
static const char *next_range(const char **at, const char *end, unsigned long *first, unsigned long *last, int *width)
{
    unsigned long bound[2] = {0, 0};
    int which = 0, digits = 0;
    *width = 0;
    for (;; (*at)++) {
        if (*at < end && isdigit((unsigned char)**at)) {
            if (++digits > 9)
                return "a number has more than nine digits";
            bound[which] = 10 * bound[which] + (unsigned long)(**at - '0');
            *width = which ? *width : digits;
            continue;
        }
        if (!digits)
            return "a number is missing in brackets";
        if (*at < end && **at == '-' && !which) {
            which = 1;
            digits = 0;
            continue;
        }
        break;
    }
    if (*at < end && **at != ',')
        return "an unexpected character in brackets";
    *at += *at < end;
    *first = bound[0];
    *last = which ? bound[1] : bound[0];
    return *first > *last ? "a range that goes down" : NULL;
}

static const char *expand(struct expansion *x, size_t used, int depth, const char *text, const char *end);

/* The bracket starts behind `open`; `close` is its end. */
static const char *expand_bracket(struct expansion *x, size_t used, int depth, const char *open, const char *close,
                                  const char *end)
{
    if (open == close)
        return "empty brackets";
    for (const char *at = open; at < close;) {
        unsigned long first = 0, last = 0;
        int width;
        const char *fault = next_range(&at, close, &first, &last, &width);
        if (!fault && at == close && close[-1] == ',')
            fault = "a number is missing in brackets";
        for (unsigned long number = first; !fault && number <= last; number++) {
            int n = snprintf(x->name + used, sizeof x->name - used, "%0*lu", width, number);
            if (n < 0 || (size_t)n >= sizeof x->name - used)
                return "a name is too long";
            fault = expand(x, used + (size_t)n, depth + 1, close + 1, end);
        }
        if (fault)
            return fault;
    }
    return NULL;
}

/* Expands text..end, one element of the list, behind the `used` bytes that are in x->name. */
static const char *expand(struct expansion *x, size_t used, int depth, const char *text, const char *end)
{
    while (text < end && *text != '[') {
        if (*text == ']')
            return "a ']' without '['";
        if (!isgraph((unsigned char)*text) || *text == '=')
            return "an unexpected character";
        if (used == WR_HOSTLIST_NAME_MAX)
            return "a name is too long";
        x->name[used++] = *text++;
    }
    if (text < end) {
        const char *close = memchr(text, ']', (size_t)(end - text));
        if (!close)
            return "a '[' without ']'";
        if (depth == WR_HOSTLIST_BRACKETS)
            return "too many brackets in a name";
        return expand_bracket(x, used, depth, text + 1, close, end);
    }
    if (!used)
        return "an empty name";
    if (x->count++ == WR_HOSTLIST_MAX)
        return "more than 262144 names";
    x->name[used] = '\0';
    return x->visit(x->arg, x->name, used) ? NULL : "";
}

const char *wr_hostlist_each(const char *text, size_t len, bool (*visit)(void *arg, const char *name, size_t len),
                             void *arg)
{
    struct expansion x = {.visit = visit, .arg = arg};
    const char *end = text + len, *fault = NULL;
    for (const char *at = text; !fault;) {
        bool inside = false;
        const char *stop = at;
        for (; stop < end && (inside || *stop != ','); stop++)
            inside = *stop == '[' || (inside && *stop != ']');
        fault = expand(&x, 0, 0, at, stop);
        if (stop == end)
            break;
        at = stop + 1;
    }
    return fault;
}
