/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parameters and gradients that travel as int8, and secondary groups of ranks, beside the exact engine.
 *
 * zero_quant_test params|grads|losses|traffic|secondary|memory|refused ...
 */
#include "optim/agree.h"
#include "optim/zero.h"

#include "tests/multi/zero_model.h"

enum { BLOCK = 64, LAYERS = 5, ROWS = 16, COLS = 960 }; /* layers that all numbers of ranks here divide without padding */

static weir_rule *rule;
static weir_schedule schedule = WEIR_SCHEDULE_INIT;
static weir_group group = WEIR_GROUP_INIT;

#define DO(call) CHECK((call) == WEIR_OK, "%s: %s", #call, weir_zero_error(zero)->message)

static weir_zero_options options(uint64_t stage, uint64_t flags)
{
    weir_zero_options o = WEIR_ZERO_OPTIONS_INIT;
    o.stage = stage;
    o.flags = flags;
    o.groups = &group;
    o.ngroups = 1;
    o.seed = 9;
    o.quant_block = BLOCK;
    o.bucket_bytes = 3000;
    return o;
}

static void one_group(struct model *m)
{
    make_model(m);
    for (int u = 0; u < UNITS; u++)
        for (int i = 0; i < TENSORS; i++)
            m->tensors[u][i].group = 0;
}

static void make_layers(struct model *m)
{
    static const char *const names[LAYERS] = {"a", "b", "c", "d", "e"};
    memset(m, 0, sizeof *m);
    m->nunits = LAYERS;
    for (int u = 0; u < LAYERS; u++) {
        weir_zero_unit empty = WEIR_ZERO_UNIT_INIT;
        m->units[u] = empty;
        m->units[u].name = names[u];
        add_tensor(m, u, "weight", 0, ROWS, COLS);
    }
}

static weir_zero *create(const struct model *m, const weir_zero_options *o)
{
    weir_zero *zero;
    weir_error err;
    CHECK(weir_zero_create(comm, o, m->units, (uint64_t)m->nunits, &zero, &err) == WEIR_OK, "%s", err.message);
    return zero;
}

/* ---- a pass: the gradient of an element is the parameter, less 0.1, plus noise of step, rank and micro-batch ---- */

static float element_grad(float w, int step, int r, int micro, int u, int i, uint64_t e)
{
    return w - 0.1f + noise(noise_seed(step, r, micro, u, i, 0), (uint32_t)e);
}

struct bytes {
    uint64_t forward, backward; /* of other nodes */
};

static uint64_t from_afar(const weir_zero *zero)
{
    return zero->report.gather_bytes - zero->report.gather_node_bytes;
}

static void forward(weir_zero *zero, const struct model *m)
{
    for (int u = 0; u < m->nunits; u++) {
        DO(weir_zero_before_forward(zero, (uint64_t)u));
        DO(weir_zero_after_forward(zero, (uint64_t)u));
    }
}

static void backward(weir_zero *zero, const struct model *m, int step, int micro, float bad)
{
    for (int u = m->nunits; u-- > 0;) {
        DO(weir_zero_before_backward(zero, (uint64_t)u));
        for (uint64_t i = 0; i < m->units[u].ntensors; i++) {
            const float *w = weir_zero_param(zero, (uint64_t)u, i);
            float *g = weir_zero_grad(zero, (uint64_t)u, i);
            for (uint64_t e = 0; g && e < elements(&m->tensors[u][i]); e++)
                g[e] += element_grad(w[e], step, rank, micro, u, (int)i, e);
            if (g && u == 3 && i == 0 && rank == size - 1 && bad != 0) /* in the part of rank 0 */
                g[2] = bad;
        }
        DO(weir_zero_after_backward(zero, (uint64_t)u));
    }
}

static struct bytes train(weir_zero *zero, const struct model *m, int step, int micro, float bad)
{
    struct bytes b;
    DO(weir_zero_begin(zero, WEIR_ZERO_TRAIN));
    uint64_t before = from_afar(zero);
    forward(zero, m);
    b.forward = from_afar(zero) - before;
    backward(zero, m, step, micro, bad);
    b.backward = from_afar(zero) - before - b.forward;
    DO(weir_zero_end(zero));
    return b;
}

/* ---- parameters ---- */

/* What the masters of a block are, padding included. */
static void exact_block(weir_zero *zero, uint64_t block, float *x)
{
    const struct wr_zero_block *b = &zero->l.blocks[block];
    memset(x, 0, b->n * sizeof *x);
    for (uint64_t u = b->unit; u < b->unit + b->nunits; u++)
        for (uint64_t i = 0; i < zero->l.units[u].ntensors; i++) {
            const struct wr_zero_tensor *t = &zero->l.units[u].tensors[i];
            if (t->origin == t)
                DO(weir_zero_gather(zero, u, i, "param", x + t->at));
        }
}

/* Each element is at most half a scale of its block of int8 away from what it was. Returns the sum of squares of the differences. */
static double check_block(const weir_zero *zero, uint64_t block, const float *exact, const float *seen)
{
    const struct wr_zero_block *b = &zero->l.blocks[block];
    double sum = 0;
    for (uint64_t s = b->section; s < b->section + b->nsections; s++)
        for (int r = 0; r < zero->nshard; r++) {
            const struct wr_zero_section *section = &zero->l.sections[s];
            uint64_t first = section->at + wr_zero_bound(section, r), n = wr_zero_part(section, r);
            for (uint64_t at = 0; at < n; at += BLOCK) {
                uint64_t m = n - at < BLOCK ? n - at : BLOCK;
                double most = 0;
                for (uint64_t i = first + at; i < first + at + m; i++)
                    most = fmax(most, fabs(exact[i]));
                for (uint64_t i = first + at; i < first + at + m; i++) {
                    double off = fabs((double)exact[i] - seen[i]);
                    CHECK(off <= most / 254 * 1.0001, "block %d, element %d: %g is seen as %g, the largest is %g", (int)block, (int)i, exact[i],
                          seen[i], most);
                    sum += off * off;
                }
            }
        }
    return sum;
}

/* All ranks see the same bits. */
static void check_same(const float *x, uint64_t n)
{
    uint64_t h = wr_agree_hash(WR_AGREE_HASH, x, n * sizeof *x), most = h, least = h;
    OK(weir_allreduce(comm, WEIR_IN_PLACE, &most, 1, WEIR_UINT64, WEIR_MAX));
    OK(weir_allreduce(comm, WEIR_IN_PLACE, &least, 1, WEIR_UINT64, WEIR_MIN));
    CHECK(most == least, "ranks see different parameters");
}

static void params_of(uint64_t flags, uint64_t partition, uint64_t secondary, uint64_t prefetch)
{
    static float exact[8192];
    struct model m;
    one_group(&m);
    weir_zero_options o = options(3, flags | WEIR_ZERO_QUANTIZED_PARAMS);
    o.partition = partition;
    o.secondary_group = secondary;
    o.prefetch_bytes = prefetch;
    o.max_live_bytes = 9000;
    weir_zero *zero = create(&m, &o);
    double off = 0, all = 0;
    for (int step = 0; step < 3; step++) {
        for (uint64_t b = 0; b < zero->l.nblocks; b++) {
            uint64_t u = zero->l.blocks[b].unit, n = zero->l.blocks[b].n;
            CHECK(n <= 8192, "%d elements", (int)n);
            exact_block(zero, b, exact);
            DO(weir_zero_begin(zero, WEIR_ZERO_EVAL));
            DO(weir_zero_before_forward(zero, u));
            const float *seen = (const float *)(const void *)zero->live.blocks[b].data;
            off += check_block(zero, b, exact, seen);
            check_same(seen, n);
            for (uint64_t i = 0; i < n; i++)
                all += (double)exact[i] * exact[i];
            DO(weir_zero_after_forward(zero, u));
            DO(weir_zero_end(zero));
        }
        train(zero, &m, step, 0, 0);
        DO(weir_zero_step(zero, NULL, NULL));
    }
    double error = sqrt(off / all);
    CHECK(error > 0 && error < 0.01, "parameters are off by %g", error);
    if (rank == 0)
        printf("parameters are off by %.2e, root of mean squares\n", error);
    weir_zero_free(zero);
}

static void params(void)
{
    params_of(WEIR_ZERO_PRIVATE, WEIR_ZERO_FLAT, 0, 1 << 20);
    params_of(0, WEIR_ZERO_WHOLE_TENSOR, 0, 2000);
    params_of(0, WEIR_ZERO_FLAT, WEIR_ZERO_NODE, 0);
}

/* ---- gradients ---- */

/* The mean over all ranks, and the largest gradient of any rank. */
static double mean_grads(const struct model *m, int u, int i, const float *w, int step, int micros, double *mean)
{
    double most = 0;
    for (uint64_t e = 0; e < elements(&m->tensors[u][i]); e++) {
        mean[e] = 0;
        for (int r = 0; r < size; r++)
            for (int micro = 0; micro < micros; micro++) {
                float g = element_grad(w[e], step, r, micro, u, i, e);
                most = fmax(most, fabs(g));
                mean[e] += g / (double)(size * micros);
            }
    }
    return most;
}

static void grads_of(uint64_t stage, uint64_t reduce, uint64_t shard_group, weir_type wire)
{
    static float w[UNITS][TENSORS][2048], g[2048];
    static double mean[2048];
    struct model m;
    one_group(&m);
    weir_zero_options o = options(stage, WEIR_ZERO_QUANTIZED_GRADS);
    o.reduce = reduce;
    o.partition = reduce == WEIR_ZERO_REDUCE_ONCE ? WEIR_ZERO_WHOLE_TENSOR : WEIR_ZERO_FLAT;
    o.shard_group = shard_group;
    o.accumulate = 2;
    o.reduce_type = (uint64_t)wire;
    weir_zero *zero = create(&m, &o);
    double off = 0, all = 0, largest = 0;
    for (int step = 0; step < 2; step++) {
        for (int u = 0; u < UNITS; u++)
            for (uint64_t i = 0; i < m.units[u].ntensors; i++)
                DO(weir_zero_gather(zero, (uint64_t)u, i, "param", w[u][i]));
        for (int micro = 0; micro < 2; micro++)
            train(zero, &m, step, micro, 0);
        DO(weir_zero_step(zero, NULL, NULL));
        for (int u = 0; u < UNITS; u++) /* a tensor shares blocks of int8 with others: the largest of all */
            for (uint64_t i = 0; i < m.units[u].ntensors; i++)
                if (m.tensors[u][i].tied_unit < 0)
                    largest = fmax(largest, mean_grads(&m, u, (int)i, w[u][i], step, 2, mean));
        for (int u = 0; u < UNITS; u++)
            for (uint64_t i = 0; i < m.units[u].ntensors; i++) {
                if (m.tensors[u][i].tied_unit >= 0 || (u == 0 && i == 0) || m.tensors[u][i].flags & WEIR_ZERO_FROZEN)
                    continue;
                mean_grads(&m, u, (int)i, w[u][i], step, 2, mean);
                DO(weir_zero_gather(zero, (uint64_t)u, i, "grad", g));
                for (uint64_t e = 0; e < elements(&m.tensors[u][i]); e++) {
                    /* a node's sum of all ranks is as large as all together: at most twice what one exchange loses; see zero.h */
                    double bound = 2 * largest / 254 * 1.01;
                    CHECK(fabs(g[e] - mean[e]) <= bound, "stage %d, unit %d, tensor %d, element %d: %g, not %g", (int)stage, u, (int)i, (int)e, g[e],
                          mean[e]);
                    off += (g[e] - mean[e]) * (g[e] - mean[e]);
                    all += mean[e] * mean[e];
                }
            }
    }
    double error = sqrt(off / all);
    CHECK(error < 0.01 && (error > 1e-6 || zero->nshard == 1), "gradients are off by %g", error);
    if (rank == 0)
        printf("stage %d: gradients are off by %.2e, root of mean squares\n", (int)stage, error);
    weir_zero_free(zero);
}

static void not_finite(uint64_t stage)
{
    static const float bad[] = {NAN, INFINITY};
    struct model m;
    one_group(&m);
    weir_zero_options o = options(stage, WEIR_ZERO_QUANTIZED_GRADS);
    weir_zero *zero = create(&m, &o);
    for (int step = 0; step < 4; step++) {
        weir_zero_report report = {.size = sizeof report};
        train(zero, &m, step, 0, step % 2 ? 0 : bad[step / 2]);
        DO(weir_zero_step(zero, NULL, &report));
        CHECK(report.skipped == (step % 2 == 0), "step %d was%s skipped", step, report.skipped ? "" : " not");
    }
    weir_zero_free(zero);
}

static void grads(void)
{
    grads_of(1, WEIR_ZERO_REDUCE_AUTO, 0, WEIR_FP32);
    grads_of(2, WEIR_ZERO_REDUCE_EVERY, 0, WEIR_BF16);
    grads_of(2, WEIR_ZERO_REDUCE_ONCE, 0, WEIR_FP32);
    grads_of(3, WEIR_ZERO_REDUCE_AUTO, 0, WEIR_FP32);
    if (size % 2 == 0)
        grads_of(3, WEIR_ZERO_REDUCE_AUTO, 2, WEIR_FP32);
    not_finite(1);
    not_finite(3);
}

/* ---- losses ---- */

/* Half the squared distance of all parameters from 0.1, as the program sees them, after each step of AdamW. */
static void curve(uint64_t flags, uint64_t secondary, double *losses, int steps)
{
    struct model m;
    one_group(&m);
    weir_zero_options o = options(3, flags);
    o.secondary_group = secondary;
    weir_zero *zero = create(&m, &o);
    for (int step = 0; step < steps; step++) {
        losses[step] = 0;
        train(zero, &m, step, 0, 0);
        DO(weir_zero_step(zero, NULL, NULL));
        DO(weir_zero_begin(zero, WEIR_ZERO_EVAL));
        for (int u = 0; u < UNITS; u++) {
            DO(weir_zero_before_forward(zero, (uint64_t)u));
            for (uint64_t i = 0; i < m.units[u].ntensors; i++) {
                const float *w = weir_zero_param(zero, (uint64_t)u, i);
                for (uint64_t e = 0; !(m.tensors[u][i].flags & WEIR_ZERO_FROZEN) && e < elements(&m.tensors[u][i]); e++)
                    losses[step] += 0.5 * (w[e] - 0.1) * (w[e] - 0.1);
            }
            DO(weir_zero_after_forward(zero, (uint64_t)u));
        }
        DO(weir_zero_end(zero));
    }
    weir_zero_free(zero);
}

static void losses(void)
{
    enum { STEPS = 25 };
    double exact[STEPS], quantised[STEPS], secondary[STEPS];
    curve(0, 0, exact, STEPS);
    curve(WEIR_ZERO_QUANTIZED_PARAMS | WEIR_ZERO_QUANTIZED_GRADS, 0, quantised, STEPS);
    curve(0, WEIR_ZERO_NODE, secondary, STEPS);
    double worst = 0;
    for (int i = 0; i < STEPS; i++) {
        worst = fmax(worst, fabs(quantised[i] / exact[i] - 1));
        CHECK(exact[i] == secondary[i], "step %d: the loss is %.17g with a secondary group, %.17g without", i, secondary[i], exact[i]);
    }
    CHECK(exact[STEPS - 1] < 0.5 * exact[0] && worst < 0.02, "losses %g .. %g differ by %g", exact[0], exact[STEPS - 1], worst);
    if (rank == 0)
        printf("losses %.4g .. %.4g differ by at most %.2e\n", exact[0], exact[STEPS - 1], worst);
}

/* ---- bytes ---- */

static void near(double value, double wanted, const char *what)
{
    CHECK(fabs(value - wanted) <= 0.02 * wanted, "%s: %.0f, the formula says %.0f", what, value, wanted);
}

static double total(uint64_t bytes)
{
    double sum = (double)bytes;
    OK(weir_allreduce(comm, WEIR_IN_PLACE, &sum, 1, WEIR_FP64, WEIR_SUM));
    return sum;
}

static void traffic(void)
{
    struct model m;
    make_layers(&m);
    double n = size, x = (n - 1) / n, p = (double)LAYERS * ROWS * COLS, q = 1 + 4.0 / BLOCK;
    for (uint64_t stage = 1; stage <= 3; stage++) {
        weir_zero_report r = {.size = sizeof r};
        weir_zero_budget b = {.size = sizeof b};
        weir_zero_options o = options(stage, WEIR_ZERO_QUANTIZED_GRADS | WEIR_ZERO_PRIVATE | (stage == 3 ? WEIR_ZERO_QUANTIZED_PARAMS : 0));
        o.bucket_bytes = 50000;
        o.persistent_bytes = o.prefetch_bytes = 0;
        o.max_live_bytes = 2 * ROWS * COLS * 4;
        weir_zero *zero = create(&m, &o);
        for (int step = 0; step < 2; step++) {
            train(zero, &m, step, 0, 0);
            DO(weir_zero_step(zero, NULL, &r));
        }
        OK(weir_zero_estimate(&o, m.units, LAYERS, size, &b, NULL));
        near((double)r.reduce_bytes, q * p * x, "gradients");
        near((double)r.gather_bytes, stage == 3 ? 2 * q * p * x : 4 * p * x, "parameters");
        near((double)b.reduce_bytes, (double)r.reduce_bytes, "the estimate of gradients");
        near((double)b.gather_bytes, (double)r.gather_bytes, "the estimate of parameters");
        weir_zero_free(zero);
    }
}

/* Backward nothing comes from other nodes; forward each node gets once what it does not own; the bits are those without a group. */
static void secondary_of(uint64_t secondary, uint64_t flags)
{
    static float with[ROWS * COLS], without[ROWS * COLS];
    struct model m;
    make_layers(&m);
    weir_zero_options o = options(3, flags), plain;
    o.accumulate = 2;
    o.persistent_bytes = 0; /* units go, and come from the group again */
    o.prefetch_bytes = 0;   /* what is gathered while others update still is of this step at some ranks, and of the next one at others */
    o.max_live_bytes = 2 * ROWS * COLS * 4;
    plain = o;
    o.secondary_group = secondary;
    weir_zero *zero = create(&m, &o), *other = create(&m, &plain);
    const struct wr_zero_window *w = &zero->live.window;
    double size_of = flags ? 1 + 4.0 / BLOCK : 4, p = (double)LAYERS * ROWS * COLS, least = 1e30, plainly = 0;
    double wanted = total((uint64_t)(p * size_of * (1.0 / w->nlocal - 1.0 / size)));
    for (int step = 0; step < 4; step++) {
        weir_zero_report r = {.size = sizeof r}, r_plain = r;
        for (int micro = 0; micro < 2; micro++) {
            struct bytes a = train(zero, &m, step, micro, 0);
            train(other, &m, step, micro, 0);
            CHECK(a.backward == 0 && (micro == 0 || a.forward == 0), "%d bytes from other nodes backward, %d forward in pass %d", (int)a.backward,
                  (int)a.forward, micro);
        }
        DO(weir_zero_step(zero, NULL, &r));
        DO(weir_zero_step(other, NULL, &r_plain));
        double from_others = total(r.gather_bytes - r.gather_node_bytes);
        least = step ? fmin(least, from_others) : least; /* a rank that waited long for another one reads a part once more */
        plainly = total(r_plain.gather_bytes - r_plain.gather_node_bytes);
    }
    near(least, wanted, "from other nodes");
    CHECK(plainly > 2 * wanted, "%.0f bytes without a group, %.0f with one", plainly, wanted);
    for (uint64_t u = 0; u < LAYERS; u++) {
        DO(weir_zero_gather(zero, u, 0, "param", with));
        DO(weir_zero_gather(other, u, 0, "param", without));
        CHECK(!memcmp(with, without, sizeof with), "unit %d differs from the one without a group", (int)u);
    }
    weir_zero_free(other);
    weir_zero_free(zero);
}

static void secondary(void)
{
    secondary_of(WEIR_ZERO_NODE, 0);
    secondary_of(WEIR_ZERO_NODE, WEIR_ZERO_QUANTIZED_PARAMS);
    if (size == 4)
        secondary_of(2, 0);
}

/* ---- memory ---- */

static void memory_of(uint64_t flags, uint64_t secondary_ranks)
{
    struct model m;
    make_layers(&m);
    weir_zero_budget b = {.size = sizeof b};
    weir_zero_report r = {.size = sizeof r};
    weir_zero_options o = options(3, flags);
    o.quant_block = 256;
    o.bucket_bytes = 25000;
    o.prefetch_bytes = ROWS * COLS * 4;
    o.secondary_group = secondary_ranks;
    o.max_live_bytes = 3 * ROWS * COLS * 4;
    weir_zero *zero = create(&m, &o);
    for (int step = 0; step < 3; step++) {
        train(zero, &m, step, 0, 0);
        DO(weir_zero_step(zero, NULL, &r));
    }
    OK(weir_zero_estimate(&o, m.units, LAYERS, size, &b, NULL));
    CHECK(fabs((double)r.memory_peak / (double)b.total_bytes - 1) < 0.03, "%.0f bytes are held, the formula says %.0f", (double)r.memory_peak,
          (double)b.total_bytes);
    weir_zero_free(zero);
}

static void memory(void)
{
    memory_of(WEIR_ZERO_QUANTIZED_PARAMS | WEIR_ZERO_PRIVATE, 0);
    memory_of(WEIR_ZERO_QUANTIZED_GRADS | WEIR_ZERO_PRIVATE, 0);
    if (size == 4)
        memory_of(0, 2);
}

/* ---- what cannot be ---- */

static void refuse(const weir_zero_options *o, const char *what)
{
    struct model m;
    weir_zero *zero = NULL;
    weir_error err;
    one_group(&m);
    CHECK(weir_zero_create(comm, o, m.units, UNITS, &zero, &err) == WEIR_ERR_INVALID && !zero && err.message[0], "%s", what);
}

static void refused(void)
{
    const uint64_t params_flag = WEIR_ZERO_QUANTIZED_PARAMS, grads_flag = WEIR_ZERO_QUANTIZED_GRADS;
    weir_zero_options o = options(2, params_flag);
    refuse(&o, "int8 with stage 2");
    o = options(0, grads_flag);
    refuse(&o, "int8 gradients with stage 0");
    o = options(3, grads_flag | WEIR_ZERO_REPRODUCIBLE);
    refuse(&o, "int8 and the same bits");
    o = options(3, params_flag);
    o.quant_block = 48;
    refuse(&o, "blocks of 48");
    o = options(3, 0);
    o.secondary_group = 3;
    refuse(&o, "groups of 3 of 4");
    o.secondary_group = 4;
    refuse(&o, "a group on two nodes");
    o.secondary_group = 2;
    o.flags = WEIR_ZERO_PRIVATE;
    refuse(&o, "a group that gathers for itself");
}

int main(int argc, char **argv)
{
    weir_rule_options ro = {.size = sizeof ro};
    start();
    OK(weir_rule_defaults(WEIR_RULE_ADAMW, &ro));
    ro.isa = NULL;
    OK(weir_rule_create(&ro, &rule, NULL));
    group.rule = rule;
    group.schedule = &schedule;
    schedule.lr = 0.03;
    for (int i = 1; i < argc; i++) {
        const char *what = argv[i];
        if (!strcmp(what, "params"))
            params();
        else if (!strcmp(what, "grads"))
            grads();
        else if (!strcmp(what, "losses"))
            losses();
        else if (!strcmp(what, "traffic"))
            traffic();
        else if (!strcmp(what, "secondary"))
            secondary();
        else if (!strcmp(what, "memory"))
            memory();
        else
            refused();
        barrier();
    }
    weir_rule_free(rule);
    finish(argc > 1 ? argv[1] : "nothing");
    return 0;
}
