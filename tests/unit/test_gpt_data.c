/* SPDX-License-Identifier: BSD-3-Clause */
/* The trainer's data: which tokens an epoch takes, that the order is a function of the seed, and the counts it is compared with. */
#include "tests/unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "examples/gpt/data.h"
#include "examples/gpt/ngram.h"

enum { CONTEXT = 8 };

static char folder[] = "/tmp/weir-gpt-XXXXXX";

/* Writes n bytes, byte i being what `byte` says. */
static const char *file(const char *name, int n, int (*byte)(int))
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int i = 0; i < n; i++)
        fputc(byte(i), f);
    fclose(f);
    return path;
}

static int place(int i)
{
    return i % 251;
}

static int turns(int i)
{
    return "abc"[i % 3];
}

static int large(int i)
{
    return i % 2 ? 1 : i % 256; /* tokens 256 + ... */
}

static bool open_data(struct gpt_data *d, const char *path, struct gpt_data_options o, char *why)
{
    char *paths[] = {(char *)(uintptr_t)path};
    return gpt_data_open(d, &o, 1, paths, why, 512);
}

static const struct gpt_data_options usual = {CONTEXT, 256, 0.1, 0, 3};

static void permutation(void **state)
{
    (void)state;
    for (int64_t n = 1; n < 300; n += n < 20 ? 1 : 37) {
        char seen[300] = {0};
        int64_t moved = 0;
        for (int64_t i = 0; i < n; i++) {
            int64_t p = gpt_permute(9, n, i);
            assert_true(p >= 0 && p < n && !seen[p]++);
            moved += p != i;
        }
        assert_true(n < 8 || moved > n / 2);
        assert_true(n < 8 || gpt_permute(9, n, 0) != gpt_permute(10, n, 0) || gpt_permute(9, n, 1) != gpt_permute(10, n, 1));
    }
}

static void epoch(void **state)
{
    (void)state;
    struct gpt_data d;
    char why[512] = "";
    file("b", 500, place);
    file("a", 330, place);
    file("tiny", 12, place);
    assert_true(open_data(&d, folder, usual, why));
    assert_int_equal(d.nfiles, 2);
    assert_int_equal(d.skipped, 1);
    assert_true(strstr(d.files[0].path, "/a") && d.files[0].train == 297 && d.files[1].train == 450);
    assert_int_equal(d.sequences, 296 / CONTEXT + 449 / CONTEXT);
    assert_int_equal(d.checks, 32 / CONTEXT + 49 / CONTEXT);
    int32_t tokens[4 * CONTEXT], targets[4 * CONTEXT], again[CONTEXT], after[CONTEXT];
    int starts[251] = {0}, twice = 0;
    for (int64_t i = 0; i < 3 * d.sequences; i++) {
        gpt_data_train(&d, i, 1, tokens, targets);
        for (int t = 0; t < CONTEXT; t++)
            assert_int_equal((tokens[t] + 1) % 251, targets[t]);
        twice += starts[tokens[0]]++ > 0;
    }
    assert_true(twice > 0);
    /* Several at once are those one by one, and another seed gives another order. */
    gpt_data_train(&d, 17, 4, tokens, targets);
    gpt_data_train(&d, 19, 1, again, after);
    assert_memory_equal(tokens + 2 * CONTEXT, again, sizeof again);
    d.options.seed = 4;
    gpt_data_train(&d, 17, 4, tokens, targets);
    assert_memory_not_equal(tokens + 2 * CONTEXT, again, sizeof again);
    /* Validation begins where training ends. */
    gpt_data_check(&d, 4, 1, tokens, targets);
    assert_int_equal(tokens[0], place(450));
    gpt_data_close(&d);
    /* Five of all ten, from both files. */
    struct gpt_data_options few = usual;
    few.checks = 5;
    assert_true(open_data(&d, folder, few, why));
    assert_true(d.checks == 5 && d.all_checks == 10);
    gpt_data_check(&d, 1, 2, tokens, targets);
    assert_int_equal(tokens[0], place(297 + 2 * CONTEXT));
    assert_int_equal(tokens[CONTEXT], place(450));
    gpt_data_close(&d);
}

static void refused(void **state)
{
    (void)state;
    struct gpt_data d;
    char why[512] = "";
    assert_false(open_data(&d, file("empty", 0, place), usual, why));
    assert_non_null(strstr(why, "is empty"));
    gpt_data_close(&d);
    assert_false(open_data(&d, file("short", 17, place), usual, why));
    assert_non_null(strstr(why, "17 tokens"));
    gpt_data_close(&d);
    assert_true(open_data(&d, file("enough", 18, place), usual, why));
    assert_true(d.sequences == 1 && d.checks == 1);
    gpt_data_close(&d);
    struct gpt_data_options wide = usual;
    wide.vocabulary = 300;
    assert_false(open_data(&d, file("wide", 200, large), wide, why));
    assert_non_null(strstr(why, "token 300 at place 22"));
    gpt_data_close(&d);
    wide.vocabulary = 512;
    assert_true(open_data(&d, file("wide", 200, large), wide, why));
    assert_int_equal(gpt_token(&d, &d.files[0], 22), 300);
    gpt_data_close(&d);
}

/* A text in which each letter follows from the one before has little that counts cannot tell; noise has all. */
static void counts(void **state)
{
    (void)state;
    struct gpt_data d;
    char why[512] = "";
    double bigram, trigram;
    assert_true(open_data(&d, file("turns", 3000, turns), usual, why));
    assert_true(gpt_ngram(&d, 1 << 20, &bigram, &trigram));
    assert_true(bigram > 1 && bigram < 1.01 && trigram > 1 && trigram < bigram + 1e-3);
    /* Of the first two tokens little is known: the pair "ab", and of single ones that "a" and "b" come as often. */
    assert_true(gpt_ngram(&d, 2, &bigram, &trigram));
    assert_true(bigram > 2 && bigram < 40);
    gpt_data_close(&d);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : 1;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(permutation),
        cmocka_unit_test(epoch),
        cmocka_unit_test(refused),
        cmocka_unit_test(counts),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
