/* SPDX-License-Identifier: BSD-3-Clause */
/* weir-info --ranks: a head with the facts of the job, one line a rank, and remarks on what is unusual. */
#include <stdlib.h>
#include <string.h>

#include "tools/placement.h"
#include "tools/table.h"
#include "tools/weir-info.h"

const char *info_distance(int distance)
{
    static const char *const words[] = {"same numa", "same package", "same host"};
    return distance >= 0 && distance <= 2 ? words[distance] : "unknown";
}

static void print_levels(const weir_topo *topo, FILE *out)
{
    fputs("levels: ", out);
    for (int i = 0; i < weir_topo_nlevels(topo); i++) {
        weir_level level = {.size = sizeof level};
        if (weir_topo_level(topo, i, &level))
            continue;
        fprintf(out, "%s%s ", i ? " < " : "", weir_level_kind_name(level.kind));
        if (level.ngroups == 1)
            fprintf(out, "(%d rank%s)", level.max_ranks, level.max_ranks == 1 ? "" : "s");
        else if (level.min_ranks == level.max_ranks)
            fprintf(out, "(%d groups of %d rank%s)", level.ngroups, level.max_ranks, level.max_ranks == 1 ? "" : "s");
        else
            fprintf(out, "(%d groups of %d to %d ranks)", level.ngroups, level.min_ranks, level.max_ranks);
    }
    fputc('\n', out);
}

static void add_rank(struct table *table, const weir_topo *topo, int rank)
{
    weir_rank_info info = {.size = sizeof info};
    weir_device nic = {.size = sizeof nic};
    if (weir_topo_rank_info(topo, rank, &info))
        return;
    int choice = weir_topo_nic_choice(topo, rank);
    bool has_nic = choice >= 0 && !weir_topo_nic(topo, info.node, choice, &nic);
    table_index(table, rank);
    table_index(table, info.node);
    table_index(table, info.local_rank);
    table_cell(table, "%s", info.host);
    table_cell(table, "%lld", (long long)info.pid);
    table_index(table, info.package);
    table_index(table, info.numa);
    table_index(table, info.cache);
    table_index(table, info.core);
    table_cell(table, "%s", *info.cpuset ? info.cpuset : "-");
    table_cell(table, "%s", has_nic ? nic.name : "none");
    table_cell(table, "%s", has_nic ? info_distance(weir_topo_nic_distance(topo, rank, choice)) : "-");
}

/* What a reader of the table should know about it. */
static void print_remarks(const struct info *info, FILE *out)
{
    const weir_topo *topo = info->topo;
    struct placement placement;
    if (placement_of(topo, &placement)) {
        if (placement.crowded_ranks > placement.crowded_cpus)
            fprintf(out, "\n%d ranks share the %d cpu%s of host %s: right for a trial, too many for a measurement.\n",
                    placement.crowded_ranks, placement.crowded_cpus, placement.crowded_cpus == 1 ? "" : "s",
                    placement.crowded_host);
        else if (placement.unbound && weir_topo_nranks(topo) > 1)
            fputs("\nThe ranks are not bound to cores; weirrun --bind core (srun --cpu-bind=cores) does it.\n", out);
        if (placement.same_core[1] >= 0)
            fprintf(out, "\nRanks %d and %d are bound to the same core.\n", placement.same_core[0], placement.same_core[1]);
    }
    if (info->config_ok && info->config.nodes > 0)
        fprintf(out, "\nThe nodes are virtual (WEIR_NODES=%lld, WEIR_PLACEMENT=%s): ranks of different ones behave as if on "
                     "different hosts.\n",
                (long long)info->config.nodes, info->config.placement ? info->config.placement : "block");
    fputs("\nA '-' is unknown, or the rank may run on several of them. Numbers of package, numa, cache and core are hwloc's "
          "logical ones.\n", out);
}

bool info_print_ranks(const struct info *info, FILE *out)
{
    char line[320];
    struct table table;
    fprintf(out, "weir %s: %s\n", weir_version(), info_job_line(info, line, sizeof line));
    print_levels(info->topo, out);
    fputc('\n', out);
    table_init(&table, "rank node local <host pid package numa cache core <cpus <nic <distance");
    for (int rank = 0; rank < weir_topo_nranks(info->topo); rank++)
        add_rank(&table, info->topo, rank);
    bool ok = table_print(&table, 0, out);
    table_free(&table);
    print_remarks(info, out);
    return ok;
}
