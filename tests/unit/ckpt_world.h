/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of checkpoints share: temporary folders, a small model in a few ranges, and comparing it. */
#ifndef WR_TEST_CKPT_WORLD_H
#define WR_TEST_CKPT_WORLD_H

#include "tests/unit/unit.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "optim/ckpt.h"

/* A folder of its own, in memory where that is possible: the tests sync often. */
static inline void make_temporary(char path[256])
{
    const char *base = getenv("TMPDIR");
    snprintf(path, 256, "%s/weir-ckpt-XXXXXX", base ? base : "/dev/shm");
    if (mkdtemp(path))
        return;
    snprintf(path, 256, "/tmp/weir-ckpt-XXXXXX");
    assert_non_null(mkdtemp(path));
}

static inline void remove_tree(const char *path)
{
    char inner[4096];
    struct dirent *entry;
    DIR *dir = opendir(path);
    while (dir && (entry = readdir(dir))) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
            continue;
        snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
        if (remove(inner))
            remove_tree(inner);
    }
    if (dir)
        closedir(dir);
    remove(path);
}

/* The model: a matrix in two ranges, a bias in bf16, a scalar, one without elements, and a vector of 200000 bytes and more. */
enum { MODEL_ROWS = 300, MODEL_COLS = 700, MODEL_LONG = 100003, MODEL_BIAS = 7, MODEL_RANGES = 6 };

struct model {
    float matrix[MODEL_ROWS * MODEL_COLS];
    uint16_t bias[MODEL_BIAS];
    int64_t scalar;
    double vector[MODEL_LONG];
    uint64_t matrix_shape[2], bias_shape[1], empty_shape[2], vector_shape[1];
    weir_ckpt_tensor tensors[MODEL_RANGES];
};

static inline weir_ckpt_tensor model_range(const char *name, uint64_t type, uint64_t ndims, const uint64_t *shape,
                                           uint64_t first, uint64_t count, void *data)
{
    weir_ckpt_tensor tensor = WEIR_CKPT_TENSOR_INIT;
    tensor.name = name;
    tensor.type = type;
    tensor.ndims = ndims;
    tensor.shape = shape;
    tensor.first = first;
    tensor.count = count;
    tensor.data = data;
    return tensor;
}

/* The model of a step; all values follow from it. */
static inline void model_make(struct model *m, uint64_t step)
{
    for (size_t i = 0; i < MODEL_ROWS * MODEL_COLS; i++)
        m->matrix[i] = (float)i + (float)step * 0.25f;
    for (size_t i = 0; i < MODEL_BIAS; i++)
        m->bias[i] = (uint16_t)(0x3f80 + i + step);
    m->scalar = (int64_t)step * 1000003;
    for (size_t i = 0; i < MODEL_LONG; i++)
        m->vector[i] = (double)i * 1.5 - (double)step;
    m->matrix_shape[0] = MODEL_ROWS;
    m->matrix_shape[1] = MODEL_COLS;
    m->bias_shape[0] = MODEL_BIAS;
    m->empty_shape[0] = 0;
    m->empty_shape[1] = 5;
    m->vector_shape[0] = MODEL_LONG;
    m->tensors[0] = model_range("layer.0.weight", WEIR_FP32, 2, m->matrix_shape, 1001, MODEL_ROWS * MODEL_COLS - 1001,
                                m->matrix + 1001);
    m->tensors[1] = model_range("layer.0.bias", WEIR_BF16, 1, m->bias_shape, 0, MODEL_BIAS, m->bias);
    m->tensors[2] = model_range("step", WEIR_INT64, 0, NULL, 0, 1, &m->scalar);
    m->tensors[3] = model_range("empty", WEIR_FP16, 2, m->empty_shape, 0, 0, NULL);
    m->tensors[4] = model_range("layer.0.weight", WEIR_FP32, 2, m->matrix_shape, 0, 1001, m->matrix);
    m->tensors[5] = model_range("vector \xe2\x86\x92 \"x\"", WEIR_FP64, 1, m->vector_shape, 0, MODEL_LONG, m->vector);
}

static inline struct model *model_new(uint64_t step)
{
    struct model *m = calloc(1, sizeof *m);
    assert_non_null(m);
    model_make(m, step);
    return m;
}

static inline weir_ckpt_content model_content(const struct model *m, uint64_t step)
{
    weir_ckpt_content content = WEIR_CKPT_CONTENT_INIT;
    content.step = step;
    content.ntensors = MODEL_RANGES;
    content.tensors = m->tensors;
    return content;
}

/* Reads the whole model from a source; false, with err filled in, when it cannot be read. Fails when it is another one. */
static inline bool model_check(weir_ckpt_source *source, uint64_t step, weir_error *err)
{
    struct model *wanted = model_new(step), *got = model_new(step + 7);
    bool ok = weir_ckpt_source_read(source, got->tensors, MODEL_RANGES, err) == WEIR_OK;
    if (ok) {
        assert_memory_equal(got->matrix, wanted->matrix, sizeof got->matrix);
        assert_memory_equal(got->bias, wanted->bias, sizeof got->bias);
        assert_int_equal(got->scalar, wanted->scalar);
        assert_memory_equal(got->vector, wanted->vector, sizeof got->vector);
    }
    free(wanted);
    free(got);
    return ok;
}

/* One save by this process alone. */
static inline weir_status model_save(const struct wr_ckpt_fs *fs, const char *folder, uint64_t step, uint64_t keep,
                                     weir_error *err)
{
    weir_ckpt_options options = WEIR_CKPT_OPTIONS_INIT;
    struct model *m = model_new(step);
    weir_ckpt_content content = model_content(m, step);
    weir_ckpt *ckpt;
    options.keep = keep;
    weir_status status = wr_ckpt_open(fs, NULL, folder, &options, &ckpt, err);
    if (status == WEIR_OK) {
        status = weir_ckpt_save(ckpt, &content, err);
        assert_int_equal(weir_ckpt_close(ckpt), WEIR_OK);
    }
    free(m);
    return status;
}

/* The step of the checkpoint that was committed last, all of which must be right; 0: there is none. */
static inline uint64_t model_latest(const char *folder)
{
    weir_ckpt_source *source;
    weir_ckpt_info info = {.size = sizeof info};
    weir_error err;
    weir_status status = weir_ckpt_source_open(folder, WEIR_CKPT_LATEST, &source, &err);
    if (status == WEIR_ERR_NOT_FOUND)
        return 0;
    assert_ok(status, &err);
    assert_int_equal(weir_ckpt_source_info(source, &info), WEIR_OK);
    if (!model_check(source, info.step, &err))
        fail_msg("the committed checkpoint of step %llu: %s", (unsigned long long)info.step, err.message);
    weir_ckpt_source_close(source);
    return info.step;
}

#endif
