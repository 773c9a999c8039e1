/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/table.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Takes over `text`. */
static void append(struct table *table, char *text)
{
    char **cells = text ? realloc(table->cells, (table->ncells + 1) * sizeof *cells) : NULL;
    if (!cells) {
        free(text);
        table->failed = true;
        return;
    }
    table->cells = cells;
    cells[table->ncells++] = text;
}

void table_init(struct table *table, const char *header)
{
    memset(table, 0, sizeof *table);
    while (*header && table->columns < TABLE_COLUMNS_MAX) {
        bool left = *header == '<';
        header += left;
        size_t len = strcspn(header, " ");
        table->right[table->columns++] = !left;
        append(table, strndup(header, len));
        header += len;
        header += strspn(header, " ");
    }
}

void table_cell(struct table *table, const char *fmt, ...)
{
    char *text = NULL;
    va_list ap;
    va_start(ap, fmt);
    int len = vasprintf(&text, fmt, ap);
    va_end(ap);
    append(table, len < 0 ? NULL : text);
}

void table_index(struct table *table, int value)
{
    if (value < 0)
        table_cell(table, "-");
    else
        table_cell(table, "%d", value);
}

bool table_print(const struct table *table, int indent, FILE *out)
{
    size_t width[TABLE_COLUMNS_MAX] = {0};
    for (size_t i = 0; i < table->ncells; i++)
        width[i % table->columns] = WR_MAX(width[i % table->columns], strlen(table->cells[i]));
    for (size_t row = 0; row + table->columns <= table->ncells; row += table->columns) {
        char *const *cells = table->cells + row;
        size_t n = table->columns;
        while (n > 1 && !*cells[n - 1]) /* no blanks at the end of a line */
            n--;
        for (size_t i = 0; i < n; i++) {
            int pad = (int)(width[i] - strlen(cells[i]));
            fprintf(out, "%*s%*s%s%*s", i ? 2 : indent, "", table->right[i] ? pad : 0, "", cells[i],
                    table->right[i] || i + 1 == n ? 0 : pad, "");
        }
        fputc('\n', out);
    }
    return !table->failed;
}

void table_free(struct table *table)
{
    for (size_t i = 0; i < table->ncells; i++)
        free(table->cells[i]);
    free(table->cells);
    memset(table, 0, sizeof *table);
}
