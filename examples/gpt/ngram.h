/* SPDX-License-Identifier: BSD-3-Clause */
/* What a model has to beat: the perplexity, on the same validation tokens, of counts of pairs and triples. */
#ifndef GPT_NGRAM_H
#define GPT_NGRAM_H

#include "examples/gpt/data.h"

/*
 * Counts tokens, pairs and triples of the training part of the data, at most the first `most` tokens, and gives the perplexities of the
 * bigram and the trigram model on the validation part. Both are interpolated with the shorter ones by Witten and Bell's
 * estimate ("The zero-frequency problem", 1991): p(w | h) = (n(h w) + d(h) p(w | shorter h)) / (n(h) + d(h)), d(h) being the number of
 * different tokens seen after h. The shortest is uniform. false when there is no memory, or nothing to validate with.
 */
bool gpt_ngram(const struct gpt_data *data, int64_t most, double *bigram, double *trigram);

#endif
