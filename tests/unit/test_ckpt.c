/* SPDX-License-Identifier: BSD-3-Clause */
/* Checkpoints of one process: what is saved comes back, by name and range and as other types; what cannot be is refused. */
#include "tests/unit/ckpt_world.h"

#include <math.h>
#include <sys/resource.h>

#include "base/half.h"

static char folder[256];

static int set_up(void **state)
{
    (void)state;
    make_temporary(folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    remove_tree(folder);
    return 0;
}

static weir_ckpt_source *open_latest(void)
{
    weir_ckpt_source *source;
    weir_error err;
    assert_ok(weir_ckpt_source_open(folder, WEIR_CKPT_LATEST, &source, &err), &err);
    return source;
}

static void test_round_trip(void **state)
{
    (void)state;
    weir_error err;
    weir_ckpt_tensor tensor = WEIR_CKPT_TENSOR_INIT;
    weir_ckpt_info info = {.size = sizeof info};
    uint64_t checked = 0;
    assert_ok(model_save(&wr_ckpt_fs_posix, folder, 11, 2, &err), &err);
    assert_int_equal(model_latest(folder), 11);
    weir_ckpt_source *source = open_latest();
    assert_int_equal(weir_ckpt_source_info(source, &info), WEIR_OK);
    assert_int_equal(info.tensors, 5);
    assert_int_equal(info.shards, 1);
    assert_int_equal(info.ranks, 1);
    assert_int_equal(info.number, 1);
    assert_string_equal(info.name, "ckpt-00000001-step-11");
    assert_true(info.saved > 1600000000);
    assert_int_equal(weir_ckpt_source_find(source, "layer.0.weight", &tensor), WEIR_OK);
    assert_int_equal(tensor.ndims, 2);
    assert_int_equal(tensor.shape[0], MODEL_ROWS);
    assert_int_equal(tensor.count, MODEL_ROWS * MODEL_COLS);
    assert_string_equal(tensor.dtype, "F32");
    assert_int_equal(weir_ckpt_source_find(source, "layer.0", &tensor), WEIR_ERR_NOT_FOUND);
    assert_int_equal(weir_ckpt_source_tensor(source, 0, &tensor), WEIR_OK);
    assert_string_equal(tensor.name, "empty");
    assert_int_equal(weir_ckpt_source_tensor(source, 5, &tensor), WEIR_ERR_INVALID);
    assert_ok(weir_ckpt_source_verify(source, &checked, &err), &err);
    assert_int_equal(checked, sizeof(float) * MODEL_ROWS * MODEL_COLS + 2 * MODEL_BIAS + 8 + 8 * MODEL_LONG);
    weir_ckpt_source_close(source);
}

/* Every kind of range: inside a part, across the border of two, one element, none, the last. */
static void test_ranges(void **state)
{
    (void)state;
    static const struct {
        uint64_t first, count;
    } ranges[] = {{0, 1},
                  {1000, 2},
                  {999, 3},
                  {1001, 5},
                  {0, 1001},
                  {65535, 2},
                  {65536, 70000},
                  {12, 0},
                  {MODEL_ROWS * MODEL_COLS, 0},
                  {MODEL_ROWS * MODEL_COLS - 1, 1},
                  {3, MODEL_ROWS * MODEL_COLS - 4}};
    weir_error err;
    static float got[MODEL_ROWS * MODEL_COLS + 1];
    assert_ok(model_save(&wr_ckpt_fs_posix, folder, 4, 2, &err), &err);
    weir_ckpt_source *source = open_latest();
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        weir_ckpt_tensor range =
            model_range("layer.0.weight", WEIR_FP32, 0, NULL, ranges[i].first, ranges[i].count, got);
        got[ranges[i].count] = -1;
        assert_ok(weir_ckpt_source_read(source, &range, 1, &err), &err);
        for (uint64_t k = 0; k < ranges[i].count; k++)
            if (got[k] != (float)(ranges[i].first + k) + 1.0f)
                fail_msg("range %zu, element %llu", i, (unsigned long long)k);
        assert_true(got[ranges[i].count] == -1);
    }
    weir_ckpt_tensor outside = model_range("layer.0.weight", WEIR_FP32, 0, NULL, MODEL_ROWS * MODEL_COLS, 1, got);
    assert_int_equal(weir_ckpt_source_read(source, &outside, 1, &err), WEIR_ERR_INVALID);
    outside.first = UINT64_MAX;
    outside.count = 2;
    assert_int_equal(weir_ckpt_source_read(source, &outside, 1, &err), WEIR_ERR_INVALID);
    weir_ckpt_tensor unknown = model_range("nothing", WEIR_FP32, 0, NULL, 0, 1, got);
    assert_int_equal(weir_ckpt_source_read(source, &unknown, 1, &err), WEIR_ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, "nothing"));
    weir_ckpt_tensor integers = model_range("step", WEIR_FP32, 0, NULL, 0, 1, got);
    assert_int_equal(weir_ckpt_source_read(source, &integers, 1, &err), WEIR_ERR_INVALID);
    weir_ckpt_source_close(source);
}

static void test_conversion(void **state)
{
    (void)state;
    static const double values[] =
        {0.0,     -0.0,  1.0,     1.0 + 0x1p-8, 1.0 + 0x1p-8 + 0x1p-40, -(1.0 + 3 * 0x1p-8), 0x1p-133, 65519.0,
         65520.0, 1e300, -1e-300, INFINITY,     1.0 + 0x1p-11 + 0x1p-30};
    enum { N = sizeof values / sizeof *values };
    uint16_t half[N];
    float single[N];
    double back[N];
    wr_ckpt_convert(single, WEIR_FP32, values, WEIR_FP64, N);
    for (int i = 0; i < N; i++)
        assert_true(single[i] == (float)values[i]);
    wr_ckpt_convert(half, WEIR_BF16, values, WEIR_FP64, N);
    assert_int_equal(half[1], 0x8000);
    assert_int_equal(half[3], 0x3f80); /* halfway: to even */
    assert_int_equal(half[4], 0x3f81); /* a little more than halfway, which fp32 does not see */
    assert_int_equal(half[5], 0xbf82);
    assert_int_equal(half[9], 0x7f80);
    wr_ckpt_convert(half, WEIR_FP16, values, WEIR_FP64, N);
    assert_int_equal(half[7], 0x7bff);
    assert_int_equal(half[8], 0x7c00);
    assert_int_equal(half[12], 0x3c01);
    wr_ckpt_convert(back, WEIR_FP64, half, WEIR_FP16, N);
    assert_true(back[7] == 65504.0 && back[0] == 0 && isinf(back[11]));
    wr_ckpt_convert(half, WEIR_BF16, single, WEIR_FP32, N);
    for (int i = 0; i < N; i++)
        assert_int_equal(half[i], half_bf16(single[i]));
    assert_false(wr_ckpt_converts(WEIR_INT32, WEIR_FP32));
    assert_true(wr_ckpt_converts(WEIR_INT32, WEIR_INT32));
    assert_false(wr_ckpt_converts(WEIR_OPAQUE, WEIR_OPAQUE));
}

static void test_entries(void **state)
{
    (void)state;
    static const unsigned char blob[] = {0, 1, 254, 255, 'x'};
    weir_ckpt_entry entries[3] = {WEIR_CKPT_ENTRY_INIT, WEIR_CKPT_ENTRY_INIT, WEIR_CKPT_ENTRY_INIT};
    weir_ckpt_entry got = WEIR_CKPT_ENTRY_INIT;
    weir_ckpt_content content = WEIR_CKPT_CONTENT_INIT;
    weir_ckpt *ckpt;
    weir_error err;
    entries[0].key = "generator";
    entries[0].bytes = blob;
    entries[0].nbytes = sizeof blob;
    entries[1].key = "data";
    entries[1].json = "{\"epoch\": 3, \"position\": [1, 2.5, \"a\"]}";
    entries[2].key = "nothing";
    content.step = 5;
    content.nentries = 3;
    content.entries = entries;
    assert_ok(weir_ckpt_open(NULL, folder, NULL, &ckpt, &err), &err);
    assert_ok(weir_ckpt_save(ckpt, &content, &err), &err);
    weir_ckpt_source *source = open_latest();
    assert_int_equal(weir_ckpt_source_entry(source, "generator", &got), WEIR_OK);
    assert_null(got.json);
    assert_int_equal(got.nbytes, sizeof blob);
    assert_memory_equal(got.bytes, blob, sizeof blob);
    assert_int_equal(weir_ckpt_source_entry(source, "data", &got), WEIR_OK);
    assert_string_equal(got.json, "{\"epoch\":3,\"position\":[1,2.5,\"a\"]}");
    assert_int_equal(weir_ckpt_source_entry(source, "nothing", &got), WEIR_OK);
    assert_int_equal(got.nbytes, 0);
    assert_int_equal(weir_ckpt_source_entry(source, "other", &got), WEIR_ERR_NOT_FOUND);
    assert_string_equal(weir_ckpt_source_key(source, 0), "data");
    assert_null(weir_ckpt_source_key(source, 3));
    weir_ckpt_source_close(source);
    entries[1].json = "{\"epoch\": 3";
    assert_int_equal(weir_ckpt_save(ckpt, &content, &err), WEIR_ERR_INVALID);
    assert_non_null(strstr(err.message, "'data'"));
    entries[1].json = "3";
    entries[2].key = "data";
    assert_int_equal(weir_ckpt_save(ckpt, &content, &err), WEIR_ERR_INVALID);
    assert_int_equal(weir_ckpt_close(ckpt), WEIR_OK);
}

/* What a save must not take, and that the checkpoint before stays. */
static void test_refused(void **state)
{
    (void)state;
    weir_error err;
    weir_ckpt *ckpt;
    struct model *m = model_new(1);
    weir_ckpt_content content = model_content(m, 1);
    static uint64_t huge[] = {UINT64_C(1) << 40, UINT64_C(1) << 40};
    assert_ok(weir_ckpt_open(NULL, folder, NULL, &ckpt, &err), &err);
    assert_ok(weir_ckpt_save(ckpt, &content, &err), &err);
    const struct {
        int range;
        weir_ckpt_tensor instead;
        const char *says;
    } wrong[] = {
        {4, model_range("layer.0.weight", WEIR_FP32, 2, m->matrix_shape, 0, 1000, m->matrix),
         "no rank has the elements of tensor 'layer.0.weight' from 1000"},
        {4, model_range("layer.0.weight", WEIR_FP32, 2, m->matrix_shape, 0, 1002, m->matrix), "there twice"},
        {4, model_range("layer.0.weight", WEIR_INT32, 2, m->matrix_shape, 0, 1001, m->matrix), "another type or shape"},
        {4, model_range("layer.0.weight", WEIR_FP32, 1, m->bias_shape, 0, 5, m->matrix), "another type or shape"},
        {1, model_range("", WEIR_BF16, 1, m->bias_shape, 0, MODEL_BIAS, m->bias), "name of no or too many bytes"},
        {1, model_range(NULL, WEIR_BF16, 1, m->bias_shape, 0, MODEL_BIAS, m->bias), "name of no or too many bytes"},
        {1, model_range("\xff", WEIR_BF16, 1, m->bias_shape, 0, MODEL_BIAS, m->bias), "not UTF-8"},
        {1, model_range("__metadata__", WEIR_BF16, 1, m->bias_shape, 0, MODEL_BIAS, m->bias), "taken"},
        {1, model_range("b", 99, 1, m->bias_shape, 0, MODEL_BIAS, m->bias), "type that files have not"},
        {1, model_range("b", WEIR_BF16, 1, m->bias_shape, 1, MODEL_BIAS, m->bias), "range outside"},
        {1, model_range("b", WEIR_BF16, 2, huge, 1, MODEL_BIAS, m->bias), "more elements than can be"},
        {1, model_range("b", WEIR_BF16, 17, huge, 1, MODEL_BIAS, m->bias), "16 dimensions"},
        {1, model_range("b", WEIR_BF16, 1, m->bias_shape, 0, MODEL_BIAS, NULL), "has no data"},
        {1, model_range("layer.0.weight[0:1001]", WEIR_FP32, 1, (const uint64_t[]){1001}, 0, 1001, m->matrix),
         "is there twice"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        weir_ckpt_tensor was = m->tensors[wrong[i].range];
        m->tensors[wrong[i].range] = wrong[i].instead;
        weir_status status = weir_ckpt_save(ckpt, &content, &err);
        if (status == WEIR_OK || !strstr(err.message, wrong[i].says))
            fail_msg("case %zu: %s: %s", i, weir_status_name(status), err.message);
        m->tensors[wrong[i].range] = was;
        assert_int_equal(model_latest(folder), 1);
    }
    content.flags = 8;
    assert_int_equal(weir_ckpt_save(ckpt, &content, &err), WEIR_ERR_INVALID);
    assert_int_equal(weir_ckpt_isave(ckpt, NULL, &err), WEIR_ERR_INVALID);
    assert_int_equal(weir_ckpt_wait(ckpt, &err), WEIR_ERR_INVALID); /* as all ranks get it */
    assert_int_equal(weir_ckpt_wait(ckpt, &err), WEIR_OK);
    content.flags = 0;
    content.step = 2;
    assert_ok(weir_ckpt_save(ckpt, &content, &err), &err);
    assert_int_equal(weir_ckpt_close(ckpt), WEIR_OK);
    free(m);
}

/* The memory may change at once after the start, and does. */
static void test_background(void **state)
{
    (void)state;
    weir_error err;
    weir_ckpt *ckpt;
    weir_ckpt_source *source;
    weir_status status;
    struct model *m = model_new(1);
    assert_ok(weir_ckpt_open(NULL, folder, NULL, &ckpt, &err), &err);
    for (uint64_t step = 1; step <= 4; step++) {
        weir_ckpt_content content = model_content(m, step);
        model_make(m, step);
        content.flags = step == 4 ? WEIR_CKPT_STABLE : 0;
        assert_ok(weir_ckpt_isave(ckpt, &content, &err), &err);
        if (step < 4)
            memset(m->matrix, 0, sizeof m->matrix);
    }
    while ((status = weir_ckpt_test(ckpt, &err)) == WEIR_IN_PROGRESS)
        usleep(100);
    assert_ok(status, &err);
    for (uint64_t step = 3; step <= 4; step++) {
        assert_ok(weir_ckpt_resume(ckpt, step, &source, &err), &err);
        assert_true(model_check(source, step, &err));
        weir_ckpt_source_close(source);
    }
    assert_int_equal(weir_ckpt_resume(ckpt, 2, &source, &err), WEIR_ERR_NOT_FOUND);
    assert_int_equal(weir_ckpt_close(ckpt), WEIR_OK);
    free(m);
}

/* Old ones go; a step that is saved again is the newer one; numbers go on. */
static void test_keep(void **state)
{
    (void)state;
    weir_error err;
    weir_ckpt_info infos[8];
    size_t n;
    char left[512];
    static const uint64_t steps[] = {100, 200, 300, 150, 200};
    for (size_t i = 0; i < 5; i++)
        assert_ok(model_save(&wr_ckpt_fs_posix, folder, steps[i], 3, &err), &err);
    snprintf(left, sizeof left, "%s/ckpt-00000002-step-9", folder); /* as a save that was killed leaves one */
    assert_int_equal(mkdir(left, 0700), 0);
    for (int i = 0; i < 8; i++)
        infos[i].size = sizeof infos[i];
    assert_ok(weir_ckpt_list(folder, infos, 8, &n, &err), &err);
    assert_int_equal(n, 4);
    assert_int_equal(infos[0].complete, 0);
    assert_int_equal(infos[1].step, 300);
    assert_int_equal(infos[3].step, 200);
    assert_int_equal(infos[3].number, 5);
    assert_int_equal(infos[3].complete, 1);
    assert_ok(weir_ckpt_list(folder, infos, 1, &n, &err), &err);
    assert_int_equal(n, 4);
    assert_int_equal(infos[0].number, 5);
    assert_ok(model_save(&wr_ckpt_fs_posix, folder, 250, 1, &err), &err);
    assert_ok(weir_ckpt_list(folder, infos, 8, &n, &err), &err);
    assert_int_equal(n, 1);
    assert_int_equal(infos[0].step, 250);
    assert_int_equal(weir_ckpt_list("/nonexistent/folder", infos, 8, &n, &err), WEIR_ERR_NOT_FOUND);
}

static void test_export_import(void **state)
{
    (void)state;
    weir_error err;
    weir_ckpt_source *source, *file;
    weir_ckpt_filter filter = WEIR_CKPT_FILTER_INIT;
    weir_ckpt_tensor tensor = WEIR_CKPT_TENSOR_INIT;
    weir_ckpt_info info = {.size = sizeof info};
    char path[300], other[300];
    float got[3];
    snprintf(path, sizeof path, "%s/all.safetensors", folder);
    snprintf(other, sizeof other, "%s/elsewhere/here", folder);
    assert_ok(model_save(&wr_ckpt_fs_posix, folder, 8, 2, &err), &err);
    source = open_latest();
    assert_ok(weir_ckpt_export(source, path, NULL, &err), &err);
    assert_ok(weir_ckpt_source_open(path, WEIR_CKPT_LATEST, &file, &err), &err);
    assert_true(model_check(file, 8, &err));
    assert_ok(weir_ckpt_import(file, other, 9, NULL, &err), &err);
    weir_ckpt_source_close(file);
    assert_ok(weir_ckpt_source_open(other, 9, &file, &err), &err);
    assert_true(model_check(file, 8, &err));
    assert_int_equal(weir_ckpt_source_info(file, &info), WEIR_OK);
    assert_int_equal(info.step, 9);
    weir_ckpt_source_close(file);

    filter.prefix = "layer.0.";
    filter.replace = "m/";
    filter.dtype = "BF16";
    assert_ok(weir_ckpt_export(source, path, &filter, &err), &err);
    assert_ok(weir_ckpt_source_open(path, WEIR_CKPT_LATEST, &file, &err), &err);
    assert_int_equal(weir_ckpt_source_info(file, &info), WEIR_OK);
    assert_int_equal(info.tensors, 2);
    assert_int_equal(weir_ckpt_source_find(file, "m/weight", &tensor), WEIR_OK);
    assert_string_equal(tensor.dtype, "BF16");
    assert_int_equal(tensor.shape[1], MODEL_COLS);
    weir_ckpt_tensor range = model_range("m/weight", WEIR_FP32, 0, NULL, 1000, 3, got);
    assert_ok(weir_ckpt_source_read(file, &range, 1, &err), &err);
    assert_true(got[0] == half_float((uint32_t)half_bf16(1002.0f) << 16));
    weir_ckpt_source_close(file);

    filter.replace = "";
    filter.prefix = "nothing";
    assert_int_equal(weir_ckpt_export(source, path, &filter, &err), WEIR_ERR_INVALID);
    filter.prefix = "layer.0.weight";
    assert_int_equal(weir_ckpt_export(source, path, &filter, &err), WEIR_ERR_INVALID);
    filter.prefix = NULL;
    filter.dtype = "I64";
    assert_int_equal(weir_ckpt_export(source, path, &filter, &err), WEIR_ERR_INVALID);
    weir_ckpt_source_close(source);
}

/* The disk is full: one sentence, and the checkpoint before is as it was. Run by a child, for the limit stays. */
static void test_full_disk(void **state)
{
    (void)state;
    weir_error err;
    assert_ok(model_save(&wr_ckpt_fs_posix, folder, 1, 1, &err), &err);
    struct rlimit was, limit = {300000, RLIM_INFINITY};
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    limit.rlim_max = was.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    weir_status status = model_save(&wr_ckpt_fs_posix, folder, 2, 1, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    assert_int_equal(status, WEIR_ERR_LIMIT);
    assert_non_null(strstr(err.message, "shard-00000-of-00001.safetensors"));
    assert_int_equal(model_latest(folder), 1);
    weir_ckpt_info info = {.size = sizeof info};
    size_t n;
    assert_ok(weir_ckpt_list(folder, &info, 1, &n, &err), &err);
    assert_int_equal(n, 1); /* nothing half-written is left */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_round_trip, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_ranges, set_up, tear_down),
        cmocka_unit_test(test_conversion),
        cmocka_unit_test_setup_teardown(test_entries, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_background, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_keep, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_export_import, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_full_disk, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
