/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An engine is stopped and goes on with another number of ranks, stage and partition.
 * TEST_OFFLOAD=DIR: its states are on disk; TEST_BF16=1: parameters are bf16, so masters are, too.
 * usage: zero_ckpt_test FOLDER train|resume|model|other STAGE flat|whole RULE
 * "train" makes six steps, saves after the third and leaves the parameters in FOLDER/reference; "resume" makes steps four to six.
 */
#include "tests/multi/multi.h"

#include <math.h>

enum { UNITS = 3, TENSORS = 2, STEPS = 3 };

static const uint64_t shapes[UNITS][TENSORS][2] = {{{37, 11}, {1, 5}}, {{256, 64}, {1, 3}}, {{9, 70}, {1, 300}}};
static weir_zero_tensor tensors[UNITS][TENSORS];
static weir_zero_unit units[UNITS];
static weir_error err;
static weir_type param_type;

static uint64_t count_of(int u, int t)
{
    return shapes[u][t][0] * shapes[u][t][1];
}

static void make_model(bool other)
{
    static const char *const names[] = {"embedding", "layer.0", "head"};
    for (int u = 0; u < UNITS; u++) {
        weir_zero_unit unit = WEIR_ZERO_UNIT_INIT;
        for (int t = 0; t < TENSORS; t++) {
            weir_zero_tensor tensor = WEIR_ZERO_TENSOR_INIT;
            tensor.name = t ? "bias" : "weight";
            tensor.ndim = t ? 1 : 2;
            tensor.shape[0] = t ? shapes[u][t][1] : shapes[u][t][0] + (other && u == 1);
            tensor.shape[1] = t ? 0 : shapes[u][t][1];
            tensor.init = WEIR_ZERO_INIT_NORMAL;
            tensor.init_b = 1.0;
            tensor.flags = u == 2 && t ? WEIR_ZERO_FROZEN : 0;
            tensors[u][t] = tensor;
        }
        unit.name = names[u];
        unit.tensors = tensors[u];
        unit.ntensors = TENSORS;
        units[u] = unit;
    }
}

/* Adds the gradient of (p - target)^2 / 2, the same on all ranks. */
static void add_gradients(weir_zero *zero, int u)
{
    for (int t = 0; t < TENSORS; t++) {
        const char *p = weir_zero_param(zero, (uint64_t)u, (uint64_t)t);
        float *g = weir_zero_grad(zero, (uint64_t)u, (uint64_t)t);
        for (uint64_t i = 0; g && i < count_of(u, t); i++) {
            float value;
            weir_convert(&value, WEIR_FP32, p + i * weir_type_size(param_type), param_type, 1);
            g[i] += value - (float)(i % 17) * 0.125f;
        }
    }
}

#define ZERO(call) CHECK((call) == WEIR_OK, "%s: %s", #call, weir_zero_error(zero)->message)

static void train(weir_zero *zero, int steps)
{
    for (int step = 0; step < steps; step++) {
        ZERO(weir_zero_begin(zero, WEIR_ZERO_TRAIN));
        for (uint64_t u = 0; u < UNITS; u++) {
            ZERO(weir_zero_before_forward(zero, u));
            ZERO(weir_zero_after_forward(zero, u));
        }
        for (uint64_t u = UNITS; u-- > 0;) {
            ZERO(weir_zero_before_backward(zero, u));
            add_gradients(zero, (int)u);
            ZERO(weir_zero_after_backward(zero, u));
        }
        ZERO(weir_zero_end(zero));
        ZERO(weir_zero_step(zero, NULL, NULL));
    }
}

/* The parameters of all ranks, written by rank 0 or compared with what is there. */
static void reference(weir_zero *zero, const char *folder, const char *name, bool write)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = rank == 0 || !write ? fopen(path, write ? "wb" : "rb") : NULL;
    CHECK(file || (write && rank), "%s cannot be opened", path);
    for (int u = 0; u < UNITS; u++) {
        for (int t = 0; t < TENSORS; t++) {
            uint64_t n = count_of(u, t);
            float *now = calloc(n, sizeof *now), *then = calloc(n, sizeof *then);
            ZERO(weir_zero_gather(zero, (uint64_t)u, (uint64_t)t, "param", now));
            if (write && file)
                CHECK(fwrite(now, sizeof *now, n, file) == n, "cannot write");
            else if (file)
                CHECK(fread(then, sizeof *then, n, file) == n, "cannot read");
            for (uint64_t i = 0; !write && i < n; i++)
                CHECK(fabsf(now[i] - then[i]) <= 1e-5f * (1 + fabsf(then[i])),
                      "unit %d tensor %d element %llu: %g, not %g", u, t, (unsigned long long)i, (double)now[i],
                      (double)then[i]);
            free(now);
            free(then);
        }
    }
    if (file)
        CHECK(!fclose(file), "cannot close");
}

static void save(weir_zero *zero, weir_ckpt *ckpt)
{
    weir_ckpt_content more = WEIR_CKPT_CONTENT_INIT;
    weir_ckpt_entry entry = WEIR_CKPT_ENTRY_INIT;
    entry.key = "data";
    entry.json = "[1, 2]";
    more.nentries = 1;
    more.entries = &entry;
    CHECK(weir_zero_save(zero, ckpt, &more, WEIR_ZERO_BACKGROUND, &err) == WEIR_OK, "%s", err.message);
}

static void resume(weir_zero *zero, weir_ckpt *ckpt)
{
    weir_ckpt_source *source;
    weir_ckpt_entry entry = WEIR_CKPT_ENTRY_INIT;
    weir_zero_counters counters = {.size = sizeof counters};
    CHECK(weir_zero_load(zero, ckpt, WEIR_CKPT_LATEST, 0, &source, &err) == WEIR_OK, "%s", err.message);
    CHECK(weir_ckpt_source_entry(source, "data", &entry) == WEIR_OK && !strcmp(entry.json, "[1,2]"),
          "the program's entry");
    weir_ckpt_source_close(source);
    weir_zero_state_counters(zero, &counters);
    CHECK(counters.step == STEPS, "step %llu", (unsigned long long)counters.step);
}

int main(int argc, char **argv)
{
    weir_zero_options options = WEIR_ZERO_OPTIONS_INIT;
    weir_rule_options rule_options = {.size = sizeof rule_options};
    weir_schedule schedule = WEIR_SCHEDULE_INIT;
    weir_group group = WEIR_GROUP_INIT;
    weir_rule_kind kind;
    weir_rule *rule;
    weir_zero *zero;
    weir_ckpt *ckpt;
    if (argc != 6)
        return 2;
    const char *folder = argv[1], *what = argv[2];
    start();
    make_model(!strcmp(what, "other"));
    OK(weir_rule_kind_find(argv[5], &kind));
    OK(weir_rule_defaults(kind, &rule_options));
    CHECK(weir_rule_create(&rule_options, &rule, &err) == WEIR_OK, "%s", err.message);
    schedule.lr = 0.05;
    group.rule = rule;
    group.schedule = &schedule;
    options.stage = (uint64_t)atoi(argv[3]);
    options.partition = strcmp(argv[4], "whole") ? WEIR_ZERO_FLAT : WEIR_ZERO_WHOLE_TENSOR;
    options.groups = &group;
    options.ngroups = 1;
    if (getenv("TEST_OFFLOAD")) {
        options.offload = WEIR_ZERO_OFFLOAD_STATES | (options.stage == 3 ? WEIR_ZERO_OFFLOAD_PARAMS : 0);
        options.offload_path = getenv("TEST_OFFLOAD");
        options.offload_bytes = 65536;
    }
    options.param_type = param_type = getenv("TEST_BF16") ? WEIR_BF16 : WEIR_FP32;
    options.seed = strcmp(what, "train") ? 999 : 1; /* what is read is not what was there */
    CHECK(weir_zero_create(comm, &options, units, UNITS, &zero, &err) == WEIR_OK, "%s", err.message);
    CHECK(weir_ckpt_open(comm, folder, NULL, &ckpt, &err) == WEIR_OK, "%s", err.message);
    if (!strcmp(what, "train")) {
        train(zero, STEPS);
        save(zero, ckpt);
        reference(zero, folder, "middle", true);
        train(zero, STEPS);
        CHECK(weir_ckpt_wait(ckpt, &err) == WEIR_OK, "%s", err.message);
        reference(zero, folder, "reference", true);
    } else if (!strcmp(what, "resume")) {
        resume(zero, ckpt);
        train(zero, STEPS);
        reference(zero, folder, "reference", false);
    } else if (!strcmp(what, "model")) {
        CHECK(weir_zero_load(zero, ckpt, STEPS, WEIR_ZERO_MODEL, NULL, &err) == WEIR_OK, "%s", err.message);
        reference(zero, folder, "middle", false);
    } else { /* another model: a sentence that names the tensor, on all ranks */
        weir_status status = weir_zero_load(zero, ckpt, WEIR_CKPT_LATEST, 0, NULL, &err);
        CHECK(status == WEIR_ERR_INVALID && strstr(err.message, "/layer.0.weight"), "%s: %s", weir_status_name(status),
              err.message);
    }
    OK(weir_ckpt_close(ckpt));
    weir_zero_free(zero);
    weir_rule_free(rule);
    finish(what);
    return 0;
}
