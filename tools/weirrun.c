/* SPDX-License-Identifier: BSD-3-Clause */
/* weirrun: starts a program as a weir job of several ranks, on this host or on several. See weirrun(1). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/version.h>

#include "base/config.h"
#include "base/error.h"
#include "base/log.h"
#include "tools/weirrun_agent.h"
#include "tools/weirrun_launcher.h"
#include "topo/topo.h"

/* One sentence to the standard error. */
static int complain(const weir_error *err)
{
    char line[1200];
    fprintf(stderr, "weirrun: %s\n", wr_error_line(err, line, sizeof line));
    return err->status == WEIR_ERR_INVALID || err->status == WEIR_ERR_CONFIG ? WR_EXIT_USAGE : 1;
}

/* Finds out now what every rank would complain about. */
static weir_status check_placement(const struct wr_config *config, const struct wr_run_options *o, weir_error *err)
{
    if (config->nodes == 0)
        return o->placement && !o->places_on_hosts
                   ? wr_error_set(err, WEIR_ERR_INVALID, "give the number of nodes with --nodes, or hosts with --host",
                                  "--placement %s needs --nodes or several hosts", o->placement)
                   : WEIR_OK;
    int *node_of = calloc((size_t)o->size, sizeof *node_of);
    if (!node_of)
        return wr_error_memory(err, (size_t)o->size * sizeof *node_of, "the placement");
    weir_status status = wr_placement_nodes(config->nodes, config->placement, (int)o->size, node_of, err);
    free(node_of);
    return status;
}

/* The configuration as the ranks will see it: environment, then options. */
static weir_status load_config(const struct wr_run_options *o, struct wr_config *config, weir_error *err)
{
    struct wr_buf nodes = {0}, placement = {0};
    const char *overrides[3] = {NULL, NULL, NULL};
    int n = 0;
    wr_buf_printf(&nodes, "NODES=%s", o->nodes ? o->nodes : "");
    wr_buf_printf(&placement, "PLACEMENT=%s", o->placement ? o->placement : "");
    weir_status status = nodes.failed || placement.failed ? wr_error_memory(err, 64, "the configuration") : WEIR_OK;
    if (o->nodes)
        overrides[n++] = nodes.data;
    if (o->placement)
        overrides[n++] = placement.data;
    if (!status)
        status = wr_config_load(config, NULL, overrides, err);
    wr_buf_free(&nodes);
    wr_buf_free(&placement);
    return status;
}

static weir_status run(struct wr_run_options *o, const struct wr_inherited *inherited, int *exit_code, weir_error *err)
{
    struct wr_config config;
    struct wr_log log;
    weir_status status = load_config(o, &config, err);
    if (status)
        return status;
    wr_log_init(&log);
    status = wr_run_options_spread(o, config.nodes != 0, err);
    if (!status)
        status = check_placement(&config, o, err);
    if (!status && config.log)
        status = wr_log_set_levels(&log, config.log, err);
    if (!status)
        *exit_code = wr_run_job(o, inherited, &log, config.boot_timeout);
    wr_log_close(&log);
    wr_config_free(&config);
    return status;
}

int main(int argc, char **argv)
{
    struct wr_inherited inherited;
    struct wr_run_options o;
    weir_error err;
    int exit_code = 0;
    wr_inherited_take(&inherited);
    if (wr_run_options_parse(&o, argc, argv, &err))
        exit_code = complain(&err);
    else if (o.agent)
        exit_code = wr_agent_guarded_main(&inherited);
    else if (o.help)
        fputs(wr_run_help, stdout);
    else if (o.version)
        puts("weirrun " WEIR_VERSION_STRING);
    else if (run(&o, &inherited, &exit_code, &err))
        exit_code = complain(&err);
    wr_run_options_free(&o);
    return exit_code;
}
