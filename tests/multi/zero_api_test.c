/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What surrounds the training loop of the ZeRO engine: states that go from one engine to another, memory and traffic beside the
 * formulas, gathering ahead, refusals.
 *
 * zero_api_test state|formulas STAGE [once|shared]|ahead|refused|lost STAGE
 */
#include <signal.h>
#include <time.h>

#include "tests/multi/zero_model.h"

static weir_rule *rule;
static weir_schedule schedule = WEIR_SCHEDULE_INIT;
static weir_group group = WEIR_GROUP_INIT;

static void make_group(weir_rule_kind kind)
{
    weir_rule_options o = {.size = sizeof o};
    OK(weir_rule_defaults(kind, &o));
    o.isa = NULL;
    OK(weir_rule_create(&o, &rule, NULL));
    group.rule = rule;
    group.schedule = &schedule;
    schedule.lr = 0.01;
}

static weir_zero_options options(uint64_t stage)
{
    weir_zero_options o = WEIR_ZERO_OPTIONS_INIT;
    o.stage = stage;
    o.groups = &group;
    o.ngroups = 1;
    o.seed = 5;
    return o;
}

#define DO(call) CHECK((call) == WEIR_OK, "%s: %s", #call, weir_zero_error(zero)->message)

/* A pass in which the gradient of each element is the parameter, plus noise of the step and the rank. */
static void train(weir_zero *zero, const struct model *m, int step, int nap_ms)
{
    struct timespec nap = {.tv_nsec = nap_ms * 1000000L};
    DO(weir_zero_begin(zero, WEIR_ZERO_TRAIN));
    for (int u = 0; u < m->nunits; u++) {
        DO(weir_zero_before_forward(zero, (uint64_t)u));
        nanosleep(&nap, NULL);
        DO(weir_zero_after_forward(zero, (uint64_t)u));
    }
    for (int u = m->nunits; u-- > 0;) {
        DO(weir_zero_before_backward(zero, (uint64_t)u));
        for (uint64_t i = 0; i < m->units[u].ntensors; i++) {
            const float *w = weir_zero_param(zero, (uint64_t)u, i);
            float *g = weir_zero_grad(zero, (uint64_t)u, i);
            for (uint64_t e = 0; g && e < elements(&m->tensors[u][i]); e++)
                g[e] += w[e] + noise((uint32_t)(step * 100 + rank * 10 + u), (uint32_t)(e + i));
        }
        nanosleep(&nap, NULL);
        DO(weir_zero_after_backward(zero, (uint64_t)u));
    }
    DO(weir_zero_end(zero));
}

static void steps(weir_zero *zero, const struct model *m, int from, int to, weir_zero_report *report)
{
    for (int step = from; step < to; step++) {
        for (uint64_t p = 0; p < 1; p++)
            train(zero, m, step, 0);
        DO(weir_zero_step(zero, NULL, report));
    }
}

/* ---- states ---- */

/* Each entry of each array is in exactly one part of the ranks of replica 0. */
static void check_cover(weir_zero *zero)
{
    static double count[65536];
    memset(count, 0, sizeof count);
    for (uint64_t i = 0; i < weir_zero_state_count(zero); i++) {
        weir_zero_part p = {.size = sizeof p};
        DO(weir_zero_state_get(zero, i, &p));
        uint64_t h = mix32((uint32_t)(p.unit * 64 + p.tensor * 8 + (uint32_t)p.kind[strlen(p.kind) - 1]));
        CHECK(p.first + p.count <= p.total && p.count && p.data, "%s %s: %d + %d of %d", p.name, p.kind, (int)p.first, (int)p.count, (int)p.total);
        for (uint64_t e = p.first; p.replica == 0 && e < p.first + p.count; e++)
            count[mix32((uint32_t)(h + e)) % 65536] += 1.0 / 1024 + (double)(p.total % 7);
    }
    OK(weir_allreduce(comm, WEIR_IN_PLACE, count, 65536, WEIR_FP64, WEIR_SUM));
    double sum = 0; /* the same on any number of ranks: nothing is there twice, nothing is missing */
    for (int i = 0; i < 65536; i++)
        sum += count[i] * (mix32((uint32_t)i) % 1024);
    static double first;
    CHECK(first == 0 || first == sum, "the parts are %g, those of other stages are %g", sum, first);
    first = sum;
}

/* Everything that engine `from` holds, into the parts of engine `to`. */
static void copy_state(weir_zero *from, weir_zero *to)
{
    weir_zero *zero = to;
    weir_zero_counters counters = {.size = sizeof counters};
    float *whole = malloc(sizeof(float) * 4096);
    struct model m;
    make_model(&m);
    for (int u = 0; u < UNITS; u++)
        for (uint64_t t = 0; t < m.units[u].ntensors; t++)
            for (int k = 0; k < 3; k++) {
                static const char *const kinds[] = {"param", "exp_avg", "exp_avg_sq"};
                bool frozen = m.tensors[u][t].flags & WEIR_ZERO_FROZEN;
                CHECK(weir_zero_gather(from, (uint64_t)u, t, kinds[k], whole) == (frozen && k ? WEIR_ERR_NOT_FOUND : WEIR_OK), "%d", k);
                for (uint64_t i = 0; i < weir_zero_state_count(to); i++) {
                    weir_zero_part p = {.size = sizeof p};
                    DO(weir_zero_state_get(to, i, &p));
                    if (p.unit == (uint64_t)u && p.tensor == t && !strcmp(p.kind, kinds[k]))
                        memcpy(p.data, whole + p.first, p.count * sizeof(float));
                }
            }
    free(whole);
    weir_zero_state_counters(from, &counters);
    DO(weir_zero_state_loaded(to, &counters));
}

/* Two engines that hold the same. */
static void compare(weir_zero *a, weir_zero *b)
{
    struct model m;
    float x[4096], y[4096];
    make_model(&m);
    for (int u = 0; u < UNITS; u++)
        for (uint64_t t = 0; t < m.units[u].ntensors; t++) {
            OK(weir_zero_gather(a, (uint64_t)u, t, "param", x));
            OK(weir_zero_gather(b, (uint64_t)u, t, "param", y));
            for (uint64_t e = 0; e < elements(&m.tensors[u][t]); e++)
                CHECK(fabsf(x[e] - y[e]) <= 1e-6f, "unit %d, tensor %d, element %d: %g and %g", u, (int)t, (int)e, x[e], y[e]);
        }
}

static void plain_groups(struct model *m)
{
    make_model(m);
    for (int u = 0; u < UNITS; u++)
        for (int i = 0; i < TENSORS; i++)
            m->tensors[u][i].group = 0;
}

static void state(void)
{
    struct model m;
    weir_zero_counters counters = {.size = sizeof counters};
    float values[24];
    make_group(WEIR_RULE_ADAMW);
    plain_groups(&m);
    for (uint64_t stage = 0; stage <= 3; stage++) {
        weir_zero *zero, *other;
        weir_zero_options o = options(stage), p = options(3 - stage);
        p.bucket_bytes = 1000;
        p.partition = WEIR_ZERO_WHOLE_TENSOR;
        OK(weir_zero_create(comm, &o, m.units, UNITS, &zero, NULL));
        OK(weir_zero_create(comm, &p, m.units, UNITS, &other, NULL));
        check_cover(zero);
        check_cover(other);
        steps(zero, &m, 0, 3, NULL);
        copy_state(zero, other);
        compare(zero, other);
        weir_zero_state_counters(other, &counters);
        CHECK(counters.step == 3, "step %d", (int)counters.step);
        steps(zero, &m, 3, 5, NULL);
        steps(other, &m, 3, 5, NULL);
        compare(zero, other);
        for (int e = 0; e < 24; e++)
            values[e] = (float)e;
        DO(weir_zero_scatter(zero, 2, 1, "param", values)); /* surgery */
        DO(weir_zero_scatter(zero, 2, 1, "exp_avg", values));
        memset(values, 0, sizeof values);
        DO(weir_zero_begin(zero, WEIR_ZERO_EVAL));
        DO(weir_zero_before_forward(zero, 2));
        CHECK(((float *)weir_zero_param(zero, 2, 1))[23] == 23, "what was set is not seen");
        DO(weir_zero_after_forward(zero, 2));
        DO(weir_zero_end(zero));
        DO(weir_zero_gather(zero, 2, 1, "exp_avg", values));
        CHECK(values[11] == 11, "a state that was set is not seen");
        weir_zero_free(other);
        weir_zero_free(zero);
    }
    weir_rule_free(rule);
}

/* ---- formulas ---- */

enum { LAYERS = 8 };

/* Layers of 240 * 2048 elements, which every number of ranks in these tests divides without padding. */
static void make_layers(struct model *m)
{
    static const char *const names[LAYERS] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    memset(m, 0, sizeof *m);
    m->nunits = LAYERS;
    for (int u = 0; u < LAYERS; u++) {
        weir_zero_unit empty = WEIR_ZERO_UNIT_INIT;
        m->units[u] = empty;
        m->units[u].name = names[u];
        add_tensor(m, u, "weight", 0, 240, 1024);
        add_tensor(m, u, "other", 0, 240, 1024);
    }
}

static void near(double value, double wanted, double part, const char *what, int stage)
{
    CHECK(fabs(value - wanted) <= part * wanted + 0.5, "stage %d: %s is %.0f, the formula says %.0f", stage, what, value, wanted);
}

/* Proportional memory of all processes, less what the collectives have allocated for themselves beside `own` bytes a rank. */
static double total_pss(double own)
{
    weir_mem_info info = {.size = sizeof info};
    OK(weir_mem_usage(ctx, &info));
    double sum = (double)info.pss - ((double)info.allocated - own);
    OK(weir_allreduce(comm, WEIR_IN_PLACE, &sum, 1, WEIR_FP64, WEIR_SUM));
    return sum;
}

static void formulas_of(const struct model *m, uint64_t stage, uint64_t reduce, bool shared)
{
    weir_zero *zero;
    weir_zero_options o = options(stage);
    weir_zero_report r = {.size = sizeof r};
    weir_zero_budget b = {.size = sizeof b};
    double n = size, x = (n - 1) / n, p = LAYERS * 480.0 * 1024, layer = 480.0 * 1024, w = 4, d = 4;
    o.reduce = reduce;
    o.flags = shared ? 0 : WEIR_ZERO_PRIVATE;
    o.max_live_bytes = 3 * (uint64_t)(layer * w);
    o.persistent_bytes = 0;
    o.bucket_bytes = 1 << 20;
    double before = total_pss(0);
    OK(weir_zero_create(comm, &o, m->units, LAYERS, &zero, NULL));
    steps(zero, m, 0, 3, &r);
    OK(weir_zero_estimate(&o, m->units, LAYERS, size, &b, NULL));
    double shard = reduce == WEIR_ZERO_REDUCE_AUTO && stage >= 2 ? 4 * p / n : 0; /* of gradients, not registered */
    if (shared) { /* once a node, and all ranks are on one */
        b.total_bytes -= b.live_bytes - b.live_bytes / (uint64_t)size;
        b.live_bytes /= (uint64_t)size;
    }
    double held = total_pss((double)b.param_bytes + (double)b.grad_bytes - shard + (double)b.live_bytes) - before;
    near((double)b.parameters, p, 0, "parameters", (int)stage);
    near((double)r.reduce_bytes, stage ? d * p * x : 2 * d * p * x, 0.02, "bytes of gradients", (int)stage);
    if (shared) /* each rank puts its own part into the window, if all come in time */
        CHECK((double)r.gather_bytes <= 2 * w * p * x, "%.0f bytes of parameters", (double)r.gather_bytes);
    else
        near((double)r.gather_bytes, stage == 0 ? 0 : stage == 3 ? 2 * w * p * x : w * p * x, 0.02, "bytes of parameters", (int)stage);
    near((double)b.reduce_bytes, (double)r.reduce_bytes, 0.001, "the estimate of gradients", (int)stage);
    near((double)b.gather_bytes, shared ? (double)b.gather_bytes : (double)r.gather_bytes, 0.001, "the estimate of parameters", (int)stage);
    near((double)b.state_bytes, 8 * p / (stage ? n : 1), 0.001, "bytes of states", (int)stage);
    /* a rank that is ahead of the others gathers a unit for itself when they still use its place in the window */
    near((double)r.memory_peak, (double)b.total_bytes, shared ? 0.15 : 0.03, "memory that was counted", (int)stage);
    CHECK((double)r.live_peak <= (double)o.max_live_bytes + (shared ? layer * w : 0), "%.0f bytes are gathered at once", (double)r.live_peak);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    near(held, n * (double)b.total_bytes, shared ? 0.15 : 0.03, "memory of the processes", (int)stage);
#else
    (void)held;
#endif
    weir_zero_free(zero);
}

/* One engine a process: what malloc() keeps of another one would be counted. */
static void formulas(uint64_t stage, const char *how)
{
    struct model m;
    make_group(WEIR_RULE_ADAMW);
    make_layers(&m);
    formulas_of(&m, stage, how && !strcmp(how, "once") ? WEIR_ZERO_REDUCE_ONCE : WEIR_ZERO_REDUCE_AUTO, how && !strcmp(how, "shared"));
    weir_rule_free(rule);
}

/* ---- gathering ahead ---- */

/* Time in which the program waited for the engine in the best of some steps, where each read takes as long as WEIR_FAULT says. */
static double waited(const struct model *m, uint64_t prefetch)
{
    weir_zero *zero;
    weir_zero_options o = options(3);
    double best = 1e9;
    o.flags = WEIR_ZERO_PRIVATE;
    o.prefetch_bytes = prefetch;
    o.reuse_bytes = 0;
    o.persistent_bytes = 0;
    OK(weir_zero_create(comm, &o, m->units, (uint64_t)m->nunits, &zero, NULL));
    for (int step = 0; step < 5; step++) {
        weir_zero_report r = {.size = sizeof r};
        double seconds;
        train(zero, m, step, 25);
        DO(weir_zero_step(zero, NULL, &r));
        CHECK(prefetch ? step < 1 || r.prefetched > 0 : r.prefetched == 0, "%d gathers were begun ahead", (int)r.prefetched);
        seconds = (double)r.exposed_ns * 1e-9;
        OK(weir_allreduce(comm, WEIR_IN_PLACE, &seconds, 1, WEIR_FP64, WEIR_MAX));
        if (step > 1 && seconds < best)
            best = seconds;
    }
    weir_zero_free(zero);
    return best;
}

static void ahead(void)
{
    struct model m;
    make_group(WEIR_RULE_SGD);
    make_model(&m);
    for (int u = 0; u < UNITS; u++)
        for (int i = 0; i < TENSORS; i++)
            m.tensors[u][i].group = 0;
    double without = 0, with = 1;
    for (int attempt = 0; attempt < 4 && with > 0.2 * without; attempt++) { /* a machine that is busy makes all ranks wait */
        without = waited(&m, 0);
        with = waited(&m, 1 << 20);
    }
    if (rank == 0)
        printf("waited %.3f s a step without, %.3f s with gathering ahead\n", without, with);
    CHECK(with <= 0.2 * without, "%.3f s of %.3f s are left", with, without);
    weir_rule_free(rule);
}

/* ---- refusals ---- */

static void refuse(const weir_zero_options *o, struct model *m, weir_status wanted, const char *what)
{
    weir_zero *zero = NULL;
    weir_error err;
    weir_status status = weir_zero_create(comm, o, m->units, (uint64_t)m->nunits, &zero, &err);
    CHECK(status == wanted && !zero, "%s: %s", what, weir_status_name(status));
    CHECK(err.message[0], "%s: no sentence", what);
}

static void refused_options(struct model *m)
{
    weir_zero_options o = options(1);
    o.stage = 4;
    refuse(&o, m, WEIR_ERR_INVALID, "stage");
    o = options(0);
    o.reduce = WEIR_ZERO_REDUCE_EVERY;
    refuse(&o, m, WEIR_ERR_INVALID, "reduce");
    o = options(1);
    o.reduce_type = WEIR_FP64;
    refuse(&o, m, WEIR_ERR_INVALID, "reduce_type");
    o = options(1);
    o.shard_group = (uint64_t)size + 1;
    refuse(&o, m, WEIR_ERR_INVALID, "shard_group");
    o = options(1);
    o.ngroups = 0;
    refuse(&o, m, WEIR_ERR_INVALID, "ngroups");
    o = options(2);
    o.accumulate = (uint64_t)rank + 1;
    if (size > 1)
        refuse(&o, m, WEIR_ERR_MISMATCH, "ranks that do not agree");
    o = options(rank == 1 ? 9 : 2);
    if (size > 1)
        refuse(&o, m, rank == 1 ? WEIR_ERR_INVALID : WEIR_ERR_CANCELED, "one rank that cannot");
}

static void refused(void)
{
    struct model m;
    weir_zero *zero;
    weir_zero_options o = options(2);
    float one;
    make_group(WEIR_RULE_SGD);
    make_model(&m);
    refuse(&o, &m, WEIR_ERR_INVALID, "a group that does not exist");
    plain_groups(&m);
    m.tensors[5][0].tied_unit = 77;
    refuse(&o, &m, WEIR_ERR_INVALID, "tied to nothing");
    m.tensors[5][0].tied_unit = 0;
    refused_options(&m);
    OK(weir_zero_create(comm, &o, m.units, UNITS, &zero, NULL));
    CHECK(weir_zero_end(zero) == WEIR_ERR_INVALID, "an end without a beginning");
    CHECK(weir_zero_before_forward(zero, 0) == WEIR_ERR_INVALID, "a hook outside a pass");
    DO(weir_zero_begin(zero, WEIR_ZERO_EVAL));
    CHECK(weir_zero_begin(zero, WEIR_ZERO_EVAL) == WEIR_ERR_INVALID, "a pass in a pass");
    CHECK(weir_zero_before_forward(zero, UNITS) == WEIR_ERR_INVALID, "a unit that does not exist");
    CHECK(weir_zero_before_backward(zero, 0) == WEIR_ERR_INVALID, "backward in an evaluation");
    CHECK(weir_zero_step(zero, NULL, NULL) == WEIR_ERR_INVALID, "a step in a pass");
    CHECK(!weir_zero_grad(zero, 1, 0) && !weir_zero_param(zero, 99, 0), "pointers to nothing");
    DO(weir_zero_end(zero));
    CHECK(weir_zero_gather(zero, 1, 0, "momentum", &one) == WEIR_ERR_NOT_FOUND, "a state that does not exist");
    train(zero, &m, 0, 0);
    CHECK(weir_zero_begin(zero, WEIR_ZERO_TRAIN) == WEIR_ERR_INVALID, "a pass too many");
    DO(weir_zero_reset(zero));
    steps(zero, &m, 1, 2, NULL);
    DO(weir_zero_begin(zero, WEIR_ZERO_TRAIN)); /* and it can be freed in the middle of a pass */
    DO(weir_zero_before_forward(zero, 1));
    DO(weir_zero_before_backward(zero, 1));
    DO(weir_zero_after_backward(zero, 1));
    weir_zero_free(zero);
    weir_zero_free(NULL);
    weir_rule_free(rule);
}

/* ---- a rank that is killed ---- */

/* The last rank dies in the backward pass of step 2: all others get the error, in a hook or at the step, and can free the engine. */
static void lose(uint64_t stage)
{
    struct model m;
    weir_zero *zero;
    weir_zero_options o = options(stage);
    weir_status status = WEIR_OK;
    make_group(WEIR_RULE_ADAMW);
    plain_groups(&m);
    OK(weir_zero_create(comm, &o, m.units, UNITS, &zero, NULL));
    steps(zero, &m, 0, 2, NULL);
    status = weir_zero_begin(zero, WEIR_ZERO_TRAIN);
    for (int u = UNITS; status == WEIR_OK && u-- > 0;) {
        if (rank == size - 1 && u == 3)
            raise(SIGKILL);
        status = weir_zero_before_backward(zero, (uint64_t)u);
        if (status == WEIR_OK)
            status = weir_zero_after_backward(zero, (uint64_t)u);
    }
    if (status == WEIR_OK)
        status = weir_zero_end(zero);
    if (status == WEIR_OK)
        status = weir_zero_step(zero, NULL, NULL);
    CHECK(status == WEIR_ERR_PEER_LOST, "%s: %s", weir_status_name(status), weir_zero_error(zero)->message);
    CHECK(weir_zero_begin(zero, WEIR_ZERO_EVAL) == WEIR_ERR_PEER_LOST, "the engine goes on");
    weir_zero_free(zero);
    weir_rule_free(rule);
    printf("PASS: rank %d\n", rank);
    fflush(stdout);
    weir_finalize(ctx);
    exit(0);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "state";
    start();
    if (!strcmp(what, "state"))
        state();
    else if (!strcmp(what, "formulas"))
        formulas((uint64_t)atoi(argv[2]), argc > 3 ? argv[3] : NULL);
    else if (!strcmp(what, "ahead"))
        ahead();
    else if (!strcmp(what, "lost"))
        lose((uint64_t)atoi(argv[2]));
    else
        refused();
    finish(what);
    return 0;
}
