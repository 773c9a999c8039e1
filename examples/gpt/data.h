/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Text to train on: files, mapped into memory. A token is a byte, so any file will do; or two bytes, little-endian, of files that were
 * tokenised before. The end of each file is kept for validation.
 *
 * Training reads an endless row of sequences, which is a function of the seed: any rank looks up the sequences of its own share of a
 * step, and a run is resumed by going on at a number. An epoch takes from each file one sequence for each `context` tokens, which
 * begins somewhere in them, in an order that a permutation of all of them gives.
 */
#ifndef GPT_DATA_H
#define GPT_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gpt_data_options {
    int context;       /* tokens of a sequence */
    int vocabulary;    /* above 256: files of two bytes a token */
    double validation; /* share of each file that is not trained on; 0: none */
    int64_t checks;    /* sequences to validate with at most, spread over all of that; 0: all */
    uint64_t seed;
};

struct gpt_file {
    char *path;
    const unsigned char *bytes;
    int64_t tokens, train; /* in all, and of these to train on: the first */
    int64_t first;         /* number of its first training sequence in an epoch */
    int64_t check;         /* and of its first one for validation */
};

struct gpt_data {
    struct gpt_data_options options;
    struct gpt_file *files;
    int nfiles;
    int skipped;       /* files in folders that are shorter than a sequence */
    int64_t sequences; /* in an epoch */
    int64_t checks;    /* to validate with */
    int64_t all_checks; /* of which these are taken */
    int64_t tokens, train;
};

/*
 * Opens files, and all files in folders, but links and hidden ones. false and a sentence when one cannot be read or is too short, or
 * a folder has none. To be closed by gpt_data_close() in any case.
 */
bool gpt_data_open(struct gpt_data *data, const struct gpt_data_options *options, int n, char *const *paths, char *why, size_t size);
void gpt_data_close(struct gpt_data *data);

/* Token i of a file. */
static inline int32_t gpt_token(const struct gpt_data *data, const struct gpt_file *file, int64_t i)
{
    return data->options.vocabulary > 256 ? file->bytes[2 * i] | file->bytes[2 * i + 1] << 8 : file->bytes[i];
}

/* Training sequences number .. number + n - 1: context tokens each, and for each token the one after it. */
void gpt_data_train(const struct gpt_data *data, int64_t number, int n, int32_t *tokens, int32_t *targets);

/* Where validation sequence `number` begins. */
const struct gpt_file *gpt_data_check_at(const struct gpt_data *data, int64_t number, int64_t *first);

/* Validation sequences number .. number + n - 1. */
void gpt_data_check(const struct gpt_data *data, int64_t number, int n, int32_t *tokens, int32_t *targets);

/* A permutation of 0 .. n - 1 for each key. */
int64_t gpt_permute(uint64_t key, int64_t n, int64_t i);

#endif
