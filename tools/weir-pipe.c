/* SPDX-License-Identifier: BSD-3-Clause */
/* weir-pipe: proves, simulates and draws pipeline schedules. */
#include "tools/weir-pipe.h"

#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"

static const char usage_text[] =
    "usage: weir-pipe SCHEDULE --stages P --microbatches M [options]\n"
    "\n"
    "Writes the instruction lists of a pipeline schedule, proves them, says how long they take and what they keep in memory, and\n"
    "draws them. SCHEDULE: gpipe, 1f1b, interleaved, looped-bfs, zb-h1, zb-h2, zb-v; or all, for a comparison.\n"
    "\n"
    "the schedule\n"
    "  --stages P          pipeline stages\n"
    "  --microbatches M    micro-batches a step\n"
    "  --chunks V          chunks of layers a stage, for interleaved and looped-bfs (default 2)\n"
    "  --limit A           activations of micro-batch chunks that a stage may hold\n"
    "  --buffers B         buffers of a channel between two stages (default: as many as it takes)\n"
    "  --zero Z            ZeRO stage inside the pipeline stages, 0 (default) to 3\n"
    "  --unsharded N       chunks whose parameters may be gathered at once, with --zero 3 (default 2)\n"
    "the simulation\n"
    "  --costs F,I,W,COMM[,UNSHARD,REDUCE]\n"
    "                      of a forward, an input gradient, a weight gradient, a message, a gather, a reduction, in any unit\n"
    "                      of time (default 1,1,1,0,0,0)\n"
    "what to show\n"
    "  --print             the lists themselves\n"
    "  --svg FILE          a Gantt chart\n"
    "  --json              one JSON object instead of text\n"
    "  --list              the schedules\n"
    "  --help, --version\n"
    "\n"
    "Try: weir-pipe zb-v --stages 4 --microbatches 8 --svg zb-v.svg\n";

static const char advice_help[] = "'weir-pipe --help' lists the options";

static int usage_error(const weir_error *err)
{
    char line[1200];
    fprintf(stderr, "weir-pipe: %s\n", wr_error_line(err, line, sizeof line));
    return 2;
}

static weir_status parse_count(const char *name, const char *text, int64_t least, int64_t *value, weir_error *err)
{
    if (!wr_parse_int(text, value) || *value < least)
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "--%s %s is not a number from %lld on", name, text, (long long)least);
    return WEIR_OK;
}

static weir_status parse_costs(const char *text, weir_pipe_costs *costs, weir_error *err)
{
    double *const fields[] = {&costs->f, &costs->i, &costs->w, &costs->comm, &costs->unshard, &costs->reduce};
    const char *at = text;
    size_t n = 0;
    for (; n < WR_ARRAY_SIZE(fields); n++) {
        char *end;
        double value = strtod(at, &end);
        if (end == at || (*end && *end != ',') || !isfinite(value) || value < 0)
            return wr_error_set(err, WEIR_ERR_INVALID, "write for example 1,1,1,0.2", "--costs %s has '%s' where a number is expected",
                                text, at);
        *fields[n] = value;
        at = end;
        if (!*at++)
            break;
    }
    if (n < 3 || n >= WR_ARRAY_SIZE(fields))
        return wr_error_set(err, WEIR_ERR_INVALID, "they are F,I,W,COMM and, if wanted, UNSHARD,REDUCE",
                            "--costs %s has too %s numbers", text, n < 3 ? "few" : "many");
    return WEIR_OK;
}

enum { STAGES = 256, MICROBATCHES, CHUNKS, LIMIT, BUFFERS, ZERO, UNSHARDED, COSTS, PRINT, SVG, JSON, LIST };

/* One option; *code is set to an exit code when there is nothing more to do. */
static weir_status parse_option(int c, const char *arg, struct pipe_options *o, int *code, weir_error *err)
{
    switch (c) {
    case STAGES: return parse_count("stages", arg, 1, &o->make.stages, err);
    case MICROBATCHES: return parse_count("microbatches", arg, 1, &o->make.microbatches, err);
    case CHUNKS: return parse_count("chunks", arg, 1, &o->make.chunks, err);
    case LIMIT: return parse_count("limit", arg, 1, &o->make.max_activations, err);
    case BUFFERS: return parse_count("buffers", arg, 1, &o->make.buffers, err);
    case ZERO: return parse_count("zero", arg, 0, &o->make.zero, err);
    case UNSHARDED: return parse_count("unsharded", arg, 1, &o->make.max_unsharded, err);
    case COSTS: return parse_costs(arg, &o->costs, err);
    case PRINT: o->print = true; break;
    case SVG: o->svg = arg; break;
    case JSON: o->json = true; break;
    case LIST:
        pipe_print_list(stdout);
        *code = 0;
        break;
    case 'V':
        printf("weir-pipe %s\n", weir_version());
        *code = 0;
        break;
    case 'h':
        fputs(usage_text, stdout);
        *code = 0;
        break;
    default:
        fprintf(stderr, "weir-pipe: %s\n", advice_help);
        *code = 2;
    }
    return WEIR_OK;
}

/* Returns -1 to go on, or the exit code. */
static int parse_options(struct pipe_options *o, int argc, char **argv)
{
    static const struct option options[] = {
        {"stages", required_argument, NULL, STAGES},     {"microbatches", required_argument, NULL, MICROBATCHES},
        {"chunks", required_argument, NULL, CHUNKS},     {"limit", required_argument, NULL, LIMIT},
        {"buffers", required_argument, NULL, BUFFERS},   {"zero", required_argument, NULL, ZERO},
        {"unsharded", required_argument, NULL, UNSHARDED}, {"costs", required_argument, NULL, COSTS},
        {"print", no_argument, NULL, PRINT},             {"svg", required_argument, NULL, SVG},
        {"json", no_argument, NULL, JSON},               {"list", no_argument, NULL, LIST},
        {"help", no_argument, NULL, 'h'},                {"version", no_argument, NULL, 'V'},
        {NULL, 0, NULL, 0},
    };
    weir_error err;
    int c, code = -1;
    wr_error_clear(&err);
    while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        if (parse_option(c, optarg, o, &code, &err) != WEIR_OK)
            return usage_error(&err);
        if (code >= 0)
            return code;
    }
    if (optind + 1 != argc)
        wr_error_set(&err, WEIR_ERR_INVALID, advice_help, optind < argc ? "'%s' is one schedule too many" : "which schedule?%s",
                     optind < argc ? argv[optind + 1] : "");
    else if (!strcmp(argv[optind], "all"))
        o->all = true;
    else
        weir_pipe_schedule_find(argv[optind], &o->make.schedule, &err);
    if (!err.status && (!o->make.stages || !o->make.microbatches))
        wr_error_set(&err, WEIR_ERR_INVALID, advice_help, "--stages and --microbatches are needed");
    if (!err.status && o->all && (o->svg || o->print || o->json))
        wr_error_set(&err, WEIR_ERR_INVALID, "name one schedule", "--print, --svg and --json show one schedule, not all");
    return err.status ? usage_error(&err) : -1;
}

/* Makes, proves and simulates one schedule. */
static weir_status work(const struct pipe_options *o, struct pipe_outcome *out)
{
    out->lists.size = sizeof out->lists;
    out->report.size = sizeof out->report;
    out->result.size = sizeof out->result;
    weir_status status = weir_pipe_create(&o->make, &out->pipe, &out->error);
    if (status != WEIR_OK)
        return status;
    weir_pipe_get_lists(out->pipe, &out->lists);
    out->stages = calloc((size_t)out->lists.stages, sizeof *out->stages);
    if (!out->stages)
        return wr_error_memory(&out->error, (size_t)out->lists.stages * sizeof *out->stages, "a report");
    status = weir_pipe_check(&out->lists, &out->report, out->stages, &out->error);
    return status == WEIR_OK ? weir_pipe_simulate(&out->lists, &o->costs, NULL, NULL, &out->result, &out->error) : status;
}

static void outcome_free(struct pipe_outcome *out)
{
    weir_pipe_destroy(out->pipe);
    free(out->stages);
}

static int show_one(const struct pipe_options *o)
{
    struct pipe_outcome out = {0};
    bool ok = true;
    weir_status status = work(o, &out);
    if (status == WEIR_OK) {
        if (o->json)
            pipe_print_json(o, &out, stdout);
        else
            ok = pipe_print(o, &out, stdout);
        if (o->svg)
            status = pipe_draw(o, &out, o->svg, &out.error);
        ok = ok && status == WEIR_OK;
    }
    int code = status == WEIR_OK ? (ok ? 0 : 1) : usage_error(&out.error);
    outcome_free(&out);
    return status == WEIR_ERR_IO || status == WEIR_ERR_NO_MEMORY || status == WEIR_ERR_UNSUPPORTED ? 1 : code;
}

static int show_all(struct pipe_options *o)
{
    struct pipe_outcome out[16] = {0};
    int n = 0;
    int64_t chunks = o->make.chunks;
    for (; n < (int)WR_ARRAY_SIZE(out) && weir_pipe_schedule_name(n); n++) {
        o->make.schedule = n;
        bool takes = n == WEIR_PIPE_INTERLEAVED || n == WEIR_PIPE_LOOPED_BFS;
        o->make.chunks = takes ? chunks : 0;
        work(o, &out[n]);
    }
    bool ok = pipe_print_all(o, out, stdout);
    for (int i = 0; i < n; i++)
        outcome_free(&out[i]);
    return ok ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct pipe_options options = {.make = WEIR_PIPE_OPTIONS_INIT, .costs = WEIR_PIPE_COSTS_INIT};
    options.make.stages = options.make.microbatches = 0;
    int code = parse_options(&options, argc, argv);
    if (code >= 0)
        return code;
    code = options.all ? show_all(&options) : show_one(&options);
    if (fflush(stdout) || ferror(stdout)) {
        fputs("weir-pipe: the standard output could not be written\n", stderr);
        code = code ? code : 1;
    }
    return code;
}
