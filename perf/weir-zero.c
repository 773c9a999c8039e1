/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weir-zero: steps of the ZeRO engine on a stack of equal layers that computes nothing of use: time, communication that was not
 * hidden, memory beside the formula. Or only the formula.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <weir/weir.h>

#include "perf/weir-zero.h"

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
    weir_comm *world, *self;
    weir_rule *rule;
    weir_schedule schedule;
    weir_group group;
    double blocks_per_us; /* of work() */
    FILE *report;
};

/* The best step of an engine, and what the same one takes when nothing has to be moved. */
struct best {
    weir_zero_report r;
    double alone_ms; /* negative: not measured */
};

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
    z.flags = (b->o->private_rooms ? WEIR_ZERO_PRIVATE : 0) | (b->o->reproducible ? WEIR_ZERO_REPRODUCIBLE : 0);
    z.flags |= b->o->int8 & ((stage == 3 ? WEIR_ZERO_QUANTIZED_PARAMS : 0) | (stage ? WEIR_ZERO_QUANTIZED_GRADS : 0));
    z.secondary_group = stage == 3 ? b->o->secondary : 0;
    z.accumulate = (uint64_t)b->o->micros;
    z.bucket_bytes = b->o->bucket;
    z.prefetch_bytes = b->o->prefetch;
    z.max_live_bytes = b->o->live;
    z.offload = b->o->offload ? WEIR_ZERO_OFFLOAD_STATES : 0;
    if (b->o->full_offload && b->o->offload && stage == 3)
        z.offload |= WEIR_ZERO_OFFLOAD_PARAMS;
    z.offload_path = b->o->offload;
    z.offload_bytes = b->o->offload_bytes;
    z.delayed = b->o->delayed;
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

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* Arithmetic in the innermost cache: work, not time, so that whoever takes the core meanwhile makes it take longer. */
static void work(uint64_t blocks)
{
    enum { BLOCK = 512 };
    static double x[BLOCK];
    for (uint64_t k = 0; k < blocks; k++) {
        for (int i = 0; i < BLOCK; i++)
            x[i] = x[i] * 0.999 + 0.5;
        __asm__ __volatile__("" ::"r"(x) : "memory");
    }
}

/* How much of it a core does, at its best; the same on all ranks. */
static void calibrate(struct bench *b)
{
    enum { TURNS = 40, BLOCKS = 2000 };
    for (int turn = 0; b->o->compute_us && !b->o->sleeps && turn < TURNS; turn++) {
        double begin = now_us();
        work(BLOCKS);
        double rate = BLOCKS / (now_us() - begin);
        b->blocks_per_us = rate > b->blocks_per_us ? rate : b->blocks_per_us;
    }
    check(b, NULL, weir_allreduce(b->world, WEIR_IN_PLACE, &b->blocks_per_us, 1, WEIR_FP64, WEIR_MAX), "weir_allreduce");
}

static void compute(const struct bench *b, int times)
{
    int64_t ns = (int64_t)times * b->o->compute_us * 1000;
    struct timespec nap = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    if (b->o->sleeps) {
        nanosleep(&nap, NULL);
        return;
    }
    work((uint64_t)(times * b->o->compute_us * b->blocks_per_us));
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
        compute(b, 1);
        check(b, zero, weir_zero_after_forward(zero, l), "after_forward");
    }
    for (uint64_t l = layers; l-- > 0;) {
        check(b, zero, weir_zero_before_backward(zero, l), "before_backward");
        compute(b, 2);
        fill(b, weir_zero_grad(zero, l, 0));
        check(b, zero, weir_zero_after_backward(zero, l), "after_backward");
    }
    check(b, zero, weir_zero_end(zero), "end");
}

static void print_json(const struct bench *b, int stage, const struct best *best, const weir_zero_budget *e, double update)
{
    const weir_zero_report *r = &best->r;
    char text[WEIR_ZERO_REPORT_JSON] = "{}";
    weir_zero_report_json(r, text, sizeof text);
    printf("{\"stage\": %d, \"ranks\": %d, \"params\": %llu, \"micros\": %d, \"bf16\": %s, ", stage, weir_comm_size(b->world),
           (unsigned long long)e->parameters, b->o->micros, b->o->bf16 ? "true" : "false");
    if (best->alone_ms >= 0)
        printf("\"alone_ms\": %.3f, \"exposed_part\": %.4f, ", best->alone_ms, 1 - best->alone_ms / ((double)r->total_ns * 1e-6));
    printf("\"update_ns_per_param\": %.3f, %s\n", update, text + 1);
}

static void print(const struct bench *b, int stage, const struct best *best, const weir_zero_budget *e, uint64_t owned)
{
    const weir_zero_report *r = &best->r;
    double update = (double)r->update_ns / (double)owned, ms = 1e-6, mib = 1 << 20;
    if (b->o->json)
        print_json(b, stage, best, e, update);
    else
        printf("%5d %10.1f %10.1f %10.1f %10.1f %10.2f %12.1f %12.1f %12.1f %12.1f", stage, (double)r->total_ns * ms, (double)r->exposed_ns * ms,
               (double)r->hidden_ns * ms, (double)r->update_ns * ms, update, (double)r->memory_peak / mib, (double)r->memory_formula / mib,
               (double)r->gather_bytes / mib, (double)r->reduce_bytes / mib);
    if (!b->o->json && best->alone_ms >= 0)
        printf(" %10.1f %9.1f%%", best->alone_ms, 100 - 100 * best->alone_ms / ((double)r->total_ns * ms));
    if (!b->o->json)
        puts("");
    fflush(stdout);
}

/* One step of an engine. */
static void step(struct bench *b, weir_zero *zero, weir_zero_report *r)
{
    char text[WEIR_ZERO_REPORT_JSON];
    for (int m = 0; m < b->o->micros; m++)
        pass(b, zero);
    check(b, zero, weir_zero_step(zero, NULL, r), "step");
    if (b->report && weir_zero_report_json(r, text, sizeof text) == WEIR_OK)
        fprintf(b->report, "%s\n", text);
}

static weir_zero *make_engine(const struct bench *b, weir_comm *comm, int stage)
{
    weir_zero_options z = engine_options(b, stage);
    weir_zero *zero;
    weir_error err;
    z.secondary_group = comm == b->self ? 0 : z.secondary_group;
    if (weir_zero_create(comm, &z, b->stack.units, (uint64_t)b->o->layers, &zero, &err)) {
        fprintf(stderr, "weir-zero: %s\n", err.message);
        weir_abort(b->ctx, 1, "weir_zero_create");
    }
    return zero;
}

enum { WARM = 2 };

/*
 * The same step of this rank alone: the same computations and gradients, and nothing to move. It updates the whole model, so its time for
 * that is replaced by the time of the other step.
 */
static double alone(struct bench *b, int stage, int64_t update_ns)
{
    weir_zero *zero = make_engine(b, b->self, stage);
    double best = -1;
    for (int k = 0; k < WARM + b->o->steps; k++) {
        weir_zero_report r = {.size = sizeof r};
        check(b, NULL, weir_barrier(b->world), "weir_barrier");
        step(b, zero, &r);
        double ms = (double)(r.total_ns - r.update_ns + update_ns) * 1e-6;
        if (k >= WARM && (best < 0 || ms < best))
            best = ms;
    }
    weir_zero_free(zero);
    return best;
}

static void write_trace(const struct bench *b, weir_zero *zero, int stage)
{
    char path[4096];
    snprintf(path, sizeof path, b->o->stage < 0 ? "%s.%d" : "%s", b->o->trace, stage);
    check(b, zero, weir_zero_trace_write(zero, path), "weir_zero_trace_write");
}

/* The disk alone, for what a step moves. */
static int64_t disk_time(const struct bench *b, weir_zero *zero, int64_t best)
{
    int64_t ns;
    check(b, zero, weir_zero_disk_time(zero, &ns, NULL), "weir_zero_disk_time");
    return best == 0 || ns < best ? ns : best;
}

static void print_disk(const struct bench *b, const weir_zero_report *r, int64_t ns)
{
    double update = (double)r->update_ns * 1e-6, disk = (double)ns * 1e-6;
    if (b->o->json)
        printf("{\"offload\": true, \"disk_bytes\": %llu, \"update_ms\": %.3f, \"disk_ms\": %.3f, \"ratio\": %.3f}\n",
               (unsigned long long)r->disk_bytes, update, disk, update / disk);
    else
        printf("      disk: %.1f MiB read and written in %.1f ms with the rules, %.1f ms without: %.3f times\n",
               (double)r->disk_bytes / (1 << 20), update, disk, update / disk);
    fflush(stdout);
}

static void measure(struct bench *b, int stage)
{
    weir_zero_options z = engine_options(b, stage);
    struct best best = {.r = {.size = sizeof best.r}, .alone_ms = -1};
    weir_zero_budget e = {.size = sizeof e};
    weir_error err;
    int64_t disk = 0;
    weir_zero *zero = make_engine(b, b->world, stage);
    for (int k = 0; k < WARM + b->o->steps; k++) {
        weir_zero_report r = {.size = sizeof r};
        if (k == WARM && b->o->trace)
            check(b, zero, weir_zero_trace(zero, 1 << 16), "weir_zero_trace");
        step(b, zero, &r);
        if (k == WARM || (k > WARM && r.total_ns < best.r.total_ns))
            best.r = r;
        if (k >= WARM && b->o->offload)
            disk = disk_time(b, zero, disk);
    }
    if (b->o->trace)
        write_trace(b, zero, stage);
    weir_zero_free(zero);
    FILE *report = b->report;
    b->report = NULL;
    if (b->o->alone)
        best.alone_ms = alone(b, stage, best.r.update_ns);
    b->report = report;
    check(b, NULL, weir_zero_estimate(&z, b->stack.units, (uint64_t)b->o->layers, weir_comm_size(b->world), &e, &err), "estimate");
    if (weir_comm_rank(b->world) == 0)
        print(b, stage, &best, &e, e.parameters / (stage ? (uint64_t)weir_comm_size(b->world) : 1));
    if (weir_comm_rank(b->world) == 0 && b->o->offload)
        print_disk(b, &best.r, disk);
}

/* PyTorch on as many processes; takes the place of this one. */
static int run_torch(const struct options *o, int ranks)
{
    char path[4096], number[6][24];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 16);
    path[n > 0 ? n : 0] = 0;
    char *name = strrchr(path, '/');
    strcpy(name ? name + 1 : path, "weir-zero-torch");
    const uint64_t values[] = {(uint64_t)ranks, o->params, (uint64_t)o->layers, (uint64_t)o->steps, (uint64_t)o->micros, (uint64_t)o->compute_us};
    for (int i = 0; i < 6; i++)
        snprintf(number[i], sizeof number[i], "%llu", (unsigned long long)values[i]);
    execl(path, "weir-zero-torch", "--ranks", number[0], "--params", number[1], "--layers", number[2], "--steps", number[3], "--micros", number[4],
          "--compute", number[5], o->json ? "--json" : NULL, NULL);
    perror(path);
    return 1;
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
    check(b, NULL, weir_comm_split(b->world, weir_comm_rank(b->world), 0, &b->self), "weir_comm_split");
    if (weir_comm_rank(b->world) == 0 && b->o->report && !(b->report = fopen(b->o->report, "w"))) {
        perror(b->o->report);
        weir_abort(b->ctx, 1, "a report cannot be written");
    }
    calibrate(b);
    if (weir_comm_rank(b->world) == 0 && !b->o->json)
        printf("# %llu parameters in %d layers, %s, %s, %d micro-batches, %d ranks over %s; best of %d steps; ms, MiB, ns a parameter\n"
               "#%4s %10s %10s %10s %10s %10s %12s %12s %12s %12s%s\n",
               (unsigned long long)(b->stack.elements * (uint64_t)b->o->layers), b->o->layers, b->o->rule, b->o->bf16 ? "bf16" : "fp32",
               b->o->micros, weir_comm_size(b->world), weir_comm_transport(b->world, weir_comm_size(b->world) - 1), b->o->steps,
               "stage", "step", "exposed", "hidden", "update", "a param", "mem_peak", "mem_formula", "gathered", "reduced",
               b->o->alone ? "      alone    longer" : "");
    return true;
}

int main(int argc, char **argv)
{
    struct options o;
    static struct bench b;
    int status = 0;
    if (!zero_parse(argc, argv, &o, &status))
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
    bool torch = o.torch && b.world && weir_comm_rank(b.world) == 0;
    int ranks = b.world ? weir_comm_size(b.world) : o.ranks;
    if (b.report && fclose(b.report))
        return 1;
    if (b.ctx && weir_finalize(b.ctx))
        return 1;
    return torch ? run_torch(&o, ranks) : 0;
}
