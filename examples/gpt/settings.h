/* SPDX-License-Identifier: BSD-3-Clause */
/* What --config says of ZeRO, batch sizes, optimizer and schedule, together with the command line, which comes first. */
#ifndef GPT_SETTINGS_H
#define GPT_SETTINGS_H

#include "examples/gpt/job.h"
#include "examples/gpt/options.h"

struct gpt_settings {
    weir_zero_config *config; /* NULL: there is no file */
    weir_zero_options zero;   /* what the engine begins from; with an optimizer in the file its one group is the file's */
    weir_group group;         /* that group, as the command line has changed it */
    weir_schedule schedule;   /* and its learning rate */
    bool optimizer;           /* they are set */
};

/*
 * Reads the file, if there is one, and completes what the options leave open; what the command line changes of the file is said. The
 * ranks must have been arranged. Collective; false when it failed, and then the reason was said. To be freed by gpt_settings_free() in
 * any case.
 */
bool gpt_settings_read(struct gpt_settings *settings, struct gpt_job *job, struct gpt_options *options);
void gpt_settings_free(struct gpt_settings *settings);

#endif
