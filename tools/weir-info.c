/* SPDX-License-Identifier: BSD-3-Clause */
/* weir-info: what this weir is, how it is configured, and where the ranks of a job sit. */
#include "tools/weir-info.h"

#include <getopt.h>
#include <string.h>

#include "base/error.h"
#include "tools/launcher.h"

static const char usage_text[] =
    "usage: weir-info [--ranks | --topo | --config | --transports | --build | --launcher]... [--json]\n"
    "\n"
    "Shows what this weir is and what it sees; started as several ranks, rank 0 speaks for all.\n"
    "Without an option: everything.\n"
    "\n"
    "  --ranks       one line a rank: where it sits and which network interface it uses\n"
    "  --topo        the topology as a tree\n"
    "  --config      every configuration variable with its value, its default and what it means\n"
    "  --transports  libfabric providers and UCX transports of this host, and which of them open\n"
    "  --build       version, compiler, libraries\n"
    "  --launcher    what started the ranks\n"
    "  --json        the same as one JSON object\n"
    "  --help        this text\n"
    "  --version     the version\n"
    "\n"
    "Try: weirrun -n 4 --nodes 2 weir-info --ranks\n";

/* Returns -1 to go on, or the exit code. */
static int parse_options(struct info *info, int argc, char **argv)
{
    static const struct option options[] = {
        {"ranks", no_argument, NULL, INFO_RANKS},       {"topo", no_argument, NULL, INFO_TOPO},
        {"config", no_argument, NULL, INFO_CONFIG},     {"transports", no_argument, NULL, INFO_TRANSPORTS},
        {"build", no_argument, NULL, INFO_BUILD},       {"launcher", no_argument, NULL, INFO_LAUNCHER},
        {"json", no_argument, NULL, 'j'},               {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},            {NULL, 0, NULL, 0},
    };
    int c;
    while ((c = getopt_long(argc, argv, "hV", options, NULL)) != -1) {
        switch (c) {
        case 'j':
            info->json = true;
            break;
        case 'h':
            fputs(usage_text, stdout);
            return 0;
        case 'V':
            printf("weir-info %s\n", weir_version());
            return 0;
        case '?':
            fputs("weir-info: 'weir-info --help' lists the options\n", stderr);
            return 2;
        default:
            info->sections |= (unsigned)c;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "weir-info: unexpected argument '%s'; 'weir-info --help' lists the options\n", argv[optind]);
        return 2;
    }
    info->all = info->sections == 0;
    if (info->all)
        info->sections = INFO_BUILD | INFO_LAUNCHER | INFO_CONFIG | INFO_TOPO | INFO_TRANSPORTS |
                         (info->json ? INFO_RANKS : 0);
    return -1;
}

static void title(const struct info *info, const char *text)
{
    static const char line[] = "------------------------------------------------------------------------------";
    if (info->all)
        printf("\n-- %s %.*s\n", text, (int)(sizeof line - 5 - strlen(text)), line);
}

static void print_error(const weir_error *error)
{
    char line[1200];
    fflush(stdout);
    fprintf(stderr, "weir-info: %s\n", wr_error_line(error, line, sizeof line));
}

/* Prints the sections; false when something could not be had. */
static bool print_sections(const struct info *info)
{
    bool ok = true, topo_missing = false;
    if (info->sections & INFO_BUILD) {
        printf("weir %s\n", weir_version());
        title(info, "build");
        info_print_build(stdout);
    }
    if (info->sections & INFO_LAUNCHER) {
        title(info, "launcher");
        if (info->ctx)
            info_print_launcher(info, stdout);
        else
            topo_missing = true;
    }
    if (info->sections & INFO_CONFIG) {
        title(info, "configuration");
        info_print_config(info, stdout);
        if (!info->config_ok) {
            print_error(&info->config_error);
            ok = false;
        }
    }
    if (info->sections & INFO_TOPO) {
        title(info, "topology");
        if (info->topo)
            ok &= weir_topo_write_tree(info->topo, stdout) == WEIR_OK;
        else
            topo_missing = true;
    }
    if (info->sections & INFO_RANKS) {
        title(info, "ranks");
        if (info->topo)
            ok &= info_print_ranks(info, stdout);
        else
            topo_missing = true;
    }
    if (info->sections & INFO_TRANSPORTS) {
        title(info, "transports");
        ok &= info_print_transports(info, stdout);
    }
    /* the same sentence once, also when the configuration was the reason and has been shown */
    if (topo_missing && (info->config_ok || !(info->sections & INFO_CONFIG)))
        print_error(&info->error);
    return ok && !topo_missing;
}

static bool print_all(const struct info *info)
{
    if (!info->json)
        return print_sections(info);
    weir_error error;
    wr_error_clear(&error);
    if (info_print_json(info, stdout, &error)) {
        print_error(&error);
        return false;
    }
    bool needs_ctx = info->sections & (INFO_TOPO | INFO_RANKS | INFO_LAUNCHER);
    if ((!info->ctx || !info->topo) && needs_ctx)
        print_error(&info->error);
    return info->config_ok && (!needs_ctx || info->topo);
}

/* Joins the job and gathers what the sections need. */
static void gather(struct info *info)
{
    weir_init_options options = WEIR_INIT_OPTIONS_INIT;
    wr_error_clear(&info->error);
    wr_error_clear(&info->config_error);
    options.error = &info->error;
    options.config = launcher_quiet_config();
    info->config_ok = wr_config_load(&info->config, NULL, NULL, &info->config_error) == WEIR_OK;
    if (!info->config_ok)
        info->error = info->config_error;
    else if (weir_init(&options, &info->ctx))
        info->ctx = NULL;
    info->speaks = info->ctx ? weir_rank(info->ctx) == 0 : launcher_reports(&info->error);
    if (!info->speaks)
        return;
    if (info->ctx && (info->sections & (INFO_TOPO | INFO_RANKS | INFO_LAUNCHER)) &&
        weir_ctx_topo(info->ctx, &info->topo)) {
        info->topo = NULL;
        info->error = *weir_last_error(info->ctx);
    }
    if (info->sections & INFO_TRANSPORTS)
        fabrics_find(&info->fabrics);
}

int main(int argc, char **argv)
{
    struct info info;
    memset(&info, 0, sizeof info);
    if (argc == 3 && !strcmp(argv[1], "--probe")) { /* started by fabrics_find(), never by people */
        int rc = fabrics_probe(argv[2]);
        return rc < 0 ? 2 : rc;
    }
    int code = parse_options(&info, argc, argv);
    if (code >= 0)
        return code;
    gather(&info);
    bool ok = info.ctx != NULL;
    if (info.speaks)
        ok = print_all(&info);
    if (fflush(stdout) || ferror(stdout)) {
        fprintf(stderr, "weir-info: the standard output could not be written\n");
        ok = false;
    }
    /* Printed above as far as it matters; a farewell that fails must not turn a good answer into a failure. */
    weir_finalize(info.ctx);
    fabrics_free(&info.fabrics);
    if (info.config_ok)
        wr_config_free(&info.config);
    return ok ? 0 : 1;
}
