/* SPDX-License-Identifier: BSD-3-Clause */
/* The arguments of weir-zero. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/weir.h>

#include "perf/weir-zero.h"

static void help(FILE *out)
{
    fputs("usage: weirrun -n N weir-zero [options]\n"
          "  -s, --stage=S        0 to 3 (all of them, one after the other)\n"
          "  -p, --params=N       parameters of the model (100M)\n"
          "  -l, --layers=N       layers that they are divided among (24)\n"
          "  -n, --steps=N        measured steps, after two others (3)\n"
          "  -m, --micros=N       micro-batches a step (1)\n"
          "  -c, --compute=US     microseconds that a layer computes forward, and twice that backward (0)\n"
          "  -z, --sleep          layers sleep instead, where there are more ranks than cores\n"
          "  -r, --rule=NAME      update rule (adamw)\n"
          "  -b, --bf16           parameters and gradients in bf16, masters in fp32\n"
          "  -B, --bucket=BYTES   gradients that are reduced in one go (25M)\n"
          "  -P, --prefetch=BYTES parameters that are gathered ahead (64M)\n"
          "  -L, --live=BYTES     parameters that are gathered at once (1G)\n"
          "  -w, --private        each rank of a node gathers for itself\n"
          "  -q, --int8=WHAT      params, grads or both travel as int8, in the stages that can\n"
          "  -G, --secondary=N    stage 3: N ranks of a node, or node, keep what a step has gathered\n"
          "  -d, --reproducible   the same bits for any number of ranks, which is a power of two\n"
          "  -x, --exposed        the same steps of each rank alone, too: what a step takes longer than they is exposed\n"
          "  -t, --trace=FILE     what the ranks did, for chrome://tracing or Perfetto; FILE.S for each of several stages\n"
          "  -R, --report=FILE    reports of rank 0, one JSON object a line, of all steps\n"
          "  -T, --torch          then PyTorch's DDP with AdamW and with ZeroRedundancyOptimizer, on this host\n"
          "  -o, --offload=DIR    states, and masters with --bf16, on the disk that DIR is on; shows what the disk alone takes\n"
          "  -F, --full-offload   stage 3: parameters, too\n"
          "  -O, --sub-group=BYTES of states that pass through a buffer (16M)\n"
          "  -D, --delayed        updates are made while the next step computes\n"
          "  -e, --estimate=N     only tell what each of N ranks would hold and move\n"
          "  -j, --json           one JSON object a line\n"
          "  -h, --help           this text\n",
          out);
}

static uint64_t number_of(const char *text, unsigned kilo)
{
    char *end;
    uint64_t n = strtoull(text, &end, 10), k = kilo;
    uint64_t factor = *end == 'K' || *end == 'k' ? k : *end == 'M' ? k * k : *end == 'G' ? k * k * k : 1;
    return end == text || (*end && (factor == 1 || end[1])) || n > UINT64_MAX / 16 / factor ? 0 : n * factor;
}

static uint64_t int8_of(const char *text)
{
    uint64_t params = WEIR_ZERO_QUANTIZED_PARAMS, grads = WEIR_ZERO_QUANTIZED_GRADS;
    return !strcmp(text, "params") ? params : !strcmp(text, "grads") ? grads : !strcmp(text, "both") ? params | grads : 0;
}

static bool take(int c, struct options *o)
{
    switch (c) {
    case 'q': return (o->int8 = int8_of(optarg)) != 0;
    case 'G': o->secondary = strcmp(optarg, "node") ? number_of(optarg, 1000) : WEIR_ZERO_NODE; break;
    case 's': o->stage = strlen(optarg) == 1 && *optarg >= '0' && *optarg <= '3' ? *optarg - '0' : -2; break;
    case 'p': o->params = number_of(optarg, 1000); break;
    case 'l': o->layers = atoi(optarg); break;
    case 'n': o->steps = atoi(optarg); break;
    case 'm': o->micros = atoi(optarg); break;
    case 'c': o->compute_us = atoi(optarg); break;
    case 'r': o->rule = optarg; break;
    case 'b': o->bf16 = true; break;
    case 'B': o->bucket = number_of(optarg, 1024); break;
    case 'P': o->prefetch = strcmp(optarg, "0") ? number_of(optarg, 1024) : 0; break;
    case 'L': o->live = number_of(optarg, 1024); break;
    case 'w': o->private_rooms = true; break;
    case 'd': o->reproducible = true; break;
    case 'x': o->alone = true; break;
    case 'z': o->sleeps = true; break;
    case 't': o->trace = optarg; break;
    case 'R': o->report = optarg; break;
    case 'T': o->torch = true; break;
    case 'o': o->offload = optarg; break;
    case 'O': o->offload_bytes = number_of(optarg, 1024); break;
    case 'F': o->full_offload = true; break;
    case 'D': o->delayed = true; break;
    case 'e': o->estimate = true, o->ranks = atoi(optarg); break;
    case 'j': o->json = true; break;
    default: return false;
    }
    return true;
}

bool zero_parse(int argc, char **argv, struct options *o, int *status)
{
    static const struct option longs[] = {
        {"stage", required_argument, NULL, 's'},  {"params", required_argument, NULL, 'p'},   {"layers", required_argument, NULL, 'l'},
        {"steps", required_argument, NULL, 'n'},  {"micros", required_argument, NULL, 'm'},   {"compute", required_argument, NULL, 'c'},
        {"rule", required_argument, NULL, 'r'},   {"bf16", no_argument, NULL, 'b'},           {"bucket", required_argument, NULL, 'B'},
        {"prefetch", required_argument, NULL, 'P'}, {"live", required_argument, NULL, 'L'},   {"private", no_argument, NULL, 'w'},
        {"int8", required_argument, NULL, 'q'},   {"secondary", required_argument, NULL, 'G'},
        {"reproducible", no_argument, NULL, 'd'}, {"exposed", no_argument, NULL, 'x'},        {"trace", required_argument, NULL, 't'},
        {"report", required_argument, NULL, 'R'}, {"torch", no_argument, NULL, 'T'},          {"sleep", no_argument, NULL, 'z'},
        {"offload", required_argument, NULL, 'o'}, {"sub-group", required_argument, NULL, 'O'}, {"delayed", no_argument, NULL, 'D'},
        {"full-offload", no_argument, NULL, 'F'},
        {"estimate", required_argument, NULL, 'e'}, {"json", no_argument, NULL, 'j'},         {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0}};
    int c;
    *o = (struct options){.stage = -1, .params = 100000000, .bucket = 25 << 20, .prefetch = 64 << 20, .live = 1 << 30, .layers = 24,
                          .offload_bytes = 16 << 20, .steps = 3, .micros = 1, .ranks = 1, .rule = "adamw"};
    while ((c = getopt_long(argc, argv, "s:p:l:n:m:c:r:bB:P:L:wdxzt:R:Te:jhq:G:o:O:DF", longs, NULL)) != -1)
        if (!take(c, o)) {
            *status = c == 'h' ? 0 : 2;
            help(c == 'h' ? stdout : stderr);
            return false;
        }
    *status = 2;
    if (optind < argc || o->stage < -1 || o->layers < 1 || o->layers > LAYERS_MAX || o->params < (uint64_t)o->layers * WIDTH ||
        o->steps < 1 || o->micros < 1 || o->compute_us < 0 || o->ranks < 1 || !o->bucket || !o->live || !o->offload_bytes) {
        fputs("weir-zero: an argument is not understood\n", stderr);
        help(stderr);
        return false;
    }
    return true;
}
