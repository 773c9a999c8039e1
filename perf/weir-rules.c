/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weir-rules: time and bytes of an update for each parameter, beside a stream that reads and writes the same arrays, the two in
 * turn. The ratio is the stream's time by the rule's.
 */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <weir/weir.h>

#include "perf/weir-rules.h"

enum { PASSES = 3, SAMPLES = 2000, MUON_SIDE = 512 };

struct options {
    uint64_t n;
    double seconds; /* for a row */
    const char *isa, *rules;
    bool json;
};

/* A rule and the passes that its update makes. o is added to the pass that writes w where there is a copy in low precision. */
struct subject {
    weir_rule_kind kind;
    bool momentum;
    pass passes[PASSES];
};

static const struct subject subjects[] = {
    {WEIR_RULE_SGD, false, {"w+g-"}},
    {WEIR_RULE_SGD, true, {"w+a+g-"}},
    {WEIR_RULE_ADAGRAD, false, {"w+a+g-"}},
    {WEIR_RULE_ADAM, false, {"w+a+b+g-"}},
    {WEIR_RULE_ADAMW, false, {"w+a+b+g-"}},
    {WEIR_RULE_ADAMW8, false, {"w+g-8+9+"}},
    {WEIR_RULE_LION, false, {"w+a+g-"}},
    {WEIR_RULE_LAMB, false, {"a+b+w-g-", "w+a-b-"}},
    {WEIR_RULE_LARS, false, {"w-g-", "w+a+g-"}},
    {WEIR_RULE_ADAFACTOR, false, {"w-g-", "g-", "w+g-"}},
    {WEIR_RULE_MUON, true, {"a+g-x=", "w+x-"}},
};

/* Types of gradient and copy; WEIR_FP32 as copy: none. */
static const struct precision {
    weir_type grad, out;
} precisions[] = {{WEIR_FP32, WEIR_FP32}, {WEIR_FP32, WEIR_BF16}, {WEIR_BF16, WEIR_BF16}, {WEIR_FP16, WEIR_FP16}};

struct row {
    const struct subject *subject;
    struct precision precision;
    weir_rule *rule;
    uint64_t n, rows;
    void *arrays[ARRAYS], *states[WEIR_RULE_STATES_MAX], *work;
    char passes[PASSES][16];
    unsigned bytes; /* an element */
    int samples;
    double *ours, *streams, *ratios; /* seconds; stream by ours */
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int fail(const char *what)
{
    fprintf(stderr, "weir-rules: %s\n", what);
    return 1;
}

/* Touched memory, so that no page is made while it is measured; freed by free(). */
static void *memory(size_t bytes)
{
    void *p = aligned_alloc(4096, (bytes + 8191) / 4096 * 4096);
    if (p)
        memset(p, 0, bytes + 4096);
    return p;
}

static void fill(float *x, uint64_t n, float scale)
{
    uint32_t seed = 1;
    for (uint64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(int32_t)seed * 0x1p-31f * scale;
    }
}

static bool make_gradient(struct row *r)
{
    float *wide = memory(r->n * sizeof(float));
    r->arrays[GRAD] = memory(r->n * weir_type_size(r->precision.grad));
    if (wide && r->arrays[GRAD]) {
        fill(wide, r->n, 0.01f);
        weir_convert(r->arrays[GRAD], r->precision.grad, wide, WEIR_FP32, r->n);
    }
    free(wide);
    return r->arrays[GRAD];
}

/* States are the arrays that the passes name: those of 4 bytes an element a and b, those of one 8 and 9, others none. */
static bool make_states(struct row *r)
{
    enum array words = STATE_A, bytes = BYTES_A;
    for (unsigned i = 0; i < weir_rule_nstates(r->rule); i++) {
        weir_rule_state state = {.size = sizeof state};
        weir_rule_state_info(r->rule, i, &state);
        uint64_t count = weir_rule_state_count(r->rule, i, r->rows, r->n / r->rows);
        r->states[i] = memory(count * weir_type_size((weir_type)state.type));
        if (!r->states[i])
            return false;
        if (state.span == 1)
            r->arrays[weir_type_size((weir_type)state.type) == 1 ? bytes++ : words++] = r->states[i];
    }
    return true;
}

static bool make_arrays(struct row *r)
{
    r->arrays[MASTER] = memory(r->n * sizeof(float));
    r->arrays[OUT] = memory(r->n * 2);
    r->work = memory(weir_rule_work_bytes(r->rule, r->rows, r->n / r->rows));
    r->arrays[WORK] = r->work;
    r->ours = malloc(SAMPLES * sizeof(double));
    r->streams = malloc(SAMPLES * sizeof(double));
    r->ratios = malloc(SAMPLES * sizeof(double));
    if (!r->arrays[MASTER] || !r->arrays[OUT] || !r->work || !r->ours || !r->streams || !r->ratios)
        return false;
    fill(r->arrays[MASTER], r->n, 1);
    return make_gradient(r) && make_states(r);
}

static void free_row(struct row *r)
{
    for (int i = 0; i < WEIR_RULE_STATES_MAX; i++)
        free(r->states[i]);
    free(r->arrays[MASTER]);
    free(r->arrays[GRAD]);
    free(r->arrays[OUT]);
    free(r->work);
    free(r->ours);
    free(r->streams);
    free(r->ratios);
    weir_rule_free(r->rule);
}

static void name_passes(struct row *r)
{
    unsigned grad_bytes = (unsigned)weir_type_size(r->precision.grad);
    for (int i = 0; i < PASSES && r->subject->passes[i]; i++) {
        bool copies = r->precision.out != WEIR_FP32 && !strncmp(r->subject->passes[i], "w+", 2);
        snprintf(r->passes[i], sizeof r->passes[i], "%s%s", r->subject->passes[i], copies ? "o=" : "");
        r->bytes += pass_bytes(r->passes[i], grad_bytes);
    }
}

static bool run_streams(const struct row *r)
{
    bool all = true;
    for (int i = 0; i < PASSES && r->passes[i][0]; i++)
        all &= pass_run(r->passes[i], (unsigned)weir_type_size(r->precision.grad), r->arrays, r->n);
    return all;
}

static weir_status run_rule(const struct row *r, uint64_t t, weir_error *error)
{
    weir_rule_step step = WEIR_RULE_STEP_INIT;
    weir_rule_data data = WEIR_RULE_DATA_INIT;
    step.step = t;
    step.lr = 1e-4;
    step.weight_decay = 0.01;
    data.master = r->arrays[MASTER];
    data.grad = r->arrays[GRAD];
    data.grad_type = r->precision.grad;
    data.out = r->precision.out != WEIR_FP32 ? r->arrays[OUT] : NULL;
    data.out_type = data.out ? r->precision.out : WEIR_BF16;
    memcpy(data.states, r->states, sizeof data.states);
    return weir_rule_update_tensor(r->rule, &step, &data, 0, r->rows, r->n / r->rows, r->work, error);
}

static weir_status measure(struct row *r, const struct options *o, weir_error *error)
{
    weir_status status = run_rule(r, 1, error);
    bool streams = run_streams(r);
    double end = now() + o->seconds;
    for (uint64_t t = 2; status == WEIR_OK && r->samples < SAMPLES && (r->samples < 3 || now() < end); t++) {
        double start = now();
        status = run_rule(r, t, error);
        double middle = now();
        if (streams)
            run_streams(r);
        double last = now();
        r->ours[r->samples] = middle - start;
        r->streams[r->samples] = streams ? last - middle : NAN;
        r->ratios[r->samples++] = (last - middle) / (middle - start);
    }
    return status;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double at(double *sorted, int n, double share)
{
    return sorted[(int)((n - 1) * share + 0.5)];
}

static void print_row(struct row *r, const struct options *o)
{
    double per = 1e9 / (double)r->n;
    qsort(r->ours, (size_t)r->samples, sizeof(double), by_size);
    qsort(r->streams, (size_t)r->samples, sizeof(double), by_size);
    qsort(r->ratios, (size_t)r->samples, sizeof(double), by_size);
    double least = r->ours[0] * per, median = at(r->ours, r->samples, 0.5) * per,
           p99 = at(r->ours, r->samples, 0.99) * per;
    double stream_least = r->streams[0] * per, stream = at(r->streams, r->samples, 0.5) * per,
           ratio = at(r->ratios, r->samples, 0.5);
    const char *name = weir_rule_kind_name(r->subject->kind), *grad = weir_type_name(r->precision.grad);
    const char *out = r->precision.out == WEIR_FP32 ? "none" : weir_type_name(r->precision.out);
    char text[32];
    snprintf(text, sizeof text, "%s%s", name,
             r->subject->kind == WEIR_RULE_SGD && r->subject->momentum ? "+momentum" : "");
    if (o->json)
        printf("{\"rule\": \"%s\", \"grad\": \"%s\", \"copy\": \"%s\", \"n\": %llu, \"bytes\": %u, \"min_ns\": %.6g, "
               "\"median_ns\": %.6g, "
               "\"p99_ns\": %.6g, \"stream_min_ns\": %.6g, \"stream_median_ns\": %.6g, \"gb_s\": %.6g, \"ratio\": "
               "%.6g, \"samples\": %d}",
               text, grad, out, (unsigned long long)r->n, r->bytes, least, median, p99, stream_least, stream,
               r->bytes / median, ratio, r->samples);
    else
        printf("%-14s %-5s %-5s %10llu %6u %8.3f %8.3f %8.3f %8.3f %8.3f %7.1f %6.2f\n", text, grad, out,
               (unsigned long long)r->n, r->bytes, least, median, p99, stream_least, stream, r->bytes / median, ratio);
    fflush(stdout);
}

static void print_head(const struct options *o, const char *isa)
{
    char name[128], features[256];
    const char *core = weir_blas_core();
    processor_name(name, sizeof name);
    processor_features(features, sizeof features);
    if (o->json) {
        printf("{\n  \"weir\": \"%s\",\n  \"processor\": \"%s\",\n  \"features\": \"%s\",\n  \"kernels\": \"%s\",\n  "
               "\"openblas\": ",
               weir_version(), name, features, isa);
        printf(core ? "\"%s\"" : "null", core);
        printf(",\n  \"results\": [");
        return;
    }
    printf("# weir-rules %s on %s, %ld cpus; kernels for %s; OpenBLAS core %s\n# features: %s\n", weir_version(), name,
           sysconf(_SC_NPROCESSORS_ONLN), isa, core ? core : "(not found)", features);
    puts("# nanoseconds and bytes for each parameter, one thread; stream: loops that read and write the same arrays, "
         "in turn with\n"
         "# the rule; ratio: the median of stream / rule, 1 is as fast as memory");
    printf("%-14s %-5s %-5s %10s %6s %8s %8s %8s %8s %8s %7s %6s\n", "rule", "grad", "copy", "parameters", "bytes",
           "min", "median", "p99", "s.min", "s.median", "GB/s", "ratio");
}

static bool wanted(const struct options *o, const char *name)
{
    size_t length = strlen(name);
    for (const char *p = o->rules; p && *p; p += strcspn(p, ","), p += *p == ',')
        if (strcspn(p, ",") == length && !strncmp(p, name, length))
            return true;
    return !o->rules;
}

/* 0: there is a row; 1: there cannot be one here, which is said; -1: an error, which is said */
static int open_row(struct row *r, const struct options *o)
{
    weir_rule_options options = {.size = sizeof options};
    weir_error error;
    weir_rule_defaults(r->subject->kind, &options);
    options.isa = o->isa;
    if (r->subject->kind == WEIR_RULE_SGD)
        options.momentum = r->subject->momentum ? 0.9 : 0;
    weir_status status = weir_rule_create(&options, &r->rule, &error);
    if (status != WEIR_OK) {
        fprintf(stderr, "weir-rules: %s; %s\n", error.message, error.advice);
        return status == WEIR_ERR_UNSUPPORTED && r->subject->kind == WEIR_RULE_MUON ? 1 : -1;
    }
    r->n = o->n;
    r->rows = r->subject->kind == WEIR_RULE_ADAFACTOR && o->n >= 4096 ? 1024 : 1;
    if (r->subject->kind == WEIR_RULE_MUON)
        r->rows = MUON_SIDE, r->n = MUON_SIDE * MUON_SIDE;
    r->n = r->n / r->rows * r->rows;
    name_passes(r);
    return make_arrays(r) ? 0 : fail("out of memory") - 2;
}

static int one_row(const struct subject *subject, struct precision precision, const struct options *o, bool *begun)
{
    struct row r = {.subject = subject, .precision = precision};
    weir_error error;
    int opened = open_row(&r, o);
    if (opened == 0) {
        if (measure(&r, o, &error) != WEIR_OK) {
            fprintf(stderr, "weir-rules: %s\n", error.message);
            opened = -1;
        } else {
            if (o->json)
                printf("%s\n    ", *begun ? "," : "");
            *begun = true;
            print_row(&r, o);
        }
    }
    free_row(&r);
    return opened < 0;
}

static int run(const struct options *o)
{
    bool begun = false;
    int failed = 0;
    weir_rule_options got = {.size = sizeof got}, options = {.size = sizeof options};
    weir_rule *rule;
    weir_error error;
    weir_rule_defaults(WEIR_RULE_SGD, &options);
    options.isa = o->isa;
    if (weir_rule_create(&options, &rule, &error) != WEIR_OK)
        return fail(error.message);
    weir_rule_get_options(rule, &got);
    print_head(o, got.isa);
    weir_rule_free(rule);
    for (size_t s = 0; s < sizeof subjects / sizeof subjects[0]; s++)
        for (size_t p = 0; p < sizeof precisions / sizeof precisions[0]; p++)
            if (wanted(o, weir_rule_kind_name(subjects[s].kind)) && (p == 0 || subjects[s].kind == WEIR_RULE_ADAMW))
                failed |= one_row(&subjects[s], precisions[p], o, &begun);
    if (o->json)
        puts("\n  ]\n}");
    return failed;
}

static const char usage_text[] =
    "usage: weir-rules [-n PARAMETERS] [-r RULES] [--isa SET] [--time SECONDS] [--json]\n"
    "\n"
    "Measures the update rules on one core: nanoseconds and bytes for each parameter, beside a stream that\n"
    "reads and writes the same arrays.\n"
    "\n"
    "  -n, --parameters N   how many (10M); K and M are thousands and millions\n"
    "  -r, --rules LIST     these only, separated by commas: sgd,adagrad,adam,adamw,adamw8,lion,lamb,lars,\n"
    "                       adafactor,muon\n"
    "      --isa SET        kernels for generic, avx2 or avx512; by default the best that there are\n"
    "      --time SECONDS   for a line (0.5)\n"
    "      --json           one JSON object\n"
    "  -h, --help           this text\n";

static bool parse_count(const char *text, uint64_t *n)
{
    char *end;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    unsigned long long unit = *end == 'K' ? 1000 : *end == 'M' ? 1000000 : 1;
    *n = v * unit;
    return end != text && *text != '-' && !errno && !end[unit != 1] && v && v <= 1000000000000 / unit;
}

static bool parse_rules(const char *list)
{
    for (const char *p = list; *p; p += strcspn(p, ","), p += *p == ',') {
        char name[32];
        weir_rule_kind kind;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(p, ","), p);
        if (weir_rule_kind_find(name, &kind) != WEIR_OK)
            return false;
    }
    return *list;
}

int main(int argc, char **argv)
{
    static const struct option longs[] = {{"parameters", required_argument, NULL, 'n'},
                                          {"rules", required_argument, NULL, 'r'},
                                          {"isa", required_argument, NULL, 'i'},
                                          {"time", required_argument, NULL, 't'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    struct options o = {.n = 10000000, .seconds = 0.5};
    bool good = true;
    char *end;
    int c;
    while (good && (c = getopt_long(argc, argv, "n:r:h", longs, NULL)) != -1) {
        if (c == 'n') {
            good = parse_count(optarg, &o.n);
        } else if (c == 'r') {
            o.rules = optarg;
            good = parse_rules(optarg);
        } else if (c == 'i') {
            o.isa = optarg;
        } else if (c == 't') {
            o.seconds = strtod(optarg, &end);
            good = end != optarg && !*end && o.seconds > 0 && o.seconds <= 3600;
        } else if (c == 'j') {
            o.json = true;
        } else if (c == 'h') {
            fputs(usage_text, stdout);
            return 0;
        } else {
            good = false;
        }
    }
    if (!good || optind < argc) {
        fputs(usage_text, stderr);
        return 2;
    }
    return run(&o);
}
