/* SPDX-License-Identifier: BSD-3-Clause */
#include "examples/gpt/ngram.h"

#include <math.h>
#include <stdlib.h>

#include "examples/gpt/random.h"

/* Contexts and what follows them, in a hash table. A key is the length of the history and the tokens, in 16 bits each. */
struct entry {
    uint64_t key;   /* 0: free */
    uint32_t count; /* how often */
    uint32_t kinds; /* of a context: different tokens after it */
};

struct table {
    struct entry *entries;
    uint64_t size, used; /* size is a power of two */
};

static struct entry *find(const struct table *t, uint64_t key)
{
    uint64_t i = gpt_mix64(key) & (t->size - 1);
    while (t->entries[i].key && t->entries[i].key != key)
        i = (i + 1) & (t->size - 1);
    return &t->entries[i];
}

static bool grow(struct table *t)
{
    struct table larger = {calloc(t->size * 2, sizeof(struct entry)), t->size * 2, t->used};
    if (!larger.entries)
        return false;
    for (uint64_t i = 0; i < t->size; i++)
        if (t->entries[i].key)
            *find(&larger, t->entries[i].key) = t->entries[i];
    free(t->entries);
    *t = larger;
    return true;
}

/* The entry of a key, made when it is not there; NULL without memory. */
static struct entry *entry_of(struct table *t, uint64_t key)
{
    if (t->used * 2 >= t->size && !grow(t))
        return NULL;
    struct entry *e = find(t, key);
    if (!e->key) {
        e->key = key;
        t->used++;
    }
    return e;
}

/* The key of a history of `length` tokens before place i; `after` is the token that follows, or -1 for the history alone. */
static uint64_t key_of(const struct gpt_data *d, const struct gpt_file *f, int64_t i, int length, int32_t after)
{
    uint64_t key = 1 + (uint64_t)length * 2 + (after >= 0);
    for (int n = length; n > 0; n--)
        key = key << 16 | (uint64_t)gpt_token(d, f, i - n);
    return after >= 0 ? key << 16 | (uint64_t)after : key;
}

static bool count(struct table *t, const struct gpt_data *d, const struct gpt_file *f, int64_t i)
{
    int32_t token = gpt_token(d, f, i);
    for (int length = 0; length <= 2 && length <= i; length++) {
        struct entry *e = entry_of(t, key_of(d, f, i, length, token));
        if (!e)
            return false;
        bool fresh = !e->count++;
        struct entry *history = entry_of(t, key_of(d, f, i, length, -1));
        if (!history)
            return false;
        history->count++;
        history->kinds += fresh;
    }
    return true;
}

/* The probabilities of the token at place i, given none, one and two tokens before it. */
static void estimate(const struct table *t, const struct gpt_data *d, const struct gpt_file *f, int64_t i, double *p)
{
    int32_t token = gpt_token(d, f, i);
    double shorter = 1.0 / d->options.vocabulary;
    for (int length = 0; length <= 2; length++) {
        const struct entry *history = find(t, key_of(d, f, i, length, -1));
        if (history->key) {
            double seen = find(t, key_of(d, f, i, length, token))->count;
            shorter = (seen + history->kinds * shorter) / ((double)history->count + history->kinds);
        }
        p[length] = shorter;
    }
}

bool gpt_ngram(const struct gpt_data *d, int64_t most, double *bigram, double *trigram)
{
    struct table t = {calloc(1 << 16, sizeof(struct entry)), 1 << 16, 0};
    double loss[3] = {0};
    int64_t n = 0;
    bool good = t.entries && d->checks > 0;
    for (int k = 0; good && k < d->nfiles; k++)
        for (int64_t i = 0; good && i < d->files[k].train && n < most; i++, n++)
            good = count(&t, d, &d->files[k], i);
    for (int64_t s = 0; good && s < d->checks; s++) {
        int64_t first;
        const struct gpt_file *f = gpt_data_check_at(d, s, &first);
        for (int64_t i = first + 1; i <= first + d->options.context; i++) {
            double p[3];
            estimate(&t, d, f, i, p);
            for (int length = 0; length < 3; length++)
                loss[length] -= log(p[length]);
        }
    }
    free(t.entries);
    if (!good)
        return false;
    double tokens = (double)d->checks * d->options.context;
    *bigram = exp(loss[1] / tokens);
    *trigram = exp(loss[2] / tokens);
    return true;
}
