/* SPDX-License-Identifier: BSD-3-Clause */
/* Which component starts a process, by imagined environments; process mappings; values that are cut into pieces. */
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "comm/boot/boot.h"
#include "comm/boot/kv.h"
#include "comm/boot/launcher.h"
#include "comm/boot/mapping.h"
#include "comm/boot/pmi1.h"
#include "comm/boot/split.h"

enum { MAX_VARS = 12 };

/* Opens the boot in an environment; the name of what opened, or NULL and the error. */
static const char *opened(const char *const *vars, weir_error *err)
{
    struct wr_env env = {vars};
    struct wr_config config;
    weir_init_options options = WEIR_INIT_OPTIONS_INIT;
    struct wr_boot *boot = NULL;
    assert_ok(wr_config_load(&config, &env, NULL, err), err);
    config.boot_timeout = 300000000;
    struct wr_boot_params params = {.config = &config, .env = &env, .options = &options};
    weir_status status = wr_boot_open(&params, &boot, err);
    wr_config_free(&config);
    if (status != WEIR_OK) {
        assert_int_equal(status, err->status);
        return NULL;
    }
    const char *name = boot->ops->name;
    wr_boot_close(boot, false, NULL);
    return name;
}

static void alone_without_a_launcher(void **state)
{
    (void)state;
    static const char *const environments[][MAX_VARS] = {
        {"PATH=/bin", NULL},
        /* a batch script, and the shell of salloc: in a job, but not a step */
        {"SLURM_JOB_ID=4", "SLURM_PROCID=0", "SLURM_NTASKS=4", "SLURM_NPROCS=4", NULL},
        {"SLURM_JOB_ID=4", "SLURM_NTASKS=4", NULL},
        /* a batch script where Slurm numbers its step, and salloc's shell as an interactive step */
        {"SLURM_PROCID=0", "SLURM_STEP_ID=4294967291", "SLURM_STEP_NUM_TASKS=4", NULL},
        {"SLURM_PROCID=0", "SLURM_STEP_ID=4294967290", "SLURM_STEP_NUM_TASKS=1", "SLURM_NTASKS=8", NULL},
        /* a step of one task */
        {"SLURM_PROCID=0", "SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=1", NULL},
        /* mpirun -n 1 inside a step of four is near enough to know */
        {"SLURM_PROCID=0", "SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=4", "OMPI_COMM_WORLD_SIZE=1", "OMPI_COMM_WORLD_RANK=0", NULL},
        /* the user says so */
        {"SLURM_PROCID=3", "SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=4", "WEIR_BOOT=single", NULL},
        {"PMI_FD=5", "PMI_RANK=0", "PMI_SIZE=2", "WEIR_BOOT=single", NULL},
    };
    for (size_t i = 0; i < sizeof environments / sizeof environments[0]; i++) {
        weir_error err;
        const char *name = opened(environments[i], &err);
        if (!name || strcmp(name, "single"))
            fail_msg("environment %zu: %s", i, name ? name : err.message);
    }
}

static void one_of_several_never_runs_alone(void **state)
{
    (void)state;
    static const struct {
        const char *vars[MAX_VARS], *message, *advice;
    } cases[] = {
        {{"SLURM_PROCID=3", "SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=4", NULL}, "srun started this process as one of 4", "--mpi=pmi2"},
        {{"SLURM_PROCID=0", "SLURM_STEPID=2", "SLURM_STEP_NUM_TASKS=2", NULL}, "one of 2", "--mpi=pmi2"},
        {{"OMPI_COMM_WORLD_SIZE=8", "OMPI_COMM_WORLD_RANK=1", NULL}, "mpirun (Open MPI) started this process as one of 8", "weirrun"},
        {{"PMI_SIZE=3", "PMI_RANK=1", NULL}, "one of 3", "weirrun"},
        {{"FLUX_JOB_SIZE=3", "FLUX_TASK_RANK=1", NULL}, "flux started", "flux"},
        /* the way that was found does not work: no other is tried in silence */
        {{"PMI_FD=1023", "PMI_RANK=1", "PMI_SIZE=2", NULL}, "PMI_FD=1023 is not an open descriptor", "unset PMI_FD"},
        {{"PMIX_NAMESPACE=x", "PMIX_RANK=0", "WEIR_PMIX_LIB=/nowhere/libpmix.so", NULL}, "PMIx", "srun --mpi=pmi2"},
        {{"WEIR_JOB_SERVER=127.0.0.1:1", "WEIR_JOB_RANK=0", "WEIR_JOB_SIZE=2", NULL}, "WEIR_JOB_SECRET", "weirrun"},
        {{"WEIR_JOB_SERVER=127.0.0.1:1", "WEIR_JOB_RANK=2", "WEIR_JOB_SIZE=2", NULL}, "do not name a rank", "weirrun"},
        {{"WEIR_JOB_SERVER=127.0.0.1:1", "WEIR_JOB_RANK=0", "WEIR_JOB_SIZE=2",
          "WEIR_JOB_SECRET=00112233445566778899aabbccddeeff", NULL}, "cannot join the job", "runs"},
        /* asked for by name, but not there */
        {{"WEIR_BOOT=tcp", NULL}, "WEIR_JOB_SERVER is not set", "weirrun"},
        {{"WEIR_BOOT=pmix", "WEIR_PMIX_LIB=/nowhere/libpmix.so", NULL}, "PMI", "PMIx"},
        {{"WEIR_BOOT=pmi1", NULL}, "neither PMI_FD nor PMI_PORT is set", "PMI-1"},
        {{"WEIR_BOOT=pmi2", "WEIR_PMI2_LIB=/nowhere/libpmi2.so", NULL}, "PMI-2", "PMI"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weir_error err;
        const char *name = opened(cases[i].vars, &err);
        if (name)
            fail_msg("case %zu opened %s", i, name);
        assert_int_equal(err.status, WEIR_ERR_LAUNCHER);
        if (!strstr(err.message, cases[i].message))
            fail_msg("case %zu: %s", i, err.message);
#ifdef HAVE_PMIX
        if (!strstr(err.advice, cases[i].advice) && !strstr(err.advice, "weirrun") && !strstr(err.advice, "WEIR_PMI") &&
            !strstr(err.advice, "WEIR_BOOT"))
            fail_msg("case %zu: %s", i, err.advice);
#endif
    }
}

static void weirruns_variables_win(void **state)
{
    (void)state;
    static const char *const vars[] = {"WEIR_JOB_SERVER=127.0.0.1:1", "PMI_FD=1023", "PMI_RANK=0", "PMI_SIZE=2", "PMIX_NAMESPACE=x",
                                       "PMIX_RANK=0", NULL};
    weir_error err;
    assert_null(opened(vars, &err));
    assert_non_null(strstr(err.message, "WEIR_JOB_"));
}

static void mappings_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int size, want[10];
    } good[] = {
        {"(vector,(0,1,2))", 2, {0, 0}},
        {"(vector,(0,1,1))", 3, {0, 0, 0}}, /* hydra on one host: used again */
        {"(vector,(0,1,5),(1,3,1))", 8, {0, 0, 0, 0, 0, 1, 2, 3}},
        {"(vector,(0,2,2))", 8, {0, 0, 1, 1, 0, 0, 1, 1}},
        {"(vector,(0,3,1),(0,1,2))", 5, {0, 1, 2, 0, 0}},
        {"(vector, (4, 2, 1), (0, 1, 1))", 3, {0, 1, 2}}, /* numbered by lowest rank */
        {"(vector,(0,4,2))", 3, {0, 0, 1}},               /* more room than ranks */
    };
    static const char *const bad[] = {"", "(vector", "(vector)", "(vector,)", "(vector,(0,1))", "(vector,(0,0,1))", "(vector,(0,1,0))",
                                      "(vector,(0,-1,1))", "(matrix,(0,1,1))", "(vector,(0,1,99999999999))", "(vector,(0,1,1)"};
    int out[10];
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(wr_process_mapping(good[i].text, good[i].size, out));
        assert_memory_equal(out, good[i].want, (size_t)good[i].size * sizeof out[0]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (wr_process_mapping(bad[i], 3, out))
            fail_msg("'%s' was understood", bad[i]);
}

static void node_maps_are_joined(void **state)
{
    (void)state;
    static const int real[] = {7, 7, 2, 2, 7, 2}, imagined[] = {0, 1, 0, 1, 0, 0};
    int out[6], leader[6];
    assert_int_equal(wr_node_map_join(6, real, imagined, out, leader), 4);
    static const int want[] = {0, 1, 2, 3, 0, 2}, want_leader[] = {0, 1, 2, 3};
    assert_memory_equal(out, want, sizeof want);
    assert_memory_equal(leader, want_leader, sizeof want_leader);
    assert_int_equal(wr_node_map_join(6, real, NULL, out, leader), 2);
    assert_int_equal(leader[1], 2);
    assert_int_equal(wr_node_map_join(6, NULL, NULL, out, leader), 1);
}

/* ---- split values ---- */

struct store {
    struct wr_kv kv;
    size_t key_max, value_max;
    int puts;
    bool cut; /* hands out pieces that are cut short */
};

static weir_status store_put(void *arg, const char *key, const char *text, weir_error *err)
{
    struct store *s = arg;
    size_t len;
    assert_true(strlen(key) <= s->key_max && strlen(text) <= s->value_max);
    assert_null(strpbrk(text, " =;\n"));
    assert_null(wr_kv_get(&s->kv, key, &len)); /* no key twice */
    s->puts++;
    return wr_kv_put(&s->kv, key, text, strlen(text) + 1, err);
}

static weir_status store_get(void *arg, int rank, const char *key, char *text, size_t size, weir_error *err)
{
    struct store *s = arg;
    size_t len;
    const char *value = wr_kv_get(&s->kv, key, &len);
    (void)rank;
    if (!value)
        return wr_error_set(err, WEIR_ERR_NOT_FOUND, NULL, "none");
    assert_true(len <= size);
    memcpy(text, value, len);
    if (s->cut && len > 2)
        text[len - 2] = 0;
    return WEIR_OK;
}

static void long_values_are_split(void **state)
{
    (void)state;
    static const size_t limits[] = {32, 63, 255, 1000};
    for (size_t l = 0; l < sizeof limits / sizeof limits[0]; l++) {
        struct store s = {.key_max = 63, .value_max = limits[l]};
        struct wr_split split = {.key_max = 63, .value_max = limits[l], .generation = 4000000000u, .arg = &s, .put = store_put,
                                 .get = store_get};
        for (size_t len = 0; len < 3000; len = len * 2 + 1) {
            unsigned char value[3000];
            void *got;
            size_t n;
            weir_error err;
            char key[64];
            snprintf(key, sizeof key, "%s-%zu", len > 500 ? "a-key-nearly-as-long-as-keys-may-ever-be-here-and-now" : "k", len);
            for (size_t i = 0; i < len; i++)
                value[i] = (unsigned char)(i * 37 + len);
            assert_ok(wr_split_put(&split, 2147483647, key, value, len, &err), &err);
            assert_ok(wr_split_get(&split, 2147483647, key, &got, &n, &err), &err);
            assert_int_equal(n, len);
            assert_memory_equal(got, value, len);
            free(got);
            assert_int_equal(wr_split_get(&split, 2, key, &got, &n, &err), WEIR_ERR_NOT_FOUND);
            split.generation--; /* another context of the process */
            assert_int_equal(wr_split_get(&split, 2147483647, key, &got, &n, &err), WEIR_ERR_NOT_FOUND);
            split.generation++;
            s.cut = true;
            assert_int_not_equal(wr_split_get(&split, 2147483647, key, &got, &n, &err), WEIR_OK);
            s.cut = false;
        }
        assert_true(s.puts > 12);
        wr_kv_free(&s.kv);
    }
}

static void pmi1_words_are_found(void **state)
{
    (void)state;
    char out[16];
    assert_true(wr_pmi1_word("cmd=get_result rc=0 value=a b=c", "value", out, sizeof out));
    assert_string_equal(out, "a b=c");
    assert_true(wr_pmi1_word("cmd=get_result rc=0 value=a b=c", "rc", out, sizeof out));
    assert_string_equal(out, "0");
    assert_false(wr_pmi1_word("cmd=get_result rc=0", "c", out, sizeof out));
    assert_false(wr_pmi1_word("cmd=a_word_that_is_too_long", "cmd", out, sizeof out));
    assert_false(wr_pmi1_word("", "cmd", out, sizeof out));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alone_without_a_launcher),
        cmocka_unit_test(one_of_several_never_runs_alone),
        cmocka_unit_test(weirruns_variables_win),
        cmocka_unit_test(mappings_are_read),
        cmocka_unit_test(node_maps_are_joined),
        cmocka_unit_test(long_values_are_split),
        cmocka_unit_test(pmi1_words_are_found),
    };
    return cmocka_run_group_tests_name("boot_detect", tests, NULL, NULL);
}
