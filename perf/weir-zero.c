/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weir-zero: steps of the ZeRO engine on a stack of equal layers that computes nothing of use: time, communication that was not
 * hidden, memory beside the formula. Or only the formula.
 */
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <weir/weir.h>

enum { LAYERS_MAX = 512, STAGES = 4, WIDTH = 1024 };

struct options {
    int stage; /* -1: all */
    uint64_t params, bucket, prefetch, live, int8, secondary;
    int layers, steps, micros, compute_us, ranks;
    const char *rule;
    bool bf16, private_rooms, json, estimate;
};

struct stack {
    weir_zero_unit units[LAYERS_MAX];
    weir_zero_tensor weights[LAYERS_MAX];
    char names[LAYERS_MAX][16];
    uint64_t elements; /* of a layer */
};

struct bench {
    const struct options *o;
    struct stack stack;
    weir_ctx *ctx;
    weir_comm *world;
    weir_rule *rule;
    weir_schedule schedule;
    weir_group group;
};

static void help(FILE *out)
{
    fputs("usage: weirrun -n N weir-zero [options]\n"
          "  -s, --stage=S        0 to 3 (all of them, one after the other)\n"
          "  -p, --params=N       parameters of the model (100M)\n"
          "  -l, --layers=N       layers that they are divided among (24)\n"
          "  -n, --steps=N        measured steps, after two others (3)\n"
          "  -m, --micros=N       micro-batches a step (1)\n"
          "  -c, --compute=US     microseconds that a layer computes forward, and twice that backward (0)\n"
          "  -r, --rule=NAME      update rule (adamw)\n"
          "  -b, --bf16           parameters and gradients in bf16, masters in fp32\n"
          "  -B, --bucket=BYTES   gradients that are reduced in one go (25M)\n"
          "  -P, --prefetch=BYTES parameters that are gathered ahead (64M)\n"
          "  -L, --live=BYTES     parameters that are gathered at once (1G)\n"
          "  -w, --private        each rank of a node gathers for itself\n"
          "  -q, --int8=WHAT      params, grads or both travel as int8, in the stages that can\n"
          "  -G, --secondary=N    stage 3: N ranks of a node, or node, keep what a step has gathered\n"
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
    case 'e': o->estimate = true, o->ranks = atoi(optarg); break;
    case 'j': o->json = true; break;
    default: return false;
    }
    return true;
}

static bool parse(int argc, char **argv, struct options *o, int *status)
{
    static const struct option longs[] = {
        {"stage", required_argument, NULL, 's'},  {"params", required_argument, NULL, 'p'},   {"layers", required_argument, NULL, 'l'},
        {"steps", required_argument, NULL, 'n'},  {"micros", required_argument, NULL, 'm'},   {"compute", required_argument, NULL, 'c'},
        {"rule", required_argument, NULL, 'r'},   {"bf16", no_argument, NULL, 'b'},           {"bucket", required_argument, NULL, 'B'},
        {"prefetch", required_argument, NULL, 'P'}, {"live", required_argument, NULL, 'L'},   {"private", no_argument, NULL, 'w'},
        {"int8", required_argument, NULL, 'q'},   {"secondary", required_argument, NULL, 'G'},
        {"estimate", required_argument, NULL, 'e'}, {"json", no_argument, NULL, 'j'},         {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0}};
    int c;
    *o = (struct options){.stage = -1, .params = 100000000, .bucket = 25 << 20, .prefetch = 64 << 20, .live = 1 << 30, .layers = 24,
                          .steps = 3, .micros = 1, .ranks = 1, .rule = "adamw"};
    while ((c = getopt_long(argc, argv, "s:p:l:n:m:c:r:bB:P:L:we:jhq:G:", longs, NULL)) != -1)
        if (!take(c, o)) {
            *status = c == 'h' ? 0 : 2;
            help(c == 'h' ? stdout : stderr);
            return false;
        }
    *status = 2;
    if (optind < argc || o->stage < -1 || o->layers < 1 || o->layers > LAYERS_MAX || o->params < (uint64_t)o->layers * WIDTH ||
        o->steps < 1 || o->micros < 1 || o->compute_us < 0 || o->ranks < 1 || !o->bucket || !o->live) {
        fputs("weir-zero: an argument is not understood\n", stderr);
        help(stderr);
        return false;
    }
    return true;
}

/* ---- the model ---- */

static void make_stack(struct stack *s, const struct options *o)
{
    weir_zero_unit unit = WEIR_ZERO_UNIT_INIT;
    weir_zero_tensor weight = WEIR_ZERO_TENSOR_INIT;
    uint64_t rows = o->params / (uint64_t)o->layers / WIDTH;
    s->elements = rows * WIDTH;
    for (int l = 0; l < o->layers; l++) {
        snprintf(s->names[l], sizeof s->names[l], "layer%d", l);
        s->weights[l] = weight;
        s->weights[l].name = "weight";
        s->weights[l].ndim = 2;
        s->weights[l].shape[0] = rows;
        s->weights[l].shape[1] = WIDTH;
        s->weights[l].init = WEIR_ZERO_INIT_UNIFORM;
        s->weights[l].init_a = -0.05;
        s->weights[l].init_b = 0.05;
        s->units[l] = unit;
        s->units[l].name = s->names[l];
        s->units[l].tensors = &s->weights[l];
        s->units[l].ntensors = 1;
    }
}

static bool make_rule(struct bench *b)
{
    weir_schedule schedule = WEIR_SCHEDULE_INIT;
    weir_group group = WEIR_GROUP_INIT;
    weir_rule_options options = {.size = sizeof options};
    weir_rule_kind kind;
    weir_error err;
    if (weir_rule_kind_find(b->o->rule, &kind) || weir_rule_defaults(kind, &options)) {
        fprintf(stderr, "weir-zero: there is no rule %s\n", b->o->rule);
        return false;
    }
    options.isa = NULL;
    if (weir_rule_create(&options, &b->rule, &err)) {
        fprintf(stderr, "weir-zero: %s\n", err.message);
        return false;
    }
    b->schedule = schedule;
    b->group = group;
    b->group.rule = b->rule;
    b->group.schedule = &b->schedule;
    return true;
}

static weir_zero_options engine_options(const struct bench *b, int stage)
{
    weir_zero_options z = WEIR_ZERO_OPTIONS_INIT;
    z.stage = (uint64_t)stage;
    z.groups = &b->group;
    z.ngroups = 1;
    z.flags = b->o->private_rooms ? WEIR_ZERO_PRIVATE : 0;
    z.flags |= b->o->int8 & ((stage == 3 ? WEIR_ZERO_QUANTIZED_PARAMS : 0) | (stage ? WEIR_ZERO_QUANTIZED_GRADS : 0));
    z.secondary_group = stage == 3 ? b->o->secondary : 0;
    z.accumulate = (uint64_t)b->o->micros;
    z.bucket_bytes = b->o->bucket;
    z.prefetch_bytes = b->o->prefetch;
    z.max_live_bytes = b->o->live;
    if (b->o->bf16)
        z.param_type = z.grad_type = z.reduce_type = WEIR_BF16;
    return z;
}

/* ---- the formula ---- */

static bool estimate(const struct bench *b, int stage)
{
    weir_zero_options z = engine_options(b, stage);
    weir_zero_budget e = {.size = sizeof e};
    weir_error err;
    if (weir_zero_estimate(&z, b->stack.units, (uint64_t)b->o->layers, b->o->ranks, &e, &err)) {
        fprintf(stderr, "weir-zero: %s\n", err.message);
        return false;
    }
    const double mib = 1 << 20;
    if (b->o->json)
        printf("{\"stage\": %d, \"ranks\": %d, \"params\": %llu, \"param_bytes\": %llu, \"master_bytes\": %llu, \"state_bytes\": %llu, "
               "\"grad_bytes\": %llu, \"live_bytes\": %llu, \"mem_formula\": %llu, \"gather_bytes\": %llu, \"reduce_bytes\": %llu}\n",
               stage, b->o->ranks, (unsigned long long)e.parameters, (unsigned long long)e.param_bytes,
               (unsigned long long)e.master_bytes, (unsigned long long)e.state_bytes, (unsigned long long)e.grad_bytes,
               (unsigned long long)e.live_bytes, (unsigned long long)e.total_bytes, (unsigned long long)e.gather_bytes,
               (unsigned long long)e.reduce_bytes);
    else
        printf("%5d %10.1f %10.1f %10.1f %10.1f %10.1f %10.1f %12.1f %12.1f\n", stage, (double)e.param_bytes / mib,
               (double)e.master_bytes / mib, (double)e.state_bytes / mib, (double)e.grad_bytes / mib, (double)e.live_bytes / mib,
               (double)e.total_bytes / mib, (double)e.gather_bytes / mib, (double)e.reduce_bytes / mib);
    return true;
}

/* ---- steps ---- */

static void check(const struct bench *b, const weir_zero *zero, weir_status status, const char *what)
{
    if (status == WEIR_OK)
        return;
    fprintf(stderr, "weir-zero: %s: %s\n", what, zero ? weir_zero_error(zero)->message : weir_last_error(b->ctx)->message);
    weir_abort(b->ctx, 1, what);
}

static void compute(int us)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    double end = (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3 + us;
    do
        clock_gettime(CLOCK_MONOTONIC, &t);
    while (us && (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3 < end);
}

/* Gradients: memory is written as a backward pass writes it. */
static void fill(const struct bench *b, void *grad)
{
    uint64_t bytes = b->stack.elements * (b->o->bf16 ? 2 : 4);
    memset(grad, b->o->bf16 ? 0x38 : 0x3a, bytes); /* small numbers */
}

static void pass(const struct bench *b, weir_zero *zero)
{
    uint64_t layers = (uint64_t)b->o->layers;
    check(b, zero, weir_zero_begin(zero, WEIR_ZERO_TRAIN), "begin");
    for (uint64_t l = 0; l < layers; l++) {
        check(b, zero, weir_zero_before_forward(zero, l), "before_forward");
        compute(b->o->compute_us);
        check(b, zero, weir_zero_after_forward(zero, l), "after_forward");
    }
    for (uint64_t l = layers; l-- > 0;) {
        check(b, zero, weir_zero_before_backward(zero, l), "before_backward");
        compute(2 * b->o->compute_us);
        fill(b, weir_zero_grad(zero, l, 0));
        check(b, zero, weir_zero_after_backward(zero, l), "after_backward");
    }
    check(b, zero, weir_zero_end(zero), "end");
}

static void print(const struct bench *b, int stage, const weir_zero_report *r, const weir_zero_budget *e, uint64_t owned)
{
    double update = (double)r->update_ns / (double)owned, ms = 1e-6, mib = 1 << 20;
    if (b->o->json)
        printf("{\"stage\": %d, \"ranks\": %d, \"params\": %llu, \"micros\": %d, \"bf16\": %s, \"step_ms\": %.3f, \"exposed_ms\": %.3f, "
               "\"hidden_ms\": %.3f, \"update_ms\": %.3f, \"update_ns_per_param\": %.3f, \"mem_peak\": %llu, \"mem_formula\": %llu, "
               "\"gather_bytes\": %llu, \"reduce_bytes\": %llu, \"norm\": %.6g}\n",
               stage, weir_comm_size(b->world), (unsigned long long)e->parameters, b->o->micros, b->o->bf16 ? "true" : "false",
               (double)r->total_ns * ms, (double)r->exposed_ns * ms, (double)r->hidden_ns * ms, (double)r->update_ns * ms, update,
               (unsigned long long)r->memory_peak, (unsigned long long)e->total_bytes, (unsigned long long)r->gather_bytes,
               (unsigned long long)r->reduce_bytes, r->norm);
    else
        printf("%5d %10.1f %10.1f %10.1f %10.2f %12.1f %12.1f %12.1f %12.1f\n", stage, (double)r->total_ns * ms, (double)r->exposed_ns * ms,
               (double)r->update_ns * ms, update, (double)r->memory_peak / mib, (double)e->total_bytes / mib, (double)r->gather_bytes / mib,
               (double)r->reduce_bytes / mib);
    fflush(stdout);
}

static void measure(struct bench *b, int stage)
{
    enum { WARM = 2 };
    weir_zero_options z = engine_options(b, stage);
    weir_zero_report best = {.size = sizeof best};
    weir_zero_budget e = {.size = sizeof e};
    weir_zero *zero;
    weir_error err;
    if (weir_zero_create(b->world, &z, b->stack.units, (uint64_t)b->o->layers, &zero, &err)) {
        fprintf(stderr, "weir-zero: %s\n", err.message);
        weir_abort(b->ctx, 1, "weir_zero_create");
    }
    for (int step = 0; step < WARM + b->o->steps; step++) {
        weir_zero_report r = {.size = sizeof r};
        for (int m = 0; m < b->o->micros; m++)
            pass(b, zero);
        check(b, zero, weir_zero_step(zero, NULL, &r), "step");
        if (step == WARM || (step > WARM && r.total_ns < best.total_ns))
            best = r;
    }
    check(b, NULL, weir_zero_estimate(&z, b->stack.units, (uint64_t)b->o->layers, weir_comm_size(b->world), &e, &err), "estimate");
    if (weir_comm_rank(b->world) == 0)
        print(b, stage, &best, &e, e.parameters / (stage ? (uint64_t)weir_comm_size(b->world) : 1));
    weir_zero_free(zero);
}

static bool open_job(struct bench *b)
{
    weir_init_options options = WEIR_INIT_OPTIONS_INIT;
    weir_error err;
    options.error = &err;
    if (weir_init(&options, &b->ctx)) {
        fprintf(stderr, "weir-zero: %s\n", err.message);
        return false;
    }
    check(b, NULL, weir_comm_world(b->ctx, &b->world), "weir_comm_world");
    if (weir_comm_rank(b->world) == 0 && !b->o->json)
        printf("# %llu parameters in %d layers, %s, %s, %d micro-batches, %d ranks over %s; best of %d steps; ms, MiB, ns a parameter\n"
               "#%4s %10s %10s %10s %10s %12s %12s %12s %12s\n",
               (unsigned long long)(b->stack.elements * (uint64_t)b->o->layers), b->o->layers, b->o->rule, b->o->bf16 ? "bf16" : "fp32",
               b->o->micros, weir_comm_size(b->world), weir_comm_transport(b->world, weir_comm_size(b->world) - 1), b->o->steps,
               "stage", "step", "exposed", "update", "a param", "mem_peak", "mem_formula", "gathered", "reduced");
    return true;
}

int main(int argc, char **argv)
{
    struct options o;
    static struct bench b;
    int status = 0;
    if (!parse(argc, argv, &o, &status))
        return status;
    b.o = &o;
    make_stack(&b.stack, &o);
    if (!make_rule(&b))
        return 2;
    if (o.estimate && !o.json)
        printf("# MiB of a rank, of %d\n#%4s %10s %10s %10s %10s %10s %10s %12s %12s\n", o.ranks, "stage", "parameters", "masters", "states",
               "gradients", "gathered", "all", "gets a step", "sends a step");
    if (!o.estimate && !open_job(&b))
        return 1;
    for (int stage = 0; stage < STAGES; stage++) {
        if (o.stage >= 0 && o.stage != stage)
            continue;
        if (!o.estimate)
            measure(&b, stage);
        else if (!estimate(&b, stage))
            return 1;
    }
    weir_rule_free(b.rule);
    return b.ctx && weir_finalize(b.ctx) ? 1 : 0;
}
