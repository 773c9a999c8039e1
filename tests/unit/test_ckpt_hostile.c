/* SPDX-License-Identifier: BSD-3-Clause */
/* Files that were cut, altered, or made by somebody who means no good: all are refused with a sentence. */
#include "tests/unit/ckpt_world.h"

#include <unistd.h>

static char folder[256], inner[320];
static const char *const files[] = {WR_CKPT_MARKER, WR_CKPT_INDEX, "shard-00000-of-00001.safetensors"};

/* Reads everything; true when nothing was wrong. A failure has a sentence. */
static bool whole(void)
{
    weir_ckpt_source *source;
    weir_error err = {0};
    weir_status status = weir_ckpt_source_open(folder, WEIR_CKPT_LATEST, &source, &err);
    if (status == WEIR_OK) {
        bool read = model_check(source, 1, &err), verified = weir_ckpt_source_verify(source, NULL, &err) == WEIR_OK;
        if (read && !verified)
            fail_msg("what cannot be verified was read: %s", err.message);
        weir_ckpt_source_close(source);
        if (verified)
            return true;
    }
    assert_true(err.message[0] && err.advice[0]);
    return false;
}

struct content {
    char path[400];
    unsigned char *data;
    size_t len;
};

static struct content load(const char *name)
{
    struct content c;
    weir_error err;
    char *data;
    snprintf(c.path, sizeof c.path, "%s/%s", inner, name);
    assert_ok(wr_ckpt_get_file(c.path, 1 << 30, &data, &c.len, &err), &err);
    c.data = (unsigned char *)data;
    return c;
}

static void put_byte(const struct content *c, size_t at, unsigned char value)
{
    int fd = open(c->path, O_WRONLY);
    assert_int_equal(pwrite(fd, &value, 1, (off_t)at), 1);
    close(fd);
}

static void restore(const struct content *c)
{
    int fd = open(c->path, O_WRONLY | O_TRUNC | O_CREAT, 0600);
    assert_int_equal(write(fd, c->data, c->len), (ssize_t)c->len);
    close(fd);
}

static size_t header_of(const struct content *c)
{
    size_t n = 0;
    for (int i = 7; i >= 0; i--)
        n = n << 8 | c->data[i];
    return n + 8;
}

static int set_up(void **state)
{
    (void)state;
    weir_error err;
    make_temporary(folder);
    assert_ok(model_save(&wr_ckpt_fs_posix, folder, 1, 0, &err), &err);
    snprintf(inner, sizeof inner, "%s/ckpt-00000001-step-1", folder);
    assert_true(whole());
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    remove_tree(folder);
    return 0;
}

static void test_cut(void **state)
{
    (void)state;
    for (size_t f = 0; f < 3; f++) {
        struct content c = load(files[f]);
        size_t header = f == 2 ? header_of(&c) : 16;
        const size_t lengths[] = {0,           1,          7,
                                  8,           9,          header - 1,
                                  header,      header + 1, header + WR_CKPT_BLOCK,
                                  c.len / 2,   c.len - 1,  c.len + 1,
                                  c.len + 4096};
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            if (lengths[i] == c.len)
                continue;
            assert_int_equal(truncate(c.path, (off_t)lengths[i]), 0);
            if (whole())
                fail_msg("%s of %zu bytes instead of %zu is taken", files[f], lengths[i], c.len);
            restore(&c);
        }
        assert_int_equal(unlink(c.path), 0);
        assert_false(whole());
        restore(&c);
        assert_true(whole());
        free(c.data);
    }
}

static void test_flipped(void **state)
{
    (void)state;
    for (size_t f = 0; f < 3; f++) {
        struct content c = load(files[f]);
        size_t header = f == 2 ? header_of(&c) : c.len, count = 0;
        for (size_t at = 0; at < c.len; count++) {
            put_byte(&c, at, (unsigned char)(c.data[at] ^ (1u << count % 8)));
            if (whole())
                fail_msg("%s with bit %zu of byte %zu of %zu flipped is taken", files[f], count % 8, at, c.len);
            put_byte(&c, at, c.data[at]);
            at += f == 0 ? 1 : at < header ? 11 : 49999;
        }
        assert_true(whole());
        free(c.data);
    }
}

/* Reading only a part does not look at the rest, and notices what is wrong in it. */
static void test_part_of_altered(void **state)
{
    (void)state;
    static double got[8];
    struct content c = load(files[2]);
    weir_ckpt_source *source;
    weir_error err;
    put_byte(&c, header_of(&c) + 8 * 50000,
             (unsigned char)(c.data[header_of(&c) + 8 * 50000] ^ 4)); /* the vector stands first */
    weir_ckpt_tensor range = model_range("vector \xe2\x86\x92 \"x\"", WEIR_FP64, 0, NULL, 0, 8, got);
    assert_ok(weir_ckpt_source_open(folder, WEIR_CKPT_LATEST, &source, &err), &err);
    assert_ok(weir_ckpt_source_read(source, &range, 1, &err), &err);
    assert_true(got[1] == 0.5);
    range.first = 49000;
    assert_int_equal(weir_ckpt_source_read(source, &range, 1, &err), WEIR_ERR_IO);
    assert_non_null(strstr(err.message, "altered"));
    weir_ckpt_source_close(source);
    free(c.data);
}

static void test_headers(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says; /* says NULL: it is fine */
        uint64_t bytes;
    } cases[] = {
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}   ", NULL, 8},
        {"{\"__metadata__\":{\"x\":\"y\"},\"a\":{\"dtype\":\"BOOL\",\"shape\":[],\"data_offsets\":[0,1]}}", NULL, 1},
        {"{\"b\":{\"dtype\":\"F8_E4M3\",\"shape\":[0,9],\"data_offsets\":[2,2]},\"a\":{\"dtype\":\"U8\",\"shape\":[2],"
         "\"data_offsets\":[0,2]}}",
         NULL, 2},
        {"{}", NULL, 0},
        {"{}", "0 bytes, the file has 1", 1},
        {"", "begin with '{'", 0},
        {" {}", "begin with '{'", 0},
        {"[]", "begin with '{'", 0},
        {"{\"a\":", "not JSON", 0},
        {"{\"a\":1}", "exactly a dtype", 0},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"more\":1}}", "exactly a dtype", 4},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", "exactly a dtype", 4},
        {"{\"a\":{\"dtype\":\"F31\",\"shape\":[1],\"data_offsets\":[0,4]}}", "type that is not known", 4},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", "shape that is none", 4},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}", "shape that is none", 4},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", "more elements", 0},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904],\"data_offsets\":[0,0]}}", "more elements", 0},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}",
         "16 dimensions", 4},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", "outside the file", 4},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", "outside the file", 4},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}}", "outside the file", 4},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,8]}}", "as many bytes", 8},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}", "begins at byte 1", 2},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_"
         "offsets\":[1,3]}}",
         "begins at byte 1", 3},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_"
         "offsets\":[1,2]}}",
         "not JSON: duplicate", 2},
        {"{\"__metadata__\":[]}", "no object", 0},
        {"{\"__metadata__\":{\"a\":1}}", "no text", 0},
        {"{\"__metadata__\":{\"weir.block\":\"0\",\"weir.xxh3\":\"\"}}", "checksums of blocks", 0},
        {"{\"__metadata__\":{\"weir.block\":\"4096\",\"weir.xxh3\":\"12\"}}", "not one checksum", 0},
        {"{\"\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", "name of no", 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct wr_st_header header;
        weir_error err = {0};
        weir_status status = wr_st_parse(cases[i].text, strlen(cases[i].text), cases[i].bytes, &header, &err);
        if (!cases[i].says)
            assert_ok(status, &err);
        else if (status != WEIR_ERR_IO || !strstr(err.message, cases[i].says) || !err.advice[0])
            fail_msg("%s: %s", cases[i].text, status == WEIR_OK ? "is taken" : err.message);
        if (status == WEIR_OK)
            wr_st_header_free(&header);
    }
}

#define INDEX_HEAD  "{\"format\":\"weir-checkpoint\",\"version\":1,\"step\":1,\"saved\":1,\"ranks\":1,"
#define INDEX_SHARD "\"shards\":[{\"file\":\"s\",\"bytes\":9,\"header_xxh3\":\"0123456789abcdef\"}],"

static void test_indexes(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {INDEX_HEAD INDEX_SHARD "\"tensors\":{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"parts\":[[0,0,1],[0,1,3]]}},"
                                "\"entries\":{\"k\":{\"hex\":\"00\"}}}",
         NULL},
        {"[]", "no index"},
        {"{\"format\":\"weir-checkpoint\",\"version\":2}", "version 1"},
        {INDEX_HEAD "\"tensors\":{}}", "lacks"},
        {INDEX_HEAD "\"shards\":[{\"file\":\"../s\",\"bytes\":9,\"header_xxh3\":\"0123456789abcdef\"}],\"tensors\":{}}",
         "file's name"},
        {INDEX_HEAD "\"shards\":[{\"file\":\"s\",\"bytes\":9,\"header_xxh3\":\"0123456789abcdeF\"}],\"tensors\":{}}",
         "checksum"},
        {INDEX_HEAD INDEX_SHARD "\"tensors\":{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"parts\":[[0,0,3]]}}}",
         "parts that do not make it"},
        {INDEX_HEAD INDEX_SHARD "\"tensors\":{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"parts\":[[0,0,3],[0,2,2]]}}}",
         "parts that do not make it"},
        {INDEX_HEAD INDEX_SHARD
         "\"tensors\":{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"parts\":[[0,0,9223372036854775807]]}}}",
         "parts that do not make it"},
        {INDEX_HEAD INDEX_SHARD "\"tensors\":{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"parts\":[[1,0,4]]}}}",
         "part that is none"},
        {INDEX_HEAD INDEX_SHARD "\"tensors\":{\"a\":{\"dtype\":\"F32\",\"shape\":4,\"parts\":[[0,0,4]]}}}",
         "no type or shape"},
        {INDEX_HEAD INDEX_SHARD "\"tensors\":{\"a\":7}}", "no type or shape"},
        {INDEX_HEAD INDEX_SHARD "\"tensors\":{},\"entries\":{\"k\":{\"hex\":\"0\"}}}", "entry"},
        {INDEX_HEAD INDEX_SHARD "\"tensors\":{},\"entries\":{\"k\":1}}", "entry"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct wr_ckpt_index index;
        weir_error err = {0};
        weir_status status = wr_ckpt_index_parse(cases[i].text, strlen(cases[i].text), &index, &err);
        if (!cases[i].says)
            assert_ok(status, &err);
        else if (status != WEIR_ERR_IO || !strstr(err.message, cases[i].says) || !err.advice[0])
            fail_msg("%s: %s", cases[i].text, status == WEIR_OK ? "is taken" : err.message);
        if (status == WEIR_OK)
            wr_ckpt_index_free(&index);
    }
}

/* Files from elsewhere with an index of their own. */
static void test_weight_map(void **state)
{
    (void)state;
    weir_error err;
    weir_ckpt_source *source, *map;
    weir_ckpt_filter filter = WEIR_CKPT_FILTER_INIT;
    char path[300];
    static const char text[] = "{\"metadata\":{\"total_size\":1},\"weight_map\":{\"layer.0.weight\":\"a.safetensors\","
                               "\"layer.0.bias\":\"a.safetensors\","
                               "\"step\":\"b.safetensors\",\"empty\":\"c.safetensors\",\"vector\":\"d.safetensors\"}}";
    static const char *const parts[] = {"layer", "a", "step", "b", "empty", "c", "vector", "d"};
    assert_ok(weir_ckpt_source_open(folder, 1, &source, &err), &err);
    for (int i = 0; i < 8; i += 2) {
        filter.prefix = parts[i];
        snprintf(path, sizeof path, "%s/%s.safetensors", folder, parts[i + 1]);
        assert_ok(weir_ckpt_export(source, path, &filter, &err), &err);
    }
    weir_ckpt_source_close(source);
    assert_ok(wr_ckpt_put_file(&wr_ckpt_fs_posix, folder, "model.safetensors.index.json", text, sizeof text - 1, &err),
              &err);
    snprintf(path, sizeof path, "%s/model.safetensors.index.json", folder);
    assert_ok(weir_ckpt_source_open(path, WEIR_CKPT_LATEST, &map, &err), &err);
    assert_true(model_check(map, 1, &err));
    weir_ckpt_source_close(map);
    static const char away[] = "{\"weight_map\":{\"a\":\"/etc/passwd\"}}";
    assert_ok(wr_ckpt_put_file(&wr_ckpt_fs_posix, folder, "model.safetensors.index.json", away, sizeof away - 1, &err),
              &err);
    assert_int_equal(weir_ckpt_source_open(path, WEIR_CKPT_LATEST, &map, &err), WEIR_ERR_IO);
    assert_int_equal(weir_ckpt_source_open("/dev/zero", WEIR_CKPT_LATEST, &map, &err), WEIR_ERR_IO);
    assert_int_equal(weir_ckpt_source_open("/nonexistent", WEIR_CKPT_LATEST, &map, &err), WEIR_ERR_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_cut, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_flipped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_part_of_altered, set_up, tear_down),
        cmocka_unit_test(test_headers),
        cmocka_unit_test(test_indexes),
        cmocka_unit_test_setup_teardown(test_weight_map, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
