/* SPDX-License-Identifier: BSD-3-Clause */
#include "examples/gpt/data.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "examples/gpt/random.h"

/* Where opening is, and what to say when it fails. */
struct opening {
    struct gpt_data *data;
    char *why;
    size_t size;
};

__attribute__((format(printf, 2, 3))) static bool fail(const struct opening *o, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(o->why, o->size, format, args);
    va_end(args);
    return false;
}

/* Divides a file of so many tokens; false when it is shorter than a sequence to train on, and one for validation. */
static bool divide(struct gpt_data *d, struct gpt_file *f)
{
    int64_t sequence = d->options.context + 1, check = (int64_t)((double)f->tokens * d->options.validation);
    if (d->options.validation > 0 && check < sequence)
        check = sequence;
    f->train = f->tokens - check;
    if (f->train < sequence)
        return false;
    f->first = d->sequences;
    f->check = d->all_checks;
    d->sequences += (f->train - 1) / d->options.context;
    d->all_checks += check > 0 ? (check - 1) / d->options.context : 0;
    d->tokens += f->tokens;
    d->train += f->train;
    return true;
}

static bool tokens_fit(const struct opening *o, const struct gpt_file *f)
{
    int vocabulary = o->data->options.vocabulary;
    for (int64_t i = 0; vocabulary != 256 && i < f->tokens; i++)
        if (gpt_token(o->data, f, i) >= vocabulary)
            return fail(o, "%s has token %d at place %lld, and the vocabulary has %d", f->path, (int)gpt_token(o->data, f, i),
                        (long long)i, vocabulary);
    return true;
}

/* Adds an open file. `named`: the user named it, so it may not be left out. */
static bool add(const struct opening *o, const char *path, int fd, int64_t bytes, bool named)
{
    struct gpt_data *d = o->data;
    int width = d->options.vocabulary > 256 ? 2 : 1;
    struct gpt_file f = {.tokens = bytes / width}, *grown;
    if (named && !bytes)
        return fail(o, "%s is empty", path);
    if (!divide(d, &f)) {
        d->skipped++;
        return !named || fail(o, "%s has %lld tokens: too few for a sequence of %d and the one after it%s", path, (long long)f.tokens,
                              d->options.context, d->options.validation > 0 ? ", once for training and once for validation" : "");
    }
    void *map = mmap(NULL, (size_t)bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return fail(o, "%s cannot be mapped: %s", path, strerror(errno));
    f.bytes = map;
    f.path = strdup(path);
    grown = realloc(d->files, ((size_t)d->nfiles + 1) * sizeof *grown);
    if (!f.path || !grown) {
        free(f.path);
        munmap(map, (size_t)bytes);
        d->files = grown ? grown : d->files;
        return fail(o, "there is no memory for the list of files");
    }
    d->files = grown;
    d->files[d->nfiles++] = f;
    return tokens_fit(o, &f);
}

static bool open_path(const struct opening *o, const char *path, bool named);

static bool open_folder(const struct opening *o, const char *path, bool named)
{
    struct dirent **names;
    int before = o->data->nfiles, n = scandir(path, &names, NULL, alphasort);
    bool good = true;
    if (n < 0)
        return fail(o, "the folder %s cannot be read: %s", path, strerror(errno));
    for (int i = 0; i < n; i++) {
        char inner[4096];
        if (good && names[i]->d_name[0] != '.') {
            int length = snprintf(inner, sizeof inner, "%s/%s", path, names[i]->d_name);
            good = length < (int)sizeof inner ? open_path(o, inner, false) : fail(o, "the path of a file in %s is too long", path);
        }
        free(names[i]);
    }
    free(names);
    if (good && named && o->data->nfiles == before)
        return fail(o, "the folder %s has no file that is long enough for a sequence of %d tokens", path, o->data->options.context);
    return good;
}

static bool open_path(const struct opening *o, const char *path, bool named)
{
    struct stat st;
    if ((named ? stat : lstat)(path, &st) != 0)
        return fail(o, "%s cannot be opened: %s", path, strerror(errno));
    if (S_ISDIR(st.st_mode))
        return open_folder(o, path, named);
    if (!S_ISREG(st.st_mode))
        return !named || fail(o, "%s is neither a file nor a folder", path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fail(o, "%s cannot be opened: %s", path, strerror(errno));
    bool good = add(o, path, fd, st.st_size, named);
    close(fd);
    return good;
}

bool gpt_data_open(struct gpt_data *data, const struct gpt_data_options *options, int n, char *const *paths, char *why, size_t size)
{
    struct opening o = {data, why, size};
    *data = (struct gpt_data){.options = *options};
    for (int i = 0; i < n; i++)
        if (!open_path(&o, paths[i], true))
            return false;
    data->checks = options->checks && options->checks < data->all_checks ? options->checks : data->all_checks;
    return true;
}

void gpt_data_close(struct gpt_data *d)
{
    for (int i = 0; i < d->nfiles; i++) {
        munmap((void *)(uintptr_t)d->files[i].bytes, (size_t)(d->files[i].tokens * (d->options.vocabulary > 256 ? 2 : 1)));
        free(d->files[i].path);
    }
    free(d->files);
    *d = (struct gpt_data){.files = NULL};
}

/*
 * A Feistel network of four rounds permutes the numbers of an even number of bits; it is walked until it comes to a number below n.
 * Black, Rogaway, "Ciphers with arbitrary finite domains", 2002.
 */
int64_t gpt_permute(uint64_t key, int64_t n, int64_t i)
{
    int half = 1;
    while ((int64_t)1 << 2 * half < n)
        half++;
    uint64_t mask = ((uint64_t)1 << half) - 1, x = (uint64_t)i;
    do {
        uint64_t left = x >> half, right = x & mask;
        for (uint64_t round = 0; round < 4; round++) {
            uint64_t mixed = left ^ (gpt_key(key + round, right) & mask);
            left = right;
            right = mixed;
        }
        x = left << half | right;
    } while (x >= (uint64_t)n);
    return (int64_t)x;
}

/* The file in which sequence `number` is, by where files begin. */
static const struct gpt_file *file_of(const struct gpt_data *d, int64_t number, bool check)
{
    int low = 0, high = d->nfiles - 1;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        int64_t first = check ? d->files[middle].check : d->files[middle].first;
        if (first <= number)
            low = middle;
        else
            high = middle - 1;
    }
    return &d->files[low];
}

static void copy(const struct gpt_data *d, const struct gpt_file *f, int64_t first, int32_t *tokens, int32_t *targets)
{
    for (int t = 0; t < d->options.context; t++) {
        tokens[t] = gpt_token(d, f, first + t);
        targets[t] = gpt_token(d, f, first + t + 1);
    }
}

void gpt_data_train(const struct gpt_data *d, int64_t number, int n, int32_t *tokens, int32_t *targets)
{
    int64_t context = d->options.context;
    for (int k = 0; k < n; k++, number++, tokens += context, targets += context) {
        uint64_t key = gpt_key(d->options.seed, (uint64_t)(number / d->sequences));
        int64_t i = gpt_permute(key, d->sequences, number % d->sequences);
        const struct gpt_file *f = file_of(d, i, false);
        int64_t first = (i - f->first) * context + (int64_t)(gpt_key(key, (uint64_t)i) % (uint64_t)context);
        copy(d, f, first + context < f->train ? first : f->train - context - 1, tokens, targets);
    }
}

const struct gpt_file *gpt_data_check_at(const struct gpt_data *d, int64_t number, int64_t *first)
{
    number = number * d->all_checks / d->checks;
    const struct gpt_file *f = file_of(d, number, true);
    *first = f->train + (number - f->check) * d->options.context;
    return f;
}

void gpt_data_check(const struct gpt_data *d, int64_t number, int n, int32_t *tokens, int32_t *targets)
{
    for (int k = 0; k < n; k++, tokens += d->options.context, targets += d->options.context) {
        int64_t first;
        const struct gpt_file *f = gpt_data_check_at(d, number + k, &first);
        copy(d, f, first, tokens, targets);
    }
}
