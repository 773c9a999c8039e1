/* SPDX-License-Identifier: BSD-3-Clause */
/* Configuration in DeepSpeed's vocabulary: what comes of each key, what is refused and how, and that the documentation has every key. */
#include "tests/unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "optim/zero_config.h"

static weir_status parse(const char *text, int nranks, weir_zero_config **config, weir_error *err)
{
    memset(err, 0, sizeof *err);
    return weir_zero_config_parse(text, strlen(text), nranks, config, err);
}

static void test_everything(void **state)
{
    (void)state;
    static const char text[] =
        "{\"train_batch_size\": 64, \"train_micro_batch_size_per_gpu\": 4, \"gradient_accumulation_steps\": 2, "
        "\"gradient_clipping\": 1.5,"
        " \"bf16\": {\"enabled\": true}, \"data_types\": {\"grad_accum_dtype\": \"fp32\"}, "
        "\"communication_data_type\": \"bf16\", \"seed\": 42,"
        " \"optimizer\": {\"type\": \"Adam\", \"params\": {\"lr\": 3e-4, \"betas\": [0.8, 0.95], \"eps\": 1e-7, "
        "\"weight_decay\": 0.1}},"
        " \"scheduler\": {\"type\": \"WarmupCosineLR\", \"params\": {\"total_num_steps\": 1000, \"warmup_num_steps\": "
        "10, \"warmup_type\": \"linear\","
        " \"warmup_min_ratio\": 0.5, \"cos_min_ratio\": 0.1}},"
        " \"zero_optimization\": {\"stage\": 3, \"reduce_bucket_size\": 5e6, \"stage3_prefetch_bucket_size\": 1000, "
        "\"stage3_max_live_parameters\": 1e9,"
        " \"stage3_max_reuse_distance\": 7, \"stage3_param_persistence_threshold\": 100000, \"mics_shard_size\": 4, "
        "\"zero_hpz_partition_size\": 2, \"zero_quantized_weights\": true, \"zero_quantized_gradients\": true,"
        " \"overlap_comm\": true, \"sub_group_size\": 1e6, \"offload_optimizer\": {\"device\": \"nvme\", \"nvme_path\": \"/a/disk\", "
        "\"pin_memory\": true, \"buffer_count\": 5, \"ratio\": 1.0}, \"offload_param\": {\"device\": \"nvme\", \"nvme_path\": \"/a/disk\"}}, \"steps_per_print\": 10}";
    weir_error err;
    weir_zero_config *config;
    weir_zero_options o = WEIR_ZERO_OPTIONS_INIT;
    weir_zero_batch batch = {.size = sizeof batch};
    weir_rule_options rule = {.size = sizeof rule};
    assert_ok(parse(text, 8, &config, &err), &err);
    assert_int_equal(weir_zero_config_batch(config, &batch), WEIR_OK);
    assert_int_equal(batch.train, 64);
    assert_int_equal(weir_zero_config_options(config, &o), WEIR_OK);
    assert_int_equal(o.stage, 3);
    assert_int_equal(o.accumulate, 2);
    assert_int_equal(o.param_type, WEIR_BF16);
    assert_int_equal(o.grad_type, WEIR_FP32);
    assert_int_equal(o.reduce_type, WEIR_BF16);
    assert_int_equal(o.bucket_bytes, 10000000);
    assert_int_equal(o.prefetch_bytes, 2000);
    assert_int_equal(o.max_live_bytes, 2000000000);
    assert_int_equal(o.reuse_bytes, 14);
    assert_int_equal(o.persistent_bytes, 200000);
    assert_int_equal(o.shard_group, 4);
    assert_int_equal(o.secondary_group, 2);
    assert_int_equal(o.offload, WEIR_ZERO_OFFLOAD_STATES | WEIR_ZERO_OFFLOAD_PARAMS);
    assert_string_equal(o.offload_path, "/a/disk");
    assert_int_equal(o.offload_bytes, 4000000);
    assert_int_equal(o.offload_buffers, 5);
    assert_int_equal(o.flags, WEIR_ZERO_QUANTIZED_PARAMS | WEIR_ZERO_QUANTIZED_GRADS);
    assert_int_equal(o.seed, 42);
    assert_true(o.clip_norm == 1.5 && o.loss_scale == 1 && o.scale_window == 0);
    assert_int_equal(o.ngroups, 1);
    assert_true(o.groups->weight_decay == 0.1);
    assert_int_equal(weir_rule_get_options(o.groups->rule, &rule), WEIR_OK);
    assert_int_equal(rule.kind, WEIR_RULE_ADAMW);
    assert_true(rule.beta1 == 0.8 && rule.beta2 == 0.95 && rule.eps == 1e-7);
    const weir_schedule *s = o.groups->schedule;
    assert_int_equal(s->kind, WEIR_SCHEDULE_COSINE);
    assert_true(fabs(weir_schedule_lr(s, 10) - 3e-4) < 1e-12 && fabs(weir_schedule_lr(s, 1000) - 3e-5) < 1e-12);
    assert_true(fabs(weir_schedule_lr(s, 5) - 2.25e-4) < 1e-12);
    weir_zero_config_free(config);
}

/* What is not given stays weir's, and the program's groups stay the program's. */
static void test_little(void **state)
{
    (void)state;
    weir_error err;
    weir_zero_config *config;
    weir_zero_options o = WEIR_ZERO_OPTIONS_INIT, usual = WEIR_ZERO_OPTIONS_INIT;
    weir_group mine = WEIR_GROUP_INIT;
    assert_ok(parse("{\"train_batch_size\": 6, \"fp16\": {\"enabled\": true, \"initial_scale_power\": 10}}", 3, &config,
                    &err),
              &err);
    o.groups = &mine;
    o.ngroups = 1;
    o.partition = WEIR_ZERO_WHOLE_TENSOR;
    assert_int_equal(weir_zero_config_options(config, &o), WEIR_OK);
    assert_ptr_equal(o.groups, &mine);
    assert_int_equal(o.partition, WEIR_ZERO_WHOLE_TENSOR);
    assert_int_equal(o.bucket_bytes, usual.bucket_bytes);
    assert_int_equal(o.max_live_bytes, usual.max_live_bytes);
    assert_int_equal(o.accumulate, 1);
    assert_true(o.loss_scale == 1024 && o.scale_window == 1000);
    o.size = 1;
    assert_int_equal(weir_zero_config_options(config, &o), WEIR_ERR_INVALID);
    weir_zero_config_free(config);
}

static void test_batches(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int ranks;
        uint64_t train, micro, accumulate; /* train 0: refused */
    } cases[] = {
        {"{\"train_batch_size\": 32}", 4, 32, 8, 1},
        {"{\"train_micro_batch_size_per_gpu\": 3}", 4, 12, 3, 1},
        {"{\"train_batch_size\": 32, \"gradient_accumulation_steps\": 2}", 4, 32, 4, 2},
        {"{\"train_batch_size\": 32, \"train_micro_batch_size_per_gpu\": 2}", 4, 32, 2, 4},
        {"{\"train_micro_batch_size_per_gpu\": 2, \"gradient_accumulation_steps\": 5}", 4, 40, 2, 5},
        {"{\"train_batch_size\": 32, \"train_micro_batch_size_per_gpu\": 2, \"gradient_accumulation_steps\": 4}", 4, 32,
         2, 4},
        {"{\"train_batch_size\": 32, \"train_micro_batch_size_per_gpu\": 2, \"gradient_accumulation_steps\": 4}", 3, 0,
         0, 0},
        {"{\"train_batch_size\": 33}", 4, 0, 0, 0},
        {"{\"train_batch_size\": 2}", 4, 0, 0, 0},
        {"{\"train_batch_size\": 32, \"train_micro_batch_size_per_gpu\": 3}", 4, 0, 0, 0},
        {"{\"gradient_accumulation_steps\": 2}", 4, 0, 0, 0},
        {"{\"train_batch_size\": 0}", 4, 0, 0, 0},
        {"{}", 4, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weir_error err;
        weir_zero_config *config;
        weir_zero_batch batch = {.size = sizeof batch};
        weir_status status = parse(cases[i].text, cases[i].ranks, &config, &err);
        if (!cases[i].train) {
            if (status != WEIR_ERR_CONFIG || !strstr(err.message, "train_batch_size"))
                fail_msg("%s: %s", cases[i].text, err.message);
            continue;
        }
        assert_ok(status, &err);
        weir_zero_config_batch(config, &batch);
        if (batch.train != cases[i].train || batch.micro != cases[i].micro || batch.accumulate != cases[i].accumulate)
            fail_msg("%s: %d %d %d", cases[i].text, (int)batch.train, (int)batch.micro, (int)batch.accumulate);
        weir_zero_config_free(config);
    }
}

#define B "{\"train_batch_size\": 4, "

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        weir_status status;
        const char *says, *advises;
    } cases[] = {
        {"[]", WEIR_ERR_CONFIG, "no object", "JSON"},
        {"{\"train_batch_size\": }", WEIR_ERR_CONFIG, "line 1", "JSON"},
        {B "\"gradient_cliping\": 1}", WEIR_ERR_CONFIG, "'gradient_cliping' is not known", "'gradient_clipping'"},
        {B "\"zero_optimization\": {\"stage3_max_live_params\": 1}}", WEIR_ERR_CONFIG,
         "'zero_optimization.stage3_max_live_params'", "zero_optimization.stage3_max_live_parameters"},
        {B "\"stage\": 1}", WEIR_ERR_CONFIG, "'stage' is not known", "zero_optimization.stage"},
        {B "\"something_else_entirely\": 1}", WEIR_ERR_CONFIG, "not known", "doc/zero-config.md"},
        {B "\"gradient_clipping\": \"auto\"}", WEIR_ERR_CONFIG, "\"auto\"", "write the value"},
        {B "\"gradient_clipping\": true}", WEIR_ERR_CONFIG, "is not a number", "clip_norm"},
        {B "\"gradient_clipping\": -1}", WEIR_ERR_CONFIG, "0 or more", ""},
        {B "\"bf16\": true}", WEIR_ERR_CONFIG, "is not an object", ""},
        {B "\"zero_optimization\": {\"stage\": 4}}", WEIR_ERR_CONFIG, "0 to 3", ""},
        {B "\"zero_optimization\": {\"stage\": 1.5}}", WEIR_ERR_CONFIG, "whole number", ""},
        {B "\"zero_optimization\": {\"stage3_max_live_parameters\": 1e300}}", WEIR_ERR_CONFIG, "whole number", ""},
        {B "\"zero_optimization\": {\"reduce_bucket_size\": 0}}", WEIR_ERR_CONFIG, "1 or more", ""},
        {B "\"bf16\": {\"enabled\": true}, \"fp16\": {\"enabled\": true}}", WEIR_ERR_CONFIG, "exclude", ""},
        {B "\"bf16\": {\"enabled\": true}, \"communication_data_type\": \"fp32\"}", WEIR_ERR_UNSUPPORTED,
         "communication_data_type", ""},
        {B "\"fp16\": {\"enabled\": true, \"hysteresis\": 2}}", WEIR_ERR_UNSUPPORTED, "hysteresis", ""},
        {B "\"amp\": {\"enabled\": true}}", WEIR_ERR_UNSUPPORTED, "amp", ""},
        {B "\"zero_optimization\": {\"stage\": 2, \"zero_hpz_partition_size\": 8}}", WEIR_ERR_UNSUPPORTED, "secondary groups", ""},
        {B "\"zero_optimization\": {\"stage\": 2, \"zero_quantized_weights\": true}}", WEIR_ERR_UNSUPPORTED, "only stage 3", ""},
        {B "\"zero_optimization\": {\"zero_quantized_gradients\": true}}", WEIR_ERR_UNSUPPORTED, "1 to 3", ""},
        {B "\"zero_optimization\": {\"stage\": 3, \"zero_quantized_nontrainable_weights\": true}}", WEIR_ERR_UNSUPPORTED,
         "with zero_quantized_weights", ""},
        {B "\"zero_optimization\": {\"offload_param\": {\"device\": \"nvme\", \"nvme_path\": \"/x\"}}}",
         WEIR_ERR_UNSUPPORTED, "only stage 3", ""},
        {B "\"zero_optimization\": {\"offload_optimizer\": {\"device\": \"nvme\"}}}", WEIR_ERR_CONFIG, "nvme_path", ""},
        {B "\"zero_optimization\": {\"offload_optimizer\": {\"device\": \"tape\"}}}", WEIR_ERR_CONFIG, "none, cpu or nvme", ""},
        {B "\"zero_optimization\": {\"offload_optimizer\": {\"ratio\": 0.5}}}", WEIR_ERR_UNSUPPORTED, "ratio", ""},
        {B "\"zero_optimization\": {\"offload_optimizer\": {\"buffer_count\": 1}}}", WEIR_ERR_CONFIG, "2 to 64", ""},
        {B "\"zero_optimization\": {\"sub_group_size\": 10}}", WEIR_ERR_CONFIG, "sub_group_size", ""},
        {B "\"optimizer\": {\"type\": \"OneBitAdam\"}}", WEIR_ERR_UNSUPPORTED, "no rule 'OneBitAdam'", ""},
        {B "\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"betas\": [0.9, 1.5]}}}", WEIR_ERR_INVALID, "beta2", ""},
        {B "\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"betas\": [0.9]}}}", WEIR_ERR_CONFIG, "two numbers", ""},
        {B "\"scheduler\": {\"type\": \"OneCycle\"}}", WEIR_ERR_UNSUPPORTED, "WarmupLR", ""},
        {B "\"scheduler\": {\"type\": \"WarmupLR\"}}", WEIR_ERR_UNSUPPORTED, "warmup_type", ""},
        {B "\"scheduler\": {\"type\": \"WarmupDecayLR\", \"params\": {\"warmup_type\": \"linear\"}}}", WEIR_ERR_CONFIG,
         "total_num_steps", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weir_error err;
        weir_zero_config *config;
        weir_status status = parse(cases[i].text, 4, &config, &err);
        if (status != cases[i].status || !strstr(err.message, cases[i].says) || !strstr(err.advice, cases[i].advises))
            fail_msg("%s: %s: %s; %s", cases[i].text, weir_status_name(status), err.message, err.advice);
    }
}

/* Every key stands in the documentation as the table has it, and no other. */
static void test_documentation(void **state)
{
    (void)state;
    const char *top = getenv("top_srcdir");
    char path[4096], line[1024], wanted[1024];
    size_t count, rows = 0;
    const struct wr_zero_key *keys = wr_zero_config_keys(&count);
    snprintf(path, sizeof path, "%s/doc/zero-config.md", top ? top : ".");
    FILE *file = fopen(path, "r");
    if (!file)
        skip();
    while (fgets(line, sizeof line, file)) {
        if (strncmp(line, "| `", 3))
            continue;
        if (rows == count)
            fail_msg("one key too many: %s", line);
        const struct wr_zero_key *key = &keys[rows++];
        snprintf(wanted, sizeof wanted, "| `%s%s%s` | %s |\n", key->block, *key->block ? "." : "", key->name,
                 key->text);
        assert_string_equal(line, wanted);
    }
    fclose(file);
    assert_int_equal(rows, count);
}

static void test_presets(void **state)
{
    (void)state;
    weir_zero_options o = WEIR_ZERO_OPTIONS_INIT, plain = WEIR_ZERO_OPTIONS_INIT;
    weir_error err;
    assert_string_equal(weir_zero_preset_name(WEIR_ZERO_PRESET_LOW_BANDWIDTH), "low-bandwidth");
    assert_string_equal(weir_zero_preset_name((weir_zero_preset)99), "unknown");
    o.seed = 7;
    assert_ok(weir_zero_preset_apply(WEIR_ZERO_PRESET_LOW_BANDWIDTH, &o, &err), &err);
    assert_true(o.stage == 2 && o.reduce == WEIR_ZERO_REDUCE_ONCE && o.reduce_type == WEIR_BF16 && o.bucket_bytes > plain.bucket_bytes);
    assert_ok(weir_zero_preset_apply(WEIR_ZERO_PRESET_HIGH_BANDWIDTH, &o, &err), &err); /* nothing of another preset is left */
    assert_true(o.stage == 3 && o.reduce == WEIR_ZERO_REDUCE_AUTO && o.reduce_type == WEIR_FP32 && o.max_live_bytes < plain.max_live_bytes);
    assert_int_equal(weir_zero_preset_apply(WEIR_ZERO_PRESET_OFFLOAD, &o, &err), WEIR_ERR_INVALID);
    assert_non_null(strstr(err.message, "offload_path"));
    o.offload_path = plain.offload_path = "/tmp";
    assert_ok(weir_zero_preset_apply(WEIR_ZERO_PRESET_FULL_OFFLOAD, &o, &err), &err);
    assert_true(o.stage == 3 && o.offload == (WEIR_ZERO_OFFLOAD_STATES | WEIR_ZERO_OFFLOAD_PARAMS));
    assert_ok(weir_zero_preset_apply(WEIR_ZERO_PRESET_OFFLOAD, &o, &err), &err);
    assert_true(o.stage == 3 && o.offload == WEIR_ZERO_OFFLOAD_STATES && o.max_live_bytes == plain.max_live_bytes);
    assert_ok(weir_zero_preset_apply(WEIR_ZERO_PRESET_DEFAULT, &o, &err), &err);
    plain.stage = 3;
    plain.seed = 7;
    assert_memory_equal(&o, &plain, sizeof o);
    o.flags = WEIR_ZERO_REPRODUCIBLE; /* which reduces as it must */
    assert_ok(weir_zero_preset_apply(WEIR_ZERO_PRESET_LOW_BANDWIDTH, &o, &err), &err);
    assert_true(o.reduce == WEIR_ZERO_REDUCE_AUTO && o.reduce_type == WEIR_FP32);
    assert_int_equal(weir_zero_preset_apply((weir_zero_preset)5, &o, &err), WEIR_ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everything), cmocka_unit_test(test_little),        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_refused),    cmocka_unit_test(test_documentation), cmocka_unit_test(test_presets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
