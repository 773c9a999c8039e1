/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parameters of a rank's parts, in weir's ZeRO engine. The engine's units are the model's; the store that the parts ask is made of
 * its hooks.
 *
 * Where the first and the last part of the model are on different stages of a pipeline, both have wte. Its gradients are then kept
 * beside the engine until the end of a pass, summed up between the two, and handed to both engines, which make the same update.
 */
#ifndef GPT_SHARDS_H
#define GPT_SHARDS_H

#include "examples/gpt/job.h"
#include "examples/gpt/leaves.h"
#include "examples/gpt/options.h"
#include "examples/gpt/part.h"
#include "examples/gpt/settings.h"
#include "examples/gpt/widen.h"

struct gpt_shards {
    struct gpt_store store;
    const struct gpt_config *config;
    uint64_t seed;
    weir_rule *rule;  /* NULL: that of --config */
    weir_schedule schedule;
    weir_group group; /* of all parameters */
    weir_zero *zero;
    bool narrow;      /* parameters are stored in bf16 */
    struct gpt_widen widen;
    uint64_t formula; /* bytes that the engine is to hold */
    int nunits;
    int *unit;        /* the model's number of each unit of the engine */
    int *local;       /* and the other way; -1: it is not here */
    struct gpt_pointers *pointers;
    weir_comm *tied;  /* with the stage that has wte, too; NULL: there is none, or this is neither of them */
    float *tied_grad; /* of wte, in this pass */
    weir_comm *rows;  /* with --tp-sequence: who have rows of their own between layers; else NULL */
    float *partial;   /* if so: gradients of this pass that are made of own rows only, unit by unit */
    int64_t *partial_at; /* by the engine's units: where they begin; one more for the end */
    bool reproducible;
    struct gpt_leaves leaves; /* if so: gradients, until the end of a pass */
};

/* The units that a rank's parts are made of, and how they are trained. */
struct gpt_share {
    const bool *marks;  /* by the model's units */
    bool begins, ends;  /* the first and the last layer are here */
    bool apart;         /* they are on different stages */
    int64_t passes;     /* of a step */
    int64_t micros;     /* of a pass */
};

/*
 * Makes the engine for the units that have a mark. Collective; false when it failed anywhere, and then the reason was said. To be freed
 * by gpt_shards_free() in any case.
 */
bool gpt_shards_create(struct gpt_shards *shards, struct gpt_job *job, const struct gpt_config *config,
                       const struct gpt_options *options, const struct gpt_settings *settings, const struct gpt_share *share);
void gpt_shards_free(struct gpt_shards *shards);

/* At the end of a training pass, before weir_zero_end(): hands gradients to the engine that were kept beside it. */
weir_status gpt_shards_join(struct gpt_shards *shards);

#endif
