/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of weir-perf and mpi-perf, and the names that it knows. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perf/coll-loop.h"

static const char *const coll_names[COLLS] = {"barrier",        "bcast",     "reduce",   "allreduce",
                                              "reduce_scatter", "allgather", "gather",   "scatter",
                                              "alltoall",       "scan",      "exscan",   "reduce_scatterv",
                                              "allgatherv",     "gatherv",   "scatterv", "alltoallv"};

static const struct {
    const char *text;
    weir_type type;
    size_t bytes;
} types[] = {
#define TYPE_ROW(name, value, text, bytes) {text, name, bytes},
    WEIR_TYPE_TABLE(TYPE_ROW)
#undef TYPE_ROW
};

static const struct {
    const char *text;
    weir_op op;
} ops[] = {
#define OP_ROW(name, value, text) {text, name},
    WEIR_OP_TABLE(OP_ROW)
#undef OP_ROW
};

enum { TYPES = sizeof types / sizeof types[0], OPS = sizeof ops / sizeof ops[0] };

const char *coll_name(enum coll_id coll)
{
    return coll_names[coll];
}

bool coll_reduces(enum coll_id coll)
{
    coll = coll_plain(coll);
    return coll == COLL_REDUCE || coll == COLL_ALLREDUCE || coll == COLL_REDUCE_SCATTER || coll == COLL_SCAN ||
           coll == COLL_EXSCAN;
}

bool coll_is_v(enum coll_id coll)
{
    return coll >= COLL_REDUCE_SCATTERV;
}

enum coll_id coll_plain(enum coll_id coll)
{
    return coll_is_v(coll) ? (enum coll_id)(coll - COLL_REDUCE_SCATTERV + COLL_REDUCE_SCATTER) : coll;
}

size_t coll_type_size(weir_type type)
{
    return types[type].bytes;
}

const char *coll_type_name(weir_type type)
{
    return types[type].text;
}

const char *coll_op_name(weir_op op)
{
    return ops[op].text;
}

static const char usage_text[] =
    "usage: %s COLL [-b MIN] [-e MAX] [-f FACTOR] [-s LIST] [-t TYPE] [-o OP]\n"
    "                 [--registered | --heap | --node-shared] [--persistent] [--reference] [--method M]\n"
    "                 [--check | --no-check] [-n ITERS] [-w WARMUP] [--time SECONDS] [--json]\n"
    "\n"
    "Measures a collective operation; to be started by a launcher, on two or more ranks.\n"
    "COLL is one of barrier, bcast, reduce, allreduce, reduce_scatter, allgather, gather, scatter,\n"
    "alltoall, scan, exscan, or of reduce_scatterv, allgatherv, gatherv, scatterv, alltoallv, where\n"
    "counts grow with the rank.\n"
    "\n"
    "  -b, --min BYTES      smallest size (8)\n"
    "  -e, --max BYTES      largest size (64M); K, M and G are understood\n"
    "  -f, --factor N       ratio between sizes (8)\n"
    "  -s, --sizes LIST     these sizes instead, separated by commas\n"
    "  -t, --type TYPE      int8 .. int64, uint8 .. uint64, fp16, bf16, fp32, fp64 (fp32)\n"
    "  -o, --op OP          sum, prod, min, max, avg, and, or, xor (sum)\n"
    "      --heap           buffers from malloc (the default)\n"
    "      --registered     buffers from the library's own allocator\n"
    "      --node-shared    allgather into one window a node\n"
    "      --persistent     persistent calls\n"
    "      --reference      instead of calls, loops that move the same bytes between registered memory\n"
    "      --method M       stream: batches of calls back to back; sync: each call alone, after all\n"
    "                       ranks have met; auto: stream up to 16K, else sync (the default)\n"
    "      --check          check the result of every call\n"
    "      --no-check       check none; by default those of the warm-up and, up to 1M, all others\n"
    "  -n, --iterations N   samples a size (20 to 2000, as many as fit into the time)\n"
    "  -w, --warmup N       samples that are thrown away before (5)\n"
    "      --time SECONDS   time for one size (0.3)\n"
    "      --budget SECONDS most time for a size with its warm-up; fewer samples are taken then, but\n"
    "                       at least 3 (10 times the time; with -n no limit)\n"
    "      --json           one JSON object a line\n"
    "  -h, --help           this text\n";

enum { BUDGET = 10 }; /* times the time of a size */

static bool parse_bytes(const char *text, uint64_t *value)
{
    char *end;
    unsigned long long v = strtoull(text, &end, 10);
    int shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
    *value = (uint64_t)v << shift;
    return end != text && *text != '-' && !end[shift != 0] && *value >> shift == v && v;
}

static bool parse_sizes(struct coll_options *o, char *list)
{
    char *save = NULL;
    o->nsizes = 0;
    for (char *word = strtok_r(list, ",", &save); word; word = strtok_r(NULL, ",", &save))
        if (o->nsizes == SIZES_MAX || !parse_bytes(word, &o->sizes[o->nsizes++]))
            return false;
    return o->nsizes > 0;
}

static bool parse_count(const char *text, int least, int *value)
{
    char *end;
    long v = strtol(text, &end, 10);
    *value = (int)v;
    return end != text && !*end && v >= least && v <= 1000000;
}

static bool parse_type(const char *text, weir_type *type)
{
    for (int i = 0; i < TYPES; i++)
        if (!strcmp(text, types[i].text)) {
            *type = types[i].type;
            return true;
        }
    return false;
}

static bool parse_op(const char *text, weir_op *op)
{
    for (int i = 0; i < OPS; i++)
        if (!strcmp(text, ops[i].text)) {
            *op = ops[i].op;
            return true;
        }
    return false;
}

static bool parse_method(const char *text, enum coll_method *method)
{
    static const char *const names[] = {"auto", "stream", "sync"};
    for (int i = 0; i < 3; i++)
        if (!strcmp(text, names[i])) {
            *method = (enum coll_method)i;
            return true;
        }
    return false;
}

static const struct option long_options[] = {
    {"min", required_argument, NULL, 'b'},
    {"max", required_argument, NULL, 'e'},
    {"factor", required_argument, NULL, 'f'},
    {"sizes", required_argument, NULL, 's'},
    {"type", required_argument, NULL, 't'},
    {"op", required_argument, NULL, 'o'},
    {"heap", no_argument, NULL, 'H'},
    {"registered", no_argument, NULL, 'R'},
    {"node-shared", no_argument, NULL, 'N'},
    {"reference", no_argument, NULL, 'F'},
    {"persistent", no_argument, NULL, 'P'},
    {"method", required_argument, NULL, 'm'},
    {"check", no_argument, NULL, 'c'},
    {"no-check", no_argument, NULL, 'C'},
    {"iterations", required_argument, NULL, 'n'},
    {"warmup", required_argument, NULL, 'w'},
    {"time", required_argument, NULL, 'T'},
    {"budget", required_argument, NULL, 'B'},
    {"json", no_argument, NULL, 'j'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static bool parse_one(struct coll_options *o, int c)
{
    switch (c) {
    case 'b':
        return parse_bytes(optarg, &o->min);
    case 'e':
        return parse_bytes(optarg, &o->max);
    case 'f':
        return parse_bytes(optarg, &o->factor) && o->factor > 1;
    case 's':
        return parse_sizes(o, optarg);
    case 't':
        return parse_type(optarg, &o->type);
    case 'o':
        return parse_op(optarg, &o->op);
    case 'H':
    case 'R':
    case 'N':
        o->memory = c == 'H' ? MEMORY_HEAP : c == 'R' ? MEMORY_REGISTERED : MEMORY_NODE_SHARED;
        return true;
    case 'P':
        return o->persistent = true;
    case 'F':
        return o->reference = true;
    case 'm':
        return parse_method(optarg, &o->method);
    case 'c':
    case 'C':
        o->check = c == 'c';
        return true;
    case 'n':
        return parse_count(optarg, 1, &o->iterations);
    case 'w':
        return parse_count(optarg, 0, &o->warmup);
    case 'T':
        o->seconds = atof(optarg);
        return o->seconds > 0 && o->seconds <= 600;
    case 'B':
        o->budget = atof(optarg);
        return o->budget > 0;
    case 'j':
        return o->json = true;
    default:
        return false;
    }
}

static int wrong_use(const char *program, bool speak, const char *what)
{
    if (speak)
        fprintf(stderr, "%s: %s; '%s --help' lists the options\n", program, what, program);
    return 2;
}

int coll_parse(struct coll_options *o, int argc, char **argv, const char *program, bool speak)
{
    bool floats, bits;
    int c, coll = 0;
    opterr = speak;
    *o = (struct coll_options){
        .min = 8, .max = 64 << 20, .factor = 8, .type = WEIR_FP32, .check = -1, .warmup = 5, .seconds = 0.3};
    while ((c = getopt_long(argc, argv, "b:e:f:s:t:o:n:w:h", long_options, NULL)) != -1) {
        if (c == 'h')
            return speak && printf(usage_text, program) < 0;
        if (!parse_one(o, c))
            return wrong_use(program, speak, "wrong option or value");
    }
    if (!o->budget && !o->iterations)
        o->budget = BUDGET * o->seconds;
    if (optind + 1 != argc)
        return wrong_use(program, speak, "one collective must be named");
    while (coll < COLLS && strcmp(argv[optind], coll_names[coll]))
        coll++;
    if (coll == COLLS)
        return wrong_use(program, speak, "there is no collective of that name");
    o->coll = (enum coll_id)coll;
    if (o->max < o->min)
        return wrong_use(program, speak, "MAX is less than MIN");
    floats = o->type == WEIR_FP16 || o->type == WEIR_BF16 || o->type == WEIR_FP32 || o->type == WEIR_FP64;
    bits = o->op == WEIR_AND || o->op == WEIR_OR || o->op == WEIR_XOR;
    if (floats && bits && coll_reduces(o->coll))
        return wrong_use(program, speak, "and, or, xor are for integers");
    if (o->memory == MEMORY_NODE_SHARED && o->coll != COLL_ALLGATHER)
        return wrong_use(program, speak,
                         "--node-shared is for allgather: of the others each rank has a result of its own");
    return -1;
}
