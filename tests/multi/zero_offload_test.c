/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ZeRO engine with masters and states on disk and with delayed updates, against a loop of one process that does the same: the
 * bits are the same. Gradients are multiples of 1/1024, so that sums over ranks are exact.
 *
 * zero_offload_test FOLDER now|offload|params|delay|state|refused...
 */
#include "tests/multi/multi.h"

#include <math.h>

enum { UNITS = 4, TENSORS = 3, STEPS = 6, MOST = 20000 };

/* What a trial is about. */
struct trial {
    weir_zero_options o;
    weir_group groups[2];
    weir_rule *rules[2];
    weir_schedule schedule;
    int bad_step; /* whose gradient is not a number; -1: none */
    int flush_step; /* after which what is delayed is completed; -1: none */
};

static weir_zero_unit units[UNITS];
static weir_zero_tensor tensors[UNITS][TENSORS];
static const char *folder;

/* ---- the model ---- */

static void add_tensor(int u, const char *name, uint64_t group, uint64_t rows, uint64_t cols)
{
    weir_zero_tensor *t = &tensors[u][units[u].ntensors++], empty = WEIR_ZERO_TENSOR_INIT;
    *t = empty;
    t->name = name;
    t->group = group;
    t->ndim = rows ? 2 : 1;
    t->shape[0] = rows ? rows : cols;
    t->shape[1] = cols;
    t->init = WEIR_ZERO_INIT_NORMAL;
    t->init_b = 0.5;
}

static void make_model(void)
{
    static const char *const names[UNITS] = {"first", "second", "third", "fourth"};
    for (int u = 0; u < UNITS; u++) {
        weir_zero_unit empty = WEIR_ZERO_UNIT_INIT;
        units[u] = empty;
        units[u].name = names[u];
        units[u].tensors = tensors[u];
    }
    add_tensor(0, "large", 0, 150, 133);
    add_tensor(0, "bias", 1, 0, 37);
    add_tensor(1, "square", 0, 64, 64);
    add_tensor(1, "fixed", 1, 0, 300);
    tensors[1][1].flags = WEIR_ZERO_FROZEN;
    add_tensor(2, "long", 1, 0, 9001);
    tensors[2][0].flags = WEIR_ZERO_NO_DECAY;
    add_tensor(3, "one", 1, 0, 1);
    add_tensor(3, "bias", 1, 0, 5);
}

static uint64_t elements(const weir_zero_tensor *t)
{
    return t->shape[0] * (t->ndim > 1 ? t->shape[1] : 1);
}

/* ---- the loop ---- */

struct plain {
    float *w, *seen, *grad, *pending;
    void *states[WEIR_RULE_STATES_MAX];
};

static struct plain plain[UNITS][TENSORS];
static uint64_t plain_steps;
static weir_rule_step pending_step[2];
static bool is_pending;

static const weir_group *group_of(const struct trial *t, int u, int i)
{
    return &t->groups[tensors[u][i].group];
}

static void see(const struct trial *t, struct plain *x, uint64_t n)
{
    uint16_t half[MOST];
    weir_type type = (weir_type)t->o.param_type;
    if (type == WEIR_FP32) {
        memcpy(x->seen, x->w, n * sizeof(float));
        return;
    }
    weir_convert(half, type, x->w, WEIR_FP32, n);
    weir_convert(x->seen, WEIR_FP32, half, type, n);
}

#define EACH(u, i) \
    for (int u = 0; u < UNITS; u++) \
        for (int i = 0; i < (int)units[u].ntensors; i++)

static void plain_make(const struct trial *t)
{
    plain_steps = 0;
    is_pending = false;
    EACH(u, i) {
        struct plain *x = &plain[u][i];
        const weir_rule *rule = group_of(t, u, i)->rule;
        uint64_t n = elements(&tensors[u][i]), rows = tensors[u][i].ndim > 1 ? tensors[u][i].shape[0] : 1;
        float **arrays[] = {&x->w, &x->seen, &x->grad, &x->pending};
        for (int k = 0; k < 4; k++)
            *arrays[k] = calloc(n, sizeof(float));
        OK(weir_zero_init_values(&tensors[u][i], t->o.seed, (uint64_t)u, (uint64_t)i, 0, n, x->w));
        see(t, x, n);
        for (unsigned k = 0; k < WEIR_RULE_STATES_MAX; k++) {
            weir_rule_state s = {.size = sizeof s};
            bool there = k < weir_rule_nstates(rule) && !weir_rule_state_info(rule, k, &s);
            uint64_t count = !there ? 0 : s.span ? weir_rule_state_count(rule, k, 1, n) : weir_rule_state_count(rule, k, rows, n / rows);
            float *state = x->states[k] = count ? calloc(count, 4) : NULL;
            for (uint64_t e = 0; e < count && s.initial != 0; e++)
                state[e] = (float)s.initial;
        }
    }
}

static void plain_free(void)
{
    EACH(u, i) {
        struct plain *x = &plain[u][i];
        free(x->w);
        free(x->seen);
        free(x->grad);
        free(x->pending);
        for (int k = 0; k < WEIR_RULE_STATES_MAX; k++)
            free(x->states[k]);
    }
}

/* What rank r adds to an element: a multiple of 1/1024. */
static float gradient(float seen, int step, int r, int u, int i, uint64_t e)
{
    uint32_t x = (uint32_t)(((step * 16 + r) * UNITS + u) * TENSORS + i) * 0x9e3779b9u + (uint32_t)e;
    x = (x ^ (x >> 16)) * 0x7feb352du;
    x = (x ^ (x >> 15)) * 0x846ca68bu;
    return rintf(307.2f * fmaxf(fminf(seen, 4), -4) + (float)(x >> 22) - 512) / 1024;
}

static void apply_pending(const struct trial *t)
{
    static float work[1 << 18] __attribute__((aligned(64)));
    EACH(u, i) {
        struct plain *x = &plain[u][i];
        const weir_zero_tensor *said = &tensors[u][i];
        weir_rule_step step = pending_step[said->group];
        weir_rule_data data = WEIR_RULE_DATA_INIT;
        uint64_t n = elements(said), rows = said->ndim > 1 ? said->shape[0] : 1;
        if (said->flags & WEIR_ZERO_FROZEN)
            continue;
        if (said->flags & WEIR_ZERO_NO_DECAY)
            step.weight_decay = 0;
        data.master = x->w;
        data.grad = x->pending;
        memcpy(data.states, x->states, sizeof data.states);
        OK(weir_rule_update_tensor(group_of(t, u, i)->rule, &step, &data, 0, rows, n / rows, work, NULL));
        see(t, x, n);
    }
    is_pending = false;
}

static void plain_step(const struct trial *t, int step)
{
    EACH(u, i) {
        struct plain *x = &plain[u][i];
        memset(x->grad, 0, elements(&tensors[u][i]) * sizeof(float));
        for (int r = 0; r < size; r++)
            for (uint64_t e = 0; e < elements(&tensors[u][i]); e++)
                x->grad[e] += gradient(x->seen[e], step, r, u, i, e);
    }
    if (is_pending)
        apply_pending(t);
    if (step == t->bad_step)
        return;
    plain_steps++;
    for (int g = 0; g < 2; g++) {
        pending_step[g].size = sizeof pending_step[g];
        OK(weir_group_step(&t->groups[g], plain_steps, 1.0 / size, &pending_step[g]));
    }
    EACH(u, i)
        memcpy(plain[u][i].pending, plain[u][i].grad, elements(&tensors[u][i]) * sizeof(float));
    is_pending = true;
    if (!t->o.delayed)
        apply_pending(t);
}

/* ---- the engine ---- */

static float read_param(const struct trial *t, const void *w, uint64_t e)
{
    float value;
    weir_type type = (weir_type)t->o.param_type;
    weir_convert(&value, WEIR_FP32, (const char *)w + e * weir_type_size(type), type, 1);
    return value;
}

#define DO(call) CHECK((call) == WEIR_OK, "%s: %s", #call, weir_zero_error(zero)->message)

static void see_unit(const struct trial *t, weir_zero *zero, int u)
{
    for (int i = 0; i < (int)units[u].ntensors; i++) {
        const void *w = weir_zero_param(zero, (uint64_t)u, (uint64_t)i);
        for (uint64_t e = 0; e < elements(&tensors[u][i]); e++) {
            float value = read_param(t, w, e);
            CHECK(value == plain[u][i].seen[e], "unit %d, tensor %d, element %d after %d steps: %.9g, not %.9g", u, i, (int)e, (int)plain_steps,
                  value, plain[u][i].seen[e]);
        }
    }
}

static void train(const struct trial *t, weir_zero *zero, int step)
{
    DO(weir_zero_begin(zero, WEIR_ZERO_TRAIN));
    for (int u = 0; u < UNITS; u++) {
        DO(weir_zero_before_forward(zero, (uint64_t)u));
        see_unit(t, zero, u);
        DO(weir_zero_after_forward(zero, (uint64_t)u));
    }
    for (int u = UNITS; u-- > 0;) {
        DO(weir_zero_before_backward(zero, (uint64_t)u));
        see_unit(t, zero, u);
        for (int i = 0; i < (int)units[u].ntensors; i++) {
            const void *w = weir_zero_param(zero, (uint64_t)u, (uint64_t)i);
            float *g = weir_zero_grad(zero, (uint64_t)u, (uint64_t)i);
            for (uint64_t e = 0; g && e < elements(&tensors[u][i]); e++)
                g[e] += gradient(read_param(t, w, e), step, rank, u, i, e);
            if (g && step == t->bad_step && rank == size - 1 && u == 2)
                g[17] = NAN;
        }
        DO(weir_zero_after_backward(zero, (uint64_t)u));
    }
    DO(weir_zero_end(zero));
}

/* All masters and states, after what is delayed. */
static void compare(const struct trial *t, weir_zero *zero)
{
    static float whole[MOST];
    EACH(u, i) {
        const weir_rule *rule = group_of(t, u, i)->rule;
        bool frozen = tensors[u][i].flags & WEIR_ZERO_FROZEN;
        for (int k = -1; k < (int)weir_rule_nstates(rule) && !(frozen && k >= 0); k++) {
            weir_rule_state s = {.size = sizeof s};
            const void *wanted = k < 0 ? (frozen ? plain[u][i].seen : plain[u][i].w) : plain[u][i].states[k];
            uint64_t n = elements(&tensors[u][i]), rows = tensors[u][i].ndim > 1 ? tensors[u][i].shape[0] : 1, bytes = n * 4;
            if (k >= 0) {
                weir_rule_state_info(rule, (unsigned)k, &s);
                bytes = (s.span ? weir_rule_state_count(rule, (unsigned)k, 1, n) : weir_rule_state_count(rule, (unsigned)k, rows, n / rows)) *
                        weir_type_size((weir_type)s.type);
            }
            if (!bytes)
                continue;
            DO(weir_zero_gather(zero, (uint64_t)u, (uint64_t)i, k < 0 ? "param" : s.name, whole));
            CHECK(!memcmp(whole, wanted, bytes), "unit %d, tensor %d, %s", u, i, k < 0 ? "param" : s.name);
        }
    }
}

static weir_zero *engine(const struct trial *t)
{
    weir_zero *zero;
    weir_error err;
    CHECK(weir_zero_create(comm, &t->o, units, UNITS, &zero, &err) == WEIR_OK, "%s", err.message);
    return zero;
}

/* The memory that was counted is what the formula says of the rank that has most. */
static void check_memory(const struct trial *t, const weir_zero_report *r)
{
    weir_zero_budget b = {.size = sizeof b};
    OK(weir_zero_estimate(&t->o, units, UNITS, size, &b, NULL));
    bool disk = t->o.offload;
    double most = (double)r->memory_bytes, all = (double)b.total_bytes;
    OK(weir_allreduce(comm, WEIR_IN_PLACE, &most, 1, WEIR_FP64, WEIR_MAX));
    CHECK(disk == (b.disk_bytes > 0) && disk == (b.buffer_bytes > 0) && (!(t->o.offload & WEIR_ZERO_OFFLOAD_STATES) || !b.state_bytes),
          "the estimate of an offload");
    /* not windows and units beyond them, and not where states are those of few tensors, of which ranks have more or less */
    if ((t->o.stage != 3 || t->o.offload & WEIR_ZERO_OFFLOAD_PARAMS) && weir_rule_nstates(t->rules[0]))
        CHECK(fabs(most - all) <= 0.03 * all + 8192, "%.0f bytes are held, the formula says %.0f", most, all);
    if (t->o.offload == WEIR_ZERO_OFFLOAD_STATES && size == 1 && !r->skipped && !t->o.delayed)
        CHECK(r->disk_bytes == 2 * b.disk_bytes || weir_rule_access(t->rules[0]) == WEIR_ACCESS_TENSOR, "%d bytes were moved, not %d",
              (int)r->disk_bytes, (int)(2 * b.disk_bytes));
}

static void run(const struct trial *t)
{
    weir_zero *zero = engine(t);
    plain_make(t);
    for (int step = 0; step < STEPS; step++) {
        weir_zero_report r = {.size = sizeof r};
        train(t, zero, step);
        DO(weir_zero_step(zero, NULL, &r));
        plain_step(t, step);
        CHECK(r.skipped == (step == t->bad_step) && r.step == plain_steps, "step %d", (int)r.step);
        check_memory(t, &r);
        if (step == t->flush_step) {
            DO(weir_zero_flush(zero));
            if (is_pending)
                apply_pending(t);
        }
    }
    if (is_pending)
        apply_pending(t);
    compare(t, zero);
    weir_zero_free(zero);
    plain_free();
}

/* ---- trials ---- */

static weir_rule *make_rule(weir_rule_kind kind)
{
    weir_rule_options o = {.size = sizeof o};
    weir_rule *rule;
    weir_error err;
    OK(weir_rule_defaults(kind, &o));
    if (kind == WEIR_RULE_ADAGRAD)
        o.initial = 0.1;
    o.isa = NULL;
    CHECK(weir_rule_create(&o, &rule, &err) == WEIR_OK, "%s", err.message);
    return rule;
}

static void make_trial(struct trial *t, uint64_t stage, weir_rule_kind kind, weir_type type, bool offload, bool delayed)
{
    weir_zero_options o = WEIR_ZERO_OPTIONS_INIT;
    weir_schedule schedule = WEIR_SCHEDULE_INIT;
    memset(t, 0, sizeof *t);
    t->schedule = schedule;
    t->schedule.lr = 0.02;
    t->schedule.warmup = 3;
    t->bad_step = t->flush_step = -1;
    for (int g = 0; g < 2; g++) {
        weir_group group = WEIR_GROUP_INIT;
        t->rules[g] = make_rule(g ? WEIR_RULE_ADAMW : kind);
        t->groups[g] = group;
        t->groups[g].rule = t->rules[g];
        t->groups[g].schedule = &t->schedule;
        t->groups[g].weight_decay = 0.1;
    }
    t->o = o;
    t->o.stage = stage;
    t->o.groups = t->groups;
    t->o.ngroups = 2;
    t->o.param_type = (uint64_t)type;
    t->o.seed = 5;
    t->o.bucket_bytes = 40000;
    t->o.prefetch_bytes = 30000;
    t->o.max_live_bytes = 200000;
    t->o.offload = offload ? WEIR_ZERO_OFFLOAD_STATES : 0;
    t->o.offload_path = folder;
    t->o.offload_bytes = 65536;
    t->o.offload_buffers = 3;
    t->o.delayed = delayed;
}

static void free_trial(struct trial *t)
{
    for (int g = 0; g < 2; g++)
        weir_rule_free(t->rules[g]);
}

/* Every stage and rule; buffers of different sizes and numbers; both engines of the disk. */
static void now(bool offload)
{
    static const weir_rule_kind kinds[] = {WEIR_RULE_ADAMW, WEIR_RULE_ADAGRAD, WEIR_RULE_ADAFACTOR, WEIR_RULE_ADAMW8, WEIR_RULE_LAMB, WEIR_RULE_SGD};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        struct trial t;
        uint64_t stage = offload ? (k + 1) % 4 : k % 4;
        if (kinds[k] == WEIR_RULE_LAMB && size > 1) /* norms are added in another order */
            continue;
        make_trial(&t, stage, kinds[k], k % 2 ? WEIR_FP32 : WEIR_BF16, offload, false);
        t.o.offload_bytes = k % 3 == 0 ? 4096 : k % 3 == 1 ? 65536 : 1 << 20;
        t.o.offload_buffers = 2 + k % 3;
        t.o.offload_io = k % 2 ? WEIR_ZERO_IO_THREAD : WEIR_ZERO_IO_AUTO;
        t.bad_step = k % 2 ? 2 : -1;
        run(&t);
        free_trial(&t);
    }
}

static void delay(void)
{
    for (uint64_t stage = 0; stage <= 3; stage++)
        for (int half = 0; half < 2; half++) {
            struct trial t;
            make_trial(&t, stage, size == 1 && stage == 1 ? WEIR_RULE_LAMB : WEIR_RULE_ADAMW, half ? WEIR_BF16 : WEIR_FP32, (stage + (uint64_t)half) % 2,
                       true);
            t.bad_step = half ? -1 : 3;
            t.flush_step = half ? 2 : -1;
            run(&t);
            free_trial(&t);
        }
}

/* Parameters on disk, too, or alone: gathered ahead, kept, dropped; a step that is skipped. */
static void params(void)
{
    for (int k = 0; k < 4; k++) {
        struct trial t;
        make_trial(&t, 3, k == 2 ? WEIR_RULE_ADAFACTOR : WEIR_RULE_ADAMW, k % 2 ? WEIR_FP32 : WEIR_BF16, k != 3, false);
        t.o.offload |= WEIR_ZERO_OFFLOAD_PARAMS;
        t.o.prefetch_bytes = k == 1 ? 0 : 100000;
        t.o.persistent_bytes = k == 2 ? 20000 : 0;
        t.bad_step = k == 1 ? 2 : -1;
        run(&t);
        free_trial(&t);
    }
}

/* A frozen tensor whose parameters are on disk. */
static void surgery(void)
{
    static float values[MOST];
    struct trial t;
    make_trial(&t, 3, WEIR_RULE_ADAMW, WEIR_BF16, true, false);
    t.o.offload |= WEIR_ZERO_OFFLOAD_PARAMS;
    weir_zero *zero = engine(&t);
    for (int k = 0; k < 2; k++) { /* a frozen one, one that is updated */
        int u = k ? 3 : 1, n = k ? 5 : 300;
        for (int e = 0; e < n; e++)
            values[e] = (float)(e % 100);
        DO(weir_zero_scatter(zero, (uint64_t)u, 1, "param", values));
        memset(values, 0, sizeof values);
        DO(weir_zero_gather(zero, (uint64_t)u, 1, "param", values));
        DO(weir_zero_begin(zero, WEIR_ZERO_EVAL));
        DO(weir_zero_before_forward(zero, (uint64_t)u));
        for (int e = 0; e < n; e++)
            CHECK(values[e] == (float)(e % 100) && read_param(&t, weir_zero_param(zero, (uint64_t)u, 1), (uint64_t)e) == values[e],
                  "unit %d, element %d: %g", u, e, values[e]);
        DO(weir_zero_after_forward(zero, (uint64_t)u));
        DO(weir_zero_end(zero));
    }
    weir_zero_free(zero);
    free_trial(&t);
}

/* Reads and writes of the state while it is on disk; time of the disk. */
static void state(void)
{
    static float values[MOST];
    struct trial t;
    make_trial(&t, 2, WEIR_RULE_ADAMW, WEIR_BF16, true, false);
    t.o.offload_bytes = 8192;
    weir_zero *zero = engine(&t);
    weir_zero_counters counters = {.size = sizeof counters, .loss_scale = 1};
    int64_t ns = -1;
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < weir_zero_state_count(zero); i++) {
        weir_zero_part p = {.size = sizeof p};
        DO(weir_zero_state_get(zero, i, &p));
        CHECK((p.data == NULL) == (strcmp(p.name, "second.fixed") != 0), "%s %s", p.name, p.kind);
        for (uint64_t e = 0; e < p.count; e++)
            values[e] = (float)(p.first + e) + (p.kind[0] == 'p' ? 0.5f : p.kind[7] ? 0.25f : 0.125f);
        if (p.data)
            continue;
        DO(weir_zero_state_write(zero, i, 0, p.count / 2, values));
        DO(weir_zero_state_write(zero, i, p.count / 2, p.count - p.count / 2, values + p.count / 2));
    }
    DO(weir_zero_state_loaded(zero, &counters));
    DO(weir_zero_disk_time(zero, &ns, &bytes)); /* changes nothing */
    CHECK(ns > 0 && bytes > 0, "%d ns, %d bytes", (int)ns, (int)bytes);
    EACH(u, i) {
        static const char *const names[] = {"param", "exp_avg", "exp_avg_sq"};
        for (int k = 0; k < 3 && !(tensors[u][i].flags & WEIR_ZERO_FROZEN); k++) {
            DO(weir_zero_gather(zero, (uint64_t)u, (uint64_t)i, names[k], values));
            for (uint64_t e = 0; e < elements(&tensors[u][i]); e++)
                CHECK(values[e] == (float)e + (k == 0 ? 0.5f : k == 1 ? 0.125f : 0.25f), "unit %d, tensor %d, %s: %g at %d", u, i, names[k], values[e], (int)e);
        }
    }
    for (int e = 0; e < 37; e++)
        values[e] = (float)-e;
    DO(weir_zero_scatter(zero, 0, 1, "param", values));
    DO(weir_zero_begin(zero, WEIR_ZERO_EVAL));
    DO(weir_zero_before_forward(zero, 0));
    CHECK(read_param(&t, weir_zero_param(zero, 0, 1), 30) == -30, "what was set is not seen");
    DO(weir_zero_after_forward(zero, 0));
    DO(weir_zero_end(zero));
    CHECK(weir_zero_state_read(zero, 0, 1u << 30, 1, values) == WEIR_ERR_INVALID, "a range that does not exist");
    weir_zero_free(zero);
    free_trial(&t);
}

static void refuse(struct trial *t, weir_status wanted, const char *sentence)
{
    weir_zero *zero = NULL;
    weir_error err;
    weir_status status = weir_zero_create(comm, &t->o, units, UNITS, &zero, &err);
    CHECK(status == wanted && !zero, "%s: %s", weir_status_name(status), err.message);
    CHECK(strstr(err.message, sentence), "%s", err.message);
}

static void refused(void)
{
    struct trial t;
    make_trial(&t, 1, WEIR_RULE_ADAMW, WEIR_FP32, true, false);
    t.o.offload_path = rank == size - 1 ? "/no/such/folder" : folder; /* one rank cannot */
    refuse(&t, rank == size - 1 ? WEIR_ERR_IO : WEIR_ERR_CANCELED, rank == size - 1 ? "no file can be made in /no/such/folder" : "");
    t.o.offload_path = NULL;
    refuse(&t, WEIR_ERR_INVALID, "offload_path");
    t.o.offload_path = folder;
    t.o.offload_buffers = 1;
    refuse(&t, WEIR_ERR_INVALID, "offload_buffers");
    free_trial(&t);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    folder = argv[1];
    start();
    make_model();
    for (int i = 2; i < argc; i++) {
        if (!strcmp(argv[i], "now"))
            now(false);
        else if (!strcmp(argv[i], "offload"))
            now(true);
        else if (!strcmp(argv[i], "delay"))
            delay();
        else if (!strcmp(argv[i], "params"))
            params(), surgery();
        else if (!strcmp(argv[i], "state"))
            state();
        else
            refused();
        barrier();
    }
    finish("offload");
    return 0;
}
