/* SPDX-License-Identifier: BSD-3-Clause */
/* weir-plan: proves, simulates and draws the plan of any collective for any machine. */
#include "tools/weir-plan.h"

#include <getopt.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "comm/plan/tuning.h"

static const char usage_text[] =
    "usage: weir-plan COLL --nodes N --ppn P[,P...] --bytes S [options]\n"
    "\n"
    "Builds the plans of a collective for an imagined machine, proves that they are right, simulates how long they take,\n"
    "and draws who sends what when. COLL: barrier, bcast, reduce, allreduce, reduce_scatter, allgather, gather, scatter,\n"
    "alltoall, scan, exscan.\n"
    "\n"
    "the machine\n"
    "  --nodes N           nodes\n"
    "  --ppn P[,P...]      ranks a node; a list is repeated\n"
    "  --levels SPEC       switches above the nodes, outermost first: 'group:2 switch:4'\n"
    "  --placement HOW     block, cyclic, random:SEED\n"
    "  --tuning FILE       costs of the simulation as weir-tune has measured them\n"
    "  --cost KEY=VALUE,.. costs one by one; '--cost list' shows the keys\n"
    "the call\n"
    "  --bytes S           the whole vector, 4M for example; for alltoall the buffer of one rank\n"
    "  --type T            int8 .. int64, uint8 .. uint64, fp16, bf16, fp32 (default), fp64\n"
    "  --root R            of rooted collectives\n"
    "  --in-place          input and result in one buffer\n"
    "  --mapped            buffers that the ranks of a node can load and store\n"
    "the plan\n"
    "  --algo A            one algorithm; all (default)\n"
    "  --chunk BYTES       that move through the levels at a time\n"
    "  --rails Q           ranks a node that use the network at once\n"
    "what to do (default: --verify up to 4096 ranks, --simulate)\n"
    "  --verify            prove it: contents, order, no deadlock; bytes by node against the bound; of more than 4096 ranks\n"
    "                      by symmetry, one rank of each class, and it says of how many\n"
    "  --simulate          time, bytes by level, share of the physical limit\n"
    "  --svg FILE          a picture of the fastest\n"
    "  --trace FILE        the same for chrome://tracing or ui.perfetto.dev\n"
    "  --json              one JSON object instead of text\n"
    "  --list              the algorithms of all collectives\n"
    "  --help, --version\n"
    "\n"
    "Try: weir-plan allgather --nodes 4 --ppn 4 --bytes 16M --mapped --svg allgather.svg\n";

static int usage_error(const weir_error *err)
{
    char line[1200];
    fprintf(stderr, "weir-plan: %s\n", wr_error_line(err, line, sizeof line));
    return 2;
}

static weir_status parse_count(const char *name, const char *text, int64_t least, int64_t most, int64_t *value, weir_error *err)
{
    if (!wr_parse_int(text, value) || *value < least || *value > most)
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "--%s %s is not a number from %lld to %lld", name, text, (long long)least,
                            (long long)most);
    return WEIR_OK;
}

static weir_status parse_size(const char *name, const char *text, uint64_t *value, weir_error *err)
{
    if (!wr_parse_bytes(text, value) || *value > (uint64_t)1 << 60)
        return wr_error_set(err, WEIR_ERR_INVALID, "write for example 64K, 16M, 128GiB", "--%s %s is not a number of bytes", name, text);
    return WEIR_OK;
}

static weir_status parse_type(const char *text, weir_type *type, weir_error *err)
{
    for (int i = 0; weir_type_name((weir_type)i); i++)
        if (!strcmp(weir_type_name((weir_type)i), text)) {
            *type = (weir_type)i;
            return WEIR_OK;
        }
    return wr_error_set(err, WEIR_ERR_INVALID, "it is one of int8 .. int64, uint8 .. uint64, fp16, bf16, fp32, fp64",
                        "there is no --type %s", text);
}

static weir_status parse_cost(const char *text, struct wr_cost *cost, bool *listed, weir_error *err)
{
    *listed = !strcmp(text, "list");
    return *listed ? WEIR_OK : wr_cost_set(cost, text, err);
}

/* Costs from a tuning file. */
static weir_status read_tuning(const char *path, struct wr_cost *cost, weir_error *err)
{
    char *text = NULL;
    weir_error why;
    int failed = wr_file_read(path, WR_TUNING_MAX, 0, &text, NULL);
    if (failed)
        return wr_error_errno(err, WEIR_ERR_CONFIG, failed, "weir-tune writes one", "the tuning file %s cannot be read", path);
    weir_status status = wr_tuning_parse(text, cost, &why);
    free(text);
    return status ? wr_error_set(err, status, why.advice, "the tuning file %s is of no use: %s", path, why.message) : WEIR_OK;
}

enum { NODES = 256, PPN, LEVELS, PLACEMENT, TUNING, COST, BYTES, TYPE, ROOT, IN_PLACE, MAPPED, ALGO, CHUNK, RAILS, VERIFY, SIMULATE, SVG,
       TRACE, JSON, LIST };

/* One option; *code is set to an exit code when there is nothing more to do. */
static weir_status parse_option(int c, const char *arg, struct plan_options *o, struct wr_cost *cost, int *code, weir_error *err)
{
    bool listed = false;
    weir_status status = WEIR_OK;
    switch (c) {
    case NODES: return parse_count("nodes", arg, 1, 1 << 20, &o->nodes, err);
    case ROOT: return parse_count("root", arg, 0, 1 << 21, &o->root, err);
    case RAILS: return parse_count("rails", arg, 0, 65535, &o->rails, err);
    case BYTES: return parse_size("bytes", arg, &o->bytes, err);
    case CHUNK: return parse_size("chunk", arg, &o->chunk, err);
    case TYPE: return parse_type(arg, &o->type, err);
    case COST:
        status = parse_cost(arg, cost, &listed, err);
        if (listed)
            wr_cost_write(cost, stdout);
        *code = listed ? 0 : -1;
        return status;
    case TUNING: return read_tuning(arg, cost, err);
    case PPN: o->ppn = arg; break;
    case LEVELS: o->levels = arg; break;
    case PLACEMENT: o->placement = arg; break;
    case ALGO: o->algo = arg; break;
    case SVG: o->svg = arg; break;
    case TRACE: o->trace = arg; break;
    case IN_PLACE: o->in_place = true; break;
    case MAPPED: o->mapped = true; break;
    case VERIFY: o->verify = true; break;
    case SIMULATE: o->simulate = true; break;
    case JSON: o->json = true; break;
    case LIST:
        plan_print_list(stdout);
        *code = 0;
        break;
    case 'V':
        printf("weir-plan %s\n", weir_version());
        *code = 0;
        break;
    case 'h':
        fputs(usage_text, stdout);
        *code = 0;
        break;
    default:
        fputs("weir-plan: 'weir-plan --help' lists the options\n", stderr);
        *code = 2;
    }
    return WEIR_OK;
}

static weir_status parse_collective(const char *name, enum wr_collective *coll, weir_error *err)
{
    for (int i = 0; i < WR_COLL_COUNT; i++)
        if (!strcmp(wr_collective_name((enum wr_collective)i), name)) {
            *coll = (enum wr_collective)i;
            return WEIR_OK;
        }
    return wr_error_set(err, WEIR_ERR_INVALID, "'weir-plan --help' names them", "there is no collective '%s'", name);
}

/* Returns -1 to go on, or the exit code. */
static int parse_options(struct plan_options *o, struct wr_cost *cost, int argc, char **argv)
{
    static const struct option options[] = {
        {"nodes", required_argument, NULL, NODES}, {"ppn", required_argument, NULL, PPN},
        {"levels", required_argument, NULL, LEVELS}, {"placement", required_argument, NULL, PLACEMENT},
        {"tuning", required_argument, NULL, TUNING}, {"cost", required_argument, NULL, COST}, {"bytes", required_argument, NULL, BYTES},
        {"type", required_argument, NULL, TYPE}, {"root", required_argument, NULL, ROOT},
        {"in-place", no_argument, NULL, IN_PLACE}, {"mapped", no_argument, NULL, MAPPED},
        {"algo", required_argument, NULL, ALGO}, {"chunk", required_argument, NULL, CHUNK},
        {"rails", required_argument, NULL, RAILS}, {"verify", no_argument, NULL, VERIFY},
        {"simulate", no_argument, NULL, SIMULATE}, {"svg", required_argument, NULL, SVG},
        {"trace", required_argument, NULL, TRACE}, {"json", no_argument, NULL, JSON},
        {"list", no_argument, NULL, LIST}, {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'}, {NULL, 0, NULL, 0},
    };
    weir_error err;
    int c, code = -1;
    wr_error_clear(&err);
    while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        if (parse_option(c, optarg, o, cost, &code, &err) != WEIR_OK)
            return usage_error(&err);
        if (code >= 0)
            return code;
    }
    if (optind + 1 != argc)
        wr_error_set(&err, WEIR_ERR_INVALID, "'weir-plan --help' lists the options", optind < argc ? "'%s' is one collective too many" :
                     "which collective?%s", optind < argc ? argv[optind + 1] : "");
    else if (parse_collective(argv[optind], &o->coll, &err) == WEIR_OK && (!o->nodes || !o->ppn))
        wr_error_set(&err, WEIR_ERR_INVALID, "'weir-plan --help' lists the options", "--nodes and --ppn are needed");
    else if (!err.status && o->coll != WR_COLL_BARRIER && o->bytes == UINT64_MAX)
        wr_error_set(&err, WEIR_ERR_INVALID, "write for example --bytes 16M", "--bytes is needed");
    return err.status ? usage_error(&err) : -1;
}

static void make_spec(struct plan_report *r)
{
    const struct plan_options *o = r->options;
    uint64_t size = weir_type_size(o->type), n = (uint64_t)r->machine->topo.nranks, elements = o->bytes / size;
    bool half = o->type == WEIR_FP16 || o->type == WEIR_BF16, shares = false;
    struct wr_plan_spec *s = &r->spec;
    *s = (struct wr_plan_spec){.coll = o->coll, .topo = &r->machine->topo, .root = (int)o->root, .in_place = o->in_place,
                               .in_mapped = o->mapped, .out_mapped = o->mapped, .rails = (int)o->rails, .elem_size = (uint32_t)size};
    s->reduces = o->coll == WR_COLL_REDUCE || o->coll == WR_COLL_ALLREDUCE || o->coll == WR_COLL_REDUCE_SCATTER ||
                 o->coll == WR_COLL_SCAN || o->coll == WR_COLL_EXSCAN;
    s->partial_size = s->reduces && half ? 4 : (uint32_t)size;
    shares = o->coll == WR_COLL_REDUCE_SCATTER || o->coll == WR_COLL_ALLGATHER || o->coll == WR_COLL_GATHER ||
             o->coll == WR_COLL_SCATTER || o->coll == WR_COLL_ALLTOALL;
    s->count = o->coll == WR_COLL_BARRIER ? 0 : shares ? (elements + n - 1) / n : elements;
    s->chunk = o->chunk ? WR_MAX(o->chunk / size, 1) : 0;
}

/* The algorithms that are asked for and serve the call. */
static weir_status choose(struct plan_report *r, weir_error *err)
{
    const char *name = r->options->algo;
    bool all = !strcmp(name, "all");
    if (!all && !wr_algorithm_find(r->spec.coll, name))
        return wr_error_set(err, WEIR_ERR_INVALID, "'weir-plan --list' names them", "%s has no algorithm '%s'",
                            wr_collective_name(r->spec.coll), name);
    for (int i = 0; wr_algorithms[i] && r->n < PLAN_ALGORITHMS; i++)
        if (wr_algorithms[i]->coll == r->spec.coll && (all || !strcmp(wr_algorithms[i]->name, name)) && wr_algorithms[i]->applies(&r->spec))
            r->outcome[r->n++].algorithm = wr_algorithms[i];
    if (!r->n)
        return wr_error_set(err, WEIR_ERR_INVALID, "another algorithm, --mapped or another number of nodes may do",
                            "no algorithm that was asked for serves this call");
    return WEIR_OK;
}

/* The fastest of those that could be simulated, else the first. */
static const struct wr_algorithm *fastest(const struct plan_report *r)
{
    const struct plan_outcome *best = NULL;
    for (int i = 0; i < r->n; i++)
        if (r->outcome[i].simulated && (!best || r->outcome[i].result.time < best->result.time))
            best = &r->outcome[i];
    return best ? best->algorithm : r->outcome[0].algorithm;
}

/* false when something that was asked for failed; its sentence has been printed. */
static bool work(struct plan_report *r)
{
    const struct plan_options *o = r->options;
    bool asked = o->verify || o->simulate, ok = true;
    bool proves = o->verify || (!asked && r->machine->topo.nranks <= PLAN_VERIFY_RANKS);
    bool runs = o->simulate || !asked || o->svg || o->trace;
    char line[1200];
    weir_error err;
    for (int i = 0; i < r->n; i++) {
        struct plan_outcome *out = &r->outcome[i];
        wr_error_clear(&err);
        if (proves && plan_prove(r, out, &err) != WEIR_OK) {
            fprintf(stderr, "weir-plan: %s is not proven: %s\n", out->algorithm->name, wr_error_line(&err, line, sizeof line));
            ok = false;
        }
        wr_error_clear(&out->error);
        if (runs)
            out->simulated = wr_simulate(&r->spec, out->algorithm, &r->cost, NULL, &out->result, &out->error) == WEIR_OK;
        ok = ok && (!runs || out->simulated || out->error.status == WEIR_ERR_UNSUPPORTED);
    }
    if (o->json) {
        plan_print_json(r, stdout);
    } else {
        plan_print_machine(r, stdout);
        if (proves)
            plan_print_proofs(r, stdout);
        ok = (!runs || plan_print_times(r, stdout)) && ok;
    }
    wr_error_clear(&err);
    if ((o->svg || o->trace) && plan_draw(r, fastest(r), o->svg, o->trace, &err) != WEIR_OK) {
        fprintf(stderr, "weir-plan: %s\n", wr_error_line(&err, line, sizeof line));
        ok = false;
    }
    return ok;
}

int main(int argc, char **argv)
{
    struct plan_options options = {.placement = "block", .algo = "all", .type = WEIR_FP32, .bytes = UINT64_MAX};
    struct plan_machine machine;
    struct plan_report report = {.options = &options, .machine = &machine};
    weir_error err;
    wr_error_clear(&err);
    /* programs of some megabytes are built and freed a hundred thousand times: their pages stay */
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    wr_cost_default(&report.cost);
    int code = parse_options(&options, &report.cost, argc, argv);
    if (code >= 0)
        return code;
    if (plan_machine_make(&machine, &options, &err) != WEIR_OK)
        return usage_error(&err);
    make_spec(&report);
    if (options.root >= machine.topo.nranks)
        wr_error_set(&err, WEIR_ERR_INVALID, NULL, "--root %lld is not one of %d ranks", (long long)options.root, machine.topo.nranks);
    else
        choose(&report, &err);
    code = err.status ? usage_error(&err) : work(&report) ? 0 : 1;
    for (int i = 0; i < report.n; i++)
        wr_verify_result_free(&report.outcome[i].proof);
    plan_machine_free(&machine);
    if (fflush(stdout) || ferror(stdout)) {
        fputs("weir-plan: the standard output could not be written\n", stderr);
        code = code ? code : 1;
    }
    return code;
}
