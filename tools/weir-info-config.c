/* SPDX-License-Identifier: BSD-3-Clause */
/* The configuration variables, and the launcher. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "tools/launcher.h"
#include "tools/table.h"
#include "tools/weir-info.h"

static const char *kind_name(enum wr_config_kind kind)
{
    static const char *const names[] = {"bool", "int", "bytes", "time", "enum", "text"};
    return names[kind];
}

static void print_unknown(void *arg, const char *name, const char *nearest)
{
    fprintf(arg, "\n%s is set, but there is no such variable%s%s%s\n", name, nearest ? "; did you mean " : "",
            nearest ? nearest : "", nearest ? "?" : "");
}

/* What the environment says, whether it is valid or not; NULL when the default holds. */
static const char *from_environment(const struct wr_config_entry *entry)
{
    const char *text = wr_env_get(NULL, entry->name);
    return text && *text ? text : NULL;
}

static void print_changed(const struct info *info, FILE *out)
{
    size_t n, changed = 0;
    const struct wr_config_entry *entries = wr_config_entries(&n);
    for (size_t i = 0; i < n; i++) {
        char value[256];
        const char *text = from_environment(&entries[i]);
        if (!text)
            continue;
        changed++;
        fprintf(out, "  %s=%s\n", entries[i].name,
                info->config_ok ? wr_config_format(&info->config, &entries[i], value, sizeof value)
                : strstr(entries[i].name, "SECRET") ? "(set)" : text);
    }
    fprintf(out, "  %s default; weir-info --config lists all variables\n",
            changed ? "all others have their" : "every variable has its");
}

void info_print_config(const struct info *info, FILE *out)
{
    size_t n;
    const struct wr_config_entry *entries = wr_config_entries(&n);
    if (info->all) {
        print_changed(info, out);
        wr_config_unknown(NULL, print_unknown, out);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const struct wr_config_entry *e = &entries[i];
        char value[512];
        const char *text = from_environment(e);
        if (info->config_ok)
            wr_config_format(&info->config, e, value, sizeof value);
        else
            snprintf(value, sizeof value, "%s", !text ? e->default_text : strstr(e->name, "SECRET") ? "(set)" : text);
        fprintf(out, "%s%s=%s\n", i ? "\n" : "", e->name, value);
        fprintf(out, "    %s%s\n", e->help, e->scope == WR_CONFIG_JOB ? " (set by weirrun)" : "");
        fprintf(out, "    %s, default %s%s%s%s\n", kind_name(e->kind), *e->default_text ? e->default_text : "none",
                *e->allowed ? ", allowed " : "", e->allowed, text ? ", set in the environment" : "");
    }
    wr_config_unknown(NULL, print_unknown, out);
}

const char *info_job_line(const struct info *info, char *buf, size_t size)
{
    char launcher[160];
    int ranks = weir_size(info->ctx), nodes = weir_topo_nnodes(info->topo);
    int64_t virtual_nodes = info->config_ok ? info->config.nodes : 0;
    snprintf(buf, size, "%d rank%s on %d %snode%s, %s", ranks, ranks == 1 ? "" : "s", nodes,
             virtual_nodes > 0 ? "virtual " : "", nodes == 1 ? "" : "s",
             launcher_describe(weir_boot_name(info->ctx), launcher, sizeof launcher));
    return buf;
}

void info_print_launcher(const struct info *info, FILE *out)
{
    char line[320];
    if (info->topo)
        fprintf(out, "  %s\n", info_job_line(info, line, sizeof line));
    else
        fprintf(out, "  %s\n", launcher_describe(weir_boot_name(info->ctx), line, sizeof line));
    fprintf(out, "  bootstrap: %s\n", weir_boot_name(info->ctx));
}

bool info_print_transports(const struct info *info, FILE *out)
{
    struct table table;
    table_init(&table, "<library <name <endpoints <opens <devices <remark");
    for (size_t i = 0; i < info->fabrics.n; i++) {
        const struct fabric *f = &info->fabrics.list[i];
        table_cell(&table, "%s", f->library);
        table_cell(&table, "%s", f->name);
        table_cell(&table, "%s", *f->kind ? f->kind : "-");
        table_cell(&table, "%s", !f->opens ? "no" : *f->why ? "partly" : "yes");
        table_cell(&table, "%s", *f->devices ? f->devices : "-");
        table_cell(&table, "%s", f->why);
    }
    bool ok = table_print(&table, info->all ? 2 : 0, out);
    table_free(&table);
    for (int i = 0; i < 2; i++)
        if (*info->fabrics.failure[i]) {
            fprintf(out, "%s\n", info->fabrics.failure[i]);
            ok = false;
        }
    return ok;
}
