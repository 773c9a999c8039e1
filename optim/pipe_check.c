/* SPDX-License-Identifier: BSD-3-Clause */
/* The checker: numbers, each stage by itself, then all of them together. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "optim/pipe.h"

static const char advice_lists[] = "weir_pipe_create() writes lists that are right";

weir_status wr_pipe_lists_valid(const weir_pipe_lists *l, weir_error *err)
{
    if (!l || l->size < sizeof *l)
        return wr_error_set(err, WEIR_ERR_INVALID, "set lists.size to sizeof(weir_pipe_lists)", "there are no lists");
    if (l->stages < 1 || l->stages > WR_PIPE_STAGES_MAX || l->microbatches < 1 || l->microbatches > WR_PIPE_MICROS_MAX ||
        l->chunks < 1 || l->chunks > WR_PIPE_CHUNKS_MAX || l->stages * l->chunks * l->microbatches > WR_PIPE_TOTAL_MAX)
        return wr_error_set(err, WEIR_ERR_INVALID, "at most 1024 stages, 65536 micro-batches, 64 chunks, 2^20 in all",
                            "%lld stages, %lld micro-batches and %lld chunks are out of range", (long long)l->stages,
                            (long long)l->microbatches, (long long)l->chunks);
    if ((l->placement != WEIR_PIPE_LOOP && l->placement != WEIR_PIPE_V) || (l->placement == WEIR_PIPE_V && l->chunks != 2))
        return wr_error_set(err, WEIR_ERR_INVALID, "WEIR_PIPE_LOOP, or WEIR_PIPE_V with two chunks",
                            "there is no placement %lld of %lld chunks", (long long)l->placement, (long long)l->chunks);
    if (l->zero < 0 || l->zero > 3 || l->buffers < 0 || l->max_unsharded < 0)
        return wr_error_set(err, WEIR_ERR_INVALID, "zero is 0 to 3, buffers and max_unsharded are at least 0",
                            "zero %lld, buffers %lld or max_unsharded %lld is out of range", (long long)l->zero,
                            (long long)l->buffers, (long long)l->max_unsharded);
    for (int s = 0; l->instrs && l->lengths && s < l->stages; s++)
        if (l->lengths[s] < 0 || (l->lengths[s] && !l->instrs[s]))
            return wr_error_set(err, WEIR_ERR_INVALID, advice_lists, "stage %d has no list", s);
    if (!l->instrs || !l->lengths)
        return wr_error_set(err, WEIR_ERR_INVALID, advice_lists, "the lists or their lengths are missing");
    return WEIR_OK;
}

/* The least number of buffers with which the lists come to their end; `enough` is one. */
static weir_status least_buffers(const weir_pipe_lists *lists, int64_t enough, int64_t *least, weir_error *err)
{
    int64_t low = 1, high = enough;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        struct wr_pipe_play play = {.lists = lists, .buffers = middle};
        weir_error ignored;
        weir_status status = wr_pipe_play(&play, &ignored);
        if (status == WEIR_ERR_NO_MEMORY)
            return wr_error_memory(err, 0, "the channels of a pipeline");
        if (status == WEIR_OK)
            high = middle;
        else
            low = middle + 1;
    }
    *least = high;
    return WEIR_OK;
}

/* What all stages do together; the least number of buffers only when it is asked for or needed. */
static weir_status check_together(const weir_pipe_lists *lists, bool asked, weir_pipe_report *report, weir_error *err)
{
    struct wr_pipe_play play = {.lists = lists};
    weir_status status = wr_pipe_play(&play, err);
    if (status == WEIR_OK && (asked || lists->buffers))
        status = least_buffers(lists, play.enough, &report->buffers_least, err);
    report->messages = play.messages;
    report->buffers_enough = play.enough;
    if (status == WEIR_OK && lists->buffers && lists->buffers < report->buffers_least) {
        struct wr_pipe_play bounded = {.lists = lists, .buffers = lists->buffers};
        weir_error reason;
        wr_error_reset(&reason);
        wr_pipe_play(&bounded, &reason);
        char advice[96];
        snprintf(advice, sizeof advice, "give each channel %lld or more", (long long)report->buffers_least);
        status = wr_error_set(err, WEIR_ERR_LIMIT, advice, "with %lld buffer%s a channel: %.400s", (long long)lists->buffers,
                              lists->buffers == 1 ? "" : "s", reason.message);
    }
    return status;
}

weir_status weir_pipe_check(const weir_pipe_lists *lists, weir_pipe_report *report, weir_pipe_stage_report *stages,
                            weir_error *error)
{
    weir_pipe_report all = {.size = sizeof all};
    weir_status status = wr_pipe_lists_valid(lists, error);
    for (int s = 0; status == WEIR_OK && s < lists->stages; s++) {
        weir_pipe_stage_report one = {0};
        status = wr_pipe_check_stage(lists, s, &one, error);
        if (stages)
            stages[s] = one;
        all.activations = WR_MAX(all.activations, one.activations);
        all.deferred = WR_MAX(all.deferred, one.deferred);
        all.unsharded = WR_MAX(all.unsharded, one.unsharded);
        all.gradients = WR_MAX(all.gradients, one.gradients);
    }
    if (status == WEIR_OK)
        status = check_together(lists, report != NULL, &all, error);
    if (status == WEIR_OK && report) {
        size_t size = WR_MIN(report->size, sizeof all);
        all.size = size;
        memcpy(report, &all, size);
    }
    return status;
}
