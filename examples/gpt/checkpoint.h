/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checkpoints: the parameters as model.NAME and the states of the update rule as optimizer.STATE.NAME, with GPT-2's names, and where the
 * run is. Each rank saves what it holds and reads what it needs, so a run goes on with other ranks, stages and ZeRO stages.
 */
#ifndef GPT_CHECKPOINT_H
#define GPT_CHECKPOINT_H

#include "examples/gpt/trainer.h"

struct gpt_checkpoint {
    weir_ckpt *ckpt; /* NULL: nothing is saved */
};

/* Opens the folder of --save, if there is one. Collective; false when that failed, which was said. */
bool gpt_checkpoint_open(struct gpt_checkpoint *checkpoint, struct gpt_trainer *trainer);
void gpt_checkpoint_close(struct gpt_checkpoint *checkpoint);

/* Saves. Collective; false when that failed, which was said. */
bool gpt_checkpoint_save(struct gpt_checkpoint *checkpoint, struct gpt_trainer *trainer);

/* Reads the last checkpoint of --resume, if that is given. Collective; false when that failed, which was said. */
bool gpt_checkpoint_resume(struct gpt_trainer *trainer);

/* Makes the model of what was saved last one safetensors file. Collective; false when that failed, which was said. */
bool gpt_checkpoint_export(struct gpt_trainer *trainer);

#endif
