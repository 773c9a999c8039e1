/* SPDX-License-Identifier: BSD-3-Clause */
/* What an agent is told to start on its host: made by weirrun, sent in a START frame, parsed by the agent. */
#ifndef WEIRRUN_ORDER_H
#define WEIRRUN_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/status.h>

#include "base/str.h"

enum wr_bind { WR_BIND_AUTO, WR_BIND_CORE, WR_BIND_NUMA, WR_BIND_NONE };

/* What is pointed to belongs to who made the order; the strings of a parsed one to the frame. */
struct wr_order {
    int64_t size;         /* ranks of the whole job */
    int64_t count;        /* ranks of this host */
    int64_t node;         /* number of this host */
    int64_t bind;         /* enum wr_bind */
    int64_t tag_output;   /* each line starts with "[rank] " */
    int64_t whole_lines;  /* output is passed on in whole lines */
    int64_t grace_ns;     /* between the ending signal and SIGKILL */
    const int64_t *rank;  /* their numbers, ascending */
    const char *directory;
    size_t nenv, nargs;
    const char **env;  /* "NAME=value", to be added to the agent's own environment */
    const char **args; /* NULL-terminated, args[0] is the program */
};

/* Appends the order as text; test buf->failed afterwards. */
void wr_order_pack(const struct wr_order *order, struct wr_buf *buf);

/* Parses data of `len` bytes, which must stay; WEIR_ERR_PROTOCOL, WEIR_ERR_NO_MEMORY. Free with
 * wr_order_free(). */
weir_status wr_order_unpack(struct wr_order *order, const char *data, size_t len, weir_error *err);
void wr_order_free(struct wr_order *order);

#endif
