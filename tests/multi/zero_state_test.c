/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ZeRO engine beside its loop: given gradients, local shards, learning rates, replicas made the same, early stop, losses, states as
 * bytes, reports and traces.
 *
 * zero_state_test FOLDER (empty; for traces)
 */
#include "tests/multi/zero_model.h"

enum { ELEMENTS_MAX = 4096, STEPS = 3 };

static weir_rule *rule;
static weir_schedule schedule = WEIR_SCHEDULE_INIT;
static weir_group group = WEIR_GROUP_INIT;
static struct model model;

#define DO(call) CHECK((call) == WEIR_OK, "%s: %s", #call, weir_zero_error(zero)->message)

static weir_zero *engine(uint64_t stage, uint64_t flags, uint64_t shard_group)
{
    weir_zero_options o = WEIR_ZERO_OPTIONS_INIT;
    weir_zero *zero;
    weir_error err;
    o.stage = stage;
    o.flags = flags;
    o.groups = &group;
    o.ngroups = 1;
    o.seed = 5;
    o.bucket_bytes = 4000;
    o.shard_group = shard_group;
    CHECK(weir_zero_create(comm, &o, model.units, UNITS, &zero, &err) == WEIR_OK, "%s", err.message);
    return zero;
}

static float gradient(int step, int r, int u, uint64_t t, uint64_t e)
{
    return noise((uint32_t)(step * 100 + r * 10 + u), (uint32_t)(e * 4 + t));
}

/* One step whose gradients are noise. */
static void train(weir_zero *zero, int step, const weir_zero_step_options *options, weir_zero_report *report)
{
    DO(weir_zero_begin(zero, WEIR_ZERO_TRAIN));
    for (uint64_t u = 0; u < UNITS; u++) {
        DO(weir_zero_before_forward(zero, u));
        DO(weir_zero_after_forward(zero, u));
    }
    for (int u = UNITS; u-- > 0;) {
        DO(weir_zero_before_backward(zero, (uint64_t)u));
        for (uint64_t t = 0; t < model.units[u].ntensors; t++) {
            float *g = weir_zero_grad(zero, (uint64_t)u, t);
            for (uint64_t e = 0; g && e < elements(&model.tensors[u][t]); e++)
                g[e] += gradient(step, rank, u, t, e);
        }
        DO(weir_zero_after_backward(zero, (uint64_t)u));
    }
    DO(weir_zero_end(zero));
    DO(weir_zero_step(zero, options, report));
}

static void compare(weir_zero *a, weir_zero *b, const char *kind, double tolerance, const char *what)
{
    static float x[ELEMENTS_MAX], y[ELEMENTS_MAX];
    for (int u = 0; u < UNITS; u++)
        for (uint64_t t = 0; t < model.units[u].ntensors; t++) {
            if (strcmp(kind, "param") && model.tensors[u][t].flags & WEIR_ZERO_FROZEN)
                continue;
            OK(weir_zero_gather(a, (uint64_t)u, t, kind, x));
            OK(weir_zero_gather(b, (uint64_t)u, t, kind, y));
            for (uint64_t e = 0; e < elements(&model.tensors[u][t]); e++)
                CHECK(fabsf(x[e] - y[e]) <= tolerance * (1 + fabsf(x[e])), "%s: %s of unit %d, tensor %d, element %d: %g and %g", what, kind, u,
                      (int)t, (int)e, x[e], y[e]);
        }
}

/* ---- given gradients ---- */

/* The gradients of the last step of one engine are given to another, which then is the same. */
static void give_all(weir_zero *from, weir_zero *zero)
{
    static float values[ELEMENTS_MAX];
    for (int u = 0; u < UNITS; u++)
        for (uint64_t t = 0; t < model.units[u].ntensors; t++) {
            if (model.tensors[u][t].flags & WEIR_ZERO_FROZEN || model.tensors[u][t].tied_unit >= 0)
                continue;
            OK(weir_zero_gather(from, (uint64_t)u, t, "grad", values));
            DO(weir_zero_scatter(zero, (uint64_t)u, t, "grad", values));
        }
}

static void given(uint64_t stage)
{
    weir_zero *from = engine(stage, 0, 0), *zero = engine(3 - stage, 0, 0);
    weir_zero_report a = {.size = sizeof a}, b = {.size = sizeof b};
    CHECK(weir_zero_apply(zero, NULL, NULL) == WEIR_ERR_INVALID, "a step without any gradients");
    for (int step = 0; step < STEPS; step++) {
        train(from, step, NULL, &a);
        give_all(from, zero);
        CHECK(weir_zero_begin(zero, WEIR_ZERO_TRAIN) == WEIR_ERR_INVALID, "a pass in between");
        CHECK(weir_zero_step(zero, NULL, NULL) == WEIR_ERR_INVALID, "the wrong kind of step");
        DO(weir_zero_apply(zero, NULL, &b));
        compare(from, zero, "grad", 1e-6, "gradients");
        CHECK(fabs(a.norm - b.norm) <= 1e-5 * a.norm && b.step == a.step && b.lr == a.lr, "norms %g and %g", a.norm, b.norm);
    }
    compare(from, zero, "param", 1e-5, "given gradients");
    compare(from, zero, "exp_avg_sq", 1e-5, "given gradients");
    train(from, STEPS, NULL, NULL); /* those of passes begin with zero again */
    train(zero, STEPS, NULL, NULL);
    compare(from, zero, "param", 1e-5, "after given gradients");
    give_all(from, zero);
    DO(weir_zero_reset(zero));
    CHECK(weir_zero_apply(zero, NULL, NULL) == WEIR_ERR_INVALID, "gradients that were thrown away");
    static float bad[ELEMENTS_MAX];
    bad[7] = NAN;
    DO(weir_zero_scatter(zero, 1, 0, "grad", bad));
    DO(weir_zero_apply(zero, NULL, &b));
    CHECK(b.skipped && b.step == STEPS + 1, "a gradient that is no number was applied");
    compare(from, zero, "param", 1e-5, "after a step that was skipped");
    weir_zero_free(from);
    weir_zero_free(zero);
}

/* ---- shards, rates, replicas ---- */

/* All parts of all ranks of a replica make the whole array, and say what it holds. */
static void shards(weir_zero *zero, const char *kind)
{
    static float whole[ELEMENTS_MAX], sum[ELEMENTS_MAX];
    for (uint64_t t = 0; t < model.units[4].ntensors; t++) {
        weir_zero_part p = {.size = sizeof p};
        uint64_t n = elements(&model.tensors[4][t]);
        memset(sum, 0, sizeof sum);
        for (uint64_t i = 0; weir_zero_shard(zero, 4, t, kind, i, &p) == WEIR_OK; i++)
            for (uint64_t e = 0; p.replica == 0 && e < p.count; e++)
                sum[p.first + e] += ((float *)p.data)[e] * (float)p.scale;
        OK(weir_allreduce(comm, WEIR_IN_PLACE, sum, n, WEIR_FP32, WEIR_SUM));
        DO(weir_zero_gather(zero, 4, t, kind, whole));
        for (uint64_t e = 0; e < n; e++)
            CHECK(fabsf(whole[e] - sum[e]) <= 1e-6f * fabsf(whole[e]), "%s of tensor %d, element %d: %g, the shards have %g", kind, (int)t, (int)e,
                  whole[e], sum[e]);
    }
}

static void replicas(uint64_t stage, uint64_t shard_group)
{
    weir_zero *zero = engine(stage, 0, shard_group), *same = engine(stage, 0, shard_group);
    for (int step = 0; step < STEPS; step++) {
        train(zero, step, NULL, NULL);
        train(same, step, NULL, NULL);
    }
    shards(zero, "param");
    shards(zero, "grad");
    shards(zero, "exp_avg");
    for (uint64_t i = 0; i < weir_zero_state_count(zero); i++) { /* all but the first replica go astray */
        weir_zero_part p = {.size = sizeof p};
        DO(weir_zero_state_get(zero, i, &p));
        for (uint64_t e = 0; p.replica > 0 && e < p.count; e++)
            ((float *)p.data)[e] = 77;
    }
    weir_zero_counters counters = {.size = sizeof counters};
    weir_zero_state_counters(zero, &counters);
    counters.step += (uint64_t)rank;
    DO(weir_zero_sync_params(zero));
    DO(weir_zero_state_loaded(zero, &counters));
    DO(weir_zero_sync_states(zero));
    weir_zero_state_counters(zero, &counters);
    CHECK(counters.step == STEPS, "step %d", (int)counters.step);
    train(zero, STEPS, NULL, NULL);
    train(same, STEPS, NULL, NULL);
    compare(same, zero, "param", 1e-6, "replicas");
    compare(same, zero, "exp_avg_sq", 1e-6, "replicas");
    weir_zero_free(zero);
    weir_zero_free(same);
}

static void rates_and_stop(void)
{
    weir_zero *zero = engine(1, 0, 0);
    weir_zero_step_options o = WEIR_ZERO_STEP_INIT;
    weir_zero_report r = {.size = sizeof r};
    double loss = rank + 1;
    CHECK(weir_zero_lr(zero, 0) == weir_schedule_lr(&schedule, 1) && weir_zero_lr(zero, 9) == 0, "rate %g", weir_zero_lr(zero, 0));
    train(zero, 0, NULL, &r);
    CHECK(r.stop == 0 && isnan(r.loss), "stop %d, loss %g", (int)r.stop, r.loss);
    train(zero, 1, NULL, NULL);
    CHECK(weir_zero_lr(zero, 0) == weir_schedule_lr(&schedule, 2), "rate %g", weir_zero_lr(zero, 0));
    o.lr = 0.25;
    o.stop = rank == size - 1;
    o.losses = &loss;
    train(zero, 2, &o, &r);
    CHECK(weir_zero_lr(zero, 0) == 0.25 && r.lr == 0.25, "rate %g", weir_zero_lr(zero, 0));
    CHECK(r.stop == 1, "%d ranks want to stop", (int)r.stop); /* one rank wants it, all know */
    CHECK(fabs(r.loss - (size + 1) / 2.0) < 1e-12, "loss %g", r.loss);
    weir_zero_free(zero);
}

/* ---- bytes ---- */

/* The bytes of all ranks of the communicator, one behind the other. */
static void *all_bytes(weir_zero *zero, uint64_t *total)
{
    uint64_t n, most, at = 0;
    DO(weir_zero_to_bytes(zero, NULL, 0, &n));
    most = n;
    OK(weir_allreduce(comm, WEIR_IN_PLACE, &most, 1, WEIR_UINT64, WEIR_MAX));
    unsigned char *mine = calloc(1, most), *rows = malloc(most * (uint64_t)size), *all = malloc(most * (uint64_t)size);
    CHECK(weir_zero_to_bytes(zero, mine, n - 1, &n) == WEIR_ERR_LIMIT, "more bytes than there is room");
    DO(weir_zero_to_bytes(zero, mine, most, &n));
    OK(weir_allgather(comm, mine, rows, most, WEIR_UINT8));
    for (int r = size; r-- > 0;) {
        uint64_t len = n;
        OK(weir_bcast(comm, &len, 1, WEIR_UINT64, r));
        memcpy(all + at, rows + most * (uint64_t)r, len);
        at += len;
    }
    free(mine);
    free(rows);
    *total = at;
    return all;
}

static void bytes_of(uint64_t stage)
{
    weir_zero *from = engine(stage, 0, 0), *zero = engine(3 - stage, 0, 0);
    uint64_t n, own;
    for (int step = 0; step < STEPS; step++)
        train(from, step, NULL, NULL);
    unsigned char *all = all_bytes(from, &n);
    weir_zero_to_bytes(from, NULL, 0, &own);
    if (size > 1 && stage > 0) { /* what another division of the model needs is not in one rank's bytes */
        weir_status status = weir_zero_from_bytes(zero, all, *(uint64_t *)(void *)(all + 16));
        CHECK(status == WEIR_ERR_NOT_FOUND || status == WEIR_ERR_CANCELED, "%s", weir_status_name(status));
    }
    CHECK(weir_zero_from_bytes(zero, all, n - 8) == WEIR_ERR_PROTOCOL, "bytes that were cut");
    all[n / 2] ^= 4;
    CHECK(weir_zero_from_bytes(zero, all, n) == WEIR_ERR_PROTOCOL, "bytes that were altered");
    all[n / 2] ^= 4;
    DO(weir_zero_from_bytes(zero, all, n));
    train(from, STEPS, NULL, NULL);
    train(zero, STEPS, NULL, NULL);
    compare(from, zero, "param", 1e-5, "bytes");
    compare(from, zero, "exp_avg", 1e-5, "bytes");
    weir_zero_free(from);
    weir_zero_free(zero);
    free(all);
}

/* ---- reports and traces ---- */

static void reported(uint64_t stage, const char *folder)
{
    weir_zero *zero = engine(stage, WEIR_ZERO_PRIVATE, 0);
    weir_zero_report r = {.size = sizeof r};
    char path[512], text[WEIR_ZERO_REPORT_JSON];
    uint64_t gathered = 0, reduced = 0;
    DO(weir_zero_trace(zero, 4096));
    for (int step = 0; step < STEPS; step++)
        train(zero, step, NULL, &r);
    for (uint64_t l = 0; l < r.levels; l++) {
        gathered += r.gather_level_bytes[l];
        reduced += r.reduce_level_bytes[l];
    }
    CHECK(r.levels >= 1 && r.levels <= WEIR_ZERO_LEVELS, "%d levels", (int)r.levels);
    CHECK(gathered == r.gather_bytes && reduced == r.reduce_bytes, "%d and %d bytes in the levels", (int)gathered, (int)reduced);
    CHECK(r.compute_ns > 0 && r.compute_ns + r.exposed_ns + r.update_ns <= r.total_ns, "%d of %d us computed", (int)(r.compute_ns / 1000),
          (int)(r.total_ns / 1000));
    CHECK(size == 1 || (r.hidden_ns >= 0 && r.hidden_ns + r.exposed_ns <= r.total_ns + 1000000), "hidden %d us", (int)(r.hidden_ns / 1000));
    CHECK(r.memory_formula && r.memory_peak <= r.memory_formula * 11 / 10 + 16384, "%d bytes, the formula says %d", (int)r.memory_peak, (int)r.memory_formula);
    OK(weir_zero_report_json(&r, text, sizeof text));
    CHECK(weir_zero_report_json(&r, text, 100) == WEIR_ERR_LIMIT, "a line that does not fit");
    snprintf(path, sizeof path, "%s/stage%d.json", folder, (int)stage);
    DO(weir_zero_trace_write(zero, path));
    if (rank == 0)
        printf("REPORT %s\n", text);
    DO(weir_zero_trace(zero, 0));
    CHECK(weir_zero_trace_write(zero, "/nowhere/at/all") == WEIR_ERR_IO, "a trace that cannot be written");
    weir_zero_free(zero);
}

int main(int argc, char **argv)
{
    weir_rule_options o = {.size = sizeof o};
    start();
    OK(weir_rule_defaults(WEIR_RULE_ADAMW, &o));
    o.isa = NULL;
    OK(weir_rule_create(&o, &rule, NULL));
    group.rule = rule;
    group.schedule = &schedule;
    schedule.lr = 0.01;
    schedule.warmup = 4;
    make_model(&model);
    for (int u = 0; u < UNITS; u++)
        for (int t = 0; t < TENSORS; t++)
            model.tensors[u][t].group = 0;
    model.units[1].name = "layer \"1\"\\"; /* a trace is JSON */
    for (uint64_t stage = 0; stage <= 3; stage++) {
        given(stage);
        replicas(stage, stage && size % 2 == 0 ? 2 : 0);
        bytes_of(stage);
        if (argc > 1)
            reported(stage, argv[1]);
    }
    rates_and_stop();
    weir_rule_free(rule);
    finish("beside the loop");
    return 0;
}
