/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints the manual page weir-config(7) from the table of configuration variables. Run while weir is built. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <weir/version.h>

#include "base/config_table.h"

struct line {
    const char *kind, *name, *default_text, *allowed, *scope, *help;
};

static const struct line table[] = {
#define X(KIND, field, NAME, DEFAULT, ALLOWED, SCOPE, HELP) {#KIND, #NAME, DEFAULT, ALLOWED, #SCOPE, HELP},
    WR_CONFIG_TABLE(X)
#undef X
};

/* Text that roff must not take for its own: control characters at the start of a line, backslashes, minus signs. */
static void put(const char *text)
{
    for (const char *p = text; *p; p++) {
        if (*p == '\\')
            fputs("\\e", stdout);
        else if (*p == '-')
            fputs("\\-", stdout);
        else if (p == text && (*p == '.' || *p == '\''))
            printf("\\&%c", *p);
        else
            putchar(*p);
    }
}

static const char *kind_text(const char *kind)
{
    static const char *const texts[][2] = {
        {"BOOL", "yes or no"},
        {"INT", "a whole number"},
        {"BYTES", "bytes, with K, M, G (powers of 1024) or \"inf\""},
        {"TIME", "a time with us, ms, s, m, h or \"inf\"; a bare number is seconds"},
        {"ENUM", "one word"},
        {"TEXT", "text"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (!strcmp(texts[i][0], kind))
            return texts[i][1];
    return kind;
}

static void put_variables(const char *scope)
{
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const struct line *l = &table[i];
        if (strcmp(l->scope, scope))
            continue;
        printf(".TP\n.B WEIR_%s\n", l->name);
        put(l->help);
        puts(".\n.br");
        put("Value: ");
        put(kind_text(l->kind));
        if (*l->allowed) {
            fputs(", ", stdout);
            put(l->allowed);
        }
        fputs(". Default: ", stdout);
        if (*l->default_text) {
            fputs("\\fB", stdout);
            put(l->default_text);
            fputs("\\fP", stdout);
        } else {
            fputs("none", stdout);
        }
        puts(".");
    }
}

int main(void)
{
    puts(".\\\" Made from base/config_table.h.");
    printf(".TH WEIR\\-CONFIG 7 \"\" \"weir %d.%d.%d\" \"weir\"\n", WEIR_VERSION_MAJOR, WEIR_VERSION_MINOR,
           WEIR_VERSION_PATCH);
    puts(".SH NAME\nweir\\-config \\- configuration variables of weir");
    puts(".SH DESCRIPTION\n"
         "weir is configured by environment variables whose names start with\n.BR WEIR_ ,\n"
         "or by the field\n.I config\nof the options of\n.BR weir_init (),\n"
         "which takes the same names and wins over the environment. A variable that is set but empty counts as unset.\n"
         "A value that is not allowed is an error that names the variable, the value and what may be written.\n"
         "A variable that starts with\n.B WEIR_\nand is not in this list is warned about, with the nearest name that is.\n.PP\n"
         ".B weir\\-info \\-\\-config\nshows all variables with their current values.");
    puts(".SH VARIABLES");
    put_variables("USER");
    puts(".SH VARIABLES SET BY WEIRRUN\nThese are handed to the processes of a job by\n.BR weirrun (1)\n"
         "and are not meant to be set by hand.");
    put_variables("JOB");
    puts(".SH SEE ALSO\n.BR weir (7),\n.BR weir\\-info (1),\n.BR weir\\-doctor (1),\n.BR weirrun (1)");
    return fflush(stdout) ? 1 : 0;
}
