/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A small network, trained by the ZeRO engine on any number of ranks that divides 12, against the losses, norms and weights that
 * PyTorch had (tests/fixtures/zero/torch.txt): stages 0 to 3, the samples divided among ranks and micro-batches.
 *
 * zero_torch_test FILE
 */
#include <math.h>

#include "tests/multi/multi.h"

enum { LAYERS = 3, SAMPLES = 12, STEPS = 10, WIDE = 16 };

static const int sizes[LAYERS + 1] = {6, 16, 16, 4};

static uint32_t mix(uint32_t x)
{
    x = (x ^ (x >> 16)) * 0x7feb352du;
    x = (x ^ (x >> 15)) * 0x846ca68bu;
    return x ^ (x >> 16);
}

static float value(uint32_t seed, uint64_t i)
{
    return (float)((mix(seed * 0x9e3779b9u + (uint32_t)i) >> 8) / 16777216.0 - 0.5);
}

static void init(void *user, uint64_t unit, uint64_t tensor, uint64_t first, uint64_t n, float *values)
{
    (void)user;
    for (uint64_t i = 0; i < n; i++)
        values[i] = value((uint32_t)(10 + 2 * unit + tensor), first + i);
}

/* ---- the network: a[k + 1] = tanh(W a[k] + b), the last without tanh ---- */

struct sample {
    float a[LAYERS + 1][WIDE], d[WIDE];
};

static void layer_forward(weir_zero *zero, int k, struct sample *s)
{
    const float *w = weir_zero_param(zero, (uint64_t)k, 0), *b = weir_zero_param(zero, (uint64_t)k, 1);
    for (int i = 0; i < sizes[k + 1]; i++) {
        double sum = b[i];
        for (int j = 0; j < sizes[k]; j++)
            sum += (double)w[i * sizes[k] + j] * s->a[k][j];
        s->a[k + 1][i] = (float)(k < LAYERS - 1 ? tanh(sum) : sum);
    }
}

/* d is the gradient of the layer's output, then that of its input. */
static void layer_backward(weir_zero *zero, int k, struct sample *s)
{
    const float *w = weir_zero_param(zero, (uint64_t)k, 0);
    float *gw = weir_zero_grad(zero, (uint64_t)k, 0), *gb = weir_zero_grad(zero, (uint64_t)k, 1), d[WIDE] = {0};
    for (int i = 0; i < sizes[k + 1]; i++) {
        float g = k < LAYERS - 1 ? s->d[i] * (1 - s->a[k + 1][i] * s->a[k + 1][i]) : s->d[i];
        gb[i] += g;
        for (int j = 0; j < sizes[k]; j++) {
            gw[i * sizes[k] + j] += g * s->a[k][j];
            d[j] += g * w[i * sizes[k] + j];
        }
    }
    memcpy(s->d, d, sizeof d);
}

/* One micro-batch of n samples from `first` on; returns its mean loss. */
static double run_pass(weir_zero *zero, int step, int first, int n)
{
    struct sample s[SAMPLES];
    double loss = 0;
    OK(weir_zero_begin(zero, WEIR_ZERO_TRAIN));
    for (int i = 0; i < n; i++)
        for (int j = 0; j < sizes[0]; j++)
            s[i].a[0][j] = value((uint32_t)(100 + step), (uint64_t)((first + i) * sizes[0] + j));
    for (int k = 0; k < LAYERS; k++) {
        OK(weir_zero_before_forward(zero, (uint64_t)k));
        for (int i = 0; i < n; i++)
            layer_forward(zero, k, &s[i]);
        OK(weir_zero_after_forward(zero, (uint64_t)k));
    }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < sizes[LAYERS]; j++) {
            double e = s[i].a[LAYERS][j] - value((uint32_t)(200 + step), (uint64_t)((first + i) * sizes[LAYERS] + j));
            loss += e * e / (n * sizes[LAYERS]);
            s[i].d[j] = (float)(2 * e / (n * sizes[LAYERS]));
        }
    for (int k = LAYERS; k-- > 0;) {
        OK(weir_zero_before_backward(zero, (uint64_t)k));
        for (int i = 0; i < n; i++)
            layer_backward(zero, k, &s[i]);
        OK(weir_zero_after_backward(zero, (uint64_t)k));
    }
    OK(weir_zero_end(zero));
    return loss;
}

/* ---- the file ---- */

struct record {
    char rule[32];
    double clip, loss[STEPS], norm[STEPS];
    float w[LAYERS][WIDE * WIDE], b[LAYERS][WIDE];
};

static bool read_record(FILE *f, struct record *r)
{
    if (fscanf(f, " case %31s clip=%lf", r->rule, &r->clip) != 2)
        return false;
    for (int i = 0; i < STEPS; i++)
        CHECK(fscanf(f, "%lf %lf", &r->loss[i], &r->norm[i]) == 2, "a step is missing");
    for (int k = 0; k < LAYERS; k++) {
        for (int i = 0; i < sizes[k] * sizes[k + 1]; i++)
            CHECK(fscanf(f, "%f", &r->w[k][i]) == 1, "a weight is missing");
        for (int i = 0; i < sizes[k + 1]; i++)
            CHECK(fscanf(f, "%f", &r->b[k][i]) == 1, "a weight is missing");
    }
    return true;
}

/* ---- the test ---- */

static void close_to(double is, double wanted, const char *what, int number)
{
    CHECK(fabs(is - wanted) <= 1e-5 * (1 + fabs(wanted)), "%s %d is %.9g, PyTorch had %.9g", what, number, is, wanted);
}

static void check_weights(weir_zero *zero, const struct record *r)
{
    float w[WIDE * WIDE];
    for (int k = 0; k < LAYERS; k++) {
        OK(weir_zero_gather(zero, (uint64_t)k, 0, "param", w));
        for (int i = 0; i < sizes[k] * sizes[k + 1]; i++)
            close_to(w[i], r->w[k][i], "weight", i);
        OK(weir_zero_gather(zero, (uint64_t)k, 1, "param", w));
        for (int i = 0; i < sizes[k + 1]; i++)
            close_to(w[i], r->b[k][i], "bias", i);
    }
}

static void train(weir_zero *zero, const struct record *r, int micros)
{
    int n = SAMPLES / size / micros;
    for (int step = 0; step < STEPS; step++) {
        weir_zero_report report = {.size = sizeof report};
        double loss = 0;
        for (int m = 0; m < micros; m++)
            loss += run_pass(zero, step, (rank * micros + m) * n, n) / micros / size;
        OK(weir_zero_step(zero, NULL, &report));
        OK(weir_allreduce(comm, WEIR_IN_PLACE, &loss, 1, WEIR_FP64, WEIR_SUM));
        close_to(loss, r->loss[step], "loss", step);
        close_to(report.norm, r->norm[step], "norm", step);
    }
    check_weights(zero, r);
}

static void make_group(const struct record *r, weir_group *group, weir_schedule *schedule)
{
    weir_rule_options o = {.size = sizeof o};
    weir_rule_kind kind;
    weir_rule *rule;
    OK(weir_rule_kind_find(r->rule, &kind));
    OK(weir_rule_defaults(kind, &o));
    o.isa = NULL;
    o.momentum = kind == WEIR_RULE_SGD ? 0.9 : 0;
    OK(weir_rule_create(&o, &rule, NULL));
    schedule->lr = kind == WEIR_RULE_SGD ? 0.1 : kind == WEIR_RULE_ADAMW ? 0.02 : 0.01;
    group->weight_decay = kind == WEIR_RULE_SGD ? 0.01 : kind == WEIR_RULE_ADAMW ? 0.1 : 0;
    group->rule = rule;
    group->schedule = schedule;
}

static void run_record(const struct record *r, uint64_t stage, int micros)
{
    static const char *const names[LAYERS] = {"first", "second", "third"};
    weir_zero_unit units[LAYERS], unit = WEIR_ZERO_UNIT_INIT;
    weir_zero_tensor tensors[LAYERS][2], tensor = WEIR_ZERO_TENSOR_INIT;
    weir_zero_options o = WEIR_ZERO_OPTIONS_INIT;
    weir_group group = WEIR_GROUP_INIT;
    weir_schedule schedule = WEIR_SCHEDULE_INIT;
    weir_zero *zero;
    weir_error err;
    tensor.init = WEIR_ZERO_INIT_CALLBACK;
    tensor.init_fn = init;
    for (int k = 0; k < LAYERS; k++) {
        units[k] = unit;
        units[k].name = names[k];
        units[k].tensors = tensors[k];
        units[k].ntensors = 2;
        tensors[k][0] = tensors[k][1] = tensor;
        tensors[k][0].name = "weight";
        tensors[k][0].ndim = 2;
        tensors[k][0].shape[0] = (uint64_t)sizes[k + 1];
        tensors[k][0].shape[1] = (uint64_t)sizes[k];
        tensors[k][1].name = "bias";
        tensors[k][1].ndim = 1;
        tensors[k][1].shape[0] = (uint64_t)sizes[k + 1];
    }
    make_group(r, &group, &schedule);
    o.stage = stage;
    o.groups = &group;
    o.ngroups = 1;
    o.accumulate = (uint64_t)micros;
    o.clip_norm = r->clip;
    CHECK(weir_zero_create(comm, &o, units, LAYERS, &zero, &err) == WEIR_OK, "%s", err.message);
    train(zero, r, micros);
    weir_zero_free(zero);
    weir_rule_free((weir_rule *)group.rule);
}

int main(int argc, char **argv)
{
    struct record r;
    int records = 0;
    start();
    FILE *f = fopen(argc > 1 ? argv[1] : "torch.txt", "r");
    CHECK(f && SAMPLES % size == 0, "no file, or %d ranks do not divide %d", size, SAMPLES);
    for (; read_record(f, &r); records++)
        for (uint64_t stage = 0; stage <= 3; stage++)
            for (int micros = 1; micros * size <= SAMPLES && SAMPLES % (micros * size) == 0; micros++)
                run_record(&r, stage, micros);
    CHECK(records == 4, "%d cases in the file", records);
    fclose(f);
    finish("PyTorch's numbers");
    return 0;
}
