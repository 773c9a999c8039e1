/* SPDX-License-Identifier: BSD-3-Clause */
/* A table of text with aligned columns. */
#ifndef WR_TOOLS_TABLE_H
#define WR_TOOLS_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/compiler.h"

enum { TABLE_COLUMNS_MAX = 16 };

struct table {
    size_t columns;
    bool right[TABLE_COLUMNS_MAX]; /* numbers: aligned to the right */
    char **cells;                  /* row by row; the first row is the header */
    size_t ncells;
    bool failed; /* out of memory */
};

/* Starts a table; `header` has the names of the columns with blanks between, a "<" before those aligned to the left. */
void table_init(struct table *table, const char *header);

/* Appends the next cell; rows fill up from the left. */
void table_cell(struct table *table, const char *fmt, ...) WR_PRINTF(2, 3);

/* The same for an index: -1 is written as "-". */
void table_index(struct table *table, int value);

/* Writes all rows, each after `indent` blanks; false when memory had run out. */
bool table_print(const struct table *table, int indent, FILE *out);
void table_free(struct table *table);

#endif
