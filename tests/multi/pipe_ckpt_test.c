/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The optimizer of a pipeline, an engine on each stage, is stopped and goes on with other ranks, stages and ZeRO stages, from files and
 * from bytes. The first tensor is on the first and on the last stage.
 * usage: pipe_ckpt_test FOLDER train|resume|bytes STAGES ZERO
 * "train" makes six steps and saves after the third; "resume" and "bytes" make steps four to six. With one stage "train" writes what
 * comes out to FOLDER/../reference, otherwise all compare with that.
 */
#include "tests/multi/multi.h"

#include <math.h>

enum { UNITS = 5, MOST = UNITS + 1, STEPS = 3, N = 700 };

static int stages, stage, unit_of[MOST]; /* of the engine's units, the model's */
static uint64_t nunits;
static weir_zero_tensor tensors[MOST][2];
static weir_zero_unit units[MOST];
static weir_error err;
static weir_comm *shard, *across; /* ranks of this stage; those of this replica on all stages */

/* This stage's units; the last one has unit 0, too, and leaves it to the first one to save it and count it in the norm. */
static void make_model(void)
{
    static const char *const names[UNITS] = {"wte", "layer.0", "layer.1", "layer.2", "norm"};
    for (int u = 0; u < UNITS; u++)
        if (u * stages / UNITS == stage)
            unit_of[nunits++] = u;
    if (stages > 1 && stage == stages - 1)
        unit_of[nunits++] = 0;
    for (uint64_t k = 0; k < nunits; k++) {
        weir_zero_unit unit = WEIR_ZERO_UNIT_INIT;
        for (int t = 0; t < 2; t++) {
            tensors[k][t] = (weir_zero_tensor)WEIR_ZERO_TENSOR_INIT;
            tensors[k][t].name = t ? "bias" : "weight";
            tensors[k][t].ndim = 1;
            tensors[k][t].shape[0] = t ? 5 : (uint64_t)(N + unit_of[k]);
            tensors[k][t].init_a = 0.5 * unit_of[k];
            tensors[k][t].flags = unit_of[k] == 0 && stage ? WEIR_ZERO_NORM_ELSEWHERE : 0;
        }
        unit.name = names[unit_of[k]];
        unit.tensors = tensors[k];
        unit.ntensors = 2;
        units[k] = unit;
    }
}

#define ZERO(call) CHECK((call) == WEIR_OK, "%s: %s", #call, weir_zero_error(zero)->message)

/* Steps towards a target, the same on all ranks. */
static void train(weir_zero *zero)
{
    for (int step = 0; step < STEPS; step++) {
        ZERO(weir_zero_begin(zero, WEIR_ZERO_TRAIN));
        for (uint64_t k = 0; k < nunits; k++) {
            ZERO(weir_zero_before_backward(zero, k));
            for (uint64_t t = 0; t < 2; t++) {
                const float *p = weir_zero_param(zero, k, t);
                float *g = weir_zero_grad(zero, k, t);
                for (uint64_t i = 0; i < tensors[k][t].shape[0]; i++)
                    g[i] += p[i] - (float)(i % 17) * 0.125f;
            }
            ZERO(weir_zero_after_backward(zero, k));
        }
        ZERO(weir_zero_end(zero));
        ZERO(weir_zero_step(zero, NULL, NULL));
    }
}

/* The parameters of all units, written by the one process that has them all, or compared with what is there. */
static void reference(weir_zero *zero, const char *folder, bool write)
{
    char path[512];
    float now[N + UNITS], then[N + UNITS];
    snprintf(path, sizeof path, "%s/../reference", folder);
    FILE *file = !write || rank == 0 ? fopen(path, write ? "wb" : "rb") : NULL;
    CHECK(file || (write && rank), "%s cannot be opened", path);
    for (uint64_t k = 0; k < nunits; k++) {
        size_t n = tensors[k][0].shape[0], place = (size_t)unit_of[k] * sizeof now;
        ZERO(weir_zero_gather(zero, k, 0, "param", now));
        if (file)
            CHECK(!fseek(file, (long)place, SEEK_SET), "cannot seek");
        if (file && write)
            CHECK(fwrite(now, sizeof *now, n, file) == n, "cannot write");
        if (write)
            continue;
        CHECK(fread(then, sizeof *then, n, file) == n, "cannot read");
        for (size_t i = 0; i < n; i++)
            CHECK(fabsf(now[i] - then[i]) <= 1e-5f * (1 + fabsf(then[i])), "%s, element %d: %g, not %g", units[k].name, (int)i, (double)now[i],
                  (double)then[i]);
    }
    if (file)
        CHECK(!fclose(file), "cannot close");
}

static weir_zero *make_engine(const weir_group *group, uint64_t zero_stage)
{
    weir_zero_options options = WEIR_ZERO_OPTIONS_INIT;
    weir_zero *zero;
    options.stage = zero_stage;
    options.groups = group;
    options.ngroups = 1;
    options.clip_norm = 20;
    options.norm_comm = stages > 1 ? across : NULL;
    CHECK(weir_zero_create(shard, &options, units, nunits, &zero, &err) == WEIR_OK, "%s", err.message);
    return zero;
}

static void save(weir_zero *zero, weir_ckpt *ckpt)
{
    weir_ckpt_content more = WEIR_CKPT_CONTENT_INIT;
    weir_ckpt_entry entry = WEIR_CKPT_ENTRY_INIT;
    entry.key = "data";
    entry.json = "[1, 2]";
    more.nentries = stage == 0;
    more.entries = &entry;
    CHECK(weir_zero_save(zero, ckpt, &more, WEIR_ZERO_PIPELINE, &err) == WEIR_OK, "%s", err.message);
}

static void load(weir_zero *zero, weir_ckpt *ckpt)
{
    weir_ckpt_source *source;
    weir_ckpt_entry entry = WEIR_CKPT_ENTRY_INIT;
    weir_zero_counters counters = {.size = sizeof counters};
    CHECK(weir_zero_load(zero, ckpt, WEIR_CKPT_LATEST, 0, &source, &err) == WEIR_OK, "%s", err.message);
    CHECK(weir_ckpt_source_entry(source, "data", &entry) == WEIR_OK && !strcmp(entry.json, "[1,2]"), "the program's entry");
    weir_ckpt_source_close(source);
    weir_zero_state_counters(zero, &counters);
    CHECK(counters.step == STEPS, "step %llu", (unsigned long long)counters.step);
}

/* The bytes of all ranks of all stages, one behind the other. */
static void *all_bytes(weir_zero *zero, uint64_t *size_all)
{
    uint64_t mine, *counts = calloc((size_t)size, sizeof *counts);
    ZERO(weir_zero_to_bytes(zero, NULL, 0, &mine));
    OK(weir_allgather(comm, &mine, counts, 1, WEIR_UINT64));
    *size_all = 0;
    for (int r = 0; r < size; r++)
        *size_all += counts[r];
    void *own = malloc(mine), *all = malloc(*size_all);
    CHECK(own && all, "no memory");
    ZERO(weir_zero_to_bytes(zero, own, mine, &mine));
    OK(weir_allgatherv(comm, own, all, counts, NULL, WEIR_UINT8));
    free(own);
    free(counts);
    return all;
}

/* Three steps, and then another engine goes on: with everything on each rank. */
static weir_zero *from_bytes(weir_zero *zero, const weir_group *group)
{
    uint64_t n;
    train(zero);
    void *bytes = all_bytes(zero, &n);
    weir_zero_free(zero);
    stages = 1;
    stage = 0;
    nunits = 0;
    shard = comm;
    make_model();
    zero = make_engine(group, 1);
    ZERO(weir_zero_from_bytes(zero, bytes, n));
    free(bytes);
    return zero;
}

int main(int argc, char **argv)
{
    weir_rule_options rule_options = {.size = sizeof rule_options};
    weir_schedule schedule = WEIR_SCHEDULE_INIT;
    weir_group group = WEIR_GROUP_INIT;
    weir_rule *rule;
    weir_ckpt *ckpt;
    if (argc != 5)
        return 2;
    start();
    stages = atoi(argv[3]);
    bool writes = stages == 1 && !strcmp(argv[2], "train");
    stage = rank * stages / size;
    weir_comm *made[2];
    OK(weir_comm_split(comm, stage, rank, &made[0]));
    OK(weir_comm_split(comm, rank % (size / stages), rank, &made[1]));
    shard = made[0];
    across = made[1];
    make_model();
    OK(weir_rule_defaults(WEIR_RULE_ADAMW, &rule_options));
    CHECK(weir_rule_create(&rule_options, &rule, &err) == WEIR_OK, "%s", err.message);
    schedule.lr = 0.05;
    group.rule = rule;
    group.schedule = &schedule;
    weir_zero *zero = make_engine(&group, (uint64_t)atoi(argv[4]));
    CHECK(weir_ckpt_open(comm, argv[1], NULL, &ckpt, &err) == WEIR_OK, "%s", err.message);
    if (!strcmp(argv[2], "bytes"))
        zero = from_bytes(zero, &group);
    else if (!strcmp(argv[2], "train"))
        train(zero), save(zero, ckpt);
    else
        load(zero, ckpt);
    train(zero);
    reference(zero, argv[1], writes);
    OK(weir_ckpt_close(ckpt));
    weir_zero_free(zero);
    weir_rule_free(rule);
    OK(weir_comm_free(made[0]));
    OK(weir_comm_free(made[1]));
    finish(argv[2]);
    return 0;
}
