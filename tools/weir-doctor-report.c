/* SPDX-License-Identifier: BSD-3-Clause */
/* Printing what was found. */
#include <string.h>

#include "base/error.h"
#include "tools/weir-doctor.h"

#ifdef HAVE_JANSSON
#include <jansson.h>
#endif

enum { WIDTH = 110, INDENT = 31 };

static const char *const words[] = {"ok", "note", "WARNING", "PROBLEM"};

/* Writes text into the column that starts at `INDENT`, breaking lines between words; `used` columns are taken already. */
static void put_wrapped(FILE *out, size_t used, const char *text)
{
    while (*text) {
        size_t len = strcspn(text, " ");
        if (used > INDENT && used + 1 + len > WIDTH) {
            fprintf(out, "\n%*s", INDENT, "");
            used = INDENT;
        } else if (used > INDENT) {
            fputc(' ', out);
            used++;
        }
        fprintf(out, "%.*s", (int)len, text);
        used += len;
        text += len;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

void doctor_print(const struct doctor *d, FILE *out)
{
    fprintf(out, "weir-doctor %s\n\n", weir_version());
    for (size_t i = 0; i < d->n; i++) {
        const struct finding *f = &d->list[i];
        char text[sizeof f->text + sizeof f->where + 8];
        bool again = i && !strcmp(f->subject, d->list[i - 1].subject);
        snprintf(text, sizeof text, "%s%s%s", f->where, *f->where ? ": " : "", f->text);
        fprintf(out, "  %-8s %-*s", words[f->level], INDENT - 11, again ? "" : f->subject);
        put_wrapped(out, INDENT, text);
        if (*f->fix) {
            fprintf(out, "%*s", INDENT, "fix: ");
            put_wrapped(out, INDENT, f->fix);
        }
    }
    size_t problems = doctor_count(d, LEVEL_PROBLEM), warnings = doctor_count(d, LEVEL_WARNING);
    fprintf(out, "\n%zu ok, %zu note%s, %zu warning%s, %zu problem%s\n", doctor_count(d, LEVEL_OK), doctor_count(d, LEVEL_NOTE),
            doctor_count(d, LEVEL_NOTE) == 1 ? "" : "s", warnings, warnings == 1 ? "" : "s", problems, problems == 1 ? "" : "s");
}

#ifdef HAVE_JANSSON
static json_t *text_or_null(const char *text)
{
    return *text ? json_string(text) : json_null();
}

static json_t *finding_json(const struct finding *f)
{
    static const char *const levels[] = {"ok", "note", "warning", "problem"};
    static const char *const scopes[] = {"job", "node", "rank"};
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:o}", "level", levels[f->level], "subject", f->subject, "scope",
                     scopes[f->scope], "text", f->text, "fix", text_or_null(f->fix), "where", text_or_null(f->where));
}

weir_status doctor_print_json(const struct doctor *d, FILE *out, weir_error *err)
{
    json_t *findings = json_array();
    for (size_t i = 0; i < d->n; i++)
        json_array_append_new(findings, finding_json(&d->list[i]));
    json_t *object = json_pack("{s:s, s:i, s:i, s:i, s:i, s:o}", "weir", weir_version(), "ranks", d->size, "problems",
                               (int)doctor_count(d, LEVEL_PROBLEM), "warnings", (int)doctor_count(d, LEVEL_WARNING), "notes",
                               (int)doctor_count(d, LEVEL_NOTE), "findings", findings);
    bool ok = object && !json_dumpf(object, out, JSON_INDENT(2)) && fputc('\n', out) != EOF;
    json_decref(object);
    return ok ? WEIR_OK : wr_error_set(err, WEIR_ERR_IO, "see whether the disk is full or memory short",
                                       "the JSON object could not be made or written");
}
#else
weir_status doctor_print_json(const struct doctor *d WR_UNUSED, FILE *out WR_UNUSED, weir_error *err)
{
    return wr_error_set(err, WEIR_ERR_UNSUPPORTED, "install jansson's development package and build weir again",
                        "JSON output is not supported: weir was built without jansson");
}
#endif
