/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checkpoints: the parameters as param/NAME and the states of the update rule as STATE/NAME, as weir_zero_save() has it, with GPT-2's
 * names, and where the run is. The engines of all pipeline stages save to one: each rank gives what it holds and reads what it needs,
 * so a run goes on with other ranks, stages and ZeRO stages.
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

/*
 * Reads what --resume or --import name, if one is given: the last checkpoint, or the parameters alone from a file with GPT-2's names.
 * Collective; false when that failed, which was said.
 */
bool gpt_checkpoint_read(struct gpt_trainer *trainer);

/* Makes the model of what was saved last one safetensors file. Collective; false when that failed, which was said. */
bool gpt_checkpoint_export(struct gpt_trainer *trainer);

#endif
